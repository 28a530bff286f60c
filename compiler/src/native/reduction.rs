//! Aggregations by vector loops, in one of two orders:
//!
//! - *across* places: for each reduction point in turn, its values at a chunk of places are added
//!   to as many sums;
//! - *along* the reduction: for each place, chunks of reduction points are folded to one value.
//!
//! An estimate of the cost chooses the order.

use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::Nest;

use super::space::{Lines, Space};
use super::step::Action;
use super::tape::{CHUNK, Tape};

/// An aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    pub aggregation: Aggregation,
    /// The type of the values that are aggregated.
    pub dtype: DType,
    pub places: Space,
    pub points: Space,
    /// The nest's body, over the places if `across`, else over the points.
    pub body: Tape,
    pub across: bool,
    /// The guards: a point counts only where all are at least 0. They run through the body's space.
    pub guards: Lines,
    /// For the arg forms, the position that identifies a point; otherwise no expression. It runs
    /// through the body's space.
    pub position: Lines,
}

impl Reduction {
    /// Compiles a nest that aggregates values of type `dtype`.
    pub(super) fn new(nest: &Nest, aggregation: Aggregation, dtype: DType) -> Self {
        let across = Self::across(nest, aggregation, dtype);
        if aggregation == Aggregation::Assign {
            return across;
        }
        let along = Self::over(nest, aggregation, dtype, false);
        if cost(&along.body) < cost(&across.body) { along } else { across }
    }

    /// Compiles the nest to run *across* places in any case.
    pub(super) fn across(nest: &Nest, aggregation: Aggregation, dtype: DType) -> Self {
        Self::over(nest, aggregation, dtype, true)
    }

    fn over(nest: &Nest, aggregation: Aggregation, dtype: DType, across: bool) -> Self {
        let places = Space::new(nest, 0..nest.free);
        let points = Space::new(nest, nest.reduction());
        let own = if across { &places } else { &points };
        let body = Tape::new(nest, &nest.body, &nest.body.results, own.clone(), &nest.guards);
        let guards = Lines::new(nest, own, &nest.guards);
        let position = Lines::new(nest, own, &nest.position);
        Self { aggregation, dtype, body, across, guards, position, places, points }
    }
}

/// Estimates the cost of one point, in operations on an element.
pub(super) fn cost(body: &Tape) -> f64 {
    /// The cost of starting a vector operation, in elements.
    const START: f64 = 64.0;
    let length = body.space.size.min(CHUNK) as f64;
    let pace = |action: &Action| match action {
        Action::Load(reader) => Some((reader.offset.steps[0], reader.offset.run)),
        _ => None,
    };
    let paces = body.steps.iter().filter_map(|step| pace(&step.action));
    let loads: f64 = paces
        .map(|(step, run)| {
            START / (run as f64).min(length) + if (0..=1).contains(&step) { 1.0 } else { 6.0 }
        })
        .sum();
    loads + (body.operations + 1) as f64 * (1.0 + START / length)
}
