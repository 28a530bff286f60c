//! Aggregations with a rank: the positions of the best values, in order.
//!
//! A *row* is all places that differ in their rank alone. Its points are evaluated once. A list
//! holds the best values so far with their positions; whenever it is full, the better half stays,
//! and values worse than these are passed over, many at a time.

use super::counting::Counting;
use super::job::parallel;
use super::machine::Machine;
use super::reduction::{Reduction, Run};
use super::walk::Walker;
use crate::cpu::memory::Shared;
use crate::cpu::vector::number::{Bool, Number};
use crate::cpu::vector::{self, Best, NOWHERE};
use std::ops::Range;
use tile_compiler::graph::Aggregation;
use tile_compiler::native;

/// The ranks of a reduction's places.
pub struct Ranks {
    /// The places of a row: their numbers, less that of its first place, and their ranks.
    of_row: Vec<(usize, usize)>,
    /// The extents of the other axes, and their strides in places.
    rows: Vec<(usize, usize)>,
    /// One more than the greatest rank.
    count: usize,
}

impl Ranks {
    /// Finds the rows and ranks of a reduction, if it has ranks.
    pub fn new(reduction: &native::Reduction) -> Option<Self> {
        let rank = reduction.rank.as_ref()?;
        let mut stride = reduction.places.size;
        let (mut rows, mut of_row) = (Vec::new(), vec![(0, rank.offset() as usize)]);
        for (axis, &extent) in reduction.places.axes().zip(&reduction.places.extents) {
            stride /= extent;
            match rank.coefficient(axis) as usize {
                0 => rows.push((extent, stride)),
                step => {
                    let along = |(place, rank): (usize, usize)| {
                        (0..extent).map(move |i| (place + i * stride, rank + i * step))
                    };
                    of_row = of_row.into_iter().flat_map(along).collect();
                }
            }
        }
        let count = of_row.iter().map(|(_, rank)| rank + 1).max().unwrap_or(0);
        Some(Self { of_row, rows, count })
    }

    /// Returns the first place of a row.
    fn first(&self, mut row: usize) -> usize {
        let mut place = 0;
        for &(extent, stride) in self.rows.iter().rev() {
            place += row % extent * stride;
            row /= extent;
        }
        place
    }

    /// Returns the most values that a list holds.
    fn room(&self) -> usize {
        const LEAST: usize = 32;
        (2 * self.count).max(LEAST)
    }

    /// Returns the bytes that a run keeps for lists of `points` values and `places` positions.
    pub fn working_bytes(&self, points: usize, places: usize) -> u64 {
        let lists =
            self.room().min(points).saturating_mul(16 * crate::cpu::threads::pool::threads());
        lists.saturating_add(places.saturating_mul(4)) as u64
    }

    /// Computes all places.
    pub fn run<T: Number>(&self, run: &Run<T>, places: Range<usize>) {
        let mut positions = vec![NOWHERE; places.len()];
        let shared = Shared::new(&mut positions);
        let rows = places.len() / self.of_row.len();
        let work = (run.reduction.body.operations + 1).saturating_mul(run.reduction.points.size);
        parallel(
            0..rows,
            work,
            || Selection::new(run, self),
            |selection, rows| {
                for row in rows {
                    let first = self.first(row);
                    let best = selection.select(first);
                    for &(place, rank) in &self.of_row {
                        let Some(position) = best.get(rank) else { continue };
                        // SAFETY: each row has its own places, and one thread selects it.
                        let to = unsafe { shared.slice(first + place..first + place + 1) };
                        to[0] = *position as u32 as i32;
                    }
                }
            },
        );
        let (epilogue, nothing) = (run.job.epilogue, run.identity);
        parallel(
            places,
            epilogue.operations,
            || run.job.finisher(),
            |machine, places| {
                for chunk in epilogue.chunks(places) {
                    run.finish(machine, chunk, |place| Best {
                        value: nothing,
                        position: positions[place],
                    });
                }
            },
        );
    }
}

/// The selection of a row's best values.
struct Selection<'a, T> {
    run: &'a Run<'a, T>,
    machine: Machine<'a>,
    counting: Counting<'a>,
    positions: Walker,
    list: List<T>,
}

impl<'a, T: Number> Selection<'a, T> {
    fn new(run: &'a Run<'a, T>, ranks: &Ranks) -> Self {
        let machine = run.reduction.body.machine(run.job.launch);
        Self {
            run,
            counting: Counting::new(&run.reduction.body, &run.reduction.guards),
            positions: machine.walker.clone(),
            machine,
            list: List {
                greatest: run.aggregation == Aggregation::ArgMax,
                count: ranks.count,
                room: ranks.room(),
                limit: None,
                items: Vec::new(),
            },
        }
    }

