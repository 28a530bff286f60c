//! Chains: several instructions on f32 or 32-bit integers in one pass over a chunk. Each finds the
//! result of the one before in registers, and only values that others read are stored.
//!
//! Example: let only v3 be read later in
//! `v2 = sub v0 v1; v3 = exp v2; v4 = sum over columns of v3`. The chain starts from v0 and does:
//! subtract v1, exp, keep v3, sum. A product that only the next sum reads becomes a multiply-add,
//! rounded once where the processor can. A word that is shifted both ways is rotated.

use super::tape::{Action, Step};
use crate::cpu::vector::lanes::WordOp;
use crate::cpu::vector::strip::Code;
use std::collections::{HashMap, HashSet};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Aggregation;
use tile_compiler::nest::Leaf;
use tile_compiler::scalar::{BinaryOp, Inst, UnaryOp, Value};

/// One step of a chain, applied to its current value `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// Applies an operation to `x` and these values.
    Apply(Code, [Option<Value>; 2]),
    /// Divides `x` by a value.
    Divide(Value),
    /// Replaces `x` by the value `by` where the condition equals `when`.
    Replace { condition: Value, when: bool, by: Value },
    /// Compares `x` with the first value, and stores the bool as the second.
    Compare(Code, Value, Value),
    /// Stores `x` as this value.
    Keep(Value),
    /// Aggregates `x` over the chunk, or each of its rows, as this value.
    Aggregate(Aggregation, Value),
}

/// Several consecutive steps of a tape.
pub struct Chain {
    /// The initial value of `x`.
    pub from: Value,
    pub moves: Vec<Move>,
    /// The registers of the chain's values, ordered by value.
    registers: Vec<(Value, usize)>,
}

impl Chain {
    /// Estimates the operations on an element.
    pub fn work(&self) -> usize {
        let of = |step: &Move| match step {
            Move::Apply(Code::Exp | Code::ExpSub | Code::Tanh | Code::Erf, _) => 16,
            _ => 1,
        };
        self.moves.iter().map(of).sum()
    }

    /// Returns whether it has at most two moves other than stores.
    pub fn is_short(&self) -> bool {
        self.moves.iter().filter(|step| !matches!(step, Move::Keep(_))).count() <= 2
    }

    /// Returns the register of a value that it stores.
    pub fn register(&self, value: Value) -> usize {
        self.registers.binary_search_by_key(&value, |(kept, _)| *kept).map_or(0, |at| self.registers[at].1)
    }
}

/// Returns the operation of a unary instruction, if a chain may have it.
fn unary(op: UnaryOp) -> Option<Code> {
    Some(match op {
        UnaryOp::Neg => Code::Neg,
        UnaryOp::Abs => Code::Abs,
        UnaryOp::Sqrt => Code::Sqrt,
        UnaryOp::Recip => Code::Recip,
        UnaryOp::Rsqrt => Code::Rsqrt,
        UnaryOp::Exp => Code::Exp,
        UnaryOp::Tanh => Code::Tanh,
        UnaryOp::Erf => Code::Erf,
        _ => return None,
    })
}

/// Returns the operation of a binary instruction on `x` and a value of type `dtype`, or, if
/// `swapped`, on the value and `x`.
fn binary(op: BinaryOp, dtype: DType, swapped: bool) -> Option<Code> {
    if dtype != DType::F32 {
        return word(op, dtype, swapped).map(Code::Word);
    }
    Some(match (op, swapped) {
        (BinaryOp::Add, _) => Code::Add,
        (BinaryOp::Sub, false) => Code::Sub,
        (BinaryOp::Sub, true) => Code::SubFrom,
        (BinaryOp::Mul, _) => Code::Mul,
        (BinaryOp::Div, false) => Code::Div,
        (BinaryOp::Div, true) => Code::DivInto,
        (BinaryOp::Max, false) => Code::Max,
        (BinaryOp::Max, true) => Code::MaxOf,
        (BinaryOp::Min, false) => Code::Min,
        (BinaryOp::Min, true) => Code::MinOf,
        (BinaryOp::Eq, _) => Code::Equal,
        (BinaryOp::Ne, _) => Code::NotEqual,
        (BinaryOp::Lt, false) | (BinaryOp::Gt, true) => Code::Less,
        (BinaryOp::Le, false) | (BinaryOp::Ge, true) => Code::LessOrEqual,
        (BinaryOp::Lt, true) | (BinaryOp::Gt, false) => Code::Greater,
        (BinaryOp::Le, true) | (BinaryOp::Ge, false) => Code::GreaterOrEqual,
        _ => return None,
    })
}

