//! Wrong input ends with exit code 1, and an error that names the place and the reason.

use std::path::Path;

use insta::assert_snapshot;

use crate::tilec::{empty_folder, program, tilec};

/// Returns the errors of `tilec COMMAND FILE MORE` for this program, after checking for exit code 1
/// and no results.
fn rejected(name: &str, source: &str, command: &str, more: &[&str]) -> String {
    let path = program(name, source);
    let path = path.to_str().unwrap();
    let run = tilec([command, path].iter().chain(more).copied());
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(run.text(), "");
    run.err.replace(path, "f.tile")
}

#[test]
fn unknown_name() {
    assert_snapshot!(rejected("unknown_name", "function f(Image[N]) -> (Y) {\n    Y = Imag + 1;\n}\n", "check", &[]), @"
    [E0101] Error: unknown name `Imag`
       ╭─[ f.tile:2:9 ]
       │
     2 │     Y = Imag + 1;
       │         ──┬─
       │           ╰─── here
       │
       │ Help: did you mean `Image`?
    ───╯
    ");
}

#[test]
fn several_errors_at_once() {
    let source =
        "function f(X[N]) -> (Y) {\n    A = X +;\n    B[i: N] = +(X[i]\n    Y = exq(X);\n}\n";
    assert_snapshot!(rejected("several", source, "check", &[]), @"
    [E0003] Error: expected an expression, found `;`
       ╭─[ f.tile:2:12 ]
       │
     2 │     A = X +;
       │            ┬
       │            ╰── here
    ───╯
    [E0003] Error: missing `)`
       ╭─[ f.tile:3:21 ]
       │
     3 │     B[i: N] = +(X[i]
       │                ┬    │
       │                ╰────── this `(` is not closed
       │                     │
       │                     ╰─ expected `)` here
    ───╯
    ");
}

/// Imports are relative to the importing file, and errors show the file that they are in.
#[test]
fn in_an_imported_file() {
    let folder = empty_folder("imports");
    let files = [
        (
            "net.tile",
            "import \"blocks/one.tile\";\n\nmodel Net(X[N]) -> (Y) { Y = X |> One() |> Two(); }\n",
        ),
        ("blocks/one.tile", "import \"two.tile\";\n\nlayer One()(X) -> (Y) { Y = X |> Two(); }\n"),
        ("blocks/two.tile", "layer Two()(X) -> (Y) { Y = X + Z; }\n"),
    ];
    std::fs::create_dir(folder.join("blocks")).unwrap();
    files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    let run = tilec(["check", folder.join("net.tile").to_str().unwrap()]);
    assert_eq!(run.code, 1);
    assert_snapshot!(run.err.replace(folder.to_str().unwrap(), "."), @"
    [E0102] Error: unknown layer `Two`
       ╭─[ ./net.tile:3:44 ]
       │
     3 │ model Net(X[N]) -> (Y) { Y = X |> One() |> Two(); }
       │                                            ─┬─
       │                                             ╰─── here
       │
       │ Help: import the file that defines it: a file sees only what it imports itself
    ───╯
    [E0101] Error: unknown name `Z`
       ╭─[ ./blocks/two.tile:1:33 ]
       │
     1 │ layer Two()(X) -> (Y) { Y = X + Z; }
       │                                 ┬
       │                                 ╰── here
    ───╯
    ");
}

#[test]
fn rank_mismatch() {
    let source = "function f(X[N]) -> (Y) {\n    Y[i: N] = +(X[i, j]);\n}\n";
    assert_snapshot!(rejected("rank_mismatch", source, "check", &[]), @"
    [E0107] Error: expected 1 index for `X`, found 2
       ╭─[ f.tile:2:17 ]
       │
     1 │ function f(X[N]) -> (Y) {
       │            ┬
       │            ╰── it has rank 1
     2 │     Y[i: N] = +(X[i, j]);
       │                 ───┬───
       │                    ╰───── here
    ───╯
    ");
}

#[test]
fn dimension_conflict() {
    let source =
        "function f(A[M, K], B[K, N]) -> (C) {\n    C[i, j: M, N] = +(A[i, k] * B[k, j]);\n}\n";
    let shapes = ["--shape", "A=2x3", "--shape", "B=4x5", "--random", "1"];
    assert_snapshot!(rejected("dimension_conflict", source, "run", &shapes), @"
    [E0213] Error: `K` is 4 in `B`, but 3 before
       ╭─[ f.tile:1:23 ]
       │
     1 │ function f(A[M, K], B[K, N]) -> (C) {
       │                 ┬     ┬
       │                 ╰──────── 3 here
       │                       │
       │                       ╰── 4 here: [4, 5]
    ───╯
    ");
}

#[test]
fn unbounded_index() {
    let source = "function f(X[N]) -> (Y) {\n    Y[i: N] = +(X[i + j - k]);\n}\n";
    assert_snapshot!(rejected("unbounded_index", source, "run", &["--shape", "X=8", "--random", "1"]), @"
    [E0216] Error: the index `j` has no upper bound
       ╭─[ f.tile:2:23 ]
       │
     2 │     Y[i: N] = +(X[i + j - k]);
       │                       ┬
       │                       ╰── nothing limits it from above
       │
       │ Help: index a tensor with it, or add a constraint, as in `, j < 10`
    ───╯
    ");
}

#[test]
fn double_write() {
    let source = "function f(X[M, N]) -> (Y) {\n    Y[i: M] = =(X[i, j]);\n}\n";
    assert_snapshot!(rejected("double_write", source, "run", &["--shape", "X=2x3", "--random", "1"]), @"
    [E0217] Error: `=` writes `Y[0]` more than once: where i = 0, j = 0, and where i = 0, j = 1
       ╭─[ f.tile:2:5 ]
       │
     2 │     Y[i: M] = =(X[i, j]);
       │     ──────────┬──────────
       │               ╰──────────── here
       │
       │ Help: aggregate with `+`, `*`, `>` or `<`, or add constraints
    ───╯
    ");
}

#[test]
fn non_affine_index() {
    let source = "function f(X[N]) -> (Y) {\n    Y[i: N] = +(X[i * j]);\n}\n";
    assert_snapshot!(rejected("non_affine_index", source, "check", &[]), @"
    [E0108] Error: this index is not affine: it multiplies index variables with each other
       ╭─[ f.tile:2:19 ]
       │
     2 │     Y[i: N] = +(X[i * j]);
       │                   ──┬──
       │                     ╰──── here
       │
       │ Help: write a sum of index variables with constant factors, as in `2*i + j/2 - 1`
    ───╯
    ");
}

#[test]
fn type_clash() {
    let source = "function f(X[N]) -> (Y) {\n    Y = X & 1;\n}\n";
    assert_snapshot!(rejected("type_clash", source, "run", &["--shape", "X=8", "--random", "1"]), @"
    [E0204] Error: bit operations do not take floats
       ╭─[ f.tile:2:9 ]
       │
     2 │     Y = X & 1;
       │         ──┬──
       │           ╰──── here
       │
       │ Help: convert with `as_int(X, 32)` first; a power is `pow(X, 2)`, and not `X ^ 2`
    ───╯
    ");
}

#[test]
fn missing_input() {
    let source = "function f(A[N], B[N]) -> (C) {\n    C = A + B;\n}\n";
    let a = "A=tests/golden/tutorial/pool_floor/X.npy";
    assert_snapshot!(rejected("missing_input", source, "run", &["--input", a]), @"
    [E0302] Error: input `B`, f32[13], is missing
       ╭─[ f.tile:1:18 ]
       │
     1 │ function f(A[N], B[N]) -> (C) {
       │                  ──┬─
       │                    ╰─── here
       │
       │ Help: give it an array with `--input B=x.npy`, or random values with `--random 1`
    ───╯
    ");
}

#[test]
fn array_of_the_wrong_shape() {
    let source = "function f(X[M, N]) -> (Y) {\n    Y = X + 1;\n}\n";
    let line = "X=tests/golden/tutorial/pool_floor/X.npy";
    assert_snapshot!(rejected("wrong_rank", source, "run", &["--input", line]), @"
    [E0212] Error: expected a tensor with 2 axes for `X`, found [13]
       ╭─[ f.tile:1:12 ]
       │
     1 │ function f(X[M, N]) -> (Y) {
       │            ───┬───
       │               ╰───── here
    ───╯
    ");
    let matrix = "X=tests/golden/tutorial/transpose/X.npy";
    assert_snapshot!(rejected("wrong_size", source, "run", &["--input", matrix, "--dim", "N=12"]), @"
    [E0213] Error: `N` is 11 in `X`, but 12 before
       ╭─[ f.tile:1:17 ]
       │
     1 │ function f(X[M, N]) -> (Y) {
       │                 ┬
       │                 ╰── 11 here: [7, 11]
       │
       │ Help: `--dim N=12` was given
    ───╯
    ");
}

#[test]
fn truncated_array() {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tutorial/transpose/X.npy");
    let folder = empty_folder("truncated_array_input");
    let short = folder.join("X.npy");
    std::fs::write(&short, &std::fs::read(whole).unwrap()[..200]).unwrap();
    let source = "function f(X[M, N]) -> (Y) {\n    Y = X + 1;\n}\n";
    let input = format!("X={}", short.display());
    let message = rejected("truncated_array", source, "run", &["--input", &input]);
    assert_snapshot!(message.replace(folder.to_str().unwrap(), "FOLDER"), @"
    [E0301] Error: FOLDER/X.npy: not a valid .npy file: truncated: f32[7, 11] takes 308 bytes, but only 72 follow the header
       ╭─[ f.tile:1:12 ]
       │
     1 │ function f(X[M, N]) -> (Y) {
       │            ───┬───
       │               ╰───── here
       │
       │ Help: numpy.save writes such a file
    ───╯
    ");
}

#[test]
fn larger_than_the_device_allows() {
    let source = "function f(X[N]) -> (Y) {\n    Y[] = argmax(X[i]);\n}\n";
    let path = program("too_large", source);
    let path = path.to_str().unwrap();
    let run = tilec([path, "--emit", "plan", "--dim", "N=1000000000"]);
    assert_eq!((run.code, run.text()), (1, ""));
    assert_snapshot!(run.err.replace(path, "f.tile"), @"
    [E0290] Error: `X` is f32[1000000000], 4000000000 bytes: `generic` holds at most 134217728 bytes in a buffer
       ╭─[ f.tile:1:12 ]
       │
     1 │ function f(X[N]) -> (Y) {
       │            ──┬─
       │              ╰─── here
       │
       │ Help: use smaller sizes, or the device `cpu`
    ───╯
    ");
}

#[test]
fn wrong_usage() {
    for arguments in [
        &["run"] as &[&str],
        &["examples/matmul.tile", "--emit", "cuda"],
        &["examples/matmul.tile", "--emit", "graph", "--shape", "A=two"],
        &["run", "examples/matmul.tile", "--input", "A"],
        &["check"],
        &["--no-such-option"],
    ] {
        let run = tilec(arguments.iter().copied());
        assert_eq!((run.code, run.text()), (2, ""), "{arguments:?}: {}", run.err);
    }
}

#[test]
fn no_such_file() {
    let run = tilec(["check", "no-such.tile"]);
    assert_eq!(run.code, 1);
    assert_snapshot!(run.err, @"error: cannot read no-such.tile: there is no such file");
}

#[test]
fn no_such_device() {
    let run = tilec([
        "run",
        "examples/matmul.tile",
        "--device",
        "wgpu:99",
        "--dim",
        "M=1",
        "--dim",
        "N=1",
        "--dim",
        "K=1",
        "--random",
        "1",
    ]);
    assert_eq!((run.code, run.text()), (3, ""), "{}", run.err);
}

/// Outputs that cannot be written are reported before the work whose results would be lost.
#[test]
fn outputs_that_cannot_be_written() {
    let folder = empty_folder("outputs_that_cannot_be_written");
    let path = program("output_twice", "function f(X[N]) -> (Y) { Y = X + 1; }\n");
    let refused = |arguments: &[&str], code: i32| {
        let run = tilec(arguments.iter().copied());
        assert_eq!((run.code, run.text()), (code, ""), "{}", run.err);
        run.err.replace(folder.to_str().unwrap(), "DIR")
    };
    let file = path.to_str().unwrap();
    let run = [
        "run", file, "--shape", "X=2", "--random", "1", "--output", "Y=a.npy", "--output",
        "Y=b.npy",
    ];
    assert_snapshot!(refused(&run, 2), @"error: output `Y` is given twice");
    let run = ["run", file, "--input", "X=1", "--input", "X=x.npy"];
    assert_snapshot!(refused(&run, 2), @"error: input `X` is given twice");
    let (copy, program) = (folder.join("y.npy"), folder.join("program.tile"));
    std::fs::copy(&path, &program).unwrap();
    let program = program.to_str().unwrap();
    let trace_over = ["run", program, "--shape", "X=2", "--random", "1", "--trace", program];
    assert_snapshot!(refused(&trace_over, 2), @"error: DIR/program.tile is read, and would be written over");
    assert_eq!(std::fs::read(program).unwrap(), std::fs::read(&path).unwrap());
    let (same, again) =
        (format!("Y={}", copy.display()), format!("Z={}/./y.npy", folder.display()));
    let run =
        ["run", file, "--shape", "X=2", "--random", "1", "--output", &same, "--output", &again];
    assert_snapshot!(refused(&run, 2), @"error: DIR/./y.npy would be written twice");
    let away = format!("Y={}/none/y.npy", folder.display());
    let run = ["run", file, "--shape", "X=2", "--random", "1", "--output", &away];
    assert_snapshot!(refused(&run, 1), @"error: cannot write DIR/none/y.npy: there is no folder DIR/none");
    let run = ["run", file, "--random", "1", "--shape", "X=2", "--shape", "X=3"];
    assert_snapshot!(refused(&run, 2), @"error: the shape of `X` is given twice");
    let plan = [file, "--emit", "plan", "--dim", "N=2", "--dim", "N=3"];
    assert_snapshot!(refused(&plan, 2), @"error: the size `N` is given twice");
    let set = ["summary", "examples/models/mobilenet.tile", "--set", "alpha=1", "--set", "alpha=2"];
    assert_snapshot!(refused(&set, 2), @"error: the hyper-parameter `alpha` is given twice");
    let import = ["import", "tests/golden/onnx/attention.onnx", "-o", folder.to_str().unwrap()];
    assert_snapshot!(refused(&import, 2), @"error: DIR is a folder: the program wants a name, such as model.tile");
    assert!(!folder.with_extension("safetensors").exists());
    let trace = folder.join("none").join("t.json");
    let bench =
        ["bench", file, "--shape", "X=2", "--device", "cpu", "--trace", trace.to_str().unwrap()];
    assert_snapshot!(refused(&bench, 1), @"error: cannot write DIR/none/t.json: there is no folder DIR/none");
    let bench = ["bench", program, "--shape", "X=2", "--device", "cpu", "--trace", program];
    assert_snapshot!(refused(&bench, 2), @"error: DIR/program.tile is read, and would be written over");
    let plot = folder.join("points.csv");
    let bench = ["bench", "matmul", "--device", "cpu", "--plot", plot.to_str().unwrap()];
    assert_snapshot!(refused(&bench, 2), @"error: the name of the file for `--plot` ends in .svg, and this is DIR/points.csv");
    let digits = "examples/digits/Image.npy";
    let input = folder.join("Y.npy");
    std::fs::copy(digits, &input).unwrap();
    let given = format!("X={}", input.display());
    let images =
        self::program("output_of_images", "function f(X[N, H, W]) -> (Y) { Y = X + X; }\n");
    let run = [
        "run",
        images.to_str().unwrap(),
        "--input",
        &given,
        "--output-dir",
        folder.to_str().unwrap(),
    ];
    assert_snapshot!(refused(&run, 2), @"error: DIR/Y.npy is read, and would be written over");
    assert_eq!(std::fs::read(&input).unwrap(), std::fs::read(digits).unwrap());
}
