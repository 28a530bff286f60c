//! Weights: `param` and `state` statements declare persistent tensors, which are identified by
//! path.

use tile_lang::ast::{self, FunctionKind, Ident, WeightShape};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::call::Argument;
use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target};
use super::frame::Frame;
use super::network::{InputRange, Layer, Network, Role, Weight, WeightKind};
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
            let node =
                if weight.kind == WeightKind::State { left(evaluator, &path, node)? } else { node };
            evaluator.target.imported(node)
        }
        Some(known) => {
            let message = match known.kind == weight.kind {
                true => format!(
                    "`{path}` has the shape {:?} elsewhere, and {shape:?} here",
                    known.ty.shape
                ),
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
    let value = renewed(evaluator, name, &path, node)?;
    scope.weights.insert(&name.name, path);
    scope.names.insert(&name.name, Value::Element(value));
    Ok(())
}

/// Returns the state as an earlier application of the same layer in this step left it, or `node`,
/// its value before the step.
fn left(evaluator: &mut Evaluator<Tensors>, path: &str, node: NodeId) -> Lowered<NodeId> {
    let Some(&next) = evaluator.target.network.updates.get(path) else { return Ok(node) };
    evaluator.target.outermost(|tensors| {
        let ty = tensors.graph.node(next).ty.clone();
        tensors.add(Op::StopGradient, ty, &[next], Span::default())
    })
}

/// Applies `with_weight` and `parametrized` to a weight. Returns the value that the layer sees in
/// place of the weight.
fn renewed<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    name: &'p Ident,
    path: &str,
    node: NodeId,
) -> Lowered<NodeId> {
    let (mut replacing, mut others) = (Vec::new(), Vec::new());
    for (renewal, done) in evaluator.renewals.last_mut().into_iter().flatten() {
        if renewal.names.iter().any(|renewed| **renewed == *name.name) {
            *done = true;
            if renewal.replaces { &mut replacing } else { &mut others }
                .push(renewal.callable.clone());
        }
    }
    let mut value = node;
    if let (false, Some(known)) =
        (replacing.is_empty(), evaluator.target.network.replaced.get(path).copied())
    {
        value = evaluator.target.imported(known);
    } else if !replacing.is_empty() {
        // The optimizer steps from the value that the layer sees, so it must have the weight's
        // type.
        let dtype = evaluator.target.graph.dtype(node);
        for callable in replacing {
            let made = made_of(evaluator, callable, value, name)?;
            value = evaluator.typed(Value::Element(made), dtype, name.span)?;
        }
        if evaluator.training && !evaluator.is_frozen() && !evaluator.stays(path) {
            set_next(evaluator, name, path, Value::Element(value))?;
        }
        if !evaluator.target.is_in_scan() {
            evaluator.target.network.replaced.insert(path.to_owned(), value);
        }
    }
    for callable in others {
        value = made_of(evaluator, callable, value, name)?;
        let dtype = evaluator.target.graph.dtype(value);
        if !dtype.is_float() {
            let message =
                format!("`{}` is made into {dtype}, through which no gradient goes", name.name);
            return Err(Diagnostic::error("E0232", name.span, message)
                .help("`parametrized` takes a function that gives floats"));
        }
    }
    Ok(value)
}

/// Applies a function to a weight, and checks that the shape stays the same.
fn made_of<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    callable: Callable<'p, NodeId>,
    weight: NodeId,
    name: &'p Ident,
) -> Lowered<NodeId> {
    let made = call_on(evaluator, callable, Value::Element(weight), name.span)?;
    let made = evaluator.target.element(made, name.span)?;
    let (wanted, found) =
        (evaluator.target.graph.shape(weight), evaluator.target.graph.shape(made));
    if wanted != found {
        let message =
            format!("`{}` has the shape {wanted:?}, and what is made of it {found:?}", name.name);
        return Err(Diagnostic::error("E0213", name.span, message));
    }
    Ok(made)
}

/// Evaluates the declared shape of a weight. A list among the sizes stands for its items.
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
            value => vec![value].into(),
        };
        for item in items {
            let size = match &item {
                Value::Constant(Constant::Int(value)) => usize::try_from(*value).ok(),
                _ => None,
            };
            shape.push(size.ok_or_else(|| {
                let message = format!(
                    "a size of `{}` must be a number of at least 0, and is {item}",
                    weight.name.name
                );
                Diagnostic::error("E0209", weight.name.span, message)
            })?);
        }
    }
    Ok(shape)
}

