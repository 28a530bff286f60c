//! [`Calls`] builds a graph from single calls of library functions instead of a program's text.
//! Other front ends, such as ONNX import, use it.

use std::collections::HashMap;

use tile_lang::ast::Function;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;
use tile_lang::{Budget, Program};

use super::call::Argument;
use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target};
use super::network::{Layer, Network, Role, Weight, WeightKind};
use super::tensors::Tensors;
use super::value::{Callable, Instance, Value};
use crate::dtype::{DType, Scalar};
use crate::graph::{Graph, NodeId, NodeMap, Op};
use crate::interpret::constant;
use crate::tensor::{Tensor, TensorType};

/// An argument or result of a library function.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// An omitted argument without a default: `none` in Tile.
    Nothing,
    /// A tensor: a node of the graph.
    Tensor(NodeId),
    /// A bool known at compile time.
    Bool(bool),
    /// A whole number known at compile time.
    Int(i64),
    /// A number known at compile time.
    Float(f64),
    /// A text known at compile time.
    Text(String),
    /// A list or tuple.
    List(Vec<Passed>),
}

/// A graph under construction.
pub struct Calls<'p> {
    evaluator: Evaluator<'p, Tensors>,
    /// The values of nodes that are known before run time, and `None` for nodes that have none.
    known: NodeMap<Option<Tensor>>,
}

/// A graph under construction that is set aside: see [`Calls::set_aside`].
#[derive(Clone)]
pub struct CallsAside {
    graph: Graph,
    weights: Vec<Weight>,
    known: NodeMap<Option<Tensor>>,
    drawn: HashMap<String, u32>,
}

impl CallsAside {
    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}

impl<'p> Calls<'p> {
    /// Sets the graph aside. Of its nodes, only these and those that they are computed from stay.
    pub fn set_aside(self, nodes: impl IntoIterator<Item = NodeId>) -> CallsAside {
        let Evaluator { target: Tensors { mut graph, network, .. }, drawn, .. } = self.evaluator;
        let kept = graph.needed(nodes);
        graph.keep(&kept);
        let (mut weights, mut known) = (network.weights, self.known);
        weights.retain(|weight| kept.contains(&weight.node));
        known.retain(|node, _| kept.contains(&node));
        CallsAside { graph, weights, known, drawn }
    }

