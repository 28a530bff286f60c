//! Merges groups of [`fuse`](super::fuse) into nests with several outputs, and into nests with row
//! statistics.
//!
//! Example: `M = max over k of X`, `E = exp(X - M)`, `S = sum over k of E`, `Y = E / S` are four
//! groups: the second and the fourth have the size of X, the others aggregate its rows. After
//! merging, one nest reads X once and writes Y once. In the same way, an optimizer's new momenta
//! are merged with the weight that is computed from them, and, as an epilogue, with the contraction
//! that computes the gradient.
//!
//! A group is merged with a group that it reads if that saves traffic and makes neither slower. The
//! places must be the same, or one group must aggregate the rows of the other; and the rows must be
//! numerous enough to keep the device busy, or short. Last, groups with statistics of a product's
//! rows are merged with the product, if one kernel is predicted to take no longer than two.
//!
//! Why it is sound: [`crate::nest::build`] rejects groups that one nest cannot compute because a
//! value is read at another place. A group moves only to a position where everything that it reads
//! still comes before it, and all its readers come after it.

use std::collections::{BTreeSet, HashSet};

use crate::graph::{Graph, NodeId, NodeMap, Op};
use crate::nest::{Nest, row_form};
use crate::profile::{Execution, Profile};

use super::fuse::compared_with_extremes;
use super::group::{Group, Groups, MOST_NODES, Time, homes, is_nest, nest_of};

/// The longest row that a device can keep in registers or caches.
const LONGEST_ROW: usize = 1 << 16;

/// The number of rows that keeps a device busy.
const BUSY_ROWS: usize = 64;

/// The longest row that one workgroup processes in less time than further launches would take, even
/// if other workgroups are idle.
const SHORT_ROW: usize = 1 << 13;

/// The most terms of a contraction for which a long epilogue is cheaper than another pass over
/// memory. A long epilogue leaves a shader fewer registers for sums.
const FEW_TERMS: usize = 512;

/// The most times that a row nest may read each element of its largest tensor. A tiled product is
/// better for more reuse.
const MOST_READS: usize = 8;

/// The most instructions of an epilogue that costs the sums no registers.
const SHORT_EPILOGUE: usize = 8;

/// Merges groups with the groups that they read, where that pays, also in the bodies of scans.
pub fn merge<'g>(groups: Groups<'g>, profile: &Profile) -> Groups<'g> {
    let Groups { graph, list, bodies } = groups;
    let mut merging = Merging::new(graph, list, profile);
    for reader in 0..merging.groups.len() {
        merging.merge_operands(reader);
    }
    let bodies = bodies.into_entries().map(|(scan, body)| (scan, merge(body, profile))).collect();
    Groups { graph, list: merging.groups.into_iter().flatten().collect(), bodies }
}

/// Merges products with the groups that have statistics of their rows, where one kernel is
/// predicted to take no longer than two. Scans are left alone.
pub fn finish_rows<'g>(groups: Groups<'g>, profile: &Profile, time: Time) -> Groups<'g> {
    let Groups { graph, list, bodies } = groups;
    let mut merging = Merging::new(graph, list, profile);
    for reader in 0..merging.groups.len() {
        merging.finish_rows(reader, time);
    }
    Groups { graph, list: merging.groups.into_iter().flatten().collect(), bodies }
}

/// Groups in topological order. Merged groups leave gaps.
struct Merging<'g> {
    graph: &'g Graph,
    profile: &'g Profile,
    groups: Vec<Option<Group>>,
    /// For each group: the roots of other groups that it reads from memory.
    reads: Vec<BTreeSet<NodeId>>,
    /// The groups that read each root.
    readers: NodeMap<BTreeSet<usize>>,
    /// The group of each root.
    home: NodeMap<usize>,
    /// How many of the graph's outputs each node is. In a loop, each output is written separately.
    outputs: NodeMap<usize>,
}

