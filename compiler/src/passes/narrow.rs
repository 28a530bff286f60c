//! Rounds the operands of products to a narrower float type, which halves their memory traffic.
//! Products and sums stay in f32. Everything else, such as statistics, other sums, inputs and
//! outputs, keeps its type.
//!
//! This is not a simplification: results have the accuracy of the narrower type, so the pass runs
//! only on request.
//!
//! Example, with f16: the operands of `P[n, u] = +(X[n, k] * W[k, u])` become `cast X` and
//! `cast W`, and the body becomes `f32(x) * f32(w)`. The cast of a weight depends on no input, so
//! that it is computed once. The cast of an activation is fused with what computes it.
//!
//! Why it is sound: a product of two f16 is exact in f32, so that the only error is the rounding of
//! the operands, which is at most 2^-11 of their magnitude. Values out of range become infinite, as
//! in any cast.

use crate::dtype::DType;
use crate::graph::{Aggregation, Contraction, ContractionLeaf, Graph, NodeId, NodeMap, Op};
use crate::scalar::{BinaryOp, Inst, Program};
use crate::tensor::TensorType;

/// Rounds the f32 operands of all products to `dtype`, a float.
pub fn narrow(graph: &mut Graph, dtype: DType) {
    let mut casts: NodeMap<NodeId> = NodeMap::new();
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            narrow(&mut parts.body, dtype);
            graph.put_scan(id, parts);
        }
        let Op::Contraction(contraction) = &graph.node(id).op else { continue };
        if !sums_products_of_f32(contraction) {
            continue;
        }
        let mut contraction = contraction.clone();
        let mut operands = graph.operands(id).to_vec();
        let factors = operands.len() - usize::from(contraction.default);
        for operand in &mut operands[..factors] {
            if graph.dtype(*operand) == DType::F32 {
                *operand = *casts.slot(*operand).get_or_insert_with(|| {
                    let ty = TensorType::new(dtype, graph.shape(*operand));
                    graph.add(Op::Cast, ty, &[*operand])
                });
            }
        }
        contraction.body =
            widened(&contraction, dtype, |operand| graph.dtype(operands[operand]) == dtype);
        graph.set(id, Op::Contraction(contraction), &operands);
    }
}

/// Returns the body of a contraction some of whose operands were f32 and have type `dtype` now.
pub(super) fn widened(
    op: &Contraction,
    dtype: DType,
    is_narrow: impl Fn(usize) -> bool,
) -> Program<ContractionLeaf> {
    let mut body = Program::default();
    body.results =
        body.append(&op.body, |body: &mut Program<ContractionLeaf>, leaf, wide| match leaf {
            ContractionLeaf::Access(access)
                if wide == DType::F32 && is_narrow(op.accesses[*access].operand) =>
            {
                let value = body.push(Inst::Leaf(leaf.clone()), dtype);
                body.cast(value, wide)
            }
            _ => body.push(Inst::Leaf(leaf.clone()), wide),
        });
    body
}

/// Returns whether it sums products of two different values, which are f32.
pub(super) fn sums_products_of_f32(contraction: &Contraction) -> bool {
    let Contraction { aggregation, body, .. } = contraction;
    let result = body.results[0];
    let is_product =
        matches!(body.insts[result], (Inst::Binary(BinaryOp::Mul, a, b), DType::F32) if a != b);
    *aggregation == Aggregation::Sum && is_product
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::*;

    #[test]
    fn factors_of_products_are_rounded_and_nothing_else() {
        fn halved(graph: &mut Graph) {
            narrow(graph, DType::F16);
        }
        insta::assert_snapshot!(after(&[halved], "\
graph f(%0, %1) -> (S = %3)
%0 = input X : f32[4, 3]
%1 = input W : f32[3, 5]
%2 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..3) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 5]  # P
%3 = contract sum [n] (n: 0..4, u: 0..5) { v0 = %2[n, u]; yield v0 } : f32[4]  # S
"), @"
        graph f(%0, %1) -> (S = %5)
        %0 = input X : f32[4, 3]
        %1 = input W : f32[3, 5]
        %2 = cast %0 : f16[4, 3]
        %3 = cast %1 : f16[3, 5]
        %4 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..3) { v0 = %2[n, k]; v1 = cast v0 : f32; v2 = %3[k, u]; v3 = cast v2 : f32; v4 = mul v1 v3; yield v4 } : f32[4, 5]  # P
        %5 = contract sum [n] (n: 0..4, u: 0..5) { v0 = %4[n, u]; yield v0 } : f32[4]  # S
        ");
    }
}
