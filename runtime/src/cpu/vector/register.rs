//! Vector registers behind one interface, for kernels that are written once and compiled for each
//! instruction set.

use bytemuck::Pod;

/// A register of `LANES` numbers. Each method compiles to one instruction where the caller enables
/// the target features.
///
/// Every register carries the proof that the processor has its instructions, so that only access to
/// memory is unsafe.
pub trait Vector: Copy {
    /// The proof that the processor has the instructions.
    type Proof: Copy;
    type Scalar: Pod + Default;
    const LANES: usize;
    /// Returns the register's proof.
    fn proof(self) -> Self::Proof;
    fn splat(proof: Self::Proof, x: Self::Scalar) -> Self;
    /// # Safety
    /// - `p` must be readable for `LANES` numbers, with any alignment.
    unsafe fn load(proof: Self::Proof, p: *const Self::Scalar) -> Self;
    /// # Safety
    /// - `p` must be writable for `LANES` numbers, with any alignment.
    unsafe fn store(self, p: *mut Self::Scalar);
    /// Returns `self + a * b`.
    fn fma(self, a: Self, b: Self) -> Self;
    fn add(self, other: Self) -> Self;
    /// Returns `self < other ? other : self`.
    fn max(self, other: Self) -> Self;
    /// Returns `other < self ? other : self`.
    fn min(self, other: Self) -> Self;
    /// Prefetches the cache line at `p`, which may be any address.
    #[inline(always)]
    fn prefetch(p: *const Self::Scalar) {
        prefetch(p);
    }
}

/// Prefetches the cache line at `p`, which may be any address.
#[inline(always)]
pub fn prefetch<T>(p: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect on memory, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// A register of the processor, with the proof that it has the instructions.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[derive(Clone, Copy)]
pub struct Proven<R, P>(pub(super) R, pub(super) P);

/// Implements [`Vector`] for a register type, by its intrinsics.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector {
    (
        $name:ident, $register:ty, $proof:ty, $scalar:ty, $lanes:literal,
        $splat:ident, $load:ident, $store:ident, $add:ident,
        |$a:ident, $b:ident, $c:ident| $fma:expr, $max:expr, $min:expr
    ) => {
        pub type $name = Proven<$register, $proof>;

        #[allow(
            unused_unsafe,
            reason = "where the target has the instructions by default, most intrinsics are safe"
        )]
        impl Vector for $name {
            type Proof = $proof;
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            #[inline(always)]
            fn proof(self) -> $proof {
                self.1
            }
            #[inline(always)]
            fn splat(proof: $proof, x: $scalar) -> Self {
                // SAFETY: the proof says that the processor has the instruction.
                Self(unsafe { $splat(x) }, proof)
            }
            #[inline(always)]
            unsafe fn load(proof: $proof, p: *const $scalar) -> Self {
                // SAFETY: the proof says that the processor has the instruction. The caller
                // guarantees that `p` is readable for `LANES` numbers.
                Self(unsafe { $load(p) }, proof)
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $scalar) {
                // SAFETY: the proof says that the processor has the instruction. The caller
                // guarantees that `p` is writable for `LANES` numbers.
                unsafe { $store(p, self.0) }
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                // SAFETY: the proof says that the processor has the instruction.
                Self(unsafe { $add(self.0, other.0) }, self.1)
            }
            #[inline(always)]
            fn fma(self, a: Self, b: Self) -> Self {
                let ($a, $b, $c) = (a.0, b.0, self.0);
                // SAFETY: the proof says that the processor has the instruction.
                Self(unsafe { $fma }, self.1)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let ($a, $b) = (self.0, other.0);
                // SAFETY: the proof says that the processor has the instruction.
                Self(unsafe { $max }, self.1)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let ($a, $b) = (self.0, other.0);
                // SAFETY: the proof says that the processor has the instruction.
                Self(unsafe { $min }, self.1)
            }
        }
    };
}

