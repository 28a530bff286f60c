//! Gradients, graph to graph: reverse accumulation over the nodes between the differentiated output
//! and the nodes with respect to which it is differentiated.
//!
//! Example: let `%4` be the gradient of `%3`, with
//!
//! ```text
//! %3 = contract sum [n, u] (…) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 }
//! ```
//!
//! Then the gradient with respect to `%1` is
//!
//! ```text
//! contract sum [k, u] (…) { v0 = %4[n, u]; v1 = %0[n, k]; v2 = mul v0 v1; yield v2 }
//! ```
//!
//! Invariants:
//! - Only ordinary nodes of IR 1 are added, so passes and devices need no support for gradients,
//!   and a gradient has a gradient.
//! - The gradient of a node has the node's type. Nodes that are no floats have no gradient, and
//!   contribute nothing.
//! - Nothing is computed for a node that does not depend on the nodes to differentiate with respect
//!   to.
//!
//! At points without a derivative: `abs` has gradient 0 at 0; `max` and `min` of two equal values
//! give half to each, as in PyTorch and JAX; conditions have no gradient, so `select` gives all to
//! the selected operand.
//!
//! The parts:
//! - `rules`: the derivative of each scalar operation, for whole tensors and for bodies of
//!   contractions.
//! - `tensors`: elementwise operations on whole tensors; `body`: bodies of contractions.
//! - `contraction`: the gradient of a contraction, which is another contraction; `aggregation`: the
//!   share of each point in a product or a maximum; `gather`: indices known at run time; `prune`:
//!   removal of what the new body does not need.
//! - `scan`: the gradient of a scan, which is a scan backwards.

mod aggregation;
mod body;
mod contraction;
mod gather;
mod prune;
mod rules;
mod scan;
mod tensors;
#[cfg(test)]
mod tests;

use crate::dtype::Scalar;
use crate::graph::{Graph, NodeId, NodeMap, NodeSet, Op};
use crate::tensor::TensorType;
use rules::Algebra;
use tensors::Tensors;

/// Units of work for a node that a gradient goes through.
const NODE_UNITS: u64 = 15;

/// The reason why there is no gradient.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The differentiated tensor, whose type this is, is not a float with one element.
    #[error("a gradient is that of one float, and this is {0}")]
    NotOneValue(TensorType),
    /// The gradient of a node needs index arithmetic beyond 64 bits, or a tensor beyond any memory.
    #[error("the gradient of {value} needs more than 64-bit indices or any memory")]
    TooLarge {
        /// The name of the value.
        value: String,
    },
    /// Its nodes exceed the budget of the graph.
    #[error("the gradient exceeds the budget of the graph")]
    Exceeded,
}

/// Adds the gradient of `of`, which has one element, with respect to each node of
/// `with_respect_to`. The gradients have the types of these nodes. A gradient is zeros if `of` does
/// not depend on the node, or if the node is no float.
pub fn gradient(
    graph: &mut Graph,
    of: NodeId,
    with_respect_to: &[NodeId],
) -> Result<Vec<NodeId>, Error> {
    let found = paths(graph, of, with_respect_to)?;
    Ok(with_respect_to
        .iter()
        .zip(found)
        .map(|(&node, found)| found.unwrap_or_else(|| zeros_like(graph, node)))
        .collect())
}

/// Adds gradients as [`gradient`] does. Returns `None` for a node that `of` does not depend on, or
/// only through operations that propagate no gradient.
pub fn paths(
    graph: &mut Graph,
    of: NodeId,
    with_respect_to: &[NodeId],
) -> Result<Vec<Option<NodeId>>, Error> {
    let ty = graph.node(of).ty.clone();
    if ty.elements() != 1 || !ty.dtype.is_float() {
        return Err(Error::NotOneValue(ty));
    }
    let seed = Tensors::new(graph, of).filled(Scalar::one(ty.dtype), &ty.shape);
    reverse(graph, &[(of, seed)], with_respect_to)
}

