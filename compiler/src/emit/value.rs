//! Translates expressions of kernels to naga. Each is evaluated at the current statement.

use naga::{
    BinaryOperator as B, Expression, Handle, Literal, MathFunction as M, Range, Span, Statement,
    UnaryOperator,
};

use super::EmitError;
use super::module::{Emitter, Variable, scalar, size};
use crate::dtype::{DType, Scalar};
use crate::kernel::{Expr, Type};
use crate::scalar::{BinaryOp, UnaryOp};

type Value = Handle<Expression>;

impl Emitter<'_> {
    /// Adds an expression that is evaluated here.
    pub fn emit(&mut self, expression: Expression) -> Value {
        let value = self.function.expressions.append(expression, Span::UNDEFINED);
        // One statement evaluates a run of consecutive expressions.
        if let Some(Statement::Emit(range)) = self.block.last_mut()
            && let Some((first, last)) = range.first_and_last()
            && last.index() + 1 == value.index()
        {
            *range = Range::new_from_bounds(first, value);
        } else {
            self.push(Statement::Emit(Range::new_from_bounds(value, value)));
        }
        value
    }

    pub fn value(&mut self, expr: &Expr) -> Result<Value, EmitError> {
        Ok(match expr {
            Expr::Literal(scalar) => self.literal(*scalar),
            Expr::Builtin(_) | Expr::Quotient(..) | Expr::Remainder(..) => self.signed(expr)?,
            Expr::Binary(..) if self.is_index(expr) => self.signed(expr)?,
            Expr::Variable(id) => match self.variables.get(id).copied() {
                Some(Variable::Value(value)) => value,
                Some(Variable::Index(value)) => self.cast(value, DType::I32),
                Some(Variable::Local(pointer)) => self.emit(Expression::Load { pointer }),
                None => {
                    return Err(EmitError::new(
                        self.kernel,
                        format!("variable number {id} is not declared"),
                    ));
                }
            },
            Expr::Load { buffer, index } => self.load(self.buffers[*buffer], index)?,
            Expr::LoadShared { shared, index } => self.load(self.shared[*shared], index)?,
            Expr::Unary(op, a) => self.unary(*op, a)?,
            Expr::Binary(op, a, b) => self.binary(*op, a, b)?,
            Expr::Fma(a, b, c) => {
                let (arg, arg1, arg2) =
                    (self.value(a)?, Some(self.value(b)?), Some(self.value(c)?));
                self.emit(Expression::Math { fun: M::Fma, arg, arg1, arg2, arg3: None })
            }
            Expr::Select(condition, then, otherwise) => self.select(condition, then, otherwise)?,
            Expr::Cast(DType::U32, a) if self.is_index(a) => self.unsigned(a)?,
            Expr::Cast(dtype, a) => {
                let value = self.value(a)?;
                let from = self.type_of(a)?;
                let widened = from.dtype.is_integer() && from.dtype.size() < 8;
                if widened && matches!(dtype, DType::I64 | DType::U64) {
                    self.widen(value, from, *dtype)
                } else {
                    self.cast(value, *dtype)
                }
            }
            Expr::Bitcast(dtype, a) => {
                let expr = self.value(a)?;
                self.emit(Expression::As { expr, kind: scalar(*dtype).kind, convert: None })
            }
            Expr::Splat(lanes, a) => {
                let value = self.value(a)?;
                self.splat(value, *lanes)
            }
            Expr::Vector(parts) => {
                let ty = self.type_of(expr)?;
                let ty = self.ty(ty);
                let components =
                    parts.iter().map(|part| self.value(part)).collect::<Result<_, _>>()?;
                self.emit(Expression::Compose { ty, components })
            }
            Expr::Lane(a, lane) => {
                let base = self.value(a)?;
                self.emit(Expression::AccessIndex { base, index: *lane as u32 })
            }
        })
    }

    /// Emits a select. If one side is infinity or NaN, it selects between bits: compilers that
    /// assume finite floats would always take the other side. Those with f64 do not.
    fn select(
        &mut self,
        condition: &Expr,
        then: &Expr,
        otherwise: &Expr,
    ) -> Result<Value, EmitError> {
        let ty = self.type_of(then)?;
        let is_short = ty.dtype.is_float() && ty.dtype != DType::F64;
        if !is_short || !(is_not_finite(then) || is_not_finite(otherwise)) {
            let (accept, reject) = (self.value(then)?, self.value(otherwise)?);
            let condition = self.value(condition)?;
            return Ok(self.emit(Expression::Select { condition, accept, reject }));
        }
        let (accept, reject) = (self.bits(then)?, self.bits(otherwise)?);
        let condition = self.value(condition)?;
        let expr = self.emit(Expression::Select { condition, accept, reject });
        let value =
            self.emit(Expression::As { expr, kind: naga::ScalarKind::Float, convert: None });
        Ok(if ty.dtype == DType::F32 { value } else { self.cast(value, ty.dtype) })
    }

    /// Returns the bits of a float after conversion to f32.
    fn bits(&mut self, expr: &Expr) -> Result<Value, EmitError> {
        if let Some(constant) = constant(expr) {
            let lanes = self.type_of(expr)?.lanes;
            let bits =
                self.literal(Scalar::from_bits(DType::U32, constant.cast(DType::F32).bits()));
            return Ok(self.splat(bits, lanes));
        }
        let value = self.value(expr)?;
        let value = if self.type_of(expr)?.dtype == DType::F32 {
            value
        } else {
            self.cast(value, DType::F32)
        };
        Ok(self.emit(Expression::As { expr: value, kind: naga::ScalarKind::Uint, convert: None }))
    }

    fn type_of(&self, expr: &Expr) -> Result<Type, EmitError> {
        self.kernel.ty(expr).map_err(|invalid| EmitError::new(self.kernel, invalid.message))
    }

    fn load(&mut self, array: Value, index: &Expr) -> Result<Value, EmitError> {
        let pointer = self.element(array, index)?;
        Ok(self.emit(Expression::Load { pointer }))
    }

    /// Returns the pointer to an element of an array.
    pub fn element(&mut self, base: Value, index: &Expr) -> Result<Value, EmitError> {
        let constant = index.as_i32().and_then(|index| u32::try_from(index).ok());
        let access = match constant {
            Some(index) => Expression::AccessIndex { base, index },
            None if matches!(index, Expr::Binary(..)) || self.is_index(index) => {
                Expression::Access { base, index: self.unsigned(index)? }
            }
            None => Expression::Access { base, index: self.value(index)? },
        };
        Ok(self.emit(access))
    }

    fn unary(&mut self, op: UnaryOp, a: &Expr) -> Result<Value, EmitError> {
        let value = self.value(a)?;
        let fun = match op {
            UnaryOp::Neg => {
                return Ok(self.emit(Expression::Unary { op: UnaryOperator::Negate, expr: value }));
            }
            UnaryOp::BitNot => {
                let ty = self.type_of(a)?;
                if ty.dtype == DType::Bool && ty.lanes > 1 {
                    // Not every MSL compiler supports `!` on vectors.
                    let no = self.literal(Scalar::bool(false));
                    let right = self.splat(no, ty.lanes);
                    return Ok(self.emit(Expression::Binary { op: B::Equal, left: value, right }));
                }
                let op = if ty.dtype == DType::Bool {
                    UnaryOperator::LogicalNot
                } else {
                    UnaryOperator::BitwiseNot
                };
                return Ok(self.emit(Expression::Unary { op, expr: value }));
            }
            UnaryOp::Recip => {
                let ty = self.type_of(a)?;
                let one = self.literal(Scalar::one(ty.dtype));
                let left = self.splat(one, ty.lanes);
                return Ok(self.emit(Expression::Binary { op: B::Divide, left, right: value }));
            }
            UnaryOp::Abs => M::Abs,
            UnaryOp::Acos => M::Acos,
            UnaryOp::Acosh => M::Acosh,
            UnaryOp::Asin => M::Asin,
            UnaryOp::Asinh => M::Asinh,
            UnaryOp::Atan => M::Atan,
            UnaryOp::Atanh => M::Atanh,
            UnaryOp::Ceil => M::Ceil,
            UnaryOp::Cos => M::Cos,
            UnaryOp::Cosh => M::Cosh,
            UnaryOp::Exp => M::Exp,
            UnaryOp::Floor => M::Floor,
            UnaryOp::Log => M::Log,
            // Halves go to the even neighbour in every shading language.
            UnaryOp::Rint => M::Round,
            UnaryOp::Rsqrt => M::InverseSqrt,
            UnaryOp::Sin => M::Sin,
            UnaryOp::Sinh => M::Sinh,
            UnaryOp::Sqrt => M::Sqrt,
            UnaryOp::Tan => M::Tan,
            UnaryOp::Tanh => M::Tanh,
            UnaryOp::Erf | UnaryOp::Log1p | UnaryOp::Round | UnaryOp::Sigmoid => {
                return Err(EmitError::new(
                    self.kernel,
                    format!("shaders have no `{}`", op.name()),
                ));
            }
        };
        Ok(self.emit(Expression::Math { fun, arg: value, arg1: None, arg2: None, arg3: None }))
    }

    fn binary(&mut self, op: BinaryOp, a: &Expr, b: &Expr) -> Result<Value, EmitError> {
        let left = self.value(a)?;
        let right = match (op, b) {
            // naga requires u32 shift counts.
            (BinaryOp::ShiftLeft | BinaryOp::ShiftRight, Expr::Literal(count)) => {
                self.literal(count.cast(DType::U32))
            }
            (BinaryOp::ShiftLeft | BinaryOp::ShiftRight, _) => {
                let count = self.value(b)?;
                self.cast(count, DType::U32)
            }
            _ => self.value(b)?,
        };
        let math =
            |fun| Expression::Math { fun, arg: left, arg1: Some(right), arg2: None, arg3: None };
        let op = match op {
            BinaryOp::Max => return Ok(self.emit(math(M::Max))),
            BinaryOp::Min => return Ok(self.emit(math(M::Min))),
            BinaryOp::Pow => return Ok(self.emit(math(M::Pow))),
            BinaryOp::Rem => {
                return Err(EmitError::new(
                    self.kernel,
                    format!("shaders have no `{}`", op.name()),
                ));
            }
            BinaryOp::ShiftLeft => B::ShiftLeft,
            BinaryOp::ShiftRight => B::ShiftRight,
            BinaryOp::Add => B::Add,
            BinaryOp::Sub => B::Subtract,
            BinaryOp::Mul => B::Multiply,
            BinaryOp::Div => B::Divide,
            BinaryOp::Eq => B::Equal,
            BinaryOp::Ne => B::NotEqual,
            BinaryOp::Lt => B::Less,
            BinaryOp::Le => B::LessEqual,
            BinaryOp::Gt => B::Greater,
            BinaryOp::Ge => B::GreaterEqual,
            BinaryOp::BitAnd => B::And,
            BinaryOp::BitOr => B::InclusiveOr,
            // naga has no exclusive or for bool.
            BinaryOp::BitXor if self.type_of(a)?.dtype == DType::Bool => B::NotEqual,
            BinaryOp::BitXor => B::ExclusiveOr,
        };
        Ok(self.emit(Expression::Binary { op, left, right }))
    }

    /// Emits index arithmetic and converts it to i32.
    fn signed(&mut self, expr: &Expr) -> Result<Value, EmitError> {
        let value = self.unsigned(expr)?;
        Ok(self.cast(value, DType::I32))
    }

    pub fn cast(&mut self, expr: Value, dtype: DType) -> Value {
        // Registers the type in the module, where writers look for types to enable.
        self.ty(Type::scalar(dtype));
        let naga::Scalar { kind, width } = scalar(dtype);
        self.emit(Expression::As { expr, kind, convert: Some(width) })
    }

    /// Widens a 32-bit integer to 64 bits, with two workarounds:
    /// - naga's SPIR-V writer extends the sign if the result is signed, whatever the operand is.
    ///   Unsigned operands therefore go through u64.
    /// - Mesa 22.3 compares a sign-extended integer with a constant as if both were unsigned.
    ///   Signed operands are therefore raised by 2^31 before widening, and lowered again after it.
    fn widen(&mut self, value: Value, from: Type, dtype: DType) -> Value {
        if !from.dtype.is_signed_integer() {
            let wide = self.cast(value, DType::U64);
            return self.cast(wide, dtype);
        }
        let bits = self.cast(value, DType::U32);
        let sign = self.literal(Scalar::from_bits(DType::U32, 1 << 31));
        let right = self.splat(sign, from.lanes);
        let moved = self.emit(Expression::Binary { op: B::ExclusiveOr, left: bits, right });
        let wide = self.cast(moved, DType::U64);
        let left = self.cast(wide, dtype);
        let distance = self.literal(Scalar::from_i64(dtype, 1 << 31));
        let right = self.splat(distance, from.lanes);
        self.emit(Expression::Binary { op: B::Subtract, left, right })
    }

    fn splat(&mut self, value: Value, lanes: u8) -> Value {
        match size(lanes) {
            Some(size) => self.emit(Expression::Splat { size, value }),
            None => value,
        }
    }

    pub fn literal(&mut self, value: Scalar) -> Value {
        if value.dtype.is_float() && !has_decimals(value) {
            return self.by_bits(value);
        }
        if let Some(known) = self.literals.get(&value) {
            return *known;
        }
        self.ty(Type::scalar(value.dtype));
        let literal = match value.dtype {
            DType::Bool => Literal::Bool(value.is_true()),
            DType::I32 | DType::I8 | DType::I16 => Literal::I32(value.to_i64() as i32),
            DType::U32 | DType::U8 | DType::U16 => Literal::U32(value.bits() as u32),
            DType::I64 => Literal::I64(value.to_i64()),
            DType::U64 => Literal::U64(value.bits()),
            DType::F16 => Literal::F16(half::f16::from_bits(value.bits() as u16)),
            DType::F32 | DType::BF16 => Literal::F32(value.to_f64() as f32),
            DType::F64 => Literal::F64(value.to_f64()),
        };
        let handle =
            self.function.expressions.append(Expression::Literal(literal), Span::UNDEFINED);
        self.literals.insert(value, handle);
        handle
    }

    /// Returns a float whose bits, as f32, come from a variable. No shading language has literals
    /// for infinity and NaN, and WGSL rejects constant expressions with these values.
    fn by_bits(&mut self, value: Scalar) -> Value {
        let pointer = match self.literals.get(&value) {
            Some(pointer) => *pointer,
            None => {
                let bits =
                    self.literal(Scalar::from_bits(DType::U32, value.cast(DType::F32).bits()));
                let pointer = self.local("bits", Type::scalar(DType::U32), Some(bits));
                self.literals.insert(value, pointer);
                pointer
            }
        };
        let expr = self.emit(Expression::Load { pointer });
        let value_f32 =
            self.emit(Expression::As { expr, kind: naga::ScalarKind::Float, convert: None });
        if value.dtype == DType::F32 { value_f32 } else { self.cast(value_f32, value.dtype) }
    }
}

/// Returns the value of a constant, or of a splat of one.
fn constant(expr: &Expr) -> Option<Scalar> {
    match expr {
        Expr::Literal(scalar) => Some(*scalar),
        Expr::Splat(_, scalar) => constant(scalar),
        _ => None,
    }
}

fn is_not_finite(expr: &Expr) -> bool {
    constant(expr).is_some_and(|scalar| !scalar.to_f64().is_finite())
}

/// Returns whether every shading language accepts naga's decimals for a float. For the greatest
/// f32, they round up to a number that browsers reject.
fn has_decimals(value: Scalar) -> bool {
    let value = value.to_f64();
    value.is_finite() && (value as f32).abs() != f32::MAX
}
