//! The memory that nests take beside their tensors: tables of places, packed operands, and what is
//! kept while a nest runs. A plan is refused by this before it allocates.
//!
//! Each is an upper bound for what grows with the sizes of the nest; what is small whatever they
//! are is left out.

use super::product::contraction::oriented;
use super::product::places::size;
use tile_compiler::nest::{Leaf, Nest};

/// The entries below which tables are not worth counting.
const FEW: usize = 1 << 20;

/// Returns the bytes of the tables that [`super::Prepared::new`] makes of where operands lie.
pub fn tables(nest: &Nest) -> u64 {
    if nest.places().saturating_add(nest.reduction_points()) < FEW {
        return 0;
    }
    let Some(roles) = oriented(nest) else { return 0 };
    let lengths = [&roles.batch, &roles.rows, &roles.columns].map(|axes| size(nest, axes));
    let terms = nest.reduction_points().saturating_mul(2);
    let entries = lengths.into_iter().fold(terms, usize::saturating_add);
    let conditions = nest.body.leaves().map(|leaf| match leaf {
        Leaf::Load(load) => load.when.len(),
        _ => 0,
    });
    let guards = roles.left_guards.len() + roles.right_guards.len() + conditions.max().unwrap_or(0);
    // The offset and each guard have a table; so do about as many coordinates of a window. Four
    // more hold the places of results, and how many neighbours are evenly spaced.
    let tables = 2 * (1 + guards) + 2 + 4;
    (entries as u64).saturating_mul(8 * tables as u64)
}
