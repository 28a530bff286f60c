//! Tuning: each kernel's schedules are measured on the device, and the fastest is kept for it.
//!
//! The cost model ranks schedules by prediction, but only the device knows how a driver compiles
//! them. [`SessionBuilder::tune`] takes the kernels of a program one by one, those with the largest
//! share of the time first, and divides its time budget among them by their shares. `search`
//! decides which schedules are measured, and `arena` measures them. The winner is compared with the
//! reference in many places (`sample`) before it counts, so that tuning cannot make a program
//! wrong. It is kept (`kept`) for the device, its driver, this version of the compiler and the
//! kernel, and everything compiled for the device from then on uses it.
//!
//! The results of a tuned kernel may differ from those of the default by the rounding of sums in
//! another order, and by no more. The cpu device has no schedules to choose from: its caches and
//! registers decide how it divides a nest. Nothing is tuned there.

mod arena;
mod device;
mod sample;
mod search;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tile_compiler::dense::Dense;
use tile_compiler::graph::Graph;
use tile_compiler::nest::Nest;
use tile_compiler::pipeline::Options;
use tile_compiler::plan::{Plan, RoutineId, Work};
use tile_compiler::schedule::{Key, Schedule, ranked};
use tile_lang::Sources;

use self::arena::{Arena, Contender};
use crate::backend;
use crate::builder::SessionBuilder;
use crate::device::Device;
use crate::error::Error;

/// To win, a schedule must take less than this fraction of the best time so far. A smaller gain is
/// noise.
const BETTER: f64 = 0.97;

/// The least time for a kernel's search, in seconds, while there is time at all.
const LEAST: f64 = 0.5;

/// The options of tuning.
///
/// ```
/// use std::time::Duration;
/// use tile_runtime::tune::Tune;
/// use tile_runtime::{Device, Model};
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let tuning = model.on(&Device::cpu()).dim("N", 8).tune(Tune::within(Duration::from_secs(1)))?;
/// assert!(tuning.kernels.is_empty()); // The cpu device has nothing to tune.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tune<'a> {
    budget: Duration,
    again: bool,
    watch: Option<Watch<'a>>,
}

type Watch<'a> = Box<dyn FnMut(&Progress) -> ControlFlow<()> + 'a>;

impl<'a> Tune<'a> {
    /// Tunes for about this long, all kernels together. Stops earlier where no further gain is
    /// expected.
    pub fn within(budget: Duration) -> Tune<'a> {
        Tune { budget, again: false, watch: None }
    }

    /// Searches again also the kernels whose search has finished before.
    pub fn again(self) -> Tune<'a> {
        Tune { again: true, ..self }
    }

    /// Returns one of `parts` equal shares of the time.
    pub(crate) fn share(&mut self, parts: usize) -> Tune<'_> {
        let watch = self.watch.as_mut().map(|watch| -> Watch<'_> { Box::new(watch) });
        Tune { budget: self.budget / parts.max(1) as u32, again: self.again, watch }
    }

    /// Calls `watch` now and then. It may stop the tuning; the results until then are kept.
    pub fn watch(self, watch: impl FnMut(&Progress) -> ControlFlow<()> + 'a) -> Tune<'a> {
        Tune { watch: Some(Box::new(watch)), ..self }
    }
}

/// The progress of tuning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The kernel whose schedules are being searched.
    pub kernel: &'a str,
    /// The number of the kernel, from 0.
    pub number: usize,
    /// The number of kernels.
    pub kernels: usize,
    /// The number of its schedules measured so far.
    pub measured: usize,
    /// The best time so far, relative to that of the default.
    pub ratio: f64,
    /// The time since tuning began.
    pub elapsed: Duration,
    /// The time that tuning may take.
    pub budget: Duration,
}

/// A schedule, and the seconds of a launch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Timed {
    /// The schedule.
    pub schedule: Schedule,
    /// The median time of a launch, in seconds.
    pub seconds: f64,
}

