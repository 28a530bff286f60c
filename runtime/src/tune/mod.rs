//! Tuning: each kernel's schedules are measured on the device, and the fastest is kept for it.
//!
//! The cost model ranks schedules by predictions; what a driver makes of them, only the device knows. [`SessionBuilder::tune`] takes
//! the kernels of a program one by one, those first on which most of the time goes, and divides the time that it is given among them by
//! their shares: `search` decides which schedules are measured, `arena` measures them. The winner is held to the reference in many
//! places (`sample`) before it counts, so that tuning can't make a program wrong; and it is kept (`kept`) for the device, its driver,
//! this version of the compiler and the kernel, to be used by whatever is compiled for the device from then on.
//!
//! What a tuned kernel computes may differ from what the default computes by the rounding of sums in another order, and by no more.
//! The cpu device has no schedules to choose from: how it divides a nest follows from its caches and registers. Nothing is tuned there.

mod arena;
mod device;
#[cfg(feature = "wgpu")]
mod kept;
mod sample;
mod search;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tile_compiler::nest::Nest;
use tile_compiler::plan::{Plan, Work};
use tile_compiler::schedule::{Key, Schedule, ranked};

use self::arena::{Arena, Contender};
#[cfg(feature = "wgpu")]
pub(crate) use self::kept::{Entry, Kept};
use crate::device::Device;
use crate::error::Error;
#[cfg(doc)]
use crate::model::SessionBuilder;

/// A schedule must take less than this of the time of the best one before it, to win: less is noise.
const BETTER: f64 = 0.97;

/// The least that a kernel's search is given, in seconds, as long as there is time at all.
const LEAST: f64 = 0.5;

/// How a program is to be tuned.
pub struct Tune<'a> {
    budget: Duration,
    again: bool,
    watch: Option<Watch<'a>>,
}

type Watch<'a> = Box<dyn FnMut(&Progress) -> ControlFlow<()> + 'a>;

impl<'a> Tune<'a> {
    /// For about so long, all kernels together; less where there is nothing more to be expected.
    pub fn within(budget: Duration) -> Tune<'a> {
        Tune { budget, again: false, watch: None }
    }

    /// Kernels whose search has come to its end before are searched again, too.
    pub fn again(self) -> Tune<'a> {
        Tune { again: true, ..self }
    }

    /// Calls `watch` now and then, which may end it all: what was found until then is kept.
    pub fn watch(self, watch: impl FnMut(&Progress) -> ControlFlow<()> + 'a) -> Tune<'a> {
        Tune { watch: Some(Box::new(watch)), ..self }
    }
}

/// How far tuning is.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The kernel that is searched.
    pub kernel: &'a str,
    /// Its number, from 0, among so many.
    pub number: usize,
    pub kernels: usize,
    /// Schedules of it that were measured.
    pub measured: usize,
    /// The best time so far beside the default's, which is 1.
    pub ratio: f64,
    pub elapsed: Duration,
    pub budget: Duration,
}

/// A schedule with the seconds that a launch takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    pub schedule: Schedule,
    pub seconds: f64,
}

/// What was found of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedKernel {
    pub name: String,
    /// Launches of it in a run.
    pub launches: u64,
    /// What it gets without tuning.
    pub default: Timed,
    /// The best one; the default where no other is better.
    pub tuned: Timed,
    /// Schedules measured, and how many there are.
    pub measured: usize,
    pub candidates: usize,
    /// Whether the search came to its end, now or earlier: if not, another goes on.
    pub finished: bool,
    /// Whether all this was known before, and nothing was measured.
    pub known: bool,
}

/// What came of tuning, in the order of the kernels' first steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    /// Those that were measured, or known. None where the device has nothing to tune: see [`Device::tuning`].
    pub kernels: Vec<TunedKernel>,
    /// Whether all searches came to their ends: otherwise there are kernels that another one would go on with.
    pub finished: bool,
    /// A sentence for each schedule that the device could run, but that did not compute what it should; none of them was kept.
    pub wrong: Vec<String>,
    /// The file that it is kept in, if it is.
    pub file: Option<PathBuf>,
}

