//! The steps of a plan, prepared for this device.
//!
//! Work that depends only on weights and constants is done once for all runs, and again after a
//! weight was given: the plan's prelude, and the packing of operands. A weight that is read only in
//! packed form is kept only in packed form.
//!
//! Other operands that a loop does not change, such as weights in training, are packed in its first
//! turn.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tile_compiler::dense::Dense;
use tile_compiler::plan::{BufferId, Content, Launch, Loop, Plan, RoutineId, Work};

use super::prepared::{Packed, Prepared};
use super::{Operand, Operands, Output, Outputs, Stopwatch};
use crate::host::{RunMemory, Taken};
use crate::prng;
use crate::trace::TimedLaunch;

/// The work of a step.
enum StepWork {
    Nest {
        nest: Arc<Prepared>,
        /// The entry of [`PreparedSteps::packs`] that it reads.
        pack: Option<usize>,
        /// For an entry that is packed in the first turn of a loop, if this is the first step that
        /// reads it: the number of loops around that loop.
        packed_at_depth: Option<usize>,
    },
    /// A generator of random numbers, as the plan describes it.
    Generator(Work),
}

/// Operands packed ahead, for the steps that run one nest on them.
struct Pack {
    nest: Arc<Prepared>,
    /// The buffers of the nest's operands. Only those of packed operands matter.
    operands: Vec<BufferId>,
    /// The loop in whose first turn they are packed. `None`: they are packed ahead of the steps.
    steady: Option<Steady>,
    packed: Option<Arc<Packed>>,
}

impl Pack {
    /// Packs operands, in the memory of their earlier values if no other plan shares it.
    fn pack(&mut self, operands: &[Operand]) {
        let room = self.packed.take().and_then(Arc::into_inner);
        self.packed = self.nest.pack(operands, room).map(Arc::new);
    }
}

/// A loop that does not change the operands of a step.
#[derive(Clone, PartialEq)]
struct Steady {
    steps: Range<usize>,
    /// The number of loops around it.
    depth: usize,
    /// How often the step runs in it.
    runs: usize,
}

impl Steady {
    /// Finds the outermost loop around the step with this `number` that changes none of `operands`.
    fn find(plan: &Plan, number: usize, operands: &[BufferId]) -> Option<Steady> {
        let around = |loops: &'_ [Loop]| -> Option<usize> {
            loops.iter().position(|around| around.steps.contains(&number))
        };
        let (mut loops, mut depth) = (&plan.loops, 0);
        loop {
            let outer = &loops[around(loops)?];
            let written = plan.steps[outer.steps.clone()].iter().flat_map(|step| &step.outputs);
            let mut written = written.chain(carried(outer));
            if !written.any(|buffer| operands.contains(buffer)) {
                let (mut runs, mut inner) = (outer.length, outer);
                while let Some(next) = around(&inner.loops) {
                    inner = &inner.loops[next];
                    runs = runs.saturating_mul(inner.length);
                }
                return Some(Steady { steps: outer.steps.clone(), depth, runs });
            }
            (loops, depth) = (&outer.loops, depth + 1);
        }
    }
}

/// Returns the buffers of all that a loop and those within it carry, but for the first values.
fn carried(around: &Loop) -> Vec<&BufferId> {
    let own = around.carries.iter();
    let own = own.flat_map(|carry| [&carry.before, &carry.next, &carry.last, &carry.other]);
    own.chain(around.loops.iter().flat_map(carried)).collect()
}

/// A plan's prepared steps.
pub struct PreparedSteps {
    /// The steps of the prelude, in order.
    ahead: Vec<StepWork>,
    steps: Vec<StepWork>,
    packs: Vec<Pack>,
    /// For each buffer that has no memory because it is kept only in packed form, the packs that
    /// hold it.
    only_packed: HashMap<BufferId, Vec<usize>>,
    /// Whether a weight was given since the prelude ran.
    stale: bool,
}

