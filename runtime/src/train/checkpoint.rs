//! Files of weights with the state to resume a run: the optimizer's weights and the progress of
//! training.

use std::path::Path;

use serde_json::{Value, json};
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::lower::{Role, Weight};
use tile_compiler::tensor::{Tensor, TensorType};

use super::description::{DATA, DataDescription};
use super::fit::Epoch;
use super::reading::Reading;
use super::steps::{Loaded, LoadedFile};
use super::trainer::Trainer;
use crate::error::Error;
use crate::weights::{self, Entries, LoadOptions, LoadReport, WeightsFile, WeightsSource};

/// The entry with the progress of training, an i64[7]:
///
/// - the epochs made,
/// - the samples of the next epoch seen,
/// - the steps made,
/// - the seed,
/// - the bits of the learning rate's factor, an f64,
/// - the samples of an epoch,
/// - the samples of a batch.
const PROGRESS: &str = "train.Progress";

/// The entry with the results of the epochs, JSON as u8[bytes]. Numbers are strings, because JSON
/// has no NaN. The epochs' times are left out, so that the same training gives the same file.
const HISTORY: &str = "train.History";

/// The entry with the names of the classes, JSON as u8[bytes].
const CLASSES: &str = "train.Classes";

/// Returns the names of the classes in a file of weights that [`Trainer::save`] wrote, or an empty
/// list if the file has none.
///
/// # Errors
/// [`Error::Weights`] if the file cannot be read.
pub fn saved_classes(path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
    let path = path.as_ref();
    read_classes(path, saved_entry(path, CLASSES)?.as_ref())
}

/// Returns an entry of a file of weights, if it has the entry.
pub(super) fn saved_entry(path: &Path, name: &str) -> Result<Option<Tensor>, Error> {
    let mut file = WeightsFile::open(path).map_err(Error::Weights)?;
    let number = file.tensors().iter().position(|(entry, _)| entry == name);
    number.map(|number| file.read(number).map_err(Error::Weights)).transpose()
}

