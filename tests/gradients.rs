//! Gradients: of the library's layers those of JAX, of random graphs those of finite differences.
//!
//! `CASE=conv2d cargo test --test gradients` runs the cases with `conv2d` in their names.

mod common;

use std::collections::HashMap;
use std::fmt::Write;

use common::generate::{self, Case as Random, config};
use common::golden::{Case, arrays, difference, text};
use proptest::prelude::*;
use tile_compiler::gradient::gradients;
use tile_compiler::graph::{Aggregation, Graph, NodeId, Op};
use tile_compiler::interpret;
use tile_compiler::lower::{Binding, Bindings, lower};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{DType, Device, Scalar, Session};

/// Adds an input for each output that is a float: what multiplies its gradient. The outputs are then the gradients with
/// respect to nodes.
fn differentiate(
    graph: &mut Graph,
    nodes: &[(String, NodeId)],
    seed: impl Fn(usize, &TensorType) -> Tensor,
) -> Vec<(String, Tensor)> {
    let mut seeds = Vec::new();
    let mut of = Vec::new();
    for (number, (_, id)) in graph.outputs.clone().into_iter().enumerate() {
        let ty = graph.node(id).ty.clone();
        if ty.dtype.is_float() {
            let name = format!("seed{}.{number}", graph.inputs.len());
            seeds.push((name.clone(), seed(number, &ty)));
            of.push((id, graph.add(Op::Input(name), ty, &[])));
        }
    }
    let ids: Vec<NodeId> = nodes.iter().map(|(_, id)| *id).collect();
    let found = gradients(graph, &of, &ids).unwrap();
    graph.outputs = nodes.iter().map(|(name, _)| format!("d{name}")).zip(found).collect();
    graph.verify().unwrap();
    seeds
}

/// As `seed` in golden/gradients/make.py.
fn seed(number: usize, ty: &TensorType) -> Tensor {
    let value = |n: usize| Scalar::from_f64(ty.dtype, (((n * 37 + 11 * number) % 64) as f64 - 31.5) / 32.0);
    Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(value)).unwrap()
}

/// The inputs and weights that are floats.
fn given(graph: &Graph) -> Vec<(String, NodeId)> {
    let given = graph.inputs.iter().chain(&graph.weights).filter(|id| graph.dtype(**id).is_float());
    given.map(|&id| (graph.node(id).op.given_name().unwrap_or_default().to_owned(), id)).collect()
}

/// What is wrong with the gradients of a case.
fn check(case: &Case, tensors: &[Tensor], expected: &[(String, Tensor)]) -> Result<(), String> {
    let names = |kind| case.of(kind).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let source = format!("model Case({}) -> ({}) {{\n{}}}\n", names("input"), names("output"), case.body);
    let program = tile_lang::check(&source).program.ok_or("it does not check")?;
    let mut bindings = Bindings { training: case.training, ..Bindings::default() };
    let mut values = Vec::new();
    for ((kind, name, _), tensor) in case.lines.iter().zip(tensors) {
        if kind == "input" {
            bindings.inputs.insert(name.clone(), Binding::Tensor(tensor.ty().clone()));
        }
        if kind == "input" || kind == "weight" {
            values.push((name.clone(), tensor.clone()));
        }
    }
    let network = lower(&program, None, &bindings).map_err(|errors| format!("{errors:?}"))?;
    let mut graph = network.graph;
    // Training has more outputs: what is kept, which has no gradient.
    graph.outputs.truncate(case.of("output").count());
    let nodes: HashMap<String, NodeId> = given(&graph).into_iter().collect();
    let node =
        |(name, _): &(String, Tensor)| Ok((name.clone(), *nodes.get(name).ok_or(format!("there is no {name}"))?));
    let nodes = expected.iter().map(node).collect::<Result<Vec<_>, String>>()?;
    values.extend(differentiate(&mut graph, &nodes, seed));
    let read = |name: &str| graph.ids().any(|id| graph.node(id).op.given_name() == Some(name));
    values.retain(|(name, _)| read(name));
    let found = interpret::run(&graph, &values).map_err(|error| error.to_string())?;
    let mut faults = String::new();
    // Of a gradient that is 0, as large terms cancel in it, there is left what rounding leaves of them.
    let largest = expected.iter().flat_map(|(_, tensor)| tensor.to_f64s()).fold(1e-3, |most: f64, x| most.max(x.abs()));
    let near = |found: &Tensor, expected: &Tensor| {
        let (found, expected) = (found.to_f64s(), expected.to_f64s());
        found.len() == expected.len() && found.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1e-6 * largest)
    };
    let mut compare = |device: &str, found: &dyn Fn(&str) -> Option<Tensor>| {
        for (name, expected) in expected {
            let fault = match found(&format!("d{name}")) {
                Some(found) if near(&found, expected) => None,
                Some(found) => difference(&found, expected),
                None => Some("is not there".into()),
            };
            if let Some(fault) = fault {
                let _ = writeln!(faults, "{device}: d{name} {fault}");
            }
        }
    };
    compare("reference", &|name| found.iter().find(|(found, _)| found == name).map(|(_, tensor)| tensor.clone()));
    let mut session = Session::of_graph(graph, &Device::cpu()).map_err(|error| error.to_string())?;
    let given = values.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let outputs = session.run(given).map_err(|error| error.to_string())?;
    compare("cpu", &|name| outputs.get(name).cloned());
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

