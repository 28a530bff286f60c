//! Diagnostics as text for people, with the lines of the source that they are about.

use std::collections::HashMap;

use ariadne::{CharSet, Color, Config, IndexType, Label, Report, ReportKind, sources};

use crate::diagnostic::{Diagnostic, Severity};
use crate::sources::Sources;
use crate::span::Span;

/// How many diagnostics are shown; what is wrong after so many is mostly wrong because of them.
const SHOWN: usize = 50;

/// The first 50 diagnostics about `texts` or the library; with terminal colours if `color`.
pub fn render(diagnostics: &[Diagnostic], texts: &Sources, color: bool) -> String {
    let mut text = Vec::new();
    let shown = &diagnostics[..diagnostics.len().min(SHOWN)];
    let spans = shown.iter().flat_map(|diagnostic| &diagnostic.labels).map(|label| label.span).chain([Span::default()]);
    let files = spans.map(|span| texts.file(span)).map(|(name, text, _)| (name, text));
    let mut cache = sources(files.collect::<HashMap<String, &str>>());
    for diagnostic in shown {
        let (kind, tint) = match diagnostic.severity {
            Severity::Error => (ReportKind::Error, Color::Red),
            Severity::Warning => (ReportKind::Warning, Color::Yellow),
        };
        let place = |span: Span| {
            let (name, text, base) = texts.file(span);
            let within = |position: u32| {
                let offset = (position.saturating_sub(base) as usize).min(text.len());
                (0..=offset).rev().find(|offset| text.is_char_boundary(*offset)).unwrap_or(0)
            };
            (name, within(span.start)..within(span.end.max(span.start)))
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
