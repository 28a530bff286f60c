//! `tilec setup`: the default device is tried, saved and used.

use crate::tilec::{Run, empty_folder, tilec_with};

/// Runs `tilec` with a folder for settings, and without `TILE_DEVICE`.
fn configured(folder: &std::path::Path, arguments: &[&str]) -> Run {
    let home = folder.to_str().unwrap();
    tilec_with(&[("XDG_CONFIG_HOME", home), ("APPDATA", home), ("TILE_DEVICE", "")], arguments)
}

#[test]
fn the_default_is_saved_and_used() {
    let folder = empty_folder("setup");
    let run = |arguments: &[&str]| configured(&folder, arguments);
    let line = |run: Run| run.ok().text().to_owned();
    assert!(line(run(&["setup", "--show"])).starts_with("no device is saved; "));
    let saved = run(&["setup", "--device", "reference"]).ok();
    assert!(
        saved.text().starts_with("reference ") && saved.text().contains(": works, "),
        "{}",
        saved.text()
    );
    assert!(saved.err.contains("`reference` is the default device from now on"), "{}", saved.err);
    assert!(line(run(&["setup", "--show"])).starts_with("reference, by "));
    let small: Vec<&str> =
        "bench softmax --dim N=1 --dim C=2 --iterations 1 --json".split(' ').collect();
    let measured = line(run(&small));
    assert!(measured.contains("\"device\":\"reference\""), "{measured}");
    // The option comes first, then the variable.
    let named = [&small[..], &["--device", "cpu"]].concat();
    assert!(line(run(&named)).contains("\"device\":\"cpu\""));
    run(&["setup", "--device", "cpu"]).ok();
    let devices = line(run(&["devices"]));
    assert!(devices.starts_with("* cpu "), "{devices}");
}

#[test]
fn what_does_not_work_is_not_saved() {
    let folder = empty_folder("setup_wrong");
    let run = |arguments: &[&str]| configured(&folder, arguments);
    assert_eq!(run(&["setup", "--device", "wgpu:99"]).code, 3);
    assert_eq!(run(&["setup", "--device", "gpu"]).code, 3);
    let asked = run(&["setup"]);
    assert_eq!(asked.code, 2);
    assert!(
        asked.err.contains("`tilec setup --device NAME` saves a device without asking"),
        "{}",
        asked.err
    );
    assert!(run(&["setup", "--show"]).ok().text().starts_with("no device is saved; "));
    // A device that is gone is named with the command that chose it.
    std::fs::create_dir_all(folder.join("tilec")).unwrap();
    std::fs::write(folder.join("tilec/device"), "wgpu:99\n").unwrap();
    let gone = run(&["bench", "softmax", "--dim", "N=1", "--dim", "C=2"]);
    assert_eq!(gone.code, 3);
    assert!(gone.err.contains("note: `wgpu:99` was chosen by `tilec setup`"), "{}", gone.err);
}
