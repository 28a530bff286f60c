//! The element types, and each scalar operation on each of them, as the compiler's `scalar` module
//! defines it.
//!
//! Everything here is inlined into the loops of [`crate::cpu::vector`], and avoids branches and
//! calls where it can, so that these loops become vector code. Values have the types in which
//! tensors store them; f16 and bf16 compute in f32 and round after each operation.

use super::elementary;
use super::strip;
pub(in crate::cpu) use super::typed::{sized, typed};
pub use crate::cpu::memory::Bool;
use crate::cpu::vector;
use bytemuck::Pod;
use tile_compiler::dtype::Scalar;
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::{BinaryOp, UnaryOp, sigmoid};

/// An element that is only moved, whatever its type. Zero bits are 0 of every type.
pub trait Bits: Pod + Default {}

impl<T: Pod + Default> Bits for T {}

/// An element type.
pub trait Number: Pod + Default + PartialEq + Send + Sync {
    /// Whether it is a float: f16, bf16, f32 or f64.
    const FLOAT: bool;
    /// Whether f32 represents all its values exactly.
    const NARROW_FLOAT: bool = false;
    /// Whether i64 cannot represent all its values.
    const U64: bool = false;
    /// Applies `op` to a value.
    fn unary(op: UnaryOp, x: Self) -> Self;
    /// Applies `op` to a whole chunk, if there is a faster way than one by one. Otherwise returns
    /// false and leaves `out` unchanged.
    #[inline(always)]
    fn unary_chunk(_op: UnaryOp, _x: &[Self], _out: &mut [Self]) -> bool {
        false
    }
    /// Applies `op`, which is not a comparison, to two values.
    fn binary(op: BinaryOp, a: Self, b: Self) -> Self;
    /// Applies `op` to whole chunks, with the result of [`Number::unary_chunk`].
    #[inline(always)]
    fn binary_chunk(_op: BinaryOp, _a: &[Self], _b: &[Self], _out: &mut [Self]) -> bool {
        false
    }
    /// Accumulates as [`vector::accumulate`] does, where all values count, if there is a faster
    /// way. Otherwise returns false and leaves `sums` unchanged.
    #[inline(always)]
    fn accumulate_chunk(_aggregation: Aggregation, _sums: &mut [Self], _values: &[Self]) -> bool {
        false
    }
    /// Folds as [`vector::fold`] does, where all values count, if there is a faster way.
    #[inline(always)]
    fn fold_chunk(_aggregation: Aggregation, _identity: Self, _values: &[Self]) -> Option<Self> {
        None
    }
    /// Returns whether `a < b`: false if either is NaN.
    fn less(a: Self, b: Self) -> bool;
    /// Returns whether `a == b`: false if either is NaN.
    fn equal(a: Self, b: Self) -> bool;
    /// Converts exactly, but for 64-bit integers beyond 2⁵³.
    fn to_f64(self) -> f64;
    /// Converts to the nearest float. Conversions to integers truncate and saturate, with NaN as 0;
    /// a bool says whether `x != 0`.
    fn from_f64(x: f64) -> Self;
    /// Converts exactly for narrow floats.
    fn to_f32(self) -> f32 {
        self.to_f64() as f32
    }
    /// Converts as [`Number::from_f64`] does.
    fn from_f32(x: f32) -> Self {
        Self::from_f64(x as f64)
    }
    /// Converts chunks as [`Number::to_f32`] does, up to the shorter length, if there is a faster
    /// way than one by one. Otherwise returns false and leaves `out` unchanged.
    fn to_f32_chunk(_x: &[Self], _out: &mut [f32]) -> bool {
        false
    }
    /// Converts chunks as [`Number::from_f32`] does, with the result of [`Number::to_f32_chunk`].
    fn from_f32_chunk(_x: &[f32], _out: &mut [Self]) -> bool {
        false
    }
    /// Converts. u64 wraps; floats truncate and saturate.
    fn to_i64(self) -> i64;
    /// Converts. Integers wrap, floats round.
    fn from_i64(x: i64) -> Self;
}

/// Returns a scalar as an element of its type.
pub fn from_scalar<T: Number>(scalar: Scalar) -> T {
    if T::FLOAT { T::from_f64(scalar.to_f64()) } else { T::from_i64(scalar.to_i64()) }
}

/// Applies an operation to an f64 by a call, out of line.
#[inline(never)]
fn in_f64(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Acos => libm::acos(x),
        UnaryOp::Acosh if x < 1.0 => f64::NAN,
        UnaryOp::Acosh => libm::acosh(x),
        UnaryOp::Asin => libm::asin(x),
        UnaryOp::Asinh => libm::asinh(x),
        UnaryOp::Atan => libm::atan(x),
        UnaryOp::Atanh => libm::atanh(x),
        UnaryOp::Cos => libm::cos(x),
        UnaryOp::Cosh => libm::cosh(x),
        UnaryOp::Erf => libm::erf(x),
        UnaryOp::Exp => libm::exp(x),
        UnaryOp::Log => libm::log(x),
        UnaryOp::Log1p => libm::log1p(x),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Sigmoid => sigmoid(x),
        UnaryOp::Sin => libm::sin(x),
        UnaryOp::Sinh => libm::sinh(x),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Tan => libm::tan(x),
        UnaryOp::Tanh => libm::tanh(x),
        UnaryOp::Neg
        | UnaryOp::Abs
        | UnaryOp::Ceil
        | UnaryOp::Floor
        | UnaryOp::Rint
        | UnaryOp::Round => x,
        UnaryOp::Recip | UnaryOp::BitNot => 0.0,
    }
}

