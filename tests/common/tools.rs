//! Checks listings of kernels with the external compilers and validators on this machine: `naga`,
//! `tint` (WGSL as browsers take it, with its uniformity analysis), `spirv-val`,
//! `glslangValidator`, and `clang`, which checks MSL against the declarations in `msl/`. Missing
//! tools are skipped, with a note.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use tile_compiler::emit::{self, Target};
use tile_compiler::kernel::Kernel;

/// The number of MSL kernels in one file for clang, each in its own namespace.
const TOGETHER: usize = 100;

/// Writes every kernel for every target, and panics with the complaints of each tool.
///
/// A kernel may be refused for a target only because of its types: the message must say
/// `TARGET has no TYPE`.
pub fn check(kernels: &[Kernel]) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call =
        format!("tilec-tools-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let folder = env::temp_dir().join(call);
    fs::create_dir_all(&folder).unwrap();
    let complaints: String = thread::scope(|scope| {
        let check = |target| {
            let folder = &folder;
            scope.spawn(move || match target {
                Target::Msl => kernels
                    .chunks(TOGETHER)
                    .map(|kernels| msl_complaints(kernels, folder))
                    .collect(),
                _ => kernels
                    .iter()
                    .map(|kernel| complaints(kernel, target, folder))
                    .collect::<String>(),
            })
        };
        let running = Target::ALL.map(check);
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    fs::remove_dir_all(&folder).unwrap();
    assert!(complaints.is_empty(), "{complaints}");
}

/// Removes kernels that differ only in the name, and gives all kernels unique names.
pub fn distinct(kernels: impl IntoIterator<Item = Kernel>) -> Vec<Kernel> {
    let mut texts = BTreeSet::new();
    let mut distinct: Vec<Kernel> = Vec::new();
    for kernel in kernels {
        let renamed = Kernel { name: format!("kernel{}", distinct.len()), ..kernel };
        if texts.insert(Kernel { name: String::new(), ..renamed.clone() }.to_string()) {
            distinct.push(renamed);
        }
    }
    distinct
}

/// Returns the kernel's listing if the target has its types, or what is wrong.
fn listing(kernel: &Kernel, target: Target) -> Result<Option<emit::Listing>, String> {
    match emit::write(kernel, target) {
        Ok(listing) => Ok(Some(listing)),
        Err(error) if error.message.starts_with(&format!("{} has no ", target.name())) => Ok(None),
        Err(error) => Err(format!("{error}\n")),
    }
}

fn complaints(kernel: &Kernel, target: Target, folder: &Path) -> String {
    let listing = match listing(kernel, target) {
        Ok(Some(listing)) => listing,
        Ok(None) => return String::new(),
        Err(complaint) => return complaint,
    };
    let file = folder.join(format!("{}.{}", kernel.name, target.extension()));
    fs::write(&file, listing.bytes()).unwrap();
    let mut complaints = String::new();
    let wants_browser = listing.text().starts_with("enable subgroups;");
    // No browser has these.
    let has_matrices = !kernel.matrices.is_empty();
    for mut tool in tools(target, &file) {
        if has_matrices && tool.get_program().to_string_lossy().ends_with("tint") {
            continue;
        }
        if wants_browser && tool.get_program().to_string_lossy().ends_with("naga") {
            // It accepts subgroups by default, and no further extension.
            continue;
        }
        let Output { status, stdout, stderr } = tool.output().unwrap();
        if !status.success() {
            let (stdout, stderr) =
                (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            // spirv-val before 2023.4 reports this.
            if has_matrices && stderr.contains("Invalid capability operand: 6022") {
                println!("note: this spirv-val is older than products of matrices");
                continue;
            }
            complaints.push_str(&format!("{tool:?}:\n{stdout}{stderr}\n{}\n", listing.text()));
        }
    }
    complaints
}

/// Returns clang's complaints about kernels in MSL.
fn msl_complaints(kernels: &[Kernel], folder: &Path) -> String {
    let mut text = "#include <metal_stdlib>\n#include <simd/simd.h>\n".to_owned();
    for (number, kernel) in kernels.iter().enumerate() {
        match listing(kernel, Target::Msl) {
            Ok(Some(listing)) => {
                text += &format!("namespace listing_{number} {{\n{}\n}}\n", listing.text())
            }
            Ok(None) => {}
            Err(complaint) => return complaint,
        }
    }
    let names = ["clang++-19", "clang++-18", "clang++-16", "clang++"];
    let Some(clang) = names.into_iter().find_map(on_path) else {
        println!("note: clang++ is missing, so msl listings go without it");
        return String::new();
    };
    let file = folder.join(format!("{}.metal", kernels[0].name));
    fs::write(&file, &text).unwrap();
    let declarations = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/msl");
    let mut command = Command::new(clang);
    command.args([
        "-x",
        "c++",
        "-std=c++20",
        "-fdeclspec",
        "-Wno-unknown-attributes",
        "-fsyntax-only",
        "-I",
    ]);
    let Output { status, stderr, .. } = command.arg(declarations).arg(file).output().unwrap();
    if status.success() {
        String::new()
    } else {
        format!("{}\n{text}\n", String::from_utf8_lossy(&stderr))
    }
}

/// Returns the commands on this machine that check a file.
fn tools(target: Target, file: &Path) -> Vec<Command> {
    let wanted: &[(&str, &[&str])] = match target {
        Target::Wgsl => &[("naga", &[]), ("tint", &["--format", "wgsl"])],
        Target::Spirv => &[("spirv-val", &["--target-env", "vulkan1.1"])],
        Target::Glsl => &[("glslangValidator", &["-S", "comp"])],
        _ => &[],
    };
    let mut commands = Vec::new();
    for (name, arguments) in wanted {
        match on_path(name) {
            Some(path) => {
                let mut command = Command::new(path);
                command.args(*arguments).arg(file);
                commands.push(command);
            }
            None => {
                println!("note: {name} is missing, so {} listings go without it", target.name())
            }
        }
    }
    commands
}

/// Returns the first program called `name` in the folders of `PATH`.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
