//! The points that a program runs over, and affine addresses along them.

use std::ops::Range;

use crate::affine::Affine;
use crate::nest::{Derived, Nest};

/// Consecutive axes of a nest as one row-major range of points: for example, all free axes, or all
/// reduction axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The first of the axes.
    pub first: usize,
    /// The extents, outermost first.
    pub extents: Vec<usize>,
    /// The number of points.
    pub size: usize,
}

impl Space {
    /// Creates the space of `axes` of the nest.
    pub fn new(nest: &Nest, axes: Range<usize>) -> Self {
        Self::of(axes.start, nest.axes[axes].iter().map(|axis| axis.extent).collect())
    }

    /// Creates the space of axes with these extents, from axis number `first` on.
    pub fn of(first: usize, extents: Vec<usize>) -> Self {
        Self {
            first,
            size: extents.iter().fold(1, |size: usize, &extent| size.saturating_mul(extent)),
            extents,
        }
    }

    /// Returns the variables of its axes.
    pub fn axes(&self) -> Range<usize> {
        self.first..self.first + self.extents.len()
    }

    /// Returns the number of points after which an expression repeats, because within one launch
    /// only the innermost axes of the space decide its value. `None` if it depends on other axes of
    /// the nest.
    pub(super) fn period(&self, nest: &Nest, affine: &Affine) -> Option<usize> {
        let mut outermost = self.extents.len();
        let mut pending: Vec<usize> = affine.variables().collect();
        while let Some(variable) = pending.pop() {
            match variable.checked_sub(nest.axes.len()) {
                Some(number) => pending.extend(nest.derived[number].numerator.variables()),
                None if nest.loops().contains(&variable) => {}
                None => {
                    let axis = variable
                        .checked_sub(self.first)
                        .filter(|axis| *axis < self.extents.len())?;
                    outermost = outermost.min(axis);
                }
            }
        }
        Some(self.extents[outermost..].iter().product())
    }
}

/// The variables of a nest that addresses name: its axes, then those derived from them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// The number of axes, loops around the nest included.
    pub axes: usize,
    /// The first axis that is a loop around the nest.
    pub loops: usize,
    /// The derived variables, in an order in which each uses only earlier ones.
    pub derived: Vec<Derived>,
}

impl Variables {
    /// Returns the variables of a nest.
    pub fn new(nest: &Nest) -> Self {
        Self { axes: nest.axes.len(), loops: nest.loops().start, derived: nest.derived.clone() }
    }

    /// Returns whether a variable is one of `axes`, or derived from these alone.
    pub fn depends_only_on(&self, variable: usize, axes: &[usize]) -> bool {
        match variable.checked_sub(self.axes) {
            None => axes.contains(&variable),
            Some(number) => {
                self.derived[number].numerator.variables().all(|v| self.depends_only_on(v, axes))
            }
        }
    }

    /// Returns the number of variables.
    pub fn count(&self) -> usize {
        self.axes + self.derived.len()
    }
}

/// Some affine expressions over a nest's variables. They divide a space into *pieces*, along which
/// every expression has a constant step.
///
/// Always true: all but the expressions themselves follows from these, the space and the variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The expressions.
    pub expressions: Vec<Affine>,
    /// For each expression, its step from one point to the next within a piece.
    pub steps: Vec<i64>,
    /// For each expression, its step from one piece to the next along the axis around a piece.
    pub beside: Vec<i64>,
    /// The number of points of a whole piece. Pieces start at multiples of it.
    pub run: usize,
    /// The number of the space's axes outside a piece.
    pub outer: usize,
    /// The nest's derived variables up to the last one that the expressions need.
    pub derived: Vec<Derived>,
    /// The number of the nest's axes.
    pub axes: usize,
}

impl Lines {
    /// Creates the lines of `affines` through `space`.
    pub fn new<'a>(
        nest: &Nest,
        space: &Space,
        affines: impl IntoIterator<Item = &'a Affine>,
    ) -> Self {
        Self::through(space, nest.axes.len(), &nest.derived, affines.into_iter().cloned().collect())
    }

    /// Creates the lines of `affines` through `space`, over a number of axes and the variables
    /// `derived` from them.
    pub fn through(space: &Space, axes: usize, derived: &[Derived], affines: Vec<Affine>) -> Self {
        let deepest = affines
            .iter()
            .flat_map(|a| a.variables())
            .max()
            .map_or(0, |v| (v + 1).saturating_sub(axes));
        let derived = &derived[..deepest];
        let bent = |axis: usize| derived.iter().any(|d| d.numerator.coefficient(axis) != 0);
        let last = space.axes().end;
        let mut steps = vec![0; affines.len()];
        let (mut run, mut outer) = (1, space.extents.len());
        while outer > 0 {
            let axis = space.first + outer - 1;
            let even = |(affine, step): (&Affine, &i64)| {
                axis + 1 == last || step.checked_mul(run as i64) == Some(affine.coefficient(axis))
            };
            if bent(axis) || !affines.iter().zip(&steps).all(even) {
                break;
            }
            if axis + 1 == last {
                steps = affines.iter().map(|a| a.coefficient(axis)).collect();
            }
            run *= space.extents[outer - 1];
            outer -= 1;
        }
        let next = outer.checked_sub(1).map(|axis| space.first + axis);
        Self {
            beside: affines.iter().map(|a| next.map_or(0, |axis| a.coefficient(axis))).collect(),
            expressions: affines,
            steps,
            run,
            outer,
            derived: derived.to_vec(),
            axes,
        }
    }

    /// Returns whether there are no expressions.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Returns whether the first expression is a point's number in the space.
    pub(super) fn is_number(&self, space: &Space) -> bool {
        let own = space.axes();
        let numbers =
            |e: &Affine| e.offset() == 0 && e.variables().all(|variable| own.contains(&variable));
        self.outer == 0
            && self.steps[0] == 1
            && self.derived.is_empty()
            && numbers(&self.expressions[0])
    }
}
