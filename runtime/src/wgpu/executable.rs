//! [`GpuExecutable`]: a plan with its buffers and pipelines on a GPU.
//!
//! All launches of a run are recorded in one compute pass and one submission, with the copies of
//! the results. Each slot of temporaries is a separate buffer, because wgpu orders launches by the
//! buffers that they share. The iterations of a loop are recorded one after the other. The kernel
//! reads the iteration number from a uniform buffer with all numbers, at a dynamic offset.

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tile_compiler::dtype::DType;
use tile_compiler::plan::{BufferId, Content, Plan, Port};
use tile_compiler::tensor::{Tensor, TensorType};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoder, CommandEncoderDescriptor,
    SubmissionIndex,
};

use super::gpu::{Gpu, Mapped, aligned, lock};
use super::launches::{self, Launches, Region, Regions};
use super::pipeline::pipelines;
use super::resource::BoundTexture;
use super::watched::GpuWatched;
use crate::backend::{Pending, Report};
use crate::error::Error;
use crate::memory as host;
use crate::storage::{from_storage, to_storage};
use crate::store::{self, DeviceMemory, Store, Stored};
use crate::value::{Value, type_of};
#[cfg(not(target_family = "wasm"))]
use {crate::background::Background, std::future::poll_fn};

/// The description of a part of the work in errors.
const READBACKS: &str = "to allocate memory for the results";

/// A plan compiled and bound for a GPU.
pub struct GpuExecutable {
    pub(super) gpu: Arc<Gpu>,
    pub plan: Plan,
    pub(super) regions: Regions,
    /// The session's own memory of the ports that have memory of the app.
    pub(super) own: HashMap<BufferId, Region>,
    pub(super) textures: Vec<BoundTexture>,
    /// The weights whose buffers other executables share.
    pub(super) shared: Mutex<HashSet<BufferId>>,
    pub(super) launches: Launches,
    /// How often weights were given.
    pub(super) given: u64,
    /// The value of `given` at the last run of the prelude.
    pub(super) fresh: Arc<AtomicU64>,
    /// The copies of the outputs. Empty while a run has them, and after one that was dropped: its
    /// mappings may be in progress, so that it keeps them.
    readbacks: Mutex<Vec<Readback>>,
    /// The wait for a run, which may have been dropped.
    #[cfg(not(target_family = "wasm"))]
    pending: Option<Background<Result<(), Error>>>,
}

/// The buffer of a weight in the store.
struct StoredBuffer {
    gpu: Arc<Gpu>,
    buffer: Buffer,
}

impl DeviceMemory for StoredBuffer {
    fn read<'a>(&'a self, storage: DType, ty: &'a TensorType) -> Pending<'a, Option<Tensor>> {
        Pending::Waiting(Box::pin(async move {
            let bytes = self.gpu.download(&self.buffer, 0, self.buffer.size()).await?;
            Ok(from_storage(&bytes, storage, ty))
        }))
    }
}

/// A buffer with outputs, and the mappable buffer for its copy.
pub(super) struct Readback {
    source: BufferId,
    target: Buffer,
}

impl GpuExecutable {
    /// Allocates the plan's buffers, except weights already in the store, uploads its constants,
    /// and compiles its kernels, which it reports. With `checked`, kernels check their accesses.
    pub async fn new(
        gpu: Arc<Gpu>,
        plan: Plan,
        checked: bool,
        report: Option<&Report>,
        store: &mut Store,
    ) -> Result<GpuExecutable, Error> {
        plan.weights.iter().try_for_each(|port| store.check(&port.name, &port.ty))?;
        require(&gpu, &plan, store)?;
        let regions = gpu
            .scoped("to allocate the program's buffers", || allocate(&gpu, &plan, store))
            .await?;
        for port in &plan.weights {
            if store.get(&port.name).is_none() {
                let storage = plan.buffers[port.buffer].storage;
                let buffer = memory(&regions, port.buffer)?.clone();
                let memory =
                    store::Memory::Device(Box::new(StoredBuffer { gpu: gpu.clone(), buffer }));
                store
                    .put(&port.name, Stored { ty: port.ty.clone(), storage, memory, given: false });
            }
        }
        let pipelines = pipelines(&gpu, &plan, checked, report).await?;
        let bind = || Launches::new(&gpu, &plan, &regions, pipelines);
        let launches = gpu.scoped("to bind the program's buffers", bind).await?;
        let readbacks = Mutex::new(gpu.scoped(READBACKS, || Ok(readbacks(&gpu, &plan))).await?);
        gpu.check_alive()?;
        Ok(GpuExecutable {
            gpu,
            plan,
            regions,
            own: HashMap::new(),
            textures: Vec::new(),
            shared: Mutex::default(),
            launches,
            given: 1,
            fresh: Arc::default(),
            readbacks,
            #[cfg(not(target_family = "wasm"))]
            pending: None,
        })
    }

