//! Extends the result of a transposed convolution to a multiple of its stride, and slices it.
//!
//! Example: with a stride of 2, the 7 places of the result are of two kinds (even and odd), 4 and 3
//! of them. As a slice of 8 places,
//!
//! ```text
//! %2 = contract sum [2*y + i, f] (y: 0..3, i: 0..3, f: 0..5, c: 0..4) { … } : f32[7, 5]
//! ```
//!
//! becomes `[2*y + i, f] : f32[8, 5]`. Its nest has an axis for the kinds. All places of a kind sum
//! products with the same part of the weight, so each kind is a matrix product. A nest of 7 places
//! has no such axis. The gradient of a strided convolution with respect to its input is rewritten,
//! too.
//!
//! Why it is sound: an element of a contraction does not depend on how many elements there are.

use crate::affine::Affine;
use crate::graph::{Contraction, Graph, Op};

/// Runs the pass; see the module's documentation.
pub fn stretch(graph: &mut Graph) {
    for id in graph.topological() {
        let node = graph.node(id).clone();
        let Op::Contraction(op) = &node.op else { continue };
        if op.default || !op.is_sum_of_products() {
            continue;
        }
        let long = |(index, &length): (&Affine, &usize)| {
            length.next_multiple_of(stride(op, index, length))
        };
        let shape: Vec<usize> = op.output.iter().zip(&node.ty.shape).map(long).collect();
        if shape == node.ty.shape {
            continue;
        }
        let slice = Contraction::copy(node.ty.dtype, &node.ty.shape);
        let slice = graph.add(Op::Contraction(Box::new(slice)), node.ty.clone(), &[id]);
        graph.node_mut(id).ty.shape = shape;
        graph.stand_in(id, slice);
    }
}

/// Returns the distance between places of the same kind, along an axis of `length` places. Returns
/// 1 if all are of one kind, or if there are so few that extending the axis costs too much.
fn stride(op: &Contraction, place: &Affine, length: usize) -> usize {
    let terms = place.terms().iter().filter(|(v, _)| op.indices[*v].varies());
    let factors: Vec<u64> = terms.map(|(_, factor)| factor.unsigned_abs()).collect();
    match factors[..] {
        [a, b] if a.min(b) == 1 => {
            usize::try_from(a.max(b)).ok().filter(|&s| s <= length / 3).unwrap_or(1)
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::stretch;

    #[test]
    fn results_of_transposed_convolutions_are_slices_of_whole_strides() {
        insta::assert_snapshot!(after(&[stretch], "\
graph g(%0) -> (Y = %2)
%0 = input X : f32[3, 4]
%1 = weight K : f32[3, 4, 5]
%2 = contract sum [2*y + i, f] (y: 0..3, i: 0..3, f: 0..5, c: 0..4) { v0 = %0[y, c]; v1 = %1[i, c, f]; v2 = mul v0 v1; yield v2 } : f32[7, 5]
"), @"
        graph g(%0) -> (Y = %3)
        %0 = input X : f32[3, 4]
        %1 = weight K : f32[3, 4, 5]
        %2 = contract sum [2*y + i, f] (y: 0..3, i: 0..3, f: 0..5, c: 0..4) { v0 = %0[y, c]; v1 = %1[i, c, f]; v2 = mul v0 v1; yield v2 } : f32[8, 5]
        %3 = contract assign [i0, i1] (i0: 0..7, i1: 0..5) { v0 = %2[i0, i1]; yield v0 } : f32[7, 5]
        ");
    }
}
