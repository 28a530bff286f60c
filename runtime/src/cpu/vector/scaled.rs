//! Sums of products of numbers and scaled 8-bit integers.

use super::lanes::{Lanes, MOST_LANES};
use super::level::{self, Level, level};
#[cfg(target_arch = "aarch64")]
use super::register::F32x4;
use super::register::Portable;
#[cfg(target_arch = "x86_64")]
use super::register::{F32x8, F32x16};
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};
use tile_compiler::native::ScaledDots;

/// The elements of a row that share a zero and a scale at least.
const UNIT: usize = ScaledDots::UNIT;

/// The registers that sums are in, since each multiply-add waits for the one before it.
const SUMS: usize = 4;

/// The scales or the zeros of a row's blocks: elements at a constant step, which may be 0.
pub type OfBlocks<'a> = (&'a [f32], usize);

/// A row: as many numbers as integers, in whole blocks of whole units.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub numbers: &'a [f32],
    pub integers: &'a [u8],
    /// True if the integers are i8, false if u8.
    pub is_signed: bool,
    /// The elements of a block.
    pub block: usize,
    pub zeros: OfBlocks<'a>,
    pub scales: OfBlocks<'a>,
}

/// Sums `number * (integer - zero) * scale` along a row.
pub fn scaled_dot(row: Row) -> f32 {
    let units = row.numbers.len() / UNIT;
    assert!(row.numbers.len() == row.integers.len() && units * UNIT == row.numbers.len());
    // SAFETY: a level has the proof that the processor has its instructions.
    #[cfg_attr(target_arch = "aarch64", expect(unused_unsafe, reason = "Neon is always there"))]
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(proof) => avx512(proof, row),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(proof) => avx2(proof, row),
            #[cfg(target_arch = "aarch64")]
            Level::Neon(proof) => either::<F32x4>(proof, row),
            Level::Baseline => either::<Portable<f32, 4>>((), row),
        }
    }
}

#[cfg(target_arch = "x86_64")]
level::avx512! {
    fn avx512(proof: Avx512, row: Row) -> f32 {
        either::<F32x16>(proof, row)
    }
}

#[cfg(target_arch = "x86_64")]
level::avx2! {
    fn avx2(proof: Avx2, row: Row) -> f32 {
        either::<F32x8>(proof, row)
    }
}

#[inline(always)]
fn either<L: Lanes>(proof: L::Proof, row: Row) -> f32 {
    if row.is_signed { sum::<L, true>(proof, row) } else { sum::<L, false>(proof, row) }
}

#[inline(always)]
fn sum<L: Lanes, const SIGNED: bool>(proof: L::Proof, row: Row) -> f32 {
    let Row { numbers, integers, block, zeros, scales, .. } = row;
    let mut sums = [L::splat(proof, 0.0); SUMS];
    let blocks = numbers.chunks_exact(block).zip(integers.chunks_exact(block));
    for (number, (numbers, integers)) in blocks.enumerate() {
        let zero = L::splat(proof, zeros.0[number * zeros.1]);
        let scale = L::splat(proof, scales.0[number * scales.1]);
        let units = numbers.as_chunks::<UNIT>().0.iter().zip(integers.as_chunks::<UNIT>().0);
        for (numbers, integers) in units {
            for k in 0..UNIT / L::LANES {
                let at = k * L::LANES;
                // SAFETY: a unit has whole registers of numbers and of integers.
                let (x, integers) = unsafe {
                    let bytes = integers.as_ptr().add(at);
                    (L::load(proof, numbers.as_ptr().add(at)), L::load_bytes(proof, bytes, SIGNED))
                };
                let weight = integers.words_as_floats(true).sub(zero).mul(scale);
                sums[k % SUMS] = sums[k % SUMS].fma(x, weight);
            }
            // The next unit adds to other registers.
            sums.rotate_left(UNIT / L::LANES % SUMS);
        }
    }
    let mut parts = [[0.0; MOST_LANES]; SUMS];
    for (parts, sum) in parts.iter_mut().zip(sums) {
        // SAFETY: the array has room for the lanes of any register.
        unsafe { sum.store(parts.as_mut_ptr()) };
    }
    let lane = |i: usize| (parts[0][i] + parts[1][i]) + (parts[2][i] + parts[3][i]);
    let mut lanes: [f32; MOST_LANES] = std::array::from_fn(lane);
    let mut half = MOST_LANES;
    while half > 1 {
        half /= 2;
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_length_and_block() {
        for (length, block) in [(0, 32), (32, 32), (96, 32), (192, 64), (160, 160), (512, 128)] {
            let numbers: Vec<f32> = (0..length).map(|i| (i % 7) as f32 - 3.0).collect();
            let integers: Vec<u8> = (0..length).map(|i| (i * 37 % 256) as u8).collect();
            let blocks = length / block + 1;
            let zeros: Vec<f32> = (0..blocks).map(|i| i as f32 - 2.0).collect();
            let scales: Vec<f32> = (0..2 * blocks).map(|i| (i % 5) as f32 * 0.5).collect();
            for is_signed in [false, true] {
                let number = |x: u8| if is_signed { f32::from(x as i8) } else { f32::from(x) };
                let term = |i: usize| {
                    let weight = (number(integers[i]) - zeros[i / block]) * scales[2 * (i / block)];
                    numbers[i] * weight
                };
                let want: f32 = (0..length).map(term).sum();
                let (zeros, scales) = ((&zeros[..], 1), (&scales[..], 2));
                let (numbers, integers) = (&numbers[..], &integers[..]);
                let got = scaled_dot(Row { numbers, integers, is_signed, block, zeros, scales });
                assert_eq!(got, want, "{length} in blocks of {block}, signed: {is_signed}");
            }
        }
    }
}
