//! Powers of positive numbers.

use super::{INFINITY, Values};
use crate::kernel::Expr;
use crate::scalar::BinaryOp;

/// The upper 12 bits of the significand: products of two masked floats are exact.
const UPPER: u32 = 0xffff_f000;

/// 2 / ln 2, and its two parts. The first part has 12 bits.
const SCALE: f32 = 2.885_39;
const SCALE_HIGH: f32 = 2.884_765_6;
const SCALE_LOW: f32 = 6.244_568e-4;

impl Values<'_> {
    /// Returns aʸ for a finite a above 0.
    ///
    /// The exponent `y log₂ a` may be 150, but its fraction must still be accurate. So log₂ a is
    /// `e + high + low`, whose products with the parts of y are exact, except for small ones, and
    /// the whole part n is subtracted from the large products first.
    pub(in crate::schedule) fn positive_power(&mut self, a: &Expr, y: &Expr) -> Expr {
        let (e, f) = self.exponent_and_rest(a);
        // log₂(1 + f) = 2 / ln 2 · artanh(s), with s = f / (2 + f) in two parts.
        let sum = self.name("sum", f.clone() + self.f32(2.0));
        let s = self.name("s", f.clone().binary(BinaryOp::Div, &sum));
        let [s_high, sum_high] = [&s, &sum].map(|x| self.masked(x, UPPER));
        let (s_high, sum_high) = (self.name("s_high", s_high), self.name("sum_high", sum_high));
        let sum_low = f.clone() - (sum_high.clone() - self.f32(2.0));
        let minus = self.name("minus", s_high.clone() * self.f32(-1.0));
        let twice = self.doubled(&minus, 1);
        let rest = twice.fma(sum_low * self.f32(0.5), minus.fma(sum_high, f));
        let s_low = rest.binary(BinaryOp::Div, sum);
        let z = self.name("z", &s * &s);
        let tail = self.series(&z, &[1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0]) * (&s * &z);
        let low = s_high.clone().fma(self.f32(SCALE_LOW), (s_low + tail) * self.f32(SCALE));
        let low = self.name("low", low);
        let high = self.name("high", s_high.clone() * self.f32(SCALE_HIGH));
        let upper = self.name("upper", self.masked(&high, UPPER));
        let lower =
            self.name("lower", s_high.fma(self.f32(SCALE_HIGH), upper.clone() * self.f32(-1.0)));
        // A larger y gives 0 or infinity for every a other than 1.
        let y = self
            .name("y", y.clone().max(self.f32(-2_147_483_648.0)).min(self.f32(2_147_483_648.0)));
        let y_high = self.name("y_high", self.masked(&y, UPPER));
        let y_low = self.name("y_low", y.clone() - &y_high);
        let whole = self.name("exponent", &y * (e.clone() + (high.clone() + &low)));
        let near = whole.clone().max(self.f32(-200.0)).min(self.f32(200.0));
        let n = self.name("n", self.floor(near + self.f32(0.5)));
        let twice = self.doubled(&y_high, 1);
        let large =
            twice.fma(upper * self.f32(0.5), y_high.clone().fma(&e, n.clone() * self.f32(-1.0)));
        let small = y_low.clone().fma(e, y_high.fma(lower, y_low.fma(high, y * low)));
        // r is out of range only where the result is 0 or infinity anyway.
        let r = self.name("r", (large + small).max(self.f32(-1.0)).min(self.f32(1.0)));
        // Fits 2^r for |r| ≤ ½.
        let fit = [
            1.546_413_6e-4,
            0.001_339_206_7,
            0.009_618_06,
            0.055_503_577,
            0.240_226_5,
            super::LN_2,
            1.0,
        ];
        let power = self.series(&r, &fit);
        let power = self.scaled(power, &n);
        let power = whole.clone().lt(self.f32(-151.0)).select(self.f32(0.0), power);
        whole.gt(self.f32(129.0)).select(self.f32(f32::from_bits(INFINITY)), power)
    }
}
