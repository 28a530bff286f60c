//! A packed matrix product whose operands are gathered and whose result leaves through an epilogue.
//!
//! For each batch, `C[m, n] = Σ_k A(m, k) · B(k, n)`. Matrix products of any layout, batched ones, and convolutions (without an
//! im2col matrix) differ only in the two [`Pack`]s that fill panels with A and B, and in the [`Store`] that takes finished sums.
//!
//! The blocking, outermost first:
//! - B is packed once, in columns of a micro-kernel's width by blocks of k, shared by all threads: ahead of the run where it does not change
//!   ([`Packed`]), else, if it is larger than [`B_BYTES`], a range of columns at a time. Where few rows pass, B is read where it lies.
//! - A task is a block of rows (at most [`MC`], or [`MOST_ROWS_IN_WINDOW`]) × a range of columns (at most [`TASK_COLUMNS`]).
//!   Its rows of A are read where they lie, or packed for one block of k, into L2 (always where many columns pass); where rows and
//!   terms meet the same elements again and again, those are copied once ([`Window`]).
//! - It walks B in blocks of k × NC, which stay in L2 while all its rows pass.
//! - A panel of A stays in L1 while the block's panels of B pass.
//!
//! Always true: every element of C is stored exactly once, after its last k; sums run over k in order within a block, then block by block,
//! so that the result does not depend on the number of threads.

mod kernel;
mod pack;
mod packed;
mod task;
mod window;

pub use kernel::{Float, Layout};
pub(super) use kernel::{Kernels, Run, Strided};
pub use pack::{Axis, Gather, Pack, Panel, Places, View};
pub use packed::Packed;
pub use window::{Coordinate, Frame, Window};

use super::caches::CACHES;
use super::memory::Plain;
use super::pool;
use super::scratch;
use super::shared::Shared;
use packed::pack;
use std::ops::Range;
use task::{Panels, Task};

/// The longest block of k, but of a window: a panel of A (14 rows × 384 × 4 bytes = 21 KiB) stays in a 32 KiB L1 beside the passing B.
const BLOCK_BYTES: usize = 384 * 4;
/// Most rows of a task without a window: with a block of f32 its packed rows of A take 263 KiB of L2.
const MC: usize = 168;
/// Most rows of a task with a window, but for a single longer run; a product of no more rows has one window for all.
const MOST_ROWS_IN_WINDOW: usize = 1024;
/// Columns of B walked at a time: a block × NC of f32 takes 384 KiB of L2. Of longer blocks as many as take no more.
const NC: usize = 256;
/// A panel of A and the sums that are finished together, if these are of more than one: they are in L1 beside the passing B.
const TOGETHER_BYTES: usize = 20 << 10;
/// Most columns of a task. Each task packs its rows of A anew, once in so many columns.
const TASK_COLUMNS: usize = 2048;
/// Most memory for packed B.
const B_BYTES: usize = 64 << 20;
/// Fewer multiply-adds than this are done before a second thread is at work.
const PARALLEL_WORK: usize = 1 << 18;
/// Most panels of rows for which B is not worth packing.
const FEW_PANELS: usize = 4;

/// The size of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Independent products.
    pub batch: usize,
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Terms of each sum.
    pub k: usize,
    /// How many of them are packed and added up at a time.
    pub block: usize,
}

impl Size {
    /// `batch` products of m × n sums of k terms, numbers of so many `bytes`. Blocks are about equal.
    pub fn new(batch: usize, m: usize, n: usize, k: usize, bytes: usize) -> Self {
        let blocks = (k * bytes).div_ceil(BLOCK_BYTES).max(1);
        Self { batch, m, n, k, block: k.div_ceil(blocks).max(1).next_multiple_of(8) }
    }
}

/// Finished sums: rows × columns of one batch's C.
pub struct Tile<'a, T> {
    /// Which product.
    pub batch: usize,
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
    data: &'a [T],
    stride: usize,
}

impl<'a, T> Tile<'a, T> {
    /// Each row's number, with its sums over `columns`.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a [T])> {
        let width = self.columns.len();
        let lines = self.data.chunks(self.stride);
        self.rows.clone().zip(lines.map(move |line| &line[..width]))
    }

    /// Calls `f` with the sums of some rows, row by row.
    pub fn together(&self, rows: Range<usize>, f: impl FnOnce(&[T]))
    where
        T: Plain,
    {
        let width = self.columns.len();
        let sums = &self.data[(rows.start - self.rows.start) * self.stride..];
        if self.stride == width || rows.len() == 1 {
            return f(&sums[..rows.len() * width]);
        }
        scratch::with(rows.len() * width, |together: &mut [T]| {
            for (to, from) in together.chunks_mut(width).zip(sums.chunks(self.stride)) {
                to.copy_from_slice(&from[..width]);
            }
            f(together);
        });
    }
}

/// Takes every element of C once, in tiles of a few rows by up to some hundred columns that are in L1, from any thread.
pub trait Store<T>: Sync {
    /// What a task keeps from tile to tile.
    type Worker;

    /// A task's.
    fn worker(&self) -> Self::Worker;

