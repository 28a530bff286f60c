//! Random rows: statistics of them, and values that read these.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Aggregation;
use tile_compiler::scalar::{BinaryOp, UnaryOp};

use super::chain::{normalise, of_rows, softmax};
use super::choices::Choices;
use super::graph::{Builder, Value};

/// Generates a few steps, each on earlier elementwise values or row statistics.
pub fn rows(choices: &mut Choices, builder: &mut Builder) {
    let dtype =
        choices.of(&[DType::F32, DType::F32, DType::F32, DType::F16, DType::I32, DType::F64]);
    let rows: &[usize] = [&[3][..], &[1], &[2, 5], &[130], &[0], &[67], &[7, 1]][choices.pick(7)];
    let columns = choices.of(&[8, 1, 3, 17, 64, 130, 255, 256, 300, 1023, 1500, 4100, 0]);
    let shape = [rows, &[columns]].concat();
    let x = builder.input_of(choices, dtype, &shape, -2.0, 2.0, 2);
    let weights = builder.input_of(choices, dtype, &[columns], -1.0, 1.0, 2);
    // Values of the full shape, and row statistics.
    let (mut of_places, mut of_row): (Vec<Value>, Vec<Value>) = (vec![x, weights], Vec::new());
    for _ in 0..2 + choices.pick(8) {
        let (last, any) = (of_places[of_places.len() - 1], choices.of(&of_places));
        let x = if builder.shape(last) == shape { last } else { x };
        let small = |builder: &mut Builder, x: Value| {
            if x.bound.magnitude > 16.0 { builder.clamp(x, -4.0, 4.0) } else { x }
        };
        match choices.pick(6) {
            0 => {
                let aggregation = choices.of(&[
                    Aggregation::Sum,
                    Aggregation::Max,
                    Aggregation::Min,
                    Aggregation::Sum,
                ]);
                let statistic = of_rows(builder, aggregation, x);
                of_row.push(small(builder, statistic));
            }
            1 => {
                let x = small(builder, x);
                of_places.push(if dtype.is_float() {
                    softmax(builder, x)
                } else {
                    builder.binary(BinaryOp::Mul, x, x)
                });
            }
            2 => {
                let x = small(builder, x);
                of_places.push(if dtype.is_float() {
                    normalise(builder, x)
                } else {
                    builder.unary(UnaryOp::Neg, x)
                });
            }
            3 if !of_row.is_empty() => {
                let row = choices.of(&of_row);
                let op = choices.of(&[BinaryOp::Sub, BinaryOp::Add, BinaryOp::Max, BinaryOp::Mul]);
                let value = builder.binary(op, x, row);
                of_places.push(small(builder, value));
            }
            4 if !of_row.is_empty() => {
                let (a, b) = (choices.of(&of_row), choices.of(&of_row));
                let value = builder.binary(BinaryOp::Add, a, b);
                of_row.push(small(builder, value));
            }
            _ => {
                let two = builder.constant(Scalar::from_f64(dtype, 2.0));
                let value = builder.binary(BinaryOp::Mul, any, two);
                let value = builder.binary(BinaryOp::Add, value, x);
                of_places.push(small(builder, value));
            }
        }
    }
    // The outputs begin with the last values.
    builder.values.extend(of_row.pop());
    builder.values.extend(of_places.pop());
}
