//! A packed matrix product whose operands are gathered and whose result is stored through an
//! epilogue.
//!
//! For each batch, `C[m, n] = Σ_k A(m, k) · B(k, n)`. Matrix products of any layout, batched ones,
//! and convolutions (without an im2col matrix) differ only in the two [`Pack`]s that fill panels
//! with A and B, and in the [`Store`] that takes finished sums.
//!
//! The blocking, outermost first:
//! - B is packed once, in panels as wide as a micro-kernel and by blocks of k, and shared by all
//!   threads. If it does not change, it is packed ahead of the run ([`Packed`]). If it is larger
//!   than `B_BYTES`, a range of columns is packed at a time. With few rows, B is read in place.
//! - A task is a block of rows (at most [`ProductBlocks::rows`], or `MOST_ROWS_IN_WINDOW`) × a
//!   range of columns (at most `TASK_COLUMNS`). Its rows of A are read in place, or packed for
//!   one block of k into L2 (always with many columns). If rows and terms access the same elements
//!   repeatedly, these are copied once ([`Window`]).
//! - A task walks B in blocks of terms × columns ([`ProductBlocks`]), which stay in L2 for all its
//!   rows.
//! - A panel of A stays in L1 for all panels of B in the block.
//!
//! Always true: every element of C is stored exactly once, after its last k. Sums run over k in
//! order within a block, then block by block, so that the result does not depend on the number of
//! threads.

mod balance;
mod halves;
mod kernel;
mod pack;
mod packed;
mod quads;
mod task;
mod window;

use balance::{Blocks, balanced, dwindling};
pub use halves::Halves;
pub use kernel::{Element, Layout};
pub(super) use kernel::{Kernels, Run, Strided};
pub use pack::{Axis, Gather, Pack, Panel, Places, View};
pub use packed::Packed;
pub use quads::Quads;
pub use window::{Coordinate, Frame, Window};

use crate::cpu::memory::{Shared, bytes, scratch};
use crate::cpu::threads::pool;
use bytemuck::Pod;
use packed::pack;
use std::ops::Range;
use task::{Panels, Task};
use tile_compiler::native::ProductBlocks;
use tile_compiler::profile::Processor;

/// The most rows of a task with a window. A product with at most this many rows has one window for
/// all.
const MOST_ROWS_IN_WINDOW: usize = 1024;
/// The most columns of a task. Each task packs its rows of A again.
const TASK_COLUMNS: usize = 2048;
/// The most memory for packed B.
const B_BYTES: usize = 64 << 20;
/// A second thread pays from this many multiply-adds on. With fewer, one thread finishes first.
const PARALLEL_WORK: usize = 1 << 18;
/// The most panels of rows for which B is not worth packing.
const FEW_PANELS: usize = 4;

/// At least the columns of any micro-kernel: panels may be padded by as many.
const WIDEST: usize = 64;

/// The size of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of independent products.
    pub batch: usize,
    /// The rows of A and C.
    pub m: usize,
    /// The columns of B and C.
    pub n: usize,
    /// The terms of each sum.
    pub k: usize,
    /// The parts that stay in a cache. A window may have longer blocks of terms than the packed
    /// rows of other products.
    pub blocks: ProductBlocks,
}

impl Size {
    /// Describes `batch` products of m × n sums of k terms, of numbers with this many `bytes`, on a
    /// usual processor.
    pub fn usual(batch: usize, m: usize, n: usize, k: usize, bytes: usize) -> Self {
        Self { batch, m, n, k, blocks: ProductBlocks::new(&Processor::USUAL, k, bytes) }
    }
}

impl Size {
    /// Returns the bytes of the right operand, of numbers of `size` bytes, packed ahead of the run.
    pub fn packed_bytes(&self, size: usize) -> u64 {
        bytes(&[self.batch, self.n.saturating_add(WIDEST), self.k], size)
    }

    /// Returns the bytes that a run keeps at most, of numbers of `size` bytes.
    pub fn working_bytes(&self, size: usize, is_packed: bool) -> u64 {
        let columns =
            (B_BYTES / size / self.k.max(1) / TASK_COLUMNS).max(1).saturating_mul(TASK_COLUMNS);
        let right = bytes(&[self.n.min(columns).saturating_add(WIDEST), self.k], size);
        let right = if is_packed {
            0
        } else {
            right.saturating_mul(self.batch.min(pool::threads()) as u64)
        };
        let (rows, columns) =
            (self.m.min(MOST_ROWS_IN_WINDOW), self.n.min(TASK_COLUMNS).saturating_add(WIDEST));
        let task = bytes(&[rows, columns], size)
            .saturating_add(bytes(&[rows + WIDEST, self.blocks.terms], size));
        right.saturating_add(task.saturating_mul(pool::threads() as u64))
    }
}

