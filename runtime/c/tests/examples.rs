//! The programs in C and C++ compile without a warning, run under AddressSanitizer where the
//! compiler has it, and compute what Rust computes. So do those in C# and Swift, where there is a
//! compiler.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::{env, fs};

use tile_runtime::pack::{PackBuilder, PackTarget};
use tile_runtime::{Device, Model, Tensor};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The folder of the built library: that of this test. An app loads it by the name with the
/// version, which `install.sh` makes elsewhere.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    let version = match env!("CARGO_PKG_VERSION_MAJOR") {
        "0" => concat!("0.", env!("CARGO_PKG_VERSION_MINOR")),
        major => major,
    };
    let versioned = folder.join(format!("libtile.so.{version}"));
    let _ = fs::remove_file(&versioned);
    std::os::unix::fs::symlink("libtile.so", versioned).unwrap();
    folder
});

/// Compiles an example. Returns `None` if there is no compiler.
fn compiled(compiler: &str, source: &str) -> Option<PathBuf> {
    let program = scratch().join(source.replace(['.', '/'], "_"));
    let compile = |options: &[&str]| {
        let rpath = format!("-Wl,-rpath,{}", LIBRARY.display());
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-O1"]).args(options);
        command.arg(root().join(source)).arg("-I").arg(root().join("include"));
        command.arg("-L").arg(&*LIBRARY).args(["-ltile", &rpath, "-o"]).arg(&program);
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

/// The path of a pack of MobileNet and that of a picture, and what Rust computes of these.
static CLASSIFIED: LazyLock<(PathBuf, PathBuf, Tensor)> = LazyLock::new(|| {
    let model = Model::load(root().join("../../examples/models/mobilenet.tile")).unwrap();
    let device = Device::cpu();
    let builder = || model.on(&device).input("Image", [1, 64, 64, 3]);
    let mut session = builder().build().unwrap();
    session.initialise(1).unwrap();
    let mut pack = PackBuilder::new(&[PackTarget::Cpu]);
    pack.add(&builder()).unwrap();
    pack.add_weights(&session).unwrap();
    let [packed, picture] = ["c.tilepack", "picture.f32"].map(|name| scratch().join(name));
    pack.write(&packed).unwrap();
    let values: Vec<f32> = (0..64 * 64 * 3).map(|place| (place % 251) as f32 / 251.0).collect();
    let image = Tensor::from_f32([1, 64, 64, 3], &values).unwrap();
    fs::write(&picture, image.bytes()).unwrap();
    (packed, picture, session.run([("Image", image)]).unwrap().remove("Probs").unwrap())
});

/// Checks that a program classifies the picture as Rust does, and reports a missing pack.
fn classifies(run: impl Fn(&[&Path]) -> Output, name: &str) {
    let (packed, picture, expected) = &*CLASSIFIED;
    let result = scratch().join(format!("{name}.f32"));
    let output = run(&[packed, picture, &result]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read(&result).unwrap(), expected.bytes());

    let missing = run(&[&scratch().join("none.tilepack"), picture, &result]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("none.tilepack"), "{}", text(&missing.stderr));
}

#[test]
fn c_computes_what_rust_computes() {
    match compiled("cc", "examples/classify.c") {
        Some(program) => classifies(|arguments| run(&program, arguments), "c"),
        None => eprintln!("not run: there is no C compiler"),
    }
}

/// Compiles an example with Mono, or else with .NET, and returns the command that runs it. Returns
/// `None` if there is neither.
fn compiled_by_csharp(source: &Path) -> Option<(&'static str, PathBuf)> {
    let (folder, built) = (scratch().join("csharp"), scratch().join("csharp/Classify"));
    fs::create_dir_all(&folder).unwrap();
    let program = built.with_extension("exe");
    let out = format!("-out:{}", program.display());
    if let Ok(output) = Command::new("mcs").args(["-warnaserror", &out]).arg(source).output() {
        assert!(output.status.success(), "{}", text(&output.stderr));
        return Some(("mono", program));
    }
    let version = text(&Command::new("dotnet").arg("--version").output().ok()?.stdout);
    let project = format!(
        "<Project Sdk=\"Microsoft.NET.Sdk\"><PropertyGroup><OutputType>Exe</OutputType>\
         <TargetFramework>net{}.0</TargetFramework><ImplicitUsings>disable</ImplicitUsings>\
         </PropertyGroup><ItemGroup><Compile Include=\"{}\"/></ItemGroup></Project>",
        version.split('.').next().unwrap_or_default(),
        source.display()
    );
    fs::write(folder.join("Classify.csproj"), project).unwrap();
    let mut build = Command::new("dotnet");
    build.args(["build", "-o"]).arg(folder.join("built")).current_dir(&folder);
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
    Some(("dotnet", folder.join("built/Classify.dll")))
}

#[test]
fn csharp_computes_what_rust_computes() {
    let Some((runner, program)) = compiled_by_csharp(&root().join("examples/Classify.cs")) else {
        return eprintln!("not run: there is neither Mono nor .NET");
    };
    let run = |arguments: &[&Path]| {
        let mut command = Command::new(runner);
        command.arg(&program).args(arguments);
        for path in ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"] {
            command.env(path, &*LIBRARY);
        }
        command.output().unwrap()
    };
    classifies(run, "csharp");
}

#[test]
fn swift_computes_what_rust_computes() {
    let program = scratch().join("classify_swift");
    let mut compile = Command::new("swiftc");
    compile.arg(root().join("examples/classify.swift")).arg("-I").arg(root().join("include"));
    compile.arg("-L").arg(&*LIBRARY).args(["-Xlinker", "-rpath", "-Xlinker"]).arg(&*LIBRARY);
    let Ok(output) = compile.arg("-o").arg(&program).output() else {
        return eprintln!("not run: there is no Swift compiler");
    };
    assert!(output.status.success(), "{}", text(&output.stderr));
    classifies(|arguments| run(&program, arguments), "swift");
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
