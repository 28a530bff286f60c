//! Checks that steps read only what is in memory, as the invariants of [`crate::plan`] state. The
//! pipeline runs this check between stages in debug builds.

use std::ops::Range;

use super::{Buffer, BufferId, Content, Loop, Port, Work};
use crate::dense::Dense;
use crate::profile::Execution;

/// The work of a step, and the buffers that it is bound to.
pub(super) struct BoundWork<'a> {
    pub work: &'a Work,
    pub operands: &'a [BufferId],
    pub outputs: &'a [BufferId],
}

/// The steps of a plan or a draft, and the buffers between them.
pub(super) struct Flow<'a> {
    pub execution: Execution,
    pub buffers: &'a Dense<BufferId, Buffer>,
    pub prelude: &'a [BoundWork<'a>],
    pub steps: &'a [BoundWork<'a>],
    pub loops: &'a [Loop],
    pub outputs: &'a [Port],
}

impl Flow<'_> {
    pub fn verify(&self) -> Result<(), String> {
        let is_given = |buffer: &Buffer| match buffer.content {
            Content::Input | Content::Weight | Content::Constant(_) => true,
            // No step writes an empty tensor.
            _ => buffer.ty.elements() == 0,
        };
        let mut memory = Memory {
            flow: self,
            holds: self.buffers.iter().map(is_given).collect(),
            is_overwritten: Dense::of(false, self.buffers.len()),
            old: Dense::of(None, self.buffers.len()),
            writer: Dense::of(None, self.buffers.len()),
        };
        for (number, step) in self.prelude.iter().enumerate() {
            memory
                .run(step, number)
                .map_err(|fault| format!("step {number} of the prelude: {fault}"))?;
        }
        memory.run_all(0..self.steps.len(), self.loops)?;
        self.outputs.iter().try_for_each(|output| {
            memory.read(output.buffer).map_err(|fault| format!("output `{}`: {fault}", output.name))
        })
    }
}

/// The state of memory after the steps so far.
struct Memory<'a> {
    flow: &'a Flow<'a>,
    /// For each buffer: whether its value is in memory.
    holds: Dense<BufferId, bool>,
    /// For each buffer: whether the next value of the weight, or of a carry in place, has taken its
    /// place.
    is_overwritten: Dense<BufferId, bool>,
    /// For the next value of each carry in place of the loops around: the buffer of the old one.
    old: Dense<BufferId, Option<BufferId>>,
    /// For each buffer: the step that writes it.
    writer: Dense<BufferId, Option<usize>>,
}

