//! One run of a convolution: its tiles, in blocks that pass through all three steps.

use super::{Shape, Winograd};
use crate::cpu::loops::job::Job;
use crate::cpu::memory::{Launch, Operand, Shared, elements, scratch};
use crate::cpu::product::gemm::{Kernels, Layout, Run, Strided};
use crate::cpu::threads::pool;
use std::ops::Range;

/// The bytes of V and M of the tiles that pass at once. They stay in an L2 cache beside some of U.
const BLOCK_BYTES: usize = 1 << 20;
/// The largest U, in bytes, that each block of tiles reads again.
const SMALL_KERNEL_BYTES: usize = 3 << 20;
/// The bytes of V of the tiles that pass at once if U is larger.
const SHARED_BYTES: usize = 8 << 20;
/// The most filters that are multiplied before their results are transformed. Few keep M small.
const FILTERS: usize = 128;
/// The most terms of a sum that pass at once: that many channels of a panel of tiles stay in L1.
const TERMS: usize = 512;
/// About the tasks for each thread, where tiles are divided: threads are not equally fast.
const TASKS: usize = 3;
/// The elements of padding between points, so that those of a tile do not displace each other from
/// the caches.
const APART: usize = 16;

impl Winograd {
    /// Computes all places with the kernel's panels.
    pub fn convolve(&self, job: &Job, kernel: &[f32]) {
        let (tiles, points) = (self.tiles(), self.points());
        let Shape { channels, filters, .. } = self.shape;
        let width = self.kernels.columns();
        // Whole panels, as `finish` demands.
        let group = filters.min(FILTERS / width * width);
        let threads = pool::threads();
        let bytes = |elements: usize| elements * points * size_of::<f32>();
        // Many threads would have blocks of fewer tiles than a kernel has rows, and wait for U.
        let fills_kernels = threads <= 2 || tiles >= threads * self.kernels.rows;
        if fills_kernels && bytes(channels * filters) <= SMALL_KERNEL_BYTES {
            let most = (BLOCK_BYTES / bytes(channels + group)).max(self.kernels.rows);
            // ProductBlocks as equal in size as possible, and enough of them for all threads.
            let blocks = tiles.div_ceil(most).next_multiple_of(threads).min(tiles);
            pool::run(blocks, |block| {
                let some = tiles * block / blocks..tiles * (block + 1) / blocks;
                let size = Block::new(self, some.len());
                scratch::with(size.elements(points), |v: &mut [f32]| {
                    let shared = Shared::new(v);
                    self.transform_tiles(job.launch, some.clone(), &size, 0, &shared);
                    // SAFETY: `v` is this task's own, and nothing writes it any more.
                    let v = unsafe { shared.slice(0..size.elements(points)) };
                    (0..filters).step_by(group).for_each(|first| {
                        let filters = first..filters.min(first + group);
                        self.finish(job, some.clone(), &size, v, kernel, filters);
                    });
                });
            });
            return;
        }
        let most = (SHARED_BYTES / bytes(channels)).max(self.kernels.rows);
        let passes = tiles.div_ceil(most);
        for pass in 0..passes {
            let some = tiles * pass / passes..tiles * (pass + 1) / passes;
            let size = Block::new(self, some.len());
            scratch::with(size.elements(points), |v: &mut [f32]| {
                let shared = Shared::new(v);
                let pieces = some.len().min(4 * threads);
                pool::run(pieces, |piece| {
                    let part = some.len() * piece / pieces..some.len() * (piece + 1) / pieces;
                    let of_all = some.start + part.start..some.start + part.end;
                    self.transform_tiles(job.launch, of_all, &size, part.start, &shared);
                });
                // SAFETY: all tasks that write `v` have ended, and the tasks below only read it.
                let v = unsafe { shared.slice(0..size.elements(points)) };
                let panels = filters.div_ceil(width);
                let groups = panels.div_ceil(FILTERS / width).next_multiple_of(threads).min(panels);
                // If there are too few groups of filters for all threads, tiles are divided, too.
                let height = self.kernels.rows;
                let strips = some.len().div_ceil(height);
                let parts = if groups.is_multiple_of(threads) {
                    1
                } else {
                    (TASKS * threads).div_ceil(groups).min(strips)
                };
                pool::run(groups * parts, |task| {
                    let (group, part) = (task / parts, task % parts);
                    let first = panels * group / groups * width;
                    let end = filters.min(panels * (group + 1) / groups * width);
                    let start = strips * part / parts * height;
                    let last = some.len().min(strips * (part + 1) / parts * height);
                    let tiles = some.start + start..some.start + last;
                    self.finish(job, tiles, &size, &v[start * size.tile..], kernel, first..end);
                });
            });
        }
    }

