//! The template for row statistics: a workgroup, or a power of two of its invocations, computes a
//! row. Each invocation has some of the columns; a tree through workgroup memory combines the
//! statistics.
//!
//! If an invocation has few columns, its values stay in registers from one statistic to the next,
//! so that the row is read once. Otherwise each statistic is another loop over the columns.

use crate::dense::Dense;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::kernel::{Builder, Expr, Kernel};
use crate::nest::{Leaf, Nest};
use crate::profile::Profile;
use crate::scalar::{BinaryOp, Inst, Value};

use super::point::{Point, declare};
use super::statistic::Statistic;
use super::{ScheduleError, grid, group, lanes as vectors};

/// The most copies of the epilogue in an invocation, one for each of its columns or vectors.
const MOST_COPIES: usize = 8;

/// The most instructions in all copies.
const MOST_INSTRUCTIONS: usize = 512;

/// Writes the kernel. `lanes` invocations, a power of two that divides `workgroup`, compute a row.
/// `width` is the number of columns at a time: 1, or 4 if [`vectors::of_places`] allows it.
pub(super) fn rows(
    nest: &Nest,
    profile: &Profile,
    workgroup: u32,
    lanes: u32,
    width: u8,
) -> Result<Kernel, ScheduleError> {
    let count = nest.places() / nest.row_length();
    let slots = workgroup / lanes;
    let grid = grid(count.div_ceil(slots as usize), profile)?;
    let mut builder = Builder::new(&nest.name, [workgroup, 1, 1], grid);
    let b = &mut builder;
    let scalar = vec![1; nest.operands.len() + nest.outputs.len()];
    let last = nest.free.saturating_sub(1);
    let vectors = if width == 1 { Some(scalar) } else { vectors::of_places(nest, last, width) };
    let buffers =
        declare(nest, profile, b, vectors.ok_or(ScheduleError::Internal("unaligned vectors"))?)?;
    let (lane, row) = match slots {
        1 => (Expr::local(0), group(grid)),
        _ => {
            let lane = b.let_("lane", Expr::local(0).remainder(lanes));
            (lane, group(grid) * slots as i32 + Expr::local(0).quotient(lanes))
        }
    };
    let mut row = b.let_("row", row);
    // Surplus invocations recompute the last row, so that all invocations reach every barrier.
    let all = grid[0] as usize * grid[1] as usize * slots as usize == count;
    let is_own = if all { true.into() } else { b.let_("is_own", row.clone().lt(count as i32)) };
    if !all {
        row = b.let_("row", row.binary(BinaryOp::Min, count as i32 - 1));
    }
    let mut point = Point::new(nest, profile, &buffers).vector(last, width);
    point.set_position(b, &(0..nest.rows).collect::<Vec<_>>(), &row);
    let mut rows = Rows { nest, profile, lanes, workgroup, width, lane, row, is_own, point };
    let copies = nest.row_length().div_ceil(lanes as usize * width as usize);
    if copies <= MOST_COPIES && copies * nest.epilogue.insts.len() <= MOST_INSTRUCTIONS {
        rows.in_registers(b, copies)?;
    } else {
        rows.in_loops(b)?;
    }
    Ok(builder.finish()?)
}

/// The state while the kernel is written.
struct Rows<'a> {
    nest: &'a Nest,
    profile: &'a Profile,
    lanes: u32,
    workgroup: u32,
    width: u8,
    /// The number of this invocation among those of its row.
    lane: Expr,
    row: Expr,
    /// Whether the invocation stores its results: false if its row is a repeat of the last one.
    is_own: Expr,
    /// The row's first place.
    point: Point<'a>,
}

