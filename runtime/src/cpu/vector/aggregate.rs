//! Aggregations over chunks: into a sum for each place, or into one value for all.

use super::level::{vectorised, widest};
use super::number::{Bool, Number};
use super::register::prefetch;
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::BinaryOp;

/// Combines two aggregated values; for `Assign` the later one wins. For the arg forms it combines
/// the values only.
#[inline(always)]
pub fn combine<T: Number>(aggregation: Aggregation, a: T, b: T) -> T {
    match aggregation {
        Aggregation::Sum => T::binary(BinaryOp::Add, a, b),
        Aggregation::Product => T::binary(BinaryOp::Mul, a, b),
        Aggregation::Max | Aggregation::ArgMax => T::binary(BinaryOp::Max, a, b),
        Aggregation::Min | Aggregation::ArgMin => T::binary(BinaryOp::Min, a, b),
        Aggregation::Assign => b,
    }
}

/// An aggregation as a type. A loop that is compiled for a vector unit always contains its code; a
/// closure may be compiled as a function of its own, for the baseline, and called for each element.
pub trait Combine {
    const AGGREGATION: Aggregation;

    #[inline(always)]
    fn combine<T: Number>(a: T, b: T) -> T {
        combine(Self::AGGREGATION, a, b)
    }
}

macro_rules! combinations {
    ($($name:ident)*) => {$(
        pub struct $name;

        impl Combine for $name {
            const AGGREGATION: Aggregation = Aggregation::$name;
        }
    )*};
}

combinations!(Sum Product Max Min Assign);

/// Evaluates an expression with `$type` as the type of the aggregation `$name`, so that its loops
/// are compiled for each aggregation.
macro_rules! each_aggregation {
    ($name:ident, $type:ident => $e:expr) => {{
        use $crate::cpu::vector::aggregate::{Assign, Max, Min, Product, Sum};
        macro_rules! with {
            ($each:ident) => {{
                type $type = $each;
                $e
            }};
        }
        match $name {
            Aggregation::Sum => with!(Sum),
            Aggregation::Product => with!(Product),
            Aggregation::Max | Aggregation::ArgMax => with!(Max),
            Aggregation::Min | Aggregation::ArgMin => with!(Min),
            Aggregation::Assign => with!(Assign),
        }
    }};
}

pub(super) use each_aggregation;

widest! {
    /// Accumulates f32s as [`accumulate`] does, where all values count.
    pub fn accumulate_f32(aggregation: Aggregation, sums: &mut [f32], values: &[f32]) {
        each_aggregation!(aggregation, A => for (sum, x) in sums.iter_mut().zip(values) {
            *sum = A::combine(*sum, *x);
        })
    }
}

widest! {
    /// Folds f32s as [`fold`] does, where all values count.
    pub fn fold_f32(aggregation: Aggregation, identity: f32, values: &[f32]) -> f32 {
        each_aggregation!(aggregation, A => in_parts::<f32, A, PARTS>(identity, values))
    }
}

vectorised! {
    /// Combines each of `values` that counts into its place in `sums`. All count if `counts` is
    /// `None`.
    pub fn accumulate<T: Number>(aggregation: Aggregation, sums: &mut [T], values: &[T], counts: Option<&[Bool]>) {
        #[inline(always)]
        fn with<T: Number, A: Combine>(sums: &mut [T], values: &[T], counts: Option<&[Bool]>) {
            let pairs = sums.iter_mut().zip(values);
            let Some(counts) = counts else {
                for (sum, x) in pairs {
                    *sum = A::combine(*sum, *x);
                }
                return;
            };
            for ((sum, x), counts) in pairs.zip(counts) {
                let next = A::combine(*sum, *x);
                *sum = if counts.0 != 0 { next } else { *sum };
            }
        }
        if counts.is_none() && T::accumulate_chunk(aggregation, sums, values) {
            return;
        }
        each_aggregation!(aggregation, A => with::<T, A>(sums, values, counts))
    }
}

/// The number of partial aggregates that are combined at the end.
const PARTS: usize = 64;

/// Folds all values: in N interleaved partial aggregates, then these in a tree.
#[inline(always)]
fn in_parts<T: Number, A: Combine, const N: usize>(identity: T, values: &[T]) -> T {
    let mut parts = [identity; N];
    let (whole, rest) = values.as_chunks::<N>();
    for chunk in whole {
        for (part, x) in parts.iter_mut().zip(chunk) {
            *part = A::combine(*part, *x);
        }
    }
    for (part, x) in parts.iter_mut().zip(rest) {
        *part = A::combine(*part, *x);
    }
    tree::<T, A, N>(parts)
}

