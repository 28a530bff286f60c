//! One strip: a few registers that go through a chain's operations.

use super::code::{ChunkPointer, Code, Op};
use crate::cpu::vector::lanes::{EQUAL, LESS, LESS_OR_EQUAL, Lanes, MOST_LANES, NOT_EQUAL};
use tile_compiler::native::WordOp;

/// The f32s of a cache line.
const LINE: usize = 16;

/// Combines registers pair by pair.
macro_rules! paired {
    ($x:expr, $k:expr, $combine:ident) => {{
        const { assert!($k.is_power_of_two()) };
        let mut all = $x;
        let mut half = $k / 2;
        while half > 0 {
            for k in 0..half {
                all[k] = all[k].$combine(all[k + half]);
            }
            half /= 2;
        }
        all[0]
    }};
}
pub(super) use paired;

/// Returns the greatest or least of a value and of registers. The value, which is no NaN, comes
/// first in each comparison: a NaN there would stay, whatever it is compared with.
macro_rules! extreme {
    ($value:expr, $x:expr, $k:expr, $combine:ident) => {{
        let value = $value;
        let mut all = $x;
        for x in &mut all {
            *x = value.$combine(*x);
        }
        paired!(all, $k, $combine)
    }};
}
pub(super) use extreme;

/// A strip's part of the chunk: some registers from element `at` on. A `PART` of one register has
/// only the first `length` elements.
///
/// # Safety of the methods
/// - The contract of [`super::run`], for the operation with these places.
/// - The strip must lie in the current row, and `length` must be at most one register.
#[derive(Clone, Copy)]
pub struct Strip<P, const PART: bool> {
    proof: P,
    at: usize,
    length: usize,
}

impl<P> Strip<P, false> {
    /// Creates a strip of whole registers.
    #[inline(always)]
    pub fn whole(proof: P, at: usize) -> Self {
        Self { proof, at, length: 0 }
    }
}

impl<P> Strip<P, true> {
    /// Creates a strip of a part of a register.
    #[inline(always)]
    pub fn part(proof: P, at: usize, length: usize) -> Self {
        Self { proof, at, length }
    }
}

impl<P: Copy, const PART: bool> Strip<P, PART> {
    /// Returns the address of register `k` at a place of `T`s.
    #[inline(always)]
    fn address<L: Lanes, T>(self, place: ChunkPointer, k: usize) -> *mut T {
        place.at(self.at, k * L::LANES, size_of::<T>()).cast()
    }

    /// Loads register `k` at a place.
    #[inline(always)]
    unsafe fn load<L: Lanes<Proof = P>>(self, place: ChunkPointer, k: usize) -> L {
        let p = self.address::<L, f32>(place, k);
        // SAFETY: the caller guarantees that the place is readable for the strip's elements.
        unsafe {
            if PART { L::load_part(self.proof, p, self.length) } else { L::load(self.proof, p) }
        }
    }

    /// Stores register `k` at an elementwise place.
    #[inline(always)]
    unsafe fn store<L: Lanes>(self, place: ChunkPointer, k: usize, x: L) {
        let p = place.start.cast::<f32>().wrapping_add(self.at + k * L::LANES);
        // SAFETY: the caller guarantees that the place is writable for the strip's elements.
        unsafe { if PART { x.store_part(p, self.length) } else { x.store(p) } }
    }

    /// Stores the registers at an aligned place, past the caches.
    #[inline(always)]
    unsafe fn store_past<L: Lanes, const K: usize>(self, place: ChunkPointer, x: &[L; K]) {
        for (k, x) in x.iter().enumerate() {
            let p = self.address::<L, f32>(place, k);
            // SAFETY: the caller guarantees that the place is writable for the strip's elements,
            // and aligned.
            unsafe { if PART { x.store_part(p, self.length) } else { x.store_past(p) } }
        }
    }

