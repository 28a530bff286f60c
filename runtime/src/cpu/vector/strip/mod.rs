//! Execution of chains. A chunk is processed row by row, and a row in strips of a few registers.
//! Each strip goes through all operations of the chain before the next strip begins.

use super::lanes::{EQUAL, LESS, LESS_OR_EQUAL, Lanes, MOST_LANES, NOT_EQUAL, WordOp};
use super::{Level, level};
use std::ops::Range;
use tile_compiler::scalar::UnaryOp;

/// The registers of a strip.
const REGISTERS: usize = 8;
/// The registers of a strip for the rest of a row.
const FEWER: usize = 4;
/// The alignment, in bytes, that non-temporal stores need: the size of the widest register.
pub const ALIGNED: usize = MOST_LANES * size_of::<f32>();

/// The f32s of a cache line.
const LINE: usize = 16;

/// An operation on a strip's value `x` and the values at the places `a` and `b`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Code {
    Nothing,
    /// `a`
    Take,
    Add,
    Sub,
    /// `a - x`
    SubFrom,
    Mul,
    Div,
    /// `a / x`
    DivInto,
    /// Divides `x` by the two parts of a divisor's [`reciprocal`](super::reciprocal).
    DivEvenly,
    /// `x < a ? a : x`
    Max,
    /// `a < x ? x : a`
    MaxOf,
    /// `a < x ? a : x`
    Min,
    /// `x < a ? x : a`
    MinOf,
    /// `x * a + b`
    MulAdd,
    /// `x * a - b`
    MulSub,
    /// `b - x * a`
    MulSubFrom,
    /// `a * b + x`
    AddMul,
    Square,
    Neg,
    Abs,
    Sqrt,
    Recip,
    Rsqrt,
    Exp,
    /// `exp(x - a)`
    ExpSub,
    Tanh,
    Erf,
    /// `x op a`, on 32-bit integers.
    Word(WordOp),
    /// The floats nearest to signed or unsigned 32-bit integers.
    FromSigned,
    FromUnsigned,
    /// `b` where the condition at `a` holds, else `x`.
    ReplaceWhere,
    /// `x` where the condition at `a` holds, else `b`.
    ReplaceElse,
    /// These store at `b` whether `x` and `a` are in the relation.
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Stores `x` at `a` with non-temporal stores, past the caches, where the processor has them.
    /// The address of every register must be [`ALIGNED`]. Other threads see the values after a
    /// [`fence`].
    KeepPast,
    /// Prefetches `a` for reading.
    Fetch,
    /// Prefetches `a` for writing.
    FetchToWrite,
    /// Adds up `x` over a row in the register at `a`, and stores the row's sum at `b`.
    Sum,
    /// The same for the maximum.
    Greatest,
    /// The same for the minimum.
    Least,
}

impl Code {
    /// Returns the aggregate of no values, for operations that aggregate.
    fn identity(self) -> Option<f32> {
        match self {
            Code::Sum => Some(0.0),
            Code::Greatest => Some(f32::NEG_INFINITY),
            Code::Least => Some(f32::INFINITY),
            _ => None,
        }
    }
}

/// The place of a chunk's numbers (or conditions): one for each element, or one register for each
/// row. It is two words, so that it is passed in registers.
#[derive(Clone, Copy)]
pub struct Place {
    pub start: *mut u8,
    /// For a register for each row, the bytes from one row's to the next. Negative for one number
    /// for each element.
    pub row: isize,
}

// SAFETY: it is only an address. Accessing the memory there is the unsafe operation.
unsafe impl Send for Place {}

impl Place {
    /// No place.
    pub const NONE: Place = Place::rows(std::ptr::null_mut(), 0);

    /// Creates a place with one number for each element of the chunk.
    pub const fn elements(start: *mut u8) -> Self {
        Place { start, row: -1 }
    }

    /// Creates a place with one register for each row, `row` bytes apart.
    pub const fn rows(start: *mut u8, row: usize) -> Self {
        Place { start, row: row as isize }
    }

