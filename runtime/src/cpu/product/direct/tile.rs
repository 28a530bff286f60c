//! The computation of one plane's places by one thread.

use super::division::{Block, Divisions, MOST_LISTED, Piece, conditions_of};
use super::kernel::{Addresses, Kernels, Tap, group_kernels, kernels};
use super::strip::{MOST_ROWS, Strip, most_vectors, vectors_at_once};
use super::{Direct, PlaneOffset};
use crate::cpu::loops::fused::FusedEpilogue;
use crate::cpu::loops::job::Job;
use crate::cpu::memory::elements;
use crate::cpu::vector::lanes::MOST_LANES;
use crate::cpu::vector::number::Bool;
use std::ops::Range;
use tile_compiler::native::Form;

/// Cuts a range into parts of at most this length.
fn parts(range: &Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = range.end;
    range.clone().step_by(length).map(move |start| start..end.min(start + length))
}

/// Cuts columns into those of the same group.
fn groups_of(columns: &Range<usize>, group: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let (start, end) = (columns.start, columns.end);
    (start / group..end.div_ceil(group))
        .map(move |number| start.max(number * group)..end.min((number + 1) * group))
}

/// The elements that a block's places are stored to.
pub struct Target<'a> {
    out: *mut f32,
    /// The number of elements at `out`.
    length: usize,
    /// The position of the first place of the plane, modulo 2ⁿ, and the elements from one line to
    /// the next, and from one row to the next.
    start: usize,
    line: usize,
    row: usize,
    /// Applied to the sums before they are stored.
    pub epilogue: Option<&'a FusedEpilogue<'a>>,
}

impl<'a> Target<'a> {
    /// Stores the sums of a block, place by place.
    pub fn of_sums(block: &Block, sums: &'a mut [f32]) -> Self {
        let row = block.columns.len();
        let line = row * block.rows.len();
        let first = block.lines.start * line + block.rows.start * row + block.columns.start;
        let start = 0usize.wrapping_sub(first);
        Self { out: sums.as_mut_ptr(), length: sums.len(), start, line, row, epilogue: None }
    }

    /// Stores sums to the output `out` of a nest with this number of places.
    pub fn of_output(direct: &Direct, plane: usize, out: *mut f32, places: usize) -> Self {
        let (row, line) = (direct.length, direct.rows * direct.length);
        let start = plane * direct.lines * line;
        Self { out, length: places, start, line, row, epilogue: None }
    }

    /// Returns the position of a place of the plane.
    fn at(&self, line: usize, row: usize, column: usize) -> usize {
        self.start.wrapping_add(line * self.line + row * self.row + column)
    }
}

/// Asserts that an operand has the elements at all of the taps, for places of which the first and
/// last column have these elements at the first row and line. `spans` are the elements to the last
/// line and row.
fn assert_inside(
    data: &[f32],
    [first, last]: [i64; 2],
    spans: [i64; 2],
    taps: &[Tap],
    operand: usize,
) {
    let of_taps = || taps.iter().map(|tap| tap[operand] as i64);
    let (Some(low), Some(high)) = (of_taps().min(), of_taps().max()) else { return };
    let [least, most] =
        [spans.map(|span| span.min(0)), spans.map(|span| span.max(0))].map(|s| s[0] + s[1]);
    assert!(
        first + low + least >= 0 && last + high + most < data.len() as i64,
        "a tap leads out of its operand"
    );
}

/// A direction in which a piece's places are computed: their number, and the elements of x and of
/// the sums from one to the next.
#[derive(Clone, Copy)]
struct Direction {
    count: usize,
    x: i64,
    out: usize,
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
    divisions: Divisions,
    /// For each place of the block computed last, whether any tap counted.
    pub written: Vec<Bool>,
}

