//! Splits free axes that a derived variable divides into two, which removes the division.
//!
//! Example: with groups of 8 filters, the filter `o` of a convolution belongs to the group
//! `q = floor(o / 8)`. Over the axes `g` and `f` with `o = 8*g + f`, it is `q = g`. Now one factor
//! depends on `f` and the other does not, and the nest is a matrix product for each group. Strided
//! transposed convolutions are similar.
//!
//! Why it is sound: `k` divides the extent, so `k*g + f` takes each value once, in the same order.
//! In `floor((c*k*g + c*f + rest) / d)` with `d` a divisor of `c*k`, the first term is divided
//! exactly. If both bounds of the remaining numerator have the same quotient, that quotient is its
//! value.

use crate::affine::Affine;
use crate::graph::Aggregation;

use super::simplify::{change_program, programs};
use super::{Axis, Derived, Nest, derived_number};

/// Returns the nest over more axes, or `None` if index arithmetic overflows 64 bits.
pub(super) fn split(mut nest: Nest) -> Option<Nest> {
    // Other nests have no factors to separate, and one long axis is better than two short ones.
    if nest.aggregation == Some(Aggregation::Sum) {
        while let Some((axis, size)) = divided(&nest) {
            nest = split_axis(nest, axis, size)?;
        }
    }
    Some(nest)
}

/// Returns a free axis that a derived variable divides into equal parts, and their size.
fn divided(nest: &Nest) -> Option<(usize, usize)> {
    nest.derived.iter().find_map(|derived| {
        let terms = derived.numerator.terms().iter().filter(|(axis, _)| *axis < nest.free);
        terms.into_iter().find_map(|&(axis, coefficient)| {
            let size = derived.denominator / common_divisor(derived.denominator, coefficient);
            let (size, extent) = (usize::try_from(size).ok()?, nest.axes[axis].extent);
            (size > 1 && extent > size && extent.is_multiple_of(size)).then_some((axis, size))
        })
    })
}

fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common_divisor(b, a.checked_rem(b).unwrap_or(0)) }.saturating_abs()
}

/// Splits `axis` into two axes, the inner one of extent `size`.
fn split_axis(mut nest: Nest, axis: usize, size: usize) -> Option<Nest> {
    let part = i64::try_from(size).ok()?;
    nest.axes[axis].extent /= size;
    let name = nest.axes[axis].name.clone();
    nest.axes.insert(axis + 1, Axis { name, extent: size });
    nest.free += 1;
    nest.rows += usize::from(axis < nest.rows);
    nest.inner.iter_mut().for_each(|inner| inner.axes = inner.axes.start + 1..inner.axes.end + 1);
    let mut bounds = Vec::with_capacity(nest.axes.len());
    for axis in &nest.axes {
        bounds.push((0, i64::try_from(axis.extent).ok()? - 1));
    }
    // Each old variable in terms of the new ones.
    let mut values: Vec<Affine> =
        (0..nest.axes.len()).filter(|&v| v != axis + 1).map(Affine::var).collect();
    values[axis] = Affine::new([(axis, part), (axis + 1, 1)], 0)?;
    let mut derived = Vec::new();
    for Derived { numerator, denominator } in std::mem::take(&mut nest.derived) {
        let value = quotient(
            &numerator.substitute_all(&values)?,
            denominator,
            &mut derived,
            &mut bounds,
            nest.axes.len(),
        )?;
        values.push(value);
    }
    nest.derived = derived;
    let change = |affine: &mut Affine| -> Option<()> {
        *affine = affine.substitute_all(&values)?;
        Some(())
    };
    let outputs = nest.outputs.iter_mut().map(|output| &mut output.position);
    nest.guards.iter_mut().chain(&mut nest.position).chain(outputs).try_for_each(change)?;
    programs(&mut nest).try_for_each(|program| change_program(program, change))?;
    nest.guards.retain(|guard| guard.bounds(&bounds).is_none_or(|(low, _)| low < 0));
    Some(nest)
}

/// Returns `floor(numerator / denominator)`. Adds a derived variable, numbered after the `axes`,
/// for the terms that still cannot be divided.
fn quotient(
    numerator: &Affine,
    denominator: i64,
    derived: &mut Vec<Derived>,
    bounds: &mut Vec<(i64, i64)>,
    axes: usize,
) -> Option<Affine> {
    let (whole, rest): (Vec<_>, Vec<_>) =
        numerator.terms().iter().partition(|(_, factor)| factor % denominator == 0);
    let whole = whole.into_iter().map(|(variable, factor)| (variable, factor / denominator));
    let whole = Affine::new(whole, numerator.offset().div_euclid(denominator))?;
    let rest = Affine::new(rest, numerator.offset().rem_euclid(denominator))?;
    let (low, high) = rest.bounds(bounds)?;
    let (low, high) = (low.div_euclid(denominator), high.div_euclid(denominator));
    if low == high {
        return whole.add(&Affine::constant(low));
    }
    let number = derived_number(derived, rest, denominator);
    if axes + number == bounds.len() {
        bounds.push((low, high));
    }
    whole.add(&Affine::var(axes + number))
}
