//! Checks the invariants of graphs that [`crate::graph`], [`Op`] and [`Contraction`] state.

use std::collections::HashSet;

use petgraph::Direction;

use super::{Aggregation, Contraction, ContractionLeaf, Graph, Node, NodeId, Op, Scan};
use crate::affine::Affine;
use crate::dtype::DType;
use crate::scalar::select_result;
use crate::tensor::{TensorType, broadcast};

/// Shape of the state of [`Op::PrngValue`]: words, and lanes.
pub const PRNG_SHAPE: [usize; 2] = [3, 2048];

impl Graph {
    /// Checks every invariant of the graph. Errors are one sentence, and number nodes as the text
    /// form does; where edges are wrong, there is no such number, and a node has its name.
    pub fn verify(&self) -> Result<(), String> {
        self.verify_edges()?;
        let numbers = self.numbers();
        if numbers.values().count() != self.ids().count() {
            return Err("the graph has a cycle".into());
        }
        let mut listed = HashSet::new();
        for input in &self.inputs {
            if !numbers.contains(*input) || !matches!(self.node(*input).op, Op::Input(_)) {
                return Err("an input of the graph is not an input node".into());
            }
            if !listed.insert(input) {
                return Err("an input node is listed twice".into());
            }
        }
        if self
            .weights
            .iter()
            .any(|id| !numbers.contains(*id) || !matches!(self.node(*id).op, Op::Weight(_)))
        {
            return Err("a weight of the graph is not a weight node".into());
        }
        if !self.weights.is_sorted_by(|a, b| numbers[*a] < numbers[*b]) {
            return Err("the weights are not listed once each, in node order".into());
        }
        listed.extend(&self.weights);
        let (mut input_names, mut paths) = (HashSet::new(), HashSet::new());
        for id in self.ids() {
            let node = |message: String| format!("%{}: {message}", numbers[id]);
            self.verify_node(id).map_err(node)?;
            if let Op::Input(name) = &self.node(id).op {
                if !listed.contains(&id) {
                    return Err(node(format!("input {name} is not among the graph's inputs")));
                }
                if !input_names.insert(name) {
                    return Err(node(format!("a second input has the name {name}")));
                }
            }
            if let Op::Weight(path) = &self.node(id).op {
                if !listed.contains(&id) {
                    return Err(node(format!("weight {path} is not among the graph's weights")));
                }
                if !paths.insert(path) {
                    return Err(node(format!("a second weight has the path {path}")));
                }
            }
        }
        let mut output_names = HashSet::new();
        for (name, id) in &self.outputs {
            if !numbers.contains(*id) {
                return Err(format!("output {name} is not a node of the graph"));
            }
            if !output_names.insert(name) {
                return Err(format!("a second output has the name {name}"));
            }
        }
        Ok(())
    }

    /// Checks that the edges into each node are from its operands, which are nodes of the graph.
    fn verify_edges(&self) -> Result<(), String> {
        for id in self.ids() {
            let mut sources: Vec<NodeId> =
                self.nodes.neighbors_directed(id.0, Direction::Incoming).map(NodeId).collect();
            let mut operands = self.operands(id).to_vec();
            sources.sort_unstable();
            operands.sort_unstable();
            if sources != operands {
                return Err(format!(
                    "the edges into `{}` are not its operands",
                    self.value_name(id)
                ));
            }
        }
        Ok(())
    }

    fn verify_node(&self, id: NodeId) -> Result<(), String> {
        let node = self.node(id);
        let bytes = node.ty.checked_bytes();
        if bytes.is_none_or(|n| isize::try_from(n).is_err()) {
            return Err(format!("{} is larger than memory can be", node.ty));
        }
        let operands: Vec<&TensorType> =
            self.operands(id).iter().map(|&o| &self.node(o).ty).collect();
        let scan = self.operands(id).first().and_then(|&operand| match &self.node(operand).op {
            Op::Scan(scan) => Some(scan),
            _ => None,
        });
        match (&node.op, scan) {
            (Op::Result { number }, Some(scan)) if operands.len() == 1 => {
                let ty = scan
                    .results()
                    .nth(*number)
                    .ok_or_else(|| format!("the scan has no result {number}"))?;
                let message = || format!("it is marked {}, but the scan's result is {ty}", node.ty);
                return if ty == node.ty { Ok(()) } else { Err(message()) };
            }
            (Op::Result { .. }, _) => return Err("a result is that of one scan".into()),
            (Op::Contraction(contraction), _) => {
                contraction.verify(&node.ty, &operands)?;
                return node.op.verify_positions(&node.ty, &operands);
            }
            (Op::Scan(scan), _) => return self.verify_scan(id, scan, &operands),
            _ => {}
        }
        let computed = self.computed_type(node, &operands)?;
        if computed == node.ty {
            Ok(())
        } else {
            Err(format!("it is marked {}, but computes {computed}", node.ty))
        }
    }

