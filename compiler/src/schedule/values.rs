//! Scalar operations in the types that shaders have.
//!
//! A value of a narrow type is held exactly in a wider one: i8 and i16 in i32, u8 and u16 in u32,
//! bf16 in f32, and f16 in f32 if the device lacks f16. After each operation the result is narrowed
//! again, by wrapping or by rounding to nearest even, so results are those of the narrow type,
//! never more precise.
//!
//! Operations that shaders lack or define differently (division by zero, wide shifts, `round`,
//! powers) are written out. So are comparisons of floats: shader compilers may assume that there is
//! no NaN, so NaN is detected by its bits. Elementary functions are in [`elementary`].

use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr};
use crate::profile::Profile;
use crate::scalar::{BinaryOp, UnaryOp};

use super::{double, elementary};

/// The reason why a nest has no kernel for a profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the device has no {what}")]
pub struct Unsupported {
    /// The unsupported type or operation in plain words, such as `sqrt of i32`.
    pub what: String,
}

/// Returns the type in which a kernel computes with values of `dtype`, or `None` if the device has
/// no type that holds them.
pub(super) fn compute_type(dtype: DType, profile: &Profile) -> Option<DType> {
    if dtype == DType::Bool { Some(DType::Bool) } else { profile.storage(dtype) }
}

/// A writer of operations on vectors of `lanes` values.
pub(super) struct Values<'a> {
    pub b: &'a mut Builder,
    pub profile: &'a Profile,
    pub lanes: u8,
}

