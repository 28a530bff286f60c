//! Nests without aggregation in pieces, each of which reads fewer operands.

use crate::nest::{self, Nest};
use crate::profile::Profile;

use super::program::NativeProgram;

/// A piece of a nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The operands of the whole program that the piece reads, in its order.
    pub operands: Vec<usize>,
    /// A pointwise program, whose outputs are those of the whole program.
    pub program: NativeProgram,
}

impl Piece {
    /// Compiles the pieces of a nest, if it has several.
    pub(super) fn all(nest: &Nest, profile: &Profile) -> Option<Vec<Piece>> {
        let compile = |nest::Piece { operands, nest }| Piece {
            operands,
            program: NativeProgram::with(&nest, profile, super::Implementation::Pointwise),
        };
        Some(nest.pieces()?.into_iter().map(compile).collect())
    }
}
