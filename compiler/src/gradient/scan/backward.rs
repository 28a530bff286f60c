//! Builds the backward scan.

use std::collections::HashSet;

use super::super::rules::Algebra;
use super::super::tensors::Tensors;
use super::super::{Error, reverse};
use super::flow::{Flow, ancestors_up_to};
use super::lift;
use crate::affine::Affine;
use crate::dtype::Scalar;
use crate::graph::scan::{Capture, Carry, Parts, Sequence, Yield};
use crate::graph::{Aggregation, Graph, NodeId, NodeMap, NodeSet, Op, Scan};
use crate::passes::dead;
use crate::tensor::TensorType;

/// The state of the backward scan under construction.
pub(super) struct Backward<'a> {
    graph: &'a mut Graph,
    /// The forward scan's node.
    id: NodeId,
    forward: Scan,
    operands: Vec<NodeId>,
    /// The nodes of the forward body.
    steps: NodeSet,
    /// The backward scan's node and parts. Nodes of the forward body keep their numbers in its
    /// body.
    own: NodeId,
    parts: Parts,
    /// Contributions to the gradients of operands.
    found: Vec<(NodeId, NodeId)>,
    /// Operands, each with a contraction of the body whose sum over all steps contributes to its
    /// gradient.
    lifted: Vec<(NodeId, NodeId)>,
}

