//! Values that determine shapes: constant folding during the import, and evaluation of parts of the
//! model.
//!
//! A value that follows from constants and given values of small inputs is computed here. Any other
//! is computed by the [`Evaluator`], if there is one: it receives the part of the graph that
//! computes the value, compiles it and runs it. Values that later nodes read are outputs of that
//! part, too. They become inputs of the rest of the import, so that nothing is computed twice:
//!
//! ```text
//! boxes, scores = backbone(X)    part 1: outputs boxes, scores
//! places = NonMaxSuppression(boxes, scores)    on the host: host.rs
//! Y = Gather(boxes, places)      part 2: inputs boxes, places
//! ```
//!
//! Invariant: an input that a part has computed is in [`Imported::computed`]. Without an evaluator
//! the graph stays whole.

use std::collections::HashSet;

use super::import::{Importer, KNOWN, sentence};
use super::imported::Imported;
use super::model::OnnxError;
use super::order::Reads;
use super::proto;
use super::resume::add_tensors;
use crate::bindings::SEED;
use crate::graph::{Graph, NodeId, NodeMap, Op};
use crate::lower::{Network, Passed};
use crate::tensor::Tensor;

/// Runs a part of a model, and returns its outputs in order. Its inputs are those of the model and
/// those in [`Imported::computed`].
pub type Evaluator<'a> = &'a mut dyn FnMut(&Imported) -> Result<Vec<Tensor>, OnnxError>;

/// The maximum number of parts run to find shapes. A part in a loop counts once for each iteration.
const MAX_PARTS: usize = 1000;

