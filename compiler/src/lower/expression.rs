//! Operators and elementwise functions, with the same typing rules for whole tensors and inside
//! contractions.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tile_lang::ast::{self, Expr, ExprKind, Ident};
use tile_lang::builtin::{Builtin, BuiltinKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Budget, Program};

use super::constant::{Constant, bits_of_float};
use super::frame::Frame;
use super::network::Role;
use super::scope::Scope;
use super::value::{Callable, Instance, Renewal, Value};
use crate::dtype::{DType, Scalar};
use crate::graph::Origin;
use crate::scalar::{BinaryOp, UnaryOp};

/// The result of lowering, or the first error.
pub type Lowered<T> = Result<T, Diagnostic>;

/// The destination of elementwise operations: nodes of the graph, or instructions of a
/// contraction's body. Operands are already cast to the types that the operations take.
pub(super) trait Target: Sized {
    type Element: Copy + PartialEq;

    fn dtype(&self, element: Self::Element) -> DType;
    fn shape(&self, element: Self::Element) -> Vec<usize>;
    fn constant(&mut self, scalar: Scalar) -> Self::Element;
    fn unary(&mut self, op: UnaryOp, operand: Self::Element) -> Self::Element;
    fn cast(&mut self, operand: Self::Element, dtype: DType) -> Self::Element;
    fn binary(&mut self, op: BinaryOp, operands: [Self::Element; 2], span: Span) -> Lowered<Self::Element>;
    /// Adds `operands[0] ? operands[1] : operands[2]`.
    fn select(&mut self, operands: [Self::Element; 3], span: Span) -> Lowered<Self::Element>;

    /// Evaluates `tensor[indices]`.
    fn access<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, Self::Element>,
        tensor: &Ident,
        indices: &'p [Expr],
        span: Span,
    ) -> Lowered<Value<'p, Self::Element>>;
    /// Resolves a name that the scope does not have.
    fn outer<'p>(&mut self, name: &Ident) -> Lowered<Value<'p, Self::Element>>;
    /// Calls a builtin function on whole tensors.
    fn call<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        function: Builtin,
        arguments: &[Value<'p, Self::Element>],
        spans: &Spans,
    ) -> Lowered<Value<'p, Self::Element>>;
    /// Lowers a contraction statement.
    fn contraction<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, Self::Element>,
        contraction: &'p ast::Contraction,
    ) -> Lowered<Value<'p, Self::Element>>;
    /// Lowers a `param` or `state` statement.
    fn weight<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &mut Scope<'p, Self::Element>,
        weight: &'p ast::Weight,
    ) -> Lowered<()>;
    /// Lowers `update target = value;`.
    fn update<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, Self::Element>,
        target: &Ident,
        value: Value<'p, Self::Element>,
    ) -> Lowered<()>;
    /// Lowers a run-time loop.
    fn scan<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &mut Scope<'p, Self::Element>,
        sequences: &'p [ast::Sequence],
        body: &'p [ast::Statement],
        span: Span,
    ) -> Lowered<()>;
    /// Returns the budget of the compilation.
    fn budget(&self) -> Budget;
    /// Records a layer that the entry itself has applied.
    fn applied(&mut self, path: String, class: &str, outputs: Vec<Self::Element>);
    /// Labels the elements made from here on with the statement `target = …` at `span`.
    fn begin(&mut self, target: &Ident, span: Span);
    /// Labels the elements made from here on with a function, and with the path of the layer around
    /// it. Returns the previous label for [`Target::leave`].
    fn enter(&mut self, function: &str, path: &str) -> Label;
    fn leave(&mut self, label: Label);

    /// Returns the path of the weight whose current or next value this element is.
    fn path(&self, _: Self::Element) -> Option<String> {
        None
    }

    /// Returns the next value of a weight, if one has been set so far.
    fn next(&self, _: &str) -> Option<Self::Element> {
        None
    }

    /// Converts a value to an element.
    fn element(&mut self, value: Value<'_, Self::Element>, span: Span) -> Lowered<Self::Element> {
        match value {
            Value::Element(element) => Ok(element),
            Value::Constant(constant) => Ok(self.constant(constant.scalar())),
            other => Err(no_tensor(&other, span)),
        }
    }
}

