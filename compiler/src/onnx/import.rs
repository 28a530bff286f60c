//! The import of a model's nodes: each becomes a call of the library.

use std::collections::HashMap;

use tile_lang::diagnostic::Diagnostic;
use tile_lang::{Budget, Program};

use super::attributes::{Attributes, resolved};
use super::imported::Imported;
use super::inputs::Given;
use super::model::{Model, OnnxError, Operator, Opsets, title, versions};
use super::order::Reads;
use super::proto::{self, Attribute};
use super::recorder::Recorder;
use super::resume::Repeated;
use super::small::small;
use super::tensor::{self, Loader};
use super::values::Evaluator;
use crate::graph::{NodeId, NodeMap, NodeSet, Op};
use crate::lower::{Calls, Layer, Passed};
use crate::tensor::Tensor;

/// The most elements of a tensor written into the graph, and of one whose value may determine
/// shapes.
const SMALL: usize = 16;
pub(super) const KNOWN: usize = 1 << 16;

/// The maximum depth of nested calls of the file's functions.
const MAX_DEPTH: usize = 64;

/// Units of work for a node, and bytes for each of its names.
const NODE_UNITS: u64 = 30;
const NAME_BYTES: usize = 50;

/// Imports a model for the given inputs. With an evaluator, shapes may depend on values that the
/// model computes. The network is then the last part of the model. Inputs of it that are not the
/// model's have their values in [`Imported::computed`].
///
/// # Errors
/// If a size is unknown, or a node does not fit its inputs.
pub fn import(
    model: &Model,
    given: &Given,
    loader: Loader,
    evaluator: Option<Evaluator>,
) -> Result<Imported, OnnxError> {
    Repeated::default().import(model, given, loader, evaluator)
}

/// Adds the library's functions that the nodes use.
pub(super) fn functions(
    model: &Model,
    nodes: &[proto::Node],
    opsets: &Opsets,
    names: &mut Vec<&'static str>,
) {
    for node in nodes {
        if let Some(Operator::Library(name)) = model.operator(node, opsets)
            && !names.contains(&name)
        {
            names.push(name);
        }
        for graph in node.attributes.iter().filter_map(|attribute| attribute.graph.as_ref()) {
            functions(model, &graph.nodes, opsets, names);
        }
    }
}

pub(super) struct Importer<'p> {
    pub model: &'p Model,
    pub program: &'p Program,
    pub loader: Loader<'p>,
    pub calls: Recorder<'p>,
    pub given: &'p Given,
    pub evaluator: Option<Evaluator<'p>>,
    /// The values by name, with the innermost graph last.
    pub scopes: Vec<HashMap<String, Passed>>,
    /// The scopes around the functions in progress.
    pub hidden: Vec<Vec<HashMap<String, Passed>>>,
    /// The reads of each graph in progress, outermost first.
    pub ahead: Vec<Reads<'p>>,
    /// Tensors by name that may depend on inputs, and are not settled.
    pub open: Vec<(String, NodeId)>,
    pub weights: HashMap<String, proto::Tensor>,
    /// The values of inputs that the model does not have: results computed during the import.
    pub computed: HashMap<String, Tensor>,
    /// The inputs whose given values were read.
    pub revealed: NodeSet,
    /// The type numbers of values whose type Tile lacks.
    pub small: NodeMap<i64>,
    /// Whether the graph is valid only for the given values.
    pub by_values: bool,
    /// The number of parts of the model that were run.
    pub parts: usize,
    /// True to stop at the first node that depends on values.
    pub may_stop: bool,
    /// The number of the node of the outermost graph at which the import stopped.
    pub stopped_at: Option<usize>,
    layers: Vec<Layer>,
    /// Weights that layers have read.
    counted: NodeSet,
    /// The values of the tensors in the file's inner graphs, by their addresses, so that a loop
    /// stores each once.
    pub stored: HashMap<usize, Passed>,
    pub budget: Budget,
    depth: usize,
}

impl<'p> Importer<'p> {
    /// Creates an importer that has nothing yet.
    pub fn new(
        model: &'p Model,
        program: &'p Program,
        given: &'p Given,
        loader: Loader<'p>,
        evaluator: Option<Evaluator<'p>>,
    ) -> Self {
        let budget = Budget::new(given.limits);
        Importer {
            model,
            program,
            loader,
            calls: Recorder::new(Calls::new(program, title_of(model), &budget)),
            given,
            may_stop: evaluator.is_some(),
            evaluator,
            scopes: vec![HashMap::new()],
            hidden: Vec::new(),
            ahead: Vec::new(),
            open: Vec::new(),
            weights: HashMap::new(),
            computed: HashMap::new(),
            revealed: NodeSet::new(),
            small: NodeMap::new(),
            by_values: false,
            parts: 0,
            stopped_at: None,
            layers: Vec::new(),
            counted: NodeSet::new(),
            stored: HashMap::new(),
            budget,
            depth: 0,
        }
    }

