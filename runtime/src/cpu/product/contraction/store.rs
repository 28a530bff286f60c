//! The end of a product: the nest's epilogue, on finished tiles.
//!
//! Where few consecutive places are finished together, as the columns of one head, the sums wait in
//! the output until all are made, so that the epilogue runs on whole chunks.

use super::{Bound, Contraction};
use crate::cpu::loops::fused::{FusedEpilogue, Rows};
use crate::cpu::loops::job::{Job, Waiting};
use crate::cpu::loops::machine::Machine;
use crate::cpu::product::gemm::{Element, Right, Store, Tile};
use crate::cpu::threads::idle::Idle;
use crate::cpu::vector;
use std::ops::Range;

/// The store that runs the nest's epilogue on finished tiles.
pub struct Epilogue<'a, T> {
    pub job: &'a Job<'a>,
    pub contraction: &'a Contraction,
    pub left: &'a Bound<'a, T>,
    pub right: Right<'a, Bound<'a, T>>,
    /// The memory where sums wait until all are made, if the epilogue does not run on tiles.
    pub waiting: Option<Waiting<'a>>,
    pub idle: Idle<Machine<'a>>,
}

// SAFETY: `Job::direct` and `Waiting` have memory for all places of these rows × columns. Nobody
// else computes these places, since a product stores each element once, and each is another place.
unsafe impl<'a, T: Element> Store<T> for Epilogue<'a, T> {
    type Worker = Machine<'a>;

    fn worker(&self) -> Self::Worker {
        self.idle.take(|| self.job.finisher())
    }

    fn done(&self, machine: Self::Worker) {
        self.idle.give(machine);
    }

    fn store(&self, machine: &mut Self::Worker, tile: Tile<T>) {
        let sums = bytemuck::cast_slice::<T, T::Sum>;
        let Contraction { size, guarded, batch, rows, columns, runs, .. } = self.contraction;
        let repaired = guarded.as_ref().and_then(|guarded| {
            guarded.repair(&tile, *size, self.left, self.right, self.job.launch.steps)
        });
        let tile = tile.with(repaired.as_deref());
        let width = tile.columns.len();
        let place = |row: usize, column: usize| batch[tile.batch] + rows[row] + columns[column];
        let consecutive = runs[tile.columns.start] as usize >= width;
        // The number of rows from `first` on whose places are so far apart.
        let even = |first: usize, step: usize| {
            let follows = |row: &usize| rows[*row] == rows[row - 1].wrapping_add(step);
            1 + (first + 1..tile.rows.end).take_while(follows).count()
        };
        if let Some(waiting) = self.waiting {
            for (row, sums) in tile.iter() {
                let mut done = 0;
                while done < sums.len() {
                    let column = tile.columns.start + done;
                    let run = (runs[column] as usize).min(sums.len() - done);
                    let first = place(row, column);
                    // SAFETY: a product stores each element once, and each is another place.
                    let to = unsafe { waiting.places::<T>(first..first + run) };
                    vector::copy_short(&sums[done..done + run], to);
                    done += run;
                }
            }
            return;
        }
        let mut first = tile.rows.start;
        if consecutive
            && FusedEpilogue::suits(self.job, 0, width)
            && let Some(epilogue) = FusedEpilogue::new(self.job, machine)
        {
            while first < tile.rows.end {
                let step = rows.get(first + 1).and_then(|next| next.checked_sub(rows[first]));
                let step = step.unwrap_or(0);
                let repeats = epilogue.repeats_after(step);
                let count = if repeats { even(first, step) } else { 1 };
                let place = place(first, tile.columns.start);
                let (part, apart) = tile.part(first..first + count);
                let part = Rows { start: sums(part).as_ptr().cast(), step: apart };
                // SAFETY: the sums are f32s, since the epilogue has the fused form. A product
                // stores each element once, and each is another place of the nest.
                unsafe { epilogue.finish(place, step, [count, width], part) };
                first += count;
            }
            return;
        }
        if consecutive {
            // Rows with consecutive places are finished together.
            while first < tile.rows.end {
                let count = even(first, width);
                let place = place(first, tile.columns.start);
                // SAFETY: a product stores each element once, and each is another place.
                tile.together(first..first + count, |tile| unsafe {
                    self.job.complete(machine, place, sums(tile))
                });
                first += count;
            }
            return;
        }
        for (row, sums) in tile.iter().map(|(row, line)| (row, sums(line))) {
            let mut done = 0;
            while done < sums.len() {
                let column = tile.columns.start + done;
                let run = (runs[column] as usize).min(sums.len() - done);
                // SAFETY: a product stores each element once, and each is another place.
                unsafe { self.job.complete(machine, place(row, column), &sums[done..done + run]) };
                done += run;
            }
        }
    }

    fn place(
        &self,
        batch: usize,
        of_rows: Range<usize>,
        of_columns: Range<usize>,
    ) -> Option<(*mut T, usize)> {
        let Contraction { guarded, batch: batches, rows, columns, runs, .. } = self.contraction;
        let (rows, first_column) = (&rows[of_rows], of_columns.start);
        let stride = rows.get(1).map_or(0, |second| second.wrapping_sub(rows[0]));
        let is_even = rows.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == stride);
        if (runs[first_column] as usize) < of_columns.len()
            || !is_even
            || guarded.is_some()
            || rows.last() < rows.first()
        {
            return None;
        }
        let place = |row: usize| batches[batch] + row + columns[first_column];
        let places = place(rows[0])..place(rows[rows.len() - 1]) + of_columns.len();
        let start = match self.waiting {
            Some(waiting) => waiting.start(places),
            None => self.job.direct(places)?,
        };
        Some((start, stride))
    }
}
