//! Computes sums of products of 8-bit integers less their zero points as sums of products of u8 and
//! i8, which processors have instructions for.
//!
//! Example: with A of u8, B of i8 and zero points a and b, the sum over k of
//! `(i32(A) - a) * (i32(B) - b)` is
//!
//! ```text
//! (sum of A * B) - b * (sum of A) - a * ((sum of B) - K * b)
//! ```
//!
//! where K is the number of terms. The first sum is a contraction that reads A and B as they are.
//! The second is small, or left out without b. The third is often of weights alone, so that it is
//! computed once.
//!
//! - Factors of the same type: 128 is added to or subtracted from one of them, and its zero point.
//! - Padding: elements outside of a factor count as 0, and so not as its zero point. A factor that
//!   has one is copied, with the zero point around it.
//!
//! Why it is sound: arithmetic of i32 wraps, so that it may be reordered. Each place of the result
//! is the sum of the same number of terms, and none is left out where a zero point is subtracted.

use crate::affine::{Affine, Injectivity, injective};
use crate::dtype::{DType, Scalar};
use crate::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Graph, IndexRange, NodeId, NodeMap, NodeSet,
    Op,
};
use crate::scalar::{BinaryOp, Inst, Program};
use crate::tensor::TensorType;

use super::integers::has_narrow_groups;

/// The difference between the ranges of u8 and i8.
const SHIFT: i64 = 128;

/// Rewrites sums of products of 8-bit integers.
pub fn bytes(graph: &mut Graph) {
    let mut kept = NodeSet::new();
    let mut shifted: NodeMap<NodeId> = NodeMap::new();
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            bytes(&mut parts.body);
            graph.put_scan(id, parts);
        }
        let is_input = matches!(graph.node(id).op, Op::Input(_));
        if !is_input && graph.operands(id).iter().all(|operand| kept.contains(*operand)) {
            kept.insert(id);
        }
        let Some(mut product) = Product::of(graph, id) else { continue };
        let is_kept = product.factors.each_ref().map(|factor| kept.contains(factor.bytes));
        product.make_types_differ(graph, is_kept, &mut shifted);
        product.rewrite(graph, id);
    }
}

/// Returns whether the pass rewrites the node.
pub(super) fn is_product_of_bytes(graph: &mut Graph, id: NodeId) -> bool {
    Product::of(graph, id).is_some()
}

/// A sum of products that is rewritten.
struct Product {
    contraction: Box<Contraction>,
    factors: [Factor; 2],
    /// The number of terms of each place.
    terms: i64,
    shape: Vec<usize>,
}

/// A factor: `i32(bytes) - zero`.
struct Factor {
    bytes: NodeId,
    /// The difference, which the contraction read before.
    difference: NodeId,
    zero: Option<NodeId>,
    access: Access,
    /// The zero point as a tensor that is broadcast over the result.
    over_places: Option<NodeId>,
    /// The elements to add before and after each axis.
    padding: Vec<(usize, usize)>,
}

impl Product {
    /// Describes the node, if it is such a product, with rows and columns.
    fn of(graph: &mut Graph, id: NodeId) -> Option<Self> {
        let Op::Contraction(contraction) = &graph.node(id).op else { return None };
        let contraction = contraction.clone();
        let Contraction { aggregation, indices, accesses, constraints, default, .. } =
            &*contraction;
        let [a, b] = &accesses[..] else { return None };
        let is_product = graph.dtype(id) == DType::I32
            && *aggregation == Aggregation::Sum
            && contraction.body == product([DType::I32; 2])
            && accesses.iter().all(Access::is_fixed);
        if !is_product || !constraints.is_empty() || *default {
            return None;
        }
        let is_of_place =
            |v: usize| contraction.output.iter().any(|place| place.coefficient(v) != 0);
        let varying: Vec<usize> = (0..indices.len()).filter(|&v| indices[v].varies()).collect();
        let (free, summed): (Vec<usize>, Vec<usize>) =
            varying.iter().partition(|v| is_of_place(**v));
        let alone = |x: &Access, y: &Access| free.iter().any(|&v| x.mentions(v) && !y.mentions(v));
        let has_batch = free.iter().any(|&v| a.mentions(v) && b.mentions(v));
        let is_matrix = match (alone(a, b), alone(b, a)) {
            (true, true) => true,
            (rows, columns) => (rows || columns) && !has_batch,
        };
        if !is_matrix
            || has_narrow_groups(&contraction)
            || !summed.iter().all(|&v| a.mentions(v) && b.mentions(v))
        {
            return None;
        }
        let shape = graph.shape(id).to_vec();
        if !fills(&contraction, &shape, &free) {
            return None;
        }
        let extent = |v: &usize| indices[*v].high - indices[*v].low;
        let terms = summed.iter().try_fold(1i64, |terms, v| terms.checked_mul(extent(v)))?;
        let operands = graph.operands(id).to_vec();
        let factors = [a, b].map(|access| {
            Factor::of(graph, operands[access.operand], access, &contraction, &shape)
        });
        let [Some(left), Some(right)] = factors else { return None };
        let product = Self { factors: [left, right], contraction, terms, shape };
        product.factors.iter().all(|factor| factor.is_possible(graph, &product)).then_some(product)
    }

