//! Operations on registers of f32 beyond [`Vector`], for loops that keep values in registers from
//! one operation to the next.
//!
//! Every method has a default that works on any processor, lane by lane. An instruction set
//! overrides it where it has something faster.

use super::elementary;
use super::register::{Portable, Vector};

/// The number of lanes of the widest register.
pub const MOST_LANES: usize = 16;

/// Relations of two numbers, with the encodings of the x86 compare instructions. If either number
/// is NaN, all are false except `NOT_EQUAL`.
pub const EQUAL: i32 = 0;
pub const LESS: i32 = 17;
pub const LESS_OR_EQUAL: i32 = 18;
pub const NOT_EQUAL: i32 = 4;

/// An operation on the lanes as 32-bit integers, which wrap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WordOp {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    /// Gives 0 for counts of 32 and more.
    ShiftLeft,
    /// Shifts unsigned integers. Gives 0 for counts of 32 and more.
    ShiftRight,
    /// Shifts signed integers. Gives 0 or -1 for counts of 32 and more.
    ShiftRightSigned,
    /// Takes counts below 32.
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

/// Applies `f` to each lane of some registers.
///
/// # Safety
/// The processor must have the register's instructions.
#[inline(always)]
unsafe fn each<L: Lanes, const N: usize>(registers: [L; N], f: impl Fn([f32; N]) -> f32) -> L {
    let (mut all, mut out) = ([[0.0; MOST_LANES]; N], [0.0; MOST_LANES]);
    // SAFETY: the caller guarantees that the processor has the instructions. The arrays have room
    // for the lanes of any register.
    unsafe {
        all.iter_mut().zip(registers).for_each(|(to, register)| register.store(to.as_mut_ptr()));
        out[..L::LANES].iter_mut().enumerate().for_each(|(i, out)| *out = f(std::array::from_fn(|n| all[n][i])));
        L::load(out.as_ptr())
    }
}

/// 2^(k/8) for k in 0..8, with k · 2²⁰ subtracted from the bits. [`elementary::exp_near`] adds n · 2²⁰ to
/// the bits of entry k, where n = 8m + k is a number of eighths. That adds m to the exponent, and k
/// · 2²⁰, which the table makes up for.
const POWERS_OF_EIGHTHS: [f32; 8] = {
    let mut table = [0.0; 8];
    let mut k = 0;
    while k < 8 {
        table[k] = f32::from_bits(elementary::SIXTEENTHS[2 * k].to_bits() - ((k as u32) << 20));
        k += 1;
    }
    table
};

/// Registers that an elementary function processes at once. With 16 registers, more would be
/// spilled.
const TOGETHER: usize = 4;

/// Replaces each register by `f` of it, in groups. The caller must guarantee `f`'s instructions.
macro_rules! by_groups {
    ($all:expr, $f:path) => {
        let (groups, rest) = $all.as_chunks_mut::<TOGETHER>();
        for group in groups {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { *group = $f(*group) };
        }
        for x in rest {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { [*x] = $f([*x]) };
        }
    };
}

