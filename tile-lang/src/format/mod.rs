//! The canonical layout of a program, for `tilec fmt`.
//!
//! Formatting keeps the tree, every comment and attribute, and blank lines, at most one at a time.
//! A comment within a statement moves in front of it. Formatting a formatted program changes
//! nothing.

mod layout;
mod syntax;

use crate::ast::{Alias, Function, Import, Statement, StatementKind};
use crate::diagnostic::Diagnostic;
use crate::format::layout::{INDENT, Layout, WIDTH};
use crate::format::syntax::Syntax;
use crate::lexer::{Token, tokenize};
use crate::parser::{Parsed, parse};
use crate::span::Span;

/// Returns the program in its canonical layout, or its syntax errors.
///
/// Line endings follow the first line, LF or CR LF. A byte order mark is removed. Both are the
/// defaults of rustfmt.
///
/// ```
/// let formatted = tile_lang::format("function f(X[N])->(Y){Y=2*X;}");
/// assert_eq!(formatted.unwrap(), "function f(X[N]) -> (Y) { Y = 2 * X; }\n");
/// ```
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    let parsed = parse(source);
    if !parsed.diagnostics.is_empty() {
        return Err(parsed.diagnostics);
    }
    let Some((first, _)) = source.split_once('\n').filter(|_| source.contains('\r')) else {
        return Ok(format_parsed(source, &parsed));
    };
    let source_lf = source.replace("\r\n", "\n");
    let text = format_parsed(&source_lf, &parse(&source_lf));
    Ok(if first.ends_with('\r') { text.replace('\n', "\r\n") } else { text })
}

/// Returns the canonical layout of a program without errors, with LF line endings.
fn format_parsed(source: &str, parsed: &Parsed) -> String {
    let mut printer = Printer {
        source,
        syntax: Syntax { source },
        blocks: blocks(source),
        comments: &parsed.comments,
        text: String::new(),
        blank: Blank::Never,
    };
    let imports = parsed.file.imports.iter().map(|import| (import.span, Item::Import(import)));
    let functions =
        parsed.file.functions.iter().map(|function| (function.span, Item::Function(function)));
    let aliases = parsed.file.aliases.iter().map(|alias| (alias.span, Item::Alias(alias)));
    let mut items: Vec<(Span, Item)> = imports.chain(aliases).chain(functions).collect();
    items.sort_by_key(|(span, _)| *span);
    let nexts = items.iter().skip(1).map(|(next, _)| next.start).chain([u32::MAX]);
    for ((_, item), next) in items.iter().zip(nexts) {
        match item {
            Item::Import(import) => {
                printer.line(import.span, &format!("import \"{}\";", import.path), next)
            }
            Item::Alias(alias) => {
                printer.line(alias.span, &format!("{} = {};", alias.name, alias.target), next)
            }
            Item::Function(function) => printer.function(function, next),
        }
    }
    printer.comments_before(u32::MAX, 0);
    printer.text
}

enum Item<'a> {
    Import(&'a Import),
    Alias(&'a Alias),
    Function(&'a Function),
}

/// Returns the blocks of a program without errors, from `{` to `}`, in the order of the `{`.
fn blocks(source: &str) -> Vec<Span> {
    let mut blocks: Vec<Span> = Vec::new();
    let mut open = Vec::new();
    for (token, span) in tokenize(source, 0).tokens {
        match token {
            Token::BraceOpen => {
                open.push(blocks.len());
                blocks.push(span);
            }
            Token::BraceClose => {
                if let Some(index) = open.pop() {
                    blocks[index].end = span.end;
                }
            }
            _ => {}
        }
    }
    blocks
}

struct Printer<'s> {
    source: &'s str,
    syntax: Syntax<'s>,
    blocks: Vec<Span>,
    /// The comments that are not yet printed.
    comments: &'s [Span],
    /// The output. It ends with a newline, unless it is empty or within an item.
    text: String,
    blank: Blank,
}

/// The rule for a blank line before the next item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blank {
    /// None, at the start of the file or of a body.
    Never,
    /// One if the source has one.
    AsWritten,
    /// One in any case, after a function of several lines.
    Always,
}

impl<'s> Printer<'s> {
    /// Prints an item on one line. The next item starts at `next`.
    fn line(&mut self, item: Span, text: &str, next: u32) {
        self.comments_before(item.start, 0);
        self.comments_within(item, item.end, 0);
        self.start_line(item, 0);
        self.text.push_str(text);
        self.end_line(item.end, next);
    }

    /// Prints a function. The next item starts at `next`.
    fn function(&mut self, function: &Function, next: u32) {
        let block = self.block_after(function.span.start);
        self.comments_before(function.span.start, 0);
        self.comments_within(function.span, block.start, 0);
        self.start_line(function.span, 0);
        let header = self.syntax.header(function);
        if let Some(line) = self.one_line(&header, &function.body, block, 0) {
            self.text.push_str(&line);
            self.end_line(function.span.end, next);
        } else {
            header.write(&mut self.text, 0);
            self.block(&function.body, block, 0);
            self.end_line(function.span.end, next);
            self.blank = Blank::Always;
        }
    }

