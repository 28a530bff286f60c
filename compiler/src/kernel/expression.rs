//! Constructors of [`Expr`] that keep kernel-building code short, and fold constants.
//!
//! `+`, `-` and `*` take expressions, references to them, and literals: `&row * 64 + column`.
//! Folding applies to operations on i32 literals and on conditions, never to float arithmetic: the
//! value is exactly that of the unfolded expression.

use std::ops::{Add, Mul, Sub};

use super::{Builtin, Expr};
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};

impl From<i32> for Expr {
    fn from(value: i32) -> Expr {
        Expr::Literal(Scalar::i32(value))
    }
}

impl From<f32> for Expr {
    fn from(value: f32) -> Expr {
        Expr::Literal(Scalar::f32(value))
    }
}

impl From<bool> for Expr {
    fn from(value: bool) -> Expr {
        Expr::Literal(Scalar::bool(value))
    }
}

impl From<Scalar> for Expr {
    fn from(value: Scalar) -> Expr {
        Expr::Literal(value)
    }
}

impl From<&Expr> for Expr {
    fn from(value: &Expr) -> Expr {
        value.clone()
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident)*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;
            fn $method(self, right: T) -> Expr {
                self.binary(BinaryOp::$trait, right)
            }
        }
        impl<T: Into<Expr>> $trait<T> for &Expr {
            type Output = Expr;
            fn $method(self, right: T) -> Expr {
                self.clone().binary(BinaryOp::$trait, right)
            }
        }
    )*};
}

operators! { Add add Sub sub Mul mul }

macro_rules! methods {
    ($($name:ident $op:ident)*) => {$(
        #[doc = concat!("[`BinaryOp::", stringify!($op), "`].")]
        pub fn $name(self, right: impl Into<Expr>) -> Expr {
            self.binary(BinaryOp::$op, right)
        }
    )*};
}

impl Expr {
    methods! { lt Lt le Le gt Gt ge Ge equals Eq differs Ne max Max min Min and BitAnd or BitOr }

    /// The position of the workgroup in the grid along an axis.
    pub fn workgroup(axis: u8) -> Expr {
        Expr::Builtin(Builtin::WorkgroupId(axis))
    }

    /// The position of the invocation in its workgroup along an axis.
    pub fn local(axis: u8) -> Expr {
        Expr::Builtin(Builtin::LocalId(axis))
    }

    /// The number that the launch passes for `steps[number]` of the kernel.
    pub fn step(number: usize) -> Expr {
        Expr::Builtin(Builtin::Step(number))
    }

    /// An element of a buffer.
    pub fn load(buffer: usize, index: impl Into<Expr>) -> Expr {
        Expr::Load { buffer, index: Box::new(index.into()) }
    }

    /// An element of workgroup memory.
    pub fn load_shared(shared: usize, index: impl Into<Expr>) -> Expr {
        Expr::LoadShared { shared, index: Box::new(index.into()) }
    }

    /// Returns the value of an i32 literal.
    pub fn as_i32(&self) -> Option<i32> {
        match self {
            Expr::Literal(s) if s.dtype == DType::I32 => Some(s.to_i64() as i32),
            _ => None,
        }
    }

