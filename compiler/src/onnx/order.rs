//! Dead-code removal and topological order of a graph's nodes. The standard requires each node
//! after those that compute its inputs. Some conversion tools append nodes at the end regardless,
//! and leave unused nodes.
//!
//! Invariant: nodes that are in order keep their order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

use super::proto::{Graph, Node, Value};

/// Orders the nodes of the graph and of its inner graphs, and removes nodes and initializers that
/// no output needs.
pub fn tidy(graph: &mut Graph) {
    let names =
        |values: &[Value]| values.iter().map(|value| value.name.clone()).collect::<Vec<_>>();
    let outputs = names(&graph.outputs);
    graph.nodes = tidied(std::mem::take(&mut graph.nodes), &outputs);
    let mut read: HashSet<&str> = graph.nodes.iter().flat_map(reads).collect();
    // An initializer of an input is its default.
    read.extend(graph.inputs.iter().chain(&graph.outputs).map(|value| value.name.as_str()));
    graph.initializers.retain(|tensor| read.contains(tensor.name.as_str()));
    graph
        .sparse_initializers
        .retain(|sparse| sparse.values.as_ref().is_none_or(|v| read.contains(v.name.as_str())));
}

/// Returns the nodes that the outputs need, each after those that compute its inputs, and otherwise
/// in the given order. The same applies to inner graphs. Unread outputs lose their names. Nodes of
/// a cycle come last.
pub fn tidied(mut nodes: Vec<Node>, outputs: &[String]) -> Vec<Node> {
    nodes
        .iter_mut()
        .flat_map(|node| &mut node.attributes)
        .filter_map(|a| a.graph.as_mut())
        .for_each(tidy);
    let mut wanted: HashSet<String> = outputs.iter().cloned().collect();
    let mut kept = Vec::new();
    for mut node in ordered(nodes).into_iter().rev() {
        if !node.outputs.iter().any(|output| wanted.contains(output)) {
            continue;
        }
        node.outputs.iter_mut().filter(|output| !wanted.contains(*output)).for_each(String::clear);
        wanted.extend(reads(&node).into_iter().map(str::to_owned));
        kept.push(node);
    }
    kept.reverse();
    kept
}

fn ordered(nodes: Vec<Node>) -> Vec<Node> {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waits_for = vec![0; nodes.len()];
    let outputs = |(number, node): (usize, &Node)| {
        node.outputs.iter().map(|name| (name.clone(), number)).collect::<Vec<_>>()
    };
    let givers: HashMap<String, usize> = nodes.iter().enumerate().flat_map(outputs).collect();
    for (number, node) in nodes.iter().enumerate() {
        for giver in reads(node).into_iter().filter_map(|name| givers.get(name)) {
            readers[*giver].push(number);
            waits_for[number] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..nodes.len()).filter(|&n| waits_for[n] == 0).map(Reverse).collect();
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

/// Returns the names that a node reads, including those that its inner graphs read from outside and
/// those in attributes of `Gradient`.
pub(super) fn reads(node: &Node) -> HashSet<&str> {
    let own = node.inputs.iter().map(String::as_str).filter(|name| !name.is_empty());
    let graphs = node.attributes.iter().filter_map(|attribute| attribute.graph.as_ref());
    let texts = node
        .attributes
        .iter()
        .filter(|_| node.op == "Gradient")
        .flat_map(|a| a.texts.iter().chain([&a.text]));
    own.chain(graphs.flat_map(around))
        .chain(texts.filter_map(|text| std::str::from_utf8(text).ok()))
        .collect()
}

/// Returns the names that a graph reads from outside.
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

/// The reads of a graph in progress.
#[derive(Default)]
pub(super) struct Reads<'a> {
    /// The last node that reads each name. An output is read after all nodes.
    last: HashMap<&'a str, usize>,
    /// The number of the next node.
    next: usize,
}

impl<'a> Reads<'a> {
    pub fn new(nodes: &'a [Node], outputs: Vec<&'a str>) -> Self {
        let mut last = HashMap::new();
        for (number, node) in nodes.iter().enumerate() {
            last.extend(reads(node).into_iter().map(|name| (name, number)));
        }
        last.extend(outputs.into_iter().map(|name| (name, usize::MAX)));
        Reads { last, next: 0 }
    }

    /// Begins the node with this number.
    pub fn begin(&mut self, number: usize) {
        self.next = number + 1;
    }

    /// Returns the number of the node in progress.
    pub fn number(&self) -> usize {
        self.next.saturating_sub(1)
    }

    /// Returns whether a node from the next one on reads a name, or whether it is an output.
    pub fn later(&self, name: &str) -> bool {
        self.last.get(name).is_some_and(|&last| last >= self.next)
    }
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
    fn what_no_output_needs_is_removed() {
        let two = Node { outputs: vec!["a".into(), "mask".into()], ..node(&["x"], "") };
        let nodes =
            vec![two, node(&["mask"], "unused"), node(&["unused"], "more"), node(&["a"], "y")];
        let kept = tidied(nodes, &["y".to_owned()]);
        assert_eq!(kept.iter().map(|node| node.outputs.join(",")).collect::<Vec<_>>(), ["a,", "y"]);
        // A needed cycle stays, so that the import reports it.
        assert_eq!(
            tidied(vec![node(&["b"], "a"), node(&["a"], "b")], &["a".to_owned()])[0].outputs,
            ["a"]
        );
    }

    #[test]
    fn what_is_in_order_stays() {
        assert_eq!(
            outputs(vec![
                node(&["x"], "b"),
                node(&[], "a"),
                node(&["b", "a"], "c"),
                node(&["x"], "d")
            ]),
            "b a c d"
        );
    }

    #[test]
    fn what_is_read_comes_first() {
        assert_eq!(
            outputs(vec![
                node(&["c", "c"], "d"),
                node(&["x"], "a"),
                node(&["b"], "c"),
                node(&["a"], "b")
            ]),
            "a b c d"
        );
        // A cycle is left for the import to report.
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
        let attribute =
            super::super::proto::Attribute { graph: Some(within), ..Default::default() };
        let branch = Node { attributes: vec![attribute], ..node(&["x"], "z") };
        // `a` of the outer graph is not the inner `a`.
        let wanted = ["late", "z", "a"].map(str::to_owned);
        let sorted = tidied(vec![branch, node(&["x"], "late"), node(&["z"], "a")], &wanted);
        assert_eq!(sorted[1].attributes[0].graph.as_ref().unwrap().nodes[0].outputs, ["own"]);
        assert_eq!(outputs(sorted), "late z a");
    }
}
