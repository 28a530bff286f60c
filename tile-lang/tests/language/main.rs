//! What a user of the crate sees: trees, errors, layouts.

mod diagnostics;
mod formatting;
mod reference;
mod robustness;
mod syntax;

use tile_lang::{ast_text, check, parse, render};

/// The tree of a program, which must read without errors.
fn ast(source: &str) -> String {
    let parsed = parse(source);
    assert_eq!(parsed.diagnostics, [], "{source}");
    ast_text(&parsed.file)
}

/// All that `tilec check` says of a program.
fn complaints(source: &str) -> String {
    render(&check(source).diagnostics, "x.tile", source, false)
}

/// Code, message, the text at each label, and help, a line each.
fn brief(source: &str) -> String {
    let line = |diagnostic: &tile_lang::diagnostic::Diagnostic| {
        let labels = diagnostic.labels.iter().map(|label| {
            let place = &source[label.span.start as usize..label.span.end as usize];
            if label.text.is_empty() { format!("`{place}`") } else { format!("`{place}` ({})", label.text) }
        });
        let labels = labels.collect::<Vec<_>>().join(", ");
        let help = diagnostic.help.as_ref().map_or(String::new(), |help| format!("; help: {help}"));
        format!("{} {}: {labels}{help}\n", diagnostic.code, diagnostic.message)
    };
    check(source).diagnostics.iter().map(line).collect()
}
