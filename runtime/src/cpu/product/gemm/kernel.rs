//! The micro-kernels: `C[M × N·lanes] (+)= A[M × k] · B[k × N·lanes]` with the whole of C in
//! registers.
//!
//! There is one generic body, written over a [`Vector`]. Each instruction set compiles it for every
//! panel height that its registers can hold, so that edges need no padding in rows. Columns come in
//! whole vectors (packing pads B with zeros), rows one at a time. For each step of k, M broadcasts
//! of A and N loads of B feed M·N multiply-adds. Any further instruction takes issue slots from
//! these if another thread shares the core.

#[cfg(test)]
use crate::cpu::vector::emulated::Emulated;
use crate::cpu::vector::level::{self, Level, level};
use crate::cpu::vector::number::Number;
use crate::cpu::vector::quad::{QUAD, Quad};
use crate::cpu::vector::register::{Portable, Vector};
use bytemuck::Pod;
use tile_compiler::native::PANEL_ROW_BYTES;

/// An element that the micro-kernels multiply: f32, f64, or a `Quad` of 8-bit integers.
pub trait Element: Pod + Default + Send + Sync + std::ops::Add<Output = Self> {
    /// The type of the sums, which has the size of the element.
    type Sum: Number;
    /// The terms of a sum that an element holds as a factor.
    const TERMS: usize = 1;
    /// Returns the kernels for this machine.
    fn kernels() -> Kernels<Self>;
}

/// Elements between the rows of a packed panel with contiguous rows. Since it is a constant,
/// kernels need not compute row addresses, and rows at this distance do not displace each other
/// from L1.
pub const fn panel_stride<T>() -> usize {
    (PANEL_ROW_BYTES + 64) / size_of::<T>()
}

/// The memory layout of a panel of A.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// `panel[m * stride + k]`: the terms of one row are contiguous.
    KContiguous,
    /// `panel[k * stride + m]`: the rows of one term are contiguous.
    RowContiguous,
}

/// A panel: a pointer to its first element, and the elements between rows ([`Layout::KContiguous`]
/// panels of A) or between steps of k (all others).
#[derive(Clone, Copy)]
pub struct Strided<T> {
    pub start: *const T,
    pub stride: usize,
}

/// Steps of k from number `term` on, whose elements of A are contiguous, `offset` elements after
/// the panel's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub term: usize,
    pub offset: usize,
    pub length: usize,
}

/// A micro-kernel. It multiplies a panel of A, in `runs` of k, by a panel of B
/// (`b[k * stride + n]`), into rows of C that are `ldc` elements apart. Steps of k in no run are
/// left out. `first` overwrites C; otherwise the product is added to C.
///
/// # Safety
/// For a kernel of M rows and N columns:
/// - A: in each run, the elements of M rows must be readable at every step, in the layout and at
///   the stride that the kernel was chosen for.
/// - B: N elements must be readable at every step of k.
/// - C: M rows of N elements must be writable, and also readable unless `first`. They must not
///   overlap A or B.
/// - Instructions: the kernel must be one of [`Element::kernels`].
pub type Kernel<T> =
    unsafe fn(runs: &[Run], a: Strided<T>, b: Strided<T>, c: *mut T, ldc: usize, first: bool);

/// The micro-kernels of one instruction set, which the processor has.
#[derive(Clone, Copy)]
pub struct Kernels<T: 'static> {
    /// The elements of a vector.
    pub lanes: usize,
    /// The rows of the tallest kernel.
    pub rows: usize,
    /// The vectors of a row of the widest kernel.
    pub vectors: usize,
    /// The kernels: `tables[panel of A][vectors - 1][rows - 1]`.
    tables: [&'static [&'static [Kernel<T>]]; 3],
}

/// Indices into [`Kernels::tables`]: the two layouts of a panel of A, and packed panels, whose rows
/// are [`panel_stride`] elements apart.
const K_CONTIGUOUS: usize = Layout::KContiguous as usize;
const ROW_CONTIGUOUS: usize = Layout::RowContiguous as usize;
const PACKED: usize = 2;

impl<T> Kernels<T> {
    /// Returns the kernel of `rows` rows and `vectors` vectors of columns, for a panel of A with
    /// this layout and stride.
    pub fn get(&self, layout: Layout, stride: usize, rows: usize, vectors: usize) -> Kernel<T> {
        let is_packed = layout == Layout::KContiguous && stride == panel_stride::<T>();
        self.tables[if is_packed { PACKED } else { layout as usize }][vectors - 1][rows - 1]
    }

    /// Returns the columns of the widest kernel.
    pub fn columns(&self) -> usize {
        self.lanes * self.vectors
    }
}

