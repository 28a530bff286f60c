//! `tilec check FILE...`: parses and checks files, and lowers their models and layers with assumed
//! sizes.

use std::path::{Path, PathBuf};

use crate::source::Source;
use crate::terminal::{Failure, Terminal};

#[derive(clap::Args)]
pub struct Check {
    /// Tile files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Checks every file, also after one with errors.
pub fn check(arguments: &Check, terminal: &Terminal) -> Result<(), Failure> {
    let failures = arguments.files.iter().filter_map(|file| check_file(file, terminal).err());
    failures.reduce(Failure::and).map_or(Ok(()), Err)
}

fn check_file(file: &Path, terminal: &Terminal) -> Result<(), Failure> {
    let source = Source::open(file, terminal)?;
    terminal.warn(source.model.sources(), source.model.warnings());
    source.model.check().map_err(|error| source.failed(&error))
}