#[inline(never)]
fn pow_f64(a: f64, b: f64) -> f64 {
    libm::pow(a, b)
}

/// Rounds to the nearest integer, halves away from zero. It truncates first, which vector units can
/// do.
#[inline(always)]
fn round(x: f64) -> f64 {
    let whole = x.trunc();
    // The difference is exact.
    if (x - whole).abs() >= 0.5 { whole + 1f64.copysign(x) } else { whole }
}

/// Truncates a float, limited to a range of integers of at most 16 bits, and returns bits of which
/// the last are the integer's. NaN becomes 0. Unlike a conversion by `as`, it is vectorised.
#[inline(always)]
fn short(x: f32, least: f32, most: f32) -> u32 {
    // Floats from 2^23 to 2^24 are the integers there, in order.
    const MIDDLE: f32 = 12_582_912.0;
    let x = if x.is_nan() { 0.0 } else { x };
    let x = if x > least { x } else { least };
    let x = if x < most { x } else { most };
    (x.trunc() + MIDDLE).to_bits()
}

#[inline(always)]
fn round_f32(x: f32) -> f32 {
    let whole = x.trunc();
    if (x - whole).abs() >= 0.5 { whole + 1f32.copysign(x) } else { whole }
}

macro_rules! float_arithmetic {
    ($pow:expr) => {
        #[inline(always)]
        fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::Max => {
                    if a < b {
                        b
                    } else {
                        a
                    }
                }
                BinaryOp::Min => {
                    if b < a {
                        b
                    } else {
                        a
                    }
                }
                BinaryOp::Pow => $pow(a, b),
                BinaryOp::Rem => a % b,
                _ => 0.0,
            }
        }
        #[inline(always)]
        fn less(a: Self, b: Self) -> bool {
            a < b
        }
        #[inline(always)]
        fn equal(a: Self, b: Self) -> bool {
            a == b
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            self as f64
        }
        #[inline(always)]
        fn from_f64(x: f64) -> Self {
            x as Self
        }
        #[inline(always)]
        fn to_i64(self) -> i64 {
            self as i64
        }
        #[inline(always)]
        fn from_i64(x: i64) -> Self {
            x as Self
        }
    };
}

impl Number for f64 {
    const FLOAT: bool = true;
    #[inline(always)]
    fn unary(op: UnaryOp, x: Self) -> Self {
        match op {
            UnaryOp::Neg => -x,
            UnaryOp::Abs => x.abs(),
            UnaryOp::Ceil => x.ceil(),
            UnaryOp::Floor => x.floor(),
            UnaryOp::Rint => x.round_ties_even(),
            UnaryOp::Round => round(x),
            UnaryOp::Recip => 1.0 / x,
            UnaryOp::Sqrt => x.sqrt(),
            UnaryOp::Rsqrt => 1.0 / x.sqrt(),
            _ => in_f64(op, x),
        }
    }
    float_arithmetic!(pow_f64);
}

impl Number for f32 {
    const FLOAT: bool = true;
    const NARROW_FLOAT: bool = true;
    #[inline(always)]
    fn unary(op: UnaryOp, x: Self) -> Self {
        match op {
            UnaryOp::Neg => -x,
            UnaryOp::Abs => x.abs(),
            UnaryOp::Ceil => x.ceil(),
            UnaryOp::Floor => x.floor(),
            UnaryOp::Rint => x.round_ties_even(),
            UnaryOp::Round => round_f32(x),
            UnaryOp::Recip => 1.0 / x,
            UnaryOp::Sqrt => x.sqrt(),
            UnaryOp::Rsqrt => 1.0 / x.sqrt(),
            _ => in_f64(op, x as f64) as f32,
        }
    }
    /// Uses the functions without branches. Sine and cosine are computed once more where the
    /// argument is too large for these.
    fn unary_chunk(op: UnaryOp, x: &[f32], out: &mut [f32]) -> bool {
        if strip::unary(op, x, out) {
            return true;
        }
        if !vector::unary_f32(op, x, out) {
            return false;
        }
        if matches!(op, UnaryOp::Sin | UnaryOp::Cos) {
            for (out, x) in
                out.iter_mut().zip(x).filter(|(_, x)| x.abs() > elementary::TRIGONOMETRIC_LIMIT)
            {
                *out = in_f64(op, *x as f64) as f32;
            }
        }
        true
    }
    fn binary_chunk(op: BinaryOp, a: &[f32], b: &[f32], out: &mut [f32]) -> bool {
        vector::binary_f32(op, a, b, out)
    }
    fn accumulate_chunk(aggregation: Aggregation, sums: &mut [f32], values: &[f32]) -> bool {
        vector::accumulate_f32(aggregation, sums, values);
        true
    }
    fn fold_chunk(aggregation: Aggregation, identity: f32, values: &[f32]) -> Option<f32> {
        Some(vector::fold_f32(aggregation, identity, values))
    }
    float_arithmetic!(elementary::pow);
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
}