/// Finished sums: some rows × columns of one batch's C.
pub struct Tile<'a, T> {
    /// The number of the product in the batch.
    pub batch: usize,
    /// The rows.
    pub rows: Range<usize>,
    /// The columns.
    pub columns: Range<usize>,
    data: &'a [T],
    stride: usize,
}

impl<'a, T> Tile<'a, T> {
    /// Iterates over the rows, each with its number and its sums over `columns`.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a [T])> {
        let width = self.columns.len();
        let lines = self.data.chunks(self.stride);
        self.rows.clone().zip(lines.map(move |line| &line[..width]))
    }

    /// Returns the memory from the first sum to the last, with what lies between rows.
    pub fn memory(&self) -> &'a [T] {
        self.part(self.rows.clone()).0
    }

    /// Returns some rows, and the elements from one to the next.
    pub fn part(&self, rows: Range<usize>) -> (&'a [T], usize) {
        let sums = &self.data[(rows.start - self.rows.start) * self.stride..];
        (&sums[..(rows.len() - 1) * self.stride + self.columns.len()], self.stride)
    }

    /// Returns the tile with other sums, row by row, if there are any.
    pub fn with(self, sums: Option<&'a [T]>) -> Self {
        match sums {
            Some(data) => Self { data, stride: self.columns.len(), ..self },
            None => self,
        }
    }

    /// Calls `f` with the sums of some rows, row by row, contiguous.
    pub fn together(&self, rows: Range<usize>, f: impl FnOnce(&[T]))
    where
        T: Pod,
    {
        let (width, count) = (self.columns.len(), rows.len());
        let (sums, stride) = self.part(rows);
        if stride == width || count == 1 {
            return f(sums);
        }
        scratch::with(count * width, |together: &mut [T]| {
            for (to, from) in together.chunks_mut(width).zip(sums.chunks(stride)) {
                to.copy_from_slice(&from[..width]);
            }
            f(together);
        });
    }
}

/// Takes every element of C once, from any thread. The tiles have a few rows by up to a thousand
/// columns, and are in L1 or L2.
///
/// # Safety
/// The memory that [`Store::place`] returns must be:
/// - writable and readable for all these rows × columns, at the stride that it returns;
/// - used by nobody else during the product.
pub unsafe trait Store<T>: Sync {
    /// A task's state from tile to tile.
    type Worker;

    /// Creates the state of a task.
    fn worker(&self) -> Self::Worker;

    /// Called when a task has ended.
    fn done(&self, _worker: Self::Worker) {}

    /// Takes one tile.
    fn store(&self, worker: &mut Self::Worker, tile: Tile<T>);

    /// Returns memory where these rows × columns of a batch's C may be summed in place: a pointer
    /// to the first element, and the elements from one row to the next. Columns must be contiguous
    /// there. Sums left in this memory are not passed to [`Store::store`].
    fn place(
        &self,
        _batch: usize,
        _rows: Range<usize>,
        _columns: Range<usize>,
    ) -> Option<(*mut T, usize)> {
        None
    }
}

// SAFETY: it has no memory for sums.
unsafe impl<T, F: Fn(Tile<T>) + Sync> Store<T> for F {
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
    /// Creates a store with these strides, in elements. Storing a row that reaches past the end of
    /// `data` panics.
    ///
    /// # Safety
    /// - Rows must not overlap, in any batch of the product.
    /// - Only one product at a time may use the store.
    pub unsafe fn new(data: &'a mut [T], batch_stride: usize, row_stride: usize) -> Self {
        Self { data: Shared::new(data), batch_stride, row_stride }
    }
}

// SAFETY: the rows lie in `data`, at `row_stride`. By the contract of `new`, no two elements of a
// product share a place, and nobody else uses the store.
unsafe impl<T: Element> Store<T> for Rows<'_, T> {
    type Worker = ();

    fn worker(&self) {}

    fn store(&self, _worker: &mut (), tile: Tile<T>) {
        for (row, sums) in tile.iter() {
            let start = tile.batch * self.batch_stride + row * self.row_stride + tile.columns.start;
            // SAFETY: only this module makes tiles, and no two of a product share an element. By
            // the contract of `new`, rows do not overlap, and this is the only product.
            unsafe { self.data.slice(start..start + sums.len()) }.copy_from_slice(sums);
        }
    }

    fn place(
        &self,
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Option<(*mut T, usize)> {
        let at =
            |row: usize, column: usize| batch * self.batch_stride + row * self.row_stride + column;
        let first = at(rows.start, columns.start);
        (at(rows.end - 1, columns.end) <= self.data.len())
            .then(|| (self.data.start().wrapping_add(first), self.row_stride))
    }
}

