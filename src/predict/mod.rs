//! `tilec predict FILE INPUT…`: prints a model's outputs for each picture, row of an array, or row
//! of a table. For a classifier it prints the most probable classes.

mod batches;
mod samples;

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::json;
use tile_runtime::Error;
use tile_runtime::data::imagenet_classes;
use tile_runtime::data::picture::Pixels;
use tile_runtime::train::{
    DataDescription, Scores, most_probable, saved_classes, saved_description,
};

use crate::arguments::{Sizes, pixels};
use crate::devices::DeviceOptions;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, escaped, print};
use crate::weights::{WeightsOptions, pixels_as_trained};
use batches::Predictor;
use samples::{Sample, Signature};

#[derive(clap::Args)]
pub struct Predict {
    /// A Tile or ONNX file
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
    let (source, sizes) = Source::load_trained(&arguments.file, &arguments.sizes, terminal)?;
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
    let scores = Scores::of_model(&source.model, sizes.entry.as_deref());
    let program = source.model.program();
    let is_trained =
        program.entry(sizes.entry.as_deref()).is_ok_and(|entry| program.training(entry).is_some());
    let batch_size = signature.batch_size((arguments.batch_size as usize).min(samples.len()));
    let mut predictor = Predictor::new(arguments, &sizes, &source, device, signature, batch_size);
    for part in samples.chunks(batch_size) {
        let rows = predictor.run(part, terminal)?;
        let mut text = String::new();
        for (sample, outputs) in part.iter().zip(rows) {
            let Some(((_, row), others)) = outputs.split_first() else { continue };
            if labels.is_empty() && row.len() == IMAGENET_CLASSES && !predictor.is_map() {
                terminal.note("the 1,000 classes are taken for those of ImageNet: `--labels FILE` names others");
                labels = imagenet_classes();
            }
            let form = scores.or_else(|| sums_to_one(row).then_some(Scores::Probabilities));
            let is_classifier = !labels.is_empty() || arguments.top.is_some();
            if form.is_none() && arguments.top.is_some() && labels.is_empty() && is_trained {
                return Err(Failure::input(
                    "`--top` shows classes, and the model's loss is none of classes; `--labels FILE` names them",
                ));
            }
            let form =
                form.or(is_classifier.then_some(Scores::Logits)).filter(|_| !predictor.is_map());
            let line = match form {
                Some(form) => classes(arguments, &labels, sample, &form.probabilities(row), others),
                None => values(arguments, sample, &outputs),
            };
            let _ = writeln!(text, "{line}");
        }
        print(text.as_bytes())?;
    }
    Ok(())
}

/// Returns whether scores must be the probabilities of several classes: non-negative, with sum 1.
fn sums_to_one(scores: &[f64]) -> bool {
    scores.len() > 1
        && scores.iter().all(|score| *score >= 0.0)
        && (scores.iter().sum::<f64>() - 1.0).abs() < 1e-3
}

fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::reading(path, &error))?;
    Ok(text.trim_start_matches('\u{feff}').lines().map(|line| line.trim().to_owned()).collect())
}

/// Formats `cat.png  tabby 0.7123, tiger cat 0.1214`, followed by the outputs after that of the
/// classes, or the same as JSON.
fn classes(
    arguments: &Predict,
    labels: &[String],
    sample: &Sample,
    probabilities: &[f64],
    others: &[(Rc<str>, Vec<f64>)],
) -> String {
    let label = |class: usize| match labels.get(class) {
        Some(label) => label.clone(),
        None => class.to_string(),
    };
    let best = most_probable(probabilities, arguments.top.map_or(1, NonZeroUsize::get));
    if arguments.json {
        let classes: Vec<serde_json::Value> = best
            .into_iter()
            .map(|(class, score)| json!({ "label": label(class), "index": class, "score": score }))
            .collect();
        let mut line = json!({ "input": sample.name, "classes": classes });
        if !others.is_empty() {
            line["outputs"] = by_name(others);
        }
        return line.to_string();
    }
    let classes: Vec<String> =
        best.iter().map(|(class, score)| format!("{} {score:.4}", label(*class))).collect();
    in_one_line(&format!("{}  {}", sample.name, classes.join(", "))) + &named(others)
}

/// Returns an object with the values of outputs by their names.
fn by_name(outputs: &[(Rc<str>, Vec<f64>)]) -> serde_json::Value {
    outputs.iter().map(|(name, values)| (name.to_string(), json!(values))).collect()
}

/// Formats `  Boxes 0.1 0.5  Score 0.25`.
fn named(outputs: &[(Rc<str>, Vec<f64>)]) -> String {
    outputs.iter().map(|(name, values)| format!("  {name} {}", numbers(values))).collect()
}

fn numbers(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.6}")).collect::<Vec<_>>().join(" ")
}

/// Escapes control characters, ends of lines included: names of files and classes may have some.
fn in_one_line(text: &str) -> String {
    escaped(text, false).replace('\n', "\\n").replace('\t', "\\t")
}

/// Formats `points.csv[0]  0.25 1.5`, with their names if there are several outputs, or the same as
/// JSON.
fn values(arguments: &Predict, sample: &Sample, outputs: &[(Rc<str>, Vec<f64>)]) -> String {
    match outputs {
        [(_, values)] if arguments.json => {
            json!({ "input": sample.name, "values": values }).to_string()
        }
        _ if arguments.json => {
            json!({ "input": sample.name, "outputs": by_name(outputs) }).to_string()
        }
        [(_, values)] => format!("{}  {}", in_one_line(&sample.name), numbers(values)),
        _ => in_one_line(&sample.name) + &named(outputs),
    }
}
