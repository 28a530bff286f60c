//! Recognises attention whose later points are hidden by index arithmetic, as by a causal mask.
//!
//! Example: in the body of causal attention, the points with s > t are hidden. Where `t - s` is
//! negative, every score is -1e9, whatever the inner sum is:
//!
//! ```text
//! v0 = index t   v1 = index s   v2 = cmp_ge v0 v1   v3 = inner0   v4 = const -1e9
//! v5 = select v2 v3 v4   v6 = max over points of v5   v7 = sub v5 v6   v8 = exp v7
//! ```
//!
//! The values of the body are evaluated under the assumption that a condition of the body is
//! negative. The condition is a mask if the score is then a constant, and if the left factor and
//! all summed values are 0 in case exp(score - top) is 0. Whether it is 0 depends on the top,
//! which is known at run time only.

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, Inst, UnaryOp, Value};

use super::{Attention, Leaf, Nest};

/// A mask of a nest in attention form that hides all points after some, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    /// A point is hidden if this is negative. It decreases along the only axis of the points.
    pub condition: Affine,
    /// The score of all hidden points, an f32. If exp(score - top) is 0, they add nothing.
    pub score: Scalar,
}

/// A value of the body at hidden points.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Unknown,
    Constant(Scalar),
    /// 0 if exp(score - top) is 0.
    Vanishing,
}

impl Nest {
    /// Returns a mask of the nest, whose parts in attention form are `attention`.
    pub(super) fn mask(&self, attention: &Attention) -> Option<Mask> {
        let top = attention.top?;
        let Inst::Leaf(Leaf::Statistic(_, scores)) = self.body.insts[top].0 else { return None };
        let mut points = self.reduction();
        let (Some(point), None) = (points.next(), points.next()) else { return None };
        let comparisons = self.comparisons();
        let vanishes_in_sum =
            |sum: &Value, known: &Dense<Value, Known>| match self.body.insts[*sum].0 {
                Inst::Leaf(Leaf::Statistic(_, of)) => known[of] == Known::Vanishing,
                _ => false,
            };
        let conditions = comparisons.iter().flatten();
        let both = conditions.flat_map(|condition| [opposite(condition), Some(condition.clone())]);
        both.flatten().filter(|condition| condition.coefficient(point) < 0).find_map(|condition| {
            let known = self.known_where_negative(&condition, top, &comparisons);
            let Known::Constant(score) = known[scores] else { return None };
            let vanishes = known[attention.roles.left] == Known::Vanishing
                && attention.sums.iter().all(|sum| vanishes_in_sum(sum, &known));
            (vanishes && score.dtype == DType::F32).then_some(Mask { condition, score })
        })
    }

    /// Returns what is known of each value of the body at points where `condition` is negative.
    fn known_where_negative(
        &self,
        condition: &Affine,
        top: Value,
        comparisons: &Dense<Value, Option<Affine>>,
    ) -> Dense<Value, Known> {
        let bounds = self.variable_bounds();
        let mut known: Dense<Value, Known> = Dense::with_capacity(self.body.insts.len());
        for (value, (inst, dtype)) in self.body.insts.enumerate() {
            let is_met = comparisons[value]
                .as_ref()
                .and_then(|other| is_met_where_negative(other, condition, &bounds));
            let is_weight = matches!(inst, Inst::Unary(UnaryOp::Exp, below)
                if self.is_below(*below, top)
                    && matches!(self.body.insts[*below].0, Inst::Binary(_, score, _)
                        if matches!(known[score], Known::Constant(_))));
            let value = match is_met {
                Some(is_met) => Known::Constant(Scalar::bool(is_met)),
                None if is_weight => Known::Vanishing,
                None => evaluated(inst, *dtype, &known),
            };
            known.push(value);
        }
        known
    }

    /// Returns for each comparison of indices in the body an expression that is at least 0 where
    /// it is true, and negative where it is false.
    fn comparisons(&self) -> Dense<Value, Option<Affine>> {
        let bounds = self.variable_bounds();
        let mut indices: Dense<Value, Option<Affine>> = Dense::with_capacity(self.body.insts.len());
        let mut comparisons = Dense::with_capacity(self.body.insts.len());
        for (inst, dtype) in self.body.insts.iter() {
            let index = |value: Value| indices[value].as_ref();
            let comparison = match *inst {
                Inst::Binary(op, a, b) => {
                    index(a).zip(index(b)).and_then(|(a, b)| comparison(op, a, b))
                }
                _ => None,
            };
            comparisons.push(comparison);
            let affine = match *inst {
                Inst::Leaf(Leaf::Index(ref affine)) => Some(affine.clone()),
                Inst::Const(scalar) => Some(Affine::constant(scalar.to_i64())),
                Inst::Cast(a) => index(a).cloned(),
                Inst::Unary(UnaryOp::Neg, a) => index(a).and_then(|a| a.scale(-1)),
                Inst::Binary(BinaryOp::Add, a, b) => {
                    index(a).zip(index(b)).and_then(|(a, b)| a.add(b))
                }
                Inst::Binary(BinaryOp::Sub, a, b) => {
                    index(a).zip(index(b)).and_then(|(a, b)| a.sub(b))
                }
                Inst::Binary(BinaryOp::Mul, a, b) => {
                    index(a).zip(index(b)).and_then(|(a, b)| match a.as_constant() {
                        Some(factor) => b.scale(factor),
                        None => a.scale(b.as_constant()?),
                    })
                }
                _ => None,
            };
            // A value that wraps is not the expression.
            let fits = |affine: &Affine| {
                let holds = |x: i64| Scalar::from_i64(*dtype, x).to_i64() == x;
                dtype.is_signed_integer()
                    && affine.bounds(&bounds).is_some_and(|(low, high)| holds(low) && holds(high))
            };
            indices.push(affine.filter(fits));
        }
        comparisons
    }
}

