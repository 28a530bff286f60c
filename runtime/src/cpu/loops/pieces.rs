//! Nests without aggregation in pieces: programs that each compute a part of the places.

use super::job::{Job, parallel};
use super::runner::Runner;
use crate::cpu::memory::{Launch, Operand, Output};
use std::ops::Range;
use tile_compiler::native::{self, NativeProgram};

/// The most pieces that are computed block by block. A piece of a block takes some time to begin.
const MOST_PIECES: usize = 16;

/// The places of a block, which are to stay in a core's cache until all pieces have been there.
const BLOCK: usize = 1 << 16;

/// A nest in pieces, ready to run.
pub struct Pieces {
    pieces: Vec<Piece>,
    /// The length of the first axis, if all pieces have the same. They are then computed together
    /// for some rows after others: what one piece leaves out of a cache line, another fills in.
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
        let rows = pieces.first().and_then(Piece::rows);
        let rows = rows.filter(|&rows| {
            pieces.len() <= MOST_PIECES && rows > 1 && pieces.iter().all(|piece| piece.has(rows))
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
        if let &Some(rows) = rows {
            let places: usize = pieces.iter().map(|piece| piece.program.places() / rows).sum();
            let work = |piece: &Piece| piece.work().saturating_mul(piece.units.len() / rows);
            let work = pieces.iter().map(work).fold(0, usize::saturating_add);
            parallel(
                0..rows,
                work,
                || jobs.iter().map(Job::streamer).collect::<Vec<_>>(),
                |machines, range| {
                    let size = (BLOCK / places.max(1)).max(1);
                    for start in range.clone().step_by(size) {
                        let end = range.end.min(start + size);
                        for ((piece, job), machine) in parts.clone().zip(&mut *machines) {
                            let row = piece.program.places() / rows;
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

    /// Returns whether the first axis has this length, and each of its rows whole units.
    fn has(&self, rows: usize) -> bool {
        self.rows() == Some(rows) && (self.program.places() / rows).is_multiple_of(self.unit())
    }
}
