//! [`GpuExecutable`]: a plan with its buffers and pipelines on a GPU.
//!
//! All launches of a run are recorded in one compute pass and one submission, with the copies of
//! the results. Each slot of temporaries is a separate buffer, because wgpu orders launches by the
//! buffers that they share. The iterations of a loop are recorded one after the other. The kernel
//! reads the iteration number from a uniform buffer with all numbers, at a dynamic offset.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tile_compiler::dense::Dense;
use tile_compiler::dtype::DType;
use tile_compiler::kernel::Kernel;
use tile_compiler::plan::{self, BufferId, Content, Plan, Port, RoutineId};
use tile_compiler::tensor::{Tensor, TensorType};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding,
    BufferDescriptor, BufferSize, BufferUsages, CommandEncoder, CommandEncoderDescriptor,
    ComputePass, ComputePassDescriptor, ComputePipeline, SubmissionIndex,
};

use super::gpu::{Gpu, Mapping, aligned};
use super::pipeline::pipelines;
use super::watched::GpuWatched;
use crate::backend::{Pending, kernel};
use crate::error::Error;
use crate::memory as host;
use crate::storage::{from_storage, to_storage};
use crate::store::{self, DeviceMemory, Store, Stored};
use crate::value::{Value, type_of};

/// A plan compiled and bound for a GPU.
pub struct GpuExecutable {
    pub(super) gpu: Arc<Gpu>,
    pub plan: Plan,
    /// The memory of each of the plan's buffers. Temporaries in one slot share a buffer, and
    /// loop-carried values have none.
    buffers: Dense<BufferId, Option<Buffer>>,
    prelude: Vec<Launch>,
    pub(super) launches: Vec<Launch>,
    /// Whether the prelude must run before the next run.
    stale: bool,
    readbacks: Vec<Readback>,
}

/// The buffer of a weight in the store.
struct StoredBuffer {
    gpu: Arc<Gpu>,
    buffer: Buffer,
}

impl DeviceMemory for StoredBuffer {
    fn read<'a>(&'a self, storage: DType, ty: &'a TensorType) -> Pending<'a, Option<Tensor>> {
        Box::pin(
            async move { Ok(from_storage(&self.gpu.download(&self.buffer).await?, storage, ty)) },
        )
    }
}

/// A step at one iteration of each enclosing loop.
pub(super) struct Launch {
    /// The index of the step.
    pub step: usize,
    pipeline: ComputePipeline,
    bindings: BindGroup,
    /// The dynamic offsets of the iteration numbers that the kernel reads.
    turns: Vec<u32>,
    grid: [u32; 3],
}

impl Launch {
    pub fn record(&self, pass: &mut ComputePass) {
        let [x, y, z] = self.grid;
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bindings, &self.turns);
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

/// A buffer with outputs, and the mappable buffer for its copy.
struct Readback {
    source: BufferId,
    target: Buffer,
}

impl GpuExecutable {
    /// Allocates the plan's buffers, except weights already in the store, uploads its constants,
    /// and compiles its kernels. With `checked`, kernels check their accesses.
    pub async fn new(
        gpu: Arc<Gpu>,
        plan: Plan,
        checked: bool,
        store: &mut Store,
    ) -> Result<GpuExecutable, Error> {
        plan.weights.iter().try_for_each(|port| store.check(&port.name, &port.ty))?;
        require(&gpu, &plan, store)?;
        let buffers = gpu
            .scoped("to allocate the program's buffers", || allocate(&gpu, &plan, store))
            .await?;
        for port in &plan.weights {
            if store.get(&port.name).is_none() {
                let storage = plan.buffers[port.buffer].storage;
                let buffer = memory(&buffers, port.buffer)?.clone();
                let memory =
                    store::Memory::Device(Box::new(StoredBuffer { gpu: gpu.clone(), buffer }));
                store
                    .put(&port.name, Stored { ty: port.ty.clone(), storage, memory, given: false });
            }
        }
        let pipelines = pipelines(&gpu, &plan, checked).await?;
        let (prelude, launches) = gpu
            .scoped("to bind the program's buffers", || bind(&gpu, &plan, &buffers, &pipelines))
            .await?;
        let readbacks =
            gpu.scoped("to allocate memory for the results", || Ok(readbacks(&gpu, &plan))).await?;
        gpu.check_alive()?;
        Ok(GpuExecutable { gpu, plan, buffers, prelude, launches, stale: true, readbacks })
    }

