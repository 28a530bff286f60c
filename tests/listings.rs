//! Hand-written kernels in every shading language, as other people's tools see them.

mod common;

use std::fs;
use std::path::Path;

use tile_compiler::dtype::DType;
use tile_compiler::kernel::{Access, Kernel};
use tile_compiler::lower::{Binding, Bindings, Targets, train};
use tile_compiler::pipeline;
use tile_compiler::profile::Profile;
use tile_compiler::tensor::TensorType;

#[test]
fn listings_pass_the_tools_of_every_language() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut kernels = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let kernel = Kernel::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        kernel.verify().unwrap();
        assert_eq!(kernel.to_string(), text);
        kernels.push(kernel);
    }
    common::tools::check(&kernels);
}

/// Networks with what gradients there are, each with another optimizer, and sizes for which schedules differ.
const STEPS: [(&str, &[usize], TargetType); 4] = [
    (
        "model Net(X[N, 28, 28]) -> (Y) { Y = X |> Flatten() |> Dense(128, activation = relu) |> Dropout(0.2) |> Dense(10); }
        train Net { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = Adam();
            metrics = [SparseCategoricalAccuracy()]; gradients = clip_by_global_norm(1.0); }",
        &[32, 28, 28],
        TargetType::Class,
    ),
    (
        "model Net(X[N, 12, 12, 1]) -> (Y) {
            Y = X |> Conv2D(8, 3, kernel_regularizer = l2(0.01)) |> BatchNormalization() |> Activation(relu) |> MaxPooling2D(2)
                |> Conv2D(8, 3, padding = same, dilation_rate = 2) |> Conv2DTranspose(4, 3, strides = 2) |> GlobalMaxPooling2D() |> Dense(10);
        }
        train Net { loss = CategoricalCrossentropy(from_logits = true); optimizer = SGD(0.01, momentum = 0.9, nesterov = true); }",
        &[16, 12, 12, 1],
        TargetType::Like,
    ),
    (
        "model Net(X[N, T, D]) -> (Y) { Y = X |> LSTM(16, return_sequences = true) |> GRU(8) |> Dense(3, activation = softmax); }
        train Net { loss = CategoricalCrossentropy(); optimizer = RMSprop(); metrics = [AUC()]; }",
        &[8, 9, 5],
        TargetType::Like,
    ),
    (
        "model Net(X[N, T]) -> (Y) {
            H = X |> Embedding(50, 16);
            H = H + MultiHeadAttention(2, 8)(H, H, use_causal_mask = true) |> LayerNormalization();
            Y = H |> Dense(32, activation = gelu) |> Dense(50);
        }
        train Net { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = AdamW(CosineDecay(0.001, 100)); }",
        &[4, 12],
        TargetType::Class,
    ),
];

/// What an output should be.
enum TargetType {
    Like,
    Class,
}

/// Whole steps of training: forward, backward and update, where weights are written over.
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
        let sizes = match (target, shape.len()) {
            (TargetType::Class, 2) => TensorType::new(DType::I32, *shape),
            (TargetType::Class, _) => TensorType::new(DType::I32, &shape[..1]),
            (TargetType::Like, 3) => TensorType::new(DType::F32, [shape[0], 3]),
            (TargetType::Like, _) => TensorType::new(DType::F32, [shape[0], 10]),
        };
        let targets = Targets { types: [("Y".to_owned(), sizes)].into(), weighted: false };
        let mut graph = train(program, None, &bindings, &targets)
            .unwrap_or_else(|errors| panic!("{}", tile_lang::render(&errors, &checked.sources, false)))
            .graph;
        pipeline::optimise(&mut graph);
        let plan = pipeline::plan_updates(&graph, &Profile::generic()).unwrap();
        kernels.extend(plan.routines.into_iter().filter_map(|routine| routine.kernel).map(|mut kernel| {
            kernel.name = format!("net{number}_{}", kernel.name);
            kernel
        }));
    }
    assert!(kernels.iter().any(|kernel| kernel.buffers.iter().any(|buffer| buffer.access == Access::Update)));
    common::tools::check(&kernels);
}
