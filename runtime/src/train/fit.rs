//! [`Trainer::fit`]: the loop over epochs and steps, with its callbacks.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tile_compiler::tensor::Tensor;

use super::callback::Callback;
use super::class_weights::ClassWeighted;
use super::dataset::{Dataset, Part};
use super::order::{Split, order};
use super::reading::Reading;
use super::steps::Mode;
use super::trainer::Trainer;
use crate::error::Error;

/// The data to evaluate after each epoch.
///
/// ```
/// use tile_runtime::train::Validation;
///
/// assert_eq!(Validation::kept_back(0.25, 10), 3);
/// ```
pub enum Validation<'a> {
    /// A fraction of the data, which training leaves out: [`Validation::kept_back`] samples, chosen
    /// at random by the seed of training. If the data have one integer target, each class keeps its
    /// share. Training that does not shuffle leaves out the last samples.
    Fraction(f64),
    /// Another dataset.
    Set(&'a dyn Dataset),
}

impl Validation<'_> {
    /// Returns the number of samples in a fraction. As in Keras, training gets `floor(samples * (1
    /// - fraction))`.
    pub fn kept_back(fraction: f64, samples: usize) -> usize {
        samples.saturating_sub((samples as f64 * (1.0 - fraction)).floor() as usize)
    }

    /// Returns the number of samples that training leaves out.
    fn samples(&self, samples: usize) -> Result<usize, Error> {
        match *self {
            Validation::Fraction(fraction) if !(0.0..1.0).contains(&fraction) => {
                Err(Error::data(format!(
                    "a fraction of {fraction} is kept back for validation: it is at least 0, and below 1"
                )))
            }
            Validation::Fraction(fraction) => Ok(Validation::kept_back(fraction, samples)),
            Validation::Set(_) => Ok(0),
        }
    }
}

/// Options of training.
///
/// ```
/// use tile_runtime::train::{Arrays, EarlyStopping, Fit, Monitor, Validation};
/// use tile_runtime::{Device, Model, Tensor};
///
/// let model = Model::compile(
///     "model Line(X[N, 1]) -> (Y) { Y = X |> Dense(1, kernel_initializer = zeros); }
///      train Line { loss = MeanSquaredError(); optimizer = SGD(learning_rate = 0.1); }",
/// )?;
/// let x: Vec<f32> = (0..10).map(|n| n as f32 / 10.0).collect();
/// let y: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
/// let tensor = |values: &[f32]| Tensor::from_f32([10, 1], values).unwrap();
/// let data = Arrays::new(tensor(&x), tensor(&y))?;
/// let fit = Fit::epochs(20)
///     .batch_size(5)
///     .validation(Validation::Fraction(0.2))
///     .callback(EarlyStopping::new(Monitor::of("val_loss"), 10));
/// let epochs = model.trainer(&Device::cpu()).build()?.fit(&data, fit)?;
/// assert!(epochs.last().unwrap().get("loss") < epochs[0].get("loss"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Fit<'a> {
    epochs: Option<usize>,
    batch_size: Option<usize>,
    shuffle: Option<bool>,
    validation: Option<Validation<'a>>,
    class_weights: BTreeMap<i64, f32>,
    callbacks: Vec<Box<dyn Callback + 'a>>,
}

/// The progress of training.
#[non_exhaustive]
pub struct Progress<'t> {
    /// The epoch, from 0.
    pub epoch: usize,
    /// The number of epochs.
    pub epochs: usize,
    /// The number of steps of this epoch that are done.
    pub step: usize,
    /// The number of steps of this epoch.
    pub steps: usize,
    /// The time since the epoch began.
    pub elapsed: Duration,
    /// Set this to end training after the callback.
    pub stop: bool,
    has_validation: bool,
    trainer: &'t mut Trainer,
}

impl Progress<'_> {
    /// Returns the mean loss and the metrics of the epoch so far. Waits for the device.
    pub fn so_far(&mut self) -> Result<Vec<(String, Reading)>, Error> {
        self.trainer.results()
    }

    /// Returns [`Progress::so_far`], and the same results under the names that those of the
    /// validation will have, if there is one. Waits for the device.
    fn results_of_epoch(&mut self) -> Result<Vec<(String, Reading)>, Error> {
        let training = self.so_far()?;
        let validation = if self.has_validation { training.clone() } else { Vec::new() };
        Ok(Epoch { epoch: self.epoch, training, validation, seconds: 0.0 }.results().collect())
    }

    /// Returns the trainer.
    pub fn trainer(&mut self) -> &mut Trainer {
        self.trainer
    }
}

/// The results of an epoch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Epoch {
    /// The number of the epoch, from 0.
    pub epoch: usize,
    /// The loss and the metrics during training, by name.
    pub training: Vec<(String, Reading)>,
    /// The loss and the metrics on the validation data after the epoch.
    pub validation: Vec<(String, Reading)>,
    /// The duration, or 0 for an epoch from a resumed file.
    pub seconds: f64,
}

