//! Reductions of few points at each place, over elements that are contiguous along the last free
//! axis, or along the last two as one: depthwise convolution, convolution with few filters in a
//! group, pooling, sums over rows.
//!
//! The points of the reduction are *taps*, offsets from a place's own address. A *plane* has lines
//! of rows of columns, the last three free axes. Places are computed in tiles of some rows (or
//! lines) × some vectors of columns, in registers, over all taps. A thread computes a *block* of a
//! plane at a time, for a few vectors of columns in all of its lines: elements of x that several
//! lines read are still in L1 then. Guards divide a block into pieces in which the same taps count
//! (see [`division`]), so that the inner loops have no tests. An epilogue of the fused form is
//! applied to tiles in registers. Any other runs on the block while it is in the nearest caches.

mod division;
mod kernel;
mod strip;
mod tile;

use crate::cpu::loops::fused::FusedEpilogue;
use crate::cpu::loops::job::{Job, parallel};
use crate::cpu::loops::machine::Machine;
use crate::cpu::memory::CACHES;
use crate::cpu::threads::idle::Idle;
use crate::cpu::threads::pool;
use crate::cpu::vector::lanes::MOST_LANES;
use crate::cpu::vector::number::Bool;
use division::{Block, Divisions};
use kernel::Tap;
use tile::{Target, Tile};
use tile_compiler::affine::Affine;
use tile_compiler::native::{self, ACCUMULATOR, CHUNK, Form, NativeProgram, Space, WRITTEN};

/// The most places of a part of a line that are computed before the epilogue finishes them.
const LINE_SUMS: usize = 4 * CHUNK;
/// The most places of several lines.
const SUMS: usize = 16 * CHUNK;
/// The most places of a block whose results, or sums, are stored to the output.
const OUTPUT_SUMS: usize = 64 * CHUNK;
/// The columns of the widest kernels. Longer pieces of rows have a multiple of these.
const WHOLE: usize = 4 * MOST_LANES;
/// The shortest piece of a row that is worth finishing by itself.
const LEAST_PIECE: usize = 256;

/// A nest of this kind, ready to run.
pub struct Direct {
    form: Form,
    /// The extents of the free axes before those of lines, rows and columns.
    outer: Vec<usize>,
    /// The numbers of lines, rows and columns, and of the columns of a group: 1 unless the form is
    /// [`Form::OfGroups`]. The second factor is the same in all lines and rows.
    lines: usize,
    rows: usize,
    length: usize,
    group: usize,
    /// The number of points of `outer`.
    planes: usize,
    x: PlaneOffset,
    w: Option<PlaneOffset>,
    taps: Vec<Tap>,
    conditions: Vec<Condition>,
    /// The divisions of blocks that earlier runs have made.
    divisions: Idle<Divisions>,
}

/// An affine expression over the loops around the nest, the axes before those of a plane, the
/// lines, the rows, and the columns, or for x their groups.
struct PlaneOffset {
    operand: usize,
    loops: Vec<i64>,
    outer: Vec<i64>,
    constant: i64,
    line: i64,
    row: i64,
    along: i64,
}

impl PlaneOffset {
    /// Splits an expression into its parts.
    fn new(program: &NativeProgram, affine: &Affine, operand: usize, plane: &Plane) -> Self {
        let of_axis = |axis: Option<usize>| axis.map_or(0, |axis| affine.coefficient(axis));
        Self {
            operand,
            loops: program.loops().map(|variable| affine.coefficient(variable)).collect(),
            outer: (0..plane.outer).map(|axis| affine.coefficient(axis)).collect(),
            constant: affine.offset(),
            line: of_axis(plane.lines),
            row: of_axis(plane.rows),
            along: affine.coefficient(plane.along),
        }
    }

    /// Returns the value at the first place of a plane, which is a point of the outer axes, at
    /// these steps of the loops.
    fn start(&self, plane: &[usize], steps: &[usize]) -> i64 {
        let terms = self.outer.iter().zip(plane).chain(self.loops.iter().zip(steps));
        terms.fold(self.constant, |sum, (coefficient, i)| sum + coefficient * *i as i64)
    }
}

/// The axes of a plane: the number of those before, and those of its lines, rows, and columns or
/// groups of columns.
struct Plane {
    outer: usize,
    lines: Option<usize>,
    rows: Option<usize>,
    along: usize,
}

/// A guard of taps: an expression that must be at least 0 for a tap to count.
struct Condition {
    offset: PlaneOffset,
    /// The term of each tap, and the least of them.
    taps: Vec<i64>,
    least: i64,
}

