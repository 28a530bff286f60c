//! [`Target`]: the destination of what an evaluator emits.

use std::sync::Arc;

use tile_lang::Budget;
use tile_lang::ast::{self, Expr, Ident};
use tile_lang::builtin::Builtin;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::Evaluator;
use super::scope::Scope;
use super::value::Value;
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
    fn binary(
        &mut self,
        op: BinaryOp,
        operands: [Self::Element; 2],
        span: Span,
    ) -> Lowered<Self::Element>;
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
    /// it. `call` is the location of the call. Returns the previous label for [`Target::leave`].
    fn enter(&mut self, function: &str, path: &str, call: Span) -> Label;
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
    /// The innermost call outside the library.
    pub call: Option<Span>,
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

/// Returns the error for a value that has no elements.
pub(super) fn no_tensor<E>(value: &Value<'_, E>, span: Span) -> Diagnostic {
    if let Value::Symbol(name) = value {
        let error = Diagnostic::error(
            "E0206",
            span,
            format!("expected a number or tensor, found the name `{name}`"),
        );
        return match name.parse::<f64>() {
            Ok(_) => error.help(format!("write {name} without quotes")),
            Err(_) => error,
        };
    }
    let error =
        Diagnostic::error("E0204", span, format!("expected a tensor, found {}", value.kind()));
    match value {
        Value::List(_) => {
            error.help("take one of its parts, as in `A, B = T;` or with `element(T, 0)`")
        }
        _ => error,
    }
}
