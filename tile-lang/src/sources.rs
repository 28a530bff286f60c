//! The source texts of a program.

use std::fmt;

#[cfg(feature = "parse")]
use crate::library;
use crate::span::{LIBRARY_BASE, Span};

/// The user's files: the main file and the files that it imports. The library's files are not
/// included.
#[derive(Clone, PartialEq, Eq)]
pub struct Sources {
    /// The files, sorted by position.
    files: Vec<SourceFile>,
}

/// One source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The name in messages: the path of the file.
    pub name: String,
    /// The text.
    pub text: String,
    /// The position of the first byte.
    pub base: u32,
}

impl Sources {
    /// Creates the sources of a program with one file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Sources {
        Sources { files: vec![SourceFile { name: name.into(), text: text.into(), base: 0 }] }
    }

    /// Adds a file. Returns the position of its first byte, or `None` if the texts are too long.
    pub(crate) fn add(&mut self, name: String, text: String) -> Option<u32> {
        let base = self.files.last().map_or(0, |last| last.base as usize + last.text.len() + 1);
        if base + text.len() >= LIBRARY_BASE as usize {
            return None;
        }
        let base = base as u32;
        self.files.push(SourceFile { name, text, base });
        Some(base)
    }

    /// Returns the same texts with the main file renamed to `name`.
    pub fn named(mut self, name: impl Into<String>) -> Sources {
        if let Some(main) = self.files.first_mut() {
            main.name = name.into();
        }
        self
    }

    /// Returns all of the user's files, the main file first.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Returns the name, the text and the position of the file that contains a span.
    pub fn file(&self, span: Span) -> (String, &str, u32) {
        #[cfg(feature = "parse")]
        if span.in_library() {
            let found = library::files().take_while(|(_, base)| *base <= span.start).last();
            return found.map_or((String::new(), "", 0), |(file, base)| {
                (format!("std/{}", file.name), file.text, base)
            });
        }
        let after = self.files.partition_point(|file| file.base <= span.start);
        let found = after.checked_sub(1).and_then(|index| self.files.get(index));
        found.map_or((String::new(), "", 0), |file| (file.name.clone(), &file.text, file.base))
    }
}

/// Prints the names of the files, without their texts.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files.iter().map(|file| &file.name)).finish()
    }
}
