//! The contraction template for matrix units: the tiled product of `contraction.rs` with another
//! inner loop.
//!
//! Both operands are staged in workgroup memory in the unit's operand type: f16 if the operands are
//! rounded to f16. Each subgroup loads matrices from there, and accumulates their products in f32.
//! No invocation can address an element of an accumulator. The epilogue therefore reads the sums
//! through workgroup memory, one line of matrices at a time, and each invocation computes its share
//! of the places.
//!
//! The subgroups' matrices alternate down and across, so that a line of matrices covers whole rows
//! of the block.

use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Builtin, Expr, Kernel, Place, Role, Type};
use crate::nest::{Nest, Roles};
use crate::profile::{MatrixUnit, Profile};
use crate::scalar::{Inst, Value};

use super::contraction::{Block, Factor, extents, first_places, over_blocks, store_tile, vectors};
use super::point::{Point, declare};
use super::staging::{Side, vector_of};
use super::{MatrixTiling, ScheduleError, grid_of};

/// Columns that an invocation computes together in the epilogue.
const COLUMNS: u32 = 4;

/// Padding of a row of sums in workgroup memory, in f32 elements.
const PADDING: u32 = 4;

impl MatrixTiling {
    /// Returns the number of invocations in a workgroup.
    pub fn invocations(&self) -> u32 {
        self.down * self.across * self.unit.subgroup
    }

    /// Returns the number of matrices of a subgroup, down and across.
    pub(super) fn matrices(&self) -> [u32; 2] {
        [self.block_rows / (self.down * self.unit.size), self.block_columns / (self.across * self.unit.size)]
    }

    /// Returns the rows of the block whose sums are in workgroup memory at a time.
    fn line(&self) -> u32 {
        self.down * self.unit.size
    }

    /// Returns the number of invocations in the epilogue, down and across.
    fn threads(&self) -> [u32; 2] {
        let across = self.block_columns / COLUMNS;
        [self.invocations() / across, across]
    }

    /// Returns whether blocks, matrices and subgroups divide each other as the kernel needs it.
    pub(super) fn is_whole(&self) -> bool {
        let (size, [down, across]) = (self.unit.size, self.threads());
        self.block_rows.is_multiple_of(self.line())
            && self.block_columns.is_multiple_of(self.across * size)
            && self.block_reduction.is_multiple_of(size)
            && self.invocations() == down * across
            && self.line().is_multiple_of(down.max(1))
    }

    /// Returns an upper bound of the workgroup memory in bytes.
    pub(super) fn shared_bytes(&self) -> u32 {
        let element = self.unit.factors.size() as u32;
        let staged = (self.block_rows + self.block_columns) * element + 2 * 16;
        staged * self.block_reduction * self.buffers + (self.block_columns + PADDING) * self.line() * WORD
    }
}

/// Bytes of a sum.
const WORD: u32 = 4;

/// Returns the values of the nest's body that are the operands in the type of `unit`. A widening
/// cast to f32 is skipped.
pub(super) fn factors(nest: &Nest, roles: &Roles, unit: &MatrixUnit) -> Option<[Value; 2]> {
    let body = &nest.body;
    let of = |factor: Value| match body.insts[factor] {
        (_, dtype) if dtype == unit.factors => Some(factor),
        (Inst::Cast(narrow), DType::F32) if body.dtype(narrow) == unit.factors => Some(narrow),
        _ => None,
    };
    let is_f32 = body.dtype(roles.left) == DType::F32;
    Some([of(roles.left).filter(|_| is_f32)?, of(roles.right)?])
}

