//! [`Trainer`]: trains, evaluates and runs a model.

use std::collections::{HashMap, VecDeque};

use tile_compiler::lower::{Network, Role, Settings, Weight, WeightKind};
use tile_compiler::pipeline::Options;
use tile_compiler::plan::Plan;
use tile_compiler::tensor::Tensor;

use super::builder::Program;
use super::dataset::{Column, ColumnRole, Dataset, numbers};
use super::description::DataDescription;
use super::diagnosis::{Bad, Losses, first_bad};
use super::fit::{Epoch, Fit};
use super::reading::Reading;
use super::steps::{Mode, Step, Steps};
use tile_lang::diagnostic::Diagnostic;

use crate::backend::Watched;
use crate::error::Error;
use crate::session::Session;
use crate::tune::{Tune, Tuning, tune_graph};

/// The maximum number of steps submitted before the loss of the first is checked: enough to keep a
/// device busy.
pub(super) const AHEAD: usize = 3;

/// The number of input elements that layers adapt to at once if batches are smaller. Keras adapts
/// to a whole array: quantiles merged batch by batch are less exact. Sorting needs quadratically
/// many operations.
const ADAPTED_TOGETHER: usize = 1 << 14;

/// The arguments of a submitted training step.
pub(super) struct Begun {
    batch: Vec<Tensor>,
    columns: Vec<Column>,
    samples: usize,
    /// The number of the step, from 0.
    number: u64,
    rate: f64,
}

/// A model with its weights and optimizer state.
pub struct Trainer {
    pub(super) program: Program,
    /// The settings of the `train` block, if there is one.
    settings: Option<Settings>,
    pub(super) steps: Steps,
    /// The training steps submitted, and not known to be done.
    pub(super) running: VecDeque<(Begun, Watched)>,
    /// The column types for the program, by those of the data: see [`super::types`].
    pub(super) types: HashMap<Vec<Column>, Vec<Column>>,
    /// The seed of all random numbers.
    pub(super) seed: u64,
    /// The number of training steps submitted.
    pub(super) step: u64,
    /// The number of epochs made.
    pub(super) epoch: usize,
    /// The samples of the next epoch already seen.
    pub(super) seen: usize,
    /// The samples of the last epoch begun, and of its batches.
    pub(super) begun: (usize, usize),
    /// The epochs made, and the training results of an epoch stopped in its validation.
    pub(super) history: Vec<Epoch>,
    /// A factor for the learning rate.
    pub(super) rate: f64,
    /// Whether layers have adapted to the data, or their states were given.
    pub(super) adapted: bool,
    /// The names of the classes by number, if they have names.
    pub(super) classes: Vec<String>,
    /// The form of the data.
    pub(super) data: DataDescription,
    /// The losses of the last steps, for the message of a step that fails.
    losses: Losses,
}

impl Trainer {
    /// Creates a trainer that has made no step.
    pub(super) fn new(program: Program, settings: Option<Settings>, steps: Steps) -> Trainer {
        let seed = settings.as_ref().map_or(0, |settings| settings.seed);
        let (running, types) = Default::default();
        Trainer {
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
            adapted: false,
            classes: Vec::new(),
            data: DataDescription::default(),
            losses: Losses::default(),
        }
    }

    /// Returns the settings of the `train` block, or the defaults without one.
    pub fn settings(&self) -> Settings {
        self.settings.clone().unwrap_or_default()
    }

    /// Returns the epochs made, including those of a resumed run.
    pub fn history(&self) -> &[Epoch] {
        self.history.get(..self.epoch).unwrap_or(&self.history)
    }

    /// Returns what the model takes from files of samples.
    #[cfg(feature = "data")]
    pub fn wanted(&self) -> crate::data::folder::Wanted {
        let Program { model, entry, bindings, inputs, outputs, .. } = &self.program;
        let declared =
            |name: &String| (name.clone(), model.declared(entry.as_deref(), name, bindings));
        crate::data::folder::Wanted {
            inputs: inputs.iter().map(declared).collect(),
            outputs: outputs.clone(),
            classes: self.classes.clone(),
            ..Default::default()
        }
    }

    /// Sets the seed of all random numbers, including the initial weights. Call it before the
    /// weights are initialised.
    pub fn seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Returns the names of the classes by number: those of the loaded file, or those that were
    /// set. Empty if the classes have no names.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Names the classes, so that [`Trainer::save`] writes the names.
    pub fn name_classes(&mut self, names: Vec<String>) {
        self.classes = names;
    }

    /// Returns the weights of the model and the loss by path. It has none before the model is
    /// compiled, with the first batch. Waits for the device.
    ///
    /// # Errors
    /// The errors of the device, and of steps that [`Trainer::fit`] submitted.
    pub fn weights(&mut self) -> Result<Vec<(String, Tensor)>, Error> {
        self.wait()?;
        let mut values = Vec::new();
        for weight in self
            .steps
            .weights
            .iter()
            .filter(|weight| matches!(weight.role, Role::Model | Role::Loss))
        {
            values
                .extend(self.steps.value(&weight.path)?.map(|value| (weight.path.clone(), value)));
        }
        Ok(values)
    }

