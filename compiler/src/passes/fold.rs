//! Evaluates constant expressions, and drops elementwise operations that change nothing.
//!
//! Example: with `%3 = constant 1.0` and `%1 = sqrt %3`, the node `%1` becomes `constant 1.0`, and
//! the readers of `%2 = mul %0 %1` read `%0`. The readers of `stop_gradient %0` read `%0`, too,
//! because gradients have been taken before. `pow x 2` becomes `mul x x`, and powers by 3 and 4
//! become products, too. Nodes that are no longer read are left to [`super::dead`].
//!
//! Why it is sound: [`crate::scalar`]'s own definitions evaluate constants. An identity is applied
//! only if it holds for every bit pattern of the type (NaN payloads aside), and if the node has the
//! type of the value that replaces it:
//!
//! - `x - 0 = x` holds for floats and integers.
//! - `x + 0 = x` is false for the float `-0.0`. It is applied to integers, and to floats if x is a
//!   sum: sums start at 0, so they are never `-0.0`. (A layer without bias adds 0.)
//! - `x * 0 = 0` is not applied, because the shapes may differ.
//! - Two casts become one if the middle type holds every value of the first type, because the
//!   second cast then sees the value that the first one saw.
//! - `x != x` is false for integers, so that `select` gives its second value.
//!
//! Powers by 3 and 4 are an exception: products round twice, which is at most one unit in the last
//! place from the power.

use super::steady::steady;
use crate::dtype::{DType, Scalar};
use crate::graph::{Aggregation, Graph, NodeId, Op};
use crate::scalar::{BinaryOp, UnaryOp};

/// An equal replacement for a node.
enum Simpler {
    Node(NodeId),
    Op(Op, Vec<NodeId>),
}

/// Runs the pass; see the module's documentation.
pub fn fold(graph: &mut Graph) {
    for id in graph.topological() {
        if !steady(graph, id) {
            continue;
        }
        multiply_powers(graph, id);
        // Terminates: each step leaves fewer nodes between this node and the inputs.
        while let Some(simpler) = simpler(graph, id) {
            match simpler {
                Simpler::Op(op, operands) => graph.set(id, op, &operands),
                Simpler::Node(other) => {
                    graph.stand_in(id, other);
                    break;
                }
            }
        }
    }
}

/// Computes a power by a small constant as a product: `x * x`, `(x * x) * x`, `(x * x) * (x * x)`.
fn multiply_powers(graph: &mut Graph, id: NodeId) {
    let (Op::Binary(BinaryOp::Pow), &[x, exponent]) = (&graph.node(id).op, graph.operands(id))
    else {
        return;
    };
    if !graph.dtype(x).is_float() || graph.node(x).ty != graph.node(id).ty {
        return;
    }
    let product = Op::Binary(BinaryOp::Mul);
    let square = |graph: &mut Graph| {
        let ty = graph.node(x).ty.clone();
        graph.add(product.clone(), ty, &[x, x])
    };
    let factors = match uniform(graph, exponent).map(Scalar::to_f64) {
        Some(2.0) => [x, x],
        Some(3.0) => [square(graph), x],
        Some(4.0) => [square(graph); 2],
        _ => return,
    };
    graph.set(id, product, &factors);
}

