//! Running a nest by vector loops.
//!
//! Places are computed in chunks of consecutive ones, in parallel. A reduction goes one of two ways, chosen by an estimate of the cost:
//! *across* places (for each reduction point in turn, its values at a chunk of places are added to as many sums), or *along* the
//! reduction (for each place, chunks of reduction points are folded to one value). Either way a float sum is made of
//! partial sums of bounded length, so that its error stays small however many terms it has.

use super::contraction;
use super::number::{Bool, Number, from_scalar, typed};
use super::shared::Shared;
use super::space::{Guards, Lines, Space};
use super::tape::{ACCUMULATOR, CHUNK, Machine, Tape, WRITTEN};
use super::vector::{self, Best};
use rayon::prelude::*;
use std::fmt;
use std::ops::Range;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::nest::{Nest, Output};
use tile_compiler::scalar::Value;

/// Why a nest did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// Not as many buffers as the nest has operands and outputs, or not as many steps as there are loops around it.
    Count,
    /// A buffer is smaller than its tensor, or not aligned.
    Buffer {
        /// What the tensor takes.
        bytes: usize,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Count => write!(f, "a nest was given more or fewer buffers or steps than it has"),
            RunError::Buffer { bytes } => {
                write!(f, "a buffer is not aligned to 8, or has not the {bytes} bytes of its tensor")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// Computes every output of `nest`, which must be verified, at `steps` of the loops around it: reads `operands` and
/// overwrites `outputs`, in the nest's order.
///
/// Each is the bytes of its tensor, row-major, [`DType::size`] bytes an element (a bool is one byte), or more;
/// aligned to 8 bytes (best to 64).
pub fn run(nest: &Nest, steps: &[usize], operands: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), RunError> {
    if operands.len() != nest.operands.len() || outputs.len() != nest.outputs.len() || steps.len() != nest.loops {
        return Err(RunError::Count);
    }
    let buffers = operands.iter().copied().chain(outputs.iter().map(|b| &**b));
    for (ty, buffer) in nest.operands.iter().chain(nest.outputs.iter().map(|output| &output.ty)).zip(buffers) {
        let bytes = ty.elements().saturating_mul(ty.dtype.size());
        if buffer.len() < bytes || buffer.as_ptr().align_offset(8) != 0 {
            return Err(RunError::Buffer { bytes });
        }
    }
    let free = Space::new(nest, 0..nest.free);
    let epilogue = Tape::new(nest, &nest.epilogue, &nest.epilogue.results, free, &[]);
    let place = nest.place();
    let sink = |(output, bytes): (&Output, _)| {
        let in_order = output.position == place;
        let lines = (!in_order).then(|| Lines::new(nest, &Space::new(nest, 0..nest.free), [&output.position]));
        Sink { bytes: Shared::new(bytes), lines }
    };
    let outputs = nest.outputs.iter().zip(outputs.iter_mut().map(|bytes| &mut **bytes)).map(sink).collect();
    let job = Job { nest, steps, operands, outputs, epilogue };
    match (nest.aggregation, nest.accumulator()) {
        (Some(aggregation), Some(dtype)) => {
            if !contraction::run(&job) {
                typed!(dtype, T => Reduction::<T>::new(&job, aggregation).run());
            }
        }
        _ => parallel(nest.places(), job.epilogue.len() + 1, |places| {
            let mut machine = Machine::new(&job.epilogue, &job);
            chunks(places).for_each(|chunk| job.finish(&mut machine, chunk));
        }),
    }
    Ok(())
}

/// A range in pieces of at most [`CHUNK`].
pub fn chunks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(CHUNK).map(move |start| start..range.end.min(start + CHUNK))
}

/// Calls `f` with ranges that make up `0..total`, on several threads if `total * work` operations are worth it.
pub fn parallel(total: usize, work: usize, f: impl Fn(Range<usize>) + Send + Sync) {
    /// Operations that take a thread about as long as it does to start one.
    const GRAIN: usize = 1 << 15;
    let threads = rayon::current_num_threads();
    let pieces = (threads * 4).min(total.saturating_mul(work) / GRAIN).min(total);
    if threads == 1 || pieces < 2 {
        return f(0..total);
    }
    let size = total.div_ceil(pieces);
    let size = if size > CHUNK { size.next_multiple_of(CHUNK) } else { size };
    (0..total.div_ceil(size))
        .into_par_iter()
        .with_max_len(1)
        .for_each(|piece| f(piece * size..total.min((piece + 1) * size)));
}

/// A nest, its buffers, and its epilogue, which ends every way of running it.
pub struct Job<'a> {
    pub nest: &'a Nest,
    /// Of the loops around the nest.
    pub steps: &'a [usize],
    pub operands: &'a [&'a [u8]],
    outputs: Vec<Sink<'a>>,
    pub epilogue: Tape<'a>,
}

