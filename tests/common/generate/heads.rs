//! Random products that passes rewrite: of one tensor with several weights, as of an attention's
//! queries, keys and values; transposed convolutions; and products of small integers.

use tile_compiler::affine::Affine;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Aggregation, Op};
use tile_compiler::scalar::BinaryOp;
use tile_compiler::tensor::TensorType;

use super::chain::{contract, form};
use super::choices::Choices;
use super::graph::{Builder, Value};

/// Generates two to four products of one tensor, then perhaps a transposed convolution of it, and
/// perhaps a product of integers.
pub fn heads(choices: &mut Choices, builder: &mut Builder) {
    let (rows, terms) = (choices.size(20), choices.size(20));
    let x = builder.input_of(choices, DType::F32, &[rows, terms], -2.0, 2.0, 2);
    let is_biased = choices.once_in(2);
    let mut found: Vec<Value> =
        (0..2 + choices.pick(3)).map(|_| head(choices, builder, x, is_biased)).collect();
    if choices.once_in(2) {
        found.push(transposed(choices, builder, x));
    }
    if choices.once_in(3) {
        found.push(quantized(choices, builder, [rows, terms]));
    }
    builder.values = found;
}

/// Adds a product with a weight of its own, perhaps with a bias, and perhaps with two axes of
/// columns.
fn head(choices: &mut Choices, builder: &mut Builder, x: Value, is_biased: bool) -> Value {
    let [rows, terms] = builder.shape(x)[..] else { return x };
    let columns = 2 * choices.size(9);
    let weight = builder.weight(choices, DType::F32, &[terms, columns]);
    let place = (&[Affine::var(0), Affine::var(1)][..], vec![rows, columns]);
    let matrix = vec![Affine::var(2), Affine::var(1)];
    let row = vec![Affine::var(0), Affine::var(2)];
    let mut y = contract(
        builder,
        Aggregation::Sum,
        &[rows, columns, terms],
        place,
        &[(x, row), (weight, matrix)],
    );
    without_constraints(builder, y);
    if is_biased {
        let bias = builder.weight(choices, DType::F32, &[columns]);
        y = builder.binary(BinaryOp::Add, y, bias);
    }
    if choices.once_in(3) {
        let ty = TensorType::new(DType::F32, vec![rows, 2, columns / 2]);
        y = builder.add(Op::Reshape, ty, &[y.id], y.bound);
    }
    y
}

/// Adds `Y[s * n + i, f] = +(X[n, c] * K[i, c, f])` for a stride `s`.
fn transposed(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let [rows, channels] = builder.shape(x)[..] else { return x };
    let (stride, window, filters) =
        (choices.of(&[2, 3]), choices.of(&[3, 2, 4]), choices.of(&[5, 1, 8]));
    let kernel = builder.weight(choices, DType::F32, &[window, channels, filters]);
    let length = if rows == 0 { 0 } else { stride * (rows - 1) + window };
    let place = [form(&[(0, stride as i64), (1, 1)], 0), Affine::var(2)];
    let row = vec![Affine::var(0), Affine::var(3)];
    let tap = [1, 3, 2].map(Affine::var).to_vec();
    let extents = [rows, window, filters, channels];
    let y = contract(
        builder,
        Aggregation::Sum,
        &extents,
        (&place, vec![length, filters]),
        &[(x, row), (kernel, tap)],
    );
    without_constraints(builder, y);
    y
}

/// Adds a product of small integers, summed in a wider type: perhaps less zero points, perhaps
/// times scales in f32, and perhaps of windows of the rows.
fn quantized(choices: &mut Choices, builder: &mut Builder, [rows, terms]: [usize; 2]) -> Value {
    let (columns, wide) = (choices.size(9), choices.of(&[DType::I32, DType::I64, DType::U32]));
    let narrow = if wide == DType::U32 { [DType::U8, DType::Bool] } else { [DType::I8, DType::U8] };
    let taps = choices.of(&[1, 1, 3]);
    let is_scaled = wide == DType::I32 && choices.once_in(2);
    let mut factor = |shape: &[usize], zeros: &[usize]| {
        let dtype = choices.of(&narrow);
        let value = builder.input(choices, dtype, shape);
        let value = builder.cast(value, wide);
        let value = match choices.pick(4) {
            0 | 1 => value,
            2 => {
                let zero = builder.constant(Scalar::from_i64(wide, choices.of(&[1, 128, 127])));
                builder.binary(BinaryOp::Sub, value, zero)
            }
            _ => {
                let shape = if choices.once_in(2) { zeros } else { &[] };
                let zero = builder.input(choices, dtype, shape);
                let zero = builder.cast(zero, wide);
                builder.binary(BinaryOp::Sub, value, zero)
            }
        };
        if !is_scaled {
            return value;
        }
        let value = builder.cast(value, DType::F32);
        let shape = if choices.once_in(2) { zeros } else { &[] };
        let scale = builder.input_of(choices, DType::F32, shape, -2.0, 2.0, 2);
        builder.binary(BinaryOp::Mul, value, scale)
    };
    let x = factor(&[rows, terms], &[rows, 1]);
    let weight = factor(&[taps, terms, columns], &[columns]);
    let place = (&[Affine::var(0), Affine::var(1)][..], vec![rows, columns]);
    let row = vec![form(&[(0, 1), (3, 1)], -(taps as i64 / 2)), Affine::var(2)];
    let matrix = [3, 2, 1].map(Affine::var).to_vec();
    let extents = [rows, columns, terms, taps];
    let reads = [(x, row), (weight, matrix)];
    let y = contract(builder, Aggregation::Sum, &extents, place, &reads);
    without_constraints(builder, y);
    y
}

/// Removes the constraints of a contraction, which only repeat the ranges of its variables.
fn without_constraints(builder: &mut Builder, value: Value) {
    let Op::Contraction(mut op) = builder.graph.node(value.id).op.clone() else { return };
    op.constraints.clear();
    let operands = builder.graph.operands(value.id).to_vec();
    builder.graph.set(value.id, Op::Contraction(op), &operands);
}
