//! One run of a convolution: its tiles, in blocks that pass through all three steps.

use super::{Shape, Winograd};
use crate::cpu::gemm::{Kernels, Layout, Run, Strided};
use crate::cpu::job::Job;
use crate::cpu::memory::{Launch, Operand, elements};
use crate::cpu::shared::Shared;
use crate::cpu::{pool, scratch};
use std::ops::Range;

/// Bytes of V and M of the tiles that pass at once: they stay in an L2 cache beside some of U.
const BLOCK_BYTES: usize = 1 << 20;
/// The largest U that each block of tiles reads anew.
const SMALL_KERNEL_BYTES: usize = 3 << 20;
/// Bytes of V of the tiles that pass at once where U is larger.
const SHARED_BYTES: usize = 8 << 20;
/// Filters that are multiplied before the results are transformed: few, so that M is small.
const FILTERS: usize = 128;
/// Most terms of a sum that pass at once: as many channels of a panel of tiles stay in L1.
const TERMS: usize = 512;
/// Elements between points, so that those of one tile do not displace each other from the caches.
const APART: usize = 16;

impl Winograd {
    /// Computes all places with the kernel's panels.
    pub fn convolve(&self, job: &Job, kernel: &[f32]) {
        let (tiles, points) = (self.tiles(), self.points());
        let Shape { channels, filters, .. } = self.shape;
        let group = filters.min(FILTERS);
        let threads = pool::threads();
        let bytes = |elements: usize| elements * points * size_of::<f32>();
        if bytes(channels * filters) <= SMALL_KERNEL_BYTES {
            let most = (BLOCK_BYTES / bytes(channels + group)).max(self.kernels.rows);
            // As equal in size as can be, and enough of them for all threads.
            let blocks = tiles.div_ceil(most).next_multiple_of(threads).min(tiles);
            pool::run(blocks, |block| {
                let some = tiles * block / blocks..tiles * (block + 1) / blocks;
                let size = Block::new(self, some.len());
                scratch::with(size.elements(points), |v: &mut [f32]| {
                    let shared = Shared::new(v);
                    self.transform_tiles(job.launch, some.clone(), &size, 0, &shared);
                    // SAFETY: nobody writes it any more.
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
                // SAFETY: nobody writes it any more.
                let v = unsafe { shared.slice(0..size.elements(points)) };
                let width = self.kernels.columns();
                let panels = filters.div_ceil(width);
                let groups = panels.div_ceil(FILTERS / width).next_multiple_of(threads).min(panels);
                pool::run(groups, |group| {
                    let first = panels * group / groups * width;
                    let end = filters.min(panels * (group + 1) / groups * width);
                    self.finish(job, some.clone(), &size, v, kernel, first..end);
                });
            });
        }
    }

    /// Transforms some tiles of the image to their points; in `v` they are from number `at` on.
    fn transform_tiles(&self, launch: Launch, tiles: Range<usize>, size: &Block, at: usize, v: &Shared<f32>) {
        let (side, vectors) = (self.transforms.side, self.shape.channels.div_ceil(self.kernels.lanes));
        let length = vectors * self.kernels.lanes;
        let Shape { channels, lines, pixels, .. } = &self.shape;
        let Operand { bytes, first, .. } = launch.operands[self.shape.image];
        let data: &[f32] = elements(bytes);
        let loops = self.shape.loops.iter().zip(launch.steps).map(|(stride, &step)| stride * step as isize);
        let origin = self.shape.origin - first as isize + loops.sum::<isize>();
        // One pixel of zeros, then one for each of a tile's that is not followed by as many elements as are read.
        scratch::with((1 + side * side) * length, |spare: &mut [f32]| {
            let (zeros, spare) = spare.split_at_mut(length);
            zeros.fill(0.0);
            let mut places = vec![zeros.as_ptr(); side * side];
            for (at, tile) in (at..).zip(tiles) {
                let (image, line, pixel) = self.place(tile);
                let origin = origin + self.shape.images[image].0;
                let mut copies = spare.chunks_mut(length);
                for (number, place) in places.iter_mut().enumerate() {
                    let (u, v) = ((line + number / side) as isize, (pixel + number % side) as isize);
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
                // SAFETY: every pixel is followed by `length` elements, as is every point by the above; tiles are split between threads.
                unsafe { (self.transforms.input)(&places, vectors, v.start().add(at * size.tile), size.point) };
            }
        });
    }

    /// The image of a tile, and its first line and pixel.
    fn place(&self, tile: usize) -> (usize, usize, usize) {
        let (row, outputs) = (tile / self.across, self.transforms.outputs);
        (row / self.down, row % self.down * outputs, tile % self.across * outputs)
    }

    /// Computes the results of some tiles, of which `v` has the points, for some filters, the first of which begins a panel.
    fn finish(&self, job: &Job, tiles: Range<usize>, size: &Block, v: &[f32], kernel: &[f32], filters: Range<usize>) {
        let (points, outputs, lanes) = (self.points(), self.transforms.outputs, self.kernels.lanes);
        let length = filters.len().next_multiple_of(lanes);
        let stride = tiles.len() * length + APART;
        scratch::with(points * stride + outputs * outputs * length, |all: &mut [f32]| {
            let (m, results) = all.split_at_mut(points * stride);
            for (point, m) in m.chunks_mut(stride).enumerate() {
                self.multiply(tiles.len(), size, &v[point * size.point..], kernel, point, filters.clone(), m);
            }
            let mut machine = job.finisher();
            for (number, tile) in tiles.enumerate() {
                // SAFETY: `m` has a row of `length` for each point and tile, `results` for each result of a tile.
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
                        job.complete(&mut machine, place, &results[..count * length]);
                        continue;
                    }
                    for (pixel, results) in results.chunks(length).take(count).enumerate() {
                        job.complete(&mut machine, place + pixel * pixels.place, &results[..filters.len()]);
                    }
                }
            }
        });
    }

    /// The product at one point: `tiles` rows of `v` by the panels of some filters, into rows of `m`.
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
            let panel = &kernel[(first * self.points() + point * padded) * channels..][..channels * padded];
            for terms in (0..channels).step_by(TERMS) {
                let count = TERMS.min(channels - terms);
                let b = &panel[terms * padded..][..count * padded];
                for strip in 0..strips {
                    let rows = tiles * strip / strips..tiles * (strip + 1) / strips;
                    let a = &v[rows.start * size.tile + terms..][..(rows.len() - 1) * size.tile + count];
                    let start = rows.start * length + first - filters.start;
                    let c = &mut m[start..][..(rows.len() - 1) * length + padded];
                    let kernel = self.kernels.get(Layout::KContiguous, size.tile, rows.len(), padded / lanes);
                    let (a, b) = (
                        Strided { start: a.as_ptr(), stride: size.tile },
                        Strided { start: b.as_ptr(), stride: padded },
                    );
                    let run = [Run { offset: 0, length: count }];
                    // SAFETY: the three slices are what the kernel touches, and it is one of this processor's.
                    unsafe { kernel(&run, a, b, c.as_mut_ptr(), length, terms == 0) };
                }
            }
        }
    }
}
/// How the points of some tiles lie in memory.
struct Block {
    /// Elements from tile to tile: the channels, in whole vectors.
    tile: usize,
    /// Elements from point to point.
    point: usize,
}

impl Block {
    fn new(winograd: &Winograd, tiles: usize) -> Self {
        let length = winograd.shape.channels.next_multiple_of(winograd.kernels.lanes);
        // Rows that many bytes apart would displace each other from L1.
        let tile = if (length * size_of::<f32>()).is_multiple_of(1024) { length + APART } else { length };
        Self { tile, point: tiles * tile + APART }
    }

    fn elements(&self, points: usize) -> usize {
        points * self.point
    }
}
