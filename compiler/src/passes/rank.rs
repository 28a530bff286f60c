//! Sorts for devices with kernels, which cannot run a contraction with a rank.
//!
//! The values of each row become a column of a matrix, beside their positions plus 1, where 0 is a
//! point that does not count. The positions are then sorted by their values, in one of two ways:
//!
//! - Few values are counted: the rank of a value is the number of those that come before it.
//! - More are sorted by a network of exchanges, in parallel (Batcher 1968). Blocks of K values, the
//!   least power of two that is no less than the number of ranks, are sorted in
//!   log(K) (log(K) + 1) / 2 turns. Then the better half of each two blocks is kept until one is
//!   left: log(N / K) rounds of log(K) + 1 turns, each round on half as many values as the one
//!   before.
//!
//! Example: `contract argmax [k] (k: 0..2, n: 0..20) rank k { v0 = %0[n]; yield v0 }` becomes a
//! copy of the values and one of `n + 1`, for each value the number of those that come before it,
//! and for each `k` the position whose number is `k`.
//!
//! Why it is sound: values in the order of `comparison` with different positions are never equal,
//! so that every number of earlier ones occurs once, and any network that sorts gives the same.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, ContractionLeaf, Graph, NodeId, Op, equals};
use crate::scalar::{BinaryOp, Inst, Program, Value};
use crate::tensor::TensorType;

/// The most values that are counted.
const MOST_COUNTED: usize = 64;

type Body = Program<ContractionLeaf>;

/// Runs the pass; see the module's documentation.
pub fn rank(graph: &mut Graph) {
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            rank(&mut parts.body);
            graph.put_scan(id, parts);
        }
        let Op::Contraction(op) = &graph.node(id).op else { continue };
        if let Some(variable) = op.rank {
            let op = op.clone();
            sort(graph, id, *op, variable);
        }
    }
}

/// Replaces a contraction whose rank is `variable`. Leaves it if its indices overflow.
fn sort(graph: &mut Graph, id: NodeId, op: Contraction, variable: usize) -> Option<()> {
    let shape = graph.shape(id).to_vec();
    let axis = op.output.iter().position(|place| place.as_variable() == Some(variable))?;
    let greatest = op.aggregation == Aggregation::ArgMax;
    let (has_default, operands) = (op.default, graph.operands(id).to_vec());
    let mut points = points(op, variable, axis)?;
    let mut rows = shape.clone();
    rows.remove(axis);
    let of_points = [&[points.size][..], &rows].concat();
    let tensors = &operands[..operands.len() - usize::from(has_default)];
    let mut add = |dtype: DType, op: Contraction| {
        let ty = TensorType::new(dtype, of_points.clone());
        graph.add(Op::Contraction(Box::new(op)), ty, tensors)
    };
    let value = points.values.body.results[0];
    let values = add(points.values.body.dtype(value), points.values.clone());
    let body = &mut points.values.body;
    let number = Inst::Leaf(ContractionLeaf::Index(points.position.add(&Affine::constant(1))?));
    body.results[0] = body.push(number, DType::I32);
    let positions = add(DType::I32, points.values);
    let mut sorter = Sorter { graph, greatest, values, positions, rows: rows.iter().product() };
    let sorted = if points.size <= MOST_COUNTED {
        sorter.counted(points.size, shape[axis].min(points.size))
    } else {
        sorter.exchanged(points.size, shape[axis])
    };
    let count = sorter.graph.shape(sorted)[0];
    let sorted = sorter.reshaped(sorted, &[&[count][..], &rows].concat());
    // Back to the order of axes, and to positions from 0 where there are any.
    let mut index: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
    index.remove(axis);
    index.insert(0, Affine::var(axis));
    let mut result = element(&shape, index);
    let body = &mut result.body;
    let (found, one) = (body.results[0], body.constant(Scalar::i32(1)));
    let position = body.binary(BinaryOp::Sub, found, one);
    let counts = body.binary(BinaryOp::Ge, found, one);
    (result.default, body.results) = (has_default, vec![position, counts]);
    let default = operands.last().copied().filter(|_| has_default);
    let operands: Vec<NodeId> = [sorted].into_iter().chain(default).collect();
    graph.set(id, Op::Contraction(Box::new(result)), &operands);
    Some(())
}

/// The points of a contraction.
struct Points {
    /// The value of each point that counts, at its position and its row.
    values: Contraction,
    position: Affine,
    /// The number of positions.
    size: usize,
}

