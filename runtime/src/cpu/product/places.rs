//! Addresses of a contraction's factors: tables for [`super::gemm`], made from the affine
//! expressions of an address.

use super::gemm::{Axis, Coordinate, Places, Window};
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::native::{Address, NativeProgram};

/// Sets the variables of `axes` to those of a point, in row-major order.
pub fn locate(extents: &[usize], axes: &[usize], mut position: usize, point: &mut [i64]) {
    for &axis in axes.iter().rev() {
        let extent = extents[axis];
        point[axis] = (position % extent) as i64;
        position /= extent;
    }
}

/// Returns tables of the offsets of an address, for batch, outer and reduction axes. Each of its
/// expressions is a sum of one term for each of these groups. A term of the product counts only
/// where the `guards` hold.
pub fn gathered(
    program: &NativeProgram,
    groups: [&[usize]; 3],
    address: &Address,
    guards: &[Affine],
) -> Places {
    let NativeProgram { variables, extents, .. } = program;
    let expressions: Vec<&Affine> = address.expressions().collect();
    let is_loop = |v: usize| program.loops().contains(&v);
    let axis = |number: usize| -> Axis {
        let group = groups[number];
        // A derived variable with a constant numerator belongs to every group. Only the first group
        // counts it, and likewise constants.
        let mine = |v: usize| {
            !is_loop(v)
                && groups.iter().position(|g| variables.depends_only_on(v, g)) == Some(number)
        };
        let terms: Vec<Vec<(usize, i64)>> = expressions
            .iter()
            .map(|e| e.terms().iter().copied().filter(|(v, _)| mine(*v)).collect())
            .collect();
        let mut tables = vec![Vec::with_capacity(program.points(group)); expressions.len()];
        let mut point = vec![0; variables.count()];
        for position in 0..program.points(group) {
            locate(extents, group, position, &mut point);
            for (derived, d) in variables.derived.iter().enumerate() {
                let terms = d.numerator.terms().iter();
                let numerator = terms.fold(d.numerator.offset(), |sum, (v, c)| {
                    sum.wrapping_add(c.wrapping_mul(point[*v]))
                });
                point[variables.axes + derived] = numerator.div_euclid(d.denominator);
            }
            for ((table, terms), expression) in tables.iter_mut().zip(&terms).zip(&expressions) {
                let constant = if number == 0 { expression.offset() } else { 0 };
                table.push(terms.iter().fold(constant, |sum, (v, c)| sum + c * point[*v]) as isize);
            }
        }
        let mut tables = tables.into_iter();
        Axis::new(tables.next().unwrap_or_default(), tables.collect())
    };
    let of_loops =
        |affine: &&Affine| program.loops().map(|v| affine.coefficient(v) as isize).collect();
    let loops = expressions.iter().map(of_loops).collect();
    let window = window(program, groups, address, guards);
    Places { batch: axis(0), outer: axis(1), k: axis(2), loops, window }
}

/// Returns the address as a window, and the number of the element at which all coordinates are 0.
///
/// A condition bounds a sum of variables, as in `0 <= y + i - 1`. That sum becomes a coordinate,
/// whose stride is the sum's factor in the offset. Each remaining variable becomes a coordinate of
/// its own, or is merged with the one before, if their strides overlap: `y + i` without padding.
fn window(
    program: &NativeProgram,
    groups: [&[usize]; 3],
    address: &Address,
    guards: &[Affine],
) -> Option<(Window, isize)> {
    let Address { offset, conditions, .. } = address;
    let (extents, axes) = (&program.extents, program.variables.axes);
    let is_loop = |v: usize| program.loops().contains(&v);
    let mut sums: Vec<Sum> = Vec::new();
    for condition in conditions {
        let terms = condition.sub(&Affine::constant(condition.offset()))?;
        let negated = terms.scale(-1)?;
        let known = sums.iter().position(|sum| sum.terms == terms || sum.terms == negated);
        let number = match known {
            Some(number) => number,
            None => {
                sums.push(Sum::of(offset, terms.clone(), &negated)?);
                sums.len() - 1
            }
        };
        let (sum, constant) = (&mut sums[number], condition.offset() as isize);
        let ranges = [Some(&mut sum.within), guards.contains(condition).then_some(&mut sum.counts)];
        for range in ranges.into_iter().flatten() {
            if sum.terms == terms {
                range.start = range.start.max(-constant);
            } else {
                range.end = range.end.min(constant + 1);
            }
        }
    }
    let mut rest: Vec<(usize, i64)> = Vec::new();
    for variable in offset.variables().filter(|&v| !is_loop(v)) {
        match sums.iter().filter(|sum| sum.terms.coefficient(variable) != 0).count() {
            0 => rest.push((variable, offset.coefficient(variable))),
            1 => {}
            _ => return None,
        }
    }
    if sums.iter().flat_map(|sum| sum.terms.variables()).any(|v| v >= axes || is_loop(v)) {
        return None;
    }
    rest.sort_by_key(|(_, coefficient)| std::cmp::Reverse(coefficient.abs()));
    let guarded = sums.len();
    for (variable, coefficient) in rest {
        let (extent, step) = (*extents.get(variable)? as i64, coefficient.abs());
        let term = Affine::new([(variable, coefficient.signum())], 0)?;
        match sums[guarded..].last_mut() {
            Some(sum) if (extent - 1) * step >= sum.stride && sum.stride % step == 0 => {
                sum.terms = sum.terms.scale(sum.stride / step)?.add(&term)?;
                sum.stride = step;
            }
            _ if extent == 1 => {}
            _ => sums.push(Sum { terms: term, stride: step, within: ALL, counts: ALL }),
        }
    }
    let table = |terms: &Affine, group: &[usize]| -> Vec<isize> {
        let mut point = vec![0; axes];
        let of_point = |position| {
            locate(extents, group, position, &mut point);
            group.iter().map(|&axis| terms.coefficient(axis) * point[axis]).sum::<i64>() as isize
        };
        (0..program.points(group)).map(of_point).collect()
    };
    let coordinates = sums.into_iter().map(|Sum { terms, stride, within, counts }| {
        let [batch, outer, k] = groups.map(|axes| table(&terms, axes));
        Coordinate { stride: stride as usize, within, counts, batch, outer, k }
    });
    let rows = groups[1].iter().rev().map(|&axis| extents[axis]).collect();
    Some((Window::new(coordinates.collect(), rows)?, offset.offset() as isize))
}

/// A sum of variables that moves a load by `stride` elements per unit.
struct Sum {
    terms: Affine,
    stride: i64,
    within: Range<isize>,
    counts: Range<isize>,
}

/// The range of a sum that nothing bounds.
const ALL: Range<isize> = isize::MIN..isize::MAX;

impl Sum {
    /// Finds the factor of `terms` in `offset`. A negative factor is replaced by a positive one,
    /// with `negated` in place of `terms`.
    fn of(offset: &Affine, terms: Affine, negated: &Affine) -> Option<Self> {
        let (first, coefficient) = *terms.terms().first()?;
        let stride = offset.coefficient(first) / coefficient;
        let follows = |(v, coefficient): &(usize, i64)| {
            coefficient.checked_mul(stride) == Some(offset.coefficient(*v))
        };
        if stride == 0 || !terms.terms().iter().all(follows) {
            return None;
        }
        let terms = if stride > 0 { terms } else { negated.clone() };
        Some(Self { terms, stride: stride.abs(), within: ALL, counts: ALL })
    }
}
