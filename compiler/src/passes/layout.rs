//! Stores tensors between convolutions channels-last, for devices whose fast kernels vectorize
//! along channels.
//!
//! Example: networks from PyTorch and ONNX have images in NCHW order, [images, channels, lines,
//! pixels], where the vectors of a depthwise convolution would run along the few pixels of a line.
//! In
//!
//! ```text
//! %2 = contract sum [n, f, y, x] (…) { v0 = %0[n, c, y + i, x + j]; v1 = %1[f, c, i, j]; … }
//!      : f32[1, 6, 5, 7]
//! %3 = exp %2 : f32[1, 6, 5, 7]
//! ```
//!
//! where another convolution reads `%3`, both nodes become f32[1, 5, 7, 6]. Inputs, weights and
//! outputs keep their layout: contractions read and write any layout, and other operations get
//! transposed views. There are two exceptions, which get a channels-last copy: an input that is
//! read through a window, and an output that is a convolution, or is computed from one elementwise.
//!
//! Axes are partitioned into classes, so that elementwise operations, pooling, padding and the like
//! relate the axes of their operands and results. A product with a weight determines for each axis
//! of its result and of its other operand whether it holds channels: it does if its index also runs
//! over the weight. Only convolutions, which read the operand or write the result through a window,
//! decide this on their own. Any other product with a weight follows once one of its axes is known
//! to hold no channels.
//!
//! Why it is sound: permuting axes does not change which elements an index selects. Sums may add
//! their terms in another order.

mod classes;
mod product;
mod rewriter;

use crate::graph::{Contraction, Graph, NodeId, NodeMap, Op};
use classes::Classes;
use product::WeightProduct;
use rewriter::Rewriter;

/// Runs the pass; see the module's documentation.
pub fn layout(graph: &mut Graph) {
    let (mut order, products) = WeightProduct::all(graph);
    let [orders, copied] = Classes::new(graph, &order, &products).orders(graph, &order, &products);
    if orders.is_empty() && copied.is_empty() {
        return;
    }
    let moved: Vec<NodeId> =
        order.iter().copied().filter(|id| orders.contains(*id) && graph.is_output(*id)).collect();
    order.extend(moved.into_iter().map(|id| give_by_copy(graph, id)));
    let mut read: NodeMap<Vec<(usize, Order)>> = NodeMap::new();
    for (id, product) in products.into_entries() {
        let copied = copied.get(product.tensor).map(|order| (product.number, order.clone()));
        for operand in product.weight.into_iter().chain(copied) {
            read.slot(id).get_or_insert_default().push(operand);
        }
    }
    let mut rewriter = Rewriter::new(graph, orders, read);
    order.into_iter().for_each(|id| rewriter.rewrite(id));
}

/// A permutation of a tensor's axes: the old number of each axis, in the new order.
type Order = Vec<usize>;

fn is_identity(order: &[usize]) -> bool {
    order.iter().enumerate().all(|(place, &axis)| place == axis)
}

/// Returns whether the permuted tensor has its elements in the same order: only axes of size 1
/// move.
fn is_view_of(shape: &[usize], order: &[usize]) -> bool {
    let long: Vec<usize> = order.iter().copied().filter(|&axis| shape[axis] != 1).collect();
    long.is_sorted()
}

/// Makes an output a copy of its node, so that the node may have any order.
fn give_by_copy(graph: &mut Graph, id: NodeId) -> NodeId {
    let node = graph.node(id).clone();
    let copy = Op::Contraction(Box::new(Contraction::copy(node.ty.dtype, &node.ty.shape)));
    let copy = graph.add(copy, node.ty, &[id]);
    (graph.node_mut(copy).name, graph.node_mut(copy).origin) = (node.name, node.origin);
    graph
        .outputs
        .iter_mut()
        .filter(|(_, output)| *output == id)
        .for_each(|(_, output)| *output = copy);
    copy
}

#[cfg(test)]
mod tests;