    /// Returns the type that a node has by its operation and operands. It is no contraction, scan
    /// or result.
    fn computed_type(&self, node: &Node, operands: &[&TensorType]) -> Result<TensorType, String> {
        let (shape, dtype) = match (&node.op, operands) {
            (Op::Input(_) | Op::Weight(_), []) => (node.ty.shape.clone(), node.ty.dtype),
            (Op::Constant(scalar), []) => (vec![], scalar.dtype),
            (Op::Elements(scalars), []) => {
                match scalars.iter().find(|s| s.dtype != node.ty.dtype) {
                    Some(scalar) => {
                        return Err(format!(
                            "an element is {}, not {}",
                            scalar.dtype, node.ty.dtype
                        ));
                    }
                    None => (vec![scalars.len()], node.ty.dtype),
                }
            }
            (Op::Index { axis }, []) if *axis < node.ty.rank() => {
                node.op.verify_positions(&node.ty, &[])?;
                (node.ty.shape.clone(), DType::I32)
            }
            (Op::Index { axis }, []) => return Err(format!("{} has no axis {axis}", node.ty)),
            (Op::Unary(op), [a]) => (a.shape.clone(), op.result(a.dtype)?),
            (Op::Binary(op), [a, b]) => (broadcast_all(operands)?, op.result(a.dtype, b.dtype)?),
            (Op::Select, [c, a, b]) => {
                (broadcast_all(operands)?, select_result(c.dtype, a.dtype, b.dtype)?)
            }
            (Op::Cast, [a]) => (a.shape.clone(), node.ty.dtype),
            (Op::StopGradient, [a]) => (a.shape.clone(), a.dtype),
            (Op::Reshape, [a]) if a.elements() == node.ty.elements() => {
                (node.ty.shape.clone(), a.dtype)
            }
            (Op::Reshape, [a]) => {
                return Err(format!("{a} does not have as many elements as {}", node.ty));
            }
            (Op::PrngValue | Op::PrngState { .. }, [state]) => {
                if (state.dtype, state.shape.as_slice()) != (DType::U32, &PRNG_SHAPE) {
                    return Err(format!(
                        "the state of a random generator is u32{PRNG_SHAPE:?}, not {state}"
                    ));
                }
                match node.op {
                    Op::PrngValue => (node.ty.shape.clone(), DType::F32),
                    _ => (PRNG_SHAPE.to_vec(), DType::U32),
                }
            }
            (_, operands) => {
                return Err(format!("the operation does not take {} operands", operands.len()));
            }
        };
        Ok(TensorType { dtype, shape })
    }
}

impl Graph {
    fn verify_scan(&self, id: NodeId, scan: &Scan, operands: &[&TensorType]) -> Result<(), String> {
        scan.body.verify().map_err(|error| format!("in its body, {error}"))?;
        if !scan.body.weights.is_empty() {
            return Err("in its body, a weight, which must be captured".into());
        }
        scan.verify(operands)?;
        let is_result = |user: NodeId| matches!(self.node(user).op, Op::Result { .. });
        if self.is_output(id) || !self.users(id).into_iter().all(is_result) {
            return Err("something else than its results reads the scan".into());
        }
        match scan.results().next() {
            Some(first) if first != self.node(id).ty => {
                Err(format!("it is marked {}, but its first result is {first}", self.node(id).ty))
            }
            _ => Ok(()),
        }
    }
}

fn broadcast_all(operands: &[&TensorType]) -> Result<Vec<usize>, String> {
    broadcast(operands.iter().map(|ty| ty.shape.as_slice())).ok_or_else(|| {
        let shapes =
            operands.iter().map(|ty| format!("{:?}", ty.shape)).collect::<Vec<_>>().join(", ");
        format!("the shapes {shapes} do not broadcast")
    })
}