    /// Defines the inputs and initializers of the model.
    pub fn begin(&mut self) -> Result<(), OnnxError> {
        self.inputs()?;
        self.initializers(&self.model.graph, "").map_err(OnnxError::new)
    }

    /// Returns the network of all nodes.
    pub fn finish(mut self) -> Result<Imported, OnnxError> {
        let mut outputs = Vec::new();
        for output in &self.model.graph.outputs {
            let value = self.lookup(&output.name).ok_or_else(|| {
                OnnxError::new(format!("nothing gives the output `{}`", output.name))
            })?;
            let node = self.calls.tensor(&value).map_err(|error| {
                OnnxError::new(format!("the output `{}`: {}", output.name, sentence(&error)))
            })?;
            outputs.push((output.name.clone(), node));
        }
        let Recorder { calls, steps, values } = self.calls;
        let mut network = calls.finish(outputs.clone(), self.layers);
        if !self.computed.is_empty() {
            network.graph = network.graph.part(outputs.clone());
        }
        Ok(Imported {
            network,
            name: title_of(self.model).to_owned(),
            steps,
            values,
            outputs,
            weights: self.weights,
            computed: self.computed,
            by_values: self.by_values,
            parts: self.parts,
        })
    }

    /// Defines a graph's initializers for names without a value. Their paths start with `prefix`.
    pub fn initializers(&mut self, graph: &'p proto::Graph, prefix: &str) -> Result<(), String> {
        for tensor in &graph.initializers {
            let is_given = self.scopes.last().is_some_and(|scope| scope.contains_key(&tensor.name));
            if !is_given {
                let value = self.stored_once(tensor, &format!("{prefix}{}", tensor.name), true);
                let value =
                    value.map_err(|what| format!("the initializer `{}`: {what}", tensor.name))?;
                self.define(&tensor.name, value)?;
            }
        }
        Ok(())
    }

    /// Stores a tensor as [`Importer::stored`] does, but once only if a loop reaches it repeatedly.
    pub fn stored_once(
        &mut self,
        tensor: &'p proto::Tensor,
        path: &str,
        may_be_trained: bool,
    ) -> Result<Passed, String> {
        self.spend(1)?;
        let address = std::ptr::from_ref(tensor).addr();
        if let Some(value) = self.stored.get(&address) {
            return Ok(value.clone());
        }
        let value = self.stored(tensor, path, may_be_trained)?;
        self.stored.insert(address, value.clone());
        Ok(value)
    }

    /// Stores a tensor of the file: a small one as a constant in the graph, any other as a weight
    /// with this path. If it may have been trained, only a single number counts as small. A vector
    /// of equal integers is a constant, too, so that zero points of 0 cost nothing.
    pub fn stored(
        &mut self,
        tensor: &proto::Tensor,
        path: &str,
        may_be_trained: bool,
    ) -> Result<Passed, String> {
        let ty = tensor::ty(tensor)?;
        let small = if may_be_trained && ty.dtype.is_float() { 1 } else { SMALL };
        let value = match ty.elements() <= KNOWN {
            true => Some(tensor::tensor(tensor, self.loader)?),
            false => {
                tensor::check(tensor, &ty, self.loader)?;
                None
            }
        };
        let is_repeated = |value: &Tensor| {
            let mut scalars = value.scalars();
            let first = scalars.next();
            ty.rank() == 1 && !ty.dtype.is_float() && scalars.all(|scalar| Some(scalar) == first)
        };
        self.calls.begin(path, "", path);
        let node = match value {
            Some(value) if ty.elements() <= small || is_repeated(&value) => {
                self.calls.constant(&value)
            }
            value => {
                let free =
                    (0..).map(|n| if n == 0 { path.to_owned() } else { format!("{path}_{n}") });
                let path = free
                    .into_iter()
                    .find(|path| !self.weights.contains_key(path))
                    .unwrap_or_default();
                self.weights.insert(path.clone(), tensor.clone());
                self.calls.weight(&path, ty, value)
            }
        };
        let node = node.map_err(|error| sentence(&error))?;
        self.note_small(node, tensor.dtype.into());
        Ok(Passed::Tensor(node))
    }

