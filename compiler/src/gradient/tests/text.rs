//! Tests with text in and text out.

use crate::gradient::gradient;
use crate::graph::{Graph, Op};
use crate::passes::{dead, fold, share};

/// Returns the graph of the gradients of the first output with respect to every float input, after
/// the passes.
pub(super) fn gradients(text: &str) -> String {
    let mut graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    let inputs: Vec<_> =
        graph.inputs.iter().copied().filter(|&id| graph.dtype(id).is_float()).collect();
    let names = inputs.iter().map(|&id| match &graph.node(id).op {
        Op::Input(name) => format!("d{name}"),
        _ => String::new(),
    });
    let names: Vec<String> = names.collect();
    let of = graph.outputs[0].1;
    let found = gradient(&mut graph, of, &inputs).unwrap();
    graph.verify().unwrap();
    graph.outputs = names.into_iter().zip(found).collect();
    for pass in [fold, share, dead] {
        pass(&mut graph);
        graph.verify().unwrap();
    }
    graph.to_string()
}

#[test]
fn a_product_of_matrices() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1, %2) -> (L = %5)
%0 = input X : f32[8, 16]
%1 = input W : f32[16, 4]
%2 = input T : f32[8, 4]
%3 = contract sum [n, u] (n: 0..8, u: 0..4, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 4]  # Y
%4 = mul %3 %2 : f32[8, 4]
%5 = contract sum [] (n: 0..8, u: 0..4) { v0 = %4[n, u]; yield v0 } : f32[]
"), @"
    graph g(%0, %1, %2) -> (dX = %4, dW = %5, dT = %3)
    %0 = input X : f32[8, 16]
    %1 = input W : f32[16, 4]
    %2 = input T : f32[8, 4]
    %3 = contract sum [n, u] (n: 0..8, u: 0..4, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 4]  # Y
    %4 = contract sum [n, k] (n: 0..8, u: 0..4, k: 0..16) { v0 = %2[n, u]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 16]  # dX
    %5 = contract sum [k, u] (n: 0..8, u: 0..4, k: 0..16) { v0 = %2[n, u]; v1 = %0[n, k]; v2 = mul v0 v1; yield v2 } : f32[16, 4]  # dW
    ");
}

#[test]
fn a_strided_padded_dilated_convolution() {
    // Both gradients are sums of products over the same points, without a mask.
    insta::assert_snapshot!(gradients("\
graph g(%0, %1) -> (L = %4)
%0 = input X : f32[2, 9, 3]
%1 = input W : f32[3, 3, 4]
%2 = contract sum [n, x, o] (n: 0..2, x: 0..4, o: 0..4, k: 0..3, c: 0..3) { v0 = %0[n, 2*x + 2*k - 1, c]; v1 = %1[k, c, o]; v2 = mul v0 v1; yield v2 } : f32[2, 4, 4]  # Y
%3 = mul %2 %2 : f32[2, 4, 4]
%4 = contract sum [] (n: 0..2, x: 0..4, o: 0..4) { v0 = %3[n, x, o]; yield v0 } : f32[]
"), @"
    graph g(%0, %1) -> (dX = %4, dW = %5)
    %0 = input X : f32[2, 9, 3]
    %1 = input W : f32[3, 3, 4]
    %2 = contract sum [n, x, o] (n: 0..2, x: 0..4, o: 0..4, k: 0..3, c: 0..3) { v0 = %0[n, 2*x + 2*k - 1, c]; v1 = %1[k, c, o]; v2 = mul v0 v1; yield v2 } : f32[2, 4, 4]  # Y
    %3 = add %2 %2 : f32[2, 4, 4]  # dY
    %4 = contract sum [n, 2*x + 2*k - 1, c] (n: 0..2, x: 0..4, o: 0..4, k: 0..3, c: 0..3) { v0 = %3[n, x, o]; v1 = %1[k, c, o]; v2 = mul v0 v1; yield v2 } : f32[2, 9, 3]  # dX
    %5 = contract sum [k, c, o] (n: 0..2, x: 0..4, o: 0..4, k: 0..3, c: 0..3) { v0 = %3[n, x, o]; v1 = %0[n, 2*x + 2*k - 1, c]; v2 = mul v0 v1; yield v2 } : f32[3, 3, 4]  # dW
    ");
}

#[test]
fn the_gradient_of_a_transposed_convolution_is_a_convolution() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1) -> (L = %3)
%0 = input X : f32[5]
%1 = input W : f32[3]
%2 = contract sum [2*i + k] (i: 0..5, k: 0..3) { v0 = %0[i]; v1 = %1[k]; v2 = mul v0 v1; yield v2 } : f32[11]  # Y
%3 = contract sum [] (i: 0..11) { v0 = %2[i]; v1 = mul v0 v0; yield v1 } : f32[]
"), @"
    graph g(%0, %1) -> (dX = %4, dW = %5)
    %0 = input X : f32[5]
    %1 = input W : f32[3]
    %2 = contract sum [2*i + k] (i: 0..5, k: 0..3) { v0 = %0[i]; v1 = %1[k]; v2 = mul v0 v1; yield v2 } : f32[11]  # Y
    %3 = contract sum [i] (i: 0..11) { v0 = %2[i]; v1 = add v0 v0; yield v1 } : f32[11]  # dY
    %4 = contract sum [i] (i: 0..5, k: 0..3) { v0 = %3[2*i + k]; v1 = %1[k]; v2 = mul v0 v1; yield v2 } : f32[5]  # dX
    %5 = contract sum [k] (i: 0..5, k: 0..3) { v0 = %3[2*i + k]; v1 = %0[i]; v2 = mul v0 v1; yield v2 } : f32[3]  # dW
    ");
}

