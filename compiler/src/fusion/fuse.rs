//! Groups the graph's nodes into loop nests, so that values pass through registers instead of
//! memory.
//!
//! Example: `C = A · B` (a contraction), `D = C + Bias`, `E = relu(D)` become one group with root
//! `E`: the bias and the activation are applied to the product's tile before it is stored. Before:
//! three writes and four reads of the output's size. After: one write.
//!
//! A group consists of
//!
//! - its *root*, which is stored in memory;
//! - at most one *contraction* with a reduction: the root itself, or a node that reaches the root
//!   through elementwise nodes of the same shape;
//! - any number of *inlined* nodes, which are not stored, but recomputed at each place that needs
//!   them. Several groups may inline the same node, if it is cheap.
//!
//! A node inlined before a reduction is recomputed for each read. So it must be cheap (on a cpu: a
//! view), or be read once. It must not be inlined if the contraction from which it is computed can
//! store it from its *epilogue*, because this takes no more memory than the contraction itself.
//!
//! In later stages, products absorb others ([`attend`](super::attend)), and groups are merged
//! ([`merge`](super::merge())), so that a group may have several roots, and row statistics.
//!
//! Why it is sound: the nest built for a group ([`crate::nest::build`]) computes exactly the root's
//! elements, whatever is inlined, so grouping affects only cost. Every node that a nest reads from
//! memory is a root, an input or a constant, and roots are in topological order.

use std::collections::{BTreeSet, HashSet};

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Graph, NodeId, NodeMap, NodeSet, Op,
};
use crate::nest::is_view;
use crate::profile::{Execution, Profile};
use crate::scalar::{BinaryOp, Inst, Value};

use super::group::{Group, Groups, MOST_NODES};
use super::links::Links;
use super::prelude::Prelude;

/// The most evaluations for each element for which a cheap node with one operand is recomputed
/// rather than stored.
const MOST_RECOMPUTATION: f64 = 32.0;

/// Multiplications of an element for each time that a tiled product reads it from memory, roughly.
const TILE_REUSE: f64 = 64.0;

/// Returns the groups of `graph` and of the bodies of its scans.
pub fn fuse<'g>(graph: &'g Graph, profile: &Profile) -> Groups<'g> {
    let bodies = graph.ids().filter_map(|id| match &graph.node(id).op {
        Op::Scan(scan) => Some((id, fuse(&scan.body, profile))),
        _ => None,
    });
    let bodies = bodies.collect();
    Groups { graph, list: groups_of(graph, profile), bodies }
}

/// Returns the groups of `graph` in topological order.
fn groups_of(graph: &Graph, profile: &Profile) -> Vec<Group> {
    let links = Links::new(graph);
    let mut stored: NodeSet = graph.outputs.iter().map(|(_, id)| graph.storage(*id)).collect();
    for id in graph.ids() {
        stored.extend(must_be_read_from_memory(graph, id));
    }
    let most_buffers = profile.max_buffers as usize;
    let prelude = Prelude::find(graph, &links, profile);
    stored.extend(prelude.kept.iter());
    let is_contraction = |id: &NodeId| matches!(graph.node(*id).op, Op::Contraction(_));
    let reductions = graph.ids().filter(|id| is_contraction(id) && !is_view(graph, *id)).collect();
    loop {
        let _ = graph.budget.spend(5 * links.order.len() as u64);
        let grouping = Grouping::new(graph, profile, &links, &reductions, &stored);
        let more = grouping.to_store(most_buffers);
        if more.is_empty() || graph.budget.check().is_err() {
            return grouping.groups(&prelude.nodes);
        }
        stored.extend(more);
    }
}

