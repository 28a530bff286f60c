//! WGSL's componentwise built-in functions, on words.
//!
//! The checker does what GPUs do where WGSL leaves a result open: `min` and `max` ignore a NaN, and
//! `pow` of a negative base is NaN. f16 is computed in f32 and rounded once.

use half::f16;
use naga::{MathFunction, Scalar, ScalarKind};

use super::value::Word;

/// A function of up to four words. Missing arguments are passed and ignored.
pub(super) type Function = fn([u64; 4]) -> u64;

/// Returns the function for a first argument of type `scalar`, or `None` if it is not componentwise
/// or not known.
pub(super) fn componentwise(fun: MathFunction, scalar: Scalar) -> Option<Function> {
    Some(match (scalar.kind, scalar.width) {
        (ScalarKind::Float, 2) => return half(fun),
        (ScalarKind::Float, 4) => return single(fun),
        (ScalarKind::Float, 8) => return double(fun),
        (ScalarKind::Sint, 2) => return common_signed_16(fun),
        (ScalarKind::Sint, 4) => match fun {
            MathFunction::ExtractBits => |[a, offset, count, _]| {
                let (offset, count) = field(offset, count);
                if count == 0 {
                    0
                } else {
                    ((i32::of(a) << (32 - offset - count)) >> (32 - count)).word()
                }
            },
            MathFunction::FirstLeadingBit => |[a, ..]| {
                let a = i32::of(a);
                (31 - (if a < 0 { !a } else { a }).leading_zeros() as i32).word()
            },
            _ => return bits(fun).or_else(|| common_signed_32(fun)),
        },
        (ScalarKind::Sint, 8) => return common_signed_64(fun),
        (ScalarKind::Uint, 2) => return common_unsigned_16(fun),
        (ScalarKind::Uint, 4) => match fun {
            MathFunction::ExtractBits => |[a, offset, count, _]| {
                let (offset, count) = field(offset, count);
                (a >> offset) & ((1 << count) - 1)
            },
            MathFunction::FirstLeadingBit => {
                |[a, ..]| (31 - u32::of(a).leading_zeros() as i32).word()
            }
            _ => return bits(fun).or_else(|| common_unsigned_32(fun)),
        },
        (ScalarKind::Uint, 8) => return common_unsigned_64(fun),
        _ => return None,
    })
}

/// Clamps a bit field to a 32-bit word.
fn field(offset: u64, count: u64) -> (u64, u64) {
    let offset = offset.min(32);
    (offset, count.min(32 - offset))
}

/// Returns the functions of 32-bit integers, signed or not, that work on bits.
fn bits(fun: MathFunction) -> Option<Function> {
    Some(match fun {
        MathFunction::CountTrailingZeros => |[a, ..]| u32::of(a).trailing_zeros().word(),
        MathFunction::CountLeadingZeros => |[a, ..]| u32::of(a).leading_zeros().word(),
        MathFunction::CountOneBits => |[a, ..]| u32::of(a).count_ones().word(),
        MathFunction::ReverseBits => |[a, ..]| u32::of(a).reverse_bits().word(),
        MathFunction::FirstTrailingBit => {
            |[a, ..]| if a == 0 { u32::MAX.word() } else { u32::of(a).trailing_zeros().word() }
        }
        MathFunction::InsertBits => |[a, new, offset, count]| {
            let (offset, count) = field(offset, count);
            let mask = ((1 << count) - 1) << offset;
            (a & !mask) | ((new << offset) & mask)
        },
        _ => return None,
    })
}

macro_rules! common {
    ($name:ident, $type:ty, $abs:expr, $sign:expr) => {
        fn $name(fun: MathFunction) -> Option<Function> {
            Some(match fun {
                MathFunction::Abs => |[a, ..]| $abs(<$type>::of(a)).word(),
                MathFunction::Sign => |[a, ..]| $sign(<$type>::of(a)).word(),
                MathFunction::Min => |[a, b, ..]| <$type>::of(a).min(<$type>::of(b)).word(),
                MathFunction::Max => |[a, b, ..]| <$type>::of(a).max(<$type>::of(b)).word(),
                MathFunction::Clamp => |[a, low, high, _]| {
                    <$type>::of(a).max(<$type>::of(low)).min(<$type>::of(high)).word()
                },
                _ => return None,
            })
        }
    };
}
common!(common_signed_16, i16, i16::wrapping_abs, i16::signum);
common!(common_signed_32, i32, i32::wrapping_abs, i32::signum);
common!(common_signed_64, i64, i64::wrapping_abs, i64::signum);
common!(common_unsigned_16, u16, std::convert::identity, |a: u16| a.min(1));
common!(common_unsigned_32, u32, std::convert::identity, |a: u32| a.min(1));
common!(common_unsigned_64, u64, std::convert::identity, |a: u64| a.min(1));

