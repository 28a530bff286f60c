//! [`Trainer`]: a model that is trained, evaluated and asked.

use std::collections::HashMap;

use tile_compiler::dtype::Scalar;
use tile_compiler::lower::{Binding, Bindings, Network, Role, Setting, Settings, settings};
use tile_compiler::tensor::{Tensor, TensorType};

use super::dataset::Dataset;
use super::diagnosis::first_bad;
use super::fit::{Epoch, Fit};
use super::reading::Reading;
use super::steps::{Mode, Steps};
use tile_lang::diagnostic::Diagnostic;

use crate::device::Device;
use crate::error::Error;
use crate::model::Model;
use crate::session::Outputs;

/// What is trained, and where.
pub(super) struct Program {
    pub model: Model,
    pub device: Device,
    pub entry: Option<String>,
    pub bindings: Bindings,
    pub frozen: Vec<String>,
    /// The names of the model's inputs that have no default, and of its outputs.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
}

/// What a [`Trainer`] is made from.
#[derive(Clone)]
pub struct TrainerBuilder {
    model: Model,
    device: Device,
    entry: Option<String>,
    bindings: Bindings,
    frozen: Vec<String>,
}

impl TrainerBuilder {
    pub(crate) fn new(model: Model, device: Device, entry: Option<String>, bindings: Bindings) -> TrainerBuilder {
        TrainerBuilder { model, device, entry, bindings, frozen: Vec::new() }
    }

    /// The model to train. Otherwise it is the last one of the file.
    pub fn entry(mut self, name: impl Into<String>) -> Self {
        self.entry = Some(name.into());
        self
    }

    /// The value of a hyper-parameter of the model.
    pub fn set(mut self, name: impl Into<String>, value: Setting) -> Self {
        self.bindings.parameters.insert(name.into(), value);
        self
    }

    /// A size, by its name in the header.
    pub fn dim(mut self, name: impl Into<String>, size: usize) -> Self {
        self.bindings.sizes.insert(name.into(), size);
        self
    }

    /// Binds an input to a number.
    pub fn constant(mut self, name: impl Into<String>, value: Scalar) -> Self {
        let binding =
            if value.dtype.is_float() { Binding::Float(value.to_f64()) } else { Binding::Int(value.to_i64()) };
        self.bindings.inputs.insert(name.into(), binding);
        self
    }

    /// A layer or a weight, by its path, that training leaves as it is, beside those that the `train` block names: see there.
    pub fn freeze(mut self, path: impl Into<String>) -> Self {
        self.frozen.push(path.into());
        self
    }

    /// # Errors
    /// [`Error::Program`] where there is no such model, or no `train` block for it.
    pub fn build(self) -> Result<Trainer, Error> {
        let TrainerBuilder { model, device, entry, bindings, frozen } = self;
        let faulty = |diagnostics| Error::Program { sources: model.sources().clone(), diagnostics };
        let function = model.program().entry(entry.as_deref()).map_err(|error| faulty(vec![error]))?;
        let is_open = |name: &str| !bindings.inputs.contains_key(name);
        let inputs = function.inputs.iter().filter(|input| input.default.is_none() && is_open(&input.name.name));
        let inputs = inputs.map(|input| input.name.name.clone()).collect();
        let outputs = function.outputs.iter().map(|output| output.name.clone()).collect();
        let settings = settings(model.program(), entry.as_deref()).map_err(faulty)?;
        let program = Program { model, device, entry, bindings, frozen, inputs, outputs };
        let seed = settings.as_ref().map_or(0, |settings| settings.seed);
        Ok(Trainer { program, settings, steps: Steps::default(), seed, step: 0, epoch: 0, seen: 0, rate: 1.0 })
    }
}

impl Model {
    /// Begins to make the program's model ready to be trained on a device, or to be evaluated on many samples.
    pub fn trainer(&self, device: &Device) -> TrainerBuilder {
        TrainerBuilder::new(self.clone(), device.clone(), None, Bindings::default())
    }
}

/// A model with its weights, and what optimizers keep.
pub struct Trainer {
    pub(super) program: Program,
    /// What the `train` block says, if there is one.
    settings: Option<Settings>,
    pub(super) steps: Steps,
    /// Of all that is random.
    pub(super) seed: u64,
    /// The steps of training that were made.
    pub(super) step: u64,
    /// The epochs that were made.
    pub(super) epoch: usize,
    /// The samples of the next epoch that were seen.
    pub(super) seen: usize,
    /// A factor for the learning rate.
    pub(super) rate: f64,
}

impl Trainer {
    /// What the `train` block says; its defaults where there is none.
    pub fn settings(&self) -> Settings {
        let default = Settings { batch_size: 32, epochs: 1, seed: 0, shuffle: true };
        self.settings.clone().unwrap_or(default)
    }

