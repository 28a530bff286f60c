//! Weights in files, with what a run needs to be taken up again: what the optimizer keeps, and how far training is.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::lower::Role;
use tile_compiler::tensor::{Tensor, TensorType};

use super::fit::Epoch;
use super::reading::Reading;
use super::trainer::Trainer;
use crate::error::Error;
use crate::weights::{self, Titles, WeightsFile};

/// The entry of a file with the epochs that were made, the samples of the next one that were seen, the steps that were made,
/// the seed, the bits of the learning rate's factor, an f64, and the samples of an epoch and of a batch: i64[7].
const PROGRESS: &str = "train.Progress";

/// The entry with the results of the epochs: JSON, in which numbers are texts, as JSON has no NaN: u8[bytes]. How long they took is
/// left out, so that the same training gives the same file.
const HISTORY: &str = "train.History";

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
        let (samples, batch) = (self.begun.0 as i64, self.begun.1 as i64);
        let numbers = [epoch, seen, self.step as i64, self.seed as i64, self.rate.to_bits() as i64, samples, batch];
        let ty = TensorType::new(DType::I64, [numbers.len()]);
        let numbers = numbers.map(|number| Scalar::from_i64(DType::I64, number));
        if let Some(progress) = Tensor::from_scalars(ty, numbers).filter(|_| self.step > 0) {
            tensors.push((PROGRESS.to_owned(), progress));
            let history = written(&self.history).into_bytes();
            let ty = TensorType::new(DType::U8, [history.len()]);
            tensors.extend(Tensor::from_bytes(ty, history).map(|history| (HISTORY.to_owned(), history)));
        }
        weights::write(path.as_ref(), &tensors).map_err(Error::Weights)
    }

    /// Takes the model's weights from a file, and goes on from there as from new: an optimizer begins afresh.
    ///
    /// # Errors
    /// [`Error::Weights`] where the file cannot be read. Whether it has the model's weights is seen when the model is compiled,
    /// with the first batch.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let Read { mut values, titles, .. } = read(path.as_ref())?;
        values.retain(|name, _| !name.starts_with("train."));
        self.running.clear();
        self.steps.load(path.as_ref(), values, false, titles)
    }

    /// Goes on where the run that wrote the file was: as if that had never stopped.
    ///
    /// # Errors
    /// As [`Trainer::load`]; or where the file has weights alone.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let Read { values, progress, history, .. } = read(path)?;
        let progress = progress.as_deref().and_then(<[i64]>::first_chunk::<7>);
        let Some(&[epoch, seen, step, seed, rate, samples, batch]) = progress else {
            let what = "it has weights alone, and does not say how far training was; training can begin with them (`--weights`)";
            return Err(Error::Weights(weights::error(path, what)));
        };
        self.running.clear();
        (self.epoch, self.seen) = (epoch.max(0) as usize, seen.max(0) as usize);
        (self.step, self.seed) = (step.max(0) as u64, seed as u64);
        self.rate = f64::from_bits(rate as u64);
        self.begun = (samples.max(0) as usize, batch.max(0) as usize);
        let history = history.and_then(|history| read_history(history.bytes()));
        self.history = history.ok_or_else(|| Error::Weights(weights::error(path, "its history is damaged")))?;
        self.steps.load(path, values, true, None)
    }
}

/// What a file has.
struct Read {
    values: HashMap<String, Tensor>,
    /// The numbers of [`PROGRESS`].
    progress: Option<Vec<i64>>,
    /// [`HISTORY`]
    history: Option<Tensor>,
    titles: Option<Titles>,
}

fn read(path: &Path) -> Result<Read, Error> {
    let mut file = WeightsFile::open(path).map_err(Error::Weights)?;
    let mut values = HashMap::new();
    for number in 0..file.tensors().len() {
        let tensor = file.read(number).map_err(Error::Weights)?;
        values.insert(file.tensors()[number].0.clone(), tensor);
    }
    let (progress, history) = (values.remove(PROGRESS), values.remove(HISTORY));
    let progress = progress.map(|tensor| tensor.scalars().map(Scalar::to_i64).collect());
    Ok(Read { values, progress, history, titles: file.titles().cloned() })
}

/// `[[[["loss", "0.5"]], [["loss", "0.6"]]]]`: for each epoch the results of training and of the validation.
fn written(history: &[Epoch]) -> String {
    let one = |(name, reading): &(String, Reading)| match reading {
        Reading::Number(value) => json!([name, value.to_string()]),
        Reading::List(values) => json!([name, values.iter().map(f64::to_string).collect::<Vec<_>>()]),
    };
    let all = |results: &[(String, Reading)]| results.iter().map(one).collect::<Vec<_>>();
    let epochs = history.iter().map(|epoch| json!([all(&epoch.training), all(&epoch.validation)]));
    Value::Array(epochs.collect()).to_string()
}

fn read_history(text: &[u8]) -> Option<Vec<Epoch>> {
    let number = |value: &Value| value.as_str()?.parse::<f64>().ok();
    let reading = |value: &Value| match value.as_array() {
        None => number(value).map(Reading::Number),
        Some(values) => values.iter().map(number).collect::<Option<_>>().map(Reading::List),
    };
    let results = |value: &Value| -> Option<Vec<(String, Reading)>> {
        value.as_array()?.iter().map(|one| Some((one.get(0)?.as_str()?.to_owned(), reading(one.get(1)?)?))).collect()
    };
    let epochs: Value = serde_json::from_slice(text).ok()?;
    let epoch = |(epoch, value): (usize, &Value)| {
        let (training, validation) = (results(value.get(0)?)?, results(value.get(1)?)?);
        Some(Epoch { epoch, training, validation, seconds: 0.0 })
    };
    epochs.as_array()?.iter().enumerate().map(epoch).collect()
}
