//! [`Builder`]: a growing graph with the bound of each value.

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::graph::{Graph, NodeId, Op};
use tile_compiler::scalar::{BinaryOp, UnaryOp};
use tile_compiler::tensor::{Tensor, TensorType, broadcast};

use super::Case;
use super::bound::{Bound, function_error};
use super::choices::Choices;

/// A node, and the properties of its elements.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    pub id: NodeId,
    pub bound: Bound,
}

/// A float function: the range where it is smooth, and its slope and greatest value there.
pub struct Smooth {
    pub low: f64,
    pub high: f64,
    slope: f64,
    greatest: f64,
}

pub fn smooth(op: UnaryOp) -> Option<Smooth> {
    use UnaryOp::*;
    const EVER: f64 = f64::INFINITY;
    let (low, high, slope, greatest) = match op {
        Acos | Asin => (-0.75, 0.75, 1.6, 2.5),
        Acosh => (1.5, 8.0, 0.9, 2.8),
        Asinh => (-1000.0, 1000.0, 1.0, 7.7),
        Atan => (-EVER, EVER, 1.0, 1.6),
        Atanh => (-0.75, 0.75, 2.3, 1.0),
        Cos | Sin => (-3.0, 3.0, 1.0, 1.0),
        Cosh | Exp | Sinh => (-3.0, 3.0, 20.1, 20.1),
        Erf => (-EVER, EVER, 1.2, 1.0),
        Log => (0.5, 64.0, 2.0, 4.2),
        Log1p => (-0.5, 63.0, 2.0, 4.2),
        Recip => (0.5, 64.0, 4.0, 2.0),
        Rsqrt => (0.25, 64.0, 4.0, 2.0),
        Sigmoid => (-EVER, EVER, 0.25, 1.0),
        Sqrt => (0.25, 64.0, 1.0, 8.0),
        Tan => (-1.0, 1.0, 3.5, 1.6),
        Tanh => (-EVER, EVER, 1.0, 1.0),
        Neg | BitNot | Abs | Ceil | Floor | Rint | Round => return None,
    };
    Some(Smooth { low, high, slope, greatest })
}

