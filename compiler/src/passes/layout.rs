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

use std::collections::{HashMap, HashSet};

use petgraph::unionfind::UnionFind;

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::{Aggregation, Contraction, ContractionLeaf, Graph, NodeId, Op};
use crate::scalar::Inst;
use crate::tensor::TensorType;

pub fn layout(graph: &mut Graph) {
    let (mut order, products) = Product::all(graph);
    let [orders, copied] = Classes::new(graph, &order, &products).orders(graph, &order, &products);
    if orders.is_empty() && copied.is_empty() {
        return;
    }
    let moved: Vec<NodeId> =
        order.iter().copied().filter(|id| orders.contains_key(id) && graph.is_output(*id)).collect();
    order.extend(moved.into_iter().map(|id| give_by_copy(graph, id)));
    let mut read: HashMap<NodeId, Vec<(usize, Order)>> = HashMap::new();
    for (id, product) in products {
        let copied = copied.get(&product.tensor).map(|order| (product.number, order.clone()));
        for operand in product.weight.into_iter().chain(copied) {
            read.entry(id).or_default().push(operand);
        }
    }
    let mut rewriter = Rewriter { graph, orders, read, made: HashMap::new() };
    order.into_iter().for_each(|id| rewriter.rewrite(id));
}

/// A permutation of a tensor's axes: the old number of each axis, in the new order.
type Order = Vec<usize>;

fn is_identity(order: &[usize]) -> bool {
    order.iter().enumerate().all(|(place, &axis)| place == axis)
}

/// The axes of all tensors, partitioned into classes that should have the same position.
struct Classes {
    first: HashMap<NodeId, usize>,
    classes: UnionFind<usize>,
    /// Axes that hold channels, and axes that do not.
    channels: HashSet<usize>,
    others: HashSet<usize>,
}

impl Classes {
    fn new(graph: &Graph, order: &[NodeId], products: &HashMap<NodeId, Product>) -> Classes {
        let (mut first, mut count) = (HashMap::new(), 0);
        for &id in order {
            first.insert(id, count);
            count += graph.shape(id).len();
        }
        let (channels, others) = (HashSet::new(), HashSet::new());
        let mut classes = Classes { first, classes: UnionFind::new(count), channels, others };
        order.iter().for_each(|id| classes.relate(graph, *id, products.get(id)));
        products.values().filter(|product| product.has_window).for_each(|product| classes.learn(product));
        // Conclusions from one product, or axes joined by a reshape, may determine others.
        loop {
            let (channels, others) = (classes.of(&classes.channels), classes.of(&classes.others));
            let is_new = |product: &&Product| {
                !product.has_window
                    && product.others.iter().any(|&axis| others.contains(&classes.class(axis)))
                    && product.channels.iter().any(|&axis| !channels.contains(&classes.class(axis)))
            };
            let found: Vec<&Product> = products.values().filter(is_new).collect();
            let joined = order.iter().filter(|id| classes.join(graph, **id, &channels)).count();
            if found.is_empty() && joined == 0 {
                return classes;
            }
            found.into_iter().for_each(|product| classes.learn(product));
        }
    }

