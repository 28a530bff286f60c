//! Division of a nest without aggregation into pieces of its places, in each of which fewer loads
//! count.
//!
//! Example: a concatenation of `A: f32[4, 300]` and `B: f32[4, 200]` along the last axis is
//!
//! ```text
//! each [r: 4, c: 500]
//!   v0 = in0[300*r + c] if 299 - c >= 0   v1 = in1[200*r + c - 300] if c - 300 >= 0
//!   v2 = add v0 v1
//! ```
//!
//! It is divided at `c = 300`. Either piece reads one operand, without a condition:
//!
//! ```text
//! each [r: 4, c: 300]  v0 = in0[300*r + c]   v1 = 0.0   v2 = add v0 v1     to 500*r + c
//! each [r: 4, c: 200]  v0 = 0.0   v1 = in1[200*r + c]   v2 = add v0 v1     to 500*r + c + 300
//! ```
//!
//! Why it is sound: a cut divides the values of one axis, so that each place is in one piece. In a
//! piece, a load whose condition holds nowhere is 0 by definition, and so is a comparison that
//! the bounds decide a constant. `x + 0` is `x` unless `x` is -0, so it is replaced only where `x`
//! is an integer, or itself a sum with 0.
//!
//! An axis is cut in the middle again and again, and each half keeps only what it needs. With `n`
//! loads, that takes about `n log n` steps.

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, Inst, Program, Value};

use super::simplify::{change_program, simplify};
use super::{Leaf, Load, Nest};

/// The fewest places that are divided. With fewer, starting the pieces takes as long.
const FEWEST: usize = 2048;
/// The cost of starting a contiguous part of a row, in loads of an element.
const START: usize = 16;

/// A part of a nest.
pub struct Piece {
    /// The numbers in the whole nest of the operands that the piece reads, in its order.
    pub operands: Vec<usize>,
    /// The piece. Its places fill only a part of each output.
    pub nest: Nest,
}

impl Nest {
    /// Divides the nest into pieces if these load less. `None` also if index arithmetic overflows.
    pub fn pieces(&self) -> Option<Vec<Piece>> {
        let is_plain = self.aggregation.is_none()
            && self.columns().is_empty()
            && self.outputs.iter().all(|output| output.over.is_none());
        if !is_plain || self.division().is_none() {
            return None;
        }
        let whole = Piece { operands: (0..self.operands.len()).collect(), nest: self.clone() };
        let mut pieces = Vec::new();
        whole.divide(&mut pieces)?;
        Some(pieces)
    }

    /// Returns an axis and where to cut it, if that pays: in the middle of its cuts.
    fn division(&self) -> Option<(usize, usize)> {
        if self.places() < FEWEST {
            return None;
        }
        (0..self.free).find_map(|axis| {
            let cuts = self.cuts(axis)?;
            Some((axis, *cuts.get(cuts.len() / 2)?))
        })
    }

    /// Returns the positions at which to cut the axis, if that pays.
    fn cuts(&self, axis: usize) -> Option<Vec<usize>> {
        let extent = self.axes[axis].extent;
        let mut cuts = Vec::new();
        let (mut loads, mut loaded) = (0, 0);
        for load in self.epilogue_loads() {
            let mut counts = 0..extent;
            for range in load.when.iter().filter_map(|when| where_at_least_zero(when, axis)) {
                counts = counts.start.max(range.0)..counts.end.min(range.1);
            }
            loads += 1;
            loaded += counts.len();
            cuts.extend(
                [counts.start, counts.end].into_iter().filter(|cut| (1..extent).contains(cut)),
            );
        }
        cuts.sort_unstable();
        cuts.dedup();
        let row = self.points(axis..self.free);
        let starts = START * (cuts.len() + 1) * extent / row;
        (!cuts.is_empty() && loaded + starts < loads * extent).then_some(cuts)
    }
}

/// Returns the values of an axis, as its first and the one after its last, where an expression is
/// at least 0, if the axis alone decides that.
fn where_at_least_zero(affine: &Affine, axis: usize) -> Option<(usize, usize)> {
    let &[(variable, factor)] = affine.terms() else { return None };
    let bound = |value: i64| usize::try_from(value.max(0)).unwrap_or(usize::MAX);
    match factor {
        _ if variable != axis => None,
        1.. => Some((bound(-affine.offset().div_euclid(factor)), usize::MAX)),
        _ => Some((0, bound(affine.offset().div_euclid(factor.checked_neg()?) + 1))),
    }
}

impl Piece {
    /// Appends the pieces of this piece.
    fn divide(mut self, pieces: &mut Vec<Piece>) -> Option<()> {
        self.nest.epilogue = folded(&self.nest.epilogue, &self.nest.variable_bounds());
        self.drop_operands();
        match self.nest.division() {
            Some((axis, cut)) => {
                let rest = self.nest.axes[axis].extent - cut;
                self.part(axis, 0, cut)?.divide(pieces)?;
                self.part(axis, cut, rest)?.divide(pieces)
            }
            None => {
                let Self { operands, nest } = self;
                pieces.push(Piece { operands, nest: simplify(nest)? });
                Some(())
            }
        }
    }

    /// Returns the part with `length` values of an axis from `start` on.
    fn part(&self, axis: usize, start: usize, length: usize) -> Option<Piece> {
        let mut nest = self.nest.clone();
        nest.axes[axis].extent = length;
        let value = Affine::var(axis).add(&Affine::constant(i64::try_from(start).ok()?))?;
        let change = |affine: &mut Affine| -> Option<()> {
            *affine = affine.substitute(axis, &value)?;
            Some(())
        };
        nest.derived.iter_mut().try_for_each(|derived| change(&mut derived.numerator))?;
        nest.outputs.iter_mut().try_for_each(|output| change(&mut output.position))?;
        change_program(&mut nest.epilogue, change)?;
        Some(Piece { operands: self.operands.clone(), nest })
    }

