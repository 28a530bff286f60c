//! The threads that share the work of a nest.
//!
//! [`pool`] runs a job's tasks on all of them, and [`idle`] passes the state that a task needs on to
//! the next task, whichever thread runs it.

pub mod idle;
pub mod pool;
