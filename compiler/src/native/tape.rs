//! A scalar program prepared to run over chunks of points: one vector operation for each
//! instruction, over all points of the chunk.
//!
//! Contiguous loads are read in place. All other values live in *registers*: buffers for a chunk's
//! elements. A register is reused after its last reader, so that they are few enough to stay in the
//! nearest caches. Some values are computed less often:
//!
//! - *Steady* values, which repeat in every row of the innermost axes (a bias, and values made of
//!   it), are computed once, before the first chunk.
//! - Values that are the same at all points of a row (its maximum) or of a chunk are computed once
//!   for that row or chunk.
//!
//! If the program has statistics of rows, or reads whole rows at run-time indices, a chunk consists
//! of whole rows.

use std::ops::Range;

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::nest::{Leaf, Load, Nest};
use crate::scalar::{Inst, Program, UnaryOp, Value};

use super::analysis::{Analysis, LONG_CHUNK, SHORTEST_ROW, in_place, reads};
use super::chain;
use super::fused::Fused;
use super::space::{Lines, Space, Variables};
use super::step::{Action, Reader, TapeStep};
use super::words::in_words;

/// The most points evaluated at once. Chunks of whole rows, of single chains, and of rows that are
/// exchanged with columns may be longer.
pub const CHUNK: usize = 1024;

/// The most rows evaluated at once, and about how many points they have together: enough to hide
/// the cost of starting a chunk. Longer rows are evaluated one at a time.
const ROWS: usize = 64;
const POINTS_OF_ROWS: usize = 16 * CHUNK;

/// The register of [`Leaf::Accumulator`] with a chunk's elements. The caller fills it.
pub const ACCUMULATOR: usize = 0;
/// The register of [`Leaf::Written`] with a chunk's bools. The caller fills it.
pub const WRITTEN: usize = 1;

/// A program over one space of a nest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tape {
    /// The points of the program.
    pub space: Space,
    /// The steps that run for each chunk.
    pub steps: Vec<TapeStep>,
    /// The number of instructions in `steps`, for estimates of work.
    pub operations: usize,
    /// The step of the chain with the most work, which hides the latency of prefetches.
    pub longest_chain: Option<usize>,
    /// Values that are stored in the memory of a result before the result itself, each with that
    /// result. The memory is then in the caches.
    pub lodgers: Vec<(Value, Value)>,
    /// The steps that run once, over one period of the value, each with that period in points.
    pub steady: Vec<(TapeStep, usize)>,
    /// The types of the values.
    pub dtypes: Dense<Value, DType>,
    /// The bytes of each register.
    pub registers: Vec<usize>,
    /// Registers that always hold one scalar.
    pub constants: Vec<(Value, usize, Scalar)>,
    /// Values that the caller puts into registers, or lends.
    pub given: Vec<(Value, usize)>,
    /// The program's results, in the order asked for.
    pub results: Vec<Value>,
    /// For each result, whether its elements may be stored as soon as they are computed: all loads
    /// of the operand that it overwrites come before it.
    pub direct: Vec<bool>,
    /// The variables that addresses name.
    pub variables: Variables,
    /// If set, chunks end at multiples of it.
    pub row: Option<usize>,
    /// The points of a row, if the tape has statistics of rows, or loads whose element or run-time
    /// indices are the same all over a row: then every chunk is whole rows.
    pub row_length: Option<usize>,
    /// The most points evaluated at once.
    pub longest: usize,
    /// The whole program in one pass, if it has that form.
    pub fused: Option<Fused>,
}

impl Tape {
    /// Prepares the part of `program`, the nest's body or epilogue, that `results` need. Loads are
    /// executed only where all `guards` are at least 0, too.
    pub fn new(
        nest: &Nest,
        program: &Program<Leaf>,
        results: &[Value],
        space: Space,
        guards: &[Affine],
    ) -> Self {
        let words = in_words(program, results);
        let program = words.as_ref().unwrap_or(program);
        let analysis = Analysis::new(nest, program, results, &space, guards);
        let (in_place, direct) = in_place(nest, &analysis, results);
        let Analysis { longest, row_length, .. } = analysis;
        let mut tape = Self {
            dtypes: program.insts.iter().map(|(_, dtype)| *dtype).collect(),
            steps: Vec::new(),
            operations: 0,
            longest_chain: None,
            lodgers: Vec::new(),
            steady: Vec::new(),
            registers: vec![longest * 8, longest],
            constants: Vec::new(),
            given: Vec::new(),
            results: results.to_vec(),
            direct,
            variables: Variables::new(nest),
            row: None,
            row_length,
            longest,
            fused: None,
            space,
        };
        tape.assign(nest, &analysis, guards, &in_place);
        if let [(x, ACCUMULATOR)] = tape.given[..]
            && nest.outputs.iter().all(|output| output.over.is_none())
        {
            tape.fused = Fused::of(&mut tape, x);
        }
        tape.operations = tape.steps.len();
        if tape.fused.is_none() {
            tape.link(&analysis.linked);
        }
        tape.row = tape.rows().filter(|row| *row >= SHORTEST_ROW).min();
        tape
    }

