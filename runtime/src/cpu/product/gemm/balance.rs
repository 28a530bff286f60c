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

/// Returns the tasks along the rows, and the panels of columns of a task, of a product with these
/// `panels` of rows and of columns. They are the `given` numbers of tasks along both, unless many
/// threads would wait long for the last tasks, and others leave them more to do.
pub fn balanced(threads: usize, panels: [usize; 2], given: [usize; 2]) -> (usize, usize) {
    /// The factor by which the time must fall.
    const GAIN: f64 = 1.15;
    /// The most tasks along the rows that are tried.
    const MOST_TASKS: usize = 64;
    let [of_rows, of_columns] = panels;
    // The panels that the busiest thread multiplies.
    let most = |&(row_tasks, width): &(usize, usize)| {
        let tasks = row_tasks * of_columns.div_ceil(width);
        tasks.div_ceil(threads) * of_rows.div_ceil(row_tasks) * width
    };
    let [row_tasks, column_tasks] = given;
    let given = (row_tasks, of_columns.div_ceil(column_tasks));
    let gains = |least: usize| least as f64 * GAIN < most(&given) as f64;
    if threads <= 2 || !gains((of_rows * of_columns).div_ceil(threads)) {
        return given;
    }
    let others = (1..=of_rows.min(4 * row_tasks).min(MOST_TASKS))
        .flat_map(|row_tasks| (1..=given.1).map(move |width| (row_tasks, width)));
    // Of equal ones, that with the fewest tasks, which read the operands least often.
    let best = others.min_by_key(|other| (most(other), other.0 * of_columns.div_ceil(other.1)));
    best.filter(|best| gains(most(best))).unwrap_or(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_for_many_threads() {
        // 50 x 768 columns on 16 threads: with 2 panels of columns each, 4 threads would be idle.
        assert_eq!(balanced(16, [4, 24], [1, 16]), (2, 3));
        // On two threads, and where all have as much to do, nothing changes.
        assert_eq!(balanced(2, [4, 24], [1, 2]), (1, 12));
        assert_eq!(balanced(16, [64, 32], [1, 16]), (1, 2));
        // A single panel cannot be divided.
        assert_eq!(balanced(16, [1, 1], [1, 1]), (1, 1));
    }
}
