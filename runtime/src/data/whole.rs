//! Files that appear whole or not at all.

use std::fs;
use std::io;
use std::path::Path;

/// Has `write` make a file beside `path`, which takes its place when it is finished: if it fails, what was there is there still. What
/// is no file, such as a pipe or a device, is written where it is. Of several processes that write the same file, one has it in the end.
///
/// # Errors
/// Those of `write`, and of moving the file to its place.
pub fn write_whole<E: From<io::Error>>(path: &Path, write: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return write(path);
    }
    // Through a link, to the file that it leads to.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let process = if cfg!(target_family = "wasm") { 0 } else { std::process::id() };
    let mut unfinished = path.clone().into_os_string();
    unfinished.push(format!(".{process}.part"));
    let unfinished = Path::new(&unfinished);
    let written = write(unfinished).and_then(|()| Ok(fs::rename(unfinished, &path)?));
    if written.is_err() {
        // What is left of it is of no use; that it cannot be removed either is no news.
        let _ = fs::remove_file(unfinished);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::write_whole;
    use std::path::{Path, PathBuf};
    use std::{fs, io};

    fn empty_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tilec-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let folder = empty_folder("whole");
        let path = folder.join("x.npy");
        write_whole(&path, |path| fs::write(path, "first")).unwrap();
        let fails = |path: &Path| fs::write(path, "half").and(Err(io::Error::other("full")));
        assert_eq!(write_whole(&path, fails).unwrap_err().to_string(), "full");
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        write_whole(&path, |path| fs::write(path, "second")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay() {
        let folder = empty_folder("linked");
        let (file, link) = (folder.join("file"), folder.join("link"));
        fs::write(&file, "first").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_whole(&link, |path| fs::write(path, "second")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        write_whole(Path::new("/dev/null"), |path| fs::write(path, "none")).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        fs::remove_dir_all(&folder).unwrap();
    }
}
