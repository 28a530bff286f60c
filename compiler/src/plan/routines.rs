//! Gives each step its routine: a nest with its schedule, then a kernel. Steps that compute the
//! same share a routine.

use std::collections::HashMap;
use std::sync::Arc;

use crate::dense::Dense;
use crate::native::NativeProgram;
use crate::nest::Nest;
use crate::profile::{Execution, Profile};
use crate::schedule::{self, Choice, Schedule, ScheduleError, Tuned};

use super::draft::{Draft, DraftStep, Names, Source};
use super::{Buffer, BufferId, Content, Plan, PlanError, Port, Routine, RoutineId, Step, Work};

/// Units of work for a new routine, and for each instruction of its nest.
const ROUTINE_UNITS: u64 = 500;
const INSTRUCTION_UNITS: u64 = 20;

/// A plan whose routines have schedules, but no kernels.
pub(crate) struct Scheduled<'g> {
    plan: Plan,
    /// The node that each routine computes in its first step.
    sources: Vec<Source<'g>>,
}

/// Chooses a schedule for each different work of the steps. Schedules in `tuned` take precedence.
pub(crate) fn schedules<'g>(
    mut draft: Draft<'g>,
    tuned: &Tuned,
) -> Result<Scheduled<'g>, PlanError> {
    let (prelude, steps) = (std::mem::take(&mut draft.prelude), std::mem::take(&mut draft.steps));
    let mut routines = Routines {
        profile: draft.profile,
        tuned,
        all: Dense::default(),
        sources: Vec::new(),
        kept: kept(&draft.buffers, &draft.weights, &draft.updates),
        by_work: HashMap::new(),
        of_work: HashMap::new(),
        names: Names::default(),
    };
    let prelude =
        prelude.into_iter().map(|step| routines.step(step)).collect::<Result<_, PlanError>>()?;
    let steps =
        steps.into_iter().map(|step| routines.step(step)).collect::<Result<_, PlanError>>()?;
    let plan = Plan {
        name: draft.graph.name.clone(),
        profile: draft.profile.clone(),
        buffers: draft.buffers,
        slots: Vec::new(),
        routines: routines.all,
        prelude,
        steps,
        loops: draft.loops,
        inputs: draft.inputs,
        weights: draft.weights,
        outputs: draft.outputs,
        updates: draft.updates,
    };
    Ok(Scheduled { plan, sources: routines.sources })
}

/// Returns for each buffer whether its value seldom changes from run to run.
pub(super) fn kept(
    buffers: &Dense<BufferId, Buffer>,
    weights: &[Port],
    updates: &[(usize, usize)],
) -> Dense<BufferId, bool> {
    let is_kept = |buffer: &Buffer| {
        matches!(buffer.content, Content::Weight | Content::Constant(_) | Content::Kept)
    };
    let mut kept: Dense<BufferId, bool> = buffers.iter().map(is_kept).collect();
    updates.iter().for_each(|(weight, _)| kept[weights[*weight].buffer] = false);
    kept
}

impl Plan {
    /// Gives each nest of a plan for processors its native program on the processor of `profile`.
    ///
    /// # Errors
    /// Fails if the plan does not keep the invariants of the [module](super).
    #[cfg(feature = "pack")]
    pub fn make_native(&mut self, profile: &Profile) -> Result<(), String> {
        if self.profile.execution != Execution::Native {
            return Err("the plan is for GPUs".into());
        }
        // Which routines are distinct depends on the processor: two of one plan may be equal here.
        self.verify_steps()?;
        self.verify_slots()?;
        let kept = kept(&self.buffers, &self.weights, &self.updates);
        // Sums that were planned term by term stay so.
        let exact = self.profile.exact || profile.exact;
        let profile = &Profile { exact, ..profile.clone() };
        self.profile.clone_from(profile);
        for step in self.prelude.iter().chain(&self.steps) {
            let routine = &mut self.routines[step.routine];
            if let (Work::Nest(nest), None) = (&routine.work, &routine.native) {
                let is_kept = |operand: usize| kept[step.operands[operand]];
                let program = NativeProgram::new(nest, profile, &is_kept);
                routine.native = Some(Arc::new(program));
            }
        }
        Ok(())
    }
}

/// Writes the kernel of each routine, for profiles that have kernels.
pub(crate) fn kernels(scheduled: Scheduled) -> Result<Plan, PlanError> {
    let Scheduled { mut plan, sources } = scheduled;
    for (routine, source) in plan.routines.iter_mut().zip(sources) {
        let error = |error| schedule_error(source, error, &plan.profile);
        let shader = plan.profile.execution == Execution::Shader;
        routine.kernel = match (&routine.work, &routine.schedule) {
            (Work::PrngValue { elements }, _) if shader => {
                Some(schedule::prng_value(&routine.name, *elements).map_err(error)?)
            }
            (Work::PrngState { elements }, _) if shader => {
                Some(schedule::prng_state(&routine.name, *elements).map_err(error)?)
            }
            (Work::Nest(nest), Some(schedule)) => {
                schedule::kernel(nest, schedule, &plan.profile).map_err(error)?
            }
            _ => None,
        };
    }
    Ok(plan)
}

