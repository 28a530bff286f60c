//! Times of one case on one device.

use std::time::{Duration, Instant};

use tile_runtime::{Cost, Device, Error, Session, SessionBuilder};

use super::memory;
use super::profile::Traced;
use super::training::Training;
use super::workload::{Budget, Case};
use crate::arguments::{Sizes, setting_text};
use crate::random::random;
use crate::source::Source;
use crate::terminal::{Failure, Terminal};
use crate::tune::Tuned;

/// From what weights and inputs are made: any values will do.
const SEED: u64 = 1;

/// Seconds beside which the clock does not matter, nor the time to hand runs over to a GPU and to wait for the last.
const REPETITION: f64 = 1e-3;
const REPETITION_OF_GPU: f64 = 1e-2;

/// What was measured of a case. Times are in seconds.
pub struct Measurement {
    pub workload: String,
    /// Its place in a sweep.
    pub size: Option<usize>,
    pub device: String,
    /// Sizes and settings: `M=K=N=256`.
    pub variant: String,
    /// To the first result on the host, from the start of a process that does only this: reading the command line, opening the
    /// device, reading, checking and compiling the program, initialising its weights and inputs, and running it once.
    pub first_result: f64,
    /// Of a run, with all inputs and weights on the device, where its outputs stay: half of the repetitions took longer. Of training: of a
    /// step, whose batch was put together from samples of the host's memory.
    pub median: f64,
    pub fastest: f64,
    pub repetitions: usize,
    /// Of a run; `None` where there is no plan.
    pub cost: Option<Cost>,
    /// The most bytes of memory that the process had while it did all this, where the system says.
    pub peak_memory: Option<u64>,
}

impl Measurement {
    /// Operations on floats in a second.
    pub fn flops(&self) -> Option<f64> {
        Some(self.cost?.flops as f64 / self.median)
    }

    /// Bytes of inputs, weights and outputs in a second.
    pub fn bandwidth(&self) -> Option<f64> {
        Some(self.cost?.bytes as f64 / self.median)
    }
}

/// What is to be measured of a case.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// How many repetitions; as many as fit the case's budget, if that is not said.
    pub iterations: Option<usize>,
    /// Whether kernels are to be timed after that, where the device can.
    pub traces: bool,
    /// Whether kernels are to be tuned before.
    pub tuned: &'a Tuned,
}

