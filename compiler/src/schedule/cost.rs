//! The cost model: a rough prediction of how long a schedule takes. It is the launch overhead plus
//! the maximum of the times that arithmetic, workgroup memory, the cache and memory would take
//! alone. Each is slower if occupancy is too low to hide latency. Only the order of the predictions
//! matters.

use std::collections::HashMap;

use crate::affine::Affine;
use crate::dtype::DType;
use crate::nest::{Load, Nest, Roles, loads_of};
use crate::profile::{Profile, Rates};

use super::contraction::extents;
use super::{Along, Blocking, MatrixTiling, Slicing, Tiling, Transform, reduction};

/// Registers of an invocation besides its register tile.
const OWN_REGISTERS: u32 = 32;

/// Operations in flight that keep a core busy.
const UNDER_WAY: f64 = 2048.0;

/// Throughput of f32 matrix products relative to f32 multiply-adds: one instruction reads the
/// operands of many.
const MATRICES_GAIN: f64 = 1.2;

/// Matrix products in flight that keep a core busy.
const MATRICES_UNDER_WAY: f64 = 16.0;

/// Bytes of the smallest memory transfer.
const SECTOR: f64 = 32.0;

/// Seconds of a barrier, and of the latency of memory.
const BARRIER: f64 = 1e-7;
const ANSWER: f64 = 4e-7;

/// Instructions of a read besides it: those of its address and of the loop.
const READ: f64 = 2.0;

/// Seconds of a multiply-add of an invocation that runs alone.
const MULTIPLY_ADD: f64 = 3e-10;

/// Bytes of an element.
const WORD: f64 = 4.0;

/// The workgroups of a kernel on the busiest core.
struct Occupancy {
    /// All its workgroups.
    all: f64,
    /// The workgroups that it runs at a time.
    together: f64,
    /// Their invocations, if each of its units had as many as those that have some.
    invocations: f64,
    /// Issue slots for each that has work: a subgroup with few invocations takes as long as a full
    /// one, and units with few subgroups wait for those with the most.
    padding: f64,
}

impl Occupancy {
    /// Returns the occupancy by `workgroups` of so many invocations, registers of each, and bytes
    /// of workgroup memory.
    fn new(rates: &Rates, workgroups: f64, threads: f64, registers: f64, shared: f64) -> Occupancy {
        let core = &rates.core;
        let [width, units] = [core.subgroup, core.units].map(f64::from);
        let subgroups = (threads / width).ceil();
        let room = f64::from(core.invocations).min(f64::from(core.registers) / registers);
        let room = (room / (width * units)).floor() * units / subgroups;
        let room = room.min(f64::from(core.shared_bytes) / shared);
        let all = (workgroups / rates.cores as f64).ceil();
        let together = room.floor().max(1.0).min(all);
        let running = together * subgroups;
        let turns = (all * subgroups / units).ceil();
        Occupancy {
            all,
            together,
            invocations: running * width * (units / running).max(1.0),
            padding: turns * units / (all * subgroups) * (subgroups * width / threads),
        }
    }

    /// Returns the share of its time in which the core issues, if each invocation has so many
    /// independent operations.
    fn busy(&self, independent: f64) -> f64 {
        (self.invocations * independent / UNDER_WAY).min(1.0)
    }
}

/// Returns an estimate of the registers of an invocation of a tiled product. It reads the elements
/// that it stages at once. Row statistics take another copy of the tile.
pub(super) fn tiling_registers(t: &Tiling, whole_rows: bool) -> u32 {
    let staged = (t.block_rows + t.block_columns) * t.block_reduction * t.buffers;
    let tile = t.thread_rows * t.thread_columns * if whole_rows { 2 } else { 1 };
    tile + t.thread_rows + t.thread_columns + OWN_REGISTERS + staged / t.invocations()
}

/// Returns the same for an attention nest with so many columns and inner sums. Scores exist twice
/// while the new ones are scaled.
pub(super) fn blocking_registers(t: &Blocking, columns: usize, inner: usize) -> u32 {
    let scores = 2 * inner as u32 * t.thread_rows * t.thread_points;
    let staged = (t.rows + t.points + columns as u32) * t.depth / t.invocations();
    scores + t.thread_rows * (t.thread_columns(columns) + 1) + OWN_REGISTERS + staged
}

