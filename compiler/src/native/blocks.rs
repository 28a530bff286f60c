//! The division of a packed product into parts that stay in a cache while they are read.

use crate::profile::Processor;

/// The most bytes of a row in a packed panel: kernels of 14 rows × 384 f32 read 21 KiB, which stay
/// in a 32 KiB first-level cache beside the columns that they are multiplied by.
pub const PANEL_ROW_BYTES: usize = 384 * 4;

/// The most columns, and the most rows, of a part.
pub const MOST_AT_ONCE: usize = 1024;

/// The parts of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductBlocks {
    /// The terms that are packed, and added up, at a time.
    pub terms: usize,
    /// The most columns that are multiplied by one block of rows before the next, for blocks of
    /// 1536 bytes of terms. They take at most 384 KiB of the second-level cache.
    pub columns: usize,
    /// The most rows that are packed at a time: 263 KiB of the second-level cache.
    pub rows: usize,
    /// The most bytes of the rows and sums that are finished together, if they belong to several
    /// panels. They stay in the first-level cache.
    pub finished_bytes: usize,
    /// The most bytes of the box of elements that a task copies of a left factor whose rows and
    /// terms access the same elements, with the sums that wait for the next block of terms. They
    /// stay in the second-level cache.
    pub window_bytes: usize,
}

impl ProductBlocks {
    /// Divides a product with sums of `terms` products of numbers of `bytes` bytes. The blocks of
    /// terms are about equal.
    pub fn new(processor: &Processor, terms: usize, bytes: usize) -> Self {
        let blocks = terms.saturating_mul(bytes).div_ceil(PANEL_ROW_BYTES).max(1);
        Self {
            terms: terms.div_ceil(blocks).max(1).next_multiple_of(8),
            columns: 256,
            rows: 168,
            finished_bytes: processor.first_cache * 5 / 8,
            window_bytes: processor.second_cache / 2,
        }
    }

    /// Returns how many columns are multiplied by one block of rows before the next, for blocks of
    /// `terms` numbers of `bytes` bytes. Short sums have up to four times as many columns, so that
    /// whole rows of results are finished together.
    pub fn columns_at_once(&self, terms: usize, bytes: usize) -> usize {
        self.columns * PANEL_ROW_BYTES / (terms * bytes).max(PANEL_ROW_BYTES / 4)
    }
}
