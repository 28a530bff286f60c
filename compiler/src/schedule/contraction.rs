//! The contraction template: a tiled matrix product.
//!
//! A workgroup computes a block of rows and columns. For each block of the reduction, its
//! invocations stage both operands in workgroup memory (see `staging.rs`). Then each multiplies its
//! own register tile: for each reduction point it reads its rows and its columns as short vectors,
//! and adds their products to accumulators, which are vectors along the columns. The vectors of an
//! invocation are a workgroup's width apart, so that adjacent invocations read adjacent vectors of
//! workgroup memory and write adjacent places. 32 consecutive invocations cover a warp tile that is
//! as square as possible, because this reads the fewest vectors.
//!
//! With two buffers, a block's operands are read into registers while the block before it is
//! multiplied, and then stored to the other buffer. This takes one barrier for each block instead
//! of two, and hides the latency of memory.
//!
//! Inner loops add only values that are equal in all invocations to an address. Parts that depend
//! on the invocation are computed before them, and conditions on a window before its blocks.

use crate::dtype::Scalar;
use crate::kernel::{Builder, Expr, Kernel};
use crate::nest::{Nest, Roles};
use crate::profile::Profile;

use super::lanes::{Wanted, agree, reads, singly, stores, writes};
use super::point::{Point, declare};
use super::staging::{Fetched, Side, Slots, Staged, vector_of};
use super::values::{Unsupported, Values, compute_type};
use super::whole_rows::store_rows;
use super::{ScheduleError, Tiling, grid_of};

/// Invocations of a warp tile.
const WARP: u32 = 32;

/// Multiply-adds of an invocation in a turn of the innermost loop, roughly. A turn has at most 8
/// reduction points.
const UNROLLED: u32 = 256;

/// Writes the kernel of a nest with these roles.
pub(super) fn contraction(
    nest: &Nest,
    profile: &Profile,
    roles: &Roles,
    tiling: &Tiling,
) -> Result<Kernel, ScheduleError> {
    let t = *tiling;
    let [rows, columns, _, batch] = extents(nest, roles);
    let blocks =
        [columns.div_ceil(t.block_columns as usize), rows.div_ceil(t.block_rows as usize), batch];
    let grid = grid_of(blocks, profile)?;
    let threads = t.invocations();
    let mut builder = Builder::new(&nest.name, [threads, 1, 1], grid);
    let b = &mut builder;
    let sides = [true, false].map(|left| Side::new(nest, roles, left, &t));
    let (lanes, [left, right], lanes_out) =
        vectors(nest, roles, sides, vector_of(t.thread_columns))?;
    let buffers = declare(nest, profile, b, lanes)?;
    let dtype = compute_type(nest.body.dtype(roles.left), profile).ok_or_else(|| Unsupported {
        what: format!("values of type {}", nest.body.dtype(roles.left)),
    })?;
    let mut point = Point::new(nest, profile, &buffers);
    point.set_position(b, &roles.batch, &Expr::workgroup(2));
    let [first_row, first_column] = first_places(b, t.band, grid, [t.block_rows, t.block_columns]);
    let lane = b.let_("lane", Expr::local(0));
    let [y, x] = place_in_workgroup(b, &t, &lane);

    let zero = Scalar::zero(nest.body.dtype(roles.left));
    let zeros =
        |b: &mut Builder, lanes: u32| Values { b, profile, lanes: lanes as u8 }.constant(zero);
    let mut tile: Vec<Vec<Expr>> = Vec::new();
    for r in 0..t.thread_rows {
        let zero = zeros(b, right.lanes)?;
        tile.push(
            (0..t.thread_columns / right.lanes)
                .map(|c| b.var(&format!("acc_{r}_{c}"), &zero))
                .collect(),
        );
    }
    let factors = [(left, &first_row), (right, &first_column)].map(|(side, start)| {
        let array = side.declare(b, dtype, t.buffers);
        Factor { slots: side.slots(b, &point, &lane, threads, start), side, array }
    });
    over_blocks(b, &factors, t.block_reduction, t.buffers, |b, buffer| {
        multiply(b, &tile, &staged(&t, &factors, [&y, &x], buffer), t.block_reduction);
    })?;

    let [Factor { side: left, .. }, Factor { side: right, .. }] = &factors;
    let block = Block {
        first: [&first_row, &first_column],
        at: [&y, &x],
        sizes: [t.block_rows, t.block_columns],
        threads: [t.threads().1, t.threads().0],
        lanes: [left.lanes, right.lanes, lanes_out],
    };
    if nest.aggregates_into_rows() {
        store_rows(b, roles, &point, &tile, &block)?;
    } else {
        store_tile(b, roles, &point, &tile, &block, &|_, _| ())?;
    }
    Ok(builder.finish()?)
}

