//! Plans that run on buffers in host memory: those of the cpu device and those under the kernel checker.

use std::fmt::Display;

use tile_compiler::plan::{BufferId, Content, Plan, Port, Routine, Work};
use tile_compiler::tensor::Tensor;

use crate::check;
use crate::cpu;
use crate::error::Error;
use crate::executable::{emit, kernel};
use crate::prng;
use crate::storage::{from_storage, to_storage};

/// Runs the routine of one step on its operands and outputs, each of exactly its buffer's bytes.
pub type RunStep = fn(&Routine, &[&[u8]], &mut [&mut [u8]]) -> Result<(), Error>;

/// A plan with its memory.
pub struct HostExecutable {
    plan: Plan,
    /// First the slots, then the plan's other buffers.
    memory: Vec<Block>,
    /// Where in `memory` each of the plan's buffers lives.
    place: Vec<usize>,
    run_step: RunStep,
    /// The prelude must run before the next run.
    stale: bool,
}

impl HostExecutable {
    /// Allocates what the plan needs and fills in its constants.
    pub fn new(plan: Plan, device: &str, run_step: RunStep) -> Result<HostExecutable, Error> {
        let allocate = |bytes: u64, what: &dyn Display| {
            let out_of_memory = || Error::OutOfMemory { device: device.into(), what: format!("{what}, {bytes} bytes") };
            Block::zeroed(bytes).ok_or_else(out_of_memory)
        };
        let mut memory = Vec::new();
        for &bytes in &plan.slots {
            memory.push(allocate(bytes, &"intermediate results")?);
        }
        let mut place = Vec::new();
        for buffer in &plan.buffers {
            if let Content::Temporary { slot } = buffer.content {
                place.push(slot);
                continue;
            }
            place.push(memory.len());
            memory.push(allocate(buffer.bytes(), &buffer.ty)?);
        }
        let mut executable = HostExecutable { plan, memory, place, run_step, stale: true };
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
        self.stale |= number >= self.plan.inputs.len();
        match buffer {
            Some(buffer) => self.fill(buffer, tensor),
            None => Err(Error::Internal { what: format!("the plan has no input or weight {number}") }),
        }
    }

    /// The input or weight of this number in [`Plan::given`].
    pub fn get(&self, number: usize) -> Option<Tensor> {
        let port = self.plan.given().nth(number)?;
        from_storage(self.memory[self.place[port.buffer]].bytes(), self.plan.buffers[port.buffer].storage, &port.ty)
    }

    fn fill(&mut self, id: BufferId, tensor: &Tensor) -> Result<(), Error> {
        let storage = self.plan.buffers[id].storage;
        let bytes = to_storage(tensor, storage).ok_or_else(|| Error::unstorable(tensor.ty(), storage))?;
        self.memory[self.place[id]].bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    /// Runs every step, those of the prelude where it must.
    pub fn execute(&mut self) -> Result<(), Error> {
        let prelude = if self.stale { self.plan.prelude.as_slice() } else { &[] };
        for step in prelude.iter().chain(&self.plan.steps) {
            let bytes = |id: BufferId| self.plan.buffers[id].bytes() as usize;
            // A step's outputs are elsewhere than its operands: the plan's invariant.
            let mut taken: Vec<Block> =
                step.outputs.iter().map(|&id| std::mem::take(&mut self.memory[self.place[id]])).collect();
            let operands: Vec<&[u8]> =
                step.operands.iter().map(|&id| &self.memory[self.place[id]].bytes()[..bytes(id)]).collect();
            let mut outputs: Vec<&mut [u8]> =
                taken.iter_mut().zip(&step.outputs).map(|(block, &id)| &mut block.bytes_mut()[..bytes(id)]).collect();
            let result = (self.run_step)(&self.plan.routines[step.routine], &operands, &mut outputs);
            for (block, &id) in taken.into_iter().zip(&step.outputs) {
                self.memory[self.place[id]] = block;
            }
            result?;
        }
        self.stale = false;
        Ok(())
    }

    /// The outputs, in the plan's order.
    pub fn read(&self) -> Result<Vec<Tensor>, Error> {
        let output = |port: &Port| {
            let storage = self.plan.buffers[port.buffer].storage;
            let bytes = self.memory[self.place[port.buffer]].bytes();
            from_storage(bytes, storage, &port.ty).ok_or_else(|| Error::unstorable(&port.ty, storage))
        };
        self.plan.outputs.iter().map(output).collect()
    }
}

/// Runs a routine on the cpu device.
pub fn run_native(routine: &Routine, operands: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), Error> {
    let result = match &routine.work {
        Work::Nest(nest) => cpu::run(nest, &[], operands, outputs).map_err(|error| error.to_string()),
        Work::PrngValue { elements } => prng::values(operands, outputs, *elements).ok_or("not its buffers".into()),
        Work::PrngState { elements } => prng::state(operands, outputs, *elements).ok_or("not its buffers".into()),
    };
    result.map_err(|what| Error::Internal { what: format!("kernel {}: {what}", routine.name) })
}

/// Runs a routine's kernel under the kernel checker, which also sees to it that every element of an output is written.
pub fn run_checked(routine: &Routine, operands: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), Error> {
    let kernel = kernel(routine)?;
    let module = emit(kernel)?;
    let fault = |what: &dyn Display| Error::Internal { what: format!("kernel {}: {what}", kernel.name) };
    let mut buffers: Vec<Vec<u8>> = operands.iter().map(|bytes| bytes.to_vec()).collect();
    buffers.extend(outputs.iter().map(|bytes| vec![0; bytes.len()]));
    let undefined = (operands.len()..buffers.len()).map(|binding| binding as u32).collect();
    let options = check::Options { undefined, ..check::Options::default() };
    let unwritten = check::run(&module, &kernel.name, kernel.grid, &mut buffers, &options).map_err(|f| fault(&f))?;
    if let Some(part) = unwritten.first() {
        return Err(fault(part));
    }
    for (output, bytes) in outputs.iter_mut().zip(&buffers[operands.len()..]) {
        output.copy_from_slice(bytes);
    }
    Ok(())
}

/// Bytes that start at a multiple of 64, a cache line and the widest vector register.
#[derive(Default)]
struct Block {
    /// Never grows, so that it stays where it is.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Block {
    const ALIGNMENT: usize = 64;

    /// `None` where there is not so much memory.
    fn zeroed(bytes: u64) -> Option<Block> {
        let length = usize::try_from(bytes).ok()?;
        let with_margin = length.checked_add(Block::ALIGNMENT)?;
        let mut memory: Vec<u8> = Vec::new();
        memory.try_reserve_exact(with_margin).ok()?;
        memory.resize(with_margin, 0);
        let start = memory.as_ptr().align_offset(Block::ALIGNMENT);
        (start < Block::ALIGNMENT).then_some(Block { memory, start, length })
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
