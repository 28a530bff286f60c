//! `tilec bench WHAT`: measures the time to a program's first result, and the time of each run
//! after it.
//!
//! - `workload`: the cases.
//! - `measure`: timing of a case.
//! - `training`: training steps.
//! - `profile`: times of kernels.
//! - `peak`: peak speeds of a device.
//! - `report` and `chart`: output.

mod chart;
mod measure;
mod memory;
mod peak;
mod profile;
pub mod report;
mod training;
mod workload;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tile_runtime::{Device, Error};

use self::measure::{Wanted, measure};
use self::peak::{Peak, peak};
use self::profile::{Profile, Traced};
use self::report::Row;
use self::workload::{ALL, CPU_VS_GPU, Case, NAMES, Point, SWEEPS, Samples, bundled, file};

use crate::devices::open;
use crate::inputs::Inputs;
use crate::precision::Precision;
use crate::source::is_meant_as_a_file;
use crate::terminal::{Failure, Terminal, can_be_written, has_extension, loses_nothing, print};
use crate::trace::TraceFile;
use crate::tune::Tuned;
use crate::weights::WeightsOptions;

#[derive(clap::Args)]
#[command(after_help = "\
First result: seconds from the start of `tilec` (from the first line of its own code: what the system does before that, to
load the program, takes one or two milliseconds) until the first result is on the host: reading, checking and compiling the
program, initialising its weights, and one run.
Median: of the runs after that, with inputs and weights on the device, where the outputs stay.
GFLOP/s: operations on floats, counted from the plan; a multiply-add is two. GB/s: inputs, weights and outputs, each once;
intermediate results are not counted. Peaks are measured in the same process: multiply-adds on registers, and a triad on large arrays.
The bundled workloads: batch 1 and images of 224 x 224 for mobilenet, resnet50 and vgg19; batch 1 and 1024 places for
transformer-encoder; batches of 32 and 128 for mnist-mlp and mnist-cnn, which infer, and then train: there the median is that of a
step (forward, backward, update), with what puts its batch together; 4096 x 1024 for scale (a copy, times 2), elementwise (gelu),
softmax and layernorm (after a gelu); --dim and --set change that. What keeps a GPU busy is measured by `all`: matmul of 4096, the four
just named of 8192 x 4096, mobilenet, resnet50 and transformer-encoder. A GPU is handed as many runs together as take ten milliseconds.
With --profile the times of kernels are the medians of some more runs, on a GPU by its own clock, on the cpu by the host's.")]
pub struct Bench {
    /// A Tile or ONNX file, or a bundled workload: matmul, mobilenet, resnet50, vgg19,
    /// transformer-encoder, mnist-mlp, mnist-cnn, scale, elementwise, softmax, layernorm,
    /// cpu-vs-gpu, all
    #[arg(value_name = "WHAT")]
    what: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    weights: WeightsOptions,
    #[command(flatten)]
    precision: Precision,
    /// Measure a step of the file's `train` block on these samples, as for `train`
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Samples in a step of `--data` [default: the program's]
    #[arg(long, value_name = "N", requires = "data")]
    batch_size: Option<NonZeroUsize>,
    /// The devices to run on, one after another: cpu, wgpu, wgpu:N [default: TILE_DEVICE, else that
    /// of `tilec setup`, else the best real GPU, else cpu; cpu-vs-gpu: cpu and the best GPU]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    device: Vec<String>,
    /// Compute convolutions by direct sums, without Winograd's algorithm, and sums of dequantized
    /// integers in floats
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    tuned: Tuned,
    /// The number of timed repetitions [default: as many as fit some seconds]
    #[arg(long, value_name = "N")]
    iterations: Option<NonZeroUsize>,
    /// Draw the speeds over the sizes of a sweep: of `--dim` with several sizes, matmul or
    /// cpu-vs-gpu
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Draw the sizes of `--dim` on a logarithmic scale
    #[arg(long, requires = "plot")]
    log_x: bool,
    /// Print one line of JSON for each measurement
    #[arg(long)]
    json: bool,
    /// Print the time of each step's kernels, and the share of the device's peak
    #[arg(long)]
    profile: bool,
    /// Write a trace of the kernels' times, for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
}

/// Measures a workload and prints a line for each case. `started` is the time when the process
/// started.
pub fn bench(arguments: &Bench, started: Instant, terminal: &Terminal) -> Result<(), Failure> {
    let cases = cases(arguments)?;
    arguments.plot.iter().try_for_each(|path| has_extension("--plot", path, &["svg"]))?;
    let written: Vec<&Path> =
        arguments.plot.iter().chain(&arguments.trace).map(PathBuf::as_path).collect();
    let files = arguments.inputs.files().chain(arguments.weights.files());
    let read: Vec<&Path> = [&*arguments.what].into_iter().chain(files).collect();
    loses_nothing(&read, &written)?;
    arguments.trace.iter().try_for_each(|path| has_extension("--trace", path, &["json"]))?;
    written.into_iter().try_for_each(can_be_written)?;
    let failed = |error: Error| terminal.failure(&error, &arguments.what);
    let mut devices = open_devices(arguments, started, terminal)?;
    let mut rows = Vec::new();
    let wanted = Wanted {
        iterations: arguments.iterations.map(NonZeroUsize::get),
        traces: arguments.profile || arguments.trace.is_some(),
        tuned: &arguments.tuned,
        weights: &arguments.weights,
        precision: arguments.precision,
    };
    let mut trace_file = TraceFile::default();
    for (case, inputs) in &cases {
        for target in &mut devices {
            let Target { device, adapter, startup, peak: known } = target;
            let (measurement, traced) = measure(case, inputs, device, *startup, wanted, terminal)?;
            // The peak is measured after the first case, so that the case's memory and first result
            // are the program's alone.
            if known.is_none() {
                *known = Some(peak(device).map_err(failed)?);
            }
            let row = Row { measurement, adapter: adapter.clone(), peak: known.flatten() };
            if !arguments.json && rows.is_empty() {
                print(report::HEADER.as_bytes())?;
            }
            print(if arguments.json { row.json() } else { row.text() }.as_bytes())?;
            match &traced {
                Some(Traced { plan, traces }) => {
                    if arguments.profile {
                        let profile = Profile::new(plan, traces);
                        print(
                            if arguments.json {
                                profile.json(&row)
                            } else {
                                profile.text(row.peak)
                            }
                            .as_bytes(),
                        )?;
                    }
                    let what = format!("{} {}", row.measurement.workload, row.measurement.variant);
                    traces
                        .last()
                        .into_iter()
                        .for_each(|trace| trace_file.add(&what, device.name(), plan, trace));
                }
                None if wanted.traces => {
                    terminal.note(&format!("{} has no clock for kernels", device.name()))
                }
                None => {}
            }
            rows.push(row);
        }
    }
    if !arguments.json {
        for Target { device, adapter, peak, .. } in &devices {
            print(report::footer(device.name(), adapter, peak.flatten()).as_bytes())?;
        }
    }
    if let Some(path) = &arguments.trace {
        trace_file.write(path)?;
    }
    match &arguments.plot {
        Some(path) => chart::draw(&rows, path),
        None => Ok(()),
    }
}

/// Returns the cases, each with its inputs: those of the workload, or one for each size of `--dim`.
fn cases(arguments: &Bench) -> Result<Vec<(Case, Inputs)>, Failure> {
    // Names of bundled workloads are Unicode.
    let what = &*arguments.what.to_string_lossy();
    let Inputs { sizes, input, .. } = &arguments.inputs;
    let swept = sizes.swept();
    if arguments.plot.is_some() && swept.is_none() && !SWEEPS.contains(&what) {
        return Err(Failure::usage(format!(
            "`{what}` is measured in one size: there is nothing to plot; `--dim N=10,100,1000` sweeps over sizes, as do \
             {}",
            SWEEPS.join(" and ")
        )));
    }
    let is_plain = sizes.shape.is_empty()
        && sizes.dim.is_empty()
        && sizes.set.is_empty()
        && sizes.entry.is_none();
    let sized = !(is_plain && input.is_empty());
    if SWEEPS.contains(&what) && sized {
        return Err(Failure::usage(format!(
            "`{what}` sweeps over sizes of its own: give a file, to measure others"
        )));
    }
    if what == ALL && sized {
        return Err(Failure::usage(
            "`all` has sizes of its own: name one of its workloads, to measure others",
        ));
    }
    let batch = arguments.batch_size.map(NonZeroUsize::get);
    let data = arguments.data.clone().map(|data| Samples::User { data, batch });
    let cases = match bundled(what) {
        Some(_) if data.is_some() => {
            return Err(Failure::usage(format!("`{what}` has data of its own: give a file")));
        }
        Some(cases) => cases,
        None if is_meant_as_a_file(&arguments.what) => vec![file(&arguments.what, data)],
        None => {
            let guess = tile_lang::did_you_mean(what, NAMES);
            let help = guess.unwrap_or_else(|| format!("the workloads are {}", NAMES.join(", ")));
            return Err(Failure::usage(format!("there is no workload or file `{what}`; {help}")));
        }
    };
    let Some(swept) = swept else {
        return Ok(cases.into_iter().map(|case| (case, arguments.inputs.clone())).collect());
    };
    let mut points = Vec::new();
    for case in cases {
        for sizes in sizes.sweep()? {
            let size = sizes.dims().find_map(|(name, size)| (name == swept).then_some(size));
            let point =
                size.map(|size| Point { size, axis: swept.to_owned(), log: arguments.log_x });
            points.push((
                Case { point, ..case.clone() },
                Inputs { sizes, ..arguments.inputs.clone() },
            ));
        }
    }
    Ok(points)
}

/// A device to measure.
struct Target {
    device: Device,
    /// The hardware's name.
    adapter: String,
    /// The time from the process's start until the device was open, as if it were the only one.
    startup: Duration,
    /// The outer option is `None` before the measurement, the inner one on a device without a peak.
    peak: Option<Option<Peak>>,
}

/// Opens the requested devices; for `cpu-vs-gpu` without any, the cpu and a GPU, if there is one.
fn open_devices(
    arguments: &Bench,
    started: Instant,
    terminal: &Terminal,
) -> Result<Vec<Target>, Failure> {
    let before = started.elapsed();
    let target = |name: Option<&str>| {
        let opening = Instant::now();
        let device = open(name, arguments.exact, terminal)?;
        let startup = before + opening.elapsed();
        Ok(Target { adapter: device.adapter(), device, startup, peak: None })
    };
    let failed = |error: Error| terminal.failure(&error, &arguments.what);
    let named: Vec<&str> = arguments.device.iter().map(String::as_str).collect();
    let is_duel = arguments.what == Path::new(CPU_VS_GPU);
    match &named[..] {
        [] if !is_duel => Ok(vec![target(None).map_err(failed)?]),
        [] => {
            let mut targets = vec![target(Some("cpu")).map_err(failed)?];
            match target(Some("wgpu")) {
                Ok(other) => targets.push(other),
                Err(error) => terminal.note(&format!("cpu alone is measured: {error}")),
            }
            Ok(targets)
        }
        // A GPU alone is compared with the cpu.
        [gpu] if is_duel && *gpu != "cpu" => {
            ["cpu", *gpu].iter().map(|name| target(Some(name)).map_err(failed)).collect()
        }
        names => names.iter().map(|name| target(Some(name)).map_err(failed)).collect(),
    }
}
