//! Random chains of operations as in networks, which exercise fusion.

use tile_compiler::affine::Affine;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Index, IndexRange, Op,
};
use tile_compiler::scalar::{BinaryOp, Inst, Program, UnaryOp};
use tile_compiler::tensor::TensorType;

use super::choices::Choices;
use super::contraction::aggregated;
use super::elementwise;
use super::graph::{Builder, Value, binary_bound};

/// Generates a few steps, each on the result of the last.
pub fn chain(choices: &mut Choices, builder: &mut Builder) {
    let dtype =
        choices.of(&[DType::F32, DType::F32, DType::F32, DType::F16, DType::BF16, DType::F64]);
    let image = choices.pick(2) == 0;
    let (most, rank) = if image { (9, 4) } else { (67, 2) };
    let shape: Vec<usize> = (0..rank).map(|_| choices.size(most)).collect();
    let mut x = builder.input_of(choices, dtype, &shape, -2.0, 2.0, 2);
    for _ in 0..1 + choices.pick(6) {
        if x.bound.magnitude > 64.0 {
            x = builder.clamp(x, -4.0, 4.0);
        }
        x = match choices.pick(9) {
            0 if image => convolution(choices, builder, x),
            0 | 1 => product(choices, builder, x),
            2 if image => pool(choices, builder, x),
            2 => cumulative_sum(builder, x),
            3 => bias(choices, builder, x),
            4 => relu(builder, x),
            5 => softmax(builder, x),
            6 => normalise(builder, x),
            7 => transpose(builder, x),
            _ => {
                elementwise::operation(choices, builder);
                x
            }
        };
    }
    // The outputs begin with the last value.
    builder.values.push(x);
}

/// Adds a contraction whose variables are all in range wherever the accesses are. `accesses` and
/// `place` name variables by number.
pub fn contract(
    builder: &mut Builder,
    aggregation: Aggregation,
    extents: &[usize],
    place: (&[Affine], Vec<usize>),
    reads: &[(Value, Vec<Affine>)],
) -> Value {
    let dtype = builder.dtype(reads[0].0);
    let mut body = Program::default();
    let mut value = None;
    for (number, (read, _)) in reads.iter().enumerate() {
        let leaf = body.push(Inst::Leaf(ContractionLeaf::Access(number)), dtype);
        value = Some(match value {
            None => (leaf, read.bound),
            Some((value, bound)) => (
                body.binary(BinaryOp::Mul, value, leaf),
                binary_bound(BinaryOp::Mul, dtype, bound, read.bound),
            ),
        });
    }
    let (value, bound) = value.expect("there is an access");
    body.results = vec![value];
    let points: usize = (0..extents.len())
        .filter(|v| place.0.iter().all(|form| form.as_variable() != Some(*v)))
        .map(|v| extents[v].max(1))
        .product();
    let bound = aggregated(aggregation, dtype, bound, points as f64);
    let index = |form: &Affine| Index { affine: form.clone(), access: None };
    let contraction = Contraction {
        aggregation,
        rank: None,
        indices: (extents.iter().enumerate())
            .map(|(n, &extent)| IndexRange { name: format!("i{n}"), low: 0, high: extent as i64 })
            .collect(),
        output: place.0.to_vec(),
        accesses: (reads.iter().enumerate())
            .map(|(operand, (_, forms))| Access {
                operand,
                index: forms.iter().map(index).collect(),
            })
            .collect(),
        constraints: extents
            .iter()
            .enumerate()
            .flat_map(|(v, &extent)| [form(&[(v, 1)], 0), form(&[(v, -1)], extent as i64 - 1)])
            .collect(),
        body,
        default: false,
    };
    let operands: Vec<_> = reads.iter().map(|(value, _)| value.id).collect();
    builder.add(
        Op::Contraction(Box::new(contraction)),
        TensorType::new(dtype, place.1),
        &operands,
        bound,
    )
}

pub fn form(terms: &[(usize, i64)], offset: i64) -> Affine {
    Affine::new(terms.iter().copied(), offset).expect("small")
}

pub fn variables(count: usize) -> Vec<Affine> {
    (0..count).map(Affine::var).collect()
}

/// Adds a convolution: strided, dilated and padded, with any kernel. The variables are n, y, x, co,
/// ky, kx, ci.
fn convolution(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let [n, h, w, c] = builder.shape(x)[..] else { return x };
    let (ky, kx, co) = (1 + choices.pick(3), 1 + choices.pick(3), choices.of(&[3, 1, 8, 5]));
    let (stride, dilation, padding) =
        (choices.of(&[1, 1, 2]), choices.of(&[1, 1, 2]), choices.of(&[1, 0, 2]));
    let size = |size: usize, kernel: usize| {
        (size + 2 * padding)
            .checked_sub(dilation * (kernel - 1) + 1)
            .map_or(0, |room| room / stride + 1)
    };
    let (oh, ow) = (size(h, ky), size(w, kx));
    let weights = builder.input_of(choices, builder.dtype(x), &[ky, kx, c, co], -1.0, 1.0, 2);
    let along =
        |out, kernel| form(&[(out, stride as i64), (kernel, dilation as i64)], -(padding as i64));
    let image = vec![Affine::var(0), along(1, 4), along(2, 5), Affine::var(6)];
    let kernel = [4, 5, 6, 3].map(Affine::var).to_vec();
    let place = (&variables(4)[..], vec![n, oh, ow, co]);
    contract(
        builder,
        Aggregation::Sum,
        &[n, oh, ow, co, ky, kx, c],
        place,
        &[(x, image), (weights, kernel)],
    )
}