#[test]
fn pooling_gives_to_the_first_of_the_greatest() {
    insta::assert_snapshot!(gradients("\
graph g(%0) -> (L = %2)
%0 = input X : f32[8, 8]
%1 = contract max [y, x] (y: 0..4, x: 0..4, i: 0..2, j: 0..2) { v0 = %0[2*y + i, 2*x + j]; yield v0 } : f32[4, 4]  # Y
%2 = contract sum [] (y: 0..4, x: 0..4) { v0 = %1[y, x]; v1 = mul v0 v0; yield v1 } : f32[]
"), @"
    graph g(%0) -> (dX = %4)
    %0 = input X : f32[8, 8]
    %1 = contract max [y, x] (y: 0..4, x: 0..4, i: 0..2, j: 0..2) { v0 = %0[2*y + i, 2*x + j]; yield v0 } : f32[4, 4]  # Y
    %2 = contract sum [y, x] (y: 0..4, x: 0..4) { v0 = %1[y, x]; v1 = add v0 v0; yield v1 } : f32[4, 4]  # dY
    %3 = contract argmax [y, x] (y: 0..4, x: 0..4, i: 0..2, j: 0..2) { v0 = %0[2*y + i, 2*x + j]; yield v0 } : i32[4, 4]
    %4 = contract sum [2*y + i, 2*x + j] (y: 0..4, x: 0..4, i: 0..2, j: 0..2) { v0 = %2[y, x]; v1 = %3[y, x]; v2 = index 2*i + j; v3 = cmp_eq v2 v1; v4 = 0.0 : f32; v5 = select v3 v0 v4; yield v5 } : f32[8, 8]  # dX
    ");
}

#[test]
fn ties_of_a_reduction_share_evenly() {
    insta::assert_snapshot!(gradients("\
graph g(%0) -> (L = %2)
%0 = input X : f32[4, 5]
%1 = contract min [i] (i: 0..4, j: 0..5) { v0 = %0[i, j]; yield v0 } : f32[4]  # M
%2 = contract sum [] (i: 0..4) { v0 = %1[i]; v1 = mul v0 v0; yield v1 } : f32[]
"), @"
    graph g(%0) -> (dX = %7)
    %0 = input X : f32[4, 5]
    %1 = contract min [i] (i: 0..4, j: 0..5) { v0 = %0[i, j]; yield v0 } : f32[4]  # M
    %2 = constant 1.0 : f32[]
    %3 = contract sum [i] (i: 0..4) { v0 = %1[i]; v1 = add v0 v0; yield v1 } : f32[4]  # dM
    %4 = contract sum [i] (i: 0..4, j: 0..5) { v0 = %0[i, j]; v1 = %1[i]; v2 = cmp_eq v0 v1; v3 = 1.0 : f32; v4 = 0.0 : f32; v5 = select v2 v3 v4; yield v5 } : f32[4]
    %5 = max %4 %2 : f32[4]
    %6 = div %3 %5 : f32[4]
    %7 = contract sum [i, j] (i: 0..4, j: 0..5) { v0 = %6[i]; v1 = %1[i]; v2 = %0[i, j]; v3 = cmp_eq v2 v1; v4 = 0.0 : f32; v5 = select v3 v0 v4; yield v5 } : f32[4, 5]  # dX
    ");
}

#[test]
fn a_product_multiplies_the_others() {
    // Only j is reduced: the other points are those with another j.
    insta::assert_snapshot!(gradients("\
graph g(%0) -> (L = %2)
%0 = input X : f32[4, 5]
%1 = contract product [i] (i: 0..4, j: 0..5) { v0 = %0[i, j]; yield v0 } : f32[4]  # P
%2 = contract sum [] (i: 0..4) { v0 = %1[i]; yield v0 } : f32[]
"), @"
    graph g(%0) -> (dX = %2)
    %0 = input X : f32[4, 5]
    %1 = contract assign [i0, i1] (i0: 0..4, i1: 0..5) { v0 = 1.0 : f32; yield v0 } : f32[4, 5]
    %2 = contract product [z0, r0] (z0: 0..4, r0: 0..5, s0: 0..5) default %1 { v0 = %0[z0, s0]; v1 = index r0; v2 = index s0; v3 = cmp_ne v1 v2; yield v0 v3 } : f32[4, 5]  # dX
    ");
}

#[test]
fn softmax() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1) -> (L = %7)
%0 = input X : f32[4, 5]
%1 = input T : f32[4, 5]
%2 = contract max [i, 0] (i: 0..4, j: 0..5) { v0 = %0[i, j]; yield v0 } : f32[4, 1]  # M
%3 = sub %0 %2 : f32[4, 5]
%4 = exp %3 : f32[4, 5]  # E
%5 = contract sum [i, 0] (i: 0..4, j: 0..5) { v0 = %4[i, j]; yield v0 } : f32[4, 1]  # N
%6 = div %4 %5 : f32[4, 5]  # Y
%7 = contract sum [] (i: 0..4, j: 0..5) { v0 = %6[i, j]; v1 = %1[i, j]; v2 = mul v0 v1; yield v2 } : f32[]
"), @"
    graph g(%0, %1) -> (dX = %21, dT = %6)
    %0 = input X : f32[4, 5]
    %1 = input T : f32[4, 5]
    %2 = contract max [i, 0] (i: 0..4, j: 0..5) { v0 = %0[i, j]; yield v0 } : f32[4, 1]  # M
    %3 = sub %0 %2 : f32[4, 5]
    %4 = exp %3 : f32[4, 5]  # E
    %5 = contract sum [i, 0] (i: 0..4, j: 0..5) { v0 = %4[i, j]; yield v0 } : f32[4, 1]  # N
    %6 = div %4 %5 : f32[4, 5]  # Y
    %7 = constant 1.0 : f32[]
    %8 = div %1 %5 : f32[4, 5]
    %9 = neg %8 : f32[4, 5]
    %10 = mul %9 %6 : f32[4, 5]
    %11 = contract sum [i0, 0] (i0: 0..4, i1: 0..5) { v0 = %10[i0, i1]; yield v0 } : f32[4, 1]  # dN
    %12 = contract sum [i, j] (i: 0..4, j: 0..5) { v0 = %11[i, 0]; yield v0 } : f32[4, 5]
    %13 = add %8 %12 : f32[4, 5]  # dE
    %14 = mul %13 %4 : f32[4, 5]
    %15 = neg %14 : f32[4, 5]
    %16 = contract sum [i0, 0] (i0: 0..4, i1: 0..5) { v0 = %15[i0, i1]; yield v0 } : f32[4, 1]  # dM
    %17 = contract sum [i, 0] (i: 0..4, j: 0..5) { v0 = %0[i, j]; v1 = %2[i, 0]; v2 = cmp_eq v0 v1; v3 = 1.0 : f32; v4 = 0.0 : f32; v5 = select v2 v3 v4; yield v5 } : f32[4, 1]
    %18 = max %17 %7 : f32[4, 1]
    %19 = div %16 %18 : f32[4, 1]
    %20 = contract sum [i, j] (i: 0..4, j: 0..5) { v0 = %19[i, 0]; v1 = %2[i, 0]; v2 = %0[i, j]; v3 = cmp_eq v2 v1; v4 = 0.0 : f32; v5 = select v3 v0 v4; yield v5 } : f32[4, 5]
    %21 = add %14 %20 : f32[4, 5]  # dX
    ");
}

#[test]
fn gather_gives_scatter() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1, %2) -> (L = %4)
%0 = input I : i32[7]
%1 = input V : f32[10, 3]
%2 = input T : f32[7, 3]
%3 = contract assign [i, d] (i: 0..7, d: 0..3) { @0 = %0[i]; v0 = %1[@0, d]; yield v0 } : f32[7, 3]  # E
%4 = contract sum [] (i: 0..7, d: 0..3) { v0 = %3[i, d]; v1 = %2[i, d]; v2 = mul v0 v1; yield v2 } : f32[]
"), @"
    graph g(%0, %1, %2) -> (dV = %4, dT = %3)
    %0 = input I : i32[7]
    %1 = input V : f32[10, 3]
    %2 = input T : f32[7, 3]
    %3 = contract assign [i, d] (i: 0..7, d: 0..3) { @0 = %0[i]; v0 = %1[@0, d]; yield v0 } : f32[7, 3]  # E
    %4 = contract sum [place, d] (i: 0..7, d: 0..3, place: 0..10) { v0 = %2[i, d]; v1 = %0[i]; v2 = index place; v3 = cmp_eq v1 v2; yield v0 v3 } : f32[10, 3]  # dV
    ");
}

#[test]
fn scatter_gives_gather() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1, %2) -> (L = %4)
%0 = input I : i32[7]
%1 = input E : f32[7, 3]
%2 = input T : f32[10, 3]
%3 = contract sum [v, d] (v: 0..10, d: 0..3, i: 0..7) { @0 = %0[i]; v0 = %1[i, d]; v1 = @0; v2 = index v; v3 = cmp_eq v1 v2; yield v0 v3 } : f32[10, 3]  # V
%4 = contract sum [] (v: 0..10, d: 0..3) { v0 = %3[v, d]; v1 = %2[v, d]; v2 = mul v0 v1; yield v2 } : f32[]
"), @"
    graph g(%0, %1, %2) -> (dE = %4, dT = %3)
    %0 = input I : i32[7]
    %1 = input E : f32[7, 3]
    %2 = input T : f32[10, 3]
    %3 = contract sum [v, d] (v: 0..10, d: 0..3, i: 0..7) { @0 = %0[i]; v0 = %1[i, d]; v1 = @0; v2 = index v; v3 = cmp_eq v1 v2; yield v0 v3 } : f32[10, 3]  # V
    %4 = contract sum [i, d] (d: 0..3, i: 0..7) { @0 = %0[i]; v0 = %2[@0, d]; yield v0 } : f32[7, 3]  # dE
    ");
}

