//! The [`Target`] for whole tensors: elementwise operations become nodes of the graph.

use std::collections::HashMap;
use std::sync::Arc;

use tile_lang::Budget;
use tile_lang::ast::{self, Expr, Ident};
use tile_lang::builtin::Builtin;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::Constant;
use super::descent::Descent;
use super::expression::{Evaluator, Label, Lowered, Spans, Target};
use super::indices::overflow;
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

/// The graph under construction.
pub(super) struct Tensors {
    /// The graph of the entry, of the body of the innermost scan, or of initial values.
    pub graph: Graph,
    /// The graphs around the innermost scan, outermost first.
    outer: Vec<Outer>,
    pub network: Collected,
    pub label: Label,
    /// The weights of the samples, `f32[N]`, while a loss or a metric that sees them is applied.
    pub sample_weight: Option<NodeId>,
    /// The step as an optimizer sees it, while one is applied.
    pub descent: Option<Descent>,
    /// The masks of nodes of `graph`: see [`super::masks`].
    pub(super) masks: HashMap<NodeId, NodeId>,
}

/// A graph, and the nodes that the body of a scan in it captures.
struct Outer {
    graph: Graph,
    masks: HashMap<NodeId, NodeId>,
    /// Nodes of this graph, with the inputs of the body that stand for them.
    captures: Vec<(NodeId, NodeId)>,
}

/// The graphs that are set aside while initial values are computed.
pub(super) struct Suspended {
    outer: Vec<Outer>,
    masks: HashMap<NodeId, NodeId>,
}

impl Tensors {
    /// Returns an empty graph of this name, within a budget.
    pub fn new(name: &str, budget: &Budget) -> Self {
        let empty = |name: &str| Graph::within(name, budget);
        let network = Collected { initial: empty("initial"), ..Collected::default() };
        let label = Label::default();
        Self {
            graph: empty(name),
            outer: Vec::new(),
            network,
            label,
            sample_weight: None,
            descent: None,
            masks: HashMap::new(),
        }
    }

    /// Returns the network with these outputs.
    pub fn into_network(mut self, outputs: Vec<(String, NodeId)>) -> Network {
        self.graph.outputs = outputs;
        self.network.into_network(self.graph)
    }

    /// Switches to the graph of a loop body until [`Tensors::end_scan`].
    pub fn begin_scan(&mut self) {
        let body = Graph::within("step", &self.graph.budget);
        let graph = std::mem::replace(&mut self.graph, body);
        let masks = std::mem::take(&mut self.masks);
        self.outer.push(Outer { graph, masks, captures: Vec::new() });
    }

