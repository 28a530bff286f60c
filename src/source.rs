//! A Tile or ONNX file that was read and checked, and the reports of later errors in it.

use std::path::{Path, PathBuf};

use tile_lang::diagnostic::Diagnostic;
use tile_runtime::{Device, Error, Imports, Model, Network, read_program};

use crate::inputs::Inputs;
use crate::terminal::{Failure, Terminal};

/// A file with a valid program.
pub struct Source<'t> {
    pub path: PathBuf,
    pub text: String,
    pub model: Model,
    terminal: &'t Terminal,
}

/// Returns whether a word means a file, by its form or because such a file exists.
pub fn is_meant_as_a_file(path: &Path) -> bool {
    path.extension().is_some() || path.components().count() > 1 || path.exists()
}

impl<'t> Source<'t> {
    /// Reads and checks a file and its imports. Prints warnings.
    pub fn load(path: &Path, terminal: &'t Terminal) -> Result<Source<'t>, Failure> {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx")) {
            let model = Model::open_onnx(path).map_err(|error| terminal.failure(&error, path))?;
            return Ok(Source { path: path.to_path_buf(), text: String::new(), model, terminal });
        }
        Source::of(path, read(path)?, terminal)
    }

    /// Checks the text of a file, and reads and checks its imports. Prints warnings.
    pub fn of(path: &Path, text: String, terminal: &'t Terminal) -> Result<Source<'t>, Failure> {
        let imports = terminal.allowed_imports.iter().fold(Imports::of(path), Imports::allow);
        let model = Model::compile_file(&path.to_string_lossy(), &text, &|path| imports.load(path));
        let model = model.map_err(|error| terminal.failure(&error, path))?;
        terminal.warn(model.sources(), model.warnings());
        Ok(Source { path: path.to_path_buf(), text, model, terminal })
    }

    /// Returns the network of an ONNX file. Sizes without a value are 1.
    pub fn onnx_network(&self, inputs: &Inputs) -> Result<Network, Failure> {
        let device = Device::cpu();
        let inputs = inputs.with_assumed(&self.model, self.terminal);
        let builder = inputs.builder(self, &device, &inputs.read(self)?)?;
        builder.network().map_err(|error| self.failed(&error))
    }

    /// Converts an error of the runtime in this program.
    pub fn failed(&self, error: &Error) -> Failure {
        self.terminal.failure(error, &self.path)
    }

    /// Converts diagnostics of the program or its sizes.
    pub fn rejected(&self, diagnostics: &[Diagnostic]) -> Failure {
        self.terminal.rejected(self.model.sources(), diagnostics)
    }

    /// Reports a wrong or missing value of the entry's input `input`, at the input in the header.
    /// `help` may be empty.
    pub fn wrong_input(&self, entry: Option<&str>, input: &str, code: &'static str, what: &str, help: &str) -> Failure {
        if self.model.is_onnx() {
            let help = if help.is_empty() { String::new() } else { format!(" ({help})") };
            return Failure::input(format!("{}: {what}{help}", self.path.display()));
        }
        let diagnostic = match self.model.program().entry(entry) {
            Ok(function) => {
                let found = function.inputs.iter().find(|candidate| candidate.name.name == input);
                let span = found.map_or(function.span, |input| input.span);
                let error = Diagnostic::error(code, span, what);
                if help.is_empty() { error } else { error.help(help) }
            }
            Err(no_such_entry) => no_such_entry,
        };
        self.rejected(&[diagnostic])
    }
}

/// Reads the text of a file.
pub fn read(path: &Path) -> Result<String, Failure> {
    read_program(path).map_err(|error| Failure::reading(path, &error))
}
