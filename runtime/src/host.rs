//! Plans on buffers in host memory, for the cpu device and the kernel checker.

use std::fmt::Display;

use tile_compiler::plan::{BufferId, Content, Launch, Plan, Step, Work};
use tile_compiler::tensor::{Tensor, zeroed};

use crate::checked;
use crate::cpu::{Steps, needs};
use crate::error::Error;
use crate::memory;
use crate::storage::{from_storage, to_storage};
use crate::store::{self, Store, Stored};
use crate::trace::Trace;

/// The kernel checker's memory for each byte of a buffer: the byte itself, and up to two marks of
/// 12 bytes for each element of 4 bytes.
const MARKED: u64 = 8;

/// A plan with its memory.
pub struct HostExecutable {
    pub plan: Plan,
    memory: Memory,
    engine: Engine,
}

/// The engine that runs the steps.
enum Engine {
    Cpu(Box<Steps>),
    Check {
        /// The modules of the plan's kernels.
        modules: Vec<naga::Module>,
        /// Whether the prelude must run before the next run.
        stale: bool,
    },
}

impl HostExecutable {
    /// Compiles a plan for the cpu device, with direct convolutions if `exact`. Its weights may be
    /// in the store.
    ///
    /// # Errors
    /// Returns [`Error::OutOfMemory`] if the plan exceeds the store's limit or the available
    /// memory. Nothing is allocated then.
    pub fn cpu(plan: Plan, exact: bool, store: &Store) -> Result<HostExecutable, Error> {
        // A buffer that exceeds the memory is reported before anything is allocated.
        let largest = plan.buffers.iter().max_by_key(|buffer| buffer.bytes());
        if let Some(buffer) = largest.filter(|buffer| !Block::fits(buffer.bytes())) {
            let what = format!("{}, {} bytes", buffer.ty, buffer.bytes());
            return Err(Error::OutOfMemory { device: "cpu".into(), what });
        }
        let nests = plan.routines.iter().filter_map(|routine| match &routine.work {
            Work::Nest(nest) => Some(needs::tables(nest)),
            _ => None,
        });
        let tables = nests.fold(0, u64::saturating_add);
        memory::require("cpu", memory::of_plan(&plan, &[], store).saturating_add(tables), store.limit)?;
        let steps = Steps::new(&plan, exact);
        let without = steps.without_memory();
        let beside = steps.bytes().saturating_add(tables);
        memory::require("cpu", memory::of_plan(&plan, &without, store).saturating_add(beside), store.limit)?;
        let memory = Memory::new(&plan, "cpu", &without)?;
        HostExecutable::new(plan, memory, Engine::Cpu(Box::new(steps)))
    }

    /// Prepares a plan's kernels for the kernel checker.
    ///
    /// # Errors
    /// Fails like [`HostExecutable::cpu`], and if a kernel cannot be emitted.
    pub fn check(plan: Plan, store: &Store) -> Result<HostExecutable, Error> {
        // A launch copies its buffers, with marks of the readers and writers of each element.
        let of_step = |step: &Step| {
            let buffers = step.operands.iter().chain(&step.outputs).map(|&id| plan.buffers[id].bytes());
            buffers.fold(0, u64::saturating_add).saturating_mul(MARKED)
        };
        let launch = plan.all_steps().map(of_step).max().unwrap_or(0);
        memory::require("check", memory::of_plan(&plan, &[], store).saturating_add(launch), store.limit)?;
        let memory = Memory::new(&plan, "check", &[])?;
        let modules = checked::modules(&plan)?;
        HostExecutable::new(plan, memory, Engine::Check { modules, stale: true })
    }

    fn new(plan: Plan, memory: Memory, engine: Engine) -> Result<HostExecutable, Error> {
        let mut executable = HostExecutable { plan, memory, engine };
        for id in 0..executable.plan.buffers.len() {
            if let Content::Constant(tensor) = &executable.plan.buffers[id].content {
                let tensor = tensor.clone();
                executable.fill(id, &tensor)?;
            }
        }
        Ok(executable)
    }

    /// Sets the input or weight with this number in [`Plan::given`], to a tensor of its port's
    /// type.
    pub fn set(&mut self, number: usize, tensor: &Tensor) -> Result<(), Error> {
        let buffer = self.plan.given().nth(number).map(|port| port.buffer);
        match buffer {
            Some(buffer) => self.fill(buffer, tensor),
            None => Err(Error::internal(format!("the plan has no input or weight {number}"))),
        }
    }

    /// Returns the input or weight with this number in [`Plan::given`].
    pub fn get(&self, number: usize) -> Option<Tensor> {
        let port = self.plan.given().nth(number)?;
        let storage = self.plan.buffers[port.buffer].storage;
        match &self.engine {
            Engine::Cpu(steps) if !self.memory.has(port.buffer) => {
                from_storage(&steps.unpacked(port.buffer)?, storage, &port.ty)
            }
            _ => from_storage(self.memory.bytes(port.buffer), storage, &port.ty),
        }
    }

