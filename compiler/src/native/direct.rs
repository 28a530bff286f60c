//! Reductions of few points at each place, over elements that are contiguous along the last free
//! axis: depthwise convolution, convolution with few filters in a group, pooling, sums over rows.
//! They are recognised from the nest alone: each load of the body must move by 1 or 0 along that
//! axis, or along the last two as one. Elements alone may also move by 2.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::{Leaf, Load, Nest};
use crate::profile::Processor;
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
    /// The sum of products of x, one number for each group of columns, and the vector w. The
    /// columns are the last two free axes, of which the first numbers the groups.
    OfGroups,
    /// The sum of the vector x alone. Its elements may be 2 apart, as for the next two.
    Sum,
    /// The greatest element of the vector x.
    Max,
    /// The least element of the vector x.
    Min,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 7] = [
        Form::Products,
        Form::ByNumber,
        Form::OfNumber,
        Form::OfGroups,
        Form::Sum,
        Form::Max,
        Form::Min,
    ];

    /// Returns the name in text forms.
    pub fn name(self) -> &'static str {
        match self {
            Form::Products => "products",
            Form::ByNumber => "by_number",
            Form::OfNumber => "of_number",
            Form::OfGroups => "of_groups",
            Form::Sum => "sum",
            Form::Max => "max",
            Form::Min => "min",
        }
    }

    /// Returns the aggregation.
    pub fn aggregation(self) -> Aggregation {
        match self {
            Form::Max => Aggregation::Max,
            Form::Min => Aggregation::Min,
            _ => Aggregation::Sum,
        }
    }

    /// Returns how many of the last free axes are columns.
    pub fn column_axes(self) -> usize {
        if self == Form::OfGroups { 2 } else { 1 }
    }
}

/// A nest of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The aggregation and the form of the operands.
    pub form: Form,
    /// The axis before the columns, if only x moves along it: x is then read for several of its
    /// rows at a time.
    pub rows: Option<usize>,
    /// The points of the reduction, the taps.
    pub taps: Space,
    /// The elements of x, over the places and taps.
    pub x: Address,
    /// The elements of w, if there is one.
    pub w: Option<Address>,
    /// The conditions of a tap: it counts only where all are at least 0.
    pub conditions: Vec<Affine>,
}

impl Direct {
    /// Compiles the nest, if it is of this kind.
    pub(super) fn new(nest: &Nest) -> Option<Self> {
        let aggregation = nest.aggregation?;
        let last = nest.free.checked_sub(1)?;
        let points = nest.reduction_points();
        if nest.accumulator() != Some(DType::F32) || points > MOST_TAPS || !nest.derived.is_empty()
        {
            return None;
        }
        let (x, w) = operands(nest)?;
        let loads = || std::iter::once(x).chain(w);
        let mut guards: Vec<&Affine> = nest.guards.iter().collect();
        for when in loads().flat_map(|load| &load.when) {
            if !guards.contains(&when) {
                guards.push(when);
            }
        }
        let along = |load: &Load| load.offset.coefficient(last);
        let form = match (aggregation, along(x), w.map(along)) {
            (Aggregation::Sum, 1 | 2, None) => Form::Sum,
            (Aggregation::Sum, 1, Some(1)) => Form::Products,
            (Aggregation::Sum, 1, Some(0)) => Form::ByNumber,
            (Aggregation::Sum, 0, Some(1)) if is_of_groups(nest, x, w?, &guards) => Form::OfGroups,
            (Aggregation::Sum, 0, Some(1)) => Form::OfNumber,
            (Aggregation::Max, 1 | 2, None) => Form::Max,
            (Aggregation::Min, 1 | 2, None) => Form::Min,
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
        let rows = nest.free.checked_sub(form.column_axes() + 1);
        let address = |load: &Load| Address {
            operand: load.operand,
            offset: load.offset.clone(),
            conditions: Vec::new(),
        };
        let direct = Self {
            form,
            rows: rows.filter(|&axis| w.is_none_or(|w| w.offset.coefficient(axis) == 0)),
            taps: Space::new(nest, nest.reduction()),
            x: address(x),
            w: w.map(address),
            conditions: guards.into_iter().cloned().collect(),
        };
        let is_short = nest.axes[last].extent < 64 && points > MOST_TAPS_OF_SHORT_ROWS;
        (direct.is_narrow(nest) || !is_short).then_some(direct)
    }

    /// Returns whether it is a sum of products of several rows by so few columns that packing the
    /// factors does not pay.
    pub(super) fn is_narrow(&self, nest: &Nest) -> bool {
        /// The lanes of the smallest vectors.
        const LEAST_COLUMNS: usize = 4;
        let extent = |axes: usize| nest.points(nest.free - axes..nest.free);
        matches!(self.form, Form::OfNumber | Form::OfGroups)
            && self.rows.is_some()
            && self.taps.size <= Processor::MOST_NARROW_TERMS
            && extent(1) <= Processor::MOST_NARROW_COLUMNS
            && extent(self.form.column_axes()) >= LEAST_COLUMNS
    }
}

/// Returns the operands x and w. Of two, x is the one that moves along the axis before the last
/// one, if only one does, or else the one that does not move along the last one.
fn operands(nest: &Nest) -> Option<(&Load, Option<&Load>)> {
    let [result] = nest.body.results[..] else { return None };
    let load = |value: Value| -> Option<&Load> {
        match &nest.body.insts[value].0 {
            Inst::Leaf(Leaf::Load(load)) => Some(load),
            _ => None,
        }
    };
    let Inst::Binary(BinaryOp::Mul, a, b) = nest.body.insts[result].0 else {
        return Some((load(result)?, None));
    };
    let (a, b) = (load(a)?, load(b)?);
    let last = nest.free.checked_sub(1)?;
    let moves = |load: &Load, axis: Option<usize>| {
        axis.is_some_and(|axis| load.offset.coefficient(axis) != 0)
    };
    let of_rows = |load: &Load| moves(load, last.checked_sub(1));
    let is_first = match (of_rows(a), of_rows(b)) {
        (true, true) => !moves(a, Some(last)),
        (of_a, of_b) => of_a || !of_b,
    };
    Some(if is_first { (a, Some(b)) } else { (b, Some(a)) })
}

/// Returns whether w moves along the last two axes as one, and x from group to group, the first of
/// these axes. Groups as long as several vectors are better computed one by one.
fn is_of_groups(nest: &Nest, x: &Load, w: &Load, guards: &[&Affine]) -> bool {
    /// The elements of several vectors.
    const LONG_GROUP: usize = 64;
    let last = nest.free - 1;
    let Some(groups) = last.checked_sub(1) else { return false };
    nest.axes[last].extent < LONG_GROUP
        && w.offset.coefficient(groups) == nest.axes[last].extent as i64
        && x.offset.coefficient(groups) > 0
        && guards
            .iter()
            .all(|guard| [groups, last].iter().all(|&axis| guard.coefficient(axis) == 0))
}
