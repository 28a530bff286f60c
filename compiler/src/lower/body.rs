//! The body of a contraction: a scalar program over accesses, and the index polynomials in them.

use tile_lang::Budget;
use tile_lang::ast::{self, BinaryOp as Operator, Expr, ExprKind, Ident, UnaryOp as Sign};
use tile_lang::builtin::Builtin;
use tile_lang::diagnostic::{Diagnostic, axes};
use tile_lang::span::Span;

use super::expression::{Evaluator, Label, Lowered, Spans, Target};
use super::indices::{Variables, overflow};
use super::scope::Scope;
use super::value::{List, Value};
use crate::affine::{Affine, RationalAffine};
use crate::dtype::{DType, Scalar};
use crate::graph::{ContractionLeaf, Graph, NodeId};
use crate::scalar::{self, BinaryOp, Inst, Program, UnaryOp};

/// One coordinate of an access, as written in the source.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Coordinate {
    Affine(RationalAffine),
    /// The value of an earlier access, by its number in [`Body::reads`].
    Access(usize),
}

/// An access, as written in the source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Read {
    pub operand: usize,
    pub index: Vec<Coordinate>,
}

/// The [`Target`] inside a contraction: its elements are scalars.
pub(super) struct Body<'a> {
    graph: &'a Graph,
    outer: &'a Scope<'a, NodeId>,
    pub program: Program<ContractionLeaf>,
    pub operands: Vec<NodeId>,
    pub reads: Vec<Read>,
    pub variables: Variables,
    /// The sizes of the axes that `...` stands for.
    leading: Vec<usize>,
}

impl<'a> Body<'a> {
    /// Creates the body of a contraction in the scope `outer`. `...` stands for axes of the sizes
    /// `leading`.
    pub fn new(graph: &'a Graph, outer: &'a Scope<'a, NodeId>, leading: Vec<usize>) -> Self {
        let (program, variables) = (Program::default(), Variables::default());
        Self { graph, outer, program, operands: Vec::new(), reads: Vec::new(), variables, leading }
    }

    /// Returns the number of the access `tensor[index]`, which is added if it is new. The caller
    /// has checked that `index` fits the tensor's rank.
    fn read(&mut self, tensor: NodeId, index: Vec<Coordinate>) -> usize {
        let operand = position(&mut self.operands, tensor);
        position(&mut self.reads, Read { operand, index })
    }

    fn dtype_of(&self, read: usize) -> DType {
        self.graph.dtype(self.operands[self.reads[read].operand])
    }

    /// Adds the element that an access reads.
    fn leaf(&mut self, read: usize) -> scalar::Value {
        let dtype = self.dtype_of(read);
        self.program.push(Inst::Leaf(ContractionLeaf::Access(read)), dtype)
    }
}

fn whole(span: Span) -> Diagnostic {
    Diagnostic::error(
        "E0112",
        span,
        "this works on whole tensors, so it cannot be called inside a contraction",
    )
}

fn no_value(name: &Ident) -> Diagnostic {
    Diagnostic::error("E0101", name.span, format!("there is no value `{}` here", name.name))
}

/// Returns the position of an item, which is appended if it is missing.
fn position<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    items.iter().position(|i| *i == item).unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

