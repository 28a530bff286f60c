//! The micro-kernels: `C[M × N·lanes] (+)= A[M × k] · B[k × N·lanes]` with the whole of C in registers.
//!
//! One generic body, written over a [`Vector`]; each instruction set compiles it for every panel height it can hold, so that edges
//! need no padding in rows. Columns come in whole vectors (the packing pads B with zeros), rows one at a time.
//! Per step of k, M broadcasts of A meet N loads of B in M·N multiply-adds.

use crate::cpu::memory::Plain;

/// The longest run of k in one panel: a panel of A (14 rows × 384 × 4 bytes = 21 KiB) stays in a 32 KiB L1 beside the passing B.
/// It is also the row stride of a k-contiguous panel of A, a constant so that the kernel's addresses are immediates.
pub const KC_BYTES: usize = 384 * 4;

/// A number that the micro-kernels multiply: f32 or f64.
pub trait Float: Plain + Default + Send + Sync + std::ops::Add<Output = Self> {
    /// The kernels for this machine.
    fn kernels() -> Kernels<Self>;
}

/// How a panel of A lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// `panel[m * KC + k]`: each row's run of k is contiguous.
    KContiguous,
    /// `panel[k * rows + m]`: the rows of one k are contiguous.
    RowContiguous,
}

/// `k` steps of a micro-kernel over a panel of A and one of B (`b[k * columns + n]`), into rows of C that are `ldc` elements apart;
/// `first` overwrites C, else C is added to.
///
/// # Safety
/// The panels must hold `k` steps of the kernel's rows and columns, C its rows and columns at that stride, and the processor
/// must have the kernel's instructions.
pub type Kernel<T> = unsafe fn(k: usize, a: *const T, b: *const T, c: *mut T, ldc: usize, first: bool);

/// The micro-kernels of one instruction set.
#[derive(Clone, Copy)]
pub struct Kernels<T: 'static> {
    /// Elements in a vector.
    pub lanes: usize,
    /// Rows of the tallest kernel.
    pub rows: usize,
    /// Vectors across the widest kernel.
    pub vectors: usize,
    /// `table[layout][vectors - 1][rows - 1]`
    table: [&'static [&'static [Kernel<T>]]; 2],
}

impl<T> Kernels<T> {
    /// The kernel of `rows` rows and `vectors` vectors of columns.
    pub fn get(&self, layout: Layout, rows: usize, vectors: usize) -> Kernel<T> {
        self.table[layout as usize][vectors - 1][rows - 1]
    }

    /// Columns of the widest kernel.
    pub fn columns(&self) -> usize {
        self.lanes * self.vectors
    }

    /// The longest run of k in one panel.
    pub fn kc(&self) -> usize {
        KC_BYTES / size_of::<T>()
    }
}

/// A register of `LANES` numbers. Its methods compile to one instruction each where the caller has the features.
///
/// # Safety of the methods
/// Pointers must be readable or writable for `LANES` numbers; the processor must have the vector's instructions.
trait Vector: Copy {
    type Scalar: Plain + Default;
    const LANES: usize;
    unsafe fn splat(x: Self::Scalar) -> Self;
    unsafe fn load(p: *const Self::Scalar) -> Self;
    unsafe fn store(self, p: *mut Self::Scalar);
    /// `self + a * b`
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
}

/// The body of every kernel: M rows, N vectors, `K_CONTIGUOUS` the layout of A.
///
/// # Safety
/// As for [`Kernel`].
#[inline(always)]
unsafe fn body<V: Vector, const M: usize, const N: usize, const K_CONTIGUOUS: bool>(
    k: usize,
    a: *const V::Scalar,
    b: *const V::Scalar,
    c: *mut V::Scalar,
    ldc: usize,
    first: bool,
) {
    // SAFETY: within the panels and C by the caller's promise.
    unsafe {
        let zero = V::splat(V::Scalar::default());
        let mut sums = [[zero; N]; M];
        for p in 0..k {
            let mut columns = [zero; N];
            for (n, column) in columns.iter_mut().enumerate() {
                *column = V::load(b.add(p * N * V::LANES + n * V::LANES));
            }
            for (m, row) in sums.iter_mut().enumerate() {
                let at = if K_CONTIGUOUS { m * (KC_BYTES / size_of::<V::Scalar>()) + p } else { p * M + m };
                let x = V::splat(*a.add(at));
                for (sum, column) in row.iter_mut().zip(columns) {
                    *sum = sum.fma(x, column);
                }
            }
        }
        for (m, row) in sums.iter().enumerate() {
            for (n, sum) in row.iter().enumerate() {
                let at = c.add(m * ldc + n * V::LANES);
                if first { *sum } else { V::load(at).add(*sum) }.store(at);
            }
        }
    }
}

/// The kernels `$run` of one instruction set over vector `$v`, for each number of vectors and each height listed.
macro_rules! kernels {
    ($run:ident, $v:ty, $vectors:tt, $rows:tt) => {
        Kernels {
            lanes: <$v as Vector>::LANES,
            rows: $rows.len(),
            vectors: $vectors.len(),
            table: [kernels!(@layout $run, $v, true, $vectors, $rows), kernels!(@layout $run, $v, false, $vectors, $rows)],
        }
    };
    (@layout $run:ident, $v:ty, $layout:literal, [$($n:literal),*], $rows:tt) => {
        &[$(kernels!(@rows $run, $v, $layout, $n, $rows)),*]
    };
    (@rows $run:ident, $v:ty, $layout:literal, $n:literal, [$($m:literal),*]) => {
        &[$($run::<$v, $m, $n, $layout>),*]
    };
}