    /// The task has ended.
    fn done(&self, _worker: Self::Worker) {}

    /// Takes one tile.
    fn store(&self, worker: &mut Self::Worker, tile: Tile<T>);

    /// Where these rows × columns of a batch's C may be summed in place, and left: the first of them, and the elements from a row to the
    /// next. Columns are side by side. What is summed there is not stored as a tile.
    fn place(&self, _batch: usize, _rows: Range<usize>, _columns: Range<usize>) -> Option<(*mut T, usize)> {
        None
    }
}

impl<T, F: Fn(Tile<T>) + Sync> Store<T> for F {
    type Worker = ();

    fn worker(&self) {}

    fn store(&self, _worker: &mut (), tile: Tile<T>) {
        self(tile);
    }
}

/// A store into an array: element (b, m, n) goes to `b * batch_stride + m * row_stride + n`.
pub struct Rows<'a, T> {
    data: Shared<'a, T>,
    batch_stride: usize,
    row_stride: usize,
}

impl<'a, T> Rows<'a, T> {
    /// Strides in elements. Rows must not overlap, nor reach past the end of `data`: storing such a row panics.
    pub fn new(data: &'a mut [T], batch_stride: usize, row_stride: usize) -> Self {
        Self { data: Shared::new(data), batch_stride, row_stride }
    }
}

impl<T: Float> Store<T> for Rows<'_, T> {
    type Worker = ();

    fn worker(&self) {}

    fn store(&self, _worker: &mut (), tile: Tile<T>) {
        for (row, sums) in tile.iter() {
            let start = tile.batch * self.batch_stride + row * self.row_stride + tile.columns.start;
            // SAFETY: only this module makes tiles, and no two of a product share an element.
            unsafe { self.data.slice(start..start + sums.len()) }.copy_from_slice(sums);
        }
    }

    fn place(&self, batch: usize, rows: Range<usize>, columns: Range<usize>) -> Option<(*mut T, usize)> {
        let at = |row: usize, column: usize| batch * self.batch_stride + row * self.row_stride + column;
        let first = at(rows.start, columns.start);
        (at(rows.end - 1, columns.end) <= self.data.len())
            .then(|| (self.data.start().wrapping_add(first), self.row_stride))
    }
}

/// Where the right operand comes from.
pub enum Right<'a, T: Float, B> {
    /// Packed ahead.
    Packed(&'a Packed<T>),
    /// To be packed, or read where it lies.
    Now(&'a B),
}

impl<T: Float, B> Clone for Right<'_, T, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Float, B> Copy for Right<'_, T, B> {}

/// Multiplies `a` (outer axis: m) by `b` (outer axis: n) into `store`, on all threads if the work is worth it.
/// A sum of no terms (`size.k == 0`) is stored as 0.
pub fn gemm<T: Float>(size: Size, a: &impl Pack<T>, b: &impl Pack<T>, store: &impl Store<T>) {
    product(size, a, Right::Now(b), store);
}

/// The same with a right operand that may be packed already.
pub fn product<T: Float>(size: Size, a: &impl Pack<T>, b: Right<T, impl Pack<T>>, store: &impl Store<T>) {
    if size.batch == 0 || size.m == 0 || size.n == 0 {
        return;
    }
    let kernels = T::kernels();
    let work = size.m.saturating_mul(size.n).saturating_mul(size.k);
    let threads = pool::threads();
    let product = |batch: usize, threads: usize| Product { size, kernels, a, b, store, batch, threads }.run();
    if work.saturating_mul(size.batch) < PARALLEL_WORK || threads == 1 {
        (0..size.batch).for_each(|batch| product(batch, 1));
    } else if size.batch >= 4 * threads || work < PARALLEL_WORK {
        pool::run(size.batch, |batch| product(batch, 1));
    } else {
        (0..size.batch).for_each(|batch| product(batch, threads));
    }
}

/// `0..all` in blocks of at most `most`, the last of each thread's part small, so that threads that are not equally fast end together.
fn dwindling(all: usize, most: usize, threads: usize) -> Vec<Range<usize>> {
    let part = |thread: usize| {
        let mut rest = all * thread / threads..all * (thread + 1) / threads;
        let block = move || {
            let size = rest.len().div_ceil(2).max(2).min(most).min(rest.len());
            let block = rest.start..rest.start + size;
            rest.start = block.end;
            (!block.is_empty()).then_some(block)
        };
        std::iter::from_fn(block)
    };
    (0..threads).flat_map(part).collect()
}

/// One batch's product.
struct Product<'a, T: Float, A, B, S> {
    size: Size,
    kernels: Kernels<T>,
    a: &'a A,
    b: Right<'a, T, B>,
    store: &'a S,
    batch: usize,
    threads: usize,
}