/// How many steps of k ahead elements of B are prefetched. They come from L2.
const AHEAD: usize = 16;

/// The body of every kernel, of M rows and N vectors. `PANEL` says how A lies.
///
/// # Safety
/// The contract of [`Kernel`].
#[inline(always)]
unsafe fn body<V: Vector, const M: usize, const N: usize, const PANEL: usize>(
    proof: V::Proof,
    runs: &[Run],
    a: Strided<V::Scalar>,
    b: Strided<V::Scalar>,
    c: *mut V::Scalar,
    ldc: usize,
    first: bool,
) {
    // SAFETY: the caller guarantees that all elements of the panels and of C are accessible.
    unsafe {
        let zero = V::splat(proof, V::Scalar::default());
        let mut sums = [[zero; N]; M];
        // C is in L2 at best. The prefetched lines arrive before the sums are complete.
        for m in 0..M {
            for n in 0..N {
                V::prefetch(c.wrapping_add(m * ldc + n * V::LANES));
            }
        }
        for run in runs {
            let a_run = a.start.add(run.offset);
            let mut b_row = b.start.add(run.term * b.stride);
            for p in 0..run.length {
                let mut columns = [zero; N];
                for n in 0..N {
                    V::prefetch(b_row.wrapping_add(n * V::LANES + AHEAD * b.stride));
                }
                for (n, column) in columns.iter_mut().enumerate() {
                    *column = V::load(proof, b_row.add(n * V::LANES));
                }
                b_row = b_row.wrapping_add(b.stride);
                for (m, row) in sums.iter_mut().enumerate() {
                    let at = match PANEL {
                        K_CONTIGUOUS => m * a.stride + p,
                        ROW_CONTIGUOUS => p * a.stride + m,
                        _ => m * panel_stride::<V::Scalar>() + p,
                    };
                    let x = V::splat(proof, *a_run.add(at));
                    for (sum, column) in row.iter_mut().zip(columns) {
                        *sum = sum.fma(x, column);
                    }
                }
            }
        }
        for (m, row) in sums.iter().enumerate() {
            for (n, sum) in row.iter().enumerate() {
                let at = c.add(m * ldc + n * V::LANES);
                if first { *sum } else { V::load(proof, at).add(*sum) }.store(at);
            }
        }
    }
}

