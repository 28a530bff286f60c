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
//! If the program has statistics of rows, a chunk consists of whole rows.

use super::chain::{self, Chain};
use super::fused::Fused;
use super::machine::{Machine, State};
use super::space::{Lines, Space};
use crate::cpu::memory::Launch;
use crate::cpu::threads::idle::Idle;
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Aggregation;
use tile_compiler::nest::{Leaf, Load, Nest};
use tile_compiler::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};

/// The most points evaluated at once. Chunks of whole rows, of single chains, and of rows that are
/// exchanged with columns may be longer.
pub const CHUNK: usize = 1024;
/// The most points evaluated at once where a nest without aggregation is one chain on contiguous
/// tensors. Such a chunk keeps nothing in memory but steady values, and more points hide the cost
/// of starting it.
const CHUNK_OF_CHAIN: usize = 4 * CHUNK;

/// The most rows evaluated at once, and about how many points they have together: enough to hide
/// the cost of starting a chunk. Longer rows are evaluated one at a time.
const ROWS: usize = 64;
const POINTS_OF_ROWS: usize = 16 * CHUNK;

/// The register of [`Leaf::Accumulator`] with a chunk's elements. The caller fills it.
pub const ACCUMULATOR: usize = 0;
/// The register of [`Leaf::Written`] with a chunk's bools. The caller fills it.
pub const WRITTEN: usize = 1;

/// The longest period of a steady value.
const LONGEST_PERIOD: usize = 8 * CHUNK;
/// The fewest points for which chains are made.
const SHORTEST_CHAIN: usize = 16;
/// The shortest row that gets chunks of its own, if some value is the same in all of a row.
const SHORTEST_ROW: usize = 128;

/// A load, as lines through the space.
pub struct Reader {
    pub operand: usize,
    pub offset: Lines,
    /// The expressions that must be at least 0 for the load to be executed.
    pub conditions: Lines,
    /// The offset, followed by the conditions.
    pub guarded: Lines,
    pub dynamic: Vec<(Value, DType, i64)>,
    /// Whether an operand that an output overwrites may be read in place: its last reader runs
    /// before the output is stored.
    pub in_place: bool,
}

impl Reader {
    /// Returns the operand, if the element read at each place has the number of that place.
    pub fn at_place(&self, space: &Space) -> Option<usize> {
        let unconditional = self.dynamic.is_empty() && self.conditions.is_empty();
        (unconditional && self.offset.is_number(space)).then_some(self.operand)
    }
}

