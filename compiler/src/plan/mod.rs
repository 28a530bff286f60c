//! The plan: everything that a runtime needs to run a program on one kind of device, with no
//! decisions left to make.
//!
//! Steps run in order. Each applies a routine to buffers. A routine is a nest with its schedule
//! and the kernel to launch, or the native program to run. Steps that compute the same share a
//! routine, unless other native programs are best for them.
//! Each buffer has a content; a temporary names its slot of memory, which temporaries with disjoint
//! lifetimes share.
//!
//! The prelude computes what depends on no input. Its steps run before the others, in the first run
//! and whenever a weight has changed. The results that other steps read are kept between runs.
//!
//! A loop repeats a contiguous range of the other steps. A turn of the loop is a step of the scan
//! that it comes from. Nests know the numbers of the turns, and use them to address parts of
//! buffers. [`Plan::launches`] unrolls loops for runtimes.
//!
//! Invariants, which [`Plan::verify`] checks:
//!
//! - A step reads only buffers that are inputs, weights, constants or carried, or that an earlier
//!   step writes.
//! - Every other buffer is written by one step, or by the steps that write a carry that it holds. A
//!   carry in place is also written by the step that makes its first value.
//! - No step reads a buffer that it writes, or one that an earlier step has overwritten. Outputs
//!   that overwrite an operand are the exception: the nest says which.
//! - Routines have distinct names, and distinct work or native programs.
//! - Two temporaries in one slot are never alive at the same time.

mod bytes;
mod carry;
mod cost;
mod divide;
mod draft;
mod error;
mod explain;
mod filter;
mod flow;
mod keep;
mod launches;
mod memory;
#[cfg(feature = "compile")]
mod nests;
mod overwrite;
#[cfg(feature = "pack")]
mod pack;
mod routines;
#[cfg(feature = "compile")]
mod scope;
#[cfg(test)]
mod tests;
mod text;
mod traffic;
mod verify;

pub(crate) use bytes::in_bytes;
pub(crate) use carry::carry;
pub use cost::Cost;
pub(crate) use divide::divide;
pub(crate) use draft::Draft;
pub use error::PlanError;
pub use explain::Explanation;
pub(crate) use filter::filter;
pub(crate) use keep::keep;
pub use launches::Launch;
pub(crate) use memory::memory;
#[cfg(feature = "compile")]
pub(crate) use nests::nests;
pub(crate) use overwrite::overwrite;
pub(crate) use routines::{Scheduled, kernels, schedules};

use std::ops::Range;
use std::sync::Arc;

use crate::dense::{Dense, id};
use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::native::NativeProgram;
use crate::nest::Nest;
use crate::profile::Profile;
use crate::schedule::{Choice, Schedule};
use crate::tensor::{Tensor, TensorType};

id! {
    /// A buffer's number: its position in [`Plan::buffers`].
    BufferId
}

/// The content of a buffer.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub enum Content {
    /// A value that the caller gives for every run.
    Input,
    /// A value that the caller gives, and that is kept until it is given again.
    Weight,
    /// A value known at compile time, uploaded once.
    Constant(#[cfg_attr(feature = "pack", serde(skip))] Tensor),
    /// A value that lives within a run, in the slot with this number.
    Temporary {
        /// The number of the slot.
        slot: usize,
    },
    /// A value that the prelude writes, and that steps of every run read.
    Kept,
    /// A value that a step writes, and the caller reads back. Also an empty tensor, which no step
    /// writes.
    Output,
    /// The next value of a weight. A step writes it in place, to the memory of this buffer's
    /// weight.
    Over {
        /// The buffer of the weight.
        weight: BufferId,
    },
    /// An alias for the buffers that hold a value from one turn of a loop to the next (see
    /// [`Carry`]), or a buffer that no step uses any more. It has no memory of its own.
    Carried,
}

impl Content {
    /// Returns the content of a tensor that passes between steps. The slot is assigned when all
    /// steps are known.
    fn passing(ty: &TensorType) -> Content {
        if ty.elements() == 0 { Content::Output } else { Content::Temporary { slot: usize::MAX } }
    }
}

/// A dense array of elements.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Buffer {
    /// The type of the tensor.
    pub ty: TensorType,
    /// The type that the device stores: that of [`Profile::storage`], or 8-bit integers in bytes,
    /// if no kernel writes them.
    pub storage: DType,
    /// The source and lifetime of the value.
    pub content: Content,
}

impl Buffer {
    /// Returns the bytes on the device: those of at least one element.
    pub fn bytes(&self) -> u64 {
        (self.ty.elements().max(1) as u64).saturating_mul(self.storage.size() as u64)
    }

    /// Returns whether it has 8-bit integers in bytes.
    pub(crate) fn is_in_bytes(&self) -> bool {
        self.storage == self.ty.dtype && matches!(self.ty.dtype, DType::I8 | DType::U8)
    }
}