    /// Uploads the input or weight with this index in [`Plan::given`], a tensor of its port's type.
    /// It stays until it is set again.
    pub async fn set(&mut self, number: usize, value: &dyn Value) -> Result<(), Error> {
        let port = self.plan.given().nth(number);
        let missing = || Error::internal(format!("the plan has no input or weight {number}"));
        let id = port.ok_or_else(missing)?.buffer;
        self.stale |= number >= self.plan.inputs.len();
        self.gpu
            .scoped("to take an input", || upload(&self.gpu, &self.plan, &self.buffers, id, value))
            .await
    }

    /// Downloads the input or weight with this index in [`Plan::given`].
    pub async fn get(&self, number: usize) -> Result<Tensor, Error> {
        let missing = || Error::internal(format!("the plan has no input or weight {number}"));
        self.download(self.plan.given().nth(number).ok_or_else(missing)?).await
    }

    /// Downloads a port's buffer.
    async fn download(&self, port: &Port) -> Result<Tensor, Error> {
        let storage = self.plan.buffers[port.buffer].storage;
        let view = self.gpu.download(memory(&self.buffers, port.buffer)?).await?;
        from_storage(&view, storage, &port.ty).ok_or_else(|| Error::unstorable(&port.ty, storage))
    }

    /// Runs every step `runs` times, with the prelude if it is stale, and waits for the last run.
    pub async fn repeat(&mut self, runs: u32) -> Result<(), Error> {
        let mut last = None;
        for _ in 0..runs {
            last = Some(self.submit(true, false).await?);
            self.stale = false;
        }
        last.map_or(Ok(()), |submission| self.gpu.wait(submission))?;
        self.gpu.check_alive()
    }

    /// Runs every step, with the prelude if it is stale, and then replaces the weights by their
    /// next values. Does not wait. The outputs `watched` are in transfer to the host.
    pub async fn step(&mut self, watched: &[usize]) -> Result<GpuWatched, Error> {
        let ports: Vec<Port> =
            watched.iter().map(|&number| self.plan.outputs[number].clone()).collect();
        let bytes: u64 =
            ports.iter().map(|port| aligned(self.plan.buffers[port.buffer].bytes())).sum();
        let submit = || {
            let target = (bytes > 0).then(|| self.gpu.mappable(bytes));
            let mut encoder =
                self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            self.record(&mut encoder);
            for &(weight, output) in &self.plan.updates {
                let (weight, next) =
                    (self.plan.weights[weight].buffer, self.plan.outputs[output].buffer);
                let is_there = matches!(self.plan.buffers[next].content, Content::Over { weight: over } if over == weight);
                if !is_there && weight != next {
                    let target = memory(&self.buffers, weight)?;
                    encoder.copy_buffer_to_buffer(
                        memory(&self.buffers, next)?,
                        0,
                        target,
                        0,
                        target.size(),
                    );
                }
            }
            let mut at = 0;
            for (port, target) in ports.iter().zip(target.iter().cycle()) {
                let size = aligned(self.plan.buffers[port.buffer].bytes());
                encoder.copy_buffer_to_buffer(
                    memory(&self.buffers, port.buffer)?,
                    0,
                    target,
                    at,
                    size,
                );
                at += size;
            }
            Ok((self.gpu.submit(encoder), target))
        };
        let (submission, target) = self.gpu.scoped("to run the program", submit).await?;
        self.stale = false;
        let target = target.map(|target| (self.gpu.map(&target), target));
        let types = ports
            .into_iter()
            .map(|port| (port.ty, self.plan.buffers[port.buffer].storage))
            .collect();
        Ok(GpuWatched { gpu: self.gpu.clone(), submission, target, types })
    }

    /// Checks that the store has the weights. This executable already shares their memory.
    pub fn attach(&mut self, store: &Store) -> Result<(), Error> {
        self.stale = true;
        self.plan.weights.iter().try_for_each(|port| store.check(&port.name, &port.ty))
    }

    /// Marks the weights in the store as set.
    pub fn detach(&mut self, store: &mut Store) {
        for port in &self.plan.weights {
            if let Some(weight) = store.get_mut(&port.name) {
                weight.given = true;
            }
        }
    }

    /// Downloads the output with this index of the last run.
    pub async fn output(&self, number: usize) -> Result<Tensor, Error> {
        let port = &self.plan.outputs[number];
        self.download(port).await
    }

    /// Downloads the outputs of the last run, in the plan's order.
    pub async fn read(&self) -> Result<Vec<Tensor>, Error> {
        let submission = self.submit(false, true).await?;
        self.collect(submission).await
    }

