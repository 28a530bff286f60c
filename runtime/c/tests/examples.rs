//! The programs in C and C++ compile without a warning, run under AddressSanitizer where the
//! compiler has it, and compute what Rust computes.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use tile_runtime::pack::{PackBuilder, PackTarget};
use tile_runtime::{Device, Model, Tensor};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of the built library: that of this test.
fn library() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Compiles an example. Returns `None` if there is no compiler.
fn compiled(compiler: &str, source: &str) -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace(['.', '/'], "_"));
    let compile = |options: &[&str]| {
        let rpath = format!("-Wl,-rpath,{}", library().display());
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-O1"]).args(options);
        command.arg(root().join(source)).arg("-I").arg(root().join("include"));
        command.arg("-L").arg(library()).args(["-ltile", &rpath, "-o"]).arg(&program);
        command.output().ok()
    };
    let sanitized = compile(&["-fsanitize=address,undefined"])?;
    let output = match sanitized.status.success() {
        true => sanitized,
        false => {
            eprintln!("without AddressSanitizer: {}", text(&sanitized.stderr));
            compile(&[])?
        }
    };
    assert!(output.status.success(), "{source}: {}", text(&output.stderr));
    Some(program)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(program: &Path, arguments: &[&Path]) -> Output {
    // Drivers and thread pools live until the process ends.
    Command::new(program).args(arguments).env("ASAN_OPTIONS", "detect_leaks=0").output().unwrap()
}

#[test]
fn c_computes_what_rust_computes() {
    let Some(program) = compiled("cc", "examples/classify.c") else {
        return eprintln!("not run: there is no C compiler");
    };
    let model = Model::load(root().join("../../examples/models/mobilenet.tile")).unwrap();
    let device = Device::cpu();
    let builder = || model.on(&device).input("Image", [1, 64, 64, 3]);
    let mut session = builder().build().unwrap();
    session.initialise(1).unwrap();
    let mut pack = PackBuilder::new(&[PackTarget::Cpu]);
    pack.add(&builder()).unwrap();
    pack.add_weights(&session).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [packed, picture, result] =
        ["c.tilepack", "picture.f32", "result.f32"].map(|name| folder.join(name));
    pack.write(&packed).unwrap();
    let values: Vec<f32> = (0..64 * 64 * 3).map(|place| (place % 251) as f32 / 251.0).collect();
    let image = Tensor::from_f32([1, 64, 64, 3], &values).unwrap();
    fs::write(&picture, image.bytes()).unwrap();
    let output = run(&program, &[&packed, &picture, &result]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let expected = session.run([("Image", image)]).unwrap().remove("Probs").unwrap();
    assert_eq!(fs::read(&result).unwrap(), expected.bytes());

    let missing = run(&program, &[&folder.join("none.tilepack"), &picture, &result]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("none.tilepack"), "{}", text(&missing.stderr));
}

#[test]
fn wrong_calls_are_errors() {
    let Some(program) = compiled("cc", "tests/misuse.c") else {
        return eprintln!("not run: there is no C compiler");
    };
    let output = run(&program, &[]);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn cpp_compiles_from_text() {
    let Some(program) = compiled("c++", "examples/scale.cpp") else {
        return eprintln!("not run: there is no C++ compiler");
    };
    let output = run(&program, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("3 5 7 9 \n21 5\n41 5\n[E"), "{said}");
    assert!(said.contains("`Z`"), "{said}");
}
