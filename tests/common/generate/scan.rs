//! Random scans, some of which have scans in their bodies.
//!
//! Every value is exact and stays small, so that it is the same on every device after any number of
//! steps.

use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Index, IndexRange, NodeId, Op, Scan,
};
use tile_compiler::scalar::{BinaryOp, Inst, Program, UnaryOp};
use tile_compiler::tensor::{TensorType, broadcast};

use super::bound::Bound;
use super::chain::{contract, of_rows, transpose, variables};
use super::choices::Choices;
use super::graph::{Builder, Value};

/// The bound that all values are kept within, in multiples of 2^-GRID.
const MOST: f64 = 8.0;
const GRID: i32 = 2;

/// Generates inputs whose axes often have the same size, a scan over them, and operations before
/// and after it.
pub fn scan(choices: &mut Choices, builder: &mut Builder) {
    let dtype = choices.of(&[
        DType::F32,
        DType::F32,
        DType::I32,
        DType::F64,
        DType::F16,
        DType::U8,
        DType::I16,
    ]);
    for _ in 0..3 + choices.pick(3) {
        let rank = choices.pick(4);
        let shape: Vec<usize> = (0..rank).map(|_| size(choices)).collect();
        builder.input(choices, dtype, &shape);
    }
    for _ in 0..1 + choices.pick(2) {
        operations(choices, builder, 2);
        add_scan(choices, builder, 0);
    }
    operations(choices, builder, 1);
}

fn size(choices: &mut Choices) -> usize {
    if choices.once_in(40) { 0 } else { choices.of(&[3, 4, 3, 4, 2, 1, 5, 17]) }
}

/// Adds a scan over existing values, nested `depth` deep.
fn add_scan(choices: &mut Choices, builder: &mut Builder, depth: usize) {
    let whole = choices.of(&recent(builder));
    let rank = builder.shape(whole).len();
    if rank == 0 {
        return operations(choices, builder, 1);
    }
    let axis = choices.pick(rank);
    let length = builder.shape(whole)[axis];
    let mut operands = vec![whole];
    let mut sequences = vec![axis];
    for value in recent(builder) {
        let fitting = builder.shape(value).iter().rposition(|&size| size == length);
        if let (Some(axis), true) = (fitting, choices.once_in(4)) {
            operands.push(value);
            sequences.push(axis);
        }
    }
    let carries = choices.of(&[1, 2, 1, 0, 3]);
    for _ in 0..carries + choices.pick(3) {
        operands.push(choices.of(&recent(builder)));
    }
    let mut inner = Builder::new();
    for (number, operand) in operands.iter().enumerate() {
        let mut ty = builder.graph.node(operand.id).ty.clone();
        if let Some(&axis) = sequences.get(number) {
            ty.shape.remove(axis);
        }
        inner.add(Op::Input(format!("x{number}")), ty, &[], Bound::exact(MOST, GRID));
    }
    let inputs = inner.values.clone();
    operations(choices, &mut inner, 4);
    if depth < 2 && choices.once_in(3) {
        add_scan(choices, &mut inner, depth + 1);
        operations(choices, &mut inner, 2);
    }
    let mut outputs: Vec<NodeId> = Vec::new();
    for carry in &inputs[sequences.len()..sequences.len() + carries] {
        outputs.push(next(choices, &mut inner, *carry).id);
    }
    let mut yields = Vec::new();
    let mut yielded = Vec::new();
    for _ in 0..choices.pick(3).max(usize::from(carries == 0)) {
        let value = choices.of(&recent(&inner));
        yields.push(choices.pick(inner.shape(value).len() + 1));
        yielded.push(value);
    }
    outputs.extend(yielded.iter().map(|value| value.id));
    let mut body = inner.graph;
    body.name = "step".into();
    body.outputs = outputs.iter().enumerate().map(|(n, id)| (format!("y{n}"), *id)).collect();
    let scan = Scan { length, sequences, carries, yields, body };
    let ids: Vec<NodeId> = operands.iter().map(|operand| operand.id).collect();
    for id in builder.graph.add_scan(scan, &ids) {
        builder.values.push(Value { id, bound: Bound::exact(MOST, GRID) });
    }
}

/// Returns a value of the carry's type.
fn next(choices: &mut Choices, builder: &mut Builder, carry: Value) -> Value {
    let shape = builder.shape(carry);
    let same: Vec<Value> =
        recent(builder).into_iter().filter(|value| builder.shape(*value) == shape).collect();
    if choices.once_in(3) {
        return choices.of(&same);
    }
    let joins = |value: &Value| {
        broadcast([shape.as_slice(), builder.graph.shape(value.id)]).as_ref() == Some(&shape)
    };
    let other: Vec<Value> = recent(builder).into_iter().filter(joins).collect();
    if choices.once_in(3) {
        return part(choices, builder, carry, &other);
    }
    let sum = builder.binary(BinaryOp::Add, carry, choices.of(&other));
    settle(builder, sum).unwrap_or(carry)
}

/// Returns the carry with new elements where a condition holds, or does not. `other` values are
/// repeated to the carry's shape.
fn part(choices: &mut Choices, builder: &mut Builder, carry: Value, other: &[Value]) -> Value {
    let before = builder.values.len();
    let [a, b, new] = [(); 3].map(|()| choices.of(other));
    let condition = builder.binary(BinaryOp::Lt, a, b);
    let mut sides = [new.id, carry.id];
    if choices.once_in(2) {
        sides.reverse();
    }
    let ty = builder.graph.node(carry.id).ty.clone();
    let operands = [condition.id, sides[0], sides[1]];
    let value = builder.add(Op::Select, ty, &operands, Bound::exact(MOST, GRID));
    // The condition has another type than the rest.
    builder.values.truncate(before);
    value
}

