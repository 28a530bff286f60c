//! Renders diagnostics as text, with excerpts of the source.

use std::collections::HashMap;

use ariadne::{CharSet, Color, Config, IndexType, Report, ReportKind, sources};

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::lexer::BYTE_ORDER_MARK;
use crate::sources::Sources;
use crate::span::Span;

/// The maximum number of diagnostics shown. Later errors mostly follow from earlier ones.
const SHOWN: usize = 50;

/// Renders the first diagnostics, at most 50, about `texts` or the library. Uses terminal colours
/// if `color` is true.
pub fn render(diagnostics: &[Diagnostic], texts: &Sources, color: bool) -> String {
    let mut text = Vec::new();
    let shown = &diagnostics[..diagnostics.len().min(shown(texts))];
    let spans = shown
        .iter()
        .flat_map(|diagnostic| &diagnostic.labels)
        .map(|label| label.span)
        .chain([Span::default()]);
    let files =
        spans.map(|span| texts.file(span)).map(|(name, text, _)| (name, without_mark(text)));
    let mut cache = sources(files.collect::<HashMap<String, &str>>());
    for diagnostic in shown {
        let (kind, tint) = match diagnostic.severity {
            Severity::Error => (ReportKind::Error, Color::Red),
            Severity::Warning => (ReportKind::Warning, Color::Yellow),
        };
        let place = |span: Span| {
            let (name, text, base) = texts.file(span);
            // The byte order mark takes no column.
            let mark = text.len() - without_mark(text).len();
            let text = without_mark(text);
            let within = |position: u32| {
                let offset =
                    (position.saturating_sub(base) as usize).saturating_sub(mark).min(text.len());
                (0..=offset).rev().find(|offset| text.is_char_boundary(*offset)).unwrap_or(0)
            };
            (name, within(span.start)..within(span.end.max(span.start)))
        };
        let first = diagnostic.labels.first().map(|label| label.span).unwrap_or_default();
        let config = Config::default()
            .with_index_type(IndexType::Byte)
            .with_color(color)
            .with_char_set(CharSet::Unicode);
        let mut report = Report::build(kind, place(first))
            .with_config(config)
            .with_code(diagnostic.code)
            .with_message(&diagnostic.message);
        for label in in_order(&diagnostic.labels, texts) {
            let text = if label.text.is_empty() { "here" } else { label.text.as_str() };
            let tint = if label.span == first { tint } else { Color::Cyan };
            report = report.with_label(
                ariadne::Label::new(place(label.span)).with_color(tint).with_message(text),
            );
        }
        if let Some(help) = &diagnostic.help {
            report = report.with_help(help);
        }
        // Writing to memory cannot fail.
        let _ = report.finish().write(&mut cache, &mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let mut text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if let Some(more @ 1..) = diagnostics.len().checked_sub(shown.len()) {
        text.push_str(&format!("… and {more} more\n"));
    }
    text
}

/// Returns the labels by file, the first label's file first, and by position in each file.
fn in_order<'a>(labels: &'a [Label], texts: &Sources) -> Vec<&'a Label> {
    let file = |label: &Label| texts.file(label.span).2;
    let files: Vec<u32> = labels.iter().map(file).collect();
    let mut ordered: Vec<&Label> = labels.iter().collect();
    ordered.sort_by_key(|label| (files.iter().position(|other| *other == file(label)), label.span));
    ordered
}

/// Returns the number of diagnostics to show. Each diagnostic lays out whole lines, so fewer are
/// shown if lines are long.
fn shown(texts: &Sources) -> usize {
    const CHARACTERS: usize = 1 << 22;
    let lines = texts.files().iter().flat_map(|file| file.text.lines());
    let longest = lines.map(str::len).max().unwrap_or(0).max(1);
    SHOWN.min(CHARACTERS / longest).max(1)
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}
