//! The elementary functions of f32, written in operations that every device computes alike.
//!
//! Drivers are inaccurate: `exp` may be off by 3 + 2·|x| units in the last place, `sin` and `cos`
//! by 2⁻¹¹ and without bound outside ±π, `tanh` near 0 by as much as the rounding of `exp`. The
//! functions here are within 4 units of the exact result unless that is subnormal, as long as sums
//! and products are rounded correctly, quotients are within 2.5 units and square roots within 3, as
//! WGSL requires. The test `tests/elementary.rs` checks this. Division, `sqrt` and `rsqrt` are the
//! device's own, whose bounds are as small.
//!
//! Shader compilers may assume that there is no NaN and no infinity, may reassociate sums (Metal's
//! fast math), and may compute `fma` as a product and a sum. Four rules keep the functions correct
//! nevertheless:
//!
//! - NaN and infinity are detected by their bits, and selected last.
//! - A difference that recovers a rounding error is an `fma`, or has an operand whose low bits were
//!   masked off.
//! - No number is a factor twice in a chain of `fma`, because compilers add up the other factors.
//!   The second use is the number's double, made from its bits.
//! - If a product must be exact, its factors have few enough bits.
//!
//! Coefficients are minimax fits of the function that the comment beside them names, with the
//! highest power first.

mod angle;
mod hyperbolic;
mod power;
mod remainder;

use super::values::Values;
use crate::dtype::DType;
use crate::kernel::Expr;
use crate::scalar::{BinaryOp, UnaryOp};

/// The sign bit of a float.
pub(super) const SIGN: u32 = 0x8000_0000;
/// The bits of infinity. The bits of a NaN without its sign are greater.
pub(super) const INFINITY: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fc0_0000;

/// 1.5 · 2²³. Its sum with an integer below 2²² in magnitude has that integer in its low bits.
const ROUNDER: f32 = 12_582_912.0;

/// ln 2 in two parts. The first has 9 bits, so that its products with exponents are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// ln 2.
const LN_2: f32 = std::f32::consts::LN_2;