/// The action of a step, on values of the program.
pub enum Action {
    Load(Box<Reader>),
    Index(Box<Lines>),
    Unary(UnaryOp, Value),
    Binary(BinaryOp, Value, Value),
    Compare(BinaryOp, Value, Value),
    Select(Value, Value, Value),
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
pub struct Step {
    pub value: Value,
    pub register: usize,
    pub action: Action,
}

/// A program over one space of a nest.
pub struct Tape {
    pub space: Space,
    /// The steps that run for each chunk.
    pub steps: Vec<Step>,
    /// The number of instructions in `steps`.
    operations: usize,
    /// The step of the chain with the most work, which hides the latency of prefetches.
    pub longest_chain: Option<usize>,
    /// Values that are stored in the memory of a result before the result itself, each with that
    /// result. The memory is then in the caches.
    pub lodgers: Vec<(Value, Value)>,
    /// The steps that run once, over one period of the value, each with that period in points.
    pub steady: Vec<(Step, usize)>,
    pub dtypes: Vec<DType>,
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
    /// The number of the nest's variables, and the first of its loops.
    pub variables: usize,
    pub loops: usize,
    /// If set, chunks end at multiples of it.
    row: Option<usize>,
    /// The points of a row, if the tape has statistics of rows: then every chunk is whole rows.
    pub row_length: Option<usize>,
    /// The most points evaluated at once.
    pub longest: usize,
    /// The whole program in one pass, if it has that form.
    pub fused: Option<Fused>,
    pub idle: Idle<State>,
}

impl Tape {
    /// Prepares the part of `program`, the nest's body or epilogue, that `results` need. Loads are
    /// executed only where all `guards` are at least 0, too.
    pub fn new(nest: &Nest, program: &Program<Leaf>, results: &[Value], space: Space, guards: &[Affine]) -> Self {
        let count = program.insts.len();
        let mut is_used = vec![false; count];
        results.iter().for_each(|&result| is_used[result] = true);
        let insts: Vec<Inst<Leaf>> = (0..count).map(|value| effective(program, value)).collect();
        for value in (0..count).rev() {
            if is_used[value] {
                reads(&insts[value]).for_each(|read| is_used[read] = true);
            }
        }
        let periods = periods(nest, &insts, &space, guards);
        let row_length = (!nest.columns().is_empty()).then(|| nest.row_length());
        let dtypes: Vec<DType> = program.insts.iter().map(|(_, dtype)| *dtype).collect();
        // Chains pay only with enough points.
        let uniform = uniform(&insts, &periods, |load| is_even(nest, &space, row_length, load));
        let reads_of = |value: Value| reads(&insts[value]).collect();
        let used = (0..count).filter(|&value| is_used[value]);
        let (order, linked) = chain::arranged(&insts, &dtypes, used.clone(), &uniform, reads_of);
        let linked = if space.size < SHORTEST_CHAIN { vec![false; count] } else { linked };
        let stays = |value: Value| match &insts[value] {
            Inst::Leaf(Leaf::Load(load)) => is_in_one_piece(nest, &space, load),
            inst => matches!(inst, Inst::Const(_)),
        };
        let is_linked = |value: &Value| linked[*value] || uniform[*value] || periods[*value].is_some() || stays(*value);
        let is_chain = nest.aggregation.is_none() && order.iter().all(is_linked);
        let longest = match row_length {
            Some(length) => (rows_at_once(length) * length).max(CHUNK),
            None if is_chain => CHUNK_OF_CHAIN,
            None if nest.aggregation.is_none() => {
                let exchanged = used.clone().filter_map(|value| exchanged(nest, &space, &insts[value]));
                exchanged.max().unwrap_or(0).max(CHUNK)
            }
            None => CHUNK,
        };
        // For each value, the position in the order of its last reader.
        let mut last_use = vec![0; count];
        results.iter().for_each(|&result| last_use[result] = usize::MAX);
        for (number, &value) in order.iter().enumerate().rev() {
            reads(&insts[value]).for_each(|read| last_use[read] = last_use[read].max(number));
            // A choice may alias the value that it chose.
            if let Inst::Select(_, a, b) = insts[value] {
                [a, b].into_iter().for_each(|side| last_use[side] = last_use[side].max(last_use[value]));
            }
        }
        let (in_place, direct) = in_place(nest, &insts, &order, &linked, &last_use, results);
        let mut tape = Self {
            dtypes,
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
            variables: nest.axes.len() + nest.derived.len(),
            loops: nest.loops().start,
            row: None,
            row_length,
            longest,
            fused: None,
            idle: Idle::new(),
            space,
        };
        let mut free: Vec<usize> = Vec::new();
        let mut register_of = vec![usize::MAX; count];
        for (number, value) in order.into_iter().enumerate() {
            let inst = &insts[value];
            let size = tape.dtypes[value].size();
            let action = match inst {
                Inst::Const(scalar) => {
                    tape.constants.push((value, tape.registers.len(), *scalar));
                    tape.registers.push(longest * size);
                    continue;
                }
                Inst::Leaf(Leaf::Accumulator) => {
                    tape.given.push((value, ACCUMULATOR));
                    continue;
                }
                Inst::Leaf(Leaf::Written) => {
                    tape.given.push((value, WRITTEN));
                    continue;
                }
                Inst::Leaf(Leaf::Load(load)) => {
                    Action::Load(Box::new(tape.reader(nest, load, guards, in_place.contains(&value))))
                }
                Inst::Leaf(Leaf::Statistic(aggregation, a)) => Action::Statistic(*aggregation, *a),
                Inst::Leaf(Leaf::Inner(_) | Leaf::OfBody(_)) => unreachable!("nests of attention run in stages"),
                Inst::Leaf(Leaf::Index(affine)) => Action::Index(Box::new(Lines::new(nest, &tape.space, [affine]))),
                Inst::Unary(op, a) => Action::Unary(*op, *a),
                Inst::Binary(op, a, b) if op.is_comparison() => Action::Compare(*op, *a, *b),
                Inst::Binary(op, a, b) => Action::Binary(*op, *a, *b),
                Inst::Select(c, a, b) => Action::Select(*c, *a, *b),
                Inst::Cast(a) => Action::Cast(*a),
            };
            if let Some(period) = periods[value] {
                let step = Step { value, register: tape.registers.len(), action };
                tape.registers.push((period + longest) * size);
                tape.steady.push((step, period));
                continue;
            }
            let fitting = free.iter().position(|&r| tape.registers[r] == longest * size);
            let register = fitting.map(|at| free.swap_remove(at)).unwrap_or_else(|| {
                tape.registers.push(longest * size);
                tape.registers.len() - 1
            });
            register_of[value] = register;
            let mut done: Vec<Value> = reads(inst).filter(|&read| last_use[read] == number).collect();
            done.sort_unstable();
            done.dedup();
            free.extend(done.into_iter().map(|read| register_of[read]).filter(|r| *r != usize::MAX));
            tape.steps.push(Step { value, register, action });
        }
        if let [(x, ACCUMULATOR)] = tape.given[..]
            && nest.outputs.iter().all(|output| output.over.is_none())
        {
            tape.fused = Fused::of(&mut tape, x);
        }
        tape.operations = tape.steps.len();
        if tape.fused.is_none() {
            let known = chain::Known { dtypes: &tape.dtypes, constants: &tape.constants };
            tape.steps = chain::joined(std::mem::take(&mut tape.steps), &linked, known, results);
            tape.lodgers = chain::lodgers(&tape.steps, results, &tape.dtypes);
            let work = |(number, step): (usize, &Step)| match &step.action {
                Action::Chain(chain) => Some((chain.work(), number)),
                _ => None,
            };
            tape.longest_chain = tape.steps.iter().enumerate().filter_map(work).max().map(|(_, number)| number);
        }
        tape.row = tape.rows().filter(|row| *row >= SHORTEST_ROW).min();
        tape
    }

