//! Random products of products: scores, operations on them, and a product that reads the result.
//! Most of them become one kernel.

use tile_compiler::affine::Affine;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Aggregation, Graph, Op};
use tile_compiler::scalar::{BinaryOp, UnaryOp};
use tile_compiler::tensor::TensorType;

use super::bound::{Bound, function_error};
use super::chain::{contract, of_rows};
use super::choices::Choices;
use super::graph::{Builder, Value};

/// Generates scores [batch, head, row, point], and one to three products that read them.
pub fn attention(choices: &mut Choices, builder: &mut Builder) {
    let (batch, heads) = (choices.of(&[1, 2, 3]), choices.of(&[2, 1, 3]));
    let rows = choices.of(&[16, 17, 33, 64, 70, 5]);
    let points = choices.of(&[16, 19, 48, 65, 128, 7]);
    let (depth, columns) = (choices.of(&[8, 3, 16, 17, 1]), choices.of(&[8, 16, 5, 33, 1]));
    let sizes = Sizes { batch, heads, rows, points };
    let is_middle = choices.once_in(2);
    let mut factor = |builder: &mut Builder, places: usize, last: usize| {
        let shape =
            if is_middle { [batch, places, heads, last] } else { [batch, heads, places, last] };
        Factor { value: builder.input_of(choices, DType::F32, &shape, -1.0, 1.0, 2), is_middle }
    };
    let (q, k, v) = (
        factor(builder, rows, depth),
        factor(builder, points, depth),
        factor(builder, points, columns),
    );
    let of_rows_too = factor(builder, rows, columns);
    let mut scores = sizes.scores(builder, &q, &k, depth);
    if choices.once_in(2) {
        let scale = builder.constant(Scalar::f32(0.25));
        scores = builder.binary(BinaryOp::Mul, scores, scale);
    }
    if choices.once_in(2) {
        scores = masked(choices, builder, scores, [rows, points]);
    }
    let mut weights = weights_of(choices, builder, scores);
    if choices.once_in(3) {
        let kept =
            builder.input_of(choices, DType::F32, &[batch, heads, rows, points], 0.0, 2.0, 0);
        weights = builder.binary(BinaryOp::Mul, weights, kept);
    }
    match choices.pick(4) {
        // Several gradients of one value, all of which read the same scores.
        3 => {
            let mut found = vec![sizes.product(builder, weights, &v, columns)];
            let others = sizes.scores(builder, &of_rows_too, &v, columns);
            let mut both = builder.binary(BinaryOp::Mul, weights, others);
            if choices.once_in(2) {
                // As in a softmax's gradient: these sums are also those of the rows' gradients
                // times the first product.
                let sums = match choices.once_in(2) {
                    true => of_rows(builder, Aggregation::Sum, both),
                    false => sizes.sum_of_products(builder, weights, others),
                };
                let rest = builder.binary(BinaryOp::Sub, others, sums);
                both = builder.binary(BinaryOp::Mul, weights, rest);
            }
            found.push(sizes.product_over_rows(builder, weights, &of_rows_too, columns));
            found.push(sizes.product_over_rows(builder, both, &q, depth));
            found.push(sizes.product(builder, both, &k, depth));
            // Scores that are outputs would be in memory anyway.
            builder.values = found;
        }
        // As in gradients: two kinds of scores, and sums over the points or over the rows.
        0 => {
            let others = sizes.scores(builder, &of_rows_too, &v, columns);
            let both = builder.binary(BinaryOp::Mul, weights, others);
            sizes.product(builder, both, &k, depth);
        }
        1 => _ = sizes.product_over_rows(builder, weights, &of_rows_too, columns),
        _ => _ = sizes.product(builder, weights, &v, columns),
    }
    if choices.once_in(2) {
        remove_constraints(&mut builder.graph);
    }
}

/// Removes the constraints of all contractions, which the ranges of their variables imply.
/// Gradients have none.
fn remove_constraints(graph: &mut Graph) {
    for id in graph.ids().collect::<Vec<_>>() {
        if let Op::Contraction(contraction) = &mut graph.node_mut(id).op {
            contraction.constraints.clear();
        }
    }
}

/// Generates the weights of scores: positive scores, powers of e, or a softmax.
fn weights_of(choices: &mut Choices, builder: &mut Builder, scores: Value) -> Value {
    let kind = choices.pick(4);
    if kind == 0 {
        let zero = builder.constant(Scalar::f32(0.0));
        return builder.binary(BinaryOp::Max, scores, zero);
    }
    let top = of_rows(builder, Aggregation::Max, scores);
    let parts = exp_below(builder, scores, top);
    let sum = of_rows(builder, Aggregation::Sum, parts);
    if kind == 1 {
        return parts;
    }
    // The sum is at least 1, as one of its terms is exp(0).
    let error = parts.bound.error + sum.bound.error + 1e-6;
    let ty = builder.graph.node(parts.id).ty.clone();
    builder.add(Op::Binary(BinaryOp::Div), ty, &[parts.id, sum.id], Bound::inexact(1.0, error))
}

