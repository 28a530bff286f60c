//! IR 1, the tensor graph: a computation with every shape and type known, and no decision about how
//! to run it.
//!
//! A graph is directed and acyclic. A node computes one tensor from its operands, which are other
//! nodes. Elementwise operations broadcast their operands as NumPy does. All index arithmetic is
//! integral: lowering has already turned fractional indices into lattices.
//!
//! Invariants, which [`Graph::verify`] checks:
//! - A node has the number of operands that its operation takes, of the types that [`Op`] states.
//! - The edges into a node are from its operands, one for each position.
//! - `ty` is the result type of the operation on its operands; its size in bytes fits `isize`.
//! - `inputs` and `weights` list every input and weight node once, and `weights` is in node order.
//!   Every output is a node. Input names are distinct, and so are weight paths and output names.
//! - Only [`Op::Result`]s read a scan. The body of a scan is itself a valid graph, without weights.
//!
//! The text form ([`Graph`]'s `Display`, described in [`text`]) parses back to an equal graph; see
//! [`Graph::parse`].

mod contraction;
mod dot;
mod map;
mod parse;
mod positions;
pub mod scan;
pub mod text;
mod verify;

pub use map::{NodeMap, NodeSet};
pub use scan::Scan;
pub use verify::PRNG_SHAPE;

pub use contraction::{
    Access, Aggregation, Contraction, ContractionLeaf, Index, IndexRange, equals,
};

use std::collections::BTreeSet;
use std::sync::Arc;

use petgraph::Direction;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::EdgeRef;
use tile_lang::Budget;
use tile_lang::span::Span;

use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};
use crate::tensor::TensorType;

/// Identifies a node in its graph. It stays valid when other nodes are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(NodeIndex<u32>);

impl NodeId {
    /// Returns the id of the node with this index.
    pub(crate) fn new(index: usize) -> NodeId {
        NodeId(NodeIndex::new(index))
    }

    /// Returns the index of the node in its graph.
    pub fn index(self) -> usize {
        self.0.index()
    }
}

/// The operation of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A tensor that the caller passes for each run, by name.
    Input(String),
    /// A tensor that stays on the device between runs, by path.
    Weight(String),
    /// A rank-0 constant of the node's type.
    Constant(Scalar),
    /// A rank-1 constant.
    Elements(Vec<Scalar>),
    /// The coordinate along `axis` of each element of the node's shape, as i32. No operands.
    Index {
        /// The axis of the node's shape.
        axis: usize,
    },
    /// Elementwise operation on one operand; the result has its type and shape.
    Unary(UnaryOp),
    /// Elementwise operation on two operands of one type, with broadcasting. Comparisons return
    /// bool.
    Binary(BinaryOp),
    /// Elementwise `operand 0 ? operand 1 : operand 2` with broadcasting. The first operand is
    /// bool, and the others have one type.
    Select,
    /// Elementwise conversion of one operand to the node's type, as [`Scalar::cast`] does.
    Cast,
    /// The operand's elements in row-major order, in another shape of the same size.
    Reshape,
    /// The operand, with gradients stopped; see [`crate::gradient`]. [`crate::passes::fold`]
    /// removes it.
    StopGradient,
    /// Aggregation over an index space; see [`Contraction`].
    Contraction(Box<Contraction>),
    /// PlaidML's Tausworthe generator with three words. The operand is the state, u32[3, 2048]; the
    /// result is f32 of the node's shape.
    ///
    /// Lane `i` of 2048 generates the elements `i, i + 2048, …`, and steps its three words
    /// `a, b, c` (column `i` of the state) before each. A step, in 32 bits, is
    /// `a = ((a & !1) << 12) ^ (((a << 13) ^ a) >> 19)`,
    /// `b = ((b & !7) << 4) ^ (((b << 2) ^ b) >> 25)`,
    /// `c = ((c & !15) << 17) ^ (((c << 3) ^ c) >> 11)`. The element is `(a ^ b ^ c) * 2^-32`. The
    /// word is rounded to f32 first, as in PlaidML, so the element is at most 1.
    PrngValue,
    /// The state, u32[3, 2048], after [`Op::PrngValue`] generated `elements` elements.
    PrngState {
        /// The number of elements that were generated.
        elements: usize,
    },
    /// A loop over steps; see [`Scan`].
    Scan(Box<Scan>),
    /// The result of this number of a scan, which is the operand.
    Result {
        /// The number of the result.
        number: usize,
    },
}