/// The source of the right operand.
pub enum Right<'a, B> {
    /// Packed ahead.
    Packed(&'a Packed),
    /// Packed during the run, or read in place.
    Now(&'a B),
}

impl<B> Clone for Right<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Right<'_, B> {}

/// Multiplies `a` (outer axis: m) by `b` (outer axis: n) into `store`, on all threads if the work
/// is worth it. A sum of no terms (`size.k == 0`) is stored as 0.
pub fn gemm<T: Element>(size: Size, a: &impl Pack<T>, b: &impl Pack<T>, store: &impl Store<T>) {
    product(size, a, Right::Now(b), store);
}

/// Multiplies as [`gemm`] does, with a right operand that may already be packed.
pub fn product<T: Element>(
    size: Size,
    a: &impl Pack<T>,
    b: Right<impl Pack<T>>,
    store: &impl Store<T>,
) {
    if size.batch == 0 || size.m == 0 || size.n == 0 {
        return;
    }
    let blocks = match b {
        // The panels decide the blocks of terms.
        Right::Packed(packed) => ProductBlocks { terms: packed.size().blocks.terms, ..size.blocks },
        Right::Now(_) => size.blocks,
    };
    let size = Size { blocks, ..size };
    let kernels = T::kernels();
    let work = size.m.saturating_mul(size.n).saturating_mul(size.k);
    let threads = pool::threads();
    let product = |batch: usize, threads: usize| {
        BatchProduct { size, kernels, a, b, store, batch, threads }.run()
    };
    if work.saturating_mul(size.batch) < PARALLEL_WORK || threads == 1 {
        (0..size.batch).for_each(|batch| product(batch, 1));
    } else if size.batch >= 4 * threads || work < PARALLEL_WORK {
        pool::run(size.batch, |batch| product(batch, 1));
    } else {
        (0..size.batch).for_each(|batch| product(batch, threads));
    }
}

/// The product of one batch.
struct BatchProduct<'a, T: Element, A, B, S> {
    size: Size,
    kernels: Kernels<T>,
    a: &'a A,
    b: Right<'a, B>,
    store: &'a S,
    batch: usize,
    threads: usize,
}

