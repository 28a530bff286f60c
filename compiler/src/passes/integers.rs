//! Computes sums of products of small integers in floats: a cpu has fast loops and products for
//! these. The pass [`bytes`](super::bytes()) has rewritten most products of 8-bit integers before.
//!
//! Example: with `A` and `B` of i8, the products of `i32(A)` and `i32(B)` are at most 2^14 in
//! magnitude, and the sum of 512 of these at most 2^23. So
//!
//! ```text
//! contract sum … { v0 = %A[n, k]; v1 = %B[k, u]; v2 = mul v0 v1; yield v2 } : i32
//! ```
//!
//! becomes the same contraction in f64, of `cast %A : f64` and `cast %B : f64`, followed by a cast
//! to i32.
//!
//! Why it is sound: every product, and every partial sum in any order, is an integer that both
//! types represent, so that nothing is rounded and nothing wraps. Types, constants and arithmetic
//! bound the values. Short sums fit f32. The pass uses it for depthwise convolutions and the like
//! only, in which a factor belongs to no other places than the other one: a cpu may compute other
//! f32 convolutions by Winograd's algorithm, whose transforms have fractions.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, ContractionLeaf, Graph, NodeId, NodeMap, Op};
use crate::scalar::{BinaryOp, Inst, Program, UnaryOp};
use crate::tensor::TensorType;

/// f64 and f32 represent every integer up to these magnitudes.
const EXACT: i128 = 1 << 53;
const EXACT_F32: i128 = 1 << 24;

/// Computes sums of products of whole numbers in floats where that is exact.
pub fn integers(graph: &mut Graph) {
    let mut most = NodeMap::new();
    let (mut narrow, mut wide) = (NodeMap::new(), NodeMap::new());
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            integers(&mut parts.body);
            graph.put_scan(id, parts);
        }
        let value = magnitude(graph, id, &most);
        most.insert(id, value);
        let Op::Contraction(contraction) = &graph.node(id).op else { continue };
        let operands = graph.operands(id).to_vec();
        let Some(dtype) = float(graph, id, contraction, &operands, &most) else { continue };
        let mut contraction = contraction.clone();
        contraction.body = product_of_accesses(dtype);
        let factors: Vec<NodeId> = operands
            .iter()
            .map(|&operand| {
                let ty = TensorType::new(dtype, graph.shape(operand));
                let casts = if dtype == DType::F32 { &mut narrow } else { &mut wide };
                *casts.slot(operand).get_or_insert_with(|| graph.add(Op::Cast, ty, &[operand]))
            })
            .collect();
        let ty = TensorType::new(dtype, graph.shape(id));
        let sum = graph.add(Op::Contraction(contraction), ty, &factors);
        graph.set(id, Op::Cast, &[sum]);
    }
}

/// Returns the body that multiplies two accesses.
pub(super) fn product_of_accesses(dtype: DType) -> Program<ContractionLeaf> {
    let mut body = Program::default();
    let [a, b] = [0, 1].map(|access| body.push(Inst::Leaf(ContractionLeaf::Access(access)), dtype));
    body.results = vec![body.binary(BinaryOp::Mul, a, b)];
    body
}

/// Returns the type in which to compute the node, if it is a sum of products of integers that a
/// float represents exactly.
pub(super) fn float(
    graph: &Graph,
    id: NodeId,
    contraction: &Contraction,
    operands: &[NodeId],
    most: &NodeMap<i128>,
) -> Option<DType> {
    let dtype = graph.dtype(id);
    let is_product = contraction.aggregation == Aggregation::Sum
        && contraction.body == product_of_accesses(dtype);
    let is_fixed =
        contraction.accesses.len() == 2 && contraction.accesses.iter().all(Access::is_fixed);
    if !dtype.is_integer() || !is_product || !is_fixed || contraction.default {
        return None;
    }
    let factors = contraction.accesses.iter().map(|access| most[operands[access.operand]]);
    let sum = factors.chain([terms(contraction)]).fold(1, i128::saturating_mul);
    let is_short =
        sum <= EXACT_F32 && (!has_rows_and_columns(contraction) || has_narrow_groups(contraction));
    let float = if is_short { DType::F32 } else { DType::F64 };
    (sum <= EXACT.min(greatest(dtype))).then_some(float)
}