impl Contraction {
    /// Checks every invariant of a contraction that computes a tensor of type `ty` from `operands`.
    fn verify(&self, ty: &TensorType, operands: &[&TensorType]) -> Result<(), String> {
        let mut names = HashSet::new();
        for index in &self.indices {
            let mut chars = index.name.chars();
            let starts = chars.next().is_some_and(|c| c.is_alphabetic() || c == '_');
            if !starts
                || !chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '\''))
                || !names.insert(&index.name)
            {
                return Err(format!("`{}` is not an index name of its own", index.name));
            }
            if index.low > index.high || index.high.checked_sub(index.low).is_none() {
                return Err(format!(
                    "the range {}..{} of {} is not one",
                    index.low, index.high, index.name
                ));
            }
        }
        if self.output.len() != ty.rank() {
            return Err(format!("it writes places of rank {}, but is {ty}", self.output.len()));
        }
        self.verify_operands(ty, operands)?;
        let indices =
            self.accesses.iter().flat_map(|access| access.index.iter().map(|index| &index.affine));
        let leaves = self.body.leaves().filter_map(|leaf| match leaf {
            ContractionLeaf::Index(affine) => Some(affine),
            ContractionLeaf::Access(_) => None,
        });
        self.output
            .iter()
            .chain(&self.constraints)
            .chain(indices)
            .chain(leaves)
            .try_for_each(|a| self.in_range(a))?;
        self.verify_rank()?;
        self.body.verify(|leaf| match leaf {
            ContractionLeaf::Index(_) => Ok(DType::I32),
            ContractionLeaf::Access(access) => match self.accesses.get(*access) {
                Some(access) => Ok(operands[access.operand].dtype),
                None => Err(format!("the body reads access {access}, which is not there")),
            },
        })?;
        let results: Vec<DType> = self.body.results.iter().map(|&r| self.body.dtype(r)).collect();
        let arg = matches!(self.aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        match results.as_slice() {
            [_] | [_, DType::Bool] if arg && ty.dtype != DType::I32 => {
                Err(format!("a position is i32, not {}", ty.dtype))
            }
            [value] | [value, DType::Bool] if arg || *value == ty.dtype => Ok(()),
            [value] | [value, DType::Bool] => {
                Err(format!("the body gives {value}, but the node is {ty}"))
            }
            _ => Err("the body gives neither a value nor a value and a bool".into()),
        }
    }

    /// Checks that the rank belongs to an arg form, runs from 0 and occurs as one coordinate of the
    /// output, and nowhere else.
    fn verify_rank(&self) -> Result<(), String> {
        let Some(rank) = self.rank else { return Ok(()) };
        if !matches!(self.aggregation, Aggregation::ArgMax | Aggregation::ArgMin) {
            return Err("a rank belongs to the arg forms".into());
        }
        let mentions = |affine: &Affine| affine.coefficient(rank) != 0;
        let coordinates = self.output.iter().filter(|affine| mentions(affine));
        let is_coordinate = coordinates.eq([&Affine::var(rank)]);
        let is_read = self.body.leaves().any(|leaf| match leaf {
            ContractionLeaf::Index(affine) => mentions(affine),
            ContractionLeaf::Access(_) => false,
        });
        if self.indices.get(rank).is_none_or(|index| index.low != 0)
            || !is_coordinate
            || is_read
            || self.accesses.iter().any(|access| access.mentions(rank))
            || self.constraints.iter().any(mentions)
        {
            return Err("a rank is not a coordinate of the output alone".into());
        }
        Ok(())
    }

    fn verify_operands(&self, ty: &TensorType, operands: &[&TensorType]) -> Result<(), String> {
        let tensors = if self.default { operands.len().saturating_sub(1) } else { operands.len() };
        for (number, access) in self.accesses.iter().enumerate() {
            if access.operand >= tensors {
                return Err(format!(
                    "access {number} reads operand {}, which is not there",
                    access.operand
                ));
            }
            let operand = operands[access.operand];
            if access.index.len() != operand.rank() {
                return Err(format!(
                    "access {number} has {} coordinates in {operand}",
                    access.index.len()
                ));
            }
            for earlier in access.index.iter().filter_map(|index| index.access) {
                let earlier_type =
                    self.accesses[..number].get(earlier).map(|a| operands[a.operand].dtype);
                if !earlier_type.is_some_and(DType::is_integer) {
                    return Err(format!(
                        "access {number} is indexed by @{earlier}, not an earlier one of an integer type"
                    ));
                }
            }
        }
        if let Some(unread) =
            (0..tensors).find(|&n| self.accesses.iter().all(|access| access.operand != n))
        {
            return Err(format!("no access reads operand {unread}"));
        }
        match operands.last() {
            Some(default) if self.default && **default != *ty => {
                Err(format!("the default is {default}, not {ty}"))
            }
            None if self.default => Err("the default is missing".into()),
            _ => Ok(()),
        }
    }

    /// Checks that an expression mentions only variables of the contraction, and fits 64 bits for
    /// all their values.
    fn in_range(&self, affine: &Affine) -> Result<(), String> {
        let bounds: Vec<(i64, i64)> =
            self.indices.iter().map(|i| (i.low, i.high.max(i.low + 1) - 1)).collect();
        match affine.bounds(&bounds) {
            Some(_) => Ok(()),
            None => {
                Err("an index expression has an unknown variable or does not fit 64-bit integers"
                    .into())
            }
        }
    }
}