fn simpler(graph: &Graph, id: NodeId) -> Option<Simpler> {
    let operands = graph.operands(id);
    if let Some(op) = constant(graph, id, operands) {
        return Some(Simpler::Op(op, vec![]));
    }
    let through = |operand: NodeId| (&graph.node(operand).op, graph.operands(operand));
    let same = match (&graph.node(id).op, operands) {
        (Op::Unary(op), &[x]) => unary(graph, *op, x),
        (Op::Binary(op), &[a, b]) => match (uniform(graph, a), uniform(graph, b)) {
            (_, Some(b)) if neutral_right(*op, b) => Some(a),
            (Some(a), _) if neutral_left(*op, a) => Some(b),
            (_, Some(zero))
                if *op == BinaryOp::Add && zero == Scalar::zero(zero.dtype) && is_sum(graph, a) =>
            {
                Some(a)
            }
            _ if a == b && is_idempotent(*op) => Some(a),
            _ => None,
        },
        (Op::Select, &[condition, then, otherwise]) => match decided(graph, condition) {
            Some(holds) => Some(if holds { then } else { otherwise }),
            None if then == otherwise => Some(then),
            None => None,
        },
        (Op::StopGradient, &[x]) => Some(x),
        (Op::Cast, &[x]) if graph.dtype(x) == graph.dtype(id) => Some(x),
        (Op::Cast, &[x]) => match through(x) {
            (Op::Cast, inner)
                if is_one_cast(graph.dtype(inner[0]), graph.dtype(x), graph.dtype(id)) =>
            {
                return Some(Simpler::Op(Op::Cast, inner.to_vec()));
            }
            _ => None,
        },
        (Op::Reshape, &[x]) if graph.shape(x) == graph.shape(id) => Some(x),
        (Op::Reshape, &[x]) => match through(x) {
            (Op::Reshape, inner) => return Some(Simpler::Op(Op::Reshape, inner.to_vec())),
            _ => None,
        },
        _ => None,
    };
    same.filter(|same| graph.node(*same).ty == graph.node(id).ty).map(Simpler::Node)
}

/// Returns the constant that equals an elementwise operation on constants, or a reshape of one.
fn constant(graph: &Graph, id: NodeId, operands: &[NodeId]) -> Option<Op> {
    let node = graph.node(id);
    let is_known =
        matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast | Op::Reshape);
    if !is_known || node.ty.rank() > 1 {
        return None;
    }
    let known: Vec<&[Scalar]> =
        operands.iter().map(|operand| elements(graph, *operand)).collect::<Option<_>>()?;
    let at = |operand: usize, place: usize| {
        known[operand][if known[operand].len() == 1 { 0 } else { place }]
    };
    let value = |place| match &node.op {
        Op::Unary(op) => op.evaluate(at(0, place)),
        Op::Binary(op) => op.evaluate(at(0, place), at(1, place)),
        Op::Select => at(if at(0, place).is_true() { 1 } else { 2 }, place),
        _ => at(0, place).cast(node.ty.dtype),
    };
    let values: Vec<Scalar> = (0..node.ty.elements()).map(value).collect();
    Some(if node.ty.rank() == 0 { Op::Constant(values[0]) } else { Op::Elements(values) })
}

fn elements(graph: &Graph, id: NodeId) -> Option<&[Scalar]> {
    match &graph.node(id).op {
        Op::Constant(scalar) => Some(std::slice::from_ref(scalar)),
        Op::Elements(scalars) => Some(scalars),
        _ => None,
    }
}

fn is_sum(graph: &Graph, id: NodeId) -> bool {
    let Op::Contraction(contraction) = &graph.node(id).op else { return false };
    contraction.aggregation == Aggregation::Sum && !contraction.default
}

/// Returns the value that all elements of a constant have, or of one that is reshaped and cast.
fn uniform(graph: &Graph, id: NodeId) -> Option<Scalar> {
    let operand = |id: NodeId| graph.operands(id)[0];
    let cast = if graph.node(id).op == Op::Cast { operand(id) } else { id };
    let source = if graph.node(cast).op == Op::Reshape { operand(cast) } else { cast };
    let (first, rest) = elements(graph, source)?.split_first()?;
    rest.iter().all(|scalar| scalar == first).then(|| first.cast(graph.dtype(id)))
}

/// Returns whether a condition holds, if that is known and the same everywhere. `x != x` asks for
/// NaN, which integers do not have.
fn decided(graph: &Graph, condition: NodeId) -> Option<bool> {
    let never = match (&graph.node(condition).op, graph.operands(condition)) {
        (Op::Binary(BinaryOp::Ne), &[a, b]) => a == b && !graph.dtype(a).is_float(),
        _ => false,
    };
    if never { Some(false) } else { uniform(graph, condition).map(Scalar::is_true) }
}

