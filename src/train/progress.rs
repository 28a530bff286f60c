//! Progress of training: on a terminal a moving line, as in Keras, else a line for each epoch.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tile_runtime::Error;
use tile_runtime::train::{Callback, Epoch, Progress, Reading};

use crate::terminal::{Terminal, tell};

pub struct Line {
    quiet: bool,
    /// The progress bar. `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    /// The time when the results were last read.
    read: Option<Instant>,
}

impl Line {
    pub fn new(terminal: &Terminal) -> Line {
        let shown = !terminal.quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{prefix} {pos}/{len} {bar:24.green/dim} {wide_msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸━"))
        });
        Line { quiet: terminal.quiet, bar, read: None }
    }
}

impl Callback for Line {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        let Some(bar) = &self.bar else { return Ok(()) };
        bar.set_length(state.steps as u64);
        bar.set_position(state.step as u64);
        bar.set_prefix(title(state));
        // Reading waits for the device, so it happens only now and then.
        if self.read.is_none_or(|read| read.elapsed() >= Duration::from_millis(200)) {
            let results = state.so_far()?;
            let each = state.elapsed.as_secs_f64() / state.step.max(1) as f64;
            let left = (each * (state.steps - state.step) as f64).round();
            bar.set_message(format!("{left}s {}/step{}", time(each), listed("", &results)));
            self.read = Some(Instant::now());
        }
        Ok(())
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let line = format!("{} {}/{} {}\n", title(state), state.steps, state.steps, text(epoch, state.steps));
        match &self.bar {
            Some(bar) => {
                bar.suspend(|| tell(&line));
                // Clears the results of this epoch.
                bar.set_message("");
                bar.reset();
                self.read = None;
            }
            None if self.quiet => {}
            None => tell(&line),
        }
        Ok(())
    }
}

fn title(state: &Progress) -> String {
    format!("Epoch {}/{}", state.epoch + 1, state.epochs)
}

fn text(epoch: &Epoch, steps: usize) -> String {
    let each = time(epoch.seconds / steps.max(1) as f64);
    format!("{:.1}s {each}/step{}{}", epoch.seconds, listed("", &epoch.training), listed("val_", &epoch.validation))
}

/// Formats ` - loss: 0.1234 - accuracy: 0.9`.
fn listed(prefix: &str, results: &[(String, Reading)]) -> String {
    results.iter().map(|(name, value)| format!(" - {prefix}{name}: {value:.4}")).collect()
}

fn time(seconds: f64) -> String {
    if seconds >= 1.0 { format!("{seconds:.1}s") } else { format!("{:.1}ms", seconds * 1e3) }
}
