use crate::dtype::DType;
use crate::graph::{Graph, Op};
use crate::tensor::TensorType;

/// A running sum over sequences along axis 1, which also yields each partial sum.
const SUMS: &str = "\
graph sums(%0, %1, %2) -> (Last = %4, All = %5)
%0 = input X : f32[2, 5]
%1 = input Start : f32[2]
%2 = input Weight : f32[]
%3 = scan 5 sequences (%0 along 1) carries (%1) captures (%2) yields (along 1) {
    graph step(%0, %1, %2) -> (H = %4, All = %4)
    %0 = input x : f32[2]
    %1 = input h : f32[2]
    %2 = input w : f32[]
    %3 = mul %1 %2 : f32[2]
    %4 = add %0 %3 : f32[2]  # H
} : f32[2]
%4 = result 0 %3 : f32[2]
%5 = result 1 %3 : f32[2, 5]
";

fn verified(text: &str) -> String {
    match Graph::parse(text) {
        Ok(graph) => graph.verify().err().unwrap_or_else(|| graph.to_string()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_text_form_parses_back() {
    assert_eq!(verified(SUMS), SUMS);
    let graph = Graph::parse(SUMS).unwrap();
    assert_eq!(Graph::parse(&graph.to_string()).as_ref(), Ok(&graph));
    // A nested scan: sums of rows; the outer scan carries nothing.
    let nested = "\
graph nested(%0) -> (Y = %2)
%0 = input X : f32[3, 5]
%1 = scan 3 sequences (%0 along 0) carries () captures () yields (along 0) {
    graph row(%0) -> (\"the sum\" = %3)
    %0 = input x : f32[5]
    %1 = constant 0.0 : f32[]
    %2 = scan 5 sequences (%0 along 0) carries (%1) captures () yields () {
        graph step(%0, %1) -> (h = %2)
        %0 = input x : f32[]
        %1 = input h : f32[]
        %2 = add %0 %1 : f32[]
    } : f32[]
    %3 = result 0 %2 : f32[]
} : f32[3]
%2 = result 0 %1 : f32[3]
";
    assert_eq!(verified(nested), nested);
    insta::assert_snapshot!(verified(&nested.replace("add %0 %1", "add %0 %7")), @"line 11: %7 is not computed before it is used");
    insta::assert_snapshot!(verified(&nested.replace("carries (%1)", "carries (%0)")), @"%1: in its body, %2: a carry is f32[5] outside, but f32[] in the body");
}

#[test]
fn the_verifier_holds_the_types_of_operands_and_results() {
    let with = |from: &str, to: &str| {
        assert!(SUMS.contains(from));
        verified(&SUMS.replace(from, to))
    };
    insta::assert_snapshot!(with("captures (%2)", "captures ()"), @"%3: its body has 3 inputs, but the scan has 2 operands");
    insta::assert_snapshot!(with("%2 = input w : f32[]", "%2 = input w : f32[1]"), @"%3: a capture is f32[] outside, but f32[1] in the body");
    insta::assert_snapshot!(with("%0 along 1", "%0 along 2"), @"%3: a sequence f32[2, 5] does not have 5 steps along axis 2");
    insta::assert_snapshot!(with("scan 5", "scan 4"), @"%3: a sequence f32[2, 5] does not have 4 steps along axis 1");
    insta::assert_snapshot!(with("%0 = input x : f32[2]", "%0 = input x : f32[]"), @"%3: a step of the sequence f32[2, 5] is f32[2], not f32[]");
    insta::assert_snapshot!(with("carries (%1)", "carries (%2)"), @"%3: a carry is f32[] outside, but f32[2] in the body");
    insta::assert_snapshot!(with("(H = %4, All", "(H = %2, All"), @"%3: a carry is f32[2], but its next value is f32[]");
    insta::assert_snapshot!(with("yields (along 1)", "yields (along 2)"), @"%3: All, which is f32[2], is stacked along axis 2");
    insta::assert_snapshot!(with("yields (along 1)", "yields ()"), @"%3: its body has 2 outputs");
    insta::assert_snapshot!(with("} : f32[2]", "} : f32[2, 5]"), @"%3: it is marked f32[2, 5], but its first result is f32[2]");
    insta::assert_snapshot!(with("result 1", "result 2"), @"%5: the scan has no result 2");
    insta::assert_snapshot!(with("result 1", "result 0"), @"%5: it is marked f32[2, 5], but the scan's result is f32[2]");
    insta::assert_snapshot!(with("result 1 %3", "result 1 %0"), @"%5: a result is that of one scan");
    insta::assert_snapshot!(with("%4 = result 0 %3 : f32[2]", "%4 = neg %3 : f32[2]"), @"%3: something else than its results reads the scan");
    insta::assert_snapshot!(with("Last = %4", "Last = %3"), @"%3: something else than its results reads the scan");
    insta::assert_snapshot!(with("carries (%1) captures (%2) yields (along 1)", "carries () captures (%1, %2) yields ()"), @"%3: its body has 2 outputs");
    insta::assert_snapshot!(with("%3 = mul %1 %2 : f32[2]", "%3 = weight W : f32[2]"), @"%3: in its body, a weight, which must be captured");
    insta::assert_snapshot!(with("input w", "input h"), @"%3: in its body, %2: a second input has the name h");
}

#[test]
fn scans_are_added_with_their_results() {
    let text = Graph::parse(SUMS).unwrap();
    let scan = text.ids().find_map(|id| match &text.node(id).op {
        Op::Scan(scan) => Some((**scan).clone()),
        _ => None,
    });
    let mut graph = Graph::new("sums");
    let input = |graph: &mut Graph, name: &str, shape: &[usize]| {
        graph.add(Op::Input(name.into()), TensorType::new(DType::F32, shape), &[])
    };
    let operands = [("X", &[2, 5][..]), ("Start", &[2]), ("Weight", &[])]
        .map(|(n, s)| input(&mut graph, n, s));
    let results = graph.add_scan(scan.unwrap(), &operands);
    graph.outputs = vec![("Last".into(), results[0]), ("All".into(), results[1])];
    assert_eq!((graph.verify(), &graph), (Ok(()), &text));
}
