//! Draws a [`Graph`] in Graphviz's DOT language.

use std::fmt::Write;

use super::{Graph, Op};

impl Graph {
    /// Returns a drawing: a box for each node with its operation, source name and type, an arrow
    /// from each operand, and an ellipse for each output. A scan is a frame around its body.
    pub fn dot(&self) -> String {
        let numbers = self.numbers();
        let mut text = format!("digraph {} {{\n    node [shape=box]\n", quoted(&self.name));
        self.draw(&mut text, "n");
        for (position, (name, id)) in self.outputs.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "    o{position} [label={}, shape=ellipse]", quoted(name));
            let _ = writeln!(text, "    n{} -> o{position}", numbers[*id]);
        }
        text + "}\n"
    }

    /// Draws the nodes. The names of their boxes start with `prefix`.
    fn draw(&self, text: &mut String, prefix: &str) {
        let numbers = self.numbers();
        for id in self.topological() {
            let node = self.node(id);
            let name = format!("{prefix}{}", numbers[id]);
            let operands =
                self.operands(id).iter().map(|operand| format!("{prefix}{}", numbers[*operand]));
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
                Op::StopGradient => "stop_gradient".into(),
                Op::Contraction(contraction) => {
                    format!("contract {}", contraction.aggregation.name())
                }
                Op::PrngValue => "prng_value".into(),
                Op::PrngState { .. } => "prng_state".into(),
                Op::Scan(scan) => {
                    let label = quoted(&format!("scan {}", scan.length));
                    let _ = writeln!(text, "    subgraph cluster_{name} {{\n    label={label}");
                    let inside = format!("{name}_");
                    scan.body.draw(text, &inside);
                    text.push_str("    }\n");
                    let inner = scan.body.numbers();
                    for (operand, input) in operands.zip(&scan.body.inputs) {
                        let _ = writeln!(text, "    {operand} -> {inside}{}", inner[*input]);
                    }
                    for user in self.users(id) {
                        if let Op::Result { number } = self.node(user).op {
                            let (_, output) = &scan.body.outputs[number];
                            let _ = writeln!(
                                text,
                                "    {inside}{} -> {prefix}{}",
                                inner[*output], numbers[user]
                            );
                        }
                    }
                    continue;
                }
                Op::Result { number } => format!("result {number}"),
            };
            let source = node.name.as_ref().map(|name| format!("{name} = ")).unwrap_or_default();
            let label = quoted(&format!("{source}{operation}\n{}", node.ty));
            let _ = writeln!(text, "    {name} [label={label}]");
            if !matches!(node.op, Op::Result { .. }) {
                operands.for_each(|operand| _ = writeln!(text, "    {operand} -> {name}"));
            }
        }
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

    #[test]
    fn a_scan_is_a_frame() {
        let text = "graph g(%0, %1) -> (Y = %3)
%0 = input X : f32[5]
%1 = input H : f32[]
%2 = scan 5 sequences (%0 along 0) carries (%1) captures () yields (along 0) {
    graph step(%0, %1) -> (H = %2, All = %2)
    %0 = input x : f32[]
    %1 = input h : f32[]
    %2 = add %0 %1 : f32[]
} : f32[]
%3 = result 1 %2 : f32[5]  # Y
";
        insta::assert_snapshot!(Graph::parse(text).unwrap().dot(), @r#"
        digraph "g" {
            node [shape=box]
            n0 [label="input X\nf32[5]"]
            n1 [label="input H\nf32[]"]
            subgraph cluster_n2 {
            label="scan 5"
            n2_0 [label="input x\nf32[]"]
            n2_1 [label="input h\nf32[]"]
            n2_2 [label="add\nf32[]"]
            n2_0 -> n2_2
            n2_1 -> n2_2
            }
            n0 -> n2_0
            n1 -> n2_1
            n2_2 -> n3
            n3 [label="Y = result 1\nf32[5]"]
            o0 [label="Y", shape=ellipse]
            n3 -> o0
        }
        "#);
    }
}