fn points(mut op: Contraction, rank: usize, axis: usize) -> Option<Points> {
    let variables: Vec<Affine> = (0..op.indices.len()).map(Affine::var).collect();
    let position = op.position(&variables)?;
    let size = usize::try_from(op.searched()).ok()?;
    op.indices[rank].high = op.indices[rank].high.min(1);
    op.output.remove(axis);
    op.output.insert(0, position.clone());
    (op.aggregation, op.rank, op.default) = (Aggregation::Assign, None, false);
    Some(Points { values: op, position, size })
}

/// Returns the copy of one tensor's elements at `index`, over variables that run to `extents`.
fn element(extents: &[usize], index: Vec<Affine>) -> Contraction {
    let places = (0..extents.len()).map(Affine::var).collect();
    Contraction::of_tensor(Aggregation::Assign, DType::I32, extents, places, index)
}

/// Values and their positions plus 1, both of shape [elements, rows] as matrices.
struct Sorter<'a> {
    graph: &'a mut Graph,
    greatest: bool,
    values: NodeId,
    positions: NodeId,
    rows: usize,
}

impl Sorter<'_> {
    fn reshaped(&mut self, id: NodeId, shape: &[usize]) -> NodeId {
        if self.graph.shape(id) == shape {
            return id;
        }
        let ty = TensorType::new(self.graph.dtype(id), shape);
        self.graph.add(Op::Reshape, ty, &[id])
    }

    /// Gives both tensors another shape.
    fn reshape(&mut self, shape: &[usize]) {
        self.values = self.reshaped(self.values, shape);
        self.positions = self.reshaped(self.positions, shape);
    }

    /// Returns the first `count` positions in order, by counting.
    fn counted(&mut self, size: usize, count: usize) -> NodeId {
        self.reshape(&[size, self.rows]);
        let [here, other] = [0, 2].map(|v| vec![Affine::var(v), Affine::var(1)]);
        let Comparison { mut op, first, .. } =
            self.comparison(&[size, self.rows, size], &other, &here);
        (op.aggregation, op.output) = (Aggregation::Sum, here.clone());
        op.body.results = vec![op.body.cast(first, DType::I32)];
        let ty = TensorType::new(DType::I32, [size, self.rows]);
        let before =
            self.graph.add(Op::Contraction(Box::new(op)), ty, &[self.values, self.positions]);
        // Each position, at the place of its rank.
        let mut sorted = element(&[count, self.rows, size], other.clone());
        sorted.accesses.push(Access::fixed(1, other));
        (sorted.aggregation, sorted.output) = (Aggregation::Sum, here);
        let is_here = equals(&mut sorted.body, 1, DType::I32, &Affine::var(0));
        sorted.body.results.push(is_here);
        let ty = TensorType::new(DType::I32, [count, self.rows]);
        self.graph.add(Op::Contraction(Box::new(sorted)), ty, &[self.positions, before])
    }

    /// Returns the first positions in order, at least `count` if there are as many, by a network.
    fn exchanged(&mut self, size: usize, count: usize) -> NodeId {
        let width = count.min(size).next_power_of_two();
        let mut blocks = size.div_ceil(width).next_power_of_two();
        self.pad(size, width * blocks);
        let mut run = 1;
        while run < width {
            self.exchange((width, blocks), run, true);
            self.exchange_below((width, blocks), run);
            run *= 2;
        }
        while blocks > 1 {
            blocks /= 2;
            self.keep_better(width, blocks);
            self.exchange_below((width, blocks), width);
        }
        self.reshaped(self.positions, &[width, self.rows])
    }

    /// Adds points that do not count, up to `size` elements.
    fn pad(&mut self, before: usize, size: usize) {
        self.reshape(&[before, self.rows]);
        for id in [&mut self.values, &mut self.positions] {
            let mut padded = element(&[size, self.rows], (0..2).map(Affine::var).collect());
            let dtype = self.graph.dtype(*id);
            padded.body = Program::default();
            padded.body.results = vec![read(&mut padded.body, 0, dtype)];
            let ty = TensorType::new(dtype, [size, self.rows]);
            *id = self.graph.add(Op::Contraction(Box::new(padded)), ty, &[*id]);
        }
    }

    /// Exchanges elements at all distances less than `run`, the longest first.
    fn exchange_below(&mut self, blocks: (usize, usize), run: usize) {
        let mut distance = run / 2;
        while distance > 0 {
            self.exchange(blocks, distance, false);
            distance /= 2;
        }
    }

    /// Exchanges pairs, so that the better element comes first. The two are `distance` apart, or,
    /// if `mirrored`, symmetric about the middle of a block of twice that size.
    fn exchange(&mut self, (width, blocks): (usize, usize), distance: usize, mirrored: bool) {
        let shape = [width / (2 * distance), 2, distance, blocks * self.rows];
        self.reshape(&shape);
        let here: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
        let mut there = here.clone();
        there[1] = opposite(1, 2);
        if mirrored {
            there[2] = opposite(2, distance);
        }
        let mut comparison = self.comparison(&shape, &here, &there);
        let body = &mut comparison.op.body;
        let half = body.push(Inst::Leaf(ContractionLeaf::Index(Affine::var(1))), DType::I32);
        let zero = body.constant(Scalar::i32(0));
        let is_first = body.binary(BinaryOp::Eq, half, zero);
        comparison.first = body.binary(BinaryOp::Eq, comparison.first, is_first);
        self.choose(comparison, &shape);
    }

    /// Keeps the better half of each two sorted blocks, `left` blocks, whose order rises and then
    /// falls.
    fn keep_better(&mut self, width: usize, left: usize) {
        self.reshape(&[width, 2 * left, self.rows]);
        let shape = [width, left, self.rows];
        let here: Vec<Affine> = (0..shape.len()).map(Affine::var).collect();
        let there = [opposite(0, width), of_second_half(1, left), Affine::var(2)];
        let comparison = self.comparison(&shape, &here, &there);
        self.choose(comparison, &shape);
    }

    /// Takes the first elements of a comparison where it holds, the second ones elsewhere.
    fn choose(&mut self, comparison: Comparison, shape: &[usize]) {
        let Comparison { op, first, values, positions } = comparison;
        let operands = [self.values, self.positions];
        for (id, [a, b]) in [(&mut self.values, values), (&mut self.positions, positions)] {
            let mut op = op.clone();
            op.body.results = vec![op.body.select(first, a, b)];
            let ty = TensorType::new(op.body.dtype(a), shape);
            *id = self.graph.add(Op::Contraction(Box::new(op)), ty, &operands);
        }
    }

    /// Returns the comparison of the elements at two indices, over variables that run to `extents`.
    fn comparison(&self, extents: &[usize], here: &[Affine], there: &[Affine]) -> Comparison {
        let mut op = element(extents, here.to_vec());
        let at = |operand: usize, index: &[Affine]| Access::fixed(operand, index.to_vec());
        op.accesses = vec![at(0, here), at(0, there), at(1, here), at(1, there)];
        let dtype = self.graph.dtype(self.values);
        op.body = Program::default();
        let body = &mut op.body;
        let [a, b] = [0, 1].map(|access| read(body, access, dtype));
        let [p, q] = [2, 3].map(|access| read(body, access, DType::I32));
        let better = if self.greatest { BinaryOp::Gt } else { BinaryOp::Lt };
        let is_better = |body: &mut Body, a: Value, b: Value| {
            let better = body.binary(better, a, b);
            if !dtype.is_float() {
                return better;
            }
            // Any number is better than a NaN, which is unequal to itself.
            let (is_number, is_nan) =
                (body.binary(BinaryOp::Eq, a, a), body.binary(BinaryOp::Ne, b, b));
            let over_nan = body.binary(BinaryOp::BitAnd, is_number, is_nan);
            body.binary(BinaryOp::BitOr, better, over_nan)
        };
        let (wins, loses) = (is_better(body, a, b), is_better(body, b, a));
        let no = body.constant(Scalar::bool(false));
        let not_worse = body.binary(BinaryOp::Eq, loses, no);
        let earlier = body.binary(BinaryOp::Lt, p, q);
        let tie = body.binary(BinaryOp::BitAnd, not_worse, earlier);
        let first = body.binary(BinaryOp::BitOr, wins, tie);
        // Points that do not count come last.
        let zero = body.constant(Scalar::i32(0));
        let [counts, other_counts] =
            [p, q].map(|position| body.binary(BinaryOp::Gt, position, zero));
        let other_lacks = body.binary(BinaryOp::Eq, other_counts, no);
        let first = body.binary(BinaryOp::BitOr, first, other_lacks);
        let first = body.binary(BinaryOp::BitAnd, first, counts);
        op.body.results = vec![first];
        Comparison { op, first, values: [a, b], positions: [p, q] }
    }
}