/// The function that compiles [`body`] with an instruction set's features.
macro_rules! compiled {
    ($run:ident $(, $feature:literal)?) => {
        /// # Safety
        /// As for [`Kernel`].
        $(#[target_feature(enable = $feature)])?
        unsafe fn $run<V: Vector, const M: usize, const N: usize, const K_CONTIGUOUS: bool>(
            k: usize,
            a: *const V::Scalar,
            b: *const V::Scalar,
            c: *mut V::Scalar,
            ldc: usize,
            first: bool,
        ) {
            // SAFETY: the caller's promise is the same.
            unsafe { body::<V, M, N, K_CONTIGUOUS>(k, a, b, c, ldc, first) }
        }
    };
}

/// A [`Vector`] over a register type and its intrinsics; `$fma` is given (accumulator, a, b).
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector {
    ($register:ty, $scalar:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $fma:expr) => {
        #[allow(unused_unsafe, reason = "where the target has the instructions by default, most intrinsics are safe")]
        impl Vector for $register {
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn splat(x: $scalar) -> Self {
                // SAFETY: the caller has the instruction set.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $scalar) -> Self {
                // SAFETY: readable by the caller's promise.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $scalar) {
                // SAFETY: writable by the caller's promise.
                unsafe { $store(p, self) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller has the instruction set.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn fma(self, a: Self, b: Self) -> Self {
                // SAFETY: the caller has the instruction set.
                unsafe { $fma(self, a, b) }
            }
        }
    };
}

/// Any processor: arrays that the compiler keeps in what registers it has. The product is rounded before the sum.
#[derive(Clone, Copy)]
struct Portable<T, const LANES: usize>([T; LANES]);

macro_rules! portable {
    ($scalar:ty, $lanes:literal) => {
        impl Vector for Portable<$scalar, $lanes> {
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn splat(x: $scalar) -> Self {
                Self([x; $lanes])
            }
            #[inline(always)]
            unsafe fn load(p: *const $scalar) -> Self {
                // SAFETY: readable by the caller's promise; unaligned as numbers may be.
                Self(unsafe { p.cast::<[$scalar; $lanes]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $scalar) {
                // SAFETY: writable by the caller's promise.
                unsafe { p.cast::<[$scalar; $lanes]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn fma(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
            }
        }
    };
}
portable!(f32, 4);
portable!(f64, 2);
compiled!(portable);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::*;

    vector!(__m512, f32, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, |c, a, b| {
        _mm512_fmadd_ps(a, b, c)
    });
    vector!(__m512d, f64, 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, |c, a, b| {
        _mm512_fmadd_pd(a, b, c)
    });
    vector!(__m256, f32, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, |c, a, b| {
        _mm256_fmadd_ps(a, b, c)
    });
    vector!(__m256d, f64, 4, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, |c, a, b| {
        _mm256_fmadd_pd(a, b, c)
    });
    compiled!(avx512, "avx512f");
    compiled!(avx2, "avx2,fma");

    // 14 × 2 sums, 2 columns and a broadcast of 32 registers; 6 × 2 sums, 2 columns and a broadcast of 16.
    pub const AVX512_F32: Kernels<f32> =
        kernels!(avx512, __m512, [1, 2], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    pub const AVX512_F64: Kernels<f64> =
        kernels!(avx512, __m512d, [1, 2], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    pub const AVX2_F32: Kernels<f32> = kernels!(avx2, __m256, [1, 2], [1, 2, 3, 4, 5, 6]);
    pub const AVX2_F64: Kernels<f64> = kernels!(avx2, __m256d, [1, 2], [1, 2, 3, 4, 5, 6]);
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::*;
    use std::arch::aarch64::*;

    vector!(float32x4_t, f32, 4, vdupq_n_f32, vld1q_f32, vst1q_f32, vaddq_f32, vfmaq_f32);
    vector!(float64x2_t, f64, 2, vdupq_n_f64, vld1q_f64, vst1q_f64, vaddq_f64, vfmaq_f64);
    compiled!(neon, "neon");

    // 8 × 3 sums, 3 columns and a broadcast of 32 registers.
    pub const NEON_F32: Kernels<f32> = kernels!(neon, float32x4_t, [1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8]);
    pub const NEON_F64: Kernels<f64> = kernels!(neon, float64x2_t, [1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// 4 × 2 sums, 2 columns and a broadcast of the 16 registers that nearly every processor has.
const PORTABLE_F32: Kernels<f32> = kernels!(portable, Portable<f32, 4>, [1, 2], [1, 2, 3, 4]);
const PORTABLE_F64: Kernels<f64> = kernels!(portable, Portable<f64, 2>, [1, 2], [1, 2, 3, 4]);

macro_rules! float {
    ($scalar:ty, $avx512:ident, $avx2:ident, $neon:ident, $portable:ident) => {
        impl Float for $scalar {
            fn kernels() -> Kernels<Self> {
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx512f") {
                        return x86::$avx512;
                    }
                    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                        return x86::$avx2;
                    }
                }
                #[cfg(target_arch = "aarch64")]
                if std::arch::is_aarch64_feature_detected!("neon") {
                    return arm::$neon;
                }
                $portable
            }
        }
    };
}
float!(f32, AVX512_F32, AVX2_F32, NEON_F32, PORTABLE_F32);
float!(f64, AVX512_F64, AVX2_F64, NEON_F64, PORTABLE_F64);

/// The f32 kernels of every instruction set that this processor has.
#[cfg(test)]
pub fn every_f32() -> Vec<Kernels<f32>> {
    let mut all = vec![PORTABLE_F32, f32::kernels()];
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        all.push(x86::AVX2_F32);
    }
    all
}
