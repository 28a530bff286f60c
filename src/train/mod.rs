//! `tilec train FILE --data DIR`: trains a model by its `train` block.

mod curves;
mod progress;
mod watch;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use tile_lang::{did_you_mean, listed};
use tile_runtime::data::folder::{self, Samples, Wanted};
use tile_runtime::data::picture::Pixels;
use tile_runtime::train::{
    Callback, Checkpoint, ColumnRole, DataDescription, Dataset, Epoch, Fit, Log, Monitor, Progress,
    Trainer, Validation,
};
use tile_runtime::weights::is_of_keras;
use tile_runtime::{Device, Error};

use crate::arguments::{Sizes, pixels};
use crate::devices::DeviceOptions;
use crate::interrupt;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, can_be_written, has_extension, loses_nothing};
use crate::tune::Tuned;
use crate::weights::{WeightsOptions, pixels_as_trained};
use progress::ProgressDisplay;
use watch::{Watch, patience_ended};

#[derive(clap::Args)]
pub struct Train {
    /// A Tile file with a `train` block
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The samples: a folder of idx files, of x.npy and y.npy, or of pictures by class; or an .npz
    /// or .csv file
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The data to evaluate after each epoch: a folder or file as for `--data`, or a fraction of
    /// the samples, with the same share of each class; 0 for none [default: the test set of the
    /// data, if any]
    #[arg(long, value_name = "DIR|FRACTION")]
    validation: Option<OsString>,
    /// The scale of a picture's pixel values, as for `run` [default: that of the training, which is
    /// saved with the weights, or raw]
    #[arg(long, value_name = "VALUES", value_parser = pixels)]
    pictures: Option<Pixels>,
    /// The number of epochs, including those before `--resume` [default: the program's]
    #[arg(long, value_name = "N")]
    epochs: Option<usize>,
    /// Samples in a step [default: the program's]
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// The seed of all random numbers [default: the program's]
    #[arg(long, value_name = "N", conflicts_with = "resume")]
    seed: Option<u64>,
    #[command(flatten)]
    weights: WeightsOptions,
    /// Write the weights to this file after each epoch, with the state for `--resume`; to a
    /// .weights.h5 file the weights alone, for Keras
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Continue the run that saved this file
    #[arg(long, value_name = "FILE", conflicts_with = "weights")]
    resume: Option<PathBuf>,
    #[command(flatten)]
    watch: Watch,
    /// Write a line for each epoch: JSON, or CSV if the name ends in .csv
    #[arg(long, value_name = "FILE.jsonl|FILE.csv")]
    log: Option<PathBuf>,
    /// Draw the loss and the metrics over the epochs
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// The weight of a class in the loss, by the class's name or number, as in Keras' class_weight
    /// [default: 1]
    #[arg(long, value_name = "CLASS=WEIGHT", value_parser = class_weight)]
    class_weight: Vec<(String, f32)>,
    /// Freeze a layer or a weight, besides those that the program freezes: encoder, head.Bias
    #[arg(long, value_name = "PATH")]
    freeze: Vec<String>,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    tuned: Tuned,
    #[command(flatten)]
    sizes: Sizes,
}