    fn axis(&self, (node, axis): (NodeId, usize)) -> usize {
        self.first[&node] + axis
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

    fn learn(&mut self, product: &Product) {
        let of = |axes: &[(NodeId, usize)]| axes.iter().map(|&axis| self.axis(axis)).collect::<Vec<_>>();
        let (channels, others) = (of(&product.channels), of(&product.others));
        self.channels.extend(channels);
        self.others.extend(others);
    }

    /// Relates the axes of a node to those of its operands.
    fn relate(&mut self, graph: &Graph, id: NodeId, product: Option<&Product>) {
        let operands = graph.operands(id);
        match &graph.node(id).op {
            op if is_elementwise(op) => {
                for operand in operands {
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
                    (0..op.output.len()).for_each(|axis| _ = self.unite((default, axis), (id, axis)));
                }
                if op.accesses.len() > 1 && op.is_sum_of_products() && product.is_none() {
                    return;
                }
                let accesses = op.accesses.iter().map(|access| (operands[access.operand], access));
                for (operand, access) in accesses.filter(|(operand, _)| product.is_none_or(|p| p.tensor == *operand)) {
                    for (axis, index) in access.index.iter().enumerate() {
                        for (place, output) in op.output.iter().enumerate() {
                            if output.variables().any(|v| op.indices[v].varies() && index.affine.coefficient(v) != 0) {
                                self.unite((operand, axis), (id, place));
                            }
                        }
                    }
                }
            }
            Op::Reshape => {
                for (from, to) in parts(graph.shape(operands[0]), graph.shape(id)) {
                    if let [from] = from[..] {
                        to.into_iter().for_each(|to| _ = self.unite((operands[0], from), (id, to)));
                    }
                }
            }
            _ => {}
        }
    }

    /// Relates the axes that a reshape merges into one, if all their classes hold `channels`.
    /// Returns whether a relation is new.
    fn join(&mut self, graph: &Graph, id: NodeId, channels: &HashSet<usize>) -> bool {
        if graph.node(id).op != Op::Reshape {
            return false;
        }
        let (operand, mut is_new) = (graph.operands(id)[0], false);
        for (from, to) in parts(graph.shape(operand), graph.shape(id)) {
            let [to] = to[..] else { continue };
            if from.iter().all(|&axis| channels.contains(&self.class((operand, axis)))) {
                from.into_iter().for_each(|axis| is_new |= self.unite((operand, axis), (id, to)));
            }
        }
        is_new
    }

    /// Returns the orders of the nodes that move, and the orders in which convolutions read nodes
    /// that do not.
    fn orders(
        &self,
        graph: &Graph,
        order: &[NodeId],
        products: &HashMap<NodeId, Product>,
    ) -> [HashMap<NodeId, Order>; 2] {
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
        let mut of_windows: HashSet<NodeId> = HashSet::new();
        for &id in order {
            let is_made = || graph.operands(id).iter().any(|operand| of_windows.contains(operand));
            let has_window = products.get(&id).is_some_and(|product| product.has_window);
            if has_window || is_elementwise(&graph.node(id).op) && is_made() {
                of_windows.insert(id);
            }
        }
        let stays = |id: NodeId| {
            let op = &graph.node(id).op;
            let is_free = is_elementwise(op) || matches!(op, Op::Reshape | Op::Contraction(_) | Op::Index { .. });
            !is_free || graph.is_output(id) && !of_windows.contains(&id)
        };
        let read = products.values().filter(|product| product.has_window && stays(product.tensor));
        let moved = order.iter().filter(|id| !stays(**id)).filter_map(|id| in_order(*id)).collect();
        [moved, read.filter_map(|product| in_order(product.tensor)).collect()]
    }
}

/// Returns whether the permuted tensor has its elements in the same order: only axes of size 1
/// move.
fn is_view_of(shape: &[usize], order: &[usize]) -> bool {
    let long: Vec<usize> = order.iter().copied().filter(|&axis| shape[axis] != 1).collect();
    long.is_sorted()
}

/// Returns whether each element depends only on the operands' elements at its place.
fn is_elementwise(op: &Op) -> bool {
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast | Op::StopGradient)
}

