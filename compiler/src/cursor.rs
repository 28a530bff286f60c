//! The reading of text forms: a cursor that the parsers of every representation share. Line breaks
//! count as spaces.

use std::str::FromStr;

use crate::dtype::DType;

/// The line and reason of a syntax error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Line number, from 1, at which reading stopped.
    pub line: usize,
    /// One sentence.
    pub message: String,
}

/// The result of a parser, or one sentence if the text is wrong.
pub(crate) type Parsed<T> = Result<T, String>;

/// A place in a text.
pub(crate) struct Cursor<'a> {
    /// The unread text.
    pub rest: &'a str,
}

impl<'a> Cursor<'a> {
    /// Reads a whole text. `read` must check that nothing follows; see [`Cursor::end`].
    pub fn read<T>(
        text: &'a str,
        read: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Result<T, ParseError> {
        let mut cursor = Cursor { rest: text };
        read(&mut cursor).map_err(|message| {
            let line = 1 + text[..text.len() - cursor.rest.len()].matches('\n').count();
            ParseError { line, message }
        })
    }

    /// Checks that the text ends here, where only `more` could follow.
    pub fn end(&mut self, more: &str) -> Parsed<()> {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(format!("expected {more} at {}", self.here()))
        }
    }

    /// Consumes leading spaces, then the longest run of characters that pass, and returns the run.
    pub fn take(&mut self, pass: impl Fn(char) -> bool) -> &'a str {
        self.rest = self.rest.trim_start();
        let (taken, rest) =
            self.rest.split_at(self.rest.find(|c| !pass(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// Consumes `text` if it is next.
    pub fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes `text`, which must be next.
    pub fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) { Ok(()) } else { Err(format!("expected `{text}` at {}", self.here())) }
    }

    /// Returns the next characters, for messages.
    pub fn here(&self) -> String {
        let next: String =
            self.rest.trim_start().chars().take_while(|&c| c != '\n').take(20).collect();
        if next.is_empty() { "the end".into() } else { format!("`{next}`") }
    }

    /// Reads letters, digits and `_`.
    pub fn word(&mut self) -> &'a str {
        self.take(|c| c.is_alphanumeric() || c == '_')
    }

    /// Reads an integer.
    pub fn number<T: FromStr>(&mut self) -> Parsed<T> {
        let here = self.here();
        self.take(|c| c.is_ascii_digit() || c == '-')
            .parse()
            .map_err(|_| format!("expected an integer at {here}"))
    }

    /// Reads `item`s separated by commas, up to and including `end`.
    pub fn list<T>(
        &mut self,
        end: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(end) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Reads the name of an element type.
    pub fn dtype(&mut self) -> Parsed<DType> {
        let name = self.word();
        DType::parse(name).ok_or_else(|| format!("`{name}` is not an element type"))
    }

    /// Returns the text of a scalar. It is parsed once the type is known.
    pub fn scalar(&mut self) -> Parsed<&'a str> {
        Ok(self.take(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '+')))
    }
}
