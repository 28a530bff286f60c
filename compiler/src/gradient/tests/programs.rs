//! Programs with `grad` give the results of JAX and PyTorch. The script programs.py makes the
//! cases.

use crate::dtype::{DType, Scalar};
use crate::interpret;
use crate::lower::{Binding, Bindings, lower};
use crate::pipeline;
use crate::tensor::{Tensor, TensorType};

/// Parses a type such as `f64[2, 3`.
fn tensor_type(text: &str) -> TensorType {
    let (dtype, sizes) = text.split_once('[').unwrap();
    let sizes = sizes.split(", ").filter(|size| !size.is_empty()).map(|size| size.parse().unwrap());
    TensorType::new(DType::parse(dtype).unwrap(), sizes.collect::<Vec<_>>())
}

/// Checks a case of programs.txt.
fn check(block: &str) -> Result<(), String> {
    let mut source = String::new();
    let (mut given, mut expected) = (Vec::new(), Vec::new());
    for line in block.lines().skip(1) {
        if let Some(line) = line.strip_prefix("    ") {
            source += line;
            source.push('\n');
            continue;
        }
        let (words, values) = line.split_once("] ").unwrap();
        let (kind, rest) = words.split_once(' ').unwrap();
        let (name, ty) = rest.split_once(' ').unwrap();
        let ty = tensor_type(ty);
        let scalars = values.split(' ').map(|value| Scalar::parse(ty.dtype, value).unwrap());
        let tensor = Tensor::from_scalars(ty.clone(), scalars.collect::<Vec<_>>()).unwrap();
        if kind == "input" { &mut given } else { &mut expected }.push((name.to_owned(), tensor));
    }
    let checked = tile_lang::check(&source);
    let program = checked.program.ok_or_else(|| format!("{:?}", checked.diagnostics))?;
    let inputs =
        given.iter().map(|(name, tensor)| (name.clone(), Binding::Tensor(tensor.ty().clone())));
    let bindings = Bindings { inputs: inputs.collect(), ..Bindings::default() };
    let network = lower(&program, None, &bindings).map_err(|errors| format!("{errors:?}"))?;
    network.graph.verify()?;
    let mut graph = network.graph.clone();
    pipeline::optimise(&mut graph);
    for graph in [&network.graph, &graph] {
        let found = interpret::run(graph, &given).map_err(|error| error.to_string())?;
        for ((name, expected), (_, found)) in expected.iter().zip(&found) {
            let (expected, found) = (expected.to_f64s(), found.to_f64s());
            let scale = expected.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-7 * scale;
            if !found.iter().zip(&expected).all(near) {
                return Err(format!("{name} is {found:?}, not {expected:?}\n{graph}"));
            }
        }
    }
    Ok(())
}

#[test]
fn programs_have_the_gradients_of_jax_and_pytorch() {
    let faults: Vec<String> = include_str!("programs.txt")
        .split("\n\n")
        .filter_map(|block| Some(format!("{}: {}", block.lines().next()?, check(block).err()?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