/// Splits a reshape into its smallest independent parts: pairs of lists of axes with equal numbers
/// of elements. Axes of size 1 are left out.
fn parts(from: &[usize], to: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let long = |shape: &[usize]| (0..shape.len()).filter(|&axis| shape[axis] != 1).collect::<Vec<_>>();
    let (mut parts, mut last) = (Vec::new(), (Vec::new(), Vec::new()));
    let (mut left, mut right) = (1, 1);
    let (mut sources, mut targets) = (long(from).into_iter().peekable(), long(to).into_iter().peekable());
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

/// A sum of products of a tensor with a weight.
struct Product {
    /// The tensor's operand number.
    number: usize,
    tensor: NodeId,
    /// Axes of the tensor and the result whose index also runs over the weight, and all other axes.
    channels: Vec<(NodeId, usize)>,
    others: Vec<(NodeId, usize)>,
    /// Some index of the tensor or of the result is the sum of a place and a tap: the product is a
    /// convolution.
    has_window: bool,
    /// For a product that sums over no channels, such as a depthwise convolution: the weight's
    /// operand number, and its channels-last order.
    weight: Option<(usize, Order)>,
}

impl Product {
    /// Returns all nodes, operands before their readers, and the products among them.
    fn all(graph: &Graph) -> (Vec<NodeId>, HashMap<NodeId, Product>) {
        let mut kept: HashSet<NodeId> = HashSet::new();
        let mut products = HashMap::new();
        let order = graph.topological();
        for &id in &order {
            let is_kept = match graph.node(id).op {
                Op::Input(_) => false,
                Op::Weight(_) => true,
                _ => graph.operands(id).iter().all(|operand| kept.contains(operand)),
            };
            if is_kept {
                kept.insert(id);
            } else {
                products.extend(Product::of(graph, id, &kept).map(|product| (id, product)));
            }
        }
        (order, products)
    }

    fn of(graph: &Graph, id: NodeId, kept: &HashSet<NodeId>) -> Option<Product> {
        let Op::Contraction(op) = &graph.node(id).op else { return None };
        let operands = graph.operands(id);
        let [a, b] = &op.accesses[..] else { return None };
        let node = |access: usize| operands[op.accesses[access].operand];
        let is_of_two = op.is_sum_of_products()
            && op.body.insts.iter().all(|(inst, _)| !matches!(inst, Inst::Leaf(ContractionLeaf::Index(_))));
        let (tensor, weight) = match (kept.contains(&node(0)), kept.contains(&node(1))) {
            (false, true) => (a, b),
            (true, false) => (b, a),
            _ => return None,
        };
        if !is_of_two || !tensor.is_fixed() || !weight.is_fixed() {
            return None;
        }
        let of_result = |v: usize| op.output.iter().any(|place| place.coefficient(v) != 0);
        let long = |affine: &Affine| affine.variables().filter(|&v| op.indices[v].varies()).collect::<Vec<usize>>();
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
        let mut product = Product {
            number: tensor.operand,
            tensor: operands[tensor.operand],
            channels: Vec::new(),
            others: Vec::new(),
            has_window: !taps.is_empty(),
            weight: None,
        };
        let of_tensor = tensor.index.iter().map(|index| &index.affine).enumerate();
        let of_tensor = of_tensor.map(|(axis, affine)| ((product.tensor, axis), affine));
        let all = of_tensor.chain(op.output.iter().enumerate().map(|(axis, affine)| ((id, axis), affine)));
        for (axis, affine) in all {
            let variables = long(affine);
            let is_channel = variables.iter().all(|&v| of_weight(v) && !taps.contains(&v));
            match (variables.is_empty(), is_channel) {
                (true, _) => {}
                (_, true) => product.channels.push(axis),
                (_, false) => product.others.push(axis),
            }
        }
        let is_summed = |v: usize| of_weight(v) && !of_result(v) && !taps.contains(&v) && op.indices[v].varies();
        if product.has_window && !(0..op.indices.len()).any(is_summed) {
            let is_tap =
                |axis: &usize| !long(&weight.index[*axis].affine).iter().any(|v| of_result(*v) && !taps.contains(v));
            let (first, last): (Order, Order) = (0..weight.index.len()).partition(is_tap);
            product.weight = Some((weight.operand, first.into_iter().chain(last).collect()));
        }
        Some(product)
    }
}

/// Makes an output a copy of its node, so that the node may have any order.
fn give_by_copy(graph: &mut Graph, id: NodeId) -> NodeId {
    let node = graph.node(id).clone();
    let copy = Op::Contraction(Box::new(Contraction::copy(node.ty.dtype, &node.ty.shape)));
    let copy = graph.add(copy, node.ty, &[id]);
    (graph.node_mut(copy).name, graph.node_mut(copy).origin) = (node.name, node.origin);
    graph.outputs.iter_mut().filter(|(_, output)| *output == id).for_each(|(_, output)| *output = copy);
    copy
}

/// Rewrites the nodes of a graph in their new orders.
struct Rewriter<'a> {
    graph: &'a mut Graph,
    /// The new order of each node that moves.
    orders: HashMap<NodeId, Order>,
    /// For each product: the operands that it reads in another order than they have, and that
    /// order.
    read: HashMap<NodeId, Vec<(usize, Order)>>,
    /// Permuted copies and views made so far.
    made: HashMap<(NodeId, Order), NodeId>,
}

