//! `tilec run FILE`: an entry's outputs, shown or written as `.npy` or pictures.

use std::collections::{BTreeMap, HashSet};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use tile_compiler::dtype::DType;
use tile_compiler::lower::{Binding, Bindings};
use tile_runtime::data::picture::{self, Pixels, is_picture};
use tile_runtime::data::{npy, npy::NpyError, write_whole};
use tile_runtime::train::as_model_takes;
use tile_runtime::{Device, Error, Outputs, Scalar, Session, SessionBuilder, Tensor};

use crate::arguments::{Input, Sizes, input, narrow_float, output, pixels};
use crate::devices::open;
use crate::json;
use crate::preview::preview;
use crate::random::random;
use crate::source::Source;
use crate::terminal::{Failure, Terminal, can_be_written, has_extension, loses_nothing, print, write_file};
use crate::trace::TraceFile;
use crate::tune::Tuned;

#[derive(clap::Args)]
pub struct Run {
    /// A Tile or ONNX file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    inputs: Inputs,
    /// The weights: a .safetensors or .npz file, the .safetensors.index.json of several, or a .weights.h5 of Keras
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Fill inputs that are not given with random values, and weights from their initializers
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    /// Where to run: cpu, wgpu, wgpu:N [default: TILE_DEVICE, else the best real GPU, else cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// On cpu: compute sums of products term by term, without Winograd's way for convolutions
    #[arg(long)]
    exact: bool,
    #[command(flatten)]
    tuned: Tuned,
    /// Write each output as DIR/NAME.npy instead of showing it
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Write an output to a file instead: an array (Y=y.npy), or a picture (Y=y.png, Y=y.jpg)
    #[arg(long, value_name = "Y=FILE", value_parser = output)]
    output: Vec<(String, PathBuf)>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Write when each kernel was at work, for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
}

/// What a program is compiled for.
#[derive(clap::Args)]
pub struct Inputs {
    /// An input: an array, which brings its type and shape (X=x.npy), a picture (X=x.png, X=x.jpg), or a constant (S=3, S=2.5)
    #[arg(long, value_name = "X=VALUE", value_parser = input)]
    input: Vec<(String, Input)>,
    /// What the values of a picture's pixels are: 0 to 255, or what Keras' preprocess_input of a mode (keras-tf: -1 to 1) or torchvision's
    /// classifiers make of them
    #[arg(long, value_name = "VALUES", value_parser = pixels, default_value = "raw")]
    pictures: Pixels,
    #[command(flatten)]
    pub sizes: Sizes,
    /// Round the factors of products to f16 or bf16, and sum them in f32
    #[arg(long, value_name = "TYPE", value_parser = narrow_float)]
    factors: Option<DType>,
}

/// Runs the entry once.
pub fn run(arguments: &Run, terminal: &Terminal) -> Result<(), Failure> {
    let source = Source::load(&arguments.file, terminal)?;
    check_files(arguments)?;
    let mut given = read_inputs(&arguments.inputs, &source)?;
    let entry = arguments.inputs.sizes.entry.as_deref();
    as_model_takes(&source.model, entry, &bindings(&arguments.inputs), &mut given)
        .map_err(|error| source.failed(&error))?;
    let device = open(arguments.device.as_deref(), arguments.exact, terminal).map_err(|error| source.failed(&error))?;
    let builder = builder(&arguments.inputs, &source, &device, &given)?;
    arguments.tuned.apply(&device, terminal, |tune| builder.tune(tune).map_err(|error| source.failed(&error)))?;
    let started = Instant::now();
    let mut session = builder.build().map_err(|error| source.failed(&error))?;
    terminal.warn_of(&device);
    terminal.detail(&format!("device {}; compiled in {:.1?}", device.name(), started.elapsed()));
    check_outputs(arguments, &session)?;
    let inputs = inputs(arguments, &source, &session, given)?;
    if let Some(weights) = &arguments.weights {
        session.load(weights).map_err(|error| source.failed(&error))?;
    } else if let (Some(seed), false) = (arguments.random, source.model.is_onnx()) {
        session.seed(seed, 0).map_err(|error| source.failed(&error))?;
        session.initialise(seed).map_err(|error| source.failed(&error))?;
    } else if session.weights().next().is_some() && !source.model.is_onnx() {
        let weights: String = session.weights().map(|(path, ty)| format!("\n  {path}  {ty}")).collect();
        let how = "give them with `--weights FILE`, or first values with `--random SEED`";
        return Err(Failure::input(format!("the program's weights have no values: {how}. They are{weights}")));
    }
    let started = Instant::now();
    let outputs = match &arguments.trace {
        Some(path) => traced(&mut session, inputs, &source, &device, path, terminal)?,
        None => session.run(inputs).map_err(|error| source.failed(&error))?,
    };
    terminal.detail(&format!("ran in {:.1?}", started.elapsed()));

    if let Some(folder) = &arguments.output_dir {
        std::fs::create_dir_all(folder).map_err(|error| Failure::writing(folder, &error))?;
    }
    let paths = output_files(arguments, outputs.iter().map(|(name, _)| name));
    let files = outputs.iter().zip(paths).map(|((_, tensor), path)| {
        path.map(|path| write_output(arguments, &source, &path, tensor).map(|()| path)).transpose()
    });
    let files = files.collect::<Result<Vec<_>, Failure>>()?;
    let line = |((name, tensor), file): ((&str, &Tensor), &Option<PathBuf>)| match file {
        Some(file) => format!("{name} {} {}\n", tensor.ty(), file.display()),
        None => preview(name, tensor),
    };
    let text = if arguments.json {
        json_text(&device, &outputs, &files)
    } else {
        outputs.iter().zip(&files).map(line).collect()
    };
    print(text.as_bytes())
}