/// A label of new nodes, for people who read the graph.
#[derive(Clone, Default)]
pub(super) struct Label {
    /// The name and source location of a value.
    pub value: Option<(String, Span)>,
    pub origin: Option<Arc<Origin>>,
}

/// The source locations of a call and of its arguments.
pub(super) struct Spans {
    pub call: Span,
    pub arguments: Vec<Span>,
}

impl Spans {
    pub fn argument(&self, number: usize) -> Span {
        self.arguments.get(number).copied().unwrap_or(self.call)
    }
}

/// A name and the value that `yield` gives it.
pub(super) type Yielded<'p, E> = (&'p Ident, Value<'p, E>);

/// An evaluator of expressions and functions, which emits into a target.
pub(super) struct Evaluator<'p, T: Target> {
    pub program: &'p Program,
    pub target: T,
    /// The nesting depth of the current expression, callers included.
    pub depth: u32,
    /// The budget of the compilation.
    pub budget: Budget,
    /// The value of `training`.
    pub training: bool,
    /// Whether `update` statements take effect.
    pub updates: bool,
    /// The paths of frozen layers and weights.
    pub frozen: Rc<[String]>,
    /// Whether regularizers and `with_loss` add to the penalty.
    pub penalises: bool,
    /// The entry and the layers that are being applied, outermost first.
    pub frames: Vec<Frame>,
    /// The number of random tensors that each layer has made, by its path.
    pub drawn: HashMap<String, u32>,
    /// The renewals of the layers that are being applied, each with a flag that is set once a
    /// weight has matched it.
    pub renewals: Vec<Vec<(Renewal<'p, T::Element>, bool)>>,
    /// The owner of the weights that are made now.
    pub role: Role,
    /// The constraints of weights, by path.
    pub constraints: Vec<(String, Callable<'p, T::Element>)>,
    /// The path of the layer whose `adapt` block runs.
    pub adapting: Option<&'p str>,
    /// The paths of the layers with an `adapt` block that have been applied so far.
    pub adapts: Vec<String>,
    /// The values yielded so far in the current step, for each enclosing `scan`.
    pub yields: Vec<Vec<Yielded<'p, T::Element>>>,
}

/// The deepest nesting of expressions through calls. A stack of 2 MiB suffices for it.
const MAX_DEPTH: u32 = 600;

/// Returns whether `path` is one of `wholes` or lies below one of them.
pub(super) fn is_part_of(path: &str, wholes: &[String]) -> bool {
    wholes
        .iter()
        .any(|whole| path.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])))
}

impl<'p, T: Target> Evaluator<'p, T> {
    pub fn new(program: &'p Program, target: T, training: bool) -> Self {
        Self {
            program,
            budget: target.budget(),
            target,
            depth: 0,
            training,
            updates: training,
            frozen: Rc::default(),
            penalises: training,
            frames: vec![Frame::default()],
            drawn: HashMap::new(),
            renewals: Vec::new(),
            role: Role::Model,
            constraints: Vec::new(),
            adapting: None,
            adapts: Vec::new(),
            yields: Vec::new(),
        }
    }

    /// Spends units of work that is about to be done at `span`.
    pub fn spend(&self, units: usize, span: Span) -> Lowered<()> {
        self.budget.spend(units as u64).map_err(|exceeded| exceeded.at(span))
    }

