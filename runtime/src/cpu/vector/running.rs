//! Running aggregates: each place has the aggregate of the terms up to it.

use super::aggregate::{Combine, each_aggregation};
use super::level::{vectorised, widest};
use super::number::Number;
use std::ops::Range;
use tile_compiler::graph::Aggregation;

/// An axis along which aggregates run.
#[derive(Clone, Debug)]
pub struct Line {
    /// The number of aggregates that run side by side, in consecutive elements.
    pub width: usize,
    /// The number of places of the axis. After the last one, the aggregates begin again.
    pub length: usize,
    /// Whether they run from the last place to the first.
    pub reversed: bool,
    /// The places at which a term is added.
    pub added: Range<usize>,
}

vectorised! {
    /// Computes the aggregates up to each of `terms`. `place` is the number on the axis of the
    /// first group of terms in running order, and `sums` has the aggregates before it.
    pub fn run_along<T: Number>(
        aggregation: Aggregation,
        line: &Line,
        place: usize,
        identity: T,
        terms: &[T],
        values: &mut [T],
        sums: &mut [T],
    ) {
        each_aggregation!(aggregation, A => {
            let has_parts = has_parts(A::AGGREGATION, T::FLOAT);
            let way = Way { identity, term: |x: T| x, value: |x: T| x, f: A::combine, has_parts };
            all_lines(line, place, terms, values, sums, way)
        })
    }
}

widest! {
    /// Runs as [`run_along`] does, with sums or products in f64, whose errors do not grow along the
    /// axis.
    pub fn run_along_f32(
        aggregation: Aggregation,
        line: &Line,
        place: usize,
        identity: f64,
        terms: &[f32],
        values: &mut [f32],
        sums: &mut [f64],
    ) {
        each_aggregation!(aggregation, A => {
            let (term, value) = (|x: f32| x as f64, |x: f64| x as f32);
            // No part of f32s leaves the range of f64.
            let has_parts = has_parts(A::AGGREGATION, false);
            let way = Way { identity, term, value, f: A::combine, has_parts };
            all_lines(line, place, terms, values, sums, way)
        })
    }
}

/// The functions of an aggregation of terms `T` to sums `S`.
#[derive(Clone, Copy)]
struct Way<S, A, B, F> {
    identity: S,
    term: A,
    value: B,
    f: F,
    /// Whether parts of a run may be aggregated before the run reaches them.
    has_parts: bool,
}

/// Returns whether parts of a run may be aggregated apart. The product of a part may leave the
/// range of its type where the run would be 0 or infinite before, and a sum that is `limited` to
/// the range of its terms where the run would stay within.
const fn has_parts(aggregation: Aggregation, limited: bool) -> bool {
    match aggregation {
        Aggregation::Product => false,
        Aggregation::Sum => !limited,
        _ => true,
    }
}

/// Takes the terms of each line in turn.
#[inline(always)]
fn all_lines<T: Copy, S: Copy>(
    line: &Line,
    mut place: usize,
    terms: &[T],
    values: &mut [T],
    sums: &mut [S],
    way: Way<S, impl Fn(T) -> S + Copy, impl Fn(S) -> T + Copy, impl Fn(S, S) -> S + Copy>,
) {
    let Line { width, length, reversed, ref added } = *line;
    let mut left = values.len() / width;
    let mut done = 0;
    while left > 0 {
        let count = left.min(if reversed { place + 1 } else { length - place });
        if place == if reversed { length - 1 } else { 0 } {
            sums.fill(way.identity);
        }
        let (from, low) = if reversed { (left - count, place + 1 - count) } else { (done, place) };
        let some = from * width..(from + count) * width;
        let (terms, values) = (&terms[some.clone()], &mut values[some]);
        let [start, end] =
            [added.start, added.end].map(|place| place.saturating_sub(low).min(count) * width);
        let terms = &terms[start..end];
        let (values, above) = values.split_at_mut(end);
        let (below, values) = values.split_at_mut(start);
        let (before, after) = if reversed { (above, below) } else { (below, above) };
        repeat(before, sums, way.value);
        let groups = terms.chunks_exact(width).zip(values.chunks_exact_mut(width));
        if width == 1 {
            alone(terms, values, &mut sums[0], reversed, way);
        } else if reversed {
            for (terms, values) in groups.rev() {
                add(terms, values, sums, way);
            }
        } else {
            for (terms, values) in groups {
                add(terms, values, sums, way);
            }
        }
        repeat(after, sums, way.value);
        place = if reversed { length - 1 } else { 0 };
        left -= count;
        done += count;
    }
}

/// Stores the sums at places that add no term.
#[inline(always)]
fn repeat<T: Copy, S: Copy>(values: &mut [T], sums: &[S], value: impl Fn(S) -> T) {
    for values in values.chunks_exact_mut(sums.len()) {
        for (x, sum) in values.iter_mut().zip(sums) {
            *x = value(*sum);
        }
    }
}

/// Adds one term to each sum.
#[inline(always)]
fn add<T: Copy, S: Copy>(
    terms: &[T],
    values: &mut [T],
    sums: &mut [S],
    way: Way<S, impl Fn(T) -> S, impl Fn(S) -> T, impl Fn(S, S) -> S>,
) {
    for ((term, x), sum) in terms.iter().zip(values).zip(sums) {
        *sum = (way.f)(*sum, (way.term)(*term));
        *x = (way.value)(*sum);
    }
}