impl Rewriter<'_> {
    fn order(&self, id: NodeId) -> Order {
        self.orders.get(&id).cloned().unwrap_or_else(|| (0..self.graph.shape(id).len()).collect())
    }

    /// Returns the shape of a node before the pass.
    fn plain_shape(&self, id: NodeId) -> Vec<usize> {
        let shape = self.graph.shape(id);
        self.orders.get(&id).map_or_else(|| shape.to_vec(), |order| permuted(shape, &inverse(order)))
    }

    /// Rewrites a node in its new order. Its operands must have theirs already.
    fn rewrite(&mut self, id: NodeId) {
        let (order, operands) = (self.order(id), self.graph.operands(id));
        let stays = |id: &NodeId| !self.orders.contains_key(id);
        if stays(&id) && operands.iter().all(stays) && !self.read.contains_key(&id) {
            return;
        }
        let (mut op, ty) = (self.graph.node(id).op.clone(), self.graph.node(id).ty.clone());
        let shape = permuted(&ty.shape, &order);
        let operands: Vec<NodeId> = match &mut op {
            Op::Contraction(op) => {
                let mut orders: Vec<Order> = operands.iter().map(|&operand| self.order(operand)).collect();
                for (number, order) in self.read.get(&id).into_iter().flatten() {
                    orders[*number].clone_from(order);
                }
                for access in &mut op.accesses {
                    access.index = permuted(&access.index, &orders[access.operand]);
                }
                if op.default {
                    orders[operands.len() - 1].clone_from(&order);
                }
                op.output = permuted(&op.output, &order);
                number_in_order(op);
                operands.iter().zip(&orders).map(|(&operand, order)| self.in_order(operand, order)).collect()
            }
            op if is_elementwise(op) => operands.iter().map(|&operand| self.broadcast(operand, &order)).collect(),
            Op::Reshape if self.keeps_order(operands[0], &ty.shape, &order) => operands,
            Op::Reshape if !is_identity(&order) => {
                let operand = self.plain(operands[0]);
                let plain = self.reshaped(operand, ty.shape);
                op = transposition(ty.dtype, &shape, &order);
                vec![plain]
            }
            Op::Index { axis } => {
                *axis = inverse(&order)[*axis];
                operands
            }
            _ => operands.iter().map(|&operand| self.plain(operand)).collect(),
        };
        self.graph.set(id, op, &operands);
        self.graph.node_mut(id).ty.shape = shape;
    }

    /// Returns the node in its original order.
    fn plain(&mut self, id: NodeId) -> NodeId {
        self.in_order(id, &(0..self.graph.shape(id).len()).collect::<Order>())
    }

    /// Returns the node in the given order.
    fn in_order(&mut self, id: NodeId, order: &[usize]) -> NodeId {
        let now = self.order(id);
        if now == order {
            return id;
        }
        if let Some(&made) = self.made.get(&(id, order.to_vec())) {
            return made;
        }
        let places = inverse(&now);
        let moves: Order = order.iter().map(|&axis| places[axis]).collect();
        let (old, dtype) = (self.graph.shape(id).to_vec(), self.graph.dtype(id));
        let shape = permuted(&old, &moves);
        let made = if is_view_of(&old, &moves) {
            self.reshaped(id, shape)
        } else {
            let made = transposition(dtype, &shape, &moves);
            let made = self.graph.add(made, TensorType { dtype, shape }, &[id]);
            self.graph.node_mut(made).origin = self.graph.node(id).origin.clone();
            made
        };
        self.made.insert((id, order.to_vec()), made);
        made
    }

    /// Returns the operand for an elementwise operation whose result has the given order.
    fn broadcast(&mut self, id: NodeId, order: &[usize]) -> NodeId {
        let rank = self.graph.shape(id).len();
        let missing = order.len() - rank;
        if rank == 0 || is_identity(&order[..missing]) {
            return self.in_order(id, &order[missing..].iter().map(|axis| axis - missing).collect::<Order>());
        }
        let plain = self.plain(id);
        let shape = [&vec![1; missing], self.graph.shape(plain)].concat();
        let padded = self.reshaped(plain, shape);
        self.in_order(padded, order)
    }

    fn reshaped(&mut self, id: NodeId, shape: Vec<usize>) -> NodeId {
        let of = if self.graph.node(id).op == Op::Reshape { self.graph.operands(id)[0] } else { id };
        if self.graph.shape(of) == shape {
            return of;
        }
        let dtype = self.graph.dtype(of);
        self.graph.add(Op::Reshape, TensorType { dtype, shape }, &[of])
    }

    /// Returns whether a reshape to `shape`, in `order`, keeps the operand's elements in their
    /// current order: both have the reshape's parts in the same sequence.
    fn keeps_order(&self, operand: NodeId, shape: &[usize], order: &[usize]) -> bool {
        let parts = parts(&self.plain_shape(operand), shape);
        let (from, to): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let (from, to) = (sequence_of(&from, &self.order(operand)), sequence_of(&to, order));
        from.is_some() && from == to
    }
}