#[test]
fn layers_have_the_gradients_of_jax() {
    let only = std::env::var("CASE").unwrap_or_default();
    let mut families: HashMap<String, Vec<(Case, Vec<Tensor>)>> = HashMap::new();
    let mut next = arrays("gradients/layers.npy");
    let (mut run, mut faults) = (0, Vec::new());
    for line in text("gradients/layers.txt").lines() {
        let mut words = line.split(' ');
        let (family, name) = (words.next().unwrap(), words.next().unwrap());
        let expected: Vec<(String, Tensor)> = words.map(|name| (name.to_owned(), next())).collect();
        let cases = families.entry(family.to_owned()).or_insert_with(|| {
            let mut next = arrays(&format!("layers/{family}.npy"));
            let with_tensors = |case: Case| (case.lines.iter().map(|_| next()).collect(), case);
            Case::read(family).into_iter().map(with_tensors).map(|(tensors, case)| (case, tensors)).collect()
        });
        if !name.contains(&only) {
            continue;
        }
        run += 1;
        let (case, tensors) = cases.iter().find(|(case, _)| case.name == name).unwrap();
        if let Err(fault) = check(case, tensors, &expected) {
            faults.push(format!("{family} {name}\n{fault}"));
        }
    }
    assert!(faults.is_empty(), "{} of {run} cases:\n{}", faults.len(), faults.join("\n"));
}

/// A case whose floats are all f64, with inputs between the multiples of 1/4 that they are, so that nothing has a kink there.
fn smooth(case: &Random) -> (Graph, Vec<(String, Tensor)>) {
    let mut text = case.graph.to_string();
    for narrow in ["bf16", "f16", "f32"] {
        text = text.replace(narrow, "f64");
    }
    let graph = Graph::parse(&text).unwrap();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / 2f64.powi(53)
    };
    let inputs = case.inputs.iter().map(|(name, tensor)| {
        if !tensor.dtype().is_float() {
            return (name.clone(), tensor.clone());
        }
        let ty = TensorType::new(DType::F64, tensor.shape());
        let moved = tensor.to_f64s().into_iter().map(|x| x + 0.2 * (random() - 0.5));
        (
            name.clone(),
            Tensor::from_scalars(ty, moved.map(|x| Scalar::from_f64(DType::F64, x)).collect::<Vec<_>>()).unwrap(),
        )
    });
    let inputs = inputs.collect();
    (graph, inputs)
}

/// A sum of products of all elements of tensors.
fn dot(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b).sum()
}

/// So many points are too many to interpret.
const POINTS: f64 = 1e6;

fn points(graph: &Graph) -> f64 {
    let of = |id: NodeId| match &graph.node(id).op {
        Op::Contraction(op) => op.indices.iter().map(|i| (i.high - i.low) as f64).product(),
        _ => graph.node(id).ty.elements() as f64,
    };
    graph.ids().map(of).sum()
}

/// Tensors by name.
type Named = Vec<(String, Tensor)>;