struct Sizes {
    batch: usize,
    heads: usize,
    rows: usize,
    points: usize,
}

/// A tensor of batch, head, position and feature, whose positions may precede the heads.
struct Factor {
    value: Value,
    is_middle: bool,
}

impl Factor {
    /// Returns the read at these variables.
    fn at(&self, place: usize, feature: usize) -> (Value, Vec<Affine>) {
        let index = if self.is_middle { [0, place, 1, feature] } else { [0, 1, place, feature] };
        (self.value, index.map(Affine::var).to_vec())
    }
}

impl Sizes {
    /// Adds `S[b, h, t, s] = +(Q[b, h, t, d] * K[b, h, s, d])`.
    fn scores(&self, builder: &mut Builder, q: &Factor, k: &Factor, depth: usize) -> Value {
        let Sizes { batch, heads, rows, points } = *self;
        let place = [0, 1, 2, 3].map(Affine::var);
        let extents = [batch, heads, rows, points, depth];
        contract(
            builder,
            Aggregation::Sum,
            &extents,
            (&place, extents[..4].to_vec()),
            &[q.at(2, 4), k.at(3, 4)],
        )
    }

    /// Adds `Y[b, t, h, e] = +(W[b, h, t, s] * V[b, h, s, e])`.
    fn product(&self, builder: &mut Builder, weights: Value, v: &Factor, columns: usize) -> Value {
        let Sizes { batch, heads, rows, points } = *self;
        let place = [0, 2, 1, 3].map(Affine::var);
        let read = (weights, [0, 1, 2, 4].map(Affine::var).to_vec());
        let result = vec![batch, rows, heads, columns];
        let extents = [batch, heads, rows, columns, points];
        contract(builder, Aggregation::Sum, &extents, (&place, result), &[read, v.at(4, 3)])
    }

    /// Adds `S[b, h, t, 0] = +(W[b, h, t, s] * D[b, h, t, s])`.
    fn sum_of_products(&self, builder: &mut Builder, weights: Value, others: Value) -> Value {
        let Sizes { batch, heads, rows, points } = *self;
        let place = [Affine::var(0), Affine::var(1), Affine::var(2), Affine::constant(0)];
        let read = |value: Value| (value, [0, 1, 2, 3].map(Affine::var).to_vec());
        contract(
            builder,
            Aggregation::Sum,
            &[batch, heads, rows, points],
            (&place, vec![batch, heads, rows, 1]),
            &[read(weights), read(others)],
        )
    }

    /// Adds `Y[b, h, s, e] = +(W[b, h, t, s] * D[b, h, t, e])`.
    fn product_over_rows(
        &self,
        builder: &mut Builder,
        weights: Value,
        d: &Factor,
        columns: usize,
    ) -> Value {
        let Sizes { batch, heads, rows, points } = *self;
        let place = [0, 1, 2, 3].map(Affine::var);
        let read = (weights, [0, 1, 4, 2].map(Affine::var).to_vec());
        let extents = [batch, heads, points, columns, rows];
        contract(
            builder,
            Aggregation::Sum,
            &extents,
            (&place, extents[..4].to_vec()),
            &[d.at(4, 3), read],
        )
    }
}

/// Keeps scores where a mask is true, or where the point is not before the row; elsewhere they
/// become low.
fn masked(
    choices: &mut Choices,
    builder: &mut Builder,
    scores: Value,
    [rows, points]: [usize; 2],
) -> Value {
    let low = builder.constant(Scalar::f32(-64.0));
    let mask = if choices.once_in(2) {
        builder.input(choices, DType::Bool, &[rows, points])
    } else {
        let mut index = |axis: usize| {
            let ty = TensorType::new(DType::I32, vec![rows, points]);
            builder.add(Op::Index { axis }, ty, &[], Bound::exact(rows.max(points) as f64, 0))
        };
        let (row, point) = (index(0), index(1));
        builder.binary(BinaryOp::Ge, row, point)
    };
    let ty = builder.graph.node(scores.id).ty.clone();
    let bound = Bound { magnitude: scores.bound.magnitude.max(64.0), ..scores.bound };
    builder.add(Op::Select, ty, &[mask.id, scores.id, low.id], bound)
}

/// Adds `exp(scores - top)`, which is at most 1.
fn exp_below(builder: &mut Builder, scores: Value, top: Value) -> Value {
    let below = builder.binary(BinaryOp::Sub, scores, top);
    let ty = builder.graph.node(scores.id).ty.clone();
    // The slope is at most 1, too; the difference of scores up to 200 is rounded.
    let error = below.bound.error + 1e-4 + function_error(UnaryOp::Exp, DType::F32);
    builder.add(Op::Unary(UnaryOp::Exp), ty, &[below.id], Bound::inexact(1.0, error))
}