impl Trainer {
    /// Writes the model's weights to a .safetensors or .npz file, with the names of the classes and
    /// the description of the data, and after training also the optimizer's weights and the
    /// progress. [`crate::Session::load`] reads the model's weights from it.
    ///
    /// To a .weights.h5 file it writes the model's weights alone, as Keras does for a model of the
    /// same layers in the same order.
    ///
    /// # Errors
    /// [`Error::Weights`] if the file cannot be written, or as [`Trainer::check_save`].
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.wait()?;
        if weights::is_of_keras(path.as_ref()) {
            return self.save_for_keras(path.as_ref());
        }
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        // Within an epoch, the counts of the metrics are saved, too.
        let is_saved = |weight: &&&Weight| weight.role != Role::Metric || self.seen > 0;
        for weight in self.steps.weights().iter().filter(is_saved) {
            tensors
                .extend(self.steps.value(&weight.path)?.map(|value| (weight.path.clone(), value)));
        }
        // Loaded values that no step has taken are kept.
        tensors.extend(self.steps.waiting());
        let [epoch, seen] = [self.epoch, self.seen].map(|count| count as i64);
        let (samples, batch) = (self.begun.0 as i64, self.begun.1 as i64);
        let numbers = [
            epoch,
            seen,
            self.step as i64,
            self.seed as i64,
            self.rate.to_bits() as i64,
            samples,
            batch,
        ];
        let ty = TensorType::new(DType::I64, [numbers.len()]);
        let numbers = numbers.map(|number| Scalar::from_i64(DType::I64, number));
        if let Some(progress) = Tensor::from_scalars(ty, numbers).filter(|_| self.step > 0) {
            tensors.push((PROGRESS.to_owned(), progress));
            tensors.extend(json_entry(HISTORY, written(&self.history)));
        }
        if !self.classes.is_empty() {
            tensors.extend(json_entry(CLASSES, json!(self.classes)));
        }
        if self.data != DataDescription::default() {
            tensors.extend(json_entry(DATA, self.data.to_json()));
        }
        weights::write(path.as_ref(), &tensors)
    }

    fn save_for_keras(&mut self, path: &Path) -> Result<(), Error> {
        self.check_save(path)?;
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        for weight in self.steps.weights().iter().filter(|weight| weight.role == Role::Model) {
            tensors
                .extend(self.steps.value(&weight.path)?.map(|value| (weight.path.clone(), value)));
        }
        weights::write_model(path, &self.steps.layers, tensors)
    }

    /// Checks that [`Trainer::save`] can write a file of this name, as soon as the model is
    /// compiled.
    ///
    /// # Errors
    /// [`Error::Weights`] for a name with another ending, and for a file of Keras if several models
    /// are trained, or Keras lacks the layer of a weight.
    pub fn check_save(&self, path: &Path) -> Result<(), Error> {
        let all = self.steps.weights();
        let in_turn = self.in_turn();
        if weights::is_of_keras(path) && (in_turn.len() > 1 || all.is_empty()) {
            let what = if all.is_empty() {
                "the model is not compiled before the first step; help: save to .safetensors"
            } else {
                "several models are trained, and a file of Keras has one; help: save to .safetensors"
            };
            return Err(Error::Weights(weights::error(path, what)));
        }
        let of_model = all.iter().filter(|weight| weight.role == Role::Model);
        let of_model = of_model.map(|weight| (weight.path.as_str(), &*weight.ty.shape));
        weights::check_model(path, &self.steps.layers, of_model)
    }

    /// Loads the model's weights from a file. The optimizer starts afresh.
    ///
    /// # Errors
    /// [`Error::Weights`] if the file cannot be read. Missing or wrong weights are found when the
    /// model is compiled, with the first batch.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.load_with(&LoadOptions::file(path.as_ref()))
    }

    /// Loads the model's weights from several files, from parts of files or into parts of the
    /// model. Weights in no target, and with [`LoadOptions::partial`] those that the files lack,
    /// are initialised.
    ///
    /// # Errors
    /// As [`Trainer::load`].
    pub fn load_with(&mut self, options: &LoadOptions) -> Result<(), Error> {
        let mut files = Vec::with_capacity(options.sources.len());
        self.classes.clear();
        self.data = DataDescription::default();
        for source in &options.sources {
            let Read { mut file, classes, data, .. } = read(source)?;
            if source.target.is_none() && source.part.is_none() {
                (self.classes, self.data) = (classes, data);
            }
            file.remove_all(|name| name.starts_with("train."));
            files.push(file);
        }
        self.running.clear();
        self.adapted = true;
        self.steps.load(Loaded { files, options: options.clone(), all: false })
    }

    /// Returns the entries and weights without a counterpart in the loaded files, once the model is
    /// compiled.
    pub fn load_report(&self) -> &LoadReport {
        &self.steps.report
    }

    /// Resumes the run that wrote the file, as if it had never stopped.
    ///
    /// # Errors
    /// The errors of [`Trainer::load`], or if the file has weights only.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let options = LoadOptions::file(path);
        let Read { file, progress, history, classes, data } = read(&WeightsSource::new(path))?;
        let progress = progress.as_deref().and_then(<[i64]>::first_chunk::<7>);
        let Some(&[epoch, seen, step, seed, rate, samples, batch]) = progress else {
            let what = "it has weights alone, and does not say how far training was; training can begin with them (`--weights`)";
            return Err(Error::Weights(weights::error(path, what)));
        };
        (self.classes, self.data) = (classes, data);
        self.running.clear();
        self.adapted = true;
        (self.epoch, self.seen) = (epoch.max(0) as usize, seen.max(0) as usize);
        (self.step, self.seed) = (step.max(0) as u64, seed as u64);
        self.rate = f64::from_bits(rate as u64);
        self.begun = (samples.max(0) as usize, batch.max(0) as usize);
        let history = history.and_then(|history| read_history(history.bytes()));
        self.history = history
            .ok_or_else(|| Error::Weights(weights::error(path, "its history is damaged")))?;
        self.steps.load(Loaded { files: vec![file], options, all: true })
    }
}

/// The content of a file.
struct Read {
    file: LoadedFile,
    /// The numbers of [`PROGRESS`].
    progress: Option<Vec<i64>>,
    /// [`HISTORY`]
    history: Option<Tensor>,
    /// The names of [`CLASSES`].
    classes: Vec<String>,
    data: DataDescription,
}

