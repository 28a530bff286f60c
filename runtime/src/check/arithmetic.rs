//! Operators on words, by scalar type. Floats are computed in their own width, and integers wrap.
//! Division follows WGSL: an undefined quotient is the dividend, and an undefined remainder is 0.

use half::f16;
use naga::{BinaryOperator, Scalar, ScalarKind, UnaryOperator};

use super::value::Word;

pub(super) type Unary = fn(u64) -> u64;
pub(super) type Binary = fn(u64, u64) -> u64;

/// Returns the operator for operands of type `scalar`, if there is one.
pub(super) fn unary(op: UnaryOperator, scalar: Scalar) -> Option<Unary> {
    macro_rules! negate {
        ($type:ty, $negate:expr) => {
            |a| $negate(<$type>::of(a)).word()
        };
    }
    Some(match (op, scalar.kind, scalar.width) {
        (UnaryOperator::LogicalNot, ScalarKind::Bool, _) => |a| a ^ 1,
        (UnaryOperator::BitwiseNot, ScalarKind::Sint | ScalarKind::Uint, width) => match width {
            2 => |a| (!u16::of(a)).word(),
            4 => |a| (!u32::of(a)).word(),
            _ => |a| !a,
        },
        (UnaryOperator::Negate, ScalarKind::Sint, 2) => negate!(i16, i16::wrapping_neg),
        (UnaryOperator::Negate, ScalarKind::Sint, 4) => negate!(i32, i32::wrapping_neg),
        (UnaryOperator::Negate, ScalarKind::Sint, 8) => negate!(i64, i64::wrapping_neg),
        (UnaryOperator::Negate, ScalarKind::Float, 2) => negate!(f16, |a: f16| -a),
        (UnaryOperator::Negate, ScalarKind::Float, 4) => negate!(f32, |a: f32| -a),
        (UnaryOperator::Negate, ScalarKind::Float, 8) => negate!(f64, |a: f64| -a),
        _ => return None,
    })
}

/// Returns the operator for a left operand of type `scalar`, if there is one. The right operand of
/// a shift is a u32, taken modulo the width.
pub(super) fn binary(op: BinaryOperator, scalar: Scalar) -> Option<Binary> {
    use BinaryOperator::*;
    macro_rules! comparison {
        ($type:ty, $otherwise:expr) => {
            match op {
                Equal => |a, b| (<$type>::of(a) == <$type>::of(b)).word(),
                NotEqual => |a, b| (<$type>::of(a) != <$type>::of(b)).word(),
                Less => |a, b| (<$type>::of(a) < <$type>::of(b)).word(),
                LessEqual => |a, b| (<$type>::of(a) <= <$type>::of(b)).word(),
                Greater => |a, b| (<$type>::of(a) > <$type>::of(b)).word(),
                GreaterEqual => |a, b| (<$type>::of(a) >= <$type>::of(b)).word(),
                _ => $otherwise,
            }
        };
    }
    macro_rules! integer {
        ($type:ty) => {
            comparison!(
                $type,
                match op {
                    Add => |a, b| <$type>::of(a).wrapping_add(<$type>::of(b)).word(),
                    Subtract => |a, b| <$type>::of(a).wrapping_sub(<$type>::of(b)).word(),
                    Multiply => |a, b| <$type>::of(a).wrapping_mul(<$type>::of(b)).word(),
                    Divide =>
                        |a, b| <$type>::of(a).checked_div(<$type>::of(b)).map_or(a, Word::word),
                    Modulo =>
                        |a, b| <$type>::of(a).checked_rem(<$type>::of(b)).map_or(0, Word::word),
                    And => |a, b| a & b,
                    InclusiveOr => |a, b| a | b,
                    ExclusiveOr => |a, b| a ^ b,
                    ShiftLeft => |a, b| <$type>::of(a).wrapping_shl(u32::of(b)).word(),
                    ShiftRight => |a, b| <$type>::of(a).wrapping_shr(u32::of(b)).word(),
                    _ => return None,
                }
            )
        };
    }
    macro_rules! float {
        ($type:ty) => {
            comparison!(
                $type,
                match op {
                    Add => |a, b| (<$type>::of(a) + <$type>::of(b)).word(),
                    Subtract => |a, b| (<$type>::of(a) - <$type>::of(b)).word(),
                    Multiply => |a, b| (<$type>::of(a) * <$type>::of(b)).word(),
                    Divide => |a, b| (<$type>::of(a) / <$type>::of(b)).word(),
                    Modulo => |a, b| (<$type>::of(a) % <$type>::of(b)).word(),
                    _ => return None,
                }
            )
        };
    }
    Some(match (scalar.kind, scalar.width) {
        (ScalarKind::Sint, 2) => integer!(i16),
        (ScalarKind::Sint, 4) => integer!(i32),
        (ScalarKind::Sint, 8) => integer!(i64),
        (ScalarKind::Uint, 2) => integer!(u16),
        (ScalarKind::Uint, 4) => integer!(u32),
        (ScalarKind::Uint, 8) => integer!(u64),
        (ScalarKind::Float, 2) => float!(f16),
        (ScalarKind::Float, 4) => float!(f32),
        (ScalarKind::Float, 8) => float!(f64),
        (ScalarKind::Bool, _) => match op {
            Equal => |a, b| u64::from(a == b),
            NotEqual | ExclusiveOr => |a, b| a ^ b,
            And | LogicalAnd => |a, b| a & b,
            InclusiveOr | LogicalOr => |a, b| a | b,
            _ => return None,
        },
        _ => return None,
    })
}
