//! The device's thread pool. It runs one job at a time, cut into tasks.
//!
//! Each thread owns a part of the tasks, the same for every job with that many tasks, and steals
//! from the others when its own part is done. So the data that one job leaves in a thread's cache
//! is found there by the next job.
//!
//! A nest may take only some microseconds, so starting a job must take less than one. The workers
//! therefore spin for a while before they sleep. The thread that starts a job works on it, too, and
//! never waits for a worker that has not begun. A job that is started within a task, or while
//! another thread's job runs, is done by its own thread alone.
//!
//! Always true: when [`run`] returns, every task is done and no worker accesses the job any more.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, TryLockError};

/// Spins of a worker before it sleeps: some tens of microseconds.
const LOOKS: u32 = 1 << 11;
/// Spins after which a waiting thread yields its processor.
const PATIENCE: u32 = 1 << 10;

/// The bit of [`Pool::entered`] that lets workers in.
const OPEN: usize = 1 << (usize::BITS - 1);

/// A job: its task function, type-erased, and the number of tasks.
#[derive(Clone, Copy)]
struct Job {
    task: *const (),
    /// Calls `task` with the number of a task.
    ///
    /// # Safety
    /// The job must not be over: `task` must still be valid.
    call: unsafe fn(*const (), usize),
    tasks: usize,
}

/// The number of a task, on cache lines of its own.
#[repr(align(128))]
struct Next(AtomicUsize);

/// The state that all threads of the pool share.
struct Pool {
    threads: usize,
    /// Held by the thread whose job runs.
    busy: Mutex<()>,
    /// The current job. Valid while `entered` is not 0.
    job: UnsafeCell<Job>,
    /// For each thread, the first task of its part that nobody has taken. The first entry is that
    /// of the thread that starts the job.
    next: Vec<Next>,
    /// The number of workers at the job, and the bit [`OPEN`].
    entered: AtomicUsize,
    /// The number of jobs begun so far.
    begun: AtomicUsize,
    /// The number of sleeping workers.
    asleep: AtomicUsize,
    /// Held while a worker decides to sleep, and with `alarm` while it sleeps.
    bed: Mutex<()>,
    /// Wakes the sleeping workers.
    alarm: Condvar,
    /// The first panic of a worker in the current job.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: the only field that is not `Sync` is `job`. Only the holder of `busy` writes it, while
// `entered` is 0, and only workers that have entered read it, so no write overlaps an access.
unsafe impl Sync for Pool {}
// SAFETY: the pointers of `job` may move between threads: they are used only while the job runs,
// and its task function is `Sync`.
unsafe impl Send for Pool {}

thread_local! {
    /// Whether this thread is running a task.
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Returns the number of threads that would work on a job of the caller, the caller included.
pub fn threads() -> usize {
    if AT_WORK.get() { 1 } else { pool().threads }
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    static WORKERS: OnceLock<()> = OnceLock::new();
    let pool = POOL.get_or_init(|| Pool::new(super::count::threads()));
    WORKERS.get_or_init(|| {
        for number in 1..pool.threads {
            let name = format!("tile-{number}");
            // If the system gives no threads, the caller does all the work.
            let _ = std::thread::Builder::new().name(name).spawn(move || pool.work_forever(number));
        }
    });
    pool
}

/// Calls `task` with each number in `0..tasks`, in any order, on all threads.
///
/// # Panics
/// If a task panics.
pub fn run<F: Fn(usize) + Sync>(tasks: usize, task: F) {
    #[cfg(test)]
    let task = crate::cpu::vector::emulated::inherited(task);
    start(tasks, task);
}

fn start<F: Fn(usize) + Sync>(tasks: usize, task: F) {
    let pool = pool();
    let alone = tasks <= 1 || pool.threads == 1 || AT_WORK.get();
    #[cfg(feature = "simulate")]
    if !alone {
        let parts = (0..pool.threads).map(|thread| pool.part(thread, tasks)).collect();
        AT_WORK.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| super::simulated::run(parts, task)));
        AT_WORK.set(false);
        return result.unwrap_or_else(|panic| resume_unwind(panic));
    }
    let busy = if alone { None } else { pool.hold() };
    let Some(_busy) = busy else {
        (0..tasks).for_each(task);
        return;
    };
    /// Calls the task function that `task` points to.
    ///
    /// # Safety
    /// - `task` must point to a live `F`.
    unsafe fn call<F: Fn(usize)>(task: *const (), number: usize) {
        // SAFETY: the caller guarantees that `task` points to a live `F`.
        unsafe { (*task.cast::<F>())(number) }
    }
    let job = Job { task: (&raw const task).cast(), call: call::<F>, tasks };
    // SAFETY: this thread holds `busy`, so nobody else writes. The previous job was closed before
    // its thread gave `busy` up: `entered` is 0, so no worker reads.
    unsafe { *pool.job.get() = job };
    for (thread, next) in pool.next.iter().enumerate() {
        next.0.store(pool.part(thread, tasks).start, Ordering::Relaxed);
    }
    pool.entered.store(OPEN, Ordering::Release);
    pool.begun.fetch_add(1, Ordering::SeqCst);
    if pool.asleep.load(Ordering::SeqCst) > 0 {
        drop(pool.bed.lock());
        pool.alarm.notify_all();
    }
    let result = pool.take_tasks(job, 0);
    pool.entered.fetch_and(!OPEN, Ordering::AcqRel);
    let mut looks = 0;
    while pool.entered.load(Ordering::Acquire) != 0 {
        wait(&mut looks);
    }
    let worker = pool.panic.lock().ok().and_then(|mut panic| panic.take());
    if let Some(panic) = result.err().or(worker) {
        drop(_busy);
        resume_unwind(panic);
    }
}

