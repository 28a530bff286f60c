//! Lanes of AVX-512.

use super::{EQUAL, LESS, LESS_OR_EQUAL, Lanes, MOST_LANES, TWO_TO_31, by_groups, instructions};
use crate::cpu::vector::register::{F32x16, Vector};
use crate::cpu::vector::{Avx512, elementary, level};
use std::arch::x86_64::*;
use tile_compiler::native::WordOp;

/// The number of lesser magnitude, with its own sign.
const LESSER_MAGNITUDE: i32 = 0b0110;

#[allow(
    unused_unsafe,
    reason = "where the target has the instructions by default, most intrinsics are safe"
)]
impl Lanes for F32x16 {
    const SATURATES: bool = true;
    const MOST_SPAN: usize = 16;

    #[inline(always)]
    unsafe fn pick(proof: Avx512, p: *const f32, index: &[i32; MOST_LANES], span: usize) -> Self {
        // SAFETY: the proof says that the processor has the instructions. The load reads `span`
        // numbers, which the caller guarantees to be readable, and there are 16 indices.
        Self(
            unsafe {
                let all = _mm512_maskz_loadu_ps((u32::MAX >> (32 - span)) as __mmask16, p);
                _mm512_permutexvar_ps(_mm512_loadu_epi32(index.as_ptr()), all)
            },
            proof,
        )
    }

    #[inline(always)]
    unsafe fn load_apart(proof: Avx512, p: *const f32) -> Self {
        // SAFETY: the proof says that the processor has the instructions. The loads read the 31
        // numbers that the caller guarantees to be readable; the second begins with an odd one.
        Self(
            unsafe {
                let (low, high) = (_mm512_loadu_ps(p), _mm512_loadu_ps(p.add(15)));
                let index =
                    _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
                _mm512_permutex2var_ps(low, index, high)
            },
            proof,
        )
    }

