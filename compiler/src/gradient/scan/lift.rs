//! Lifts sums of products out of a loop: one product over all steps after the loop replaces a
//! product in each step.
//!
//! Example: `dW[k, u] = +(h[b, k] * g[b, u])`, summed over the steps, becomes
//! `+(H[t, b, k] * G[t, b, u])` over t and b, where H and G stack the values of h and g in all
//! steps. This is one large product instead of many small ones, and no sum is carried.
//!
//! Why it is sound: sums may be reordered, and a point of the new contraction counts if and only if
//! it counts in its step.

use crate::affine::Affine;
use crate::graph::{Aggregation, Contraction, Graph, Index, IndexRange, NodeId, NodeSet, Op};
use crate::scalar::BinaryOp;

/// Returns the sums of products whose total is `node`. `None` if anything else is added, or if a
/// node of `forward` is.
pub(super) fn sums(body: &Graph, node: NodeId, forward: &NodeSet) -> Option<Vec<NodeId>> {
    match &body.node(node).op {
        _ if forward.contains(node) => None,
        Op::Contraction(op) if op.aggregation == Aggregation::Sum && !op.default => {
            Some(vec![node])
        }
        Op::Binary(BinaryOp::Add) => {
            let operands = body.operands(node);
            let is_whole = operands.iter().all(|&operand| body.shape(operand) == body.shape(node));
            let parts = operands.iter().map(|&operand| sums(body, operand, forward));
            is_whole.then(|| parts.collect::<Option<Vec<_>>>())?.map(|parts| parts.concat())
        }
        _ => None,
    }
}

/// Returns `op` summed over all of `length` steps. `axes` has the step axis of each operand, if it
/// has one.
pub(super) fn over_steps(
    op: &Contraction,
    length: usize,
    axes: &[Option<usize>],
) -> Option<Contraction> {
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