    /// Transforms some tiles of the image to their points, which in `v` are from tile number `at`
    /// on.
    fn transform_tiles(
        &self,
        launch: Launch,
        tiles: Range<usize>,
        size: &Block,
        at: usize,
        v: &Shared<f32>,
    ) {
        let (side, vectors) =
            (self.transforms.side, self.shape.channels.div_ceil(self.kernels.lanes));
        let length = vectors * self.kernels.lanes;
        let Shape { channels, lines, pixels, .. } = &self.shape;
        let Operand { bytes, first, .. } = launch.operands[self.shape.image];
        let data: &[f32] = elements(bytes);
        let loops =
            self.shape.loops.iter().zip(launch.steps).map(|(stride, &step)| stride * step as isize);
        let origin = self.shape.origin - first as isize + loops.sum::<isize>();
        // A pixel of zeros, then room for a copy of each pixel of a tile that is followed by too
        // few elements.
        scratch::with((1 + side * side) * length, |spare: &mut [f32]| {
            let (zeros, spare) = spare.split_at_mut(length);
            zeros.fill(0.0);
            let mut places = vec![zeros.as_ptr(); side * side];
            for (at, tile) in (at..).zip(tiles) {
                let (image, line, pixel) = self.place(tile);
                let origin = origin + self.shape.images[image].0;
                let mut copies = spare.chunks_mut(length);
                for (number, place) in places.iter_mut().enumerate() {
                    let (u, v) =
                        ((line + number / side) as isize, (pixel + number % side) as isize);
                    if !lines.within.contains(&u) || !pixels.within.contains(&v) {
                        *place = zeros.as_ptr();
                        continue;
                    }
                    let from = &data[(origin + u * lines.stride + v * pixels.stride) as usize..];
                    *place = match copies.next() {
                        Some(copy) if from.len() < length => {
                            copy[..*channels].copy_from_slice(&from[..*channels]);
                            copy[*channels..].fill(0.0);
                            copy.as_ptr()
                        }
                        _ => from.as_ptr(),
                    };
                }
                let last = at * size.tile + (self.points() - 1) * size.point;
                assert!(last + length <= v.len(), "a point reaches past the end");
                // SAFETY:
                // - Pixels: each of the side² places has `length` readable elements: in the image,
                //   in a copy, or zeros.
                // - Points: the assert above checks that the last one has `length` elements. No
                //   other thread writes this tile's.
                // - `transforms` is one of this processor's.
                unsafe {
                    (self.transforms.input)(
                        &places,
                        vectors,
                        v.start().add(at * size.tile),
                        size.point,
                    )
                };
            }
        });
    }

