//! The programs of examples/ learn as the same models do in Keras. golden/families/make.py
//! describes the files with the losses and the weights of three steps.

mod common;

use std::fs;
use std::path::Path;

use common::ADAPTERS;
use common::golden::{Case, arrays, hashed, render, tensor_type};
use tile_compiler::tensor::Tensor;
use tile_runtime::train::{Arrays, ColumnRole, Fit, Trainer};
use tile_runtime::{Device, Model, Setting, weights};

/// The relative error allowed for rounding, of a loss, and of a weight relative to its largest
/// element. It is also in golden/families/keras_step.py.
const TOLERANCE: f64 = 2e-6;

/// Returns the tensor of a line: its name, and `TYPE[SIZES] LOW HIGH`.
fn tensor((name, rest): (&str, &str)) -> Tensor {
    let (ty, limits) = rest.split_once("] ").unwrap();
    let (low, high) = limits.split_once(' ').unwrap();
    hashed(name, &tensor_type(&format!("{ty}]")), low.parse().unwrap(), high.parse().unwrap())
}

/// Compiles the program of a case, with its first weights.
fn trainer(case: &Case, device: &Device) -> Trainer {
    let (path, entry) = case.of("program").next().unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let source = format!("{}\n{}", fs::read_to_string(file).unwrap(), case.body);
    let model = Model::compile(&source).unwrap_or_else(|error| panic!("{}", render(&error)));
    let mut builder = model.trainer(device);
    if entry != "all" {
        builder = builder.entry(entry);
    }
    for (name, value) in case.of("set") {
        let value = match value.parse() {
            Ok(number) => Setting::Int(number),
            Err(_) => Setting::Float(value.parse().unwrap()),
        };
        builder = builder.set(name, value);
    }
    let mut trainer = builder.build().unwrap_or_else(|error| panic!("{}", render(&error)));
    let first: Vec<_> = case.of("weight").map(|line| (line.0.to_owned(), tensor(line))).collect();
    let name = format!("family-{}-{}.safetensors", case.name, device.name().replace(':', "-"));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    weights::write(&file, &first).unwrap();
    trainer.load(&file).unwrap_or_else(|error| panic!("{}", render(&error)));
    fs::remove_file(&file).unwrap();
    trainer
}

/// Makes the steps of a case on one batch; returns the losses, by name and step.
fn train(case: &Case, trainer: &mut Trainer) -> impl Fn(&str, usize) -> f64 + use<> {
    let (mut data, mut samples) = (Arrays::default(), 0);
    for (kind, role) in [("input", ColumnRole::Input), ("target", ColumnRole::Target)] {
        for line in case.of(kind) {
            let tensor = tensor(line);
            samples = tensor.shape()[0];
            data = data.with(role, Some(line.0), tensor).unwrap();
        }
    }
    let mut fit = Fit::epochs(3).batch_size(samples).shuffle(false);
    for (class, weight) in case.of("class") {
        fit = fit.class_weight(class.parse().unwrap(), weight.parse().unwrap());
    }
    let history = trainer.fit(&data, fit).unwrap_or_else(|error| panic!("{}", render(&error)));
    move |name, step| history[step].get(name).unwrap_or_else(|| panic!("no {name}"))
}

/// Panics if a family differs from golden/families/NAME.txt on one of the devices.
fn check(name: &str, devices: &[Device]) {
    let case = Case::all(&format!("families/{name}.txt")).remove(0);
    for device in devices {
        let mut trainer = trainer(&case, device);
        let loss = train(&case, &mut trainer);
        for (result, values) in case.of("loss") {
            for (step, value) in values.split(' ').enumerate() {
                let (found, expected) = (loss(result, step), value.parse::<f64>().unwrap());
                let what = format!("{result} {step} of {name} on {}", device.name());
                assert!((found / expected - 1.0).abs() < TOLERANCE, "{what}: {found}, {expected}");
            }
        }
        let weights = trainer.weights().unwrap();
        let mut kept = arrays(&format!("families/{name}.npy"))().to_f64s().into_iter();
        for (path, every) in case.of("after") {
            let (_, found) = weights.iter().find(|(other, _)| other == path).unwrap();
            let found = found.to_f64s();
            let largest = found.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
            for found in found.into_iter().step_by(every.parse().unwrap()) {
                let expected = kept.next().unwrap();
                let what = format!("{path} of {name} on {}", device.name());
                // An element that rounding decides is NaN.
                let wrong = (found - expected).abs() > TOLERANCE * largest;
                assert!(!wrong, "{what}: {found}, {expected}");
            }
        }
        assert_eq!(kept.next(), None, "{name}");
    }
}

/// Checks a model that is small enough for the reference interpreter.
fn check_everywhere(name: &str) {
    check(name, &[vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat());
}

/// Checks a model that takes minutes there.
fn check_on_the_cpu(name: &str) {
    check(name, &[Device::cpu()]);
}

macro_rules! families {
    ($check:ident: $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $check(stringify!($name));
        })*
    };
}

families! { check_everywhere:
    autoencoder contrastive distillation gpt own_cell probe schedules siamese tabular
    text_classifier translation unet vae
}

families! { check_on_the_cpu: dcgan detection }
