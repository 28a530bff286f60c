//! [`Errand`]: work on a thread of its own, for a future that must not block the thread that polls
//! it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The result of work that another thread does. Dropping it does not stop the work.
pub struct Errand<T>(Arc<State<T>>);

struct State<T> {
    done: Mutex<Done<T>>,
    /// Wakes a thread that waits.
    alarm: Condvar,
}

struct Done<T> {
    result: Option<std::thread::Result<T>>,
    waker: Option<Waker>,
}

impl<T: Send + 'static> Errand<T> {
    /// Starts `work`. If the system gives no thread, the caller does the work.
    pub fn start<F: FnOnce() -> T + Send + 'static>(work: F) -> Errand<T> {
        let done = Mutex::new(Done { result: None, waker: None });
        let state = Arc::new(State { done, alarm: Condvar::new() });
        let theirs = state.clone();
        // In a cell, because a thread that does not start drops what it was given.
        let work = Arc::new(Mutex::new(Some(work)));
        let again = work.clone();
        let run = move |work: &Mutex<Option<_>>| {
            let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(work) = work {
                theirs.finish(catch_unwind(AssertUnwindSafe::<F>(work)));
            }
        };
        let spawned = {
            let run = run.clone();
            std::thread::Builder::new().name("tile-errand".into()).spawn(move || run(&work))
        };
        if spawned.is_err() {
            run(&again);
        }
        Errand(state)
    }

    /// Waits for the result.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn wait(self) -> T {
        let mut done = self.0.lock();
        let result = loop {
            match done.result.take() {
                Some(result) => break result,
                None => done = self.0.alarm.wait(done).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(done);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Returns the result once, or has the task woken when it is there.
    ///
    /// # Panics
    /// If the work panicked.
    pub fn poll(&self, context: &mut Context) -> Poll<T> {
        let mut done = self.0.lock();
        let Some(result) = done.result.take() else {
            done.waker = Some(context.waker().clone());
            return Poll::Pending;
        };
        drop(done);
        Poll::Ready(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl<T> State<T> {
    fn lock(&self) -> MutexGuard<'_, Done<T>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, result: std::thread::Result<T>) {
        let mut done = self.lock();
        done.result = Some(result);
        let waker = done.waker.take();
        drop(done);
        self.alarm.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn results_and_panics_reach_who_waits() {
        assert_eq!(Errand::start(|| 7).wait(), 7);
        let errand = Errand::start(|| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            8
        });
        assert_eq!(crate::backend::block_on(poll_fn(|context| errand.poll(context))), 8);
        let panicked = Errand::<()>::start(|| panic!("nine"));
        let panic = catch_unwind(AssertUnwindSafe(|| panicked.wait())).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"nine"));
    }
}
