//! Names kernels after the layers and functions that they compute.
//!
//! Examples: `conv2d_batch_normalization_relu` for a convolution with fused operations;
//! `softmax_sum` for a kernel that computes only the value `Sum` of `softmax`; `y` for a value
//! without an origin.

use crate::graph::{Graph, NodeId};
use crate::names::snake_case;

/// Maximum number of functions in a name. A longer list keeps the function of the contraction (or
/// the first function) and the last ones.
const MOST_FUNCTIONS: usize = 4;

/// Returns the name of the kernel that computes `nodes`, operands before their readers, for
/// `roots`. It has only letters, digits and `_`.
pub(super) fn kernel_name(
    graph: &Graph,
    roots: &[NodeId],
    contraction: Option<NodeId>,
    nodes: &[NodeId],
) -> String {
    let function =
        |id: NodeId| graph.node(id).origin.as_ref().map(|origin| snake_case(&origin.function));
    let mut parts: Vec<String> = Vec::new();
    for part in nodes.iter().filter_map(|&id| function(id)) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if parts.len() > MOST_FUNCTIONS {
        let main = contraction.and_then(function).unwrap_or_else(|| parts[0].clone());
        let mut last = parts.split_off(parts.len() - MOST_FUNCTIONS);
        if !last.contains(&main) {
            last[0] = main;
        }
        parts = last;
    }
    let [.., main] = roots else { return "value".into() };
    let value = graph.node(*main).name.as_deref().map(snake_case);
    match value {
        Some(value)
            if (parts.is_empty() || (parts.len() == 1 && roots.len() == 1))
                && parts.last() != Some(&value) =>
        {
            parts.push(value)
        }
        _ => {}
    }
    let name = parts.join("_");
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("value{name}") }
}