/// Predicts the seconds of a tiled product.
pub(super) fn of_tiling(nest: &Nest, profile: &Profile, roles: &Roles, t: &Tiling) -> f64 {
    let rates = &profile.rates;
    let [.., depth, _] = extents(nest, roles);
    let blocks = blocks(nest, roles, [t.block_rows, t.block_columns]).iter().product::<f64>();
    let threads = t.invocations() as f64;
    let turns = depth.div_ceil(t.block_reduction as usize) as f64;
    let staged = ((t.block_rows + t.block_columns) * t.block_reduction) as f64;

    let ahead = if t.buffers == 2 { staged / threads } else { 0.0 };
    let tile = t.thread_rows * t.thread_columns;
    let registers = (tile + t.thread_rows + t.thread_columns + OWN_REGISTERS) as f64 + ahead;
    let on = Occupancy::new(rates, blocks, threads, registers, t.shared_bytes(4) as f64);
    let hidden = if t.buffers == 2 { 1.5 } else { 1.0 };
    let busy = on.busy((tile as f64).min(8.0) * hidden);

    // The work of a core for one block.
    let points = (t.block_rows * t.block_columns) as f64 * turns * t.block_reduction as f64;
    let width = (32 / t.warp_rows).min(t.threads().0);
    let read = if rates.core.broadcasts {
        let warp = (t.warp_rows * t.thread_rows + width * t.thread_columns) as f64;
        let issued = (t.thread_rows.div_ceil(4) + t.thread_columns.div_ceil(4)) as f64 * 32.0;
        points / (32.0 * tile as f64) * (warp * WORD + issued)
    } else {
        points / tile as f64 * (t.thread_rows + t.thread_columns) as f64 * WORD
    };
    let slots = |left: bool| if is_read_in_vectors(nest, roles, left) { 2.0 } else { 6.0 };
    let staging = turns
        * t.block_reduction as f64
        * (t.block_rows as f64 * slots(true) + t.block_columns as f64 * slots(false))
        + turns * threads * rates.core.turn_slots;
    let core = rates.flops / rates.cores as f64;
    let shared = (read + turns * staged * WORD) / rates.core.shared_rate;
    let work = (2.0 * points * on.padding / busy).max(shared) + 2.0 * staging * on.padding / busy;
    let barriers = turns * (3 - t.buffers) as f64;
    let arithmetic = on.all * work / core + on.all / on.together * barriers * BARRIER / 4.0;

    let sizes = [t.block_rows, t.block_columns];
    let moved = of_blocks(nest, profile, roles, sizes, t.band, on.together);
    let waits = if t.buffers == 2 { ANSWER } else { turns * ANSWER };
    let alone = waits + turns * t.block_reduction as f64 * tile as f64 * MULTIPLY_ADD;
    rates.launch + arithmetic.max(moved).max(alone)
}

/// Predicts the seconds of a product on matrix units.
pub(super) fn of_matrices(nest: &Nest, profile: &Profile, roles: &Roles, t: &MatrixTiling) -> f64 {
    let rates = &profile.rates;
    let [.., depth, _] = extents(nest, roles);
    let blocks = blocks(nest, roles, [t.block_rows, t.block_columns]).iter().product::<f64>();
    let threads = t.invocations() as f64;
    let subgroups = (t.down * t.across) as f64;
    let turns = depth.div_ceil(t.block_reduction as usize) as f64;
    let (places, deep) =
        ((t.block_rows * t.block_columns) as f64, turns * t.block_reduction as f64);

    let [own_down, own_across] = t.matrices().map(f64::from);
    let registers = places / threads + OWN_REGISTERS as f64;
    let on = Occupancy::new(rates, blocks, threads, registers, t.shared_bytes() as f64);
    let hidden = if t.buffers == 2 { 1.5 } else { 1.0 };
    let busy = (on.together * subgroups * (own_down * own_across).min(4.0) * hidden
        / MATRICES_UNDER_WAY)
        .min(1.0);

    // The work of a core for one block: matrix products, reads of workgroup memory, staging, and
    // moving the sums to the epilogue.
    let (gain, element) = match t.unit.factors {
        DType::F16 => (rates.matrix_gain, 2.0),
        _ => (MATRICES_GAIN, WORD),
    };
    let products = 2.0 * places * deep / (gain * busy);
    let lines = t.across as f64 * t.block_rows as f64 + t.down as f64 * t.block_columns as f64;
    let staged = (t.block_rows + t.block_columns) as f64;
    let shared = ((lines + staged) * deep * element + 3.0 * places * WORD) / rates.core.shared_rate;
    let slots = |left: bool| if is_read_in_vectors(nest, roles, left) { 2.0 } else { 6.0 };
    let staging = deep
        * (t.block_rows as f64 * slots(true) + t.block_columns as f64 * slots(false))
        + 4.0 * places;
    let core = rates.flops / rates.cores as f64;
    let barriers = turns * (3 - t.buffers) as f64 + 2.0 * own_down;
    let arithmetic = on.all * (products.max(shared) + 2.0 * staging) / core
        + on.all / on.together * barriers * BARRIER / 4.0;

    let sizes = [t.block_rows, t.block_columns];
    let moved = of_blocks(nest, profile, roles, sizes, t.band, on.together);
    let waits = if t.buffers == 2 { ANSWER } else { turns * ANSWER };
    rates.launch + arithmetic.max(moved).max(waits)
}