    /// Records the type number of a value whose type Tile lacks.
    pub fn note_small(&mut self, node: NodeId, number: i64) {
        if i32::try_from(number).is_ok_and(|number| small(number).is_some()) {
            self.small.insert(node, number);
        }
    }

    /// Imports nodes in order. `attributes` are those of the function whose body they are.
    pub fn run(
        &mut self,
        nodes: &'p [proto::Node],
        outputs: Vec<&'p str>,
        opsets: &Opsets,
        attributes: &Attributes,
    ) -> Result<(), OnnxError> {
        self.ahead.push(self.reads_of(nodes, outputs));
        let result = self.through(nodes, opsets, attributes);
        self.ahead.pop();
        result
    }

    fn through(
        &mut self,
        nodes: &'p [proto::Node],
        opsets: &Opsets,
        attributes: &Attributes,
    ) -> Result<(), OnnxError> {
        for (number, node) in nodes.iter().enumerate() {
            self.ahead.iter_mut().last().into_iter().for_each(|reads| reads.begin(number));
            let named = |what: String| {
                OnnxError::new(format!("node `{}` ({}): {what}", title(node), node.op))
            };
            self.count(node).map_err(named)?;
            let Some(operator) = self.model.operator(node, opsets) else {
                return Err(named("it is not supported".into()));
            };
            let inputs = node.inputs.iter().map(|name| match name.as_str() {
                "" => Ok(Passed::Nothing),
                name => self
                    .lookup(name)
                    .ok_or_else(|| format!("nothing before it gives its input `{name}`")),
            });
            let mut inputs: Vec<Passed> = inputs.collect::<Result<_, _>>().map_err(named)?;
            while inputs.last() == Some(&Passed::Nothing) {
                inputs.pop();
            }
            let elements = self.first_read(&inputs);
            let of_node = resolved(node, attributes);
            self.calls.begin(
                node.outputs.first().map_or("", String::as_str),
                &node.op,
                title(node),
            );
            let outputs = match operator {
                Operator::Library(name) => {
                    let call = self.call(name, node, inputs, of_node);
                    call.map_err(|what| {
                        named(what.replace(&format!("`{name}`"), &format!("`{}`", node.op)))
                    })?
                }
                Operator::Control(control) => {
                    self.control(control, node, inputs, of_node, attributes, opsets)?
                }
                Operator::Local(function) => {
                    self.inline(function, inputs, of_node).map_err(|mut error| {
                        error
                            .0
                            .iter_mut()
                            .for_each(|what| *what = format!("{what}, in node `{}`", title(node)));
                        error
                    })?
                }
            };
            let wanted =
                node.outputs.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
            if outputs.len() < wanted {
                return Err(named(format!(
                    "expected at most {} outputs, found {wanted}",
                    outputs.len()
                )));
            }
            self.note_layer(node, elements, &outputs);
            for (name, value) in
                node.outputs.iter().zip(outputs).filter(|(name, _)| !name.is_empty())
            {
                self.define(name, value).map_err(named)?;
            }
        }
        Ok(())
    }

    /// Counts work before it is done.
    pub fn spend(&self, units: usize) -> Result<(), String> {
        self.budget.spend(units as u64).map_err(|exceeded| exceeded.to_string())
    }

    /// Counts a node or a loop iteration, with the node's names, which are kept.
    pub fn count(&self, node: &proto::Node) -> Result<(), String> {
        let names = node.inputs.iter().chain(&node.outputs).chain([&node.name, &node.op]);
        let bytes: usize = names.map(|name| name.len() + NAME_BYTES).sum();
        let counted =
            self.budget.take_bytes(bytes as u64).and_then(|()| self.budget.spend(NODE_UNITS));
        counted.map_err(|exceeded| exceeded.to_string())
    }

    /// Returns the elements of the weights among a node's inputs that no earlier node of the
    /// outermost graph has read.
    fn first_read(&mut self, inputs: &[Passed]) -> usize {
        let mut elements = 0;
        for input in inputs.iter().filter(|_| self.scopes.len() == 1) {
            if let Passed::Tensor(id) = input
                && matches!(self.calls.graph().node(*id).op, Op::Weight(_))
                && self.counted.insert(*id)
            {
                elements += self.calls.graph().node(*id).ty.elements();
            }
        }
        elements
    }

