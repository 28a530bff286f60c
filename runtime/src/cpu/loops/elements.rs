//! Aggregations whose values are elements of one operand, as they are in memory: pooling, sums of
//! rows, the position of a row's greatest element.
//!
//! Elements are aggregated where they are, without a copy to a register, and the addresses along
//! all places of a chunk and all points of a window are sums of two small tables. So short rows and
//! guarded windows cost little more than their elements.

use super::walk::{Piece, Walker, where_at_least_zero};
use crate::cpu::vector::number::{Bool, Number};
use crate::cpu::vector::{self, Segment};
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{self, Lines, Reader, Space};

/// An aggregation across places, over few points.
pub struct Window {
    pub operand: usize,
    /// The address and the guards, through the places.
    lines: Lines,
    /// For each point of the reduction, how much further than at the first point the address and
    /// the guards are.
    moves: Vec<i64>,
}

/// The pieces of a chunk of places, with their addresses and guards at the first point.
#[derive(Default)]
pub struct WindowPieces {
    /// The first place, the length, and whether some point has counted at all of its places.
    pieces: Vec<(usize, usize, bool)>,
    values: Vec<i64>,
    segments: Vec<Segment>,
}

impl Window {
    /// Creates the window of an aggregation that has one.
    pub fn new(reduction: &native::Reduction) -> Option<Self> {
        let native::Reduction { places, points, guards, .. } = reduction;
        let reader = reduction.window()?;
        let expressions: Vec<Affine> =
            reader.offset.expressions.iter().chain(&guards.expressions).cloned().collect();
        let mut walker = Walker::new(reduction.body.variables.count());
        let mut moves = Vec::with_capacity(points.size * expressions.len());
        for point in 0..points.size {
            walker.locate(points, point);
            let moved = |e: &Affine| -> i64 {
                points.axes().map(|axis| e.coefficient(axis) * walker.point[axis]).sum()
            };
            moves.extend(expressions.iter().map(moved));
        }
        let lines = Lines::through(places, reader.offset.axes, &[], expressions);
        Some(Self { operand: reader.operand, lines, moves })
    }

    /// Aggregates the points with these numbers into `sums`, at the places of a chunk, and marks in
    /// `written` where any of them counted. `first` is the position of the first element of `data`,
    /// and `walker` is at the first point of the reduction.
    pub fn sum<T: Number>(
        &self,
        aggregation: Aggregation,
        (places, walker): (&Space, &mut Walker),
        (data, first): (&[T], usize),
        (chunk, points): (Range<usize>, Range<usize>),
        (sums, written): (&mut [T], &mut [Bool]),
        WindowPieces { pieces, values, segments }: &mut WindowPieces,
    ) {
        let Self { lines, moves, .. } = self;
        let width = lines.expressions.len();
        pieces.clear();
        values.clear();
        walker.walk(places, lines, chunk.start, chunk.len(), |piece| {
            pieces.push((piece.at, piece.length, false));
            values.extend(piece.values);
        });
        let step = lines.steps[0];
        for moves in moves[points.start * width..points.end * width].chunks_exact(width) {
            segments.clear();
            for ((at, length, whole), values) in pieces.iter_mut().zip(values.chunks_exact(width)) {
                let guards = values[1..].iter().zip(&moves[1..]).zip(&lines.steps[1..]);
                let part = guards.fold(0..*length as i64, |part, ((value, by), step)| {
                    where_at_least_zero(part, value + by, *step)
                });
                if part.start >= part.end {
                    continue;
                }
                let from = values[0] + moves[0] + part.start * step - first as i64;
                let to = *at + part.start as usize;
                let count = (part.end - part.start) as usize;
                segments.push(Segment { to, from: from as usize, length: count });
                if !*whole {
                    written[to..to + count].fill(Bool(1));
                    *whole = count == *length;
                }
            }
            vector::accumulate_segments(aggregation, sums, data, step as usize, segments);
        }
    }
}

/// An aggregation along rows of consecutive elements.
pub struct Rows {
    pub operand: usize,
    /// The address of a row's first element, through the places.
    lines: Lines,
    /// For the arg forms, the position of a row's first point, and the step to the next.
    position: Option<(i32, i32)>,
}

impl Rows {
    /// Creates the rows of an aggregation that has them.
    pub fn new(reduction: &native::Reduction) -> Option<Self> {
        let native::Reduction { places, points, position, .. } = reduction;
        let Reader { operand, offset, .. } = reduction.rows()?;
        let position = match (&position.expressions[..], position.steps.first()) {
            ([at], Some(step)) if position.run == points.size && position.derived.is_empty() => {
                let is_fixed = at.variables().all(|variable| points.axes().contains(&variable));
                Some((is_fixed.then_some(at.offset() as i32)?, *step as i32))
            }
            ([], _) => None,
            _ => return None,
        };
        let lines = Lines::through(places, offset.axes, &[], offset.expressions.clone());
        let forward = lines.steps[0] >= 0;
        forward.then_some(Self { operand: *operand, lines, position })
    }

    /// Aggregates some points of the rows of a chunk of places: to values, or for the arg forms to
    /// positions. `first` is the position of the first element of `data`, and `walker` is at the
    /// first point of the reduction.
    pub fn fold<T: Number>(
        &self,
        (aggregation, identity): (Aggregation, T),
        (places, walker): (&Space, &mut Walker),
        (data, first): (&[T], usize),
        (chunk, points): (Range<usize>, Range<usize>),
        (values, positions): (&mut [T], &mut [i32]),
    ) {
        let (length, step) = (points.len(), self.lines.steps[0] as usize);
        walker.walk(
            places,
            &self.lines,
            chunk.start,
            chunk.len(),
            |Piece { at, length: rows, values: from }| {
                let data = &data[(from[0] - first as i64) as usize + points.start..];
                let Some((position, by)) = self.position else {
                    return vector::fold_rows(
                        aggregation,
                        identity,
                        data,
                        step,
                        length,
                        &mut values[at..at + rows],
                    );
                };
                let greatest = aggregation == Aggregation::ArgMax;
                let to = &mut positions[at..at + rows];
                let position = position + by * points.start as i32;
                vector::best_of_rows(greatest, identity, data, step, length, (position, by), to);
            },
        );
    }

    /// Aggregates some points of one place to a value.
    pub fn fold_one<T: Number>(
        &self,
        with: (Aggregation, T),
        at: (&Space, &mut Walker),
        data: (&[T], usize),
        place: usize,
        points: Range<usize>,
    ) -> T {
        let mut value = [with.1];
        self.fold(with, at, data, (place..place + 1, points), (&mut value, &mut []));
        value[0]
    }
}
