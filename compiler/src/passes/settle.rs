//! Inserts copies where the plan of a scan needs a separate tensor.
//!
//! A step of a scan writes the next value of a carry, or a yielded value, directly to its
//! destination, which may be a slice of a larger tensor. So a value that the step passes on without
//! computing it is copied: an input of the body, a constant, the last carry of an inner scan if it
//! is stacked, and a value with several destinations.
//!
//! A slice is copied if its reader needs a whole, dense tensor: as the first value of a carry, as
//! the state of a random number generator, or as the operand of a reshape that a scan, or an access
//! at a run-time index, reads.
//!
//! Example: a body `(h = %0, All = %1)` yields its carry `%1`, and passes on its slice `%0` as the
//! next carry. It gets two nodes, `contract assign [i0] (i0: 0..3) { v0 = %0[i0]; yield v0 }` and
//! the same of `%1`.
//!
//! Why it is sound: a copy equals its source, and everything else is unchanged.

use crate::graph::scan::Parts;
use crate::graph::{Contraction, Graph, NodeId, NodeMap, NodeSet, Op};

/// The most destinations to which one kernel writes its result.
const MOST_PLACES: usize = 2;

/// Runs the pass; see the module's documentation.
pub fn settle(graph: &mut Graph) {
    settle_within(graph, &NodeSet::new());
}

/// Settles a graph. `slices` are nodes that may be a part of another tensor in memory.
fn settle_within(graph: &mut Graph, slices: &NodeSet) {
    for id in graph.topological() {
        for (position, operand) in graph.operands(id).to_vec().into_iter().enumerate() {
            let stored = graph.storage(operand);
            if slices.contains(stored) && wants_whole(graph, id, position, operand != stored) {
                let mut operands = graph.operands(id).to_vec();
                operands[position] = copy(graph, operand);
                let op = graph.node(id).op.clone();
                graph.set(id, op, &operands);
            }
        }
        let Some(mut parts) = graph.take_scan(id) else { continue };
        let results = parts.carries.iter_mut().map(|carry| &mut carry.results);
        for results in results.chain(parts.yields.iter_mut().map(|value| &mut value.results)) {
            // Keep one node for each result.
            let others: Vec<NodeId> = results.drain(results.len().min(1)..).collect();
            others.into_iter().for_each(|other| graph.replace(other, results[0]));
        }
        give(&mut parts);
        let body = &parts.body;
        let captures =
            parts.captures.iter().filter(|capture| slices.contains(graph.storage(capture.outside)));
        let mut inner: NodeSet =
            parts.yields.iter().map(|value| body.storage(value.value)).collect();
        parts.carries.iter().for_each(|carry| _ = inner.remove(body.storage(carry.next)));
        inner.extend(parts.sequences.iter().map(|sequence| sequence.slice));
        inner.extend(captures.map(|capture| capture.inside));
        settle_within(&mut parts.body, &inner);
        graph.put_scan(id, parts);
    }
}

/// Returns whether `id` cannot read a part of a tensor as its operand at `position`, which may be a
/// reshape of that part.
fn wants_whole(graph: &Graph, id: NodeId, position: usize, is_reshaped: bool) -> bool {
    match &graph.node(id).op {
        Op::PrngValue | Op::PrngState { .. } => true,
        Op::Scan(scan) => {
            let sequences = scan.sequences.len();
            is_reshaped || (sequences..sequences + scan.carries).contains(&position)
        }
        Op::Contraction(op) => {
            is_reshaped
                && op.accesses.iter().any(|access| access.operand == position && !access.is_fixed())
        }
        _ => false,
    }
}

