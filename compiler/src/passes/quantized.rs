//! Computes sums of products of dequantized 8-bit integers as sums of products of integers, which
//! [`bytes`](super::bytes()) and [`integers`](super::integers()) make fast.
//!
//! Example: with A of u8, B of i8, zero points a and b and scales s and t, the sum over k of
//! `f32(i32(A) - a) * s * (f32(i32(B) - b) * t)` is
//!
//! ```text
//! f32(sum of (i32(A) - a) * (i32(B) - b)) * (s * t)
//! ```
//!
//! A scale is one number, or differs along axes of the factor that the result has, too.
//!
//! Why it is sound: the integers are so small that their sum does not overflow, and scales are the
//! same for all terms of a place. Only roundings differ: there are fewer. The exceptions are scales
//! that no quantizer makes: infinite ones, where only sums of products are 0 or only products are,
//! and pairs whose product leaves the range of f32. Like the other changes of rounding, `--exact`
//! leaves this out.

use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, Graph, NodeId, NodeMap, Op};
use crate::scalar::BinaryOp;
use crate::tensor::TensorType;

use super::bytes::{binary, is_product_of_bytes, over_result};
use super::integers::{float, magnitude, product_of_accesses, terms};

/// A difference of 8-bit integers is at most this.
const MOST: i128 = 2 * 255;

/// Rewrites sums of products of dequantized integers.
pub fn quantized(graph: &mut Graph) {
    let mut most = NodeMap::new();
    let mut words = NodeMap::new();
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            quantized(&mut parts.body);
            graph.put_scan(id, parts);
        }
        let bound = magnitude(graph, id, &most);
        most.insert(id, bound);
        let Some(contraction) = product(graph, id) else { continue };
        let operands = graph.operands(id).to_vec();
        let factors = [0, 1].map(|factor| {
            let access = &contraction.accesses[factor];
            Factor::of(graph, operands[access.operand], &mut most, &mut words)
        });
        let [Some(a), Some(b)] = factors else { continue };
        // Nodes that it adds in vain are not read.
        rewrite(graph, id, &contraction, [a, b], &mut most);
    }
}

/// Returns the node's contraction, if it is a sum of products of two f32 factors.
fn product(graph: &Graph, id: NodeId) -> Option<Box<Contraction>> {
    let Op::Contraction(contraction) = &graph.node(id).op else { return None };
    let is_product = graph.dtype(id) == DType::F32
        && contraction.aggregation == Aggregation::Sum
        && contraction.body == product_of_accesses(DType::F32)
        && contraction.accesses.len() == 2
        && contraction.accesses.iter().all(Access::is_fixed);
    (is_product && !contraction.default).then(|| contraction.clone())
}

/// A factor: integers, cast to f32 and multiplied by scales.
struct Factor {
    /// The integers, in i32.
    steps: NodeId,
    scales: Vec<NodeId>,
}

impl Factor {
    /// Describes an f32 node, if it is such a factor.
    fn of(
        graph: &mut Graph,
        mut id: NodeId,
        most: &mut NodeMap<i128>,
        words: &mut NodeMap<NodeId>,
    ) -> Option<Self> {
        let mut scales = Vec::new();
        loop {
            if let Some(steps) = words.get(id).copied().or_else(|| whole(graph, id, most)) {
                words.insert(id, steps);
                return Some(Self { steps, scales }).filter(|_| most[steps] <= MOST);
            }
            let (Op::Binary(BinaryOp::Mul), &[a, b]) = (&graph.node(id).op, graph.operands(id))
            else {
                return None;
            };
            let (factor, scale) = if graph.shape(a) == graph.shape(id) { (a, b) } else { (b, a) };
            if graph.shape(factor) != graph.shape(id) {
                return None;
            }
            scales.push(scale);
            id = factor;
        }
    }
}

