//! The memory that nests take beside their tensors: tables of places, packed operands, and what is
//! kept while a nest runs. A plan is refused by this before it allocates.
//!
//! Each is an upper bound for what grows with the sizes of the nest; what is small whatever they
//! are is left out.

use tile_compiler::native::{Factor, Implementation, NativeProgram, Product};

/// The entries below which tables are not worth counting.
const FEW: usize = 1 << 20;

/// Returns the bytes of the tables that [`super::Prepared::new`] makes of where operands lie.
pub fn tables(program: &NativeProgram) -> u64 {
    let Implementation::Product(product) = &program.implementation else { return 0 };
    let Product { batch, rows, columns, terms, left, right, guards, .. } = &**product;
    let [batch, rows, columns, terms] =
        [batch, rows, columns, terms].map(|axes| program.points(axes));
    if program.places().saturating_add(terms) < FEW {
        return 0;
    }
    let entries =
        [batch, rows, columns].into_iter().fold(terms.saturating_mul(2), usize::saturating_add);
    let conditions = [left, right].into_iter().map(|factor| match factor {
        Factor::Gathered { address, .. } => address.conditions.len(),
        Factor::Computed { .. } => 0,
    });
    // The offset and each condition have a table; so do about as many coordinates of a window. Four
    // more hold the places of results, and how many neighbours are evenly spaced, and one the terms
    // that may not count.
    let tables = 2 * (1 + conditions.sum::<usize>()) + 2 + 4 + usize::from(!guards.is_empty());
    (entries as u64).saturating_mul(8 * tables as u64)
}
