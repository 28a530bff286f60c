//! Sums at places that are known only at run time: the gradient of a gather, histograms, sums by
//! group.
//!
//! Example: `dW[v, d] = +(dY[n, d])` over the n where `Tokens[n] == v`. For each v only a few n
//! count. Before anything is added, they are collected from the tokens in one list for each v. So
//! the work grows with the points and with the places, not with their product.
//!
//! Always true: the points of a place are taken in order, whatever the number of threads.

use super::job::{Job, parallel};
use super::machine::Machine;
use super::reduction::{Reduction, Run, Sums};
use super::runner::Runner;
use crate::cpu::memory::{Launch, bytes};
use crate::cpu::vector::number::{Bool, Number, from_scalar, typed};
use std::ops::Range;
use tile_compiler::native::{self, ACCUMULATOR, CHUNK, WRITTEN};

/// A nest of this kind, ready to run.
pub struct Scatter {
    /// For each point, the index on one of the free axes at which the point counts.
    key: Runner,
    /// The nest without that condition.
    reduction: Reduction,
    /// The extent of that axis, and the number of places from one index to the next.
    rows: usize,
    row: usize,
    /// The operations to add a point to the row that it selects.
    cost_of_a_point: f64,
}

impl Scatter {
    /// Prepares a scatter.
    pub fn new(scatter: &native::Scatter) -> Self {
        let native::Scatter { key, reduction, rows, row } = scatter;
        Self {
            key: Runner::new(key.clone()),
            reduction: Reduction::new(reduction),
            rows: *rows,
            row: *row,
            cost_of_a_point: scatter.cost_of_a_point(),
        }
    }

    /// Returns the bytes of the lists of points that a run makes.
    pub fn working_bytes(&self) -> u64 {
        let of_points =
            bytes(&[self.key.space.size], size_of::<Option<usize>>() + size_of::<usize>());
        of_points.saturating_add(bytes(&[self.rows, 2], size_of::<usize>()))
    }

    /// Computes all places.
    pub fn run(&self, job: &Job) {
        let lists = Lists::new(&self.key, self.rows, job.launch);
        let each =
            self.cost_of_a_point * self.key.space.size as f64 / (self.rows * self.row) as f64;
        let work = job.epilogue.operations + 2 + each as usize;
        let Reduction { aggregation, dtype, .. } = self.reduction;
        typed!(dtype, T => {
            let identity: T = from_scalar(aggregation.identity(dtype));
            let run = Run { reduction: &self.reduction, job, aggregation, identity };
            let worker = || (job.finisher(), Sums::new(&run));
            parallel(0..job.program.places(), work, worker, |(epilogue, sums), places| {
                self.add(&run, &lists, epilogue, sums, places);
            });
        });
    }

    /// Computes some places.
    fn add<T: Number>(
        &self,
        run: &Run<T>,
        lists: &Lists,
        epilogue: &mut Machine,
        sums: &mut Sums<T>,
        places: Range<usize>,
    ) {
        // A chunk of the epilogue may be longer than one of the reduction.
        let longest = self.reduction.body.longest.min(CHUNK);
        for chunk in run.job.epilogue.chunks(places) {
            epilogue.given::<T>(ACCUMULATOR)[..chunk.len()].fill(run.identity);
            epilogue.given::<Bool>(WRITTEN)[..chunk.len()].fill(Bool(0));
            let mut start = chunk.start;
            while start < chunk.end {
                let row = start / self.row;
                let end = chunk.end.min((row + 1) * self.row).min(start + longest);
                let points = lists.of(row % self.rows);
                if !points.is_empty() {
                    sums.sum(start..end, points.iter().copied());
                    let part = start - chunk.start..end - chunk.start;
                    epilogue.given::<T>(ACCUMULATOR)[part.clone()]
                        .copy_from_slice(&sums.total[..end - start]);
                    epilogue.given::<Bool>(WRITTEN)[part]
                        .copy_from_slice(&sums.written[..end - start]);
                }
                start = end;
            }
            // SAFETY: `parallel` gives each place to one thread.
            unsafe { run.job.finish(epilogue, chunk) };
        }
    }
}

/// The points that select each row, in order.
struct Lists {
    /// The start of each row's list, and the end of the last one.
    starts: Vec<usize>,
    points: Vec<usize>,
}

impl Lists {
    fn new(key: &Runner, rows: usize, launch: Launch) -> Self {
        let mut named: Vec<Option<usize>> = Vec::with_capacity(key.space.size);
        let mut machine = key.machine(launch);
        let value = key.results[0];
        for chunk in key.chunks(0..key.space.size) {
            machine.run(chunk.start, chunk.len());
            typed!(key.dtype(value), T => {
                let row = |key: &T| usize::try_from(key.to_i64()).ok().filter(|row| *row < rows);
                named.extend(machine.value::<T>(value).iter().map(row));
            });
        }
        let mut starts = vec![0; rows + 1];
        named.iter().flatten().for_each(|row| starts[row + 1] += 1);
        (0..rows).for_each(|row| starts[row + 1] += starts[row]);
        let mut next = starts.clone();
        let mut points = vec![0; starts[rows]];
        for (point, row) in
            named.iter().enumerate().filter_map(|(point, row)| Some((point, (*row)?)))
        {
            points[next[row]] = point;
            next[row] += 1;
        }
        Self { starts, points }
    }

    fn of(&self, row: usize) -> &[usize] {
        &self.points[self.starts[row]..self.starts[row + 1]]
    }
}