/// Adds a few operations; a result that is not exact is not used.
fn operations(choices: &mut Choices, builder: &mut Builder, most: usize) {
    for _ in 0..choices.pick(most + 1) {
        let a = choices.of(&recent(builder));
        let shape = builder.shape(a);
        let before = builder.values.len();
        let value = match choices.pick(8) {
            0 | 1 => {
                let joins = |b: &Value| {
                    broadcast([shape.as_slice(), builder.graph.shape(b.id)])
                        .is_some_and(|shape| shape.iter().product::<usize>() < 2000)
                };
                let others: Vec<Value> = recent(builder).into_iter().filter(joins).collect();
                if others.is_empty() {
                    continue;
                }
                let op = choices.of(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Max, BinaryOp::Min]);
                builder.binary(op, a, choices.of(&others))
            }
            2 => builder.unary(choices.of(&[UnaryOp::Neg, UnaryOp::Abs]), a),
            3 if !shape.is_empty() => transpose(builder, a),
            4 if !shape.is_empty() => {
                of_rows(builder, choices.of(&[Aggregation::Sum, Aggregation::Max]), a)
            }
            5 => match product(choices, builder, a) {
                Some(value) => value,
                None => continue,
            },
            6 => {
                let elements = shape.iter().product();
                let shape = match choices.pick(3) {
                    0 => vec![elements],
                    1 => [&shape[..], &[1]].concat(),
                    _ => shape.iter().rev().copied().collect(),
                };
                let ty = TensorType::new(builder.dtype(a), shape);
                builder.add(Op::Reshape, ty, &[a.id], a.bound)
            }
            _ => match gather(choices, builder, a) {
                Some(value) => value,
                None => continue,
            },
        };
        builder.values.truncate(before);
        if let Some(value) = settle(builder, value) {
            builder.values.truncate(before);
            builder.values.push(value);
        }
    }
}

/// Adds the product of the last axis of `a` with that of another value, for integers.
fn product(choices: &mut Choices, builder: &mut Builder, a: Value) -> Option<Value> {
    let shape = builder.shape(a);
    let depth = *shape.last()?;
    let matrix = |value: &Value| {
        builder.graph.shape(value.id).len() == 2 && builder.graph.shape(value.id)[1] == depth
    };
    let matrices: Vec<Value> = recent(builder).into_iter().filter(matrix).collect();
    if matrices.is_empty() {
        return None;
    }
    let mut b = choices.of(&matrices);
    if builder.dtype(b).is_float() {
        b = builder.unary(UnaryOp::Round, b);
        b = builder.clamp(b, -1.0, 1.0);
        b.bound.grid = Some(0);
    }
    let rows = builder.shape(b)[0];
    let last = shape.len() - 1;
    let extents = [&shape[..], &[rows]].concat();
    let mut place = variables(shape.len());
    place[last] = Affine::var(last + 1);
    let result = [&shape[..last], &[rows]].concat();
    let reads = [(a, variables(shape.len())), (b, vec![Affine::var(last + 1), Affine::var(last)])];
    Some(contract(builder, Aggregation::Sum, &extents, (&place, result), &reads))
}

/// Adds rows of a value at indices from another one, if that has integers.
fn gather(choices: &mut Choices, builder: &mut Builder, indices: Value) -> Option<Value> {
    if builder.dtype(indices).is_float() {
        return None;
    }
    let has_rows = |value: &Value| builder.shape(*value).first().is_some_and(|&rows| rows > 0);
    let tensors: Vec<Value> = recent(builder).into_iter().filter(has_rows).collect();
    if tensors.is_empty() {
        return None;
    }
    let from = choices.of(&tensors);
    let (index_shape, shape) = (builder.shape(indices), builder.shape(from));
    let result = [&index_shape[..], &shape[1..]].concat();
    let (outer, all) = (index_shape.len(), result.len());
    let plain = |affine: Affine| Index { affine, access: None };
    let first = Access { operand: 0, index: (0..outer).map(|v| plain(Affine::var(v))).collect() };
    let row = Index { affine: Affine::constant(0), access: Some(0) };
    let rest = (outer..all).map(|v| plain(Affine::var(v)));
    let second = Access { operand: 1, index: std::iter::once(row).chain(rest).collect() };
    let mut body = Program::default();
    body.results = vec![body.push(Inst::Leaf(ContractionLeaf::Access(1)), builder.dtype(from))];
    let range = |(n, &size): (usize, &usize)| IndexRange {
        name: format!("i{n}"),
        low: 0,
        high: size as i64,
    };
    let contraction = Contraction {
        aggregation: Aggregation::Assign,
        rank: None,
        indices: result.iter().enumerate().map(range).collect(),
        output: variables(all),
        accesses: vec![first, second],
        constraints: Vec::new(),
        body,
        default: false,
    };
    let ty = TensorType::new(builder.dtype(from), result);
    Some(builder.add(
        Op::Contraction(Box::new(contraction)),
        ty,
        &[indices.id, from.id],
        from.bound,
    ))
}

/// Keeps an exact value within the common bound, and returns `None` for others.
fn settle(builder: &mut Builder, value: Value) -> Option<Value> {
    if !builder.dtype(value).is_float() {
        return Some(Value { bound: Bound::exact(MOST, GRID), ..value });
    }
    let is_fine = value.bound.is_exact() && value.bound.grid.is_some_and(|grid| grid <= GRID);
    is_fine.then(|| builder.clamp(value, -MOST, MOST))
}

/// Returns the existing values, the last ones first.
fn recent(builder: &Builder) -> Vec<Value> {
    builder.values.iter().rev().copied().collect()
}