    /// Returns a header and its block as one line, if they fit and the source has them on one line.
    fn one_line(
        &self,
        header: &Layout,
        body: &[Statement],
        block: Span,
        indent: usize,
    ) -> Option<String> {
        let line = match body {
            [] => format!("{} {{}}", header.flat()),
            [statement] if !statement.kind.has_block() => {
                format!("{} {{ {} }}", header.flat(), self.syntax.statement(statement).flat())
            }
            _ => return None,
        };
        (indent + line.len() <= WIDTH && !self.slice(block).contains('\n')).then_some(line)
    }

    /// Prints ` {`, the statements and `}`.
    fn block(&mut self, body: &[Statement], block: Span, indent: usize) {
        self.text.push_str(" {\n");
        self.blank = Blank::Never;
        for (index, statement) in body.iter().enumerate() {
            let next = body.get(index + 1).map_or(block.end, |next| next.span.start);
            self.statement(statement, next, indent + INDENT);
        }
        self.comments_before(block.end, indent + INDENT);
        self.text.push_str(&" ".repeat(indent));
        self.text.push('}');
    }

    fn statement(&mut self, statement: &Statement, next: u32, indent: usize) {
        let end = if statement.kind.has_block() {
            self.block_after(statement.span.start).start
        } else {
            statement.span.end
        };
        self.comments_before(statement.span.start, indent);
        self.comments_within(statement.span, end, indent);
        self.start_line(statement.span, indent);
        match &statement.kind {
            StatementKind::For { variables, list, body } => {
                self.compound(
                    statement.span.start,
                    &self.syntax.for_header(variables, list),
                    body,
                    &[],
                    indent,
                );
            }
            StatementKind::Scan { sequences, body } => {
                self.compound(
                    statement.span.start,
                    &self.syntax.scan_header(sequences),
                    body,
                    &[],
                    indent,
                );
            }
            StatementKind::Adapt { body } => {
                self.compound(statement.span.start, &Layout::text("adapt"), body, &[], indent);
            }
            StatementKind::If { condition, then, otherwise } => {
                self.compound(
                    statement.span.start,
                    &self.syntax.if_header(condition),
                    then,
                    otherwise,
                    indent,
                );
            }
            _ => self.syntax.statement(statement).write(&mut self.text, indent),
        }
        self.end_line(statement.span.end, next);
    }

    /// Prints a statement with a block. The statement starts at `start`. Comments before an `else`
    /// move into its block.
    fn compound(
        &mut self,
        start: u32,
        header: &Layout,
        body: &[Statement],
        otherwise: &[Statement],
        indent: usize,
    ) {
        let block = self.block_after(start);
        if otherwise.is_empty()
            && let Some(line) = self.one_line(header, body, block, indent)
        {
            return self.text.push_str(&line);
        }
        header.write(&mut self.text, indent);
        self.block(body, block, indent);
        if otherwise.is_empty() {
            return;
        }
        self.text.push_str(" else");
        let block = self.block_after(block.end);
        match otherwise {
            // `else if`, if the source has it in this form.
            [Statement { kind: StatementKind::If { condition, then, otherwise }, span, .. }]
                if span.start < block.start =>
            {
                self.text.push(' ');
                self.compound(
                    span.start,
                    &self.syntax.if_header(condition),
                    then,
                    otherwise,
                    indent,
                );
            }
            _ => self.block(otherwise, block, indent),
        }
    }

    /// Returns the first block that starts at or after `position`.
    fn block_after(&self, position: u32) -> Span {
        self.blocks
            .get(self.blocks.partition_point(|block| block.start < position))
            .copied()
            .unwrap_or_default()
    }

    /// Prints the comments that start before a position, each on its own line.
    fn comments_before(&mut self, position: u32, indent: usize) {
        while let Some(comment) = self.next_comment(|comment| comment.start < position) {
            self.start_line(comment, indent);
            let text = self.slice(comment).trim_end();
            self.text.push_str(text);
            self.text.push('\n');
        }
    }

    /// Prints the comments within an item, up to `end`, directly before the item.
    fn comments_within(&mut self, item: Span, end: u32, indent: usize) {
        while let Some(comment) = self.next_comment(|comment| comment.start < end) {
            self.start_line(item, indent);
            let text = self.slice(comment).trim_end();
            self.text.push_str(text);
            self.text.push('\n');
            self.blank = Blank::Never;
        }
    }

    /// Ends the line of an item that ended at `end`. Prints the comment that follows on the same
    /// line, if it starts before `next`.
    fn end_line(&mut self, end: u32, next: u32) {
        let source = self.source;
        let on_line = |comment: Span| {
            comment.start < next
                && source
                    .get(end as usize..comment.start as usize)
                    .is_some_and(|between| !between.contains('\n'))
        };
        if let Some(comment) = self.next_comment(on_line) {
            self.text.push(' ');
            let text = self.slice(comment).trim_end();
            self.text.push_str(text);
        }
        self.text.push('\n');
    }

    /// Starts the line of an item, after a blank line if there is one.
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

    /// Takes the next comment if it satisfies `wanted`.
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
