//! Evaluates expressions: literals, names, operators, conditions and calls.

use std::collections::HashMap;
use std::rc::Rc;

use tile_lang::ast::{self, Expr, ExprKind, Ident};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Budget, Program};

use super::constant::Constant;
use super::frame::Frame;
use super::network::Role;
use super::scope::Scope;
pub(super) use super::target::{Label, Lowered, Spans, Target};
use super::value::{Callable, Instance, Renewal, Value};
use crate::scalar::{BinaryOp, UnaryOp};

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
    /// The paths of the layers and weights that training changes: all by default.
    pub trained: Rc<[String]>,
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

/// Returns whether `path` is one of `wholes` or lies below one of them. In these, `*` stands for
/// any characters: `encoder.*.Bias`.
pub fn is_part_of(path: &str, wholes: &[String]) -> bool {
    wholes.iter().any(|whole| covers(whole, path))
}

/// Returns whether the pattern is that of `path`, or of a layer or list above it.
pub(super) fn covers(pattern: &str, path: &str) -> bool {
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    let mut parts: Vec<&str> = pattern.split('*').collect();
    let Some(mut rest) = path.strip_prefix(parts.remove(0)) else { return false };
    let Some(last) = parts.pop() else { return ends(rest) };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.match_indices(last).any(|(at, _)| ends(&rest[at + last.len()..]))
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
            trained: Rc::from(["*".to_owned()]),
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
            trained: self.trained.clone(),
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

    /// Returns whether training leaves the weight at `path` as it is.
    pub fn stays(&self, path: &str) -> bool {
        is_part_of(path, &self.frozen) || !is_part_of(path, &self.trained)
    }

    pub fn expression(
        &mut self,
        scope: &Scope<'p, T::Element>,
        expr: &'p Expr,
    ) -> Lowered<Value<'p, T::Element>> {
        if self.depth == MAX_DEPTH {
            let message =
                format!("calls and expressions are nested more than {MAX_DEPTH} levels deep here");
            return Err(Diagnostic::error("E0205", expr.span, message));
        }
        self.spend(1, expr.span)?;
        self.depth += 1;
        let value = self.nested(scope, expr);
        self.depth -= 1;
        value
    }

    fn nested(
        &mut self,
        scope: &Scope<'p, T::Element>,
        expr: &'p Expr,
    ) -> Lowered<Value<'p, T::Element>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(value) => Ok(Value::Constant(Constant::Int(*value))),
            ExprKind::Float(value) => Ok(Value::Constant(Constant::Float(*value))),
            ExprKind::Text(text) => Ok(Value::Symbol(text.as_str().into())),
            ExprKind::Name(name) => self.name(scope, name),
            ExprKind::List(items) => {
                let items: Vec<_> = items
                    .iter()
                    .map(|item| self.expression(scope, item))
                    .collect::<Lowered<_>>()?;
                self.list(items, span)
            }
            ExprKind::Access { tensor, indices } => {
                if let (Some(Value::List(items)), [index]) =
                    (scope.names.get(tensor.name.as_str()), indices.as_slice())
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
                    return self
                        .expression(scope, if condition.is_true() { then } else { otherwise });
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
                self.pipe(input, &value, scope.function, callee.span)
            }
            ExprKind::Ellipsis | ExprKind::Error => {
                Err(Diagnostic::error("E0112", span, "this is not a value"))
            }
        }
    }

    /// Resolves a name: a value of the scope, a callable, or a symbol if it starts with a small
    /// letter.
    fn name(
        &mut self,
        scope: &Scope<'p, T::Element>,
        name: &'p Ident,
    ) -> Lowered<Value<'p, T::Element>> {
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
            let value = scope
                .lookup(&name.name)
                .filter(|value| matches!(value, Value::Callable(_) | Value::Symbol(_)));
            if let (None, Some(other), None) =
                (&value, scope.lookup(&name.name), self.callee(&name.name, scope.function))
            {
                let message =
                    format!("`{}` is {}, which cannot be called", name.name, other.kind());
                return Err(Diagnostic::error("E0221", name.span, message));
            }
            let symbol = || Value::Symbol(name.name.as_str().into());
            return self
                .callable(value.as_ref().unwrap_or(&symbol()), scope.function, name.span)
                .map_err(|error| match value {
                    Some(value) => error.saying(format!("`{}` is `{value}` here", name.name)),
                    None => error,
                });
        }
        let value = self.expression(scope, callee)?;
        self.callable(&value, scope.function, callee.span)
    }

    /// Evaluates an integer known at compile time. `what` describes it in error messages.
    pub fn integer(
        &mut self,
        scope: &Scope<'p, T::Element>,
        expr: &'p Expr,
        what: &str,
    ) -> Lowered<i64> {
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
        let negative = |_| {
            Diagnostic::error(
                "E0209",
                expr.span,
                format!("a size cannot be negative, and this is {size}"),
            )
        };
        usize::try_from(size).map_err(negative)
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
