//! Fuses attention: merges products, and elementwise operations on them, into the product that
//! reads them.
//!
//! Example: after fusion, `Scores[t, s] = +(Q[t, d] * K[s, d])`, `P = softmax(Scores)` and
//! `Y[t, e] = +(P[t, s] * V[s, e])` are three groups. This pass makes one group of them, with
//! Scores as an inner sum of Y's body and the maxima and sums of the softmax as its statistics.
//! Before, the scores (T·S elements) were transferred two to four times; after, none is in memory.
//!
//! A group is absorbed if one operand of the product reads its root at the product's rows and
//! points, and its root is a product of that shape or derives from one. A group that aggregates
//! such values over the points is absorbed, too. If other groups also read the absorbed values, as
//! gradients do, all of them must absorb them, or none does. They then recompute the scores, which
//! costs operations and saves traffic and memory. Statistics are not recomputed, but written and
//! read.
//!
//! Why it is sound: [`crate::nest::build`] rejects a group that one nest cannot compute, and a
//! group is absorbed only if [`Nest::attention`] says that a kernel exists for the resulting nest.
//! Products with weights are left alone: they are computed once, and keep a device busy as they
//! are.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Aggregation, Graph, NodeId, NodeMap, Op};
use crate::nest::{Attention, Leaf, Load, Nest, loads_of, row_form};
use crate::profile::{Execution, Profile};
use crate::scalar::Value;

use super::group::{Group, Groups, Time, homes, is_nest, nest_of};

/// Fewer rows or points do not fill a block of a tiled product.
const LEAST: usize = 16;

/// Points that a workgroup processes in less time than kernel launches take.
const FEW_POINTS: usize = 1024;

/// More columns do not fit in the registers of a workgroup's invocations beside the scores.
const MOST_COLUMNS: usize = 256;

/// The most groups that one change may concern.
const MOST_CHANGED: usize = 64;

/// Bytes of scores from which on recomputing is preferred, however long it takes.
const LARGE: f64 = 134_217_728.0;

/// The fraction of a device's peak rate that such products reach.
const EFFICIENCY: f64 = 0.6;

/// Lets products absorb the groups that lead to their operands. Scans are left alone, because their
/// steps compute parts of tensors.
pub fn attend<'g>(groups: Groups<'g>, profile: &Profile, time: Time) -> Groups<'g> {
    let Groups { graph, list, bodies } = groups;
    let mut taking = Taking {
        graph,
        profile,
        time,
        reads: Vec::new(),
        home: NodeMap::new(),
        leads: Vec::new(),
        groups: list,
    };
    taking.find_reads();
    let mut reader = 0;
    while reader < taking.groups.len() {
        let change =
            taking.grown(reader, &BTreeSet::new()).and_then(|grown| taking.change(reader, grown));
        if let Some(changed) = change.and_then(|change| taking.changed(change)) {
            // The change removed and reordered groups: continue at the new position of the reader.
            let root = taking.groups[reader].main();
            taking = changed;
            reader = taking.home[root];
        }
        reader += 1;
    }
    Groups { graph, list: taking.groups, bodies }
}

/// The state of the pass, with groups in topological order.
struct Taking<'g> {
    graph: &'g Graph,
    profile: &'g Profile,
    time: Time<'g>,
    groups: Vec<Group>,
    /// For each group: the roots of other groups that it reads from memory.
    reads: Vec<BTreeSet<NodeId>>,
    /// The group of each root.
    home: NodeMap<usize>,
    /// For each group: whether its root is a product, or derives from a product of its size.
    leads: Vec<bool>,
}

/// A group that has absorbed others, so that it does not read their roots.
struct Grown {
    group: Group,
    taken: BTreeSet<usize>,
    nest: Nest,
}

/// A change: the new groups by number, and the groups that are no longer needed.
struct Change {
    become_: BTreeMap<usize, Group>,
    gone: BTreeSet<usize>,
}

impl<'g> Taking<'g> {
    fn find_reads(&mut self) {
        (self.home, self.reads) = homes(self.graph, &self.groups);
        self.leads = Vec::with_capacity(self.groups.len());
        for number in 0..self.groups.len() {
            let leads = self.leads(number);
            self.leads.push(leads);
        }
    }

