//! `tilec predict FILE INPUT…`: prints a model's outputs for each picture, row of an array, or row
//! of a table. For a classifier it prints the most probable classes.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::json;
use tile_lang::listed;
use tile_runtime::data::picture::{self, Pixels, is_picture};
use tile_runtime::data::{folder, imagenet_classes, npy, table};
use tile_runtime::train::{Scores, as_model_takes, most_probable, saved_classes};
use tile_runtime::{DType, Declared, Device, Error, Session, Tensor, TensorType};

use crate::arguments::{Sizes, pixels};
use crate::devices::DeviceOptions;
use crate::placement;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, print};
use crate::weights::WeightsOptions;

#[derive(clap::Args)]
pub struct Predict {
    /// A Tile or ONNX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Pictures, folders of pictures, arrays (.npy) whose first axis counts samples, or tables
    /// (.csv)
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    weights: WeightsOptions,
    /// Show this many of the most probable classes
    #[arg(long, value_name = "K")]
    top: Option<usize>,
    /// The names of the classes, one a line [default: those that were saved with the weights, or
    /// ImageNet's for 1,000 classes]
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// The scale of a picture's pixel values, as for `run`
    #[arg(long, value_name = "VALUES", value_parser = pixels, default_value = "raw")]
    pictures: Pixels,
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

/// One input of the model, with its name in the results.
struct Sample {
    name: String,
    content: Content,
}

enum Content {
    Picture(PathBuf),
    /// A row of an array: the array's first axis counts samples.
    Row(Rc<Tensor>, usize),
}

pub fn predict(arguments: &Predict, terminal: &Terminal) -> Result<(), Failure> {
    let (source, sizes) = Source::load_trained(&arguments.file, &arguments.sizes, terminal)?;
    let failed = |error: Error| source.failed(&error);
    let device = arguments.device.open(terminal).map_err(failed)?;
    let mut labels = match (&arguments.labels, arguments.weights.whole()) {
        (Some(path), _) => read_labels(path)?,
        (None, Some(weights)) => saved_classes(weights).map_err(failed)?,
        (None, None) => Vec::new(),
    };
    let (input, declared) = only_input(&sizes, &source)?;
    let samples = read_samples(arguments, &declared)?;
    let scores = Scores::of_model(&source.model, sizes.entry.as_deref());
    let batch_size = batch_size(&declared, (arguments.batch_size as usize).min(samples.len()));
    let mut predictor = Predictor {
        arguments,
        sizes: &sizes,
        source: &source,
        device,
        input,
        declared,
        batch_size,
        compiled: None,
        is_map: false,
    };
    for part in samples.chunks(batch_size) {
        let rows = predictor.run(part, terminal)?;
        let mut text = String::new();
        for (sample, row) in part.iter().zip(rows) {
            if labels.is_empty() && row.len() == IMAGENET_CLASSES && !predictor.is_map {
                terminal.note("the 1,000 classes are taken for those of ImageNet: `--labels FILE` names others");
                labels = imagenet_classes();
            }
            let form = scores.or_else(|| sums_to_one(&row).then_some(Scores::Probabilities));
            let is_classifier = !labels.is_empty() || arguments.top.is_some();
            let form =
                form.or(is_classifier.then_some(Scores::Logits)).filter(|_| !predictor.is_map);
            let line = match form {
                Some(form) => classes(arguments, &labels, sample, &form.probabilities(&row)),
                None => values(arguments, sample, &row),
            };
            let _ = writeln!(text, "{line}");
        }
        print(text.as_bytes())?;
    }
    Ok(())
}

/// Returns the number of samples that run together: the model's, else `wanted`. Pictures of any
/// size run one by one.
fn batch_size(declared: &Declared, wanted: usize) -> usize {
    let size = match declared.sizes[0] {
        Some(size) => size,
        None if declared.sizes[1..].contains(&None) => 1,
        None => wanted,
    };
    size.max(1)
}

/// Returns whether scores must be the probabilities of several classes: non-negative, with sum 1.
fn sums_to_one(scores: &[f64]) -> bool {
    scores.len() > 1
        && scores.iter().all(|score| *score >= 0.0)
        && (scores.iter().sum::<f64>() - 1.0).abs() < 1e-3
}

/// Returns the one input of the model that has no default.
fn only_input(sizes: &Sizes, source: &Source) -> Result<(String, Declared), Failure> {
    let bindings = sizes.bindings();
    let entry = sizes.entry.as_deref();
    let names: Vec<String> = match source.model.is_onnx() {
        true => source.model.onnx_inputs().into_iter().map(str::to_owned).collect(),
        false => {
            let function =
                source.model.program().entry(entry).map_err(|error| source.rejected(&[error]))?;
            let open = function.inputs.iter().filter(|input| input.default.is_none());
            open.map(|input| input.name.name.clone()).collect()
        }
    };
    let [name] = &names[..] else {
        let names = listed(&names);
        return Err(Failure::input(format!(
            "`predict` is for models with one input, and this one has {}: use `run --input`",
            if names.is_empty() { "none".to_owned() } else { names }
        )));
    };
    match source.model.declared(entry, name, &bindings) {
        Some(declared) if !declared.sizes.is_empty() => Ok((name.clone(), declared)),
        _ => {
            let what = format!("`{name}` has no axis of samples");
            let help = format!(
                "declare it in the header, as in `{name}[N, 28, 28]`, or with `--shape {name}=1x28x28`"
            );
            Err(source.wrong_input(entry, name, "E0301", &what, &help))
        }
    }
}

fn read_labels(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::reading(path, &error))?;
    Ok(text.trim_start_matches('\u{feff}').lines().map(|line| line.trim().to_owned()).collect())
}