#[test]
fn a_default_gets_what_is_not_written() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1) -> (L = %3)
%0 = input X : f32[3]
%1 = input D : f32[6]
%2 = contract sum [2*i] (i: 0..3) default %1 { v0 = %0[i]; yield v0 } : f32[6]  # Y
%3 = contract sum [] (i: 0..6) { v0 = %2[i]; v1 = mul v0 v0; yield v1 } : f32[]
"), @"
    graph g(%0, %1) -> (dX = %5, dD = %4)
    %0 = input X : f32[3]
    %1 = input D : f32[6]
    %2 = contract sum [2*i] (i: 0..3) default %1 { v0 = %0[i]; yield v0 } : f32[6]  # Y
    %3 = contract sum [i] (i: 0..6) { v0 = %2[i]; v1 = add v0 v0; yield v1 } : f32[6]  # dY
    %4 = contract sum [2*i] (i: 0..3) default %3 { v0 = 0.0 : f32; yield v0 } : f32[6]  # dD
    %5 = contract sum [i] (i: 0..3) { v0 = %3[2*i]; yield v0 } : f32[3]  # dX
    ");
}

#[test]
fn a_selection() {
    // The condition has no gradient, but its accesses must still be in range.
    insta::assert_snapshot!(gradients("\
graph g(%0, %1, %2) -> (L = %3)
%0 = input A : f32[6]
%1 = input B : f32[4]
%2 = input C : f32[6]
%3 = contract sum [] (i: 0..6, j: -1..3) { v0 = %0[i + j]; v1 = %1[j]; v2 = cmp_eq v0 v1; v3 = %2[i]; v4 = 0.0 : f32; v5 = select v2 v3 v4; yield v5 } : f32[]
"), @"
    graph g(%0, %1, %2) -> (dA = %4, dB = %5, dC = %3)
    %0 = input A : f32[6]
    %1 = input B : f32[4]
    %2 = input C : f32[6]
    %3 = contract sum [i] (i: 0..6, j: -1..3) { v0 = 1.0 : f32; v1 = %0[i + j]; v2 = %1[j]; v3 = cmp_eq v1 v2; v4 = 0.0 : f32; v5 = select v3 v0 v4; yield v5 } : f32[6]  # dC
    %4 = contract assign [i0] (i0: 0..6) { v0 = 0.0 : f32; yield v0 } : f32[6]
    %5 = contract assign [i0] (i0: 0..4) { v0 = 0.0 : f32; yield v0 } : f32[4]
    ");
}

#[test]
fn what_was_read_must_still_be_in_range() {
    // A point counts only if i + j is in range of A, whether A is read or not.
    insta::assert_snapshot!(gradients("\
graph g(%0, %1) -> (L = %3)
%0 = input A : f32[6]
%1 = input B : f32[4]
%2 = contract sum [i] (i: 0..6, j: 0..4) { v0 = %0[i + j]; v1 = %1[j]; v2 = exp v1; v3 = add v0 v2; yield v3 } : f32[6]  # Y
%3 = contract sum [] (i: 0..6) { v0 = %2[i]; yield v0 } : f32[]
"), @"
    graph g(%0, %1) -> (dA = %2, dB = %3)
    %0 = input A : f32[6]
    %1 = input B : f32[4]
    %2 = contract sum [i + j] (i: 0..6, j: 0..4) { v0 = 1.0 : f32; yield v0 } : f32[6]  # dA
    %3 = contract sum [j] (i: 0..6, j: 0..4) where -i - j + 5 >= 0 { v0 = %1[j]; v1 = exp v0; yield v1 } : f32[4]  # dB
    ");
}

#[test]
fn broadcasting_sums() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1, %2) -> (L = %5)
%0 = input X : f32[4, 5]
%1 = input B : f32[5]
%2 = input C : f32[4, 1]
%3 = add %0 %1 : f32[4, 5]
%4 = mul %3 %2 : f32[4, 5]  # Y
%5 = contract sum [] (i: 0..4, j: 0..5) { v0 = %4[i, j]; yield v0 } : f32[]
"), @"
    graph g(%0, %1, %2) -> (dX = %5, dB = %7, dC = %6)
    %0 = input X : f32[4, 5]
    %1 = input B : f32[5]
    %2 = input C : f32[4, 1]
    %3 = add %0 %1 : f32[4, 5]
    %4 = contract assign [i0, i1] (i0: 0..4, i1: 0..5) { v0 = 1.0 : f32; yield v0 } : f32[4, 5]  # dY
    %5 = mul %4 %2 : f32[4, 5]  # dX
    %6 = contract sum [i0, 0] (i0: 0..4, i1: 0..5) { v0 = %3[i0, i1]; yield v0 } : f32[4, 1]  # dC
    %7 = contract sum [i1] (i0: 0..4, i1: 0..5) { v0 = %5[i0, i1]; yield v0 } : f32[5]  # dB
    ");
}

#[test]
fn nothing_goes_through_stop_gradient() {
    insta::assert_snapshot!(gradients("\
graph g(%0, %1) -> (L = %4)
%0 = input X : f32[4]
%1 = input Unused : f32[2]
%2 = stop_gradient %0 : f32[4]
%3 = mul %0 %2 : f32[4]
%4 = contract sum [] (i: 0..4) { v0 = %3[i]; yield v0 } : f32[]
"), @"
    graph g(%0, %1) -> (dX = %0, dUnused = %2)
    %0 = input X : f32[4]
    %1 = input Unused : f32[2]
    %2 = contract assign [i0] (i0: 0..2) { v0 = 0.0 : f32; yield v0 } : f32[2]
    ");
}

#[test]
fn a_loop_goes_backwards() {
    // The states are stacked and reversed. The gradient of the captured matrix is one product after
    // the loop.
    insta::assert_snapshot!(gradients("\
graph g(%0, %1, %2) -> (L = %5)
%0 = input X : f32[2, 5, 3]
%1 = input H : f32[2, 3]
%2 = input U : f32[3, 3]
%3 = scan 5 sequences (%0 along 1) carries (%1) captures (%2) yields () {
    graph step(%0, %1, %2) -> (H = %5)
    %0 = input x : f32[2, 3]
    %1 = input h : f32[2, 3]
    %2 = input u : f32[3, 3]
    %3 = contract sum [b, o] (b: 0..2, o: 0..3, k: 0..3) { v0 = %1[b, k]; v1 = %2[k, o]; v2 = mul v0 v1; yield v2 } : f32[2, 3]
    %4 = add %0 %3 : f32[2, 3]
    %5 = tanh %4 : f32[2, 3]
} : f32[2, 3]
%4 = result 0 %3 : f32[2, 3]
%5 = contract sum [] (i: 0..2, j: 0..3) { v0 = %4[i, j]; v1 = mul v0 v0; yield v1 } : f32[]
"), @"
    graph g(%0, %1, %2) -> (dX = %11, dH = %9, dU = %15)
    %0 = input X : f32[2, 5, 3]
    %1 = input H : f32[2, 3]
    %2 = input U : f32[3, 3]
    %3 = scan 5 sequences (%0 along 1) carries (%1) captures (%2) yields (along 0) {
        graph step(%0, %1, %2) -> (H = %5, kept0 = %5)
        %0 = input x : f32[2, 3]
        %1 = input h : f32[2, 3]
        %2 = input u : f32[3, 3]
        %3 = contract sum [b, o] (b: 0..2, o: 0..3, k: 0..3) { v0 = %1[b, k]; v1 = %2[k, o]; v2 = mul v0 v1; yield v2 } : f32[2, 3]
        %4 = add %0 %3 : f32[2, 3]
        %5 = tanh %4 : f32[2, 3]
    } : f32[2, 3]
    %4 = result 0 %3 : f32[2, 3]
    %5 = contract sum [i, j] (i: 0..2, j: 0..3) { v0 = %4[i, j]; v1 = add v0 v0; yield v1 } : f32[2, 3]
    %6 = result 1 %3 : f32[5, 2, 3]
    %7 = contract assign [i0, i1, i2] (i0: 0..5, i1: 0..2, i2: 0..3) { v0 = %6[-i0 + 4, i1, i2]; yield v0 } : f32[5, 2, 3]
    %8 = scan 5 sequences (%7 along 0) carries (%5) captures (%2) yields (along 1, along 0) {
        graph backward(%3, %1, %0) -> (carry0 = %8, yield0 = %7, yield1 = %7)
        %0 = input u : f32[3, 3]
        %1 = input h_1 : f32[2, 3]
        %2 = constant 1.0 : f32[]
        %3 = input value_1 : f32[2, 3]
        %4 = sub %2 %3 : f32[2, 3]
        %5 = add %2 %3 : f32[2, 3]
        %6 = mul %4 %5 : f32[2, 3]
        %7 = mul %1 %6 : f32[2, 3]  # dx
        %8 = contract sum [b, k] (b: 0..2, o: 0..3, k: 0..3) { v0 = %7[b, o]; v1 = %0[k, o]; v2 = mul v0 v1; yield v2 } : f32[2, 3]  # dh
    } : f32[2, 3]
    %9 = result 0 %8 : f32[2, 3]  # dH
    %10 = result 1 %8 : f32[2, 5, 3]
    %11 = contract assign [i0, i1, i2] (i0: 0..2, i1: 0..5, i2: 0..3) { v0 = %10[i0, -i1 + 4, i2]; yield v0 } : f32[2, 5, 3]  # dX
    %12 = contract assign [i0, i1, i2] (i0: 0..5, i1: 0..2, i2: 0..3) { v0 = %1[i1, i2]; yield v0 } : f32[5, 2, 3]
    %13 = contract assign [i0, i1, i2] (i0: 0..4, i1: 0..2, i2: 0..3) default %12 { v0 = %6[-i0 + 3, i1, i2]; yield v0 } : f32[5, 2, 3]
    %14 = result 2 %8 : f32[5, 2, 3]
    %15 = contract sum [k, o] (b: 0..2, o: 0..3, k: 0..3, t: 0..5) { v0 = %14[t, b, o]; v1 = %13[t, b, k]; v2 = mul v0 v1; yield v2 } : f32[3, 3]  # dU
    ");
}
