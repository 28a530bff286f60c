//! Finds the tensors to partition, and where to cut them.

use std::collections::HashMap;
use std::sync::Arc;

use super::LANES;
use crate::dtype::DType;
use crate::graph::{Graph, NodeId, NodeMap, Op};
use crate::profile::Profile;
use crate::tensor::TensorType;

/// The most parts of all tensors: each takes launches of its own, and most take a buffer.
const MOST_PARTS: usize = 4096;

/// The cuts of a tensor along one axis.
#[derive(Clone, Debug)]
pub(super) struct Cuts {
    pub axis: usize,
    /// The first row of each part, and the number of rows.
    pub at: Arc<[usize]>,
}

impl Cuts {
    /// Returns the number of parts.
    pub fn count(&self) -> usize {
        self.at.len() - 1
    }

    /// Returns the first row of a part, and the one after its last.
    pub fn range(&self, part: usize) -> (usize, usize) {
        (self.at[part], self.at[part + 1])
    }

    /// Returns the type of a part of a tensor of type `whole`.
    pub fn ty(&self, whole: &TensorType, part: usize) -> TensorType {
        let (low, high) = self.range(part);
        let mut ty = whole.clone();
        ty.shape[self.axis] = high - low;
        ty
    }
}

/// Returns the cuts of the tensors in `large`, and of all that has to be cut with them. `None` if
/// one of these cannot be cut.
pub(super) fn find(graph: &Graph, large: &[NodeId], profile: &Profile) -> Option<NodeMap<Cuts>> {
    // The parts of what the caller gives or gets must be contiguous, so these choose the axis.
    let (given, others): (Vec<NodeId>, Vec<NodeId>) =
        large.iter().partition(|id| is_given(graph, **id));
    let mut cuts = NodeMap::new();
    let next = next_values(graph);
    for id in given.into_iter().chain(others) {
        if cuts.contains(id) {
            continue;
        }
        for (id, own) in Related::of(graph, id, profile, &next)?.cuts(large)?.into_entries() {
            if cuts.insert(id, own).is_some() {
                return None;
            }
        }
    }
    let parts: usize = cuts.values().map(Cuts::count).sum();
    (parts <= MOST_PARTS).then_some(cuts)
}

/// Returns whether the caller gives or gets a node's value.
fn is_given(graph: &Graph, id: NodeId) -> bool {
    graph.node(id).op.given_name().is_some() || graph.is_output(id)
}

/// Returns the weights that have a next value, an output of their name and type, each with that.
fn next_values(graph: &Graph) -> Vec<(NodeId, NodeId)> {
    let outputs: HashMap<&str, NodeId> =
        graph.outputs.iter().map(|(name, id)| (name.as_str(), *id)).collect();
    let next = |&weight: &NodeId| {
        let next = *outputs.get(graph.node(weight).op.given_name()?)?;
        (graph.node(next).ty == graph.node(weight).ty).then_some((weight, next))
    };
    graph.weights.iter().filter_map(next).collect()
}

/// Tensors that are cut at the same rows: they are computed elementwise from each other, or one is
/// the next value of the other.
struct Related<'g> {
    graph: &'g Graph,
    profile: &'g Profile,
    next: &'g [(NodeId, NodeId)],
    /// The axis along which each is cut.
    axes: NodeMap<usize>,
    pending: Vec<NodeId>,
}

