//! The moves of a chain, made from the steps that it replaces.

use std::collections::{HashMap, HashSet};

use crate::dtype::DType;
use crate::scalar::{BinaryOp, Value};

use super::super::code::{Code, Relation, WordOp};
use super::super::step::{Action, TapeStep};
use super::codes::{binary, cast, relation, unary};
use super::{Chain, Known, Move};

/// Makes these steps one chain. The values `later` are read after it.
pub fn link(steps: &[TapeStep], known: Known, later: &HashSet<Value>) -> TapeStep {
    let mut counts: HashMap<Value, usize> = HashMap::new();
    steps
        .iter()
        .flat_map(|step| step.action.reads())
        .for_each(|read| *counts.entry(read).or_default() += 1);
    let from = match steps[0].action {
        // A chain starts from a choice's first value, not from its condition.
        Action::Select(_, a, _) => a,
        ref action => action.reads()[0],
    };
    let mut linker = Linker { steps, known, later, counts, moves: Vec::new(), x: from };
    let mut number = 0;
    while let Some(step) = steps.get(number) {
        number += linker
            .multiply_add(number)
            .or_else(|| linker.rotate(number))
            .unwrap_or_else(|| linker.one(step));
    }
    let moves = linker.with_stores();
    let TapeStep { value, register, .. } = steps[steps.len() - 1];
    let stored: HashSet<Value> = moves.iter().filter_map(Move::stored).collect();
    let registers = steps.iter().map(|step| (step.value, step.register));
    let mut registers: Vec<(Value, usize)> =
        registers.filter(|(value, _)| stored.contains(value)).collect();
    registers.sort_unstable();
    TapeStep { value, register, action: Action::Chain(Box::new(Chain { from, moves, registers })) }
}

/// A chain in the making.
struct Linker<'a> {
    steps: &'a [TapeStep],
    known: Known<'a>,
    later: &'a HashSet<Value>,
    /// How often the steps read each value.
    counts: HashMap<Value, usize>,
    /// The moves, each with the value that `x` holds afterwards.
    moves: Vec<(Move, Value)>,
    /// The value that `x` holds.
    x: Value,
}

