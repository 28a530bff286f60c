//! [`Imports`]: the files that a Tile program may import.

mod kind;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use tile_lang::{Imported, normal};

use self::kind::other_kind;
use super::open_file;

/// The most bytes of a program's text.
const LONGEST: u64 = 1 << 26;

/// The files that a program may import: regular files below the folder of its main file or below
/// other allowed folders, after following links.
///
/// ```
/// use tile_lang::Imported;
/// use tile_runtime::Imports;
///
/// let imports = Imports::of("app/main.tile");
/// assert!(matches!(imports.load("../../secret.tile"), Imported::Refused { .. }));
/// ```
#[derive(Clone, Debug)]
pub struct Imports {
    /// The folder of the main file.
    folder: PathBuf,
    allowed: Vec<PathBuf>,
}

impl Imports {
    /// Returns the imports of the program with this main file.
    pub fn of(main: impl AsRef<Path>) -> Imports {
        let folder = normal(main.as_ref()).parent().map(Path::to_path_buf).unwrap_or_default();
        Imports { folder, allowed: Vec::new() }
    }

    /// Allows imports from below another folder.
    pub fn allow(mut self, folder: impl Into<PathBuf>) -> Imports {
        self.allowed.push(folder.into());
        self
    }

    /// Reads the file at a path from [`tile_lang::check_file`], or returns the reason for refusing
    /// it.
    pub fn load(&self, path: &str) -> Imported {
        let full = self.full(path);
        let outside = || Imported::Refused {
            why: "it is outside of the program's folder".to_owned(),
            help: "pass `--allow-import DIR` to allow imports from below another folder".to_owned(),
        };
        let refused = |why: String| Imported::Refused {
            why,
            help: "import a file of text in UTF-8".to_owned(),
        };
        match full.canonicalize() {
            Ok(full) if self.has(&full) => match open_file(&full).and_then(text) {
                Ok(text) => Imported::Text(text),
                Err(error) => refused(error.to_string()),
            },
            Ok(_) => outside(),
            // The message must not reveal which files exist outside.
            Err(_) if !self.would_have(&full) => outside(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Imported::Missing,
            Err(error) => refused(error.to_string()),
        }
    }

    /// Returns the path with the main file's original folder, which may be non-Unicode.
    fn full(&self, path: &str) -> PathBuf {
        let mut rest = Path::new(path).components();
        let mut full = PathBuf::new();
        for component in self.folder.components() {
            let given = component.as_os_str().to_string_lossy();
            if rest.clone().next().map(Component::as_os_str) != Some(OsStr::new(&*given)) {
                break;
            }
            rest.next();
            full.push(component);
        }
        full.join(rest.as_path())
    }

    fn folders(&self) -> impl Iterator<Item = &Path> {
        let own = if self.folder.as_os_str().is_empty() { Path::new(".") } else { &self.folder };
        [own].into_iter().chain(self.allowed.iter().map(PathBuf::as_path))
    }

    /// Returns whether a path without links is below one of the folders.
    fn has(&self, full: &Path) -> bool {
        self.folders()
            .any(|folder| folder.canonicalize().is_ok_and(|folder| full.starts_with(folder)))
    }

    /// Returns whether the path of a missing file is below one of the folders.
    fn would_have(&self, full: &Path) -> bool {
        let absolute = |path: &Path| std::path::absolute(path).map(|path| normal(&path)).ok();
        let full = absolute(full);
        self.folders().any(|folder| {
            let known = [absolute(folder), folder.canonicalize().ok()];
            known
                .iter()
                .flatten()
                .any(|folder| full.as_ref().is_some_and(|full| full.starts_with(folder)))
        })
    }
}

/// Reads the text of a program that a user names, possibly from a pipe.
///
/// # Errors
/// Includes texts longer than 64 MiB or not in UTF-8. Other kinds of files, such as pictures and
/// weights, are named.
pub fn read_program(path: impl AsRef<Path>) -> io::Result<String> {
    text(File::open(path)?)
}

fn text(file: File) -> io::Result<String> {
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 64 MiB"));
    }
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if let Some(what) = other_kind(&text) {
        return Err(invalid(what));
    }
    String::from_utf8(text).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        invalid(format!("line {line} is not in UTF-8: save it as UTF-8"))
    })
}

#[cfg(test)]
mod tests;