    /// Shifts a factor if both have the same type. A zero point costs least if it belongs to the
    /// factor that is not `kept`, which is shifted unless the other one has a zero point already.
    fn make_types_differ(
        &mut self,
        graph: &mut Graph,
        kept: [bool; 2],
        shifted: &mut NodeMap<NodeId>,
    ) {
        let [a, b] = &mut self.factors;
        let dtype = graph.dtype(a.bytes);
        if dtype != graph.dtype(b.bytes) {
            return;
        }
        let (weight, other) = if kept[0] && !kept[1] { (a, b) } else { (b, a) };
        let factor = if weight.over_places.is_some() { weight } else { other };
        match dtype {
            DType::I8 => factor.shift(graph, DType::U8, SHIFT, shifted),
            _ => factor.shift(graph, DType::I8, -SHIFT, shifted),
        }
    }

    fn rewrite(mut self, graph: &mut Graph, id: NodeId) {
        for factor in &mut self.factors {
            factor.pad(graph);
        }
        let [a, b] = &self.factors;
        let mut contraction = self.contraction.clone();
        contraction.body = product([graph.dtype(a.bytes), graph.dtype(b.bytes)]);
        contraction.accesses = vec![
            Access { operand: 0, ..a.access.clone() },
            Access { operand: 1, ..b.access.clone() },
        ];
        let op = Op::Contraction(contraction);
        if a.over_places.is_none() && b.over_places.is_none() {
            return graph.set(id, op, &[a.bytes, b.bytes]);
        }
        let ty = TensorType::new(DType::I32, &self.shape[..]);
        let mut rest = graph.add(op, ty, &[a.bytes, b.bytes]);
        let mut corrections = Vec::new();
        if let Some(zero) = b.over_places {
            let sum = self.over_places(graph, &a.access, a.bytes, Aggregation::Sum);
            corrections.extend(sum.map(|sum| binary(graph, BinaryOp::Mul, zero, sum)));
        }
        if let Some(zero) = a.over_places {
            let mut sum = self.over_places(graph, &b.access, b.bytes, Aggregation::Sum);
            if let (Some(sum), Some(other)) = (&mut sum, b.over_places) {
                let terms = constant(graph, self.terms);
                let all = binary(graph, BinaryOp::Mul, terms, other);
                *sum = binary(graph, BinaryOp::Sub, *sum, all);
            }
            corrections.extend(sum.map(|sum| binary(graph, BinaryOp::Mul, zero, sum)));
        }
        let last = corrections.pop();
        for correction in corrections {
            rest = binary(graph, BinaryOp::Sub, rest, correction);
        }
        if let Some(last) = last {
            graph.set(id, Op::Binary(BinaryOp::Sub), &[rest, last]);
        }
    }

    /// Adds the aggregate of an access over the summed variables that it mentions, as a tensor that
    /// is broadcast over the result.
    fn over_places(
        &self,
        graph: &mut Graph,
        access: &Access,
        tensor: NodeId,
        aggregation: Aggregation,
    ) -> Option<NodeId> {
        over_places(graph, &self.contraction, &self.shape, access, tensor, aggregation)
    }
}

