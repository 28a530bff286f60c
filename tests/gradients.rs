//! Gradients of the library's layers are those of JAX, and gradients of random graphs are those of
//! finite differences.
//!
//! `CASE=conv2d cargo test --test gradients` runs the cases with `conv2d` in their names.

mod common;

use std::collections::HashMap;
use std::fmt::Write;

use common::ADAPTERS;
use common::generate::{self, Case as Random, config};
use common::golden::{Case, arrays, difference, refused, tensor_type, text};
use proptest::prelude::*;
use tile_compiler::gradient::gradients;
use tile_compiler::graph::{Aggregation, Graph, NodeId, Op};
use tile_compiler::interpret;
use tile_compiler::lower::{Binding, Bindings, lower};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{DType, Device, Model, Scalar, Session};

/// Adds an input for each float output, the factor of its gradient. The outputs become the
/// gradients with respect to `nodes`.
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

/// Returns the same values as `seed` in golden/gradients/make.py.
fn seed(number: usize, ty: &TensorType) -> Tensor {
    let value =
        |n: usize| Scalar::from_f64(ty.dtype, (((n * 37 + 11 * number) % 64) as f64 - 31.5) / 32.0);
    Tensor::from_scalars(ty.clone(), (0..ty.elements()).map(value)).unwrap()
}

/// Returns the float inputs and weights.
fn given(graph: &Graph) -> Vec<(String, NodeId)> {
    let given = graph.inputs.iter().chain(&graph.weights).filter(|id| graph.dtype(**id).is_float());
    given.map(|&id| (graph.node(id).op.given_name().unwrap_or_default().to_owned(), id)).collect()
}

/// Returns what is wrong with the gradients of a case.
fn check(
    case: &Case,
    tensors: &[Tensor],
    expected: &[(String, Tensor)],
    devices: &[Device],
) -> Result<(), String> {
    let names = |kind| case.of(kind).map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let source =
        format!("model Case({}) -> ({}) {{\n{}}}\n", names("input"), names("output"), case.body);
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
    // Training has more outputs, the updated states, which have no gradient.
    graph.outputs.truncate(case.of("output").count());
    let nodes: HashMap<String, NodeId> = given(&graph).into_iter().collect();
    let node = |(name, _): &(String, Tensor)| {
        Ok((name.clone(), *nodes.get(name).ok_or(format!("there is no {name}"))?))
    };
    let nodes = expected.iter().map(node).collect::<Result<Vec<_>, String>>()?;
    values.extend(differentiate(&mut graph, &nodes, seed));
    let read = |name: &str| graph.ids().any(|id| graph.node(id).op.given_name() == Some(name));
    values.retain(|(name, _)| read(name));
    let found = interpret::run(&graph, &values).map_err(|error| error.to_string())?;
    let mut faults = String::new();
    // A gradient that is 0 because large terms cancel keeps their rounding errors.
    let largest = expected
        .iter()
        .flat_map(|(_, tensor)| tensor.to_f64s())
        .fold(1e-3, |most: f64, x| most.max(x.abs()));
    let near = |found: &Tensor, expected: &Tensor| {
        let (found, expected) = (found.to_f64s(), expected.to_f64s());
        found.len() == expected.len()
            && found.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1e-6 * largest)
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
    compare("reference", &|name| {
        found.iter().find(|(found, _)| found == name).map(|(_, tensor)| tensor.clone())
    });
    for device in devices {
        let mut session =
            Session::of_graph(graph.clone(), device).map_err(|error| error.to_string())?;
        let given = values.iter().map(|(name, tensor)| (name.as_str(), tensor));
        let outputs = session.run(given).map_err(|error| error.to_string())?;
        compare(device.name(), &|name| outputs.get(name).cloned());
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Returns the kernel checker, and the adapters that wgpu finds.
fn gpus() -> Vec<Device> {
    [vec![Device::named("check").unwrap()], ADAPTERS.clone()].concat()
}

#[test]
fn layers_have_the_gradients_of_jax() {
    let only = std::env::var("CASE").unwrap_or_default();
    hold_to_jax(|name| name.contains(&only), &[Device::cpu()]);
}

/// Layers of every kind.
const ON_GPUS: [&str; 18] = [
    "dense_softmax",
    "embedding",
    "conv1d_causal_dilated",
    "conv2d_same_strided",
    "conv2d_same_dilated",
    "conv2d_groups",
    "conv2d_transpose_same",
    "depthwise_conv2d_same_strided",
    "max_pooling2d_same_overlapping",
    "average_pooling2d_same_overlapping",
    "global_max_pooling2d",
    "batch_normalization_training_of_images",
    "layer_normalization_of_sequence",
    "multi_head_attention_causal",
    "lstm_sequences",
    "gru_mask",
    "up_sampling2d_bilinear",
    "log_softmax_axis",
];

#[test]
fn layers_have_the_gradients_of_jax_on_gpus() {
    hold_to_jax(|name| ON_GPUS.contains(&name), &gpus());
}

fn hold_to_jax(wanted: impl Fn(&str) -> bool, devices: &[Device]) {
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
            Case::read(family)
                .into_iter()
                .map(with_tensors)
                .map(|(tensors, case)| (case, tensors))
                .collect()
        });
        if !wanted(name) {
            continue;
        }
        run += 1;
        let (case, tensors) = cases.iter().find(|(case, _)| case.name == name).unwrap();
        if let Err(fault) = check(case, tensors, &expected, devices) {
            faults.push(format!("{family} {name}\n{fault}"));
        }
    }
    assert!(faults.is_empty(), "{} of {run} cases:\n{}", faults.len(), faults.join("\n"));
}

