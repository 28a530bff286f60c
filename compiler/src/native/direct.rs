//! Reductions of few points at each place, over elements that are contiguous along the last free
//! axis: depthwise convolution, pooling, sums over rows. They are recognised from the nest alone:
//! each load of the body must move by 1 or 0 along that axis.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::{Leaf, Load, Nest};
use crate::scalar::{BinaryOp, Inst, Value};

use super::address::Address;
use super::space::Space;

/// The most points of a reduction.
const MOST_TAPS: usize = 1 << 16;
/// The most points of a reduction with short rows. With more, going along the reduction is faster.
const MOST_TAPS_OF_SHORT_ROWS: usize = 64;

/// The aggregation of a nest of this kind, and the form of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The sum of products of two vectors.
    Products,
    /// The sum of products of the vector x and the number w.
    ByNumber,
    /// The sum of products of the number x and the vector w.
    OfNumber,
    /// The sum of the vector x alone, or its maximum or minimum.
    Sum,
    Max,
    Min,
}

impl Form {
    pub const ALL: [Form; 6] =
        [Form::Products, Form::ByNumber, Form::OfNumber, Form::Sum, Form::Max, Form::Min];

    /// Returns the name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Form::Products => "products",
            Form::ByNumber => "by_number",
            Form::OfNumber => "of_number",
            Form::Sum => "sum",
            Form::Max => "max",
            Form::Min => "min",
        }
    }

    /// Returns the aggregation.
    pub fn aggregation(self) -> Aggregation {
        match self {
            Form::Products | Form::ByNumber | Form::OfNumber | Form::Sum => Aggregation::Sum,
            Form::Max => Aggregation::Max,
            Form::Min => Aggregation::Min,
        }
    }
}

/// A nest of this kind. The last free axis is contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    pub form: Form,
    /// The axis before the last one, if only x moves along it: x is then read for several of its
    /// rows at a time.
    pub rows: Option<usize>,
    /// The points of the reduction, the taps.
    pub taps: Space,
    pub x: Address,
    pub w: Option<Address>,
    /// The conditions of a tap: it counts only where all are at least 0.
    pub conditions: Vec<Affine>,
}

impl Direct {
    /// Compiles the nest, if it is of this kind.
    pub(super) fn new(nest: &Nest) -> Option<Self> {
        let aggregation = nest.aggregation?;
        let points = nest.reduction_points();
        let last = nest.free.checked_sub(1)?;
        let length = nest.axes[last].extent;
        let short = length < 64 && points > MOST_TAPS_OF_SHORT_ROWS;
        if nest.accumulator() != Some(DType::F32)
            || points > MOST_TAPS
            || short
            || !nest.derived.is_empty()
        {
            return None;
        }
        let [result] = nest.body.results[..] else { return None };
        let load = |value: Value| -> Option<&Load> {
            match &nest.body.insts[value].0 {
                Inst::Leaf(Leaf::Load(load)) => Some(load),
                _ => None,
            }
        };
        let (x, w) = match nest.body.insts[result].0 {
            Inst::Binary(BinaryOp::Mul, a, b) => (load(a)?, Some(load(b)?)),
            _ => (load(result)?, None),
        };
        // The load that moves from row to row is x. If both do, there are no rows.
        let tile = last.checked_sub(1);
        let moves = |load: &Load| tile.is_some_and(|axis| load.offset.coefficient(axis) != 0);
        let (x, w) = match w {
            Some(w) if moves(w) => (w, Some(x)),
            _ => (x, w),
        };
        let tile = tile.filter(|_| !w.is_some_and(moves));
        let loads = || std::iter::once(x).chain(w);
        let along = |load: &Load| load.offset.coefficient(last);
        let form = match (aggregation, along(x), w.map(along)) {
            (Aggregation::Sum, 1, None) => Form::Sum,
            (Aggregation::Sum, 1, Some(1)) => Form::Products,
            (Aggregation::Sum, 1, Some(0)) => Form::ByNumber,
            (Aggregation::Sum, 0, Some(1)) => Form::OfNumber,
            (Aggregation::Max, 1, None) => Form::Max,
            (Aggregation::Min, 1, None) => Form::Min,
            _ => return None,
        };
        // A load that is not executed gives 0. In a sum, and only there, that is as good as a point
        // that does not count.
        let conditional =
            loads().any(|load| load.when.iter().any(|when| !nest.guards.contains(when)));
        let as_good = aggregation == Aggregation::Sum && !nest.tracks_written();
        if loads().any(|load| !load.dynamic.is_empty()) || (conditional && !as_good) {
            return None;
        }
        let mut guards: Vec<&Affine> = nest.guards.iter().collect();
        for when in loads().flat_map(|load| &load.when) {
            if !guards.contains(&when) {
                guards.push(when);
            }
        }
        let address = |load: &Load| Address {
            operand: load.operand,
            offset: load.offset.clone(),
            conditions: Vec::new(),
        };
        Some(Self {
            form,
            rows: tile,
            taps: Space::new(nest, nest.reduction()),
            x: address(x),
            w: w.map(address),
            conditions: guards.into_iter().cloned().collect(),
        })
    }
}