/// Adds a weight, its initial value and, if penalties count, its regularizer. Records its
/// constraint.
fn make<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    weight: &'p ast::Weight,
    path: String,
    shape: Vec<usize>,
) -> Lowered<NodeId> {
    let (span, role) = (weight.initializer.span, evaluator.role);
    if weight.kind == WeightKind::Param && matches!(role, Role::Metric | Role::Optimizer) {
        let keeper = if role == Role::Metric { "a metric" } else { "an optimizer" };
        let message = format!("`{path}` is a `param` in {keeper}, which nothing trains");
        return Err(Diagnostic::error("E0232", weight.name.span, message).help(format!(
            "write `state {}`: a state is kept, and changed by `update`",
            weight.name.name
        )));
    }
    let initializer = evaluator.expression(scope, &weight.initializer)?;
    let dtype = first_value(evaluator, scope, &initializer, &path, &shape, span)?;
    let ty = TensorType::new(dtype, shape);
    let node = evaluator
        .target
        .outermost(|tensors| tensors.add(Op::Weight(path.clone()), ty.clone(), &[], span))?;
    evaluator.target.network.weights.push(Weight {
        path: path.clone(),
        ty,
        kind: weight.kind,
        role,
        node,
    });
    // As in Keras, the regularizer of a weight that is not trained adds nothing to the loss.
    let penalises = evaluator.penalises && !evaluator.stays(&path);
    if let (true, Some(regularizer)) = (penalises, &weight.regularizer)
        && let Some(callable) = clause(evaluator, scope, regularizer)?
    {
        let node = evaluator.target.imported(node);
        let penalty = call_on(evaluator, callable, Value::Element(node), regularizer.span)?;
        let penalty = evaluator.target.element(penalty, regularizer.span)?;
        evaluator.target.penalise(penalty, regularizer.span)?;
    }
    if let Some(constraint) = &weight.constraint
        && let Some(callable) = clause(evaluator, scope, constraint)?
    {
        evaluator.constraints.push((path, callable));
    }
    Ok(evaluator.target.imported(node))
}

/// Returns the callable of a regularizer or constraint, or nothing if it is `none`.
fn clause<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    clause: &'p ast::Expr,
) -> Lowered<Option<Callable<'p, NodeId>>> {
    let value = evaluator.expression(scope, clause)?;
    if value.is_symbol("none") {
        return Ok(None);
    }
    evaluator.callable(&value, scope.function, clause.span).map(Some)
}

/// Applies the constraints of trained weights to their next values.
pub(super) fn constrain<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    paths: &[&str],
    span: Span,
) -> Lowered<()> {
    for (path, callable) in std::mem::take(&mut evaluator.constraints) {
        let Some(next) = evaluator.target.network.updates.get(&path).copied() else { continue };
        if paths.contains(&path.as_str()) {
            let name = Ident { name: path.clone(), capital: true, span };
            let value = call_on(evaluator, callable, Value::Element(next), span)?;
            set_next(evaluator, &name, &path, value)?;
        }
    }
    Ok(())
}

/// Calls a function with one argument. Omitted hyper-parameters take their defaults.
fn call_on<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    callable: Callable<'p, NodeId>,
    value: Value<'p, NodeId>,
    span: Span,
) -> Lowered<Value<'p, NodeId>> {
    let callable = match callable {
        Callable::Function(function) => {
            Callable::Instance(super::value::Instance::new(function, Vec::new(), None))
        }
        callable => callable,
    };
    evaluator.apply(&callable, vec![Argument { name: None, value, span }], span)
}

