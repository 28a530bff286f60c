//! A description of the samples that a model was trained on, which is saved with its weights, so
//! that later samples are read in the same way.

use std::path::Path;

use serde_json::{Value, json};

use super::checkpoint::saved_entry;
use super::trainer::Trainer;
use crate::error::Error;

/// The form of the samples of a training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataDescription {
    /// The name of the scale of pixel values, if there are pictures.
    pub pictures: Option<String>,
    /// The columns of a table.
    pub columns: TableColumns,
    /// The number of samples, including those for validation. 0 if it is unknown.
    pub samples: usize,
    /// The fraction of the samples that is left out for validation.
    pub validation: Option<f64>,
}

/// The columns of a table that a model is trained on, by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableColumns {
    /// The columns that are the input, in order. Empty if they are unknown, or two have one name.
    pub inputs: Vec<String>,
    /// The column that is the target, if it is known.
    pub target: Option<String>,
}

impl DataDescription {
    /// Returns the differences from the data of the run that this one resumes, as sentences.
    pub fn changes_from(&self, before: &DataDescription) -> Vec<String> {
        if before.samples == 0 {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if self.samples != before.samples {
            changes.push(format!(
                "the run had {} samples before, and has {} now",
                before.samples, self.samples
            ));
        }
        if self.validation != before.validation {
            let [before, now] = [before.validation, self.validation]
                .map(|fraction| fraction.map_or("nothing".to_owned(), |f| f.to_string()));
            changes.push(format!(
                "the run kept back {before} of its samples for validation before, and keeps back {now} now: samples to validate may have been trained on"
            ));
        }
        changes
    }

    pub(super) fn to_json(&self) -> Value {
        let DataDescription { pictures, columns, samples, validation } = self;
        let TableColumns { inputs, target } = columns;
        json!({
            "pictures": pictures,
            "columns": inputs,
            "target": target,
            "samples": samples,
            "validation": validation,
        })
    }

    /// Reads JSON. Parts that are missing or of another form have their defaults.
    pub(super) fn of_json(text: &[u8]) -> DataDescription {
        let value: Value = serde_json::from_slice(text).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let inputs = value["columns"].as_array().into_iter().flatten();
        let columns = TableColumns {
            inputs: inputs.filter_map(text).collect(),
            target: text(&value["target"]),
        };
        DataDescription {
            pictures: text(&value["pictures"]),
            columns,
            samples: value["samples"].as_u64().map_or(0, |samples| samples as usize),
            validation: value["validation"].as_f64(),
        }
    }
}

/// The entry with the description, JSON as u8[bytes].
pub(super) const DATA: &str = "train.Data";

/// Returns the description in a file of weights that [`Trainer::save`] wrote. It is empty if the
/// file has none.
///
/// # Errors
/// [`Error::Weights`] if the file cannot be read.
pub fn saved_description(path: impl AsRef<Path>) -> Result<DataDescription, Error> {
    let entry = saved_entry(path.as_ref(), DATA)?;
    Ok(entry.map(|entry| DataDescription::of_json(entry.bytes())).unwrap_or_default())
}

impl Trainer {
    /// Returns the description of the data: that of the loaded file, or the one that was set.
    pub fn data_description(&self) -> &DataDescription {
        &self.data
    }

    /// Describes the data, so that [`Trainer::save`] writes the description.
    pub fn describe_data(&mut self, data: DataDescription) {
        self.data = data;
    }
}
