//! `scan`: a run-time loop. Its body becomes a graph of its own, and outer values that the body
//! reads are captured as inputs.
//!
//! The carries are the outer names that the body assigns; their values are tensors or lists of
//! tensors. While the body is lowered, [`Tensors::graph`] is the body's graph. Captures that turn
//! out unused are removed again.

use tile_lang::ast::{self, Ident, Statement, StatementKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target};
use super::scope::Scope;
use super::tensors::Tensors;
use super::value::Value;
use crate::graph::{Graph, NodeId, Scan};
use crate::tensor::TensorType;

/// A tensor that the loop iterates over, one slice a step.
struct Sequence<'p> {
    variable: &'p Ident,
    node: NodeId,
    axis: usize,
}

impl Sequence<'_> {
    /// Returns the type of what a step reads: the sequence without its axis.
    fn slice(&self, graph: &Graph) -> TensorType {
        let mut ty = graph.node(self.node).ty.clone();
        ty.shape.remove(self.axis);
        ty
    }
}

/// A name whose value is passed from each step to the next.
struct Carry<'p> {
    name: &'p Ident,
    /// The value before the first step: a tensor, or a nested list of tensors.
    first: Value<'p, NodeId>,
}

/// A tensor that a step takes or returns: the name, the label in the graph (with the position in a
/// list), and the node.
struct Leaf<'p> {
    name: &'p Ident,
    label: String,
    node: NodeId,
}

