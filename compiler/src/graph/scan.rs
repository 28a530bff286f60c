//! Scans: loops over steps at run time, whose body is a graph.
//!
//! A scan has several results, but a node has one type. The scan node therefore has the type of its
//! first result, and each result is an [`Op::Result`] node that reads it. Nothing else reads a
//! scan, and it is no output of the graph.
//!
//! ```text
//! %3 = scan 5 sequences (%0 along 1) carries (%1) captures (%2) yields (along 0) {
//!     graph step(%0, %1, %2) -> (H = %4, All = %4)
//!     %0 = input x : f32[2]
//!     %1 = input h : f32[2]
//!     %2 = input w : f32[2]
//!     %3 = mul %1 %2 : f32[2]
//!     %4 = add %0 %3 : f32[2]
//! } : f32[2]
//! %4 = result 0 %3 : f32[2]
//! %5 = result 1 %3 : f32[5, 2]
//! ```

mod parts;

use std::hash::{Hash, Hasher};

pub use parts::{Capture, Carry, Parts, Sequence, Yield};

use super::{Graph, NodeId, Op};
use crate::tensor::TensorType;

/// A loop that runs `body` for `length` steps.
///
/// Operands: the sequences, then the first value of each carry, then the captures, which every step
/// reads whole. The inputs of `body` are in the same order: the slice of each sequence at the
/// current step, without the sequence's axis; the carries; the captures. Its outputs are the next
/// value of each carry, with the carry's type, then the values that the step yields.
///
/// Results: the last value of each carry (the first one if there are no steps), then the stacked
/// yielded values. There is at least one result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// Number of steps, which may be 0.
    pub length: usize,
    /// For each sequence, the axis along which the steps go. Its size is `length`.
    pub sequences: Vec<usize>,
    /// Number of carries.
    pub carries: usize,
    /// For each yielded value, the axis of its result along which the steps are stacked.
    pub yields: Vec<usize>,
    /// The graph of a step.
    pub body: Graph,
}

impl Scan {
    /// Returns the number of captures, which every step reads whole.
    pub fn captures(&self) -> usize {
        self.body.inputs.len().saturating_sub(self.sequences.len() + self.carries)
    }

    /// Returns the types of the results.
    pub fn results(&self) -> impl Iterator<Item = TensorType> {
        self.body.outputs.iter().enumerate().map(|(number, (_, id))| {
            let mut ty = self.body.node(*id).ty.clone();
            if let Some(&axis) =
                number.checked_sub(self.carries).and_then(|number| self.yields.get(number))
            {
                ty.shape.insert(axis.min(ty.rank()), self.length);
            }
            ty
        })
    }

    /// Checks all invariants except those of the body. `operands` are the types of the scan's
    /// operands.
    pub(super) fn verify(&self, operands: &[&TensorType]) -> Result<(), String> {
        let inputs: Vec<&TensorType> =
            self.body.inputs.iter().map(|&id| &self.body.node(id).ty).collect();
        let (sequences, carries) = (self.sequences.len(), self.carries);
        if inputs.len() != operands.len() || inputs.len() < sequences + carries {
            let (inputs, operands) = (inputs.len(), operands.len());
            return Err(format!(
                "its body has {inputs} inputs, but the scan has {operands} operands"
            ));
        }
        if self.body.outputs.len() != carries + self.yields.len() {
            return Err(format!("its body has {} outputs", self.body.outputs.len()));
        }
        if self.body.outputs.is_empty() {
            return Err("it has no results".into());
        }
        for ((&axis, whole), slice) in self.sequences.iter().zip(operands).zip(&inputs) {
            let mut expected = (*whole).clone();
            if whole.shape.get(axis) != Some(&self.length) {
                return Err(format!(
                    "a sequence {whole} does not have {} steps along axis {axis}",
                    self.length
                ));
            }
            expected.shape.remove(axis);
            if expected != **slice {
                return Err(format!("a step of the sequence {whole} is {expected}, not {slice}"));
            }
        }
        for (number, (whole, inner)) in operands.iter().zip(&inputs).enumerate().skip(sequences) {
            if whole != inner {
                let what = if number < sequences + carries { "carry" } else { "capture" };
                return Err(format!("a {what} is {whole} outside, but {inner} in the body"));
            }
        }
        for (before, (_, next)) in inputs[sequences..].iter().zip(&self.body.outputs[..carries]) {
            let next = &self.body.node(*next).ty;
            if *before != next {
                return Err(format!("a carry is {before}, but its next value is {next}"));
            }
        }
        for (&axis, (name, id)) in self.yields.iter().zip(&self.body.outputs[carries..]) {
            let ty = &self.body.node(*id).ty;
            if axis > ty.rank() {
                return Err(format!("{name}, which is {ty}, is stacked along axis {axis}"));
            }
        }
        Ok(())
    }
}

impl Graph {
    /// Adds a scan and its result nodes, and returns the latter. They are not checked; see
    /// [`Graph::verify`].
    pub fn add_scan(&mut self, scan: Scan, operands: &[NodeId]) -> Vec<NodeId> {
        let types: Vec<TensorType> = scan.results().collect();
        let Some(first) = types.first().cloned() else { return Vec::new() };
        let id = self.add(Op::Scan(Box::new(scan)), first, operands);
        types
            .into_iter()
            .enumerate()
            .map(|(number, ty)| self.add(Op::Result { number }, ty, &[id]))
            .collect()
    }
}

impl Eq for Graph {}

/// Hashes the operations, types and operands in topological order, on which equal graphs agree.
impl Hash for Graph {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let numbers = self.numbers();
        for id in self.topological() {
            (&self.node(id).op, &self.node(id).ty).hash(state);
            self.operands(id).iter().for_each(|operand| numbers.get(*operand).hash(state));
        }
    }
}

#[cfg(test)]
mod tests;
