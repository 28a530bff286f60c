//! Windows: copies of the elements that a task needs of an operand, where rows and terms access the
//! same elements repeatedly. Each element is copied once, padding included, to a box that kernels
//! read.
//!
//! Example: row (y, x) of a convolution reads, for term (i, j, c), the image's element (y + i - 1,
//! x + j - 1, c). Packed as rows × terms, each element would be stored nine times. Instead it is
//! addressed by *coordinates*, here y + i, x + j and c, each a sum of a term of the batch, one of
//! the row and one of the reduction term. The box of coordinates that some rows and some terms span
//! is copied, with zeros beyond the image.
//!
//! Always true: in the box, the place of (row, term) is the row's place plus the term's.

use super::kernel::{Layout, Run};
use super::pack;
use super::task::Runs;
use crate::cpu::vector::copy_short;
use smallvec::SmallVec;
use std::iter;
use std::ops::Range;

/// An operand addressed by coordinates, sorted by stride, largest first.
#[derive(Clone, Debug)]
pub struct Window {
    coordinates: Vec<Coordinate>,
    /// The extents of the axes that make up the rows, innermost first. Along the innermost one,
    /// rows are evenly spaced.
    rows: Vec<usize>,
    layout: Layout,
    /// For each row and each term, how many from there on are evenly spaced in every coordinate.
    even_rows: Vec<u32>,
    even_terms: Vec<u32>,
}

/// One coordinate of an element.
#[derive(Clone, Debug)]
pub struct Coordinate {
    /// The operand's elements per step of the coordinate.
    pub stride: usize,
    /// The range in which there are elements. Elsewhere there are zeros.
    pub within: Range<isize>,
    /// The range in which terms count; elsewhere they may be left out. It is wider than `within`
    /// where zeros count, as those of a padded tensor: times an infinite number, they give NaN.
    pub counts: Range<isize>,
    /// The terms that each batch adds to it.
    pub batch: Vec<isize>,
    /// The terms that each row adds to it.
    pub outer: Vec<isize>,
    /// The terms that each reduction term adds to it.
    pub k: Vec<isize>,
}

/// With shorter runs of rows, packing is better: a kernel of few rows waits for its own sums.
const LEAST_ROWS: usize = 5;
/// The least average number of uses of an element of the operand, in tenths. With fewer, packing or
/// reading in place is better.
const LEAST_REUSE: usize = 15;
/// About the terms of a block. It is longer than a packed block, since a panel of rows accesses
/// fewer than rows × terms elements in L1.
const BLOCK: usize = 576;
/// ProductBlocks have channels in multiples of this, so that runs are not too short.
const LEAST_CHANNELS: usize = 16;
/// Rows of the box at multiples of this many bytes would displace each other from L1.
const SCATTERED: usize = 1024;
/// The bytes of padding between such rows.
const APART: usize = 64;

impl Window {
    /// Creates the operand with these coordinates. `rows` are the extents of the axes that make up
    /// its rows, innermost first. Returns `None` if kernels could not read it, or if packing is as
    /// good.
    pub fn new(mut coordinates: Vec<Coordinate>, rows: Vec<usize>) -> Option<Self> {
        coordinates.sort_by_key(|coordinate| std::cmp::Reverse(coordinate.stride));
        let rows: Vec<usize> = rows.into_iter().filter(|&extent| extent > 1).collect();
        let first = coordinates.first()?;
        let (m, k) = (first.outer.len(), first.k.len());
        let backwards = |coordinate: &Coordinate| matches!(coordinate.outer[..], [first, second, ..] if second < first);
        if *rows.first()? < LEAST_ROWS || k < 2 || coordinates.iter().any(backwards) {
            return None;
        }
        // The steps from the first term, or row, to the second: contiguous if only the last
        // coordinate moves, by 1.
        let steps = |table: fn(&Coordinate) -> &Vec<isize>, coordinate: &Coordinate| {
            let [first, second, ..] = table(coordinate)[..] else { return 0 };
            second - first
        };
        let unit = |table: fn(&Coordinate) -> &Vec<isize>| {
            let (last, rest) = coordinates.split_last()?;
            let others = rest.iter().all(|coordinate| steps(table, coordinate) == 0);
            (others && steps(table, last) == 1 && last.stride == 1).then_some(())
        };
        let layout = match unit(|coordinate| &coordinate.k) {
            Some(()) => Layout::KContiguous,
            None => unit(|coordinate| &coordinate.outer).map(|()| Layout::RowContiguous)?,
        };
        let even_rows = pack::runs(m, coordinates.iter().map(|coordinate| &coordinate.outer));
        // Kernels read the rows of a run at even steps.
        if (0..m).step_by(rows[0]).any(|row| (even_rows[row] as usize) < rows[0].min(m - row)) {
            return None;
        }
        let even_terms = even_terms(&coordinates);
        let window = Self { coordinates, rows, layout, even_rows, even_terms };
        let elements = window.frame(0, 0..m, 0..k).elements_inside();
        (elements * LEAST_REUSE <= 10 * m * k).then_some(window)
    }

