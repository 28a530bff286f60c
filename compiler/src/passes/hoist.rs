//! Hoists loop-invariant nodes out of a scan: computes them once, before the scan, rather than in
//! each step.
//!
//! Example: a body's `%4 = mul %2 %3` of two captures is computed outside, and captured in turn. So
//! is a whole scan in the body, if it reads only captures.
//!
//! Only nodes that cost something in each step move: aggregations, random number generators, scans,
//! and elementwise operations that are no larger than an operand. Constants and views stay, because
//! they cost nothing where they are read.
//!
//! Why it is sound: a node is a function of its operands. A node hoisted from a scan without steps
//! is computed in vain, which has no effect.

use crate::graph::scan::Parts;
use crate::graph::{Graph, NodeId, NodeMap, NodeSet, Op};
use crate::nest::is_view;

/// Runs the pass; see the module's documentation.
pub fn hoist(graph: &mut Graph) {
    for id in graph.topological() {
        let Some(mut parts) = graph.take_scan(id) else { continue };
        hoist(&mut parts.body);
        hoist_from(graph, &mut parts);
        graph.put_scan(id, parts);
    }
}

/// Moves nodes that do not depend on the step from the body to the surrounding graph.
fn hoist_from(graph: &mut Graph, parts: &mut Parts) {
    let body = &parts.body;
    let order = body.topological();
    let mut fixed: NodeSet = parts.captures.iter().map(|capture| capture.inside).collect();
    for &id in &order {
        let is_known =
            matches!(body.node(id).op, Op::Constant(_) | Op::Elements(_) | Op::Index { .. });
        let operands = body.operands(id);
        if is_known
            || !operands.is_empty() && operands.iter().all(|operand| fixed.contains(*operand))
        {
            fixed.insert(id);
        }
    }
    let worthwhile: Vec<NodeId> =
        order.iter().copied().filter(|id| fixed.contains(*id) && costs(body, *id)).collect();
    let mut moved = NodeSet::new();
    let mut pending = worthwhile.clone();
    while let Some(id) = pending.pop() {
        if moved.insert(id) {
            pending.extend(body.operands(id));
        }
    }
    let stays = |id: &NodeId| {
        body.is_output(*id) || body.users(*id).iter().any(|user| !moved.contains(*user))
    };
    let results: Vec<NodeId> = worthwhile.into_iter().filter(stays).collect();
    if results.is_empty() {
        return;
    }
    let mut outside: NodeMap<NodeId> =
        parts.captures.iter().map(|c| (c.inside, c.outside)).collect();
    for &id in order.iter().filter(|id| moved.contains(**id)) {
        if !outside.contains(id) {
            let operands: Vec<NodeId> =
                body.operands(id).iter().map(|operand| outside[*operand]).collect();
            let node = body.node(id).clone();
            let copy = graph.add(node.op, node.ty, &operands);
            let copied = graph.node_mut(copy);
            (copied.name, copied.origin, copied.span) = (node.name, node.origin, node.span);
            outside.insert(id, copy);
        }
    }
    for id in results {
        let node = parts.body.node(id).clone();
        let inside = parts.capture(outside[id], node.ty, node.name.as_deref().unwrap_or("hoisted"));
        parts.replace(id, inside);
    }
}

