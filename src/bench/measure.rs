//! Timing of one case on one device.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tile_runtime::cpu::Stopwatch;
use tile_runtime::{Cost, Device, Error, Session, SessionBuilder, Tensor};

use super::memory;
use super::profile::Traced;
use super::training::Training;
use super::workload::{Budget, Case, Point};
use crate::arguments::{Sizes, setting_text};
use crate::inputs::Inputs;
use crate::precision::Precision;
use crate::random::random;
use crate::source::Source;
use crate::terminal::{Failure, Terminal};
use crate::tune::Tuned;
use crate::weights::WeightsOptions;

/// The seed of the weights and inputs.
const SEED: u64 = 1;

/// The least seconds of a repetition on the cpu and on a GPU. Shorter ones would measure the clock,
/// or on a GPU the time to submit runs and to wait for the last one.
const REPETITION: f64 = 1e-3;
const REPETITION_OF_GPU: f64 = 1e-2;

/// The measurements of a case. Times are in seconds.
pub struct Measurement {
    pub workload: String,
    /// The place of this case in a sweep.
    pub point: Option<Point>,
    pub device: String,
    /// Sizes and settings: `M=K=N=256`.
    pub variant: String,
    /// The time to the first result on the host, from the start of a process that does only this:
    /// parsing the command line, opening the device, reading, checking and compiling the program,
    /// initialising its weights and inputs, and one run.
    pub first_result: f64,
    /// The median time of a run with all inputs and weights on the device, where the outputs stay.
    /// For training, of a step, including the time to gather its batch from samples in host memory.
    pub median: f64,
    pub fastest: f64,
    pub repetitions: usize,
    /// The cost of a run. `None` without a plan.
    pub cost: Option<Cost>,
    /// The process's peak memory in bytes during the measurement, if the system reports it.
    pub peak_memory: Option<u64>,
}

impl Measurement {
    /// Returns the float operations a second.
    pub fn flops(&self) -> Option<f64> {
        Some(self.cost?.flops as f64 / self.median)
    }

    /// Returns the bytes of inputs, weights and outputs a second.
    pub fn bandwidth(&self) -> Option<f64> {
        Some(self.cost?.bytes as f64 / self.median)
    }
}

/// Options of a measurement.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The number of repetitions. `None`: as many as fit the case's budget.
    pub iterations: Option<usize>,
    /// Whether to time the kernels after the runs, if the device can.
    pub traces: bool,
    /// The options to tune kernels before the runs.
    pub tuned: &'a Tuned,
    /// The weights, random without a file.
    pub weights: &'a WeightsOptions,
    /// The narrower types of an inference.
    pub precision: Precision,
}

/// Refuses inputs, weights and narrower types for a case that trains: it makes its data itself, and
/// trains in the types of the program.
fn refuse_inputs_of_training(case: &Case, inputs: &Inputs, wanted: &Wanted) -> Result<(), Failure> {
    let taken = inputs.input.first().map(|(name, _)| format!("input `{name}`"));
    let taken = taken.or((!wanted.weights.is_empty()).then(|| "weights".into()));
    let narrow = || "`--factors`, `--storage` or `--weights-type`".into();
    let taken = taken.or(wanted.precision.is_narrow().then(narrow));
    match (&case.training, taken) {
        (Some(_), Some(what)) => Err(Failure::usage(format!(
            "`{}` trains on data of its own, and takes no {what}",
            case.workload
        ))),
        _ => Ok(()),
    }
}