    /// Returns the layout in which kernels read its panels.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the length of a run: from each multiple of it on, that many rows are evenly spaced.
    pub fn run(&self) -> usize {
        self.rows[0]
    }

    /// Divides the rows into blocks of about `most` panels, within which as few of the outer axes
    /// as possible change. A run has `in_run` panels. Returns ranges of panels.
    pub fn blocks(&self, in_run: usize, most: usize) -> Vec<Range<usize>> {
        let extents = || iter::once(in_run).chain(self.rows[1..].iter().copied());
        let all: usize = extents().product();
        let mut inner = 1;
        for extent in extents() {
            if inner * extent > most {
                let parts = (inner * extent).div_ceil(most).min(extent);
                let starts = (0..all / (inner * extent)).flat_map(|outer| {
                    (0..parts).map(move |part| inner * (outer * extent + extent * part / parts))
                });
                let ends: Vec<usize> = starts.clone().skip(1).chain([all]).collect();
                return starts.zip(ends).map(|(start, end)| start..end).collect();
            }
            inner *= extent;
        }
        iter::once(0..all).collect()
    }

    /// Returns an order of the terms and the length of a block such that most terms of a block
    /// access the same elements. `extents` are those of the axes that make up the terms. An order
    /// of `None` keeps the terms as they are.
    pub fn order(&self, extents: &[usize]) -> (Option<Vec<usize>>, usize) {
        let k: usize = extents.iter().product();
        let most = k.div_ceil(k.div_ceil(BLOCK));
        match self.layout {
            // All taps of some channels, then those of the next channels.
            Layout::KContiguous => {
                let channels =
                    extents.iter().rev().copied().find(|&extent| extent > 1).unwrap_or(1);
                let (taps, blocks) = (k / channels, k.div_ceil(most));
                let some = channels.div_ceil(blocks).next_multiple_of(LEAST_CHANNELS).min(channels);
                if blocks == 1 || taps == 1 || taps * some > 4 * most {
                    return (None, most);
                }
                let order = (0..channels).step_by(some).flat_map(|first| {
                    let some = first..channels.min(first + some);
                    (0..taps).flat_map(move |tap| {
                        some.clone().map(move |channel| tap * channels + channel)
                    })
                });
                (Some(order.collect()), taps * some)
            }
            // Whole lines of an image.
            Layout::RowContiguous => {
                let mut inner = 1;
                for &extent in extents.iter().rev() {
                    if inner * extent > most {
                        let parts = (inner * extent).div_ceil(most).min(extent);
                        return (None, inner * extent.div_ceil(parts));
                    }
                    inner *= extent;
                }
                (None, k)
            }
        }
    }

    /// Returns the window with its terms in another order.
    pub fn reordered(&self, order: &[usize]) -> Self {
        let reordered = |coordinate: &Coordinate| {
            let k = order.iter().map(|&term| coordinate.k[term]).collect();
            Coordinate { k, ..coordinate.clone() }
        };
        let coordinates: Vec<Coordinate> = self.coordinates.iter().map(reordered).collect();
        let even_terms = even_terms(&coordinates);
        Self { coordinates, even_terms, ..self.clone() }
    }

