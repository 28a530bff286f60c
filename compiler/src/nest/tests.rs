use crate::graph::Graph;
use crate::passes::{fuse, is_source};
use crate::profile::Profile;

/// The nests of a graph's groups, as text.
fn nests(nodes: &str) -> String {
    let graph = Graph::parse(nodes).unwrap();
    graph.verify().unwrap();
    let groups = fuse(&graph, &Profile::generic());
    let roots: Vec<_> = groups.iter().map(|g| g.root).collect();
    let mut text = String::new();
    for group in &groups {
        let in_memory = |id| is_source(&graph.node(id).op) || roots.contains(&id);
        let (nest, _) = super::build(&graph, group.root, group.contraction, &in_memory).unwrap();
        nest.verify().unwrap();
        text += &nest.to_string();
    }
    text
}

#[test]
fn a_product_takes_its_bias_and_activation_along() {
    insta::assert_snapshot!(nests("\
graph dense(%0, %1, %2) -> (Y = %6)
%0 = input X : f32[5, 7]
%1 = input W : f32[7, 3]
%2 = input B : f32[3]
%3 = contract sum [m, n] (m: 0..5, n: 0..3, k: 0..7) { v0 = %0[m, k]; v1 = %1[k, n]; v2 = mul v0 v1; yield v2 } : f32[5, 3]
%4 = add %3 %2 : f32[5, 3]
%5 = constant 0.0 : f32[]
%6 = max %4 %5 : f32[5, 3]  # Y
"));
}

#[test]
fn padding_becomes_a_condition_on_the_load() {
    insta::assert_snapshot!(nests(
        "\
graph blur(%0) -> (Y = %2)
%0 = input X : f32[8]
%1 = contract assign [i + 1] (i: 0..8) { v0 = %0[i]; yield v0 } : f32[10]
%2 = contract sum [i] (i: 0..8, k: 0..3) { v0 = %1[i + k]; yield v0 } : f32[8]  # Y
"
    ));
}

#[test]
fn a_transposed_convolution_reduces_over_a_window() {
    insta::assert_snapshot!(nests(
        "\
graph up(%0, %1) -> (Y = %2)
%0 = input X : f32[50]
%1 = input W : f32[3]
%2 = contract sum [2*i + k] (i: 0..50, k: 0..3) { v0 = %0[i]; v1 = %1[k]; v2 = mul v0 v1; yield v2 } : f32[101]  # Y
"
    ));
}

#[test]
fn skipped_places_of_a_maximum_are_zero() {
    insta::assert_snapshot!(nests(
        "\
graph skip(%0) -> (Y = %1)
%0 = input X : f32[6, 4]
%1 = contract max [2*i] (i: 0..3, j: 0..4) { v0 = %0[2*i, j]; yield v0 } : f32[6]  # Y
"
    ));
}

#[test]
fn elementwise_axes_merge_unless_a_broadcast_tells_them_apart() {
    insta::assert_snapshot!(nests(
        "\
graph scale(%0, %1) -> (Y = %2)
%0 = input X : f32[2, 3, 5]
%1 = input S : f32[5]
%2 = mul %0 %1 : f32[2, 3, 5]  # Y
"
    ));
}

#[test]
fn a_runtime_index_is_clamped_and_checked() {
    insta::assert_snapshot!(nests(
        "\
graph embed(%0, %1) -> (Y = %2)
%0 = input W : f32[10, 4]
%1 = input T : i64[3]
%2 = contract sum [b, d] (b: 0..3, d: 0..4) { @0 = %1[b]; v0 = %0[@0, d]; yield v0 } : f32[3, 4]  # Y
"
    ));
}
