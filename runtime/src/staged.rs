//! [`Staged`]: an ONNX model with value-dependent shapes.
//!
//! Each run imports the model, and runs parts of it during the import (`tile_compiler::onnx`). A
//! part that equals that of the previous run is not compiled again. Usually only the parts after
//! the first value that determines a shape are.

use std::sync::Arc;

use tile_compiler::dtype::DType;
use tile_compiler::onnx::{Given, Imported, OnnxError};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::device::Device;
use crate::error::Error;
use crate::executable::{given_name, narrow};
use crate::onnx::OnnxFile;
use crate::session::Session;

pub struct Staged {
    file: Arc<OnnxFile>,
    device: Device,
    /// The type to which operands of contractions are rounded.
    factors: Option<DType>,
    given: Given,
    /// The import for the current values, whose last part has not run yet.
    imported: Option<Imported>,
    /// The compiled parts, in the order in which they run.
    parts: Vec<Part>,
    outputs: Vec<Tensor>,
}

struct Part {
    /// The text of the part's graph.
    graph: String,
    session: Session,
}

impl Staged {
    pub fn new(file: Arc<OnnxFile>, device: Device, factors: Option<DType>, given: Given) -> Staged {
        Staged { file, device, factors, given, imported: None, parts: Vec::new(), outputs: Vec::new() }
    }

    /// Imports the model for the current values. Runs the parts whose values determine shapes.
    pub fn import(&mut self) -> Result<Imported, Error> {
        let Staged { file, device, factors, given, parts, .. } = self;
        let (mut number, mut failure) = (0, None);
        let mut evaluate = |imported: &Imported| {
            number += 1;
            let outputs = run_part(file, device, *factors, given, parts, number - 1, imported);
            outputs.map_err(|error| {
                let text = error.to_string();
                failure = Some(error);
                OnnxError(vec![text])
            })
        };
        let imported = file.import(given, Some(&mut evaluate));
        failure.map_or(imported, Err)
    }

    /// Keeps an import for the first run.
    pub fn with(self, imported: Imported) -> Staged {
        Staged { imported: Some(imported), ..self }
    }

    /// Returns the names and types of the inputs, and of the outputs for the current values.
    pub fn types(&self) -> [Vec<(String, TensorType)>; 2] {
        let Some(imported) = &self.imported else { return Default::default() };
        let graph = &imported.network.graph;
        let outputs = graph.outputs.iter().map(|(name, id)| (name.clone(), graph.node(*id).ty.clone()));
        [imported.inputs().map(|(name, ty)| (name.to_owned(), ty.clone())).collect(), outputs.collect()]
    }

    /// Sets the value of an input.
    pub fn set(&mut self, name: &str, tensor: &Tensor) {
        if self.given.values.get(name) != Some(tensor) {
            self.imported = None;
            self.given.values.insert(name.to_owned(), tensor.clone());
        }
    }

    pub fn get(&self, name: &str) -> Option<Tensor> {
        self.given.values.get(name).cloned()
    }

    /// Runs the model. All inputs must have been set.
    pub fn execute(&mut self) -> Result<(), Error> {
        let imported = match self.imported.take() {
            Some(imported) => imported,
            None => self.import()?,
        };
        let Staged { file, device, factors, given, parts, .. } = self;
        // The parts run during the import come first.
        let last = imported.parts;
        self.outputs = run_part(file, device, *factors, given, parts, last, &imported)?;
        Ok(())
    }

    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }
}

/// Runs the part with this number. Compiles it if it differs from the previous run's.
fn run_part(
    file: &OnnxFile,
    device: &Device,
    factors: Option<DType>,
    given: &Given,
    parts: &mut Vec<Part>,
    number: usize,
    imported: &Imported,
) -> Result<Vec<Tensor>, Error> {
    let graph = &imported.network.graph;
    let text = graph.to_string();
    if parts.get(number).is_none_or(|part| part.graph != text) {
        let mut session = Session::of_graph(narrow(graph.clone(), factors), device)?;
        session.seed(0, 0)?;
        file.load(imported, &mut session)?;
        parts.truncate(number);
        parts.push(Part { graph: text, session });
    }
    let part = parts.get_mut(number).ok_or_else(|| Error::internal(format!("part {number} comes too early")))?;
    let names = graph.inputs.iter().map(|&id| given_name(graph, id));
    let values = names.filter_map(|name| Some((name, imported.computed.get(name).or_else(|| given.values.get(name))?)));
    let outputs = part.session.run(values)?;
    Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
}
