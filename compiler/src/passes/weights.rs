//! Stores weights of products as 8-bit integers with scales, which takes a quarter of the memory
//! and of the traffic to it. Products and sums stay in f32.
//!
//! This is not a simplification: a weight is rounded to one of 255 multiples of its scale, so the
//! pass runs only on request.
//!
//! Example:
//!
//! ```text
//! %1 = weight W : f32[64, 5]
//! %2 = contract sum [n, u] (…) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; … } : f32[4, 5]
//! ```
//!
//! becomes
//!
//! ```text
//! %1 = weight W : i8[64, 5]
//! %2 = weight W.scale : f32[1, 5]
//! %3 = contract sum [n, u] (…) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = cast v1 : f32; … } : f32[4, 5]
//! %4 = reshape %2 : f32[1, 5]
//! %5 = mul %3 %4 : f32[4, 5]
//! ```
//!
//! A scale is common to the elements that are summed: it is that of a column, and multiplies the
//! finished sum. What else reads the weight, such as the lookup of an embedding that is the matrix
//! of scores as well, multiplies each element that it reads. Whoever sets the weight computes
//! values and scales.
//!
//! Left alone are
//! - weights that a run changes;
//! - weights that anything but a contraction reads, or no sum of products;
//! - those with few elements a scale.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Access, Contraction, ContractionLeaf, Graph, Index, Node, NodeId, NodeMap, Op};
use crate::scalar::{BinaryOp, Inst, Program};
use crate::tensor::TensorType;

use super::Wholes;
use super::narrow::sums_products_of_f32;

/// The least elements of a scale. With fewer, scales take much of the memory that is saved.
const ELEMENTS: usize = 32;

/// Stores the weights of products in `graph` as 8-bit integers, which are cast to `factors`, f32 or
/// f16, before they are multiplied in f32: both hold them exactly. Returns the f32 weights, which
/// the caller sees, by the paths of their values and of their scales.
pub(crate) fn quantize_weights(graph: &mut Graph, factors: DType) -> Wholes {
    let mut wholes = Wholes::new();
    let old = graph.weights.clone();
    let mut new: Vec<NewWeight> = Vec::new();
    for &id in &old {
        let (mut node, axes) = (graph.node(id).clone(), scale_axes(graph, id));
        let mut scale = None;
        if let (Op::Weight(path), Some(axes)) = (&node.op, &axes) {
            let own = scale_path(graph, path);
            for name in [path, &own] {
                wholes.insert(name.clone(), (path.clone(), node.ty.clone()));
            }
            let ty = TensorType::new(DType::F32, shape_of_scales(&node.ty.shape, axes));
            let mut node_of_scale = node.clone();
            (node_of_scale.op, node_of_scale.ty) = (Op::Weight(own), ty);
            scale = Some(node_of_scale);
            node.ty.dtype = DType::I8;
        }
        new.push(NewWeight { node, old: Some(id), axes });
        new.extend(scale.map(|node| NewWeight { node, old: None, axes: None }));
    }
    // Weights are listed in the order of their nodes, and the scales of each follow it.
    let ids = new.iter().map(|NewWeight { node, .. }| (node.op.clone(), node.ty.clone()));
    let ids = ids.map(|(op, ty)| graph.add(op, ty, &[]));
    let mut ids: Vec<NodeId> = ids.collect();
    ids.sort_unstable();
    let mut quantized = NodeMap::new();
    for (number, NewWeight { node, old, axes }) in new.into_iter().enumerate() {
        *graph.node_mut(ids[number]) = node;
        if let Some(old) = old {
            graph.replace(old, ids[number]);
        }
        if let Some(axes) = axes {
            quantized.insert(ids[number], Scale { node: ids[number + 1], axes });
        }
    }
    old.into_iter().for_each(|id| graph.remove(id));
    graph.weights = ids;
    read_all(graph, &quantized, factors);
    wholes
}

/// A weight of the new graph.
struct NewWeight {
    node: Node,
    /// The weight that it stands for. `None` for scales.
    old: Option<NodeId>,
    /// The axes of its scales, which follow it, if it is quantized.
    axes: Option<Vec<usize>>,
}

