//! Elementwise operations on whole tensors, and their gradients.

use std::sync::Arc;

use super::contraction::uniform;
use super::rules::{self, Algebra};
use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Aggregation, Contraction, Graph, IndexRange, NodeId, Op, Origin};
use crate::scalar::{BinaryOp, Program, UnaryOp};
use crate::tensor::{TensorType, broadcast};
use tile_lang::span::Span;

/// A graph to which parts of the gradient of one of its nodes are added.
pub(super) struct Tensors<'a> {
    pub graph: &'a mut Graph,
    id: NodeId,
    origin: Option<Arc<Origin>>,
    span: Option<Span>,
}

impl<'a> Tensors<'a> {
    /// Returns a builder whose nodes are parts of the gradient of node `id`.
    pub fn new(graph: &'a mut Graph, id: NodeId) -> Tensors<'a> {
        let node = graph.node(id);
        let (origin, span) = (node.origin.clone(), node.span);
        Tensors { graph, id, origin, span }
    }

    pub fn add(&mut self, op: Op, ty: TensorType, operands: &[NodeId]) -> NodeId {
        let id = self.graph.add(op, ty, operands);
        let node = self.graph.node_mut(id);
        (node.origin, node.span) = (self.origin.clone(), self.span);
        id
    }

    /// Names the gradient of `of`, unless it has a name already.
    pub fn name(&mut self, gradient: NodeId, of: NodeId) {
        let name = self.graph.node(of).name.as_deref().or(self.graph.node(of).op.given_name());
        let name = name.map(|name| format!("d{name}"));
        let node = self.graph.node_mut(gradient);
        if node.name.is_none()
            && !matches!(node.op, Op::Constant(_))
            && node.op.given_name().is_none()
        {
            node.name = name;
        }
    }

    /// Adds a tensor with the same number at every place of a shape.
    pub fn filled(&mut self, scalar: Scalar, shape: &[usize]) -> NodeId {
        if shape.is_empty() {
            return self.scalar(scalar);
        }
        let mut body = Program::default();
        let number = body.constant(scalar);
        body.results = vec![number];
        let op = Contraction {
            aggregation: Aggregation::Assign,
            rank: None,
            indices: IndexRange::all(shape),
            output: (0..shape.len()).map(Affine::var).collect(),
            accesses: Vec::new(),
            constraints: Vec::new(),
            body,
            default: false,
        };
        self.add(Op::Contraction(Box::new(op)), TensorType::new(scalar.dtype, shape), &[])
    }

    /// Adds `value` at the places of `shape`. Axis `a` of `value` runs along axis `axes[a]` of
    /// `shape`.
    pub fn rearranged(&mut self, value: NodeId, shape: &[usize], axes: &[usize]) -> NodeId {
        self.read_at(value, axes.iter().map(|&axis| Affine::var(axis)).collect(), shape, None)
    }

    /// Adds `value[index]` at the places of `shape`, whose axes number the variables. Places
    /// outside of `shape` have the default.
    pub fn read_at(
        &mut self,
        value: NodeId,
        index: Vec<Affine>,
        shape: &[usize],
        default: Option<NodeId>,
    ) -> NodeId {
        let output = (0..shape.len()).map(Affine::var).collect();
        let whole = default.map_or(shape, |default| self.graph.shape(default)).to_vec();
        self.copied(Aggregation::Assign, value, shape, (output, whole), index, default)
    }

    /// Adds the aggregate of `value[index]` at the places `output` of a shape, over variables that
    /// run over `extents`.
    fn copied(
        &mut self,
        aggregation: Aggregation,
        value: NodeId,
        extents: &[usize],
        (output, shape): (Vec<Affine>, Vec<usize>),
        index: Vec<Affine>,
        default: Option<NodeId>,
    ) -> NodeId {
        let dtype = self.graph.dtype(value);
        let op = Contraction::of_tensor(aggregation, dtype, extents, output, index);
        let op = Contraction { default: default.is_some(), ..op };
        let operands: Vec<NodeId> = [value].into_iter().chain(default).collect();
        self.add(Op::Contraction(Box::new(op)), TensorType::new(dtype, shape), &operands)
    }

    /// Adds the gradient of a tensor of `shape` that was broadcast to the shape of `g`: the sum
    /// over all reads of each element.
    pub fn summed_to(&mut self, g: NodeId, shape: &[usize]) -> NodeId {
        let from = self.graph.shape(g).to_vec();
        if from == shape {
            return g;
        }
        let leading = from.len() - shape.len();
        let along = |(axis, &size): (usize, &usize)| {
            if size == 1 && from[leading + axis] != 1 {
                Affine::constant(0)
            } else {
                Affine::var(leading + axis)
            }
        };
        let output = shape.iter().enumerate().map(along).collect();
        let index = (0..from.len()).map(Affine::var).collect();
        self.copied(Aggregation::Sum, g, &from, (output, shape.to_vec()), index, None)
    }

    /// Adds the gradients of the wanted operands of a node, and returns them with the operands'
    /// positions. `g` is the node's own gradient. Contractions are not supported here.
    pub fn gradient(&mut self, g: NodeId, wanted: &[bool]) -> Vec<(usize, NodeId)> {
        let (id, operands) = (self.id, self.graph.operands(self.id).to_vec());
        let found = match (self.graph.node(id).op.clone(), operands.as_slice()) {
            (Op::Unary(op), &[x]) => vec![(0, rules::unary(self, op, x, id, g))],
            (Op::Binary(op), &[a, b]) => {
                let [left, right] = rules::binary(self, op, [a, b], id, g, [wanted[0], wanted[1]]);
                vec![(0, left), (1, right)]
            }
            (Op::Select, &[condition, ..]) => {
                let [then, otherwise] = rules::select(self, condition, g, [wanted[1], wanted[2]]);
                vec![(1, then), (2, otherwise)]
            }
            (Op::Cast, &[x]) => {
                let ty = self.graph.node(x).ty.clone();
                vec![(0, Some(self.add(Op::Cast, ty, &[g])))]
            }
            (Op::Reshape, &[x]) => {
                let ty = self.graph.node(x).ty.clone();
                let same = uniform(self.graph, g).map(|scalar| self.filled(scalar, &ty.shape));
                vec![(0, Some(same.unwrap_or_else(|| self.add(Op::Reshape, ty, &[g]))))]
            }
            // All other operations have no float operands, or propagate no gradient.
            _ => vec![],
        };
        let mut parts = Vec::with_capacity(found.len());
        for (operand, part) in found {
            if let Some(part) = part.filter(|_| wanted[operand]) {
                let shape = self.graph.shape(operands[operand]).to_vec();
                parts.push((operand, self.summed_to(part, &shape)));
            }
        }
        parts
    }
}

impl Algebra for Tensors<'_> {
    type Value = NodeId;

