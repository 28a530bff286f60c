//! Recognises the nests with inner sums that have kernels, and rewrites more nests into that form.
//!
//! ```text
//! output[row, column] =
//!     epilogue( sum over points of p(scores[row, point], top[row]) * right[point, column],
//!               sums[row] )
//! ```
//!
//! Scores are inner sums of products: one factor depends on no point, the other on no row. All of
//! this may be batched. `top` is the maximum over the points of a function x of the scores, and
//! every value that depends on it is proportional to exp(x - top). A kernel may therefore use the
//! running maximum, and scale its sums by exp(old - new) whenever that changes (Milakov and
//! Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention",
//! 2022).

use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};

use super::{Inner, Leaf, Nest, Roles, operands};

/// The parts of a nest in attention form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// Roles in the nest's own product. Its left factor is computed from the scores.
    pub roles: Roles,
    /// The factors of each inner sum.
    pub scores: Vec<Score>,
    /// The body's statistic that is a maximum, if there is one.
    pub top: Option<Value>,
    /// The body's statistics that are sums. Only the epilogue reads them.
    pub sums: Vec<Value>,
}

/// The factors of an inner sum, as values of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Score {
    /// The factor that depends on no point.
    pub left: Value,
    /// The factor that depends on no row.
    pub right: Value,
}

impl Nest {
    /// Returns the parts of the nest if it has attention form, no guards and no derived variables,
    /// and accumulates in f32.
    pub fn attention(&self) -> Option<Attention> {
        let is_plain = self.guards.is_empty() && self.derived.is_empty();
        if self.inner.is_empty() || !is_plain || self.accumulator() != Some(DType::F32) {
            return None;
        }
        let mut roles = self.roles()?;
        let reads = |value: Value| needed(&self.body, value);
        let is_of_points =
            |leaf: &Inst<Leaf>| matches!(leaf, Inst::Leaf(Leaf::Inner(_) | Leaf::Statistic(..)));
        let is_made =
            |value: Value| reads(value).into_iter().any(|v| is_of_points(&self.body.insts[v].0));
        if is_made(roles.right) {
            roles = roles.swapped();
        }
        if is_made(roles.right) || roles.rows.is_empty() || roles.columns.is_empty() {
            return None;
        }
        let scores = self
            .inner
            .iter()
            .map(|inner| self.score(inner, &roles))
            .collect::<Option<Vec<Score>>>()?;
        let of_body = self.dependencies(&self.body);
        let (mut tops, mut sums) = (Vec::new(), Vec::new());
        for (value, (inst, dtype)) in self.body.insts.enumerate() {
            let Inst::Leaf(Leaf::Statistic(aggregation, of)) = inst else { continue };
            if *dtype != DType::F32 || roles.columns.iter().any(|&column| of_body[*of][column]) {
                return None;
            }
            match aggregation {
                Aggregation::Max => tops.push(value),
                Aggregation::Sum => sums.push(value),
                _ => return None,
            }
        }
        let top = match tops[..] {
            [] => None,
            [top] => Some(top),
            _ => return None,
        };
        let degrees = self.degrees(top, &sums);
        let degree = |statistic: &Value| match self.body.insts[*statistic].0 {
            Inst::Leaf(Leaf::Statistic(_, of)) => degrees[of],
            _ => None,
        };
        // Either every summed value is proportional to exp(-top), or there is no top.
        let wanted = Some(top.is_some());
        let fits = degrees[roles.left] == wanted
            && sums.iter().all(|sum| degree(sum) == wanted)
            && top.is_none_or(|top| degree(&top) == Some(false));
        // An output with one element a row must have a distinct one for each batch and row.
        let of_rows = (0..self.outputs.len()).filter(|&output| self.is_of_rows(output));
        let mentions =
            |output: usize, axis: usize| self.depends_on(&self.outputs[output].position, axis);
        let is_own = of_rows.into_iter().all(|output| {
            roles.batch.iter().chain(&roles.rows).all(|&axis| mentions(output, axis))
        });
        (fits && is_own).then_some(Attention { roles, scores, top, sums })
    }