    /// Continues a graph that was set aside. `program` must be the one that it was made with.
    pub fn resume(program: &'p Program, aside: CallsAside, budget: &Budget) -> Calls<'p> {
        let CallsAside { mut graph, weights, known, drawn } = aside;
        graph.budget = budget.clone();
        let mut tensors = Tensors::new("", budget);
        tensors.graph = graph;
        tensors.network.weights = weights;
        let mut evaluator = Evaluator::new(program, tensors, false);
        evaluator.drawn = drawn;
        Calls { evaluator, known }
    }

    /// Creates an empty graph with this name. The functions to call are those of `program`'s
    /// library.
    pub fn new(program: &'p Program, name: &str, budget: &Budget) -> Calls<'p> {
        Calls {
            evaluator: Evaluator::new(program, Tensors::new(name, budget), false),
            known: NodeMap::new(),
        }
    }

    /// Returns the graph so far.
    pub fn graph(&self) -> &Graph {
        &self.evaluator.target.graph
    }

    /// Adds an input of the graph. If its value is `known` already, [`Calls::known()`] folds with
    /// it; the node remains an input.
    pub fn input(&mut self, name: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let node =
            self.evaluator.target.add(Op::Input(name.to_owned()), ty, &[], Span::default())?;
        self.known.extend(known.map(|tensor| (node, Some(tensor))));
        Ok(node)
    }

    /// Sets the values of nodes for [`Calls::known()`].
    pub fn reveal(&mut self, values: impl IntoIterator<Item = (NodeId, Tensor)>) {
        // Nodes that depend on these may have known values now.
        self.known.retain(|_, value| value.is_some());
        self.known.extend(values.into_iter().map(|(node, value)| (node, Some(value))));
    }

    /// Turns a node into an input with this name. The node no longer depends on its operands.
    pub fn settle(&mut self, node: NodeId, name: &str) {
        let graph = &mut self.evaluator.target.graph;
        graph.set(node, Op::Input(name.to_owned()), &[]);
        if !graph.inputs.contains(&node) {
            graph.inputs.push(node);
        }
    }

    /// Adds a weight with a fixed value, which may be `known` already.
    pub fn weight(&mut self, path: &str, ty: TensorType, known: Option<Tensor>) -> Lowered<NodeId> {
        let tensors = &mut self.evaluator.target;
        let node = tensors.add(Op::Weight(path.to_owned()), ty.clone(), &[], Span::default())?;
        let (kind, role) = (WeightKind::Param, Role::Model);
        tensors.network.weights.push(Weight { path: path.to_owned(), ty, kind, role, node });
        self.known.extend(known.map(|tensor| (node, Some(tensor))));
        Ok(node)
    }

    /// Adds a small tensor as a constant of the graph.
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

    /// Returns the value of a node that does not depend on run-time values, if neither the node nor
    /// its operands, direct or indirect, have more than `most` elements.
    pub fn known(&mut self, node: NodeId, most: usize) -> Option<Tensor> {
        constant(&self.evaluator.target.graph, node, most, &mut self.known)
    }

    /// Returns the name of the input that a node is, or `None` if it is not an input.
    pub fn input_name(&self, node: NodeId) -> Option<String> {
        match &self.graph().node(node).op {
            Op::Input(name) => Some(name.clone()),
            _ => None,
        }
    }

    /// Labels the nodes that are added from here on: they compute the value `name`, in a step of
    /// the kind `function` that is called `path`.
    pub fn begin(&mut self, name: &str, function: &str, path: &str) {
        self.evaluator.target.label.value = Some((name.to_owned(), Span::default()));
        self.evaluator.target.enter(function, path, Span::default());
    }

    /// Calls `function` with hyper-parameters by name and inputs by position. Returns an error for
    /// an unknown name, and the errors of the function itself.
    pub fn call(
        &mut self,
        function: &'p Function,
        parameters: Vec<(String, Passed)>,
        inputs: Vec<Passed>,
    ) -> Lowered<Passed> {
        let declared = function.parameters.as_deref().unwrap_or_default();
        let mut given: Vec<Option<Value<'p, NodeId>>> = declared.iter().map(|_| None).collect();
        for (name, value) in parameters {
            let Some(number) = declared.iter().position(|parameter| parameter.name.name == name)
            else {
                return Err(Diagnostic::error(
                    "E0224",
                    function.span,
                    format!("there is no attribute `{name}`"),
                ));
            };
            given[number] = Some(value_of(value));
        }
        let callable = Callable::Instance(Instance::new(function, given, None));
        let argument = |value| Argument { name: None, value: value_of(value), span: function.span };
        let value = self.evaluator.apply(
            &callable,
            inputs.into_iter().map(argument).collect(),
            function.span,
        )?;
        passed(value)
    }

    /// Converts a value to a tensor. A number becomes a tensor of rank 0, a list of numbers one of
    /// rank 1 with the type of its first number. An integer becomes an i64, a float an f32.
    pub fn tensor(&mut self, value: &Passed) -> Lowered<NodeId> {
        let scalars =
            |items: &[Passed]| -> Option<Vec<Scalar>> { items.iter().map(scalar).collect() };
        match value {
            Passed::Tensor(node) => Ok(*node),
            Passed::List(items) if let Some(scalars) = scalars(items) => {
                let dtype = scalars.first().map_or(DType::I64, |scalar| scalar.dtype);
                let ty = TensorType::new(dtype, [scalars.len()]);
                let tensor =
                    Tensor::from_scalars(ty, scalars.into_iter().map(|scalar| scalar.cast(dtype)));
                let error = || {
                    Diagnostic::error("E0214", Span::default(), "a list is larger than any memory")
                };
                self.constant(&tensor.ok_or_else(error)?)
            }
            value => match scalar(value) {
                Some(scalar) => Ok(self.evaluator.target.constant(scalar)),
                None => Err(Diagnostic::error("E0204", Span::default(), "this is no tensor")),
            },
        }
    }

    /// Returns the network with these outputs. `layers` lists the calls that made it.
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
