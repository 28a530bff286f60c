//! Contractions that read parts of tensors.
//!
//! A point of a contraction is valid if all that it reads is in bounds. So the points that read a
//! part are those of the same contraction of the part: each point reads one part, and the results
//! of the parts are combined. The ranges of the index variables shrink to what can be in bounds, so
//! that the contractions of all parts have about as many points as that of the whole.

use crate::affine::{Affine, Ranges, ranges};
use crate::dtype::{DType, Scalar};
use crate::graph::{Access, Aggregation, Contraction, ContractionLeaf, IndexRange, NodeId, Op};
use crate::scalar::{BinaryOp, Inst, Program};
use crate::tensor::TensorType;

use super::{Partition, constant};

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
                let is_narrow = narrow.dtype.is_half();
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

    /// Returns the expressions that are at least 0 at a valid point, as far as they are known
    /// before the program runs.
    fn conditions(&self, points: &Points) -> Option<Vec<Affine>> {
        let Points { op, operands, ty, .. } = points;
        let mut conditions = op.constraints.clone();
        let mut within = |coordinate: &Affine, extent: usize| {
            let last = Affine::constant(i64::try_from(extent).ok()?.checked_sub(1)?);
            conditions.extend([coordinate.clone(), last.sub(coordinate)?]);
            Some(())
        };
        for (place, &extent) in op.output.iter().zip(&ty.shape) {
            within(place, extent)?;
        }
        for Access { operand, index } in &op.accesses {
            let shape = match operands[*operand] {
                Operand::Whole(new) => self.new.shape(new),
                Operand::Parts(old) => self.old.shape(old),
            };
            for (index, &extent) in index.iter().zip(shape) {
                if index.access.is_none() {
                    within(&index.affine, extent)?;
                }
            }
        }
        Some(conditions)
    }

    /// Shrinks the ranges of the variables to values that valid points can have, and moves them to
    /// 0. Returns whether there can be valid points.
    pub(super) fn shrink(&self, points: &mut Points) -> Option<bool> {
        let mut conditions = self.conditions(points)?;
        let op = &mut points.op;
        for (variable, range) in op.indices.iter().enumerate() {
            let variable = Affine::var(variable);
            conditions.push(variable.sub(&Affine::constant(range.low))?);
            conditions.push(Affine::constant(range.high - 1).sub(&variable)?);
        }
        let bounds = match ranges(op.indices.len(), &conditions)? {
            Ranges::Bounded(bounds) => bounds,
            Ranges::Empty => return Some(false),
            Ranges::Unbounded { .. } => return None,
        };
        // The position of an element counts all values of the variables that are no place's, and
        // ranks count from 0.
        let is_arg = matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        let (rank, output) = (op.rank, op.output.clone());
        let stays = |variable: usize| {
            let is_of_place = || output.iter().any(|place| place.coefficient(variable) != 0);
            is_arg && (rank == Some(variable) || !is_of_place())
        };
        let mut moved = Vec::with_capacity(bounds.len());
        for (variable, (range, (low, high))) in op.indices.iter_mut().zip(bounds).enumerate() {
            if !stays(variable) {
                (range.low, range.high) = (low, high + 1);
            }
            moved.push(Affine::var(variable).add(&Affine::constant(range.low))?);
            (range.low, range.high) = (0, range.high - range.low);
        }
        move_to(op, &moved)?;
        Some(true)
    }

    /// Returns whether every point is valid.
    fn is_total(&self, points: &Points) -> bool {
        let Points { op, .. } = points;
        let ranges = IndexRange::bounds(&op.indices);
        let holds = |form: &Affine| form.bounds(&ranges).is_some_and(|(low, _)| low >= 0);
        op.body.results.len() == 1
            && op.accesses.iter().all(Access::is_fixed)
            && self.conditions(points).is_some_and(|conditions| conditions.iter().all(holds))
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

/// Returns the places that points can write.
fn places(points: &Points) -> Option<Places> {
    let ranges = IndexRange::bounds(&points.op.indices);
    let clipped = |(place, &extent): (&Affine, &usize)| {
        let (low, high) = place.bounds(&ranges)?;
        Some((low.max(0), high.min(i64::try_from(extent).ok()? - 1)))
    };
    points.op.output.iter().zip(&points.ty.shape).map(clipped).collect()
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