impl Target for Body<'_> {
    type Element = scalar::Value;

    fn budget(&self) -> Budget {
        self.graph.budget.clone()
    }

    fn dtype(&self, element: scalar::Value) -> DType {
        self.program.dtype(element)
    }

    fn shape(&self, _: scalar::Value) -> Vec<usize> {
        Vec::new()
    }

    fn constant(&mut self, scalar: Scalar) -> scalar::Value {
        self.program.constant(scalar)
    }

    fn unary(&mut self, op: UnaryOp, operand: scalar::Value) -> scalar::Value {
        self.program.unary(op, operand)
    }

    fn cast(&mut self, operand: scalar::Value, dtype: DType) -> scalar::Value {
        self.program.cast(operand, dtype)
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        [left, right]: [scalar::Value; 2],
        _: Span,
    ) -> Lowered<scalar::Value> {
        Ok(self.program.binary(op, left, right))
    }

    fn select(
        &mut self,
        [condition, then, otherwise]: [scalar::Value; 3],
        _: Span,
    ) -> Lowered<scalar::Value> {
        Ok(self.program.select(condition, then, otherwise))
    }

    fn access<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, scalar::Value>,
        tensor: &Ident,
        indices: &'p [Expr],
        span: Span,
    ) -> Lowered<Value<'p, scalar::Value>> {
        Ok(match evaluator.read(scope, tensor, indices, span)? {
            Value::Element(read) => Value::Element(evaluator.target.leaf(read)),
            Value::Constant(constant) => Value::Constant(constant),
            _ => return evaluator.target.outer(tensor),
        })
    }

    /// Reads a tensor of rank 0, which needs no indices.
    fn outer<'p>(&mut self, name: &Ident) -> Lowered<Value<'p, scalar::Value>> {
        match self.outer.lookup(&name.name) {
            Some(Value::Element(node)) if self.graph.shape(node).is_empty() => {
                let read = self.read(node, Vec::new());
                Ok(Value::Element(self.leaf(read)))
            }
            Some(Value::Element(node)) => {
                let rank = axes(self.graph.shape(node).len());
                Err(Diagnostic::error(
                    "E0212",
                    name.span,
                    format!("`{}` has {rank}, and is given no indices", name.name),
                ))
            }
            Some(Value::Constant(_)) | None => Err(no_value(name)),
            Some(other) => {
                let message = format!("`{}` is {}, not a tensor", name.name, other.kind());
                Err(Diagnostic::error("E0204", name.span, message))
            }
        }
    }

    fn call<'p>(
        _: &mut Evaluator<'p, Self>,
        function: Builtin,
        _: &[Value<'p, scalar::Value>],
        spans: &Spans,
    ) -> Lowered<Value<'p, scalar::Value>> {
        let message = format!(
            "`{}` works on whole tensors, so it cannot be called inside a contraction",
            function.name
        );
        Err(Diagnostic::error("E0112", spans.call, message).help("call it in a statement before"))
    }

    fn contraction<'p>(
        _: &mut Evaluator<'p, Self>,
        _: &Scope<'p, scalar::Value>,
        contraction: &'p ast::Contraction,
    ) -> Lowered<Value<'p, scalar::Value>> {
        let span = contraction.output.span;
        Err(Diagnostic::error(
            "E0112",
            span,
            "this function contracts, so it cannot be called inside a contraction",
        ))
    }

    fn weight<'p>(
        _: &mut Evaluator<'p, Self>,
        _: &mut Scope<'p, scalar::Value>,
        weight: &'p ast::Weight,
    ) -> Lowered<()> {
        Err(whole(weight.name.span))
    }

    fn update<'p>(
        _: &mut Evaluator<'p, Self>,
        _: &Scope<'p, scalar::Value>,
        target: &Ident,
        _: Value<'p, scalar::Value>,
    ) -> Lowered<()> {
        Err(whole(target.span))
    }

    fn scan<'p>(
        _: &mut Evaluator<'p, Self>,
        _: &mut Scope<'p, scalar::Value>,
        _: &'p [ast::Sequence],
        _: &'p [ast::Statement],
        span: Span,
    ) -> Lowered<()> {
        Err(whole(span))
    }

    fn applied(&mut self, _: String, _: &str, _: Vec<scalar::Value>) {}

    fn begin(&mut self, _: &Ident, _: Span) {}

    fn enter(&mut self, _: &str, _: &str, _: Span) -> Label {
        Label::default()
    }

    fn leave(&mut self, _: Label) {}
}