#[inline(always)]
fn tree<T: Number, A: Combine, const N: usize>(mut parts: [T; N]) -> T {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            parts[i] = A::combine(parts[i], parts[i + half]);
        }
        half /= 2;
    }
    parts[0]
}

vectorised! {
    /// Folds all values that count into one. All count if `counts` is `None`.
    pub fn fold<T: Number>(aggregation: Aggregation, identity: T, values: &[T], counts: Option<&[Bool]>) -> T {
        #[inline(always)]
        fn with<T: Number, A: Combine>(identity: T, values: &[T], counts: Option<&[Bool]>) -> T {
            let Some(counts) = counts else { return in_parts::<T, A, PARTS>(identity, values) };
            let mut parts = [identity; PARTS];
            for (values, counts) in values.chunks(PARTS).zip(counts.chunks(PARTS)) {
                for ((part, x), counts) in parts.iter_mut().zip(values).zip(counts) {
                    let next = A::combine(*part, *x);
                    *part = if counts.0 != 0 { next } else { *part };
                }
            }
            tree::<T, A, PARTS>(parts)
        }
        if counts.is_none() && let Some(whole) = T::fold_chunk(aggregation, identity, values) {
            return whole;
        }
        each_aggregation!(aggregation, A => with::<T, A>(identity, values, counts))
    }
}

/// Elements in a row, and the sums to which they are added.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The first sum.
    pub to: usize,
    /// The first element.
    pub from: usize,
    pub length: usize,
}

vectorised! {
    /// Combines the elements of each segment, which are `step` apart, into its sums.
    pub fn accumulate_segments<T: Number>(
        aggregation: Aggregation,
        sums: &mut [T],
        data: &[T],
        step: usize,
        segments: &[Segment],
    ) {
        /// Combines equally many elements, in blocks, since most segments are short.
        #[inline(always)]
        fn combine_all<T: Number, A: Combine>(sums: &mut [T], data: &[T]) {
            #[inline(always)]
            fn blocks<'a, T: Number, A: Combine, const N: usize>(
                sums: &'a mut [T],
                data: &'a [T],
            ) -> (&'a mut [T], &'a [T]) {
                let (sums, sums_left) = sums.as_chunks_mut::<N>();
                let (data, left) = data.as_chunks::<N>();
                for (sums, data) in sums.iter_mut().zip(data) {
                    for (sum, x) in sums.iter_mut().zip(data) {
                        *sum = A::combine(*sum, *x);
                    }
                }
                (sums_left, left)
            }
            let (sums, data) = blocks::<T, A, 32>(sums, data);
            let (sums, data) = blocks::<T, A, 8>(sums, data);
            let (sums, data) = blocks::<T, A, 4>(sums, data);
            for (sum, x) in sums.iter_mut().zip(data) {
                *sum = A::combine(*sum, *x);
            }
        }
        each_aggregation!(aggregation, A => for Segment { to, from, length } in segments {
            let (sums, data) = (&mut sums[*to..to + length], &data[*from..]);
            if step == 1 {
                combine_all::<T, A>(sums, &data[..*length]);
            } else {
                for (sum, x) in sums.iter_mut().zip(data.iter().step_by(step)) {
                    *sum = A::combine(*sum, *x);
                }
            }
        })
    }
}

/// Folds a few values, each into all before it.
#[inline(always)]
fn one_by_one<T: Number, A: Combine>(identity: T, values: &[T]) -> T {
    let mut all = identity;
    for x in values {
        all = A::combine(all, *x);
    }
    all
}

vectorised! {
    /// Folds rows of consecutive elements. Row number i starts at `data[i * step]`.
    pub fn fold_rows<T: Number>(
        aggregation: Aggregation,
        identity: T,
        data: &[T],
        step: usize,
        length: usize,
        out: &mut [T],
    ) {
        /// Folds rows of `N` elements that follow each other. The compiler takes many at once.
        #[inline(always)]
        fn short<T: Number, A: Combine, const N: usize>(identity: T, data: &[T], out: &mut [T]) {
            for (out, row) in out.iter_mut().zip(data.as_chunks::<N>().0) {
                *out = one_by_one::<T, A>(identity, row);
            }
        }
        each_aggregation!(aggregation, A => {
            match (length, step) {
                (1, 1) => return short::<T, A, 1>(identity, data, out),
                (2, 2) => return short::<T, A, 2>(identity, data, out),
                (3, 3) => return short::<T, A, 3>(identity, data, out),
                (4, 4) => return short::<T, A, 4>(identity, data, out),
                (5, 5) => return short::<T, A, 5>(identity, data, out),
                (6, 6) => return short::<T, A, 6>(identity, data, out),
                (7, 7) => return short::<T, A, 7>(identity, data, out),
                _ => {}
            }
            for (i, out) in out.iter_mut().enumerate() {
                let row = &data[i * step..][..length];
                *out = match length {
                    0..8 => one_by_one::<T, A>(identity, row),
                    8..16 => in_parts::<T, A, 8>(identity, row),
                    16..64 => in_parts::<T, A, 16>(identity, row),
                    _ => fold(aggregation, identity, row, None),
                };
            }
        })
    }
}

