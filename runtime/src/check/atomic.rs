//! Atomic operations. The lanes execute them one after the other, in order.

use naga::{AtomicFunction, BinaryOperator, Expression, Handle, MathFunction};

use super::arithmetic;
use super::fault::{Kind, Result};
use super::machine::{Frame, Machine};
use super::math::componentwise;
use super::value::Column;

impl Machine<'_> {
    /// Executes an atomic operation. Returns the previous value, and for a compare-exchange also
    /// whether it took place.
    pub fn atomic(
        &mut self,
        frame: &Frame,
        pointer: Handle<Expression>,
        fun: AtomicFunction,
        value: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<Column> {
        let leaf = frame.layout(pointer)?.leaves()[0];
        let pointer = frame.pointer(pointer)?;
        let values = frame.data(value)?.component(0);
        let compare = match fun {
            AtomicFunction::Exchange { compare: Some(compare) } => {
                Some(frame.data(compare)?.component(0))
            }
            _ => None,
        };
        let operator = |op| arithmetic::binary(op, leaf.scalar);
        let function = |fun| componentwise(fun, leaf.scalar);
        let (operator, function) = match fun {
            AtomicFunction::Add => (operator(BinaryOperator::Add), None),
            AtomicFunction::Subtract => (operator(BinaryOperator::Subtract), None),
            AtomicFunction::And => (operator(BinaryOperator::And), None),
            AtomicFunction::ExclusiveOr => (operator(BinaryOperator::ExclusiveOr), None),
            AtomicFunction::InclusiveOr => (operator(BinaryOperator::InclusiveOr), None),
            AtomicFunction::Min => (None, function(MathFunction::Min)),
            AtomicFunction::Max => (None, function(MathFunction::Max)),
            AtomicFunction::Exchange { .. } => (Some((|_, new| new) as arithmetic::Binary), None),
        };
        let combine = |old: u64, new: u64| match (operator, function) {
            (Some(operator), _) => Some(operator(old, new)),
            (None, Some(function)) => Some(function([old, new, 0, 0])),
            (None, None) => None,
        };
        let mut result = Column::zero(self.lanes, if compare.is_some() { 2 } else { 1 });
        let memory = &mut self.memories[pointer.memory];
        for &lane in lanes {
            let old = memory.read(pointer, leaf, lane)?;
            result.component_mut(0)[lane] = old;
            if let Some(compare) = compare {
                if old != compare[lane] {
                    continue;
                }
                result.component_mut(1)[lane] = 1;
            }
            let new = combine(old, values[lane]).ok_or_else(|| Kind::unsupported(&fun))?;
            memory.write(pointer, leaf, lane, new)?;
        }
        Ok(result)
    }
}
