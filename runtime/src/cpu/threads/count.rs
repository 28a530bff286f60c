//! The number of threads: as many as this process may run at once, or as many as the user says.

use std::thread::available_parallelism;

/// The environment variable with the number of threads.
const VARIABLE: &str = "TILE_THREADS";
/// The most threads: more than any processor runs at once.
const MOST: usize = 1024;

/// Returns the number of threads.
///
/// # Errors
/// Returns a sentence if the variable is set, but not to a number from 1 to [`MOST`].
pub fn chosen() -> Result<usize, String> {
    match std::env::var_os(VARIABLE) {
        Some(value) if !value.is_empty() => {
            let number = value.to_str().and_then(|value| value.parse().ok());
            number.filter(|number| (1..=MOST).contains(number)).ok_or_else(|| {
                let value = value.to_string_lossy();
                format!(
                    "expected a number of threads from 1 to {MOST} in {VARIABLE}, found `{value}`"
                )
            })
        }
        _ => Ok(available_parallelism().map_or(1, |n| n.get())),
    }
}

/// Returns the number of threads, and ignores an invalid variable.
pub fn threads() -> usize {
    chosen().unwrap_or_else(|_| available_parallelism().map_or(1, |n| n.get()))
}
