//! Every command, with its output.

use std::path::Path;

use insta::assert_snapshot;
use tile_compiler::native::NativeProgram;

use crate::tilec::{devices, empty_folder, program, tilec};

const KINDS: &str = "tokens,ast,graph,plan,explain,nests,kernels,wgsl,msl,spirv,hlsl,glsl,dot";

#[test]
fn check_is_silent_about_what_is_right() {
    let run = tilec(["check", "examples/matmul.tile", "examples/tutorial.tile"]).ok();
    assert_eq!((run.text(), run.err.as_str()), ("", ""));
}

#[test]
fn fmt() {
    let path = program(
        "fmt",
        "// A product.\nfunction   f( A[M,K],B[K,N] )->( C ){C[i,j:M,N]=+(A[i,k]*B[k,j]);}",
    );
    let path = path.to_str().unwrap();
    let run = tilec(["fmt", "--check", path]);
    assert_eq!((run.code, run.text()), (1, format!("{path}\n").as_str()));
    let run = tilec(["fmt", path]).ok();
    assert_eq!(run.text(), "");
    assert_snapshot!(std::fs::read_to_string(path).unwrap(), @"
    // A product.
    function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }
    ");
    tilec(["fmt", "--check", path]).ok();
}

#[test]
fn examples_are_formatted() {
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "tile") {
            tilec(["fmt".as_ref(), "--check".as_ref(), path.as_os_str()]).ok();
        }
    }
}

#[test]
fn emit_is_the_same_to_the_byte() {
    for example in ["matmul", "softmax", "n_body"] {
        let file = format!("examples/{example}.tile");
        let first = tilec([&file, "--emit", KINDS]).ok();
        assert!(first.out == tilec([&file, "--emit", KINDS]).ok().out, "{example}");
    }
}

/// The cpu device runs native programs, whose text form parses back.
#[test]
fn emit_native_programs() {
    let run = tilec(["examples/softmax.tile", "--emit", "kernels", "--target", "cpu"]).ok();
    let program: NativeProgram = run.text().parse().unwrap();
    assert_eq!(program.verify(), Ok(()));
    assert_eq!(program.to_string().trim_end(), run.text().trim_end());
    let run = tilec(["examples/matmul.tile", "--emit", "explain", "--target", "cpu"]).ok();
    assert!(run.text().contains("schedule  native product 64 by 64 of 64\n"), "{}", run.text());
}

