//! Divides an aggregation over windows along several axes into aggregations along one axis each.
//!
//! Example: the maximum over 9 x 9 places reads 81 elements for each place.
//!
//! ```text
//! contract max [y, x] (y: 0..20, x: 0..20, i: 0..9, j: 0..9) { v0 = %0[y + i - 4, x + j - 4]; … }
//! ```
//!
//! becomes a maximum over `i`, and then one over `j` of these, which read 18.
//!
//! Why it is sound: each coordinate has index variables of its own, so whether a point is in bounds
//! is decided coordinate by coordinate. Where a window has no points along the first axis, all
//! values for the second are 0, and so are the sum, the product, the maximum and the minimum of any
//! number of these. Sums may add their terms in another order.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Graph, Index, IndexRange, NodeId, Op,
};
use crate::scalar::Inst;
use crate::tensor::TensorType;

/// Runs the pass; see the module's documentation.
pub fn separate(graph: &mut Graph) {
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            separate(&mut parts.body);
            graph.put_scan(id, parts);
        }
        let Op::Contraction(op) = &graph.node(id).op else { continue };
        let &[tensor] = graph.operands(id) else { continue };
        let Some(windows) = windows(op, graph.node(id).ty.dtype) else { continue };
        let Some(order) = order(op, &windows, graph.shape(tensor)) else { continue };
        divide(graph, id, tensor, &order);
    }
}

/// A coordinate of the access that the reduction runs along.
#[derive(Clone, Copy)]
struct Window {
    axis: usize,
    /// The variable of the place, if the coordinate has one.
    place: Option<usize>,
    /// The variable of the reduction.
    point: usize,
}

/// Returns the windows of an aggregation of one tensor's elements. `None` if an index variable runs
/// along several coordinates, or if a part of the result would be rounded.
fn windows(op: &Contraction, dtype: DType) -> Option<Vec<Window>> {
    let [access] = &op.accesses[..] else { return None };
    let is_element = matches!(
        &op.body.insts.iter().collect::<Vec<_>>()[..],
        [(Inst::Leaf(ContractionLeaf::Access(0)), _)]
    ) && op.body.results.len() == 1;
    let selects = matches!(op.aggregation, Aggregation::Max | Aggregation::Min);
    let is_exact = selects || !dtype.is_half();
    let places: Vec<usize> = op.output.iter().map(Affine::as_variable).collect::<Option<_>>()?;
    let mut seen = vec![false; op.indices.len()];
    let from_zero = places
        .iter()
        .all(|&place| !std::mem::replace(&mut seen[place], true) && op.indices[place].low == 0);
    if !is_element
        || !is_exact
        || !from_zero
        || op.aggregation.operation().is_none()
        || !access.is_fixed()
        || !op.constraints.is_empty()
        || op.default
    {
        return None;
    }
    let mut seen = vec![false; op.indices.len()];
    let mut windows = Vec::new();
    for (axis, index) in access.index.iter().enumerate() {
        let (mut place, mut point) = (None, None);
        for variable in index.affine.variables() {
            let slot = if places.contains(&variable) { &mut place } else { &mut point };
            if slot.replace(variable).is_some() || std::mem::replace(&mut seen[variable], true) {
                return None;
            }
        }
        windows.extend(point.map(|point| Window { axis, place, point }));
    }
    // Points that the access does not name count several times.
    let all_named = (0..op.indices.len()).all(|v| seen[v] || places.contains(&v));
    all_named.then_some(windows)
}

/// Returns the windows in the order that reads the fewest elements. `None` if one aggregation over
/// all of them is no slower.
fn order(op: &Contraction, windows: &[Window], shape: &[usize]) -> Option<Vec<Window>> {
    /// The elements read in the time that one takes to be stored and read again.
    const STORE: f64 = 4.0;
    let extent = |variable: usize| {
        let IndexRange { low, high, .. } = op.indices[variable];
        (high - low).max(0) as f64
    };
    let places = |window: &Window| window.place.map_or(1.0, extent);
    let shrinks = |window: &Window| places(window) / shape[window.axis].max(1) as f64;
    let mut order: Vec<Window> = windows.to_vec();
    order.sort_by(|a, b| shrinks(a).total_cmp(&shrinks(b)));
    let results: f64 = op.output.iter().flat_map(Affine::variables).map(extent).product();
    let at_once: f64 = results * windows.iter().map(|window| extent(window.point)).product::<f64>();
    let mut size: f64 = shape.iter().map(|&length| length as f64).product();
    let mut in_turn = 0.0;
    for (number, window) in order.iter().enumerate() {
        let is_last = number + 1 == order.len();
        size = if is_last { results } else { size * shrinks(window) };
        in_turn += size * (extent(window.point) + if is_last { 0.0 } else { STORE });
    }
    (order.len() > 1 && in_turn < at_once).then_some(order)
}