/// A register of f32.
///
/// # Safety of the methods
/// The contract of [`Vector`], and:
/// - For `__m512` the processor must also have AVX-512 BW, DQ and VL.
/// - `load_part`, `store_part`: `p` must be readable or writable for `length` numbers.
/// - `load_part`, `store_part`, `first`: `length` must be at most `LANES`.
/// - `store_past`: `p` must be writable for `LANES` numbers and aligned to the register's size.
/// - `choose`: `conditions` must be readable for `LANES` bytes.
/// - `compare`: `to` must be writable for `LANES` bytes.
pub trait Lanes: Vector<Scalar = f32> {
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, other], |[a, b]| a - b) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, other], |[a, b]| a * b) }
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, other], |[a, b]| a / b) }
    }
    #[inline(always)]
    unsafe fn sqrt(self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self], |[a]| a.sqrt()) }
    }
    #[inline(always)]
    unsafe fn abs(self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self], |[a]| a.abs()) }
    }
    #[inline(always)]
    unsafe fn neg(self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self], |[a]| -a) }
    }
    /// Returns the magnitude of `self` with the sign of `other`.
    #[inline(always)]
    unsafe fn copysign(self, other: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, other], |[a, b]| a.copysign(b)) }
    }
    /// Returns `a < b ? self : other`.
    #[inline(always)]
    unsafe fn if_less(self, a: Self, b: Self, other: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, a, b, other], |[x, a, b, y]| if a < b { x } else { y }) }
    }
    /// Whether [`Self::scale`] takes any n, and saturates: to 0 or infinity for large n, to NaN for
    /// NaN.
    const SATURATES: bool = false;
    /// Whether [`Vector::fma`] rounds once.
    const FUSED: bool = true;
    /// Whether [`Self::eighth`] is one instruction.
    const EIGHTHS: bool = false;
    /// Returns for each lane the entry of [`POWERS_OF_EIGHTHS`] that the lane's last three bits
    /// name.
    #[inline(always)]
    unsafe fn eighth(self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self], |[x]| POWERS_OF_EIGHTHS[x.to_bits() as usize % 8]) }
    }
    /// Returns 2^(k/16) for each lane, where k is the lane's last four bits.
    #[inline(always)]
    unsafe fn root(self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self], |[x]| elementary::SIXTEENTHS[x.to_bits() as usize % 16]) }
    }
    /// Returns `self * 2ⁿ` for an integer n in -252..=254, rounded once if `self` is in 0.7..=2.
    /// With [`Self::SATURATES`], any n is allowed, and the exponent is ⌊n⌋.
    #[inline(always)]
    unsafe fn scale(self, n: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, n], |[x, n]| elementary::scale(x, n)) }
    }
    /// Returns `self` if its magnitude is less than the limit. Otherwise, and for NaN, returns the
    /// limit with either sign.
    #[inline(always)]
    unsafe fn within(self, limit: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, limit], |[a, limit]| if a.abs() < limit { a } else { limit }) }
    }
    /// Applies an operation to lanes that hold integers.
    #[inline(always)]
    unsafe fn word(self, op: WordOp, other: Self) -> Self {
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self, other], |[a, b]| f32::from_bits(op.apply(a.to_bits(), b.to_bits()))) }
    }
    /// Converts lanes that hold signed or unsigned integers to the nearest floats.
    #[inline(always)]
    unsafe fn words_as_floats(self, signed: bool) -> Self {
        let float = |word: u32| if signed { word as i32 as f32 } else { word as f32 };
        // SAFETY: the caller guarantees that the processor has the instructions.
        unsafe { each([self], |[a]| float(a.to_bits())) }
    }
    /// Loads the first `length` numbers at `p`, then zeros.
    #[inline(always)]
    unsafe fn load_part(p: *const f32, length: usize) -> Self {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: the caller guarantees `length` readable numbers at `p`, and that the array has
        // room for them.
        unsafe {
            p.copy_to_nonoverlapping(all.as_mut_ptr(), length);
            Self::load(all.as_ptr())
        }
    }
    /// Stores the first `length` numbers.
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, length: usize) {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: the caller guarantees `length` writable numbers at `p`, and that the array has as
        // many.
        unsafe {
            self.store(all.as_mut_ptr());
            all.as_ptr().copy_to_nonoverlapping(p, length);
        }
    }
    /// Stores with a non-temporal hint, past the caches, where there is an instruction for it.
    #[inline(always)]
    unsafe fn store_past(self, p: *mut f32) {
        // SAFETY: the caller guarantees that `p` is writable for `LANES` numbers.
        unsafe { self.store(p) }
    }
    /// Returns the first `length` numbers, then those of `other`.
    #[inline(always)]
    unsafe fn first(self, length: usize, other: Self) -> Self {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: the array has room for the lanes of any register, and `length` is at most
        // `LANES`.
        unsafe {
            other.store(all.as_mut_ptr());
            self.store_part(all.as_mut_ptr(), length);
            Self::load(all.as_ptr())
        }
    }
    /// Returns `self` in the lanes whose condition is not 0, `other` in the rest.
    #[inline(always)]
    unsafe fn choose(self, conditions: *const u8, other: Self) -> Self {
        let mut chosen = [0.0; MOST_LANES];
        // SAFETY: the caller guarantees `LANES` readable bytes; the array has room for as many
        // numbers.
        unsafe {
            (0..Self::LANES).for_each(|i| chosen[i] = if *conditions.add(i) != 0 { 1.0 } else { 0.0 });
            self.if_less(Self::splat(0.5), Self::load(chosen.as_ptr()), other)
        }
    }
    /// Stores for each lane, as 0 or 1, whether `self` and `other` are in relation `R`.
    #[inline(always)]
    unsafe fn compare<const R: i32>(self, other: Self, to: *mut u8) {
        let (mut a, mut b) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
        // SAFETY: the caller guarantees `LANES` writable bytes. The arrays have room for the lanes
        // of any register.
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
    /// Replaces each register by eˣ.
    #[inline(always)]
    unsafe fn exp_each<const K: usize>(all: &mut [Self; K]) {
        by_groups!(all, elementary::exp);
    }
    /// Replaces each register by its hyperbolic tangent. Like the error function, it needs many
    /// registers: `black_box` keeps those of the caller in memory.
    #[inline(always)]
    unsafe fn tanh_each(all: &mut [Self]) {
        by_groups!(std::hint::black_box(all), elementary::tanh);
    }
    /// Replaces each register by its error function.
    #[inline(always)]
    unsafe fn erf_each(all: &mut [Self]) {
        by_groups!(std::hint::black_box(all), elementary::erf);
    }
}

