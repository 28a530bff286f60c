//! Options that watch a result of each epoch: the best checkpoint, early stopping and a smaller
//! learning rate.

use std::path::PathBuf;

use tile_runtime::Error;
use tile_runtime::train::{
    Callback, Checkpoint, EarlyStopping, Epoch, Fit, Monitor, Progress, ReduceOnPlateau,
};

use crate::terminal::{Failure, Terminal};

#[derive(clap::Args)]
pub struct Watch {
    /// Write the weights to this file after each epoch that improves the watched result
    #[arg(long, value_name = "FILE")]
    pub save_best: Option<PathBuf>,
    /// Stop after this many epochs without an improvement
    #[arg(long, value_name = "EPOCHS")]
    pub patience: Option<usize>,
    /// Multiply the learning rate by this factor after `--reduce-after` epochs without an
    /// improvement, as Keras' ReduceLROnPlateau
    #[arg(long, value_name = "FACTOR")]
    reduce_rate: Option<f64>,
    /// The epochs without an improvement before `--reduce-rate` [default: 10]
    #[arg(long, value_name = "EPOCHS", requires = "reduce_rate")]
    reduce_after: Option<usize>,
    /// The result that `--save-best`, `--patience` and `--reduce-rate` watch [default: val_loss, or
    /// loss without validation]
    #[arg(long, value_name = "RESULT")]
    monitor: Option<String>,
    /// Whether smaller or larger values are better [default: by the metric's name]
    #[arg(long, value_name = "min|max", requires = "monitor")]
    mode: Option<Mode>,
    /// The smallest change that is an improvement [default: 0]
    #[arg(long, value_name = "CHANGE", allow_negative_numbers = true)]
    min_delta: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Mode {
    Min,
    Max,
}

impl Watch {
    /// Checks the options' values.
    pub fn check(&self) -> Result<(), Failure> {
        let factor = self.reduce_rate.is_none_or(|factor| factor > 0.0 && factor < 1.0);
        let change = self.min_delta.is_none_or(|change| change >= 0.0 && change.is_finite());
        let has_use =
            self.save_best.is_some() || self.patience.is_some() || self.reduce_rate.is_some();
        match (factor, change) {
            (false, _) => {
                Err(Failure::usage("expected a factor above 0 and below 1 for `--reduce-rate`"))
            }
            (_, false) => Err(Failure::usage("expected a number of at least 0 for `--min-delta`")),
            _ if !has_use && (self.monitor.is_some() || self.min_delta.is_some()) => {
                Err(Failure::usage(
                    "nothing uses `--monitor` or `--min-delta`: give `--save-best`, `--patience` or `--reduce-rate`",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the watched result, and what improves it.
    pub fn monitor(&self, has_validation: bool) -> Monitor {
        let default = if has_validation { "val_loss" } else { "loss" };
        let mut monitor = Monitor::of(self.monitor.as_deref().unwrap_or(default));
        if let Some(mode) = self.mode {
            monitor.larger_is_better = mode == Mode::Max;
        }
        monitor.least_change = self.min_delta.unwrap_or(0.0);
        monitor
    }

    /// Adds the callbacks. `rate_factor` is the factor of the learning rate before training.
    pub fn apply<'a>(
        &self,
        mut fit: Fit<'a>,
        monitor: &Monitor,
        rate_factor: f64,
        terminal: &'a Terminal,
    ) -> Fit<'a> {
        if let Some(path) = &self.save_best {
            fit = fit.callback(Checkpoint::best(path, monitor.clone()));
        }
        if let Some(factor) = self.reduce_rate {
            let plateau =
                ReduceOnPlateau::new(monitor.clone(), factor, self.reduce_after.unwrap_or(10));
            fit = fit.callback(plateau).callback(RateNote { factor: rate_factor, terminal });
        }
        if let Some(patience) = self.patience {
            fit = fit.callback(EarlyStopping::new(monitor.clone(), patience));
        }
        fit
    }
}

/// Notes each change of the learning rate.
struct RateNote<'a> {
    factor: f64,
    terminal: &'a Terminal,
}

impl Callback for RateNote<'_> {
    fn epoch(&mut self, state: &mut Progress, _: &Epoch) -> Result<(), Error> {
        let factor = state.trainer().rate_factor();
        if factor != self.factor {
            self.terminal.note(&format!("the learning rate is now {factor:.3e} of the program's"));
            self.factor = factor;
        }
        Ok(())
    }
}

/// Formats the note for training that `--patience` ended.
pub fn patience_ended(history: &[Epoch], monitor: &Monitor, patience: usize) -> String {
    let name = &monitor.name;
    let sign = if monitor.larger_is_better { -1.0 } else { 1.0 };
    let values = history.iter().filter_map(|epoch| Some((epoch.epoch + 1, epoch.get(name)?)));
    let values = values.filter(|(_, value)| !value.is_nan());
    let best = values.reduce(|best, next| if sign * next.1 < sign * best.1 { next } else { best });
    let best = best.map_or(String::new(), |(epoch, value)| {
        format!("; the best was epoch {epoch}, with {value:.4}")
    });
    let improved = if monitor.larger_is_better { "larger" } else { "smaller" };
    format!(
        "stopped after epoch {}: no {improved} {name} for {patience} epochs{best}",
        history.len()
    )
}
