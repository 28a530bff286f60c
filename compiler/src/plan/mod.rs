//! The plan: everything a runtime needs to run a program on one kind of device, and nothing it has to think about.
//!
//! Steps run in order. Each is one nest with its schedule and, for shader profiles, the kernel to launch. Buffers say
//! what they hold; temporaries name the slot of memory they occupy, so that those whose lifetimes do not overlap share
//! one.
//!
//! Always true: a step reads only buffers that are inputs, weights, constants, or written by a step before it; each other
//! buffer is written by one step; two temporaries of one slot are never alive together.

mod memory;
mod text;

pub(crate) use memory::assign_slots;

use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::nest::Nest;
use crate::profile::Profile;
use crate::schedule::Schedule;
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
    /// Written by a step, and read back or kept by the caller.
    Output,
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

/// What a step computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    Nest {
        nest: Box<Nest>,
        schedule: Schedule,
    },
    /// [`crate::graph::Op::PrngValue`]: from a state, this many f32 values.
    PrngValue {
        elements: usize,
    },
    /// [`crate::graph::Op::PrngState`]: from a state, the state after this many values.
    PrngState {
        elements: usize,
    },
}

/// One launch. No step writes an empty tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub name: String,
    pub work: Work,
    /// For shader profiles. Its buffers are `operands`, then `outputs`, in order.
    pub kernel: Option<Kernel>,
    /// The buffers read: those behind the nest's operands.
    pub operands: Vec<BufferId>,
    /// The buffers written: those behind the nest's outputs.
    pub outputs: Vec<BufferId>,
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
    pub steps: Vec<Step>,
    pub inputs: Vec<Port>,
    /// In order of creation.
    pub weights: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl Plan {
    /// What the caller gives: the inputs, then the weights.
    pub fn given(&self) -> impl Iterator<Item = &Port> {
        self.inputs.iter().chain(&self.weights)
    }
}