    /// Makes a step of each instruction, in order, and gives its value a register. A register is
    /// used again after the last reader of its value. `in_place` loads may be read in place.
    fn assign(&mut self, nest: &Nest, analysis: &Analysis, guards: &[Affine], in_place: &[Value]) {
        let Analysis { insts, periods, order, last_use, .. } = analysis;
        let mut free: Vec<usize> = Vec::new();
        let mut register_of = Dense::of(usize::MAX, insts.len());
        for (number, &value) in order.iter().enumerate() {
            let inst = &insts[value];
            let bytes = self.longest * self.dtypes[value].size();
            match inst {
                Inst::Const(scalar) => {
                    let register = self.add_register(bytes);
                    self.constants.push((value, register, *scalar));
                    continue;
                }
                Inst::Leaf(Leaf::Accumulator) => {
                    self.given.push((value, ACCUMULATOR));
                    continue;
                }
                Inst::Leaf(Leaf::Written) => {
                    self.given.push((value, WRITTEN));
                    continue;
                }
                _ => {}
            }
            let mut action = self.action(nest, inst, guards, in_place.contains(&value));
            if let Action::Load(reader) = &mut action {
                reader.saturates = nest.operands[reader.operand].dtype != self.dtypes[value];
            }
            if let Some(period) = periods[value] {
                let register = self.add_register(bytes + period * self.dtypes[value].size());
                self.steady.push((TapeStep { value, register, action }, period));
                continue;
            }
            let fitting = free.iter().position(|&register| self.registers[register] == bytes);
            let register =
                fitting.map(|at| free.swap_remove(at)).unwrap_or_else(|| self.add_register(bytes));
            register_of[value] = register;
            let mut done: Vec<Value> =
                reads(inst).filter(|&read| last_use[read] == number).collect();
            done.sort_unstable();
            done.dedup();
            free.extend(
                done.into_iter().map(|read| register_of[read]).filter(|r| *r != usize::MAX),
            );
            self.steps.push(TapeStep { value, register, action });
        }
    }

    /// Adds a register of this many bytes, and returns its number.
    fn add_register(&mut self, bytes: usize) -> usize {
        self.registers.push(bytes);
        self.registers.len() - 1
    }

    /// Returns the action of an instruction that is neither a constant nor given.
    fn action(&self, nest: &Nest, inst: &Inst<Leaf>, guards: &[Affine], in_place: bool) -> Action {
        match inst {
            Inst::Leaf(Leaf::Load(load)) => {
                Action::Load(Box::new(self.reader(nest, load, guards, in_place)))
            }
            Inst::Leaf(Leaf::Statistic(aggregation, a)) => Action::Statistic(*aggregation, *a),
            Inst::Leaf(Leaf::Index(affine)) => {
                Action::Index(Box::new(Lines::new(nest, &self.space, [affine])))
            }
            Inst::Leaf(Leaf::Inner(_) | Leaf::OfBody(_)) => {
                unreachable!("nests of attention run in stages")
            }
            Inst::Leaf(Leaf::Table(_)) => unreachable!("tables are for shaders"),
            Inst::Const(_) | Inst::Leaf(Leaf::Accumulator | Leaf::Written) => {
                unreachable!("it has no step")
            }
            Inst::Unary(op, a) => Action::Unary(*op, *a),
            Inst::Binary(op, a, b) if op.is_comparison() => Action::Compare(*op, *a, *b),
            Inst::Binary(op, a, b) => Action::Binary(*op, *a, *b),
            Inst::Select(c, a, b) => Action::Select(*c, *a, *b),
            Inst::Cast(a) => Action::Cast(*a),
        }
    }

    /// Joins the steps of `linked` values to chains.
    fn link(&mut self, linked: &Dense<Value, bool>) {
        let known = chain::Known { dtypes: &self.dtypes, constants: &self.constants };
        self.steps = chain::joined(std::mem::take(&mut self.steps), linked, known, &self.results);
        self.lodgers = chain::lodgers(&self.steps, &self.results, &self.dtypes);
        let work = |(number, step): (usize, &TapeStep)| match &step.action {
            Action::Chain(chain) => Some((chain.work(), number)),
            _ => None,
        };
        self.longest_chain =
            self.steps.iter().enumerate().filter_map(work).max().map(|(_, number)| number);
    }

