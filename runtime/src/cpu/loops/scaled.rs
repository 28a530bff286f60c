//! Sums of products of numbers and scaled 8-bit integers along rows, as they are in memory: a
//! matrix of quantized weights by a vector.

use super::reduction::Run;
use super::walk::{Piece, Walker};
use crate::cpu::vector::{self, Row};
use std::ops::Range;
use tile_compiler::affine::Affine;
use tile_compiler::native::{self, Lines, Space, Zero};

/// The rows of a reduction that has them.
pub struct ScaledDots {
    numbers: usize,
    integers: usize,
    scale: usize,
    zero: Option<usize>,
    /// The zero of all integers, if there is no operand.
    constant: f32,
    is_signed: bool,
    /// The addresses of the first number, integer, scale and zero of a row, through the places.
    lines: Lines,
    /// The elements from the scale and the zero of a block to the next.
    beside: [usize; 2],
    /// The points of a row, and of a block.
    length: usize,
    block: usize,
}

/// The elements of an operand, and the position of the first one.
type Elements<'a, T> = (&'a [T], usize);

impl ScaledDots {
    pub fn new(reduction: &native::Reduction) -> Option<Self> {
        let native::ScaledDots { numbers, integers, is_signed, scale, zero, block } =
            reduction.scaled_dots()?;
        let (constant, zero) = match zero {
            Zero::Constant(constant) => (constant, None),
            Zero::Loaded(reader) => (0.0, Some(reader)),
        };
        let readers = [Some(numbers), Some(integers), Some(scale), zero];
        let addresses = readers.into_iter().flatten().flat_map(|reader| &reader.offset.expressions);
        let addresses: Vec<Affine> = addresses.cloned().collect();
        let lines = Lines::through(&reduction.places, numbers.offset.axes, &[], addresses);
        let beside = [Some(scale), zero].map(|r| r.map_or(0, |r| r.offset.beside[0] as usize));
        Some(Self {
            numbers: numbers.operand,
            integers: integers.operand,
            scale: scale.operand,
            zero: zero.map(|reader| reader.operand),
            constant,
            is_signed,
            lines,
            beside,
            length: reduction.points.size,
            block,
        })
    }

    /// Computes some places. Returns false, and computes none, if an output overwrites an operand.
    pub fn run(&self, run: &Run<f32>, places: Range<usize>) -> bool {
        let zeros = self.zero.map(|zero| run.plain(zero));
        let (Some(numbers), Some(integers), Some(scales), false) = (
            run.plain(self.numbers),
            run.plain(self.integers),
            run.plain(self.scale),
            zeros == Some(None),
        ) else {
            return false;
        };
        let work = (run.reduction.body.operations + 1).saturating_mul(self.length);
        run.in_rows(places, work, |at, chunk, (sums, _)| {
            self.sum(at, (numbers, integers), (scales, zeros.flatten()), chunk, sums);
        });
        true
    }

    /// Computes the sums of a chunk of places. `walker` is at the first point of the reduction.
    fn sum(
        &self,
        (places, walker): (&Space, &mut Walker),
        (numbers, integers): (Elements<f32>, Elements<u8>),
        (scales, zeros): (Elements<f32>, Option<Elements<f32>>),
        chunk: Range<usize>,
        sums: &mut [f32],
    ) {
        let Self { lines, length, .. } = self;
        walker.walk(
            places,
            lines,
            chunk.start,
            chunk.len(),
            |Piece { at, length: rows, values }| {
                for (row, sum) in sums[at..at + rows].iter_mut().enumerate() {
                    let start = |side: usize, first: usize| {
                        (values[side] + row as i64 * lines.steps[side] - first as i64) as usize
                    };
                    let zeros = match zeros {
                        Some((zeros, first)) => (&zeros[start(3, first)..], self.beside[1]),
                        None => (&[self.constant][..], 0),
                    };
                    *sum = vector::scaled_dot(Row {
                        numbers: &numbers.0[start(0, numbers.1)..][..*length],
                        integers: &integers.0[start(1, integers.1)..][..*length],
                        is_signed: self.is_signed,
                        block: self.block,
                        zeros,
                        scales: (&scales.0[start(2, scales.1)..], self.beside[0]),
                    });
                }
            },
        );
    }
}