impl Factor {
    /// Describes the operand `id` of a contraction.
    fn of(
        graph: &mut Graph,
        id: NodeId,
        access: &Access,
        contraction: &Contraction,
        shape: &[usize],
    ) -> Option<Self> {
        let operands = graph.operands(id);
        let (cast, zero) = match graph.node(id).op {
            Op::Binary(BinaryOp::Sub) if graph.shape(operands[0]) == graph.shape(id) => {
                (operands[0], Some(operands[1]))
            }
            _ => (id, None),
        };
        if graph.node(cast).op != Op::Cast {
            return None;
        }
        let bytes = graph.operands(cast)[0];
        if !matches!(graph.dtype(bytes), DType::U8 | DType::I8) {
            return None;
        }
        let side = |(index, &size): (&crate::graph::Index, &usize)| {
            let (low, high) = index.affine.bounds(&IndexRange::bounds(&contraction.indices))?;
            let before = usize::try_from(low.saturating_neg().max(0)).ok()?;
            let after = usize::try_from(high.checked_sub(size as i64 - 1)?.max(0)).ok()?;
            Some((before, after))
        };
        let padding =
            access.index.iter().zip(graph.shape(bytes)).map(side).collect::<Option<Vec<_>>>()?;
        let mut factor = Self {
            bytes,
            difference: id,
            zero,
            access: access.clone(),
            over_places: None,
            padding,
        };
        if let Some(zero) = zero {
            let is_one = graph.shape(zero).iter().all(|&size| size == 1);
            if factor.is_padded() && !is_one {
                return None;
            }
            factor.over_places = Some(over_result(graph, contraction, shape, access, zero)?);
        }
        Some(factor)
    }

    fn is_padded(&self) -> bool {
        self.padding.iter().any(|side| *side != (0, 0))
    }

    /// Returns whether the factor can be padded if it must be, and its sum be broadcast over the
    /// result.
    fn is_possible(&self, graph: &Graph, product: &Product) -> bool {
        let Product { contraction, shape, .. } = product;
        if self.is_padded() {
            // A shift gives a zero point to a factor without one.
            let dtype = graph.dtype(self.bytes);
            let fits = self.zero.is_none_or(|zero| match &graph.node(zero).op {
                Op::Constant(value) => value.cast(dtype).cast(DType::I32) == *value,
                Op::Cast => graph.dtype(graph.operands(zero)[0]) == dtype,
                Op::Reshape => is_cast_from(graph, graph.operands(zero)[0], dtype),
                _ => false,
            });
            let sizes = graph.shape(self.bytes).iter().zip(&self.padding);
            let padded = sizes.fold(1usize, |all, (size, (before, after))| {
                all.saturating_mul(size.saturating_add(*before).saturating_add(*after))
            });
            if !fits || contraction.points().is_none_or(|points| padded > points) {
                return false;
            }
        }
        places(contraction, shape, &self.access).is_some()
    }

    /// Converts the elements to the other type of 8 bits, by adding `by` to each.
    fn shift(&mut self, graph: &mut Graph, to: DType, by: i64, shifted: &mut NodeMap<NodeId>) {
        let shape = graph.shape(self.bytes).to_vec();
        self.bytes = *shifted.slot(self.bytes).get_or_insert_with(|| {
            let wide = graph.add(Op::Cast, TensorType::new(DType::I32, &shape[..]), &[self.bytes]);
            let by = constant(graph, by);
            let sum = binary(graph, BinaryOp::Add, wide, by);
            graph.add(Op::Cast, TensorType::new(to, &shape[..]), &[sum])
        });
        self.over_places = match self.over_places.map(|zero| (zero, &graph.node(zero).op)) {
            None => Some(constant(graph, by)),
            Some((_, Op::Constant(value))) if value.to_i64() == -by => None,
            Some((_, Op::Constant(value))) => {
                let value = value.to_i64() + by;
                Some(constant(graph, value))
            }
            Some((zero, _)) => {
                let by = constant(graph, by);
                Some(binary(graph, BinaryOp::Add, zero, by))
            }
        };
    }

