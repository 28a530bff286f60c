//! Convolutions with windows of 3 × 3 or 5 × 5 at stride 1 by Winograd's minimal filtering, which
//! takes fewer multiplications than the sums have terms.
//!
//! Results are computed in tiles of 2 × 2 or 4 × 4, each from a tile of the image that is larger by
//! the window. A tile of `T` by `T` pixels is transformed, channel by channel, to as many *points*,
//! and so is the kernel, filter by filter. Then, at each point, a product over the channels takes
//! tiles to filters, and another transform takes the points to the tile's results:
//!
//! ```text
//! V[p, tile, c] = transform of the image's tile
//! U[p, c, f]    = transform of the kernel's taps (ahead, where it is kept)
//! M[p, tile, f] = Σ_c V[p, tile, c] · U[p, c, f]
//! result        = transform of M, through the nest's epilogue
//! ```
//!
//! For each channel, a result of a 4 × 4 tile takes 36 / 16 = 2.25 multiplications and one of a 2 ×
//! 2 tile takes 4, instead of 9. With a window of 5 × 5 it takes 36 / 4 = 9, instead of 25.
//! The compiler estimates which of these, if any, is fastest. A few tiles at a time pass through
//! all three steps, so that V and M stay in the L2 cache. If U is larger, or there are fewer tiles
//! than keep all threads busy, the tiles pass together, and threads share their V.
//!
//! Rounding, measured on random data as the root mean square of the error against sums in f64: in 2
//! × 2 tiles it is 0.6 times that of an f32 sum of products, term by term. In 4 × 4 tiles it is 1.6
//! to 2 times that, and with a window of 5 × 5 1.3 times. A NaN or an infinity reaches all results
//! of the tiles that contain it, not only those whose window does. An
//! [`exact`](crate::Device::exact) device does not use this.
//!
//! Always true: results do not depend on the number of threads.

mod pass;
mod shape;
#[cfg(test)]
mod tests;
mod transform;

use super::gemm::{Element, Gather, Kernels, Pack, Panel};
use crate::cpu::loops::job::Job;
use crate::cpu::memory::{Launch, Operand, Register, Shared, bytes, elements, scratch};
use crate::cpu::threads::pool;
use shape::Shape;
use tile_compiler::native::{self, NativeProgram};
use transform::{Transforms, transforms};

/// The channels of the kernel that are transformed at a time.
const CHANNELS: usize = 8;

/// A convolution, ready to run.
pub struct Winograd {
    shape: Shape,
    transforms: Transforms,
    kernels: Kernels<f32>,
    /// The tiles of an image: rows of tiles, and tiles in each row.
    down: usize,
    across: usize,
}

impl Winograd {
    /// Prepares a convolution of the program.
    pub fn new(program: &NativeProgram, winograd: &native::Winograd) -> Self {
        let shape = Shape::new(program, winograd);
        let found = transforms()
            .into_iter()
            .find(|known| (known.taps, known.outputs) == (winograd.taps, winograd.tile));
        Self::of(shape, found.expect("transforms for every form of a verified program"))
    }

    fn of(shape: Shape, transforms: Transforms) -> Self {
        let tiles = |extent: usize| extent.div_ceil(transforms.outputs);
        let (down, across) = (tiles(shape.lines.extent), tiles(shape.pixels.extent));
        Self { shape, transforms, kernels: f32::kernels(), down, across }
    }

    /// Returns the operand that is the kernel, if nothing else in the nest reads it and its
    /// addresses are the same at every step of the loops around it.
    pub fn packs(&self) -> Vec<usize> {
        if self.shape.packs { vec![self.shape.kernel] } else { Vec::new() }
    }

    /// Transforms the kernel for any number of runs in which it does not change.
    pub fn pack(&self, launch: Launch, room: Option<Register>) -> Register {
        let bytes = self.kernel_elements() * size_of::<f32>();
        let mut panels = room.unwrap_or_else(|| Register::zeroed(bytes));
        self.transform_kernel(launch, panels.elements_mut());
        panels
    }

