//! Operations on f64. Devices with the type have its arithmetic, and none of its elementary
//! functions. They keep NaN and infinity.

use super::values::{Unsupported, Values};
use crate::dtype::{DType, Scalar};
use crate::kernel::Expr;
use crate::scalar::UnaryOp;

/// Returns the error for an operation without an implementation.
pub(super) fn lacks(op: &str) -> Unsupported {
    Unsupported { what: format!("`{op}` of f64 (cast it to f32 first)") }
}

impl Values<'_> {
    fn double(&self, value: f64) -> Expr {
        Expr::from(Scalar::from_f64(DType::F64, value)).splat(self.lanes)
    }

    /// Writes `op` of an f64 value. Shaders have no elementary functions of these.
    pub fn double_unary(&mut self, op: UnaryOp, a: Expr) -> Result<Expr, Unsupported> {
        use UnaryOp::*;
        match op {
            Neg | Abs | Ceil | Floor | Recip | Rint | Rsqrt | Sqrt => return Ok(a.unary(op)),
            Round => {}
            _ => return Err(lacks(op.name())),
        }
        let a = self.b.let_("a", a);
        let size = self.b.let_("size", a.clone().unary(Abs));
        let whole = self.b.let_("whole", size.clone().unary(Floor));
        let zero = self.double(0.0);
        let up = (size - whole.clone()).ge(self.double(0.5)).select(self.double(1.0), zero.clone());
        let rounded = self.b.let_("rounded", whole + up);
        // -0 stays -0.
        let positive = a.clone().gt(zero.clone()).select(rounded.clone(), a.clone());
        Ok(a.lt(zero).select(rounded.unary(Neg), positive))
    }

    /// Truncates and saturates. NaN gives 0. f64 has the bounds of 32-bit types, and 2^63 and 2^64
    /// instead of those of 64 bits.
    pub fn double_to_integer(
        &self,
        to: DType,
        target: DType,
        a: Expr,
    ) -> Result<Expr, Unsupported> {
        let (low, high) = (Scalar::lowest(to), Scalar::highest(to));
        let [least, most] = [low, high].map(|bound| self.double(bound.to_f64()));
        let (zero, high) = (self.constant(Scalar::zero(to))?, self.constant(high)?);
        let inside = a.clone().max(least).min(most.clone());
        let inside = inside.cast(target);
        let value = a.clone().ge(most).select(high, inside);
        Ok(self.is_number(&a).select(value, zero))
    }
}
