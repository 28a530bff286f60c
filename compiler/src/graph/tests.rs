use std::collections::BTreeSet;

use super::{Graph, Op};
use crate::dtype::DType;
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;

/// Parses, verifies and prints a graph. Returns the text, or the first error.
fn round_trip(text: &str) -> String {
    let graph = match Graph::parse(text) {
        Ok(graph) => graph,
        Err(error) => return error.to_string(),
    };
    match graph.verify() {
        Ok(()) => {
            assert_eq!(Graph::parse(&graph.to_string()).as_ref(), Ok(&graph));
            graph.to_string()
        }
        Err(error) => error,
    }
}

#[test]
fn the_text_form_of_every_operation() {
    let text = "\
graph all(%0, %1) -> (Y = %7, \"a b\" = %12, Y' = %7)
%0 = input X : f32[2, 3]
%1 = input \"the \\\"state\\\"\" : u32[3, 2048]
%2 = constant -0.5 : f32[]
%3 = elements [1.0, inf, NaN] : f32[3]
%4 = index 1 : i32[2, 3]
%5 = mul %0 %3 : f32[2, 3]  # Scaled
%6 = cmp_lt %5 %2 : bool[2, 3]
%7 = select %6 %5 %2 : f32[2, 3]
%8 = bit_not %4 : i32[2, 3]  # Wq in Dense at encoder[3].ff1
%9 = cast %8 : f16[2, 3]  # \"a b\" in relu
%10 = reshape %9 : f16[6, 1]
%11 = prng_value %1 : f32[]
%12 = prng_state 1 %1 : u32[3, 2048]
%13 = weight encoder[3].attention.Wq : f32[2]
%14 = weight W : f32[]
";
    assert_eq!(round_trip(text), text);
}

#[test]
fn the_text_form_of_contractions() {
    let text = "\
graph contractions(%0, %1, %2) -> (A = %3, B = %4, C = %5, D = %6)
%0 = input X : f32[5]
%1 = input I : u8[4]
%2 = input Z : f32[3]
%3 = contract sum [i] (i: 0..3, j: -1..2) where i + j - 1 >= 0, -j >= 0 default %2 { v0 = %0[i + j]; v1 = mul v0 v0; yield v1 } : f32[3]
%4 = contract assign [b] (b: 0..4) { @0 = %1[b]; v0 = %0[b - 1 + @0]; v1 = index 2*b; v2 = 1 : i32; v3 = cmp_lt v1 v2; yield v0 v3 } : f32[4]
%5 = contract argmax [] (i: 0..5) { @0 = %1[i]; v0 = @0; v1 = %0[@0]; v2 = cast v0 : f32; v3 = select v2 v1 v2; yield v1 } : i32[]
%6 = contract max [] () { v0 = %0[0]; v1 = %0:1[1]; v2 = bit_and v0 v1; @2 = %0[4]; yield v1 } : f32[]
";
    insta::assert_snapshot!(round_trip(text), @"%5: v3: the condition of select is f32, not bool");
    let mended = text.replace("v3 = select v2 v1 v2; ", "");
    insta::assert_snapshot!(round_trip(&mended), @"%6: v2: bit_and does not take f32");
    let mended = mended.replace("bit_and", "max");
    assert_eq!(round_trip(&mended), mended);
}

#[test]
fn errors_of_the_text() {
    let node =
        |line: &str| round_trip(&format!("graph g(%0) -> ()\n%0 = input X : f32[2]\n{line}"));
    insta::assert_snapshot!(node("%1 = sine %0 : f32[2]"), @"line 3: `sine` is not an operation");
    insta::assert_snapshot!(node("%1 = sin %7 : f32[2]"), @"line 3: %7 is not computed before it is used");
    insta::assert_snapshot!(node("%1 = sin %0 : f31[2]"), @"line 3: `f31` is not an element type");
    insta::assert_snapshot!(node("%1 = constant 1.5 : i32[]"), @"line 3: `1.5` is not a value of type i32");
    insta::assert_snapshot!(node("%1 = contract sum [k] (i: 0..3) { yield }"), @"line 3: `k` is not a variable here");
    insta::assert_snapshot!(node("%1 = contract sum [] (i: 0..2) { v0 = %0[i]; v2 = "), @"line 3: expected `v1` at `v2 = `");
    insta::assert_snapshot!(node("%0 = input Y : f32[]"), @"line 3: %0 is computed twice");
    insta::assert_snapshot!(node("\u{e9}"), @"line 3: expected a node at `é`");
    insta::assert_snapshot!(round_trip("graph \"g"), @"line 1: a quoted name has no end");
    insta::assert_snapshot!(round_trip("graph g() -> (Y = %0)"), @"line 1: the header names %0, which is not computed");
}

