//! Partitions tensors that are larger than the buffers of a device.
//!
//! Example: with buffers of at most 8 KiB, the weight of
//!
//! ```text
//! %2 = contract sum [n, u] (n: 0..4, u: 0..64, k: 0..60) { v0 = %0[n, k]; v1 = %1[k, u]; … }
//! ```
//!
//! becomes two weights, `W[0..30]` and `W[30..60]`, and the product a sum of two:
//!
//! ```text
//! %3 = contract sum [n, u] (n: 0..4, u: 0..64, k: 0..30) { v0 = %0[n, k]; v1 = %1[k, u]; … }
//! %4 = contract sum [n, u] (n: 0..4, u: 0..64, k: 0..30) { v0 = %0[n, k + 30]; v1 = %2[k, u]; … }
//! %5 = add %3 %4 : f32[4, 64]
//! ```
//!
//! A tensor is cut along its first axis with several elements, so that the parts of an input, a
//! weight or an output are contiguous in the whole. What is computed elementwise from parts has the
//! same parts. Each part of a contraction's result is a contraction with fewer places. A
//! contraction that reads a part has the points that are in bounds there: `contraction` combines
//! these.
//!
//! A part may still be too large, if a single row is. Then the next run of the pass cuts the part
//! along the next axis. What the pass cannot cut stays whole, and the plan refuses it: loops over
//! large tensors, windows of a maximum, and positions of maxima along the axis that is cut.

mod contraction;
mod cuts;

use std::collections::{HashMap, HashSet};

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Contraction, Graph, Node, NodeId, NodeMap, Op, PRNG_SHAPE};
use crate::profile::Profile;
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;
use contraction::{Operand, Points};
use cuts::Cuts;

/// The lanes of the random number generator: a state is that before a multiple of these numbers.
const LANES: usize = PRNG_SHAPE[1];

/// The tensors of the caller of which the graph has parts: the name and type of each, by the names
/// of the parts. The parts of a tensor follow one another among the inputs, weights or outputs, in
/// the order of their elements.
pub(crate) type Wholes = HashMap<String, (String, TensorType)>;

/// Returns an equal graph with parts of the tensors in `large`, and of what is computed elementwise
/// from them; and `wholes` with its inputs, weights and outputs that are parts. `None` if they
/// cannot be cut.
pub(crate) fn partition(
    graph: &Graph,
    large: &[NodeId],
    profile: &Profile,
    wholes: &Wholes,
) -> Option<(Graph, Wholes)> {
    let cuts = cuts::find(graph, large, profile)?;
    let given = graph.inputs.iter().chain(&graph.weights);
    let names = given.clone().filter_map(|&id| graph.node(id).op.given_name());
    let outputs = graph.outputs.iter().map(|(name, _)| name.as_str());
    let mut partition = Partition {
        old: graph,
        new: Graph::within(graph.name.clone(), &graph.budget),
        cuts,
        whole: NodeMap::new(),
        parts: NodeMap::new(),
        wholes: wholes.clone(),
        most_buffers: profile.max_buffers as usize,
        taken: names.chain(outputs).map(str::to_owned).collect(),
    };
    given.for_each(|&id| partition.give(id));
    for id in graph.topological() {
        if graph.node(id).op.given_name().is_none() {
            partition.rewrite(id)?;
        }
    }
    partition.name_outputs();
    let Partition { new, wholes, .. } = partition;
    graph.budget.check().is_ok().then_some((new, wholes))
}

/// The graph that is made, and what it has of the old one.
struct Partition<'g> {
    old: &'g Graph,
    new: Graph,
    /// The cuts of the old nodes that are partitioned.
    cuts: NodeMap<Cuts>,
    /// The new nodes for the others.
    whole: NodeMap<NodeId>,
    /// The parts of old nodes.
    parts: NodeMap<Vec<NodeId>>,
    wholes: Wholes,
    /// The most buffers of a kernel.
    most_buffers: usize,
    /// The names of the old graph.
    taken: HashSet<String>,
}

