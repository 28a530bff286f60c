//! The cost of running a plan, counted from its nests and buffers: arithmetic, and memory traffic.

use std::collections::{HashMap, HashSet};
use std::ops::Add;

use super::{BufferId, Content, Plan, Step, Work};
use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;
use crate::nest::{Leaf, Nest};
use crate::profile::Rates;
use crate::scalar::{Inst, Program};
use crate::schedule::Transform;

/// The cost of a step or a plan.
///
/// ```
/// use tile_compiler::plan::Cost;
/// use tile_compiler::profile::Rates;
///
/// let step = Cost { flops: 2_000_000, bytes: 8_000 };
/// let both = step + step;
/// assert_eq!((both.flops, both.bytes), (4_000_000, 16_000));
/// assert!(both.roofline(&Rates::GPU) < 1e-6);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Floating-point operations. A sum of products counts two for each point of its space,
    /// including padding. Any other operation, including comparisons and `exp`, counts one for each
    /// point at which it is executed. Selects, conversions and integer arithmetic count none.
    pub flops: u64,
    /// Bytes read and written, as the device stores them. Each buffer counts once, and whole.
    ///
    /// - For a step: its operands and outputs. In a loop, only the parts of these that one turn
    ///   uses. Where a condition decides which elements of an operand are written over, none.
    /// - For a plan: its inputs and outputs, and the weights, constants and kept buffers that steps
    ///   read. This traffic is unavoidable, however the work is divided into steps.
    pub bytes: u64,
}

impl Cost {
    /// Returns a lower bound of the seconds on a device of these rates: the time of the arithmetic
    /// or of the memory traffic, whichever is longer.
    pub fn roofline(&self, rates: &Rates) -> f64 {
        (self.flops as f64 / rates.flops).max(self.bytes as f64 / rates.memory)
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            flops: self.flops.saturating_add(other.flops),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Plan {
    /// Returns the cost of a run. [`Plan::traffic`] includes the traffic of intermediate results.
    pub fn cost(&self) -> Cost {
        let flops = |(step, turns): (&Step, u64)| self.step_cost(step).flops.saturating_mul(turns);
        let flops = self.steps.iter().zip(self.turns()).map(flops).fold(0, u64::saturating_add);
        let passes =
            |content: &Content| matches!(content, Content::Temporary { .. } | Content::Carried);
        let mut used: HashSet<BufferId> =
            self.outputs.iter().chain(&self.inputs).map(|port| port.buffer).collect();
        used.extend(self.steps.iter().flat_map(|step| step.operands.iter().chain(&step.outputs)));
        used.extend(self.all_loops().flat_map(|around| &around.carries).map(|carry| carry.first));
        let lasting =
            used.into_iter().map(|id| &self.buffers[id]).filter(|buffer| !passes(&buffer.content));
        Cost { flops, bytes: lasting.map(|buffer| buffer.bytes()).fold(0, u64::saturating_add) }
    }

    /// Returns the bytes of device memory that a run needs: inputs, outputs, weights, constants,
    /// kept buffers, and the slots of temporaries.
    pub fn memory(&self) -> u64 {
        let has_own = |content: &Content| {
            !matches!(content, Content::Temporary { .. } | Content::Carried | Content::Over { .. })
        };
        let own = self
            .buffers
            .iter()
            .filter(|buffer| has_own(&buffer.content))
            .map(|buffer| buffer.bytes());
        own.chain(self.slots.iter().copied()).fold(0, u64::saturating_add)
    }

    /// Returns the sum of the [`Cost::roofline`]s of a run's launches.
    pub fn roofline(&self) -> f64 {
        let seconds =
            |(step, turns)| self.step_cost(step).roofline(&self.profile.rates) * turns as f64;
        self.steps.iter().zip(self.turns()).map(seconds).sum()
    }

    /// Returns how often a run launches each step.
    pub fn turns(&self) -> Vec<u64> {
        let mut turns = vec![1u64; self.steps.len()];
        for around in self.all_loops() {
            let within = &mut turns[around.steps.clone()];
            within.iter_mut().for_each(|turns| *turns = turns.saturating_mul(around.length as u64));
        }
        turns
    }

    /// Returns the cost of one launch of a step.
    pub fn step_cost(&self, step: &Step) -> Cost {
        let flops = match &self.routines[step.routine].work {
            Work::Nest(nest) => flops(nest),
            Work::PrngValue { .. } | Work::PrngState { .. } => 0,
        };
        let mut used: HashMap<BufferId, u64> = HashMap::new();
        for (number, &id) in step.operands.iter().chain(&step.outputs).enumerate() {
            let bytes = used.entry(id).or_insert(0);
            *bytes = self.used(step, number).max(*bytes);
        }
        Cost { flops, bytes: used.into_values().fold(0, u64::saturating_add) }
    }

    /// Returns the bytes that one launch uses of tensor `number` of a step. Operands are numbered
    /// first, then outputs.
    pub(super) fn used(&self, step: &Step, number: usize) -> u64 {
        let id = step
            .operands
            .get(number)
            .unwrap_or_else(|| &step.outputs[number - step.operands.len()]);
        let whole = self.buffers[*id].bytes();
        let Work::Nest(nest) = &self.routines[step.routine].work else { return whole };
        // How much of an operand is written over is known at run time only.
        let output = number.checked_sub(step.operands.len());
        if nest.partial().is_some() && (output.is_some() || nest.outputs[0].over == Some(number)) {
            return 0;
        }
        let positions: Vec<&Affine> = match number.checked_sub(nest.operands.len()) {
            Some(output) => vec![&nest.outputs[output].position],
            None => nest
                .loads()
                .filter(|load| load.operand == number)
                .map(|load| &load.offset)
                .collect(),
        };
        let moves = |variable: &usize| {
            positions.iter().all(|position| position.coefficient(*variable) != 0)
        };
        nest.loops()
            .filter(moves)
            .fold(whole, |bytes, variable| bytes / nest.axes[variable].extent as u64)
    }
}

fn flops(nest: &Nest) -> u64 {
    let places = nest.places() as u64;
    // Places that differ in their rank share the points.
    let ranks = nest.points(nest.rank.iter().flat_map(Affine::variables)) as u64;
    let points = (places / ranks).saturating_mul(nest.reduction_points() as u64);
    let aggregates = match nest.aggregation {
        None | Some(Aggregation::Assign) => false,
        Some(_) => nest.accumulator().is_some_and(DType::is_float),
    };
    if let Some(transform) = Transform::new(nest) {
        let of_block = 2 * transform.multiply_adds() as u64;
        let sums = of_block.saturating_mul(transform.blocks() as u64);
        return sums.saturating_add(places.saturating_mul(operations(&nest.epilogue)));
    }
    let of_points = operations(&nest.body) + u64::from(aggregates);
    points
        .saturating_mul(of_points)
        .saturating_add(places.saturating_mul(operations(&nest.epilogue)))
}

/// Returns the number of instructions that compute with floats.
fn operations(program: &Program<Leaf>) -> u64 {
    let counts = |inst: &Inst<Leaf>| match inst {
        Inst::Unary(_, a) | Inst::Binary(_, a, _) | Inst::Leaf(Leaf::Statistic(_, a)) => {
            program.dtype(*a).is_float()
        }
        Inst::Const(_) | Inst::Leaf(_) | Inst::Select(..) | Inst::Cast(_) => false,
    };
    program.insts.iter().filter(|(inst, _)| counts(inst)).count() as u64
}