/// The programs of the compiler's own tests, one for each construct, in f32 on every device.
#[test]
fn programs_have_the_same_gradients_on_every_device() {
    let devices = [vec![Device::cpu()], gpus()].concat();
    let mut faults = String::new();
    for block in include_str!("../compiler/src/gradient/tests/programs.txt").split("\n\n") {
        let (mut source, mut given, mut expected) = (String::new(), Vec::new(), Vec::new());
        for line in block.lines().skip(1) {
            if let Some(line) = line.strip_prefix("    ") {
                source += &format!("{line}\n");
                continue;
            }
            let (words, values) = line.split_once("] ").unwrap();
            let (kind, rest) = words.split_once(' ').unwrap();
            let (name, ty) = rest.split_once(' ').unwrap();
            let ty = tensor_type(&format!("{}]", ty.replace("f64", "f32")));
            let scalars = values.split(' ').map(|value| Scalar::parse(ty.dtype, value).unwrap());
            let tensor = Tensor::from_scalars(ty.clone(), scalars.collect::<Vec<_>>()).unwrap();
            if kind == "input" { &mut given } else { &mut expected }
                .push((name.to_owned(), tensor));
        }
        let name = block.lines().next().unwrap_or_default();
        let model = Model::compile(&source).unwrap();
        for device in &devices {
            let build = || {
                let types = given.iter().map(|(name, tensor)| (name, tensor.ty().clone()));
                types.fold(model.on(device), |builder, (name, ty)| builder.input(name, ty)).build()
            };
            let run = |mut session: Session| {
                session.run(given.iter().map(|(name, tensor)| (name, tensor)))
            };
            let outputs = match build().and_then(run) {
                Ok(outputs) => outputs,
                Err(error) => {
                    let _ = writeln!(faults, "{name} on {}: {error}", device.name());
                    continue;
                }
            };
            for (output, expected) in &expected {
                let (found, expected) =
                    (outputs.get(output).unwrap().to_f64s(), expected.to_f64s());
                let scale = expected.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
                let wrong = found
                    .iter()
                    .zip(&expected)
                    .position(|(a, b)| (a - b).abs().is_nan() || (a - b).abs() > 2e-5 * scale);
                if let Some(at) = wrong {
                    let (found, expected) = (found[at], expected[at]);
                    let _ = writeln!(
                        faults,
                        "{name} on {}: {output} is {found} at {at}, not {expected}",
                        device.name()
                    );
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// The maximum of computed values, two of which are equal: each gets half of the gradient, even if
/// a device fuses multiplication and addition in one kernel and not in another.
#[test]
fn computed_values_that_are_equal_share_a_gradient() {
    let source = "function f(A[N, D], B[N, D], C[D]) -> (G) {
        X = A * B + C;
        M[n: N] = >(X[n, d]);
        G = grad(sum(M), X);
    }";
    let value = |n: usize| ((n * 7919 + 13) % 101) as f32 / 7.0 + 0.1;
    let columns = |n: usize| if n % 64 == 63 { n - 63 } else { n };
    let tensor = |shape: &[usize], shift: usize| {
        let count = shape.iter().product::<usize>();
        Tensor::from_f32(shape, &(0..count).map(|n| value(columns(n) + shift)).collect::<Vec<_>>())
            .unwrap()
    };
    let given =
        [("A", tensor(&[16, 64], 0)), ("B", tensor(&[16, 64], 31)), ("C", tensor(&[64], 5))];
    let model = Model::compile(source).unwrap();
    for device in [vec![Device::reference(), Device::cpu()], gpus()].concat() {
        let builder = given
            .iter()
            .fold(model.on(&device), |builder, (name, x)| builder.input(*name, x.shape()));
        let g = builder.build().unwrap().run(given.clone()).unwrap().remove("G").unwrap().to_f64s();
        for row in g.chunks(64) {
            assert_eq!(row.iter().sum::<f64>(), 1.0, "{} {row:?}", device.name());
            assert_eq!(row[0], row[63], "{}", device.name());
        }
    }
}

/// With 16-bit floats a device computes the gradient, or names the type that it lacks.
#[test]
fn gradients_of_narrow_floats() {
    let source = "function f(X[N, K], W[K, U]) -> (DX, DW) {
        Y[n, u: N, U] = +(X[n, k] * W[k, u]);
        Z = tanh(Y);
        M[n: N] = >(Z[n, u]);
        DX, DW = grad(sum(M) + sum(Z * Z), [X, W]);
    }";
    let model = Model::compile(source).unwrap();
    for dtype in [DType::F16, DType::BF16] {
        let tensor = |shape: [usize; 2]| seed(3, &TensorType::new(dtype, shape));
        let given = [("X", tensor([6, 5])), ("W", tensor([5, 7]))];
        let gradients = |device: &Device| {
            let builder = given
                .iter()
                .fold(model.on(device), |builder, (name, x)| builder.input(*name, x.ty().clone()));
            builder.build().and_then(|mut session| session.run(given.clone()))
        };
        let expected = gradients(&Device::reference()).unwrap();
        for device in [vec![Device::cpu()], gpus()].concat() {
            match gradients(&device) {
                Ok(found) => {
                    for ((name, found), (_, expected)) in found.iter().zip(expected.iter()) {
                        assert_eq!(found.dtype(), dtype);
                        let pairs = found.to_f64s().into_iter().zip(expected.to_f64s());
                        for (a, b) in pairs {
                            assert!(
                                (a - b).abs() <= 0.05,
                                "{name} of {dtype} on {}: {a} {b}",
                                device.name()
                            );
                        }
                    }
                }
                Err(error) => {
                    assert!(
                        refused(&error) && error.to_string().contains(dtype.name()),
                        "{}: {error}",
                        device.name()
                    );
                }
            }
        }
    }
}

/// Converts a case to f64, with inputs between the multiples of 1/4, so that no function has a kink
/// there.
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
            Tensor::from_scalars(
                ty,
                moved.map(|x| Scalar::from_f64(DType::F64, x)).collect::<Vec<_>>(),
            )
            .unwrap(),
        )
    });
    (graph, inputs.collect())
}

