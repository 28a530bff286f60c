//! Removes what no output needs. Inputs and weights stay: they are what a caller may give.
//!
//! Example: of `%1 = exp %0`, `%2 = neg %0` with the output `Y = %2`, `%1` goes.
//!
//! Why it is sound: nodes have no effect but their value.

use std::collections::HashSet;

use crate::graph::{Graph, NodeId};

pub fn dead(graph: &mut Graph) {
    let mut needed: HashSet<NodeId> = graph.inputs.iter().chain(&graph.weights).copied().collect();
    let mut pending: Vec<NodeId> = graph.outputs.iter().map(|(_, id)| *id).collect();
    while let Some(id) = pending.pop() {
        if needed.insert(id) {
            pending.extend(graph.operands(id));
        }
    }
    for id in graph.topological() {
        if !needed.contains(&id) {
            graph.remove(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dead;
    use super::super::testing::after;

    #[test]
    fn only_what_an_output_needs_stays() {
        insta::assert_snapshot!(after(&[dead], "\
graph g(%0, %1) -> (Y = %5)
%0 = input X : f32[3]
%1 = input Unused : f32[3]
%2 = weight dense.Unused : f32[3]
%3 = exp %0 : f32[3]
%4 = neg %3 : f32[3]
%5 = neg %0 : f32[3]
"), @"
    graph g(%0, %1) -> (Y = %3)
    %0 = input X : f32[3]
    %1 = input Unused : f32[3]
    %2 = weight dense.Unused : f32[3]
    %3 = neg %0 : f32[3]
    ");
    }
}
