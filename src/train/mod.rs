//! `tilec train FILE --data DIR`: trains a model as its `train` block says.

mod curves;
mod progress;

use std::path::{Path, PathBuf};

use tile_runtime::Error;
use tile_runtime::data::folder;
use tile_runtime::train::{
    Callback, Checkpoint, ColumnRole, Dataset, EarlyStopping, Epoch, Fit, Log, Monitor, Progress, Trainer, Validation,
};

use crate::arguments::Sizes;
use crate::devices::open;
use crate::interrupt;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, can_be_written, has_extension, loses_nothing};
use crate::tune::Tuned;
use progress::Line;

#[derive(clap::Args)]
pub struct Train {
    /// A Tile file with a `train` block
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The samples: a folder of idx files, of x.npy and y.npy, or of pictures by class; or an .npz or .csv file
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// What to evaluate after each epoch: such a folder or file, or a fraction of the samples, the last ones; 0 for nothing
    /// [default: the test set, where the data have one]
    #[arg(long, value_name = "DIR|FRACTION")]
    validation: Option<String>,
    /// How often to go through the samples, epochs before `--resume` included [default: what the program says]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Samples in a step [default: what the program says]
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Of all that is random [default: what the program says]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    seed: Option<u64>,
    /// Begin with these weights: a file as for `run`
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    weights: Option<PathBuf>,
    /// Write the weights here after each epoch, with all that `--resume` needs
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write the weights here after each epoch with the smallest validation loss so far (or loss, without validation)
    #[arg(long, value_name = "FILE")]
    save_best: Option<PathBuf>,
    /// Go on where the run that saved this file was
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Stop after so many epochs without a smaller validation loss (or loss, without validation)
    #[arg(long, value_name = "EPOCHS")]
    patience: Option<usize>,
    /// Write a line for each epoch: JSON, or a table where the name ends in .csv
    #[arg(long, value_name = "FILE.jsonl|FILE.csv")]
    log: Option<PathBuf>,
    /// Draw the loss and the metrics over the epochs
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// What samples of a class count in the loss, as Keras' class_weight: 1 where it is not said
    #[arg(long, value_name = "CLASS=WEIGHT", value_parser = class_weight)]
    class_weight: Vec<(i64, f32)>,
    /// Leave a layer or a weight as it is, beside those that the program freezes: encoder, head.Bias
    #[arg(long, value_name = "PATH")]
    freeze: Vec<String>,
    /// Where to train: cpu, wgpu, wgpu:N [default: TILE_DEVICE, else the best real GPU, else cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// On cpu: compute sums of products term by term, without Winograd's way for convolutions
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    tuned: Tuned,
    #[command(flatten)]
    sizes: Sizes,
}

