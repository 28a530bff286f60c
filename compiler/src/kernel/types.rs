//! The types of expressions, and the operations that shaders support.

use super::{Access, Builtin, Expr, Invalid, Kernel, Type};
use crate::dtype::DType;
use crate::scalar::{BinaryOp, UnaryOp};

/// Returns whether kernels may apply `op` to elements of `dtype`: every shading language with the
/// type has a direct equivalent. Other operations are legalised before (see [`crate::schedule`]).
pub fn is_native_unary(op: UnaryOp, dtype: DType) -> bool {
    use UnaryOp::*;
    match op {
        Neg | Abs => dtype.is_signed_integer() || dtype.is_float(),
        BitNot => !dtype.is_float(),
        Ceil | Floor | Recip | Rint | Rsqrt | Sqrt => dtype.is_float(),
        Acos | Acosh | Asin | Asinh | Atan | Atanh | Cos | Cosh | Exp | Log | Sin | Sinh | Tan
        | Tanh => {
            matches!(dtype, DType::F16 | DType::F32)
        }
        // Shaders have no error function, no sigmoid and no such logarithm, and their `round`
        // rounds halves to even.
        Erf | Log1p | Round | Sigmoid => false,
    }
}

/// Returns whether kernels may apply `op` to elements of `dtype`; see [`is_native_unary`].
pub fn is_native_binary(op: BinaryOp, dtype: DType) -> bool {
    use BinaryOp::*;
    match op {
        Add | Sub | Mul | Div | Max | Min | Lt | Le | Gt | Ge => dtype != DType::Bool,
        Pow => matches!(dtype, DType::F16 | DType::F32),
        Eq | Ne => true,
        BitAnd | BitOr | BitXor => !dtype.is_float(),
        ShiftLeft | ShiftRight => dtype.is_integer(),
        // Shaders compute the remainder from a rounded quotient.
        Rem => false,
    }
}

/// Returns whether subgroups can combine values of `dtype` by `op`.
pub(super) fn is_collective(op: BinaryOp, dtype: DType) -> bool {
    use BinaryOp::*;
    matches!(op, Add | Mul | Max | Min)
        && matches!(dtype, DType::I32 | DType::U32 | DType::F16 | DType::F32)
}

/// Returns whether kernels support the type.
pub(super) fn is_native(dtype: DType) -> bool {
    !matches!(dtype, DType::I8 | DType::I16 | DType::U8 | DType::U16 | DType::BF16)
}

impl Kernel {
    /// Returns the type of an expression, and checks its operands but not the scopes of variables.
    pub fn ty(&self, expr: &Expr) -> Result<Type, Invalid> {
        self.type_of(expr).map_err(|message| self.invalid(message))
    }

    /// Returns the type as [`Kernel::ty`] does, with the error as a plain sentence.
    pub(super) fn type_of(&self, expr: &Expr) -> Result<Type, String> {
        match expr {
            Expr::Literal(scalar) => self.native(scalar.dtype),
            Expr::Variable(id) => match self.variables.get(*id) {
                Some(variable) => Ok(variable.ty),
                None => Err(format!("there is no variable number {id}")),
            },
            Expr::Builtin(builtin) => self.builtin(*builtin),
            Expr::Load { buffer, index } => self.loaded(*buffer, index),
            Expr::LoadShared { shared, index } => {
                self.index(index)?;
                let array = self.shared.get(*shared).map(|array| array.ty);
                array.ok_or_else(|| format!("there is no workgroup array number {shared}"))
            }
            Expr::Unary(op, a) => {
                let ty = self.type_of(a)?;
                match is_native_unary(*op, ty.dtype) {
                    true => Ok(ty),
                    false => Err(format!("shaders have no `{}` of {}", op.name(), ty.dtype)),
                }
            }
            Expr::Binary(op, a, b) => {
                let ty = self.same(op.name(), a, b)?;
                match is_native_binary(*op, ty.dtype) {
                    true if op.is_comparison() => Ok(Type { dtype: DType::Bool, ..ty }),
                    true => Ok(ty),
                    false => Err(format!("shaders have no `{}` of {}", op.name(), ty.dtype)),
                }
            }
            Expr::Fma(a, b, c) => self.fma(a, b, c),
            Expr::Quotient(x, divisor) | Expr::Remainder(x, divisor) => {
                self.index(x)?;
                match divisor {
                    1..=0x7fff_ffff => Ok(Type::I32),
                    _ => Err(format!("the divisor {divisor} is not in 1..2^31")),
                }
            }
            Expr::Select(condition, then, otherwise) => self.select(condition, then, otherwise),
            Expr::Cast(dtype, a) => {
                self.native(*dtype)?;
                Ok(Type { dtype: *dtype, ..self.type_of(a)? })
            }
            Expr::Bitcast(dtype, a) => self.bitcast(*dtype, a),
            Expr::Splat(lanes, a) => self.vector(*lanes as usize, self.type_of(a)?),
            Expr::Vector(parts) => {
                let first = parts.first().ok_or("a vector has no parts")?;
                for part in &parts[1..] {
                    self.same("vector", first, part)?;
                }
                self.vector(parts.len(), self.type_of(first)?)
            }
            Expr::Lane(a, lane) => {
                let ty = self.type_of(a)?;
                match ty.lanes > 1 && *lane < ty.lanes {
                    true => Ok(Type::scalar(ty.dtype)),
                    false => Err(format!("{ty} has no lane {lane}")),
                }
            }
        }
    }

