//! Nests that write only the rows of an operand for which a condition holds.

use super::job::{Job, parallel};
use super::runner::Runner;
use crate::cpu::memory::scratch;
use std::ops::Range;
use tile_compiler::native::{self, CHUNK};

/// A nest of this kind, ready to run.
pub struct Update {
    /// For each row, whether it changes.
    changes: Runner,
    /// The number of places of a row.
    row: usize,
}

impl Update {
    /// Prepares an update.
    pub fn new(update: &native::Update) -> Self {
        Self { changes: Runner::new(update.changes.clone()), row: update.row }
    }

    /// Returns the bytes of the conditions.
    pub fn working_bytes(&self) -> u64 {
        self.changes.space.size as u64
    }

    /// Computes the rows that change.
    pub fn run(&self, job: &Job) {
        let rows = self.changes.space.size;
        scratch::with(rows, |changed: &mut [u8]| {
            let mut machine = self.changes.machine(job.launch);
            for chunk in self.changes.chunks(0..rows) {
                machine.run(chunk.start, chunk.len());
                changed[chunk].copy_from_slice(machine.bytes(self.changes.results[0]));
            }
            let changed = &changed[..];
            let some = changed.iter().filter(|change| **change != 0).count();
            // On average over all rows.
            let work = (job.epilogue.operations + 1).saturating_mul(self.row * some);
            let work = work / rows.max(1) + 1;
            parallel(
                0..rows,
                work,
                || job.finisher(),
                |machine, rows| {
                    for run in self.runs(changed, rows) {
                        // SAFETY: `parallel` gives each row to one thread, and runs have no row in
                        // common.
                        unsafe { job.stream(machine, run.start * self.row..run.end * self.row) };
                    }
                },
            );
        });
    }

    /// Returns runs of rows with all that change. Between those that are close together, some that
    /// do not change are computed as well, which takes less time than another run.
    fn runs(&self, changed: &[u8], rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let close = CHUNK / self.row;
        let mut changing = rows.filter(|&row| changed[row] != 0).peekable();
        std::iter::from_fn(move || {
            let start = changing.next()?;
            let mut end = start + 1;
            while let Some(next) = changing.next_if(|&next| next - end <= close) {
                end = next + 1;
            }
            Some(start..end)
        })
    }
}