/// Returns the i32 node with the values of an f32 node, if that is a cast of small integers, or
/// such a cast less a constant.
fn whole(graph: &mut Graph, id: NodeId, most: &mut NodeMap<i128>) -> Option<NodeId> {
    let operands = graph.operands(id).to_vec();
    let shape = graph.shape(id).to_vec();
    let mut add = |graph: &mut Graph, op: Op, operands: &[NodeId], shape: &[usize]| {
        let added = graph.add(op, TensorType::new(DType::I32, shape), operands);
        let bound = magnitude(graph, added, most);
        most.insert(added, bound);
        added
    };
    match &graph.node(id).op {
        Op::Cast if graph.dtype(operands[0]) == DType::I32 => Some(operands[0]),
        Op::Cast if matches!(graph.dtype(operands[0]), DType::I8 | DType::U8) => {
            Some(add(graph, Op::Cast, &operands, &shape))
        }
        Op::Binary(BinaryOp::Sub) if graph.shape(operands[0]) == shape => {
            let Op::Constant(zero) = graph.node(operands[1]).op else { return None };
            let bytes = graph.operands(operands[0]).first().copied()?;
            let is_byte = graph.node(operands[0]).op == Op::Cast
                && matches!(graph.dtype(bytes), DType::I8 | DType::U8);
            let steps = zero.to_f64();
            if !is_byte || steps.fract() != 0.0 || steps.abs() > 255.0 {
                return None;
            }
            let wide = add(graph, Op::Cast, &[bytes], &shape);
            let zero = Op::Constant(Scalar::from_i64(DType::I32, steps as i64));
            let zero = add(graph, zero, &[], &[]);
            Some(add(graph, Op::Binary(BinaryOp::Sub), &[wide, zero], &shape))
        }
        _ => None,
    }
}

/// Replaces the contraction by one of integers, with a scale for each place. Returns `None` if that
/// would not be the same or not be faster.
fn rewrite(
    graph: &mut Graph,
    id: NodeId,
    contraction: &Contraction,
    factors: [Factor; 2],
    most: &mut NodeMap<i128>,
) -> Option<()> {
    let steps = [0, 1].map(|factor: usize| factors[factor].steps);
    let bounds = steps.iter().map(|steps| most[*steps]).chain([terms(contraction)]);
    if bounds.fold(1, i128::saturating_mul) > i32::MAX.into() {
        return None;
    }
    let mut sum = Box::new(contraction.clone());
    sum.body = product_of_accesses(DType::I32);
    for (factor, access) in sum.accesses.iter_mut().enumerate() {
        access.operand = factor;
    }
    let shape = graph.shape(id).to_vec();
    let sum = graph.add(Op::Contraction(sum), TensorType::new(DType::I32, &shape[..]), &steps);
    // Another product may read it as a factor.
    let bound = magnitude(graph, sum, most);
    most.insert(sum, bound);
    if !is_product_of_bytes(graph, sum) && !is_short(graph, sum, most) {
        return None;
    }
    let mut scale = None;
    for (factor, access) in factors.iter().zip(&contraction.accesses) {
        for &part in &factor.scales {
            let part = over_result(graph, contraction, &shape, access, part)?;
            scale = Some(match scale {
                Some(scale) => binary(graph, BinaryOp::Mul, scale, part),
                None => part,
            });
        }
    }
    let Some(scale) = scale else {
        graph.set(id, Op::Cast, &[sum]);
        return Some(());
    };
    let sum = graph.add(Op::Cast, TensorType::new(DType::F32, &shape[..]), &[sum]);
    graph.set(id, Op::Binary(BinaryOp::Mul), &[sum, scale]);
    Some(())
}

