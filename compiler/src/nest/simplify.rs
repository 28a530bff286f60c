//! Reduces a nest to fewer, longer axes: drops axes of extent 1 and merges adjacent axes that every
//! expression traverses as one.
//!
//! Example: an elementwise sum over `[8, 3, 5]` becomes one axis of 120; a bias over the last axis
//! leaves `[24, 5]`.
//!
//! Why it is sound: the variable of an axis of extent 1 is always 0, and a derived variable without
//! axes is a constant. Two adjacent axes `a`, `b` with extents `m`, `n` may become one axis
//! `c = a * n + b` if each expression has `coefficient(a) = coefficient(b) * n`, because their
//! terms then add up to `coefficient(b) * c`. Places stay in row-major order, and the order of
//! reduction points is free. The loops around the nest belong to the plan and stay.

use crate::affine::Affine;
use crate::scalar::{Inst, Program};

use super::{Leaf, Nest, Table};

/// Returns the nest over fewer axes, or `None` if index arithmetic overflows 64 bits.
pub(crate) fn simplify(mut nest: Nest) -> Option<Nest> {
    while let Some(axis) = nest.axes[..nest.loops().start].iter().position(|a| a.extent == 1) {
        nest = without_axis(nest, axis, Affine::constant(0))?;
    }
    while let Some(number) = nest.derived.iter().position(|derived| derived.numerator.is_constant())
    {
        let derived = nest.derived.remove(number);
        let value = Affine::constant(derived.numerator.offset().div_euclid(derived.denominator));
        let variable = nest.axes.len() + number;
        nest = without_variable(nest, variable, value)?;
    }
    let mut outer = 0;
    while outer + 1 < nest.loops().start {
        let inner = outer + 1;
        let bounds = nest.inner.iter().map(|sum| sum.axes.start).chain([nest.free, nest.rows]);
        let same_role = bounds.into_iter().all(|bound| bound != inner);
        let extent = i64::try_from(nest.axes[inner].extent).ok()?;
        let composes =
            |a: &Affine| a.coefficient(inner).checked_mul(extent) == Some(a.coefficient(outer));
        if same_role && expressions(&nest).all(composes) {
            let merged = nest.axes[outer].extent.checked_mul(nest.axes[inner].extent)?;
            nest.axes[inner].extent = merged;
            nest.axes[inner].name = format!("{}{}", nest.axes[outer].name, nest.axes[inner].name);
            nest = without_axis(nest, outer, Affine::constant(0))?;
            outer = outer.saturating_sub(1);
        } else {
            outer += 1;
        }
    }
    rename(&mut nest);
    Some(nest)
}

/// Returns every affine expression of the nest.
pub(super) fn expressions(nest: &Nest) -> impl Iterator<Item = &Affine> {
    let inner = nest.inner.iter().flat_map(|inner| inner.body.leaves());
    let leaves =
        inner.chain(nest.body.leaves()).chain(nest.epilogue.leaves()).flat_map(|leaf| match leaf {
            Leaf::Load(load) => Some(&load.offset).into_iter().chain(&load.when),
            Leaf::Index(affine) | Leaf::Table(Table { offset: affine, .. }) => {
                Some(affine).into_iter().chain(&[])
            }
            Leaf::Accumulator
            | Leaf::Written
            | Leaf::Statistic(..)
            | Leaf::Inner(_)
            | Leaf::OfBody(_) => None.into_iter().chain(&[]),
        });
    let outputs = nest.outputs.iter().map(|output| &output.position);
    nest.derived
        .iter()
        .map(|d| &d.numerator)
        .chain(&nest.guards)
        .chain(&nest.position)
        .chain(&nest.rank)
        .chain(outputs)
        .chain(leaves)
}

/// Removes `axis` and replaces its variable by `value`.
fn without_axis(mut nest: Nest, axis: usize, value: Affine) -> Option<Nest> {
    nest.axes.remove(axis);
    nest.rows -= usize::from(axis < nest.rows);
    nest.free -= usize::from(axis < nest.free);
    for inner in &mut nest.inner {
        inner.axes = inner.axes.start - usize::from(axis < inner.axes.start)
            ..inner.axes.end - usize::from(axis < inner.axes.end);
    }
    without_variable(nest, axis, value)
}

/// Replaces `variable`, which is already removed from the lists, by `value`.
fn without_variable(mut nest: Nest, variable: usize, value: Affine) -> Option<Nest> {
    let change = |affine: &mut Affine| -> Option<()> {
        *affine = affine
            .substitute(variable, &value)?
            .map_variables(|v| if v > variable { v - 1 } else { v })?;
        Some(())
    };
    for derived in &mut nest.derived {
        change(&mut derived.numerator)?;
    }
    let outputs = nest.outputs.iter_mut().map(|output| &mut output.position);
    let of_points = nest.guards.iter_mut().chain(&mut nest.position).chain(&mut nest.rank);
    of_points.chain(outputs).try_for_each(change)?;
    programs(&mut nest).try_for_each(|program| change_program(program, change))?;
    Some(nest)
}

/// Returns all programs of the nest.
pub(super) fn programs(nest: &mut Nest) -> impl Iterator<Item = &mut Program<Leaf>> {
    nest.inner.iter_mut().map(|inner| &mut inner.body).chain([&mut nest.body, &mut nest.epilogue])
}

/// Applies `change` to every affine expression of a program.
pub(crate) fn change_program(
    program: &mut Program<Leaf>,
    change: impl Fn(&mut Affine) -> Option<()>,
) -> Option<()> {
    for (inst, _) in &mut program.insts {
        match inst {
            Inst::Leaf(Leaf::Load(load)) => {
                change(&mut load.offset)?;
                load.when.iter_mut().try_for_each(&change)?;
            }
            Inst::Leaf(Leaf::Index(affine) | Leaf::Table(Table { offset: affine, .. })) => {
                change(affine)?;
            }
            _ => {}
        }
    }
    Some(())
}

/// Makes the names of the axes distinct.
fn rename(nest: &mut Nest) {
    for axis in 0..nest.axes.len() {
        let name = nest.axes[axis].name.clone();
        if nest.axes[..axis].iter().any(|a| a.name == name) {
            nest.axes[axis].name = format!("{name}{axis}");
        }
    }
}
