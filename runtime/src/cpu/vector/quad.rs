//! Registers of [`Quad`]s: groups of four 8-bit integers, whose products are summed in 32 bits.
//!
//! A quad as a factor holds four consecutive terms of a sum. A quad as a sum is an i32. So
//! [`Vector::fma`] adds four products to each lane, and products of 8-bit integers run by the same
//! kernels as products of floats. One factor is unsigned, the other signed, as the instructions of
//! x86 want. Sums wrap.

use super::register::{Portable, Vector};
use bytemuck::{Pod, Zeroable};

pub use tile_compiler::native::QUAD;

/// Four 8-bit integers, or one i32. As the left factor of a product, it is signed if `SIGNED`, and
/// the right factor is unsigned; otherwise the left one is unsigned, and the right one signed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct Quad<const SIGNED: bool>(pub i32);

// SAFETY: it is an i32, for any value of the parameter.
unsafe impl<const SIGNED: bool> Zeroable for Quad<SIGNED> {}
// SAFETY: as above.
unsafe impl<const SIGNED: bool> Pod for Quad<SIGNED> {}

impl<const SIGNED: bool> std::ops::Add for Quad<SIGNED> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
}

impl<const SIGNED: bool> Quad<SIGNED> {
    /// Returns `self` as a sum, plus the products of the left and the right factor.
    #[inline(always)]
    fn plus_products(self, left: Self, right: Self) -> Self {
        let (unsigned, signed) = if SIGNED { (right, left) } else { (left, right) };
        let terms = unsigned.0.to_le_bytes().into_iter().zip(signed.0.to_le_bytes());
        let sum = terms.map(|(u, s)| i32::from(u) * i32::from(s as i8)).sum::<i32>();
        Self(self.0.wrapping_add(sum))
    }
}

