//! Reductions of few points at each place, over elements that are contiguous along the last free
//! axis: depthwise convolution, pooling, sums over rows. They are recognised from the nest alone:
//! each load of the body must move by 1 or 0 along that axis.
//!
//! The points of the reduction are *taps*, offsets from a place's own address. Places are computed
//! in tiles of some rows (of the axis before the last) × some vectors, in registers, over all taps.
//! Guards divide the rows, and each row, into pieces in which the same taps count, so that the
//! inner loops have no tests. The epilogue runs on a chunk of places while it is in L1.

mod kernel;
mod tile;

use crate::cpu::loops::job::{Job, parallel};
use crate::cpu::vector::number::Bool;
use kernel::{Form, Tap};
use tile::Tile;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{ACCUMULATOR, CHUNK, WRITTEN};
use tile_compiler::nest::{Leaf, Load, Nest};
use tile_compiler::scalar::{BinaryOp, Inst};

/// The most places computed before the epilogue finishes them. They stay in L1.
const SUMS: usize = 4 * CHUNK;
/// The shortest piece of a row that is worth finishing by itself.
const LEAST_PIECE: usize = 256;
/// The most points of a reduction.
const MOST_TAPS: usize = 1 << 16;
/// The most points of a reduction with short rows. With more, going along the reduction is faster.
const MOST_TAPS_OF_SHORT_ROWS: usize = 64;

/// A nest of this kind, ready to run.
pub struct Direct {
    form: Form,
    /// The initial value of aggregates.
    identity: f32,
    /// The extents of the free axes before the last two.
    outer: Vec<usize>,
    /// The extents of the last two free axes.
    rows: usize,
    length: usize,
    /// The number of points of `outer`.
    planes: usize,
    x: Line,
    w: Option<Line>,
    taps: Vec<Tap>,
    conditions: Vec<Condition>,
}

/// An affine expression over the loops around the nest, the axes before the last two, the axis of
/// rows, and the last axis.
struct Line {
    operand: usize,
    loops: Vec<i64>,
    outer: Vec<i64>,
    constant: i64,
    row: i64,
    along: i64,
}

impl Line {
    /// Returns the value at the first place of a plane, which is a point of the outer axes, at
    /// these steps of the loops.
    fn start(&self, plane: &[usize], steps: &[usize]) -> i64 {
        let terms = self.outer.iter().zip(plane).chain(self.loops.iter().zip(steps));
        terms.fold(self.constant, |sum, (coefficient, i)| sum + coefficient * *i as i64)
    }
}

/// A guard of taps: an expression that must be at least 0 for a tap to count.
struct Condition {
    line: Line,
    /// The term of each tap, and the least of them.
    taps: Vec<i64>,
    least: i64,
}

/// Splits an affine expression into its parts.
fn line(nest: &Nest, affine: &Affine, operand: usize, tile: Option<usize>) -> Line {
    let last = nest.free - 1;
    Line {
        operand,
        loops: nest.loops().map(|variable| affine.coefficient(variable)).collect(),
        outer: (0..tile.unwrap_or(last)).map(|axis| affine.coefficient(axis)).collect(),
        constant: affine.offset(),
        row: tile.map_or(0, |axis| affine.coefficient(axis)),
        along: affine.coefficient(last),
    }
}

/// Returns the terms that the points of the reduction add to an expression.
fn tap_terms(nest: &Nest, affine: &Affine) -> Vec<i64> {
    let mut terms = vec![0];
    for axis in nest.reduction() {
        let coefficient = affine.coefficient(axis);
        let extent = nest.axes[axis].extent as i64;
        terms = terms.iter().flat_map(|term| (0..extent).map(move |i| term + i * coefficient)).collect();
    }
    terms
}

