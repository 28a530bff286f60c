//! Sums at places that are known only at run time: the gradient of a gather, histograms, sums by
//! group.
//!
//! Example: `dW[v, d] = +(dY[n, d])` over the n where `Tokens[n] == v`. For each v only a few n
//! count. Before anything is added, they are collected from the tokens in one list for each v. So
//! the work grows with the points and with the places, not with their product.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::{Leaf, Nest};
use crate::scalar::{BinaryOp, Inst, Program, Value};

use super::reduction::{Reduction, cost};
use super::space::Space;
use super::tape::Tape;

/// A nest of this kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scatter {
    /// For each point, the index on one of the free axes at which the point counts.
    pub key: Tape,
    /// The nest without that condition, across places.
    pub reduction: Reduction,
    /// The extent of that axis.
    pub rows: usize,
    /// The number of places from one index of that axis to the next.
    pub row: usize,
}

impl Scatter {
    /// Compiles the nest, which aggregates values of type `dtype`, if it is of this kind and this
    /// way is cheaper.
    pub(super) fn new(nest: &Nest, aggregation: Aggregation, dtype: DType) -> Option<Self> {
        use Aggregation::{Max, Min, Product, Sum};
        if !matches!(aggregation, Sum | Product | Max | Min)
            || !nest.guards.iter().all(|g| is_of_points(nest, g))
        {
            return None;
        }
        let mut conditions = Vec::new();
        conjuncts(&nest.body, *nest.body.results.get(1)?, &mut conditions);
        let found =
            conditions.iter().enumerate().find_map(|(number, &c)| Some((number, name(nest, c)?)));
        let (number, (key, axis)) = found?;
        conditions.remove(number);
        let mut rest = nest.clone();
        rest.body.results.truncate(1);
        if let Some(counts) =
            conditions.into_iter().reduce(|a, b| rest.body.binary(BinaryOp::BitAnd, a, b))
        {
            rest.body.results.push(counts);
        }
        let key =
            Tape::new(nest, &nest.body, &[key], Space::new(nest, nest.reduction()), &nest.guards);
        let reduction = Reduction::across(&rest, aggregation, dtype);
        let rows = nest.axes[axis].extent;
        let row: usize = nest.axes[axis + 1..nest.free].iter().map(|axis| axis.extent).product();
        let scatter = Self { key, reduction, rows, row };
        let all = cost(&scatter.reduction.body, false) * (rows * row) as f64;
        (scatter.cost_of_a_point() < all).then_some(scatter)
    }

    /// Estimates the cost of adding a point to the row that it selects, in operations on an
    /// element.
    pub fn cost_of_a_point(&self) -> f64 {
        /// The cost of starting a vector operation, in elements.
        const START: f64 = 64.0;
        (self.reduction.body.operations + 2) as f64 * (START + self.row as f64)
    }
}

/// Collects the conditions whose conjunction `value` is.
fn conjuncts(body: &Program<Leaf>, value: Value, found: &mut Vec<Value>) {
    match body.insts[value].0 {
        Inst::Binary(BinaryOp::BitAnd, a, b) if body.dtype(value) == DType::Bool => {
            conjuncts(body, a, found);
            conjuncts(body, b, found);
        }
        _ => found.push(value),
    }
}

/// Recognises a condition that an integer equals the index of a free axis, where the point alone
/// decides the integer. Returns the integer and the axis.
fn name(nest: &Nest, condition: Value) -> Option<(Value, usize)> {
    let Inst::Binary(BinaryOp::Eq, a, b) = nest.body.insts[condition].0 else { return None };
    let axis = |mut value: Value| loop {
        match &nest.body.insts[value].0 {
            // An index fits into 32 bits, signed or unsigned.
            Inst::Cast(inner)
                if nest.body.dtype(value).is_integer() && nest.body.dtype(value).bits() >= 32 =>
            {
                value = *inner
            }
            Inst::Leaf(Leaf::Index(affine)) => {
                return affine.as_variable().filter(|axis| *axis < nest.free);
            }
            _ => return None,
        }
    };
    let of_points = |value: Value| {
        (nest.body.dtype(value).is_integer() && is_decided_by_points(nest, value)).then_some(value)
    };
    match (axis(a), axis(b)) {
        (None, Some(axis)) => Some((of_points(a)?, axis)),
        (Some(axis), None) => Some((of_points(b)?, axis)),
        _ => None,
    }
}

fn is_decided_by_points(nest: &Nest, value: Value) -> bool {
    let inst = &nest.body.insts[value].0;
    let leaf = match inst {
        Inst::Leaf(Leaf::Load(load)) => {
            let dynamic = load.dynamic.iter().all(|(value, _)| is_decided_by_points(nest, *value));
            dynamic
                && is_of_points(nest, &load.offset)
                && load.when.iter().all(|when| is_of_points(nest, when))
        }
        Inst::Leaf(Leaf::Index(affine)) => is_of_points(nest, affine),
        _ => true,
    };
    leaf && inst.operands().into_iter().all(|operand| is_decided_by_points(nest, operand))
}

/// Returns whether an expression depends on no free axis.
fn is_of_points(nest: &Nest, affine: &Affine) -> bool {
    affine.variables().all(|variable| match variable.checked_sub(nest.axes.len()) {
        Some(derived) => is_of_points(nest, &nest.derived[derived].numerator),
        None => variable >= nest.free,
    })
}