    /// Loads register `k` at an elementwise place of bytes, which become integers of 32 bits.
    #[inline(always)]
    unsafe fn load_bytes<L: Lanes<Proof = P>>(
        self,
        place: ChunkPointer,
        k: usize,
        signed: bool,
    ) -> L {
        let p = self.address::<L, u8>(place, k);
        // SAFETY: the caller guarantees that the place is readable for the strip's bytes. The array
        // has as many as any register.
        unsafe {
            if PART {
                let mut all = [0; MOST_LANES];
                p.copy_to_nonoverlapping(all.as_mut_ptr(), self.length);
                L::load_bytes(self.proof, all.as_ptr(), signed)
            } else {
                L::load_bytes(self.proof, p, signed)
            }
        }
    }

    /// Stores the last bytes of the registers at an elementwise place.
    #[inline(always)]
    unsafe fn store_bytes<L: Lanes, const K: usize>(self, place: ChunkPointer, x: &[L; K]) {
        for (k, x) in x.iter().enumerate() {
            let p = self.address::<L, u8>(place, k);
            // SAFETY: the caller guarantees that the place is writable for the strip's bytes. The
            // array has as many as any register.
            unsafe {
                if PART {
                    let mut all = [0; MOST_LANES];
                    x.store_bytes(all.as_mut_ptr());
                    all.as_ptr().copy_to_nonoverlapping(p, self.length);
                } else {
                    x.store_bytes(p);
                }
            }
        }
    }

    /// Returns register `k`: `then` where the condition at a place holds, else `otherwise`.
    #[inline(always)]
    unsafe fn choose<L: Lanes>(self, place: ChunkPointer, k: usize, then: L, otherwise: L) -> L {
        let conditions = self.address::<L, u8>(place, k);
        // SAFETY: the caller guarantees that the place is readable for the strip's conditions. The
        // array has as many as any register.
        unsafe {
            if PART {
                let mut all = [0; MOST_LANES];
                conditions.copy_to_nonoverlapping(all.as_mut_ptr(), self.length);
                then.choose(all.as_ptr(), otherwise)
            } else {
                then.choose(conditions, otherwise)
            }
        }
    }

    /// Stores whether `x` is in relation `R` to what is at `a`, or if `SWAPPED`, that to `x`. Both
    /// are signed integers if `words`.
    #[inline(always)]
    unsafe fn compare<L: Lanes<Proof = P>, const K: usize, const R: i32, const SWAPPED: bool>(
        self,
        words: bool,
        x: &[L; K],
        a: ChunkPointer,
        to: ChunkPointer,
    ) {
        for (k, x) in x.iter().enumerate() {
            let to = self.address::<L, u8>(to, k);
            // SAFETY: the caller guarantees that `a` is readable for the strip's elements, and `to`
            // writable for as many bytes. The array has as many as any register.
            unsafe {
                let with = self.load::<L>(a, k);
                let (left, right) = if SWAPPED { (with, *x) } else { (*x, with) };
                let mut all = [0; MOST_LANES];
                let whole = if PART { all.as_mut_ptr() } else { to };
                if words {
                    left.compare_words::<R>(right, whole);
                } else {
                    left.compare::<R>(right, whole);
                }
                if PART {
                    all.as_ptr().copy_to_nonoverlapping(to, self.length);
                }
            }
        }
    }

