//! Finds the nodes whose values are the same in every run until weights change, so that a plan
//! computes them once for many runs.
//!
//! Example: batch normalization scales by `gamma / sqrt(variance + epsilon)`, which has only
//! weights. The quotient is stored once. Each run reads one vector instead of recomputing the
//! quotient from two vectors for each element.
//!
//! Why it is sound: a node is a function of its operands, and none of these depends on an input.

use super::fuse::widens_for_elementwise;
use super::links::Links;
use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Access, Aggregation, Contraction, Graph, NodeId, NodeSet, Op};
use crate::native::ScaledDots;
use crate::profile::{Execution, Profile};
use crate::scalar::{BinaryOp, Inst};

/// Values of at most this many bytes are stored for runs to read, even if they are cheap to
/// recompute.
const SMALL: usize = 1 << 20;

/// The part of a graph that depends on no input, and on no weight that runs change.
pub(super) struct Prelude {
    /// Nodes that depend on weights and constants alone, including the weights and constants
    /// themselves.
    pub nodes: NodeSet,
    /// Nodes of the prelude that must be stored for runs to read, although fusion alone might
    /// inline them.
    pub kept: NodeSet,
}

impl Prelude {
    /// Finds the prelude of a graph with these `links`.
    pub fn find(graph: &Graph, links: &Links, profile: &Profile) -> Prelude {
        let Links { order, positions, .. } = links;
        let most_buffers = profile.max_buffers as usize;
        let is_native = profile.execution == Execution::Native;
        let fits = |id| {
            let node = graph.node(id);
            !profile.is_too_large(&node.ty, node.op.is_preloaded())
        };
        let mut prelude = Prelude { nodes: NodeSet::new(), kept: NodeSet::new() };
        let mut of_weights = NodeSet::new();
        for &id in order {
            let operands = graph.operands(id);
            let changes = match &graph.node(id).op {
                // Scans are always part of a run.
                Op::Input(_) | Op::Scan(_) => true,
                Op::Weight(path) => graph.outputs.iter().any(|(name, _)| name == path),
                _ => false,
            };
            if changes || operands.iter().any(|operand| !prelude.nodes.contains(*operand)) {
                continue;
            }
            prelude.nodes.insert(id);
            if matches!(graph.node(id).op, Op::Weight(_))
                || operands.iter().any(|o| of_weights.contains(*o))
            {
                of_weights.insert(id);
            }
        }
        // Readers first: a run that reads a view reads the viewed node.
        let mut read = NodeSet::new();
        // Operands of a run's products, which it reads often, if a kernel can bind them besides the
        // result.
        let mut factors = NodeSet::new();
        // Nodes that a run computes from 8-bit integers, which are fewer bytes to read.
        let mut widened = NodeSet::new();
        for &id in order.iter().rev() {
            let is_factor = factors.contains(id);
            let is_widened = widened.contains(id) && !is_factor;
            let is_gather = gathers(graph, id);
            let is_free = shows_memory(graph, id)
                || widens_for_elementwise(graph, id)
                || (is_native && positions.contains(id))
                || !fits(id)
                || is_widened
                || (!is_factor && !is_gather && (!of_weights.contains(id) || grows(graph, id)));
            if !prelude.nodes.contains(id) || (is_free && read.contains(id)) {
                read.extend(graph.operands(id));
                let reads_factors =
                    is_product(graph, id) && graph.operands(id).len() < most_buffers;
                if is_factor || is_widened || reads_factors {
                    let wider = match profile.execution {
                        Execution::Native if is_widened => widened_by(graph, id),
                        Execution::Native => scaled_rows(graph, id),
                        Execution::Shader => None,
                    };
                    let others = graph.operands(id).iter().filter(|&&o| Some(o) != wider);
                    factors.extend(others);
                    widened.extend(wider);
                }
            } else if read.contains(id)
                && (is_factor
                    || is_gather
                    || bytes(graph, id) <= SMALL
                    || is_reduction(graph, id)
                    || is_joint(graph, id))
            {
                prelude.kept.insert(id);
            }
        }
        prelude
    }
}

fn bytes(graph: &Graph, id: NodeId) -> usize {
    graph.node(id).ty.elements() * graph.dtype(id).size()
}

fn is_reduction(graph: &Graph, id: NodeId) -> bool {
    matches!(&graph.node(id).op, Op::Contraction(op) if op.aggregation != Aggregation::Assign)
}

/// Returns whether a node is assembled from several tensors, so that reading it from these takes
/// branches.
fn is_joint(graph: &Graph, id: NodeId) -> bool {
    matches!(&graph.node(id).op, Op::Contraction(op) if op.default)
}

/// Returns whether a node reads elements at indices in another tensor, and is no larger than its
/// operands. Reading it takes less time than computing each address again.
fn gathers(graph: &Graph, id: NodeId) -> bool {
    let operands = graph.operands(id).iter();
    matches!(&graph.node(id).op, Op::Contraction(op) if !op.accesses.iter().all(Access::is_fixed))
        && bytes(graph, id) <= operands.map(|&operand| bytes(graph, operand)).sum()
}

