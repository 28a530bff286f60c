//! The order of a graph's nodes. The standard wants each after those that give its inputs; tools that convert models append nodes at the end all the same.
//!
//! Always true: nodes that are in order stay as they are.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::proto::{Graph, Node};

/// The nodes, each after those that give what it reads, and else as they were; those of graphs within likewise. What is in a circle comes last.
pub fn ordered(mut nodes: Vec<Node>) -> Vec<Node> {
    for graph in nodes.iter_mut().flat_map(|node| &mut node.attributes).filter_map(|attribute| attribute.graph.as_mut())
    {
        graph.nodes = ordered(std::mem::take(&mut graph.nodes));
    }
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waits_for = vec![0; nodes.len()];
    let outputs =
        |(number, node): (usize, &Node)| node.outputs.iter().map(|name| (name.clone(), number)).collect::<Vec<_>>();
    let givers: HashMap<String, usize> = nodes.iter().enumerate().flat_map(outputs).collect();
    for (number, node) in nodes.iter().enumerate() {
        for giver in reads(node).into_iter().filter_map(|name| givers.get(name)) {
            readers[*giver].push(number);
            waits_for[number] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes.len()).filter(|&n| waits_for[n] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(number)) = ready.pop() {
        order.push(number);
        for &reader in &readers[number] {
            waits_for[reader] -= 1;
            if waits_for[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    order.extend((0..nodes.len()).filter(|&number| waits_for[number] > 0));
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    order.into_iter().filter_map(|number| nodes[number].take()).collect()
}

/// The names that a node reads, those that graphs within it find around themselves included.
fn reads(node: &Node) -> HashSet<&str> {
    let own = node.inputs.iter().map(String::as_str).filter(|name| !name.is_empty());
    let graphs = node.attributes.iter().filter_map(|attribute| attribute.graph.as_ref());
    own.chain(graphs.flat_map(around)).collect()
}

/// The names that a graph reads and does not give itself.
fn around(graph: &Graph) -> HashSet<&str> {
    let mut names: HashSet<&str> = graph.nodes.iter().flat_map(reads).collect();
    names.extend(graph.outputs.iter().map(|output| output.name.as_str()));
    let inputs = graph.inputs.iter().map(|input| &input.name);
    let own = inputs.chain(graph.initializers.iter().map(|tensor| &tensor.name));
    for name in own.chain(graph.nodes.iter().flat_map(|node| &node.outputs)) {
        names.remove(name.as_str());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(inputs: &[&str], output: &str) -> Node {
        let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
        Node { inputs, outputs: vec![output.to_owned()], ..Node::default() }
    }

    fn outputs(nodes: Vec<Node>) -> String {
        ordered(nodes).into_iter().flat_map(|node| node.outputs).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_in_order_stays() {
        assert_eq!(
            outputs(vec![node(&["x"], "b"), node(&[], "a"), node(&["b", "a"], "c"), node(&["x"], "d")]),
            "b a c d"
        );
    }

    #[test]
    fn what_is_read_comes_first() {
        assert_eq!(
            outputs(vec![node(&["c", "c"], "d"), node(&["x"], "a"), node(&["b"], "c"), node(&["a"], "b")]),
            "a b c d"
        );
        // A circle is left to whoever goes through the nodes.
        assert_eq!(outputs(vec![node(&["b"], "a"), node(&["a"], "b"), node(&["x"], "c")]), "c a b");
    }

    #[test]
    fn graphs_within_read_what_is_around_them() {
        let value = |name: &str| super::super::proto::Value { name: name.to_owned(), ty: None };
        let within = Graph {
            nodes: vec![node(&["own"], "y"), node(&["late", "a"], "own")],
            inputs: vec![value("a")],
            outputs: vec![value("y")],
            ..Graph::default()
        };
        let attribute = super::super::proto::Attribute { graph: Some(within), ..Default::default() };
        let branch = Node { attributes: vec![attribute], ..node(&["x"], "z") };
        // `a` of the outer graph is not the one within.
        let sorted = ordered(vec![branch, node(&["x"], "late"), node(&["z"], "a")]);
        assert_eq!(sorted[1].attributes[0].graph.as_ref().unwrap().nodes[0].outputs, ["own"]);
        assert_eq!(outputs(sorted), "late z a");
    }
}
