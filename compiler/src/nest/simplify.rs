//! Fewer, longer axes: axes of one value are dropped and neighbours that every expression walks as one are merged.
//!
//! Example: an elementwise sum over `[8, 3, 5]` becomes one axis of 120; a bias over the last axis leaves `[24, 5]`.
//!
//! Why it is sound: an axis of one value is always 0. Two neighbours `a`, `b` with extents `m`, `n` may become one axis
//! `c = a * n + b` where each expression has `coefficient(a) = coefficient(b) * n`, since it then is
//! `coefficient(b) * c`. Places stay in row-major order, and the order of reduction points is free. The loops around the
//! nest are not its own to change.

use crate::affine::Affine;
use crate::scalar::{Inst, Program};

use super::{Leaf, Nest};

/// The same nest over fewer axes. `None`: index arithmetic left the range of 64 bits.
pub(crate) fn simplify(mut nest: Nest) -> Option<Nest> {
    while let Some(axis) = nest.axes[..nest.loops().start].iter().position(|a| a.extent == 1) {
        nest = without_axis(nest, axis, Affine::constant(0))?;
    }
    let mut outer = 0;
    while outer + 1 < nest.loops().start {
        let inner = outer + 1;
        let bounds = nest.inner.iter().map(|sum| sum.axes.start).chain([nest.free, nest.rows]);
        let same_role = bounds.into_iter().all(|bound| bound != inner);
        let extent = i64::try_from(nest.axes[inner].extent).ok()?;
        let composes = |a: &Affine| a.coefficient(inner).checked_mul(extent) == Some(a.coefficient(outer));
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

/// Every affine expression of the nest.
pub(super) fn expressions(nest: &Nest) -> impl Iterator<Item = &Affine> {
    let inner = nest.inner.iter().flat_map(|inner| inner.body.leaves());
    let leaves = inner.chain(nest.body.leaves()).chain(nest.epilogue.leaves()).flat_map(|leaf| match leaf {
        Leaf::Load(load) => Some(&load.offset).into_iter().chain(&load.when),
        Leaf::Index(affine) => Some(affine).into_iter().chain(&[]),
        Leaf::Accumulator | Leaf::Written | Leaf::Statistic(..) | Leaf::Inner(_) | Leaf::OfBody(_) => {
            None.into_iter().chain(&[])
        }
    });
    let outputs = nest.outputs.iter().map(|output| &output.position);
    nest.derived.iter().map(|d| &d.numerator).chain(&nest.guards).chain(&nest.position).chain(outputs).chain(leaves)
}

/// The nest without `axis`, whose variable becomes `value`.
fn without_axis(mut nest: Nest, axis: usize, value: Affine) -> Option<Nest> {
    let change = |affine: &mut Affine| -> Option<()> {
        *affine = affine.substitute(axis, &value)?.map_variables(|v| if v > axis { v - 1 } else { v })?;
        Some(())
    };
    nest.axes.remove(axis);
    nest.rows -= usize::from(axis < nest.rows);
    nest.free -= usize::from(axis < nest.free);
    for inner in &mut nest.inner {
        inner.axes = inner.axes.start - usize::from(axis < inner.axes.start)
            ..inner.axes.end - usize::from(axis < inner.axes.end);
    }
    for derived in &mut nest.derived {
        change(&mut derived.numerator)?;
    }
    let outputs = nest.outputs.iter_mut().map(|output| &mut output.position);
    nest.guards.iter_mut().chain(&mut nest.position).chain(outputs).try_for_each(change)?;
    programs(&mut nest).try_for_each(|program| change_program(program, change))?;
    Some(nest)
}

/// All programs of the nest.
pub(super) fn programs(nest: &mut Nest) -> impl Iterator<Item = &mut Program<Leaf>> {
    nest.inner.iter_mut().map(|inner| &mut inner.body).chain([&mut nest.body, &mut nest.epilogue])
}

/// Applies `change` to every affine expression of a program.
pub(crate) fn change_program(program: &mut Program<Leaf>, change: impl Fn(&mut Affine) -> Option<()>) -> Option<()> {
    for (inst, _) in &mut program.insts {
        match inst {
            Inst::Leaf(Leaf::Load(load)) => {
                change(&mut load.offset)?;
                load.when.iter_mut().try_for_each(&change)?;
            }
            Inst::Leaf(Leaf::Index(affine)) => change(affine)?,
            _ => {}
        }
    }
    Some(())
}

/// Makes axis names distinct.
fn rename(nest: &mut Nest) {
    for axis in 0..nest.axes.len() {
        let name = nest.axes[axis].name.clone();
        if nest.axes[..axis].iter().any(|a| a.name == name) {
            nest.axes[axis].name = format!("{name}{axis}");
        }
    }
}