/// A workgroup's block of places, and the tile of one of its invocations. Each array has the rows
/// first, then the columns.
pub(super) struct Block<'a> {
    /// The block's first row and column.
    pub first: [&'a Expr; 2],
    /// The row and the column of the invocation in the workgroup.
    pub at: [&'a Expr; 2],
    /// Rows and columns of the block.
    pub sizes: [u32; 2],
    /// Invocations down and across.
    pub threads: [u32; 2],
    /// Lanes of the vectors of rows, of columns, and of columns in the epilogue.
    pub lanes: [u32; 3],
}

impl Block<'_> {
    /// Returns the row of the tile's row `r`.
    pub fn row(&self, r: u32) -> Expr {
        let (group, within) = (r / self.lanes[0], r % self.lanes[0]);
        let vector = self.at[0].clone() + (group * self.threads[0]) as i32;
        self.first[0].clone() + vector * self.lanes[0] as i32 + within as i32
    }

    /// Returns the first column of the tile's vector `c`.
    pub fn column(&self, c: u32) -> Expr {
        self.first[1].clone()
            + (self.at[1].clone() + (c * self.threads[1]) as i32) * self.lanes[1] as i32
    }
}

/// Runs the epilogue on an invocation's tile of sums, and stores its results. `known` adds known
/// statistics to the points of a row of the tile.
pub(super) fn store_tile(
    b: &mut Builder,
    roles: &Roles,
    point: &Point,
    tile: &[Vec<Expr>],
    block: &Block,
    known: &dyn Fn(usize, &mut Point),
) -> Result<(), ScheduleError> {
    let (nest, profile) = (point.nest, point.profile);
    let [rows, columns, ..] = extents(nest, roles);
    let [_, lanes, lanes_out] = block.lanes;
    let dtype = nest.body.dtype(nest.body.results[0]);
    for (r, tile_row) in tile.iter().enumerate() {
        let row = b.let_("row", block.row(r as u32));
        b.if_(below(&row, rows, block.sizes[0]), |b| -> Result<(), ScheduleError> {
            let mut of_row = point.clone();
            of_row.set_position(b, &roles.rows, &row);
            known(r, &mut of_row);
            for (c, value) in (0..).zip(tile_row) {
                let column = b.let_("column", block.column(c));
                for part in (0..lanes).step_by(lanes_out as usize) {
                    let column = column.clone() + part as i32;
                    b.if_(
                        below(&column, columns, block.sizes[1]),
                        |b| -> Result<(), ScheduleError> {
                            let value = if lanes_out == lanes {
                                value.clone()
                            } else {
                                value.clone().lane(part as u8)
                            };
                            let mut at = of_row.clone();
                            at.set_position(b, &roles.columns, &column);
                            if let Some(&axis) = roles.columns.last() {
                                at = at.vector(axis, lanes_out as u8);
                            }
                            let value = Values { b, profile, lanes: at.lanes }.narrow(dtype, value);
                            let results = at.program(
                                b,
                                &nest.epilogue,
                                Some((&value, &Expr::from(true).splat(at.lanes))),
                            )?;
                            let place = b.let_("place", at.affine(&nest.place()));
                            at.store_in_row(b, &place, &column, results);
                            Ok(())
                        },
                    )?;
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// An operand with its part of workgroup memory.
pub(super) struct Factor<'a> {
    pub side: Side<'a>,
    pub slots: Slots<'a>,
    pub array: usize,
}

/// Iterates over the reduction in blocks of length `block`: stages both operands, and calls
/// `multiply` with the number of the buffer to multiply. Blocks with the same outer reduction axes
/// are a window.
pub(super) fn over_blocks(
    b: &mut Builder,
    factors: &[Factor; 2],
    block: u32,
    buffers: u32,
    multiply: impl Fn(&mut Builder, &Expr),
) -> Result<(), ScheduleError> {
    let [windows, points] = factors[0].side.windows();
    let blocks = points.div_ceil(block as usize);
    let slots_in = |b: &mut Builder, window: &Expr| {
        factors.each_ref().map(|f| f.side.in_window(b, &f.slots, window))
    };
    if buffers == 1 {
        return b.for_("window", 0, windows as i32, 1, |b, window| {
            let slots = slots_in(b, &window);
            b.for_("first", 0, points as i32, block, |b, first| -> Result<(), ScheduleError> {
                for (Factor { side, array, .. }, slots) in factors.iter().zip(&slots) {
                    side.stage(b, slots, *array, &first)?;
                }
                b.barrier();
                multiply(b, &0.into());
                b.barrier();
                Ok(())
            })
        });
    }
    let slots = slots_in(b, &0.into());
    let ahead = Ahead::fetch(b, factors, &slots, &0.into())?;
    ahead.put(b, factors, &slots, &0.into())?;
    b.barrier();
    if windows * blocks > 1 {
        // The first block is stored already.
        b.for_("window", (blocks == 1) as i32, windows as i32, 1, |b, window| {
            let slots = slots_in(b, &window);
            let from = match blocks {
                1 => 0.into(),
                _ => (Expr::from(block as i32) - window.clone() * points as i32).max(0),
            };
            b.for_("first", from, points as i32, block, |b, first| -> Result<(), ScheduleError> {
                let number = window * blocks as i32 + first.clone().quotient(block);
                let number = b.let_("number", number);
                let ahead = Ahead::fetch(b, factors, &slots, &first)?;
                // A sum of bounded terms lets drivers fold constant offsets into reads.
                let before = b.let_("before", (number.clone() + 1).remainder(2));
                multiply(b, &before);
                let buffer = b.let_("buffer", number.remainder(2));
                ahead.put(b, factors, &slots, &buffer)?;
                b.barrier();
                Ok(())
            })
        })?;
    }
    multiply(b, &(((windows * blocks - 1) % 2) as i32).into());
    Ok(())
}

/// A block of both operands in registers.
struct Ahead([Vec<Fetched>; 2]);

impl Ahead {
    /// Reads the block that starts at `first`.
    fn fetch<'a>(
        b: &mut Builder,
        [left, right]: &[Factor<'a>; 2],
        slots: &[Slots<'a>; 2],
        first: &Expr,
    ) -> Result<Ahead, ScheduleError> {
        let left = left.side.fetch(b, &slots[0], first)?;
        Ok(Ahead([left, right.side.fetch(b, &slots[1], first)?]))
    }

    /// Stores the block in a buffer in workgroup memory.
    fn put<'a>(
        &self,
        b: &mut Builder,
        factors: &[Factor<'a>; 2],
        slots: &[Slots<'a>; 2],
        buffer: &Expr,
    ) -> Result<(), ScheduleError> {
        for ((Factor { side, array, .. }, slots), fetched) in factors.iter().zip(slots).zip(&self.0)
        {
            side.put(b, slots, *array, &(buffer.clone() * side.words() as i32), fetched)?;
        }
        Ok(())
    }
}

/// Describes the parts of the operands' blocks in one buffer that an invocation multiplies.
fn staged(t: &Tiling, factors: &[Factor; 2], at: [&Expr; 2], buffer: &Expr) -> [Staged; 2] {
    let (across, down) = t.threads();
    [(0, t.thread_rows, down), (1, t.thread_columns, across)].map(|(n, count, stride)| {
        let Factor { side, array, .. } = &factors[n];
        side.staged(*array, buffer.clone() * side.words() as i32, at[n], count, stride)
    })
}

/// Returns the number of rows, columns, reduction points and batch elements of a nest with these
/// roles.
pub(super) fn extents(nest: &Nest, roles: &Roles) -> [usize; 4] {
    [&roles.rows, &roles.columns, &roles.reduction, &roles.batch].map(|axes| nest.points(axes))
}

/// Chooses how buffers are read: as many as possible in vectors, with the operands before the
/// epilogue. Returns the lanes of each buffer, the operands with their way of reading, and the
/// number of columns that the epilogue computes at once.
pub(super) fn vectors<'a>(
    nest: &'a Nest,
    roles: &Roles,
    sides: [Side<'a>; 2],
    width: u32,
) -> Result<(Vec<u8>, [Side<'a>; 2], u32), ScheduleError> {
    let [left, right] = sides.each_ref().map(|side| (side.wanted(), side.singly()));
    let last = (
        stored_together(nest, roles, width),
        [singly(nest.epilogue_loads()), stores(nest, 1)].concat(),
    );
    let wish = |part: &(Option<Wanted>, Wanted), vector: bool| match (vector, part) {
        (true, (wanted, _)) => wanted.clone(),
        (false, (_, singly)) => Some(singly.clone()),
    };
    for choice in 0..8 {
        let vector = [choice & 2 == 0, choice & 4 == 0, choice & 1 == 0];
        let wishes = [wish(&left, vector[0]), wish(&right, vector[1]), wish(&last, vector[2])];
        let [Some(left), Some(right), Some(last)] = &wishes else { continue };
        if let Some(lanes) = agree(nest, [left, right, last]) {
            let [mut left, mut right] = sides;
            left.set_vector(vector[0]);
            right.set_vector(vector[1]);
            let sides = [left, right];
            return Ok((lanes, sides, if vector[2] { width } else { 1 }));
        }
    }
    Err(ScheduleError::Internal("buffers of two types"))
}

/// Returns the lanes that the buffers of the epilogue want, if it can compute `width` adjacent
/// columns as a vector.
pub(super) fn stored_together(nest: &Nest, roles: &Roles, width: u32) -> Option<Wanted> {
    let &axis = roles.columns.last().filter(|_| width > 1)?;
    let (reads, writes) =
        (reads(nest, nest.epilogue_loads(), axis, width as u8), writes(nest, axis, width as u8));
    Some([reads?, writes?].concat())
}

/// Returns `index < count`, or true if blocks divide the extent.
pub(super) fn below(index: &Expr, count: usize, block: u32) -> Expr {
    if count.is_multiple_of(block as usize) { true.into() } else { index.clone().lt(count as i32) }
}

/// Returns the first row and the first column of the workgroup's block.
pub(super) fn first_places(
    b: &mut Builder,
    band: u32,
    grid: [u32; 3],
    [rows, columns]: [u32; 2],
) -> [Expr; 2] {
    let [row, column] = place_of_workgroup(b, band, grid);
    [b.let_("first_row", row * rows as i32), b.let_("first_column", column * columns as i32)]
}

/// Returns the row and the column of the workgroup's block, in blocks. Workgroups with consecutive
/// numbers run at the same time. In bands of a few rows of blocks they read fewer distinct blocks
/// of the operands, so the cache can hold these.
fn place_of_workgroup(b: &mut Builder, band: u32, [across, ..]: [u32; 3]) -> [Expr; 2] {
    if band == 1 {
        return [Expr::workgroup(1), Expr::workgroup(0)];
    }
    let number = b.let_("number", Expr::workgroup(1) * across as i32 + Expr::workgroup(0));
    let within = b.let_("within", number.clone().remainder(band * across));
    let row = number.quotient(band * across) * band as i32 + within.clone().remainder(band);
    [row, within.quotient(band)]
}

/// Returns the row and the column of an invocation in its workgroup.
fn place_in_workgroup(b: &mut Builder, t: &Tiling, lane: &Expr) -> [Expr; 2] {
    let (across, _) = t.threads();
    let width = (WARP / t.warp_rows).min(across);
    if width == across {
        return [
            b.let_("y", lane.clone().quotient(across)),
            b.let_("x", lane.clone().remainder(across)),
        ];
    }
    let in_warp = lane.clone().remainder(width * t.warp_rows);
    let warp = lane.clone().quotient(width * t.warp_rows);
    let (down_of_warp, warps) = (t.warp_rows as i32, across / width);
    let y = warp.clone().quotient(warps) * down_of_warp + in_warp.clone().quotient(width);
    let x = warp.remainder(warps) * width as i32 + in_warp.remainder(width);
    [b.let_("y", y), b.let_("x", x)]
}

/// Multiplies `depth` points of staged blocks, of rows and of columns, into the register tile.
pub(super) fn multiply(
    b: &mut Builder,
    tile: &[Vec<Expr>],
    [rows, columns]: &[Staged; 2],
    depth: u32,
) {
    let is_float = b.ty(&tile[0][0]).is_ok_and(|ty| ty.dtype.is_float());
    let turns = UNROLLED / (rows.count * columns.count);
    let least = rows.depth().max(columns.depth());
    let unroll = 1 << turns.clamp(least, depth.min(8)).ilog2();
    let bases = [rows, columns].map(|staged| b.let_("base", staged.first.clone()));
    b.for_("k", 0, depth as i32, unroll, |b, k| {
        let mut read = [Vec::new(), Vec::new()];
        for turn in 0..unroll {
            for (n, (name, staged)) in [("l", rows), ("r", columns)].into_iter().enumerate() {
                if turn % staged.depth() == 0 {
                    read[n] = staged.read(b, name, &bases[n], k.clone() + turn as i32);
                }
            }
            let vectors: Vec<Expr> = (0..columns.count / columns.lanes)
                .map(|group| columns.vector(b, &read[1], group, turn))
                .collect();
            for (row, accumulators) in (0..).zip(tile) {
                let x = rows.number(&read[0], row, turn);
                for (y, accumulator) in vectors.iter().zip(accumulators) {
                    let x = x.clone().splat(columns.lanes as u8);
                    b.assign(
                        accumulator,
                        if is_float { x.fma(y, accumulator) } else { accumulator + x * y },
                    );
                }
            }
        }
    });
}
