//! A task: some rows of a product × some of its columns, computed by one thread.

use super::kernel::{Element, Kernels, Layout, Run, Strided, panel_stride};
use super::pack::{Pack, Panel, View};
use super::{BatchProduct, Store, Tile, scratch};
use smallvec::SmallVec;
use std::ops::Range;

/// From this many columns on, a task packs its rows of A even where it could read them in place:
/// kernels read packed rows faster.
const COLUMNS_TO_PACK: usize = 512;

/// The source of B for a task.
pub enum Panels<'a, T> {
    /// Packed as [`super::packed::pack`] does, with the columns `all` and so many terms. They are
    /// at least those of the product.
    Packed { data: &'a [T], all: Range<usize>, terms: usize },
    /// In place: the view is all of B, and its outer stride is 1.
    InPlace(View<'a, T>),
}

/// Some panels of rows × some columns of one product.
pub struct Task<'a, T: Element, A, B, S> {
    pub product: &'a BatchProduct<'a, T, A, B, S>,
    /// The panels of A. None is higher than the kernels.
    pub rows: SmallVec<[Range<usize>; 16]>,
    /// The columns. The start is a whole number of kernels after the first column of `b`.
    pub columns: Range<usize>,
    pub b: &'a Panels<'a, T>,
}

/// A panel of A for one block of k.
#[derive(Clone)]
struct Left<T> {
    panel: Strided<T>,
    layout: Layout,
    /// Its terms: a range of the block's [`Runs`].
    runs: Range<usize>,
}

/// The panels of A for one block of k. Up to 16 need no allocation.
type Lefts<T> = SmallVec<[Left<T>; 16]>;

/// The runs of terms of the panels of A for one block of k.
pub type Runs = SmallVec<[Run; 16]>;

