//! The tensors that a nest reads and writes.

use super::elements::elements;
use super::shared::Shared;
use bytemuck::Pod;
use smallvec::SmallVec;

/// An operand of a nest: a tensor, or the part of one that the nest's places need.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// The bytes of the elements.
    pub bytes: &'a [u8],
    /// The position in the tensor of the first element of `bytes`.
    pub first: usize,
    /// The output that overwrites this operand. Such an operand has no bytes of its own.
    over: Option<&'a Output<'a>>,
}

/// An output of a nest: a tensor, or the part of one that holds the places to be computed.
#[derive(Clone)]
pub struct Output<'a> {
    /// The bytes of the elements.
    pub bytes: Shared<'a, u8>,
    /// The position in the tensor of the first element of `bytes`.
    pub first: usize,
}

impl<'a> Output<'a> {
    /// Creates an output whose `bytes` start with element number `first` of the tensor.
    pub fn new(bytes: &'a mut [u8], first: usize) -> Self {
        Self { bytes: Shared::new(bytes), first }
    }
}

/// The operands of a launch. Most launches have so few that they need no allocation.
pub type Operands<'a> = SmallVec<[Operand<'a>; 6]>;

/// The outputs of a launch.
pub type Outputs<'a> = SmallVec<[Output<'a>; 2]>;

/// The inputs of one launch of a nest.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// The operands, in the nest's order.
    pub operands: &'a [Operand<'a>],
    /// The current step of each loop around the nest.
    pub steps: &'a [usize],
}

impl<'a> Operand<'a> {
    /// Returns the operand as one that an output overwrites.
    ///
    /// # Safety
    /// - The nest reads the operand only at the places that it writes, as
    ///   [`tile_compiler::nest::Nest::may_overwrite`] checks.
    /// - Each place is computed by one thread, and nobody else accesses the output there.
    pub unsafe fn overwritten(self, output: &'a Output<'a>) -> Self {
        Self { over: Some(output), ..self }
    }

    /// Returns the output that overwrites this operand.
    pub fn over(&self) -> Option<&'a Output<'a>> {
        self.over
    }

    /// Returns the elements from number `start` of the tensor on.
    pub fn after<T: Pod>(&self, start: usize) -> &'a [T] {
        &elements(self.bytes)[start - self.first..]
    }
}

impl<'a> From<&'a [u8]> for Operand<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, first: 0, over: None }
    }
}
