//! Aggregations by vector loops, in one of two orders:
//!
//! - *across* places: for each reduction point in turn, its values at a chunk of places are added
//!   to as many sums;
//! - *along* the reduction: for each place, chunks of reduction points are folded to one value.
//!
//! An estimate of the cost chooses the order.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::Nest;
use crate::scalar::{BinaryOp, Value};

use super::space::{Lines, Space};
use super::step::{Action, Reader};
use super::tape::{CHUNK, Tape};

/// An aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// The aggregation.
    pub aggregation: Aggregation,
    /// The type of the values that are aggregated.
    pub dtype: DType,
    /// The places.
    pub places: Space,
    /// The points of each place.
    pub points: Space,
    /// The nest's body, over the places if `across`, else over the points.
    pub body: Tape,
    /// Whether chunks have adjacent places and go point by point; otherwise they have points of a
    /// place.
    pub across: bool,
    /// The guards: a point counts only where all are at least 0. They run through the body's space.
    pub guards: Lines,
    /// For the arg forms, the position that identifies a point; otherwise no expression. It runs
    /// through the body's space.
    pub position: Lines,
    /// For the arg forms: the number of points that are better than the one whose position a place
    /// has, an expression of the places. Such a reduction runs along its points.
    pub rank: Option<Affine>,
}

impl Reduction {
    /// The fewest places for which a thread reduces all points of one.
    pub const FEW: usize = 64;

    /// Compiles a nest that aggregates values of type `dtype`.
    pub(super) fn new(nest: &Nest, aggregation: Aggregation, dtype: DType) -> Self {
        let across = Self::across(nest, aggregation, dtype);
        if aggregation == Aggregation::Assign {
            return across;
        }
        let along = Self::over(nest, aggregation, dtype, false);
        if nest.rank.is_some() {
            return along;
        }
        if along.cost() < across.cost() { along } else { across }
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
        let rank = nest.rank.clone();
        Self { aggregation, dtype, body, across, guards, position, rank, places, points }
    }

    /// Returns the load, if the values are elements of one operand as they are.
    fn element(&self) -> Option<&Reader> {
        let ([step], [result], true) =
            (&self.body.steps[..], &self.body.results[..], self.body.steady.is_empty())
        else {
            return None;
        };
        let Action::Load(reader) = &step.action else { return None };
        (step.value == *result && self.is_static(reader)).then_some(reader)
    }

    /// Returns the load of an aggregation across places whose elements are aggregated where they
    /// are: for each point, pieces of a chunk of places.
    pub fn window(&self) -> Option<&Reader> {
        const MOST_POINTS: usize = 1 << 13;
        let reader = self.element().filter(|_| self.across)?;
        let is_window = self.aggregation.operation().is_some()
            && reader.offset.steps[0] >= 1
            && self.points.size <= MOST_POINTS;
        is_window.then_some(reader)
    }

    /// Returns the load of an aggregation along rows of consecutive elements, which are aggregated
    /// where they are. There are none if they are long, unless threads share one.
    pub fn rows(&self) -> Option<&Reader> {
        /// The sums of longer rows are more accurate in parts.
        const LONGEST: usize = 8 * CHUNK;
        let suits = self.is_along() && (self.points.size <= LONGEST || self.is_shared());
        self.element().filter(|reader| suits && self.is_row(reader))
    }

    /// Returns the loads of a sum of products of two elements, both along rows as those of
    /// [`Reduction::rows`], but of at most a chunk of points, and not so few that threads share
    /// one. In shorter rows, adding up a row's partial sums would take most of the time.
    pub fn dots(&self) -> Option<[&Reader; 2]> {
        const SHORTEST: usize = 24;
        let (product, loads) = self.body.steps.split_last()?;
        let (a, b) = match &product.action {
            Action::Binary(BinaryOp::Mul, a, b) => (*a, *b),
            Action::Chain(chain) => (chain.from, chain.product()?),
            _ => return None,
        };
        let is_sum = self.aggregation == Aggregation::Sum
            && self.dtype.is_float()
            && self.points.size >= SHORTEST
            && self.body.results == [product.value]
            && self.body.steady.is_empty()
            && loads.iter().all(|load| [a, b].contains(&load.value));
        let row = |value: Value| {
            let load = loads.iter().find(|load| load.value == value)?;
            let Action::Load(reader) = &load.action else { return None };
            (self.is_static(reader) && self.is_row(reader)).then_some(&**reader)
        };
        let suits = self.is_along() && self.points.size <= CHUNK && !self.is_shared();
        if is_sum && suits { Some([row(a)?, row(b)?]) } else { None }
    }

    /// Returns whether the reduction runs along rows of points that all count.
    pub(super) fn is_along(&self) -> bool {
        !self.across && self.guards.is_empty() && self.rank.is_none()
    }

    /// Returns whether places are so few that threads share the points of one.
    pub(super) fn is_shared(&self) -> bool {
        self.places.size < Self::FEW
    }

    /// Returns whether a load reads consecutive elements along the reduction.
    pub(super) fn is_row(&self, reader: &Reader) -> bool {
        reader.offset.run == self.points.size && reader.offset.steps[0] == 1
    }

    /// Returns whether a load has addresses that are known in advance, and no condition but the
    /// guards.
    pub(super) fn is_static(&self, reader: &Reader) -> bool {
        reader.dynamic.is_empty()
            && reader.guarded.derived.is_empty()
            && self.guards.derived.is_empty()
            && reader.conditions.expressions.iter().all(|e| self.guards.expressions.contains(e))
    }

    /// Estimates the cost of one point, in operations on an element.
    fn cost(&self) -> f64 {
        let in_place = self.window().or(self.rows()).is_some()
            || self.dots().is_some()
            || self.scaled_dots().is_some();
        cost(&self.body, in_place)
    }
}

/// Estimates the cost of one point of a reduction, in operations on an element. `in_place` tells
/// whether elements are aggregated where they are.
pub(super) fn cost(body: &Tape, in_place: bool) -> f64 {
    // The cost of starting a vector operation, in elements.
    let start = if in_place { 8.0 } else { 64.0 };
    let length = body.space.size.min(CHUNK) as f64;
    let pace = |action: &Action| match action {
        Action::Load(reader) => Some((reader.offset.steps[0], reader.offset.run)),
        _ => None,
    };
    let paces = body.steps.iter().filter_map(|step| pace(&step.action));
    let loads: f64 = paces
        .map(|(step, run)| {
            start / (run as f64).min(length) + if (0..=1).contains(&step) { 1.0 } else { 6.0 }
        })
        .sum();
    loads + (body.operations + 1) as f64 * (1.0 + start / length)
}