impl Tuning {
    /// Seconds that a run's launches take in all, under the default schedules and under the tuned ones.
    pub fn totals(&self) -> (f64, f64) {
        let total =
            |of: fn(&TunedKernel) -> f64| self.kernels.iter().map(|kernel| kernel.launches as f64 * of(kernel)).sum();
        (total(|kernel| kernel.default.seconds), total(|kernel| kernel.tuned.seconds))
    }
}

/// A kernel that is to be tuned.
struct Subject<'p> {
    nest: &'p Nest,
    key: Key,
    launches: u64,
    candidates: Vec<(f64, Schedule)>,
    /// Those that were measured.
    tried: Vec<bool>,
    finished: bool,
    /// Seconds that the default takes.
    seconds: f64,
    /// Its place in the report.
    at: usize,
}

impl Subject<'_> {
    /// Seconds of a run.
    fn share(&self) -> f64 {
        self.launches as f64 * self.seconds
    }
}

/// Tunes the kernels that each run of `plan`, which was made without tuned schedules, launches.
///
/// # Errors
/// Where the device fails; what was found until then is kept.
pub(crate) fn tune(plan: &Plan, device: &Device, tune: Tune) -> Result<Tuning, Error> {
    if device.tuning().is_err() {
        return Ok(Tuning { finished: true, ..Tuning::default() });
    }
    let (started, bench) = (Instant::now(), device.for_tuning());
    let mut hall = Hall { device, bench, tune, started, stopped: false, kernels: Vec::new(), wrong: Vec::new() };
    let mut subjects = hall.qualify(plan)?;
    let total = subjects.len();
    // Those last on which least of the time goes.
    subjects.sort_by(|a, b| b.share().total_cmp(&a.share()));
    // What a search leaves of its part goes to those after it, and then to those that were cut short.
    for _ in 0..2 {
        let mut left: f64 = subjects.iter().filter(|subject| !subject.finished).map(Subject::share).sum();
        for (number, subject) in subjects.iter_mut().enumerate().filter(|(_, subject)| !subject.finished) {
            let part = if left > 0.0 { (subject.share() / left).min(1.0) } else { 1.0 };
            let seconds = (hall.remaining().as_secs_f64() * part).max(LEAST);
            left -= subject.share();
            if hall.goes_on(subject.nest, number, total, 0, 1.0) {
                hall.search(subject, number, total, Instant::now() + Duration::from_secs_f64(seconds))?;
            }
        }
    }
    let finished = hall.kernels.iter().flatten().all(|kernel| kernel.finished) && !hall.stopped;
    let kernels = hall.kernels.into_iter().flatten().collect();
    Ok(Tuning { kernels, finished, wrong: hall.wrong, file: device.tuned_file() })
}

/// Where one program's kernels are tuned.
struct Hall<'t> {
    device: &'t Device,
    /// The same device, where nothing is kept of what is compiled.
    bench: Device,
    tune: Tune<'t>,
    started: Instant,
    stopped: bool,
    /// By routine.
    kernels: Vec<Option<TunedKernel>>,
    wrong: Vec<String>,
}