    /// Copies the elements with the zero point around them, if there is one and the contraction
    /// reads there.
    fn pad(&mut self, graph: &mut Graph) {
        let Some(zero) = self.over_places.filter(|_| self.is_padded()) else { return };
        let (dtype, shape) = (graph.dtype(self.bytes), graph.shape(self.bytes).to_vec());
        let sides = || shape.iter().zip(&self.padding);
        let padded: Vec<usize> =
            sides().map(|(size, (before, after))| size + before + after).collect();
        let beyond = |affine: &Affine, before: usize| affine.add(&Affine::constant(before as i64));
        let places: Option<Vec<Affine>> = self
            .padding
            .iter()
            .enumerate()
            .map(|(axis, side)| beyond(&Affine::var(axis), side.0))
            .collect();
        let read: Option<Vec<Affine>> = self
            .access
            .index
            .iter()
            .zip(&self.padding)
            .map(|(index, side)| beyond(&index.affine, side.0))
            .collect();
        let (Some(places), Some(read)) = (places, read) else { return };
        let from = (0..shape.len()).map(Affine::var).collect();
        let copy = Contraction::of_tensor(Aggregation::Assign, DType::I32, &shape, places, from);
        let ty = TensorType::new(DType::I32, &padded[..]);
        let copy = graph.add(Op::Contraction(Box::new(copy)), ty, &[self.difference]);
        let sum = binary(graph, BinaryOp::Add, copy, zero);
        self.bytes = graph.add(Op::Cast, TensorType::new(dtype, &padded[..]), &[sum]);
        self.access = Access::fixed(0, read);
    }
}

/// Returns whether the contraction assigns each place of its result by one assignment of the
/// variables `free`.
fn fills(contraction: &Contraction, shape: &[usize], free: &[usize]) -> bool {
    let all = IndexRange::bounds(&contraction.indices);
    let alone: Vec<(i64, i64)> = all
        .iter()
        .enumerate()
        .map(|(v, &(low, high))| if free.contains(&v) { (low, high) } else { (low, low) })
        .collect();
    let covers =
        |(place, &size): (&Affine, &usize)| place.bounds(&all) == Some((0, size as i64 - 1));
    let assignments =
        free.iter().try_fold(1usize, |n, &v| n.checked_mul((all[v].1 - all[v].0 + 1) as usize));
    all.iter().all(|(low, high)| low <= high)
        && contraction.output.iter().zip(shape).all(covers)
        && assignments == shape.iter().try_fold(1usize, |n, &size| n.checked_mul(size))
        && injective(&contraction.output, &alone, &[]) == Some(Injectivity::Yes)
}

/// Returns the places and the shape of a tensor that has one element for all places of a result
/// that read the same elements by an access. `None` if it would not be broadcast over the result.
fn places(
    contraction: &Contraction,
    shape: &[usize],
    access: &Access,
) -> Option<(Vec<Affine>, Vec<usize>)> {
    let place = |(place, &size): (&Affine, &usize)| {
        let varying = place.variables().filter(|&v| contraction.indices[v].varies());
        let (mentioned, others): (Vec<usize>, Vec<usize>) =
            varying.partition(|&v| access.mentions(v));
        match (mentioned.is_empty(), others.is_empty()) {
            (true, _) => Some((Affine::constant(0), 1)),
            (false, true) => Some((place.clone(), size)),
            (false, false) => None,
        }
    };
    let all: Option<Vec<_>> = contraction.output.iter().zip(shape).map(place).collect();
    Some(all?.into_iter().unzip())
}

/// Returns `tensor`, which is broadcast over the operand of an access, as one that is broadcast
/// over the result. `None` if it is not the same for all terms of a place.
pub(super) fn over_result(
    graph: &mut Graph,
    contraction: &Contraction,
    shape: &[usize],
    access: &Access,
    tensor: NodeId,
) -> Option<NodeId> {
    let sizes = graph.shape(tensor).to_vec();
    if sizes.iter().all(|&size| size == 1) {
        return Some(scalar(graph, tensor));
    }
    let missing = access.index.len().checked_sub(sizes.len())?;
    let along = |(axis, &size): (usize, &usize)| match size {
        1 => Affine::constant(0),
        _ => access.index[missing + axis].affine.clone(),
    };
    let index: Vec<Affine> = sizes.iter().enumerate().map(along).collect();
    let access = Access::fixed(0, index);
    let varies = |v: &usize| contraction.indices[*v].varies();
    // A coordinate of the place with no other variable determines this one.
    let is_of_place =
        |v: usize| contraction.output.iter().any(|place| place.variables().filter(varies).eq([v]));
    let mut varying = (0..contraction.indices.len()).filter(varies);
    if varying.any(|v| access.mentions(v) && !is_of_place(v)) {
        return None;
    }
    over_places(graph, contraction, shape, &access, tensor, Aggregation::Assign)
}

