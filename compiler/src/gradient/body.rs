//! The derivative of a contraction's body with respect to its accesses.

use super::rules::{self, Algebra};
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::graph::ContractionLeaf;
use crate::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};

type Body = Program<ContractionLeaf>;

impl Algebra for Body {
    type Value = Value;

    fn dtype(&self, value: Value) -> DType {
        self.dtype(value)
    }

    fn scalar(&mut self, scalar: Scalar) -> Value {
        self.constant(scalar)
    }

    fn unary(&mut self, op: UnaryOp, a: Value) -> Value {
        self.unary(op, a)
    }

    fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        self.binary(op, a, b)
    }

    fn product(&mut self, a: Value, b: Value) -> Value {
        let is_one = |value: Value| matches!(self.insts[value].0, Inst::Const(s) if s == Scalar::one(s.dtype));
        match (is_one(a), is_one(b)) {
            (true, _) => b,
            (_, true) => a,
            _ => self.binary(BinaryOp::Mul, a, b),
        }
    }

    fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        self.select(condition, then, otherwise)
    }
}

/// Appends to `body` the gradient of the value `of`, multiplied by the value `g`, with respect to
/// each access that is `wanted`. The gradient is `None` if it is 0 everywhere. For a product of
/// accesses, it is `g` times the other accesses.
pub(super) fn derivatives(
    body: &mut Body,
    of: Value,
    g: Value,
    wanted: &[bool],
) -> Vec<Option<Value>> {
    let mut found = vec![None; wanted.len()];
    let count = body.insts.len();
    let mut depends = Dense::of(false, count);
    for (value, (inst, dtype)) in body.insts.enumerate() {
        depends[value] = dtype.is_float()
            && match inst {
                Inst::Leaf(ContractionLeaf::Access(access)) => wanted.get(*access) == Some(&true),
                _ => inst.operands().into_iter().any(|operand| depends[operand]),
            };
    }
    let mut total: Dense<Value, Option<Value>> = Dense::of(None, count);
    total[of] = Some(g);
    for value in depends.ids().rev().filter(|&value| depends[value]) {
        let Some(g) = total[value] else { continue };
        let parts = match body.insts[value].0.clone() {
            Inst::Leaf(ContractionLeaf::Access(access)) => {
                found[access] = Some(g);
                continue;
            }
            Inst::Leaf(ContractionLeaf::Index(_)) | Inst::Const(_) => continue,
            Inst::Unary(op, x) => vec![(x, rules::unary(body, op, x, value, g))],
            Inst::Binary(op, a, b) => {
                let [left, right] =
                    rules::binary(body, op, [a, b], value, g, [depends[a], depends[b]]);
                vec![(a, left), (b, right)]
            }
            Inst::Select(condition, a, b) => {
                let [then, otherwise] = rules::select(body, condition, g, [depends[a], depends[b]]);
                vec![(a, then), (b, otherwise)]
            }
            Inst::Cast(x) => {
                let dtype = body.dtype(x);
                vec![(x, Some(body.cast(g, dtype)))]
            }
        };
        for (operand, part) in parts {
            let Some(part) = part.filter(|_| depends[operand]) else { continue };
            total[operand] = Some(match total[operand] {
                Some(sum) => body.binary(BinaryOp::Add, sum, part),
                None => part,
            });
        }
    }
    found
}
