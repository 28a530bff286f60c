//! The epilogue of a tiled product with row statistics. A workgroup's block has all columns of its
//! rows, so the epilogue's values stay in registers from one statistic to the next, and only
//! finished rows are written to memory.
//!
//! Example: `Z = X · W + R` and the layer normalization of Z's rows are one kernel, which does not
//! write Z.

use std::collections::BTreeMap;

use crate::dense::Dense;
use crate::dtype::DType;
use crate::kernel::{Builder, Expr};
use crate::nest::{Leaf, Nest, Roles};
use crate::profile::Profile;
use crate::scalar::{BinaryOp, Inst, Value};

use super::contraction::{Block, below, extents};
use super::point::Point;
use super::statistic::Statistic;
use super::values::Values;
use super::{ScheduleError, Tiling};

/// Returns whether the tiles of a product can have whole rows: the product's columns must be those
/// of the statistics.
pub(super) fn suits(nest: &Nest, roles: &Roles) -> bool {
    nest.aggregates_into_rows() && nest.columns().eq(roles.columns.iter().copied())
}

/// Returns the bytes of workgroup memory for the statistics: one array for each of their types.
pub(super) fn shared_bytes(nest: &Nest, profile: &Profile, t: &Tiling) -> u32 {
    if !nest.aggregates_into_rows() {
        return 0;
    }
    let statistics = nest.epilogue.insts.iter().filter_map(|(inst, dtype)| match inst {
        Inst::Leaf(Leaf::Statistic(aggregation, _)) => {
            Some(Statistic { profile, aggregation: *aggregation, dtype: *dtype })
        }
        _ => None,
    });
    let types: BTreeMap<DType, usize> =
        statistics.map(|s| (s.dtype, s.stored().map_or(0, |stored| stored.size()))).collect();
    count(t.block_rows, t.threads().0) * types.values().sum::<usize>() as u32
}

/// Returns the number of partial aggregates of a statistic in workgroup memory: one for each row
/// and each invocation that shares the row.
fn count(rows: u32, across: u32) -> u32 {
    rows * across
}

/// A place of an invocation's tile, or a vector of adjacent columns.
struct TilePlace<'a> {
    /// The row within the tile.
    row: usize,
    point: Point<'a>,
    column: Expr,
    /// Whether the column exists. If not, `point` is at the last column.
    in_row: Expr,
    /// Whether the row exists, too. If not, `point` is in the last row.
    exists: Expr,
    /// The product, which the epilogue reads as its accumulator.
    sum: Expr,
}

/// Runs the epilogue on an invocation's tile of sums, instruction by instruction, and stores its
/// results. All invocations of a workgroup must reach this code, which has barriers.
pub(super) fn store_rows(
    b: &mut Builder,
    roles: &Roles,
    point: &Point,
    tile: &[Vec<Expr>],
    block: &Block,
) -> Result<(), ScheduleError> {
    let (nest, program) = (point.nest, &point.nest.epilogue);
    let places = places(b, roles, point, tile, block)?;
    let lanes = block.lanes[2] as u8;
    let dependencies = nest.dependencies(program);
    let mut arrays: Vec<(DType, usize)> = Vec::new();
    // For each value of the epilogue: its expression at each place.
    let mut done: Dense<Value, Vec<Expr>> = Dense::with_capacity(program.insts.len());
    for (value, (inst, dtype)) in program.insts.enumerate() {
        if let Inst::Leaf(Leaf::Statistic(aggregation, a)) = inst {
            let statistic =
                Statistic { profile: point.profile, aggregation: *aggregation, dtype: *dtype };
            let array = match arrays.iter().find(|(of, _)| of == dtype) {
                Some((_, array)) => {
                    // The barrier orders the array's reads before its next writes.
                    b.barrier();
                    *array
                }
                None => {
                    let array =
                        statistic.declare(b, count(block.sizes[0], block.threads[1]) as usize)?;
                    arrays.push((*dtype, array));
                    array
                }
            };
            let mut own = Vec::with_capacity(tile.len());
            for row in 0..tile.len() {
                let of_row = places.iter().zip(&done[*a]).filter(|(place, _)| place.row == row);
                let candidates = of_row.map(|(place, value)| (value.clone(), place.in_row.clone()));
                own.push(statistic.of(b, candidates, lanes)?);
            }
            let rows = whole(b, &statistic, array, own, block)?;
            done.push(places.iter().map(|place| rows[place.row].clone().splat(lanes)).collect());
            continue;
        }
        let [of_rows, of_columns] = [&roles.rows, &roles.columns]
            .map(|axes| axes.iter().any(|&axis| dependencies[value][axis]));
        let mut own: Vec<Expr> = Vec::with_capacity(places.len());
        for (number, place) in places.iter().enumerate() {
            // A row-invariant or column-invariant value is computed once.
            let same = places[..number].iter().position(|other| {
                (!of_rows || other.row == place.row)
                    && (!of_columns || other.column == place.column)
            });
            let code = match same {
                Some(other) => own[other].clone(),
                None => {
                    let known = |v: Value| done[v][number].clone();
                    let written = Expr::from(true).splat(lanes);
                    let accumulated = Some((&place.sum, &written));
                    let code = place.point.instruction(b, program, value, &known, accumulated)?;
                    b.let_(&format!("v{value}"), code)
                }
            };
            own.push(code);
        }
        done.push(own);
    }
    for (number, place) in places.iter().enumerate() {
        let results = program.results.iter().map(|&result| done[result][number].clone()).collect();
        b.if_(place.exists.clone(), |b| {
            let at = b.let_("place", place.point.affine(&nest.place()));
            place.point.store_in_row(b, &at, &place.column, results);
        });
    }
    Ok(())
}