    /// Returns the address of the chunk's element number `element + after`, each of `bytes` bytes,
    /// or that of the current row's register.
    #[inline(always)]
    fn at(self, element: usize, after: usize, bytes: usize) -> *mut u8 {
        // Branch-free: the mask is all ones or 0.
        let mask = (self.row >> (isize::BITS - 1)) as usize;
        self.start.wrapping_add((element * bytes) & mask).wrapping_add(after * (bytes & mask))
    }

    /// Returns whether this is [`Place::NONE`].
    pub fn is_none(self) -> bool {
        self.start.is_null()
    }

    /// Moves on to the next row.
    #[inline(always)]
    fn advance(&mut self) {
        self.start = self.start.wrapping_offset(self.row.max(0));
    }
}

/// One operation of a chain, with its places. If `keep` is not [`Place::NONE`], the resulting `x`
/// is stored there, element by element.
#[derive(Clone, Copy)]
pub struct Op {
    pub code: Code,
    pub a: Place,
    pub b: Place,
    pub keep: Place,
}

impl Op {
    /// Creates an operation whose result is not stored.
    pub fn new(code: Code, a: Place, b: Place) -> Self {
        Self { code, a, b, keep: Place::NONE }
    }
}

/// Runs a chain's operations over `rows` rows of `length` elements, on the values at `from`. The
/// places in `ops` are unspecified afterwards.
///
/// # Safety
/// An *elementwise* place has one number for each of the chunk's `rows * length` elements, a *row*
/// place a register of [`MOST_LANES`] numbers for each row.
/// - Elementwise operand (`from`, `a`, `b`): readable for all elements, of f32, or of bytes for
///   conditions.
/// - Row operand: readable for a register in each row, and not written by any operation.
/// - `keep`, `b` of a comparison, `a` of [`Code::KeepPast`]: elementwise, and writable for all
///   elements.
/// - `a` of an aggregate: a row place, readable and writable for a register in each row.
/// - `b` of an aggregate: writable for one f32 in each row. It may overlap elements of this row and
///   of rows before it, which the chain has finished by then.
/// - `a` and `b` of an aggregate are aligned to 4 bytes.
/// - Aliasing: an element that is written may overlap other elementwise places at the same element
///   only.
/// - [`Code::KeepPast`]: the place is aligned to [`ALIGNED`] bytes, and rows, if there are several,
///   have whole registers. Nobody reads the elements before a [`fence`].
/// - [`Code::Fetch`], [`Code::FetchToWrite`]: any address.
pub unsafe fn run(from: Place, ops: &mut [Op], length: usize, rows: usize) {
    #[cfg(test)]
    if let Some(set) = super::emulated::Emulated::current() {
        // SAFETY: the contract is that of `run`, and emulation needs no special instructions.
        return unsafe { tests::emulated(set)(from, ops, length, rows) };
    }
    // SAFETY: the contract is that of `run`, and `level` detected the level's instructions; every
    // aarch64 target with a standard library has Neon.
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::avx512(from, ops, length, rows),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::avx2(from, ops, length, rows),
            #[cfg(target_arch = "aarch64")]
            Level::Baseline => strips::<std::arch::aarch64::float32x4_t>(from, ops, length, rows),
            #[cfg(not(target_arch = "aarch64"))]
            Level::Baseline => strips::<super::register::Portable<f32, 4>>(from, ops, length, rows),
        }
    }
}