/// The routines so far.
struct Routines<'a, 'g> {
    profile: &'g Profile,
    tuned: &'a Tuned,
    all: Dense<RoutineId, Routine>,
    sources: Vec<Source<'g>>,
    /// For each buffer, whether its value seldom changes.
    kept: Dense<BufferId, bool>,
    /// The routine for each work and, for native programs, which operands are kept. The keys have
    /// no names.
    by_work: HashMap<(Work, Vec<bool>), RoutineId>,
    /// The routines for each work.
    of_work: HashMap<Work, Vec<RoutineId>>,
    names: Names,
}

impl<'g> Routines<'_, 'g> {
    fn step(&mut self, step: DraftStep<'g>) -> Result<Step, PlanError> {
        let DraftStep { values, fused, routine, work, operands, outputs, source } = step;
        let is_native =
            self.profile.execution == Execution::Native && matches!(work, Work::Nest(_));
        let kept =
            if is_native { operands.iter().map(|&id| self.kept[id]).collect() } else { Vec::new() };
        let routine = self.routine(source, &routine, work, kept)?;
        Ok(Step { values, fused, routine, operands, outputs })
    }

    /// Returns a routine that does `work` on operands of which these are `kept`: an existing one,
    /// or else a new one with a name like `name`.
    fn routine(
        &mut self,
        source: Source<'g>,
        name: &str,
        mut work: Work,
        kept: Vec<bool>,
    ) -> Result<RoutineId, PlanError> {
        let key = (work.anonymous(), kept);
        if let Some(&known) = self.by_work.get(&key) {
            return Ok(known);
        }
        let instructions = match &work {
            Work::Nest(nest) => nest.body.insts.len() + nest.epilogue.insts.len(),
            Work::PrngValue { .. } | Work::PrngState { .. } => 0,
        };
        let counted =
            source.graph.budget.spend(ROUTINE_UNITS + INSTRUCTION_UNITS * instructions as u64);
        counted.map_err(|exceeded| source.exceeded(exceeded))?;
        let (mut schedule, mut choice, mut native) = (None, Choice::Predicted, None);
        if let Work::Nest(nest) = &work {
            nest.verify()?;
            check_limits(source, nest, self.profile)?;
            match self.profile.execution {
                Execution::Native => {
                    let program = NativeProgram::new(nest, self.profile, &|operand| key.1[operand]);
                    let others = self.of_work.get(&key.0).into_iter().flatten();
                    let is_same = |id: &&RoutineId| {
                        self.all[**id].native.as_ref().is_some_and(|n| n.equals(&program))
                    };
                    if let Some(&same) = others.into_iter().find(is_same) {
                        self.by_work.insert(key, same);
                        return Ok(same);
                    }
                    schedule = Some(Schedule::Native(program.method()));
                    native = Some(program);
                }
                Execution::Shader => {
                    let (chosen, how) = self.tuned.choose(nest, self.profile);
                    (schedule, choice) = (Some(chosen), how);
                }
            }
        }
        let name = self.names.unique(name);
        if let Work::Nest(nest) = &mut work {
            nest.name.clone_from(&name);
        }
        if let Some(program) = &mut native {
            program.name.clone_from(&name);
        }
        let id = self.all.push(Routine {
            name,
            work,
            schedule,
            choice,
            kernel: None,
            native: native.map(Arc::new),
        });
        self.sources.push(source);
        self.of_work.entry(key.0.clone()).or_default().push(id);
        self.by_work.insert(key, id);
        Ok(id)
    }
}

/// Rejects a nest with types that the device lacks, or with more tensors than a kernel can bind.
fn check_limits(source: Source, nest: &Nest, profile: &Profile) -> Result<(), PlanError> {
    let tensors = nest.operands.len() + nest.outputs.len();
    if tensors > profile.max_buffers as usize {
        return Err(source.unsupported(profile, format!("kernel that binds {tensors} tensors")));
    }
    let programs = nest.body.insts.iter().chain(&nest.epilogue.insts);
    let missing = programs.map(|(_, dtype)| *dtype).find(|&d| profile.storage(d).is_none());
    match missing {
        Some(dtype) => Err(source.unsupported(profile, format!("values of type {dtype}"))),
        None => Ok(()),
    }
}

fn schedule_error(source: Source, error: ScheduleError, profile: &Profile) -> PlanError {
    match error {
        ScheduleError::Unsupported(unsupported) => source.unsupported(profile, unsupported.what),
        ScheduleError::TooManyPlaces => {
            let elements = source.graph.node(source.id).ty.elements();
            source.unsupported(profile, format!("launch large enough for {elements} elements"))
        }
        ScheduleError::Invalid(_) | ScheduleError::Internal(_) => PlanError::Schedule(error),
    }
}

impl Scheduled<'_> {
    /// Checks what [`Plan::verify`] does, except for kernels.
    pub(crate) fn verify(&self) -> Result<(), String> {
        self.plan.verify_routines()
    }
}
