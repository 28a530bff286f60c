//! The definition of every scalar operation. The reference interpreter and constant folding run it,
//! and every back end is compared with it.
//!
//! - Floats compute in f64 and round to their type after each operation. For `+ - * /` and the
//!   square root, this is the correctly rounded result of narrower types as well, since f64 has
//!   more than twice their digits.
//! - Integers compute exactly and wrap at their width. A bool is an unsigned integer of one bit,
//!   unless the operation says otherwise.
//! - The transcendental functions come from `libm`, so results do not depend on the machine.

use super::{BinaryOp, Inst, Program, UnaryOp, Value};
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};

/// Returns the value of a scalar that is not a float.
fn integer(scalar: Scalar) -> i128 {
    if scalar.dtype == DType::U64 { scalar.bits().into() } else { scalar.to_i64().into() }
}

/// Wraps `value` to the width of a type that is not a float.
fn wrapped(dtype: DType, value: i128) -> Scalar {
    let mask = if dtype == DType::Bool { 1 } else { u64::MAX };
    Scalar::from_bits(dtype, value as u64 & mask)
}

impl UnaryOp {
    /// Returns the operation's result on `a`. A bit operation on a float, which no verified program
    /// contains, gives 0.
    pub fn evaluate(self, a: Scalar) -> Scalar {
        use UnaryOp::*;
        let dtype = a.dtype;
        if !dtype.is_float() {
            match self {
                Neg => return wrapped(dtype, -integer(a)),
                BitNot => return wrapped(dtype, !integer(a)),
                Abs => return wrapped(dtype, integer(a).abs()),
                Ceil | Floor | Rint | Round => return a,
                Recip => return BinaryOp::Div.evaluate(Scalar::one(dtype), a),
                _ => {}
            }
        }
        let x = a.to_f64();
        let y = match self {
            Neg => -x,
            BitNot => 0.0,
            Abs => x.abs(),
            Acos => libm::acos(x),
            // The value of `libm::acosh` below 1 is unspecified.
            Acosh if x < 1.0 => f64::NAN,
            Acosh => libm::acosh(x),
            Asin => libm::asin(x),
            Asinh => libm::asinh(x),
            Atan => libm::atan(x),
            Atanh => libm::atanh(x),
            Ceil => x.ceil(),
            Cos => libm::cos(x),
            Cosh => libm::cosh(x),
            Erf => libm::erf(x),
            Exp => libm::exp(x),
            Floor => x.floor(),
            Log => libm::log(x),
            Log1p => libm::log1p(x),
            Recip => 1.0 / x,
            Rint => x.round_ties_even(),
            Round => x.round(),
            Rsqrt => 1.0 / x.sqrt(),
            Sigmoid => sigmoid(x),
            Sin => libm::sin(x),
            Sinh => libm::sinh(x),
            Sqrt => x.sqrt(),
            Tan => libm::tan(x),
            Tanh => libm::tanh(x),
        };
        Scalar::from_f64(dtype, y)
    }
}

/// Computes `1 / (1 + exp(-x))`, without an exponential that overflows.
pub fn sigmoid(x: f64) -> f64 {
    let power = libm::exp(-x.abs());
    (if x < 0.0 { power } else { 1.0 }) / (1.0 + power)
}

impl BinaryOp {
    /// Returns the operation's result on `a` and `b`, which have the same type. A bit operation on
    /// floats, which no verified program contains, gives 0.
    pub fn evaluate(self, a: Scalar, b: Scalar) -> Scalar {
        use BinaryOp::*;
        let dtype = a.dtype;
        let ordering = if dtype.is_float() {
            a.to_f64().partial_cmp(&b.to_f64())
        } else {
            Some(integer(a).cmp(&integer(b)))
        };
        match self {
            Eq => Scalar::bool(ordering.is_some_and(|o| o.is_eq())),
            Ne => Scalar::bool(!ordering.is_some_and(|o| o.is_eq())),
            Lt => Scalar::bool(ordering.is_some_and(|o| o.is_lt())),
            Le => Scalar::bool(ordering.is_some_and(|o| o.is_le())),
            Gt => Scalar::bool(ordering.is_some_and(|o| o.is_gt())),
            Ge => Scalar::bool(ordering.is_some_and(|o| o.is_ge())),
            Max => {
                if ordering.is_some_and(|o| o.is_lt()) {
                    b
                } else {
                    a
                }
            }
            Min => {
                if ordering.is_some_and(|o| o.is_gt()) {
                    b
                } else {
                    a
                }
            }
            _ if dtype.is_float() => {
                Scalar::from_f64(dtype, self.on_floats(a.to_f64(), b.to_f64()))
            }
            _ => wrapped(dtype, self.on_integers(dtype, integer(a), integer(b))),
        }
    }

