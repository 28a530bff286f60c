//! Weights: a `param` or `state` statement makes a tensor that is found again by its path.

use tile_lang::ast::{self, Ident, WeightShape};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::call::Argument;
use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target};
use super::frame::Frame;
use super::network::{Layer, Network, Role, Weight};
use super::scope::Scope;
use super::tensors::Tensors;
use super::value::{Callable, Value};
use crate::dtype::DType;
use crate::graph::{NodeId, Op};
use crate::tensor::TensorType;

pub(super) fn weight<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &mut Scope<'p, NodeId>,
    weight: &'p ast::Weight,
) -> Lowered<()> {
    let name = &weight.name;
    let exists = match &weight.condition {
        Some(condition) => evaluator.decide(scope, condition)?,
        None => true,
    };
    if !exists {
        let value = match &weight.otherwise {
            Some(otherwise) => evaluator.expression(scope, otherwise)?,
            None => Value::Constant(Constant::Int(0)),
        };
        scope.names.insert(&name.name, value);
        return Ok(());
    }
    let shape = shape(evaluator, scope, weight)?;
    let path = match evaluator.frames.last() {
        Some(frame) => frame.join(&name.name),
        None => name.name.clone(),
    };
    let node = match evaluator.target.network.weights.iter().find(|known| known.path == path) {
        Some(known) if known.ty.shape == shape && known.kind == weight.kind => {
            let node = known.node;
            evaluator.target.imported(node)
        }
        Some(known) => {
            let message = match known.kind == weight.kind {
                true => format!("`{path}` has the shape {:?} elsewhere, and {shape:?} here", known.ty.shape),
                false => format!(
                    "`{path}` is a `{}` elsewhere, and a `{}` here",
                    known.kind.keyword(),
                    weight.kind.keyword()
                ),
            };
            return Err(Diagnostic::error("E0230", name.span, message)
                .help("a layer that is applied twice has the same weights each time; `clone(layer)` has its own"));
        }
        None => make(evaluator, scope, weight, path.clone(), shape)?,
    };
    let value = renewed(evaluator, name, &path, Value::Element(node))?;
    scope.weights.insert(&name.name, path);
    scope.names.insert(&name.name, value);
    Ok(())
}

/// What `with_weight` makes of a weight, which in training it is from then on; else the same.
fn renewed<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    name: &'p Ident,
    path: &str,
    value: Value<'p, NodeId>,
) -> Lowered<Value<'p, NodeId>> {
    let Some(Some((renewal, done))) = evaluator.renewals.last_mut() else { return Ok(value) };
    if !renewal.names.iter().any(|renewed| **renewed == *name.name) {
        return Ok(value);
    }
    *done = true;
    let callable = renewal.callable.clone();
    let value = call_on(evaluator, callable, value, name.span)?;
    if evaluator.training {
        set_next(evaluator, name, path, value.clone())?;
    }
    Ok(value)
}

/// The shape that the sizes of a weight say; a list among them stands for its items.
fn shape<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    weight: &'p ast::Weight,
) -> Lowered<Vec<usize>> {
    let sizes = match &weight.shape {
        WeightShape::Sizes(sizes) => sizes,
        WeightShape::Like(tensor) => {
            let value = evaluator.expression(scope, tensor)?;
            let element = evaluator.target.element(value, tensor.span)?;
            return Ok(evaluator.target.graph.shape(element).to_vec());
        }
    };
    let mut shape = Vec::with_capacity(sizes.len());
    for size in sizes {
        let value = evaluator.expression(scope, size)?;
        let items = match value {
            Value::List(items) => items,
            value => vec![value],
        };
        for item in items {
            let size = match &item {
                Value::Constant(Constant::Int(value)) => usize::try_from(*value).ok(),
                _ => None,
            };
            shape.push(size.ok_or_else(|| {
                let message = format!("a size of `{}` must be a number of at least 0, and is {item}", weight.name.name);
                Diagnostic::error("E0209", weight.name.span, message)
            })?);
        }
    }
    Ok(shape)
}

/// Adds a weight, its first value, and where it counts what its regularizer says.
fn make<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    weight: &'p ast::Weight,
    path: String,
    shape: Vec<usize>,
) -> Lowered<NodeId> {
    let span = weight.initializer.span;
    let initializer = evaluator.expression(scope, &weight.initializer)?;
    let dtype = first_value(evaluator, scope, &initializer, &path, &shape, span)?;
    let ty = TensorType::new(dtype, shape);
    let node = evaluator.target.outermost(|tensors| tensors.add(Op::Weight(path.clone()), ty.clone(), &[], span))?;
    evaluator.target.network.weights.push(Weight { path, ty, kind: weight.kind, role: Role::Model, node });
    if let (true, Some(regularizer)) = (evaluator.penalises, &weight.regularizer) {
        let value = evaluator.expression(scope, regularizer)?;
        if value != Value::Symbol("none".into()) {
            let callable = evaluator.callable(&value, scope.function, regularizer.span)?;
            let node = evaluator.target.imported(node);
            let penalty = call_on(evaluator, callable, Value::Element(node), regularizer.span)?;
            let penalty = evaluator.target.element(penalty, regularizer.span)?;
            evaluator.target.penalise(penalty, regularizer.span)?;
        }
    }
    Ok(evaluator.target.imported(node))
}

