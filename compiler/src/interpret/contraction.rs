//! Executes contractions point by point.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, ContractionLeaf};
use crate::scalar::{BinaryOp, Inst, Value};
use crate::tensor::{Tensor, TensorType};

use super::walk::Walk;
use super::{Error, blank, copy, filled};

/// Returns the tensor that `contraction` computes from `operands`.
pub(super) fn run(
    contraction: &Contraction,
    ty: &TensorType,
    operands: &[&Tensor],
) -> Result<Tensor, Error> {
    if let Some(rank) = contraction.rank {
        return ranked(contraction, rank, ty, operands);
    }
    let start = Aggregate {
        written: false,
        total: if contraction.aggregation == Aggregation::Product { 1.0 } else { 0.0 },
        best: contraction.aggregation.identity(contraction.body.dtype(contraction.body.results[0])),
        position: 0,
    };
    let mut places = filled(ty.elements(), start)?;
    each_point(contraction, ty, operands, |place, position, value| {
        places[place].add(contraction.aggregation, value, position);
    });
    let default = if contraction.default { operands.last() } else { None };
    let mut result = blank(ty)?;
    for (position, place) in places.iter().enumerate() {
        if place.written {
            result.set(position, place.result(contraction.aggregation));
        } else if let Some(default) = default {
            result.set(position, default.get(position));
        }
    }
    Ok(result)
}

/// Returns the positions of values in order; `rank` is the variable of the rank.
fn ranked(
    contraction: &Contraction,
    rank: usize,
    ty: &TensorType,
    operands: &[&Tensor],
) -> Result<Tensor, Error> {
    let mut result = match (contraction.default, operands.last()) {
        (true, Some(default)) => copy(default, ty)?,
        _ => blank(ty)?,
    };
    let stride = contraction
        .output
        .iter()
        .zip(ty.strides())
        .find_map(|(place, stride)| (place.as_variable() == Some(rank)).then_some(stride));
    let count = contraction.indices[rank].high as usize;
    // Each point once, at the place of the best.
    let mut first = contraction.clone();
    first.indices[rank].high = first.indices[rank].high.min(1);
    let mut found: BTreeMap<usize, Vec<(Scalar, i32)>> = BTreeMap::new();
    each_point(&first, ty, operands, |place, position, value| {
        found.entry(place).or_default().push((value, position));
    });
    for (place, mut points) in found {
        points.sort_by(|&(a, p), &(b, q)| order(contraction.aggregation, a, b).then(p.cmp(&q)));
        for (rank, (_, position)) in points.iter().take(count).enumerate() {
            result.set(place + rank * stride.unwrap_or(0), Scalar::i32(*position));
        }
    }
    Ok(result)
}

/// Returns the order of two values in an arg form: the better one first, NaNs last.
pub(super) fn order(aggregation: Aggregation, a: Scalar, b: Scalar) -> Ordering {
    let better = if aggregation == Aggregation::ArgMax { BinaryOp::Gt } else { BinaryOp::Lt };
    let is_first = |a: Scalar, b: Scalar| better.evaluate(a, b).is_true();
    let is_nan = |scalar: Scalar| scalar.to_f64().is_nan();
    is_first(b, a).cmp(&is_first(a, b)).then(is_nan(a).cmp(&is_nan(b)))
}

/// Calls `f` with the place, the position and the value of each point that counts.
fn each_point(
    contraction: &Contraction,
    ty: &TensorType,
    operands: &[&Tensor],
    mut f: impl FnMut(usize, i32, Scalar),
) {
    let mut points = Points::new(contraction, ty, operands);
    // A product of 16-bit floats that is summed or multiplied is not rounded first.
    let result = contraction.body.results[0];
    let factors = match contraction.body.insts[result] {
        (Inst::Binary(BinaryOp::Mul, a, b), DType::F16 | DType::BF16)
            if matches!(contraction.aggregation, Aggregation::Sum | Aggregation::Product) =>
        {
            Some((a, b))
        }
        _ => None,
    };
    let mut values = Dense::with_capacity(contraction.body.insts.len());
    let mut remaining = !points.walk.is_empty();
    while remaining {
        if points.read() {
            let forms = points.walk.values();
            let mut index_leaf = points.leaves.iter();
            contraction.body.evaluate(&mut values, |leaf| match leaf {
                ContractionLeaf::Access(access) => points.elements[*access],
                ContractionLeaf::Index(_) => {
                    Scalar::i32(index_leaf.next().map_or(0, |&form| forms[form] as i32))
                }
            });
            let counts =
                contraction.body.results.get(1).is_none_or(|&counts| values[counts].is_true());
            if counts {
                let exact = |(a, b): (Value, Value)| {
                    Scalar::from_f64(DType::F64, values[a].to_f64() * values[b].to_f64())
                };
                let value = factors.map_or(values[result], exact);
                f(forms[points.place] as usize, forms[points.position] as i32, value);
            }
        }
        remaining = points.walk.advance();
    }
}

