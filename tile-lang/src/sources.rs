//! The texts that a program was read from.

use std::fmt;

use crate::library;
use crate::span::{LIBRARY_BASE, Span};

/// The user's files: the one that was asked for, and those that it imports. The library's need not be given.
#[derive(Clone, PartialEq, Eq)]
pub struct Sources {
    /// In the order of their positions.
    files: Vec<SourceFile>,
}

/// One text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// What messages call it: its path.
    pub name: String,
    pub text: String,
    /// The position of its first byte.
    pub base: u32,
}

impl Sources {
    /// A program of one file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Sources {
        Sources { files: vec![SourceFile { name: name.into(), text: text.into(), base: 0 }] }
    }

    /// Adds a file and gives the position of its first byte; none where it is too long.
    pub(crate) fn add(&mut self, name: String, text: String) -> Option<u32> {
        let base = self.files.last().map_or(0, |last| last.base as usize + last.text.len() + 1);
        if base + text.len() >= LIBRARY_BASE as usize {
            return None;
        }
        let base = base as u32;
        self.files.push(SourceFile { name, text, base });
        Some(base)
    }

    /// The same texts, of which the first is called `name`.
    pub fn named(mut self, name: impl Into<String>) -> Sources {
        if let Some(main) = self.files.first_mut() {
            main.name = name.into();
        }
        self
    }

    /// All the user's files, first the one that was asked for.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The name, the text and the position of the file that a span is in.
    pub fn file(&self, span: Span) -> (String, &str, u32) {
        if span.in_library() {
            let found = library::files().take_while(|(_, base)| *base <= span.start).last();
            return found
                .map_or((String::new(), "", 0), |(file, base)| (format!("std/{}", file.name), file.text, base));
        }
        let after = self.files.partition_point(|file| file.base <= span.start);
        let found = after.checked_sub(1).and_then(|index| self.files.get(index));
        found.map_or((String::new(), "", 0), |file| (file.name.clone(), &file.text, file.base))
    }
}

/// Without the texts.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files.iter().map(|file| &file.name)).finish()
    }
}
