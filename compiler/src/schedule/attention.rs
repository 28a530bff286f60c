//! The attention template: a product whose left operand is computed from other products, the
//! scores, which never leave the workgroup.
//!
//! A workgroup computes a block of rows and all columns. It iterates over the points in blocks. For
//! each block it
//!
//! 1. multiplies the blocks of scores in registers, as the contraction template does;
//! 2. computes the left operand (the weights) from them, and stores it in workgroup memory;
//! 3. multiplies the weights with the block of the right operand.
//!
//! If there is a running maximum (the top), the sums are relative to it, and are rescaled by
//! exp(old - new) when it changes. See [`crate::nest::Attention`] for why this is sound.

use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr, Kernel, Type};
use crate::nest::{Attention, Leaf, Nest, loads_of};
use crate::profile::Profile;
use crate::scalar::{BinaryOp, Inst, UnaryOp, Value};

use super::contraction::{Block, extents, multiply, store_tile, stored_together};
use super::lanes::{Wanted, agree, singly, stores};
use super::point::{Point, declare};
use super::staging::{Side, Slots, Staged, vector_of};
use super::values::Values;
use super::{Blocking, ScheduleError, grid_of};

/// The finite minimum of the running maximum: exp(-inf - LOWEST) is 0, whereas exp(-inf - -inf)
/// would be NaN.
const LOWEST: f32 = f32::MIN;

impl Blocking {
    /// Returns the number of invocations in a workgroup, down the rows and across the points.
    pub fn threads(&self) -> [u32; 2] {
        [self.rows / self.thread_rows, self.points / self.thread_points]
    }

    /// Returns the number of invocations in a workgroup.
    pub fn invocations(&self) -> u32 {
        self.threads().iter().product()
    }

    /// Returns how many of the nest's `columns` an invocation computes.
    pub fn thread_columns(&self, columns: usize) -> u32 {
        let [_, across] = self.threads();
        let least = columns.div_ceil(across as usize) as u32;
        if least > 2 { least.next_multiple_of(4) } else { least }
    }

    /// Returns an upper bound of the workgroup memory in bytes, for `columns` columns and `scores`
    /// inner sums.
    pub fn shared_bytes(&self, columns: usize, scores: usize) -> u32 {
        let [_, across] = self.threads();
        let of_scores = (self.rows + self.points + 8) * self.depth * scores as u32;
        let of_columns = (self.thread_columns(columns) * across + 4) * self.slice();
        4 * (of_scores + of_columns + self.rows * self.points + self.rows * across)
    }

    /// Returns how many points of the right operand are in workgroup memory at a time.
    fn slice(&self) -> u32 {
        self.depth.min(self.points)
    }
}

