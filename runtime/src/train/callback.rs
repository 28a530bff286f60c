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

/// Ends training when a result has not become better for `patience` epochs.
pub struct EarlyStopping {
    monitor: Monitor,
    patience: usize,
    best: Option<f64>,
    waited: usize,
}

impl EarlyStopping {
    pub fn new(monitor: Monitor, patience: usize) -> EarlyStopping {
        EarlyStopping { monitor, patience, best: None, waited: 0 }
    }
}

impl Callback for EarlyStopping {
    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let value = self.monitor.value(epoch)?;
        if self.monitor.is_better(value, self.best) {
            (self.best, self.waited) = (Some(value), 0);
        } else {
            self.waited += 1;
            state.stop |= self.waited >= self.patience;
        }
        Ok(())
    }
}

/// Multiplies the learning rate by `factor` when a result has not become better for `patience` epochs.
pub struct ReduceOnPlateau {
    monitor: Monitor,
    factor: f64,
    patience: usize,
    best: Option<f64>,
    waited: usize,
}

impl ReduceOnPlateau {
    pub fn new(monitor: Monitor, factor: f64, patience: usize) -> ReduceOnPlateau {
        ReduceOnPlateau { monitor, factor, patience, best: None, waited: 0 }
    }
}

impl Callback for ReduceOnPlateau {
    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let value = self.monitor.value(epoch)?;
        if self.monitor.is_better(value, self.best) {
            (self.best, self.waited) = (Some(value), 0);
            return Ok(());
        }
        self.waited += 1;
        if self.waited >= self.patience {
            self.waited = 0;
            state.trainer().rate *= self.factor;
        }
        Ok(())
    }
}

/// Writes the weights to a file after each epoch, or after each that is better than all before.
pub struct Checkpoint {
    path: PathBuf,
    best_of: Option<Monitor>,
    best: Option<f64>,
}

impl Checkpoint {
    /// After each epoch.
    pub fn last(path: impl Into<PathBuf>) -> Checkpoint {
        Checkpoint { path: path.into(), best_of: None, best: None }
    }

    /// After each epoch in which the result became better.
    pub fn best(path: impl Into<PathBuf>, monitor: Monitor) -> Checkpoint {
        Checkpoint { path: path.into(), best_of: Some(monitor), best: None }
    }
}

impl Callback for Checkpoint {
    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        if let Some(monitor) = &self.best_of {
            let value = monitor.value(epoch)?;
            if !monitor.is_better(value, self.best) {
                return Ok(());
            }
            self.best = Some(value);
        }
        state.trainer().save(&self.path)
    }
}

/// Writes a line for each epoch: of JSON, or where the file's name ends in `.csv` of a table.
pub struct Log {
    path: PathBuf,
    file: File,
    has_header: bool,
}

impl Log {
    /// Begins the file, or with `append` goes on with it.
    ///
    /// # Errors
    /// [`Error::Data`] where it cannot be written.
    pub fn new(path: impl Into<PathBuf>, append: bool) -> Result<Log, Error> {
        let path = path.into();
        let mut options = File::options();
        if append {
            options.append(true)
        } else {
            options.write(true).truncate(true)
        };
        let failed = |error: std::io::Error| Error::data(format!("cannot write {}: {error}", path.display()));
        let file = options.create(true).open(&path).map_err(failed)?;
        let has_header = append && file.metadata().is_ok_and(|metadata| metadata.len() > 0);
        Ok(Log { path, file, has_header })
    }
}

impl Callback for Log {
    fn epoch(&mut self, _: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let mut line = String::new();
        if self.path.extension().is_some_and(|extension| extension == "csv") {
            let results: Vec<(String, Reading)> = epoch.results().collect();
            if !self.has_header {
                self.has_header = true;
                let names = results.iter().map(|(name, _)| format!(",{name}"));
                line = format!("epoch{},seconds\n", names.collect::<String>());
            }
            let values = results.iter().map(|(_, value)| match value {
                Reading::Number(value) => format!(",{value}"),
                list => format!(",\"{list}\""),
            });
            line += &format!("{}{},{:.3}\n", epoch.epoch + 1, values.collect::<String>(), epoch.seconds);
        } else {
            let mut object = serde_json::Map::new();
            object.insert("epoch".into(), (epoch.epoch + 1).into());
            // What is no finite number is null.
            for (name, value) in epoch.results() {
                let value = match value {
                    Reading::Number(value) => value.into(),
                    Reading::List(values) => values.into(),
                };
                object.insert(name, value);
            }
            object.insert("seconds".into(), epoch.seconds.into());
            line = serde_json::Value::Object(object).to_string() + "\n";
        }
        let failed = |error: std::io::Error| Error::data(format!("cannot write {}: {error}", self.path.display()));
        self.file.write_all(line.as_bytes()).map_err(failed)
    }
}