/// Returns the axes of a weight along which its scales differ. `None` if it must stay as it is, or
/// would have few elements a scale.
fn scale_axes(graph: &Graph, id: NodeId) -> Option<Vec<usize>> {
    let TensorType { dtype, shape } = &graph.node(id).ty;
    let axes = candidate_axes(graph, id).filter(|_| *dtype == DType::F32)?;
    let [elements, scales] = [shape, &shape_of_scales(shape, &axes)]
        .map(|sizes| sizes.iter().fold(1usize, |all, &size| all.saturating_mul(size)));
    (elements / ELEMENTS >= scales.max(1)).then_some(axes)
}

fn shape_of_scales(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    let own = |(axis, &size)| if axes.contains(&axis) { size } else { 1 };
    shape.iter().enumerate().map(own).collect()
}

/// Returns a path for the scales of a weight that no input, weight or output has.
fn scale_path(graph: &Graph, path: &str) -> String {
    let is_taken = |name: &str| {
        let given = graph.inputs.iter().chain(&graph.weights);
        let given = given.filter_map(|&id| graph.node(id).op.given_name());
        given.chain(graph.outputs.iter().map(|(name, _)| name.as_str())).any(|n| n == name)
    };
    let numbered = (2..).map(|number| format!("{path}.scale_{number}"));
    let mut names = std::iter::once(format!("{path}.scale")).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

/// The scales of a weight.
struct Scale {
    node: NodeId,
    /// The axes of the weight along which they differ. The node has one element along the others.
    axes: Vec<usize>,
}

/// Returns the axes of a weight that do not change within a sum, in all products that read it, or
/// else in the first: one scale then belongs to all terms. `None` if the weight must stay as it is.
fn candidate_axes(graph: &Graph, id: NodeId) -> Option<Vec<usize>> {
    let path = graph.node(id).op.given_name();
    if graph.outputs.iter().any(|(name, output)| *output == id || Some(name.as_str()) == path) {
        return None;
    }
    let mut axes: Option<Vec<usize>> = None;
    for user in graph.users(id) {
        let operands = graph.operands(user);
        let axes_of_user = match &graph.node(user).op {
            Op::Contraction(op) if op.default && operands.last() == Some(&id) => return None,
            Op::Contraction(op) if !sums_products_of_f32(op) => continue,
            Op::Contraction(op) => {
                let reads = op.accesses.iter().filter(|access| operands[access.operand] == id);
                let free = reads.map(|access| free_axes(op, access));
                free.reduce(common).unwrap_or_default()
            }
            Op::Scan(scan) => {
                let captures = operands.len() - scan.sequences.len() - scan.carries;
                let outside = &operands[operands.len() - captures..];
                if operands.iter().filter(|operand| **operand == id).count()
                    != outside.iter().filter(|operand| **operand == id).count()
                {
                    return None;
                }
                let inside = &scan.body.inputs[operands.len() - captures..];
                let inside = inside.iter().zip(outside).filter(|(_, outside)| **outside == id);
                let axes_inside = inside.map(|(inside, _)| candidate_axes(&scan.body, *inside));
                axes_inside.collect::<Option<Vec<_>>>()?.into_iter().reduce(common)?
            }
            _ => return None,
        };
        axes = Some(match axes {
            Some(axes) => {
                let both = common(axes.clone(), axes_of_user);
                if both.is_empty() { axes } else { both }
            }
            None => axes_of_user,
        });
    }
    axes
}

fn common(mut axes: Vec<usize>, others: Vec<usize>) -> Vec<usize> {
    axes.retain(|axis| others.contains(axis));
    axes
}

/// Returns the axes that an access reads at a coordinate of the place alone.
fn free_axes(op: &Contraction, access: &Access) -> Vec<usize> {
    let is_free = |&axis: &usize| {
        let index = &access.index[axis];
        let variable = index.affine.as_variable().filter(|_| index.access.is_none());
        variable.is_some_and(|v| op.output.iter().any(|place| place.as_variable() == Some(v)))
    };
    (0..access.index.len()).filter(is_free).collect()
}

/// Changes all that reads quantized weights.
fn read_all(graph: &mut Graph, quantized: &NodeMap<Scale>, factors: DType) {
    for id in graph.topological() {
        if graph.operands(id).iter().all(|operand| !quantized.contains(*operand)) {
            continue;
        }
        if let Some(mut parts) = graph.take_scan(id) {
            let mut inside = NodeMap::new();
            for capture in parts.captures.clone() {
                let Some(scale) = quantized.get(capture.outside) else { continue };
                let ty = graph.node(scale.node).ty.clone();
                let node = parts.capture(scale.node, ty, "scale");
                parts.body.node_mut(capture.inside).ty.dtype = DType::I8;
                inside.insert(capture.inside, Scale { node, axes: scale.axes.clone() });
            }
            parts.list();
            read_all(&mut parts.body, &inside, factors);
            parts.refresh();
            graph.put_scan(id, parts);
        } else {
            read(graph, id, quantized, factors);
        }
    }
}

/// Changes a contraction that reads quantized weights.
fn read(graph: &mut Graph, id: NodeId, quantized: &NodeMap<Scale>, factors: DType) {
    let Op::Contraction(op) = &graph.node(id).op else { return };
    let mut op = op.clone();
    let mut operands = graph.operands(id).to_vec();
    let default = if op.default { operands.pop() } else { None };
    let mut outer = Vec::new();
    // The access to the scale of each access, if elements are multiplied by it.
    let mut scales: Vec<Option<usize>> = vec![None; op.accesses.len()];
    for number in 0..op.accesses.len() {
        let Some(scale) = quantized.get(operands[op.accesses[number].operand]) else { continue };
        if let Some(shape) = shape_beside(graph, id, &op, number, scale) {
            outer.push((scale.node, shape));
            continue;
        }
        let own = |(axis, index): (usize, &Index)| match scale.axes.contains(&axis) {
            true => index.clone(),
            false => Index { affine: Affine::constant(0), access: None },
        };
        let index = op.accesses[number].index.iter().enumerate().map(own).collect();
        let known = operands.iter().position(|operand| *operand == scale.node);
        let operand = known.unwrap_or_else(|| {
            operands.push(scale.node);
            operands.len() - 1
        });
        scales[number] = Some(op.accesses.len());
        op.accesses.push(Access { operand, index });
    }
    let is_quantized = |access: usize| quantized.contains(operands[op.accesses[access].operand]);
    op.body = scaled(&op.body, &is_quantized, &scales, factors);
    operands.extend(default);
    let Node { ty, name, origin, span, .. } = graph.node(id).clone();
    if outer.is_empty() {
        graph.set(id, Op::Contraction(op), &operands);
        return;
    }
    let mut value = graph.add(Op::Contraction(op), ty.clone(), &operands);
    let node = graph.node_mut(value);
    (node.name, node.origin, node.span) = (name, origin, span);
    let last = outer.len() - 1;
    for (number, (scale, shape)) in outer.into_iter().enumerate() {
        let scale = graph.add(Op::Reshape, TensorType::new(DType::F32, shape), &[scale]);
        match number == last {
            true => graph.set(id, Op::Binary(BinaryOp::Mul), &[value, scale]),
            false => value = graph.add(Op::Binary(BinaryOp::Mul), ty.clone(), &[value, scale]),
        }
    }
}

/// Returns the shape in which the scales of an access multiply the sums of a contraction. `None` if
/// they must multiply the terms.
fn shape_beside(
    graph: &Graph,
    id: NodeId,
    op: &Contraction,
    number: usize,
    scale: &Scale,
) -> Option<Vec<usize>> {
    let access = &op.accesses[number];
    let result = op.body.results[0];
    let is_leaf = |value| matches!(op.body.insts[value].0, Inst::Leaf(ContractionLeaf::Access(read)) if read == number);
    let is_factor = match op.body.insts[result].0 {
        Inst::Binary(BinaryOp::Mul, a, b) => is_leaf(a) || is_leaf(b),
        _ => false,
    };
    let reads = op.body.insts.iter().filter(|(inst, _)| match inst {
        Inst::Leaf(ContractionLeaf::Access(read)) => op.accesses[*read].operand == access.operand,
        _ => false,
    });
    if !sums_products_of_f32(op) || op.default || !is_factor || reads.count() > 1 {
        return None;
    }
    let scales = graph.shape(scale.node);
    let mut shape = vec![1; op.output.len()];
    let mut next = 0;
    for &axis in &scale.axes {
        let variable = access.index[axis].affine.as_variable()?;
        let mut places = op.output[next..].iter();
        let place = next + places.position(|place| place.as_variable() == Some(variable))?;
        if graph.shape(id)[place] != scales[axis] {
            return None;
        }
        shape[place] = scales[axis];
        next = place + 1;
    }
    Some(shape)
}

/// Returns a body that reads quantized elements instead of f32 ones. Those of an access with scales
/// are multiplied by these.
fn scaled(
    body: &Program<ContractionLeaf>,
    is_quantized: &dyn Fn(usize) -> bool,
    scales: &[Option<usize>],
    factors: DType,
) -> Program<ContractionLeaf> {
    let mut scaled = Program::default();
    scaled.results = scaled.append(body, |program: &mut Program<ContractionLeaf>, leaf, dtype| {
        let number = match leaf {
            ContractionLeaf::Access(number) if is_quantized(*number) => *number,
            _ => return program.push(Inst::Leaf(leaf.clone()), dtype),
        };
        let value = program.push(Inst::Leaf(leaf.clone()), DType::I8);
        let value = program.cast(value, factors);
        let value = program.cast(value, dtype);
        let Some(scale) = scales[number] else { return value };
        let scale = program.push(Inst::Leaf(ContractionLeaf::Access(scale)), DType::F32);
        program.binary(BinaryOp::Mul, value, scale)
    });
    scaled
}

#[cfg(test)]
mod tests {
    use super::quantize_weights;
    use crate::dtype::DType;
    use crate::graph::Graph;

    /// Returns the text of the graph after its weights are quantized, and the weights that the
    /// caller sees.
    fn quantized(text: &str) -> String {
        let mut graph = Graph::parse(text).unwrap();
        graph.verify().unwrap();
        let wholes = quantize_weights(&mut graph, DType::F32);
        graph.verify().unwrap();
        let whole = |(own, (path, ty))| format!("{own} of {path}: {ty}\n");
        let mut wholes: Vec<String> = wholes.into_iter().map(whole).collect();
        wholes.sort();
        format!("{graph}{}", wholes.concat())
    }

    #[test]
    fn scales_of_columns_multiply_sums() {
        insta::assert_snapshot!(quantized("\
graph f(%0) -> (P = %4, C = %5)
%0 = input X : f32[4, 8, 64]
%1 = weight W : f32[64, 5]
%2 = weight V : f32[64, 3]
%3 = weight K : f32[3, 64, 7]
%4 = contract sum [n, h, u] (n: 0..4, h: 0..8, u: 0..5, k: 0..64) { v0 = %0[n, h, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[4, 8, 5]  # P
%5 = contract sum [n, u, x] (n: 0..4, u: 0..7, x: 0..6, i: 0..3, k: 0..64) { v0 = %3[i, k, u]; v1 = %0[n, x + i, k]; v2 = mul v0 v1; yield v2 } : f32[4, 7, 6]  # C
"), @"
        graph f(%0) -> (P = %5, C = %11)
        %0 = input X : f32[4, 8, 64]
        %1 = weight W : i8[64, 5]
        %2 = contract sum [n, h, u] (n: 0..4, h: 0..8, u: 0..5, k: 0..64) { v0 = %0[n, h, k]; v1 = %1[k, u]; v2 = cast v1 : f32; v3 = mul v0 v2; yield v3 } : f32[4, 8, 5]  # P
        %3 = weight W.scale : f32[1, 5]
        %4 = reshape %3 : f32[1, 1, 5]
        %5 = mul %2 %4 : f32[4, 8, 5]  # P
        %6 = weight V : f32[64, 3]
        %7 = weight K : i8[3, 64, 7]
        %8 = contract sum [n, u, x] (n: 0..4, u: 0..7, x: 0..6, i: 0..3, k: 0..64) { v0 = %7[i, k, u]; v1 = cast v0 : f32; v2 = %0[n, x + i, k]; v3 = mul v1 v2; yield v3 } : f32[4, 7, 6]  # C
        %9 = weight K.scale : f32[1, 1, 7]
        %10 = reshape %9 : f32[1, 7, 1]
        %11 = mul %8 %10 : f32[4, 7, 6]  # C
        K of K: f32[3, 64, 7]
        K.scale of K: f32[3, 64, 7]
        W of W: f32[64, 5]
        W.scale of W: f32[64, 5]
        ");
    }

    #[test]
    fn lookups_and_transpositions_multiply_elements() {
        insta::assert_snapshot!(quantized("\
graph f(%0, %2) -> (Logits = %4, T = %5)
%0 = input Token : i32[6]
%1 = weight E : f32[50, 64]
%2 = input E.scale : f32[2, 50]
%3 = contract assign [t, d] (t: 0..6, d: 0..64) { @0 = %0[t]; v0 = %1[@0, d]; yield v0 } : f32[6, 64]
%4 = contract sum [t, w] (t: 0..6, w: 0..50, d: 0..64) { v0 = %3[t, d]; v1 = %1[w, d]; v2 = mul v0 v1; yield v2 } : f32[6, 50]
%5 = contract sum [n, d] (n: 0..2, d: 0..64, w: 0..50) { v0 = %2[n, w]; v1 = %1[w, d]; v2 = exp v1; v3 = mul v0 v2; yield v3 } : f32[2, 64]
"), @"
        graph f(%0, %1) -> (Logits = %8, T = %6)
        %0 = input Token : i32[6]
        %1 = input E.scale : f32[2, 50]
        %2 = weight E : i8[50, 64]
        %3 = weight E.scale_2 : f32[50, 1]
        %4 = contract assign [t, d] (t: 0..6, d: 0..64) { @0 = %0[t]; v0 = %2[@0, d]; v1 = cast v0 : f32; v2 = %3[@0, 0]; v3 = mul v1 v2; yield v3 } : f32[6, 64]
        %5 = contract sum [t, w] (t: 0..6, w: 0..50, d: 0..64) { v0 = %4[t, d]; v1 = %2[w, d]; v2 = cast v1 : f32; v3 = mul v0 v2; yield v3 } : f32[6, 50]
        %6 = contract sum [n, d] (n: 0..2, d: 0..64, w: 0..50) { v0 = %1[n, w]; v1 = %2[w, d]; v2 = cast v1 : f32; v3 = %3[w, 0]; v4 = mul v2 v3; v5 = exp v4; v6 = mul v0 v5; yield v6 } : f32[2, 64]
        %7 = reshape %3 : f32[1, 50]
        %8 = mul %5 %7 : f32[6, 50]
        E of E: f32[50, 64]
        E.scale_2 of E: f32[50, 64]
        ");
    }

    #[test]
    fn loops_read_weights_and_scales() {
        insta::assert_snapshot!(quantized("\
graph f(%0) -> (Last = %5)
%0 = input X : f32[2, 40]
%1 = weight U : f32[40, 40]
%2 = weight Small : f32[4, 40]
%3 = weight Bias : f32[40]
%4 = scan 5 sequences () carries (%0) captures (%1, %3) yields () {
    graph step(%0, %1, %2) -> (H = %4)
    %0 = input h : f32[2, 40]
    %1 = input u : f32[40, 40]
    %2 = input b : f32[40]
    %3 = contract sum [n, u] (n: 0..2, u: 0..40, k: 0..40) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[2, 40]
    %4 = add %3 %2 : f32[2, 40]
} : f32[2, 40]
%5 = result 0 %4 : f32[2, 40]
"), @"
        graph f(%0) -> (Last = %6)
        %0 = input X : f32[2, 40]
        %1 = weight U : i8[40, 40]
        %2 = weight U.scale : f32[1, 40]
        %3 = weight Small : f32[4, 40]
        %4 = weight Bias : f32[40]
        %5 = scan 5 sequences () carries (%0) captures (%1, %4, %2) yields () {
            graph step(%0, %1, %2, %3) -> (H = %7)
            %0 = input h : f32[2, 40]
            %1 = input u : i8[40, 40]
            %2 = input b : f32[40]
            %3 = input scale : f32[1, 40]
            %4 = contract sum [n, u] (n: 0..2, u: 0..40, k: 0..40) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = cast v1 : f32; v3 = mul v0 v2; yield v3 } : f32[2, 40]
            %5 = reshape %3 : f32[1, 40]
            %6 = mul %4 %5 : f32[2, 40]
            %7 = add %6 %2 : f32[2, 40]
        } : f32[2, 40]
        %6 = result 0 %5 : f32[2, 40]
        U of U: f32[40, 40]
        U.scale of U: f32[40, 40]
        ");
    }
}