    fn score(&self, inner: &Inner, roles: &Roles) -> Option<Score> {
        let Inner { body, .. } = inner;
        let &result = body.results.first()?;
        let Inst::Binary(BinaryOp::Mul, left, right) = body.insts[result].0 else { return None };
        let dependencies = self.dependencies(body);
        let mentions =
            |value: Value, axes: &[usize]| axes.iter().any(|&axis| dependencies[value][axis]);
        let fits = |left: Value, right: Value| {
            !mentions(left, &roles.reduction)
                && !mentions(right, &roles.rows)
                && !mentions(result, &roles.columns)
        };
        let is_f32 = body.dtype(result) == DType::F32;
        let orders = [(left, right), (right, left)];
        let (left, right) =
            orders.into_iter().find(|&(left, right)| is_f32 && fits(left, right))?;
        Some(Score { left, right })
    }

    /// Returns for each value of the body whether it is proportional to exp(-top): `Some(true)` if
    /// it is, `Some(false)` if it does not depend on the top, and `None` if it depends on the top
    /// in another way or on one of `sums`.
    fn degrees(&self, top: Option<Value>, sums: &[Value]) -> Dense<Value, Option<bool>> {
        let body = &self.body;
        let mut degrees: Dense<Value, Option<bool>> = Dense::with_capacity(body.insts.len());
        for (value, (inst, _)) in body.insts.enumerate() {
            let is_zero =
                |v: Value| matches!(body.insts[v].0, Inst::Const(c) if c == Scalar::zero(c.dtype));
            let degree = match *inst {
                _ if Some(value) == top || sums.contains(&value) => None,
                Inst::Unary(UnaryOp::Exp, a) if top.is_some_and(|top| self.is_below(a, top)) => {
                    Some(true)
                }
                Inst::Unary(UnaryOp::Neg, a) => degrees[a],
                Inst::Binary(BinaryOp::Mul, a, b) => match (degrees[a], degrees[b]) {
                    (Some(true), Some(true)) => None,
                    (Some(a), Some(b)) => Some(a || b),
                    _ => None,
                },
                Inst::Binary(BinaryOp::Div, a, b) => {
                    degrees[a].filter(|_| degrees[b] == Some(false))
                }
                Inst::Select(c, a, b) if degrees[c] == Some(false) => {
                    match (degrees[a], degrees[b]) {
                        (Some(x), Some(y)) if x == y || (y && is_zero(a)) || (x && is_zero(b)) => {
                            Some(x || y)
                        }
                        _ => None,
                    }
                }
                _ => operands(inst).iter().all(|&o| degrees[o] == Some(false)).then_some(false),
            };
            degrees.push(degree);
        }
        degrees
    }

    /// Returns whether a value of the body is `x - top`, where `top` is the maximum of x.
    pub(super) fn is_below(&self, value: Value, top: Value) -> bool {
        match (&self.body.insts[value].0, &self.body.insts[top].0) {
            (Inst::Binary(BinaryOp::Sub, x, y), Inst::Leaf(Leaf::Statistic(_, of))) => {
                *y == top && x == of
            }
            _ => false,
        }
    }
}

/// Postpones the division in a product with a factor that is divided by its own sum over the
/// points, as in a softmax. The epilogue divides the sum of the products instead, once a place.
/// Only rounding differs.
pub(super) fn postponed(mut nest: Nest) -> Nest {
    let [result] = nest.body.results[..] else { return nest };
    if nest.inner.is_empty() || nest.aggregation != Some(Aggregation::Sum) {
        return nest;
    }
    let mut body = nest.body.clone();
    let Some((whole, sum)) = undivided(&mut body, result) else { return nest };
    body.results = vec![whole];
    let dtype = body.dtype(sum);
    let mut epilogue = Program::default();
    let mut now: Dense<Value, Value> = Dense::with_capacity(nest.epilogue.insts.len());
    for (inst, ty) in &nest.epilogue.insts {
        let value = epilogue.push(renumbered(inst, &|value| now[value]), *ty);
        let is_sum = matches!(inst, Inst::Leaf(Leaf::Accumulator)) && *ty == dtype;
        now.push(if is_sum {
            let sum = epilogue.push(Inst::Leaf(Leaf::OfBody(sum)), dtype);
            epilogue.binary(BinaryOp::Div, value, sum)
        } else {
            value
        });
    }
    epilogue.results = nest.epilogue.results.iter().map(|&result| now[result]).collect();
    (nest.body, nest.epilogue) = (body, epilogue);
    without_unused(nest)
}

