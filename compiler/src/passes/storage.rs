//! Stores tensors in a narrower float type, which halves the memory that they take and the traffic
//! to it. They are widened when they are read: products and sums stay in f32.
//!
//! This is not a simplification: values have the accuracy of the narrower type, so the pass runs
//! only on request.
//!
//! Example, with f16, of a tensor `%2` that fusion has found to be stored:
//!
//! ```text
//! %1 = weight W : f32[3, 5]
//! %2 = tanh %0 : f32[4, 3]
//! %3 = contract sum [n, u] (…) { v0 = %2[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; … } : f32[4, 5]
//! ```
//!
//! becomes
//!
//! ```text
//! %1 = weight W : f16[3, 5]
//! %2 = tanh %0 : f32[4, 3]
//! %4 = cast %2 : f16[4, 3]
//! %3 = contract sum [n, u] (…) { v0 = %4[n, k]; v1 = cast v0 : f32; … } : f32[4, 5]
//! ```
//!
//! A weight, and what is computed without sums, becomes the greatest value of the type if it is
//! beyond: -10^9 in a mask still hides a score, where an infinity may become NaN. For results of
//! sums this would cost more than it is worth; they become infinite.
//!
//! Inputs and outputs keep their type, for the caller. So do
//! - vectors and scalars, which take little memory;
//! - statistics, that is, sums of anything but products, and what is read for them alone, such as
//!   squares: they may need the range of f32;
//! - integers in f32; random numbers, which would become 1;
//! - what is computed from all these and from vectors alone;
//! - weights that a run changes, and what a scan carries and stacks;
//! - on a cpu, the operands of convolutions and pooling, kernels included: Winograd's algorithm and
//!   direct sums read f32, and elements several times.

use half::{bf16, f16};

use crate::dtype::{DType, Scalar};
use crate::graph::scan::Parts;
use crate::graph::{Aggregation, Graph, Node, NodeId, NodeMap, NodeSet, Op};
use crate::profile::Execution;
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;

use super::Wholes;
use super::narrow::{sums_products_of_f32, widened};

/// Returns an equal graph, but for rounding, in which the f32 tensors in `stored` have type
/// `dtype`; and `wholes` with the weights among them, whose callers see f32. `execution` is how the
/// device runs kernels.
pub(crate) fn store_as(
    graph: &Graph,
    stored: &[NodeId],
    dtype: DType,
    execution: Execution,
    wholes: &Wholes,
) -> (Graph, Wholes) {
    let precise = precise(graph);
    let is_summand = |id: NodeId| {
        let users = graph.users(id);
        !users.is_empty() && users.iter().all(|user| sums_others_than_products(graph, *user))
    };
    let mut wide: NodeSet = graph.outputs.iter().map(|(_, id)| graph.storage(*id)).collect();
    wide.extend(graph.ids().flat_map(|id| carried(graph, id)).map(|id| graph.storage(*id)));
    if execution == Execution::Native {
        wide.extend(read_through_windows(graph, stored));
    }
    let mut narrow = NodeSet::new();
    let mut wholes = wholes.clone();
    for &id in stored {
        let node = graph.node(id);
        let is_kept = match &node.op {
            Op::Weight(path) => {
                wholes.contains_key(path) || graph.outputs.iter().any(|(output, _)| output == path)
            }
            Op::Input(_) | Op::Elements(_) | Op::Scan(_) | Op::Result { .. } => true,
            _ => precise.contains(id) || is_summand(id),
        };
        if is_kept || node.ty.dtype != DType::F32 || !has_rows(&node.ty.shape) || wide.contains(id)
        {
            continue;
        }
        narrow.insert(id);
        if let Op::Weight(path) = &node.op {
            wholes.insert(path.clone(), (path.clone(), node.ty.clone()));
        }
    }
    let mut graph = graph.clone();
    Narrowing::new(&mut graph, dtype).run(&narrow);
    (graph, wholes)
}