    /// Uploads the input or weight with this index in [`Plan::given`], a tensor of its port's type.
    /// It stays until it is set again.
    pub async fn set(&mut self, number: usize, value: &dyn Value) -> Result<(), Error> {
        let port = self.plan.given().nth(number);
        let missing = || Error::internal(format!("the plan has no input or weight {number}"));
        let id = port.ok_or_else(missing)?.buffer;
        self.given += u64::from(number >= self.plan.inputs.len());
        self.unshare(id)?;
        self.gpu
            .scoped("to take an input", || upload(&self.gpu, &self.plan, &self.regions, id, value))
            .await
    }

    /// Downloads the input or weight with this index in [`Plan::given`].
    pub async fn get(&self, number: usize) -> Result<Tensor, Error> {
        let missing = || Error::internal(format!("the plan has no input or weight {number}"));
        self.download(self.plan.given().nth(number).ok_or_else(missing)?).await
    }

    /// Downloads a port's buffer.
    async fn download(&self, port: &Port) -> Result<Tensor, Error> {
        let buffer = &self.plan.buffers[port.buffer];
        let storage = buffer.storage;
        let Region { buffer: memory, offset } = launches::region(&self.regions, port.buffer)?;
        let view = self.gpu.download(memory, *offset, aligned(buffer.bytes())).await?;
        from_storage(&view, storage, &port.ty).ok_or_else(|| Error::unstorable(&port.ty, storage))
    }

