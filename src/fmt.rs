//! `tilec fmt FILE...`: formats files in place.

use std::path::{Path, PathBuf};

use tile_lang::Sources;

use crate::source::read;
use crate::terminal::{Failure, Terminal, print, write_file};

#[derive(clap::Args)]
pub struct Fmt {
    /// Tile files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Change nothing; print the names of unformatted files, and fail if there are any
    #[arg(long)]
    check: bool,
}

/// Formats every file, also after one with errors. A file with syntax errors is left as it is.
pub fn fmt(arguments: &Fmt, terminal: &Terminal) -> Result<(), Failure> {
    let failures =
        arguments.files.iter().filter_map(|file| fmt_file(file, arguments.check, terminal).err());
    failures.reduce(Failure::and).map_or(Ok(()), Err)
}

fn fmt_file(file: &Path, check: bool, terminal: &Terminal) -> Result<(), Failure> {
    let text = read(file)?;
    let formatted = tile_lang::format(&text).map_err(|errors| {
        terminal.rejected(&Sources::new(file.to_string_lossy(), text.as_str()), &errors)
    })?;
    if formatted == text {
        Ok(())
    } else if check {
        print(format!("{}\n", file.display()).as_bytes())?;
        Err(Failure::input(format!("{} is not formatted", file.display())))
    } else {
        terminal.detail(&format!("formatted {}", file.display()));
        write_file(file, formatted)
    }
}
