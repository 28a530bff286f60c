//! From a nest to how it runs: the choice of template and tile sizes, and the kernel that follows from it.
//!
//! Five templates serve every nest: [`Schedule::Contraction`] the sums of products with rows and columns, also ended with statistics of
//! their rows, where a workgroup has whole ones ([`Schedule::Matrices`] the sums on devices that multiply matrices),
//! [`Schedule::Reduction`] long reductions to few places, [`Schedule::Rows`] what knows statistics of its rows,
//! [`Schedule::Attention`] products of products, [`Schedule::Pointwise`] everything else. They are chosen by the roles and sizes of axes, never by what the nest was in the
//! source: [`candidates`] enumerates the whole space, and a model of what each would take ranks it. A reduction too long for
//! the places that it has is divided in two nests ([`divide`]).

mod accumulate;
mod attention;
mod choose;
mod contraction;
mod cost;
mod divide;
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
mod tuned;
mod values;
mod whole_rows;

use std::fmt;

pub use choose::{candidates, choose, ranked};
pub use divide::{Divided, divide};
pub use prng::{prng_state, prng_value};
pub use tuned::{Choice, Key, Tuned};
pub use values::Unsupported;

use crate::kernel::{Expr, Invalid, Kernel};
use crate::nest::Nest;
use crate::profile::{MatrixUnit, Profile};

/// How the axes of a nest map to workgroups, invocations and loops.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// The cpu device's executor chooses by the nest's roles.
    Native,
    /// One invocation computes `width` places that follow each other along the last free axis, its reduction in a loop.
    Pointwise { workgroup: u32, width: u8 },
    /// Several invocations compute a place, each a slice of its reduction, and combine in a tree: see [`Slicing`].
    Reduction(Slicing),
    /// `lanes` invocations compute a row, `width` columns at a time, and keep its statistics.
    Rows { workgroup: u32, lanes: u32, width: u8 },
    /// Workgroup tiles and register tiles of a product of two operands: see [`Tiling`].
    Contraction(Tiling),
    /// The same of a device that multiplies matrices: see [`MatrixTiling`].
    Matrices(MatrixTiling),
    /// A product whose left factor is made of other products: see [`Blocking`].
    Attention(Blocking),
}

/// The block sizes of a product of products: its columns are in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocking {
    /// Rows that a workgroup computes, and points of the reduction whose scores it computes at a time.
    pub rows: u32,
    pub points: u32,
    /// Terms of a score, and points of the other factor, that are staged in workgroup memory at a time: a power of two.
    pub depth: u32,
    /// Rows and points of an invocation; they divide the block's.
    pub thread_rows: u32,
    pub thread_points: u32,
}

/// How a workgroup divides a reduction. Its invocations are `places * slices`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slicing {
    /// Places that a workgroup computes, or vectors of them.
    pub places: u32,
    /// Invocations that share a place: a power of two.
    pub slices: u32,
    /// What invocations that follow each other are neighbours in.
    pub along: Along,
    /// Neighbours in that direction that an invocation reads as one vector: 1 or 4.
    pub width: u8,
    /// Places that an invocation computes together: all rows of a product that has but a few, so that what they share is read
    /// once.
    pub rows: u32,
}

/// The direction in which memory is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Along {
    /// The last free axis that is not one of the rows computed together.
    Places,
    /// The last reduction axis.
    Points,
}

/// The tile sizes of a contraction; rows, columns and reduction are the flattened axes of each role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiling {
    /// Rows and columns that a workgroup computes.
    pub block_rows: u32,
    pub block_columns: u32,
    /// Reduction points staged in workgroup memory at a time: a power of two.
    pub block_reduction: u32,
    /// Rows and columns that an invocation computes in registers; they divide the block's.
    pub thread_rows: u32,
    pub thread_columns: u32,
    /// Rows of invocations among 32 that follow each other; they divide the workgroup's.
    pub warp_rows: u32,
    /// 2: the next block is read while one is multiplied.
    pub buffers: u32,
    /// Rows of blocks whose workgroups run together, for the cache's sake; they divide the grid's.
    pub band: u32,
}

/// The tile sizes of a contraction whose inner core is a product of matrices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixTiling {
    /// What the device multiplies.
    pub unit: MatrixUnit,
    /// Rows and columns that a workgroup computes.
    pub block_rows: u32,
    pub block_columns: u32,
    /// Reduction points staged in workgroup memory at a time.
    pub block_reduction: u32,
    /// Subgroups of a workgroup, along the rows and along the columns.
    pub down: u32,
    pub across: u32,
    /// As in a [`Tiling`].
    pub buffers: u32,
    pub band: u32,
}

impl Tiling {
    /// Invocations of a workgroup along the columns and along the rows.
    pub fn threads(&self) -> (u32, u32) {
        (self.block_columns / self.thread_columns, self.block_rows / self.thread_rows)
    }

    /// Bytes of workgroup memory that it takes at most, with elements of so many bytes.
    fn shared_bytes(&self, element: usize) -> u32 {
        // A row of a staged block may have one more vector of four.
        (self.block_rows + self.block_columns + 8) * self.block_reduction * self.buffers * element as u32
    }

