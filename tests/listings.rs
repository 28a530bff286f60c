//! Kernels in every shading language pass external tools: hand-written kernels, and those of layers
//! and of training steps. The kernels of the snapshots are checked with these.

mod common;

use std::fs;
use std::path::Path;

use tile_compiler::dtype::DType;
use tile_compiler::kernel::{Access, Kernel};
use tile_compiler::lower::{Binding, Bindings, Targets, lower, train};
use tile_compiler::passes::narrow;
use tile_compiler::pipeline;
use tile_compiler::plan::Work;
use tile_compiler::profile::{MatrixUnit, Profile};
use tile_compiler::schedule::{Schedule, candidates, kernel};
use tile_compiler::tensor::TensorType;
use tile_runtime::Device;

use common::golden::Case;

#[test]
fn listings_pass_the_tools_of_every_language() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut kernels = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let kernel =
            Kernel::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        kernel.verify().unwrap();
        assert_eq!(kernel.to_string(), text);
        kernels.push(kernel);
    }
    common::tools::check(&kernels);
}

/// Products by a device's matrix units, whole and with remainders, in f32 and with factors rounded
/// to f16.
#[test]
fn products_of_matrices_pass_the_tools_of_every_language() {
    let source = "function f(X[N, K], W[K, M], B[M]) -> (Y) { Z[n, m: N, M] = +(X[n, k] * W[k, m]); Y = relu(Z + B); }";
    let checked = tile_lang::check(source);
    let program = checked.program.unwrap();
    let mut kernels = Vec::new();
    for (number, [rows, columns, depth]) in
        [[256, 128, 512], [250, 130, 61]].into_iter().enumerate()
    {
        for (factors, size) in [(DType::F32, 8), (DType::F16, 8), (DType::F16, 16)] {
            let mut bindings = Bindings::default();
            for (name, shape) in
                [("X", vec![rows, depth]), ("W", vec![depth, columns]), ("B", vec![columns])]
            {
                bindings
                    .inputs
                    .insert(name.into(), Binding::Tensor(TensorType::new(DType::F32, shape)));
            }
            let mut graph = lower(&program, None, &bindings).unwrap().graph;
            if factors == DType::F16 {
                narrow(&mut graph, factors);
            }
            pipeline::optimise(&mut graph);
            let unit = MatrixUnit { size, factors, subgroup: 32 };
            let profile = Profile { matrices: vec![unit], ..Profile::apple() };
            let plan = pipeline::plan(&graph, &profile).unwrap();
            let Some(Work::Nest(nest)) = plan.routines.iter().last().map(|routine| &routine.work)
            else {
                panic!("no nest")
            };
            let mut schedules = candidates(nest, &profile).into_iter();
            let schedule =
                schedules.find(|schedule| matches!(schedule, Schedule::Matrices(_))).unwrap();
            let product = kernel(nest, &schedule, &profile).unwrap().unwrap();
            kernels.push(Kernel { name: format!("product{number}_{size}_{factors}"), ..product });
        }
    }
    common::tools::check(&kernels);
}

/// Networks with every kind of gradient.
const STEPS: [(&str, &[usize], TargetType); 2] = [
    (
        "model Net(X[N, 12, 12, 1]) -> (Y) {
            Y = X |> Conv2D(8, 3, strides = 2) |> BatchNormalization(center = false, scale = false) |> MaxPooling2D(2)
                |> GlobalMaxPooling2D() |> Dense(10, use_bias = false);
        }
        train Net { loss = CategoricalCrossentropy(from_logits = true); optimizer = Adam(); }",
        &[16, 12, 12, 1],
        TargetType::Like,
    ),
    (
        "model Net(X[N, T]) -> (Y) { Y = X |> Embedding(50, 16) |> LSTM(8, use_bias = false) |> Dense(3); }
        train Net { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(0.01, momentum = 0.9); }",
        &[4, 12],
        TargetType::Class,
    ),
];

/// The type of a target.
enum TargetType {
    Like,
    Class,
}

/// Whole training steps: forward, backward and update, where weights are overwritten.
#[test]
fn steps_of_training_pass_the_tools_of_every_language() {
    let mut kernels = Vec::new();
    for (number, (source, shape, target)) in STEPS.iter().enumerate() {
        let checked = tile_lang::check(source);
        let errors = || tile_lang::render(&checked.diagnostics, &checked.sources, false);
        let program = checked.program.as_ref().unwrap_or_else(|| panic!("{}", errors()));
        let dtype = if source.contains("Embedding") { DType::I32 } else { DType::F32 };
        let mut bindings = Bindings { training: true, ..Bindings::default() };
        bindings.inputs.insert("X".into(), Binding::Tensor(TensorType::new(dtype, *shape)));
        let sizes = match target {
            TargetType::Class => TensorType::new(DType::I32, [shape[0]]),
            TargetType::Like => TensorType::new(DType::F32, [shape[0], 10]),
        };
        let targets = Targets { types: [("Y".to_owned(), sizes)].into(), ..Targets::default() };
        let mut graph = train(program, None, &bindings, &targets)
            .unwrap_or_else(|errors| {
                panic!("{}", tile_lang::render(&errors, &checked.sources, false))
            })
            .graph;
        pipeline::optimise(&mut graph);
        let plan = pipeline::plan_updates(&graph, &Profile::generic()).unwrap();
        kernels.extend(plan.routines.into_iter().filter_map(|routine| routine.kernel).map(
            |mut kernel| {
                kernel.name = format!("net{number}_{}", kernel.name);
                kernel
            },
        ));
    }
    assert!(
        kernels
            .iter()
            .any(|kernel| kernel.buffers.iter().any(|buffer| buffer.access == Access::Update))
    );
    common::tools::check(&kernels);
}

/// The kernels of every case of the library's layers, in inference and in training.
#[test]
fn layers_pass_the_tools_of_every_language() {
    let device = Device::check(Profile::generic());
    let mut kernels = Vec::new();
    let files =
        fs::read_dir(common::golden::path("layers")).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|file| file.extension().is_some_and(|extension| extension == "txt"));
    let names = texts.map(|file| format!("layers/{}", file.file_name().unwrap().display()));
    for family in names.filter(|name| common::golden::text(name).starts_with("case ")) {
        for case in Case::all(&family) {
            let model = case.program().unwrap_or_else(|fault| panic!("{}: {fault}", case.name));
            let mut builder = model.on(&device).training(case.training);
            for (name, ty) in case.of("input") {
                builder = builder.input(name, common::golden::tensor_type(ty));
            }
            match builder.build() {
                Ok(session) => kernels.extend(
                    session.plan().unwrap().routines.iter().filter_map(|r| r.kernel.clone()),
                ),
                Err(error) if common::golden::refused(&error) => {}
                Err(error) => panic!("{}: {}", case.name, common::golden::render(&error)),
            }
        }
    }
    let kernels = common::tools::distinct(kernels);
    assert!(kernels.len() > 500, "{} kernels", kernels.len());
    common::tools::check(&kernels);
}
