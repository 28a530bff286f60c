//! The threads that share the work of a nest.
//!
//! [`count`] says how many there are, [`pool`] runs a job's tasks on all of them, and [`idle`]
//! passes the state that a task needs on to the next task, whichever thread runs it. [`stopwatch`]
//! measures time. For benchmarks, `simulated` stands in for the pool.

pub mod count;
pub mod idle;
#[expect(unsafe_code, reason = "workers call a task that lives on another thread's stack")]
pub mod pool;
#[cfg(feature = "simulate")]
pub mod simulated;
pub mod stopwatch;
