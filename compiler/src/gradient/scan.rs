//! The gradient of a scan: a scan from the last step to the first.
//!
//! The body of the backward scan is the gradient of the forward body. It carries the gradients of
//! the forward carries, and the running sum of a capture's gradients. It yields the gradients of
//! the slices.
//!
//! Values of a step are kept rather than recomputed: the forward scan yields its carries, and the
//! contractions that the gradient reads. All other values are elementwise, and are recomputed. So
//! the memory is proportional to the length.
//!
//! Both scans count steps upwards: what the backward scan reads of the forward one is reversed
//! before, and what it yields is reversed after.
//!
//! If a capture's gradient is a sum of products in each step, as for a recurrent kernel, it becomes
//! one product over all steps after the loop. See [`lift`].
//!
//! Why it is sound: by the chain rule, the gradient of a carry before a step is determined by the
//! gradient of the carry after it, so walking backwards over the steps has every gradient when it
//! is needed. The gradient of a capture is the sum of its gradients in all steps.

mod backward;
mod flow;
mod lift;

use super::Error;
use super::rules::Algebra;
use super::tensors::Tensors;
use crate::graph::{Graph, NodeId, NodeMap, NodeSet, Op, Scan};
use backward::Backward;
use flow::Flow;

/// Returns the contributions to the gradients of the scan's operands. `total` has the gradients of
/// its results; `active` has the nodes that need a gradient.
pub(super) fn gradient(
    graph: &mut Graph,
    id: NodeId,
    total: &NodeMap<NodeId>,
    active: &NodeSet,
) -> Result<Vec<(NodeId, NodeId)>, Error> {
    let Op::Scan(scan) = graph.node(id).op.clone() else { return Ok(Vec::new()) };
    let operands = graph.operands(id).to_vec();
    let given = of_results(graph, id, &scan, total);
    if scan.length == 0 {
        let firsts = operands[scan.sequences.len()..].iter().zip(&given[..scan.carries]);
        return Ok(firsts
            .filter_map(|(&first, g)| Some((first, (*g)?)))
            .filter(|(o, _)| active.contains(*o))
            .collect());
    }
    let wanted: Vec<bool> = operands.iter().map(|operand| active.contains(*operand)).collect();
    let flow = Flow::of(&scan, &wanted, &given);
    let mut backward = Backward::new(graph, id, *scan, operands);
    backward.differentiate(&flow, &given)?;
    backward.keep()?;
    let found = backward.finish()?;
    Ok(found.into_iter().filter(|(operand, _)| active.contains(*operand)).collect())
}

/// Returns the gradient of each result.
fn of_results(
    graph: &mut Graph,
    id: NodeId,
    scan: &Scan,
    total: &NodeMap<NodeId>,
) -> Vec<Option<NodeId>> {
    let mut given: Vec<Option<NodeId>> = vec![None; scan.body.outputs.len()];
    for user in graph.users(id) {
        if let (Op::Result { number }, Some(&g)) = (&graph.node(user).op, total.get(user)) {
            let number = *number;
            given[number] =
                Some(given[number].map_or(g, |sum| Tensors::new(graph, id).sum(sum, g)));
        }
    }
    given
}
