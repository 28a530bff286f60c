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
use crate::kernel::{Builder, Builtin, Expr, Kernel, MatrixAddress, Role, Type};
use crate::nest::{Nest, Roles};
use crate::profile::{MatrixUnit, Profile};
use crate::scalar::{Inst, Value};

use super::contraction::{Block, Factor, extents, first_places, over_blocks, store_tile, vectors};
use super::point::{Point, declare};
use super::staging::{LINE_PADDING, Side, vector_of};
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
        [
            self.block_rows / (self.down * self.unit.size),
            self.block_columns / (self.across * self.unit.size),
        ]
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
        let line = self.block_reduction * self.unit.factors.size() as u32 + LINE_PADDING;
        (self.block_rows + self.block_columns) * line * self.buffers
            + (self.block_columns + PADDING) * self.line() * WORD
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
    let values =
        factors(nest, roles, &t.unit).ok_or(ScheduleError::Internal("factors of another type"))?;
    if !t.is_whole() {
        return Err(ScheduleError::Internal("matrices that do not divide their block"));
    }
    let [rows, columns, _, batch] = extents(nest, roles);
    let blocks =
        [columns.div_ceil(t.block_columns as usize), rows.div_ceil(t.block_rows as usize), batch];
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

    let matrices = Matrices::declare(b, t, own);
    matrices.clear(b, &lane);
    over_blocks(b, &factors, t.block_reduction, t.buffers, |b, buffer| {
        matrices.multiply(b, &factors, buffer);
    })?;

    let [down, across] = t.threads();
    let [y, x] = [b.let_("y", lane.clone().quotient(across)), b.let_("x", lane.remainder(across))];
    for line in 0..t.matrices()[0] {
        matrices.store_line(b, line);
        b.barrier();
        let first = b.let_("first_of_line", first_row.clone() + (line * t.line()) as i32);
        let tile = matrices.tile(b, [&y, &x]);
        let block = Block {
            first: [&first, &first_column],
            at: [&y, &x],
            sizes: [t.block_rows, t.block_columns],
            threads: [down, across],
            lanes: [1, COLUMNS, lanes_out],
        };
        store_tile(b, roles, &point, &tile, &block, &|_, _| ())?;
        if line + 1 < t.matrices()[0] {
            b.barrier();
        }
    }
    Ok(builder.finish()?)
}

/// The matrices of a subgroup.
struct Matrices<'a> {
    t: &'a MatrixTiling,
    /// The row and the column of the subgroup in the workgroup.
    subgroup: [Expr; 2],
    left: Vec<usize>,
    right: Vec<usize>,
    /// The accumulators, line by line.
    sums: Vec<Vec<usize>>,
    /// The array in workgroup memory for a line of sums, and the length of its rows.
    scratch: usize,
    pitch: u32,
}

impl<'a> Matrices<'a> {
    fn declare(b: &mut Builder, t: &'a MatrixTiling, subgroup: [Expr; 2]) -> Matrices<'a> {
        let [down, across] = t.matrices();
        let pitch = t.block_columns + PADDING;
        let scratch = b.shared("sums", Type::scalar(DType::F32), (pitch * t.line()) as usize);
        let matrix = |b: &mut Builder, name: &str, role, dtype| {
            b.matrix(name, role, dtype, t.unit.size as u8)
        };
        let left = (0..down).map(|_| matrix(b, "l", Role::Left, t.unit.factors)).collect();
        let right = (0..across).map(|_| matrix(b, "r", Role::Right, t.unit.factors)).collect();
        let mut sums = Vec::new();
        for r in 0..down {
            let row =
                (0..across).map(|c| matrix(b, &format!("acc_{r}_{c}"), Role::Sum, DType::F32));
            sums.push(row.collect::<Vec<usize>>());
        }
        Matrices { t, subgroup, left, right, sums, scratch, pitch }
    }

    /// Sets the accumulators to zeros loaded from memory: there is no other way to clear a matrix.
    fn clear(&self, b: &mut Builder, lane: &Expr) {
        let words = (self.pitch * self.t.unit.size) as i32;
        b.for_("place", lane, words, self.t.invocations(), |b, place| {
            b.store_shared(self.scratch, place, Scalar::f32(0.0));
        });
        b.barrier();
        for &sum in self.sums.iter().flatten() {
            b.load_matrix(
                sum,
                MatrixAddress { shared: self.scratch, first: 0.into(), pitch: self.pitch },
            );
        }
    }

    /// Adds the products of a staged block.
    fn multiply(&self, b: &mut Builder, factors: &[Factor; 2], buffer: &Expr) {
        let (t, size) = (self.t, self.t.unit.size);
        b.for_("k", 0, t.block_reduction as i32, size, |b, k| {
            for (n, matrices) in [&self.left, &self.right].into_iter().enumerate() {
                let Factor { side, array, .. } = &factors[n];
                let pitch = side.pitch();
                let line = buffer.clone() * side.words() as i32 + k.clone();
                let line = b.let_("line", line + self.subgroup[n].clone() * (size * pitch) as i32);
                let stride = [t.down, t.across][n] * size;
                for (number, &matrix) in (0..).zip(matrices) {
                    let first = line.clone() + (number * stride * pitch) as i32;
                    b.load_matrix(matrix, MatrixAddress { shared: *array, first, pitch });
                }
            }
            for (&left, row) in self.left.iter().zip(&self.sums) {
                self.right
                    .iter()
                    .zip(row)
                    .for_each(|(&right, &sum)| b.multiply_add(sum, left, right));
            }
        });
    }

    /// Stores a line of sums in workgroup memory.
    fn store_line(&self, b: &mut Builder, line: u32) {
        let size = self.t.unit.size;
        for (c, &sum) in (0..).zip(&self.sums[line as usize]) {
            let column = (self.subgroup[1].clone() + (c * self.t.across) as i32) * size as i32;
            let first = self.subgroup[0].clone() * (size * self.pitch) as i32 + column;
            b.store_matrix(sum, MatrixAddress { shared: self.scratch, first, pitch: self.pitch });
        }
    }

    /// Returns the invocation's share of the stored line.
    fn tile(&self, b: &mut Builder, [y, x]: [&Expr; 2]) -> Vec<Vec<Expr>> {
        let [down, _] = self.t.threads();
        let rows = (0..self.t.line() / down).map(|r| {
            let place =
                (y.clone() + (r * down) as i32) * self.pitch as i32 + x.clone() * COLUMNS as i32;
            let place = b.let_("place", place);
            let lanes = (0..COLUMNS as i32)
                .map(|lane| Expr::load_shared(self.scratch, place.clone() + lane))
                .collect();
            vec![b.let_("sum", Expr::vector(lanes))]
        });
        rows.collect()
    }
}
