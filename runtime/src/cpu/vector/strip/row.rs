//! One row after the other: a chain's operations over the strips of a row.

use super::apply::{Strip, extreme, fetch, one, paired};
use super::code::{ChunkPointer, Code, Op};
use crate::cpu::vector::lanes::Lanes;
use std::ops::Range;

/// The registers of a strip.
const REGISTERS: usize = 8;
/// The registers of a strip for the rest of a row.
const FEWER: usize = 4;

/// Runs a chain's operations with registers `L`.
///
/// # Safety
/// The contract of [`super::run`].
#[inline(always)]
pub unsafe fn strips<L: Lanes>(
    proof: L::Proof,
    mut from: ChunkPointer,
    ops: &mut [Op],
    length: usize,
    rows: usize,
) {
    let (strip, shorter) = (REGISTERS * L::LANES, FEWER * L::LANES);
    // SAFETY: the caller guarantees the contract for the whole chunk. Each strip below is a part of
    // it: `at` plus the strip's elements never exceeds the row's `end`.
    unsafe {
        // No closures take registers here: they would be compiled without the target features, and
        // would get registers in memory.
        for row in 0..rows {
            for Op { code, a, .. } in &*ops {
                if let Some(identity) = code.identity() {
                    L::splat(proof, identity).store(a.start.cast());
                }
            }
            let (mut at, end) = (row * length, (row + 1) * length);
            if length >= strip
                && from.row < 0
                && let Some((prefetches, op, aggregate)) = lone(ops)
            {
                at = all_strips::<L>(
                    proof,
                    from.start.cast(),
                    &ops[..prefetches],
                    op,
                    aggregate,
                    at..end,
                );
            }
            while end - at >= strip {
                one::<L, REGISTERS, false>(Strip::whole(proof, at), from, ops);
                at += strip;
            }
            while end - at >= shorter {
                one::<L, FEWER, false>(Strip::whole(proof, at), from, ops);
                at += shorter;
            }
            while end - at >= L::LANES {
                one::<L, 1, false>(Strip::whole(proof, at), from, ops);
                at += L::LANES;
            }
            if at < end {
                one::<L, 1, true>(Strip::part(proof, at, end - at), from, ops);
            }
            for op in &mut *ops {
                finish_row::<L>(op);
            }
            from.advance();
        }
    }
}

/// Stores an operation's aggregate of a row, if it has one, and moves its places on to the next
/// row.
///
/// # Safety
/// - The contract of [`super::run`], for a row whose strips are done.
#[inline(always)]
unsafe fn finish_row<L: Lanes>(op: &mut Op) {
    macro_rules! whole {
        ($one:expr) => {{
            let sums = op.a.start.cast::<f32>();
            let mut half = L::LANES / 2;
            // SAFETY: the caller guarantees a register at `a`, and an aligned f32 at `b`.
            unsafe {
                while half > 0 {
                    for k in 0..half {
                        *sums.add(k) = $one(*sums.add(k), *sums.add(k + half));
                    }
                    half /= 2;
                }
                *op.b.start.cast::<f32>() = *sums;
            }
        }};
    }
    match op.code {
        Code::Sum => whole!(|a: f32, b: f32| a + b),
        Code::Greatest => whole!(|a: f32, b: f32| if a < b { b } else { a }),
        Code::Least => whole!(|a: f32, b: f32| if b < a { b } else { a }),
        _ => {}
    }
    op.a.advance();
    op.b.advance();
}

/// The operations with a loop of their own. Chains that do only one of them between loads and
/// stores are common, and short compared with dispatching on the operation for each strip.
const LONE: [Code; 3] = [Code::Nothing, Code::ExpSub, Code::DivEvenly];

/// Recognises a chain that has a loop of its own. Returns the number of prefetches at its start,
/// the operation after them, and the aggregate of its results. The operands of the operation are
/// row places.
#[inline(always)]
pub fn lone(ops: &[Op]) -> Option<(usize, Op, Option<Op>)> {
    let first = ops.iter().position(|op| !matches!(op.code, Code::Fetch | Code::FetchToWrite))?;
    let (op, aggregate) = match ops[first..] {
        [aggregate] if aggregate.code.identity().is_some() => {
            (Op::new(Code::Nothing, ChunkPointer::NONE, ChunkPointer::NONE), Some(aggregate))
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
/// - `prefetches`, `op` and `aggregate` must be those that [`lone`] returns.
#[inline(always)]
unsafe fn all_strips<L: Lanes>(
    proof: L::Proof,
    from: *const f32,
    prefetches: &[Op],
    op: Op,
    aggregate: Option<Op>,
    elements: Range<usize>,
) -> usize {
    const K: usize = REGISTERS;
    let Range { start: mut at, end } = elements;
    // SAFETY: the caller guarantees the contract of `strips`; each strip ends at or before `end`.
    // The operands of `op` and of the aggregate are row places, so a register is readable there.
    unsafe {
        let mut sum =
            aggregate.map_or(L::splat(proof, 0.0), |op| L::load(proof, op.a.start.cast()));
        let combine = aggregate.map_or(Code::Nothing, |op| op.code);
        macro_rules! rows {
            ($x:ident => $e:expr) => {
                while end - at >= K * L::LANES {
                    for op in prefetches {
                        match op.code {
                            Code::FetchToWrite => fetch::<L, K, true>(op.a, at),
                            _ => fetch::<L, K, false>(op.a, at),
                        }
                    }
                    let mut $x = [L::splat(proof, 0.0); K];
                    for (k, x) in $x.iter_mut().enumerate() {
                        *x = L::load(proof, from.wrapping_add(at + k * L::LANES));
                    }
                    $e;
                    if !op.keep.is_none() {
                        for (k, x) in $x.iter().enumerate() {
                            x.store(op.keep.start.cast::<f32>().wrapping_add(at + k * L::LANES));
                        }
                    }
                    match combine {
                        Code::Sum => sum = sum.add(paired!($x, K, add)),
                        Code::Greatest => sum = extreme!(sum, $x, K, max),
                        Code::Least => sum = extreme!(sum, $x, K, min),
                        _ => {}
                    }
                    at += K * L::LANES;
                }
            };
        }
        match op.code {
            Code::ExpSub => {
                let by = L::load(proof, op.a.start.cast());
                rows!(all => {
                    for x in &mut all {
                        *x = x.sub(by);
                    }
                    L::exp_each(&mut all);
                });
            }
            Code::DivEvenly => {
                let [high, low] = [op.a, op.b].map(|place| L::load(proof, place.start.cast()));
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