    /// Returns the group after it has absorbed all that it can. The nodes in `given` stay in
    /// memory.
    fn grown(&self, reader: usize, given: &BTreeSet<NodeId>) -> Option<Grown> {
        let group = &self.groups[reader];
        let Op::Contraction(op) = &self.graph.node(group.contraction?).op else { return None };
        let is_product = op.aggregation == Aggregation::Sum && op.accesses.len() >= 2;
        if group.once || !group.statistics.is_empty() || !is_product || !is_nest(self.graph, group)
        {
            return None;
        }
        // Most products are of weights: skip them early.
        if self
            .graph
            .operands(group.contraction?)
            .iter()
            .any(|&operand| self.is_prepared(self.graph.storage(operand)))
        {
            return None;
        }
        [true, false].into_iter().find_map(|left| self.grown_at(reader, left, given))
    }

    /// Absorbs groups into one operand of the product.
    fn grown_at(&self, reader: usize, left: bool, given: &BTreeSet<NodeId>) -> Option<Grown> {
        let mut group = self.groups[reader].clone();
        let mut taken = BTreeSet::new();
        let (nest, operands) = loop {
            let (nest, operands) = self.nest(&group, &taken, given)?;
            let roles = nest.roles()?;
            let (factor, rows) =
                if left { (roles.left, &roles.rows) } else { (roles.right, &roles.columns) };
            let next =
                of_factor(&nest, factor, rows).into_iter().find_map(|(operand, of_points)| {
                    let node = operands[operand];
                    let &home = self.home.get(node).filter(|_| !given.contains(&node))?;
                    let takes = if of_points {
                        self.leads[home]
                    } else {
                        self.sums_up(home, &taken, &group)
                    };
                    (home != reader && takes && !taken.contains(&home)).then_some((home, of_points))
                });
            let Some((number, of_points)) = next else { break (nest, operands) };
            taken.insert(number);
            let other = &self.groups[number];
            let of = if of_points { &mut group.inner } else { &mut group.statistics };
            of.extend(other.contraction);
            group.statistics.extend(other.statistics.iter().filter(|id| !given.contains(id)));
        };
        if taken.is_empty()
            || nest.verify().is_err()
            || !suits(&nest, self.profile)
            || (self.time)(&nest).is_none()
        {
            return None;
        }
        let is_weight = |load: &Load| self.is_prepared(operands[load.operand]);
        let right = loads_of(&nest.body, nest.attention()?.roles.right);
        let factors = nest
            .inner
            .iter()
            .flat_map(|inner| inner.body.leaves())
            .filter_map(Leaf::load)
            .chain(right);
        let is_prepared = factors.into_iter().any(is_weight);
        (!is_prepared).then_some(Grown { group, taken, nest })
    }

    /// Returns whether a node is a weight, or depends on weights alone.
    fn is_prepared(&self, id: NodeId) -> bool {
        let is_once = || self.home.get(id).is_some_and(|&home| self.groups[home].once);
        matches!(self.graph.node(id).op, Op::Weight(_)) || is_once()
    }

    /// Returns the nest of a group that has absorbed others, and its operands.
    fn nest(
        &self,
        group: &Group,
        taken: &BTreeSet<usize>,
        given: &BTreeSet<NodeId>,
    ) -> Option<(Nest, Vec<NodeId>)> {
        let in_memory = |id: NodeId| {
            given.contains(&id) || self.home.get(id).is_some_and(|home| !taken.contains(home))
        };
        nest_of(self.graph, group, &in_memory)
    }

    /// Returns the change that follows if a group grows: all other readers of the absorbed groups
    /// must absorb them, too. The group writes the statistics that others read.
    fn change(&self, reader: usize, grown: Grown) -> Option<Change> {
        let mut gone = grown.taken.clone();
        let given: BTreeSet<NodeId> = grown.group.statistics.iter().copied().collect();
        let mut readers: BTreeMap<usize, Grown> = BTreeMap::new();
        let mut pending: Vec<usize> = self.readers_of(&gone, &given).collect();
        while let Some(other) = pending.pop() {
            if other == reader || gone.contains(&other) || readers.contains_key(&other) {
                continue;
            }
            if readers.len() + gone.len() > MOST_CHANGED {
                return None;
            }
            match self.grown(other, &given) {
                Some(grown) => {
                    gone.extend(&grown.taken);
                    readers.insert(other, grown);
                }
                // A group that derives from the scores, with their size, is absorbed by its
                // readers.
                None if self.leads[other] => _ = gone.insert(other),
                None => return None,
            }
            pending.extend(self.readers_of(&gone, &given));
        }
        // A group that another one absorbs does not absorb others itself.
        readers.retain(|number, _| !gone.contains(number));
        let is_output = |root: &NodeId| {
            self.graph.outputs.iter().any(|(_, output)| self.graph.storage(*output) == *root)
        };
        let mut roots = gone.iter().flat_map(|&number| &self.groups[number].roots);
        if roots.any(|root| is_output(root) && !given.contains(root))
            || !self.pays(&grown, &readers, &gone)
        {
            return None;
        }
        let is_read = |id: &NodeId| {
            let by_others = readers.values().any(|other| {
                let taken = self.nest(&other.group, &other.taken, &given);
                taken.is_some_and(|(_, operands)| operands.contains(id))
            });
            let outside = self.readers(*id).any(|other| other != reader && !gone.contains(&other));
            is_output(id) || by_others || outside
        };
        let mut group = grown.group;
        let written: Vec<NodeId> = group.statistics.iter().copied().filter(is_read).collect();
        group.roots.splice(0..0, written);
        let mut become_: BTreeMap<usize, Group> =
            readers.into_iter().map(|(number, grown)| (number, grown.group)).collect();
        become_.insert(reader, group);
        Some(Change { become_, gone })
    }

