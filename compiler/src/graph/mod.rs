//! IR 1, the tensor graph: what is computed, with every shape and type known, and nothing about how.
//!
//! A graph is directed and acyclic. A node computes one tensor; the edges into it are its operands, numbered by
//! position. Elementwise operations broadcast their operands as NumPy does. All index arithmetic is integral: lowering
//! has already turned fractional indices into lattices.
//!
//! Always true ([`Graph::verify`] holds it):
//! - a node has as many operands as its operation takes, numbered `0..n`, of the types that [`Op`] states;
//! - `ty` is what the operation gives for its operands; its size in bytes fits `isize`;
//! - `inputs` and `weights` list every input and every weight node once, `weights` in node order; every output is a node;
//!   no two inputs, no two weights and no two outputs have one name;
//! - only [`Op::Result`]s read a scan, and the body of a scan is itself such a graph, without weights.
//!
//! The text form ([`Graph`]'s `Display`, described in [`text`]) parses back to an equal graph: see [`Graph::parse`].

mod contraction;
mod dot;
mod parse;
pub mod scan;
pub mod text;
mod verify;

pub use parse::ParseError;
pub use scan::Scan;
pub use verify::PRNG_SHAPE;

pub use contraction::{Access, Aggregation, Contraction, ContractionLeaf, Index, IndexRange, equals};

use std::collections::HashMap;
use std::sync::Arc;

use petgraph::Direction;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::EdgeRef;
use tile_lang::span::Span;

use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};
use crate::tensor::TensorType;

/// A node's name in the graph; stays valid while other nodes are removed.
pub type NodeId = NodeIndex<u32>;

/// What a node computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A tensor from outside, by its name, given for each run.
    Input(String),
    /// A tensor from outside, by its path, that stays on the device between runs.
    Weight(String),
    /// A rank-0 constant of the node's type.
    Constant(Scalar),
    /// A rank-1 constant.
    Elements(Vec<Scalar>),
    /// The coordinate along `axis` of each place of the node's shape, as i32. No operands.
    Index { axis: usize },
    /// Elementwise on one operand, same type and shape.
    Unary(UnaryOp),
    /// Elementwise on two operands of one type, broadcast; comparisons give bool.
    Binary(BinaryOp),
    /// Elementwise `operand 0 ? operand 1 : operand 2`, broadcast; the first is bool, the others have one type.
    Select,
    /// Elementwise conversion of one operand to the node's type, as [`Scalar::cast`] does.
    Cast,
    /// The operand's elements in row-major order under another shape with as many elements.
    Reshape,
    /// The operand itself, through which no gradient goes: see [`crate::gradient`]. [`crate::passes::fold`] drops it.
    StopGradient,
    /// Aggregation over an index space: see [`Contraction`].
    Contraction(Box<Contraction>),
    /// PlaidML's three-word Tausworthe generator. Operand: the state u32[3, 2048]; result f32 of the node's shape.
    ///
    /// Lane `i` of 2048 makes elements `i, i + 2048, …`, stepping its three words `a, b, c` (column `i` of the state)
    /// before each. A step, in 32 bits, is `a = ((a & !1) << 12) ^ (((a << 13) ^ a) >> 19)`,
    /// `b = ((b & !7) << 4) ^ (((b << 2) ^ b) >> 25)`, `c = ((c & !15) << 17) ^ (((c << 3) ^ c) >> 11)`; the element is
    /// `(a ^ b ^ c) * 2^-32`, the word rounded to f32 first, as PlaidML has it: at most 1.
    PrngValue,
    /// The state after [`Op::PrngValue`] made `elements` elements; u32[3, 2048].
    PrngState { elements: usize },
    /// A loop over steps: see [`Scan`].
    Scan(Box<Scan>),
    /// The scan's result of this number. Operand: the scan.
    Result { number: usize },
}

impl Op {
    /// The name under which the caller gives the tensor: an input's name, a weight's path.
    pub fn given_name(&self) -> Option<&str> {
        match self {
            Op::Input(name) | Op::Weight(name) => Some(name),
            _ => None,
        }
    }
}

/// The part of the source's structure that a value belongs to, for readers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The innermost layer or function, by its name in the source: `Conv2D`, `relu`.
    pub function: String,
    /// The path of the innermost layer instance, `encoder[3].ff1`; empty where there is none.
    pub path: String,
}

/// One tensor computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub op: Op,
    pub ty: TensorType,
    /// The source name of the value, for readable kernels; not part of the meaning.
    pub name: Option<String>,
    /// What the source computes it for; shared by the nodes of one call. Not part of the meaning.
    pub origin: Option<Arc<Origin>>,
    /// Where the source computes it; not part of the meaning.
    pub span: Option<Span>,
}

