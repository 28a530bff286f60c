//! Random elementwise operations on the values of a graph.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Op;
use tile_compiler::scalar::{BinaryOp, UnaryOp};
use tile_compiler::tensor::{TensorType, broadcast};

use super::choices::Choices;
use super::graph::{Builder, Value, smooth};

/// Floats that may exceed this are kept from growing; its square fits f16.
const LARGE: f64 = 128.0;

/// The maximum number of elements of a result.
const ELEMENTS: usize = 50_000;

/// Adds inputs of shapes that broadcast together.
pub fn inputs(choices: &mut Choices, builder: &mut Builder) {
    let rank = choices.pick(5);
    let shape: Vec<usize> = (0..rank).map(|axis| choices.size([131, 64, 17, 9, 5][axis])).collect();
    for _ in 0..1 + choices.pick(4) {
        let first = if choices.once_in(3) { choices.pick(rank + 1) } else { 0 };
        let shape: Vec<usize> =
            shape[first..].iter().map(|&size| if choices.once_in(4) { 1 } else { size }).collect();
        let dtype = choices.dtype();
        builder.input(choices, dtype, &shape);
    }
}

/// Adds one operation on existing values.
pub fn operation(choices: &mut Choices, builder: &mut Builder) {
    let a = operand(choices, builder);
    let dtype = builder.dtype(a);
    match choices.pick(8) {
        0..3 => {
            let b = partner(choices, builder, a);
            binary(choices, builder, a, b);
        }
        3..5 => {
            let op = choices.of(&UnaryOp::ALL);
            let bits = op == UnaryOp::BitNot;
            let takes = match dtype {
                DType::Bool => bits,
                // Functions of integers are computed in whatever floats a device has, so their
                // truncation is not exact.
                _ if !dtype.is_float() => smooth(op).is_none() || op == UnaryOp::Recip,
                _ => {
                    !bits
                        && (a.bound.is_exact()
                            || !matches!(
                                op,
                                UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::Rint | UnaryOp::Round
                            ))
                }
            };
            builder.unary(
                if takes {
                    op
                } else if bits || dtype != DType::Bool {
                    UnaryOp::Neg
                } else {
                    UnaryOp::BitNot
                },
                a,
            );
        }
        5 => {
            let b = partner(choices, builder, a);
            let condition = condition(choices, builder, a, b);
            let shapes = [condition, a, b].map(|value| builder.shape(value));
            let shape =
                broadcast(shapes.iter().map(|shape| shape.as_slice())).expect("operands broadcast");
            let mut bound = a.bound;
            bound.magnitude = bound.magnitude.max(b.bound.magnitude);
            bound.error = bound.error.max(b.bound.error);
            bound.grid = a.bound.grid.zip(b.bound.grid).map(|(a, b)| a.max(b));
            builder.add(
                Op::Select,
                TensorType::new(dtype, shape),
                &[condition.id, a.id, b.id],
                bound,
            );
        }
        6 => {
            let to = choices.dtype();
            if to.is_float() || a.bound.is_exact() {
                builder.cast(a, to);
            }
        }
        _ => {
            let shape = builder.shape(a);
            if shape.is_empty() {
                return;
            }
            let axis = choices.pick(shape.len());
            let bound = super::bound::Bound::exact(shape[axis] as f64, 0);
            builder.add(Op::Index { axis }, TensorType::new(DType::I32, shape), &[], bound);
        }
    }
}

/// Chooses a value, and keeps it small.
fn operand(choices: &mut Choices, builder: &mut Builder) -> Value {
    // Recent values first, so that chains become long.
    let values: Vec<Value> = builder.values.iter().rev().copied().collect();
    let value = choices.of(&values);
    let grows = builder.dtype(value).is_float() && value.bound.magnitude > LARGE;
    if grows { builder.clamp(value, -8.0, 8.0) } else { value }
}

/// Chooses a second operand of the type of `a` that broadcasts with it.
fn partner(choices: &mut Choices, builder: &mut Builder, a: Value) -> Value {
    let dtype = builder.dtype(a);
    let b = operand(choices, builder);
    let shape = broadcast([builder.graph.shape(a.id), builder.graph.shape(b.id)]);
    let fits = shape.is_some_and(|shape| shape.iter().product::<usize>() <= ELEMENTS);
    if choices.once_in(4) || !fits || !(dtype.is_float() || b.bound.is_exact()) {
        let value = choices.of(&[2.0, 1.0, 0.0, 0.5, -1.0, 3.25]);
        return builder.constant(Scalar::from_f64(dtype, value));
    }
    if builder.dtype(b) == dtype { b } else { builder.cast(b, dtype) }
}

fn binary(choices: &mut Choices, builder: &mut Builder, a: Value, b: Value) {
    use BinaryOp::*;
    let dtype = builder.dtype(a);
    let exact = a.bound.is_exact() && b.bound.is_exact();
    let op = choices.of(&BinaryOp::ALL);
    let takes = match op {
        Add | Sub | Mul | Max | Min => true,
        Eq | Ne | Lt | Le | Gt | Ge => exact,
        Rem => exact && dtype != DType::Bool,
        BitAnd | BitOr | BitXor => !dtype.is_float(),
        ShiftLeft | ShiftRight => !dtype.is_float() && dtype != DType::Bool,
        Div | Pow => dtype != DType::Bool,
    };
    builder.binary(if takes { op } else { Add }, a, b);
}

/// Adds a bool that is the same on every device.
fn condition(choices: &mut Choices, builder: &mut Builder, a: Value, b: Value) -> Value {
    if a.bound.is_exact() && b.bound.is_exact() {
        return builder.binary(choices.of(&[BinaryOp::Lt, BinaryOp::Eq, BinaryOp::Ge]), a, b);
    }
    builder.constant(Scalar::bool(choices.once_in(2)))
}
