//! Lowers a nest to a kernel: chooses a template and tile sizes, then writes the kernel that they
//! describe.
//!
//! Eight kinds of schedule serve every nest:
//!
//! - [`Schedule::Native`] is a native program for a processor; see [`crate::native`].
//! - [`Schedule::Contraction`] computes sums of products that have rows and columns. Its epilogue
//!   may have row statistics if a workgroup computes whole rows.
//! - [`Schedule::Matrices`] computes such sums on devices with matrix units, without statistics.
//! - [`Schedule::Reduction`] computes long reductions to few places.
//! - [`Schedule::Rows`] computes row statistics, as in softmax or layer normalization.
//! - [`Schedule::Attention`] computes products whose left operand is made of other products.
//! - [`Schedule::Transform`] computes sums of elements times constants from tables.
//! - [`Schedule::Pointwise`] computes everything else.
//!
//! A *place* is an element of the output: one point of the free axes. A *point* without further
//! words is a point of the reduction axes.
//!
//! The choice depends on the roles and sizes of the axes, never on the source operation:
//! [`candidates`] enumerates the whole space, and a cost model ranks it. A reduction that is too
//! long for its few places is split into two nests ([`divide`]), and a convolution may be split
//! into four ([`winograd`]).

mod accumulate;
mod address;
mod attention;
mod choose;
mod contraction;
mod cost;
mod divide;
mod double;
mod elementary;
mod filtering;
mod in_bytes;
mod lanes;
mod matrices;
mod parse;
mod point;
mod pointwise;
mod prng;
mod reason;
mod reduction;
mod rows;
mod staging;
mod statistic;
mod transform;
mod tuned;
mod values;
mod whole_rows;
mod winograd;

use std::fmt;

pub use choose::{candidates, choose, predict, ranked};
pub use divide::{Divided, divide};
pub use prng::{prng_state, prng_value};
pub(crate) use transform::Transform;
pub use tuned::{Choice, Key, Tuned};
pub use values::Unsupported;
pub use winograd::{Filtered, winograd};

use crate::kernel::{Expr, Invalid, Kernel};
use crate::native::Method;
use crate::nest::Nest;
use crate::profile::{MatrixUnit, Profile};

use staging::most_numbers;

/// The mapping of a nest's axes to workgroups, invocations and loops.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// A native program with this implementation.
    Native(Method),
    /// One invocation computes `width` adjacent places along the last free axis, with a loop over
    /// the reduction.
    Pointwise {
        /// The invocations of a workgroup.
        workgroup: u32,
        /// The places that an invocation computes.
        width: u8,
    },
    /// Several invocations compute one place. Each aggregates a slice of the reduction; a tree
    /// combines the slices. See [`Slicing`].
    Reduction(Slicing),
    /// `lanes` invocations compute a row, `width` columns at a time, with the row's statistics.
    Rows {
        /// The invocations of a workgroup.
        workgroup: u32,
        /// The invocations that share a row.
        lanes: u32,
        /// The columns that an invocation computes at a time.
        width: u8,
    },
    /// One invocation computes a block of places, whose sums of the same elements, times constants,
    /// are unrolled. `width` blocks are neighbours along the last free axis.
    Transform {
        /// The invocations of a workgroup.
        workgroup: u32,
        /// The blocks that an invocation computes.
        width: u8,
    },
    /// A product of two operands in workgroup tiles and register tiles. See [`Tiling`].
    Contraction(Tiling),
    /// A product of two operands on the device's matrix units. See [`MatrixTiling`].
    Matrices(MatrixTiling),
    /// A product whose left operand is made of other products. See [`Blocking`].
    Attention(Blocking),
}

/// The block sizes of an attention kernel. One block has all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocking {
    /// Rows that a workgroup computes.
    pub rows: u32,
    /// Reduction points whose scores a workgroup computes at a time.
    pub points: u32,
    /// The depth of a staged block: terms of a score, or points of the right operand, in workgroup
    /// memory at a time. A power of two.
    pub depth: u32,
    /// Rows that an invocation computes. They divide those of the block.
    pub thread_rows: u32,
    /// Points that an invocation computes. They divide those of the block.
    pub thread_points: u32,
}

