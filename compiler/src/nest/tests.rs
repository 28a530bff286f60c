use crate::fusion::{Group, attend, finish_rows, fuse, merge};
use crate::graph::{Graph, NodeId};
use crate::nest::{Nest, Window};
use crate::passes::dead;
use crate::profile::Profile;

mod rows;

/// Returns a graph's groups, merged as if every kernel took no time.
fn groups(graph: &Graph) -> Vec<Group> {
    let (profile, time) = (Profile::generic(), |_: &Nest| Some(0.0));
    let groups = merge(attend(fuse(graph, &profile), &profile, &time), &profile);
    finish_rows(groups, &profile, &time).list
}

/// Returns the nests of a graph's groups as text.
fn nests(nodes: &str) -> String {
    let mut graph = Graph::parse(nodes).unwrap();
    graph.verify().unwrap();
    dead(&mut graph);
    let groups = groups(&graph);
    let roots: Vec<_> = groups.iter().flat_map(|g| g.roots.clone()).collect();
    let mut text = String::new();
    for group in &groups {
        let whole = |id| Window::whole(&graph.node(id).ty);
        let in_memory =
            |id| (graph.node(id).op.is_source() || roots.contains(&id)).then(|| whole(id));
        let (nest, _) = build(&graph, group, &in_memory);
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
"), @r"
    nest y [m: 5, n: 3] sum [k: 7]
      in0: f32[5, 7]
      in1: f32[7, 3]
      in2: f32[3]
      out0: f32[5, 3]
      body
        v0 = in0[7*m + k] : f32
        v1 = in1[n + 3*k] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = accumulator : f32
        v1 = in2[n] : f32
        v2 = add v0 v1 : f32
        v3 = 0.0 : f32
        v4 = max v2 v3 : f32
        yield v4
    ");
}

/// A row that gives `j` without a division comes first; divisors are positive.
#[test]
fn places_with_negative_factors() {
    assert!(
        nests(
            "\
graph g(%0) -> (G = %1)
%0 = input S : f32[9]
%1 = contract sum [2*j, -j + 8] (j: 0..9) { v0 = %0[j]; yield v0 } : f32[17, 9]  # G
"
        )
        .contains("in0[-i1 + 8]")
    );
    let halves = nests(
        "\
graph g(%0) -> (G = %1)
%0 = input S : f32[9]
%1 = contract sum [-2*j + 16] (j: 0..9) { v0 = %0[j]; yield v0 } : f32[17]  # G
",
    );
    assert!(halves.contains("/ 2") && !halves.contains("/ -2"), "{halves}");
}

/// A derived variable without axes is a constant: with `2*j + 2` in 0..1, `j` is -1.
#[test]
fn derived_variables_of_no_axis_are_numbers() {
    let nest = nests(
        "\
graph g(%0) -> (G = %1)
%0 = input A : f32[9]
%1 = contract sum [2*j + 2] (j: -1..0) { v0 = %0[j + 3]; yield v0 } : f32[1]  # G
",
    );
    assert!(nest.contains("in0[2]") && !nest.contains("floor"), "{nest}");
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
    ), @r"
    nest y [i: 8] sum [k: 3]
      in0: f32[8]
      out0: f32[8]
      body
        v0 = in0[i + k - 1] if -i - k + 8 >= 0 and i + k - 1 >= 0 : f32
        yield v0
      epilogue
        v0 = accumulator : f32
        yield v0
    ");
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
    ), @r"
    nest y [i0: 101] sum [r0: 2]
      in0: f32[50]
      in1: f32[3]
      out0: f32[101]
      q0 = floor((-i0 + 2) / 2)
      where -r0 + q0 + 49 >= 0
      where r0 - q0 >= 0
      where i0 - 2*r0 + 2*q0 >= 0
      body
        v0 = in0[r0 - q0] : f32
        v1 = in1[i0 - 2*r0 + 2*q0] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = accumulator : f32
        yield v0
    ");
}