/// The result for one kernel.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TunedKernel {
    /// The name of the kernel.
    pub name: String,
    /// The launches in a run of the program.
    pub launches: u64,
    /// The schedule without tuning.
    pub default: Timed,
    /// The best schedule, which is the default if no other is better.
    pub tuned: Timed,
    /// The number of schedules measured.
    pub measured: usize,
    /// The number of schedules that suit the kernel.
    pub candidates: usize,
    /// Whether the search finished, now or earlier. If not, the next tuning continues it.
    pub finished: bool,
    /// Whether the result was known before, so that nothing was measured.
    pub known: bool,
}

/// The results of tuning, in the order of the kernels' first steps.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Tuning {
    /// The kernels that were measured or known. Empty if the device has nothing to tune: see
    /// [`Device::tuning`].
    pub kernels: Vec<TunedKernel>,
    /// Whether all searches finished. If not, the next tuning continues some.
    pub finished: bool,
    /// A sentence for each schedule that ran on the device but computed wrong values. None of these
    /// is kept.
    pub wrong: Vec<String>,
    /// The file that the results are kept in, if any.
    pub file: Option<PathBuf>,
}

impl Tuning {
    /// Returns the seconds of all launches of a run, under the default schedules and under the
    /// tuned ones.
    pub fn totals(&self) -> (f64, f64) {
        let total = |of: fn(&TunedKernel) -> f64| {
            self.kernels.iter().map(|kernel| kernel.launches as f64 * of(kernel)).sum()
        };
        (total(|kernel| kernel.default.seconds), total(|kernel| kernel.tuned.seconds))
    }
}

/// A kernel that is to be tuned.
struct Subject<'p> {
    nest: &'p Nest,
    key: Key,
    launches: u64,
    candidates: Vec<(f64, Schedule)>,
    /// Whether each candidate was measured.
    tried: Vec<bool>,
    finished: bool,
    /// The seconds of a launch under the default schedule.
    seconds: f64,
    /// The index in the report.
    at: usize,
}

impl Subject<'_> {
    /// Returns the seconds of all its launches in a run.
    fn share(&self) -> f64 {
        self.launches as f64 * self.seconds
    }
}

impl SessionBuilder<'_> {
    /// Measures schedules for the program's kernels, and keeps the best ones for the device. Later
    /// builds for the device use them, in this and in other processes. See [`crate::tune`]. Does
    /// nothing on a device that has nothing to tune.
    ///
    /// # Errors
    /// Returns the errors of [`SessionBuilder::build`]. Results measured before an error are kept.
    pub fn tune(&self, tune: Tune) -> Result<Tuning, Error> {
        let (model, precision) = (self.request.model, self.request.precision);
        let graph = precision.rounded(self.network()?.graph);
        let options = precision.with(Options::default());
        tune_graph(graph, self.on, model.sources(), &options, tune)
    }
}

/// Tunes the kernels of the graph's plan: see [`SessionBuilder::tune`].
pub(crate) fn tune_graph(
    mut graph: Graph,
    device: &Device,
    sources: &Sources,
    options: &Options,
    tune: Tune,
) -> Result<Tuning, Error> {
    tune_plan(&backend::plan(&mut graph, &device.profile(), sources, options)?, device, tune)
}

