//! [`Arena`]: one kernel's nest with memory on a device, where its schedules are timed against each other and checked.
//!
//! A contender is a plan of one step, in as many loops as the nest is in; all contenders read the same operands. A sample is as many
//! runs as take [`SAMPLE`] seconds, by the device's clock; samples of two contenders take turns, so that both see the same clock
//! rate and the same neighbours, and their medians are compared.

use tile_compiler::interpret::nest::Written;
use tile_compiler::nest::Nest;
use tile_compiler::plan::{Buffer, Content, Loop, Plan, Port, Routine, Step, Work};
use tile_compiler::profile::Profile;
use tile_compiler::schedule::{Choice, Schedule, kernel};
use tile_compiler::tensor::{Tensor, TensorType};

use super::sample::{self, Floats};
use crate::device::Device;
use crate::error::Error;
use crate::executable::Executable;
use crate::store::Store;

/// Seconds beside which neither the device's clock nor the host's matters.
const SAMPLE: f64 = 1e-3;

/// Samples of each of two contenders, and of long ones, of which a sample has one run.
const ROUNDS: usize = 7;
const FEW_ROUNDS: usize = 3;

/// A contender that is so much slower at first sight, and at the second one, is not looked at again.
const HOPELESS: f64 = 1.15;

/// Seconds of a run after which another tells nothing new at first sight.
const LONG: f64 = 2e-2;

/// What is off by less than this part of the largest value of an output need not be noticed.
const TELLING: f64 = 16.0;

/// See the module's head.
pub struct Arena<'a> {
    device: Device,
    profile: Profile,
    nest: &'a Nest,
    operands: Vec<Tensor>,
    /// The operands' memory.
    store: Store,
    is_given: bool,
    expected: Option<Vec<Written>>,
}

/// A schedule's kernel, ready to run.
pub struct Contender {
    pub schedule: Schedule,
    /// Seconds of a launch, as last measured.
    pub seconds: f64,
    executable: Executable,
    /// Runs in a sample.
    runs: u32,
}

