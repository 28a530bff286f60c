//! Sums of a product that are NaN, computed again from the terms that count.
//!
//! Packed operands are zero where a guard fails. Zero times an infinite or NaN element of the other
//! operand is NaN, though the term does not count. All other sums are right, so that only those
//! that are NaN, at places where a guard may fail, are computed term by term.

use super::gemm::{Element, Pack, Panel, Right, Size, Tile};
use super::places::locate;
use crate::cpu::loops::walk::{Walker, guards_hold};
use crate::cpu::vector;
use crate::cpu::vector::number::{Bool, Number};
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{Lines, NativeProgram, Product, Space};
use tile_compiler::scalar::BinaryOp;

/// The terms of a product that count.
pub struct Counted {
    guards: Lines,
    /// The points of the reduction.
    points: Space,
    /// For each term, in the order in which operands are packed, its point.
    terms: Vec<usize>,
    /// The axes of the batch, rows and columns.
    axes: [Vec<usize>; 3],
    extents: Vec<usize>,
    /// The number of variables, and the first that is a loop around the nest.
    variables: usize,
    loops: usize,
}

impl Counted {
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
        let mut counts = vec![Bool(0); self.points.size];
        let [mut row_terms, mut column_terms] = [(); 2].map(|()| vec![T::default(); size.k]);
        let mut repaired: Vec<T> = Vec::with_capacity(tile.rows.len() * tile.columns.len());
        for (row, sums) in tile.iter() {
            locate(&self.extents, rows, row, &mut walker.point);
            pack_line(left, tile.batch, row, &mut row_terms);
            for (column, sum) in tile.columns.clone().zip(sums) {
                locate(&self.extents, columns, column, &mut walker.point);
                let all = 0..self.points.size;
                if !is_nan::<T::Sum>(bytemuck::cast(*sum))
                    || guards_hold(&self.points, &self.guards, &mut walker, &all, &mut counts)
                {
                    repaired.push(*sum);
                    continue;
                }
                match right {
                    Right::Packed(packed) => {
                        packed.column(size, tile.batch, column, &mut column_terms);
                    }
                    Right::Now(right) => pack_line(right, tile.batch, column, &mut column_terms),
                }
                repaired.push(self.sum(&row_terms, &column_terms, &counts));
            }
        }
        Some(repaired)
    }

    /// Sums the products of the terms that count.
    fn sum<T: Element>(&self, row: &[T], column: &[T], counts: &[Bool]) -> T {
        let mut sum = T::Sum::default();
        for ((a, b), point) in row.iter().zip(column).zip(&self.terms) {
            if counts[*point].0 != 0 {
                let product = T::Sum::binary(BinaryOp::Mul, bytemuck::cast(*a), bytemuck::cast(*b));
                sum = T::Sum::binary(BinaryOp::Add, sum, product);
            }
        }
        bytemuck::cast(sum)
    }
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
