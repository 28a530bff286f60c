//! Computes equal values once.
//!
//! Example: `%2 = mul %0 %1`, `%3 = mul %1 %0`, `%4 = sub %2 %3` becomes `%4 = sub %2 %2`; `%3` is left for [`super::dead`].
//!
//! Why it is sound: a node is a function of its operation, type and operands alone, and operands are shared before their
//! readers. Operands of commutative operations are compared without their order, which changes no bit (NaN payloads
//! aside); index names of contractions, which mean nothing, are left out.

use std::collections::HashMap;

use crate::graph::{Graph, NodeId, Op};
use crate::tensor::TensorType;

pub fn share(graph: &mut Graph) {
    let mut first: HashMap<(Op, TensorType, Vec<NodeId>), NodeId> = HashMap::new();
    for id in graph.topological() {
        match first.get(&key(graph, id)) {
            Some(&earlier) => graph.stand_in(id, earlier),
            None => {
                first.insert(key(graph, id), id);
            }
        }
    }
}

/// Equal for two nodes only where they compute the same.
fn key(graph: &Graph, id: NodeId) -> (Op, TensorType, Vec<NodeId>) {
    let node = graph.node(id);
    let mut op = node.op.clone();
    let mut operands = graph.operands(id);
    match &mut op {
        Op::Binary(op) if op.is_commutative() => operands.sort_unstable(),
        Op::Contraction(contraction) => contraction.indices.iter_mut().for_each(|index| index.name.clear()),
        _ => {}
    }
    (op, node.ty.clone(), operands)
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, share};

    #[test]
    fn equal_nodes_become_one() {
        insta::assert_snapshot!(after(&[share, dead], "\
graph g(%0, %1) -> (A = %4, B = %7, C = %8, D = %9)
%0 = input X : f32[3]
%1 = input Y : f32[3]
%2 = mul %0 %1 : f32[3]
%3 = mul %1 %0 : f32[3]  # Product
%4 = sub %2 %3 : f32[3]
%5 = contract sum [] (i: 0..3) { v0 = %2[i]; yield v0 } : f32[]
%6 = contract sum [] (j: 0..3) { v0 = %3[j]; yield v0 } : f32[]
%7 = add %5 %6 : f32[]
%8 = sub %1 %0 : f32[3]
%9 = sub %0 %1 : f32[3]
"), @"
    graph g(%0, %1) -> (A = %3, B = %5, C = %6, D = %7)
    %0 = input X : f32[3]
    %1 = input Y : f32[3]
    %2 = mul %0 %1 : f32[3]  # Product
    %3 = sub %2 %2 : f32[3]
    %4 = contract sum [] (i: 0..3) { v0 = %2[i]; yield v0 } : f32[]
    %5 = add %4 %4 : f32[]
    %6 = sub %1 %0 : f32[3]
    %7 = sub %0 %1 : f32[3]
    ");
    }
}
