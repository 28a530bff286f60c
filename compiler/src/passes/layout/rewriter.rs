//! [`Rewriter`]: gives nodes their new orders of axes.

use std::collections::HashMap;

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Aggregation, Contraction, ContractionLeaf, Graph, NodeId, NodeMap, Op};
use crate::scalar::Inst;
use crate::tensor::TensorType;

use super::classes::parts;
use super::{Order, is_identity, is_view_of};

/// Rewrites the nodes of a graph in their new orders.
pub(super) struct Rewriter<'a> {
    graph: &'a mut Graph,
    /// The new order of each node that moves.
    orders: NodeMap<Order>,
    /// For each product: the operands that it reads in another order than they have, and that
    /// order.
    read: NodeMap<Vec<(usize, Order)>>,
    /// Permuted copies and views made so far.
    made: HashMap<(NodeId, Order), NodeId>,
}

impl<'a> Rewriter<'a> {
    pub fn new(
        graph: &'a mut Graph,
        orders: NodeMap<Order>,
        read: NodeMap<Vec<(usize, Order)>>,
    ) -> Rewriter<'a> {
        Rewriter { graph, orders, read, made: HashMap::new() }
    }

    fn order(&self, id: NodeId) -> Order {
        self.orders.get(id).cloned().unwrap_or_else(|| (0..self.graph.shape(id).len()).collect())
    }

    /// Returns the shape of a node before the pass.
    fn plain_shape(&self, id: NodeId) -> Vec<usize> {
        let shape = self.graph.shape(id);
        self.orders.get(id).map_or_else(|| shape.to_vec(), |order| permuted(shape, &inverse(order)))
    }

    /// Rewrites a node in its new order. Its operands must have theirs already.
    pub fn rewrite(&mut self, id: NodeId) {
        let (order, operands) = (self.order(id), self.graph.operands(id).to_vec());
        let stays = |id: &NodeId| !self.orders.contains(*id);
        if stays(&id) && operands.iter().all(stays) && !self.read.contains(id) {
            return;
        }
        let (mut op, ty) = (self.graph.node(id).op.clone(), self.graph.node(id).ty.clone());
        let shape = permuted(&ty.shape, &order);
        let operands: Vec<NodeId> = match &mut op {
            Op::Contraction(op) => {
                let mut orders: Vec<Order> =
                    operands.iter().map(|&operand| self.order(operand)).collect();
                for (number, order) in self.read.get(id).into_iter().flatten() {
                    orders[*number].clone_from(order);
                }
                for access in &mut op.accesses {
                    access.index = permuted(&access.index, &orders[access.operand]);
                }
                if op.default {
                    orders[operands.len() - 1].clone_from(&order);
                }
                op.output = permuted(&op.output, &order);
                number_in_order(op);
                operands
                    .iter()
                    .zip(&orders)
                    .map(|(&operand, order)| self.in_order(operand, order))
                    .collect()
            }
            op if op.is_elementwise() => {
                operands.iter().map(|&operand| self.broadcast(operand, &order)).collect()
            }
            Op::Reshape if self.keeps_order(operands[0], &ty.shape, &order) => operands,
            Op::Reshape if !is_identity(&order) => {
                let operand = self.plain(operands[0]);
                let plain = self.reshaped(operand, ty.shape);
                op = transposition(ty.dtype, &shape, &order);
                vec![plain]
            }
            Op::Index { axis } => {
                *axis = inverse(&order)[*axis];
                operands
            }
            _ => operands.iter().map(|&operand| self.plain(operand)).collect(),
        };
        self.graph.set(id, op, &operands);
        self.graph.node_mut(id).ty.shape = shape;
    }

    /// Returns the node in its original order.
    fn plain(&mut self, id: NodeId) -> NodeId {
        self.in_order(id, &(0..self.graph.shape(id).len()).collect::<Order>())
    }

    /// Returns the node in the given order.
    fn in_order(&mut self, id: NodeId, order: &[usize]) -> NodeId {
        let now = self.order(id);
        if now == order {
            return id;
        }
        if let Some(&made) = self.made.get(&(id, order.to_vec())) {
            return made;
        }
        let places = inverse(&now);
        let moves: Order = order.iter().map(|&axis| places[axis]).collect();
        let (old, dtype) = (self.graph.shape(id).to_vec(), self.graph.dtype(id));
        let shape = permuted(&old, &moves);
        let made = if is_view_of(&old, &moves) {
            self.reshaped(id, shape)
        } else {
            let made = transposition(dtype, &shape, &moves);
            let made = self.graph.add(made, TensorType { dtype, shape }, &[id]);
            self.graph.node_mut(made).origin = self.graph.node(id).origin.clone();
            made
        };
        self.made.insert((id, order.to_vec()), made);
        made
    }

    /// Returns the operand for an elementwise operation whose result has the given order.
    fn broadcast(&mut self, id: NodeId, order: &[usize]) -> NodeId {
        let rank = self.graph.shape(id).len();
        let missing = order.len() - rank;
        if rank == 0 || is_identity(&order[..missing]) {
            return self.in_order(
                id,
                &order[missing..].iter().map(|axis| axis - missing).collect::<Order>(),
            );
        }
        let plain = self.plain(id);
        let shape = [&vec![1; missing], self.graph.shape(plain)].concat();
        let padded = self.reshaped(plain, shape);
        self.in_order(padded, order)
    }

    fn reshaped(&mut self, id: NodeId, shape: Vec<usize>) -> NodeId {
        let of =
            if self.graph.node(id).op == Op::Reshape { self.graph.operands(id)[0] } else { id };
        if self.graph.shape(of) == shape {
            return of;
        }
        let dtype = self.graph.dtype(of);
        self.graph.add(Op::Reshape, TensorType { dtype, shape }, &[of])
    }

    /// Returns whether a reshape to `shape`, in `order`, keeps the operand's elements in their
    /// current order: both have the reshape's parts in the same sequence.
    fn keeps_order(&self, operand: NodeId, shape: &[usize], order: &[usize]) -> bool {
        let parts = parts(&self.plain_shape(operand), shape);
        let (from, to): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let (from, to) = (sequence_of(&from, &self.order(operand)), sequence_of(&to, order));
        from.is_some() && from == to
    }
}

