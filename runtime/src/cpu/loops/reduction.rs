//! Aggregations by vector loops.
//!
//! Consecutive places are computed in chunks, in parallel. The native program has one of two loop
//! orders:
//! - *across* places: for each reduction point in turn, its values at a chunk of places are added
//!   to as many sums;
//! - *along* the reduction: for each place, chunks of reduction points are folded to one value.
//!
//! Either way, a float sum is made of partial sums of bounded length, so that its error stays small
//! however many terms it has. With few places, the reduction is divided into blocks for the
//! threads, in a way that depends on sizes alone.

use super::counting::Counting;
use super::dots::Dots;
use super::elements::{Rows, Window, WindowPieces};
use super::job::{Job, parallel};
use super::machine::Machine;
use super::ranks::Ranks;
use super::runner::Runner;
use super::scaled::ScaledDots;
use super::walk::Walker;
use crate::cpu::memory::{Shared, bytes};
use crate::cpu::threads::pool;
use crate::cpu::vector::number::{Bool, Number, from_scalar, typed};
use crate::cpu::vector::{self, Best, NOWHERE};
use std::ops::Range;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{self, ACCUMULATOR, CHUNK, Lines, Space, WRITTEN};

/// The terms of a partial sum.
const BLOCK: usize = 256;

/// The most partial results of blocks of a reduction that are kept at once.
const MOST_PARTIALS: usize = 1 << 20;

/// An aggregation, ready to run.
pub struct Reduction {
    pub aggregation: Aggregation,
    /// The type of the values that are aggregated.
    pub dtype: DType,
    pub places: Space,
    pub points: Space,
    /// The nest's body, over the places if `across`, else over the points.
    pub body: Runner,
    across: bool,
    /// The guards, and for the arg forms the position of a point, through the body's space.
    pub guards: Lines,
    pub position: Lines,
    /// The forms of aggregations of elements as they are.
    window: Option<Window>,
    rows: Option<Rows>,
    dots: Option<Dots>,
    scaled: Option<ScaledDots>,
    ranks: Option<Ranks>,
}

impl Reduction {
    /// Prepares an aggregation.
    pub fn new(reduction: &native::Reduction) -> Self {
        let (window, rows) = (Window::new(reduction), Rows::new(reduction));
        let native::Reduction {
            aggregation,
            dtype,
            places,
            points,
            body,
            across,
            guards,
            position,
            rank: _,
        } = reduction.clone();
        Self {
            aggregation,
            dtype,
            places,
            points,
            body: Runner::new(body),
            across,
            guards,
            position,
            window,
            rows,
            dots: Dots::new(reduction),
            scaled: ScaledDots::new(reduction),
            ranks: Ranks::new(reduction),
        }
    }

    /// Returns the bytes of partial results that a run keeps.
    pub fn working_bytes(&self) -> u64 {
        if let Some(ranks) = &self.ranks {
            return ranks.working_bytes(self.points.size, self.places.size);
        }
        let places =
            if self.across { self.places.size.min(16 * CHUNK) } else { self.places.size.min(64) };
        let partials =
            bytes(&[self.points.size.div_ceil(CHUNK), places], 1).min(MOST_PARTIALS as u64);
        partials.saturating_mul(size_of::<Partial<f64>>() as u64)
    }

    /// Computes some places.
    pub fn run(&self, job: &Job, places: Range<usize>) {
        let runs_scaled = |scaled: &ScaledDots| {
            let aggregation = self.aggregation;
            scaled.run(&Run { reduction: self, job, aggregation, identity: 0.0 }, places.clone())
        };
        if self.scaled.as_ref().is_some_and(runs_scaled) {
            return;
        }
        typed!(self.dtype, T => {
            let identity = from_scalar(self.aggregation.identity(self.dtype));
            let run = Run::<T> { reduction: self, job, aggregation: self.aggregation, identity };
            match &self.ranks {
                Some(ranks) => ranks.run(&run, places),
                None if self.across => run.across(places),
                None => run.along(places),
            }
        })
    }
}

/// A partial result for one place: the aggregated value, with a position if a point counted; or the
/// best point for the arg forms.
type Partial<T> = Best<T>;

/// Returns the position of a partial result that is not of the arg forms.
fn counted(counts: bool) -> i32 {
    if counts { 0 } else { NOWHERE }
}

/// One run, with values of type T.
pub struct Run<'a, T> {
    pub reduction: &'a Reduction,
    pub job: &'a Job<'a>,
    pub aggregation: Aggregation,
    pub identity: T,
}