/// Returns the terms that the taps add to an expression.
fn tap_terms(taps: &Space, affine: &Affine) -> Vec<i64> {
    let mut terms = vec![0];
    for (axis, &extent) in taps.axes().zip(&taps.extents) {
        let coefficient = affine.coefficient(axis);
        terms = terms
            .iter()
            .flat_map(|term| (0..extent as i64).map(move |i| term + i * coefficient))
            .collect();
    }
    terms
}

impl Direct {
    /// Prepares a nest of this kind.
    pub fn new(program: &NativeProgram, direct: &native::Direct) -> Self {
        let native::Direct { form, rows, taps, x, w, conditions } = direct;
        let end = program.epilogue.space.axes().end;
        let (columns, last) = (end - form.column_axes(), end - 1);
        let is_of_x = |axis: &usize| w.as_ref().is_none_or(|w| w.offset.coefficient(*axis) == 0);
        let lines = rows.and_then(|rows| rows.checked_sub(1)).filter(is_of_x);
        let outer = lines.or(*rows).unwrap_or(columns);
        let offset = |affine: &Affine, operand: usize, along: usize| {
            PlaneOffset::new(program, affine, operand, &Plane { outer, lines, rows: *rows, along })
        };
        let condition = |condition: &Affine| {
            let taps = tap_terms(taps, condition);
            Condition {
                offset: offset(condition, 0, last),
                least: taps.iter().copied().min().unwrap_or(0),
                taps,
            }
        };
        let (to_x, to_w) =
            (tap_terms(taps, &x.offset), w.as_ref().map(|w| tap_terms(taps, &w.offset)));
        let tap = |(i, to_x): (usize, &i64)| {
            [*to_x as isize, to_w.as_ref().map_or(0, |to_w| to_w[i]) as isize]
        };
        let outer = program.extents[..outer].to_vec();
        let extent = |axis: Option<usize>| axis.map_or(1, |axis| program.extents[axis]);
        Self {
            form: *form,
            planes: outer.iter().product(),
            outer,
            lines: extent(lines),
            rows: extent(*rows),
            length: program.extents[columns..end].iter().product(),
            group: if columns == last { 1 } else { program.extents[last] },
            x: offset(&x.offset, x.operand, columns),
            w: w.as_ref().map(|w| offset(&w.offset, w.operand, last)),
            taps: to_x.iter().enumerate().map(tap).collect(),
            conditions: conditions.iter().map(condition).collect(),
            divisions: Idle::new(),
        }
    }

    /// Computes all places.
    pub fn run(&self, job: &Job) {
        let is_fused = FusedEpilogue::suits(job, self.length, WHOLE);
        // Short pieces of rows are not worth finishing, so that their sums wait.
        let waits = !is_fused && !job.tracks_written() && self.most_columns() < LEAST_PIECE;
        let waiting = if waits { job.waiting::<f32>() } else { None };
        let is_in_output = is_fused || waiting.is_some();
        let [lines, rows, columns] = self.unit(is_in_output);
        // The last piece of a row has at least a vector: its columns are computed by the kernels of
        // the whole row, so that results do not depend on where a row is divided.
        let rest = if self.length % columns < MOST_LANES { self.length % columns } else { 0 };
        let pieces = self.length.div_ceil(columns) - usize::from(rest > 0 && self.length > columns);
        let counts = [self.lines.div_ceil(lines), self.rows.div_ceil(rows), pieces];
        let places = lines * rows * (columns + rest).min(self.length);
        let operations = if waiting.is_some() { 0 } else { job.epilogue.operations };
        let work = (self.taps.len() / 2 + 1 + operations) * places;
        let room = if is_in_output { 0 } else { places };
        let worker = || (job.finisher(), Tile::new(self, job, room), vec![0.0; room]);
        let units = self.planes * counts.iter().product::<usize>();
        parallel(0..units, work, worker, |(finisher, tile, sums), units| {
            for unit in units {
                let part = |number: usize, size: usize, all: usize| {
                    number * size..all.min((number + 1) * size)
                };
                let (of_lines, column) = (unit / counts[2], unit % counts[2]);
                let (of_planes, row) = (of_lines / counts[1], of_lines % counts[1]);
                let (plane, line) = (of_planes / counts[0], of_planes % counts[0]);
                let block = Block {
                    lines: part(line, lines, self.lines),
                    rows: part(row, rows, self.rows),
                    columns: column * columns..if column + 1 < pieces {
                        (column + 1) * columns
                    } else {
                        self.length
                    },
                };
                tile.locate(plane);
                let all_places = job.program.places();
                if let Some(waiting) = waiting {
                    let out = waiting.start(0..all_places);
                    tile.compute(&block, &Target::of_output(self, plane, out, all_places));
                    continue;
                }
                if is_fused && let Some(epilogue) = FusedEpilogue::new(job, finisher) {
                    let mut target = Target::of_output(self, plane, epilogue.out, all_places);
                    target.epilogue = Some(&epilogue);
                    tile.compute(&block, &target);
                    continue;
                }
                let sums = &mut sums[..block.places()];
                let all = tile.compute(&block, &Target::of_sums(&block, sums));
                self.finish(job, finisher, (plane, &block), sums, (!all).then_some(&tile.written));
            }
        });
        if let Some(waiting) = waiting {
            // SAFETY: the sums of all places wait, and all threads are done with them.
            unsafe { job.complete_waiting::<f32>(waiting) };
        }
    }