    /// Returns the best values of the row that begins at a place, the best one first, with their
    /// positions in the lower half.
    fn select(&mut self, first: usize) -> &[u128] {
        let Self { run, machine, counting, positions, list } = self;
        let Reduction { body, places, points, position, .. } = run.reduction;
        machine.walker.locate(places, first);
        positions.locate(places, first);
        list.items.clear();
        list.limit = None;
        for chunk in body.chunks(0..points.size) {
            machine.run(chunk.start, chunk.len());
            let counts = counting.of(machine, &chunk);
            let values = machine.value::<T>(body.results[0]);
            positions.walk(points, position, chunk.start, chunk.len(), |piece| {
                let part = piece.at..piece.at + piece.length;
                let counts = counts.map(|counts| &counts[part.clone()]);
                list.add(&values[part], counts, piece.values[0], position.steps[0]);
            });
        }
        list.shorten();
        list.items.sort_unstable();
        &list.items
    }
}

/// The best values so far.
struct List<T> {
    greatest: bool,
    /// The values that are wanted.
    count: usize,
    room: usize,
    /// The worst value of those wanted. No value worse than it is added.
    limit: Option<T>,
    /// Values as [`key`] orders them, then their positions.
    items: Vec<u128>,
}

impl<T: Number> List<T> {
    /// Adds the values that count. Their positions are `position`, `position + step`, ….
    fn add(&mut self, values: &[T], counts: Option<&[Bool]>, position: i64, step: i64) {
        let mut i = 0;
        loop {
            if let Some(limit) = self.limit {
                i += vector::first_within(self.greatest, limit, &values[i..]);
            }
            let Some(&value) = values.get(i) else { return };
            if counts.is_none_or(|counts| counts[i].0 != 0) {
                let position = position + i as i64 * step;
                self.items.push(u128::from(key(self.greatest, value)) << 32 | position as u128);
                if self.items.len() == self.room {
                    self.shorten();
                }
            }
            i += 1;
        }
    }

    /// Keeps only as many values as are wanted.
    fn shorten(&mut self) {
        if self.count == 0 || self.items.len() <= self.count {
            return;
        }
        let (_, worst, _) = self.items.select_nth_unstable(self.count - 1);
        let worst = (*worst >> 32) as u64;
        // All values are at least as good as a NaN.
        self.limit = (worst != u64::MAX).then(|| value(self.greatest, worst));
        self.items.truncate(self.count);
    }
}

const SIGN: u64 = 1 << 63;

/// Returns a number that is less for better values, and greatest for a NaN.
fn key<T: Number>(greatest: bool, x: T) -> u64 {
    let ascending = if T::FLOAT {
        // Both zeros are equal.
        let x = x.to_f64() + 0.0;
        if x.is_nan() {
            return u64::MAX;
        }
        let bits = x.to_bits();
        if bits & SIGN == 0 { bits | SIGN } else { !bits }
    } else if T::U64 {
        x.to_i64() as u64
    } else {
        x.to_i64() as u64 ^ SIGN
    };
    if greatest { !ascending } else { ascending }
}

/// Returns the value with a key that is not that of a NaN.
fn value<T: Number>(greatest: bool, key: u64) -> T {
    let ascending = if greatest { !key } else { key };
    if T::FLOAT {
        let bits = if ascending & SIGN == 0 { !ascending } else { ascending ^ SIGN };
        T::from_f64(f64::from_bits(bits))
    } else if T::U64 {
        T::from_i64(ascending as i64)
    } else {
        T::from_i64((ascending ^ SIGN) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        let floats = [f64::NEG_INFINITY, -1e300, -2.5, 0.0, 1e-310, 3.0, f64::INFINITY];
        for pair in floats.windows(2) {
            assert!(key(false, pair[0]) < key(false, pair[1]), "{pair:?}");
            assert!(key(true, pair[0]) > key(true, pair[1]), "{pair:?}");
        }
        for greatest in [false, true] {
            assert_eq!(key(greatest, -0.0), key(greatest, 0.0));
            assert_eq!(key(greatest, f32::NAN), u64::MAX);
            for x in floats {
                assert_eq!(value::<f64>(greatest, key(greatest, x)), x);
            }
            for x in [i64::MIN, -1, 0, 1, i64::MAX - 1] {
                assert_eq!(value::<i64>(greatest, key(greatest, x)), x);
                assert_eq!(value::<u64>(greatest, key(greatest, x as u64)), x as u64);
            }
        }
        assert!(key(false, u64::MAX) > key(false, 0u64));
        assert!(key(false, -1i8) < key(false, 0i8));
    }
}
