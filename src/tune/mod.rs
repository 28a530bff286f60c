//! `tilec tune FILE`, and `--tune` of other commands: finds the fastest schedules for a program's
//! kernels on a device by measuring. `report` prints them.

mod report;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::ProgressBar;
use tile_runtime::tune::{Progress, Tune as Search, Tuning};
use tile_runtime::{Device, Error};

use crate::devices::open;
use crate::inputs::Inputs;
use crate::interrupt;
use crate::precision::Precision;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, print};

/// The default budget in seconds, for all kernels.
const BUDGET: &str = "60";

#[derive(clap::Args)]
#[command(after_help = "\
Each kernel's schedules are measured in the order of the cost model's predictions until nothing better is to be expected, those
kernels first on which most of the time goes. A winner is held to the reference interpreter in many places before it is kept.
It is kept in the user's cache folder (TILE_CACHE names another) for the device, its driver, this version of tilec and the kernel;
run, bench and train then use it on that device. --emit does not, but for `--target DEVICE`.
Ctrl-C ends the search; what was found is kept, and the next `tilec tune` goes on.")]
pub struct Tune {
    /// A Tile or ONNX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    precision: Precision,
    /// The device to tune for: wgpu, wgpu:N [default: TILE_DEVICE, else that of `tilec setup`,
    /// else the best real GPU, else cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// The time for all kernels together
    #[arg(long, value_name = "SECONDS", default_value = BUDGET, value_parser = seconds)]
    budget: Duration,
    /// Search again kernels whose search has finished
    #[arg(long)]
    again: bool,
    /// Print one line of JSON for each kernel
    #[arg(long)]
    json: bool,
}

/// The tuning options of commands that run programs.
#[derive(clap::Args)]
pub struct Tuned {
    /// Measure schedules for the program's kernels first and keep the fastest: see `tilec tune`
    #[arg(long)]
    tune: bool,
    /// The time for `--tune`, for all kernels of a program together
    #[arg(long, value_name = "SECONDS", default_value = BUDGET, value_parser = seconds, requires = "tune")]
    budget: Duration,
}

/// Parses `60`, `0.5`.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "it wants a number of seconds above 0".to_string())
}

/// Tunes the entry's kernels and prints what was found.
pub fn tune(arguments: &Tune, terminal: &Terminal) -> Result<(), Failure> {
    let source = Source::load(&arguments.file, arguments.inputs.sizes.entry.as_deref(), terminal)?;
    let failed = |error: Error| source.failed(&error);
    let given = arguments.inputs.read(&source)?;
    let device = open(arguments.device.as_deref(), false, terminal).map_err(failed)?;
    let builder = arguments.precision.apply(arguments.inputs.builder(&source, &device, &given)?);
    if let Err(why) = device.tuning() {
        // Errors of the program are reported all the same.
        builder.network().map_err(failed)?;
        let others =
            Device::list().into_iter().filter(|info| info.name != "cpu").map(|info| info.name);
        let others: Vec<String> = others.collect();
        let others = if others.is_empty() {
            String::new()
        } else {
            format!("; this machine has also {}", others.join(", "))
        };
        terminal.note(&format!("{why}{others}"));
        return Ok(());
    }
    interrupt::watch()?;
    let search = Search::within(arguments.budget);
    let search = if arguments.again { search.again() } else { search };
    let tuning = watched(search, terminal, |search| builder.tune(search)).map_err(failed)?;
    told(&tuning, &device, terminal);
    let text = if arguments.json {
        report::json(&tuning, &device)
    } else {
        report::text(&tuning, &device)
    };
    print(text.as_bytes())?;
    if interrupt::happened() { Err(Failure::interrupted()) } else { Ok(()) }
}

impl Tuned {
    /// Tunes by the function `tune` if `--tune` is given.
    pub fn apply(
        &self,
        device: &Device,
        terminal: &Terminal,
        tune: impl FnOnce(Search) -> Result<Tuning, Failure>,
    ) -> Result<(), Failure> {
        if !self.tune {
            return Ok(());
        }
        if let Err(why) = device.tuning() {
            terminal.note_once(why);
            return Ok(());
        }
        interrupt::watch()?;
        let tuning = watched(Search::within(self.budget), terminal, tune)?;
        told(&tuning, device, terminal);
        if !tuning.kernels.is_empty() {
            terminal.note(&report::summary(&tuning));
        }
        if interrupt::happened() {
            return Err(Failure::interrupted());
        }
        interrupt::unwatch();
        Ok(())
    }
}

/// Searches until Ctrl-C, with a progress bar on a terminal.
fn watched<E>(
    search: Search,
    terminal: &Terminal,
    tune: impl FnOnce(Search) -> Result<Tuning, E>,
) -> Result<Tuning, E> {
    let bar = terminal.progress_bar("{prefix} {bar:24.green/dim} {wide_msg}");
    let watch = |progress: &Progress| {
        if let Some(bar) = &bar {
            bar.set_length(progress.budget.as_millis() as u64);
            bar.set_position(progress.elapsed.as_millis() as u64);
            bar.set_prefix(format!("kernel {}/{}", progress.number + 1, progress.kernels));
            let faster = 1.0 / progress.ratio;
            bar.set_message(format!(
                "{}: {} schedules, {faster:.2} times as fast",
                progress.kernel, progress.measured
            ));
        }
        if interrupt::happened() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let result = tune(search.watch(watch));
    bar.iter().for_each(ProgressBar::finish_and_clear);
    result
}

/// Notes rejected schedules and the device's warnings.
fn told(tuning: &Tuning, device: &Device, terminal: &Terminal) {
    for wrong in &tuning.wrong {
        terminal.note(&format!("not kept: {wrong}"));
    }
    terminal.warn_of(device);
}
