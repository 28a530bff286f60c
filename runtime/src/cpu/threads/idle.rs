//! Reuse of workers between tasks: state that is expensive to set up, such as a machine, passes
//! from one task to the next.

use smallvec::SmallVec;
use std::sync::Mutex;

/// The workers that no task is using. They move in and out often: a worker of more than some
/// hundred bytes should be boxed.
pub struct Idle<W>(Mutex<SmallVec<[W; 4]>>);

impl<W> Idle<W> {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self(Mutex::new(SmallVec::new()))
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
