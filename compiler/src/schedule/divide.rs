//! Splits a reduction that is too long for its few places into two nests. The first aggregates
//! parts of the reduction in parallel; the second aggregates the parts, in order, and runs the
//! epilogue.
//!
//! Example: `y[] = +(x[i: 1000000])` becomes `p[s: 64] = +(x[15625*s + i: 15625])`, then
//! `y[] = +(p[s: 64])`. A cpu has its vectors along columns. There, `y[c: 32] = +(x[i: 65536, c])`
//! becomes `p[s: 128, c] = +(x[128*i + s, c])`, with rows of 4096, then `y[c] = +(p[s, c])`.
//!
//! Why it is sound: sums, products, maxima and minima are associative and commutative, and a part
//! in which no point counts is the identity. So the aggregate of the parts is that of all points,
//! up to rounding. The order of rounding is the same in every run.

use crate::affine::Affine;
use crate::nest::{Axis, Derived, Leaf, Load, Nest, Output, change_program, simplify};
use crate::profile::{Execution, Profile};
use crate::scalar::{Inst, Program};
use crate::tensor::TensorType;

use super::choose::{EQUAL, ranked};

/// The fewest points of a part.
const PART: usize = 64;

/// The most columns for which a cpu splits a reduction: more columns fill its vectors.
const MOST_COLUMNS: usize = 63;
/// Bounds of the row length after the split on a cpu: shorter rows are not worth another nest.
const LEAST_BESIDE: usize = 256;
const MOST_BESIDE: usize = 4096;

/// The least time of a nest to be split, in launch overheads.
const WORTHWHILE: f64 = 2.0;

/// A nest split in two.
pub struct Divided {
    /// The nest that aggregates each part.
    pub first: Nest,
    /// The operands of the whole nest that `first` reads.
    pub first_operands: Vec<usize>,
    /// The nest that aggregates the parts, which are its last operand.
    pub second: Nest,
    /// The operands of the whole nest that `second` reads.
    pub second_operands: Vec<usize>,
    /// The type of the parts.
    pub parts: TensorType,
}

/// Splits a nest. On a GPU, `None` unless the two nests are predicted to be faster by more than the
/// error of the cost model; on a cpu, `None` unless the nest has few columns.
pub fn divide(nest: &Nest, profile: &Profile) -> Option<Divided> {
    let is_plain = !nest.tracks_written()
        && nest.loops == 0
        && nest.inner.is_empty()
        && nest.columns().is_empty();
    let suits = nest.aggregation?.operation().is_some() && is_plain;
    let reduces = |v| nest.depends_on_reduction(v);
    let is_derived = nest.derived.iter().any(|derived| derived.numerator.variables().any(reduces));
    let long = nest.accumulator()?.size() == 4 && nest.reduction_points() >= 4 * PART;
    if !suits || is_derived || !long {
        return None;
    }
    if profile.execution == Execution::Native {
        return side_by_side(nest);
    }
    let time = |nest: &Nest| {
        ranked(nest, profile).into_iter().map(|(time, _)| time).fold(f64::INFINITY, f64::min)
    };
    let whole = time(nest);
    if whole < WORTHWHILE * profile.rates.launch {
        return None;
    }
    let parts = [4, 16, 64, 256].into_iter().filter_map(|parts| {
        let two = in_blocks(nest, parts)?;
        // It reads the parts beside its other operands.
        let binds = two.second.operands.len() + two.second.outputs.len();
        if binds > profile.max_buffers as usize {
            return None;
        }
        Some((time(&two.first) + time(&two.second), two))
    });
    let best =
        parts.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(of_two, _)| EQUAL * of_two < whole)?;
    Some(best.1)
}

/// Splits the outermost long reduction axis into at most `parts` parts of consecutive points.
/// `None` if no axis is long enough.
fn in_blocks(nest: &Nest, parts: usize) -> Option<Divided> {
    // Splitting the outermost long axis keeps inner, contiguous points together.
    let axis = nest.reduction().find(|&axis| nest.axes[axis].extent >= 2 * parts)?;
    let extent = nest.axes[axis].extent;
    let least = extent.div_ceil(parts);
    // Equal parts need no guard, and a length that is a multiple of 4 can be read in vectors.
    let fits = |step: usize| {
        let equal = (1..=parts).rev().filter(|&parts| extent.is_multiple_of(parts));
        let suits =
            |length: &usize| length.is_multiple_of(step) && (least..2 * least).contains(length);
        equal.map(|parts| extent / parts).find(suits)
    };
    let length = fits(4).or_else(|| fits(1)).unwrap_or(least);
    let parts = extent.div_ceil(length);
    let is_long = parts >= 2 && nest.reduction_points() / parts >= PART;
    is_long.then(|| divided(nest, axis, [parts, length], [length, 1]))?
}

