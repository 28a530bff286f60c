//! Operations on registers of f32 beyond [`Vector`], for loops that keep values in registers from
//! one operation to the next.
//!
//! Every method has a default that works on any processor, lane by lane. An instruction set
//! overrides it where it has something faster.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::elementary;
use super::register::{Portable, Vector};
use tile_compiler::native::WordOp;

/// The number of lanes of the widest register.
pub const MOST_LANES: usize = 16;

/// Relations of two numbers, with the encodings of the x86 compare instructions. If either number
/// is NaN, all are false except `NOT_EQUAL`.
pub const EQUAL: i32 = 0;
pub const LESS: i32 = 17;
pub const LESS_OR_EQUAL: i32 = 18;
pub const NOT_EQUAL: i32 = 4;

/// The least float above all i32s.
#[cfg(target_arch = "x86_64")]
const TWO_TO_31: f32 = 2147483648.0;

/// Applies `f` to each lane of some registers. The plain loops are for the compiler's time: chains
/// inline this hundreds of times. In tests it is a function, since they emulate more registers.
#[cfg_attr(not(test), inline(always))]
#[cfg_attr(test, inline(never))]
fn each<L: Lanes, const N: usize>(registers: [L; N], f: impl Fn([f32; N]) -> f32) -> L {
    const { assert!(N > 0 && L::LANES <= MOST_LANES) };
    let (mut all, mut out) = ([[0.0; MOST_LANES]; N], [0.0; MOST_LANES]);
    let mut n = 0;
    while n < N {
        // SAFETY: the array has room for the lanes of any register.
        unsafe { registers[n].store(all[n].as_mut_ptr()) };
        n += 1;
    }
    let mut i = 0;
    while i < L::LANES {
        let mut lane = [0.0; N];
        n = 0;
        while n < N {
            lane[n] = all[n][i];
            n += 1;
        }
        out[i] = f(lane);
        i += 1;
    }
    // SAFETY: the array has the lanes of any register.
    unsafe { L::load(registers[0].proof(), out.as_ptr()) }
}

/// 2^(k/8) for k in 0..8, with k · 2²⁰ subtracted from the bits. [`elementary::exp_near`] adds n ·
/// 2²⁰ to the bits of entry k, where n = 8m + k is a number of eighths. That adds m to the
/// exponent, and k · 2²⁰, which the table makes up for.
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

/// Replaces each register by `f` of it, in groups.
macro_rules! by_groups {
    ($all:expr, $f:path) => {
        let (groups, rest) = $all.as_chunks_mut::<{ $crate::cpu::vector::lanes::TOGETHER }>();
        for group in groups {
            *group = $f(*group);
        }
        for x in rest {
            [*x] = $f([*x]);
        }
    };
}

/// Defines methods of a register that apply instructions to it and to other registers.
#[cfg(target_arch = "x86_64")]
macro_rules! instructions {
    ($($name:ident($($register:ident),+) => $e:expr;)*) => { $(instructions!(@one $name($($register),+) => $e);)* };
    (@one $name:ident($a:ident $(, $b:ident)*) => $e:expr) => {
        #[inline(always)]
        #[allow(unused_unsafe, reason = "where the target has the instructions by default, most intrinsics are safe")]
        fn $name(self $(, $b: Self)*) -> Self {
            let ($a, $($b,)*) = (self.0, $($b.0,)*);
            // SAFETY: the registers prove that the processor has the instructions.
            Self(unsafe { $e }, self.1)
        }
    };
}
#[cfg(target_arch = "x86_64")]
use {by_groups, instructions};

