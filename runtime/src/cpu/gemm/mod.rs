//! A packed matrix product whose operands are gathered and whose result leaves through an epilogue.
//!
//! For each batch, `C[m, n] = Σ_k A(m, k) · B(k, n)`. Matrix products of any layout, batched ones, and convolutions (without an
//! im2col matrix) differ only in the two [`Pack`]s that fill panels with A and B, and in the [`Store`] that takes finished sums.
//!
//! The blocking, outermost first:
//! - B is packed once, in columns of a micro-kernel's width by blocks of KC, shared by all threads; if it is larger than [`B_BYTES`], a range of columns at a time.
//! - A task is a block of rows (at most [`MC`]) × a range of columns (at most [`NR_TASK`]). It packs its rows of A for one block of KC, into L2.
//! - It walks B in blocks of KC × NC, which stay in L2 while all its rows pass.
//! - A panel of A stays in L1 while the block's panels of B pass.
//!
//! Always true: every element of C is stored exactly once, after its last k; sums run over k in order within a block of KC, then block by block,
//! so that the result does not depend on the number of threads.

mod kernel;
mod pack;

pub use kernel::{Float, Layout};
pub use pack::{Axis, Gather, Pack, Panel};

use super::scratch;
use super::shared::Shared;
use kernel::Kernels;
use rayon::prelude::*;
use std::ops::Range;

/// Most rows of a task: with KC of f32 a packed block of A takes 256 KiB of L2.
const MC: usize = 168;
/// Columns of B walked at a time: KC × NC of f32 takes 384 KiB of L2.
const NC: usize = 256;
/// Most columns of a task, a multiple of NC. Each task packs its rows of A anew, once in so many columns.
const TASK_COLUMNS: usize = 2048;
/// Panels of B packed together.
const B_GROUP: usize = 8;
/// Most memory for packed B.
const B_BYTES: usize = 64 << 20;
/// Fewer multiply-adds than this are done before a second thread has woken.
const PARALLEL_WORK: usize = 1 << 20;

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
}

/// Takes every element of C once, in tiles of a few rows by up to some hundred columns that are in L1, from any thread.
pub trait Store<T>: Sync {
    /// Takes one tile.
    fn store(&self, tile: Tile<T>);
}

impl<T, F: Fn(Tile<T>) + Sync> Store<T> for F {
    fn store(&self, tile: Tile<T>) {
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
    fn store(&self, tile: Tile<T>) {
        for (row, sums) in tile.iter() {
            let start = tile.batch * self.batch_stride + row * self.row_stride + tile.columns.start;
            // SAFETY: only this module makes tiles, and no two of a product share an element.
            unsafe { self.data.slice(start..start + sums.len()) }.copy_from_slice(sums);
        }
    }
}

/// Multiplies `a` (outer axis: m) by `b` (outer axis: n) into `store`, on all threads of the current rayon pool if the work is worth it.
/// A sum of no terms (`size.k == 0`) is stored as 0.
pub fn gemm<T: Float>(size: Size, a: &impl Pack<T>, b: &impl Pack<T>, store: &impl Store<T>) {
    if size.batch == 0 || size.m == 0 || size.n == 0 {
        return;
    }
    let kernels = T::kernels();
    let work = size.m.saturating_mul(size.n).saturating_mul(size.k);
    let threads = rayon::current_num_threads();
    let product = |batch: usize, threads: usize| Product { size, kernels, a, b, store, batch, threads }.run();
    if work.saturating_mul(size.batch) < PARALLEL_WORK || threads == 1 {
        (0..size.batch).for_each(|batch| product(batch, 1));
    } else if size.batch >= 4 * threads || work < PARALLEL_WORK {
        (0..size.batch).into_par_iter().for_each(|batch| product(batch, 1));
    } else {
        (0..size.batch).for_each(|batch| product(batch, threads));
    }
}

/// One batch's product.
struct Product<'a, T: Float, A, B, S> {
    size: Size,
    kernels: Kernels<T>,
    a: &'a A,
    b: &'a B,
    store: &'a S,
    batch: usize,
    threads: usize,
}