/// The division of a reduction within a workgroup, which has `places * slices` invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slicing {
    /// Places that a workgroup computes. With `width` 4 along the places, vectors of places.
    pub places: u32,
    /// Invocations that share a place. A power of two.
    pub slices: u32,
    /// The direction along which consecutive invocations are adjacent.
    pub along: Along,
    /// Adjacent elements in that direction that an invocation reads as one vector: 1 or 4.
    pub width: u8,
    /// Places that an invocation computes together: all rows (or columns) of a product that has
    /// only a few, so that the operand they share is read once.
    pub rows: u32,
}

/// The direction in which memory is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Along {
    /// The last free axis, other than the rows that an invocation computes together.
    Places,
    /// The last reduction axis.
    Points,
}

/// The tile sizes of a contraction. Rows, columns and reduction are the flattened axes of each
/// role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiling {
    /// Rows that a workgroup computes.
    pub block_rows: u32,
    /// Columns that a workgroup computes.
    pub block_columns: u32,
    /// Reduction points staged in workgroup memory at a time. A power of two.
    pub block_reduction: u32,
    /// Rows that an invocation computes in registers. They divide those of the block.
    pub thread_rows: u32,
    /// Columns that an invocation computes in registers. They divide those of the block.
    pub thread_columns: u32,
    /// Height of a warp tile: rows of invocations covered by 32 consecutive invocations. It divides
    /// the workgroup's rows of invocations.
    pub warp_rows: u32,
    /// Buffers of staged blocks. With 2, the next block is read while the current one is
    /// multiplied.
    pub buffers: u32,
    /// Rows of blocks whose workgroups run consecutively, for cache locality. It divides the grid's
    /// rows of blocks.
    pub band: u32,
}

/// The tile sizes of a contraction on matrix units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixTiling {
    /// The matrix unit: shape, operand type and subgroup size.
    pub unit: MatrixUnit,
    /// Rows that a workgroup computes.
    pub block_rows: u32,
    /// Columns that a workgroup computes.
    pub block_columns: u32,
    /// Reduction points staged in workgroup memory at a time.
    pub block_reduction: u32,
    /// Subgroups of a workgroup along the rows.
    pub down: u32,
    /// Subgroups of a workgroup along the columns.
    pub across: u32,
    /// As in [`Tiling`].
    pub buffers: u32,
    /// As in [`Tiling`].
    pub band: u32,
}

impl Tiling {
    /// Returns the number of invocations in a workgroup along the columns, and along the rows.
    pub fn threads(&self) -> (u32, u32) {
        (self.block_columns / self.thread_columns, self.block_rows / self.thread_rows)
    }

    /// Returns an upper bound of the workgroup memory in bytes, for elements of `element` bytes.
    fn shared_bytes(&self, element: usize) -> u32 {
        let left = most_numbers(self.block_rows, self.thread_rows, self.block_reduction);
        let right = most_numbers(self.block_columns, self.thread_columns, self.block_reduction);
        (left + right) * self.buffers * element as u32
    }

    /// Returns the number of invocations in a workgroup.
    pub fn invocations(&self) -> u32 {
        let (across, down) = self.threads();
        across * down
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Native(method) => write!(f, "native {method}"),
            Schedule::Pointwise { workgroup, width } => {
                write!(f, "pointwise workgroup {workgroup} width {width}")
            }
            Schedule::Reduction(s) => {
                let along = if s.along == Along::Places { "places" } else { "points" };
                write!(
                    f,
                    "reduction places {} slices {} along {along} width {}",
                    s.places, s.slices, s.width
                )?;
                if s.rows > 1 { write!(f, " rows {}", s.rows) } else { Ok(()) }
            }
            Schedule::Rows { workgroup, lanes, width } => {
                write!(f, "rows workgroup {workgroup} lanes {lanes} width {width}")
            }
            Schedule::Transform { workgroup, width } => {
                write!(f, "transform workgroup {workgroup} width {width}")
            }
            Schedule::Contraction(t) => {
                write!(
                    f,
                    "contraction block {}x{}x{}",
                    t.block_rows, t.block_columns, t.block_reduction
                )?;
                write!(f, " thread {}x{} warp {}", t.thread_rows, t.thread_columns, t.warp_rows)?;
                write!(f, " buffers {} band {}", t.buffers, t.band)
            }
            Schedule::Matrices(t) => {
                let MatrixUnit { size, factors, subgroup } = t.unit;
                write!(f, "matrices {factors} size {size} subgroup {subgroup}")?;
                write!(f, " block {}x{}x{}", t.block_rows, t.block_columns, t.block_reduction)?;
                write!(
                    f,
                    " subgroups {}x{} buffers {} band {}",
                    t.down, t.across, t.buffers, t.band
                )
            }
            Schedule::Attention(t) => {
                write!(f, "attention block {}x{}x{}", t.rows, t.points, t.depth)?;
                write!(f, " thread {}x{}", t.thread_rows, t.thread_points)
            }
        }
    }
}

