//! Functions of angles, and their inverses.

use super::{NAN, ROUNDER, SIGN, Values};
use crate::dtype::{DType, Scalar};
use crate::kernel::Expr;
use crate::scalar::{BinaryOp, UnaryOp};

/// π/2 in four parts. The first three have at most 12 bits, so that their products with n below 2¹²
/// are exact.
const HALF_PI: [f32; 4] = [1.570_312_5, 4.837_513e-4, 7.549_534e-8, 2.563_344e-12];
/// The largest |x| for which n stays below 2¹².
const NEAR: f32 = 6_433.0;
/// The binary digits of 2/π, after 32 zero bits.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

/// π/2 rounded to f32, and the rounding error.
const FRAC_PI_2: f32 = std::f32::consts::FRAC_PI_2;
const FRAC_PI_2_REST: f32 = -4.371_139e-8;

/// An angle reduced to a number of right angles, modulo 4, and a rest of at most π/4.
struct Quadrant {
    /// A u32 of which only the last two bits count.
    number: Expr,
    rest: Expr,
}

impl Values<'_> {
    pub(super) fn sin(&mut self, x: &Expr) -> Expr {
        let Quadrant { number, rest } = self.quadrant(x);
        let (sine, cosine) = (self.sine(&rest), self.cosine(&rest));
        let value = self.bit(&number, 1).select(cosine, sine);
        let value = self.turned(value, self.bit(&number, 2));
        // Keeps -0.
        x.clone().equals(self.f32(0.0)).select(x, value)
    }

    pub(super) fn cos(&mut self, x: &Expr) -> Expr {
        let Quadrant { number, rest } = self.quadrant(x);
        let (sine, cosine) = (self.sine(&rest), self.cosine(&rest));
        let value = self.bit(&number, 1).select(sine, cosine);
        self.turned(value, self.bit(&(number + self.u32(1)), 2))
    }

    pub(super) fn tan(&mut self, x: &Expr) -> Expr {
        let Quadrant { number, rest } = self.quadrant(x);
        // Fits (tan(r) / r - 1) / r² in r².
        let near =
            [0.009_673_147, 0.002_623_404, 0.024_747_428, 0.053_319_737, 0.133_399_44, 0.333_331_1];
        let tangent = self.odd_series(&rest, &near);
        let tangent = self.name("tangent", tangent);
        let value =
            self.bit(&number, 1).select(self.f32(-1.0).binary(BinaryOp::Div, &tangent), tangent);
        x.clone().equals(self.f32(0.0)).select(x, value)
    }

    /// Returns sin r for |r| ≤ π/4.
    fn sine(&mut self, r: &Expr) -> Expr {
        // Fits (sin(r) / r - 1) / r² in r².
        let sine = self.odd_series(r, &[-0.000_195_067_96, 0.008_332_102, -0.166_666_54]);
        self.name("sine", sine)
    }

    /// Returns cos r for |r| ≤ π/4.
    fn cosine(&mut self, r: &Expr) -> Expr {
        let square = self.name("square", r * r);
        // Fits (cos(r) - 1 + r² / 2) / r⁴ in r².
        let series = self.series(&square, &[2.443_066e-5, -0.001_388_730_1, 0.041_666_646]);
        let first = square.clone().fma(self.f32(-0.5), self.f32(1.0));
        self.name("cosine", (&square * &square).fma(series, first))
    }

    fn bit(&self, number: &Expr, bit: u32) -> Expr {
        number.clone().and(self.u32(bit)).differs(self.u32(0))
    }

    /// Negates the value where `is_negative`.
    fn turned(&self, value: Expr, is_negative: Expr) -> Expr {
        let sign = is_negative.select(self.u32(SIGN), self.u32(0));
        value.bitcast(DType::U32).binary(BinaryOp::BitXor, sign).bitcast(DType::F32)
    }

    /// Reduces `x` to its quadrant. The rest of an infinity is NaN.
    fn quadrant(&mut self, x: &Expr) -> Quadrant {
        let n = self.floor(x.clone().fma(self.f32(std::f32::consts::FRAC_2_PI), self.f32(0.5)));
        let n = self.name("n", n);
        let rest = (0..).zip(HALF_PI).fold(x.clone(), |rest, (number, part)| {
            let factor = if number == 0 { n.clone() } else { self.doubled(&n, number) };
            rest.fma_of(&factor, self.f32(-part / (1 << number) as f32))
        });
        let rest = n.clone().equals(self.f32(0.0)).select(x, rest);
        let rest = self.b.var("rest", rest);
        let number = self.b.var("quadrant", (n + self.f32(ROUNDER)).bitcast(DType::U32));
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        let is_far = self.name("is_far", size.gt(self.f32(NEAR)));
        let any = (0..self.lanes)
            .map(|lane| if self.lanes == 1 { is_far.clone() } else { is_far.clone().lane(lane) });
        let any = any.reduce(Expr::or).unwrap_or_else(|| false.into());
        let (lanes, profile) = (self.lanes, self.profile);
        self.b.if_(any, |b| {
            let mut values = Values { b, profile, lanes };
            let far = values.far_quadrant(x);
            values.b.assign(&rest, is_far.clone().select(far.rest, &rest));
            values.b.assign(&number, is_far.select(far.number, &number));
        });
        Quadrant { number: self.name("number", number), rest: self.name("angle", rest) }
    }

    /// Reduces a large `x`, by the method of Payne and Hanek: multiplies it by only those digits of
    /// 2/π that matter for its exponent. Multiples of 4 right angles are left out, and 70 binary
    /// places of the product are correct.
    fn far_quadrant(&mut self, x: &Expr) -> Quadrant {
        let bits = self.name("bits", x.clone().bitcast(DType::U32));
        let exponent = bits.clone().binary(BinaryOp::ShiftRight, self.u32(23)).and(self.u32(0xff));
        let mantissa =
            bits.and(self.u32(0x007f_ffff)).binary(BinaryOp::BitOr, self.u32(0x0080_0000));
        let mantissa = self.name("mantissa", mantissa);
        // x = mantissa · 2^(exponent - 150). The digit of weight 2^-k of 2/π contributes multiples
        // of 4 if k ≤ exponent - 152.
        let first = self.name("first", exponent - self.u32(150 + 2 - 32));
        let word = self.name("word", first.clone().binary(BinaryOp::ShiftRight, self.u32(5)));
        let shift = self.name("shift", first.and(self.u32(31)));
        let digits: Vec<Expr> = (0..4)
            .map(|place| {
                let choices = (0..=3).rev();
                let last = self.u32(TWO_OVER_PI[4 + place]);
                let digits = choices.fold(last, |others, number| {
                    let is_it = word.clone().equals(self.u32(number));
                    is_it.select(self.u32(TWO_OVER_PI[number as usize + place]), others)
                });
                self.name("digits", digits)
            })
            .collect();
        let window: Vec<Expr> = digits
            .windows(2)
            .map(|pair| {
                let high = pair[0].clone().binary(BinaryOp::ShiftLeft, &shift);
                // Shifts by 1 and by 31 - shift, because a shift by 32 is undefined.
                let low = pair[1].clone().binary(BinaryOp::ShiftRight, self.u32(1));
                let low = low.binary(BinaryOp::ShiftRight, self.u32(31) - &shift);
                self.name("window", high.binary(BinaryOp::BitOr, low))
            })
            .collect();
        // The two highest words of the product modulo 4 right angles.
        let carried = self.high_product(&window[2], &mantissa);
        let middle = window[1].clone() * &mantissa;
        let low = self.name("low", middle.clone() + &carried);
        let carry = low.clone().lt(&carried).select(self.u32(1), self.u32(0));
        let high = window[0].clone() * &mantissa + self.high_product(&window[1], &mantissa) + carry;
        let high = self.name("high", high);
        // The first two bits number right angles; the others are a signed fraction of one.
        let fraction = high.clone().binary(BinaryOp::ShiftLeft, self.u32(2));
        let fraction = fraction
            .binary(BinaryOp::BitOr, low.clone().binary(BinaryOp::ShiftRight, self.u32(30)));
        let fraction = self.name("fraction", fraction);
        let rest = self.name("rest_bits", low.binary(BinaryOp::ShiftLeft, self.u32(2)));
        let is_above = self.name("is_above", self.bit(&fraction, SIGN));
        let number = high.binary(BinaryOp::ShiftRight, self.u32(30))
            + is_above.clone().select(self.u32(1), self.u32(0));
        let number = self.name("number", number);
        // The magnitude of a negative fraction: its complement plus 1.
        let negated = fraction.clone().unary(UnaryOp::BitNot)
            + rest.clone().equals(self.u32(0)).select(self.u32(1), self.u32(0));
        let rest = is_above.clone().select(self.u32(0) - &rest, &rest);
        let fraction = self.name("size_bits", is_above.clone().select(negated, fraction));
        let scale = |values: &Self, word: Expr, power: i32| {
            word.cast(DType::F32) * values.f32(2f32.powi(power))
        };
        let high = scale(self, fraction.clone().and(self.u32(0xffff_ff00)), -32);
        let low = scale(self, fraction.and(self.u32(0xff)), -32) + scale(self, rest, -64);
        let size = (high + low) * self.f32(FRAC_PI_2);
        let is_negative = self.name("is_negative", x.clone().lt(self.f32(0.0)));
        let angle = self.turned(size, is_above.binary(BinaryOp::BitXor, &is_negative));
        let is_infinite = self
            .name("is_infinite", self.has_bits(&x.clone().unary(UnaryOp::Abs), super::INFINITY));
        let angle = is_infinite
            .select(Expr::from(Scalar::from_bits(DType::F32, NAN.into())).splat(self.lanes), angle);
        Quadrant { number: is_negative.select(self.u32(0) - &number, number), rest: angle }
    }

    /// Returns the upper 32 bits of the product of a word and a 24-bit number.
    fn high_product(&mut self, word: &Expr, number: &Expr) -> Expr {
        let halves = |values: &Self, x: &Expr| {
            [
                x.clone().binary(BinaryOp::ShiftRight, values.u32(16)),
                x.clone().and(values.u32(0xffff)),
            ]
        };
        let ([a, b], [c, d]) = (halves(self, word), halves(self, number));
        let cross = [self.name("cross", &a * &d), self.name("cross", &b * &c)];
        let mut middle = (&b * &d).binary(BinaryOp::ShiftRight, self.u32(16));
        let mut high = &a * &c;
        for cross in cross {
            let [above, below] = halves(self, &cross);
            (middle, high) = (middle + below, high + above);
        }
        let high = high + middle.binary(BinaryOp::ShiftRight, self.u32(16));
        self.name("carried", high)
    }

    /// Returns arcsin x for |x| ≤ ½.
    fn small_asin(&mut self, x: &Expr) -> Expr {
        // Fits (asin(x) / x - 1) / x² in x².
        let value = self.odd_series(
            x,
            &[0.042_211_797, 0.024_152_093, 0.045_476_04, 0.074_952_52, 0.166_667_54],
        );
        self.name("small", value)
    }

    /// Returns arcsin x if |x| ≤ ½, else arcsin √((1 - |x|) / 2), which is half of π/2 - arcsin
    /// |x|; and whether it is the latter.
    fn half_asin(&mut self, x: &Expr) -> (Expr, Expr) {
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        let is_far = self.name("is_far", size.clone().gt(self.f32(0.5)));
        let half = size.fma(self.f32(-0.5), self.f32(0.5));
        let root = half.max(self.f32(0.0)).unary(UnaryOp::Sqrt);
        let x = self.name("near", is_far.clone().select(root, x));
        (self.small_asin(&x), is_far)
    }

    pub(super) fn asin(&mut self, x: &Expr) -> Expr {
        let (near, is_far) = self.half_asin(x);
        let far = self.f32(FRAC_PI_2) - near.clone().fma(self.f32(2.0), self.f32(-FRAC_PI_2_REST));
        let far = self.with_sign(far, x);
        let value = is_far.select(far, near);
        self.within_one(x, value)
    }

    pub(super) fn acos(&mut self, x: &Expr) -> Expr {
        let (near, is_far) = self.half_asin(x);
        let twice = self.name("twice", near.clone() + &near);
        let left = self.f32(2.0 * FRAC_PI_2) - (twice.clone() - self.f32(2.0 * FRAC_PI_2_REST));
        let far = x.clone().lt(self.f32(0.0)).select(left, twice);
        let value = is_far.select(far, self.f32(FRAC_PI_2) - (near - self.f32(FRAC_PI_2_REST)));
        self.within_one(x, value)
    }

    /// Returns NaN if |x| > 1, else `value`.
    fn within_one(&mut self, x: &Expr, value: Expr) -> Expr {
        let size = x.clone().unary(UnaryOp::Abs);
        size.gt(self.f32(1.0)).select(self.f32(f32::NAN), value)
    }

    pub(super) fn atan(&mut self, x: &Expr) -> Expr {
        const TAN_PI_8: f32 = 0.414_213_57;
        const TAN_3_PI_8: f32 = 2.414_213_7;
        let size = self.name("size", x.clone().unary(UnaryOp::Abs));
        let is_large = self.name("is_large", size.clone().gt(self.f32(TAN_3_PI_8)));
        let is_middle = self.name("is_middle", size.clone().gt(self.f32(TAN_PI_8)));
        // For large a, arctan a is π/2 - arctan(1 / a); for middle a, π/4 + arctan((a - 1) / (a +
        // 1)).
        let (one, zero) = (self.f32(1.0), self.f32(0.0));
        let above = is_large.clone().select(self.f32(-1.0), size.clone() - &one);
        let below = is_large.clone().select(size.clone(), size.clone() + &one);
        let small =
            self.name("near", is_middle.clone().select(above.binary(BinaryOp::Div, below), size));
        let base = |values: &Self, part: f32| {
            let middle = is_middle.clone().select(values.f32(0.5 * part), zero.clone());
            is_large.clone().select(values.f32(part), middle)
        };
        // Fits (atan(t) / t - 1) / t² in t².
        let near =
            self.odd_series(&small, &[0.080_357_36, -0.138_727_46, 0.199_773_19, -0.333_329_4]);
        let value = base(self, FRAC_PI_2) + (near + base(self, FRAC_PI_2_REST));
        self.with_sign(value, x)
    }
}
