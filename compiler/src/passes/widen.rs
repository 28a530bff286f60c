//! Computes sums of products of f16 and bf16 in f32: converts the factors first, each element once,
//! and the sums afterwards.
//!
//! Example: the factors of `P[n, u] = +(X[n, k] * W[k, u])` become `cast X` and `cast W`, and `P`
//! becomes a cast of a sum in f32. A weight is converted once for all runs, and before a loop once
//! for all turns. Elsewhere fusion decides whether the converted factor is stored. A matrix of
//! weights outside of loops stays as it is, since it is converted when it is packed: a converted
//! copy would take twice its memory.
//!
//! Why it is sound: such sums are accumulated in f32 in any case, in which products of two elements
//! are exact.

use crate::dtype::DType;
use crate::graph::{ContractionLeaf, Graph, NodeId, NodeMap, Op};
use crate::scalar::{BinaryOp, Inst, Program};
use crate::tensor::TensorType;

/// Runs the pass; see the module's documentation.
pub fn widen(graph: &mut Graph) {
    widen_within(graph, false);
}

/// Widens the products of a graph, which is the body of a scan or not.
fn widen_within(graph: &mut Graph, is_body: bool) {
    let mut casts: NodeMap<NodeId> = NodeMap::new();
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            widen_within(&mut parts.body, true);
            graph.put_scan(id, parts);
        }
        let Op::Contraction(op) = &graph.node(id).op else { continue };
        let dtype = graph.dtype(id);
        if !op.is_sum_of_products() || !dtype.is_half() {
            continue;
        }
        let insts: Vec<_> = op.body.insts.iter().collect();
        let [
            (Inst::Leaf(ContractionLeaf::Access(a)), of_a),
            (Inst::Leaf(ContractionLeaf::Access(b)), of_b),
            (Inst::Binary(BinaryOp::Mul, ..), _),
        ] = insts[..]
        else {
            continue;
        };
        if a == b || *of_a != dtype || *of_b != dtype {
            continue;
        }
        let is_matrix = !op.has_window();
        let mut operands = graph.operands(id).to_vec();
        let factors = operands.len() - usize::from(op.default);
        let is_weight = |id: NodeId| matches!(graph.node(graph.storage(id)).op, Op::Weight(_));
        let stays: Vec<bool> = (operands.iter().enumerate())
            .map(|(number, id)| number < factors && is_matrix && !is_body && is_weight(*id))
            .collect();
        let mut op = op.clone();
        let mut body = Program::default();
        let [a, b] = [*a, *b].map(|access| {
            let leaf = Inst::Leaf(ContractionLeaf::Access(access));
            let is_narrow = stays[op.accesses[access].operand];
            let value = body.push(leaf, if is_narrow { dtype } else { DType::F32 });
            body.cast(value, DType::F32)
        });
        body.results = vec![body.binary(BinaryOp::Mul, a, b)];
        op.body = body;
        for (operand, stays) in operands.iter_mut().zip(stays) {
            if graph.dtype(*operand) != dtype || stays {
                continue;
            }
            *operand = *casts.slot(*operand).get_or_insert_with(|| {
                let ty = TensorType::new(DType::F32, graph.shape(*operand));
                graph.add(Op::Cast, ty, &[*operand])
            });
        }
        let ty = TensorType::new(DType::F32, graph.shape(id));
        let sum = graph.add(Op::Contraction(op), ty, &operands);
        graph.set(id, Op::Cast, &[sum]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::widen;

    #[test]
    fn factors_and_sums_are_converted() {
        insta::assert_snapshot!(after(&[widen], "\
graph f(%0, %1) -> (S = %3)
%0 = input X : f16[4, 3]
%1 = input W : f16[3, 5]
%2 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..3) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f16[4, 5]  # P
%3 = contract sum [n] (n: 0..4, u: 0..5) { v0 = %2[n, u]; yield v0 } : f16[4]  # S
"), @"
        graph f(%0, %1) -> (S = %6)
        %0 = input X : f16[4, 3]
        %1 = input W : f16[3, 5]
        %2 = cast %0 : f32[4, 3]
        %3 = cast %1 : f32[3, 5]
        %4 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..3) { v0 = %2[n, k]; v1 = %3[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 5]
        %5 = cast %4 : f16[4, 5]  # P
        %6 = contract sum [n] (n: 0..4, u: 0..5) { v0 = %5[n, u]; yield v0 } : f16[4]  # S
        ");
    }
}