/// Returns the operands that a node can only read from memory: the operand of a reshape, of an
/// access at a run-time index, of a random number generator and of a scan; and a tensor that the
/// node compares with its own extremes.
fn must_be_read_from_memory(graph: &Graph, id: NodeId) -> Vec<NodeId> {
    let operands = graph.operands(id);
    match &graph.node(id).op {
        Op::Reshape => vec![graph.storage(id)],
        Op::PrngValue | Op::PrngState { .. } | Op::Scan(_) => {
            operands.iter().map(|&o| graph.storage(o)).collect()
        }
        Op::Contraction(op) => {
            let dynamic = op.accesses.iter().filter(|access| !access.is_fixed());
            let dynamic = dynamic.map(|a| graph.storage(operands[a.operand]));
            dynamic.chain(compared_with_extremes(graph, op, operands)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns whether a node converts a tensor to a wider type for elementwise readers. Converting it
/// again for each costs less than reading the wider one.
pub(super) fn widens_for_elementwise(graph: &Graph, id: NodeId) -> bool {
    let (node, users) = (graph.node(id), graph.users(id));
    matches!(node.op, Op::Cast)
        && graph.dtype(graph.operands(id)[0]).size() < node.ty.dtype.size()
        && !users.is_empty()
        && !graph.is_output(id)
        && users.iter().all(|user| graph.node(*user).op.is_elementwise())
}

/// Returns the tensors whose elements a contraction compares with the maxima or minima of the same
/// tensor, as gradients of these do. A recomputed element might be rounded differently, for
/// instance by a fused multiply-add, so that none would equal the extreme.
pub(super) fn compared_with_extremes(
    graph: &Graph,
    op: &Contraction,
    operands: &[NodeId],
) -> Vec<NodeId> {
    let tensor = |value: Value| match &op.body.insts[value].0 {
        Inst::Leaf(ContractionLeaf::Access(access)) => {
            Some(graph.storage(operands[op.accesses[*access].operand]))
        }
        _ => None,
    };
    let is_extreme_of = |extreme: NodeId, tensor: NodeId| match &graph.node(extreme).op {
        Op::Contraction(op) => {
            matches!(op.aggregation, Aggregation::Max | Aggregation::Min)
                && graph.operands(extreme).iter().any(|&operand| graph.storage(operand) == tensor)
        }
        _ => false,
    };
    let mut found = Vec::new();
    for (inst, _) in &op.body.insts {
        let Inst::Binary(BinaryOp::Eq, a, b) = inst else { continue };
        if let (Some(a), Some(b)) = (tensor(*a), tensor(*b)) {
            found.extend(
                [(a, b), (b, a)].into_iter().filter(|&(x, y)| is_extreme_of(y, x)).map(|(x, _)| x),
            );
        }
    }
    found
}

/// The location of a node that is computed but not stored.
#[derive(Clone, Debug)]
struct Inlined {
    /// The roots of the groups that compute it, in ascending order.
    roots: Vec<NodeId>,
    /// The node is always evaluated at the place that the root's nest computes.
    at_place: bool,
}

/// A partition of the graph into groups, for a given set of stored nodes.
struct Grouping<'g> {
    graph: &'g Graph,
    profile: &'g Profile,
    links: &'g Links,
    /// Contractions other than views.
    reductions: &'g NodeSet,
    /// The roots that each node is inlined into. Absent if it is stored.
    inlined: NodeMap<Inlined>,
    /// The contraction of a root's group; roots without one are absent.
    contractions: NodeMap<NodeId>,
    /// Total evaluations of each node.
    evaluations: NodeMap<f64>,
    /// Number of nodes in each root's group.
    sizes: NodeMap<usize>,
    /// For each elementwise node that could be in a contraction's epilogue: that contraction.
    epilogues: NodeMap<NodeId>,
}

impl<'g> Grouping<'g> {
    fn new(
        graph: &'g Graph,
        profile: &'g Profile,
        links: &'g Links,
        reductions: &'g NodeSet,
        stored: &NodeSet,
    ) -> Grouping<'g> {
        let mut grouping = Grouping {
            graph,
            profile,
            links,
            reductions,
            inlined: NodeMap::new(),
            contractions: NodeMap::new(),
            evaluations: NodeMap::new(),
            sizes: NodeMap::new(),
            epilogues: NodeMap::new(),
        };
        grouping.find_epilogues();
        for &id in links.order.iter().rev() {
            let op = &graph.node(id).op;
            if op.is_source() || matches!(op, Op::Reshape) {
                continue;
            }
            let elements = graph.node(id).ty.elements() as f64;
            let needed: f64 = links.users(id).iter().map(|&user| grouping.reads(user, id)).sum();
            let home = if stored.contains(id) { None } else { grouping.inline(id, needed) };
            grouping.evaluations.insert(id, if home.is_some() { needed } else { elements });
            match &home {
                Some(home) => {
                    for root in &home.roots {
                        *grouping.sizes.slot(*root).get_or_insert(1) += 1;
                    }
                }
                None => {
                    if reductions.contains(id) {
                        grouping.contractions.insert(id, id);
                    }
                }
            }
            *grouping.inlined.slot(id) = home;
        }
        grouping
    }

    /// Follows each contraction through elementwise nodes of its shape.
    fn find_epilogues(&mut self) {
        for &contraction in self.links.order.iter().filter(|id| self.reductions.contains(**id)) {
            let mut open = vec![contraction];
            let mut seen = HashSet::new();
            while let Some(id) = open.pop().filter(|_| seen.len() < MOST_NODES) {
                for &reader in self.links.users(id) {
                    let is_same = self.graph.shape(reader) == self.graph.shape(contraction);
                    if is_same && is_local(&self.graph.node(reader).op) && seen.insert(reader) {
                        self.epilogues.slot(reader).get_or_insert(contraction);
                        open.push(reader);
                    }
                }
            }
        }
    }

    /// Returns how often evaluating all of `user` reads an element of `id`.
    fn reads(&self, user: NodeId, id: NodeId) -> f64 {
        let evaluations = self.evaluations.get(user).copied().unwrap_or(0.0);
        let Op::Contraction(op) = &self.graph.node(user).op else { return evaluations };
        let operands = self.graph.operands(user);
        let default = f64::from(op.default && operands.last() == Some(&id));
        let elements = (self.graph.node(user).ty.elements() as f64).max(1.0);
        let points: f64 = op.indices.iter().map(|r| (r.high - r.low).max(0) as f64).product();
        // A tile reuses an element at many places, unless these all lie around it, as in a
        // depthwise convolution.
        let is_tiled = |access: &Access| op.accesses.len() >= 2 && op.reads_again(access);
        let tiled = (points / TILE_REUSE).max(elements.min(points));
        let accesses = op.accesses.iter().filter(|access| operands[access.operand] == id);
        let reads: f64 = accesses.map(|access| if is_tiled(access) { tiled } else { points }).sum();
        evaluations / elements * (reads + default * elements)
    }

    /// Returns whether `user` reads `id` through a window, or writes it through one: some
    /// coordinate is the sum of a place and a tap.
    fn reads_through_window(&self, user: NodeId, id: NodeId) -> bool {
        let Op::Contraction(op) = &self.graph.node(user).op else { return false };
        let operands = self.graph.operands(user);
        let accesses = op.accesses.iter().filter(|access| operands[access.operand] == id);
        let read = accesses.flat_map(|access| &access.index).map(|index| &index.affine);
        read.chain(&op.output).any(|expression| op.is_of_several_indices(expression))
    }

    /// Returns the groups into which to inline `id`, which is evaluated `needed` times, or `None`
    /// to store it.
    fn inline(&mut self, id: NodeId, needed: f64) -> Option<Inlined> {
        let (node, links) = (self.graph.node(id), self.links);
        let users = links.users(id);
        let mut roots = Vec::new();
        let mut at_place = true;
        for &user in users {
            match self.inlined.get(user) {
                Some(home) => {
                    roots.extend(&home.roots);
                    at_place &= home.at_place;
                }
                None => roots.push(user),
            }
            at_place &=
                is_local(&self.graph.node(user).op) && self.graph.shape(user) == node.ty.shape;
        }
        let _ = self.graph.budget.spend((users.len() + roots.len()) as u64 / 2);
        roots.sort_unstable();
        roots.dedup();
        at_place &= roots.len() == 1;
        let root = *roots.first()?;
        if matches!(node.op, Op::Constant(_) | Op::Index { .. }) {
            return Some(Inlined { roots, at_place });
        }
        if roots.iter().any(|r| self.sizes.get(*r).is_some_and(|&n| n >= MOST_NODES)) {
            return None;
        }
        if self.reductions.contains(id) {
            // A nest has room for only one aggregation.
            let joins = at_place && !self.contractions.contains(root);
            return joins.then(|| {
                self.contractions.insert(root, id);
                Inlined { roots, at_place }
            });
        }
        if matches!(node.op, Op::PrngValue | Op::PrngState { .. } | Op::Scan(_)) {
            return None;
        }
        // On a cpu, a mask of positions is computed about as fast as it is read, and a nest of
        // attention leaves out what it hides.
        let is_native = self.profile.execution == Execution::Native;
        let is_of_positions =
            links.positions.contains(id) || masks_by_positions(self.graph, id, links);
        if widens_for_elementwise(self.graph, id) || (is_native && is_of_positions) {
            return Some(Inlined { roots, at_place });
        }
        let bytes = |id: NodeId| self.graph.node(id).ty.elements() * self.graph.dtype(id).size();
        if !at_place
            && self.epilogues.get(id).is_some_and(|contraction| bytes(id) <= bytes(*contraction))
        {
            return None;
        }
        let repeats = needed / (node.ty.elements() as f64).max(1.0);
        let operands = self.graph.operands(id);
        let tensors = operands.iter().filter(|&&o| self.graph.node(o).ty.elements() > 1).count();
        // On a cpu, stored values stay in a cache, and the fast products and convolutions read
        // operands as they lie in memory.
        if is_native
            && turns(&node.op)
            && users.iter().any(|&user| self.reads_through_window(user, id))
        {
            return None;
        }
        let is_cheap =
            !is_expensive(&node.op) && tensors <= 1 && !(is_native && is_local(&node.op));
        let cheap = is_cheap && repeats <= MOST_RECOMPUTATION;
        (at_place || repeats <= 1.0 || cheap).then_some(Inlined { roots, at_place })
    }

    fn is_stored(&self, id: NodeId) -> bool {
        !self.inlined.contains(id) && !matches!(self.graph.node(id).op, Op::Reshape)
    }

    /// Returns the roots of the groups that compute a node.
    fn roots<'s>(&'s self, id: &'s NodeId) -> &'s [NodeId] {
        self.inlined.get(*id).map_or(std::slice::from_ref(id), |home| &home.roots)
    }

    /// Returns the nodes whose memory a computed node's operands alias.
    fn reads_from(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let computes = !matches!(self.graph.node(id).op, Op::Reshape | Op::Scan(_));
        let operands = self.graph.operands(id).iter().filter(move |_| computes);
        operands.map(|&operand| self.graph.storage(operand))
    }

    /// Returns how many tensors the nests that compute a node may read if a kernel can bind
    /// `most_buffers`. In a scan, a nest writes its result once for each output that names it.
    fn most_read(&self, id: NodeId, most_buffers: usize) -> usize {
        let written = |root: &NodeId| self.links.outputs.get(*root).copied().unwrap_or(0);
        most_buffers.saturating_sub(self.roots(&id).iter().map(written).max().unwrap_or(0).max(1))
    }

    /// Returns the roots of groups whose nests read more tensors than a kernel can bind besides its
    /// outputs.
    fn too_large(&self, most_buffers: usize) -> NodeSet {
        let mut read: NodeMap<HashSet<NodeId>> = NodeMap::new();
        for id in &self.links.order {
            for operand in self.reads_from(*id).filter(|&operand| self.is_stored(operand)) {
                for root in self.roots(id) {
                    read.slot(*root).get_or_insert_default().insert(operand);
                }
            }
        }
        let is_too_much = |root: NodeId, count: usize| count > self.most_read(root, most_buffers);
        read.iter()
            .filter(|(root, tensors)| is_too_much(*root, tensors.len()))
            .map(|(root, _)| root)
            .collect()
    }

    /// Returns inlined nodes to store instead, so that no group reads more tensors than a kernel
    /// can bind.
    ///
    /// Walks from operands to readers. Each node of a group that is too large collects the tensors
    /// that it needs. If these are too many, the operand that needs the most is stored, and counts
    /// as one tensor from there on.
    fn to_store(&self, most_buffers: usize) -> Vec<NodeId> {
        let too_large = self.too_large(most_buffers);
        let mut needs: NodeMap<BTreeSet<NodeId>> = NodeMap::new();
        let mut chosen = Vec::new();
        if too_large.is_empty() {
            return chosen;
        }
        for &id in &self.links.order {
            if !self.roots(&id).iter().any(|root| too_large.contains(*root)) {
                continue;
            }
            let most_read = self.most_read(id, most_buffers);
            let inlined: Vec<NodeId> =
                self.reads_from(id).filter(|&operand| !self.is_stored(operand)).collect();
            let stored: Vec<NodeId> =
                self.reads_from(id).filter(|&operand| self.is_stored(operand)).collect();
            loop {
                let below = inlined.iter().filter_map(|operand| needs.get(*operand)).flatten();
                let all: BTreeSet<NodeId> = below.chain(&stored).copied().collect();
                let count = |operand: &NodeId| needs.get(*operand).map_or(0, BTreeSet::len);
                match inlined.iter().copied().max_by_key(count).filter(|largest| count(largest) > 1)
                {
                    Some(largest) if all.len() > most_read => {
                        chosen.push(largest);
                        needs.insert(largest, BTreeSet::from([largest]));
                    }
                    _ => {
                        needs.insert(id, all);
                        break;
                    }
                }
            }
        }
        chosen
    }

    /// Returns the groups. `once` has the nodes that depend on no input.
    fn groups(&self, once: &NodeSet) -> Vec<Group> {
        let stored = self
            .links
            .order
            .iter()
            .filter(|id| self.is_stored(**id) && !self.graph.node(**id).op.is_source());

        let group = |id: &NodeId| Group {
            roots: vec![*id],
            contraction: self.contractions.get(*id).copied(),
            statistics: Vec::new(),
            inner: Vec::new(),
            once: once.contains(*id),
        };
        stored.map(group).collect()
    }
}

/// Returns whether an element is computed from no elements of tensors but those at its place.
fn is_local(op: &Op) -> bool {
    op.is_elementwise() || matches!(op, Op::Constant(_) | Op::Index { .. })
}

/// Returns whether the node copies a tensor in another order, so that elements adjacent in the
/// tensor are not adjacent in the copy.
fn turns(op: &Op) -> bool {
    let Op::Contraction(op) = op else { return false };
    let [access] = &op.accesses[..] else { return false };
    let varying = |affine: &Affine| affine.variables().find(|&v| op.indices[v].varies());
    let written = op.output.iter().rev().find_map(varying);
    let read = access.index.iter().rev().find_map(|index| varying(&index.affine));
    op.aggregation == Aggregation::Assign && written != read
}

/// Returns whether a node joins a mask in memory with one of positions, so that reading the former
/// in its place takes about as long.
fn masks_by_positions(graph: &Graph, id: NodeId, links: &Links) -> bool {
    let operands = graph.operands(id);
    matches!(graph.node(id).op, Op::Binary(BinaryOp::BitAnd | BinaryOp::BitOr))
        && graph.dtype(id) == DType::Bool
        && operands.iter().any(|&operand| links.positions.contains(operand))
        && operands.iter().any(|&operand| graph.node(graph.storage(operand)).op.is_source())
}

pub(super) fn is_expensive(op: &Op) -> bool {
    match op {
        Op::Unary(op) => op.is_expensive(),
        Op::Binary(op) => op.is_expensive(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
