//! The rooms of this device use only those below them.

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

/// The rooms, from the ground up, and the files above them.
const FLOORS: [&str; 10] = [
    "memory",
    "vector",
    "threads",
    "loops",
    "product",
    "needs",
    "profile",
    "attention",
    "prepared",
    "steps",
];
const ROOMS: usize = 5;

/// Returns the files of a folder and of those in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn arrows_go_down() {
    let cpu = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cpu");
    for (floor, room) in FLOORS[..ROOMS].iter().enumerate() {
        let files = files(&cpu.join(room));
        assert!(!files.is_empty());
        for file in files {
            let text = read_to_string(&file).unwrap();
            for above in &FLOORS[floor + 1..] {
                assert!(
                    !text.contains(&format!("cpu::{above}")),
                    "{} uses {above}",
                    file.display()
                );
            }
        }
    }
}
