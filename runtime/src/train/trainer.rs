//! [`Trainer`]: a model that is trained, evaluated and asked.

use std::collections::{HashMap, VecDeque};

use tile_compiler::dtype::Scalar;
use tile_compiler::lower::{Binding, Bindings, Network, Role, Setting, Settings, settings};
use tile_compiler::pipeline::Options;
use tile_compiler::tensor::{Tensor, TensorType};

use super::dataset::{Column, Dataset};
use super::diagnosis::{Bad, first_bad};
use super::fit::{Epoch, Fit};
use super::reading::Reading;
use super::steps::{Mode, Step, Steps};
use tile_lang::diagnostic::Diagnostic;

use crate::device::Device;
use crate::error::Error;
use crate::executable::Watched;
use crate::model::{self, Model};
use crate::session::{Outputs, Session};
use crate::tune::{Tune, Tuning};

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
        let (steps, running, types) = Default::default();
        Ok(Trainer {
            program,
            settings,
            steps,
            running,
            types,
            seed,
            step: 0,
            epoch: 0,
            seen: 0,
            begun: (0, 0),
            history: Vec::new(),
            rate: 1.0,
        })
    }
}

impl Model {
    /// Begins to make the program's model ready to be trained on a device, or to be evaluated on many samples.
    pub fn trainer(&self, device: &Device) -> TrainerBuilder {
        TrainerBuilder::new(self.clone(), device.clone(), None, Bindings::default())
    }
}

/// The most steps that are begun before the loss of the first of them is looked at: enough to keep a device busy.
const AHEAD: usize = 3;

/// What a step of training was given.
pub(super) struct Begun {
    batch: Vec<Tensor>,
    columns: Vec<Column>,
    samples: usize,
    /// From 0.
    number: u64,
    rate: f64,
}

/// A model with its weights, and what optimizers keep.
pub struct Trainer {
    pub(super) program: Program,
    /// What the `train` block says, if there is one.
    settings: Option<Settings>,
    pub(super) steps: Steps,
    /// The steps of training that were begun, and are not known to be done.
    pub(super) running: VecDeque<(Begun, Watched)>,
    /// The columns that are made of those of data: see [`super::types`].
    pub(super) types: HashMap<Vec<Column>, Vec<Column>>,
    /// Of all that is random.
    pub(super) seed: u64,
    /// The steps of training that were begun.
    pub(super) step: u64,
    /// The epochs that were made.
    pub(super) epoch: usize,
    /// The samples of the next epoch that were seen.
    pub(super) seen: usize,
    /// The samples of the epoch that was begun last, and those of its batches.
    pub(super) begun: (usize, usize),
    /// The epochs that were made, and the training of one that was stopped in its validation.
    pub(super) history: Vec<Epoch>,
    /// A factor for the learning rate.
    pub(super) rate: f64,
}

impl Trainer {
    /// What the `train` block says; its defaults where there is none.
    pub fn settings(&self) -> Settings {
        self.settings.clone().unwrap_or_default()
    }

    /// The epochs that were made, those of a run that is resumed included.
    pub fn history(&self) -> &[Epoch] {
        self.history.get(..self.epoch).unwrap_or(&self.history)
    }

    /// Makes everything random from this seed, the first values of weights included, which must not have been made yet.
    pub fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// The model's weights by path, once it has been compiled: after the first batch. Waits for the device.
    ///
    /// # Errors
    /// Where the device fails, or a step has: as [`Trainer::fit`].
    pub fn weights(&mut self) -> Result<Vec<(String, Tensor)>, Error> {
        self.wait()?;
        let mut values = Vec::new();
        for weight in self.steps.weights.iter().filter(|weight| weight.role == Role::Model) {
            values.extend(self.steps.value(&weight.path)?.map(|value| (weight.path.clone(), value)));
        }
        Ok(values)
    }

    /// Begins with these weights.
    pub(super) fn give(&mut self, values: HashMap<String, Tensor>) {
        self.steps.give(values);
    }

    /// Trains on the data.
    ///
    /// # Errors
    /// [`Error::Program`] where the program does not fit the data; [`Error::Data`] where these cannot be read.
    pub fn fit(&mut self, data: &dyn Dataset, fit: Fit) -> Result<Vec<Epoch>, Error> {
        fit.run(self, data)
    }

