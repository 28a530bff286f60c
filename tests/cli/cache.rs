//! What the driver compiled is kept from one process to the next, and nothing goes wrong where that is no good.

use std::fs;
use std::path::Path;

use crate::tilec::{devices, empty_folder, tilec_with};

#[test]
fn kernels_are_kept() {
    let Some(device) = devices().iter().find(|device| device.starts_with("wgpu")) else { return };
    let folder = empty_folder("kernels_are_kept");
    let run_with = |folder: &Path| {
        let softmax = ["run", "examples/softmax.tile", "--shape", "X=3x5", "--random", "1", "--device", device];
        let run = tilec_with(&[("TILE_CACHE", folder.to_str().unwrap())], softmax).ok();
        let notes = run.notes().join("\n");
        (run.out, notes)
    };
    let run = || run_with(&folder);
    let (results, said) = run();
    assert_eq!(said, "");
    // An adapter need not have a cache.
    let Some(file) = fs::read_dir(&folder).unwrap().next() else { return };
    let file = file.unwrap().path();
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
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    // Where nothing can be kept, nothing is.
    assert_eq!(run_with(&file).0, results);
}
