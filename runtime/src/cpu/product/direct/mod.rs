//! Reductions of few points at each place, over elements that are contiguous along the last free
//! axis, or along the last two as one: depthwise convolution, convolution with few filters in a
//! group, pooling, sums over rows.
//!
//! The points of the reduction are *taps*, offsets from a place's own address. Places are computed
//! in tiles of some rows (of the axis before) × some vectors, in registers, over all taps.
//! Guards divide the rows, and each row, into pieces in which the same taps count, so that the
//! inner loops have no tests. The epilogue runs on a chunk of places while it is in L1.

mod kernel;
mod tile;

use crate::cpu::loops::job::{Job, parallel};
use crate::cpu::vector::lanes::MOST_LANES;
use crate::cpu::vector::number::Bool;
use kernel::Tap;
use tile::Tile;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::native::{self, ACCUMULATOR, CHUNK, Form, NativeProgram, Space, WRITTEN};

/// The most places computed before the epilogue finishes them. They stay in L1.
const SUMS: usize = 4 * CHUNK;
/// The shortest piece of a row that is worth finishing by itself.
const LEAST_PIECE: usize = 256;
/// A nest of this kind, ready to run.
pub struct Direct {
    form: Form,
    /// The initial value of aggregates.
    identity: f32,
    /// The extents of the free axes before those of rows and columns.
    outer: Vec<usize>,
    /// The numbers of rows and columns, and of the columns of a group: 1 unless the form is
    /// [`Form::OfGroups`].
    rows: usize,
    length: usize,
    group: usize,
    /// The number of points of `outer`.
    planes: usize,
    x: PlaneOffset,
    w: Option<PlaneOffset>,
    taps: Vec<Tap>,
    conditions: Vec<Condition>,
}

/// An affine expression over the loops around the nest, the axes before rows and columns, the rows,
/// and the columns, or for x their groups.
struct PlaneOffset {
    operand: usize,
    loops: Vec<i64>,
    outer: Vec<i64>,
    constant: i64,
    row: i64,
    along: i64,
}

impl PlaneOffset {
    /// Returns the value at the first place of a plane, which is a point of the outer axes, at
    /// these steps of the loops.
    fn start(&self, plane: &[usize], steps: &[usize]) -> i64 {
        let terms = self.outer.iter().zip(plane).chain(self.loops.iter().zip(steps));
        terms.fold(self.constant, |sum, (coefficient, i)| sum + coefficient * *i as i64)
    }
}

/// A guard of taps: an expression that must be at least 0 for a tap to count.
struct Condition {
    line: PlaneOffset,
    /// The term of each tap, and the least of them.
    taps: Vec<i64>,
    least: i64,
}

/// Splits an expression into its parts. `outer` is the number of outer axes, `rows` the axis of
/// rows, and `along` that of columns or groups.
fn line(
    program: &NativeProgram,
    affine: &Affine,
    operand: usize,
    (outer, rows, along): (usize, Option<usize>, usize),
) -> PlaneOffset {
    PlaneOffset {
        operand,
        loops: program.loops().map(|variable| affine.coefficient(variable)).collect(),
        outer: (0..outer).map(|axis| affine.coefficient(axis)).collect(),
        constant: affine.offset(),
        row: rows.map_or(0, |axis| affine.coefficient(axis)),
        along: affine.coefficient(along),
    }
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
        let outer = rows.unwrap_or(columns);
        let line = |affine: &Affine, operand: usize, along: usize| {
            line(program, affine, operand, (outer, *rows, along))
        };
        let condition = |condition: &Affine| {
            let taps = tap_terms(taps, condition);
            Condition {
                line: line(condition, 0, last),
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
        Self {
            form: *form,
            identity: form.aggregation().identity(DType::F32).to_f64() as f32,
            planes: outer.iter().product(),
            outer,
            rows: rows.map_or(1, |axis| program.extents[axis]),
            length: program.extents[columns..end].iter().product(),
            group: if columns == last { 1 } else { program.extents[last] },
            x: line(&x.offset, x.operand, columns),
            w: w.as_ref().map(|w| line(&w.offset, w.operand, last)),
            taps: to_x.iter().enumerate().map(tap).collect(),
            conditions: conditions.iter().map(condition).collect(),
        }
    }

    /// Computes all places.
    pub fn run(&self, job: &Job) {
        let (rows, piece) = self.unit();
        let bands = self.rows.div_ceil(rows);
        let pieces = self.length.div_ceil(piece);
        let work = (self.taps.len() / 2 + 1 + job.epilogue.operations) * rows * piece;
        let worker = || (job.finisher(), Tile::new(self, job), vec![0.0; rows * piece]);
        parallel(0..self.planes * bands * pieces, work, worker, |(finisher, tile, sums), units| {
            for unit in units {
                let (plane, band, number) =
                    (unit / pieces / bands, unit / pieces % bands, unit % pieces);
                let band = band * rows..self.rows.min((band + 1) * rows);
                let columns = number * piece..self.length.min((number + 1) * piece);
                let place = (plane * self.rows + band.start) * self.length + columns.start;
                let width = columns.len();
                let sums = &mut sums[..band.len() * width];
                tile.locate(plane);
                let all = tile.compute(band, columns, sums);
                // Whole rows are consecutive. Pieces of rows are finished one by one.
                let run = if width == self.length { sums.len() } else { width };
                for (number, sums) in sums.chunks(run).enumerate() {
                    let place = place + number * self.length;
                    if all {
                        // SAFETY: each unit is one band of one piece of a plane, and one thread
                        // computes it.
                        unsafe { job.complete(finisher, place, sums) };
                        continue;
                    }
                    let pieces = sums.chunks(CHUNK).zip(tile.written[number * run..].chunks(CHUNK));
                    for ((sums, written), start) in pieces.zip((place..).step_by(CHUNK)) {
                        finisher.given::<f32>(ACCUMULATOR)[..sums.len()].copy_from_slice(sums);
                        finisher.given::<Bool>(WRITTEN)[..sums.len()]
                            .copy_from_slice(&written[..sums.len()]);
                        // SAFETY: as for `complete`.
                        unsafe { job.finish(finisher, start..start + sums.len()) };
                    }
                }
            }
        });
    }

    /// Returns the rows and columns to compute before the epilogue finishes them. The pieces are
    /// long enough to be worth finishing, and have as many rows as possible: the ends of rows take
    /// longer than their middles.
    fn unit(&self) -> (usize, usize) {
        let (rows, length) = (self.rows.max(1), self.length.max(1));
        let piece = (SUMS / rows).clamp(LEAST_PIECE, CHUNK);
        // Pieces consist of whole vectors, and of whole groups if these are short.
        let of_groups = MOST_LANES * self.group;
        let whole = if self.group == 1 || of_groups > CHUNK { 64 } else { of_groups };
        let piece = length.div_ceil(length.div_ceil(piece)).next_multiple_of(whole);
        let piece = piece.min(CHUNK / whole * whole).min(length);
        ((SUMS / piece).clamp(1, rows), piece)
    }
}
