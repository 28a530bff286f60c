//! Contractions that read parts of tensors.
//!
//! A point of a contraction is valid if all that it reads is in bounds. So the points that read a
//! part are those of the same contraction of the part: each point reads one part, and the results
//! of the parts are combined. The ranges of the index variables shrink to what can be in bounds, so
//! that the contractions of all parts have about as many points as that of the whole.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, ContractionLeaf, IndexRange, NodeId, Op};
use crate::scalar::{BinaryOp, Inst, Program};
use crate::tensor::TensorType;

use super::{Partition, constant};

/// How often each range is shrunk: variables that occur together bound each other.
const ROUNDS: usize = 8;

/// A tensor that a contraction reads.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Operand {
    /// A new node.
    Whole(NodeId),
    /// An old node, which has parts.
    Parts(NodeId),
}

/// A contraction whose operands may have parts.
#[derive(Clone)]
pub(super) struct Points {
    pub op: Contraction,
    /// The tensors that it reads, and more, without the default.
    pub operands: Vec<Operand>,
    /// The new node with the values of places without points.
    pub default: Option<NodeId>,
    /// The type of the result.
    pub ty: TensorType,
}

/// The least and greatest place along each axis that points can write.
type Places = Vec<(i64, i64)>;

impl Partition<'_> {
    /// Adds a contraction: `None` if its results for parts cannot be combined.
    pub(super) fn add_points(&mut self, points: Points) -> Option<NodeId> {
        self.old.budget.spend(20 + points.op.body.insts.len() as u64).ok()?;
        let read = points.op.accesses.iter().map(|access| points.operands[access.operand]);
        let mut of_parts = read.enumerate().filter_map(|(number, operand)| match operand {
            Operand::Parts(old) => Some((number, old)),
            Operand::Whole(_) => None,
        });
        let Some((number, old)) = of_parts.next() else { return self.add_whole(points) };
        let cuts = self.cuts[old].clone();
        let mut pieces = Vec::new();
        for (part, &new) in self.parts[old].iter().enumerate() {
            let mut piece = points.clone();
            let access = &mut piece.op.accesses[number];
            access.operand = piece.operands.len();
            piece.operands.push(Operand::Whole(new));
            let index = &mut access.index[cuts.axis].affine;
            *index = index.sub(&constant(cuts.range(part).0)?)?;
            if self.shrink(&mut piece)? {
                pieces.push(piece);
            }
        }
        match pieces.len() {
            0 => Some(self.without_points(&points)),
            1 => self.add_points(pieces.pop()?),
            _ => self.add_pieces(pieces),
        }
    }

    /// Adds a contraction whose points are those of `pieces`.
    fn add_pieces(&mut self, mut pieces: Vec<Points>) -> Option<NodeId> {
        let places: Vec<Places> = pieces.iter().map(places).collect::<Option<_>>()?;
        let differ = |axis: &usize| places.iter().any(|other| other[*axis] != places[0][*axis]);
        let axes: Vec<usize> = (0..places[0].len()).filter(differ).collect();
        let Points { op: Contraction { aggregation, .. }, default, .. } = pieces[0];
        if let (&[axis], None) = (&axes[..], default) {
            let mut along: Vec<((i64, i64), Points)> =
                places.iter().map(|places| places[axis]).zip(pieces.iter().cloned()).collect();
            along.sort_by_key(|(range, _)| *range);
            if along.windows(2).all(|pair| pair[0].0.1 < pair[1].0.0) {
                return self.add_side_by_side(along, axis);
            }
        }
        match (aggregation, aggregation.operation()) {
            // At most one point writes a place, and the others leave what is there.
            (Aggregation::Assign, _) => {
                let mut result = default;
                for piece in pieces {
                    result = Some(self.add_points(Points { default: result, ..piece })?);
                }
                result
            }
            (_, Some(operation)) if default.is_none() => {
                // A place without points is 0, which is the identity of sums alone.
                let can_combine = aggregation == Aggregation::Sum
                    || axes.is_empty() && pieces.iter().all(|piece| self.is_total(piece));
                if !can_combine {
                    return None;
                }
                // Sums of 16-bit floats are rounded once.
                let narrow = pieces[0].ty.clone();
                let is_narrow = matches!(narrow.dtype, DType::F16 | DType::BF16);
                if is_narrow && matches!(operation, BinaryOp::Add | BinaryOp::Mul) {
                    pieces.iter_mut().for_each(widen);
                }
                let ty = pieces[0].ty.clone();
                let mut result = None;
                for piece in pieces {
                    let next = self.add_points(piece)?;
                    result = Some(result.map_or(next, |sum| {
                        self.new.add(Op::Binary(operation), ty.clone(), &[sum, next])
                    }));
                }
                if ty == narrow {
                    return result;
                }
                Some(self.new.add(Op::Cast, narrow, &[result?]))
            }
            _ => None,
        }
    }

    /// Adds results that lie side by side along an axis, each with the places there.
    fn add_side_by_side(
        &mut self,
        along: Vec<((i64, i64), Points)>,
        axis: usize,
    ) -> Option<NodeId> {
        let mut result = None;
        for ((low, high), mut piece) in along {
            let ty = piece.ty.clone();
            piece.ty.shape[axis] = usize::try_from(high - low + 1).ok()?;
            piece.op.output[axis] = piece.op.output[axis].sub(&Affine::constant(low))?;
            let (shape, dtype) = (piece.ty.shape.clone(), ty.dtype);
            let part = self.add_points(piece)?;
            let mut copy = Contraction::copy(dtype, &shape);
            copy.output[axis] = copy.output[axis].add(&Affine::constant(low))?;
            copy.default = result.is_some();
            let operands: Vec<NodeId> = [part].into_iter().chain(result).collect();
            result = Some(self.new.add(Op::Contraction(Box::new(copy)), ty, &operands));
        }
        result
    }

    /// Adds a contraction of whole tensors: `None` if no kernel can bind these and the result.
    fn add_whole(&mut self, points: Points) -> Option<NodeId> {
        let Points { mut op, operands, default, ty } = points;
        let mut read = Vec::new();
        for access in &mut op.accesses {
            let Operand::Whole(new) = operands[access.operand] else { continue };
            let known = read.iter().position(|&other| other == new);
            access.operand = known.unwrap_or(read.len());
            if known.is_none() {
                read.push(new);
            }
        }
        op.default = default.is_some();
        read.extend(default);
        let fits = read.len() < self.most_buffers;
        fits.then(|| self.new.add(Op::Contraction(Box::new(op)), ty, &read))
    }

    /// Returns the result of a contraction without valid points.
    pub(super) fn without_points(&mut self, points: &Points) -> NodeId {
        let Points { default, ty, .. } = points;
        if let Some(default) = default {
            return *default;
        }
        let mut op = Contraction::copy(ty.dtype, &ty.shape);
        let mut body = Program::default();
        body.results = vec![body.constant(Scalar::zero(ty.dtype))];
        (op.accesses, op.body) = (Vec::new(), body);
        self.new.add(Op::Contraction(Box::new(op)), ty.clone(), &[])
    }

    /// Returns the expressions that must lie between 0 and a greatest value at a valid point.
    fn bounded(&self, points: &Points) -> Option<Vec<(Affine, i64)>> {
        let last = |extent: usize| i64::try_from(extent).ok()?.checked_sub(1);
        let Points { op, operands, ty, .. } = points;
        let mut bounded = Vec::new();
        for (place, &extent) in op.output.iter().zip(&ty.shape) {
            bounded.push((place.clone(), last(extent)?));
        }
        for Access { operand, index } in &op.accesses {
            let shape = match operands[*operand] {
                Operand::Whole(new) => self.new.shape(new),
                Operand::Parts(old) => self.old.shape(old),
            };
            for (index, &extent) in index.iter().zip(shape) {
                if index.access.is_none() {
                    bounded.push((index.affine.clone(), last(extent)?));
                }
            }
        }
        bounded.extend(op.constraints.iter().map(|constraint| (constraint.clone(), i64::MAX)));
        Some(bounded)
    }

    /// Shrinks the ranges of the variables to values that valid points can have, and moves them to
    /// 0. Returns whether there can be valid points.
    pub(super) fn shrink(&self, points: &mut Points) -> Option<bool> {
        let bounded = self.bounded(points)?;
        let op = &mut points.op;
        if op.indices.iter().any(|range| range.low >= range.high) {
            return Some(false);
        }
        let mut ranges: Vec<(i64, i64)> =
            op.indices.iter().map(|range| (range.low, range.high - 1)).collect();
        // The position of an element counts all values of the variables that are no place's, and
        // ranks count from 0.
        let is_arg = matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        let (rank, output) = (op.rank, op.output.clone());
        let stays = |variable: usize| {
            let is_of_place = || output.iter().any(|place| place.coefficient(variable) != 0);
            is_arg && (rank == Some(variable) || !is_of_place())
        };
        for _ in 0..ROUNDS {
            let before = ranges.clone();
            for (form, most) in &bounded {
                let (low, high) = form.bounds(&ranges)?;
                if high < 0 || low > *most {
                    return Some(false);
                }
            }
            for (form, most) in &bounded {
                for &(variable, coefficient) in form.terms() {
                    if !stays(variable) {
                        shrink_one(form, *most, variable, coefficient, &mut ranges)?;
                    }
                    if ranges[variable].0 > ranges[variable].1 {
                        return Some(false);
                    }
                }
            }
            if ranges == before {
                break;
            }
        }
        for (range, (low, high)) in op.indices.iter_mut().zip(&ranges) {
            (range.low, range.high) = (0, high - low + 1);
        }
        let moved: Vec<Affine> = ranges
            .iter()
            .enumerate()
            .map(|(variable, (low, _))| Affine::var(variable).add(&Affine::constant(*low)))
            .collect::<Option<_>>()?;
        move_to(op, &moved)?;
        Some(true)
    }

    /// Returns whether every point is valid.
    fn is_total(&self, points: &Points) -> bool {
        let Points { op, .. } = points;
        let ranges = inclusive(&op.indices);
        let is_within = |(form, most): &(Affine, i64)| {
            form.bounds(&ranges).is_some_and(|(low, high)| low >= 0 && high <= *most)
        };
        op.body.results.len() == 1
            && op.accesses.iter().all(Access::is_fixed)
            && self.bounded(points).is_some_and(|bounded| bounded.iter().all(is_within))
    }
}

