//! Holds the listings of kernels against other people's compilers and validators, those that are on the machine:
//! `naga`, `tint` (WGSL as browsers take it, with its uniformity analysis), `spirv-val`, `glslangValidator`, and the
//! workplace's `msl-check`. Missing ones are skipped, with a note.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use tile_compiler::emit::{self, Target};
use tile_compiler::kernel::Kernel;

/// What the header of `msl-check` lacks of Metal: literals of half, and that `1.0` is a float.
const MISSING_FROM_MSL_CHECK: &str = "\
#include <metal_stdlib>
#pragma clang diagnostic ignored \"-Wuser-defined-literals\"
inline half operator\"\"h(long double x) { return half(x); }
namespace metal { inline float clamp(float x, double low, double high) { return clamp(x, float(low), float(high)); } }
";

/// Writes every kernel for every target, and panics with what each tool has against the listings.
///
/// A kernel may be refused for a target only because of its types: the message must say `TARGET has no TYPE`.
pub fn check(kernels: &[Kernel]) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = format!("tilec-tools-{}-{}", std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    let folder = env::temp_dir().join(call);
    fs::create_dir_all(&folder).unwrap();
    let complaints: String = thread::scope(|scope| {
        let check = |target| {
            let folder = &folder;
            scope.spawn(move || kernels.iter().map(|kernel| complaints(kernel, target, folder)).collect::<String>())
        };
        let running = Target::ALL.map(check);
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    fs::remove_dir_all(&folder).unwrap();
    assert!(complaints.is_empty(), "{complaints}");
}

fn complaints(kernel: &Kernel, target: Target, folder: &Path) -> String {
    let listing = match emit::write(kernel, target) {
        Ok(listing) => listing,
        Err(error) if error.message.starts_with(&format!("{} has no ", target.name())) => return String::new(),
        Err(error) => return format!("{error}\n"),
    };
    let file = folder.join(format!("{}.{}", kernel.name, target.extension()));
    let missing = if target == Target::Msl { MISSING_FROM_MSL_CHECK } else { "" };
    fs::write(&file, [missing.as_bytes(), &listing.bytes()].concat()).unwrap();
    let mut complaints = String::new();
    let wants_browser = listing.text().starts_with("enable subgroups;");
    // Which no browser has.
    let has_matrices = !kernel.matrices.is_empty();
    for mut tool in tools(target, &file) {
        if has_matrices && tool.get_program().to_string_lossy().ends_with("tint") {
            continue;
        }
        if wants_browser && tool.get_program().to_string_lossy().ends_with("naga") {
            // It takes subgroups without being told, and nothing else.
            continue;
        }
        let Output { status, stdout, stderr } = tool.output().unwrap();
        if !status.success() {
            let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            // spirv-val before 2023.4
            if has_matrices && stderr.contains("Invalid capability operand: 6022") {
                println!("note: this spirv-val is older than products of matrices");
                continue;
            }
            complaints.push_str(&format!("{tool:?}:\n{stdout}{stderr}\n{}\n", listing.text()));
        }
    }
    complaints
}

/// The commands on this machine that check a file.
fn tools(target: Target, file: &Path) -> Vec<Command> {
    let msl_check = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/msl-check/check");
    let has_clang = ["clang++", "clang++-16", "clang++-18", "clang++-19"].iter().any(|name| on_path(name).is_some());
    let msl_check = Some(msl_check).filter(|path| path.exists() && has_clang);
    let wanted: &[(&str, Option<PathBuf>, &[&str])] = &match target {
        Target::Wgsl => {
            [("naga", on_path("naga"), [].as_slice()), ("tint", on_path("tint"), ["--format", "wgsl"].as_slice())]
                .to_vec()
        }
        Target::Msl => [("msl-check", msl_check, [].as_slice())].to_vec(),
        Target::Spirv => [("spirv-val", on_path("spirv-val"), ["--target-env", "vulkan1.1"].as_slice())].to_vec(),
        Target::Glsl => [("glslangValidator", on_path("glslangValidator"), ["-S", "comp"].as_slice())].to_vec(),
        Target::Hlsl => Vec::new(),
    };
    let mut commands = Vec::new();
    for (name, path, arguments) in wanted {
        match path {
            Some(path) => {
                let mut command = Command::new(path);
                command.args(*arguments).arg(file);
                commands.push(command);
            }
            None => println!("note: {name} is missing, so {} listings go without it", target.name()),
        }
    }
    commands
}

/// The first program called `name` in the folders of `PATH`.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
