//! Running aggregations: each place along an axis aggregates the points up to its own.
//!
//! Example: the guard of `Y[n: N] = +(X[k: N])` over the `k <= n` is `n - k >= 0`. The sum at one
//! place is that at the place before it plus one term, so that N terms suffice instead of N².

use std::ops::Range;

use crate::affine::Affine;
use crate::scalar::{Inst, Program};

use super::{Leaf, Nest, change_program};

/// The order in which a nest may aggregate.
pub(crate) struct Running {
    /// The free axis along which the aggregate runs.
    pub axis: usize,
    /// Whether it runs from the last place of the axis to the first.
    pub reversed: bool,
    /// The values of the axis at whose place a term is added.
    pub added: Range<usize>,
    /// The term added at a place. Its loads are executed only where there is one.
    pub term: Program<Leaf>,
}

impl Nest {
    /// Returns the order if the nest is a running aggregation.
    pub(crate) fn running(&self) -> Option<Running> {
        let reduction = self.reduction();
        let ([guard], [_], true) = (&self.guards[..], &self.body.results[..], reduction.len() == 1)
        else {
            return None;
        };
        let &[(axis, of_axis), (point, of_point)] = guard.terms() else { return None };
        let is_plain = self.aggregation?.operation().is_some()
            && self.inner.is_empty()
            && self.columns().is_empty()
            && axis < self.free
            && point == reduction.start
            && !self.derived.iter().any(|d| self.depends_on(&d.numerator, point));
        if !is_plain || self.dependencies(&self.body)[self.body.results[0]][axis] {
            return None;
        }
        let [places, points] = [axis, point].map(|axis| self.axes[axis].extent as i64);
        // The place with the value n adds the point n + shift. It may be the only new one.
        let (reversed, shift) = match (of_axis, of_point) {
            (1, -1) if guard.offset() <= 0 => (false, guard.offset()),
            (-1, 1) if points <= places.checked_sub(guard.offset())? => (true, -guard.offset()),
            _ => return None,
        };
        let [start, end] =
            [shift.checked_neg()?, points.checked_sub(shift)?].map(|n| n.clamp(0, places) as usize);
        let own = Affine::var(axis).add(&Affine::constant(shift))?;
        let after = Affine::constant(points - 1).sub(&own)?;
        let mut term = self.body.clone();
        change_program(&mut term, |affine| {
            *affine = affine.substitute(point, &own)?;
            Some(())
        })?;
        let bounds = self.variable_bounds();
        let is_open = |when: &Affine| when.bounds(&bounds).is_none_or(|(low, _)| low < 0);
        let conditions: Vec<Affine> = [own, after].into_iter().filter(is_open).collect();
        for (inst, _) in &mut term.insts {
            if let Inst::Leaf(Leaf::Load(load)) = inst {
                load.when.extend_from_slice(&conditions);
            }
        }
        Some(Running { axis, reversed, added: start..end.max(start), term })
    }
}