/// Splits the innermost reduction axis for a cpu: with few columns, such as the channels of an
/// image, consecutive points become columns, too, so that vectors are long.
fn side_by_side(nest: &Nest) -> Option<Divided> {
    let (axis, columns) = (nest.reduction().next_back()?, nest.places());
    let follows = |leaf: &Leaf| match leaf {
        Leaf::Load(load) => {
            let steps = [0, axis].map(|axis| load.offset.coefficient(axis));
            load.dynamic.is_empty() && (steps == [0, 0] || steps == [1, columns as i64])
        }
        _ => true,
    };
    let is_plain =
        nest.guards.is_empty() && nest.derived.is_empty() && nest.body.leaves().all(follows);
    if nest.free != 1 || !(1..=MOST_COLUMNS).contains(&columns) || !is_plain {
        return None;
    }
    let extent = nest.axes[axis].extent;
    let most = extent.min(MOST_BESIDE / columns).min(nest.reduction_points() / PART);
    let parts = (2..=most)
        .rev()
        .find(|&parts| extent.is_multiple_of(parts) && parts * columns >= LEAST_BESIDE)?;
    let two = divided(nest, axis, [parts, extent / parts], [1, parts])?;
    // Merges the parts and the columns into one axis.
    let first = simplify(two.first).filter(|first| first.free == 1)?;
    Some(Divided { first, ..two })
}

/// Splits a reduction axis into `parts` parts of `length` points. Point `i` of part `s` is the
/// point `steps[0] * s + steps[1] * i` of the axis; points past the end of the axis are guarded.
fn divided(
    nest: &Nest,
    axis: usize,
    [parts, length]: [usize; 2],
    steps: [usize; 2],
) -> Option<Divided> {
    let extent = nest.axes[axis].extent;
    let (places, dtype) = (nest.places(), nest.accumulator()?);
    let all = TensorType::new(dtype, [parts * places]);
    let part = Axis { name: format!("{}_part", nest.axes[axis].name), extent: parts };

    // A new first axis numbers the parts.
    let mut first = nest.clone();
    first.name.push_str("_parts");
    first.axes[axis].extent = length;
    first.axes.insert(0, part.clone());
    first.free += 1;
    first.rows += 1;
    let point = Affine::new([(0, steps[0] as i64), (axis + 1, steps[1] as i64)], 0)?;
    let moved = |affine: &Affine| affine.map_variables(|v| v + 1)?.substitute(axis + 1, &point);
    for guard in &mut first.guards {
        *guard = moved(guard)?;
    }
    if parts * length != extent {
        first.guards.push(Affine::constant(extent as i64 - 1).sub(&point)?);
    }
    first.derived = change_derived(nest, moved)?;
    change_program(&mut first.body, changed(moved))?;
    let mut epilogue = Program::default();
    let accumulator = epilogue.push(Inst::Leaf(Leaf::Accumulator), dtype);
    epilogue.results.push(accumulator);
    first.epilogue = epilogue;
    first.outputs = vec![Output { ty: all.clone(), position: first.place(), over: None }];
    let first_operands = prune(&mut first);

    let (mut second, second_operands) = over_other_points(nest, vec![part])?;
    let offset = nest.place().add(&Affine::new([(nest.free, places as i64)], 0)?)?;
    let load =
        Load { operand: second.operands.len(), offset, dynamic: Vec::new(), when: Vec::new() };
    second.operands.push(all.clone());
    let value = second.body.push(Inst::Leaf(Leaf::Load(load)), dtype);
    second.body.results.push(value);
    Some(Divided { first, first_operands, second, second_operands, parts: all })
}

/// Returns a nest with the places and the epilogue of `nest`, these reduction axes, and a body that
/// is yet to be written. Also returns the operands of `nest` that it reads.
pub(super) fn over_other_points(nest: &Nest, reduction: Vec<Axis>) -> Option<(Nest, Vec<usize>)> {
    let mut other = nest.clone();
    other.axes.truncate(nest.free);
    other.axes.extend(reduction);
    // Derived variables are numbered after all axes.
    let (before, now) = (nest.axes.len(), other.axes.len());
    let shifted =
        |affine: &Affine| affine.map_variables(|v| if v < before { v } else { v + now - before });
    other.guards.clear();
    other.derived = change_derived(nest, shifted)?;
    change_program(&mut other.epilogue, changed(shifted))?;
    for output in &mut other.outputs {
        output.position = shifted(&output.position)?;
    }
    other.body = Program::default();
    let operands = prune(&mut other);
    Some((other, operands))
}

/// Returns a function that replaces an expression by its changed form.
fn changed(change: impl Fn(&Affine) -> Option<Affine>) -> impl Fn(&mut Affine) -> Option<()> {
    move |affine| {
        *affine = change(affine)?;
        Some(())
    }
}

fn change_derived(nest: &Nest, change: impl Fn(&Affine) -> Option<Affine>) -> Option<Vec<Derived>> {
    nest.derived
        .iter()
        .map(|derived| Some(Derived { numerator: change(&derived.numerator)?, ..*derived }))
        .collect()
}

/// Drops the operands that no load reads. Returns the old numbers of the others.
fn prune(nest: &mut Nest) -> Vec<usize> {
    let kept: Vec<usize> = (0..nest.operands.len())
        .filter(|&operand| nest.loads().any(|load| load.operand == operand))
        .collect();
    nest.operands = kept.iter().map(|&operand| nest.operands[operand].clone()).collect();
    for (inst, _) in nest.body.insts.iter_mut().chain(&mut nest.epilogue.insts) {
        if let Inst::Leaf(Leaf::Load(load)) = inst {
            load.operand =
                kept.iter().position(|&operand| operand == load.operand).unwrap_or(load.operand);
        }
    }
    kept
}