    /// Runs every step, with the prelude if it is stale, and downloads the outputs in the plan's
    /// order.
    pub async fn run(&mut self) -> Result<Vec<Tensor>, Error> {
        let submission = self.submit(true, true).await?;
        self.stale = false;
        self.collect(submission).await
    }

    /// Submits all launches if `execute`, then the copies of the results if `read`.
    pub(super) async fn submit(&self, execute: bool, read: bool) -> Result<SubmissionIndex, Error> {
        let submit = || {
            let mut encoder =
                self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            if execute {
                self.record(&mut encoder);
            }
            if read {
                for Readback { source, target } in &self.readbacks {
                    encoder.copy_buffer_to_buffer(
                        memory(&self.buffers, *source)?,
                        0,
                        target,
                        0,
                        target.size(),
                    );
                }
            }
            Ok(self.gpu.submit(encoder))
        };
        self.gpu.scoped("to run the program", submit).await
    }

    /// Records all launches in one pass.
    fn record(&self, encoder: &mut CommandEncoder) {
        let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor::default());
        let prelude = if self.stale { self.prelude.as_slice() } else { &[] };
        prelude.iter().chain(&self.launches).for_each(|launch| launch.record(&mut pass));
    }

    /// Returns the outputs that `submission` copies.
    pub(super) async fn collect(&self, submission: SubmissionIndex) -> Result<Vec<Tensor>, Error> {
        let mappings: Vec<Mapping> =
            self.readbacks.iter().map(|readback| self.gpu.map(&readback.target)).collect();
        let mut result = self.gpu.wait(submission).map(|()| vec![None; self.plan.outputs.len()]);
        for (readback, mapping) in self.readbacks.iter().zip(mappings) {
            if let Ok(outputs) = &mut result {
                match self.gpu.read(&readback.target, mapping).await {
                    Ok(view) => self.take(readback.source, &view, outputs),
                    Err(error) => result = Err(error),
                }
            }
            self.gpu.unmap(&readback.target);
        }
        let missing =
            |port: &Port| Error::unstorable(&port.ty, self.plan.buffers[port.buffer].storage);
        result?
            .into_iter()
            .zip(&self.plan.outputs)
            .map(|(tensor, port)| tensor.ok_or_else(|| missing(port)))
            .collect()
    }

    /// Sets the outputs stored in buffer `source` from its content `bytes`.
    fn take(&self, source: BufferId, bytes: &[u8], outputs: &mut [Option<Tensor>]) {
        let storage = self.plan.buffers[source].storage;
        for (output, port) in outputs.iter_mut().zip(&self.plan.outputs) {
            if port.buffer == source {
                *output = from_storage(bytes, storage, &port.ty);
            }
        }
    }
}

/// Allocates the memory of the plan's buffers, and uploads the constants.
fn allocate(
    gpu: &Gpu,
    plan: &Plan,
    store: &Store,
) -> Result<Dense<BufferId, Option<Buffer>>, Error> {
    let create = |bytes: u64| {
        gpu.device.create_buffer(&BufferDescriptor {
            label: None,
            size: aligned(bytes),
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        })
    };
    let slots: Vec<Buffer> = plan.slots.iter().map(|&bytes| create(bytes)).collect();
    let mut stored: HashMap<BufferId, &Buffer> = HashMap::new();
    for port in &plan.weights {
        if let Some(Stored { memory: store::Memory::Device(memory), .. }) = store.get(&port.name)
            && let Some(StoredBuffer { buffer, .. }) = (&**memory as &dyn Any).downcast_ref()
        {
            stored.insert(port.buffer, buffer);
        }
    }
    let mut buffers: Dense<BufferId, Option<Buffer>> = Dense::default();
    for (id, buffer) in plan.buffers.enumerate() {
        buffers.push(match buffer.content {
            Content::Temporary { slot } => Some(slots[slot].clone()),
            Content::Carried => None,
            Content::Over { weight } => buffers[weight].clone(),
            _ => Some(
                stored.get(&id).map_or_else(|| create(buffer.bytes()), |&buffer| buffer.clone()),
            ),
        });
    }
    for (id, buffer) in plan.buffers.enumerate() {
        if let Content::Constant(tensor) = &buffer.content {
            upload(gpu, plan, &buffers, id, tensor)?;
        }
    }
    Ok(buffers)
}

/// Refuses a plan whose buffers beside the weights in the store take more than the store's limit,
/// or on a device that shares the host's memory more than there is.
fn require(gpu: &Gpu, plan: &Plan, store: &Store) -> Result<(), Error> {
    let needed = host::of_plan(plan, &[], store);
    let kind = gpu.device.adapter_info().device_type;
    let is_on_host = matches!(kind, wgpu::DeviceType::Cpu | wgpu::DeviceType::IntegratedGpu);
    match (is_on_host, store.limit) {
        (false, None) => Ok(()),
        (false, Some(limit)) => host::require_within(&gpu.name, needed, limit),
        (true, limit) => host::require(&gpu.name, needed, limit),
    }
}