/// Returns the node that `op` of `x` equals, if there is one.
fn unary(graph: &Graph, op: UnaryOp, x: NodeId) -> Option<NodeId> {
    use UnaryOp::*;
    let dtype = graph.dtype(x);
    let changes_nothing = match op {
        Neg => dtype == DType::Bool,
        Abs => !dtype.is_float() && !dtype.is_signed_integer(),
        Ceil | Floor | Rint | Round => !dtype.is_float(),
        _ => false,
    };
    match &graph.node(x).op {
        _ if changes_nothing => Some(x),
        Op::Unary(inner) if *inner == op && matches!(op, Neg | BitNot) => {
            Some(graph.operands(x)[0])
        }
        Op::Unary(inner) if *inner == op && matches!(op, Abs | Ceil | Floor | Rint | Round) => {
            Some(x)
        }
        _ => None,
    }
}

/// Returns whether `op(x, s) = x` for every x.
fn neutral_right(op: BinaryOp, s: Scalar) -> bool {
    use BinaryOp::*;
    match op {
        Add if s.dtype.is_float() => s == UnaryOp::Neg.evaluate(Scalar::zero(s.dtype)),
        Add | Sub | BitOr | BitXor | ShiftLeft | ShiftRight => s == Scalar::zero(s.dtype),
        Mul | Div | Pow => s == Scalar::one(s.dtype),
        Max => s == Scalar::lowest(s.dtype),
        Min => s == Scalar::highest(s.dtype),
        BitAnd => s == UnaryOp::BitNot.evaluate(Scalar::zero(s.dtype)),
        Rem | Eq | Ne | Lt | Le | Gt | Ge => false,
    }
}

/// Returns whether `op(s, x) = x` for every x. False for max and min of floats, which ignore a NaN
/// on the right.
fn neutral_left(op: BinaryOp, s: Scalar) -> bool {
    let orders_integers = matches!(op, BinaryOp::Max | BinaryOp::Min) && !s.dtype.is_float();
    (op.is_commutative() || orders_integers) && neutral_right(op, s)
}

/// Returns whether `op(x, x) = x` for every x.
fn is_idempotent(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Max | BinaryOp::Min | BinaryOp::BitAnd | BinaryOp::BitOr)
}