impl<'a> Backward<'a> {
    pub fn new(
        graph: &'a mut Graph,
        id: NodeId,
        forward: Scan,
        operands: Vec<NodeId>,
    ) -> Backward<'a> {
        let nothing = Scan {
            length: 0,
            sequences: vec![],
            carries: 0,
            yields: vec![],
            body: Graph::within("backward", &graph.budget),
        };
        let ty = graph.node(id).ty.clone();
        let own = Tensors::new(graph, id).add(Op::Scan(Box::new(nothing)), ty, &[]);
        let mut body = forward.body.clone();
        body.name = "backward".into();
        let first_capture = forward.sequences.len() + forward.carries;
        let captures = operands.iter().zip(&body.inputs).skip(first_capture);
        let captures = captures.map(|(&outside, &inside)| Capture { outside, inside }).collect();
        let length = forward.length;
        let parts =
            Parts { length, sequences: vec![], carries: vec![], captures, yields: vec![], body };
        let steps = forward.body.ids().collect();
        Backward {
            graph,
            id,
            forward,
            operands,
            steps,
            own,
            parts,
            found: Vec::new(),
            lifted: Vec::new(),
        }
    }

    /// Adds the gradients of a step's inputs, computed from those of its outputs. `given` has the
    /// gradients of the forward scan's results.
    pub fn differentiate(&mut self, flow: &Flow, given: &[Option<NodeId>]) -> Result<(), Error> {
        let (first_carry, first_capture) = (self.forward.sequences.len(), self.first_capture());
        let outputs: Vec<NodeId> =
            self.forward.body.outputs.iter().map(|(_, node)| *node).collect();
        let inputs = self.forward.body.inputs.clone();
        let mut of = Vec::new();
        let mut carried = Vec::new();
        for &carry in &flow.carries {
            let gradient = self.input(inputs[first_carry + carry]);
            of.push((outputs[carry], gradient));
            carried.push((carry, gradient));
        }
        for (number, &g) in given.iter().enumerate().skip(self.forward.carries) {
            if let Some(g) = g {
                let (gradient, axis) = (
                    self.input(outputs[number]),
                    self.forward.yields[number - self.forward.carries],
                );
                of.push((outputs[number], gradient));
                let whole = self.turned(g, axis);
                self.parts.sequences.push(Sequence { whole, axis, slice: gradient });
            }
        }
        let nodes: Vec<usize> = (0..inputs.len()).filter(|&input| flow.inputs[input]).collect();
        let wanted: Vec<NodeId> = nodes.iter().map(|&input| inputs[input]).collect();
        let found = reverse(&mut self.parts.body, &of, &wanted)?;
        let found: Vec<(usize, NodeId)> =
            nodes.into_iter().zip(found).filter_map(|(i, g)| Some((i, g?))).collect();

        for (carry, before) in carried {
            let next = found
                .iter()
                .find(|(input, _)| *input == first_carry + carry)
                .map(|(_, gradient)| *gradient);
            let next = next.unwrap_or_else(|| zeros_like(&mut self.parts.body, before));
            let result = self.carry(before, given[carry], next);
            self.found.push((self.operands[first_carry + carry], result));
        }
        for (number, gradient) in found {
            if number < first_carry {
                let axis = self.forward.sequences[number];
                let result = self.stacked(gradient, axis);
                let result = self.turned(result, axis);
                self.found.push((self.operands[number], result));
            } else if number >= first_capture {
                let operand = self.operands[number];
                match lift::sums(&self.parts.body, gradient, &self.steps) {
                    Some(sums) => self.lifted.extend(sums.into_iter().map(|sum| (operand, sum))),
                    None => {
                        let before = self.input(gradient);
                        let sum =
                            Tensors::new(&mut self.parts.body, gradient).sum(before, gradient);
                        let result = self.carry(before, None, sum);
                        self.found.push((operand, result));
                    }
                }
            }
        }
        Ok(())
    }

    /// Provides the values of the forward scan that the body reads.
    pub fn keep(&mut self) -> Result<(), Error> {
        let (first_carry, first_capture) = (self.forward.sequences.len(), self.first_capture());
        let forward = self.forward.body.clone();
        let mut roots: Vec<NodeId> = self.parts.carries.iter().map(|carry| carry.next).collect();
        roots.extend(self.parts.yields.iter().map(|kept| kept.value));
        roots.extend(self.read_by_lifted());
        // Carried values are stacked in any case.
        let carried: NodeSet =
            forward.outputs[..self.forward.carries].iter().map(|(_, node)| *node).collect();
        let keeps = |node: NodeId| {
            self.steps.contains(node)
                && match &forward.node(node).op {
                    Op::Input(_) => false,
                    Op::Contraction(op) if op.aggregation != Aggregation::Assign => true,
                    _ => carried.contains(node),
                }
        };
        let needed = ancestors_up_to(&self.parts.body, roots.into_iter(), keeps);
        let kept: Vec<NodeId> = needed.iter().filter(|&node| keeps(node)).collect();
        for node in kept {
            let (stack, axis) = self.stack(node)?;
            let slice = self.input(node);
            self.parts.replace(node, slice);
            let whole = self.turned(stack, axis);
            self.parts.sequences.push(Sequence { whole, axis, slice });
        }
        for (number, &slice) in forward.inputs[..first_capture].iter().enumerate() {
            if needed.contains(slice) {
                let (whole, axis) = match number.checked_sub(first_carry) {
                    None => (
                        self.turned(self.operands[number], self.forward.sequences[number]),
                        self.forward.sequences[number],
                    ),
                    Some(carry) => {
                        let (after, axis) = self.stack(forward.outputs[carry].1)?;
                        (self.before(self.operands[number], after, axis), axis)
                    }
                };
                self.parts.sequences.push(Sequence { whole, axis, slice });
            }
        }
        Ok(())
    }

    /// Adds the scan, and the sums after it. Returns all contributions to the gradients of
    /// operands.
    pub fn finish(mut self) -> Result<Vec<(NodeId, NodeId)>, Error> {
        let mut sources: NodeMap<(NodeId, Option<usize>)> = NodeMap::new();
        for node in self.read_by_lifted() {
            let sequence = self.parts.sequences.iter().find(|sequence| sequence.slice == node);
            let source = match sequence.map(|sequence| (sequence.whole, Some(sequence.axis))) {
                Some(source) => source,
                None => (self.stacked(node, 0), Some(0)),
            };
            sources.insert(node, source);
        }
        sources.extend(
            self.parts.captures.iter().map(|capture| (capture.inside, (capture.outside, None))),
        );
        for (operand, sum) in std::mem::take(&mut self.lifted) {
            let node = self.parts.body.node(sum).clone();
            let Op::Contraction(op) = &node.op else { continue };
            let mut outside = Vec::new();
            for &inside in self.parts.body.operands(sum) {
                let constant = self.parts.body.node(inside).clone();
                outside.push(match sources.get(inside) {
                    Some(source) => *source,
                    None => {
                        (Tensors::new(self.graph, self.id).add(constant.op, constant.ty, &[]), None)
                    }
                });
            }
            let (operands, axes): (Vec<NodeId>, Vec<Option<usize>>) = outside.into_iter().unzip();
            let op =
                lift::over_steps(op, self.forward.length, &axes).ok_or_else(|| self.too_large())?;
            let found = Tensors::new(self.graph, self.id).add(
                Op::Contraction(Box::new(op)),
                node.ty,
                &operands,
            );
            self.found.push((operand, found));
        }
        self.parts.list_outputs();
        dead(&mut self.parts.body);
        let read =
            |body: &Graph, input: NodeId| !body.users(input).is_empty() || body.is_output(input);
        self.parts.sequences.retain(|sequence| read(&self.parts.body, sequence.slice));
        self.parts.captures.retain(|capture| read(&self.parts.body, capture.inside));
        match self.parts.carries.is_empty() && self.parts.yields.is_empty() {
            true => self.graph.remove(self.own),
            false => self.graph.put_scan(self.own, self.parts),
        }
        Ok(self.found)
    }

    /// Returns the nodes of each step that the sums after the loop read.
    fn read_by_lifted(&self) -> Vec<NodeId> {
        let mut read: Vec<NodeId> = Vec::new();
        for &operand in self.lifted.iter().flat_map(|(_, sum)| self.parts.body.operands(*sum)) {
            let constant =
                matches!(self.parts.body.node(operand).op, Op::Constant(_) | Op::Elements(_));
            let captured = self.parts.captures.iter().any(|capture| capture.inside == operand);
            if !constant && !captured && !read.contains(&operand) {
                read.push(operand);
            }
        }
        read
    }

    fn first_capture(&self) -> usize {
        self.forward.sequences.len() + self.forward.carries
    }

    fn too_large(&self) -> Error {
        Error::TooLarge { value: self.graph.value_name(self.id) }
    }

    /// Adds an input to the body, with the type of the node `of` and a name derived from it.
    fn input(&mut self, of: NodeId) -> NodeId {
        let body = &mut self.parts.body;
        let node = body.node(of);
        let own = node.op.given_name().or(node.name.as_deref()).unwrap_or("value").to_owned();
        let ty = node.ty.clone();
        let taken =
            |name: &str| body.inputs.iter().any(|&id| body.node(id).op.given_name() == Some(name));
        let name = (1..)
            .map(|number| format!("{own}_{number}"))
            .find(|name| !taken(name))
            .unwrap_or_default();
        body.add(Op::Input(name), ty, &[])
    }

    /// Carries `next` to the next step, starting with the tensor `first`, or with zeros. Returns
    /// the last value.
    fn carry(&mut self, before: NodeId, first: Option<NodeId>, next: NodeId) -> NodeId {
        let ty = self.parts.body.node(before).ty.clone();
        let mut tensors = Tensors::new(self.graph, self.id);
        let first = first.unwrap_or_else(|| tensors.filled(Scalar::zero(ty.dtype), &ty.shape));
        let result = tensors.add(Op::Result { number: 0 }, ty, &[self.own]);
        let name = format!("carry{}", self.parts.carries.len());
        self.parts.carries.push(Carry { first, before, next, name, results: vec![result] });
        result
    }

    /// Stacks the values of a node of the backward body in all steps.
    fn stacked(&mut self, value: NodeId, axis: usize) -> NodeId {
        let ty = stack_type(&self.parts.body, value, axis, self.forward.length);
        let result =
            Tensors::new(self.graph, self.id).add(Op::Result { number: 0 }, ty, &[self.own]);
        let name = format!("yield{}", self.parts.yields.len());
        self.parts.yields.push(Yield { axis, value, name, results: vec![result] });
        result
    }

    /// Returns the values of a node of the forward body in all its steps, and the axis of the
    /// steps.
    fn stack(&mut self, value: NodeId) -> Result<(NodeId, usize), Error> {
        let Some(mut parts) = self.graph.take_scan(self.id) else { return Err(self.too_large()) };
        let number =
            parts.yields.iter().position(|known| known.value == value).unwrap_or_else(|| {
                let names = parts
                    .yields
                    .iter()
                    .map(|known| &known.name)
                    .chain(parts.carries.iter().map(|c| &c.name));
                let names: HashSet<&String> = names.collect();
                let name =
                    (0..).map(|number| format!("kept{number}")).find(|name| !names.contains(name));
                parts.yields.push(Yield {
                    axis: 0,
                    value,
                    name: name.unwrap_or_default(),
                    results: Vec::new(),
                });
                parts.yields.len() - 1
            });
        let kept = &mut parts.yields[number];
        let ty = stack_type(&self.forward.body, value, kept.axis, self.forward.length);
        let bytes = ty.checked_bytes();
        if kept.results.is_empty() {
            let result =
                Tensors::new(self.graph, self.id).add(Op::Result { number: 0 }, ty, &[self.id]);
            kept.results.push(result);
        }
        let found = (kept.results[0], kept.axis);
        self.graph.put_scan(self.id, parts);
        match bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
            true => Ok(found),
            false => Err(self.too_large()),
        }
    }

    /// Reverses `value` along an axis.
    fn turned(&mut self, value: NodeId, axis: usize) -> NodeId {
        let shape = self.graph.shape(value).to_vec();
        Tensors::new(self.graph, self.id).read_at(value, from_end(&shape, axis, 1), &shape, None)
    }

    /// Returns a carry's values before each step, with the last step first. `after` has its values
    /// after the steps, along `axis`.
    fn before(&mut self, first: NodeId, after: NodeId, axis: usize) -> NodeId {
        let shape = self.graph.shape(after).to_vec();
        let mut tensors = Tensors::new(self.graph, self.id);
        let others: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).collect();
        let firsts = tensors.rearranged(first, &shape, &others);
        let mut later = shape.clone();
        later[axis] -= 1;
        tensors.read_at(after, from_end(&shape, axis, 2), &later, Some(firsts))
    }
}

/// Returns an index that runs along the axis from element `size - back` downwards.
fn from_end(shape: &[usize], axis: usize, back: i64) -> Vec<Affine> {
    let mut index: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
    // The size is that of a tensor, or of one dimension of it, so it fits.
    let start = i64::try_from(shape[axis]).unwrap_or(i64::MAX) - back;
    index[axis] = Affine::new([(axis, -1)], start).unwrap_or_default();
    index
}

fn stack_type(body: &Graph, value: NodeId, axis: usize, length: usize) -> TensorType {
    let mut ty = body.node(value).ty.clone();
    ty.shape.insert(axis, length);
    ty
}

/// Adds zeros of a node's type.
fn zeros_like(body: &mut Graph, node: NodeId) -> NodeId {
    let ty = body.node(node).ty.clone();
    Tensors::new(body, node).filled(Scalar::zero(ty.dtype), &ty.shape)
}