/// A tensor program: see the module's head.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The entry's name in the source.
    pub name: String,
    nodes: StableDiGraph<Node, usize, u32>,
    /// Inputs in the order of the entry's header; an unused one stays.
    pub inputs: Vec<NodeId>,
    /// Weights in order of creation; an unused one stays.
    pub weights: Vec<NodeId>,
    /// Outputs by name, in the order of the entry's header. Two may name one node.
    pub outputs: Vec<(String, NodeId)>,
}

impl Graph {
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    /// Adds a node without name, origin or span. Nothing is checked here: see [`Graph::verify`].
    pub fn add(&mut self, op: Op, ty: TensorType, operands: &[NodeId]) -> NodeId {
        let id = self.nodes.add_node(Node { op, ty, name: None, origin: None, span: None });
        for (position, &operand) in operands.iter().enumerate() {
            self.nodes.add_edge(operand, id, position);
        }
        match self.nodes[id].op {
            Op::Input(_) => self.inputs.push(id),
            Op::Weight(_) => self.weights.push(id),
            _ => {}
        }
        id
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    /// The element type of a node.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.nodes[id].ty.dtype
    }

    /// The shape of a node.
    pub fn shape(&self, id: NodeId) -> &[usize] {
        &self.nodes[id].ty.shape
    }

    /// What readers call a node, `encoder[3].ff1.Y`: what the caller gives it as, or its source name after the path of its
    /// layer; `%n` where the source has no name for it.
    pub fn value_name(&self, id: NodeId) -> String {
        let node = &self.nodes[id];
        let path = node.origin.as_ref().map_or("", |origin| &origin.path);
        match (node.op.given_name(), &node.name) {
            (Some(name), _) => name.to_owned(),
            (None, Some(name)) if path.is_empty() => name.clone(),
            (None, Some(name)) => format!("{path}.{name}"),
            (None, None) => format!("%{}", id.index()),
        }
    }

    /// A node's operands in order.
    pub fn operands(&self, id: NodeId) -> Vec<NodeId> {
        let mut edges: Vec<(usize, NodeId)> =
            self.nodes.edges_directed(id, Direction::Incoming).map(|e| (*e.weight(), e.source())).collect();
        edges.sort_unstable();
        edges.into_iter().map(|(_, source)| source).collect()
    }

    /// The positions of a node's operands in ascending order: `0..n` in a verified graph.
    fn operand_positions(&self, id: NodeId) -> Vec<usize> {
        let mut positions: Vec<usize> =
            self.nodes.edges_directed(id, Direction::Incoming).map(|e| *e.weight()).collect();
        positions.sort_unstable();
        positions
    }

    /// Makes a node compute `op` of `operands` instead; its type, name and readers stay.
    pub fn set(&mut self, id: NodeId, op: Op, operands: &[NodeId]) {
        let edges: Vec<_> = self.nodes.edges_directed(id, Direction::Incoming).map(|e| e.id()).collect();
        for edge in edges {
            self.nodes.remove_edge(edge);
        }
        for (position, &operand) in operands.iter().enumerate() {
            self.nodes.add_edge(operand, id, position);
        }
        self.nodes[id].op = op;
    }

    /// The nodes that read `id`, once for each operand position, in node order; outputs of the graph are not among them.
    pub fn users(&self, id: NodeId) -> Vec<NodeId> {
        let mut users: Vec<NodeId> = self.nodes.edges_directed(id, Direction::Outgoing).map(|e| e.target()).collect();
        users.sort_unstable();
        users
    }

    pub fn is_output(&self, id: NodeId) -> bool {
        self.outputs.iter().any(|(_, node)| *node == id)
    }

    /// Makes every reader of `old`, and every output that names it, use `new` instead. `old` stays, unread.
    pub fn replace(&mut self, old: NodeId, new: NodeId) {
        let edges: Vec<_> = self
            .nodes
            .edges_directed(old, Direction::Outgoing)
            .filter(|e| e.target() != new)
            .map(|e| (e.id(), e.target(), *e.weight()))
            .collect();
        for (edge, user, position) in edges {
            self.nodes.remove_edge(edge);
            self.nodes.add_edge(new, user, position);
        }
        for (_, node) in &mut self.outputs {
            if *node == old {
                *node = new;
            }
        }
    }

    /// [`replace`](Graph::replace)s `old` by `new`, which computes the same and takes over the source name if it has none.
    pub fn stand_in(&mut self, old: NodeId, new: NodeId) {
        let (name, origin) = (self.nodes[old].name.clone(), self.nodes[old].origin.clone());
        if self.nodes[new].op.given_name().is_none() && self.nodes[new].name.is_none() {
            (self.nodes[new].name, self.nodes[new].origin) = (name, origin);
        }
        self.replace(old, new);
    }