/// Returns whether casting `from` to `between` and then to `to` equals casting `from` to `to`.
fn is_one_cast(from: DType, between: DType, to: DType) -> bool {
    // An integer cast to an integer wraps, but saturates if it goes through a float.
    let wraps_as_before = from.is_float() == between.is_float()
        || to.is_float()
        || to == DType::Bool
        || to.holds(from);
    between.holds(from) && wraps_as_before
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, fold};

    fn folded(text: &str) -> String {
        after(&[fold, dead], text)
    }

    #[test]
    fn constants_are_computed() {
        insta::assert_snapshot!(folded("\
graph g() -> (A = %3, B = %6, C = %7)
%0 = constant 3 : i32[]
%1 = constant 2 : i32[]
%2 = div %0 %1 : i32[]
%3 = cast %2 : f32[]
%4 = elements [1, 2, 3] : i32[3]
%5 = add %4 %0 : i32[3]
%6 = cmp_lt %5 %5 : bool[3]
%7 = reshape %5 : i32[3, 1]
"), @"
    graph g() -> (A = %0, B = %2, C = %3)
    %0 = constant 1.0 : f32[]
    %1 = elements [4, 5, 6] : i32[3]
    %2 = elements [false, false, false] : bool[3]
    %3 = reshape %1 : i32[3, 1]
    ");
    }

    #[test]
    fn identities_hold_for_every_bit_pattern() {
        // A to F become the input. G to K stay.
        insta::assert_snapshot!(folded("\
graph g(%0) -> (A = %4, B = %5, C = %6, D = %8, E = %9, F = %11, G = %12, H = %13, I = %14, J = %15, K = %16)
%0 = input X : f32[2]
%1 = constant 1.0 : f32[]
%2 = constant 0.0 : f32[]
%3 = constant -0.0 : f32[]
%4 = mul %1 %0 : f32[2]
%5 = sub %0 %2 : f32[2]
%6 = add %0 %3 : f32[2]
%7 = neg %0 : f32[2]
%8 = neg %7 : f32[2]
%9 = max %0 %0 : f32[2]
%10 = constant true : bool[]
%11 = select %10 %0 %7 : f32[2]
%12 = add %0 %2 : f32[2]
%13 = mul %0 %2 : f32[2]
%14 = sub %2 %0 : f32[2]
%15 = elements [1.0] : f32[1]
%16 = select %10 %15 %0 : f32[2]
"), @"
    graph g(%0) -> (A = %0, B = %0, C = %0, D = %0, E = %0, F = %0, G = %3, H = %4, I = %5, J = %6, K = %7)
    %0 = input X : f32[2]
    %1 = constant 0.0 : f32[]
    %2 = constant true : bool[]
    %3 = add %0 %1 : f32[2]
    %4 = mul %0 %1 : f32[2]
    %5 = sub %1 %0 : f32[2]
    %6 = elements [1.0] : f32[1]
    %7 = select %2 %6 %0 : f32[2]
    ");
    }

    #[test]
    fn a_sum_is_never_negative_zero() {
        insta::assert_snapshot!(folded("\
graph g(%0) -> (A = %3, B = %5)
%0 = input X : f32[2, 3]
%1 = constant 0.0 : f32[]
%2 = contract sum [i] (i: 0..2, j: 0..3) { v0 = %0[i, j]; yield v0 } : f32[2]
%3 = add %2 %1 : f32[2]
%4 = contract max [i] (i: 0..2, j: 0..3) { v0 = %0[i, j]; yield v0 } : f32[2]
%5 = add %4 %1 : f32[2]
"), @"
    graph g(%0) -> (A = %2, B = %4)
    %0 = input X : f32[2, 3]
    %1 = constant 0.0 : f32[]
    %2 = contract sum [i] (i: 0..2, j: 0..3) { v0 = %0[i, j]; yield v0 } : f32[2]
    %3 = contract max [i] (i: 0..2, j: 0..3) { v0 = %0[i, j]; yield v0 } : f32[2]
    %4 = add %3 %1 : f32[2]
    ");
    }

    #[test]
    fn integers_have_more_identities() {
        insta::assert_snapshot!(folded("\
graph g(%0) -> (A = %2, B = %4, C = %5, D = %6, E = %8)
%0 = input X : i8[2]
%1 = constant 0 : i8[]
%2 = add %1 %0 : i8[2]
%3 = constant -1 : i8[]
%4 = bit_and %0 %3 : i8[2]
%5 = round %0 : i8[2]
%6 = mul %0 %1 : i8[2]
%7 = cmp_ne %0 %0 : bool[2]
%8 = select %7 %6 %0 : i8[2]
"), @"
    graph g(%0) -> (A = %0, B = %0, C = %0, D = %2, E = %0)
    %0 = input X : i8[2]
    %1 = constant 0 : i8[]
    %2 = mul %0 %1 : i8[2]
    ");
    }

    #[test]
    fn casts_and_reshapes_meet() {
        // An i8 is exact in f16. An i32 cast to i8 through f64 saturates instead of wrapping.
        insta::assert_snapshot!(folded("\
graph g(%0, %1) -> (A = %3, B = %5, C = %7, D = %9)
%0 = input X : i8[4]
%1 = input Y : i32[4]
%2 = cast %0 : f16[4]
%3 = cast %2 : f32[4]
%4 = cast %2 : i32[4]
%5 = cast %4 : i8[4]
%6 = cast %1 : f64[4]
%7 = cast %6 : i8[4]
%8 = reshape %1 : i32[2, 2]
%9 = reshape %8 : i32[4]
"), @"
    graph g(%0, %1) -> (A = %2, B = %0, C = %4, D = %1)
    %0 = input X : i8[4]
    %1 = input Y : i32[4]
    %2 = cast %0 : f32[4]
    %3 = cast %1 : f64[4]
    %4 = cast %3 : i8[4]
    ");
    }
}
