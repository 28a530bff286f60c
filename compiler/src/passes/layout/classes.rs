//! [`Classes`]: the axes that hold channels, as far as products determine them.

use std::collections::HashSet;

use petgraph::unionfind::UnionFind;

use crate::graph::{Graph, NodeId, NodeMap, NodeSet, Op};

use super::product::WeightProduct;
use super::{Order, is_view_of};

/// The axes of all tensors, partitioned into classes that should have the same position.
pub(super) struct Classes {
    first: NodeMap<usize>,
    classes: UnionFind<usize>,
    /// Axes that hold channels, and axes that do not.
    channels: HashSet<usize>,
    others: HashSet<usize>,
}

impl Classes {
    pub fn new(graph: &Graph, order: &[NodeId], products: &NodeMap<WeightProduct>) -> Classes {
        let (mut first, mut count) = (NodeMap::new(), 0);
        for &id in order {
            first.insert(id, count);
            count += graph.shape(id).len();
        }
        let (channels, others) = (HashSet::new(), HashSet::new());
        let mut classes = Classes { first, classes: UnionFind::new(count), channels, others };
        order.iter().for_each(|id| classes.relate(graph, *id, products.get(*id)));
        products
            .values()
            .filter(|product| product.has_window)
            .for_each(|product| classes.learn(product));
        // Conclusions from one product, or axes that a reshape relates, may determine others. What
        // a reshape splits is related last, one at a time, when all other axes are known.
        loop {
            let (channels, others) = (classes.of(&classes.channels), classes.of(&classes.others));
            let is_new = |product: &&WeightProduct| {
                !product.has_window
                    && product.others.iter().any(|&axis| others.contains(&classes.class(axis)))
                    && product.channels.iter().any(|&axis| !channels.contains(&classes.class(axis)))
            };
            let found: Vec<&WeightProduct> = products.values().filter(is_new).collect();
            let merged = order.iter().filter(|id| classes.merge(graph, **id, &channels)).count();
            if found.is_empty()
                && merged == 0
                && !order.iter().any(|id| classes.split(graph, *id, &channels, &others))
            {
                return classes;
            }
            found.into_iter().for_each(|product| classes.learn(product));
        }
    }

    fn axis(&self, (node, axis): (NodeId, usize)) -> usize {
        self.first[node] + axis
    }

    fn unite(&mut self, a: (NodeId, usize), b: (NodeId, usize)) -> bool {
        self.classes.union(self.axis(a), self.axis(b))
    }

    fn class(&self, axis: (NodeId, usize)) -> usize {
        self.classes.find(self.axis(axis))
    }

    /// Returns the classes of some axes.
    fn of(&self, axes: &HashSet<usize>) -> HashSet<usize> {
        axes.iter().map(|&axis| self.classes.find(axis)).collect()
    }

    fn learn(&mut self, product: &WeightProduct) {
        let of =
            |axes: &[(NodeId, usize)]| axes.iter().map(|&axis| self.axis(axis)).collect::<Vec<_>>();
        let (channels, others) = (of(&product.channels), of(&product.others));
        self.channels.extend(channels);
        self.others.extend(others);
    }

    /// Relates the axes of a node to those of its operands.
    fn relate(&mut self, graph: &Graph, id: NodeId, product: Option<&WeightProduct>) {
        let operands = graph.operands(id);
        match &graph.node(id).op {
            op if op.is_elementwise() => {
                for &operand in operands {
                    let missing = graph.shape(id).len() - graph.shape(operand).len();
                    for axis in 0..graph.shape(operand).len() {
                        if graph.shape(operand)[axis] == graph.shape(id)[missing + axis] {
                            self.unite((operand, axis), (id, missing + axis));
                        }
                    }
                }
            }
            Op::Contraction(op) => {
                if op.default {
                    let default = operands[operands.len() - 1];
                    (0..op.output.len())
                        .for_each(|axis| _ = self.unite((default, axis), (id, axis)));
                }
                if op.accesses.len() > 1 && op.is_sum_of_products() && product.is_none() {
                    return;
                }
                let accesses = op.accesses.iter().map(|access| (operands[access.operand], access));
                for (operand, access) in
                    accesses.filter(|(operand, _)| product.is_none_or(|p| p.tensor == *operand))
                {
                    for (axis, index) in access.index.iter().enumerate() {
                        for (place, output) in op.output.iter().enumerate() {
                            if output
                                .variables()
                                .any(|v| op.indices[v].varies() && index.affine.coefficient(v) != 0)
                            {
                                self.unite((operand, axis), (id, place));
                            }
                        }
                    }
                }
            }
            Op::Reshape => {
                for (from, to) in parts(graph.shape(operands[0]), graph.shape(id)) {
                    if let ([from], [to]) = (&from[..], &to[..]) {
                        self.unite((operands[0], *from), (id, *to));
                    }
                }
            }
            _ => {}
        }
    }

