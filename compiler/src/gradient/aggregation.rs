//! The share of a place's gradient that each point gets, by aggregation:
//!
//! - Sum and `=`: each point gets all of it.
//! - Product: the gradient times the product of the place's other points. Zeros need no special
//!   case, because nothing is divided. The number of multiplications is the number of pairs of
//!   points.
//! - Maximum or minimum over whole axes (`>(X[i, j])` for each i): the points with the extreme
//!   value share evenly, as in PyTorch's `amax`, Keras and JAX.
//! - Maximum or minimum over windows, as in pooling: the first point with the extreme value, in the
//!   window's row-major order, gets all of it. Windows are recognized by an index that mixes a
//!   variable of the place with a reduced one, such as `2*i + j` in `>(X[2*i + j])`: the windows of
//!   the places then adjoin or overlap.

use super::contraction::{Points, read};
use super::prune::prune;
use super::rules::Algebra;
use super::tensors::Tensors;
use crate::affine::{Affine, Ranges, hermite, ranges};
use crate::dtype::{DType, Scalar};
use crate::graph::{
    Aggregation, Contraction, ContractionLeaf, Graph, Index, IndexRange, NodeId, Op,
};
use crate::scalar::{BinaryOp, Inst, Program, Value};
use crate::tensor::TensorType;

/// The factor of a place's gradient at each point of the place.
pub(super) enum Share {
    /// The factor is 1.
    All,
    /// The factor is the product of the other points: a tensor over the points, whose axes start at
    /// each variable's first value.
    Others(NodeId),
    /// The factor is 1 if `number`, the point's number among those of its place, equals the place's
    /// element of `position`; else 0.
    First { position: NodeId, number: Affine },
    /// The factor is 1 if the point has the place's value, else 0. It applies to this tensor: the
    /// gradient of the places, divided by the number of such points.
    Ties(NodeId),
}

/// Returns the share of each point. `g` is the gradient of the contraction. Returns `None` on
/// overflow.
pub(super) fn share(graph: &mut Graph, points: &Points, g: NodeId) -> Option<Share> {
    let op = points.op;
    // Substitute variables that have only one value.
    let moving = |v: usize| op.indices[v].varies();
    let fixed =
        |v: usize| if moving(v) { Affine::var(v) } else { Affine::constant(op.indices[v].low) };
    let fixed: Vec<Affine> = (0..op.indices.len()).map(fixed).collect();
    let output = op.output.iter().map(|o| o.substitute_all(&fixed)).collect::<Option<Vec<_>>>()?;
    let rank = hermite(&output, &vec![1; op.indices.len()])?.rank;
    let mentioned = |v: usize| output.iter().any(|affine| affine.coefficient(v) != 0);
    if rank == (0..op.indices.len()).filter(|&v| moving(v)).count() {
        return Some(Share::All);
    }
    Some(match op.aggregation {
        Aggregation::Sum | Aggregation::Assign | Aggregation::ArgMax | Aggregation::ArgMin => {
            Share::All
        }
        Aggregation::Product => Share::Others(others(graph, points)?),
        Aggregation::Max | Aggregation::Min => {
            let mixes = |index: &Index| {
                let variables = || index.affine.variables().filter(|&v| moving(v));
                variables().any(mentioned) && variables().any(|v| !mentioned(v))
            };
            let windows = op.accesses.iter().any(|access| access.index.iter().any(mixes));
            // A place then has one value of each variable that it mentions.
            let separate =
                rank == (0..op.indices.len()).filter(|&v| moving(v) && mentioned(v)).count();
            match numbers(op).filter(|_| windows && separate) {
                Some(number) => Share::First { position: first(graph, points)?, number },
                None => Share::Ties(ties(graph, points, g)?),
            }
        }
    })
}

