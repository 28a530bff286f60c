//! Hyperbolic functions and their inverses.

use super::{LN_2, Values};
use crate::kernel::Expr;
use crate::scalar::{BinaryOp, UnaryOp};

/// Above this, x² + 1 rounds to x².
const FAR: f32 = 4096.0;

impl Values<'_> {
    pub(super) fn sinh(&mut self, x: &Expr) -> Expr {
        // Fits (sinh(x) / x - 1) / x² in x², for |x| < 1.
        let small =
            self.odd_series(x, &[2.783_925e-6, 0.000_198_426_35, 0.008_333_311, 0.166_666_67]);
        let (size, half) = self.half_exp(x);
        let large = half.clone() - self.f32(0.25).binary(BinaryOp::Div, half);
        let large = self.with_sign(large, x);
        size.lt(self.f32(1.0)).select(small, large)
    }

    pub(super) fn cosh(&mut self, x: &Expr) -> Expr {
        let (_, half) = self.half_exp(x);
        half.clone() + self.f32(0.25).binary(BinaryOp::Div, half)
    }

    /// Returns |x| and e^|x| / 2.
    fn half_exp(&mut self, x: &Expr) -> (Expr, Expr) {
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        let half = self.exp_scaled(&size, 90.0, -1);
        (size, self.name("half", half))
    }

    pub(super) fn tanh(&mut self, x: &Expr) -> Expr {
        // Fits (tanh(x) / x - 1) / x² in x², for |x| < 0.55.
        let near = [-0.006_615_756, 0.021_312_745, -0.053_910_066, 0.133_331_18, -0.333_333_3];
        let small = self.odd_series(x, &near);
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        // From |x| = 10 on, the nearest float is 1.
        let twice = self.name("twice", (size.clone() + &size).min(self.f32(20.0)));
        let power = self.exp(&twice);
        let large = self.f32(1.0) - self.f32(2.0).binary(BinaryOp::Div, power + self.f32(1.0));
        let large = self.with_sign(large, x);
        size.lt(self.f32(0.55)).select(small, large)
    }

    /// Returns 1 / (1 + e^-x), from the exponential of -|x|.
    pub(super) fn sigmoid(&mut self, x: &Expr) -> Expr {
        let below = x.clone().unary(UnaryOp::Abs).unary(UnaryOp::Neg);
        let power = self.exp(&below);
        let power = self.name("power", power);
        let part = x.clone().lt(self.f32(0.0)).select(&power, self.f32(1.0));
        part.binary(BinaryOp::Div, power + self.f32(1.0))
    }

    pub(super) fn asinh(&mut self, x: &Expr) -> Expr {
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        let square = self.name("square", &size * &size);
        let root = (square.clone() + self.f32(1.0)).unary(UnaryOp::Sqrt);
        let above = size.clone() + square.binary(BinaryOp::Div, root + self.f32(1.0));
        let value = self.log_of_sum(&size, above);
        self.with_sign(value, x)
    }

    pub(super) fn acosh(&mut self, x: &Expr) -> Expr {
        let above = self.name("above", x.clone() - self.f32(1.0));
        let root = (above.clone() * (above.clone() + self.f32(2.0))).unary(UnaryOp::Sqrt);
        let value = self.log_of_sum(x, above + root);
        x.clone().lt(self.f32(1.0)).select(self.f32(f32::NAN), value)
    }

    /// Returns ln(1 + y), or ln 2x if x is above [`FAR`].
    fn log_of_sum(&mut self, x: &Expr, y: Expr) -> Expr {
        let is_far = self.name("is_far", x.clone().gt(self.f32(FAR)));
        let y = self.name("y", is_far.clone().select(self.f32(0.0), y));
        let near = self.finite_log1p(&y);
        let far = self.log(x) + self.f32(LN_2);
        is_far.select(far, near)
    }

    pub(super) fn atanh(&mut self, x: &Expr) -> Expr {
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        let twice = self.name("twice", size.clone() + &size);
        let less = self.name("less", self.f32(1.0) - &size);
        // y = 2a / (1 - a). Below ½ it is computed as 2a + 2a · a / (1 - a), which is more
        // accurate.
        let small = twice.clone().fma(size.clone().binary(BinaryOp::Div, &less), &twice);
        let y = size.clone().lt(self.f32(0.5)).select(small, twice.binary(BinaryOp::Div, &less));
        let y = self.name("y", y);
        let value = self.finite_log1p(&y) * self.f32(0.5);
        let value = self.with_sign(value, x);
        let edge = self.with_sign(self.f32(f32::INFINITY), x);
        let value = size.clone().equals(self.f32(1.0)).select(edge, value);
        size.gt(self.f32(1.0)).select(self.f32(f32::NAN), value)
    }
}