    /// Returns the value of a bool literal.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Expr::Literal(s) if s.dtype == DType::Bool => Some(s.is_true()),
            _ => None,
        }
    }

    /// Applies a unary operation. The complement of a known bool is folded.
    pub fn unary(self, op: UnaryOp) -> Expr {
        match (op, self.as_bool()) {
            (UnaryOp::BitNot, Some(value)) => (!value).into(),
            _ => Expr::Unary(op, Box::new(self)),
        }
    }

    /// Applies a binary operation. Operations on known i32 numbers are folded.
    pub fn binary(self, op: BinaryOp, right: impl Into<Expr>) -> Expr {
        let right = right.into();
        if let (Some(a), Some(b)) = (self.as_i32(), right.as_i32())
            && let Some(folded) = fold(op, a, b)
        {
            return folded;
        }
        // Literals move to the right, where the folds below expect them.
        if matches!(op, BinaryOp::Add | BinaryOp::Mul) && self.as_i32().is_some() {
            return right.binary(op, self);
        }
        if let Some(b) = right.as_i32() {
            match (op, b) {
                (BinaryOp::Add | BinaryOp::Sub, 0) | (BinaryOp::Mul, 1) => return self,
                (BinaryOp::Mul, 0) => return right,
                _ => {}
            }
            // (x + a) + b = x + (a + b), (x + a) - b = x + (a - b), (x * a) * b = x * (a * b): all
            // of them wrap.
            if let Expr::Binary(inner, x, a) = &self
                && let Some(a) = a.as_i32()
                && let (BinaryOp::Add, BinaryOp::Add | BinaryOp::Sub)
                | (BinaryOp::Mul, BinaryOp::Mul) = (inner, op)
                && let Some(folded) = fold(op, a, b)
            {
                return (**x).clone().binary(*inner, folded);
            }
        }
        for (known, other) in [(self.as_bool(), &right), (right.as_bool(), &self)] {
            match (op, known) {
                (BinaryOp::BitAnd, Some(true)) | (BinaryOp::BitOr, Some(false)) => {
                    return other.clone();
                }
                (BinaryOp::BitAnd, Some(false)) | (BinaryOp::BitOr, Some(true)) => {
                    return (op == BinaryOp::BitOr).into();
                }
                _ => {}
            }
        }
        Expr::Binary(op, Box::new(self), Box::new(right))
    }

    /// Negates a condition.
    #[expect(clippy::should_implement_trait, reason = "reads better beside `and` and `or`")]
    pub fn not(self) -> Expr {
        self.unary(UnaryOp::BitNot)
    }

    /// Divides an i32 of at least 0 by `divisor`, which is in `1..2^31`.
    pub fn quotient(self, divisor: u32) -> Expr {
        match (self.as_i32(), self.multiple_of(divisor)) {
            _ if divisor == 1 => self,
            (Some(x), _) if divisor > 0 => ((x as u32 / divisor) as i32).into(),
            (_, Some(x)) => x,
            _ => Expr::Quotient(Box::new(self), divisor),
        }
    }

    /// Returns the remainder of an i32 of at least 0 and `divisor`, which is in `1..2^31`.
    pub fn remainder(self, divisor: u32) -> Expr {
        match (self.as_i32(), self.multiple_of(divisor)) {
            (Some(x), _) if divisor > 0 => ((x as u32 % divisor) as i32).into(),
            (_, Some(_)) => 0.into(),
            _ if divisor == 1 => 0.into(),
            _ => Expr::Remainder(Box::new(self), divisor),
        }
    }

    /// Returns `x * (a / divisor)` if the expression is `x * a` and `divisor` divides `a`.
    fn multiple_of(&self, divisor: u32) -> Option<Expr> {
        let Expr::Binary(BinaryOp::Mul, x, a) = self else { return None };
        let (a, divisor) = (a.as_i32()?, i32::try_from(divisor).ok()?);
        (a.checked_rem(divisor)? == 0).then(|| (**x).clone() * (a / divisor))
    }

    /// `self * b + c` of floats.
    pub fn fma(self, b: impl Into<Expr>, c: impl Into<Expr>) -> Expr {
        Expr::Fma(Box::new(self), Box::new(b.into()), Box::new(c.into()))
    }

    /// `self ? then : otherwise`.
    pub fn select(self, then: impl Into<Expr>, otherwise: impl Into<Expr>) -> Expr {
        match self.as_bool() {
            Some(true) => then.into(),
            Some(false) => otherwise.into(),
            None => Expr::Select(Box::new(self), Box::new(then.into()), Box::new(otherwise.into())),
        }
    }

    /// Casts to `dtype`, which must differ from the expression's type; see [`Expr::Cast`].
    pub fn cast(self, dtype: DType) -> Expr {
        Expr::Cast(dtype, Box::new(self))
    }

    /// Reinterprets the bits as another type of the same size.
    pub fn bitcast(self, dtype: DType) -> Expr {
        Expr::Bitcast(dtype, Box::new(self))
    }

    /// Returns a vector of `lanes` copies of this scalar, or the scalar itself for one lane.
    pub fn splat(self, lanes: u8) -> Expr {
        if lanes == 1 { self } else { Expr::Splat(lanes, Box::new(self)) }
    }

    /// Returns a vector of scalars, or the scalar itself if there is one.
    pub fn vector(mut parts: Vec<Expr>) -> Expr {
        match parts.pop() {
            Some(part) if parts.is_empty() => part,
            last => Expr::Vector(parts.into_iter().chain(last).collect()),
        }
    }

    /// Returns the operands in order.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Expr::Literal(_) | Expr::Variable(_) | Expr::Builtin(_) => vec![],
            Expr::Load { index: a, .. } | Expr::LoadShared { index: a, .. } => vec![a],
            Expr::Unary(_, a) | Expr::Quotient(a, _) | Expr::Remainder(a, _) | Expr::Lane(a, _) => {
                vec![a]
            }
            Expr::Cast(_, a) | Expr::Bitcast(_, a) | Expr::Splat(_, a) => vec![a],
            Expr::Binary(_, a, b) => vec![a, b],
            Expr::Fma(a, b, c) | Expr::Select(a, b, c) => vec![a, b, c],
            Expr::Vector(parts) => parts.iter().collect(),
        }
    }

    /// Returns the first expression for which `wanted` holds: operands first, then the expression
    /// itself.
    pub fn find(&self, wanted: &mut impl FnMut(&Expr) -> bool) -> Option<&Expr> {
        let within = self.operands().into_iter().find_map(|operand| operand.find(wanted));
        within.or_else(|| wanted(self).then_some(self))
    }

    /// One lane of a vector.
    pub fn lane(self, lane: u8) -> Expr {
        match self {
            Expr::Splat(lanes, scalar) if lane < lanes => *scalar,
            Expr::Vector(mut parts) if (lane as usize) < parts.len() => {
                parts.swap_remove(lane as usize)
            }
            vector => Expr::Lane(Box::new(vector), lane),
        }
    }
}

/// Folds `a op b` for operations without special cases.
fn fold(op: BinaryOp, a: i32, b: i32) -> Option<Expr> {
    use BinaryOp::*;
    Some(match op {
        Add => a.wrapping_add(b).into(),
        Sub => a.wrapping_sub(b).into(),
        Mul => a.wrapping_mul(b).into(),
        Max => a.max(b).into(),
        Min => a.min(b).into(),
        Eq => (a == b).into(),
        Ne => (a != b).into(),
        Lt => (a < b).into(),
        Le => (a <= b).into(),
        Gt => (a > b).into(),
        Ge => (a >= b).into(),
        _ => return None,
    })
}