/// Returns a point's number among those of its place, counted as argmax and argmin do. `None` if it
/// does not fit an i32.
fn numbers(op: &Contraction) -> Option<Affine> {
    let mut number = Affine::constant(0);
    let mut stride = 1i64;
    for (v, index) in op.indices.iter().enumerate().rev() {
        if op.output.iter().all(|affine| affine.coefficient(v) == 0) {
            number =
                number.add(&Affine::new([(v, 1)], index.low.checked_neg()?)?.scale(stride)?)?;
            stride = stride.checked_mul(index.high.checked_sub(index.low)?)?;
        }
    }
    i32::try_from(stride).ok().map(|_| number)
}

/// Returns the number of the first point with the extreme value of each place.
fn first(graph: &mut Graph, points: &Points) -> Option<NodeId> {
    let aggregation = if points.op.aggregation == Aggregation::Max {
        Aggregation::ArgMax
    } else {
        Aggregation::ArgMin
    };
    let op = Contraction { aggregation, default: false, ..points.op.clone() };
    let ty = TensorType::new(DType::I32, graph.shape(points.id));
    let (op, operands) = prune(graph, op, &ty.shape, points.tensors(), None)?;
    Some(Tensors::new(graph, points.id).add(Op::Contraction(Box::new(op)), ty, &operands))
}

/// Returns the gradient divided by the number of points that have the place's value. 16-bit types
/// cannot represent every number of points, so both are computed in f32 for them.
fn ties(graph: &mut Graph, points: &Points, g: NodeId) -> Option<NodeId> {
    let ty = graph.node(points.id).ty.clone();
    let mut op = Contraction { aggregation: Aggregation::Sum, default: false, ..points.op.clone() };
    let mut operands = points.tensors().to_vec();
    let best = read(&mut op, &mut operands, points.id, &points.op.output);
    let best = op.body.push(Inst::Leaf(ContractionLeaf::Access(best)), ty.dtype);
    let among = op.body.binary(BinaryOp::Eq, op.body.results[0], best);
    let wide =
        TensorType::new(if ty.dtype.size() == 2 { DType::F32 } else { ty.dtype }, &*ty.shape);
    let (one, zero) =
        (op.body.constant(Scalar::one(wide.dtype)), op.body.constant(Scalar::zero(wide.dtype)));
    op.body.results[0] = op.body.select(among, one, zero);
    let (op, operands) = prune(graph, op, &ty.shape, &operands, None)?;
    let mut tensors = Tensors::new(graph, points.id);
    let count = tensors.add(Op::Contraction(Box::new(op)), wide.clone(), &operands);
    // If no point has the value, because all are NaN or there are none, the quotient is not read,
    // but may be multiplied by 0.
    let one = tensors.number(count, 1.0);
    let count = tensors.binary(BinaryOp::Max, count, one);
    if wide.dtype == ty.dtype {
        return Some(tensors.binary(BinaryOp::Div, g, count));
    }
    let g = tensors.add(Op::Cast, wide, &[g]);
    let shared = tensors.binary(BinaryOp::Div, g, count);
    Some(tensors.add(Op::Cast, ty, &[shared]))
}

/// Returns the body of a contraction at other points: their indices are `others`. A point counts
/// only if one of the `pairs` of variables differs.
fn body_of_others(
    body: &Program<ContractionLeaf>,
    others: &[Affine],
    pairs: &[[usize; 2]],
) -> Option<Program<ContractionLeaf>> {
    let mut program = Program::default();
    let mut overflow = false;
    let results = program.append(body, |program, leaf, dtype| {
        let leaf = match leaf {
            ContractionLeaf::Access(access) => ContractionLeaf::Access(*access),
            ContractionLeaf::Index(affine) => {
                let affine = affine.substitute_all(others);
                overflow |= affine.is_none();
                ContractionLeaf::Index(affine.unwrap_or_default())
            }
        };
        program.push(Inst::Leaf(leaf), dtype)
    });
    if overflow {
        return None;
    }
    let mut differs: Option<Value> = None;
    for pair in pairs {
        let [r, s] = pair
            .map(|v| program.push(Inst::Leaf(ContractionLeaf::Index(Affine::var(v))), DType::I32));
        let unlike = program.binary(BinaryOp::Ne, r, s);
        differs =
            Some(differs.map_or(unlike, |others| program.binary(BinaryOp::BitOr, others, unlike)));
    }
    let counts = match (results.get(1), differs) {
        (Some(&counts), Some(differs)) => Some(program.binary(BinaryOp::BitAnd, counts, differs)),
        (counts, differs) => counts.copied().or(differs),
    };
    program.results = [Some(results[0]), counts].into_iter().flatten().collect();
    Some(program)
}