/// Orders this thread's non-temporal stores before all of its later stores.
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: it only waits, and every x86-64 processor has it.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Prefetches the cache line at `p`, which may be any address, for reading or for writing.
#[inline(always)]
fn prefetch<const WRITE: bool>(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no effect on memory, whatever the address.
        unsafe { if WRITE { _mm_prefetch::<_MM_HINT_ET0>(p.cast()) } else { _mm_prefetch::<_MM_HINT_T0>(p.cast()) } }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// Prefetches a strip of `K` registers at a place, from element `at` of the chunk on.
#[inline(always)]
fn ask<L: Lanes, const K: usize, const WRITE: bool>(place: Place, at: usize) {
    // The first register of a line prefetches all of it.
    for k in (0..K).step_by((LINE / L::LANES).max(1)) {
        prefetch::<WRITE>(place.at(at, k * L::LANES, size_of::<f32>()));
    }
}

/// Computes `out = op(x)` for functions that are implemented here. Returns false for others and
/// leaves `out` unchanged.
pub fn unary(op: UnaryOp, x: &[f32], out: &mut [f32]) -> bool {
    let code = match op {
        UnaryOp::Exp => Code::Exp,
        UnaryOp::Tanh => Code::Tanh,
        UnaryOp::Erf => Code::Erf,
        _ => return false,
    };
    let from = Place::elements(x.as_ptr().cast_mut().cast());
    let to = Place::elements(out.as_mut_ptr().cast());
    let op = Op { keep: to, ..Op::new(code, Place::NONE, Place::NONE) };
    // SAFETY: both places are elementwise with this many f32s, `out` is writable, and the two
    // slices do not overlap.
    unsafe { run(from, &mut [op], x.len().min(out.len()), 1) };
    true
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Op, Place, strips};
    use std::arch::x86_64::{__m256, __m512};

    /// Runs [`strips`] with AVX-512.
    ///
    /// # Safety
    /// - The contract of [`super::run`].
    /// - The processor must have the enabled features.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    pub unsafe fn avx512(from: Place, ops: &mut [Op], length: usize, rows: usize) {
        // SAFETY: the contract is the same, and this function enables the features.
        unsafe { strips::<__m512>(from, ops, length, rows) }
    }

    /// Runs [`strips`] with AVX2.
    ///
    /// # Safety
    /// - The contract of [`super::run`].
    /// - The processor must have the enabled features.
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    pub unsafe fn avx2(from: Place, ops: &mut [Op], length: usize, rows: usize) {
        // SAFETY: the contract is the same, and this function enables the features.
        unsafe { strips::<__m256>(from, ops, length, rows) }
    }
}

/// Runs a chain's operations with registers `L`.
///
/// # Safety
/// - The contract of [`run`].
/// - The processor must have the register's instructions.
#[inline(always)]
unsafe fn strips<L: Lanes>(mut from: Place, ops: &mut [Op], length: usize, rows: usize) {
    let (strip, shorter) = (REGISTERS * L::LANES, FEWER * L::LANES);
    // SAFETY: the caller guarantees the contract for the whole chunk. Each strip below is a part of
    // it: `at` plus the strip's elements never exceeds the row's `end`.
    unsafe {
        // No closures take registers here: they would be compiled without the target features, and
        // would get registers in memory.
        for row in 0..rows {
            for Op { code, a, .. } in &*ops {
                if let Some(identity) = code.identity() {
                    L::splat(identity).store(a.start.cast());
                }
            }
            let (mut at, end) = (row * length, (row + 1) * length);
            if length >= strip
                && from.row < 0
                && let Some((asked, op, aggregate)) = lone(ops)
            {
                at = all_strips::<L>(from.start.cast(), &ops[..asked], op, aggregate, at..end);
            }
            while end - at >= strip {
                one::<L, REGISTERS, false>(from, ops, at, 0);
                at += strip;
            }
            while end - at >= shorter {
                one::<L, FEWER, false>(from, ops, at, 0);
                at += shorter;
            }
            while end - at >= L::LANES {
                one::<L, 1, false>(from, ops, at, 0);
                at += L::LANES;
            }
            if at < end {
                one::<L, 1, true>(from, ops, at, end - at);
            }
            for Op { code, a, b, .. } in &mut *ops {
                macro_rules! whole {
                    ($one:expr) => {{
                        let sums = a.start.cast::<f32>();
                        let mut half = L::LANES / 2;
                        while half > 0 {
                            for k in 0..half {
                                *sums.add(k) = $one(*sums.add(k), *sums.add(k + half));
                            }
                            half /= 2;
                        }
                        *b.start.cast::<f32>() = *sums;
                    }};
                }
                match code {
                    Code::Sum => whole!(|a: f32, b: f32| a + b),
                    Code::Greatest => whole!(|a: f32, b: f32| if a < b { b } else { a }),
                    Code::Least => whole!(|a: f32, b: f32| if b < a { b } else { a }),
                    _ => {}
                }
                a.advance();
                b.advance();
            }
            from.advance();
        }
    }
}

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