impl<'a> Rows<'a> {
    /// Computes each value at once for all columns of an invocation.
    fn in_registers(&mut self, b: &mut Builder, copies: usize) -> Result<(), ScheduleError> {
        let (nest, program) = (self.nest, &self.nest.epilogue);
        let length = nest.row_length();
        let mut places = Vec::with_capacity(copies);
        for copy in 0..copies {
            let first = copy * self.lanes as usize;
            let number = b.let_("number", self.lane.clone() + first as i32);
            let all = (first + self.lanes as usize) * self.width as usize <= length;
            places.push(self.place(b, number, all));
        }
        let dependencies = nest.dependencies(program);
        // For each value: one expression for each copy, or a single one if all columns have the
        // same value.
        let mut done: Dense<Value, Vec<Expr>> = Dense::with_capacity(program.insts.len());
        for (value, (inst, dtype)) in program.insts.enumerate() {
            if let Inst::Leaf(Leaf::Statistic(aggregation, a)) = inst {
                let statistic = self.statistic(*aggregation, *dtype);
                let candidates = places.iter().enumerate().map(|(copy, (_, inside, _))| {
                    (done[*a].get(copy).unwrap_or(&done[*a][0]).clone(), inside.clone())
                });
                let own = statistic.of(b, candidates, self.width)?;
                done.push(vec![self.whole(b, &statistic, own)?]);
                continue;
            }
            let varies = nest.columns().any(|column| dependencies[value][column]);
            let mut own = Vec::new();
            for (copy, (point, ..)) in
                places.iter().enumerate().take(if varies { copies } else { 1 })
            {
                let known = |v: Value| done[v].get(copy).unwrap_or(&done[v][0]).clone();
                let code = point.instruction(b, program, value, &known, None)?;
                own.push(b.let_(&format!("v{value}"), code));
            }
            done.push(own);
        }
        for (copy, (point, inside, column)) in places.iter().enumerate() {
            let results: Vec<Expr> = program
                .results
                .iter()
                .map(|&r| done[r].get(copy).unwrap_or(&done[r][0]).clone())
                .collect();
            self.store(b, point, inside, column, results);
        }
        Ok(())
    }

    /// Writes a loop over the columns for each statistic, and one for the results.
    fn in_loops(&mut self, b: &mut Builder) -> Result<(), ScheduleError> {
        let program = &self.nest.epilogue;
        let vectors = (self.nest.row_length() / self.width as usize) as i32;
        for (value, (inst, dtype)) in program.insts.enumerate() {
            let Inst::Leaf(Leaf::Statistic(aggregation, a)) = inst else { continue };
            let statistic = self.statistic(*aggregation, *dtype);
            let identity = statistic.identity(b, self.width)?;
            let sum = b.var("sum", identity);
            b.for_(
                "number",
                self.lane.clone(),
                vectors,
                self.lanes,
                |b, number| -> Result<(), ScheduleError> {
                    let (point, ..) = self.place(b, number, true);
                    let candidate = point.values(b, program, &[*a], None)?[*a].clone();
                    let next = statistic.combine(b, sum.clone(), candidate)?;
                    b.assign(&sum, next);
                    Ok(())
                },
            )?;
            let own = statistic.of_lanes(b, sum, self.width)?;
            let whole = self.whole(b, &statistic, own)?;
            self.point.statistics.push((value, whole));
        }
        b.for_(
            "number",
            self.lane.clone(),
            vectors,
            self.lanes,
            |b, number| -> Result<(), ScheduleError> {
                let (point, inside, column) = self.place(b, number, true);
                let results = point.program(b, program, None)?;
                self.store(b, &point, &inside, &column, results);
                Ok(())
            },
        )
    }

    /// Returns the point at vector `number` of the row, whether it is in the row, and its column. A
    /// vector outside of the row becomes the row's last.
    fn place(&self, b: &mut Builder, number: Expr, all: bool) -> (Point<'a>, Expr, Expr) {
        let vectors = (self.nest.row_length() / self.width as usize) as i32;
        let inside = if all { true.into() } else { b.let_("inside", number.clone().lt(vectors)) };
        let number = if all { number } else { number.binary(BinaryOp::Min, vectors - 1) };
        let column = b.let_("column", number * self.width as i32);
        let mut point = self.point.clone();
        point.set_position(b, &self.nest.columns().collect::<Vec<_>>(), &column);
        (point, inside, column)
    }

    /// Stores results at a place of the row. Results with one element for each row are stored at
    /// its first column.
    fn store(
        &self,
        b: &mut Builder,
        point: &Point,
        inside: &Expr,
        column: &Expr,
        results: Vec<Expr>,
    ) {
        let place = self.row.clone() * self.nest.row_length() as i32 + column.clone();
        b.if_(self.is_own.clone().and(inside), |b| point.store_in_row(b, &place, column, results));
    }

    fn statistic(&self, aggregation: Aggregation, dtype: DType) -> Statistic<'a> {
        Statistic { profile: self.profile, aggregation, dtype }
    }

    /// Combines the values of the row's invocations, so that all of them have the result.
    fn whole(
        &self,
        b: &mut Builder,
        statistic: &Statistic,
        own: Expr,
    ) -> Result<Expr, ScheduleError> {
        let mut whole = own;
        if self.lanes > 1 {
            let shared = statistic.declare(b, self.workgroup as usize)?;
            statistic.write(b, shared, Expr::local(0), whole);
            statistic.tree(b, shared, &[Expr::local(0)], &self.lane, self.lanes)?;
            let first = statistic.read(b, shared, Expr::local(0) - self.lane.clone());
            whole = b.let_("whole", first);
        }
        Ok(b.let_("statistic", whole.splat(self.width)))
    }
}
