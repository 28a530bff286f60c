//! Training, evaluation and prediction: a model, how it is trained, and samples.
//!
//! A [`Dataset`] gives samples; a [`Trainer`] compiles steps for the sizes of its batches, keeps the weights on the device, and
//! runs the steps: [`Trainer::fit`], [`Trainer::evaluate`], [`Trainer::predict`]. What is trained, with which loss and which
//! optimizer, the program says in its `train` block.
//!
//! A device works beside the host: the next batch is read and handed over while a step runs, a step is one submission, and no weight
//! comes to the host. So the loss of a step is looked at when a few more were begun. If it is no finite number, none of these has
//! changed a weight ([`tile_compiler::lower::Network::FAILED`]): the failed step is run again for the error, and does not count.
//!
//! Always true: the same program, data, seed and device give the same weights, bit for bit, however often training was stopped
//! and resumed, as long as nothing is tuned for the device meanwhile.

mod callback;
mod checkpoint;
mod class_weights;
mod dataset;
mod diagnosis;
mod fit;
mod reading;
mod session;
mod steps;
#[cfg(all(test, feature = "wgpu"))]
mod tests;
mod trainer;
mod types;

pub use callback::{Callback, Checkpoint, EarlyStopping, Log, Monitor, ReduceOnPlateau};
pub use dataset::{Arrays, Column, ColumnRole, Dataset, Part};
pub use fit::{Epoch, Fit, Progress, Validation};
pub use reading::Reading;
pub use trainer::{Trainer, TrainerBuilder};
pub use types::as_model_takes;