/// Measures a case. `startup` is the time from the process's start until the device was open.
pub fn measure(
    case: &Case,
    inputs: &Inputs,
    device: &Device,
    startup: Duration,
    wanted: Wanted<'_>,
    terminal: &Terminal,
) -> Result<(Measurement, Option<Traced>), Failure> {
    let sizes = &inputs.sizes;
    refuse_inputs_of_training(case, inputs, &wanted)?;
    let load = || match case.text {
        Some(text) => Source::of(case.path.as_ref(), text.to_string(), terminal),
        None => Source::load_packed(case.path.as_ref(), sizes.entry.as_deref(), terminal),
    };
    wanted.tuned.apply(device, terminal, |tune| {
        let source = load()?;
        match &case.training {
            None => {
                let given = inputs.read(&source)?;
                let builder = builder(case, inputs, &source, device, &given, wanted.precision)?;
                builder.tune(tune).map_err(|error| source.failed(&error))
            }
            Some(samples) => {
                Training::new(sizes, &source, device, samples, batch(case, sizes))?.tune(tune)
            }
        }
    })?;
    memory::forget_peak();
    let started = Instant::now();
    let source = load()?;
    let failed = |error: Error| source.failed(&error);
    let traced = |session: &mut Session| match wanted.traces {
        true => Traced::new(session).map_err(failed),
        false => Ok(None),
    };
    let (first_result, times, cost, peak_memory, traced) = match &case.training {
        None => {
            let mut session = ready(case, inputs, &source, device, wanted, terminal)?;
            let repeat = |session: &mut Session, runs| session.repeat(runs).map_err(failed);
            repeat(&mut session, 1)?;
            session.read().map_err(failed)?;
            let first_result = startup + started.elapsed();
            let least = if device.name() == "cpu" { REPETITION } else { REPETITION_OF_GPU };
            let times =
                times(|runs| repeat(&mut session, runs), least, case.budget, wanted.iterations)?;
            let peak_memory = memory::peak();
            (first_result, times, session.cost(), peak_memory, traced(&mut session)?)
        }
        Some(samples) => {
            let batch = batch(case, sizes);
            let mut first =
                Training::new(sizes, &source, device, samples, batch)?.into_session()?;
            first.repeat(1).map_err(failed)?;
            let first_result = startup + started.elapsed();
            let mut training = Training::new(sizes, &source, device, samples, batch)?;
            let steps = training.steps();
            let epochs = |runs| (0..runs).try_for_each(|_| training.epoch());
            let mut times = times(epochs, REPETITION, case.budget, wanted.iterations)?;
            times.iter_mut().for_each(|time| *time /= steps as f64);
            let peak_memory = memory::peak();
            let mut session = training.into_session()?;
            (first_result, times, session.cost(), peak_memory, traced(&mut session)?)
        }
    };
    let measurement = Measurement {
        workload: case.workload.clone(),
        point: case.point.clone(),
        device: device.name().to_string(),
        variant: variant(case, sizes, wanted.precision),
        first_result: first_result.as_secs_f64(),
        median: times[times.len() / 2],
        fastest: times[0],
        repetitions: times.len(),
        cost,
        peak_memory,
    };
    terminal.warn_of(device);
    detail(&measurement, startup, terminal);
    Ok((measurement, traced))
}

/// Prints how long a case took to its first result.
fn detail(measurement: &Measurement, startup: Duration, terminal: &Terminal) {
    let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    terminal.detail(&format!(
        "{} {}: first result {}, of which {} until the device was open; median {}",
        measurement.workload,
        measurement.variant,
        milliseconds(measurement.first_result),
        milliseconds(startup.as_secs_f64()),
        milliseconds(measurement.median),
    ));
}

/// Returns the samples in a training step: the case's only size.
fn batch(case: &Case, sizes: &Sizes) -> usize {
    let known = || case.dims.iter().map(|(name, size)| (name, *size));
    let is_batch = |(name, _): &(&String, usize)| known().any(|(known, _)| known == *name);
    sizes.dims().rev().chain(known()).find(is_batch).map_or(1, |(_, size)| size)
}

/// Returns a session builder for the case's sizes and the tensors `given`.
fn builder<'a>(
    case: &Case,
    inputs: &Inputs,
    source: &'a Source,
    device: &'a Device,
    given: &BTreeMap<String, Tensor>,
    precision: Precision,
) -> Result<SessionBuilder<'a>, Failure> {
    let builder = precision.apply(source.model.on(device));
    inputs.apply(
        case.dims.iter().fold(builder, |builder, (name, size)| builder.dim(name, *size)),
        source,
        given,
    )
}