    /// Returns the image of a tile, and the tile's first line and pixel.
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let (row, outputs) = (tile / self.across, self.transforms.outputs);
        (row / self.down, row % self.down * outputs, tile % self.across * outputs)
    }

    /// Computes output tiles from the transformed input `v`, for some filters. `filters.start` must
    /// be a multiple of the panel width, and so must `filters.end` unless it is the number of
    /// filters.
    fn finish(
        &self,
        job: &Job,
        tiles: Range<usize>,
        size: &Block,
        v: &[f32],
        kernel: &[f32],
        filters: Range<usize>,
    ) {
        let width = self.kernels.columns();
        debug_assert!(filters.start.is_multiple_of(width), "filters start within a panel");
        debug_assert!(
            filters.end.is_multiple_of(width) || filters.end == self.shape.filters,
            "filters end within a panel"
        );
        let (points, outputs, lanes) = (self.points(), self.transforms.outputs, self.kernels.lanes);
        let length = filters.len().next_multiple_of(lanes);
        let stride = tiles.len() * length + APART;
        scratch::with(points * stride + outputs * outputs * length, |all: &mut [f32]| {
            let (m, results) = all.split_at_mut(points * stride);
            for (point, m) in m.chunks_mut(stride).enumerate() {
                self.multiply(
                    tiles.len(),
                    size,
                    &v[point * size.point..],
                    kernel,
                    point,
                    filters.clone(),
                    m,
                );
            }
            let mut machine = job.finisher();
            for (number, tile) in tiles.enumerate() {
                // SAFETY: `m` has `length` elements for each point of this tile, `stride` apart,
                // and `results` has them for each result of a tile. `transforms` is one of this
                // processor's.
                unsafe {
                    let (from, to) = (m[number * length..].as_ptr(), results.as_mut_ptr());
                    (self.transforms.output)(from, stride, length / lanes, to, length);
                }
                let (image, line, pixel) = self.place(tile);
                let Shape { lines, pixels, .. } = &self.shape;
                let start = self.shape.images[image].1 + pixel * pixels.place + filters.start;
                let count = outputs.min(pixels.extent - pixel);
                let there = results.chunks(outputs * length).zip(line..lines.extent);
                for (results, line) in there {
                    let place = start + line * lines.place;
                    if pixels.place == length {
                        // SAFETY: one task computes these filters of a tile, and tiles do not
                        // overlap.
                        unsafe { job.complete(&mut machine, place, &results[..count * length]) };
                        continue;
                    }
                    for (pixel, results) in results.chunks(length).take(count).enumerate() {
                        let place = place + pixel * pixels.place;
                        // SAFETY: one task computes these filters of a tile, and tiles do not
                        // overlap.
                        unsafe { job.complete(&mut machine, place, &results[..filters.len()]) };
                    }
                }
            }
        });
    }

    /// Computes the product at one point: `tiles` rows of `v` by the panels of some filters, into
    /// rows of `m`.
    #[expect(clippy::too_many_arguments, reason = "a product's operands and their sizes")]
    fn multiply(
        &self,
        tiles: usize,
        size: &Block,
        v: &[f32],
        kernel: &[f32],
        point: usize,
        filters: Range<usize>,
        m: &mut [f32],
    ) {
        let (channels, Kernels { lanes, rows: height, .. }) = (self.shape.channels, self.kernels);
        let (width, length) = (self.kernels.columns(), filters.len().next_multiple_of(lanes));
        let strips = tiles.div_ceil(height);
        for first in filters.clone().step_by(width) {
            let padded = (filters.end - first).next_multiple_of(lanes).min(width);
            let panel =
                &kernel[(first * self.points() + point * padded) * channels..][..channels * padded];
            for terms in (0..channels).step_by(TERMS) {
                let count = TERMS.min(channels - terms);
                let b = &panel[terms * padded..][..count * padded];
                for strip in 0..strips {
                    let rows = tiles * strip / strips..tiles * (strip + 1) / strips;
                    let a = &v[rows.start * size.tile + terms..]
                        [..(rows.len() - 1) * size.tile + count];
                    let start = rows.start * length + first - filters.start;
                    let c = &mut m[start..][..(rows.len() - 1) * length + padded];
                    let kernel = self.kernels.get(
                        Layout::KContiguous,
                        size.tile,
                        rows.len(),
                        padded / lanes,
                    );
                    let (a, b) = (
                        Strided { start: a.as_ptr(), stride: size.tile },
                        Strided { start: b.as_ptr(), stride: padded },
                    );
                    let run = [Run { term: 0, offset: 0, length: count }];
                    // SAFETY: the kernel's contract holds. `a`, `b` and `c` are slices of exactly
                    // the rows × columns that the kernel accesses, at these strides, and the kernel
                    // is one of `Element::kernels`.
                    unsafe { kernel(&run, a, b, c.as_mut_ptr(), length, terms == 0) };
                }
            }
        }
    }
}
/// The memory layout of the points of some tiles.
struct Block {
    /// The elements from tile to tile: the channels, in whole vectors.
    tile: usize,
    /// The elements from point to point.
    point: usize,
}

impl Block {
    fn new(winograd: &Winograd, tiles: usize) -> Self {
        let length = winograd.shape.channels.next_multiple_of(winograd.kernels.lanes);
        // Rows at such distances would displace each other from L1.
        let tile =
            if (length * size_of::<f32>()).is_multiple_of(1024) { length + APART } else { length };
        Self { tile, point: tiles * tile + APART }
    }

    fn elements(&self, points: usize) -> usize {
        points * self.point
    }
}
