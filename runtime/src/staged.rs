//! [`Staged`]: an ONNX model with value-dependent shapes.
//!
//! Each run imports the model from the first node on that depends on values, and runs parts of it
//! during the import (`tile_compiler::onnx`). A part that equals that of the previous run is not
//! compiled again. Usually only the parts after the first value that determines a shape are.

use std::sync::Arc;

use tile_compiler::graph::Graph;
use tile_compiler::onnx::{Given, Imported, OnnxError, Repeated, Sources};
use tile_compiler::tensor::Tensor;

use crate::backend::{Executable, Pending, Ports, given_name, ready};
use crate::builder::Precision;
use crate::device::Device;
use crate::error::Error;
use crate::onnx::OnnxFile;
use crate::session::Session;
use crate::value::{Value, tensor_on};

/// A model that is compiled while it runs.
pub struct Staged {
    file: Arc<OnnxFile>,
    device: Device,
    precision: Precision,
    given: Given,
    repeated: Repeated,
    /// The import for the current values, whose last part has not run yet.
    imported: Option<Imported>,
    /// The compiled parts, in the order in which they run.
    parts: Vec<Part>,
    /// The names of the inputs, by number.
    inputs: Vec<String>,
    outputs: Vec<Tensor>,
}

struct Part {
    graph: Graph,
    /// The tensors that are its weights.
    sources: Sources,
    session: Session,
}

impl Staged {
    pub fn new(file: Arc<OnnxFile>, device: Device, precision: Precision, given: Given) -> Staged {
        let (repeated, imported, parts, inputs, outputs) = Default::default();
        Staged { file, device, precision, given, repeated, imported, parts, inputs, outputs }
    }

    /// Imports the model for the current values. Runs the parts whose values determine shapes.
    pub fn import(&mut self) -> Result<Imported, Error> {
        let Staged { file, device, precision, given, repeated, parts, .. } = self;
        let (mut number, mut failure) = (0, None);
        let mut evaluate = |imported: &Imported| {
            number += 1;
            let outputs = run_part(file, device, *precision, given, parts, number - 1, imported);
            outputs.map_err(|error| {
                let text = error.to_string();
                failure = Some(error);
                OnnxError(vec![text])
            })
        };
        let imported = file.import_again(repeated, given, &mut evaluate);
        failure.map_or(imported, Err)
    }

    /// Keeps an import for the first run.
    pub fn with(self, imported: Imported) -> Staged {
        Staged { imported: Some(imported), ..self }
    }

    /// Returns a session of the model, which must be imported.
    pub fn session(self) -> Session {
        let inputs = self.ports().inputs.into_iter().map(|(name, _)| name).collect();
        Session::new(Box::new(Staged { inputs, ..self }))
    }

    /// Runs the model. All inputs must have been set.
    fn execute(&mut self) -> Result<(), Error> {
        let imported = match self.imported.take() {
            Some(imported) => imported,
            None => self.import()?,
        };
        let Staged { file, device, precision, given, parts, .. } = self;
        // The parts run during the import come first.
        let last = imported.parts;
        self.outputs = run_part(file, device, *precision, given, parts, last, &imported)?;
        Ok(())
    }
}

impl Executable for Staged {
    /// Returns the inputs, and the outputs for the current values.
    fn ports(&self) -> Ports {
        let Some(imported) = &self.imported else { return Ports::default() };
        let graph = &imported.network.graph;
        let outputs = graph
            .outputs
            .iter()
            .map(|(name, id)| (name.clone(), graph.node(*id).ty.clone()))
            .collect();
        let inputs = imported.inputs().map(|(name, ty)| (name.to_owned(), ty.clone())).collect();
        Ports { inputs, weights: Vec::new(), outputs }
    }

    fn set<'a>(&'a mut self, number: usize, value: &'a dyn Value) -> Pending<'a, ()> {
        let name = &self.inputs[number];
        let set = tensor_on(value, self.device.name()).map(|tensor| {
            if self.given.values.get(name) != Some(&tensor) {
                self.imported = None;
                self.given.values.insert(name.clone(), tensor);
            }
        });
        ready(set)
    }

    fn get(&self, number: usize) -> Pending<'_, Tensor> {
        let value = self.inputs.get(number).and_then(|name| self.given.values.get(name)).cloned();
        ready(value.ok_or_else(|| Error::internal(format!("there is no input or weight {number}"))))
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
}

/// Runs the part with this number. Compiles it if it differs from the previous run's.
fn run_part(
    file: &OnnxFile,
    device: &Device,
    precision: Precision,
    given: &Given,
    parts: &mut Vec<Part>,
    number: usize,
    imported: &Imported,
) -> Result<Vec<Tensor>, Error> {
    let graph = &imported.network.graph;
    let is_same = |part: &Part| part.graph == *graph && imported.has_sources(&part.sources);
    if !parts.get(number).is_some_and(is_same) {
        let mut session = Session::with_precision(graph.clone(), device, precision)?;
        session.seed(0, 0)?;
        file.load(imported, &mut session)?;
        parts.truncate(number);
        parts.push(Part { graph: graph.clone(), sources: imported.sources(), session });
    }
    let part = parts
        .get_mut(number)
        .ok_or_else(|| Error::internal(format!("part {number} comes too early")))?;
    let names = graph.inputs.iter().map(|&id| given_name(graph, id));
    let values = names.filter_map(|name| {
        Some((name, imported.computed.get(name).or_else(|| given.values.get(name))?))
    });
    let outputs = part.session.run(values)?;
    Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
}