impl Op {
    /// Returns the name by which the caller passes the tensor: an input's name or a weight's path.
    pub fn given_name(&self) -> Option<&str> {
        match self {
            Op::Input(name) | Op::Weight(name) => Some(name),
            _ => None,
        }
    }

    /// Returns whether the node's value is in memory without being computed there.
    pub fn is_source(&self) -> bool {
        matches!(self, Op::Input(_) | Op::Weight(_) | Op::Elements(_) | Op::Result { .. })
    }

    /// Returns whether the value is in memory before a run, and not an input of it.
    pub fn is_preloaded(&self) -> bool {
        matches!(self, Op::Weight(_) | Op::Elements(_))
    }

    /// Returns whether each element depends only on the operands' elements at its place.
    pub fn is_elementwise(&self) -> bool {
        matches!(self, Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast | Op::StopGradient)
    }

    /// Returns how many parts it is described by, a measure of the work and memory it takes.
    fn parts(&self) -> usize {
        match self {
            Op::Elements(elements) => elements.len(),
            Op::Contraction(contraction) => {
                let read: usize =
                    contraction.accesses.iter().map(|access| access.index.len()).sum();
                let Contraction { indices, output, constraints, body, .. } = &**contraction;
                indices.len() + output.len() + read + constraints.len() + body.insts.len()
            }
            _ => 1,
        }
    }
}

/// The part of the source's structure that a value belongs to. Only for people to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Name in the source of the innermost layer or function: `Conv2D`, `relu`.
    pub function: String,
    /// Path of the innermost layer instance, such as `encoder[3].ff1`. Empty if there is none.
    pub path: String,
}

/// The computation of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// The type of the result.
    pub ty: TensorType,
    operands: Vec<NodeId>,
    /// Name of the value in the source, for readable kernels. Not part of the meaning.
    pub name: Option<String>,
    /// The part of the source that the value belongs to; the nodes of one call share it. Not part
    /// of the meaning.
    pub origin: Option<Arc<Origin>>,
    /// Location in the source. Not part of the meaning.
    pub span: Option<Span>,
}

/// A tensor program; see the [module documentation](self).
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name of the entry in the source.
    pub name: String,
    nodes: StableDiGraph<Node, (), u32>,
    /// Inputs in the order of the entry's header, including unused ones.
    pub inputs: Vec<NodeId>,
    /// Weights in order of creation, including unused ones.
    pub weights: Vec<NodeId>,
    /// Outputs by name, in the order of the entry's header. Several may refer to one node.
    pub outputs: Vec<(String, NodeId)>,
    /// The budget of the compilation, which methods of the graph count their work against. It is
    /// not part of the graph's meaning.
    pub budget: Budget,
}

/// Units of work and bytes for each node, besides its parts.
const NODE_UNITS: u64 = 8;
const NODE_BYTES: u64 = 300;

impl Graph {
    /// Creates a graph without nodes.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// Returns an empty graph whose work is counted in `budget`.
    pub fn within(name: impl Into<String>, budget: &Budget) -> Graph {
        Graph { name: name.into(), budget: budget.clone(), ..Graph::default() }
    }

    /// Adds a node without name, origin or span. It is not checked; see [`Graph::verify`].
    pub fn add(&mut self, op: Op, ty: TensorType, operands: &[NodeId]) -> NodeId {
        let (parts, rank) = (op.parts() as u64, ty.rank() as u64);
        // The phase that adds nodes looks at the budget.
        let _ = self.budget.take_bytes(NODE_BYTES + 100 * parts + 16 * rank);
        let _ = self.budget.spend(NODE_UNITS + 2 * parts + rank);
        let (operands, name, origin, span) = (operands.to_vec(), None, None, None);
        let id = NodeId(self.nodes.add_node(Node { op, ty, operands, name, origin, span }));
        self.link(id);
        match self.nodes[id.0].op {
            Op::Input(_) => self.inputs.push(id),
            Op::Weight(_) => self.weights.push(id),
            _ => {}
        }
        id
    }

    /// Adds the edges from a node's operands.
    fn link(&mut self, id: NodeId) {
        for position in 0..self.nodes[id.0].operands.len() {
            self.nodes.add_edge(self.nodes[id.0].operands[position].0, id.0, ());
        }
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// Returns a node, for changes. Its operands are changed by [`Graph::replace`] alone.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0]
    }

