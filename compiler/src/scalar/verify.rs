//! Verifies the invariants of a [`Program`].

use super::{BinaryOp, Inst, Program, UnaryOp, Value};
use crate::dtype::DType;

impl<L> Program<L> {
    /// Checks that operands precede their readers and have the types that the operations take.
    /// `leaf` returns the type of a leaf, or an error. Errors are single sentences.
    pub fn verify(&self, mut leaf: impl FnMut(&L) -> Result<DType, String>) -> Result<(), String> {
        for (value, (inst, dtype)) in self.insts.enumerate() {
            if let Some(operand) = inst.operands().into_iter().find(|&operand| operand >= value) {
                return Err(format!("v{value} reads v{operand}, which is not before it"));
            }
            let of = |v: &Value| self.insts[*v].1;
            let result = match inst {
                Inst::Const(scalar) => scalar.dtype,
                Inst::Leaf(l) => leaf(l)?,
                Inst::Unary(op, a) => op.result(of(a)).map_err(|e| format!("v{value}: {e}"))?,
                Inst::Binary(op, a, b) => {
                    op.result(of(a), of(b)).map_err(|e| format!("v{value}: {e}"))?
                }
                Inst::Select(c, a, b) => {
                    select_result(of(c), of(a), of(b)).map_err(|e| format!("v{value}: {e}"))?
                }
                Inst::Cast(_) => *dtype,
            };
            if result != *dtype {
                return Err(format!("v{value} is marked {dtype}, but computes {result}"));
            }
        }
        match self.results.iter().find(|&&r| r >= self.insts.next_id()) {
            Some(result) => Err(format!("the result v{result} is not computed")),
            None => Ok(()),
        }
    }
}

impl UnaryOp {
    /// Returns the type of the result on an operand of type `a`, or an error if the operation does
    /// not take it.
    pub fn result(self, a: DType) -> Result<DType, String> {
        match self {
            UnaryOp::BitNot if a.is_float() => Err(format!("{} does not take {a}", self.name())),
            _ => Ok(a),
        }
    }
}

impl BinaryOp {
    /// Returns the type of the result on operands of types `a` and `b`, or an error if the
    /// operation does not take them.
    pub fn result(self, a: DType, b: DType) -> Result<DType, String> {
        use BinaryOp::*;
        let on_bits = matches!(self, BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight);
        if a != b {
            Err(format!("{} takes operands of one type, not {a} and {b}", self.name()))
        } else if on_bits && a.is_float() {
            Err(format!("{} does not take {a}", self.name()))
        } else {
            Ok(if self.is_comparison() { DType::Bool } else { a })
        }
    }
}

/// Returns the type of `condition ? then : otherwise`, or an error if the types do not fit.
pub fn select_result(condition: DType, then: DType, otherwise: DType) -> Result<DType, String> {
    if condition != DType::Bool {
        Err(format!("the condition of select is {condition}, not bool"))
    } else if then != otherwise {
        Err(format!("select takes two values of one type, not {then} and {otherwise}"))
    } else {
        Ok(then)
    }
}
