//! What tasks hand on to each other, such as a machine that would be set up anew for each of them.

use std::sync::Mutex;

/// Those that no task is using. What is large is best in a box, since it changes hands often.
pub struct Idle<W>(Mutex<Vec<W>>);

impl<W> Idle<W> {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// One that is idle, else a new one.
    pub fn take(&self, new: impl FnOnce() -> W) -> W {
        let idle = self.0.lock().ok().and_then(|mut idle| idle.pop());
        idle.unwrap_or_else(new)
    }

    /// Takes it back.
    pub fn give(&self, worker: W) {
        if let Ok(mut idle) = self.0.lock() {
            idle.push(worker);
        }
    }
}