    /// Runs every step `runs` times, with the prelude if it is stale, and waits for the last run.
    pub async fn repeat(&mut self, runs: u32) -> Result<(), Error> {
        let mut last = None;
        for _ in 0..runs {
            last = Some(self.submit(true, &[]).await?);
            self.submitted();
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
            self.record(&mut encoder)?;
            for &(weight, output) in &self.plan.updates {
                let (weight, next) =
                    (self.plan.weights[weight].buffer, self.plan.outputs[output].buffer);
                let is_there = matches!(self.plan.buffers[next].content, Content::Over { weight: over } if over == weight);
                if !is_there && weight != next {
                    let target = memory(&self.regions, weight)?;
                    encoder.copy_buffer_to_buffer(
                        memory(&self.regions, next)?,
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
                    memory(&self.regions, port.buffer)?,
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
        self.submitted();
        let target = target.map(|target| (self.gpu.map(&target), target));
        let types = ports
            .into_iter()
            .map(|port| (port.ty, self.plan.buffers[port.buffer].storage))
            .collect();
        Ok(GpuWatched { gpu: self.gpu.clone(), submission, target, types })
    }

    /// Checks that the store has the weights. This executable already shares their memory.
    pub fn attach(&mut self, store: &Store) -> Result<(), Error> {
        self.given += 1;
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
        let targets = self.take_readbacks()?;
        let submission = self.submit(false, &targets).await?;
        let mappings = self.map(&targets);
        let waited = self.gpu.wait(submission);
        self.collect(targets, mappings, waited).await
    }

    /// Runs every step, with the prelude if it is stale, and downloads the outputs in the plan's
    /// order.
    pub async fn run(&mut self) -> Result<Vec<Tensor>, Error> {
        let targets = self.take_readbacks()?;
        let submission = self.submit(true, &targets).await?;
        self.submitted();
        let mappings = self.map(&targets);
        let waited = self.gpu.wait(submission);
        self.collect(targets, mappings, waited).await
    }

    /// Does the same without blocking the thread that polls: another one waits for the device.
    /// Browsers never block.
    #[cfg(not(target_family = "wasm"))]
    pub async fn run_async(&mut self) -> Result<Vec<Tensor>, Error> {
        // A session has at most one thread that waits.
        if let Some(dropped) = &self.pending {
            _ = poll_fn(|context| dropped.poll(context)).await;
            self.pending = None;
        }
        let targets = self.take_readbacks()?;
        let submission = self.submit(true, &targets).await?;
        self.submitted();
        let mappings = self.map(&targets);
        let gpu = self.gpu.clone();
        self.pending = Some(Background::start(move || gpu.wait(submission)));
        let waited = match &self.pending {
            Some(pending) => poll_fn(|context| pending.poll(context)).await,
            None => Ok(()),
        };
        self.pending = None;
        self.collect(targets, mappings, waited).await
    }

    /// Submits all launches if `execute`, then the copies of the results to `targets`.
    pub(super) async fn submit(
        &self,
        execute: bool,
        targets: &[Readback],
    ) -> Result<SubmissionIndex, Error> {
        let submit = || {
            let mut encoder =
                self.gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            if execute {
                self.record(&mut encoder)?;
            }
            if !targets.is_empty() {
                self.check_readable()?;
            }
            for Readback { source, target } in targets {
                let Region { buffer, offset } = launches::region(&self.regions, *source)?;
                encoder.copy_buffer_to_buffer(buffer, *offset, target, 0, target.size());
            }
            Ok(self.gpu.submit(encoder))
        };
        self.gpu.scoped("to run the program", submit).await
    }

    /// Records all launches in one pass, and copies of textures around it. The prelude is among
    /// them if it has not run since a weight was given.
    pub(super) fn record(&self, encoder: &mut CommandEncoder) -> Result<(), Error> {
        let copies =
            |is_output| self.textures.iter().filter(move |texture| texture.is_output == is_output);
        for texture in copies(false) {
            texture.copy(&self.regions, encoder)?;
        }
        self.launches.record(encoder, self.fresh.load(Ordering::Acquire) < self.given);
        for texture in copies(true) {
            texture.copy(&self.regions, encoder)?;
        }
        Ok(())
    }

    /// Notes that all launches were submitted.
    pub(super) fn submitted(&self) {
        self.fresh.fetch_max(self.given, Ordering::AcqRel);
    }

    /// Checks that the outputs can be copied to the host.
    fn check_readable(&self) -> Result<(), Error> {
        for port in &self.plan.outputs {
            let usage = launches::region(&self.regions, port.buffer)?.buffer.usage();
            if !usage.contains(BufferUsages::COPY_SRC) {
                let what = "its buffer lacks the usage COPY_SRC, so that it cannot be read".into();
                return Err(Error::Bind { name: port.name.clone(), what });
            }
        }
        Ok(())
    }

    /// Takes the copies of the outputs, for one run.
    pub(super) fn take_readbacks(&self) -> Result<Vec<Readback>, Error> {
        let targets = std::mem::take(&mut *lock(&self.readbacks));
        match targets.is_empty() {
            true => self.gpu.scoped_now(READBACKS, || Ok(readbacks(&self.gpu, &self.plan))),
            false => Ok(targets),
        }
    }

    /// Starts to map the copies of the outputs.
    pub(super) fn map(&self, targets: &[Readback]) -> Vec<Mapped> {
        targets.iter().map(|readback| Mapped::start(&self.gpu, &readback.target)).collect()
    }

    /// Returns the outputs from their copies, after the wait for the submission that makes them.
    pub(super) async fn collect(
        &self,
        targets: Vec<Readback>,
        mut mappings: Vec<Mapped>,
        waited: Result<(), Error>,
    ) -> Result<Vec<Tensor>, Error> {
        waited?;
        let mut outputs = vec![None; self.plan.outputs.len()];
        for (readback, mapped) in targets.iter().zip(mappings.iter_mut()) {
            let view = mapped.read().await?;
            self.take(readback.source, &view, &mut outputs);
        }
        // This unmaps them.
        drop(mappings);
        *lock(&self.readbacks) = targets;
        let missing =
            |port: &Port| Error::unstorable(&port.ty, self.plan.buffers[port.buffer].storage);
        outputs
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

/// Allocates a buffer for a tensor.
pub(super) fn create(gpu: &Gpu, bytes: u64) -> Buffer {
    gpu.device.create_buffer(&BufferDescriptor {
        label: None,
        size: aligned(bytes),
        usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// Allocates the memory of the plan's buffers, and uploads the constants.
fn allocate(gpu: &Gpu, plan: &Plan, store: &Store) -> Result<Regions, Error> {
    let whole = |buffer: Buffer| Region { buffer, offset: 0 };
    let create = |bytes| create(gpu, bytes);
    let slots: Vec<Buffer> = plan.slots.iter().map(|&bytes| create(bytes)).collect();
    let mut stored: HashMap<BufferId, &Buffer> = HashMap::new();
    for port in &plan.weights {
        if let Some(Stored { memory: store::Memory::Device(memory), .. }) = store.get(&port.name)
            && let Some(StoredBuffer { buffer, .. }) = (&**memory as &dyn Any).downcast_ref()
        {
            stored.insert(port.buffer, buffer);
        }
    }
    let mut regions = Regions::default();
    for (id, buffer) in plan.buffers.enumerate() {
        regions.push(match buffer.content {
            Content::Temporary { slot } => Some(whole(slots[slot].clone())),
            Content::Carried => None,
            Content::Over { weight } => regions[weight].clone(),
            _ => Some(whole(
                stored.get(&id).map_or_else(|| create(buffer.bytes()), |&buffer| buffer.clone()),
            )),
        });
    }
    for (id, buffer) in plan.buffers.enumerate() {
        if let Content::Constant(tensor) = &buffer.content {
            upload(gpu, plan, &regions, id, tensor)?;
        }
    }
    Ok(regions)
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

/// Returns the memory of buffer `id` of the plan, to which no app binds any.
fn memory(regions: &Regions, id: BufferId) -> Result<&Buffer, Error> {
    launches::region(regions, id).map(|region| &region.buffer)
}

/// Writes a value to buffer `id` of the plan.
fn upload(
    gpu: &Gpu,
    plan: &Plan,
    regions: &Regions,
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
    gpu.queue.write_buffer(memory(regions, id)?, 0, &bytes);
    Ok(())
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
