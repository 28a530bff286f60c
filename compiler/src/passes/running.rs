//! Running sums, such as cumulative sums, in rounds for devices with kernels, where the places of a
//! nest do not wait for each other.
//!
//! Example: `contract sum [n] (n: 0..100, k: 0..100) where n - k >= 0 { v0 = %0[k]; yield v0 }`
//! becomes three contractions `[n] (n: 0..100, i: 0..8) { v0 = %j[n - d*i]; yield v0 }` with d = 1,
//! 8 and 64, the first of them on the terms. Each joins eight times as many terms as the one
//! before, so that 8 log8(N) terms for each place suffice instead of N.
//!
//! Why it is sound: sums are associative up to rounding, a place of a round reads sums of adjacent
//! parts, and a place without a term is 0.

use crate::affine::Affine;
use crate::graph::{Aggregation, Contraction, ContractionLeaf, Graph, IndexRange, NodeId, Op};
use crate::scalar::Inst;

/// The number of sums that a round joins.
const JOINED: usize = 8;
/// The shortest axis that is worth rounds.
const SHORTEST: usize = 4 * JOINED;

/// Runs the pass; see the module's documentation.
pub fn running(graph: &mut Graph) {
    for id in graph.topological() {
        if let Some(mut parts) = graph.take_scan(id) {
            running(&mut parts.body);
            graph.put_scan(id, parts);
        }
        let Op::Contraction(op) = &graph.node(id).op else { continue };
        // Narrow floats would be rounded in each round.
        let is_exact = !graph.dtype(id).is_float() || graph.dtype(id).bits() >= 32;
        if let Some(run) = Run::new(op, graph.shape(id)).filter(|_| is_exact) {
            join(graph, id, run);
        }
    }
}

/// A running sum.
struct Run {
    /// The axis of the result along which it runs.
    axis: usize,
    /// The step along the axis from a place to the one whose sum it continues.
    step: i64,
    /// The term of each place.
    terms: Contraction,
}

impl Run {
    /// Recognises a contraction whose only constraint compares a place with a point.
    fn new(op: &Contraction, shape: &[usize]) -> Option<Run> {
        let [constraint] = &op.constraints[..] else { return None };
        let &[(a, of_a), (b, of_b)] = constraint.terms() else { return None };
        let axis_of = |v: usize| op.output.iter().position(|place| place.as_variable() == Some(v));
        let (axis, place, point, of_place) = match (axis_of(a), axis_of(b)) {
            (Some(axis), None) => (axis, a, b, of_a),
            (None, Some(axis)) => (axis, b, a, of_b),
            _ => return None,
        };
        let mentions = |variable: usize| {
            let bodies = op.body.leaves().filter_map(|leaf| match leaf {
                ContractionLeaf::Index(index) => Some(index),
                ContractionLeaf::Access(_) => None,
            });
            op.accesses.iter().any(|access| access.mentions(variable))
                || bodies.into_iter().any(|index| index.coefficient(variable) != 0)
        };
        let mut others = op.output.iter().enumerate().filter(|(number, _)| *number != axis);
        let is_apart =
            others.all(|(_, at)| at.coefficient(place) == 0 && at.coefficient(point) == 0);
        let range = |variable: usize| &op.indices[variable];
        let length = i64::try_from(shape[axis]).ok()?;
        let is_plain = is_apart
            && op.aggregation == Aggregation::Sum
            && !op.default
            && (of_a, of_b) == (-of_b, -of_a)
            && of_place.abs() == 1
            && op.body.results.len() == 1
            && (range(place).low, range(place).high) == (0, length)
            && !mentions(place);
        // The place with the value n adds the point n + shift. It may be the only new one.
        let shift = constraint.offset().checked_mul(of_place)?;
        let IndexRange { low, high, .. } = *range(point);
        let own = Affine::var(place).add(&Affine::constant(shift))?;
        let adds_one = if of_place > 0 { low >= shift } else { high <= length + shift };
        if !is_plain || !adds_one || shape[axis] < SHORTEST {
            return None;
        }
        let terms = term(op, (point, &own), low, high)?;
        Some(Run { axis, step: -of_place, terms })
    }
}

