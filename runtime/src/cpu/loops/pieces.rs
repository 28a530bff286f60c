//! Nests without aggregation in pieces: programs that each compute a part of the places.

use super::job::{Job, parallel};
use super::runner::Runner;
use crate::cpu::memory::{Launch, Operand, Output};
use std::ops::Range;
use tile_compiler::native::{self, NativeProgram};

/// A nest in pieces, ready to run.
pub struct Pieces(Vec<Piece>);

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
        Self(pieces.iter().map(prepare).collect())
    }

    /// Computes all places.
    ///
    /// # Safety
    /// - The contract of [`Job::new`], for the places of all pieces.
    pub unsafe fn run<'a>(&self, launch: Launch<'a>, outputs: &'a [Output<'a>]) {
        let Self(pieces) = self;
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
        let units = pieces.last().map_or(0, |last| last.units.end);
        let work = |piece: &Piece| {
            let unit = piece.epilogue.row_length.unwrap_or(1);
            (piece.epilogue.operations + 1).saturating_mul(unit)
        };
        let work = pieces.iter().map(work).max().unwrap_or(1);
        parallel(
            0..units,
            work,
            || (),
            |(), units| {
                let first = pieces.partition_point(|piece| piece.units.end <= units.start);
                for (piece, job) in pieces.iter().zip(&jobs).skip(first) {
                    let Range { start, end } = piece.units;
                    if units.end <= start {
                        break;
                    }
                    let unit = piece.epilogue.row_length.unwrap_or(1);
                    let (from, to) = (units.start.max(start) - start, units.end.min(end) - start);
                    // SAFETY: `parallel` gives each unit to one thread.
                    unsafe { job.stream(&mut job.streamer(), from * unit..to * unit) };
                }
            },
        );
    }
}
