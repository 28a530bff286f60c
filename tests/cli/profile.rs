//! Profiles of runs: `tilec bench --profile`, and `--trace` of it and of `tilec run`.

use serde_json::Value;

use crate::tilec::{devices, empty_folder, program, tilec};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The profile of a small workload.
const SMALL: &str = "bench softmax --dim N=4 --dim C=8 --iterations 1 --profile";

#[test]
fn a_line_for_each_step() {
    for &device in devices() {
        let small = SMALL.split(' ').chain(["--json", "--device", device]);
        let run = tilec(small).ok();
        let lines = lines(run.text());
        if ["reference", "check"].contains(&device) {
            assert_eq!(lines.len(), 1, "{device}");
            assert_eq!(run.err, format!("note: {device} has no clock for kernels\n"));
            continue;
        }
        let steps = &lines[1..];
        assert!(!steps.is_empty(), "{}", run.text());
        let sum = |key: &str| steps.iter().map(|step| step[key].as_f64().unwrap()).sum::<f64>();
        assert!((sum("share") - 1.0).abs() < 1e-3, "{}", run.text());
        assert_eq!(sum("flops"), lines[0]["flops"].as_f64().unwrap());
        for (number, step) in steps.iter().enumerate() {
            assert_eq!(step["step"], number);
            assert_eq!(step["launches"], 1);
            assert_eq!(
                ["workload", "device", "variant"].map(|key| &step[key]),
                ["softmax", device, "N=4, C=8"]
            );
            assert!(
                step["time_s"].as_f64().unwrap() > 0.0
                    && step["share_of_roofline"].as_f64().unwrap() > 0.0
            );
            // The cpu device does not work concurrently with the host.
            assert_eq!(step["handing_over_s"].is_null(), device == "cpu");
        }
    }
}

#[test]
fn a_line_for_each_step_of_training() {
    for &device in devices().iter().filter(|device| !["reference", "check"].contains(*device)) {
        let run = tilec([
            "bench",
            "mnist-mlp",
            "--dim",
            "N=4",
            "--iterations",
            "1",
            "--json",
            "--profile",
            "--device",
            device,
        ])
        .ok();
        let lines = lines(run.text());
        let of_training: Vec<_> =
            lines.iter().filter(|line| line["variant"] == "N=4, training").collect();
        let (measured, steps) = of_training.split_first().unwrap();
        assert!(measured["gflops"].as_f64().unwrap() > 0.0, "{measured}");
        assert!(steps.iter().all(|step| step["launches"] == 1), "{}", run.text());
        let of_adam = |step: &&&Value| step["kernel"].as_str().unwrap().contains("adam");
        assert!(steps.iter().filter(of_adam).count() >= 4, "{}", run.text());
    }
}

#[test]
fn a_table() {
    let run = tilec(SMALL.split(' ')).ok();
    let lines: Vec<&str> = run.text().lines().collect();
    assert!(lines[2].starts_with("  step  value  kernel "), "{}", run.text());
    let is_step = |line: &&&str| {
        line.split_whitespace().next().is_some_and(|word| word.parse::<usize>().is_ok())
    };
    let steps = lines.iter().filter(is_step).count();
    assert!(lines[3 + steps].starts_with("        all "), "{}", run.text());
    assert!(lines[4 + steps].starts_with("cpu: "), "{}", run.text());
}

/// Returns the events of a trace by kind.
fn events(path: &std::path::Path) -> (Vec<Value>, Vec<Value>) {
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().clone();
    events.into_iter().partition(|event| event["ph"] == "X")
}

#[test]
fn traces() {
    let folder = empty_folder("traces");
    for &device in devices() {
        let path = folder.join(format!("{}.json", device.replace(':', "_")));
        let to = path.to_str().unwrap();
        let same = |traced: &[&str]| {
            let run = [
                "run",
                "examples/softmax.tile",
                "--shape",
                "X=3x5",
                "--random",
                "1",
                "--device",
                device,
            ];
            tilec(run.iter().chain(traced)).ok()
        };
        let run = same(&["--trace", to]);
        assert_eq!(run.text(), same(&[]).text(), "a trace changes no result");
        if ["reference", "check"].contains(&device) {
            assert_eq!(
                run.err,
                format!("note: no trace was written: {device} has no clock for kernels\n")
            );
            assert!(!path.exists());
            continue;
        }
        let (launches, names) = events(&path);
        assert_eq!(
            names.iter().map(|event| event["args"]["name"].as_str().unwrap()).collect::<Vec<_>>(),
            ["softmax", device]
        );
        let mut end = 0.0;
        for (number, launch) in launches.iter().enumerate() {
            assert_eq!(launch["args"]["step"], number);
            let [start, length] = ["ts", "dur"].map(|key| launch[key].as_f64().unwrap());
            assert!(start >= end - 1e-3 && length >= 0.0, "{launches:?}");
            end = start + length;
        }
        assert_eq!(launches.last().unwrap()["name"], "Y");
    }
}

/// Each turn of a loop is a launch, and each case of a sweep a row.
#[test]
fn traces_of_loops_and_sweeps() {
    let path = empty_folder("trace_of_a_loop").join("trace.json");
    let source = "model M(X[N, T, C]) -> (Y) { Y = X |> LSTM(4); }\n";
    let file = program("traced_loop", source);
    let sizes = [
        "--dim",
        "N=2",
        "--dim",
        "T=7",
        "--dim",
        "C=3",
        "--iterations",
        "1",
        "--json",
        "--profile",
    ];
    let run = ["bench", file.to_str().unwrap(), "--trace", path.to_str().unwrap()];
    let run = tilec(run.iter().chain(&sizes)).ok();
    let lines = lines(run.text());
    let total: u64 = lines[1..].iter().map(|step| step["launches"].as_u64().unwrap()).sum();
    assert!(lines[1..].iter().any(|step| step["launches"] == 7), "{}", run.text());
    let (launches, _) = events(&path);
    assert_eq!(launches.len() as u64, total);
    let nowhere = empty_folder("no_trace").join("no_such_folder").join("trace.json");
    let run = tilec([
        "run",
        "examples/softmax.tile",
        "--shape",
        "X=3x5",
        "--random",
        "1",
        "--trace",
        nowhere.to_str().unwrap(),
    ]);
    assert_eq!(run.code, 1);
    assert!(run.err.starts_with("error: cannot write "), "{}", run.err);
}
