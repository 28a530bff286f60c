//! The micro-kernels: `C[M × N·lanes] (+)= A[M × k] · B[k × N·lanes]` with the whole of C in registers.
//!
//! One generic body, written over a [`Vector`]; each instruction set compiles it for every panel height it can hold, so that edges
//! need no padding in rows. Columns come in whole vectors (the packing pads B with zeros), rows one at a time.
//! Per step of k, M broadcasts of A meet N loads of B in M·N multiply-adds. Each further instruction takes time from these where another thread shares the core.

use super::BLOCK_BYTES;
use crate::cpu::memory::Plain;
use crate::cpu::simd::{Portable, Vector};

/// A number that the micro-kernels multiply: f32 or f64.
pub trait Float: Plain + Default + Send + Sync + std::ops::Add<Output = Self> {
    /// The kernels for this machine.
    fn kernels() -> Kernels<Self>;
}

/// Elements from a row to the next of a packed panel whose rows are contiguous. Kernels that know it need not compute where a row is; and rows
/// that far apart do not displace each other from L1.
pub const fn panel_stride<T>() -> usize {
    (BLOCK_BYTES + 64) / size_of::<T>()
}

/// How a panel of A lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// `panel[m * stride + k]`: each row's run of k is contiguous.
    KContiguous,
    /// `panel[k * stride + m]`: the rows of one k are contiguous.
    RowContiguous,
}

/// A panel: where it starts, and the elements from row to row (of A, if its layout is [`Layout::KContiguous`]) or from k to k.
#[derive(Clone, Copy)]
pub struct Strided<T> {
    pub start: *const T,
    pub stride: usize,
}

/// Steps of k whose elements of A follow each other: the panel's, moved by so many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub offset: usize,
    pub length: usize,
}

/// A micro-kernel over a panel of A, in `runs` of k, and one of B (`b[k * stride + n]`, k counting through all of them), into rows
/// of C that are `ldc` elements apart; `first` overwrites C, else C is added to.
///
/// # Safety
/// The panels must hold all steps of the kernel's rows and columns, C its rows and columns at that stride, and the processor
/// must have the kernel's instructions.
pub type Kernel<T> = unsafe fn(runs: &[Run], a: Strided<T>, b: Strided<T>, c: *mut T, ldc: usize, first: bool);

/// The micro-kernels of one instruction set.
#[derive(Clone, Copy)]
pub struct Kernels<T: 'static> {
    /// Elements in a vector.
    pub lanes: usize,
    /// Rows of the tallest kernel.
    pub rows: usize,
    /// Vectors across the widest kernel.
    pub vectors: usize,
    /// `tables[panel of A][vectors - 1][rows - 1]`
    tables: [&'static [&'static [Kernel<T>]]; 3],
}

/// How a panel of A lies for a kernel, as a number of [`Kernels::tables`]: as the layout says, or at [`panel_stride`] from row to row.
const K_CONTIGUOUS: usize = Layout::KContiguous as usize;
const ROW_CONTIGUOUS: usize = Layout::RowContiguous as usize;
const PACKED: usize = 2;

impl<T> Kernels<T> {
    /// The kernel of `rows` rows and `vectors` vectors of columns, for a panel of A of this layout and stride.
    pub fn get(&self, layout: Layout, stride: usize, rows: usize, vectors: usize) -> Kernel<T> {
        let is_packed = layout == Layout::KContiguous && stride == panel_stride::<T>();
        self.tables[if is_packed { PACKED } else { layout as usize }][vectors - 1][rows - 1]
    }

    /// Columns of the widest kernel.
    pub fn columns(&self) -> usize {
        self.lanes * self.vectors
    }
}

/// How many steps of k ahead elements of B are asked for: they come from L2.
const AHEAD: usize = 16;

/// The body of every kernel: M rows, N vectors, `PANEL` how A lies.
///
/// # Safety
/// As for [`Kernel`].
#[inline(always)]
unsafe fn body<V: Vector, const M: usize, const N: usize, const PANEL: usize>(
    runs: &[Run],
    a: Strided<V::Scalar>,
    b: Strided<V::Scalar>,
    c: *mut V::Scalar,
    ldc: usize,
    first: bool,
) {
    // SAFETY: within the panels and C by the caller's promise.
    unsafe {
        let zero = V::splat(V::Scalar::default());
        let mut sums = [[zero; N]; M];
        // They are in L2 at best, and are there when the sums are.
        for m in 0..M {
            for n in 0..N {
                V::prefetch(c.wrapping_add(m * ldc + n * V::LANES));
            }
        }
        let mut b_row = b.start;
        for run in runs {
            let a_run = a.start.add(run.offset);
            for p in 0..run.length {
                let mut columns = [zero; N];
                for n in 0..N {
                    V::prefetch(b_row.wrapping_add(n * V::LANES + AHEAD * b.stride));
                }
                for (n, column) in columns.iter_mut().enumerate() {
                    *column = V::load(b_row.add(n * V::LANES));
                }
                b_row = b_row.wrapping_add(b.stride);
                for (m, row) in sums.iter_mut().enumerate() {
                    let at = match PANEL {
                        K_CONTIGUOUS => m * a.stride + p,
                        ROW_CONTIGUOUS => p * a.stride + m,
                        _ => m * panel_stride::<V::Scalar>() + p,
                    };
                    let x = V::splat(*a_run.add(at));
                    for (sum, column) in row.iter_mut().zip(columns) {
                        *sum = sum.fma(x, column);
                    }
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
            tables: [
                kernels!(@panel $run, $v, K_CONTIGUOUS, $vectors, $rows),
                kernels!(@panel $run, $v, ROW_CONTIGUOUS, $vectors, $rows),
                kernels!(@panel $run, $v, PACKED, $vectors, $rows),
            ],
        }
    };
    (@panel $run:ident, $v:ty, $panel:ident, [$($n:literal),*], $rows:tt) => {
        &[$(kernels!(@rows $run, $v, $panel, $n, $rows)),*]
    };
    (@rows $run:ident, $v:ty, $panel:ident, $n:literal, [$($m:literal),*]) => {
        &[$($run::<$v, $m, $n, $panel>),*]
    };
}

/// The function that compiles [`body`] with an instruction set's features.
macro_rules! compiled {
    ($run:ident $(, $feature:literal)?) => {
        /// # Safety
        /// As for [`Kernel`].
        $(#[target_feature(enable = $feature)])?
        unsafe fn $run<V: Vector, const M: usize, const N: usize, const PANEL: usize>(
            runs: &[Run],
            a: Strided<V::Scalar>,
            b: Strided<V::Scalar>,
            c: *mut V::Scalar,
            ldc: usize,
            first: bool,
        ) {
            // SAFETY: the caller's promise is the same.
            unsafe { body::<V, M, N, PANEL>(runs, a, b, c, ldc, first) }
        }
    };
}

compiled!(portable);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};

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
    use std::arch::aarch64::{float32x4_t, float64x2_t};

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