fn read(source: &WeightsSource) -> Result<Read, Error> {
    let mut opened = WeightsFile::open(&source.file).map_err(Error::Weights)?;
    let entries = Entries::of(source, &opened);
    let mut values = Vec::with_capacity(entries.tensors.len());
    for number in 0..entries.tensors.len() {
        values.push(Some(opened.read(number).map_err(Error::Weights)?));
    }
    let mut file = LoadedFile { entries, values };
    let (progress, history) = (file.remove(PROGRESS), file.remove(HISTORY));
    let progress = progress.map(|tensor| tensor.scalars().map(Scalar::to_i64).collect());
    let classes = read_classes(&source.file, file.remove(CLASSES).as_ref())?;
    let data = file.remove(DATA);
    let data = data.map(|data| DataDescription::of_json(data.bytes())).unwrap_or_default();
    Ok(Read { file, progress, history, classes, data })
}

impl LoadedFile {
    /// Removes an entry, and returns its value.
    fn remove(&mut self, name: &str) -> Option<Tensor> {
        let number = self.entries.tensors.iter().position(|(entry, _)| entry == name)?;
        self.entries.tensors.remove(number);
        self.values.remove(number)
    }

    /// Removes all entries whose name meets the condition.
    fn remove_all(&mut self, is_removed: impl Fn(&str) -> bool) {
        let mut kept = self
            .entries
            .tensors
            .iter()
            .map(|(name, _)| !is_removed(name))
            .collect::<Vec<_>>()
            .into_iter();
        self.values.retain(|_| kept.next().unwrap_or(true));
        self.entries.tensors.retain(|(name, _)| !is_removed(name));
    }
}

/// Parses the entry [`CLASSES`] of a file.
fn read_classes(path: &Path, entry: Option<&Tensor>) -> Result<Vec<String>, Error> {
    let Some(entry) = entry else { return Ok(Vec::new()) };
    let damaged = |_| Error::Weights(weights::error(path, "the names of its classes are damaged"));
    serde_json::from_slice(entry.bytes()).map_err(damaged)
}

/// Returns an entry with a JSON text as u8[bytes].
fn json_entry(name: &str, value: Value) -> Option<(String, Tensor)> {
    let text = value.to_string().into_bytes();
    let ty = TensorType::new(DType::U8, [text.len()]);
    Some((name.to_owned(), Tensor::from_bytes(ty, text)?))
}

/// Makes `[[[["loss", "0.5"]], [["loss", "0.6"]]]]`: for each epoch the results of training and
/// of validation.
fn written(history: &[Epoch]) -> Value {
    let one = |(name, reading): &(String, Reading)| match reading {
        Reading::Number(value) => json!([name, value.to_string()]),
        Reading::List(values) => {
            json!([name, values.iter().map(f64::to_string).collect::<Vec<_>>()])
        }
    };
    let all = |results: &[(String, Reading)]| results.iter().map(one).collect::<Vec<_>>();
    let epochs = history.iter().map(|epoch| json!([all(&epoch.training), all(&epoch.validation)]));
    Value::Array(epochs.collect())
}

fn read_history(text: &[u8]) -> Option<Vec<Epoch>> {
    let number = |value: &Value| value.as_str()?.parse::<f64>().ok();
    let reading = |value: &Value| match value.as_array() {
        None => number(value).map(Reading::Number),
        Some(values) => values.iter().map(number).collect::<Option<_>>().map(Reading::List),
    };
    let results = |value: &Value| -> Option<Vec<(String, Reading)>> {
        value
            .as_array()?
            .iter()
            .map(|one| Some((one.get(0)?.as_str()?.to_owned(), reading(one.get(1)?)?)))
            .collect()
    };
    let epochs: Value = serde_json::from_slice(text).ok()?;
    let epoch = |(epoch, value): (usize, &Value)| {
        let (training, validation) = (results(value.get(0)?)?, results(value.get(1)?)?);
        Some(Epoch { epoch, training, validation, seconds: 0.0 })
    };
    epochs.as_array()?.iter().enumerate().map(epoch).collect()
}
