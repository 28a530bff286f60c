//! Repairs blocks that do not match, so that one missing or surplus `}` gives one error.
//!
//! A parser notices a missing `}` only at the next definition or at the end of the file. The
//! indentation of lines tells which block lacks it, as in rustc. Files whose braces match stay as
//! they are.

use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::span::Span;

type Tokens<'s> = Vec<(Token<'s>, Span)>;

/// The maximum number of tokens of a header that are looked at.
const HEADER: usize = 1000;

/// Returns the tokens with matching braces, and reports each brace that was inserted or removed.
/// Removes definitions inside other definitions.
pub(super) fn balance<'s>(
    source: &'s str,
    base: u32,
    tokens: Tokens<'s>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Tokens<'s> {
    let mut depth = 0i64;
    let mut matches = true;
    for (index, (token, _)) in tokens.iter().enumerate() {
        match token {
            Token::BraceOpen => depth += 1,
            Token::BraceClose => depth -= 1,
            _ => matches &= depth <= 0 || !starts_definition(source, base, &tokens, index),
        }
        matches &= depth >= 0;
    }
    if matches && depth == 0 {
        return tokens;
    }
    let lines = Lines::new(source, base);
    let balanced = Vec::with_capacity(tokens.len());
    let repair =
        Repair { source, base, lines, surplus: -depth, open: Vec::new(), balanced, diagnostics };
    repair.run(&tokens)
}

/// Returns whether a definition starts at a token that begins a statement.
fn starts_definition(source: &str, base: u32, tokens: &[(Token, Span)], index: usize) -> bool {
    let at = |offset: usize| tokens.get(index + offset).map(|(token, _)| *token);
    let is_name = |token: Option<Token>| {
        matches!(token, Some(Token::Capital(_) | Token::Small(_) | Token::Word(_)))
    };
    let is_header = match at(0) {
        Some(Token::Function) => at(1) == Some(Token::ParenOpen) || is_name(at(1)),
        Some(Token::Word("layer" | "model" | "loss" | "metric" | "optimizer")) => {
            let mut rest = tokens[index..].iter().take(HEADER).map(|(token, _)| token);
            let end = rest.find(|token| {
                matches!(token, Token::Semicolon | Token::BraceOpen | Token::BraceClose)
            });
            is_name(at(1)) && at(2) == Some(Token::ParenOpen) && end == Some(&Token::BraceOpen)
        }
        Some(Token::Word("train")) => is_name(at(1)) && at(2) == Some(Token::BraceOpen),
        Some(Token::Word("import")) => matches!(at(1), Some(Token::Text(_))),
        _ => false,
    };
    let begins = match index.checked_sub(1).map(|before| tokens[before]) {
        Some((Token::Semicolon | Token::BraceOpen | Token::BraceClose, _)) | None => true,
        Some((_, before)) => {
            Span::new(before.end, tokens[index].1.start).of(source, base).contains('\n')
        }
    };
    is_header && begins
}

/// The lines of a text.
struct Lines {
    /// The position of the first byte of each line, and that of its first byte that is no space.
    starts: Vec<(u32, u32)>,
}

impl Lines {
    fn new(source: &str, base: u32) -> Lines {
        let mut start = base;
        let starts = source.split_inclusive('\n').map(|line| {
            let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
            let found = (start, start + indent as u32);
            start += line.len() as u32;
            found
        });
        Lines { starts: starts.collect() }
    }

    /// Returns the indentation of the line of a position, and whether the position is its first.
    fn indent(&self, position: u32) -> (u32, bool) {
        let line = self.starts.partition_point(|(start, _)| *start <= position);
        let (start, first) = line.checked_sub(1).map_or((0, 0), |line| self.starts[line]);
        (first - start, first == position)
    }
}

/// A block that is not closed yet.
struct Block {
    brace: Span,
    /// The indentation of the line with its `{`.
    indent: u32,
}

struct Repair<'s, 'd> {
    source: &'s str,
    base: u32,
    lines: Lines,
    /// The number of `}` that are too many. Negative: the number that is missing.
    surplus: i64,
    open: Vec<Block>,
    balanced: Tokens<'s>,
    diagnostics: &'d mut Vec<Diagnostic>,
}

impl<'s> Repair<'s, '_> {
    fn run(mut self, tokens: &[(Token<'s>, Span)]) -> Tokens<'s> {
        let mut index = 0;
        while let Some(&(token, span)) = tokens.get(index) {
            let (indent, is_first) = self.lines.indent(span.start);
            if let Some(outer) = self.open.first()
                && starts_definition(self.source, self.base, tokens, index)
            {
                if indent > outer.indent {
                    index = self.skip(tokens, index);
                    continue;
                }
                while self.close() {}
            }
            match token {
                Token::BraceOpen => self.open.push(Block { brace: span, indent }),
                Token::BraceClose => {
                    if is_first {
                        self.close_inner(indent);
                    }
                    let is_deeper =
                        is_first && self.open.last().is_some_and(|block| indent > block.indent);
                    if self.open.is_empty() || (is_deeper && self.surplus > 0) {
                        self.surplus -= 1;
                        let error = Diagnostic::error("E0003", span, "unexpected `}`");
                        self.diagnostics
                            .push(error.saying("each block before it is closed already"));
                        index += 1;
                        continue;
                    }
                    self.open.pop();
                }
                _ => {}
            }
            self.balanced.push((token, span));
            index += 1;
        }
        while self.close() {}
        self.balanced
    }

    /// Closes the blocks inside the block that a `}` with this indentation ends.
    fn close_inner(&mut self, indent: u32) {
        while self.surplus < 0
            && self.open.last().is_some_and(|block| block.indent > indent)
            && self.open.iter().any(|block| block.indent == indent)
        {
            self.surplus += 1;
            self.close();
        }
    }

    /// Inserts the missing `}` of the innermost block, and reports it. Returns whether there was a
    /// block.
    fn close(&mut self) -> bool {
        let Some(block) = self.open.pop() else { return false };
        let place = self.balanced.last().map_or(block.brace, |(_, span)| *span).after();
        let error =
            Diagnostic::error("E0003", block.brace, "missing `}`").saying("this block begins here");
        self.diagnostics.push(error.also(place, "expected `}` after this"));
        self.balanced.push((Token::BraceClose, place));
        true
    }

    /// Reports a definition inside another one. Returns the index of the token after it.
    fn skip(&mut self, tokens: &[(Token<'s>, Span)], start: usize) -> usize {
        let is_end = |token: &Token| matches!(token, Token::BraceOpen | Token::Semicolon);
        let header = tokens[start..].iter().position(|(token, _)| is_end(token));
        let mut index = header.map_or(tokens.len(), |length| start + length);
        let last = tokens[index.max(start + 1) - 1].1;
        let message = "a definition cannot stand inside another definition";
        let error = Diagnostic::error("E0003", tokens[start].1.to(last), message);
        self.diagnostics.push(error.help("move it above or below, outside all blocks"));
        let mut depth = 0;
        while let Some((token, _)) = tokens.get(index) {
            index += 1;
            match token {
                Token::BraceOpen => depth += 1,
                Token::BraceClose => depth -= 1,
                _ => {}
            }
            if depth <= 0 {
                break;
            }
        }
        index
    }
}
