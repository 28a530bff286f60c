//! Chains at work: a chunk in strips of some registers, each through all operations of a chain before the next.

use super::lanes::{EQUAL, LESS, LESS_OR_EQUAL, Lanes, NOT_EQUAL};
use super::math;
use super::vector::{Level, level};
use tile_compiler::scalar::UnaryOp;

/// Most numbers in a strip.
pub const STRIP: usize = REGISTERS * super::lanes::MOST_LANES;
/// Registers of a strip.
const REGISTERS: usize = 8;

/// An operation on a strip's value `x` and what is at `a` and `b`.
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
    /// `x / a`, where `b` is the rounded reciprocal of `a`; of magnitudes that are neither too large nor too small.
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
    Tanh,
    Erf,
    /// `b` where the condition at `a` holds, else `x`.
    ReplaceWhere,
    /// `x` where the condition at `a` holds, else `b`.
    ReplaceElse,
    /// Stores at `b` whether `x` and `a` are in the relation.
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Stores `x` at `a`.
    Keep,
    /// Asks for what will be read at `a`.
    Fetch,
    /// Asks for what will be written at `a`.
    FetchToWrite,
    /// Adds `x`, register by register, to the strip at `a`.
    Sum,
    /// The same for the greater.
    Greatest,
    /// The same for the lesser.
    Least,
}

/// Where the numbers (or conditions) for a chunk are.
#[derive(Clone, Copy)]
pub struct Place {
    pub start: *mut u8,
    /// What of an element's number counts: nothing for a strip that serves all strips, else all.
    pub mask: usize,
}

// SAFETY: it is a mere address; to read or write there is the unsafe act.
unsafe impl Send for Place {}

impl Place {
    /// No place.
    pub const NONE: Place = Place { start: std::ptr::null_mut(), mask: 0 };
}

/// One operation of a chain, with its places.
#[derive(Clone, Copy)]
pub struct Op {
    pub code: Code,
    pub a: Place,
    pub b: Place,
}

/// Runs a chain's operations over `length` elements.
///
/// # Safety
/// All that an operation reads must be readable and what it writes writable, for `length` elements from its place on, or for [`STRIP`] where the mask
/// is 0; what is written by one must not be elsewhere in memory that another reads or writes than at the same element.
pub unsafe fn run(ops: &[Op], length: usize) {
    // SAFETY: by the caller's promise; the processor has said that it has the level's instructions.
    unsafe {
        match level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86::avx512(ops, length),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86::avx2(ops, length),
            #[cfg(target_arch = "aarch64")]
            Level::Baseline => strips::<std::arch::aarch64::float32x4_t>(ops, length),
            #[cfg(not(target_arch = "aarch64"))]
            Level::Baseline => strips::<super::simd::Portable<f32, 4>>(ops, length),
        }
    }
}

/// Asks for the cache line at `p`, wherever that is, to read or to write it.
#[inline(always)]
fn prefetch<const WRITE: bool>(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing, wherever it points.
        unsafe { if WRITE { _mm_prefetch::<_MM_HINT_ET0>(p.cast()) } else { _mm_prefetch::<_MM_HINT_T0>(p.cast()) } }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = p;
}

/// `out = op(x)` for functions that have their way here; false for others, and `out` is as it was.
pub fn unary(op: UnaryOp, x: &[f32], out: &mut [f32]) -> bool {
    let code = match op {
        UnaryOp::Exp => Code::Exp,
        UnaryOp::Tanh => Code::Tanh,
        UnaryOp::Erf => Code::Erf,
        _ => return false,
    };
    let from = Place { start: x.as_ptr().cast_mut().cast(), mask: usize::MAX };
    let to = Place { start: out.as_mut_ptr().cast(), mask: usize::MAX };
    let op = |code, a| Op { code, a, b: Place::NONE };
    // SAFETY: both hold so many elements, and do not overlap.
    unsafe { run(&[op(Code::Take, from), op(code, Place::NONE), op(Code::Keep, to)], x.len().min(out.len())) };
    true
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Op, strips};
    use std::arch::x86_64::{__m256, __m512};

    /// # Safety
    /// As for [`super::run`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    pub unsafe fn avx512(ops: &[Op], length: usize) {
        // SAFETY: the caller's promise is the same.
        unsafe { strips::<__m512>(ops, length) }
    }

    /// # Safety
    /// As for [`super::run`].
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
    pub unsafe fn avx2(ops: &[Op], length: usize) {
        // SAFETY: the caller's promise is the same.
        unsafe { strips::<__m256>(ops, length) }
    }
}

/// # Safety
/// As for [`run`]; the processor must have the register's instructions.
#[inline(always)]
unsafe fn strips<L: Lanes>(ops: &[Op], length: usize) {
    let strip = REGISTERS * L::LANES;
    let whole = length / strip * strip;
    // SAFETY: by the caller's promise, of which these are parts.
    unsafe {
        // No closures around what takes registers: outside of the function with the instruction set's features they would be passed in memory.
        let mut at = 0;
        while at < whole {
            one::<L, REGISTERS, false>(ops, at, 0);
            at += strip;
        }
        while length - at >= L::LANES {
            one::<L, 1, false>(ops, at, 0);
            at += L::LANES;
        }
        if at < length {
            one::<L, 1, true>(ops, at, length - at);
        }
    }
}