/// Makes the terms and the result f32: factors of a product before it is rounded.
fn widen(points: &mut Points) {
    points.ty.dtype = DType::F32;
    let body = &mut points.op.body;
    let term = body.results[0];
    body.results[0] = match body.insts[term].0 {
        Inst::Binary(BinaryOp::Mul, a, b) => {
            let (a, b) = (body.cast(a, DType::F32), body.cast(b, DType::F32));
            body.binary(BinaryOp::Mul, a, b)
        }
        _ => body.cast(term, DType::F32),
    };
}

fn inclusive(indices: &[IndexRange]) -> Vec<(i64, i64)> {
    indices.iter().map(|range| (range.low, range.high - 1)).collect()
}

/// Returns the places that points can write.
fn places(points: &Points) -> Option<Places> {
    let ranges = inclusive(&points.op.indices);
    let clipped = |(place, &extent): (&Affine, &usize)| {
        let (low, high) = place.bounds(&ranges)?;
        Some((low.max(0), high.min(i64::try_from(extent).ok()? - 1)))
    };
    points.op.output.iter().zip(&points.ty.shape).map(clipped).collect()
}

/// Shrinks the range of a variable to values for which `form`, where it has this coefficient, can
/// be at least 0 and at most `most`.
fn shrink_one(
    form: &Affine,
    most: i64,
    variable: usize,
    coefficient: i64,
    ranges: &mut [(i64, i64)],
) -> Option<()> {
    let (low, high) = ranges[variable];
    let (a, b) = (coefficient.checked_mul(low)?, coefficient.checked_mul(high)?);
    let (least, greatest) = form.bounds(ranges)?;
    let (least, greatest) = (least.checked_sub(a.min(b))?, greatest.checked_sub(a.max(b))?);
    // -greatest <= coefficient * variable <= most - least
    let (from, to) = (greatest.checked_neg()?, most.saturating_sub(least));
    let (from, to) =
        if coefficient > 0 { (from, to) } else { (to.checked_neg()?, from.checked_neg()?) };
    let step = coefficient.checked_abs()?;
    let first = from.checked_neg()?.div_euclid(step).checked_neg()?;
    ranges[variable] = (low.max(first), high.min(to.div_euclid(step)));
    Some(())
}

/// Replaces every variable `v` by `moved[v]`.
fn move_to(op: &mut Contraction, moved: &[Affine]) -> Option<()> {
    let index = op.accesses.iter_mut().flat_map(|access| &mut access.index);
    let forms = index.map(|index| &mut index.affine);
    for form in op.output.iter_mut().chain(forms).chain(&mut op.constraints) {
        *form = form.substitute_all(moved)?;
    }
    for (inst, _) in &mut op.body.insts {
        if let Inst::Leaf(ContractionLeaf::Index(form)) = inst {
            *form = form.substitute_all(moved)?;
        }
    }
    Some(())
}
