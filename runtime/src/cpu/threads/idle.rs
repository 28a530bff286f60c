//! Reuse of workers between tasks: state that is expensive to set up, such as a machine, passes
//! from one task to the next.

use std::sync::Mutex;

/// The workers that no task is using. Box large workers: they move in and out often.
pub struct Idle<W>(Mutex<Vec<W>>);

impl<W> Idle<W> {
    /// Creates an empty collection.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Takes an idle worker, or makes a new one if there is none.
    pub fn take(&self, new: impl FnOnce() -> W) -> W {
        let idle = self.0.lock().ok().and_then(|mut idle| idle.pop());
        idle.unwrap_or_else(new)
    }

    /// Puts a worker back.
    pub fn give(&self, worker: W) {
        if let Ok(mut idle) = self.0.lock() {
            idle.push(worker);
        }
    }
}
