//! Finds the carries of a scan, and the inputs of its body, to which gradients flow.

use crate::graph::{Graph, NodeId, NodeSet, Op, Scan};

/// The carries and inputs to which gradients flow.
pub(super) struct Flow {
    /// The carries, by number, whose gradients the backward scan carries.
    pub carries: Vec<usize>,
    /// For each input of the body, whether its gradient is wanted.
    pub inputs: Vec<bool>,
}

impl Flow {
    /// Finds the flow. `wanted` says which operands need a gradient, `given` which results have
    /// one.
    pub fn of(scan: &Scan, wanted: &[bool], given: &[Option<NodeId>]) -> Flow {
        let body = &scan.body;
        let first = scan.sequences.len();
        let is_float = |node: NodeId| body.dtype(node).is_float();
        // Inputs that depend on wanted operands, in this step or an earlier one.
        let mut inputs: Vec<bool> =
            wanted.iter().zip(&body.inputs).map(|(w, &input)| *w && is_float(input)).collect();
        loop {
            let reached = reached(body, &inputs);
            let more =
                |carry: &usize| reached.contains(body.outputs[*carry].1) && !inputs[first + carry];
            let more: Vec<usize> = (0..scan.carries)
                .filter(more)
                .filter(|c| is_float(body.inputs[first + c]))
                .collect();
            if more.is_empty() {
                break;
            }
            more.into_iter().for_each(|carry| inputs[first + carry] = true);
        }
        // Outputs on which a result with a gradient depends, in this step or a later one.
        let mut needed: Vec<bool> = given.iter().map(Option::is_some).collect();
        loop {
            let read = ancestors(
                body,
                needed.iter().zip(&body.outputs).filter(|(n, _)| **n).map(|(_, (_, id))| *id),
            );
            let more = |carry: &usize| read.contains(body.inputs[first + carry]) && !needed[*carry];
            let more: Vec<usize> = (0..scan.carries).filter(more).collect();
            if more.is_empty() {
                break;
            }
            more.into_iter().for_each(|carry| needed[carry] = true);
        }
        let carries: Vec<usize> =
            (0..scan.carries).filter(|&carry| inputs[first + carry] && needed[carry]).collect();
        (0..scan.carries).for_each(|carry| inputs[first + carry] = carries.contains(&carry));
        Flow { carries, inputs }
    }
}

/// Returns the nodes through which a gradient reaches one of the inputs.
fn reached(body: &Graph, inputs: &[bool]) -> NodeSet {
    let mut reached: NodeSet =
        inputs.iter().zip(&body.inputs).filter(|(w, _)| **w).map(|(_, input)| *input).collect();
    for id in body.topological() {
        let op = &body.node(id).op;
        let passes = (body.dtype(id).is_float() || matches!(op, Op::Scan(_)))
            && !matches!(op, Op::StopGradient);
        if passes && body.operands(id).iter().any(|operand| reached.contains(*operand)) {
            reached.insert(id);
        }
    }
    reached
}

/// Returns the given nodes and all nodes on which they depend.
fn ancestors(graph: &Graph, of: impl Iterator<Item = NodeId>) -> NodeSet {
    ancestors_up_to(graph, of, |_| false)
}

/// Returns the same, without the nodes behind an `end`.
pub(super) fn ancestors_up_to(
    graph: &Graph,
    of: impl Iterator<Item = NodeId>,
    end: impl Fn(NodeId) -> bool,
) -> NodeSet {
    let mut found = NodeSet::new();
    let mut left: Vec<NodeId> = of.collect();
    while let Some(id) = left.pop() {
        if found.insert(id) && !end(id) {
            left.extend(graph.operands(id));
        }
    }
    found
}