/// Tunes the kernels that each run of `plan` launches. The plan must have been made without tuned
/// schedules.
///
/// # Errors
/// If the device fails. The results until then are kept.
fn tune_plan(plan: &Plan, device: &Device, tune: Tune) -> Result<Tuning, Error> {
    if device.tuning().is_err() {
        return Ok(Tuning { finished: true, ..Tuning::default() });
    }
    let (started, bench) = (Instant::now(), device.for_tuning());
    let mut hall = Hall {
        device,
        bench,
        tune,
        started,
        stopped: false,
        kernels: Vec::new(),
        wrong: Vec::new(),
    };
    let mut subjects = hall.qualify(plan)?;
    let total = subjects.len();
    // The kernels with the largest share come first.
    subjects.sort_by(|a, b| b.share().total_cmp(&a.share()));
    // Time that a search leaves goes to those after it, and in the second round to those that were
    // cut short.
    for _ in 0..2 {
        let mut left: f64 =
            subjects.iter().filter(|subject| !subject.finished).map(Subject::share).sum();
        for (number, subject) in
            subjects.iter_mut().enumerate().filter(|(_, subject)| !subject.finished)
        {
            let part = if left > 0.0 { (subject.share() / left).min(1.0) } else { 1.0 };
            let seconds = (hall.remaining().as_secs_f64() * part).max(LEAST);
            left -= subject.share();
            if hall.goes_on(subject.nest, number, total, 0, 1.0) {
                hall.search(
                    subject,
                    number,
                    total,
                    Instant::now() + Duration::from_secs_f64(seconds),
                )?;
            }
        }
    }
    let finished = hall.kernels.iter().flatten().all(|kernel| kernel.finished) && !hall.stopped;
    let kernels = hall.kernels.into_iter().flatten().collect();
    Ok(Tuning { kernels, finished, wrong: hall.wrong, file: device.tuned_file() })
}

/// The state of tuning one program's kernels.
struct Hall<'t> {
    device: &'t Device,
    /// The same device, without the files in which compiled kernels are kept.
    bench: Device,
    tune: Tune<'t>,
    started: Instant,
    stopped: bool,
    /// The results, by routine.
    kernels: Vec<Option<TunedKernel>>,
    wrong: Vec<String>,
}