/// Lists the samples of all inputs, in order. Those of a folder are in the order of their names.
fn read_samples(arguments: &Predict, declared: &Declared) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    for path in &arguments.inputs {
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            _ if path.is_dir() => add_folder(path, &mut samples)?,
            _ if is_picture(path) => samples.push(picture_sample(path)),
            "npy" => add_array(path, read_array(path)?, declared, &mut samples)?,
            "csv" => {
                let width = declared.sizes.get(1).copied().flatten();
                let rows = table::read_inputs(path, width)
                    .map_err(|error| Failure::input(error.to_string()))?;
                add_array(path, rows, declared, &mut samples)?;
            }
            _ => {
                let what = "expected a picture (.png, .jpg), a folder of pictures, an array (.npy) or a table (.csv)";
                return Err(Failure::input(format!("{}: {what}", path.display())));
            }
        }
    }
    Ok(samples)
}

fn picture_sample(path: &Path) -> Sample {
    Sample { name: path.display().to_string(), content: Content::Picture(path.to_owned()) }
}

/// Adds the pictures of a folder and of the folders in it.
fn add_folder(path: &Path, samples: &mut Vec<Sample>) -> Result<(), Failure> {
    let before = samples.len();
    let mut open = vec![path.to_owned()];
    while let Some(folder) = open.pop() {
        let entries =
            folder::entries(&folder).map_err(|error| Failure::input(error.to_string()))?;
        samples.extend(
            entries.iter().filter(|path| is_picture(path)).map(|path| picture_sample(path)),
        );
        // Links to folders are not followed, because they may lead around in circles.
        open.extend(entries.into_iter().rev().filter(|path| path.is_dir() && !path.is_symlink()));
    }
    match samples.len() > before {
        true => Ok(()),
        false => Err(Failure::input(format!("{}: there are no pictures in it", path.display()))),
    }
}

