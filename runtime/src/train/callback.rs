//! Callbacks after steps and epochs, as in Keras.

use std::path::PathBuf;

use tile_lang::{did_you_mean, listed};

use super::fit::{Epoch, Progress};
use super::reading::Reading;
use crate::error::Error;

/// A callback of training. It can end training with [`Progress::stop`].
///
/// ```
/// use tile_runtime::Error;
/// use tile_runtime::train::{Callback, Epoch, Progress};
///
/// /// Ends training when the loss is small.
/// struct Enough(f64);
///
/// impl Callback for Enough {
///     fn epoch(&mut self, progress: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
///         progress.stop |= epoch.get("loss").is_some_and(|loss| loss < self.0);
///         Ok(())
///     }
/// }
/// ```
pub trait Callback {
    /// Runs after a step.
    ///
    /// # Errors
    /// An error ends training.
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        let _ = state;
        Ok(())
    }

    /// Returns the result that it reads after each epoch, which training checks after the first
    /// step.
    fn watches(&self) -> Option<&Monitor> {
        None
    }

    /// Returns whether to end training now. Training asks after each batch of a validation, and
    /// repeats that validation when it is resumed.
    fn stops(&self) -> bool {
        false
    }

    /// Runs before the first step of a resumed run, for each epoch made before.
    fn resumed(&mut self, epoch: &Epoch) {
        let _ = epoch;
    }

    /// Runs before the first step, after [`Callback::resumed`] for all epochs.
    ///
    /// # Errors
    /// An error ends training.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Runs after an epoch and its validation.
    ///
    /// # Errors
    /// An error ends training.
    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let _ = (state, epoch);
        Ok(())
    }
}

/// A result to watch, and the direction in which it improves.
///
/// ```
/// use tile_runtime::train::Monitor;
///
/// assert!(!Monitor::of("val_loss").larger_is_better);
/// assert!(Monitor::of("val_accuracy").larger_is_better);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Monitor {
    /// `loss`, `val_loss`, `accuracy`, `val_accuracy`, …
    pub name: String,
    /// Whether larger results are better, as for accuracies; otherwise smaller ones are.
    pub larger_is_better: bool,
    /// The least improvement that counts.
    pub least_change: f64,
}

impl Monitor {
    /// Watches a result. Names starting with `val_` are results of the validation. Larger values
    /// are better for names that contain one of [`Monitor::LARGER_IS_BETTER`].
    pub fn of(name: impl Into<String>) -> Monitor {
        let name = name.into();
        let larger = Monitor::LARGER_IS_BETTER.iter().any(|word| name.contains(word));
        Monitor { name, larger_is_better: larger, least_change: 0.0 }
    }

    /// The parts of names of the library's metrics of which larger values are better.
    pub const LARGER_IS_BETTER: [&str; 14] = [
        "acc",
        "auc",
        "precision",
        "recall",
        "f1",
        "fbeta",
        "f_beta",
        "iou",
        "r2",
        "correlation",
        "sensitivity",
        "specificity",
        "true_positives",
        "true_negatives",
    ];

    fn value(&self, epoch: &Epoch) -> Result<f64, Error> {
        epoch.get(&self.name).ok_or_else(|| self.unknown(epoch.results()))
    }

    /// Checks that the result is among these, and is a number.
    pub(super) fn check(&self, results: &[(String, Reading)]) -> Result<(), Error> {
        let is_there =
            results.iter().any(|(name, value)| *name == self.name && value.number().is_some());
        if is_there { Ok(()) } else { Err(self.unknown(results.iter().cloned())) }
    }

    /// Returns the error for a result that is not among these, or has several values.
    fn unknown(&self, results: impl Iterator<Item = (String, Reading)>) -> Error {
        let names: Vec<String> = results.map(|(name, _)| name).collect();
        if names.contains(&self.name) {
            return Error::data(format!("cannot watch `{}`, which has several values", self.name));
        }
        let near = did_you_mean(&self.name, names.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; {near}"));
        Error::data(format!(
            "unknown result `{}` to watch: there are {}{near}",
            self.name,
            listed(&names)
        ))
    }

    fn is_better(&self, value: f64, than: Option<f64>) -> bool {
        let better = |than: f64| match self.larger_is_better {
            true => value > than + self.least_change,
            false => value < than - self.least_change,
        };
        !value.is_nan() && than.is_none_or(better)
    }
}

/// The best value of a result so far, and the epochs since.
struct Watch {
    monitor: Monitor,
    best: Option<f64>,
    waited: usize,
}

impl Watch {
    fn new(monitor: Monitor) -> Watch {
        Watch { monitor, best: None, waited: 0 }
    }