    /// Runs `work` with an evaluator for another target, then returns that target and the result.
    pub fn within<U: Target, R>(
        &mut self,
        target: U,
        work: impl FnOnce(&mut Evaluator<'p, U>) -> Lowered<R>,
    ) -> Lowered<(U, R)> {
        let mut inside = Evaluator {
            depth: self.depth,
            updates: self.updates,
            frozen: self.frozen.clone(),
            penalises: self.penalises,
            frames: std::mem::take(&mut self.frames),
            drawn: std::mem::take(&mut self.drawn),
            ..Evaluator::new(self.program, target, self.training)
        };
        let result = work(&mut inside);
        (self.frames, self.drawn) = (inside.frames, inside.drawn);
        Ok((inside.target, result?))
    }

    /// Returns whether the layer that is being applied is frozen.
    pub fn is_frozen(&self) -> bool {
        self.frames.last().is_some_and(|frame| is_part_of(&frame.path, &self.frozen))
    }

    pub fn expression(&mut self, scope: &Scope<'p, T::Element>, expr: &'p Expr) -> Lowered<Value<'p, T::Element>> {
        if self.depth == MAX_DEPTH {
            let message = format!("calls and expressions are nested more than {MAX_DEPTH} levels deep here");
            return Err(Diagnostic::error("E0205", expr.span, message));
        }
        self.spend(1, expr.span)?;
        self.depth += 1;
        let value = self.nested(scope, expr);
        self.depth -= 1;
        value
    }