    /// Returns the box that the rows `outer` and the terms `ks` of a batch span. Terms that count
    /// in none of these rows have no place in it.
    pub fn frame(&self, batch: usize, outer: Range<usize>, ks: Range<usize>) -> Frame<'_> {
        let spans = |table: fn(&Coordinate) -> &Vec<isize>, pieces: &[Range<usize>]| -> Spans {
            let coordinates = self.coordinates.iter();
            let of_pieces = |table: &Vec<isize>| {
                pieces.iter().map(|piece| Span::new(table, piece)).reduce(Span::with)
            };
            coordinates.filter_map(|coordinate| of_pieces(table(coordinate))).collect()
        };
        let outer_pieces: Vec<_> = pieces(&self.even_rows, outer.clone()).collect();
        let rows = spans(|coordinate| &coordinate.outer, &outer_pieces);
        let mut terms: Vec<_> = pieces(&self.even_terms, ks.clone()).collect();
        let may_count = |terms: &Range<usize>| self.may_count(batch, &rows, terms);
        // The box of no terms would have no extent.
        if terms.iter().any(may_count) {
            terms.retain(may_count);
        }
        let columns = spans(|coordinate| &coordinate.k, &terms);
        let side = |((row, k), coordinate): ((Span, Span), &Coordinate)| {
            let extent = (row.last - row.first + k.last - k.first + 1) as usize;
            Side { low: coordinate.batch[batch] + row.first + k.first, row, k, extent, stride: 1 }
        };
        let spans = rows.into_iter().zip(columns);
        let mut sides: Vec<Side> = spans.zip(&self.coordinates).map(side).collect();
        for i in (0..sides.len() - 1).rev() {
            let stride = sides[i + 1].stride * sides[i + 1].extent;
            let bytes = stride * size_of::<f32>();
            sides[i].stride = if bytes.is_multiple_of(SCATTERED) {
                stride + APART / size_of::<f32>()
            } else {
                stride
            };
        }
        Frame { window: self, sides, batch, outer, first_term: ks.start, terms }
    }

    /// Returns the spans of some evenly spaced rows.
    fn rows(&self, rows: &Range<usize>) -> Spans {
        self.coordinates.iter().map(|coordinate| Span::new(&coordinate.outer, rows)).collect()
    }

    /// Returns whether some of these evenly spaced terms may count, for rows with these spans.
    fn may_count(&self, batch: usize, rows: &[Span], terms: &Range<usize>) -> bool {
        let terms = self.coordinates.iter().map(|coordinate| Span::new(&coordinate.k, terms));
        self.values(batch, rows, terms)
            .all(|(value, counts)| counts.start <= value.last && value.first < counts.end)
    }

    /// Returns the values of each coordinate for rows and terms with these spans, and the range in
    /// which terms count.
    fn values<'a>(
        &'a self,
        batch: usize,
        rows: &'a [Span],
        terms: impl Iterator<Item = Span> + 'a,
    ) -> impl Iterator<Item = (Span, &'a Range<isize>)> {
        rows.iter().zip(terms).zip(&self.coordinates).map(move |((row, term), coordinate)| {
            let batch = coordinate.batch[batch];
            let (first, last) = (batch + row.first + term.first, batch + row.last + term.last);
            (Span { first, last }, &coordinate.counts)
        })
    }

    /// Adds the runs of the terms `ks` that count in a panel of evenly spaced `rows`, packed with
    /// `k_stride` elements from term to term. Returns their range. The box's runs are the same
    /// terms, so that sums do not depend on which of both a task uses.
    pub fn add_packed_runs(
        &self,
        batch: usize,
        rows: &Range<usize>,
        ks: &Range<usize>,
        k_stride: usize,
        runs: &mut Runs,
    ) -> Range<usize> {
        let (start, spans) = (runs.len(), self.rows(rows));
        for terms in pieces(&self.even_terms, ks.clone()) {
            if self.may_count(batch, &spans, &terms) {
                let term = terms.start - ks.start;
                let run = Run { term, offset: term * k_stride, length: terms.len() };
                add_run(runs, start, run, k_stride);
            }
        }
        start..runs.len()
    }
}

