//! A reduction that is too long for the places that it has, in two nests: the first aggregates parts of it, side by side, and
//! the second the parts, in their order, with the epilogue.
//!
//! Example: `y[] = +(x[i: 1000000])` is `p[s: 64] = +(x[15625*s + i: 15625])`, then `y[] = +(p[s: 64])`. On a cpu, whose vectors go along
//! columns, `y[c: 32] = +(x[i: 65536, c])` is `p[s: 128, c] = +(x[128*i + s, c])`, with rows of 4096, then `y[c] = +(p[s, c])`.
//!
//! Why it is sound: a sum, product, maximum or minimum of parts, each with the identity where no point counts, is that of all
//! points, but for the order of rounding; and that is the same in every run.

use crate::affine::Affine;
use crate::nest::{Axis, Derived, Leaf, Load, Nest, Output, change_program, simplify};
use crate::profile::{Execution, Profile};
use crate::scalar::{Inst, Program};
use crate::tensor::TensorType;

use super::choose::{EQUAL, ranked};

/// Points that a part has at least.
const PART: usize = 64;

/// Columns that are few, on a cpu: more fill vectors enough.
const MOST_COLUMNS: usize = 63;
/// Numbers that lie side by side after the division, there: at least, so that it is worth a nest more, and at most.
const LEAST_BESIDE: usize = 256;
const MOST_BESIDE: usize = 4096;

/// Launches that a nest takes at least before it is divided.
const WORTHWHILE: f64 = 2.0;

/// A nest in two.
pub struct Divided {
    pub first: Nest,
    /// The whole nest's operands that it reads.
    pub first_operands: Vec<usize>,
    /// It reads the parts as its last operand.
    pub second: Nest,
    pub second_operands: Vec<usize>,
    pub parts: TensorType,
}

/// The two nests, where they are predicted to take less time than the one by more than predictions err; for a cpu, where columns are few.
pub fn divide(nest: &Nest, profile: &Profile) -> Option<Divided> {
    let is_plain = !nest.tracks_written() && nest.loops == 0 && nest.inner.is_empty() && nest.columns().is_empty();
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
    let time = |nest: &Nest| ranked(nest, profile).into_iter().map(|(time, _)| time).fold(f64::INFINITY, f64::min);
    let whole = time(nest);
    if whole < WORTHWHILE * profile.rates.launch {
        return None;
    }
    let parts = [4, 16, 64, 256].into_iter().filter_map(|parts| {
        let two = in_blocks(nest, parts)?;
        Some((time(&two.first) + time(&two.second), two))
    });
    let best = parts.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(of_two, _)| EQUAL * of_two < whole)?;
    Some(best.1)
}

/// The nests with so many parts, perhaps a few less, each of points that follow each other; `None` where no reduction axis has them.
fn in_blocks(nest: &Nest, parts: usize) -> Option<Divided> {
    // The outermost long axis: what is read together stays together.
    let axis = nest.reduction().find(|&axis| nest.axes[axis].extent >= 2 * parts)?;
    let extent = nest.axes[axis].extent;
    let least = extent.div_ceil(parts);
    // Parts of equal length need no guard, and vectors of four fit those of a multiple of four.
    let fits =
        |step: usize| (least.next_multiple_of(step)..2 * least).step_by(step).find(|&l| extent.is_multiple_of(l));
    let length = fits(4).or_else(|| fits(1)).unwrap_or(least);
    let parts = extent.div_ceil(length);
    let is_long = parts >= 2 && nest.reduction_points() / parts >= PART;
    is_long.then(|| divided(nest, axis, [parts, length], [length, 1]))?
}

