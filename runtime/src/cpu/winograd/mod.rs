//! Convolutions by a window of 3 × 3 or 5 × 5 at stride 1 with fewer multiplications than they have terms (Winograd's minimal filtering).
//!
//! Results are computed in tiles of 2 × 2 or 4 × 4, each from a tile of the image that is larger by the window. A tile of `T` by `T` pixels is transformed, channel by
//! channel, to as many *points*, and so is the kernel, filter by filter; then at each point, a product over the channels takes tiles to filters, and another
//! transform takes the points to the tile's results:
//!
//! ```text
//! V[p, tile, c] = transform of the image's tile        U[p, c, f] = transform of the kernel's taps (ahead, where it is kept)
//! M[p, tile, f] = Σ_c V[p, tile, c] · U[p, c, f]       result = transform of M, through the nest's epilogue
//! ```
//!
//! A result of a tile of 4 × 4 takes 36 / 16 = 2.25 multiplications for each channel, of 2 × 2 it takes 4, instead of 9; with a window of 5 × 5 it
//! takes 36 / 4 = 9, instead of 25. Which of them is computed in
//! the least time, if any, [`Cost`] estimates. Some tiles at a time pass through all three, so that V and M stay in the L2 cache; where U is what is
//! large, many tiles pass at once, and threads share their V.
//!
//! The rounding: measured on random data against sums in f64, the root mean square of the error is, in tiles of 2 × 2, 0.6 of that of a sum of products
//! in f32, term by term; in tiles of 4 × 4 it is 1.6 to 2 times that, with a window of 5 × 5 1.3 times. A NaN or an infinity reaches all results of the tiles that meet it, not only those whose
//! window does. A device that is [`exact`](crate::Device::exact) does without all this.
//!
//! Always true: results do not depend on the number of threads.

mod pass;
mod shape;
#[cfg(test)]
mod tests;
mod transform;

use super::gemm::{Float, Gather, Kernels, Pack, Panel};
use super::job::Job;
use super::memory::{Launch, Operand, Register, elements};
use super::shared::Shared;
use super::{pool, scratch};
use shape::Shape;
use tile_compiler::nest::Nest;
use transform::{Transforms, transforms};

/// Channels of the kernel that are transformed at a time.
const CHANNELS: usize = 8;

/// A convolution, ready to run.
pub struct Winograd {
    shape: Shape,
    transforms: Transforms,
    kernels: Kernels<f32>,
    /// Tiles below and beside each other in an image.
    down: usize,
    across: usize,
}

/// What a way of computing takes, in the time of a multiply-add of one number at full speed.
struct Cost;

impl Cost {
    /// To read an element of a kernel, from beyond the caches.
    const READ: usize = 13;
    /// To transform a point of the image or of the results, in one channel or filter.
    const POINT: usize = 11;
    /// To transform a point of the kernel.
    const KERNEL_POINT: usize = 20;

    /// Term by term.
    fn direct(shape: &Shape) -> usize {
        let places = shape.images.len() * shape.lines.extent * shape.pixels.extent;
        shape.taps * shape.taps * shape.channels * shape.filters * (places + Self::READ)
    }

    /// With these transforms.
    fn with(shape: &Shape, transforms: &Transforms, kept: bool) -> usize {
        let tiles = shape.images.len()
            * shape.lines.extent.div_ceil(transforms.outputs)
            * shape.pixels.extent.div_ceil(transforms.outputs);
        let once = if kept { Self::READ } else { Self::READ + Self::KERNEL_POINT };
        let points = transforms.side * transforms.side;
        let products = shape.channels * shape.filters * (tiles + once);
        points * (products + Self::POINT * tiles * (shape.channels + shape.filters))
    }
}

impl Winograd {
    /// The nest, if it is such a convolution and best computed so. `kept` says which operands change seldom.
    pub fn new(nest: &Nest, kept: &dyn Fn(usize) -> bool) -> Option<Self> {
        let shape = Shape::of(nest)?;
        let kept = kept(shape.kernel);
        let suiting = transforms().into_iter().filter(|transforms| transforms.taps == shape.taps);
        let costs = suiting.map(|transforms| (Cost::with(&shape, &transforms, kept), transforms));
        let (cost, transforms) = costs.min_by_key(|(cost, _)| *cost)?;
        // What is not worth much is not worth the rounding.
        (10 * cost < 9 * Cost::direct(&shape)).then(|| Self::of(shape, transforms))
    }

    fn of(shape: Shape, transforms: Transforms) -> Self {
        let tiles = |extent: usize| extent.div_ceil(transforms.outputs);
        let (down, across) = (tiles(shape.lines.extent), tiles(shape.pixels.extent));
        Self { shape, transforms, kernels: f32::kernels(), down, across }
    }

    /// The operand that is the kernel, if nothing else of the nest reads it and it is the same at every step of the loops around it.
    pub fn packs(&self, nest: &Nest) -> Vec<usize> {
        let operand = self.shape.kernel;
        let alone = nest.loads().filter(|load| load.operand == operand).count() == 1;
        if alone && self.shape.places.is_steady() { vec![operand] } else { Vec::new() }
    }

    /// The kernel, transformed for any number of runs in which it is as now.
    pub fn pack(&self, launch: Launch) -> Register {
        let mut panels = Register::zeroed(self.kernel_elements() * size_of::<f32>());
        self.transform_kernel(launch, panels.elements_mut());
        panels
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

    /// Points of a tile.
    fn points(&self) -> usize {
        self.transforms.side * self.transforms.side
    }

    /// Tiles of all images.
    fn tiles(&self) -> usize {
        self.shape.images.len() * self.down * self.across
    }

    fn kernel_elements(&self) -> usize {
        self.points() * self.shape.channels * self.shape.filters.next_multiple_of(self.kernels.lanes)
    }

    /// Transforms the kernel to panels of filters, each with all its points, each with all channels.
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
            // SAFETY: each panel is one task's.
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
                        let (taps, points) = (&taps[number * padded..], &mut panel[channel * padded..]);
                        assert!(taps.len() >= ((window - 1) * CHANNELS + 1) * padded, "a tap reaches past the end");
                        assert!(points.len() >= ((self.points() - 1) * channels + 1) * padded, "a point does");
                        let (stride, to_stride) = (CHANNELS * padded, channels * padded);
                        // SAFETY: all taps and all points have a row of `padded` there, by the above.
                        unsafe {
                            let (taps, points) = (taps.as_ptr(), points.as_mut_ptr());
                            (self.transforms.kernel)(taps, stride, padded / lanes, points, to_stride);
                        }
                    }
                }
            });
        });
    }

    /// The number of the kernel's tap that is met at this place of the window.
    fn tap(&self, place: usize) -> usize {
        let taps = self.shape.taps;
        let of = |reversed: bool, at: usize| if reversed { taps - 1 - at } else { at };
        taps * of(self.shape.lines.reversed, place / taps) + of(self.shape.pixels.reversed, place % taps)
    }
}