impl<T: Number> Run<'_, T> {
    /// Returns whether it is of the arg forms.
    pub fn arg(&self) -> bool {
        matches!(self.aggregation, Aggregation::ArgMax | Aggregation::ArgMin)
    }

    fn nothing(&self) -> Partial<T> {
        Partial { value: self.identity, position: NOWHERE }
    }

    /// Takes all points of the reduction in turn, each for a chunk of places at once.
    fn across(&self, places: Range<usize>) {
        /// The points of a block of the reduction, and the most places for which it is divided into
        /// blocks.
        const BLOCK: usize = 1024;
        const FEW: usize = 16 * CHUNK;
        /// The places of a part that one thread takes, if there are enough.
        const LEAST: usize = 128;
        let Reduction { body, points, .. } = self.reduction;
        // Blocks are longer where there would be too many partial results.
        let most = (MOST_PARTIALS / places.len().max(1)).max(1);
        let block_size = BLOCK.max(points.size.div_ceil(most));
        let blocks = points.size.div_ceil(block_size);
        let assigns = self.aggregation == Aggregation::Assign;
        if blocks == 1 || places.len() > FEW || self.arg() || assigns {
            // Each point of the reduction begins anew for each part of the places.
            let threads = pool::threads();
            let parts = (places.len() / LEAST).clamp(threads, 16 * threads);
            let part = places.len().div_ceil(parts).max(1);
            let work = (body.operations + 1).saturating_mul(points.size).saturating_mul(part);
            let worker = || (self.job.finisher(), Sums::new(self));
            return parallel(0..places.len().div_ceil(part), work, worker, |worker, parts| {
                let (epilogue, sums) = worker;
                let end = places.end.min(places.start + parts.end * part);
                self.across_places(epilogue, sums, places.start + parts.start * part..end)
            });
        }
        // For each chunk of places, the sums of each block.
        let chunks: Vec<Range<usize>> = body.chunks(places.clone()).collect();
        let mut partials = vec![self.nothing(); blocks * places.len()];
        let shared = Shared::new(&mut partials);
        let work = (body.operations + 1).saturating_mul(block_size.saturating_mul(chunks[0].len()));
        let worker = || Sums::new(self);
        parallel(0..blocks * chunks.len(), work, worker, |sums, units| {
            for unit in units {
                let (block, chunk) = (unit / chunks.len(), &chunks[unit % chunks.len()]);
                let some = block * block_size..points.size.min((block + 1) * block_size);
                sums.sum(chunk.clone(), some);
                let start = block * places.len() + chunk.start - places.start;
                // SAFETY: each unit has its own range of `partials`, since it is one block and one
                // chunk, and one thread runs it.
                let to = unsafe { shared.slice(start..start + chunk.len()) };
                for (i, to) in to.iter_mut().enumerate() {
                    let position = counted(sums.written[i].0 != 0);
                    *to = Partial { value: sums.total[i], position };
                }
            }
        });
        let part =
            |place: usize, block: usize| partials[block * places.len() + place - places.start];
        self.join(places.clone(), blocks, part);
    }

    fn across_places(&self, epilogue: &mut Machine, sums: &mut Sums<T>, places: Range<usize>) {
        for chunk in self.reduction.body.chunks(places) {
            let length = chunk.len();
            sums.sum_all(chunk.clone());
            epilogue.given::<Bool>(WRITTEN)[..length].copy_from_slice(&sums.written[..length]);
            if self.arg() {
                let to = epilogue.given::<i32>(ACCUMULATOR);
                to.iter_mut().zip(&sums.best[..length]).for_each(|(to, best)| *to = (*best).max(0));
            } else {
                epilogue.given::<T>(ACCUMULATOR)[..length].copy_from_slice(&sums.total[..length]);
            }
            // SAFETY: `parallel` gives each place to one thread.
            unsafe { self.job.finish(epilogue, chunk) };
        }
    }

    /// Takes chunks of reduction points at once, place by place.
    fn along(&self, places: Range<usize>) {
        /// The points of a block that one thread reduces, if places are few.
        const BLOCK: usize = 16 * CHUNK;
        let Reduction { body, points, .. } = self.reduction;
        let blocks = if self.reduction.places.size < native::Reduction::FEW {
            points.size.div_ceil(BLOCK).clamp(1, MOST_PARTIALS / 64)
        } else {
            1
        };
        let block = points.size.div_ceil(blocks);
        let work = (body.operations + 1).saturating_mul(block);
        if T::FLOAT
            && let Some(dots) = &self.reduction.dots
            && let [Some(a), Some(b)] = dots.operands.map(|operand| self.plain(operand))
        {
            return self.in_rows(places, work, |at, chunk, (sums, _)| {
                dots.sum(at, [a, b], chunk, sums);
            });
        }
        let rows = self.reduction.rows.as_ref();
        let rows = rows.and_then(|rows| Some((rows, self.plain(rows.operand)?)));
        if let Some((rows, data)) = rows
            && blocks == 1
        {
            return self.in_rows(places, work, |at, chunk, results| {
                let some = (chunk, 0..points.size);
                rows.fold((self.aggregation, self.identity), at, data, some, results);
            });
        }
        if blocks == 1 {
            let worker = || (self.job.finisher(), Fold::new(self));
            return parallel(places, work, worker, |(epilogue, fold), places| {
                for chunk in self.job.epilogue.chunks(places) {
                    self.finish(epilogue, chunk, |place| fold.fold(place, 0..points.size));
                }
            });
        }
        let mut partials = vec![self.nothing(); places.len() * blocks];
        let shared = Shared::new(&mut partials);
        let worker = || Fold::new(self);
        parallel(0..places.len() * blocks, work, worker, |fold, units| {
            for unit in units {
                let (place, start) = (places.start + unit / blocks, unit % blocks * block);
                let some = start..points.size.min(start + block);
                let partial = match rows {
                    Some((rows, data)) if !self.arg() => {
                        fold.machine.walker.locate(points, 0);
                        let at = (&self.reduction.places, &mut fold.machine.walker);
                        let with = (self.aggregation, self.identity);
                        let value = rows.fold_one(with, at, data, place, some);
                        Partial { value, position: counted(true) }
                    }
                    _ => fold.fold(place, some),
                };
                // SAFETY: each unit has its own element, and one thread runs it.
                let to = unsafe { shared.slice(unit..unit + 1) };
                to[0] = partial;
            }
        });
        self.join(places.clone(), blocks, |place, block| {
            partials[(place - places.start) * blocks + block]
        });
    }

    /// Finishes places whose partial results are those of the blocks `0..blocks`.
    fn join(
        &self,
        places: Range<usize>,
        blocks: usize,
        part: impl Fn(usize, usize) -> Partial<T> + Sync,
    ) {
        let worker = || self.job.finisher();
        parallel(places, self.job.epilogue.operations + blocks, worker, |epilogue, places| {
            for chunk in self.job.epilogue.chunks(places) {
                self.finish(epilogue, chunk, |place| {
                    (0..blocks)
                        .fold(self.nothing(), |sum, block| self.combine(sum, part(place, block)))
                });
            }
        });
    }

    /// Runs the epilogue for a chunk of places. `whole` returns the aggregated value of a place.
    pub fn finish(
        &self,
        epilogue: &mut Machine,
        chunk: Range<usize>,
        mut whole: impl FnMut(usize) -> Partial<T>,
    ) {
        for (i, place) in chunk.clone().enumerate() {
            let whole = whole(place);
            epilogue.given::<Bool>(WRITTEN)[i] = Bool((whole.position >= 0) as u8);
            if self.arg() {
                epilogue.given::<i32>(ACCUMULATOR)[i] = whole.position.max(0);
            } else {
                epilogue.given::<T>(ACCUMULATOR)[i] = whole.value;
            }
        }
        // SAFETY: `parallel` gives each place to one thread.
        unsafe { self.job.finish(epilogue, chunk) };
    }

    fn combine(&self, mut a: Partial<T>, b: Partial<T>) -> Partial<T> {
        if self.arg() {
            a.take(b, self.aggregation == Aggregation::ArgMax);
            return a;
        }
        let value = vector::combine(self.aggregation, a.value, b.value);
        Partial { value, position: a.position.max(b.position) }
    }
}

