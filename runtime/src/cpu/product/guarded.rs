//! Sums of a product that are NaN, computed again from the terms that count.
//!
//! Packed operands are zero where a guard fails. Zero times an infinite or NaN element of the other
//! operand is NaN, though the term does not count. All other sums are right, so that only those
//! that are NaN, at places where a guard may fail, are computed again.

use super::gemm::{Element, Pack, Panel, Right, Size, Tile};
use super::places::locate;
use crate::cpu::loops::walk::{Walker, guards_hold};
use crate::cpu::vector;
use crate::cpu::vector::number::{Bool, Number};
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{Lines, NativeProgram, Product, Space};

/// The bytes of columns that are unpacked together.
const TOGETHER: usize = 1 << 20;

/// The terms of a product whose guards may fail. A term counts where they hold.
pub struct GuardedTerms {
    guards: Lines,
    /// The points of the reduction.
    points: Space,
    /// For each term, in the order in which operands are packed, its point.
    terms: Vec<usize>,
    /// The axes of the batch, rows and columns.
    axes: [Vec<usize>; 3],
    /// Whether the guards depend on the column.
    depends_on_column: bool,
    extents: Vec<usize>,
    /// The number of variables, and the first that is a loop around the nest.
    variables: usize,
    loops: usize,
}

impl GuardedTerms {
    /// Prepares the guards of a product. Returns `None` if all terms count. `order` is that of the
    /// terms, if another than the product's.
    pub fn new(
        program: &NativeProgram,
        product: &Product,
        order: Option<&[usize]>,
    ) -> Option<Self> {
        let Product { batch, rows, columns, terms, guards, .. } = product;
        if guards.is_empty() {
            return None;
        }
        let NativeProgram { variables, extents, .. } = program;
        let first = terms.iter().copied().min().unwrap_or(variables.loops);
        let points = Space::of(first, extents[first..variables.loops].to_vec());
        let mut point = vec![0; extents.len()];
        let number = |term: usize| {
            locate(extents, terms, order.map_or(term, |order| order[term]), &mut point);
            points.axes().fold(0, |number, axis| number * extents[axis] + point[axis] as usize)
        };
        Some(Self {
            guards: Lines::through(&points, variables.axes, &variables.derived, guards.clone()),
            terms: (0..points.size).map(number).collect(),
            points,
            axes: [batch, rows, columns].map(Clone::clone),
            depends_on_column: guards
                .iter()
                .flat_map(|guard| guard.variables())
                .any(|variable| columns.contains(&variable) || variable >= variables.axes),
            extents: extents.clone(),
            variables: variables.count(),
            loops: variables.loops,
        })
    }