/// The parts of a single run that are taken at once.
const PARTS: usize = 8;

/// Takes the terms of a single run. Each sum waits for the one before it, so that parts of the run
/// are aggregated first, all at once, and then run at once, each from the sum before it.
#[inline(always)]
fn alone<T: Copy, S: Copy>(
    terms: &[T],
    values: &mut [T],
    sum: &mut S,
    reversed: bool,
    way: Way<S, impl Fn(T) -> S, impl Fn(S) -> T, impl Fn(S, S) -> S>,
) {
    let Way { identity, term, value, f, has_parts } = way;
    let length = values.len();
    let terms = &terms[..length];
    let at = |i: usize| if reversed { length - 1 - i } else { i };
    let part = if has_parts && length >= 8 * PARTS { length / PARTS } else { 0 };
    if part > 0 {
        let mut sums = [identity; PARTS];
        for i in 0..part {
            for (number, sum) in sums.iter_mut().enumerate() {
                *sum = f(*sum, term(terms[at(number * part + i)]));
            }
        }
        for sum_of_part in &mut sums {
            let after = f(*sum, *sum_of_part);
            *sum_of_part = std::mem::replace(sum, after);
        }
        for i in 0..part {
            for (number, sum) in sums.iter_mut().enumerate() {
                let place = at(number * part + i);
                *sum = f(*sum, term(terms[place]));
                values[place] = value(*sum);
            }
        }
    }
    for i in part * PARTS..length {
        let place = at(i);
        *sum = f(*sum, term(terms[place]));
        values[place] = value(*sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers, so that sums are exact in any order.
    fn terms(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i * 7 % 11) as f32 - 4.0).collect()
    }

    /// Returns the aggregates of whole lines, place by place.
    fn one_by_one(line: &Line, terms: &[f32], identity: f32, f: fn(f32, f32) -> f32) -> Vec<f32> {
        let mut values = terms.to_vec();
        for values in values.chunks_mut(line.width * line.length) {
            for lane in 0..line.width {
                let mut sum = identity;
                for number in 0..line.length {
                    let place = if line.reversed { line.length - 1 - number } else { number };
                    let x = &mut values[place * line.width + lane];
                    if line.added.contains(&place) {
                        sum = f(sum, *x);
                    }
                    *x = sum;
                }
            }
        }
        values
    }

    /// The product of a part of these terms is infinite, and that of all up to each place 0.
    #[test]
    fn products_are_taken_in_order() {
        let line = Line { width: 1, length: 128, reversed: false, added: 0..128 };
        let (mut terms, mut values) = (vec![1e38; 128], vec![f32::NAN; 128]);
        terms[0] = 0.0;
        run_along_f32(Aggregation::Product, &line, 0, 1.0, &terms, &mut values, &mut [1.0]);
        assert_eq!(values, vec![0.0; 128]);
    }

    /// The sum of a part of these terms is infinite, and no running sum is.
    #[test]
    fn sums_stay_in_the_range_of_f64() {
        let line = Line { width: 1, length: 128, reversed: false, added: 0..128 };
        let (mut terms, mut values) = (vec![0.0; 128], vec![f64::NAN; 128]);
        (terms[0], terms[20], terms[21], terms[22]) = (-1.5e308, 1e308, 0.9e308, -1e308);
        run_along(Aggregation::Sum, &line, 0, 0.0, &terms, &mut values, &mut [0.0]);
        assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
    }

    #[test]
    fn aggregates_run_over_chunks_of_any_size() {
        for (width, length, lines) in
            [(1, 1, 3), (1, 5, 3), (1, 700, 2), (2, 9, 3), (8, 30, 2), (17, 7, 3)]
        {
            for (reversed, start) in [(false, 0), (true, 0), (false, 2), (true, 2)] {
                let added = start.min(length)..length - usize::from(length > 4 && start > 0);
                let line = Line { width, length, reversed, added };
                let terms = terms(width * length * lines);
                let sums = one_by_one(&line, &terms, 0.0, |a, b| a + b);
                let greatest = one_by_one(&line, &terms, f32::NEG_INFINITY, f32::max);
                for chunk in [1, 3, 64, 1000] {
                    let (mut in_f64, mut in_f32) = (vec![0.0; width], vec![0.0; width]);
                    let (mut found, mut found_greatest) =
                        (vec![f32::NAN; terms.len()], vec![f32::NAN; terms.len()]);
                    let groups: Vec<usize> = (0..length * lines).step_by(chunk).collect();
                    for number in 0..groups.len() {
                        let start =
                            groups[if reversed { groups.len() - 1 - number } else { number }];
                        let end = (start + chunk).min(length * lines);
                        let place = if reversed { end - 1 } else { start } % length;
                        let part = start * width..end * width;
                        let (of, to) = (&terms[part.clone()], &mut found[part.clone()]);
                        run_along_f32(Aggregation::Sum, &line, place, 0.0, of, to, &mut in_f64);
                        let to = &mut found_greatest[part];
                        let identity = f32::NEG_INFINITY;
                        run_along(Aggregation::Max, &line, place, identity, of, to, &mut in_f32);
                    }
                    assert_eq!(found, sums, "{line:?} by {chunk}");
                    assert_eq!(found_greatest, greatest, "{line:?} by {chunk}");
                }
            }
        }
    }
}