/// Copies the values that a step passes on, unless a kernel can write them directly to their
/// destination.
fn give(parts: &mut Parts) {
    let mut places: NodeMap<usize> = NodeMap::new();
    for number in 0..parts.carries.len() + parts.yields.len() {
        let stacked = number.checked_sub(parts.carries.len());
        let given = stacked
            .map_or_else(|| parts.carries[number].next, |yielded| parts.yields[yielded].value);
        let stored = parts.body.storage(given);
        let taken = places.get(stored).copied().unwrap_or(0);
        let is_written_there = match &parts.body.node(stored).op {
            Op::Input(_) | Op::Weight(_) | Op::Elements(_) => false,
            Op::PrngValue | Op::PrngState { .. } => taken == 0 && stacked.is_none(),
            Op::Result { number } if is_carry(&parts.body, stored, *number) => {
                taken == 0 && stacked.is_none()
            }
            _ => taken < MOST_PLACES && (stacked.is_none() || given == stored),
        };
        if is_written_there {
            places.insert(stored, taken + 1);
            continue;
        }
        let copied = copy(&mut parts.body, given);
        places.insert(copied, 1);
        match stacked {
            None => parts.carries[number].next = copied,
            Some(yielded) => parts.yields[yielded].value = copied,
        }
    }
    parts.list_outputs();
}

/// Returns whether a node is the last value of a carry: result `number` of its operand.
fn is_carry(graph: &Graph, id: NodeId, number: usize) -> bool {
    graph.operands(id).first().is_some_and(|&scan| match &graph.node(scan).op {
        Op::Scan(scan) => number < scan.carries,
        _ => false,
    })
}

