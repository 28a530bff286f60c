//! Elementwise operations on whole tensors, as nodes of the graph.

use std::sync::Arc;

use tile_lang::ast::{self, Expr, Ident};
use tile_lang::builtin::Builtin;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::Constant;
use super::expression::{Evaluator, Label, Lowered, Spans, Target};
use super::network::{Layer, Network, Role, Weight, WeightKind};
use super::scope::Scope;
use super::value::Value;
use super::weights::Collected;
use super::{builtin, contraction, scan, weights};
use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Aggregation, Contraction, Graph, NodeId, Op, Origin};
use crate::scalar::{BinaryOp, UnaryOp};
use crate::tensor::{TensorType, broadcast};

/// The graph so far.
pub(super) struct Tensors {
    /// Of the entry, of the body of the innermost scan, or of first values.
    pub graph: Graph,
    /// The graphs around that of the innermost scan, outermost first.
    outer: Vec<Outer>,
    pub network: Collected,
    pub label: Label,
}

/// A graph, and what the body of a scan in it reads of it.
struct Outer {
    graph: Graph,
    /// Nodes of this graph, and the inputs of the body that they are there.
    captures: Vec<(NodeId, NodeId)>,
}

/// The graphs that are set aside while first values are computed.
pub(super) struct Suspended(Vec<Outer>);

impl Tensors {
    pub fn new(name: &str) -> Self {
        let network = Collected { initial: Graph::new("initial"), ..Collected::default() };
        Self { graph: Graph::new(name), outer: Vec::new(), network, label: Label::default() }
    }

    /// The network whose outputs are these.
    pub fn into_network(mut self, outputs: Vec<(String, NodeId)>) -> Network {
        self.graph.outputs = outputs;
        self.network.into_network(self.graph)
    }

    /// Works on the graph of a loop's body instead, until [`Tensors::end_scan`].
    pub fn begin_scan(&mut self) {
        let graph = std::mem::replace(&mut self.graph, Graph::new("step"));
        self.outer.push(Outer { graph, captures: Vec::new() });
    }

    /// The body, with these outputs, and what it reads of the graph that is worked on again.
    pub fn end_scan(&mut self, outputs: Vec<(String, NodeId)>) -> (Graph, Vec<NodeId>) {
        let Some(Outer { graph, captures }) = self.outer.pop() else { return (Graph::default(), Vec::new()) };
        let mut body = std::mem::replace(&mut self.graph, graph);
        body.outputs = outputs;
        let mut read = Vec::new();
        for (outside, inside) in captures {
            if body.users(inside).is_empty() && !body.is_output(inside) {
                body.remove(inside);
            } else {
                read.push(outside);
            }
        }
        (body, read)
    }

    /// What the body is given for each step.
    pub fn step_input(&mut self, name: &str, ty: TensorType) -> NodeId {
        self.graph.add(Op::Input(name.to_owned()), ty, &[])
    }

