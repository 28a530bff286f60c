//! The transforms: an algorithm's matrices along one side of a tile, applied to both sides. They
//! are compiled for each instruction set.
//!
//! A polynomial of degree 5 is determined by its values at 5 points and its leading coefficient
//! ("at infinity"). With the points 0, ±a, ±b a product of polynomials of degrees 2 and 3, or 1 and
//! 4, therefore takes 6 multiplications. The matrices of a correlation follow from that. For x, a
//! side of a tile of 6, with 3 taps or 5:
//!
//! ```text
//! input   at 0:  x4 - (a² + b²) x2 + a²b² x0      at ±a: (x4 - b² x2) ± a (x3 - b² x1)
//!         at ∞:  x5 - (a² + b²) x3 + a²b² x1      at ±b: (x4 - a² x2) ± b (x3 - a² x1)
//! kernel  at p:  (w0 + p w1 + p² w2 + …) / N(p)
//!                N(p): the product of p's distances from the other points
//!         at ∞:  the last tap
//! output  yj:    Σ p^j m(p), and m(∞) for the last
//! ```
//!
//! Each transform rounds. The error grows with the points' distance from 1 and with their closeness
//! to each other. The usual points 0, ±1, ±2 give 4 times the error of the direct sum. With a = 5/8
//! and b = 3/2 it is 1.6 times that of the direct sum, for the same number of operations. Tiles of
//! 4, with the points 0, ±1, lose nothing.

#[cfg(target_arch = "aarch64")]
use crate::cpu::vector::Neon;
#[cfg(test)]
use crate::cpu::vector::emulated::Emulated;
use crate::cpu::vector::level::{self, Level, level};
#[cfg(target_arch = "aarch64")]
use crate::cpu::vector::register::F32x4;
#[cfg(target_arch = "x86_64")]
use crate::cpu::vector::register::{F32x8, F32x16};
use crate::cpu::vector::register::{Portable, Vector};
#[cfg(target_arch = "x86_64")]
use crate::cpu::vector::{Avx2, Avx512};

/// One side of an algorithm on tiles of `T` by `T`, with results of `M` by `M`, for kernels of `R`
/// by `R`.
trait Algorithm<const M: usize, const R: usize, const T: usize> {
    /// Transforms one side of an input tile.
    fn input<V: Vector<Scalar = f32>>(x: [V; T]) -> [V; T];
    /// Transforms one side of the kernel.
    fn kernel<V: Vector<Scalar = f32>>(w: [V; R]) -> [V; T];
    /// Transforms one side of the points to results.
    fn output<V: Vector<Scalar = f32>>(m: [V; T]) -> [V; M];
}

/// F(2, 3), with the points 0, 1, -1.
struct Two;

impl Algorithm<2, 3, 4> for Two {
    #[inline(always)]
    fn input<V: Vector<Scalar = f32>>([x0, x1, x2, x3]: [V; 4]) -> [V; 4] {
        let proof = x0.proof();
        let minus = V::splat(proof, -1.0);
        [x0.fma(x2, minus), x1.add(x2), x2.fma(x1, minus), x3.fma(x1, minus)]
    }

    #[inline(always)]
    fn kernel<V: Vector<Scalar = f32>>([w0, w1, w2]: [V; 3]) -> [V; 4] {
        let proof = w0.proof();
        let (zero, half) = (V::splat(proof, 0.0), V::splat(proof, 0.5));
        let even = zero.fma(w0.add(w2), half);
        [w0, even.fma(w1, half), even.fma(w1, V::splat(proof, -0.5)), w2]
    }

    #[inline(always)]
    fn output<V: Vector<Scalar = f32>>([m0, m1, m2, m3]: [V; 4]) -> [V; 2] {
        [m0.add(m1.add(m2)), m3.add(m1.fma(m2, V::splat(m0.proof(), -1.0)))]
    }
}

/// F(4, 3), with the points 0, a, -a, b, -b.
struct Four;

/// F(2, 5), with the same points.
struct TwoOfFive;

const A: f32 = 0.625;
const B: f32 = 1.5;
const A2: f32 = A * A;
const B2: f32 = B * B;