#[test]
fn emit_into_a_folder() {
    let folder = empty_folder("emit_into_a_folder");
    let run = tilec([
        "examples/matmul.tile",
        "--emit",
        KINDS,
        "--dim",
        "N=32",
        "-o",
        folder.to_str().unwrap(),
    ])
    .ok();
    assert_eq!(run.text(), "");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .inspect(|entry| assert!(entry.metadata().unwrap().len() > 0))
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_snapshot!(names.join("\n"), @"
    c.comp
    c.hlsl
    c.kernel
    c.metal
    c.nest
    c.spv
    c.wgsl
    matmul.ast
    matmul.dot
    matmul.explain
    matmul.graph
    matmul.plan
    matmul.tokens
    ");
}

#[test]
fn emit_assumes_sizes_and_says_so() {
    assert_snapshot!(tilec(["examples/matmul.tile", "--emit", "graph", "--dim", "N=8"]).ok().err, @"note: M = K = 64 is assumed; `--dim M=…` gives another size");
    assert_eq!(tilec(["-q", "examples/matmul.tile", "--emit", "graph"]).ok().err, "");
}

const SCALE: &str =
    "function scale(X[N, 2], S) -> (Y, Total') {\n    Y = X * S;\n    Total'[] = +(X[i, j]);\n}\n";

#[test]
fn run_shows_outputs() {
    let path = program("run_shows_outputs", SCALE);
    let path = path.to_str().unwrap();
    let arguments = [
        "run",
        path,
        "--input",
        "S=2.5",
        "--shape",
        "X=i32:3x2",
        "--random",
        "7",
        "--device",
        "cpu",
    ];
    assert_snapshot!(tilec(arguments).ok().text(), @"
    Y f32[3, 2]
    [[22.5 20.0]
     [12.5 15.0]
     [ 5.0  5.0]]
    Total' i32[]
    32
    ");
    assert_snapshot!(tilec(arguments.iter().chain(&["--json"]).copied()).ok().text(), @r#"{"device":"cpu","outputs":[{"name":"Y","dtype":"f32","shape":[3,2],"values":[22.5,20.0,12.5,15.0,5.0,5.0]},{"name":"Total'","dtype":"i32","shape":[],"values":[32]}]}"#);
}

#[test]
fn run_writes_outputs() {
    let path = program("run_writes_outputs", SCALE);
    let folder = empty_folder("run_writes_outputs_to");
    let arguments = [
        "run",
        path.to_str().unwrap(),
        "--input",
        "S=3",
        "--dim",
        "N=5",
        "--random",
        "7",
        "--device",
        "cpu",
    ];
    let output = ["--json", "--output-dir", folder.to_str().unwrap()];
    let run = tilec(arguments.iter().chain(&output).copied()).ok();
    assert_snapshot!(run.text().replace(folder.to_str().unwrap(), "FOLDER"), @r#"{"device":"cpu","outputs":[{"name":"Y","dtype":"f32","shape":[5,2],"file":"FOLDER/Y.npy"},{"name":"Total'","dtype":"f32","shape":[],"file":"FOLDER/Total_.npy"}]}"#);
    assert!(folder.join("Y.npy").is_file() && folder.join("Total_.npy").is_file());
}

#[test]
fn outputs_have_files_of_their_own() {
    let path = program(
        "own_files",
        "function f(X[N]) -> (A_b, A_B, A') { A_b = X; A_B = -X; A' = 2 * X; }",
    );
    let folder = empty_folder("own_files_to");
    let arguments = [
        "run",
        path.to_str().unwrap(),
        "--dim",
        "N=3",
        "--random",
        "7",
        "--device",
        "cpu",
        "--output-dir",
    ];
    let run = tilec(arguments.iter().chain(&[folder.to_str().unwrap()]).copied()).ok();
    assert_snapshot!(run.text().replace(folder.to_str().unwrap(), "FOLDER"), @"
    A_b f32[3] FOLDER/A_b.npy
    A_B f32[3] FOLDER/A_B_2.npy
    A' f32[3] FOLDER/A_.npy
    ");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 3);
}

#[test]
fn devices_are_listed() {
    let text = tilec(["devices"]).ok();
    assert!(text.text().contains("cpu"), "{}", text.text());
    let json = tilec(["devices", "--json"]).ok();
    assert!(json.text().contains("\"name\":\"cpu\""), "{}", json.text());
    assert!(devices().contains(&"cpu"));
}

#[test]
fn what_is_no_command() {
    let run = tilec(["trian", "examples/matmul.tile"]);
    assert_eq!(run.code, 2);
    let first = |err: &str| err.lines().next().unwrap_or_default().to_owned();
    assert_snapshot!(first(&run.err), @"error: `trian` is neither a command nor a file: did you mean `train`?");
    assert_snapshot!(first(&tilec(["rn", "examples/matmul.tile"]).err), @"error: `rn` is neither a command nor a file");
    assert!(tilec(["rn", "--help"]).ok().text().contains("Usage"));
    // A file's name is not a command.
    assert!(tilec(["matmull.tile", "--emit", "ast"]).err.contains("cannot read matmull.tile"));
}

/// `--input X=1,2,3` fills the declared sizes.
#[test]
fn numbers_of_an_array_on_the_command_line() {
    let folder = empty_folder("numbers");
    let path = folder.join("f.tile");
    std::fs::write(&path, "function f(X[N, 3], B[C]) -> (Y) { Y = X + B; }").unwrap();
    let run = |inputs: &[&str]| {
        let inputs = inputs.iter().flat_map(|input| ["--input", input]);
        tilec(["run", path.to_str().unwrap(), "--device", "cpu"].into_iter().chain(inputs))
    };
    let found = run(&["X=1,2,3,4,5,-6", "B=[0.5]"]).ok();
    assert_eq!(found.text(), "Y f32[2, 3]\n[[ 1.5  2.5  3.5]\n [ 4.5  5.5 -5.5]]\n");
    assert_eq!(run(&["X=[7, 8, 9]", "B=1,2,3"]).ok().text(), "Y f32[1, 3]\n[[ 8.0 10.0 12.0]]\n");
    let refused = run(&["X=1,2,3,4", "B=[0]"]);
    assert!(
        refused.code == 1 && refused.err.contains("takes a multiple of 3 numbers, and 4 are given"),
        "{}",
        refused.err
    );
    let constant = run(&["X=1,2,3", "B=4"]);
    assert!(
        constant.code == 1 && constant.err.contains("`--input B=[4]` gives a tensor"),
        "{}",
        constant.err
    );
}

/// Tensors that are stored in 16 bits: the listing, the distance from f32, and packs.
#[test]
fn storage_in_16_bits() {
    let path = program(
        "narrow",
        "model Net(X[N, 64]) -> (Y) { Y = X |> Dense(96, activation = \"tanh\") |> Dense(10); }",
    );
    let path = path.to_str().unwrap();
    let listed = tilec([path, "--emit=plan", "--storage=f16", "--target=amd-rdna3"]).ok();
    assert!(listed.text().contains("4 tensors, 2 as f16"), "{}", listed.text());

    let run = |file: &str, more: &[&str]| {
        let arguments = ["run", file, "--dim", "N=3", "--random", "1", "--device", "cpu"];
        tilec(arguments.iter().chain(more))
    };
    let compared = run(path, &["--storage", "f16", "--compare", "--json"]).ok();
    let json: serde_json::Value = serde_json::from_str(compared.text()).unwrap();
    let share = json["outputs"][0]["difference"]["share"].as_f64().unwrap();
    assert!(0.0 < share && share < 0.001, "{share}");
    let text = run(path, &["--storage", "bf16", "--compare"]).ok();
    assert!(text.text().contains("\nY differs from f32 by at most "), "{}", text.text());

    let folder = empty_folder("narrow_pack");
    let build = |name: &str, more: &[&str]| {
        let pack = folder.join(name);
        let arguments = [
            "build",
            path,
            "-o",
            pack.to_str().unwrap(),
            "--dim=N=3",
            "--random=1",
            "--target=cpu",
        ];
        tilec(arguments.iter().chain(more)).ok();
        pack
    };
    let pack = build("net.tilepack", &["--storage", "f16"]);
    let bytes = |pack: &Path| std::fs::metadata(pack).unwrap().len();
    let saved = bytes(&build("wide.tilepack", &[])) - bytes(&pack);
    assert!(saved > 2 * (64 * 96 + 96 * 10) - 1000, "only {saved} bytes of the weights are saved");
    let pack = pack.to_str().unwrap();
    let packed = run(pack, &["--json"]).ok();
    let packed: serde_json::Value = serde_json::from_str(packed.text()).unwrap();
    assert_eq!(packed["outputs"][0]["values"], json["outputs"][0]["values"]);

    let wrong = run(path, &["--compare"]);
    assert_eq!(wrong.code, 2);
    let wrong = run(path, &["--storage", "f64"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("expected f16 or bf16, and `f64` is neither"),
        "{}",
        wrong.err
    );
    let wrong = tilec([path, "--emit", "plan", "--train", "--storage", "f16"]);
    assert!(wrong.code == 2 && wrong.err.contains("cannot be used with"), "{}", wrong.err);
}

#[test]
fn weights_in_8_bits() {
    let path = program(
        "quantized",
        "layer Only()(X[N, 40]) -> (Y) {
             param W[40, 40] = random_uniform;
             Y[n, u: N, 40] = +(X[n, k] * W[k, u]);
             if N > 1 { Y = Y + W; }
         }
         model Net(X[N, 40]) -> (Y) { Y = X |> Only(); }",
    );
    let path = path.to_str().unwrap();
    let listed = tilec([path, "--emit=plan", "--weights-type=int8", "--dim=N=1"]).ok();
    assert!(listed.text().contains("1.8 KB  1 tensor, 1 as i8"), "{}", listed.text());
    let listed = tilec([path, "--emit=plan", "--weights-type=int8", "--dim=N=40"]).ok();
    assert!(!listed.text().contains("as i8"), "{}", listed.text());

    let run = |file: &str, more: &[&str]| {
        let arguments = ["run", file, "--dim", "N=1", "--device", "cpu", "--input"];
        let numbers = (1..=40).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let input = format!("X={numbers}");
        tilec(arguments.iter().copied().chain([input.as_str()]).chain(more.iter().copied()))
    };
    let compared = ["--random=1", "--weights-type", "int8", "--compare", "--json"];
    let compared = run(path, &compared).ok();
    let json: serde_json::Value = serde_json::from_str(compared.text()).unwrap();
    let share = json["outputs"][0]["difference"]["share"].as_f64().unwrap();
    assert!(0.0 < share && share < 0.01, "{share}");

    let folder = empty_folder("quantized_pack");
    let build = |name: &str, more: &[&str]| {
        let pack = folder.join(name);
        let pack = pack.to_str().unwrap().to_owned();
        let arguments = ["build", path, "-o", &pack, "--random=1", "--target=cpu"];
        tilec(arguments.iter().chain(more)).ok();
        let run: serde_json::Value =
            serde_json::from_str(run(&pack, &["--json"]).ok().text()).unwrap();
        (std::fs::metadata(pack).unwrap().len(), run["outputs"][0]["values"].clone())
    };
    let (wide, exact) = build("wide.tilepack", &["--dim=N=1"]);
    let (narrow, rounded) = build("net.tilepack", &["--dim=N=1", "--weights-type=int8"]);
    assert!(wide - narrow > 3000, "{wide} and {narrow} bytes");
    assert_eq!(rounded, json["outputs"][0]["values"]);
    assert_ne!(rounded, exact);
    // A plan that needs the weight in f32 gets it as it was given.
    let (_, both) = build("both.tilepack", &["--dim=N=1,40", "--weights-type=int8"]);
    let (_, wide_both) = build("wide_both.tilepack", &["--dim=N=1,40"]);
    assert_eq!((&both, &wide_both), (&rounded, &exact));

    for wrong in [["--factors", "f16"], ["--storage", "int8"]] {
        let wrong = run(path, &["--random=1", "--weights-type=int8", wrong[0], wrong[1]]);
        assert_eq!(wrong.code, 2, "{}", wrong.err);
    }
    let wrong = run(path, &["--random=1", "--weights-type=int4"]);
    assert!(wrong.err.contains("expected int8, and found `int4`"), "{}", wrong.err);
}
