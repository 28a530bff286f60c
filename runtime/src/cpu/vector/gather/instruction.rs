//! Gathers by the instruction of AVX-512, eight elements at a time.

use crate::cpu::vector::level::{Level, avx512, level};
use bytemuck::Pod;
use std::arch::x86_64::*;

/// Gathers as [`super::gather_moved`] does. Returns false for elements of other sizes than 4 and 8
/// bytes, and on other processors, and leaves `out` unchanged.
pub fn gather<T: Pod>(data: &[T], start: i64, step: i64, moves: &[i64], out: &mut [T]) -> bool {
    let Level::Avx512(_proof) = level() else { return false };
    match size_of::<T>() {
        4 => {
            let (data, out) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(out));
            // SAFETY: the proof says that the processor has the function's features.
            unsafe { words(data, start, step, moves, out) };
        }
        8 => {
            let (data, out) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(out));
            // SAFETY: the proof says that the processor has the function's features.
            unsafe { long_words(data, start, step, moves, out) };
        }
        _ => return false,
    }
    true
}

/// Defines a gather of elements of one size.
macro_rules! gather {
    ($name:ident, $T:ty, $zero:ident, $gather:ident, $scale:literal, $store:ident) => {
        avx512! {
            fn $name(data: &[$T], start: i64, step: i64, moves: &[i64], out: &mut [$T]) {
                let steps = _mm512_mullo_epi64(
                    _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
                    _mm512_set1_epi64(step),
                );
                let length = _mm512_set1_epi64(data.len() as i64);
                let mut first = start;
                for (out, moves) in out.chunks_mut(8).zip(moves.chunks(8)) {
                    let count = out.len().min(moves.len());
                    let some = ((1u32 << count) - 1) as __mmask8;
                    // SAFETY: the mask has the elements of `moves` and of `out` alone, and of
                    // `data` those whose index is below its length, as an unsigned number.
                    unsafe {
                        let moves = _mm512_maskz_loadu_epi64(some, moves.as_ptr());
                        let at = _mm512_add_epi64(
                            _mm512_add_epi64(_mm512_set1_epi64(first), steps),
                            moves,
                        );
                        let within = _mm512_mask_cmplt_epu64_mask(some, at, length);
                        let found =
                            $gather::<$scale>($zero(), within, at, data.as_ptr().cast());
                        $store(out.as_mut_ptr(), some, found);
                    }
                    first = first.wrapping_add(step.wrapping_mul(8));
                }
            }
        }
    };
}

gather!(words, i32, _mm256_setzero_si256, _mm512_mask_i64gather_epi32, 4, _mm256_mask_storeu_epi32);
gather!(
    long_words,
    i64,
    _mm512_setzero_si512,
    _mm512_mask_i64gather_epi64,
    8,
    _mm512_mask_storeu_epi64
);