/// Defines the functions of a float type. They are computed in `$real`, converted from a word by
/// `$of` and to a word by `$put`.
macro_rules! float {
    ($name:ident, $real:ident, $of:expr, $put:expr) => {
        fn $name(fun: MathFunction) -> Option<Function> {
            use MathFunction as M;
            macro_rules! real {
                (|$a:ident| $value:expr) => {
                    |[$a, ..]| {
                        let $a: $real = $of($a);
                        $put($value)
                    }
                };
                (|$a:ident, $b:ident| $value:expr) => {
                    |[$a, $b, ..]| {
                        let ($a, $b): ($real, $real) = ($of($a), $of($b));
                        $put($value)
                    }
                };
                (|$a:ident, $b:ident, $c:ident| $value:expr) => {
                    |[$a, $b, $c, _]| {
                        let ($a, $b, $c): ($real, $real, $real) = ($of($a), $of($b), $of($c));
                        $put($value)
                    }
                };
            }
            Some(match fun {
                M::Abs => real!(|a| a.abs()),
                M::Min => real!(|a, b| a.min(b)),
                M::Max => real!(|a, b| a.max(b)),
                M::Clamp => real!(|a, low, high| a.max(low).min(high)),
                M::Saturate => real!(|a| a.max(0.0).min(1.0)),
                M::Cos => real!(|a| a.cos()),
                M::Cosh => real!(|a| a.cosh()),
                M::Sin => real!(|a| a.sin()),
                M::Sinh => real!(|a| a.sinh()),
                M::Tan => real!(|a| a.tan()),
                M::Tanh => real!(|a| a.tanh()),
                M::Acos => real!(|a| a.acos()),
                M::Asin => real!(|a| a.asin()),
                M::Atan => real!(|a| a.atan()),
                M::Atan2 => real!(|a, b| a.atan2(b)),
                M::Asinh => real!(|a| a.asinh()),
                M::Acosh => real!(|a| a.acosh()),
                M::Atanh => real!(|a| a.atanh()),
                M::Radians => real!(|a| a.to_radians()),
                M::Degrees => real!(|a| a.to_degrees()),
                M::Ceil => real!(|a| a.ceil()),
                M::Floor => real!(|a| a.floor()),
                M::Round => real!(|a| a.round_ties_even()),
                M::Fract => real!(|a| a - a.floor()),
                M::Trunc => real!(|a| a.trunc()),
                M::Ldexp => |[a, exponent, ..]| {
                    let a: $real = $of(a);
                    $put((f64::from(a) * f64::from(i32::of(exponent)).exp2()) as $real)
                },
                M::Exp => real!(|a| a.exp()),
                M::Exp2 => real!(|a| a.exp2()),
                M::Log => real!(|a| a.ln()),
                M::Log2 => real!(|a| a.log2()),
                M::Pow => real!(|a, b| if a < 0.0 { $real::NAN } else { a.powf(b) }),
                M::Sign => real!(|a| if a == 0.0 { 0.0 } else { a.signum() }),
                M::Fma => real!(|a, b, c| a.mul_add(b, c)),
                M::Mix => real!(|a, b, part| a * (1.0 - part) + b * part),
                M::Step => real!(|edge, a| if a < edge { 0.0 } else { 1.0 }),
                M::SmoothStep => real!(|low, high, a| {
                    let part = ((a - low) / (high - low)).max(0.0).min(1.0);
                    part * part * (3.0 - 2.0 * part)
                }),
                M::Sqrt => real!(|a| a.sqrt()),
                M::InverseSqrt => real!(|a| 1.0 / a.sqrt()),
                M::QuantizeToF16 => real!(|a| f16::from_f64(f64::from(a)).to_f64() as $real),
                _ => return None,
            })
        }
    };
}
float!(half, f32, |word| f16::of(word).to_f32(), |value: f32| f16::from_f32(value).word());
float!(single, f32, f32::of, f32::word);
float!(double, f64, f64::of, f64::word);
