//! `tilec check FILE...`: parses and checks files, without shapes.

use std::path::PathBuf;

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
    let failures = arguments.files.iter().filter_map(|file| Source::load(file, terminal).err());
    failures.reduce(Failure::and).map_or(Ok(()), Err)
}