pub struct Builder {
    pub graph: Graph,
    pub values: Vec<Value>,
    inputs: Vec<(String, Tensor)>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { graph: Graph::new("case"), values: Vec::new(), inputs: Vec::new() }
    }

    pub fn dtype(&self, value: Value) -> DType {
        self.graph.dtype(value.id)
    }

    pub fn shape(&self, value: Value) -> Vec<usize> {
        self.graph.shape(value.id).to_vec()
    }

    /// Adds a node that later choices may read.
    pub fn add(&mut self, op: Op, ty: TensorType, operands: &[NodeId], bound: Bound) -> Value {
        let value = Value { id: self.graph.add(op, ty, operands), bound };
        self.values.push(value);
        value
    }

    /// Adds an input of small exact values; integers rarely have any size.
    pub fn input(&mut self, choices: &mut Choices, dtype: DType, shape: &[usize]) -> Value {
        match dtype {
            _ if dtype.is_float() => self.input_of(choices, dtype, shape, -4.0, 4.0, 2),
            DType::Bool => self.input_of(choices, dtype, shape, 0.0, 1.0, 0),
            _ => {
                let most = if choices.once_in(3) {
                    2f64.powi((dtype.bits() - dtype.is_signed_integer() as u32).min(50) as i32)
                        - 1.0
                } else {
                    20.0
                };
                let low = if dtype.is_signed_integer() { -most } else { 0.0 };
                self.input_of(choices, dtype, shape, low, most, 0)
            }
        }
    }

    /// Adds an input or a weight of multiples of `2^-grid` from `low` to `high`.
    pub fn input_of(
        &mut self,
        choices: &mut Choices,
        dtype: DType,
        shape: &[usize],
        low: f64,
        high: f64,
        grid: i32,
    ) -> Value {
        let op = if choices.once_in(4) { Op::Weight } else { Op::Input };
        self.given(choices, op, TensorType::new(dtype, shape), (low, high, grid))
    }

    /// Adds a weight of small exact values.
    pub fn weight(&mut self, choices: &mut Choices, dtype: DType, shape: &[usize]) -> Value {
        self.given(choices, Op::Weight, TensorType::new(dtype, shape), (-1.0, 1.0, 2))
    }

    fn given(
        &mut self,
        choices: &mut Choices,
        op: fn(String) -> Op,
        ty: TensorType,
        (low, high, grid): (f64, f64, i32),
    ) -> Value {
        let name = format!("X{}", self.inputs.len());
        self.inputs
            .push((name.clone(), choices.tensor(self.inputs.len(), ty.clone(), low, high, grid)));
        self.add(op(name), ty, &[], Bound::exact(low.abs().max(high.abs()), grid))
    }

    /// Adds a constant, a multiple of 1/4. Later choices do not read it.
    pub fn constant(&mut self, scalar: Scalar) -> Value {
        let op = Op::Constant(scalar);
        let id = self.graph.add(op, TensorType::scalar(scalar.dtype), &[]);
        Value {
            id,
            bound: Bound::exact(scalar.to_f64().abs(), if scalar.dtype.is_float() { 2 } else { 0 }),
        }
    }

    pub fn cast(&mut self, mut value: Value, dtype: DType) -> Value {
        if dtype.is_float() && value.bound.magnitude > 1.0 / dtype.epsilon() {
            value = self.clamp(value, -8.0, 8.0);
        }
        let ty = TensorType::new(dtype, self.shape(value));
        let bound = cast_bound(value.bound, dtype);
        self.add(Op::Cast, ty, &[value.id], bound)
    }

    /// Clamps the value between `low` and `high`, multiples of 1/4.
    pub fn clamp(&mut self, value: Value, low: f64, high: f64) -> Value {
        let (dtype, bound) = (self.dtype(value), value.bound);
        if low == f64::NEG_INFINITY && high == f64::INFINITY {
            return value;
        }
        let low = self.constant(Scalar::from_f64(dtype, low));
        let high = self.constant(Scalar::from_f64(dtype, high));
        let ty = self.graph.node(value.id).ty.clone();
        let magnitude = bound.magnitude.min(low.bound.magnitude.max(high.bound.magnitude));
        let bound = Bound {
            magnitude,
            grid: bound.grid.map(|grid| grid.max(2)),
            error: bound.error.min(2.0 * magnitude),
        };
        let value = self.graph.add(Op::Binary(BinaryOp::Max), ty.clone(), &[value.id, low.id]);
        self.add(Op::Binary(BinaryOp::Min), ty, &[value, high.id], bound)
    }

    /// Adds a unary operation. The operand of a smooth function is kept where the function is
    /// smooth.
    pub fn unary(&mut self, op: UnaryOp, value: Value) -> Value {
        let dtype = self.dtype(value);
        let (value, bound) = match smooth(op) {
            Some(smooth) if dtype.is_float() => {
                let value = self.clamp(value, smooth.low, smooth.high);
                let error =
                    smooth.slope * value.bound.error + smooth.greatest * function_error(op, dtype);
                (value, Bound::inexact(smooth.greatest, error).rounded(dtype))
            }
            _ if matches!(op, UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::Rint | UnaryOp::Round) => {
                (value, Bound::exact(value.bound.magnitude + 1.0, 0).rounded(dtype))
            }
            _ if !dtype.is_float() => (value, Bound::exact(f64::INFINITY, 0).rounded(dtype)),
            _ => (value, value.bound),
        };
        let ty = self.graph.node(value.id).ty.clone();
        self.add(Op::Unary(op), ty, &[value.id], bound)
    }

    /// Adds a binary operation on broadcast operands of one type. The operands of divisions and
    /// powers are kept where these are smooth.
    pub fn binary(&mut self, op: BinaryOp, mut a: Value, mut b: Value) -> Value {
        let dtype = self.dtype(a);
        if dtype.is_float() && matches!(op, BinaryOp::Div | BinaryOp::Rem) {
            b = self.clamp(b, 0.5, 64.0);
        } else if dtype.is_float() && matches!(op, BinaryOp::Pow) {
            (a, b) = (self.clamp(a, 0.5, 4.0), self.clamp(b, -2.0, 2.0));
        }
        let bound = binary_bound(op, dtype, a.bound, b.bound);
        let shape = broadcast([self.graph.shape(a.id), self.graph.shape(b.id)])
            .expect("operands broadcast");
        let dtype = if op.is_comparison() { DType::Bool } else { dtype };
        self.add(Op::Binary(op), TensorType::new(dtype, shape), &[a.id, b.id], bound)
    }

    /// Returns the graph with the last value and up to two others as outputs.
    pub fn case(mut self, choices: &mut Choices) -> Case {
        let mut outputs = vec![self.values[self.values.len() - 1]];
        for _ in 0..choices.pick(3) {
            outputs.push(choices.of(&self.values));
        }
        let name = |n: usize| format!("Y{n}");
        self.graph.outputs =
            outputs.iter().enumerate().map(|(n, value)| (name(n), value.id)).collect();
        if let Err(error) = self.graph.verify() {
            panic!("{error}\n{}", self.graph);
        }
        // The bound is of a real number; the value in its type is within a rounding of that.
        let tolerance = |value: &Value| value.bound.error * (1.0 + 1e-6);
        Case {
            tolerances: outputs.iter().map(tolerance).collect(),
            graph: self.graph,
            inputs: self.inputs,
        }
    }
}

