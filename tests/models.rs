//! Whole models match Keras and PyTorch: golden/models.py has their contract and their outputs.
//!
//! The weights are too large to store. Both sides compute them from a hash.

mod common;

use std::fs;
use std::path::Path;

use common::ADAPTERS;
use common::golden::{arrays, difference, hashed, render, tensor_type, text};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};
use tile_runtime::{Device, Model, Setting};

/// A line of a model's contract.
struct Line {
    kind: String,
    name: String,
    ty: TensorType,
    /// The range of its elements; for an output, the stride of the elements that are stored.
    numbers: Vec<f64>,
}

impl Line {
    /// Parses a line such as `weight conv1.Kernel f32[3, 3] -0.5 0.5`.
    fn parse(line: &str) -> Line {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        let mut word = || words.next().unwrap();
        let (kind, name, rest) = (word(), word(), word());
        let (ty, numbers) = rest.split_once(']').unwrap();
        let numbers = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
        Line { kind, name, ty: tensor_type(&format!("{ty}]")), numbers }
    }

    /// Returns the tensor that the name's hash makes.
    fn hashed(&self) -> Tensor {
        hashed(&self.name, &self.ty, self.numbers[0], self.numbers[1])
    }
}

/// Panics if a model differs from golden/models/NAME.txt on one of the devices.
fn check(name: &str, devices: &[Device]) {
    let file = text(&format!("models/{name}.txt"));
    let (entry, lines) = file.split_once('\n').unwrap();
    let lines: Vec<Line> = lines.lines().map(Line::parse).collect();
    let kept = arrays(&format!("models/{name}.npy"))();
    let of = |kind: &'static str| lines.iter().filter(move |line| line.kind == kind);
    let (input, output) = (of("input").next().unwrap(), of("output").next().unwrap());

    let path = format!("examples/models/{}.tile", name.split('-').next().unwrap());
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path));
    let source = source.unwrap_or_else(|error| panic!("{path}: {error}"));
    let model = Model::compile_file(&path, &source, &|path| fs::read_to_string(path).ok().into());
    let model = model.unwrap_or_else(|error| panic!("{}", render(&error)));
    for device in devices {
        let on = model.on(device).entry(entry.strip_prefix("model ").unwrap());
        let session = on.input(&input.name, input.ty.clone()).build();
        let mut session =
            session.unwrap_or_else(|error| panic!("{}: {}", device.name(), render(&error)));
        let mut found: Vec<String> =
            session.weights().map(|(path, ty)| format!("{path} {ty}")).collect();
        let mut expected: Vec<String> =
            of("weight").map(|line| format!("{} {}", line.name, line.ty)).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "the weights of {name}");
        for weight in of("weight") {
            session.set(&weight.name, &weight.hashed()).unwrap();
        }
        let result =
            session.run([(&input.name, input.hashed())]).unwrap().remove(&output.name).unwrap();
        assert_eq!(*result.ty(), output.ty, "the output of {name}");
        let sample = result.scalars().step_by(output.numbers[0] as usize);
        let sample = Tensor::from_scalars(kept.ty().clone(), sample.collect::<Vec<_>>()).unwrap();
        assert_eq!(difference(&sample, &kept), None, "{name} on {}", device.name());
    }
}

/// Checks a model that is small enough for the reference interpreter.
fn check_everywhere(name: &str) {
    check(name, &[vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat());
}

/// Checks a larger model.
fn check_on_devices(name: &str) {
    check(name, &[vec![Device::cpu()], ADAPTERS.clone()].concat());
}

/// Checks a model at full size on the cpu alone; a software adapter would take minutes.
fn check_on_the_cpu(name: &str) {
    check(name, &[Device::cpu()]);
}

macro_rules! models {
    ($check:ident: $($test:ident $name:literal)*) => {
        $(#[test]
        fn $test() {
            $check($name);
        })*
    };
}

models! { check_everywhere:
    mnist_mlp "mnist_mlp"
    lstm_classifier "lstm_classifier"
    unet "unet"
    gpt "gpt"
}

models! { check_on_devices:
    mnist_cnn "mnist_cnn"
    transformer_encoder "transformer_encoder"
    mobilenet_of_a_small_image "mobilenet-32"
    resnet50_of_a_small_image "resnet50-32"
    vgg19_of_a_small_image "vgg19-32"
}

models! { check_on_the_cpu:
    mobilenet "mobilenet"
    resnet50 "resnet50"
    vgg19 "vgg19"
}

/// GptWriter writes with caches the bytes that Gpt predicts without them.
#[test]
fn gpt_writes_the_likeliest_bytes() {
    let source = include_str!("../examples/models/gpt.tile");
    let model = Model::compile(source).unwrap();
    let (layers, width, context, length) = (2i64, 32i64, 24i64, 12i64);
    let bytes = |written: &[i32]| {
        let ty = TensorType::new(DType::I32, [1, written.len()]);
        Tensor::from_scalars(ty, written.iter().map(|&byte| Scalar::i32(byte))).unwrap()
    };
    for device in [Device::reference(), Device::cpu()] {
        let on = |entry: &str, tokens: usize| {
            let input = if entry == "Gpt" { "Tokens" } else { "Prompt" };
            let session = model.on(&device).entry(entry);
            let session = session.set("layers", Setting::Int(layers));
            let session = session.set("width", Setting::Int(width));
            let session = session.set("context", Setting::Int(context));
            session.input(input, TensorType::new(DType::I32, [1, tokens]))
        };
        let mut text = vec![84, 105, 108, 101];
        let writer = on("GptWriter", text.len())
            .set("length", Setting::Int(length))
            .set("temperature", Setting::Float(0.0));
        let mut writer = writer.build().unwrap_or_else(|error| panic!("{}", render(&error)));
        writer.initialise(7).unwrap();
        let paths: Vec<String> = writer.weights().map(|(path, _)| path.to_owned()).collect();
        let value = |path: String| (writer.get(&path).unwrap(), path);
        let weights: Vec<(Tensor, String)> = paths.into_iter().map(value).collect();
        let found = writer.run([("Prompt", bytes(&text))]).unwrap().remove("Written").unwrap();
        for _ in 0..length {
            let mut session = on("Gpt", text.len()).build().unwrap();
            for (value, path) in &weights {
                session.set(path, value).unwrap();
            }
            let logits = session.run([("Tokens", bytes(&text))]).unwrap().remove("Logits").unwrap();
            let logits = logits.to_f64s();
            let last = &logits[logits.len() - 256..];
            let best = (0..256).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
            text.push(best as i32);
        }
        let expected: Vec<f64> = text[4..].iter().map(|&byte| f64::from(byte)).collect();
        assert_eq!(found.to_f64s(), expected, "{}", device.name());
    }
}
