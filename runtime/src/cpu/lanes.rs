//! What registers of f32 can do beyond [`Vector`], for loops that keep values in registers from one operation to the next.
//!
//! Everything has a way that works on any processor, number by number; an instruction set has its own where that is faster.

use super::math;
use super::simd::{Portable, Vector};

/// Most numbers in a register.
pub const MOST_LANES: usize = 16;

/// Relations of two numbers, false where either is NaN but for `NOT_EQUAL`; the values are those of the x86 instructions.
pub const EQUAL: i32 = 0;
pub const LESS: i32 = 17;
pub const LESS_OR_EQUAL: i32 = 18;
pub const NOT_EQUAL: i32 = 4;

/// What is computed on the lanes of registers as whole numbers of 32 bits, which wrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WordOp {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    /// By counts of 32 and more, 0.
    ShiftLeft,
    /// The same, of numbers without sign.
    ShiftRight,
    /// Of numbers with a sign; by counts of 32 and more, 0 or -1.
    ShiftRightSigned,
    /// By counts of less than 32.
    RotateLeft,
}

impl WordOp {
    #[cfg(test)]
    pub const ALL: [WordOp; 10] = [
        WordOp::Add,
        WordOp::Sub,
        WordOp::Mul,
        WordOp::And,
        WordOp::Or,
        WordOp::Xor,
        WordOp::ShiftLeft,
        WordOp::ShiftRight,
        WordOp::ShiftRightSigned,
        WordOp::RotateLeft,
    ];

    #[inline(always)]
    fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            WordOp::Add => a.wrapping_add(b),
            WordOp::Sub => a.wrapping_sub(b),
            WordOp::Mul => a.wrapping_mul(b),
            WordOp::And => a & b,
            WordOp::Or => a | b,
            WordOp::Xor => a ^ b,
            WordOp::ShiftLeft => a.checked_shl(b).unwrap_or(0),
            WordOp::ShiftRight => a.checked_shr(b).unwrap_or(0),
            WordOp::ShiftRightSigned => ((a as i32) >> b.min(31)) as u32,
            WordOp::RotateLeft => a.rotate_left(b),
        }
    }
}

/// `f` of each lane of some registers.
///
/// # Safety
/// The processor must have the register's instructions.
#[inline(always)]
unsafe fn each<L: Lanes, const N: usize>(registers: [L; N], f: impl Fn([f32; N]) -> f32) -> L {
    let (mut all, mut out) = ([[0.0; MOST_LANES]; N], [0.0; MOST_LANES]);
    // SAFETY: the arrays hold the lanes of any register.
    unsafe {
        all.iter_mut().zip(registers).for_each(|(to, register)| register.store(to.as_mut_ptr()));
        out[..L::LANES].iter_mut().enumerate().for_each(|(i, out)| *out = f(std::array::from_fn(|n| all[n][i])));
        L::load(out.as_ptr())
    }
}

/// 2^(k/8), as words that are less by k times 2²⁰: to raise one to a power of 2, [`math::exp_near`] adds a number of eighths, k among them, at its 20th bit.
const POWERS_OF_EIGHTHS: [f32; 8] = {
    let mut table = [0.0; 8];
    let mut k = 0;
    while k < 8 {
        table[k] = f32::from_bits(math::SIXTEENTHS[2 * k].to_bits() - ((k as u32) << 20));
        k += 1;
    }
    table
};

/// Registers that a function of the elementary ones goes through together: more have no room where there are 16.
const TOGETHER: usize = 4;

/// Writes `f` of each register over it.
macro_rules! by_groups {
    ($all:expr, $f:path) => {
        let (groups, rest) = $all.as_chunks_mut::<TOGETHER>();
        for group in groups {
            // SAFETY: the processor has the instructions, by the caller's promise.
            unsafe { *group = $f(*group) };
        }
        for x in rest {
            // SAFETY: as above.
            unsafe { [*x] = $f([*x]) };
        }
    };
}

