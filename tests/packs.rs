//! Packs compute what the models compute that they were made of, bit for bit.

mod common;

use std::collections::BTreeMap;

use common::golden::{hashed, render};
use tile_compiler::profile::Profile;
use tile_runtime::pack::{PackBuilder, PackTarget};
use tile_runtime::{Device, Error, Model, Session, SessionBuilder, Target, Tensor};

/// Programs of each kind of step: products, windows, loops, gathers, row statistics, random
/// numbers, constants, several types, and outputs that are inputs.
const PROGRAMS: [&str; 9] = [
    "model Images(X[N, 9, 9, 3]) -> (Y) {
        Y = X |> Conv2D(4, [3, 3], padding = same, activation = relu) |> DepthwiseConv2D([3, 3])
            |> BatchNormalization |> MaxPool2D([2, 2]) |> Flatten |> Dense(5, activation = softmax);
    }",
    "model Twice(V[64, 64], X[N, 64]) -> (A, B) {
        A = X |> Dense(64, use_bias = false); B[n, u: N, 64] = +(X[n, k] * V[k, u]);
    }",
    "model Sequences(X[N, 6, 3]) -> (Y) { Y = X |> LSTM(4) |> Dense(2); }",
    "model Attention(X[N, 5, 8]) -> (Y) { Y = X |> TransformerEncoderLayer(8, 2, 16); }",
    "function rows(X[N, 7]) -> (S, M, K) {
        S = softmax(X); M[n: N] = >(X[n, k]); K[n: N] = argmax(X[n, k]);
    }",
    "function running(X[N, 4]) -> (Y, X2) { Y[n, c: N, 4] = +(X[k, c]), n - k < N; X2 = X; }",
    "function gathered(X[N, 4]) -> (Y) { I[n: N] = argmax(X[n, c]); Y = gather(X, 0 * I); }",
    "function narrow(X[N, 4]) -> (Y) { Y = as_float(as_int(100 * X, 8) * as_int(X, 8), 16); }",
    "model Noise(X[N, 4]) -> (Y) { U = random_uniform()([N, 4]); Y = X + U; }",
];

fn model(source: &str) -> Option<Model> {
    Model::compile(source).map_err(|error| eprintln!("{}", render(&error))).ok()
}

/// Returns a pack of a model for two sizes, with its weights.
fn packed(model: &Model, device: &Device) -> Model {
    let mut pack = PackBuilder::new(&[PackTarget::Cpu, PackTarget::Gpu(Target::Msl)]);
    for size in [1, 3] {
        pack.add(&model.on(device).dim("N", size)).unwrap();
    }
    pack.add_weights(&session(model.on(device).dim("N", 3))).unwrap();
    assert_eq!(pack.missing_weights().next(), None);
    Model::from_pack(pack.to_bytes().unwrap()).unwrap()
}

fn session(builder: SessionBuilder) -> Session {
    let mut session = builder.build().unwrap_or_else(|error| panic!("{}", render(&error)));
    session.initialise(3).unwrap();
    session
}

/// Runs a session on the same inputs in each call.
fn outputs(session: &mut Session) -> BTreeMap<String, Tensor> {
    session.seed(5, 1).unwrap();
    let inputs: Vec<(String, Tensor)> =
        session.inputs().map(|(name, ty)| (name.to_owned(), hashed(name, ty, -1.0, 1.0))).collect();
    session.run(inputs).unwrap().into_iter().collect()
}

fn check(device: &Device, programs: &[&str]) {
    for source in programs {
        let model = model(source).unwrap_or_else(|| panic!("{source}"));
        let packed = packed(&model, &Device::cpu());
        for size in [1, 3] {
            let mut of_program = session(model.on(device).dim("N", size));
            let mut of_pack = packed.on(device).dim("N", size).build().unwrap();
            assert_eq!(of_pack.missing_weights().next(), None);
            assert_eq!(outputs(&mut of_pack), outputs(&mut of_program), "{source}");
        }
    }
}

#[test]
fn packs_equal_programs_on_cpu() {
    check(&Device::cpu(), &PROGRAMS);
}

#[test]
fn packs_equal_programs_in_kernels() {
    check(&Device::check(Profile::generic()), &PROGRAMS[..4]);
}

/// A pack keeps the choice of sums term by term, whatever device it runs on.
#[test]
fn exact_packs_stay_exact() {
    let source = "model M(X[N, 20, 20, 32]) -> (Y) { Y = X |> Conv2D(32, [3, 3]); }";
    let model = model(source).unwrap();
    let exact = Device::cpu().exact();
    let packed = packed(&model, &exact);
    let results = |builder: SessionBuilder, is_pack: bool| {
        let builder = builder.dim("N", 3);
        outputs(&mut if is_pack { builder.build().unwrap() } else { session(builder) })
    };
    let [fast, expected] = [Device::cpu(), exact.clone()].map(|d| results(model.on(&d), false));
    assert_ne!(fast, expected, "Winograd's algorithm is not used");
    assert_eq!(results(packed.on(&Device::cpu()), true), expected);
    assert_eq!(results(packed.on(&exact), true), expected);
}

/// The bytes of a pack follow from the program, its sizes and its weights.
#[test]
fn packs_are_reproducible() {
    let model = model(PROGRAMS[0]).unwrap();
    let bytes = || {
        let mut pack = PackBuilder::new(&[PackTarget::Cpu, PackTarget::Gpu(Target::Wgsl)]);
        pack.add(&model.on(&Device::cpu()).dim("N", 2)).unwrap();
        pack.to_bytes().unwrap()
    };
    assert!(bytes() == bytes());
}

fn message(result: Result<Session, Error>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn a_pack_says_what_it_is_for() {
    let device = Device::cpu();
    let model = model(PROGRAMS[2]).unwrap();
    let packed = packed(&model, &device);
    let on = || packed.on(&device);
    assert_eq!(
        message(on().dim("N", 2).build()),
        "the pack has no plan for N = 2; it has plans for N = 1; N = 3"
    );
    assert_eq!(
        message(on().input("X", [2, 6, 3]).build()),
        "the pack has no plan for X = f32[2, 6, 3]; it has plans for X = f32[1, 6, 3]; X = f32[3, 6, 3]"
    );
    assert!(on().input("X", [3, 6, 3]).build().is_ok());
    assert_eq!(message(on().input("Z", [3]).build()), "there is no input `Z`; the inputs are X");
    assert_eq!(message(on().entry("Other").build()), "the pack has `Sequences`, and no `Other`");
    assert_eq!(
        message(on().set("units", tile_runtime::Setting::Int(3)).build()),
        "`units` was fixed when the pack was built: build it with `--set units=…`"
    );
    let mut cpu_only = PackBuilder::new(&[PackTarget::Cpu]);
    cpu_only.add(&model.on(&device).dim("N", 1)).unwrap();
    let cpu_only = Model::from_pack(cpu_only.to_bytes().unwrap()).unwrap();
    let kernels = Device::check(Profile::generic());
    assert_eq!(
        message(cpu_only.on(&kernels).build()),
        "the pack has plans for processors only: build it with `--target wgsl` for this device"
    );
    let mut without_weights = cpu_only.on(&device).build().unwrap();
    let x = Tensor::zeros(without_weights.inputs().next().unwrap().1.clone()).unwrap();
    let error = without_weights.run([("X", x)]).unwrap_err();
    assert!(matches!(error, Error::MissingWeight { .. }), "{error}");
}