    /// Stores whether `x` is in the relation of the operation to what is at `a`.
    #[inline(always)]
    unsafe fn relate<L: Lanes<Proof = P>, const K: usize>(
        self,
        code: Code,
        x: &[L; K],
        a: ChunkPointer,
        to: ChunkPointer,
    ) {
        // SAFETY: the contract is the same.
        unsafe {
            match code {
                Code::Equal => self.compare::<L, K, EQUAL, false>(false, x, a, to),
                Code::NotEqual => self.compare::<L, K, NOT_EQUAL, false>(false, x, a, to),
                Code::Less => self.compare::<L, K, LESS, false>(false, x, a, to),
                Code::LessOrEqual => self.compare::<L, K, LESS_OR_EQUAL, false>(false, x, a, to),
                Code::Greater => self.compare::<L, K, LESS, true>(false, x, a, to),
                Code::GreaterOrEqual => self.compare::<L, K, LESS_OR_EQUAL, true>(false, x, a, to),
                Code::WordsEqual => self.compare::<L, K, EQUAL, false>(true, x, a, to),
                Code::WordsNotEqual => self.compare::<L, K, NOT_EQUAL, false>(true, x, a, to),
                Code::WordsLess => self.compare::<L, K, LESS, false>(true, x, a, to),
                Code::WordsLessOrEqual => {
                    self.compare::<L, K, LESS_OR_EQUAL, false>(true, x, a, to)
                }
                Code::WordsGreater => self.compare::<L, K, LESS, true>(true, x, a, to),
                Code::WordsGreaterOrEqual => {
                    self.compare::<L, K, LESS_OR_EQUAL, true>(true, x, a, to)
                }
                code => unreachable!("{code:?} is no relation"),
            }
        }
    }

    /// Applies an operation on integers to `x` and what is at `a`.
    #[inline(always)]
    unsafe fn words<L: Lanes<Proof = P>, const K: usize>(
        self,
        op: WordOp,
        mut x: [L; K],
        a: ChunkPointer,
    ) -> [L; K] {
        macro_rules! each {
            ($($op:ident)*) => {
                match op {
                    $(WordOp::$op => {
                        for k in 0..K {
                            // SAFETY: the caller guarantees that `a` is readable.
                            x[k] = x[k].word(WordOp::$op, unsafe { self.load(a, k) });
                        }
                    })*
                }
            };
        }
        each!(Add Sub Mul And Or Xor ShiftLeft ShiftRight ShiftRightSigned RotateLeft Max Min);
        x
    }

    /// Applies an operation on integers to `x` and what is at `a`, and multiplies the results, as
    /// floats, by what is at `b`.
    #[inline(always)]
    unsafe fn scale<L: Lanes<Proof = P>, const K: usize>(
        self,
        op: WordOp,
        mut x: [L; K],
        a: ChunkPointer,
        b: ChunkPointer,
    ) -> [L; K] {
        for (k, x) in x.iter_mut().enumerate() {
            // SAFETY: the caller guarantees that `a` and `b` are readable.
            let (a, b) = unsafe { (self.load(a, k), self.load(b, k)) };
            *x = x.word(op, a).words_as_floats(true).mul(b);
        }
        x
    }

    /// Multiplies the integers `x`, as floats, by what is at `a`, and adds what is at `b`.
    #[inline(always)]
    unsafe fn scale_add<L: Lanes<Proof = P>, const K: usize>(
        self,
        mut x: [L; K],
        a: ChunkPointer,
        b: ChunkPointer,
    ) -> [L; K] {
        for (k, x) in x.iter_mut().enumerate() {
            // SAFETY: the caller guarantees that `a` and `b` are readable.
            let (a, b) = unsafe { (self.load(a, k), self.load::<L>(b, k)) };
            *x = b.fma(x.words_as_floats(true), a);
        }
        x
    }

    /// Rounds `x` and adds the number at `a`, as bytes.
    #[inline(always)]
    unsafe fn near_bytes<L: Lanes<Proof = P>, const K: usize>(
        self,
        signed: bool,
        mut x: [L; K],
        a: ChunkPointer,
    ) -> [L; K] {
        // SAFETY: the caller guarantees that `a` is readable.
        let offset = unsafe { self.load(a, 0) };
        for x in &mut x {
            *x = x.floats_as_near_bytes(offset, signed);
        }
        x
    }
}