    fn on_floats(self, a: f64, b: f64) -> f64 {
        match self {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::Pow => libm::pow(a, b),
            BinaryOp::Rem => a % b,
            _ => 0.0,
        }
    }

    fn on_integers(self, dtype: DType, a: i128, b: i128) -> i128 {
        let bits = i128::from(dtype.bits());
        match self {
            BinaryOp::Add if dtype == DType::Bool => a | b,
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a.wrapping_mul(b),
            BinaryOp::Div => a.checked_div(b).unwrap_or(0),
            BinaryOp::Pow => power(a, b),
            BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
            BinaryOp::BitAnd => a & b,
            BinaryOp::BitOr => a | b,
            BinaryOp::BitXor => a ^ b,
            BinaryOp::ShiftLeft if (0..bits).contains(&b) => a << b,
            BinaryOp::ShiftRight if (0..bits).contains(&b) => a >> b,
            BinaryOp::ShiftRight if a < 0 => -1,
            _ => 0,
        }
    }
}

/// Returns the low bits of `base` to the power of `exponent`, or 0 if the exponent is negative.
fn power(mut base: i128, mut exponent: i128) -> i128 {
    let mut result = if exponent < 0 { 0 } else { 1 };
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = base.wrapping_mul(result);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

impl<L> Program<L> {
    /// Replaces the contents of `values` with the value of each instruction, in order. `leaf`
    /// returns the value of a leaf. The results are `values[r]` for each `r` of `self.results`.
    pub fn evaluate(&self, values: &mut Dense<Value, Scalar>, mut leaf: impl FnMut(&L) -> Scalar) {
        values.clear();
        for (inst, dtype) in &self.insts {
            let value = match inst {
                Inst::Const(scalar) => *scalar,
                Inst::Leaf(l) => leaf(l),
                Inst::Unary(op, a) => op.evaluate(values[*a]),
                Inst::Binary(op, a, b) => op.evaluate(values[*a], values[*b]),
                Inst::Select(c, a, b) => {
                    if values[*c].is_true() {
                        values[*a]
                    } else {
                        values[*b]
                    }
                }
                Inst::Cast(a) => values[*a].cast(*dtype),
            };
            values.push(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unary(op: UnaryOp, dtype: DType, values: &[&str]) -> String {
        let result = |v: &&str| op.evaluate(Scalar::parse(dtype, v).unwrap()).to_string();
        values.iter().map(result).collect::<Vec<_>>().join(" ")
    }

    fn binary(op: BinaryOp, dtype: DType, pairs: &[(&str, &str)]) -> String {
        let read = |v| Scalar::parse(dtype, v).unwrap();
        pairs
            .iter()
            .map(|(a, b)| op.evaluate(read(a), read(b)).to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn functions_are_nan_where_they_have_no_value() {
        assert_eq!(
            unary(UnaryOp::Acosh, DType::F32, &["0.5", "-100000.0", "-6941.826", "1.0"]),
            "NaN NaN NaN 0.0"
        );
    }

    #[test]
    fn integers_wrap_at_their_width() {
        insta::assert_snapshot!(binary(BinaryOp::Add, DType::I8, &[("127", "1"), ("-128", "-1")]), @"-128 127");
        insta::assert_snapshot!(binary(BinaryOp::Sub, DType::U16, &[("0", "1")]), @"65535");
        insta::assert_snapshot!(binary(BinaryOp::Mul, DType::U64, &[("18446744073709551615", "18446744073709551615")]), @"1");
        insta::assert_snapshot!(unary(UnaryOp::Neg, DType::I32, &["-2147483648", "5"]), @"-2147483648 -5");
        insta::assert_snapshot!(unary(UnaryOp::BitNot, DType::U8, &["1"]), @"254");
        insta::assert_snapshot!(unary(UnaryOp::Abs, DType::I8, &["-128", "-5"]), @"-128 5");
    }

    #[test]
    fn integer_division_truncates_and_never_traps() {
        let pairs = [("7", "2"), ("-7", "2"), ("7", "-2"), ("7", "0"), ("-128", "-1")];
        insta::assert_snapshot!(binary(BinaryOp::Div, DType::I8, &pairs), @"3 -3 -3 0 -128");
        insta::assert_snapshot!(unary(UnaryOp::Recip, DType::I32, &["0", "1", "-1", "2"]), @"0 1 -1 0");
    }

    #[test]
    fn powers_and_shifts_of_integers() {
        let pairs = [("3", "4"), ("2", "31"), ("2", "32"), ("0", "0"), ("2", "-1")];
        insta::assert_snapshot!(binary(BinaryOp::Pow, DType::I32, &pairs), @"81 -2147483648 0 1 0");
        let pairs = [("-5", "1"), ("-5", "31"), ("-5", "32"), ("5", "32"), ("-5", "-1")];
        insta::assert_snapshot!(binary(BinaryOp::ShiftRight, DType::I32, &pairs), @"-3 -1 -1 0 -1");
        insta::assert_snapshot!(binary(BinaryOp::ShiftLeft, DType::I32, &pairs), @"-10 -2147483648 0 0 0");
    }

    #[test]
    fn remainders_are_exact_and_have_the_sign_of_the_dividend() {
        let pairs = [("7", "2"), ("-7", "2"), ("7", "-2"), ("7", "0"), ("-128", "-1")];
        insta::assert_snapshot!(binary(BinaryOp::Rem, DType::I8, &pairs), @"1 -1 1 0 0");
        let pairs = [
            ("55", "0.1"),
            ("-1e30", "3"),
            ("-4", "2"),
            ("5", "inf"),
            ("5", "0"),
            ("inf", "5"),
            ("0", "-2"),
        ];
        insta::assert_snapshot!(binary(BinaryOp::Rem, DType::F32, &pairs), @"0.09999918 -0.0 -0.0 5.0 NaN NaN 0.0");
    }

    #[test]
    fn floats_round_to_their_type() {
        insta::assert_snapshot!(binary(BinaryOp::Add, DType::F16, &[("2048", "1"), ("65504", "16")]), @"2048.0 inf");
        insta::assert_snapshot!(binary(BinaryOp::Div, DType::BF16, &[("1", "3")]), @"0.333984375");
        insta::assert_snapshot!(unary(UnaryOp::Rint, DType::F32, &["0.5", "-0.5", "2.5", "3.5", "-1.2"]), @"0.0 -0.0 2.0 4.0 -1.0");
        insta::assert_snapshot!(unary(UnaryOp::Round, DType::F32, &["0.5", "-0.5", "2.5", "-1.2"]), @"1.0 -1.0 3.0 -1.0");
        insta::assert_snapshot!(unary(UnaryOp::Erf, DType::F64, &["0.5", "-3"]), @"0.5204998778130465 -0.9999779095030014");
        insta::assert_snapshot!(unary(UnaryOp::Log1p, DType::F64, &["1e-20", "-1", "-2", "inf"]), @"1e-20 -inf NaN inf");
        insta::assert_snapshot!(unary(UnaryOp::Log1p, DType::F32, &["1e-10", "-0.0"]), @"1e-10 -0.0");
        insta::assert_snapshot!(unary(UnaryOp::Neg, DType::F32, &["0.0", "inf"]), @"-0.0 -inf");
    }

    #[test]
    fn max_and_min_keep_the_left_unless_the_right_is_better() {
        let pairs = [("1", "2"), ("NaN", "2"), ("1", "NaN"), ("0.0", "-0.0")];
        insta::assert_snapshot!(binary(BinaryOp::Max, DType::F32, &pairs), @"2.0 NaN 1.0 0.0");
        insta::assert_snapshot!(binary(BinaryOp::Min, DType::F32, &pairs), @"1.0 NaN 1.0 0.0");
        insta::assert_snapshot!(binary(BinaryOp::Ne, DType::F32, &pairs), @"true true true false");
    }

    #[test]
    fn a_bool_is_one_bit_but_for_addition() {
        let pairs = [("false", "false"), ("false", "true"), ("true", "false"), ("true", "true")];
        insta::assert_snapshot!(binary(BinaryOp::Add, DType::Bool, &pairs), @"false true true true");
        insta::assert_snapshot!(binary(BinaryOp::Sub, DType::Bool, &pairs), @"false true true false");
        insta::assert_snapshot!(binary(BinaryOp::Pow, DType::Bool, &pairs), @"true false true true");
        insta::assert_snapshot!(unary(UnaryOp::BitNot, DType::Bool, &["false", "true"]), @"true false");
        insta::assert_snapshot!(unary(UnaryOp::Neg, DType::Bool, &["false", "true"]), @"false true");
    }

    #[test]
    fn a_function_of_an_integer_truncates() {
        insta::assert_snapshot!(unary(UnaryOp::Exp, DType::I32, &["2", "-1", "30"]), @"7 0 2147483647");
        insta::assert_snapshot!(unary(UnaryOp::Sqrt, DType::U8, &["16", "15"]), @"4 3");
        insta::assert_snapshot!(unary(UnaryOp::Cos, DType::Bool, &["true"]), @"true");
    }
}