/// The files that are read.
fn read_files(arguments: &Run) -> Vec<&Path> {
    let inputs = arguments.inputs.input.iter().filter_map(|(_, input)| match input {
        Input::File(path) => Some(path),
        Input::Number(_) => None,
    });
    [&arguments.file].into_iter().chain(inputs).chain(&arguments.weights).map(PathBuf::as_path).collect()
}

/// Sees that what is to be written can be, and writes over nothing that is read.
fn check_files(arguments: &Run) -> Result<(), Failure> {
    let outputs = arguments.output.iter().map(|(_, path)| path);
    let written: Vec<&Path> = outputs.chain(&arguments.trace).map(PathBuf::as_path).collect();
    loses_nothing(&read_files(arguments), &written)?;
    arguments.trace.iter().try_for_each(|path| has_extension("--trace", path, &["json"]))?;
    written.into_iter().try_for_each(can_be_written)
}

/// Sees that the outputs that are to be written are there, and that those in a folder write over nothing either.
fn check_outputs(arguments: &Run, session: &Session) -> Result<(), Failure> {
    let names: Vec<&str> = session.outputs().map(|(name, _)| name).collect();
    match arguments.output.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        Some((name, _)) => {
            Err(Failure::input(format!("there is no output `{name}`; the outputs are {}", names.join(", "))))
        }
        None => {
            let files: Vec<PathBuf> = output_files(arguments, names.into_iter()).into_iter().flatten().collect();
            let written: Vec<&Path> = files.iter().chain(&arguments.trace).map(PathBuf::as_path).collect();
            loses_nothing(&read_files(arguments), &written)
        }
    }
}

/// Runs the session with a trace, which goes to the file `path`.
fn traced(
    session: &mut Session,
    inputs: Vec<(String, Tensor)>,
    source: &Source,
    device: &Device,
    path: &Path,
    terminal: &Terminal,
) -> Result<Outputs, Failure> {
    let failed = |error: Error| source.failed(&error);
    for (name, tensor) in &inputs {
        session.set(name, tensor).map_err(failed)?;
    }
    // The first run of all does more than others.
    session.execute().map_err(failed)?;
    match (session.trace().map_err(failed)?, session.plan()) {
        (Some(trace), Some(plan)) => {
            let mut file = TraceFile::default();
            file.add(&plan.name, device.name(), plan, &trace);
            file.write(path)?;
        }
        _ => terminal.note(&format!("no trace was written: {} has no clock for kernels", device.name())),
    }
    session.read().map_err(failed)
}

/// What the options say of the entry's inputs, arrays apart.
pub fn bindings(arguments: &Inputs) -> Bindings {
    let mut bindings = arguments.sizes.bindings();
    for (name, input) in &arguments.input {
        if let Input::Number(value) = input {
            let value =
                if value.dtype.is_float() { Binding::Float(value.to_f64()) } else { Binding::Int(value.to_i64()) };
            bindings.inputs.insert(name.clone(), value);
        }
    }
    bindings
}

/// The arrays that the command line names, and then its pictures, whose sizes may follow from these.
pub fn read_inputs(arguments: &Inputs, source: &Source) -> Result<BTreeMap<String, Tensor>, Failure> {
    let entry = arguments.sizes.entry.as_deref();
    let mut given: BTreeMap<String, Tensor> = BTreeMap::new();
    let files = arguments.input.iter().filter_map(|(name, input)| match input {
        Input::File(path) => Some((name, path)),
        Input::Number(_) => None,
    });
    let (pictures, arrays): (Vec<_>, Vec<_>) = files.partition(|(_, path)| is_picture(path));
    for (name, path) in arrays {
        let file = std::fs::File::open(path).map_err(NpyError::Io);
        let tensor = file.and_then(|file| npy::read(BufReader::new(file))).map_err(|error| {
            let what = format!("{}: {error}", path.display());
            let help = if matches!(error, NpyError::Io(_)) { "" } else { "numpy.save writes such a file" };
            source.wrong_input(entry, name, "E0301", &what, help)
        })?;
        given.insert(name.clone(), tensor);
    }
    let mut known = bindings(arguments);
    known.inputs.extend(given.iter().map(|(name, tensor)| (name.clone(), Binding::Tensor(tensor.ty().clone()))));
    for (name, path) in pictures {
        let refused = |what: &str, help: &str| source.wrong_input(entry, name, "E0301", what, help);
        let declared = source.model.declared(entry, name, &known).ok_or_else(|| {
            let what = format!("`{name}` is no input whose number of axes is known, and so none for a picture");
            refused(&what, &format!("the header can say it, `{name}[H, W, 3]`, or `--shape {name}=224x224x3`"))
        })?;
        let picture = picture::read(path, &declared, arguments.pictures);
        let tensor = picture.map_err(|error| {
            refused(&error.to_string(), "a picture is a .png or .jpg file, for an input such as `Image[N, H, W, 3]`")
        })?;
        given.insert(name.clone(), tensor);
    }
    Ok(given)
}

