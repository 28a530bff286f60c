//! The gradient of a contraction: for each access, a contraction over the same points that reads
//! the place that was written, and writes the one that was read.
//!
//! Example: for `O[o(x)] = +(… A[f(x)] …)` the gradient is `dA[f(x)] = +(dO[o(x)] * d(…)/dA)`. A
//! nest determines for both which points fall on a place ([`crate::nest`]). So the gradients of a
//! convolution are convolutions, whatever its strides, and masks are made only where needed. In a
//! product or a maximum, `dO` is first multiplied by each point's share ([`super::aggregation`]).
//!
//! Why it is sound: by the chain rule, each access at each point contributes `dO[o(x)] * d(…)/dA`
//! to the element that it reads, and the new contraction sums exactly these contributions, over the
//! points that count.

use super::aggregation::Share;
use super::gather::gathered;
use super::prune::prune;
use super::rules::Algebra;
use super::tensors::Tensors;
use super::{Error, aggregation, body};
use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{
    Access, Aggregation, Contraction, ContractionLeaf, Graph, Index, IndexRange, NodeId, Op, equals,
};
use crate::scalar::{BinaryOp, Inst, Program};

/// Returns the contributions to the gradients of the wanted operands, with the operands' positions.
/// `g` is the gradient of the node.
pub(super) fn gradient(
    graph: &mut Graph,
    id: NodeId,
    op: &Contraction,
    g: NodeId,
    wanted: &[bool],
) -> Result<Vec<(usize, NodeId)>, Error> {
    let points = Points { id, op, operands: graph.operands(id).to_vec() };
    points
        .gradients(graph, g, wanted)
        .ok_or_else(|| Error::TooLarge { value: graph.value_name(id) })
}

/// A contraction to differentiate.
pub(super) struct Points<'a> {
    pub id: NodeId,
    pub op: &'a Contraction,
    pub operands: Vec<NodeId>,
}

impl Points<'_> {
    /// Returns the accessed tensors.
    pub fn tensors(&self) -> &[NodeId] {
        &self.operands[..self.operands.len() - usize::from(self.op.default)]
    }

    /// Returns the contributions to the gradients of the wanted operands, or `None` on overflow.
    fn gradients(
        &self,
        graph: &mut Graph,
        g: NodeId,
        wanted: &[bool],
    ) -> Option<Vec<(usize, NodeId)>> {
        let mut found = Vec::new();
        let tensors = self.tensors().len();
        if wanted[tensors..].contains(&true) {
            found.push((tensors, self.default(graph, g)?));
        }
        let accessed: Vec<bool> =
            self.op.accesses.iter().map(|access| wanted[access.operand]).collect();
        if !accessed.contains(&true) {
            return Some(found);
        }
        let share = aggregation::share(graph, self, g)?;
        let g = if let Share::Ties(shared) = share { shared } else { g };

        // The gradient is the first access.
        let mut op =
            Contraction { aggregation: Aggregation::Sum, default: false, ..self.op.clone() };
        let mut operands = self.tensors().to_vec();
        let mut program = Program::default();
        let place = &self.op.output;
        let mut read = |tensor: NodeId, index: &[Affine]| {
            // The access stays even if its value is known: it requires that the place is in range.
            let access = read(&mut op, &mut operands, tensor, index);
            match uniform(graph, tensor) {
                Some(scalar) => program.constant(scalar),
                None => {
                    program.push(Inst::Leaf(ContractionLeaf::Access(access)), graph.dtype(tensor))
                }
            }
        };
        let of_place = read(g, place);
        let share_read = match &share {
            Share::All => None,
            Share::Others(others) => {
                let lows = self.op.indices.iter().map(|index| index.low);
                let from_0 =
                    lows.enumerate().map(|(v, low)| Affine::new([(v, 1)], low.checked_neg()?));
                Some(read(*others, &from_0.collect::<Option<Vec<_>>>()?))
            }
            Share::First { position, .. } => Some(read(*position, place)),
            Share::Ties(_) => Some(read(self.id, place)),
        };
        let results = program.append(&self.op.body, |program, leaf, dtype| {
            program.push(Inst::Leaf(leaf.clone()), dtype)
        });
        let (value, counts) = (results[0], results.get(1).copied());
        let seed = match (share_read, share) {
            (Some(others), Share::Others(_)) => program.product(of_place, others),
            (Some(position), Share::First { number, .. }) => {
                let here = program.push(Inst::Leaf(ContractionLeaf::Index(number)), DType::I32);
                let first = program.binary(BinaryOp::Eq, here, position);
                let zero = program.constant(Scalar::zero(program.dtype(of_place)));
                program.select(first, of_place, zero)
            }
            (Some(best), _) => {
                let among = program.binary(BinaryOp::Eq, value, best);
                let zero = program.constant(Scalar::zero(program.dtype(of_place)));
                program.select(among, of_place, zero)
            }
            (None, _) => of_place,
        };
        let derivatives = body::derivatives(&mut program, value, seed, &accessed);
        for (number, derivative) in derivatives.into_iter().enumerate() {
            let Some(derivative) = derivative else { continue };
            program.results = [Some(derivative), counts].into_iter().flatten().collect();
            op.body = program.clone();
            let operand = op.accesses[number].operand;
            found.push((operand, self.written(graph, op.clone(), &operands, number)?));
        }
        Some(found)
    }

    /// Returns `op` writing to the place that its access `number` reads.
    fn written(
        &self,
        graph: &mut Graph,
        mut op: Contraction,
        operands: &[NodeId],
        number: usize,
    ) -> Option<NodeId> {
        let access = op.accesses[number].clone();
        let ty = graph.node(operands[access.operand]).ty.clone();
        op.output.clear();
        for (index, &size) in access.index.iter().zip(&ty.shape) {
            let Some(read) = index.access else {
                op.output.push(index.affine.clone());
                continue;
            };
            // An index known at run time becomes a variable over the whole axis that must equal the
            // index.
            let place = Affine::var(op.indices.len());
            op.indices.push(IndexRange {
                name: unused_name(&op),
                low: 0,
                high: i64::try_from(size).ok()?,
            });
            let rest = place.sub(&index.affine)?;
            let dtype = graph.dtype(operands[op.accesses[read].operand]);
            if !dtype.is_signed_integer() {
                op.constraints.push(rest.clone());
            }
            let equal = equals(&mut op.body, read, dtype, &rest);
            match op.body.results.get(1).copied() {
                Some(counts) => {
                    op.body.results[1] = op.body.binary(BinaryOp::BitAnd, counts, equal)
                }
                None => op.body.results.push(equal),
            }
            op.output.push(place);
        }
        let (op, operands) = prune(graph, op, &ty.shape, operands, Some(number))?;
        let (op, operands) = gathered(graph, op, &ty.shape, operands)?;
        let mut tensors = Tensors::new(graph, self.id);
        Some(match plain(&op, &ty.shape) {
            Some(Inst::Const(scalar)) => tensors.filled(*scalar, &ty.shape),
            Some(Inst::Leaf(_)) if tensors.graph.node(operands[0]).ty == ty => operands[0],
            _ => tensors.add(Op::Contraction(Box::new(op)), ty, &operands),
        })
    }

    /// Returns the gradient of the default tensor: the gradient at the places to which nothing is
    /// written.
    fn default(&self, graph: &mut Graph, g: NodeId) -> Option<NodeId> {
        let ty = graph.node(g).ty.clone();
        let mut op = Contraction { aggregation: Aggregation::Sum, ..self.op.clone() };
        let zero = op.body.constant(Scalar::zero(ty.dtype));
        op.body.results[0] = zero;
        let (op, mut operands) = prune(graph, op, &ty.shape, self.tensors(), None)?;
        operands.push(g);
        Some(Tensors::new(graph, self.id).add(Op::Contraction(Box::new(op)), ty, &operands))
    }
}

