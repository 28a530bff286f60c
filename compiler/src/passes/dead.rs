//! Removes nodes that no output depends on. Inputs and weights stay, because callers may provide
//! them.
//!
//! Example: with the output `Y = %2`, `%1 = exp %0` is removed and `%2 = neg %0` stays.
//!
//! In a scan, unread results are removed, then the nodes of the body that only these need, and then
//! the operands that are no longer read. A carry stays if a needed result depends on it, in the
//! same step or in a later one.
//!
//! Why it is sound: nodes have no effect other than their value.

use crate::graph::{Graph, NodeId, NodeSet};

/// Runs the pass; see the module's documentation.
pub fn dead(graph: &mut Graph) {
    let mut needed: NodeSet = graph.inputs.iter().chain(&graph.weights).copied().collect();
    needed.extend(graph.outputs.iter().map(|(_, id)| *id));
    // Readers are visited before their operands.
    for id in graph.topological().into_iter().rev() {
        if needed.contains(id) {
            narrow(graph, id);
            needed.extend(graph.operands(id));
        } else {
            graph.remove(id);
        }
    }
}

/// Removes the parts of a scan that its remaining results do not need.
fn narrow(graph: &mut Graph, id: NodeId) {
    let Some(mut parts) = graph.take_scan(id) else { return };
    parts.yields.retain(|value| !value.results.is_empty());
    let wanted =
        parts.carries.iter().filter(|carry| !carry.results.is_empty()).map(|carry| carry.next);
    let mut pending: Vec<NodeId> =
        wanted.chain(parts.yields.iter().map(|value| value.value)).collect();
    let mut reached = NodeSet::new();
    while let Some(node) = pending.pop() {
        if reached.insert(node) {
            pending.extend(parts.body.operands(node));
            pending.extend(
                parts.carries.iter().find(|carry| carry.before == node).map(|carry| carry.next),
            );
        }
    }
    parts.carries.retain(|carry| !carry.results.is_empty() || reached.contains(carry.before));
    parts.list_outputs();
    dead(&mut parts.body);
    let body = &parts.body;
    let is_read = |input: NodeId| !body.users(input).is_empty() || body.is_output(input);
    parts.sequences.retain(|sequence| is_read(sequence.slice));
    parts.captures.retain(|capture| is_read(capture.inside));
    graph.put_scan(id, parts);
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

    #[test]
    fn a_scan_keeps_what_its_results_need() {
        // `b` depends on `a`, which the result needs. `c`, its sequence and the capture are not
        // needed.
        insta::assert_snapshot!(after(&[dead], "\
graph g(%0, %1, %2, %3, %4) -> (All = %7)
%0 = input X : f32[4]
%1 = input Y : f32[4]
%2 = input A : f32[]
%3 = input B : f32[]
%4 = input C : f32[]
%5 = exp %4 : f32[]
%6 = scan 4 sequences (%1 along 0, %0 along 0) carries (%2, %3, %4) captures (%5) yields (along 0, along 0) {
    graph step(%0, %1, %2, %3, %4, %5) -> (a = %6, b = %7, c = %8, unread = %9, all = %3)
    %0 = input y : f32[]
    %1 = input x : f32[]
    %2 = input a : f32[]
    %3 = input b : f32[]
    %4 = input c : f32[]
    %5 = input e : f32[]
    %6 = mul %1 %2 : f32[]
    %7 = add %2 %3 : f32[]
    %8 = add %0 %4 : f32[]
    %9 = mul %8 %5 : f32[]
} : f32[]
%7 = result 4 %6 : f32[4]
%8 = result 2 %6 : f32[]
"), @"
        graph g(%0, %1, %2, %3, %4) -> (All = %6)
        %0 = input X : f32[4]
        %1 = input Y : f32[4]
        %2 = input A : f32[]
        %3 = input B : f32[]
        %4 = input C : f32[]
        %5 = scan 4 sequences (%0 along 0) carries (%2, %3) captures () yields (along 0) {
            graph step(%0, %1, %2) -> (a = %3, b = %4, all = %2)
            %0 = input x : f32[]
            %1 = input a : f32[]
            %2 = input b : f32[]
            %3 = mul %0 %1 : f32[]
            %4 = add %1 %2 : f32[]
        } : f32[]
        %6 = result 2 %5 : f32[4]
        ");
    }
}