/// A register of f32.
///
/// # Safety of the methods
/// As for [`Vector`]; a pointer to a part must be readable or writable for so many numbers, one to conditions for as many bytes as there are lanes.
pub trait Lanes: Vector<Scalar = f32> {
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: by the caller's promise, as in all these methods.
        unsafe { each([self, other], |[a, b]| a - b) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { each([self, other], |[a, b]| a * b) }
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { each([self, other], |[a, b]| a / b) }
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        // SAFETY: as above.
        unsafe { each([self], |[a]| a.sqrt()) }
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        // SAFETY: as above.
        unsafe { each([self], |[a]| a.abs()) }
    }
    #[inline(always)]
    unsafe fn neg(self) -> Self {
        // SAFETY: as above.
        unsafe { each([self], |[a]| -a) }
    }
    /// The magnitude of `self` with the sign of `other`.
    #[inline(always)]
    unsafe fn copysign(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { each([self, other], |[a, b]| a.copysign(b)) }
    }
    /// `a < b ? self : other`
    #[inline(always)]
    unsafe fn if_less(self, a: Self, b: Self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { each([self, a, b, other], |[x, a, b, y]| if a < b { x } else { y }) }
    }
    /// Whether [`Self::scale`] takes any n, and gives 0 or infinity where it is large, NaN where it is NaN.
    const SATURATES: bool = false;
    /// Whether [`Vector::fma`] rounds once.
    const FUSED: bool = true;
    /// Whether [`Self::eighth`] is one instruction.
    const EIGHTHS: bool = false;
    /// Of [`POWERS_OF_EIGHTHS`] for each lane the one whose number is the lane's last three bits.
    #[inline(always)]
    unsafe fn eighth(self) -> Self {
        // SAFETY: as above.
        unsafe { each([self], |[x]| POWERS_OF_EIGHTHS[x.to_bits() as usize % 8]) }
    }
    /// 2^(k/16) for each lane, where k is the lane's last four bits.
    #[inline(always)]
    unsafe fn root(self) -> Self {
        // SAFETY: as above.
        unsafe { each([self], |[x]| math::SIXTEENTHS[x.to_bits() as usize % 16]) }
    }
    /// `self * 2ⁿ` of a whole n in -252..=254 (where it saturates, 2 to the greatest whole number that is not above any n), rounded once if `self` is 0.7 to 2.
    #[inline(always)]
    unsafe fn scale(self, n: Self) -> Self {
        // SAFETY: as above.
        unsafe { each([self, n], |[x, n]| math::scale(x, n)) }
    }
    /// `self` where its magnitude is less than the limit's, else, for NaN too, the limit, with either sign.
    #[inline(always)]
    unsafe fn within(self, limit: Self) -> Self {
        // SAFETY: as above.
        unsafe { each([self, limit], |[a, limit]| if a.abs() < limit { a } else { limit }) }
    }
    /// Of lanes that hold words, not floats.
    #[inline(always)]
    unsafe fn word(self, op: WordOp, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { each([self, other], |[a, b]| f32::from_bits(op.apply(a.to_bits(), b.to_bits()))) }
    }
    /// The floats nearest to words, with a sign or without.
    #[inline(always)]
    unsafe fn words_as_floats(self, signed: bool) -> Self {
        let float = |word: u32| if signed { word as i32 as f32 } else { word as f32 };
        // SAFETY: as above.
        unsafe { each([self], |[a]| float(a.to_bits())) }
    }
    /// The first `length` numbers at `p`, then zeros.
    #[inline(always)]
    unsafe fn load_part(p: *const f32, length: usize) -> Self {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: readable by the caller's promise.
        unsafe {
            p.copy_to_nonoverlapping(all.as_mut_ptr(), length);
            Self::load(all.as_ptr())
        }
    }
    /// Stores the first `length` numbers.
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, length: usize) {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: writable by the caller's promise.
        unsafe {
            self.store(all.as_mut_ptr());
            all.as_ptr().copy_to_nonoverlapping(p, length);
        }
    }
    /// Stores past the caches where there is an instruction for it; `p` is a multiple of the register's size then.
    #[inline(always)]
    unsafe fn store_past(self, p: *mut f32) {
        // SAFETY: writable by the caller's promise.
        unsafe { self.store(p) }
    }
    /// The first `length` numbers, then those of `other`.
    #[inline(always)]
    unsafe fn first(self, length: usize, other: Self) -> Self {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: the array holds the lanes of any register.
        unsafe {
            other.store(all.as_mut_ptr());
            self.store_part(all.as_mut_ptr(), length);
            Self::load(all.as_ptr())
        }
    }
    /// Where a condition is not 0 `self`, else `other`.
    #[inline(always)]
    unsafe fn choose(self, conditions: *const u8, other: Self) -> Self {
        let mut chosen = [0.0; MOST_LANES];
        // SAFETY: readable by the caller's promise.
        unsafe {
            (0..Self::LANES).for_each(|i| chosen[i] = if *conditions.add(i) != 0 { 1.0 } else { 0.0 });
            self.if_less(Self::splat(0.5), Self::load(chosen.as_ptr()), other)
        }
    }
    /// Stores for each lane whether `self` and `other` are in relation `R`, as 0 or 1.
    #[inline(always)]
    unsafe fn compare<const R: i32>(self, other: Self, to: *mut u8) {
        let (mut a, mut b) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
        // SAFETY: writable by the caller's promise; the arrays hold the lanes of any register.
        unsafe {
            self.store(a.as_mut_ptr());
            other.store(b.as_mut_ptr());
            for i in 0..Self::LANES {
                *to.add(i) = match R {
                    EQUAL => a[i] == b[i],
                    LESS => a[i] < b[i],
                    LESS_OR_EQUAL => a[i] <= b[i],
                    _ => a[i] != b[i],
                } as u8;
            }
        }
    }
    /// eˣ of each.
    #[inline(always)]
    unsafe fn exp_each<const K: usize>(all: &mut [Self; K]) {
        by_groups!(all, math::exp);
    }
    /// The hyperbolic tangent of each. Like the error function's it needs many registers itself: `black_box` has the others kept in memory.
    #[inline(always)]
    unsafe fn tanh_each(all: &mut [Self]) {
        by_groups!(std::hint::black_box(all), math::tanh);
    }
    /// The error function of each.
    #[inline(always)]
    unsafe fn erf_each(all: &mut [Self]) {
        by_groups!(std::hint::black_box(all), math::erf);
    }
}

