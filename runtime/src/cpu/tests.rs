//! Random nests against their definition, evaluated point by point with the compiler's scalar
//! semantics.

mod attention;
mod convolutions;
mod moves;
mod operations;
mod random;
mod rooms;
mod scaled;
mod updates;

use super::memory::Register;
use super::profile::profile;
use super::vector::emulated::Emulated;
use super::*;
use proptest::test_runner::TestRunner;
use random::{Draw, in_loops, nest, operands, output, product, scatter};
use tile_compiler::affine::Affine;
use tile_compiler::dense::Dense;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{Implementation, NativeProgram};
use tile_compiler::nest::{Axis, Leaf, Load, Nest, Output};
use tile_compiler::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};
use tile_compiler::tensor::{Tensor, TensorType};

fn load(
    nest: &Nest,
    load: &Load,
    point: &[i64],
    values: &Dense<Value, Scalar>,
    operands: &[Tensor],
) -> Scalar {
    if load.when.iter().any(|when| when.evaluate(point).unwrap() < 0) {
        return Scalar::zero(nest.operands[load.operand].dtype);
    }
    let dynamic: i64 =
        load.dynamic.iter().map(|(value, stride)| values[*value].to_i64() * stride).sum();
    operands[load.operand].get((load.offset.evaluate(point).unwrap() + dynamic) as usize)
}

/// Evaluates a program's values at a point.
fn evaluate(
    nest: &Nest,
    program: &Program<Leaf>,
    point: &[i64],
    operands: &[Tensor],
    sum: Scalar,
    written: bool,
) -> Vec<Scalar> {
    let mut values: Dense<Value, Scalar> = Dense::default();
    for (inst, dtype) in &program.insts {
        let value = match inst {
            Inst::Const(scalar) => *scalar,
            Inst::Leaf(Leaf::Load(l)) => load(nest, l, point, &values, operands),
            Inst::Leaf(Leaf::Index(affine)) => Scalar::i32(affine.evaluate(point).unwrap() as i32),
            Inst::Leaf(Leaf::Accumulator) => sum,
            Inst::Leaf(Leaf::Written) => Scalar::bool(written),
            Inst::Leaf(Leaf::Statistic(..) | Leaf::Inner(_) | Leaf::OfBody(_) | Leaf::Table(_)) => {
                unreachable!("these nests have no columns, inner sums or tables")
            }
            Inst::Unary(op, a) => op.evaluate(values[*a]),
            Inst::Binary(op, a, b) => op.evaluate(values[*a], values[*b]),
            Inst::Select(c, a, b) => {
                if values[*c].is_true() {
                    values[*a]
                } else {
                    values[*b]
                }
            }
            Inst::Cast(a) => values[*a].cast(*dtype),
        };
        values.push(value);
    }
    program.results.iter().map(|&r| values[r]).collect()
}

/// Computes the nest's outputs by definition, with 0 where it writes nothing.
fn reference(nest: &Nest, steps: &[usize], operands: &[Tensor]) -> Vec<Tensor> {
    let mut outputs: Vec<Tensor> =
        nest.outputs.iter().map(|o| Tensor::zeros(o.ty.clone()).unwrap()).collect();
    for place in 0..nest.places() {
        let (mut sum, mut found, mut position) = (Scalar::i32(0), false, 0);
        if let (Some(aggregation), Some(dtype)) = (nest.aggregation, nest.accumulator()) {
            sum = aggregation.identity(dtype);
            for t in 0..nest.reduction_points() {
                let point = locate(nest, steps, place, t);
                if nest.guards.iter().any(|g| g.evaluate(&point).unwrap() < 0) {
                    continue;
                }
                let results = evaluate(nest, &nest.body, &point, operands, sum, false);
                if results.get(1).is_some_and(|valid| !valid.is_true()) {
                    continue;
                }
                let value = results[0];
                let op = match aggregation {
                    Aggregation::Sum => BinaryOp::Add,
                    Aggregation::Product => BinaryOp::Mul,
                    Aggregation::Max => BinaryOp::Max,
                    Aggregation::Min => BinaryOp::Min,
                    Aggregation::Assign => {
                        (sum, found) = (value, true);
                        continue;
                    }
                    Aggregation::ArgMax | Aggregation::ArgMin => {
                        let at = nest.position.as_ref().unwrap().evaluate(&point).unwrap() as i32;
                        let better = if aggregation == Aggregation::ArgMax {
                            BinaryOp::Gt
                        } else {
                            BinaryOp::Lt
                        };
                        let nan = |s: Scalar| s.to_f64().is_nan();
                        let wins =
                            better.evaluate(value, sum).is_true() || (nan(sum) && !nan(value));
                        let ties =
                            BinaryOp::Eq.evaluate(value, sum).is_true() || (nan(sum) && nan(value));
                        if !found || wins || (ties && at < position) {
                            (sum, position) = (value, at);
                        }
                        found = true;
                        continue;
                    }
                };
                sum = op.evaluate(sum, value);
                found = true;
            }
        }
        if nest.position.is_some() {
            sum = Scalar::i32(position);
        }
        let point = locate(nest, steps, place, 0);
        let results = evaluate(nest, &nest.epilogue, &point, operands, sum, found);
        for ((tensor, output), result) in outputs.iter_mut().zip(&nest.outputs).zip(results) {
            tensor.set(output.position.evaluate(&point).unwrap() as usize, result);
        }
    }
    outputs
}

