//! `tilec bench`: the form of what it prints. How fast anything is, no test asks.

use insta::assert_snapshot;

use crate::tilec::{devices, empty_folder, program, tilec};

/// The keys that scripts rely on, then the others.
const KEYS: [&str; 16] = [
    "workload",
    "device",
    "variant",
    "first_result_s",
    "median_s",
    "gflops",
    "reps",
    "min_s",
    "gbs",
    "flops",
    "bytes",
    "peak_gflops",
    "peak_gbs",
    "share_of_peak_gflops",
    "share_of_peak_gbs",
    "peak_memory_bytes",
];

/// The values of one line of JSON, by [`KEYS`], as text.
fn values(line: &str) -> Vec<&str> {
    let mut rest = line.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).expect("an object");
    let mut values = Vec::new();
    for (number, key) in KEYS.iter().enumerate() {
        rest = rest.strip_prefix(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} is not next: {rest}"));
        let end = KEYS.get(number + 1).map_or(rest.len(), |next| rest.find(&format!(",\"{next}\":")).expect(next));
        values.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(',');
    }
    assert_eq!(rest, "");
    values
}

#[test]
fn json() {
    let small = ["bench", "softmax", "--dim", "N=4", "--dim", "C=8", "--iterations", "3", "--json", "--device"];
    for &device in devices() {
        let run = tilec(small.iter().chain([&device])).ok();
        let lines: Vec<&str> = run.text().lines().collect();
        assert_eq!(lines.len(), 1);
        let values = values(lines[0]);
        assert_eq!(values[..3], ["\"softmax\"", format!("\"{device}\"").as_str(), "\"N=4, C=8\""]);
        let number = |at: usize| values[at].parse::<f64>().unwrap_or_else(|_| panic!("{}: {}", KEYS[at], values[at]));
        let (first, median, fastest) = (number(3), number(4), number(7));
        assert!(0.0 < fastest && fastest <= median && median < first, "{}", run.text());
        assert_eq!(values[6], "3");
        if device == "reference" {
            assert_eq!(values[8..15], ["null"; 7]);
            continue;
        }
        // A maximum, a difference, an exponential, a sum and a quotient for each element, which is read and written.
        assert_eq!(values[9..11], ["160", "256"]);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-4;
        assert!(near(number(5), 160e-9 / median) && near(number(8), 256e-9 / median), "{}", run.text());
        if device != "check" {
            assert!(near(number(13), number(5) / number(11)) && near(number(14), number(8) / number(12)));
        }
    }
}

#[test]
fn text() {
    let small = ["bench", "layernorm", "--dim", "N=2", "--dim", "C=8", "--iterations", "1"];
    let run = tilec(small).ok();
    let lines: Vec<&str> = run.text().lines().collect();
    assert_eq!(lines.len(), 3, "{}", run.text());
    assert!(lines[0].starts_with("workload "), "{}", lines[0]);
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[..4], ["layernorm", "N=2,", "C=8", "cpu"]);
    assert!(lines[2].starts_with("peak of cpu, as measured: ") && lines[2].ends_with(" GB/s"), "{}", lines[2]);
    assert_eq!(run.err, "");
}

/// Files take sizes as for `tilec run`, and weights from their initializers.
#[test]
fn files() {
    let source =
        "model Net(units = 3, activation = relu)(X[N, 4]) -> (Y) { Y = X |> Dense(units, activation = activation); }\n";
    let path = program("bench_file", source);
    let path = path.to_str().unwrap();
    let run = tilec([
        "bench",
        path,
        "--shape",
        "X=2x4",
        "--set",
        "units=5",
        "--set",
        "activation=tanh",
        "--iterations",
        "1",
        "--json",
    ])
    .ok();
    let values = values(run.text().trim_end());
    assert_eq!(values[2], "\"X=f32[2, 4], units=5, activation=tanh\"");
    // 2·4·5 multiply-adds, 10 additions, 10 tangents; inputs, kernel, bias and outputs.
    assert_eq!(values[9..11], ["100", "192"]);

    let run = tilec(["bench", path]);
    assert_eq!((run.code, run.text().lines().count()), (1, 1));
    assert_snapshot!(run.err.replace(path, "f.tile"), @"");
}

#[test]
fn wrong_usage() {
    let said = |arguments: &[&str]| {
        let run = tilec(["bench"].iter().chain(arguments));
        assert_eq!((run.code, run.text()), (2, ""), "{arguments:?}");
        run.err
    };
    assert_snapshot!(said(&["mobilnet"]), @"");
    assert_snapshot!(said(&["everything"]), @"");
    assert_snapshot!(said(&["mobilenet", "--plot", "m.svg"]), @"");
    assert_snapshot!(said(&["matmul", "--dim", "M=3"]), @"");
    let run = tilec(["bench", "no_such.tile"]);
    assert_eq!(run.code, 1);
    assert_snapshot!(run.err, @"");
}

/// Every bundled workload is a program that compiles and runs; the sweeps' programs are among those of the others.
#[test]
fn bundled() {
    for (name, dims) in [
        ("mobilenet", ["H=32", "W=32"]),
        ("resnet50", ["H=32", "W=32"]),
        ("vgg19", ["H=32", "W=32"]),
        ("transformer-encoder", ["N=2", "T=3"]),
        ("mnist-mlp", ["N=2", "N=2"]),
        ("mnist-cnn", ["N=2", "N=2"]),
        ("elementwise", ["N=2", "C=3"]),
    ] {
        let run = tilec(["bench", name, "--dim", dims[0], "--dim", dims[1], "--iterations", "1", "--json"]).ok();
        assert_eq!(values(run.text().trim_end())[0], format!("\"{name}\""));
    }
}

#[test]
fn sweep() {
    let picture = empty_folder("sweep").join("matmul.svg");
    let run = tilec(["bench", "matmul", "--iterations", "1", "--json", "--plot", picture.to_str().unwrap()]).ok();
    let variants: Vec<&str> = run.text().lines().map(|line| values(line)[2]).collect();
    assert_eq!(variants, ["\"M=K=N=256\"", "\"M=K=N=512\"", "\"M=K=N=1024\"", "\"M=K=N=2048\""]);
    assert!(std::fs::read_to_string(picture).unwrap().starts_with("<svg"));
}
