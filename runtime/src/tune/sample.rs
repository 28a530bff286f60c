//! The operands on which a kernel is measured and checked, and its expected results in some places.
//!
//! Floats are small integers, so that sums of their products are exact in any order. The reference
//! ([`tile_compiler::interpret::nest`]) then demands equal values, and a term that is missing, read
//! twice or taken from its neighbour cannot hide behind a tolerance. Where a result is not exact,
//! the bound is the sum of the possible roundings.
//!
//! In a small nest every place is checked. In others, as many places are checked as the reference
//! computes in a fraction of a second. The first and last coordinates of each axis are drawn far
//! more often than others, so that corners, edges and the remainders of tiles are among them; the
//! rest is spread evenly. A faulty schedule fails in tiles, lanes or slices, not in single places:
//! if one place in 64 is wrong, 256 places show it in 98 of 100 cases. A schedule that is wrong in
//! fewer places, and is not a candidate of the random programs that tests compare with the
//! reference, could pass.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::interpret::nest::{Written, row, rows};
use tile_compiler::interpret::{self};
use tile_compiler::nest::{Inner, Leaf, Nest};
use tile_compiler::scalar::{Inst, Program, Value};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::splitmix::SplitMix64;

/// About the instructions that the reference evaluates for a kernel, and the least rows that it
/// computes.
const EFFORT: usize = 1 << 22;
const LEAST: usize = 8;

/// The number of elements after which an operand repeats: a prime, so that neighbours along any
/// axis differ.
const PERIOD: usize = 65_521;

/// The range of an operand's floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Floats {
    /// From -3 to 3, without 0.
    Signed,
    /// From 1 to 3, for functions of which the others give NaN: roots, logarithms.
    Positive,
}

/// Creates a tensor for each operand of a nest, or returns `None` if memory is lacking.
pub fn operands(nest: &Nest, floats: Floats) -> Option<Vec<Tensor>> {
    nest.operands.iter().enumerate().map(|(number, ty)| operand(nest, number, ty, floats)).collect()
}

fn operand(nest: &Nest, number: usize, ty: &TensorType, floats: Floats) -> Option<Tensor> {
    let indexed = [&nest.body, &nest.epilogue]
        .into_iter()
        .filter_map(|program| indexes(nest, program, number))
        .max();
    let mut numbers = SplitMix64::new(number as u64);
    let mut value = || match (ty.dtype, indexed) {
        (DType::Bool, _) => Scalar::bool(numbers.index(2) == 1),
        (dtype, Some(count)) if !dtype.is_float() => {
            Scalar::from_i64(dtype, numbers.index(count) as i64)
        }
        (dtype, _) => {
            let magnitude = numbers.index(3) as i64 + 1;
            let negative = floats == Floats::Signed && numbers.index(2) == 1;
            Scalar::from_i64(dtype, if negative { -magnitude } else { magnitude })
        }
    };
    let count = ty.checked_elements()?;
    let period = TensorType::new(ty.dtype, [count.min(PERIOD)]);
    let period =
        Tensor::from_scalars(period, (0..count.min(PERIOD)).map(|_| value()))?.into_bytes();
    let length = count.checked_mul(ty.dtype.size())?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).ok()?;
    while bytes.len() < length {
        let part = period.len().min(length - bytes.len());
        bytes.extend_from_slice(&period[..part]);
    }
    Tensor::from_bytes(ty.clone(), bytes)
}

/// Returns the number of places that the elements of an operand select from, if a program uses them
/// as indices.
fn indexes(nest: &Nest, program: &Program<Leaf>, operand: usize) -> Option<usize> {
    let loads = program.leaves().filter_map(|leaf| match leaf {
        Leaf::Load(load) => Some(load),
        _ => None,
    });
    let indices = loads.flat_map(|load| load.dynamic.iter().map(move |dynamic| (load, dynamic)));
    let chooses = indices.filter(|(_, (value, _))| depends(program, *value, operand));
    let places = |(load, (_, stride)): (&tile_compiler::nest::Load, &(Value, i64))| {
        nest.operands[load.operand].elements() / stride.unsigned_abs().max(1) as usize
    };
    chooses.map(places).max()
}

/// Returns whether a value is computed from elements of an operand.
fn depends(program: &Program<Leaf>, value: Value, operand: usize) -> bool {
    match &program.insts[value].0 {
        Inst::Leaf(Leaf::Load(load)) => load.operand == operand,
        inst => inst.operands().into_iter().any(|value| depends(program, value, operand)),
    }
}

/// Returns the last turn of each loop around the nest. No later turn overwrites what it writes.
fn last_turns(nest: &Nest) -> Vec<usize> {
    nest.axes[nest.loops()].iter().map(|axis| axis.extent - 1).collect()
}

/// Returns the values that the nest should write in some of its rows, in the last turns of all
/// loops.
///
/// # Errors
/// If the nest is malformed, which would be a bug of tilec.
pub fn expected(nest: &Nest, operands: &[Tensor]) -> Result<Vec<Written>, interpret::Error> {
    let turns = last_turns(nest);
    let chosen = chosen(nest);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let part = |rows: &[usize]| {
        let written = rows.iter().map(|&number| row(nest, operands, number, &turns));
        Ok(written.collect::<Result<Vec<_>, _>>()?.concat())
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = chosen.chunks(chosen.len().div_ceil(threads).max(1)).collect();
        let parts: Vec<_> = parts.into_iter().map(|rows| scope.spawn(move || part(rows))).collect();
        let mut all = Vec::new();
        for thread in parts {
            let panicked = |_| interpret::Error::Malformed("the reference panicked".into());
            all.extend(thread.join().map_err(panicked)??);
        }
        Ok(all)
    })
}

/// Returns the rows to check.
fn chosen(nest: &Nest) -> Vec<usize> {
    let points = nest.reduction_points();
    let of_place = points.saturating_mul(nest.body.insts.len()) + nest.epilogue.insts.len();
    let terms =
        |inner: &Inner| nest.points(inner.axes.clone()).saturating_mul(inner.body.insts.len());
    // Inner sums are the same all over a row.
    let of_row = points.saturating_mul(nest.inner.iter().map(terms).sum());
    let affordable =
        EFFORT / of_place.saturating_mul(nest.row_length()).saturating_add(of_row).max(1);
    let (count, all) = (affordable.max(LEAST), rows(nest));
    if count >= all {
        return (0..all).collect();
    }
    let mut numbers = SplitMix64::new(1);
    let mut draw = || {
        nest.axes[..nest.rows].iter().fold(0, |row, axis| {
            let at = match numbers.index(8) {
                0 => 0,
                1 | 2 => axis.extent - 1,
                _ => numbers.index(axis.extent),
            };
            row * axis.extent + at
        })
    };
    let mut rows: Vec<usize> = [0, all - 1].into_iter().chain((2..count).map(|_| draw())).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}