pub(super) fn scan<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &mut Scope<'p, NodeId>,
    sequences: &'p [ast::Sequence],
    body: &'p [Statement],
    span: Span,
) -> Lowered<()> {
    let (sequences, length) = self::sequences(evaluator, scope, sequences)?;
    let mut carried = Vec::new();
    assigned(body, scope, &mut carried);
    let carries = carried.into_iter().map(|name| {
        let value = scope.names.get(name.name.as_str());
        Ok(Carry { name, first: first_value(evaluator, name, value)? })
    });
    let carries = carries.collect::<Lowered<Vec<Carry>>>()?;
    let first: Vec<Leaf> =
        carries.iter().flat_map(|carry| leaves(carry.name, &carry.first)).collect();
    let graph = &evaluator.target.graph;
    let types: Vec<TensorType> =
        first.iter().map(|leaf| graph.node(leaf.node).ty.clone()).collect();
    let slices: Vec<(&'p Ident, TensorType)> =
        sequences.iter().map(|sequence| (sequence.variable, sequence.slice(graph))).collect();

    evaluator.target.begin_scan();
    let slices =
        slices.into_iter().map(|(name, ty)| (name, evaluator.target.step_input(&name.name, ty)));
    let slices: Vec<(&'p Ident, NodeId)> = slices.collect();
    let given = first
        .iter()
        .zip(&types)
        .map(|(leaf, ty)| evaluator.target.step_input(&leaf.label, ty.clone()));
    let given: Vec<NodeId> = given.collect();
    let mut inside = scope.map(|value| evaluator.target.capture(value));
    for (name, node) in slices {
        inside.names.insert(&name.name, Value::Element(node));
    }
    replace(&mut inside, &carries, given);
    evaluator.yields.push(Vec::new());
    let ran = evaluator.run(&mut inside, body);
    let yielded = evaluator.yields.pop().unwrap_or_default();
    let outputs = ran.and_then(|()| outputs(evaluator, &inside, &carries, &types, yielded));
    let outputs = match outputs {
        Ok(outputs) => outputs,
        Err(error) => {
            evaluator.target.end_scan(Vec::new());
            return Err(error);
        }
    };
    let names: Vec<(&'p Ident, String)> =
        outputs.iter().map(|leaf| (leaf.name, leaf.label.clone())).collect();
    let axes = stacking_axes(evaluator, &sequences, &outputs[first.len()..]);
    let outputs = outputs.into_iter().map(|leaf| (leaf.label, leaf.node)).collect();
    let (body, captures) = evaluator.target.end_scan(outputs);
    let yields = axes?;
    if names.is_empty() {
        let error = Diagnostic::error("E0229", span, "this `scan` has no result");
        return Err(error.help("assign a name from before the loop, or `yield All = …;`"));
    }

    let first: Vec<NodeId> = first.iter().map(|leaf| leaf.node).collect();
    let count = first.len();
    let operands: Vec<NodeId> =
        sequences.iter().map(|s| s.node).chain(first).chain(captures).collect();
    let sequences = sequences.iter().map(|sequence| sequence.axis).collect();
    let scan = Scan { length, sequences, carries: count, yields, body };
    let mut results = evaluator.target.graph.add_scan(scan, &operands);
    for ((_, label), result) in names.iter().zip(&results) {
        let node = evaluator.target.graph.node_mut(*result);
        (node.name, node.span) = (Some(label.clone()), Some(span));
    }
    for ((name, _), result) in names.iter().zip(&results).skip(count) {
        scope.weights.remove(name.name.as_str());
        scope.names.insert(&name.name, Value::Element(*result));
    }
    results.truncate(count);
    replace(scope, &carries, results);
    Ok(())
}

/// Returns the axis along which each yielded value is stacked: that of the first sequence.
fn stacking_axes(
    evaluator: &Evaluator<Tensors>,
    sequences: &[Sequence],
    yielded: &[Leaf],
) -> Lowered<Vec<usize>> {
    let axes = yielded.iter().map(|Leaf { name, node, .. }| {
        let axis = sequences.first().map_or(0, |sequence| sequence.axis);
        let rank = evaluator.target.graph.shape(*node).len();
        if axis <= rank {
            return Ok(axis);
        }
        let message =
            format!("`{}` has {rank} axes, so it cannot be stacked along axis {axis}", name.name);
        Err(Diagnostic::error("E0229", name.span, message))
    });
    axes.collect()
}

/// Returns the tensors in a value, in order.
fn leaves<'p>(name: &'p Ident, value: &Value<'p, NodeId>) -> Vec<Leaf<'p>> {
    fn add<'p>(
        name: &'p Ident,
        label: String,
        value: &Value<'p, NodeId>,
        found: &mut Vec<Leaf<'p>>,
    ) {
        match value {
            Value::Element(node) => found.push(Leaf { name, label, node: *node }),
            Value::List(items) => {
                let items = items.iter().enumerate();
                items
                    .for_each(|(number, item)| add(name, format!("{label}.{number}"), item, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    add(name, name.name.clone(), value, &mut found);
    found
}

/// Rebinds the carried names to other tensors, in the order of [`leaves`].
fn replace<'p>(scope: &mut Scope<'p, NodeId>, carries: &[Carry<'p>], nodes: Vec<NodeId>) {
    fn filled<'p>(
        like: &Value<'p, NodeId>,
        nodes: &mut impl Iterator<Item = NodeId>,
    ) -> Value<'p, NodeId> {
        match like {
            Value::Element(node) => Value::Element(nodes.next().unwrap_or(*node)),
            Value::List(items) => {
                Value::List(items.iter().map(|item| filled(item, nodes)).collect())
            }
            value => value.clone(),
        }
    }
    let mut nodes = nodes.into_iter();
    for Carry { name, first } in carries {
        scope.weights.remove(name.name.as_str());
        scope.names.insert(&name.name, filled(first, &mut nodes));
    }
}

/// Returns the tensors that the loop iterates over, and the number of steps.
fn sequences<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    sequences: &'p [ast::Sequence],
) -> Lowered<(Vec<Sequence<'p>>, usize)> {
    let mut found: Vec<Sequence> = Vec::with_capacity(sequences.len());
    let mut length = None;
    for ast::Sequence { variable, tensor, axis } in sequences {
        let value = evaluator.expression(scope, tensor)?;
        let node = evaluator.target.element(value, tensor.span)?;
        let shape = evaluator.target.graph.shape(node).to_vec();
        let number = evaluator.integer(scope, axis, "an axis")?;
        let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
        let counted = if number < 0 { number.saturating_add(rank) } else { number };
        let Some((axis, &size)) =
            usize::try_from(counted).ok().and_then(|axis| Some((axis, shape.get(axis)?)))
        else {
            let message = format!("there is no axis {number} in the shape {shape:?}");
            return Err(Diagnostic::error("E0229", axis.span, message));
        };
        if let Some(before) = length.filter(|before| *before != size) {
            let message = format!("this has {size} steps, and the first sequence {before}");
            return Err(Diagnostic::error("E0229", tensor.span, message));
        }
        length = Some(size);
        found.push(Sequence { variable, node, axis });
    }
    Ok((found, length.unwrap_or(0)))
}

/// Collects the names of the scope that the statements assign, in order.
fn assigned<'p>(
    statements: &'p [Statement],
    scope: &Scope<'p, NodeId>,
    names: &mut Vec<&'p Ident>,
) {
    for statement in statements {
        let targets: &[Ident] = match &statement.kind {
            StatementKind::Assign { targets, .. } => targets,
            StatementKind::Contraction(contraction) => std::slice::from_ref(&contraction.output),
            StatementKind::For { body, .. } | StatementKind::Scan { body, .. } => {
                assigned(body, scope, names);
                continue;
            }
            StatementKind::If { then, otherwise, .. } => {
                assigned(then, scope, names);
                assigned(otherwise, scope, names);
                continue;
            }
            _ => continue,
        };
        for target in targets {
            let known = scope.names.contains_key(target.name.as_str());
            if target.capital && known && !names.iter().any(|name| name.name == target.name) {
                names.push(target);
            }
        }
    }
}

/// Returns the initial value of a carry, with each number converted to a tensor.
fn first_value<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    name: &Ident,
    value: Option<&Value<'p, NodeId>>,
) -> Lowered<Value<'p, NodeId>> {
    match value {
        Some(Value::List(items)) if !items.is_empty() => {
            let items = items.iter().map(|item| first_value(evaluator, name, Some(item)));
            Ok(Value::List(items.collect::<Lowered<_>>()?))
        }
        Some(value @ (Value::Element(_) | Value::Constant(_))) => {
            Ok(Value::Element(evaluator.target.element(value.clone(), name.span)?))
        }
        other => {
            let kind = other.map_or("nothing", Value::kind);
            let message =
                format!("`{}` is carried from step to step, and is {kind} before", name.name);
            Err(Diagnostic::error("E0229", name.span, message)
                .help("what is carried is a tensor, or a list of tensors"))
        }
    }
}

/// Returns the outputs of a step: the next value of each carry, cast to the carry's type, then the
/// yielded values.
fn outputs<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    carries: &[Carry<'p>],
    types: &[TensorType],
    yielded: Vec<(&'p Ident, Value<'p, NodeId>)>,
) -> Lowered<Vec<Leaf<'p>>> {
    let mut outputs: Vec<Leaf<'p>> = Vec::with_capacity(types.len() + yielded.len());
    let mut types = types.iter();
    for Carry { name, first } in carries {
        let value = scope
            .names
            .get(name.name.as_str())
            .cloned()
            .unwrap_or(Value::Constant(Constant::Int(0)));
        next_value(evaluator, name, name.name.clone(), first, value, &mut types, &mut outputs)?;
    }
    for (name, value) in yielded {
        if outputs.iter().any(|known| known.name.name == name.name) {
            let message = format!("`{}` is yielded twice, or carried, too", name.name);
            return Err(Diagnostic::error("E0229", name.span, message));
        }
        let node = evaluator.target.element(value, name.span)?;
        outputs.push(Leaf { name, label: name.name.clone(), node });
    }
    Ok(outputs)
}