impl<'a> Tile<'a> {
    /// Creates the state for blocks of at most this number of places.
    pub fn new(direct: &'a Direct, job: &Job<'a>, places: usize) -> Self {
        let data = |line: &PlaneOffset| elements::<f32>(job.launch.operands[line.operand].bytes);
        let first = |line: &PlaneOffset| job.launch.operands[line.operand].first as i64;
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
            divisions: direct.divisions.take(Divisions::default),
            written: vec![Bool(0); if job.tracks_written() { places } else { 0 }],
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
            *value = condition.offset.start(&self.plane, self.steps);
        }
    }

    /// Computes a block of the plane. Returns false if the nest asks
    /// which places had a tap that counted, and not all had one: then `written` says which.
    pub fn compute(&mut self, block: &Block, target: &Target) -> bool {
        // As many places at a time as have short lists, even if each is a piece of its own.
        let places = (MOST_LISTED / self.direct.taps.len().max(1)).max(1);
        let wide = places.min(block.columns.len()).max(1);
        let tall = (places / wide).clamp(1, block.rows.len().max(1));
        let deep = (places / wide / tall).max(1);
        let mut all = true;
        for lines in parts(&block.lines, deep) {
            for rows in parts(&block.rows, tall) {
                for columns in parts(&block.columns, wide) {
                    let part = Block { lines: lines.clone(), rows: rows.clone(), columns };
                    all &= self.part(&part, target);
                }
            }
        }
        all
    }

    /// Computes a part of a block as [`Tile::compute`] does.
    fn part(&mut self, part: &Block, target: &Target) -> bool {
        let Some(conditions) = conditions_of(self.direct, &self.conditions, part) else {
            self.piece(part, &self.direct.taps, target);
            self.mark(part, target, true);
            return true;
        };
        let mut divisions = std::mem::take(&mut self.divisions);
        let division = divisions.divide(self.direct, part, conditions);
        let mut all = true;
        for Piece { block, taps } in &division.pieces {
            let lines = part.lines.start + block.lines.start..part.lines.start + block.lines.end;
            let block = Block { lines, ..block.clone() };
            let taps = &division.taps[taps.clone()];
            self.piece(&block, taps, target);
            all &= self.mark(&block, target, !taps.is_empty());
        }
        self.divisions = divisions;
        all
    }

    /// Notes whether any tap counted at the places of a piece, if the nest asks. Returns false if
    /// none did.
    fn mark(&mut self, piece: &Block, target: &Target, counted: bool) -> bool {
        if self.written.is_empty() {
            return true;
        }
        for line in piece.lines.clone() {
            for row in piece.rows.clone() {
                let start = target.at(line, row, piece.columns.start);
                self.written[start..][..piece.columns.len()].fill(Bool(u8::from(counted)));
            }
        }
        counted
    }

    /// Computes a piece in which all of `taps` count, and no others.
    fn piece(&self, piece: &Block, taps: &[Tap], target: &Target) {
        let Direct { form, group, x, .. } = self.direct;
        let Block { lines, rows, columns } = piece;
        let length = columns.len();
        let of_x = [columns.start, columns.end - 1]
            .map(|column| self.x_at(lines.start, rows.start, column));
        let spans = [x.line * (lines.len() as i64 - 1), x.row * (rows.len() as i64 - 1)];
        assert_inside(self.x, of_x, spans, taps, 0);
        if self.direct.w.is_some() {
            let of_w = [columns.start, columns.end - 1].map(|column| self.w_at(column));
            assert_inside(self.w, of_w, [0; 2], taps, 1);
        }
        let end = target.at(lines.end - 1, rows.end - 1, columns.end - 1);
        assert!(end < target.length, "a piece reaches past its block");
        if *form != Form::OfGroups {
            return self.tiles(*form, kernels(length), piece, taps, target);
        }
        let span = |lanes: usize| {
            let is_even = [lanes, length, columns.start].iter().all(|n| n.is_multiple_of(*group));
            let groups = if is_even { lanes / group } else { (lanes + group - 2) / group + 1 };
            (groups - 1) * x.along as usize + 1
        };
        let picks = group_kernels(length, span);
        if picks.lanes > *group {
            return self.tiles(Form::OfGroups, picks, piece, taps, target);
        }
        // The columns of a group read the same number.
        for columns in groups_of(columns, *group) {
            let kernels = kernels(columns.len());
            let piece = Block { columns, ..piece.clone() };
            self.tiles(Form::OfNumber, kernels, &piece, taps, target);
        }
    }

    /// Returns the number of the element of x without the taps' terms.
    fn x_at(&self, line: usize, row: usize, column: usize) -> i64 {
        let Direct { group, x, .. } = self.direct;
        let of_lines = self.x_start + x.line * line as i64;
        of_lines + x.row * row as i64 + x.along * (column / group) as i64
    }

    /// Returns the number of the element of w without the taps' terms.
    fn w_at(&self, column: usize) -> i64 {
        self.w_start + self.direct.w.as_ref().map_or(0, |w| w.along * column as i64)
    }

    /// Computes as [`Tile::piece`] does, whose assertions must hold, with kernels whose vectors are
    /// no longer than the rows, and which can read the groups of this form.
    fn tiles(&self, form: Form, kernels: &Kernels, piece: &Block, taps: &[Tap], target: &Target) {
        let (lanes, length) = (kernels.lanes, piece.columns.len());
        let x = &self.direct.x;
        let apart = x.along == 2 && self.direct.w.is_none();
        let of_lines = Direction { count: piece.lines.len(), x: x.line, out: target.line };
        let of_rows = Direction { count: piece.rows.len(), x: x.row, out: target.row };
        // Tiles extend along the rows, unless these are few.
        let is_narrow = of_rows.count < of_lines.count.min(MOST_ROWS);
        let (tall, other) = if is_narrow { (of_lines, of_rows) } else { (of_rows, of_lines) };
        let most_vectors = match form {
            Form::OfGroups => 1,
            _ => most_vectors(kernels, tall.count),
        };
        let mut column = 0;
        while column < length {
            let vectors = vectors_at_once(kernels, length - column, most_vectors);
            // The last vector ends with the row and may overlap the one before.
            column = column.min(length - vectors * lanes);
            let first = piece.columns.start + column;
            let groups = match form {
                Form::OfGroups => self.groups_from(first),
                _ => [0; MOST_LANES],
            };
            let x = self.x_at(piece.lines.start, piece.rows.start, first);
            let out = target.at(piece.lines.start, piece.rows.start, first);
            let finish = target.epilogue.map(|epilogue| epilogue.at(out, tall.out));
            let strip = Strip { kernels, form, apart, vectors, taps, finish: finish.as_ref() };
            for number in 0..other.count {
                let after = other.out * number;
                let place = Addresses {
                    x: self.x.as_ptr().wrapping_offset((x + other.x * number as i64) as isize),
                    x_step: tall.x as isize,
                    groups: &groups,
                    span: groups[lanes - 1] as usize + 1,
                    w: self.w_from(first),
                    out: target.out.wrapping_add(out + after),
                    out_step: tall.out,
                    after,
                };
                // SAFETY: the assertions of `piece` hold, so all elements at the taps lie in the
                // operands, and the tiles in the target, where nobody else accesses them. The terms
                // of an epilogue that suits have elements for all places, and rows and lines are
                // whole rows of the nest. The groups of the columns follow in order, so the last
                // one has the greatest index. The kernels are some of this machine's.
                unsafe { strip.run(place, tall.count) };
            }
            column += vectors * lanes;
        }
    }

    /// Returns the address of w at a column, without the taps' terms.
    fn w_from(&self, column: usize) -> *const f32 {
        self.w.as_ptr().wrapping_offset(self.w_at(column) as isize)
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

impl Drop for Tile<'_> {
    /// Keeps the divisions for later runs.
    fn drop(&mut self) {
        self.direct.divisions.give(std::mem::take(&mut self.divisions));
    }
}