/// Holds the gradients of `graph`'s outputs to central differences along one direction. Answers the graph that has the
/// gradients as outputs, and its inputs; `None` where that cannot be compared.
fn held_to_differences(graph: &Graph, inputs: &[(String, Tensor)]) -> Result<Option<(Graph, Named)>, TestCaseError> {
    let mut gradient = graph.clone();
    let nodes: Vec<(String, NodeId)> =
        given(graph).into_iter().filter(|(name, _)| inputs.iter().any(|(known, _)| known == name)).collect();
    let seeds = differentiate(&mut gradient, &nodes, seed);
    if nodes.is_empty() || seeds.is_empty() || points(&gradient) > POINTS {
        return Ok(None);
    }
    let names: Vec<&String> = nodes.iter().map(|(name, _)| name).collect();
    let direction: Vec<Vec<f64>> = nodes
        .iter()
        .enumerate()
        .map(|(n, (_, id))| seed(n + 5, &TensorType::new(DType::F64, graph.shape(*id))).to_f64s())
        .collect();
    let total = |step: f64| {
        let moved: Vec<(String, Tensor)> = inputs
            .iter()
            .map(|(name, tensor)| match names.iter().position(|n| *n == name) {
                None => (name.clone(), tensor.clone()),
                Some(n) => {
                    let values = tensor
                        .to_f64s()
                        .into_iter()
                        .zip(&direction[n])
                        .map(|(x, d)| Scalar::from_f64(DType::F64, x + step * d));
                    (name.clone(), Tensor::from_scalars(tensor.ty().clone(), values.collect::<Vec<_>>()).unwrap())
                }
            })
            .collect();
        let outputs = interpret::run(graph, &moved).unwrap();
        let floats: Vec<Vec<f64>> =
            outputs.iter().filter(|(_, y)| y.dtype().is_float()).map(|(_, y)| y.to_f64s()).collect();
        let seeds: Vec<Vec<f64>> = seeds.iter().map(|(_, seed)| seed.to_f64s()).collect();
        (dot(&floats, &seeds), floats.iter().flatten().map(|y| y.abs()).sum::<f64>())
    };
    let slope = |h: f64| (total(h).0 - total(-h).0) / (2.0 * h);
    let (wide, narrow) = (slope(2e-5), slope(1e-5));
    let mut given = inputs.to_vec();
    given.extend(seeds.iter().cloned());
    let found = interpret::run(&gradient, &given).unwrap();
    let found: Vec<Vec<f64>> = found.iter().map(|(_, tensor)| tensor.to_f64s()).collect();
    let analytic = dot(&found, &direction);
    let scale = found.iter().flatten().map(|g| g.abs()).sum::<f64>().max(1e-3) + 1e-6 * total(0.0).1;
    // Where differences do not converge there is a kink, or a value too large for them.
    let converge = (wide - narrow).abs() <= 1e-5 * scale;
    if !converge || !wide.is_finite() {
        return Ok(None);
    }
    prop_assert!(
        (analytic - narrow).abs() <= 1e-4 * scale,
        "{analytic} is not {narrow}; of\n{graph}\nit is\n{gradient}"
    );
    Ok(Some((gradient, given)))
}

/// Positions and products of very many terms are left out.
fn differentiable(graph: &Graph) -> bool {
    points(graph) <= POINTS / 20.0
        && graph.ids().all(|id| match &graph.node(id).op {
            Op::Contraction(op) => op.aggregation != Aggregation::Product || points(graph) < 1e3,
            _ => true,
        })
}

fn check_differences(case: &Random) -> Result<(), TestCaseError> {
    let (graph, inputs) = smooth(case);
    let compared = if differentiable(&graph) { held_to_differences(&graph, &inputs)? } else { None };
    let Some((gradient, inputs)) = compared else { return Err(TestCaseError::reject("it cannot be compared")) };
    if points(&gradient) < POINTS / 20.0 {
        held_to_differences(&gradient, &inputs)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(128))]

    #[test]
    fn contractions_have_the_gradients_of_differences(case in generate::contraction()) {
        check_differences(&case)?;
    }

    #[test]
    fn elementwise_operations_have_the_gradients_of_differences(case in generate::elementwise()) {
        check_differences(&case)?;
    }

    #[test]
    fn chains_have_the_gradients_of_differences(case in generate::chain()) {
        check_differences(&case)?;
    }
}
