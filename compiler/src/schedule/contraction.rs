//! The contraction template: a tiled matrix product.
//!
//! A workgroup computes a block of rows and columns. For each block of the reduction, its invocations stage both factors
//! in workgroup memory (evaluating whatever was fused into them, and zeros where guards fail), then each multiplies its
//! own register tile. An invocation's rows and columns are spread at strides of the workgroup's, so that neighbours read
//! neighbouring words of workgroup memory and write neighbouring places.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr, Kernel, Type};
use crate::nest::{Leaf, Load, Nest, Roles};
use crate::profile::Profile;
use crate::scalar::{Inst, Value};

use super::point::{Point, declare, operands};
use super::values::{Unsupported, Values, compute_type};
use super::{ScheduleError, Tiling};

/// The kernel of a nest with these roles.
pub(super) fn contraction(
    nest: &Nest,
    profile: &Profile,
    roles: &Roles,
    tiling: &Tiling,
) -> Result<Kernel, ScheduleError> {
    let t = *tiling;
    let [rows, columns, depth, batch] = extents(nest, roles);
    let (across, down) = (t.block_columns / t.thread_columns, t.block_rows / t.thread_rows);
    let blocks = [columns.div_ceil(t.block_columns as usize), rows.div_ceil(t.block_rows as usize), batch];
    let mut grid = [0; 3];
    for (axis, &count) in blocks.iter().enumerate() {
        let fits = u32::try_from(count).ok().filter(|&c| c <= profile.max_grid);
        grid[axis] = fits.ok_or(ScheduleError::TooManyPlaces)?;
    }
    let mut builder = Builder::new(&nest.name, [across, down, 1], grid);
    let b = &mut builder;
    let left = Side::new(nest, roles, true, t.block_rows, t.block_reduction);
    let right = Side::new(nest, roles, false, t.block_columns, t.block_reduction);
    let mut lanes = vec![1; nest.operands.len() + nest.outputs.len()];
    let threads = across * down;
    for side in [&left, &right] {
        if let Some(load) = side.vector_load(nest, threads) {
            lanes[load.operand] = 4;
        }
    }
    let buffers = declare(nest, profile, b, lanes)?;
    let dtype = compute_type(nest.body.dtype(roles.left), profile)
        .ok_or_else(|| Unsupported { what: format!("values of type {}", nest.body.dtype(roles.left)) })?;
    let [left_tile, right_tile] = [("left", &left), ("right", &right)]
        .map(|(name, side)| b.shared(name, Type::scalar(dtype), (side.pitch() * t.block_reduction) as usize));

    let mut point = Point::new(nest, profile, &buffers, 1);
    point.set_position(b, &roles.batch, &Expr::workgroup(2));
    let first_row = b.let_("first_row", Expr::workgroup(1) * t.block_rows as i32);
    let first_column = b.let_("first_column", Expr::workgroup(0) * t.block_columns as i32);
    let zero = Values { b, profile, lanes: 1 }.constant(Scalar::zero(nest.body.dtype(roles.left)))?;
    let tile: Vec<Vec<Expr>> = (0..t.thread_rows)
        .map(|r| (0..t.thread_columns).map(|c| b.var(&format!("acc_{r}_{c}"), &zero)).collect())
        .collect();

    let lane = b.let_("lane", Expr::local(1) * across as i32 + Expr::local(0));
    b.for_("first", 0, depth as i32, t.block_reduction, |b, first| -> Result<(), ScheduleError> {
        left.stage(b, &point, left_tile, &lane, threads, &first_row, rows, &first, depth)?;
        right.stage(b, &point, right_tile, &lane, threads, &first_column, columns, &first, depth)?;
        b.barrier();
        multiply(b, &t, &tile, dtype, (left_tile, &left), (right_tile, &right), across, down);
        b.barrier();
        Ok(())
    })?;

    for (r, tile_row) in tile.iter().enumerate() {
        let row = b.let_("row", first_row.clone() + Expr::local(1) + (r as u32 * down) as i32);
        b.if_(below(&row, rows, t.block_rows), |b| -> Result<(), ScheduleError> {
            let mut of_row = fork(&point);
            of_row.set_position(b, &roles.rows, &row);
            for (c, value) in tile_row.iter().enumerate() {
                let column = b.let_("column", first_column.clone() + Expr::local(0) + (c as u32 * across) as i32);
                b.if_(below(&column, columns, t.block_columns), |b| -> Result<(), ScheduleError> {
                    let mut at = fork(&of_row);
                    at.set_position(b, &roles.columns, &column);
                    let results = at.program(b, &nest.epilogue, Some((value, &true.into())))?;
                    let place = b.let_("place", at.affine(&nest.place()));
                    at.store(b, &place, results);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
    }
    Ok(builder.finish()?)
}

/// Rows, columns, reduction points and batch of a nest with these roles.
pub(super) fn extents(nest: &Nest, roles: &Roles) -> [usize; 4] {
    [&roles.rows, &roles.columns, &roles.reduction, &roles.batch]
        .map(|axes| axes.iter().map(|&a| nest.axes[a].extent).product())
}

/// Columns that padding adds to a row of a staged tile, so that a walk down it does not stay in one memory bank.
const PADDING: u32 = 1;

/// Bytes of workgroup memory that a tiling takes.
pub(super) fn shared_bytes(tiling: &Tiling, element: usize) -> u32 {
    (tiling.block_rows + tiling.block_columns + 2 * PADDING) * tiling.block_reduction * element as u32
}

/// `index < count`, which needs no test where blocks divide the extent.
fn below(index: &Expr, count: usize, block: u32) -> Expr {
    if count.is_multiple_of(block as usize) { true.into() } else { index.clone().lt(count as i32) }
}

fn fork<'a>(point: &Point<'a>) -> Point<'a> {
    Point { variables: point.variables.clone(), ..Point::new(point.nest, point.profile, point.buffers, point.lanes) }
}

/// One factor: how its block is staged in workgroup memory, as `[reduction][row or column]`.
struct Side<'a> {
    factor: Value,
    /// Its own free axes: rows or columns.
    axes: &'a [usize],
    reduction: &'a [usize],
    guards: &'a [Affine],
    block: u32,
    block_reduction: u32,
    /// Neighbouring invocations read along the reduction, rather than along the rows or columns.
    along_reduction: bool,
}

impl<'a> Side<'a> {
    fn new(nest: &Nest, roles: &'a Roles, left: bool, block: u32, block_reduction: u32) -> Side<'a> {
        let (factor, axes, guards) = match left {
            true => (roles.left, &roles.rows, &roles.left_guards),
            false => (roles.right, &roles.columns, &roles.right_guards),
        };
        let innermost = roles.reduction.last().copied();
        let along_reduction = innermost.is_some_and(|axis| {
            loads(nest, factor).any(|load| load.offset.coefficient(axis) == 1)
                && !loads(nest, factor).any(|load| axes.last().is_some_and(|&a| load.offset.coefficient(a) == 1))
        });
        Side { factor, axes, reduction: &roles.reduction, guards, block, block_reduction, along_reduction }
    }

    /// Words between a staged tile's rows.
    fn pitch(&self) -> u32 {
        self.block + PADDING
    }

    /// The factor's load, where four neighbours along the staging direction can be read as one vector.
    fn vector_load<'n>(&self, nest: &'n Nest, threads: u32) -> Option<&'n Load> {
        let Inst::Leaf(Leaf::Load(load)) = &nest.body.insts[self.factor].0 else { return None };
        let (axis, block) = match self.along_reduction {
            true => (*self.reduction.last()?, self.block_reduction),
            false => (*self.axes.last()?, self.block),
        };
        let multiple_of_4 = |v: usize, c: i64| v == axis || c % 4 == 0;
        let suits = load.dynamic.is_empty()
            && load.when.is_empty()
            && self.guards.is_empty()
            && load.offset.coefficient(axis) == 1
            && load.offset.terms().iter().all(|&(v, c)| multiple_of_4(v, c))
            && load.offset.offset() % 4 == 0
            && nest.axes[axis].extent.is_multiple_of(4)
            && nest.operands[load.operand].elements().is_multiple_of(4)
            && block.is_multiple_of(4)
            && (self.block * self.block_reduction).is_multiple_of(4 * threads)
            // A buffer has one type in a kernel.
            && nest.loads().filter(|other| other.operand == load.operand).count() == 1;
        suits.then_some(load)
    }

    /// Stages the block whose first row or column is `start` (of `count`) and first reduction point `first` (of `depth`).
    #[allow(clippy::too_many_arguments)] // the two ranges and who reads them
    fn stage(
        &self,
        b: &mut Builder,
        point: &Point,
        tile: usize,
        lane: &Expr,
        threads: u32,
        start: &Expr,
        count: usize,
        first: &Expr,
        depth: usize,
    ) -> Result<(), ScheduleError> {
        let nest = point.nest;
        let width = if self.vector_load(nest, threads).is_some() { 4 } else { 1 };
        let elements = self.block * self.block_reduction / width;
        b.for_("slot", lane, elements as i32, threads, |b, slot| -> Result<(), ScheduleError> {
            // Neighbouring slots are neighbours along the direction of reading.
            let inner_block = if self.along_reduction { self.block_reduction } else { self.block };
            let inner = b.let_("inner", slot.clone().remainder(inner_block / width) * width as i32);
            let outer = b.let_("outer", slot.quotient(inner_block / width));
            let (own, k) = if self.along_reduction { (outer, inner) } else { (inner, outer) };
            let index = b.let_("index", start + &own);
            let reduced = b.let_("reduced", first + &k);
            let inside = below(&index, count, self.block).and(below(&reduced, depth, self.block_reduction));
            let word = b.let_("word", k * self.pitch() as i32 + own);
            let step = if self.along_reduction { self.pitch() as i32 } else { 1 };
            let dtype = nest.body.dtype(self.factor);
            let zero = Values { b, profile: point.profile, lanes: 1 }.constant(Scalar::zero(dtype))?;
            let zero = zero.splat(width as u8);
            let known = inside.as_bool() == Some(true) && self.guards.is_empty();
            let staged = if known { None } else { Some(b.var("staged", &zero)) };
            let read = |b: &mut Builder| -> Result<Expr, ScheduleError> {
                let mut at = fork(point);
                at.set_position(b, self.axes, &index);
                at.set_position(b, self.reduction, &reduced);
                if width == 4 {
                    let load = self.vector_load(nest, threads).ok_or(ScheduleError::Internal("a lost load"))?;
                    return Ok(b.let_("four", Expr::load(load.operand, at.affine(&load.offset).quotient(4))));
                }
                let holds = at.holds(self.guards);
                if holds.as_bool() == Some(true) {
                    return Ok(at.values(b, &nest.body, &[self.factor], None)?[self.factor].clone());
                }
                let value = b.var("value", &zero);
                b.if_(holds, |b| -> Result<(), ScheduleError> {
                    let factor = at.values(b, &nest.body, &[self.factor], None)?[self.factor].clone();
                    b.assign(&value, factor);
                    Ok(())
                })?;
                Ok(value)
            };
            let value = match staged {
                None => read(b)?,
                Some(staged) => {
                    b.if_(inside, |b| -> Result<(), ScheduleError> {
                        let value = read(b)?;
                        b.assign(&staged, value);
                        Ok(())
                    })?;
                    staged
                }
            };
            for part in 0..width {
                let value = if width == 1 { value.clone() } else { value.clone().lane(part as u8) };
                b.store_shared(tile, word.clone() + part as i32 * step, value);
            }
            Ok(())
        })
    }
}

/// The loads that a value of the body needs.
fn loads(nest: &Nest, value: Value) -> impl Iterator<Item = &Load> {
    let mut needed = vec![false; nest.body.insts.len()];
    needed[value] = true;
    for v in (0..needed.len()).rev() {
        if needed[v] {
            operands(&nest.body.insts[v].0).into_iter().for_each(|o| needed[o] = true);
        }
    }
    nest.body.insts.iter().enumerate().filter_map(move |(v, (inst, _))| match inst {
        Inst::Leaf(Leaf::Load(load)) if needed[v] => Some(load),
        _ => None,
    })
}

/// Multiplies the staged blocks into the register tile.
#[allow(clippy::too_many_arguments)] // two tiles, and the shape of the workgroup
fn multiply(
    b: &mut Builder,
    t: &Tiling,
    tile: &[Vec<Expr>],
    dtype: DType,
    (left_tile, left): (usize, &Side),
    (right_tile, right): (usize, &Side),
    across: u32,
    down: u32,
) {
    // Enough independent multiply-adds between turns of the loop.
    let unroll = (64 / (t.thread_rows * t.thread_columns)).clamp(1, t.block_reduction);
    b.for_("k", 0, t.block_reduction as i32, unroll, |b, k| {
        for turn in 0..unroll as i32 {
            let k = b.let_("step", k.clone() + turn);
            let row = k.clone() * left.pitch() as i32 + Expr::local(1);
            let column = k * right.pitch() as i32 + Expr::local(0);
            let read = |b: &mut Builder, name: &str, array: usize, first: &Expr, count: u32, stride: u32| {
                (0..count)
                    .map(|i| {
                        b.let_(&format!("{name}{i}"), Expr::load_shared(array, first.clone() + (i * stride) as i32))
                    })
                    .collect::<Vec<_>>()
            };
            let rows = read(b, "l", left_tile, &row, t.thread_rows, down);
            let columns = read(b, "r", right_tile, &column, t.thread_columns, across);
            for (x, accumulators) in rows.iter().zip(tile) {
                for (y, accumulator) in columns.iter().zip(accumulators) {
                    let sum = match dtype.is_float() {
                        true => x.clone().fma(y, accumulator),
                        false => accumulator + x.clone() * y,
                    };
                    b.assign(accumulator, sum);
                }
            }
        }
    });
}