impl<'g> Merging<'g> {
    fn new(graph: &'g Graph, groups: Vec<Group>, profile: &'g Profile) -> Merging<'g> {
        let (home, reads) = homes(graph, &groups);
        let mut readers: NodeMap<BTreeSet<usize>> = NodeMap::new();
        for (number, roots) in reads.iter().enumerate() {
            roots
                .iter()
                .for_each(|&root| _ = readers.slot(root).get_or_insert_default().insert(number));
        }
        let mut outputs = NodeMap::new();
        graph
            .outputs
            .iter()
            .for_each(|(_, id)| *outputs.slot(graph.storage(*id)).get_or_insert(0) += 1);
        Merging {
            graph,
            profile,
            groups: groups.into_iter().map(Some).collect(),
            reads,
            readers,
            home,
            outputs,
        }
    }

    /// Merges a group with its operands, and the result with its operands in turn, as long as that
    /// pays.
    fn merge_operands(&mut self, reader: usize) {
        let mut at = reader;
        let mut refused = HashSet::new();
        loop {
            let next = self.reads[at]
                .iter()
                .map(|root| self.home[*root])
                .find(|other| !refused.contains(other));
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

    /// Merges a group with row statistics into the product whose rows they describe, if that pays.
    fn finish_rows(&mut self, reader: usize, time: Time) {
        let products: BTreeSet<usize> =
            self.reads[reader].iter().map(|root| self.home[*root]).collect();
        let with_product =
            |&product: &usize| Some((product, self.finished(product, reader, time)?));
        if let Some((product, (group, place))) = products.iter().find_map(with_product) {
            self.replace(product, reader, group, place);
        }
    }

    /// Returns the merger of a product and a group with row statistics that reads it, and its
    /// position.
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
        let others =
            |id: NodeId| self.home.get(id).is_some_and(|home| ![first, second].contains(home));
        let (whole, _) = nest_of(self.graph, &group, &others)?;
        let fits = self.buffers(&whole, &group.roots) <= self.profile.max_buffers as usize;
        if !fits || whole.epilogue.insts.len() > 4 * MOST_NODES {
            return None;
        }
        let alone =
            |group: &Group| time(&nest_of(self.graph, group, &|id| self.home.contains(id))?.0);
        // If the merged group has no kernel, it is not merged.
        let whole = time(&whole)?;
        (whole <= alone(a)? + alone(b)?).then_some((group, place))
    }

    /// Returns the merger of two groups, of which the second reads the first, and its position.
    fn merged(&self, first: usize, second: usize) -> Option<(Group, usize)> {
        let (a, b) = (self.groups[first].as_ref()?, self.groups[second].as_ref()?);
        let has_inner = |group: &Group| !group.inner.is_empty();
        if has_inner(a)
            || has_inner(b)
            || a.once != b.once
            || !is_nest(self.graph, a)
            || !is_nest(self.graph, b)
        {
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
            (contraction, None)
                if shape(a) == shape(b) && a.statistics.is_empty() && b.statistics.is_empty() =>
            {
                group.contraction = contraction;
            }
            _ => {
                let statistics = |group: &Group| {
                    group.statistics.iter().copied().chain(group.contraction).collect::<Vec<_>>()
                };
                group.statistics = [statistics(a), statistics(b)].concat();
                let elements = |group: &Group| self.graph.node(group.roots[0]).ty.elements();
                // Without statistics, building the nest would fail if the roots had different
                // places.
                let places_differ = group.statistics.is_empty() && elements(a) != elements(b);
                if places_differ
                    || group.statistics.iter().any(|&id| row_form(self.graph, id).is_none())
                {
                    return None;
                }
                // A row nest does not tile across rows: on a cpu, it would keep nothing of a
                // product in registers.
                let is_product = |&id: &NodeId| is_matrix_product(self.graph, id);
                if self.profile.execution == Execution::Native
                    && group.statistics.iter().any(is_product)
                {
                    return None;
                }
            }
        }
        if self.compares_extremes(&group) {
            return None;
        }
        let (nest, _) = nest_of(self.graph, &group, &|id| self.home.contains(id))?;
        let is_kept = |root: &NodeId| self.is_kept(*root, first, second);
        group.roots.retain(is_kept);
        self.pays(&nest, &group.roots).then_some((group, place))
    }

    /// Returns whether a contraction of the group compares a root of the group with its own
    /// extremes.
    fn compares_extremes(&self, group: &Group) -> bool {
        group.statistics.iter().chain(&group.contraction).any(|&id| {
            let Op::Contraction(op) = &self.graph.node(id).op else { return false };
            let compared = compared_with_extremes(self.graph, op, self.graph.operands(id));
            compared.iter().any(|tensor| group.roots.contains(tensor))
        })
    }

    /// Returns a position at which both groups can be computed together.
    fn place(&self, first: usize, second: usize) -> Option<usize> {
        let roots = &self.groups[first].as_ref()?.roots;
        if roots.iter().all(|root| self.readers(*root).all(|reader| reader >= second)) {
            return Some(second);
        }
        self.reads[second].iter().all(|root| self.home[*root] <= first).then_some(first)
    }

    fn readers(&self, root: NodeId) -> impl Iterator<Item = usize> {
        self.readers.get(root).into_iter().flatten().copied()
    }

    /// Returns whether a root of two merged groups must still be stored.
    fn is_kept(&self, root: NodeId, first: usize, second: usize) -> bool {
        self.outputs.contains(root)
            || self.readers(root).any(|reader| reader != first && reader != second)
    }

    /// Returns whether one nest that stores these roots is at least as fast as the two groups.
    fn pays(&self, nest: &Nest, stored: &[NodeId]) -> bool {
        let is_shader = self.profile.execution == Execution::Shader;
        let most_buffers = self.profile.max_buffers as usize;
        if self.buffers(nest, stored) > most_buffers || nest.epilogue.insts.len() > 4 * MOST_NODES {
            return false;
        }
        if nest.aggregation.is_some() {
            let is_short =
                nest.epilogue.insts.len() <= SHORT_EPILOGUE || nest.reduction_points() <= FEW_TERMS;
            return !is_shader || nest.roles().is_none() || is_short;
        }
        if nest.columns().is_empty() {
            return true;
        }
        let rows = nest.places() / nest.row_length();
        // In other layouts the columns of a row are far apart in memory.
        let follow_each_other = nest.loads().all(|load| {
            load.dynamic.is_empty() && matches!(load.offset.coefficient(nest.free - 1), 0 | 1)
        });
        let tensors = nest.operands.iter().chain(nest.outputs.iter().map(|output| &output.ty));
        let largest = tensors.map(|ty| ty.elements()).max().unwrap_or(0);
        let is_read_seldom = nest.places() <= MOST_READS.saturating_mul(largest);
        is_read_seldom
            && follow_each_other
            && nest.row_length() <= LONGEST_ROW
            && (rows >= BUSY_ROWS || nest.row_length() <= SHORT_ROW)
    }

    /// Returns the number of buffers that a nest binds if it stores these roots.
    fn buffers(&self, nest: &Nest, stored: &[NodeId]) -> usize {
        nest.operands.len()
            + stored.iter().map(|root| self.outputs.get(*root).copied().unwrap_or(1)).sum::<usize>()
    }

    /// Replaces two groups by their merger.
    fn replace(&mut self, first: usize, second: usize, group: Group, place: usize) {
        let gone: Vec<NodeId> = [first, second]
            .iter()
            .flat_map(|&n| self.groups[n].take())
            .flat_map(|g| g.roots)
            .collect();
        let mut reads = std::mem::take(&mut self.reads[first]);
        reads.append(&mut self.reads[second]);
        reads.retain(|root| !gone.contains(root));
        gone.iter().for_each(|root| _ = self.home.remove(*root));
        group.roots.iter().for_each(|&root| _ = self.home.insert(root, place));
        // A group does not read its own roots from memory.
        for root in reads.iter().chain(&group.roots) {
            self.readers
                .slot(*root)
                .get_or_insert_default()
                .retain(|&reader| reader != first && reader != second);
        }
        for root in &reads {
            self.readers.slot(*root).get_or_insert_default().insert(place);
        }
        self.reads[place] = reads;
        self.groups[place] = Some(group);
    }
}

/// Returns whether a node is a sum of products of two tensors that both are reused at several
/// places.
fn is_matrix_product(graph: &Graph, id: NodeId) -> bool {
    let Op::Contraction(op) = &graph.node(id).op else { return false };
    op.is_sum_of_products()
        && op.accesses.len() == 2
        && op.accesses.iter().all(|access| op.reads_again(access))
}
