//! A Tile file that was read and checked, and what is wrong with it in later phases.

use std::path::{Path, PathBuf};

use tile_lang::diagnostic::Diagnostic;
use tile_runtime::{Device, Error, Model, Network};

use crate::arguments::Sizes;
use crate::terminal::{Failure, Terminal};

/// A file whose program is in order.
pub struct Source<'t> {
    pub path: PathBuf,
    pub text: String,
    pub model: Model,
    terminal: &'t Terminal,
}

/// Whether a word that may be something else names a file: by its form, or because there is one.
pub fn is_meant_as_a_file(path: &Path) -> bool {
    path.extension().is_some() || path.components().count() > 1 || path.exists()
}

impl<'t> Source<'t> {
    /// Reads and checks a file and those that it imports; prints its warnings.
    pub fn load(path: &Path, terminal: &'t Terminal) -> Result<Source<'t>, Failure> {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx")) {
            let model = Model::open_onnx(path).map_err(|error| terminal.failure(&error, path))?;
            return Ok(Source { path: path.to_path_buf(), text: String::new(), model, terminal });
        }
        Source::of(path, read(path)?, terminal)
    }

    /// Checks the text of a file, and reads and checks what it imports; prints its warnings.
    pub fn of(path: &Path, text: String, terminal: &'t Terminal) -> Result<Source<'t>, Failure> {
        let load = |path: &str| std::fs::read_to_string(path).ok();
        let model = Model::compile_file(&path.to_string_lossy(), &text, &load);
        let model = model.map_err(|error| terminal.failure(&error, path))?;
        terminal.warn(model.sources(), model.warnings());
        Ok(Source { path: path.to_path_buf(), text, model, terminal })
    }

    /// The network of an ONNX file; sizes that nothing gives are 1.
    pub fn onnx_network(&self, sizes: &Sizes) -> Result<Network, Failure> {
        let device = Device::cpu();
        let sizes = sizes.with_assumed(&self.model, self.terminal);
        sizes.apply(self.model.on(&device)).network().map_err(|error| self.failed(&error))
    }

    /// What the runtime reports of this program.
    pub fn failed(&self, error: &Error) -> Failure {
        self.terminal.failure(error, &self.path)
    }

    /// What is wrong with the program or its sizes.
    pub fn rejected(&self, diagnostics: &[Diagnostic]) -> Failure {
        self.terminal.rejected(self.model.sources(), diagnostics)
    }

    /// What is wrong with what was given, or not, for an input of an entry: points at the input in the header. `help` may be empty.
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

/// The text of a file.
pub fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::reading(path, &error))
}