impl Memory<'_> {
    /// Runs one turn of `steps`, which contain `loops`.
    fn run_all(&mut self, steps: Range<usize>, loops: &[Loop]) -> Result<(), String> {
        let mut next = steps.start;
        for around in loops {
            let Range { start, end } = around.steps;
            if start < next || end <= start || end > steps.end || around.length == 0 {
                return Err(format!(
                    "a loop of {} turns repeats the steps {start}..{end}",
                    around.length
                ));
            }
            self.run_range(next..start)?;
            self.run_loop(around)
                .map_err(|fault| format!("in the loop of the steps {start}..{end}, {fault}"))?;
            next = end;
        }
        self.run_range(next..steps.end)
    }

    fn run_range(&mut self, steps: Range<usize>) -> Result<(), String> {
        for number in steps {
            let step = &self.flow.steps[number];
            self.run(step, self.flow.prelude.len() + number)
                .map_err(|fault| format!("step {number}: {fault}"))?;
        }
        Ok(())
    }

    /// Runs the first turn of a loop. The last value of a carry may itself be the next value of a
    /// carry of the loop around, which no step names.
    fn run_loop(&mut self, around: &Loop) -> Result<(), String> {
        // Loops within this one must leave the carries of loops around alone.
        let outer = std::mem::replace(&mut self.old, Dense::of(None, self.flow.buffers.len()));
        for carry in &around.carries {
            self.read(carry.first)
                .map_err(|fault| format!("the first value of `{}`: {fault}", carry.name))?;
            self.holds[carry.before] = true;
            self.is_overwritten[carry.before] = false;
            if carry.is_in_place() {
                self.old[carry.next] = Some(carry.before);
            }
        }
        // The memory of a carry in place has the names `before` and `next` alone.
        for carry in around.carries.iter().filter(|carry| carry.is_in_place()) {
            self.holds[carry.first] = false;
        }
        self.run_all(around.steps.clone(), &around.loops)?;
        for carry in &around.carries {
            self.read(carry.next)
                .map_err(|fault| format!("the next value of `{}`: {fault}", carry.name))?;
            self.holds[carry.last] = true;
        }
        self.old = outer;
        // The aliases have no meaning after the loop.
        for carry in &around.carries {
            (self.holds[carry.before], self.holds[carry.next]) = (false, false);
        }
        Ok(())
    }

    fn run(&mut self, step: &BoundWork, number: usize) -> Result<(), String> {
        step.operands.iter().try_for_each(|&operand| self.read(operand))?;
        if let Some(both) = step.operands.iter().find(|operand| step.outputs.contains(operand)) {
            return Err(format!("it reads and writes buffer {both}"));
        }
        self.check_types(step)?;
        self.check_overwritten(step)?;
        for &output in step.outputs {
            match self.flow.buffers[output].content {
                Content::Input | Content::Weight | Content::Constant(_) => {
                    return Err(format!("it writes buffer {output}, which is given"));
                }
                Content::Over { weight } => self.is_overwritten[weight] = true,
                _ => {}
            }
            if let Some(old) = self.old[output] {
                self.is_overwritten[old] = true;
            }
            if self.writer[output].replace(number).is_some_and(|writer| writer != number) {
                return Err(format!("it writes buffer {output}, as another step does"));
            }
            self.holds[output] = true;
        }
        Ok(())
    }

    fn read(&self, buffer: BufferId) -> Result<(), String> {
        if !self.holds[buffer] {
            return Err(format!("buffer {buffer} is not in memory"));
        }
        match self.is_overwritten[buffer] {
            true => Err(format!("buffer {buffer} is overwritten")),
            false => Ok(()),
        }
    }

    /// Checks that a nest overwrites the operand in whose memory its output is, and no other.
    fn check_overwritten(&self, step: &BoundWork) -> Result<(), String> {
        let over = |number: usize| match step.work {
            Work::Nest(nest) => nest.outputs[number].over.map(|operand| step.operands[operand]),
            Work::PrngValue { .. } | Work::PrngState { .. } => None,
        };
        for (number, &output) in step.outputs.iter().enumerate() {
            let shared = match self.flow.buffers[output].content {
                Content::Over { weight } => Some(weight),
                _ => self.old[output],
            };
            let is_read = shared.is_some_and(|old| step.operands.contains(&old));
            if over(number) != shared.filter(|_| is_read) {
                return Err(format!("it does not write buffer {output} over the value there"));
            }
        }
        Ok(())
    }

    /// Compares the tensors of a nest with the buffers. Their shapes may differ.
    fn check_types(&self, step: &BoundWork) -> Result<(), String> {
        let Work::Nest(nest) = step.work else { return Ok(()) };
        let outputs = nest.outputs.iter().map(|output| &output.ty);
        let tensors = nest.operands.iter().chain(outputs);
        let buffers = step.operands.iter().chain(step.outputs);
        if nest.operands.len() != step.operands.len() || nest.outputs.len() != step.outputs.len() {
            return Err(format!("it has another number of tensors than its nest `{}`", nest.name));
        }
        for (number, (tensor, &id)) in tensors.zip(buffers).enumerate() {
            let buffer = &self.flow.buffers[id];
            let is_in_bytes = self.flow.execution == Execution::Shader && buffer.is_in_bytes();
            if nest.in_bytes.contains(&number) != is_in_bytes {
                let [is, expected] =
                    if is_in_bytes { ["bytes", "words"] } else { ["words", "bytes"] };
                return Err(format!("buffer {id} has {is}, and {expected} in the nest"));
            }
            let buffer = &buffer.ty;
            if (tensor.dtype, tensor.elements()) != (buffer.dtype, buffer.elements()) {
                return Err(format!("buffer {id} is {buffer}, and {tensor} in the nest"));
            }
        }
        Ok(())
    }
}
