//! Running aggregations, such as cumulative sums: at each place along an axis, one term is added to
//! the aggregate at the place before it.
//!
//! The aggregates of the places within the axis run side by side, in vectors. Sums and products of
//! f32 run in f64.
//!
//! Always true: the order in which terms are taken does not depend on the number of threads. It is
//! that of the axis, except for a single sum, maximum or minimum, which is taken in parts.

use super::job::{Job, parallel};
use super::machine::Machine;
use super::runner::Runner;
use crate::cpu::threads::pool;
use crate::cpu::vector::number::{Bool, Number, from_scalar, typed};
use crate::cpu::vector::{self, Line, strip};
use bytemuck::Pod;
use std::ops::Range;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{self, ACCUMULATOR, CHUNK, Tape, WRITTEN};

/// A running aggregation, ready to run.
pub struct Running {
    aggregation: Aggregation,
    dtype: DType,
    /// The term of each place.
    terms: Runner,
    /// The axis, with all the places within it side by side.
    line: Line,
    /// The points of a row, in one of which each chunk lies: a multiple or a divisor of the line's
    /// width.
    row: usize,
    tracks_written: bool,
}

/// The fewest aggregates side by side for which threads divide them.
const NARROWEST: usize = 64;

impl Running {
    /// Prepares a running aggregation with this epilogue.
    pub fn new(running: &native::Running, epilogue: &Tape) -> Self {
        let native::Running { aggregation, dtype, axis, reversed, added, terms } = running;
        let extents = &terms.space.extents[axis - terms.space.first..];
        let line = Line {
            width: extents[1..].iter().product(),
            length: extents[0],
            reversed: *reversed,
            added: added.clone(),
        };
        Self {
            aggregation: *aggregation,
            dtype: *dtype,
            line,
            row: [terms.row, epilogue.row].into_iter().flatten().min().unwrap_or(usize::MAX),
            tracks_written: epilogue.given.iter().any(|(_, register)| *register == WRITTEN),
            terms: Runner::new(terms.clone()),
        }
    }

    /// Computes all places.
    pub fn run(&self, job: &Job) {
        let Self { aggregation, dtype, .. } = *self;
        let identity = aggregation.identity(dtype);
        if dtype == DType::F32 && matches!(aggregation, Aggregation::Sum | Aggregation::Product) {
            let identity = from_scalar::<f32>(identity).into();
            return self.run_with(job, identity, |line, place, terms: &[f32], values, sums| {
                vector::run_along_f32(aggregation, line, place, identity, terms, values, sums);
            });
        }
        typed!(dtype, T => {
            let identity: T = from_scalar(identity);
            self.run_with(job, identity, |line, place, terms: &[T], values, sums| {
                vector::run_along(aggregation, line, place, identity, terms, values, sums);
            });
        });
    }

    /// Computes all places. `along` computes aggregates from terms, given those before them.
    fn run_with<T: Number, S: Pod + Send + Sync>(
        &self,
        job: &Job,
        identity: S,
        along: impl Fn(&Line, usize, &[T], &mut [T], &mut [S]) + Sync,
    ) {
        let Line { width, length, reversed, .. } = self.line;
        let parts = self.parts(job.program.places());
        let part = parts.iter().map(Range::len).max().unwrap_or(1);
        let lines = job.program.places() / (length * width);
        let work = (self.terms.operations + job.epilogue.operations + 4) * length * part;
        let to_next = if reversed { -(width as isize) } else { width as isize };
        let worker = || (job.finisher(), self.terms.machine(job.launch), vec![identity; part]);
        parallel(0..lines * parts.len(), work, worker, |(epilogue, terms, sums), units| {
            let mut step = |line: &Line, place: usize, chunk: Range<usize>| {
                terms.run(chunk.start, chunk.len());
                let found = terms.value::<T>(self.terms.results[0]);
                if let Some(start) = job.direct::<T>(chunk.clone()) {
                    // SAFETY: `direct` returns memory for the chunk's values. `parallel` gives each
                    // place to one thread.
                    let values = unsafe { std::slice::from_raw_parts_mut(start, chunk.len()) };
                    if line.width < width {
                        // The next row is far away, so that the processor does not fetch it ahead.
                        let bytes = size_of_val(found);
                        let next = found.as_ptr().wrapping_offset(to_next).cast();
                        strip::prefetch_all::<false>(next, bytes);
                        strip::prefetch_all::<true>(start.wrapping_offset(to_next).cast(), bytes);
                    }
                    return along(line, place, found, values, &mut sums[..line.width]);
                }
                let values = &mut epilogue.given::<T>(ACCUMULATOR)[..chunk.len()];
                along(line, place, found, values, &mut sums[..line.width]);
                self.finish(job, epilogue, line, chunk);
            };
            if parts.len() == 1 {
                let (start, end) = (units.start * length * width, units.end * length * width);
                return self.groups(start..end, |place, chunk| step(&self.line, place, chunk));
            }
            // A part of a line does not have consecutive places.
            for unit in units {
                let first = unit / parts.len() * length * width;
                let part = &parts[unit % parts.len()];
                let line = Line { width: part.len(), ..self.line.clone() };
                for number in 0..length {
                    let place = if reversed { length - 1 - number } else { number };
                    let start = first + place * width;
                    step(&line, place, start + part.start..start + part.end);
                }
            }
        });
    }

