//! `tilec predict FILE INPUT…`: prints a model's outputs for each picture, row of an array, or row
//! of a table. For a classifier it prints the most probable classes.

mod batches;
mod samples;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use serde_json::json;
use tile_runtime::Error;
use tile_runtime::data::imagenet_classes;
use tile_runtime::data::picture::Pixels;
use tile_runtime::train::{
    DataDescription, Scores, most_probable, saved_classes, saved_description,
};

use crate::arguments::{Sizes, pixels};
use crate::devices::DeviceOptions;
use crate::source::{Source, is_pack};
use crate::terminal::{Failure, Terminal, escaped, print};
use crate::weights::{WeightsOptions, pixels_as_trained};
use batches::{Predictor, Row, Values};
use samples::{Sample, Signature};

#[derive(clap::Args)]
pub struct Predict {
    /// A Tile file, an ONNX file or a pack
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Pictures, folders of pictures, arrays (.npy) whose first axis counts samples, tables (.csv),
    /// or, for models with several inputs, arrays by the names of the inputs (an .npz file, or a
    /// folder of .npy files)
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    weights: WeightsOptions,
    /// Show this many of the most probable classes
    #[arg(long, value_name = "K")]
    top: Option<NonZeroUsize>,
    /// The names of the classes, one a line [default: those that were saved with the weights, or
    /// ImageNet's for 1,000 classes]
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// The scale of a picture's pixel values, as for `run` [default: that of the training, which is
    /// saved with the weights, or raw]
    #[arg(long, value_name = "VALUES", value_parser = pixels)]
    pictures: Option<Pixels>,
    /// Samples that run together, unless the model declares their number
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    #[command(flatten)]
    device: DeviceOptions,
    /// Print a JSON object for each sample
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sizes: Sizes,
}

/// The number of classes for which ImageNet's names are assumed.
const IMAGENET_CLASSES: usize = 1000;

pub fn predict(arguments: &Predict, terminal: &Terminal) -> Result<(), Failure> {
    let (source, sizes) = match is_pack(&arguments.file) {
        true => (Source::load_packed(&arguments.file, None, terminal)?, arguments.sizes.clone()),
        false => Source::load_trained(&arguments.file, &arguments.sizes, terminal)?,
    };
    let failed = |error: Error| source.failed(&error);
    let device = arguments.device.open(terminal).map_err(failed)?;
    let mut labels = match (&arguments.labels, arguments.weights.whole()) {
        (Some(path), _) => read_labels(path)?,
        (None, Some(weights)) => saved_classes(weights).map_err(failed)?,
        (None, None) => Vec::new(),
    };
    let trained = match arguments.weights.whole() {
        Some(weights) => saved_description(weights).map_err(failed)?,
        None => DataDescription::default(),
    };
    let pixels = pixels_as_trained(arguments.pictures, &trained, terminal);
    let signature = Signature::of(&sizes, &source)?;
    let samples = samples::read(arguments, &signature, pixels, &trained.columns.inputs, terminal)?;
    let forms = match source.model.pack() {
        Some(pack) => pack.index().scores.clone(),
        None => Scores::of_outputs(&source.model, sizes.entry.as_deref()),
    };
    let batch_size = signature.batch_size((arguments.batch_size as usize).min(samples.len()));
    let mut predictor = Predictor::new(arguments, &sizes, &source, device, signature, batch_size);
    let mut shown = None;
    for part in samples.chunks(batch_size) {
        let rows = predictor.run(part, terminal)?;
        let shown = match &shown {
            Some(shown) => shown,
            None => {
                let labels = std::mem::take(&mut labels);
                shown.insert(Shown::new(&rows, &forms, labels, arguments, terminal)?)
            }
        };
        let lines = part.iter().zip(&rows).map(|(sample, row)| shown.line(arguments, sample, row));
        print(lines.collect::<String>().as_bytes())?;
    }
    Ok(())
}

/// One of the most probable classes of a sample.
struct Class {
    label: String,
    index: usize,
    score: f64,
}

/// The form in which results are printed.
struct Shown {
    /// The forms of the outputs that have the scores of classes, by their numbers.
    forms: BTreeMap<usize, Scores>,
    /// The names of the classes, for the outputs with as many.
    labels: Vec<String>,
}

impl Shown {
    /// Decides the form by the first rows. Outputs are shown as classes if their loss is a
    /// cross-entropy. If there is none, the first output is, if all its rows must be probabilities
    /// or the user asks for classes.
    fn new(
        rows: &[Row],
        of_losses: &[Option<Scores>],
        labels: Vec<String>,
        arguments: &Predict,
        terminal: &Terminal,
    ) -> Result<Shown, Failure> {
        let mut shown = Shown { forms: BTreeMap::new(), labels };
        let Some(row) = rows.first() else { return Ok(shown) };
        let known = |output: &Values| {
            Some((output.number, of_losses.get(output.number).copied().flatten()?))
        };
        shown.forms = row.iter().filter(|output| !output.is_map).filter_map(known).collect();
        if let Some(first) = row.first().filter(|first| !first.is_map && shown.forms.is_empty()) {
            if shown.labels.is_empty() && first.values.len() == IMAGENET_CLASSES {
                terminal.note("the 1,000 classes are taken for those of ImageNet: `--labels FILE` names others");
                shown.labels = imagenet_classes();
            }
            let is_classifier = !shown.labels.is_empty() || arguments.top.is_some();
            // A sample that is NaN says nothing.
            let known = |row: &&Row| !row[0].values.iter().any(|score| score.is_nan());
            if rows.iter().filter(known).all(|row| sums_to_one(&row[0].values)) {
                shown.forms.insert(first.number, Scores::Probabilities);
            } else if is_classifier {
                if !of_losses.is_empty() {
                    let what =
                        "is taken for logits of classes, though its loss is no cross-entropy";
                    terminal.note(&format!("`{}` {what}", first.name));
                }
                shown.forms.insert(first.number, Scores::Logits);
            }
        }
        shown.check_labels(row, arguments)?;
        Ok(shown)
    }

