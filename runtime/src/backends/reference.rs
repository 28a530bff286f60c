//! [`Reference`]: the reference interpreter, which runs graphs as they are.

use tile_compiler::graph::{Graph, NodeId, Op};
use tile_compiler::interpret;
use tile_compiler::pipeline::Options;
use tile_compiler::plan::Plan;
use tile_compiler::profile::Profile;
use tile_compiler::tensor::{Tensor, TensorType};
use tile_lang::Sources;

use crate::backend::{Backend, Executable, Pending, Ports, given_name, ready};
use crate::error::Error;
use crate::memory;
use crate::store::{Memory, Store, Stored};
use crate::value::{Value, tensor_on};

/// The reference interpreter.
pub struct Reference;

impl Backend for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn adapter(&self) -> String {
        super::describe_cpu().adapter
    }

    fn profile(&self) -> Profile {
        Profile::cpu()
    }

    fn tuning(&self) -> Result<(), &'static str> {
        Err("the reference interpreter has nothing to tune: it runs no kernels")
    }

    fn compile<'a>(&'a self, _: Plan, _: &'a mut Store) -> Pending<'a, Box<dyn Executable>> {
        ready(Err(Error::internal("the reference device runs graphs, not plans")))
    }

    fn build<'a>(
        &'a self,
        graph: Graph,
        _: &'a Sources,
        _: Options,
        store: &'a mut Store,
    ) -> Pending<'a, Box<dyn Executable>> {
        let required = memory::require(self.name(), interpret::memory(&graph), store.limit);
        ready(required.map(|()| Box::new(Interpreted::new(graph)) as Box<dyn Executable>))
    }
}

/// A graph with the values that it is run on.
struct Interpreted {
    graph: Graph,
    given: Vec<(String, Option<Tensor>)>,
    outputs: Vec<Tensor>,
}

impl Interpreted {
    fn new(graph: Graph) -> Interpreted {
        let sources = graph.inputs.iter().chain(&graph.weights);
        let given = sources.map(|&id| (given_name(&graph, id).to_owned(), None)).collect();
        Interpreted { graph, given, outputs: Vec::new() }
    }

    fn execute(&mut self) -> Result<(), Error> {
        let given = self.given.iter().filter_map(|(name, tensor)| Some((name, tensor.clone()?)));
        let outputs =
            interpret::run(&self.graph, &given.collect::<Vec<_>>()).map_err(
                |error| match error {
                    interpret::Error::OutOfMemory { bytes } => Error::OutOfMemory {
                        device: "reference".into(),
                        what: format!("{bytes} bytes"),
                    },
                    error => Error::bug(error),
                },
            )?;
        self.outputs = outputs.into_iter().map(|(_, tensor)| tensor).collect();
        Ok(())
    }

    fn named(&self, ids: &[NodeId]) -> Vec<(String, TensorType)> {
        let named =
            |&id: &NodeId| (given_name(&self.graph, id).to_owned(), self.graph.node(id).ty.clone());
        ids.iter().map(named).collect()
    }
}

impl Executable for Interpreted {
    fn ports(&self) -> Ports {
        let Graph { inputs, weights, outputs, .. } = &self.graph;
        let output =
            |(name, id): &(String, NodeId)| (name.clone(), self.graph.node(*id).ty.clone());
        Ports {
            inputs: self.named(inputs),
            weights: self.named(weights),
            outputs: outputs.iter().map(output).collect(),
        }
    }

    fn set<'a>(&'a mut self, number: usize, value: &'a dyn Value) -> Pending<'a, ()> {
        ready(tensor_on(value, "reference").map(|tensor| self.given[number].1 = Some(tensor)))
    }

    fn get(&self, number: usize) -> Pending<'_, Tensor> {
        let given = self.given.get(number).and_then(|(_, tensor)| tensor.clone());
        ready(given.ok_or_else(|| Error::internal(format!("there is no input or weight {number}"))))
    }

    fn repeat(&mut self, runs: u32) -> Pending<'_, ()> {
        ready((0..runs).try_for_each(|_| self.execute()))
    }

    fn output(&self, number: usize) -> Pending<'_, Tensor> {
        let output = self.outputs.get(number).cloned();
        ready(
            output.ok_or_else(|| {
                Error::internal(format!("there is no output {number} before a run"))
            }),
        )
    }

    fn read(&self) -> Pending<'_, Vec<Tensor>> {
        ready(Ok(self.outputs.clone()))
    }

    fn adopt(&mut self) {
        for ((name, _), tensor) in self.graph.outputs.iter().zip(&self.outputs) {
            let is_weight =
                |id: &NodeId| matches!(&self.graph.node(*id).op, Op::Weight(path) if path == name);
            if let Some(number) = self.graph.weights.iter().position(is_weight) {
                self.given[self.graph.inputs.len() + number].1 = Some(tensor.clone());
            }
        }
    }

    fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        let check =
            |&id: &NodeId| store.check(given_name(&self.graph, id), &self.graph.node(id).ty);
        self.graph.weights.iter().try_for_each(check)?;
        for (name, tensor) in &mut self.given[self.graph.inputs.len()..] {
            if let Some(Stored { memory: Memory::Tensor(value), .. }) = store.take(name) {
                *tensor = Some(value);
            }
        }
        Ok(())
    }

    fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        for (name, tensor) in &mut self.given[self.graph.inputs.len()..] {
            if let Some(tensor) = tensor.take() {
                let (ty, storage) = (tensor.ty().clone(), tensor.dtype());
                store
                    .put(name, Stored { ty, storage, memory: Memory::Tensor(tensor), given: true });
            }
        }
        Ok(())
    }
}
