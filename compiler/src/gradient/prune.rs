//! Removes from a contraction what its body does not need, without changing which points count.
//!
//! Example: the gradient of `+(A[i + k] + B[i])` for B is `+(dO[i])` over the same points. It no
//! longer reads A, but a point still counts only if `i + k` is in range of A. Constraints replace
//! the access, unless the ranges of i and k imply them.
//!
//! Why it is sound: the conditions of a removed access are those of its fixed indices, which the
//! constraints state. Accesses at run-time indices stay.

use crate::affine::Affine;
use crate::dense::Dense;
use crate::graph::{Contraction, ContractionLeaf, Graph, NodeId};
use crate::scalar::{Inst, Program, Value};

/// Removes the instructions, accesses and operands that a contraction, which writes places of
/// `shape`, does not need. Returns the contraction and its remaining operands, or `None` on
/// overflow. Accesses may be in any order. The access `implied` is in range wherever the place is.
pub(super) fn prune(
    graph: &Graph,
    mut contraction: Contraction,
    shape: &[usize],
    operands: &[NodeId],
    implied: Option<usize>,
) -> Option<(Contraction, Vec<NodeId>)> {
    contraction.body = live(&contraction.body);
    let mut order = Vec::new();
    for leaf in contraction.body.leaves() {
        if let ContractionLeaf::Access(access) = leaf {
            visit(&contraction, *access, &mut order);
        }
    }
    for (number, access) in
        contraction.accesses.iter().enumerate().filter(|(number, _)| implied != Some(*number))
    {
        // Only the access itself can state that a run-time index is in range.
        if !access.is_fixed() {
            visit(&contraction, number, &mut order);
        }
    }
    // Expressions that are known to be at least 0, and less than a size.
    let size_of = |size: usize| i64::try_from(size).ok();
    let mut known: Vec<(Affine, i64)> = Vec::new();
    for (affine, &size) in contraction.output.iter().zip(shape) {
        known.push((affine.clone(), size_of(size)?));
    }
    let mut dropped = Vec::new();
    for (number, access) in contraction.accesses.iter().enumerate() {
        let into = if order.contains(&number) { &mut known } else { &mut dropped };
        for (index, &size) in access.index.iter().zip(graph.shape(operands[access.operand])) {
            if index.access.is_none() && implied != Some(number) {
                into.push((index.affine.clone(), size_of(size)?));
            }
        }
    }
    for (affine, size) in dropped {
        if !known.iter().any(|(other, least)| *other == affine && *least <= size) {
            contraction
                .constraints
                .extend([affine.clone(), Affine::constant(size.checked_sub(1)?).sub(&affine)?]);
        }
    }
    simplify(&mut contraction);

    let mut kept: Vec<NodeId> = Vec::new();
    let number_of = |access: usize| order.iter().position(|&other| other == access).unwrap_or(0);
    let mut accesses = Vec::with_capacity(order.len());
    for &number in &order {
        let mut access = contraction.accesses[number].clone();
        let operand = operands[access.operand];
        access.operand = kept.iter().position(|other| *other == operand).unwrap_or_else(|| {
            kept.push(operand);
            kept.len() - 1
        });
        access.index.iter_mut().for_each(|index| index.access = index.access.map(number_of));
        accesses.push(access);
    }
    for (inst, _) in &mut contraction.body.insts {
        if let Inst::Leaf(ContractionLeaf::Access(access)) = inst {
            *access = number_of(*access);
        }
    }
    contraction.accesses = accesses;
    Some((contraction, kept))
}

/// Appends an access to `order`, after the accesses that its indices need.
fn visit(contraction: &Contraction, access: usize, order: &mut Vec<usize>) {
    if order.contains(&access) {
        return;
    }
    for index in contraction.accesses[access].index.iter().filter_map(|index| index.access) {
        visit(contraction, index, order);
    }
    order.push(access);
}

/// Drops duplicate constraints, and constraints that the ranges imply.
fn simplify(contraction: &mut Contraction) {
    let bounds: Vec<(i64, i64)> =
        contraction.indices.iter().map(|i| (i.low, i.high.max(i.low + 1) - 1)).collect();
    let mut kept: Vec<Affine> = Vec::new();
    for constraint in std::mem::take(&mut contraction.constraints) {
        let implied = constraint.bounds(&bounds).is_some_and(|(least, _)| least >= 0);
        if !implied && !kept.contains(&constraint) {
            kept.push(constraint);
        }
    }
    contraction.constraints = kept;
}

/// Returns the instructions on which the results depend.
pub(super) fn live(body: &Program<ContractionLeaf>) -> Program<ContractionLeaf> {
    let mut needed = Dense::of(false, body.insts.len());
    body.results.iter().for_each(|&result| needed[result] = true);
    for value in body.insts.ids().rev() {
        if needed[value] {
            body.insts[value].0.operands().into_iter().for_each(|operand| needed[operand] = true);
        }
    }
    let mut numbers = Dense::of(Value::default(), body.insts.len());
    let mut live = Program::default();
    for (value, (inst, dtype)) in body.insts.enumerate().filter(|(value, _)| needed[*value]) {
        numbers[value] = live.push(inst.renumbered(|value| numbers[value]), *dtype);
    }
    live.results = body.results.iter().map(|&result| numbers[result]).collect();
    live
}
