//! Training on random digits, as in `tilec train`.

use tile_runtime::train::{Arrays, Fit, Trainer};
use tile_runtime::tune::{Tune, Tuning};
use tile_runtime::{DType, Device, Error, Scalar, Session, Tensor, TensorType};

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
    data: Arrays,
    epochs: usize,
}

impl<'a> Training<'a> {
    /// Builds a trainer for the model of `source`, and random digits for `steps` steps.
    pub fn new(
        sizes: &Sizes,
        source: &'a Source<'a>,
        device: &Device,
        batch: usize,
        steps: usize,
    ) -> Result<Training<'a>, Failure> {
        let failed = |error: Error| source.failed(&error);
        // The batch size comes from the data.
        let mut builder = source.model.trainer(device);
        for (name, value) in &sizes.set {
            builder = builder.set(name, value.clone());
        }
        let trainer = builder.build().map_err(failed)?;
        let samples = batch.saturating_mul(steps);
        let images = random(TensorType::new(DType::U8, [samples, SIDE, SIDE]), "images", 1);
        let labels: Vec<Scalar> =
            (0..samples).map(|n| Scalar::from_i64(DType::I32, (n % CLASSES) as i64)).collect();
        let labels = Tensor::from_scalars(TensorType::new(DType::I32, [samples]), labels);
        let (Some(images), Some(labels)) = (images, labels) else {
            return Err(Failure::input(format!("{samples} digits are more than memory can hold")));
        };
        let data = Arrays::new(images, labels).map_err(failed)?;
        Ok(Training { source, trainer, batch, data, epochs: 0 })
    }

    /// Tunes the kernels of a step.
    pub fn tune(&mut self, tune: Tune) -> Result<Tuning, Failure> {
        self.trainer.tune(&self.data, self.batch, tune).map_err(|error| self.source.failed(&error))
    }

    /// Returns a session of one training step, to time its kernels.
    pub fn into_session(self) -> Result<Session, Failure> {
        self.trainer
            .into_session(&self.data, self.batch)
            .map_err(|error| self.source.failed(&error))
    }

    /// Trains for one epoch.
    pub fn epoch(&mut self) -> Result<(), Failure> {
        self.epochs += 1;
        let fit = Fit::epochs(self.epochs).batch_size(self.batch);
        self.trainer.fit(&self.data, fit).map_err(|error| self.source.failed(&error))?;
        Ok(())
    }
}