/// The least and the greatest of a coordinate's terms.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: isize,
    last: isize,
}

/// The spans of all coordinates.
type Spans = SmallVec<[Span; 4]>;

impl Span {
    /// Returns the span of some evenly spaced values of a table.
    fn new(table: &[isize], range: &Range<usize>) -> Self {
        let (first, last) = (table[range.start], table[range.end - 1]);
        Self { first: first.min(last), last: first.max(last) }
    }

    /// Returns the span of both.
    fn with(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Appends a run, or prolongs the last of those from `start` on if it follows that. Terms of a run
/// are `step` elements apart.
fn add_run(runs: &mut Runs, start: usize, run: Run, step: usize) {
    match runs[start..].last_mut() {
        Some(last)
            if last.term + last.length == run.term
                && last.offset + last.length * step == run.offset =>
        {
            last.length += run.length;
        }
        _ => runs.push(run),
    }
}

/// For each term, returns how many from there on are evenly spaced in every coordinate.
fn even_terms(coordinates: &[Coordinate]) -> Vec<u32> {
    pack::runs(coordinates[0].k.len(), coordinates.iter().map(|coordinate| &coordinate.k))
}

/// Divides `range` into evenly spaced pieces. `even` says for each index how many from there on are
/// evenly spaced.
fn pieces(even: &[u32], range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut rest = range;
    iter::from_fn(move || {
        let start = rest.start;
        rest.start = rest.end.min(start + *even.get(start)? as usize);
        (start < rest.start).then_some(start..rest.start)
    })
}

/// A box of coordinates that some rows and some terms span.
pub struct Frame<'a> {
    window: &'a Window,
    sides: Vec<Side>,
    batch: usize,
    outer: Range<usize>,
    first_term: usize,
    /// The terms that have places, in evenly spaced pieces.
    terms: Vec<Range<usize>>,
}

/// The extent of a box in one coordinate.
struct Side {
    /// The least value: the sum of the batch's, a row's and a term's part.
    low: isize,
    /// The rows' and the terms' parts of it.
    row: Span,
    k: Span,
    /// The number of values.
    extent: usize,
    /// The box's elements per step of the coordinate.
    stride: usize,
}

impl Frame<'_> {
    /// Returns the number of elements.
    pub fn elements(&self) -> usize {
        self.sides[0].stride * self.sides[0].extent
    }

    /// Returns the number of elements that are in the operand. The others are zero.
    fn elements_inside(&self) -> usize {
        let sides = self.sides.iter().zip(&self.window.coordinates);
        let extents = sides.map(|(side, coordinate)| {
            let end = (side.low + side.extent as isize).min(coordinate.within.end);
            (end - side.low.max(coordinate.within.start)).max(0) as usize
        });
        extents.product()
    }

    /// Copies the box. The element with all coordinates 0 is `data[origin]`.
    pub fn fill<T: Copy + Default>(&self, data: &[T], origin: isize, to: &mut [T]) {
        self.fill_from(0, data, origin, &mut to[..self.elements()]);
    }

    /// Copies the part of the box at fixed values of the coordinates before number `at`. With the
    /// others at 0, its element is `data[origin]`.
    fn fill_from<T: Copy + Default>(&self, at: usize, data: &[T], origin: isize, to: &mut [T]) {
        let (Side { low, extent, stride, .. }, coordinate) =
            (&self.sides[at], &self.window.coordinates[at]);
        let first =
            (coordinate.within.start.saturating_sub(*low)).clamp(0, *extent as isize) as usize;
        let end = (coordinate.within.end.saturating_sub(*low))
            .clamp(first as isize, *extent as isize) as usize;
        to[..first * stride].fill(T::default());
        to[end * stride..].fill(T::default());
        if first == end {
            return;
        }
        let origin = origin + (low + first as isize) * coordinate.stride as isize;
        if let Some(start) = self.side_by_side(at) {
            let from = &data[(origin + start) as usize..][..(end - first) * stride];
            copy_short(from, &mut to[first * stride..end * stride]);
        } else if at + 1 < self.sides.len() {
            for (i, to) in to[first * stride..end * stride].chunks_mut(*stride).enumerate() {
                self.fill_from(at + 1, data, origin + (i * coordinate.stride) as isize, to);
            }
        } else {
            copy_short(&data[origin as usize..][..end - first], &mut to[first..end]);
        }
    }

