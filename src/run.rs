//! `tilec run FILE`: shows an entry's outputs, or writes them as `.npy` files or pictures.

use std::collections::{BTreeMap, HashSet};
use std::iter::repeat_with;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde_json::value::RawValue;
use tile_compiler::lower::Binding;
use tile_lang::{did_you_mean, listed};
use tile_runtime::data::picture::{self, Pixels, is_picture};
use tile_runtime::data::{npy, write_whole};
use tile_runtime::{Device, Error, Outputs, Scalar, Session, Tensor, TensorType};

use crate::arguments::output_parser;
use crate::compare::Difference;
use crate::devices::DeviceOptions;
use crate::inputs::Inputs;
use crate::json;
use crate::placement;
use crate::precision::Precision;
use crate::preview::preview;
use crate::random::random;
use crate::source::Source;
use crate::terminal::{
    Failure, Terminal, can_be_written, has_extension, loses_nothing, print, write_file,
};
use crate::trace::TraceFile;
use crate::tune::Tuned;
use crate::weights::WeightsOptions;

#[derive(clap::Args)]
pub struct Run {
    /// A Tile file, an ONNX file or a pack
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    #[command(flatten)]
    precision: Precision,
    /// Run again in f32, and show how far the outputs of `--factors`, `--storage` or
    /// `--weights-type` are from those
    #[arg(long, requires = "narrow")]
    compare: bool,
    #[command(flatten)]
    weights: WeightsOptions,
    /// Fill inputs without a value with random values, and initialise the weights. This is also the
    /// seed of the program's random numbers
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    tuned: Tuned,
    /// Write each output to DIR/NAME.npy instead of showing it
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Write an output to a file instead: an array (Y=y.npy), or a picture (Y=y.png, Y=y.jpg)
    #[arg(long, value_name = "Y=FILE", value_parser = output_parser())]
    output: Vec<(String, PathBuf)>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write a trace of the kernels' times, for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
}

/// Runs the entry once.
pub fn run(arguments: &Run, terminal: &Terminal) -> Result<(), Failure> {
    let source =
        Source::load_packed(&arguments.file, arguments.inputs.sizes.entry.as_deref(), terminal)?;
    check_files(arguments)?;
    let mut given = arguments.inputs.read(&source)?;
    if let Some(seed) = arguments.random {
        fill(&source, arguments, seed, &mut given);
    }
    let device = arguments.device.open(terminal).map_err(|error| source.failed(&error))?;
    let plain = arguments.inputs.builder(&source, &device, &given)?;
    let builder = arguments.precision.apply(plain.clone());
    arguments.tuned.apply(&device, terminal, |tune| {
        builder.tune(tune).map_err(|error| source.failed(&error))
    })?;
    let started = Instant::now();
    let mut session = builder.build().map_err(|error| source.failed(&error))?;
    terminal.warn_of(&device);
    terminal.detail(&format!("device {}; compiled in {:.1?}", device.name(), started.elapsed()));
    placement::detail(session.plan(), &device, terminal);
    check_outputs(arguments, &session)?;
    let inputs = inputs(arguments, &source, &session, given)?;
    load(arguments, &source, &mut session, terminal)?;
    let started = Instant::now();
    let views = || inputs.iter().map(|(name, tensor)| (name, tensor));
    let outputs = match &arguments.trace {
        Some(path) => traced(&mut session, &inputs, &source, &device, path, terminal)?,
        None => session.run(views()).map_err(|error| source.failed(&error))?,
    };
    terminal.detail(&format!("ran in {:.1?}", started.elapsed()));
    let mut differences = Vec::new();
    if arguments.compare {
        drop(session);
        let mut session = plain.build().map_err(|error| source.failed(&error))?;
        load(arguments, &source, &mut session, &Terminal::new(true, false, Vec::new()))?;
        let exact = session.run(views()).map_err(|error| source.failed(&error))?;
        let pairs = outputs.iter().zip(exact.iter());
        for ((name, given), (_, exact)) in pairs {
            let difference = Difference::of(given, exact).ok_or_else(|| {
                let (given, exact) = (given.ty(), exact.ty());
                Failure::input(format!("output `{name}` is {given}, and {exact} in f32"))
            })?;
            differences.push(difference);
        }
    }

    if let Some(folder) = &arguments.output_dir {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, &error))?;
    }
    let paths = output_files(arguments, outputs.iter().map(|(name, _)| name));
    let files = outputs.iter().zip(paths).map(|((_, tensor), path)| {
        path.map(|path| write_output(arguments, &source, &path, tensor, terminal).map(|()| path))
            .transpose()
    });
    let files = files.collect::<Result<Vec<_>, Failure>>()?;
    let line = |((name, tensor), file): ((&str, &Tensor), &Option<PathBuf>)| match file {
        Some(file) => format!("{name} {} {}\n", tensor.ty(), file.display()),
        None => preview(name, tensor),
    };
    let text = if arguments.json {
        json_text(&device, &outputs, &files, &differences)
    } else {
        let names = outputs.iter().map(|(name, _)| name);
        let differences =
            names.zip(&differences).map(|(name, difference)| format!("{name} {difference}\n"));
        outputs.iter().zip(&files).map(line).chain(differences).collect()
    };
    print(text.as_bytes())
}

