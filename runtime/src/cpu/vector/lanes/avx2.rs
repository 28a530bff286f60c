//! Lanes of AVX2.

use super::{LESS, Lanes, MOST_LANES, POWERS_OF_EIGHTHS, TWO_TO_31, by_groups, instructions};
use crate::cpu::vector::register::{F32x8, Vector};
use crate::cpu::vector::{Avx2, elementary};
use std::arch::x86_64::*;
use tile_compiler::native::WordOp;

#[allow(
    unused_unsafe,
    reason = "where the target has the instructions by default, most intrinsics are safe"
)]
impl Lanes for F32x8 {
    const EIGHTHS: bool = true;
    const MOST_SPAN: usize = 8;

    #[inline(always)]
    unsafe fn pick(proof: Avx2, p: *const f32, index: &[i32; MOST_LANES], span: usize) -> Self {
        // SAFETY: the proof says that the processor has the instructions. The load reads `span`
        // numbers, which the caller guarantees to be readable, and there are at least 8 indices.
        Self(
            unsafe {
                let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(span as i32), lanes);
                let all = _mm256_maskload_ps(p, mask);
                _mm256_permutevar8x32_ps(all, _mm256_loadu_si256(index.as_ptr().cast()))
            },
            proof,
        )
    }

    #[inline(always)]
    unsafe fn load_apart(proof: Avx2, p: *const f32) -> Self {
        // SAFETY: the proof says that the processor has the instructions. The loads read the 15
        // numbers that the caller guarantees to be readable; the second begins with an odd one.
        Self(
            unsafe {
                let (low, high) = (_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(7)));
                // 0 2 of each half of `low`, 1 3 of each half of `high`, then in order.
                let mixed = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_10_00>(low, high));
                _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(mixed))
            },
            proof,
        )
    }

    instructions! {
        sub(a, b) => _mm256_sub_ps(a, b);
        mul(a, b) => _mm256_mul_ps(a, b);
        div(a, b) => _mm256_div_ps(a, b);
        sqrt(a) => _mm256_sqrt_ps(a);
        rint(a) => _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        abs(a) => _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        neg(a) => _mm256_xor_ps(_mm256_set1_ps(-0.0), a);
        copysign(a, b) => {
            let sign = _mm256_set1_ps(-0.0);
            _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b))
        };
        if_less(x, a, b, y) => _mm256_blendv_ps(y, x, _mm256_cmp_ps::<LESS>(a, b));
        scale(a, n) => {
            let n = _mm256_cvtps_epi32(n);
            let half = _mm256_srai_epi32::<1>(n);
            _mm256_mul_ps(_mm256_mul_ps(a, power_of_two(half)), power_of_two(_mm256_sub_epi32(n, half)))
        };
        // The table has as many numbers as the register has lanes.
        eighth(a) => {
            _mm256_permutevar8x32_ps(_mm256_loadu_ps(POWERS_OF_EIGHTHS.as_ptr()), _mm256_castps_si256(a))
        };
    }

    #[inline(always)]
    fn word(self, op: WordOp, other: Self) -> Self {
        // SAFETY: the registers prove that the processor has the instructions.
        let result = unsafe {
            let (a, b) = (_mm256_castps_si256(self.0), _mm256_castps_si256(other.0));
            _mm256_castsi256_ps(match op {
                WordOp::Add => _mm256_add_epi32(a, b),
                WordOp::Sub => _mm256_sub_epi32(a, b),
                WordOp::Mul => _mm256_mullo_epi32(a, b),
                WordOp::And => _mm256_and_si256(a, b),
                WordOp::Or => _mm256_or_si256(a, b),
                WordOp::Xor => _mm256_xor_si256(a, b),
                WordOp::ShiftLeft => _mm256_sllv_epi32(a, b),
                WordOp::ShiftRight => _mm256_srlv_epi32(a, b),
                WordOp::ShiftRightSigned => _mm256_srav_epi32(a, b),
                WordOp::RotateLeft => {
                    let rest = _mm256_sub_epi32(_mm256_set1_epi32(32), b);
                    _mm256_or_si256(_mm256_sllv_epi32(a, b), _mm256_srlv_epi32(a, rest))
                }
                WordOp::Max => _mm256_max_epi32(a, b),
                WordOp::Min => _mm256_min_epi32(a, b),
            })
        };
        Self(result, self.1)
    }

    // Both halves of a word are exact floats, and their sum is rounded once.
    #[inline(always)]
    fn words_as_floats(self, signed: bool) -> Self {
        // SAFETY: the register proves that the processor has the instructions.
        let (low, high) = unsafe {
            let a = _mm256_castps_si256(self.0);
            let high = if signed { _mm256_srai_epi32::<16>(a) } else { _mm256_srli_epi32::<16>(a) };
            let low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
            (_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high))
        };
        Self(low, self.1).fma(Self(high, self.1), Self::splat(self.1, 65536.0))
    }

    #[inline(always)]
    fn floats_as_words(self) -> Self {
        // SAFETY: the register proves that the processor has the instructions.
        let words = unsafe {
            let is_number = _mm256_cmp_ps::<_CMP_ORD_Q>(self.0, self.0);
            let is_large = _mm256_cmp_ps::<_CMP_GE_OQ>(self.0, _mm256_set1_ps(TWO_TO_31));
            let words = _mm256_castsi256_ps(_mm256_cvttps_epi32(self.0));
            let most = _mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX));
            _mm256_blendv_ps(_mm256_and_ps(words, is_number), most, is_large)
        };
        Self(words, self.1)
    }

    #[inline(always)]
    fn floats_as_bytes(self, signed: bool) -> Self {
        let (low, high) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
        // SAFETY: the register proves that the processor has the instructions.
        let words = unsafe {
            let is_number = _mm256_cmp_ps::<_CMP_ORD_Q>(self.0, self.0);
            let above = _mm256_max_ps(self.0, _mm256_set1_ps(low));
            let within = _mm256_min_ps(above, _mm256_set1_ps(high));
            _mm256_and_ps(_mm256_castsi256_ps(_mm256_cvttps_epi32(within)), is_number)
        };
        Self(words, self.1)
    }

    // The bounds are integers, so that clamping before rounding equals clamping after it.
    #[inline(always)]
    fn floats_as_near_bytes(self, offset: Self, signed: bool) -> Self {
        let (low, high) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
        // SAFETY: the registers prove that the processor has the instructions.
        let words = unsafe {
            let is_number = _mm256_cmp_ps::<_CMP_ORD_Q>(self.0, self.0);
            let low = _mm256_sub_ps(_mm256_set1_ps(low), offset.0);
            let high = _mm256_sub_ps(_mm256_set1_ps(high), offset.0);
            let within = _mm256_min_ps(_mm256_max_ps(self.0, low), high);
            let (near, offset) = (_mm256_cvtps_epi32(within), _mm256_cvtps_epi32(offset.0));
            _mm256_and_ps(_mm256_castsi256_ps(_mm256_add_epi32(near, offset)), is_number)
        };
        Self(words, self.1)
    }

    #[inline(always)]
    fn last_bytes(self, signed: bool) -> Self {
        // SAFETY: the register proves that the processor has the instructions.
        let words = unsafe {
            let first = _mm256_slli_epi32::<24>(_mm256_castps_si256(self.0));
            _mm256_castsi256_ps(match signed {
                true => _mm256_srai_epi32::<24>(first),
                false => _mm256_srli_epi32::<24>(first),
            })
        };
        Self(words, self.1)
    }

    #[inline(always)]
    unsafe fn load_bytes(proof: Self::Proof, p: *const u8, signed: bool) -> Self {
        // SAFETY: the proof says that the processor has the instructions. The caller guarantees
        // `LANES` readable bytes.
        let words = unsafe {
            let bytes = _mm_loadl_epi64(p.cast());
            _mm256_castsi256_ps(match signed {
                true => _mm256_cvtepi8_epi32(bytes),
                false => _mm256_cvtepu8_epi32(bytes),
            })
        };
        Self(words, proof)
    }

    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8) {
        // SAFETY: the register proves that the processor has the instructions. The caller
        // guarantees `LANES` writable bytes.
        unsafe {
            // The first four bytes of each half become the last bytes of its words.
            let last = _mm256_setr_epi8(
                0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1, -1,
                -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
            );
            let halves = _mm256_shuffle_epi8(_mm256_castps_si256(self.0), last);
            let (low, high) =
                (_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
            _mm_storel_epi64(p.cast(), _mm_unpacklo_epi32(low, high));
        }
    }

    #[inline(always)]
    unsafe fn store_past(self, p: *mut f32) {
        // SAFETY: the register proves that the processor has the instruction. The caller guarantees
        // that `p` is writable and aligned to the register's size.
        unsafe { _mm256_stream_ps(p, self.0) }
    }

    // Almost all arguments are near. One test for all registers costs less than it saves on each; a
    // branch for each register would keep them from being computed side by side.
    #[inline(always)]
    fn exp_each<const K: usize>(all: &mut [Self; K]) {
        let proof = all[0].1;
        let zero = Self::splat(proof, 0.0);
        let (mut least, mut greatest) = (zero, zero);
        for x in &*all {
            // A NaN leaves both unchanged. Either function maps NaN to NaN.
            (least, greatest) = (least.min(*x), greatest.max(*x));
        }
        let near = Self::splat(proof, elementary::NEAR);
        let least = least.neg();
        // SAFETY: the registers prove that the processor has the instructions.
        let is_near = unsafe {
            let far = _mm256_or_ps(
                _mm256_cmp_ps::<_CMP_GT_OQ>(least.0, near.0),
                _mm256_cmp_ps::<_CMP_GT_OQ>(greatest.0, near.0),
            );
            _mm256_testz_ps(far, _mm256_set1_ps(-0.0)) == 1
        };
        if is_near {
            by_groups!(all, elementary::exp_near);
        } else {
            let mut copy = *all;
            by_groups!(std::hint::black_box(&mut copy[..]), elementary::exp);
            *all = copy;
        }
    }
}

/// Returns 2ⁿ for n in -126..=127.
///
/// # Safety
/// - The processor must have AVX2.
#[inline(always)]
unsafe fn power_of_two(n: __m256i) -> __m256 {
    // SAFETY: the caller guarantees that the processor has the instructions.
    unsafe {
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
    }
}
