//! The state of a machine that is kept between uses.

use super::Sink;
use super::bind::Bench;
use crate::cpu::loops::walk::Walker;
use crate::cpu::memory::Register;
use crate::cpu::vector::number::{from_scalar, typed};
use crate::cpu::vector::strip::{ChunkPointer, Code};
use tile_compiler::dense::Dense;
use tile_compiler::native::Tape;
use tile_compiler::scalar::Value;

/// The place of a value's elements for the current chunk.
#[derive(Clone, Copy)]
pub(super) enum At {
    Register(usize),
    /// One element for the whole chunk, in a register.
    Uniform(usize, Spread),
    /// One element for each row of the chunk: the first elements of a register.
    OfRows(usize),
    /// In a register, from this element on.
    Steady(usize, usize),
    /// In an operand, from this element on.
    Operand(usize, usize),
    /// In memory that only this thread uses during the chunk: sums that were lent, or an output's
    /// part for the chunk.
    Own(ChunkPointer),
}

/// The elements of a register that are set, for a value that is the same for the whole chunk.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Spread {
    /// Only the first element of the register is set.
    First,
    /// All elements of the register are set.
    All,
    /// All elements are set, and no other value ever uses the register.
    Kept,
}

/// The state of a machine that is kept between uses.
pub struct State {
    pub(super) registers: Vec<Register>,
    pub(super) at: Dense<Value, At>,
    pub(super) moves: Vec<i64>,
    pub(super) bench: Bench,
    pub(super) ahead: Vec<(Code, ChunkPointer)>,
    pub(super) sinks: Vec<Sink>,
    pub(super) walker: Walker,
}

impl State {
    pub(super) fn new(tape: &Tape) -> Self {
        let mut registers: Vec<Register> =
            tape.registers.iter().map(|&bytes| Register::zeroed(bytes)).collect();
        let mut at = Dense::of(At::Register(0), tape.dtypes.len());
        for &(value, register, scalar) in &tape.constants {
            typed!(scalar.dtype, T => registers[register].elements_mut::<T>().fill(from_scalar(scalar)));
            at[value] = At::Uniform(register, Spread::Kept);
        }
        for &(value, register) in &tape.given {
            at[value] = At::Register(register);
        }
        Self {
            registers,
            at,
            moves: Vec::new(),
            bench: Bench::default(),
            ahead: Vec::new(),
            sinks: Vec::new(),
            walker: Walker::new(tape.variables.count()),
        }
    }
}