    /// Returns the groups after a change, in topological order. `None` if they have a cycle, or if
    /// a kernel would bind too many tensors.
    fn changed(&self, change: Change) -> Option<Taking<'g>> {
        let group = |(number, group): (usize, &Group)| match change.become_.get(&number) {
            Some(other) => Some(other.clone()),
            None => (!change.gone.contains(&number)).then(|| group.clone()),
        };
        self.graph.budget.spend(8 * self.groups.len() as u64).ok()?;
        let groups = self.groups.iter().enumerate().filter_map(group).collect();
        let mut all =
            Taking { groups, reads: Vec::new(), home: NodeMap::new(), leads: Vec::new(), ..*self };
        all.find_reads();
        for group in change.become_.values() {
            let (nest, _) = all.nest(group, &BTreeSet::new(), &BTreeSet::new())?;
            nest.verify()
                .ok()
                .filter(|()| nest.attention().is_some())
                .and_then(|()| (self.time)(&nest))?;
            if nest.operands.len() + nest.outputs.len() > self.profile.max_buffers as usize {
                return None;
            }
        }
        let mut order = Vec::with_capacity(all.groups.len());
        let mut is_placed = vec![false; all.groups.len()];
        let mut pending: Vec<usize> = (0..all.groups.len()).rev().collect();
        // Depth-first, operands before readers. A group found open again is on a cycle.
        let mut is_open = vec![false; all.groups.len()];
        while let Some(&number) = pending.last() {
            if is_placed[number] {
                pending.pop();
                continue;
            }
            let before = all.reads[number]
                .iter()
                .map(|root| all.home[*root])
                .filter(|&other| !is_placed[other] && other != number);
            let before: Vec<usize> = before.collect();
            if before.is_empty() {
                is_placed[number] = true;
                order.push(number);
            } else if std::mem::replace(&mut is_open[number], true) {
                return None;
            } else {
                pending.extend(before);
            }
        }
        all.groups = order.into_iter().map(|number| all.groups[number].clone()).collect();
        all.find_reads();
        Some(all)
    }

    /// Returns whether recomputing the scores at every reader takes less time than storing them.
    /// Always true for scores of [`LARGE`] size, for the memory that this saves.
    fn pays(&self, grown: &Grown, others: &BTreeMap<usize, Grown>, gone: &BTreeSet<usize>) -> bool {
        if others.is_empty() {
            return true;
        }
        let bytes = |number: &usize| {
            let size = |root: &NodeId| {
                self.graph.node(*root).ty.elements() * self.graph.dtype(*root).size()
            };
            self.groups[*number].roots.iter().map(size).sum::<usize>() as f64
        };
        let times = |number: &usize| {
            1 + self.groups[*number]
                .roots
                .iter()
                .map(|root| self.readers(*root).count())
                .max()
                .unwrap_or(0)
        };
        let saved: f64 = gone.iter().map(|number| bytes(number) * times(number) as f64).sum();
        let largest = gone.iter().map(bytes).fold(0.0, f64::max);
        let terms = |grown: &Grown| {
            let Some(Attention { roles, .. }) = grown.nest.attention() else { return 0.0 };
            let nest = &grown.nest;
            let inner: usize = nest.inner.iter().map(|inner| nest.points(inner.axes.clone())).sum();
            let scores =
                [&roles.batch, &roles.rows, &roles.reduction].map(|axes| nest.points(axes) as f64);
            inner as f64 * scores.iter().product::<f64>()
        };
        let again: f64 = [grown].into_iter().chain(others.values()).map(terms).sum();
        let once = |number: &usize| match self.groups[*number]
            .contraction
            .map(|id| &self.graph.node(id).op)
        {
            Some(Op::Contraction(op)) => {
                op.indices.iter().map(|range| (range.high - range.low) as f64).product()
            }
            _ => 0.0,
        };
        let more = 2.0 * (again - gone.iter().map(once).sum::<f64>());
        let rates = &self.profile.rates;
        largest >= LARGE || more / (rates.flops * EFFICIENCY) <= saved / rates.memory
    }

    fn readers(&self, root: NodeId) -> impl Iterator<Item = usize> {
        self.reads
            .iter()
            .enumerate()
            .filter(move |(_, reads)| reads.contains(&root))
            .map(|(number, _)| number)
    }

    /// Returns the groups that read roots of the given groups, except for roots in `given`.
    fn readers_of(
        &self,
        groups: &BTreeSet<usize>,
        given: &BTreeSet<NodeId>,
    ) -> impl Iterator<Item = usize> {
        let roots = groups
            .iter()
            .flat_map(|&number| &self.groups[number].roots)
            .filter(|root| !given.contains(root));
        let found: BTreeSet<usize> = roots
            .flat_map(|&root| {
                let _ = self.graph.budget.spend(self.groups.len() as u64 / 8);
                self.readers(root)
            })
            .collect();
        found.into_iter()
    }

    /// Returns whether a group's root is a product, or derives from a product of its size.
    fn leads(&self, number: usize) -> bool {
        let group = &self.groups[number];
        if group.once || !is_nest(self.graph, group) {
            return false;
        }
        let elements = |root: NodeId| self.graph.node(root).ty.elements();
        match group.contraction.map(|id| &self.graph.node(id).op) {
            Some(Op::Contraction(op)) => {
                op.aggregation == Aggregation::Sum
                    && op.accesses.len() >= 2
                    && group.inner.is_empty()
            }
            _ => self.reads[number].iter().any(|&root| {
                elements(root) == elements(group.main())
                    && self.leads.get(self.home[root]) == Some(&true)
            }),
        }
    }

    /// Returns whether a group aggregates what the absorbed groups compute.
    fn sums_up(&self, number: usize, taken: &BTreeSet<usize>, by: &Group) -> bool {
        let group = &self.groups[number];
        let is_statistic =
            !group.once && group.contraction.is_some_and(|id| row_form(self.graph, id).is_some());
        let of_taken = |root: &NodeId| taken.contains(&self.home[*root]) || by.inner.contains(root);
        is_statistic && group.statistics.is_empty() && self.reads[number].iter().any(of_taken)
    }
}

