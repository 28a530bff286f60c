//! The plan: everything a runtime needs to run a program on one kind of device, and nothing it has to think about.
//!
//! Steps run in order. Each runs a routine, a nest with its schedule and, for shader profiles, the kernel to launch, on
//! buffers of its own; steps that compute the same share a routine. Buffers say what they hold; temporaries name the slot
//! of memory they occupy, so that those whose lifetimes do not overlap share one.
//!
//! What depends on no input is computed by the prelude, steps that run before the others when a weight has changed, and
//! the first time; what the others read of it is kept between runs.
//!
//! A loop runs some of the other steps, which follow each other, again and again: a turn is a step of the scan that it comes
//! from. Nests know the numbers of the turns, and read and write parts of buffers by them. [`Plan::launches`] unrolls loops
//! for runtimes.
//!
//! Always true: a step reads only buffers that are inputs, weights, constants, carried, or written by a step before it; each
//! other buffer is written by one step, or by the steps that write a carry that it holds; no step reads a buffer that it
//! writes, nor one that a step before it has written over; no two routines have one name, or do the same work; two temporaries
//! of one slot are never alive together.

mod cost;
mod error;
mod explain;
mod launches;
mod memory;
mod overwrite;
mod planner;
#[cfg(test)]
mod tests;
mod text;
mod traffic;

pub use cost::Cost;
pub use error::PlanError;
pub use explain::Explanation;
pub use launches::Launch;
pub(crate) use planner::Planner;

use std::ops::Range;

use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::nest::Nest;
use crate::profile::Profile;
use crate::schedule::{Choice, Schedule};
use crate::tensor::{Tensor, TensorType};

/// A buffer's number: its position in [`Plan::buffers`].
pub type BufferId = usize;

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Given by the caller for every run.
    Input,
    /// Given by the caller, and kept until it is given again.
    Weight,
    /// Known at compile time, uploaded once.
    Constant(Tensor),
    /// Lives within a run, in the slot of memory of this number.
    Temporary { slot: usize },
    /// Written by the prelude, and read by steps of every run.
    Kept,
    /// Written by a step, and read back by the caller; or without elements, which no step writes.
    Output,
    /// The next value of a weight, written by a step over the weight of this buffer: it has that one's memory.
    Over { weight: BufferId },
    /// Stands for the buffers that hold a value from one turn of a loop to the next: see [`Carry`].
    Carried,
}

impl Content {
    /// Of a tensor that passes between steps: it gets its slot when all steps are known.
    fn passing(ty: &TensorType) -> Content {
        if ty.elements() == 0 { Content::Output } else { Content::Temporary { slot: usize::MAX } }
    }
}

/// A dense array of elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    pub ty: TensorType,
    /// The type that the device stores: see [`Profile::storage`].
    pub storage: DType,
    pub content: Content,
}

impl Buffer {
    /// Bytes on the device, at least one element's.
    pub fn bytes(&self) -> u64 {
        (self.ty.elements().max(1) as u64).saturating_mul(self.storage.size() as u64)
    }
}

/// What a routine computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    Nest(Box<Nest>),
    /// [`crate::graph::Op::PrngValue`]: from a state, this many f32 values.
    PrngValue {
        elements: usize,
    },
    /// [`crate::graph::Op::PrngState`]: from a state, the state after this many values.
    PrngState {
        elements: usize,
    },
}

impl Work {
    /// The same work without names: equal for two only where they compute the same.
    pub fn anonymous(&self) -> Work {
        match self {
            Work::Nest(nest) => Work::Nest(Box::new(nest.anonymous())),
            work => work.clone(),
        }
    }
}

/// What steps run: code, not yet on any buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct Routine {
    /// What it computes, in letters, digits and `_`: the kernel's and the nest's name.
    pub name: String,
    pub work: Work,
    /// `None` where there is nothing to choose.
    pub schedule: Option<Schedule>,
    /// How the schedule was found.
    pub choice: Choice,
    /// For shader profiles. Its buffers are those of [`Routine::bound`].
    pub kernel: Option<Kernel>,
}