impl<T: Element, A: Pack<T>, B: Pack<T>, S: Store<T>> Task<'_, T, A, B, S> {
    pub fn run(&self) {
        let BatchProduct { batch, store, .. } = self.product;
        let lanes = self.product.kernels.lanes;
        let place = match &self.rows[..] {
            // Kernels write whole vectors.
            [first, .., last] | [first @ last] if self.columns.len().is_multiple_of(lanes) => {
                store.place(*batch, first.start..last.end, self.columns.clone())
            }
            _ => None,
        };
        match place {
            Some((c, stride)) => self.run_in_place(c, stride),
            None => self.run_in_strips(),
        }
    }

    /// The columns whose sums are made together: whole kernels.
    fn columns_together(&self) -> usize {
        let (blocks, width) = (self.product.size.blocks, self.product.kernels.columns());
        (blocks.columns_at_once(blocks.terms, size_of::<T>()) / width).max(1) * width
    }

    /// The elements of scratch memory for the task's panels of A, and for the last panel of B.
    fn packed_elements(&self) -> [usize; 2] {
        let Kernels { rows: height, .. } = self.product.kernels;
        let block = self.product.size.blocks.terms.min(self.product.size.k);
        let panels = block.max(panel_stride::<T>()) * self.rows.len() * height;
        [panels, block * self.product.kernels.columns()]
    }

    /// Calls `visit` for each block of k, after its panels of A and the last one of B were found.
    fn blocks(
        &self,
        a: &mut [T],
        edge: &mut [T],
        mut visit: impl FnMut(Range<usize>, &[Left<T>], &[Run], &[T]),
    ) {
        let (k, kc) = (self.product.size.k, self.product.size.blocks.terms);
        let mut lefts = Lefts::with_capacity(self.rows.len());
        let mut runs = Runs::new();
        for block in 0..k.div_ceil(kc).max(1) {
            let ks = block * kc..k.min((block + 1) * kc);
            self.left(ks.clone(), a, &mut lefts, &mut runs);
            self.pack_edge(ks.clone(), edge);
            visit(ks, &lefts, &runs, edge);
        }
    }

    /// Makes the sums where they stay. The store has given these places to this task: the first is
    /// at `c`, a row has `stride` elements, and the columns are whole vectors.
    fn run_in_place(&self, c: *mut T, stride: usize) {
        let nc = self.columns_together();
        let [packed, edge] = self.packed_elements();
        scratch::with3([packed, 0, edge], |[a, _, edge]: [&mut [T]; 3]| {
            self.blocks(a, edge, |ks, lefts, runs, edge| {
                for start in self.columns.clone().step_by(nc) {
                    let columns = start..self.columns.end.min(start + nc);
                    for (rows, left) in self.rows.iter().zip(lefts) {
                        let at = (rows.start - self.rows[0].start) * stride
                            + (columns.start - self.columns.start);
                        let (columns, c) = (columns.clone(), c.wrapping_add(at));
                        let left = (left, &runs[left.runs.clone()]);
                        self.strip(rows.len(), columns, ks.clone(), left, edge, c, stride);
                    }
                }
            });
        });
    }

    /// Makes the sums in scratch memory, and stores them strip by strip when they are complete.
    fn run_in_strips(&self) {
        let Kernels { rows: height, lanes, .. } = self.product.kernels;
        let (k, kc) = (self.product.size.k, self.product.size.blocks.terms);
        let nc = self.columns_together();
        // A row of C is padded to whole vectors.
        let stride = nc.min(self.columns.len()).next_multiple_of(lanes);
        // The number of panels whose sums are finished together.
        let rest = self
            .product
            .size
            .blocks
            .finished_bytes
            .saturating_sub(height * kc.min(k) * size_of::<T>());
        let together = (rest / (height * stride * size_of::<T>())).max(1);
        let strip = together.min(self.rows.len()) * height * stride;
        // Sums wait in memory only from one block of k to the next. With a single block, one strip
        // serves for all.
        let groups = self.rows.len().div_ceil(together);
        let strips = if k <= kc { 1 } else { groups * self.columns.len().div_ceil(nc) };
        let store = self.product.store;
        let mut worker = store.worker();
        let [packed, edge] = self.packed_elements();
        scratch::with3([packed, strips * strip, edge], |[a, c, edge]: [&mut [T]; 3]| {
            self.blocks(a, edge, |ks, lefts, runs, edge| {
                let mut number = 0;
                for start in self.columns.clone().step_by(nc) {
                    let columns = start..self.columns.end.min(start + nc);
                    for (panels, lefts) in self.rows.chunks(together).zip(lefts.chunks(together)) {
                        let c = &mut c[number % strips * strip..][..strip];
                        let first = panels[0].start;
                        for (rows, left) in panels.iter().zip(lefts) {
                            let room =
                                (rows.len() - 1) * stride + columns.len().next_multiple_of(lanes);
                            let c = c[(rows.start - first) * stride..][..room].as_mut_ptr();
                            let (columns, left) =
                                (columns.clone(), (left, &runs[left.runs.clone()]));
                            self.strip(rows.len(), columns, ks.clone(), left, edge, c, stride);
                        }
                        if ks.end == k {
                            let rows = first..panels[panels.len() - 1].end;
                            let (batch, columns) = (self.product.batch, columns.clone());
                            store
                                .store(&mut worker, Tile { batch, rows, columns, data: c, stride });
                        }
                        number += 1;
                    }
                }
            });
        });
        store.done(worker);
    }

    /// Finds the task's panels of A for one block of k, or packs them.
    fn left(&self, ks: Range<usize>, packed: &mut [T], lefts: &mut Lefts<T>, runs: &mut Runs) {
        let BatchProduct { kernels, a, batch, .. } = self.product;
        lefts.clear();
        runs.clear();
        if let Some(window) = a.window()
            && let [first, .., last] | [first @ last] = &self.rows[..]
        {
            let frame = window.frame(*batch, first.start..last.end, ks.clone());
            // The box fits the memory for packed panels.
            if frame.elements()
                <= self.product.size.blocks.terms.min(self.product.size.k)
                    * self.rows.len()
                    * kernels.rows
            {
                a.fill(&frame, packed);
                let step = frame.term_step();
                let all = frame.add_runs(None, step, runs);
                lefts.extend(self.rows.iter().map(|rows| {
                    let (start, row_step) = frame.row(rows.start);
                    let layout = window.layout();
                    let stride = if layout == Layout::KContiguous { row_step } else { step };
                    let panel = Strided { start: packed[start..].as_ptr(), stride };
                    let runs = if frame.counts_all(rows) {
                        all.clone()
                    } else {
                        frame.add_runs(Some(rows), step, runs)
                    };
                    Left { panel, layout, runs }
                }));
                return;
            }
        }
        runs.push(Run { term: 0, offset: 0, length: ks.len() });
        // The elements from one packed row to the next.
        let apart = ks.len().max(panel_stride::<T>());
        let always = self.columns.len() >= COLUMNS_TO_PACK;
        for (rows, packed) in self.rows.iter().zip(packed.chunks_mut(kernels.rows * apart)) {
            let view = if always { None } else { a.view(*batch, rows.clone(), ks.clone()) };
            lefts.push(match view.and_then(|view| in_place(&view, rows.len(), ks.len())) {
                Some(left) => left,
                None => {
                    let layout = a.layout();
                    let (stride, outer_stride, k_stride) = match layout {
                        Layout::KContiguous => (apart, apart, 1),
                        Layout::RowContiguous => (rows.len(), 1, rows.len()),
                    };
                    if !ks.is_empty() {
                        a.pack(
                            *batch,
                            rows.clone(),
                            ks.clone(),
                            Panel { data: &mut *packed, outer_stride, k_stride },
                        );
                    }
                    let panel = Strided { start: packed.as_ptr(), stride };
                    let runs = match a.window() {
                        Some(window) => window.add_packed_runs(*batch, rows, &ks, k_stride, runs),
                        None => 0..1,
                    };
                    Left { panel, layout, runs }
                }
            });
        }
    }

    /// Packs the last panel of the task's columns where B is read in place, if the panel's vectors
    /// would reach past the end.
    fn pack_edge(&self, ks: Range<usize>, edge: &mut [T]) {
        let (Panels::InPlace(view), Some(columns)) = (self.b, self.edge()) else { return };
        let k_stride = columns.len().next_multiple_of(self.product.kernels.lanes);
        for (k, to) in ks.zip(edge.chunks_mut(k_stride)) {
            let from = &view.data[k * view.k_stride + columns.start..][..columns.len()];
            to[..from.len()].copy_from_slice(from);
            to[from.len()..].fill(T::default());
        }
    }

    /// Returns the columns of the last panel, if they do not fill whole vectors.
    fn edge(&self) -> Option<Range<usize>> {
        let Kernels { lanes, .. } = self.product.kernels;
        let width = self.product.kernels.columns();
        let start = self.columns.start + (self.columns.len() - 1) / width * width;
        (!(self.columns.end - start).is_multiple_of(lanes)).then_some(start..self.columns.end)
    }

    /// Adds one block of k to a strip of C: one panel of A by `columns`. The first block overwrites
    /// the strip.
    #[expect(clippy::too_many_arguments, reason = "the places of one kernel's operands")]
    fn strip(
        &self,
        rows: usize,
        columns: Range<usize>,
        ks: Range<usize>,
        (left, runs): (&Left<T>, &[Run]),
        edge: &[T],
        c: *mut T,
        stride: usize,
    ) {
        let BatchProduct { kernels, .. } = self.product;
        let lanes = kernels.lanes;
        for start in columns.clone().step_by(kernels.columns()) {
            let (vectors, b, b_stride) = match self.b {
                Panels::Packed { data, all, terms } => {
                    let width = (all.end - start).div_ceil(lanes).min(kernels.vectors) * lanes;
                    let vectors = (columns.end - start).div_ceil(lanes).min(width / lanes);
                    let block = &data[ks.start * all.len().next_multiple_of(lanes)..];
                    let packed = (terms - ks.start).min(self.product.size.blocks.terms);
                    let panel = &block[(start - all.start) * packed..][..ks.len() * width];
                    (vectors, panel, width)
                }
                Panels::InPlace(view) => {
                    let vectors = (self.columns.end - start).div_ceil(lanes).min(kernels.vectors);
                    if self.columns.end - start < vectors * lanes {
                        (vectors, edge, vectors * lanes)
                    } else {
                        let from = ks.start * view.k_stride + start;
                        let length = ks.len().saturating_sub(1) * view.k_stride + vectors * lanes;
                        (
                            vectors,
                            if ks.is_empty() { edge } else { &view.data[from..from + length] },
                            view.k_stride,
                        )
                    }
                }
            };
            let c = c.wrapping_add(start - columns.start);
            let kernel = kernels.get(left.layout, left.panel.stride, rows, vectors);
            let b = Strided { start: b.as_ptr(), stride: b_stride };
            // SAFETY: the kernel's contract holds:
            // - A: `left` with its runs is a panel of `rows` by the block of k. It lies in the
            //   operand (`in_place` checks its end), in packed memory, or in a window's box, which
            //   has every place of a row and a term.
            // - B: the slice has `vectors * lanes` elements at each step of the block.
            // - C: a strip of scratch memory, whose rows are padded to whole vectors, or memory
            //   that the store has given to this task, whose columns are whole vectors.
            // - Instructions: the kernel is one of `Element::kernels`.
            unsafe { kernel(runs, left.panel, b, c, stride, ks.start == 0) };
        }
    }
}

/// Returns the panel in place, if the kernels can read it there fast.
fn in_place<T: Element>(view: &View<T>, rows: usize, k: usize) -> Option<Left<T>> {
    // Rows at such distances displace each other from L1.
    let scattered = |stride: usize| (stride * size_of::<T>()).is_multiple_of(4096) && rows > 4;
    let (layout, stride) = match view {
        View { k_stride: 1, outer_stride, .. } if !scattered(*outer_stride) => {
            (Layout::KContiguous, *outer_stride)
        }
        View { outer_stride: 1, k_stride, .. } => (Layout::RowContiguous, *k_stride),
        _ => return None,
    };
    // All elements must lie in the operand.
    let rows = rows.checked_sub(1)?.checked_mul(view.outer_stride)?;
    let last = k.checked_sub(1)?.checked_mul(view.k_stride)?.checked_add(rows)?;
    let panel = Strided { start: view.data.as_ptr(), stride };
    (last < view.data.len()).then_some(Left { panel, layout, runs: 0..1 })
}