/// Where the results of an epilogue go.
struct Sink<'a> {
    bytes: Shared<'a, u8>,
    /// The positions of the places; `None`: their own order.
    lines: Option<Lines>,
}

impl Job<'_> {
    /// Runs the epilogue for a chunk of places (its given registers are filled) and stores the results.
    ///
    /// Each place is to be finished by one thread only.
    pub fn finish(&self, epilogue: &mut Machine, places: Range<usize>) {
        let part = |output: usize| {
            let size = self.epilogue.dtype(self.epilogue.results[output]).size();
            let bytes = places.start * size..places.end * size;
            self.outputs[output].bytes.prefetch(bytes.clone());
            // SAFETY: places are split between threads, so that no other part in use holds these.
            unsafe { self.outputs[output].bytes.slice(bytes) }
        };
        let direct = match &self.outputs[..] {
            [sink] if sink.lines.is_none() => Some(part(0)),
            _ => None,
        };
        if epilogue.run_into(places.start, places.len(), direct) {
            return;
        }
        for (output, sink) in self.outputs.iter().enumerate() {
            let result = self.epilogue.results[output];
            match &sink.lines {
                None => part(output).copy_from_slice(epilogue.bytes(result)),
                Some(lines) => self.scatter(epilogue, sink, lines, places.clone(), result),
            }
        }
    }

    /// Stores the elements of `result` at their positions.
    fn scatter(&self, epilogue: &mut Machine, sink: &Sink, lines: &Lines, places: Range<usize>, result: Value) {
        let size = self.epilogue.dtype(result).size();
        let mut walker = epilogue.walker.clone();
        let values = epilogue.bytes(result);
        let space = Space::new(self.nest, 0..self.nest.free);
        lines.walk(&space, &mut walker, places.start, places.len(), |piece| {
            let values = &values[piece.at * size..(piece.at + piece.length) * size];
            let step = lines.steps[0];
            let run = if step == 1 { piece.length } else { 1 };
            for (number, values) in values.chunks_exact(run * size).enumerate() {
                let Ok(start) = usize::try_from(piece.values[0] + (number as i64) * step) else { return };
                // SAFETY: places are split between threads, and no two have one position.
                unsafe { sink.bytes.slice(start * size..(start + run) * size) }.copy_from_slice(values);
            }
        });
    }
}

/// Which points of a chunk count.
struct Counting {
    guards: Guards,
    counts: Vec<Bool>,
}

impl Counting {
    fn new(nest: &Nest, space: &Space) -> Self {
        Self { guards: Guards::new(nest, space.clone(), &nest.guards), counts: vec![Bool(0); CHUNK] }
    }

    /// The points that count of the last chunk, which `machine` has evaluated; `None`: all.
    fn of(&mut self, machine: &mut Machine, body: &Tape, chunk: &Range<usize>) -> Option<&[Bool]> {
        let all = self.guards.hold(&mut machine.walker, chunk, &mut self.counts);
        let counts = &mut self.counts[..chunk.len()];
        match (all, body.results.get(1)) {
            (true, None) => return None,
            (true, Some(&valid)) => counts.copy_from_slice(machine.value(valid)),
            (false, None) => {}
            (false, Some(&valid)) => {
                counts.iter_mut().zip(machine.value::<Bool>(valid)).for_each(|(c, valid)| c.0 &= (valid.0 != 0) as u8);
            }
        }
        Some(counts)
    }
}

/// A nest with an aggregation of values of type T.
struct Reduction<'a, T> {
    job: &'a Job<'a>,
    aggregation: Aggregation,
    identity: T,
    places: Space,
    points: Space,
}