/// Loads the weights, and initialises those that no file gives.
fn load(
    arguments: &Run,
    source: &Source,
    session: &mut Session,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let seed = arguments.random.unwrap_or_default();
    let missing =
        arguments.weights.load(session, seed, terminal).map_err(|error| source.failed(&error))?;
    if !missing.is_empty() {
        if !arguments.weights.is_empty() && arguments.random.is_some() {
            terminal.note_initialised(&missing);
        }
        initialise(arguments.random, source, session, &missing)?;
    }
    session.seed(seed, 0).map_err(|error| source.failed(&error))
}

/// Initialises the missing weights with the seed of `--random`. Fails without it.
fn initialise(
    seed: Option<u64>,
    source: &Source,
    session: &mut Session,
    missing: &[String],
) -> Result<(), Failure> {
    if let Some(seed) = seed {
        let initialised = session.seed(seed, 0).and_then(|()| session.initialise(seed));
        return initialised.map_err(|error| source.failed(&error));
    }
    let missing: HashSet<&str> = missing.iter().map(String::as_str).collect();
    let weights = session.weights().filter(|(path, _)| missing.contains(path));
    let weights: String = weights.map(|(path, ty)| format!("\n  {path}  {ty}")).collect();
    let (what, or_first) = match source.model.pack() {
        // It has no program for first values.
        Some(_) => {
            (format!("{}: the pack is without the values of weights", source.path.display()), "")
        }
        None => (
            "the program's weights have no values".into(),
            ", or first values with `--random SEED`",
        ),
    };
    Err(Failure::input(format!(
        "{what}: give them with `--weights FILE`{or_first}. They are{weights}"
    )))
}

/// Returns the files that the command reads.
fn read_files(arguments: &Run) -> Vec<&Path> {
    [&*arguments.file]
        .into_iter()
        .chain(arguments.weights.files())
        .chain(arguments.inputs.files())
        .collect()
}

/// Checks that the files to write can be written, and that none of them is one that is read.
fn check_files(arguments: &Run) -> Result<(), Failure> {
    let outputs = arguments.output.iter().map(|(_, path)| path);
    let written: Vec<&Path> = outputs.chain(&arguments.trace).map(PathBuf::as_path).collect();
    loses_nothing(&read_files(arguments), &written)?;
    arguments.trace.iter().try_for_each(|path| has_extension("--trace", path, &["json"]))?;
    written.into_iter().try_for_each(can_be_written)
}

/// Checks that the outputs to write exist, and that no file in the output folder is one that is
/// read or another output's.
fn check_outputs(arguments: &Run, session: &Session) -> Result<(), Failure> {
    let names: Vec<&str> = session.outputs().map(|(name, _)| name).collect();
    match arguments.output.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        Some((name, _)) => {
            let help = did_you_mean(name, names.iter().copied());
            let help = help.unwrap_or_else(|| format!("the outputs are {}", listed(&names)));
            Err(Failure::input(format!("there is no output `{name}`; {help}")))
        }
        None => {
            let files: Vec<PathBuf> =
                output_files(arguments, names.into_iter()).into_iter().flatten().collect();
            let written: Vec<&Path> =
                files.iter().chain(&arguments.trace).map(PathBuf::as_path).collect();
            loses_nothing(&read_files(arguments), &written)
        }
    }
}

/// Runs the session and writes a trace of the run to the file `path`.
fn traced(
    session: &mut Session,
    inputs: &[(String, Tensor)],
    source: &Source,
    device: &Device,
    path: &Path,
    terminal: &Terminal,
) -> Result<Outputs, Failure> {
    let failed = |error: Error| source.failed(&error);
    for (name, tensor) in inputs {
        session.set(name, tensor).map_err(failed)?;
    }
    // The first run does additional work.
    session.execute().map_err(failed)?;
    match (session.trace().map_err(failed)?, session.plan()) {
        (Some(trace), Some(plan)) => {
            let mut file = TraceFile::default();
            file.add(&plan.name, device.name(), plan, &trace);
            file.write(path)?;
        }
        _ => terminal
            .note(&format!("no trace was written: {} has no clock for kernels", device.name())),
    }
    session.read().map_err(failed)
}

/// The most elements of an input that is filled before the model is compiled.
const MAX_FILLED: usize = 1 << 26;

