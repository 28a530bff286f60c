use crate::graph::Graph;
use crate::pipeline;
use crate::profile::Profile;

/// How many tensors each step reads, for a graph of these nodes whose output is the last.
fn reads(nodes: &[String]) -> Vec<usize> {
    let lines: Vec<String> = nodes.iter().enumerate().map(|(n, node)| format!("%{n} = {node}\n")).collect();
    let inputs = (0..nodes.len()).filter(|&n| nodes[n].starts_with("input")).map(|n| format!("%{n}"));
    let inputs = inputs.collect::<Vec<_>>().join(", ");
    let graph = Graph::parse(&format!("graph g({inputs}) -> (Y = %{})\n{}", nodes.len() - 1, lines.concat())).unwrap();
    graph.verify().unwrap();
    let plan = pipeline::plan(&graph, &Profile::generic()).unwrap();
    plan.steps.iter().map(|step| step.operands.len()).collect()
}

/// A sum of many tensors takes no more kernels than it must: each but the first reads the sum so far and six more.
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

/// Of a tree, whole branches are cut: at least 6 kernels must read its 32 leaves.
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