    /// Returns whether the only result is the accumulated value, unchanged.
    pub fn is_accumulator(&self) -> bool {
        matches!(self.results[..], [result] if self.given.contains(&(result, ACCUMULATOR)))
    }

    fn reader(&self, nest: &Nest, load: &Load, guards: &[Affine], in_place: bool) -> Reader {
        let conditions = || guards.iter().chain(load.when.iter().filter(|when| !guards.contains(when)));
        Reader {
            operand: load.operand,
            offset: Lines::new(nest, &self.space, [&load.offset]),
            conditions: Lines::new(nest, &self.space, conditions()),
            guarded: Lines::new(nest, &self.space, std::iter::once(&load.offset).chain(conditions())),
            dynamic: load.dynamic.iter().map(|&(value, stride)| (value, self.dtypes[value], stride)).collect(),
            in_place,
        }
    }

    /// Returns the register and the period of a constant or steady value.
    pub fn kept(&self, value: Value) -> Option<(usize, usize)> {
        let constant = self.constants.iter().find(|(constant, ..)| *constant == value);
        let steady = self.steady.iter().find(|(step, _)| step.value == value);
        constant.map(|(_, register, _)| (*register, 1)).or(steady.map(|(step, period)| (step.register, *period)))
    }

    /// Adds a value that is `value` negated. `value` must be constant or steady, and so is the
    /// result.
    pub fn negative(&mut self, value: Value) -> Value {
        let (negative, register) = (self.dtypes.len(), self.registers.len());
        let dtype = self.dtypes[value];
        self.dtypes.push(dtype);
        match self.constants.iter().find(|(constant, ..)| *constant == value) {
            Some(&(.., scalar)) => {
                self.registers.push(self.longest * dtype.size());
                self.constants.push((negative, register, UnaryOp::Neg.evaluate(scalar)));
            }
            None => {
                let period = self.steady.iter().find(|(step, _)| step.value == value).map_or(1, |(_, period)| *period);
                self.registers.push((period + self.longest) * dtype.size());
                self.steady
                    .push((Step { value: negative, register, action: Action::Unary(UnaryOp::Neg, value) }, period));
            }
        }
        negative
    }

    /// For each load that is constant from point to point, the number of points for which it is.
    fn rows(&self) -> impl Iterator<Item = usize> {
        let runs = self.steps.iter().filter_map(|step| match &step.action {
            Action::Load(reader) if reader.dynamic.is_empty() && reader.offset.steps[0] == 0 => Some(reader.offset.run),
            _ => None,
        });
        runs.filter(|&run| run < self.space.size)
    }

    /// Creates a thread's machine to run the tape in this launch.
    pub fn machine<'t>(&'t self, launch: Launch<'t>) -> Machine<'t> {
        Machine::new(self, launch)
    }

    /// Returns the type of a value.
    pub fn dtype(&self, value: Value) -> DType {
        self.dtypes[value]
    }