/// Returns the number of blocks down, across, and in the batch.
fn blocks(nest: &Nest, roles: &Roles, [block_rows, block_columns]: [u32; 2]) -> [f64; 3] {
    let [rows, columns, _, batch] = extents(nest, roles);
    let down = rows.div_ceil(block_rows as usize);
    [down, columns.div_ceil(block_columns as usize), batch].map(|count| count as f64)
}

/// Predicts the seconds in which the cache and memory deliver the operands of all blocks. A core
/// runs `together` workgroups at a time, which share what they read.
fn of_blocks(
    nest: &Nest,
    profile: &Profile,
    roles: &Roles,
    [block_rows, block_columns]: [u32; 2],
    band: u32,
    together: f64,
) -> f64 {
    let rates = &profile.rates;
    let depth = extents(nest, roles)[2] as f64;
    let [down, across, batch] = blocks(nest, roles, [block_rows, block_columns]);
    let blocks = down * across * batch;
    let cached = blocks * (block_rows + block_columns) as f64 * depth * WORD;
    let wave = (rates.cores as f64 * together).min(blocks);
    let high = if band > 1 { band as f64 } else { (wave / across).ceil() }.min(down);
    let wide = (wave / high).min(across);
    let fresh =
        (high * block_rows as f64 + wide * block_columns as f64) * depth * WORD * blocks / wave;
    let once = footprint(nest);
    let fetched = if once < rates.cache_bytes { once } else { fresh.max(once) };
    (cached / rates.cache).max(fetched / rates.memory)
}

/// Predicts the seconds of an attention nest.
pub(super) fn of_blocking(nest: &Nest, profile: &Profile, roles: &Roles, t: &Blocking) -> f64 {
    let rates = &profile.rates;
    let [rows, columns, points, batch] = extents(nest, roles);
    let [_, across] = t.threads();
    let columns_each = t.thread_columns(columns);
    let threads = t.invocations() as f64;
    let blocks = (rows.div_ceil(t.rows as usize) * batch) as f64;
    let turns = points.div_ceil(t.points as usize) as f64;
    let (tile, of_columns) =
        ((t.thread_rows * t.thread_points) as f64, (t.thread_rows * columns_each) as f64);

    let registers =
        nest.inner.len() as f64 * tile + of_columns + (t.thread_rows + OWN_REGISTERS) as f64;
    let shared = t.shared_bytes(columns, nest.inner.len()) as f64;
    let on = Occupancy::new(rates, blocks, threads, registers, shared);
    let busy = on.busy(tile.min(8.0));

    // Multiply-adds of an invocation for a block of points, words that it reads from workgroup
    // memory, and elements that it stages.
    let depths = nest.inner.iter().map(|inner| nest.points(inner.axes.clone()));
    let depth = depths.map(|depth| depth.next_multiple_of(t.depth as usize)).sum::<usize>() as f64;
    let terms = tile * depth + of_columns * t.points as f64;
    let read = (t.thread_rows + t.thread_points) as f64 * depth
        + (t.thread_rows + columns_each) as f64 * t.points as f64;
    let staged =
        ((t.rows + t.points) as f64 * depth + (columns_each * across * t.points) as f64) / threads;
    let others = tile * 4.0 * nest.body.insts.len() as f64;
    let shared = (read + staged) * WORD / rates.core.shared_rate;
    let work =
        threads * turns * ((2.0 * terms + others).max(shared) + 8.0 * staged) * on.padding / busy;
    let barriers = turns
        * (2.0 * depth / t.depth as f64 + 2.0 * (t.points / t.depth).max(1) as f64 + 1.0)
        * BARRIER
        / 4.0;
    let arithmetic =
        on.all * work / (rates.flops / rates.cores as f64) + on.all / on.together * barriers;
    rates.launch + arithmetic.max(footprint(nest) / rates.memory)
}