pub fn train(arguments: &Train, terminal: &Terminal) -> Result<(), Failure> {
    let source = Source::load(&arguments.file, terminal)?;
    if source.model.is_onnx() {
        return Err(Failure::input(format!(
            "{} is an ONNX file, which cannot be trained: `tilec import` makes a program of it",
            arguments.file.display()
        )));
    }
    let failed = |error: Error| source.failed(&error);
    let validation = arguments.validation.as_deref().map(Validated::parse).transpose()?;
    outputs(arguments)?;
    let device = open(arguments.device.as_deref(), arguments.exact, terminal).map_err(failed)?;
    let builder = arguments.sizes.apply_to_trainer(source.model.trainer(&device));
    let builder = arguments.freeze.iter().fold(builder, |builder, path| builder.freeze(path));
    let mut trainer = builder.build().map_err(failed)?;
    let samples = folder::open(&arguments.data).map_err(failed)?;
    let kept: Option<Box<dyn Dataset>> = match &validation {
        Some(Validated::Path(path)) => {
            let opened = folder::open_with_classes(path, &samples.classes).map_err(failed)?;
            Some(opened.test.unwrap_or(opened.train))
        }
        Some(Validated::Fraction(_)) => None,
        None => samples.test,
    };
    let validation = match validation {
        Some(Validated::Fraction(fraction)) => (fraction > 0.0).then_some(Validation::Fraction(fraction)),
        _ => kept.as_deref().map(Validation::Set),
    };
    terminal.note(&overview(&*samples.train, validation.as_ref(), &samples.classes));
    if let Some(seed) = arguments.seed {
        trainer.seed(seed);
    }
    match (&arguments.resume, &arguments.weights) {
        (Some(file), _) => trainer.resume(file).map_err(failed)?,
        (None, Some(file)) => trainer.load(file).map_err(failed)?,
        (None, None) => {}
    }
    let epochs = arguments.epochs.unwrap_or(trainer.settings().epochs);
    let batch_size = arguments.batch_size.unwrap_or(trainer.settings().batch_size);
    arguments.tuned.apply(&device, terminal, |tune| trainer.tune(&*samples.train, batch_size, tune).map_err(failed))?;
    interrupt::watch()?;
    let mut fit = Fit::epochs(epochs).callback(Line::new(terminal)).callback(Interrupt);
    if let Some(path) = &arguments.save {
        fit = fit.callback(Checkpoint::last(path));
    }
    let watched = if validation.is_some() { "val_loss" } else { "loss" };
    if let Some(path) = &arguments.save_best {
        fit = fit.callback(Checkpoint::best(path, Monitor::of(watched)));
    }
    if let Some(patience) = arguments.patience {
        fit = fit.callback(EarlyStopping::new(Monitor::of(watched), patience));
    }
    // After the checkpoints: a full disk is to cost no weights.
    if let Some(path) = &arguments.log {
        fit = fit.callback(Log::new(path, arguments.resume.is_some()).map_err(failed)?);
    }
    for (class, weight) in &arguments.class_weight {
        fit = fit.class_weight(*class, *weight);
    }
    if let Some(samples) = arguments.batch_size {
        fit = fit.batch_size(samples);
    }
    if let Some(validation) = validation {
        fit = fit.validation(validation);
    }
    let result = trainer.fit(&*samples.train, fit);
    // What was learnt until an error is worth seeing, too.
    let plot = arguments.plot.as_ref().filter(|_| !trainer.history().is_empty());
    let drawn = plot.map_or(Ok(()), |path| curves::draw(trainer.history(), path));
    let made = match (result, drawn) {
        (Ok(made), Ok(())) => made,
        (Ok(_), Err(failure)) => return Err(failure),
        (Err(error), Ok(())) => return Err(failed(error)),
        (Err(error), Err(failure)) => return Err(failed(error).and(failure)),
    };
    let done = trainer.history().len();
    if done < epochs && interrupt::happened() {
        stopped(&mut trainer, arguments, terminal).map_err(failed)?;
        return Err(Failure::interrupted());
    }
    match arguments.patience {
        Some(patience) if done < epochs => terminal.note(&patience_ended(trainer.history(), watched, patience)),
        _ if made.is_empty() => terminal.note(&format!(
            "nothing was trained: of {epochs} epochs {done} are made, and `--epochs` counts those that were made before"
        )),
        _ => {}
    }
    Ok(())
}

/// What `--validation` says.
enum Validated {
    Fraction(f64),
    Path(PathBuf),
}

impl Validated {
    /// What reads as a number is one; a folder of such a name is `./0.5`.
    fn parse(text: &str) -> Result<Validated, Failure> {
        match text.parse::<f64>() {
            Err(_) => Ok(Validated::Path(text.into())),
            Ok(fraction) if (0.0..1.0).contains(&fraction) => Ok(Validated::Fraction(fraction)),
            Ok(_) => {
                let range = "a fraction for `--validation` is at least 0, and below 1";
                Err(Failure::usage(format!("{range}, and this is {text}; a folder of this name is ./{text}")))
            }
        }
    }
}