pub fn train(arguments: &Train, terminal: &Terminal) -> Result<(), Failure> {
    let (source, sizes) = Source::load_in_turn(&arguments.file, &arguments.sizes, terminal)?;
    if source.model.is_onnx() {
        return Err(Failure::input(format!(
            "{} is an ONNX file, which cannot be trained: `tilec import` makes a program of it",
            arguments.file.display()
        )));
    }
    let failed = |error: Error| source.failed(&error);
    let validation = arguments.validation.as_deref().map(Validated::parse).transpose()?;
    outputs(arguments)?;
    // The progress bar of training says that it compiles.
    let device = arguments.device.open(terminal).map_err(failed)?.on_compile(|_, _| ());
    let builder = sizes.apply_to_trainer(source.model.trainer(&device));
    let builder = arguments.freeze.iter().fold(builder, |builder, path| builder.freeze(path));
    let mut trainer = builder.build().map_err(failed)?;
    if let Some(seed) = arguments.seed {
        trainer.seed(seed);
    }
    let loaded = match &arguments.resume {
        Some(file) => trainer.resume(file),
        None => arguments.weights.load_into_trainer(&mut trainer).map(|_| ()),
    };
    loaded.map_err(failed)?;
    let data = Data::open(arguments, &mut trainer, validation, terminal).map_err(failed)?;
    let validation = data.validation();
    terminal.note(&overview(&*data.samples.train, validation.as_ref(), &data.samples.classes));
    let batch_size = arguments.batch_size.unwrap_or(trainer.settings().batch_size);
    let tuned = &arguments.tuned;
    tuned.apply(&device, terminal, |tune| {
        trainer.tune(&*data.samples.train, batch_size, tune).map_err(failed)
    })?;
    interrupt::watch()?;
    let monitor = arguments.watch.monitor(validation.is_some());
    let epochs = arguments.epochs.unwrap_or(trainer.settings().epochs);
    let fit = fit(arguments, epochs, &trainer, &monitor, validation, &device, terminal)
        .map_err(failed)?;
    let result = trainer.fit(&*data.samples.train, fit);
    // The epochs before an error are drawn, too.
    let plot = arguments.plot.as_ref().filter(|_| !trainer.history().is_empty());
    let drawn = plot.map_or(Ok(()), |path| curves::draw(trainer.history(), path));
    let made = match (result, drawn) {
        (Ok(made), Ok(())) => made,
        (Ok(_), Err(failure)) => return Err(failure),
        (Err(error), Ok(())) => return Err(failed(error)),
        (Err(error), Err(failure)) => return Err(failed(error).and(failure)),
    };
    if let Some(note) = growth(trainer.history()) {
        terminal.note(&note);
    }
    if trainer.history().len() < epochs && interrupt::happened() {
        stopped(&mut trainer, arguments, terminal).map_err(failed)?;
        return Err(Failure::interrupted());
    }
    note_end(arguments, trainer.history(), &monitor, epochs, made.is_empty(), terminal);
    Ok(())
}

/// The samples to train on, and those of `--validation`.
struct Data {
    samples: Samples,
    kept: Option<Kept>,
}

/// The samples to evaluate after each epoch.
enum Kept {
    Fraction(f64),
    Set(Box<dyn Dataset>),
}

impl Data {
    /// Opens the data. Classes that the folders name are named in the trainer.
    fn open(
        arguments: &Train,
        trainer: &mut Trainer,
        validation: Option<Validated>,
        terminal: &Terminal,
    ) -> Result<Data, Error> {
        // Weights of another task may name other classes.
        let is_resumed = arguments.resume.is_some();
        let classes = if is_resumed { trainer.classes().to_vec() } else { Vec::new() };
        let before = trainer.data_description().clone();
        let pixels = pixels_as_trained(arguments.pictures, &before, terminal);
        let columns = if is_resumed { before.columns.clone() } else { Default::default() };
        let wanted = Wanted { pixels, classes, columns, ..trainer.wanted() };
        let mut samples = folder::open_for(&arguments.data, &wanted)?;
        terminal.note_unused_data(&samples);
        if !samples.classes.is_empty() {
            trainer.name_classes(samples.classes.clone());
        }
        let data = description(&samples, pixels, validation.as_ref());
        if is_resumed {
            data.changes_from(&before).iter().for_each(|change| terminal.note(change));
        }
        trainer.describe_data(data);
        let kept = match validation {
            Some(Validated::Path(path)) => {
                let opened = folder::open_for(
                    &path,
                    &Wanted {
                        classes: samples.classes.clone(),
                        columns: samples.columns.clone(),
                        ..wanted
                    },
                )?;
                Some(Kept::Set(opened.test.unwrap_or(opened.train)))
            }
            Some(Validated::Fraction(fraction)) => {
                (fraction > 0.0).then_some(Kept::Fraction(fraction))
            }
            None => samples.test.take().map(Kept::Set),
        };
        Ok(Data { samples, kept })
    }

    fn validation(&self) -> Option<Validation<'_>> {
        Some(match self.kept.as_ref()? {
            Kept::Fraction(fraction) => Validation::Fraction(*fraction),
            Kept::Set(set) => Validation::Set(&**set),
        })
    }
}

/// Describes the data, for the file of weights.
fn description(
    samples: &Samples,
    pixels: Pixels,
    validation: Option<&Validated>,
) -> DataDescription {
    let name = Pixels::ALL.into_iter().find(|(_, other)| *other == pixels);
    let name = name.map(|(name, _)| name.to_owned()).filter(|_| samples.has_pictures);
    let validation = match validation {
        Some(Validated::Fraction(fraction)) if *fraction > 0.0 => Some(*fraction),
        _ => None,
    };
    let columns = samples.columns.clone();
    DataDescription { pictures: name, columns, samples: samples.train.len(), validation }
}

