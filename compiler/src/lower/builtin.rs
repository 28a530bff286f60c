//! The builtin functions on whole tensors.

use tile_lang::diagnostic::Diagnostic;

use super::constant::Constant;
use super::contraction::nothing_to_read;
use super::einsum::einsum;
use super::expression::{Lowered, Spans, Target, covers};
use super::form::{Form, fixed};
use super::masks::{mask_of, with_mask};
use super::network::Network;
use super::range::{with_bounds, with_range};
use super::tensors::Tensors;
use super::value::{List, Value};
use crate::affine::Affine;
use crate::bindings::SEED;
use crate::dtype::{DType, Scalar};
use crate::gradient;
use crate::graph::{Aggregation, Index, NodeId, Op, equals};
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;

/// Applies the builtin function `name` to the arguments.
pub(super) fn call<'p>(
    tensors: &mut Tensors,
    name: &str,
    arguments: &[Value<'p, NodeId>],
    spans: &Spans,
) -> Lowered<Value<'p, NodeId>> {
    let mut call = Call { tensors, name, arguments, spans };
    match name {
        "index" => call.index().map(Value::Element),
        "shape" => call.shape().map(Value::Element),
        "reshape" => call.reshape().map(Value::Element),
        "transpose" => call.transpose().map(Value::Element),
        "vector" => call.vector(),
        "gather" => call.gather().map(Value::Element),
        "scatter" => call.scatter().map(Value::Element),
        "simple_reduce" => {
            let sizes = call.sizes()?;
            call.reduce(sizes, Aggregation::Sum).map(Value::Element)
        }
        "reduce" => {
            let (sizes, aggregation) = (call.list(1)?, call.aggregation(2)?);
            call.reduce(sizes, aggregation).map(Value::Element)
        }
        "einsum" => einsum(call.tensors, arguments, spans),
        "fill" => call.fill().map(Value::Element),
        "random_seed" => {
            Ok(Value::Element(call.tensors.hidden(SEED, TensorType::new(DType::U32, [2]))))
        }
        "training_step" => {
            Ok(Value::Element(call.tensors.hidden(Network::STEP, TensorType::scalar(DType::F32))))
        }
        "rate_factor" => {
            Ok(Value::Element(call.tensors.hidden(Network::RATE, TensorType::scalar(DType::F32))))
        }
        "sample_weight" => Ok(call.tensors.weight_of_samples()),
        "gradient_norm" => call.tensors.gradient_norm(spans.call).map(Value::Element),
        "weight_path" => Ok(Value::Symbol(call.tensors.descent(spans.call)?.path.clone())),
        "trained_as" => {
            let stand_in = call.tensor(0)?;
            call.tensors.descent(spans.call)?.stand_in = Some(stand_in);
            Ok(Value::Element(stand_in))
        }
        "matches" => call.matches(),
        "grad" => call.gradient(),
        "stop_gradient" => call.stop_gradient(),
        "with_loss" => {
            let penalty = call.tensor(1)?;
            call.tensors.penalise(penalty, spans.argument(1))?;
            Ok(arguments[0].clone())
        }
        "with_mask" => with_mask(call.tensors, arguments, spans),
        "mask_of" => Ok(mask_of(call.tensors, &arguments[0])),
        "with_range" => with_range(call.tensors, arguments, spans),
        "with_bounds" => with_bounds(call.tensors, arguments, spans),
        "tuple" => Ok(Value::List(arguments.to_vec().into())),
        "element" => {
            let part = call.integer(1)?;
            call.part(part)
        }
        "prng_step" => call.prng_step(),
        "prng_state" => call.part(0),
        "prng_value" => call.part(1),
        _ => Err(Diagnostic::error("E0102", spans.call, format!("unknown function `{name}`"))),
    }
}

struct Call<'a, 'p> {
    tensors: &'a mut Tensors,
    name: &'a str,
    arguments: &'a [Value<'p, NodeId>],
    spans: &'a Spans,
}

