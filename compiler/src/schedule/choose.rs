//! The space of schedules of a nest, ranked by predicted time. A nest gets the first one, unless it
//! was tuned.

use tile_lang::Budget;

use crate::graph::Aggregation;
use crate::native::NativeProgram;
use crate::nest::{Nest, Roles, loads_of};
use crate::profile::{Execution, MatrixUnit, Profile};

use super::contraction::extents;
use super::cost::{
    blocking_registers, of_blocking, of_matrices, of_pointwise, of_reduction, of_rows, of_tiling,
    tiling_registers,
};
use super::staging::vector_of;
use super::values::compute_type;
use super::{
    Along, Blocking, MatrixTiling, Schedule, Slicing, Tiling, lanes, matrices, reduction,
    transform, whole_rows,
};

/// Block sizes: of rows and columns, and of the reduction.
const BLOCKS: [u32; 4] = [128, 64, 32, 16];
const DEPTHS: [u32; 3] = [16, 8, 32];

/// Block sizes if a block has whole rows, which makes it wide and therefore low: rows, with the
/// fewest last, and reduction points.
const WHOLE_ROWS: [u32; 4] = [32, 16, 8, 4];
const WHOLE_ROW_DEPTHS: [u32; 4] = [16, 8, 32, 4];

/// Register tile sizes: rows and columns.
const THREADS: [(u32, u32); 8] = [(8, 8), (8, 4), (4, 8), (4, 4), (2, 4), (4, 2), (2, 2), (1, 4)];

/// Subgroups of a workgroup that uses matrix units, down and across.
const SUBGROUPS: [(u32, u32); 7] = [(2, 2), (2, 4), (4, 2), (1, 2), (2, 1), (1, 1), (4, 4)];

/// The most accumulator matrices of a subgroup.
const MATRICES: u32 = 32;

/// The most rows of a product that one invocation of a reduction computes together.
const FEW_ROWS: usize = 8;

/// Vectors of a row with statistics that each invocation computes, if the row is long enough.
const COLUMNS: usize = 4;

/// The ratio of predicted times up to which two schedules count as equal, given the accuracy of the
/// cost model.
pub(super) const EQUAL: f64 = 1.1;

/// Returns the schedule that `nest` gets without tuning.
pub fn choose(nest: &Nest, profile: &Profile) -> Schedule {
    let mut ranked = ranked(nest, profile);
    if ranked.is_empty() { native(nest, profile) } else { ranked.swap_remove(0).1 }
}

/// Units of work for a prediction, and for each instruction of the epilogue.
const PREDICTION_UNITS: u64 = 200;
const INSTRUCTION_UNITS: u64 = 2;

/// Predicts the seconds of `nest` under the schedule that it gets without tuning. `None` if it has
/// no kernel, or if the budget is exceeded.
pub fn predict(nest: &Nest, profile: &Profile, budget: &Budget) -> Option<f64> {
    budget.spend(PREDICTION_UNITS + INSTRUCTION_UNITS * nest.epilogue.insts.len() as u64).ok()?;
    match profile.execution {
        // Its time is not predicted.
        Execution::Native => (!nest.aggregates_into_rows()).then_some(0.0),
        Execution::Shader => ranked(nest, profile).first().map(|(time, _)| *time),
    }
}

/// Returns every schedule that suits `nest` on a device: first the one that it gets without tuning,
/// then the others by predicted time.
pub fn candidates(nest: &Nest, profile: &Profile) -> Vec<Schedule> {
    ranked(nest, profile).into_iter().map(|(_, schedule)| schedule).collect()
}

