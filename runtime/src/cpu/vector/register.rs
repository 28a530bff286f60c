//! Vector registers behind one interface, for kernels that are written once and compiled for each
//! instruction set.

use crate::cpu::memory::Plain;

/// A register of `LANES` numbers. Each method compiles to one instruction where the caller enables
/// the target features.
///
/// # Safety of the methods
/// - The processor must have the vector's instructions.
/// - `load`: `p` must be readable for `LANES` numbers, with any alignment.
/// - `store`: `p` must be writable for `LANES` numbers, with any alignment.
/// - `prefetch`: `p` may be any address.
pub trait Vector: Copy {
    type Scalar: Plain + Default;
    const LANES: usize;
    unsafe fn splat(x: Self::Scalar) -> Self;
    unsafe fn load(p: *const Self::Scalar) -> Self;
    unsafe fn store(self, p: *mut Self::Scalar);
    /// Returns `self + a * b`.
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// Returns `self < other ? other : self`.
    unsafe fn max(self, other: Self) -> Self;
    /// Returns `other < self ? other : self`.
    unsafe fn min(self, other: Self) -> Self;
    /// Prefetches the cache line at `p`, which may be any address.
    #[inline(always)]
    unsafe fn prefetch(p: *const Self::Scalar) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect on memory, whatever the address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = p;
    }
}

/// Implements [`Vector`] for a register type, by its intrinsics.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector {
    (
        $register:ty, $scalar:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident,
        |$a:ident, $b:ident, $c:ident| $fma:expr, $max:expr, $min:expr
    ) => {
        #[allow(unused_unsafe, reason = "where the target has the instructions by default, most intrinsics are safe")]
        impl Vector for $register {
            type Scalar = $scalar;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn splat(x: $scalar) -> Self {
                // SAFETY: the caller guarantees that the processor has the vector's instructions.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(p: *const $scalar) -> Self {
                // SAFETY: the caller guarantees the instructions, and that `p` is readable for
                // `LANES` numbers.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $scalar) {
                // SAFETY: the caller guarantees the instructions, and that `p` is writable for
                // `LANES` numbers.
                unsafe { $store(p, self) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: the caller guarantees that the processor has the vector's instructions.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn fma(self, $a: Self, $b: Self) -> Self {
                let $c = self;
                // SAFETY: the caller guarantees that the processor has the vector's instructions.
                unsafe { $fma }
            }
            #[inline(always)]
            unsafe fn max(self, $b: Self) -> Self {
                let $a = self;
                // SAFETY: the caller guarantees that the processor has the vector's instructions.
                unsafe { $max }
            }
            #[inline(always)]
            unsafe fn min(self, $b: Self) -> Self {
                let $a = self;
                // SAFETY: the caller guarantees that the processor has the vector's instructions.
                unsafe { $min }
            }
        }
    };
}

/// The fallback for any processor: an array that the compiler keeps in the registers that it has.
/// `fma` rounds the product before the sum.
#[derive(Clone, Copy)]
pub struct Portable<T, const LANES: usize>([T; LANES]);

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
            unsafe fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn fma(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| if self.0[i] < other.0[i] { other.0[i] } else { self.0[i] }))
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| if other.0[i] < self.0[i] { other.0[i] } else { self.0[i] }))
            }
        }
    };
}
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
    use super::Vector;
    use std::arch::x86_64::*;

    // These instructions return their second operand if either one is NaN.
    vector!(
        __m512,
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
        __m512d,
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
        __m256,
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
        __m256d,
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

#[cfg(target_arch = "aarch64")]
mod arm {
    use super::Vector;
    use std::arch::aarch64::*;

    vector!(
        float32x4_t,
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
        float64x2_t,
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
