//! For tests of passes: text in, text out.

use crate::graph::Graph;

/// The text of the graph after the passes, each of which leaves it well-formed.
pub(super) fn after(passes: &[fn(&mut Graph)], text: &str) -> String {
    let mut graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    for pass in passes {
        pass(&mut graph);
        graph.verify().unwrap();
    }
    graph.to_string()
}
