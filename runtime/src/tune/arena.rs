//! [`Arena`]: one kernel's nest with memory on a device, where its schedules are timed against each
//! other and checked.
//!
//! A contender is a plan of one step, within as many loops as the nest. All contenders read the
//! same operands. A sample is as many runs as take [`SAMPLE`] seconds on the device's clock.
//! Samples of two contenders alternate, so that both see the same clock rate and the same
//! neighbours, and their medians are compared.

use tile_compiler::dense::Dense;
use tile_compiler::interpret::nest::Written;
use tile_compiler::nest::Nest;
use tile_compiler::plan::{Buffer, BufferId, Content, Loop, Plan, Port, Routine, Step, Work};
use tile_compiler::profile::Profile;
use tile_compiler::schedule::{Choice, Schedule, kernel};
use tile_compiler::tensor::{Tensor, TensorType};

use super::sample::{self, Floats};
use crate::backend::{Executable, block_on};
use crate::device::Device;
use crate::error::Error;
use crate::store::Store;

/// The seconds of a sample: long beside the resolution of the clocks.
const SAMPLE: f64 = 1e-3;

/// The samples of each contender, and of contenders so slow that a sample is one run.
const ROUNDS: usize = 7;
const FEW_ROUNDS: usize = 3;

/// A contender that is slower than the holder by this factor, in two first measurements, is not
/// measured further.
const HOPELESS: f64 = 1.15;

/// The seconds of a run from which on a second first measurement is not needed.
const LONG: f64 = 2e-2;

/// A check is telling if the error bound is at most this fraction (1/16) of the largest value of
/// the output.
const TELLING: f64 = 16.0;

/// A nest on a device, with its operands and expected results.
pub struct Arena<'a> {
    device: Device,
    profile: Profile,
    nest: &'a Nest,
    operands: Vec<Tensor>,
    /// The memory of the operands.
    store: Store,
    is_given: bool,
    expected: Option<Vec<Written>>,
}

/// A schedule's kernel, ready to run.
pub struct Contender {
    pub schedule: Schedule,
    /// The seconds of a launch, as last measured.
    pub seconds: f64,
    executable: Box<dyn Executable>,
    /// The runs of a sample.
    runs: u32,
}