    fn fill(&mut self, id: BufferId, tensor: &Tensor) -> Result<(), Error> {
        let buffer = &self.plan.buffers[id];
        let bytes = to_storage(tensor, buffer.storage).ok_or_else(|| Error::unstorable(tensor.ty(), buffer.storage))?;
        let mut aligned = None;
        let passing = match self.memory.block(id) {
            Some(block) => {
                block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                None
            }
            None if bytes.as_ptr().align_offset(buffer.storage.size()) == 0 => Some(&*bytes),
            None => {
                let block = aligned.insert(allocate(buffer.bytes(), "cpu", &buffer.ty)?);
                block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                Some(block.bytes())
            }
        };
        if !matches!(buffer.content, Content::Input) {
            match &mut self.engine {
                Engine::Cpu(steps) => steps.given(id, passing),
                Engine::Check { stale, .. } => *stale = true,
            }
        }
        Ok(())
    }

    /// Runs all steps, and the prelude if it is stale.
    pub fn execute(&mut self) -> Result<(), Error> {
        let HostExecutable { plan, memory, engine } = self;
        match engine {
            Engine::Cpu(steps) => steps.run(plan, memory).map_err(Error::internal),
            Engine::Check { modules, stale } => {
                let mut launch = |launch: &Launch| checked::run(plan, modules, launch, memory);
                if *stale {
                    plan.prelude_launches(&mut launch)?;
                }
                *stale = false;
                plan.launches(launch)
            }
        }
    }

    /// Runs all steps, and returns the time of each launch. Returns `None` under the kernel
    /// checker, whose times are meaningless.
    pub fn trace(&mut self) -> Result<Option<Trace>, Error> {
        let HostExecutable { plan, memory, engine } = self;
        let Engine::Cpu(steps) = engine else { return Ok(None) };
        let launches = steps.trace(plan, memory).map_err(Error::internal)?;
        Ok(Some(Trace { launches, handing_over: None }))
    }

    /// Takes the weights' memory from the store, except for weights kept only in packed form.
    pub fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.plan.weights.iter().try_for_each(|port| store.check(&port.name, &port.ty))?;
        let HostExecutable { plan, memory, engine } = self;
        for port in &plan.weights {
            if memory.has(port.buffer)
                && let Some(Stored { memory: store::Memory::Block(block), .. }) = store.take(&port.name)
            {
                memory.put(port.buffer, block);
            }
            let stored = match store.get(&port.name) {
                Some(Stored { memory: store::Memory::Block(block), .. }) => Some(block.bytes()),
                _ => None,
            };
            match engine {
                Engine::Cpu(steps) => steps.given(port.buffer, stored),
                Engine::Check { stale, .. } => *stale = true,
            }
        }
        Ok(())
    }

    /// Moves the weights' memory to the store. All weights must have values.
    pub fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        let HostExecutable { plan, memory, engine } = self;
        for port in &plan.weights {
            let storage = plan.buffers[port.buffer].storage;
            let block = match engine {
                // A weight kept only in packed form has not changed.
                Engine::Cpu(_) if !memory.has(port.buffer) && store.has(&port.name) => continue,
                Engine::Cpu(steps) if !memory.has(port.buffer) => {
                    let bytes = steps.unpacked(port.buffer).unwrap_or_default();
                    let mut block = allocate(plan.buffers[port.buffer].bytes(), "cpu", &port.ty)?;
                    block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                    block
                }
                _ => memory.take(port.buffer),
            };
            let memory = store::Memory::Block(block);
            store.put(&port.name, Stored { ty: port.ty.clone(), storage, memory, given: true });
        }
        Ok(())
    }

    /// Replaces weights by their next values after a run. Invalidates the outputs with these
    /// values.
    pub fn adopt(&mut self) {
        let HostExecutable { plan, memory, .. } = self;
        for &(weight, output) in &plan.updates {
            let (weight, next) = (plan.weights[weight].buffer, plan.outputs[output].buffer);
            let is_shared = plan.outputs.iter().filter(|port| port.buffer == next).count() > 1;
            match plan.buffers[next].content {
                Content::Output if !is_shared => memory.place.swap(weight, next),
                Content::Over { .. } => {}
                _ if weight == next => {}
                _ => {
                    let block = memory.take(next);
                    let to = memory.bytes_mut(weight);
                    to.copy_from_slice(&block.bytes()[..to.len()]);
                    memory.put(next, block);
                }
            }
        }
    }

    /// Returns the outputs, in the plan's order.
    pub fn read(&self) -> Result<Vec<Tensor>, Error> {
        (0..self.plan.outputs.len()).map(|number| self.output(number)).collect()
    }

    /// Returns the outputs. Does not copy outputs that have their own memory.
    pub fn into_outputs(mut self) -> Result<Vec<Tensor>, Error> {
        let mut outputs = Vec::new();
        for number in 0..self.plan.outputs.len() {
            let port = &self.plan.outputs[number];
            let buffer = &self.plan.buffers[port.buffer];
            let is_read_again = self.plan.outputs[number + 1..].iter().any(|other| other.buffer == port.buffer);
            if is_read_again || !matches!(buffer.content, Content::Output) || buffer.storage != port.ty.dtype {
                outputs.push(self.output(number)?);
                continue;
            }
            let bytes = self.memory.take(port.buffer).into_bytes(port.ty.elements() * port.ty.dtype.size());
            let tensor = Tensor::from_bytes(port.ty.clone(), bytes);
            outputs.push(tensor.ok_or_else(|| Error::unstorable(&port.ty, buffer.storage))?);
        }
        Ok(outputs)
    }

    /// Returns the output with this number.
    pub fn output(&self, number: usize) -> Result<Tensor, Error> {
        let port = &self.plan.outputs[number];
        let storage = self.plan.buffers[port.buffer].storage;
        let bytes = self.memory.bytes(port.buffer);
        from_storage(bytes, storage, &port.ty).ok_or_else(|| Error::unstorable(&port.ty, storage))
    }
}