    /// Returns the number of instructions run for each chunk, for estimates of work.
    pub fn len(&self) -> usize {
        self.operations
    }

    /// Returns the number of points of its space.
    pub fn points(&self) -> usize {
        self.space.size
    }

    /// Returns the nest's operands that it reads.
    pub fn operands(&self) -> impl Iterator<Item = usize> + '_ {
        self.steps.iter().chain(self.steady.iter().map(|(step, _)| step)).filter_map(|step| match &step.action {
            Action::Load(reader) => Some(reader.operand),
            _ => None,
        })
    }

    /// For each load, the elements between neighbours and the length of a piece.
    pub fn strides(&self) -> impl Iterator<Item = (i64, usize)> + '_ {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::Load(reader) => Some((reader.offset.steps[0], reader.offset.run)),
            _ => None,
        })
    }

    /// Divides a range of points into chunks. Each lies within one row, if that makes values the
    /// same all over it. With statistics, the range and the chunks consist of whole rows.
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

/// Finds the loads of overwritten operands that may be read in place, and for each result whether
/// it may be stored at once: see [`Reader::in_place`] and [`Tape::direct`]. `order` is the order of
/// computation, and `linked` says which values are computed in chains.
fn in_place(
    nest: &Nest,
    insts: &[Inst<Leaf>],
    order: &[Value],
    linked: &[bool],
    last_use: &[usize],
    results: &[Value],
) -> (Vec<Value>, Vec<bool>) {
    let last_read = |load: Value| {
        let readers = order.iter().enumerate().filter(|(_, reader)| reads(&insts[**reader]).any(|read| read == load));
        // A choice may alias the value that it chose, except in a chain.
        let is_elsewhere = |reader: Value| linked[reader] || !matches!(insts[reader], Inst::Select(..));
        let until = readers.map(|(number, &reader)| if is_elsewhere(reader) { number } else { last_use[reader] });
        if results.contains(&load) { usize::MAX } else { until.max().unwrap_or(0) }
    };
    let (mut in_place, mut direct) = (Vec::new(), vec![true; results.len()]);
    for (number, (output, &result)) in nest.outputs.iter().zip(results).enumerate() {
        let Some(operand) = output.over else { continue };
        let is_load = |value: Value| matches!(&insts[value], Inst::Leaf(Leaf::Load(load)) if load.operand == operand);
        let loads = || order.iter().copied().enumerate().filter(|(_, value)| is_load(*value));
        let made = order.iter().position(|value| *value == result);
        let at_once = made.filter(|&made| linked[result] && loads().all(|(found, _)| found < made));
        direct[number] = at_once.is_some();
        // Other results are stored after the last value.
        let stored = at_once.unwrap_or(order.len());
        in_place.extend(loads().map(|(_, load)| load).filter(|&load| last_read(load) <= stored));
    }
    (in_place, direct)
}

/// Returns how many rows of this length are evaluated at once.
fn rows_at_once(length: usize) -> usize {
    (POINTS_OF_ROWS / length.max(1)).clamp(1, ROWS)
}

/// Returns whether a load reads one element all over a chunk, or all over each of its rows.
fn is_even(nest: &Nest, space: &Space, row_length: Option<usize>, load: &Load) -> bool {
    let lines = Lines::new(nest, space, [&load.offset]);
    let in_rows = row_length.map_or(lines.run >= SHORTEST_ROW, |length| lines.run.is_multiple_of(length));
    load.dynamic.is_empty() && lines.steps[0] == 0 && in_rows
}

/// For an axis exchange, returns the points of as many rows as a cache line has elements, so that
/// each line is read once. The next row's element lies beside this row's there. Long rows are
/// fewer, possibly none.
fn exchanged(nest: &Nest, space: &Space, inst: &Inst<Leaf>) -> Option<usize> {
    const OF_A_LINE: usize = 16;
    const MOST: usize = 256 * CHUNK;
    let Inst::Leaf(Leaf::Load(load)) = inst else { return None };
    let lines = Lines::new(nest, space, [&load.offset]);
    let rows = (MOST / lines.run.max(1)).min(OF_A_LINE);
    let is_plain = load.dynamic.is_empty() && load.when.is_empty();
    (is_plain && lines.beside[0] == 1 && lines.steps[0] > 1).then_some(lines.run * rows)
}