fn dot(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b).sum()
}

/// More points than this are too many to interpret.
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

/// Compares the gradients of `graph`'s outputs with central differences along one direction.
/// Returns the graph that has the gradients as outputs, and its inputs, or `None` if they cannot be
/// compared.
fn held_to_differences(
    graph: &Graph,
    inputs: &[(String, Tensor)],
) -> Result<Option<(Graph, Named)>, TestCaseError> {
    let mut gradient = graph.clone();
    let nodes: Vec<(String, NodeId)> = given(graph)
        .into_iter()
        .filter(|(name, _)| inputs.iter().any(|(known, _)| known == name))
        .collect();
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
                    (
                        name.clone(),
                        Tensor::from_scalars(tensor.ty().clone(), values.collect::<Vec<_>>())
                            .unwrap(),
                    )
                }
            })
            .collect();
        let outputs = interpret::run(graph, &moved).unwrap();
        let floats: Vec<Vec<f64>> = outputs
            .iter()
            .filter(|(_, y)| y.dtype().is_float())
            .map(|(_, y)| y.to_f64s())
            .collect();
        let seeds: Vec<Vec<f64>> = seeds.iter().map(|(_, seed)| seed.to_f64s()).collect();
        (dot(&floats, &seeds), floats.iter().flatten().map(|y| y.abs()).sum::<f64>())
    };
    let (here, size) = total(0.0);
    // The slope between two points on either side, and how much it differs between the sides.
    let slope_and_bend = |h: f64| {
        let (after, before) = (total(h).0, total(-h).0);
        ((after - before) / (2.0 * h), (after - 2.0 * here + before) / h)
    };
    let ((wide, wide_bend), (narrow, narrow_bend)) = (slope_and_bend(2e-5), slope_and_bend(1e-5));
    let mut given = inputs.to_vec();
    given.extend(seeds.iter().cloned());
    let found = interpret::run(&gradient, &given).unwrap();
    let found: Vec<Vec<f64>> = found.iter().map(|(_, tensor)| tensor.to_f64s()).collect();
    let analytic = dot(&found, &direction);
    let scale = found.iter().flatten().map(|g| g.abs()).sum::<f64>().max(1e-3) + 1e-6 * size;
    // If differences do not converge, there is a kink, or a value too large for them. At a kink
    // exactly here they do converge, to the mean of both sides: there the bend stays, while that of
    // a smooth function halves with the step.
    let converge = (wide - narrow).abs() <= 1e-5 * scale
        && (wide_bend - 2.0 * narrow_bend).abs() <= 1e-5 * scale;
    if !converge || !wide.is_finite() {
        return Ok(None);
    }
    prop_assert!(
        (analytic - narrow).abs() <= 1e-4 * scale,
        "{analytic} is not {narrow}; of\n{graph}\nit is\n{gradient}"
    );
    Ok(Some((gradient, given)))
}

/// Excludes positions, and products of very many terms.
fn differentiable(graph: &Graph) -> bool {
    points(graph) <= POINTS / 20.0
        && graph.ids().all(|id| match &graph.node(id).op {
            Op::Contraction(op) => op.aggregation != Aggregation::Product || points(graph) < 1e3,
            _ => true,
        })
}

fn check_differences(case: &Random) -> Result<(), TestCaseError> {
    let (graph, inputs) = smooth(case);
    let compared =
        if differentiable(&graph) { held_to_differences(&graph, &inputs)? } else { None };
    let Some((gradient, inputs)) = compared else {
        return Err(TestCaseError::reject("it cannot be compared"));
    };
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
