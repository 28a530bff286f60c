//! [`Calls`]: a graph made by one call of the library after another, rather than from a program's text. It is how other front ends
//! use the library.

use std::collections::HashMap;

use tile_lang::Program;
use tile_lang::ast::Function;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::call::Argument;
use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target};
use super::network::{Layer, Network, Role, Weight, WeightKind};
use super::tensors::Tensors;
use super::value::{Callable, Instance, Value};
use crate::dtype::{DType, Scalar};
use crate::graph::{Graph, NodeId, Op};
use crate::interpret::constant;
use crate::tensor::{Tensor, TensorType};

/// What a function of the library is given, and gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// For what is left out where the function has no default, as `none` is written.
    Nothing,
    Tensor(NodeId),
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Passed>),
}

/// A graph in the making.
pub struct Calls<'p> {
    evaluator: Evaluator<'p, Tensors>,
    /// What is known of values that depend on nothing that is given at run time.
    known: HashMap<NodeId, Option<Tensor>>,
}

impl<'p> Calls<'p> {
    /// An empty graph of this name, by functions of the library that the program has.
    pub fn new(program: &'p Program, name: &str) -> Calls<'p> {
        Calls { evaluator: Evaluator::new(program, Tensors::new(name), false), known: HashMap::new() }
    }

    pub fn graph(&self) -> &Graph {
        &self.evaluator.target.graph
    }

    /// An input of the graph. Where its value is `known` by now, that counts as known below; it is an input all the same.
    pub fn input(&mut self, name: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let node = self.evaluator.target.add(Op::Input(name.to_owned()), ty, &[], Span::default())?;
        self.known.extend(known.map(|tensor| (node, Some(tensor))));
        Ok(node)
    }

    /// A weight, whose value is given once; it may be `known` by now.
    pub fn weight(&mut self, path: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let tensors = &mut self.evaluator.target;
        let node = tensors.add(Op::Weight(path.to_owned()), ty.clone(), &[], Span::default())?;
        let (kind, role) = (WeightKind::Param, Role::Model);
        tensors.network.weights.push(Weight { path: path.to_owned(), ty, kind, role, node });
        self.known.extend(known.map(|tensor| (node, Some(tensor))));
        Ok(node)
    }

    /// A tensor that the graph itself has: for small ones.
    pub fn constant(&mut self, tensor: &Tensor) -> Lowered<NodeId> {
        let (ty, span) = (tensor.ty(), Span::default());
        let tensors = &mut self.evaluator.target;
        let scalars: Vec<Scalar> = tensor.scalars().collect();
        let node = match (ty.rank(), scalars.as_slice()) {
            (0, [scalar]) => tensors.constant(*scalar),
            (1, _) => tensors.add(Op::Elements(scalars), ty.clone(), &[], span)?,
            _ => {
                let flat = TensorType::new(ty.dtype, [scalars.len()]);
                let flat = tensors.add(Op::Elements(scalars), flat, &[], span)?;
                tensors.add(Op::Reshape, ty.clone(), &[flat], span)?
            }
        };
        self.known.insert(node, Some(tensor.clone()));
        Ok(node)
    }

    /// The value of a node that depends on nothing that is given at run time, with `most` elements at most, and made of no
    /// tensor with more.
    pub fn known(&mut self, node: NodeId, most: usize) -> Option<Tensor> {
        constant(&self.evaluator.target.graph, node, most, &mut self.known)
    }

    /// The name of the input that a node is.
    pub fn input_name(&self, node: NodeId) -> Option<String> {
        match &self.graph().node(node).op {
            Op::Input(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// From here on, what is made belongs to the value `name` of a step of the kind `function` and the name `path`.
    pub fn begin(&mut self, name: &str, function: &str, path: &str) {
        self.evaluator.target.label.value = Some((name.to_owned(), Span::default()));
        self.evaluator.target.enter(function, path);
    }

    /// What `function` makes of hyper-parameters by name, and inputs by position. A name that it has not is an error, and so is
    /// whatever the function itself finds to be wrong.
    pub fn call(
        &mut self,
        function: &'p Function,
        parameters: Vec<(String, Passed)>,
        inputs: Vec<Passed>,
    ) -> Lowered<Passed> {
        let declared = function.parameters.as_deref().unwrap_or_default();
        let mut given: Vec<Option<Value<'p, NodeId>>> = declared.iter().map(|_| None).collect();
        for (name, value) in parameters {
            let Some(number) = declared.iter().position(|parameter| parameter.name.name == name) else {
                return Err(Diagnostic::error("E0224", function.span, format!("there is no attribute `{name}`")));
            };
            given[number] = Some(value_of(value));
        }
        let callable = Callable::Instance(Instance::new(function, given, None));
        let argument = |value| Argument { name: None, value: value_of(value), span: function.span };
        let value = self.evaluator.apply(&callable, inputs.into_iter().map(argument).collect(), function.span)?;
        passed(value)
    }

    /// The value as a tensor: a number becomes one of rank 0, a list of numbers one of rank 1, of the type that they have in Tile.
    pub fn tensor(&mut self, value: &Passed) -> Lowered<NodeId> {
        let scalars = |items: &[Passed]| -> Option<Vec<Scalar>> { items.iter().map(scalar).collect() };
        match value {
            Passed::Tensor(node) => Ok(*node),
            Passed::List(items) if let Some(scalars) = scalars(items) => {
                let dtype = scalars.first().map_or(DType::I64, |scalar| scalar.dtype);
                let ty = TensorType::new(dtype, [scalars.len()]);
                let tensor = Tensor::from_scalars(ty, scalars.into_iter().map(|scalar| scalar.cast(dtype)));
                let error = || Diagnostic::error("E0214", Span::default(), "a list is larger than any memory");
                self.constant(&tensor.ok_or_else(error)?)
            }
            value => match scalar(value) {
                Some(scalar) => Ok(self.evaluator.target.constant(scalar)),
                None => Err(Diagnostic::error("E0204", Span::default(), "this is no tensor")),
            },
        }
    }

    /// The network with these outputs, whose layers are those that were called.
    pub fn finish(self, outputs: Vec<(String, NodeId)>, layers: Vec<Layer>) -> Network {
        Network { layers, ..self.evaluator.target.into_network(outputs) }
    }
}

fn scalar(value: &Passed) -> Option<Scalar> {
    Some(match *value {
        Passed::Bool(value) => Scalar::bool(value),
        Passed::Int(value) => Scalar::from_i64(DType::I64, value),
        Passed::Float(value) => Scalar::f32(value as f32),
        _ => return None,
    })
}

fn value_of<'p>(passed: Passed) -> Value<'p, NodeId> {
    match passed {
        Passed::Nothing => Value::Symbol("none".into()),
        Passed::Tensor(node) => Value::Element(node),
        Passed::Bool(value) => Value::bool(value),
        Passed::Int(value) => Value::Constant(Constant::Int(value)),
        Passed::Float(value) => Value::Constant(Constant::Float(value)),
        Passed::Text(text) => Value::Symbol(text.into()),
        Passed::List(items) => Value::List(items.into_iter().map(value_of).collect()),
    }
}

fn passed(value: Value<NodeId>) -> Lowered<Passed> {
    Ok(match value {
        Value::Element(node) => Passed::Tensor(node),
        Value::Constant(Constant::Bool(value)) => Passed::Bool(value),
        Value::Constant(Constant::Int(value)) => Passed::Int(value),
        Value::Constant(Constant::Float(value)) => Passed::Float(value),
        Value::Symbol(text) if *text == *"none" => Passed::Nothing,
        Value::Symbol(text) => Passed::Text(text.to_string()),
        Value::List(items) => Passed::List(items.into_iter().map(passed).collect::<Lowered<_>>()?),
        Value::Callable(_) => {
            return Err(Diagnostic::error("E0204", Span::default(), "a function is no result"));
        }
    })
}
