//! [`Pending`]: the result of a call that may wait for the device, and [`block_on`].

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::error::Error;

/// The result of a call that may wait for the device. One that did not wait allocates nothing.
pub enum Pending<'a, T> {
    /// It is taken when it is polled.
    Ready(Option<Result<T, Error>>),
    Waiting(BoxedFuture<'a, T>),
}

/// In a browser a device belongs to its thread.
#[cfg(not(target_family = "wasm"))]
type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;
#[cfg(target_family = "wasm")]
type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + 'a>>;

/// Returns the result of a call that did not wait.
pub fn ready<'a, T>(result: Result<T, Error>) -> Pending<'a, T> {
    Pending::Ready(Some(result))
}

impl<T: Unpin> Future for Pending<'_, T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context) -> Poll<Self::Output> {
        match self.get_mut() {
            Pending::Ready(result) => {
                let taken = || Err(Error::internal("a result is polled twice"));
                Poll::Ready(result.take().unwrap_or_else(taken))
            }
            Pending::Waiting(future) => future.as_mut().poll(context),
        }
    }
}

/// Waits for a future on this thread. Allocates nothing if its result is there.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return result;
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
        thread::park();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn waits_until_another_thread_wakes() {
        assert_eq!(block_on(async { 1 }), 1);
        let mut polls = 0;
        let late = poll_fn(|context| {
            polls += 1;
            let waker = context.waker().clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(5));
                waker.wake();
            });
            if polls < 4 { Poll::Pending } else { Poll::Ready(()) }
        });
        let started = Instant::now();
        block_on(late);
        // The first two polls do not wait, and each of the others waits for a thread.
        assert!(started.elapsed() >= Duration::from_millis(10));
    }
}
