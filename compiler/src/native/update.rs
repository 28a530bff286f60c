//! Nests that change only some rows of the operand that their output overwrites.
//!
//! Example: `C' = index(C, 1) == Position ? K : C` over a cache `C`. One condition holds for all
//! elements of a row, and only the rows where it holds are computed and written.

use crate::nest::Nest;
use crate::scalar::UnaryOp;

use super::space::Space;
use super::tape::Tape;

/// The shortest row whose condition is worth a look of its own.
const SHORTEST_ROW: usize = 16;

/// A nest of this kind, which has no aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// For each row, whether it changes.
    pub changes: Tape,
    /// The number of places of a row.
    pub row: usize,
}

impl Update {
    /// Compiles the condition of a nest, if it is of this kind. `epilogue` is the nest's.
    pub(super) fn new(nest: &Nest, epilogue: &Tape) -> Option<Self> {
        let update = nest.partial()?;
        let axes = &nest.dependencies(&nest.epilogue)[update.condition];
        let rows = (0..nest.free).rev().find(|&axis| axes[axis]).map_or(0, |axis| axis + 1);
        let row = nest.points(rows..nest.free);
        if row < SHORTEST_ROW || !row.is_multiple_of(epilogue.unit()) {
            return None;
        }
        // The condition reads nothing that the output overwrites.
        let mut program = nest.epilogue.clone();
        let changes = match update.when {
            true => update.condition,
            false => program.unary(UnaryOp::BitNot, update.condition),
        };
        program.results = vec![changes];
        let mut conditions = nest.clone();
        conditions.outputs.clear();
        let space = Space::new(nest, 0..rows);
        Some(Self { changes: Tape::new(&conditions, &program, &[changes], space, &[]), row })
    }
}