/// The strip of `K` registers from element `at` on, or only the first `length` elements if it is a `PART` of one register.
///
/// # Safety
/// As for [`strips`].
#[inline(always)]
unsafe fn one<L: Lanes, const K: usize, const PART: bool>(ops: &[Op], at: usize, length: usize) {
    // SAFETY: by the caller's promise.
    unsafe {
        macro_rules! load {
            ($place:expr, $k:expr) => {{
                let p = $place.start.cast::<f32>().add(($place.mask & at) + $k * L::LANES);
                if PART { L::load_part(p, length) } else { L::load(p) }
            }};
        }
        let mut x = [L::splat(0.0); K];
        for op in ops {
            let (a, b) = (op.a, op.b);
            macro_rules! each {
                ($k:ident => $e:expr) => {
                    for $k in 0..K {
                        x[$k] = $e;
                    }
                };
            }
            // What needs many registers of its own goes through memory, one by one, so that `x` is in registers everywhere else.
            macro_rules! heavy {
                ($x:ident => $e:expr) => {{
                    let mut all = x;
                    for k in 0..std::hint::black_box(K) {
                        let $x = *all.as_ptr().add(k);
                        *all.as_mut_ptr().add(k) = $e;
                    }
                    x = all;
                }};
            }
            macro_rules! compare {
                ($relation:expr, $swapped:literal) => {
                    for k in 0..K {
                        let (l, r) = if $swapped { (load!(a, k), x[k]) } else { (x[k], load!(a, k)) };
                        let to = b.start.add((b.mask & at) + k * L::LANES);
                        if PART {
                            let mut all = [0; super::lanes::MOST_LANES];
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
                    let conditions = a.start.add((a.mask & at) + $k * L::LANES);
                    if PART {
                        let mut all = [0; super::lanes::MOST_LANES];
                        conditions.copy_to_nonoverlapping(all.as_mut_ptr(), length);
                        $then.choose(all.as_ptr(), $else)
                    } else {
                        $then.choose(conditions, $else)
                    }
                }};
            }
            macro_rules! aggregate {
                ($combine:ident) => {
                    for k in 0..K {
                        let sums = a.start.cast::<f32>().add(k * L::LANES);
                        let sum = L::load(sums);
                        let next = sum.$combine(x[k]);
                        if PART { next.first(length, sum) } else { next }.store(sums);
                    }
                };
            }
            match op.code {
                Code::Nothing => {}
                Code::Take => each!(k => load!(a, k)),
                Code::Add => each!(k => x[k].add(load!(a, k))),
                Code::Sub => each!(k => x[k].sub(load!(a, k))),
                Code::SubFrom => each!(k => load!(a, k).sub(x[k])),
                Code::Mul => each!(k => x[k].mul(load!(a, k))),
                Code::Div => each!(k => x[k].div(load!(a, k))),
                Code::DivInto => each!(k => load!(a, k).div(x[k])),
                Code::DivEvenly => {
                    let (divisor, reciprocal) = (load!(a, 0), load!(b, 0));
                    each!(k => {
                        let quotient = x[k].mul(reciprocal);
                        let rest = x[k].fma(quotient.neg(), divisor);
                        // An infinite quotient leaves nothing that could correct it: NaN is not less than anything.
                        quotient.fma(rest, reciprocal).if_less(rest, L::splat(f32::INFINITY), quotient)
                    });
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
                Code::Exp => each!(k => math::exp(x[k])),
                Code::Tanh => heavy!(x => math::tanh(x)),
                Code::Erf => heavy!(x => x.erf()),
                Code::ReplaceWhere => each!(k => replace!(k, load!(b, k), x[k])),
                Code::ReplaceElse => each!(k => replace!(k, x[k], load!(b, k))),
                Code::Equal => compare!(EQUAL, false),
                Code::NotEqual => compare!(NOT_EQUAL, false),
                Code::Less => compare!(LESS, false),
                Code::LessOrEqual => compare!(LESS_OR_EQUAL, false),
                Code::Greater => compare!(LESS, true),
                Code::GreaterOrEqual => compare!(LESS_OR_EQUAL, true),
                Code::Keep => {
                    for (k, x) in x.iter().enumerate() {
                        let p = a.start.cast::<f32>().add((a.mask & at) + k * L::LANES);
                        if PART { x.store_part(p, length) } else { x.store(p) }
                    }
                }
                Code::Fetch => {
                    for k in 0..K {
                        prefetch::<false>(a.start.wrapping_add(((a.mask & at) + k * L::LANES) * size_of::<f32>()));
                    }
                }
                Code::FetchToWrite => {
                    for k in 0..K {
                        prefetch::<true>(a.start.wrapping_add(((a.mask & at) + k * L::LANES) * size_of::<f32>()));
                    }
                }
                Code::Sum => aggregate!(add),
                Code::Greatest => aggregate!(max),
                Code::Least => aggregate!(min),
            }
        }
    }
}