/// Returns whether each of the two factors has places of the result that the other one does not
/// depend on.
fn has_rows_and_columns(contraction: &Contraction) -> bool {
    let Contraction { accesses, indices, output, .. } = contraction;
    let free: Vec<usize> =
        output.iter().flat_map(Affine::variables).filter(|&v| indices[v].varies()).collect();
    let alone = |v: usize, x: &Access, y: &Access| x.mentions(v) && !y.mentions(v);
    let [rows, columns] =
        [(0, 1), (1, 0)].map(|(x, y)| free.iter().any(|&v| alone(v, &accesses[x], &accesses[y])));
    rows && columns
}

/// Returns whether the contraction has groups in which a factor has few places of its own. Direct
/// sums of floats are faster there than products of bytes.
pub(super) fn has_narrow_groups(contraction: &Contraction) -> bool {
    const FEW: i64 = 16;
    let Contraction { accesses, indices, output, .. } = contraction;
    let [a, b] = &accesses[..] else { return false };
    let is_of_place = |v: usize| output.iter().any(|place| place.coefficient(v) != 0);
    let free: Vec<usize> =
        (0..indices.len()).filter(|&v| indices[v].varies() && is_of_place(v)).collect();
    let alone = |x: &Access, y: &Access| -> i64 {
        let own = free.iter().filter(|&&v| x.mentions(v) && !y.mentions(v));
        own.map(|&v| indices[v].high - indices[v].low).fold(1, i64::saturating_mul)
    };
    let has_groups = free.iter().any(|&v| a.mentions(v) && b.mentions(v));
    has_groups && alone(a, b).min(alone(b, a)) <= FEW
}

/// Returns an upper bound of the points that fall on one place. Given all other variables, each
/// coordinate of the place determines one of the variables that no other coordinate mentions. The
/// values of the remaining variables may all fall on one place.
pub(super) fn terms(contraction: &Contraction) -> i128 {
    let range = |variable: usize| &contraction.indices[variable];
    let extent = |variable: &usize| i128::from(range(*variable).high - range(*variable).low).max(1);
    let namers = |variable: usize| {
        contraction.output.iter().filter(move |place| place.coefficient(variable) != 0)
    };
    let is_told =
        |place: &Affine| place.variables().filter(|&v| namers(v).count() == 1).max_by_key(extent);
    let told: Vec<usize> = contraction.output.iter().filter_map(is_told).collect();
    let others = (0..contraction.indices.len()).filter(|variable| !told.contains(variable));
    others.map(|variable| extent(&variable)).fold(1, i128::saturating_mul)
}

/// Returns the greatest value of an integer type or bool. A signed type has its negation, too.
fn greatest(dtype: DType) -> i128 {
    let bits = dtype.bits() - u32::from(dtype.is_signed_integer());
    (1 << bits) - 1
}

/// Returns a bound of the magnitude of a node's elements, if they are integers or bools. `most` has
/// the bounds of its operands.
pub(super) fn magnitude(graph: &Graph, id: NodeId, most: &NodeMap<i128>) -> i128 {
    let dtype = graph.dtype(id);
    if dtype.is_float() {
        return i128::MAX;
    }
    // Includes the least value of a signed type.
    let any = greatest(dtype) + i128::from(dtype.is_signed_integer());
    let operands = graph.operands(id);
    let of = |operand: usize| most[operands[operand]];
    let found = match &graph.node(id).op {
        Op::Constant(value) => size(value),
        Op::Elements(values) => values.iter().map(size).max().unwrap_or(0),
        // Negative values wrap when cast to an unsigned type.
        Op::Cast if dtype.is_signed_integer() || !graph.dtype(operands[0]).is_signed_integer() => {
            of(0)
        }
        Op::Binary(BinaryOp::Sub) if dtype.is_signed_integer() => of(0).saturating_add(of(1)),
        Op::Unary(UnaryOp::Neg | UnaryOp::Abs) if dtype.is_signed_integer() => of(0),
        Op::Reshape | Op::StopGradient => of(0),
        Op::Binary(BinaryOp::Add) => of(0).saturating_add(of(1)),
        Op::Binary(BinaryOp::Mul) => of(0).saturating_mul(of(1)),
        Op::Binary(BinaryOp::Min | BinaryOp::Max) => of(0).max(of(1)),
        Op::Select => of(1).max(of(2)),
        Op::Contraction(copy)
            if copy.aggregation == Aggregation::Assign && !copy.default && is_of_elements(copy) =>
        {
            of(copy.accesses[0].operand)
        }
        _ => any,
    };
    // Greater values wrap or saturate.
    if found <= greatest(dtype) { found } else { any }
}

/// Returns whether its values are elements of its first access.
fn is_of_elements(contraction: &Contraction) -> bool {
    let Contraction { body, .. } = contraction;
    matches!(body.insts[body.results[0]].0, Inst::Leaf(ContractionLeaf::Access(0)))
}