    /// Removes a node that nothing reads.
    pub fn remove(&mut self, id: NodeId) {
        match self.nodes.remove_node(id).map(|node| node.op) {
            Some(Op::Input(_)) => self.inputs.retain(|&input| input != id),
            Some(Op::Weight(_)) => self.weights.retain(|&weight| weight != id),
            _ => {}
        }
    }

    /// The graph with these outputs instead: what they need, and all inputs and weights. Nodes have other ids there. Scans stay whole.
    pub fn part(&self, outputs: Vec<(String, NodeId)>) -> Graph {
        let mut pending: Vec<NodeId> = outputs.iter().map(|(_, id)| *id).collect();
        pending.extend(self.inputs.iter().chain(&self.weights));
        let mut needed = std::collections::BTreeSet::new();
        while let Some(id) = pending.pop() {
            if needed.insert(id) {
                pending.extend(self.nodes.neighbors_directed(id, Direction::Incoming));
            }
        }
        let mut part = Graph::new(self.name.clone());
        let to: HashMap<NodeId, NodeId> =
            needed.iter().map(|&id| (id, part.nodes.add_node(self.nodes[id].clone()))).collect();
        for id in &needed {
            for edge in self.nodes.edges_directed(*id, Direction::Incoming) {
                part.nodes.add_edge(to[&edge.source()], to[id], *edge.weight());
            }
        }
        part.inputs = self.inputs.iter().map(|id| to[id]).collect();
        part.weights = self.weights.iter().map(|id| to[id]).collect();
        part.outputs = outputs.into_iter().map(|(name, id)| (name, to[&id])).collect();
        part
    }

    /// Names everything by its number, so that graphs that compute the same from the same inputs are equal.
    pub fn forget_names(&mut self) {
        self.name.clear();
        for id in self.nodes.node_indices().collect::<Vec<_>>() {
            self.nodes[id].name = None;
            if let Op::Scan(scan) = &mut self.nodes[id].op {
                scan.body.forget_names();
            }
        }
        for (number, &input) in self.inputs.iter().enumerate() {
            self.nodes[input].op = Op::Input(number.to_string());
        }
        self.outputs.iter_mut().enumerate().for_each(|(number, (name, _))| *name = number.to_string());
    }

    /// All nodes in order of creation.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.node_indices()
    }

    /// All nodes, operands before their readers, and otherwise in order of creation, so that the order is deterministic.
    pub fn topological(&self) -> Vec<NodeId> {
        let mut missing: Vec<usize> = vec![0; self.nodes.node_indices().map(|n| n.index() + 1).max().unwrap_or(0)];
        let mut ready = std::collections::BTreeSet::new();
        for id in self.nodes.node_indices() {
            missing[id.index()] = self.nodes.edges_directed(id, Direction::Incoming).count();
            if missing[id.index()] == 0 {
                ready.insert(id);
            }
        }
        let mut order = Vec::with_capacity(self.nodes.node_count());
        while let Some(id) = ready.pop_first() {
            order.push(id);
            for edge in self.nodes.edges_directed(id, Direction::Outgoing) {
                let left = &mut missing[edge.target().index()];
                *left -= 1;
                if *left == 0 {
                    ready.insert(edge.target());
                }
            }
        }
        order
    }

    /// The position of each node in the topological order: its number in the text form.
    pub fn numbers(&self) -> HashMap<NodeId, usize> {
        self.topological().into_iter().enumerate().map(|(number, id)| (id, number)).collect()
    }
}

/// Equal but for origins and spans and for how nodes are identified: the topological orders are the same.
impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        let (left, right) = (self.topological(), other.topological());
        let to_right: HashMap<NodeId, NodeId> = left.iter().copied().zip(right.iter().copied()).collect();
        let same = |a: &NodeId, b: &NodeId| to_right.get(a) == Some(b);
        let all_same = |a: &[NodeId], b: &[NodeId]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b));
        self.name == other.name
            && left.len() == right.len()
            && all_same(&self.inputs, &other.inputs)
            && all_same(&self.weights, &other.weights)
            && self.outputs.len() == other.outputs.len()
            && self.outputs.iter().zip(&other.outputs).all(|((a, x), (b, y))| a == b && same(x, y))
            && left.iter().zip(&right).all(|(&a, &b)| {
                let (x, y) = (self.node(a), other.node(b));
                (&x.op, &x.ty, &x.name) == (&y.op, &y.ty, &y.name)
                    && self.operand_positions(a) == other.operand_positions(b)
                    && all_same(&self.operands(a), &other.operands(b))
            })
    }
}

#[cfg(test)]
mod tests;
