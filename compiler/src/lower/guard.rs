//! The guard of a training step: after a step whose loss is not finite, neither that step nor any
//! later one changes a weight.
//!
//! ```text
//! failed' = |loss| <= largest ? failed : 1        next' = failed' == 0 ? next : weight
//! ```
//!
//! A runtime may therefore begin further steps before it has read the loss of this one, and may
//! overwrite weights in place. When it detects the failure, all weights except `failed` still have
//! their values from before the failed step.

use tile_lang::span::Span;

use super::expression::{Lowered, Target};
use super::network::Network;
use super::tensors::Tensors;
use crate::dtype::{DType, Scalar};
use crate::graph::{Graph, Node, NodeId, NodeSet};
use crate::scalar::{BinaryOp, UnaryOp};

/// Adds the guard to a step whose updates are all known. `loss` is `f32[]`, and the state is
/// [`Network::FAILED`]. All other readers of next values, including `results`, read the selected
/// values instead, so that the original next values need no memory of their own.
pub(super) fn guard(
    tensors: &mut Tensors,
    loss: NodeId,
    results: &mut [(String, NodeId)],
    span: Span,
) -> Lowered<()> {
    let number =
        |tensors: &mut Tensors, value: f64| tensors.constant(Scalar::from_f64(DType::F32, value));
    let before = tensors.zero_state(Network::FAILED, span)?;
    let (largest, zero, one) =
        (number(tensors, Network::LARGEST_LOSS), number(tensors, 0.0), number(tensors, 1.0));
    let size = tensors.unary(UnaryOp::Abs, loss);
    let is_finite = tensors.binary(BinaryOp::Le, [size, largest], span)?;
    let failed = tensors.select([is_finite, before, one], span)?;
    let goes_on = tensors.binary(BinaryOp::Eq, [failed, zero], span)?;
    for (node, name) in [(failed, "Failed"), (goes_on, "GoesOn")] {
        tensors.graph.node_mut(node).name = Some(name.to_owned());
    }
    let decides = ancestors(&tensors.graph, goes_on);
    let weights: Vec<_> =
        tensors.network.weights.iter().map(|weight| (weight.path.clone(), weight.node)).collect();
    let mut chosen = NodeSet::new();
    for (path, weight) in weights {
        let Some(&next) = tensors.network.updates.get(&path) else { continue };
        let choice = tensors.select([goes_on, next, weight], span)?;
        chosen.insert(choice);
        let graph = &mut tensors.graph;
        let Node { name, origin, .. } = graph.node(next).clone();
        (graph.node_mut(choice).name, graph.node_mut(choice).origin) = (name, origin);
        // Inputs and weights are in memory anyway.
        let users = if graph.operands(next).is_empty() { Vec::new() } else { graph.users(next) };
        for user in users {
            if !decides.contains(user) && !chosen.contains(user) {
                let operands =
                    graph.operands(user).iter().map(|&o| if o == next { choice } else { o });
                let (op, operands) = (graph.node(user).op.clone(), operands.collect::<Vec<_>>());
                graph.set(user, op, &operands);
            }
        }
        results.iter_mut().filter(|(_, node)| *node == next).for_each(|(_, node)| *node = choice);
        tensors.network.updates.insert(path, choice);
    }
    tensors.network.updates.insert(Network::FAILED.to_owned(), failed);
    Ok(())
}

/// Returns a node and all nodes that it depends on.
fn ancestors(graph: &Graph, node: NodeId) -> NodeSet {
    let (mut found, mut pending) = (NodeSet::from_iter([node]), vec![node]);
    while let Some(node) = pending.pop() {
        pending.extend(graph.operands(node).iter().filter(|operand| found.insert(**operand)));
    }
    found
}
