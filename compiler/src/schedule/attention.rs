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

mod blocks;
mod rows;

use crate::kernel::{Builder, Expr, Kernel};
use crate::nest::{Attention, Nest, loads_of};
use crate::profile::Profile;
use crate::scalar::BinaryOp;

use super::contraction::{Block, extents, store_tile, stored_together};
use super::lanes::{Wanted, agree, singly, stores};
use super::point::{Point, declare};
use super::staging::{Side, most_numbers, vector_of};
use super::{Blocking, ScheduleError, grid_of};
use blocks::Blocks;
use rows::Rows;

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
        let left = most_numbers(self.rows, self.thread_rows, self.depth);
        let right = most_numbers(self.points, self.thread_points, self.depth);
        let of_scores = (left + right) * scores as u32;
        let own = self.thread_columns(columns);
        let of_columns = most_numbers(own * across, own, self.slice());
        4 * (of_scores + of_columns + self.rows * self.points + self.rows * across)
    }

    /// Returns how many points of the right operand are in workgroup memory at a time.
    fn slice(&self) -> u32 {
        self.depth.min(self.points)
    }
}

/// Writes the kernel of an attention nest.
pub(super) fn attention(
    nest: &Nest,
    profile: &Profile,
    t: &Blocking,
) -> Result<Kernel, ScheduleError> {
    let parts = nest.attention().ok_or(ScheduleError::Internal("no attention"))?;
    let roles = &parts.roles;
    let [rows, columns, points, batch] = extents(nest, roles);
    let [down, across] = t.threads();
    let thread_columns = t.thread_columns(columns);
    let grid = grid_of([rows.div_ceil(t.rows as usize), batch, 1], profile)?;
    let mut builder = Builder::new(&nest.name, [t.invocations(), 1, 1], grid);
    let b = &mut builder;

    let of_inner: Vec<Vec<usize>> =
        nest.inner.iter().map(|inner| inner.axes.clone().collect()).collect();
    let mut sides = operands(nest, &parts, t, &of_inner);
    let (lanes, lanes_out) = vectors(nest, &parts, &mut sides, thread_columns)?;
    let buffers = declare(nest, profile, b, lanes)?;
    let mut point = Point::new(nest, profile, &buffers);
    point.set_position(b, &roles.batch, &Expr::workgroup(1));
    let first_row = b.let_("first_row", Expr::workgroup(0) * t.rows as i32);
    let lane = b.let_("lane", Expr::local(0));
    let y = b.let_("y", lane.clone().quotient(across));
    let x = b.let_("x", lane.clone().remainder(across));
    let value = sides.pop().ok_or(ScheduleError::Internal("no factors"))?;
    let origin: Expr = 0.into();
    let block = Block {
        first: [&first_row, &origin],
        at: [&y, &x],
        sizes: [t.rows, thread_columns * across],
        threads: [down, across],
        lanes: [vector_of(t.thread_rows), value.lanes, lanes_out],
    };
    let blocks = Blocks::declare(b, t, &point, &block, &lane, sides, value);
    let row_points = row_points(b, &parts, t, &point, &block);
    let mut rows = Rows::declare(b, &parts, t, &blocks, &point)?;
    b.for_("first", 0, points as i32, t.points, |b, first| -> Result<(), ScheduleError> {
        let mut tiles = Vec::new();
        for (number, axes) in of_inner.iter().enumerate() {
            tiles.push(blocks.scores(b, number, nest.points(axes), &first)?);
        }
        let weights = rows.weights(b, &first, &row_points, &tiles, &point)?;
        blocks.store_weights(b, &weights, tiles[0].1);
        blocks.add_products(b, &rows.tile, &first)
    })?;

    let known = rows.totals(b)?;
    store_tile(b, roles, &point, &rows.tile, &block, &|r, at| {
        at.statistics.extend(known[r].iter().cloned())
    })?;
    Ok(builder.finish()?)
}

/// Returns the operands of each score, left and right, then the right operand of the product. The
/// inner sums have the axes `of_inner`.
fn operands<'a>(
    nest: &'a Nest,
    parts: &'a Attention,
    t: &Blocking,
    of_inner: &'a [Vec<usize>],
) -> Vec<Side<'a>> {
    let Attention { roles, scores, .. } = parts;
    let mut sides = Vec::new();
    for ((score, inner), axes) in scores.iter().zip(&nest.inner).zip(of_inner) {
        let side = |factor, name, own, sizes: [u32; 2]| {
            Side::of(nest, &inner.body, factor, name, own, axes, [sizes[0], sizes[1], t.depth])
        };
        sides.push(side(score.left, "left", &roles.rows, [t.rows, t.thread_rows]));
        sides.push(side(score.right, "right", &roles.reduction, [t.points, t.thread_points]));
    }
    let [_, columns, ..] = extents(nest, roles);
    let ([_, across], thread_columns) = (t.threads(), t.thread_columns(columns));
    let sizes = [thread_columns * across, thread_columns, t.slice()];
    let value =
        Side::of(nest, &nest.body, roles.right, "value", &roles.columns, &roles.reduction, sizes);
    sides.push(value.in_units(t.points));
    sides.into_iter().map(Side::without_windows).collect()
}

/// Returns the points of the invocation's rows.
fn row_points<'a>(
    b: &mut Builder,
    parts: &Attention,
    t: &Blocking,
    point: &Point<'a>,
    block: &Block,
) -> Vec<Point<'a>> {
    let [rows, ..] = extents(point.nest, &parts.roles);
    let mut all = Vec::new();
    for r in 0..t.thread_rows {
        let mut at = point.clone();
        at.native_exp = parts.top.is_some();
        let row = block.row(r);
        let row = if rows.is_multiple_of(t.rows as usize) {
            row
        } else {
            row.binary(BinaryOp::Min, rows as i32 - 1)
        };
        at.set_position(b, &parts.roles.rows, &row);
        all.push(at);
    }
    all
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
