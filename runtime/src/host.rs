//! Plans that run on buffers in host memory: those of the cpu device and those under the kernel checker.

use std::fmt::Display;

use tile_compiler::plan::{BufferId, Content, Launch, Plan};
use tile_compiler::tensor::Tensor;

use crate::checked;
use crate::cpu::Steps;
use crate::error::Error;
use crate::storage::{from_storage, to_storage};
use crate::store::{self, Store, Stored};
use crate::trace::Trace;

/// A plan with its memory.
pub struct HostExecutable {
    pub plan: Plan,
    memory: Memory,
    engine: Engine,
}

/// What runs the steps.
enum Engine {
    Cpu(Box<Steps>),
    Check {
        /// Of the plan's kernels.
        modules: Vec<naga::Module>,
        /// The prelude must run before the next run.
        stale: bool,
    },
}

impl HostExecutable {
    /// The plan on the cpu device, which may have to be `exact`.
    pub fn cpu(plan: Plan, exact: bool) -> Result<HostExecutable, Error> {
        // What does not fit is found before any of it is looked at.
        let largest = plan.buffers.iter().max_by_key(|buffer| buffer.bytes());
        if let Some(buffer) = largest.filter(|buffer| !Block::fits(buffer.bytes())) {
            let what = format!("{}, {} bytes", buffer.ty, buffer.bytes());
            return Err(Error::OutOfMemory { device: "cpu".into(), what });
        }
        let steps = Steps::new(&plan, exact);
        let memory = Memory::new(&plan, "cpu", &steps.without_memory())?;
        HostExecutable::new(plan, memory, Engine::Cpu(Box::new(steps)))
    }

    /// The plan, its kernels under the kernel checker.
    pub fn check(plan: Plan) -> Result<HostExecutable, Error> {
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

    /// Gives the input or weight of this number in [`Plan::given`], a tensor of its port's type.
    pub fn set(&mut self, number: usize, tensor: &Tensor) -> Result<(), Error> {
        let buffer = self.plan.given().nth(number).map(|port| port.buffer);
        match buffer {
            Some(buffer) => self.fill(buffer, tensor),
            None => Err(Error::Internal { what: format!("the plan has no input or weight {number}") }),
        }
    }

    /// The input or weight of this number in [`Plan::given`].
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

    /// Runs every step, those of the prelude where it must.
    pub fn execute(&mut self) -> Result<(), Error> {
        let HostExecutable { plan, memory, engine } = self;
        match engine {
            Engine::Cpu(steps) => steps.run(plan, memory).map_err(|what| Error::Internal { what: what.into() }),
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

    /// As [`HostExecutable::execute`], with the time of each launch; `None` under the kernel checker, which is not made to be fast.
    pub fn trace(&mut self) -> Result<Option<Trace>, Error> {
        let HostExecutable { plan, memory, engine } = self;
        let Engine::Cpu(steps) = engine else { return Ok(None) };
        let launches = steps.trace(plan, memory).map_err(|what| Error::Internal { what: what.into() })?;
        Ok(Some(Trace { launches, handing_over: None }))
    }

    /// Takes its weights' memory from the store, those that this has.
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

    /// Hands its weights' memory to the store; all have values.
    pub fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        let HostExecutable { plan, memory, engine } = self;
        for port in &plan.weights {
            let storage = plan.buffers[port.buffer].storage;
            let block = match engine {
                // One that is kept in packed form alone has not changed.
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

    /// After a run: makes the next values of weights their values. The outputs that these were are lost.
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
                    let bytes = memory.bytes(next).to_vec();
                    memory.bytes_mut(weight).copy_from_slice(&bytes);
                }
            }
        }
    }

    /// The outputs, in the plan's order.
    pub fn read(&self) -> Result<Vec<Tensor>, Error> {
        (0..self.plan.outputs.len()).map(|number| self.output(number)).collect()
    }

    /// The same, without a second copy of those that have memory of their own.
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

    /// The output of this number.
    pub fn output(&self, number: usize) -> Result<Tensor, Error> {
        let port = &self.plan.outputs[number];
        let storage = self.plan.buffers[port.buffer].storage;
        let bytes = self.memory.bytes(port.buffer);
        from_storage(bytes, storage, &port.ty).ok_or_else(|| Error::unstorable(&port.ty, storage))
    }
}

/// The memory behind a plan's buffers.
pub struct Memory {
    /// First the slots, then the plan's other buffers.
    blocks: Vec<Block>,
    /// Where in `blocks` each of the plan's buffers lives, if it has memory.
    place: Vec<Option<usize>>,
    /// Of each buffer.
    bytes: Vec<usize>,
}

impl Memory {
    /// What the plan needs; nothing for the buffers `without`.
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

    /// A buffer's bytes; none while it is taken, or if it has no memory.
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        let bytes = self.place[id].map_or(&[][..], |place| self.blocks[place].bytes());
        &bytes[..self.bytes[id].min(bytes.len())]
    }

    /// A buffer's bytes, to write to.
    pub fn bytes_mut(&mut self, id: BufferId) -> &mut [u8] {
        let length = self.bytes[id];
        let bytes = self.place[id].map_or(&mut [][..], |place| self.blocks[place].bytes_mut());
        let length = length.min(bytes.len());
        &mut bytes[..length]
    }

    /// Takes a buffer's block, to write to while others are read. [`Memory::put`] it back.
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

/// Bytes that start at a multiple of 64, a cache line and the widest vector register.
#[derive(Default)]
pub struct Block {
    /// Never grows, so that it stays where it is.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    const ALIGNMENT: usize = 64;

    /// Whether there is so much memory.
    fn fits(bytes: u64) -> bool {
        usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
    }

    /// `None` where there is not so much memory, as far as the system says so before it is needed.
    fn zeroed(bytes: u64) -> Option<Block> {
        let length = usize::try_from(bytes).ok()?;
        let with_margin = length.checked_add(Block::ALIGNMENT)?;
        if !Block::fits(with_margin as u64) {
            return None;
        }
        // Of an allocator that has zeros to give, pages come when they are first touched, by the threads that work on them.
        let memory = vec![0; with_margin];
        let start = memory.as_ptr().align_offset(Block::ALIGNMENT);
        (start < Block::ALIGNMENT).then_some(Block { memory, start, length })
    }

    /// The first so many bytes, of as many as there are, moved to the front of the memory that they have.
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
