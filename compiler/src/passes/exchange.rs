//! Exchanges nested sums of products, if the exchanged inner sum is computed anyway.
//!
//! Example: the gradient of an attention has `D[t] = +(P[t, s] * dP[t, s])` with
//! `dP[t, s] = +(dY[t, e] * V[s, e])`. With the sum over s inside, that is
//! `D[t] = +(dY[t, e] * Y[t, e])`, where `Y[t, e] = +(P[t, s] * V[s, e])` has been computed by the
//! attention. This takes T·E terms instead of T·S, and reads no score (Dao et al.,
//! "FlashAttention", 2022, section 3.1 and appendix B).
//!
//! Why it is sound: both are sums of the same finite products, so only rounding differs.

use crate::affine::Affine;
use crate::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Graph, IndexRange, NodeId, NodeMap, Op,
};
use crate::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};

/// Products of more operands are left alone.
const MOST_FACTORS: usize = 16;
/// The units of work that comparing two products takes.
const COMPARE_UNITS: u64 = 4;

/// Runs the pass; see the module's documentation.
pub fn exchange(graph: &mut Graph) {
    let mut sums: NodeMap<FactorProduct> = NodeMap::new();
    let mut readers: NodeMap<Vec<NodeId>> = NodeMap::new();
    let order = graph.topological();
    for &id in &order {
        let Some(product) = FactorProduct::of(graph, id) else { continue };
        for factor in &product.factors {
            readers.slot(factor.node).get_or_insert_default().push(id);
        }
        sums.insert(id, product);
    }
    for id in order {
        let Some(product) = sums.get(id) else { continue };
        // Find sums that read an operand of an inner product: one of them may be the exchanged
        // inner sum.
        let inner = product.factors.iter().filter(|factor| !factor.divides);
        let wholes = inner.filter_map(|factor| product.with(factor, sums.get(factor.node)?));
        let found = wholes.into_iter().find_map(|whole| {
            let others = whole
                .product
                .factors
                .iter()
                .flat_map(|factor| readers.get(factor.node).into_iter().flatten());
            // Many products may read one operand: comparing all with all is quadratic.
            let others = others.filter(|&&other| other != id);
            let mut affordable = others.take_while(|_| graph.budget.spend(COMPARE_UNITS).is_ok());
            affordable.find_map(|other| whole.by(*other, &sums[*other], graph))
        });
        if let Some(other) = found {
            let node = other.contraction(graph, id);
            graph.node_mut(node).origin = graph.node(id).origin.clone();
            graph.node_mut(node).name = graph.node(id).name.clone();
            graph.stand_in(id, node);
        }
    }
}

/// An element of a node. The index has a variable for each axis, or `None` for an axis of size 1.
#[derive(Clone, PartialEq)]
struct Factor {
    node: NodeId,
    index: Vec<Option<usize>>,
    /// The product is divided by this element.
    divides: bool,
}

impl Factor {
    fn depends_on(&self, variables: &[usize]) -> bool {
        self.index.iter().flatten().any(|v| variables.contains(v))
    }
}

/// `node[places] = +(product of factors)`, summed over the variables `sums`. All variables start at
/// 0.
#[derive(Clone)]
struct FactorProduct {
    extents: Vec<usize>,
    places: Vec<Option<usize>>,
    sums: Vec<usize>,
    factors: Vec<Factor>,
    is_negative: bool,
}

