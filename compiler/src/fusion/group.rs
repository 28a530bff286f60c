//! [`Group`]: the nodes that one nest computes; and what groups read from each other.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::graph::{Graph, NodeId, Op};
use crate::nest::{self, Members, Nest, Window};

/// The nodes that one nest computes. A scan or a random number generator has a group of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The nodes stored in memory, operands before their readers.
    pub roots: Vec<NodeId>,
    /// The node with the reduction.
    pub contraction: Option<NodeId>,
    /// Contractions over the columns of a row; in groups with inner sums, over the points of the
    /// contraction.
    pub statistics: Vec<NodeId>,
    /// Products that the contraction reads at each of its points (inner sums).
    pub inner: Vec<NodeId>,
    /// The group depends on no input, so its value stays valid until weights change.
    pub once: bool,
}

impl Group {
    /// Returns the last root, which the others lead to or come before.
    pub fn main(&self) -> NodeId {
        *self.roots.last().expect("a group has a root")
    }

    /// Returns the members that the group's nest computes. `roots` are the group's roots, each with
    /// the windows of memory that it is written to.
    pub fn members<'a>(&'a self, roots: &'a [(NodeId, Vec<Window>)]) -> Members<'a> {
        Members { roots, contraction: self.contraction, statistics: &self.statistics, inner: &self.inner }
    }
}

/// The most nodes of a group. Bounds the size of a kernel, and the depth of recursion while it is
/// built.
pub(super) const MOST_NODES: usize = 192;

/// Predicts the seconds of a nest on a device. `None` if it has no kernel there.
pub type Time<'a> = &'a dyn Fn(&Nest) -> Option<f64>;

/// Returns whether a nest computes the group.
pub(super) fn is_nest(graph: &Graph, group: &Group) -> bool {
    let is_nest = |id: &NodeId| {
        !matches!(graph.node(*id).op, Op::Scan(_) | Op::PrngValue | Op::PrngState { .. })
            && graph.node(*id).ty.elements() > 0
    };
    group.roots.iter().all(is_nest)
}

/// Units of work for building a nest, besides its instructions.
const NEST_UNITS: u64 = 500;

/// Returns the nest of a group, if it has one, and its operands. Nodes that are `in_memory` are
/// read from there, like sources.
pub(super) fn nest_of(graph: &Graph, group: &Group, in_memory: &dyn Fn(NodeId) -> bool) -> Option<(Nest, Vec<NodeId>)> {
    let whole = |id: NodeId| Window::whole(&graph.node(id).ty);
    let memory = |id: NodeId| (graph.node(id).op.is_source() || in_memory(id)).then(|| whole(id));
    let roots: Vec<(NodeId, Vec<Window>)> = group.roots.iter().map(|&root| (root, vec![whole(root)])).collect();
    graph.budget.spend(NEST_UNITS).ok()?;
    nest::build(graph, group.members(&roots), &memory, &[]).ok()
}

/// Returns the group of each root, and for each group the roots of other groups that it reads from
/// memory.
pub(super) fn homes(graph: &Graph, groups: &[Group]) -> (HashMap<NodeId, usize>, Vec<BTreeSet<NodeId>>) {
    let roots = |(number, group): (usize, &Group)| group.roots.iter().map(|&root| (root, number)).collect::<Vec<_>>();
    let home = groups.iter().enumerate().flat_map(roots).collect();
    let reads = groups.iter().map(|group| reads(graph, group, &home)).collect();
    (home, reads)
}

/// Returns the roots of other groups that a group reads from memory.
fn reads(graph: &Graph, group: &Group, home: &HashMap<NodeId, usize>) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut seen: HashSet<NodeId> = group.roots.iter().copied().collect();
    let mut pending = group.roots.clone();
    while let Some(id) = pending.pop() {
        for operand in graph.operands(id) {
            let operand = match &graph.node(graph.storage(operand)).op {
                Op::Result { .. } => graph.operands(graph.storage(operand))[0],
                _ => graph.storage(operand),
            };
            if !seen.insert(operand) {
                continue;
            }
            if home.contains_key(&operand) {
                found.insert(operand);
            } else if !graph.node(operand).op.is_source() {
                pending.push(operand);
            }
        }
    }
    found
}