/// Returns the contraction with the point `own` alone at each place, whose points run from `low` up
/// to `high`.
fn term(
    op: &Contraction,
    (point, own): (usize, &Affine),
    low: i64,
    high: i64,
) -> Option<Contraction> {
    let mut terms = op.clone();
    let change = |affine: &mut Affine| -> Option<()> {
        *affine = affine.substitute(point, own)?;
        Some(())
    };
    let indices = terms.accesses.iter_mut().flat_map(|access| &mut access.index);
    indices.map(|index| &mut index.affine).try_for_each(change)?;
    for (inst, _) in &mut terms.body.insts {
        if let Inst::Leaf(ContractionLeaf::Index(index)) = inst {
            change(index)?;
        }
    }
    let below = own.sub(&Affine::constant(low))?;
    let above = Affine::constant(high.checked_sub(1)?).sub(own)?;
    terms.constraints = vec![below, above];
    (terms.indices[point].low, terms.indices[point].high) = (0, 1);
    Some(terms)
}

/// Replaces a running sum by rounds.
fn join(graph: &mut Graph, id: NodeId, Run { axis, step, terms }: Run) {
    let ty = graph.node(id).ty.clone();
    let tensors = graph.operands(id).to_vec();
    let mut last = graph.add(Op::Contraction(Box::new(terms)), ty.clone(), &tensors);
    let length = ty.shape[axis];
    let mut distance = 1;
    while distance < length {
        let joined = JOINED.min(length.div_ceil(distance));
        let mut extents = ty.shape.to_vec();
        extents.push(joined);
        let place: Vec<Affine> = (0..ty.shape.len()).map(Affine::var).collect();
        let mut index = place.clone();
        let terms = [(axis, 1), (ty.shape.len(), step * distance as i64)];
        index[axis] = Affine::new(terms, 0).unwrap_or_default();
        let round = Contraction::of_tensor(Aggregation::Sum, ty.dtype, &extents, place, index);
        let op = Op::Contraction(Box::new(round));
        distance *= JOINED;
        if distance >= length {
            graph.set(id, op, &[last]);
        } else {
            last = graph.add(op, ty.clone(), &[last]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::running;

    #[test]
    fn running_sums_are_joined_in_rounds() {
        insta::assert_snapshot!(after(&[running], "\
graph g(%0) -> (Y = %1)
%0 = input X : f32[100, 3]
%1 = contract sum [n, c] (n: 0..100, c: 0..3, k: 0..100) where n - k - 1 >= 0 { v0 = %0[k, c]; yield v0 } : f32[100, 3]
"), @"
        graph g(%0) -> (Y = %4)
        %0 = input X : f32[100, 3]
        %1 = contract sum [n, c] (n: 0..100, c: 0..3, k: 0..1) where n - 1 >= 0, -n + 100 >= 0 { v0 = %0[n - 1, c]; yield v0 } : f32[100, 3]
        %2 = contract sum [i0, i1] (i0: 0..100, i1: 0..3, i2: 0..8) { v0 = %1[i0 - i2, i1]; yield v0 } : f32[100, 3]
        %3 = contract sum [i0, i1] (i0: 0..100, i1: 0..3, i2: 0..8) { v0 = %2[i0 - 8*i2, i1]; yield v0 } : f32[100, 3]
        %4 = contract sum [i0, i1] (i0: 0..100, i1: 0..3, i2: 0..2) { v0 = %3[i0 - 64*i2, i1]; yield v0 } : f32[100, 3]
        ");
    }

    #[test]
    fn others_stay() {
        // Several new points at a place, a body that depends on the place, a product, and a short
        // axis.
        for text in [
            "contract sum [n] (n: 0..90, k: 0..90) where n - k + 1 >= 0 { v0 = %0[k]; yield v0 } : f32[90]",
            "contract sum [n] (n: 0..90, k: 0..90) where n - k >= 0 { v0 = %0[k]; v1 = index n; v2 = cast v1 : f32; v3 = mul v0 v2; yield v3 } : f32[90]",
            "contract product [n] (n: 0..90, k: 0..90) where n - k >= 0 { v0 = %0[k]; yield v0 } : f32[90]",
            "contract sum [n] (n: 0..9, k: 0..9) where n - k >= 0 { v0 = %0[k]; yield v0 } : f32[9]",
        ] {
            let graph = format!("graph g(%0) -> (Y = %1)\n%0 = input X : f32[90]\n%1 = {text}\n");
            assert_eq!(after(&[running], &graph).trim(), graph.trim());
        }
    }
}
