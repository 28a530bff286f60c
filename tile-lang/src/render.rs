//! Diagnostics as text for people, with the lines of the source that they are about.

use ariadne::{CharSet, Color, Config, IndexType, Label, Report, ReportKind, sources};

use crate::diagnostic::{Diagnostic, Severity};
use crate::program::LIBRARY;
use crate::span::{LIBRARY_BASE, Span};

/// The name that stands for the file of [`LIBRARY`].
const LIBRARY_NAME: &str = "std/core.tile";

/// How many diagnostics are shown; what is wrong after so many is mostly wrong because of them.
const SHOWN: usize = 50;

/// The first 50 diagnostics about `source`, which was read from a file called `name`; with terminal colours if `color`.
pub fn render(diagnostics: &[Diagnostic], name: &str, source: &str, color: bool) -> String {
    let mut text = Vec::new();
    let mut cache = sources([(name.to_string(), source.to_string()), (LIBRARY_NAME.to_string(), LIBRARY.to_string())]);
    for diagnostic in diagnostics.iter().take(SHOWN) {
        let (kind, tint) = match diagnostic.severity {
            Severity::Error => (ReportKind::Error, Color::Red),
            Severity::Warning => (ReportKind::Warning, Color::Yellow),
        };
        let place = |span: Span| {
            let (id, text, base) =
                if span.in_library() { (LIBRARY_NAME, LIBRARY, LIBRARY_BASE) } else { (name, source, 0) };
            let within = |position: u32| {
                let offset = ((position - base) as usize).min(text.len());
                (0..=offset).rev().find(|offset| text.is_char_boundary(*offset)).unwrap_or(0)
            };
            (id.to_string(), within(span.start)..within(span.end.max(span.start)))
        };
        let first = diagnostic.labels.first().map(|label| label.span).unwrap_or_default();
        let config =
            Config::default().with_index_type(IndexType::Byte).with_color(color).with_char_set(CharSet::Unicode);
        let mut report = Report::build(kind, place(first))
            .with_config(config)
            .with_code(diagnostic.code)
            .with_message(&diagnostic.message);
        for (index, label) in diagnostic.labels.iter().enumerate() {
            let text = if label.text.is_empty() { "here" } else { label.text.as_str() };
            let tint = if index == 0 { tint } else { Color::Cyan };
            report = report.with_label(Label::new(place(label.span)).with_color(tint).with_message(text));
        }
        if let Some(help) = &diagnostic.help {
            report = report.with_help(help);
        }
        // Writing to memory does not fail.
        let _ = report.finish().write(&mut cache, &mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let mut text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if let Some(more @ 1..) = diagnostics.len().checked_sub(SHOWN) {
        text.push_str(&format!("… and {more} more\n"));
    }
    text
}
