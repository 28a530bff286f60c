//! The library's layers, activations and initializers match Keras and PyTorch: golden/layers has
//! their values.
//!
//! `CASE=lstm cargo test --test layers` runs the cases with `lstm` in their names.

mod common;

use std::fmt::Write;

use common::ADAPTERS;
use common::golden::{Case, arrays, difference, refused, render, tensor_type, text};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{DType, Device, Model, Scalar};

/// Runs a case on a device, and returns what is wrong with the results.
fn check(case: &Case, model: &Model, tensors: &[Tensor], device: &Device) -> Result<(), String> {
    let mut builder = model.on(device).training(case.training);
    let named = || {
        case.lines
            .iter()
            .zip(tensors)
            .map(|((kind, name, _), tensor)| (kind.as_str(), name, tensor))
    };
    for (_, name, tensor) in named().filter(|(kind, ..)| *kind == "input") {
        builder = builder.input(name, tensor.ty().clone());
    }
    let mut session = match builder.build() {
        Err(error) if refused(&error) => return Ok(()),
        session => session.map_err(|error| render(&error))?,
    };
    // The session has exactly the case's weights.
    let mut found: Vec<String> =
        session.weights().map(|(path, ty)| format!("{path} {ty}")).collect();
    let mut expected: Vec<String> =
        case.of("weight").map(|(path, ty)| format!("{path} {ty}")).collect();
    found.sort();
    expected.sort();
    if found != expected {
        return Err(format!("its weights are {found:?}, not {expected:?}"));
    }
    let given = named().filter(|(kind, ..)| matches!(*kind, "input" | "weight"));
    let outputs = session
        .run(given.map(|(_, name, tensor)| (name, tensor)))
        .map_err(|error| render(&error))?;
    let mut faults = String::new();
    for (kind, name, tensor) in named().filter(|(kind, ..)| matches!(*kind, "output" | "update")) {
        let fault = outputs
            .get(name)
            .map_or(Some("is not there".into()), |found| difference(found, tensor));
        if let Some(fault) = fault {
            let _ = writeln!(faults, "{kind} {name} {fault}");
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Panics with what is wrong with the cases of a family.
fn check_everywhere(family: &str) {
    let devices = [vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat();
    let only = std::env::var("CASE").unwrap_or_default();
    let mut next = arrays(&format!("layers/{family}.npy"));
    let mut faults = String::new();
    let (mut run, mut wrong) = (0, 0);
    for case in Case::read(family) {
        let tensors: Vec<Tensor> = case.lines.iter().map(|_| next()).collect();
        for ((_, name, ty), tensor) in case.lines.iter().zip(&tensors) {
            assert_eq!(*tensor.ty(), tensor_type(ty), "{name} of {}", case.name);
        }
        if !case.name.contains(&only) {
            continue;
        }
        run += 1;
        let fault = case.program().map_err(|fault| format!("\n{fault}")).and_then(|model| {
            devices.iter().try_for_each(|device| {
                check(&case, &model, &tensors, device)
                    .map_err(|fault| format!(" on {}\n{fault}", device.name()))
            })
        });
        if let Err(fault) = fault {
            wrong += 1;
            let _ = writeln!(faults, "{}{fault}", case.name);
        }
    }
    assert!(wrong == 0, "{wrong} of {run} cases:\n{faults}");
}

macro_rules! families {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check_everywhere(stringify!($name));
        })*
    };
}

families! {
    core convolution pooling normalization regularization attention transformer merging reshaping activation
    activation_layers more recurrent recurrent_cells conv_lstm images augmentation
    preprocessing boxes
}

/// The standard deviation of the normal distribution truncated to -2 … 2.
const TRUNCATED: f64 = 0.879_625_661_034_239_8;

/// Returns what is wrong with the initial values of a weight. golden/layers/initializers.py checks
/// Keras' in the same way.
fn complaint(tensor: &Tensor, kind: &str, parameters: &[f64]) -> Option<String> {
    let values = tensor.to_f64s();
    let columns = tensor.shape().last().copied().unwrap_or(1);
    let rows = values.len() / columns;
    let at = |row: usize, column: usize| values[row * columns + column];
    let all = |right: &dyn Fn(usize, usize) -> f64| {
        (0..values.len()).all(|place| values[place] == right(place / columns, place % columns))
    };
    let exact = match kind {
        "constant" => Some(all(&|_, _| parameters[0])),
        "parts" => Some(all(&|_, column| parameters[column * parameters.len() / columns])),
        "identity" => Some(all(&|row, column| if row == column { parameters[0] } else { 0.0 })),
        _ => None,
    };
    if let Some(exact) = exact {
        return (!exact).then(|| format!("{tensor:?}"));
    }
    let count = values.len() as f64;
    let (least, greatest) =
        values.iter().fold((f64::MAX, f64::MIN), |(l, g), &v| (l.min(v), g.max(v)));
    let (low, high, mean, deviation, fourth) = match (kind, parameters) {
        ("orthogonal", &[gain]) => {
            let product = |a: usize, b: usize| -> f64 {
                match rows < columns {
                    true => (0..columns).map(|c| at(a, c) * at(b, c)).sum(),
                    false => (0..rows).map(|r| at(r, a) * at(r, b)).sum(),
                }
            };
            let few = rows.min(columns);
            let error =
                |a: usize, b: usize| (product(a, b) - if a == b { gain * gain } else { 0.0 }).abs();
            let worst =
                (0..few).flat_map(|a| (0..few).map(move |b| error(a, b))).fold(0.0, f64::max);
            return (worst > 1e-5 * gain * gain).then(|| format!("not orthogonal: {worst}"));
        }
        ("uniform", &[low, high]) => {
            (low, high, (low + high) / 2.0, (high - low) / 12f64.sqrt(), 1.8)
        }
        ("normal", &[mean, deviation]) => (f64::MIN, f64::MAX, mean, deviation, 3.0),
        ("truncated", &[mean, deviation]) => {
            (mean - 2.0 * deviation, mean + 2.0 * deviation, mean, deviation * TRUNCATED, 3.0)
        }
        _ => panic!("{kind} {parameters:?}"),
    };
    if least < low - 1e-6 || greatest > high + 1e-6 {
        return Some(format!("from {least} to {greatest}, outside {low} to {high}"));
    }
    let average = values.iter().sum::<f64>() / count;
    if (average - mean).abs() > 5.0 * deviation / count.sqrt() {
        return Some(format!("of mean {average}, not {mean}"));
    }
    let variance = values.iter().map(|value| (value - average).powi(2)).sum::<f64>() / count;
    if (variance / deviation.powi(2) - 1.0).abs() > 5.0 * f64::sqrt((fourth - 1.0) / count) {
        return Some(format!("of deviation {}, not {deviation}", variance.sqrt()));
    }
    let gap = (least - low).max(high - greatest);
    (kind != "normal" && gap > (high - low) * 60.0 / count)
        .then(|| format!("from {least} to {greatest} only"))
}

/// Checks the initial values of a case's weights.
fn check_first_values(case: &Case) -> Result<(), String> {
    let model = case.program()?;
    // Initial values are computed on the cpu, whatever the session's device.
    let device = Device::reference();
    let mut builder = model.on(&device);
    for (name, ty) in case.of("input") {
        builder = builder.input(name, tensor_type(ty));
    }
    let mut session = builder.build().map_err(|error| render(&error))?;
    session.initialise(1).map_err(|error| render(&error))?;
    for (path, rest) in case.of("weight") {
        let (sizes, expected) = rest.split_once("] ").unwrap();
        let mut words = expected.split(' ');
        let kind = words.next().unwrap();
        let parameters: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
        let value = session.get(path).map_err(|error| render(&error))?;
        if value.ty() != &tensor_type(&format!("f32{sizes}]")) {
            return Err(format!("{path} is {}, not {sizes}]", value.ty()));
        }
        if let Some(complaint) = complaint(&value, kind, &parameters) {
            return Err(format!("{path} is {complaint}"));
        }
    }
    Ok(())
}

#[test]
fn initializers() {
    let cases = Case::read("initializers");
    let faults = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}\n", case.name, check_first_values(case).err()?)));
    let faults: Vec<String> = faults.collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.concat());
}