/// Adds the tensors of a carry after a step. Types, shapes and list structure must match those of
/// `first`.
fn next_value<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    name: &'p Ident,
    label: String,
    first: &Value<'p, NodeId>,
    value: Value<'p, NodeId>,
    types: &mut std::slice::Iter<'_, TensorType>,
    outputs: &mut Vec<Leaf<'p>>,
) -> Lowered<()> {
    match (first, value) {
        (Value::List(before), Value::List(after)) if before.len() == after.len() => {
            for (number, (first, value)) in before.iter().zip(after).enumerate() {
                next_value(
                    evaluator,
                    name,
                    format!("{label}.{number}"),
                    first,
                    value,
                    types,
                    outputs,
                )?;
            }
        }
        (Value::List(before), after) => {
            let after = match after {
                Value::List(items) => format!("a list of {}", items.len()),
                after => after.kind().to_owned(),
            };
            let message = format!(
                "`{}` is a list of {} before the loop, and {after} after a step",
                name.name,
                before.len()
            );
            return Err(Diagnostic::error("E0229", name.span, message));
        }
        (_, value) => {
            let Some(ty) = types.next() else { return Ok(()) };
            let is_float = match &value {
                Value::Element(node) => evaluator.target.graph.dtype(*node).is_float(),
                Value::Constant(constant) => constant.scalar().dtype.is_float(),
                Value::List(_) | Value::Symbol(_) | Value::Callable(_) => false,
            };
            if is_float && !ty.dtype.is_float() {
                let message = format!(
                    "`{}` is {} before the loop, and a float after a step",
                    name.name, ty.dtype
                );
                return Err(Diagnostic::error("E0229", name.span, message)
                    .help("what is carried keeps its type; begin with `0.0` for a float"));
            }
            let node = evaluator.typed(value, ty.dtype, name.span)?;
            let shape = evaluator.target.graph.shape(node);
            if shape != ty.shape {
                let message = format!(
                    "`{}` has the shape {:?} before the loop, and {shape:?} after a step",
                    name.name, ty.shape
                );
                return Err(Diagnostic::error("E0229", name.span, message)
                    .help("what is carried keeps its shape; `fill(shape, 0.0)` makes a tensor to begin with"));
            }
            outputs.push(Leaf { name, label, node });
        }
    }
    Ok(())
}
