//! What a plan costs to run, counted from its nests and buffers: arithmetic, and memory traffic.

use std::ops::Add;

use super::{BufferId, Content, Plan, Step, Work};
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::Nest;
use crate::scalar::{Inst, Program};

/// What a step or a plan costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Operations on floats. A sum of products has two for each point of its space, padding included; any other operation,
    /// comparisons and `exp` as well, is one for each point at which it stands. Choices, conversions, and arithmetic on
    /// integers are none.
    pub flops: u64,
    /// Bytes read and written, as the device stores them: each buffer whole, and once. Of a step these are its operands and its
    /// outputs; of a plan its inputs, weights, constants and outputs, which is what cannot be avoided however its steps are divided.
    pub bytes: u64,
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { flops: self.flops.saturating_add(other.flops), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

impl Plan {
    /// What a run costs. For its traffic with intermediate results, add up [`Plan::step_cost`].
    pub fn cost(&self) -> Cost {
        let steps = self.steps.iter().map(|step| Cost { bytes: 0, ..self.step_cost(step) });
        let lasting = self.buffers.iter().filter(|buffer| !matches!(buffer.content, Content::Temporary { .. }));
        let traffic = lasting.map(|buffer| Cost { flops: 0, bytes: buffer.bytes() });
        steps.chain(traffic).fold(Cost::default(), Add::add)
    }

    /// What a step costs.
    pub fn step_cost(&self, step: &Step) -> Cost {
        let flops = match &self.routines[step.routine].work {
            Work::Nest(nest) => flops(nest),
            Work::PrngValue { .. } | Work::PrngState { .. } => 0,
        };
        let mut buffers: Vec<BufferId> = step.operands.iter().chain(&step.outputs).copied().collect();
        buffers.sort_unstable();
        buffers.dedup();
        let bytes = buffers.into_iter().map(|id| self.buffers[id].bytes()).fold(0, u64::saturating_add);
        Cost { flops, bytes }
    }
}

fn flops(nest: &Nest) -> u64 {
    let places = nest.places() as u64;
    let points = places.saturating_mul(nest.reduction_points() as u64);
    let aggregates = match nest.aggregation {
        None | Some(Aggregation::Assign) => false,
        Some(_) => nest.accumulator().is_some_and(DType::is_float),
    };
    let of_points = operations(&nest.body) + u64::from(aggregates);
    points.saturating_mul(of_points).saturating_add(places.saturating_mul(operations(&nest.epilogue)))
}

/// How many of the instructions compute with floats.
fn operations<L: Clone + PartialEq>(program: &Program<L>) -> u64 {
    let counts = |inst: &Inst<L>| match inst {
        Inst::Unary(_, a) | Inst::Binary(_, a, _) => program.dtype(*a).is_float(),
        Inst::Const(_) | Inst::Leaf(_) | Inst::Select(..) | Inst::Cast(_) => false,
    };
    program.insts.iter().filter(|(inst, _)| counts(inst)).count() as u64
}