/// The nests for a cpu: where columns are few, as the channels of an image, points that follow each other become columns, too, so that
/// vectors are long.
fn side_by_side(nest: &Nest) -> Option<Divided> {
    let (axis, columns) = (nest.reduction().next_back()?, nest.places());
    let follows = |leaf: &Leaf| match leaf {
        Leaf::Load(load) => {
            let steps = [0, axis].map(|axis| load.offset.coefficient(axis));
            load.dynamic.is_empty() && (steps == [0, 0] || steps == [1, columns as i64])
        }
        _ => true,
    };
    let is_plain = nest.guards.is_empty() && nest.derived.is_empty() && nest.body.leaves().all(follows);
    if nest.free != 1 || !(1..=MOST_COLUMNS).contains(&columns) || !is_plain {
        return None;
    }
    let extent = nest.axes[axis].extent;
    let most = extent.min(MOST_BESIDE / columns).min(nest.reduction_points() / PART);
    let parts = (2..=most).rev().find(|&parts| extent.is_multiple_of(parts) && parts * columns >= LEAST_BESIDE)?;
    let two = divided(nest, axis, [parts, extent / parts], [1, parts])?;
    // Parts and columns are one axis then.
    let first = simplify(two.first).filter(|first| first.free == 1)?;
    Some(Divided { first, ..two })
}

/// The nests with `parts` of `length` points along an axis: number `i` of part `s` is the point `steps[0] * s + steps[1] * i`, unless that is past the
/// end.
fn divided(nest: &Nest, axis: usize, [parts, length]: [usize; 2], steps: [usize; 2]) -> Option<Divided> {
    let extent = nest.axes[axis].extent;
    let (places, dtype) = (nest.places(), nest.accumulator()?);
    let all = TensorType::new(dtype, [parts * places]);
    let part = Axis { name: format!("{}_part", nest.axes[axis].name), extent: parts };

    // A new first axis is the part's number.
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

    // The free axes as they are, and one reduction axis. Derived variables come after all axes.
    let mut second = nest.clone();
    second.axes.truncate(nest.free);
    second.axes.push(part);
    let shifted = |affine: &Affine| {
        affine.map_variables(|v| if v < nest.axes.len() { v } else { v + nest.free + 1 - nest.axes.len() })
    };
    second.guards.clear();
    second.derived = change_derived(nest, shifted)?;
    change_program(&mut second.epilogue, changed(shifted))?;
    for output in &mut second.outputs {
        output.position = shifted(&output.position)?;
    }
    second.body = Program::default();
    let second_operands = prune(&mut second);
    let offset = nest.place().add(&Affine::new([(nest.free, places as i64)], 0)?)?;
    let load = Load { operand: second.operands.len(), offset, dynamic: Vec::new(), when: Vec::new() };
    second.operands.push(all.clone());
    let value = second.body.push(Inst::Leaf(Leaf::Load(load)), dtype);
    second.body.results.push(value);
    Some(Divided { first, first_operands, second, second_operands, parts: all })
}

/// What writes a changed expression in place of another.
fn changed(change: impl Fn(&Affine) -> Option<Affine>) -> impl Fn(&mut Affine) -> Option<()> {
    move |affine| {
        *affine = change(affine)?;
        Some(())
    }
}

fn change_derived(nest: &Nest, change: impl Fn(&Affine) -> Option<Affine>) -> Option<Vec<Derived>> {
    nest.derived.iter().map(|derived| Some(Derived { numerator: change(&derived.numerator)?, ..*derived })).collect()
}

/// Drops the operands that no load reads, and answers the old numbers of the others.
fn prune(nest: &mut Nest) -> Vec<usize> {
    let kept: Vec<usize> =
        (0..nest.operands.len()).filter(|&operand| nest.loads().any(|load| load.operand == operand)).collect();
    nest.operands = kept.iter().map(|&operand| nest.operands[operand].clone()).collect();
    for (inst, _) in nest.body.insts.iter_mut().chain(&mut nest.epilogue.insts) {
        if let Inst::Leaf(Leaf::Load(load)) = inst {
            load.operand = kept.iter().position(|&operand| operand == load.operand).unwrap_or(load.operand);
        }
    }
    kept
}