/// Returns whether computing a node in each step costs more than reading its value.
fn costs(body: &Graph, id: NodeId) -> bool {
    let elements = |id: NodeId| body.node(id).ty.elements();
    match &body.node(id).op {
        Op::Contraction(_) => !is_view(body, id),
        Op::PrngValue | Op::PrngState { .. } | Op::Result { .. } => true,
        Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast => {
            let is_stored =
                |id: NodeId| !matches!(body.node(id).op, Op::Constant(_) | Op::Index { .. });
            body.operands(id)
                .iter()
                .any(|&operand| is_stored(operand) && elements(operand) >= elements(id))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, hoist, share};

    #[test]
    fn what_is_the_same_in_each_step_is_computed_before() {
        insta::assert_snapshot!(after(&[hoist, share, dead], "\
graph g(%0, %1, %2) -> (H = %4, Sums = %5)
%0 = input X : f32[4, 3]
%1 = input H : f32[3]
%2 = input W : f32[3, 3]
%3 = scan 4 sequences (%0 along 0) carries (%1) captures (%2) yields (along 0) {
    graph step(%0, %1, %2) -> (h = %7, sums = %4)
    %0 = input x : f32[3]
    %1 = input h : f32[3]
    %2 = input w : f32[3, 3]
    %3 = exp %2 : f32[3, 3]  # E
    %4 = contract sum [i] (i: 0..3, j: 0..3) { v0 = %3[i, j]; yield v0 } : f32[3]  # Sums
    %5 = contract assign [i] (i: 0..3) { v0 = %2[i, 0]; yield v0 } : f32[3]
    %6 = mul %1 %5 : f32[3]
    %7 = add %0 %6 : f32[3]
} : f32[3]
%4 = result 0 %3 : f32[3]
%5 = result 1 %3 : f32[4, 3]
"), @"
        graph g(%0, %1, %2) -> (H = %6, Sums = %7)
        %0 = input X : f32[4, 3]
        %1 = input H : f32[3]
        %2 = input W : f32[3, 3]
        %3 = exp %2 : f32[3, 3]  # E
        %4 = contract sum [i] (i: 0..3, j: 0..3) { v0 = %3[i, j]; yield v0 } : f32[3]  # Sums
        %5 = scan 4 sequences (%0 along 0) carries (%1) captures (%2, %4) yields (along 0) {
            graph step(%0, %1, %2, %6) -> (h = %5, sums = %6)
            %0 = input x : f32[3]
            %1 = input h : f32[3]
            %2 = input w : f32[3, 3]
            %3 = contract assign [i] (i: 0..3) { v0 = %2[i, 0]; yield v0 } : f32[3]
            %4 = mul %1 %3 : f32[3]
            %5 = add %0 %4 : f32[3]
            %6 = input Sums : f32[3]
        } : f32[3]
        %6 = result 0 %5 : f32[3]
        %7 = result 1 %5 : f32[4, 3]
        ");
    }

    #[test]
    fn a_scan_that_reads_captures_alone_moves_as_a_whole() {
        insta::assert_snapshot!(after(&[hoist, share, dead], "\
graph g(%0, %1, %2) -> (H = %4)
%0 = input X : f32[4]
%1 = input Z : f32[]
%2 = input W : f32[3]
%3 = scan 4 sequences (%0 along 0) carries (%1) captures (%2, %1) yields () {
    graph step(%0, %1, %2, %3) -> (h = %7)
    %0 = input x : f32[]
    %1 = input h : f32[]
    %2 = input w : f32[3]
    %3 = input z : f32[]
    %4 = scan 3 sequences (%2 along 0) carries (%3) captures () yields () {
        graph inner(%0, %1) -> (s = %2)
        %0 = input w : f32[]
        %1 = input s : f32[]
        %2 = add %0 %1 : f32[]
    } : f32[]
    %5 = result 0 %4 : f32[]
    %6 = add %0 %1 : f32[]
    %7 = mul %5 %6 : f32[]
} : f32[]
%4 = result 0 %3 : f32[]
"), @"
        graph g(%0, %1, %2) -> (H = %6)
        %0 = input X : f32[4]
        %1 = input Z : f32[]
        %2 = input W : f32[3]
        %3 = scan 3 sequences (%2 along 0) carries (%1) captures () yields () {
            graph inner(%0, %1) -> (s = %2)
            %0 = input w : f32[]
            %1 = input s : f32[]
            %2 = add %0 %1 : f32[]
        } : f32[]
        %4 = result 0 %3 : f32[]
        %5 = scan 4 sequences (%0 along 0) carries (%1) captures (%4) yields () {
            graph step(%0, %1, %3) -> (h = %4)
            %0 = input x : f32[]
            %1 = input h : f32[]
            %2 = add %0 %1 : f32[]
            %3 = input hoisted : f32[]
            %4 = mul %3 %2 : f32[]
        } : f32[]
        %6 = result 0 %5 : f32[]
        ");
    }
}