    /// Measures schedules for the kernels of a step of training on batches of so many samples, and keeps the best for the device:
    /// see [`crate::tune`].
    ///
    /// # Errors
    /// [`Error::Program`] where the program does not fit the data; those of the device. What was found until then is kept.
    pub fn tune(&mut self, data: &dyn Dataset, batch_size: usize, tune: Tune) -> Result<Tuning, Error> {
        let columns = self.typed(data, batch_size).columns();
        let samples = batch_size.min(data.len());
        let Program { device, model, .. } = &self.program;
        let graph = self.steps.graph(&self.program, Mode::Train, &columns, samples)?;
        let options = Options { updates: true, ..Options::default() };
        model::tuned(graph, device, model.sources(), &options, tune)
    }

    /// The step of training on the data's first samples, so many or all, with values for all its inputs and weights: to be looked at, or timed. Its runs
    /// are not training, for they hand on only those weights that they write over.
    ///
    /// # Errors
    /// As [`Trainer::fit`].
    pub fn into_session(mut self, data: &dyn Dataset, batch_size: usize) -> Result<Session, Error> {
        self.wait()?;
        let data = self.typed(data, batch_size);
        let samples: Vec<usize> = (0..batch_size.min(data.len())).collect();
        let batch = data.batch(&samples)?;
        let (columns, samples) = (data.columns(), samples.len());
        self.prepared(&Begun { batch, columns, samples, number: self.step, rate: self.rate })?;
        self.steps.into_session().ok_or_else(|| Error::Internal { what: "there is no step".into() })
    }

    /// Begins a step of training on a batch, a tensor for each column of the data: the device may still be at the steps before it.
    ///
    /// # Errors
    /// Also those of these steps.
    pub(super) fn train_on(&mut self, data: &dyn Dataset, batch: Vec<Tensor>) -> Result<(), Error> {
        let samples = batch.first().and_then(|tensor| tensor.shape().first().copied()).unwrap_or(0);
        let begun = Begun { batch, columns: data.columns(), samples, number: self.step, rate: self.rate };
        let watched = self.prepared(&begun)?.session.step(&[Network::LOSS])?;
        self.running.push_back((begun, watched));
        self.step += 1;
        self.seen += samples;
        while self.running.len() > AHEAD || self.running.front().is_some_and(|(_, watched)| watched.is_here()) {
            self.look()?;
        }
        Ok(())
    }

    /// The compiled step, with all that it is given.
    fn prepared(&mut self, begun: &Begun) -> Result<&mut Step, Error> {
        let step = self.steps.get(&self.program, Mode::Train, &begun.columns, begun.samples, self.seed)?;
        step.set(&begun.batch)?;
        step.session.seed(self.seed, begun.number as u32)?;
        for (name, value) in [(Network::STEP, (begun.number + 1) as f64), (Network::RATE, begun.rate)] {
            if let Some(value) = Tensor::from_f32([], &[value as f32]).filter(|_| step.session.has_input(name)) {
                step.session.set(name, &value)?;
            }
        }
        Ok(step)
    }

