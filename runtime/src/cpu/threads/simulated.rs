//! A pool of more threads than the machine has processors, in simulation: one thread runs the tasks
//! of a job, in the order in which so many threads would take them, and notes how long each takes.
//! The job would have taken as long as the busiest thread. What that saves is taken off the time
//! that a [`Stopwatch`](super::stopwatch::Stopwatch) measures.
//!
//! The last cache and memory's bandwidth, which threads share, are not simulated.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time to wake the other threads and to wait for the last, whatever they do.
const MEETING: Duration = Duration::from_micros(1);

/// The nanoseconds that all jobs so far have saved.
static SAVED: AtomicU64 = AtomicU64::new(0);

/// Returns the time that all jobs so far have saved.
pub fn saved() -> Duration {
    Duration::from_nanos(SAVED.load(Ordering::Relaxed))
}

/// Runs the tasks of a job of several threads. `parts` are the tasks that each thread takes before
/// it takes those of the threads after it.
pub fn run(mut parts: Vec<std::ops::Range<usize>>, task: impl Fn(usize)) {
    let threads = parts.len();
    let mut clocks = vec![Duration::ZERO; threads];
    let mut all = Duration::ZERO;
    while let Some((thread, clock)) = clocks.iter_mut().enumerate().min_by_key(|(_, clock)| **clock)
        && let Some(number) =
            (thread..threads).chain(0..thread).find_map(|owner| parts[owner].next())
    {
        let started = Instant::now();
        task(number);
        let time = started.elapsed();
        *clock += time;
        all += time;
    }
    let longest = clocks.into_iter().max().unwrap_or_default();
    let saved = all.saturating_sub(longest + MEETING);
    SAVED.fetch_add(saved.as_nanos() as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_thread_decides() {
        let before = saved();
        let mut done = std::cell::RefCell::new(Vec::new());
        run(vec![0..2, 2..4, 4..6], |task| {
            std::thread::sleep(Duration::from_millis(10));
            done.borrow_mut().push(task);
        });
        let (first, second) = done.get_mut().split_at_mut(3);
        second.sort_unstable();
        assert_eq!([first, second], [[0, 2, 4], [1, 3, 5]]);
        // Three threads sleep twice each, and four sleeps are saved.
        let saved = saved() - before;
        assert!(saved > Duration::from_millis(39) && saved < Duration::from_secs(1), "{saved:?}");
    }
}
