//! [`Links`]: the readers of a graph's nodes, and what follows from operands alone.

use super::fuse::is_expensive;
use crate::graph::{Graph, NodeId, NodeMap, NodeSet, Op};
use crate::scalar::BinaryOp;

/// The readers of nodes. Unlike [`Graph::users`], in topological order.
pub(super) struct Links {
    /// All nodes in topological order.
    pub order: Vec<NodeId>,
    /// Readers of each node, once for each operand position.
    pub users: NodeMap<Vec<NodeId>>,
    /// How many of the graph's outputs are in the memory of each node.
    pub outputs: NodeMap<usize>,
    /// Positions, and integers and bools that are computed from these alone by a few instructions.
    pub positions: NodeSet,
}

impl Links {
    /// Finds the readers of all nodes.
    pub fn new(graph: &Graph) -> Links {
        let order = graph.topological();
        let mut outputs = NodeMap::new();
        graph
            .outputs
            .iter()
            .for_each(|(_, id)| *outputs.slot(graph.storage(*id)).get_or_insert(0) += 1);
        let mut users: NodeMap<Vec<NodeId>> = NodeMap::new();
        let mut positions = NodeSet::new();
        for &id in &order {
            if is_of_positions(graph, id, &positions) {
                positions.insert(id);
            }
            for &operand in graph.operands(id) {
                users.slot(operand).get_or_insert_default().push(id);
            }
        }
        Links { order, users, outputs, positions }
    }

    /// Returns the readers of a node.
    pub fn users(&self, id: NodeId) -> &[NodeId] {
        self.users.get(id).map_or(&[], Vec::as_slice)
    }
}

/// Returns whether a node is a position, or an integer or bool that is computed by a few
/// instructions from nodes that are. `positions` has those before it.
fn is_of_positions(graph: &Graph, id: NodeId, positions: &NodeSet) -> bool {
    let node = graph.node(id);
    let is_known = |&operand: &NodeId| {
        matches!(graph.node(operand).op, Op::Constant(_)) || positions.contains(operand)
    };
    let is_cheap = node.op.is_elementwise()
        && !is_expensive(&node.op)
        && !matches!(node.op, Op::Binary(BinaryOp::Div))
        && graph.operands(id).iter().all(is_known);
    !node.ty.dtype.is_float() && (is_cheap || matches!(node.op, Op::Index { .. }))
}
