//! Lowering of contraction statements.

use tile_lang::ast::{self, Expr, ExprKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::body::{Body, Coordinate, Read};
use super::expression::{Evaluator, Lowered, Target};
use super::indices::{Constraint, Points, Variables, overflow};
use super::scope::Scope;
use super::tensors::Tensors;
use super::value::Value;
use crate::affine::{Affine, RationalAffine};
use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, ContractionLeaf, Index, NodeId, Op, equals};
use crate::scalar::{self, BinaryOp, Program};
use crate::tensor::TensorType;

/// Adds the node of a contraction statement.
pub(super) fn lower<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    contraction: &'p ast::Contraction,
) -> Lowered<NodeId> {
    let span = evaluator.target.span(contraction.output.span);
    let leading = leading(evaluator, scope, &contraction.body).unwrap_or_default();
    // If the output has no `...`, the leading axes are aggregated over.
    let open = contraction.indices.first().is_some_and(|first| first.kind == ExprKind::Ellipsis);
    let mut shape = if open { leading.clone() } else { Vec::new() };
    for size in contraction.sizes.iter().filter(|size| size.kind != ExprKind::Ellipsis) {
        shape.push(evaluator.size(scope, size)?);
    }

    let sizes =
        scope.names.values().map(Value::size).fold(scope.names.len(), usize::saturating_add);
    evaluator.spend(sizes / 2, span)?;
    let constants = scope.constants();
    let graph = std::mem::take(&mut evaluator.target.graph);
    let inside = evaluator.within(Body::new(&graph, scope, leading), |inside| {
        let output = inside.coordinates(&constants, &contraction.indices)?;
        let value = inside.aggregated(&constants, &contraction.body)?;
        let mut constraints = Vec::new();
        for constraint in &contraction.constraints {
            let polynomial = inside.polynomial(&constants, &constraint.poly)?;
            let bound = inside.integer(&constants, &constraint.bound, "a bound")?;
            constraints.push(
                Constraint::new(polynomial, bound).ok_or_else(|| overflow(constraint.span()))?,
            );
        }
        Ok((output, value, constraints))
    });
    let inside = inside.map(|(Body { program, operands, reads, variables, .. }, found)| {
        (program, operands, reads, variables, found)
    });
    evaluator.target.graph = graph;
    let (mut program, mut operands, mut reads, mut variables, (output, mut value, constraints)) =
        inside?;

    let (places, mut matches) = places(output, &mut variables, span);
    if contraction.aggregation == ast::Aggregation::Assign && !matches.is_empty() {
        return Err(written_at_run_time(&contraction.output.name, span));
    }
    let shape_of = |read: &Read| evaluator.target.graph.shape(operands[read.operand]);
    let indices = bounded(&places, &shape, &reads, shape_of);
    let points = Points::new(&variables, &indices, &constraints, &evaluator.budget, span)?;
    if points.is_empty() && reads.iter().any(|read| has_nothing(read, shape_of(read))) {
        // Nothing is read, so that tensors without elements are as good as others.
        let zero = Scalar::zero(program.dtype(value));
        (program, operands, reads, matches) = Default::default();
        value = program.constant(zero);
    }
    let output = places.iter().map(|place| points.affine(place)).collect::<Lowered<Vec<_>>>()?;
    let (rank, aggregation) = (rank(contraction, &output), aggregation(contraction.aggregation));
    rank.map_or(Ok(()), |rank| told_apart(rank, &output, &points, span))?;
    if aggregation == Aggregation::Assign {
        points.written_once(&output, &contraction.output.name)?;
    }
    let types: Vec<DType> =
        reads.iter().map(|read| evaluator.target.graph.dtype(operands[read.operand])).collect();
    let valid = matching(&mut program, &matches, &types);
    program.results = [Some(value), valid].into_iter().flatten().collect();
    let shape_of = |read: &Read| evaluator.target.graph.shape(operands[read.operand]);
    let accesses = reads.iter().map(|read| access(read, shape_of(read), &points, span));
    let accesses = accesses.collect::<Lowered<Vec<Access>>>()?;
    let dtype = result_type(aggregation, program.dtype(value));
    operands.extend(default(evaluator, scope, contraction, dtype, &shape)?);
    let op = Op::Contraction(Box::new(Contraction {
        aggregation,
        rank,
        indices: points.index_ranges()?,
        output,
        accesses,
        constraints: points.constraints(&constraints)?,
        body: program,
        default: contraction.default.is_some(),
    }));
    evaluator.target.add(op, TensorType::new(dtype, shape), &operands, span)
}

