//! The division of a product into tasks, so that all threads end at about the same time.

use smallvec::SmallVec;
use std::ops::Range;

/// Ranges of panels, one a task. Up to 16 need no allocation.
pub type Blocks = SmallVec<[Range<usize>; 16]>;

/// Divides `0..all` into blocks of at most `most`. In each thread's part the blocks get smaller, so
/// that threads that are not equally fast end together.
pub fn dwindling(all: usize, most: usize, threads: usize) -> Blocks {
    let part = |thread: usize| {
        let mut rest = all * thread / threads..all * (thread + 1) / threads;
        let block = move || {
            let size = rest.len().div_ceil(2).max(2).min(most).min(rest.len());
            let block = rest.start..rest.start + size;
            rest.start = block.end;
            (!block.is_empty()).then_some(block)
        };
        std::iter::from_fn(block)
    };
    (0..threads).flat_map(part).collect()
}

/// Returns a division of few rows among many threads: the number of parts of the panels of rows,
/// and the panels of columns of a task, at most `most`. `None` if parts of the columns alone,
/// `width` panels each, leave the threads about as much to do, or if there are at most two threads.
pub fn balanced(
    threads: usize,
    panels: [usize; 2],
    [width, most_width]: [usize; 2],
) -> Option<(usize, usize)> {
    /// The factor by which the time must fall.
    const GAIN: f64 = 1.15;
    let [of_rows, of_columns] = panels;
    // The panels that the busiest thread multiplies.
    let most = |&(parts, width): &(usize, usize)| {
        let tasks = parts * of_columns.div_ceil(width);
        tasks.div_ceil(threads) * of_rows.div_ceil(parts) * width
    };
    let gains = |least: usize| least as f64 * GAIN < most(&(1, width)) as f64;
    if threads <= 2 || !gains((of_rows * of_columns).div_ceil(threads)) {
        return None;
    }
    let all = (1..=of_rows).flat_map(|parts| (1..=most_width).map(move |width| (parts, width)));
    // How often all tasks read a panel.
    let reads = |&(parts, width): &(usize, usize)| {
        of_rows * of_columns.div_ceil(width) + of_columns * parts
    };
    all.min_by_key(|division| (most(division), reads(division)))
        .filter(|division| gains(most(division)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_for_many_threads() {
        // 50 x 768 columns on 16 threads: with 2 panels of columns each, 4 threads would be idle.
        assert_eq!(balanced(16, [4, 24], [2, 16]), Some((2, 3)));
        // On two threads, and where all have as much to do, nothing changes.
        assert_eq!(balanced(2, [4, 24], [12, 16]), None);
        assert_eq!(balanced(16, [4, 32], [2, 16]), None);
        // A single panel cannot be divided.
        assert_eq!(balanced(16, [1, 1], [1, 16]), None);
    }
}
