//! Sums at places that are known only at run time: the gradient of a gather, histograms, sums by
//! group.
//!
//! Example: `dW[v, d] = +(dY[n, d])` over the n where `Tokens[n] == v`. For each v only a few n
//! count. Before anything is added, they are collected from the tokens in one list for each v. So
//! the work grows with the points and with the places, not with their product.
//!
//! Always true: the points of a place are taken in order, whatever the number of threads.

use super::job::{Job, parallel};
use super::machine::Machine;
use super::reduction::{Reduction, Run, Sums, cost};
use super::runner::Runner;
use crate::cpu::memory::{Launch, bytes};
use crate::cpu::vector::number::{Bool, Number, from_scalar, typed};
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{ACCUMULATOR, Space, Tape, WRITTEN};
use tile_compiler::nest::{Leaf, Nest};
use tile_compiler::scalar::{BinaryOp, Inst, Program, Value};

/// A nest of this kind, ready to run.
pub struct Scatter {
    /// For each point, the index on one of the free axes at which the point counts.
    key: Runner,
    /// The nest without that condition.
    reduction: Reduction,
    /// The extent of that axis, and the number of places from one index to the next.
    rows: usize,
    row: usize,
}

impl Scatter {
    /// Prepares the nest, which aggregates values of type `dtype`, if it is of this kind and this
    /// way is cheaper.
    pub fn new(nest: &Nest, aggregation: Aggregation, dtype: DType) -> Option<Self> {
        use Aggregation::{Max, Min, Product, Sum};
        if !matches!(aggregation, Sum | Product | Max | Min) || !nest.guards.iter().all(|g| is_of_points(nest, g)) {
            return None;
        }
        let mut conditions = Vec::new();
        conjuncts(&nest.body, *nest.body.results.get(1)?, &mut conditions);
        let found = conditions.iter().enumerate().find_map(|(number, &c)| Some((number, name(nest, c)?)));
        let (number, (key, axis)) = found?;
        conditions.remove(number);
        let mut rest = nest.clone();
        rest.body.results.truncate(1);
        if let Some(counts) = conditions.into_iter().reduce(|a, b| rest.body.binary(BinaryOp::BitAnd, a, b)) {
            rest.body.results.push(counts);
        }
        let key = Tape::new(nest, &nest.body, &[key], Space::new(nest, nest.reduction()), &nest.guards);
        let key = Runner::new(key);
        let reduction = Reduction::across(&rest, aggregation, dtype);
        let rows = nest.axes[axis].extent;
        let row: usize = nest.axes[axis + 1..nest.free].iter().map(|axis| axis.extent).product();
        let scatter = Self { key, reduction, rows, row };
        let all = cost(&scatter.reduction.body) * (rows * row) as f64;
        (scatter.cost_of_a_point() < all).then_some(scatter)
    }

    /// Estimates the cost of adding a point to the row that it selects, in operations on an
    /// element.
    fn cost_of_a_point(&self) -> f64 {
        /// The cost of starting a vector operation, in elements.
        const START: f64 = 64.0;
        (self.reduction.body.len() + 2) as f64 * (START + self.row as f64)
    }

    /// Returns the bytes of the lists of points that a run makes.
    pub fn working_bytes(&self) -> u64 {
        let of_points = bytes(&[self.key.points()], size_of::<Option<usize>>() + size_of::<usize>());
        of_points.saturating_add(bytes(&[self.rows, 2], size_of::<usize>()))
    }

    /// Computes all places.
    pub fn run(&self, job: &Job) {
        let lists = Lists::new(&self.key, self.rows, job.launch);
        let each = self.cost_of_a_point() * self.key.points() as f64 / (self.rows * self.row) as f64;
        let work = job.epilogue.len() + 2 + each as usize;
        let Reduction { aggregation, dtype, .. } = self.reduction;
        typed!(dtype, T => {
            let identity: T = from_scalar(aggregation.identity(dtype));
            let run = Run { reduction: &self.reduction, job, aggregation, identity };
            let worker = || (job.finisher(), Sums::new(&run));
            parallel(0..job.nest.places(), work, worker, |(epilogue, sums), places| {
                self.add(&run, &lists, epilogue, sums, places);
            });
        });
    }

