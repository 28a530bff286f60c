//! Random networks of channels-first images, which exercise layouts.

use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::graph::{Aggregation, Op};
use tile_compiler::scalar::BinaryOp;
use tile_compiler::tensor::TensorType;

use super::chain::{contract, form, relu, transpose, variables};
use super::choices::Choices;
use super::graph::{Builder, Value};

/// Generates a few steps, each on the result of the last. Images are [images, channels, lines,
/// pixels].
pub fn network(choices: &mut Choices, builder: &mut Builder) {
    let shape: Vec<usize> = [2, 6, 9, 9].map(|most| choices.size(most)).to_vec();
    let mut x = builder.input_of(choices, DType::F32, &shape, -2.0, 2.0, 2);
    for _ in 0..1 + choices.pick(8) {
        if x.bound.magnitude > 64.0 {
            x = builder.clamp(x, -4.0, 4.0);
        }
        if builder.shape(x).len() != 4 {
            break;
        }
        x = match choices.pick(10) {
            0..3 => convolution(choices, builder, x),
            3 => pool(builder, x),
            4 => scale(choices, builder, x),
            5 => relu(builder, x),
            6 => shuffle(choices, builder, x),
            7 => joined(choices, builder, x),
            8 => mixed(choices, builder, x),
            _ => flattened(choices, builder, x),
        };
    }
    builder.values.push(x);
}

/// Adds a convolution with one to as many groups as there are channels. The variables are n, g, f,
/// y, x, c, i, j.
fn convolution(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let [n, c, h, w] = builder.shape(x)[..] else { return x };
    let groups = choices.of(&[1, c.max(1), if c % 2 == 0 { 2 } else { 1 }]);
    let (channels, filters) = (c / groups, choices.of(&[1, 2, 5]));
    let (window, stride) = (choices.of(&[3, 1, 2]), choices.of(&[1, 1, 2]));
    let padding = if window == 3 { choices.pick(2) } else { 0 };
    let size =
        |size: usize| (size + 2 * padding).checked_sub(window).map_or(0, |room| room / stride + 1);
    let (oh, ow) = (size(h), size(w));
    let weights =
        builder.weight(choices, DType::F32, &[groups * filters, channels, window, window]);
    let along = |out, tap| form(&[(out, stride as i64), (tap, 1)], -(padding as i64));
    let image =
        vec![Affine::var(0), form(&[(1, channels as i64), (5, 1)], 0), along(3, 6), along(4, 7)];
    let filter = form(&[(1, filters as i64), (2, 1)], 0);
    let kernel = vec![filter.clone(), Affine::var(5), Affine::var(6), Affine::var(7)];
    let place = [Affine::var(0), filter, Affine::var(3), Affine::var(4)];
    let extents = [n, groups, filters, oh, ow, channels, window, window];
    let place = (&place[..], vec![n, groups * filters, oh, ow]);
    contract(builder, Aggregation::Sum, &extents, place, &[(x, image), (weights, kernel)])
}

/// Adds the maximum of each window of 2 x 2.
fn pool(builder: &mut Builder, x: Value) -> Value {
    let [n, c, h, w] = builder.shape(x)[..] else { return x };
    let along = |out, tap| form(&[(out, 2), (tap, 1)], 0);
    let image = vec![Affine::var(0), Affine::var(1), along(2, 4), along(3, 5)];
    let (oh, ow) = (h.div_ceil(2), w.div_ceil(2));
    let place = (&variables(4)[..], vec![n, c, oh, ow]);
    contract(builder, Aggregation::Max, &[n, c, oh, ow, 2, 2], place, &[(x, image)])
}

/// Multiplies by a number for each channel, a weight or the channel's maximum, or adds one.
fn scale(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let [n, c, h, w] = builder.shape(x)[..] else { return x };
    if choices.once_in(3) {
        let place = [Affine::var(0), Affine::var(1), Affine::constant(0), Affine::constant(0)];
        let place = (&place[..], vec![n, c, 1, 1]);
        let most = contract(builder, Aggregation::Max, &[n, c, h, w], place, &[(x, variables(4))]);
        let most = builder.clamp(most, -1.0, 1.0);
        return builder.binary(BinaryOp::Mul, x, most);
    }
    let weight = builder.weight(choices, DType::F32, &[c]);
    let weight = reshape(builder, weight, &[c, 1, 1]);
    builder.binary(choices.of(&[BinaryOp::Add, BinaryOp::Mul]), x, weight)
}

fn reshape(builder: &mut Builder, x: Value, shape: &[usize]) -> Value {
    builder.add(Op::Reshape, TensorType::new(builder.dtype(x), shape), &[x.id], x.bound)
}

/// Interleaves the channels of groups.
fn shuffle(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let [n, c, h, w] = builder.shape(x)[..] else { return x };
    let groups = choices.of(&[2, 3, 1]);
    if c % groups != 0 {
        return x;
    }
    let x = reshape(builder, x, &[n, groups, c / groups, h, w]);
    let place = [0, 2, 1, 3, 4].map(Affine::var);
    let place = (&place[..], vec![n, c / groups, groups, h, w]);
    let x = contract(
        builder,
        Aggregation::Assign,
        &[n, groups, c / groups, h, w],
        place,
        &[(x, variables(5))],
    );
    reshape(builder, x, &[n, c, h, w])
}

/// Concatenates an earlier image along the channels.
fn joined(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let other = earlier(choices, builder, &[2, 3], x);
    let [n, c, h, w] = builder.shape(x)[..] else { return x };
    let d = builder.shape(other)[1];
    let shape = vec![n, c + d, h, w];
    let moved = [Affine::var(0), form(&[(1, 1)], c as i64), Affine::var(2), Affine::var(3)];
    let first = contract(
        builder,
        Aggregation::Assign,
        &[n, c, h, w],
        (&variables(4), shape.clone()),
        &[(x, variables(4))],
    );
    let both = contract(
        builder,
        Aggregation::Assign,
        &[n, d, h, w],
        (&moved, shape),
        &[(other, variables(4))],
    );
    let Op::Contraction(mut op) = builder.graph.node(both.id).op.clone() else { return x };
    op.default = true;
    builder.graph.set(both.id, Op::Contraction(op), &[other.id, first.id]);
    let bound = builder.binary(BinaryOp::Max, first, both).bound;
    Value { bound, ..both }
}

/// Adds an earlier image of the same sizes, or multiplies by one of one line.
fn mixed(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let other = earlier(choices, builder, &[1, 2, 3], x);
    builder.binary(BinaryOp::Add, x, other)
}

/// Returns an earlier value whose axes in `same` have the sizes of `x`.
fn earlier(choices: &mut Choices, builder: &Builder, same: &[usize], x: Value) -> Value {
    let shape = builder.shape(x);
    let fits = |value: &Value| {
        let other = builder.shape(*value);
        other.len() == 4
            && builder.dtype(*value) == builder.dtype(x)
            && other[0] == shape[0]
            && same.iter().all(|&axis| other[axis] == shape[axis])
    };
    let all: Vec<Value> = builder.values.iter().copied().filter(fits).collect();
    choices.of(&all)
}

/// Merges lines and pixels into one axis, or each image into one; or permutes the axes, which ends
/// the network.
fn flattened(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let [n, c, h, w] = builder.shape(x)[..] else { return x };
    match choices.pick(3) {
        0 => {
            let flat = reshape(builder, x, &[n, c, h * w]);
            let flat = relu(builder, flat);
            reshape(builder, flat, &[n, c, h, w])
        }
        1 => reshape(builder, x, &[n, c * h * w]),
        _ => transpose(builder, x),
    }
}