impl Lanes for Portable<f32, 4> {
    const FUSED: bool = false;
}

#[cfg(target_arch = "aarch64")]
impl Lanes for std::arch::aarch64::float32x4_t {}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::*;

    #[allow(unused_unsafe, reason = "where the target has the instructions by default, most intrinsics are safe")]
    // SAFETY of all methods: by the caller's promise.
    impl Lanes for __m512 {
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_sub_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_mul_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_div_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn sqrt(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_sqrt_ps(self) }
        }
        #[inline(always)]
        unsafe fn abs(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_andnot_ps(_mm512_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn neg(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_xor_ps(_mm512_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn copysign(self, other: Self) -> Self {
            // SAFETY: as above. The table is `sign ? other : self`, bit by bit.
            unsafe {
                let [sign, a, b] = [_mm512_set1_ps(-0.0), self, other].map(|x| _mm512_castps_si512(x));
                _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0b1100_1010>(sign, b, a))
            }
        }
        #[inline(always)]
        unsafe fn if_less(self, a: Self, b: Self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<LESS>(a, b), other, self) }
        }
        const SATURATES: bool = true;
        #[inline(always)]
        unsafe fn scale(self, n: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_scalef_ps(self, n) }
        }
        #[inline(always)]
        unsafe fn root(self) -> Self {
            // SAFETY: as above; the table has as many numbers as the register.
            unsafe { _mm512_permutexvar_ps(_mm512_castps_si512(self), _mm512_loadu_ps(math::SIXTEENTHS.as_ptr())) }
        }
        #[inline(always)]
        unsafe fn within(self, limit: Self) -> Self {
            /// Of two numbers the one of lesser magnitude, with its own sign.
            const LESSER_MAGNITUDE: i32 = 0b0110;
            // SAFETY: as above.
            unsafe { _mm512_range_ps::<LESSER_MAGNITUDE>(self, limit) }
        }
        #[inline(always)]
        unsafe fn word(self, op: WordOp, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                let [a, b] = [self, other].map(|x| _mm512_castps_si512(x));
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
                })
            }
        }
        #[inline(always)]
        unsafe fn words_as_floats(self, signed: bool) -> Self {
            // SAFETY: as above.
            unsafe {
                let a = _mm512_castps_si512(self);
                if signed { _mm512_cvtepi32_ps(a) } else { _mm512_cvtepu32_ps(a) }
            }
        }
        #[inline(always)]
        unsafe fn load_part(p: *const f32, length: usize) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_maskz_loadu_ps(part(length), p) }
        }
        #[inline(always)]
        unsafe fn store_past(self, p: *mut f32) {
            // SAFETY: as above; `p` is aligned by the caller's promise.
            unsafe { _mm512_stream_ps(p, self) }
        }
        #[inline(always)]
        unsafe fn store_part(self, p: *mut f32, length: usize) {
            // SAFETY: as above.
            unsafe { _mm512_mask_storeu_ps(p, part(length), self) }
        }
        #[inline(always)]
        unsafe fn first(self, length: usize, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm512_mask_blend_ps(part(length), other, self) }
        }
        #[inline(always)]
        unsafe fn choose(self, conditions: *const u8, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                let conditions = _mm_loadu_si128(conditions.cast());
                _mm512_mask_blend_ps(_mm_test_epi8_mask(conditions, conditions), other, self)
            }
        }
        #[inline(always)]
        unsafe fn compare<const R: i32>(self, other: Self, to: *mut u8) {
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(to.cast(), _mm_maskz_set1_epi8(_mm512_cmp_ps_mask::<R>(self, other), 1)) }
        }
        #[inline(always)]
        unsafe fn erf_each(all: &mut [Self]) {
            // SAFETY: as above.
            unsafe { math::erf_by_table(all) }
        }
    }

    /// The lanes below `length`.
    #[inline(always)]
    fn part(length: usize) -> __mmask16 {
        ((1u32 << length) - 1) as __mmask16
    }

    #[allow(unused_unsafe, reason = "as above")]
    // SAFETY of all methods: by the caller's promise.
    impl Lanes for __m256 {
        #[inline(always)]
        unsafe fn store_past(self, p: *mut f32) {
            // SAFETY: as above; `p` is aligned by the caller's promise.
            unsafe { _mm256_stream_ps(p, self) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_sub_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_mul_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_div_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn sqrt(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_sqrt_ps(self) }
        }
        #[inline(always)]
        unsafe fn abs(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn neg(self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_xor_ps(_mm256_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn copysign(self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                let sign = _mm256_set1_ps(-0.0);
                _mm256_or_ps(_mm256_andnot_ps(sign, self), _mm256_and_ps(sign, other))
            }
        }
        #[inline(always)]
        unsafe fn if_less(self, a: Self, b: Self, other: Self) -> Self {
            // SAFETY: as above.
            unsafe { _mm256_blendv_ps(other, self, _mm256_cmp_ps::<LESS>(a, b)) }
        }
        #[inline(always)]
        unsafe fn word(self, op: WordOp, other: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                let [a, b] = [self, other].map(|x| _mm256_castps_si256(x));
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
                })
            }
        }
        #[inline(always)]
        unsafe fn words_as_floats(self, signed: bool) -> Self {
            // SAFETY: as above. Both halves of a word are floats; their sum is rounded once.
            unsafe {
                let a = _mm256_castps_si256(self);
                let high = if signed { _mm256_srai_epi32::<16>(a) } else { _mm256_srli_epi32::<16>(a) };
                let low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
                _mm256_cvtepi32_ps(low).fma(_mm256_cvtepi32_ps(high), _mm256_set1_ps(65536.0))
            }
        }
        #[inline(always)]
        unsafe fn scale(self, n: Self) -> Self {
            // SAFETY: as above.
            unsafe {
                let power =
                    |n| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))));
                let n = _mm256_cvtps_epi32(n);
                let half = _mm256_srai_epi32::<1>(n);
                _mm256_mul_ps(_mm256_mul_ps(self, power(half)), power(_mm256_sub_epi32(n, half)))
            }
        }
        const EIGHTHS: bool = true;
        #[inline(always)]
        unsafe fn eighth(self) -> Self {
            // SAFETY: as above; the table has as many numbers as the register.
            unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(POWERS_OF_EIGHTHS.as_ptr()), _mm256_castps_si256(self)) }
        }
        // Almost all arguments are near, so that one test for all registers costs less than what it saves on each. It is a test for all, as a branch for
        // each would keep them from being at work side by side.
        #[inline(always)]
        unsafe fn exp_each<const K: usize>(all: &mut [Self; K]) {
            // SAFETY: as above.
            unsafe {
                let (mut least, mut greatest) = (_mm256_setzero_ps(), _mm256_setzero_ps());
                for x in &*all {
                    // These leave NaNs out, which become NaNs either way.
                    (least, greatest) = (_mm256_min_ps(*x, least), _mm256_max_ps(*x, greatest));
                }
                let near = _mm256_set1_ps(math::NEAR);
                let far = [least.neg(), greatest].map(|x| _mm256_cmp_ps::<_CMP_GT_OQ>(x, near));
                if _mm256_testz_ps(_mm256_or_ps(far[0], far[1]), _mm256_set1_ps(-0.0)) == 1 {
                    by_groups!(all, math::exp_near);
                } else {
                    let mut copy = *all;
                    by_groups!(std::hint::black_box(&mut copy[..]), math::exp);
                    *all = copy;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