/// The operations with a loop of their own. Chains that do only one of them between loads and
/// stores are common, and short compared with dispatching on the operation for each strip.
const LONE: [Code; 3] = [Code::Nothing, Code::ExpSub, Code::DivEvenly];

/// Recognises a chain that has a loop of its own. Returns the number of prefetches at its start,
/// the operation after them, and the aggregate of its results. The operands of the operation are
/// row places.
#[inline(always)]
fn lone(ops: &[Op]) -> Option<(usize, Op, Option<Op>)> {
    let first = ops.iter().position(|op| !matches!(op.code, Code::Fetch | Code::FetchToWrite))?;
    let (op, aggregate) = match ops[first..] {
        [aggregate] if aggregate.code.identity().is_some() => {
            (Op::new(Code::Nothing, Place::NONE, Place::NONE), Some(aggregate))
        }
        [op] => (op, None),
        [op, aggregate] if aggregate.code.identity().is_some() => (op, Some(aggregate)),
        _ => return None,
    };
    let is_kept = aggregate.is_some_and(|op| !op.keep.is_none());
    let is_of_rows = op.a.row >= 0 && op.b.row >= 0;
    (LONE.contains(&op.code) && is_of_rows && !is_kept).then_some((first, op, aggregate))
}

/// Runs one operation and an aggregate over the whole strips of a row's `elements`, read at `from`.
/// Returns the end of the last strip.
///
/// # Safety
/// - The contract of [`strips`], with an elementwise place at `from`.
/// - `asked`, `op` and `aggregate` must be those that [`lone`] returns.
#[inline(always)]
unsafe fn all_strips<L: Lanes>(
    from: *const f32,
    asked: &[Op],
    op: Op,
    aggregate: Option<Op>,
    elements: Range<usize>,
) -> usize {
    const K: usize = REGISTERS;
    let Range { start: mut at, end } = elements;
    // SAFETY: the caller guarantees the contract of `strips`; each strip ends at or before `end`.
    // The operands of `op` and of the aggregate are row places, so a register is readable there.
    unsafe {
        let mut sum = aggregate.map_or(L::splat(0.0), |op| L::load(op.a.start.cast()));
        let combine = aggregate.map_or(Code::Nothing, |op| op.code);
        macro_rules! rows {
            ($x:ident => $e:expr) => {
                while end - at >= K * L::LANES {
                    for op in asked {
                        match op.code {
                            Code::FetchToWrite => ask::<L, K, true>(op.a, at),
                            _ => ask::<L, K, false>(op.a, at),
                        }
                    }
                    let mut $x = [L::splat(0.0); K];
                    for (k, x) in $x.iter_mut().enumerate() {
                        *x = L::load(from.wrapping_add(at + k * L::LANES));
                    }
                    $e;
                    if !op.keep.is_none() {
                        for (k, x) in $x.iter().enumerate() {
                            x.store(op.keep.start.cast::<f32>().wrapping_add(at + k * L::LANES));
                        }
                    }
                    match combine {
                        Code::Sum => sum = sum.add(paired!($x, K, add)),
                        Code::Greatest => sum = sum.max(paired!($x, K, max)),
                        Code::Least => sum = sum.min(paired!($x, K, min)),
                        _ => {}
                    }
                    at += K * L::LANES;
                }
            };
        }
        match op.code {
            Code::ExpSub => {
                let by = L::load(op.a.start.cast());
                rows!(all => {
                    for x in &mut all {
                        *x = x.sub(by);
                    }
                    L::exp_each(&mut all);
                });
            }
            Code::DivEvenly => {
                let [high, low] = [op.a, op.b].map(|place| L::load(place.start.cast()));
                rows!(all => {
                    for x in &mut all {
                        *x = x.mul(low).fma(*x, high);
                    }
                });
            }
            Code::Nothing => rows!(all => {}),
            code => unreachable!("{code:?} has no loop of its own"),
        }
        if let Some(aggregate) = aggregate {
            sum.store(aggregate.a.start.cast());
        }
        at
    }
}

