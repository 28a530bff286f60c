//! The end of a product: the nest's epilogue, on finished tiles.
//!
//! If few consecutive places are finished together, as the columns of one head, the sums wait in
//! the output until all are made. The epilogue then runs on whole chunks.

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
        if self.waiting.is_none() && runs[tile.columns.start] as usize >= width {
            let all = tile.rows.clone();
            let (data, apart) = tile.part(all.clone());
            let lines = Rows { start: data.as_ptr().cast(), step: apart };
            // SAFETY: the sums have the size of their elements. A product stores each element once,
            // and each is another place.
            let is_done = unsafe {
                let start = (batch[tile.batch] + columns[tile.columns.start], width);
                self.contraction.finish_fused(self.job, machine, all.clone(), start, lines)
            };
            if is_done {
                return;
            }
            // Rows with consecutive places are finished together.
            let mut first = all.start;
            while first < all.end {
                let count = self.contraction.evenly(first..all.end, width);
                let place = place(first, tile.columns.start);
                // SAFETY: a product stores each element once, and each is another place.
                tile.together(first..first + count, |tile| unsafe {
                    self.job.complete(machine, place, sums(tile))
                });
                first += count;
            }
            return;
        }
        for (row, line) in tile.iter() {
            let mut done = 0;
            while done < line.len() {
                let column = tile.columns.start + done;
                let run = (runs[column] as usize).min(line.len() - done);
                let (first, some) = (place(row, column), &line[done..done + run]);
                // SAFETY: a product stores each element once, and each is another place.
                unsafe {
                    match self.waiting {
                        Some(waiting) => {
                            vector::copy_short(some, waiting.places::<T>(first..first + run));
                        }
                        None => self.job.complete(machine, first, sums(some)),
                    }
                }
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

impl Contraction {
    /// Returns the number of rows at the start of a range whose places are so far apart.
    fn evenly(&self, rows: Range<usize>, step: usize) -> usize {
        let follows = |row: &usize| self.rows[*row] == self.rows[row - 1].wrapping_add(step);
        1 + (rows.start + 1..rows.end).take_while(follows).count()
    }

    /// Applies the nest's epilogue to the sums of a tile, if it has the fused form. Returns whether
    /// it has. `start` is the place of the tile's first column, without the term of the row, and
    /// the number of columns, whose places are consecutive. No generic code, which would be
    /// compiled for each type of sums.
    ///
    /// # Safety
    /// - If the epilogue has the fused form, the sums are f32s, and readable for the tile.
    /// - All places must be those of the nest, and nobody else may compute them.
    unsafe fn finish_fused(
        &self,
        job: &Job,
        machine: &Machine,
        rows: Range<usize>,
        (start, width): (usize, usize),
        sums: Rows<*const f32>,
    ) -> bool {
        if !FusedEpilogue::suits(job, 0, width) {
            return false;
        }
        let Some(epilogue) = FusedEpilogue::new(job, machine) else { return false };
        let mut first = rows.start;
        while first < rows.end {
            let next = self.rows.get(first + 1);
            let step = next.and_then(|next| next.checked_sub(self.rows[first])).unwrap_or(0);
            let repeats = epilogue.repeats_after(step);
            let count = if repeats { self.evenly(first..rows.end, step) } else { 1 };
            let line = sums.start.wrapping_add((first - rows.start) * sums.step);
            let (place, sums) = (start + self.rows[first], Rows { start: line, ..sums });
            // SAFETY: the contract is the same for some of the rows.
            unsafe { epilogue.finish(place, step, [count, width], sums) };
            first += count;
        }
        true
    }
}
