//! The whole compiler on one page: every pass is a call here, in the order in which it runs.

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

/// The plan that runs an optimised `graph` on a device with `profile`: its nodes in groups ([`crate::passes::fuse`]), a nest
/// for each group ([`crate::nest::build`]), or two for a long reduction ([`crate::schedule::divide`]), a schedule
/// ([`crate::schedule::choose`]) and a kernel ([`crate::schedule::kernel`]) for each nest, and memory for what passes between
/// them.
pub fn plan(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    plan_with(graph, profile, &Options::default())
}

/// As [`plan`], for runs each of which changes the weights: the outputs with the names of weights are written over them where
/// that is safe.
pub fn plan_updates(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    plan_with(graph, profile, &Options { updates: true, ..Options::default() })
}

/// What else a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether each run changes the weights: see [`plan_updates`].
    pub updates: bool,
    /// Schedules that are preferred to [`crate::schedule::choose`]'s.
    pub tuned: Arc<Tuned>,
}

/// As [`plan`], with options.
pub fn plan_with(graph: &Graph, profile: &Profile, options: &Options) -> Result<Plan, PlanError> {
    Planner::new(profile, &options.tuned, options.updates).plan(&settled(graph, profile))
}

fn settled(graph: &Graph, profile: &Profile) -> Graph {
    let mut graph = graph.clone();
    settle(&mut graph);
    match profile.execution {
        Execution::Shader => join(&mut graph),
        // A cpu has no launches to save, and reads slices more slowly than whole tensors. Its vectors go along channels, and its products are of floats, and
        // along places of one kind.
        Execution::Native => [integers, stretch, layout].into_iter().for_each(|pass| pass(&mut graph)),
    }
    dead(&mut graph);
    debug_assert_eq!(graph.verify(), Ok(()));
    graph
}
