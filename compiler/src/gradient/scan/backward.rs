//! The scan that goes backwards, while it is made.

use std::collections::{HashMap, HashSet};

use super::flow::{ancestors, ancestors_up_to};
use super::super::rules::Algebra;
use super::super::tensors::Tensors;
use super::super::Error;
use super::{before, lift, reversed, zeros};
use crate::graph::scan::Yield;
use crate::graph::{Graph, NodeId, Op, Scan};
use crate::tensor::TensorType;

pub(super) struct Backward {
    /// That of the forward scan, and then the gradients in it.
    pub body: Graph,
    /// Of nodes from this number on the forward body has none.
    own: usize,
    /// The carry whose gradient it is, an input, and the gradient of its last value, if it has one.
    pub carries: Vec<(usize, NodeId, Option<NodeId>)>,
    /// A tensor outside, the axis of the steps, and an input.
    pub sequences: Vec<(NodeId, usize, NodeId)>,
}

impl Backward {
    pub fn new(scan: &Scan) -> Backward {
        let own = scan.body.ids().map(|id| id.index() + 1).max().unwrap_or(0);
        Backward { body: scan.body.clone(), own, carries: Vec::new(), sequences: Vec::new() }
    }

    /// An input for what goes with a node of the forward body.
    pub fn input(&mut self, forward: &Graph, of: NodeId) -> NodeId {
        let node = forward.node(of);
        let own = node.op.given_name().or(node.name.as_deref()).unwrap_or("value").to_owned();
        self.named_input(&own, node.ty.clone())
    }

    fn named_input(&mut self, own: &str, ty: TensorType) -> NodeId {
        let taken = |name: &str| self.body.inputs.iter().any(|&id| self.body.node(id).op.given_name() == Some(name));
        let numbered = (1..).map(|number| format!("{own}.{number}"));
        let name = numbered.into_iter().find(|name| !taken(name)).unwrap_or_default();
        self.body.add(Op::Input(name), ty, &[])
    }

