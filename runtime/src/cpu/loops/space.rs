//! Walks over a flattened range of axes, in the longest pieces along which given affine expressions
//! have constant steps.

use crate::cpu::vector::number::Bool;
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::nest::Nest;

/// Consecutive axes of a nest as one row-major range of points: for example, all free axes, or all
/// reduction axes.
#[derive(Clone, Debug)]
pub struct Space {
    first: usize,
    extents: Vec<usize>,
    /// The number of points.
    pub size: usize,
}

impl Space {
    /// Creates the space of `axes` of the nest.
    pub fn new(nest: &Nest, axes: Range<usize>) -> Self {
        let extents: Vec<usize> = nest.axes[axes.clone()].iter().map(|a| a.extent).collect();
        Self { first: axes.start, size: extents.iter().product(), extents }
    }

    /// Sets the space's variables in `point` to those of the point with this number.
    pub fn locate(&self, mut position: usize, point: &mut [i64]) {
        for (axis, extent) in self.extents.iter().enumerate().rev() {
            point[self.first + axis] = (position % extent) as i64;
            position /= extent;
        }
    }

    /// Returns the number of points after which an expression repeats, because within one launch
    /// only the innermost axes of the space decide its value. `None` if it depends on other axes of
    /// the nest.
    pub fn period(&self, nest: &Nest, affine: &Affine) -> Option<usize> {
        let mut outermost = self.extents.len();
        let mut pending: Vec<usize> = affine.variables().collect();
        while let Some(variable) = pending.pop() {
            match variable.checked_sub(nest.axes.len()) {
                Some(number) => pending.extend(nest.derived[number].numerator.variables()),
                None if nest.loops().contains(&variable) => {}
                None => {
                    let axis = variable.checked_sub(self.first).filter(|axis| *axis < self.extents.len())?;
                    outermost = outermost.min(axis);
                }
            }
        }
        Some(self.extents[outermost..].iter().product())
    }

    /// Computes inclusive bounds of the space's variables over `length` points from `start` on.
    fn bounds(&self, start: usize, length: usize, bounds: &mut Vec<(i64, i64)>) {
        bounds.clear();
        bounds.resize(self.extents.len(), (0, 0));
        let (mut from, mut to) = (start, start + length - 1);
        for (axis, extent) in self.extents.iter().enumerate().rev() {
            // If the ends lie in different rounds of this axis, any of its values may occur.
            let whole = from / extent != to / extent;
            bounds[axis] = if whole { (0, *extent as i64 - 1) } else { ((from % extent) as i64, (to % extent) as i64) };
            (from, to) = (from / extent, to / extent);
        }
    }
}

/// An affine expression, ready for evaluation.
#[derive(Clone, Debug)]
struct Expression {
    terms: Vec<(usize, i64)>,
    constant: i64,
}

impl Expression {
    fn new(affine: &Affine) -> Self {
        Self { terms: affine.terms().to_vec(), constant: affine.offset() }
    }

    fn at(&self, point: &[i64]) -> i64 {
        self.terms.iter().fold(self.constant, |sum, (variable, c)| sum.wrapping_add(c.wrapping_mul(point[*variable])))
    }
}

/// Some affine expressions over a nest's variables. They divide a space into pieces, along which
/// every expression has a constant step.
#[derive(Clone, Debug)]
pub struct Lines {
    expressions: Vec<Expression>,
    /// For each expression, its step from one point to the next within a piece.
    pub steps: Vec<i64>,
    /// For each expression, its step from one piece to the next along the axis around a piece.
    pub beside: Vec<i64>,
    /// The number of points of a whole piece. Pieces start at multiples of it.
    pub run: usize,
    /// The number of the space's axes outside a piece.
    outer: usize,
    /// The nest's derived variables up to the last one that the expressions need: numerator and
    /// denominator.
    derived: Vec<(Expression, i64)>,
    /// The number of the nest's axes.
    axes: usize,
}

/// A piece, with the values of the expressions at its start.
pub struct Piece<'a> {
    /// The index of the first point, counted from the start of the walk.
    pub at: usize,
    /// The number of points.
    pub length: usize,
    /// The expressions' values at the first point.
    pub values: &'a [i64],
}

impl Piece<'_> {
    /// Returns the part of the piece, relative to its start, in which all expressions from number
    /// `first` on are at least 0. `steps` are the steps of all expressions.
    pub fn where_at_least_zero(&self, first: usize, steps: &[i64]) -> Range<usize> {
        let lines = self.values.iter().zip(steps).skip(first);
        let all = 0..self.length as i64;
        let part = lines.fold(all, |range, (value, step)| where_at_least_zero(range, *value, *step));
        part.start.min(self.length as i64) as usize..part.end.max(part.start).min(self.length as i64) as usize
    }
}

