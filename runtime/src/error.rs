//! The errors of this crate.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tile_compiler::dtype::DType;
use tile_compiler::onnx::OnnxError;
use tile_compiler::tensor::TensorType;
use tile_lang::Sources;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::did_you_mean;

use crate::data::npy::NpyError;
use crate::weights::WeightsError;

/// An error of this crate. `Display` describes it in one sentence with the names and sizes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program has errors, or does not fit the given shapes and constants.
    Program { sources: Sources, diagnostics: Vec<Diagnostic> },
    /// A required input is missing.
    MissingInput { name: String, expected: TensorType },
    /// A given tensor is neither an input nor a weight of the program.
    UnknownInput { name: String, inputs: Vec<String>, weights: Vec<String> },
    /// The program has no output of this name, or the output was already removed.
    UnknownOutput { name: String, outputs: Vec<String> },
    /// An input has another type or shape than the session was built for.
    WrongInput { name: String, expected: TensorType, given: TensorType },
    /// A required weight has no value yet.
    MissingWeight { path: String, expected: TensorType },
    /// A weight has another type or shape than the session was built for.
    WrongWeight { path: String, expected: TensorType, given: TensorType },
    /// A file of weights cannot be read or has an unknown format, or its weights do not fit the
    /// program.
    Weights(WeightsError),
    /// There is no device of this name.
    NoDevice { name: String, reason: String },
    /// The device has too little free memory.
    OutOfMemory { device: String, what: String },
    /// The device stopped working: it was destroyed, removed or reset, or ran for too long. Every
    /// later use returns the same error. A newly opened device works, with new sessions.
    DeviceLost { device: String, reason: String },
    /// Another failure of the device or its driver.
    Device { device: String, doing: String, source: Source },
    /// A fault of this software, such as a kernel that the kernel checker rejects.
    Internal { what: String },
    /// A `.npy` file cannot be read.
    Npy(NpyError),
    /// An ONNX file cannot be read, is invalid or unsupported, or does not fit the given values.
    /// Has one sentence for each fault.
    Onnx { what: Vec<String> },
    /// A file cannot be written.
    Write { path: PathBuf, source: io::Error },
    /// The data for training or evaluation do not fit the program, or are damaged.
    Data { what: String },
    /// A file cannot be read. `source` has the reason.
    Read { path: PathBuf, source: Source },
}

/// The cause of an error.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// The party that can fix an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The user: the program, its sizes or the given values are at fault. The command line exits
    /// with code 1.
    Input,
    /// The device or the machine. The command line exits with code 3.
    Machine,
}

impl Blame {
    /// Classifies an error of writing a file. A missing folder or permission is [`Blame::Input`],
    /// since the user chose the path. Any other error, such as a full disk, is [`Blame::Machine`].
    pub fn of_writing(error: &io::Error) -> Blame {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound
            | Kind::PermissionDenied
            | Kind::NotADirectory
            | Kind::IsADirectory
            | Kind::InvalidFilename
            | Kind::InvalidInput
            | Kind::ReadOnlyFilesystem
            | Kind::Unsupported => Blame::Input,
            _ => Blame::Machine,
        }
    }
}

impl Error {
    pub fn blame(&self) -> Blame {
        match self {
            Error::Write { source, .. } => Blame::of_writing(source),
            Error::Program { .. }
            | Error::MissingInput { .. }
            | Error::UnknownInput { .. }
            | Error::UnknownOutput { .. }
            | Error::WrongInput { .. }
            | Error::MissingWeight { .. }
            | Error::WrongWeight { .. }
            | Error::Weights(_)
            | Error::Npy(_)
            | Error::Onnx { .. }
            | Error::Data { .. }
            | Error::Read { .. } => Blame::Input,
            Error::NoDevice { .. }
            | Error::OutOfMemory { .. }
            | Error::DeviceLost { .. }
            | Error::Device { .. }
            | Error::Internal { .. } => Blame::Machine,
        }
    }

