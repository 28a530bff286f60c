//! The guards that a factor of a product needs, so that it can be read without the other one.
//!
//! Each guard of a nest protects addresses, but not always those of the factor whose axes it
//! mentions: if the graph has proved that an index of the left factor is in range wherever one of
//! the right factor is, only the latter has a guard. Templates load a factor for all of its own
//! axes, under its own guards alone. This module proves that its addresses are in range then, if
//! necessary with consequences of the other guards.

use crate::affine::{Affine, Ranges, ranges};
use crate::scalar::Value;

use super::{Leaf, Load, Nest, loads_of};

impl Nest {
    /// Returns guards for the factor `value` of the body that mention none of the axes `others`:
    /// those of the nest, with consequences of its other guards if the addresses of the factor
    /// need them. Returns `None` if the addresses may be out of range even so.
    pub(super) fn factor_guards(&self, value: Value, others: &[usize]) -> Option<Vec<Affine>> {
        let (dropped, mut guards): (Vec<Affine>, Vec<Affine>) =
            self.guards.iter().cloned().partition(|guard| self.depends_on_any(guard, others));
        let bounds = self.variable_bounds();
        let implied: Vec<Affine> = dropped
            .iter()
            .map(|guard| self.relaxed(guard, others, &bounds))
            .collect::<Option<Vec<Affine>>>()?
            .into_iter()
            .filter(|guard| guard.bounds(&bounds).is_none_or(|(low, _)| low < 0))
            .collect();
        // Without consequences, the dropped guards say nothing about the factor's axes.
        if implied.is_empty() || self.is_in_range(value, &guards, &bounds) {
            return Some(guards);
        }
        guards.extend(implied);
        self.is_in_range(value, &guards, &bounds).then_some(guards)
    }

    /// Returns whether an expression depends on one of the axes.
    pub(super) fn depends_on_any(&self, affine: &Affine, axes: &[usize]) -> bool {
        axes.iter().any(|&axis| self.depends_on(affine, axis))
    }

    /// Returns the consequence of a guard for all values of `axes`: each term that depends on one
    /// of them becomes its maximum.
    fn relaxed(&self, guard: &Affine, axes: &[usize], bounds: &[(i64, i64)]) -> Option<Affine> {
        let (of_axes, kept): (Vec<_>, Vec<_>) = guard
            .terms()
            .iter()
            .partition(|(variable, _)| self.depends_on_any(&Affine::var(*variable), axes));
        let (_, greatest) = Affine::new(of_axes, guard.offset())?.bounds(bounds)?;
        Affine::new(kept, greatest)
    }

    /// Returns whether the loads of a value of the body are in range wherever `guards` hold.
    fn is_in_range(&self, value: Value, guards: &[Affine], bounds: &[(i64, i64)]) -> bool {
        let inner = self.inner.iter().flat_map(|inner| inner.body.leaves());
        loads_of(&self.body, value).chain(inner.filter_map(Leaf::load)).all(|load| {
            let last = self.operands[load.operand].elements() as i64 - 1;
            let is_inside = |(low, high): (i64, i64)| low >= 0 && high <= last;
            load.offset.bounds(bounds).is_some_and(is_inside)
                || match self.offsets(load, guards) {
                    Some(Ranges::Empty) => true,
                    Some(Ranges::Bounded(ranges)) => ranges.last().copied().is_some_and(is_inside),
                    Some(Ranges::Unbounded { .. }) | None => false,
                }
        })
    }

    /// Returns the ranges of the nest's variables, and of the load's address as the last, wherever
    /// `guards` and the load's conditions hold. Returns `None` on overflow.
    fn offsets(&self, load: &Load, guards: &[Affine]) -> Option<Ranges> {
        let mut constraints: Vec<Affine> = guards.iter().chain(&load.when).cloned().collect();
        let mut between = |variable: usize, low: Affine, high: Affine| {
            constraints.push(Affine::var(variable).sub(&low)?);
            constraints.push(high.sub(&Affine::var(variable))?);
            Some(())
        };
        for (variable, axis) in self.axes.iter().enumerate() {
            let last = i64::try_from(axis.extent).ok()? - 1;
            between(variable, Affine::constant(0), Affine::constant(last))?;
        }
        let address = self.axes.len() + self.derived.len();
        between(address, load.offset.clone(), load.offset.clone())?;
        for (variable, derived) in (self.axes.len()..).zip(&self.derived) {
            let rest = derived.numerator.sub(&Affine::var(variable).scale(derived.denominator)?)?;
            let most = Affine::constant(derived.denominator - 1).sub(&rest)?;
            constraints.extend([rest, most]);
        }
        ranges(address + 1, &constraints)
    }
}