    /// Makes everything random from this seed, the first values of weights included, which must not have been made yet.
    pub fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The model's weights by path, once it has been compiled: after the first batch.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn weights(&mut self) -> Result<Vec<(String, Tensor)>, Error> {
        self.steps.take_values()?;
        let of_model = self.steps.weights.iter().filter(|weight| weight.role == Role::Model);
        Ok(of_model
            .filter_map(|weight| Some((weight.path.clone(), self.steps.values.get(&weight.path)?.clone())))
            .collect())
    }

    /// Begins with these weights.
    pub(super) fn give(&mut self, values: HashMap<String, Tensor>) {
        self.steps.values = values;
    }

    /// Trains on the data.
    ///
    /// # Errors
    /// [`Error::Program`] where the program does not fit the data; [`Error::Data`] where these cannot be read.
    pub fn fit(&mut self, data: &dyn Dataset, fit: Fit) -> Result<Vec<Epoch>, Error> {
        fit.run(self, data)
    }

    /// One step of training on a batch: a tensor for each column of the data.
    pub(super) fn train_on(&mut self, data: &dyn Dataset, batch: &[Tensor]) -> Result<(), Error> {
        let samples = batch.first().and_then(|tensor| tensor.shape().first().copied()).unwrap_or(0);
        let step = self.steps.get(&self.program, Mode::Train, &data.columns(), samples, self.seed)?;
        step.set(batch)?;
        step.session.seed(self.seed, self.step as u32)?;
        let number = |value: f64| Tensor::from_f32([], &[value as f32]);
        for (name, value) in [(Network::STEP, (self.step + 1) as f64), (Network::RATE, self.rate)] {
            if let Some(value) = number(value).filter(|_| step.session.has_input(name)) {
                step.session.set(name, &value)?;
            }
        }
        step.session.execute()?;
        let loss = step.session.output(Network::LOSS)?.get(0).to_f64();
        if !loss.is_finite() {
            return Err(self.went_bad(data, loss));
        }
        step.session.adopt()?;
        self.step += 1;
        self.seen += samples;
        Ok(())
    }

    /// What is wrong with a step whose loss is no number: its weights have not changed.
    fn went_bad(&self, data: &dyn Dataset, loss: f64) -> Error {
        let message = format!("the loss is {loss} in step {} of training", self.step + 1);
        let program = &self.program;
        let sources = program.model.sources();
        let found = self.steps.last().map(|step| {
            let graph = self.steps.graph(program, Mode::Train, &data.columns(), step.batch())?;
            first_bad(graph, &program.device, sources, &|name| step.session.get(name))
        });
        match found {
            Some(Ok(Some(bad))) => {
                let at = bad.span.unwrap_or_default();
                let error = Diagnostic::error("E0250", at, message);
                let error = error.saying(format!("`{}` is the first tensor with {}", bad.name, bad.what));
                Error::Program { sources: sources.clone(), diagnostics: vec![error] }
            }
            Some(Err(error)) => error,
            _ => Error::data(message),
        }
    }

    /// Counts from zero for an epoch, or goes on counting.
    pub(super) fn begin_epoch(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<(), Error> {
        let samples = batch_size.min(data.len());
        self.steps.get(&self.program, Mode::Train, &data.columns(), samples, self.seed)?;
        if self.seen == 0 { self.steps.reset_metrics() } else { Ok(()) }
    }

    /// The loss and the metrics of the epoch so far.
    pub(super) fn results(&mut self) -> Result<Vec<(String, Reading)>, Error> {
        self.steps.last().map_or_else(|| Ok(Vec::new()), |step| step.results())
    }

    /// The loss and the metrics over the data: names and values.
    pub fn evaluate(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<Vec<(String, Reading)>, Error> {
        let columns = data.columns();
        let samples: Vec<usize> = (0..data.len()).collect();
        let mut results = Vec::new();
        for (number, part) in samples.chunks(batch_size.max(1)).enumerate() {
            let batch = data.batch(part)?;
            let step = self.steps.get(&self.program, Mode::Evaluate, &columns, part.len(), self.seed)?;
            step.set(&batch)?;
            if number == 0 {
                self.steps.reset_metrics()?;
            }
            let step = self.steps.get(&self.program, Mode::Evaluate, &columns, part.len(), self.seed)?;
            step.session.execute()?;
            step.session.adopt()?;
            if (number + 1) * batch_size.max(1) >= samples.len() {
                results = step.results()?;
            }
        }
        Ok(results)
    }

    /// What the model gives for the data, batches one after the other along the first axis. Targets are not looked at.
    pub fn predict(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<Outputs, Error> {
        let columns = data.columns();
        let samples: Vec<usize> = (0..data.len()).collect();
        let mut found: Vec<(String, TensorType, Vec<u8>)> = Vec::new();
        for part in samples.chunks(batch_size.max(1)) {
            let batch = data.batch(part)?;
            let step = self.steps.get(&self.program, Mode::Predict, &columns, part.len(), self.seed)?;
            step.set(&batch)?;
            step.session.seed(self.seed, 0)?;
            step.session.execute()?;
            for (number, (name, tensor)) in step.session.read()?.into_iter().enumerate() {
                let ty = tensor.ty().clone();
                if ty.shape.first() != Some(&part.len()) {
                    return Err(Error::data(format!("the output `{name}` is {ty}, and has no axis of samples")));
                }
                match found.get_mut(number) {
                    None => found.push((name, ty, tensor.into_bytes())),
                    Some((_, all, bytes)) => {
                        all.shape[0] += part.len();
                        bytes.extend(tensor.into_bytes());
                    }
                }
            }
        }
        let whole = |(name, ty, bytes)| Some((name, Tensor::from_bytes(ty, bytes)?));
        let outputs: Option<Vec<_>> = found.into_iter().map(whole).collect();
        outputs.map(Outputs::from).ok_or_else(|| Error::data("the results are too large".to_owned()))
    }
}
