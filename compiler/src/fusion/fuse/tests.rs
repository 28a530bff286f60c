use crate::graph::Graph;
use crate::pipeline;
use crate::plan::{Plan, Routine, Work};
use crate::profile::Profile;

/// Returns how many tensors each step reads.
fn reads(nodes: &[String]) -> Vec<usize> {
    plan(nodes).steps.iter().map(|step| step.operands.len()).collect()
}

/// Returns the plan of a graph of these nodes, whose output is the last one.
fn plan(nodes: &[String]) -> Plan {
    plan_for(nodes, &Profile::generic())
}

fn plan_for(nodes: &[String], profile: &Profile) -> Plan {
    let lines: Vec<String> =
        nodes.iter().enumerate().map(|(n, node)| format!("%{n} = {node}\n")).collect();
    let inputs =
        (0..nodes.len()).filter(|&n| nodes[n].starts_with("input")).map(|n| format!("%{n}"));
    let inputs = inputs.collect::<Vec<_>>().join(", ");
    let graph = Graph::parse(&format!(
        "graph g({inputs}) -> (Y = %{})\n{}",
        nodes.len() - 1,
        lines.concat()
    ))
    .unwrap();
    graph.verify().unwrap();
    pipeline::plan(&graph, profile).unwrap()
}

/// A sum of many tensors takes the fewest kernels: each one, except for the first, reads the
/// partial sum and six more tensors.
#[test]
fn a_long_sum_is_cut_where_kernels_are_full() {
    for count in [2usize, 7, 8, 13, 14, 100, 400] {
        let mut nodes: Vec<String> = (0..count).map(|n| format!("input X{n} : f32[4]")).collect();
        nodes.push("add %0 %1 : f32[4]".into());
        (2..count).for_each(|n| nodes.push(format!("add %{} %{n} : f32[4]", count + n - 2)));
        let reads = reads(&nodes);
        assert!(reads.iter().all(|&tensors| tensors <= 7), "{reads:?}");
        assert_eq!(reads.len(), (count - 1).div_ceil(6), "{reads:?}");
    }
}

/// A tree is cut into whole branches: at least 6 kernels must read its 32 leaves.
#[test]
fn a_tree_is_cut_at_its_branches() {
    let mut nodes: Vec<String> = (0..32).map(|n| format!("input X{n} : f32[4]")).collect();
    let mut level: Vec<usize> = (0..32).collect();
    while level.len() > 1 {
        let pairs = level.chunks(2).map(|pair| {
            nodes.push(format!("mul %{} %{} : f32[4]", pair[0], pair[1]));
            nodes.len() - 1
        });
        level = pairs.collect();
    }
    let mut reads = reads(&nodes);
    reads.sort_unstable();
    assert_eq!(reads, [4, 4, 4, 4, 5, 5, 6, 7]);
}

/// A mask of positions is computed where a cpu reads it. Others read it from memory.
#[test]
fn masks_of_positions() {
    let nodes = [
        "input X : f32[4, 8, 8]",
        "index 0 : i32[8, 8]",
        "index 1 : i32[8, 8]",
        "cmp_ge %1 %2 : bool[8, 8]",
        "input M : bool[8, 8]",
        "bit_and %3 %4 : bool[8, 8]",
        "constant -1.0 : f32[]",
        "select %5 %0 %6 : f32[4, 8, 8]",
    ]
    .map(String::from);
    let reads = |profile: &Profile| -> Vec<usize> {
        plan_for(&nodes, profile).steps.iter().map(|step| step.operands.len()).collect()
    };
    assert_eq!(reads(&Profile::cpu()), [2]);
    assert_eq!(reads(&Profile::generic()), [1, 2]);
}

/// A tensor that is compared with its own maxima is stored, so that both are computed from the same
/// elements.
#[test]
fn what_is_compared_with_its_maxima_is_in_memory() {
    let nodes = [
        "input A : f32[8, 4]",
        "input B : f32[8, 4]",
        "input C : f32[4]",
        "mul %0 %1 : f32[8, 4]",
        "add %3 %2 : f32[8, 4]",
        "contract max [i] (i: 0..8, k: 0..4) { v0 = %4[i, k]; yield v0 } : f32[8]",
        "contract sum [i] (i: 0..8, k: 0..4) { v0 = %4[i, k]; v1 = %5[i]; v2 = cmp_eq v0 v1; v3 = 1.0 : f32; v4 = 0.0 : f32; v5 = select v2 v3 v4; yield v5 } : f32[8]",
    ];
    let plan = plan(&nodes.map(String::from));
    assert_eq!(plan.steps.iter().map(|step| step.operands.len()).collect::<Vec<_>>(), [3, 2]);
}

