//! A pool of more threads than the machine has processors, in simulation: one thread runs the tasks
//! of a job, in the order in which so many threads would take them, and notes how long each takes.
//! The job would have taken as long as the busiest thread. What that saves is taken off the time
//! that a [`Stopwatch`](super::stopwatch::Stopwatch) measures.
//!
//! The last cache and memory's bandwidth, which threads share, are not simulated.

use super::pool::owners;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// The time of any job to wake the other threads and to wait for the last.
const MEETING: Duration = Duration::from_micros(1);

/// The nanoseconds that all jobs so far have saved. Short jobs save less than nothing.
static SAVED: AtomicI64 = AtomicI64::new(0);

/// Returns the nanoseconds that all jobs so far have saved.
pub fn saved() -> i64 {
    SAVED.load(Ordering::Relaxed)
}

/// Runs the tasks of a job of several threads. `parts` are the tasks that each thread takes before
/// it takes those of the threads after it.
pub fn run(mut parts: Vec<Range<usize>>, task: impl Fn(usize)) {
    let job = Instant::now();
    let threads = parts.len();
    let mut clocks = vec![Duration::ZERO; threads];
    while let Some((thread, clock)) = clocks.iter_mut().enumerate().min_by_key(|(_, clock)| **clock)
        && let Some(number) = owners(thread, threads).find_map(|owner| parts[owner].next())
    {
        let started = Instant::now();
        task(number);
        *clock += started.elapsed();
    }
    let longest = clocks.into_iter().max().unwrap_or_default() + MEETING;
    let saved = job.elapsed().as_nanos() as i64 - longest.as_nanos() as i64;
    SAVED.fetch_add(saved, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn threads_take_their_own_tasks_first() {
        let done = RefCell::new(Vec::new());
        run(vec![0..2, 2..4, 4..6], |task| {
            std::thread::sleep(Duration::from_millis(10));
            done.borrow_mut().push(task);
        });
        let mut done = done.into_inner();
        let (first, second) = done.split_at_mut(3);
        second.sort_unstable();
        assert_eq!([first, second], [[0, 2, 4], [1, 3, 5]]);
    }
}
