//! The default schedule of a nest: the template that suits its roles and sizes, and tile sizes by predicted time.

use crate::nest::{Nest, Roles};
use crate::profile::{Execution, Profile};

use super::contraction::{extents, shared_bytes};
use super::point::vector_lanes;
use super::values::compute_type;
use super::{Schedule, Tiling};

/// Invocations in a workgroup of the pointwise and reduction templates.
const WORKGROUP: u32 = 128;

/// Vectors of a row that an invocation has, where there are more than enough.
const COLUMNS: usize = 4;

/// Reductions of at least this many points, over at most this many places, get a workgroup a place.
const LONG_REDUCTION: usize = 256;
const FEW_PLACES: usize = 32768;

/// Workgroups that keep a device busy.
const BUSY: f64 = 64.0;

/// Tilings tried, of 256 invocations and fewer.
const TILINGS: [Tiling; 5] = [
    Tiling { block_rows: 128, block_columns: 128, block_reduction: 8, thread_rows: 8, thread_columns: 8 },
    Tiling { block_rows: 64, block_columns: 64, block_reduction: 16, thread_rows: 4, thread_columns: 4 },
    Tiling { block_rows: 32, block_columns: 64, block_reduction: 16, thread_rows: 4, thread_columns: 4 },
    Tiling { block_rows: 32, block_columns: 32, block_reduction: 16, thread_rows: 4, thread_columns: 2 },
    Tiling { block_rows: 16, block_columns: 16, block_reduction: 16, thread_rows: 2, thread_columns: 2 },
];

/// The schedule that `nest` gets without tuning.
pub fn choose(nest: &Nest, profile: &Profile) -> Schedule {
    if profile.execution == Execution::Native {
        return Schedule::Native;
    }
    if let Some(tiling) = nest.roles().and_then(|roles| tiling(nest, profile, &roles)) {
        return Schedule::Contraction(tiling);
    }
    let workgroup = WORKGROUP.min(profile.max_invocations).min(profile.max_workgroup[0]);
    let (places, points) = (nest.places(), nest.reduction_points());
    if nest.aggregation.is_some() && points >= LONG_REDUCTION && places <= FEW_PLACES.min(profile.max_grid as usize) {
        return Schedule::Reduction { workgroup: 1 << workgroup.ilog2() };
    }
    let width = if vector_lanes(nest).is_some() { 4 } else { 1 };
    if !nest.columns().is_empty() {
        // Some columns each, so that a workgroup has several rows where these are short, and all invocations where they are long.
        let vectors = nest.row_length().div_ceil(width as usize);
        let lanes = vectors.div_ceil(COLUMNS).next_power_of_two().min(1 << workgroup.ilog2()) as u32;
        return Schedule::Rows { workgroup: 1 << workgroup.ilog2(), lanes, width };
    }
    Schedule::Pointwise { workgroup, width }
}

/// The tiling of least predicted time, where a tiled product pays at all.
fn tiling(nest: &Nest, profile: &Profile, roles: &Roles) -> Option<Tiling> {
    let [rows, columns, depth, batch] = extents(nest, roles);
    let element = compute_type(nest.body.dtype(roles.left), profile)?.size();
    if rows < 4 || columns < 4 || depth < 4 || element > 4 {
        return None;
    }
    // Each place of the register tile gets its own copy of the epilogue's code.
    let most_places = if nest.epilogue.insts.len() > 8 { 16 } else { 64 };
    let fits = |t: &&Tiling| {
        shared_bytes(t, element) <= profile.max_shared_bytes
            && t.invocations() <= profile.max_invocations
            && t.thread_rows * t.thread_columns <= most_places
            && [columns.div_ceil(t.block_columns as usize), rows.div_ceil(t.block_rows as usize), batch]
                .iter()
                .all(|&blocks| blocks <= profile.max_grid as usize)
    };
    let time = |t: &Tiling| {
        let (down, across) = (rows.div_ceil(t.block_rows as usize), columns.div_ceil(t.block_columns as usize));
        let padded = (down * t.block_rows as usize) as f64 * (across * t.block_columns as usize) as f64;
        // Loads from workgroup memory for each multiply-add, about half as fast.
        let loads = 1.0 / t.thread_rows as f64 + 1.0 / t.thread_columns as f64;
        let occupancy = ((down * across * batch) as f64 / BUSY).min(1.0);
        padded * (1.0 + 2.0 * loads) / occupancy
    };
    TILINGS.iter().filter(fits).min_by(|a, b| time(a).total_cmp(&time(b))).copied()
}