impl Epoch {
    /// Returns all results. Names of validation results start with `val_`.
    pub fn results(&self) -> impl Iterator<Item = (String, Reading)> + '_ {
        let training = self.training.iter().cloned();
        training.chain(
            self.validation.iter().map(|(name, value)| (format!("val_{name}"), value.clone())),
        )
    }

    /// Returns a result by its name. `None` for lists and unknown names.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.results().find(|(other, _)| other == name).and_then(|(_, value)| value.number())
    }
}

impl<'a> Fit<'a> {
    /// Trains until `epochs` are made, including those of a resumed run.
    pub fn epochs(epochs: usize) -> Fit<'a> {
        Fit { epochs: Some(epochs), ..Fit::default() }
    }

    /// Sets the number of samples of a step. The default is that of the `train` block, or 32.
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.batch_size = Some(samples);
        self
    }

    /// Whether to shuffle the samples in each epoch.
    pub fn shuffle(mut self, shuffle: bool) -> Self {
        self.shuffle = Some(shuffle);
        self
    }

    /// Evaluates after each epoch.
    pub fn validation(mut self, validation: Validation<'a>) -> Self {
        self.validation = Some(validation);
        self
    }

    /// Sets the weight of a class in the training loss, as Keras' `class_weight`. It multiplies a
    /// sample's own weight, if any. The data must have one target: a class number, or a number for
    /// each class.
    pub fn class_weight(mut self, class: i64, weight: f32) -> Self {
        self.class_weights.insert(class, weight);
        self
    }

    /// Adds a callback, which runs after those added before.
    pub fn callback(mut self, callback: impl Callback + 'a) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    pub(super) fn run(
        self,
        trainer: &mut Trainer,
        data: &dyn Dataset,
    ) -> Result<Vec<Epoch>, Error> {
        let Fit { epochs, batch_size, shuffle, validation, class_weights, mut callbacks } = self;
        let settings = trainer.settings();
        let batch_size = batch_size.unwrap_or(settings.batch_size);
        if batch_size == 0 {
            return Err(Error::data("a batch has at least one sample".to_owned()));
        }
        let data = trainer.typed(data, batch_size);
        let kept_back =
            validation.as_ref().map_or(Ok(0), |validation| validation.samples(data.len()))?;
        let count = data.len() - kept_back;
        if count == 0 {
            return Err(Error::data("there are no samples to train on".to_owned()));
        }
        let columns = match class_weights.is_empty() {
            true => data.columns(),
            false => {
                let weighted = ClassWeighted::new(&data, &class_weights)?;
                weighted.check()?;
                weighted.columns()
            }
        };
        let ranges = trainer.ranges(Mode::Train, &columns, batch_size.min(count))?;
        let data = trainer.checked(&data, &ranges, "")?;
        let shuffle = shuffle.unwrap_or(settings.shuffle);
        let split = match shuffle && kept_back > 0 {
            true => Split::stratified(&data, kept_back, trainer.seed)?,
            false => Split::last(data.len(), kept_back)?,
        };
        let (part, rest) = (Part::new(&data, split.trained), Part::new(&data, split.kept));
        let weighted;
        let trained: &dyn Dataset = if class_weights.is_empty() {
            &part
        } else {
            weighted = ClassWeighted::new(&part, &class_weights)?;
            &weighted
        };
        let (typed, checked);
        let validated: Option<&dyn Dataset> = match &validation {
            Some(Validation::Set(set)) => {
                typed = trainer.typed(*set, batch_size);
                checked = trainer.checked(&typed, &ranges, " of the validation data")?;
                Some(&checked)
            }
            Some(Validation::Fraction(_)) if kept_back > 0 => Some(&rest),
            _ => None,
        };
        trainer.adapt(trained, batch_size)?;
        for epoch in trainer.history.iter().take(trainer.epoch) {
            callbacks.iter_mut().for_each(|callback| callback.resumed(epoch));
        }
        callbacks.iter_mut().try_for_each(|callback| callback.begin())?;
        let epochs = epochs.unwrap_or(settings.epochs);
        let mut run =
            Run { trained, validated, epochs, batch_size, shuffle, callbacks, checked: false };
        let first = trainer.epoch;
        // A resumed run that a callback had ended stays ended. A new one makes a step, so that it
        // can be resumed.
        let is_ended = first > 0 && run.callbacks.iter().any(|callback| callback.stops());
        while !is_ended && trainer.epoch < epochs && run.epoch(trainer)? {}
        Ok(trainer.history().get(first..).unwrap_or_default().to_vec())
    }
}

/// A call of [`Trainer::fit`], with its settings decided.
struct Run<'d, 'c> {
    trained: &'d dyn Dataset,
    validated: Option<&'d dyn Dataset>,
    epochs: usize,
    batch_size: usize,
    shuffle: bool,
    callbacks: Vec<Box<dyn Callback + 'c>>,
    /// Whether the results that callbacks watch are known to be there.
    checked: bool,
}