/// Writes the kernel of an attention nest.
pub(super) fn attention(nest: &Nest, profile: &Profile, t: &Blocking) -> Result<Kernel, ScheduleError> {
    let parts = nest.attention().ok_or(ScheduleError::Internal("no attention"))?;
    let Attention { roles, scores, top, sums } = &parts;
    let [rows, columns, points, batch] = extents(nest, roles);
    let [down, across] = t.threads();
    let thread_columns = t.thread_columns(columns);
    let block_columns = thread_columns * across;
    let blocks = rows.div_ceil(t.rows as usize);
    let grid = grid_of([blocks, batch, 1], profile)?;
    let mut builder = Builder::new(&nest.name, [t.invocations(), 1, 1], grid);
    let b = &mut builder;

    let of_inner: Vec<Vec<usize>> = nest.inner.iter().map(|inner| inner.axes.clone().collect()).collect();
    let mut sides = Vec::new();
    for ((score, inner), axes) in scores.iter().zip(&nest.inner).zip(&of_inner) {
        let side = |factor, name, own, sizes: [u32; 2]| {
            Side::of(nest, &inner.body, factor, name, own, axes, [sizes[0], sizes[1], t.depth])
        };
        sides.push(side(score.left, "left", &roles.rows, [t.rows, t.thread_rows]));
        sides.push(side(score.right, "right", &roles.reduction, [t.points, t.thread_points]));
    }
    let sizes = [block_columns, thread_columns, t.slice()];
    let value = Side::of(nest, &nest.body, roles.right, "value", &roles.columns, &roles.reduction, sizes);
    sides.push(value.in_units(t.points));
    let (lanes, lanes_out) = vectors(nest, &parts, &mut sides, thread_columns)?;
    let buffers = declare(nest, profile, b, lanes)?;

    let mut point = Point::new(nest, profile, &buffers);
    point.set_position(b, &roles.batch, &Expr::workgroup(1));
    let first_row = b.let_("first_row", Expr::workgroup(0) * t.rows as i32);
    let lane = b.let_("lane", Expr::local(0));
    let y = b.let_("y", lane.clone().quotient(across));
    let x = b.let_("x", lane.clone().remainder(across));
    let (value, of_scores) = sides.split_last().ok_or(ScheduleError::Internal("no factors"))?;
    let origin: Expr = 0.into();
    let block = Block {
        first: [&first_row, &origin],
        at: [&y, &x],
        sizes: [t.rows, block_columns],
        threads: [down, across],
        lanes: [vector_of(t.thread_rows), value.lanes, lanes_out],
    };
    let threads = t.invocations();
    let float = |lanes: u32| Type::vector(DType::F32, lanes as u8);
    let arrays: Vec<usize> =
        of_scores.iter().map(|side| b.shared(side.name, float(side.lanes), side.words() as usize)).collect();
    let weights_pitch = t.rows / block.lanes[0];
    let weights = b.shared("weights", float(block.lanes[0]), (weights_pitch * t.points) as usize);
    let values = b.shared("values", float(value.lanes), value.words() as usize);
    let partial = b.shared("partial", float(1), (t.rows * across) as usize);
    let of_rows: Vec<Slots> =
        of_scores.iter().step_by(2).map(|side| side.slots(b, &point, &lane, threads, &first_row)).collect();
    let of_columns = value.slots(b, &point, &lane, threads, &origin);
    let mut row_points = Vec::new();
    for r in 0..t.thread_rows {
        let mut at = point.clone();
        at.native_exp = top.is_some();
        let row = block.row(r);
        let row = if rows.is_multiple_of(t.rows as usize) { row } else { row.binary(BinaryOp::Min, rows as i32 - 1) };
        at.set_position(b, &roles.rows, &row);
        row_points.push(at);
    }
    let mut state = State {
        nest,
        profile,
        parts: &parts,
        t,
        partial,
        at: [y.clone(), x.clone()],
        tops: Vec::new(),
        sums: Vec::new(),
        tile: zeros(b, t.thread_rows, thread_columns / value.lanes, value.lanes),
    };
    if top.is_some() {
        let least = Values { b, profile, lanes: 1 }.constant(Scalar::f32(f32::NEG_INFINITY))?;
        state.tops = (0..t.thread_rows).map(|_| b.var("top", &least)).collect();
    }
    for _ in sums {
        state.sums.push((0..t.thread_rows).map(|_| b.var("sum", Scalar::f32(0.0))).collect());
    }

    b.for_("first", 0, points as i32, t.points, |b, first| -> Result<(), ScheduleError> {
        let mut tiles = Vec::new();
        for (number, sides) in of_scores.chunks_exact(2).enumerate() {
            let (left, right) = (&sides[0], &sides[1]);
            let of_points = right.slots(b, &point, &lane, threads, &first);
            let tile = zeros(b, t.thread_rows, t.thread_points / right.lanes, right.lanes);
            let depth = nest.points(&of_inner[number]);
            b.for_("depth", 0, depth as i32, t.depth, |b, depth| -> Result<(), ScheduleError> {
                left.stage(b, &of_rows[number], arrays[2 * number], &depth)?;
                right.stage(b, &of_points, arrays[2 * number + 1], &depth)?;
                b.barrier();
                let staged = [
                    left.staged(arrays[2 * number], y.clone(), t.thread_rows, down),
                    right.staged(arrays[2 * number + 1], x.clone(), t.thread_points, across),
                ];
                multiply(b, &tile, &staged, t.depth);
                b.barrier();
                Ok(())
            })?;
            tiles.push((tile, right.lanes));
        }
        let weights_of = state.weights(b, &first, &row_points, &tiles, &point)?;
        for (point, column) in weights_of.iter().enumerate() {
            let lanes = tiles[0].1;
            let (c, within) = (point as u32 / lanes, point as u32 % lanes);
            let local = (x.clone() + (c * across) as i32) * lanes as i32 + within as i32;
            for (group, rows) in (0..).zip(column.chunks(block.lanes[0] as usize)) {
                let word = local.clone() * weights_pitch as i32 + &y + (group * down) as i32;
                b.store_shared(weights, word, Expr::vector(rows.to_vec()));
            }
        }
        b.for_("slice", 0, t.points as i32, t.slice(), |b, slice| -> Result<(), ScheduleError> {
            let start = b.let_("start", first.clone() + &slice);
            value.stage(b, &of_columns, values, &start)?;
            b.barrier();
            let left = Staged {
                array: weights,
                lanes: block.lanes[0],
                pitch: weights_pitch,
                first: slice * weights_pitch as i32 + &y,
                count: t.thread_rows,
                stride: down,
            };
            multiply(b, &state.tile, &[left, value.staged(values, x.clone(), thread_columns, across)], t.slice());
            b.barrier();
            Ok(())
        })
    })?;

    let known = state.totals(b)?;
    store_tile(b, roles, &point, &state.tile, &block, &|r, at| at.statistics.extend(known[r].iter().cloned()))?;
    Ok(builder.finish()?)
}