impl Partition<'_> {
    /// Adds an input or weight, or its parts.
    fn give(&mut self, id: NodeId) {
        let node = self.old.node(id);
        let Some(cuts) = self.cuts.get(id).cloned() else {
            let new = self.new.add(node.op.clone(), node.ty.clone(), &[]);
            self.finish(new, node);
            self.whole.insert(id, new);
            return;
        };
        let name = node.op.given_name().unwrap_or_default();
        let parts = (0..cuts.count()).map(|part| {
            let name = self.name_part(name, &node.ty, &cuts, part);
            let op =
                if matches!(node.op, Op::Input(_)) { Op::Input(name) } else { Op::Weight(name) };
            let new = self.new.add(op, cuts.ty(&node.ty, part), &[]);
            self.finish(new, node);
            new
        });
        let parts = parts.collect();
        self.parts.insert(id, parts);
    }

    /// Returns the name of a part of an input, weight or output, and notes the whole.
    fn name_part(&mut self, name: &str, ty: &TensorType, cuts: &Cuts, part: usize) -> String {
        let (low, high) = cuts.range(part);
        let itself = || (name.to_owned(), ty.clone());
        let whole = self.wholes.get(name).cloned().unwrap_or_else(itself);
        let mut part = format!("{name}[{low}..{high}]");
        // An ONNX file may have any name.
        let is_taken = |part: &String| match self.wholes.get(part) {
            Some(known) => *known != whole,
            None => self.taken.contains(part),
        };
        while is_taken(&part) {
            part.push('\'');
        }
        self.wholes.insert(part.clone(), whole);
        part
    }

    /// Copies the outputs' names. A partitioned output is several.
    fn name_outputs(&mut self) {
        for (name, id) in &self.old.outputs {
            let Some(cuts) = self.cuts.get(*id).cloned() else {
                self.new.outputs.push((name.clone(), self.whole[*id]));
                continue;
            };
            for part in 0..cuts.count() {
                let own = self.name_part(name, &self.old.node(*id).ty, &cuts, part);
                self.new.outputs.push((own, self.parts[*id][part]));
            }
        }
    }

    /// Gives a new node the name and place in the source of the old one.
    fn finish(&mut self, new: NodeId, old: &Node) {
        let node = self.new.node_mut(new);
        node.name.clone_from(&old.name);
        node.origin.clone_from(&old.origin);
        node.span = old.span;
    }

    /// Adds the node, or its parts.
    fn rewrite(&mut self, id: NodeId) -> Option<()> {
        let node = self.old.node(id);
        if let Some(cuts) = self.cuts.get(id).cloned() {
            let mut parts = Vec::with_capacity(cuts.count());
            for part in 0..cuts.count() {
                let new = self.part(id, &cuts, part)?;
                self.finish(new, node);
                parts.push(new);
            }
            self.parts.insert(id, parts);
            return Some(());
        }
        let operands = self.old.operands(id);
        let new = match &node.op {
            Op::Contraction(op) => {
                let default = operands.last().filter(|_| op.default);
                let default = default.map(|id| self.whole.get(*id).copied());
                let default = if let Some(default) = default { Some(default?) } else { None };
                self.contraction(op, operands, default, &node.ty)?
            }
            op => {
                let operands: Option<Vec<NodeId>> =
                    operands.iter().map(|operand| self.whole.get(*operand).copied()).collect();
                self.new.add(op.clone(), node.ty.clone(), &operands?)
            }
        };
        self.finish(new, node);
        self.whole.insert(id, new);
        Some(())
    }

    /// Adds a part of a node.
    fn part(&mut self, id: NodeId, cuts: &Cuts, part: usize) -> Option<NodeId> {
        let node = self.old.node(id);
        let operands = self.old.operands(id);
        let (ty, (low, high)) = (cuts.ty(&node.ty, part), cuts.range(part));
        match &node.op {
            Op::Contraction(op) => {
                let mut op = op.clone();
                // Ranks count from 0.
                if op.rank.is_some_and(|rank| op.output[cuts.axis].coefficient(rank) != 0) {
                    return None;
                }
                op.output[cuts.axis] = op.output[cuts.axis].sub(&constant(low)?)?;
                let default = match operands.last().filter(|_| op.default) {
                    Some(&default) => Some(self.slice(default, &ty, cuts, part)?),
                    None => None,
                };
                self.contraction(&op, operands, default, &ty)
            }
            Op::Reshape => {
                let operand = *self.parts.get(operands[0])?.get(part)?;
                Some(self.new.add(Op::Reshape, ty, &[operand]))
            }
            Op::Index { axis } => {
                let index = self.new.add(node.op.clone(), ty.clone(), &[]);
                if *axis != cuts.axis || low == 0 {
                    return Some(index);
                }
                let low = Scalar::i32(i32::try_from(low).ok()?);
                let low = self.new.add(Op::Constant(low), TensorType::scalar(DType::I32), &[]);
                Some(self.new.add(Op::Binary(BinaryOp::Add), ty, &[index, low]))
            }
            Op::Elements(values) => {
                let values = values.get(low..high)?.to_vec();
                Some(self.new.add(Op::Elements(values), ty, &[]))
            }
            Op::PrngValue => {
                let row: usize = node.ty.shape[cuts.axis + 1..].iter().product();
                self.random(*self.whole.get(operands[0])?, low * row, ty)
            }
            op if op.is_elementwise() => {
                let operands: Option<Vec<NodeId>> =
                    operands.iter().map(|&operand| self.slice(operand, &ty, cuts, part)).collect();
                Some(self.new.add(op.clone(), ty, &operands?))
            }
            _ => None,
        }
    }

    /// Adds random numbers from number `first` on.
    fn random(&mut self, mut state: NodeId, first: usize, ty: TensorType) -> Option<NodeId> {
        // A state is that before a number of the first lane.
        let (before, rest) = (first / LANES * LANES, first % LANES);
        if before > 0 {
            let ty = self.new.node(state).ty.clone();
            state = self.new.add(Op::PrngState { elements: before }, ty, &[state]);
        }
        if rest == 0 {
            return Some(self.new.add(Op::PrngValue, ty, &[state]));
        }
        let elements = ty.elements();
        let more = TensorType::new(ty.dtype, [rest + elements]);
        let more = self.new.add(Op::PrngValue, more, &[state]);
        let mut copy = Contraction::copy(ty.dtype, &[elements]);
        copy.accesses[0].index[0].affine = Affine::var(0).add(&constant(rest)?)?;
        let flat = TensorType::new(ty.dtype, [elements]);
        let flat = self.new.add(Op::Contraction(Box::new(copy)), flat, &[more]);
        Some(self.new.add(Op::Reshape, ty, &[flat]))
    }

    /// Returns what a part of type `ty` reads of an elementwise operand, which broadcasts.
    fn slice(
        &mut self,
        operand: NodeId,
        ty: &TensorType,
        cuts: &Cuts,
        part: usize,
    ) -> Option<NodeId> {
        if let Some(parts) = self.parts.get(operand) {
            let rank = self.old.node(operand).ty.rank();
            let other = &self.cuts[operand];
            let same = other.at == cuts.at && other.axis + ty.rank() == cuts.axis + rank;
            return same.then(|| parts.get(part).copied()).flatten();
        }
        let whole = *self.whole.get(operand)?;
        let old = &self.old.node(operand).ty;
        let missing = ty.rank() - old.rank();
        let axis = cuts.axis.checked_sub(missing).filter(|&axis| old.shape[axis] != 1);
        let Some(axis) = axis else { return Some(whole) };
        let mut own = old.clone();
        own.shape[axis] = ty.shape[cuts.axis];
        let mut copy = Contraction::copy(own.dtype, &own.shape);
        let index = &mut copy.accesses[0].index[axis].affine;
        *index = index.add(&constant(cuts.range(part).0)?)?;
        Some(self.new.add(Op::Contraction(Box::new(copy)), own, &[whole]))
    }

    /// Adds a contraction of old nodes, with these values of places without points.
    fn contraction(
        &mut self,
        op: &Contraction,
        operands: &[NodeId],
        default: Option<NodeId>,
        ty: &TensorType,
    ) -> Option<NodeId> {
        let operands = &operands[..operands.len() - usize::from(op.default)];
        let operand = |id: &NodeId| match self.whole.get(*id) {
            Some(new) => Operand::Whole(*new),
            None => Operand::Parts(*id),
        };
        let operands = operands.iter().map(operand).collect();
        let mut points = Points { op: op.clone(), operands, default, ty: ty.clone() };
        match self.shrink(&mut points)? {
            true => self.add_points(points),
            false => Some(self.without_points(&points)),
        }
    }
}

fn constant(value: usize) -> Option<Affine> {
    i64::try_from(value).ok().map(Affine::constant)
}

#[cfg(test)]
mod tests;
