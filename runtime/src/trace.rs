//! [`Trace`]: what one run did, and when.

/// A run, launch by launch: see [`crate::Session::trace`]. Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// In their order.
    pub launches: Vec<TimedLaunch>,
    /// For how long the host handed a run over to the device, where that works beside it.
    pub handing_over: Option<f64>,
}

/// When a step was at work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedLaunch {
    /// Its number in [`tile_compiler::plan::Plan::steps`].
    pub step: usize,
    /// From the beginning of the run.
    pub start: f64,
    pub seconds: f64,
}
