//! Merges groups of [`fuse`](super::fuse) into nests with several outputs, and nests that know statistics of their rows.
//!
//! Example: `M = max over k of X`, `E = exp(X - M)`, `S = sum over k of E`, `Y = E / S` are four groups: the second and the
//! fourth are as large as X, the others aggregate its rows. Merged, they are one nest that reads X once and writes Y once.
//! Likewise the new momenta of an optimizer and the weight that is made of them, and, as its epilogue, with the contraction
//! that gives the gradient.
//!
//! A group is merged with one whose value it reads, where that saves traffic and harms neither: the places are the same, or
//! one aggregates the rows of the other; rows are many enough to keep a device busy, or short. Last, what knows statistics of a product's
//! rows is merged with the product where one kernel is predicted to take no longer than two.
//!
//! Why it is sound: [`crate::nest::build`] refuses what one nest cannot compute, a value that is read away from its place. A group
//! is moved only where everything that it reads still comes before it, and all that reads it after.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::graph::{Graph, NodeId, Op};
use crate::nest::{self, Nest, Window, row_form};
use crate::profile::{Execution, Profile};

use super::fuse::{Group, MOST_NODES, Time, compared_with_extremes, is_source, storage};

/// The most elements of a row that a device keeps close at hand.
const LONGEST_ROW: usize = 1 << 16;

/// So many rows keep a device busy.
const BUSY_ROWS: usize = 64;

/// A row of at most so many elements takes a workgroup less time than further launches would, even if other workgroups have nothing to do.
const SHORT_ROW: usize = 1 << 13;

/// Terms of a contraction up to which a long epilogue, for which a shader keeps fewer sums in registers, is still cheaper
/// than another pass over memory.
const FEW_TERMS: usize = 512;

/// Times that a row nest may read each element of its largest tensor. Products that read them more often are better tiled.
const MOST_READS: usize = 8;

/// Instructions of an epilogue that take no registers from the sums.
const SHORT_EPILOGUE: usize = 8;

/// The groups, merged where that pays, in topological order.
pub(super) fn merge(graph: &Graph, groups: Vec<Group>, profile: &Profile, time: Option<Time>) -> Vec<Group> {
    let mut merging = Merging::new(graph, groups, profile);
    for reader in 0..merging.groups.len() {
        merging.merge_operands(reader);
    }
    if let Some(time) = time {
        for reader in 0..merging.groups.len() {
            merging.finish_rows(reader, time);
        }
    }
    merging.groups.into_iter().flatten().collect()
}

/// Groups in topological order, with gaps where merged ones were.
struct Merging<'g> {
    graph: &'g Graph,
    profile: &'g Profile,
    groups: Vec<Option<Group>>,
    /// What each reads from memory that other groups compute.
    reads: Vec<BTreeSet<NodeId>>,
    /// The groups that read a root.
    readers: HashMap<NodeId, BTreeSet<usize>>,
    /// The group of each root.
    home: HashMap<NodeId, usize>,
    /// How many of the graph's outputs each node is. In a loop, each of them has a place of its own.
    outputs: HashMap<NodeId, usize>,
}