/// Replaces a node by aggregations along one window after another.
fn divide(graph: &mut Graph, id: NodeId, tensor: NodeId, order: &[Window]) {
    let node = graph.node(id).clone();
    let Op::Contraction(mut op) = node.op else { return };
    let Some((_, before)) = order.split_last() else { return };
    let mut tensor = tensor;
    for window in before {
        let index = op.accesses[0].index[window.axis].affine.clone();
        let Some((next, shape)) = along(&op, window, &index, graph.shape(tensor)) else { return };
        let ty = TensorType::new(node.ty.dtype, shape);
        tensor = graph.add(Op::Contraction(Box::new(next)), ty, &[tensor]);
        op.accesses[0].index[window.axis].affine =
            window.place.map_or(Affine::constant(0), Affine::var);
    }
    // The variables of the places and of the last window are left.
    let is_left = |v: &usize| before.iter().all(|window| window.point != *v);
    let left: Vec<usize> = (0..op.indices.len()).filter(is_left).collect();
    let number = |v: usize| left.partition_point(|left| *left < v);
    let renumber = |affine: &Affine| affine.map_variables(number);
    let index = |at: &Index| renumber(&at.affine);
    let (Some(output), Some(index)) = (
        op.output.iter().map(renumber).collect(),
        op.accesses[0].index.iter().map(index).collect(),
    ) else {
        return;
    };
    op.indices = left.iter().map(|&v| op.indices[v].clone()).collect();
    (op.output, op.accesses) = (output, vec![Access::fixed(0, index)]);
    graph.set(id, Op::Contraction(op), &[tensor]);
}

/// Returns the aggregation of a tensor of this shape along one window, whose coordinate is `index`,
/// and the shape of the result.
fn along(
    op: &Contraction,
    window: &Window,
    index: &Affine,
    shape: &[usize],
) -> Option<(Contraction, Vec<usize>)> {
    let mut shape = shape.to_vec();
    let places = window.place.map_or(1, |place| op.indices[place].high);
    shape[window.axis] = usize::try_from(places).ok()?;
    let rank = shape.len();
    let mut next = op.clone();
    next.indices = IndexRange::all(&shape);
    let point = op.indices[window.point].clone();
    next.indices.push(IndexRange { name: format!("i{rank}"), ..point });
    next.output = (0..rank).map(Affine::var).collect();
    let mut read = next.output.clone();
    read[window.axis] =
        index.map_variables(|v| if v == window.point { rank } else { window.axis })?;
    next.accesses = vec![Access::fixed(0, read)];
    Some((next, shape))
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::separate;

    #[test]
    fn windows_along_two_axes_are_taken_one_after_the_other() {
        insta::assert_snapshot!(after(&[separate], "\
graph g(%0) -> (Y = %1)
%0 = input X : f32[3, 20, 30]
%1 = contract max [c, y, x] (c: 0..3, y: 0..20, x: 0..15, i: 0..9, j: 0..9) { v0 = %0[c, y + i - 4, 2*x + j - 4]; yield v0 } : f32[3, 20, 15]
"), @"
        graph g(%0) -> (Y = %2)
        %0 = input X : f32[3, 20, 30]
        %1 = contract max [i0, i1, i2] (i0: 0..3, i1: 0..20, i2: 0..15, i3: 0..9) { v0 = %0[i0, i1, 2*i2 + i3 - 4]; yield v0 } : f32[3, 20, 15]
        %2 = contract max [c, y, x] (c: 0..3, y: 0..20, x: 0..15, i: 0..9) { v0 = %1[c, y + i - 4, x]; yield v0 } : f32[3, 20, 15]
        ");
    }

    #[test]
    fn small_windows_and_those_along_a_diagonal_stay() {
        let graph = "\
graph g(%0) -> (Y = %1, Z = %2)
%0 = input X : f32[20, 30]
%1 = contract sum [y, x] (y: 0..20, x: 0..30, i: 0..3, j: 0..3) { v0 = %0[y + i - 1, x + j - 1]; yield v0 } : f32[20, 30]
%2 = contract sum [y] (y: 0..20, i: 0..9) { v0 = %0[y + i, y + i]; yield v0 } : f32[20]
";
        assert_eq!(after(&[separate], graph), graph);
    }
}