impl Run<'_, '_> {
    /// Makes an epoch, or completes the one that a resumed run stopped in. Returns false if a
    /// callback stopped training.
    fn epoch(&mut self, trainer: &mut Trainer) -> Result<bool, Error> {
        let began = Instant::now();
        let (epoch, trained, batch_size) = (trainer.epoch, self.trained, self.batch_size);
        let order = order(trained.len(), self.shuffle.then_some((trainer.seed, epoch as u64)))?;
        trainer.begin_epoch(trained, batch_size)?;
        self.check_resumed(trainer)?;
        trainer.begun = (trained.len(), batch_size);
        // A resumed run continues within its epoch.
        let rest = order.get(trainer.seen..).unwrap_or_default();
        let mut done = trainer.seen.div_ceil(batch_size);
        let mut stop = false;
        with_batches(trained, rest.chunks(batch_size), |batch| {
            trainer.train_on(trained, batch)?;
            done += 1;
            let mut progress = self.progress(trainer, epoch, done, began);
            if !std::mem::replace(&mut self.checked, true) {
                check_watched(&self.callbacks, &mut progress)?;
            }
            self.callbacks.iter_mut().try_for_each(|callback| callback.step(&mut progress))?;
            stop = progress.stop;
            Ok(!stop)
        })?;
        // A stop after the last step completes the epoch first.
        if stop && done < self.steps() {
            trainer.wait()?;
            return Ok(false);
        }
        trainer.check_weights()?;
        // An epoch stopped in its validation already has its training results.
        if trainer.history.get(epoch).is_none() {
            let training = exact(trainer.results()?);
            trainer.history.push(Epoch { epoch, training, validation: Vec::new(), seconds: 0.0 });
        }
        let validation = match self.validated {
            Some(set) => trainer
                .evaluate_until(set, batch_size, &|| self.callbacks.iter().any(|c| c.stops()))?,
            None => Some(Vec::new()),
        };
        let Some(validation) = validation else { return Ok(false) };
        (trainer.epoch, trainer.seen) = (epoch + 1, 0);
        let Some(results) = trainer.history.last_mut() else { return Ok(false) };
        results.validation = exact(validation);
        results.seconds = began.elapsed().as_secs_f64();
        let results = results.clone();
        let mut progress = self.progress(trainer, epoch, self.steps(), began);
        self.callbacks
            .iter_mut()
            .try_for_each(|callback| callback.epoch(&mut progress, &results))?;
        Ok(!stop && !progress.stop)
    }

    /// Returns the steps of an epoch.
    fn steps(&self) -> usize {
        self.trained.len().div_ceil(self.batch_size)
    }

    fn progress<'t>(
        &self,
        trainer: &'t mut Trainer,
        epoch: usize,
        step: usize,
        began: Instant,
    ) -> Progress<'t> {
        let (epochs, steps, elapsed) = (self.epochs, self.steps(), began.elapsed());
        let has_validation = self.validated.is_some();
        Progress { epoch, epochs, step, steps, elapsed, stop: false, has_validation, trainer }
    }

    /// Checks that a run that was stopped within an epoch has the same samples and batches again.
    fn check_resumed(&self, trainer: &Trainer) -> Result<(), Error> {
        let (samples, batch) = (self.trained.len(), self.batch_size);
        if trainer.seen == 0 || trainer.begun == (samples, batch) {
            return Ok(());
        }
        let (before, batch_before) = trainer.begun;
        Err(Error::data(format!(
            "training was stopped within an epoch of {before} samples in batches of {batch_before}, and can go on with \
             these alone: there are {samples} in batches of {batch}"
        )))
    }
}

/// Returns results without spare room: those of each epoch are kept.
fn exact(mut results: Vec<(String, Reading)>) -> Vec<(String, Reading)> {
    results.shrink_to_fit();
    results
}

/// Checks after the first step, not after the first epoch, that there are the results that
/// callbacks watch.
fn check_watched(
    callbacks: &[Box<dyn Callback + '_>],
    progress: &mut Progress,
) -> Result<(), Error> {
    if callbacks.iter().all(|callback| callback.watches().is_none()) {
        return Ok(());
    }
    let results = progress.results_of_epoch()?;
    callbacks
        .iter()
        .filter_map(|callback| callback.watches())
        .try_for_each(|monitor| monitor.check(&results))
}

/// Calls `use_batch` with each batch until it returns false. Another thread prepares the next batch
/// meanwhile.
fn with_batches<'o>(
    data: &dyn Dataset,
    batches: impl Iterator<Item = &'o [usize]> + Send,
    mut use_batch: impl FnMut(Vec<Tensor>) -> Result<bool, Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(1);
        let loader = scope.spawn(move || {
            // Sending fails if training has stopped and dropped the receiver.
            batches.map(|samples| data.batch(samples)).try_for_each(|batch| sender.send(batch))
        });
        for batch in receiver {
            if !use_batch(batch?)? {
                return Ok(());
            }
        }
        // Passes a panic of the app's data on as it is.
        loader.join().map_or_else(|panic| std::panic::resume_unwind(panic), |_| Ok(()))
    })
}
