//! The measurement of time: with simulated threads, of the time that these would take.

use std::time::{Duration, Instant};

/// The start of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    /// The nanoseconds that simulated threads had saved before.
    saved: i64,
}

impl Stopwatch {
    /// Starts to measure.
    pub fn start() -> Self {
        Self { started: Instant::now(), saved: saved() }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        let nanoseconds = self.started.elapsed().as_nanos() as i64 - (saved() - self.saved);
        Duration::from_nanos(nanoseconds.max(0) as u64)
    }
}

#[cfg(feature = "simulate")]
fn saved() -> i64 {
    super::simulated::saved()
}

#[cfg(not(feature = "simulate"))]
fn saved() -> i64 {
    0
}