/// Returns the operation of a binary instruction on 32-bit integers.
fn word(op: BinaryOp, dtype: DType, swapped: bool) -> Option<WordOp> {
    if !matches!(dtype, DType::I32 | DType::U32) {
        return None;
    }
    Some(match op {
        BinaryOp::Add => WordOp::Add,
        BinaryOp::Mul => WordOp::Mul,
        BinaryOp::BitAnd => WordOp::And,
        BinaryOp::BitOr => WordOp::Or,
        BinaryOp::BitXor => WordOp::Xor,
        _ if swapped => return None,
        BinaryOp::Sub => WordOp::Sub,
        BinaryOp::ShiftLeft => WordOp::ShiftLeft,
        BinaryOp::ShiftRight if dtype == DType::U32 => WordOp::ShiftRight,
        BinaryOp::ShiftRight => WordOp::ShiftRightSigned,
        _ => return None,
    })
}

/// Returns the operation of a cast.
fn cast(from: DType, to: DType) -> Option<Code> {
    match (from, to) {
        (DType::I32, DType::U32) | (DType::U32, DType::I32) => Some(Code::Nothing),
        (DType::I32, DType::F32) => Some(Code::FromSigned),
        (DType::U32, DType::F32) => Some(Code::FromUnsigned),
        _ => None,
    }
}

/// Returns whether a chain may contain an instruction, given the types of its result and operands.
fn chainable(inst: &Inst<Leaf>, dtypes: &[DType], value: Value) -> bool {
    let f32 = |value: Value| dtypes[value] == DType::F32;
    match inst {
        Inst::Unary(op, a) => f32(*a) && unary(*op).is_some(),
        Inst::Binary(op, a, b) => dtypes[*a] == dtypes[*b] && binary(*op, dtypes[*a], false).is_some(),
        Inst::Cast(a) => cast(dtypes[*a], dtypes[value]).is_some(),
        Inst::Select(c, a, b) => dtypes[*c] == DType::Bool && f32(*a) && f32(*b),
        Inst::Leaf(Leaf::Statistic(Aggregation::Sum | Aggregation::Max | Aggregation::Min, _)) => f32(value),
        _ => false,
    }
}

/// Orders the instructions `used` so that those that chains may contain follow each other where
/// possible, and says for each value whether it is in a chain. `uniform` values, the same all over
/// a chunk, are computed outside of chains.
pub fn arranged(
    insts: &[Inst<Leaf>],
    dtypes: &[DType],
    used: impl Iterator<Item = Value>,
    uniform: &[bool],
    reads: impl Fn(Value) -> Vec<Value>,
) -> (Vec<Value>, Vec<bool>) {
    let (mut order, mut linked) = (Vec::new(), vec![false; insts.len()]);
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
pub struct Known<'a> {
    pub dtypes: &'a [DType],
    /// The constants: value, register and scalar.
    pub constants: &'a [(Value, usize, Scalar)],
}

impl Known<'_> {
    /// Returns whether the `or` of `a << by` and `a >> back` rotates `a`: an unsigned word, by
    /// constant counts that add up to 32.
    fn rotates(&self, a: Value, by: Value, back: Value) -> bool {
        let count = |value: Value| {
            let constant = self.constants.iter().find(|(constant, ..)| *constant == value);
            constant.map(|(.., count)| count.to_i64()).filter(|count| (1..32).contains(count))
        };
        let together = count(by).zip(count(back)).map(|(by, back)| by + back);
        self.dtypes[a] == DType::U32 && together == Some(32)
    }
}

