//! Training, evaluation and prediction.
//!
//! A [`Dataset`] holds samples. A [`Trainer`] compiles steps for the sizes of its batches, keeps
//! the weights on the device, and runs the steps: [`Trainer::fit`], [`Trainer::evaluate`],
//! [`Trainer::predict`]. The program's `train` block gives the loss and the optimizer.
//!
//! If the program has several `train` blocks, their models are trained in turn: each has its own
//! steps, and all share the weights of the same path, which stay where they are on the device.
//!
//! The device runs asynchronously: the next batch is read and uploaded while a step runs, a step is
//! one submission, and weights stay on the device. Therefore the loss of a step is checked only
//! after a few more steps were submitted. If it is not finite, none of these has changed a weight
//! ([`tile_compiler::lower::Network::FAILED`]). The failed step runs again for the error message,
//! and does not count.
//!
//! Invariant: the same program, data, seed and device give the same weights bit for bit, however
//! often training was stopped and resumed, as long as no kernel is tuned for the device meanwhile.

mod builder;
mod callback;
mod checked;
mod checkpoint;
mod class_weights;
mod classes;
mod dataset;
mod description;
mod diagnosis;
mod evaluate;
mod fit;
mod log;
mod order;
mod program;
mod reading;
mod session;
mod steps;
#[cfg(all(test, feature = "wgpu"))]
mod tests;
mod trainer;
mod types;

pub use crate::scores::Scores;
pub use builder::TrainerBuilder;
pub use callback::{Callback, Checkpoint, EarlyStopping, Monitor, ReduceOnPlateau};
pub use checked::check_input;
pub use checkpoint::saved_classes;
pub use classes::most_probable;
pub use dataset::{Arrays, Column, ColumnRole, Dataset, Part};
pub use description::{DataDescription, TableColumns, saved_description};
pub use fit::{Epoch, Fit, Progress, Validation};
pub use log::Log;
pub use reading::Reading;
pub use trainer::Trainer;
pub use types::as_model_takes;
