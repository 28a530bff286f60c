//! The computation of one plane's places by one thread.

use super::kernel::{Addresses, Tap, kernels};
use super::{Condition, Direct, PlaneOffset, SUMS};
use crate::cpu::loops::job::Job;
use crate::cpu::memory::elements;
use crate::cpu::vector::number::Bool;
use std::ops::Range;
use tile_compiler::native::{Form, WRITTEN};

/// The taps of a partial sum.
const BLOCK: usize = 256;

/// Returns how many rows or vectors to take at once if this many are left.
fn tile_size(left: usize) -> usize {
    match left {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => 4,
    }
}

/// A thread's state for one plane after the other.
pub struct Tile<'a> {
    direct: &'a Direct,
    /// The steps of the loops around the nest.
    steps: &'a [usize],
    x: &'a [f32],
    w: &'a [f32],
    /// The numbers of the elements that `x` and `w` start with.
    x_first: i64,
    w_first: i64,
    /// The current plane: its point of the outer axes, its start in each operand, and the values of
    /// the conditions there without the terms of taps.
    plane: Vec<usize>,
    x_start: i64,
    w_start: i64,
    conditions: Vec<i64>,
    /// The taps that count in the current piece of rows, and those of them that count in the
    /// current piece of columns.
    in_rows: Vec<usize>,
    in_piece: Vec<usize>,
    counting: Vec<Tap>,
    /// For each place computed last, row by row, whether any tap counted.
    pub written: Vec<Bool>,
}

impl<'a> Tile<'a> {
    pub fn new(direct: &'a Direct, job: &Job<'a>) -> Self {
        let data = |line: &PlaneOffset| elements::<f32>(job.launch.operands[line.operand].bytes);
        let first = |line: &PlaneOffset| job.launch.operands[line.operand].first as i64;
        let tracks_written = job.epilogue.given.iter().any(|(_, register)| *register == WRITTEN);
        Self {
            direct,
            steps: job.launch.steps,
            x: data(&direct.x),
            w: direct.w.as_ref().map_or(&[], data),
            x_first: first(&direct.x),
            w_first: direct.w.as_ref().map_or(0, first),
            plane: vec![0; direct.outer.len()],
            x_start: 0,
            w_start: 0,
            conditions: vec![0; direct.conditions.len()],
            in_rows: Vec::new(),
            in_piece: Vec::new(),
            counting: Vec::new(),
            written: vec![Bool(0); if tracks_written { SUMS } else { 0 }],
        }
    }

    /// Moves to a plane.
    pub fn locate(&mut self, mut number: usize) {
        for (i, extent) in self.plane.iter_mut().zip(&self.direct.outer).rev() {
            *i = number % extent;
            number /= extent;
        }
        self.x_start = self.direct.x.start(&self.plane, self.steps) - self.x_first;
        self.w_start =
            self.direct.w.as_ref().map_or(0, |w| w.start(&self.plane, self.steps) - self.w_first);
        for (value, condition) in self.conditions.iter_mut().zip(&self.direct.conditions) {
            *value = condition.line.start(&self.plane, self.steps);
        }
    }

    /// Computes rows × columns of the plane into `sums`, row by row. Returns false if the nest asks
    /// which places had a tap that counted, and not all had one: then `written` says which.
    pub fn compute(&mut self, rows: Range<usize>, columns: Range<usize>, sums: &mut [f32]) -> bool {
        let least = |range: &Range<usize>, coefficient: i64| {
            coefficient * if coefficient > 0 { range.start as i64 } else { range.end as i64 - 1 }
        };
        let inside = |(value, condition): (&i64, &Condition)| {
            let PlaneOffset { row, along, .. } = condition.line;
            value + least(&rows, row) + least(&columns, along) + condition.least >= 0
        };
        if self.conditions.iter().zip(&self.direct.conditions).all(inside) {
            self.block(rows, columns.clone(), &self.direct.taps, sums, columns.len());
            return true;
        }
        let width = columns.len();
        let mut all = true;
        let mut row = rows.start;
        while row < rows.end {
            let mut in_rows = std::mem::take(&mut self.in_rows);
            in_rows.clear();
            in_rows.extend(0..self.direct.taps.len());
            let end = self.count(
                &mut in_rows,
                row,
                rows.end,
                |line| line.along == 0,
                |line| (line.row, 0),
            );
            // Conditions along the rows that change from row to row divide each row differently.
            let slanted =
                self.direct.conditions.iter().any(|c| c.line.along != 0 && c.line.row != 0);
            let end = if slanted { row + 1 } else { end };
            let mut column = columns.start;
            while column < columns.end {
                let mut taps = std::mem::take(&mut self.in_piece);
                taps.clone_from(&in_rows);
                let row_at = row as i64;
                let until = self.count(
                    &mut taps,
                    column,
                    columns.end,
                    |line| line.along != 0,
                    |line| (line.along, line.row * row_at),
                );
                let mut counting = std::mem::take(&mut self.counting);
                counting.clear();
                counting.extend(taps.iter().map(|&tap| self.direct.taps[tap]));
                let at = (row - rows.start) * width + column - columns.start;
                self.block(row..end, column..until, &counting, &mut sums[at..], width);
                for row in 0..if self.written.is_empty() { 0 } else { end - row } {
                    let written = Bool(u8::from(!counting.is_empty()));
                    self.written[at + row * width..][..until - column].fill(written);
                }
                all &= !counting.is_empty() || self.written.is_empty();
                self.counting = counting;
                self.in_piece = taps;
                column = until;
            }
            self.in_rows = in_rows;
            row = end;
        }
        all
    }