/// Runs all operations on one strip of `K` registers, from element `at` of the chunk on. A `PART`
/// of one register has only the first `length` elements.
///
/// # Safety
/// - The contract of [`strips`].
/// - The strip must lie in the current row, and `length` must be at most one register.
#[inline(always)]
unsafe fn one<L: Lanes, const K: usize, const PART: bool>(from: Place, ops: &[Op], at: usize, length: usize) {
    // SAFETY: the caller guarantees the contract of `strips` and that the strip lies in the current
    // row.
    unsafe {
        let mut x = [L::splat(0.0); K];
        for (k, x) in x.iter_mut().enumerate() {
            let p = from.at(at, k * L::LANES, size_of::<f32>()).cast();
            *x = if PART { L::load_part(p, length) } else { L::load(p) };
        }
        for op in ops {
            apply::<L, K, PART>(op.code, &mut x, op.a, op.b, at, length);
            if !op.keep.is_none() {
                for (k, x) in x.iter().enumerate() {
                    let p = op.keep.start.cast::<f32>().wrapping_add(at + k * L::LANES);
                    if PART { x.store_part(p, length) } else { x.store(p) }
                }
            }
        }
    }
}

/// Applies one operation to a strip of `K` registers, from element `at` of the chunk on. A `PART`
/// of one register has only the first `length` elements.
///
/// # Safety
/// - The contract of [`strips`].
/// - The strip must lie in the current row, and `length` must be at most one register.
#[inline(always)]
unsafe fn apply<L: Lanes, const K: usize, const PART: bool>(
    code: Code,
    to: &mut [L; K],
    a: Place,
    b: Place,
    at: usize,
    length: usize,
) {
    // SAFETY: the caller guarantees the contract of `strips` and that the strip lies in the current
    // row.
    unsafe {
        // The address of register `k` at a place.
        macro_rules! register {
            ($place:expr, $k:expr, $t:ty) => {
                $place.at(at, $k * L::LANES, size_of::<$t>()).cast::<$t>()
            };
        }
        macro_rules! load {
            ($place:expr, $k:expr) => {{
                let p = register!($place, $k, f32);
                if PART { L::load_part(p, length) } else { L::load(p) }
            }};
        }
        let mut x = *to;
        macro_rules! each {
            ($k:ident => $e:expr) => {
                for $k in 0..K {
                    x[$k] = $e;
                }
            };
        }
        macro_rules! word {
            ($op:ident) => {
                each!(k => x[k].word(WordOp::$op, load!(a, k)))
            };
        }
        macro_rules! compare {
            ($relation:expr, $swapped:literal) => {
                for k in 0..K {
                    let (l, r) = if $swapped { (load!(a, k), x[k]) } else { (x[k], load!(a, k)) };
                    let to = register!(b, k, u8);
                    if PART {
                        let mut all = [0; MOST_LANES];
                        l.compare::<{ $relation }>(r, all.as_mut_ptr());
                        all.as_ptr().copy_to_nonoverlapping(to, length);
                    } else {
                        l.compare::<{ $relation }>(r, to);
                    }
                }
            };
        }
        macro_rules! replace {
            ($k:ident, $then:expr, $else:expr) => {{
                let conditions = register!(a, $k, u8);
                if PART {
                    let mut all = [0; MOST_LANES];
                    conditions.copy_to_nonoverlapping(all.as_mut_ptr(), length);
                    $then.choose(all.as_ptr(), $else)
                } else {
                    $then.choose(conditions, $else)
                }
            }};
        }
        macro_rules! aggregate {
            ($combine:ident) => {{
                let sums = a.start.cast::<f32>();
                let sum = L::load(sums);
                let next = sum.$combine(paired!(x, K, $combine));
                if PART { next.first(length, sum) } else { next }.store(sums);
            }};
        }
        match code {
            Code::Nothing => {}
            Code::Take => each!(k => load!(a, k)),
            Code::Add => each!(k => x[k].add(load!(a, k))),
            Code::Sub => each!(k => x[k].sub(load!(a, k))),
            Code::SubFrom => each!(k => load!(a, k).sub(x[k])),
            Code::Mul => each!(k => x[k].mul(load!(a, k))),
            Code::Div => each!(k => x[k].div(load!(a, k))),
            Code::DivInto => each!(k => load!(a, k).div(x[k])),
            Code::DivEvenly => {
                let (high, low) = (load!(a, 0), load!(b, 0));
                each!(k => x[k].mul(low).fma(x[k], high));
            }
            Code::Max => each!(k => x[k].max(load!(a, k))),
            Code::MaxOf => each!(k => load!(a, k).max(x[k])),
            Code::Min => each!(k => x[k].min(load!(a, k))),
            Code::MinOf => each!(k => load!(a, k).min(x[k])),
            Code::MulAdd => each!(k => load!(b, k).fma(x[k], load!(a, k))),
            Code::MulSub => each!(k => load!(b, k).neg().fma(x[k], load!(a, k))),
            Code::MulSubFrom => each!(k => load!(b, k).fma(x[k].neg(), load!(a, k))),
            Code::AddMul => each!(k => x[k].fma(load!(a, k), load!(b, k))),
            Code::Square => each!(k => x[k].mul(x[k])),
            Code::Neg => each!(k => x[k].neg()),
            Code::Abs => each!(k => x[k].abs()),
            Code::Sqrt => each!(k => x[k].sqrt()),
            Code::Recip => each!(k => L::splat(1.0).div(x[k])),
            Code::Rsqrt => each!(k => L::splat(1.0).div(x[k].sqrt())),
            Code::Exp => L::exp_each(&mut x),
            Code::ExpSub => {
                each!(k => x[k].sub(load!(a, k)));
                L::exp_each(&mut x);
            }
            // Works on a copy, so that `x` itself stays in registers.
            Code::Tanh => {
                let mut all = x;
                L::tanh_each(&mut all);
                x = all;
            }
            Code::Erf => {
                let mut all = x;
                L::erf_each(&mut all);
                x = all;
            }
            Code::Word(WordOp::Add) => word!(Add),
            Code::Word(WordOp::Sub) => word!(Sub),
            Code::Word(WordOp::Mul) => word!(Mul),
            Code::Word(WordOp::And) => word!(And),
            Code::Word(WordOp::Or) => word!(Or),
            Code::Word(WordOp::Xor) => word!(Xor),
            Code::Word(WordOp::ShiftLeft) => word!(ShiftLeft),
            Code::Word(WordOp::ShiftRight) => word!(ShiftRight),
            Code::Word(WordOp::ShiftRightSigned) => word!(ShiftRightSigned),
            Code::Word(WordOp::RotateLeft) => word!(RotateLeft),
            Code::FromSigned => each!(k => x[k].words_as_floats(true)),
            Code::FromUnsigned => each!(k => x[k].words_as_floats(false)),
            Code::ReplaceWhere => each!(k => replace!(k, load!(b, k), x[k])),
            Code::ReplaceElse => each!(k => replace!(k, x[k], load!(b, k))),
            Code::Equal => compare!(EQUAL, false),
            Code::NotEqual => compare!(NOT_EQUAL, false),
            Code::Less => compare!(LESS, false),
            Code::LessOrEqual => compare!(LESS_OR_EQUAL, false),
            Code::Greater => compare!(LESS, true),
            Code::GreaterOrEqual => compare!(LESS_OR_EQUAL, true),
            Code::KeepPast => {
                for (k, x) in x.iter().enumerate() {
                    let p = register!(a, k, f32);
                    if PART { x.store_part(p, length) } else { x.store_past(p) }
                }
            }
            Code::Fetch => ask::<L, K, false>(a, at),
            Code::FetchToWrite => ask::<L, K, true>(a, at),
            Code::Sum => aggregate!(add),
            Code::Greatest => aggregate!(max),
            Code::Least => aggregate!(min),
        }
        *to = x;
    }
}

#[cfg(test)]
mod tests;
