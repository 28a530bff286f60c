//! Sums of products in each step that are one after the loop.
//!
//! Example: `dW[k, u] = +(h[b, k] * g[b, u])`, summed over the steps, is `+(H[t, b, k] * G[t, b, u])` over t and b, where H and G
//! are what h and g were in each step: one large product instead of many small ones, and no sum that is carried.
//!
//! Why it is sound: sums may be reordered, and a point of the new contraction is valid where it was in its step.

use std::collections::HashSet;

use crate::affine::Affine;
use crate::graph::{Aggregation, Contraction, Graph, Index, IndexRange, NodeId, Op};
use crate::scalar::BinaryOp;

/// The sums of products of which `node` is the sum; `None` where something else is among them, or a node of `forward`.
pub(super) fn sums(body: &Graph, node: NodeId, forward: &HashSet<NodeId>) -> Option<Vec<NodeId>> {
    match &body.node(node).op {
        _ if forward.contains(&node) => None,
        Op::Contraction(op) if op.aggregation == Aggregation::Sum && !op.default => Some(vec![node]),
        Op::Binary(BinaryOp::Add) => {
            let operands = body.operands(node);
            let is_whole = operands.iter().all(|&operand| body.shape(operand) == body.shape(node));
            let parts = operands.into_iter().map(|operand| sums(body, operand, forward));
            is_whole.then(|| parts.collect::<Option<Vec<_>>>())?.map(|parts| parts.concat())
        }
        _ => None,
    }
}

/// `op` over all of `length` steps: `axes` says of each operand along which axis the steps are, if it has any.
pub(super) fn over_steps(op: &Contraction, length: usize, axes: &[Option<usize>]) -> Option<Contraction> {
    let mut op = op.clone();
    let step = Affine::var(op.indices.len());
    let mut name = "t".to_owned();
    while op.indices.iter().any(|index| index.name == name) {
        name.push('_');
    }
    op.indices.push(IndexRange { name, low: 0, high: i64::try_from(length).ok()? });
    for access in &mut op.accesses {
        if let Some(axis) = axes[access.operand] {
            access.index.insert(axis, Index { affine: step.clone(), access: None });
        }
    }
    Some(op)
}
