//! The gradient of a scan: a scan from the last step to the first.
//!
//! Its body is the forward one, of which the gradient is taken. What it carries is the gradient of what the forward scan
//! carries, and the sum of a capture's gradients so far; what it yields are the gradients of the slices.
//!
//! The values before each step are not computed again: the forward scan yields what it carries, and those of its contractions
//! that the gradient reads. All else is elementwise, and computed again. So the memory grows once with the length.
//!
//! Steps count upwards in either scan: what the second one reads of the first is turned round before, and what it yields after.
//!
//! A capture's gradient that is a sum of products in each step, as that of a recurrent kernel, is one product over all steps
//! after the loop: see [`lift`].

mod backward;
mod flow;
mod lift;

use std::collections::{HashMap, HashSet};

use super::Error;
use super::rules::Algebra;
use super::tensors::Tensors;
use crate::graph::{Graph, NodeId, Op, Scan};
use backward::Backward;
use flow::Flow;

/// Contributions to the gradients of the scan's operands. `total` has the gradients of its results; `active` are the nodes
/// of which a gradient is wanted.
pub(super) fn gradient(
    graph: &mut Graph,
    id: NodeId,
    total: &HashMap<NodeId, NodeId>,
    active: &HashSet<NodeId>,
) -> Result<Vec<(NodeId, NodeId)>, Error> {
    let Op::Scan(scan) = graph.node(id).op.clone() else { return Ok(Vec::new()) };
    let operands = graph.operands(id);
    let given = of_results(graph, id, &scan, total);
    if scan.length == 0 {
        let firsts = operands[scan.sequences.len()..].iter().zip(&given[..scan.carries]);
        return Ok(firsts.filter_map(|(&first, g)| Some((first, (*g)?))).filter(|(o, _)| active.contains(o)).collect());
    }
    let wanted: Vec<bool> = operands.iter().map(|operand| active.contains(operand)).collect();
    let flow = Flow::of(&scan, &wanted, &given);
    let mut backward = Backward::new(graph, id, *scan, operands);
    backward.differentiate(&flow, &given)?;
    backward.keep()?;
    let found = backward.finish()?;
    Ok(found.into_iter().filter(|(operand, _)| active.contains(operand)).collect())
}

/// The gradient of each result.
fn of_results(graph: &mut Graph, id: NodeId, scan: &Scan, total: &HashMap<NodeId, NodeId>) -> Vec<Option<NodeId>> {
    let mut given: Vec<Option<NodeId>> = vec![None; scan.body.outputs.len()];
    for user in graph.users(id) {
        if let (Op::Result { number }, Some(&g)) = (&graph.node(user).op, total.get(&user)) {
            let number = *number;
            given[number] = Some(given[number].map_or(g, |sum| Tensors::new(graph, id).sum(sum, g)));
        }
    }
    given
}