/// Returns the memory of buffer `id` of the plan.
fn memory(buffers: &Dense<BufferId, Option<Buffer>>, id: BufferId) -> Result<&Buffer, Error> {
    buffers[id].as_ref().ok_or_else(|| Error::internal("what a loop carries is used outside of it"))
}

/// Writes a value to buffer `id` of the plan.
fn upload(
    gpu: &Gpu,
    plan: &Plan,
    buffers: &Dense<BufferId, Option<Buffer>>,
    id: BufferId,
    value: &dyn Value,
) -> Result<(), Error> {
    let storage = plan.buffers[id].storage;
    let mut bytes =
        to_storage(value, storage).ok_or_else(|| Error::unstorable(&type_of(value), storage))?;
    let length = aligned(bytes.len() as u64) as usize;
    if length != bytes.len() {
        bytes.to_mut().resize(length, 0);
    }
    gpu.queue.write_buffer(memory(buffers, id)?, 0, &bytes);
    Ok(())
}

/// Binds the buffers of every launch of the prelude and of a run, once for all runs. Launches of a
/// routine with the same buffers share a bind group.
fn bind(
    gpu: &Gpu,
    plan: &Plan,
    buffers: &Dense<BufferId, Option<Buffer>>,
    pipelines: &Dense<RoutineId, ComputePipeline>,
) -> Result<(Vec<Launch>, Vec<Launch>), Error> {
    let kernels: Dense<RoutineId, &Kernel> =
        plan.routines.iter().map(kernel).collect::<Result<_, _>>()?;
    let turns = Turns::new(gpu, plan);
    let mut bound: HashMap<(RoutineId, Vec<BufferId>), BindGroup> = HashMap::new();
    let mut bind = |launch: &plan::Launch| {
        let routine = launch.step.routine;
        let (kernel, pipeline) = (kernels[routine], &pipelines[routine]);
        let ids = plan.routines[routine].bound(launch.operands, launch.outputs);
        let bindings = match bound.entry((routine, ids)) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => {
                let resource = |&id: &BufferId| {
                    let size = BufferSize::new(aligned(plan.buffers[id].bytes()));
                    Ok(BufferBinding { buffer: memory(buffers, id)?, offset: 0, size })
                };
                let resources =
                    place.key().1.iter().map(resource).collect::<Result<Vec<_>, Error>>()?;
                let turn = BufferBinding {
                    buffer: &turns.buffer,
                    offset: 0,
                    size: BufferSize::new(TURN_BYTES),
                };
                let resources =
                    resources.into_iter().chain(kernel.steps.iter().map(|_| turn.clone()));
                let entry = |(binding, resource)| BindGroupEntry {
                    binding,
                    resource: BindingResource::Buffer(resource),
                };
                let entries: Vec<BindGroupEntry<'_>> = (0..).zip(resources).map(entry).collect();
                let bindings = gpu.device.create_bind_group(&BindGroupDescriptor {
                    label: Some(&launch.step.name()),
                    layout: &pipeline.get_bind_group_layout(0),
                    entries: &entries,
                });
                place.insert(bindings).clone()
            }
        };
        let turns = launch
            .turns
            .iter()
            .take(kernel.steps.len())
            .map(|&turn| turn as u32 * turns.stride)
            .collect();
        Ok::<_, Error>(Launch {
            step: launch.number,
            pipeline: pipeline.clone(),
            bindings,
            turns,
            grid: kernel.grid,
        })
    };
    let (mut prelude, mut launches) = (Vec::new(), Vec::new());
    plan.prelude_launches(|launch| bind(launch).map(|launch| prelude.push(launch)))?;
    plan.launches(|launch| bind(launch).map(|launch| launches.push(launch)))?;
    Ok((prelude, launches))
}

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

/// Makes a mappable buffer for each buffer with outputs.
fn readbacks(gpu: &Gpu, plan: &Plan) -> Vec<Readback> {
    let mut sources: Vec<BufferId> = plan.outputs.iter().map(|port| port.buffer).collect();
    sources.sort_unstable();
    sources.dedup();
    let readback =
        |source: BufferId| Readback { source, target: gpu.mappable(plan.buffers[source].bytes()) };
    sources.into_iter().map(readback).collect()
}
