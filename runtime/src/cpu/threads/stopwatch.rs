//! Time, as the simulated threads would take it.

use std::time::{Duration, Instant};

/// A time from which to measure.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    saved: Duration,
}

impl Stopwatch {
    /// Starts to measure.
    pub fn start() -> Self {
        Self { started: Instant::now(), saved: saved() }
    }

    /// Returns the time since the start, less what the threads would have saved if the pool is
    /// simulated.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed().saturating_sub(saved() - self.saved)
    }
}

#[cfg(feature = "simulate")]
fn saved() -> Duration {
    super::simulated::saved()
}

#[cfg(not(feature = "simulate"))]
fn saved() -> Duration {
    Duration::ZERO
}
