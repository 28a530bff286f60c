//! Compile-time arithmetic on sizes and other constants.

use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::Lowered;
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};

/// A value known at compile time. Integers are exact: a result that does not fit 64 bits is an
/// error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Constant {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Constant {
    /// Returns the constant as an element of a tensor: an i32 (an i64 if it does not fit), an f32
    /// or a bool.
    pub fn scalar(self) -> Scalar {
        match self {
            Constant::Bool(value) => Scalar::bool(value),
            Constant::Int(value) => {
                i32::try_from(value).map_or(Scalar::from_i64(DType::I64, value), Scalar::i32)
            }
            Constant::Float(value) => Scalar::f32(value as f32),
        }
    }

    /// Rounds or wraps the constant to a type.
    pub fn cast(self, dtype: DType) -> Scalar {
        self.wide().cast(dtype)
    }

    /// Converts the constant to an i32. The fraction of a float is truncated.
    pub fn narrow(self, span: Span) -> Lowered<Constant> {
        let whole = match self {
            Constant::Bool(value) => Some(i32::from(value)),
            Constant::Int(value) => i32::try_from(value).ok(),
            Constant::Float(value) => {
                let value = value.trunc();
                (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value).then_some(value as i32)
            }
        };
        let error =
            || Diagnostic::error("E0203", span, "this number does not fit a 32-bit integer");
        whole.map(|value| Constant::Int(value.into())).ok_or_else(error)
    }

    pub fn is_true(self) -> bool {
        match self {
            Constant::Bool(value) => value,
            Constant::Int(value) => value != 0,
            Constant::Float(value) => value != 0.0,
        }
    }

    /// Returns whether both are the same number. `true` equals 1.
    pub fn is_equal(self, other: Constant) -> bool {
        let (a, b) = (self.wide(), other.wide());
        let dtype = a.dtype.meet(b.dtype);
        BinaryOp::Eq.evaluate(a.cast(dtype), b.cast(dtype)).is_true()
    }

    /// Returns the value in the widest type of its kind.
    fn wide(self) -> Scalar {
        match self {
            Constant::Bool(value) => Scalar::bool(value),
            Constant::Int(value) => Scalar::from_i64(DType::I64, value),
            Constant::Float(value) => Scalar::from_f64(DType::F64, value),
        }
    }

    fn from_wide(scalar: Scalar) -> Constant {
        match scalar.dtype {
            DType::Bool => Constant::Bool(scalar.is_true()),
            DType::F64 => Constant::Float(scalar.to_f64()),
            _ => Constant::Int(scalar.to_i64()),
        }
    }

    /// Computes `op self`. A function whose values on integers are no integers gives a float.
    pub fn unary(self, op: UnaryOp, span: Span) -> Lowered<Constant> {
        match (op, self) {
            (UnaryOp::Neg | UnaryOp::Abs, Constant::Int(i64::MIN)) => Err(overflow(span)),
            (UnaryOp::BitNot, Constant::Float(_)) => Err(bits_of_float(span)),
            (UnaryOp::Recip, Constant::Int(0)) => Err(division_by_zero(span)),
            (UnaryOp::Neg | UnaryOp::BitNot | UnaryOp::Abs, _)
            | (UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::Rint | UnaryOp::Round, _) => {
                Ok(Constant::from_wide(op.evaluate(self.wide())))
            }
            _ => Ok(Constant::from_wide(op.evaluate(self.wide().cast(DType::F64)))),
        }
    }

    /// Computes `self op right` in their common type.
    pub fn binary(self, op: BinaryOp, right: Constant, span: Span) -> Lowered<Constant> {
        let (left, right) = (self.wide(), right.wide());
        let dtype = left.dtype.meet(right.dtype);
        let (left, right) = (left.cast(dtype), right.cast(dtype));
        op.result(dtype, dtype).map_err(|_| bits_of_float(span))?;
        if dtype == DType::I64 {
            let (a, b) = (left.to_i64(), right.to_i64());
            let checked = match op {
                BinaryOp::Add => a.checked_add(b),
                BinaryOp::Sub => a.checked_sub(b),
                BinaryOp::Mul => a.checked_mul(b),
                BinaryOp::Div if b == 0 => return Err(division_by_zero(span)),
                BinaryOp::Div => a.checked_div(b),
                BinaryOp::ShiftLeft | BinaryOp::ShiftRight if !(0..64).contains(&b) => {
                    let message =
                        format!("a 64-bit integer is shifted by 0 to 63 bits, not by {b}");
                    return Err(Diagnostic::error("E0203", span, message));
                }
                BinaryOp::ShiftLeft => i64::try_from(i128::from(a) << b).ok(),
                BinaryOp::Pow if b < 0 => {
                    return Ok(Constant::from_wide(
                        op.evaluate(left.cast(DType::F64), right.cast(DType::F64)),
                    ));
                }
                // Powers of -1, 0 and 1 never overflow.
                BinaryOp::Pow => match (a, u32::try_from(b)) {
                    (-1..=1, _) => return Ok(Constant::from_wide(op.evaluate(left, right))),
                    (_, Ok(exponent)) => a.checked_pow(exponent),
                    (_, Err(_)) => None,
                },
                _ => return Ok(Constant::from_wide(op.evaluate(left, right))),
            };
            return checked.map(Constant::Int).ok_or_else(|| overflow(span));
        }
        Ok(Constant::from_wide(op.evaluate(left, right)))
    }
}

fn overflow(span: Span) -> Diagnostic {
    Diagnostic::error("E0203", span, "this number does not fit a 64-bit integer")
}

fn division_by_zero(span: Span) -> Diagnostic {
    Diagnostic::error("E0203", span, "this divides the integer by zero")
}

pub(super) fn bits_of_float(span: Span) -> Diagnostic {
    Diagnostic::error("E0204", span, "bit operations do not take floats")
        .help("convert with `as_int(X, 32)` first; a power is `pow(X, 2)`, and not `X ^ 2`")
}