    /// Returns the bytes that [`Winograd::pack`] takes.
    pub fn packed_bytes(&self) -> u64 {
        let Shape { channels, filters, .. } = self.shape;
        bytes(
            &[self.points(), channels, filters.next_multiple_of(self.kernels.lanes)],
            size_of::<f32>(),
        )
    }

    /// Computes all places.
    pub fn run(&self, job: &Job, kernel: Option<&Register>) {
        match kernel {
            Some(panels) => self.convolve(job, panels.elements()),
            None => scratch::with(self.kernel_elements(), |panels: &mut [f32]| {
                self.transform_kernel(job.launch, panels);
                self.convolve(job, panels);
            }),
        }
    }

    /// Returns the points of a tile.
    fn points(&self) -> usize {
        self.transforms.side * self.transforms.side
    }

    /// Returns the tiles of all images.
    fn tiles(&self) -> usize {
        self.shape.images.len() * self.down * self.across
    }

    fn kernel_elements(&self) -> usize {
        self.points()
            * self.shape.channels
            * self.shape.filters.next_multiple_of(self.kernels.lanes)
    }

    /// Transforms the kernel to panels of filters. A panel has all points, and each point has all
    /// channels.
    fn transform_kernel(&self, launch: Launch, panels: &mut [f32]) {
        let Shape { channels, filters, ref places, .. } = self.shape;
        let Operand { bytes, first, .. } = launch.operands[self.shape.kernel];
        let gather = Gather::new(elements(bytes), first, places, launch.steps);
        let (width, lanes) = (self.kernels.columns(), self.kernels.lanes);
        let shared = Shared::new(panels);
        let per_filter = self.points() * channels;
        pool::run(filters.div_ceil(width), |panel| {
            let some = panel * width..filters.min((panel + 1) * width);
            let padded = some.len().next_multiple_of(lanes);
            let start = some.start * per_filter;
            // SAFETY: each task has its own panel.
            let panel = unsafe { shared.slice(start..start + padded * per_filter) };
            let window = self.shape.taps * self.shape.taps;
            scratch::with(window * CHANNELS * padded, |taps: &mut [f32]| {
                taps.fill(0.0);
                for channel in (0..channels).step_by(CHANNELS) {
                    let count = CHANNELS.min(channels - channel);
                    for (tap, to) in taps.chunks_mut(CHANNELS * padded).enumerate() {
                        let first = self.tap(tap) * channels + channel;
                        let data = &mut to[..count * padded];
                        let to = Panel { data, outer_stride: 1, k_stride: padded };
                        gather.pack(0, some.clone(), first..first + count, to);
                    }
                    for (number, channel) in (channel..channel + count).enumerate() {
                        let (taps, points) =
                            (&taps[number * padded..], &mut panel[channel * padded..]);
                        assert!(
                            taps.len() >= ((window - 1) * CHANNELS + 1) * padded,
                            "a tap reaches past the end"
                        );
                        assert!(
                            points.len() >= ((self.points() - 1) * channels + 1) * padded,
                            "a point does"
                        );
                        let (stride, to_stride) = (CHANNELS * padded, channels * padded);
                        // SAFETY: the asserts above check that `taps` has a row of `padded`
                        // elements for each tap, and `points` for each point. `transforms` and
                        // `lanes` are those of this processor.
                        unsafe {
                            let (taps, points) = (taps.as_ptr(), points.as_mut_ptr());
                            (self.transforms.kernel)(
                                taps,
                                stride,
                                padded / lanes,
                                points,
                                to_stride,
                            );
                        }
                    }
                }
            });
        });
    }

    /// Returns the number of the kernel's tap at this position of the window.
    fn tap(&self, place: usize) -> usize {
        let taps = self.shape.taps;
        let of = |reversed: bool, at: usize| if reversed { taps - 1 - at } else { at };
        taps * of(self.shape.lines.reversed, place / taps)
            + of(self.shape.pixels.reversed, place % taps)
    }
}