/// The program, for what is given; `given` are the arrays.
pub fn builder<'a>(
    arguments: &Inputs,
    source: &'a Source,
    device: &'a Device,
    given: &BTreeMap<String, Tensor>,
) -> Result<SessionBuilder<'a>, Failure> {
    let mut builder = arguments.sizes.apply(source.model.on(device));
    for (name, ty) in &arguments.sizes.shape {
        if let Some(tensor) = given.get(name).filter(|tensor| tensor.ty() != ty) {
            let what = format!("the array for `{name}` is {}, but `--shape` says {ty}", tensor.ty());
            let help = "leave `--shape` out: an array brings its own";
            return Err(source.wrong_input(arguments.sizes.entry.as_deref(), name, "E0303", &what, help));
        }
    }
    if let Some(dtype) = arguments.factors {
        builder = builder.factors(dtype);
    }
    for (name, tensor) in given {
        builder = builder.input(name, tensor.ty().clone());
        if source.model.is_onnx() {
            builder = builder.value(name, tensor.clone());
        }
    }
    for (name, input) in &arguments.input {
        if let Input::Number(value) = input {
            builder = builder.constant(name, *value);
        }
    }
    Ok(builder)
}

/// A tensor for every input of the session.
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
            (None, Some(seed)) => random(ty.clone(), name, seed)
                .ok_or_else(|| Failure::input(format!("input `{name}`, {ty}, is larger than memory can be")))?,
            (None, None) => {
                let what = format!("input `{name}`, {ty}, is missing");
                let help = format!("give it an array with `--input {name}=x.npy`, or random values with `--random 1`");
                return Err(source.wrong_input(arguments.inputs.sizes.entry.as_deref(), name, "E0302", &what, &help));
            }
        };
        inputs.push((name.to_string(), tensor));
    }
    Ok(inputs)
}

/// Where each output is written, if it is: to that of `--output`, or to `NAME.npy` in the folder of `--output-dir`, where what is no letter,
/// digit, `_`, `-` or `.` in the name becomes `_`. Where that is another's file, also for a file system that knows no capitals, a number
/// follows the name.
fn output_files<'a>(arguments: &Run, names: impl Iterator<Item = &'a str>) -> Vec<Option<PathBuf>> {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let mut taken = HashSet::new();
    let file = |name: &str| match (arguments.output.iter().find(|(output, _)| output == name), &arguments.output_dir) {
        (Some((_, path)), _) => Some(path.clone()),
        (None, Some(folder)) => {
            let name: String = name.chars().map(safe).collect();
            let mut names = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}_{n}") });
            let free = names.find(|name| taken.insert(name.to_ascii_lowercase())).unwrap_or(name);
            Some(folder.join(format!("{free}.npy")))
        }
        (None, None) => None,
    };
    names.map(file).collect()
}

/// Writes an output to its file.
fn write_output(arguments: &Run, source: &Source, path: &Path, tensor: &Tensor) -> Result<(), Failure> {
    if is_picture(path) {
        let bytes = picture::encode(path, tensor, arguments.inputs.pictures).map_err(|error| source.failed(&error))?;
        return write_file(path, bytes);
    }
    let written = write_whole(path, |path| {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        npy::write(tensor, &mut file)?;
        file.flush()
    });
    written.map_err(|error| Failure::writing(path, &error))
}

/// `{"device", "outputs": [{"name", "dtype", "shape", "file" or "values"}]}`: values in row-major order, those that JSON
/// has no number for as strings.
fn json_text(device: &Device, outputs: &Outputs, files: &[Option<PathBuf>]) -> String {
    let outputs = outputs.iter().zip(files).map(|((name, tensor), file)| {
        let shape = json::list(tensor.shape().iter().map(usize::to_string));
        let content = match file {
            Some(file) => format!("\"file\":{}", json::string(&file.display().to_string())),
            None => format!("\"values\":{}", json::list(tensor.scalars().map(json_number))),
        };
        let name = json::string(name);
        format!("{{\"name\":{name},\"dtype\":\"{}\",\"shape\":{shape},{content}}}", tensor.dtype())
    });
    format!("{{\"device\":{},\"outputs\":{}}}\n", json::string(device.name()), json::list(outputs))
}

fn json_number(value: Scalar) -> String {
    if value.to_f64().is_finite() { value.to_string() } else { json::string(&value.to_string()) }
}