/// Returns a value without the division of one of its factors by that factor's sum, and the sum.
fn undivided(body: &mut Program<Leaf>, value: Value) -> Option<(Value, Value)> {
    let is_sum_of = |body: &Program<Leaf>, value: Value, of: Value| matches!(body.insts[value].0, Inst::Leaf(Leaf::Statistic(Aggregation::Sum, summed)) if summed == of);
    match body.insts[value].0 {
        Inst::Binary(BinaryOp::Div, a, b) if is_sum_of(body, b, a) => Some((a, b)),
        Inst::Binary(BinaryOp::Mul, a, b) => {
            if let Some((a, sum)) = undivided(body, a) {
                return Some((body.binary(BinaryOp::Mul, a, b), sum));
            }
            let (b, sum) = undivided(body, b)?;
            Some((body.binary(BinaryOp::Mul, a, b), sum))
        }
        _ => None,
    }
}

/// Removes values of the body that nothing reads.
fn without_unused(mut nest: Nest) -> Nest {
    let of_body = |leaf: &Leaf| if let Leaf::OfBody(value) = leaf { Some(*value) } else { None };
    let read: Vec<Value> = nest.epilogue.leaves().filter_map(of_body).collect();
    let (body, now) = only_needed(&nest.body, &read);
    for (inst, _) in &mut nest.epilogue.insts {
        if let Inst::Leaf(Leaf::OfBody(value)) = inst {
            *value = now[*value];
        }
    }
    nest.body = body;
    nest
}

/// Returns a program reduced to the values that its results and `others` need, and the new number
/// of each value.
pub(super) fn only_needed(
    program: &Program<Leaf>,
    others: &[Value],
) -> (Program<Leaf>, Dense<Value, Value>) {
    let mut is_needed = Dense::of(false, program.insts.len());
    let wanted = program.results.iter().chain(others);
    wanted.flat_map(|&value| needed(program, value)).for_each(|value| is_needed[value] = true);
    let mut only = Program::default();
    let mut now = Dense::of(Value::default(), program.insts.len());
    for (value, (inst, dtype)) in program.insts.enumerate().filter(|(value, _)| is_needed[*value]) {
        now[value] = only.push(renumbered(inst, &|value| now[value]), *dtype);
    }
    only.results = program.results.iter().map(|&result| now[result]).collect();
    (only, now)
}

/// Returns the loads that a value of a program needs, except those of inner sums.
pub(crate) fn loads_of(
    program: &Program<Leaf>,
    value: Value,
) -> impl Iterator<Item = &super::Load> {
    needed(program, value).into_iter().filter_map(|v| match &program.insts[v].0 {
        Inst::Leaf(leaf) => leaf.load(),
        _ => None,
    })
}

/// Returns a value and all values that it is computed from.
pub(super) fn needed(program: &Program<Leaf>, value: Value) -> Vec<Value> {
    let mut is_needed = Dense::of(false, program.insts.len());
    is_needed[value] = true;
    for v in is_needed.ids().rev() {
        if is_needed[v] {
            operands(&program.insts[v].0).into_iter().for_each(|o| is_needed[o] = true);
        }
    }
    is_needed.ids().filter(|&v| is_needed[v]).collect()
}

/// Returns an instruction with its operands renumbered, including those that its leaf reads.
fn renumbered(inst: &Inst<Leaf>, now: &dyn Fn(Value) -> Value) -> Inst<Leaf> {
    match inst {
        Inst::Leaf(Leaf::Load(load)) => {
            let dynamic =
                load.dynamic.iter().map(|&(value, stride)| (now(value), stride)).collect();
            Inst::Leaf(Leaf::Load(super::Load { dynamic, ..load.clone() }))
        }
        Inst::Leaf(Leaf::Statistic(aggregation, value)) => {
            Inst::Leaf(Leaf::Statistic(*aggregation, now(*value)))
        }
        inst => inst.renumbered(now),
    }
}
