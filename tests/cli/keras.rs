//! Models of Keras: conversion to programs, and their weights. golden/keras_import/make.py made
//! them.

use std::fs;

use tile_runtime::weights::WeightsFile;

use crate::tilec::{empty_folder, tilec};

const MODEL: &str = "tests/golden/keras_import/mlp.keras";

/// The program with the weights beside it, and with those in the model's file, gives the same.
#[test]
fn a_model_becomes_a_program() {
    let folder = empty_folder("keras-import");
    let program = folder.join("mlp.tile");
    let program = program.to_str().unwrap();
    tilec(["import", MODEL, "-o", program]).ok();
    assert!(fs::read_to_string(program).unwrap().starts_with(
        "// mlp.keras; its weights are in mlp.safetensors.\n\nmodel Mlp(X[N, 6]) -> (Probabilities) {"
    ));
    tilec(["fmt", "--check", program]).ok();
    let beside = folder.join("mlp.safetensors");
    let run = |weights: &str| {
        let inputs = ["--dim", "N=2", "--random", "1", "--device", "cpu"];
        tilec(["run", program, "--weights", weights].into_iter().chain(inputs))
            .ok()
            .text()
            .to_owned()
    };
    let found = run(beside.to_str().unwrap());
    assert!(found.starts_with("Probabilities f32[2, 3]\n"), "{found}");
    assert_eq!(run(MODEL), found);
    let printed = tilec(["import", MODEL]).ok().text().to_owned();
    assert!(printed.starts_with("// mlp.keras\n\nmodel Mlp("), "{printed}");
}

/// A program goes back to Keras, and from there to the same program.
#[test]
fn a_program_becomes_a_model() {
    let folder = empty_folder("keras-export");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    tilec(["import", MODEL, "-o", &path("mlp.tile")]).ok();
    let weights = path("mlp.safetensors");
    let export = ["export", &path("mlp.tile"), "-o", &path("mlp.keras")];
    let run = tilec(export);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("`--weights FILE`"), "{}", run.err);
    tilec(export.into_iter().chain(["--weights", &weights])).ok();
    assert_eq!(
        tilec(["import", &path("mlp.keras")]).ok().text(),
        tilec(["import", MODEL]).ok().text()
    );
    let sized = ["export", "tests/golden/keras_import/export.tile", "--random", "1"];
    let sized = sized.into_iter().chain(["--set", "units=9", "--dim", "K=3", "-o"]);
    tilec(sized.chain([&*path("sized.keras")])).ok();
    let text = tilec(["import", &path("sized.keras")]).ok().text().to_owned();
    assert!(text.contains("X[N, 3]") && text.contains("Dense(9, activation = relu)"), "{text}");
    let run = tilec(["export", &path("mlp.tile"), "-o", &path("mlp.onnx")]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("ends in .keras"), "{}", run.err);
}

/// Weights have sizes, a batch has none, and a layer may have the name of the model.
#[test]
fn sizes_of_exported_models() {
    let folder = empty_folder("keras-sizes");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let export = |header: &str, more: &[&str]| {
        let text =
            format!("model M({header}) -> (Y) {{ Y = X |> Flatten() |> Dense(2, name = M); }}\n");
        fs::write(path("m.tile"), text).unwrap();
        let program = path("m.tile");
        let output = path("m.keras");
        let all = ["export", &program, "--random", "1", "-o", &output];
        tilec(all.into_iter().chain(more.iter().copied()))
    };
    let run = export("X[N, T, 4]", &[]);
    assert!(run.code == 1 && run.err.contains("give it with `--dim T=SIZE`"), "{}", run.err);
    export("X[N, T, 4]", &["--dim", "T=3"]).ok();
    let text = tilec(["import", &path("m.keras")]).ok().text().to_owned();
    assert!(text.contains("X[N, 3, 4]") && text.contains("Dense(2, name = "), "{text}");
    let run = export("X[4]", &[]);
    assert!(run.code == 1 && run.err.contains("needs a batch axis"), "{}", run.err);
}

#[test]
fn options_that_a_model_does_not_need() {
    let run = tilec(["import", MODEL, "--dim", "N=2"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("leave out the options about inputs"), "{}", run.err);
    let run = tilec(["import", "tests/golden/keras_import/refused_lambda.keras"]);
    assert_eq!(run.code, 1);
    let named = "refused_lambda.keras: the layer `twice` (Lambda): ";
    assert!(run.err.contains(named), "{}", run.err);
}

/// Weights that training saves for Keras, which `--weights` reads again.
#[test]
fn weights_for_keras() {
    let folder = empty_folder("keras-save");
    fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("d.csv"), "x,y,label\n0,1,0\n1,0,1\n1,1,0\n0,0,1\n").unwrap();
    let network = |body: &str| {
        let train = "train Net { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = Adam(); }";
        let text = format!(
            "layer Own()(X[N, K]) -> (Y) {{ Y = X |> Dense(3); }}\nmodel Net(X[N, 2]) -> (Y) {{ Y = X |> {body}; }}\n{train}\n"
        );
        fs::write(path("net.tile"), text).unwrap();
    };
    let train = |save: &str| {
        tilec([
            "train",
            &path("net.tile"),
            "--data",
            &path("d.csv"),
            "--validation",
            "0",
            "--epochs",
            "2",
            "--save",
            &path(save),
        ])
    };
    network("Dense(4, activation = relu, name = first) |> BatchNormalization() |> Dense(2)");
    train("net.weights.h5").ok();
    train("net.npz").ok();
    let evaluate = |file: &str| {
        let arguments =
            ["evaluate", &path("net.tile"), "--data", &path("d.csv"), "--weights", &path(file)];
        let found = tilec(arguments).ok().text().to_owned();
        found.lines().find(|line| line.contains("loss")).unwrap().to_owned()
    };
    assert_eq!(evaluate("net.weights.h5"), evaluate("net.npz"));
    let mut saved = WeightsFile::open(path("net.weights.h5")).unwrap();
    let names: Vec<&str> = saved.tensors().iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[0], "layers/batch_normalization/vars/0");
    assert_eq!(
        names[4..],
        [
            "layers/dense/vars/0",
            "layers/dense/vars/1",
            "layers/dense_1/vars/0",
            "layers/dense_1/vars/1"
        ]
    );
    assert_eq!(saved.read(4).unwrap().shape(), [2, 4]);
    let run = tilec([
        "train",
        &path("net.tile"),
        "--data",
        &path("d.csv"),
        "--resume",
        &path("net.weights.h5"),
    ]);
    assert!(run.code == 1 && run.err.contains("it has weights alone"), "{}", run.err);
    network("Own() |> Dense(2)");
    let run = train("own.weights.h5");
    assert!(
        run.code == 1
            && run.err.contains("`own.dense.Kernel` is no weight of a layer that Keras has"),
        "{}",
        run.err
    );
    assert!(!folder.join("own.weights.h5").exists());
    assert_eq!(train("net.h5").code, 2);
}
