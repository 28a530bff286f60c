//! [`Trainer`]: trains a model, or several in turn. Evaluation is in [`super::evaluate`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tile_compiler::lower::{Network, Role, Settings, Weight, WeightKind};
use tile_compiler::pipeline::Options;
use tile_compiler::plan::Plan;
use tile_compiler::tensor::Tensor;

use super::dataset::{Column, ColumnRole, Dataset, numbers};
use super::description::DataDescription;
use super::diagnosis::Losses;
use super::fit::{Epoch, Fit};
use super::program::{Program, all_names, training_graph};
use super::steps::{CompiledStep, CompiledSteps, Key, Mode};

use crate::backend::{Watched, block_on};
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
    /// The number of the program among those that are trained in turn.
    pub program: usize,
    batch: Arc<[Tensor]>,
    pub columns: Vec<Column>,
    pub samples: usize,
    /// The samples that are done after this step, the last one on its batch, else 0.
    done: usize,
    /// The number of the batch, from 0.
    pub number: u64,
    /// The number of the step among those of all programs, from 0, and among those of its own.
    turn: u64,
    own: u64,
    rate: f64,
}

/// A model with its weights and optimizer state, or several models that are trained in turn.
///
/// ```
/// use tile_runtime::train::{Arrays, Fit};
/// use tile_runtime::{Device, Model, Tensor};
///
/// let model = Model::compile(
///     "model Line(X[N, 1]) -> (Y) { Y = X |> Dense(1); }
///      train Line { loss = MeanSquaredError(); optimizer = Adam(0.1); batch_size = 4; }",
/// )?;
/// let mut trainer = model.trainer(&Device::cpu()).build()?;
/// let numbers = Tensor::from_f32([4, 1], &[0.0, 1.0, 2.0, 3.0]).unwrap();
/// let data = Arrays::new(numbers.clone(), numbers)?;
/// trainer.fit(&data, Fit::epochs(2))?;
/// assert_eq!(trainer.history().len(), 2);
/// assert_eq!(trainer.predict(&data, 4)?.remove("Y")?.shape(), [4, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Trainer {
    /// The models, in the order of their turns.
    pub(super) programs: Vec<Program>,
    /// The settings of the `train` block, if there is one.
    settings: Option<Settings>,
    pub(super) steps: CompiledSteps,
    /// The training steps submitted, and not known to be done.
    pub(super) running: VecDeque<(Begun, Watched)>,
    /// The column types for the programs from a number on, by that and by those of the data: see
    /// [`super::types`].
    pub(super) types: HashMap<(usize, Vec<Column>), Vec<Column>>,
    /// The seed of all random numbers.
    pub(super) seed: u64,
    /// The number of batches trained on.
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
    /// The losses of the last steps of each program, for the message of a step that fails.
    pub(super) losses: Vec<Losses>,
}

impl Trainer {
    /// Creates a trainer that has made no step.
    pub(super) fn new(
        programs: Vec<Program>,
        settings: Option<Settings>,
        steps: CompiledSteps,
    ) -> Trainer {
        let seed = settings.as_ref().map_or(0, |settings| settings.seed);
        let (running, types) = Default::default();
        let losses = programs.iter().map(|_| Losses::default()).collect();
        Trainer {
            programs,
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
            losses,
        }
    }

    /// Returns the settings of the `train` block, or the defaults without one. Of models trained in
    /// turn, these are the settings that they have in common, and the first one's `steps`.
    pub fn settings(&self) -> Settings {
        self.settings.clone().unwrap_or_default()
    }

    /// Returns the epochs made, including those of a resumed run.
    pub fn history(&self) -> &[Epoch] {
        self.history.get(..self.epoch).unwrap_or(&self.history)
    }

    /// Returns the names of the models that are trained in turn, in this order. Empty if there is
    /// one model.
    pub fn in_turn(&self) -> Vec<&str> {
        let names = self.programs.iter().filter_map(|program| program.entry.as_deref());
        if self.programs.len() > 1 { names.collect() } else { Vec::new() }
    }

    /// Returns the parts that several of the models trained in turn have: the first names in the
    /// paths of their common weights. They are known when the models are compiled.
    pub fn shared(&self) -> Vec<String> {
        self.steps.shared()
    }