impl<T: Float, A: Pack<T>, B: Pack<T>, S: Store<T>> Product<'_, T, A, B, S> {
    fn run(&self) {
        let Size { n, k, .. } = self.size;
        // Whole tasks' columns, as many as fit.
        let most = (B_BYTES / size_of::<T>() / k.max(1) / TASK_COLUMNS).max(1) * TASK_COLUMNS;
        for start in (0..n).step_by(most) {
            let columns = start..n.min(start + most);
            scratch::with(self.padded(columns.len()) * k, |packed: &mut [T]| {
                self.pack_b(columns.clone(), packed);
                self.multiply(columns, packed);
            });
        }
    }

    /// Columns padded to whole vectors.
    fn padded(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.kernels.lanes)
    }

    /// Runs the tasks `0..count`, on several threads if this product may.
    fn for_each(&self, count: usize, task: impl Fn(usize) + Send + Sync) {
        if self.threads > 1 && count > 1 {
            (0..count).into_par_iter().with_max_len(1).for_each(task);
        } else {
            (0..count).for_each(task);
        }
    }

    /// Packs `columns` of B: for each block of KC, panels of the kernel's width, each k-major; the last is as wide as the vectors it needs.
    fn pack_b(&self, columns: Range<usize>, packed: &mut [T]) {
        let (width, lanes, kc) = (self.kernels.columns(), self.kernels.lanes, self.kernels.kc());
        let padded = self.padded(columns.len());
        // Neighbouring panels are filled together, a few k at a time, so that long pieces of the source's rows are read at once.
        let (group, step) = (B_GROUP * width, self.b.k_step().min(kc));
        let groups = packed.chunks_mut(kc * padded).enumerate().flat_map(|(block, packed)| {
            let ks = block * kc..self.size.k.min((block + 1) * kc);
            packed.chunks_mut(group * ks.len()).enumerate().map(move |(i, data)| (ks.clone(), i * group, data))
        });
        let pack = |(ks, start, data): (Range<usize>, usize, &mut [T])| {
            for k in ks.clone().step_by(step) {
                let some = k..ks.end.min(k + step);
                for (i, data) in data.chunks_mut(width * ks.len()).enumerate() {
                    let first = columns.start + start + i * width;
                    let outer = first..columns.end.min(first + width);
                    let k_stride = outer.len().next_multiple_of(lanes);
                    let data = &mut data[(k - ks.start) * k_stride..][..some.len() * k_stride];
                    if k_stride != outer.len() {
                        data.fill(T::default());
                    }
                    self.b.pack(self.batch, outer, some.clone(), Panel { data, outer_stride: 1, k_stride });
                }
            }
        };
        if self.threads > 1 {
            groups.collect::<Vec<_>>().into_par_iter().for_each(pack);
        } else {
            groups.for_each(pack);
        }
    }

    /// Splits C's `columns` into tasks of about equal size, a multiple of the threads, and runs them.
    fn multiply(&self, columns: Range<usize>, b: &[T]) {
        let panels = self.size.m.div_ceil(self.kernels.rows);
        let column_tasks = columns.len().div_ceil(TASK_COLUMNS);
        let least = panels.div_ceil(MC / self.kernels.rows);
        let wanted = (least * column_tasks).next_multiple_of(self.threads).div_ceil(column_tasks).min(panels);
        // Few rows: the columns must feed the threads.
        let column_tasks = column_tasks.max((self.threads * 2).div_ceil(wanted) * usize::from(wanted < self.threads));
        let task_columns = columns.len().div_ceil(column_tasks).next_multiple_of(self.kernels.columns());
        let column_tasks = columns.len().div_ceil(task_columns);
        self.for_each(wanted * column_tasks, |task| {
            let (i, j) = (task / column_tasks, task % column_tasks);
            // Panels are as equal in height as can be.
            let row = |panel: usize| self.size.m * panel / panels;
            let rows = (panels * i / wanted..panels * (i + 1) / wanted).map(|p| row(p)..row(p + 1)).collect();
            let start = columns.start + j * task_columns;
            Task {
                product: self,
                rows,
                columns: start..columns.end.min(start + task_columns),
                all: columns.clone(),
                b,
            }
            .run();
        });
    }
}