impl Importer<'_> {
    /// Returns the value of a tensor. With an evaluator it may have any size.
    pub fn value(&mut self, value: &Passed) -> Result<Tensor, String> {
        let node = self.calls.tensor(value).map_err(|error| sentence(&error))?;
        match self.known(node) {
            Some(tensor) => Ok(tensor),
            None => self.evaluated(node),
        }
    }

    /// Returns the value of a tensor, if no part of the model must run for it.
    pub fn known(&mut self, node: NodeId) -> Option<Tensor> {
        if let found @ Some(_) = self.calls.known(node, KNOWN) {
            return found;
        }
        let given = self.given;
        for input in inputs(self.calls.graph(), node) {
            let value = self.calls.input_name(input).and_then(|name| given.values.get(&name));
            if let Some(value) =
                value.filter(|value| value.ty().elements() <= KNOWN && self.revealed.insert(input))
            {
                self.by_values = true;
                self.calls.reveal([(input, value.clone())]);
            }
        }
        self.calls.known(node, KNOWN)
    }

    /// Runs the part of the model that computes the value of a node, and the values that are read
    /// later.
    fn evaluated(&mut self, node: NodeId) -> Result<Tensor, String> {
        let mut nodes = vec![node];
        nodes.extend(self.live().into_iter().filter(|live| *live != node));
        let names = (0..nodes.len()).map(|number| number.to_string());
        let graph = self.calls.graph().part(names.zip(nodes.iter().copied()).collect());
        if self.evaluator.is_none() || !self.has_values(&graph) {
            return Err(self.unknown(node));
        }
        if self.may_stop {
            self.stopped_at = self.ahead.first().map(|reads| reads.number());
            return Err("depends on values".into());
        }
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(format!(
                "more than {MAX_PARTS} values on which shapes depend are computed"
            ));
        }
        let tensors = self.run_part(graph).map_err(|error| error.to_string())?;
        let found = tensors.first().cloned();
        let values: Vec<(NodeId, Tensor)> = nodes.into_iter().zip(tensors).collect();
        for (node, tensor) in &values {
            let name = self.computed_name();
            self.calls.settle(*node, &name);
            self.computed.insert(name, tensor.clone());
        }
        self.calls.reveal(values);
        self.by_values = true;
        found.ok_or_else(|| "it was not computed".to_owned())
    }

    /// Returns whether all inputs of a part of the model have values.
    pub fn has_values(&self, part: &Graph) -> bool {
        part.inputs.iter().all(|input| match &part.node(*input).op {
            Op::Input(name) => {
                name == SEED
                    || self.given.values.contains_key(name)
                    || self.computed.contains_key(name)
            }
            _ => false,
        })
    }

    fn run_part(&mut self, graph: Graph) -> Result<Vec<Tensor>, OnnxError> {
        let weights = std::mem::take(&mut self.weights);
        let computed = std::mem::take(&mut self.computed);
        let part = Imported {
            network: Network { graph, ..Network::default() },
            weights,
            computed,
            ..Imported::default()
        };
        let tensors = match &mut self.evaluator {
            Some(evaluator) => evaluator(&part),
            None => Ok(Vec::new()),
        };
        Imported { weights: self.weights, computed: self.computed, .. } = part;
        tensors
    }

    /// Adds a tensor computed by the host. In an evaluated model it becomes an input, so that
    /// compiled parts serve other values, too.
    pub fn result(&mut self, tensor: Tensor) -> Result<Passed, String> {
        let node = if self.by_values && self.evaluator.is_some() {
            let name = self.computed_name();
            let node = self.calls.input(&name, tensor.ty().clone(), Some(tensor.clone()));
            self.computed.insert(name, tensor);
            node
        } else {
            self.calls.constant(&tensor)
        };
        node.map(Passed::Tensor).map_err(|error| sentence(&error))
    }

    fn computed_name(&self) -> String {
        let names = (self.computed.len()..).map(|number| format!("computed {number}"));
        let is_free = |name: &String| {
            !self.given.values.contains_key(name) && !self.computed.contains_key(name)
        };
        names.into_iter().find(is_free).unwrap_or_default()
    }

    /// Returns the reads of a graph. Without an evaluator nobody asks for them.
    pub fn reads_of<'g>(&self, nodes: &'g [proto::Node], outputs: Vec<&'g str>) -> Reads<'g> {
        match self.evaluator {
            Some(_) => Reads::new(nodes, outputs),
            None => Reads::default(),
        }
    }

    /// Records the tensors of a value that is defined by name.
    pub fn note_open(&mut self, name: &str, value: &Passed) {
        if self.evaluator.is_some() {
            let mut nodes = Vec::new();
            add_tensors(value, &mut nodes);
            self.open.extend(nodes.into_iter().map(|node| (name.to_owned(), node)));
        }
    }

    /// Returns the nodes that depend on inputs and that later nodes read by name.
    pub fn live(&mut self) -> Vec<NodeId> {
        let graph = self.calls.graph();
        let is_later = |name: &str| self.ahead.iter().any(|reads| reads.later(name));
        // A loop may read again what its body does not read any more, and an import that stops
        // reads the inputs of this node again.
        let is_final = self.ahead.len() == 1 && !self.may_stop;
        let mut varying = NodeMap::new();
        self.open.retain(|(name, node)| {
            !matches!(graph.node(*node).op, Op::Input(_))
                && varies(graph, *node, &mut varying)
                && (!is_final || is_later(name))
        });
        let live = self.open.iter().filter(|(name, _)| is_later(name)).map(|(_, node)| *node);
        let mut nodes: Vec<NodeId> = live.collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Returns the reason why the value of a node is unknown.
    pub fn unknown(&self, node: NodeId) -> String {
        let names = inputs(self.calls.graph(), node)
            .into_iter()
            .filter_map(|input| self.calls.input_name(input));
        let mut names: Vec<String> =
            names.filter(|name| !self.computed.contains_key(name)).collect();
        names.sort_unstable();
        match names.as_slice() {
            [] => "has a value that is not known when the model is compiled".into(),
            _ => format!(
                "on which shapes depend, is computed from {}, whose values are not known when the model is compiled",
                names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// Returns the inputs that a node depends on.
fn inputs(graph: &Graph, node: NodeId) -> Vec<NodeId> {
    let (mut found, mut open, mut seen) = (Vec::new(), vec![node], HashSet::new());
    while let Some(next) = open.pop() {
        if seen.insert(next) {
            match graph.node(next).op {
                Op::Input(_) => found.push(next),
                _ => open.extend(graph.operands(next)),
            }
        }
    }
    found
}

/// Returns whether a node depends on an input. `known` caches results.
fn varies(graph: &Graph, node: NodeId, known: &mut NodeMap<bool>) -> bool {
    let mut open = vec![node];
    while let Some(&next) = open.last() {
        let operands = graph.operands(next);
        let found = match graph.node(next).op {
            Op::Input(_) => Some(true),
            _ if operands.iter().any(|operand| known.get(*operand) == Some(&true)) => Some(true),
            _ => {
                let before = open.len();
                open.extend(operands.iter().filter(|operand| !known.contains(**operand)));
                (open.len() == before).then_some(false)
            }
        };
        if let Some(found) = found {
            known.insert(next, found);
            open.pop();
        }
    }
    known[node]
}