/// Returns the bound of a cast to `dtype`, which is exact if that is not a float.
pub fn cast_bound(bound: Bound, dtype: DType) -> Bound {
    match dtype {
        DType::Bool => Bound::exact(1.0, 0),
        _ if !dtype.is_float() => Bound { grid: Some(0), ..bound }.rounded(dtype),
        _ => bound.rounded(dtype),
    }
}

/// Returns the bound of a binary operation in `dtype`.
pub fn binary_bound(op: BinaryOp, dtype: DType, a: Bound, b: Bound) -> Bound {
    let grid = |f: fn(i32, i32) -> i32| a.grid.zip(b.grid).map(|(a, b)| f(a, b));
    let (magnitude, grid, error) = match op {
        _ if op.is_comparison() => return Bound::exact(1.0, 0),
        BinaryOp::Add | BinaryOp::Sub => {
            (a.magnitude + b.magnitude, grid(i32::max), a.error + b.error)
        }
        BinaryOp::Max | BinaryOp::Min => {
            let magnitude = a.magnitude.max(b.magnitude);
            return Bound { magnitude, grid: grid(i32::max), error: a.error.max(b.error) };
        }
        // Only for exact operands.
        BinaryOp::Rem => (a.magnitude, grid(i32::max), 0.0),
        BinaryOp::Mul => {
            let error = a.error * b.magnitude + b.error * a.magnitude + a.error * b.error;
            (a.magnitude * b.magnitude, grid(|a, b| a + b), error)
        }
        _ if !dtype.is_float() => (f64::INFINITY, Some(0), 0.0),
        BinaryOp::Pow => (
            16.0,
            None,
            16.0 * a.error + 22.0 * b.error + 16.0 * function_error(UnaryOp::Exp, dtype),
        ),
        // A quotient on a GPU may be 2.5 units in the last place off.
        _ => {
            let magnitude = 2.0 * a.magnitude;
            (
                magnitude,
                None,
                2.0 * a.error + 4.0 * a.magnitude * b.error + 4.0 * dtype.epsilon() * magnitude,
            )
        }
    };
    Bound { magnitude, grid, error }.rounded(dtype)
}
