//! Operators and elementwise functions, with the same typing rules for whole tensors and inside
//! contractions.

use tile_lang::builtin::{Builtin, BuiltinKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::{Constant, bits_of_float};
use super::expression::{Evaluator, Lowered, Spans, Target};
use super::target::no_tensor;
use super::value::Value;
use crate::dtype::DType;
use crate::scalar::{BinaryOp, UnaryOp};

impl<'p, T: Target> Evaluator<'p, T> {
    pub fn builtin(
        &mut self,
        function: Builtin,
        name: &str,
        arguments: Vec<Value<'p, T::Element>>,
        spans: &Spans,
    ) -> Lowered<Value<'p, T::Element>> {
        let span = spans.call;
        match (function.kind, arguments.as_slice()) {
            (BuiltinKind::CompileTime, _) => self.compile_time(function.name, &arguments, spans),
            (BuiltinKind::Tensor, _) => T::call(self, function, &arguments, spans),
            (BuiltinKind::Size, _) => {
                let constants =
                    arguments.iter().enumerate().map(|(number, argument)| match argument {
                        Value::Constant(constant) => Ok(*constant),
                        _ => Err(Diagnostic::error(
                            "E0207",
                            spans.argument(number),
                            format!("`{name}` takes sizes, not tensors"),
                        )),
                    });
                let constants = constants.collect::<Lowered<Vec<_>>>()?;
                size_function(name, &constants, span).map(Value::Constant)
            }
            (_, [condition, then, otherwise]) => {
                self.conditional(condition.clone(), then.clone(), otherwise.clone(), span)
            }
            (_, [operand, like]) if name == "as_type" => {
                let dtype = self.dtype(like, spans.argument(1))?;
                Ok(Value::Element(self.typed(operand.clone(), dtype, span)?))
            }
            (_, [operand, Value::Constant(Constant::Int(bits))]) if name.starts_with("as_") => {
                let (prefix, widths) = match name {
                    "as_int" => ("i", "8, 16, 32 or 64"),
                    "as_uint" => ("u", "8, 16, 32 or 64"),
                    "as_bfloat" => ("bf", "16"),
                    _ => ("f", "16, 32 or 64"),
                };
                let dtype = DType::parse(&format!("{prefix}{bits}")).ok_or_else(|| {
                    Diagnostic::error(
                        "E0208",
                        spans.argument(1),
                        format!("`{name}` makes {widths} bits, not {bits}"),
                    )
                })?;
                self.cast(operand.clone(), dtype, span)
            }
            (_, [operand]) => match (name, UnaryOp::parse(name)) {
                ("ident", _) => Ok(operand.clone()),
                ("as_bool", _) => self.cast(operand.clone(), DType::Bool, span),
                (_, Some(op)) => self.unary(op, operand.clone(), span),
                _ => Err(wrong_arguments(name, span)),
            },
            (_, [left, right]) => match BinaryOp::parse(name) {
                Some(op) => self.binary(op, left.clone(), right.clone(), span),
                None => Err(wrong_arguments(name, span)),
            },
            _ => Err(wrong_arguments(name, span)),
        }
    }

    /// Returns the element type that the value has as an element.
    pub fn dtype(&self, value: &Value<'p, T::Element>, span: Span) -> Lowered<DType> {
        match value {
            Value::Element(element) => Ok(self.target.dtype(*element)),
            Value::Constant(constant) => Ok(constant.scalar().dtype),
            other => Err(no_tensor(other, span)),
        }
    }

    /// Converts a value to an element of a type. A constant is rounded only once, to that type.
    pub fn typed(
        &mut self,
        value: Value<'p, T::Element>,
        dtype: DType,
        span: Span,
    ) -> Lowered<T::Element> {
        match value {
            Value::Element(element) if self.target.dtype(element) == dtype => Ok(element),
            Value::Element(element) => Ok(self.target.cast(element, dtype)),
            Value::Constant(constant) => Ok(self.target.constant(constant.cast(dtype))),
            other => Err(no_tensor(&other, span)),
        }
    }

    fn cast(
        &mut self,
        value: Value<'p, T::Element>,
        dtype: DType,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        Ok(match (value, dtype) {
            // A constant that is cast to the type of constants stays a constant.
            (Value::Constant(c), DType::Bool) => Value::Constant(Constant::Bool(c.is_true())),
            (Value::Constant(c), DType::I32) => Value::Constant(c.narrow(span)?),
            (Value::Constant(c), DType::F32) => {
                Value::Constant(Constant::Float(c.cast(dtype).to_f64()))
            }
            (value, _) => Value::Element(self.typed(value, dtype, span)?),
        })
    }

    pub fn unary(
        &mut self,
        op: UnaryOp,
        operand: Value<'p, T::Element>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        if let Value::Constant(constant) = operand {
            return constant.unary(op, span).map(Value::Constant);
        }
        let operand = self.target.element(operand, span)?;
        op.result(self.target.dtype(operand)).map_err(|_| bits_of_float(span))?;
        Ok(Value::Element(self.target.unary(op, operand)))
    }

    pub fn binary(
        &mut self,
        op: BinaryOp,
        left: Value<'p, T::Element>,
        right: Value<'p, T::Element>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        match (&left, &right) {
            (Value::Constant(left), Value::Constant(right)) => {
                return left.binary(op, *right, span).map(Value::Constant);
            }
            (Value::Element(_) | Value::Constant(_), Value::Element(_) | Value::Constant(_)) => {}
            _ if matches!(op, BinaryOp::Eq | BinaryOp::Ne) => {
                self.spend(left.size().min(right.size()) / 4, span)?;
                return Ok(Value::bool((left == right) == (op == BinaryOp::Eq)));
            }
            (Value::List(left), Value::List(right)) if op == BinaryOp::Add => {
                return self.list([&**left, &**right].concat(), span);
            }
            (Value::Symbol(left), Value::Symbol(_) | Value::Constant(Constant::Int(_)))
                if op == BinaryOp::Add =>
            {
                let text = format!("{left}{right}");
                self.budget.take_bytes(text.len() as u64).map_err(|exceeded| exceeded.at(span))?;
                return Ok(Value::Symbol(text.into()));
            }
            _ => {}
        }
        let dtype = self.dtype(&left, span)?.meet(self.dtype(&right, span)?);
        op.result(dtype, dtype).map_err(|_| bits_of_float(span))?;
        let operands = [self.typed(left, dtype, span)?, self.typed(right, dtype, span)?];
        self.target.binary(op, operands, span).map(Value::Element)
    }

    /// Evaluates `condition ? then : otherwise` in the common type of `then` and `otherwise`.
    pub fn conditional(
        &mut self,
        condition: Value<'p, T::Element>,
        then: Value<'p, T::Element>,
        otherwise: Value<'p, T::Element>,
        span: Span,
    ) -> Lowered<Value<'p, T::Element>> {
        if let (Value::Constant(condition), Value::Constant(then), Value::Constant(otherwise)) =
            (&condition, &then, &otherwise)
        {
            let chosen = if condition.is_true() { *then } else { *otherwise };
            return Ok(Value::Constant(match (chosen, then, otherwise) {
                (Constant::Int(value), Constant::Float(_), _)
                | (Constant::Int(value), _, Constant::Float(_)) => Constant::Float(value as f64),
                _ => chosen,
            }));
        }
        let dtype = self.dtype(&then, span)?.meet(self.dtype(&otherwise, span)?);
        let condition = self.typed(condition, DType::Bool, span)?;
        let operands =
            [condition, self.typed(then, dtype, span)?, self.typed(otherwise, dtype, span)?];
        self.target.select(operands, span).map(Value::Element)
    }
}

