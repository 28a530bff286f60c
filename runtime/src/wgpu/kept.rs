//! [`Kept`]: the results of tuning for a device, by this or an earlier process, in a file of the
//! user's cache folder.
//!
//! The file's key consists of the adapter with its driver, the compiler's version, and the profile
//! for which schedules were ranked. The file has a line for each kernel: the kernel's key, the
//! seconds of its default schedule and of the tuned one, whether the search finished, and the
//! schedule. A file that is damaged, was made for another key, or has an unreadable line is not
//! used, and a warning says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tile_compiler::schedule::{Key, Tuned};

use crate::backend::TunedEntry as Entry;
use crate::cache::CacheFile;

/// The tuned schedules of a device, and the file that keeps them.
#[derive(Default)]
pub struct Kept {
    file: Option<CacheFile>,
    entries: BTreeMap<Key, Entry>,
    /// The schedules, for the compiler.
    table: Arc<Tuned>,
    /// The problems with the file. They do not affect results.
    pub warnings: Vec<String>,
}

impl Kept {
    /// Opens the file of this name in the user's cache folder, for this key.
    pub fn open(name: &str, key: &str) -> Kept {
        Kept::of(CacheFile::new(name, key))
    }

    fn of(file: Option<CacheFile>) -> Kept {
        let mut kept = Kept { file, ..Kept::default() };
        match kept.read() {
            Ok(entries) => kept.entries = entries,
            Err(warning) => kept.warnings.push(warning),
        }
        kept.tabulate();
        kept
    }

    fn read(&mut self) -> Result<BTreeMap<Key, Entry>, String> {
        let Some(file) = &mut self.file else { return Ok(BTreeMap::new()) };
        let Some(content) = file.read()? else { return Ok(BTreeMap::new()) };
        let text = String::from_utf8_lossy(&content);
        let unread = |line: &str| {
            format!("{} is not used: `{line}` is no tuned kernel", file.path().display())
        };
        text.lines().map(|line| entry(line).ok_or_else(|| unread(line))).collect()
    }

    fn tabulate(&mut self) {
        let entries = self.entries.iter().map(|(&key, entry)| (key, entry.schedule.clone()));
        self.table = Arc::new(entries.collect());
    }

    /// Returns the schedules, for the compiler.
    pub fn table(&self) -> Arc<Tuned> {
        self.table.clone()
    }

    pub fn get(&self, key: Key) -> Option<&Entry> {
        self.entries.get(&key)
    }

    /// Returns the path of the file, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        self.file.as_ref().map(CacheFile::path).map(Path::to_owned)
    }

    /// Keeps the result for a kernel, together with those that other processes have written
    /// meanwhile.
    pub fn put(&mut self, key: Key, entry: Entry) {
        // If the file cannot be read, there already is a warning.
        let mut all = self.read().unwrap_or_default();
        all.append(&mut self.entries);
        all.insert(key, entry);
        self.entries = all;
        self.tabulate();
        let text: String = self.entries.iter().map(|(key, entry)| line(*key, entry)).collect();
        if let Some(Err(warning)) = self.file.as_mut().map(|file| file.write(text.as_bytes())) {
            self.warn(warning);
        }
    }

    /// Adds a warning, unless it is there already.
    pub fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// Formats an entry: `0123456789abcdef 1.5e-4 1e-4 finished pointwise workgroup 128 width 4`.
fn line(key: Key, Entry { default_seconds, seconds, finished, schedule }: &Entry) -> String {
    let end = if *finished { "finished" } else { "begun" };
    format!("{key} {default_seconds:e} {seconds:e} {end} {schedule}\n")
}

fn entry(line: &str) -> Option<(Key, Entry)> {
    let mut words = line.splitn(5, ' ');
    let key = words.next()?.parse().ok()?;
    let mut time =
        || words.next()?.parse().ok().filter(|time: &f64| time.is_finite() && *time >= 0.0);
    let (default_seconds, seconds) = (time()?, time()?);
    let finished = match words.next()? {
        "finished" => true,
        "begun" => false,
        _ => return None,
    };
    let schedule = words.next()?.parse().ok()?;
    Some((key, Entry { default_seconds, seconds, finished, schedule }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tilec-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        folder
    }

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    fn found(schedule: &str, finished: bool) -> Entry {
        Entry {
            default_seconds: 1.5e-4,
            seconds: 1e-4,
            finished,
            schedule: schedule.parse().unwrap(),
        }
    }

    #[test]
    fn what_was_tuned_is_known_to_the_next_process() {
        let folder = folder("tuned");
        let file = || Some(CacheFile::within(&folder, "tuned", "this device"));
        let (mut one, mut other) = (Kept::of(file()), Kept::of(file()));
        let wide = found("pointwise workgroup 128 width 4", true);
        let tiled = found("contraction block 64x16x16 thread 2x2 warp 8 buffers 1 band 1", false);
        one.put(key("0123456789abcdef"), wide.clone());
        // Neither of two processes loses the other's results.
        other.put(key("00000000000000ff"), tiled.clone());
        let next = Kept::of(file());
        assert_eq!(next.warnings, [""; 0]);
        assert_eq!(next.get(key("0123456789abcdef")), Some(&wide));
        assert_eq!(next.get(key("00000000000000ff")), Some(&tiled));
        assert_eq!(next.table().get(key("00000000000000ff")), Some(&tiled.schedule));
        assert_eq!(next.path(), Some(folder.join("tuned")));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn lines_that_are_none() {
        let folder = folder("lines");
        for wrong in [
            "",
            "xyz",
            "0123456789abcdef 1e-4 1e-4 finished tiles 4",
            "0123456789abcdef 1e-4 inf finished native",
        ] {
            CacheFile::within(&folder, "tuned", "this device")
                .write(format!("{wrong}\n").as_bytes())
                .unwrap();
            let mut kept = Kept::of(Some(CacheFile::within(&folder, "tuned", "this device")));
            assert!(kept.table().is_empty());
            assert!(
                kept.warnings[0].ends_with(&format!(" is not used: `{wrong}` is no tuned kernel")),
                "{:?}",
                kept.warnings
            );
            // The file is replaced.
            kept.put(key("0123456789abcdef"), found("pointwise workgroup 32 width 1", true));
            assert_eq!(
                Kept::of(Some(CacheFile::within(&folder, "tuned", "this device"))).warnings,
                [""; 0]
            );
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