vectorised! {
    /// Sums products along pairs of rows. Each side has its elements and the distance from one row
    /// to the next.
    pub fn dots<T: Number>(a: (&[T], usize), b: (&[T], usize), length: usize, out: &mut [T]) {
        /// The partial sums of a row.
        const PARTS: usize = 32;
        /// How many bytes of rows that lie apart are prefetched: processors see such rows too late.
        const AHEAD: usize = 4096;
        /// The bytes of a cache line.
        const LINE: usize = 64;
        #[inline(always)]
        fn add<T: Number>(parts: &mut [T; PARTS], a: &[T; PARTS], b: &[T; PARTS]) {
            for i in 0..PARTS {
                parts[i] = T::binary(BinaryOp::Add, parts[i], T::binary(BinaryOp::Mul, a[i], b[i]));
            }
        }
        let rows_ahead = (AHEAD / (length * size_of::<T>()).max(1)).max(1);
        for (i, out) in out.iter_mut().enumerate() {
            for (data, step) in [a, b].into_iter().filter(|(_, step)| *step > length) {
                for at in (0..length).step_by(LINE / size_of::<T>()) {
                    prefetch(data.as_ptr().wrapping_add((i + rows_ahead) * step + at));
                }
            }
            let (a, b) = (&a.0[i * a.1..][..length], &b.0[i * b.1..][..length]);
            let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<PARTS>(), b.as_chunks::<PARTS>());
            let mut parts = [T::default(); PARTS];
            for (a, b) in a.iter().zip(b) {
                add(&mut parts, a, b);
            }
            if !a_rest.is_empty() {
                // Zeros fill the last part, so that it takes no loop over single elements.
                let mut last = [[T::default(); PARTS]; 2];
                last[0][..a_rest.len()].copy_from_slice(a_rest);
                last[1][..b_rest.len()].copy_from_slice(b_rest);
                add(&mut parts, &last[0], &last[1]);
            }
            *out = tree::<T, Sum, PARTS>(parts);
        }
    }
}

/// The position of a best value where there is none yet.
pub const NOWHERE: i32 = -1;

/// The best value so far and its position, for the arg forms.
#[derive(Clone, Copy, Debug)]
pub struct Best<T> {
    pub value: T,
    /// The position, or [`NOWHERE`].
    pub position: i32,
}

impl<T: Number> Best<T> {
    /// Keeps the better of two values, and of equal ones the one at the lesser position. All NaNs
    /// are equal, and a NaN is never better than a number.
    #[inline(always)]
    pub fn take(&mut self, other: Best<T>, greatest: bool) {
        let (a, b) = (self.value, other.value);
        let better = if greatest { T::less(a, b) } else { T::less(b, a) };
        let (a_number, b_number) = (T::equal(a, a), T::equal(b, b));
        let equal = T::equal(a, b) | (!a_number & !b_number);
        let wins = better | (b_number & !a_number) | (equal & (other.position < self.position));
        let takes = (other.position >= 0) & ((self.position < 0) | wins);
        // Choices between values become vector code, a conditional assignment does not.
        self.value = if takes { b } else { a };
        self.position = if takes { other.position } else { self.position };
    }
}

vectorised! {
    /// Takes each of `values` that counts into the best one of its place, as [`Best::take`] does.
    /// All count if `counts` is `None`. The positions are `position`, `position + step`, ….
    pub fn take_each<T: Number>(
        greatest: bool,
        best: (&mut [T], &mut [i32]),
        values: &[T],
        counts: Option<&[Bool]>,
        position: i32,
        step: i32,
    ) {
        let at = |i: usize| position.wrapping_add((i as i32).wrapping_mul(step));
        match (counts, greatest) {
            (None, true) => take_all(true, best, values, at),
            (None, false) => take_all(false, best, values, at),
            (Some(counts), _) => {
                let counts = &counts[..values.len()];
                let at = |i: usize| if counts[i].0 != 0 { at(i) } else { NOWHERE };
                take_all(greatest, best, values, at)
            }
        }
    }
}