impl Algorithm<4, 3, 6> for Four {
    #[inline(always)]
    fn input<V: Vector<Scalar = f32>>([x0, x1, x2, x3, x4, x5]: [V; 6]) -> [V; 6] {
        let proof = x0.proof();
        let (product, sum) = (V::splat(proof, A2 * B2), V::splat(proof, -A2 - B2));
        let pair = |p: f32, other: f32| {
            let even = x4.fma(x2, V::splat(proof, -other));
            let odd = x3.fma(x1, V::splat(proof, -other));
            (even.fma(odd, V::splat(proof, p)), even.fma(odd, V::splat(proof, -p)))
        };
        let (a, minus_a) = pair(A, B2);
        let (b, minus_b) = pair(B, A2);
        [x4.fma(x2, sum).fma(x0, product), a, minus_a, b, minus_b, x5.fma(x3, sum).fma(x1, product)]
    }

    #[inline(always)]
    fn kernel<V: Vector<Scalar = f32>>([w0, w1, w2]: [V; 3]) -> [V; 6] {
        let proof = w0.proof();
        let zero = V::splat(proof, 0.0);
        let pair = |p: f32, other: f32| {
            let scale = 1.0 / (2.0 * p * p * (p * p - other));
            let even = zero.fma(w0, V::splat(proof, scale)).fma(w2, V::splat(proof, scale * p * p));
            (even.fma(w1, V::splat(proof, scale * p)), even.fma(w1, V::splat(proof, -scale * p)))
        };
        let (a, minus_a) = pair(A, B2);
        let (b, minus_b) = pair(B, A2);
        [zero.fma(w0, V::splat(proof, 1.0 / (A2 * B2))), a, minus_a, b, minus_b, w2]
    }

    #[inline(always)]
    fn output<V: Vector<Scalar = f32>>([m0, a, minus_a, b, minus_b, last]: [V; 6]) -> [V; 4] {
        let proof = m0.proof();
        let (zero, minus) = (V::splat(proof, 0.0), V::splat(proof, -1.0));
        let (even_a, odd_a) = (a.add(minus_a), a.fma(minus_a, minus));
        let (even_b, odd_b) = (b.add(minus_b), b.fma(minus_b, minus));
        [
            m0.add(even_a).add(even_b),
            zero.fma(odd_a, V::splat(proof, A)).fma(odd_b, V::splat(proof, B)),
            zero.fma(even_a, V::splat(proof, A2)).fma(even_b, V::splat(proof, B2)),
            last.fma(odd_a, V::splat(proof, A2 * A)).fma(odd_b, V::splat(proof, B2 * B)),
        ]
    }
}

impl Algorithm<2, 5, 6> for TwoOfFive {
    #[inline(always)]
    fn input<V: Vector<Scalar = f32>>(x: [V; 6]) -> [V; 6] {
        Four::input(x)
    }

    #[inline(always)]
    fn kernel<V: Vector<Scalar = f32>>([w0, w1, w2, w3, w4]: [V; 5]) -> [V; 6] {
        let proof = w0.proof();
        let zero = V::splat(proof, 0.0);
        let pair = |p: f32, other: f32| {
            let (p2, scale) = (p * p, 1.0 / (2.0 * p * p * (p * p - other)));
            let even = zero
                .fma(w0, V::splat(proof, scale))
                .fma(w2, V::splat(proof, scale * p2))
                .fma(w4, V::splat(proof, scale * p2 * p2));
            let odd =
                zero.fma(w1, V::splat(proof, scale * p)).fma(w3, V::splat(proof, scale * p * p2));
            (even.add(odd), even.fma(odd, V::splat(proof, -1.0)))
        };
        let (a, minus_a) = pair(A, B2);
        let (b, minus_b) = pair(B, A2);
        [zero.fma(w0, V::splat(proof, 1.0 / (A2 * B2))), a, minus_a, b, minus_b, w4]
    }

    #[inline(always)]
    fn output<V: Vector<Scalar = f32>>([m0, a, minus_a, b, minus_b, last]: [V; 6]) -> [V; 2] {
        let proof = m0.proof();
        let minus = V::splat(proof, -1.0);
        let (odd_a, odd_b) = (a.fma(minus_a, minus), b.fma(minus_b, minus));
        let even = m0.add(a.add(minus_a)).add(b.add(minus_b));
        [even, last.fma(odd_a, V::splat(proof, A)).fma(odd_b, V::splat(proof, B))]
    }
}