    fn nested(&mut self, scope: &Scope<'p, T::Element>, expr: &'p Expr) -> Lowered<Value<'p, T::Element>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(value) => Ok(Value::Constant(Constant::Int(*value))),
            ExprKind::Float(value) => Ok(Value::Constant(Constant::Float(*value))),
            ExprKind::Text(text) => Ok(Value::Symbol(text.as_str().into())),
            ExprKind::Name(name) => self.name(scope, name),
            ExprKind::List(items) => {
                let items: Vec<_> = items.iter().map(|item| self.expression(scope, item)).collect::<Lowered<_>>()?;
                self.list(items, span)
            }
            ExprKind::Access { tensor, indices } => {
                if let (Some(Value::List(items)), [index]) = (scope.names.get(tensor.name.as_str()), indices.as_slice())
                {
                    let items = items.clone();
                    let index = self.integer(scope, index, "the number of an item")?;
                    return self.item(&items, index, span);
                }
                T::access(self, scope, tensor, indices, span)
            }
            ExprKind::Unary { op, operand } => {
                let operand = self.expression(scope, operand)?;
                let op = match op {
                    ast::UnaryOp::Neg => UnaryOp::Neg,
                    ast::UnaryOp::Not => UnaryOp::BitNot,
                };
                self.unary(op, operand, span)
            }
            ExprKind::Binary { op, left, right } => {
                let left = self.expression(scope, left)?;
                let right = self.expression(scope, right)?;
                self.binary(binary_op(*op), left, right, span)
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                let condition = self.expression(scope, condition)?;
                // In v0, the result has the common type of both branches. Otherwise the branch that
                // is not taken is not evaluated, and may be invalid.
                if let (Value::Constant(condition), Some(otherwise)) = (&condition, otherwise)
                    && !scope.function.is_v0()
                {
                    return self.expression(scope, if condition.is_true() { then } else { otherwise });
                }
                let then = self.expression(scope, then)?;
                let otherwise = match otherwise {
                    Some(otherwise) => self.expression(scope, otherwise)?,
                    None => Value::Constant(Constant::Int(0)),
                };
                self.conditional(condition, then, otherwise, span)
            }
            ExprKind::Call { callee, arguments } => {
                let mut callee = self.expression_to_call(scope, callee)?;
                let arguments = self.arguments(scope, arguments)?;
                // v0 functions have no names and no hyper-parameters: there, `relu(S)` of a
                // constant applies `relu` instead of instantiating it.
                if let (Callable::Function(function), None) = (&callee, &scope.function.name) {
                    callee = Callable::Instance(Instance::new(function, Vec::new(), None));
                }
                self.apply(&callee, arguments, span)
            }
            ExprKind::Pipe { input, callee } => {
                let input = self.expression(scope, input)?;
                let value = self.expression(scope, callee)?;
                self.pipe(input, &value, scope.function, span)
            }
            ExprKind::Ellipsis | ExprKind::Error => Err(Diagnostic::error("E0112", span, "this is not a value")),
        }
    }

    /// Resolves a name: a value of the scope, a callable, or a symbol if it starts with a small
    /// letter.
    fn name(&mut self, scope: &Scope<'p, T::Element>, name: &'p Ident) -> Lowered<Value<'p, T::Element>> {
        if let Some(value) = scope.lookup(&name.name) {
            return Ok(value);
        }
        if name.capital {
            return match self.callee(&name.name, scope.function) {
                Some(callable) => Ok(Value::Callable(callable)),
                None => self.target.outer(name),
            };
        }
        Ok(match name.name.as_str() {
            "true" => Value::bool(true),
            "false" => Value::bool(false),
            "training" => Value::bool(self.training && !self.is_frozen()),
            text => match self.callee(text, scope.function) {
                Some(callable) => Value::Callable(callable),
                None => Value::Symbol(text.into()),
            },
        })
    }

    /// Resolves the callee of a call. A value of the scope that can be called takes precedence over
    /// a function.
    fn expression_to_call(
        &mut self,
        scope: &Scope<'p, T::Element>,
        callee: &'p Expr,
    ) -> Lowered<Callable<'p, T::Element>> {
        if let ExprKind::Name(name) = &callee.kind {
            let value = scope.lookup(&name.name).filter(|value| matches!(value, Value::Callable(_) | Value::Symbol(_)));
            if let (None, Some(other), None) =
                (&value, scope.lookup(&name.name), self.callee(&name.name, scope.function))
            {
                let message = format!("`{}` is {}, which cannot be called", name.name, other.kind());
                return Err(Diagnostic::error("E0221", name.span, message));
            }
            let value = value.unwrap_or_else(|| Value::Symbol(name.name.as_str().into()));
            return self.callable(&value, scope.function, name.span);
        }
        let value = self.expression(scope, callee)?;
        self.callable(&value, scope.function, callee.span)
    }

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
                let constants = arguments.iter().enumerate().map(|(number, argument)| match argument {
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
                    Diagnostic::error("E0208", spans.argument(1), format!("`{name}` makes {widths} bits, not {bits}"))
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
    pub fn typed(&mut self, value: Value<'p, T::Element>, dtype: DType, span: Span) -> Lowered<T::Element> {
        match value {
            Value::Element(element) if self.target.dtype(element) == dtype => Ok(element),
            Value::Element(element) => Ok(self.target.cast(element, dtype)),
            Value::Constant(constant) => Ok(self.target.constant(constant.cast(dtype))),
            other => Err(no_tensor(&other, span)),
        }
    }

    fn cast(&mut self, value: Value<'p, T::Element>, dtype: DType, span: Span) -> Lowered<Value<'p, T::Element>> {
        Ok(match (value, dtype) {
            // A constant that is cast to the type of constants stays a constant.
            (Value::Constant(c), DType::Bool) => Value::Constant(Constant::Bool(c.is_true())),
            (Value::Constant(c), DType::I32) => Value::Constant(c.narrow(span)?),
            (Value::Constant(c), DType::F32) => Value::Constant(Constant::Float(c.cast(dtype).to_f64())),
            (value, _) => Value::Element(self.typed(value, dtype, span)?),
        })
    }

    pub fn unary(&mut self, op: UnaryOp, operand: Value<'p, T::Element>, span: Span) -> Lowered<Value<'p, T::Element>> {
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
            (Value::Symbol(left), Value::Symbol(_) | Value::Constant(Constant::Int(_))) if op == BinaryOp::Add => {
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
                (Constant::Int(value), Constant::Float(_), _) | (Constant::Int(value), _, Constant::Float(_)) => {
                    Constant::Float(value as f64)
                }
                _ => chosen,
            }));
        }
        let dtype = self.dtype(&then, span)?.meet(self.dtype(&otherwise, span)?);
        let condition = self.typed(condition, DType::Bool, span)?;
        let operands = [condition, self.typed(then, dtype, span)?, self.typed(otherwise, dtype, span)?];
        self.target.select(operands, span).map(Value::Element)
    }

    /// Evaluates an integer known at compile time. `what` describes it in error messages.
    pub fn integer(&mut self, scope: &Scope<'p, T::Element>, expr: &'p Expr, what: &str) -> Lowered<i64> {
        let not = |found: &str| {
            Diagnostic::error(
                "E0209",
                expr.span,
                format!("{what} must be an integer known at compile time, and this is {found}"),
            )
        };
        match self.expression(scope, expr)? {
            Value::Constant(Constant::Int(value)) => Ok(value),
            Value::Constant(Constant::Float(value)) => Err(not(&format!("{value:?}"))),
            Value::Constant(Constant::Bool(_)) => Err(not("a bool")),
            other => Err(not(other.kind())),
        }
    }

    /// Evaluates the size of an axis.
    pub fn size(&mut self, scope: &Scope<'p, T::Element>, expr: &'p Expr) -> Lowered<usize> {
        let size = self.integer(scope, expr, "a size")?;
        let negative =
            |_| Diagnostic::error("E0209", expr.span, format!("a size cannot be negative, and this is {size}"));
        usize::try_from(size).map_err(negative)
    }
}