/// Prefetches the cache line at `p`, which may be any address, for reading or for writing.
#[inline(always)]
fn prefetch<const WRITE: bool>(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory, whatever the address.
        unsafe {
            if WRITE {
                _mm_prefetch::<_MM_HINT_ET0>(p.cast())
            } else {
                _mm_prefetch::<_MM_HINT_T0>(p.cast())
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Prefetches the cache lines of `bytes` bytes at `p`, which may be any address, for reading or for
/// writing.
pub fn prefetch_all<const WRITE: bool>(p: *const u8, bytes: usize) {
    let line = LINE * size_of::<f32>();
    let before = p.addr() % line;
    for at in (0..before + bytes).step_by(line) {
        prefetch::<WRITE>(p.wrapping_sub(before).wrapping_add(at));
    }
}

/// Prefetches a strip of `K` registers at a place, from element `at` of the chunk on.
#[inline(always)]
pub fn fetch<L: Lanes, const K: usize, const WRITE: bool>(place: ChunkPointer, at: usize) {
    // The first register of a line prefetches all of it.
    for k in (0..K).step_by((LINE / L::LANES).max(1)) {
        prefetch::<WRITE>(place.at(at, k * L::LANES, size_of::<f32>()));
    }
}

/// Runs all operations on one strip of `K` registers.
///
/// # Safety
/// - The contract of [`super::run`].
/// - The strip must lie in the current row.
#[inline(always)]
pub unsafe fn one<L: Lanes, const K: usize, const PART: bool>(
    strip: Strip<L::Proof, PART>,
    from: ChunkPointer,
    ops: &[Op],
) {
    // SAFETY: the caller guarantees the contract of `run` and that the strip lies in the current
    // row.
    unsafe {
        let mut x = [L::splat(strip.proof, 0.0); K];
        if !from.is_none() {
            for (k, x) in x.iter_mut().enumerate() {
                *x = strip.load(from, k);
            }
        }
        for op in ops {
            apply::<L, K, PART>(strip, op.code, &mut x, op.a, op.b);
            if !op.keep.is_none() {
                for (k, x) in x.iter().enumerate() {
                    strip.store(op.keep, k, *x);
                }
            }
        }
    }
}

/// Assigns an expression to each of the `K` registers of `x`.
macro_rules! each {
    ($x:ident, $k:ident => $e:expr) => {
        for $k in 0..K {
            $x[$k] = $e;
        }
    };
}

/// Applies a function to a copy of `x`, so that `x` itself stays in registers.
macro_rules! on_copy {
    ($x:ident, $function:ident) => {{
        let mut all = $x;
        L::$function(&mut all);
        $x = all;
    }};
}

/// Replaces the row's aggregate at a place by `$next`, made of it and of the registers.
macro_rules! aggregate {
    ($strip:ident, $place:ident, $sum:ident => $next:expr) => {{
        let sums = $place.start.cast::<f32>();
        let $sum = L::load($strip.proof, sums);
        let next = $next;
        if PART { next.first($strip.length, $sum) } else { next }.store(sums);
    }};
}

/// Applies one operation to a strip of `K` registers.
///
/// # Safety
/// - The contract of [`super::run`].
/// - The strip must lie in the current row.
#[inline(always)]
unsafe fn apply<L: Lanes, const K: usize, const PART: bool>(
    strip: Strip<L::Proof, PART>,
    code: Code,
    to: &mut [L; K],
    a: ChunkPointer,
    b: ChunkPointer,
) {
    let mut x = *to;
    // SAFETY: the caller guarantees the contract of `run` and that the strip lies in the current
    // row.
    unsafe {
        match code {
            Code::Nothing => {}
            Code::Take => each!(x, k => strip.load(a, k)),
            Code::Add => each!(x, k => x[k].add(strip.load(a, k))),
            Code::Sub => each!(x, k => x[k].sub(strip.load(a, k))),
            Code::SubFrom => each!(x, k => strip.load::<L>(a, k).sub(x[k])),
            Code::Mul => each!(x, k => x[k].mul(strip.load(a, k))),
            Code::Div => each!(x, k => x[k].div(strip.load(a, k))),
            Code::DivInto => each!(x, k => strip.load::<L>(a, k).div(x[k])),
            Code::DivEvenly => {
                let (high, low) = (strip.load(a, 0), strip.load(b, 0));
                each!(x, k => x[k].mul(low).fma(x[k], high));
            }
            Code::Max => each!(x, k => x[k].max(strip.load(a, k))),
            Code::MaxOf => each!(x, k => strip.load::<L>(a, k).max(x[k])),
            Code::Min => each!(x, k => x[k].min(strip.load(a, k))),
            Code::MinOf => each!(x, k => strip.load::<L>(a, k).min(x[k])),
            Code::MulAdd => each!(x, k => strip.load::<L>(b, k).fma(x[k], strip.load(a, k))),
            Code::MulSub => each!(x, k => strip.load::<L>(b, k).neg().fma(x[k], strip.load(a, k))),
            Code::MulSubFrom => {
                each!(x, k => strip.load::<L>(b, k).fma(x[k].neg(), strip.load(a, k)))
            }
            Code::AddMul => each!(x, k => x[k].fma(strip.load(a, k), strip.load(b, k))),
            Code::Square => each!(x, k => x[k].mul(x[k])),
            Code::Neg => each!(x, k => x[k].neg()),
            Code::Abs => each!(x, k => x[k].abs()),
            Code::Sqrt => each!(x, k => x[k].sqrt()),
            Code::Recip => each!(x, k => L::splat(strip.proof, 1.0).div(x[k])),
            Code::Rint => each!(x, k => x[k].rint()),
            Code::Rsqrt => each!(x, k => L::splat(strip.proof, 1.0).div(x[k].sqrt())),
            Code::Exp => L::exp_each(&mut x),
            Code::ExpSub => {
                each!(x, k => x[k].sub(strip.load(a, k)));
                L::exp_each(&mut x);
            }
            Code::Tanh => on_copy!(x, tanh_each),
            Code::Erf => on_copy!(x, erf_each),
            Code::Sigmoid => on_copy!(x, sigmoid_each),
            Code::Word(op) => x = strip.words(op, x, a),
            Code::FromSigned => each!(x, k => x[k].words_as_floats(true)),
            Code::FromUnsigned => each!(x, k => x[k].words_as_floats(false)),
            Code::ToSigned => each!(x, k => x[k].floats_as_words()),
            Code::ToSignedByte => each!(x, k => x[k].floats_as_bytes(true)),
            Code::ToUnsignedByte => each!(x, k => x[k].floats_as_bytes(false)),
            Code::ScaleSum => x = strip.scale(WordOp::Add, x, a, b),
            Code::ScaleDifference => x = strip.scale(WordOp::Sub, x, a, b),
            Code::ScaleAdd => x = strip.scale_add(x, a, b),
            Code::NearSignedByte => x = strip.near_bytes(true, x, a),
            Code::NearUnsignedByte => x = strip.near_bytes(false, x, a),
            Code::SignedByte => each!(x, k => x[k].last_bytes(true)),
            Code::UnsignedByte => each!(x, k => x[k].last_bytes(false)),
            Code::TakeSignedBytes => each!(x, k => strip.load_bytes(a, k, true)),
            Code::TakeUnsignedBytes => each!(x, k => strip.load_bytes(a, k, false)),
            Code::KeepBytes => strip.store_bytes(a, &x),
            Code::ReplaceWhere => each!(x, k => strip.choose(a, k, strip.load(b, k), x[k])),
            Code::ReplaceElse => each!(x, k => strip.choose(a, k, x[k], strip.load(b, k))),
            Code::KeepPast => strip.store_past(a, &x),
            Code::Fetch => fetch::<L, K, false>(a, strip.at),
            Code::FetchToWrite => fetch::<L, K, true>(a, strip.at),
            Code::Sum => aggregate!(strip, a, sum => sum.add(paired!(x, K, add))),
            Code::Greatest => aggregate!(strip, a, sum => extreme!(sum, x, K, max)),
            Code::Least => aggregate!(strip, a, sum => extreme!(sum, x, K, min)),
            relation => strip.relate(relation, &x, a, b),
        }
    }
    *to = x;
}