/// Adds the aggregate of the elements of `tensor` that an access reads for each place of a result,
/// in i32, or in f32 if it has these. The result has an axis of size 1 where the access does not
/// depend on the place.
fn over_places(
    graph: &mut Graph,
    contraction: &Contraction,
    shape: &[usize],
    access: &Access,
    tensor: NodeId,
    aggregation: Aggregation,
) -> Option<NodeId> {
    let (output, shape) = places(contraction, shape, access)?;
    let mut indices = contraction.indices.clone();
    for (_, range) in indices.iter_mut().enumerate().filter(|(v, _)| !access.mentions(*v)) {
        range.high = range.high.min(range.low + 1);
    }
    let dtype = if graph.dtype(tensor) == DType::F32 { DType::F32 } else { DType::I32 };
    let mut body = Program::default();
    let value = body.push(Inst::Leaf(ContractionLeaf::Access(0)), graph.dtype(tensor));
    body.results = vec![body.cast(value, dtype)];
    let contraction = Contraction {
        rank: None,
        aggregation,
        indices,
        output,
        accesses: vec![Access { operand: 0, ..access.clone() }],
        constraints: Vec::new(),
        body,
        default: false,
    };
    let ty = TensorType::new(dtype, &shape[..]);
    Some(graph.add(Op::Contraction(Box::new(contraction)), ty, &[tensor]))
}

/// Returns the body that multiplies two accesses of these types in i32.
fn product(dtypes: [DType; 2]) -> Program<ContractionLeaf> {
    let mut body = Program::default();
    let [a, b] =
        [0, 1].map(|access| body.push(Inst::Leaf(ContractionLeaf::Access(access)), dtypes[access]));
    let [a, b] = [a, b].map(|value| body.cast(value, DType::I32));
    body.results = vec![body.binary(BinaryOp::Mul, a, b)];
    body
}

fn constant(graph: &mut Graph, value: i64) -> NodeId {
    let value = Scalar::from_i64(DType::I32, value);
    graph.add(Op::Constant(value), TensorType::new(DType::I32, &[][..]), &[])
}

/// Returns a tensor of one element without axes.
fn scalar(graph: &mut Graph, tensor: NodeId) -> NodeId {
    if graph.shape(tensor).is_empty() {
        return tensor;
    }
    let ty = TensorType::new(graph.dtype(tensor), &[][..]);
    if let Op::Constant(value) = graph.node(tensor).op {
        return graph.add(Op::Constant(value), ty, &[]);
    }
    graph.add(Op::Reshape, ty, &[tensor])
}

/// Returns whether the node is a cast from a type.
fn is_cast_from(graph: &Graph, id: NodeId, dtype: DType) -> bool {
    graph.node(id).op == Op::Cast && graph.dtype(graph.operands(id)[0]) == dtype
}

/// Adds an operation on tensors of one type, of which each axis has the same size or size 1.
pub(super) fn binary(graph: &mut Graph, op: BinaryOp, a: NodeId, b: NodeId) -> NodeId {
    let (long, short) = match graph.shape(a).len() < graph.shape(b).len() {
        true => (graph.shape(b), graph.shape(a)),
        false => (graph.shape(a), graph.shape(b)),
    };
    let missing = long.len() - short.len();
    let size = |(axis, &size): (usize, &usize)| match axis.checked_sub(missing) {
        Some(axis) if size == 1 => short[axis],
        _ => size,
    };
    let shape: Vec<usize> = long.iter().enumerate().map(size).collect();
    let ty = TensorType::new(graph.dtype(a), &shape[..]);
    graph.add(Op::Binary(op), ty, &[a, b])
}

#[cfg(test)]
mod tests;