/// The sums over points for a chunk of places at once.
pub struct Sums<'a, T> {
    run: &'a Run<'a, T>,
    machine: Machine<'a>,
    counting: Counting<'a>,
    positions: Walker,
    block: Vec<T>,
    /// The results; for the arg forms, the best values.
    pub total: Vec<T>,
    /// For each place, whether any point counted.
    pub written: Vec<Bool>,
    /// The positions of the best values.
    best: Vec<i32>,
    pieces: WindowPieces,
}

impl<'a, T: Number> Sums<'a, T> {
    pub fn new(run: &'a Run<'a, T>) -> Self {
        let machine = run.reduction.body.machine(run.job.launch);
        Self {
            run,
            counting: Counting::new(&run.reduction.body, &run.reduction.guards),
            positions: machine.walker.clone(),
            machine,
            block: vec![run.identity; CHUNK],
            total: vec![run.identity; CHUNK],
            written: vec![Bool(0); CHUNK],
            best: vec![NOWHERE; if run.arg() { CHUNK } else { 0 }],
            pieces: WindowPieces::default(),
        }
    }

    /// Sums all points at the places of a chunk: where the elements are, if that is possible.
    fn sum_all(&mut self, chunk: Range<usize>) {
        let run = self.run;
        let Reduction { places, points, window, .. } = run.reduction;
        let window = window.as_ref().and_then(|window| Some((window, run.plain(window.operand)?)));
        let Some((window, data)) = window else {
            return self.sum(chunk, 0..points.size);
        };
        let Self { machine, block, total, written, pieces, .. } = self;
        let length = chunk.len();
        let blocked = T::FLOAT && run.aggregation == Aggregation::Sum && points.size > BLOCK;
        total[..length].fill(run.identity);
        written[..length].fill(Bool(0));
        machine.walker.locate(points, 0);
        for start in (0..points.size).step_by(if blocked { BLOCK } else { points.size.max(1) }) {
            let some = start..if blocked { points.size.min(start + BLOCK) } else { points.size };
            let sums = if blocked { &mut *block } else { &mut *total };
            sums[..length].fill(run.identity);
            window.sum(
                run.aggregation,
                (places, &mut machine.walker),
                data,
                (chunk.clone(), some),
                (sums, written),
                pieces,
            );
            if blocked {
                vector::accumulate(run.aggregation, &mut total[..length], &block[..length], None);
            }
        }
    }

