//! [`Log`]: a log file with one line for each epoch.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::callback::Callback;
use super::fit::{Epoch, Progress};
use super::reading::Reading;
use crate::error::Error;
use crate::files::{can_be_written, special, write_whole};

/// Writes a line for each epoch: JSON, or CSV if the file's name ends in `.csv`. The file is
/// created with its first line. Each line is written completely or, on an error, not at all. A
/// process that is killed while it writes can leave an incomplete last line, because Linux cuts
/// such a write at the end of a page. [`Log::new`] with `append` removes it.
pub struct Log {
    path: PathBuf,
    /// An open pipe or device.
    special: Option<File>,
    /// The content before the next line, until it is written.
    before: Option<String>,
    /// The numbers of the epochs in the file, from 1.
    known: HashSet<usize>,
    /// Whether to add epochs of the resumed run to the file.
    append: bool,
    /// Whether the file lacks some of them.
    behind: bool,
    /// The header line of a CSV file.
    header: Option<String>,
}

impl Log {
    /// Makes a log that replaces the file's content with the first epoch, or with `append` extends
    /// it. `append` adds the epochs of a resumed run that the file lacks, with 0 seconds, and
    /// removes an incomplete last line.
    ///
    /// # Errors
    /// [`Error::Write`] if the file cannot be written, [`Error::Data`] if it cannot be read.
    pub fn new(path: impl Into<PathBuf>, append: bool) -> Result<Log, Error> {
        let path = path.into();
        let failed = |source| Error::Write { path: path.clone(), source };
        let special = special(&path).map_err(failed)?;
        let mut before = String::new();
        if special.is_none() {
            can_be_written(&path).map_err(failed)?;
            before = if append { read(&path)? } else { before };
        }
        before.truncate(before.rfind('\n').map_or(0, |end| end + 1));
        // A spreadsheet program may have added a byte order mark.
        let header = before.trim_start_matches('\u{feff}').lines().next().map(str::to_owned);
        let known = before.lines().filter_map(|line| number(line, is_table(&path))).collect();
        Ok(Log { path, special, before: Some(before), known, append, behind: false, header })
    }

    fn line(&mut self, epoch: &Epoch) -> Result<String, Error> {
        if is_table(&self.path) { self.row(epoch) } else { Ok(object(epoch)) }
    }

    /// Formats an epoch as CSV, with the header before the first one.
    fn row(&mut self, epoch: &Epoch) -> Result<String, Error> {
        let (mut header, mut row) = ("epoch".to_owned(), (epoch.epoch + 1).to_string());
        for (name, value) in epoch.results() {
            header += &format!(",{name}");
            row += &match value {
                Reading::Number(value) => format!(",{value}"),
                list => format!(",\"{list}\""),
            };
        }
        header += ",seconds";
        row += &format!(",{:.3}\n", epoch.seconds);
        match &self.header {
            Some(before) if *before != header => {
                let what = format!(
                    "its columns are {before}, and those of this run {header}: log to another file"
                );
                Err(Error::data(format!("{}: {what}", self.path.display())))
            }
            Some(_) => Ok(row),
            None => {
                self.header = Some(header.clone());
                Ok(header + "\n" + &row)
            }
        }
    }

    fn write(&mut self, line: &str) -> Result<(), Error> {
        let written = match (&mut self.special, &self.before) {
            (Some(file), _) => file.write_all(line.as_bytes()),
            (None, None) => append(&self.path, line.as_bytes()),
            (None, Some(before)) => write_whole(&self.path, |file| {
                file.write_all(before.as_bytes()).and_then(|()| file.write_all(line.as_bytes()))
            }),
        };
        written.map_err(|source| Error::Write { path: self.path.clone(), source })?;
        self.before = None;
        Ok(())
    }
}

impl Callback for Log {
    fn resumed(&mut self, epoch: &Epoch) {
        if !self.append || self.known.contains(&(epoch.epoch + 1)) {
            return;
        }
        // A different header is reported with the next epoch.
        if let Ok(line) = self.line(epoch)
            && let Some(before) = &mut self.before
        {
            before.push_str(&line);
            self.behind = true;
        }
    }

    fn begin(&mut self) -> Result<(), Error> {
        if self.special.is_none() && std::mem::take(&mut self.behind) {
            self.write("")
        } else {
            Ok(())
        }
    }

    fn epoch(&mut self, _: &mut Progress, epoch: &Epoch) -> Result<(), Error> {
        let line = self.line(epoch)?;
        self.write(&line)
    }
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "csv")
}

fn read(path: &Path) -> Result<String, Error> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| Error::read(path, error)),
    }
}

/// Returns the epoch number of a line, from 1.
fn number(line: &str, is_table: bool) -> Option<usize> {
    if is_table {
        return line.split(',').next()?.parse().ok();
    }
    usize::try_from(serde_json::from_str::<Value>(line).ok()?.get("epoch")?.as_u64()?).ok()
}

/// Formats an epoch as JSON. Numbers that are not finite are null.
fn object(epoch: &Epoch) -> String {
    let mut object = Map::new();
    for (name, value) in epoch.results() {
        object.insert(name, (&value).into());
    }
    object.insert("epoch".into(), (epoch.epoch + 1).into());
    object.insert("seconds".into(), epoch.seconds.into());
    Value::Object(object).to_string() + "\n"
}

/// Appends a line to a file. On an error, such as a full disk, it removes the partial line.
fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    let length = file.metadata()?.len();
    let mut written = 0;
    while written < line.len() {
        let result = match file.write(&line[written..]) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            result => result,
        };
        match result {
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // Another process may have appended meanwhile.
                if file.metadata()?.len() == length + written as u64 {
                    file.set_len(length)?;
                }
                return Err(error);
            }
        }
    }
    Ok(())
}