/// The points of a contraction's index space, and the reads at each.
struct Points<'a> {
    walk: Walk,
    /// Forms that must be at least 0 and less than the limit.
    conditions: Vec<(usize, i64)>,
    /// Form of the row-major position of the place written.
    place: usize,
    /// Form of the row-major position in the variables that the place does not mention.
    position: usize,
    reads: Vec<Read<'a>>,
    /// Forms of the body's index leaves, in order.
    leaves: Vec<usize>,
    /// Values that the accesses read at the current point.
    elements: Vec<Scalar>,
}

/// An access.
struct Read<'a> {
    operand: &'a Tensor,
    /// Form of the row-major position, without the values of other accesses.
    offset: usize,
    dynamic: Vec<Dynamic>,
}

/// A coordinate of an access that another access shifts.
struct Dynamic {
    /// Form of the coordinate without that access.
    form: usize,
    access: usize,
    size: i64,
    stride: i64,
}

impl<'a> Points<'a> {
    fn new(contraction: &Contraction, ty: &TensorType, operands: &[&'a Tensor]) -> Points<'a> {
        let extents =
            contraction.indices.iter().map(|index| (index.high - index.low) as usize).collect();
        let mut walk = Walk::new(extents);
        // Adds an affine expression over the variables, which start at `low`, as a form of the
        // walk, whose variables start at 0.
        let mut add = |terms: &[(&Affine, i64)]| {
            let sum = |f: &dyn Fn(&Affine) -> i64| {
                terms.iter().fold(0i64, |sum, (affine, factor)| {
                    sum.wrapping_add(f(affine).wrapping_mul(*factor))
                })
            };
            let coefficients: Vec<i64> =
                (0..contraction.indices.len()).map(|v| sum(&|a| a.coefficient(v))).collect();
            let at_low = |constant: i64, (coefficient, low): (&i64, i64)| {
                constant.wrapping_add(coefficient.wrapping_mul(low))
            };
            let lows = contraction.indices.iter().map(|index| index.low);
            let constant = coefficients.iter().zip(lows).fold(sum(&|a| a.offset()), at_low);
            walk.add_form(coefficients, constant)
        };
        let mut conditions = Vec::new();
        for (affine, &size) in contraction.output.iter().zip(&ty.shape) {
            conditions.push((add(&[(affine, 1)]), size as i64));
        }
        for affine in &contraction.constraints {
            conditions.push((add(&[(affine, 1)]), i64::MAX));
        }
        let place = add(&contraction.output.iter().zip(strides(ty)).collect::<Vec<_>>());
        let mut reads = Vec::new();
        for Access { operand, index } in &contraction.accesses {
            let operand = operands[*operand];
            let mut dynamic = Vec::new();
            for ((index, &size), stride) in
                index.iter().zip(operand.shape()).zip(strides(operand.ty()))
            {
                let form = add(&[(&index.affine, 1)]);
                match index.access {
                    None => conditions.push((form, size as i64)),
                    Some(access) => {
                        dynamic.push(Dynamic { form, access, size: size as i64, stride })
                    }
                }
            }
            let coordinates = index.iter().map(|index| &index.affine);
            let offset = add(&coordinates.zip(strides(operand.ty())).collect::<Vec<_>>());
            reads.push(Read { operand, offset, dynamic });
        }
        let leaves = contraction.body.leaves().filter_map(|leaf| match leaf {
            ContractionLeaf::Index(affine) => Some(add(&[(affine, 1)])),
            ContractionLeaf::Access(_) => None,
        });
        let leaves = leaves.collect();
        let position = position_form(contraction, &mut walk);
        let elements =
            operands.first().map_or(Scalar::i32(0), |operand| Scalar::zero(operand.dtype()));
        let elements = vec![elements; reads.len()];
        Points { walk, conditions, place, position, reads, leaves, elements }
    }

    /// Reads every access at the current point. Returns false if the point is not valid.
    fn read(&mut self) -> bool {
        let forms = self.walk.values();
        if !self.conditions.iter().all(|&(form, limit)| (0..limit).contains(&forms[form])) {
            return false;
        }
        for (number, read) in self.reads.iter().enumerate() {
            let mut offset = forms[read.offset];
            for dynamic in &read.dynamic {
                let shift = self.elements[dynamic.access].to_i64();
                let coordinate = forms[dynamic.form].checked_add(shift);
                if !coordinate.is_some_and(|c| (0..dynamic.size).contains(&c)) {
                    return false;
                }
                offset = offset.wrapping_add(shift.wrapping_mul(dynamic.stride));
            }
            self.elements[number] = read.operand.get(offset as usize);
        }
        true
    }
}

fn strides(ty: &TensorType) -> impl Iterator<Item = i64> {
    ty.strides().into_iter().map(|stride| stride as i64)
}

/// Returns the form of the row-major position, from 0, in the ranges of the variables that the
/// place does not mention.
fn position_form(contraction: &Contraction, walk: &mut Walk) -> usize {
    let mut coefficients = vec![0; contraction.indices.len()];
    let mut stride = 1i64;
    for (variable, index) in contraction.indices.iter().enumerate().rev() {
        if contraction.output.iter().all(|affine| affine.coefficient(variable) == 0) {
            coefficients[variable] = stride;
            stride = stride.wrapping_mul(index.high - index.low);
        }
    }
    walk.add_form(coefficients, 0)
}

/// The bytes that a contraction takes for each element of its result while it is computed.
pub(super) const PLACE_BYTES: u64 = size_of::<Aggregate>() as u64;

/// The aggregation state of one place of the result.
#[derive(Clone)]
struct Aggregate {
    written: bool,
    /// Total of sums and products of floats.
    total: f64,
    /// State of all other aggregations.
    best: Scalar,
    /// Position of the best value, for the arg forms.
    position: i32,
}

impl Aggregate {
    fn add(&mut self, aggregation: Aggregation, value: Scalar, position: i32) {
        let is_nan = |scalar: Scalar| scalar.to_f64().is_nan();
        let takes_over = |op: BinaryOp| {
            let exceeds =
                op.evaluate(value, self.best).is_true() || is_nan(self.best) && !is_nan(value);
            let equals = BinaryOp::Eq.evaluate(value, self.best).is_true()
                || is_nan(self.best) && is_nan(value);
            !self.written || exceeds || equals && position < self.position
        };
        match aggregation {
            Aggregation::Sum if value.dtype.is_float() => self.total += value.to_f64(),
            Aggregation::Product if value.dtype.is_float() => self.total *= value.to_f64(),
            Aggregation::Sum => self.best = BinaryOp::Add.evaluate(self.best, value),
            Aggregation::Product => self.best = BinaryOp::Mul.evaluate(self.best, value),
            Aggregation::Max => self.best = BinaryOp::Max.evaluate(self.best, value),
            Aggregation::Min => self.best = BinaryOp::Min.evaluate(self.best, value),
            Aggregation::Assign => self.best = value,
            Aggregation::ArgMax if takes_over(BinaryOp::Gt) => {
                (self.best, self.position) = (value, position)
            }
            Aggregation::ArgMin if takes_over(BinaryOp::Lt) => {
                (self.best, self.position) = (value, position)
            }
            Aggregation::ArgMax | Aggregation::ArgMin => {}
        }
        self.written = true;
    }

    fn result(&self, aggregation: Aggregation) -> Scalar {
        match aggregation {
            Aggregation::Sum | Aggregation::Product if self.best.dtype.is_float() => {
                Scalar::from_f64(self.best.dtype, self.total)
            }
            Aggregation::ArgMax | Aggregation::ArgMin => Scalar::i32(self.position),
            _ => self.best,
        }
    }
}
