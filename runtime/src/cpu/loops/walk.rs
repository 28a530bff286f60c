//! Walks over a space of points, in the longest pieces along which affine expressions have constant
//! steps.

use crate::cpu::vector::number::Bool;
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::native::{Lines, Space};
use tile_compiler::nest::Derived;

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
        let part =
            lines.fold(all, |range, (value, step)| where_at_least_zero(range, *value, *step));
        part.start.min(self.length as i64) as usize
            ..part.end.max(part.start).min(self.length as i64) as usize
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

    /// Moves to a point of the space.
    pub fn locate(&mut self, space: &Space, mut position: usize) {
        for (axis, extent) in space.extents.iter().enumerate().rev() {
            self.point[space.first + axis] = (position % extent) as i64;
            position /= extent;
        }
    }

    /// Computes the values of the expressions at the point.
    fn evaluate(&mut self, lines: &Lines) {
        let Self { point, values, .. } = self;
        for (number, Derived { numerator, denominator }) in lines.derived.iter().enumerate() {
            point[lines.axes + number] = evaluate(numerator, point).div_euclid(*denominator);
        }
        values.clear();
        values.extend(lines.expressions.iter().map(|e| evaluate(e, point)));
    }

    /// Visits `length` points from `start` on, piece by piece. The variables outside the space keep
    /// their values in the walker's `point`.
    pub fn walk(
        &mut self,
        space: &Space,
        lines: &Lines,
        start: usize,
        length: usize,
        mut visit: impl FnMut(Piece),
    ) {
        self.walk_tables(space, lines, start, length, 1, |piece, _| visit(piece));
    }

    /// Walks as [`Walker::walk`] does, but visits up to `most` whole pieces at a time, which differ
    /// by `beside`. `visit` gets the first of them, and their number.
    pub fn walk_tables(
        &mut self,
        space: &Space,
        lines: &Lines,
        start: usize,
        length: usize,
        most: usize,
        mut visit: impl FnMut(Piece, usize),
    ) {
        let most = if lines.derived.is_empty() { most } else { 1 };
        let end = start + length;
        let mut position = start;
        // The first piece may start within a run.
        let mut skipped = start % lines.run;
        let mut is_known = false;
        self.locate(space, position);
        while position < end {
            if !is_known {
                self.evaluate(lines);
            }
            let Self { point, values, .. } = self;
            let piece = (lines.run - skipped).min(end - position);
            let mut pieces = 1;
            if let Some(axis) =
                lines.outer.checked_sub(1).filter(|_| most > 1 && piece == lines.run)
            {
                let variable = &mut point[space.first + axis];
                let left = space.extents[axis] - *variable as usize;
                pieces = ((end - position) / piece).min(left).min(most);
                *variable += pieces as i64 - 1;
            }
            visit(Piece { at: position - start, length: piece, values }, pieces);
            position += pieces * piece;
            // Moves on to the next piece: inner axes restart at 0, outer ones count up.
            is_known = skipped == 0 && lines.derived.is_empty();
            if skipped > 0 {
                point[space.first + lines.outer..space.first + space.extents.len()].fill(0);
                skipped = 0;
            }
            for axis in (0..lines.outer).rev() {
                let variable = &mut point[space.first + axis];
                *variable += 1;
                is_known &= axis + 1 == lines.outer;
                if *variable < space.extents[axis] as i64 {
                    // The values only move on beside the piece.
                    let moved = values.iter_mut().zip(&lines.beside).filter(|_| is_known);
                    moved.for_each(|(value, step)| {
                        *value = value.wrapping_add(step.wrapping_mul(pieces as i64))
                    });
                    break;
                }
                *variable = 0;
            }
        }
    }

    /// Returns whether all expressions are proven to be at least 0 at the `length` points from
    /// `start` on.
    pub fn all_hold(&mut self, space: &Space, lines: &Lines, start: usize, length: usize) -> bool {
        if lines.expressions.is_empty() {
            return true;
        }
        if !lines.derived.is_empty() {
            return false;
        }
        let Walker { point, bounds, .. } = self;
        bounds_over(space, start, length, bounds);
        lines.expressions.iter().all(|e| {
            let least = e.terms().iter().fold(e.offset(), |sum, (variable, c)| {
                let bounds = variable.checked_sub(space.first).and_then(|axis| bounds.get(axis));
                let (low, high) = bounds.copied().unwrap_or((point[*variable], point[*variable]));
                sum.wrapping_add(c.wrapping_mul(if *c > 0 { low } else { high }))
            });
            least >= 0
        })
    }
}

/// Evaluates an expression at a point.
fn evaluate(affine: &Affine, point: &[i64]) -> i64 {
    affine.terms().iter().fold(affine.offset(), |sum, (variable, c)| {
        sum.wrapping_add(c.wrapping_mul(point[*variable]))
    })
}

/// Computes inclusive bounds of the space's variables over `length` points from `start` on.
fn bounds_over(space: &Space, start: usize, length: usize, bounds: &mut Vec<(i64, i64)>) {
    bounds.clear();
    bounds.resize(space.extents.len(), (0, 0));
    let (mut from, mut to) = (start, start + length - 1);
    for (axis, extent) in space.extents.iter().enumerate().rev() {
        // If the ends lie in different rounds of this axis, any of its values may occur.
        let whole = from / extent != to / extent;
        bounds[axis] = if whole {
            (0, *extent as i64 - 1)
        } else {
            ((from % extent) as i64, (to % extent) as i64)
        };
        (from, to) = (from / extent, to / extent);
    }
}

/// Returns whether all guards hold at every point of the chunk. If not, sets `holds` to say where
/// they do.
pub fn guards_hold(
    space: &Space,
    guards: &Lines,
    walker: &mut Walker,
    chunk: &Range<usize>,
    holds: &mut [Bool],
) -> bool {
    let (start, length) = (chunk.start, chunk.len());
    if walker.all_hold(space, guards, start, length) {
        return true;
    }
    holds[..length].fill(Bool(0));
    walker.walk(space, guards, start, length, |piece| {
        let part = piece.where_at_least_zero(0, &guards.steps);
        holds[piece.at..][part].fill(Bool(1));
    });
    false
}

/// Returns the part of `range` where `value + i * step >= 0`.
#[inline]
pub fn where_at_least_zero(range: Range<i64>, value: i64, step: i64) -> Range<i64> {
    let Range { start, end } = range;
    match step {
        0 if value >= 0 => start..end,
        0 => start..start,
        // The common steps need no division.
        1 => start.max(-value)..end,
        -1 => start..end.min(value + 1),
        2.. => start.max(-value.div_euclid(step))..end,
        _ => start..end.min(value.div_euclid(-step) + 1),
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