    /// Sets the weights. If they are `first` values, layers still adapt to the data.
    pub(super) fn give(&mut self, values: HashMap<String, Tensor>, first: bool) {
        self.steps.give(values);
        self.adapted = !first;
    }

    /// Adapts each layer with an `adapt` block to the data, once, unless weights were given. Layers
    /// adapt one after the other, because a layer may depend on the output of one before.
    pub(super) fn adapt(&mut self, data: &dyn Dataset, batch_size: usize) -> Result<(), Error> {
        if std::mem::replace(&mut self.adapted, true) || self.step > 0 {
            return Ok(());
        }
        let columns = data.columns();
        let samples = numbers(data.len())?;
        let elements = columns
            .iter()
            .filter(|column| column.role == ColumnRole::Input)
            .map(|column| column.ty.elements());
        let together = batch_size.max(ADAPTED_TOGETHER / elements.sum::<usize>().max(1));
        self.steps.get(
            &self.program,
            Mode::Train,
            &columns,
            batch_size.min(data.len()),
            self.seed,
        )?;
        for path in self.steps.adapts.clone() {
            for part in samples.chunks(together) {
                let batch = data.batch(part)?;
                let step = self.steps.get(
                    &self.program,
                    Mode::Adapt(path.clone()),
                    &columns,
                    part.len(),
                    self.seed,
                )?;
                step.set(&batch)?;
                step.session.seed(self.seed, 0)?;
                pollster::block_on(step.session.step(&[])?.take())?;
            }
        }
        Ok(())
    }

    /// Trains on the data.
    ///
    /// # Errors
    /// [`Error::Program`] if the program does not fit the data, [`Error::Data`] if the data cannot
    /// be read, or if a label or token id is out of the model's range. Ids of data in memory are
    /// checked before the first step.
    pub fn fit(&mut self, data: &dyn Dataset, fit: Fit) -> Result<Vec<Epoch>, Error> {
        fit.run(self, data)
    }

    /// Measures schedules for the kernels of a training step on batches of this size, and keeps the
    /// best for the device: see [`crate::tune`].
    ///
    /// # Errors
    /// [`Error::Program`] if the program does not fit the data, and those of the device. Results
    /// found before an error are kept.
    pub fn tune(
        &mut self,
        data: &dyn Dataset,
        batch_size: usize,
        tune: Tune,
    ) -> Result<Tuning, Error> {
        let columns = self.typed(data, batch_size).columns();
        let samples = batch_size.min(data.len());
        let Program { device, model, .. } = &self.program;
        let graph = self.steps.graph(&self.program, Mode::Train, &columns, samples)?;
        let options = Options { updates: true, ..Options::default() };
        tune_graph(graph, device, model.sources(), &options, tune)
    }

    /// Returns the plan of the step that was compiled last, if the device has plans.
    pub fn plan(&self) -> Option<&Plan> {
        self.steps.last()?.session.plan()
    }

    /// Returns the factor by which callbacks have multiplied the program's learning rate.
    pub fn rate_factor(&self) -> f64 {
        self.rate
    }

    /// Returns the number of elements of the model's weights that training changes. It is 0 before
    /// the first step.
    pub fn parameters(&self) -> usize {
        let is_trained =
            |weight: &&Weight| weight.role == Role::Model && weight.kind == WeightKind::Param;
        self.steps.weights.iter().filter(is_trained).map(|weight| weight.ty.elements()).sum()
    }

    /// Returns a session of one training step on the data's first `batch_size` samples, with all
    /// its inputs and weights set, to inspect or time. Its runs do not train: they pass on only the
    /// weights that they overwrite.
    ///
    /// # Errors
    /// The errors of [`Trainer::fit`].
    pub fn into_session(mut self, data: &dyn Dataset, batch_size: usize) -> Result<Session, Error> {
        self.wait()?;
        let data = self.typed(data, batch_size);
        let samples = numbers(batch_size.min(data.len()))?;
        let batch = data.batch(&samples)?;
        let (columns, samples) = (data.columns(), samples.len());
        self.prepared(&Begun { batch, columns, samples, number: self.step, rate: self.rate })?;
        self.steps.into_session().ok_or_else(|| Error::internal("there is no step"))
    }

    /// Submits a training step on a batch, with a tensor for each column of the data. Earlier steps
    /// may still run.
    ///
    /// # Errors
    /// Includes those of earlier steps.
    pub(super) fn train_on(&mut self, data: &dyn Dataset, batch: Vec<Tensor>) -> Result<(), Error> {
        let samples = batch.first().and_then(|tensor| tensor.shape().first().copied()).unwrap_or(0);
        let begun =
            Begun { batch, columns: data.columns(), samples, number: self.step, rate: self.rate };
        let watched = self.prepared(&begun)?.session.step(&[Network::LOSS])?;
        self.running.push_back((begun, watched));
        self.step += 1;
        self.seen += samples;
        while self.running.len() > AHEAD
            || self.running.front().is_some_and(|(_, watched)| watched.is_here())
        {
            self.look()?;
        }
        Ok(())
    }