impl<'p> Evaluator<'p, Body<'_>> {
    /// Lowers the expression that the contraction aggregates.
    pub fn aggregated(
        &mut self,
        scope: &Scope<'p, scalar::Value>,
        expr: &'p Expr,
    ) -> Lowered<scalar::Value> {
        // The type of `A[..] == B[..] ? C[..]` is the common type of all three.
        if let ExprKind::Conditional { condition, then, otherwise: None } = &expr.kind
            && let ExprKind::Binary { op: Operator::Eq, left, right } = &condition.kind
        {
            let left = self.expression(scope, left)?;
            let right = self.expression(scope, right)?;
            let then = self.expression(scope, then)?;
            let dtype = self.dtype(&left, expr.span)?.meet(self.dtype(&right, expr.span)?);
            let dtype = dtype.meet(self.dtype(&then, expr.span)?);
            let equal = self.binary(BinaryOp::Eq, left, right, condition.span)?;
            let equal = self.target.element(equal, condition.span)?;
            let then = self.typed(then, dtype, expr.span)?;
            let zero = self.target.constant(Scalar::zero(dtype));
            return Ok(self.target.program.select(equal, then, zero));
        }
        let value = self.expression(scope, expr)?;
        self.target.element(value, expr.span)
    }

    /// Returns the number of the access `tensor[indices]`, or the constant if `tensor` is one.
    /// Other values give an empty list, which callers report as an error.
    fn read(
        &mut self,
        scope: &Scope<'p, scalar::Value>,
        tensor: &Ident,
        indices: &'p [Expr],
        span: Span,
    ) -> Lowered<Value<'p, usize>> {
        let index = self.coordinates(scope, indices)?;
        let body = &mut self.target;
        match body.outer.lookup(&tensor.name) {
            Some(Value::Element(node)) => {
                let shape = body.graph.shape(node);
                if shape.len() != index.len() {
                    let message = format!(
                        "`{}` has {}, and is given {} indices",
                        tensor.name,
                        axes(shape.len()),
                        index.len()
                    );
                    let error = Diagnostic::error("E0212", span, message);
                    return Err(error.help(format!("its shape is {shape:?}")));
                }
                let open =
                    matches!(indices.first(), Some(first) if first.kind == ExprKind::Ellipsis);
                if open && !shape.starts_with(&body.leading) {
                    let message = format!(
                        "`...` stands for the sizes {:?}, but `{}` has {shape:?}",
                        body.leading, tensor.name
                    );
                    return Err(Diagnostic::error("E0213", span, message));
                }
                Ok(Value::Element(body.read(node, index)))
            }
            Some(Value::Constant(constant)) if index.is_empty() => Ok(Value::Constant(constant)),
            Some(Value::Constant(_)) => {
                let message = format!(
                    "`{}` is a constant, and is given {} indices",
                    tensor.name,
                    index.len()
                );
                Err(Diagnostic::error("E0212", span, message)
                    .help(format!("write `{}[]`", tensor.name)))
            }
            Some(_) => Ok(Value::List(List::default())),
            None => Err(no_value(tensor)),
        }
    }

    /// Returns the coordinates that the indices stand for, with `...` expanded.
    pub fn coordinates(
        &mut self,
        scope: &Scope<'p, scalar::Value>,
        indices: &'p [Expr],
    ) -> Lowered<Vec<Coordinate>> {
        let mut coordinates = Vec::with_capacity(indices.len());
        for index in indices {
            match &index.kind {
                ExprKind::Ellipsis => {
                    for axis in 0..self.target.leading.len() {
                        let variable =
                            self.target.variables.number(&format!("axis{axis}"), index.span, true);
                        coordinates.push(Coordinate::Affine(Affine::var(variable).into()));
                    }
                }
                // An item of a compile-time list is a constant, not an access.
                ExprKind::Access { tensor, indices }
                    if !scope.names.contains_key(tensor.name.as_str()) =>
                {
                    let read = match self.read(scope, tensor, indices, index.span)? {
                        Value::Element(read) => read,
                        // `S[]` is the constant `S`.
                        _ => {
                            coordinates.push(Coordinate::Affine(self.polynomial(scope, index)?));
                            continue;
                        }
                    };
                    let dtype = self.target.dtype_of(read);
                    if !dtype.is_integer() {
                        let message =
                            format!("an index must be of an integer type, and this is {dtype}");
                        return Err(Diagnostic::error("E0204", index.span, message).help(
                            "convert the tensor with `as_int(T, 32)` in a statement before",
                        ));
                    }
                    coordinates.push(Coordinate::Access(read));
                }
                _ => coordinates.push(Coordinate::Affine(self.polynomial(scope, index)?)),
            }
        }
        Ok(coordinates)
    }

    /// Returns an affine polynomial over index variables. Division is exact here: `i/2` is a half
    /// for odd `i`.
    pub fn polynomial(
        &mut self,
        scope: &Scope<'p, scalar::Value>,
        expr: &'p Expr,
    ) -> Lowered<RationalAffine> {
        let not_affine = |what: &str| {
            Diagnostic::error("E0108", expr.span, format!("this index is not affine: {what}"))
        };
        let overflow = || overflow(expr.span);
        match &expr.kind {
            ExprKind::Name(name)
                if !name.capital && !scope.names.contains_key(name.name.as_str()) =>
            {
                let variable = self.target.variables.number(&name.name, name.span, false);
                Ok(Affine::var(variable).into())
            }
            ExprKind::Unary { op: Sign::Neg, operand } => {
                self.polynomial(scope, operand)?.scale(-1, 1).ok_or_else(overflow)
            }
            ExprKind::Binary { op: op @ (Operator::Add | Operator::Sub), left, right } => {
                let left = self.polynomial(scope, left)?;
                let right = self.polynomial(scope, right)?;
                let right = if *op == Operator::Sub { right.scale(-1, 1) } else { Some(right) };
                right.and_then(|right| left.add(&right)).ok_or_else(overflow)
            }
            ExprKind::Binary { op: op @ (Operator::Mul | Operator::Div), left, right } => {
                let (mut left, mut right) =
                    (self.polynomial(scope, left)?, self.polynomial(scope, right)?);
                if *op == Operator::Mul && left.numerator().is_constant() {
                    std::mem::swap(&mut left, &mut right);
                }
                let Some(factor) = right.numerator().as_constant() else {
                    let multiplies = "it multiplies index variables with each other";
                    return Err(not_affine(if *op == Operator::Mul {
                        multiplies
                    } else {
                        "it divides by an index variable"
                    }));
                };
                match op {
                    Operator::Div if factor == 0 => Err(not_affine("it divides by zero")),
                    Operator::Div => left.scale(right.denominator(), factor).ok_or_else(overflow),
                    _ => left.scale(factor, right.denominator()).ok_or_else(overflow),
                }
            }
            _ => Ok(Affine::constant(self.integer(scope, expr, "a constant in an index")?).into()),
        }
    }
}