impl Hall<'_> {
    fn remaining(&self) -> Duration {
        self.tune.budget.saturating_sub(self.started.elapsed())
    }

    /// Returns whether there is time left and the tuning has not been stopped.
    fn goes_on(
        &mut self,
        nest: &Nest,
        number: usize,
        kernels: usize,
        measured: usize,
        ratio: f64,
    ) -> bool {
        let (elapsed, budget) = (self.started.elapsed(), self.tune.budget);
        let kernel = &nest.name;
        if let Some(watch) = &mut self.tune.watch {
            let progress = Progress { kernel, number, kernels, measured, ratio, elapsed, budget };
            self.stopped |= watch(&progress).is_break();
        }
        self.stopped |= elapsed >= budget;
        !self.stopped
    }

    /// Returns the kernels to be searched, with the times of their defaults. Records the results of
    /// those that are known.
    fn qualify<'p>(&mut self, plan: &'p Plan) -> Result<Vec<Subject<'p>>, Error> {
        let mut launches: Dense<RoutineId, u64> = Dense::of(0, plan.routines.len());
        for (step, turns) in plan.steps.iter().zip(plan.turns()) {
            launches[step.routine] = launches[step.routine].saturating_add(turns);
        }
        self.kernels = vec![None; plan.routines.len()];
        let mut subjects = Vec::new();
        for (at, (routine, launches)) in plan.routines.iter().zip(launches).enumerate() {
            let Work::Nest(nest) = &routine.work else { continue };
            // Each turn changes what the next one reads, so that no single turn can be checked.
            if nest.loops > 0 && nest.outputs.iter().any(|output| output.over.is_some()) {
                continue;
            }
            let (key, candidates) = (Key::of(nest), ranked(nest, &plan.profile));
            let Some((_, default)) = candidates.first().filter(|_| launches > 0) else { continue };
            let timed = |seconds: f64| Timed { schedule: default.clone(), seconds };
            let mut kernel = TunedKernel {
                name: routine.name.clone(),
                launches,
                default: timed(0.0),
                tuned: timed(0.0),
                measured: 0,
                candidates: candidates.len(),
                finished: false,
                known: false,
            };
            let known = self.device.tuned_entry(key).filter(|(_, tuned, finished)| {
                *finished
                    && !self.tune.again
                    && candidates.iter().any(|(_, schedule)| *schedule == tuned.schedule)
            });
            if let Some((seconds, tuned, _)) = known {
                kernel.default.seconds = seconds;
                self.kernels[at] =
                    Some(TunedKernel { tuned, finished: true, known: true, ..kernel });
                continue;
            }
            let (tried, finished, seconds) = (Vec::new(), false, 0.0);
            let mut subject =
                Subject { nest, key, launches, candidates, tried, finished, seconds, at };
            if !self.goes_on(nest, 0, plan.routines.len(), 0, 1.0) {
                break;
            }
            let default = kernel.default.schedule.clone();
            if let Some(contender) =
                allowed(self.arena(nest).and_then(|mut arena| arena.enter(&default)))?.flatten()
            {
                subject.seconds = contender.seconds;
                (kernel.default.seconds, kernel.tuned.seconds) =
                    (contender.seconds, contender.seconds);
                kernel.measured = 1;
                self.kernels[at] = Some(kernel);
                subjects.push(subject);
            }
        }
        Ok(subjects)
    }

    fn arena<'n>(&self, nest: &'n Nest) -> Result<Arena<'n>, Error> {
        Arena::new(self.bench.clone(), nest)
    }

    /// Searches the schedules of a kernel until `deadline`, and keeps the best.
    fn search(
        &mut self,
        subject: &mut Subject,
        number: usize,
        total: usize,
        deadline: Instant,
    ) -> Result<(), Error> {
        let Some(mut arena) = allowed(self.arena(subject.nest))? else { return Ok(()) };
        let Subject { nest, key, candidates, tried, .. } = subject;
        let (nest, key) = (*nest, *key);
        let Some(mut default) = allowed(arena.enter(&candidates[0].1))?.flatten() else {
            return Ok(());
        };
        let known = self.device.tuned_entry(key).map(|(_, tuned, _)| tuned.schedule);
        let known =
            known.and_then(|known| candidates.iter().position(|(_, schedule)| *schedule == known));
        let mut best: Option<Contender> = None;
        let state = std::cell::Cell::new((1, 1.0));
        let mut wrong = Vec::new();
        let searched = search::search::<Error>(
            candidates,
            known,
            tried,
            |number| {
                let (measured, ratio) = state.get();
                state.set((measured + 1, ratio));
                let Some(mut challenger) = allowed(arena.enter(&candidates[number].1))?.flatten()
                else {
                    return Ok(false);
                };
                let holder = best.as_mut().unwrap_or(&mut default);
                let gain = arena.compare(&mut challenger, holder)?;
                if gain >= BETTER {
                    return Ok(false);
                }
                if let Err(what) = arena.check(&mut challenger)? {
                    let schedule = &challenger.schedule;
                    wrong.push(format!("kernel {} under {schedule}: {what}", nest.name));
                    return Ok(false);
                }
                // The gains are multiplied, because the default's seconds were measured at another
                // time, when the machine may have been faster or slower.
                state.set((measured + 1, ratio * gain));
                best = Some(challenger);
                Ok(true)
            },
            || {
                let (measured, ratio) = state.get();
                self.goes_on(nest, number, total, measured, ratio) && Instant::now() < deadline
            },
        )?;
        // Compares once more, side by side: the best of many measurements looks better than it is.
        let won = match &mut best {
            Some(best) => arena.compare(best, &mut default)? < 1.0,
            None => false,
        };
        let best = best.as_ref().filter(|_| won).unwrap_or(&default);
        let tuned = Timed { schedule: best.schedule.clone(), seconds: best.seconds };
        let is_right = won || {
            let checked = arena.check(&mut default)?;
            checked
                .map_err(|what| {
                    wrong.push(format!("kernel {} as it is by default: {what}", nest.name))
                })
                .is_ok()
        };
        if is_right {
            self.device.keep_tuned(key, default.seconds, &tuned, searched.finished);
        }
        self.wrong.append(&mut wrong);
        subject.finished = searched.finished;
        if let Some(kernel) = &mut self.kernels[subject.at] {
            kernel.default.seconds = default.seconds;
            (kernel.tuned, kernel.finished) = (tuned, searched.finished);
            kernel.measured = subject.tried.iter().filter(|tried| **tried).count();
        }
        Ok(())
    }
}

/// Turns a lack of memory into `None`: a kernel that is too large to be measured beside copies of
/// its inputs does not stop the tuning.
fn allowed<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::OutOfMemory { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
