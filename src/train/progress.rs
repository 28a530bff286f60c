//! Progress of training: on a terminal a moving line, as in Keras, else a line for each epoch, and
//! for each tenth of a long one.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressFinish};
use tile_compiler::plan::Plan;
use tile_runtime::train::{Callback, Epoch, Progress, Reading};
use tile_runtime::{Device, Error};

use crate::placement::{self, bytes, grouped};
use crate::terminal::{Terminal, tell};

/// The time between two readings of results for the moving line. Reading waits for the device.
const MOVING: Duration = Duration::from_millis(200);

/// The least time between two lines of one epoch without a terminal.
const APART: Duration = Duration::from_secs(10);

/// Shows the progress of training: a bar on a terminal, else a line from time to time.
pub struct ProgressDisplay<'a> {
    terminal: &'a Terminal,
    device: &'a Device,
    /// The progress bar. `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    /// The time when the results were last shown.
    shown: Instant,
    /// The memory of a step. `None` before the first one.
    memory: Option<String>,
    /// The tenths of the epoch that were shown.
    tenths: usize,
}

impl<'a> ProgressDisplay<'a> {
    pub fn new(terminal: &'a Terminal, device: &'a Device) -> ProgressDisplay<'a> {
        let bar = terminal.progress_bar("{prefix} {pos}/{len} {bar:24.green/dim} {wide_msg}");
        let bar = bar.map(|bar| {
            let bar = bar.with_finish(ProgressFinish::AndClear);
            bar.set_message("compiling");
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        ProgressDisplay { terminal, device, bar, shown: Instant::now(), memory: None, tenths: 0 }
    }

    /// Prints what the first step has shown about the model and the device.
    fn begin(&mut self, state: &mut Progress) {
        let (device, trainer) = (self.device, state.trainer());
        let memory = trainer.plan().map(|plan: &Plan| bytes(plan.memory()));
        let parameters = grouped(trainer.parameters());
        let takes = memory.as_ref().map_or(String::new(), |memory| format!(", {memory} of memory"));
        let header =
            format!("on {} ({}): {parameters} parameters{takes}", device.name(), device.adapter());
        let print = || {
            self.terminal.note(&header);
            placement::detail(trainer.plan(), device, self.terminal);
        };
        match &self.bar {
            Some(bar) => {
                bar.disable_steady_tick();
                bar.suspend(print);
            }
            None => print(),
        }
        self.memory = Some(memory.unwrap_or_default());
    }

    fn show_moving(&mut self, state: &mut Progress, bar: &ProgressBar) -> Result<(), Error> {
        bar.set_length(state.steps as u64);
        bar.set_position(state.step as u64);
        bar.set_prefix(title(state));
        if self.shown.elapsed() >= MOVING {
            let memory = self.memory.as_deref().unwrap_or_default();
            let results = state.so_far()?;
            bar.set_message(format!("{} {memory}{}", remaining(state), listed("", &results)));
            self.shown = Instant::now();
        }
        Ok(())
    }
}

impl Callback for ProgressDisplay<'_> {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        if self.memory.is_none() {
            self.begin(state);
        }
        if let Some(bar) = self.bar.clone() {
            return self.show_moving(state, &bar);
        }
        let tenths = state.step * 10 / state.steps.max(1);
        if !self.terminal.quiet
            && tenths > self.tenths
            && tenths < 10
            && self.shown.elapsed() >= APART
        {
            let results = state.so_far()?;
            let place = format!("{} {}/{}", title(state), state.step, state.steps);
            tell(&format!("{place} {}{}\n", remaining(state), listed("", &results)));
            (self.tenths, self.shown) = (tenths, Instant::now());
        }
        Ok(())
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let line = format!(
            "{} {}/{} {}\n",
            title(state),
            state.steps,
            state.steps,
            text(epoch, state.steps)
        );
        (self.tenths, self.shown) = (0, Instant::now());
        match &self.bar {
            Some(bar) => {
                bar.suspend(|| tell(&line));
                // Clears the results of this epoch.
                bar.set_message("");
                bar.reset();
            }
            None if self.terminal.quiet => {}
            None => tell(&line),
        }
        Ok(())
    }
}

fn title(state: &Progress) -> String {
    format!("Epoch {}/{}", state.epoch + 1, state.epochs)
}

/// Formats the time left in the epoch and the time of a step.
fn remaining(state: &Progress) -> String {
    let each = state.elapsed.as_secs_f64() / state.step.max(1) as f64;
    let left = (each * (state.steps - state.step) as f64).round();
    format!("{left}s {}/step", time(each))
}

fn text(epoch: &Epoch, steps: usize) -> String {
    let each = time(epoch.seconds / steps.max(1) as f64);
    format!(
        "{:.1}s {each}/step{}{}",
        epoch.seconds,
        listed("", &epoch.training),
        listed("val_", &epoch.validation)
    )
}

/// Formats ` - loss: 0.1234 - accuracy: 0.9`.
fn listed(prefix: &str, results: &[(String, Reading)]) -> String {
    results.iter().map(|(name, value)| format!(" - {prefix}{name}: {value:.4}")).collect()
}

fn time(seconds: f64) -> String {
    if seconds >= 1.0 { format!("{seconds:.1}s") } else { format!("{:.1}ms", seconds * 1e3) }
}