/// Adds a copy of `id`.
fn copy(graph: &mut Graph, id: NodeId) -> NodeId {
    let node = graph.node(id).clone();
    let contraction = Contraction::copy(node.ty.dtype, &node.ty.shape);
    let copied = graph.add(Op::Contraction(Box::new(contraction)), node.ty, &[id]);
    let name = node.name.or_else(|| node.op.given_name().map(str::to_owned));
    (graph.node_mut(copied).name, graph.node_mut(copied).span) = (name, node.span);
    copied
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::settle;

    #[test]
    fn what_a_step_gives_on_is_copied() {
        // `a` and `b` change places; `c` is carried and stacked; `d` is computed, and is written to
        // two destinations directly.
        insta::assert_snapshot!(after(&[settle], "\
graph g(%0, %1, %2, %3) -> (A = %5, C = %6, D = %7, E = %8, F = %9)
%0 = input X : f32[4, 3]
%1 = input A : f32[3]
%2 = input B : f32[3]
%3 = input C : f32[3]
%4 = scan 4 sequences (%0 along 0) carries (%1, %2, %3) captures () yields (along 0, along 0, along 1, along 0) {
    graph step(%0, %1, %2, %3) -> (a = %2, b = %1, c = %4, all = %3, d = %4, e = %4, f = %5)
    %0 = input x : f32[3]
    %1 = input a : f32[3]
    %2 = input b : f32[3]
    %3 = input c : f32[3]
    %4 = add %0 %3 : f32[3]  # D
    %5 = reshape %4 : f32[3, 1]
} : f32[3]
%5 = result 0 %4 : f32[3]
%6 = result 3 %4 : f32[4, 3]
%7 = result 4 %4 : f32[4, 3]
%8 = result 5 %4 : f32[3, 4]
%9 = result 6 %4 : f32[4, 3, 1]
"), @"
        graph g(%0, %1, %2, %3) -> (A = %5, C = %6, D = %7, E = %8, F = %9)
        %0 = input X : f32[4, 3]
        %1 = input A : f32[3]
        %2 = input B : f32[3]
        %3 = input C : f32[3]
        %4 = scan 4 sequences (%0 along 0) carries (%1, %2, %3) captures () yields (along 0, along 0, along 1, along 0) {
            graph step(%0, %1, %2, %3) -> (a = %6, b = %7, c = %4, all = %8, d = %4, e = %9, f = %10)
            %0 = input x : f32[3]
            %1 = input a : f32[3]
            %2 = input b : f32[3]
            %3 = input c : f32[3]
            %4 = add %0 %3 : f32[3]  # D
            %5 = reshape %4 : f32[3, 1]
            %6 = contract assign [i0] (i0: 0..3) { v0 = %2[i0]; yield v0 } : f32[3]  # b
            %7 = contract assign [i0] (i0: 0..3) { v0 = %1[i0]; yield v0 } : f32[3]  # a
            %8 = contract assign [i0] (i0: 0..3) { v0 = %3[i0]; yield v0 } : f32[3]  # c
            %9 = contract assign [i0] (i0: 0..3) { v0 = %4[i0]; yield v0 } : f32[3]  # D
            %10 = contract assign [i0, i1] (i0: 0..3, i1: 0..1) { v0 = %5[i0, i1]; yield v0 } : f32[3, 1]
        } : f32[3]
        %5 = result 0 %4 : f32[3]
        %6 = result 3 %4 : f32[4, 3]
        %7 = result 4 %4 : f32[4, 3]
        %8 = result 5 %4 : f32[3, 4]
        %9 = result 6 %4 : f32[4, 3, 1]
        ");
    }

    #[test]
    fn what_reads_a_slice_as_a_whole_gets_a_copy() {
        // The slice is the first value of an inner scan, whose last value is stacked; its reshape
        // is indexed.
        insta::assert_snapshot!(after(&[settle], "\
graph g(%0, %1, %2) -> (Y = %4, G = %5)
%0 = input X : f32[4, 3]
%1 = input Z : f32[5, 3]
%2 = input I : i32[2]
%3 = scan 4 sequences (%0 along 0) carries () captures (%1, %2) yields (along 0, along 0) {
    graph step(%0, %1, %2) -> (y = %4, g = %6)
    %0 = input x : f32[3]
    %1 = input z : f32[5, 3]
    %2 = input i : i32[2]
    %3 = scan 5 sequences (%1 along 0) carries (%0) captures () yields () {
        graph inner(%0, %1) -> (s = %2)
        %0 = input z : f32[3]
        %1 = input s : f32[3]
        %2 = add %0 %1 : f32[3]
    } : f32[3]
    %4 = result 0 %3 : f32[3]
    %5 = reshape %0 : f32[3, 1]
    %6 = contract assign [i] (i: 0..2) { @0 = %2[i]; v0 = %5[@0, 0]; yield v0 } : f32[2]
} : f32[4, 3]
%4 = result 0 %3 : f32[4, 3]
%5 = result 1 %3 : f32[4, 2]
"), @"
        graph g(%0, %1, %2) -> (Y = %4, G = %5)
        %0 = input X : f32[4, 3]
        %1 = input Z : f32[5, 3]
        %2 = input I : i32[2]
        %3 = scan 4 sequences (%0 along 0) carries () captures (%1, %2) yields (along 0, along 0) {
            graph step(%0, %1, %2) -> (y = %7, g = %9)
            %0 = input x : f32[3]
            %1 = input z : f32[5, 3]
            %2 = input i : i32[2]
            %3 = reshape %0 : f32[3, 1]
            %4 = contract assign [i0] (i0: 0..3) { v0 = %0[i0]; yield v0 } : f32[3]  # x
            %5 = scan 5 sequences (%1 along 0) carries (%4) captures () yields () {
                graph inner(%0, %1) -> (s = %2)
                %0 = input z : f32[3]
                %1 = input s : f32[3]
                %2 = add %0 %1 : f32[3]
            } : f32[3]
            %6 = result 0 %5 : f32[3]
            %7 = contract assign [i0] (i0: 0..3) { v0 = %6[i0]; yield v0 } : f32[3]
            %8 = contract assign [i0, i1] (i0: 0..3, i1: 0..1) { v0 = %3[i0, i1]; yield v0 } : f32[3, 1]
            %9 = contract assign [i] (i: 0..2) { @0 = %2[i]; v0 = %8[@0, 0]; yield v0 } : f32[2]
        } : f32[4, 3]
        %4 = result 0 %3 : f32[4, 3]
        %5 = result 1 %3 : f32[4, 2]
        ");
    }
}
