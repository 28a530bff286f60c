//! The `sh` blocks of the README and of the tour run, in order, in one folder for each document.
//! Links between the documents resolve.

use std::path::Path;
use std::process::Command;

use crate::tilec::empty_folder;

/// Returns the text between "```sh" and "```" of each block.
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

/// Runs the blocks of a document, with this program as `tilec`.
#[cfg(unix)]
fn run_blocks(document: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = empty_folder(&document.replace(['/', '.'], "_"));
    for part in ["examples", "tests"] {
        std::os::unix::fs::symlink(root.join(part), folder.join(part)).unwrap();
    }
    let beside = Path::new(env!("CARGO_BIN_EXE_tilec")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(beside.to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let blocks = blocks(&std::fs::read_to_string(root.join(document)).unwrap());
    assert!(blocks.len() >= 2, "{document} has {} blocks", blocks.len());
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

#[test]
#[cfg(unix)]
fn commands_of_the_readme() {
    run_blocks("README.md");
}

#[test]
#[cfg(unix)]
fn commands_of_the_page_on_packs() {
    run_blocks("docs/packs.md");
}

#[test]
#[cfg(unix)]
fn commands_of_the_tour() {
    run_blocks("docs/tour.md");
}

#[test]
fn links() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let documents = [
        "README.md",
        "ARCHITECTURE.md",
        "benches/README.md",
        "docs/app.md",
        "docs/tour.md",
        "examples/README.md",
        "examples/models/README.md",
        "tile-lang/README.md",
    ];
    for document in documents {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        // Code may look like a link.
        let text: String = text.split('`').step_by(2).collect();
        for link in text.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.starts_with("http") {
                continue;
            }
            let path = root.join(document).parent().unwrap().join(target);
            assert!(path.exists(), "{document} links to {target}");
        }
    }
}
