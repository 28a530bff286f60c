//! What the tasks of a job hand on to each other, such as a machine that would be set up anew for each of them.

use std::sync::Mutex;

/// Those that no task is using. Boxed, since they are large and change hands often.
pub struct Idle<W>(Mutex<Vec<Box<W>>>);

impl<W> Idle<W> {
    /// None yet.
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// One that is idle, else a new one.
    pub fn take(&self, new: impl FnOnce() -> W) -> Box<W> {
        let idle = self.0.lock().ok().and_then(|mut idle| idle.pop());
        idle.unwrap_or_else(|| Box::new(new()))
    }

    /// Takes it back.
    pub fn give(&self, worker: Box<W>) {
        if let Ok(mut idle) = self.0.lock() {
            idle.push(worker);
        }
    }
}
