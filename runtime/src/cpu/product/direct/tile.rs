//! The computation of one plane's places by one thread.

use super::kernel::{Addresses, Kernels, Tap, group_kernels, kernels};
use super::{Condition, Direct, PlaneOffset, SUMS};
use crate::cpu::loops::job::Job;
use crate::cpu::memory::elements;
use crate::cpu::vector::lanes::MOST_LANES;
use crate::cpu::vector::number::Bool;
use std::ops::Range;
use tile_compiler::native::{Form, WRITTEN};

/// The taps of a partial sum.
const BLOCK: usize = 256;

/// The most taps that the pieces of a division have together. They take some megabytes.
const MOST_LISTED: usize = 1 << 18;

/// The most rows, and the most vectors, of a kernel.
const MOST_ROWS: usize = 8;
const MOST_VECTORS: usize = 4;

/// Returns how many rows to take at once if `left` of `all` are left. They may be more than are
/// left.
fn rows_at_once(left: usize, all: usize) -> usize {
    let more = left.next_power_of_two();
    let rows = if more <= all { more } else { more / 2 };
    rows.min(MOST_ROWS)
}

/// The division of rows × columns into pieces in which the same taps count. Most planes have the
/// same one.
#[derive(Default)]
struct Division {
    rows: Range<usize>,
    columns: Range<usize>,
    /// The values of the conditions without the terms of taps, which decide the pieces.
    conditions: Vec<i64>,
    pieces: Vec<Piece>,
    /// The taps of all pieces.
    taps: Vec<Tap>,
}

