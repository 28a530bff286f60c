//! The whole compiler on one page: every pass is a call here, in the order in which it runs.

use crate::graph::Graph;
use crate::passes::{dead, fold, hoist, settle, share};
use crate::plan::{Plan, PlanError, Planner};
use crate::profile::Profile;

/// Rewrites `graph` into an equal one that costs less.
pub fn optimise(graph: &mut Graph) {
    for pass in [fold, hoist, share, dead] {
        pass(graph);
        debug_assert_eq!(graph.verify(), Ok(()));
    }
}

/// The plan that runs an optimised `graph` on a device with `profile`: its nodes in groups ([`crate::passes::fuse`]), a nest
/// for each group ([`crate::nest::build`]), or two for a long reduction ([`crate::schedule::divide`]), a schedule
/// ([`crate::schedule::choose`]) and a kernel ([`crate::schedule::kernel`]) for each nest, and memory for what passes between
/// them.
pub fn plan(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    Planner::new(profile).plan(&settled(graph))
}

/// As [`plan`], for runs each of which changes the weights: the outputs with the names of weights are written over them where
/// that is safe.
pub fn plan_updates(graph: &Graph, profile: &Profile) -> Result<Plan, PlanError> {
    Planner::new(profile).overwriting().plan(&settled(graph))
}

fn settled(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    settle(&mut graph);
    debug_assert_eq!(graph.verify(), Ok(()));
    graph
}