/// The blocks that Random123 and jax have: key, counter and result, each of two words.
#[test]
fn threefry() {
    let file = text("layers/threefry.txt");
    let word = |text: &str| Scalar::from_i64(DType::U32, i64::from_str_radix(text, 16).unwrap());
    let blocks: Vec<Vec<Scalar>> =
        file.lines().map(|line| line.split(' ').map(word).collect()).collect();
    let column = |number: usize| {
        let ty = TensorType::new(DType::U32, [blocks.len()]);
        Tensor::from_scalars(ty, blocks.iter().map(|block| block[number])).unwrap()
    };
    let source =
        "function blocks(K0, K1, C0, C1) -> (X0, X1) { X0, X1 = threefry(K0, K1, C0, C1); }";
    let model = Model::compile(source).unwrap_or_else(|error| panic!("{}", render(&error)));
    let inputs = ["K0", "K1", "C0", "C1"];
    for device in [Device::reference(), Device::cpu()].iter().chain(&*ADAPTERS) {
        let typed = inputs
            .iter()
            .fold(model.on(device), |on, &name| on.input(name, column(0).ty().clone()));
        let mut session = typed.build().unwrap_or_else(|error| panic!("{}", render(&error)));
        let outputs =
            session.run(inputs.into_iter().enumerate().map(|(n, name)| (name, column(n)))).unwrap();
        assert_eq!(
            [outputs.get("X0"), outputs.get("X1")],
            [Some(&column(4)), Some(&column(5))],
            "{}",
            device.name()
        );
    }
}