    /// Divides the aggregates side by side into parts, each of which is in one chunk. If there are
    /// few lines, they are parts for the threads.
    fn parts(&self, places: usize) -> Vec<Range<usize>> {
        let Line { width, length, .. } = self.line;
        let threads = pool::threads();
        let is_one = places / (length * width) >= 2 * threads;
        let count = if is_one { 1 } else { threads.min(width / NARROWEST).max(1) };
        let most = width.div_ceil(count).next_multiple_of(16).min(CHUNK);
        let row = self.row.min(width);
        let rows = (0..width).step_by(row);
        let parts = rows.flat_map(|row_start| {
            let end = row_start + row;
            (row_start..end).step_by(most).map(move |start| start..end.min(start + most))
        });
        parts.collect()
    }

    /// Visits whole groups of aggregates in running order, in chunks of consecutive places. `visit`
    /// gets the number of the first group on the axis. A chunk has whole lines or lies in one, so
    /// that a line is divided in the same way whatever places there are before it.
    fn groups(&self, places: Range<usize>, mut visit: impl FnMut(usize, Range<usize>)) {
        let Line { width, length, reversed, .. } = self.line;
        let size = length * width;
        let most = if size <= CHUNK { CHUNK / size * size } else { CHUNK / width * width };
        let is_part = |place: usize| size > CHUNK || !place.is_multiple_of(size);
        let Range { mut start, mut end } = places;
        while start < end {
            let (group, chunk) = if reversed {
                let row = (end - 1) / self.row * self.row;
                let line = if is_part(end) { (end - 1) / size * size } else { 0 };
                let first = end.saturating_sub(most).max(start).max(row).max(line);
                let chunk = first..end;
                end = first;
                (chunk.end / width - 1, chunk)
            } else {
                let row = (start / self.row).saturating_add(1).saturating_mul(self.row);
                let line = if is_part(start) { (start / size + 1) * size } else { usize::MAX };
                let last = end.min(start + most).min(row).min(line);
                let chunk = start..last;
                start = last;
                (chunk.start / width, chunk)
            };
            visit(group % length, chunk);
        }
    }

    /// Runs the epilogue on the aggregates of a chunk.
    fn finish(&self, job: &Job, epilogue: &mut Machine, line: &Line, chunk: Range<usize>) {
        if self.tracks_written {
            let Line { width, length, reversed, added } = &self.line;
            let written = epilogue.given::<Bool>(WRITTEN)[..chunk.len()].chunks_mut(line.width);
            for (number, written) in written.enumerate() {
                let place = (chunk.start / width + number) % length;
                let has = if *reversed { place < added.end } else { place >= added.start };
                written.fill(Bool(has.into()));
            }
        }
        // SAFETY: `parallel` gives each place to one thread.
        unsafe { job.finish(epilogue, chunk) };
    }
}
