//! The steps of a tape.

use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::scalar::{BinaryOp, UnaryOp, Value};

use super::chain::Chain;
use super::space::{Lines, Space};

/// A load, as lines through the space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The number of the operand.
    pub operand: usize,
    /// The number of the element, without the dynamic part.
    pub offset: Lines,
    /// The expressions that must be at least 0 for the load to be executed.
    pub conditions: Lines,
    /// The offset, followed by the conditions.
    pub guarded: Lines,
    /// The dynamic part of the number: values with their types, each times a stride.
    pub dynamic: Vec<(Value, DType, i64)>,
    /// Whether an operand that an output overwrites may be read in place: its last reader runs
    /// before the output is stored.
    pub in_place: bool,
    /// True if an operand of i64 is loaded as i32, saturated to [`LIMIT`](super::LIMIT).
    pub saturates: bool,
}

impl Reader {
    /// Returns the operand, if the element read at each place has the number of that place.
    pub(super) fn at_place(&self, space: &Space) -> Option<usize> {
        let unconditional = self.dynamic.is_empty() && self.conditions.is_empty();
        (unconditional && self.offset.is_number(space)).then_some(self.operand)
    }
}

/// The action of a step, on values of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads elements of an operand.
    Load(Box<Reader>),
    /// Computes an affine expression, as i32.
    Index(Box<Lines>),
    /// Applies an operation to a value.
    Unary(UnaryOp, Value),
    /// Applies an operation to two values.
    Binary(BinaryOp, Value, Value),
    /// Compares two values.
    Compare(BinaryOp, Value, Value),
    /// Selects the second or third value by the first.
    Select(Value, Value, Value),
    /// Converts a value to the type of the result.
    Cast(Value),
    /// The aggregate of a value over the points of a row.
    Statistic(Aggregation, Value),
    /// Several of the other actions, in one pass.
    Chain(Box<Chain>),
}

impl Action {
    /// Returns the values that it reads. Chains are not included.
    pub fn reads(&self) -> Vec<Value> {
        match self {
            Action::Load(reader) => reader.dynamic.iter().map(|(value, ..)| *value).collect(),
            Action::Unary(_, a) | Action::Cast(a) | Action::Statistic(_, a) => vec![*a],
            Action::Binary(_, a, b) | Action::Compare(_, a, b) => vec![*a, *b],
            Action::Select(c, a, b) => vec![*c, *a, *b],
            Action::Index(_) | Action::Chain(_) => Vec::new(),
        }
    }
}

/// A step of a tape: one instruction, or a chain of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeStep {
    /// The value that the step computes.
    pub value: Value,
    /// The register that it writes.
    pub register: usize,
    /// The action.
    pub action: Action,
}
