//! Every command of the README's tour does what the README says it can: the `sh` blocks run, in order, in one folder.

use std::path::Path;
use std::process::Command;

use crate::tilec::empty_folder;

/// The text between "```sh" and "```".
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open = None;
    for line in markdown.lines() {
        match (line, &mut open) {
            ("```sh", None) => open = Some(String::new()),
            ("```", Some(_)) => blocks.extend(open.take()),
            (line, Some(block)) => *block += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

#[test]
#[cfg(unix)]
fn tour() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = empty_folder("tour");
    for part in ["examples", "tests"] {
        std::os::unix::fs::symlink(root.join(part), folder.join(part)).unwrap();
    }
    let beside = Path::new(env!("CARGO_BIN_EXE_tilec")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(beside.to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let blocks = blocks(&std::fs::read_to_string(root.join("README.md")).unwrap());
    assert!(blocks.len() >= 5, "the tour has {} blocks", blocks.len());
    for block in blocks {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &block])
            .current_dir(&folder)
            .env("PATH", &path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{block}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