impl<'g> Related<'g> {
    /// Finds the tensors that are cut with `id`.
    fn of(
        graph: &'g Graph,
        id: NodeId,
        profile: &'g Profile,
        next: &'g [(NodeId, NodeId)],
    ) -> Option<Related<'g>> {
        let axis = graph.shape(id).iter().position(|&extent| extent > 1)?;
        let mut related =
            Related { graph, profile, next, axes: NodeMap::new(), pending: Vec::new() };
        related.add(id, axis)?;
        while let Some(id) = related.pending.pop() {
            graph.budget.spend(4).ok()?;
            related.add_operands(id)?;
            for user in graph.users(id) {
                related.add_user(id, user)?;
            }
        }
        Some(related)
    }

    fn add(&mut self, id: NodeId, axis: usize) -> Option<()> {
        if let Some(known) = self.axes.insert(id, axis) {
            return (known == axis).then_some(());
        }
        let is_contiguous = self.graph.shape(id)[..axis].iter().all(|&extent| extent == 1);
        let is_sequence = is_given(self.graph, id) || self.graph.node(id).op == Op::PrngValue;
        self.pending.push(id);
        // The next value of a weight takes its place.
        for &(weight, next) in self.next {
            if weight == id || next == id {
                self.add(if weight == id { next } else { weight }, axis)?;
            }
        }
        (is_contiguous || !is_sequence).then_some(())
    }

    /// Adds what is computed from a tensor and has its parts.
    fn add_user(&mut self, id: NodeId, user: NodeId) -> Option<()> {
        let (graph, axis) = (self.graph, self.axes[id]);
        match &graph.node(user).op {
            Op::Reshape => self.add(user, axis_after(graph.shape(id), axis, graph.shape(user))?),
            Op::Contraction(op) if op.default && graph.operands(user).last() == Some(&id) => {
                self.add(user, axis)
            }
            op if op.is_elementwise() => {
                self.add(user, axis + graph.shape(user).len() - graph.shape(id).len())
            }
            _ => Some(()),
        }
    }

    /// Adds the operands that must be cut for the parts of a tensor.
    fn add_operands(&mut self, id: NodeId) -> Option<()> {
        let (graph, axis) = (self.graph, self.axes[id]);
        let (operands, shape) = (graph.operands(id), graph.shape(id));
        match &graph.node(id).op {
            Op::Reshape => {
                self.add(operands[0], axis_after(shape, axis, graph.shape(operands[0]))?)
            }
            Op::Contraction(op) if op.default => {
                let default = *operands.last()?;
                if self.is_large(default) { self.add(default, axis) } else { Some(()) }
            }
            op if op.is_elementwise() => operands.iter().try_for_each(|&operand| {
                let own = graph.shape(operand);
                let axis = (axis + own.len()).checked_sub(shape.len());
                match axis.filter(|&axis| own[axis] > 1 && self.is_large(operand)) {
                    Some(axis) => self.add(operand, axis),
                    None => Some(()),
                }
            }),
            _ => Some(()),
        }
    }

    fn is_large(&self, id: NodeId) -> bool {
        let node = self.graph.node(id);
        self.profile.is_too_large(&node.ty, node.op.is_preloaded())
    }

    /// Returns the cuts of all tensors. They have the same number of parts, and all but the last
    /// part have the same size, so that they share kernels. Only those in `large`, which are in
    /// memory, limit the size, so that a weight has the same parts in programs for other batches.
    fn cuts(&self, large: &[NodeId]) -> Option<NodeMap<Cuts>> {
        let extent = |(id, &axis): (NodeId, &usize)| self.graph.shape(id)[axis];
        // The tensors can be cut between blocks: at a number of rows that is whole for each.
        let blocks = self.axes.iter().map(extent).fold(0, gcd);
        let mut most = blocks;
        let of_these = self.axes.iter().map(|(id, _)| id).filter(|id| large.contains(id));
        for id in of_these {
            let node = self.graph.node(id);
            let (bytes, mut limit) = self.profile.bytes(&node.ty, node.op.is_preloaded())?;
            if let Op::PrngValue = node.op {
                // A part may begin at any lane.
                limit = limit.saturating_sub((LANES * DType::F32.size()) as u64);
            }
            let fitting = u128::from(limit) * blocks as u128 / u128::from(bytes.max(1));
            most = most.min(usize::try_from(fitting).unwrap_or(usize::MAX));
        }
        // Blocks that are too large alone are cut again.
        let most = most.max(1);
        let size = rounded(blocks.div_ceil(blocks.div_ceil(most).max(1)), most);
        if size == 0 || size >= blocks {
            return None;
        }
        let cuts = |(id, &axis): (NodeId, &usize)| {
            let rows = self.graph.shape(id)[axis] / blocks;
            let at = (0..blocks).step_by(size).chain([blocks]).map(|block| block * rows);
            (id, Cuts { axis, at: at.collect() })
        };
        Some(self.axes.iter().map(cuts).collect())
    }
}

/// Returns about this size: a multiple of a power of two where that changes it little, so that
/// windows which lie side by side read one part each.
fn rounded(size: usize, most: usize) -> usize {
    let steps = (1..=6).rev().map(|bits| 1 << bits).filter(|step| 16 * step <= size);
    let near = |step: usize| {
        let up = size.next_multiple_of(step);
        if up <= most { up } else { size / step * step }
    };
    steps.map(near).next().unwrap_or(size)
}

/// Returns the axis of a reshaped tensor that runs along the same elements as `axis` before, both
/// from the first element on, if there is one.
fn axis_after(before: &[usize], axis: usize, after: &[usize]) -> Option<usize> {
    let outer: usize = before[..axis].iter().product();
    let mut around = 1;
    after.iter().position(|&extent| {
        let is_same = around == outer && extent > 1;
        around *= extent;
        is_same
    })
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