/// What one place has so far: the aggregated value and whether a point counted; for the arg forms, the best.
type Partial<T> = Best<T>;

impl<'a, T: Number> Reduction<'a, T> {
    fn new(job: &'a Job<'a>, aggregation: Aggregation) -> Self {
        let nest = job.nest;
        let dtype = nest.accumulator().unwrap_or(DType::F32);
        Self {
            job,
            aggregation,
            identity: from_scalar(aggregation.identity(dtype)),
            places: Space::new(nest, 0..nest.free),
            points: Space::new(nest, nest.reduction()),
        }
    }

    fn arg(&self) -> bool {
        matches!(self.aggregation, Aggregation::ArgMax | Aggregation::ArgMin)
    }

    fn nothing(&self) -> Partial<T> {
        Partial { value: self.identity, position: 0, found: false }
    }

    /// The body over a space.
    fn body(&self, space: &Space) -> Tape<'a> {
        let nest = self.job.nest;
        Tape::new(nest, &nest.body, &nest.body.results, space.clone(), &nest.guards)
    }

    fn run(&self) {
        let (across, along) = (self.body(&self.places), self.body(&self.points));
        if self.cost(&across) <= self.cost(&along) || self.aggregation == Aggregation::Assign {
            let work = (across.len() + 1).saturating_mul(self.points.size);
            parallel(self.places.size, work, |places| self.across(&across, places));
        } else {
            self.along(&along);
        }
    }

    /// An estimate of the cost of one point, in operations on an element.
    fn cost(&self, body: &Tape) -> f64 {
        /// Starting a vector operation costs as much as it costs on so many elements.
        const START: f64 = 64.0;
        let length = body.points().min(CHUNK) as f64;
        let loads: f64 = body
            .strides()
            .map(|(step, run)| START / (run as f64).min(length) + if (0..=1).contains(&step) { 1.0 } else { 6.0 })
            .sum();
        loads + (body.len() + 1) as f64 * (1.0 + START / length)
    }

    /// Computes `places`: all points of the reduction in turn, each for a chunk of places at once.
    fn across(&self, body: &Tape, places: Range<usize>) {
        /// Terms of a partial sum.
        const BLOCK: usize = 256;
        let nest = self.job.nest;
        let mut machine = Machine::new(body, self.job);
        let mut epilogue = Machine::new(&self.job.epilogue, self.job);
        let mut counting = Counting::new(nest, &self.places);
        let mut positions = machine.walker.clone();
        let position = Lines::new(nest, &self.places, &nest.position);
        let blocked = T::FLOAT && self.aggregation == Aggregation::Sum && self.points.size > BLOCK;
        let mut block = [self.identity; CHUNK];
        let mut total = [self.identity; CHUNK];
        let mut best = vec![self.nothing(); if self.arg() { CHUNK } else { 0 }];
        for chunk in chunks(places) {
            let length = chunk.len();
            let written = &mut epilogue.given::<Bool>(WRITTEN)[..length];
            written.fill(Bool(0));
            block[..length].fill(self.identity);
            total[..length].fill(self.identity);
            best.fill(self.nothing());
            for point in 0..self.points.size {
                self.points.locate(point, &mut machine.walker.point);
                machine.run(chunk.start, length);
                let counts = counting.of(&mut machine, body, &chunk);
                let values = machine.value::<T>(body.results[0]);
                match counts {
                    None => written.fill(Bool(1)),
                    Some(counts) => written.iter_mut().zip(counts).for_each(|(w, c)| w.0 |= c.0),
                }
                if self.arg() {
                    self.points.locate(point, &mut positions.point);
                    position.walk(&self.places, &mut positions, chunk.start, length, |piece| {
                        for i in 0..piece.length {
                            let found = counts.is_none_or(|counts| counts[piece.at + i].0 != 0);
                            let position = (piece.values[0] + i as i64 * position.steps[0]) as i32;
                            let value = values[piece.at + i];
                            let greatest = self.aggregation == Aggregation::ArgMax;
                            best[piece.at + i].take(Partial { value, position, found }, greatest);
                        }
                    });
                    continue;
                }
                if !blocked {
                    vector::accumulate(self.aggregation, &mut total[..length], values, counts);
                    continue;
                }
                vector::accumulate(self.aggregation, &mut block[..length], values, counts);
                if point % BLOCK == BLOCK - 1 || point + 1 == self.points.size {
                    vector::accumulate(self.aggregation, &mut total[..length], &block[..length], None);
                    block[..length].fill(self.identity);
                }
            }
            if self.arg() {
                let to = epilogue.given::<i32>(ACCUMULATOR);
                to.iter_mut().zip(&best[..length]).for_each(|(to, best)| *to = best.position);
            } else {
                epilogue.given::<T>(ACCUMULATOR)[..length].copy_from_slice(&total[..length]);
            }
            self.job.finish(&mut epilogue, chunk);
        }
    }

    /// Computes all places, chunks of reduction points at once.
    fn along(&self, body: &Tape) {
        /// Points that one thread reduces without a break where places are few.
        const BLOCK: usize = 16 * CHUNK;
        let blocks = if self.places.size < 64 { self.points.size.div_ceil(BLOCK) } else { 1 };
        let block = self.points.size.div_ceil(blocks);
        let mut partials = vec![self.nothing(); self.places.size * blocks];
        let shared = Shared::new(&mut partials);
        parallel(self.places.size * blocks, (body.len() + 1).saturating_mul(block), |units| {
            let mut machine = Machine::new(body, self.job);
            let mut counting = Counting::new(self.job.nest, &self.points);
            for unit in units {
                let (place, start) = (unit / blocks, unit % blocks * block);
                self.places.locate(place, &mut machine.walker.point);
                let points = start..self.points.size.min(start + block);
                let partial = self.fold(body, &mut machine, &mut counting, points);
                // SAFETY: units are split between threads.
                let to = unsafe { shared.slice(unit..unit + 1) };
                to[0] = partial;
            }
        });
        parallel(self.places.size, self.job.epilogue.len() + blocks, |places| {
            let mut epilogue = Machine::new(&self.job.epilogue, self.job);
            for chunk in chunks(places) {
                for (i, place) in chunk.clone().enumerate() {
                    let parts = partials[place * blocks..(place + 1) * blocks].iter();
                    let whole = parts.fold(self.nothing(), |sum, part| self.combine(sum, *part));
                    epilogue.given::<Bool>(WRITTEN)[i] = Bool(whole.found as u8);
                    if self.arg() {
                        epilogue.given::<i32>(ACCUMULATOR)[i] = whole.position;
                    } else {
                        epilogue.given::<T>(ACCUMULATOR)[i] = whole.value;
                    }
                }
                self.job.finish(&mut epilogue, chunk);
            }
        });
    }

    fn combine(&self, mut a: Partial<T>, b: Partial<T>) -> Partial<T> {
        if self.arg() {
            a.take(b, self.aggregation == Aggregation::ArgMax);
            return a;
        }
        let value = vector::combine(self.aggregation, a.value, b.value);
        Partial { value, position: 0, found: a.found | b.found }
    }

    /// Aggregates `points` of the place that `machine` is set to.
    fn fold(&self, body: &Tape, machine: &mut Machine, counting: &mut Counting, points: Range<usize>) -> Partial<T> {
        let nest = self.job.nest;
        let mut whole = self.nothing();
        let mut walker = machine.walker.clone();
        for chunk in chunks(points) {
            machine.run(chunk.start, chunk.len());
            let counts = counting.of(machine, body, &chunk);
            let values = machine.value::<T>(body.results[0]);
            if self.arg() {
                let position = Lines::new(nest, &self.points, &nest.position);
                position.walk(&self.points, &mut walker, chunk.start, chunk.len(), |piece| {
                    for i in 0..piece.length {
                        let found = counts.is_none_or(|counts| counts[piece.at + i].0 != 0);
                        let position = (piece.values[0] + i as i64 * position.steps[0]) as i32;
                        let value = values[piece.at + i];
                        whole = self.combine(whole, Partial { value, position, found });
                    }
                });
            } else {
                let value = vector::fold(self.aggregation, self.identity, values, counts);
                let found = counts.is_none_or(|counts| counts.iter().any(|c| c.0 != 0));
                whole = self.combine(whole, Partial { value, position: 0, found });
            }
        }
        whole
    }
}
