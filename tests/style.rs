//! Comments keep the mechanical rules of the project's English: no line over 100 columns, and no
//! opening word that hides the subject of a sentence.

use std::fs;
use std::path::{Path, PathBuf};

/// The most columns of a line that is a comment.
const COLUMNS: usize = 100;

/// Opening words that turn a sentence into a riddle.
const OPENINGS: [&str; 4] = ["What ", "Of ", "By what ", "Whether what "];

/// Adds the sources in a folder and in the folders in it.
fn add_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_source =
            path.extension().is_some_and(|extension| extension == "rs" || extension == "tile");
        if path.is_dir() && !path.ends_with("target") && !path.ends_with("corpus") {
            add_sources(&path, sources);
        } else if is_source {
            sources.push(path);
        }
    }
}

/// Returns the faults of the comments in a text, each with its line.
fn faults(text: &str) -> Vec<(usize, &'static str)> {
    let mut faults = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        is_code ^= comment.contains("```");
        let words = comment.trim_start_matches(['/', '!']).trim_start();
        if !is_code && line.chars().count() > COLUMNS {
            faults.push((number, "over 100 columns"));
        }
        if !is_code && OPENINGS.iter().any(|opening| words.starts_with(opening)) {
            faults.push((number, "opens with What or Of"));
        }
    }
    faults
}

#[test]
fn comments() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    for folder in
        ["benches", "compiler", "examples", "fuzz", "runtime", "src", "tests", "tile-lang"]
    {
        add_sources(&root.join(folder), &mut sources);
    }
    assert!(sources.len() > 400, "{} sources", sources.len());
    let mut all = Vec::new();
    for source in sources {
        let found = faults(&fs::read_to_string(&source).unwrap());
        all.extend(
            found.into_iter().map(|(line, what)| format!("{}:{line}: {what}", source.display())),
        );
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn faults_are_found() {
    let long = format!("// {}", "x".repeat(98));
    assert_eq!(faults(&long), [(1, "over 100 columns")]);
    assert_eq!(faults("fn f() {}\n    /// What it does.\n"), [(2, "opens with What or Of")]);
    assert_eq!(faults("/// Returns what it does.\n/// ```\n/// Of\n/// ```\n"), []);
}