/// Returns for each point the product of all other points of its place, or 1 if there are none.
///
/// The Hermite form parametrizes the points as `x(z, r)`, where z identifies the place. The other
/// points are `x(z, s)` with s ≠ r.
fn others(graph: &mut Graph, points: &Points) -> Option<NodeId> {
    let op = points.op;
    let dtype = graph.dtype(points.id);
    let extents: Vec<i64> =
        op.indices.iter().map(|i| i.high.checked_sub(i.low)).collect::<Option<_>>()?;
    let shape: Vec<usize> =
        extents.iter().map(|&e| usize::try_from(e).ok()).collect::<Option<_>>()?;
    let ty = TensorType::new(dtype, shape);
    isize::try_from(ty.checked_elements()?.checked_mul(dtype.size())?).ok()?;
    let ones = Tensors::new(graph, points.id).filled(Scalar::one(dtype), &ty.shape);

    let form = hermite(&op.output, &extents)?;
    let (count, reduced) = (extents.len(), extents.len() - form.rank);
    let other = |v: usize| if v < form.rank { v } else { v + reduced };
    let others = form.old.iter().map(|old| old.map_variables(other)).collect::<Option<Vec<_>>>()?;
    let inside = |point: &[Affine]| {
        let bounds = point.iter().zip(&op.indices).map(|(value, index)| {
            Some([
                value.sub(&Affine::constant(index.low))?,
                Affine::constant(index.high - 1).sub(value)?,
            ])
        });
        Some(bounds.collect::<Option<Vec<_>>>()?.concat())
    };
    let Ranges::Bounded(found) = ranges(count, &inside(&form.old)?)? else { return Some(ones) };
    let range = |name: String, (low, last): (i64, i64)| {
        Some(IndexRange { name, low, high: last.checked_add(1)? })
    };
    let mut indices = Vec::with_capacity(count + reduced);
    for v in 0..count + reduced {
        let (letter, number, bounds) = match v {
            v if v < form.rank => ("z", v, found[v]),
            v if v < count => ("r", v - form.rank, found[v]),
            v => ("s", v - count, found[v - reduced]),
        };
        indices.push(range(format!("{letter}{number}"), bounds)?);
    }
    let mut constraints = inside(&others)?;
    for constraint in &op.constraints {
        constraints.push(constraint.substitute_all(&others)?);
    }
    let mut accesses = op.accesses.clone();
    for index in accesses.iter_mut().flat_map(|access| &mut access.index) {
        index.affine = index.affine.substitute_all(&others)?;
    }
    let pairs: Vec<[usize; 2]> = (form.rank..count).map(|v| [v, other(v)]).collect();
    let body = body_of_others(&op.body, &others, &pairs)?;
    let output =
        form.old.iter().zip(&op.indices).map(|(old, index)| old.sub(&Affine::constant(index.low)));
    let output = output.collect::<Option<Vec<_>>>()?;
    let op = Contraction {
        aggregation: Aggregation::Product,
        rank: None,
        indices,
        output,
        accesses,
        constraints,
        body,
        default: true,
    };
    let (op, mut operands) = prune(graph, op, &ty.shape, points.tensors(), None)?;
    operands.push(ones);
    Some(Tensors::new(graph, points.id).add(Op::Contraction(Box::new(op)), ty, &operands))
}