/// The computation of a routine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub enum Work {
    /// A loop nest.
    Nest(Box<Nest>),
    /// [`crate::graph::Op::PrngValue`]: computes this many f32 values from a state.
    PrngValue {
        /// The number of values.
        elements: usize,
    },
    /// [`crate::graph::Op::PrngState`]: computes from a state the state after this many values.
    PrngState {
        /// The number of values.
        elements: usize,
    },
}

impl Work {
    /// Returns the same work without names, which is equal only for works that compute the same.
    pub fn anonymous(&self) -> Work {
        match self {
            Work::Nest(nest) => Work::Nest(Box::new(nest.anonymous())),
            work => work.clone(),
        }
    }
}

/// Code that steps run, not yet bound to buffers.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Routine {
    /// The name of the kernel and of the nest: describes the computation, in letters, digits and
    /// `_`.
    pub name: String,
    /// The computation.
    pub work: Work,
    /// The schedule, or `None` if there is nothing to choose.
    #[cfg_attr(feature = "pack", serde(skip))]
    pub schedule: Option<Schedule>,
    /// How the schedule was chosen.
    #[cfg_attr(feature = "pack", serde(skip))]
    pub choice: Choice,
    /// The kernel, for shader profiles. It binds the buffers of [`Routine::bound`].
    #[cfg_attr(feature = "pack", serde(with = "pack::kernel"))]
    pub kernel: Option<Kernel>,
    /// The native program of a nest, for profiles of processors.
    #[cfg_attr(feature = "pack", serde(skip))]
    pub native: Option<Arc<NativeProgram>>,
}

impl Routine {
    /// Returns the buffers that the kernel binds, in order: a step's operands, then the outputs
    /// that are not written over an operand.
    pub fn bound(&self, operands: &[BufferId], outputs: &[BufferId]) -> Vec<BufferId> {
        let own = outputs.iter().enumerate().filter(|(number, _)| self.over(*number).is_none());
        operands.iter().copied().chain(own.map(|(_, &id)| id)).collect()
    }

    /// Returns the operand over which an output is written.
    pub fn over(&self, output: usize) -> Option<usize> {
        match &self.work {
            Work::Nest(nest) => nest.outputs.get(output)?.over,
            Work::PrngValue { .. } | Work::PrngState { .. } => None,
        }
    }
}

id! {
    /// A routine's number: its position in [`Plan::routines`].
    RoutineId
}

/// One launch in each turn of the loops around it. No step writes an empty tensor.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Step {
    /// The name for readers of each output's value, such as `encoder[3].ff1.Y`.
    pub values: Vec<String>,
    /// The names for readers of all source values that the step computes, as far as they have
    /// names.
    pub fused: Vec<String>,
    /// The code that the step runs.
    pub routine: RoutineId,
    /// The buffers of the nest's operands.
    pub operands: Vec<BufferId>,
    /// The buffers of the nest's outputs.
    pub outputs: Vec<BufferId>,
}

impl Step {
    /// Returns the step's name for readers: those of its values.
    pub fn name(&self) -> String {
        let mut names: Vec<&str> = self.values.iter().map(String::as_str).collect();
        names.dedup();
        names.join(", ")
    }
}

/// Steps that run repeatedly.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Loop {
    /// The range in [`Plan::steps`].
    pub steps: Range<usize>,
    /// The number of turns, at least 1.
    pub length: usize,
    /// The values that the turns change.
    pub carries: Vec<Carry>,
    /// The loops within this one, in the order of their steps.
    pub loops: Vec<Loop>,
}

impl Loop {
    /// Returns the loops and those within them, each before the loops within it.
    fn all(loops: &[Loop]) -> impl Iterator<Item = &Loop> {
        let mut pending: Vec<&Loop> = loops.iter().collect();
        std::iter::from_fn(move || {
            let around = pending.pop()?;
            pending.extend(&around.loops);
            Some(around)
        })
    }
}

/// A value that each turn of a loop changes. Either two buffers alternate, so that a turn reads the
/// old value while it writes the new one, and the last turn writes to `last`. Or the carry is *in
/// place*: one buffer holds all of its values, the first one as well, a step writes the next value
/// over the old one, and no later step of the turn reads the old one.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Carry {
    /// The name for readers.
    pub name: String,
    /// The buffer with the value before the first turn. Nothing writes it during the loop, unless
    /// the carry is in place.
    pub first: BufferId,
    /// The buffer that steps read: an alias for the one that holds the value before the turn.
    pub before: BufferId,
    /// The buffer that steps write, and read afterwards: an alias for the one that holds the value
    /// after the turn.
    pub next: BufferId,
    /// The two alternating buffers: `last` holds the value after the last turn, `other` the one
    /// after the turn before it. Both are the same buffer if there is only one turn, or if the
    /// carry is in place.
    pub last: BufferId,
    /// The buffer with the value after the turn before the last.
    pub other: BufferId,
}