/// Returns the threads of which one takes tasks, in order: itself first.
pub(super) fn owners(thread: usize, threads: usize) -> impl Iterator<Item = usize> {
    (thread..threads).chain(0..thread)
}

fn wait(looks: &mut u32) {
    *looks += 1;
    if looks.is_multiple_of(PATIENCE) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

impl Pool {
    fn new(threads: usize) -> Self {
        Pool {
            threads,
            busy: Mutex::new(()),
            job: UnsafeCell::new(Job { task: std::ptr::null(), call: |_, _| {}, tasks: 0 }),
            next: (0..threads).map(|_| Next(AtomicUsize::new(0))).collect(),
            entered: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            bed: Mutex::new(()),
            alarm: Condvar::new(),
            panic: Mutex::new(None),
        }
    }

    /// Returns the tasks that belong to a thread before others help.
    fn part(&self, thread: usize, tasks: usize) -> Range<usize> {
        // The product of the two is avoided because it could overflow.
        let (each, rest) = (tasks / self.threads, tasks % self.threads);
        let start = |thread: usize| each * thread + thread.min(rest);
        start(thread)..start(thread + 1)
    }

    /// Takes the right to run a job, if no other thread has it.
    fn hold(&self) -> Option<std::sync::MutexGuard<'_, ()>> {
        match self.busy.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Runs tasks until none is left, starting with this thread's own part. If a task panics,
    /// returns the panic, and no thread takes another task.
    fn take_tasks(&self, job: Job, thread: usize) -> Result<(), Box<dyn Any + Send>> {
        AT_WORK.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            for owner in owners(thread, self.threads) {
                let end = self.part(owner, job.tasks).end;
                loop {
                    let number = self.next[owner].0.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    // SAFETY: the job is not over. Its own thread calls this before it closes the
                    // job, and a worker calls it after it has entered, which keeps the job open.
                    unsafe { (job.call)(job.task, number) };
                }
            }
        }));
        AT_WORK.set(false);
        if result.is_err() {
            self.next.iter().for_each(|next| next.0.store(job.tasks, Ordering::Relaxed));
        }
        result
    }

    fn work_forever(&self, thread: usize) {
        let mut seen = 0;
        loop {
            seen = self.next_job(seen);
            let enter = |entered: usize| (entered & OPEN != 0).then_some(entered + 1);
            if self.entered.fetch_update(Ordering::AcqRel, Ordering::Relaxed, enter).is_err() {
                continue;
            }
            // SAFETY: this worker has entered, so `job` is valid and not written until the worker
            // leaves.
            let job = unsafe { *self.job.get() };
            if let Err(panic) = self.take_tasks(job, thread)
                && let Ok(mut first) = self.panic.lock()
            {
                first.get_or_insert(panic);
            }
            self.entered.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits until more than `seen` jobs have begun, and returns their number.
    fn next_job(&self, seen: usize) -> usize {
        for _ in 0..LOOKS {
            let begun = self.begun.load(Ordering::Acquire);
            if begun != seen {
                return begun;
            }
            std::hint::spin_loop();
        }
        let Ok(mut bed) = self.bed.lock() else { return seen };
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let begun = loop {
            let begun = self.begun.load(Ordering::SeqCst);
            if begun != seen {
                break begun;
            }
            bed = match self.alarm.wait(bed) {
                Ok(bed) => bed,
                Err(poisoned) => poisoned.into_inner(),
            };
        };
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_task_is_done_once() {
        for tasks in [0, 1, 2, 3, 1000] {
            let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
            run(tasks, |task| {
                // A job within a task.
                run(3, |_| {
                    counts[task].fetch_add(1, Ordering::Relaxed);
                });
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 3));
        }
    }

    #[test]
    fn jobs_of_many_threads() {
        let count = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        run(5, |_| {
                            count.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 4 * 500 * 5);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let panicked = catch_unwind(|| run(64, |task| assert!(task != 40, "forty"))).unwrap_err();
        assert_eq!(panicked.downcast_ref::<&str>(), Some(&"forty"));
        every_task_is_done_once();
    }
}
