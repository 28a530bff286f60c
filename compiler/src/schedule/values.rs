//! Scalar operations in the types that shaders have.
//!
//! A value of a narrow type lives in a wider one that holds it exactly: i8 and i16 in i32, u8 and u16 in u32, bf16 and
//! (where the device has none) f16 in f32. After each operation it is brought back to the narrow type: wrapped, or
//! rounded to nearest even; so results are those of the narrow type, never more precise. Operations that shaders lack or
//! define otherwise (division by zero, wide shifts, `round`, `erf`, powers of negative numbers) are spelt out.

use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr};
use crate::profile::Profile;
use crate::scalar::{BinaryOp, UnaryOp};

/// Why a nest has no kernel for a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported {
    /// In plain words: `sqrt of i32`.
    pub what: String,
}

/// The type in which a kernel computes with values of `dtype`, or `None` where the device has none that holds them.
pub(super) fn compute_type(dtype: DType, profile: &Profile) -> Option<DType> {
    if dtype == DType::Bool { Some(DType::Bool) } else { profile.storage(dtype) }
}

/// Writes operations on vectors of `lanes` values into a kernel.
pub(super) struct Values<'a> {
    pub b: &'a mut Builder,
    pub profile: &'a Profile,
    pub lanes: u8,
}

impl Values<'_> {
    fn compute(&self, dtype: DType) -> Result<DType, Unsupported> {
        compute_type(dtype, self.profile).ok_or_else(|| Unsupported { what: format!("values of type {dtype}") })
    }

    /// A constant in every lane.
    pub fn constant(&self, scalar: Scalar) -> Result<Expr, Unsupported> {
        let compute = self.compute(scalar.dtype)?;
        Ok(Expr::from(scalar.cast(compute)).splat(self.lanes))
    }

    fn f32(&self, value: f32) -> Expr {
        Expr::from(value).splat(self.lanes)
    }

    fn i32(&self, value: i32) -> Expr {
        Expr::from(value).splat(self.lanes)
    }

    fn u32(&self, value: u32) -> Expr {
        Expr::from(Scalar::from_bits(DType::U32, value as u64)).splat(self.lanes)
    }

    /// A value as it was loaded from storage.
    pub fn loaded(&self, dtype: DType, stored: Expr) -> Expr {
        if dtype == DType::Bool { stored.differs(self.u32(0)) } else { stored }
    }

    /// A value as storage holds it.
    pub fn stored(&self, dtype: DType, value: Expr) -> Expr {
        if dtype == DType::Bool { value.cast(DType::U32) } else { value }
    }

    /// The result of an operation on the wider type, as a value of `dtype`.
    pub fn narrow(&mut self, dtype: DType, value: Expr) -> Expr {
        match dtype {
            DType::I8 | DType::I16 => {
                let shift = self.i32(32 - dtype.bits() as i32);
                value.binary(BinaryOp::ShiftLeft, &shift).binary(BinaryOp::ShiftRight, &shift)
            }
            DType::U8 | DType::U16 => value.and(self.u32((1 << dtype.bits()) - 1)),
            DType::BF16 => self.round_bf16(value),
            DType::F16 if !self.profile.f16 => self.round_f16(value),
            _ => value,
        }
    }

    /// To nearest even at 8 significant bits: half a unit, less one where the last kept bit is even, carries upwards.
    fn round_bf16(&mut self, value: Expr) -> Expr {
        let value = self.b.let_("exact", value);
        let bits = self.b.let_("bits", value.clone().bitcast(DType::U32));
        let odd = bits.clone().binary(BinaryOp::ShiftRight, self.u32(16)).and(self.u32(1));
        let rounded = (bits + self.u32(0x7fff) + odd).and(self.u32(0xffff_0000)).bitcast(DType::F32);
        let number = value.clone().equals(value.clone());
        let rounded = number.select(rounded, value);
        self.b.let_("rounded", rounded)
    }

    /// To nearest even at 11 significant bits, in steps of 2^-24 below 2^-14; beyond 65504 to infinity.
    fn round_f16(&mut self, value: Expr) -> Expr {
        let value = self.b.let_("exact", value);
        let bits = self.b.let_("bits", value.clone().bitcast(DType::U32));
        let odd = bits.clone().binary(BinaryOp::ShiftRight, self.u32(13)).and(self.u32(1));
        let kept = (bits + self.u32(0xfff) + odd).and(self.u32(0xffff_e000)).bitcast(DType::F32);
        let size = self.b.let_("size", value.clone().unary(UnaryOp::Abs));
        // Steps of 2^-24, rounded to even; exact, since scaling by a power of two is and the steps are below 2^10.
        let steps = self.b.let_("steps", value.clone() * self.f32(16_777_216.0));
        let below = self.b.let_("below", steps.clone().unary(UnaryOp::Floor));
        let rest = self.b.let_("rest", steps - below.clone());
        let half = below.clone() * self.f32(0.5);
        let odd = half.clone().differs(half.unary(UnaryOp::Floor));
        let up = rest.clone().gt(self.f32(0.5)).or(rest.equals(self.f32(0.5)).and(odd));
        let small = (below + up.select(self.f32(1.0), self.f32(0.0))) * self.f32(1.0 / 16_777_216.0);
        let sign_of = |b: Expr, s: f32, zero: Expr| b.lt(zero).select(self.f32(-s), self.f32(s));
        let infinite = sign_of(value.clone(), f32::INFINITY, self.f32(0.0));
        let normal = size.clone().ge(self.f32(65520.0)).select(infinite, kept);
        let rounded = size.lt(self.f32(6.103_515_6e-5)).select(small, normal);
        let number = value.clone().equals(value.clone());
        let rounded = number.select(rounded, value);
        self.b.let_("rounded", rounded)
    }

    /// `op` of a value of `dtype`.
    pub fn unary(&mut self, op: UnaryOp, dtype: DType, a: Expr) -> Result<Expr, Unsupported> {
        use UnaryOp::*;
        let compute = self.compute(dtype)?;
        if dtype.is_float() {
            let value = self.float_unary(op, compute, a);
            return Ok(self.narrow(dtype, value));
        }
        let value = match op {
            Ceil | Floor | Round => return Ok(a),
            Neg | Abs if dtype == DType::Bool => return Ok(a),
            BitNot => a.unary(op),
            Neg if dtype.is_signed_integer() => a.unary(op),
            Neg => self.constant(Scalar::zero(dtype))? - a,
            Abs if dtype.is_signed_integer() => a.unary(op),
            Abs => return Ok(a),
            _ if dtype.bits() > 16 => {
                let what = format!("`{}` of {dtype}, which f32 does not hold exactly (cast it first)", op.name());
                return Err(Unsupported { what });
            }
            _ => {
                let float = self.cast(dtype, DType::F32, a)?;
                let value = self.float_unary(op, DType::F32, float);
                return self.cast(DType::F32, dtype, value);
            }
        };
        Ok(self.narrow(dtype, value))
    }

    /// `a` is f32, or f16 where the device has it.
    fn float_unary(&mut self, op: UnaryOp, compute: DType, a: Expr) -> Expr {
        if compute == DType::F16 && matches!(op, UnaryOp::Round | UnaryOp::Erf | UnaryOp::Tanh) {
            return self.float_unary(op, DType::F32, a.cast(DType::F32)).cast(DType::F16);
        }
        match op {
            UnaryOp::Round => {
                // Truncation, and one more away from zero where what it cut off is at least a half.
                let a = self.b.let_("a", a);
                let size = self.b.let_("size", a.clone().unary(UnaryOp::Abs));
                let whole = self.b.let_("whole", size.clone().unary(UnaryOp::Floor));
                let more = (size - whole.clone()).ge(self.f32(0.5)).select(self.f32(1.0), self.f32(0.0));
                let rounded = self.b.let_("rounded", whole + more);
                a.lt(self.f32(0.0)).select(rounded.clone().unary(UnaryOp::Neg), rounded)
            }
            UnaryOp::Erf => self.erf(a),
            UnaryOp::Tanh => {
                // Some drivers divide two infinities for large arguments; beyond 10 the result is 1 to the last bit.
                let clamped = a.clone().max(self.f32(-10.0)).min(self.f32(10.0));
                let number = a.clone().equals(a.clone());
                number.select(clamped.unary(op), a)
            }
            _ => a.unary(op),
        }
    }

    /// The error function to about 3 units in the last place: an odd polynomial up to 1, then `1 - exp` of a polynomial
    /// (Chebyshev fits of degree 7 to `erf(x) / x` and to `log(erfc(x))` on 1..4).
    fn erf(&mut self, a: Expr) -> Expr {
        const SMALL: [f32; 8] = [
            std::f32::consts::FRAC_2_SQRT_PI,
            -0.376_126_38,
            0.112_837_81,
            -0.026_865_369,
            0.005_220_92,
            -0.000_848_315_8,
            0.000_112_634_34,
            -0.000_009_669_913,
        ];
        const LARGE: [f32; 8] = [
            0.000_191_413_5,
            -1.129_593_6,
            -0.633_191_2,
            -0.108_448_12,
            0.025_226_144,
            -0.004_210_928,
            0.000_442_568_6,
            -0.000_021_786_895,
        ];
        let a = self.b.let_("a", a);
        let size = self.b.let_("size", a.clone().unary(UnaryOp::Abs));
        let square = self.b.let_("square", a.clone() * a.clone());
        let clamped = self.b.let_("clamped", size.clone().min(self.f32(4.0)));
        let horner = |this: &mut Self, terms: [f32; 8], x: &Expr| {
            let last = this.f32(terms[7]);
            terms[..7].iter().rev().fold(last, |sum, &term| {
                let sum = this.b.let_("sum", sum);
                sum.fma(x, this.f32(term))
            })
        };
        let small = horner(self, SMALL, &square) * a.clone();
        let exponent = horner(self, LARGE, &clamped);
        let tail = self.f32(1.0) - exponent.unary(UnaryOp::Exp);
        let tail = self.b.let_("tail", tail);
        let signed = a.clone().lt(self.f32(0.0)).select(tail.clone().unary(UnaryOp::Neg), tail);
        let value = size.lt(self.f32(1.0)).select(small, signed);
        let number = a.clone().equals(a.clone());
        number.select(value, a)
    }

    /// `op` of two values of `dtype`.
    pub fn binary(&mut self, op: BinaryOp, dtype: DType, a: Expr, b: Expr) -> Result<Expr, Unsupported> {
        use BinaryOp::*;
        self.compute(dtype)?;
        if op.is_comparison() && dtype != DType::Bool {
            return Ok(a.binary(op, b));
        }
        let value = match (op, dtype) {
            (Add | Max | BitOr, DType::Bool) => a.or(b),
            (Mul | Min | BitAnd, DType::Bool) => a.and(b),
            (Sub | BitXor | Ne, DType::Bool) => a.binary(Ne, b),
            (Eq, DType::Bool) => a.binary(Eq, b),
            (Lt, DType::Bool) => a.not().and(b),
            (Gt, DType::Bool) => a.and(b.not()),
            (Le, DType::Bool) => a.not().or(b),
            (Ge, DType::Bool) => a.or(b.not()),
            // A division by false is false, as one by 0 is 0.
            (Div, DType::Bool) => a.and(b),
            // false to the power of false is true.
            (Pow, DType::Bool) => a.or(b.not()),
            (ShiftLeft | ShiftRight, DType::Bool) => a.and(b.not()),
            (Max, _) => {
                let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
                return Ok(a.clone().lt(b.clone()).select(b, a));
            }
            (Min, _) => {
                let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
                return Ok(b.clone().lt(a.clone()).select(b, a));
            }
            (Div, d) if d.is_integer() => self.integer_division(d, a, b)?,
            (ShiftLeft | ShiftRight, _) => self.shift(op, dtype, a, b)?,
            (Pow, d) if d.is_integer() => self.integer_power(d, a, b)?,
            (Pow, _) => self.power(dtype, a, b)?,
            _ => a.binary(op, b),
        };
        Ok(self.narrow(dtype, value))
    }

    fn integer_division(&mut self, dtype: DType, a: Expr, b: Expr) -> Result<Expr, Unsupported> {
        let zero = self.constant(Scalar::zero(dtype))?;
        let one = self.constant(Scalar::one(dtype))?;
        let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
        let mut special = b.clone().equals(zero.clone());
        let mut result = zero.clone();
        if dtype.is_signed_integer() {
            // The least integer divided by -1 wraps, as its negation does.
            let minus_one = self.constant(Scalar::from_i64(dtype, -1))?;
            let negated = b.clone().equals(minus_one);
            result = negated.clone().select(a.clone().unary(UnaryOp::Neg), zero);
            special = special.or(negated);
        }
        let special = self.b.let_("special", special);
        let divisor = special.clone().select(one, b);
        Ok(special.select(result, a.binary(BinaryOp::Div, divisor)))
    }

    fn shift(&mut self, op: BinaryOp, dtype: DType, a: Expr, count: Expr) -> Result<Expr, Unsupported> {
        let width = dtype.bits() as i64;
        let (a, count) = (self.b.let_("a", a), self.b.let_("count", count));
        let zero = self.constant(Scalar::zero(dtype))?;
        let limit = self.constant(Scalar::from_i64(dtype, width))?;
        let inside = count.clone().ge(zero.clone()).and(count.clone().lt(limit));
        let inside = self.b.let_("inside", inside);
        let outside = if op == BinaryOp::ShiftRight && dtype.is_signed_integer() {
            let minus_one = self.constant(Scalar::from_i64(dtype, -1))?;
            a.clone().lt(zero.clone()).select(minus_one, zero.clone())
        } else {
            zero.clone()
        };
        let count = inside.clone().select(count, zero);
        Ok(inside.select(a.binary(op, count), outside))
    }

    /// Square and multiply over the bits of `b`.
    fn integer_power(&mut self, dtype: DType, a: Expr, b: Expr) -> Result<Expr, Unsupported> {
        let one = self.constant(Scalar::one(dtype))?;
        let zero = self.constant(Scalar::zero(dtype))?;
        let exponent = self.b.let_("exponent", b);
        let base = self.b.var("base", a);
        let power = self.b.var("power", one.clone());
        let rest = self.b.var("rest", exponent.clone());
        let compute = self.compute(dtype)?;
        let bits = if compute.bits() == 64 { 64 } else { 32 };
        self.b.for_("bit", 0, bits, 1, |b, _| {
            let odd = rest.clone().and(&one).differs(zero.clone());
            b.assign(&power, odd.select(&power * &base, &power));
            b.assign(&base, &base * &base);
            b.assign(&rest, rest.clone().binary(BinaryOp::ShiftRight, &one));
        });
        let negative = exponent.lt(zero.clone());
        Ok(if dtype.is_signed_integer() { negative.select(zero, power) } else { power })
    }

    /// Shaders define powers of bases above 0 alone: the sign of a negative base's power is that of its parity.
    fn power(&mut self, dtype: DType, a: Expr, b: Expr) -> Result<Expr, Unsupported> {
        let compute = self.compute(dtype)?;
        if compute == DType::F16 {
            let power = self.power(DType::F32, a.cast(DType::F32), b.cast(DType::F32))?;
            return Ok(power.cast(DType::F16));
        }
        let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
        let size = self.b.let_("size", a.clone().unary(UnaryOp::Abs));
        let (zero, one) = (self.f32(0.0), self.f32(1.0));
        let positive = size.clone().max(self.f32(f32::MIN_POSITIVE)).binary(BinaryOp::Pow, &b);
        let of_zero = b.clone().gt(zero.clone()).select(zero.clone(), self.f32(f32::INFINITY));
        let magnitude = size.equals(zero.clone()).select(of_zero, positive);
        let magnitude = self.b.let_("magnitude", magnitude);
        let half = b.clone() * self.f32(0.5);
        let whole = b.clone().equals(b.clone().unary(UnaryOp::Floor));
        let odd = whole.clone().and(half.clone().differs(half.unary(UnaryOp::Floor)));
        let signed = odd.select(magnitude.clone().unary(UnaryOp::Neg), magnitude.clone());
        let negative = whole.select(signed, self.f32(f32::NAN));
        let value = a.clone().lt(zero.clone()).select(negative, magnitude);
        let trivial = b.equals(zero).or(a.equals(one.clone()));
        Ok(trivial.select(one, value))
    }

    /// A value of `from` as one of `to`, as [`Scalar::cast`] does.
    pub fn cast(&mut self, from: DType, to: DType, a: Expr) -> Result<Expr, Unsupported> {
        let (source, target) = (self.compute(from)?, self.compute(to)?);
        if from == to {
            return Ok(a);
        }
        if to == DType::Bool {
            return Ok(a.differs(self.constant(Scalar::zero(from))?));
        }
        if from.is_float() && to.is_integer() {
            return self.float_to_integer(source, to, a);
        }
        let value = if source == target { a } else { a.cast(target) };
        Ok(self.narrow(to, value))
    }

    /// Truncates and saturates; NaN gives 0.
    fn float_to_integer(&mut self, source: DType, to: DType, a: Expr) -> Result<Expr, Unsupported> {
        let a = if source == DType::F16 { a.cast(DType::F32) } else { a };
        let a = self.b.let_("a", a);
        let target = self.compute(to)?;
        let (low, high) = (Scalar::lowest(to), Scalar::highest(to));
        let (low_bound, high_bound) = (low.to_f64() as f32, high.to_f64() as f32);
        // The bounds rounded inwards to f32: clamped between them, the conversion is defined.
        let inner = if high_bound as f64 > high.to_f64() { high_bound.next_down() } else { high_bound };
        let clamped = a.clone().max(self.f32(low_bound)).min(self.f32(inner)).cast(target);
        let above = a.clone().ge(self.f32(high_bound));
        let value = above.select(self.constant(high)?, clamped);
        let number = a.clone().equals(a);
        Ok(number.select(value, self.constant(Scalar::zero(to))?))
    }
}
