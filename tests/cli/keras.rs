//! Models of Keras: conversion to programs, and their weights. golden/keras_import/make.py made
//! them.

use std::fs;

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
