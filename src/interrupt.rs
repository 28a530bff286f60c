//! Ctrl-C, where a command has something to keep before it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::terminal::Failure;

/// Whether it was pressed, or is to end the process.
static PRESSED: AtomicBool = AtomicBool::new(false);

/// From now on the first Ctrl-C is for the command to see, and the second one ends the process.
pub fn watch() -> Result<(), Failure> {
    static WATCHED: Mutex<bool> = Mutex::new(false);
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    PRESSED.store(false, Ordering::Relaxed);
    if !*watched {
        let handler = || {
            if PRESSED.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        };
        ctrlc::set_handler(handler).map_err(|error| Failure::machine(format!("cannot watch for Ctrl-C: {error}")))?;
        *watched = true;
    }
    Ok(())
}

/// Whether Ctrl-C was pressed.
pub fn happened() -> bool {
    PRESSED.load(Ordering::Relaxed)
}

/// There is nothing more to keep: from now on the first one ends the process.
pub fn unwatch() {
    PRESSED.store(true, Ordering::Relaxed);
}