    /// Returns the most columns whose elements of w are in the nearest cache while the places of a
    /// block are computed.
    fn most_columns(&self) -> usize {
        match &self.w {
            Some(w) if w.along == 1 => {
                let most = CACHES.first / 2 / size_of::<f32>() / self.taps.len().max(1);
                (most / WHOLE * WHOLE).max(WHOLE)
            }
            _ => usize::MAX,
        }
    }

    /// Finishes the places of a block. `written` says at which any tap counted, if not at all.
    fn finish(
        &self,
        job: &Job,
        finisher: &mut Machine,
        (plane, block): (usize, &Block),
        sums: &[f32],
        written: Option<&Vec<Bool>>,
    ) {
        let Block { lines, rows, columns } = block;
        // Whole lines are consecutive, and so are the whole rows of a line.
        let run = match (columns.len() == self.length, rows.len() == self.rows) {
            (true, true) => sums.len(),
            (true, false) => rows.len() * self.length,
            _ => columns.len(),
        };
        let place = |line: usize, row: usize| {
            ((plane * self.lines + line) * self.rows + row) * self.length + columns.start
        };
        for (number, sums) in sums.chunks(run.max(1)).enumerate() {
            let row = number * run / columns.len();
            let place = place(lines.start + row / rows.len(), rows.start + row % rows.len());
            let Some(written) = written else {
                // SAFETY: each unit is one block of a plane, and one thread computes it.
                unsafe { job.complete(finisher, place, sums) };
                continue;
            };
            let pieces = sums.chunks(CHUNK).zip(written[number * run..].chunks(CHUNK));
            for ((sums, written), start) in pieces.zip((place..).step_by(CHUNK)) {
                finisher.given::<f32>(ACCUMULATOR)[..sums.len()].copy_from_slice(sums);
                finisher.given::<Bool>(WRITTEN)[..sums.len()]
                    .copy_from_slice(&written[..sums.len()]);
                // SAFETY: as for `complete`.
                unsafe { job.finish(finisher, start..start + sums.len()) };
            }
        }
    }

    /// Returns the lines, rows and columns to compute before the epilogue finishes them. The pieces
    /// are long enough to be worth finishing, and have as many rows as possible: the ends of rows
    /// take longer than their middles. They have as many lines as leave work for all threads. If
    /// the epilogue is applied to tiles, or sums wait in the output, blocks have more rows, but no
    /// more columns than elements of w are near.
    fn unit(&self, is_in_output: bool) -> [usize; 3] {
        let (line_sums, all_sums, most_columns) = if is_in_output {
            (OUTPUT_SUMS, OUTPUT_SUMS, self.most_columns())
        } else {
            (LINE_SUMS, SUMS, CHUNK)
        };
        let (lines, rows, length) = (self.lines.max(1), self.rows.max(1), self.length.max(1));
        // The epilogue takes the whole rows of a line together, but pieces of rows one by one,
        // which would be short. Lines alone must then be enough for all threads.
        let is_whole = length <= most_columns
            && rows * length <= all_sums
            && self.planes * lines >= 2 * pool::threads();
        let line_sums = if is_whole { all_sums } else { line_sums };
        let piece = (line_sums / rows).clamp(LEAST_PIECE, CHUNK).min(most_columns);
        // Pieces consist of whole vectors, and of whole groups if these are short.
        let of_groups = MOST_LANES * self.group;
        let whole = if self.group == 1 || of_groups > CHUNK { WHOLE } else { of_groups };
        let piece = length.div_ceil(length.div_ceil(piece)).next_multiple_of(whole);
        let piece = piece.min(CHUNK / whole * whole).min(length);
        let some_rows = (line_sums / piece).clamp(1, rows);
        if some_rows < rows {
            return [1, some_rows, piece];
        }
        let others = self.planes * length.div_ceil(piece);
        let for_threads = (lines * others).div_ceil(2 * pool::threads());
        let most = (all_sums / (rows * piece)).min(for_threads).clamp(1, lines);
        [lines.div_ceil(lines.div_ceil(most)), rows, piece]
    }
}
