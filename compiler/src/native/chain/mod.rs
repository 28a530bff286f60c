//! Chains: several instructions on f32 or integers in one pass over a chunk. Each finds the
//! result of the one before in registers, and only values that others read are stored.
//!
//! Example: let only v3 be read later in
//! `v2 = sub v0 v1; v3 = exp v2; v4 = sum over columns of v3`. The chain starts from v0 and does:
//! subtract v1, exp, keep v3, sum. A product that only the next sum reads becomes a multiply-add,
//! rounded once where the processor can. A word that is shifted both ways is rotated. The steps
//! of dequantization, `float(x + a) * b`, are one operation, and so are those of quantization,
//! `byte(rint(x) + a)`.

mod codes;
mod linker;

use std::collections::HashSet;

use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::nest::Leaf;
use crate::scalar::{Inst, Value};

use super::code::{Code, Relation};
use super::step::{Action, TapeStep};
use codes::chainable;
use linker::link;

/// One step of a chain, applied to its current value `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Applies an operation to `x` and these values.
    Apply(Code, [Option<Value>; 2]),
    /// Divides `x` by a value.
    Divide(Value),
    /// Replaces `x` by the value `by` where the condition equals `when`.
    Replace {
        /// The bools.
        condition: Value,
        /// The bool at which `x` is replaced.
        when: bool,
        /// The other values.
        by: Value,
    },
    /// Compares `x` with the first value, and stores the bool as the second.
    Compare(Relation, Value, Value),
    /// Stores `x` as this value.
    Keep(Value),
    /// Aggregates `x` over the chunk, or each of its rows, as this value.
    Aggregate(Aggregation, Value),
}

/// Several consecutive steps of a tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The initial value of `x`.
    pub from: Value,
    /// The steps, in order.
    pub moves: Vec<Move>,
    /// The registers of the values that the chain stores, ordered by value.
    pub registers: Vec<(Value, usize)>,
}

impl Chain {
    /// Estimates the operations on an element.
    pub(super) fn work(&self) -> usize {
        let of = |step: &Move| match step {
            Move::Apply(Code::Exp | Code::ExpSub | Code::Tanh | Code::Erf | Code::Sigmoid, _) => 16,
            _ => 1,
        };
        self.moves.iter().map(of).sum()
    }

    /// Returns the value by which the initial one is multiplied, if the chain does nothing else.
    pub(super) fn product(&self) -> Option<Value> {
        match self.moves[..] {
            [Move::Apply(Code::Mul, [Some(by), None]), Move::Keep(_)] => Some(by),
            _ => None,
        }
    }

    /// Returns whether it has at most two moves other than stores.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.moves.iter().filter(|step| !matches!(step, Move::Keep(_))).count() <= 2
    }

    /// Returns the register of a value that it stores.
    #[inline]
    pub fn register(&self, value: Value) -> usize {
        self.registers
            .binary_search_by_key(&value, |(kept, _)| *kept)
            .map_or(0, |at| self.registers[at].1)
    }
}

/// Orders the instructions `used` so that those that chains may contain follow each other where
/// possible, and says for each value whether it is in a chain. `uniform` values, the same all over
/// a chunk, are computed outside of chains.
pub(super) fn arranged(
    insts: &Dense<Value, Inst<Leaf>>,
    dtypes: &Dense<Value, DType>,
    used: impl Iterator<Item = Value>,
    uniform: &Dense<Value, bool>,
    reads: impl Fn(Value) -> Vec<Value>,
) -> (Vec<Value>, Dense<Value, bool>) {
    let (mut order, mut linked) = (Vec::new(), Dense::of(false, insts.len()));
    // The start of the current chain in the order, its values, and those of them that are known
    // only at its end.
    let (mut first, mut values, mut statistics) = (0, HashSet::new(), HashSet::new());
    for value in used {
        let is_statistic = matches!(insts[value], Inst::Leaf(Leaf::Statistic(..)));
        let read = reads(value);
        if chainable(&insts[value], dtypes, value) && (is_statistic || !uniform[value]) {
            if read.iter().any(|read| statistics.contains(read)) {
                (first, values, statistics) = (order.len(), HashSet::new(), HashSet::new());
            }
            order.push(value);
            linked[value] = true;
            values.insert(value);
            if is_statistic {
                statistics.insert(value);
            }
        } else if read.iter().any(|read| values.contains(read)) {
            order.push(value);
            (first, values, statistics) = (order.len(), HashSet::new(), HashSet::new());
        } else {
            order.insert(first, value);
            first += 1;
        }
    }
    (order, linked)
}

/// The known properties of a tape's values.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub dtypes: &'a Dense<Value, DType>,
    /// The constants: value, register and scalar.
    pub constants: &'a [(Value, usize, Scalar)],
}

