//! What a person sees of training: on a terminal a line that moves, as Keras has it, else a line for each epoch.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tile_runtime::train::{Epoch, Progress};

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

    /// Shows a step, or the end of an epoch.
    pub fn show(&mut self, state: &mut Progress) {
        if self.quiet {
            return;
        }
        let title = format!("Epoch {}/{}", state.epoch + 1, state.epochs);
        if let Some(results) = state.results {
            let text = text(results, state.steps);
            match &self.bar {
                Some(bar) => {
                    bar.suspend(|| eprintln!("{title} {}/{} {text}", state.steps, state.steps));
                    bar.reset();
                }
                None => eprintln!("{title} {}/{} {text}", state.steps, state.steps),
            }
            return;
        }
        let Some(bar) = &self.bar else { return };
        bar.set_prefix(title);
        bar.set_length(state.steps as u64);
        bar.set_position(state.step as u64);
        let each = state.elapsed.as_secs_f64() / state.step.max(1) as f64;
        let left = Duration::from_secs_f64(each * (state.steps - state.step) as f64);
        // Reading waits for the device: now and then is enough.
        let often = (0.2 / each.max(1e-9)).ceil() as usize;
        if state.step % often.max(1) == 0
            && let Ok(results) = state.so_far()
        {
            bar.set_message(format!("{}s {}/step{}", left.as_secs(), time(each), listed("", &results)));
        }
    }
}

fn text(epoch: &Epoch, steps: usize) -> String {
    let each = time(epoch.seconds / steps.max(1) as f64);
    format!("{:.1}s {each}/step{}{}", epoch.seconds, listed("", &epoch.training), listed("val_", &epoch.validation))
}

/// ` - loss: 0.1234 - accuracy: 0.9`
fn listed(prefix: &str, results: &[(String, f64)]) -> String {
    results.iter().map(|(name, value)| format!(" - {prefix}{name}: {value:.4}")).collect()
}

fn time(seconds: f64) -> String {
    if seconds >= 1.0 { format!("{seconds:.1}s") } else { format!("{:.1}ms", seconds * 1e3) }
}
