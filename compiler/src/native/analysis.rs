//! Analysis of a program's values before they get registers: the order in which they are computed,
//! which of them repeat, and how long each is needed.

use crate::affine::Affine;
use crate::dense::Dense;
use crate::dtype::DType;
use crate::nest::{Leaf, Load, Nest};
use crate::scalar::{BinaryOp, Inst, Program, Value};

use super::chain;
use super::space::{Lines, Space};
use super::tape::{CHUNK, rows_at_once};

/// The most points evaluated at once where a nest without aggregation is one chain or operation on
/// contiguous tensors. Such a chunk keeps nothing in memory but steady values, and more points hide
/// the cost of starting it.
pub const LONG_CHUNK: usize = 4 * CHUNK;
/// The same for an epilogue that is one chain on sums: these stay in the first-level cache.
const CHUNK_OF_SUMS: usize = 2 * CHUNK;
/// The longest period of a steady value.
const LONGEST_PERIOD: usize = 8 * CHUNK;
/// The longest row with values of its own. Longer rows are chunks of their own.
const LONGEST_ROW: usize = 4 * CHUNK;
/// The fewest points for which chains are made. A chain runs row by row, so that in short rows
/// starting it takes longer than the passes over whole chunks that it saves.
const SHORTEST_CHAIN: usize = 16;
const SHORTEST_ROW_OF_CHAIN: usize = 64;
/// The shortest row that gets chunks of its own, if some value is the same in all of a row.
pub const SHORTEST_ROW: usize = 128;

/// The values of a program, analysed for one space.
pub struct Analysis {
    /// The instructions, or cheaper equivalents.
    pub insts: Dense<Value, Inst<Leaf>>,
    /// The period of each steady value.
    pub periods: Dense<Value, Option<usize>>,
    /// The values that the results need, in the order of their computation.
    pub order: Vec<Value>,
    /// Whether each value is computed in a chain.
    pub linked: Dense<Value, bool>,
    /// For each value, the position in the order of its last reader.
    pub last_use: Dense<Value, usize>,
    /// The points of a row, if chunks are whole rows: of statistics, or of run-time indices.
    pub row_length: Option<usize>,
    /// The most points evaluated at once.
    pub longest: usize,
}

impl Analysis {
    /// Analyses what `results` need of a program, whose loads are executed only where all `guards`
    /// are at least 0.
    pub fn new(
        nest: &Nest,
        program: &Program<Leaf>,
        results: &[Value],
        space: &Space,
        guards: &[Affine],
    ) -> Self {
        let insts: Dense<Value, Inst<Leaf>> =
            program.insts.ids().map(|value| effective(program, value)).collect();
        let dtypes: Dense<Value, DType> = program.insts.iter().map(|(_, dtype)| *dtype).collect();
        let is_used = used(&insts, results);
        let row_length = match nest.columns().is_empty() {
            true => gathered_row(nest, program, space).or_else(|| even_row(nest, program, space)),
            false => Some(nest.row_length()),
        };
        let is_even = |load: &Load| is_even(nest, space, row_length, load);
        let of_rows = uniform(&insts, &Dense::of(None, insts.len()), is_even);
        // One element for each row is less than a period of several rows.
        let is_of_rows = |value: Value| row_length.is_some() && of_rows[value];
        let periods = periods(nest, &insts, space, guards, is_of_rows);
        let uniform = uniform(&insts, &periods, is_even);
        let reads_of = |value: Value| reads(&insts[value]).collect();
        let used = insts.ids().filter(|&value| is_used[value]);
        let (order, linked) = chain::arranged(&insts, &dtypes, used, &uniform, reads_of);
        let is_short = space.size < SHORTEST_CHAIN
            || row_length.is_some_and(|length| length < SHORTEST_ROW_OF_CHAIN);
        let linked = if is_short { Dense::of(false, insts.len()) } else { linked };
        let stays = |value: Value| match &insts[value] {
            Inst::Leaf(Leaf::Load(load)) => is_in_one_piece(nest, space, load),
            inst => matches!(inst, Inst::Const(_) | Inst::Leaf(Leaf::Accumulator)),
        };
        let is_linked = |value: &Value| {
            linked[*value] || uniform[*value] || periods[*value].is_some() || stays(*value)
        };
        // A single value may be stored in its output at once.
        let others = order.iter().filter(|value| !is_linked(value)).count();
        let is_sum = |value: &Value| matches!(insts[*value], Inst::Leaf(Leaf::Accumulator));
        let longest = match row_length {
            Some(length) => (rows_at_once(length) * length).max(CHUNK),
            None if others == 0 && order.iter().any(is_sum) => CHUNK_OF_SUMS,
            None if nest.aggregation.is_none() => {
                let exchanged =
                    order.iter().filter_map(|&value| exchanged(nest, space, &insts[value]));
                let least = if others <= 1 { LONG_CHUNK } else { CHUNK };
                exchanged.max().map_or(least, |points| least.next_multiple_of(points.max(1)))
            }
            None => CHUNK,
        };
        let last_use = last_use(&insts, &order, results);
        Self { insts, periods, order, linked, last_use, row_length, longest }
    }
}