impl<'g> Merging<'g> {
    fn new(graph: &'g Graph, groups: Vec<Group>, profile: &'g Profile) -> Merging<'g> {
        let (home, reads) = homes(graph, &groups);
        let mut readers: HashMap<NodeId, BTreeSet<usize>> = HashMap::new();
        for (number, roots) in reads.iter().enumerate() {
            roots.iter().for_each(|&root| _ = readers.entry(root).or_default().insert(number));
        }
        let mut outputs = HashMap::new();
        graph.outputs.iter().for_each(|(_, id)| *outputs.entry(storage(graph, *id)).or_insert(0) += 1);
        Merging { graph, profile, groups: groups.into_iter().map(Some).collect(), reads, readers, home, outputs }
    }

    /// Merges a group with those that it reads, and these with those that they read, as far as that pays.
    fn merge_operands(&mut self, reader: usize) {
        let mut at = reader;
        let mut refused = HashSet::new();
        loop {
            let next = self.reads[at].iter().map(|root| self.home[root]).find(|other| !refused.contains(other));
            let Some(other) = next else { return };
            match self.merged(other, at) {
                Some((group, place)) => {
                    self.replace(other, at, group, place);
                    at = place;
                    refused.clear();
                }
                None => _ = refused.insert(other),
            }
        }
    }

    /// Merges a group that knows statistics of rows with the product whose rows these are, if that pays.
    fn finish_rows(&mut self, reader: usize, time: Time) {
        let products: BTreeSet<usize> = self.reads[reader].iter().map(|root| self.home[root]).collect();
        let with_product = |&product: &usize| Some((product, self.finished(product, reader, time)?));
        if let Some((product, (group, place))) = products.iter().find_map(with_product) {
            self.replace(product, reader, group, place);
        }
    }

    /// What a product and a group that reads it become, and where in the order.
    fn finished(&self, first: usize, second: usize, time: Time) -> Option<(Group, usize)> {
        let (a, b) = (self.groups[first].as_ref()?, self.groups[second].as_ref()?);
        let is_plain = a.statistics.is_empty() && a.inner.is_empty() && is_nest(self.graph, a);
        let is_of_rows = b.contraction.is_none() && !b.statistics.is_empty();
        if a.contraction.is_none() || !is_plain || !is_of_rows || a.once != b.once {
            return None;
        }
        let place = self.place(first, second)?;
        let mut group = Group {
            roots: [&a.roots[..], &b.roots].concat(),
            contraction: a.contraction,
            statistics: b.statistics.clone(),
            inner: Vec::new(),
            once: a.once,
        };
        if self.compares_extremes(&group) {
            return None;
        }
        group.roots.retain(|root| self.is_kept(*root, first, second));
        let others = |id: NodeId| self.home.get(&id).is_some_and(|home| ![first, second].contains(home));
        let (whole, _) = nest_of(self.graph, &group, &others)?;
        let fits = self.buffers(&whole, &group.roots) <= self.profile.max_buffers as usize;
        if !fits || whole.epilogue.insts.len() > 4 * MOST_NODES {
            return None;
        }
        let alone = |group: &Group| time(&nest_of(self.graph, group, &|id| self.home.contains_key(&id))?.0);
        // Without a kernel for the whole there is none.
        let whole = time(&whole)?;
        (whole <= alone(a)? + alone(b)?).then_some((group, place))
    }

    /// What two groups become, of which the second reads the first, and where in the order.
    fn merged(&self, first: usize, second: usize) -> Option<(Group, usize)> {
        let (a, b) = (self.groups[first].as_ref()?, self.groups[second].as_ref()?);
        let has_inner = |group: &Group| !group.inner.is_empty();
        if has_inner(a) || has_inner(b) || a.once != b.once || !is_nest(self.graph, a) || !is_nest(self.graph, b) {
            return None;
        }
        let place = self.place(first, second)?;
        let mut group = Group {
            roots: [&a.roots[..], &b.roots].concat(),
            once: a.once,
            contraction: None,
            statistics: Vec::new(),
            inner: Vec::new(),
        };
        let shape = |group: &Group| self.graph.shape(group.roots[0]);
        match (a.contraction, b.contraction) {
            (contraction, None) if shape(a) == shape(b) && a.statistics.is_empty() && b.statistics.is_empty() => {
                group.contraction = contraction;
            }
            _ => {
                let statistics =
                    |group: &Group| group.statistics.iter().copied().chain(group.contraction).collect::<Vec<_>>();
                group.statistics = [statistics(a), statistics(b)].concat();
                let elements = |group: &Group| self.graph.node(group.roots[0]).ty.elements();
                // Without statistics all roots have the same places: building the nest would end there.
                let places_differ = group.statistics.is_empty() && elements(a) != elements(b);
                if places_differ || group.statistics.iter().any(|&id| row_form(self.graph, id).is_none()) {
                    return None;
                }
                // The rows of a nest know nothing of each other: on a cpu nothing of a product would stay in registers.
                let is_product = |&id: &NodeId| is_matrix_product(self.graph, id);
                if self.profile.execution == Execution::Native && group.statistics.iter().any(is_product) {
                    return None;
                }
            }
        }
        if self.compares_extremes(&group) {
            return None;
        }
        let (nest, _) = nest_of(self.graph, &group, &|id| self.home.contains_key(&id))?;
        let is_kept = |root: &NodeId| self.is_kept(*root, first, second);
        group.roots.retain(is_kept);
        self.pays(&nest, &group.roots).then_some((group, place))
    }

    /// Whether a contraction of the group compares what the group computes with its own extremes.
    fn compares_extremes(&self, group: &Group) -> bool {
        group.statistics.iter().chain(&group.contraction).any(|&id| {
            let Op::Contraction(op) = &self.graph.node(id).op else { return false };
            let compared = compared_with_extremes(self.graph, op, &self.graph.operands(id));
            compared.iter().any(|tensor| group.roots.contains(tensor))
        })
    }

    /// Where in the order both groups can be computed at once.
    fn place(&self, first: usize, second: usize) -> Option<usize> {
        let roots = &self.groups[first].as_ref()?.roots;
        if roots.iter().all(|root| self.readers(*root).all(|reader| reader >= second)) {
            return Some(second);
        }
        self.reads[second].iter().all(|root| self.home[root] <= first).then_some(first)
    }

    fn readers(&self, root: NodeId) -> impl Iterator<Item = usize> {
        self.readers.get(&root).into_iter().flatten().copied()
    }

    /// Whether a root of two groups that are merged must be in memory all the same.
    fn is_kept(&self, root: NodeId, first: usize, second: usize) -> bool {
        self.outputs.contains_key(&root) || self.readers(root).any(|reader| reader != first && reader != second)
    }

    /// Whether one nest that stores these is at least as good as the two that it is made of.
    fn pays(&self, nest: &Nest, stored: &[NodeId]) -> bool {
        let is_shader = self.profile.execution == Execution::Shader;
        let most_buffers = self.profile.max_buffers as usize;
        if self.buffers(nest, stored) > most_buffers || nest.epilogue.insts.len() > 4 * MOST_NODES {
            return false;
        }
        if nest.aggregation.is_some() {
            let is_short = nest.epilogue.insts.len() <= SHORT_EPILOGUE || nest.reduction_points() <= FEW_TERMS;
            return !is_shader || nest.roles().is_none() || is_short;
        }
        if nest.columns().is_empty() {
            return true;
        }
        let rows = nest.places() / nest.row_length();
        // Elsewhere the columns of a row are far from each other in memory.
        let follow_each_other =
            nest.loads().all(|load| load.dynamic.is_empty() && matches!(load.offset.coefficient(nest.free - 1), 0 | 1));
        let tensors = nest.operands.iter().chain(nest.outputs.iter().map(|output| &output.ty));
        let largest = tensors.map(|ty| ty.elements()).max().unwrap_or(0);
        let is_read_seldom = nest.places() <= MOST_READS.saturating_mul(largest);
        is_read_seldom
            && follow_each_other
            && nest.row_length() <= LONGEST_ROW
            && (rows >= BUSY_ROWS || nest.row_length() <= SHORT_ROW)
    }

    /// How many buffers a nest that stores these binds.
    fn buffers(&self, nest: &Nest, stored: &[NodeId]) -> usize {
        nest.operands.len() + stored.iter().map(|root| self.outputs.get(root).copied().unwrap_or(1)).sum::<usize>()
    }

    /// Puts a group in the place of the two that it is made of.
    fn replace(&mut self, first: usize, second: usize, group: Group, place: usize) {
        let gone: Vec<NodeId> =
            [first, second].iter().flat_map(|&n| self.groups[n].take()).flat_map(|g| g.roots).collect();
        let mut reads = std::mem::take(&mut self.reads[first]);
        reads.append(&mut self.reads[second]);
        reads.retain(|root| !gone.contains(root));
        gone.iter().for_each(|root| _ = self.home.remove(root));
        group.roots.iter().for_each(|&root| _ = self.home.insert(root, place));
        // What a group itself computes it does not read from memory.
        for root in reads.iter().chain(&group.roots) {
            self.readers.entry(*root).or_default().retain(|&reader| reader != first && reader != second);
        }
        for root in &reads {
            self.readers.entry(*root).or_default().insert(place);
        }
        self.reads[place] = reads;
        self.groups[place] = Some(group);
    }
}