macro_rules! integer {
    ($($t:ident)*) => { $(
        impl Number for $t {
            const FLOAT: bool = false;
            const U64: bool = $t::MAX as u128 == u64::MAX as u128;
            #[inline(always)]
            #[allow(unused_comparisons, reason = "of the unsigned types")]
            fn unary(op: UnaryOp, x: Self) -> Self {
                match op {
                    UnaryOp::Neg => x.wrapping_neg(),
                    UnaryOp::BitNot => !x,
                    UnaryOp::Abs => if x < 0 { x.wrapping_neg() } else { x },
                    UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::Rint | UnaryOp::Round => x,
                    UnaryOp::Recip => if x == 0 { 0 } else { (1 as $t).wrapping_div(x) },
                    _ => in_f64(op, x as f64) as $t,
                }
            }
            #[inline(always)]
            #[allow(unused_comparisons, reason = "of the unsigned types")]
            fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
                let shift = u32::try_from(b).ok().filter(|shift| *shift < $t::BITS);
                match op {
                    BinaryOp::Add => a.wrapping_add(b),
                    BinaryOp::Sub => a.wrapping_sub(b),
                    BinaryOp::Mul => a.wrapping_mul(b),
                    BinaryOp::Div => if b == 0 { 0 } else { a.wrapping_div(b) },
                    BinaryOp::Rem => if b == 0 { 0 } else { a.wrapping_rem(b) },
                    BinaryOp::Max => if a < b { b } else { a },
                    BinaryOp::Min => if b < a { b } else { a },
                    BinaryOp::Pow => {
                        let (mut base, mut exponent, mut result) = (a, b, if b < 0 { 0 } else { 1 });
                        while exponent > 0 {
                            if exponent & 1 == 1 {
                                result = base.wrapping_mul(result);
                            }
                            base = base.wrapping_mul(base);
                            exponent >>= 1;
                        }
                        result
                    }
                    BinaryOp::BitAnd => a & b,
                    BinaryOp::BitOr => a | b,
                    BinaryOp::BitXor => a ^ b,
                    BinaryOp::ShiftLeft => shift.map_or(0, |shift| a << shift),
                    BinaryOp::ShiftRight => shift.map_or(if a < 0 { !0 } else { 0 }, |shift| a >> shift),
                    _ => 0,
                }
            }
            #[inline(always)]
            fn less(a: Self, b: Self) -> bool {
                a < b
            }
            #[inline(always)]
            fn equal(a: Self, b: Self) -> bool {
                a == b
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                if size_of::<$t>() > 2 { x as $t } else { short(x, $t::MIN as f32, $t::MAX as f32) as $t }
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn from_i64(x: i64) -> Self {
                x as $t
            }
        }
    )* };
}
integer!(i8 i16 i32 i64 u8 u16 u32 u64);

/// An unsigned integer of one bit, except that addition is `or`.
impl Number for Bool {
    const FLOAT: bool = false;
    #[inline(always)]
    fn unary(op: UnaryOp, x: Self) -> Self {
        let bit = (x.0 != 0) as u8;
        match op {
            UnaryOp::BitNot => Bool(bit ^ 1),
            UnaryOp::Neg
            | UnaryOp::Abs
            | UnaryOp::Ceil
            | UnaryOp::Floor
            | UnaryOp::Rint
            | UnaryOp::Round
            | UnaryOp::Recip => Bool(bit),
            _ => Self::from_f64(in_f64(op, bit as f64)),
        }
    }
    #[inline(always)]
    fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
        let (a, b) = ((a.0 != 0) as u8, (b.0 != 0) as u8);
        Bool(match op {
            BinaryOp::Add | BinaryOp::Max | BinaryOp::BitOr => a | b,
            BinaryOp::Sub | BinaryOp::BitXor => a ^ b,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Min | BinaryOp::BitAnd => a & b,
            BinaryOp::Pow => a | (b ^ 1),
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight => a & (b ^ 1),
            _ => 0,
        })
    }
    #[inline(always)]
    fn less(a: Self, b: Self) -> bool {
        a.0 == 0 && b.0 != 0
    }
    #[inline(always)]
    fn equal(a: Self, b: Self) -> bool {
        (a.0 != 0) == (b.0 != 0)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        (self.0 != 0) as u8 as f64
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        Bool((x != 0.0) as u8)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        (self.0 != 0) as i64
    }
    #[inline(always)]
    fn from_i64(x: i64) -> Self {
        Bool((x != 0) as u8)
    }
}
