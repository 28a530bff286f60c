//! What can go wrong between a program's text and its results.

use std::fmt;

use tile_compiler::dtype::DType;
use tile_compiler::onnx::OnnxError;
use tile_compiler::tensor::TensorType;
use tile_lang::Sources;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::did_you_mean;

use crate::data::npy::NpyError;
use crate::weights::WeightsError;

/// Every error of this crate. `Display` says in a sentence what is wrong, with the names and sizes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program is wrong, or does not go together with the shapes and constants given for it.
    Program { sources: Sources, diagnostics: Vec<Diagnostic> },
    /// An input that the program needs was not given.
    MissingInput { name: String, expected: TensorType },
    /// A tensor was given that is no input and no weight of the program.
    UnknownInput { name: String, inputs: Vec<String>, weights: Vec<String> },
    /// An input was given with another type or shape than the session was built for.
    WrongInput { name: String, expected: TensorType, given: TensorType },
    /// A weight that the program needs has no value yet.
    MissingWeight { path: String, expected: TensorType },
    /// A weight was given with another type or shape than the session was built for.
    WrongWeight { path: String, expected: TensorType, given: TensorType },
    /// A file of weights could not be read or written, or does not have the program's weights.
    Weights(WeightsError),
    /// There is no device of this name.
    NoDevice { name: String, reason: String },
    /// The device has too little memory left.
    OutOfMemory { device: String, what: String },
    /// The device stopped working: it was removed, reset or ran for too long.
    DeviceLost { device: String, reason: String },
    /// The device or its driver failed otherwise.
    Device { device: String, doing: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// A fault of this software, such as a kernel that the kernel checker refuses.
    Internal { what: String },
    /// A `.npy` file could not be read.
    Npy(NpyError),
    /// An ONNX file could not be read, is wrong or not supported, or does not go together with what was given for it: a sentence each.
    Onnx { what: Vec<String> },
    /// The data to train on or to evaluate are not what the program needs, or cannot be read.
    Data { what: String },
}

/// Who can mend an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The program, its sizes, or what was given to it. The command line exits with 1.
    Input,
    /// The device or the machine. The command line exits with 3.
    Machine,
}

impl Error {
    pub fn blame(&self) -> Blame {
        match self {
            Error::Program { .. }
            | Error::MissingInput { .. }
            | Error::UnknownInput { .. }
            | Error::WrongInput { .. }
            | Error::MissingWeight { .. }
            | Error::WrongWeight { .. }
            | Error::Weights(_)
            | Error::Npy(_)
            | Error::Onnx { .. }
            | Error::Data { .. } => Blame::Input,
            Error::NoDevice { .. }
            | Error::OutOfMemory { .. }
            | Error::DeviceLost { .. }
            | Error::Device { .. }
            | Error::Internal { .. } => Blame::Machine,
        }
    }

    /// The whole text for a person: for a program, whose main file is called `name`, its diagnostics with the lines that they
    /// are about, with terminal colours if `color`; else the sentence and a newline.
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

    /// A tensor that the plan stores in a type that cannot hold it.
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
            Error::Data { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Device { source, .. } => Some(source.as_ref()),
            Error::Npy(error) => std::error::Error::source(error),
            _ => None,
        }
    }
}

impl From<NpyError> for Error {
    fn from(error: NpyError) -> Error {
        Error::Npy(error)
    }
}