    /// Returns the sums of a tile, row by row, with those that are NaN computed again. Returns
    /// `None` if none is. `left` and `right` are the operands, at these steps of the loops.
    pub fn repair<T: Element>(
        &self,
        tile: &Tile<T>,
        size: Size,
        left: &impl Pack<T>,
        right: Right<impl Pack<T>>,
        steps: &[usize],
    ) -> Option<Vec<T>> {
        // The sum of several sums is NaN if one of them is. All at once are summed fast.
        let has_nan = |sums: &[T]| {
            let sums = bytemuck::cast_slice(sums);
            is_nan(vector::fold(Aggregation::Sum, T::Sum::default(), sums, None))
        };
        if !has_nan(tile.memory()) || !tile.iter().any(|(_, sums)| has_nan(sums)) {
            return None;
        }
        let mut walker = Walker::new(self.variables);
        for (variable, step) in (self.loops..).zip(steps) {
            walker.point[variable] = *step as i64;
        }
        let [batch, rows, columns] = &self.axes;
        locate(&self.extents, batch, tile.batch, &mut walker.point);
        let (k, width) = (size.k, tile.columns.len());
        let mut repaired: Vec<T> = tile.iter().flat_map(|(_, sums)| sums).copied().collect();
        let together = (TOGETHER / size_of::<T>() / k.max(1)).clamp(1, width.max(1));
        let mut of_columns = vec![T::default(); together * k];
        let [mut of_row, mut of_column, mut counted] = [(); 3].map(|()| vec![T::default(); k]);
        let mut mask = Mask { points: vec![Bool(0); k], terms: vec![Bool(0); k] };
        for first in (0..width).step_by(together) {
            let some = first..width.min(first + together);
            let numbers = tile.columns.start + some.start..tile.columns.start + some.end;
            let mut are_unpacked = false;
            for (row, sums) in tile.rows.clone().zip(repaired.chunks_exact_mut(width)) {
                let sums = &mut sums[some.clone()];
                if !has_nan(sums) {
                    continue;
                }
                locate(&self.extents, rows, row, &mut walker.point);
                if !self.depends_on_column && self.find(&mut walker, &mut mask) {
                    continue;
                }
                pack_line(left, tile.batch, row, &mut of_row);
                if !self.depends_on_column {
                    mask.select(&of_row, &mut counted);
                    // A term that counts and is NaN makes NaN of all sums. Infinite terms of both
                    // signs need not, so that their sum says nothing.
                    let factors: &[T::Sum] = bytemuck::cast_slice(&counted);
                    if factors.iter().any(|factor| is_nan(*factor)) {
                        continue;
                    }
                }
                if !are_unpacked {
                    for (column, to) in numbers.clone().zip(of_columns.chunks_exact_mut(k)) {
                        match right {
                            Right::Packed(packed) => packed.column(tile.batch, column, to),
                            Right::Now(right) => pack_line(right, tile.batch, column, to),
                        }
                    }
                    are_unpacked = true;
                }
                let of_columns = of_columns.chunks_exact(k);
                for ((column, sum), factors) in numbers.clone().zip(sums).zip(of_columns) {
                    if !is_nan::<T::Sum>(bytemuck::cast(*sum)) {
                        continue;
                    }
                    if self.depends_on_column {
                        locate(&self.extents, columns, column, &mut walker.point);
                        if self.find(&mut walker, &mut mask) {
                            continue;
                        }
                        mask.select(&of_row, &mut counted);
                    }
                    mask.select(factors, &mut of_column);
                    *sum = dot(&counted, &of_column);
                }
            }
        }
        Some(repaired)
    }

    /// Finds the terms that count at the walker's place. Returns whether all do.
    fn find(&self, walker: &mut Walker, mask: &mut Mask) -> bool {
        let Mask { points, terms } = mask;
        let all = guards_hold(&self.points, &self.guards, walker, &(0..points.len()), points);
        if !all {
            terms.iter_mut().zip(&self.terms).for_each(|(term, point)| *term = points[*point]);
        }
        all
    }
}

/// Says which terms count, by points of the reduction and in the order of packed operands.
struct Mask {
    points: Vec<Bool>,
    terms: Vec<Bool>,
}

impl Mask {
    /// Copies factors of the terms that count, and zeros for the others.
    fn select<T: Element>(&self, factors: &[T], to: &mut [T]) {
        for ((to, factor), counts) in to.iter_mut().zip(factors).zip(&self.terms) {
            *to = if counts.0 != 0 { *factor } else { T::default() };
        }
    }
}

/// Sums the products of two rows of factors.
fn dot<T: Element>(a: &[T], b: &[T]) -> T {
    let mut sum = [T::Sum::default()];
    let (a, b) = (bytemuck::cast_slice(a), bytemuck::cast_slice(b));
    vector::dots::<T::Sum>((a, 0), (b, 0), a.len(), &mut sum);
    bytemuck::cast(sum[0])
}

fn is_nan<T: Number>(x: T) -> bool {
    !T::equal(x, x)
}

/// Copies the terms of one row or column of an operand.
fn pack_line<T>(operand: &impl Pack<T>, batch: usize, outer: usize, terms: &mut [T]) {
    let all = terms.len();
    let panel = Panel { data: terms, outer_stride: all, k_stride: 1 };
    operand.pack(batch, outer..outer + 1, 0..all, panel);
}
