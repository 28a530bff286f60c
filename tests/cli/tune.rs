//! `tilec tune` and `--tune`: results are kept, used, and never trusted blindly. No test depends on
//! speed.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::tilec::{Run, devices, empty_folder, program, tilec, tilec_with};

const SOFTMAX: [&str; 3] = ["examples/softmax.tile", "--shape", "X=30x50"];

/// Returns the first adapter, if there is one.
fn adapter() -> Option<&'static str> {
    devices().iter().find(|device| device.starts_with("wgpu")).copied()
}

/// Runs `tilec` with this cache folder.
fn kept_in(folder: &Path, arguments: &[&str]) -> Run {
    tilec_with(&[("TILE_CACHE", folder.to_str().unwrap())], arguments)
}

/// Returns the file of tuned schedules.
fn file(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("tuned-"))
}

#[test]
fn cpu_has_nothing_to_tune() {
    let run = tilec(["tune"].iter().chain(&SOFTMAX)).ok();
    assert_eq!(run.text(), "");
    assert!(
        run.notes()[0].starts_with("note: the cpu device has nothing to tune: "),
        "{}",
        run.err
    );
    let same = |more: &[&str]| {
        let run = ["run"].iter().chain(&SOFTMAX).chain(&["--random", "1"]).copied();
        tilec(run.chain(more.iter().copied())).ok()
    };
    let tuned = same(&["--tune"]);
    assert_eq!(tuned.text(), same(&[]).text());
    assert!(
        tuned.notes()[0].starts_with("note: the cpu device has nothing to tune: "),
        "{}",
        tuned.err
    );
    // Errors of the program are reported all the same.
    let run = tilec(["tune", "examples/softmax.tile"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("Error: "), "{}", run.err);
}

#[test]
fn wrong_usage() {
    let said = |arguments: &[&str], code: i32, text: &str| {
        let run = tilec(arguments);
        assert_eq!(run.code, code, "{}", run.err);
        assert!(run.err.contains(text), "{}", run.err);
    };
    said(&["tune"], 2, "<FILE>");
    said(&["tune", "no_such_file.tile"], 1, "cannot read no_such_file.tile");
    for budget in ["0", "-1", "soon", "inf", "1e30"] {
        let budget = format!("--budget={budget}");
        said(&["tune", SOFTMAX[0], &budget], 2, "it wants a number of seconds above 0");
    }
    said(&["run", SOFTMAX[0], "--budget", "1"], 2, "--tune");
    said(&["tune", SOFTMAX[0], SOFTMAX[1], SOFTMAX[2], "--device", "wgpu:99"], 3, "wgpu:99");
    said(&["tune", SOFTMAX[0], SOFTMAX[1], SOFTMAX[2], "--device", "gpu"], 3, "gpu");
    said(
        &[SOFTMAX[0], "--emit", "plan", "--target", "gpu"],
        2,
        "the targets are generic, apple, amd-gcn, amd-rdna, amd-rdna3, intel-xe, nvidia, mobile, cpu, wgpu and wgpu:N",
    );
}

/// Returns the values of the first output in the JSON of a run.
fn values(run: &Run) -> Vec<f64> {
    let json: Value = serde_json::from_str(run.text()).unwrap();
    json["outputs"][0]["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

#[test]
fn what_was_tuned_is_kept_and_used() {
    let Some(device) = adapter() else { return };
    let folder = empty_folder("tuned");
    let with = |arguments: &[&str]| kept_in(&folder, arguments);
    let softmax = |command: &str, more: &[&str]| {
        let arguments: Vec<&str> = [command]
            .iter()
            .chain(&SOFTMAX)
            .chain(&["--device", device])
            .chain(more)
            .copied()
            .collect();
        with(&arguments).ok()
    };
    let before = softmax("run", &["--random", "1", "--json"]);
    let tuned = softmax("tune", &["--budget", "20", "--json"]);
    let lines: Vec<Value> =
        tuned.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{}", tuned.text());
    assert_eq!(
        (&lines[0]["device"], &lines[0]["launches"], &lines[0]["known"]),
        (&device.into(), &1.into(), &false.into())
    );
    assert!(
        lines[0]["finished"] == true && lines[0]["measured"].as_u64() > Some(1),
        "{}",
        tuned.text()
    );
    let times = ["default_s", "tuned_s", "ratio"].map(|key| lines[0][key].as_f64().unwrap());
    assert!(
        (times[0] / times[1] / times[2] - 1.0).abs() < 1e-3 && times[2] >= 1.0,
        "{}",
        tuned.text()
    );
    let path = file(&folder).unwrap();
    let kept = fs::read_to_string(&path).unwrap();
    let schedule = lines[0]["tuned"].as_str().unwrap();
    assert!(kept.trim_end().ends_with(&format!(" finished {schedule}")), "{kept}");

    // The next process uses it, and does not measure again.
    let again = softmax("tune", &[]);
    assert!(again.text().starts_with("kernel "), "{}", again.text());
    assert!(
        again.text().contains(schedule) && again.text().contains("  before\n"),
        "{}",
        again.text()
    );
    assert!(
        again.text().contains("1 kernel: ")
            && again.text().contains(&format!("kept for {device} in ")),
        "{}",
        again.text()
    );
    assert!(
        again.text().contains(" within 1.5 times of the tuned one by default"),
        "{}",
        again.text()
    );
    let profile = softmax("bench", &["--profile", "--iterations", "1"]);
    assert!(profile.text().contains("  tuned\n"), "{}", profile.text());
    let after = softmax("run", &["--random", "1", "--json"]);
    assert_eq!(after.notes(), [""; 0]);
    for (x, y) in values(&before).into_iter().zip(values(&after)) {
        assert!((x - y).abs() <= 1e-6, "{y} instead of {x}");
    }

    // Listings depend on the machine only where they are asked to.
    let listing = |more: &[&str]| {
        let arguments: Vec<&str> =
            SOFTMAX.iter().chain(&["--emit", "explain,wgsl"]).chain(more).copied().collect();
        with(&arguments).ok().out
    };
    let of_device = String::from_utf8(listing(&["--target", device])).unwrap();
    assert!(of_device.contains(&format!("schedule  {schedule}, tuned\n")), "{of_device}");
    let anywhere = tilec(SOFTMAX.iter().chain(&["--emit", "explain,wgsl"])).ok().out;
    assert!(listing(&[]) == anywhere);

    spoiled_files_are_told_of(&path, schedule, &before, &softmax);
}

/// A file of another driver, a damaged file, and an unsuitable schedule are reported, and not used.
fn spoiled_files_are_told_of(
    path: &Path,
    schedule: &str,
    before: &Run,
    softmax: &dyn Fn(&str, &[&str]) -> Run,
) {
    let kept = fs::read_to_string(path).unwrap();
    let run = || softmax("run", &["--random", "1", "--json"]);
    let lines: Vec<&str> = kept.splitn(4, '\n').collect();
    fs::write(path, [lines[0], &format!("another {}", lines[1]), lines[2], lines[3]].join("\n"))
        .unwrap();
    let said = run();
    assert!(
        said.notes()[0].ends_with(" is not used: it was made for another device or version"),
        "{}",
        said.err
    );
    assert_eq!(said.text(), before.text());
    fs::write(path, &kept[..kept.len() - 3]).unwrap();
    let said = run();
    assert!(said.notes()[0].ends_with(" is not used: it is damaged"), "{}", said.err);
    assert_eq!(said.text(), before.text());
    let content = lines[3].replace(schedule, "pointwise workgroup 32 width 2");
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = content.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let sum = format!("{} bytes {hash:016x}", content.len());
    fs::write(path, [lines[0], lines[1], &sum, &content].join("\n")).unwrap();
    let said = run();
    assert_eq!(
        said.notes(),
        ["note: the tuned schedule of kernel y is not used: it does not suit the kernel"]
    );
    assert_eq!(said.text(), before.text());
    // The search starts again.
    assert!(softmax("tune", &["--budget", "20"]).text().contains(" of "));
    assert_eq!(run().notes(), [""; 0]);
}

#[test]
fn other_commands_tune_first() {
    let Some(device) = adapter() else { return };
    let folder = empty_folder("tuned_first");
    let bench = [
        "bench",
        "scale",
        "--dim",
        "N=4",
        "--dim",
        "C=8",
        "--iterations",
        "1",
        "--device",
        device,
        "--tune",
    ];
    let run = kept_in(&folder, &bench).ok();
    assert!(run.notes()[0].starts_with("note: 1 kernel: "), "{}", run.err);
    assert!(file(&folder).is_some());
    // A training step is tuned as it is run.
    let source = "model Line(X[N, 1]) -> (Y) { Y = X |> Dense(1); }\ntrain Line { loss = MeanSquaredError(); optimizer = SGD(0.01); epochs = 1; }\n";
    let path = program("tuned_training", source);
    let data = path.with_file_name("line.csv");
    fs::write(&data, "x,y\n1,2\n2,4\n3,6\n").unwrap();
    let train =
        ["train", path.to_str().unwrap(), "--data", data.to_str().unwrap(), "--device", device];
    let run = kept_in(&folder, &[&train[..], &["--tune", "--budget", "3"]].concat()).ok();
    assert!(run.err.contains(" kernels: ") && run.err.contains(" times as fast"), "{}", run.err);
    // Without a writable place, only this process uses the result.
    let nowhere = folder.join("a_file");
    fs::write(&nowhere, "").unwrap();
    let run = kept_in(&nowhere, &bench).ok();
    assert!(run.err.contains(" cannot be written: "), "{}", run.err);
    let run = kept_in(
        Path::new(""),
        &["tune", "examples/softmax.tile", "--shape", "X=3x5", "--device", device, "--budget", "5"],
    )
    .ok();
    assert!(run.text().contains("not kept: there is no cache folder"), "{}", run.text());
}