impl<'a> Arena<'a> {
    pub fn new(device: Device, nest: &'a Nest) -> Result<Arena<'a>, Error> {
        let operands = tensors(&device, nest, Floats::Signed)?;
        let (profile, store) = (device.profile(), Store::default());
        Ok(Arena { device, profile, nest, operands, store, is_given: false, expected: None })
    }

    /// The launches of a run of a contender: those of all turns.
    fn launches(&self) -> f64 {
        self.nest.axes[self.nest.loops()].iter().map(|axis| axis.extent as f64).product()
    }

    /// Compiles a schedule's kernel; `None` where the device cannot.
    ///
    /// # Errors
    /// Where the device is lost or has no memory.
    pub fn compile(&mut self, schedule: &Schedule) -> Result<Option<Contender>, Error> {
        let Some(plan) = plan(self.nest, schedule, &self.profile) else { return Ok(None) };
        let executable = match pollster::block_on(Executable::new(&self.device, plan, &mut self.store)) {
            Ok(executable) => executable,
            // What a driver's compiler does not take, such as too large a kernel, is the schedule's fault.
            Err(Error::Device { .. } | Error::Internal { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut contender = Contender { schedule: schedule.clone(), seconds: 0.0, executable, runs: 1 };
        if !self.is_given {
            self.give(&mut contender)?;
            self.is_given = true;
        }
        Ok(Some(contender))
    }

    /// Compiles a schedule's kernel and runs it a few times; `None` where the device cannot.
    ///
    /// # Errors
    /// Those of [`Arena::compile`].
    pub fn enter(&mut self, schedule: &Schedule) -> Result<Option<Contender>, Error> {
        let Some(mut contender) = self.compile(schedule)? else { return Ok(None) };
        // Whatever only a first run does is done by the second one.
        contender.sample()?;
        let mut once = contender.sample()?;
        if once < LONG {
            once = once.min(contender.sample()?);
        }
        contender.runs = (SAMPLE / once.max(1e-9)).ceil().clamp(1.0, 1000.0) as u32;
        contender.seconds = if contender.runs > 1 { contender.sample()? } else { once } / self.launches();
        Ok(Some(contender))
    }

    fn give(&self, contender: &mut Contender) -> Result<(), Error> {
        let mut operands = self.operands.iter().enumerate();
        operands.try_for_each(|(number, tensor)| pollster::block_on(contender.executable.set(number, tensor)))
    }

    /// The time of `challenger` beside that of `holder`, which is 1: below 1 it is faster.
    pub fn compare(&self, challenger: &mut Contender, holder: &mut Contender) -> Result<f64, Error> {
        if challenger.seconds > HOPELESS * holder.seconds {
            let again = challenger.sample()? / self.launches();
            if again > HOPELESS * holder.seconds {
                return Ok(again / holder.seconds);
            }
        }
        let rounds = if challenger.runs > 1 { ROUNDS } else { FEW_ROUNDS };
        let mut times = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
        for _ in 0..rounds {
            times[0].push(challenger.sample()?);
            times[1].push(holder.sample()?);
        }
        let [new, old] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[rounds / 2] / self.launches()
        });
        (challenger.seconds, holder.seconds) = (new, old);
        Ok(if old > 0.0 { new / old } else { 1.0 })
    }

    /// Runs a contender once, and holds what it writes to the reference: `Err` says what is wrong.
    pub fn check(&mut self, contender: &mut Contender) -> Result<Result<(), String>, Error> {
        if self.expected.is_none() {
            self.expect(contender)?;
        }
        let Some(expected) = self.expected.as_deref().filter(|expected| !expected.is_empty()) else {
            return Ok(Err("it cannot be checked: the reference has no finite values for what it was given".into()));
        };
        // Those that are written over have changed.
        if self.nest.outputs.iter().any(|output| output.over.is_some()) {
            self.give(contender)?;
        }
        let outputs = pollster::block_on(contender.executable.run())?;
        let is_wrong = |written: &&Written| {
            let found = outputs.get(written.output).filter(|output| written.position < output.ty().elements());
            !found.is_some_and(|output| written.value.allows(output.get(written.position)))
        };
        Ok(match expected.iter().find(is_wrong) {
            None => Ok(()),
            Some(Written { output, position, value }) => {
                let found = outputs.get(*output).map_or("nothing".into(), |output| output.get(*position).to_string());
                let within = if value.error > 0.0 { format!(" (± {:.1e})", value.error) } else { String::new() };
                let (value, whose) = (value.value, "a bug of tilec or of the driver");
                Err(format!("element {position} of output {output} is {found} and not {value}{within}, {whose}"))
            }
        })
    }

    /// Asks the reference; operands are others, and given anew, where these give no numbers.
    fn expect(&mut self, contender: &mut Contender) -> Result<(), Error> {
        for floats in [Floats::Signed, Floats::Positive] {
            if floats == Floats::Positive {
                self.operands = tensors(&self.device, self.nest, floats)?;
                self.give(contender)?;
            }
            let expected = sample::expected(self.nest, &self.operands);
            let expected = expected.map_err(|error| Error::Internal { what: error.to_string() })?;
            let suffices = 2 * tells(&expected) >= expected.len();
            self.expected = Some(if suffices { expected } else { Vec::new() });
            if suffices {
                break;
            }
        }
        Ok(())
    }
}

/// How many of the values a wrong one would be told from: their bounds are small beside the largest value of their output.
fn tells(expected: &[Written]) -> usize {
    let decided = || expected.iter().filter(|written| written.value.is_decided());
    let size = |written: &Written| written.value.value.to_f64().abs();
    let largest = |output: usize| decided().filter(|w| w.output == output).map(size).fold(0.0, f64::max);
    let largest: Vec<f64> = (0..=expected.iter().map(|w| w.output).max().unwrap_or(0)).map(largest).collect();
    decided().filter(|w| w.value.error <= largest[w.output] / TELLING).count()
}

impl Contender {
    /// Seconds of a run.
    fn sample(&mut self) -> Result<f64, Error> {
        pollster::block_on(self.executable.time(self.runs))
    }
}

fn tensors(device: &Device, nest: &Nest, floats: Floats) -> Result<Vec<Tensor>, Error> {
    sample::operands(nest, floats).ok_or_else(|| Error::OutOfMemory {
        device: device.name().into(),
        what: format!("the operands of {}", nest.name),
    })
}

/// The plan of a nest alone: its operands are weights, so that executables share them. `None` where the schedule gives no kernel.
fn plan(nest: &Nest, schedule: &Schedule, profile: &Profile) -> Option<Plan> {
    let kernel = kernel(nest, schedule, profile).ok()??;
    let buffer = |ty: &TensorType, content: Content| {
        Some(Buffer { ty: ty.clone(), storage: profile.storage(ty.dtype)?, content })
    };
    let port = |prefix: &str, number: usize, ty: &TensorType, buffer: usize| Port {
        name: format!("{prefix}{number}"),
        ty: ty.clone(),
        buffer,
    };
    let mut buffers: Vec<Buffer> = nest.operands.iter().map(|ty| buffer(ty, Content::Weight)).collect::<Option<_>>()?;
    let weights = nest.operands.iter().enumerate().map(|(number, ty)| port("in", number, ty, number)).collect();
    let mut outputs = Vec::new();
    for (number, output) in nest.outputs.iter().enumerate() {
        outputs.push(port("out", number, &output.ty, buffers.len()));
        let content = output.over.map_or(Content::Output, |weight| Content::Over { weight });
        buffers.push(buffer(&output.ty, content)?);
    }
    let step = Step {
        values: vec![nest.name.clone()],
        fused: Vec::new(),
        routine: 0,
        operands: (0..nest.operands.len()).collect(),
        outputs: (nest.operands.len()..buffers.len()).collect(),
    };
    let around = |loops: Vec<Loop>, axis: usize| {
        vec![Loop { steps: 0..1, length: nest.axes[axis].extent, carries: Vec::new(), loops }]
    };
    let routine = Routine {
        name: kernel.name.clone(),
        work: Work::Nest(Box::new(nest.clone())),
        schedule: Some(schedule.clone()),
        choice: Choice::Predicted,
        kernel: Some(kernel),
    };
    Some(Plan {
        name: nest.name.clone(),
        profile: profile.clone(),
        buffers,
        slots: Vec::new(),
        routines: vec![routine],
        prelude: Vec::new(),
        steps: vec![step],
        loops: nest.loops().rev().fold(Vec::new(), around),
        inputs: Vec::new(),
        weights,
        outputs,
        updates: Vec::new(),
    })
}