    /// Switches back to the surrounding graph. Returns the body with these outputs, and the nodes
    /// of the surrounding graph that it reads.
    pub fn end_scan(&mut self, outputs: Vec<(String, NodeId)>) -> (Graph, Vec<NodeId>) {
        let Some(Outer { graph, masks, captures }) = self.outer.pop() else {
            return (Graph::default(), Vec::new());
        };
        self.masks = masks;
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

    /// Adds an input of the body that gets a new value for each step.
    pub fn step_input(&mut self, name: &str, ty: TensorType) -> NodeId {
        self.graph.add(Op::Input(name.to_owned()), ty, &[])
    }

    /// Captures a value of the surrounding graph for use in the body.
    pub fn capture<'p>(&mut self, value: &Value<'p, NodeId>) -> Value<'p, NodeId> {
        match value {
            Value::Element(node) => Value::Element(self.captured(self.outer.len() - 1, *node)),
            Value::List(items) if value.has_elements() => {
                let _ = self.graph.budget.spend(items.len() as u64);
                Value::List(items.iter().map(|item| self.capture(item)).collect())
            }
            value => value.clone(),
        }
    }

    pub fn is_in_scan(&self) -> bool {
        !self.outer.is_empty()
    }

    /// Switches to the graph of initial values. [`Tensors::end_initial`] takes the returned state.
    pub fn begin_initial(&mut self) -> Suspended {
        std::mem::swap(&mut self.graph, &mut self.network.initial);
        let (outer, masks) = (std::mem::take(&mut self.outer), std::mem::take(&mut self.masks));
        Suspended { outer, masks }
    }

    pub fn end_initial(&mut self, Suspended { outer, masks }: Suspended) {
        std::mem::swap(&mut self.graph, &mut self.network.initial);
        (self.outer, self.masks) = (outer, masks);
    }

    /// Runs `work` on the graph of the entry.
    pub fn outermost<R>(&mut self, work: impl FnOnce(&mut Tensors) -> R) -> R {
        let Some(first) = self.outer.first_mut() else { return work(self) };
        std::mem::swap(&mut self.graph, &mut first.graph);
        std::mem::swap(&mut self.masks, &mut first.masks);
        let outer = std::mem::take(&mut self.outer);
        let result = work(self);
        self.outer = outer;
        if let Some(first) = self.outer.first_mut() {
            std::mem::swap(&mut self.graph, &mut first.graph);
            std::mem::swap(&mut self.masks, &mut first.masks);
        }
        result
    }

    /// Returns the node that stands for a node of the entry's graph in the current graph. In a
    /// scan, this is an input of its body.
    pub fn imported(&mut self, node: NodeId) -> NodeId {
        (0..self.outer.len()).fold(node, |node, level| self.captured(level, node))
    }

    /// Returns the input that stands for a node of `outer[level]` in the body of the scan in that
    /// graph.
    pub fn captured(&mut self, level: usize, node: NodeId) -> NodeId {
        if let Some((_, inside)) =
            self.outer[level].captures.iter().find(|(outside, _)| *outside == node)
        {
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

    /// Returns an input that the program does not declare, such as [`SEED`](crate::bindings::SEED).
    pub fn hidden(&mut self, name: &str, ty: TensorType) -> NodeId {
        let input = self.outermost(|tensors| {
            let is_it = |id: &NodeId| matches!(&tensors.graph.node(*id).op, Op::Input(other) if other == name);
            let known = tensors.graph.inputs.iter().copied().find(is_it);
            known.unwrap_or_else(|| tensors.graph.add(Op::Input(name.to_owned()), ty, &[]))
        });
        self.imported(input)
    }

    /// Returns the weights of the samples in the current graph, or `none` where there are none to
    /// see.
    pub fn weight_of_samples<'p>(&mut self) -> Value<'p, NodeId> {
        match self.sample_weight {
            Some(weight) => Value::Element(self.imported(weight)),
            None => Value::Symbol("none".into()),
        }
    }

    /// Adds a state `f32[]` with the initial value 0.
    pub fn zero_state(&mut self, path: &str, span: Span) -> Lowered<NodeId> {
        let ty = TensorType::scalar(DType::F32);
        let node = self.add(Op::Weight(path.to_owned()), ty.clone(), &[], span)?;
        let first =
            self.network.initial.add(Op::Constant(Scalar::zero(DType::F32)), ty.clone(), &[]);
        self.network.initial.outputs.push((path.to_owned(), first));
        let (path, kind) = (path.to_owned(), WeightKind::State);
        self.network.weights.push(Weight { path, ty, kind, role: Role::Metric, node });
        Ok(node)
    }

    /// Adds the sum of all elements.
    pub fn total(&mut self, node: NodeId, span: Span) -> Lowered<NodeId> {
        let ty = self.graph.node(node).ty.clone();
        let index = (0..ty.rank()).map(Affine::var).collect();
        let sum = Contraction::of_tensor(Aggregation::Sum, ty.dtype, &ty.shape, Vec::new(), index);
        self.add(Op::Contraction(Box::new(sum)), TensorType::scalar(ty.dtype), &[node], span)
    }

    /// Adds all elements of `penalty` to the sum of all penalties.
    pub fn penalise(&mut self, penalty: NodeId, span: Span) -> Lowered<()> {
        if self.is_in_scan() {
            let error = Diagnostic::error("E0233", span, "cannot add to the loss in a `scan`");
            return Err(error.help("stack the terms with `yield` and add them after the loop"));
        }
        let mut penalty = self.cast_to(penalty, DType::F32);
        if !self.shape(penalty).is_empty() {
            penalty = self.total(penalty, span)?;
        }
        self.network.penalty = Some(match self.network.penalty {
            Some(sum) => self.binary(BinaryOp::Add, [sum, penalty], span)?,
            None => penalty,
        });
        Ok(())
    }

    pub fn cast_to(&mut self, node: NodeId, dtype: DType) -> NodeId {
        if self.graph.dtype(node) == dtype { node } else { self.cast(node, dtype) }
    }

    /// Returns the location of the current statement, or `other` if there is none.
    pub fn span(&self, other: Span) -> Span {
        self.label.value.as_ref().map_or(other, |(_, span)| *span)
    }

    /// Adds a node for the current statement. `span` is the location for errors, such as a tensor
    /// that is too large.
    pub fn add(
        &mut self,
        op: Op,
        ty: TensorType,
        operands: &[NodeId],
        span: Span,
    ) -> Lowered<NodeId> {
        // Strides must fit even if the tensor has no elements.
        let mut sizes = ty.shape.iter().map(|&size| size.max(1));
        let bytes = sizes.try_fold(ty.dtype.size(), usize::checked_mul);
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(Diagnostic::error(
                "E0214",
                span,
                format!("a tensor {ty} is larger than any memory"),
            ));
        }
        self.graph.budget.check().map_err(|exceeded| exceeded.at(span))?;
        if let Op::Contraction(contraction) = &op
            && contraction.points().is_none()
        {
            return Err(overflow(span));
        }
        let types: Vec<&TensorType> =
            operands.iter().map(|&operand| &self.graph.node(operand).ty).collect();
        op.verify_positions(&ty, &types)
            .map_err(|message| Diagnostic::error("E0214", span, message))?;
        Ok(self.add_small(op, ty, operands))
    }

    /// Adds a node for the current statement, which must not be larger than its operands.
    fn add_small(&mut self, op: Op, ty: TensorType, operands: &[NodeId]) -> NodeId {
        let id = self.graph.add(op, ty, operands);
        let node = self.graph.node_mut(id);
        (node.name, node.span) = self.label.value.clone().unzip();
        if node.span.is_some_and(Span::in_library) {
            node.span = self.label.call.or(node.span);
        }
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

    fn budget(&self) -> Budget {
        self.graph.budget.clone()
    }

    fn path(&self, element: NodeId) -> Option<String> {
        let weight = self
            .network
            .weights
            .iter()
            .find(|weight| weight.node == element)
            .map(|weight| &weight.path);
        let next = || {
            self.network.updates.iter().find(|(_, next)| **next == element).map(|(path, _)| path)
        };
        weight.or_else(next).cloned()
    }

    fn next(&self, path: &str) -> Option<NodeId> {
        self.network.updates.get(path).copied()
    }

    fn constant(&mut self, scalar: Scalar) -> NodeId {
        self.add_small(Op::Constant(scalar), TensorType::scalar(scalar.dtype), &[])
    }

    fn unary(&mut self, op: UnaryOp, operand: NodeId) -> NodeId {
        let ty = self.graph.node(operand).ty.clone();
        let result = self.add_small(Op::Unary(op), ty, &[operand]);
        self.keep_mask(result, operand);
        result
    }

    fn cast(&mut self, operand: NodeId, dtype: DType) -> NodeId {
        let ty = TensorType::new(dtype, self.graph.shape(operand));
        let result = self.add_small(Op::Cast, ty, &[operand]);
        self.keep_mask(result, operand);
        result
    }

    fn binary(&mut self, op: BinaryOp, operands: [NodeId; 2], span: Span) -> Lowered<NodeId> {
        let dtype = if op.is_comparison() { DType::Bool } else { self.graph.dtype(operands[0]) };
        let ty = TensorType::new(dtype, self.broadcast(&operands, span)?);
        let result = self.add(Op::Binary(op), ty, &operands, span)?;
        self.keep_masks(result, &operands, span)
    }

    fn select(&mut self, operands: [NodeId; 3], span: Span) -> Lowered<NodeId> {
        let ty = TensorType::new(self.graph.dtype(operands[1]), self.broadcast(&operands, span)?);
        let result = self.add(Op::Select, ty, &operands, span)?;
        self.keep_masks(result, &operands, span)
    }

    fn access<'p>(
        _: &mut Evaluator<'p, Self>,
        _: &Scope<'p, NodeId>,
        tensor: &Ident,
        _: &'p [Expr],
        span: Span,
    ) -> Lowered<Value<'p, NodeId>> {
        Err(Diagnostic::error(
            "E0116",
            span,
            format!("`{}` is indexed outside a contraction", tensor.name),
        ))
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

    fn enter(&mut self, function: &str, path: &str, call: Span) -> Label {
        let origin = Arc::new(Origin { function: function.to_owned(), path: path.to_owned() });
        let value = self.label.value.clone();
        let call = if call.in_library() { self.label.call } else { Some(call) };
        std::mem::replace(&mut self.label, Label { value, origin: Some(origin), call })
    }

    fn leave(&mut self, label: Label) {
        self.label = label;
    }
}
