//! [`Group`]: the nodes that one nest computes; and what groups read from each other.

use std::collections::{BTreeSet, HashSet};

use crate::graph::{Graph, NodeId, NodeMap, Op};
use crate::nest::{self, Members, Nest, Window};
use crate::profile::Profile;

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
        Members {
            roots,
            contraction: self.contraction,
            statistics: &self.statistics,
            inner: &self.inner,
        }
    }
}

/// The groups of a graph and of the bodies of its scans.
pub struct Groups<'g> {
    /// The graph whose nodes the groups have.
    pub graph: &'g Graph,
    /// The groups in an order in which each reads only what earlier ones store.
    pub list: Vec<Group>,
    /// The groups of each scan's body.
    pub bodies: NodeMap<Groups<'g>>,
}

impl Groups<'_> {
    /// Returns the tensors in memory: inputs, weights and constants, and what the groups store.
    pub fn stored(&self) -> Vec<NodeId> {
        let graph = self.graph;
        let roots = self.list.iter().flat_map(|group| &group.roots).copied();
        graph.ids().filter(|id| graph.node(*id).op.is_source()).chain(roots).collect()
    }

    /// Returns the tensors that must be in memory, but are larger than the device's buffers:
    /// without the results of scans, and what these store.
    pub fn larger_than_buffers(&self, profile: &Profile) -> Vec<NodeId> {
        let graph = self.graph;
        let mut large = self.stored();
        large.retain(|&id| {
            let node = graph.node(id);
            !matches!(node.op, Op::Scan(_) | Op::Result { .. })
                && profile.is_too_large(&node.ty, node.op.is_preloaded())
        });
        large
    }

    /// Checks that every value that must be in memory is, and that it is stored before it is read.
    pub fn verify(&self) -> Result<(), String> {
        let graph = self.graph;
        let name = |id: NodeId| graph.value_name(id);
        let (home, reads) = homes(graph, &self.list);
        for (number, group) in self.list.iter().enumerate() {
            if let Some(&root) = group.roots.iter().find(|root| home[**root] != number) {
                return Err(format!("two groups store `{}`", name(root)));
            }
            if let Some(&late) = reads[number].iter().find(|root| home[**root] >= number) {
                return Err(format!("`{}` is read before it is stored", name(late)));
            }
        }
        let is_stored = |id: NodeId| graph.node(id).op.is_source() || home.contains(id);
        if let Some((output, _)) =
            graph.outputs.iter().find(|(_, id)| !is_stored(graph.storage(*id)))
        {
            return Err(format!("no group stores the output `{output}`"));
        }
        for id in graph.ids() {
            match graph.node(id).op {
                Op::Scan(_) | Op::PrngValue | Op::PrngState { .. } if !is_stored(id) => {
                    return Err(format!("no group computes `{}`", name(id)));
                }
                Op::Scan(_) if !self.bodies.contains(id) => {
                    return Err(format!("the body of `{}` has no groups", name(id)));
                }
                _ => {}
            }
        }
        self.bodies.values().try_for_each(Groups::verify)
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
pub(super) fn nest_of(
    graph: &Graph,
    group: &Group,
    in_memory: &dyn Fn(NodeId) -> bool,
) -> Option<(Nest, Vec<NodeId>)> {
    let whole = |id: NodeId| Window::whole(&graph.node(id).ty);
    let memory = |id: NodeId| (graph.node(id).op.is_source() || in_memory(id)).then(|| whole(id));
    let roots: Vec<(NodeId, Vec<Window>)> =
        group.roots.iter().map(|&root| (root, vec![whole(root)])).collect();
    graph.budget.spend(NEST_UNITS).ok()?;
    nest::build(graph, group.members(&roots), &memory, &[]).ok()
}

/// Returns the group of each root, and for each group the roots of other groups that it reads from
/// memory.
pub(super) fn homes(graph: &Graph, groups: &[Group]) -> (NodeMap<usize>, Vec<BTreeSet<NodeId>>) {
    let roots = |(number, group): (usize, &Group)| {
        group.roots.iter().map(|&root| (root, number)).collect::<Vec<_>>()
    };
    let home = groups.iter().enumerate().flat_map(roots).collect();
    let reads = groups.iter().map(|group| reads(graph, group, &home)).collect();
    (home, reads)
}

/// Returns the roots of other groups that a group reads from memory.
fn reads(graph: &Graph, group: &Group, home: &NodeMap<usize>) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut seen: HashSet<NodeId> = group.roots.iter().copied().collect();
    let mut pending = group.roots.clone();
    while let Some(id) = pending.pop() {
        for &operand in graph.operands(id) {
            let operand = match &graph.node(graph.storage(operand)).op {
                Op::Result { .. } => graph.operands(graph.storage(operand))[0],
                _ => graph.storage(operand),
            };
            if !seen.insert(operand) {
                continue;
            }
            if home.contains(operand) {
                found.insert(operand);
            } else if !graph.node(operand).op.is_source() {
                pending.push(operand);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fuse;
    use super::*;
    use crate::profile::Profile;

    #[test]
    fn broken_groups_are_refused() {
        let text = "\
graph g(%0, %1) -> (Y = %3)
%0 = input X : f32[4, 8]
%1 = input S : u32[3, 2048]
%2 = prng_value %1 : f32[8]  # R
%3 = contract sum [i] (i: 0..4, k: 0..8) { v0 = %0[i, k]; v1 = %2[k]; v2 = mul v0 v1; yield v2 } : f32[4]
";
        let graph = Graph::parse(text).unwrap();
        graph.verify().unwrap();
        let fault = |change: &dyn Fn(&mut Vec<Group>)| {
            let mut groups = fuse(&graph, &Profile::generic());
            assert_eq!(groups.verify(), Ok(()));
            change(&mut groups.list);
            groups.verify().unwrap_err()
        };
        assert_eq!(fault(&|list| list.swap(0, 1)), "`R` is read before it is stored");
        assert_eq!(fault(&|list| list.push(list[0].clone())), "two groups store `R`");
        assert_eq!(fault(&|list| _ = list.remove(0)), "no group computes `R`");
        assert_eq!(fault(&|list| _ = list.pop()), "no group stores the output `Y`");
    }
}