impl<T: Float, A: Pack<T>, B: Pack<T>, S: Store<T>> Product<'_, T, A, B, S> {
    fn run(&self) {
        let Size { n, k, .. } = self.size;
        let b = match self.b {
            Right::Packed(packed) => {
                return self.multiply(0..n, Panels::Packed { data: packed.batch(self.batch), all: 0..n });
            }
            Right::Now(b) => b,
        };
        if let Some(view) = b.view(self.batch, 0..n, 0..k)
            && self.reads_in_place(&view)
        {
            return self.multiply(0..n, Panels::InPlace(view));
        }
        // Whole tasks' columns, as many as fit.
        let most = (B_BYTES / size_of::<T>() / k.max(1) / TASK_COLUMNS).max(1) * TASK_COLUMNS;
        for start in (0..n).step_by(most) {
            let columns = start..n.min(start + most);
            scratch::with(columns.len().next_multiple_of(self.kernels.lanes) * k, |packed: &mut [T]| {
                pack(b, self.batch, columns.clone(), self.size, packed, self.kernels, self.threads);
                self.multiply(columns.clone(), Panels::Packed { data: packed, all: columns });
            });
        }
    }

    /// Whether B is better read where it lies than packed.
    fn reads_in_place(&self, view: &View<T>) -> bool {
        let panels = self.size.m.div_ceil(self.kernels.rows);
        // Rows that many bytes apart displace each other from the caches.
        let scattered = (view.k_stride * size_of::<T>()).is_multiple_of(1024) && self.size.k > 64;
        let adjacent = view.k_stride == self.size.n && self.size.n <= 2 * self.kernels.columns();
        view.outer_stride == 1 && (adjacent || panels == 1 || (panels <= FEW_PANELS && !scattered))
    }

    /// About how many rows a task has at most, a run or more: neighbours meet the same elements, which are copied for each task anew. The window
    /// and the sums that wait for its next block of k take half of L2, if more than one run does.
    fn rows_of_window(&self, window: &Window, columns: usize) -> usize {
        let Size { m, k, block, .. } = self.size;
        let waiting = if k > block { columns.min(TASK_COLUMNS) } else { 0 };
        let bytes = |rows: usize| {
            (window.frame(self.batch, 0..rows, 0..block.min(k)).elements() + rows * waiting) * size_of::<T>()
        };
        let one = window.run();
        let (first, second) = (bytes(one), bytes(m.min(2 * one)));
        let more = (CACHES.second / 2).saturating_sub(first) / second.saturating_sub(first).max(1);
        one.saturating_mul(1 + more).min(MOST_ROWS_IN_WINDOW.max(one))
    }

    /// Splits C's `columns` into tasks of about equal size, a multiple of the threads, or of rows that dwindle, and runs them.
    fn multiply(&self, columns: Range<usize>, b: Panels<T>) {
        let (m, height, window) = (self.size.m, self.kernels.rows, self.a.window());
        // Panels are as equal in height as can be; those of a window end where its runs of rows do.
        let run = window.map_or(m, Window::run);
        let in_run = run.div_ceil(height);
        let panels = m / run * in_run;
        let row = |panel: usize| panel / in_run * run + run * (panel % in_run) / in_run;
        // A window is no larger for many rows than for few, if they meet the same elements.
        let in_one_window = window.is_some() && m <= MOST_ROWS_IN_WINDOW;
        let mut row_tasks = match window {
            Some(_) if in_one_window => 1,
            Some(window) => m.div_ceil(self.rows_of_window(window, columns.len())),
            None => panels.div_ceil(MC / height),
        };
        let column_panels = columns.len().div_ceil(self.kernels.columns());
        let mut column_tasks = columns.len().div_ceil(TASK_COLUMNS);
        if self.threads > 1 {
            // What every task would read is best the smaller operand.
            if m < columns.len() || panels < self.threads || in_one_window {
                column_tasks =
                    (column_tasks * row_tasks).next_multiple_of(self.threads).div_ceil(row_tasks).min(column_panels);
            }
            if !(column_tasks * row_tasks).is_multiple_of(self.threads) {
                row_tasks =
                    (column_tasks * row_tasks).next_multiple_of(self.threads).div_ceil(column_tasks).min(panels);
            }
        }
        // In panels.
        let blocks: Vec<Range<usize>> = match window {
            Some(window) => {
                let blocks = window.blocks(m.div_ceil(row_tasks).max(run)).into_iter();
                blocks.map(|rows| rows.start / run * in_run..rows.end / run * in_run).collect()
            }
            None if self.threads > 1 && row_tasks > 1 => dwindling(panels, panels.div_ceil(row_tasks), self.threads),
            None => (0..row_tasks).map(|i| panels * i / row_tasks..panels * (i + 1) / row_tasks).collect(),
        };
        let task_columns = column_panels.div_ceil(column_tasks) * self.kernels.columns();
        let column_tasks = columns.len().div_ceil(task_columns);
        let run = |task: usize| {
            let (block, j) = (&blocks[task / column_tasks], task % column_tasks);
            let rows = block.clone().map(|panel| row(panel)..row(panel + 1)).collect();
            let start = columns.start + j * task_columns;
            Task { product: self, rows, columns: start..columns.end.min(start + task_columns), b: &b }.run();
        };
        let tasks = blocks.len() * column_tasks;
        if self.threads > 1 { pool::run(tasks, run) } else { (0..tasks).for_each(run) }
    }
}

#[cfg(test)]
mod tests;