/// Joins consecutive steps of `linked` values to chains. `results` are read after the last step.
pub fn joined(steps: Vec<Step>, linked: &[bool], known: Known, results: &[Value]) -> Vec<Step> {
    let mut parts: Vec<Vec<Step>> = Vec::new();
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
            joined.push(chain(part, known, &later));
        } else {
            joined.extend(part.into_iter().rev());
        }
        later.extend(reads);
    }
    joined.reverse();
    joined
}

/// Finds values that chains may store in the memory of a result before the result itself, each with
/// that result. Both have elements of the same size, and only chains read the value, element by
/// element, for the last time before the result is stored. No two values share a result.
pub fn lodgers(steps: &[Step], results: &[Value], dtypes: &[DType]) -> Vec<(Value, Value)> {
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
    let is_last_read_before = |value: Value, stored: (usize, usize)| {
        let early = chains().all(|(number, chain)| {
            let reads_first = chain.from == value && (number, 0) > stored;
            let mut moves = chain.moves.iter().enumerate();
            !reads_first && moves.all(|(at, step)| (number, at) <= stored || step.reads().all(|read| read != value))
        });
        early && steps.iter().all(|step| !step.action.reads().contains(&value))
    };
    let mut lodgers: Vec<(Value, Value)> = Vec::new();
    for (result, stored) in keeps().filter(|(value, _)| results.contains(value)) {
        let is_free = |value: Value| !results.contains(&value) && lodgers.iter().all(|(lodger, _)| *lodger != value);
        let fits = |value: Value| dtypes[value].size() == dtypes[result].size() && is_last_read_before(value, stored);
        let found = keeps().find(|(value, (number, _))| *number < stored.0 && is_free(*value) && fits(*value));
        lodgers.extend(found.map(|(value, _)| (value, result)));
    }
    lodgers
}