/// Measures a case. `startup` is the time from the process' start until the device was open.
pub fn measure(
    case: &Case,
    sizes: &Sizes,
    device: &Device,
    startup: Duration,
    wanted: Wanted<'_>,
    terminal: &Terminal,
) -> Result<(Measurement, Option<Traced>), Failure> {
    let load = || match case.text {
        Some(text) => Source::of(case.path.as_ref(), text.to_string(), terminal),
        None => Source::load(case.path.as_ref(), terminal),
    };
    wanted.tuned.apply(device, terminal, |tune| {
        let source = load()?;
        match case.training {
            None => builder(case, sizes, &source, device).tune(tune).map_err(|error| source.failed(&error)),
            Some(_) => Training::new(sizes, &source, device, batch(case, sizes), 1)?.tune(tune),
        }
    })?;
    memory::forget_peak();
    let started = Instant::now();
    let source = load()?;
    let traced = |session: &mut Session| match wanted.traces {
        true => Traced::new(session).map_err(|error| source.failed(&error)),
        false => Ok(None),
    };
    let (first_result, times, cost, peak_memory, traced) = match case.training {
        None => {
            let mut session = ready(case, sizes, &source, device)?;
            let repeat = |session: &mut Session, runs| session.repeat(runs).map_err(|error| source.failed(&error));
            repeat(&mut session, 1)?;
            session.read().map_err(|error| source.failed(&error))?;
            let first_result = startup + started.elapsed();
            let least = if device.name() == "cpu" { REPETITION } else { REPETITION_OF_GPU };
            let times = times(|runs| repeat(&mut session, runs), least, case.budget, wanted.iterations)?;
            let peak_memory = memory::peak();
            (first_result, times, session.cost(), peak_memory, traced(&mut session)?)
        }
        Some(steps) => {
            let batch = batch(case, sizes);
            Training::new(sizes, &source, device, batch, 1)?.epoch()?;
            let first_result = startup + started.elapsed();
            let mut training = Training::new(sizes, &source, device, batch, steps)?;
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
        size: case.size,
        device: device.name().to_string(),
        variant: variant(case, sizes),
        first_result: first_result.as_secs_f64(),
        median: times[times.len() / 2],
        fastest: times[0],
        repetitions: times.len(),
        cost,
        peak_memory,
    };
    terminal.warn_of(device);
    let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
    terminal.detail(&format!(
        "{} {}: first result {}, of which {} until the device was open; median {}",
        measurement.workload,
        measurement.variant,
        milliseconds(measurement.first_result),
        milliseconds(startup.as_secs_f64()),
        milliseconds(measurement.median),
    ));
    Ok((measurement, traced))
}

/// Samples in a step of training: what the case's only size is.
fn batch(case: &Case, sizes: &Sizes) -> usize {
    let is_batch = |(name, _): &&(String, usize)| case.dims.iter().any(|(known, _)| known == name);
    sizes.dim.iter().rev().chain(&case.dims).find(is_batch).map_or(1, |(_, size)| *size)
}

/// The case's program for its sizes.
fn builder<'a>(case: &Case, sizes: &Sizes, source: &'a Source, device: &'a Device) -> SessionBuilder<'a> {
    let builder = source.model.on(device);
    sizes.apply(case.dims.iter().fold(builder, |builder, (name, size)| builder.dim(name, *size)))
}

/// The case compiled, with values for all its weights and inputs.
fn ready(case: &Case, sizes: &Sizes, source: &Source, device: &Device) -> Result<Session, Failure> {
    let failed = |error: Error| source.failed(&error);
    let mut session = builder(case, sizes, source, device).build().map_err(failed)?;
    session.initialise(SEED).map_err(failed)?;
    let inputs: Vec<_> = session.inputs().map(|(name, ty)| (name.to_string(), ty.clone())).collect();
    for (name, ty) in inputs {
        let tensor = random(ty.clone(), &name, SEED)
            .ok_or_else(|| Failure::input(format!("input `{name}`, {ty}, is larger than memory can be")))?;
        session.set(&name, &tensor).map_err(failed)?;
    }
    Ok(session)
}

/// Seconds of each repetition, the least first. A repetition is as many runs as take `least` seconds, and counts by their mean.
fn times(
    mut run: impl FnMut(u32) -> Result<(), Failure>,
    least: f64,
    budget: Budget,
    iterations: Option<usize>,
) -> Result<Vec<f64>, Failure> {
    let mut repeat = |runs: u32| {
        let started = Instant::now();
        run(runs)?;
        Ok(started.elapsed().as_secs_f64() / f64::from(runs))
    };
    let started = Instant::now();
    let (mut last, mut runs) = (0.0, 0);
    // Whoever asks for a few repetitions has no time for much warming up.
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

/// The sizes and settings of a case: `M=K=N=256`, `N=1, T=1024, inference`.
fn variant(case: &Case, sizes: &Sizes) -> String {
    let mut dims = case.dims.clone();
    for (name, size) in &sizes.dim {
        match dims.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = *size,
            None => dims.push((name.clone(), *size)),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    // Neighbours of one size stand together.
    for group in dims.chunk_by(|(_, one), (_, next)| one == next) {
        let names: Vec<&str> = group.iter().map(|(name, _)| name.as_str()).collect();
        parts.push(format!("{}={}", names.join("="), group[0].1));
    }
    parts.extend(sizes.shape.iter().map(|(name, ty)| format!("{name}={ty}")));
    parts.extend(sizes.set.iter().map(|(name, value)| format!("{name}={}", setting_text(value))));
    parts.extend(sizes.entry.clone());
    parts.extend((!case.remark.is_empty()).then(|| case.remark.to_string()));
    parts.join(", ")
}
