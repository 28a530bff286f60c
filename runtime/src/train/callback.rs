//! What happens beside training, after steps and epochs: as Keras' callbacks.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use super::fit::{Epoch, Progress};
use super::reading::Reading;
use crate::error::Error;

/// Is told of training, and may end it: [`Progress::stop`].
pub trait Callback {
    /// After a step.
    ///
    /// # Errors
    /// End training.
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        let _ = state;
        Ok(())
    }

    /// Whether to end training now: asked after each batch of a validation, which is then begun again when training is resumed.
    fn stops(&self) -> bool {
        false
    }

    /// An epoch that was made before, in a run that is gone on with: told before the first step, for each.
    fn resumed(&mut self, epoch: &Epoch) {
        let _ = epoch;
    }

    /// After an epoch and its validation.
    ///
    /// # Errors
    /// End training.
    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let _ = (state, epoch);
        Ok(())
    }
}

/// Which result to watch, and which of its values is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Monitor {
    /// `loss`, `val_loss`, `accuracy`, `val_accuracy`, …
    pub name: String,
    pub larger_is_better: bool,
    /// What is better by less does not count.
    pub least_change: f64,
}

impl Monitor {
    /// `val_` names are of the validation. Of a name with `acc`, `auc`, `precision`, `recall` or `f1` in it larger values are better.
    pub fn of(name: impl Into<String>) -> Monitor {
        let name = name.into();
        let larger = ["acc", "auc", "precision", "recall", "f1"].iter().any(|word| name.contains(word));
        Monitor { name, larger_is_better: larger, least_change: 0.0 }
    }

    fn value(&self, epoch: &Epoch) -> Result<f64, Error> {
        epoch.get(&self.name).ok_or_else(|| {
            if epoch.results().any(|(name, _)| name == self.name) {
                return Error::data(format!("`{}` has several values, and one is to be watched", self.name));
            }
            let names = epoch.results().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
            Error::data(format!("there is no result `{}` to watch; there are {names}", self.name))
        })
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

    /// Whether the value is the best one.
    fn is_best(&mut self, value: f64) -> bool {
        let best = self.monitor.is_better(value, self.best);
        if best {
            self.best = Some(value);
        }
        self.waited = if best { 0 } else { self.waited + 1 };
        best
    }

    /// The same of an epoch of a run that is resumed, which need not have the result.
    fn was_best(&mut self, epoch: &Epoch) -> bool {
        epoch.get(&self.monitor.name).is_some_and(|value| self.is_best(value))
    }
}

/// Ends training when a result has not become better for `patience` epochs.
pub struct EarlyStopping {
    watch: Watch,
    patience: usize,
}

impl EarlyStopping {
    pub fn new(monitor: Monitor, patience: usize) -> EarlyStopping {
        EarlyStopping { watch: Watch::new(monitor), patience }
    }
}

impl Callback for EarlyStopping {
    fn resumed(&mut self, epoch: &Epoch) {
        self.watch.was_best(epoch);
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let value = self.watch.monitor.value(epoch)?;
        state.stop |= !self.watch.is_best(value) && self.watch.waited >= self.patience;
        Ok(())
    }
}

/// Multiplies the learning rate by `factor` when a result has not become better for `patience` epochs.
pub struct ReduceOnPlateau {
    watch: Watch,
    factor: f64,
    patience: usize,
}

impl ReduceOnPlateau {
    pub fn new(monitor: Monitor, factor: f64, patience: usize) -> ReduceOnPlateau {
        ReduceOnPlateau { watch: Watch::new(monitor), factor, patience }
    }

    /// Whether it has waited long enough, which it then begins anew.
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
        // The rate itself is in the file.
        self.watch.was_best(epoch);
        self.is_time();
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let value = self.watch.monitor.value(epoch)?;
        if !self.watch.is_best(value) && self.is_time() {
            state.trainer().rate *= self.factor;
        }
        Ok(())
    }
}

/// Writes the weights to a file after each epoch, or after each that is better than all before.
pub struct Checkpoint {
    path: PathBuf,
    best_of: Option<Watch>,
}

impl Checkpoint {
    /// After each epoch.
    pub fn last(path: impl Into<PathBuf>) -> Checkpoint {
        Checkpoint { path: path.into(), best_of: None }
    }

    /// After each epoch in which the result became better.
    pub fn best(path: impl Into<PathBuf>, monitor: Monitor) -> Checkpoint {
        Checkpoint { path: path.into(), best_of: Some(Watch::new(monitor)) }
    }
}

impl Callback for Checkpoint {
    fn resumed(&mut self, epoch: &Epoch) {
        if let Some(watch) = &mut self.best_of {
            watch.was_best(epoch);
        }
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

/// Writes a line for each epoch: of JSON, or where the file's name ends in `.csv` of a table.
pub struct Log {
    path: PathBuf,
    file: File,
    /// Whether what the file had is still in it, and is to go.
    anew: bool,
    /// Of a table, the line with the names.
    header: Option<String>,
}

impl Log {
    /// Begins the file with the first epoch, and leaves what was in it until then; or with `append` goes on with it.
    ///
    /// # Errors
    /// [`Error::Data`] where it cannot be written.
    pub fn new(path: impl Into<PathBuf>, append: bool) -> Result<Log, Error> {
        let path = path.into();
        let failed = |error: std::io::Error| Error::data(format!("cannot write {}: {error}", path.display()));
        let file = File::options().append(true).create(true).open(&path).map_err(failed)?;
        let before = if append { std::fs::read_to_string(&path).map_err(failed)? } else { String::new() };
        Ok(Log { file, anew: !append, header: before.lines().next().map(str::to_owned), path })
    }

    /// The lines of a table for an epoch.
    fn row(&mut self, epoch: &Epoch) -> Result<String, Error> {
        let (mut header, mut row) = ("epoch".to_owned(), (epoch.epoch + 1).to_string());
        for (name, value) in epoch.results() {
            header += &format!(",{name}");
            row += &match value {
                Reading::Number(value) => format!(",{value}"),
                list => format!(",\"{list}\""),
            };
        }
        header += ",seconds";
        row += &format!(",{:.3}\n", epoch.seconds);
        match &self.header {
            Some(before) if *before != header => {
                let what = format!("its columns are {before}, and those of this run {header}: log to another file");
                Err(Error::data(format!("{}: {what}", self.path.display())))
            }
            Some(_) => Ok(row),
            None => {
                self.header = Some(header.clone());
                Ok(header + "\n" + &row)
            }
        }
    }
}

impl Callback for Log {
    fn epoch(&mut self, _: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let line = if self.path.extension().is_some_and(|extension| extension == "csv") {
            self.row(epoch)?
        } else {
            let mut object = serde_json::Map::new();
            // What is no finite number is null.
            for (name, value) in epoch.results() {
                let value = match value {
                    Reading::Number(value) => value.into(),
                    Reading::List(values) => values.into(),
                };
                object.insert(name, value);
            }
            object.insert("epoch".into(), (epoch.epoch + 1).into());
            object.insert("seconds".into(), epoch.seconds.into());
            serde_json::Value::Object(object).to_string() + "\n"
        };
        let failed = |error: std::io::Error| Error::data(format!("cannot write {}: {error}", self.path.display()));
        if std::mem::take(&mut self.anew) {
            self.file.set_len(0).map_err(failed)?;
        }
        self.file.write_all(line.as_bytes()).map_err(failed)
    }
}