/// Makes these steps one chain.
fn chain(steps: Vec<Step>, known: Known, later: &HashSet<Value>) -> Step {
    let dtypes = known.dtypes;
    let own: HashSet<Value> = steps.iter().map(|step| step.value).collect();
    let mut counts: HashMap<Value, usize> = HashMap::new();
    steps.iter().flat_map(|step| step.action.reads()).for_each(|read| *counts.entry(read).or_default() += 1);
    let uses = |value: Value| counts.get(&value).copied().unwrap_or(0);
    // The moves, each with the value that `x` holds afterwards.
    let mut moves: Vec<(Move, Option<Value>)> = Vec::new();
    let from = match steps[0].action {
        // A chain starts from a choice's first value, not from its condition.
        Action::Select(_, a, _) => a,
        ref action => action.reads()[0],
    };
    let mut x = Some(from);
    let mut number = 0;
    while let Some(step) = steps.get(number) {
        number += 1;
        let value = step.value;
        // Makes `x` one of two values. Returns the other, and whether `x` is the second one.
        let meet = |moves: &mut Vec<_>, a: Value, b: Value| {
            if x == Some(b) && x != Some(a) {
                return (a, true);
            }
            if x != Some(a) {
                moves.push((Move::Apply(Code::Take, [Some(a), None]), Some(a)));
            }
            (b, false)
        };
        match step.action {
            Action::Unary(op, a) => {
                meet(&mut moves, a, a);
                let code = unary(op).unwrap_or(Code::Nothing);
                moves.push((Move::Apply(code, [None; 2]), Some(value)));
            }
            Action::Binary(BinaryOp::Mul, a, b)
                if dtypes[value] == DType::F32
                    && let Some(Step {
                        value: sum,
                        action: Action::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), c, d),
                        ..
                    }) = steps.get(number)
                    && (*c == value) != (*d == value)
                    && uses(value) == 1
                    && !later.contains(&value) =>
            {
                let term = if *c == value { *d } else { *c };
                let code = match (op, *c == value) {
                    (BinaryOp::Add, _) => Code::MulAdd,
                    (_, true) => Code::MulSub,
                    (_, false) => Code::MulSubFrom,
                };
                if code == Code::MulAdd && x == Some(term) && x != Some(a) && x != Some(b) {
                    moves.push((Move::Apply(Code::AddMul, [Some(a), Some(b)]), Some(*sum)));
                } else {
                    let (other, _) = meet(&mut moves, a, b);
                    moves.push((Move::Apply(code, [Some(other), Some(term)]), Some(*sum)));
                }
                number += 1;
                x = Some(*sum);
                continue;
            }
            Action::Binary(BinaryOp::ShiftLeft, a, by)
                if let Some(
                    [Step { value: right, action: Action::Binary(BinaryOp::ShiftRight, same, back), .. }, or],
                ) = steps.get(number..number + 2)
                    && *same == a
                    && matches!(or.action, Action::Binary(BinaryOp::BitOr, c, d) if [c, d] == [value, *right] || [d, c] == [value, *right])
                    && [value, *right].iter().all(|part| uses(*part) == 1 && !later.contains(part))
                    && known.rotates(a, by, *back) =>
            {
                meet(&mut moves, a, a);
                moves.push((Move::Apply(Code::Word(WordOp::RotateLeft), [Some(by), None]), Some(or.value)));
                number += 2;
                x = Some(or.value);
                continue;
            }
            Action::Binary(BinaryOp::Mul, a, b) if a == b && dtypes[value] == DType::F32 => {
                meet(&mut moves, a, a);
                moves.push((Move::Apply(Code::Square, [None; 2]), Some(value)));
            }
            Action::Binary(op, a, b) => {
                let has_swapped = binary(op, dtypes[b], true).is_some();
                let (other, swapped) = if has_swapped { meet(&mut moves, a, b) } else { (b, meet(&mut moves, a, a).1) };
                let code = binary(op, dtypes[b], swapped).unwrap_or(Code::Nothing);
                let apply = Move::Apply(code, [Some(other), None]);
                let divides = code == Code::Div && !own.contains(&other);
                moves.push((if divides { Move::Divide(other) } else { apply }, Some(value)));
            }
            Action::Compare(op, a, b) => {
                let (other, swapped) = meet(&mut moves, a, b);
                let code = binary(op, dtypes[b], swapped).unwrap_or(Code::Nothing);
                let met = if swapped { b } else { a };
                moves.push((Move::Compare(code, other, value), Some(met)));
                x = Some(met);
                continue;
            }
            Action::Select(condition, a, b) => {
                let (by, swapped) = meet(&mut moves, a, b);
                moves.push((Move::Replace { condition, when: swapped, by }, Some(value)));
            }
            Action::Statistic(aggregation, a) => {
                meet(&mut moves, a, a);
                moves.push((Move::Aggregate(aggregation, value), Some(a)));
                x = Some(a);
                continue;
            }
            Action::Cast(a) => {
                meet(&mut moves, a, a);
                let code = cast(dtypes[a], dtypes[value]).unwrap_or(Code::Nothing);
                moves.push((Move::Apply(code, [None; 2]), Some(value)));
            }
            Action::Load(_) | Action::Index(_) | Action::Chain(_) => {}
        }
        x = Some(value);
    }
    let read: HashSet<Value> = moves.iter().flat_map(|(step, _)| step.reads()).collect();
    let mut kept: HashSet<Value> = HashSet::new();
    let mut all = Vec::new();
    for (step, x) in moves {
        match (step, all.last_mut()) {
            // An exponential of a difference that nobody else reads.
            (Move::Apply(Code::Exp, _), Some(Move::Apply(code @ Code::Sub, _))) => *code = Code::ExpSub,
            _ => all.push(step),
        }
        let Some(x) = x else { continue };
        let is_new = own.contains(&x) && !matches!(step, Move::Aggregate(..) | Move::Compare(..));
        if is_new && (read.contains(&x) || later.contains(&x)) && kept.insert(x) {
            all.push(Move::Keep(x));
        }
    }
    let mut registers: Vec<(Value, usize)> = steps.iter().map(|step| (step.value, step.register)).collect();
    let (value, register) = registers[registers.len() - 1];
    registers.sort_unstable();
    Step { value, register, action: Action::Chain(Box::new(Chain { from, moves: all, registers })) }
}

impl Move {
    /// Returns the values that it reads from memory.
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