/// Returns the candidates with their predicted seconds. If the best schedules of several templates
/// are about equal, the first template wins: tiles, then one invocation for each place, then
/// several.
pub fn ranked(nest: &Nest, profile: &Profile) -> Vec<(f64, Schedule)> {
    if profile.execution == Execution::Native {
        let runs = !nest.aggregates_into_rows();
        return if runs { vec![(0.0, native(nest, profile))] } else { Vec::new() };
    }
    if nest.tables().next().is_some() {
        return sorted(transform::schedules(nest, profile).into_iter());
    }
    if let Some(parts) = nest.attention() {
        let blockings = blockings(nest, profile, &parts.roles).into_iter();
        return sorted(
            blockings
                .map(|t| (of_blocking(nest, profile, &parts.roles, &t), Schedule::Attention(t))),
        );
    }
    if nest.aggregates_into_rows() {
        let Some(roles) = nest.roles().filter(|roles| whole_rows::suits(nest, roles)) else {
            return Vec::new();
        };
        let tilings = tilings(nest, profile, &roles).into_iter();
        return sorted(
            tilings.map(|t| (of_tiling(nest, profile, &roles, &t), Schedule::Contraction(t))),
        );
    }
    if !nest.columns().is_empty() {
        let time = of_rows(nest, profile);
        return rows(nest, profile).into_iter().map(|schedule| (time, schedule)).collect();
    }
    let tiled = nest.roles().map_or(Vec::new(), |roles| {
        let tilings = tilings(nest, profile, &roles).into_iter();
        let plain =
            tilings.map(|t| (of_tiling(nest, profile, &roles, &t), Schedule::Contraction(t)));
        let by_matrices =
            profile.matrices.iter().flat_map(|unit| matrix_tilings(nest, profile, &roles, unit));
        let by_matrices =
            by_matrices.map(|t| (of_matrices(nest, profile, &roles, &t), Schedule::Matrices(t)));
        plain.chain(by_matrices).collect()
    });
    let sliced = match nest.aggregation {
        // At most one point falls on a place: there is nothing to combine.
        None | Some(Aggregation::Assign) => Vec::new(),
        Some(_) => {
            let slicings = slicings(nest, profile).into_iter();
            slicings.map(|s| (of_reduction(nest, profile, &s), Schedule::Reduction(s))).collect()
        }
    };
    let templates = [tiled, pointwise(nest, profile), sliced];
    let least =
        |all: &[(f64, Schedule)]| all.iter().map(|(time, _)| *time).fold(f64::INFINITY, f64::min);
    let bests = templates.each_ref().map(|all| least(all));
    let best = bests.iter().copied().fold(f64::INFINITY, f64::min);
    let preferred = bests.into_iter().find(|&time| time <= EQUAL * best).unwrap_or(best);
    let mut all = sorted(templates.concat().into_iter());
    if let Some(first) = all.iter().position(|(time, _)| *time == preferred) {
        all[..=first].rotate_right(1);
    }
    all
}

/// Returns the schedule of the nest's native program, if no operand is kept.
fn native(nest: &Nest, profile: &Profile) -> Schedule {
    Schedule::Native(NativeProgram::new(nest, profile, &|_| false).method())
}