fn no_tensor<E>(value: &Value<'_, E>, span: Span) -> Diagnostic {
    let error = Diagnostic::error("E0204", span, format!("this is {}, not a tensor", value.kind()));
    match value {
        Value::List(_) => error.help("take one of its parts, as in `A, B = T;` or with `element(T, 0)`"),
        Value::Symbol(name) => error.help(format!("nothing here is called `{name}`")),
        _ => error,
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
        ("mod", [Constant::Int(a), Constant::Int(b)]) => Ok(Constant::Int(a.checked_rem(*b).unwrap_or(0))),
        ("broadcast", [a, b]) if a == b || *b == Constant::Int(1) => Ok(*a),
        ("broadcast", [Constant::Int(1), b]) => Ok(*b),
        ("match", [a, b]) if a == b => Ok(*a),
        ("broadcast" | "match", [Constant::Int(a), Constant::Int(b)]) => {
            Err(Diagnostic::error("E0210", span, format!("the sizes {a} and {b} differ")))
        }
        (_, [condition]) => match name.strip_prefix("assert_") {
            Some(_) if condition.is_true() => Ok(*condition),
            Some(what) => Err(Diagnostic::error("E0211", span, format!("the assertion `{what}` does not hold"))),
            None => Err(wrong_arguments(name, span)),
        },
        _ => Err(wrong_arguments(name, span)),
    }
}

fn binary_op(op: ast::BinaryOp) -> BinaryOp {
    match op {
        ast::BinaryOp::Xor => BinaryOp::BitXor,
        ast::BinaryOp::Or => BinaryOp::BitOr,
        ast::BinaryOp::And => BinaryOp::BitAnd,
        ast::BinaryOp::Eq => BinaryOp::Eq,
        ast::BinaryOp::Ne => BinaryOp::Ne,
        ast::BinaryOp::Lt => BinaryOp::Lt,
        ast::BinaryOp::Le => BinaryOp::Le,
        ast::BinaryOp::Gt => BinaryOp::Gt,
        ast::BinaryOp::Ge => BinaryOp::Ge,
        ast::BinaryOp::Shl => BinaryOp::ShiftLeft,
        ast::BinaryOp::Shr => BinaryOp::ShiftRight,
        ast::BinaryOp::Add => BinaryOp::Add,
        ast::BinaryOp::Sub => BinaryOp::Sub,
        ast::BinaryOp::Mul => BinaryOp::Mul,
        ast::BinaryOp::Div => BinaryOp::Div,
    }
}