    fn dtype(&self, value: NodeId) -> DType {
        self.graph.dtype(value)
    }

    fn scalar(&mut self, scalar: Scalar) -> NodeId {
        self.add(Op::Constant(scalar), TensorType::scalar(scalar.dtype), &[])
    }

    fn unary(&mut self, op: UnaryOp, a: NodeId) -> NodeId {
        let ty = self.graph.node(a).ty.clone();
        self.add(Op::Unary(op), ty, &[a])
    }

    fn binary(&mut self, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
        if let (Op::Constant(a), Op::Constant(b)) = (&self.graph.node(a).op, &self.graph.node(b).op)
        {
            let scalar = op.evaluate(*a, *b);
            return self.scalar(scalar);
        }
        let dtype = if op.is_comparison() { DType::Bool } else { self.graph.dtype(a) };
        let ty = TensorType::new(dtype, self.broadcast(&[a, b]));
        self.add(Op::Binary(op), ty, &[a, b])
    }

    /// Multiplies by a scalar if one operand is filled with it.
    fn product(&mut self, a: NodeId, b: NodeId) -> NodeId {
        let shape = self.broadcast(&[a, b]);
        for (number, other) in [(a, b), (b, a)] {
            let Some(scalar) =
                uniform(self.graph, number).filter(|_| self.graph.shape(other) == shape)
            else {
                continue;
            };
            if scalar == Scalar::one(scalar.dtype) {
                return other;
            }
            let number = self.scalar(scalar);
            return self.binary(BinaryOp::Mul, other, number);
        }
        self.binary(BinaryOp::Mul, a, b)
    }

    fn select(&mut self, condition: NodeId, then: NodeId, otherwise: NodeId) -> NodeId {
        let ty =
            TensorType::new(self.graph.dtype(then), self.broadcast(&[condition, then, otherwise]));
        self.add(Op::Select, ty, &[condition, then, otherwise])
    }
}

impl Tensors<'_> {
    /// Returns the common shape of operands. It exists, because they are a node's operands, that
    /// node, or its gradient.
    fn broadcast(&self, operands: &[NodeId]) -> Vec<usize> {
        broadcast(operands.iter().map(|&id| self.graph.shape(id))).unwrap_or_default()
    }
}