    /// Checks that the file of `--labels` has a name for each class of an output.
    fn check_labels(&self, row: &Row, arguments: &Predict) -> Result<(), Failure> {
        let Some(path) = &arguments.labels else { return Ok(()) };
        let mut counts = row.iter().filter_map(|output| Some(self.probabilities(output)?.len()));
        let Some(first) = counts.clone().next() else {
            return Err(Failure::input(
                "`--labels` names classes, and no output is a list of them",
            ));
        };
        match counts.any(|count| count == self.labels.len()) {
            true => Ok(()),
            false => Err(Failure::input(format!(
                "{}: expected the names of {first} classes, found {}",
                path.display(),
                self.labels.len()
            ))),
        }
    }

    /// Returns the probabilities of an output that has the scores of classes.
    fn probabilities(&self, output: &Values) -> Option<Vec<f64>> {
        let form = self.forms.get(&output.number)?;
        Some(form.probabilities(&output.values))
    }

    /// Formats `points.csv[0]  0.25 1.5`, or `cat.png  tabby 0.7123, tiger cat 0.1214`, or the same
    /// as JSON. Several outputs have their names: `boxes.csv[0]  Box 0.1 0.5  Kind cat 0.7123`.
    fn line(&self, arguments: &Predict, sample: &Sample, row: &Row) -> String {
        let best = |output: &Values| -> Option<Vec<Class>> {
            let probabilities = self.probabilities(output)?;
            let best = most_probable(&probabilities, arguments.top.map_or(1, NonZeroUsize::get));
            let label = |class: usize| {
                let label =
                    self.labels.get(class).filter(|_| self.has_names(arguments, &probabilities));
                label.cloned().unwrap_or_else(|| class.to_string())
            };
            let class = |(index, score)| Class { label: label(index), index, score };
            Some(best.into_iter().map(class).collect())
        };
        if arguments.json {
            return format!("{}\n", json_line(sample, row, &best));
        }
        let part = |output: &Values| {
            let values = match best(output) {
                Some(best) => {
                    let named = |class: Class| format!("{} {:.4}", class.label, class.score);
                    best.into_iter().map(named).collect::<Vec<_>>().join(", ")
                }
                None => {
                    let decimals = if output.is_float { 6 } else { 0 };
                    let numbers = output.values.iter().map(|value| format!("{value:.decimals$}"));
                    numbers.collect::<Vec<_>>().join(" ")
                }
            };
            match row.len() {
                1 => format!("  {values}"),
                _ => format!("  {} {values}", output.name),
            }
        };
        let parts: String = row.iter().map(part).collect();
        in_one_line(&format!("{}{parts}", sample.name)) + "\n"
    }

    /// Returns whether the labels are those of an output with these probabilities: one for each.
    /// The classes of training may be the first ones.
    fn has_names(&self, arguments: &Predict, probabilities: &[f64]) -> bool {
        let (labels, classes) = (self.labels.len(), probabilities.len());
        labels == classes || (arguments.labels.is_none() && labels < classes)
    }
}

/// Returns `{"input": …, "values": […]}` or `{"input": …, "classes": […]}`, and for several outputs
/// `{"input": …, "outputs": {"Box": […], "Kind": {"classes": […]}}}`.
fn json_line(
    sample: &Sample,
    row: &Row,
    best: &dyn Fn(&Values) -> Option<Vec<Class>>,
) -> serde_json::Value {
    let classes = |best: Vec<Class>| -> serde_json::Value {
        let class = |Class { label, index, score }| json!({ "label": label, "index": index, "score": score });
        best.into_iter().map(class).collect()
    };
    if let [output] = &row[..] {
        return match best(output) {
            Some(best) => json!({ "input": sample.name, "classes": classes(best) }),
            None => json!({ "input": sample.name, "values": output.values }),
        };
    }
    let value = |output: &Values| match best(output) {
        Some(best) => json!({ "classes": classes(best) }),
        None => json!(output.values),
    };
    let outputs: serde_json::Map<String, serde_json::Value> =
        row.iter().map(|output| (output.name.to_string(), value(output))).collect();
    json!({ "input": sample.name, "outputs": outputs })
}

/// Returns whether scores must be the probabilities of several classes: non-negative, with sum 1.
fn sums_to_one(scores: &[f64]) -> bool {
    scores.len() > 1
        && scores.iter().all(|score| *score >= 0.0)
        && (scores.iter().sum::<f64>() - 1.0).abs() < 1e-3
}

fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::reading(path, &error))?;
    let text = text.trim_start_matches('\u{feff}').trim_end();
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

/// Escapes control characters, ends of lines included: names of files and classes may have some.
fn in_one_line(text: &str) -> String {
    escaped(text, false).replace('\n', "\\n").replace('\t', "\\t")
}
