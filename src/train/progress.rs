//! What a person sees of training: on a terminal a line that moves, as Keras has it, else a line for each epoch.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tile_runtime::Error;
use tile_runtime::train::{Callback, Epoch, Progress, Reading};

use crate::terminal::Terminal;

pub struct Line {
    quiet: bool,
    /// None where standard error is no terminal.
    bar: Option<ProgressBar>,
}

impl Line {
    pub fn new(terminal: &Terminal) -> Line {
        let shown = !terminal.quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{prefix} {pos}/{len} {bar:24.green/dim} {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸━"))
        });
        Line { quiet: terminal.quiet, bar }
    }
}

impl Callback for Line {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        let Some(bar) = &self.bar else { return Ok(()) };
        bar.set_prefix(title(state));
        bar.set_length(state.steps as u64);
        bar.set_position(state.step as u64);
        let each = state.elapsed.as_secs_f64() / state.step.max(1) as f64;
        let left = (each * (state.steps - state.step) as f64).round();
        // Reading waits for the device: now and then is enough.
        let often = (0.2 / each.max(1e-9)).ceil() as usize;
        if state.step.is_multiple_of(often.max(1)) {
            let results = state.so_far()?;
            bar.set_message(format!("{left}s {}/step{}", time(each), listed("", &results)));
        }
        Ok(())
    }

    fn epoch(&mut self, state: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let line = format!("{} {}/{} {}", title(state), state.steps, state.steps, text(epoch, state.steps));
        match &self.bar {
            Some(bar) => {
                bar.suspend(|| eprintln!("{line}"));
                bar.reset();
            }
            None if self.quiet => {}
            None => eprintln!("{line}"),
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

/// ` - loss: 0.1234 - accuracy: 0.9`
fn listed(prefix: &str, results: &[(String, Reading)]) -> String {
    results.iter().map(|(name, value)| format!(" - {prefix}{name}: {value:.4}")).collect()
}

fn time(seconds: f64) -> String {
    if seconds >= 1.0 { format!("{seconds:.1}s") } else { format!("{:.1}ms", seconds * 1e3) }
}