/// Adds the initial value of a weight to the graph of initial values, and returns its type.
fn first_value<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    initializer: &Value<'p, NodeId>,
    path: &str,
    shape: &[usize],
    span: Span,
) -> Lowered<DType> {
    // Its hyper-parameters must not contain tensors of the other graph.
    let initializer = initializer.constant().ok_or_else(|| {
        Diagnostic::error(
            "E0231",
            span,
            "the first value of a weight cannot depend on tensors of a run",
        )
    })?;
    let callable = evaluator.callable(&initializer, scope.function, span)?;
    let outer = evaluator.target.begin_initial();
    evaluator.frames.push(Frame::new(path.to_owned()));
    let sizes = Value::List(shape.iter().map(|&size| Value::int(size)).collect());
    let result = call_on(evaluator, callable, sizes, span)
        .and_then(|value| evaluator.target.element(value, span));
    evaluator.frames.pop();
    let (dtype, found) = match &result {
        Ok(node) => {
            (evaluator.target.graph.dtype(*node), evaluator.target.graph.shape(*node).to_vec())
        }
        Err(_) => (DType::F32, Vec::new()),
    };
    if let Ok(node) = &result {
        evaluator.target.graph.outputs.push((path.to_owned(), *node));
    }
    evaluator.target.end_initial(outer);
    result?;
    if found != shape {
        let message =
            format!("this makes a tensor of the shape {found:?}, and `{path}` has {shape:?}");
        return Err(Diagnostic::error("E0231", span, message));
    }
    Ok(dtype)
}

/// Lowers `update target = value;` in training.
pub(super) fn update<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    target: &Ident,
    value: Value<'p, NodeId>,
) -> Lowered<()> {
    let Some(path) = scope.weights.get(target.name.as_str()) else {
        // A weight that is left out has no next value either.
        return match scope.names.get(target.name.as_str()) {
            Some(Value::Constant(_)) => Ok(()),
            _ => {
                let keeper = match scope.function.kind {
                    FunctionKind::Optimizer => "trained weight",
                    _ => "weight of this layer",
                };
                Err(Diagnostic::error(
                    "E0232",
                    target.span,
                    format!("`{}` is no {keeper}", target.name),
                ))
            }
        };
    };
    // A loss that also serves as a metric updates nothing there.
    let is_kept_by = |role| {
        evaluator
            .target
            .network
            .weights
            .iter()
            .any(|known| known.path == *path && known.role == role)
    };
    if evaluator.role == Role::Metric && !is_kept_by(Role::Metric) {
        return Ok(());
    }
    set_next(evaluator, target, path, value)
}

/// Sets the value of a weight after a training step.
fn set_next<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    target: &Ident,
    path: &str,
    value: Value<'p, NodeId>,
) -> Lowered<()> {
    if evaluator.target.is_in_scan() {
        let message = format!("`{}` is updated in a `scan`", target.name);
        return Err(Diagnostic::error("E0232", target.span, message)
            .help("update it after the loop, from what it carries"));
    }
    let known = evaluator.target.network.weights.iter().find(|weight| weight.path == path);
    let Some(ty) = known.map(|weight| weight.ty.clone()) else { return Ok(()) };
    let next = evaluator.typed(value, ty.dtype, target.span)?;
    let found = evaluator.target.graph.shape(next);
    if found != ty.shape {
        let message =
            format!("`{}` has the shape {:?}, and its next value {found:?}", target.name, ty.shape);
        return Err(Diagnostic::error("E0213", target.span, message));
    }
    evaluator.target.network.updates.insert(path.to_owned(), next);
    Ok(())
}

/// The results of lowering besides the graph.
#[derive(Default)]
pub(super) struct Collected {
    pub weights: Vec<Weight>,
    pub layers: Vec<Layer>,
    pub initial: crate::graph::Graph,
    /// The next values of weights, by path.
    pub updates: std::collections::BTreeMap<String, NodeId>,
    /// The values that replace weights due to `with_weight`, by path.
    pub replaced: std::collections::BTreeMap<String, NodeId>,
    /// The sum of all regularizers and `with_loss` terms.
    pub penalty: Option<NodeId>,
    pub ranges: Vec<InputRange>,
}

impl Collected {
    /// Makes the network with this graph.
    pub fn into_network(self, mut graph: crate::graph::Graph) -> Network {
        graph.outputs.extend(self.updates);
        graph.outputs.extend(self.penalty.map(|penalty| (Network::PENALTY.to_owned(), penalty)));
        let Collected { weights, layers, initial, ranges, .. } = self;
        Network { graph, weights, initial, layers, adapts: Vec::new(), ranges }
    }
}