impl PreparedSteps {
    /// Prepares the plan's steps, each of which must have a native program.
    pub fn new(plan: &Plan) -> Result<PreparedSteps, &'static str> {
        let is_kept = |content: &Content| {
            matches!(content, Content::Weight | Content::Constant(_) | Content::Kept)
        };
        let mut kept: Dense<BufferId, bool> =
            plan.buffers.iter().map(|buffer| is_kept(&buffer.content)).collect();
        plan.updates.iter().for_each(|(weight, _)| kept[plan.weights[*weight].buffer] = false);
        let mut prepared: HashMap<RoutineId, Arc<Prepared>> = HashMap::new();
        let mut steps = PreparedSteps {
            ahead: vec![],
            steps: vec![],
            packs: vec![],
            only_packed: HashMap::new(),
            stale: true,
        };
        for (number, step) in plan.all_steps().enumerate() {
            let ahead = number < plan.prelude.len();
            let routine = &plan.routines[step.routine];
            let work = match &routine.work {
                Work::Nest(_) => {
                    let program = routine.native.clone().ok_or("a step has no native program")?;
                    let nest = prepared
                        .entry(step.routine)
                        .or_insert_with(|| Arc::new(Prepared::new(program)))
                        .clone();
                    let read: Vec<BufferId> =
                        nest.packs().iter().map(|&operand| step.operands[operand]).collect();
                    let is_ahead = read.iter().all(|&buffer| kept[buffer]);
                    let steady = (!ahead && !is_ahead)
                        .then(|| Steady::find(plan, number - plan.prelude.len(), &read))
                        .flatten()
                        .filter(|steady| nest.pays_to_pack(steady.runs));
                    let pays = !ahead && !read.is_empty() && (is_ahead || steady.is_some());
                    let known = steps.packs.len();
                    let pack = pays.then(|| steps.pack(&nest, &step.operands, steady.as_ref()));
                    let is_new = steps.packs.len() > known;
                    let packed_at_depth = steady.filter(|_| is_new).map(|steady| steady.depth);
                    StepWork::Nest { nest, pack, packed_at_depth }
                }
                generator => StepWork::Generator(generator.clone()),
            };
            if ahead { &mut steps.ahead } else { &mut steps.steps }.push(work);
        }
        steps.only_packed = steps.find_only_packed(plan);
        Ok(steps)
    }

    /// Returns the number of the pack of these operands of the nest, which is added if it is new.
    fn pack(
        &mut self,
        nest: &Arc<Prepared>,
        operands: &[BufferId],
        steady: Option<&Steady>,
    ) -> usize {
        let packs = nest.packs();
        let same = |pack: &Pack| {
            Arc::ptr_eq(&pack.nest, nest)
                && pack.steady.as_ref() == steady
                && packs.iter().all(|&operand| pack.operands[operand] == operands[operand])
        };
        self.packs.iter().position(same).unwrap_or_else(|| {
            let (nest, operands, steady) = (nest.clone(), operands.to_vec(), steady.cloned());
            self.packs.push(Pack { nest, operands, steady, packed: None });
            self.packs.len() - 1
        })
    }

    /// Finds the weights that are read only in packed form, each with its packs. Each pack must
    /// hold the whole weight.
    fn find_only_packed(&self, plan: &Plan) -> HashMap<BufferId, Vec<usize>> {
        let weights = plan.weights.iter().map(|port| port.buffer);
        let mut whole: HashSet<BufferId> = plan.outputs.iter().map(|port| port.buffer).collect();
        whole.extend(plan.all_loops().flat_map(|around| &around.carries).map(|carry| carry.first));
        let works = || self.ahead.iter().chain(&self.steps).zip(plan.all_steps());
        let packs = |id: BufferId| -> Option<Vec<usize>> {
            let mut found = Vec::new();
            for (work, step) in works().filter(|(_, step)| step.operands.contains(&id)) {
                let StepWork::Nest { nest, pack: Some(pack), .. } = work else { return None };
                let holds =
                    |(operand, &buffer): (usize, &BufferId)| buffer != id || nest.holds(operand);
                if self.packs[*pack].steady.is_some()
                    || !step.operands.iter().enumerate().all(holds)
                {
                    return None;
                }
                found.push(*pack);
            }
            (!found.is_empty()).then_some(found)
        };
        weights.filter(|id| !whole.contains(id)).filter_map(|id| Some((id, packs(id)?))).collect()
    }

    /// Returns the buffers that need no memory.
    pub fn without_memory(&self) -> Vec<BufferId> {
        self.only_packed.keys().copied().collect()
    }

    /// Returns the bytes that packed operands take, and those that a run keeps at most.
    pub fn bytes(&self) -> u64 {
        let packs = self
            .packs
            .iter()
            .fold(0u64, |bytes, pack| bytes.saturating_add(pack.nest.packed_bytes()));
        let working = self.ahead.iter().chain(&self.steps).map(|work| match work {
            StepWork::Nest { nest, pack, .. } => nest.working_bytes(pack.is_some()),
            StepWork::Generator(_) => 0,
        });
        packs.saturating_add(working.max().unwrap_or(0))
    }

    /// Takes a weight's new value. A weight without memory is packed from `value`, whose bytes must
    /// be aligned to its elements. Any other weight is already in memory.
    pub fn given(&mut self, id: BufferId, value: Option<&[u8]>) {
        let Some(packs) = self.only_packed.get(&id) else {
            self.stale = true;
            return;
        };
        let Some(value) = value else { return };
        for &number in packs {
            let pack = &mut self.packs[number];
            let bytes = |&buffer: &BufferId| Operand::from(if buffer == id { value } else { &[] });
            let operands: Vec<Operand> = pack.operands.iter().map(bytes).collect();
            pack.pack(&operands);
        }
    }

    /// Shares the packed operands of another plan that are the same as packed operands of this one.
    pub fn share(&mut self, other: &PreparedSteps) {
        for mine in self.packs.iter_mut().filter_map(|pack| pack.packed.as_mut()) {
            let mut theirs = other.packs.iter().filter_map(|pack| pack.packed.as_ref());
            if let Some(same) = theirs.find(|theirs| theirs == &mine) {
                *mine = same.clone();
            }
        }
    }

    /// Restores the bytes of a weight that has no memory.
    pub fn unpacked(&self, id: BufferId) -> Option<Vec<u8>> {
        let pack = &self.packs[*self.only_packed.get(&id)?.first()?];
        pack.nest.unpack(pack.packed.as_ref()?)
    }

    /// Runs every step, after the prelude if that is stale.
    pub fn run(&mut self, plan: &Plan, memory: &mut RunMemory) -> Result<(), &'static str> {
        self.run_prelude(plan, memory)?;
        let Self { steps, packs, .. } = self;
        plan.launches(|launch| steps[launch.number].run(launch, packs, memory))
    }

    /// Runs as [`PreparedSteps::run`] does, and times each launch.
    pub fn trace(
        &mut self,
        plan: &Plan,
        memory: &mut RunMemory,
    ) -> Result<Vec<TimedLaunch>, &'static str> {
        self.run_prelude(plan, memory)?;
        let mut launches = Vec::new();
        let begun = Stopwatch::start();
        plan.launches(|launch| {
            let start = begun.elapsed();
            self.steps[launch.number].run(launch, &mut self.packs, memory)?;
            let seconds = (begun.elapsed() - start).as_secs_f64();
            launches.push(TimedLaunch { step: launch.number, start: start.as_secs_f64(), seconds });
            Ok::<(), &str>(())
        })?;
        Ok(launches)
    }

    /// Runs the prelude if a weight was given since it ran, and packs operands.
    pub fn run_prelude(&mut self, plan: &Plan, memory: &mut RunMemory) -> Result<(), &'static str> {
        if std::mem::take(&mut self.stale) {
            plan.prelude_launches(|launch| {
                self.ahead[launch.number].run(launch, &mut self.packs, memory)
            })?;
            for pack in &mut self.packs {
                let is_only_packed = |id: &BufferId| self.only_packed.contains_key(id);
                if pack.steady.is_some() || pack.operands.iter().any(is_only_packed) {
                    continue;
                }
                let operands: Vec<Operand> =
                    pack.operands.iter().map(|&id| Operand::from(memory.bytes(id))).collect();
                pack.pack(&operands);
            }
        }
        Ok(())
    }
}

