//! The transforms: an algorithm's matrices along one side of a tile, applied to both; compiled for each instruction set.
//!
//! A polynomial of degree 5 is known by its values at 5 points and its leading coefficient ("at infinity"): with the points 0, ±a, ±b a product of
//! polynomials of degrees 2 and 3, or 1 and 4, takes 6 multiplications. What the matrices of a correlation are follows from that; for x, a side of a
//! tile of 6, with 3 taps or 5:
//!
//! ```text
//! input   at 0:  x4 - (a² + b²) x2 + a²b² x0      at ±a: (x4 - b² x2) ± a (x3 - b² x1)
//!         at ∞:  x5 - (a² + b²) x3 + a²b² x1      at ±b: (x4 - a² x2) ± b (x3 - a² x1)
//! kernel  at p:  (w0 + p w1 + p² w2 + …) / N(p)   N(p): the product of p's distances from the other points
//!         at ∞:  the last tap
//! output  yj:    Σ p^j m(p), and m(∞) for the last
//! ```
//!
//! Each rounds, the more the further the points are from 1 and the nearer to each other. 0, ±1, ±2, which are usual, give 4 times the error of the
//! direct sum; a = 5/8, b = 3/2 give 1.6 times that, and need no more operations. In tiles of 4, with the points 0, ±1, nothing is lost.

use crate::cpu::simd::{Portable, Vector};

/// Of tiles of `T` by `T`, whose results are `M` by `M`, of kernels of `R` by `R`: one side.
trait Algorithm<const M: usize, const R: usize, const T: usize> {
    /// # Safety
    /// The processor must have the vector's instructions.
    unsafe fn input<V: Vector<Scalar = f32>>(x: [V; T]) -> [V; T];
    /// # Safety
    /// As for `input`.
    unsafe fn kernel<V: Vector<Scalar = f32>>(w: [V; R]) -> [V; T];
    /// # Safety
    /// As for `input`.
    unsafe fn output<V: Vector<Scalar = f32>>(m: [V; T]) -> [V; M];
}

/// F(2, 3), with the points 0, 1, -1.
struct Two;

impl Algorithm<2, 3, 4> for Two {
    #[inline(always)]
    unsafe fn input<V: Vector<Scalar = f32>>([x0, x1, x2, x3]: [V; 4]) -> [V; 4] {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let minus = V::splat(-1.0);
            [x0.fma(x2, minus), x1.add(x2), x2.fma(x1, minus), x3.fma(x1, minus)]
        }
    }

    #[inline(always)]
    unsafe fn kernel<V: Vector<Scalar = f32>>([w0, w1, w2]: [V; 3]) -> [V; 4] {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let (zero, half) = (V::splat(0.0), V::splat(0.5));
            let even = zero.fma(w0.add(w2), half);
            [w0, even.fma(w1, half), even.fma(w1, V::splat(-0.5)), w2]
        }
    }

    #[inline(always)]
    unsafe fn output<V: Vector<Scalar = f32>>([m0, m1, m2, m3]: [V; 4]) -> [V; 2] {
        // SAFETY: the caller's promise is the same.
        unsafe { [m0.add(m1.add(m2)), m3.add(m1.fma(m2, V::splat(-1.0)))] }
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
    unsafe fn input<V: Vector<Scalar = f32>>([x0, x1, x2, x3, x4, x5]: [V; 6]) -> [V; 6] {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let (product, sum) = (V::splat(A2 * B2), V::splat(-A2 - B2));
            let pair = |p: f32, other: f32| {
                let even = x4.fma(x2, V::splat(-other));
                let odd = x3.fma(x1, V::splat(-other));
                (even.fma(odd, V::splat(p)), even.fma(odd, V::splat(-p)))
            };
            let (a, minus_a) = pair(A, B2);
            let (b, minus_b) = pair(B, A2);
            [x4.fma(x2, sum).fma(x0, product), a, minus_a, b, minus_b, x5.fma(x3, sum).fma(x1, product)]
        }
    }

    #[inline(always)]
    unsafe fn kernel<V: Vector<Scalar = f32>>([w0, w1, w2]: [V; 3]) -> [V; 6] {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let zero = V::splat(0.0);
            let pair = |p: f32, other: f32| {
                let scale = 1.0 / (2.0 * p * p * (p * p - other));
                let even = zero.fma(w0, V::splat(scale)).fma(w2, V::splat(scale * p * p));
                (even.fma(w1, V::splat(scale * p)), even.fma(w1, V::splat(-scale * p)))
            };
            let (a, minus_a) = pair(A, B2);
            let (b, minus_b) = pair(B, A2);
            [zero.fma(w0, V::splat(1.0 / (A2 * B2))), a, minus_a, b, minus_b, w2]
        }
    }

    #[inline(always)]
    unsafe fn output<V: Vector<Scalar = f32>>([m0, a, minus_a, b, minus_b, last]: [V; 6]) -> [V; 4] {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let (zero, minus) = (V::splat(0.0), V::splat(-1.0));
            let (even_a, odd_a) = (a.add(minus_a), a.fma(minus_a, minus));
            let (even_b, odd_b) = (b.add(minus_b), b.fma(minus_b, minus));
            [
                m0.add(even_a).add(even_b),
                zero.fma(odd_a, V::splat(A)).fma(odd_b, V::splat(B)),
                zero.fma(even_a, V::splat(A2)).fma(even_b, V::splat(B2)),
                last.fma(odd_a, V::splat(A2 * A)).fma(odd_b, V::splat(B2 * B)),
            ]
        }
    }
}

