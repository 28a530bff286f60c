//! [`TrainerBuilder`]: the model, device and settings that a [`Trainer`] is made from.

use tile_compiler::dtype::Scalar;
use tile_compiler::lower::{Bindings, Setting, settings};
use tile_lang::Limits;

use super::steps::Steps;
use super::trainer::Trainer;
use crate::device::Device;
use crate::error::Error;
use crate::model::Model;

/// The model to train, and its device.
pub(super) struct Program {
    pub model: Model,
    pub device: Device,
    pub entry: Option<String>,
    pub bindings: Bindings,
    pub frozen: Vec<String>,
    /// The names of the model's inputs without a default or binding, and of its outputs.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
}

/// A builder of a [`Trainer`].
#[derive(Clone)]
pub struct TrainerBuilder {
    model: Model,
    device: Device,
    entry: Option<String>,
    bindings: Bindings,
    frozen: Vec<String>,
    /// The memory limit of each step in bytes, if there is one.
    bytes: Option<u64>,
}

impl TrainerBuilder {
    pub(super) fn new(
        model: Model,
        device: Device,
        entry: Option<String>,
        bindings: Bindings,
    ) -> TrainerBuilder {
        TrainerBuilder { model, device, entry, bindings, frozen: Vec::new(), bytes: None }
    }

    /// Selects the model to train. The default is the last one with a `train` block.
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.entry = Some(name.into());
        self
    }

    /// Sets a hyper-parameter of the model.
    pub fn set(mut self, name: impl Into<String>, value: Setting) -> Self {
        self.bindings.parameters.insert(name.into(), value);
        self
    }

    /// Sets a named size of the header.
    pub fn dim(mut self, name: impl Into<String>, size: usize) -> Self {
        self.bindings.sizes.insert(name.into(), size);
        self
    }

    /// Binds an input to a number.
    pub fn constant(mut self, name: impl Into<String>, value: Scalar) -> Self {
        self.bindings.inputs.insert(name.into(), value.into());
        self
    }

    /// Freezes a layer or a weight by its path, besides those that the `train` block freezes.
    pub fn freeze(mut self, path: impl Into<String>) -> Self {
        self.frozen.push(path.into());
        self
    }

    /// Limits the work and memory of compiling each step, instead of the model's limits. A step is
    /// also limited to `limits.bytes` of memory. Without this call, steps may use all available
    /// memory.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.bindings.limits = limits;
        self.bytes = Some(limits.bytes);
        self
    }

    /// # Errors
    /// [`Error::Program`] if there is no such model, or if the settings of its `train` block are
    /// wrong.
    pub fn build(self) -> Result<Trainer, Error> {
        let TrainerBuilder { model, device, entry, bindings, frozen, bytes } = self;
        let faulty = |diagnostics| Error::Program { sources: model.sources().clone(), diagnostics };
        let function =
            model.program().trained(entry.as_deref()).map_err(|error| faulty(vec![error]))?;
        let entry = entry.or_else(|| Some(function.name.as_ref()?.name.clone()));
        let is_open = |name: &str| !bindings.inputs.contains_key(name);
        let inputs = function
            .inputs
            .iter()
            .filter(|input| input.default.is_none() && is_open(&input.name.name));
        let inputs = inputs.map(|input| input.name.name.clone()).collect();
        let outputs = function.outputs.iter().map(|output| output.name.clone()).collect();
        let settings = settings(model.program(), entry.as_deref()).map_err(faulty)?;
        let program = Program { model, device, entry, bindings, frozen, inputs, outputs };
        Ok(Trainer::new(program, settings, Steps::within(bytes)))
    }
}

impl Model {
    /// Returns a builder of a trainer for the program's model on a device.
    pub fn trainer(&self, device: &Device) -> TrainerBuilder {
        let bindings = Bindings { limits: self.limits, ..Bindings::default() };
        TrainerBuilder::new(self.clone(), device.clone(), None, bindings)
    }
}