    /// Computes some places.
    fn add<T: Number>(
        &self,
        run: &Run<T>,
        lists: &Lists,
        epilogue: &mut Machine,
        sums: &mut Sums<T>,
        places: Range<usize>,
    ) {
        for chunk in run.job.epilogue.chunks(places) {
            epilogue.given::<T>(ACCUMULATOR)[..chunk.len()].fill(run.identity);
            epilogue.given::<Bool>(WRITTEN)[..chunk.len()].fill(Bool(0));
            let mut start = chunk.start;
            while start < chunk.end {
                let row = start / self.row;
                let end = chunk.end.min((row + 1) * self.row);
                let points = lists.of(row % self.rows);
                if !points.is_empty() {
                    sums.sum(start..end, points.iter().copied());
                    let part = start - chunk.start..end - chunk.start;
                    epilogue.given::<T>(ACCUMULATOR)[part.clone()].copy_from_slice(&sums.total[..end - start]);
                    epilogue.given::<Bool>(WRITTEN)[part].copy_from_slice(&sums.written[..end - start]);
                }
                start = end;
            }
            // SAFETY: `parallel` gives each place to one thread.
            unsafe { run.job.finish(epilogue, chunk) };
        }
    }
}

/// The points that select each row, in order.
struct Lists {
    /// The start of each row's list, and the end of the last one.
    starts: Vec<usize>,
    points: Vec<usize>,
}

impl Lists {
    fn new(key: &Runner, rows: usize, launch: Launch) -> Self {
        let mut named: Vec<Option<usize>> = Vec::with_capacity(key.points());
        let mut machine = key.machine(launch);
        let value = key.results[0];
        for chunk in key.chunks(0..key.points()) {
            machine.run(chunk.start, chunk.len());
            typed!(key.dtype(value), T => {
                let row = |key: &T| usize::try_from(key.to_i64()).ok().filter(|row| *row < rows);
                named.extend(machine.value::<T>(value).iter().map(row));
            });
        }
        let mut starts = vec![0; rows + 1];
        named.iter().flatten().for_each(|row| starts[row + 1] += 1);
        (0..rows).for_each(|row| starts[row + 1] += starts[row]);
        let mut next = starts.clone();
        let mut points = vec![0; starts[rows]];
        for (point, row) in named.iter().enumerate().filter_map(|(point, row)| Some((point, (*row)?))) {
            points[next[row]] = point;
            next[row] += 1;
        }
        Self { starts, points }
    }

    fn of(&self, row: usize) -> &[usize] {
        &self.points[self.starts[row]..self.starts[row + 1]]
    }
}

/// Collects the conditions whose conjunction `value` is.
fn conjuncts(body: &Program<Leaf>, value: Value, found: &mut Vec<Value>) {
    match body.insts[value].0 {
        Inst::Binary(BinaryOp::BitAnd, a, b) if body.dtype(value) == DType::Bool => {
            conjuncts(body, a, found);
            conjuncts(body, b, found);
        }
        _ => found.push(value),
    }
}

/// Recognises a condition that an integer equals the index of a free axis, where the point alone
/// decides the integer. Returns the integer and the axis.
fn name(nest: &Nest, condition: Value) -> Option<(Value, usize)> {
    let Inst::Binary(BinaryOp::Eq, a, b) = nest.body.insts[condition].0 else { return None };
    let axis = |mut value: Value| loop {
        match &nest.body.insts[value].0 {
            // An index fits into 32 bits, signed or unsigned.
            Inst::Cast(inner) if nest.body.dtype(value).is_integer() && nest.body.dtype(value).bits() >= 32 => {
                value = *inner
            }
            Inst::Leaf(Leaf::Index(affine)) => return affine.as_variable().filter(|axis| *axis < nest.free),
            _ => return None,
        }
    };
    let of_points =
        |value: Value| (nest.body.dtype(value).is_integer() && is_decided_by_points(nest, value)).then_some(value);
    match (axis(a), axis(b)) {
        (None, Some(axis)) => Some((of_points(a)?, axis)),
        (Some(axis), None) => Some((of_points(b)?, axis)),
        _ => None,
    }
}

fn is_decided_by_points(nest: &Nest, value: Value) -> bool {
    let inst = &nest.body.insts[value].0;
    let leaf = match inst {
        Inst::Leaf(Leaf::Load(load)) => {
            let dynamic = load.dynamic.iter().all(|(value, _)| is_decided_by_points(nest, *value));
            dynamic && is_of_points(nest, &load.offset) && load.when.iter().all(|when| is_of_points(nest, when))
        }
        Inst::Leaf(Leaf::Index(affine)) => is_of_points(nest, affine),
        _ => true,
    };
    leaf && inst.operands().into_iter().all(|operand| is_decided_by_points(nest, operand))
}

/// Returns whether an expression depends on no free axis.
fn is_of_points(nest: &Nest, affine: &Affine) -> bool {
    affine.variables().all(|variable| match variable.checked_sub(nest.axes.len()) {
        Some(derived) => is_of_points(nest, &nest.derived[derived].numerator),
        None => variable >= nest.free,
    })
}
