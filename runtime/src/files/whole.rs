//! Writes files that appear whole or not at all.
//!
//! A file is written in its final folder, synced and then renamed. On systems that support this
//! (Linux), it has no name until all of it is written. Otherwise, and while it replaces another
//! file, it has a unique random name, `.tilec-….part`, and is locked. A process that is killed in
//! that time leaves the file behind, without the lock. The next writer in the folder deletes it.
//!
//! Concurrent writers of one path never touch each other's files. The last one to finish wins.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempPath};

/// The maximum number of links followed from one path, as on Linux.
const MOST_LINKS: usize = 40;

/// Writes a file with `write`. It appears at `path` once all of it is on disk. On failure the
/// previous file remains, and nothing else. A replaced file keeps its permissions. Links are
/// followed. A pipe or a device is written to directly.
///
/// # Errors
/// Returns the errors of `write` and of the system. [`crate::Blame::of_writing`] classifies them. A
/// file that exceeds the limit of the process (`ulimit -f`) is an error only if the app ignores or
/// handles `SIGXFSZ`, as `tilec` does.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    match Target::find(path)? {
        Target::Special(path) => filled(open_special(&path)?, write).map(drop),
        Target::File { path, replaced } => {
            let unfinished = Unfinished::create(&path)?;
            unfinished.fill(write)?.persist(&path, replaced.as_ref())
        }
    }
}

/// Checks that [`write_whole`] can create a file, before work is done that would be lost. Leaves
/// nothing behind.
///
/// # Errors
/// Fails if the folder does not exist or is not writable.
pub fn can_be_written(path: &Path) -> io::Result<()> {
    match Target::find(path)? {
        Target::Special(path) if path.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Target::Special(_) => Ok(()),
        Target::File { path, .. } => Unfinished::create(&path).map(drop),
    }
}

/// Opens a special file, such as a pipe or a device. Returns `None` if `path` is or will be a
/// regular file.
pub fn special(path: &Path) -> io::Result<Option<File>> {
    match Target::find(path)? {
        Target::Special(path) => open_special(&path).map(Some),
        Target::File { .. } => Ok(None),
    }
}

fn open_special(path: &Path) -> io::Result<File> {
    File::options().append(true).open(path)
}

/// The target of a path.
enum Target {
    /// A special file, or a file that this process has open, such as `/dev/stdout`.
    Special(PathBuf),
    /// A regular file, which may not exist yet.
    File { path: PathBuf, replaced: Option<Metadata> },
}

impl Target {
    /// Finds the target of a path. Follows links, even to a missing file.
    fn find(path: &Path) -> io::Result<Target> {
        let replaced = match fs::metadata(path) {
            Ok(metadata) if !metadata.is_file() => return Ok(Target::Special(path.to_owned())),
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            if path.starts_with("/proc") || path.starts_with("/dev/fd") {
                return Ok(Target::Special(path));
            }
            match fs::read_link(&path) {
                Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
                Err(_) => break,
            }
        }
        if replaced.is_some() {
            // A read-only file must not be replaced.
            File::options().append(true).open(&path)?;
        }
        Ok(Target::File { path, replaced })
    }
}

/// A file that is being written. It is deleted on drop.
struct Unfinished {
    file: File,
    /// The temporary name, if it has one.
    name: Option<TempPath>,
}

impl Unfinished {
    /// Creates a file in the folder of `path`.
    fn create(path: &Path) -> io::Result<Unfinished> {
        let folder = folder(path);
        if let Some(file) = unnamed(folder) {
            return Ok(Unfinished { file, name: None });
        }
        let create = |name: &Path| {
            let file = File::options().write(true).create_new(true).open(name)?;
            lock(&file);
            // If another writer took the file for an abandoned one before it was locked, the error
            // makes the caller choose another name.
            if name.exists() { Ok(file) } else { Err(io::ErrorKind::AlreadyExists.into()) }
        };
        let (file, name) = named(folder, create)?.into_parts();
        Ok(Unfinished { file, name: Some(name) })
    }

    fn fill(
        self,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> io::Result<Unfinished> {
        let Unfinished { file, name } = self;
        let file = filled(file, write)?;
        file.sync_data()?;
        Ok(Unfinished { file, name })
    }

    /// Moves the file to its final path atomically.
    fn persist(self, path: &Path, replaced: Option<&Metadata>) -> io::Result<()> {
        if let Some(replaced) = replaced {
            keep_owner(&self.file, replaced);
            self.file.set_permissions(replaced.permissions())?;
        }
        let name = match self.name {
            Some(name) => name,
            // If there is no file yet, a single link gives the file its final name.
            None if replaced.is_none() && link(&self.file, path).is_ok() => return Ok(()),
            None => {
                lock(&self.file);
                named(folder(path), |name| link(&self.file, name))?.into_temp_path()
            }
        };
        name.persist(path).map_err(|error| error.error)
    }
}

/// Writes the output of `write` to the file.
fn filled(
    file: File,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<File> {
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)
}

/// Returns the folder of a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The prefix and the suffix of temporary names.
const TEMPORARY: (&str, &str) = (".tilec-", ".part");

/// Creates a file with `make` in a folder, under a random unused name. Deletes abandoned files.
fn named<T>(
    folder: &Path,
    make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<NamedTempFile<T>> {
    delete_abandoned(folder);
    Builder::new().prefix(TEMPORARY.0).suffix(TEMPORARY.1).rand_bytes(12).make_in(folder, make)
}

/// Deletes the temporary files of writers that no longer run. Such a file is not locked.
fn delete_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        let is_temporary =
            name.starts_with(TEMPORARY.0.as_bytes()) && name.ends_with(TEMPORARY.1.as_bytes());
        if is_temporary && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            // The lock is held until the file is gone, so that its writer cannot miss the deletion.
            let file = File::options().write(true).open(entry.path());
            if let Ok(file) = file
                && file.try_lock().is_ok()
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Marks a temporary file as in use until it is closed. File systems without locks do not support
/// this. There, nothing can be locked, so no file counts as abandoned either.
fn lock(file: &File) {
    let _ = file.lock();
}

/// Gives the file the owner of the file that it replaces, as far as this process may.
#[cfg(unix)]
fn keep_owner(file: &File, replaced: &Metadata) {
    use std::os::unix::fs::{MetadataExt, fchown};
    if file.metadata().is_ok_and(|new| (new.uid(), new.gid()) != (replaced.uid(), replaced.gid())) {
        let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
    }
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &Metadata) {}

/// Creates a file without a name, if the file system supports it.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    if !Path::new("/proc/self/fd").is_dir() {
        return None;
    }
    File::options()
        .write(true)
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
        .open(folder)
        .ok()
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> Option<File> {
    None
}

/// Gives an unnamed file a name that no file has yet.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD};
    use std::os::fd::AsRawFd;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests;
