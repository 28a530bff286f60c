//! A [`Graph`] as a drawing, in the DOT language of Graphviz.

use std::fmt::Write;

use super::{Graph, Op};

impl Graph {
    /// A box for each node, with its operation, source name and type, an arrow from each operand, and an ellipse for each
    /// output.
    pub fn dot(&self) -> String {
        let numbers = self.numbers();
        let mut text = format!("digraph {} {{\n    node [shape=box]\n", quoted(&self.name));
        for id in self.topological() {
            let node = self.node(id);
            let operation = match &node.op {
                Op::Input(name) => format!("input {name}"),
                Op::Weight(path) => format!("weight {path}"),
                Op::Constant(scalar) => scalar.to_string(),
                Op::Elements(_) => "elements".into(),
                Op::Index { axis } => format!("index {axis}"),
                Op::Unary(op) => op.name().into(),
                Op::Binary(op) => op.name().into(),
                Op::Select => "select".into(),
                Op::Cast => "cast".into(),
                Op::Reshape => "reshape".into(),
                Op::Contraction(contraction) => format!("contract {}", contraction.aggregation.name()),
                Op::PrngValue => "prng_value".into(),
                Op::PrngState { .. } => "prng_state".into(),
            };
            let name = node.name.as_ref().map(|name| format!("{name} = ")).unwrap_or_default();
            let label = quoted(&format!("{name}{operation}\n{}", node.ty));
            // Writing to a string does not fail.
            let _ = writeln!(text, "    n{} [label={label}]", numbers[&id]);
            for operand in self.operands(id) {
                let _ = writeln!(text, "    n{} -> n{}", numbers[&operand], numbers[&id]);
            }
        }
        for (position, (name, id)) in self.outputs.iter().enumerate() {
            let _ = writeln!(text, "    o{position} [label={}, shape=ellipse]", quoted(name));
            let _ = writeln!(text, "    n{} -> o{position}", numbers[id]);
        }
        text + "}\n"
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing() {
        let text = "graph g(%0) -> (Y = %1)\n%0 = input X : f32[2]\n%1 = add %0 %0 : f32[2]  # Y\n";
        let graph = Graph::parse(text).unwrap();
        insta::assert_snapshot!(graph.dot(), @r#"
        digraph "g" {
            node [shape=box]
            n0 [label="input X\nf32[2]"]
            n1 [label="Y = add\nf32[2]"]
            n0 -> n1
            n0 -> n1
            o0 [label="Y", shape=ellipse]
            n1 -> o0
        }
        "#);
    }
}