impl Values<'_> {
    /// Computes `op` of f32 values. Returns `None` if the device's own function is as accurate.
    pub(super) fn elementary(&mut self, op: UnaryOp, x: &Expr) -> Option<Expr> {
        let x = self.b.let_("x", x.clone());
        let value = match op {
            UnaryOp::Exp => self.exp(&x),
            UnaryOp::Log => self.log(&x),
            UnaryOp::Log1p => self.log1p(&x),
            UnaryOp::Erf => self.erf(&x),
            UnaryOp::Sigmoid => self.sigmoid(&x),
            UnaryOp::Sin => self.sin(&x),
            UnaryOp::Cos => self.cos(&x),
            UnaryOp::Tan => self.tan(&x),
            UnaryOp::Asin => self.asin(&x),
            UnaryOp::Acos => self.acos(&x),
            UnaryOp::Atan => self.atan(&x),
            UnaryOp::Sinh => self.sinh(&x),
            UnaryOp::Cosh => self.cosh(&x),
            UnaryOp::Tanh => self.tanh(&x),
            UnaryOp::Asinh => self.asinh(&x),
            UnaryOp::Acosh => self.acosh(&x),
            UnaryOp::Atanh => self.atanh(&x),
            _ => return None,
        };
        let number = self.is_number(&x);
        Some(number.select(value, x))
    }

    /// Returns eˣ.
    fn exp(&mut self, x: &Expr) -> Expr {
        self.exp_scaled(x, 89.0, 0)
    }

    /// Returns eˣ · 2ᵐ. `x` is clamped to `most`, for which the result must be infinite.
    fn exp_scaled(&mut self, x: &Expr, most: f32, m: i32) -> Expr {
        // Below -104 the result is 0.
        let x = self.name("near", x.clone().max(self.f32(-104.0)).min(self.f32(most)));
        let n = self.name(
            "n",
            self.floor(x.clone().fma(self.f32(std::f32::consts::LOG2_E), self.f32(0.5))),
        );
        let twice = self.doubled(&n, 1);
        let r = x.fma_of(&n, self.f32(-LN_2_HIGH)).fma_of(&twice, self.f32(-0.5 * LN_2_LOW));
        let r = self.name("r", r);
        // Above the coefficients 1 and 1 of powers 1 and 0: a fit of (exp(r) - 1 - r) / r², for |r|
        // ≤ ln 2 / 2.
        let power = self.series(
            &r,
            &[0.001_392_621_3, 0.008_363_203, 0.041_666_556, 0.166_665_77, 0.5, 1.0, 1.0],
        );
        let n = if m == 0 { n } else { self.name("n", n + self.f32(m as f32)) };
        self.scaled(power, &n)
    }

    /// Returns x · 2ⁿ for a whole n in -252..=254. Two steps round subnormal results only once, and
    /// keep the largest from overflowing.
    fn scaled(&mut self, x: Expr, n: &Expr) -> Expr {
        let half = self.name("half", self.floor(n.clone() * self.f32(0.5)));
        x * self.power_of_two(&half) * self.power_of_two(&(n.clone() - half))
    }

    /// Returns 2ⁿ for a whole n in -126..=127.
    fn power_of_two(&self, n: &Expr) -> Expr {
        let bits = (n.clone() + self.f32(ROUNDER)).bitcast(DType::U32);
        (bits.binary(BinaryOp::ShiftLeft, self.u32(23)) + self.u32(0x3f80_0000)).bitcast(DType::F32)
    }

    /// Splits a positive finite number into 2ᵉ (1 + f), with 1 + f in √½..√2. Returns e and f.
    fn exponent_and_rest(&mut self, x: &Expr) -> (Expr, Expr) {
        const SQRT_HALF: u32 = 0x3f35_04f3;
        let tiny = self.name("tiny", x.clone().lt(self.f32(f32::MIN_POSITIVE)));
        let normal = tiny.clone().select(x.clone() * self.f32(8_388_608.0), x);
        let bits = self.name("bits", normal.bitcast(DType::U32) - self.u32(SQRT_HALF));
        let e = bits
            .clone()
            .bitcast(DType::I32)
            .binary(BinaryOp::ShiftRight, self.i32(23))
            .cast(DType::F32);
        let e = self.name("e", e - tiny.select(self.f32(23.0), self.f32(0.0)));
        let m = (bits.and(self.u32(0x007f_ffff)) + self.u32(SQRT_HALF)).bitcast(DType::F32);
        (e, self.name("f", m - self.f32(1.0)))
    }

    /// Returns ln x.
    fn log(&mut self, x: &Expr) -> Expr {
        let (e, f) = self.exponent_and_rest(x);
        let near = self.log_of_parts(e, f);
        let near = x.clone().equals(self.f32(0.0)).select(self.f32(f32::NEG_INFINITY), near);
        let near = self.has_bits(x, INFINITY).select(x, near);
        x.clone().lt(self.f32(0.0)).select(self.f32(f32::NAN), near)
    }

    /// Returns ln(1 + x).
    fn log1p(&mut self, x: &Expr) -> Expr {
        let near = self.finite_log1p(x);
        let near = self.with_sign(near, x);
        let near = x.clone().equals(self.f32(-1.0)).select(self.f32(f32::NEG_INFINITY), near);
        let near = self.has_bits(x, INFINITY).select(x, near);
        x.clone().lt(self.f32(-1.0)).select(self.f32(f32::NAN), near)
    }

    /// Returns ln(1 + x) for a finite x above -1. The sign of a 0 is lost.
    fn finite_log1p(&mut self, x: &Expr) -> Expr {
        // Masks off the last bit, so that a compiler cannot cancel the difference that recovers the
        // rounding error.
        let sum = self.masked(&(x.clone() + self.f32(1.0)), 0xffff_fffe);
        let sum = self.name("sum", sum);
        let rest = (x.clone() - (sum.clone() - self.f32(1.0))).binary(BinaryOp::Div, &sum);
        let rest = sum.clone().lt(self.f32(1e30)).select(rest, self.f32(0.0));
        let (e, f) = self.exponent_and_rest(&sum);
        // If no power of two is split off, f is x itself.
        let is_small = self.name("is_small", e.clone().equals(self.f32(0.0)));
        let f = self.name("f", is_small.clone().select(x, f));
        let rest = is_small.select(self.f32(0.0), rest);
        self.log_of_parts(e, f) + rest
    }

    /// Returns ln(2ᵉ (1 + f)) for 1 + f near √½..√2.
    fn log_of_parts(&mut self, e: Expr, f: Expr) -> Expr {
        // ln(1 + f) = 2 artanh(s).
        let s = self.name("s", f.clone().binary(BinaryOp::Div, f.clone() + self.f32(2.0)));
        let z = self.name("z", &s * &s);
        let series = self.series(&z, &[2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]) * &z;
        let half_square = self.name("half_square", f.clone() * self.f32(0.5) * &f);
        let low = s.fma(half_square.clone() + series, e.clone() * self.f32(LN_2_LOW));
        e.fma(self.f32(LN_2_HIGH), f - (half_square - low))
    }

    /// Returns the error function of `x`.
    fn erf(&mut self, x: &Expr) -> Expr {
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        let square = self.name("square", x * x);
        // For |x| < 1: fits erf(x) / x in x².
        let small = self.series(
            &square,
            &[
                -0.000_009_669_913,
                0.000_112_634_34,
                -0.000_848_315_8,
                0.005_220_92,
                -0.026_865_369,
                0.112_837_81,
                -0.376_126_38,
                std::f32::consts::FRAC_2_SQRT_PI,
            ],
        ) * x;
        // For 1 ≤ |x| ≤ 4: fits ln(1 - erf(x)). Above 4 the nearest float is 1.
        let clamped = self.name("clamped", size.clone().min(self.f32(4.0)));
        let exponent = self.series(
            &clamped,
            &[
                -0.000_021_786_895,
                0.000_442_568_6,
                -0.004_210_928,
                0.025_226_144,
                -0.108_448_12,
                -0.633_191_2,
                -1.129_593_6,
                0.000_191_413_5,
            ],
        );
        let tail = self.f32(1.0) - self.exp(&exponent);
        let large = self.with_sign(tail, x);
        size.lt(self.f32(1.0)).select(small, large)
    }

    /// Returns the polynomial in `x` with these coefficients, the highest power first.
    fn series(&mut self, x: &Expr, coefficients: &[f32]) -> Expr {
        let mut coefficients =
            coefficients.iter().map(|&c| self.f32(c)).collect::<Vec<_>>().into_iter();
        let first = coefficients.next().unwrap_or_else(|| self.f32(0.0));
        let sum = coefficients.fold(first, |sum, next| {
            let sum = self.name("series", sum);
            sum.fma(x, next)
        });
        self.name("series", sum)
    }

    /// Returns x + x³ p(x²), an odd function near 0, from the coefficients of p.
    fn odd_series(&mut self, x: &Expr, coefficients: &[f32]) -> Expr {
        let square = self.name("square", x * x);
        let series = self.series(&square, coefficients);
        (x * &square).fma(series, x)
    }

    fn name(&mut self, name: &str, value: Expr) -> Expr {
        self.b.let_(name, value)
    }

    fn floor(&self, x: Expr) -> Expr {
        x.unary(UnaryOp::Floor)
    }

    /// Returns x · 2ⁿ, made from the bits so that a compiler cannot relate it to `x`. For x = 0 the
    /// result is some number below 10⁻³⁷.
    fn doubled(&mut self, x: &Expr, n: u32) -> Expr {
        let bits = x.clone().bitcast(DType::U32) + self.u32(n << 23);
        self.name("doubled", bits.bitcast(DType::F32))
    }

    /// Returns the float whose bits are those of `x` in the mask.
    fn masked(&self, x: &Expr, mask: u32) -> Expr {
        x.clone().bitcast(DType::U32).and(self.u32(mask)).bitcast(DType::F32)
    }

    fn has_bits(&self, x: &Expr, bits: u32) -> Expr {
        x.clone().bitcast(DType::U32).equals(self.u32(bits))
    }
}

impl Expr {
    /// Returns `self + a * b`.
    fn fma_of(self, a: &Expr, b: Expr) -> Expr {
        a.clone().fma(b, self)
    }
}