/// Returns the places of an invocation's tile, row by row.
fn places<'a>(
    b: &mut Builder,
    roles: &Roles,
    point: &Point<'a>,
    tile: &[Vec<Expr>],
    block: &Block,
) -> Result<Vec<TilePlace<'a>>, ScheduleError> {
    let (nest, profile) = (point.nest, point.profile);
    let [rows, columns, ..] = extents(nest, roles);
    let [_, lanes, lanes_out] = block.lanes;
    let dtype = nest.body.dtype(nest.body.results[0]);
    let last = |index: Expr, count: usize, exists: &Expr, width: u32| match exists.as_bool() {
        Some(true) => index,
        _ => index.binary(BinaryOp::Min, count as i32 - width as i32),
    };
    // All rows have the same columns.
    let mut of_columns = Vec::new();
    for vector in 0..tile.first().map_or(0, Vec::len) {
        let first = block.column(vector as u32);
        for part in (0..lanes).step_by(lanes_out as usize) {
            let column = b.let_("column", first.clone() + part as i32);
            let exists = below(&column, columns, block.sizes[1]);
            let column = last(column, columns, &exists, lanes_out);
            of_columns.push((vector, part, b.let_("column", column), b.let_("in_row", exists)));
        }
    }
    let mut all = Vec::new();
    for (number, sums) in tile.iter().enumerate() {
        let row = b.let_("row", block.row(number as u32));
        let is_row = below(&row, rows, block.sizes[0]);
        let row = last(row, rows, &is_row, 1);
        let mut of_row = point.clone();
        of_row.set_position(b, &roles.rows, &row);
        for (vector, part, column, in_row) in &of_columns {
            let sum = if lanes_out == lanes {
                sums[*vector].clone()
            } else {
                sums[*vector].clone().lane(*part as u8)
            };
            let mut at = of_row.clone();
            at.set_position(b, &roles.columns, column);
            if let Some(&axis) = roles.columns.last() {
                at = at.vector(axis, lanes_out as u8);
            }
            let sum = Values { b, profile, lanes: at.lanes }.narrow(dtype, sum);
            let exists = is_row.clone().and(in_row);
            all.push(TilePlace {
                row: number,
                point: at,
                column: column.clone(),
                in_row: in_row.clone(),
                exists,
                sum,
            });
        }
    }
    Ok(all)
}

/// Combines the `own` aggregates of an invocation's rows with those of the other invocations that
/// share them.
fn whole(
    b: &mut Builder,
    statistic: &Statistic,
    array: usize,
    own: Vec<Expr>,
    block: &Block,
) -> Result<Vec<Expr>, ScheduleError> {
    let [_, across] = block.threads;
    let [y, x] = block.at;
    let rows: Vec<Expr> = (0..own.len())
        .map(|row| (y.clone() * own.len() as i32 + row as i32) * across as i32)
        .collect();
    let places: Vec<Expr> = rows.iter().map(|row| b.let_("at", row.clone() + x)).collect();
    for (place, own) in places.iter().zip(own) {
        statistic.write(b, array, place.clone(), own);
    }
    statistic.tree(b, array, &places, x, across)?;
    let whole = rows.into_iter().map(|row| {
        let whole = statistic.read(b, array, row);
        b.let_("statistic", whole)
    });
    Ok(whole.collect())
}
