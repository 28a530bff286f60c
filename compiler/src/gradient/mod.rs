//! Gradients, graph to graph: reverse accumulation over the nodes between what is differentiated and what for.
//!
//! Example: of `%3 = contract sum [n, u] (…) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 }`, whose own gradient
//! is `%4`, the gradient with respect to `%1` is `contract sum [k, u] (…) { v0 = %4[n, u]; v1 = %0[n, k]; v2 = mul v0 v1; yield v2 }`.
//!
//! Always true:
//! - only nodes of IR 1 as it is are added, so that passes and devices see nothing new, and a gradient has a gradient;
//! - the gradient of a node has the node's type; what is no float has none, and its part is left out;
//! - nothing is computed for a node that does not depend on what the gradient is with respect to.
//!
//! Where a function has a kink: `abs` has 0 at 0; `max` and `min` of two equal values give half to each, as in PyTorch and JAX;
//! a condition has no gradient, so that `select` gives all to what it takes.
//!
//! - `rules`: each scalar operation's derivative, once for whole tensors and for the bodies of contractions;
//! - `tensors`: the former; `body`: the latter;
//! - `contraction`: a contraction's gradient is another one; `aggregation`: the share of each point in a product or a
//!   maximum; `gather`: indices known at run time; `prune`: what the new body does not need;
//! - `scan`: a loop backwards.

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

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::dtype::Scalar;
use crate::graph::{Graph, NodeId, Op};
use crate::tensor::TensorType;
use rules::Algebra;
use tensors::Tensors;

/// Why there is no gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Only a tensor of one element has a gradient; this one has another type.
    NotOneValue(TensorType),
    /// The index arithmetic of a node's gradient leaves 64 bits, or a tensor that it needs any memory.
    TooLarge { value: String },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotOneValue(ty) => write!(f, "a gradient is that of one float, and this is {ty}"),
            Error::TooLarge { value } => {
                write!(f, "the gradient of {value} needs more than 64-bit indices or any memory")
            }
        }
    }
}

impl std::error::Error for Error {}

/// The gradient of `of`, which has one element, with respect to each of `with_respect_to`: nodes of the same types, which
/// are added to the graph. It is zeros where `of` does not depend on the node, and for what is no float.
pub fn gradient(graph: &mut Graph, of: NodeId, with_respect_to: &[NodeId]) -> Result<Vec<NodeId>, Error> {
    let found = paths(graph, of, with_respect_to)?;
    Ok(with_respect_to
        .iter()
        .zip(found)
        .map(|(&node, found)| found.unwrap_or_else(|| zeros_like(graph, node)))
        .collect())
}

/// As [`gradient`]; `None` where `of` does not depend on the node, or by nothing that hands a gradient on.
pub fn paths(graph: &mut Graph, of: NodeId, with_respect_to: &[NodeId]) -> Result<Vec<Option<NodeId>>, Error> {
    let ty = graph.node(of).ty.clone();
    if ty.elements() != 1 || !ty.dtype.is_float() {
        return Err(Error::NotOneValue(ty));
    }
    let seed = Tensors::new(graph, of).filled(Scalar::one(ty.dtype), &ty.shape);
    reverse(graph, &[(of, seed)], with_respect_to)
}

/// The gradient of what does not depend on a node.
pub fn zeros_like(graph: &mut Graph, node: NodeId) -> NodeId {
    let ty = graph.node(node).ty.clone();
    Tensors::new(graph, node).filled(Scalar::zero(ty.dtype), &ty.shape)
}

/// The sum of the gradients of `of`, each multiplied by the seed beside it, which has its node's type: as [`gradient`].
pub fn gradients(graph: &mut Graph, of: &[(NodeId, NodeId)], with_respect_to: &[NodeId]) -> Result<Vec<NodeId>, Error> {
    let found = reverse(graph, of, with_respect_to)?;
    Ok(with_respect_to
        .iter()
        .zip(found)
        .map(|(&node, found)| found.unwrap_or_else(|| zeros_like(graph, node)))
        .collect())
}

/// As [`gradients`]; `None` where a gradient is zero because nothing depends on the node.
fn reverse(
    graph: &mut Graph,
    of: &[(NodeId, NodeId)],
    with_respect_to: &[NodeId],
) -> Result<Vec<Option<NodeId>>, Error> {
    let order = graph.topological();
    let active = active(graph, &order, of, with_respect_to);
    let mut parts: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
    for &(node, seed) in of {
        parts.entry(node).or_default().push(seed);
    }
    let mut total: HashMap<NodeId, NodeId> = HashMap::new();
    let before: HashSet<NodeId> = order.iter().copied().collect();
    for id in order.into_iter().rev().filter(|id| active.contains(id)) {
        if let Op::Scan(_) = graph.node(id).op {
            for (operand, part) in scan::gradient(graph, id, &total, &active)? {
                parts.entry(operand).or_default().push(part);
            }
            continue;
        }
        let mut tensors = Tensors::new(graph, id);
        let sum = parts.remove(&id).unwrap_or_default().into_iter().reduce(|a, b| tensors.sum(a, b));
        let Some(sum) = sum else { continue };
        if !before.contains(&sum) {
            tensors.name(sum, id);
        }
        total.insert(id, sum);
        let operands = graph.operands(id);
        let wanted: Vec<bool> = operands.iter().map(|operand| active.contains(operand)).collect();
        let found = match &graph.node(id).op {
            Op::Contraction(op) => contraction::gradient(graph, id, &op.clone(), sum, &wanted)?,
            _ => Tensors::new(graph, id).gradient(sum, &wanted),
        };
        for (operand, part) in found {
            parts.entry(operands[operand]).or_default().push(part);
        }
    }
    Ok(with_respect_to.iter().map(|node| total.get(node).copied()).collect())
}

/// The nodes that carry a gradient: floats that depend on one of `with_respect_to`, and on which one of `of` depends.
fn active(graph: &Graph, order: &[NodeId], of: &[(NodeId, NodeId)], with_respect_to: &[NodeId]) -> HashSet<NodeId> {
    let with_respect_to: HashSet<&NodeId> = with_respect_to.iter().collect();
    let mut reached: HashSet<NodeId> = HashSet::new();
    for &id in order {
        let is_float = graph.dtype(id).is_float() || matches!(graph.node(id).op, Op::Scan(_));
        let depends = || graph.operands(id).iter().any(|operand| reached.contains(operand));
        let passes = || !matches!(graph.node(id).op, Op::StopGradient) && depends();
        if is_float && (with_respect_to.contains(&id) || passes()) {
            reached.insert(id);
        }
    }
    let mut needed: HashSet<NodeId> = of.iter().map(|(node, _)| *node).collect();
    for &id in order.iter().rev() {
        if needed.contains(&id) && !matches!(graph.node(id).op, Op::StopGradient) {
            needed.extend(graph.operands(id));
        }
    }
    reached.retain(|id| needed.contains(id));
    reached
}