    /// Sums the points with these numbers, at the places of a chunk.
    pub fn sum(&mut self, chunk: Range<usize>, points: impl ExactSizeIterator<Item = usize>) {
        let run = self.run;
        let Reduction { body, points: space, places, position, .. } = run.reduction;
        let Self { machine, counting, positions, block, total, written, best, .. } = self;
        let (length, count) = (chunk.len(), points.len());
        let blocked = T::FLOAT && run.aggregation == Aggregation::Sum && count > BLOCK;
        written[..length].fill(Bool(0));
        block[..length].fill(run.identity);
        total[..length].fill(run.identity);
        best.fill(NOWHERE);
        for (number, point) in points.enumerate() {
            machine.walker.locate(space, point);
            machine.run(chunk.start, length);
            let counts = counting.of(machine, &chunk);
            let values = machine.value::<T>(body.results[0]);
            match counts {
                None => written[..length].fill(Bool(1)),
                Some(counts) => written.iter_mut().zip(counts).for_each(|(w, c)| w.0 |= c.0),
            }
            if run.arg() {
                let greatest = run.aggregation == Aggregation::ArgMax;
                positions.locate(space, point);
                positions.walk(places, position, chunk.start, length, |piece| {
                    let part = piece.at..piece.at + piece.length;
                    let best = (&mut total[part.clone()], &mut best[part.clone()]);
                    let counts = counts.map(|counts| &counts[part.clone()]);
                    let at = [piece.values[0] as i32, position.steps[0] as i32];
                    vector::take_each(greatest, best, &values[part.clone()], counts, at[0], at[1]);
                });
                continue;
            }
            if !blocked {
                vector::accumulate(run.aggregation, &mut total[..length], values, counts);
                continue;
            }
            vector::accumulate(run.aggregation, &mut block[..length], values, counts);
            if (number + 1).is_multiple_of(BLOCK) || number + 1 == count {
                vector::accumulate(run.aggregation, &mut total[..length], &block[..length], None);
                block[..length].fill(run.identity);
            }
        }
    }
}

/// The fold over points for one place.
struct Fold<'a, T> {
    run: &'a Run<'a, T>,
    machine: Machine<'a>,
    counting: Counting<'a>,
    positions: Walker,
}

impl<'a, T: Number> Fold<'a, T> {
    fn new(run: &'a Run<'a, T>) -> Self {
        let machine = run.reduction.body.machine(run.job.launch);
        let positions = machine.walker.clone();
        Self {
            run,
            counting: Counting::new(&run.reduction.body, &run.reduction.guards),
            positions,
            machine,
        }
    }

    fn fold(&mut self, place: usize, points: Range<usize>) -> Partial<T> {
        let run = self.run;
        let Reduction { body, points: space, places, position, .. } = run.reduction;
        let Self { machine, counting, positions, .. } = self;
        machine.walker.locate(places, place);
        positions.locate(places, place);
        let mut whole = run.nothing();
        for chunk in body.chunks(points) {
            machine.run(chunk.start, chunk.len());
            let counts = counting.of(machine, &chunk);
            let values = machine.value::<T>(body.results[0]);
            if run.arg() {
                positions.walk(space, position, chunk.start, chunk.len(), |piece| {
                    let part = piece.at..piece.at + piece.length;
                    let counts = counts.map(|counts| &counts[part.clone()]);
                    let at = [piece.values[0] as i32, position.steps[0] as i32];
                    let greatest = run.aggregation == Aggregation::ArgMax;
                    let best = vector::best_of(
                        greatest,
                        run.identity,
                        &values[part],
                        counts,
                        at[0],
                        at[1],
                    );
                    whole = run.combine(whole, best);
                });
            } else {
                let value = vector::fold(run.aggregation, run.identity, values, counts);
                let found = counts.is_none_or(|counts| counts.iter().any(|c| c.0 != 0));
                whole = run.combine(whole, Partial { value, position: counted(found) });
            }
        }
        whole
    }
}
