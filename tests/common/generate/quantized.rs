//! Sums in networks of 8-bit integers: bias, scale, rounding and zero point, and back.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::scalar::{BinaryOp, UnaryOp};

use super::choices::Choices;
use super::graph::{Builder, Value};

/// Generates integers, and steps on them whose numbers are exact, so that roundings are the same on
/// every device. Scales are powers of two.
pub fn quantized(choices: &mut Choices, builder: &mut Builder) {
    let shape = [choices.size(5), choices.size(300)];
    let mut sum = builder.input_of(choices, DType::I32, &shape, -700.0, 700.0, 0);
    for _ in 0..1 + choices.pick(2) {
        let byte = quantize(choices, builder, sum, &shape);
        sum = builder.cast(byte, DType::I32);
        if choices.once_in(2) {
            // The sum of two quantized tensors.
            let other = builder.input_of(choices, DType::U8, &shape, 0.0, 255.0, 0);
            let other = builder.cast(other, DType::I32);
            let other = scaled(choices, builder, other, &shape);
            let this = scaled(choices, builder, sum, &shape);
            let both = builder.binary(BinaryOp::Add, this, other);
            sum = builder.cast(both, DType::I32);
        }
    }
    quantize(choices, builder, sum, &shape);
}

/// Adds a byte made of integers.
fn quantize(choices: &mut Choices, builder: &mut Builder, sum: Value, shape: &[usize]) -> Value {
    let mut value = scaled(choices, builder, sum, shape);
    if choices.once_in(3) {
        let divisor = builder.constant(Scalar::f32(choices.of(&[2.0, 0.5, 8.0])));
        value = builder.binary(BinaryOp::Div, value, divisor);
    }
    let near = builder.unary(UnaryOp::Rint, value);
    // Some are no bytes, or no integers.
    let zeros = [0.0, 1.0, -128.0, 127.0, 128.0, 255.0, -129.0, 256.0, 0.5, -3.0];
    let zero = builder.constant(Scalar::f32(choices.of(&zeros)));
    let shifted = builder.binary(BinaryOp::Add, near, zero);
    builder.cast(shifted, choices.of(&[DType::U8, DType::I8]))
}

/// Adds integers less a zero point, or with a bias, as floats times a scale, with an offset or not.
fn scaled(choices: &mut Choices, builder: &mut Builder, sum: Value, shape: &[usize]) -> Value {
    let mut sum = sum;
    if !choices.once_in(4) {
        let term = if choices.once_in(2) {
            builder.constant(Scalar::from_i64(DType::I32, 128))
        } else {
            builder.input_of(choices, DType::I32, &shape[1..], -300.0, 300.0, 0)
        };
        sum = builder.binary(choices.of(&[BinaryOp::Add, BinaryOp::Sub]), sum, term);
    }
    let float = builder.cast(sum, DType::F32);
    let scale = builder.constant(Scalar::f32(choices.of(&[0.25, 0.5, 1.0, 2.0])));
    let mut value = builder.binary(BinaryOp::Mul, float, scale);
    if choices.once_in(2) {
        let offset = builder.input_of(choices, DType::F32, &shape[1..], -40.0, 40.0, 2);
        value = builder.binary(BinaryOp::Add, value, offset);
    }
    value
}
