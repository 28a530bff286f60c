//! `tilec build`, and packs in the place of programs.

use std::fs;

use crate::tilec::{empty_folder, tilec};

const PROGRAM: &str = "
model Classifier(X[N, 4]) -> (P) { P = X |> Dense(8, activation = tanh) |> Dense(3, activation = softmax); }
";

/// Runs `tilec` with `@` for the folder.
fn run(folder: &std::path::Path, line: &str) -> crate::tilec::Run {
    tilec(line.split(' ').map(|word| word.replace('@', &format!("{}/", folder.display()))))
}

#[test]
fn packs_run_where_programs_run() {
    let folder = empty_folder("packs");
    fs::write(folder.join("m.tile"), PROGRAM).unwrap();
    let built = run(&folder, "build @m.tile -o @m.tilepack --dim N=1,3 --random 7").ok();
    assert!(built.err.contains("m.tilepack"), "{}", built.err);
    let of_program = run(&folder, "run @m.tile --dim N=3 --random 7 --json").ok();
    let of_pack = run(&folder, "run @m.tilepack --dim N=3 --random 7 --json").ok();
    assert_eq!(of_pack.text(), of_program.text());
    let summary = run(&folder, "summary @m.tilepack").ok();
    for part in ["dense (Dense)", "67", "Plan for cpu with N = 3", "Plan for gpu with N = 1"] {
        assert!(summary.text().contains(part), "{part}: {}", summary.text());
    }
    let bench = run(&folder, "bench @m.tilepack --dim N=3 --iterations 1 --json").ok();
    assert!(bench.text().contains("\"median_s\""), "{}", bench.text());
    fs::write(folder.join("rows.csv"), "a,b,c,d\n1,2,3,4\n0,1,0,1\n2,2,2,2\n4,3,2,1\n").unwrap();
    let rows = run(&folder, "predict @m.tilepack @rows.csv --top 1 --json").ok();
    assert_eq!(rows.text().lines().count(), 4);
}

#[test]
fn packs_for_families_of_gpus() {
    let folder = empty_folder("packs_families");
    fs::write(folder.join("m.tile"), PROGRAM).unwrap();
    let build =
        "build @m.tile -o @m.tilepack --dim N=2 --random 1 --target cpu,wgsl,amd-rdna,mobile";
    run(&folder, build).ok();
    let summary = run(&folder, "summary @m.tilepack").ok();
    for device in ["cpu", "amd-rdna", "gpu", "mobile"] {
        let plan = format!("Plan for {device} with N = 2");
        assert!(summary.text().contains(&plan), "{}", summary.text());
    }
    // `check` has the features of every adapter.
    run(&folder, "run @m.tilepack --random 1 --device check").ok();
}

#[test]
fn mistakes_with_packs() {
    let folder = empty_folder("packs_mistakes");
    fs::write(folder.join("m.tile"), PROGRAM).unwrap();
    run(&folder, "build @m.tile -o @m.tilepack --dim N=2 --target cpu").ok();
    for (line, code, said) in [
        ("build @m.tile -o @m.pack --dim N=2", 2, "tilepack"),
        ("build @m.tile -o @n.tilepack", 1, "the shape of input `X` is not known"),
        (
            "build @m.tile -o @n.tilepack --dim N=2 --target gpu",
            2,
            "the targets are cpu, wgsl, msl, spirv, hlsl, glsl, web, generic, apple, amd-gcn, amd-rdna, amd-rdna3, intel-xe, nvidia, mobile",
        ),
        ("build @m.tilepack -o @n.tilepack", 1, "is a pack"),
        ("check @m.tilepack", 1, "is a pack"),
        (
            "run @m.tilepack --random 1",
            1,
            "has no value yet; it is f32[4, 8]: give it with `--weights",
        ),
        ("run @m.tilepack --input X=0.5", 1, "m.tilepack: `X` has axes"),
        (
            "run @m.tilepack --input X=[1,2,3,4,5,6,7,8]",
            1,
            "m.tilepack: the pack is without the values of weights: give them with `--weights FILE`",
        ),
        (
            "run @m.tilepack --dim N=3 --random 1",
            1,
            "m.tilepack: the pack has no plan for N = 3; it has plans for N = 2",
        ),
        (
            "run @m.tilepack --shape X=i32:2x4 --random 1",
            1,
            "no plan for X = i32[2, 4]; it has plans for X = f32[2, 4]",
        ),
        (
            "summary @m.tilepack --entry Other",
            1,
            "m.tilepack: the pack has `Classifier`, and no `Other`",
        ),
        ("run @m.tile --dim N=1,2 --random 1", 2, "takes one size"),
    ] {
        let run = run(&folder, line);
        assert_eq!(run.code, code, "{line}: {}", run.err);
        assert!(run.err.contains(said), "{line}: {}", run.err);
    }
    let bytes = fs::read(folder.join("m.tilepack")).unwrap();
    fs::write(folder.join("short.tilepack"), &bytes[..bytes.len() - 1]).unwrap();
    let short = run(&folder, "run @short.tilepack --random 1");
    assert_eq!(short.code, 1);
    assert!(short.err.contains("this is not a valid pack"), "{}", short.err);
    fs::write(folder.join("text.tilepack"), PROGRAM).unwrap();
    assert_eq!(run(&folder, "summary @text.tilepack").code, 1);
}

#[test]
fn equal_sizes_are_packed_once() {
    let folder = empty_folder("packs_once");
    fs::write(folder.join("m.tile"), PROGRAM).unwrap();
    run(&folder, "build @m.tile -o @m.tilepack --dim N=2,2,3 --target cpu --random 1").ok();
    let summary = run(&folder, "summary @m.tilepack").ok();
    assert_eq!(summary.text().matches("Plan for").count(), 2, "{}", summary.text());
}

#[test]
fn packs_predict_what_programs_predict() {
    let folder = empty_folder("packs_predict");
    let program = "
        model M(X[N, 2]) -> (Class, Size) { H = X |> Dense(4); Class = H |> Dense(3); Size = H |> Dense(1); }
        train M { loss = [SparseCategoricalCrossentropy(from_logits = true), MeanSquaredError()]; optimizer = Adam(0.1); epochs = 1; }
    ";
    fs::write(folder.join("m.tile"), program).unwrap();
    fs::write(folder.join("rows.csv"), "a,b\n1,2\n0,1\n").unwrap();
    run(&folder, "build @m.tile -o @m.tilepack --dim N=2 --target cpu --random 3").ok();
    // The weights of the program are those in the pack.
    let bytes = fs::read(folder.join("m.tilepack")).unwrap();
    fs::write(folder.join("m.safetensors"), bytes).unwrap();
    let of_pack = run(&folder, "predict @m.tilepack @rows.csv --json").ok();
    let of_program =
        run(&folder, "predict @m.tile @rows.csv --weights @m.safetensors --allow-extra --json")
            .ok();
    assert!(of_pack.text().contains("\"score\""), "{}", of_pack.text());
    assert_eq!(of_pack.text(), of_program.text());
}
