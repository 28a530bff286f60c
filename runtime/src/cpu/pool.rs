//! The threads of the device: one job at a time, cut into tasks. Each thread has its part of them, the same for every job of so
//! many tasks, and takes from the others' once it is done: what one job leaves in a thread's cache, the next finds there.
//!
//! A nest may take only some microseconds, so that starting a job must take less than one. The workers therefore watch for a job for a
//! while before they sleep, and the thread that starts a job works on it itself and never waits for a worker that has not
//! begun. A job started within a task, or while another thread's job runs, is done by its own thread alone.
//!
//! Always true: when [`run`] returns, every task is done and no worker touches the job any more.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, TryLockError};

/// Looks for a job before a worker sleeps: some tens of microseconds.
const LOOKS: u32 = 1 << 11;
/// Looks after which a waiting thread lets others have its processor.
const PATIENCE: u32 = 1 << 10;

/// The bit of [`Pool::entered`] that lets workers in.
const OPEN: usize = 1 << (usize::BITS - 1);

/// A job's task function, its type forgotten.
#[derive(Clone, Copy)]
struct Job {
    task: *const (),
    /// Calls `task` with a number.
    ///
    /// # Safety
    /// The job must not be over.
    call: unsafe fn(*const (), usize),
    tasks: usize,
}

/// A task's number, on cache lines of its own.
#[repr(align(128))]
struct Next(AtomicUsize);

struct Pool {
    threads: usize,
    /// Held by the thread whose job runs.
    busy: Mutex<()>,
    /// Valid while `entered` is not 0.
    job: UnsafeCell<Job>,
    /// For each thread, the first task of its part that nobody has taken; the caller's is the first.
    next: Vec<Next>,
    /// The number of workers at the job, and whether more may join.
    entered: AtomicUsize,
    /// The number of jobs begun so far.
    begun: AtomicUsize,
    asleep: AtomicUsize,
    bed: Mutex<()>,
    alarm: Condvar,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only by the holder of `busy` while `entered` is 0, and read only by workers that have entered.
unsafe impl Sync for Pool {}
// SAFETY: its pointers are used only as above.
unsafe impl Send for Pool {}

thread_local! {
    /// Whether this thread is at work on a task.
    static AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// How many threads would work on a job of the caller's, itself among them.
pub fn threads() -> usize {
    if AT_WORK.get() { 1 } else { pool().threads }
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    static WORKERS: OnceLock<()> = OnceLock::new();
    let pool = POOL.get_or_init(|| Pool::new(std::thread::available_parallelism().map_or(1, |n| n.get())));
    WORKERS.get_or_init(|| {
        for number in 1..pool.threads {
            let name = format!("tile-{number}");
            // Where there are no threads to be had, the caller does all the work.
            let _ = std::thread::Builder::new().name(name).spawn(move || pool.work_forever(number));
        }
    });
    pool
}

/// Calls `task` with each of `0..tasks`, in any order, on all threads.
///
/// # Panics
/// If a task panics.
pub fn run<F: Fn(usize) + Sync>(tasks: usize, task: F) {
    let pool = pool();
    let alone = tasks <= 1 || pool.threads == 1 || AT_WORK.get();
    let busy = if alone { None } else { pool.hold() };
    let Some(_busy) = busy else {
        (0..tasks).for_each(task);
        return;
    };
    /// # Safety
    /// `task` must point to an `F`.
    unsafe fn call<F: Fn(usize)>(task: *const (), number: usize) {
        // SAFETY: by the caller's promise.
        unsafe { (*task.cast::<F>())(number) }
    }
    let job = Job { task: (&raw const task).cast(), call: call::<F>, tasks };
    // SAFETY: this thread holds `busy`, and the last job has been closed: nobody reads.
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

    /// The tasks that are a thread's before others help.
    fn part(&self, thread: usize, tasks: usize) -> Range<usize> {
        // No product of the two: it could overflow.
        let (each, rest) = (tasks / self.threads, tasks % self.threads);
        let start = |thread: usize| each * thread + thread.min(rest);
        start(thread)..start(thread + 1)
    }

    /// The right to run a job, if nobody has it.
    fn hold(&self) -> Option<std::sync::MutexGuard<'_, ()>> {
        match self.busy.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Does tasks until none is left, this thread's own first; after a panic, which it returns, nobody takes another.
    fn take_tasks(&self, job: Job, thread: usize) -> Result<(), Box<dyn Any + Send>> {
        AT_WORK.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| {
            for owner in (thread..self.threads).chain(0..thread) {
                let end = self.part(owner, job.tasks).end;
                loop {
                    let number = self.next[owner].0.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    // SAFETY: the job is not over: its own thread, or a worker that has entered, is here.
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
            // SAFETY: this worker has entered: the job stays until it leaves.
            let job = unsafe { *self.job.get() };
            if let Err(panic) = self.take_tasks(job, thread)
                && let Ok(mut first) = self.panic.lock()
            {
                first.get_or_insert(panic);
            }
            self.entered.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits until more than `seen` jobs have begun; returns how many.
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