    /// Adds the scan, and gives the contributions to the gradients of the operands. `found` has the gradients of the body's
    /// inputs in a step, by number.
    pub fn finish(
        mut self,
        graph: &mut Graph,
        id: NodeId,
        scan: &Scan,
        operands: &[NodeId],
        wanted: &[bool],
        found: &HashMap<usize, NodeId>,
    ) -> Result<Vec<(NodeId, NodeId)>, Error> {
        let (first_carry, first_capture) = (scan.sequences.len(), scan.sequences.len() + scan.carries);
        // What each capture's gradient is the sum of, where it need not be carried.
        let mut lifted: Vec<(usize, Vec<NodeId>)> = Vec::new();
        let mut carried: Vec<(usize, NodeId, NodeId)> = Vec::new();
        for (&number, &gradient) in found.iter().filter(|(number, _)| **number >= first_capture) {
            match lift::sums(&self.body, gradient, self.own) {
                Some(sums) => lifted.push((number, sums)),
                None => carried.push((number, gradient, gradient)),
            }
        }
        lifted.sort_unstable();
        carried.sort_unstable();
        for (_, gradient, sum) in &mut carried {
            let ty = self.body.node(*gradient).ty.clone();
            let before = self.named_input("sum", ty);
            *sum = Tensors::new(&mut self.body, *gradient).sum(before, *gradient);
            *gradient = before;
        }
        let mut next = Vec::with_capacity(self.carries.len());
        for &(carry, input, _) in &self.carries {
            next.push(found.get(&(first_carry + carry)).copied().unwrap_or_else(|| zeros(&mut self.body, input)));
        }
        let slices: Vec<(usize, NodeId)> =
            (0..first_carry).filter_map(|number| Some((number, *found.get(&number)?))).collect();
        // What the sums read in each step.
        let mut read: Vec<NodeId> = Vec::new();
        for &sum in lifted.iter().flat_map(|(_, sums)| sums) {
            for operand in self.body.operands(sum) {
                let constant = matches!(self.body.node(operand).op, Op::Constant(_) | Op::Elements(_));
                if !constant && !scan.body.inputs[first_capture..].contains(&operand) && !read.contains(&operand) {
                    read.push(operand);
                }
            }
        }

        // What the forward scan keeps: what it carries, and contractions.
        let given = |node: &NodeId| next.contains(node) || read.contains(node);
        let _ = given;
        let roots: Vec<NodeId> = next
            .iter()
            .chain(carried.iter().map(|(_, _, sum)| sum))
            .chain(slices.iter().map(|(_, gradient)| gradient))
            .chain(&read)
            .copied()
            .collect();
        let is_input = |node: NodeId| matches!(scan.body.node(node).op, Op::Input(_));
        let after: HashSet<NodeId> =
            scan.body.outputs[..scan.carries].iter().map(|(_, node)| *node).filter(|&node| !is_input(node)).collect();
        let own = self.own;
        let keeps = |node: NodeId| {
            node.index() < own && (after.contains(&node) || matches!(scan.body.node(node).op, Op::Contraction(_)))
        };
        let needed = ancestors_up_to(&self.body, roots.iter().copied(), keeps);
        let mut stacks = Stacks { graph, id, scan };
        let mut kept: Vec<NodeId> = needed.iter().copied().filter(|&node| keeps(node)).collect();
        kept.sort_unstable();
        let mut instead: HashMap<NodeId, NodeId> = HashMap::new();
        for node in kept {
            let (stack, axis) = stacks.of(node)?;
            let whole = reversed(stacks.graph, id, stack, axis);
            let input = self.input(&scan.body, node);
            self.body.replace(node, input);
            instead.insert(node, input);
            self.sequences.push((whole, axis, input));
        }
        for (number, &input) in scan.body.inputs[..first_capture].iter().enumerate() {
            if !needed.contains(&input) {
                continue;
            }
            let (whole, axis) = if number < first_carry {
                (reversed(stacks.graph, id, operands[number], scan.sequences[number]), scan.sequences[number])
            } else {
                let (stack, axis) = stacks.of(scan.body.outputs[number - first_carry].1)?;
                (before(stacks.graph, id, operands[number], stack, axis), axis)
            };
            self.sequences.push((whole, axis, input));
        }
        let here = |node: NodeId| instead.get(&node).copied().unwrap_or(node);

        // What it gives: the carries, then what it yields.
        let mut outputs: Vec<NodeId> = next.into_iter().map(here).collect();
        outputs.extend(carried.iter().map(|(_, _, sum)| *sum));
        let carries = outputs.len();
        outputs.extend(slices.iter().map(|(_, gradient)| here(*gradient)));
        let mut yields: Vec<usize> = slices.iter().map(|(number, _)| scan.sequences[*number]).collect();
        let read: Vec<NodeId> = read.into_iter().map(here).collect();
        let yielded: Vec<NodeId> =
            read.iter().copied().filter(|node| self.sequences.iter().all(|(_, _, input)| input != node)).collect();
        outputs.extend(&yielded);
        yields.extend(yielded.iter().map(|_| 0));
        let captures: Vec<(NodeId, NodeId)> =
            operands[first_capture..].iter().copied().zip(scan.body.inputs[first_capture..].iter().copied()).collect();

        let lifted_ops: Vec<(usize, Vec<(Op, TensorType, Vec<NodeId>)>)> = lifted
            .into_iter()
            .map(|(number, sums)| {
                let taken = |sum: NodeId| {
                    let node = self.body.node(sum);
                    (node.op.clone(), node.ty.clone(), self.body.operands(sum).into_iter().map(here).collect())
                };
                (number, sums.into_iter().map(taken).collect())
            })
            .collect();
        let constants: HashMap<NodeId, NodeId> = lifted_ops
            .iter()
            .flat_map(|(_, sums)| sums)
            .flat_map(|(_, _, operands)| operands)
            .filter(|operand| matches!(self.body.node(**operand).op, Op::Constant(_) | Op::Elements(_)))
            .map(|&operand| {
                let node = self.body.node(operand);
                (operand, stacks.graph.add(node.op.clone(), node.ty.clone(), &[]))
            })
            .collect();

        let graph = stacks.graph;
        self.sequences.sort_by_key(|(_, _, input)| *input);
        let sequences = self.sequences.clone();
        let results = if outputs.is_empty() {
            Vec::new()
        } else {
            let mut firsts = Vec::with_capacity(carries);
            for &(_, input, first) in &self.carries {
                firsts.push((input, first));
            }
            firsts.extend(carried.iter().map(|(_, input, _)| (*input, None)));
            let reads = ancestors(&self.body, outputs.iter().copied());
            let mut inputs: Vec<NodeId> = Vec::new();
            let mut given: Vec<NodeId> = Vec::new();
            let mut axes = Vec::new();
            for &(whole, axis, input) in sequences.iter().filter(|(_, _, input)| reads.contains(input)) {
                inputs.push(input);
                given.push(whole);
                axes.push(axis);
            }
            for &(input, first) in &firsts {
                inputs.push(input);
                let ty = self.body.node(input).ty.clone();
                given.push(first.unwrap_or_else(|| {
                    Tensors::new(graph, id).filled(crate::dtype::Scalar::zero(ty.dtype), &ty.shape)
                }));
            }
            for &(outside, inside) in captures.iter().filter(|(_, inside)| reads.contains(inside)) {
                inputs.push(inside);
                given.push(outside);
            }
            let mut body = self.body.clone();
            for node in body.topological().into_iter().rev() {
                if !reads.contains(&node) && !inputs.contains(&node) {
                    body.remove(node);
                }
            }
            body.inputs = inputs;
            let name = |number: usize| format!("d{number}");
            body.outputs = outputs.iter().enumerate().map(|(number, &node)| (name(number), node)).collect();
            body.name = "backward".into();
            let scan = Scan { length: scan.length, sequences: axes, carries, yields, body };
            graph.add_scan(scan, &given)
        };

        let mut parts = Vec::new();
        for (&(carry, _, _), &result) in self.carries.iter().zip(&results) {
            if wanted[first_carry + carry] {
                parts.push((operands[first_carry + carry], result));
            }
        }
        for (&(number, _, _), &result) in carried.iter().zip(&results[self.carries.len()..]) {
            parts.push((operands[number], result));
        }
        for ((number, _), &result) in slices.iter().zip(&results[carries..]) {
            parts.push((operands[*number], reversed(graph, id, result, scan.sequences[*number])));
        }
        let stacked = &results[(carries + slices.len()).min(results.len())..];
        for (number, sums) in lifted_ops {
            for (op, ty, operands_of_sum) in sums {
                let Op::Contraction(op) = op else { continue };
                let mut axes = Vec::new();
                let mut outside = Vec::new();
                for operand in operands_of_sum {
                    let sequence = sequences.iter().find(|(_, _, input)| *input == operand);
                    let stack = yielded.iter().position(|&node| node == operand);
                    let capture = captures.iter().find(|(_, inside)| *inside == operand);
                    let (node, axis) = match (sequence, stack, capture) {
                        (Some(&(whole, axis, _)), ..) => (whole, Some(axis)),
                        (_, Some(stack), _) => (stacked[stack], Some(0)),
                        (_, _, Some(&(outside, _))) => (outside, None),
                        _ => (constants[&operand], None),
                    };
                    outside.push(node);
                    axes.push(axis);
                }
                let op = lift::over_steps(&op, scan.length, &axes);
                let op = op.ok_or_else(|| Error::TooLarge { value: graph.value_name(id) })?;
                parts.push((operands[number], Tensors::new(graph, id).add(Op::Contraction(Box::new(op)), ty, &outside)));
            }
        }
        Ok(parts)
    }
}

