//! The gradient of a scan: a scan from the last step to the first.
//!
//! Its body is the forward one, of which the gradient is taken, so that nothing is approximated. What it carries is the gradient
//! of what the forward scan carries, and the sum of a capture's gradients so far; what it yields are those of the slices.
//!
//! The values before each step are not computed again step by step: the forward scan yields what it carries, and those of
//! its contractions that the gradient reads. All else is computed again, as it is elementwise. So the memory grows once
//! with the length.
//!
//! The steps go forwards in either scan. What the second one reads of the first is reversed before, and what it yields after.
//!
//! A capture's gradient that is a sum of products in each step, as that of a recurrent kernel, is one product over all steps
//! after the loop: see [`lift`].

mod backward;
mod flow;
mod lift;

use std::collections::{HashMap, HashSet};

use super::tensors::Tensors;
use super::{Error, reverse};
use crate::affine::Affine;
use crate::dtype::Scalar;
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
    let (sequences, carries) = (scan.sequences.len(), scan.carries);
    if scan.length == 0 {
        let firsts = operands[sequences..].iter().zip(&given[..carries]);
        return Ok(firsts.filter_map(|(&first, g)| Some((first, (*g)?))).filter(|(o, _)| active.contains(o)).collect());
    }
    let wanted: Vec<bool> = operands.iter().map(|operand| active.contains(operand)).collect();
    let flow = Flow::of(&scan, &wanted, &given);

    // The gradients of the inputs of a step from those of its outputs.
    let mut backward = Backward::new(&scan);
    let mut of = Vec::new();
    for &carry in &flow.carries {
        let gradient = backward.input(&scan.body, scan.body.inputs[sequences + carry]);
        of.push((scan.body.outputs[carry].1, gradient));
        let first = given[carry];
        backward.carries.push((carry, gradient, first));
    }
    for (number, g) in given.iter().enumerate().skip(carries) {
        if let Some(g) = *g {
            let value = scan.body.outputs[number].1;
            let gradient = backward.input(&scan.body, value);
            of.push((value, gradient));
            let axis = scan.yields[number - carries];
            backward.sequences.push((reversed(graph, id, g, axis), axis, gradient));
        }
    }
    let inputs: Vec<usize> = (0..scan.body.inputs.len()).filter(|&input| flow.inputs[input]).collect();
    let nodes: Vec<NodeId> = inputs.iter().map(|&input| scan.body.inputs[input]).collect();
    let found = reverse(&mut backward.body, &of, &nodes)?;
    let found: HashMap<usize, NodeId> = inputs.into_iter().zip(found).filter_map(|(i, g)| Some((i, g?))).collect();
    backward.finish(graph, id, &scan, &operands, &wanted, &found)
}

/// The gradient of each result.
fn of_results(graph: &mut Graph, id: NodeId, scan: &Scan, total: &HashMap<NodeId, NodeId>) -> Vec<Option<NodeId>> {
    let mut given: Vec<Option<NodeId>> = vec![None; scan.body.outputs.len()];
    for user in graph.users(id) {
        if let (Op::Result { number }, Some(&g)) = (&graph.node(user).op, total.get(&user)) {
            let number = *number;
            given[number] = Some(match given[number] {
                Some(sum) => super::rules::Algebra::sum(&mut Tensors::new(graph, id), sum, g),
                None => g,
            });
        }
    }
    given
}

/// `value` with the order of its elements along an axis turned round.
fn reversed(graph: &mut Graph, id: NodeId, value: NodeId, axis: usize) -> NodeId {
    let shape = graph.shape(value).to_vec();
    let last = i64::try_from(shape[axis]).unwrap_or(i64::MAX) - 1;
    let mut index: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
    index[axis] = Affine::new([(axis, -1)], last).unwrap_or_default();
    Tensors::new(graph, id).read_at(value, index, &shape, None)
}

/// What a carry was before each step, the last step first: `after` are its values after the steps, along `axis`.
fn before(graph: &mut Graph, id: NodeId, first: NodeId, after: NodeId, axis: usize) -> NodeId {
    let shape = graph.shape(after).to_vec();
    let mut tensors = Tensors::new(graph, id);
    // At step t, counted from the end, that after step length - 2 - t; the first value in the last.
    let mut index: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
    index[axis] = Affine::new([(axis, -1)], i64::try_from(shape[axis]).unwrap_or(i64::MAX) - 2).unwrap_or_default();
    let axes: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).collect();
    let firsts = tensors.rearranged(first, &shape, &axes);
    let mut written = shape.clone();
    written[axis] -= 1;
    tensors.read_at(after, index, &written, Some(firsts))
}

/// A tensor of zeros like `node`, in the graph.
fn zeros(graph: &mut Graph, node: NodeId) -> NodeId {
    let ty = graph.node(node).ty.clone();
    Tensors::new(graph, node).filled(Scalar::zero(ty.dtype), &ty.shape)
}
