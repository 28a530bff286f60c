//! A Tile file, ONNX file or pack that was read and checked, and the reports of later errors in it.

use std::path::{Path, PathBuf};

use tile_lang::diagnostic::Diagnostic;
use tile_runtime::{Device, Error, Imports, Model, Network, read_program};

use crate::arguments::Sizes;
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
    /// Reads a pack, or does the same as [`Source::load`].
    pub fn load_packed(
        path: &Path,
        entry: Option<&str>,
        terminal: &'t Terminal,
    ) -> Result<Source<'t>, Failure> {
        match is_pack(path) {
            true => Source::open_pack(path, terminal),
            false => Source::load(path, entry, terminal),
        }
    }

    fn open_pack(path: &Path, terminal: &'t Terminal) -> Result<Source<'t>, Failure> {
        let model = Model::open_pack(path).map_err(|error| terminal.failure(&error, path))?;
        Ok(Source { path: path.to_path_buf(), text: String::new(), model, terminal })
    }

    /// Reads and checks a file and its imports. Prints the warnings about the entry.
    pub fn load(
        path: &Path,
        entry: Option<&str>,
        terminal: &'t Terminal,
    ) -> Result<Source<'t>, Failure> {
        let source = Source::open(path, terminal)?;
        terminal.warn(source.model.sources(), &source.model.warnings_of(entry));
        Ok(source)
    }

    /// Does the same for commands about training. Returns the options with the entry to train: if
    /// none is named, the model with a `train` block.
    pub fn load_trained(
        path: &Path,
        sizes: &Sizes,
        terminal: &'t Terminal,
    ) -> Result<(Source<'t>, Sizes), Failure> {
        let source = Source::open(path, terminal)?;
        let mut sizes = sizes.clone();
        if let (None, Ok(function)) = (&sizes.entry, source.model.program().trained(None)) {
            sizes.entry = function.name.as_ref().map(|name| name.name.clone());
        }
        terminal.warn(source.model.sources(), &source.model.warnings_of(sizes.entry.as_deref()));
        Ok((source, sizes))
    }

    /// Does the same for commands that train or evaluate all models with a `train` block if none is
    /// named. If there are several, the options have no entry.
    pub fn load_in_turn(
        path: &Path,
        sizes: &Sizes,
        terminal: &'t Terminal,
    ) -> Result<(Source<'t>, Sizes), Failure> {
        let source = Source::open(path, terminal)?;
        if sizes.entry.is_none() && source.model.program().trained_in_turn().len() > 1 {
            terminal.warn(source.model.sources(), source.model.warnings());
            return Ok((source, sizes.clone()));
        }
        Source::load_trained(path, sizes, terminal)
    }

    /// Reads and checks a file and its imports. Prints no warnings.
    pub fn open(path: &Path, terminal: &'t Terminal) -> Result<Source<'t>, Failure> {
        if is_pack(path) {
            return Err(Failure::input(format!(
                "{} is a pack, which `run`, `bench`, `predict` and `summary` take: name the file \
                 that it was built from",
                path.display()
            )));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("onnx")) {
            let model = Model::open_onnx(path).map_err(|error| terminal.failure(&error, path))?;
            return Ok(Source { path: path.to_path_buf(), text: String::new(), model, terminal });
        }
        Source::of(path, read(path)?, terminal)
    }

    /// Checks the text of a file, and reads and checks its imports. Prints no warnings.
    pub fn of(path: &Path, text: String, terminal: &'t Terminal) -> Result<Source<'t>, Failure> {
        let imports = terminal.allowed_imports.iter().fold(Imports::of(path), Imports::allow);
        let model = Model::compile_file(&path.to_string_lossy(), &text, &|path| imports.load(path));
        let model = model.map_err(|error| terminal.failure(&error, path))?;
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
        // Diagnostics of a program have its name. A pack has no diagnostics.
        let help = match error {
            _ if self.model.pack().is_none() => return self.terminal.failure(error, &self.path),
            Error::MissingWeight { .. } => ": give it with `--weights FILE`",
            Error::Pack { .. }
            | Error::MissingInput { .. }
            | Error::UnknownInput { .. }
            | Error::WrongInput { .. } => "",
            _ => return self.terminal.failure(error, &self.path),
        };
        Failure::input(format!("{}: {error}{help}", self.path.display()))
    }

    /// Converts diagnostics of the program or its sizes.
    pub fn rejected(&self, diagnostics: &[Diagnostic]) -> Failure {
        self.terminal.rejected(self.model.sources(), diagnostics)
    }

    /// Reports a wrong or missing value of the entry's input `input`, at the input in the header.
    /// `help` may be empty.
    pub fn wrong_input(
        &self,
        entry: Option<&str>,
        input: &str,
        code: &'static str,
        what: &str,
        help: &str,
    ) -> Failure {
        if !self.model.is_program() {
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

/// Returns whether a file is a pack, by its ending.
pub fn is_pack(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tilepack"))
}

/// Reads the text of a file.
pub fn read(path: &Path) -> Result<String, Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!(
            "{} is a folder: name a file that ends in .tile",
            path.display()
        )));
    }
    read_program(path).map_err(|error| Failure::reading(path, &error))
}
