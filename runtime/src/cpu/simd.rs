//! Vector registers behind one interface, for kernels that are written once and compiled for each instruction set.

use super::memory::Plain;

/// A register of `LANES` numbers. Its methods compile to one instruction each where the caller has the features.
///
/// # Safety of the methods
/// Pointers must be readable or writable for `LANES` numbers; the processor must have the vector's instructions.
pub trait Vector: Copy {
    type Scalar: Plain + Default;
    const LANES: usize;
    unsafe fn splat(x: Self::Scalar) -> Self;
    unsafe fn load(p: *const Self::Scalar) -> Self;
    unsafe fn store(self, p: *mut Self::Scalar);
    /// `self + a * b`
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// `self < other ? other : self`
    unsafe fn max(self, other: Self) -> Self;
    /// `other < self ? other : self`
    unsafe fn min(self, other: Self) -> Self;
    /// Asks for the cache line at `p`, wherever that is.
    #[inline(always)]
    unsafe fn prefetch(p: *const Self::Scalar) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing, wherever it points.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
        };
        #[cfg(not(target_arch = "x86_64"))]
        let _ = p;
    }
}

/// A [`Vector`] over a register type, by expressions over its intrinsics.
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
            unsafe fn fma(self, $a: Self, $b: Self) -> Self {
                let $c = self;
                // SAFETY: the caller has the instruction set.
                unsafe { $fma }
            }
            #[inline(always)]
            unsafe fn max(self, $b: Self) -> Self {
                let $a = self;
                // SAFETY: the caller has the instruction set.
                unsafe { $max }
            }
            #[inline(always)]
            unsafe fn min(self, $b: Self) -> Self {
                let $a = self;
                // SAFETY: the caller has the instruction set.
                unsafe { $min }
            }
        }
    };
}

/// Any processor: arrays that the compiler keeps in what registers it has. The product is rounded before the sum.
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    // The second operand is what max and min give where one is NaN.
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