/// Returns an expression that is at least 0 where a comparison of `a` and `b` is true, and negative
/// where it is false.
fn comparison(op: BinaryOp, a: &Affine, b: &Affine) -> Option<Affine> {
    let one = Affine::constant(1);
    match op {
        BinaryOp::Lt => b.sub(a)?.sub(&one),
        BinaryOp::Le => b.sub(a),
        BinaryOp::Gt => a.sub(b)?.sub(&one),
        BinaryOp::Ge => a.sub(b),
        _ => None,
    }
}

/// Returns whether `other` is at least 0 at all points where `condition` is negative
/// (`Some(true)`), or at none of them (`Some(false)`).
fn is_met_where_negative(
    other: &Affine,
    condition: &Affine,
    bounds: &[(i64, i64)],
) -> Option<bool> {
    let (_, most) = other.sub(condition)?.bounds(bounds)?;
    let (least, _) = other.add(condition)?.bounds(bounds)?;
    match (most, least) {
        (..=0, _) => Some(false),
        (_, -1..) => Some(true),
        _ => None,
    }
}

impl Mask {
    /// Returns the number of points up to the last that is not hidden in all rows, where the
    /// variables are within these bounds.
    pub(super) fn reach(&self, point: usize, bounds: &[(i64, i64)]) -> Option<usize> {
        let step = self.condition.coefficient(point);
        let rest = self.condition.substitute(point, &Affine::constant(0))?;
        let (_, most) = rest.bounds(bounds)?;
        let last = most.div_euclid(step.checked_neg()?);
        Some(usize::try_from(last.checked_add(1)?).unwrap_or(0))
    }
}

/// Returns an expression that is at least 0 where another is negative.
fn opposite(condition: &Affine) -> Option<Affine> {
    condition.scale(-1)?.sub(&Affine::constant(1))
}

/// Returns what is known of an instruction's value by what is known of its operands.
fn evaluated(inst: &Inst<Leaf>, dtype: DType, known: &Dense<Value, Known>) -> Known {
    use Known::{Constant, Unknown, Vanishing};
    let is_zero = |scalar: Scalar| scalar == Scalar::zero(scalar.dtype);
    match *inst {
        Inst::Const(scalar) => Constant(scalar),
        Inst::Leaf(_) => Unknown,
        Inst::Unary(op, a) => match known[a] {
            Constant(a) => Constant(op.evaluate(a)),
            _ => Unknown,
        },
        Inst::Binary(op, a, b) => match (op, known[a], known[b]) {
            (_, Constant(a), Constant(b)) => Constant(op.evaluate(a, b)),
            (BinaryOp::BitAnd, Constant(known), _) | (BinaryOp::BitAnd, _, Constant(known))
                if known == Scalar::bool(false) =>
            {
                Constant(known)
            }
            (BinaryOp::BitOr, Constant(known), _) | (BinaryOp::BitOr, _, Constant(known))
                if known == Scalar::bool(true) =>
            {
                Constant(known)
            }
            (BinaryOp::Mul, Vanishing, Constant(x)) | (BinaryOp::Mul, Constant(x), Vanishing)
                if x.to_f64().is_finite() =>
            {
                Vanishing
            }
            _ => Unknown,
        },
        Inst::Select(c, a, b) => match (known[c], known[a], known[b]) {
            (Constant(c), a, b) => {
                if c.is_true() {
                    a
                } else {
                    b
                }
            }
            (_, Vanishing, Vanishing) => Vanishing,
            (_, Vanishing, Constant(x)) | (_, Constant(x), Vanishing) if is_zero(x) => Vanishing,
            _ => Unknown,
        },
        Inst::Cast(a) => match known[a] {
            Constant(a) => Constant(a.cast(dtype)),
            Vanishing if dtype.is_float() => Vanishing,
            _ => Unknown,
        },
    }
}
