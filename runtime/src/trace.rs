//! [`Trace`]: the timeline of a run.

/// The launches of a run: see [`crate::Session::trace`]. Times are in seconds.
///
/// ```
/// use tile_runtime::{Device, Model, Tensor};
///
/// let model = Model::compile("function double(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let mut session = model.on(&Device::cpu()).dim("N", 8).build()?;
/// session.set("X", &Tensor::from_f32([8], &[1.0; 8]).unwrap())?;
/// let trace = session.trace()?.unwrap();
/// assert_eq!(trace.launches.len(), 1);
/// assert!(trace.launches[0].seconds >= 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Trace {
    /// The launches, in order.
    pub launches: Vec<TimedLaunch>,
    /// The time that the host took to submit the run, if the device works asynchronously.
    pub handing_over: Option<f64>,
}

/// The time of a step's launch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TimedLaunch {
    /// The step's index in [`tile_compiler::plan::Plan::steps`].
    pub step: usize,
    /// The time since the beginning of the run.
    pub start: f64,
    /// The time that the launch took.
    pub seconds: f64,
}