/// Writes the kernel of a nest with these roles.
pub(super) fn matrices(
    nest: &Nest,
    profile: &Profile,
    roles: &Roles,
    t: &MatrixTiling,
) -> Result<Kernel, ScheduleError> {
    let values = factors(nest, roles, &t.unit).ok_or(ScheduleError::Internal("factors of another type"))?;
    if !t.is_whole() {
        return Err(ScheduleError::Internal("matrices that do not divide their block"));
    }
    let [rows, columns, depth, batch] = extents(nest, roles);
    let blocks = [columns.div_ceil(t.block_columns as usize), rows.div_ceil(t.block_rows as usize), batch];
    let grid = grid_of(blocks, profile)?;
    let threads = t.invocations();
    let mut builder = Builder::new(&nest.name, [threads, 1, 1], grid);
    let b = &mut builder;
    let side = |left: bool, factor: Value, name, axes, block: u32| {
        let block = [block, vector_of(block), t.block_reduction];
        let side = Side::of(nest, &nest.body, factor, name, axes, &roles.reduction, block);
        let guards = if left { &roles.left_guards } else { &roles.right_guards };
        side.with_guards(guards).of_matrices(t.unit.factors)
    };
    let sides = [
        side(true, values[0], "left", &roles.rows, t.block_rows),
        side(false, values[1], "right", &roles.columns, t.block_columns),
    ];
    let (lanes, [left, right], lanes_out) = vectors(nest, roles, sides, COLUMNS)?;
    let buffers = declare(nest, profile, b, lanes)?;
    let mut point = Point::new(nest, profile, &buffers);
    point.set_position(b, &roles.batch, &Expr::workgroup(2));
    let [first_row, first_column] = first_places(b, t.band, grid, [t.block_rows, t.block_columns]);
    let lane = b.let_("lane", Expr::local(0));
    let number = Expr::Builtin(Builtin::Subgroup);
    let subgroup = b.let_("subgroup_row", number.clone().quotient(t.across));
    let own = [subgroup, b.let_("subgroup_column", number.remainder(t.across))];
    let factors = [(left, &first_row), (right, &first_column)].map(|(side, start)| {
        let array = side.declare(b, t.unit.factors, t.buffers);
        Factor { slots: side.slots(b, &point, &lane, threads, start), side, array }
    });

    let (size, [count_down, count_across]) = (t.unit.size, t.matrices());
    let pitch = t.block_columns + PADDING;
    let scratch = b.shared("sums", Type::scalar(DType::F32), (pitch * t.line()) as usize);
    let matrix = |b: &mut Builder, name: &str, role, dtype| b.matrix(name, role, dtype, size as u8);
    let of_left: Vec<usize> = (0..count_down).map(|_| matrix(b, "l", Role::Left, t.unit.factors)).collect();
    let of_right: Vec<usize> = (0..count_across).map(|_| matrix(b, "r", Role::Right, t.unit.factors)).collect();
    let mut sums = Vec::new();
    for r in 0..count_down {
        let row = (0..count_across).map(|c| matrix(b, &format!("acc_{r}_{c}"), Role::Sum, DType::F32));
        sums.push(row.collect::<Vec<usize>>());
    }

    // The accumulators start at zeros loaded from memory: there is no other way to clear a matrix.
    b.for_("place", &lane, (pitch * size) as i32, threads, |b, place| b.store_shared(scratch, place, Scalar::f32(0.0)));
    b.barrier();
    for &sum in sums.iter().flatten() {
        b.load_matrix(sum, Place { shared: scratch, first: 0.into(), pitch });
    }
    over_blocks(b, &factors, [depth, t.block_reduction as usize], t.buffers, profile, |b, buffer| {
        b.for_("k", 0, t.block_reduction as i32, size, |b, k| {
            for (n, matrices) in [&of_left, &of_right].into_iter().enumerate() {
                let Factor { side, array, .. } = &factors[n];
                let pitch = side.pitch() * side.lanes;
                let line = buffer.clone() * (pitch * t.block_reduction) as i32 + k.clone() * pitch as i32;
                let line = b.let_("line", line + own[n].clone() * size as i32);
                let stride = [t.down, t.across][n] * size;
                for (number, &matrix) in (0..).zip(matrices) {
                    let first = line.clone() + (number * stride) as i32;
                    b.load_matrix(matrix, Place { shared: *array, first, pitch });
                }
            }
            for (&left, row) in of_left.iter().zip(&sums) {
                of_right.iter().zip(row).for_each(|(&right, &sum)| b.multiply_add(sum, left, right));
            }
        });
    })?;

    let [down, across] = t.threads();
    let [y, x] = [b.let_("y", lane.clone().quotient(across)), b.let_("x", lane.remainder(across))];
    for (number, row) in (0..).zip(&sums) {
        for (c, &sum) in (0..).zip(row) {
            let column = (own[1].clone() + (c * t.across) as i32) * size as i32;
            let first = own[0].clone() * (size * pitch) as i32 + column;
            b.store_matrix(sum, Place { shared: scratch, first, pitch });
        }
        b.barrier();
        let first = b.let_("first_of_line", first_row.clone() + (number * t.line()) as i32);
        let tile: Vec<Vec<Expr>> = (0..t.line() / down)
            .map(|r| {
                let place = (y.clone() + (r * down) as i32) * pitch as i32 + x.clone() * COLUMNS as i32;
                let place = b.let_("place", place);
                let lanes = (0..COLUMNS as i32).map(|lane| Expr::load_shared(scratch, place.clone() + lane)).collect();
                vec![b.let_("sum", Expr::vector(lanes))]
            })
            .collect();
        let block = Block {
            first: [&first, &first_column],
            at: [&y, &x],
            sizes: [t.block_rows, t.block_columns],
            threads: [down, across],
            lanes: [1, COLUMNS, lanes_out],
        };
        store_tile(b, roles, &point, &tile, &block, &|_, _| ())?;
        if number + 1 < count_down {
            b.barrier();
        }
    }
    Ok(builder.finish()?)
}