    /// Returns whether the only result is the accumulated value, unchanged.
    #[inline]
    pub fn is_accumulator(&self) -> bool {
        matches!(self.results[..], [result] if self.given.contains(&(result, ACCUMULATOR)))
    }

    fn reader(&self, nest: &Nest, load: &Load, guards: &[Affine], in_place: bool) -> Reader {
        let conditions =
            || guards.iter().chain(load.when.iter().filter(|when| !guards.contains(when)));
        Reader {
            operand: load.operand,
            offset: Lines::new(nest, &self.space, [&load.offset]),
            conditions: Lines::new(nest, &self.space, conditions()),
            guarded: Lines::new(
                nest,
                &self.space,
                std::iter::once(&load.offset).chain(conditions()),
            ),
            dynamic: load
                .dynamic
                .iter()
                .map(|&(value, stride)| (value, self.dtypes[value], stride))
                .collect(),
            in_place,
            saturates: false,
        }
    }

    /// Returns the register and the period of a constant or steady value.
    pub(super) fn kept(&self, value: Value) -> Option<(usize, usize)> {
        let constant = self.constants.iter().find(|(constant, ..)| *constant == value);
        let steady = self.steady.iter().find(|(step, _)| step.value == value);
        constant
            .map(|(_, register, _)| (*register, 1))
            .or(steady.map(|(step, period)| (step.register, *period)))
    }

    /// Adds a value that is `value` negated. `value` must be constant or steady, and so is the
    /// result.
    pub(super) fn negative(&mut self, value: Value) -> Value {
        let register = self.registers.len();
        let dtype = self.dtypes[value];
        let negative = self.dtypes.push(dtype);
        match self.constants.iter().find(|(constant, ..)| *constant == value) {
            Some(&(.., scalar)) => {
                self.registers.push(self.longest * dtype.size());
                self.constants.push((negative, register, UnaryOp::Neg.evaluate(scalar)));
            }
            None => {
                let period = self
                    .steady
                    .iter()
                    .find(|(step, _)| step.value == value)
                    .map_or(1, |(_, period)| *period);
                self.registers.push((period + self.longest) * dtype.size());
                self.steady.push((
                    TapeStep {
                        value: negative,
                        register,
                        action: Action::Unary(UnaryOp::Neg, value),
                    },
                    period,
                ));
            }
        }
        negative
    }

    /// For each load that is constant from point to point, the number of points for which it is.
    fn rows(&self) -> impl Iterator<Item = usize> {
        let runs = self.steps.iter().filter_map(|step| match &step.action {
            Action::Load(reader) if reader.dynamic.is_empty() && reader.offset.steps[0] == 0 => {
                Some(reader.offset.run)
            }
            _ => None,
        });
        runs.filter(|&run| run < self.space.size)
    }

    /// Returns the type of a value.
    #[inline]
    pub fn dtype(&self, value: Value) -> DType {
        self.dtypes[value]
    }

    /// Returns the nest's operands that it reads.
    pub fn operands(&self) -> impl Iterator<Item = usize> + '_ {
        self.steps.iter().chain(self.steady.iter().map(|(step, _)| step)).filter_map(|step| {
            match &step.action {
                Action::Load(reader) => Some(reader.operand),
                _ => None,
            }
        })
    }

    /// Returns the number of points that threads should not divide: those of a row, if chunks are
    /// whole rows, or of the rows that are exchanged with columns together.
    #[inline]
    pub fn unit(&self) -> usize {
        self.row_length.unwrap_or(if self.longest > LONG_CHUNK { self.longest } else { 1 })
    }

    /// Divides a range of points into chunks. Each lies within one row, if that makes values the
    /// same all over it. With statistics, the range and the chunks consist of whole rows.
    #[inline]
    pub fn chunks(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let rows = self.row_length.map(|length| rows_at_once(length) * length);
        let row = rows.or(self.row).unwrap_or(usize::MAX);
        let longest = match rows {
            Some(row) => row,
            None if row == usize::MAX => self.longest,
            None => row.div_ceil(row.div_ceil(self.longest)),
        };
        let mut start = range.start;
        std::iter::from_fn(move || {
            let row_end = (start / row).saturating_add(1).saturating_mul(row);
            let chunk = start..range.end.min(start + longest).min(row_end);
            start = chunk.end;
            (!chunk.is_empty()).then_some(chunk)
        })
    }
}

/// Returns how many rows of this length are evaluated at once.
pub(super) fn rows_at_once(length: usize) -> usize {
    (POINTS_OF_ROWS / length.max(1)).clamp(1, ROWS)
}
