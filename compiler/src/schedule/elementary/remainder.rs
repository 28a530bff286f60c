//! The exact remainder of a division of floats.

use super::{INFINITY, NAN, SIGN, Values};
use crate::dtype::{DType, Scalar};
use crate::kernel::Expr;
use crate::scalar::BinaryOp;

/// Bits of the quotient in one turn of the loop. With the 24 bits of the remainder they fill a
/// word.
const BITS: i32 = 8;

impl Values<'_> {
    /// Returns C's `fmodf`: long division of the mantissas, [`BITS`] bits of the quotient in each
    /// turn.
    pub(in crate::schedule) fn float_remainder(&mut self, a: &Expr, b: &Expr) -> Expr {
        let (a, b) = (self.name("a", a.clone()), self.name("b", b.clone()));
        let [a_size, b_size] = [&a, &b].map(|x| x.clone().bitcast(DType::U32).and(self.u32(!SIGN)));
        let (a_size, b_size) = (self.name("a_size", a_size), self.name("b_size", b_size));
        let [(a_exponent, a_mantissa), (b_exponent, b_mantissa)] =
            [&a_size, &b_size].map(|bits| self.parts(bits));
        // At least 1: a divisor of 0 has no remainder anyway.
        let divisor = self.name("divisor", b_mantissa.max(self.u32(1)));
        let left = (a_exponent - &b_exponent).bitcast(DType::I32).max(self.i32(0));
        let left = self.b.var("left", left);
        let first = self.modulo(a_mantissa, &divisor);
        let rest = self.b.var("rest", first);
        let lanes = (0..self.lanes)
            .map(|lane| if self.lanes == 1 { left.clone() } else { left.clone().lane(lane) });
        let most = lanes.reduce(Expr::max).unwrap_or_else(|| 0.into());
        let most = self.name("most", most);
        let (width, profile) = (self.lanes, self.profile);
        self.b.for_("done", 0, most, BITS as u32, |b, _| {
            let mut values = Values { b, profile, lanes: width };
            let bits = values.name("bits", left.clone().min(values.i32(BITS)));
            let longer = rest.clone().binary(BinaryOp::ShiftLeft, bits.clone().bitcast(DType::U32));
            let next = values.modulo(longer, &divisor);
            values.b.assign(&rest, next);
            values.b.assign(&left, left.clone() - bits);
        });
        // The rest counts units of the divisor's last place, 2^(exponent - 150).
        let n = self.name("n", b_exponent.cast(DType::F32) - self.f32(150.0));
        let value = self.scaled(rest.cast(DType::F32), &n);
        let value = self.with_sign(value, &a);
        let value = a_size.clone().lt(&b_size).select(&a, value);
        let defined = a_size.lt(self.u32(INFINITY)).and(b_size.clone().le(self.u32(INFINITY)));
        let defined = defined.and(b_size.differs(self.u32(0)));
        defined
            .select(value, Expr::from(Scalar::from_bits(DType::F32, NAN.into())).splat(self.lanes))
    }

    /// Returns a positive float's exponent, and its mantissa in units of 2^(exponent - 150).
    fn parts(&mut self, bits: &Expr) -> (Expr, Expr) {
        let exponent =
            self.name("exponent", bits.clone().binary(BinaryOp::ShiftRight, self.u32(23)));
        let mantissa = bits.clone().and(self.u32(0x007f_ffff));
        let is_normal = self.name("is_normal", exponent.clone().differs(self.u32(0)));
        let leading = is_normal.select(self.u32(0x0080_0000), self.u32(0));
        let mantissa = self.name("mantissa", mantissa.binary(BinaryOp::BitOr, leading));
        (self.name("exponent", exponent.max(self.u32(1))), mantissa)
    }

    /// Returns `a` modulo `divisor`, both u32.
    fn modulo(&mut self, a: Expr, divisor: &Expr) -> Expr {
        let a = self.name("whole", a);
        let quotient = a.clone().binary(BinaryOp::Div, divisor);
        a - quotient * divisor
    }
}