/// The state of an invocation's rows during the iteration over the points.
struct State<'a> {
    nest: &'a Nest,
    profile: &'a Profile,
    parts: &'a Attention,
    t: &'a Blocking,
    /// The array in workgroup memory with one value for each row and invocation across.
    partial: usize,
    /// The row and the column of the invocation in the workgroup.
    at: [Expr; 2],
    /// The running maxima, by row.
    tops: Vec<Expr>,
    /// The running sums of each sum statistic over the invocation's own points, by row.
    sums: Vec<Vec<Expr>>,
    /// The accumulators of the product.
    tile: Vec<Vec<Expr>>,
}

impl<'a> State<'a> {
    /// Computes the left operand at the invocation's rows, for each of its points, from the scores
    /// of the block whose first point is `first`. Updates the running maxima, rescales what has
    /// been summed, and adds to the sum statistics.
    fn weights(
        &mut self,
        b: &mut Builder,
        first: &Expr,
        rows: &[Point<'a>],
        tiles: &[(Vec<Vec<Expr>>, u32)],
        point: &Point<'a>,
    ) -> Result<Vec<Vec<Expr>>, ScheduleError> {
        let Attention { roles, top, sums, .. } = self.parts;
        let (nest, body) = (self.nest, &self.nest.body);
        let [_, _, count, _] = extents(nest, roles);
        let [_, across] = self.t.threads();
        let lanes = tiles[0].1;
        let mut points: Vec<Vec<Point>> = Vec::new();
        let mut inside = Vec::new();
        for number in 0..self.t.thread_points {
            let (c, within) = (number / lanes, number % lanes);
            let index = (self.at[1].clone() + (c * across) as i32) * lanes as i32 + within as i32;
            let index = b.let_("point", first + index);
            let is_whole = count.is_multiple_of(self.t.points as usize);
            inside.push(if is_whole { true.into() } else { b.let_("inside", index.clone().lt(count as i32)) });
            let index = if is_whole { index } else { index.binary(BinaryOp::Min, count as i32 - 1) };
            let mut of_point = point.clone();
            of_point.set_position(b, &roles.reduction, &index);
            let mut column = Vec::new();
            for (r, row) in rows.iter().enumerate() {
                let mut at = row.clone();
                at.share(b, &of_point, &roles.reduction);
                for (value, (inst, _)) in body.insts.iter().enumerate() {
                    if let Inst::Leaf(Leaf::Inner(inner)) = inst {
                        let score = &tiles[*inner].0[r][c as usize];
                        at.known[value] =
                            Some(if lanes == 1 { score.clone() } else { score.clone().lane(within as u8) });
                    }
                }
                column.push(at);
            }
            points.push(column);
        }
        if let &Some(top) = top {
            self.raise(b, top, &mut points, &inside)?;
        }
        for (value, sums) in sums.iter().zip(&self.sums) {
            let Inst::Leaf(Leaf::Statistic(_, of)) = body.insts[*value].0 else { continue };
            for (r, sum) in sums.iter().enumerate() {
                let mut all = sum.clone();
                for (column, inside) in points.iter().zip(&inside) {
                    all = all + self.value(b, &column[r], of, inside)?;
                }
                b.assign(sum, all);
            }
        }
        let mut factors = Vec::new();
        for (column, inside) in points.iter().zip(&inside) {
            let column = column.iter().map(|at| self.value(b, at, roles.left, inside));
            factors.push(column.collect::<Result<Vec<Expr>, ScheduleError>>()?);
        }
        Ok(factors)
    }

    /// Updates the running maxima with the block's scores, and rescales the sums and the
    /// accumulators.
    fn raise(
        &mut self,
        b: &mut Builder,
        top: Value,
        points: &mut [Vec<Point>],
        inside: &[Expr],
    ) -> Result<(), ScheduleError> {
        let Inst::Leaf(Leaf::Statistic(_, of)) = self.nest.body.insts[top].0 else {
            return Err(ScheduleError::Internal("a top of nothing"));
        };
        let least = Values { b, profile: self.profile, lanes: 1 }.constant(Scalar::f32(f32::NEG_INFINITY))?;
        for r in 0..self.tops.len() {
            let mut most = least.clone();
            for (column, inside) in points.iter_mut().zip(inside) {
                let at = &mut column[r];
                let value = at.values(b, &self.nest.body, &[of], None)?[of].clone();
                at.known[of] = Some(value.clone());
                let value = if inside.as_bool() == Some(true) { value } else { inside.clone().select(value, &least) };
                most = b.let_("most", most.binary(BinaryOp::Max, value));
            }
            b.store_shared(self.partial, self.place(r as u32, None), most);
        }
        b.barrier();
        let [_, across] = self.t.threads();
        let higher: Vec<Expr> = self.tops.iter().map(|top| b.var("higher", top)).collect();
        b.for_("other", 0, across as i32, 1, |b, other| {
            for (r, higher) in higher.iter().enumerate() {
                let of_other = Expr::load_shared(self.partial, self.place(r as u32, Some(&other)));
                b.assign(higher, higher.clone().binary(BinaryOp::Max, of_other));
            }
        });
        for (r, higher) in higher.into_iter().enumerate() {
            let [old, new] = [&self.tops[r], &higher]
                .map(|top| b.let_("finite", top.clone().binary(BinaryOp::Max, Scalar::f32(LOWEST))));
            let less = b.let_("scale", (old - &new).unary(UnaryOp::Exp));
            b.assign(&self.tops[r], &higher);
            points.iter_mut().for_each(|column| column[r].known[top] = Some(new.clone()));
            self.sums.iter().for_each(|sums| b.assign(&sums[r], sums[r].clone() * &less));
            for sum in &self.tile[r] {
                let lanes = b.ty(sum).map_or(1, |ty| ty.lanes);
                b.assign(sum, sum.clone() * less.clone().splat(lanes));
            }
        }
        Ok(())
    }

    /// Computes a value of the body, or 0 if the point is not `inside`.
    fn value(&self, b: &mut Builder, at: &Point, value: Value, inside: &Expr) -> Result<Expr, ScheduleError> {
        let code = at.values(b, &self.nest.body, &[value], None)?[value].clone();
        let is_always = inside.as_bool() == Some(true);
        Ok(if is_always { code } else { b.let_("counted", inside.clone().select(code, Scalar::f32(0.0))) })
    }

    /// Combines the statistics of each row, so that every invocation across has them.
    fn totals(&self, b: &mut Builder) -> Result<Vec<Vec<(Value, Expr)>>, ScheduleError> {
        let [_, across] = self.t.threads();
        let mut known = vec![Vec::new(); self.t.thread_rows as usize];
        if let Some(top) = self.parts.top {
            self.tops.iter().enumerate().for_each(|(r, highest)| known[r].push((top, highest.clone())));
        }
        for (&value, sums) in self.parts.sums.iter().zip(&self.sums) {
            for (r, sum) in sums.iter().enumerate() {
                b.store_shared(self.partial, self.place(r as u32, None), sum);
            }
            b.barrier();
            let totals: Vec<Expr> = sums.iter().map(|_| b.var("total", Scalar::f32(0.0))).collect();
            b.for_("other", 0, across as i32, 1, |b, other| {
                for (r, total) in totals.iter().enumerate() {
                    let of_other = Expr::load_shared(self.partial, self.place(r as u32, Some(&other)));
                    b.assign(total, total.clone() + of_other);
                }
            });
            b.barrier();
            totals.into_iter().enumerate().for_each(|(r, total)| known[r].push((value, total)));
        }
        Ok(known)
    }

    /// Returns the address of the partial value of row `r` of the tile: the invocation's own, or
    /// that of another invocation across.
    fn place(&self, r: u32, other: Option<&Expr>) -> Expr {
        let [down, across] = self.t.threads();
        let lanes = vector_of(self.t.thread_rows);
        let row = (self.at[0].clone() + (r / lanes * down) as i32) * lanes as i32 + (r % lanes) as i32;
        row * across as i32 + other.unwrap_or(&self.at[1])
    }
}

/// Declares a tile of zeros in registers.
fn zeros(b: &mut Builder, rows: u32, vectors: u32, lanes: u32) -> Vec<Vec<Expr>> {
    let zero = Expr::from(Scalar::f32(0.0)).splat(lanes as u8);
    (0..rows).map(|r| (0..vectors).map(|c| b.var(&format!("acc_{r}_{c}"), &zero)).collect()).collect()
}

/// Chooses the lanes of each buffer, and the number of columns that the epilogue computes at once.
/// Sets how each operand is read: in vectors, as far as all reads of a buffer agree.
fn vectors(
    nest: &Nest,
    parts: &Attention,
    sides: &mut [Side],
    thread_columns: u32,
) -> Result<(Vec<u8>, u32), ScheduleError> {
    let width = vector_of(thread_columns);
    let single = [singly(nest.epilogue_loads()), stores(nest, 1)].concat();
    let of_left = singly(loads_of(&nest.body, parts.roles.left));
    let of_sums = parts.sums.iter().flat_map(|&sum| singly(loads_of(&nest.body, sum)));
    let mut agreed: Vec<Wanted> = vec![of_left.into_iter().chain(of_sums).collect()];
    let mut take = |wanted: Option<Wanted>| {
        let wanted = wanted?;
        agree(nest, agreed.iter().chain([&wanted]))?;
        agreed.push(wanted);
        Some(())
    };
    let mut in_vectors = Vec::new();
    for side in sides.iter() {
        let vector = take(side.wanted()).is_some();
        in_vectors.push(vector);
        if !vector {
            take(Some(side.singly()));
        }
    }
    let together = take(stored_together(nest, &parts.roles, width)).is_some();
    if !together {
        take(Some(single.clone()));
    }
    if let Some(lanes) = agree(nest, &agreed).filter(|_| agreed.len() == sides.len() + 2) {
        sides.iter_mut().zip(in_vectors).for_each(|(side, vector)| side.set_vector(vector));
        return Ok((lanes, if together { width } else { 1 }));
    }
    // All reads of a buffer must agree: if any disagree, no buffer is a vector buffer.
    Ok((vec![1; nest.operands.len() + nest.outputs.len()], 1))
}
