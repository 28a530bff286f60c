//! Removes what the steps of a scan do not change: a part of [`super::fold`].
//!
//! Example: a carry whose next value is the carry itself becomes a capture, and its last value is
//! its first one. A captured constant moves into the body, where it folds with its readers. A scan
//! without steps is removed: its carries keep their first values, and its stacked results are
//! empty.
//!
//! Why it is sound: by induction over the steps, such a carry has its first value in each step.

use crate::graph::scan::Capture;
use crate::graph::{Graph, NodeId, Op};
use crate::tensor::TensorType;

use super::fold;

/// Simplifies node `id`, if it is a scan, and folds its body. Returns false if nothing is left of
/// it.
pub(super) fn steady(graph: &mut Graph, id: NodeId) -> bool {
    let Some(mut parts) = graph.take_scan(id) else { return true };
    let (captures, constants) =
        std::mem::take(&mut parts.captures).into_iter().partition(|capture| {
            !matches!(graph.node(capture.outside).op, Op::Constant(_) | Op::Elements(_))
        });
    parts.captures = captures;
    for Capture { outside, inside } in constants {
        let node = graph.node(outside).clone();
        let constant = parts.body.add(node.op, node.ty, &[]);
        parts.replace(inside, constant);
    }
    parts.list();
    fold(&mut parts.body);
    parts.refresh();
    let (steady, carries): (Vec<_>, Vec<_>) = std::mem::take(&mut parts.carries)
        .into_iter()
        .partition(|carry| carry.next == carry.before);
    parts.carries = carries;
    // The results become reshapes to the same shape, which fold away in turn.
    for carry in steady {
        parts.captures.push(Capture { outside: carry.first, inside: carry.before });
        carry.results.into_iter().for_each(|result| graph.set(result, Op::Reshape, &[carry.first]));
    }
    if parts.length == 0 {
        for carry in &mut parts.carries {
            carry
                .results
                .drain(..)
                .for_each(|result| graph.set(result, Op::Reshape, &[carry.first]));
        }
        for result in parts.yields.iter_mut().flat_map(|value| value.results.drain(..)) {
            let nothing = TensorType::new(graph.dtype(result), [0]);
            let nothing = graph.add(Op::Elements(Vec::new()), nothing, &[]);
            graph.set(result, Op::Reshape, &[nothing]);
        }
    }
    if parts.carries.is_empty() && parts.yields.is_empty() {
        graph.remove(id);
        return false;
    }
    graph.put_scan(id, parts);
    true
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, fold};

    #[test]
    fn what_no_step_changes_is_captured() {
        // `c` is unchanged, through a cast. The constant folds in the body.
        insta::assert_snapshot!(after(&[fold, dead], "\
graph g(%0, %1, %2) -> (H = %6, C = %7)
%0 = input X : f32[4]
%1 = input H : f32[]
%2 = input C : f32[]
%3 = constant 1.0 : f32[]
%4 = neg %3 : f32[]
%5 = scan 4 sequences (%0 along 0) carries (%1, %2) captures (%4) yields () {
    graph step(%0, %1, %2, %3) -> (h = %6, c = %7)
    %0 = input x : f32[]
    %1 = input h : f32[]
    %2 = input c : f32[]
    %3 = input one : f32[]
    %4 = neg %3 : f32[]
    %5 = mul %0 %4 : f32[]
    %6 = add %5 %2 : f32[]
    %7 = cast %2 : f32[]
} : f32[]
%6 = result 0 %5 : f32[]
%7 = result 1 %5 : f32[]
"), @"
        graph g(%0, %1, %2) -> (H = %4, C = %2)
        %0 = input X : f32[4]
        %1 = input H : f32[]
        %2 = input C : f32[]
        %3 = scan 4 sequences (%0 along 0) carries (%1) captures (%2) yields () {
            graph step(%0, %1, %2) -> (h = %3)
            %0 = input x : f32[]
            %1 = input h : f32[]
            %2 = input c : f32[]
            %3 = add %0 %2 : f32[]
        } : f32[]
        %4 = result 0 %3 : f32[]
        ");
    }

    #[test]
    fn a_scan_that_changes_nothing() {
        insta::assert_snapshot!(after(&[fold, dead], "\
graph g(%0, %1) -> (H = %3)
%0 = input X : f32[2]
%1 = input H : f32[]
%2 = scan 2 sequences (%0 along 0) carries (%1) captures () yields () {
    graph step(%0, %1) -> (h = %1)
    %0 = input x : f32[]
    %1 = input h : f32[]
} : f32[]
%3 = result 0 %2 : f32[]
"), @"
        graph g(%0, %1) -> (H = %1)
        %0 = input X : f32[2]
        %1 = input H : f32[]
        ");
    }

    #[test]
    fn no_steps() {
        insta::assert_snapshot!(after(&[fold, dead], "\
graph g(%0, %1) -> (H = %3, All = %4)
%0 = input X : f32[2, 0]
%1 = input H : f32[2]
%2 = scan 0 sequences (%0 along 1) carries (%1) captures () yields (along 0) {
    graph step(%0, %1) -> (h = %2, all = %2)
    %0 = input x : f32[2]
    %1 = input h : f32[2]
    %2 = add %0 %1 : f32[2]
} : f32[2]
%3 = result 0 %2 : f32[2]
%4 = result 1 %2 : f32[0, 2]
"), @"
        graph g(%0, %1) -> (H = %1, All = %3)
        %0 = input X : f32[2, 0]
        %1 = input H : f32[2]
        %2 = elements [] : f32[0]
        %3 = reshape %2 : f32[0, 2]
        ");
    }
}