/// Returns the tensors that convolutions and pooling read, and those that moves and elementwise
/// operations read which are fused with them. Tensors `stored` are not fused.
fn read_through_windows(graph: &Graph, stored: &[NodeId]) -> Vec<NodeId> {
    let stored: NodeSet = stored.iter().copied().collect();
    let mut read = NodeSet::new();
    for &id in graph.topological().iter().rev() {
        let operands = graph.operands(id);
        let is_fused = read.contains(id) && !stored.contains(id);
        let reads_all = match &graph.node(id).op {
            Op::Contraction(op) if op.aggregation == Aggregation::Assign => is_fused,
            Op::Contraction(op) => op.has_window(),
            Op::Scan(scan) => {
                let inside: NodeSet = read_through_windows(&scan.body, &[]).into_iter().collect();
                let inputs = scan.body.inputs.iter().zip(operands);
                read.extend(
                    inputs.filter(|(input, _)| inside.contains(**input)).map(|(_, id)| *id),
                );
                false
            }
            _ => is_fused,
        };
        if reads_all {
            read.extend(operands.iter().copied());
        }
    }
    graph.ids().filter(|id| read.contains(*id)).map(|id| graph.storage(id)).collect()
}

/// Returns the first values of what a scan carries.
fn carried(graph: &Graph, id: NodeId) -> &[NodeId] {
    match &graph.node(id).op {
        Op::Scan(scan) => &graph.operands(id)[scan.sequences.len()..][..scan.carries],
        _ => &[],
    }
}

/// Returns whether two axes or more have several elements.
fn has_rows(shape: &[usize]) -> bool {
    shape.iter().filter(|&&size| size > 1).count() > 1
}

/// Returns statistics, integers in floats and random numbers, and what is computed from these and
/// from vectors alone.
fn precise(graph: &Graph) -> NodeSet {
    let mut precise = NodeSet::new();
    for id in graph.topological() {
        let operands = graph.operands(id);
        let is_first = match &graph.node(id).op {
            Op::PrngValue => true,
            Op::Cast => !graph.dtype(operands[0]).is_float(),
            _ => sums_others_than_products(graph, id),
        };
        let is_small = |id: &NodeId| precise.contains(*id) || !has_rows(graph.shape(*id));
        let follows = operands.iter().any(|operand| precise.contains(*operand))
            && operands.iter().all(is_small);
        if is_first || follows {
            precise.insert(id);
        }
    }
    precise
}

/// Returns the nodes that depend on a sum or another aggregate.
fn of_sums(graph: &Graph) -> NodeSet {
    let mut found = NodeSet::new();
    for id in graph.topological() {
        let is_aggregate = match &graph.node(id).op {
            Op::Contraction(op) => op.aggregation != Aggregation::Assign,
            _ => false,
        };
        if is_aggregate || graph.operands(id).iter().any(|operand| found.contains(*operand)) {
            found.insert(id);
        }
    }
    found
}

/// Returns whether a node is a sum of anything but products of two values, or a product of many.
fn sums_others_than_products(graph: &Graph, id: NodeId) -> bool {
    match &graph.node(id).op {
        Op::Contraction(op) => {
            matches!(op.aggregation, Aggregation::Sum | Aggregation::Product)
                && !sums_products_of_f32(op)
        }
        _ => false,
    }
}

/// A graph, or the body of a scan, whose tensors are narrowed.
struct Narrowing<'g> {
    graph: &'g mut Graph,
    dtype: DType,
    /// The nodes that depend on a sum or another aggregate.
    of_sums: NodeSet,
    /// The narrow node for each f32 node that has one.
    narrow: NodeMap<NodeId>,
    /// The narrow nodes that are widened as a whole, by their f32 nodes.
    wide: NodeMap<NodeId>,
}