/// Returns the sequence in which `order` has the parts, each a list of ascending axes. `None` if
/// the axes of a part are not contiguous and ascending in `order`.
fn sequence_of(parts: &[Vec<usize>], order: &[usize]) -> Option<Vec<usize>> {
    let part = |axis: usize| parts.iter().position(|part| part.contains(&axis));
    let mut sequence: Vec<usize> = order.iter().filter_map(|&axis| part(axis)).collect();
    sequence.dedup();
    let axes: Vec<usize> = order.iter().copied().filter(|&axis| part(axis).is_some()).collect();
    let expected: Vec<usize> =
        sequence.iter().flat_map(|&part| parts[part].iter().copied()).collect();
    (axes == expected).then_some(sequence)
}

/// Returns the position of each axis in an order.
fn inverse(order: &[usize]) -> Order {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &axis)| places[axis] = place);
    places
}

fn permuted<T: Clone>(list: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&axis| list[axis].clone()).collect()
}

/// Returns the operation whose result, of shape `shape`, has axis `order[k]` of its operand as axis
/// `k`.
fn transposition(dtype: DType, shape: &[usize], order: &[usize]) -> Op {
    let variables = |places: &mut dyn Iterator<Item = usize>| places.map(Affine::var).collect();
    let (place, index) =
        (variables(&mut (0..shape.len())), variables(&mut inverse(order).into_iter()));
    Op::Contraction(Box::new(Contraction::of_tensor(
        Aggregation::Assign,
        dtype,
        shape,
        place,
        index,
    )))
}

/// Renumbers the variables in the order in which they occur in the output, then in the accesses, so
/// that inner loops run along memory. For argmax and argmin the order of variables has a meaning,
/// so it stays.
fn number_in_order(op: &mut Contraction) {
    if matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin) {
        return;
    }
    let indexed =
        op.accesses.iter().flat_map(|access| access.index.iter().map(|index| &index.affine));
    let mut variables: Vec<usize> = Vec::new();
    for variable in
        op.output.iter().chain(indexed).flat_map(Affine::variables).chain(0..op.indices.len())
    {
        if !variables.contains(&variable) {
            variables.push(variable);
        }
    }
    let numbers = inverse(&variables);
    op.indices = permuted(&op.indices, &variables);
    let renumber = |affine: &mut Affine| {
        *affine =
            affine.map_variables(|variable| numbers[variable]).unwrap_or_else(|| affine.clone());
    };
    op.output.iter_mut().chain(&mut op.constraints).for_each(renumber);
    op.accesses
        .iter_mut()
        .flat_map(|access| &mut access.index)
        .for_each(|index| renumber(&mut index.affine));
    for (inst, _) in &mut op.body.insts {
        if let Inst::Leaf(ContractionLeaf::Index(affine)) = inst {
            renumber(affine);
        }
    }
}