fn read_array(path: &Path) -> Result<Tensor, Failure> {
    npy::open(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// Adds each sample of an array, or the array itself if it has no axis of samples.
fn add_array(
    path: &Path,
    array: Tensor,
    declared: &Declared,
    samples: &mut Vec<Sample>,
) -> Result<(), Failure> {
    let (rank, name) = (declared.sizes.len(), path.display().to_string());
    if array.shape().len() + 1 == rank {
        let array = reshaped(&[&[1], array.shape()].concat(), array)?;
        samples.push(Sample { name, content: Content::Row(Rc::new(array), 0) });
        return Ok(());
    }
    if array.shape().len() != rank {
        return Err(Failure::input(format!(
            "{name} is {}, and the model's input has {rank} axes",
            array.ty()
        )));
    }
    let array = Rc::new(array);
    samples.extend((0..array.shape()[0]).map(|row| {
        let content = Content::Row(Rc::clone(&array), row);
        Sample { name: format!("{name}[{row}]"), content }
    }));
    Ok(())
}

fn reshaped(shape: &[usize], tensor: Tensor) -> Result<Tensor, Failure> {
    let ty = TensorType::new(tensor.dtype(), shape);
    Tensor::from_bytes(ty, tensor.into_bytes())
        .ok_or_else(|| Failure::input("a sample is too large"))
}

/// A model, compiled for batches of one type with the first of them.
struct Predictor<'a> {
    arguments: &'a Predict,
    sizes: &'a Sizes,
    source: &'a Source<'a>,
    device: Device,
    input: String,
    declared: Declared,
    batch_size: usize,
    /// The session, and the type of the input's elements.
    compiled: Option<(Session, DType)>,
    /// Whether the output of a sample has several axes, and so is no list of classes, as in a
    /// segmentation.
    is_map: bool,
}

impl Predictor<'_> {
    /// Returns the elements of the first output for each sample. The last sample is repeated to
    /// fill a batch.
    fn run(&mut self, part: &[Sample], terminal: &Terminal) -> Result<Vec<Vec<f64>>, Failure> {
        let batch = self.batch(part)?;
        let is_new = match &self.compiled {
            Some((session, _)) => session.inputs().all(|(_, ty)| ty.shape != batch.shape()),
            None => true,
        };
        if is_new {
            self.compiled = Some(self.compile(&batch, terminal)?);
        }
        let failed = |error: Error| self.source.failed(&error);
        let (session, dtype) =
            self.compiled.as_mut().unwrap_or_else(|| unreachable!("it was compiled"));
        let batch = converted(batch, *dtype)?;
        let outputs = session.run([(&self.input, batch)]).map_err(failed)?;
        let mut outputs = outputs.iter();
        let (name, output) =
            outputs.next().ok_or_else(|| Failure::input("the model has no outputs"))?;
        let others: Vec<&str> = outputs.map(|(name, _)| name).collect();
        if !others.is_empty() {
            let others = listed(&others);
            terminal.note_once(&format!("only `{name}` is shown: `tilec run` also gives {others}"));
        }
        let length = self.batch_size;
        if output.shape().first() != Some(&length) {
            let ty = output.ty();
            return Err(Failure::input(format!(
                "the output `{name}` is {ty}, and has no axis of {length} samples"
            )));
        }
        self.is_map = output.shape()[1..].iter().filter(|size| **size > 1).count() > 1;
        let elements = output.ty().elements() / length;
        let values = output.to_f64s();
        Ok((0..part.len()).map(|number| values[number * elements..][..elements].to_vec()).collect())
    }

    /// Compiles the model for a batch, with the type that the model takes for it.
    fn compile(&self, batch: &Tensor, terminal: &Terminal) -> Result<(Session, DType), Failure> {
        let failed = |error: Error| self.source.failed(&error);
        let sizes = self.sizes;
        let mut given = BTreeMap::from([(self.input.clone(), batch.clone())]);
        let bindings = sizes.bindings();
        as_model_takes(&self.source.model, sizes.entry.as_deref(), &bindings, &mut given)
            .map_err(failed)?;
        let ty = given
            .remove(&self.input)
            .map_or_else(|| batch.ty().clone(), |tensor| tensor.ty().clone());
        let dtype = ty.dtype;
        let mut session = sizes
            .apply(self.source.model.on(&self.device))
            .input(&self.input, ty)
            .build()
            .map_err(failed)?;
        placement::detail(session.plan(), &self.device, terminal);
        let missing = self.arguments.weights.load(&mut session, 0, terminal).map_err(failed)?;
        if !missing.is_empty() && !self.source.model.is_onnx() {
            let what =
                "the model's weights have no values: give them with `--weights FILE`. They are";
            return Err(Failure::input(format!("{what} {}", listed(&missing))));
        }
        Ok((session, dtype))
    }

    /// Joins samples along a new first axis. The last one is repeated to fill the batch.
    fn batch(&self, part: &[Sample]) -> Result<Tensor, Failure> {
        let mut bytes = Vec::new();
        let mut first: Option<TensorType> = None;
        for sample in part {
            let ty = self.append(sample, &mut bytes)?;
            self.check_sizes(sample, &ty)?;
            let before = first.get_or_insert_with(|| ty.clone());
            if *before != ty {
                let name = &sample.name;
                return Err(Failure::input(format!(
                    "{name} is {ty}, and the samples before it are {before}"
                )));
            }
        }
        let ty = first.ok_or_else(|| Failure::input("there are no samples"))?;
        let last = bytes.len() - bytes.len() / part.len()..bytes.len();
        (part.len()..self.batch_size).for_each(|_| bytes.extend_from_within(last.clone()));
        let shape = [&[self.batch_size], &ty.shape[..]].concat();
        Tensor::from_bytes(TensorType::new(ty.dtype, shape), bytes)
            .ok_or_else(|| Failure::input("a batch is too large"))
    }

    /// Appends the elements of a sample, and returns its type.
    fn append(&self, sample: &Sample, bytes: &mut Vec<u8>) -> Result<TensorType, Failure> {
        let path = match &sample.content {
            Content::Picture(path) => path,
            Content::Row(array, row) => {
                let ty = TensorType::new(array.dtype(), &array.shape()[1..]);
                let length = ty.elements() * ty.dtype.size();
                bytes.extend_from_slice(&array.bytes()[row * length..][..length]);
                return Ok(ty);
            }
        };
        let mut declared = self.declared.clone();
        declared.sizes[0] = Some(1);
        let tensor = picture::read(path, &declared, self.arguments.pictures);
        let tensor = tensor.map_err(|error| Failure::input(error.to_string()))?;
        bytes.extend_from_slice(tensor.bytes());
        Ok(TensorType::new(tensor.dtype(), &tensor.shape()[1..]))
    }

    /// Checks that a sample has the sizes that the model declares.
    fn check_sizes(&self, sample: &Sample, ty: &TensorType) -> Result<(), Failure> {
        let wanted = &self.declared.sizes[1..];
        if wanted
            .iter()
            .zip(&ty.shape)
            .all(|(wanted, size)| wanted.is_none_or(|wanted| wanted == *size))
        {
            return Ok(());
        }
        let sizes =
            wanted.iter().map(|size| size.map_or("any".to_owned(), |size| size.to_string()));
        let sizes = sizes.collect::<Vec<_>>().join(", ");
        Err(Failure::input(format!(
            "{} is {ty}, and a sample has the sizes [{sizes}]",
            sample.name
        )))
    }
}

