//! The one way to write a program: `tilec fmt`.
//!
//! What is kept: the tree, every comment and attribute, and blank lines, at most one at a time. A comment within a
//! statement moves in front of it. Formatting a formatted program changes nothing.

mod layout;
mod syntax;

use crate::ast::{Function, Statement};
use crate::diagnostic::Diagnostic;
use crate::format::layout::{INDENT, Layout, WIDTH};
use crate::format::syntax::Syntax;
use crate::lexer::{Token, tokenize};
use crate::parser::parse;
use crate::span::Span;

/// The program in its canonical layout, or what is wrong with its syntax.
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    let parsed = parse(source);
    if !parsed.diagnostics.is_empty() {
        return Err(parsed.diagnostics);
    }
    let tokens = tokenize(source, 0).tokens;
    let braces = tokens.iter().filter(|(token, _)| *token == Token::BraceOpen).map(|(_, span)| span.start);
    let mut printer = Printer {
        source,
        syntax: Syntax { source },
        comments: &parsed.comments,
        text: String::new(),
        blank: Blank::Never,
    };
    let functions = &parsed.file.functions;
    let nexts = functions.iter().skip(1).map(|next| next.span.start).chain([u32::MAX]);
    for ((function, brace), next) in functions.iter().zip(braces).zip(nexts) {
        printer.function(function, brace, next);
    }
    printer.comments_before(u32::MAX, 0);
    Ok(printer.text)
}

struct Printer<'s> {
    source: &'s str,
    syntax: Syntax<'s>,
    /// Those that are not yet printed.
    comments: &'s [Span],
    /// Ends with a newline, unless empty or within an item.
    text: String,
    blank: Blank,
}

/// Whether the next item comes after a blank line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blank {
    /// At the start of the file or a body.
    Never,
    /// Where the source has one.
    AsWritten,
    /// After a function of several lines.
    Always,
}

impl<'s> Printer<'s> {
    /// A function, whose body starts at `brace`, and after which the next one starts at `next`.
    fn function(&mut self, function: &Function, brace: u32, next: u32) {
        self.comments_before(function.span.start, 0);
        self.comments_within(function.span, brace, 0);
        self.start_line(function.span, 0);
        let header = self.syntax.header(function);
        let body = self.slice(Span::new(brace, function.span.end));
        if !body.contains('\n')
            && let Some(line) = self.one_line(&header, &function.body)
        {
            self.text.push_str(&line);
            self.end_line(function.span.end, next);
        } else {
            header.write(&mut self.text, 0);
            self.text.push_str(" {\n");
            self.blank = Blank::Never;
            for (index, statement) in function.body.iter().enumerate() {
                let next = function.body.get(index + 1).map_or(function.span.end, |next| next.span.start);
                self.statement(statement, next);
            }
            self.comments_before(function.span.end, INDENT);
            self.text.push('}');
            self.end_line(function.span.end, next);
            self.blank = Blank::Always;
        }
    }

    /// The whole function on one line, where it is so short. It stays on several lines where it was.
    fn one_line(&self, header: &Layout, body: &[Statement]) -> Option<String> {
        let line = match body {
            [] => format!("{} {{}}", header.flat()),
            [statement] => format!("{} {{ {} }}", header.flat(), self.syntax.statement(statement).flat()),
            _ => return None,
        };
        (line.len() <= WIDTH).then_some(line)
    }

    fn statement(&mut self, statement: &Statement, next: u32) {
        self.comments_before(statement.span.start, INDENT);
        self.comments_within(statement.span, statement.span.end, INDENT);
        self.start_line(statement.span, INDENT);
        self.syntax.statement(statement).write(&mut self.text, INDENT);
        self.end_line(statement.span.end, next);
    }

    /// Prints the comments that start before a position, each on a line of its own.
    fn comments_before(&mut self, position: u32, indent: usize) {
        while let Some(comment) = self.next_comment(|comment| comment.start < position) {
            self.start_line(comment, indent);
            let text = self.slice(comment).trim_end();
            self.text.push_str(text);
            self.text.push('\n');
        }
    }

    /// Prints the comments within an item, up to `end`, right in front of where it will start.
    fn comments_within(&mut self, item: Span, end: u32, indent: usize) {
        while let Some(comment) = self.next_comment(|comment| comment.start < end) {
            self.start_line(item, indent);
            let text = self.slice(comment).trim_end();
            self.text.push_str(text);
            self.text.push('\n');
            self.blank = Blank::Never;
        }
    }

    /// Ends the line of an item that ended at `end`, with the comment that follows on its line, if one starts before `next`.
    fn end_line(&mut self, end: u32, next: u32) {
        let source = self.source;
        let on_line = |comment: Span| {
            comment.start < next
                && source.get(end as usize..comment.start as usize).is_some_and(|between| !between.contains('\n'))
        };
        if let Some(comment) = self.next_comment(on_line) {
            self.text.push(' ');
            let text = self.slice(comment).trim_end();
            self.text.push_str(text);
        }
        self.text.push('\n');
    }

    /// Starts the line of an item, after a blank line if there is to be one.
    fn start_line(&mut self, item: Span, indent: usize) {
        let before = self.source.get(..item.start as usize).unwrap_or_default();
        let space = &before[before.trim_end().len()..];
        let written = self.blank == Blank::AsWritten && space.matches('\n').count() > 1;
        if written || self.blank == Blank::Always {
            self.text.push('\n');
        }
        self.blank = Blank::AsWritten;
        self.text.push_str(&" ".repeat(indent));
    }

    /// Takes the next comment, if `wanted`.
    fn next_comment(&mut self, wanted: impl Fn(Span) -> bool) -> Option<Span> {
        let (first, rest) = self.comments.split_first()?;
        wanted(*first).then(|| {
            self.comments = rest;
            *first
        })
    }

    fn slice(&self, span: Span) -> &'s str {
        self.source.get(span.start as usize..span.end as usize).unwrap_or_default()
    }
}