    /// Returns what the models take from files of samples.
    #[cfg(feature = "data")]
    pub fn wanted(&self) -> crate::data::folder::Wanted {
        let declared = |name: String| {
            let mut all = self.programs.iter().filter(|program| program.inputs.contains(&name));
            let declared = all.find_map(|Program { model, entry, bindings, .. }| {
                model.declared(entry.as_deref(), &name, bindings)
            });
            (name, declared)
        };
        let inputs = all_names(&self.programs, ColumnRole::Input);
        crate::data::folder::Wanted {
            inputs: inputs.into_iter().map(declared).collect(),
            outputs: all_names(&self.programs, ColumnRole::Target),
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
        let is_kept = |weight: &&&Weight| matches!(weight.role, Role::Model | Role::Loss);
        for weight in self.steps.weights().iter().filter(is_kept) {
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
        for program in 0..self.programs.len() {
            self.step(program, Mode::Train, &columns, batch_size.min(data.len()))?;
        }
        for (program, path) in self.steps.adapts.clone() {
            for part in samples.chunks(together) {
                let batch = data.batch(part)?;
                let mode = Mode::Adapt(path.clone());
                let key = Key { program, mode, columns: columns.clone(), batch: part.len() };
                let step = self.steps.get(&self.programs, key, self.seed)?;
                step.set(&batch)?;
                step.session.seed(self.seed, 0)?;
                block_on(step.session.step(&[])?.take())?;
            }
        }
        Ok(())
    }

    /// Returns the step of a program for batches of this size, now active.
    pub(super) fn step(
        &mut self,
        program: usize,
        mode: Mode,
        columns: &[Column],
        batch: usize,
    ) -> Result<&mut CompiledStep, Error> {
        let key = Key { program, mode, columns: columns.to_vec(), batch };
        self.steps.get(&self.programs, key, self.seed)
    }

    /// Trains on the data. Several models are trained in turn: on each batch, each model makes its
    /// steps, in the order of the `train` blocks, from the weights that the one before has left.
    /// Weights with the same path are one weight.
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
        mut tune: Tune,
    ) -> Result<Tuning, Error> {
        let columns = self.typed(data, batch_size).columns();
        let samples = batch_size.min(data.len());
        let options = Options { updates: true, ..Options::default() };
        let parts = self.programs.len();
        let mut all = Tuning { finished: true, ..Tuning::default() };
        for (number, Program { device, model, .. }) in self.programs.iter().enumerate() {
            let graph = training_graph(&self.programs, number, &columns, samples)?;
            let Tuning { kernels, finished, wrong, file } =
                tune_graph(graph, device, model.sources(), &options, tune.share(parts))?;
            all.kernels.extend(kernels);
            all.wrong.extend(wrong);
            (all.finished, all.file) = (all.finished && finished, file);
        }
        Ok(all)
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
            |weight: &&&Weight| weight.role == Role::Model && weight.kind == WeightKind::Param;
        self.steps.weights().iter().filter(is_trained).map(|weight| weight.ty.elements()).sum()
    }

    /// Returns a session of one training step on the data's first `batch_size` samples, with all
    /// its inputs and weights set, to inspect or time. Its runs do not train: they pass on only the
    /// weights that they overwrite. Of several models, it is the step of the last.
    ///
    /// # Errors
    /// The errors of [`Trainer::fit`].
    pub fn into_session(mut self, data: &dyn Dataset, batch_size: usize) -> Result<Session, Error> {
        self.wait()?;
        let data = self.typed(data, batch_size);
        let samples = numbers(batch_size.min(data.len()))?;
        let batch = data.batch(&samples)?.into();
        let (columns, samples) = (data.columns(), samples.len());
        let program = self.programs.len().saturating_sub(1);
        let (number, rate) = (self.step, self.rate);
        let (turn, own, done) = (number, number, samples);
        self.prepared(&Begun { program, batch, columns, samples, done, number, turn, own, rate })?;
        self.steps.into_session().ok_or_else(|| Error::internal("there is no step"))
    }

    /// Submits the training steps of all programs on a batch, with a tensor for each column of the
    /// data. Earlier steps may still run.
    ///
    /// # Errors
    /// Includes those of earlier steps.
    pub(super) fn train_on(&mut self, data: &dyn Dataset, batch: Vec<Tensor>) -> Result<(), Error> {
        let samples = batch.first().and_then(|tensor| tensor.shape().first().copied()).unwrap_or(0);
        let (number, rate) = (self.step, self.rate);
        let counts: Vec<u64> = self.programs.iter().map(|program| program.steps).collect();
        let all: u64 = counts.iter().sum();
        let (batch, columns): (Arc<[Tensor]>, _) = (batch.into(), data.columns());
        let mut turn = number * all;
        for (program, count) in counts.into_iter().enumerate() {
            for own in number * count..(number + 1) * count {
                let is_last = turn + 1 == (number + 1) * all;
                let (batch, columns) = (batch.clone(), columns.clone());
                let done = if is_last { samples } else { 0 };
                let begun =
                    Begun { program, batch, columns, samples, done, number, turn, own, rate };
                let watched = self.prepared(&begun)?.session.step(&[Network::LOSS])?;
                self.running.push_back((begun, watched));
                turn += 1;
                if is_last {
                    self.step += 1;
                    self.seen += samples;
                }
                self.look_back()?;
            }
        }
        Ok(())
    }

    /// Checks the losses of the oldest submitted steps: of those that are done, and of those too
    /// far back.
    fn look_back(&mut self) -> Result<(), Error> {
        while self.running.len() > AHEAD
            || self.running.front().is_some_and(|(_, watched)| watched.is_here())
        {
            self.look()?;
        }
        Ok(())
    }

    /// Returns the compiled step with all its inputs set.
    pub(super) fn prepared(&mut self, begun: &Begun) -> Result<&mut CompiledStep, Error> {
        let seed = self.seed;
        let step = self.step(begun.program, Mode::Train, &begun.columns, begun.samples)?;
        step.set(&begun.batch)?;
        step.session.seed(seed, begun.turn as u32)?;
        for (name, value) in [(Network::STEP, (begun.own + 1) as f64), (Network::RATE, begun.rate)]
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
    /// If a loss is not finite. That step and those after it have changed nothing. Its batch does
    /// not count, though models that are trained in turn may have made steps on it before.
    pub(super) fn wait(&mut self) -> Result<(), Error> {
        while !self.running.is_empty() {
            self.look()?;
        }
        Ok(())
    }

    /// Waits for the oldest submitted step, and checks its loss.
    fn look(&mut self) -> Result<(), Error> {
        let Some((begun, watched)) = self.running.pop_front() else { return Ok(()) };
        let outputs = block_on(watched.take())?;
        let loss = outputs.first().map_or(f64::NAN, |loss| loss.get(0).to_f64());
        if loss.abs() <= Network::LARGEST_LOSS {
            self.losses[begun.program].push(loss);
            return Ok(());
        }
        let after = std::mem::take(&mut self.running);
        self.seen -= begun.done + after.iter().map(|(begun, _)| begun.done).sum::<usize>();
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
        for program in 0..self.programs.len() {
            let Some(step) = self.steps.recall(&self.programs, program, self.seed)? else {
                continue;
            };
            for Weight { path, .. } in step.trained() {
                if !step.session.get(path)?.is_finite() {
                    return Err(Error::data(format!(
                        "the weight `{path}` is no longer finite after step {} of training, though each loss was: a \
                         gradient was not; a lower learning rate or `gradients = clip_by_global_norm(1.0);` may help",
                        self.step
                    )));
                }
            }
        }
        Ok(())
    }

    /// Resets the metrics for a new epoch, or keeps them to continue one.
    pub(super) fn begin_epoch(
        &mut self,
        data: &dyn Dataset,
        batch_size: usize,
    ) -> Result<(), Error> {
        let samples = batch_size.min(data.len());
        for program in 0..self.programs.len() {
            self.step(program, Mode::Train, &data.columns(), samples)?;
            if self.seen == 0 {
                self.steps.reset_metrics()?;
            }
        }
        Ok(())
    }
}
