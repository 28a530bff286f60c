//! `scan`: a loop at run time. Its body becomes a graph of its own, into which what it reads of outside is captured.
//!
//! Names of outside that the body assigns are the carries. While the body is lowered, [`Tensors::graph`] is the body's;
//! what was captured and is not read is left out again.

use tile_lang::ast::{self, Ident, Statement, StatementKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::constant::Constant;
use super::expression::{Evaluator, Lowered, Target};
use super::scope::Scope;
use super::tensors::Tensors;
use super::value::Value;
use crate::graph::{NodeId, Scan};
use crate::tensor::TensorType;

/// What goes step by step through a loop.
struct Sequence<'p> {
    variable: &'p Ident,
    node: NodeId,
    axis: usize,
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
    let mut first = Vec::with_capacity(carried.len());
    for name in &carried {
        first.push(first_value(evaluator, scope, name)?);
    }
    let graph = &evaluator.target.graph;
    let slices = sequences.iter().map(|sequence| {
        let mut ty = graph.node(sequence.node).ty.clone();
        ty.shape.remove(sequence.axis);
        (sequence.variable, ty)
    });
    let carries = carried.iter().zip(&first).map(|(name, id)| (*name, graph.node(*id).ty.clone()));
    let steps: Vec<(&'p Ident, TensorType)> = slices.chain(carries).collect();

    evaluator.target.begin_scan();
    let given: Vec<NodeId> =
        steps.iter().map(|(name, ty)| evaluator.target.step_input(&name.name, ty.clone())).collect();
    let mut inside = scope.map(|value| evaluator.target.capture(value));
    for ((name, _), node) in steps.iter().zip(given) {
        inside.names.insert(&name.name, Value::Element(node));
    }
    evaluator.yields.push(Vec::new());
    let ran = evaluator.run(&mut inside, body);
    let yielded = evaluator.yields.pop().unwrap_or_default();
    let outputs = ran.and_then(|()| outputs(evaluator, &inside, &steps[sequences.len()..], yielded));
    let outputs = match outputs {
        Ok(outputs) => outputs,
        Err(error) => {
            evaluator.target.end_scan(Vec::new());
            return Err(error);
        }
    };
    let names: Vec<&'p Ident> = outputs.iter().map(|(name, _)| *name).collect();
    let axes = outputs[carried.len()..].iter().map(|(name, node)| {
        let axis = sequences.first().map_or(0, |sequence| sequence.axis);
        let rank = evaluator.target.graph.shape(*node).len();
        if axis <= rank {
            return Ok(axis);
        }
        let message = format!("`{}` has {rank} axes, so it cannot be stacked along axis {axis}", name.name);
        Err(Diagnostic::error("E0229", name.span, message))
    });
    let axes = axes.collect::<Lowered<Vec<usize>>>();
    let outputs = outputs.iter().map(|(name, node)| (name.name.clone(), *node)).collect();
    let (body, captures) = evaluator.target.end_scan(outputs);
    let yields = axes?;
    if names.is_empty() {
        let error = Diagnostic::error("E0229", span, "this `scan` has no result");
        return Err(error.help("assign a name from before the loop, or `yield All = …;`"));
    }

    let operands: Vec<NodeId> = sequences.iter().map(|s| s.node).chain(first).chain(captures).collect();
    let sequences = sequences.iter().map(|sequence| sequence.axis).collect();
    let scan = Scan { length, sequences, carries: carried.len(), yields, body };
    let results = evaluator.target.graph.add_scan(scan, &operands);
    for (name, result) in names.into_iter().zip(results) {
        let node = evaluator.target.graph.node_mut(result);
        (node.name, node.span) = (Some(name.name.clone()), Some(span));
        scope.weights.remove(name.name.as_str());
        scope.names.insert(&name.name, Value::Element(result));
    }
    Ok(())
}

/// The tensors that the loop goes through, and how many steps that are.
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
        let Some((axis, &size)) = usize::try_from(counted).ok().and_then(|axis| Some((axis, shape.get(axis)?))) else {
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

/// The names of the scope that statements assign, in order.
fn assigned<'p>(statements: &'p [Statement], scope: &Scope<'p, NodeId>, names: &mut Vec<&'p Ident>) {
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

/// What a carry is before the first step.
fn first_value<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    name: &'p Ident,
) -> Lowered<NodeId> {
    match scope.names.get(name.name.as_str()) {
        Some(value @ (Value::Element(_) | Value::Constant(_))) => evaluator.target.element(value.clone(), name.span),
        other => {
            let kind = other.map_or("nothing", Value::kind);
            let message = format!("`{}` is carried from step to step, and is {kind} before", name.name);
            Err(Diagnostic::error("E0229", name.span, message).help("what is carried is a tensor"))
        }
    }
}

/// What a step gives: the next value of each carry, in the type that it had, then what is yielded.
fn outputs<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    carries: &[(&'p Ident, TensorType)],
    yielded: Vec<(&'p Ident, Value<'p, NodeId>)>,
) -> Lowered<Vec<(&'p Ident, NodeId)>> {
    let mut outputs: Vec<(&'p Ident, NodeId)> = Vec::with_capacity(carries.len() + yielded.len());
    for (name, ty) in carries {
        let value = scope.names.get(name.name.as_str()).cloned().unwrap_or(Value::Constant(Constant::Int(0)));
        let node = evaluator.typed(value, ty.dtype, name.span)?;
        let shape = evaluator.target.graph.shape(node);
        if shape != ty.shape {
            let message =
                format!("`{}` has the shape {:?} before the loop, and {shape:?} after a step", name.name, ty.shape);
            return Err(Diagnostic::error("E0229", name.span, message)
                .help("what is carried keeps its shape; `fill(shape, 0.0)` makes a tensor to begin with"));
        }
        outputs.push((name, node));
    }
    for (name, value) in yielded {
        if outputs.iter().any(|(known, _)| known.name == name.name) {
            let message = format!("`{}` is yielded twice, or carried, too", name.name);
            return Err(Diagnostic::error("E0229", name.span, message));
        }
        outputs.push((name, evaluator.target.element(value, name.span)?));
    }
    Ok(outputs)
}