impl StepWork {
    fn run(
        &self,
        launch: &Launch,
        packs: &mut [Pack],
        memory: &mut RunMemory,
    ) -> Result<(), &'static str> {
        // The plan guarantees that a step's outputs share no buffer with its operands, except for
        // those that they overwrite.
        let mut taken: SmallVec<[Taken; 2]> =
            launch.outputs.iter().map(|&id| memory.take(id)).collect();
        let result = match self {
            StepWork::Nest { nest, pack, packed_at_depth } => {
                let operands: Operands =
                    launch.operands.iter().map(|&id| Operand::from(memory.bytes(id))).collect();
                if let (Some(pack), Some(depth)) = (*pack, *packed_at_depth)
                    && launch.turns[depth..].iter().all(|&turn| turn == 0)
                {
                    packs[pack].pack(&operands);
                }
                let packed = pack.and_then(|pack| packs[pack].packed.as_deref());
                let outputs: Outputs =
                    taken.iter_mut().map(|block| Output::new(block.bytes_mut(), 0)).collect();
                // SAFETY: a plan verifies its nests, whose places have positions of their own. The
                // outputs' blocks are taken from the memory, and each is one output's.
                unsafe { nest.run(launch.turns, &operands, packed, &outputs) };
                Some(())
            }
            StepWork::Generator(generator) => {
                let operands: SmallVec<[&[u8]; 2]> =
                    launch.operands.iter().map(|&id| memory.bytes(id)).collect();
                let mut outputs: SmallVec<[&mut [u8]; 2]> =
                    taken.iter_mut().map(Taken::bytes_mut).collect();
                match generator {
                    Work::PrngState { elements } => prng::state(&operands, &mut outputs, *elements),
                    Work::PrngValue { elements } => {
                        prng::values(&operands, &mut outputs, *elements)
                    }
                    Work::Nest(_) => None,
                }
            }
        };
        for (block, &id) in taken.into_iter().zip(launch.outputs) {
            memory.put(id, block);
        }
        result.ok_or("a step's buffers are not those of its work")
    }
}