impl<'a> Arena<'a> {
    pub fn new(device: Device, nest: &'a Nest) -> Result<Arena<'a>, Error> {
        let operands = tensors(&device, nest, Floats::Signed)?;
        let (profile, store) = (device.profile(), Store::default());
        Ok(Arena { device, profile, nest, operands, store, is_given: false, expected: None })
    }

    /// Returns the launches in a run of a contender: those of all turns of the loops.
    fn launches(&self) -> f64 {
        self.nest.axes[self.nest.loops()].iter().map(|axis| axis.extent as f64).product()
    }

    /// Compiles a schedule's kernel. Returns `None` if the device cannot.
    ///
    /// # Errors
    /// If the device is lost or has no memory.
    pub fn compile(&mut self, schedule: &Schedule) -> Result<Option<Contender>, Error> {
        let Some(plan) = plan(self.nest, schedule, &self.profile) else { return Ok(None) };
        let executable = match block_on(self.device.0.compile(plan, &mut self.store)) {
            Ok(executable) => executable,
            // A kernel that the driver's compiler rejects, for example as too large, is the
            // schedule's fault.
            Err(Error::Device { .. } | Error::Internal { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut contender =
            Contender { schedule: schedule.clone(), seconds: 0.0, executable, runs: 1 };
        if !self.is_given {
            self.give(&mut contender)?;
            self.is_given = true;
        }
        Ok(Some(contender))
    }

    /// Compiles a schedule's kernel and runs it a few times. Returns `None` if the device cannot.
    ///
    /// # Errors
    /// The errors of [`Arena::compile`].
    pub fn enter(&mut self, schedule: &Schedule) -> Result<Option<Contender>, Error> {
        let Some(mut contender) = self.compile(schedule)? else { return Ok(None) };
        // The first run includes one-time work, so the second one is measured.
        contender.sample()?;
        let mut once = contender.sample()?;
        if once < LONG {
            once = once.min(contender.sample()?);
        }
        contender.runs = (SAMPLE / once.max(1e-9)).ceil().clamp(1.0, 1000.0) as u32;
        contender.seconds =
            if contender.runs > 1 { contender.sample()? } else { once } / self.launches();
        Ok(Some(contender))
    }

    fn give(&self, contender: &mut Contender) -> Result<(), Error> {
        let mut operands = self.operands.iter().enumerate();
        operands.try_for_each(|(number, tensor)| block_on(contender.executable.set(number, tensor)))
    }

    /// Measures the time of `challenger` relative to that of `holder`. Below 1, the challenger is
    /// faster.
    pub fn compare(
        &self,
        challenger: &mut Contender,
        holder: &mut Contender,
    ) -> Result<f64, Error> {
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

    /// Runs a contender once and compares its results with the reference. The inner `Err` describes
    /// the difference.
    pub fn check(&mut self, contender: &mut Contender) -> Result<Result<(), String>, Error> {
        if self.expected.is_none() {
            self.expect(contender)?;
        }
        let Some(expected) = self.expected.as_deref().filter(|expected| !expected.is_empty())
        else {
            return Ok(Err(
                "it cannot be checked: the reference has no finite values for what it was given"
                    .into(),
            ));
        };
        // Overwritten operands have changed.
        if self.nest.outputs.iter().any(|output| output.over.is_some()) {
            self.give(contender)?;
        }
        let outputs = block_on(contender.executable.run(&[]))?;
        let is_wrong = |written: &&Written| {
            let found = outputs
                .get(written.output)
                .filter(|output| written.position < output.ty().elements());
            !found.is_some_and(|output| written.value.allows(output.get(written.position)))
        };
        Ok(match expected.iter().find(is_wrong) {
            None => Ok(()),
            Some(Written { output, position, value }) => {
                let found = outputs
                    .get(*output)
                    .map_or("nothing".into(), |output| output.get(*position).to_string());
                let within = if value.error > 0.0 {
                    format!(" (± {:.1e})", value.error)
                } else {
                    String::new()
                };
                let (value, whose) = (value.value, "a bug of tilec or of the driver");
                Err(format!(
                    "element {position} of output {output} is {found} and not {value}{within}, {whose}"
                ))
            }
        })
    }

    /// Computes the expected results. If these operands give no numbers, they are replaced by
    /// others and given to the contender.
    fn expect(&mut self, contender: &mut Contender) -> Result<(), Error> {
        for floats in [Floats::Signed, Floats::Positive] {
            if floats == Floats::Positive {
                self.operands = tensors(&self.device, self.nest, floats)?;
                self.give(contender)?;
            }
            let expected = sample::expected(self.nest, &self.operands);
            let expected = expected.map_err(Error::bug)?;
            let suffices = 2 * tells(&expected) >= expected.len();
            self.expected = Some(if suffices { expected } else { Vec::new() });
            if suffices {
                break;
            }
        }
        Ok(())
    }
}

/// Counts the telling checks: those whose error bound is small beside the largest value of the
/// output.
fn tells(expected: &[Written]) -> usize {
    let decided = || expected.iter().filter(|written| written.value.is_decided());
    let size = |written: &Written| written.value.value.to_f64().abs();
    let largest =
        |output: usize| decided().filter(|w| w.output == output).map(size).fold(0.0, f64::max);
    let largest: Vec<f64> =
        (0..=expected.iter().map(|w| w.output).max().unwrap_or(0)).map(largest).collect();
    decided().filter(|w| w.value.error <= largest[w.output] / TELLING).count()
}

impl Contender {
    /// Returns the seconds of a run.
    fn sample(&mut self) -> Result<f64, Error> {
        block_on(self.executable.time(self.runs))
    }
}

fn tensors(device: &Device, nest: &Nest, floats: Floats) -> Result<Vec<Tensor>, Error> {
    sample::operands(nest, floats).ok_or_else(|| Error::OutOfMemory {
        device: device.name().into(),
        what: format!("the operands of {}", nest.name),
    })
}

/// Creates the plan of the nest alone. Its operands are weights, so that executables share them.
/// Returns `None` if the schedule gives no kernel.
fn plan(nest: &Nest, schedule: &Schedule, profile: &Profile) -> Option<Plan> {
    let kernel = kernel(nest, schedule, profile).ok()??;
    let buffer = |ty: &TensorType, content: Content| {
        Some(Buffer { ty: ty.clone(), storage: profile.storage(ty.dtype)?, content })
    };
    let operand = |(number, ty): (usize, &TensorType)| {
        let own = buffer(ty, Content::Weight)?;
        let is_in_bytes = nest.in_bytes.contains(&number);
        let storage = if is_in_bytes { ty.dtype } else { own.storage };
        Some(Buffer { storage, ..own })
    };
    let port = |prefix: &str, number: usize, ty: &TensorType, buffer: BufferId| Port {
        name: format!("{prefix}{number}"),
        ty: ty.clone(),
        whole: None,
        buffer,
    };
    let mut buffers: Dense<BufferId, Buffer> =
        nest.operands.iter().enumerate().map(operand).collect::<Option<_>>()?;
    let operands: Vec<BufferId> = buffers.ids().collect();
    let weights = nest.operands.iter().zip(&operands).enumerate();
    let weights = weights.map(|(number, (ty, &id))| port("in", number, ty, id)).collect();
    let mut outputs = Vec::new();
    for (number, output) in nest.outputs.iter().enumerate() {
        let over = output.over.map(|operand| Content::Over { weight: operands[operand] });
        let id = buffers.push(buffer(&output.ty, over.unwrap_or(Content::Output))?);
        outputs.push(port("out", number, &output.ty, id));
    }
    let around = |loops: Vec<Loop>, axis: usize| {
        vec![Loop { steps: 0..1, length: nest.axes[axis].extent, carries: Vec::new(), loops }]
    };
    let routine = Routine {
        name: kernel.name.clone(),
        work: Work::Nest(Box::new(nest.clone())),
        schedule: Some(schedule.clone()),
        choice: Choice::Predicted,
        kernel: Some(kernel),
        native: None,
    };
    let mut routines = Dense::default();
    let step = Step {
        values: vec![nest.name.clone()],
        fused: Vec::new(),
        routine: routines.push(routine),
        operands,
        outputs: outputs.iter().map(|port| port.buffer).collect(),
    };
    Some(Plan {
        name: nest.name.clone(),
        profile: profile.clone(),
        buffers,
        slots: Vec::new(),
        routines,
        prelude: Vec::new(),
        steps: vec![step],
        loops: nest.loops().rev().fold(Vec::new(), around),
        inputs: Vec::new(),
        weights,
        outputs,
        updates: Vec::new(),
    })
}