/// A register of f32. As in [`Vector`], only access to memory is unsafe.
pub trait Lanes: Vector<Scalar = f32> {
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        each([self, other], |[a, b]| a - b)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        each([self, other], |[a, b]| a * b)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        each([self, other], |[a, b]| a / b)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        each([self], |[a]| a.sqrt())
    }
    /// Rounds to the nearest integer, halves to the even one.
    #[inline(always)]
    fn rint(self) -> Self {
        each([self], |[a]| a.round_ties_even())
    }
    #[inline(always)]
    fn abs(self) -> Self {
        each([self], |[a]| a.abs())
    }
    #[inline(always)]
    fn neg(self) -> Self {
        each([self], |[a]| -a)
    }
    /// Returns the magnitude of `self` with the sign of `other`.
    #[inline(always)]
    fn copysign(self, other: Self) -> Self {
        each([self, other], |[a, b]| a.copysign(b))
    }
    /// Returns `a < b ? self : other`.
    #[inline(always)]
    fn if_less(self, a: Self, b: Self, other: Self) -> Self {
        each([self, a, b, other], |[x, a, b, y]| if a < b { x } else { y })
    }
    /// Returns every second number from `p` on.
    ///
    /// # Safety
    /// - `p` must be readable for `2 * LANES - 1` numbers.
    #[inline(always)]
    unsafe fn load_apart(proof: Self::Proof, p: *const f32) -> Self {
        let mut out = [0.0; MOST_LANES];
        for (number, to) in out[..Self::LANES].iter_mut().enumerate() {
            // SAFETY: the caller guarantees that the number is readable.
            *to = unsafe { p.add(2 * number).read() };
        }
        // SAFETY: the array has the lanes of any register.
        unsafe { Self::load(proof, out.as_ptr()) }
    }
    /// The greatest span of [`Self::pick`].
    const MOST_SPAN: usize = usize::MAX;
    /// Returns the numbers at `p + index`, for the index of each lane.
    ///
    /// # Safety
    /// - `p` must be readable for `span` numbers, which are at most [`Self::MOST_SPAN`].
    /// - The indices of the lanes must be at least 0 and less than `span`.
    #[inline(always)]
    unsafe fn pick(
        proof: Self::Proof,
        p: *const f32,
        index: &[i32; MOST_LANES],
        _span: usize,
    ) -> Self {
        let mut out = [0.0; MOST_LANES];
        for (to, &index) in out[..Self::LANES].iter_mut().zip(index) {
            // SAFETY: the caller guarantees that the number is readable.
            *to = unsafe { p.offset(index as isize).read() };
        }
        // SAFETY: the array has the lanes of any register.
        unsafe { Self::load(proof, out.as_ptr()) }
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
    fn eighth(self) -> Self {
        each([self], |[x]| POWERS_OF_EIGHTHS[x.to_bits() as usize % 8])
    }
    /// Returns 2^(k/16) for each lane, where k is the lane's last four bits.
    #[inline(always)]
    fn root(self) -> Self {
        each([self], |[x]| elementary::SIXTEENTHS[x.to_bits() as usize % 16])
    }
    /// Returns `self * 2ⁿ` for an integer n in -252..=254, rounded once if `self` is in 0.7..=2.
    /// With [`Self::SATURATES`], any n is allowed, and the exponent is ⌊n⌋.
    #[inline(always)]
    fn scale(self, n: Self) -> Self {
        each([self, n], |[x, n]| elementary::scale(x, n))
    }
    /// Returns `self` if its magnitude is less than the limit. Otherwise, and for NaN, returns the
    /// limit with either sign.
    #[inline(always)]
    fn within(self, limit: Self) -> Self {
        each([self, limit], |[a, limit]| if a.abs() < limit { a } else { limit })
    }
    /// Applies an operation to lanes that hold integers.
    #[inline(always)]
    fn word(self, op: WordOp, other: Self) -> Self {
        each([self, other], |[a, b]| f32::from_bits(op.apply(a.to_bits(), b.to_bits())))
    }
    /// Converts lanes that hold signed or unsigned integers to the nearest floats.
    #[inline(always)]
    fn words_as_floats(self, signed: bool) -> Self {
        let float = |word: u32| if signed { word as i32 as f32 } else { word as f32 };
        each([self], |[a]| float(a.to_bits()))
    }
    /// Converts lanes to i32s, which the lanes hold. They are truncated and saturate, and a NaN
    /// gives 0.
    #[inline(always)]
    fn floats_as_words(self) -> Self {
        each([self], |[a]| f32::from_bits(a as i32 as u32))
    }
    /// Converts lanes to signed or unsigned bytes in the same way. The lanes hold them as integers
    /// of 32 bits.
    #[inline(always)]
    fn floats_as_bytes(self, signed: bool) -> Self {
        let byte = |a: f32| if signed { a as i8 as i32 } else { a as u8 as i32 };
        each([self], |[a]| f32::from_bits(byte(a) as u32))
    }
    /// Converts lanes to bytes as [`Lanes::floats_as_bytes`] does, after rounding to the nearest
    /// integer and adding `offset`, whose lanes are integers that are such bytes.
    #[inline(always)]
    fn floats_as_near_bytes(self, offset: Self, signed: bool) -> Self {
        self.rint().add(offset).floats_as_bytes(signed)
    }
    /// Replaces lanes that hold integers by their last bytes, extended to 32 bits.
    #[inline(always)]
    fn last_bytes(self, signed: bool) -> Self {
        let last = |word: u32| if signed { word as i8 as u32 } else { word as u8 as u32 };
        each([self], |[a]| f32::from_bits(last(a.to_bits())))
    }
    /// Loads signed or unsigned bytes, extended to integers of 32 bits.
    ///
    /// # Safety
    /// - `p` must be readable for `LANES` bytes.
    #[inline(always)]
    unsafe fn load_bytes(proof: Self::Proof, p: *const u8, signed: bool) -> Self {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: the caller guarantees `LANES` readable bytes at `p`. The array has the lanes of
        // any register.
        unsafe {
            for (i, to) in all[..Self::LANES].iter_mut().enumerate() {
                *to = f32::from_bits(*p.add(i) as u32);
            }
            Self::load(proof, all.as_ptr()).last_bytes(signed)
        }
    }
    /// Stores the last byte of each lane, which holds an integer.
    ///
    /// # Safety
    /// - `p` must be writable for `LANES` bytes.
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8) {
        let mut all = [0.0f32; MOST_LANES];
        // SAFETY: the caller guarantees `LANES` writable bytes at `p`. The array has room for the
        // lanes of any register.
        unsafe {
            self.store(all.as_mut_ptr());
            for (i, x) in all[..Self::LANES].iter().enumerate() {
                *p.add(i) = x.to_bits() as u8;
            }
        }
    }
    /// Loads the first `length` numbers at `p`, then zeros.
    ///
    /// # Safety
    /// - `p` must be readable for `length` numbers, at most `LANES`.
    #[inline(always)]
    unsafe fn load_part(proof: Self::Proof, p: *const f32, length: usize) -> Self {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: the caller guarantees `length` readable numbers at `p`, and that the array has
        // room for them.
        unsafe {
            p.copy_to_nonoverlapping(all.as_mut_ptr(), length);
            Self::load(proof, all.as_ptr())
        }
    }
    /// Stores the first `length` numbers.
    ///
    /// # Safety
    /// - `p` must be writable for `length` numbers, at most `LANES`.
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
    ///
    /// # Safety
    /// - `p` must be writable for `LANES` numbers, and aligned to the register's size.
    #[inline(always)]
    unsafe fn store_past(self, p: *mut f32) {
        // SAFETY: the caller guarantees that `p` is writable for `LANES` numbers.
        unsafe { self.store(p) }
    }
    /// Returns the first `length` numbers, then those of `other`.
    #[inline(always)]
    fn first(self, length: usize, other: Self) -> Self {
        let mut all = [0.0; MOST_LANES];
        // SAFETY: the array has room for the lanes of any register.
        unsafe {
            other.store(all.as_mut_ptr());
            self.store_part(all.as_mut_ptr(), length.min(Self::LANES));
            Self::load(self.proof(), all.as_ptr())
        }
    }
    /// Returns `self` in the lanes whose condition is not 0, `other` in the rest.
    ///
    /// # Safety
    /// - `conditions` must be readable for `LANES` bytes.
    #[inline(always)]
    unsafe fn choose(self, conditions: *const u8, other: Self) -> Self {
        let mut chosen = [0.0; MOST_LANES];
        // SAFETY: the caller guarantees `LANES` readable bytes; the array has room for as many
        // numbers.
        unsafe {
            (0..Self::LANES)
                .for_each(|i| chosen[i] = if *conditions.add(i) != 0 { 1.0 } else { 0.0 });
            self.if_less(
                Self::splat(self.proof(), 0.5),
                Self::load(self.proof(), chosen.as_ptr()),
                other,
            )
        }
    }
    /// Stores for each lane, as 0 or 1, whether `self` and `other` are in relation `R`.
    ///
    /// # Safety
    /// - `to` must be writable for `LANES` bytes.
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
    /// Stores for each lane, as 0 or 1, whether the signed integers of `self` and `other` are in
    /// relation `R`.
    ///
    /// # Safety
    /// - `to` must be writable for `LANES` bytes.
    #[inline(always)]
    unsafe fn compare_words<const R: i32>(self, other: Self, to: *mut u8) {
        let (mut a, mut b) = ([0i32; MOST_LANES], [0i32; MOST_LANES]);
        // SAFETY: the caller guarantees `LANES` writable bytes. The arrays have room for the lanes
        // of any register.
        unsafe {
            self.store(a.as_mut_ptr().cast());
            other.store(b.as_mut_ptr().cast());
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
    fn exp_each<const K: usize>(all: &mut [Self; K]) {
        by_groups!(all, elementary::exp);
    }
    /// Replaces each register by its hyperbolic tangent. Like the error function, it needs many
    /// registers: `black_box` keeps those of the caller in memory.
    #[inline(always)]
    fn tanh_each(all: &mut [Self]) {
        by_groups!(std::hint::black_box(all), elementary::tanh);
    }
    /// Replaces each register by its error function.
    #[inline(always)]
    fn erf_each(all: &mut [Self]) {
        by_groups!(std::hint::black_box(all), elementary::erf);
    }
    /// Replaces each register by 1 / (1 + e⁻ˣ).
    #[inline(always)]
    fn sigmoid_each(all: &mut [Self]) {
        by_groups!(std::hint::black_box(all), elementary::sigmoid);
    }
}

impl Lanes for Portable<f32, 1> {
    const FUSED: bool = false;
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
impl Lanes for super::register::F32x4 {
    #[inline(always)]
    unsafe fn load_apart(proof: crate::cpu::vector::Neon, p: *const f32) -> Self {
        use std::arch::aarch64::*;
        // SAFETY: the proof says that the processor has the instructions. The loads read the 7
        // numbers that the caller guarantees to be readable; the second begins with an odd one.
        unsafe {
            let (low, high) = (vld1q_f32(p), vld1q_f32(p.add(3)));
            super::register::Proven(
                vcombine_f32(
                    vget_low_f32(vuzp1q_f32(low, low)),
                    vget_low_f32(vuzp2q_f32(high, high)),
                ),
                proof,
            )
        }
    }
}

#[cfg(test)]
mod tests;