/// Returns whether an operand is contiguous along the last axis of its own or of the reduction, so
/// that it can be read in vectors.
fn is_read_in_vectors(nest: &Nest, roles: &Roles, left: bool) -> bool {
    let (factor, axes) =
        if left { (roles.left, &roles.rows) } else { (roles.right, &roles.columns) };
    let last = [axes.last(), roles.reduction.last()];
    let runs = |load: &Load| {
        let mut axes = last.iter().flatten();
        axes.any(|&&axis| {
            load.offset.coefficient(axis) == 1 && nest.axes[axis].extent.is_multiple_of(4)
        })
    };
    loads_of(&nest.body, factor).all(runs)
}

/// Predicts the seconds of a sliced reduction.
pub(super) fn of_reduction(nest: &Nest, profile: &Profile, s: &Slicing) -> f64 {
    let Some((_, others)) = reduction::divided(nest, s.rows) else { return f64::INFINITY };
    let (axis, wide, deep) = match s.along {
        Along::Places => (others.last().copied(), s.width as f64, 1.0),
        Along::Points => (nest.reduction().last(), 1.0, s.width as f64),
    };
    // Past the end of the axis, neighbours are not adjacent in memory.
    let run = s.width as u32 * if s.along == Along::Places { s.places } else { s.slices };
    let run = axis.map_or(1.0, |axis| nest.axes[axis].extent as f64 / run as f64).clamp(0.25, 1.0);
    let steps = nest.reduction_points() as f64 / deep / s.slices as f64;
    let workgroups = (nest.places() as f64 / s.rows as f64 / wide / s.places as f64).ceil();
    let waves = (workgroups * (s.places * s.slices) as f64 / invocations(&profile.rates)).ceil();
    let tree = s.slices.ilog2() as f64 * BARRIER * (1.0 + s.rows as f64 * wide / 4.0);
    let time =
        streaming(nest, profile, axis, s.width, s.rows, workgroups) * steps.ceil() / steps / run;
    // An invocation waits for the reads of a turn.
    let turns = (steps / reduction::steps_together(nest, s) as f64).ceil();
    profile.rates.launch + overlapped([time, waves * turns * ANSWER]) + waves * tree
}

/// Predicts the seconds of rows with statistics. Each row is read once.
pub(super) fn of_rows(nest: &Nest, profile: &Profile) -> f64 {
    profile.rates.launch + (footprint(nest) / profile.rates.memory).max(ANSWER)
}

/// Predicts the seconds of the pointwise template, with one invocation for `width` places.
pub(super) fn of_pointwise(nest: &Nest, profile: &Profile, workgroup: u32, width: u8) -> f64 {
    let all = nest.places() as f64 / width as f64;
    let waves = (all / invocations(&profile.rates)).ceil();
    let workgroups = (all / workgroup as f64).ceil();
    let time = streaming(nest, profile, nest.free.checked_sub(1), width, 1, workgroups);
    profile.rates.launch + overlapped([time, waves * nest.reduction_points() as f64 * ANSWER])
}

