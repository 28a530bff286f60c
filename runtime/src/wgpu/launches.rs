//! [`Launches`]: the launches of a plan, with bind groups of the buffers that they use.

use std::collections::HashMap;

use tile_compiler::dense::Dense;
use tile_compiler::kernel::Kernel;
use tile_compiler::plan::{self, BufferId, Plan, RoutineId};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding,
    BufferDescriptor, BufferSize, BufferUsages, CommandEncoder, ComputePass, ComputePassDescriptor,
    ComputePipeline,
};

use super::gpu::{Gpu, aligned};
use crate::backend::kernel;
use crate::error::Error;

/// The memory of a plan's buffer: of a wgpu buffer, the part from `offset` on.
#[derive(Clone, Debug)]
pub struct Region {
    pub buffer: Buffer,
    pub offset: u64,
}

/// The memory of each of a plan's buffers. Temporaries in one slot share it, and loop-carried
/// values have none.
pub type Regions = Dense<BufferId, Option<Region>>;

/// Returns the memory of buffer `id` of the plan.
pub fn region(regions: &Regions, id: BufferId) -> Result<&Region, Error> {
    regions[id].as_ref().ok_or_else(|| Error::internal("what a loop carries is used outside of it"))
}

/// A step at one iteration of each enclosing loop.
pub struct Launch {
    /// The index of the step.
    pub step: usize,
    /// The index in [`Launches::groups`].
    group: usize,
    /// The dynamic offsets of the iteration numbers that the kernel reads.
    turns: Vec<u32>,
    grid: [u32; 3],
}

/// A routine with buffers bound. Launches of a routine with the same buffers share it.
struct Group {
    name: String,
    routine: RoutineId,
    buffers: Vec<BufferId>,
    /// Whether the kernel reads iteration numbers: how many.
    turns: usize,
    bindings: BindGroup,
}

/// The launches of a plan's prelude and of a run.
pub struct Launches {
    pipelines: Dense<RoutineId, ComputePipeline>,
    turns: Turns,
    groups: Vec<Group>,
    prelude: Vec<Launch>,
    pub run: Vec<Launch>,
}

impl Launches {
    /// Binds the buffers of every launch, once for all runs.
    pub fn new(
        gpu: &Gpu,
        plan: &Plan,
        regions: &Regions,
        pipelines: Dense<RoutineId, ComputePipeline>,
    ) -> Result<Launches, Error> {
        let kernels: Dense<RoutineId, &Kernel> =
            plan.routines.iter().map(kernel).collect::<Result<_, _>>()?;
        let turns = Turns::new(gpu, plan);
        let (groups, prelude, run) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = Launches { pipelines, turns, groups, prelude, run };
        let mut known: HashMap<(RoutineId, Vec<BufferId>), usize> = HashMap::new();
        let mut bind = |all: &mut Launches, launch: &plan::Launch| {
            let routine = launch.step.routine;
            let kernel = kernels[routine];
            let buffers = plan.routines[routine].bound(launch.operands, launch.outputs);
            let key = (routine, buffers);
            let group = match known.get(&key) {
                Some(group) => *group,
                None => {
                    let (name, turns) = (launch.step.name(), kernel.steps.len());
                    let bindings = all.bindings(gpu, plan, regions, &name, &key, turns)?;
                    let (routine, buffers) = key.clone();
                    all.groups.push(Group { name, routine, buffers, turns, bindings });
                    known.insert(key, all.groups.len() - 1);
                    all.groups.len() - 1
                }
            };
            let turns = launch.turns.iter().take(kernel.steps.len());
            let turns = turns.map(|&turn| turn as u32 * all.turns.stride).collect();
            Ok::<_, Error>(Launch { step: launch.number, group, turns, grid: kernel.grid })
        };
        plan.prelude_launches(|launch| bind(&mut all, launch).map(|new| all.prelude.push(new)))?;
        plan.launches(|launch| bind(&mut all, launch).map(|new| all.run.push(new)))?;
        Ok(all)
    }