impl<'p> Call<'_, 'p> {
    fn wrong(&self, argument: usize, message: String) -> Diagnostic {
        Diagnostic::error("E0208", self.spans.argument(argument), message)
    }

    fn tensor(&mut self, argument: usize) -> Lowered<NodeId> {
        match self.arguments.get(argument) {
            Some(value) => self.tensors.element(value.clone(), self.spans.argument(argument)),
            None => Err(self.wrong(argument, format!("`{}` needs more arguments", self.name))),
        }
    }

    fn tensor_shape(&mut self, argument: usize) -> Lowered<(NodeId, Vec<usize>)> {
        let tensor = self.tensor(argument)?;
        Ok((tensor, self.tensors.shape(tensor)))
    }

    /// Returns a tensor of row numbers and its shape.
    fn rows(&mut self, argument: usize) -> Lowered<(NodeId, Vec<usize>)> {
        let (tensor, shape) = self.tensor_shape(argument)?;
        let dtype = self.tensors.dtype(tensor);
        if dtype.is_integer() {
            return Ok((tensor, shape));
        }
        let message = format!("an index must be of an integer type, and this is {dtype}");
        Err(Diagnostic::error("E0204", self.spans.argument(argument), message)
            .help("convert it with `as_int(X, 32)`"))
    }

    fn integer(&self, argument: usize) -> Lowered<usize> {
        match self.arguments.get(argument) {
            Some(Value::Constant(Constant::Int(value))) if *value >= 0 => usize::try_from(*value)
                .map_err(|_| self.wrong(argument, format!("{value} is too large"))),
            Some(Value::Constant(Constant::Int(value))) => Err(self.wrong(
                argument,
                format!("`{}` does not take the negative number {value} here", self.name),
            )),
            _ => {
                Err(self.wrong(argument, format!("`{}` takes an integer constant here", self.name)))
            }
        }
    }

    /// Returns the sizes that follow the first argument.
    fn sizes(&self) -> Lowered<Vec<usize>> {
        let mut sizes = Vec::new();
        for argument in 1..self.arguments.len() {
            match &self.arguments[argument] {
                Value::List(_) => sizes.extend(self.list(argument)?),
                _ => sizes.push(self.integer(argument)?),
            }
        }
        Ok(sizes)
    }

    /// Returns the sizes in a list argument.
    fn list(&self, argument: usize) -> Lowered<Vec<usize>> {
        let wrong = |value: &Value<'p, NodeId>| {
            self.wrong(
                argument,
                format!("`{}` takes a list of sizes here, and this is {}", self.name, value.kind()),
            )
        };
        let Some(Value::List(items)) = self.arguments.get(argument) else {
            return Err(wrong(
                self.arguments.get(argument).unwrap_or(&Value::List(List::default())),
            ));
        };
        let sizes = items.iter().map(|item| match item {
            Value::Constant(Constant::Int(size)) => usize::try_from(*size).map_err(|_| {
                self.wrong(
                    argument,
                    format!("`{}` takes a list of sizes here, and {size} is none", self.name),
                )
            }),
            _ => Err(wrong(item)),
        });
        sizes.collect()
    }

    fn add(&mut self, op: Op, ty: TensorType, operands: &[NodeId]) -> Lowered<NodeId> {
        self.tensors.add(op, ty, operands, self.spans.call)
    }

    /// Returns the shape of a tensor, or the shape that a list spells out.
    fn shape_of(&mut self, argument: usize) -> Lowered<Vec<usize>> {
        match self.arguments.get(argument) {
            Some(Value::List(_)) => self.list(argument),
            _ => Ok(self.tensor_shape(argument)?.1),
        }
    }

    /// Returns whether a path is one of a list of patterns, or lies below one.
    fn matches(&self) -> Lowered<Value<'p, NodeId>> {
        let text = |value: &Value<'p, NodeId>, argument: usize| match value {
            Value::Symbol(text) => Ok(text.clone()),
            other => Err(self.wrong(argument, format!("expected a path, found {}", other.kind()))),
        };
        let path = text(&self.arguments[0], 0)?;
        let patterns = match &self.arguments[1] {
            Value::List(patterns) => patterns,
            pattern => std::slice::from_ref(pattern),
        };
        for pattern in patterns {
            if covers(&text(pattern, 1)?, &path) {
                return Ok(Value::bool(true));
            }
        }
        Ok(Value::bool(false))
    }

    /// Fills a tensor of a given shape with one value.
    fn fill(&mut self) -> Lowered<NodeId> {
        let shape = self.list(0)?;
        let (value, rank) = self.tensor_shape(1)?;
        if !rank.is_empty() {
            return Err(
                self.wrong(1, format!("`fill` takes one number, and this has the shape {rank:?}"))
            );
        }
        let ty = TensorType::new(self.tensors.dtype(value), shape);
        let mut form = Form::new(Aggregation::Assign);
        form.contraction.output = form.variables("i", &ty.shape);
        form.access(0, std::iter::empty());
        let leaf = form.leaf(0, ty.dtype);
        form.contraction.body.results = vec![leaf];
        self.add(form.op(), ty, &[value])
    }

    /// Differentiates the first argument with respect to the second, or to each item of it.
    fn gradient(&mut self) -> Lowered<Value<'p, NodeId>> {
        let of = self.tensor(0)?;
        let (items, is_list) = match self.arguments.get(1) {
            Some(Value::List(items)) => (items.to_vec(), true),
            Some(value) => (vec![value.clone()], false),
            None => (Vec::new(), false),
        };
        let nodes =
            items.into_iter().map(|item| self.tensors.element(item, self.spans.argument(1)));
        let nodes = nodes.collect::<Lowered<Vec<NodeId>>>()?;
        let found = gradient::gradient(&mut self.tensors.graph, of, &nodes);
        self.tensors.graph.budget.check().map_err(|exceeded| exceeded.at(self.spans.call))?;
        let found = found.map_err(|error| match error {
            gradient::Error::NotOneValue(ty) => {
                let message = format!("`grad` differentiates one float, and this is {ty}");
                let error = Diagnostic::error("E0236", self.spans.argument(0), message);
                if ty.dtype.is_float() {
                    error.help("add it up, as in `grad(sum(L), X)`")
                } else {
                    error
                }
            }
            gradient::Error::TooLarge { .. } | gradient::Error::Exceeded => {
                Diagnostic::error("E0236", self.spans.call, error.to_string())
            }
        })?;
        let mut found = found.into_iter().map(Value::Element);
        Ok(if is_list {
            Value::List(found.collect())
        } else {
            found.next().unwrap_or(Value::List(List::default()))
        })
    }

    /// Returns the argument itself, and stops gradients.
    fn stop_gradient(&mut self) -> Lowered<Value<'p, NodeId>> {
        if let Some(constant @ Value::Constant(_)) = self.arguments.first() {
            return Ok(constant.clone());
        }
        let tensor = self.tensor(0)?;
        let ty = self.tensors.graph.node(tensor).ty.clone();
        self.add(Op::StopGradient, ty, &[tensor]).map(Value::Element)
    }

    fn index(&mut self) -> Lowered<NodeId> {
        let shape = self.shape_of(0)?;
        let axis = self.integer(1)?;
        if axis >= shape.len() {
            let message = format!("there is no axis {axis} in the shape {shape:?}");
            return Err(self.wrong(1, message).help("axes are counted from 0"));
        }
        self.add(Op::Index { axis }, TensorType::new(DType::I32, shape), &[])
    }

    fn shape(&mut self) -> Lowered<NodeId> {
        let (_, shape) = self.tensor_shape(0)?;
        let sizes = shape.iter().map(|&size| i32::try_from(size).map(Scalar::i32));
        let sizes: Vec<Scalar> = sizes
            .collect::<Result<_, _>>()
            .map_err(|_| self.wrong(0, format!("a size of {shape:?} does not fit an i32")))?;
        let ty = TensorType::new(DType::I32, [sizes.len()]);
        self.add(Op::Elements(sizes), ty, &[])
    }

    fn reshape(&mut self) -> Lowered<NodeId> {
        let tensor = self.tensor(0)?;
        let old = self.tensors.graph.node(tensor).ty.clone();
        let new = TensorType::new(old.dtype, self.sizes()?);
        if old.checked_elements() != new.checked_elements() {
            let count = |ty: &TensorType| {
                ty.checked_elements().map_or("too many".to_owned(), |n| n.to_string())
            };
            let message = format!(
                "the shape {:?} has {} elements, and {:?} has {}",
                old.shape,
                count(&old),
                new.shape,
                count(&new)
            );
            return Err(Diagnostic::error("E0213", self.spans.call, message));
        }
        self.add(Op::Reshape, new, &[tensor])
    }

    /// Permutes the axes: axis `k` of the result is the axis that item `k` of the list names.
    fn transpose(&mut self) -> Lowered<NodeId> {
        let (tensor, from) = self.tensor_shape(0)?;
        let axes = self.list(1)?;
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if sorted != (0..from.len()).collect::<Vec<_>>() {
            let message = format!("{axes:?} does not name each axis of the shape {from:?} once");
            return Err(self.wrong(1, message).help("axes are counted from 0"));
        }
        let shape: Vec<usize> = axes.iter().map(|&axis| from[axis]).collect();
        let ty = TensorType::new(self.tensors.dtype(tensor), shape);
        let mut form = Form::new(Aggregation::Assign);
        let at = form.variables("i", &from);
        form.access(0, at.iter().map(fixed));
        form.contraction.output = axes.iter().map(|&axis| at[axis].clone()).collect();
        let value = form.leaf(0, ty.dtype);
        form.contraction.body.results = vec![value];
        self.add(form.op(), ty, &[tensor])
    }

    /// Makes a tensor from a list of numbers, in their common type. A single number stays a number.
    fn vector(&mut self) -> Lowered<Value<'p, NodeId>> {
        let items = match self.arguments.first() {
            Some(number @ Value::Constant(_)) => return Ok(number.clone()),
            Some(Value::List(items)) => items,
            _ => return Err(self.wrong(0, "`vector` takes a list of numbers".to_owned())),
        };
        let numbers = items.iter().map(|item| match item {
            Value::Constant(number) => Ok(*number),
            _ => Err(self.wrong(
                0,
                format!("`vector` takes a list of numbers, and this has {} in it", item.kind()),
            )),
        });
        let numbers = numbers.collect::<Lowered<Vec<Constant>>>()?;
        let dtype = numbers
            .iter()
            .map(|number| number.scalar().dtype)
            .reduce(DType::meet)
            .unwrap_or(DType::F32);
        let values = numbers.into_iter().map(|number| number.cast(dtype)).collect();
        let ty = TensorType::new(dtype, [items.len()]);
        self.add(Op::Elements(values), ty, &[]).map(Value::Element)
    }

    /// Computes `V[clamp(I[i]), d]` for each `[i, d]`.
    fn gather(&mut self) -> Lowered<NodeId> {
        let (values, from) = self.tensor_shape(0)?;
        let (rows, shape) = self.rows(1)?;
        let Some((&count, rest)) = from.split_first() else {
            return Err(self.wrong(0, "`gather` takes rows, and this has rank 0".to_owned()));
        };
        let ty = TensorType::new(self.tensors.dtype(values), [&shape, rest].concat());
        if ty.elements() == 0 {
            let none = self.add(Op::Elements(Vec::new()), TensorType::new(ty.dtype, [0]), &[])?;
            return self.add(Op::Reshape, ty, &[none]);
        }
        if count == 0 {
            return Err(nothing_to_read(self.spans.argument(0), &from));
        }
        let rows = self.clamp(rows, count)?;
        let mut form = Form::new(Aggregation::Assign);
        let (at, inner) = (form.variables("i", &shape), form.variables("d", rest));
        form.access(0, at.iter().map(fixed));
        form.access(
            1,
            [Index { affine: Affine::constant(0), access: Some(0) }]
                .into_iter()
                .chain(inner.iter().map(fixed)),
        );
        form.contraction.output = [at, inner].concat();
        let value = form.leaf(1, ty.dtype);
        form.contraction.body.results = vec![value];
        self.add(form.op(), ty, &[rows, values])
    }

    /// Clamps row numbers to `0..count`.
    fn clamp(&mut self, rows: NodeId, count: usize) -> Lowered<NodeId> {
        let dtype = self.tensors.dtype(rows);
        let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
        let mut rows = rows;
        if dtype.is_signed_integer() {
            let zero = self.tensors.constant(Scalar::zero(dtype));
            rows = self.tensors.binary(BinaryOp::Max, [rows, zero], self.spans.call)?;
        }
        // The limit is left out if the type cannot represent it, since no value can exceed it then.
        let limit = Scalar::from_i64(dtype, last);
        if last >= 0 && limit.to_i64() == last {
            let limit = self.tensors.constant(limit);
            rows = self.tensors.binary(BinaryOp::Min, [rows, limit], self.spans.call)?;
        }
        Ok(rows)
    }

    /// Computes the sum of `E[i, d]` over all `i` with `I[i] == v`, for each `[v, d]`.
    fn scatter(&mut self) -> Lowered<NodeId> {
        let (values, from) = self.tensor_shape(0)?;
        let (rows, shape) = self.rows(1)?;
        let (_, into) = self.tensor_shape(2)?;
        let Some(rest) = from.strip_prefix(shape.as_slice()) else {
            let message =
                format!("the shape {from:?} does not start with {shape:?}, that of the indices");
            return Err(Diagnostic::error("E0213", self.spans.argument(0), message));
        };
        let Some(&count) = into.first() else {
            return Err(self.wrong(2, "`scatter` makes rows, and this has rank 0".to_owned()));
        };
        let ty = TensorType::new(self.tensors.dtype(values), [&[count], rest].concat());
        let mut form = Form::new(Aggregation::Sum);
        let (row, inner) = (form.variables("v", &[count]), form.variables("d", rest));
        let at = form.variables("i", &shape);
        form.access(0, at.iter().map(fixed));
        form.access(1, at.iter().chain(&inner).map(fixed));
        form.contraction.output = [row, inner].concat();
        let value = form.leaf(1, ty.dtype);
        let valid =
            equals(&mut form.contraction.body, 0, self.tensors.dtype(rows), &Affine::var(0));
        form.contraction.body.results = vec![value, valid];
        self.add(form.op(), ty, &[rows, values])
    }

    /// Returns the aggregation that an argument names.
    fn aggregation(&self, argument: usize) -> Lowered<Aggregation> {
        let ways = [
            ("sum", Aggregation::Sum),
            ("product", Aggregation::Product),
            ("max", Aggregation::Max),
            ("min", Aggregation::Min),
        ];
        let value = self.arguments.get(argument);
        let way = ways.iter().find(|(name, _)| value == Some(&Value::Symbol((*name).into())));
        way.map(|(_, way)| *way).ok_or_else(|| {
            self.wrong(argument, format!("`{}` takes sum, product, max or min here", self.name))
        })
    }

    /// Reduces to the shape `to`, which is aligned at the last axis. Axes that `to` lacks, or has
    /// with size 1, are aggregated over.
    fn reduce(&mut self, to: Vec<usize>, aggregation: Aggregation) -> Lowered<NodeId> {
        let (tensor, from) = self.tensor_shape(0)?;
        let fits = to.len() <= from.len()
            && to.iter().rev().zip(from.iter().rev()).all(|(t, f)| t == f || *t == 1);
        if !fits {
            let message = format!("the shape {from:?} does not reduce to {to:?}");
            return Err(Diagnostic::error("E0213", self.spans.call, message));
        }
        let ty = TensorType::new(self.tensors.dtype(tensor), to);
        let mut form = Form::new(aggregation);
        let at = form.variables("i", &from);
        form.access(0, at.iter().map(fixed));
        let kept = at[from.len() - ty.rank()..].iter().zip(&ty.shape);
        form.contraction.output = kept
            .map(|(i, size)| if *size == 1 { Affine::constant(0) } else { i.clone() })
            .collect();
        let value = form.leaf(0, ty.dtype);
        form.contraction.body.results = vec![value];
        self.add(form.op(), ty, &[tensor])
    }

    fn prng_step(&mut self) -> Lowered<Value<'p, NodeId>> {
        let state = self.tensor(0)?;
        let ty = self.tensors.graph.node(state).ty.clone();
        if ty != TensorType::new(DType::U32, [3, 2048]) {
            let message =
                format!("the state of the generator is a u32[3, 2048], and this is a {ty}");
            return Err(Diagnostic::error("E0204", self.spans.argument(0), message));
        }
        let result = TensorType::new(DType::F32, self.sizes()?);
        let elements = result.checked_elements();
        let value = self.add(Op::PrngValue, result, &[state])?;
        let elements = elements.unwrap_or(usize::MAX);
        let state = self.add(Op::PrngState { elements }, ty, &[state])?;
        Ok(Value::List(vec![Value::Element(state), Value::Element(value)].into()))
    }

    fn part(&self, number: usize) -> Lowered<Value<'p, NodeId>> {
        match self.arguments.first() {
            Some(Value::List(parts)) => parts.get(number).cloned().ok_or_else(|| {
                self.wrong(1, format!("there is no part {number} in a tuple of {}", parts.len()))
                    .help("parts are counted from 0")
            }),
            _ => Err(Diagnostic::error(
                "E0204",
                self.spans.argument(0),
                format!("`{}` takes a tuple", self.name),
            )),
        }
    }
}
