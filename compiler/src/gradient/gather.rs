//! Replaces a variable that must equal an access by the access itself.
//!
//! Example: the gradient of `scatter`, `dE[i, d] = +(dO[v, d])` over all v with `v == I[i]`,
//! becomes `dE[i, d] = +(dO[I[i], d])`: one read for each place instead of one for each v.
//!
//! Why it is sound: at most one v counts. It is in the variable's range if the access is within the
//! axis over which the variable runs.

use super::prune::{live, prune};
use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Contraction, ContractionLeaf, Graph, NodeId};
use crate::scalar::{BinaryOp, Inst, Program, Value};

/// Returns the same contraction, which writes places of `shape`, without such variables. Returns
/// `None` on overflow.
pub(super) fn gathered(
    graph: &Graph,
    mut op: Contraction,
    shape: &[usize],
    mut operands: Vec<NodeId>,
) -> Option<(Contraction, Vec<NodeId>)> {
    while let Some(simpler) = resolved(graph, &op, &operands) {
        (op, operands) = prune(graph, simpler?, shape, &operands, None)?;
    }
    Some((op, operands))
}

/// Returns `op` without one such variable, if it has any.
fn resolved(graph: &Graph, op: &Contraction, operands: &[NodeId]) -> Option<Option<Contraction>> {
    let mut conditions = Vec::new();
    conjuncts(&op.body, *op.body.results.get(1)?, &mut conditions);
    (0..conditions.len()).find_map(|number| {
        let (access, variable) = equality(&op.body, conditions[number])?;
        let mut op = op.clone();
        let mut rest = conditions.clone();
        rest.remove(number);
        op.body.results.truncate(1);
        if let Some(counts) = rest.into_iter().reduce(|a, b| op.body.binary(BinaryOp::BitAnd, a, b))
        {
            op.body.results.push(counts);
        }
        is_free(graph, &op, operands, access, variable).then(|| replaced(op, access, variable))
    })
}

/// Collects the conditions of which `value` is the conjunction.
fn conjuncts(body: &Program<ContractionLeaf>, value: Value, found: &mut Vec<Value>) {
    match body.insts[value].0 {
        Inst::Binary(BinaryOp::BitAnd, a, b) if body.dtype(value) == DType::Bool => {
            conjuncts(body, a, found);
            conjuncts(body, b, found);
        }
        _ => found.push(value),
    }
}

/// Returns the access and the variable that a condition compares.
fn equality(body: &Program<ContractionLeaf>, condition: Value) -> Option<(usize, usize)> {
    let Inst::Binary(BinaryOp::Eq, a, b) = body.insts[condition].0 else { return None };
    let leaf = |mut value: Value| loop {
        match &body.insts[value].0 {
            // A cast between integers, as [`crate::graph::equals`] adds it, preserves equality.
            Inst::Cast(inner) if body.dtype(value).is_integer() => value = *inner,
            Inst::Leaf(leaf) => return Some(leaf),
            _ => return None,
        }
    };
    match (leaf(a)?, leaf(b)?) {
        (ContractionLeaf::Access(access), ContractionLeaf::Index(affine))
        | (ContractionLeaf::Index(affine), ContractionLeaf::Access(access)) => {
            Some((*access, affine.as_variable()?))
        }
        _ => None,
    }
}

/// Returns whether the access can replace the variable everywhere.
fn is_free(
    graph: &Graph,
    op: &Contraction,
    operands: &[NodeId],
    access: usize,
    variable: usize,
) -> bool {
    let lacks = |affine: &Affine| affine.coefficient(variable) == 0;
    let in_body = live(&op.body).leaves().any(|leaf| match leaf {
        ContractionLeaf::Index(affine) => !lacks(affine),
        ContractionLeaf::Access(_) => false,
    });
    if in_body || !op.output.iter().chain(&op.constraints).all(lacks) {
        return false;
    }
    let mut whole = false;
    for read in &op.accesses {
        for (index, &size) in read.index.iter().zip(graph.shape(operands[read.operand])) {
            if lacks(&index.affine) {
                continue;
            }
            if index.access.is_some() || index.affine.coefficient(variable) != 1 {
                return false;
            }
            let range = &op.indices[variable];
            // An axis without elements has nothing to read, whatever the access is.
            let covers = size > 0
                && range.low <= 0
                && i64::try_from(size).is_ok_and(|size| range.high >= size);
            whole |= covers && index.affine.as_variable() == Some(variable);
        }
    }
    whole && !depends(op, access, variable)
}

/// Returns whether the place that an access reads depends on a variable.
fn depends(op: &Contraction, access: usize, variable: usize) -> bool {
    op.accesses[access].index.iter().any(|index| {
        index.affine.coefficient(variable) != 0
            || index.access.is_some_and(|inner| depends(op, inner, variable))
    })
}

/// Replaces the variable by the access. Returns `None` on overflow.
fn replaced(mut op: Contraction, access: usize, variable: usize) -> Option<Contraction> {
    for index in op.accesses.iter_mut().flat_map(|read| &mut read.index) {
        if index.affine.coefficient(variable) != 0 {
            index.access = Some(access);
            index.affine = index.affine.substitute(variable, &Affine::constant(0))?;
        }
    }
    op.indices.remove(variable);
    let renumbered =
        |affine: &Affine| affine.map_variables(|v| if v > variable { v - 1 } else { v });
    for affine in op.output.iter_mut().chain(&mut op.constraints) {
        *affine = renumbered(affine)?;
    }
    for index in op.accesses.iter_mut().flat_map(|read| &mut read.index) {
        index.affine = renumbered(&index.affine)?;
    }
    for (inst, _) in &mut op.body.insts {
        if let Inst::Leaf(ContractionLeaf::Index(affine)) = inst {
            // An instruction that is no longer needed may still mention the variable.
            *affine = renumbered(&affine.substitute(variable, &Affine::constant(0))?)?;
        }
    }
    Some(op)
}