/// Returns the options of training, with its callbacks in the order in which they run.
fn fit<'a>(
    arguments: &'a Train,
    epochs: usize,
    trainer: &Trainer,
    monitor: &Monitor,
    validation: Option<Validation<'a>>,
    device: &'a Device,
    terminal: &'a Terminal,
) -> Result<Fit<'a>, Error> {
    let mut fit = Fit::epochs(epochs).callback(LoadNote { terminal, told: false });
    fit = fit.callback(ProgressDisplay::new(terminal, device)).callback(Interrupt);
    // The best checkpoint comes before the last: a run killed between them repeats the epoch. A
    // checkpoint has the learning rate of the next epoch.
    fit = arguments.watch.apply(fit, monitor, trainer.rate_factor(), terminal);
    if let Some(path) = &arguments.save {
        fit = fit.callback(Checkpoint::last(path));
    }
    // The log comes after the checkpoints: a full disk must not cost weights.
    if let Some(path) = &arguments.log {
        fit = fit.callback(Log::new(path, arguments.resume.is_some())?);
    }
    for (class, weight) in &arguments.class_weight {
        fit = fit.class_weight(class_number(class, trainer.classes())?, *weight);
    }
    if let Some(samples) = arguments.batch_size {
        fit = fit.batch_size(samples);
    }
    Ok(match validation {
        Some(validation) => fit.validation(validation),
        None => fit,
    })
}

/// Prints notes about the end of training: why it ended early, and what it has written.
fn note_end(
    arguments: &Train,
    history: &[Epoch],
    monitor: &Monitor,
    epochs: usize,
    is_unchanged: bool,
    terminal: &Terminal,
) {
    let done = history.len();
    match arguments.watch.patience {
        Some(patience) if done < epochs => terminal.note(&patience_ended(history, monitor, patience)),
        _ if is_unchanged => terminal.note(&format!(
            "nothing was trained: of {epochs} epochs {done} are made, and `--epochs` counts those that were made before"
        )),
        _ => {}
    }
    if !is_unchanged {
        note_written(arguments, terminal);
    }
}

/// Prints a note with the files that training has written.
fn note_written(arguments: &Train, terminal: &Terminal) {
    let files = [
        ("weights", &arguments.save),
        ("best weights", &arguments.watch.save_best),
        ("log", &arguments.log),
        ("plot", &arguments.plot),
    ];
    let is_there =
        |(_, path): &(&str, &Option<PathBuf>)| path.as_ref().is_some_and(|path| path.exists());
    let named = files.into_iter().filter(is_there);
    let named =
        named.filter_map(|(what, path)| Some(format!("{what} in {}", path.as_ref()?.display())));
    let written: Vec<String> = named.collect();
    if !written.is_empty() {
        terminal.note(&format!("written: {}", written.join(", ")));
    }
    if arguments.save.is_none() && arguments.watch.save_best.is_none() {
        terminal.note("the trained weights were not written: `--save FILE.safetensors` keeps them");
    }
}

/// A value of `--validation`.
enum Validated {
    Fraction(f64),
    Path(PathBuf),
}

impl Validated {
    /// Parses a fraction, else a path. A folder with a number as its name is `./0.5`.
    fn parse(text: &OsStr) -> Result<Validated, Failure> {
        match text.to_str().and_then(|text| text.parse::<f64>().ok()) {
            None => Ok(Validated::Path(text.into())),
            Some(fraction) if (0.0..1.0).contains(&fraction) => Ok(Validated::Fraction(fraction)),
            Some(_) => {
                let text = text.display();
                let range = "a fraction for `--validation` is at least 0, and below 1";
                Err(Failure::usage(format!(
                    "{range}, and this is {text}; a folder of this name is ./{text}"
                )))
            }
        }
    }
}

