//! `tilec train FILE --data DIR`: trains a model as its `train` block says.

mod curves;
mod progress;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tile_runtime::Error;
use tile_runtime::data::folder;
use tile_runtime::train::{
    Callback, Checkpoint, Dataset, EarlyStopping, Fit, Log, Monitor, Progress, Trainer, Validation,
};

use crate::arguments::Sizes;
use crate::devices::open;
use crate::source::Source;
use crate::terminal::{Failure, Terminal};
use progress::Line;

#[derive(clap::Args)]
pub struct Train {
    /// A Tile file with a `train` block
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The samples: a folder of idx files, of x.npy and y.npy, or of pictures by class; or an .npz or .csv file
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// What to evaluate after each epoch: such a folder or file, or a fraction of the samples, the last ones
    #[arg(long, value_name = "DIR|FRACTION")]
    validation: Option<String>,
    /// How often to go through the samples [default: what the program says]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Samples in a step [default: what the program says]
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// Of all that is random [default: what the program says]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    seed: Option<u64>,
    /// Begin with these weights: a .safetensors or .npz file
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
    #[arg(long, value_name = "FILE")]
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
    #[command(flatten)]
    sizes: Sizes,
}

pub fn train(arguments: &Train, terminal: &Terminal) -> Result<(), Failure> {
    let source = Source::load(&arguments.file, terminal)?;
    let failed = |error: Error| source.failed(&error);
    let device = open(arguments.device.as_deref()).map_err(failed)?;
    let builder = arguments.sizes.apply_to_trainer(source.model.trainer(&device));
    let builder = arguments.freeze.iter().fold(builder, |builder, path| builder.freeze(path));
    let mut trainer = builder.build().map_err(failed)?;
    let samples = folder::open(&arguments.data).map_err(failed)?;
    let mut kept: Option<Box<dyn Dataset>> = None;
    let validation = match &arguments.validation {
        None => samples.test.as_deref().map(Validation::Set),
        Some(text) => Some(match text.parse() {
            Ok(fraction) => Validation::Fraction(fraction),
            Err(_) => {
                let opened = folder::open(Path::new(text)).map_err(failed)?;
                Validation::Set(&**kept.insert(opened.test.unwrap_or(opened.train)))
            }
        }),
    };
    if let Some(seed) = arguments.seed {
        trainer.seed(seed);
    }
    match (&arguments.resume, &arguments.weights) {
        (Some(file), _) => trainer.resume(file).map_err(failed)?,
        (None, Some(file)) => trainer.load(file).map_err(failed)?,
        (None, None) => {}
    }
    let epochs = arguments.epochs.unwrap_or(trainer.settings().epochs);
    let interrupted = interrupts()?;
    let mut fit = Fit::epochs(epochs).callback(Line::new(terminal)).callback(Interrupt(interrupted.clone()));
    if let Some(path) = &arguments.log {
        fit = fit.callback(Log::new(path, arguments.resume.is_some()).map_err(failed)?);
    }
    if let Some(path) = &arguments.save {
        fit = fit.callback(Checkpoint::last(path));
    }
    let watched = Monitor::of(if validation.is_some() { "val_loss" } else { "loss" });
    if let Some(path) = &arguments.save_best {
        fit = fit.callback(Checkpoint::best(path, watched.clone()));
    }
    if let Some(patience) = arguments.patience {
        fit = fit.callback(EarlyStopping::new(watched, patience));
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
    let history = trainer.fit(&*samples.train, fit).map_err(failed)?;
    if let Some(path) = &arguments.plot {
        curves::draw(&history, path)?;
    }
    if interrupted.load(Ordering::Relaxed) {
        stopped(&mut trainer, arguments, terminal).map_err(failed)?;
    }
    Ok(())
}

/// `3=0.5`
fn class_weight(text: &str) -> Result<(i64, f32), String> {
    let (class, weight) = text.split_once('=').ok_or("it is not of the form CLASS=WEIGHT, as 3=0.5")?;
    let class = class.parse().map_err(|_| format!("`{class}` is not the number of a class"))?;
    let weight = weight.parse().ok().filter(|weight: &f32| weight.is_finite());
    Ok((class, weight.ok_or("the weight is not a number")?))
}

/// Ends training after Ctrl-C.
struct Interrupt(Arc<AtomicBool>);

impl Callback for Interrupt {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        state.stop |= self.0.load(Ordering::Relaxed);
        Ok(())
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

/// Becomes true at the first Ctrl-C; the second one ends the process.
fn interrupts() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    let handler = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::machine(format!("cannot watch for Ctrl-C: {error}")))?;
    Ok(interrupted)
}
