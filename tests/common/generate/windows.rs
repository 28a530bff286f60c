//! Random aggregations over windows along two axes, which may be strided, dilated and padded.

use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::graph::{Aggregation, Op};

use super::chain::{contract, variables};
use super::choices::Choices;
use super::graph::Builder;

/// Generates one aggregation, whose axes are in any order.
pub fn windows(choices: &mut Choices, builder: &mut Builder) {
    let dtype = choices.of(&[DType::F32, DType::I32, DType::F16, DType::F64]);
    let aggregation =
        choices.of(&[Aggregation::Sum, Aggregation::Max, Aggregation::Min, Aggregation::Product]);
    let channels = choices.of(&[1, 3, 8, 33]);
    let places = [1 + choices.pick(12), 1 + choices.pick(12)];
    let points = [1 + choices.pick(9), 1 + choices.pick(9)];
    let mut read = variables(3);
    let (mut input, mut output) = (vec![channels], vec![channels]);
    for axis in 0..2 {
        let (stride, dilation) = (1 + choices.pick(3), 1 + choices.pick(2));
        let before = choices.pick(6) as i64;
        let terms = [(1 + axis, stride as i64), (3 + axis, dilation as i64)];
        read[1 + axis] = Affine::new(terms, -before).unwrap();
        input.push(1 + choices.pick(20));
        output.push(places[axis]);
    }
    let mut place = variables(3);
    if choices.once_in(2) {
        for list in [&mut input, &mut output] {
            list.rotate_left(1);
        }
        place.rotate_left(1);
        read.rotate_left(1);
    }
    let x = builder.input_of(choices, dtype, &input, -1.0, 1.0, 0);
    let extents = [&[channels][..], &places, &points].concat();
    let value = contract(builder, aggregation, &extents, (&place, output), &[(x, read)]);
    // The ranges say the same as these constraints.
    if let Op::Contraction(op) = &mut builder.graph.node_mut(value.id).op {
        op.constraints.clear();
    }
}