/// Checks before training that the outputs can be written.
fn outputs<'a>(arguments: &'a Train) -> Result<(), Failure> {
    arguments.sizes.refuse_shapes("train")?;
    arguments.watch.check()?;
    let weights: &[&str] = &["safetensors", "npz", "weights.h5"];
    let named = [
        ("--save", &arguments.save, weights),
        ("--save-best", &arguments.watch.save_best, weights),
        ("--plot", &arguments.plot, &["svg"]),
    ];
    for (option, path, extensions) in named {
        if let Some(path) = path {
            has_extension(option, path, extensions)?;
        }
    }
    let paths = |files: &[&'a Option<PathBuf>]| -> Vec<&'a Path> {
        files.iter().filter_map(|path| path.as_deref()).collect()
    };
    let written =
        paths(&[&arguments.save, &arguments.watch.save_best, &arguments.plot, &arguments.log]);
    written.iter().try_for_each(|path| can_be_written(path))?;
    let validation = arguments.validation.as_deref().map(Path::new);
    let read: Vec<&Path> =
        [&*arguments.file, &*arguments.data].into_iter().chain(validation).collect();
    loses_nothing(&read, &written)?;
    // The file of `--weights` or `--resume` may be saved over, but not by the plot or the log.
    let loaded: Vec<&Path> = arguments.weights.files().chain(arguments.resume.as_deref()).collect();
    loses_nothing(&loaded, &paths(&[&arguments.plot, &arguments.log]))?;
    arguments
        .log
        .iter()
        .try_for_each(|path| has_extension("--log", path, &["jsonl", "json", "csv"]))
}

/// Formats `2000 samples of f32[28, 28] to train, 500 to validate; the classes are 0 cat, 1 dog`.
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
        let named: Vec<String> = (0..)
            .zip(classes)
            .map(|(number, name): (usize, _)| format!("{number} {name}"))
            .collect();
        text += &format!("; the classes are {}", listed(&named));
    }
    text
}

/// Formats the note for training whose loss has grown.
fn growth(history: &[Epoch]) -> Option<String> {
    let loss = |epoch: Option<&Epoch>| epoch?.get("loss");
    let (first, last) = (loss(history.first())?, loss(history.last())?);
    let has_grown = last.abs() > 2.0 * first.abs() && history.len() > 1;
    has_grown.then(|| {
        format!(
            "the loss has grown from {first:.4} to {last:.4}: the learning rate is probably too high; try a tenth of it"
        )
    })
}

/// Parses `3=0.5` or `cat=0.5`.
fn class_weight(text: &str) -> Result<(String, f32), String> {
    let (class, weight) =
        text.rsplit_once('=').ok_or("it is not of the form CLASS=WEIGHT, as 3=0.5")?;
    let weight: f32 =
        weight.parse().ok().filter(|w: &f32| w.is_finite()).ok_or("the weight is not a number")?;
    match weight < 0.0 {
        true => Err("the weight is negative".to_owned()),
        false => Ok((class.to_owned(), weight)),
    }
}

/// Returns the number of a class, which is given by its name or number.
fn class_number(class: &str, names: &[String]) -> Result<i64, Error> {
    let by_name = names.iter().position(|name| name == class).map(|number| number as i64);
    let number = by_name.or_else(|| class.parse().ok());
    let is_known = |number: &i64| names.is_empty() || (0..names.len() as i64).contains(number);
    let wrong = |what: String| Error::Data { what };
    number.filter(is_known).ok_or_else(|| {
        if names.is_empty() {
            return wrong(format!(
                "`--class-weight {class}=…`: the classes have no names; give the number of one"
            ));
        }
        let near = did_you_mean(class, names.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; {near}"));
        let classes = listed(names);
        wrong(format!(
            "`--class-weight {class}=…`: there is no such class: they are {classes}{near}"
        ))
    })
}

/// Notes what is known when the first steps are compiled: what models trained in turn share, the
/// entries of `--weights` that no weight takes, and the weights that are initialised.
struct LoadNote<'a> {
    terminal: &'a Terminal,
    told: bool,
}

impl Callback for LoadNote<'_> {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        if !std::mem::replace(&mut self.told, true) {
            let trainer = state.trainer();
            let in_turn = trainer.in_turn();
            if !in_turn.is_empty() {
                let shared = trainer.shared();
                let shared: Vec<&str> = shared.iter().map(String::as_str).collect();
                let shared =
                    if shared.is_empty() { "no weights".to_owned() } else { listed(&shared) };
                let names = in_turn.join(", ");
                self.terminal.note(&format!("trained in turn: {names}, which share {shared}"));
            }
            let report = trainer.load_report();
            self.terminal.note_unused(report);
            self.terminal.note_initialised(&report.missing);
        }
        Ok(())
    }
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

/// Saves the unfinished epoch after Ctrl-C, with a note.
fn stopped(trainer: &mut Trainer, arguments: &Train, terminal: &Terminal) -> Result<(), Error> {
    match &arguments.save {
        Some(path) => {
            trainer.save(path)?;
            let (is_for_keras, path) = (is_of_keras(path), path.display());
            terminal.note(&match is_for_keras {
                true => format!("stopped; the weights are in {path}"),
                false => {
                    format!("stopped; `--resume {path}` goes on from the epoch that was begun")
                }
            });
        }
        None => terminal.note("stopped; with `--save` there would be a file to resume from"),
    }
    Ok(())
}