    /// Relates the axes that a reshape merges into one, if all their classes hold `channels`.
    /// Returns whether a relation is new.
    fn merge(&mut self, graph: &Graph, id: NodeId, channels: &HashSet<usize>) -> bool {
        let mut is_new = false;
        for [from, to] in reshaped(graph, id) {
            let [to] = to[..] else { continue };
            if from.iter().all(|&axis| channels.contains(&self.class(axis))) {
                from.into_iter().for_each(|axis| is_new |= self.unite(axis, to));
            }
        }
        is_new
    }

    /// Relates an axis of channels to those into which a reshape splits it, if none of these is
    /// known to hold something else. Returns whether a relation is new.
    fn split(
        &mut self,
        graph: &Graph,
        id: NodeId,
        channels: &HashSet<usize>,
        others: &HashSet<usize>,
    ) -> bool {
        let mut is_new = false;
        for [from, to] in reshaped(graph, id) {
            let [from] = from[..] else { continue };
            let is_other = |axis: &(NodeId, usize)| others.contains(&self.class(*axis));
            if channels.contains(&self.class(from)) && !to.iter().any(is_other) {
                to.into_iter().for_each(|axis| is_new |= self.unite(from, axis));
            }
        }
        is_new
    }

    /// Returns the orders of the nodes that move, and the orders in which convolutions read nodes
    /// that do not.
    pub fn orders(
        &self,
        graph: &Graph,
        order: &[NodeId],
        products: &NodeMap<WeightProduct>,
    ) -> [NodeMap<Order>; 2] {
        let (channels, others) = (self.of(&self.channels), self.of(&self.others));
        let moves = |id: NodeId, axis: usize| {
            let class = self.class((id, axis));
            channels.contains(&class) && !others.contains(&class)
        };
        let in_order = |id: NodeId| {
            let shape = graph.shape(id);
            let (last, first): (Order, Order) = (0..shape.len()).partition(|&axis| moves(id, axis));
            let order: Order = first.into_iter().chain(last).collect();
            (!is_view_of(shape, &order)).then_some((id, order))
        };
        // Convolutions, and nodes computed from them elementwise.
        let mut of_windows = NodeSet::new();
        for &id in order {
            let is_made = || graph.operands(id).iter().any(|operand| of_windows.contains(*operand));
            let has_window = products.get(id).is_some_and(|product| product.has_window);
            if has_window || graph.node(id).op.is_elementwise() && is_made() {
                of_windows.insert(id);
            }
        }
        let stays = |id: NodeId| {
            let op = &graph.node(id).op;
            let is_free = op.is_elementwise()
                || matches!(op, Op::Reshape | Op::Contraction(_) | Op::Index { .. });
            !is_free || graph.is_output(id) && !of_windows.contains(id)
        };
        let read = products.values().filter(|product| product.has_window && stays(product.tensor));
        let moved = order.iter().filter(|id| !stays(**id)).filter_map(|id| in_order(*id)).collect();
        [moved, read.filter_map(|product| in_order(product.tensor)).collect()]
    }
}

/// Returns the parts of a reshape, as axes of the operand and of the node. Other nodes have none.
fn reshaped(graph: &Graph, id: NodeId) -> Vec<[Vec<(NodeId, usize)>; 2]> {
    if graph.node(id).op != Op::Reshape {
        return Vec::new();
    }
    let operand = graph.operands(id)[0];
    let of = |node: NodeId, axes: Vec<usize>| axes.into_iter().map(|axis| (node, axis)).collect();
    let parts = parts(graph.shape(operand), graph.shape(id)).into_iter();
    parts.map(|(from, to)| [of(operand, from), of(id, to)]).collect()
}

/// Splits a reshape into its smallest independent parts: pairs of lists of axes with equal numbers
/// of elements. Axes of size 1 are left out.
pub(super) fn parts(from: &[usize], to: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let long =
        |shape: &[usize]| (0..shape.len()).filter(|&axis| shape[axis] != 1).collect::<Vec<_>>();
    let (mut parts, mut last) = (Vec::new(), (Vec::new(), Vec::new()));
    let (mut left, mut right) = (1, 1);
    let (mut sources, mut targets) =
        (long(from).into_iter().peekable(), long(to).into_iter().peekable());
    while sources.peek().is_some() || targets.peek().is_some() {
        if left <= right
            && let Some(axis) = sources.next()
        {
            left *= from[axis];
            last.0.push(axis);
        } else if let Some(axis) = targets.next() {
            right *= to[axis];
            last.1.push(axis);
        } else {
            // An empty tensor: its axes are unrelated.
            return Vec::new();
        }
        if left == right {
            parts.push(std::mem::take(&mut last));
            (left, right) = (1, 1);
        }
    }
    parts
}
