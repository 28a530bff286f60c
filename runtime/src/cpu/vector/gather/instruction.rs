//! Gathers by the instruction of AVX-512, eight elements at a time, and exchanges of rows and
//! columns in registers of AVX2.

use crate::cpu::vector::level::{Level, avx2, avx512, level};
use bytemuck::Pod;
use std::any::TypeId;
use std::arch::x86_64::*;

/// Gathers as [`super::gather_moved`] does. Returns false for elements of other sizes than 4 and 8
/// bytes, for moves that are neither i32 nor i64, and on other processors, and leaves `out`
/// unchanged.
pub fn gather<T: Pod, M: Pod>(
    data: &[T],
    start: i64,
    step: i64,
    moves: &[M],
    out: &mut [T],
) -> bool {
    let Level::Avx512(_proof) = level() else { return false };
    macro_rules! run {
        ($gather:ident, $M:ty) => {{
            let Some(moves) = as_type::<M, $M>(moves) else { return false };
            let (data, out) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(out));
            // SAFETY: the proof says that the processor has the function's features.
            unsafe { $gather(data, start, step, moves, out) };
        }};
    }
    match (size_of::<T>(), size_of::<M>()) {
        (4, 4) => run!(words_by_words, i32),
        (4, 8) => run!(words, i64),
        (8, 4) => run!(long_words_by_words, i32),
        (8, 8) => run!(long_words, i64),
        _ => return false,
    }
    true
}

/// Returns the slice, if its elements have type `B`.
fn as_type<A: Pod, B: Pod>(elements: &[A]) -> Option<&[B]> {
    (TypeId::of::<A>() == TypeId::of::<B>()).then(|| bytemuck::cast_slice(elements))
}

