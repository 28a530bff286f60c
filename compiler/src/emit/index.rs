//! Index arithmetic: i32 expressions over launch positions, loop counters and literals, computed as
//! u32.
//!
//! Wrapping sums and products have the same bits in both types, and quotients and remainders are of
//! values of at least 0. Every language can express u32 arithmetic plainly: in MSL and HLSL, naga
//! writes a wrapping signed sum with four casts, and signed division with a helper function. Where
//! the sign matters, as in a comparison, the value is converted to i32.

use naga::{BinaryOperator as B, Expression, Handle};

use super::EmitError;
use super::module::{Emitter, Variable};
use crate::dtype::{DType, Scalar};
use crate::kernel::{Builtin, Expr};
use crate::scalar::BinaryOp;

impl Emitter<'_> {
    /// Returns whether an expression is index arithmetic. It looks at right operands first: a long
    /// sum is a chain of left operands, and an operand that is not index arithmetic is usually at
    /// its end.
    pub fn is_index(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Literal(scalar) => scalar.dtype == DType::I32,
            Expr::Builtin(_) => true,
            Expr::Variable(id) => matches!(self.variables.get(id), Some(Variable::Index(_))),
            Expr::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, a, b) => {
                self.is_index(b) && self.is_index(a)
            }
            Expr::Quotient(a, _) | Expr::Remainder(a, _) => self.is_index(a),
            _ => false,
        }
    }

    /// Returns whether an expression is obviously at least 0.
    pub fn is_natural(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Builtin(_)) || expr.as_i32().is_some_and(|value| value >= 0)
    }

    /// Returns the bits of an i32 expression as u32.
    pub fn unsigned(&mut self, expr: &Expr) -> Result<Handle<Expression>, EmitError> {
        let (op, left, right) = match expr {
            Expr::Literal(value) => return Ok(self.unsigned_literal(value.bits() as u32)),
            Expr::Builtin(Builtin::WorkgroupId(axis)) => {
                return Ok(self.component(self.workgroup_id, *axis));
            }
            Expr::Builtin(Builtin::LocalId(axis)) => {
                return Ok(self.component(self.local_id, *axis));
            }
            Expr::Builtin(
                builtin @ (Builtin::Subgroup | Builtin::SubgroupLane | Builtin::Subgroups),
            ) => {
                return Ok(self.subgroup_input(*builtin));
            }
            Expr::Builtin(Builtin::Step(number)) => return Ok(self.steps[*number]),
            Expr::Variable(id) if let Some(Variable::Index(value)) = self.variables.get(id) => {
                return Ok(*value);
            }
            // x + -3 = x - 3
            Expr::Binary(BinaryOp::Add, a, b) if let Some(b @ ..0) = b.as_i32() => {
                (B::Subtract, self.unsigned(a)?, self.unsigned_literal(b.unsigned_abs()))
            }
            Expr::Binary(BinaryOp::Add, a, b) => (B::Add, self.unsigned(a)?, self.unsigned(b)?),
            Expr::Binary(BinaryOp::Sub, a, b) => {
                (B::Subtract, self.unsigned(a)?, self.unsigned(b)?)
            }
            Expr::Binary(BinaryOp::Mul, a, b) => {
                (B::Multiply, self.unsigned(a)?, self.unsigned(b)?)
            }
            Expr::Quotient(a, n) => (B::Divide, self.unsigned(a)?, self.unsigned_literal(*n)),
            Expr::Remainder(a, n) => (B::Modulo, self.unsigned(a)?, self.unsigned_literal(*n)),
            _ => {
                let value = self.value(expr)?;
                return Ok(self.cast(value, DType::U32));
            }
        };
        Ok(self.emit(Expression::Binary { op, left, right }))
    }

    fn component(&mut self, base: Handle<Expression>, axis: u8) -> Handle<Expression> {
        self.emit(Expression::AccessIndex { base, index: axis as u32 })
    }

    pub fn unsigned_literal(&mut self, value: u32) -> Handle<Expression> {
        self.literal(Scalar::from_i64(DType::U32, value as i64))
    }
}