/// Sees before training that what it is to give can be written.
fn outputs<'a>(arguments: &'a Train) -> Result<(), Failure> {
    if !arguments.sizes.shape.is_empty() {
        return Err(Failure::usage("`--shape` is not for `train`: the data say the shapes"));
    }
    let weights: &[&str] = &["safetensors", "npz"];
    let named = [
        ("--save", &arguments.save, weights),
        ("--save-best", &arguments.save_best, weights),
        ("--plot", &arguments.plot, &["svg"]),
    ];
    for (option, path, extensions) in named {
        if let Some(path) = path {
            has_extension(option, path, extensions)?;
        }
    }
    let paths =
        |files: &[&'a Option<PathBuf>]| -> Vec<&'a Path> { files.iter().filter_map(|path| path.as_deref()).collect() };
    let written = paths(&[&arguments.save, &arguments.save_best, &arguments.plot, &arguments.log]);
    written.iter().try_for_each(|path| can_be_written(path))?;
    let validation = arguments.validation.as_deref().map(Path::new);
    let read: Vec<&Path> = [&*arguments.file, &*arguments.data].into_iter().chain(validation).collect();
    loses_nothing(&read, &written)?;
    // What is resumed, or begun with, may be saved where it was, but nothing else may be.
    loses_nothing(&paths(&[&arguments.weights, &arguments.resume]), &paths(&[&arguments.plot, &arguments.log]))?;
    arguments.log.iter().try_for_each(|path| has_extension("--log", path, &["jsonl", "json", "csv"]))
}

/// `2000 samples of f32[28, 28], 500 to validate; the classes are 0 cat, 1 dog`
fn overview(data: &dyn Dataset, validation: Option<&Validation>, classes: &[String]) -> String {
    let inputs = data.columns().into_iter().filter(|column| column.role == ColumnRole::Input);
    let inputs = inputs.map(|column| column.ty.to_string()).collect::<Vec<_>>().join(" and ");
    let validated = match validation {
        None => 0,
        Some(Validation::Fraction(fraction)) => Validation::kept_back(*fraction, data.len()),
        Some(Validation::Set(set)) => set.len(),
    };
    let trained = match validation {
        Some(Validation::Fraction(_)) => data.len() - validated,
        _ => data.len(),
    };
    let mut text = format!("{trained} samples of {inputs} to train");
    if validated > 0 {
        text += &format!(", {validated} to validate");
    }
    if !classes.is_empty() {
        let named: Vec<String> =
            (0..).zip(classes).map(|(number, name): (usize, _)| format!("{number} {name}")).collect();
        text += &format!("; the classes are {}", named.join(", "));
    }
    text
}

/// What is told where `--patience` has ended training.
fn patience_ended(history: &[Epoch], watched: &str, patience: usize) -> String {
    let values = history.iter().filter_map(|epoch| Some((epoch.epoch + 1, epoch.get(watched)?)));
    let best =
        values.filter(|(_, value)| !value.is_nan()).reduce(|best, next| if next.1 < best.1 { next } else { best });
    let best = best.map_or(String::new(), |(epoch, value)| format!("; the best was epoch {epoch}, with {value:.4}"));
    format!("stopped after epoch {}: no smaller {watched} for {patience} epochs{best}", history.len())
}

/// `3=0.5`
fn class_weight(text: &str) -> Result<(i64, f32), String> {
    let (class, weight) = text.split_once('=').ok_or("it is not of the form CLASS=WEIGHT, as 3=0.5")?;
    let class = class.parse().map_err(|_| format!("`{class}` is not the number of a class"))?;
    let weight = weight.parse().ok().filter(|weight: &f32| weight.is_finite());
    Ok((class, weight.ok_or("the weight is not a number")?))
}

/// Ends training after Ctrl-C.
struct Interrupt;

impl Callback for Interrupt {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        state.stop |= interrupt::happened();
        Ok(())
    }

    fn epoch(&mut self, state: &mut Progress, _: &Epoch) -> Result<(), Error> {
        self.step(state)
    }

    fn stops(&self) -> bool {
        interrupt::happened()
    }
}

/// After Ctrl-C: what was learnt in the epoch that has not ended is in the file, too.
fn stopped(trainer: &mut Trainer, arguments: &Train, terminal: &Terminal) -> Result<(), Error> {
    match &arguments.save {
        Some(path) => {
            trainer.save(path)?;
            terminal.note(&format!("stopped; `--resume {}` goes on from the epoch that was begun", path.display()));
        }
        None => terminal.note("stopped; with `--save` there would be a file to resume from"),
    }
    Ok(())
}