impl Lines {
    /// Creates the lines of `affines` through `space`.
    pub fn new<'a>(nest: &Nest, space: &Space, affines: impl IntoIterator<Item = &'a Affine>) -> Self {
        let affines: Vec<&Affine> = affines.into_iter().collect();
        let axes = nest.axes.len();
        let deepest = affines.iter().flat_map(|a| a.variables()).max().map_or(0, |v| (v + 1).saturating_sub(axes));
        let derived = &nest.derived[..deepest];
        let bent = |axis: usize| derived.iter().any(|d| d.numerator.coefficient(axis) != 0);
        let last = space.first + space.extents.len();
        let mut steps = vec![0; affines.len()];
        let (mut run, mut outer) = (1, space.extents.len());
        while outer > 0 {
            let axis = space.first + outer - 1;
            let even = |(affine, step): (&&Affine, &i64)| {
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
            expressions: affines.into_iter().map(Expression::new).collect(),
            steps,
            run,
            outer,
            derived: derived.iter().map(|d| (Expression::new(&d.numerator), d.denominator)).collect(),
            axes,
        }
    }

    /// Returns whether there are no expressions.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Returns whether the first expression is a point's number in the space.
    pub fn is_number(&self, space: &Space) -> bool {
        let own = space.first..space.first + space.extents.len();
        let numbers = |e: &Expression| e.constant == 0 && e.terms.iter().all(|(variable, _)| own.contains(variable));
        self.outer == 0 && self.steps[0] == 1 && self.derived.is_empty() && numbers(&self.expressions[0])
    }

    fn evaluate(&self, point: &mut [i64], values: &mut Vec<i64>) {
        for (number, (numerator, denominator)) in self.derived.iter().enumerate() {
            point[self.axes + number] = numerator.at(point).div_euclid(*denominator);
        }
        values.clear();
        values.extend(self.expressions.iter().map(|e| e.at(point)));
    }

    /// Visits `length` points from `start` on, piece by piece. The variables outside the space keep
    /// their values in the walker's `point`.
    pub fn walk(&self, space: &Space, walker: &mut Walker, start: usize, length: usize, mut visit: impl FnMut(Piece)) {
        self.walk_tables(space, walker, start, length, 1, |piece, _| visit(piece));
    }

    /// Walks as [`Lines::walk`] does, but visits up to `most` whole pieces at a time, which differ
    /// by `beside`. `visit` gets the first of them, and their number.
    pub fn walk_tables(
        &self,
        space: &Space,
        walker: &mut Walker,
        start: usize,
        length: usize,
        most: usize,
        mut visit: impl FnMut(Piece, usize),
    ) {
        let Walker { point, values, .. } = walker;
        let most = if self.derived.is_empty() { most } else { 1 };
        let end = start + length;
        let mut position = start;
        space.locate(position, point);
        while position < end {
            self.evaluate(point, values);
            let piece = (self.run - position % self.run).min(end - position);
            let mut pieces = 1;
            if let Some(axis) = self.outer.checked_sub(1).filter(|_| most > 1 && piece == self.run) {
                let variable = &mut point[space.first + axis];
                let left = space.extents[axis] - *variable as usize;
                pieces = ((end - position) / piece).min(left).min(most);
                *variable += pieces as i64 - 1;
            }
            visit(Piece { at: position - start, length: piece, values }, pieces);
            position += pieces * piece;
            // Moves on to the next piece: inner axes restart at 0, outer ones count up.
            point[space.first + self.outer..space.first + space.extents.len()].fill(0);
            for axis in (0..self.outer).rev() {
                let variable = &mut point[space.first + axis];
                *variable += 1;
                if *variable < space.extents[axis] as i64 {
                    break;
                }
                *variable = 0;
            }
        }
    }

    /// Returns whether all expressions are proven to be at least 0 at the `length` points from
    /// `start` on.
    pub fn all_hold(&self, space: &Space, walker: &mut Walker, start: usize, length: usize) -> bool {
        if self.expressions.is_empty() {
            return true;
        }
        if !self.derived.is_empty() {
            return false;
        }
        let Walker { point, bounds, .. } = walker;
        space.bounds(start, length, bounds);
        self.expressions.iter().all(|e| {
            let least = e.terms.iter().fold(e.constant, |sum, (variable, c)| {
                let bounds = variable.checked_sub(space.first).and_then(|axis| bounds.get(axis));
                let (low, high) = bounds.copied().unwrap_or((point[*variable], point[*variable]));
                sum.wrapping_add(c.wrapping_mul(if *c > 0 { low } else { high }))
            });
            least >= 0
        })
    }
}

/// Guards over one space: expressions that must be at least 0.
pub struct Guards {
    space: Space,
    lines: Lines,
}

impl Guards {
    /// Creates guards over the variables of the nest.
    pub fn new(nest: &Nest, space: Space, guards: &[Affine]) -> Self {
        Self { lines: Lines::new(nest, &space, guards), space }
    }

    /// Returns whether all guards hold at every point of the chunk. If not, sets `holds` to say
    /// where they do.
    pub fn hold(&self, walker: &mut Walker, chunk: &Range<usize>, holds: &mut [Bool]) -> bool {
        let (start, length) = (chunk.start, chunk.len());
        if self.lines.all_hold(&self.space, walker, start, length) {
            return true;
        }
        holds[..length].fill(Bool(0));
        self.lines.walk(&self.space, walker, start, length, |piece| {
            let part = piece.where_at_least_zero(0, &self.lines.steps);
            holds[piece.at..][part].fill(Bool(1));
        });
        false
    }
}

/// Returns the part of `range` where `value + i * step >= 0`.
fn where_at_least_zero(range: Range<i64>, value: i64, step: i64) -> Range<i64> {
    let Range { start, end } = range;
    match step {
        0 if value >= 0 => start..end,
        0 => start..start,
        1.. => start.max(-value.div_euclid(step))..end,
        _ => start..end.min(value.div_euclid(-step) + 1),
    }
}

/// A thread's working memory for walks. Every variable outside the walked space must be set in the
/// point.
#[derive(Clone, Debug)]
pub struct Walker {
    pub point: Vec<i64>,
    values: Vec<i64>,
    bounds: Vec<(i64, i64)>,
}

impl Walker {
    /// Creates a walker at the origin of a nest with this number of variables.
    pub fn new(variables: usize) -> Self {
        Self { point: vec![0; variables], values: Vec::new(), bounds: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_lines_are_not_negative() {
        for value in -7..8 {
            for step in -3..4 {
                let want: Vec<i64> = (0..6).filter(|i| value + i * step >= 0).collect();
                let got: Vec<i64> = where_at_least_zero(0..6, value, step).collect();
                assert_eq!(got, want, "{value} + {step} i");
            }
        }
    }
}