    /// Invocations in a workgroup.
    pub fn invocations(&self) -> u32 {
        let (across, down) = self.threads();
        across * down
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Native => write!(f, "native"),
            Schedule::Pointwise { workgroup, width } => write!(f, "pointwise workgroup {workgroup} width {width}"),
            Schedule::Reduction(s) => {
                let along = if s.along == Along::Places { "places" } else { "points" };
                write!(f, "reduction places {} slices {} along {along} width {}", s.places, s.slices, s.width)?;
                if s.rows > 1 { write!(f, " rows {}", s.rows) } else { Ok(()) }
            }
            Schedule::Rows { workgroup, lanes, width } => {
                write!(f, "rows workgroup {workgroup} lanes {lanes} width {width}")
            }
            Schedule::Contraction(t) => {
                write!(f, "contraction block {}x{}x{}", t.block_rows, t.block_columns, t.block_reduction)?;
                write!(f, " thread {}x{} warp {}", t.thread_rows, t.thread_columns, t.warp_rows)?;
                write!(f, " buffers {} band {}", t.buffers, t.band)
            }
            Schedule::Matrices(t) => {
                let MatrixUnit { size, factors, subgroup } = t.unit;
                write!(f, "matrices {factors} size {size} subgroup {subgroup}")?;
                write!(f, " block {}x{}x{}", t.block_rows, t.block_columns, t.block_reduction)?;
                write!(f, " subgroups {}x{} buffers {} band {}", t.down, t.across, t.buffers, t.band)
            }
            Schedule::Attention(t) => {
                write!(f, "attention block {}x{}x{}", t.rows, t.points, t.depth)?;
                write!(f, " thread {}x{}", t.thread_rows, t.thread_points)
            }
        }
    }
}

/// Why a schedule gives no kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleError {
    /// The device lacks a type or an operation.
    Unsupported(Unsupported),
    /// More workgroups than the device can launch.
    TooManyPlaces,
    /// The kernel is malformed: a bug of ours.
    Invalid(Invalid),
    /// The schedule does not suit the nest: a bug of ours.
    Internal(&'static str),
}

impl From<Unsupported> for ScheduleError {
    fn from(error: Unsupported) -> ScheduleError {
        ScheduleError::Unsupported(error)
    }
}

impl From<Invalid> for ScheduleError {
    fn from(error: Invalid) -> ScheduleError {
        ScheduleError::Invalid(error)
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScheduleError::Unsupported(u) => write!(f, "the device has no {}", u.what),
            ScheduleError::TooManyPlaces => write!(f, "more workgroups than the device can launch"),
            ScheduleError::Invalid(invalid) => write!(f, "{invalid}"),
            ScheduleError::Internal(what) => write!(f, "internal error while scheduling: {what}"),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// The kernel of a nest under a schedule; `None` for [`Schedule::Native`].
pub fn kernel(nest: &Nest, schedule: &Schedule, profile: &Profile) -> Result<Option<Kernel>, ScheduleError> {
    match schedule {
        Schedule::Native => Ok(None),
        Schedule::Pointwise { workgroup, width } => pointwise::pointwise(nest, profile, *workgroup, *width).map(Some),
        Schedule::Reduction(slicing) => reduction::reduction(nest, profile, slicing).map(Some),
        Schedule::Rows { workgroup, lanes, width } => rows::rows(nest, profile, *workgroup, *lanes, *width).map(Some),
        Schedule::Contraction(tiling) => {
            let roles = nest.roles().ok_or(ScheduleError::Internal("a contraction without roles"))?;
            contraction::contraction(nest, profile, &roles, tiling).map(Some)
        }
        Schedule::Matrices(tiling) => {
            let roles = nest.roles().ok_or(ScheduleError::Internal("a contraction without roles"))?;
            matrices::matrices(nest, profile, &roles, tiling).map(Some)
        }
        Schedule::Attention(blocking) => attention::attention(nest, profile, blocking).map(Some),
    }
}

/// A grid of so many blocks along each axis.
fn grid_of(blocks: [usize; 3], profile: &Profile) -> Result<[u32; 3], ScheduleError> {
    let mut grid = [0; 3];
    for (axis, &count) in blocks.iter().enumerate() {
        let fits = u32::try_from(count).ok().filter(|&count| count <= profile.max_grid);
        grid[axis] = fits.ok_or(ScheduleError::TooManyPlaces)?;
    }
    Ok(grid)
}

/// The workgroup's number in a grid of [`grid`].
fn group(grid: [u32; 3]) -> Expr {
    if grid[1] == 1 { Expr::workgroup(0) } else { Expr::workgroup(1) * grid[0] as i32 + Expr::workgroup(0) }
}

/// A grid of at least `workgroups`, in one dimension where that is within the device's limit, else in two.
fn grid(workgroups: usize, profile: &Profile) -> Result<[u32; 3], ScheduleError> {
    let limit = profile.max_grid as usize;
    let rows = workgroups.div_ceil(limit).max(1);
    if rows > limit {
        return Err(ScheduleError::TooManyPlaces);
    }
    // Rows of equal length waste less than full rows and a remainder.
    Ok([workgroups.div_ceil(rows).max(1) as u32, rows as u32, 1])
}