/// Returns the magnitude of an integer.
fn size(value: &Scalar) -> i128 {
    if value.dtype == DType::U64 { value.bits().into() } else { i128::from(value.to_i64()).abs() }
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::*;

    #[test]
    fn sums_that_f64_holds() {
        insta::assert_snapshot!(after(&[integers], "\
graph f(%0, %1) -> (P = %6)
%0 = input X : u8[4, 300]
%1 = input W : i8[300, 5]
%2 = constant 7 : i32[]
%3 = cast %0 : i32[4, 300]
%4 = sub %3 %2 : i32[4, 300]
%5 = cast %1 : i32[300, 5]
%6 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..300) { v0 = %4[n, k]; v1 = %5[k, u]; v2 = mul v0 v1; yield v2 } : i32[4, 5]
"), @"
        graph f(%0, %1) -> (P = %9)
        %0 = input X : u8[4, 300]
        %1 = input W : i8[300, 5]
        %2 = constant 7 : i32[]
        %3 = cast %0 : i32[4, 300]
        %4 = sub %3 %2 : i32[4, 300]
        %5 = cast %1 : i32[300, 5]
        %6 = cast %4 : f64[4, 300]
        %7 = cast %5 : f64[300, 5]
        %8 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..300) { v0 = %6[n, k]; v1 = %7[k, u]; v2 = mul v0 v1; yield v2 } : f64[4, 5]
        %9 = cast %8 : i32[4, 5]
        ");
    }

    /// Returns the type of the sum of products of two inputs' elements, cast to type `of`, over
    /// `terms` terms.
    fn sum(left: &str, right: &str, of: &str, terms: usize) -> DType {
        let text = format!(
            "graph f(%0, %1) -> (P = %4)\n\
             %0 = input X : {left}[4, {terms}]\n\
             %1 = input W : {right}[{terms}, 5]\n\
             %2 = cast %0 : {of}[4, {terms}]\n\
             %3 = cast %1 : {of}[{terms}, 5]\n\
             %4 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..{terms}) {{ v0 = %2[n, k]; v1 = %3[k, u]; v2 = mul v0 v1; yield v2 }} : {of}[4, 5]\n"
        );
        let mut graph = Graph::parse(&text).unwrap();
        integers(&mut graph);
        let is_sum = |id: &NodeId| matches!(graph.node(*id).op, Op::Contraction(_));
        graph.dtype(graph.ids().find(is_sum).unwrap())
    }

    #[test]
    fn sums_are_floats_where_these_are_exact() {
        assert_eq!(sum("bool", "u8", "u32", 65793), DType::F64);
        assert_eq!(sum("i16", "i8", "i32", 511), DType::F64);
        // 2^15 * 2^7 * 512 is 2^31, which i32 does not hold.
        assert_eq!(sum("i16", "i8", "i32", 512), DType::I32);
        assert_eq!(sum("i16", "i16", "i64", 1 << 23), DType::F64);
        assert_eq!(sum("i16", "i16", "i64", (1 << 23) + 1), DType::I64);
        assert_eq!(sum("i32", "i8", "i64", 1), DType::F64);
        assert_eq!(sum("i32", "i32", "i64", 1), DType::I64);
        assert_eq!(sum("u8", "u8", "u16", 2), DType::U16);
        // -1 as u32 is large.
        assert_eq!(sum("i8", "u8", "u32", 9), DType::U32);
    }

    /// Two coordinates that mention the same variable do not determine it.
    #[test]
    fn points_of_a_place() {
        let terms_of = |place: &str, variables: &str| {
            let text = format!(
                "graph f(%0) -> (P = %1)\n%0 = input X : i32[64]\n\
                 %1 = contract sum {place} ({variables}) {{ v0 = %0[i]; v1 = %0[i]; v2 = mul v0 v1; yield v2 }} : i32[64, 64]\n"
            );
            let graph = Graph::parse(&text).unwrap();
            let mut all = graph.ids().filter_map(|id| {
                if let Op::Contraction(op) = &graph.node(id).op { Some(terms(op)) } else { None }
            });
            all.next().unwrap()
        };
        assert_eq!(terms_of("[i, j]", "i: 0..4, j: 0..5, k: 0..6"), 6);
        assert_eq!(terms_of("[2*i + k, j]", "i: 0..4, j: 0..5, k: 0..6"), 4);
        assert_eq!(terms_of("[i + j, i + j]", "i: 0..4, j: 0..5, k: 0..6"), 120);
    }
}
