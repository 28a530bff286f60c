//! Elementwise operations on whole tensors, as nodes of the graph.

use tile_lang::ast::{self, Expr, Ident};
use tile_lang::builtin::Builtin;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::expression::{Evaluator, Lowered, Spans, Target, Value};
use super::function::Scope;
use super::{builtin, contraction};
use crate::dtype::{DType, Scalar};
use crate::graph::{Graph, NodeId, Op};
use crate::scalar::{BinaryOp, UnaryOp};
use crate::tensor::{TensorType, broadcast};

/// The graph so far.
pub(super) struct Tensors {
    pub graph: Graph,
    /// The name and place of the value that new nodes belong to.
    pub label: Option<(String, Span)>,
}

impl Tensors {
    pub fn new(name: &str) -> Self {
        Self { graph: Graph::new(name), label: None }
    }

    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// The current statement's place, else `other`.
    pub fn span(&self, other: Span) -> Span {
        self.label.as_ref().map_or(other, |(_, span)| *span)
    }

    /// Adds a node of the current statement. `span` is what to point at where the tensor is too large.
    pub fn add(&mut self, op: Op, ty: TensorType, operands: &[NodeId], span: Span) -> Lowered<NodeId> {
        let bytes = ty.checked_elements().and_then(|elements| elements.checked_mul(ty.dtype.size()));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(Diagnostic::error("E0214", span, format!("a tensor {ty} is larger than any memory")));
        }
        Ok(self.add_small(op, ty, operands))
    }

    /// Adds a node of the current statement that is not larger than one of its operands.
    fn add_small(&mut self, op: Op, ty: TensorType, operands: &[NodeId]) -> NodeId {
        let id = self.graph.add(op, ty, operands);
        let node = self.graph.node_mut(id);
        (node.name, node.span) = self.label.clone().unzip();
        id
    }

    fn broadcast(&self, operands: &[NodeId], span: Span) -> Lowered<Vec<usize>> {
        let shapes = || operands.iter().map(|&id| self.graph.shape(id));
        broadcast(shapes()).ok_or_else(|| {
            let shapes: Vec<String> = shapes().map(|shape| format!("{shape:?}")).collect();
            let message = format!("the shapes {} do not broadcast", shapes.join(" and "));
            Diagnostic::error("E0215", span, message)
                .help("aligned at the last axis, sizes must be equal, or one of them 1")
        })
    }
}

impl Target for Tensors {
    type Element = NodeId;

    fn dtype(&self, element: NodeId) -> DType {
        self.graph.dtype(element)
    }

    fn shape(&self, element: NodeId) -> Vec<usize> {
        self.graph.shape(element).to_vec()
    }

    fn constant(&mut self, scalar: Scalar) -> NodeId {
        self.add_small(Op::Constant(scalar), TensorType::scalar(scalar.dtype), &[])
    }

    fn unary(&mut self, op: UnaryOp, operand: NodeId) -> NodeId {
        let ty = self.graph.node(operand).ty.clone();
        self.add_small(Op::Unary(op), ty, &[operand])
    }

    fn cast(&mut self, operand: NodeId, dtype: DType) -> NodeId {
        let ty = TensorType::new(dtype, self.graph.shape(operand));
        self.add_small(Op::Cast, ty, &[operand])
    }

    fn binary(&mut self, op: BinaryOp, operands: [NodeId; 2], span: Span) -> Lowered<NodeId> {
        let dtype = if op.is_comparison() { DType::Bool } else { self.graph.dtype(operands[0]) };
        let ty = TensorType::new(dtype, self.broadcast(&operands, span)?);
        self.add(Op::Binary(op), ty, &operands, span)
    }

    fn select(&mut self, operands: [NodeId; 3], span: Span) -> Lowered<NodeId> {
        let ty = TensorType::new(self.graph.dtype(operands[1]), self.broadcast(&operands, span)?);
        self.add(Op::Select, ty, &operands, span)
    }

    fn access<'p>(
        _: &mut Evaluator<'p, Self>,
        _: &Scope<'p, NodeId>,
        tensor: &Ident,
        _: &'p [Expr],
        span: Span,
    ) -> Lowered<Value<NodeId>> {
        Err(Diagnostic::error("E0116", span, format!("`{}` is indexed outside a contraction", tensor.name)))
    }

    fn outer(&mut self, name: &Ident) -> Lowered<Value<NodeId>> {
        Err(Diagnostic::error("E0101", name.span, format!("there is no `{}` here", name.name)))
    }

    fn call(&mut self, function: Builtin, arguments: &[Value<NodeId>], spans: &Spans) -> Lowered<Value<NodeId>> {
        builtin::call(self, function.name, arguments, spans)
    }

    fn contraction<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, NodeId>,
        contraction: &'p ast::Contraction,
    ) -> Lowered<Value<NodeId>> {
        contraction::lower(evaluator, scope, contraction).map(Value::Element)
    }

    fn begin(&mut self, target: &Ident, span: Span) {
        self.label = Some((target.name.clone(), span));
    }
}