impl Algorithm<2, 5, 6> for TwoOfFive {
    #[inline(always)]
    unsafe fn input<V: Vector<Scalar = f32>>(x: [V; 6]) -> [V; 6] {
        // SAFETY: the caller's promise is the same.
        unsafe { Four::input(x) }
    }

    #[inline(always)]
    unsafe fn kernel<V: Vector<Scalar = f32>>([w0, w1, w2, w3, w4]: [V; 5]) -> [V; 6] {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let zero = V::splat(0.0);
            let pair = |p: f32, other: f32| {
                let (p2, scale) = (p * p, 1.0 / (2.0 * p * p * (p * p - other)));
                let even =
                    zero.fma(w0, V::splat(scale)).fma(w2, V::splat(scale * p2)).fma(w4, V::splat(scale * p2 * p2));
                let odd = zero.fma(w1, V::splat(scale * p)).fma(w3, V::splat(scale * p * p2));
                (even.add(odd), even.fma(odd, V::splat(-1.0)))
            };
            let (a, minus_a) = pair(A, B2);
            let (b, minus_b) = pair(B, A2);
            [zero.fma(w0, V::splat(1.0 / (A2 * B2))), a, minus_a, b, minus_b, w4]
        }
    }

    #[inline(always)]
    unsafe fn output<V: Vector<Scalar = f32>>([m0, a, minus_a, b, minus_b, last]: [V; 6]) -> [V; 2] {
        // SAFETY: the caller's promise is the same.
        unsafe {
            let minus = V::splat(-1.0);
            let (odd_a, odd_b) = (a.fma(minus_a, minus), b.fma(minus_b, minus));
            let even = m0.add(a.add(minus_a)).add(b.add(minus_b));
            [even, last.fma(odd_a, V::splat(A)).fma(odd_b, V::splat(B))]
        }
    }
}

/// The transforms of one algorithm in one instruction set. Each works along so many vectors of channels or filters.
#[derive(Clone, Copy)]
pub struct Transforms {
    /// The side of the kernel.
    pub taps: usize,
    /// The side of what a tile gives.
    pub outputs: usize,
    /// The side of a tile.
    pub side: usize,
    /// From where each of a tile's pixels is, row by row, to its points, `stride` elements apart.
    pub input: unsafe fn(pixels: &[*const f32], vectors: usize, points: *mut f32, stride: usize),
    /// From the taps, row by row, `stride` elements apart, to the points.
    pub kernel: unsafe fn(taps: *const f32, stride: usize, vectors: usize, points: *mut f32, to_stride: usize),
    /// From the points to the pixels, row by row.
    pub output: unsafe fn(points: *const f32, stride: usize, vectors: usize, pixels: *mut f32, to_stride: usize),
}

/// # Safety
/// Of every pixel so many vectors must be readable, of every point writable, and the processor must have the vector's instructions.
#[inline(always)]
unsafe fn input<V: Vector<Scalar = f32>, F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
    pixels: &[*const f32],
    vectors: usize,
    points: *mut f32,
    stride: usize,
) {
    let (rows, _) = pixels.as_chunks::<T>();
    for at in (0..vectors).map(|vector| vector * V::LANES) {
        // SAFETY: by the caller's promise.
        unsafe {
            let mut half = [[V::splat(0.0); T]; T];
            for x in 0..T {
                let column = F::input(std::array::from_fn(|y| V::load(rows[y][x].add(at))));
                (0..T).for_each(|y| half[y][x] = column[y]);
            }
            for (y, row) in half.into_iter().enumerate() {
                let row = F::input(row);
                (0..T).for_each(|x| row[x].store(points.add((y * T + x) * stride + at)));
            }
        }
    }
}

