//! What kernels are called: by the layers and functions that they compute.
//!
//! Examples: `conv2d_batch_normalization_relu` for a convolution with what was fused into it; `softmax_sum` for the value
//! `Sum` of `softmax`, where a kernel computes part of one function; `y` for a value without an origin.

use crate::graph::{Graph, NodeId};

/// Functions named in one name: those of more are left out from the middle.
const MOST_FUNCTIONS: usize = 4;

/// The name of the kernel that computes `nodes`, operands before their readers, for `root`. Letters, digits and `_`.
pub(super) fn kernel_name(graph: &Graph, root: NodeId, contraction: Option<NodeId>, nodes: &[NodeId]) -> String {
    let function = |id: NodeId| graph.node(id).origin.as_ref().map(|origin| snake_case(&origin.function));
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
    let value = graph.node(root).name.as_deref().map(snake_case);
    match value {
        Some(value) if parts.len() < 2 && parts.last() != Some(&value) => parts.push(value),
        _ => {}
    }
    let name = parts.join("_");
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("value{name}") }
}

/// `MaxPooling2D` as `max_pooling2d`, `RMSNormalization` as `rms_normalization`; what is no letter or digit is `_`.
fn snake_case(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut words = String::new();
    for (position, &c) in characters.iter().enumerate() {
        let before = position.checked_sub(1).map(|before| characters[before]);
        let after_small = before.is_some_and(|before| before.is_ascii_lowercase());
        let ends_acronym = before.is_some_and(|before| before.is_ascii_uppercase())
            && characters.get(position + 1).is_some_and(|next| next.is_ascii_lowercase());
        if c.is_ascii_uppercase() && (after_small || ends_acronym) {
            words.push('_');
        }
        words.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    }
    words.trim_end_matches('_').to_owned()
}