fn converted(tensor: Tensor, dtype: DType) -> Result<Tensor, Failure> {
    if tensor.dtype() == dtype {
        return Ok(tensor);
    }
    let ty = TensorType::new(dtype, tensor.shape());
    Tensor::from_scalars(ty, tensor.scalars()).ok_or_else(|| Failure::input("a batch is too large"))
}

/// Formats `cat.png  tabby 0.7123, tiger cat 0.1214`, or the same as JSON.
fn classes(
    arguments: &Predict,
    labels: &[String],
    sample: &Sample,
    probabilities: &[f64],
) -> String {
    let label = |class: usize| match labels.get(class) {
        Some(label) => label.clone(),
        None => class.to_string(),
    };
    let best = most_probable(probabilities, arguments.top.unwrap_or(1));
    if arguments.json {
        let classes: Vec<serde_json::Value> = best
            .into_iter()
            .map(|(class, score)| json!({ "label": label(class), "index": class, "score": score }))
            .collect();
        return json!({ "input": sample.name, "classes": classes }).to_string();
    }
    let classes: Vec<String> =
        best.iter().map(|(class, score)| format!("{} {score:.4}", label(*class))).collect();
    format!("{}  {}", sample.name, classes.join(", "))
}

/// Formats `points.csv[0]  0.25 1.5`, or the same as JSON.
fn values(arguments: &Predict, sample: &Sample, row: &[f64]) -> String {
    if arguments.json {
        return json!({ "input": sample.name, "values": row }).to_string();
    }
    let values: Vec<String> = row.iter().map(|value| format!("{value:.6}")).collect();
    format!("{}  {}", sample.name, values.join(" "))
}
