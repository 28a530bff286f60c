//! The errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use tile_compiler::dtype::DType;
use tile_compiler::tensor::TensorType;
use tile_lang::Sources;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{did_you_mean, listed};

use crate::files::npy::NpyError;
use crate::files::{reason_of_reading, reason_of_writing};

/// An error of this crate. `Display` describes it in one sentence with the names and sizes.
///
/// ```
/// use tile_runtime::{Blame, Device, Error, Model};
///
/// let error = Model::load("missing.tile").unwrap_err();
/// assert!(matches!(error, Error::Read { .. }));
/// assert_eq!(error.blame(), Blame::Input);
///
/// let model = Model::compile("function f(X[N]) -> (Y) { Y = 2 * X; }")?;
/// let mut session = model.on(&Device::cpu()).dim("N", 2).build()?;
/// let error = session.execute().unwrap_err();
/// assert_eq!(error.to_string(), "input `X` is missing; it is f32[2]");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program has errors, or does not fit the given shapes and constants.
    #[error("{}", program(diagnostics))]
    Program {
        /// The texts that the diagnostics point into.
        sources: Sources,
        /// The errors and warnings, in the order of the text.
        diagnostics: Vec<Diagnostic>,
    },
    /// A required input is missing.
    #[error("input `{name}` is missing; it is {expected}")]
    MissingInput {
        /// The name of the input.
        name: String,
        /// The type that the session was built for.
        expected: TensorType,
    },
    /// A given tensor is neither an input nor a weight of the program.
    #[error("{}", unknown_input(name, inputs, weights))]
    UnknownInput {
        /// The given name.
        name: String,
        /// The names of the inputs.
        inputs: Vec<String>,
        /// The paths of the weights.
        weights: Vec<String>,
    },
    /// The program has no output of this name, or the output was already removed.
    #[error("{}", unknown_output(name, outputs))]
    UnknownOutput {
        /// The given name.
        name: String,
        /// The names of the outputs.
        outputs: Vec<String>,
    },
    /// An input has another type or shape than the session was built for.
    #[error("input `{name}` must be {expected}, but is {given}")]
    WrongInput {
        /// The name of the input.
        name: String,
        /// The type that the session was built for.
        expected: TensorType,
        /// The type of the given value.
        given: TensorType,
    },
    /// The memory for an output has another type or size than the output.
    #[error("output `{name}` is {expected}, but is to go to {given}")]
    WrongOutput {
        /// The name of the output.
        name: String,
        /// The type of the output.
        expected: TensorType,
        /// The type of the given memory.
        given: TensorType,
    },
    /// A run was given memory for an output twice.
    #[error("output `{name}` is named twice")]
    RepeatedOutput {
        /// The name of the output.
        name: String,
    },
    /// The last run wrote the output to memory of the app.
    #[error("output `{name}` is not in the session: the last run wrote it to memory of the app")]
    LentOutput {
        /// The name of the output.
        name: String,
    },
    /// A required weight has no value yet.
    #[error("weight `{path}` has no value yet; it is {expected}")]
    MissingWeight {
        /// The path of the weight.
        path: String,
        /// Its type.
        expected: TensorType,
    },
    /// A weight has another type or shape than the session was built for.
    #[error("weight `{path}` must be {expected}, but is {given}")]
    WrongWeight {
        /// The path of the weight.
        path: String,
        /// The type that the session was built for.
        expected: TensorType,
        /// The type of the given value.
        given: TensorType,
    },
    /// A file of weights cannot be read or has an unknown format, or its weights do not fit the
    /// program.
    #[error(transparent)]
    Weights(WeightsError),
    /// A buffer or texture of the app does not suit an input or output, or the session's device has
    /// none.
    #[error("cannot bind `{name}`: {what}")]
    Bind {
        /// The name of the input or output.
        name: String,
        /// The reason, as a part of a sentence.
        what: String,
    },
    /// There is no device of this name.
    #[error("there is no device `{name}`: {reason}")]
    NoDevice {
        /// The given name.
        name: String,
        /// The reason, as a part of a sentence.
        reason: String,
    },
    /// The device has too little free memory.
    #[error("{device} has too little memory left for {what}")]
    OutOfMemory {
        /// The name of the device.
        device: String,
        /// The use of the memory, as a part of a sentence.
        what: String,
    },
    /// The device stopped working: it was destroyed, removed or reset, or ran for too long. Every
    /// later use returns the same error. A newly opened device works, with new sessions.
    #[error("{device} was lost: {reason}")]
    DeviceLost {
        /// The name of the device.
        device: String,
        /// The reason that the driver gives.
        reason: String,
    },
    /// Another failure of the device or its driver.
    #[error("{device} failed {doing}: {source}")]
    Device {
        /// The name of the device.
        device: String,
        /// The action that failed, as a part of a sentence.
        doing: String,
        /// The error of the driver.
        source: Source,
    },
    /// A fault of this software, such as a kernel that the kernel checker rejects.
    #[error("internal error, please report it: {what}")]
    Internal {
        /// A description of the fault.
        what: String,
        /// The underlying error, if there is one.
        source: Option<Source>,
    },
    /// A `.npy` file cannot be read.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// An ONNX file cannot be read, is invalid or unsupported, or does not fit the given values.
    /// Has one sentence for each fault.
    #[error("{}", what.join("\n"))]
    Onnx {
        /// The faults, one sentence each.
        what: Vec<String>,
    },
    /// A pack cannot be read, or does not fit what a session is built for.
    #[error("{what}")]
    Pack {
        /// The fault, as a sentence.
        what: String,
    },
    /// A Keras model cannot be read, or has layers or options that the library lacks. Has one
    /// sentence for each fault.
    #[error("{}", what.join("\n"))]
    Keras {
        /// The faults, one sentence each.
        what: Vec<String>,
    },
    /// A kernel cannot be written in a shading language.
    #[cfg(feature = "listing")]
    #[error(transparent)]
    Emit(tile_compiler::emit::EmitError),
    /// A file cannot be written.
    #[error("cannot write {}: {}", path.display(), reason_of_writing(path, source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The data for training or evaluation do not fit the program, or are damaged.
    #[error("{what}")]
    Data {
        /// The fault, as a sentence.
        what: String,
    },
    /// A file cannot be read. `source` has the reason.
    #[error("{}: {}", path.display(), reason_of_reading(path, source.as_ref()))]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system or of a decoder.
        source: Source,
    },
}