impl FactorProduct {
    fn of(graph: &Graph, id: NodeId) -> Option<FactorProduct> {
        let Op::Contraction(op) = &graph.node(id).op else { return None };
        let is_plain = op.constraints.is_empty() && !op.default && op.body.results.len() == 1;
        if op.aggregation != Aggregation::Sum || !is_plain || !graph.dtype(id).is_float() {
            return None;
        }
        let extents: Vec<usize> =
            op.indices.iter().map(|range| usize::try_from(range.high).unwrap_or(0)).collect();
        // Each variable must run over a whole axis wherever it indexes one.
        let variables = |index: &mut dyn Iterator<Item = &Affine>, shape: &[usize]| {
            let variable = |(affine, &size): (&Affine, &usize)| match affine.as_variable() {
                _ if size == 1 => Some(None),
                Some(v) if extents[v] == size => Some(Some(v)),
                _ => None,
            };
            index.zip(shape).map(variable).collect::<Option<Vec<Option<usize>>>>()
        };
        let places = variables(&mut op.output.iter(), graph.shape(id))?;
        let sums = (0..extents.len())
            .filter(|v| extents[*v] != 1 && !places.contains(&Some(*v)))
            .collect();
        let is_unlike =
            (0..places.len()).all(|at| places[at].is_none() || !places[..at].contains(&places[at]));
        if op.indices.iter().any(|range| range.low != 0) || !is_unlike {
            return None;
        }
        let operands = graph.operands(id);
        let mut product = FactorProduct {
            extents: extents.clone(),
            places,
            sums,
            factors: Vec::new(),
            is_negative: false,
        };
        let mut pending = vec![(op.body.results[0], false)];
        while let Some((value, divides)) = pending.pop() {
            match op.body.insts[value].0 {
                Inst::Binary(BinaryOp::Mul, a, b) => pending.extend([(a, divides), (b, divides)]),
                Inst::Binary(BinaryOp::Div, a, b) => pending.extend([(a, divides), (b, !divides)]),
                Inst::Unary(UnaryOp::Neg, a) => {
                    product.is_negative ^= true;
                    pending.push((a, divides));
                }
                Inst::Leaf(ContractionLeaf::Access(number)) => {
                    let access = &op.accesses[number];
                    let node = operands[access.operand];
                    let mut index = access.index.iter().map(|index| &index.affine);
                    let index =
                        variables(&mut index, graph.shape(node)).filter(|_| access.is_fixed())?;
                    product.take(graph, Factor { node, index, divides })?;
                }
                _ => return None,
            }
        }
        Some(product)
    }

    /// Adds a factor. A factor that is itself an elementwise product is split into its own factors.
    fn take(&mut self, graph: &Graph, factor: Factor) -> Option<()> {
        let mut pending = vec![factor];
        while let Some(factor) = pending.pop() {
            let operands = graph.operands(factor.node);
            let part = |operand: NodeId, divides: bool| {
                let shape = graph.shape(operand);
                let index = &factor.index[factor.index.len() - shape.len()..];
                let index =
                    index.iter().zip(shape).map(|(v, &size)| v.filter(|_| size != 1)).collect();
                Factor { node: operand, index, divides }
            };
            match graph.node(factor.node).op {
                Op::Binary(BinaryOp::Mul) => {
                    pending.extend(operands.iter().map(|&operand| part(operand, factor.divides)));
                }
                Op::Binary(BinaryOp::Div) => {
                    pending.extend([
                        part(operands[0], factor.divides),
                        part(operands[1], !factor.divides),
                    ]);
                }
                Op::Unary(UnaryOp::Neg) => {
                    self.is_negative ^= true;
                    pending.push(part(operands[0], factor.divides));
                }
                _ => self.factors.push(factor),
            }
            if pending.len() + self.factors.len() > MOST_FACTORS {
                return None;
            }
        }
        Some(())
    }

    /// Returns the product with one factor replaced by the sum that computes it.
    fn with(&self, factor: &Factor, inner: &FactorProduct) -> Option<Whole> {
        let mut whole = self.clone();
        let mut now: Vec<Option<usize>> = vec![None; inner.extents.len()];
        inner.places.iter().zip(&factor.index).for_each(|(v, place)| {
            if let Some(v) = v {
                now[*v] = *place;
            }
        });
        let mut inner_sums = Vec::new();
        for &v in &inner.sums {
            now[v] = Some(whole.extents.len());
            inner_sums.push(whole.extents.len());
            whole.extents.push(inner.extents[v]);
        }
        whole.factors.remove(self.factors.iter().position(|other| other == factor)?);
        whole.factors.extend(inner.factors.iter().map(|factor| {
            let index = factor.index.iter().map(|v| v.and_then(|v| now[v])).collect();
            Factor { index, ..factor.clone() }
        }));
        whole.is_negative ^= inner.is_negative;
        Some(Whole { product: whole, inner_sums })
    }
}

