//! Imports of one model for changing values. What precedes the first node that depends on values is
//! imported once. Later imports run that part of the model as it is, and begin at that node.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tile_lang::Program;

use super::control::FUNCTIONS;
use super::import::{Importer, functions};
use super::imported::Imported;
use super::inputs::Given;
use super::model::{Model, OnnxError, versions};
use super::proto;
use super::recorder::{Recorded, Recorder};
use super::tensor::Loader;
use super::values::Evaluator;
use crate::graph::{NodeId, NodeMap, NodeSet, Op};
use crate::lower::{Calls, CallsAside, Network, Passed};
use crate::tensor::Tensor;

/// The parts that imports of one model share. The inputs must have the same types each time; their
/// values may differ.
#[derive(Default)]
pub struct Repeated {
    /// The library's functions that the model uses.
    program: Option<Arc<Program>>,
    start: Option<Start>,
}

/// The state of an import before the first node that depends on values.
struct Start {
    /// The number of that node in the outermost graph.
    number: usize,
    /// The part of the model that computes the values that it and later nodes read.
    part: Imported,
    /// These values, with their names as inputs of the rest.
    settled: Vec<(NodeId, String)>,
    /// The values that were computed before, by their names as inputs.
    computed: HashMap<String, Tensor>,
    /// The values of inputs that were read before.
    revealed: Vec<(NodeId, String, Tensor)>,
    calls: CallsAside,
    /// The inputs of the model.
    inputs: Vec<Recorded>,
    names: NodeMap<String>,
    scope: HashMap<String, Passed>,
    weights: HashMap<String, proto::Tensor>,
    small: NodeMap<i64>,
    stored: HashMap<usize, Passed>,
}

impl Repeated {
    /// Imports a model for the given inputs as [`super::import`] does.
    ///
    /// # Errors
    /// If a size is unknown, or a node does not fit its inputs.
    pub fn import(
        &mut self,
        model: &Model,
        given: &Given,
        loader: Loader,
        mut evaluator: Option<Evaluator>,
    ) -> Result<Imported, OnnxError> {
        let program = self.program.get_or_insert_with(|| Arc::new(library(model))).clone();
        let nodes = &model.graph.nodes;
        if self.start.as_ref().is_none_or(|start| !start.fits(given)) {
            let evaluator = evaluator.as_mut().map(|evaluator| &mut **evaluator as Evaluator);
            let mut importer = Importer::new(model, &program, given, loader, evaluator);
            importer.begin()?;
            let result = importer.nodes(nodes);
            let Some(number) = importer.stopped_at else {
                result?;
                return importer.finish();
            };
            self.start = Some(importer.start(number)?);
        }
        let evaluator = evaluator.as_mut().map(|evaluator| &mut **evaluator as Evaluator);
        let mut importer = Importer::new(model, &program, given, loader, evaluator);
        let number = self.start.as_ref().map_or(Ok(0), |start| importer.resume(start))?;
        importer.nodes(&nodes[number..])?;
        importer.finish()
    }
}

/// Returns the library's functions that a model uses.
fn library(model: &Model) -> Program {
    let mut names = FUNCTIONS.to_vec();
    functions(model, &model.graph.nodes, &model.opsets, &mut names);
    for function in model.functions.values() {
        functions(model, &function.nodes, &versions(&function.opsets), &mut names);
    }
    let program = tile_lang::check("")
        .program
        .unwrap_or_else(|| unreachable!("an empty program is in order"));
    program.with(&names).into_owned()
}

impl Start {
    /// Returns whether an import for these inputs would reach the same state.
    fn fits(&self, given: &Given) -> bool {
        self.revealed.iter().all(|(_, name, value)| given.values.get(name) == Some(value))
    }
}

impl<'p> Importer<'p> {
    /// Imports nodes of the outermost graph, up to its end.
    fn nodes(&mut self, nodes: &'p [proto::Node]) -> Result<(), OnnxError> {
        self.run(nodes, self.outputs(), &self.model.opsets, &HashMap::new())
    }

