//! Weights in files, with what a run needs to be taken up again: what the optimizer keeps, and how far training is.

use std::collections::HashMap;
use std::path::Path;

use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::lower::Role;
use tile_compiler::tensor::{Tensor, TensorType};

use super::trainer::Trainer;
use crate::error::Error;
use crate::weights::{self, WeightsFile};

/// The entry of a file with the epochs that were made, the samples of the next one that were seen, the steps that were made,
/// the seed, and the bits of the learning rate's factor, an f64: i64[5].
const PROGRESS: &str = "train.Progress";

impl Trainer {
    /// Writes the model's weights to a .safetensors or .npz file, and after training what the optimizer keeps and how far
    /// training is. [`crate::Session::load`] takes the model's weights from it.
    ///
    /// # Errors
    /// [`Error::Weights`] where the file cannot be written.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.wait()?;
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        // Within an epoch, what metrics have counted so far, too.
        for weight in self.steps.weights.iter().filter(|weight| weight.role != Role::Metric || self.seen > 0) {
            tensors.extend(self.steps.value(&weight.path)?.map(|value| (weight.path.clone(), value)));
        }
        let [epoch, seen] = [self.epoch, self.seen].map(|count| count as i64);
        let numbers = [epoch, seen, self.step as i64, self.seed as i64, self.rate.to_bits() as i64];
        let ty = TensorType::new(DType::I64, [numbers.len()]);
        let numbers = numbers.map(|number| Scalar::from_i64(DType::I64, number));
        if let Some(progress) = Tensor::from_scalars(ty, numbers).filter(|_| self.step > 0) {
            tensors.push((PROGRESS.to_owned(), progress));
        }
        weights::write(path.as_ref(), &tensors).map_err(Error::Weights)
    }

    /// Takes the model's weights from a file, and goes on from there as from new: an optimizer begins afresh.
    ///
    /// # Errors
    /// [`Error::Weights`] where the file cannot be read. Whether it has the model's weights is seen when the model is compiled,
    /// with the first batch.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let (mut values, _) = read(path.as_ref())?;
        values.retain(|name, _| !name.starts_with("train."));
        self.running.clear();
        self.steps.load(path.as_ref(), values, false);
        Ok(())
    }

    /// Goes on where the run that wrote the file was: as if that had never stopped.
    ///
    /// # Errors
    /// As [`Trainer::load`]; or where the file has weights alone.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let (values, progress) = read(path)?;
        let Some(&[epoch, seen, step, seed, rate]) = progress.as_deref().and_then(<[i64]>::first_chunk::<5>) else {
            let what = "it has weights alone, and does not say how far training was: load it instead";
            return Err(Error::Weights(weights::error(path, what)));
        };
        self.running.clear();
        (self.epoch, self.seen) = (epoch.max(0) as usize, seen.max(0) as usize);
        (self.step, self.seed) = (step.max(0) as u64, seed as u64);
        self.rate = f64::from_bits(rate as u64);
        self.steps.load(path, values, true);
        Ok(())
    }
}

type Read = (HashMap<String, Tensor>, Option<Vec<i64>>);

fn read(path: &Path) -> Result<Read, Error> {
    let mut file = WeightsFile::open(path).map_err(Error::Weights)?;
    let mut values = HashMap::new();
    for number in 0..file.tensors().len() {
        let tensor = file.read(number).map_err(Error::Weights)?;
        values.insert(file.tensors()[number].0.clone(), tensor);
    }
    let progress = values.remove(PROGRESS);
    Ok((values, progress.map(|tensor| tensor.scalars().map(Scalar::to_i64).collect())))
}
