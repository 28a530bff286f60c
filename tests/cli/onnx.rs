//! ONNX files on the command line; see golden/onnx_models.py.

use insta::assert_snapshot;
use tile_runtime::data::npy;
use tile_runtime::{DType, Scalar, Tensor, TensorType};

use crate::tilec::{empty_folder, tilec};

const MODEL: &str = "tests/golden/onnx/odd_names.onnx";

#[test]
fn a_model_runs_by_the_names_of_its_file() {
    let folder = empty_folder("onnx-run");
    let out = folder.to_str().unwrap();
    tilec(["run", MODEL, "--random", "1", "--device", "cpu", "--output-dir", out]).ok();
    assert!(folder.join("_block_0_out.npy").exists());
    let run = tilec(["run", MODEL, "--device", "cpu"]);
    assert_eq!(run.code, 1);
    assert_snapshot!(run.err, @"
    error: tests/golden/onnx/odd_names.onnx: input `input.1`, f32[3], is missing (give it an array with `--input input.1=x.npy`, or random values with `--random 1`)
    ");
    let run = tilec(["run", MODEL, "--device", "cpu", "--input", "input.1=3"]);
    assert_snapshot!(run.err, @"
    error: tests/golden/onnx/odd_names.onnx: input `input.1`: it must be [3], and a number is given
    ");
}

#[test]
fn an_imported_model_runs_with_its_weights() {
    let folder = empty_folder("onnx-import");
    let file = folder.join("attention.tile");
    let file = file.to_str().unwrap();
    tilec(["import", "tests/golden/onnx/attention.onnx", "-o", file]).ok();
    let weights = folder.join("attention.safetensors");
    tilec([
        "run",
        file,
        "--weights",
        weights.to_str().unwrap(),
        "--random",
        "1",
        "--device",
        "cpu",
    ])
    .ok();
    tilec(["import", "tests/golden/onnx/attention.onnx", "-o", file]).ok();
    std::fs::remove_file(file).unwrap();
    let run = tilec(["import", "tests/golden/onnx/attention.onnx", "-o", file]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("attention.safetensors is there already"), "{}", run.err);
    std::fs::remove_file(&weights).unwrap();
    tilec(["import", "tests/golden/onnx/attention.onnx", "-o", file]).ok();
    let run = tilec(["import", file]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("attention.tile is no .onnx or .keras file"), "{}", run.err);
}

#[test]
fn a_model_has_a_table_of_its_nodes() {
    let run = tilec(["summary", "tests/golden/onnx/convolutions.onnx"]).ok();
    assert_snapshot!(run.text(), @r#"
    Model: "golden"
    ┌───────────────────────────────────────────┬──────────────┬─────────┐
    │ Layer (type)                              ┆ Output Shape ┆ Param # │
    ╞═══════════════════════════════════════════╪══════════════╪═════════╡
    │ Conv_C (Conv)                             ┆ (1, 6, 5, 6) ┆     168 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ BatchNormalization_N (BatchNormalization) ┆ (1, 6, 5, 6) ┆      24 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ Relu_R (Relu)                             ┆ (1, 6, 5, 6) ┆       0 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ Conv_E (Conv)                             ┆ (1, 6, 5, 6) ┆      54 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ Clip_L (Clip)                             ┆ (1, 6, 5, 6) ┆       0 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ MaxPool_P (MaxPool)                       ┆ (1, 6, 3, 3) ┆       0 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ GlobalAveragePool_G (GlobalAveragePool)   ┆ (1, 6, 1, 1) ┆       0 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ Flatten_F (Flatten)                       ┆ (1, 6)       ┆       0 │
    ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌╌╌╌╌╌┼╌╌╌╌╌╌╌╌╌┤
    │ Gemm_Y (Gemm)                             ┆ (1, 5)       ┆      35 │
    └───────────────────────────────────────────┴──────────────┴─────────┘
     Total params: 281 (1.10 KB)
     Memory of a run: 5.03 KB
    "#);
    assert_eq!(run.notes(), ["note: batch = 1 is assumed; `--dim batch=…` gives another size"]);
}

#[test]
fn a_model_has_kernels_in_every_language() {
    let run =
        tilec(["tests/golden/onnx/convolutions.onnx", "--emit", "plan,msl", "--dim", "batch=2"])
            .ok();
    assert!(run.text().contains("plan golden for generic"), "{}", run.text());
    assert!(run.text().contains("kernel void"), "{}", run.text());
}

#[test]
fn a_model_with_what_is_not_supported_is_refused_at_once() {
    let run = tilec(["run", "tests/golden/onnx/refused/unsupported.onnx", "--device", "cpu"]);
    assert_eq!(run.code, 1);
    assert_snapshot!(run.err, @"
    error: tests/golden/onnx/refused/unsupported.onnx: 2 of its operators are not supported:
      Det2: `Det2_B`, `Det2_Y`
      Frobnicate: `Frobnicate_A`
    ");
}

/// A branch and a shape depend on values that the command line gives.
#[test]
fn every_command_takes_the_values_of_inputs() {
    const RATED: &str = "tests/golden/onnx/sample_rate.onnx";
    let folder = empty_folder("onnx-values");
    let sizes = folder.join("sizes.npy");
    let tensor = Tensor::from_scalars(
        TensorType::new(DType::I64, [3]),
        [3, 2, 4].map(|n| Scalar::from_i64(DType::I64, n)),
    );
    npy::write(&tensor.unwrap(), std::fs::File::create(&sizes).unwrap()).unwrap();
    let sizes = format!("sizes={}", sizes.display());
    let run = |command: &[&str], rate: &str, time: &str| {
        let rate = format!("rate={rate}");
        let given = ["--input", &rate, "--input", &sizes, "--dim", time];
        tilec(command.iter().copied().chain(given))
    };
    for (rate, time, kernel) in [("16000", "time=9", "slow"), ("8000", "time=6", "fast")] {
        let text = run(&["import", RATED], rate, time).ok().text().to_owned();
        assert!(
            text.contains(&format!("{kernel} = Conv1D(2, 3")) && !text.contains("Rate"),
            "{text}"
        );
        let text = run(&["summary", RATED], rate, time).ok().text().to_owned();
        assert!(text.contains("(1, 2, 4)") && text.contains("(3, 2, 4)"), "{text}");
        let text =
            run(&[RATED, "--emit", "graph", "--target", "cpu"], rate, time).ok().text().to_owned();
        assert!(text.contains("f32[3, 2, 4]"), "{text}");
        run(&["bench", RATED, "--device", "cpu", "--iterations", "1"], rate, time).ok();
        let text = run(&["run", RATED, "--device", "cpu", "--random", "1"], rate, time)
            .ok()
            .text()
            .to_owned();
        assert!(text.starts_with("Y f32[3, 2, 4]"), "{text}");
    }
    let wrong = run(&["summary", RATED], "2.5", "time=9").err;
    assert!(wrong.contains("input `rate`: it must be i64, and 2.5 is given"), "{wrong}");
}

#[test]
fn sizes_without_a_name_are_assumed() {
    let run = tilec(["summary", "tests/golden/onnx/names_of_sizes.onnx"]).ok();
    assert_snapshot!(run.notes().join("\n"), @"
    note: ? = n = 1 is assumed; `--dim ?=…` gives another size
    note: sizes of `C` without a name are assumed to be 1; `--shape C=…` gives others
    ");
}