/// Returns the number of points along which a nest without aggregation reads elements with one
/// run-time index, or with indices that repeat in each such row. Indices are then computed once for
/// each row, or for all rows.
fn gathered_row(nest: &Nest, program: &Program<Leaf>, space: &Space) -> Option<usize> {
    let is_of_places = nest.aggregation.is_none() && space.axes() == (0..nest.free);
    let loads = program.leaves().filter_map(Leaf::load);
    let indices: Vec<Value> =
        loads.flat_map(|load| load.dynamic.iter().map(|(index, _)| *index)).collect();
    if !is_of_places || indices.is_empty() {
        return None;
    }
    let dependencies = nest.dependencies(program);
    let last_axis = |index: Value| space.axes().rev().find(|axis| dependencies[index][*axis]);
    let innermost = space.axes().next_back()?;
    let repeats = |index: &Value| {
        last_axis(*index) == Some(innermost)
            && space.axes().filter(|axis| dependencies[*index][*axis]).count() == 1
    };
    let (repeating, others): (Vec<Value>, Vec<Value>) = indices.into_iter().partition(repeats);
    let outer = others.into_iter().filter_map(last_axis).map(|axis| axis + 1).max().unwrap_or(0);
    let (outer, shortest) = match repeating.is_empty() {
        true => (outer, 2),
        false => (outer.max(innermost), SHORTEST_ROW_OF_CHAIN),
    };
    let length = nest.points(outer..nest.free);
    ((shortest..=LONGEST_ROW).contains(&length) && length < space.size).then_some(length)
}

/// Returns the number of points along which a nest without aggregation reads one element, if some
/// load does. A chunk of several such rows hides the cost of starting it.
fn even_row(nest: &Nest, program: &Program<Leaf>, space: &Space) -> Option<usize> {
    let is_of_places = nest.aggregation.is_none() && space.axes() == (0..nest.free);
    let lines = program
        .leaves()
        .filter_map(Leaf::load)
        .filter(|load| load.dynamic.is_empty())
        .map(|load| Lines::new(nest, space, [&load.offset]));
    let runs = lines.filter(|lines| lines.steps[0] == 0 && lines.run < space.size);
    let length = runs.map(|lines| lines.run).min().filter(|_| is_of_places)?;
    (SHORTEST_ROW..=LONGEST_ROW).contains(&length).then_some(length)
}

/// Returns for each value whether the results need it.
fn used(insts: &Dense<Value, Inst<Leaf>>, results: &[Value]) -> Dense<Value, bool> {
    let mut is_used = Dense::of(false, insts.len());
    results.iter().for_each(|&result| is_used[result] = true);
    for value in insts.ids().rev() {
        if is_used[value] {
            reads(&insts[value]).for_each(|read| is_used[read] = true);
        }
    }
    is_used
}

/// Returns for each value the position in the order of its last reader.
fn last_use(
    insts: &Dense<Value, Inst<Leaf>>,
    order: &[Value],
    results: &[Value],
) -> Dense<Value, usize> {
    let mut last_use = Dense::of(0, insts.len());
    results.iter().for_each(|&result| last_use[result] = usize::MAX);
    for (number, &value) in order.iter().enumerate().rev() {
        reads(&insts[value]).for_each(|read| last_use[read] = last_use[read].max(number));
        // A choice may alias the value that it chose.
        if let Inst::Select(_, a, b) = insts[value] {
            [a, b]
                .into_iter()
                .for_each(|side| last_use[side] = last_use[side].max(last_use[value]));
        }
    }
    last_use
}