/// Returns whether the attention nest is worth it: the scores must be larger than the operands and
/// the result, and the kernel must fit and occupy the device.
fn suits(nest: &Nest, profile: &Profile) -> bool {
    let Some(Attention { roles, .. }) = nest.attention() else { return false };
    let [rows, points, columns] =
        [&roles.rows, &roles.reduction, &roles.columns].map(|axes| nest.points(axes));
    let depth = nest.inner.iter().map(|inner| nest.points(inner.axes.clone())).max().unwrap_or(0);
    let fits = columns <= MOST_COLUMNS || profile.execution == Execution::Native;
    // A workgroup has some rows and all their points: a few workgroups with long loops leave the
    // device idle.
    let groups = nest.points(&roles.batch) * rows.div_ceil(LEAST);
    let is_busy = 2 * groups >= profile.rates.cores as usize || points <= FEW_POINTS;
    rows >= LEAST && points >= LEAST && points >= depth && points >= columns && fits && is_busy
}

/// Returns the operands that a product's operand, or the nest's epilogue, reads and that depend on
/// rows: each with whether it is read at points (of each row), or only at rows. An operand that
/// depends on points alone is the same for all rows, and is better stored.
fn of_factor(nest: &Nest, factor: Value, rows: &[usize]) -> Vec<(usize, bool)> {
    let mut found = Vec::new();
    for load in loads_of(&nest.body, factor).chain(nest.epilogue_loads()) {
        let mentions = |axis: usize| nest.depends_on(&load.offset, axis);
        let of_points = nest.reduction().any(mentions);
        if !of_points || rows.iter().copied().any(mentions) {
            found.push((load.operand, of_points));
        }
    }
    // Operands at points come first, because they lead to what is summed over the points.
    found.sort_by_key(|(_, of_points)| !of_points);
    found.dedup();
    found
}