/// Some panels of rows × some columns of one product.
struct Task<'a, T: Float, A, B, S> {
    product: &'a Product<'a, T, A, B, S>,
    /// The panels of A, none higher than the kernels.
    rows: Vec<Range<usize>>,
    /// Starts a whole number of kernels after `all` does.
    columns: Range<usize>,
    /// The columns that `b` holds, as [`Product::pack_b`] lays them out.
    all: Range<usize>,
    b: &'a [T],
}

impl<T: Float, A: Pack<T>, B: Pack<T>, S: Store<T>> Task<'_, T, A, B, S> {
    fn run(&self) {
        let Kernels { rows: height, .. } = self.product.kernels;
        let (k, kc, width) = (self.product.size.k, self.product.kernels.kc(), self.product.kernels.columns());
        let blocks = k.div_ceil(kc).max(1);
        let nc = NC / width * width;
        // A row of C is padded to a kernel's width, and by a line so that its rows do not all fall into one set of the cache.
        let stride = nc.min(self.columns.len()).next_multiple_of(width) + 64 / size_of::<T>();
        // Sums wait in memory only from one block of k to the next: with a single block one strip serves all.
        let strips = if blocks == 1 { 1 } else { self.rows.len() * self.columns.len().div_ceil(nc) };
        scratch::with(self.rows.len() * height * kc, |a: &mut [T]| {
            scratch::with(strips * height * stride, |c: &mut [T]| {
                for block in 0..blocks {
                    let ks = block * kc..k.min((block + 1) * kc);
                    self.pack_a(ks.clone(), a);
                    let mut strip = 0;
                    for start in self.columns.clone().step_by(nc) {
                        let columns = start..self.columns.end.min(start + nc);
                        for (rows, a) in self.rows.iter().zip(a.chunks(height * kc)) {
                            let c = &mut c[strip % strips * height * stride..][..height * stride];
                            self.strip(rows.len(), columns.clone(), ks.clone(), a, c, stride);
                            if block + 1 == blocks {
                                let (rows, columns) = (rows.clone(), columns.clone());
                                self.product.store.store(Tile {
                                    batch: self.product.batch,
                                    rows,
                                    columns,
                                    data: c,
                                    stride,
                                });
                            }
                            strip += 1;
                        }
                    }
                }
            });
        });
    }

    /// Packs the task's rows for one block of k, each panel in room for the highest.
    fn pack_a(&self, ks: Range<usize>, packed: &mut [T]) {
        let Kernels { rows: height, .. } = self.product.kernels;
        let kc = self.product.kernels.kc();
        for (rows, data) in self.rows.iter().zip(packed.chunks_mut(height * kc)) {
            let (outer_stride, k_stride) = match self.product.a.layout() {
                Layout::KContiguous => (kc, 1),
                Layout::RowContiguous => (1, rows.len()),
            };
            if !ks.is_empty() {
                self.product.a.pack(
                    self.product.batch,
                    rows.clone(),
                    ks.clone(),
                    Panel { data, outer_stride, k_stride },
                );
            }
        }
    }

    /// Adds one block of k (the first: writes) to a strip of C: one panel of A by `columns`.
    fn strip(&self, rows: usize, columns: Range<usize>, ks: Range<usize>, a: &[T], c: &mut [T], stride: usize) {
        let Product { kernels, a: operand, .. } = self.product;
        let block = &self.b[ks.start * self.product.padded(self.all.len())..];
        for start in columns.clone().step_by(kernels.columns()) {
            let vectors = (self.all.end - start).div_ceil(kernels.lanes).min(kernels.vectors);
            let b = &block[(start - self.all.start) * ks.len()..][..ks.len() * vectors * kernels.lanes];
            let c = &mut c[start - columns.start..][..(rows - 1) * stride + vectors * kernels.lanes];
            let kernel = kernels.get(operand.layout(), rows, vectors);
            // SAFETY: `b` and `c` are exactly what the kernel touches; `a` holds a panel of the greatest height by KC in either layout;
            // `kernels` came from the detection of this processor's features.
            unsafe { kernel(ks.len(), a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), stride, ks.start == 0) };
        }
    }
}

#[cfg(test)]
mod tests;
