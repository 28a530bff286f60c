//! Training steps, as in `tilec train`: on random digits, or on samples of the user.

use tile_runtime::data::folder;
use tile_runtime::train::{Arrays, Dataset, Fit, Trainer};
use tile_runtime::tune::{Tune, Tuning};
use tile_runtime::{DType, Device, Error, Scalar, Session, Tensor, TensorType};

use super::workload::Samples;
use crate::arguments::Sizes;
use crate::random::random;
use crate::source::Source;
use crate::terminal::Failure;

/// The side of a digit in pixels, and the number of classes.
const SIDE: usize = 28;
const CLASSES: usize = 10;

/// A model in training.
pub struct Training<'a> {
    source: &'a Source<'a>,
    trainer: Trainer,
    batch: usize,
    data: Box<dyn Dataset>,
    epochs: usize,
}

impl<'a> Training<'a> {
    /// Builds a trainer for the model of `source`, with its samples. `digits` is the number of
    /// random digits in a step.
    pub fn new(
        sizes: &Sizes,
        source: &'a Source<'a>,
        device: &Device,
        samples: &Samples,
        digits: usize,
    ) -> Result<Training<'a>, Failure> {
        let failed = |error: Error| source.failed(&error);
        let sizes = match samples {
            // The only size is that of a batch, which the data have.
            Samples::Digits { .. } => &Sizes { dim: Vec::new(), ..sizes.clone() },
            Samples::User { .. } => {
                sizes.refuse_shapes("bench --data")?;
                sizes
            }
        };
        let trainer = sizes.apply_to_trainer(source.model.trainer(device));
        let trainer = trainer.build().map_err(failed)?;
        let (data, batch): (Box<dyn Dataset>, usize) = match samples {
            Samples::Digits { steps } => (Box::new(random_digits(digits, *steps, source)?), digits),
            Samples::User { data, batch } => {
                let samples = folder::open_for(data, &trainer.wanted()).map_err(failed)?;
                (samples.train, batch.unwrap_or(trainer.settings().batch_size))
            }
        };
        Ok(Training { source, trainer, batch, data, epochs: 0 })
    }

    /// Returns the number of steps in an epoch.
    pub fn steps(&self) -> usize {
        self.data.len().div_ceil(self.batch).max(1)
    }

    /// Tunes the kernels of a step.
    pub fn tune(&mut self, tune: Tune) -> Result<Tuning, Failure> {
        self.trainer.tune(&*self.data, self.batch, tune).map_err(|error| self.source.failed(&error))
    }

    /// Returns a session of one training step, to time its kernels.
    pub fn into_session(self) -> Result<Session, Failure> {
        self.trainer
            .into_session(&*self.data, self.batch)
            .map_err(|error| self.source.failed(&error))
    }

    /// Trains for one epoch.
    pub fn epoch(&mut self) -> Result<(), Failure> {
        self.epochs += 1;
        let fit = Fit::epochs(self.epochs).batch_size(self.batch);
        self.trainer.fit(&*self.data, fit).map_err(|error| self.source.failed(&error))?;
        Ok(())
    }
}

/// Returns random digits with labels, for `steps` steps of `batch` samples.
fn random_digits(batch: usize, steps: usize, source: &Source) -> Result<Arrays, Failure> {
    let samples = batch.saturating_mul(steps);
    let images = random(TensorType::new(DType::U8, [samples, SIDE, SIDE]), "images", 1);
    let labels: Vec<Scalar> =
        (0..samples).map(|n| Scalar::from_i64(DType::I32, (n % CLASSES) as i64)).collect();
    let labels = Tensor::from_scalars(TensorType::new(DType::I32, [samples]), labels);
    let (Some(images), Some(labels)) = (images, labels) else {
        return Err(Failure::input(format!("{samples} digits are more than memory can hold")));
    };
    Arrays::new(images, labels).map_err(|error| source.failed(&error))
}
