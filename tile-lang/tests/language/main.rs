//! Tests of the crate's public interface: trees, errors and layouts.

mod aliases;
mod diagnostics;
mod doubtful;
mod formatting;
mod imports;
mod layers;
mod reference;
mod robustness;
mod syntax;
mod texts;
mod training;

use tile_lang::{Checked, Sources, ast_text, check, check_file, parse, render};

/// Returns the tree of a program, which must parse without errors.
fn ast(source: &str) -> String {
    let parsed = parse(source);
    assert_eq!(parsed.diagnostics, [], "{source}");
    ast_text(&parsed.file)
}

/// Returns all diagnostics of a program, rendered as by `tilec check`.
fn complaints(source: &str) -> String {
    render(&check(source).diagnostics, &Sources::new("x.tile", source), false)
}

/// Checks the first of some files. Each file has a path and a text.
fn check_files(files: &[(&str, &str)]) -> Checked {
    let text = |path: &str| {
        files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.to_string()).into()
    };
    let (path, main) = files[0];
    check_file(path, main, &text)
}

/// Returns the code, message, label texts and help of each diagnostic, one per line.
fn brief(source: &str) -> String {
    brief_of(&check(source))
}

fn brief_of(checked: &Checked) -> String {
    let line = |diagnostic: &tile_lang::diagnostic::Diagnostic| {
        let labels = diagnostic.labels.iter().map(|label| {
            let (_, text, base) = checked.sources.file(label.span);
            let place = &text[(label.span.start - base) as usize..(label.span.end - base) as usize];
            if label.text.is_empty() {
                format!("`{place}`")
            } else {
                format!("`{place}` ({})", label.text)
            }
        });
        let labels = labels.collect::<Vec<_>>().join(", ");
        let help = diagnostic.help.as_ref().map_or(String::new(), |help| format!("; help: {help}"));
        format!("{} {}: {labels}{help}\n", diagnostic.code, diagnostic.message)
    };
    checked.diagnostics.iter().map(line).collect()
}