    /// Records a node of the outermost graph for [`Network::layers`].
    fn note_layer(&mut self, node: &proto::Node, elements: usize, outputs: &[Passed]) {
        if self.scopes.len() > 1 || node.op == "Constant" {
            return;
        }
        let ty = |value: &Passed| match value {
            Passed::Tensor(id) => Some(self.calls.graph().node(*id).ty.clone()),
            _ => None,
        };
        let read = outputs.iter().zip(&node.outputs).filter(|(_, name)| !name.is_empty());
        let outputs = read.filter_map(|(value, _)| ty(value)).collect();
        self.layers.push(Layer {
            path: title(node).to_owned(),
            class: node.op.clone(),
            outputs,
            elements: Some(elements),
        });
    }

    /// Inlines the body of the file's function.
    fn inline(
        &mut self,
        function: &'p proto::Function,
        inputs: Vec<Passed>,
        attributes: Vec<(String, &Attribute)>,
    ) -> Result<Vec<Passed>, OnnxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(OnnxError::new(format!(
                "functions call each other more than {MAX_DEPTH} deep"
            )));
        }
        let parts = function.defaults.len()
            + function.opsets.len()
            + function.inputs.len()
            + function.outputs.len();
        self.spend(parts).map_err(OnnxError::new)?;
        let mut own: Attributes =
            function.defaults.iter().map(|a| (a.name.clone(), a.clone())).collect();
        own.extend(attributes.into_iter().map(|(name, attribute)| (name, attribute.clone())));
        let given = inputs.into_iter().chain(std::iter::repeat(Passed::Nothing));
        let scope: HashMap<String, Passed> = function.inputs.iter().cloned().zip(given).collect();
        scope.iter().for_each(|(name, value)| self.note_open(name, value));
        // The body does not see the surrounding scopes.
        self.hidden.push(std::mem::replace(&mut self.scopes, vec![HashMap::new(), scope]));
        let wanted = function.outputs.iter().map(String::as_str).collect();
        let result = self.run(&function.nodes, wanted, &versions(&function.opsets), &own);
        let outputs = function.outputs.iter().map(|name| {
            self.lookup(name)
                .ok_or_else(|| OnnxError::new(format!("nothing gives the output `{name}`")))
        });
        let outputs: Result<Vec<Passed>, OnnxError> = result.and_then(|()| outputs.collect());
        self.scopes = self.hidden.pop().unwrap_or_default();
        self.depth -= 1;
        outputs
    }

    /// Imports an inner graph of a node for these inputs, and returns its outputs. `attributes` are
    /// those of the enclosing function.
    pub fn body(
        &mut self,
        graph: &'p proto::Graph,
        inputs: Vec<Passed>,
        opsets: &Opsets,
        prefix: &str,
        attributes: &Attributes,
    ) -> Result<Vec<Passed>, OnnxError> {
        let names = graph.inputs.iter().map(|input| input.name.clone());
        let scope: HashMap<String, Passed> = names.zip(inputs).collect();
        scope.iter().for_each(|(name, value)| self.note_open(name, value));
        self.scopes.push(scope);
        let result = self.initializers(graph, prefix).map_err(OnnxError::new);
        let wanted = graph.outputs.iter().map(|output| output.name.as_str()).collect();
        let result = result.and_then(|()| self.run(&graph.nodes, wanted, opsets, attributes));
        let outputs = graph.outputs.iter().map(|output| {
            let missing = || OnnxError::new(format!("nothing gives the output `{}`", output.name));
            self.lookup(&output.name).ok_or_else(missing)
        });
        let outputs = result.and_then(|()| outputs.collect());
        self.scopes.pop();
        outputs
    }

    pub fn lookup(&self, name: &str) -> Option<Passed> {
        let value = self.scopes.iter().rev().find_map(|scope| scope.get(name))?;
        if let Passed::List(items) = value {
            // Counts the copies of the list, here and in the callee.
            let _ = self.budget.spend(items.len() as u64 / 2);
        }
        Some(value.clone())
    }

    pub fn define(&mut self, name: &str, value: Passed) -> Result<(), String> {
        if let Passed::Tensor(node) = &value {
            self.calls.values.slot(*node).get_or_insert_with(|| name.to_owned());
        }
        self.note_open(name, &value);
        let before = self.scopes.last_mut().and_then(|scope| scope.insert(name.to_owned(), value));
        if before.is_some() { Err(format!("`{name}` is given twice")) } else { Ok(()) }
    }
}

/// Returns the name of a model, or `model`.
fn title_of(model: &Model) -> &str {
    if model.name().is_empty() { "model" } else { model.name() }
}

/// Returns the text of a diagnostic without its source positions, which are in the library.
pub(super) fn sentence(error: &Diagnostic) -> String {
    match &error.help {
        Some(help) => format!("{} ({help})", error.message),
        None => error.message.clone(),
    }
}