/// Returns whether a node sums products of tensors.
fn is_product(graph: &Graph, id: NodeId) -> bool {
    is_reduction(graph, id)
        && matches!(&graph.node(id).op, Op::Contraction(op) if op.accesses.len() >= 2)
}

/// Returns the operand of a product that reads rows of scaled 8-bit integers once, each as a sum. A
/// processor reads these integers where they are (see [`crate::native::ScaledDots`]).
fn scaled_rows(graph: &Graph, id: NodeId) -> Option<NodeId> {
    let Op::Contraction(op) = &graph.node(id).op else { return None };
    let is_summed = |variable: usize| op.output.iter().all(|o| o.coefficient(variable) == 0);
    let suits = |access: &&Access| {
        let operand = graph.operands(id)[access.operand];
        let (mul, length) = (&graph.node(operand).op, graph.shape(operand).last());
        matches!(mul, Op::Binary(BinaryOp::Mul))
            && bytes(graph, operand) > SMALL
            && length.is_some_and(|length| length.is_multiple_of(ScaledDots::UNIT))
            && access.index.last().is_some_and(|last| last.affine.variables().all(is_summed))
            && !op.reads_again(access)
            && widened_by(graph, operand).is_some()
    };
    let access = op.accesses.iter().find(suits).filter(|_| op.constraints.is_empty())?;
    Some(graph.operands(id)[access.operand])
}

/// Returns the operand through which a node, `(integers - zero) * scale` or the difference in it,
/// reads 8-bit integers.
fn widened_by(graph: &Graph, id: NodeId) -> Option<NodeId> {
    let operands = graph.operands(id);
    let is_cast = |id: NodeId| {
        let from = |operand: &NodeId| matches!(graph.dtype(*operand), DType::I8 | DType::U8);
        matches!(graph.node(id).op, Op::Cast)
            && graph.dtype(id) == DType::F32
            && graph.operands(id).iter().all(from)
    };
    let is_difference = |id: &NodeId| {
        let subtracts = matches!(graph.node(*id).op, Op::Binary(BinaryOp::Sub));
        is_cast(*id) || (subtracts && is_cast(graph.operands(*id)[0]))
    };
    match graph.node(id).op {
        Op::Binary(BinaryOp::Mul) => operands.iter().copied().find(is_difference),
        Op::Binary(BinaryOp::Sub) => operands.first().copied().filter(|&id| is_cast(id)),
        _ => None,
    }
}

/// Returns whether a node is already in memory, or is a copy of one tensor whose contiguous axis is
/// also contiguous there.
fn shows_memory(graph: &Graph, id: NodeId) -> bool {
    let is_copy =
        |op: &Contraction| op.body.insts.iter().all(|(inst, _)| matches!(inst, Inst::Leaf(_)));
    match &graph.node(id).op {
        Op::Weight(_) | Op::Constant(_) | Op::Elements(_) | Op::Reshape => true,
        Op::Contraction(op) => {
            !is_reduction(graph, id)
                && graph.operands(id).len() == 1
                && is_copy(op)
                && has_whole_rows(op)
        }
        _ => false,
    }
}

/// Returns whether a node is larger than each of its operands. If it is read once, computing it
/// then costs no more than reading it.
fn grows(graph: &Graph, id: NodeId) -> bool {
    !matches!(graph.node(id).op, Op::Contraction(_))
        && graph.operands(id).iter().all(|&operand| bytes(graph, operand) < bytes(graph, id))
}

/// Returns whether the copy and the tensor are contiguous along the same variable.
fn has_whole_rows(op: &Contraction) -> bool {
    let last = |forms: &mut dyn DoubleEndedIterator<Item = &Affine>| {
        forms.rev().find_map(|affine| affine.variables().filter(|&v| op.indices[v].varies()).last())
    };
    op.accesses.iter().all(|access| {
        last(&mut op.output.iter()) == last(&mut access.index.iter().map(|index| &index.affine))
    })
}

#[cfg(test)]
mod tests {
    use super::{Links, Prelude};
    use crate::graph::Graph;
    use crate::profile::Profile;