/// Adds random values for the missing inputs of an ONNX file: shapes may depend on their values.
fn fill(source: &Source, arguments: &Run, seed: u64, given: &mut BTreeMap<String, Tensor>) {
    let known = arguments.inputs.bindings_with(given);
    let is_number =
        |name: &str| matches!(known.inputs.get(name), Some(Binding::Int(_) | Binding::Float(_)));
    for name in source.model.onnx_inputs().into_iter().filter(|name| !is_number(name)) {
        if let Some(declared) =
            source.model.declared(None, name, &known).filter(|_| !given.contains_key(name))
            && let Some(shape) = declared.sizes.into_iter().collect::<Option<Vec<usize>>>()
            && let ty = TensorType::new(declared.dtype, shape)
            && ty.elements() <= MAX_FILLED
            && let Some(tensor) = random(ty, name, seed)
        {
            given.insert(name.to_owned(), tensor);
        }
    }
}

/// Returns a tensor for every input of the session.
fn inputs(
    arguments: &Run,
    source: &Source,
    session: &Session,
    mut given: BTreeMap<String, Tensor>,
) -> Result<Vec<(String, Tensor)>, Failure> {
    let mut inputs = Vec::new();
    for (name, ty) in session.inputs() {
        let tensor = match (given.remove(name), arguments.random) {
            (Some(tensor), _) => tensor,
            (None, Some(seed)) => random(ty.clone(), name, seed).ok_or_else(|| {
                Failure::input(format!("input `{name}`, {ty}, is larger than memory can be"))
            })?,
            (None, None) => {
                let what = format!("input `{name}`, {ty}, is missing");
                let help = format!(
                    "give it an array with `--input {name}=x.npy`, or random values with `--random 1`"
                );
                return Err(source.wrong_input(
                    arguments.inputs.sizes.entry.as_deref(),
                    name,
                    "E0302",
                    &what,
                    &help,
                ));
            }
        };
        inputs.push((name.to_string(), tensor));
    }
    Ok(inputs)
}

/// Returns the file of each output that is written:
///
/// - the file of `--output`, else
/// - `NAME.npy` in the folder of `--output-dir`, with `_` for each character other than ASCII
///   letters, digits, `_`, `-` and `.`. A number follows a name that is taken, compared without
///   case, as some file systems do.
fn output_files<'a>(arguments: &Run, names: impl Iterator<Item = &'a str>) -> Vec<Option<PathBuf>> {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let mut taken = HashSet::new();
    let file = |name: &str| match (
        arguments.output.iter().find(|(output, _)| output == name),
        &arguments.output_dir,
    ) {
        (Some((_, path)), _) => Some(path.clone()),
        (None, Some(folder)) => {
            let name: String = name.chars().map(safe).collect();
            let mut names =
                (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}_{n}") });
            let free = names.find(|name| taken.insert(name.to_ascii_lowercase())).unwrap_or(name);
            Some(folder.join(format!("{free}.npy")))
        }
        (None, None) => None,
    };
    names.map(file).collect()
}

/// Writes an output to its file.
fn write_output(
    arguments: &Run,
    source: &Source,
    path: &Path,
    tensor: &Tensor,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if is_picture(path) {
        let is_raw = tensor.dtype().is_float() && arguments.inputs.pictures == Pixels::Raw;
        if is_raw && tensor.scalars().all(|value| (0.0..=1.0).contains(&value.to_f64())) {
            terminal.note(&format!(
                "{} is black: its values are from 0 to 1, and those of pixels from 0 to 255; multiply the output by 255",
                path.display()
            ));
        }
        let bytes = picture::encode(path, tensor, arguments.inputs.pictures)
            .map_err(|error| source.failed(&error))?;
        return write_file(path, bytes);
    }
    write_whole(path, |file| npy::write(tensor, file))
        .map_err(|error| Failure::writing(path, &error))
}

/// Formats `{"device", "outputs": [{"name", "dtype", "shape", "difference" with `--compare`,
/// "file" or "values"}]}`.
fn json_text(
    device: &Device,
    outputs: &Outputs,
    files: &[Option<PathBuf>],
    differences: &[Difference],
) -> String {
    let differences = differences.iter().map(Some).chain(repeat_with(|| None));
    let outputs = outputs.iter().zip(files).zip(differences);
    let outputs = outputs.map(|(((name, tensor), file), difference)| JsonOutput {
        name,
        difference,
        dtype: tensor.dtype().to_string(),
        shape: tensor.shape(),
        file: file.as_ref().map(|file| file.display().to_string()),
        values: file.is_none().then(|| tensor.scalars().map(json_number).collect()),
    });
    json::line(&JsonOutputs { device: device.name(), outputs: outputs.collect() })
}

#[derive(Serialize)]
struct JsonOutputs<'a> {
    device: &'a str,
    outputs: Vec<JsonOutput<'a>>,
}

#[derive(Serialize)]
struct JsonOutput<'a> {
    name: &'a str,
    dtype: String,
    shape: &'a [usize],
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'a Difference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The values in row-major order. Those without a JSON number (NaN, infinities) are strings.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Box<RawValue>>>,
}

fn json_number(value: Scalar) -> Box<RawValue> {
    let text = value.to_string();
    json::number(if value.to_f64().is_finite() { text } else { format!("{text:?}") })
}