/// Finds the loads of overwritten operands that may be read in place, and for each result whether
/// it may be stored at once: see `Reader::in_place` and `Tape::direct`.
pub fn in_place(nest: &Nest, analysis: &Analysis, results: &[Value]) -> (Vec<Value>, Vec<bool>) {
    let Analysis { insts, order, linked, last_use, .. } = analysis;
    let last_read = |load: Value| {
        let readers = order
            .iter()
            .enumerate()
            .filter(|(_, reader)| reads(&insts[**reader]).any(|read| read == load));
        // A choice may alias the value that it chose, except in a chain.
        let is_elsewhere =
            |reader: Value| linked[reader] || !matches!(insts[reader], Inst::Select(..));
        let until = readers
            .map(|(number, &reader)| if is_elsewhere(reader) { number } else { last_use[reader] });
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

/// Returns whether a load reads one element all over a chunk, or all over each of its rows.
fn is_even(nest: &Nest, space: &Space, row_length: Option<usize>, load: &Load) -> bool {
    let lines = Lines::new(nest, space, [&load.offset]);
    let in_rows =
        row_length.map_or(lines.run >= SHORTEST_ROW, |length| lines.run.is_multiple_of(length));
    load.dynamic.is_empty() && lines.steps[0] == 0 && in_rows
}

/// Returns, for an axis exchange, the points of as many rows as a cache line has elements, so that
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
    load.dynamic.is_empty()
        && load.when.is_empty()
        && lines.steps[0] == 1
        && lines.run == space.size
}

/// Returns for each value whether it is the same all over a chunk, or over each of its rows, as far
/// as can be told in advance.
fn uniform(
    insts: &Dense<Value, Inst<Leaf>>,
    periods: &Dense<Value, Option<usize>>,
    is_even: impl Fn(&Load) -> bool,
) -> Dense<Value, bool> {
    let mut uniform: Dense<Value, bool> = Dense::with_capacity(insts.len());
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

/// Returns for each value that repeats because only the innermost axes decide it, its period in
/// points. Others have none, nor have values that are not worth keeping, those of rows, and what
/// depends on those.
fn periods(
    nest: &Nest,
    insts: &Dense<Value, Inst<Leaf>>,
    space: &Space,
    guards: &[Affine],
    is_of_rows: impl Fn(Value) -> bool,
) -> Dense<Value, Option<usize>> {
    // The periods of all values, also of those not worth keeping. `None` means that it does not
    // repeat.
    let mut repeats: Dense<Value, Option<usize>> = Dense::with_capacity(insts.len());
    for (value, inst) in insts.enumerate() {
        let of = |affine: &Affine| space.period(nest, affine);
        let period = match inst {
            Inst::Const(_) => Some(1),
            Inst::Leaf(Leaf::Load(load)) if load.dynamic.is_empty() => {
                let expressions = std::iter::once(&load.offset).chain(&load.when).chain(guards);
                expressions.map(of).try_fold(1, |longest, period| Some(period?.max(longest)))
            }
            Inst::Leaf(Leaf::Index(affine)) => of(affine),
            Inst::Leaf(_) => None,
            _ => reads(inst)
                .map(|read| repeats[read])
                .try_fold(1, |longest, period| Some(period?.max(longest))),
        };
        repeats.push(period.filter(|&period| period == 1 || !is_of_rows(value)));
    }
    let pays = |inst: &Inst<Leaf>, period: usize| {
        !matches!(inst, Inst::Const(_)) && period <= LONGEST_PERIOD && 2 * period <= space.size
    };
    insts
        .iter()
        .zip(&repeats)
        .map(|(inst, period)| period.filter(|&period| pays(inst, period)))
        .collect()
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

/// Returns the values that an instruction reads, including those in a load's address.
pub fn reads(inst: &Inst<Leaf>) -> impl Iterator<Item = Value> + '_ {
    let (dynamic, row) = match inst {
        Inst::Leaf(Leaf::Load(load)) => (load.dynamic.as_slice(), None),
        Inst::Leaf(Leaf::Statistic(_, value)) => ([].as_slice(), Some(*value)),
        _ => ([].as_slice(), None),
    };
    inst.operands().into_iter().chain(dynamic.iter().map(|(value, _)| *value)).chain(row)
}