    /// Removes from `taps` those for which a condition that `concern` selects fails at `position`.
    /// Returns the end, at most `end`, of the positions with the same result. `terms` gives an
    /// expression's coefficient of the position, and its other terms.
    fn count(
        &self,
        taps: &mut Vec<usize>,
        position: usize,
        mut end: usize,
        concern: impl Fn(&PlaneOffset) -> bool,
        terms: impl Fn(&PlaneOffset) -> (i64, i64),
    ) -> usize {
        for (start, condition) in self.conditions.iter().zip(&self.direct.conditions) {
            if !concern(&condition.line) {
                continue;
            }
            let (coefficient, more) = terms(&condition.line);
            let here = start + more + coefficient * position as i64;
            taps.retain(|&tap| {
                let value = here + condition.taps[tap];
                // The number of positions until the sign changes.
                let change = match (value >= 0, coefficient) {
                    (false, 1..) => (coefficient - 1 - value) / coefficient,
                    (true, ..0) => value / -coefficient + 1,
                    _ => i64::MAX,
                };
                end =
                    end.min(position.saturating_add(usize::try_from(change).unwrap_or(usize::MAX)));
                value >= 0
            });
        }
        end
    }

    /// Computes rows × columns in which all of `taps` count, and no others.
    fn block(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        taps: &[Tap],
        sums: &mut [f32],
        stride: usize,
    ) {
        let Direct { form, identity, x, w, .. } = self.direct;
        let length = columns.len();
        if taps.is_empty() {
            (0..rows.len()).for_each(|row| sums[row * stride..][..length].fill(*identity));
            return;
        }
        let w_along = w.as_ref().map_or(0, |w| w.along);
        let x_start = self.x_start + x.row * rows.start as i64 + x.along * columns.start as i64;
        let w_start = self.w_start + w_along * columns.start as i64;
        let inside = |data: &[f32], start: i64, step: i64, along: i64, operand: usize| {
            let (mut low, mut high) = (isize::MAX, isize::MIN);
            for tap in taps {
                (low, high) = (low.min(tap[operand]), high.max(tap[operand]));
            }
            let span = step * (rows.len() as i64 - 1);
            let (first, last) =
                (start + low as i64 + span.min(0), start + high as i64 + span.max(0));
            first >= 0 && last + along * (length as i64 - 1) < data.len() as i64
        };
        assert!(inside(self.x, x_start, x.row, x.along, 0), "a tap leads out of its operand");
        assert!(
            w.is_none() || inside(self.w, w_start, 0, w_along, 1),
            "a tap leads out of its operand"
        );
        assert!((rows.len() - 1) * stride + length <= sums.len(), "a tile reaches past its chunk");
        let Some(kernels) = kernels(length) else {
            return self.narrow(rows, columns, taps, sums, stride);
        };
        let mut row = 0;
        while row < rows.len() {
            let height = tile_size(rows.len() - row);
            let mut column = 0;
            while column < length {
                let vectors = tile_size((length - column) / kernels.lanes);
                // The last vector ends with the row and may overlap the one before.
                column = column.min(length - vectors * kernels.lanes);
                let kernel = kernels.get(*form, height, vectors);
                let place = Addresses {
                    x: self.x.as_ptr().wrapping_offset(
                        (x_start + x.row * row as i64 + x.along * column as i64) as isize,
                    ),
                    x_step: x.row as isize,
                    w: self
                        .w
                        .as_ptr()
                        .wrapping_offset((w_start + w_along * column as i64) as isize),
                    out: sums[row * stride + column..].as_mut_ptr(),
                    out_step: stride,
                };
                for (number, taps) in taps.chunks(BLOCK).enumerate() {
                    // SAFETY: the asserts above check that all elements at the taps lie in the
                    // operands, and the tile in `sums`. The kernel is one of
                    // `kernels`.
                    unsafe { kernel(taps, place, number == 0) };
                }
                column += vectors * kernels.lanes;
            }
            row += height;
        }
    }

    /// Computes as [`Tile::block`] does, for rows shorter than a vector.
    fn narrow(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        taps: &[Tap],
        sums: &mut [f32],
        stride: usize,
    ) {
        let Direct { form, x, w, .. } = self.direct;
        for (row, to) in rows.zip(sums.chunks_mut(stride)) {
            for (column, to) in columns.clone().zip(to) {
                let x_at = self.x_start + x.row * row as i64 + x.along * column as i64;
                let w_at = self.w_start + w.as_ref().map_or(0, |w| w.along * column as i64);
                let terms = taps.iter().map(|&[to_x, to_w]| {
                    let x = self.x[(x_at + to_x as i64) as usize];
                    if w.is_some() { x * self.w[(w_at + to_w as i64) as usize] } else { x }
                });
                *to = match form {
                    Form::Max => terms.fold(f32::NEG_INFINITY, |a, b| if a < b { b } else { a }),
                    Form::Min => terms.fold(f32::INFINITY, |a, b| if b < a { b } else { a }),
                    _ => terms.reduce(|a, b| a + b).unwrap_or_default(),
                };
            }
        }
    }
}
