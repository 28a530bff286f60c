//! The reasons why a file cannot be read or written, in the words of its user.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::Path;

use tile_lang::did_you_mean;

/// Returns why the file or folder at `path` cannot be read: `there is no such file`, say, with the
/// file of the nearest name. `error` is the error of the system, or was caused by it.
pub fn reason_of_reading(path: &Path, error: &(dyn Error + 'static)) -> String {
    match system_error(error) {
        Some(ErrorKind::NotFound) => absent(path),
        Some(ErrorKind::IsADirectory) => "this is a folder, and not a file".to_owned(),
        Some(ErrorKind::PermissionDenied) => "you may not read it".to_owned(),
        _ if path.is_dir() => "this is a folder, and not a file".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns why the file at `path` cannot be written.
pub fn reason_of_writing(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => match folder(path) {
            Some(folder) => format!("there is no folder {}", folder.display()),
            None => error.to_string(),
        },
        ErrorKind::IsADirectory => "this is a folder".to_owned(),
        ErrorKind::PermissionDenied => "you may not write it".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns that there is nothing at a path, with what may have been meant.
fn absent(path: &Path) -> String {
    if let Some(folder) = folder(path) {
        return format!("there is no folder {}", folder.display());
    }
    match similar(path) {
        Some(guess) => format!("there is no such file; {guess}"),
        None => "there is no such file".to_owned(),
    }
}

/// Returns the folder of a file if it does not exist.
fn folder(path: &Path) -> Option<&Path> {
    let folder = path.parent()?;
    (!folder.as_os_str().is_empty() && !folder.is_dir()).then_some(folder)
}

/// Returns `did you mean …?` for the file in the same folder whose name is nearest, or is the same
/// with an ending.
fn similar(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?.take(1000).flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    let name = path.file_name()?.to_str()?;
    let is_longer = |other: &&String| Path::new(other).file_stem().is_some_and(|stem| stem == name);
    let is_program = |other: &&String| other.ends_with(".tile");
    let mut longer = names.iter().filter(is_longer);
    match longer.clone().find(is_program).or(longer.next()) {
        Some(longer) => Some(format!("did you mean `{longer}`?")),
        None => did_you_mean(name, names.iter().map(String::as_str)),
    }
}

/// Returns the kind of the system's error that this error is, or was caused by.
fn system_error(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.kind());
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::npy::NpyError;

    #[test]
    fn reasons() {
        let folder =
            std::env::temp_dir().join(format!("tilec-test-{}-reasons", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("points.csv"), "").unwrap();
        let reason = |name: &str| {
            let path = folder.join(name);
            let reason = reason_of_reading(&path, &std::fs::File::open(&path).unwrap_err());
            reason.replace(folder.to_str().unwrap(), "F")
        };
        assert_eq!(reason("poinst.csv"), "there is no such file; did you mean `points.csv`?");
        assert_eq!(reason("points"), "there is no such file; did you mean `points.csv`?");
        assert_eq!(reason("other"), "there is no such file");
        assert_eq!(reason("no/x.csv"), "there is no folder F/no");
        let path = folder.join("no/x.csv");
        let error = std::fs::File::create(&path).unwrap_err();
        assert!(reason_of_writing(&path, &error).starts_with("there is no folder"));
        let caused = NpyError::from(io::Error::from(ErrorKind::NotFound));
        assert_eq!(reason_of_reading(Path::new("other"), &caused), "there is no such file");
        let other = io::Error::other("x");
        assert_eq!(reason_of_reading(&folder, &other), "this is a folder, and not a file");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