    /// Returns the element type of a node.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.nodes[id.0].ty.dtype
    }

    /// Returns the shape of a node.
    pub fn shape(&self, id: NodeId) -> &[usize] {
        &self.nodes[id.0].ty.shape
    }

    /// Returns the node whose memory a chain of reshapes aliases.
    pub fn storage(&self, mut id: NodeId) -> NodeId {
        while matches!(self.node(id).op, Op::Reshape) {
            id = self.operands(id)[0];
        }
        id
    }

    /// Returns a name for messages: the name by which the caller passes the tensor, or the source
    /// name after the layer's path (`encoder[3].ff1.Y`), or `%n` if the source has no name for it.
    pub fn value_name(&self, id: NodeId) -> String {
        let node = &self.nodes[id.0];
        let path = node.origin.as_ref().map_or("", |origin| &origin.path);
        match (node.op.given_name(), &node.name) {
            (Some(name), _) => name.to_owned(),
            (None, Some(name)) if path.is_empty() => name.clone(),
            (None, Some(name)) => format!("{path}.{name}"),
            (None, None) => format!("%{}", id.index()),
        }
    }

    /// Returns the operands of a node in order.
    pub fn operands(&self, id: NodeId) -> &[NodeId] {
        &self.nodes[id.0].operands
    }

    /// Replaces the operation and operands of a node. Its type, name and readers stay.
    pub fn set(&mut self, id: NodeId, op: Op, operands: &[NodeId]) {
        let edges: Vec<_> =
            self.nodes.edges_directed(id.0, Direction::Incoming).map(|e| e.id()).collect();
        for edge in edges {
            self.nodes.remove_edge(edge);
        }
        (self.nodes[id.0].op, self.nodes[id.0].operands) = (op, operands.to_vec());
        self.link(id);
    }

    /// Returns the nodes that read `id`, once for each operand position, in node order. Outputs of
    /// the graph are not included.
    pub fn users(&self, id: NodeId) -> Vec<NodeId> {
        let mut users: Vec<NodeId> = self
            .nodes
            .edges_directed(id.0, Direction::Outgoing)
            .map(|e| NodeId(e.target()))
            .collect();
        users.sort_unstable();
        if users.len() > 16 {
            let _ = self.budget.spend(users.len() as u64 / 4);
        }
        users
    }

    /// Returns whether a node is an output.
    pub fn is_output(&self, id: NodeId) -> bool {
        self.outputs.iter().any(|(_, node)| *node == id)
    }

    /// Redirects every reader of `old`, and every output that refers to it, to `new`. `old` stays.
    pub fn replace(&mut self, old: NodeId, new: NodeId) {
        let edges: Vec<_> = self
            .nodes
            .edges_directed(old.0, Direction::Outgoing)
            .filter(|e| e.target() != new.0)
            .map(|e| (e.id(), NodeId(e.target())))
            .collect();
        for (edge, user) in edges {
            self.nodes.remove_edge(edge);
            self.nodes.add_edge(new.0, user.0, ());
            let operands = &mut self.nodes[user.0].operands;
            operands.iter_mut().filter(|operand| **operand == old).for_each(|o| *o = new);
        }
        for (_, node) in &mut self.outputs {
            if *node == old {
                *node = new;
            }
        }
    }

    /// Redirects the uses of `old` to `new`, which computes the same value; see [`Graph::replace`].
    /// `new` takes over the source name if it has none.
    pub fn stand_in(&mut self, old: NodeId, new: NodeId) {
        let (name, origin) = (self.nodes[old.0].name.clone(), self.nodes[old.0].origin.clone());
        if self.nodes[new.0].op.given_name().is_none() && self.nodes[new.0].name.is_none() {
            (self.nodes[new.0].name, self.nodes[new.0].origin) = (name, origin);
        }
        self.replace(old, new);
    }

    /// Removes a node that nothing reads.
    pub fn remove(&mut self, id: NodeId) {
        match self.nodes.remove_node(id.0).map(|node| node.op) {
            Some(Op::Input(_)) => self.inputs.retain(|&input| input != id),
            Some(Op::Weight(_)) => self.weights.retain(|&weight| weight != id),
            _ => {}
        }
    }

    /// Returns these nodes and all that they are computed from.
    pub fn needed(&self, nodes: impl IntoIterator<Item = NodeId>) -> BTreeSet<NodeId> {
        let mut pending: Vec<NodeId> = nodes.into_iter().collect();
        let mut needed = BTreeSet::new();
        while let Some(id) = pending.pop() {
            if needed.insert(id) {
                pending.extend(self.operands(id));
            }
        }
        let _ = self.budget.spend(4 * needed.len() as u64);
        needed
    }

    /// Removes all nodes but these, which must include those that they are computed from. Ids of
    /// removed nodes may be given to new ones.
    pub fn keep(&mut self, nodes: &BTreeSet<NodeId>) {
        self.nodes.retain_nodes(|_, id| nodes.contains(&NodeId(id)));
        self.inputs.retain(|id| nodes.contains(id));
        self.weights.retain(|id| nodes.contains(id));
    }

    /// Returns the graph with these outputs: the nodes that they need. Node ids change. Scans stay
    /// whole.
    pub fn part(&self, outputs: Vec<(String, NodeId)>) -> Graph {
        let needed = self.needed(outputs.iter().map(|(_, id)| *id));
        let mut part = Graph::within(self.name.clone(), &self.budget);
        let to: NodeMap<NodeId> = needed
            .iter()
            .map(|&id| (id, NodeId(part.nodes.add_node(self.nodes[id.0].clone()))))
            .collect();
        for &id in to.values() {
            part.nodes[id.0].operands.iter_mut().for_each(|operand| *operand = to[*operand]);
            part.link(id);
        }
        part.inputs = self.inputs.iter().filter_map(|id| to.get(*id).copied()).collect();
        part.weights = self.weights.iter().filter_map(|id| to.get(*id).copied()).collect();
        part.outputs = outputs.into_iter().map(|(name, id)| (name, to[id])).collect();
        part
    }

    /// Replaces all names by numbers. Graphs that perform the same computation on the same inputs
    /// then compare equal.
    pub fn forget_names(&mut self) {
        self.name.clear();
        for id in self.ids().collect::<Vec<_>>() {
            self.nodes[id.0].name = None;
            if let Op::Scan(scan) = &mut self.nodes[id.0].op {
                scan.body.forget_names();
            }
        }
        for (number, &input) in self.inputs.iter().enumerate() {
            self.nodes[input.0].op = Op::Input(number.to_string());
        }
        self.outputs
            .iter_mut()
            .enumerate()
            .for_each(|(number, (name, _))| *name = number.to_string());
    }

    /// Returns all nodes in order of creation.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.node_indices().map(NodeId)
    }

    /// Returns all nodes, operands before their readers, and otherwise in order of creation. The
    /// order is deterministic.
    pub fn topological(&self) -> Vec<NodeId> {
        let _ = self.budget.spend(self.nodes.node_count() as u64);
        let mut missing: Vec<usize> = vec![0; self.ids().map(|n| n.index() + 1).max().unwrap_or(0)];
        let mut ready = std::collections::BTreeSet::new();
        for id in self.ids() {
            missing[id.index()] = self.operands(id).len();
            if missing[id.index()] == 0 {
                ready.insert(id);
            }
        }
        let mut order = Vec::with_capacity(self.nodes.node_count());
        while let Some(id) = ready.pop_first() {
            order.push(id);
            for edge in self.nodes.edges_directed(id.0, Direction::Outgoing) {
                let user = NodeId(edge.target());
                missing[user.index()] -= 1;
                if missing[user.index()] == 0 {
                    ready.insert(user);
                }
            }
        }
        order
    }

    /// Returns the position of each node in topological order, which is its number in the text
    /// form.
    pub fn numbers(&self) -> NodeMap<usize> {
        self.topological().into_iter().enumerate().map(|(number, id)| (id, number)).collect()
    }
}

/// Compares graphs by their topological orders; ids, origins and spans do not matter.
impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        let (left, right) = (self.topological(), other.topological());
        let to_right: NodeMap<NodeId> = left.iter().copied().zip(right.iter().copied()).collect();
        let same = |a: &NodeId, b: &NodeId| to_right.get(*a) == Some(b);
        let all_same = |a: &[NodeId], b: &[NodeId]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        };
        self.name == other.name
            && left.len() == right.len()
            && all_same(&self.inputs, &other.inputs)
            && all_same(&self.weights, &other.weights)
            && self.outputs.len() == other.outputs.len()
            && self.outputs.iter().zip(&other.outputs).all(|((a, x), (b, y))| a == b && same(x, y))
            && left.iter().zip(&right).all(|(&a, &b)| {
                let (x, y) = (self.node(a), other.node(b));
                (&x.op, &x.ty, &x.name) == (&y.op, &y.ty, &y.name)
                    && all_same(self.operands(a), other.operands(b))
            })
    }
}

#[cfg(test)]
mod tests;