    /// Drops the operands that are not read.
    fn drop_operands(&mut self) {
        let Self { operands, nest } = self;
        let mut now = vec![None; operands.len()];
        let mut read = Vec::new();
        for (inst, _) in &mut nest.epilogue.insts {
            if let Inst::Leaf(Leaf::Load(load)) = inst {
                load.operand = *now[load.operand].get_or_insert_with(|| {
                    read.push(load.operand);
                    read.len() - 1
                });
            }
        }
        nest.operands = read.iter().map(|&number| nest.operands[number].clone()).collect();
        *operands = read.iter().map(|&number| operands[number]).collect();
    }
}

/// The value of an instruction where the bounds decide something.
#[derive(Clone, Copy)]
enum Known {
    Constant(Scalar),
    /// The same as an earlier value.
    Same(Value),
    Nothing,
}

/// Returns the program with what the bounds of the variables decide, without what is not needed.
fn folded(program: &Program<Leaf>, bounds: &[(i64, i64)]) -> Program<Leaf> {
    let mut known: Dense<Value, Known> = Dense::with_capacity(program.insts.len());
    for value in program.insts.ids() {
        let found = decided(program, &known, value, bounds);
        known.push(found);
    }
    let same = |value: Value| if let Known::Same(other) = known[value] { other } else { value };
    let mut is_used = Dense::of(false, program.insts.len());
    program.results.iter().for_each(|&result| is_used[same(result)] = true);
    for value in program.insts.ids().rev() {
        if is_used[value] && matches!(known[value], Known::Nothing) {
            let reads = super::operands(&program.insts[value].0);
            reads.into_iter().for_each(|read| is_used[same(read)] = true);
        }
    }
    let mut now: Program<Leaf> = Program::default();
    let mut numbers: Dense<Value, Option<Value>> = Dense::of(None, program.insts.len());
    for (value, (inst, dtype)) in program.insts.enumerate().filter(|(value, _)| is_used[*value]) {
        let number = |read: Value| numbers[same(read)].unwrap_or(read);
        let inst = match (known[value], inst) {
            (Known::Constant(scalar), _) => Inst::Const(scalar),
            (_, Inst::Leaf(Leaf::Load(load))) => {
                let mut load = load.clone();
                load.when.retain(|when| when.bounds(bounds).is_none_or(|(low, _)| low < 0));
                load.dynamic.iter_mut().for_each(|(index, _)| *index = number(*index));
                Inst::Leaf(Leaf::Load(load))
            }
            (_, inst) => inst.renumbered(number),
        };
        let new = now.insts.push((inst, *dtype));
        numbers[value] = Some(new);
    }
    now.results = program.results.iter().filter_map(|&result| numbers[same(result)]).collect();
    now
}

/// Returns what the bounds decide about a value, where the earlier ones are `known`.
fn decided(
    program: &Program<Leaf>,
    known: &Dense<Value, Known>,
    value: Value,
    bounds: &[(i64, i64)],
) -> Known {
    let same = |value: Value| if let Known::Same(other) = known[value] { other } else { value };
    let constant = |value: Value| match (known[same(value)], &program.insts[same(value)].0) {
        (Known::Constant(scalar), _) | (Known::Nothing, &Inst::Const(scalar)) => Some(scalar),
        _ => None,
    };
    let (inst, dtype) = &program.insts[value];
    let is_zero = |value: Value| constant(value) == Some(Scalar::zero(*dtype));
    // True for a value that stays the same if 0 is added.
    let stays = |value: Value| match program.insts[same(value)].0 {
        Inst::Binary(BinaryOp::Add, a, b) => is_zero(a) || is_zero(b),
        _ => dtype.is_integer(),
    };
    match *inst {
        Inst::Leaf(Leaf::Load(Load { ref when, .. }))
            if when.iter().any(|when| when.bounds(bounds).is_some_and(|(_, high)| high < 0)) =>
        {
            Known::Constant(Scalar::zero(*dtype))
        }
        Inst::Binary(BinaryOp::Ge, a, b) if constant(b) == Some(Scalar::i32(0)) => {
            let Inst::Leaf(Leaf::Index(affine)) = &program.insts[a].0 else {
                return Known::Nothing;
            };
            match affine.bounds(bounds) {
                // Indices are 32 bits wide.
                Some((0.., high)) if high <= i32::MAX.into() => Known::Constant(Scalar::bool(true)),
                Some((low, ..0)) if low >= i32::MIN.into() => Known::Constant(Scalar::bool(false)),
                _ => Known::Nothing,
            }
        }
        Inst::Binary(BinaryOp::BitAnd, a, b) if *dtype == DType::Bool => {
            match (constant(a), constant(b)) {
                (Some(a), _) if a.is_true() => Known::Same(same(b)),
                (_, Some(b)) if b.is_true() => Known::Same(same(a)),
                (Some(_), _) | (_, Some(_)) => Known::Constant(Scalar::bool(false)),
                _ => Known::Nothing,
            }
        }
        Inst::Binary(BinaryOp::Add, a, b) => match (constant(a), constant(b)) {
            (Some(a), Some(b)) => Known::Constant(BinaryOp::Add.evaluate(a, b)),
            _ if is_zero(a) && stays(b) => Known::Same(same(b)),
            _ if is_zero(b) && stays(a) => Known::Same(same(a)),
            _ => Known::Nothing,
        },
        Inst::Select(condition, then, otherwise) => match constant(condition) {
            Some(holds) => Known::Same(same(if holds.is_true() { then } else { otherwise })),
            None => Known::Nothing,
        },
        _ => Known::Nothing,
    }
}
