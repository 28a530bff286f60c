//! The operations of chains for a program's instructions.

use crate::dense::Dense;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::Leaf;
use crate::scalar::{BinaryOp, Inst, UnaryOp, Value};

use super::super::code::{Code, Relation, WordOp};

/// Returns the operation of a unary instruction, if a chain may have it.
pub fn unary(op: UnaryOp) -> Option<Code> {
    Some(match op {
        UnaryOp::Neg => Code::Neg,
        UnaryOp::Abs => Code::Abs,
        UnaryOp::Sqrt => Code::Sqrt,
        UnaryOp::Recip => Code::Recip,
        UnaryOp::Rint => Code::Rint,
        UnaryOp::Rsqrt => Code::Rsqrt,
        UnaryOp::Exp => Code::Exp,
        UnaryOp::Tanh => Code::Tanh,
        UnaryOp::Erf => Code::Erf,
        UnaryOp::Sigmoid => Code::Sigmoid,
        _ => return None,
    })
}

/// Returns the operation of a binary instruction that is not a comparison on `x` and a value of
/// type `dtype`, or, if `swapped`, on the value and `x`.
pub fn binary(op: BinaryOp, dtype: DType, swapped: bool) -> Option<Code> {
    if dtype != DType::F32 {
        return word(op, dtype, swapped).map(Code::Word);
    }
    Some(match (op, swapped) {
        (BinaryOp::Add, _) => Code::Add,
        (BinaryOp::Sub, false) => Code::Sub,
        (BinaryOp::Sub, true) => Code::SubFrom,
        (BinaryOp::Mul, _) => Code::Mul,
        (BinaryOp::Div, false) => Code::Div,
        (BinaryOp::Div, true) => Code::DivInto,
        (BinaryOp::Max, false) => Code::Max,
        (BinaryOp::Max, true) => Code::MaxOf,
        (BinaryOp::Min, false) => Code::Min,
        (BinaryOp::Min, true) => Code::MinOf,
        _ => return None,
    })
}

/// Returns the relation that a comparison of `x` with a value tests, or, if `swapped`, one of the
/// value with `x`.
pub fn relation(op: BinaryOp, swapped: bool) -> Option<Relation> {
    Some(match (op, swapped) {
        (BinaryOp::Eq, _) => Relation::Equal,
        (BinaryOp::Ne, _) => Relation::NotEqual,
        (BinaryOp::Lt, false) | (BinaryOp::Gt, true) => Relation::Less,
        (BinaryOp::Le, false) | (BinaryOp::Ge, true) => Relation::LessOrEqual,
        (BinaryOp::Lt, true) | (BinaryOp::Gt, false) => Relation::Greater,
        (BinaryOp::Le, true) | (BinaryOp::Ge, false) => Relation::GreaterOrEqual,
        _ => return None,
    })
}

/// Returns the operation of a binary instruction on 32-bit integers.
fn word(op: BinaryOp, dtype: DType, swapped: bool) -> Option<WordOp> {
    if !matches!(dtype, DType::I32 | DType::U32) {
        return None;
    }
    Some(match op {
        BinaryOp::Add => WordOp::Add,
        BinaryOp::Mul => WordOp::Mul,
        BinaryOp::BitAnd => WordOp::And,
        BinaryOp::BitOr => WordOp::Or,
        BinaryOp::BitXor => WordOp::Xor,
        BinaryOp::Max if dtype == DType::I32 => WordOp::Max,
        BinaryOp::Min if dtype == DType::I32 => WordOp::Min,
        _ if swapped => return None,
        BinaryOp::Sub => WordOp::Sub,
        BinaryOp::ShiftLeft => WordOp::ShiftLeft,
        BinaryOp::ShiftRight if dtype == DType::U32 => WordOp::ShiftRight,
        BinaryOp::ShiftRight => WordOp::ShiftRightSigned,
        _ => return None,
    })
}

/// Returns the operation of a cast.
pub fn cast(from: DType, to: DType) -> Option<Code> {
    use DType::{F32, I8, I32, U8, U32};
    match (from, to) {
        (I32 | U32, I32 | U32) | (I8 | U8, I32 | U32) => Some(Code::Nothing),
        (I8 | U8 | I32, F32) => Some(Code::FromSigned),
        (U32, F32) => Some(Code::FromUnsigned),
        (F32, I32) => Some(Code::ToSigned),
        (F32, I8) => Some(Code::ToSignedByte),
        (F32, U8) => Some(Code::ToUnsignedByte),
        (I32 | U32 | U8, I8) => Some(Code::SignedByte),
        (I32 | U32 | I8, U8) => Some(Code::UnsignedByte),
        _ => None,
    }
}

/// Returns whether a chain may contain an instruction, given the types of its result and operands.
pub fn chainable(inst: &Inst<Leaf>, dtypes: &Dense<Value, DType>, value: Value) -> bool {
    let f32 = |value: Value| dtypes[value] == DType::F32;
    match inst {
        Inst::Unary(op, a) => f32(*a) && unary(*op).is_some(),
        Inst::Binary(op, a, b) if op.is_comparison() => {
            let comparable = matches!(dtypes[*a], DType::F32 | DType::I32);
            comparable && dtypes[*a] == dtypes[*b] && relation(*op, false).is_some()
        }
        Inst::Binary(op, a, b) => {
            dtypes[*a] == dtypes[*b] && binary(*op, dtypes[*a], false).is_some()
        }
        Inst::Cast(a) => cast(dtypes[*a], dtypes[value]).is_some(),
        Inst::Select(c, a, _) => {
            dtypes[*c] == DType::Bool && matches!(dtypes[*a], DType::F32 | DType::I32 | DType::U32)
        }
        Inst::Leaf(Leaf::Statistic(Aggregation::Sum | Aggregation::Max | Aggregation::Min, _)) => {
            f32(value)
        }
        _ => false,
    }
}
