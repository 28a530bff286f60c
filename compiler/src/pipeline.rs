//! The whole compiler on one page: a call for every pass, in the order in which they run.

use std::sync::Arc;

use crate::graph::Graph;
use crate::passes::{dead, exchange, fold, hoist, integers, join, layout, settle, share, stretch};
use crate::plan::{Plan, PlanError, Planner};
use crate::profile::{Execution, Profile};
use crate::schedule::Tuned;

/// Rewrites `graph` into an equal one that costs less.
pub fn optimise(graph: &mut Graph) {
    for pass in [fold, hoist, share, exchange, dead] {
        pass(graph);
        debug_assert_eq!(graph.verify(), Ok(()));
    }
}

/// Returns the plan that runs an optimised `graph` on a device with `profile`:
/// - groups of nodes ([`crate::fusion`]);
/// - a nest for each group ([`crate::nest::build`]), or two for a long reduction
///   ([`crate::schedule::divide`]);
/// - a schedule ([`crate::schedule::choose`]) and a kernel ([`crate::schedule::kernel`]) for each
///   nest;
/// - memory for the tensors that pass between nests.
pub fn plan(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    plan_with(graph, profile, &Options::default())
}

/// Returns the plan for runs that change the weights; see [`plan`]. Outputs with the names of
/// weights overwrite these where that is safe.
pub fn plan_updates(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    plan_with(graph, profile, &Options { updates: true, ..Options::default() })
}

/// Other inputs of a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// True if each run changes the weights; see [`plan_updates`].
    pub updates: bool,
    /// Schedules that take precedence over those of [`crate::schedule::choose`].
    pub tuned: Arc<Tuned>,
}

/// Returns the plan with options; see [`plan`].
pub fn plan_with(graph: &Graph, profile: &Profile, options: &Options) -> Result<Plan, PlanError> {
    let graph = settled(graph, profile);
    let plan = Planner::new(profile, &options.tuned, options.updates).plan(&graph);
    // Passes leave out what the budget does not allow.
    match (graph.budget.check(), plan) {
        (Ok(()), plan) | (Err(_), plan @ Err(PlanError::Exceeded { .. })) => plan,
        (Err(exceeded), _) => {
            let value = graph.outputs.first().map_or(String::new(), |(_, id)| graph.value_name(*id));
            Err(PlanError::Exceeded { value, exceeded })
        }
    }
}

fn settled(graph: &Graph, profile: &Profile) -> Graph {
    let mut graph = graph.clone();
    settle(&mut graph);
    match profile.execution {
        Execution::Shader => join(&mut graph),
        // Joining does not pay on a cpu: it has no launches to save, and reads slices more slowly
        // than whole tensors. Its vectors run along channels and along places of one kind, and its
        // fast products are of floats.
        Execution::Native => [integers, stretch, layout].into_iter().for_each(|pass| pass(&mut graph)),
    }
    dead(&mut graph);
    debug_assert_eq!(graph.verify(), Ok(()));
    graph
}