vectorised! {
    /// Returns the best of the values that count, as [`Best::take`] defines it. All count if
    /// `counts` is `None`. The positions are `position`, `position + step`, ….
    pub fn best_of<T: Number>(
        greatest: bool,
        nothing: T,
        values: &[T],
        counts: Option<&[Bool]>,
        position: i32,
        step: i32,
    ) -> Best<T> {
        let mut whole = Best { value: nothing, position: NOWHERE };
        let at = |i: usize| position.wrapping_add((i as i32).wrapping_mul(step));
        if counts.is_none() && values.len() >= LANES && step >= 0 {
            // Two passes, of which the second ends at the first of the best. All may be NaNs.
            let aggregation = if greatest { Aggregation::Max } else { Aggregation::Min };
            let value = fold(aggregation, nothing, values, None);
            let first = first_within(greatest, value, values);
            if let Some(value) = values.get(first) {
                return Best { value: *value, position: at(first) };
            }
        }
        let (lanes, rest) =
            if counts.is_none() { values.as_chunks::<LANES>() } else { (&[][..], values) };
        if !lanes.is_empty() {
            let mut best = ([nothing; LANES], [NOWHERE; LANES]);
            for (number, lanes) in lanes.iter().enumerate() {
                take_all(greatest, (&mut best.0, &mut best.1), lanes, |i| at(number * LANES + i));
            }
            for (value, position) in best.0.into_iter().zip(best.1) {
                whole.take(Best { value, position }, greatest);
            }
        }
        for (i, x) in (values.len() - rest.len()..).zip(rest) {
            if counts.is_none_or(|counts| counts[i].0 != 0) {
                whole.take(Best { value: *x, position: at(i) }, greatest);
            }
        }
        whole
    }
}

vectorised! {
    /// Returns the number of values before the first that is not worse than `limit`: of all values,
    /// if every one is worse, or a NaN.
    pub fn first_within<T: Number>(greatest: bool, limit: T, values: &[T]) -> usize {
        let is_within = |x: T| {
            let (a, b) = if greatest { (limit, x) } else { (x, limit) };
            T::less(a, b) | T::equal(a, b)
        };
        let mut first = 0;
        for block in values.as_chunks::<LANES>().0 {
            let mut any = false;
            for x in block {
                any |= is_within(*x);
            }
            if any {
                break;
            }
            first += LANES;
        }
        let rest = &values[first..];
        first + rest.iter().position(|x| is_within(*x)).unwrap_or(rest.len())
    }
}

/// The rows or elements that are compared at once.
const LANES: usize = 32;

/// Takes each of `values` into the best one of its place. `at` returns the position of a value.
#[inline(always)]
fn take_all<T: Number>(
    greatest: bool,
    best: (&mut [T], &mut [i32]),
    values: &[T],
    at: impl Fn(usize) -> i32,
) {
    let best = best.0.iter_mut().zip(best.1);
    for (i, ((value, at_best), x)) in best.zip(values).enumerate() {
        let mut one = Best { value: *value, position: *at_best };
        one.take(Best { value: *x, position: at(i) }, greatest);
        (*value, *at_best) = (one.value, one.position);
    }
}

vectorised! {
    /// Finds the positions of the best elements of rows, as [`best_of`] does. Row number i starts
    /// at `data[i * step]`. `positions` are that of a row's first element and the step to the next.
    pub fn best_of_rows<T: Number>(
        greatest: bool,
        nothing: T,
        data: &[T],
        step: usize,
        length: usize,
        positions: (i32, i32),
        out: &mut [i32],
    ) {
        let (first, by) = positions;
        if length >= LANES {
            for (i, out) in out.iter_mut().enumerate() {
                let row = &data[i * step..][..length];
                *out = best_of(greatest, nothing, row, None, first, by).position;
            }
            return;
        }
        // Many short rows at once, element by element.
        for (block, out) in out.chunks_mut(LANES).enumerate() {
            let data = &data[block * LANES * step..];
            let mut best = ([nothing; LANES], [NOWHERE; LANES]);
            for i in 0..length {
                let mut values = [nothing; LANES];
                for (row, value) in values[..out.len()].iter_mut().enumerate() {
                    *value = data[row * step + i];
                }
                let at = first.wrapping_add((i as i32).wrapping_mul(by));
                take_all(greatest, (&mut best.0, &mut best.1), &values, |_| at);
            }
            out.copy_from_slice(&best.1[..out.len()]);
        }
    }
}
