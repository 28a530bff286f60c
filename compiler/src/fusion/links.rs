//! [`Links`]: the readers of a graph's nodes, and what follows from operands alone.

use super::fuse::is_expensive;
use crate::graph::{Graph, NodeId, NodeMap, NodeSet, Op};
use crate::scalar::BinaryOp;

/// The most instructions of what is computed from positions wherever it is read.
const MOST_INSTRUCTIONS: usize = 16;

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
        // The instructions of each node among these.
        let mut instructions: NodeMap<usize> = NodeMap::new();
        for &id in &order {
            let own = instructions_on_positions(graph, id, &instructions);
            if let Some(own) = own.filter(|own| *own <= MOST_INSTRUCTIONS) {
                positions.insert(id);
                instructions.insert(id, own);
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

/// Returns the number of instructions that compute a node, if it is a position, or an integer or
/// bool that is computed from nodes with `instructions`.
fn instructions_on_positions(
    graph: &Graph,
    id: NodeId,
    instructions: &NodeMap<usize>,
) -> Option<usize> {
    let node = graph.node(id);
    if node.ty.dtype.is_float() {
        return None;
    }
    if matches!(node.op, Op::Index { .. }) {
        return Some(1);
    }
    let is_costly = is_expensive(&node.op) || matches!(node.op, Op::Binary(BinaryOp::Div));
    if !node.op.is_elementwise() || is_costly {
        return None;
    }
    let of_operand = |operand: &NodeId| match graph.node(*operand).op {
        Op::Constant(_) => Some(0),
        _ => instructions.get(*operand).copied(),
    };
    let of_operands: Option<usize> = graph.operands(id).iter().map(of_operand).sum();
    Some(1 + of_operands?)
}