/// Predicts the seconds of a sum with constant tables, whose blocks take so many multiply-adds,
/// with `width` blocks an invocation. All elements of a block are in registers.
pub(super) fn of_transform(
    nest: &Nest,
    profile: &Profile,
    transform: &Transform,
    multiply_adds: usize,
    workgroup: u32,
    width: u8,
) -> f64 {
    let rates = &profile.rates;
    let (read, written) = (nest.reduction_points() as f64, transform.places() as f64);
    let invocations = transform.blocks() as f64 / f64::from(width);
    let workgroups = (invocations / f64::from(workgroup)).ceil();
    let registers = read.max(written) * f64::from(width) + f64::from(OWN_REGISTERS);
    let on = Occupancy::new(rates, workgroups, f64::from(workgroup), registers, 1.0);
    let slots = multiply_adds as f64
        + (READ * read + written * nest.epilogue.insts.len() as f64) / f64::from(width);
    let share = share_of_bandwidth(workgroups, rates);
    let times = [
        2.0 * slots * transform.blocks() as f64 * on.padding / on.busy(4.0) / rates.flops,
        transform.blocks() as f64 * (read + written) * WORD / rates.cache / share,
        footprint(nest) / rates.memory / share,
        (invocations / (rates.cores as f64 * on.invocations)).ceil() * 2.0 * ANSWER,
    ];
    rates.launch + overlapped(times)
}

/// Returns the number of invocations that run at a time.
fn invocations(rates: &Rates) -> f64 {
    rates.cores as f64 * f64::from(rates.core.invocations)
}

/// Predicts the seconds that memory and arithmetic take if every read goes to the cache or to
/// memory. Consecutive invocations are adjacent along `axis`.
fn streaming(
    nest: &Nest,
    profile: &Profile,
    axis: Option<usize>,
    width: u8,
    rows: u32,
    workgroups: f64,
) -> f64 {
    let rates = &profile.rates;
    let (places, points) = (nest.places() as f64, nest.reduction_points() as f64);
    let coalesced = |load: &Load| match axis.map(|axis| load.offset.coefficient(axis)) {
        Some(0) | None => WORD / width as f64 / 8.0,
        Some(1 | -1) if load.dynamic.is_empty() => size(nest, load),
        Some(_) => SECTOR,
    };
    let of_body: f64 = nest.body_loads().map(coalesced).sum();
    let of_epilogue: f64 =
        nest.epilogue_loads().map(coalesced).sum::<f64>() + WORD * nest.outputs.len() as f64;
    let shared = if rows > 1 { 1.0 + rows as f64 / 2.0 } else { 1.0 };
    let cached = places * (points * of_body / shared + of_epilogue);
    // A vector takes one address and one read.
    let of_point =
        nest.body.insts.len() as f64 + READ * nest.body_loads().count() as f64 / width as f64;
    let operations = places * (points * of_point + nest.epilogue.insts.len() as f64);
    let times = [
        2.0 * operations / rates.flops,
        cached / (2.0 * rates.cache),
        footprint(nest) / rates.memory,
    ];
    overlapped(times) / share_of_bandwidth(workgroups, rates)
}

/// Returns the share of the bandwidth that workgroups get: one core alone gets more than its own.
fn share_of_bandwidth(workgroups: f64, rates: &Rates) -> f64 {
    (4.0 * workgroups / rates.cores as f64).min(1.0)
}

/// Returns the time of parts that run at the same time: the longest, and a little of the others, so
/// that the least work wins where one part is the longest in several schedules.
fn overlapped<const N: usize>(times: [f64; N]) -> f64 {
    times.iter().copied().fold(0.0, f64::max) + times.iter().sum::<f64>() / 16.0
}

/// Returns the bytes that a nest reads and writes if it touches each element once.
fn footprint(nest: &Nest) -> f64 {
    let mut read: HashMap<usize, f64> = HashMap::new();
    for load in nest.loads() {
        let all = nest.operands[load.operand].elements() as f64;
        let elements = match load.dynamic.is_empty() {
            true => extent(nest, &load.offset).min(all),
            false => all,
        };
        let bytes = read.entry(load.operand).or_insert(0.0);
        *bytes = bytes.max(elements * size(nest, load));
    }
    let written = (nest.outputs.len() * nest.places()) as f64;
    read.values().sum::<f64>() + WORD * written
}

/// Returns the bytes of an element that a load reads.
fn size(nest: &Nest, load: &Load) -> f64 {
    if nest.in_bytes.contains(&load.operand) { 1.0 } else { WORD }
}

/// Returns an upper bound of the number of values that an expression takes.
fn extent(nest: &Nest, affine: &Affine) -> f64 {
    let bounds = nest.variable_bounds();
    let of = |(variable, _): &(usize, i64)| {
        bounds.get(*variable).map_or(1.0, |(low, high)| (high - low) as f64 + 1.0)
    };
    affine.terms().iter().map(of).product()
}