impl Values<'_> {
    fn compute(&self, dtype: DType) -> Result<DType, Unsupported> {
        compute_type(dtype, self.profile)
            .ok_or_else(|| Unsupported { what: format!("values of type {dtype}") })
    }

    /// Returns a constant in every lane.
    pub fn constant(&self, scalar: Scalar) -> Result<Expr, Unsupported> {
        let compute = self.compute(scalar.dtype)?;
        Ok(Expr::from(scalar.cast(compute)).splat(self.lanes))
    }

    pub fn f32(&self, value: f32) -> Expr {
        Expr::from(value).splat(self.lanes)
    }

    pub fn i32(&self, value: i32) -> Expr {
        Expr::from(value).splat(self.lanes)
    }

    pub fn u32(&self, value: u32) -> Expr {
        Expr::from(Scalar::from_bits(DType::U32, value as u64)).splat(self.lanes)
    }

    /// Converts a value from its type in storage.
    pub fn loaded(&self, dtype: DType, stored: Expr) -> Expr {
        if dtype == DType::Bool { stored.differs(self.u32(0)) } else { stored }
    }

    /// Converts a value to its type in storage.
    pub fn stored(&self, dtype: DType, value: Expr) -> Expr {
        if dtype == DType::Bool { value.cast(DType::U32) } else { value }
    }

    /// Narrows the result of an operation on the wider type to a value of `dtype`.
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

    /// Rounds to nearest even at 8 significant bits. Adding half a unit, less one if the last kept
    /// bit is even, carries into the kept bits.
    fn round_bf16(&mut self, value: Expr) -> Expr {
        let value = self.b.let_("exact", value);
        let bits = self.b.let_("bits", value.clone().bitcast(DType::U32));
        let odd = bits.clone().binary(BinaryOp::ShiftRight, self.u32(16)).and(self.u32(1));
        let rounded =
            (bits + self.u32(0x7fff) + odd).and(self.u32(0xffff_0000)).bitcast(DType::F32);
        let rounded = self.is_number(&value).select(rounded, value);
        self.b.let_("rounded", rounded)
    }

    /// Rounds to nearest even at 11 significant bits; below 2^-14 to multiples of 2^-24; beyond
    /// 65504 to infinity.
    fn round_f16(&mut self, value: Expr) -> Expr {
        let value = self.b.let_("exact", value);
        let bits = self.b.let_("bits", value.clone().bitcast(DType::U32));
        let odd = bits.clone().binary(BinaryOp::ShiftRight, self.u32(13)).and(self.u32(1));
        let kept = (bits + self.u32(0xfff) + odd).and(self.u32(0xffff_e000)).bitcast(DType::F32);
        let size = self.b.let_("size", value.clone().unary(UnaryOp::Abs));
        // The number of steps of 2^-24, rounded to even. This is exact: so is scaling by a power of
        // two, and there are fewer than 2^10 steps.
        let steps = self.b.let_("steps", value.clone() * self.f32(16_777_216.0));
        let below = self.b.let_("below", steps.clone().unary(UnaryOp::Floor));
        let rest = self.b.let_("rest", steps - below.clone());
        let half = below.clone() * self.f32(0.5);
        let odd = half.clone().differs(half.unary(UnaryOp::Floor));
        let up = rest.clone().gt(self.f32(0.5)).or(rest.equals(self.f32(0.5)).and(odd));
        let small =
            (below + up.select(self.f32(1.0), self.f32(0.0))) * self.f32(1.0 / 16_777_216.0);
        let sign_of = |b: Expr, s: f32, zero: Expr| b.lt(zero).select(self.f32(-s), self.f32(s));
        let infinite = sign_of(value.clone(), f32::INFINITY, self.f32(0.0));
        let normal = size.clone().ge(self.f32(65520.0)).select(infinite, kept);
        let small = self.with_sign(small, &value);
        let rounded = size.lt(self.f32(6.103_515_6e-5)).select(small, normal);
        let rounded = self.is_number(&value).select(rounded, value);
        self.b.let_("rounded", rounded)
    }

    /// Writes `op` of a value of `dtype`.
    pub fn unary(&mut self, op: UnaryOp, dtype: DType, a: Expr) -> Result<Expr, Unsupported> {
        use UnaryOp::*;
        let compute = self.compute(dtype)?;
        if dtype == DType::F64 {
            return self.double_unary(op, a);
        }
        if dtype.is_float() {
            let value = self.float_unary(op, compute, a);
            return Ok(self.narrow(dtype, value));
        }
        let value = match op {
            Ceil | Floor | Rint | Round => return Ok(a),
            Neg | Abs if dtype == DType::Bool => return Ok(a),
            BitNot => a.unary(op),
            Neg if dtype.is_signed_integer() => a.unary(op),
            Neg => self.constant(Scalar::zero(dtype))? - a,
            Abs if dtype.is_signed_integer() => a.unary(op),
            Abs => return Ok(a),
            Recip => {
                let one = self.constant(Scalar::one(dtype))?;
                return self.binary(BinaryOp::Div, dtype, one, a);
            }
            _ if dtype.bits() > 16 => {
                let what = format!(
                    "`{}` of {dtype}, which f32 does not hold exactly (cast it first)",
                    op.name()
                );
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

    /// Writes `op` of `a`, which is f32, or f16 if the device has it.
    fn float_unary(&mut self, op: UnaryOp, compute: DType, a: Expr) -> Expr {
        use UnaryOp::*;
        if compute == DType::F16
            && !matches!(op, Neg | Abs | Ceil | Floor | Recip | Rint | Rsqrt | Sqrt)
        {
            return self.float_unary(op, DType::F32, a.cast(DType::F32)).cast(DType::F16);
        }
        if op != Round {
            return self.elementary(op, &a).unwrap_or_else(|| a.unary(op));
        }
        // Truncates, and adds one away from zero if the fraction is at least a half.
        let a = self.b.let_("a", a);
        let size = self.b.let_("size", a.clone().unary(Abs));
        let whole = self.b.let_("whole", size.clone().unary(Floor));
        let more = (size - whole.clone()).ge(self.f32(0.5)).select(self.f32(1.0), self.f32(0.0));
        self.with_sign(whole + more, &a)
    }

    fn is_double(&self, a: &Expr) -> bool {
        self.b.ty(a).is_ok_and(|ty| ty.dtype == DType::F64)
    }

    /// Returns whether a float is not NaN, by its bits: a compiler that assumes there is no NaN
    /// folds `x == x`.
    pub fn is_number(&self, a: &Expr) -> Expr {
        self.magnitude(a).le(self.u32(elementary::INFINITY))
    }

    /// Returns the bits of a float as f32, without its sign.
    fn magnitude(&self, a: &Expr) -> Expr {
        self.float_bits(a).and(self.u32(!elementary::SIGN))
    }

    /// Returns the bits of a float as f32.
    fn float_bits(&self, a: &Expr) -> Expr {
        let is_f32 = self.b.ty(a).is_ok_and(|ty| ty.dtype == DType::F32);
        let a = if is_f32 { a.clone() } else { a.clone().cast(DType::F32) };
        a.bitcast(DType::U32)
    }

    /// Returns the magnitude of an f32 value with the sign of another.
    pub fn with_sign(&self, value: Expr, sign: &Expr) -> Expr {
        let sign = sign.clone().bitcast(DType::U32).and(self.u32(elementary::SIGN));
        let size = value.bitcast(DType::U32).and(self.u32(!elementary::SIGN));
        size.binary(BinaryOp::BitOr, sign).bitcast(DType::F32)
    }

    /// Compares floats. The result is false if one is NaN, except for `Ne`. Infinite constants are
    /// compared by their bits.
    fn compare_floats(&mut self, op: BinaryOp, a: Expr, b: Expr) -> Expr {
        use BinaryOp::*;
        let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
        if let (Some(known), None) = (literal(&a), literal(&b)) {
            let mirrored = match op {
                Lt => Gt,
                Gt => Lt,
                Le => Ge,
                Ge => Le,
                other => other,
            };
            return self.compare_with(mirrored, b, a, known);
        }
        if let Some(known) = literal(&b) {
            return self.compare_with(op, a, b, known);
        }
        let number = self.is_number(&a);
        if a == b {
            return match op {
                Eq | Le | Ge => number,
                Ne => number.not(),
                _ => Expr::from(false).splat(self.lanes),
            };
        }
        let ordered = number.and(self.is_number(&b));
        let holds = a.binary(op, b);
        if op == Ne { holds.or(ordered.not()) } else { holds.and(ordered) }
    }

    /// Compares `a` with the constant `known`, which is the right operand `b`.
    fn compare_with(&self, op: BinaryOp, a: Expr, b: Expr, known: f64) -> Expr {
        use BinaryOp::*;
        let always = |value: bool| Expr::from(value).splat(self.lanes);
        if known.is_nan() {
            return always(op == Ne);
        }
        let is_double = self.is_double(&a);
        if known == 0.0 && matches!(op, Eq | Ne) && !is_double {
            return self.magnitude(&a).binary(op, self.u32(0));
        }
        if known.is_infinite() {
            let bits = self.u32((known as f32).to_bits());
            let equals = match is_double {
                true => a.clone().equals(b),
                false => self.float_bits(&a).equals(bits),
            };
            return match (op, known > 0.0) {
                (Eq, _) | (Ge, true) | (Le, false) => equals,
                (Ne, _) => equals.not(),
                (Lt, true) | (Gt, false) => self.is_number(&a).and(equals.not()),
                (Le, true) | (Ge, false) => self.is_number(&a),
                _ => always(false),
            };
        }
        let number = self.is_number(&a);
        let holds = a.binary(op, b);
        if op == Ne { holds.or(number.not()) } else { holds.and(number) }
    }

    /// Returns the greater or lesser of a running aggregate, which is never NaN, and a value, which
    /// is ignored if it is NaN.
    pub fn better(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        best: Expr,
        value: Expr,
    ) -> Result<Expr, Unsupported> {
        if !dtype.is_float() {
            return self.binary(op, dtype, best, value);
        }
        let (best, value) = (self.b.let_("best", best), self.b.let_("value", value));
        let (less, more) = if op == BinaryOp::Max { (&best, &value) } else { (&value, &best) };
        Ok(less.clone().lt(more).and(self.is_number(&value)).select(value, best))
    }

    /// Writes `op` of two values of `dtype`.
    pub fn binary(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: Expr,
        b: Expr,
    ) -> Result<Expr, Unsupported> {
        use BinaryOp::*;
        self.compute(dtype)?;
        if op.is_comparison() && dtype.is_float() {
            return Ok(self.compare_floats(op, a, b));
        }
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
            // Division by false gives false, as division by 0 gives 0.
            (Div, DType::Bool) => a.and(b),
            // false to the power of false is true.
            (Pow, DType::Bool) => a.or(b.not()),
            (ShiftLeft | ShiftRight, DType::Bool) => a.and(b.not()),
            (Max, _) => {
                let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
                return Ok(self.binary(Lt, dtype, a.clone(), b.clone())?.select(b, a));
            }
            (Min, _) => {
                let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
                return Ok(self.binary(Lt, dtype, b.clone(), a.clone())?.select(b, a));
            }
            (Div, d) if d.is_integer() => self.integer_division(d, a, b)?,
            (ShiftLeft | ShiftRight, _) => self.shift(op, dtype, a, b)?,
            (Pow | Rem, DType::F64) => return Err(double::lacks(op.name())),
            (Pow, d) if d.is_integer() => self.integer_power(d, a, b)?,
            (Pow, _) => self.power(dtype, a, b)?,
            (Rem, _) => self.remainder(dtype, a, b)?,
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

    fn shift(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: Expr,
        count: Expr,
    ) -> Result<Expr, Unsupported> {
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

    /// Computes the power by squaring and multiplying over the bits of `b`.
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

    /// Computes a power with the special cases of IEEE 754. For a negative base, the parity of the
    /// exponent gives the sign.
    fn power(&mut self, dtype: DType, a: Expr, b: Expr) -> Result<Expr, Unsupported> {
        let compute = self.compute(dtype)?;
        if compute == DType::F16 {
            let power = self.power(DType::F32, a.cast(DType::F32), b.cast(DType::F32))?;
            return Ok(power.cast(DType::F16));
        }
        let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
        let size = self.b.let_("size", a.clone().unary(UnaryOp::Abs));
        let (zero, one, infinity) = (self.f32(0.0), self.f32(1.0), self.f32(f32::INFINITY));
        let is_zero = self.b.let_("is_zero", self.magnitude(&a).equals(self.u32(0)));
        let is_infinite =
            self.b.let_("is_infinite", self.magnitude(&a).equals(self.u32(elementary::INFINITY)));
        let is_edge = self.b.let_("is_edge", is_zero.clone().or(&is_infinite));
        let inside = self.b.let_("inside", is_edge.clone().select(&one, &size));
        let power = self.positive_power(&inside, &b);
        let grows = b.clone().gt(zero.clone()).binary(BinaryOp::Eq, is_infinite.clone());
        let magnitude = is_edge.select(grows.select(infinity, zero.clone()), power);
        let half = b.clone() * self.f32(0.5);
        let whole = self.b.let_("whole", b.clone().equals(b.clone().unary(UnaryOp::Floor)));
        let odd = whole.clone().and(half.clone().differs(half.unary(UnaryOp::Floor)));
        let is_negative = self.float_bits(&a).and(self.u32(elementary::SIGN)).differs(self.u32(0));
        let is_negative = self.b.let_("is_negative", is_negative);
        let sign = is_negative.clone().and(odd).select(self.u32(elementary::SIGN), self.u32(0));
        let signed =
            magnitude.bitcast(DType::U32).binary(BinaryOp::BitOr, sign).bitcast(DType::F32);
        let undefined = is_negative.and(whole.not()).and(is_zero.or(is_infinite).not());
        let both = self.is_number(&a).and(self.is_number(&b));
        let value = both.and(undefined.not()).select(signed, self.f32(f32::NAN));
        let is_endless = self.magnitude(&b).equals(self.u32(elementary::INFINITY));
        let trivial =
            b.equals(zero).or(a.equals(one.clone())).or(size.equals(&one).and(is_endless));
        Ok(trivial.select(one, value))
    }

    /// Computes the exact remainder of `a` divided by `b`, with the sign of `a`.
    fn remainder(&mut self, dtype: DType, a: Expr, b: Expr) -> Result<Expr, Unsupported> {
        let compute = self.compute(dtype)?;
        if !dtype.is_float() {
            let (a, b) = (self.b.let_("a", a), self.b.let_("b", b));
            let quotient = self.integer_division(dtype, a.clone(), b.clone())?;
            let is_none = b.clone().equals(self.constant(Scalar::zero(dtype))?);
            return Ok(is_none.select(self.constant(Scalar::zero(dtype))?, a - quotient * b));
        }
        if compute == DType::F16 {
            return Ok(self
                .float_remainder(&a.cast(DType::F32), &b.cast(DType::F32))
                .cast(DType::F16));
        }
        Ok(self.float_remainder(&a, &b))
    }

    /// Casts a value of `from` to `to`, as [`Scalar::cast`] does.
    pub fn cast(&mut self, from: DType, to: DType, a: Expr) -> Result<Expr, Unsupported> {
        let (source, target) = (self.compute(from)?, self.compute(to)?);
        if from == to {
            return Ok(a);
        }
        if to == DType::Bool {
            let zero = self.constant(Scalar::zero(from))?;
            return self.binary(BinaryOp::Ne, from, a, zero);
        }
        if from.is_float() && to.is_integer() {
            return self.float_to_integer(source, to, a);
        }
        let value = if source == target { a } else { a.cast(target) };
        Ok(self.narrow(to, value))
    }

    /// Truncates and saturates. NaN gives 0.
    fn float_to_integer(&mut self, source: DType, to: DType, a: Expr) -> Result<Expr, Unsupported> {
        let a = if source == DType::F16 { a.cast(DType::F32) } else { a };
        let a = self.b.let_("a", a);
        let target = self.compute(to)?;
        if source == DType::F64 {
            return self.double_to_integer(to, target, a);
        }
        let (low, high) = (Scalar::lowest(to), Scalar::highest(to));
        let (low_bound, high_bound) = (low.to_f64() as f32, high.to_f64() as f32);
        // The bounds are rounded inwards to f32: the conversion of a value clamped to them is
        // defined.
        let inner =
            if high_bound as f64 > high.to_f64() { high_bound.next_down() } else { high_bound };
        let clamped = a.clone().max(self.f32(low_bound)).min(self.f32(inner)).cast(target);
        let above = a.clone().ge(self.f32(high_bound));
        let value = above.select(self.constant(high)?, clamped);
        Ok(self.is_number(&a).select(value, self.constant(Scalar::zero(to))?))
    }
}

/// Returns the value of a float constant, in every lane.
fn literal(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(scalar) if scalar.dtype.is_float() => Some(scalar.to_f64()),
        Expr::Splat(_, scalar) => literal(scalar),
        _ => None,
    }
}