/// The cause of an error.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a file of weights cannot be read or written.
///
/// ```
/// use tile_runtime::weights::WeightsFile;
///
/// let error = WeightsFile::open("missing.npz").err().unwrap();
/// assert_eq!(error.path, "missing.npz");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}")]
#[non_exhaustive]
pub struct WeightsError {
    /// The file.
    pub path: String,
    /// The fault, as a part of a sentence.
    pub what: String,
    /// The underlying error, if there is one.
    pub source: Option<Source>,
}

/// The party that can fix an error.
///
/// ```
/// use tile_runtime::{Blame, Device};
///
/// let error = Device::named("abacus").err().unwrap();
/// assert_eq!(error.blame(), Blame::Machine);
/// ```
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
    /// Returns the party that can fix the error.
    pub fn blame(&self) -> Blame {
        match self {
            Error::Write { source, .. } => Blame::of_writing(source),
            #[cfg(feature = "listing")]
            Error::Emit(_) => Blame::Input,
            Error::Program { .. }
            | Error::MissingInput { .. }
            | Error::UnknownInput { .. }
            | Error::UnknownOutput { .. }
            | Error::WrongInput { .. }
            | Error::WrongOutput { .. }
            | Error::RepeatedOutput { .. }
            | Error::LentOutput { .. }
            | Error::Bind { .. }
            | Error::MissingWeight { .. }
            | Error::WrongWeight { .. }
            | Error::Weights(_)
            | Error::Npy(_)
            | Error::Onnx { .. }
            | Error::Keras { .. }
            | Error::Pack { .. }
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
    #[cfg_attr(not(feature = "compile"), expect(unused_variables, reason = "nothing is excerpted"))]
    pub fn render(&self, name: &str, color: bool) -> String {
        match self {
            #[cfg(feature = "compile")]
            Error::Program { sources, diagnostics } => {
                tile_lang::render(diagnostics, &sources.clone().named(name), color)
            }
            Error::Onnx { what } | Error::Keras { what } => {
                what.iter().map(|what| format!("error: {name}: {what}\n")).collect()
            }
            _ => format!("error: {self}\n"),
        }
    }

    /// Returns the error for a fault of this software.
    pub fn internal(what: impl Into<String>) -> Error {
        Error::Internal { what: what.into(), source: None }
    }

    /// Returns the error for a fault of this software that showed as another error.
    pub(crate) fn bug(source: impl Into<Source>) -> Error {
        let source = source.into();
        Error::Internal { what: source.to_string(), source: Some(source) }
    }

    pub(crate) fn data(what: String) -> Error {
        Error::Data { what }
    }

    pub(crate) fn read(path: &Path, source: impl Into<Source>) -> Error {
        Error::Read { path: path.to_owned(), source: source.into() }
    }

    /// Returns the error for a tensor that the plan's storage type cannot hold.
    pub(crate) fn unstorable(ty: &TensorType, storage: DType) -> Error {
        Error::internal(format!("{ty} is to be stored as {storage}"))
    }
}

/// Returns the first error of a program, and the number of the others.
fn program(diagnostics: &[Diagnostic]) -> String {
    let mut messages = diagnostics.iter().filter(|d| d.is_error()).map(|d| d.message.as_str());
    let first = messages.next().unwrap_or("the program is wrong");
    match messages.count() {
        0 => first.to_owned(),
        more => format!("{first} (and {more} more errors)"),
    }
}

fn unknown_input(name: &str, inputs: &[String], weights: &[String]) -> String {
    let or_weight = if weights.is_empty() { "" } else { " or weight" };
    let unknown = format!("there is no input{or_weight} `{name}`");
    match did_you_mean(name, inputs.iter().chain(weights).map(String::as_str)) {
        Some(guess) if !weights.is_empty() => format!("{unknown}; {guess}"),
        _ if inputs.is_empty() => format!("{unknown}: the program has no inputs"),
        _ => format!("{unknown}; the inputs are {}", listed(inputs)),
    }
}

fn unknown_output(name: &str, outputs: &[String]) -> String {
    let unknown = format!("unknown output `{name}`");
    match did_you_mean(name, outputs.iter().map(String::as_str)) {
        Some(guess) => format!("{unknown}; {guess}"),
        None if outputs.is_empty() => format!("{unknown}: there are no outputs left"),
        None => format!("{unknown}; the outputs are {}", listed(outputs)),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use tile_compiler::interpret;

    use super::*;

    #[test]
    fn causes_are_kept() {
        let cause = interpret::Error::Missing { name: "X".into() };
        let bug = Error::bug(cause.clone());
        assert_eq!(bug.to_string(), "internal error, please report it: X is missing");
        assert_eq!(bug.source().unwrap().downcast_ref(), Some(&cause));
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let weights = WeightsError {
            path: "w.npz".into(),
            what: "gone".into(),
            source: Some(missing().into()),
        };
        for error in [
            Error::read(Path::new("x"), missing()),
            Error::Write { path: "x".into(), source: missing() },
            Error::Weights(weights),
            Error::Npy(missing().into()),
        ] {
            let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
            assert_eq!(cause.kind(), io::ErrorKind::NotFound, "{error}");
        }
    }
}