    instructions! {
        sub(a, b) => _mm512_sub_ps(a, b);
        mul(a, b) => _mm512_mul_ps(a, b);
        div(a, b) => _mm512_div_ps(a, b);
        sqrt(a) => _mm512_sqrt_ps(a);
        rint(a) => _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        abs(a) => _mm512_andnot_ps(_mm512_set1_ps(-0.0), a);
        neg(a) => _mm512_xor_ps(_mm512_set1_ps(-0.0), a);
        copysign(a, b) => {
            // The truth table is `sign ? b : a`, bit by bit.
            let sign = _mm512_castps_si512(_mm512_set1_ps(-0.0));
            let (a, b) = (_mm512_castps_si512(a), _mm512_castps_si512(b));
            _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0b1100_1010>(sign, b, a))
        };
        if_less(x, a, b, y) => _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<LESS>(a, b), y, x);
        scale(a, n) => _mm512_scalef_ps(a, n);
        // The table has as many numbers as the register has lanes.
        root(a) => _mm512_permutexvar_ps(_mm512_castps_si512(a), _mm512_loadu_ps(elementary::SIXTEENTHS.as_ptr()));
        within(a, limit) => _mm512_range_ps::<LESSER_MAGNITUDE>(a, limit);
    }

    #[inline(always)]
    fn word(self, op: WordOp, other: Self) -> Self {
        // SAFETY: the registers prove that the processor has the instructions.
        let result = unsafe {
            let (a, b) = (_mm512_castps_si512(self.0), _mm512_castps_si512(other.0));
            _mm512_castsi512_ps(match op {
                WordOp::Add => _mm512_add_epi32(a, b),
                WordOp::Sub => _mm512_sub_epi32(a, b),
                WordOp::Mul => _mm512_mullo_epi32(a, b),
                WordOp::And => _mm512_and_si512(a, b),
                WordOp::Or => _mm512_or_si512(a, b),
                WordOp::Xor => _mm512_xor_si512(a, b),
                WordOp::ShiftLeft => _mm512_sllv_epi32(a, b),
                WordOp::ShiftRight => _mm512_srlv_epi32(a, b),
                WordOp::ShiftRightSigned => _mm512_srav_epi32(a, b),
                WordOp::RotateLeft => _mm512_rolv_epi32(a, b),
                WordOp::Max => _mm512_max_epi32(a, b),
                WordOp::Min => _mm512_min_epi32(a, b),
            })
        };
        Self(result, self.1)
    }

    #[inline(always)]
    fn words_as_floats(self, signed: bool) -> Self {
        // SAFETY: the register proves that the processor has the instructions.
        let floats = unsafe {
            let a = _mm512_castps_si512(self.0);
            if signed { _mm512_cvtepi32_ps(a) } else { _mm512_cvtepu32_ps(a) }
        };
        Self(floats, self.1)
    }

    #[inline(always)]
    fn floats_as_words(self) -> Self {
        // SAFETY: the register proves that the processor has the instructions.
        let words = unsafe {
            let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(self.0, self.0);
            let is_large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(self.0, _mm512_set1_ps(TWO_TO_31));
            let words = _mm512_maskz_cvttps_epi32(is_number, self.0);
            _mm512_castsi512_ps(_mm512_mask_set1_epi32(words, is_large, i32::MAX))
        };
        Self(words, self.1)
    }

    #[inline(always)]
    fn floats_as_bytes(self, signed: bool) -> Self {
        let (low, high) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
        // SAFETY: the register proves that the processor has the instructions.
        let words = unsafe {
            let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(self.0, self.0);
            let above = _mm512_max_ps(self.0, _mm512_set1_ps(low));
            let within = _mm512_min_ps(above, _mm512_set1_ps(high));
            _mm512_castsi512_ps(_mm512_maskz_cvttps_epi32(is_number, within))
        };
        Self(words, self.1)
    }

    // The bounds are integers, so that clamping before rounding equals clamping after it.
    #[inline(always)]
    fn floats_as_near_bytes(self, offset: Self, signed: bool) -> Self {
        let (low, high) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
        // SAFETY: the registers prove that the processor has the instructions.
        let words = unsafe {
            let is_number = _mm512_cmp_ps_mask::<_CMP_ORD_Q>(self.0, self.0);
            let low = _mm512_sub_ps(_mm512_set1_ps(low), offset.0);
            let high = _mm512_sub_ps(_mm512_set1_ps(high), offset.0);
            let within = _mm512_min_ps(_mm512_max_ps(self.0, low), high);
            let (near, offset) = (_mm512_cvtps_epi32(within), _mm512_cvtps_epi32(offset.0));
            _mm512_castsi512_ps(_mm512_maskz_add_epi32(is_number, near, offset))
        };
        Self(words, self.1)
    }

    #[inline(always)]
    fn last_bytes(self, signed: bool) -> Self {
        // SAFETY: the register proves that the processor has the instructions.
        let words = unsafe {
            let first = _mm512_slli_epi32::<24>(_mm512_castps_si512(self.0));
            _mm512_castsi512_ps(match signed {
                true => _mm512_srai_epi32::<24>(first),
                false => _mm512_srli_epi32::<24>(first),
            })
        };
        Self(words, self.1)
    }

    #[inline(always)]
    unsafe fn load_bytes(proof: Self::Proof, p: *const u8, signed: bool) -> Self {
        // SAFETY: the proof says that the processor has the instructions. The caller guarantees
        // `LANES` readable bytes.
        let words = unsafe {
            let bytes = _mm_loadu_si128(p.cast());
            match signed {
                true => _mm512_cvtepi8_epi32(bytes),
                false => _mm512_cvtepu8_epi32(bytes),
            }
        };
        // SAFETY: the proof says that the processor has the instruction.
        Self(unsafe { _mm512_castsi512_ps(words) }, proof)
    }

    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8) {
        // SAFETY: the register proves that the processor has the instructions. The caller
        // guarantees `LANES` writable bytes.
        unsafe {
            _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(_mm512_castps_si512(self.0)));
        }
    }

    #[inline(always)]
    unsafe fn load_part(proof: Self::Proof, p: *const f32, length: usize) -> Self {
        // SAFETY: the proof says that the processor has the instruction. The caller guarantees
        // `length` readable numbers at `p`.
        Self(unsafe { _mm512_maskz_loadu_ps(part(length), p) }, proof)
    }

    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, length: usize) {
        // SAFETY: the register proves that the processor has the instruction. The caller guarantees
        // `length` writable numbers at `p`.
        unsafe { _mm512_mask_storeu_ps(p, part(length), self.0) }
    }

    #[inline(always)]
    unsafe fn store_past(self, p: *mut f32) {
        // SAFETY: the register proves that the processor has the instruction. The caller guarantees
        // that `p` is writable and aligned to the register's size.
        unsafe { _mm512_stream_ps(p, self.0) }
    }

    #[inline(always)]
    fn first(self, length: usize, other: Self) -> Self {
        // SAFETY: the registers prove that the processor has the instruction.
        Self(unsafe { _mm512_mask_blend_ps(part(length), other.0, self.0) }, self.1)
    }

    #[inline(always)]
    unsafe fn choose(self, conditions: *const u8, other: Self) -> Self {
        // SAFETY: the registers prove that the processor has the instructions. The caller
        // guarantees `LANES` readable bytes.
        let chosen = unsafe {
            let conditions = _mm_loadu_si128(conditions.cast());
            _mm512_mask_blend_ps(_mm_test_epi8_mask(conditions, conditions), other.0, self.0)
        };
        Self(chosen, self.1)
    }

    #[inline(always)]
    unsafe fn compare<const R: i32>(self, other: Self, to: *mut u8) {
        // SAFETY: the registers prove that the processor has the instructions. The caller
        // guarantees `LANES` writable bytes.
        unsafe {
            _mm_storeu_si128(
                to.cast(),
                _mm_maskz_set1_epi8(_mm512_cmp_ps_mask::<R>(self.0, other.0), 1),
            )
        }
    }

    #[inline(always)]
    unsafe fn compare_words<const R: i32>(self, other: Self, to: *mut u8) {
        // SAFETY: the registers prove that the processor has the instructions. The caller
        // guarantees `LANES` writable bytes.
        unsafe {
            let (a, b) = (_mm512_castps_si512(self.0), _mm512_castps_si512(other.0));
            let mask = match R {
                EQUAL => _mm512_cmpeq_epi32_mask(a, b),
                LESS => _mm512_cmplt_epi32_mask(a, b),
                LESS_OR_EQUAL => _mm512_cmple_epi32_mask(a, b),
                _ => _mm512_cmpneq_epi32_mask(a, b),
            };
            _mm_storeu_si128(to.cast(), _mm_maskz_set1_epi8(mask, 1))
        }
    }

    #[inline(always)]
    fn erf_each(all: &mut [Self]) {
        elementary::erf_by_table(all)
    }

    #[inline(always)]
    fn sigmoid_each(all: &mut [Self]) {
        if !all.is_empty() {
            // SAFETY: the registers prove that the processor has the instructions.
            unsafe { sigmoid_apart(all) }
        }
    }
}

level::avx512! {
    /// Replaces each register by 1 / (1 + e⁻ˣ). It is not inlined, because the caller would then
    /// keep its own registers in memory.
    #[inline(never)]
    fn sigmoid_apart(all: &mut [F32x16]) {
        by_groups!(all, elementary::sigmoid);
    }
}

impl F32x16 {
    /// Returns a register of these numbers.
    #[inline(always)]
    pub fn from_array(proof: Avx512, numbers: &[f32; 16]) -> Self {
        // SAFETY: there are as many numbers as lanes.
        unsafe { Self::load(proof, numbers.as_ptr()) }
    }

    /// Returns for each lane the lane of `table` that its last four bits name.
    #[inline(always)]
    pub fn look_up(self, table: Self) -> Self {
        // SAFETY: the registers prove that the processor has the instructions.
        Self(unsafe { _mm512_permutexvar_ps(_mm512_castps_si512(self.0), table.0) }, self.1)
    }
}

/// Returns the mask of the lanes below `length`.
#[inline(always)]
fn part(length: usize) -> __mmask16 {
    ((1u32 << length) - 1) as __mmask16
}