/// Adds the gradient of a value that does not depend on a node: zeros.
pub fn zeros_like(graph: &mut Graph, node: NodeId) -> NodeId {
    let ty = graph.node(node).ty.clone();
    Tensors::new(graph, node).filled(Scalar::zero(ty.dtype), &ty.shape)
}

/// Adds the sums of the gradients of the nodes in `of`, each multiplied by its seed, which has the
/// node's type. Otherwise as [`gradient`].
pub fn gradients(
    graph: &mut Graph,
    of: &[(NodeId, NodeId)],
    with_respect_to: &[NodeId],
) -> Result<Vec<NodeId>, Error> {
    let found = reverse(graph, of, with_respect_to)?;
    Ok(with_respect_to
        .iter()
        .zip(found)
        .map(|(&node, found)| found.unwrap_or_else(|| zeros_like(graph, node)))
        .collect())
}

/// Adds gradients as [`gradients`] does. Returns `None` for a gradient that is zero because nothing
/// depends on the node.
fn reverse(
    graph: &mut Graph,
    of: &[(NodeId, NodeId)],
    with_respect_to: &[NodeId],
) -> Result<Vec<Option<NodeId>>, Error> {
    let order = graph.topological();
    let _ = graph.budget.spend(NODE_UNITS * order.len() as u64);
    let active = active(graph, &order, of, with_respect_to);
    let mut parts: NodeMap<Vec<NodeId>> = NodeMap::new();
    for &(node, seed) in of {
        parts.slot(node).get_or_insert_default().push(seed);
    }
    let mut total: NodeMap<NodeId> = NodeMap::new();
    let before: NodeSet = order.iter().copied().collect();
    for id in order.into_iter().rev().filter(|id| active.contains(*id)) {
        if graph.budget.check().is_err() {
            return Err(Error::Exceeded);
        }
        if let Op::Scan(_) = graph.node(id).op {
            for (operand, part) in scan::gradient(graph, id, &total, &active)? {
                parts.slot(operand).get_or_insert_default().push(part);
            }
            continue;
        }
        let mut tensors = Tensors::new(graph, id);
        let sum = parts.remove(id).unwrap_or_default().into_iter().reduce(|a, b| tensors.sum(a, b));
        let Some(sum) = sum else { continue };
        if !before.contains(sum) {
            tensors.name(sum, id);
        }
        total.insert(id, sum);
        let operands = graph.operands(id).to_vec();
        let wanted: Vec<bool> = operands.iter().map(|operand| active.contains(*operand)).collect();
        let found = match &graph.node(id).op {
            Op::Contraction(op) => contraction::gradient(graph, id, &op.clone(), sum, &wanted)?,
            _ => Tensors::new(graph, id).gradient(sum, &wanted),
        };
        for (operand, part) in found {
            parts.slot(operands[operand]).get_or_insert_default().push(part);
        }
    }
    Ok(with_respect_to.iter().map(|node| total.get(*node).copied()).collect())
}

/// Returns the nodes that propagate a gradient: floats that depend on a node of `with_respect_to`,
/// and on which a node of `of` depends.
fn active(
    graph: &Graph,
    order: &[NodeId],
    of: &[(NodeId, NodeId)],
    with_respect_to: &[NodeId],
) -> NodeSet {
    let with_respect_to: NodeSet = with_respect_to.iter().copied().collect();
    let mut reached = NodeSet::new();
    for &id in order {
        let is_float = graph.dtype(id).is_float() || matches!(graph.node(id).op, Op::Scan(_));
        let depends = || graph.operands(id).iter().any(|operand| reached.contains(*operand));
        let passes = || !matches!(graph.node(id).op, Op::StopGradient) && depends();
        if is_float && (with_respect_to.contains(id) || passes()) {
            reached.insert(id);
        }
    }
    let mut needed: NodeSet = of.iter().map(|(node, _)| *node).collect();
    for &id in order.iter().rev() {
        if needed.contains(id) && !matches!(graph.node(id).op, Op::StopGradient) {
            needed.extend(graph.operands(id));
        }
    }
    reached.iter().filter(|id| needed.contains(*id)).collect()
}
