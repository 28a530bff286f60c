//! The elements that a nest computes: each node's element at an index, as instructions.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::graph::{Aggregation, NodeId, Op};
use crate::scalar::{Inst, Program, Value};

use super::builder::{Builder, accumulator_type};
use super::{Leaf, NestError};

impl Builder<'_> {
    /// Returns the value of `id`'s element at `index`. The value matters only where all of `when`
    /// are at least 0.
    pub fn element(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        // The only index along an axis of size 1 is 0.
        let sizes = self.graph.shape(id).iter();
        let index = sizes
            .zip(index)
            .map(|(&size, i)| if size == 1 { Affine::constant(0) } else { i.clone() });
        let index = &index.collect::<Vec<Affine>>()[..];
        let key = (id, index.to_vec(), when.to_vec());
        if let Some(&value) = self.memo.get(&key) {
            return Ok(value);
        }
        // A new instruction is compared with all others.
        let counted = self.graph.budget.spend(3 + program.insts.len() as u64 / 16);
        counted.map_err(|_| NestError::Internal("the budget is exceeded"))?;
        let is_member = self.is_member(id);
        if is_member && !self.is_of_points(id) && !self.is_place(id, index) {
            return Err(NestError::Away { value: self.graph.value_name(id) });
        }
        let window = if is_member { None } else { (self.memory)(id) };
        let is_given = window.is_some();
        let value = if let Some(window) = window {
            let offset = window.position(index, self.first_loop).ok_or_else(|| self.overflow())?;
            self.load(program, id, &window, offset, when)
        } else if Some(id) == self.contraction {
            self.accumulated(program, id, index, when)?
        } else if self.inner.contains(&id) {
            self.inner_value(program, id, index, when)?
        } else if self.is_of_points(id) {
            self.statistic_of_points(program, id, index, when)?
        } else if self.statistics.contains(&id) {
            self.statistic(program, id)?
        } else {
            self.inlined(program, id, index, when)?
        };
        if !is_given
            && !matches!(self.graph.node(id).op, Op::Constant(_) | Op::Index { .. } | Op::Reshape)
        {
            self.computed.push(id);
        }
        self.memo.insert(key, value);
        Ok(value)
    }

    /// Returns the value of an inlined node's element.
    fn inlined(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let node = self.graph.node(id);
        let dtype = node.ty.dtype;
        let operands = self.graph.operands(id);
        Ok(match &node.op {
            Op::Constant(scalar) => program.constant(*scalar),
            Op::Index { axis } => {
                program.push(Inst::Leaf(Leaf::Index(index[*axis].clone())), DType::I32)
            }
            Op::Reshape if self.is_inlined(self.graph.storage(id)) => {
                let index = self.index_of(operands[0], &self.row_major(id, index)?)?;
                self.element(program, operands[0], &index, when)?
            }
            Op::Reshape => {
                let (storage, window) = self.stored(id)?;
                let row_major = self.row_major(id, index)?;
                let offset = self.position_of(&window, &row_major)?;
                self.load(program, storage, &window, offset, when)
            }
            Op::Unary(op) => {
                let a = self.operand(program, operands[0], index, when)?;
                program.push(Inst::Unary(*op, a), dtype)
            }
            Op::Binary(op) => {
                let a = self.operand(program, operands[0], index, when)?;
                let b = self.operand(program, operands[1], index, when)?;
                program.push(Inst::Binary(*op, a, b), dtype)
            }
            Op::Select => {
                let c = self.operand(program, operands[0], index, when)?;
                let a = self.operand(program, operands[1], index, when)?;
                let b = self.operand(program, operands[2], index, when)?;
                program.push(Inst::Select(c, a, b), dtype)
            }
            Op::Cast => {
                let a = self.operand(program, operands[0], index, when)?;
                program.cast(a, dtype)
            }
            Op::StopGradient => self.operand(program, operands[0], index, when)?,
            Op::Contraction(op) => self.view(program, id, op, index, when)?,
            Op::Input(_)
            | Op::Weight(_)
            | Op::Elements(_)
            | Op::PrngValue
            | Op::PrngState { .. }
            | Op::Scan(_)
            | Op::Result { .. } => {
                return Err(NestError::Internal("an operation that must be materialised is not"));
            }
        })
    }

    /// Returns an elementwise operand at the reader's index. Shapes are aligned at the last axis,
    /// and axes of size 1 are broadcast.
    fn operand(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let aligned = &index[index.len() - self.graph.shape(id).len()..];
        self.element(program, id, aligned, when)
    }

    /// Returns the value of a contraction at a place that no point writes.
    pub fn unwritten(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        let op = self.contraction_op(id)?;
        if op.default {
            let default = self.graph.operands(id).last().copied();
            let default = default.ok_or(NestError::Internal("a default without an operand"))?;
            self.element(program, default, index, when)
        } else {
            Ok(program.constant(Scalar::zero(self.graph.dtype(id))))
        }
    }

    /// Returns the group's own contraction at the nest's place, in the epilogue.
    fn accumulated(
        &mut self,
        program: &mut Program<Leaf>,
        id: NodeId,
        index: &[Affine],
        when: &[Affine],
    ) -> Result<Value, NestError> {
        if self.empty {
            return self.unwritten(program, id, index, when);
        }
        let op = self.contraction_op(id)?;
        let dtype = self.graph.dtype(id);
        let arg = matches!(op.aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        let carried = if arg { DType::I32 } else { accumulator_type(op.aggregation, dtype) };
        let value = program.push(Inst::Leaf(Leaf::Accumulator), carried);
        let value = program.cast(value, dtype);
        let zero_is_identity = arg || op.aggregation.identity(dtype) == Scalar::zero(dtype);
        if !self.guarded || (zero_is_identity && !op.default) {
            return Ok(value);
        }
        let written = program.push(Inst::Leaf(Leaf::Written), DType::Bool);
        let otherwise = self.unwritten(program, id, index, when)?;
        Ok(program.select(written, value, otherwise))
    }
}