/// A nested sum: over the product's own variables, and over the inner sum's.
struct Whole {
    product: FactorProduct,
    inner_sums: Vec<usize>,
}

impl Whole {
    /// Returns an equal sum over the inner variables alone, of a product with `node`. This requires
    /// that `node` is the sum of some of the factors over the outer variables, that the other
    /// factors do not depend on the outer variables, and that the outer sum has more terms than the
    /// inner one.
    fn by(&self, node: NodeId, other: &FactorProduct, graph: &Graph) -> Option<FactorProduct> {
        let Whole { product, inner_sums } = self;
        let points = |sums: &[usize]| sums.iter().map(|&v| product.extents[v]).product::<usize>();
        if other.sums.len() != product.sums.len() || points(&product.sums) <= points(inner_sums) {
            return None;
        }
        let mut now: Vec<Option<usize>> = vec![None; other.extents.len()];
        let mut rest = product.factors.clone();
        for factor in &other.factors {
            let fits = |mine: &Factor, now: &[Option<usize>]| {
                let is_same = (mine.node, mine.divides) == (factor.node, factor.divides);
                let mut now = now.to_vec();
                let mut pairs = mine.index.iter().zip(&factor.index);
                let agree = pairs.all(|(mine, theirs)| match (mine, theirs) {
                    (Some(mine), Some(theirs)) => *now[*theirs].get_or_insert(*mine) == *mine,
                    (mine, theirs) => mine.is_none() && theirs.is_none(),
                });
                (is_same && agree).then_some(now)
            };
            let (at, more) =
                rest.iter().enumerate().find_map(|(at, mine)| Some((at, fits(mine, &now)?)))?;
            now = more;
            rest.remove(at);
        }
        let of = |v: &Option<usize>| v.map_or(Some(None), |v| now[v].map(Some));
        let index = other.places.iter().map(of).collect::<Option<Vec<Option<usize>>>>()?;
        let sums = other.sums.iter().map(|&v| now[v]).collect::<Option<Vec<usize>>>()?;
        let is_exchanged = product.sums.iter().all(|v| sums.contains(v))
            && !rest.iter().any(|factor| factor.depends_on(&product.sums))
            && inner_sums.iter().all(|v| index.contains(&Some(*v)));
        if !is_exchanged || graph.dtype(node) != graph.dtype(rest.first()?.node) {
            return None;
        }
        rest.push(Factor { node, index, divides: false });
        let is_negative = product.is_negative ^ other.is_negative;
        Some(FactorProduct {
            sums: inner_sums.clone(),
            factors: rest,
            is_negative,
            ..product.clone()
        })
    }
}