/// The fallback for any processor: an array that the compiler keeps in the registers that it has.
/// `fma` rounds the product before the sum.
#[derive(Clone, Copy)]
pub struct Portable<T, const LANES: usize>(pub(super) [T; LANES]);

macro_rules! portable {
    ($scalar:ty, $lanes:literal) => {
        impl Vector for Portable<$scalar, $lanes> {
            type Proof = ();
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            #[inline(always)]
            fn proof(self) {}
            #[inline(always)]
            fn splat((): (), x: $scalar) -> Self {
                Self([x; $lanes])
            }
            #[inline(always)]
            unsafe fn load((): (), p: *const $scalar) -> Self {
                // SAFETY: the caller guarantees that `p` is readable for `LANES` numbers; the read
                // is unaligned.
                Self(unsafe { p.cast::<[$scalar; $lanes]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $scalar) {
                // SAFETY: the caller guarantees that `p` is writable for `LANES` numbers; the write
                // is unaligned.
                unsafe { p.cast::<[$scalar; $lanes]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            fn fma(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| {
                    if self.0[i] < other.0[i] { other.0[i] } else { self.0[i] }
                }))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| {
                    if other.0[i] < self.0[i] { other.0[i] } else { self.0[i] }
                }))
            }
        }
    };
}
portable!(f32, 1);
portable!(f32, 4);
portable!(f64, 2);
// The widths of other instruction sets, for emulation.
#[cfg(test)]
portable!(f32, 8);
#[cfg(test)]
portable!(f32, 16);
#[cfg(test)]
portable!(f64, 4);
#[cfg(test)]
portable!(f64, 8);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Proven, Vector};
    use crate::cpu::vector::{Avx2, Avx512};
    use std::arch::x86_64::*;

    // These instructions return their second operand if either one is NaN.
    vector!(
        F32x16,
        __m512,
        Avx512,
        f32,
        16,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        |a, b, c| _mm512_fmadd_ps(a, b, c),
        _mm512_max_ps(b, a),
        _mm512_min_ps(b, a)
    );
    vector!(
        F64x8,
        __m512d,
        Avx512,
        f64,
        8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        |a, b, c| _mm512_fmadd_pd(a, b, c),
        _mm512_max_pd(b, a),
        _mm512_min_pd(b, a)
    );
    vector!(
        F32x8,
        __m256,
        Avx2,
        f32,
        8,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        |a, b, c| _mm256_fmadd_ps(a, b, c),
        _mm256_max_ps(b, a),
        _mm256_min_ps(b, a)
    );
    vector!(
        F64x4,
        __m256d,
        Avx2,
        f64,
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        |a, b, c| _mm256_fmadd_pd(a, b, c),
        _mm256_max_pd(b, a),
        _mm256_min_pd(b, a)
    );
}

#[cfg(target_arch = "x86_64")]
pub use x86::{F32x8, F32x16, F64x4, F64x8};

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::{Proven, Vector};
    use crate::cpu::vector::Neon;
    use std::arch::aarch64::*;

    vector!(
        F32x4,
        float32x4_t,
        Neon,
        f32,
        4,
        vdupq_n_f32,
        vld1q_f32,
        vst1q_f32,
        vaddq_f32,
        |a, b, c| vfmaq_f32(c, a, b),
        vbslq_f32(vcltq_f32(a, b), b, a),
        vbslq_f32(vcltq_f32(b, a), b, a)
    );
    vector!(
        F64x2,
        float64x2_t,
        Neon,
        f64,
        2,
        vdupq_n_f64,
        vld1q_f64,
        vst1q_f64,
        vaddq_f64,
        |a, b, c| vfmaq_f64(c, a, b),
        vbslq_f64(vcltq_f64(a, b), b, a),
        vbslq_f64(vcltq_f64(b, a), b, a)
    );
}

#[cfg(target_arch = "aarch64")]
pub use arm::{F32x4, F64x2};
