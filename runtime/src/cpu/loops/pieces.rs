//! Nests without aggregation in pieces: programs that each compute a part of the places.

use super::job::{Job, parallel};
use super::runner::Runner;
use crate::cpu::memory::{Launch, Operand, Output};
use crate::cpu::threads::pool;
use std::ops::Range;
use tile_compiler::native::{self, NativeProgram};

/// The most pieces that are computed block by block: each costs some time to begin, in each block.
const MOST_PIECES: usize = 16;

/// The most places of a block. Its memory stays in a core's cache from the first piece to the last.
const BLOCK: usize = 1 << 16;

/// A nest in pieces, ready to run.
pub struct Pieces {
    pieces: Vec<Piece>,
    /// The length of the first axis, if all pieces have the same and may be computed block by
    /// block: all pieces of some rows, then those of the next rows. A cache line to which several
    /// pieces write is then written to memory once.
    rows: Option<usize>,
}

struct Piece {
    /// The nest's operands that the piece reads.
    operands: Vec<usize>,
    program: NativeProgram,
    epilogue: Runner,
    /// Its units of work among those of all pieces. A unit is a place, or a row of places.
    units: Range<usize>,
}

impl Pieces {
    /// Prepares the pieces.
    pub fn new(pieces: &[native::Piece]) -> Self {
        let mut start = 0;
        let prepare = |native::Piece { operands, program }: &native::Piece| {
            let epilogue = Runner::new(program.epilogue.clone());
            let units = start..start + program.places() / epilogue.row_length.unwrap_or(1);
            start = units.end;
            Piece { operands: operands.clone(), program: program.clone(), epilogue, units }
        };
        let pieces: Vec<Piece> = pieces.iter().map(prepare).collect();
        let rows = pieces.first().and_then(Piece::rows).filter(|&rows| {
            let places: usize = pieces.iter().map(|piece| piece.places(rows)).sum();
            pieces.len() <= MOST_PIECES
                && pieces.iter().all(|piece| piece.has_rows(rows))
                // Pieces with one place a row lie one after the other.
                && (MOST_PIECES + 1..=BLOCK).contains(&places)
        });
        Self { pieces, rows }
    }

    /// Computes all places.
    ///
    /// # Safety
    /// - The contract of [`Job::new`], for the places of all pieces.
    pub unsafe fn run<'a>(&self, launch: Launch<'a>, outputs: &'a [Output<'a>]) {
        let Self { pieces, rows } = self;
        let operands: Vec<Vec<Operand>> = pieces
            .iter()
            .map(|piece| piece.operands.iter().map(|&number| launch.operands[number]).collect())
            .collect();
        let jobs: Vec<Job> = pieces
            .iter()
            .zip(&operands)
            .map(|(Piece { program, epilogue, .. }, operands)| {
                let launch = Launch { operands, steps: launch.steps };
                // SAFETY: the contract is the same. The pieces have different places.
                unsafe { Job::new(program, epilogue, launch, outputs) }
            })
            .collect();
        let parts = pieces.iter().zip(&jobs);
        // With few rows for each thread, the threads divide the pieces instead.
        if let Some(rows) = rows.filter(|&rows| rows >= 2 * pool::threads()) {
            let places: usize = pieces.iter().map(|piece| piece.places(rows)).sum();
            let work = |piece: &Piece| piece.work().saturating_mul(piece.units.len() / rows);
            let work = pieces.iter().map(work).fold(0, usize::saturating_add);
            parallel(
                0..rows,
                work,
                || jobs.iter().map(Job::streamer).collect::<Vec<_>>(),
                |machines, range| {
                    let size = BLOCK / places;
                    for start in range.clone().step_by(size) {
                        let end = range.end.min(start + size);
                        for ((piece, job), machine) in parts.clone().zip(&mut *machines) {
                            let row = piece.places(rows);
                            // SAFETY: `parallel` gives each row to one thread.
                            unsafe { job.stream(machine, start * row..end * row) };
                        }
                    }
                },
            );
            return;
        }
        let units = pieces.last().map_or(0, |last| last.units.end);
        let work = pieces.iter().map(Piece::work).max().unwrap_or(1);
        parallel(
            0..units,
            work,
            || (),
            |(), units| {
                let first = pieces.partition_point(|piece| piece.units.end <= units.start);
                for (piece, job) in parts.clone().skip(first) {
                    let Range { start, end } = piece.units;
                    if units.end <= start {
                        break;
                    }
                    let unit = piece.unit();
                    let (from, to) = (units.start.max(start) - start, units.end.min(end) - start);
                    // SAFETY: `parallel` gives each unit to one thread.
                    unsafe { job.stream(&mut job.streamer(), from * unit..to * unit) };
                }
            },
        );
    }
}

impl Piece {
    /// Returns the places of a unit.
    fn unit(&self) -> usize {
        self.epilogue.row_length.unwrap_or(1)
    }

    /// Returns about how many operations a unit takes.
    fn work(&self) -> usize {
        (self.epilogue.operations + 1).saturating_mul(self.unit())
    }

    /// Returns the length of the first axis.
    fn rows(&self) -> Option<usize> {
        self.program.epilogue.space.extents.first().copied()
    }

    /// Returns the places of a row, if the first axis has so many.
    fn places(&self, rows: usize) -> usize {
        self.program.places() / rows.max(1)
    }

    /// Returns whether the first axis has this length, and each of its rows whole units.
    fn has_rows(&self, rows: usize) -> bool {
        self.rows() == Some(rows) && self.places(rows).is_multiple_of(self.unit())
    }
}
