//! The whole compiler on one page: every stage by name, in the order in which they run. Debug
//! builds verify the result of each.

use std::sync::Arc;

use crate::dtype::DType;
use crate::fusion::{Groups, attend, finish_rows, fuse, merge};
use crate::graph::Graph;
use crate::nest::Nest;
use crate::passes::{
    Wholes, bytes, dead, exchange, fold, hoist, integers, join, layout, partition,
    quantize_weights, quantized, rank, running, separate, settle, share, store_as, stretch, widen,
};
use crate::plan::{
    Draft, Plan, PlanError, Scheduled, carry, divide, filter, in_bytes, keep, kernels, memory,
    nests, overwrite, schedules,
};
use crate::profile::{Execution, Profile};
use crate::schedule::{self, Tuned};

/// A stage from graph to graph, with its name.
pub type Pass = (&'static str, fn(&mut Graph));

/// The passes that make a graph cost less, on any device.
pub const SIMPLIFY: [Pass; 5] =
    [("fold", fold), ("hoist", hoist), ("share", share), ("exchange", exchange), ("dead", dead)];

/// The passes that prepare a graph for a device with kernels.
pub const FOR_SHADERS: [Pass; 5] =
    [("settle", settle), ("rank", rank), ("running", running), ("join", join), ("dead", dead)];

/// The passes that prepare a graph for a cpu. Its vectors run along channels and along places of
/// one kind, and its fast products are of f32, f64 and 8-bit integers. Joining does not pay there:
/// it has no launches to save, and reads slices more slowly than whole tensors.
pub const FOR_CPUS: [Pass; 9] = [
    ("widen", widen),
    ("hoist", hoist),
    ("settle", settle),
    ("separate", separate),
    ("bytes", bytes),
    ("integers", integers),
    ("stretch", stretch),
    ("layout", layout),
    ("dead", dead),
];

/// The passes before [`FOR_CPUS`], unless sums are to be computed term by term.
pub const QUANTIZED: [Pass; 1] = [("quantized", quantized)];

/// Rewrites `graph` into an equal one that costs less.
pub fn optimise(graph: &mut Graph) {
    rewrite(graph, &SIMPLIFY);
}

/// Returns the plan that runs an optimised `graph` on a device with `profile`.
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
    /// The float type in which the weights, and what passes between kernels, are stored instead of
    /// f32, if the device has it. See `passes/storage.rs`.
    pub storage: Option<DType>,
    /// True if weights of products are stored as 8-bit integers with scales. See
    /// `passes/weights.rs`.
    pub quantize_weights: bool,
}

/// Returns the plan with options; see [`plan`].
pub fn plan_with(graph: &Graph, profile: &Profile, options: &Options) -> Result<Plan, PlanError> {
    let mut graph = graph.clone();
    let mut wholes = Wholes::default();
    let is_shader = profile.execution == Execution::Shader;
    if options.quantize_weights {
        // Matrix units multiply f16.
        let is_f16 = options.storage == Some(DType::F16) && profile.f16 && is_shader;
        wholes = quantize_weights(&mut graph, if is_f16 { DType::F16 } else { DType::F32 });
        stage("quantize_weights", &graph, |graph| graph.verify());
    }
    match profile.execution {
        Execution::Shader => rewrite(&mut graph, &FOR_SHADERS),
        Execution::Native => {
            if !profile.exact {
                rewrite(&mut graph, &QUANTIZED);
            }
            rewrite(&mut graph, &FOR_CPUS);
        }
    }
    let plan = planned(&graph, profile, options, &wholes);
    // Passes leave out what the budget does not allow.
    match (graph.budget.check(), plan) {
        (Ok(()), plan) | (Err(_), plan @ Err(PlanError::Exceeded { .. })) => plan,
        (Err(exceeded), _) => {
            let value =
                graph.outputs.first().map_or(String::new(), |(_, id)| graph.value_name(*id));
            Err(PlanError::Exceeded { value, exceeded })
        }
    }
}

fn rewrite(graph: &mut Graph, passes: &[Pass]) {
    for (name, pass) in passes {
        pass(graph);
        stage(name, &*graph, |graph| graph.verify());
    }
}

