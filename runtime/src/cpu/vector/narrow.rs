//! f16 and bf16 as [`Number`]s. Each operation computes in f32 and rounds to the type. Chunks are
//! converted to f32, computed by its loops, and converted back.

use super::number::Number;
use crate::cpu::vector;
use half::{bf16, f16};
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::{BinaryOp, UnaryOp};

/// Converts the bits of an f16 to f32.
#[inline(always)]
fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = ((bits & 0x7fff) as u32) << 13;
    // The exponent is 112 too small; the product corrects it, for subnormals too. Infinities and
    // NaNs get their exponent below.
    let finite = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let magnitude = if magnitude >= 0x7c00 << 13 { magnitude | 0x7f80_0000 } else { finite };
    f32::from_bits(magnitude | ((bits & 0x8000) as u32) << 16)
}

/// Returns the bits of the nearest f16, ties to even.
#[inline(always)]
fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let normal =
        magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
    // The last place of ½ is that of an f16 below 2⁻¹⁴, so adding ½ rounds to it.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let special = if magnitude > 0x7f80_0000 { 0x7e00 } else { 0x7c00 };
    let rounded = if magnitude < 113 << 23 { subnormal } else { normal };
    let rounded = if magnitude >= 0x477f_f000 { special } else { rounded };
    (rounded | (bits >> 16 & 0x8000)) as u16
}

#[inline(always)]
fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// Returns the bits of the nearest bf16, ties to even.
#[inline(always)]
fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if x.is_nan() { bits >> 16 | 0x40 } else { rounded }) as u16
}

/// Conversions of f16 by instructions.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use super::{f16, f16_to_f32, f32_to_f16};
    use crate::cpu::vector::level::avx2;
    use std::arch::x86_64::{
        __m128i, __m256, _MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph,
    };

    /// The elements that one instruction converts.
    const LANES: usize = 8;

    avx2! {
        pub fn to_f32(x: &[f16], out: &mut [f32]) {
            let length = x.len().min(out.len());
            let (blocks, rest) = x[..length].as_chunks::<LANES>();
            let (of_blocks, of_rest) = out[..length].as_chunks_mut::<LANES>();
            for (x, out) in blocks.iter().zip(of_blocks) {
                let x: __m128i = bytemuck::cast(*x);
                *out = bytemuck::cast::<__m256, _>(_mm256_cvtph_ps(x));
            }
            for (x, out) in rest.iter().zip(of_rest) {
                *out = f16_to_f32(x.to_bits());
            }
        }
    }

    avx2! {
        pub fn from_f32(x: &[f32], out: &mut [f16]) {
            let length = x.len().min(out.len());
            let (blocks, rest) = x[..length].as_chunks::<LANES>();
            let (of_blocks, of_rest) = out[..length].as_chunks_mut::<LANES>();
            for (x, out) in blocks.iter().zip(of_blocks) {
                let x: __m256 = bytemuck::cast(*x);
                *out = bytemuck::cast::<__m128i, _>(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x));
            }
            for (x, out) in rest.iter().zip(of_rest) {
                *out = f16::from_bits(f32_to_f16(*x));
            }
        }
    }
}