    /// Renders the error as text for a person. For a program, renders its diagnostics with excerpts
    /// of the source, where the main file is called `name`, in terminal colours if `color` is true.
    /// For any other error, returns the sentence and a newline.
    pub fn render(&self, name: &str, color: bool) -> String {
        match self {
            Error::Program { sources, diagnostics } => {
                tile_lang::render(diagnostics, &sources.clone().named(name), color)
            }
            Error::Onnx { what } => what.iter().map(|what| format!("error: {name}: {what}\n")).collect(),
            _ => format!("error: {self}\n"),
        }
    }

    pub(crate) fn data(what: String) -> Error {
        Error::Data { what }
    }

    pub(crate) fn read(path: &Path, source: impl Into<Source>) -> Error {
        Error::Read { path: path.to_owned(), source: source.into() }
    }

    /// Returns the error for a tensor that the plan's storage type cannot hold.
    pub(crate) fn unstorable(ty: &TensorType, storage: DType) -> Error {
        Error::Internal { what: format!("{ty} is to be stored as {storage}") }
    }
}

impl From<OnnxError> for Error {
    fn from(OnnxError(what): OnnxError) -> Error {
        Error::Onnx { what }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Program { diagnostics, .. } => {
                let mut messages = diagnostics.iter().filter(|d| d.is_error()).map(|d| d.message.as_str());
                let first = messages.next().unwrap_or("the program is wrong");
                match messages.count() {
                    0 => f.write_str(first),
                    more => write!(f, "{first} (and {more} more errors)"),
                }
            }
            Error::Onnx { what } => f.write_str(&what.join("\n")),
            Error::MissingInput { name, expected } => write!(f, "input `{name}` is missing; it is {expected}"),
            Error::UnknownInput { name, inputs, weights } => {
                let or_weight = if weights.is_empty() { "" } else { " or weight" };
                write!(f, "there is no input{or_weight} `{name}`")?;
                match did_you_mean(name, inputs.iter().chain(weights).map(String::as_str)) {
                    Some(guess) if !weights.is_empty() => write!(f, "; {guess}"),
                    _ if inputs.is_empty() => write!(f, ": the program has no inputs"),
                    _ => write!(f, "; the inputs are {}", inputs.join(", ")),
                }
            }
            Error::UnknownOutput { name, outputs } => {
                write!(f, "unknown output `{name}`")?;
                match did_you_mean(name, outputs.iter().map(String::as_str)) {
                    Some(guess) => write!(f, "; {guess}"),
                    None if outputs.is_empty() => write!(f, ": there are no outputs left"),
                    None => write!(f, "; the outputs are {}", outputs.join(", ")),
                }
            }
            Error::WrongInput { name, expected, given } => {
                write!(f, "input `{name}` must be {expected}, but is {given}")
            }
            Error::MissingWeight { path, expected } => write!(f, "weight `{path}` has no value yet; it is {expected}"),
            Error::WrongWeight { path, expected, given } => {
                write!(f, "weight `{path}` must be {expected}, but is {given}")
            }
            Error::Weights(error) => error.fmt(f),
            Error::NoDevice { name, reason } => write!(f, "there is no device `{name}`: {reason}"),
            Error::OutOfMemory { device, what } => write!(f, "{device} has too little memory left for {what}"),
            Error::DeviceLost { device, reason } => write!(f, "{device} was lost: {reason}"),
            Error::Device { device, doing, source } => write!(f, "{device} failed {doing}: {source}"),
            Error::Internal { what } => write!(f, "internal error, please report it: {what}"),
            Error::Npy(error) => error.fmt(f),
            Error::Write { path, source } => write!(f, "cannot write {}: {source}", path.display()),
            Error::Data { what } => f.write_str(what),
            Error::Read { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Device { source, .. } | Error::Read { source, .. } => Some(source.as_ref()),
            Error::Npy(error) => Some(error),
            Error::Weights(error) => Some(error),
            Error::Write { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<NpyError> for Error {
    fn from(error: NpyError) -> Error {
        Error::Npy(error)
    }
}