/// The reason why a schedule gives no kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// The device lacks a type or an operation.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The nest needs more workgroups than the device can launch.
    #[error("more workgroups than the device can launch")]
    TooManyPlaces,
    /// The kernel is malformed: a bug in the compiler.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The schedule does not suit the nest: a bug in the compiler.
    #[error("internal error while scheduling: {0}")]
    Internal(&'static str),
}

/// Writes the kernel of a nest under a schedule. Returns `None` for [`Schedule::Native`].
pub fn kernel(
    nest: &Nest,
    schedule: &Schedule,
    profile: &Profile,
) -> Result<Option<Kernel>, ScheduleError> {
    if nest.rank.is_some() && !matches!(schedule, Schedule::Native(_)) {
        return Err(ScheduleError::Internal("a kernel cannot sort"));
    }
    match schedule {
        Schedule::Native(_) => Ok(None),
        Schedule::Pointwise { workgroup, width } => {
            pointwise::pointwise(nest, profile, *workgroup, *width).map(Some)
        }
        Schedule::Reduction(slicing) => reduction::reduction(nest, profile, slicing).map(Some),
        Schedule::Rows { workgroup, lanes, width } => {
            rows::rows(nest, profile, *workgroup, *lanes, *width).map(Some)
        }
        Schedule::Transform { workgroup, width } => {
            transform::transform(nest, profile, *workgroup, *width).map(Some)
        }
        Schedule::Contraction(tiling) => {
            let roles =
                nest.roles().ok_or(ScheduleError::Internal("a contraction without roles"))?;
            contraction::contraction(nest, profile, &roles, tiling).map(Some)
        }
        Schedule::Matrices(tiling) => {
            let roles =
                nest.roles().ok_or(ScheduleError::Internal("a contraction without roles"))?;
            matrices::matrices(nest, profile, &roles, tiling).map(Some)
        }
        Schedule::Attention(blocking) => attention::attention(nest, profile, blocking).map(Some),
    }
}

/// Returns a grid with `blocks` workgroups along each axis.
fn grid_of(blocks: [usize; 3], profile: &Profile) -> Result<[u32; 3], ScheduleError> {
    let mut grid = [0; 3];
    for (axis, &count) in blocks.iter().enumerate() {
        let fits = u32::try_from(count).ok().filter(|&count| count <= profile.max_grid);
        grid[axis] = fits.ok_or(ScheduleError::TooManyPlaces)?;
    }
    Ok(grid)
}

/// Returns the linear index of the workgroup in a grid of [`grid`].
fn group(grid: [u32; 3]) -> Expr {
    if grid[1] == 1 {
        Expr::workgroup(0)
    } else {
        Expr::workgroup(1) * grid[0] as i32 + Expr::workgroup(0)
    }
}

/// Returns a grid of at least `workgroups`: one-dimensional if that is within the device's limit,
/// else two-dimensional.
fn grid(workgroups: usize, profile: &Profile) -> Result<[u32; 3], ScheduleError> {
    let limit = profile.max_grid as usize;
    let rows = workgroups.div_ceil(limit).max(1);
    if rows > limit {
        return Err(ScheduleError::TooManyPlaces);
    }
    // Rows of equal length waste less than full rows with a remainder.
    Ok([workgroups.div_ceil(rows).max(1) as u32, rows as u32, 1])
}