impl Lanes for Portable<f32, 4> {
    const FUSED: bool = false;
}
#[cfg(test)]
impl Lanes for Portable<f32, 8> {
    const FUSED: bool = false;
}
#[cfg(test)]
impl Lanes for Portable<f32, 16> {
    const FUSED: bool = false;
}

#[cfg(target_arch = "aarch64")]
impl Lanes for std::arch::aarch64::float32x4_t {}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use std::arch::x86_64::*;

    #[allow(unused_unsafe, reason = "where the target has the instructions by default, most intrinsics are safe")]
    // SAFETY of all methods: see `Lanes`.
    impl Lanes for __m512 {
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_sub_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_mul_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_div_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn sqrt(self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_sqrt_ps(self) }
        }
        #[inline(always)]
        unsafe fn abs(self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_andnot_ps(_mm512_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn neg(self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_xor_ps(_mm512_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn copysign(self, other: Self) -> Self {
            // SAFETY: the caller guarantees the instructions. The truth table is
            // `sign ? other : self`, bit by bit.
            unsafe {
                let [sign, a, b] = [_mm512_set1_ps(-0.0), self, other].map(|x| _mm512_castps_si512(x));
                _mm512_castsi512_ps(_mm512_ternarylogic_epi32::<0b1100_1010>(sign, b, a))
            }
        }
        #[inline(always)]
        unsafe fn if_less(self, a: Self, b: Self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<LESS>(a, b), other, self) }
        }
        const SATURATES: bool = true;
        #[inline(always)]
        unsafe fn scale(self, n: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_scalef_ps(self, n) }
        }
        #[inline(always)]
        unsafe fn root(self) -> Self {
            // SAFETY: the caller guarantees the instructions; the table has as many numbers as the
            // register has lanes.
            unsafe {
                _mm512_permutexvar_ps(_mm512_castps_si512(self), _mm512_loadu_ps(elementary::SIXTEENTHS.as_ptr()))
            }
        }
        #[inline(always)]
        unsafe fn within(self, limit: Self) -> Self {
            /// The number of lesser magnitude, with its own sign.
            const LESSER_MAGNITUDE: i32 = 0b0110;
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_range_ps::<LESSER_MAGNITUDE>(self, limit) }
        }
        #[inline(always)]
        unsafe fn word(self, op: WordOp, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
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
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe {
                let a = _mm512_castps_si512(self);
                if signed { _mm512_cvtepi32_ps(a) } else { _mm512_cvtepu32_ps(a) }
            }
        }
        #[inline(always)]
        unsafe fn load_part(p: *const f32, length: usize) -> Self {
            // SAFETY: the caller guarantees the instructions, and `length` readable numbers at `p`.
            unsafe { _mm512_maskz_loadu_ps(part(length), p) }
        }
        #[inline(always)]
        unsafe fn store_past(self, p: *mut f32) {
            // SAFETY: the caller guarantees the instructions, and that `p` is writable and aligned
            // to the register's size.
            unsafe { _mm512_stream_ps(p, self) }
        }
        #[inline(always)]
        unsafe fn store_part(self, p: *mut f32, length: usize) {
            // SAFETY: the caller guarantees the instructions, and `length` writable numbers at `p`.
            unsafe { _mm512_mask_storeu_ps(p, part(length), self) }
        }
        #[inline(always)]
        unsafe fn first(self, length: usize, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm512_mask_blend_ps(part(length), other, self) }
        }
        #[inline(always)]
        unsafe fn choose(self, conditions: *const u8, other: Self) -> Self {
            // SAFETY: the caller guarantees the instructions, and `LANES` readable bytes.
            unsafe {
                let conditions = _mm_loadu_si128(conditions.cast());
                _mm512_mask_blend_ps(_mm_test_epi8_mask(conditions, conditions), other, self)
            }
        }
        #[inline(always)]
        unsafe fn compare<const R: i32>(self, other: Self, to: *mut u8) {
            // SAFETY: the caller guarantees the instructions, and `LANES` writable bytes.
            unsafe { _mm_storeu_si128(to.cast(), _mm_maskz_set1_epi8(_mm512_cmp_ps_mask::<R>(self, other), 1)) }
        }
        #[inline(always)]
        unsafe fn erf_each(all: &mut [Self]) {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { elementary::erf_by_table(all) }
        }
    }

    /// Returns the mask of the lanes below `length`.
    #[inline(always)]
    fn part(length: usize) -> __mmask16 {
        ((1u32 << length) - 1) as __mmask16
    }

    #[allow(unused_unsafe, reason = "as above")]
    // SAFETY of all methods: see `Lanes`.
    impl Lanes for __m256 {
        #[inline(always)]
        unsafe fn store_past(self, p: *mut f32) {
            // SAFETY: the caller guarantees the instructions, and that `p` is writable and aligned
            // to the register's size.
            unsafe { _mm256_stream_ps(p, self) }
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm256_sub_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm256_mul_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm256_div_ps(self, other) }
        }
        #[inline(always)]
        unsafe fn sqrt(self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm256_sqrt_ps(self) }
        }
        #[inline(always)]
        unsafe fn abs(self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm256_andnot_ps(_mm256_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn neg(self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm256_xor_ps(_mm256_set1_ps(-0.0), self) }
        }
        #[inline(always)]
        unsafe fn copysign(self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe {
                let sign = _mm256_set1_ps(-0.0);
                _mm256_or_ps(_mm256_andnot_ps(sign, self), _mm256_and_ps(sign, other))
            }
        }
        #[inline(always)]
        unsafe fn if_less(self, a: Self, b: Self, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe { _mm256_blendv_ps(other, self, _mm256_cmp_ps::<LESS>(a, b)) }
        }
        #[inline(always)]
        unsafe fn word(self, op: WordOp, other: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
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
            // SAFETY: the caller guarantees the instructions. Both halves of a word are exact
            // floats, and their sum is rounded once.
            unsafe {
                let a = _mm256_castps_si256(self);
                let high = if signed { _mm256_srai_epi32::<16>(a) } else { _mm256_srli_epi32::<16>(a) };
                let low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
                _mm256_cvtepi32_ps(low).fma(_mm256_cvtepi32_ps(high), _mm256_set1_ps(65536.0))
            }
        }
        #[inline(always)]
        unsafe fn scale(self, n: Self) -> Self {
            // SAFETY: the caller guarantees that the processor has the instructions.
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
            // SAFETY: the caller guarantees the instructions; the table has as many numbers as the
            // register has lanes.
            unsafe { _mm256_permutevar8x32_ps(_mm256_loadu_ps(POWERS_OF_EIGHTHS.as_ptr()), _mm256_castps_si256(self)) }
        }
        // Almost all arguments are near. One test for all registers costs less than it saves on
        // each; a branch for each register would keep them from being computed side by side.
        #[inline(always)]
        unsafe fn exp_each<const K: usize>(all: &mut [Self; K]) {
            // SAFETY: the caller guarantees that the processor has the instructions.
            unsafe {
                let (mut least, mut greatest) = (_mm256_setzero_ps(), _mm256_setzero_ps());
                for x in &*all {
                    // A NaN leaves both unchanged. Either function maps NaN to NaN.
                    (least, greatest) = (_mm256_min_ps(*x, least), _mm256_max_ps(*x, greatest));
                }
                let near = _mm256_set1_ps(elementary::NEAR);
                let far = [least.neg(), greatest].map(|x| _mm256_cmp_ps::<_CMP_GT_OQ>(x, near));
                if _mm256_testz_ps(_mm256_or_ps(far[0], far[1]), _mm256_set1_ps(-0.0)) == 1 {
                    by_groups!(all, elementary::exp_near);
                } else {
                    let mut copy = *all;
                    by_groups!(std::hint::black_box(&mut copy[..]), elementary::exp);
                    *all = copy;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
