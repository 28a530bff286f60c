//! Runs of instructions on f32, and on whole numbers of 32 bits, in one pass over a chunk: each finds the value of the one before in registers, and only what others read is stored.
//!
//! Example: `v2 = sub v0 v1; v3 = exp v2; v4 = sum over columns of v3`, of which v3 alone is read later, is from v0 on: subtract v1, exp, keep v3, sum.
//! A product that only the sum after it reads is computed with it, rounded once where the processor can; a word that is shifted both ways is rotated.

use super::lanes::WordOp;
use super::strip::Code;
use super::tape::{Action, Step};
use std::collections::{HashMap, HashSet};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Aggregation;
use tile_compiler::nest::Leaf;
use tile_compiler::scalar::{BinaryOp, Inst, UnaryOp, Value};

/// What a chain does with its current value `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// One operation, on `x` and these values.
    Apply(Code, [Option<Value>; 2]),
    /// `x` divided by a value.
    Divide(Value),
    /// `x`, or the value if the condition is as given.
    Replace { condition: Value, when: bool, by: Value },
    /// Whether `x` is in a relation with the first value, as the second.
    Compare(Code, Value, Value),
    /// Stores `x` as this value.
    Keep(Value),
    /// The aggregate of `x` over the chunk, as this value.
    Aggregate(Aggregation, Value),
}

/// Some consecutive steps of a tape.
pub struct Chain {
    /// What `x` is at first.
    pub from: Value,
    pub moves: Vec<Move>,
    /// The registers of its values, ordered by value.
    registers: Vec<(Value, usize)>,
}

impl Chain {
    /// Operations on an element, about.
    pub fn work(&self) -> usize {
        let of = |step: &Move| match step {
            Move::Apply(Code::Exp | Code::ExpSub | Code::Tanh | Code::Erf, _) => 16,
            _ => 1,
        };
        self.moves.iter().map(of).sum()
    }

    /// Whether it is one operation and an aggregate at most.
    pub fn is_short(&self) -> bool {
        self.moves.iter().filter(|step| !matches!(step, Move::Keep(_))).count() <= 2
    }

    /// The register of a value that it stores.
    pub fn register(&self, value: Value) -> usize {
        self.registers.binary_search_by_key(&value, |(kept, _)| *kept).map_or(0, |at| self.registers[at].1)
    }
}

/// The operation of a unary instruction that a chain may have.
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

/// The operation of a binary instruction on `x` and a value of type `dtype`, or, if `swapped`, on the value and `x`.
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

/// The same for whole numbers of 32 bits.
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

/// The operation that converts.
fn cast(from: DType, to: DType) -> Option<Code> {
    match (from, to) {
        (DType::I32, DType::U32) | (DType::U32, DType::I32) => Some(Code::Nothing),
        (DType::I32, DType::F32) => Some(Code::FromSigned),
        (DType::U32, DType::F32) => Some(Code::FromUnsigned),
        _ => None,
    }
}

/// Whether a chain may have an instruction whose result and operands are of these types.
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

/// The instructions `used` in an order in which those that a chain may have follow each other where they can, and for each whether it is one. Those of
/// `uniform` values, the same all over a chunk, are best computed once.
pub fn arranged(
    insts: &[Inst<Leaf>],
    dtypes: &[DType],
    used: impl Iterator<Item = Value>,
    uniform: &[bool],
    reads: impl Fn(Value) -> Vec<Value>,
) -> (Vec<Value>, Vec<bool>) {
    let (mut order, mut linked) = (Vec::new(), vec![false; insts.len()]);
    // Where the current chain begins, its values, and which of them are known at its end only.
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

/// What is known of a tape's values.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub dtypes: &'a [DType],
    /// Values that are constants, and which.
    pub constants: &'a [(Value, usize, Scalar)],
}

impl Known<'_> {
    /// Whether the `or` of `a << by` and `a >> back` is `a` rotated: words without sign, by counts that are 32 together.
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
    // What is read after each part.
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

/// Values that chains keep and that may be where a result will be, each with that result: of the same size, and read for the last time before the result is
/// stored, by chains alone, which read and store element by element. No two share a result.
pub fn lodgers(steps: &[Step], results: &[Value], dtypes: &[DType]) -> Vec<(Value, Value)> {
    let chains = || {
        steps.iter().enumerate().filter_map(|(number, step)| match &step.action {
            Action::Chain(chain) => Some((number, chain)),
            _ => None,
        })
    };
    // In which step, and which move of it.
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

/// One chain of these steps.
fn chain(steps: Vec<Step>, known: Known, later: &HashSet<Value>) -> Step {
    let dtypes = known.dtypes;
    let own: HashSet<Value> = steps.iter().map(|step| step.value).collect();
    let mut counts: HashMap<Value, usize> = HashMap::new();
    steps.iter().flat_map(|step| step.action.reads()).for_each(|read| *counts.entry(read).or_default() += 1);
    let uses = |value: Value| counts.get(&value).copied().unwrap_or(0);
    // Moves, each with the value that `x` then is.
    let mut moves: Vec<(Move, Option<Value>)> = Vec::new();
    let from = match steps[0].action {
        // Not the condition.
        Action::Select(_, a, _) => a,
        ref action => action.reads()[0],
    };
    let mut x = Some(from);
    let mut number = 0;
    while let Some(step) = steps.get(number) {
        number += 1;
        let value = step.value;
        // Makes `x` one of two values; returns the other, and whether it is the first.
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
            // Of a difference that nobody else reads.
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
    /// The values that it finds in memory.
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