/// Adds a product with a matrix over the last axis.
fn product(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let shape = builder.shape(x);
    let (last, columns) = (shape.len() - 1, choices.size(33));
    let weights =
        builder.input_of(choices, builder.dtype(x), &[shape[last], columns], -1.0, 1.0, 2);
    let mut extents = shape.clone();
    extents.push(columns);
    let mut place = variables(shape.len());
    place[last] = Affine::var(last + 1);
    let mut result = shape.clone();
    result[last] = columns;
    let matrix = vec![Affine::var(last), Affine::var(last + 1)];
    let rows = variables(shape.len());
    contract(builder, Aggregation::Sum, &extents, (&place, result), &[(x, rows), (weights, matrix)])
}

/// Adds max pooling. The last window may reach over the edge.
fn pool(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let [n, h, w, c] = builder.shape(x)[..] else { return x };
    let window = 2 + choices.pick(2);
    let up = choices.once_in(2);
    let size = |size: usize| if up { size.div_ceil(window) } else { size / window };
    let (oh, ow) = (size(h), size(w));
    let along = |out, inner| form(&[(out, window as i64), (inner, 1)], 0);
    let image = vec![Affine::var(0), along(1, 4), along(2, 5), Affine::var(3)];
    let place = (&variables(4)[..], vec![n, oh, ow, c]);
    contract(builder, Aggregation::Max, &[n, oh, ow, c, window, window], place, &[(x, image)])
}

/// Adds a cumulative sum along the first axis of a matrix: `O[i, j] = +(X[i - k, j])`.
fn cumulative_sum(builder: &mut Builder, x: Value) -> Value {
    let [rows, columns] = builder.shape(x)[..] else { return x };
    let read = vec![form(&[(0, 1), (2, -1)], 0), Affine::var(1)];
    let place = (&variables(2)[..], vec![rows, columns]);
    contract(builder, Aggregation::Sum, &[rows, columns, rows], place, &[(x, read)])
}

pub fn transpose(builder: &mut Builder, x: Value) -> Value {
    let shape = builder.shape(x);
    let place: Vec<Affine> = (0..shape.len()).rev().map(Affine::var).collect();
    let result = shape.iter().rev().copied().collect();
    let read = variables(shape.len());
    contract(builder, Aggregation::Assign, &shape, (&place, result), &[(x, read)])
}

fn bias(choices: &mut Choices, builder: &mut Builder, x: Value) -> Value {
    let last = builder.shape(x)[builder.shape(x).len() - 1];
    let bias = builder.input_of(choices, builder.dtype(x), &[last], -1.0, 1.0, 2);
    builder.binary(BinaryOp::Add, x, bias)
}

pub fn relu(builder: &mut Builder, x: Value) -> Value {
    let zero = builder.constant(Scalar::zero(builder.dtype(x)));
    builder.binary(BinaryOp::Max, x, zero)
}

/// Adds the aggregate of each row, a tensor with a last axis of size 1.
pub fn of_rows(builder: &mut Builder, aggregation: Aggregation, x: Value) -> Value {
    let mut shape = builder.shape(x);
    let extents = shape.clone();
    let last = shape.len() - 1;
    let mut place = variables(shape.len());
    place[last] = Affine::constant(0);
    shape[last] = 1;
    let read = variables(shape.len());
    contract(builder, aggregation, &extents, (&place, shape), &[(x, read)])
}

/// Adds `exp(x - max) / sum`. Each step's operand is kept where the function is smooth.
pub fn softmax(builder: &mut Builder, x: Value) -> Value {
    let most = of_rows(builder, Aggregation::Max, x);
    let shifted = builder.binary(BinaryOp::Sub, x, most);
    let exp = builder.unary(UnaryOp::Exp, shifted);
    let sum = of_rows(builder, Aggregation::Sum, exp);
    builder.binary(BinaryOp::Div, exp, sum)
}

/// Adds `(x - mean) * rsqrt(variance)`. Each step's operand is kept where the function is smooth.
pub fn normalise(builder: &mut Builder, x: Value) -> Value {
    let dtype = builder.dtype(x);
    let last = builder.shape(x)[builder.shape(x).len() - 1];
    // A power of two near the row's length keeps exact sums exact.
    let count = Scalar::from_f64(dtype, 1.0 / (last.max(1).next_power_of_two().min(4) as f64));
    let count = builder.constant(count);
    let sum = of_rows(builder, Aggregation::Sum, x);
    let mean = builder.binary(BinaryOp::Mul, sum, count);
    let centred = builder.binary(BinaryOp::Sub, x, mean);
    let centred = builder.clamp(centred, -4.0, 4.0);
    let square = builder.binary(BinaryOp::Mul, centred, centred);
    let sum = of_rows(builder, Aggregation::Sum, square);
    let variance = builder.binary(BinaryOp::Mul, sum, count);
    let scale = builder.unary(UnaryOp::Rsqrt, variance);
    builder.binary(BinaryOp::Mul, centred, scale)
}