impl Linker<'_> {
    /// Adds a move, after which `x` holds `value`.
    fn push(&mut self, step: Move, value: Value) {
        self.moves.push((step, value));
        self.x = value;
    }

    /// Adds an operation that makes `value`.
    fn apply(&mut self, code: Code, operands: [Option<Value>; 2], value: Value) {
        self.push(Move::Apply(code, operands), value);
    }

    /// Makes `x` one of two values. Returns the other, and whether `x` is the second one.
    fn meet(&mut self, a: Value, b: Value) -> (Value, bool) {
        if self.x == b && self.x != a {
            return (a, true);
        }
        self.take(a);
        (b, false)
    }

    /// Makes `x` this value.
    fn take(&mut self, a: Value) {
        if self.x != a {
            self.apply(Code::Take, [Some(a), None], a);
        }
    }

    /// Returns whether only one step reads a value, and nothing later does.
    fn is_only_for_the_next(&self, value: Value) -> bool {
        self.counts.get(&value) == Some(&1) && !self.later.contains(&value)
    }

    /// Joins a product to the sum that alone reads it. Returns the number of steps that it joins.
    fn multiply_add(&mut self, number: usize) -> Option<usize> {
        let [product, sum] = self.steps.get(number..number + 2)? else { return None };
        let Action::Binary(BinaryOp::Mul, a, b) = product.action else { return None };
        let Action::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), c, d) = sum.action else {
            return None;
        };
        let value = product.value;
        if self.known.dtypes[value] != DType::F32
            || (c == value) == (d == value)
            || !self.is_only_for_the_next(value)
        {
            return None;
        }
        let term = if c == value { d } else { c };
        let code = match (op, c == value) {
            (BinaryOp::Add, _) => Code::MulAdd,
            (_, true) => Code::MulSub,
            (_, false) => Code::MulSubFrom,
        };
        if code == Code::MulAdd && self.x == term && self.x != a && self.x != b {
            self.apply(Code::AddMul, [Some(a), Some(b)], sum.value);
        } else {
            let (other, _) = self.meet(a, b);
            self.apply(code, [Some(other), Some(term)], sum.value);
        }
        Some(2)
    }

    /// Joins two shifts of a word and the `or` of both, if they rotate it. Returns the number of
    /// steps that it joins.
    fn rotate(&mut self, number: usize) -> Option<usize> {
        let [left, right, or] = self.steps.get(number..number + 3)? else { return None };
        let Action::Binary(BinaryOp::ShiftLeft, a, by) = left.action else { return None };
        let Action::Binary(BinaryOp::ShiftRight, same, back) = right.action else { return None };
        let Action::Binary(BinaryOp::BitOr, c, d) = or.action else { return None };
        let parts = [left.value, right.value];
        let joins = [c, d] == parts || [d, c] == parts;
        let alone = parts.iter().all(|part| self.is_only_for_the_next(*part));
        if same != a || !joins || !alone || !self.known.rotates(a, by, back) {
            return None;
        }
        self.take(a);
        self.apply(Code::Word(WordOp::RotateLeft), [Some(by), None], or.value);
        Some(3)
    }

    /// Adds the moves of one step. Returns the number of steps: 1.
    fn one(&mut self, &TapeStep { value, ref action, .. }: &TapeStep) -> usize {
        let dtypes = self.known.dtypes;
        match *action {
            Action::Unary(op, a) => {
                self.take(a);
                self.apply(unary(op).unwrap_or(Code::Nothing), [None; 2], value);
            }
            Action::Binary(BinaryOp::Mul, a, b) if a == b && dtypes[value] == DType::F32 => {
                self.take(a);
                self.apply(Code::Square, [None; 2], value);
            }
            Action::Binary(op, a, b) => {
                let has_swapped = binary(op, dtypes[b], true).is_some();
                let (other, swapped) =
                    if has_swapped { self.meet(a, b) } else { (b, self.meet(a, a).1) };
                let code = binary(op, dtypes[b], swapped).unwrap_or(Code::Nothing);
                if code == Code::Div && self.steps.iter().all(|step| step.value != other) {
                    self.push(Move::Divide(other), value);
                } else {
                    self.apply(code, [Some(other), None], value);
                }
            }
            Action::Compare(op, a, b) => {
                let (other, swapped) = self.meet(a, b);
                let relation = relation(op, swapped).unwrap_or(Relation::Equal);
                self.push(Move::Compare(relation, other, value), if swapped { b } else { a });
            }
            Action::Select(condition, a, b) => {
                let (by, swapped) = self.meet(a, b);
                self.push(Move::Replace { condition, when: swapped, by }, value);
            }
            Action::Statistic(aggregation, a) => {
                self.take(a);
                self.push(Move::Aggregate(aggregation, value), a);
            }
            Action::Cast(a) => {
                self.take(a);
                self.apply(
                    cast(dtypes[a], dtypes[value]).unwrap_or(Code::Nothing),
                    [None; 2],
                    value,
                );
            }
            Action::Load(_) | Action::Index(_) | Action::Chain(_) => {}
        }
        1
    }

    /// Returns the moves, with stores of the values that others read.
    fn with_stores(self) -> Vec<Move> {
        let own: HashSet<Value> = self.steps.iter().map(|step| step.value).collect();
        let read: HashSet<Value> = self.moves.iter().flat_map(|(step, _)| step.reads()).collect();
        let mut kept: HashSet<Value> = HashSet::new();
        let mut all = Vec::new();
        for (step, x) in self.moves {
            match fused(self.known, &all, step) {
                Some((count, step)) => {
                    all.truncate(all.len() - count);
                    all.push(step);
                }
                None => all.push(step),
            }
            let is_new =
                own.contains(&x) && !matches!(step, Move::Aggregate(..) | Move::Compare(..));
            if is_new && (read.contains(&x) || self.later.contains(&x)) && kept.insert(x) {
                all.push(Move::Keep(x));
            }
        }
        all
    }
}

/// Returns the fused form of the last moves and the next one, and the number of the last moves that
/// it replaces. Nobody else reads the values between them, which have no store.
fn fused(known: Known, last: &[Move], next: Move) -> Option<(usize, Move)> {
    let Move::Apply(code, operands) = next else { return None };
    let applied = |back: usize| match last.get(last.len().checked_sub(back)?)? {
        Move::Apply(code, operands) => Some((*code, *operands)),
        _ => None,
    };
    let (count, code, operands) = match (applied(2), applied(1)?, code) {
        (_, (Code::Sub, a), Code::Exp) => (1, Code::ExpSub, a),
        (Some((Code::Word(WordOp::Add), a)), (Code::FromSigned, _), Code::Mul) => {
            (2, Code::ScaleSum, [a[0], operands[0]])
        }
        (Some((Code::Word(WordOp::Sub), a)), (Code::FromSigned, _), Code::Mul) => {
            (2, Code::ScaleDifference, [a[0], operands[0]])
        }
        (_, (Code::FromSigned, _), Code::MulAdd) => (1, Code::ScaleAdd, operands),
        (Some((Code::Rint, _)), (Code::Add, a), Code::ToSignedByte | Code::ToUnsignedByte) => {
            let near = match code {
                Code::ToSignedByte => Code::NearSignedByte,
                _ => Code::NearUnsignedByte,
            };
            if !known.is_offset(a[0]?, near) {
                return None;
            }
            (2, near, a)
        }
        _ => return None,
    };
    Some((count, Move::Apply(code, operands)))
}
