//! The memory traffic of a plan in a run, and its lower bound.
//!
//! The traffic of a plan is that of its launches, each of which reads or writes each of its tensors
//! once ([`Plan::step_cost`]). The lower bound holds for every division of the program into kernels
//! that each compute one aggregation, or row statistics, and what is around it:
//!
//! - weights, constants, kept results of the prelude, inputs and outputs, once each
//!   ([`Plan::cost`]);
//! - the *unavoidable activations*: results of an aggregation (a product, a convolution, a pool, a
//!   row's softmax) that another such kernel uses, either directly or through elementwise
//!   operations. Each is written once and read once, however many kernels read it. If it is an
//!   output, its write is counted already.
//!
//! All other values that pass between steps are avoidable: elementwise values can be recomputed
//! where they are read, and values that are only used elementwise need no memory. In a loop the
//! same holds for every turn; carried values pass from turn to turn.
//!
//! A kernel of several products may stay below this bound: attention with an online softmax never
//! stores its scores.

use std::collections::HashSet;

use super::{BufferId, Content, Plan, Step, Work};
use crate::graph::Aggregation;

impl Plan {
    /// Returns the bytes that the launches of a run read and write.
    pub fn traffic(&self) -> u64 {
        let bytes = |(step, turns): (&Step, u64)| self.step_cost(step).bytes.saturating_mul(turns);
        self.steps.iter().zip(self.turns()).map(bytes).fold(0, u64::saturating_add)
    }

    /// Returns the bytes of a run that cannot be avoided. See the module documentation.
    pub fn least_traffic(&self) -> u64 {
        let aggregated = self.aggregated_again();
        let mut bytes = self.cost().bytes;
        for (step, turns) in
            self.steps.iter().zip(self.turns()).filter(|(step, _)| self.aggregates(step))
        {
            for (number, id) in
                step.outputs.iter().enumerate().filter(|(_, id)| aggregated.contains(id))
            {
                let times = match self.buffers[*id].content {
                    Content::Temporary { .. } | Content::Carried => 2,
                    _ => 1,
                };
                let used = self.used(step, step.operands.len() + number);
                bytes = bytes.saturating_add(used.saturating_mul(turns).saturating_mul(times));
            }
        }
        bytes
    }

    /// Returns whether a step combines many values into one, or computes row statistics.
    fn aggregates(&self, step: &Step) -> bool {
        match &self.routines[step.routine].work {
            Work::Nest(nest) => {
                let sums =
                    nest.aggregation.is_some_and(|aggregation| aggregation != Aggregation::Assign);
                !nest.columns().is_empty() || sums && nest.reduction_points() > 1
            }
            Work::PrngValue { .. } | Work::PrngState { .. } => false,
        }
    }

    /// Returns the buffers that aggregating steps use, either directly or through other steps.
    fn aggregated_again(&self) -> HashSet<BufferId> {
        let mut found: HashSet<BufferId> = HashSet::new();
        loop {
            let before = found.len();
            for around in self.all_loops() {
                for carry in &around.carries {
                    if found.contains(&carry.before) {
                        found.extend([carry.first, carry.next]);
                    }
                    if found.contains(&carry.last) || found.contains(&carry.other) {
                        found.insert(carry.next);
                    }
                }
            }
            for step in self.steps.iter().rev() {
                if self.aggregates(step) || step.outputs.iter().any(|id| found.contains(id)) {
                    found.extend(&step.operands);
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use crate::graph::Graph;
    use crate::pipeline;
    use crate::profile::Profile;

    fn plan(text: &str) -> Plan {
        let mut graph = Graph::parse(text).unwrap();
        pipeline::optimise(&mut graph);
        pipeline::plan(&graph, &Profile::generic()).unwrap()
    }

    /// A product, its activation, and a second product: the activation is written and read.
    #[test]
    fn what_passes_between_products_is_unavoidable() {
        let text = "\
graph mlp(%0) -> (Y = %5)
%0 = input X : f32[8, 16]
%1 = weight A : f32[16, 32]
%2 = weight B : f32[32, 4]
%3 = contract sum [n, u] (n: 0..8, u: 0..32, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 32]
%4 = tanh %3 : f32[8, 32]
%5 = contract sum [n, u] (n: 0..8, u: 0..4, k: 0..32) { v0 = %4[n, k]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 4]
";
        let plan = plan(text);
        let lasting = 4 * (8 * 16 + 16 * 32 + 32 * 4 + 8 * 4);
        assert_eq!(plan.cost().bytes, lasting);
        assert_eq!(plan.least_traffic(), lasting + 2 * 4 * 8 * 32);
        assert_eq!(plan.traffic(), plan.least_traffic());
        assert_eq!(plan.memory(), lasting + 4 * 8 * 32);
    }

    /// A row is read once and written once.
    #[test]
    fn a_softmax_needs_no_more_than_the_least() {
        let text = "\
graph softmax(%0) -> (Y = %5)
%0 = input X : f32[8, 16]
%1 = contract max [n, 0] (n: 0..8, c: 0..16) { v0 = %0[n, c]; yield v0 } : f32[8, 1]
%2 = sub %0 %1 : f32[8, 16]
%3 = exp %2 : f32[8, 16]
%4 = contract sum [n, 0] (n: 0..8, c: 0..16) { v0 = %3[n, c]; yield v0 } : f32[8, 1]
%5 = div %3 %4 : f32[8, 16]
";
        let plan = plan(text);
        assert_eq!(plan.cost().bytes, 4 * 2 * 8 * 16);
        assert_eq!((plan.least_traffic(), plan.traffic()), (plan.cost().bytes, plan.cost().bytes));
    }
}