    pub fn has_prelude(&self) -> bool {
        !self.prelude.is_empty()
    }

    /// Binds the memory that buffer `id` has now.
    pub fn rebind(
        &mut self,
        gpu: &Gpu,
        plan: &Plan,
        regions: &Regions,
        id: BufferId,
    ) -> Result<(), Error> {
        for number in 0..self.groups.len() {
            let Group { name, routine, buffers, turns, .. } = &self.groups[number];
            if buffers.contains(&id) {
                let key = (*routine, buffers.clone());
                let bindings = self.bindings(gpu, plan, regions, name, &key, *turns)?;
                self.groups[number].bindings = bindings;
            }
        }
        Ok(())
    }

    fn bindings(
        &self,
        gpu: &Gpu,
        plan: &Plan,
        regions: &Regions,
        name: &str,
        (routine, buffers): &(RoutineId, Vec<BufferId>),
        turns: usize,
    ) -> Result<BindGroup, Error> {
        let resource = |&id: &BufferId| {
            let size = BufferSize::new(aligned(plan.buffers[id].bytes()));
            let Region { buffer, offset } = region(regions, id)?;
            Ok(BufferBinding { buffer, offset: *offset, size })
        };
        let resources = buffers.iter().map(resource).collect::<Result<Vec<_>, Error>>()?;
        let turn = BufferBinding {
            buffer: &self.turns.buffer,
            offset: 0,
            size: BufferSize::new(TURN_BYTES),
        };
        let resources = resources.into_iter().chain((0..turns).map(|_| turn.clone()));
        let entry = |(binding, resource)| BindGroupEntry {
            binding,
            resource: BindingResource::Buffer(resource),
        };
        let entries: Vec<BindGroupEntry<'_>> = (0..).zip(resources).map(entry).collect();
        Ok(gpu.device.create_bind_group(&BindGroupDescriptor {
            label: Some(name),
            layout: &self.pipelines[*routine].get_bind_group_layout(0),
            entries: &entries,
        }))
    }

    /// Records the launches of a run in one pass, after those of the prelude if it is `stale`.
    pub fn record(&self, encoder: &mut CommandEncoder, stale: bool) {
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        let prelude = if stale { self.prelude.as_slice() } else { &[] };
        prelude.iter().chain(&self.run).for_each(|launch| self.launch(launch, &mut pass));
    }

    /// Records one launch.
    pub fn launch(&self, launch: &Launch, pass: &mut ComputePass) {
        let Group { routine, bindings, .. } = &self.groups[launch.group];
        let [x, y, z] = launch.grid;
        pass.set_pipeline(&self.pipelines[*routine]);
        pass.set_bind_group(0, bindings, &launch.turns);
        pass.dispatch_workgroups(x, y, z);
    }
}

/// A buffer with the iteration numbers 0, 1, …, at intervals of `stride` bytes.
struct Turns {
    buffer: Buffer,
    stride: u32,
}

/// The bytes of an iteration number's binding: a u32, padded to what every device can bind.
const TURN_BYTES: u64 = 16;

impl Turns {
    /// Makes a buffer with as many numbers as the longest loop has iterations.
    fn new(gpu: &Gpu, plan: &Plan) -> Turns {
        let longest = plan.all_loops().map(|around| around.length).max().unwrap_or(1);
        let stride = gpu.device.limits().min_uniform_buffer_offset_alignment.max(TURN_BYTES as u32);
        let mut numbers = vec![0; longest * stride as usize];
        for (number, bytes) in numbers.chunks_exact_mut(stride as usize).enumerate() {
            bytes[..4].copy_from_slice(&(number as u32).to_le_bytes());
        }
        let buffer = gpu.device.create_buffer(&BufferDescriptor {
            label: None,
            size: numbers.len() as u64,
            usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        gpu.queue.write_buffer(&buffer, 0, &numbers);
        Turns { buffer, stride }
    }
}