    /// Returns the names of the model's outputs.
    fn outputs(&self) -> Vec<&'p str> {
        self.model.graph.outputs.iter().map(|output| output.name.as_str()).collect()
    }

    /// Returns the state before the node with this number, at which the import stopped.
    fn start(mut self, number: usize) -> Result<Start, OnnxError> {
        self.ahead = vec![self.reads_of(&self.model.graph.nodes[number..], self.outputs())];
        let nodes = self.live();
        let names = (0..nodes.len()).map(|number| number.to_string());
        let before = self.calls.graph().part(names.zip(nodes.iter().copied()).collect());
        if let Some(node) = nodes.first().filter(|_| !self.has_values(&before)) {
            return Err(OnnxError::new(self.unknown(*node)));
        }
        let is_taken = |name: &String| {
            self.given.values.contains_key(name) || self.computed.contains_key(name)
        };
        let free = (0..).map(|number| format!("computed {number}")).filter(|name| !is_taken(name));
        let settled: Vec<(NodeId, String)> = nodes.into_iter().zip(free).collect();
        for (node, name) in &settled {
            self.calls.settle(*node, name);
        }

        let is_read = |name: &str| self.ahead.iter().any(|reads| reads.later(name));
        let mut scope = self.scopes.pop().unwrap_or_default();
        scope.retain(|name, _| is_read(name));
        let mut kept = Vec::new();
        for value in scope.values().chain(self.stored.values()) {
            add_tensors(value, &mut kept);
        }
        kept.extend(self.calls.graph().inputs.iter().copied());
        let revealed = self.revealed.iter().filter_map(|input| {
            let name = self.calls.input_name(input)?;
            let value = self.given.values.get(&name)?.clone();
            Some((input, name, value))
        });
        let revealed = revealed.collect();
        let Recorder { calls, steps, values: names } = self.calls;
        let calls = calls.set_aside(kept);
        let graph = calls.graph();
        let is_kept: NodeSet = graph.ids().collect();
        let paths: BTreeSet<&str> = graph
            .weights
            .iter()
            .filter_map(|id| match &graph.node(*id).op {
                Op::Weight(path) => Some(path.as_str()),
                _ => None,
            })
            .collect();
        let weights = self.weights.iter().filter(|(path, _)| paths.contains(path.as_str()));
        let weights = weights.map(|(path, tensor)| (path.clone(), tensor.clone())).collect();
        let kept = |names: NodeMap<String>| {
            names.into_entries().filter(|(id, _)| is_kept.contains(*id)).collect()
        };
        let mut small = self.small;
        small.retain(|id, _| is_kept.contains(id));
        let inputs = steps.into_iter().filter(|step| matches!(step, Recorded::Input { .. }));
        Ok(Start {
            number,
            part: Imported {
                network: Network { graph: before, ..Network::default() },
                weights: self.weights,
                computed: self.computed.clone(),
                ..Imported::default()
            },
            settled,
            computed: self.computed,
            revealed,
            inputs: inputs.collect(),
            names: kept(names),
            scope,
            weights,
            small,
            stored: self.stored,
            calls,
        })
    }

    /// Continues from a state, after its part has run for the given values. Returns the number of
    /// the next node of the outermost graph.
    fn resume(&mut self, start: &Start) -> Result<usize, OnnxError> {
        let calls = Calls::resume(self.program, start.calls.clone(), &self.budget);
        self.calls = Recorder { calls, steps: start.inputs.clone(), values: start.names.clone() };
        self.scopes = vec![start.scope.clone()];
        self.weights = start.weights.clone();
        self.small = start.small.clone();
        self.stored = start.stored.clone();
        self.revealed = start.revealed.iter().map(|(input, ..)| *input).collect();
        self.computed = start.computed.clone();
        (self.may_stop, self.by_values) = (false, true);
        if !start.settled.is_empty() {
            self.parts = 1;
            let evaluator = self.evaluator.as_mut();
            let tensors = evaluator.map_or(Ok(Vec::new()), |evaluator| evaluator(&start.part))?;
            let values = start.settled.iter().zip(tensors);
            let values: Vec<_> = values.map(|((node, name), value)| (*node, name, value)).collect();
            let named = values.iter().map(|(_, name, value)| ((*name).clone(), value.clone()));
            self.computed.extend(named);
            self.calls.reveal(values.into_iter().map(|(node, _, value)| (node, value)));
        }
        Ok(start.number)
    }
}

/// Adds the tensors of a value, also those in lists.
pub(super) fn add_tensors(value: &Passed, nodes: &mut Vec<NodeId>) {
    match value {
        Passed::Tensor(node) => nodes.push(*node),
        Passed::List(items) => items.iter().for_each(|item| add_tensors(item, nodes)),
        _ => {}
    }
}
