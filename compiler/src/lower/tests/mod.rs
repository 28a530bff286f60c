//! Snapshots of the graphs of small programs, and of each error.

mod assume;
mod einsum;
mod errors;
mod graphs;
mod layers;
mod masks;
mod training;

use super::*;
use crate::graph::Graph;

/// Parses a tensor type such as `f32[2, 3]`.
fn tensor(text: &str) -> Binding {
    let (dtype, sizes) = text.trim_end_matches(']').split_once('[').unwrap();
    let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape: Vec<usize> = sizes.map(|size| size.parse().unwrap()).collect();
    Binding::Tensor(TensorType::new(DType::parse(dtype).unwrap(), shape))
}

/// Parses `X = f32[2, 3]; S = 3; N: 8`: types and constants of inputs, and sizes.
fn bindings(text: &str) -> Bindings {
    let mut bindings = Bindings::default();
    for item in text.split("; ").filter(|item| !item.is_empty()) {
        if let Some((name, size)) = item.split_once(": ") {
            bindings.sizes.insert(name.to_owned(), size.parse().unwrap());
            continue;
        }
        let (name, value) = item.split_once(" = ").unwrap();
        let int = |_| value.parse().map(Binding::Int).map_err(|_| ());
        let float = |_| value.parse().map(Binding::Float).map_err(|_| ());
        let binding = Err(()).or_else(int).or_else(float).unwrap_or_else(|()| tensor(value));
        bindings.inputs.insert(name.to_owned(), binding);
    }
    bindings
}

/// Formats the graph of a program, or its errors.
fn lowered(source: &str, inputs: &str) -> String {
    let checked = tile_lang::check(source);
    let Some(program) = checked.program else {
        return format!("unchecked: {:?}", checked.diagnostics);
    };
    match lower(&program, None, &bindings(inputs)) {
        Ok(network) => {
            let graph = network.graph;
            graph.verify().unwrap();
            let text = graph.to_string();
            assert_eq!(Graph::parse(&text).unwrap().to_string(), text);
            text
        }
        Err(errors) => {
            errors.iter().map(|error| message(source, error)).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Formats an error: its code and message, each label with its source text, and the help.
fn message(source: &str, error: &Diagnostic) -> String {
    let mut text = format!("{}: {}", error.code, error.message);
    for label in &error.labels {
        let place =
            source.get(label.span.start as usize..label.span.end as usize).unwrap_or("(library)");
        text += &format!("\n  `{place}` {}", label.text);
    }
    if let Some(help) = &error.help {
        text += &format!("\n  help: {help}");
    }
    text
}