/// Returns whether the sum of products of integers can be computed in f32 without rounding.
fn is_short(graph: &Graph, id: NodeId, most: &NodeMap<i128>) -> bool {
    let Op::Contraction(contraction) = &graph.node(id).op else { return false };
    float(graph, id, contraction, graph.operands(id), most) == Some(DType::F32)
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, quantized};

    /// The result of one product is a factor of the next: too large for a product of bytes.
    #[test]
    fn products_one_after_another() {
        let graph = after(&[quantized, dead], "\
graph f(%0, %1, %2) -> (Y = %6)
%0 = input X : i8[5, 9]
%1 = input W : i8[9, 4]
%2 = input V : f32[4, 4]
%3 = cast %0 : f32[5, 9]
%4 = cast %1 : f32[9, 4]
%5 = contract sum [p, o] (p: 0..5, o: 0..4, c: 0..9) { v0 = %3[p, c]; v1 = %4[c, o]; v2 = mul v0 v1; yield v2 } : f32[5, 4]
%6 = contract sum [p, q] (p: 0..5, q: 0..4, o: 0..4) { v0 = %5[p, o]; v1 = %2[o, q]; v2 = mul v0 v1; yield v2 } : f32[5, 4]
");
        let types = |text: &str| graph.lines().filter(|line| line.ends_with(text)).count();
        assert_eq!((types("} : i32[5, 4]"), types("} : f32[5, 4]")), (1, 1), "{graph}");
    }

    /// A convolution as exporters write it: u8 with a scale and a zero point, and i8 with a scale
    /// for each filter.
    #[test]
    fn dequantized_factors() {
        insta::assert_snapshot!(after(&[quantized, dead], "\
graph f(%0, %1, %2, %3) -> (P = %11)
%0 = input X : u8[1, 8, 9]
%1 = input W : i8[5, 8, 3]
%2 = input S : f32[5, 1, 1]
%3 = input T : f32[]
%4 = constant 7 : i32[]
%5 = cast %0 : i32[1, 8, 9]
%6 = sub %5 %4 : i32[1, 8, 9]
%7 = cast %6 : f32[1, 8, 9]
%8 = mul %7 %3 : f32[1, 8, 9]
%9 = cast %1 : f32[5, 8, 3]
%10 = mul %9 %2 : f32[5, 8, 3]
%11 = contract sum [n, f, x] (n: 0..1, f: 0..5, x: 0..9, c: 0..8, i: 0..3) { v0 = %8[n, c, x + i - 1]; v1 = %10[f, c, i]; v2 = mul v0 v1; yield v2 } : f32[1, 5, 9]
"), @"
        graph f(%0, %1, %2, %3) -> (P = %12)
        %0 = input X : u8[1, 8, 9]
        %1 = input W : i8[5, 8, 3]
        %2 = input S : f32[5, 1, 1]
        %3 = input T : f32[]
        %4 = constant 7 : i32[]
        %5 = cast %0 : i32[1, 8, 9]
        %6 = sub %5 %4 : i32[1, 8, 9]
        %7 = cast %1 : i32[5, 8, 3]
        %8 = contract sum [n, f, x] (n: 0..1, f: 0..5, x: 0..9, c: 0..8, i: 0..3) { v0 = %6[n, c, x + i - 1]; v1 = %7[f, c, i]; v2 = mul v0 v1; yield v2 } : i32[1, 5, 9]
        %9 = contract assign [0, f, 0] (n: 0..1, f: 0..5, x: 0..1, c: 0..1, i: 0..1) { v0 = %2[f, 0, 0]; yield v0 } : f32[1, 5, 1]
        %10 = mul %3 %9 : f32[1, 5, 1]
        %11 = cast %8 : f32[1, 5, 9]
        %12 = mul %11 %10 : f32[1, 5, 9]
        ");
    }

    fn is_rewritten(text: &str) -> bool {
        after(&[quantized, dead], text) != after(&[dead], text)
    }

    #[test]
    fn conditions() {
        let text = |sub: &str, scale: &str, terms: usize| {
            format!(
                "graph f(%0, %1, %2) -> (P = %7)\n\
                 %0 = input X : u8[4, {terms}]\n\
                 %1 = input W : i8[{terms}, 5]\n\
                 %2 = input S : f32[{scale}]\n\
                 %3 = constant {sub} : f32[]\n\
                 %4 = cast %0 : f32[4, {terms}]\n\
                 %5 = sub %4 %3 : f32[4, {terms}]\n\
                 %6 = cast %1 : f32[{terms}, 5]\n\
                 %8 = mul %6 %2 : f32[{terms}, 5]\n\
                 %7 = contract sum [n, u] (n: 0..4, u: 0..5, k: 0..{terms}) {{ v0 = %5[n, k]; v1 = %8[k, u]; v2 = mul v0 v1; yield v2 }} : f32[4, 5]\n"
            )
        };
        assert!(is_rewritten(&text("128.0", "", 30)));
        assert!(is_rewritten(&text("128.0", "5", 30)));
        assert!(is_rewritten(&text("128.0", "1, 5", 30)));
        // A scale for each term.
        assert!(!is_rewritten(&text("128.0", "30, 1", 30)));
        // Terms with other scales at one place.
        assert!(!is_rewritten(
            "graph f(%0, %1, %2) -> (P = %7)\n\
             %0 = input X : u8[3, 4]\n\
             %1 = input W : i8[3, 4]\n\
             %2 = input S : f32[3, 4]\n\
             %3 = cast %0 : f32[3, 4]\n\
             %4 = cast %1 : f32[3, 4]\n\
             %5 = mul %3 %2 : f32[3, 4]\n\
             %7 = contract sum [n + m] (n: 0..3, m: 0..4) { v0 = %5[n, m]; v1 = %4[n, m]; v2 = mul v0 v1; yield v2 } : f32[6]\n"
        ));
        // No zero point of integers.
        assert!(!is_rewritten(&text("0.5", "5", 30)));
        assert!(!is_rewritten(&text("256.0", "5", 30)));
        // 383 * 128 * 43805 is more than i32 holds.
        assert!(is_rewritten(&text("128.0", "5", 43804)));
        assert!(!is_rewritten(&text("128.0", "5", 43805)));
    }
}