/// The transforms of one algorithm in one instruction set. Each processes `vectors` vectors of
/// channels or filters. Pixels, taps and points are in row-major order.
///
/// # Safety of the functions
/// They must be those of [`transforms`]. `vectors` vectors must be accessible at each address:
/// - `input`: `pixels` are `side²` addresses, readable; `side²` points, writable.
/// - `kernel`: `taps²` taps, readable; `side²` points, writable.
/// - `output`: `side²` points, readable; `outputs²` pixels, writable.
#[derive(Clone, Copy)]
pub struct Transforms {
    /// The side of the kernel.
    pub taps: usize,
    /// The side of a tile's results.
    pub outputs: usize,
    /// The side of a tile.
    pub side: usize,
    /// Transforms a tile's pixels, at these addresses, to its points, `stride` elements apart.
    pub input: unsafe fn(pixels: &[*const f32], vectors: usize, points: *mut f32, stride: usize),
    /// Transforms the taps, `stride` elements apart, to the points, `to_stride` elements apart.
    pub kernel: unsafe fn(
        taps: *const f32,
        stride: usize,
        vectors: usize,
        points: *mut f32,
        to_stride: usize,
    ),
    /// Transforms the points, `stride` elements apart, to the pixels, `to_stride` elements apart.
    pub output: unsafe fn(
        points: *const f32,
        stride: usize,
        vectors: usize,
        pixels: *mut f32,
        to_stride: usize,
    ),
}

/// Transforms a tile's pixels to its points: see [`Transforms`].
///
/// # Safety
/// - Each of the T² `pixels` must be readable for `vectors` vectors.
/// - Each of the T² points, `stride` elements apart, must be writable for `vectors` vectors.
#[inline(always)]
unsafe fn input<
    V: Vector<Scalar = f32>,
    F: Algorithm<M, R, T>,
    const M: usize,
    const R: usize,
    const T: usize,
>(
    proof: V::Proof,
    pixels: &[*const f32],
    vectors: usize,
    points: *mut f32,
    stride: usize,
) {
    let (rows, _) = pixels.as_chunks::<T>();
    for at in (0..vectors).map(|vector| vector * V::LANES) {
        // SAFETY: the caller guarantees the pixels and the points. `at` is less than the elements
        // of `vectors` vectors.
        unsafe {
            let mut half = [[V::splat(proof, 0.0); T]; T];
            for x in 0..T {
                let column = F::input(std::array::from_fn(|y| V::load(proof, rows[y][x].add(at))));
                (0..T).for_each(|y| half[y][x] = column[y]);
            }
            for (y, row) in half.into_iter().enumerate() {
                let row = F::input(row);
                (0..T).for_each(|x| row[x].store(points.add((y * T + x) * stride + at)));
            }
        }
    }
}

/// Transforms the taps of a kernel to its points: see [`Transforms`].
///
/// # Safety
/// - Each of the R² taps, `stride` elements apart, must be readable for `vectors` vectors.
/// - Each of the T² points, `to_stride` elements apart, must be writable for `vectors` vectors.
#[inline(always)]
unsafe fn kernel<
    V: Vector<Scalar = f32>,
    F: Algorithm<M, R, T>,
    const M: usize,
    const R: usize,
    const T: usize,
>(
    proof: V::Proof,
    taps: *const f32,
    stride: usize,
    vectors: usize,
    points: *mut f32,
    to_stride: usize,
) {
    for at in (0..vectors).map(|vector| vector * V::LANES) {
        // SAFETY: the caller guarantees the taps and the points. `at` is less than the elements of
        // `vectors` vectors.
        unsafe {
            let mut half = [[V::splat(proof, 0.0); R]; T];
            (0..R).for_each(|x| {
                let column = F::kernel(std::array::from_fn(|y| {
                    V::load(proof, taps.add((y * R + x) * stride + at))
                }));
                (0..T).for_each(|y| half[y][x] = column[y]);
            });
            for (y, row) in half.into_iter().enumerate() {
                let row = F::kernel(row);
                (0..T).for_each(|x| row[x].store(points.add((y * T + x) * to_stride + at)));
            }
        }
    }
}

/// Transforms points to the results of a tile: see [`Transforms`].
///
/// # Safety
/// - Each of the T² points, `stride` elements apart, must be readable for `vectors` vectors.
/// - Each of the M² pixels, `to_stride` elements apart, must be writable for `vectors` vectors.
#[inline(always)]
unsafe fn output<
    V: Vector<Scalar = f32>,
    F: Algorithm<M, R, T>,
    const M: usize,
    const R: usize,
    const T: usize,