/// The window would be as wide as the image, so taps outside it are guarded. Narrowing the window
/// would make a separate class of each place.
#[test]
fn a_dilated_kernel_on_a_small_image_keeps_its_taps() {
    insta::assert_snapshot!(nests(
        "\
graph dilated(%0, %1) -> (Y = %2)
%0 = input X : f32[13]
%1 = input K : f32[3]
%2 = contract sum [x] (x: 0..13, j: 0..3) { v0 = %0[x + 12*j - 12]; v1 = %1[j]; v2 = mul v0 v1; yield v2 } : f32[13]  # Y
"
    ), @"
    nest y [x: 13] sum [j: 3]
      in0: f32[13]
      in1: f32[3]
      out0: f32[13]
      where -x - 12*j + 24 >= 0
      where x + 12*j - 12 >= 0
      body
        v0 = in0[x + 12*j - 12] : f32
        v1 = in1[j] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = accumulator : f32
        yield v0
    ");
}

#[test]
fn groups_are_an_axis_of_their_own() {
    insta::assert_snapshot!(nests(
        "\
graph grouped(%0, %1) -> (Y = %2)
%0 = input X : f32[5, 6]
%1 = input W : f32[3, 8]
%2 = contract sum [n, 4*g + f] (n: 0..5, g: 0..2, f: 0..4, c: 0..3) { v0 = %0[n, 3*g + c]; v1 = %1[c, 4*g + f]; v2 = mul v0 v1; yield v2 } : f32[5, 8]  # Y
"
    ), @"
    nest y [n: 5, i1: 2, i12: 4] sum [c: 3]
      in0: f32[5, 6]
      in1: f32[3, 8]
      out0: f32[5, 8]
      body
        v0 = in0[6*n + 3*i1 + c] : f32
        v1 = in1[4*i1 + i12 + 8*c] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = accumulator : f32
        yield v0
    ");
}

#[test]
fn each_phase_of_a_transposed_convolution_is_a_row_of_its_own() {
    insta::assert_snapshot!(nests(
        "\
graph up(%0, %1, %3) -> (Y = %2, Z = %4)
%0 = input X : f32[50, 7]
%1 = input W : f32[2, 3, 7]
%2 = contract sum [2*h + i, f] (h: 0..50, i: 0..2, f: 0..3, c: 0..7) { v0 = %0[h, c]; v1 = %1[i, f, c]; v2 = mul v0 v1; yield v2 } : f32[100, 3]  # Y
%3 = input V : f32[3, 3, 7]
%4 = contract sum [2*h + i - 1, f] (h: 0..50, i: 0..3, f: 0..3, c: 0..7) { v0 = %0[h, c]; v1 = %3[i, f, c]; v2 = mul v0 v1; yield v2 } : f32[100, 3]  # Z
"
    ), @"
    nest y [i0: 50, i0f: 6] sum [c: 7]
      in0: f32[50, 7]
      in1: f32[2, 3, 7]
      out0: f32[100, 3]
      body
        v0 = in0[7*i0 + c] : f32
        v1 = in1[7*i0f + c] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = accumulator : f32
        yield v0
    nest z [i0: 50, i01: 2, f: 3] sum [r0: 2, c: 7]
      in0: f32[50, 7]
      in1: f32[3, 3, 7]
      out0: f32[100, 3]
      where -i0 - r0 + 49 >= 0
      where i01 - 2*r0 + 1 >= 0
      body
        v0 = in0[7*i0 + 7*r0 + c] : f32
        v1 = in1[21*i01 + 7*f - 42*r0 + c + 21] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = accumulator : f32
        yield v0
    ");
}

#[test]
fn skipped_places_of_a_maximum_are_zero() {
    insta::assert_snapshot!(nests(
        "\
graph skip(%0) -> (Y = %1)
%0 = input X : f32[6, 4]
%1 = contract max [2*i] (i: 0..3, j: 0..4) { v0 = %0[2*i, j]; yield v0 } : f32[6]  # Y
"
    ), @r"
    nest y [i0: 6] max [j: 4]
      in0: f32[6, 4]
      out0: f32[6]
      q0 = floor((i0) / 2)
      where -i0 + 2*q0 >= 0
      body
        v0 = in0[j + 8*q0] : f32
        yield v0
      epilogue
        v0 = accumulator : f32
        v1 = written : bool
        v2 = 0.0 : f32
        v3 = select v1 v0 v2 : f32
        yield v3
    ");
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
    ), @r"
    nest y [i0i1: 6, i2: 5]
      in0: f32[2, 3, 5]
      in1: f32[5]
      out0: f32[2, 3, 5]
      each
        v0 = in0[5*i0i1 + i2] : f32
        v1 = in1[i2] : f32
        v2 = mul v0 v1 : f32
        yield v2
    ");
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
    ), @r"
    nest y [b: 3, d: 4] sum []
      in0: i64[3]
      in1: f32[10, 4]
      out0: f32[3, 4]
      body
        v0 = in0[b] : i64
        v1 = 0 : i64
        v2 = max v0 v1 : i64
        v3 = 9 : i64
        v4 = min v2 v3 : i64
        v5 = cmp_eq v4 v0 : bool
        v6 = cast v4 : i32
        v7 = in1[d + 4*v6] : f32
        yield v7 v5
      epilogue
        v0 = accumulator : f32
        yield v0
    ");
}

/// A value read at another place, here in reversed row order, is stored in memory.
#[test]
fn what_is_read_elsewhere_is_stored() {
    insta::assert_snapshot!(nests("\
graph shifted(%0) -> (Y = %3)
%0 = input X : f32[64, 10]
%1 = contract sum [i, 0] (i: 0..64, k: 0..10) { v0 = %0[i, k]; yield v0 } : f32[64, 1]  # Sum
%2 = contract assign [i, k] (i: 0..64, k: 0..10) { v0 = %0[i, k]; v1 = %1[63 - i, 0]; v2 = sub v0 v1; yield v2 } : f32[64, 10]
%3 = exp %2 : f32[64, 10]  # Y
"), @r"
    nest sum [i: 64] sum [k: 10]
      in0: f32[64, 10]
      out0: f32[64, 1]
      body
        v0 = in0[10*i + k] : f32
        yield v0
      epilogue
        v0 = accumulator : f32
        yield v0
    nest y [i0: 64, i1: 10]
      in0: f32[64, 10]
      in1: f32[64, 1]
      out0: f32[64, 10]
      each
        v0 = in0[10*i0 + i1] : f32
        v1 = in1[-i0 + 63] : f32
        v2 = sub v0 v1 : f32
        v3 = exp v2 : f32
        yield v3
    ");
}

fn build(
    graph: &Graph,
    group: &Group,
    memory: &dyn Fn(NodeId) -> Option<Window>,
) -> (Nest, Vec<NodeId>) {
    let whole = |id: &NodeId| (*id, vec![Window::whole(&graph.node(*id).ty)]);
    let roots: Vec<_> = group.roots.iter().map(whole).collect();
    super::build(graph, group.members(&roots), memory, &[]).unwrap()
}

/// Returns the name of the kernel that computes the last node.
fn name(nodes: &str) -> String {
    let graph = Graph::parse(nodes).unwrap();
    graph.verify().unwrap();
    let group = groups(&graph).pop().unwrap();
    let whole = |id| Window::whole(&graph.node(id).ty);
    let memory = |id| graph.node(id).op.is_source().then(|| whole(id));
    build(&graph, &group, &memory).0.name
}

#[test]
fn kernels_are_named_by_what_they_compute() {
    let chain = |names: [&str; 6]| {
        let line =
            |(n, name): (usize, &&str)| format!("%{} = neg %{n} : f32[2]  # {name}\n", n + 1);
        let nodes: String = names.iter().enumerate().map(line).collect();
        name(&format!("graph g(%0) -> (Y = %6)\n%0 = input X : f32[2]\n{nodes}"))
    };
    let f = "V in f";
    assert_eq!(chain([f, f, f, f, f, "Y in f"]), "f_y");
    assert_eq!(chain([f, f, f, f, f, "F in f"]), "f");
    assert_eq!(
        chain([f, f, f, f, f, "Scores' in MultiHeadAttention at encoder[3]"]),
        "f_multi_head_attention"
    );
    assert_eq!(
        chain(["V in Conv2D", "V in BatchNormalization", f, "V in relu", f, f]),
        "conv2d_batch_normalization_f_relu"
    );
    let many = ["V in a", "V in b", "V in c", "V in d", "V in e", "V in f"];
    assert_eq!(chain(many), "a_d_e_f");
    assert_eq!(chain(["A", "B", "C", "D", "E", "MyValue"]), "my_value");
    assert_eq!(chain(["A", "B", "C", "D", "E", "\"1 + 1\""]), "value1___1");
}