/// Whether a group is computed by a nest.
pub(super) fn is_nest(graph: &Graph, group: &Group) -> bool {
    let is_nest = |id: &NodeId| {
        !matches!(graph.node(*id).op, Op::Scan(_) | Op::PrngValue | Op::PrngState { .. })
            && graph.node(*id).ty.elements() > 0
    };
    group.roots.iter().all(is_nest)
}

/// Whether a node is a sum of products of two tensors, each of which is read again for other places.
fn is_matrix_product(graph: &Graph, id: NodeId) -> bool {
    let Op::Contraction(op) = &graph.node(id).op else { return false };
    op.is_sum_of_products() && op.accesses.len() == 2 && op.accesses.iter().all(|access| op.reads_again(access))
}

/// The nest of a group, where there is one, and its operands. Nodes that are `in_memory` are read from there, as sources are.
pub(super) fn nest_of(graph: &Graph, group: &Group, in_memory: &dyn Fn(NodeId) -> bool) -> Option<(Nest, Vec<NodeId>)> {
    let whole = |id: NodeId| Window::whole(&graph.node(id).ty);
    let memory = |id: NodeId| (is_source(&graph.node(id).op) || in_memory(id)).then(|| whole(id));
    let roots: Vec<(NodeId, Vec<Window>)> = group.roots.iter().map(|&root| (root, vec![whole(root)])).collect();
    nest::build(graph, group.members(&roots), &memory, &[]).ok()
}

/// The group of each root, and the roots of other groups that each group reads from memory.
pub(super) fn homes(graph: &Graph, groups: &[Group]) -> (HashMap<NodeId, usize>, Vec<BTreeSet<NodeId>>) {
    let roots = |(number, group): (usize, &Group)| group.roots.iter().map(|&root| (root, number)).collect::<Vec<_>>();
    let home = groups.iter().enumerate().flat_map(roots).collect();
    let reads = groups.iter().map(|group| reads(graph, group, &home)).collect();
    (home, reads)
}

/// The roots of other groups that a group reads from memory.
fn reads(graph: &Graph, group: &Group, home: &HashMap<NodeId, usize>) -> BTreeSet<NodeId> {
    let mut found = BTreeSet::new();
    let mut seen: HashSet<NodeId> = group.roots.iter().copied().collect();
    let mut pending = group.roots.clone();
    while let Some(id) = pending.pop() {
        for operand in graph.operands(id) {
            let operand = match &graph.node(storage(graph, operand)).op {
                Op::Result { .. } => graph.operands(storage(graph, operand))[0],
                _ => storage(graph, operand),
            };
            if !seen.insert(operand) {
                continue;
            }
            if home.contains_key(&operand) {
                found.insert(operand);
            } else if !is_source(&graph.node(operand).op) {
                pending.push(operand);
            }
        }
    }
    found
}