    /// Returns the first value of the last coordinate, number `at + 1`, if all its values in the
    /// box are contiguous with those of coordinate `at`, in the operand as in the box: a line of
    /// pixels with all channels.
    fn side_by_side(&self, at: usize) -> Option<isize> {
        let (side, coordinate) = (self.sides.get(at + 1)?, &self.window.coordinates[at + 1]);
        let stride = self.sides[at].stride;
        let is_last = at + 2 == self.sides.len() && coordinate.stride == 1;
        let is_whole = side.extent == stride && self.window.coordinates[at].stride == stride;
        let is_there = coordinate.within.start <= side.low
            && side.low + side.extent as isize <= coordinate.within.end;
        (is_last && is_whole && is_there).then_some(side.low)
    }

    /// Returns the place of a row in the box, and the elements from there to the next row.
    pub fn row(&self, row: usize) -> (usize, usize) {
        let place = |row: usize| -> isize {
            let parts = self.sides.iter().zip(&self.window.coordinates);
            parts
                .map(|(side, coordinate)| {
                    (coordinate.outer[row] - side.row.first) * side.stride as isize
                })
                .sum()
        };
        let start = place(row);
        let step = if row + 1 < self.outer.end { place(row + 1) - start } else { 0 };
        (start as usize, step.max(0) as usize)
    }

    /// Returns the elements between terms within a run, which is 1 where a panel is
    /// [`Layout::KContiguous`].
    pub fn term_step(&self) -> usize {
        match self.window.layout {
            Layout::KContiguous => 1,
            Layout::RowContiguous => self
                .terms
                .iter()
                .filter_map(|terms| self.step(terms))
                .find(|&by| by > 0)
                .unwrap_or(1),
        }
    }

    /// Returns whether all terms count in these evenly spaced rows.
    pub fn counts_all(&self, rows: &Range<usize>) -> bool {
        let (rows, terms) = (self.window.rows(rows), self.sides.iter().map(|side| side.k));
        self.window
            .values(self.batch, &rows, terms)
            .all(|(value, counts)| counts.start <= value.first && value.last < counts.end)
    }

    /// Adds the runs of all terms, or of those that count in some of the `rows`, and returns their
    /// range. The rows are a panel's, evenly spaced. `step` is [`Frame::term_step`].
    pub fn add_runs(
        &self,
        rows: Option<&Range<usize>>,
        step: usize,
        runs: &mut Runs,
    ) -> Range<usize> {
        let start = runs.len();
        let rows = rows.map(|rows| self.window.rows(rows));
        for terms in &self.terms {
            if rows.as_ref().is_some_and(|rows| !self.window.may_count(self.batch, rows, terms)) {
                continue;
            }
            let together = if self.step(terms) == Some(step) { terms.len() } else { 1 };
            for first in terms.clone().step_by(together) {
                let (term, offset) = (first - self.first_term, self.term(first));
                add_run(runs, start, Run { term, offset, length: together }, step);
            }
        }
        start..runs.len()
    }

    /// Returns the place of a term in the box.
    fn term(&self, term: usize) -> usize {
        let parts = self.sides.iter().zip(&self.window.coordinates);
        parts
            .map(|(side, coordinate)| (coordinate.k[term] - side.k.first) * side.stride as isize)
            .sum::<isize>() as usize
    }

    /// Returns the distance from the first of some terms to the second, unless there is none or
    /// the second comes before it.
    fn step(&self, terms: &Range<usize>) -> Option<usize> {
        self.term(terms.clone().nth(1)?).checked_sub(self.term(terms.start))
    }
}