/// Returns whether the load is contiguous over the whole space.
fn is_in_one_piece(nest: &Nest, space: &Space, load: &Load) -> bool {
    let lines = Lines::new(nest, space, [&load.offset]);
    load.dynamic.is_empty() && load.when.is_empty() && lines.steps[0] == 1 && lines.run == space.size
}

/// For each value, whether it is the same all over a chunk, or over each of its rows, as far as can
/// be told in advance.
fn uniform(insts: &[Inst<Leaf>], periods: &[Option<usize>], is_even: impl Fn(&Load) -> bool) -> Vec<bool> {
    let mut uniform: Vec<bool> = Vec::with_capacity(insts.len());
    for (inst, period) in insts.iter().zip(periods) {
        uniform.push(match inst {
            _ if *period == Some(1) => true,
            Inst::Const(_) => true,
            Inst::Leaf(Leaf::Load(load)) => is_even(load),
            Inst::Leaf(Leaf::Statistic(..)) => true,
            Inst::Leaf(_) => false,
            _ => period.is_none() && reads(inst).all(|read| uniform[read]),
        });
    }
    uniform
}

/// For each value that repeats because only the innermost axes decide it, its period in points.
/// Others, and values that are not worth keeping, have none.
fn periods(nest: &Nest, insts: &[Inst<Leaf>], space: &Space, guards: &[Affine]) -> Vec<Option<usize>> {
    // The periods of all values, also of those not worth keeping. `None` means that it does not
    // repeat.
    let mut repeats: Vec<Option<usize>> = Vec::with_capacity(insts.len());
    for inst in insts {
        let of = |affine: &Affine| space.period(nest, affine);
        repeats.push(match inst {
            Inst::Const(_) => Some(1),
            Inst::Leaf(Leaf::Load(load)) if load.dynamic.is_empty() => {
                let expressions = std::iter::once(&load.offset).chain(&load.when).chain(guards);
                expressions.map(of).try_fold(1, |longest, period| Some(period?.max(longest)))
            }
            Inst::Leaf(Leaf::Index(affine)) => of(affine),
            Inst::Leaf(_) => None,
            _ => reads(inst).map(|read| repeats[read]).try_fold(1, |longest, period| Some(period?.max(longest))),
        });
    }
    let pays = |inst: &Inst<Leaf>, period: usize| {
        !matches!(inst, Inst::Const(_)) && period <= LONGEST_PERIOD && 2 * period <= space.size
    };
    insts.iter().zip(&repeats).map(|(inst, period)| period.filter(|&period| pays(inst, period))).collect()
}

/// Returns an instruction, or a cheaper equivalent: a choice of the greater or lesser of two
/// compared values is a maximum or minimum.
fn effective(program: &Program<Leaf>, value: Value) -> Inst<Leaf> {
    let inst = &program.insts[value].0;
    // `a <= c ? c : a` and `a >= c ? c : a` are clamps whose slope at the bound is 0. Maximum and
    // minimum give the same but for the sign of a zero.
    if let Inst::Select(condition, then, otherwise) = *inst
        && let Inst::Binary(op @ (BinaryOp::Le | BinaryOp::Ge), a, b) = program.insts[condition].0
        && (then, otherwise) == (b, a)
        && matches!(program.insts[b].0, Inst::Const(_))
    {
        return Inst::Binary(if op == BinaryOp::Le { BinaryOp::Max } else { BinaryOp::Min }, a, b);
    }
    if let Inst::Select(condition, then, otherwise) = *inst
        && let Inst::Binary(op @ (BinaryOp::Lt | BinaryOp::Gt), a, b) = program.insts[condition].0
    {
        // Normalises to `a < b`.
        let (a, b) = if op == BinaryOp::Lt { (a, b) } else { (b, a) };
        if (then, otherwise) == (b, a) {
            return Inst::Binary(BinaryOp::Max, a, b);
        }
        if (then, otherwise) == (a, b) {
            return Inst::Binary(BinaryOp::Min, b, a);
        }
    }
    inst.clone()
}

/// The values that an instruction reads, including those in a load's address.
fn reads(inst: &Inst<Leaf>) -> impl Iterator<Item = Value> + '_ {
    let (dynamic, row) = match inst {
        Inst::Leaf(Leaf::Load(load)) => (load.dynamic.as_slice(), None),
        Inst::Leaf(Leaf::Statistic(_, value)) => ([].as_slice(), Some(*value)),
        _ => ([].as_slice(), None),
    };
    inst.operands().into_iter().chain(dynamic.iter().map(|(value, _)| *value)).chain(row)
}