impl Hall<'_> {
    fn remaining(&self) -> Duration {
        self.tune.budget.saturating_sub(self.started.elapsed())
    }

    /// Whether there is time left, and nobody wants it to end.
    fn goes_on(&mut self, nest: &Nest, number: usize, kernels: usize, measured: usize, ratio: f64) -> bool {
        let (elapsed, budget) = (self.started.elapsed(), self.tune.budget);
        let kernel = &nest.name;
        if let Some(watch) = &mut self.tune.watch {
            let progress = Progress { kernel, number, kernels, measured, ratio, elapsed, budget };
            self.stopped |= watch(&progress).is_break();
        }
        self.stopped |= elapsed >= budget;
        !self.stopped
    }

    /// The kernels that are to be searched, with the times of their defaults; of the others it notes what is known.
    fn qualify<'p>(&mut self, plan: &'p Plan) -> Result<Vec<Subject<'p>>, Error> {
        let mut launches = vec![0u64; plan.routines.len()];
        for (step, turns) in plan.steps.iter().zip(plan.turns()) {
            launches[step.routine] = launches[step.routine].saturating_add(turns);
        }
        self.kernels = vec![None; plan.routines.len()];
        let mut subjects = Vec::new();
        for (at, (routine, launches)) in plan.routines.iter().zip(launches).enumerate() {
            let Work::Nest(nest) = &routine.work else { continue };
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
                *finished && !self.tune.again && candidates.iter().any(|(_, schedule)| *schedule == tuned.schedule)
            });
            if let Some((seconds, tuned, _)) = known {
                kernel.default.seconds = seconds;
                self.kernels[at] = Some(TunedKernel { tuned, finished: true, known: true, ..kernel });
                continue;
            }
            let (tried, finished, seconds) = (Vec::new(), false, 0.0);
            let mut subject = Subject { nest, key, launches, candidates, tried, finished, seconds, at };
            if !self.goes_on(nest, 0, plan.routines.len(), 0, 1.0) {
                break;
            }
            let default = kernel.default.schedule.clone();
            if let Some(contender) = allowed(self.arena(nest).and_then(|mut arena| arena.enter(&default)))?.flatten() {
                subject.seconds = contender.seconds;
                (kernel.default.seconds, kernel.tuned.seconds) = (contender.seconds, contender.seconds);
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
    fn search(&mut self, subject: &mut Subject, number: usize, total: usize, deadline: Instant) -> Result<(), Error> {
        let Some(mut arena) = allowed(self.arena(subject.nest))? else { return Ok(()) };
        let Subject { nest, key, candidates, tried, .. } = subject;
        let (nest, key) = (*nest, *key);
        let Some(mut default) = allowed(arena.enter(&candidates[0].1))?.flatten() else { return Ok(()) };
        let known = self.device.tuned_entry(key).map(|(_, tuned, _)| tuned.schedule);
        let known = known.and_then(|known| candidates.iter().position(|(_, schedule)| *schedule == known));
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
                let Some(mut challenger) = allowed(arena.enter(&candidates[number].1))?.flatten() else {
                    return Ok(false);
                };
                let holder = best.as_mut().unwrap_or(&mut default);
                let gain = arena.compare(&mut challenger, holder)?;
                if gain >= BETTER {
                    return Ok(false);
                }
                if let Err(what) = arena.check(&mut challenger)? {
                    wrong.push(format!("kernel {} under {}: {what}", nest.name, challenger.schedule));
                    return Ok(false);
                }
                // Gains multiplied: seconds of the default are of another time, when the machine was faster or slower.
                state.set((measured + 1, ratio * gain));
                best = Some(challenger);
                Ok(true)
            },
            || {
                let (measured, ratio) = state.get();
                self.goes_on(nest, number, total, measured, ratio) && Instant::now() < deadline
            },
        )?;
        // Once more, side by side: the best of many measurements looks better than it is.
        let won = match &mut best {
            Some(best) => arena.compare(best, &mut default)? < 1.0,
            None => false,
        };
        let tuned = match best.as_ref().filter(|_| won) {
            Some(best) => Timed { schedule: best.schedule.clone(), seconds: best.seconds },
            None => Timed { schedule: default.schedule.clone(), seconds: default.seconds },
        };
        let is_right = won || {
            let checked = arena.check(&mut default)?;
            checked.map_err(|what| wrong.push(format!("kernel {} as it is by default: {what}", nest.name))).is_ok()
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

/// What a kernel takes that is too large to be measured beside its inputs' copies is no reason to stop.
fn allowed<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::OutOfMemory { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
