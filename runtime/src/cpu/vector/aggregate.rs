//! Aggregations over chunks: into a sum for each place, or into one value for all.

use super::level::{vectorised, widest};
use super::number::{Bool, Number};
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

/// Evaluates an expression with `$constant` as the aggregation `$name`, so that its loops are
/// compiled for each aggregation.
macro_rules! each_aggregation {
    ($name:ident, $constant:ident => $e:expr) => {
        match $name {
            Aggregation::Sum => {
                const $constant: Aggregation = Aggregation::Sum;
                $e
            }
            Aggregation::Product => {
                const $constant: Aggregation = Aggregation::Product;
                $e
            }
            Aggregation::Max | Aggregation::ArgMax => {
                const $constant: Aggregation = Aggregation::Max;
                $e
            }
            Aggregation::Min | Aggregation::ArgMin => {
                const $constant: Aggregation = Aggregation::Min;
                $e
            }
            Aggregation::Assign => {
                const $constant: Aggregation = Aggregation::Assign;
                $e
            }
        }
    };
}

widest! {
    /// Accumulates f32s as [`accumulate`] does, where all values count.
    pub fn accumulate_f32(aggregation: Aggregation, sums: &mut [f32], values: &[f32]) {
        each_aggregation!(aggregation, A => sums.iter_mut().zip(values).for_each(|(sum, x)| *sum = combine(A, *sum, *x)))
    }
}

widest! {
    /// Folds f32s as [`fold`] does, where all values count.
    pub fn fold_f32(aggregation: Aggregation, identity: f32, values: &[f32]) -> f32 {
        each_aggregation!(aggregation, A => in_parts(identity, values, |a, b| combine(A, a, b)))
    }
}

vectorised! {
    /// Combines each of `values` that counts into its place in `sums`. All count if `counts` is
    /// `None`.
    pub fn accumulate<T: Number>(aggregation: Aggregation, sums: &mut [T], values: &[T], counts: Option<&[Bool]>) {
        #[inline(always)]
        fn with<T: Number>(sums: &mut [T], values: &[T], counts: Option<&[Bool]>, f: impl Fn(T, T) -> T) {
            let pairs = sums.iter_mut().zip(values);
            match counts {
                None => pairs.for_each(|(sum, x)| *sum = f(*sum, *x)),
                Some(counts) => pairs.zip(counts).for_each(|((sum, x), counts)| {
                    let next = f(*sum, *x);
                    *sum = if counts.0 != 0 { next } else { *sum };
                }),
            }
        }
        if counts.is_none() && T::accumulate_chunk(aggregation, sums, values) {
            return;
        }
        each_aggregation!(aggregation, A => with(sums, values, counts, |a, b| combine(A, a, b)))
    }
}

/// The number of partial aggregates that are combined at the end.
const PARTS: usize = 64;

/// Folds all values: in interleaved partial aggregates, then these in a tree.
#[inline(always)]
fn in_parts<T: Number>(identity: T, values: &[T], f: impl Fn(T, T) -> T) -> T {
    let mut parts = [identity; PARTS];
    let (whole, rest) = values.as_chunks::<PARTS>();
    for chunk in whole {
        for (part, x) in parts.iter_mut().zip(chunk) {
            *part = f(*part, *x);
        }
    }
    for (part, x) in parts.iter_mut().zip(rest) {
        *part = f(*part, *x);
    }
    tree(parts, f)
}

#[inline(always)]
fn tree<T: Number>(mut parts: [T; PARTS], f: impl Fn(T, T) -> T) -> T {
    let mut half = PARTS / 2;
    while half > 0 {
        for i in 0..half {
            parts[i] = f(parts[i], parts[i + half]);
        }
        half /= 2;
    }
    parts[0]
}

vectorised! {
    /// Folds all values that count into one. All count if `counts` is `None`.
    pub fn fold<T: Number>(aggregation: Aggregation, identity: T, values: &[T], counts: Option<&[Bool]>) -> T {
        #[inline(always)]
        fn with<T: Number>(identity: T, values: &[T], counts: Option<&[Bool]>, f: impl Fn(T, T) -> T) -> T {
            let Some(counts) = counts else { return in_parts(identity, values, f) };
            let mut parts = [identity; PARTS];
            for (values, counts) in values.chunks(PARTS).zip(counts.chunks(PARTS)) {
                for ((part, x), counts) in parts.iter_mut().zip(values).zip(counts) {
                    let next = f(*part, *x);
                    *part = if counts.0 != 0 { next } else { *part };
                }
            }
            tree(parts, f)
        }
        if counts.is_none() && let Some(whole) = T::fold_chunk(aggregation, identity, values) {
            return whole;
        }
        each_aggregation!(aggregation, A => with(identity, values, counts, |a, b| combine(A, a, b)))
    }
}

/// The best value so far and its position, for the arg forms.
#[derive(Clone, Copy, Debug)]
pub struct Best<T> {
    pub value: T,
    pub position: i32,
    /// Whether any value was seen.
    pub found: bool,
}

impl<T: Number> Best<T> {
    /// Keeps the better of two values, and of equal ones the one at the lesser position. All NaNs
    /// are equal, and a NaN is never better than a number.
    pub fn take(&mut self, other: Best<T>, greatest: bool) {
        let (a, b) = (self.value, other.value);
        let better = if greatest { T::less(a, b) } else { T::less(b, a) };
        let (a_number, b_number) = (T::equal(a, a), T::equal(b, b));
        let equal = T::equal(a, b) || (!a_number && !b_number);
        let wins = better || (b_number && !a_number) || (equal && other.position < self.position);
        if other.found && (!self.found || wins) {
            *self = other;
        }
    }
}