impl Narrowing<'_> {
    fn new(graph: &mut Graph, dtype: DType) -> Narrowing<'_> {
        let of_sums = of_sums(graph);
        Narrowing { graph, dtype, of_sums, narrow: NodeMap::new(), wide: NodeMap::new() }
    }

    /// Narrows these nodes, and changes all their readers.
    fn run(mut self, narrow: &NodeSet) {
        for id in self.graph.topological() {
            self.read(id);
            if !narrow.contains(id) {
                continue;
            }
            let ty = TensorType::new(self.dtype, self.graph.shape(id));
            let own = match self.graph.node(id).op.is_source() {
                true => {
                    self.graph.node_mut(id).ty = ty;
                    id
                }
                false => {
                    let is_sum = self.of_sums.contains(id);
                    let value = if is_sum { id } else { self.within_range(id) };
                    let own = self.graph.add(Op::Cast, ty.clone(), &[value]);
                    let Node { name, origin, span, .. } = self.graph.node(id).clone();
                    let node = self.graph.node_mut(own);
                    (node.name, node.origin, node.span) = (name, origin, span);
                    // Fusion stores what a reshape reads.
                    self.graph.add(Op::Reshape, ty, &[own])
                }
            };
            self.narrow.insert(id, own);
        }
    }

    /// Returns a node with the greatest values of the narrow type instead of those that it lacks.
    /// NaNs stay.
    fn within_range(&mut self, id: NodeId) -> NodeId {
        let most = match self.dtype {
            DType::F16 => f16::MAX.to_f32(),
            _ => bf16::MAX.to_f32(),
        };
        let ty = self.graph.node(id).ty.clone();
        let mut value = id;
        for (op, bound) in [(BinaryOp::Min, most), (BinaryOp::Max, -most)] {
            let scalar = TensorType::scalar(DType::F32);
            let bound = self.graph.add(Op::Constant(Scalar::f32(bound)), scalar, &[]);
            value = self.graph.add(Op::Binary(op), ty.clone(), &[value, bound]);
        }
        value
    }

    /// Changes a node that reads narrow ones.
    fn read(&mut self, id: NodeId) {
        let mut operands = self.graph.operands(id).to_vec();
        if operands.iter().all(|operand| !self.narrow.contains(*operand)) {
            return;
        }
        if let Some(parts) = self.graph.take_scan(id) {
            let parts = self.scan(parts);
            self.graph.put_scan(id, parts);
            return;
        }
        let mut op = self.graph.node(id).op.clone();
        let mut inside = 0;
        match &mut op {
            Op::Reshape => {
                let own = self.narrow[operands[0]];
                let ty = TensorType::new(self.dtype, self.graph.shape(id));
                let own = self.graph.add(Op::Reshape, ty, &[own]);
                self.narrow.insert(id, own);
            }
            Op::Cast if self.graph.dtype(id) == self.dtype => {
                // It has the type already.
                return self.graph.set(id, Op::Reshape, &[self.narrow[operands[0]]]);
            }
            Op::Contraction(op) => {
                inside = operands.len() - usize::from(op.default);
                let is_narrow = |operand: usize| self.narrow.contains(operands[operand]);
                op.body = widened(op, self.dtype, is_narrow);
            }
            _ => {}
        }
        for (number, operand) in operands.iter_mut().enumerate() {
            if let Some(&own) = self.narrow.get(*operand) {
                *operand = if number < inside { own } else { self.wide(*operand, own) };
            }
        }
        self.graph.set(id, op, &operands);
    }

    /// Returns the narrow node `own` of `id` in f32.
    fn wide(&mut self, id: NodeId, own: NodeId) -> NodeId {
        let graph = &mut *self.graph;
        *self.wide.slot(id).get_or_insert_with(|| {
            let ty = TensorType::new(DType::F32, graph.shape(own));
            graph.add(Op::Cast, ty, &[own])
        })
    }

    /// Narrows what a scan reads in slices or as a whole.
    fn scan(&mut self, mut parts: Parts) -> Parts {
        let mut narrow = NodeSet::new();
        let slices = parts.sequences.iter_mut().map(|part| (&mut part.whole, part.slice));
        let captures = parts.captures.iter_mut().map(|part| (&mut part.outside, part.inside));
        for (outside, inside) in slices.chain(captures) {
            if let Some(&own) = self.narrow.get(*outside) {
                *outside = own;
                narrow.insert(inside);
            }
        }
        for carry in &mut parts.carries {
            if let Some(&own) = self.narrow.get(carry.first) {
                carry.first = self.wide(carry.first, own);
            }
        }
        Narrowing::new(&mut parts.body, self.dtype).run(&narrow);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::store_as;
    use crate::dtype::DType;
    use crate::graph::{Graph, NodeId, Op};
    use crate::passes::Wholes;
    use crate::profile::Execution;

    /// Returns the text of the graph after all its tensors are stored as f16, and the weights with
    /// the types that the caller sees.
    fn stored(text: &str) -> String {
        stored_on(Execution::Shader, text)
    }

    /// As [`stored`] does, for kernels that run in this way.
    fn stored_on(execution: Execution, text: &str) -> String {
        let graph = Graph::parse(text).unwrap();
        graph.verify().unwrap();
        let is_view = |id: &NodeId| matches!(graph.node(*id).op, Op::Reshape);
        let all: Vec<NodeId> = graph.ids().filter(|id| !is_view(id)).collect();
        let (graph, wholes) = store_as(&graph, &all, DType::F16, execution, &Wholes::new());
        graph.verify().unwrap();
        let mut wholes: Vec<String> =
            wholes.into_values().map(|(path, ty)| format!("{path} is {ty}\n")).collect();
        wholes.sort();
        format!("{graph}{}", wholes.concat())
    }

    #[test]
    fn what_passes_between_kernels_is_narrow() {
        insta::assert_snapshot!(stored("\
graph f(%0) -> (Y = %8)
%0 = input X : f32[4, 6]
%1 = weight W : f32[6, 5]
%2 = tanh %0 : f32[4, 6]
%3 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..6) { v0 = %2[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 5]  # P
%4 = reshape %3 : f32[2, 2, 5]
%5 = exp %4 : f32[2, 2, 5]
%6 = contract sum [a, b] (a: 0..2, b: 0..2, u: 0..5) { v0 = %5[a, b, u]; yield v0 } : f32[2, 2]  # S
%7 = reshape %6 : f32[2, 2, 1]
%8 = div %5 %7 : f32[2, 2, 5]
"), @"
        graph f(%0) -> (Y = %22)
        %0 = input X : f32[4, 6]
        %1 = weight W : f16[6, 5]
        %2 = tanh %0 : f32[4, 6]
        %3 = constant 65504.0 : f32[]
        %4 = min %2 %3 : f32[4, 6]
        %5 = constant -65504.0 : f32[]
        %6 = max %4 %5 : f32[4, 6]
        %7 = cast %6 : f16[4, 6]
        %8 = reshape %7 : f16[4, 6]
        %9 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..6) { v0 = %8[n, k]; v1 = cast v0 : f32; v2 = %1[k, u]; v3 = cast v2 : f32; v4 = mul v1 v3; yield v4 } : f32[4, 5]  # P
        %10 = cast %9 : f16[4, 5]  # P
        %11 = reshape %10 : f16[4, 5]
        %12 = reshape %11 : f16[2, 2, 5]
        %13 = cast %11 : f32[4, 5]
        %14 = reshape %13 : f32[2, 2, 5]
        %15 = cast %12 : f32[2, 2, 5]
        %16 = exp %15 : f32[2, 2, 5]
        %17 = cast %16 : f16[2, 2, 5]
        %18 = reshape %17 : f16[2, 2, 5]
        %19 = contract sum [a, b] (a: 0..2, b: 0..2, u: 0..5) { v0 = %18[a, b, u]; v1 = cast v0 : f32; yield v1 } : f32[2, 2]  # S
        %20 = reshape %19 : f32[2, 2, 1]
        %21 = cast %18 : f32[2, 2, 5]
        %22 = div %21 %20 : f32[2, 2, 5]
        W is f32[6, 5]
        ");
    }

    #[test]
    fn operands_of_convolutions_stay_on_a_cpu() {
        let text = "\
graph f(%0) -> (Y = %4)
%0 = input X : f32[8, 6]
%1 = weight W : f32[3, 6]
%2 = tanh %0 : f32[8, 6]
%3 = contract sum [x, c] (x: 0..6, c: 0..6, k: 0..3) { v0 = %2[x + k, c]; v1 = %1[k, c]; v2 = mul v0 v1; yield v2 } : f32[6, 6]
%4 = contract max [c] (x: 0..6, c: 0..6) { v0 = %3[x, c]; yield v0 } : f32[6]
";
        assert_eq!(stored(text).matches("weight W : f16").count(), 1);
        insta::assert_snapshot!(stored_on(Execution::Native, text), @"
        graph f(%0) -> (Y = %6)
        %0 = input X : f32[8, 6]
        %1 = weight W : f32[3, 6]
        %2 = tanh %0 : f32[8, 6]
        %3 = contract sum [x, c] (x: 0..6, c: 0..6, k: 0..3) { v0 = %2[x + k, c]; v1 = %1[k, c]; v2 = mul v0 v1; yield v2 } : f32[6, 6]
        %4 = cast %3 : f16[6, 6]
        %5 = reshape %4 : f16[6, 6]
        %6 = contract max [c] (x: 0..6, c: 0..6) { v0 = %5[x, c]; v1 = cast v0 : f32; yield v1 } : f32[6]
        ");
    }

    #[test]
    fn squares_integers_and_random_numbers_stay() {
        insta::assert_snapshot!(stored("\
graph f(%0, %1, %2) -> (Norm = %6, Y = %10)
%0 = input X : f32[4, 6]
%1 = input I : i32[4, 6]
%2 = input State : u32[3, 2048]
%3 = tanh %0 : f32[4, 6]
%4 = mul %3 %3 : f32[4, 6]
%5 = contract sum [n] (n: 0..4, k: 0..6) { v0 = %4[n, k]; yield v0 } : f32[4]
%6 = sqrt %5 : f32[4]
%7 = cast %1 : f32[4, 6]
%8 = prng_value %2 : f32[4, 6]
%9 = sub %7 %8 : f32[4, 6]
%10 = contract sum [n] (n: 0..4, k: 0..6) { v0 = %9[n, k]; v1 = %3[n, k]; v2 = mul v0 v1; yield v2 } : f32[4]
"), @"
        graph f(%0, %1, %2) -> (Norm = %17, Y = %13)
        %0 = input X : f32[4, 6]
        %1 = input I : i32[4, 6]
        %2 = input State : u32[3, 2048]
        %3 = tanh %0 : f32[4, 6]
        %4 = cast %1 : f32[4, 6]
        %5 = prng_value %2 : f32[4, 6]
        %6 = sub %4 %5 : f32[4, 6]
        %7 = constant 65504.0 : f32[]
        %8 = min %3 %7 : f32[4, 6]
        %9 = constant -65504.0 : f32[]
        %10 = max %8 %9 : f32[4, 6]
        %11 = cast %10 : f16[4, 6]
        %12 = reshape %11 : f16[4, 6]
        %13 = contract sum [n] (n: 0..4, k: 0..6) { v0 = %6[n, k]; v1 = %12[n, k]; v2 = cast v1 : f32; v3 = mul v0 v2; yield v3 } : f32[4]
        %14 = cast %12 : f32[4, 6]
        %15 = mul %14 %14 : f32[4, 6]
        %16 = contract sum [n] (n: 0..4, k: 0..6) { v0 = %15[n, k]; yield v0 } : f32[4]
        %17 = sqrt %16 : f32[4]
        ");
    }

    #[test]
    fn scans_read_narrow_slices_and_captures() {
        insta::assert_snapshot!(stored("\
graph f(%0) -> (Last = %6, All = %7)
%0 = input X : f32[5, 2, 3]
%1 = weight U : f32[3, 3]
%2 = weight Bias : f32[3]
%3 = neg %0 : f32[5, 2, 3]
%4 = contract assign [n, u] (n: 0..2, u: 0..3) { v0 = %3[0, n, u]; yield v0 } : f32[2, 3]
%5 = scan 5 sequences (%3 along 0) carries (%4) captures (%1, %2) yields (along 0) {
    graph step(%0, %1, %2, %3) -> (H = %5, All = %5)
    %0 = input x : f32[2, 3]
    %1 = input h : f32[2, 3]
    %2 = input u : f32[3, 3]
    %3 = input b : f32[3]
    %4 = contract sum [n, u] (n: 0..2, u: 0..3, k: 0..3) { v0 = %1[n, k]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 } : f32[2, 3]
    %5 = add %4 %0 : f32[2, 3]
} : f32[2, 3]
%6 = result 0 %5 : f32[2, 3]
%7 = result 1 %5 : f32[5, 2, 3]
"), @"
        graph f(%0) -> (Last = %12, All = %13)
        %0 = input X : f32[5, 2, 3]
        %1 = weight U : f16[3, 3]
        %2 = weight Bias : f32[3]
        %3 = neg %0 : f32[5, 2, 3]
        %4 = constant 65504.0 : f32[]
        %5 = min %3 %4 : f32[5, 2, 3]
        %6 = constant -65504.0 : f32[]
        %7 = max %5 %6 : f32[5, 2, 3]
        %8 = cast %7 : f16[5, 2, 3]
        %9 = reshape %8 : f16[5, 2, 3]
        %10 = contract assign [n, u] (n: 0..2, u: 0..3) { v0 = %9[0, n, u]; v1 = cast v0 : f32; yield v1 } : f32[2, 3]
        %11 = scan 5 sequences (%9 along 0) carries (%10) captures (%1, %2) yields (along 0) {
            graph step(%0, %1, %2, %3) -> (H = %6, All = %6)
            %0 = input x : f16[2, 3]
            %1 = input h : f32[2, 3]
            %2 = input u : f16[3, 3]
            %3 = input b : f32[3]
            %4 = contract sum [n, u] (n: 0..2, u: 0..3, k: 0..3) { v0 = %1[n, k]; v1 = %2[k, u]; v2 = cast v1 : f32; v3 = mul v0 v2; yield v3 } : f32[2, 3]
            %5 = cast %0 : f32[2, 3]
            %6 = add %4 %5 : f32[2, 3]
        } : f32[2, 3]
        %12 = result 0 %11 : f32[2, 3]
        %13 = result 1 %11 : f32[5, 2, 3]
        U is f32[3, 3]
        ");
    }
}
