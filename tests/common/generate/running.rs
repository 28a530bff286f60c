//! Random running aggregations, such as cumulative sums.

use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::graph::{Aggregation, Op};

use super::chain::{contract, variables};
use super::choices::Choices;
use super::graph::Builder;

/// Generates one aggregation along the middle axis, in either direction: up to each place, with or
/// without it, or up to a place at some distance.
pub fn running(choices: &mut Choices, builder: &mut Builder) {
    let dtype = choices.of(&[DType::F32, DType::I32, DType::F16, DType::F64]);
    let aggregation =
        choices.of(&[Aggregation::Sum, Aggregation::Max, Aggregation::Min, Aggregation::Product]);
    let length = choices.of(&[33, 7, 1, 70, 100, 2]);
    let points = length - choices.pick(length.min(3));
    let batch = choices.of(&[1, 2, 3]);
    let width = choices.of(&[1, 3, 8, 17, 40, 300]).min(1 + 40_000 / (length * points * batch));
    let x = builder.input_of(choices, dtype, &[batch, points, width], -1.0, 1.0, 0);
    let mut reads = vec![(x, [0, 3, 2].map(Affine::var).to_vec())];
    if choices.once_in(2) {
        let factor = builder.input_of(choices, dtype, &[points], -1.0, 1.0, 0);
        reads.push((factor, vec![Affine::var(3)]));
    }
    let value = contract(
        builder,
        aggregation,
        &[batch, length, width, points],
        (&variables(3), vec![batch, length, width]),
        &reads,
    );
    let direction = choices.of(&[1, -1]);
    let shift = choices.of(&[0, -1, 0, -2, 1, -40]);
    if let Op::Contraction(op) = &mut builder.graph.node_mut(value.id).op {
        let guard = Affine::new([(1, direction), (3, -direction)], shift);
        op.constraints = guard.into_iter().collect();
        op.default = false;
    }
}