#[test]
fn the_verifier_holds_types_and_shapes() {
    let node = |line: &str| {
        round_trip(&format!(
            "graph g(%0, %1) -> ()\n%0 = input X : f32[2, 3]\n%1 = input I : i32[2]\n%2 = {line}"
        ))
    };
    insta::assert_snapshot!(node("add %0 %1 : f32[2, 3]"), @"%2: the shapes [2, 3], [2] do not broadcast");
    insta::assert_snapshot!(node("add %1 %1 : i32[3]"), @"%2: it is marked i32[3], but computes i32[2]");
    insta::assert_snapshot!(node("add %1 : i32[2]"), @"%2: the operation does not take 1 operands");
    insta::assert_snapshot!(node("reshape %0 : f32[5]"), @"%2: f32[2, 3] does not have as many elements as f32[5]");
    insta::assert_snapshot!(node("index 2 : i32[3, 3]"), @"%2: i32[3, 3] has no axis 2");
    insta::assert_snapshot!(node("prng_value %1 : f32[3]"), @"%2: the state of a random generator is u32[3, 2048], not i32[2]");
    insta::assert_snapshot!(node("input X : f32[]"), @"%2: input X is not among the graph's inputs");
    insta::assert_snapshot!(node("weight W : f32[]\n%3 = weight W : f32[]"), @"%3: a second weight has the path W");
    insta::assert_snapshot!(node("elements [] : bool[9223372036854775807, 2]"), @"%2: bool[9223372036854775807, 2] is larger than memory can be");
    insta::assert_snapshot!(node("contract sum [i] (i: 0..2) { v0 = %0[i]; yield v0 } : f32[2]"), @"%2: access 0 has 1 coordinates in f32[2, 3]");
    insta::assert_snapshot!(node("contract sum [i] (i: 0..2, i: 0..2) { v0 = %0[i, i]; yield v0 } : f32[2]"), @"%2: `i` is not an index name of its own");
    insta::assert_snapshot!(node("contract sum [] (i: 0..2) { v0 = %0[i, i]; yield v0 } : f16[]"), @"%2: the body gives f32, but the node is f16[]");
    insta::assert_snapshot!(node("contract argmin [] (i: 0..2) { v0 = %0[i, i]; yield v0 } : f32[]"), @"%2: a position is i32, not f32");
    insta::assert_snapshot!(node("contract sum [] (i: 0..2) { v0 = %0[i, @0]; yield v0 } : f32[]"), @"%2: access 0 is indexed by @0, not an earlier one of an integer type");
    insta::assert_snapshot!(node("contract sum [] (i: 0..2) default %1 { v0 = %0[i, i]; yield v0 } : f32[]"), @"%2: the default is i32[2], not f32[]");
    insta::assert_snapshot!(node("contract sum [] (i: 2..0) { v0 = %0[i, i]; yield v0 } : f32[]"), @"%2: the range 2..0 of i is not one");
    insta::assert_snapshot!(node("contract sum [] (i: 0..9) { v0 = %0[9223372036854775807*i, i]; yield v0 } : f32[]"), @"%2: an index expression has an unknown variable or does not fit 64-bit integers");
}

#[test]
fn weights_are_listed_once_each_in_node_order() {
    let ty = TensorType::scalar(DType::F32);
    let mut graph = Graph::new("g");
    let weights = ["b", "a"].map(|path| graph.add(Op::Weight(path.into()), ty.clone(), &[]));
    assert_eq!((graph.weights.as_slice(), graph.verify()), (weights.as_slice(), Ok(())));
    for wrong in [vec![weights[1], weights[0]], vec![weights[0], weights[0]], vec![weights[0]]] {
        assert!(Graph { weights: wrong, ..graph.clone() }.verify().is_err());
    }
    graph.remove(weights[0]);
    assert_eq!((graph.weights.as_slice(), graph.verify()), (&weights[1..], Ok(())));
}

#[test]
fn edges_follow_the_operands() {
    let text = "\
graph g(%0, %1) -> (Y = %3)
%0 = input X : f32[3]
%1 = input Z : f32[3]
%2 = mul %0 %0 : f32[3]
%3 = sub %2 %0 : f32[3]
";
    let mut graph = Graph::parse(text).unwrap();
    let [x, z, product, difference] = graph.topological()[..] else { panic!("four nodes") };
    assert_eq!(graph.users(x), [product, product, difference]);
    // The new node keeps its own operand.
    graph.replace(x, product);
    assert_eq!(graph.operands(product), [x, x]);
    assert_eq!(graph.operands(difference), [product, product]);
    graph.replace(x, z);
    assert_eq!((graph.operands(product), graph.users(x).len()), (&[z, z][..], 0));
    graph.set(product, Op::Binary(BinaryOp::Add), &[z, x]);
    assert_eq!((graph.users(z), graph.users(x)), (vec![product], vec![product]));
    assert_eq!(graph.verify(), Ok(()));
    graph.remove(x);
    assert_eq!(graph.verify().unwrap_err(), "the edges into `%2` are not its operands");
}

#[test]
fn a_part_has_what_its_outputs_need() {
    let mut graph = Graph::parse(
        "\
graph g(%0, %1) -> (A = %4, B = %6)
%0 = input X : f32[3]
%1 = input Unused : f32[3]
%2 = weight W : f32[3]
%3 = exp %0 : f32[3]  # E in Layer at layer
%4 = mul %3 %3 : f32[3]
%5 = neg %0 : f32[3]
%6 = sub %5 %3 : f32[3]
",
    )
    .unwrap();
    let output =
        |name: &str| graph.outputs.iter().find(|(output, _)| output == name).cloned().unwrap();
    let part = graph.part(vec![output("A")]);
    assert_eq!(part.verify(), Ok(()));
    insta::assert_snapshot!(part, @"
    graph g(%0) -> (A = %2)
    %0 = input X : f32[3]
    %1 = exp %0 : f32[3]  # E in Layer at layer
    %2 = mul %1 %1 : f32[3]
    ");
    let mut whole = graph.part(vec![output("A"), output("B")]);
    let needed = graph.needed(graph.outputs.iter().map(|(_, id)| *id));
    graph.keep(&needed);
    assert_eq!(whole, graph);
    let names = |graph: &Graph| graph.inputs.len() + graph.weights.len();
    assert_eq!((names(&graph), graph.verify()), (1, Ok(())));
    whole.keep(&BTreeSet::new());
    assert_eq!(whole.ids().count(), 0);
}