impl Carry {
    /// Returns whether one buffer holds all values.
    pub fn is_in_place(&self) -> bool {
        self.first == self.last
    }
}

/// A tensor that the caller gives or gets, or a part of one.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Port {
    /// The name of an input or output, or the path of a weight.
    pub name: String,
    /// The type that the caller gives or gets, unless `whole` has another.
    pub ty: TensorType,
    /// The name and type of the tensor that the caller gives or gets, if the plan has it in a
    /// narrower type, or this is a part of it, as it is too large for a buffer. Its parts follow
    /// one another, in the order of their elements. See also [`Port::values_and_scales`].
    #[cfg_attr(feature = "pack", serde(default, skip_serializing_if = "Option::is_none"))]
    pub whole: Option<(String, TensorType)>,
    /// The buffer. Several outputs may share one, and an output may be the buffer of an input or a
    /// constant. The shapes of the port and the buffer may differ, but not the number of elements.
    pub buffer: BufferId,
}

impl Port {
    /// Returns the name and type of the tensor that the caller gives or gets.
    pub fn tensor(&self) -> (&str, &TensorType) {
        match &self.whole {
            Some((name, ty)) => (name, ty),
            None => (&self.name, &self.ty),
        }
    }

    /// Divides the ports of a tensor: those of its elements, and that of its scales if the elements
    /// are 8-bit integers for f32. Scales have as many axes as the tensor, and one element along
    /// those on which they do not depend.
    pub fn values_and_scales(ports: &[Port]) -> (&[Port], Option<&Port>) {
        match ports {
            [values @ .., scales] if scales.is_scale_of(values) => (values, Some(scales)),
            values => (values, None),
        }
    }

    fn is_scale_of(&self, values: &[Port]) -> bool {
        let is_f32 = self.whole.as_ref().is_some_and(|(_, ty)| ty.dtype == DType::F32);
        let are_integers = values.iter().all(|port| port.ty.dtype == DType::I8);
        is_f32 && self.ty.dtype == DType::F32 && are_integers && !values.is_empty()
    }

    /// Returns the ports of each tensor that the caller gives or gets.
    pub fn tensors(ports: &[Port]) -> impl Iterator<Item = &[Port]> {
        ports.chunk_by(|one, next| one.whole.is_some() && one.whole == next.whole)
    }
}

/// A compiled program. See the module documentation.
///
/// ```
/// use tile_compiler::bindings::Bindings;
/// use tile_compiler::{lower, pipeline, profile::Profile};
///
/// let checked = tile_lang::check("function f(X[N]) -> (Y) { Y = 2 * X + 1; }");
/// let mut bindings = Bindings::default();
/// bindings.sizes.insert("N".to_owned(), 1000);
/// let mut graph = lower::lower(&checked.program.unwrap(), None, &bindings).unwrap().graph;
/// pipeline::optimise(&mut graph);
/// let plan = pipeline::plan(&graph, &Profile::generic()).unwrap();
/// assert_eq!(plan.steps.len(), 1);
/// assert_eq!((plan.cost().flops, plan.cost().bytes), (2000, 8000));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// The name of the entry function.
    pub name: String,
    /// The device that the plan is for.
    pub profile: Profile,
    /// The buffers.
    pub buffers: Dense<BufferId, Buffer>,
    /// Bytes of each slot that temporaries share.
    pub slots: Vec<u64>,
    /// The code of the steps.
    pub routines: Dense<RoutineId, Routine>,
    /// Steps that run before the others, in the first run and when a weight has changed.
    pub prelude: Vec<Step>,
    /// Steps of every run.
    pub steps: Vec<Step>,
    /// Loops in the order of their steps. They do not overlap.
    pub loops: Vec<Loop>,
    /// The inputs in the order of the program's header.
    pub inputs: Vec<Port>,
    /// Weights in order of creation.
    pub weights: Vec<Port>,
    /// The outputs in the order of the program's header.
    pub outputs: Vec<Port>,
    /// For each output that is the next value of a weight, and has its name: the numbers of the
    /// weight and of the output.
    pub updates: Vec<(usize, usize)>,
}

impl Plan {
    /// Returns the prelude's steps, then the others.
    pub fn all_steps(&self) -> impl Iterator<Item = &Step> + Clone {
        self.prelude.iter().chain(&self.steps)
    }

    /// Returns every loop, each before the loops within it.
    pub fn all_loops(&self) -> impl Iterator<Item = &Loop> {
        Loop::all(&self.loops)
    }

    /// Returns whether kernels compute convolutions by Winograd's minimal filtering.
    pub fn uses_winograd(&self) -> bool {
        let has_tables =
            |work: &Work| matches!(work, Work::Nest(nest) if nest.tables().next().is_some());
        self.routines.iter().any(|routine| has_tables(&routine.work))
    }

    /// Returns what the caller gives: the inputs, then the weights.
    pub fn given(&self) -> impl Iterator<Item = &Port> {
        self.inputs.iter().chain(&self.weights)
    }
}