/// # Safety
/// As for [`input`].
#[inline(always)]
unsafe fn kernel<V: Vector<Scalar = f32>, F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
    taps: *const f32,
    stride: usize,
    vectors: usize,
    points: *mut f32,
    to_stride: usize,
) {
    for at in (0..vectors).map(|vector| vector * V::LANES) {
        // SAFETY: by the caller's promise.
        unsafe {
            let mut half = [[V::splat(0.0); R]; T];
            (0..R).for_each(|x| {
                let column = F::kernel(std::array::from_fn(|y| V::load(taps.add((y * R + x) * stride + at))));
                (0..T).for_each(|y| half[y][x] = column[y]);
            });
            for (y, row) in half.into_iter().enumerate() {
                let row = F::kernel(row);
                (0..T).for_each(|x| row[x].store(points.add((y * T + x) * to_stride + at)));
            }
        }
    }
}

/// # Safety
/// As for [`input`].
#[inline(always)]
unsafe fn output<V: Vector<Scalar = f32>, F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
    points: *const f32,
    stride: usize,
    vectors: usize,
    pixels: *mut f32,
    to_stride: usize,
) {
    for at in (0..vectors).map(|vector| vector * V::LANES) {
        // SAFETY: by the caller's promise.
        unsafe {
            let mut half = [[V::splat(0.0); T]; M];
            (0..T).for_each(|x| {
                let column = F::output(std::array::from_fn(|y| V::load(points.add((y * T + x) * stride + at))));
                (0..M).for_each(|y| half[y][x] = column[y]);
            });
            for (y, row) in half.into_iter().enumerate() {
                let row = F::output(row);
                (0..M).for_each(|x| row[x].store(pixels.add((y * M + x) * to_stride + at)));
            }
        }
    }
}

/// The transforms of each algorithm, compiled with an instruction set's features.
macro_rules! compiled {
    ($module:ident, $v:ty $(, $feature:literal)?) => {
        mod $module {
            use super::*;

            /// # Safety
            /// As for [`super::input`].
            $(#[target_feature(enable = $feature)])?
            unsafe fn input<F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
                pixels: &[*const f32],
                vectors: usize,
                points: *mut f32,
                stride: usize,
            ) {
                // SAFETY: the caller's promise is the same.
                unsafe { super::input::<$v, F, M, R, T>(pixels, vectors, points, stride) }
            }

            /// # Safety
            /// As for [`super::input`].
            $(#[target_feature(enable = $feature)])?
            unsafe fn kernel<F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
                taps: *const f32,
                stride: usize,
                vectors: usize,
                points: *mut f32,
                to_stride: usize,
            ) {
                // SAFETY: the caller's promise is the same.
                unsafe { super::kernel::<$v, F, M, R, T>(taps, stride, vectors, points, to_stride) }
            }

            /// # Safety
            /// As for [`super::input`].
            $(#[target_feature(enable = $feature)])?
            unsafe fn output<F: Algorithm<M, R, T>, const M: usize, const R: usize, const T: usize>(
                points: *const f32,
                stride: usize,
                vectors: usize,
                pixels: *mut f32,
                to_stride: usize,
            ) {
                // SAFETY: the caller's promise is the same.
                unsafe { super::output::<$v, F, M, R, T>(points, stride, vectors, pixels, to_stride) }
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

compiled!(portable, Portable<f32, 4>);
#[cfg(target_arch = "x86_64")]
compiled!(avx512, std::arch::x86_64::__m512, "avx512f");
#[cfg(target_arch = "x86_64")]
compiled!(avx2, std::arch::x86_64::__m256, "avx2,fma");
#[cfg(target_arch = "aarch64")]
compiled!(neon, std::arch::aarch64::float32x4_t, "neon");

/// The transforms for kernels of 3 by 3 to tiles of 2 by 2 and of 4 by 4 results, and for kernels of 5 by 5 to tiles of 2 by 2, for this machine:
/// along the vectors of its product kernels.
pub fn transforms() -> [Transforms; 3] {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return avx512::ALL;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return avx2::ALL;
        }
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        return neon::ALL;
    }
    portable::ALL
}