    fn builtin(&self, builtin: Builtin) -> Result<Type, String> {
        match builtin {
            Builtin::WorkgroupId(axis) | Builtin::LocalId(axis) => match axis {
                0..3 => Ok(Type::I32),
                _ => Err(format!("a launch has no axis {axis}")),
            },
            Builtin::Subgroup | Builtin::SubgroupLane | Builtin::Subgroups => {
                match self.workgroup {
                    [_, 1, 1] => Ok(Type::I32),
                    _ => Err("subgroups are counted in workgroups of one dimension alone".into()),
                }
            }
            Builtin::Step(number) if number < self.steps.len() => Ok(Type::I32),
            Builtin::Step(number) => Err(format!("there is no step number {number}")),
        }
    }

    fn loaded(&self, buffer: usize, index: &Expr) -> Result<Type, String> {
        self.index(index)?;
        match self.buffers.get(buffer) {
            Some(b) if b.access != Access::Write => Ok(b.ty),
            Some(b) => Err(format!("`{}` is written, so it can't be read", b.name)),
            None => Err(format!("there is no buffer number {buffer}")),
        }
    }

    fn fma(&self, a: &Expr, b: &Expr, c: &Expr) -> Result<Type, String> {
        let ty = self.same("fma", a, b)?;
        self.same("fma", a, c)?;
        match ty.dtype.is_float() {
            true => Ok(ty),
            false => Err(format!("`fma` wants floats, not {ty}")),
        }
    }

    fn select(&self, condition: &Expr, then: &Expr, otherwise: &Expr) -> Result<Type, String> {
        let (condition, ty) = (self.type_of(condition)?, self.same("select", then, otherwise)?);
        match condition == Type::vector(DType::Bool, ty.lanes) {
            true => Ok(ty),
            false => Err(format!("`select` of {ty} has a condition of {condition}")),
        }
    }

    fn bitcast(&self, dtype: DType, a: &Expr) -> Result<Type, String> {
        self.native(dtype)?;
        let ty = self.type_of(a)?;
        match ty.dtype.bits() == dtype.bits() && dtype != DType::Bool {
            true => Ok(Type { dtype, ..ty }),
            false => Err(format!("the bits of {ty} are not those of {dtype}")),
        }
    }

    fn native(&self, dtype: DType) -> Result<Type, String> {
        match is_native(dtype) {
            true => Ok(Type::scalar(dtype)),
            false => Err(format!("shaders have no {dtype}")),
        }
    }

    fn index(&self, index: &Expr) -> Result<(), String> {
        match self.type_of(index)? {
            Type::I32 => Ok(()),
            ty => Err(format!("an index is i32, not {ty}")),
        }
    }

    fn same(&self, what: &str, a: &Expr, b: &Expr) -> Result<Type, String> {
        let (a, b) = (self.type_of(a)?, self.type_of(b)?);
        match a == b {
            true => Ok(a),
            false => Err(format!("`{what}` of {a} and {b}")),
        }
    }

    fn vector(&self, lanes: usize, part: Type) -> Result<Type, String> {
        match (lanes, part.lanes) {
            (2, 1) | (4, 1) => Ok(Type::vector(part.dtype, lanes as u8)),
            _ => Err(format!("there is no vector of {lanes} {part}")),
        }
    }
}

impl Type {
    /// Reads a type as it prints: `f32`, `f32x4`.
    pub fn parse(text: &str) -> Option<Type> {
        let lanes = [("x2", 2), ("x4", 4)];
        let (dtype, lanes) = lanes
            .iter()
            .find_map(|(end, n)| Some((text.strip_suffix(end)?, *n)))
            .unwrap_or((text, 1));
        Some(Type { dtype: DType::parse(dtype)?, lanes })
    }
}
