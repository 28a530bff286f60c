//! Runs the built `tilec` as a user does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The result of a run of `tilec`.
pub struct Run {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Run {
    /// Returns standard output, which must be text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("standard output is UTF-8")
    }

    /// Asserts success.
    pub fn ok(self) -> Run {
        assert_eq!(self.code, 0, "{}", self.err);
        self
    }

    /// Returns those lines of standard error that are notes of `tilec`. A driver may print others.
    pub fn notes(&self) -> Vec<&str> {
        self.err.lines().filter(|line| line.starts_with("note: ")).collect()
    }
}

/// Runs `tilec` in the repository's root.
pub fn tilec<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
    tilec_with(&[], arguments)
}

/// Runs `tilec` with environment variables, and without the user's folders.
pub fn tilec_with<S: AsRef<std::ffi::OsStr>>(
    variables: &[(&str, &str)],
    arguments: impl IntoIterator<Item = S>,
) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_tilec"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("TILE_DEVICE", "cpu")
        .env("TILE_CACHE", "")
        .envs(variables.iter().copied())
        .output()
        .expect("tilec starts");
    Run {
        code: output.status.code().expect("tilec ends by itself"),
        out: output.stdout,
        err: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    }
}

/// Makes an empty folder of this name.
pub fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

/// Writes a Tile file of this text.
pub fn program(name: &str, source: &str) -> PathBuf {
    let path = empty_folder(name).join(format!("{name}.tile"));
    std::fs::write(&path, source).expect("the target folder can be written");
    path
}

/// Returns the devices for tests: the embedded device, the reference interpreter, the kernel
/// checker, and the first adapter of this machine, software or not.
pub fn devices() -> &'static [&'static str] {
    static DEVICES: OnceLock<Vec<&'static str>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let mut devices = vec!["cpu", "reference", "check"];
        if tilec(["devices", "--json"]).ok().text().contains("\"wgpu:0\"") {
            devices.push("wgpu:0");
        } else {
            eprintln!("no wgpu adapter on this machine: not tested there");
        }
        devices
    })
}