impl Routine {
    /// The buffers that the kernel binds, in order: a step's operands, then those outputs that are not written over one.
    pub fn bound(&self, operands: &[BufferId], outputs: &[BufferId]) -> Vec<BufferId> {
        let own = outputs.iter().enumerate().filter(|(number, _)| self.over(*number).is_none());
        operands.iter().copied().chain(own.map(|(_, &id)| id)).collect()
    }

    /// The operand over which an output is written.
    pub fn over(&self, output: usize) -> Option<usize> {
        match &self.work {
            Work::Nest(nest) => nest.outputs.get(output)?.over,
            Work::PrngValue { .. } | Work::PrngState { .. } => None,
        }
    }
}

/// A routine's number: its position in [`Plan::routines`].
pub type RoutineId = usize;

/// One launch in each turn of the loops around it. No step writes an empty tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What readers call the value that each output holds: `encoder[3].ff1.Y`.
    pub values: Vec<String>,
    /// What readers call all that it computes of the source, as far as that has names.
    pub fused: Vec<String>,
    pub routine: RoutineId,
    /// The buffers read: those behind the nest's operands.
    pub operands: Vec<BufferId>,
    /// The buffers written: those behind the nest's outputs.
    pub outputs: Vec<BufferId>,
}

impl Step {
    /// What readers call it: its values.
    pub fn name(&self) -> String {
        let mut names: Vec<&str> = self.values.iter().map(String::as_str).collect();
        names.dedup();
        names.join(", ")
    }
}

/// Steps that run again and again.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// Of [`Plan::steps`].
    pub steps: Range<usize>,
    /// The number of turns, at least 1.
    pub length: usize,
    pub carries: Vec<Carry>,
    /// Those within it, in the order of their steps, which are among its own.
    pub loops: Vec<Loop>,
}

/// A value that each turn of a loop changes. Buffers take turns to hold it, so that a turn reads the old value while it
/// writes the new one, and the last turn writes to `last`.
#[derive(Clone, Debug, PartialEq)]
pub struct Carry {
    /// What readers call it.
    pub name: String,
    /// Its value before the first turn; nothing writes it meanwhile.
    pub first: BufferId,
    /// What steps read: it stands for the buffer that holds the value before the turn.
    pub before: BufferId,
    /// What steps write, and read after that: it stands for the buffer of the value after the turn.
    pub next: BufferId,
    /// The buffers that hold the values after the turns: after the last turn, the one before it, and so on by turns. The
    /// same where there is one turn only.
    pub last: BufferId,
    pub other: BufferId,
}

/// A tensor that the caller gives or gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    pub name: String,
    pub ty: TensorType,
    /// Several outputs may share one buffer, and an output may be an input's or a constant's buffer; its shape may
    /// differ from the buffer's (the element count does not).
    pub buffer: BufferId,
}

/// A compiled program: see the module's head.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The entry's name.
    pub name: String,
    pub profile: Profile,
    pub buffers: Vec<Buffer>,
    /// Bytes of each slot that temporaries share.
    pub slots: Vec<u64>,
    pub routines: Vec<Routine>,
    /// Steps to run when a weight has changed, before the others.
    pub prelude: Vec<Step>,
    /// Steps to run each time.
    pub steps: Vec<Step>,
    /// In the order of their steps, which do not overlap.
    pub loops: Vec<Loop>,
    pub inputs: Vec<Port>,
    /// In order of creation.
    pub weights: Vec<Port>,
    pub outputs: Vec<Port>,
    /// Of each output that has a weight's name, and is its next value: the weight's number, and the output's.
    pub updates: Vec<(usize, usize)>,
}

impl Plan {
    /// The prelude's steps, then the others.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> + Clone {
        self.prelude.iter().chain(&self.steps)
    }

    /// Every loop, before those within it.
    pub fn all_loops(&self) -> impl Iterator<Item = &Loop> {
        let mut pending: Vec<&Loop> = self.loops.iter().collect();
        std::iter::from_fn(move || {
            let around = pending.pop()?;
            pending.extend(&around.loops);
            Some(around)
        })
    }

    /// What the caller gives: the inputs, then the weights.
    pub fn given(&self) -> impl Iterator<Item = &Port> {
        self.inputs.iter().chain(&self.weights)
    }
}