    /// A value of the graph around, in the body.
    pub fn capture<'p>(&mut self, value: &Value<'p, NodeId>) -> Value<'p, NodeId> {
        match value {
            Value::Element(node) => Value::Element(self.captured(self.outer.len() - 1, *node)),
            Value::List(items) => Value::List(items.iter().map(|item| self.capture(item)).collect()),
            value => value.clone(),
        }
    }

    pub fn is_in_scan(&self) -> bool {
        !self.outer.is_empty()
    }

    /// Works on the graph of first values instead, until [`Tensors::end_initial`] is given what this gives.
    pub fn begin_initial(&mut self) -> Suspended {
        std::mem::swap(&mut self.graph, &mut self.network.initial);
        Suspended(std::mem::take(&mut self.outer))
    }

    pub fn end_initial(&mut self, Suspended(outer): Suspended) {
        std::mem::swap(&mut self.graph, &mut self.network.initial);
        self.outer = outer;
    }

    /// Works on the graph of the entry.
    pub fn outermost<R>(&mut self, work: impl FnOnce(&mut Tensors) -> R) -> R {
        let Some(first) = self.outer.first_mut() else { return work(self) };
        std::mem::swap(&mut self.graph, &mut first.graph);
        let outer = std::mem::take(&mut self.outer);
        let result = work(self);
        self.outer = outer;
        if let Some(first) = self.outer.first_mut() {
            std::mem::swap(&mut self.graph, &mut first.graph);
        }
        result
    }

    /// A node of the entry's graph in the graph that is being made: in a scan, an input of its body.
    pub fn imported(&mut self, node: NodeId) -> NodeId {
        (0..self.outer.len()).fold(node, |node, level| self.captured(level, node))
    }

    /// A node of the graph `outer[level]` in the body of the scan in it.
    pub fn captured(&mut self, level: usize, node: NodeId) -> NodeId {
        if let Some((_, inside)) = self.outer[level].captures.iter().find(|(outside, _)| *outside == node) {
            return *inside;
        }
        let (ty, name) = {
            let outside = self.outer[level].graph.node(node);
            (outside.ty.clone(), outside.name.clone())
        };
        let number = self.outer[level].captures.len();
        let body = match self.outer.get_mut(level + 1) {
            Some(next) => &mut next.graph,
            None => &mut self.graph,
        };
        let inside = body.add(Op::Input(format!("captured{number}")), ty, &[]);
        body.node_mut(inside).name = name;
        self.outer[level].captures.push((node, inside));
        inside
    }

    /// An input that the program does not name, as [`Network::SEED`].
    pub fn hidden(&mut self, name: &str, ty: TensorType) -> NodeId {
        let input = self.outermost(|tensors| {
            let is_it = |id: &NodeId| matches!(&tensors.graph.node(*id).op, Op::Input(other) if other == name);
            let known = tensors.graph.inputs.iter().copied().find(is_it);
            known.unwrap_or_else(|| tensors.graph.add(Op::Input(name.to_owned()), ty, &[]))
        });
        self.imported(input)
    }

    /// A state `f32[]` that is 0 at first.
    pub fn zero_state(&mut self, path: &str, span: Span) -> Lowered<NodeId> {
        let ty = TensorType::scalar(DType::F32);
        let node = self.add(Op::Weight(path.to_owned()), ty.clone(), &[], span)?;
        let first = self.network.initial.add(Op::Constant(Scalar::zero(DType::F32)), ty.clone(), &[]);
        self.network.initial.outputs.push((path.to_owned(), first));
        let (path, kind) = (path.to_owned(), WeightKind::State);
        self.network.weights.push(Weight { path, ty, kind, role: Role::Metric, node });
        Ok(node)
    }

    /// The sum of all elements.
    pub fn total(&mut self, node: NodeId, span: Span) -> Lowered<NodeId> {
        let ty = self.graph.node(node).ty.clone();
        let index = (0..ty.rank()).map(Affine::var).collect();
        let sum = Contraction::of_tensor(Aggregation::Sum, ty.dtype, &ty.shape, Vec::new(), index);
        self.add(Op::Contraction(Box::new(sum)), TensorType::scalar(ty.dtype), &[node], span)
    }

    /// Adds to the sum of all regularizers.
    pub fn penalise(&mut self, penalty: NodeId, span: Span) -> Lowered<()> {
        let penalty = self.cast_to(penalty, DType::F32);
        if self.is_in_scan() || !self.shape(penalty).is_empty() {
            let message = "a regularizer gives one number, and not in a `scan`";
            return Err(Diagnostic::error("E0233", span, message));
        }
        self.network.penalty = Some(match self.network.penalty {
            Some(sum) => self.binary(BinaryOp::Add, [sum, penalty], span)?,
            None => penalty,
        });
        Ok(())
    }

    fn cast_to(&mut self, node: NodeId, dtype: DType) -> NodeId {
        if self.graph.dtype(node) == dtype { node } else { self.cast(node, dtype) }
    }

    /// The current statement's place, else `other`.
    pub fn span(&self, other: Span) -> Span {
        self.label.value.as_ref().map_or(other, |(_, span)| *span)
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
        (node.name, node.span) = self.label.value.clone().unzip();
        node.origin.clone_from(&self.label.origin);
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

    fn path(&self, element: NodeId) -> Option<String> {
        let weight = self.network.weights.iter().find(|weight| weight.node == element).map(|weight| &weight.path);
        let next = || self.network.updates.iter().find(|(_, next)| **next == element).map(|(path, _)| path);
        weight.or_else(next).cloned()
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
    ) -> Lowered<Value<'p, NodeId>> {
        Err(Diagnostic::error("E0116", span, format!("`{}` is indexed outside a contraction", tensor.name)))
    }

    fn outer<'p>(&mut self, name: &Ident) -> Lowered<Value<'p, NodeId>> {
        Err(Diagnostic::error("E0101", name.span, format!("there is no `{}` here", name.name)))
    }

    fn call<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        function: Builtin,
        arguments: &[Value<'p, NodeId>],
        spans: &Spans,
    ) -> Lowered<Value<'p, NodeId>> {
        if function.name == "random_stream" {
            let stream = evaluator.frames.last_mut().map_or(0, |frame| frame.stream());
            return Ok(Value::Constant(Constant::Int(i64::from(stream))));
        }
        if function.name == "with_loss" && !evaluator.penalises {
            return Ok(arguments[0].clone());
        }
        builtin::call(&mut evaluator.target, function.name, arguments, spans)
    }

    fn weight<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &mut Scope<'p, NodeId>,
        weight: &'p ast::Weight,
    ) -> Lowered<()> {
        weights::weight(evaluator, scope, weight)
    }

    fn update<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, NodeId>,
        target: &Ident,
        value: Value<'p, NodeId>,
    ) -> Lowered<()> {
        weights::update(evaluator, scope, target, value)
    }

    fn scan<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &mut Scope<'p, NodeId>,
        sequences: &'p [ast::Sequence],
        body: &'p [ast::Statement],
        span: Span,
    ) -> Lowered<()> {
        scan::scan(evaluator, scope, sequences, body, span)
    }

    fn applied(&mut self, path: String, class: &str, outputs: Vec<NodeId>) {
        let outputs = outputs.into_iter().map(|id| self.graph.node(id).ty.clone()).collect();
        self.network.layers.push(Layer { path, class: class.to_owned(), outputs, elements: None });
    }

    fn contraction<'p>(
        evaluator: &mut Evaluator<'p, Self>,
        scope: &Scope<'p, NodeId>,
        contraction: &'p ast::Contraction,
    ) -> Lowered<Value<'p, NodeId>> {
        contraction::lower(evaluator, scope, contraction).map(Value::Element)
    }

    fn begin(&mut self, target: &Ident, span: Span) {
        self.label.value = Some((target.name.clone(), span));
    }

    fn enter(&mut self, function: &str, path: &str) -> Label {
        let origin = Arc::new(Origin { function: function.to_owned(), path: path.to_owned() });
        let value = self.label.value.clone();
        std::mem::replace(&mut self.label, Label { value, origin: Some(origin) })
    }

    fn leave(&mut self, label: Label) {
        self.label = label;
    }
}