/// Returns the sequence in which `order` has the parts, each a list of ascending axes. `None` if
/// the axes of a part are not contiguous and ascending in `order`.
fn sequence_of(parts: &[Vec<usize>], order: &[usize]) -> Option<Vec<usize>> {
    let part = |axis: usize| parts.iter().position(|part| part.contains(&axis));
    let mut sequence: Vec<usize> = order.iter().filter_map(|&axis| part(axis)).collect();
    sequence.dedup();
    let axes: Vec<usize> = order.iter().copied().filter(|&axis| part(axis).is_some()).collect();
    let expected: Vec<usize> = sequence.iter().flat_map(|&part| parts[part].iter().copied()).collect();
    (axes == expected).then_some(sequence)
}

/// Returns the position of each axis in an order.
fn inverse(order: &[usize]) -> Order {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &axis)| places[axis] = place);
    places
}

fn permuted<T: Clone>(list: &[T], order: &[usize]) -> Vec<T> {
    order.iter().map(|&axis| list[axis].clone()).collect()
}

/// Returns the operation whose result, of shape `shape`, has axis `order[k]` of its operand as axis
/// `k`.
fn transposition(dtype: DType, shape: &[usize], order: &[usize]) -> Op {
    let variables = |places: &mut dyn Iterator<Item = usize>| places.map(Affine::var).collect();
    let (place, index) = (variables(&mut (0..shape.len())), variables(&mut inverse(order).into_iter()));
    Op::Contraction(Box::new(Contraction::of_tensor(Aggregation::Assign, dtype, shape, place, index)))
}

/// Renumbers the variables in the order in which they occur in the output, then in the accesses, so
/// that inner loops run along memory. For argmax and argmin the order of variables has a meaning,
/// so it stays.
fn number_in_order(op: &mut Contraction) {
    if matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin) {
        return;
    }
    let indexed = op.accesses.iter().flat_map(|access| access.index.iter().map(|index| &index.affine));
    let mut variables: Vec<usize> = Vec::new();
    for variable in op.output.iter().chain(indexed).flat_map(Affine::variables).chain(0..op.indices.len()) {
        if !variables.contains(&variable) {
            variables.push(variable);
        }
    }
    let numbers = inverse(&variables);
    op.indices = permuted(&op.indices, &variables);
    let renumber = |affine: &mut Affine| {
        *affine = affine.map_variables(|variable| numbers[variable]).unwrap_or_else(|| affine.clone());
    };
    op.output.iter_mut().chain(&mut op.constraints).for_each(renumber);
    op.accesses.iter_mut().flat_map(|access| &mut access.index).for_each(|index| renumber(&mut index.affine));
    for (inst, _) in &mut op.body.insts {
        if let Inst::Leaf(ContractionLeaf::Index(affine)) = inst {
            renumber(affine);
        }
    }
}

#[cfg(test)]
mod tests;