/// Lists the kernels `$run` of one instruction set over vector `$v`, for each given number of
/// vectors and each given height. `$rows_panel` is the panel of A in the second table.
macro_rules! kernels {
    ($run:ident, $v:ty, $rows_panel:ident, $vectors:tt, $rows:tt) => {
        Kernels {
            lanes: <$v as Vector>::LANES,
            rows: $rows.len(),
            vectors: $vectors.len(),
            tables: [
                kernels!(@panel $run, $v, K_CONTIGUOUS, $vectors, $rows),
                kernels!(@panel $run, $v, $rows_panel, $vectors, $rows),
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

/// Defines a function that compiles [`body`] with the features that a proof needs.
macro_rules! compiled {
    ($run:ident, $enable:ident, $proof:ty, $here:expr) => {
        level::$enable! {
            /// # Safety
            /// The contract of [`Kernel`].
            unsafe fn $run<V: Vector<Proof = $proof>, const M: usize, const N: usize, const PANEL: usize>(
                runs: &[Run],
                a: Strided<V::Scalar>,
                b: Strided<V::Scalar>,
                c: *mut V::Scalar,
                ldc: usize,
                first: bool,
            ) {
                // SAFETY: the contract is the same.
                unsafe { body::<V, M, N, PANEL>($here, runs, a, b, c, ldc, first) }
            }
        }
    };
}

compiled!(portable, baseline, (), ());

// The kernels of each instruction set, compiled as `$run` over its vector `$v`.

/// For 32 registers: 14 × 2 sums, 2 vectors of columns and a broadcast.
#[cfg(any(test, target_arch = "x86_64"))]
macro_rules! avx512_panels {
    ($run:ident, $v:ty, $rows_panel:ident) => {
        kernels!($run, $v, $rows_panel, [1, 2], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])
    };
}

/// For 16 registers: 6 × 2 sums, 2 vectors of columns and a broadcast.
#[cfg(any(test, target_arch = "x86_64"))]
macro_rules! avx2_panels {
    ($run:ident, $v:ty, $rows_panel:ident) => {
        kernels!($run, $v, $rows_panel, [1, 2], [1, 2, 3, 4, 5, 6])
    };
}

/// For 32 registers: 8 × 3 sums, 3 vectors of columns and a broadcast.
#[cfg(any(test, target_arch = "aarch64"))]
macro_rules! neon_panels {
    ($run:ident, $v:ty, $rows_panel:ident) => {
        kernels!($run, $v, $rows_panel, [1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8])
    };
}

/// For the 16 registers that nearly every processor has: 4 × 2 sums, 2 vectors of columns and a
/// broadcast.
macro_rules! any_panels {
    ($run:ident, $v:ty, $rows_panel:ident) => {
        kernels!($run, $v, $rows_panel, [1, 2], [1, 2, 3, 4])
    };
}

#[cfg(target_arch = "x86_64")]
use {
    crate::cpu::vector::quad::{Quadx8, Quadx16, VnniQuadx8},
    crate::cpu::vector::{Avx2, Avx512, Avx512Vnni, AvxVnni},
};

#[cfg(target_arch = "x86_64")]
compiled!(avx512, avx512, Avx512, Avx512::here());
#[cfg(target_arch = "x86_64")]
compiled!(avx512_vnni, avx512_vnni, Avx512Vnni, Avx512Vnni::here());
#[cfg(target_arch = "x86_64")]
compiled!(avx_vnni, avx_vnni, AvxVnni, AvxVnni::here());
#[cfg(target_arch = "x86_64")]
compiled!(avx2, avx2, Avx2, Avx2::here());

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::cpu::vector::register::{F32x8, F32x16, F64x4, F64x8};

    pub const AVX512_F32: Kernels<f32> = avx512_panels!(avx512, F32x16, ROW_CONTIGUOUS);
    pub const AVX512_F64: Kernels<f64> = avx512_panels!(avx512, F64x8, ROW_CONTIGUOUS);
    pub const AVX2_F32: Kernels<f32> = avx2_panels!(avx2, F32x8, ROW_CONTIGUOUS);
    pub const AVX2_F64: Kernels<f64> = avx2_panels!(avx2, F64x4, ROW_CONTIGUOUS);
}

#[cfg(test)]
use emulation::by_rows;

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::*;
    use crate::cpu::vector::Neon;
    use crate::cpu::vector::register::{F32x4, F64x2};

    compiled!(neon, neon, Neon, Neon::here());

    pub const NEON_F32: Kernels<f32> = neon_panels!(neon, F32x4, ROW_CONTIGUOUS);
    pub const NEON_F64: Kernels<f64> = neon_panels!(neon, F64x2, ROW_CONTIGUOUS);
}

const PORTABLE_F32: Kernels<f32> = any_panels!(portable, Portable<f32, 4>, ROW_CONTIGUOUS);
const PORTABLE_F64: Kernels<f64> = any_panels!(portable, Portable<f64, 2>, ROW_CONTIGUOUS);

/// Kernels with the panels of every instruction set, for any processor.
#[cfg(test)]
mod emulation {
    use super::*;

    /// Computes one row after the other, so that the compiler need not find registers for all of C.
    ///
    /// # Safety
    /// The contract of [`Kernel`].
    pub unsafe fn by_rows<
        V: Vector<Proof = ()>,
        const M: usize,
        const N: usize,
        const PANEL: usize,
    >(
        runs: &[Run],
        a: Strided<V::Scalar>,
        b: Strided<V::Scalar>,
        c: *mut V::Scalar,
        ldc: usize,
        first: bool,
    ) {
        let apart = match PANEL {
            K_CONTIGUOUS => a.stride,
            ROW_CONTIGUOUS => 1,
            _ => panel_stride::<V::Scalar>(),
        };
        for m in 0..M {
            // SAFETY: row `m` of the panel of A, at the distance that its layout implies, and of C
            // is accessible by the caller's guarantee.
            unsafe {
                let a = Strided { start: a.start.add(m * apart), ..a };
                portable::<V, 1, N, PANEL>(runs, a, b, c.add(m * ldc), ldc, first);
            }
        }
    }

    pub const AVX512_F32: Kernels<f32> = avx512_panels!(by_rows, Portable<f32, 16>, ROW_CONTIGUOUS);
    pub const AVX512_F64: Kernels<f64> = avx512_panels!(by_rows, Portable<f64, 8>, ROW_CONTIGUOUS);
    pub const AVX2_F32: Kernels<f32> = avx2_panels!(by_rows, Portable<f32, 8>, ROW_CONTIGUOUS);
    pub const AVX2_F64: Kernels<f64> = avx2_panels!(by_rows, Portable<f64, 4>, ROW_CONTIGUOUS);
    pub const NEON_F32: Kernels<f32> = neon_panels!(by_rows, Portable<f32, 4>, ROW_CONTIGUOUS);
    pub const NEON_F64: Kernels<f64> = neon_panels!(by_rows, Portable<f64, 2>, ROW_CONTIGUOUS);
}

macro_rules! float {
    ($scalar:ty, $avx512:ident, $avx2:ident, $neon:ident, $portable:ident) => {
        impl Element for $scalar {
            type Sum = $scalar;

            fn kernels() -> Kernels<Self> {
                #[cfg(test)]
                match Emulated::current() {
                    Some(Emulated::Avx512) => return emulation::$avx512,
                    Some(Emulated::Avx2) => return emulation::$avx2,
                    Some(Emulated::Neon) => return emulation::$neon,
                    Some(Emulated::Portable) => return $portable,
                    None => {}
                }
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512(_) => x86::$avx512,
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2(_) => x86::$avx2,
                    #[cfg(target_arch = "aarch64")]
                    Level::Neon(_) => arm::$neon,
                    Level::Baseline => $portable,
                }
            }
        }
    };
}
float!(f32, AVX512_F32, AVX2_F32, NEON_F32, PORTABLE_F32);
float!(f64, AVX512_F64, AVX2_F64, NEON_F64, PORTABLE_F64);