/// Sorts schedules by predicted time.
fn sorted(schedules: impl Iterator<Item = (f64, Schedule)>) -> Vec<(f64, Schedule)> {
    let mut all: Vec<(f64, Schedule)> = schedules.collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

fn pointwise(nest: &Nest, profile: &Profile) -> Vec<(f64, Schedule)> {
    let widths: &[u8] =
        match nest.free.checked_sub(1).and_then(|axis| lanes::of_places(nest, axis, 4)) {
            Some(_) => &[4, 1],
            None => &[1],
        };
    let mut all = Vec::new();
    for &width in widths {
        for workgroup in [128, 256, 64] {
            let workgroup = workgroup.min(profile.max_invocations).min(profile.max_workgroup[0]);
            all.push((
                of_pointwise(nest, profile, workgroup, width),
                Schedule::Pointwise { workgroup, width },
            ));
        }
    }
    all
}

/// Returns the schedules for row statistics. An invocation computes some columns, so that a
/// workgroup has several short rows, or one long row.
fn rows(nest: &Nest, profile: &Profile) -> Vec<Schedule> {
    let last = nest.free.saturating_sub(1);
    let width = if lanes::of_places(nest, last, 4).is_some() { 4 } else { 1 };
    let vectors = nest.row_length().div_ceil(width as usize);
    let limit = profile.max_invocations.min(profile.max_workgroup[0]);
    let mut all = Vec::new();
    for workgroup in [128, 256, 64].map(|workgroup| 1 << u32::min(workgroup, limit).ilog2()) {
        let lanes = vectors.div_ceil(COLUMNS).next_power_of_two().min(workgroup as usize) as u32;
        for lanes in [lanes, 2 * lanes, lanes / 2] {
            if (1..=workgroup).contains(&lanes) {
                all.push(Schedule::Rows { workgroup, lanes, width });
            }
        }
    }
    all
}

/// Returns the ways to slice a reduction.
fn slicings(nest: &Nest, profile: &Profile) -> Vec<Slicing> {
    let limit = profile.max_invocations.min(profile.max_workgroup[0]);
    let mut rows = vec![1];
    if let Some(roles) = nest.roles() {
        let [rows_count, columns, ..] = extents(nest, &roles);
        rows.extend(
            [rows_count, columns]
                .into_iter()
                .find(|count| (2..=FEW_ROWS).contains(count))
                .map(|c| c as u32),
        );
    }
    let element = nest
        .accumulator()
        .and_then(|dtype| compute_type(dtype, profile))
        .map_or(4, |dtype| dtype.size());
    let mut all = Vec::new();
    for along in [Along::Points, Along::Places] {
        for (width, &rows) in
            [4, 1].into_iter().flat_map(|width| rows.iter().map(move |rows| (width, rows)))
        {
            let one = Slicing { places: 1, slices: 1, along, width, rows };
            if reduction::vectors(nest, &one).is_none() {
                continue;
            }
            let of_place = if along == Along::Places { width as u32 } else { 1 };
            for workgroup in [128, 256, 64].into_iter().filter(|&workgroup| workgroup <= limit) {
                let most = workgroup.min(nest.reduction_points().next_power_of_two() as u32);
                for slices in
                    [256, 128, 64, 32, 16, 8, 4, 2].into_iter().filter(|&slices| slices <= most)
                {
                    let s = Slicing { places: workgroup / slices, slices, ..one };
                    if s.places == 1 && along == Along::Places && width == 1 {
                        continue;
                    }
                    // Each invocation stores a value, and possibly a flag and a position.
                    let words = (element as u32 + 8) * of_place * rows * workgroup;
                    let groups = nest.places() / (rows * of_place) as usize;
                    let launches = groups.div_ceil(s.places as usize) <= profile.max_grid as usize;
                    let idle = s.places > 1 && groups < s.places as usize / 2;
                    if words <= profile.max_shared_bytes && launches && !idle {
                        all.push(s);
                    }
                }
            }
        }
    }
    all
}

/// Returns the tilings of a product that suit the device and the sizes: no block is twice as large
/// as needed.
fn tilings(nest: &Nest, profile: &Profile, roles: &Roles) -> Vec<Tiling> {
    let [rows, columns, depth, _] = extents(nest, roles);
    let Some(dtype) = compute_type(nest.body.dtype(roles.left), profile) else { return Vec::new() };
    if rows < 4 || columns < 4 || depth < 4 || dtype.size() > 4 {
        return Vec::new();
    }
    let code = Code::of(nest, roles);
    let whole_rows = nest.aggregates_into_rows();
    let depths = if whole_rows { &WHOLE_ROW_DEPTHS[..] } else { &DEPTHS };
    let mut blocks = Vec::new();
    if whole_rows {
        for threads in THREADS {
            let sizes = row_sizes(nest, profile, roles, threads.1);
            blocks.extend(sizes.into_iter().map(|(block, down)| (block, down, threads)));
        }
    } else {
        for (block, down) in block_sizes(nest, profile, roles) {
            blocks.extend(THREADS.map(|threads| (block, down, threads)));
        }
    }
    let mut all = Vec::new();
    for ([block_rows, block_columns], down, (thread_rows, thread_columns)) in blocks {
        for &block_reduction in depths {
            let plain = Tiling {
                block_rows,
                block_columns,
                block_reduction,
                thread_rows,
                thread_columns,
                warp_rows: 1,
                buffers: 1,
                band: 1,
            };
            // Each place, or vector, of the register tile gets its own copy of the epilogue's code.
            let copies = thread_rows * thread_columns.div_ceil(vector_of(thread_columns));
            let staged = block_rows.max(block_columns) * block_reduction;
            let fits = (16..=profile.max_invocations.min(profile.max_workgroup[0]))
                .contains(&plain.invocations())
                && block_rows.is_multiple_of(thread_rows)
                && code.fits(copies, staged, plain.invocations());
            if fits {
                all.extend(variants(&plain, depth, down));
            }
        }
    }
    all.retain(|t| {
        t.shared_bytes(dtype.size()) + whole_rows::shared_bytes(nest, profile, t)
            <= profile.max_shared_bytes
    });
    prefer_whole_subgroups(&mut all, profile, |t| {
        [t.invocations(), tiling_registers(t, whole_rows)]
    });
    all
}

/// Returns the tilings of a product for the device's matrix units.
fn matrix_tilings(
    nest: &Nest,
    profile: &Profile,
    roles: &Roles,
    unit: &MatrixUnit,
) -> Vec<MatrixTiling> {
    let [rows, columns, depth, _] = extents(nest, roles);
    if matrices::factors(nest, roles, unit).is_none() || rows < 4 || columns < 4 || depth < 4 {
        return Vec::new();
    }
    let code = Code::of(nest, roles);
    let mut all = Vec::new();
    for ([block_rows, block_columns], blocks_down) in block_sizes(nest, profile, roles) {
        for (down, across) in SUBGROUPS {
            for (block_reduction, buffers) in [(32, 2), (16, 2), (32, 1), (16, 1)] {
                let plain = MatrixTiling {
                    unit: *unit,
                    block_rows,
                    block_columns,
                    block_reduction,
                    down,
                    across,
                    buffers,
                    band: 1,
                };
                if !plain.is_whole() || (buffers == 2 && depth <= block_reduction as usize) {
                    continue;
                }
                let invocations = plain.invocations();
                let places = block_rows * block_columns / invocations;
                let staged = block_rows.max(block_columns) * block_reduction;
                let fits = invocations <= profile.max_invocations.min(profile.max_workgroup[0])
                    && places <= 128
                    && plain.matrices().iter().product::<u32>() <= MATRICES
                    && code.fits(block_rows * block_columns / 4 / invocations, staged, invocations)
                    && plain.shared_bytes() <= profile.max_shared_bytes;
                if fits {
                    all.extend(bands(blocks_down).map(|band| MatrixTiling { band, ..plain }));
                }
            }
        }
    }
    all
}

/// Keeps the schedules with whole subgroups, and with registers that leave enough of them, if there
/// are any. `sizes` returns the invocations of a workgroup, and the registers of each.
fn prefer_whole_subgroups<T>(all: &mut Vec<T>, profile: &Profile, sizes: impl Fn(&T) -> [u32; 2]) {
    let core = &profile.rates.core;
    let is_preferred = |schedule: &T| {
        let [invocations, registers] = sizes(schedule);
        invocations >= core.subgroup && registers <= core.most_registers
    };
    if all.iter().any(is_preferred) {
        all.retain(is_preferred);
    }
}

/// Returns the block sizes (rows and columns) that suit a product, each with the number of blocks
/// down. No block is twice as large as needed, and the device can launch their workgroups.
fn block_sizes(nest: &Nest, profile: &Profile, roles: &Roles) -> Vec<([u32; 2], usize)> {
    let [rows, columns, _, batch] = extents(nest, roles);
    let suits = |block: u32, count: usize| block == BLOCKS[3] || (block as usize) < 2 * count;
    let mut all = Vec::new();
    for block_rows in BLOCKS.into_iter().filter(|&block| suits(block, rows)) {
        for block_columns in BLOCKS.into_iter().filter(|&block| suits(block, columns)) {
            let blocks = [
                columns.div_ceil(block_columns as usize),
                rows.div_ceil(block_rows as usize),
                batch,
            ];
            if blocks.iter().all(|&blocks| blocks <= profile.max_grid as usize) {
                all.push(([block_rows, block_columns], blocks[1]));
            }
        }
    }
    all
}

/// Returns the same for blocks of whole rows, if an invocation computes `thread_columns` columns.
fn row_sizes(
    nest: &Nest,
    profile: &Profile,
    roles: &Roles,
    thread_columns: u32,
) -> Vec<([u32; 2], usize)> {
    let [rows, columns, _, batch] = extents(nest, roles);
    let block_columns = columns.next_multiple_of(thread_columns as usize);
    let most = (profile.max_invocations * thread_columns) as usize;
    let least = WHOLE_ROWS[WHOLE_ROWS.len() - 1];
    let heights =
        WHOLE_ROWS.into_iter().filter(|&height| height == least || (height as usize) < 2 * rows);
    let sizes =
        heights.map(|height| ([height, block_columns as u32], rows.div_ceil(height as usize)));
    let launches =
        |down: usize| [down, batch].iter().all(|&blocks| blocks <= profile.max_grid as usize);
    sizes.filter(|&(_, down)| block_columns <= most && launches(down)).collect()
}

/// The code size of a tiled product: instructions for a place, and for an operand's element.
struct Code {
    place: usize,
    element: usize,
}

impl Code {
    fn of(nest: &Nest, roles: &Roles) -> Code {
        let element = nest.body.insts.len() * loads_of(&nest.body, roles.left).count().max(1);
        Code { place: nest.epilogue.insts.len(), element }
    }

    /// Returns whether the code of an invocation is short enough, if it has `copies` of the
    /// epilogue and stages its share of a block of `staged` elements.
    fn fits(&self, copies: u32, staged: u32, invocations: u32) -> bool {
        self.place * copies as usize <= 512
            && self.element * staged as usize <= 256 * invocations as usize
    }
}

/// Returns the band heights possible in a grid with `down` rows of blocks.
fn bands(down: usize) -> impl Iterator<Item = u32> {
    [1, 4, 8].into_iter().filter(move |&band| band == 1 || down.is_multiple_of(band as usize))
}

/// Returns the blockings of an attention nest that suit the device.
fn blockings(nest: &Nest, profile: &Profile, roles: &Roles) -> Vec<Blocking> {
    let [rows, columns, points, batch] = extents(nest, roles);
    let code = nest.body.insts.len() + nest.epilogue.insts.len();
    let mut all = Vec::new();
    for (block_rows, block_points) in
        [64, 32, 16].into_iter().flat_map(|rows| [64, 32, 16].map(|points| (rows, points)))
    {
        let suits = |block: u32, count: usize| block == 16 || (block as usize) < 2 * count;
        let launches = [rows.div_ceil(block_rows as usize), batch]
            .iter()
            .all(|&count| count <= profile.max_grid as usize);
        if !suits(block_rows, rows) || !suits(block_points, points) || !launches {
            continue;
        }
        for (thread_rows, thread_points) in THREADS {
            for depth in DEPTHS {
                let t = Blocking {
                    rows: block_rows,
                    points: block_points,
                    depth,
                    thread_rows,
                    thread_points,
                };
                let columns_each = t.thread_columns(columns);
                let copies = (thread_rows
                    * thread_points.max(columns_each.div_ceil(vector_of(columns_each))))
                    as usize;
                let fits = (16..=profile.max_invocations.min(profile.max_workgroup[0]))
                    .contains(&t.invocations())
                    && t.shared_bytes(columns, nest.inner.len()) <= profile.max_shared_bytes
                    && thread_rows * (columns_each + thread_points * nest.inner.len() as u32)
                        <= 128
                    && copies * code <= 1024;
                if fits {
                    all.push(t);
                }
            }
        }
    }
    prefer_whole_subgroups(&mut all, profile, |t| {
        [t.invocations(), blocking_registers(t, columns, nest.inner.len())]
    });
    all
}

/// Returns the tiling with every order of invocations and workgroups, and every number of buffers.
fn variants(plain: &Tiling, depth: usize, down: usize) -> Vec<Tiling> {
    let (across, rows) = plain.threads();
    let mut all = Vec::new();
    for warp_rows in [4, 8, 2, 1] {
        let width = (32 / warp_rows).min(across);
        if !rows.is_multiple_of(warp_rows)
            || !across.is_multiple_of(width)
            || (width == across && warp_rows > 1)
        {
            continue;
        }
        for buffers in [1, 2] {
            if buffers == 2 && depth <= plain.block_reduction as usize {
                continue;
            }
            all.extend(bands(down).map(|band| Tiling { warp_rows, buffers, band, ..*plain }));
        }
    }
    all
}
