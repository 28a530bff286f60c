//! [`Background`]: work on a thread of its own, for a future that must not block the thread that
//! polls it.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::backend::block_on;

/// The result of work that another thread does. Dropping it does not stop the work.
pub struct Background<T>(Arc<Mutex<State<T>>>);

struct State<T> {
    result: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts `work`. If the system gives no thread, the caller does the work.
    pub fn start<F: FnOnce() -> T + Send + 'static>(work: F) -> Background<T> {
        let state = Arc::new(Mutex::new(State { result: None, waker: None }));
        let theirs = state.clone();
        // In a cell, because a thread that does not start drops what it was given.
        let work = Arc::new(Mutex::new(Some(work)));
        let again = work.clone();
        let run = move |work: &Mutex<Option<_>>| {
            let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(work) = work {
                finish(&theirs, catch_unwind(AssertUnwindSafe::<F>(work)));
            }
        };
        let spawned = {
            let run = run.clone();
            std::thread::Builder::new().name("tile-background".into()).spawn(move || run(&work))
        };
        if spawned.is_err() {
            run(&again);
        }
        Background(state)
    }

    /// Waits for the result.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn wait(self) -> T {
        block_on(poll_fn(|context| self.poll(context)))
    }

    /// Returns the result once, or has the task woken when it is there.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn poll(&self, context: &mut Context) -> Poll<T> {
        let mut state = lock(&self.0);
        let Some(result) = state.result.take() else {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        drop(state);
        Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn finish<T>(state: &Mutex<State<T>>, result: std::thread::Result<T>) {
    let mut state = lock(state);
    state.result = Some(result);
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_panics_reach_who_waits() {
        assert_eq!(Background::start(|| 7).wait(), 7);
        let background = Background::start(|| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            8
        });
        assert_eq!(block_on(poll_fn(|context| background.poll(context))), 8);
        let panicked = Background::<()>::start(|| panic!("nine"));
        let panic = catch_unwind(AssertUnwindSafe(|| panicked.wait())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"nine"));
    }
}
