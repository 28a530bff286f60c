//! Positions in the source texts of a program.
//!
//! All texts of a program share one range of positions, so a span also identifies its text. The
//! user's files follow each other from 0 on, and the files of the shipped library follow each other
//! from [`LIBRARY_BASE`] on. [`crate::Sources`] maps a span to its text.

/// The position of the first byte of the shipped library. The user's files together must be shorter
/// than this.
pub const LIBRARY_BASE: u32 = 1 << 31;

/// A half-open range of byte positions with `start <= end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The position of the first byte.
    pub start: u32,
    /// The position after the last byte.
    pub end: u32,
}

impl Span {
    /// Creates a span. `start` must not be greater than `end`.
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }

    /// Returns the smallest span that covers both spans.
    pub fn to(self, other: Span) -> Span {
        Span::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// Returns the empty span at the end of this span.
    pub fn after(self) -> Span {
        Span::new(self.end, self.end)
    }

    /// Returns the part of a text whose first byte is at position `base`. Empty if the text does
    /// not have it.
    pub(crate) fn of(self, text: &str, base: u32) -> &str {
        let range =
            self.start.saturating_sub(base) as usize..self.end.saturating_sub(base) as usize;
        text.get(range).unwrap_or_default()
    }

    /// Returns whether the span lies in the shipped library.
    pub fn in_library(self) -> bool {
        self.start >= LIBRARY_BASE
    }
}