impl FactorProduct {
    /// Adds the contraction that computes the product, to replace the node `id`.
    fn contraction(&self, graph: &mut Graph, id: NodeId) -> NodeId {
        let dtype = graph.dtype(id);
        let used: Vec<usize> = self.places.iter().flatten().chain(&self.sums).copied().collect();
        let affine = |v: &Option<usize>| {
            let number = v.and_then(|v| used.iter().position(|other| *other == v));
            number.map_or(Affine::constant(0), Affine::var)
        };
        let mut operands: Vec<NodeId> = Vec::new();
        let mut accesses = Vec::new();
        let mut body = Program::default();
        let mut result: Option<Value> = None;
        // Factors that multiply come before those that divide.
        let (above, below): (Vec<&Factor>, Vec<&Factor>) =
            self.factors.iter().partition(|factor| !factor.divides);
        for factor in above.into_iter().chain(below) {
            let operand =
                operands.iter().position(|&node| node == factor.node).unwrap_or(operands.len());
            if operand == operands.len() {
                operands.push(factor.node);
            }
            let leaf = body.push(Inst::Leaf(ContractionLeaf::Access(accesses.len())), dtype);
            accesses.push(Access::fixed(operand, factor.index.iter().map(affine).collect()));
            let op = if factor.divides { BinaryOp::Div } else { BinaryOp::Mul };
            result = Some(result.map_or(leaf, |product| body.binary(op, product, leaf)));
        }
        // There is at least one factor: the sum that was found.
        let mut result = result.unwrap_or_default();
        if self.is_negative {
            result = body.unary(UnaryOp::Neg, result);
        }
        body.results = vec![result];
        let extents: Vec<usize> = used.iter().map(|&v| self.extents[v]).collect();
        let op = Contraction {
            aggregation: Aggregation::Sum,
            rank: None,
            indices: IndexRange::all(&extents),
            output: self.places.iter().map(affine).collect(),
            accesses,
            constraints: Vec::new(),
            body,
            default: false,
        };
        graph.add(Op::Contraction(Box::new(op)), graph.node(id).ty.clone(), &operands)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::after;
    use super::super::{dead, exchange};

    #[test]
    fn sums_in_the_gradient_of_attention() {
        insta::assert_snapshot!(after(&[exchange, dead], "\
graph g(%0, %1, %2, %3) -> (Y = %6, D = %10)
%0 = input E : f32[2, 9]
%1 = input S : f32[2, 1]
%2 = input V : f32[9, 3]
%3 = input G : f32[2, 3]
%4 = div %0 %1 : f32[2, 9]
%5 = contract sum [t, s] (t: 0..2, s: 0..9, e: 0..3) { v0 = %3[t, e]; v1 = %2[s, e]; v2 = mul v0 v1; yield v2 } : f32[2, 9]
%6 = contract sum [t, e] (t: 0..2, e: 0..3, s: 0..9) { v0 = %4[t, s]; v1 = %2[s, e]; v2 = mul v0 v1; yield v2 } : f32[2, 3]
%7 = div %5 %1 : f32[2, 9]
%8 = neg %7 : f32[2, 9]
%9 = mul %8 %4 : f32[2, 9]
%10 = contract sum [t, 0] (t: 0..2, s: 0..9) { v0 = %9[t, s]; yield v0 } : f32[2, 1]  # D
"), @"
        graph g(%0, %1, %2, %3) -> (Y = %5, D = %6)
        %0 = input E : f32[2, 9]
        %1 = input S : f32[2, 1]
        %2 = input V : f32[9, 3]
        %3 = input G : f32[2, 3]
        %4 = div %0 %1 : f32[2, 9]
        %5 = contract sum [t, e] (t: 0..2, e: 0..3, s: 0..9) { v0 = %4[t, s]; v1 = %2[s, e]; v2 = mul v0 v1; yield v2 } : f32[2, 3]
        %6 = contract sum [i0, 0] (i0: 0..2, i1: 0..3) { v0 = %3[i0, i1]; v1 = %5[i0, i1]; v2 = mul v0 v1; v3 = %1[i0, 0]; v4 = div v2 v3; v5 = neg v4; yield v5 } : f32[2, 1]  # D
        ");
    }

    /// The outer sum has fewer terms: there is nothing to gain.
    #[test]
    fn few_points() {
        let text = "\
graph g(%0, %1, %2) -> (Y = %4, D = %6)
%0 = input P : f32[2, 3]
%1 = input V : f32[3, 9]
%2 = input G : f32[2, 9]
%3 = contract sum [t, s] (t: 0..2, s: 0..3, e: 0..9) { v0 = %2[t, e]; v1 = %1[s, e]; v2 = mul v0 v1; yield v2 } : f32[2, 3]
%4 = contract sum [t, e] (t: 0..2, e: 0..9, s: 0..3) { v0 = %0[t, s]; v1 = %1[s, e]; v2 = mul v0 v1; yield v2 } : f32[2, 9]
%5 = mul %0 %3 : f32[2, 3]
%6 = contract sum [t] (t: 0..2, s: 0..3) { v0 = %5[t, s]; yield v0 } : f32[2]
";
        assert_eq!(after(&[exchange, dead], text), text);
    }
}