    /// Waits for all steps that were begun.
    ///
    /// # Errors
    /// Where the loss of one is no finite number: then that one and those after it have changed nothing, and were not made.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        while !self.running.is_empty() {
            self.look()?;
        }
        Ok(())
    }

    /// Waits for the step that was begun first.
    fn look(&mut self) -> Result<(), Error> {
        let Some((begun, watched)) = self.running.pop_front() else { return Ok(()) };
        let outputs = pollster::block_on(watched.take())?;
        let loss = outputs.first().map_or(f64::NAN, |loss| loss.get(0).to_f64());
        if loss.abs() <= Network::LARGEST_LOSS {
            return Ok(());
        }
        let after = std::mem::take(&mut self.running);
        self.seen -= begun.samples + after.iter().map(|(begun, _)| begun.samples).sum::<usize>();
        self.step = begun.number;
        Err(self.went_bad(&begun, loss))
    }

    /// Sees that no trained weight has become NaN or infinite: where a gradient does and the loss does not, the step changes the
    /// weights all the same. Waits for the device, and reads the weights.
    ///
    /// # Errors
    /// Where one has.
    pub(super) fn check_weights(&mut self) -> Result<(), Error> {
        self.wait()?;
        let Some(step) = self.steps.last() else { return Ok(()) };
        for weight in step.trained() {
            if !step.session.get(&weight.path)?.is_finite() {
                let path = &weight.path;
                return Err(Error::data(format!(
                    "the weight `{path}` is no longer finite after step {} of training, though each loss was: a gradient was \
                     not; a lower learning rate or `gradients = clip_by_global_norm(1.0);` may help",
                    self.step
                )));
            }
        }
        Ok(())
    }

    /// What is wrong with a step whose loss is no number. No weight has changed since before it: see [`Network::FAILED`].
    fn went_bad(&mut self, begun: &Begun, loss: f64) -> Error {
        let message = format!("the loss is {loss} in step {} of training", begun.number + 1);
        match self.first_bad(begun) {
            Ok(Some(bad)) => {
                let mut error = Diagnostic::error("E0250", bad.span.unwrap_or_default(), message);
                error = match self.steps.weights.iter().any(|weight| weight.path == bad.name) {
                    true => error
                        .saying(format!("`{}` had {} before this step", bad.name, bad.what))
                        .help("the gradient of an earlier step, whose loss was finite, was not"),
                    false => error.saying(format!("`{}` is the first tensor with {}", bad.name, bad.what)),
                };
                Error::Program { sources: self.program.model.sources().clone(), diagnostics: vec![error] }
            }
            Err(error) => error,
            // Computed in another order, every tensor is finite.
            Ok(None) => {
                Error::data(format!("{message}; no tensor of the step is NaN or infinite where it is taken up again"))
            }
        }
    }

    /// Takes up a step that has failed, to find its first bad tensor; training may then go on without it.
    fn first_bad(&mut self, begun: &Begun) -> Result<Option<Bad>, Error> {
        let going = Tensor::from_f32([], &[0.0]);
        let step = self.prepared(begun)?;
        going.map_or(Ok(()), |going| step.session.set(Network::FAILED, &going))?;
        let Trainer { program, steps, .. } = self;
        let graph = steps.graph(program, Mode::Train, &begun.columns, begun.samples)?;
        match steps.last() {
            Some(step) => first_bad(graph, &program.device, program.model.sources(), &|name| step.session.get(name)),
            None => Ok(None),
        }
    }

    /// Counts from zero for an epoch, or goes on counting.
    pub(super) fn begin_epoch(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<(), Error> {
        let samples = batch_size.min(data.len());
        self.steps.get(&self.program, Mode::Train, &data.columns(), samples, self.seed)?;
        if self.seen == 0 { self.steps.reset_metrics() } else { Ok(()) }
    }

    /// The loss and the metrics of the epoch so far. Waits for the device.
    pub(super) fn results(&mut self) -> Result<Vec<(String, Reading)>, Error> {
        self.wait()?;
        self.steps.last().map_or_else(|| Ok(Vec::new()), |step| step.results())
    }

    /// The loss and the metrics over the data: names and values.
    pub fn evaluate(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<Vec<(String, Reading)>, Error> {
        Ok(self.evaluate_until(data, batch_size, &|| false)?.unwrap_or_default())
    }

    /// The same, or nothing where it was stopped: that is asked after each batch.
    pub(super) fn evaluate_until(
        &mut self,
        data: &dyn Dataset,
        batch_size: usize,
        stops: &dyn Fn() -> bool,
    ) -> Result<Option<Vec<(String, Reading)>>, Error> {
        self.wait()?;
        let data = &self.typed(data, batch_size);
        let columns = data.columns();
        let samples: Vec<usize> = (0..data.len()).collect();
        let mut running = VecDeque::new();
        for (number, part) in samples.chunks(batch_size.max(1)).enumerate() {
            let batch = data.batch(part)?;
            if number == 0 {
                // What metrics have counted comes to the step with its turn.
                self.steps.get(&self.program, Mode::Evaluate, &columns, part.len(), self.seed)?;
                self.steps.reset_metrics()?;
            }
            let step = self.steps.get(&self.program, Mode::Evaluate, &columns, part.len(), self.seed)?;
            step.set(&batch)?;
            step.session.seed(self.seed, number as u32)?;
            running.push_back(step.session.step(&[])?);
            if running.len() > AHEAD {
                running.pop_front().map_or(Ok(Vec::new()), |step| pollster::block_on(step.take()))?;
            }
            if stops() {
                return Ok(None);
            }
        }
        let step = self.steps.last().filter(|_| !samples.is_empty());
        step.map_or_else(|| Ok(Vec::new()), |step| step.results()).map(Some)
    }

    /// What the model gives for the data, batches one after the other along the first axis. Targets are not looked at.
    pub fn predict(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<Outputs, Error> {
        self.wait()?;
        let data = &self.typed(data, batch_size);
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