macro_rules! portable {
    ($lanes:literal) => {
        impl<const SIGNED: bool> Vector for Portable<Quad<SIGNED>, $lanes> {
            type Proof = ();
            type Scalar = Quad<SIGNED>;
            const LANES: usize = $lanes;
            #[inline(always)]
            fn proof(self) {}
            #[inline(always)]
            fn splat((): (), x: Quad<SIGNED>) -> Self {
                Self([x; $lanes])
            }
            #[inline(always)]
            unsafe fn load((): (), p: *const Quad<SIGNED>) -> Self {
                // SAFETY: the caller guarantees that `p` is readable for `LANES` quads; the read is
                // unaligned.
                Self(unsafe { p.cast::<[Quad<SIGNED>; $lanes]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut Quad<SIGNED>) {
                // SAFETY: the caller guarantees that `p` is writable for `LANES` quads; the write
                // is unaligned.
                unsafe { p.cast::<[Quad<SIGNED>; $lanes]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            fn fma(self, a: Self, b: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i].plus_products(a.0[i], b.0[i])))
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| Quad(self.0[i].0.max(other.0[i].0))))
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Self(std::array::from_fn(|i| Quad(self.0[i].0.min(other.0[i].0))))
            }
        }
    };
}
portable!(4);
// The widths of other instruction sets, for emulation.
#[cfg(test)]
portable!(8);
#[cfg(test)]
portable!(16);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Quad, Vector};
    use crate::cpu::vector::register::Proven;
    use crate::cpu::vector::{Avx2, Avx512Vnni, AvxVnni};
    use std::arch::x86_64::*;

    /// Implements [`Vector`] for a register of quads, by its intrinsics. `$dot` adds the products
    /// of an unsigned and a signed factor to a sum.
    macro_rules! quads {
        (
            $name:ident, $register:ty, $proof:ty, $lanes:literal, $splat:ident, $load:ident,
            $store:ident, $add:ident, $max:ident, $min:ident,
            |$sum:ident, $unsigned:ident, $signed:ident| $dot:expr
        ) => {
            /// A register of quads, with the proof that the processor has its instructions.
            #[derive(Clone, Copy)]
            pub struct $name<const SIGNED: bool>(Proven<$register, $proof>);

            #[allow(
                unused_unsafe,
                reason = "where the target has the instructions by default, most intrinsics are safe"
            )]
            impl<const SIGNED: bool> Vector for $name<SIGNED> {
                type Proof = $proof;
                type Scalar = Quad<SIGNED>;
                const LANES: usize = $lanes;
                #[inline(always)]
                fn proof(self) -> $proof {
                    self.0.1
                }
                #[inline(always)]
                fn splat(proof: $proof, x: Quad<SIGNED>) -> Self {
                    // SAFETY: the proof says that the processor has the instruction.
                    Self(Proven(unsafe { $splat(x.0) }, proof))
                }
                #[inline(always)]
                unsafe fn load(proof: $proof, p: *const Quad<SIGNED>) -> Self {
                    // SAFETY: the proof says that the processor has the instruction. The caller
                    // guarantees that `p` is readable for `LANES` quads.
                    Self(Proven(unsafe { $load(p.cast()) }, proof))
                }
                #[inline(always)]
                unsafe fn store(self, p: *mut Quad<SIGNED>) {
                    // SAFETY: the proof says that the processor has the instruction. The caller
                    // guarantees that `p` is writable for `LANES` quads.
                    unsafe { $store(p.cast(), self.0.0) }
                }
                #[inline(always)]
                fn add(self, other: Self) -> Self {
                    // SAFETY: the proof says that the processor has the instruction.
                    Self(Proven(unsafe { $add(self.0.0, other.0.0) }, self.0.1))
                }
                #[inline(always)]
                fn fma(self, a: Self, b: Self) -> Self {
                    let ($unsigned, $signed) =
                        if SIGNED { (b.0.0, a.0.0) } else { (a.0.0, b.0.0) };
                    let $sum = self.0.0;
                    // SAFETY: the proof says that the processor has the instructions.
                    Self(Proven(unsafe { $dot }, self.0.1))
                }
                #[inline(always)]
                fn max(self, other: Self) -> Self {
                    // SAFETY: the proof says that the processor has the instruction.
                    Self(Proven(unsafe { $max(self.0.0, other.0.0) }, self.0.1))
                }
                #[inline(always)]
                fn min(self, other: Self) -> Self {
                    // SAFETY: the proof says that the processor has the instruction.
                    Self(Proven(unsafe { $min(self.0.0, other.0.0) }, self.0.1))
                }
            }
        };
    }

    quads!(
        Quadx16,
        __m512i,
        Avx512Vnni,
        16,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        _mm512_max_epi32,
        _mm512_min_epi32,
        |sum, unsigned, signed| _mm512_dpbusd_epi32(sum, unsigned, signed)
    );
    quads!(
        VnniQuadx8,
        __m256i,
        AvxVnni,
        8,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        _mm256_max_epi32,
        _mm256_min_epi32,
        |sum, unsigned, signed| _mm256_dpbusd_avx_epi32(sum, unsigned, signed)
    );
    // The products of 8-bit integers, widened to 16 bits, are exact; `_mm256_maddubs_epi16` would
    // saturate.
    quads!(
        Quadx8,
        __m256i,
        Avx2,
        8,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        _mm256_max_epi32,
        _mm256_min_epi32,
        |sum, unsigned, signed| {
            let unsigned_even = _mm256_and_si256(unsigned, _mm256_set1_epi16(0xff));
            let signed_even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(signed));
            let unsigned_odd = _mm256_srli_epi16::<8>(unsigned);
            let signed_odd = _mm256_srai_epi16::<8>(signed);
            let even = _mm256_madd_epi16(unsigned_even, signed_even);
            let odd = _mm256_madd_epi16(unsigned_odd, signed_odd);
            _mm256_add_epi32(sum, _mm256_add_epi32(even, odd))
        }
    );
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Quadx8, Quadx16, VnniQuadx8};