/// What the forward scan's values are in every step.
struct Stacks<'a> {
    graph: &'a mut Graph,
    id: NodeId,
    scan: &'a Scan,
}

impl Stacks<'_> {
    /// The result that has a value of the body in every step, and the axis along which the steps are.
    fn of(&mut self, value: NodeId) -> Result<(NodeId, usize), Error> {
        let too_large = || Error::TooLarge { value: String::new() };
        let Some(mut parts) = self.graph.take_scan(self.id) else { return Err(too_large()) };
        let number = parts.yields.iter().position(|known| known.value == value).unwrap_or_else(|| {
            let mut name = "kept".to_owned();
            let taken = |name: &String| parts.yields.iter().any(|y| y.name == *name) || parts.carries.iter().any(|c| c.name == *name);
            while taken(&name) {
                name.push('_');
            }
            parts.yields.push(Yield { axis: 0, value, name, results: Vec::new() });
            parts.yields.len() - 1
        });
        let kept = &mut parts.yields[number];
        let mut ty = self.scan.body.node(value).ty.clone();
        ty.shape.insert(kept.axis, self.scan.length);
        let axis = kept.axis;
        if kept.results.is_empty() {
            kept.results.push(self.graph.add(Op::Result { number: 0 }, ty.clone(), &[self.id]));
        }
        let result = kept.results[0];
        self.graph.put_scan(self.id, parts);
        let bytes = ty.checked_elements().and_then(|elements| elements.checked_mul(ty.dtype.size()));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(Error::TooLarge { value: self.graph.value_name(self.id) });
        }
        Ok((result, axis))
    }
}