/// Plans a graph that is prepared for the device: groups of nodes, a nest for each group, a
/// schedule and a kernel for each nest, and memory for the tensors that pass between nests.
/// `wholes` has the tensors of which the graph has parts. If others are too large for a buffer as
/// well, it plans the graph with parts of these.
fn planned(
    graph: &Graph,
    profile: &Profile,
    options: &Options,
    wholes: &Wholes,
) -> Result<Plan, PlanError> {
    let time = |nest: &Nest| schedule::predict(nest, profile, &graph.budget);
    let groups = stage("fuse", fuse(graph, profile), Groups::verify);
    let groups = stage("attend", attend(groups, profile, &time), Groups::verify);
    let groups = stage("merge", merge(groups, profile), Groups::verify);
    let groups = stage("finish_rows", finish_rows(groups, profile, &time), Groups::verify);
    if let Some(dtype) = options.storage.filter(|&dtype| profile.storage(dtype) == Some(dtype)) {
        let (mut graph, wholes) =
            store_as(graph, &groups.stored(), dtype, profile.execution, wholes);
        stage("store_as", &graph, |graph| graph.verify());
        rewrite(&mut graph, &[("share", share), ("settle", settle), ("dead", dead)]);
        let options = Options { storage: None, ..options.clone() };
        return planned(&graph, profile, &options, &wholes)
            .map_err(|error| error.of_whole(&wholes));
    }
    let large = groups.larger_than_buffers(profile);
    if !large.is_empty()
        && let Some((mut parts, wholes)) = partition(graph, &large, profile, wholes)
    {
        stage("partition", &parts, |parts| parts.verify());
        rewrite(&mut parts, &[("share", share), ("settle", settle), ("dead", dead)]);
        return planned(&parts, profile, options, &wholes).map_err(|error| error.of_whole(&wholes));
    }
    let draft = stage("nests", nests(&groups, profile, wholes)?, Draft::verify);
    let draft = stage("filter", filter(draft)?, Draft::verify);
    let mut draft = stage("divide", divide(draft)?, Draft::verify);
    if options.updates {
        draft = stage("overwrite", overwrite(draft), Draft::verify);
    }
    let draft = stage("carry", carry(draft)?, Draft::verify);
    let draft = stage("keep", keep(draft), Draft::verify);
    let draft = stage("in_bytes", in_bytes(draft, options.updates)?, Draft::verify);
    let scheduled = stage("schedules", schedules(draft, &options.tuned)?, Scheduled::verify);
    let plan = stage("kernels", kernels(scheduled)?, Plan::verify_kernels);
    Ok(stage("memory", memory(plan, &graph.budget)?, Plan::verify))
}

/// Returns the result of a stage. Debug builds verify it first.
fn stage<T>(name: &str, result: T, verify: impl Fn(&T) -> Result<(), String>) -> T {
    if cfg!(debug_assertions)
        && let Err(fault) = verify(&result)
    {
        panic!("after the stage `{name}`, {fault}");
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Routine, Work};

    #[test]
    fn exact_sums_are_of_floats() {
        let mut graph = Graph::parse("\
graph f(%0, %1, %2) -> (P = %6)
%0 = input X : u8[8, 40]
%1 = input W : i8[40, 30]
%2 = input S : f32[]
%3 = cast %0 : f32[8, 40]
%4 = mul %3 %2 : f32[8, 40]
%5 = cast %1 : f32[40, 30]
%6 = contract sum [n, u] (n: 0..8, u: 0..30, k: 0..40) { v0 = %4[n, k]; v1 = %5[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 30]
")
        .unwrap();
        optimise(&mut graph);
        for exact in [true, false] {
            let plan = plan(&graph, &Profile { exact, ..Profile::cpu() }).unwrap();
            let sum = |routine: &Routine| match &routine.work {
                Work::Nest(nest) => nest.accumulator(),
                _ => None,
            };
            let sums: Vec<_> = plan.routines.iter().filter_map(sum).collect();
            assert_eq!(sums, [if exact { DType::F32 } else { DType::I32 }]);
        }
    }
}
