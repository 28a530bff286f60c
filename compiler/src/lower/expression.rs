//! Operators and elementwise functions: one definition of their types for whole tensors and inside contractions.

use std::rc::Rc;
use std::sync::Arc;

use tile_lang::Program;
use tile_lang::ast::{self, Expr, ExprKind, Ident};
use tile_lang::builtin::{Builtin, BuiltinKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::{Constant, bits_of_float};
use super::frame::Frame;
use super::list::limit;
use super::scope::Scope;
use super::value::{Callable, Instance, Renewal, Value};
use crate::dtype::{DType, Scalar};
use crate::graph::Origin;
use crate::scalar::{BinaryOp, UnaryOp};

/// What lowering gives, or what is wrong.
pub type Lowered<T> = Result<T, Diagnostic>;

/// Where elementwise operations go: nodes of the graph, or instructions of a contraction's body. The operands that
/// come here already have the types that the operations take.
pub(super) trait Target: Sized {
    type Element: Copy + PartialEq;

    fn dtype(&self, element: Self::Element) -> DType;
    fn shape(&self, element: Self::Element) -> Vec<usize>;
    fn constant(&mut self, scalar: Scalar) -> Self::Element;
    fn unary(&mut self, op: UnaryOp, operand: Self::Element) -> Self::Element;
    fn cast(&mut self, operand: Self::Element, dtype: DType) -> Self::Element;
    fn binary(&mut self, op: BinaryOp, operands: [Self::Element; 2], span: Span) -> Lowered<Self::Element>;
    /// `operands[0] ? operands[1] : operands[2]`
    fn select(&mut self, operands: [Self::Element; 3], span: Span) -> Lowered<Self::Element>;

    /// `tensor[indices]`
    fn access<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, Self::Element>,
        tensor: &Ident,
        indices: &'p [Expr],
        span: Span,
    ) -> Lowered<Value<'p, Self::Element>>;
    /// The value of a name that the scope does not have.
    fn outer<'p>(&mut self, name: &Ident) -> Lowered<Value<'p, Self::Element>>;
    /// A function on whole tensors.
    fn call<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        function: Builtin,
        arguments: &[Value<'p, Self::Element>],
        spans: &Spans,
    ) -> Lowered<Value<'p, Self::Element>>;
    /// A contraction statement.
    fn contraction<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, Self::Element>,
        contraction: &'p ast::Contraction,
    ) -> Lowered<Value<'p, Self::Element>>;
    /// `param` and `state`.
    fn weight<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &mut Scope<'p, Self::Element>,
        weight: &'p ast::Weight,
    ) -> Lowered<()>;
    /// `update target = value;`
    fn update<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, Self::Element>,
        target: &Ident,
        value: Value<'p, Self::Element>,
    ) -> Lowered<()>;
    /// A loop at run time.
    fn scan<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &mut Scope<'p, Self::Element>,
        sequences: &'p [ast::Sequence],
        body: &'p [ast::Statement],
        span: Span,
    ) -> Lowered<()>;
    /// Told of each layer that the entry has applied.
    fn applied(&mut self, path: String, class: &str, outputs: Vec<Self::Element>);
    /// From here on, what is made belongs to the statement `target = …` at `span`.
    fn begin(&mut self, target: &Ident, span: Span);
    /// From here on, what is made belongs to a function, in the layer of a path; gives the label for [`Target::leave`].
    fn enter(&mut self, function: &str, path: &str) -> Label;
    fn leave(&mut self, label: Label);

    /// The path of the weight that an element is, or that it is the next value of.
    fn path(&self, _: Self::Element) -> Option<String> {
        None
    }

    /// The value as an element.
    fn element(&mut self, value: Value<'_, Self::Element>, span: Span) -> Lowered<Self::Element> {
        match value {
            Value::Element(element) => Ok(element),
            Value::Constant(constant) => Ok(self.constant(constant.scalar())),
            other => Err(no_tensor(&other, span)),
        }
    }
}

/// What new nodes belong to, for readers of the graph.
#[derive(Clone, Default)]
pub(super) struct Label {
    /// The name and place of a value.
    pub value: Option<(String, Span)>,
    pub origin: Option<Arc<Origin>>,
}

/// Where a call and its arguments stand.
pub(super) struct Spans {
    pub call: Span,
    pub arguments: Vec<Span>,
}

impl Spans {
    pub fn argument(&self, number: usize) -> Span {
        self.arguments.get(number).copied().unwrap_or(self.call)
    }
}

/// What `yield` gives a name to.
pub(super) type Yielded<'p, E> = (&'p Ident, Value<'p, E>);

/// Evaluates expressions and functions of a program into a target.
pub(super) struct Evaluator<'p, T: Target> {
    pub program: &'p Program,
    pub target: T,
    /// How deep expressions are nested, those of callers included.
    pub depth: u32,
    /// How many calls and statements were written out.
    pub calls: u32,
    /// What `training` is.
    pub training: bool,
    /// Whether `update`s happen.
    pub updates: bool,
    /// The paths of layers and weights that training leaves as they are.
    pub frozen: Rc<[String]>,
    /// Whether what regularizers and `with_loss` say is added up.
    pub penalises: bool,
    /// The entry, and the layers that are being applied.
    pub frames: Vec<Frame>,
    /// What the weights of the layers that are being applied are made into, and whether one has been.
    pub renewals: Vec<Option<(Renewal<'p, T::Element>, bool)>>,
    /// For each `scan` that evaluation is in, what its step has yielded so far.
    pub yields: Vec<Vec<Yielded<'p, T::Element>>>,
}