impl Known<'_> {
    /// Returns the constant that a value is, if it is one.
    fn constant(&self, value: Value) -> Option<Scalar> {
        let found = self.constants.iter().find(|(constant, ..)| *constant == value);
        found.map(|(.., scalar)| *scalar)
    }

    /// Returns whether a value is a constant that [`Code::NearSignedByte`] or
    /// [`Code::NearUnsignedByte`] may add.
    pub fn is_offset(&self, value: Value, near: Code) -> bool {
        let range = if near == Code::NearSignedByte { -128.0..=127.0 } else { 0.0..=255.0 };
        let constant = self.constant(value).filter(|_| self.dtypes[value] == DType::F32);
        let number = constant.map(Scalar::to_f64);
        number.is_some_and(|number| number.trunc() == number && range.contains(&number))
    }

    /// Returns whether the `or` of `a << by` and `a >> back` rotates `a`: an unsigned word, by
    /// constant counts that add up to 32.
    fn rotates(&self, a: Value, by: Value, back: Value) -> bool {
        let count = |value: Value| {
            self.constant(value).map(Scalar::to_i64).filter(|count| (1..32).contains(count))
        };
        let together = count(by).zip(count(back)).map(|(by, back)| by + back);
        self.dtypes[a] == DType::U32 && together == Some(32)
    }
}

/// Joins consecutive steps of `linked` values to chains. `results` are read after the last step.
pub(super) fn joined(
    steps: Vec<TapeStep>,
    linked: &Dense<Value, bool>,
    known: Known,
    results: &[Value],
) -> Vec<TapeStep> {
    let mut parts: Vec<Vec<TapeStep>> = Vec::new();
    let mut statistics: HashSet<Value> = HashSet::new();
    let mut in_chain = false;
    for step in steps {
        let waits = step.action.reads().iter().any(|read| statistics.contains(read));
        let goes_on = in_chain && linked[step.value] && !waits;
        if !goes_on {
            statistics.clear();
        }
        if matches!(step.action, Action::Statistic(..)) {
            statistics.insert(step.value);
        }
        in_chain = linked[step.value];
        match parts.last_mut() {
            Some(part) if goes_on => part.push(step),
            _ => parts.push(vec![step]),
        }
    }
    // The values that are read after each part.
    let mut later: HashSet<Value> = results.iter().copied().collect();
    let mut joined = Vec::new();
    for part in parts.into_iter().rev() {
        let reads: Vec<Value> = part.iter().flat_map(|step| step.action.reads()).collect();
        if linked[part[0].value] {
            joined.push(link(&part, known, &later));
        } else {
            joined.extend(part.into_iter().rev());
        }
        later.extend(reads);
    }
    joined.reverse();
    joined
}

/// Finds values that chains, and loads at run-time indices, may store in the memory of a result
/// before the result itself, each with that result. Both have elements of the same size, and only
/// chains read the value, element by element, for the last time before the result is stored. No two
/// values share a result.
pub(super) fn lodgers(
    steps: &[TapeStep],
    results: &[Value],
    dtypes: &Dense<Value, DType>,
) -> Vec<(Value, Value)> {
    let chains = || {
        steps.iter().enumerate().filter_map(|(number, step)| match &step.action {
            Action::Chain(chain) => Some((number, chain)),
            _ => None,
        })
    };
    // The stores: each value with its step, and the move of that step.
    let keeps = || {
        chains().flat_map(|(number, chain)| {
            chain.moves.iter().enumerate().filter_map(move |(at, step)| match step {
                Move::Keep(value) => Some((*value, (number, at))),
                _ => None,
            })
        })
    };
    let gathers = || {
        steps.iter().enumerate().filter_map(|(number, step)| match &step.action {
            Action::Load(reader) if !reader.dynamic.is_empty() => Some((step.value, (number, 0))),
            _ => None,
        })
    };
    let is_last_read_before = |value: Value, stored: (usize, usize)| {
        let early = chains().all(|(number, chain)| {
            let reads_first = chain.from == value && (number, 0) > stored;
            let mut moves = chain.moves.iter().enumerate();
            !reads_first
                && moves.all(|(at, step)| {
                    (number, at) <= stored || step.reads().all(|read| read != value)
                })
        });
        early && steps.iter().all(|step| !step.action.reads().contains(&value))
    };
    let mut lodgers: Vec<(Value, Value)> = Vec::new();
    for (result, stored) in keeps().filter(|(value, _)| results.contains(value)) {
        let is_free = |value: Value| {
            !results.contains(&value) && lodgers.iter().all(|(lodger, _)| *lodger != value)
        };
        let fits = |value: Value| {
            dtypes[value].size() == dtypes[result].size() && is_last_read_before(value, stored)
        };
        let found = gathers()
            .chain(keeps())
            .find(|(value, (number, _))| *number < stored.0 && is_free(*value) && fits(*value));
        lodgers.extend(found.map(|(value, _)| (value, result)));
    }
    lodgers
}

impl Move {
    /// Returns the value that it stores.
    pub fn stored(&self) -> Option<Value> {
        match *self {
            Move::Compare(.., value) | Move::Keep(value) | Move::Aggregate(_, value) => Some(value),
            Move::Apply(..) | Move::Divide(_) | Move::Replace { .. } => None,
        }
    }

    /// Returns the values that it reads from memory.
    #[inline]
    pub fn reads(&self) -> impl Iterator<Item = Value> + use<> {
        let values = match *self {
            Move::Apply(_, values) => values,
            Move::Divide(value) | Move::Compare(_, value, _) => [Some(value), None],
            Move::Replace { condition, by, .. } => [Some(condition), Some(by)],
            Move::Keep(_) | Move::Aggregate(..) => [None; 2],
        };
        values.into_iter().flatten()
    }
}