/// Returns the type of a contraction that aggregates values of type `dtype`.
fn result_type(aggregation: Aggregation, dtype: DType) -> DType {
    match aggregation {
        Aggregation::ArgMax | Aggregation::ArgMin => DType::I32,
        _ => dtype,
    }
}

/// Returns the error of an assignment to places that run-time indices select.
fn written_at_run_time(output: &str, span: Span) -> Diagnostic {
    let message =
        format!("it cannot be shown that `=` writes each place of `{output}` at most once");
    Diagnostic::error("E0217", span, message)
        .help("add up with `+`: the places are known only at run time")
}

/// Returns the places that a contraction writes. A run-time index becomes a variable over the whole
/// axis, and the body is masked to the points at which the two are equal: returns the number of
/// each such read with its variable, too.
fn places(
    output: Vec<Coordinate>,
    variables: &mut Variables,
    span: Span,
) -> (Vec<RationalAffine>, Vec<(usize, usize)>) {
    let mut matches = Vec::new();
    let places = output.into_iter().map(|coordinate| match coordinate {
        Coordinate::Affine(affine) => affine,
        Coordinate::Access(read) => {
            let variable = variables.number(&format!("place{}", matches.len()), span, true);
            matches.push((read, variable));
            Affine::var(variable).into()
        }
    });
    (places.collect(), matches)
}

/// Returns every index that is known at compile time, with the size of its axis.
fn bounded<'a>(
    places: &'a [RationalAffine],
    shape: &[usize],
    reads: &'a [Read],
    sizes: impl Fn(&Read) -> &'a [usize],
) -> Vec<(&'a RationalAffine, usize)> {
    let mut indices: Vec<(&RationalAffine, usize)> =
        places.iter().zip(shape.iter().copied()).collect();
    for read in reads {
        indices.extend(read.index.iter().zip(sizes(read)).filter_map(|(coordinate, &size)| {
            match coordinate {
                Coordinate::Affine(affine) => Some((affine, size)),
                Coordinate::Access(_) => None,
            }
        }));
    }
    indices
}

/// Adds the condition that each read equals its variable. `types` are those of the reads.
fn matching(
    program: &mut Program<ContractionLeaf>,
    matches: &[(usize, usize)],
    types: &[DType],
) -> Option<scalar::Value> {
    let mut valid = None;
    for &(read, variable) in matches {
        let equal = equals(program, read, types[read], &Affine::var(variable));
        valid = Some(valid.map_or(equal, |before| program.binary(BinaryOp::BitAnd, before, equal)));
    }
    valid
}

/// Returns whether an index that is known at run time is along an axis without elements.
fn has_nothing(read: &Read, shape: &[usize]) -> bool {
    let is_empty = |(coordinate, size): (&Coordinate, &usize)| {
        matches!(coordinate, Coordinate::Access(_)) && *size == 0
    };
    read.index.iter().zip(shape).any(is_empty)
}

/// Returns the access to a tensor with this shape that a read becomes.
fn access(read: &Read, shape: &[usize], points: &Points, span: Span) -> Lowered<Access> {
    let index = read.index.iter().map(|coordinate| match coordinate {
        Coordinate::Affine(affine) => Ok(Index { affine: points.affine(affine)?, access: None }),
        Coordinate::Access(access) => {
            Ok(Index { affine: Affine::constant(0), access: Some(*access) })
        }
    });
    if has_nothing(read, shape) {
        return Err(nothing_to_read(span, shape));
    }
    Ok(Access { operand: read.operand, index: index.collect::<Lowered<_>>()? })
}