>(
    proof: V::Proof,
    points: *const f32,
    stride: usize,
    vectors: usize,
    pixels: *mut f32,
    to_stride: usize,
) {
    for at in (0..vectors).map(|vector| vector * V::LANES) {
        // SAFETY: the caller guarantees the points and the pixels. `at` is less than the elements
        // of `vectors` vectors.
        unsafe {
            let mut half = [[V::splat(proof, 0.0); T]; M];
            (0..T).for_each(|x| {
                let column = F::output(std::array::from_fn(|y| {
                    V::load(proof, points.add((y * T + x) * stride + at))
                }));
                (0..M).for_each(|y| half[y][x] = column[y]);
            });
            for (y, row) in half.into_iter().enumerate() {
                let row = F::output(row);
                (0..M).for_each(|x| row[x].store(pixels.add((y * M + x) * to_stride + at)));
            }
        }
    }
}

/// Compiles the transforms of each algorithm with the features that a proof needs.
macro_rules! compiled {
    ($module:ident, $v:ty, $enable:ident, $here:expr) => {
        mod $module {
            use super::*;

            level::$enable! {
                /// # Safety
                /// The contract of [`super::input`].
                unsafe fn input<F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
                    pixels: &[*const f32],
                    vectors: usize,
                    points: *mut f32,
                    stride: usize,
                ) {
                    // SAFETY: the contract is the same.
                    unsafe { super::input::<$v, F, M, R, T>($here, pixels, vectors, points, stride) }
                }
            }

            level::$enable! {
                /// # Safety
                /// The contract of [`super::kernel`].
                unsafe fn kernel<F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
                    taps: *const f32,
                    stride: usize,
                    vectors: usize,
                    points: *mut f32,
                    to_stride: usize,
                ) {
                    // SAFETY: the contract is the same.
                    unsafe { super::kernel::<$v, F, M, R, T>($here, taps, stride, vectors, points, to_stride) }
                }
            }

            level::$enable! {
                /// # Safety
                /// The contract of [`super::output`].
                unsafe fn output<F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
                    points: *const f32,
                    stride: usize,
                    vectors: usize,
                    pixels: *mut f32,
                    to_stride: usize,
                ) {
                    // SAFETY: the contract is the same.
                    unsafe { super::output::<$v, F, M, R, T>($here, points, stride, vectors, pixels, to_stride) }
                }
            }

            const TWO: Transforms = Transforms {
                taps: 3,
                outputs: 2,
                side: 4,
                input: input::<Two, 2, 3, 4>,
                kernel: kernel::<Two, 2, 3, 4>,
                output: output::<Two, 2, 3, 4>,
            };
            const FOUR: Transforms = Transforms {
                taps: 3,
                outputs: 4,
                side: 6,
                input: input::<Four, 4, 3, 6>,
                kernel: kernel::<Four, 4, 3, 6>,
                output: output::<Four, 4, 3, 6>,
            };
            const TWO_OF_FIVE: Transforms = Transforms {
                taps: 5,
                outputs: 2,
                side: 6,
                input: input::<TwoOfFive, 2, 5, 6>,
                kernel: kernel::<TwoOfFive, 2, 5, 6>,
                output: output::<TwoOfFive, 2, 5, 6>,
            };
            pub const ALL: [Transforms; 3] = [TWO, FOUR, TWO_OF_FIVE];
        }
    };
}

compiled!(portable, Portable<f32, 4>, baseline, ());
#[cfg(test)]
compiled!(portable8, Portable<f32, 8>, baseline, ());
#[cfg(test)]
compiled!(portable16, Portable<f32, 16>, baseline, ());
#[cfg(target_arch = "x86_64")]
compiled!(avx512, F32x16, avx512, Avx512::here());
#[cfg(target_arch = "x86_64")]
compiled!(avx2, F32x8, avx2, Avx2::here());
#[cfg(target_arch = "aarch64")]
compiled!(neon, F32x4, neon, Neon::here());

/// Returns this machine's transforms, with the vectors of its product kernels: 3 × 3 kernels to
/// tiles of 2 × 2 and of 4 × 4 results, and 5 × 5 kernels to tiles of 2 × 2.
pub fn transforms() -> [Transforms; 3] {
    #[cfg(test)]
    match Emulated::current() {
        Some(Emulated::Avx512) => return portable16::ALL,
        Some(Emulated::Avx2) => return portable8::ALL,
        Some(Emulated::Neon | Emulated::Portable) => return portable::ALL,
        None => {}
    }
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(_) => avx512::ALL,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(_) => avx2::ALL,
        #[cfg(target_arch = "aarch64")]
        Level::Neon(_) => neon::ALL,
        Level::Baseline => portable::ALL,
    }
}
