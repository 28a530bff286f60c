//! Ctrl-C handling for commands with something to save before they end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::terminal::Failure;

/// True once Ctrl-C was pressed, or while the next Ctrl-C is to end the process.
static PRESSED: AtomicBool = AtomicBool::new(false);

/// Reports the first Ctrl-C by [`happened`] from now on. The second one ends the process.
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
        ctrlc::set_handler(handler)
            .map_err(|error| Failure::machine(format!("cannot watch for Ctrl-C: {error}")))?;
        *watched = true;
    }
    Ok(())
}

/// Returns whether Ctrl-C was pressed.
pub fn happened() -> bool {
    PRESSED.load(Ordering::Relaxed)
}

/// Lets the next Ctrl-C end the process: there is nothing left to save.
pub fn unwatch() {
    PRESSED.store(true, Ordering::Relaxed);
}

/// Turns a write past the process's file size limit (`ulimit -f`) into an error, like one on a full
/// disk. Without the handler the signal SIGXFSZ ends the process.
#[cfg(unix)]
pub fn outlive_file_limit() {
    // If registering fails, the command still works.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
}

#[cfg(not(unix))]
pub fn outlive_file_limit() {}