/// The memory of a plan's buffers.
pub struct Memory {
    /// The slots, followed by the plan's other buffers.
    blocks: Vec<Block>,
    /// The index in `blocks` of each of the plan's buffers. `None` for a buffer without memory.
    place: Vec<Option<usize>>,
    /// The size of each buffer.
    bytes: Vec<usize>,
}

impl Memory {
    /// Allocates the plan's memory, except for the buffers `without`.
    fn new(plan: &Plan, device: &str, without: &[BufferId]) -> Result<Memory, Error> {
        let mut blocks = Vec::new();
        for &bytes in &plan.slots {
            blocks.push(allocate(bytes, device, &"intermediate results")?);
        }
        let mut place = Vec::new();
        for (id, buffer) in plan.buffers.iter().enumerate() {
            place.push(match buffer.content {
                Content::Carried => None,
                _ if without.contains(&id) => None,
                Content::Temporary { slot } => Some(slot),
                Content::Over { weight } => place[weight],
                _ => {
                    blocks.push(allocate(buffer.bytes(), device, &buffer.ty)?);
                    Some(blocks.len() - 1)
                }
            });
        }
        let bytes = plan.buffers.iter().map(|buffer| buffer.bytes() as usize).collect();
        Ok(Memory { blocks, place, bytes })
    }

    fn has(&self, id: BufferId) -> bool {
        self.place[id].is_some()
    }

    fn block(&mut self, id: BufferId) -> Option<&mut Block> {
        self.place[id].map(|place| &mut self.blocks[place])
    }

    /// Returns a buffer's bytes. They are empty while its block is taken, or if it has no memory.
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        let bytes = self.place[id].map_or(&[][..], |place| self.blocks[place].bytes());
        &bytes[..self.bytes[id].min(bytes.len())]
    }

    /// Returns a buffer's bytes for writing.
    pub fn bytes_mut(&mut self, id: BufferId) -> &mut [u8] {
        let length = self.bytes[id];
        let bytes = self.place[id].map_or(&mut [][..], |place| self.blocks[place].bytes_mut());
        let length = length.min(bytes.len());
        &mut bytes[..length]
    }

    /// Takes a buffer's block, so that it can be written while others are read. Return it with
    /// [`Memory::put`].
    pub fn take(&mut self, id: BufferId) -> Block {
        self.block(id).map(std::mem::take).unwrap_or_default()
    }

    pub fn put(&mut self, id: BufferId, block: Block) {
        if let Some(place) = self.block(id) {
            *place = block;
        }
    }
}

fn allocate(bytes: u64, device: &str, what: &dyn Display) -> Result<Block, Error> {
    let out_of_memory = || Error::OutOfMemory { device: device.into(), what: format!("{what}, {bytes} bytes") };
    Block::zeroed(bytes).ok_or_else(out_of_memory)
}

/// Bytes aligned to 64, the size of a cache line and of the widest vector register.
#[derive(Default)]
pub struct Block {
    /// The allocation. It never grows, so it does not move.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    const ALIGNMENT: usize = 64;

    /// Returns whether the system grants an allocation of this size.
    fn fits(bytes: u64) -> bool {
        usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
    }

    /// Allocates zeroed bytes. Returns `None` if the system refuses the allocation.
    fn zeroed(bytes: u64) -> Option<Block> {
        let length = usize::try_from(bytes).ok()?;
        let with_margin = length.checked_add(Block::ALIGNMENT)?;
        // An allocator with zeroed pages maps them on first touch, by the threads that use them.
        let memory = zeroed(with_margin)?;
        let start = memory.as_ptr().align_offset(Block::ALIGNMENT);
        (start < Block::ALIGNMENT).then_some(Block { memory, start, length })
    }

    /// Moves the first `length` bytes to the front of the allocation, and returns them. `length` is
    /// limited to the size of the block.
    fn into_bytes(mut self, length: usize) -> Vec<u8> {
        let length = length.min(self.length);
        self.memory.copy_within(self.start..self.start + length, 0);
        self.memory.truncate(length);
        self.memory
    }

    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
