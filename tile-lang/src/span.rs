//! Where in the source text something stands.
//!
//! Positions of all texts of one program live in one number space, so that a span alone says which text it is in: the
//! user's files follow each other from 0 on, the files of the shipped library from [`LIBRARY_BASE`] on.
//! [`crate::Sources`] knows the texts.

/// The position of the first byte of the shipped library. The user's files must be shorter than this, together.
pub const LIBRARY_BASE: u32 = 1 << 31;

/// A half-open range of byte positions, `start <= end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// The smallest span that covers both.
    pub fn to(self, other: Span) -> Span {
        Span::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// The empty span at the end of this one.
    pub fn after(self) -> Span {
        Span::new(self.end, self.end)
    }

    /// Whether it lies in the shipped library and not in a user's file.
    pub fn in_library(self) -> bool {
        self.start >= LIBRARY_BASE
    }
}
