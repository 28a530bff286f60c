//! [`CacheFile`]: results that one process keeps for the next, in a file of the user's cache
//! folder.
//!
//! A file has a key, which identifies the purpose of its content, and a checksum. Truncated or
//! changed content, and content for another key, is never returned. Files are replaced as a whole,
//! so that processes can share them. `TILE_CACHE` names another folder. If it is empty, nothing is
//! kept.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use etcetera::base_strategy::{BaseStrategy, choose_native_strategy};

use crate::files::write_whole;

/// The first line of every file. A change of the format changes the number.
const MAGIC: &str = "tilec cache 1";

/// A cache file, which need not exist.
#[derive(Clone, Debug)]
pub struct CacheFile {
    path: PathBuf,
    /// The key, a single line.
    key: String,
    /// The checksum of the file's content, if known.
    known: Option<String>,
}

impl CacheFile {
    /// Returns the file of this name in the user's cache folder, for content with this key. `None`
    /// without such a folder.
    pub fn new(name: &str, key: &str) -> Option<CacheFile> {
        Some(CacheFile::within(&folder(std::env::var_os("TILE_CACHE"))?, name, key))
    }

    /// Returns the path of the file, which need not exist.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn within(folder: &Path, name: &str, key: &str) -> CacheFile {
        CacheFile { path: folder.join(name), key: key.replace(char::is_control, " "), known: None }
    }

    /// Reads the content. `None` if there is no file.
    ///
    /// # Errors
    /// A sentence with the reason why the file cannot be used.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>, String> {
        let useless = |why: &str| format!("{} is not used: {why}", self.path.display());
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(useless(&error.to_string())),
        };
        let mut rest = &bytes[..];
        let mut line = || {
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let (line, after) = rest.split_at(end);
            rest = &after[1..];
            std::str::from_utf8(line).ok()
        };
        let (magic, key, sum) = (line(), line(), line());
        match () {
            () if magic != Some(MAGIC) => Err(useless("it is no cache file of this version")),
            () if key != Some(&self.key) => {
                Err(useless("it was made for another device or version"))
            }
            () if sum != Some(&checksum(rest)) => Err(useless("it is damaged")),
            () => {
                self.known = sum.map(str::to_owned);
                Ok(Some(rest.to_vec()))
            }
        }
    }

    /// Replaces the content if it differs.
    ///
    /// # Errors
    /// A sentence with the reason why the file cannot be written.
    pub fn write(&mut self, content: &[u8]) -> Result<(), String> {
        let sum = checksum(content);
        if self.known.as_ref() == Some(&sum) {
            return Ok(());
        }
        let head = format!("{MAGIC}\n{}\n{sum}\n", self.key);
        let write = || {
            self.path.parent().map_or(Ok(()), fs::create_dir_all)?;
            write_whole(&self.path, |file| {
                file.write_all(head.as_bytes()).and_then(|()| file.write_all(content))
            })
        };
        write().map_err(|error| format!("{} cannot be written: {error}", self.path.display()))?;
        self.known = Some(sum);
        Ok(())
    }
}

/// Returns the folder for this program's cache files. `own` is the value of `TILE_CACHE`.
fn folder(own: Option<OsString>) -> Option<PathBuf> {
    match own {
        Some(own) => (!own.is_empty()).then(|| own.into()),
        None => Some(choose_native_strategy().ok()?.cache_dir().join("tilec")),
    }
}

/// Combines the hash and the length. This detects damage, not malice.
fn checksum(content: &[u8]) -> String {
    format!("{} bytes {:016x}", content.len(), hash(content))
}

/// Computes the 64-bit FNV-1a hash.
pub fn hash(content: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    content.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tilec-test-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = empty_folder("cache");
        let file = CacheFile::within(&folder, "pipelines", "an adapter\nand its driver");
        assert_eq!(file.clone().read(), Ok(None));
        for content in [&b""[..], b"one\ntwo\0", &[7; 10_000]] {
            file.clone().write(content).unwrap();
            assert_eq!(file.clone().read(), Ok(Some(content.to_vec())));
        }
        // Unchanged content is not written again.
        let mut known = file.clone();
        known.read().unwrap();
        fs::remove_file(&file.path).unwrap();
        known.write(&[7; 10_000]).unwrap();
        assert!(!file.path.exists());
        known.write(b"another").unwrap();
        assert!(file.path.exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn other_content_is_refused() {
        let folder = empty_folder("refused");
        let mut file = CacheFile::within(&folder, "pipelines", "this device");
        file.write(b"some content").unwrap();
        let whole = fs::read(folder.join("pipelines")).unwrap();
        let said = |file: &CacheFile| {
            file.clone().read().unwrap_err().replace(&file.path.display().to_string(), "FILE")
        };
        assert_eq!(
            said(&CacheFile::within(&folder, "pipelines", "that device")),
            "FILE is not used: it was made for another device or version"
        );
        for length in 0..whole.len() {
            fs::write(&file.path, &whole[..length]).unwrap();
            assert!(said(&file).starts_with("FILE is not used: it "));
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            fs::write(&file.path, changed).unwrap();
            assert!(said(&file).starts_with("FILE is not used: it "));
        }
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, b"no folder").unwrap();
        assert!(file.write(b"other content").unwrap_err().contains(" cannot be written: "));
        fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn a_variable_names_the_folder() {
        assert_eq!(folder(Some("".into())), None);
        assert_eq!(folder(Some("here".into())), Some("here".into()));
        assert!(
            folder(None).is_none_or(|folder| folder.is_absolute() && folder.ends_with("tilec"))
        );
    }
}
