//! Plans that run on buffers in host memory: those of the cpu device and those under the kernel checker.

use std::fmt::Display;

use tile_compiler::nest::{Nest, Output};
use tile_compiler::plan::{BufferId, Content, Plan, Port, Routine, Work};
use tile_compiler::tensor::Tensor;

use crate::check::{self, Unwritten};
use crate::cpu;
use crate::error::Error;
use crate::executable::{emit, kernel};
use crate::prng;
use crate::storage::{from_storage, to_storage};

/// Runs the routine of one step at some turns of the loops around it, on its operands and outputs, each of exactly its
/// buffer's bytes.
pub type RunStep = fn(&Routine, &[usize], &[&[u8]], &mut [&mut [u8]]) -> Result<(), Error>;

/// A plan with its memory.
pub struct HostExecutable {
    plan: Plan,
    /// First the slots, then the plan's other buffers.
    memory: Vec<Block>,
    /// Where in `memory` each of the plan's buffers lives.
    place: Vec<usize>,
    run_step: RunStep,
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
            memory.push(match buffer.content {
                Content::Carried => Block::default(),
                _ => allocate(buffer.bytes(), &buffer.ty)?,
            });
        }
        let mut executable = HostExecutable { plan, memory, place, run_step };
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
        from_storage(self.memory[self.place[port.buffer]].bytes(), self.plan.buffers[port.buffer].storage, &port.ty)
    }

    fn fill(&mut self, id: BufferId, tensor: &Tensor) -> Result<(), Error> {
        let storage = self.plan.buffers[id].storage;
        let bytes = to_storage(tensor, storage).ok_or_else(|| Error::unstorable(tensor.ty(), storage))?;
        self.memory[self.place[id]].bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    /// Runs every step.
    pub fn execute(&mut self) -> Result<(), Error> {
        let HostExecutable { plan, memory, place, run_step } = self;
        plan.launches(|launch| {
            let bytes = |id: BufferId| plan.buffers[id].bytes() as usize;
            // A step's outputs are elsewhere than its operands: the plan's invariant.
            let mut taken: Vec<Block> =
                launch.outputs.iter().map(|&id| std::mem::take(&mut memory[place[id]])).collect();
            let operands: Vec<&[u8]> =
                launch.operands.iter().map(|&id| &memory[place[id]].bytes()[..bytes(id)]).collect();
            let mut outputs: Vec<&mut [u8]> =
                taken.iter_mut().zip(launch.outputs).map(|(block, &id)| &mut block.bytes_mut()[..bytes(id)]).collect();
            let result = run_step(&plan.routines[launch.step.routine], launch.turns, &operands, &mut outputs);
            for (block, &id) in taken.into_iter().zip(launch.outputs) {
                memory[place[id]] = block;
            }
            result
        })
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
pub fn run_native(
    routine: &Routine,
    turns: &[usize],
    operands: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> Result<(), Error> {
    let result = match &routine.work {
        Work::Nest(nest) => cpu::run(nest, turns, operands, outputs).map_err(|error| error.to_string()),
        Work::PrngValue { elements } => prng::values(operands, outputs, *elements).ok_or("not its buffers".into()),
        Work::PrngState { elements } => prng::state(operands, outputs, *elements).ok_or("not its buffers".into()),
    };
    result.map_err(|what| Error::Internal { what: format!("kernel {}: {what}", routine.name) })
}

/// Runs a routine's kernel under the kernel checker, which also sees to it that every element of an output is written, or
/// of the part of it that these turns write.
pub fn run_checked(
    routine: &Routine,
    turns: &[usize],
    operands: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> Result<(), Error> {
    let kernel = kernel(routine)?;
    let module = emit(kernel)?;
    let fault = |what: &dyn Display| Error::Internal { what: format!("kernel {}: {what}", kernel.name) };
    let mut buffers: Vec<Vec<u8>> = operands.iter().map(|bytes| bytes.to_vec()).collect();
    buffers.extend(outputs.iter().map(|bytes| bytes.to_vec()));
    let undefined = (operands.len()..buffers.len()).map(|binding| binding as u32).collect();
    buffers.extend(kernel.steps.iter().zip(turns).map(|(_, &turn)| (turn as u32).to_le_bytes().to_vec()));
    let options = check::Options { undefined, ..check::Options::default() };
    let unwritten = check::run(&module, &kernel.name, kernel.grid, &mut buffers, &options).map_err(|f| fault(&f))?;
    for (number, output) in outputs.iter_mut().enumerate() {
        let binding = operands.len() + number;
        let parts: Vec<&Unwritten> = unwritten.iter().filter(|part| part.binding as usize == binding).collect();
        match &routine.work {
            Work::Nest(nest) if nest.loops > 0 => {
                let mut written = vec![true; output.len()];
                parts.iter().for_each(|part| written[part.bytes.clone()].fill(false));
                let size = output.len() / nest.outputs[number].ty.elements().max(1);
                let wanted = written_at(nest, number, turns);
                if let Some(element) = (0..wanted.len()).find(|&e| written[e * size] != wanted[e]) {
                    let what = if wanted[element] { "does not write" } else { "writes" };
                    return Err(fault(&format!("it {what} element {element} of output {number} at turns {turns:?}")));
                }
            }
            _ => {
                if let Some(part) = parts.first() {
                    return Err(fault(part));
                }
            }
        }
        output.copy_from_slice(&buffers[binding]);
    }
    Ok(())
}

/// For each element of an output, whether the nest writes it at these turns.
fn written_at(nest: &Nest, output: usize, turns: &[usize]) -> Vec<bool> {
    let Output { ty, position } = &nest.outputs[output];
    let mut written = vec![false; ty.elements()];
    for place in 0..nest.places() {
        let mut point = vec![0; nest.axes.len()];
        let mut rest = place;
        for axis in (0..nest.free).rev() {
            point[axis] = (rest % nest.axes[axis].extent) as i64;
            rest /= nest.axes[axis].extent;
        }
        nest.loops().zip(turns).for_each(|(variable, &turn)| point[variable] = turn as i64);
        for derived in &nest.derived {
            point.push(derived.numerator.evaluate(&point).unwrap_or(0).div_euclid(derived.denominator));
        }
        let element = position.evaluate(&point).and_then(|position| usize::try_from(position).ok());
        if let Some(written) = element.and_then(|element| written.get_mut(element)) {
            *written = true;
        }
    }
    written
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
