//! Helpers for tests of passes: text in, text out.

use crate::graph::Graph;

/// Returns the text of the graph after the passes. Verifies the graph before, and after each pass.
pub(super) fn after(passes: &[fn(&mut Graph)], text: &str) -> String {
    let mut graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    for pass in passes {
        pass(&mut graph);
        graph.verify().unwrap();
    }
    graph.to_string()
}