/// Compiles the case, and sets all its weights and inputs.
fn ready(
    case: &Case,
    inputs: &Inputs,
    source: &Source,
    device: &Device,
    wanted: Wanted,
    terminal: &Terminal,
) -> Result<Session, Failure> {
    let failed = |error: Error| source.failed(&error);
    let mut given = inputs.read(source)?;
    let builder = builder(case, inputs, source, device, &given, wanted.precision)?;
    let mut session = builder.build().map_err(failed)?;
    session.initialise(SEED).map_err(failed)?;
    wanted.weights.load(&mut session, SEED, terminal).map_err(failed)?;
    let types: Vec<_> = session.inputs().map(|(name, ty)| (name.to_string(), ty.clone())).collect();
    for (name, ty) in types {
        let tensor = given.remove(&name).or_else(|| random(ty.clone(), &name, SEED));
        let tensor = tensor.ok_or_else(|| {
            Failure::input(format!("input `{name}`, {ty}, is larger than memory can be"))
        })?;
        session.set(&name, &tensor).map_err(failed)?;
    }
    Ok(session)
}

/// Returns the seconds a run of each repetition, in ascending order. A repetition is as many runs
/// as take `least` seconds, and counts with their mean.
fn times(
    mut run: impl FnMut(u32) -> Result<(), Failure>,
    least: f64,
    budget: Budget,
    iterations: Option<usize>,
) -> Result<Vec<f64>, Failure> {
    let mut repeat = |runs: u32| {
        let started = Stopwatch::start();
        run(runs)?;
        Ok(started.elapsed().as_secs_f64() / f64::from(runs))
    };
    let started = Instant::now();
    let (mut last, mut runs) = (0.0, 0);
    // A request for few repetitions also shortens the warm-up.
    let enough = |runs: usize| match iterations {
        Some(iterations) => runs >= iterations.min(3),
        None => runs >= 3 && started.elapsed() >= budget.warm_up,
    };
    while !enough(runs) {
        last = repeat(1)?;
        runs += 1;
    }
    let runs = (least / f64::max(last, 1e-8)).ceil() as u32;
    let started = Instant::now();
    let mut times = Vec::new();
    let enough = |repetitions: usize| match iterations {
        Some(iterations) => repetitions >= iterations,
        None => repetitions >= 5 && (started.elapsed() >= budget.measured || repetitions >= 1000),
    };
    while !enough(times.len()) {
        times.push(repeat(runs)?);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Formats the sizes and settings of a case: `M=K=N=256`, `N=1, T=1024, inference`.
fn variant(case: &Case, sizes: &Sizes, precision: Precision) -> String {
    let mut dims = case.dims.clone();
    for (name, size) in sizes.dims() {
        match dims.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = size,
            None => dims.push((name.clone(), size)),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    // Adjacent names with one size share it.
    for group in dims.chunk_by(|(_, one), (_, next)| one == next) {
        let names: Vec<&str> = group.iter().map(|(name, _)| name.as_str()).collect();
        parts.push(format!("{}={}", names.join("="), group[0].1));
    }
    parts.extend(sizes.shape.iter().map(|(name, ty)| format!("{name}={ty}")));
    parts.extend(sizes.set.iter().map(|(name, value)| format!("{name}={}", setting_text(value))));
    parts.extend(sizes.entry.clone());
    parts.extend(precision.factors.map(|dtype| format!("factors {dtype}")));
    parts.extend(precision.storage.map(|dtype| format!("storage {dtype}")));
    parts.extend(precision.weights_type.map(|dtype| format!("weights {dtype}")));
    parts.extend((!case.remark.is_empty()).then(|| case.remark.to_string()));
    parts.join(", ")
}