/// A product, `relu6` of it as comparisons and selects, and a sum over windows of that. Nodes that
/// are read twice on the way must not keep the chain out of the product's epilogue.
#[test]
fn branches_that_meet_again_stay_with_their_contraction() {
    let nodes = [
        "input A : f32[8, 4]",
        "input B : f32[4, 8]",
        "contract sum [i, j] (i: 0..8, j: 0..8, k: 0..4) { v0 = %0[i, k]; v1 = %1[k, j]; v2 = mul v0 v1; yield v2 } : f32[8, 8]",
        "constant 0.0 : f32[]",
        "cmp_le %2 %3 : bool[8, 8]",
        "select %4 %3 %2 : f32[8, 8]",
        "constant 6.0 : f32[]",
        "cmp_ge %5 %6 : bool[8, 8]",
        "select %7 %6 %5 : f32[8, 8]",
        "contract sum [i, j] (i: 0..6, j: 0..8, k: 0..3) { v0 = %8[i + k, j]; yield v0 } : f32[6, 8]",
    ];
    let plan = plan(&nodes.map(String::from));
    let instructions = |routine: &Routine| match &routine.work {
        Work::Nest(nest) => nest.body.insts.len(),
        _ => 0,
    };
    assert_eq!(plan.routines.iter().map(instructions).collect::<Vec<_>>(), [3, 1]);
}

/// A depthwise convolution reads each element once for every tap. Expensive nodes are not
/// recomputed for each tap; on a cpu, neither are cheap ones.
#[test]
fn what_every_tap_reads_is_computed_once() {
    let nodes = |factor: &str| {
        [
            "input X : f32[10, 64]",
            "weight K : f32[3, 64]",
            factor,
            "mul %0 %2 : f32[10, 64]",
            "contract sum [i, c] (i: 0..8, c: 0..64, k: 0..3) { v0 = %3[i + k, c]; v1 = %1[k, c]; v2 = mul v0 v1; yield v2 } : f32[8, 64]",
        ]
        .map(String::from)
    };
    let kernels = |factor: &str, profile: &Profile| plan_for(&nodes(factor), profile).steps.len();
    for (factor, of_shaders, of_a_cpu) in
        [("exp %0 : f32[10, 64]", 2, 2), ("constant 2.0 : f32[]", 1, 2)]
    {
        assert_eq!(kernels(factor, &Profile::generic()), of_shaders, "{factor}");
        assert_eq!(kernels(factor, &Profile::cpu()), of_a_cpu, "{factor}");
    }
}

/// A product with as many columns as terms resembles a row aggregate. But tiles reuse operands that
/// each row would read again: on a cpu, two such products that are added stay products.
#[test]
fn products_are_no_statistics_of_rows() {
    let product = |tensor: &str, kernel: &str, stride: usize| {
        format!(
            "contract sum [y, x, f] (y: 0..56, x: 0..56, f: 0..32, c: 0..32) \
             {{ v0 = {tensor}[{stride}*y, {stride}*x, c]; v1 = {kernel}[f, c]; v2 = mul v0 v1; yield v2 }} : f32[56, 56, 32]"
        )
    };
    let nodes = [
        "input X : f32[112, 112, 32]".into(),
        "input Z : f32[56, 56, 32]".into(),
        "weight K : f32[32, 32]".into(),
        "weight L : f32[32, 32]".into(),
        product("%0", "%2", 2),
        product("%1", "%3", 1),
        "add %4 %5 : f32[56, 56, 32]".into(),
    ];
    let works = plan_for(&nodes, &Profile::cpu()).routines;
    assert!(
        works
            .iter()
            .all(|routine| matches!(&routine.work, Work::Nest(nest) if nest.aggregation.is_some()))
    );
    assert_eq!(works.len(), 2);
}