    /// Returns the compiled step with all its inputs set.
    fn prepared(&mut self, begun: &Begun) -> Result<&mut Step, Error> {
        let step =
            self.steps.get(&self.program, Mode::Train, &begun.columns, begun.samples, self.seed)?;
        step.set(&begun.batch)?;
        step.session.seed(self.seed, begun.number as u32)?;
        for (name, value) in
            [(Network::STEP, (begun.number + 1) as f64), (Network::RATE, begun.rate)]
        {
            if let Some(value) =
                Tensor::from_f32([], &[value as f32]).filter(|_| step.session.has_input(name))
            {
                step.session.set(name, &value)?;
            }
        }
        Ok(step)
    }

    /// Waits for all submitted steps.
    ///
    /// # Errors
    /// If a loss is not finite. That step and those after it have changed nothing, and do not
    /// count.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        while !self.running.is_empty() {
            self.look()?;
        }
        Ok(())
    }

    /// Waits for the oldest submitted step, and checks its loss.
    fn look(&mut self) -> Result<(), Error> {
        let Some((begun, watched)) = self.running.pop_front() else { return Ok(()) };
        let outputs = pollster::block_on(watched.take())?;
        let loss = outputs.first().map_or(f64::NAN, |loss| loss.get(0).to_f64());
        if loss.abs() <= Network::LARGEST_LOSS {
            self.losses.push(loss);
            return Ok(());
        }
        let after = std::mem::take(&mut self.running);
        self.seen -= begun.samples + after.iter().map(|(begun, _)| begun.samples).sum::<usize>();
        self.step = begun.number;
        Err(self.went_bad(&begun, loss))
    }

    /// Checks that all trained weights are finite. If a gradient is not finite but the loss is, the
    /// step still changes the weights. Waits for the device, and reads the weights.
    ///
    /// # Errors
    /// If a weight is NaN or infinite.
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

    /// Returns the error for a step whose loss is not finite. No weight has changed since before
    /// it: see [`Network::FAILED`].
    fn went_bad(&mut self, begun: &Begun, loss: f64) -> Error {
        let message = format!("the loss is {loss} in step {} of training", begun.number + 1);
        let cause = self.losses.cause();
        match self.first_bad(begun) {
            Ok(Some(bad)) => {
                let mut error = Diagnostic::error("E0250", bad.span.unwrap_or_default(), message);
                error = match self.steps.weights.iter().any(|weight| weight.path == bad.name) {
                    true => error
                        .saying(format!("`{}` had {} before this step", bad.name, bad.what))
                        .help("the gradient of an earlier step, whose loss was finite, was not"),
                    false => error
                        .saying(format!("`{}` is the first tensor with {}", bad.name, bad.what)),
                };
                error = match cause {
                    Some(cause) => error.help(cause),
                    None => error,
                };
                Error::Program {
                    sources: self.program.model.sources().clone(),
                    diagnostics: vec![error],
                }
            }
            Err(error) => error,
            // In another order of computation every tensor is finite.
            Ok(None) => {
                let cause = cause.map(|cause| format!("; {cause}")).unwrap_or_default();
                let what = "no tensor of the step is NaN or infinite where it is taken up again";
                Error::data(format!("{message}; {what}{cause}"))
            }
        }
    }

    /// Repeats a failed step to find its first bad tensor. Training may continue without the step.
    fn first_bad(&mut self, begun: &Begun) -> Result<Option<Bad>, Error> {
        let going = Tensor::from_f32([], &[0.0]);
        let step = self.prepared(begun)?;
        going.map_or(Ok(()), |going| step.session.set(Network::FAILED, &going))?;
        let Trainer { program, steps, .. } = self;
        let graph = steps.graph(program, Mode::Train, &begun.columns, begun.samples)?;
        match steps.last() {
            Some(step) => first_bad(graph, &program.device, program.model.sources(), &|name| {
                step.session.get(name)
            }),
            None => Ok(None),
        }
    }

    /// Resets the metrics for a new epoch, or keeps them to continue one.
    pub(super) fn begin_epoch(
        &mut self,
        data: &dyn Dataset,
        batch_size: usize,
    ) -> Result<(), Error> {
        let samples = batch_size.min(data.len());
        self.steps.get(&self.program, Mode::Train, &data.columns(), samples, self.seed)?;
        if self.seen == 0 { self.steps.reset_metrics() } else { Ok(()) }
    }

    /// Returns the loss and the metrics of the epoch so far. Waits for the device.
    pub(super) fn results(&mut self) -> Result<Vec<(String, Reading)>, Error> {
        self.wait()?;
        self.steps.last().map_or_else(|| Ok(Vec::new()), |step| step.results())
    }
}