impl Direct {
    /// Prepares the nest, if it is of this kind.
    pub fn new(nest: &Nest) -> Option<Self> {
        let aggregation = nest.aggregation?;
        let points = nest.reduction_points();
        let last = nest.free.checked_sub(1)?;
        let length = nest.axes[last].extent;
        let short = length < 64 && points > MOST_TAPS_OF_SHORT_ROWS;
        if nest.accumulator() != Some(DType::F32) || points > MOST_TAPS || short || !nest.derived.is_empty() {
            return None;
        }
        let [result] = nest.body.results[..] else { return None };
        let load = |value: usize| -> Option<&Load> {
            match &nest.body.insts[value].0 {
                Inst::Leaf(Leaf::Load(load)) => Some(load),
                _ => None,
            }
        };
        let (x, w) = match nest.body.insts[result].0 {
            Inst::Binary(BinaryOp::Mul, a, b) => (load(a)?, Some(load(b)?)),
            _ => (load(result)?, None),
        };
        // The load that moves from row to row is x. If both do, there are no rows.
        let tile = last.checked_sub(1);
        let moves = |load: &Load| tile.is_some_and(|axis| load.offset.coefficient(axis) != 0);
        let (x, w) = match w {
            Some(w) if moves(w) => (w, Some(x)),
            _ => (x, w),
        };
        let tile = tile.filter(|_| !w.is_some_and(moves));
        let loads = || std::iter::once(x).chain(w);
        let along = |load: &Load| load.offset.coefficient(last);
        let form = match (aggregation, along(x), w.map(along)) {
            (Aggregation::Sum, 1, None) => Form::Sum,
            (Aggregation::Sum, 1, Some(1)) => Form::Products,
            (Aggregation::Sum, 1, Some(0)) => Form::ByNumber,
            (Aggregation::Sum, 0, Some(1)) => Form::OfNumber,
            (Aggregation::Max, 1, None) => Form::Max,
            (Aggregation::Min, 1, None) => Form::Min,
            _ => return None,
        };
        // A load that is not executed gives 0. In a sum, and only there, that is as good as a point
        // that does not count.
        let conditional = loads().any(|load| load.when.iter().any(|when| !nest.guards.contains(when)));
        let as_good = aggregation == Aggregation::Sum && !nest.tracks_written();
        if loads().any(|load| !load.dynamic.is_empty()) || (conditional && !as_good) {
            return None;
        }
        let mut guards: Vec<&Affine> = nest.guards.iter().collect();
        for when in loads().flat_map(|load| &load.when) {
            if !guards.contains(&when) {
                guards.push(when);
            }
        }
        let conditions = guards
            .into_iter()
            .map(|guard| {
                let taps = tap_terms(nest, guard);
                Condition { line: line(nest, guard, 0, tile), least: taps.iter().copied().min().unwrap_or(0), taps }
            })
            .collect();
        let (to_x, to_w) = (tap_terms(nest, &x.offset), w.map(|w| tap_terms(nest, &w.offset)));
        let tap = |(i, to_x): (usize, &i64)| [*to_x as isize, to_w.as_ref().map_or(0, |to_w| to_w[i]) as isize];
        let outer: Vec<usize> = nest.axes[..tile.unwrap_or(last)].iter().map(|axis| axis.extent).collect();
        Some(Self {
            form,
            identity: aggregation.identity(DType::F32).to_f64() as f32,
            planes: outer.iter().product(),
            outer,
            rows: tile.map_or(1, |axis| nest.axes[axis].extent),
            length,
            x: line(nest, &x.offset, x.operand, tile),
            w: w.map(|w| line(nest, &w.offset, w.operand, tile)),
            taps: to_x.iter().enumerate().map(tap).collect(),
            conditions,
        })
    }

    /// Computes all places.
    pub fn run(&self, job: &Job) {
        let (rows, piece) = self.unit();
        let bands = self.rows.div_ceil(rows);
        let pieces = self.length.div_ceil(piece);
        let work = (self.taps.len() / 2 + 1 + job.epilogue.len()) * rows * piece;
        let worker = || (job.finisher(), Tile::new(self, job), vec![0.0; rows * piece]);
        parallel(0..self.planes * bands * pieces, work, worker, |(finisher, tile, sums), units| {
            for unit in units {
                let (plane, band, number) = (unit / pieces / bands, unit / pieces % bands, unit % pieces);
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
                        finisher.given::<Bool>(WRITTEN)[..sums.len()].copy_from_slice(&written[..sums.len()]);
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
        let piece = length.div_ceil(length.div_ceil(piece)).next_multiple_of(64).min(length);
        ((SUMS / piece).clamp(1, rows), piece)
    }
}
