//! The addresses of operands that products and windows read.

use crate::affine::Affine;
use crate::nest::{Load, Nest};

use super::space::Variables;

/// The elements of an operand at an affine address, with 0 where a condition is negative.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The number of the operand.
    pub operand: usize,
    /// The number of the element.
    pub offset: Affine,
    /// The expressions that must be at least 0.
    pub conditions: Vec<Affine>,
}

impl Address {
    /// Returns the address of a load that is executed only where all `guards` are at least 0, too.
    pub(super) fn new(load: &Load, guards: &[Affine]) -> Self {
        let more = guards.iter().filter(|guard| !load.when.contains(guard));
        Self {
            operand: load.operand,
            offset: load.offset.clone(),
            conditions: load.when.iter().chain(more).cloned().collect(),
        }
    }

    /// Returns the offset, followed by the conditions.
    pub fn expressions(&self) -> impl Iterator<Item = &Affine> + Clone {
        [&self.offset].into_iter().chain(&self.conditions)
    }

    /// Returns whether it is the same at every step of the loops around the nest.
    pub(super) fn is_steady(&self, nest: &Nest) -> bool {
        self.expressions().flat_map(|affine| affine.variables()).all(|v| !nest.loops().contains(&v))
    }

    /// Returns whether each expression is a sum of one term for each of the `groups` of axes, and
    /// one for the loops around the nest.
    pub(super) fn is_separable(&self, nest: &Nest, groups: [&[usize]; 3]) -> bool {
        let (variables, is_loop) = (Variables::new(nest), |v: usize| nest.loops().contains(&v));
        let within = |v: usize| groups.iter().any(|group| variables.depends_only_on(v, group));
        self.expressions().flat_map(|affine| affine.variables()).all(|v| is_loop(v) || within(v))
    }
}
