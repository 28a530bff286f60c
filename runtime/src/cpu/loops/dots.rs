//! Sums of products along rows of two operands, as they are in memory: the scores of attention, or
//! a matrix by a vector. Rows may lie anywhere, so neither operand is copied or packed.

use super::walk::{Piece, Walker};
use crate::cpu::vector;
use crate::cpu::vector::number::Number;
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::native::{self, Lines, Space};

/// The rows of a reduction that has them.
pub struct Dots {
    pub operands: [usize; 2],
    /// The addresses of both rows' first elements, through the places.
    lines: Lines,
    /// The length of a row.
    length: usize,
}

impl Dots {
    pub fn new(reduction: &native::Reduction) -> Option<Self> {
        let [a, b] = reduction.dots()?;
        let addresses: Vec<Affine> =
            a.offset.expressions.iter().chain(&b.offset.expressions).cloned().collect();
        let lines = Lines::through(&reduction.places, a.offset.axes, &[], addresses);
        let forward = lines.steps.iter().all(|step| *step >= 0);
        forward.then_some(Self {
            operands: [a.operand, b.operand],
            lines,
            length: reduction.points.size,
        })
    }

    /// Sums the products of the rows of a chunk of places. `data` has the elements of both operands
    /// and the position of the first one, and `walker` is at the first point of the reduction.
    pub fn sum<T: Number>(
        &self,
        (places, walker): (&Space, &mut Walker),
        data: [(&[T], usize); 2],
        chunk: Range<usize>,
        sums: &mut [T],
    ) {
        walker.walk(
            places,
            &self.lines,
            chunk.start,
            chunk.len(),
            |Piece { at, length: rows, values }| {
                let [a, b] = [0, 1].map(|side| {
                    let (data, first) = data[side];
                    let start = (values[side] - first as i64) as usize;
                    (&data[start..], self.lines.steps[side] as usize)
                });
                vector::dots(a, b, self.length, &mut sums[at..at + rows]);
            },
        );
    }
}
