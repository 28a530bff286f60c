//! Eliminates common subexpressions.
//!
//! Example: `%2 = mul %0 %1`, `%3 = mul %1 %0`, `%4 = sub %2 %3` becomes `%4 = sub %2 %2`. `%3` is
//! left to [`super::dead`].
//!
//! Why it is sound: a node is a function of its operation, type and operands alone, and operands
//! are shared before their readers. The operands of commutative operations are compared regardless
//! of their order, which changes no bit (NaN payloads aside). Index names of contractions have no
//! meaning, so they are ignored. Equal operands of a scan become one, and so do equal stacked
//! results.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::graph::scan::Yield;
use crate::graph::{Graph, NodeId, Op};
use crate::tensor::TensorType;

/// Runs the pass; see the module's documentation.
#[expect(clippy::mutable_key_type, reason = "the budget of a scan's body is no part of its hash")]
pub fn share(graph: &mut Graph) {
    let mut first: HashMap<(Op, TensorType, Vec<NodeId>), NodeId> = HashMap::new();
    for id in graph.topological() {
        share_sides(graph, id);
        match first.get(&key(graph, id)) {
            Some(&earlier) => graph.stand_in(id, earlier),
            None => {
                first.insert(key(graph, id), id);
            }
        }
    }
}

/// Shares nodes within the body of a scan, and its operands and results.
fn share_sides(graph: &mut Graph, id: NodeId) {
    let Some(mut parts) = graph.take_scan(id) else { return };
    let mut seen: HashMap<(NodeId, Option<usize>), NodeId> = HashMap::new();
    let sequences = parts.sequences.iter().map(|s| ((s.whole, Some(s.axis)), s.slice));
    let captures = parts.captures.iter().map(|c| ((c.outside, None), c.inside));
    for (key, inside) in sequences.chain(captures).collect::<Vec<_>>() {
        match seen.entry(key) {
            Entry::Occupied(first) => parts.replace(inside, *first.get()),
            Entry::Vacant(place) => _ = place.insert(inside),
        }
    }
    let first: Vec<NodeId> = seen.into_values().collect();
    parts.sequences.retain(|sequence| first.contains(&sequence.slice));
    parts.captures.retain(|capture| first.contains(&capture.inside));
    parts.list();
    share(&mut parts.body);
    parts.refresh();
    for number in (1..parts.yields.len()).rev() {
        let same = |earlier: &Yield| {
            (earlier.axis, earlier.value) == (parts.yields[number].axis, parts.yields[number].value)
        };
        if let Some(earlier) = parts.yields[..number].iter().position(same) {
            let results = parts.yields.remove(number).results;
            parts.yields[earlier].results.extend(results);
        }
    }
    graph.put_scan(id, parts);
}

/// Returns a key that is equal for two nodes only if they compute the same value.
fn key(graph: &Graph, id: NodeId) -> (Op, TensorType, Vec<NodeId>) {
    let node = graph.node(id);
    let mut op = node.op.clone();
    let mut operands = graph.operands(id).to_vec();
    match &mut op {
        Op::Binary(op) if op.is_commutative() => operands.sort_unstable(),
        Op::Contraction(contraction) => {
            contraction.indices.iter_mut().for_each(|index| index.name.clear())
        }
        Op::Scan(scan) => scan.body.forget_names(),
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

    #[test]
    fn equal_sides_of_a_scan_and_equal_scans_become_one() {
        let scan = |name: &str| {
            format!(
                "scan 2 sequences (%0 along 0, %0 along 0) carries (%1) captures (%1, %1) yields (along 0, along 0) {{
    graph {name}(%0, %1, %2, %3, %4) -> (h = %7, p = %5, q = %6)
    %0 = input {name} : f32[]
    %1 = input x2 : f32[]
    %2 = input h : f32[]
    %3 = input c : f32[]
    %4 = input c2 : f32[]
    %5 = mul %0 %3 : f32[]
    %6 = mul %4 %1 : f32[]
    %7 = add %5 %2 : f32[]
}} : f32[]"
            )
        };
        let (first, second) = (scan("one"), scan("two"));
        insta::assert_snapshot!(after(&[share, dead], &format!("\
graph g(%0, %1) -> (H = %4, P = %5, Q = %6)
%0 = input X : f32[2]
%1 = input H : f32[]
%2 = {first}
%3 = {second}
%4 = result 0 %2 : f32[]
%5 = result 1 %2 : f32[2]
%6 = result 2 %3 : f32[2]
")), @"
        graph g(%0, %1) -> (H = %3, P = %4, Q = %4)
        %0 = input X : f32[2]
        %1 = input H : f32[]
        %2 = scan 2 sequences (%0 along 0) carries (%1) captures (%1) yields (along 0) {
            graph one(%0, %1, %2) -> (h = %4, p = %3)
            %0 = input one : f32[]
            %1 = input h : f32[]
            %2 = input c : f32[]
            %3 = mul %0 %2 : f32[]
            %4 = add %3 %1 : f32[]
        } : f32[]
        %3 = result 0 %2 : f32[]
        %4 = result 1 %2 : f32[2]
        ");
    }
}