/// Returns the sizes that `...` stands for, from the first access in the body that has it.
fn leading<'p>(
    evaluator: &Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    expr: &Expr,
) -> Option<Vec<usize>> {
    let first = |parts: &[&Expr]| parts.iter().find_map(|part| leading(evaluator, scope, part));
    match &expr.kind {
        ExprKind::Access { tensor, indices } => {
            if indices.first()?.kind != ExprKind::Ellipsis {
                return first(&indices.iter().collect::<Vec<_>>());
            }
            let Value::Element(node) = scope.lookup(&tensor.name)? else { return None };
            let shape = evaluator.target.graph.shape(node);
            Some(shape.get(..(shape.len() + 1).checked_sub(indices.len())?)?.to_vec())
        }
        ExprKind::Call { arguments, .. } => {
            first(&arguments.iter().map(|argument| &argument.value).collect::<Vec<_>>())
        }
        ExprKind::List(items) => first(&items.iter().collect::<Vec<_>>()),
        ExprKind::Pipe { input, callee } => first(&[input, callee]),
        ExprKind::Unary { operand, .. } => first(&[operand]),
        ExprKind::Binary { left, right, .. } => first(&[left, right]),
        ExprKind::Conditional { condition, then, otherwise } => {
            first(&[condition, then]).or_else(|| first(&[otherwise.as_deref()?]))
        }
        ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_)
        | ExprKind::Ellipsis
        | ExprKind::Error => None,
    }
}

/// Returns the default tensor, cast to the type of the contraction.
fn default<'p>(
    evaluator: &mut Evaluator<'p, Tensors>,
    scope: &Scope<'p, NodeId>,
    contraction: &'p ast::Contraction,
    dtype: DType,
    shape: &[usize],
) -> Lowered<Option<NodeId>> {
    let Some(name) = &contraction.default else { return Ok(None) };
    let value = scope.lookup(&name.name).map_or_else(|| evaluator.target.outer(name), Ok)?;
    let tensor = evaluator.typed(value, dtype, name.span)?;
    let found = evaluator.target.graph.shape(tensor);
    if found != shape {
        let message = format!(
            "the default `{}` has the shape {found:?}, and the output {shape:?}",
            name.name
        );
        return Err(Diagnostic::error("E0213", name.span, message)
            .also(contraction.output.span, "the output"));
    }
    Ok(Some(tensor))
}

/// Checks that the places and positions of a contraction with this rank tell its points apart:
/// otherwise a value at several places would have several positions of one number.
fn told_apart(rank: usize, output: &[Affine], points: &Points, span: Span) -> Lowered<()> {
    let is_told = |variable: usize| output.iter().any(|place| place.coefficient(variable) != 0);
    let others = (0..points.count()).filter(|variable| !is_told(*variable)).map(Affine::var);
    let places: Vec<Affine> = output.iter().cloned().chain(others).collect();
    if rank < points.count() && points.written_once(&places, "").is_ok() {
        return Ok(());
    }
    let message = "with a rank, the indices of the output must tell the points of each row apart";
    Err(Diagnostic::error("E0246", span, message).help(
        "write plain index variables in the output, as in `Best[n, k: N, 5] = argmax[k](X[n, c])`",
    ))
}

/// Returns the variable that is the rank; `output` has the coordinates of all leading axes, too.
fn rank(contraction: &ast::Contraction, output: &[Affine]) -> Option<usize> {
    let rank = contraction.rank.as_ref()?;
    let is_rank =
        |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if name.name == rank.name);
    let from_end = contraction.indices.iter().rev().position(is_rank)?;
    output.iter().nth_back(from_end)?.as_variable()
}

fn aggregation(aggregation: ast::Aggregation) -> Aggregation {
    match aggregation {
        ast::Aggregation::Sum => Aggregation::Sum,
        ast::Aggregation::Product => Aggregation::Product,
        ast::Aggregation::Max => Aggregation::Max,
        ast::Aggregation::Min => Aggregation::Min,
        ast::Aggregation::Assign => Aggregation::Assign,
        ast::Aggregation::ArgMax => Aggregation::ArgMax,
        ast::Aggregation::ArgMin => Aggregation::ArgMin,
    }
}

/// Returns the error for an access to an empty tensor.
pub(super) fn nothing_to_read(span: Span, shape: &[usize]) -> Diagnostic {
    let message = format!(
        "an index that is known at run time reads a tensor of the shape {shape:?}, which has nothing to read"
    );
    Diagnostic::error("E0235", span, message)
}