/// Converts f16s to f32 by instructions, if the processor has them.
fn f16s_to_f32(x: &[f16], out: &mut [f32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if vector::level().avx2().is_some() {
        // SAFETY: the proof says that the processor has the function's features.
        unsafe { f16c::to_f32(x, out) };
        return true;
    }
    let _ = (x, out);
    false
}

/// Converts f32s to f16 by instructions, if the processor has them.
fn f32s_to_f16(x: &[f32], out: &mut [f16]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if vector::level().avx2().is_some() {
        // SAFETY: the proof says that the processor has the function's features.
        unsafe { f16c::from_f32(x, out) };
        return true;
    }
    let _ = (x, out);
    false
}

/// Returns whether an aggregation finds the greatest or the least value.
fn is_extreme(aggregation: Aggregation) -> bool {
    use Aggregation::{ArgMax, ArgMin, Max, Min};
    matches!(aggregation, Max | Min | ArgMax | ArgMin)
}

macro_rules! half_float {
    ($t:ty, $to_f32:ident, $from_f32:ident, $from_f64:expr, $to_f32s:expr, $from_f32s:expr) => {
        impl Number for $t {
            const FLOAT: bool = true;
            const NARROW_FLOAT: bool = true;
            #[inline(always)]
            fn unary(op: UnaryOp, x: Self) -> Self {
                Self::from_f32(f32::unary(op, Number::to_f32(x)))
            }
            #[inline(always)]
            fn binary(op: BinaryOp, a: Self, b: Self) -> Self {
                match op {
                    BinaryOp::Max => return if Self::less(a, b) { b } else { a },
                    BinaryOp::Min => return if Self::less(b, a) { b } else { a },
                    _ => {}
                }
                Self::from_f32(f32::binary(op, Number::to_f32(a), Number::to_f32(b)))
            }
            fn unary_chunk(op: UnaryOp, x: &[Self], out: &mut [Self]) -> bool {
                let mut wide = [0.0f32; 256];
                let mut results = [0.0f32; 256];
                for (x, out) in x.chunks(256).zip(out.chunks_mut(256)) {
                    vector::to_f32(x, &mut wide);
                    vector::unary(op, &wide[..x.len()], &mut results);
                    vector::from_f32(&results, out);
                }
                true
            }
            fn binary_chunk(op: BinaryOp, a: &[Self], b: &[Self], out: &mut [Self]) -> bool {
                let (mut left, mut right, mut results) =
                    ([0.0f32; 256], [0.0f32; 256], [0.0f32; 256]);
                for ((a, b), out) in a.chunks(256).zip(b.chunks(256)).zip(out.chunks_mut(256)) {
                    vector::to_f32(a, &mut left);
                    vector::to_f32(b, &mut right);
                    vector::binary(op, &left[..a.len()], &right[..a.len()], &mut results);
                    vector::from_f32(&results, out);
                }
                true
            }
            /// The greatest or least value is the same in f32.
            fn fold_chunk(aggregation: Aggregation, identity: Self, x: &[Self]) -> Option<Self> {
                if !is_extreme(aggregation) {
                    return None;
                }
                let mut wide = [0.0f32; 256];
                let mut best = Number::to_f32(identity);
                for x in x.chunks(256) {
                    vector::to_f32(x, &mut wide);
                    best = vector::fold_f32(aggregation, best, &wide[..x.len()]);
                }
                Some(<Self as Number>::from_f32(best))
            }
            fn accumulate_chunk(aggregation: Aggregation, best: &mut [Self], x: &[Self]) -> bool {
                if !is_extreme(aggregation) {
                    return false;
                }
                let (mut wide, mut results) = ([0.0f32; 256], [0.0f32; 256]);
                for (x, best) in x.chunks(256).zip(best.chunks_mut(256)) {
                    vector::to_f32(x, &mut wide);
                    vector::to_f32(best, &mut results);
                    let results = &mut results[..x.len()];
                    vector::accumulate_f32(aggregation, results, &wide[..x.len()]);
                    vector::from_f32(results, best);
                }
                true
            }
            #[inline(always)]
            fn less(a: Self, b: Self) -> bool {
                Number::to_f32(a) < Number::to_f32(b)
            }
            #[inline(always)]
            fn equal(a: Self, b: Self) -> bool {
                Number::to_f32(a) == Number::to_f32(b)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                Number::to_f32(self) as f64
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                $from_f64(x)
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to_f32(self.to_bits())
            }
            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                Self::from_bits($from_f32(x))
            }
            #[inline(always)]
            fn to_f32_chunk(x: &[Self], out: &mut [f32]) -> bool {
                $to_f32s(x, out)
            }
            #[inline(always)]
            fn from_f32_chunk(x: &[f32], out: &mut [Self]) -> bool {
                $from_f32s(x, out)
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                Number::to_f32(self) as i64
            }
            #[inline(always)]
            fn from_i64(x: i64) -> Self {
                $from_f64(x as f64)
            }
        }
    };
}
half_float!(f16, f16_to_f32, f32_to_f16, f16::from_f64, f16s_to_f32, f32s_to_f16);
// The compiler makes vector code of bf16's conversions.
half_float!(bf16, bf16_to_f32, f32_to_bf16, bf16::from_f64, |_, _| false, |_, _| false);

#[cfg(test)]
mod tests {
    use super::*;

    /// All f16s, and f32s around each and in between, one by one and as chunks, as the `half` crate
    /// converts them.
    #[test]
    fn conversions() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let is_same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let mut wide = vec![0.0; all.len()];
        vector::to_f32(&all, &mut wide);
        for (narrow, &wide) in all.iter().zip(&wide) {
            assert!(is_same(wide, f16::to_f32(*narrow)), "{narrow}");
            assert!(is_same(wide, Number::to_f32(*narrow)), "{narrow}");
        }
        let steps = [0i32, 1, -1, 0xfff, 0x1000, 0x1001, 0x17ff];
        let near =
            |x: &f32| steps.map(|step| f32::from_bits(x.to_bits().wrapping_add_signed(step)));
        let wide: Vec<f32> = wide.iter().flat_map(near).collect();
        let mut narrow = vec![f16::ZERO; wide.len()];
        vector::from_f32(&wide, &mut narrow);
        for (x, found) in wide.iter().zip(&narrow) {
            let wanted = f16::from_f32(*x).to_f32();
            assert!(is_same(found.to_f32(), wanted), "{x}: {found}");
            assert!(is_same(f16::from_bits(f32_to_f16(*x)).to_f32(), wanted), "{x}");
        }
    }
}
