//! A scan taken apart, so that passes can add, remove and rewire its inputs and outputs.

use super::super::{Graph, NodeId, Op};
use super::Scan;
use crate::tensor::TensorType;

/// The parts of a scan, each with its nodes in the surrounding graph and in the body.
/// [`Graph::take_scan`] takes a scan apart, and [`Graph::put_scan`] puts it together again.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The number of steps.
    pub length: usize,
    /// The sequences, in the order of the operands.
    pub sequences: Vec<Sequence>,
    /// The carries, in the order of the operands.
    pub carries: Vec<Carry>,
    /// The captures, in the order of the operands.
    pub captures: Vec<Capture>,
    /// The yielded values, in the order of the results.
    pub yields: Vec<Yield>,
    /// The body. [`Parts::list`] updates its `inputs` and `outputs`.
    pub body: Graph,
}

/// A tensor of which each step reads a slice.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// The whole tensor, outside.
    pub whole: NodeId,
    /// The axis along which it is cut.
    pub axis: usize,
    /// The slice, an input of the body.
    pub slice: NodeId,
}

/// A value that each step changes.
#[derive(Clone, Debug)]
pub struct Carry {
    /// The value before the first step, outside.
    pub first: NodeId,
    /// The value before a step, an input of the body.
    pub before: NodeId,
    /// The value after a step, a node of the body.
    pub next: NodeId,
    /// The name of the next value among the body's outputs.
    pub name: String,
    /// The [`Op::Result`] nodes of this result.
    pub results: Vec<NodeId>,
}

/// A tensor that every step reads whole.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The tensor, outside.
    pub outside: NodeId,
    /// The same tensor, an input of the body.
    pub inside: NodeId,
}

/// A value of each step that is stacked.
#[derive(Clone, Debug)]
pub struct Yield {
    /// The axis of the result along which the values are stacked.
    pub axis: usize,
    /// The yielded value, a node of the body.
    pub value: NodeId,
    /// The name of the value among the body's outputs.
    pub name: String,
    /// The [`Op::Result`] nodes of this result.
    pub results: Vec<NodeId>,
}

impl Parts {
    /// Redirects readers of `old` in the body, and the results of the steps, to `new`.
    pub fn replace(&mut self, old: NodeId, new: NodeId) {
        self.body.replace(old, new);
        let given = self
            .carries
            .iter_mut()
            .map(|c| &mut c.next)
            .chain(self.yields.iter_mut().map(|y| &mut y.value));
        given.filter(|node| **node == old).for_each(|node| *node = new);
    }

    /// Updates the body's inputs and outputs from the parts. Removes inputs that no part uses;
    /// nothing may read these.
    pub fn list(&mut self) {
        let mut inputs: Vec<NodeId> = self.sequences.iter().map(|s| s.slice).collect();
        inputs.extend(self.carries.iter().map(|c| c.before));
        inputs.extend(self.captures.iter().map(|c| c.inside));
        for input in std::mem::take(&mut self.body.inputs) {
            if !inputs.contains(&input) {
                self.body.remove(input);
            }
        }
        self.body.inputs = inputs;
        self.list_outputs();
    }

    /// Updates the body's outputs from the parts.
    pub fn list_outputs(&mut self) {
        let carried = self.carries.iter().map(|c| (c.name.clone(), c.next));
        self.body.outputs =
            carried.chain(self.yields.iter().map(|y| (y.name.clone(), y.value))).collect();
    }

    /// Updates the parts from the body's outputs, after a pass over the body.
    pub fn refresh(&mut self) {
        let given = self
            .carries
            .iter_mut()
            .map(|c| &mut c.next)
            .chain(self.yields.iter_mut().map(|y| &mut y.value));
        given.zip(&self.body.outputs).for_each(|(given, (_, node))| *given = *node);
    }

    /// Adds a capture and returns the body's input for it, whose name is `name`, numbered if it is
    /// taken.
    pub fn capture(&mut self, outside: NodeId, ty: TensorType, name: &str) -> NodeId {
        let taken = |name: &str| {
            self.body.inputs.iter().any(|&id| self.body.node(id).op.given_name() == Some(name))
        };
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let name = std::iter::once(name.to_owned())
            .chain(numbered)
            .find(|name| !taken(name))
            .unwrap_or_default();
        let inside = self.body.add(Op::Input(name), ty, &[]);
        self.captures.push(Capture { outside, inside });
        inside
    }
}

impl Graph {
    /// Takes a scan apart. Returns `None` for other nodes. The scan has no body until
    /// [`Graph::put_scan`] restores it.
    pub fn take_scan(&mut self, id: NodeId) -> Option<Parts> {
        let operands = self.operands(id).to_vec();
        let mut results = vec![Vec::new(); self.result_count(id)?];
        for user in self.users(id) {
            if let Op::Result { number } = self.node(user).op {
                results[number].push(user);
            }
        }
        let Op::Scan(scan) = &mut self.node_mut(id).op else { return None };
        let Scan { length, sequences: axes, carries: count, yields, body } = std::mem::replace(
            &mut **scan,
            Scan {
                length: 0,
                sequences: vec![],
                carries: 0,
                yields: vec![],
                body: Graph::default(),
            },
        );
        let mut sides = operands.into_iter().zip(body.inputs.iter().copied());
        let mut results = body.outputs.iter().cloned().zip(results);
        let sequences = axes.into_iter().zip(sides.by_ref());
        let sequences =
            sequences.map(|(axis, (whole, slice))| Sequence { whole, axis, slice }).collect();
        let carries = sides.by_ref().take(count).zip(results.by_ref());
        let carries = carries.map(|((first, before), ((name, next), results))| Carry {
            first,
            before,
            next,
            name,
            results,
        });
        let carries = carries.collect();
        let captures = sides.map(|(outside, inside)| Capture { outside, inside }).collect();
        let yields = yields.into_iter().zip(results);
        let yields = yields
            .map(|(axis, ((name, value), results))| Yield { axis, value, name, results })
            .collect();
        Some(Parts { length, sequences, carries, captures, yields, body })
    }

    /// Makes `id` the scan of `parts` and renumbers its results. Nodes that `parts` does not
    /// contain stay as they are.
    pub fn put_scan(&mut self, id: NodeId, mut parts: Parts) {
        parts.list();
        let Parts { length, sequences, carries, captures, yields, body } = parts;
        let mut operands: Vec<NodeId> = sequences.iter().map(|s| s.whole).collect();
        operands.extend(carries.iter().map(|c| c.first));
        operands.extend(captures.iter().map(|c| c.outside));
        let results = carries.iter().map(|c| &c.results).chain(yields.iter().map(|y| &y.results));
        for (number, nodes) in results.enumerate() {
            nodes.iter().for_each(|&node| self.node_mut(node).op = Op::Result { number });
        }
        let sequences = sequences.iter().map(|s| s.axis).collect();
        let yields = yields.iter().map(|y| y.axis).collect();
        let scan = Scan { length, sequences, carries: carries.len(), yields, body };
        if let Some(first) = scan.results().next() {
            self.node_mut(id).ty = first;
        }
        self.set(id, Op::Scan(Box::new(scan)), &operands);
    }

    fn result_count(&self, id: NodeId) -> Option<usize> {
        match &self.node(id).op {
            Op::Scan(scan) => Some(scan.body.outputs.len()),
            _ => None,
        }
    }
}
