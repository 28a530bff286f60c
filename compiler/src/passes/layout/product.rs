//! [`WeightProduct`]: what a product with a weight says about the axes of its tensors.

use std::collections::HashSet;

use crate::affine::Affine;
use crate::graph::{Access, Contraction, ContractionLeaf, Graph, NodeId, NodeMap, NodeSet, Op};
use crate::profile::Processor;
use crate::scalar::Inst;

use super::Order;

/// A sum of products of a tensor with a weight.
pub(super) struct WeightProduct {
    /// The tensor's operand number.
    pub number: usize,
    pub tensor: NodeId,
    /// Axes of the tensor and the result whose index also runs over the weight, and all other axes.
    pub channels: Vec<(NodeId, usize)>,
    pub others: Vec<(NodeId, usize)>,
    /// Some index of the tensor or of the result is the sum of a place and a tap: the product is a
    /// convolution.
    pub has_window: bool,
    /// For a convolution that sums over no channels or over few, such as a depthwise or a grouped
    /// one: the weight's operand number, and its channels-last order.
    pub weight: Option<(usize, Order)>,
}

impl WeightProduct {
    /// Returns all nodes, operands before their readers, and the products among them.
    pub fn all(graph: &Graph) -> (Vec<NodeId>, NodeMap<WeightProduct>) {
        let mut kept = NodeSet::new();
        let mut products = NodeMap::new();
        let order = graph.topological();
        for &id in &order {
            let is_kept = match graph.node(id).op {
                Op::Input(_) => false,
                Op::Weight(_) => true,
                _ => graph.operands(id).iter().all(|operand| kept.contains(*operand)),
            };
            if is_kept {
                kept.insert(id);
            } else {
                products.extend(WeightProduct::of(graph, id, &kept).map(|product| (id, product)));
            }
        }
        (order, products)
    }

    fn of(graph: &Graph, id: NodeId, kept: &NodeSet) -> Option<WeightProduct> {
        let Op::Contraction(op) = &graph.node(id).op else { return None };
        let operands = graph.operands(id);
        let [a, b] = &op.accesses[..] else { return None };
        let node = |access: usize| operands[op.accesses[access].operand];
        let is_of_two = op.is_sum_of_products()
            && op
                .body
                .insts
                .iter()
                .all(|(inst, _)| !matches!(inst, Inst::Leaf(ContractionLeaf::Index(_))));
        let (tensor, weight) = match (kept.contains(node(0)), kept.contains(node(1))) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return None,
        };
        if !is_of_two || !tensor.is_fixed() || !weight.is_fixed() {
            return None;
        }
        let of_result = |v: usize| op.output.iter().any(|place| place.coefficient(v) != 0);
        let long = |affine: &Affine| {
            affine.variables().filter(|&v| op.indices[v].varies()).collect::<Vec<usize>>()
        };
        let of_weight = |v: usize| weight.mentions(v);
        // Taps are no channels. A convolution reads at an index of a place plus a tap; a transposed
        // convolution writes there.
        let mut taps: HashSet<usize> = HashSet::new();
        for index in &tensor.index {
            let variables = long(&index.affine);
            if variables.iter().any(|&v| of_result(v) && !of_weight(v)) {
                taps.extend(variables.into_iter().filter(|&v| !of_result(v)));
            }
        }
        for index in &op.output {
            let variables = long(index);
            if variables.iter().any(|&v| tensor.mentions(v) && !of_weight(v)) {
                taps.extend(variables.into_iter().filter(|&v| !tensor.mentions(v)));
            }
        }
        let mut product = WeightProduct {
            number: tensor.operand,
            tensor: operands[tensor.operand],
            channels: Vec::new(),
            others: Vec::new(),
            has_window: !taps.is_empty(),
            weight: None,
        };
        let of_tensor = tensor.index.iter().map(|index| &index.affine).enumerate();
        let of_tensor = of_tensor.map(|(axis, affine)| ((product.tensor, axis), affine));
        let all = of_tensor
            .chain(op.output.iter().enumerate().map(|(axis, affine)| ((id, axis), affine)));
        for (axis, affine) in all {
            let variables = long(affine);
            let is_channel = variables.iter().all(|&v| of_weight(v) && !taps.contains(&v));
            match (variables.is_empty(), is_channel) {
                (true, _) => {}
                (_, true) => product.channels.push(axis),
                (_, false) => product.others.push(axis),
            }
        }
        let is_summed = |v: usize| {
            of_weight(v) && !of_result(v) && !taps.contains(&v) && op.indices[v].varies()
        };
        let sums_channels = (0..op.indices.len()).any(is_summed);
        let is_gathered = !taps.iter().any(|&tap| of_result(tap));
        let is_narrow = is_gathered && is_narrow(op, tensor, weight);
        if product.has_window && (is_narrow || !sums_channels) {
            let is_tap = |axis: &usize| {
                !long(&weight.index[*axis].affine)
                    .iter()
                    .any(|v| of_result(*v) && !taps.contains(v))
            };
            let (first, last): (Order, Order) = (0..weight.index.len()).partition(is_tap);
            product.weight = Some((weight.operand, first.into_iter().chain(last).collect()));
        }
        Some(product)
    }
}

/// Returns whether each group of channels has so few that its sums are computed as those of a
/// depthwise convolution are.
fn is_narrow(op: &Contraction, tensor: &Access, weight: &Access) -> bool {
    let of_result = |v: usize| op.output.iter().any(|place| place.coefficient(v) != 0);
    let points = |is_counted: &dyn Fn(usize) -> bool| -> usize {
        let counted = op.indices.iter().enumerate().filter(|(v, _)| is_counted(*v));
        counted.map(|(_, index)| (index.high - index.low).max(0) as usize).product()
    };
    let filters = points(&|v| weight.mentions(v) && !tensor.mentions(v));
    let terms = points(&|v| weight.mentions(v) && !of_result(v));
    filters <= Processor::MOST_NARROW_COLUMNS && terms <= Processor::MOST_NARROW_TERMS
}
