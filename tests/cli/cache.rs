//! Kernels that the driver compiled are cached between processes, and an unusable cache does no
//! harm.

use std::fs;
use std::path::Path;

use crate::tilec::{devices, empty_folder, tilec_with};

#[test]
fn kernels_are_kept() {
    let Some(device) = devices().iter().find(|device| device.starts_with("wgpu")) else { return };
    let folder = empty_folder("kernels_are_kept");
    let run_with = |folder: &Path| {
        let softmax = [
            "run",
            "examples/softmax.tile",
            "--shape",
            "X=3x5",
            "--random",
            "1",
            "--device",
            device,
        ];
        let run = tilec_with(&[("TILE_CACHE", folder.to_str().unwrap())], softmax).ok();
        let notes = run.notes().join("\n");
        (run.out, notes)
    };
    let run = || run_with(&folder);
    let (results, said) = run();
    assert_eq!(said, "");
    // Besides these there is a file of confirmed facts about the adapter, which need not have a
    // cache of kernels.
    let files = || fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let is_of_kernels = |path: &std::path::PathBuf| {
        !path.file_name().unwrap().to_string_lossy().starts_with("confirmed")
    };
    let Some(file) = files().find(is_of_kernels) else { return };
    let kept = fs::read(&file).unwrap();
    assert_eq!(run(), (results.clone(), String::new()));
    for damaged in [&b""[..], b"nothing of the kind", &kept[..kept.len() - 1]] {
        fs::write(&file, damaged).unwrap();
        let (again, said) = run();
        assert_eq!(again, results);
        assert!(said.starts_with("note: ") && said.contains(" is not used: it is "), "{said}");
        assert_eq!(run(), (results.clone(), String::new()), "it is replaced");
    }
    let key = kept.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    fs::write(&file, [&kept[..key], b"another ", &kept[key..]].concat()).unwrap();
    let (again, said) = run();
    assert_eq!(again, results);
    assert!(said.contains(" is not used: it was made for another device or version"), "{said}");
    assert_eq!(files().filter(is_of_kernels).count(), 1);
    // Without a writable place, nothing is cached.
    assert_eq!(run_with(&file).0, results);
}