/// A comparison of two elements, whose result is whether the first one comes first.
struct Comparison {
    op: Contraction,
    first: Value,
    values: [Value; 2],
    positions: [Value; 2],
}

fn read(body: &mut Body, access: usize, dtype: DType) -> Value {
    body.push(Inst::Leaf(ContractionLeaf::Access(access)), dtype)
}

/// Returns the index that runs from the last of `extent` places to the first.
fn opposite(variable: usize, extent: usize) -> Affine {
    Affine::new([(variable, -1)], extent as i64 - 1).unwrap_or_default()
}

/// Returns the index that runs through the second half of twice `extent` places.
fn of_second_half(variable: usize, extent: usize) -> Affine {
    Affine::new([(variable, 1)], extent as i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, rank, share};

    fn sorted(graph: &str) -> String {
        after(&[|graph| rank(graph), share, dead], graph)
    }

    #[test]
    fn few_values_are_counted() {
        insta::assert_snapshot!(sorted("\
graph g(%0) -> (Y = %1)
%0 = input X : i32[3, 20]
%1 = contract argmax [b, k] (b: 0..3, k: 0..2, n: 0..20) rank k { v0 = %0[b, n]; yield v0 } : i32[3, 2]
"), @r"
        graph g(%0) -> (Y = %5)
        %0 = input X : i32[3, 20]
        %1 = contract assign [n, b] (b: 0..3, k: 0..1, n: 0..20) { v0 = %0[b, n]; yield v0 } : i32[20, 3]
        %2 = contract assign [n, b] (b: 0..3, k: 0..1, n: 0..20) { v0 = %0[b, n]; v1 = index n + 1; yield v1 } : i32[20, 3]
        %3 = contract sum [i0, i1] (i0: 0..20, i1: 0..3, i2: 0..20) { v0 = %1[i2, i1]; v1 = %1[i0, i1]; v2 = %2[i2, i1]; v3 = %2[i0, i1]; v4 = cmp_gt v0 v1; v5 = cmp_gt v1 v0; v6 = false : bool; v7 = cmp_eq v5 v6; v8 = cmp_lt v2 v3; v9 = bit_and v7 v8; v10 = bit_or v4 v9; v11 = 0 : i32; v12 = cmp_gt v2 v11; v13 = cmp_gt v3 v11; v14 = cmp_eq v13 v6; v15 = bit_or v10 v14; v16 = bit_and v15 v12; v17 = cast v16 : i32; yield v17 } : i32[20, 3]
        %4 = contract sum [i0, i1] (i0: 0..2, i1: 0..3, i2: 0..20) { v0 = %2[i2, i1]; v1 = %3[i2, i1]; v2 = index i0; v3 = cmp_eq v1 v2; yield v0 v3 } : i32[2, 3]
        %5 = contract assign [i0, i1] (i0: 0..3, i1: 0..2) { v0 = %4[i1, i0]; v1 = 1 : i32; v2 = sub v0 v1; v3 = cmp_ge v0 v1; yield v2 v3 } : i32[3, 2]
        ");
    }

    #[test]
    fn many_values_are_exchanged() {
        insta::assert_snapshot!(sorted("\
graph g(%0) -> (Y = %1)
%0 = input X : i32[100]
%1 = contract argmin [k] (k: 0..2, n: 0..100) rank k { v0 = %0[n]; yield v0 } : i32[2]
").lines().skip(10).take(1).collect::<Vec<_>>().join("\n"), @"%9 = contract assign [i0, i1, i2, i3] (i0: 0..1, i1: 0..2, i2: 0..1, i3: 0..64) { v0 = %7[i0, i1, i2, i3]; v1 = %7[i0, -i1 + 1, -i2, i3]; v2 = %8[i0, i1, i2, i3]; v3 = %8[i0, -i1 + 1, -i2, i3]; v4 = cmp_lt v0 v1; v5 = cmp_lt v1 v0; v6 = false : bool; v7 = cmp_eq v5 v6; v8 = cmp_lt v2 v3; v9 = bit_and v7 v8; v10 = bit_or v4 v9; v11 = 0 : i32; v12 = cmp_gt v2 v11; v13 = cmp_gt v3 v11; v14 = cmp_eq v13 v6; v15 = bit_or v10 v14; v16 = bit_and v15 v12; v17 = index i1; v18 = cmp_eq v17 v11; v19 = cmp_eq v16 v18; v20 = select v19 v0 v1; yield v20 } : i32[1, 2, 1, 64]");
    }
}