/// Defines a gather of elements of one size.
macro_rules! gather {
    ($name:ident, $M:ty, $load:ident, $T:ty, $zero:ident, $gather:ident, $scale:literal, $store:ident) => {
        avx512! {
            fn $name(data: &[$T], start: i64, step: i64, moves: &[$M], out: &mut [$T]) {
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
                        let moves = $load(some, moves.as_ptr());
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

avx512! {
    /// Returns the words of the mask at `from`, extended.
    ///
    /// # Safety
    /// - The words of the mask must be readable.
    #[inline]
    unsafe fn extended(some: __mmask8, from: *const i32) -> __m512i {
        // SAFETY: the contract is the same.
        _mm512_cvtepi32_epi64(unsafe { _mm256_maskz_loadu_epi32(some, from) })
    }
}

macro_rules! gathers {
    ($words:ident, $long_words:ident, $M:ty, $load:ident) => {
        gather!(
            $words,
            $M,
            $load,
            i32,
            _mm256_setzero_si256,
            _mm512_mask_i64gather_epi32,
            4,
            _mm256_mask_storeu_epi32
        );
        gather!(
            $long_words,
            $M,
            $load,
            i64,
            _mm512_setzero_si512,
            _mm512_mask_i64gather_epi64,
            8,
            _mm512_mask_storeu_epi64
        );
    };
}

gathers!(words, long_words, i64, _mm512_maskz_loadu_epi64);
gathers!(words_by_words, long_words_by_words, i32, extended);

/// Gathers the columns up to the last whole eight, or sixteen of single bytes, as
/// [`super::exchange`] does. Returns their number: none for elements of other sizes than 1 and 4
/// bytes, and on processors without AVX2.
pub fn exchange<T: Pod>(
    data: &[T],
    start: usize,
    step: usize,
    columns: usize,
    out: &mut [T],
) -> usize {
    let Some(_proof) = level().avx2() else { return 0 };
    // SAFETY: the proof says that the processor has the functions' features.
    unsafe {
        match size_of::<T>() {
            1 => {
                let (data, out) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(out));
                exchange_bytes(data, start, step, columns, out)
            }
            4 => {
                let (data, out) = (bytemuck::cast_slice(data), bytemuck::cast_slice_mut(out));
                exchange_words(data, start, step, columns, out)
            }
            _ => 0,
        }
    }
}

// Loops instead of `map`: a closure here has the function's features, and `map`, which has not,
// cannot inline it.
avx2! {
    fn exchange_words(
        data: &[i32],
        start: usize,
        step: usize,
        columns: usize,
        out: &mut [i32],
    ) -> usize {
        let (rows, whole) = (out.len() / columns, columns / 8 * 8);
        let tiles = rows / 8 * 8;
        for j in (0..whole).step_by(8) {
            let mut from: [&[i32]; 8] = [&[]; 8];
            for (k, from) in from.iter_mut().enumerate() {
                *from = &data[start + (j + k) * step..][..rows];
            }
            for i in (0..tiles).step_by(8) {
                // SAFETY: `i + 8` is at most `rows`, the length of each slice of `from`, and
                // `j + 8` at most `columns`, the length of each row of `out`.
                unsafe { exchange_tile(&from, i, out.as_mut_ptr().add(i * columns + j).cast(), columns) }
            }
            for i in tiles..rows {
                for (out, from) in out[i * columns + j..][..8].iter_mut().zip(&from) {
                    *out = from[i];
                }
            }
        }
        whole
    }
}

avx2! {
    /// Stores the columns of eight rows of eight words, from element `i` on, as rows that are
    /// `step` elements apart.
    ///
    /// # Safety
    /// - Each of `from` must have `i + 8` elements.
    /// - Eight words must be writable at `to` and after each of seven steps from there.
    #[inline]
    unsafe fn exchange_tile(from: &[&[i32]; 8], i: usize, to: *mut f32, step: usize) {
        let mut rows = [_mm256_setzero_ps(); 8];
        for k in 0..8 {
            // SAFETY: the caller guarantees that these words are readable.
            rows[k] = unsafe { _mm256_loadu_ps(from[k].as_ptr().add(i).cast()) };
        }
        let [upper, lower] = [of_four(&rows[..4]), of_four(&rows[4..])];
        for k in 0..4 {
            // SAFETY: the caller guarantees that these words are writable.
            unsafe {
                let (upper, lower) = (upper[k], lower[k]);
                _mm256_storeu_ps(to.add(k * step), _mm256_permute2f128_ps::<0x20>(upper, lower));
                let other = _mm256_permute2f128_ps::<0x31>(upper, lower);
                _mm256_storeu_ps(to.add((k + 4) * step), other);
            }
        }
    }
}

avx2! {
    /// Returns registers whose lower halves are the first four columns of four rows, and whose
    /// upper halves are the last four.
    #[inline]
    fn of_four(rows: &[__m256]) -> [__m256; 4] {
        let (low, high) = (_mm256_unpacklo_ps(rows[0], rows[1]), _mm256_unpackhi_ps(rows[0], rows[1]));
        let (next_low, next_high) =
            (_mm256_unpacklo_ps(rows[2], rows[3]), _mm256_unpackhi_ps(rows[2], rows[3]));
        [
            _mm256_shuffle_ps::<0x44>(low, next_low),
            _mm256_shuffle_ps::<0xee>(low, next_low),
            _mm256_shuffle_ps::<0x44>(high, next_high),
            _mm256_shuffle_ps::<0xee>(high, next_high),
        ]
    }
}

avx2! {
    fn exchange_bytes(
        data: &[u8],
        start: usize,
        step: usize,
        columns: usize,
        out: &mut [u8],
    ) -> usize {
        let (rows, whole) = (out.len() / columns, columns / 16 * 16);
        let tiles = rows / 16 * 16;
        for j in (0..whole).step_by(16) {
            let mut from: [&[u8]; 16] = [&[]; 16];
            for (k, from) in from.iter_mut().enumerate() {
                *from = &data[start + (j + k) * step..][..rows];
            }
            for i in (0..tiles).step_by(16) {
                // SAFETY: `i + 16` is at most `rows`, the length of each slice of `from`, and
                // `j + 16` at most `columns`, the length of each row of `out`.
                unsafe { exchange_tile_of_bytes(&from, i, out.as_mut_ptr().add(i * columns + j), columns) }
            }
            for i in tiles..rows {
                for (out, from) in out[i * columns + j..][..16].iter_mut().zip(&from) {
                    *out = from[i];
                }
            }
        }
        whole
    }
}

avx2! {
    /// Stores the columns of sixteen rows of sixteen bytes, from element `i` on, as rows that are
    /// `step` bytes apart.
    ///
    /// # Safety
    /// - Each of `from` must have `i + 16` elements.
    /// - Sixteen bytes must be writable at `to` and after each of fifteen steps from there.
    #[inline]
    unsafe fn exchange_tile_of_bytes(from: &[&[u8]; 16], i: usize, to: *mut u8, step: usize) {
        let mut rows = [_mm_setzero_si128(); 16];
        for k in 0..16 {
            // SAFETY: the caller guarantees that these bytes are readable.
            rows[k] = unsafe { _mm_loadu_si128(from[k].as_ptr().add(i).cast()) };
        }
        // Each turn doubles the runs of bytes that come from consecutive rows.
        for _ in 0..4 {
            let halves = rows;
            for k in 0..8 {
                rows[2 * k] = _mm_unpacklo_epi8(halves[k], halves[k + 8]);
                rows[2 * k + 1] = _mm_unpackhi_epi8(halves[k], halves[k + 8]);
            }
        }
        for (k, row) in rows.into_iter().enumerate() {
            // SAFETY: the caller guarantees that these bytes are writable.
            unsafe { _mm_storeu_si128(to.add(k * step).cast(), row) };
        }
    }
}