/// Returns what each place of `shape` holds if exactly one point falls on each: a constant, or the
/// element of a tensor at the same place.
fn plain<'a>(op: &'a Contraction, shape: &[usize]) -> Option<&'a Inst<ContractionLeaf>> {
    let is_whole = |(affine, &size): (&Affine, &usize)| {
        let range = &op.indices[affine.as_variable()?];
        (range.low == 0 && i64::try_from(size) == Ok(range.high)).then(|| affine.as_variable())?
    };
    let mut variables =
        op.output.iter().zip(shape).map(is_whole).collect::<Option<Vec<usize>>>()?;
    variables.sort_unstable();
    if !variables.into_iter().eq(0..op.indices.len()) || !op.constraints.is_empty() || op.default {
        return None;
    }
    let [result] = op.body.results[..] else { return None };
    let here = |access: &Access| {
        access
            .index
            .iter()
            .map(|index| (&index.affine, index.access))
            .eq(op.output.iter().map(|o| (o, None)))
    };
    match (&op.body.insts[result].0, op.accesses.as_slice()) {
        (inst @ Inst::Const(_), []) => Some(inst),
        (inst @ Inst::Leaf(ContractionLeaf::Access(_)), [access]) if here(access) => Some(inst),
        _ => None,
    }
}

/// Returns the constant that a tensor has at every place, if this is obvious.
pub(super) fn uniform(graph: &Graph, node: NodeId) -> Option<Scalar> {
    match &graph.node(node).op {
        Op::Constant(scalar) => Some(*scalar),
        Op::Contraction(op) => match plain(op, graph.shape(node)) {
            Some(Inst::Const(scalar)) => Some(*scalar),
            _ => None,
        },
        _ => None,
    }
}

/// Adds an access to a tensor that `op` does not read yet. Returns its number.
pub(super) fn read(
    op: &mut Contraction,
    operands: &mut Vec<NodeId>,
    tensor: NodeId,
    index: &[Affine],
) -> usize {
    let index = index.iter().map(|affine| Index { affine: affine.clone(), access: None }).collect();
    op.accesses.push(Access { operand: operands.len(), index });
    operands.push(tensor);
    op.accesses.len() - 1
}

/// Returns an unused name for another index variable.
fn unused_name(op: &Contraction) -> String {
    let mut name = "place".to_owned();
    while op.indices.iter().any(|index| index.name == name) {
        name.push('_');
    }
    name
}
