//! Running aggregations, such as cumulative sums: at each place along an axis, one term is added to
//! the aggregate at the place before it.

use std::ops::Range;

use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::{self, Nest};

use super::space::Space;
use super::tape::Tape;

/// A running aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The aggregation.
    pub aggregation: Aggregation,
    /// The type of the values that are aggregated.
    pub dtype: DType,
    /// The free axis along which the aggregate runs.
    pub axis: usize,
    /// Whether it runs from the last place of the axis to the first.
    pub reversed: bool,
    /// The values of the axis at whose place a term is added. The others repeat the aggregate
    /// before them, which is the identity before the first term.
    pub added: Range<usize>,
    /// The term added at each place, over the places. Places that add none have any value.
    pub terms: Tape,
}

impl Running {
    /// Compiles a nest that aggregates values of type `dtype`, if it is a running aggregation.
    pub(super) fn new(nest: &Nest, aggregation: Aggregation, dtype: DType) -> Option<Self> {
        let nest::Running { axis, reversed, added, term } = nest.running()?;
        let places = Space::new(nest, 0..nest.free);
        let terms = Tape::new(nest, &term, &term.results, places, &[]);
        Some(Self { aggregation, dtype, axis, reversed, added, terms })
    }
}