/// A piece, with the range of its taps among all.
struct Piece {
    rows: Range<usize>,
    columns: Range<usize>,
    taps: Range<usize>,
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
    division: Division,
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
            division: Division::default(),
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
        // As many places at a time as have short lists, even if each is a piece of its own.
        let places = (MOST_LISTED / self.direct.taps.len().max(1)).max(1);
        let (width, wide) = (columns.len(), places.min(columns.len()).max(1));
        let mut all = true;
        for row in rows.clone().step_by((places / wide).max(1)) {
            let some_rows = row..rows.end.min(row + (places / wide).max(1));
            for column in columns.clone().step_by(wide) {
                let some_columns = column..columns.end.min(column + wide);
                let at = (row - rows.start) * width + column - columns.start;
                all &= self.part(some_rows.clone(), some_columns, at, width, sums);
            }
        }
        all
    }

    /// Computes some rows × columns as [`Tile::compute`] does, into sums that begin at `at`, with
    /// rows of `width`.
    fn part(
        &mut self,
        rows: Range<usize>,
        columns: Range<usize>,
        at: usize,
        width: usize,
        sums: &mut [f32],
    ) -> bool {
        let start = [rows.start, columns.start];
        self.divide(rows, columns);
        let division = std::mem::take(&mut self.division);
        let mut all = true;
        for Piece { rows, columns, taps } in &division.pieces {
            let at = at + (rows.start - start[0]) * width + columns.start - start[1];
            let taps = &division.taps[taps.clone()];
            self.block(rows.clone(), columns.clone(), taps, &mut sums[at..], width);
            if !self.written.is_empty() {
                let written = Bool(u8::from(!taps.is_empty()));
                for row in 0..rows.len() {
                    self.written[at + row * width..][..columns.len()].fill(written);
                }
                all &= !taps.is_empty();
            }
        }
        self.division = division;
        all
    }

    /// Divides rows × columns of the plane into pieces.
    fn divide(&mut self, rows: Range<usize>, columns: Range<usize>) {
        let Division { rows: old_rows, columns: old_columns, conditions, .. } = &self.division;
        if (old_rows, old_columns, conditions) == (&rows, &columns, &self.conditions) {
            return;
        }
        let Division { mut pieces, mut taps, .. } = std::mem::take(&mut self.division);
        pieces.clear();
        taps.clear();
        // Conditions along the rows that change from row to row divide each row differently.
        let slanted = self.direct.conditions.iter().any(|c| c.line.along != 0 && c.line.row != 0);
        let mut row = rows.start;
        while row < rows.end {
            let mut in_rows: Vec<usize> = (0..self.direct.taps.len()).collect();
            let end = self.count(
                &mut in_rows,
                row,
                rows.end,
                |line| line.along == 0,
                |line| (line.row, 0),
            );
            let end = if slanted { row + 1 } else { end };
            let mut column = columns.start;
            while column < columns.end {
                let mut in_piece = in_rows.clone();
                let row_at = row as i64;
                let until = self.count(
                    &mut in_piece,
                    column,
                    columns.end,
                    |line| line.along != 0,
                    |line| (line.along, line.row * row_at),
                );
                let first = taps.len();
                taps.extend(in_piece.iter().map(|&tap| self.direct.taps[tap]));
                let taps = first..taps.len();
                pieces.push(Piece { rows: row..end, columns: column..until, taps });
                column = until;
            }
            row = end;
        }
        let conditions = self.conditions.clone();
        self.division = Division { rows, columns, conditions, pieces, taps };
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
        let Direct { form, group, identity, x, w, .. } = self.direct;
        let length = columns.len();
        if taps.is_empty() {
            (0..rows.len()).for_each(|row| sums[row * stride..][..length].fill(*identity));
            return;
        }
        let inside = |data: &[f32], [first, last]: [i64; 2], step: i64, operand: usize| {
            let (mut low, mut high) = (isize::MAX, isize::MIN);
            for tap in taps {
                (low, high) = (low.min(tap[operand]), high.max(tap[operand]));
            }
            let span = step * (rows.len() as i64 - 1);
            first + low as i64 + span.min(0) >= 0
                && last + high as i64 + span.max(0) < data.len() as i64
        };
        let ends = [columns.start, columns.end - 1];
        assert!(
            inside(self.x, ends.map(|column| self.x_at(rows.start, column)), x.row, 0),
            "a tap leads out of its operand"
        );
        assert!(
            w.is_none() || inside(self.w, ends.map(|column| self.w_at(column)), 0, 1),
            "a tap leads out of its operand"
        );
        assert!((rows.len() - 1) * stride + length <= sums.len(), "a tile reaches past its chunk");
        if *form != Form::OfGroups {
            return self.tiles(*form, kernels(length), rows, columns, taps, sums, stride);
        }
        let span = |lanes: usize| {
            let is_even = [lanes, length, columns.start].iter().all(|n| n.is_multiple_of(*group));
            let groups = if is_even { lanes / group } else { (lanes + group - 2) / group + 1 };
            (groups - 1) * x.along as usize + 1
        };
        let picks = group_kernels(length, span);
        if picks.lanes > *group {
            return self.tiles(Form::OfGroups, picks, rows, columns, taps, sums, stride);
        }
        // The columns of a group read the same number.
        let mut column = columns.start;
        while column < columns.end {
            let end = ((column / group + 1) * group).min(columns.end);
            let (columns, sums) = (column..end, &mut sums[column - columns.start..]);
            let kernels = kernels(columns.len());
            self.tiles(Form::OfNumber, kernels, rows.clone(), columns, taps, sums, stride);
            column = end;
        }
    }

    /// Returns the number of the element of x without the taps' terms.
    fn x_at(&self, row: usize, column: usize) -> i64 {
        let Direct { group, x, .. } = self.direct;
        self.x_start + x.row * row as i64 + x.along * (column / group) as i64
    }

    /// Returns the number of the element of w without the taps' terms.
    fn w_at(&self, column: usize) -> i64 {
        self.w_start + self.direct.w.as_ref().map_or(0, |w| w.along * column as i64)
    }

    /// Computes as [`Tile::block`] does, whose assertions must hold, with kernels whose vectors are
    /// no longer than the rows, and which can read the groups of this form.
    #[expect(
        clippy::too_many_arguments,
        reason = "the arguments of `block`, for one kind of kernel"
    )]
    fn tiles(
        &self,
        form: Form,
        kernels: &Kernels,
        rows: Range<usize>,
        columns: Range<usize>,
        taps: &[Tap],
        sums: &mut [f32],
        stride: usize,
    ) {
        let (lanes, length) = (kernels.lanes, columns.len());
        let apart = self.direct.x.along == 2 && self.direct.w.is_none();
        let most_vectors = match form {
            Form::OfGroups => 1,
            _ => (kernels.most_sums / rows_at_once(rows.len(), rows.len())).min(MOST_VECTORS),
        };
        let mut column = 0;
        while column < length {
            let vectors = (1 << ((length - column) / lanes).max(1).ilog2()).min(most_vectors);
            // The last vector ends with the row and may overlap the one before.
            column = column.min(length - vectors * lanes);
            let first = columns.start + column;
            let groups = match form {
                Form::OfGroups => self.groups_from(first),
                _ => [0; MOST_LANES],
            };
            let mut row = 0;
            while row < rows.len() {
                let height = rows_at_once(rows.len() - row, rows.len());
                // The last rows may overlap those before, too.
                row = row.min(rows.len() - height);
                let kernel = kernels.get(form, apart, height, vectors);
                let x = self.x_at(rows.start + row, first) as isize;
                let place = Addresses {
                    x: self.x.as_ptr().wrapping_offset(x),
                    x_step: self.direct.x.row as isize,
                    groups: &groups,
                    span: groups[lanes - 1] as usize + 1,
                    w: self.w.as_ptr().wrapping_offset(self.w_at(first) as isize),
                    out: sums[row * stride + column..].as_mut_ptr(),
                    out_step: stride,
                };
                for (number, taps) in taps.chunks(BLOCK).enumerate() {
                    // SAFETY: the assertions of `block` hold, so all elements at the taps lie in
                    // the operands, and the tile in `sums`. The groups of the columns follow in
                    // order, so the last one has the greatest index. The kernel is one of those of
                    // this machine.
                    unsafe { kernel(taps, place, number == 0) };
                }
                row += height;
            }
            column += vectors * lanes;
        }
    }

    /// Returns the elements from the number of a column to those of the columns from there on.
    fn groups_from(&self, column: usize) -> [i32; MOST_LANES] {
        let Direct { group, x, .. } = self.direct;
        let (mut within, mut at) = (column % group, 0);
        [(); MOST_LANES].map(|()| {
            if within == *group {
                (within, at) = (0, at + x.along as i32);
            }
            within += 1;
            at
        })
    }
}
