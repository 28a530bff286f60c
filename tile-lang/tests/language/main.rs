//! What a user of the crate sees: trees, errors, layouts.

mod aliases;
mod diagnostics;
mod formatting;
mod imports;
mod layers;
mod reference;
mod robustness;
mod syntax;
mod training;

use tile_lang::{Checked, Sources, ast_text, check, check_file, parse, render};

/// The tree of a program, which must read without errors.
fn ast(source: &str) -> String {
    let parsed = parse(source);
    assert_eq!(parsed.diagnostics, [], "{source}");
    ast_text(&parsed.file)
}

/// All that `tilec check` says of a program.
fn complaints(source: &str) -> String {
    render(&check(source).diagnostics, &Sources::new("x.tile", source), false)
}

/// The outcome for the first of some files, of which each has a path and a text.
fn check_files(files: &[(&str, &str)]) -> Checked {
    let text = |path: &str| Some(files.iter().find(|(name, _)| *name == path)?.1.to_string());
    let (path, main) = files[0];
    check_file(path, main, &text)
}

/// Code, message, the text at each label, and help, a line each.
fn brief(source: &str) -> String {
    brief_of(&check(source))
}

fn brief_of(checked: &Checked) -> String {
    let line = |diagnostic: &tile_lang::diagnostic::Diagnostic| {
        let labels = diagnostic.labels.iter().map(|label| {
            let (_, text, base) = checked.sources.file(label.span);
            let place = &text[(label.span.start - base) as usize..(label.span.end - base) as usize];
            if label.text.is_empty() { format!("`{place}`") } else { format!("`{place}` ({})", label.text) }
        });
        let labels = labels.collect::<Vec<_>>().join(", ");
        let help = diagnostic.help.as_ref().map_or(String::new(), |help| format!("; help: {help}"));
        format!("{} {}: {labels}{help}\n", diagnostic.code, diagnostic.message)
    };
    checked.diagnostics.iter().map(line).collect()
}