/// The deepest nesting of expressions through calls: what a stack of 2 MiB surely holds.
const MAX_DEPTH: u32 = 600;

/// Whether a path is one of these, or of a part of one.
pub(super) fn is_part_of(path: &str, wholes: &[String]) -> bool {
    wholes
        .iter()
        .any(|whole| path.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])))
}

impl<'p, T: Target> Evaluator<'p, T> {
    pub fn new(program: &'p Program, target: T, training: bool) -> Self {
        Self {
            program,
            target,
            depth: 0,
            calls: 0,
            training,
            updates: training,
            frozen: Rc::default(),
            penalises: training,
            frames: vec![Frame::default()],
            renewals: Vec::new(),
            yields: Vec::new(),
        }
    }

    /// Works on another target for a while.
    pub fn within<U: Target, R>(
        &mut self,
        target: U,
        work: impl FnOnce(&mut Evaluator<'p, U>) -> Lowered<R>,
    ) -> Lowered<(U, R)> {
        let frames = std::mem::take(&mut self.frames);
        let Evaluator { program, depth, calls, training, updates, penalises, .. } = *self;
        let (frozen, renewals, yields) = (self.frozen.clone(), Vec::new(), Vec::new());
        let mut inside =
            Evaluator { program, target, depth, calls, training, updates, frozen, penalises, frames, renewals, yields };
        let result = work(&mut inside);
        (self.frames, self.calls) = (inside.frames, inside.calls);
        Ok((inside.target, result?))
    }

    /// Whether the layer that is being applied is one that training leaves as it is.
    pub fn is_frozen(&self) -> bool {
        self.frames.last().is_some_and(|frame| is_part_of(&frame.path, &self.frozen))
    }

    pub fn expression(&mut self, scope: &Scope<'p, T::Element>, expr: &'p Expr) -> Lowered<Value<'p, T::Element>> {
        if self.depth == MAX_DEPTH {
            let message = format!("calls and expressions are nested more than {MAX_DEPTH} levels deep here");
            return Err(Diagnostic::error("E0205", expr.span, message));
        }
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
                limit(items.iter().map(Value::size).sum(), span)?;
                Ok(Value::List(items))
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
                // In v0 the value has the type in which both meet; else what is not chosen need not make sense.
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
                // v0, whose functions have no names, has no hyper-parameters: `relu(S)` of a constant is its relu.
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

    /// What a name stands for: a value of the scope, a callable, or with a small letter itself.
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

    /// What is to be called: a name is first one of a value that can be called, then one of a function.
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
                let dtype = DType::parse(&format!(
                    "{}{bits}",
                    match name {
                        "as_int" => 'i',
                        "as_uint" => 'u',
                        _ => 'f',
                    }
                ));
                let dtype = dtype.ok_or_else(|| {
                    let widths = if name == "as_float" { "16, 32 or 64" } else { "8, 16, 32 or 64" };
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

    /// The element type that the value has as an element.
    pub fn dtype(&self, value: &Value<'p, T::Element>, span: Span) -> Lowered<DType> {
        match value {
            Value::Element(element) => Ok(self.target.dtype(*element)),
            Value::Constant(constant) => Ok(constant.scalar().dtype),
            other => Err(no_tensor(other, span)),
        }
    }

    /// The value as an element of a type. A constant is rounded once, to that type.
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
            // A constant stays one where its type is that of constants.
            (Value::Constant(c), DType::Bool) => Value::Constant(Constant::Bool(c.is_true())),
            (Value::Constant(c), DType::I32) => Value::Constant(Constant::Int(c.cast(dtype).to_i64())),
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
            _ if op == BinaryOp::Eq => return Ok(Value::bool(left == right)),
            _ if op == BinaryOp::Ne => return Ok(Value::bool(left != right)),
            (Value::List(left), Value::List(right)) if op == BinaryOp::Add => {
                limit(left.iter().chain(right).map(Value::size).sum(), span)?;
                return Ok(Value::List([left.as_slice(), right.as_slice()].concat()));
            }
            (Value::Symbol(left), Value::Symbol(_) | Value::Constant(Constant::Int(_))) if op == BinaryOp::Add => {
                let text = format!("{left}{right}");
                limit(text.len(), span)?;
                return Ok(Value::Symbol(text.into()));
            }
            _ => {}
        }
        let dtype = self.dtype(&left, span)?.meet(self.dtype(&right, span)?);
        op.result(dtype, dtype).map_err(|_| bits_of_float(span))?;
        let operands = [self.typed(left, dtype, span)?, self.typed(right, dtype, span)?];
        self.target.binary(op, operands, span).map(Value::Element)
    }

    /// `condition ? then : otherwise`, whose type is that in which the last two meet.
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

    /// An integer that is known at compile time; `what` says what it is.
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

    /// A size of an axis.
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

/// The functions on sizes: `mod`, `broadcast`, `match` and `assert_NAME`.
fn size_function(name: &str, arguments: &[Constant], span: Span) -> Lowered<Constant> {
    match (name, arguments) {
        ("mod", [Constant::Int(_), Constant::Int(0)]) => {
            Err(Diagnostic::error("E0203", span, "this takes the remainder of a division by zero"))
        }
        // The remainder has the sign of the dividend, as that of the truncating division.
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