fn locate(nest: &Nest, steps: &[usize], mut place: usize, mut t: usize) -> Vec<i64> {
    let mut point: Vec<i64> = vec![0; nest.loops().start];
    point.extend(steps.iter().map(|&step| step as i64));
    for axis in (0..nest.loops().start).rev() {
        let rest = if axis >= nest.free { &mut t } else { &mut place };
        point[axis] = (*rest % nest.axes[axis].extent) as i64;
        *rest /= nest.axes[axis].extent;
    }
    for derived in &nest.derived {
        point.push(derived.numerator.evaluate(&point).unwrap().div_euclid(derived.denominator));
    }
    point
}

/// Returns these bytes, aligned.
fn register(bytes: &[u8]) -> Register {
    let mut register = Register::zeroed(bytes.len());
    register.elements_mut()[..bytes.len()].copy_from_slice(bytes);
    register
}

/// Returns the part of an output that was written.
fn tensor(output: &Output, register: &Register) -> Tensor {
    let bytes = register.elements()[..output.ty.elements() * output.ty.dtype.size()].to_vec();
    Tensor::from_bytes(output.ty.clone(), bytes).unwrap()
}

fn native(nest: &Nest, steps: &[usize], operands: &[Tensor]) -> Vec<Tensor> {
    let registers: Vec<Register> = operands.iter().map(|t| register(t.bytes())).collect();
    let operands: Vec<&[u8]> = registers.iter().map(Register::elements).collect();
    let bytes = |ty: &TensorType| ty.elements() * ty.dtype.size();
    let mut outputs: Vec<Register> =
        nest.outputs.iter().map(|output| Register::zeroed(bytes(&output.ty))).collect();
    let mut written: Vec<&mut [u8]> = outputs.iter_mut().map(Register::elements_mut).collect();
    // SAFETY: the nest is verified, and its places have positions of their own.
    unsafe { run(nest, steps, &operands, &mut written) }.unwrap();
    nest.outputs.iter().zip(&outputs).map(|(output, register)| tensor(output, register)).collect()
}

/// Compares values exactly, or up to the rounding of sums of floats in another order.
fn alike(a: Scalar, b: Scalar) -> bool {
    let (x, y) = (a.to_f64(), b.to_f64());
    let tolerance = match a.dtype {
        DType::BF16 => 0.02,
        DType::F16 => 4e-3,
        DType::F32 => 1e-4,
        DType::F64 => 1e-9,
        _ => 0.0,
    };
    let is_near = x.is_finite()
        && y.is_finite()
        && (x - y).abs() <= tolerance * x.abs().max(y.abs()).max(1.0);
    a == b || x == y || (x.is_nan() && y.is_nan()) || is_near
}

/// Checks that a nest's native program is valid, and that its text form parses back.
fn check_program(nest: &Nest, kept: bool) {
    let program = NativeProgram::new(nest, &profile(false), &|_| kept);
    program.verify().unwrap_or_else(|fault| panic!("{fault}\n{program}"));
    let read = program.to_string().parse();
    assert!(read.as_ref() == Ok(&program), "{program}\n{read:#?}");
}

fn check(cases: usize, special: usize, draw_nest: fn(&mut Draw) -> Nest) {
    let mut runner = TestRunner::deterministic();
    for case in 0..cases {
        let mut draw = Draw(runner.rng());
        let nest = draw_nest(&mut draw);
        let (nest, steps) = in_loops(&mut draw, nest);
        nest.verify().unwrap();
        check_program(&nest, case % 2 == 0);
        if nest.places() * nest.reduction_points() > 40_000 {
            continue;
        }
        let operands = operands(&mut draw, &nest, special);
        let want = reference(&nest, &steps, &operands);
        let equals_it = |set: Option<Emulated>, got: Vec<Tensor>| {
            let pairs = got.iter().zip(&want).flat_map(|(a, b)| a.scalars().zip(b.scalars()));
            for (position, (got, want)) in pairs.enumerate() {
                assert!(
                    alike(got, want),
                    "case {case}, emulated {set:?}: element {position} is {got:?}, not {want:?} at {steps:?}\n{nest}"
                );
            }
        };
        equals_it(None, native(&nest, &steps, &operands));
        let set = Emulated::ALL[case % Emulated::ALL.len()];
        equals_it(Some(set), set.during(|| native(&nest, &steps, &operands)));
    }
}

#[test]
fn random_nests_equal_their_definition() {
    check(600, 10, nest);
}

#[test]
fn random_products_equal_their_definition() {
    check(300, 10, product);
}

#[test]
fn random_scatters_equal_their_definition() {
    check(400, 10, scatter);
}
