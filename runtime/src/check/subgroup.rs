//! Subgroup operations. A subgroup is a run of consecutive invocations. The last one of a workgroup
//! may be shorter.
//!
//! A value gathered from an absent lane, which WGSL leaves undefined, is all ones: a NaN, or
//! -1. That shows in the results of a kernel that depends on it.

use std::ops::Range;

use naga::{
    BinaryOperator, CollectiveOperation, Direction, Expression, GatherMode, Handle, MathFunction,
    Scalar, ScalarKind, SubgroupOperation,
};

use super::arithmetic;
use super::fault::{Kind, Result};
use super::machine::{Frame, Machine};
use super::math::componentwise;
use super::value::{Column, Number};

impl Machine<'_> {
    pub fn ballot(
        &self,
        frame: &Frame,
        predicate: Option<Handle<Expression>>,
        lanes: &[usize],
    ) -> Result<Column> {
        let mut result = Column::zero(self.lanes, 4);
        let predicate = predicate.map(|predicate| frame.data(predicate)).transpose()?;
        for subgroup in self.subgroups("subgroupBallot", lanes)? {
            let members = &lanes[subgroup];
            let mut bits = 0_u128;
            for &lane in members {
                if predicate.is_none_or(|predicate| predicate.component(0)[lane] != 0) {
                    bits |= 1 << (lane % self.subgroup_size());
                }
            }
            for word in 0..4 {
                let target = result.component_mut(word);
                for &lane in members {
                    target[lane] = u64::from((bits >> (32 * word)) as u32);
                }
            }
        }
        Ok(result)
    }

    pub fn gather(
        &self,
        frame: &Frame,
        mode: GatherMode,
        argument: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Column> {
        let size = self.subgroup_size();
        let absent = ones(frame.scalar(argument)?);
        let argument = frame.data(argument)?;
        let operand = match mode {
            GatherMode::BroadcastFirst | GatherMode::QuadSwap(_) => None,
            GatherMode::Broadcast(index)
            | GatherMode::Shuffle(index)
            | GatherMode::ShuffleDown(index)
            | GatherMode::ShuffleUp(index)
            | GatherMode::ShuffleXor(index)
            | GatherMode::QuadBroadcast(index) => Some(frame.data(index)?.component(0)),
        };
        let mut result = Column::zero(self.lanes, argument.components());
        for subgroup in self.subgroups("a subgroup gather", lanes)? {
            let members = &lanes[subgroup];
            for &lane in members {
                let own = lane % size;
                let index = operand.map_or(0, |operand| operand[lane] as u32 as usize);
                let from = match mode {
                    GatherMode::BroadcastFirst => members.first().map(|first| first % size),
                    GatherMode::Broadcast(_) | GatherMode::Shuffle(_) => Some(index),
                    GatherMode::ShuffleDown(_) => Some(own.saturating_add(index)),
                    GatherMode::ShuffleUp(_) => own.checked_sub(index),
                    GatherMode::ShuffleXor(_) => Some(own ^ index),
                    GatherMode::QuadBroadcast(_) => Some((own & !3) + index),
                    GatherMode::QuadSwap(Direction::X) => Some(own ^ 1),
                    GatherMode::QuadSwap(Direction::Y) => Some(own ^ 2),
                    GatherMode::QuadSwap(Direction::Diagonal) => Some(own ^ 3),
                };
                let source = from.filter(|&from| from < size).map(|from| lane - own + from);
                let source = source.filter(|source| members.contains(source));
                for part in 0..argument.components() {
                    let word = source.map_or(absent, |source| argument.component(part)[source]);
                    result.component_mut(part)[lane] = word;
                }
            }
        }
        Ok(result)
    }

    pub fn collective(
        &self,
        frame: &Frame,
        op: SubgroupOperation,
        collective: CollectiveOperation,
        argument: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Column> {
        let scalar = frame.scalar(argument)?;
        let argument = frame.data(argument)?;
        let operator = |op| arithmetic::binary(op, scalar);
        let function = |fun| componentwise(fun, scalar);
        let (operator, function) = match op {
            SubgroupOperation::All | SubgroupOperation::And => {
                (operator(BinaryOperator::And), None)
            }
            SubgroupOperation::Any | SubgroupOperation::Or => {
                (operator(BinaryOperator::InclusiveOr), None)
            }
            SubgroupOperation::Xor => (operator(BinaryOperator::ExclusiveOr), None),
            SubgroupOperation::Add => (operator(BinaryOperator::Add), None),
            SubgroupOperation::Mul => (operator(BinaryOperator::Multiply), None),
            SubgroupOperation::Min => (None, function(MathFunction::Min)),
            SubgroupOperation::Max => (None, function(MathFunction::Max)),
        };
        let combine = |a: u64, b: u64| match (operator, function) {
            (Some(operator), _) => Some(operator(a, b)),
            (None, Some(function)) => Some(function([a, b, 0, 0])),
            (None, None) => None,
        };
        // The value of the first lane in an exclusive scan. WGSL has such scans for sums and
        // products only.
        let neutral = Number::Integer(i128::from(op == SubgroupOperation::Mul)).word(scalar);
        let mut result = Column::zero(self.lanes, argument.components());
        for subgroup in self.subgroups("a subgroup operation", lanes)? {
            let members = &lanes[subgroup];
            for part in 0..argument.components() {
                let words = argument.component(part);
                let target = result.component_mut(part);
                let mut total: Option<u64> = None;
                for &lane in members {
                    let before = total.unwrap_or(neutral);
                    let after = match total {
                        Some(total) => {
                            combine(total, words[lane]).ok_or_else(|| Kind::unsupported(&op))?
                        }
                        None => words[lane],
                    };
                    target[lane] = if collective == CollectiveOperation::ExclusiveScan {
                        before
                    } else {
                        after
                    };
                    total = Some(after);
                }
                if let (CollectiveOperation::Reduce, Some(total)) = (collective, total) {
                    members.iter().for_each(|&lane| target[lane] = total);
                }
            }
        }
        Ok(result)
    }

    pub fn subgroup_size(&self) -> usize {
        self.options.subgroup_size.max(1) as usize
    }

    /// Returns the subgroups that reach an operation, as ranges of `lanes`. Each must be whole,
    /// unless the options allow otherwise.
    pub fn subgroups(&self, operation: &str, lanes: &[usize]) -> Result<Vec<Range<usize>>> {
        let size = self.subgroup_size();
        let mut subgroups = Vec::new();
        let mut start = 0;
        for members in lanes.chunk_by(|a, b| a / size == b / size) {
            let first = members[0] / size * size;
            let whole = first..(first + size).min(self.lanes);
            let absent = whole.clone().find(|lane| !members.contains(lane));
            if let (Some(absent), false) = (absent, self.options.divergent_subgroups) {
                let (operation, active) = (operation.to_owned(), members.len());
                return Err(Kind::Divergence { operation, active, of: whole.len(), absent }.into());
            }
            subgroups.push(start..start + members.len());
            start += members.len();
        }
        Ok(subgroups)
    }
}

/// Returns a scalar with all bits set.
fn ones(scalar: Scalar) -> u64 {
    match scalar.kind {
        ScalarKind::Bool => 1,
        _ => u64::MAX >> (64 - 8 * u32::from(scalar.width)),
    }
}