/// Calls with one argument; hyper-parameters that were not given take their defaults.
fn call_on<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    callable: Callable<'p, NodeId>,
    value: Value<'p, NodeId>,
    span: Span,
) -> Lowered<Value<'p, NodeId>> {
    let callable = match callable {
        Callable::Function(function) => Callable::Instance(super::value::Instance::new(function, Vec::new(), None)),
        callable => callable,
    };
    evaluator.apply(&callable, vec![Argument { name: None, value, span }], span)
}

/// Adds the first value of a weight to the graph of first values; gives its type.
fn first_value<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    initializer: &Value<'p, NodeId>,
    path: &str,
    shape: &[usize],
    span: Span,
) -> Lowered<DType> {
    // Its hyper-parameters must not be tensors of the other graph.
    let initializer = initializer.constant().ok_or_else(|| {
        Diagnostic::error("E0231", span, "the first value of a weight cannot depend on tensors of a run")
    })?;
    let callable = evaluator.callable(&initializer, scope.function, span)?;
    let outer = evaluator.target.begin_initial();
    evaluator.frames.push(Frame::new(path.to_owned()));
    let sizes = Value::List(shape.iter().map(|&size| Value::int(size)).collect());
    let result = call_on(evaluator, callable, sizes, span).and_then(|value| evaluator.target.element(value, span));
    evaluator.frames.pop();
    let (dtype, found) = match &result {
        Ok(node) => (evaluator.target.graph.dtype(*node), evaluator.target.graph.shape(*node).to_vec()),
        Err(_) => (DType::F32, Vec::new()),
    };
    if let Ok(node) = &result {
        evaluator.target.graph.outputs.push((path.to_owned(), *node));
    }
    evaluator.target.end_initial(outer);
    result?;
    if found != shape {
        let message = format!("this makes a tensor of the shape {found:?}, and `{path}` has {shape:?}");
        return Err(Diagnostic::error("E0231", span, message));
    }
    Ok(dtype)
}

/// `update target = value;` in training.
pub(super) fn update<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    target: &Ident,
    value: Value<'p, NodeId>,
) -> Lowered<()> {
    let Some(path) = scope.weights.get(target.name.as_str()) else {
        // A weight that was left out has no next value either.
        return match scope.names.get(target.name.as_str()) {
            Some(Value::Constant(_)) => Ok(()),
            _ => Err(Diagnostic::error("E0232", target.span, format!("`{}` is no weight of this layer", target.name))),
        };
    };
    set_next(evaluator, target, path, value)
}

/// Says what a weight is after a step of training.
fn set_next<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    target: &Ident,
    path: &str,
    value: Value<'p, NodeId>,
) -> Lowered<()> {
    if evaluator.target.is_in_scan() {
        let message = format!("`{}` is updated in a `scan`", target.name);
        return Err(
            Diagnostic::error("E0232", target.span, message).help("update it after the loop, from what it carries")
        );
    }
    let known = evaluator.target.network.weights.iter().find(|weight| weight.path == path);
    let Some(ty) = known.map(|weight| weight.ty.clone()) else { return Ok(()) };
    let next = evaluator.typed(value, ty.dtype, target.span)?;
    let found = evaluator.target.graph.shape(next);
    if found != ty.shape {
        let message = format!("`{}` has the shape {:?}, and its next value {found:?}", target.name, ty.shape);
        return Err(Diagnostic::error("E0213", target.span, message));
    }
    evaluator.target.network.updates.insert(path.to_owned(), next);
    Ok(())
}

/// What lowering collects beside the graph.
#[derive(Default)]
pub(super) struct Collected {
    pub weights: Vec<Weight>,
    pub layers: Vec<Layer>,
    pub initial: crate::graph::Graph,
    /// The next values of weights, by path.
    pub updates: std::collections::BTreeMap<String, NodeId>,
    /// The sum of what regularizers say.
    pub penalty: Option<NodeId>,
}

impl Collected {
    /// Makes the network whose graph is `tensors`'.
    pub fn into_network(self, mut graph: crate::graph::Graph) -> Network {
        graph.outputs.extend(self.updates);
        graph.outputs.extend(self.penalty.map(|penalty| (Network::PENALTY.to_owned(), penalty)));
        Network { graph, weights: self.weights, initial: self.initial, layers: self.layers }
    }
}