fn wrong_arguments(name: &str, span: Span) -> Diagnostic {
    Diagnostic::error("E0208", span, format!("`{name}` does not take these arguments"))
}

/// Evaluates a function on sizes: `mod`, `broadcast`, `match` or `assert_NAME`.
fn size_function(name: &str, arguments: &[Constant], span: Span) -> Lowered<Constant> {
    match (name, arguments) {
        ("mod", [Constant::Int(_), Constant::Int(0)]) => {
            Err(Diagnostic::error("E0203", span, "this takes the remainder of a division by zero"))
        }
        // The remainder has the sign of the dividend, to match truncating division.
        ("mod", [Constant::Int(a), Constant::Int(b)]) => {
            Ok(Constant::Int(a.checked_rem(*b).unwrap_or(0)))
        }
        ("broadcast", [a, b]) if a == b || *b == Constant::Int(1) => Ok(*a),
        ("broadcast", [Constant::Int(1), b]) => Ok(*b),
        ("match", [a, b]) if a == b => Ok(*a),
        ("broadcast" | "match", [Constant::Int(a), Constant::Int(b)]) => {
            Err(Diagnostic::error("E0210", span, format!("the sizes {a} and {b} differ")))
        }
        (_, [condition]) => match name.strip_prefix("assert_") {
            Some(_) if condition.is_true() => Ok(*condition),
            Some(what) => Err(Diagnostic::error(
                "E0211",
                span,
                format!("the assertion `{what}` does not hold"),
            )),
            None => Err(wrong_arguments(name, span)),
        },
        _ => Err(wrong_arguments(name, span)),
    }
}