impl<const SIGNED: bool> Element for Quad<SIGNED> {
    type Sum = i32;
    const TERMS: usize = QUAD;

    fn kernels() -> Kernels<Self> {
        #[cfg(test)]
        match Emulated::current() {
            Some(Emulated::Avx512) => return Self::EMULATED_AVX512,
            Some(Emulated::Avx2) => return Self::EMULATED_AVX2,
            Some(Emulated::Neon) => return Self::EMULATED_NEON,
            Some(Emulated::Portable) => return Self::PORTABLE,
            None => {}
        }
        #[cfg(target_arch = "x86_64")]
        if Avx512Vnni::detect().is_some() {
            return Self::AVX512_VNNI;
        } else if AvxVnni::detect().is_some() {
            return Self::AVX_VNNI;
        } else if level().avx2().is_some() {
            return Self::AVX2;
        }
        Self::PORTABLE
    }
}

/// Kernels of quads. Those of AVX2 need four registers for the halves of both factors, so they have
/// fewer sums. The terms of a row are contiguous in every operand of quads, so that nobody uses the
/// second table.
impl<const SIGNED: bool> Quad<SIGNED> {
    #[cfg(target_arch = "x86_64")]
    const AVX512_VNNI: Kernels<Self> = avx512_panels!(avx512_vnni, Quadx16<SIGNED>, K_CONTIGUOUS);
    #[cfg(target_arch = "x86_64")]
    const AVX_VNNI: Kernels<Self> = avx2_panels!(avx_vnni, VnniQuadx8<SIGNED>, K_CONTIGUOUS);
    #[cfg(target_arch = "x86_64")]
    const AVX2: Kernels<Self> = any_panels!(avx2, Quadx8<SIGNED>, K_CONTIGUOUS);
    const PORTABLE: Kernels<Self> = any_panels!(portable, Portable<Self, 4>, K_CONTIGUOUS);
    #[cfg(test)]
    const EMULATED_AVX512: Kernels<Self> =
        avx512_panels!(by_rows, Portable<Self, 16>, K_CONTIGUOUS);
    #[cfg(test)]
    const EMULATED_AVX2: Kernels<Self> = avx2_panels!(by_rows, Portable<Self, 8>, K_CONTIGUOUS);
    #[cfg(test)]
    const EMULATED_NEON: Kernels<Self> = neon_panels!(by_rows, Portable<Self, 4>, K_CONTIGUOUS);
}

/// Returns the kernels of every instruction set that this processor has, and the emulated ones.
#[cfg(test)]
pub fn every_quad<const SIGNED: bool>() -> Vec<Kernels<Quad<SIGNED>>> {
    let mut all = vec![Quad::kernels()];
    all.extend(Emulated::ALL.map(|set| set.during(Quad::kernels)));
    #[cfg(target_arch = "x86_64")]
    {
        all.extend(AvxVnni::detect().map(|_| Quad::AVX_VNNI));
        all.extend(level().avx2().map(|_| Quad::AVX2));
    }
    all
}

/// Returns the f32 kernels of every instruction set: native where this processor has it, else
/// emulated.
#[cfg(test)]
pub fn every_f32() -> Vec<Kernels<f32>> {
    let mut all = vec![f32::kernels()];
    all.extend(Emulated::ALL.map(|set| set.during(f32::kernels)));
    #[cfg(target_arch = "x86_64")]
    if level().avx2().is_some() {
        all.push(x86::AVX2_F32);
    }
    all
}