    /// Records a value, and returns whether it is the best so far.
    fn is_best(&mut self, value: f64) -> bool {
        let best = self.monitor.is_better(value, self.best);
        if best {
            self.best = Some(value);
        }
        self.waited = if best { 0 } else { self.waited + 1 };
        best
    }

    /// Records an epoch of a resumed run, which may lack the result.
    fn was_best(&mut self, epoch: &Epoch) -> bool {
        epoch.get(&self.monitor.name).is_some_and(|value| self.is_best(value))
    }
}

/// Ends training when a result has not improved for `patience` epochs.
pub struct EarlyStopping {
    watch: Watch,
    patience: usize,
}

impl EarlyStopping {
    /// Ends training after `patience` epochs without an improvement.
    pub fn new(monitor: Monitor, patience: usize) -> EarlyStopping {
        EarlyStopping { watch: Watch::new(monitor), patience }
    }
}

impl Callback for EarlyStopping {
    fn resumed(&mut self, epoch: &Epoch) {
        self.watch.was_best(epoch);
    }

    fn watches(&self) -> Option<&Monitor> {
        Some(&self.watch.monitor)
    }

    /// Ends a resumed run at once that was ended before.
    fn stops(&self) -> bool {
        self.watch.waited >= self.patience.max(1)
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let value = self.watch.monitor.value(epoch)?;
        state.stop |= !self.watch.is_best(value) && self.stops();
        Ok(())
    }
}

/// Multiplies the learning rate by `factor` when a result has not improved for `patience` epochs.
pub struct ReduceOnPlateau {
    watch: Watch,
    factor: f64,
    patience: usize,
}

impl ReduceOnPlateau {
    /// Multiplies the learning rate by `factor` after `patience` epochs without an improvement.
    pub fn new(monitor: Monitor, factor: f64, patience: usize) -> ReduceOnPlateau {
        ReduceOnPlateau { watch: Watch::new(monitor), factor, patience }
    }

    /// Returns whether `patience` epochs have passed, and then restarts the count.
    fn is_time(&mut self) -> bool {
        let is_time = self.watch.waited >= self.patience.max(1);
        if is_time {
            self.watch.waited = 0;
        }
        is_time
    }
}

impl Callback for ReduceOnPlateau {
    fn resumed(&mut self, epoch: &Epoch) {
        // The checkpoint has the rate itself.
        self.watch.was_best(epoch);
        self.is_time();
    }

    fn watches(&self) -> Option<&Monitor> {
        Some(&self.watch.monitor)
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let value = self.watch.monitor.value(epoch)?;
        if !self.watch.is_best(value) && self.is_time() {
            state.trainer().rate *= self.factor;
        }
        Ok(())
    }
}

/// Writes the weights to a file after each epoch, or after each one better than all before.
pub struct Checkpoint {
    path: PathBuf,
    best_of: Option<Watch>,
    /// True once the name of the file was checked.
    is_checked: bool,
}

impl Checkpoint {
    /// Writes after each epoch.
    pub fn last(path: impl Into<PathBuf>) -> Checkpoint {
        Checkpoint { path: path.into(), best_of: None, is_checked: false }
    }

    /// Writes after each epoch in which the result improved.
    pub fn best(path: impl Into<PathBuf>, monitor: Monitor) -> Checkpoint {
        Checkpoint { path: path.into(), best_of: Some(Watch::new(monitor)), is_checked: false }
    }
}

impl Callback for Checkpoint {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        match std::mem::replace(&mut self.is_checked, true) {
            true => Ok(()),
            false => state.trainer().check_save(&self.path),
        }
    }

    fn resumed(&mut self, epoch: &Epoch) {
        if let Some(watch) = &mut self.best_of {
            watch.was_best(epoch);
        }
    }

    fn watches(&self) -> Option<&Monitor> {
        self.best_of.as_ref().map(|watch| &watch.monitor)
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        if let Some(watch) = &mut self.best_of {
            let value = watch.monitor.value(epoch)?;
            if !watch.is_best(value) {
                return Ok(());
            }
        }
        state.trainer().save(&self.path)
    }
}