    #[test]
    fn factors_made_of_constants_are_kept() {
        insta::assert_snapshot!(kept("\
%1 = constant 0.5 : f32[]
%2 = contract assign [i, j] (i: 0..4, j: 0..4) { v0 = %1[]; yield v0 } : f32[4, 4]  # Filled
%3 = add %2 %2 : f32[4, 4]
%4 = exp %3 : f32[4, 4]  # Powers
%5 = reshape %4 : f32[16]  # Line
%6 = contract sum [i, j] (i: 0..8, j: 0..4, k: 0..4) { v0 = %0[i, k]; v1 = %2[k, j]; v2 = mul v0 v1; yield v2 } : f32[8, 4]  # Product
%7 = contract sum [i, j] (i: 0..8, j: 0..4, k: 0..4) { v0 = %6[i, k]; v1 = %5[4 * k + j]; v2 = mul v0 v1; yield v2 } : f32[8, 4]  # Second
%8 = exp %7 : f32[8, 4]
%9 = neg %8 : f32[8, 4]  # Y
"), @"Filled Powers ");
    }

    #[test]
    fn factors_of_constants_are_kept_where_the_device_has_room() {
        let graph = "\
graph g(%0) -> (Y = %3)
%0 = input X : f32[8, 4]
%1 = constant 0.5 : f32[]
%2 = contract assign [i, j] (i: 0..4, j: 0..4) { v0 = %1[]; yield v0 } : f32[4, 4]  # Filled
%3 = contract sum [i, j] (i: 0..8, j: 0..4, k: 0..4) { v0 = %0[i, k]; v1 = %2[k, j]; v2 = mul v0 v1; yield v2 } : f32[8, 4]
";
        let generic = Profile::generic();
        assert_eq!(kept_of(graph, &Profile { max_buffers: 3, ..generic.clone() }), "Filled ");
        assert_eq!(kept_of(graph, &Profile { max_buffers: 2, ..generic.clone() }), "");
        assert_eq!(
            kept_of(graph, &Profile { max_binding_bytes: 4 * 4 * 4, ..generic.clone() }),
            "Filled "
        );
        assert_eq!(kept_of(graph, &Profile { max_binding_bytes: 4 * 4 * 4 - 1, ..generic }), "");
    }

    /// Returns the names of the nodes that must be stored for runs to read.
    fn kept(nodes: &str) -> String {
        kept_of(
            &format!("graph g(%0) -> (Y = %9)\n%0 = input X : f32[8, 4]\n{nodes}"),
            &Profile::generic(),
        )
    }

    fn kept_of(graph: &str, profile: &Profile) -> String {
        let graph = Graph::parse(graph).unwrap();
        graph.verify().unwrap();
        let prelude = Prelude::find(&graph, &Links::new(&graph), profile);
        graph
            .ids()
            .filter(|id| prelude.kept.contains(*id))
            .map(|id| graph.value_name(id) + " ")
            .collect()
    }

    #[test]
    fn what_runs_read_of_weights_alone_is_kept() {
        insta::assert_snapshot!(kept("\
%1 = weight Gamma : f32[4]
%2 = weight Variance : f32[4]
%3 = constant 0.001 : f32[]
%4 = add %2 %3 : f32[4]  # Shifted
%5 = rsqrt %4 : f32[4]  # Inverse
%6 = mul %1 %5 : f32[4]  # Scale
%7 = mul %0 %6 : f32[8, 4]  # Scaled
%8 = neg %1 : f32[4]  # Read
%9 = add %7 %8 : f32[8, 4]  # Y
"), @"Scale Read ");
    }

    #[test]
    fn gathers_of_constants_are_kept() {
        insta::assert_snapshot!(kept("\
%1 = elements [0.5, 1.5, 2.5, 3.5] : f32[4]
%2 = elements [0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0] : i32[32]
%3 = contract assign [i] (i: 0..32) { @0 = %2[i]; v0 = %1[@0]; yield v0 } : f32[32]  # Gathered
%4 = reshape %3 : f32[8, 4]  # Table
%9 = add %0 %4 : f32[8, 4]  # Y
"), @"Gathered ");
    }

    #[test]
    fn views_and_what_grows_are_not() {
        insta::assert_snapshot!(kept("\
%1 = weight W : f32[8, 4]
%2 = exp %1 : f32[8, 4]  # E
%3 = contract assign [i, j] (i: 0..8, j: 0..4) { v0 = %2[7 - i, j]; yield v0 } : f32[8, 4]  # Reversed
%4 = weight V : f32[4]
%5 = weight U : f32[8, 1]
%6 = mul %4 %5 : f32[8, 4]  # Outer
%7 = add %0 %3 : f32[8, 4]  # Both
%8 = add %7 %6 : f32[8, 4]  # All
%9 = neg %8 : f32[8, 4]  # Y
"), @"E ");
    }

    #[test]
    fn integers_of_a_product_with_a_vector_are_kept() {
        let graph = |rows: usize| {
            format!(
                "\
graph g(%0) -> (Y = %7)
%0 = input X : f32[{rows}, 1024]
%1 = weight Q : i8[1024, 1024]
%2 = weight S : f32[1024, 1]
%3 = neg %1 : i8[1024, 1024]  # Integers
%4 = cast %3 : f32[1024, 1024]  # Floats
%5 = neg %2 : f32[1024, 1]  # Scale
%6 = mul %4 %5 : f32[1024, 1024]  # Weight
%7 = contract sum [r, n] (r: 0..{rows}, n: 0..1024, k: 0..1024) {{ v0 = %0[r, k]; v1 = %6[n, k]; v2 = mul v0 v1; yield v2 }} : f32[{rows}, 1024]
"
            )
        };
        assert_eq!(kept_of(&graph(1), &Profile::cpu()), "Integers Scale ");
        assert_eq!(kept_of(&graph(2), &Profile::cpu()), "Weight ");
        assert_eq!(kept_of(&graph(1), &Profile::generic()), "Weight ");
    }
}