impl<T: Element, A: Pack<T>, B: Pack<T>, S: Store<T>> BatchProduct<'_, T, A, B, S> {
    fn run(&self) {
        let Size { n, k, .. } = self.size;
        let b = match self.b {
            Right::Packed(packed) => {
                let (data, size) = (packed.batch(self.batch), packed.size());
                let panels = Panels::Packed { data, all: 0..size.n, terms: size.k };
                return self.multiply(0..n, panels);
            }
            Right::Now(b) => b,
        };
        if let Some(view) = b.view(self.batch, 0..n, 0..k)
            && self.reads_in_place(&view)
        {
            return self.multiply(0..n, Panels::InPlace(view));
        }
        // Columns of whole tasks, as many as fit.
        let most = (B_BYTES / size_of::<T>() / k.max(1) / TASK_COLUMNS).max(1) * TASK_COLUMNS;
        for start in (0..n).step_by(most) {
            let columns = start..n.min(start + most);
            scratch::with(
                columns.len().next_multiple_of(self.kernels.lanes) * k,
                |packed: &mut [T]| {
                    pack(
                        b,
                        self.batch,
                        columns.clone(),
                        self.size,
                        packed,
                        self.kernels,
                        self.threads,
                    );
                    let all = columns.clone();
                    self.multiply(columns, Panels::Packed { data: packed, all, terms: k });
                },
            );
        }
    }

    /// Returns whether B is better read in place than packed.
    fn reads_in_place(&self, view: &View<T>) -> bool {
        let panels = self.size.m.div_ceil(self.kernels.rows);
        // Rows at such distances displace each other from the caches.
        let scattered = (view.k_stride * size_of::<T>()).is_multiple_of(1024) && self.size.k > 64;
        let adjacent = view.k_stride == self.size.n && self.size.n <= 2 * self.kernels.columns();
        view.outer_stride == 1 && (adjacent || panels == 1 || (panels <= FEW_PANELS && !scattered))
    }

    /// Returns about the most rows of a task with a window: whole runs, at least one, or part of a
    /// long one. More rows are better, since neighbouring rows access the same elements and each
    /// task copies them again. With more than one run, the window and the sums that wait for the
    /// next block of k take at most `window_bytes`.
    fn rows_of_window(&self, window: &Window, columns: usize) -> usize {
        let Size { m, k, blocks: ProductBlocks { terms: block, window_bytes, .. }, .. } = self.size;
        let waiting = if k > block { columns.min(TASK_COLUMNS) } else { 0 };
        let one = window.run().min(MOST_ROWS_IN_WINDOW);
        // Runs in the middle: at the edges some terms count in no row, and have no place.
        let start = (m / one - 1) / 2 * one;
        let bytes = |rows: usize| {
            let outer = start..start + rows;
            (window.frame(self.batch, outer, 0..block.min(k)).elements() + rows * waiting)
                * size_of::<T>()
        };
        let (first, second) = (bytes(one), bytes((m - start).min(2 * one)));
        let more = window_bytes.saturating_sub(first) / second.saturating_sub(first).max(1);
        one.saturating_mul(1 + more).min(MOST_ROWS_IN_WINDOW)
    }

    /// Splits C's `columns` into tasks and runs them. The tasks are about equal in size and a
    /// multiple of the threads in number, or have fewer and fewer rows.
    fn multiply(&self, columns: Range<usize>, b: Panels<T>) {
        let (m, height, window) = (self.size.m, self.kernels.rows, self.a.window());
        // Panels are as equal in height as possible. With a window, they end where its runs of rows
        // do.
        let run = window.map_or(m, Window::run);
        let in_run = run.div_ceil(height);
        let panels = m / run * in_run;
        let row = |panel: usize| panel / in_run * run + run * (panel % in_run) / in_run;
        // A window for many rows is no larger than for few, if they access the same elements.
        let in_one_window = window.is_some() && m <= MOST_ROWS_IN_WINDOW;
        let mut row_tasks = match window {
            Some(_) if in_one_window => 1,
            Some(window) => m.div_ceil(self.rows_of_window(window, columns.len())),
            None => panels.div_ceil((self.size.blocks.rows / height).max(1)),
        };
        let column_panels = columns.len().div_ceil(self.kernels.columns());
        let mut column_tasks = columns.len().div_ceil(TASK_COLUMNS);
        if self.threads > 1 {
            // Every task should read the whole of the smaller operand only.
            if m < columns.len() || panels < self.threads || in_one_window {
                column_tasks = (column_tasks * row_tasks)
                    .next_multiple_of(self.threads)
                    .div_ceil(row_tasks)
                    .min(column_panels);
            }
            if !(column_tasks * row_tasks).is_multiple_of(self.threads) {
                row_tasks = (column_tasks * row_tasks)
                    .next_multiple_of(self.threads)
                    .div_ceil(column_tasks)
                    .min(panels);
            }
        }
        let width = column_panels.div_ceil(column_tasks);
        let most = (TASK_COLUMNS / self.kernels.columns()).max(width);
        let balance = match window {
            None if row_tasks == 1 => {
                balanced(self.threads, [panels, column_panels], [width, most])
            }
            _ => None,
        };
        let (parts, width) = balance.unwrap_or((row_tasks, width));
        // Ranges of panels.
        let blocks: Blocks = match window {
            Some(window) => {
                let least = if run > MOST_ROWS_IN_WINDOW { 1 } else { in_run };
                window.blocks(in_run, panels.div_ceil(row_tasks).max(least)).into()
            }
            None if self.threads > 1 && row_tasks > 1 => {
                dwindling(panels, panels.div_ceil(row_tasks), self.threads)
            }
            None => (0..parts).map(|i| panels * i / parts..panels * (i + 1) / parts).collect(),
        };
        let task_columns = width * self.kernels.columns();
        let column_tasks = columns.len().div_ceil(task_columns);
        let run = |task: usize| {
            let (block, j) = (&blocks[task / column_tasks], task % column_tasks);
            let rows = block.clone().map(|panel| row(panel)..row(panel + 1)).collect();
            let start = columns.start + j * task_columns;
            Task {
                product: self,
                rows,
                columns: start..columns.end.min(start + task_columns),
                b: &b,
            }
            .run();
        };
        let tasks = blocks.len() * column_tasks;
        if self.threads > 1 { pool::run(tasks, run) } else { (0..tasks).for_each(run) }
    }
}

#[cfg(test)]
mod tests;
