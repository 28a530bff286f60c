//! `tilec bench`: the format of its output. No test depends on speed.

use std::path::Path;

use insta::assert_snapshot;

use crate::tilec::{Run, devices, empty_folder, program, tilec};

/// The keys that scripts rely on, then the others.
const KEYS: [&str; 17] = [
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
    "adapter",
];

/// Returns the values of one line of JSON as text, in the order of [`KEYS`].
fn values(line: &str) -> Vec<&str> {
    let mut rest =
        line.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).expect("an object");
    let mut values = Vec::new();
    for (number, key) in KEYS.iter().enumerate() {
        rest = rest
            .strip_prefix(&format!("\"{key}\":"))
            .unwrap_or_else(|| panic!("{key} is not next: {rest}"));
        let end = KEYS
            .get(number + 1)
            .map_or(rest.len(), |next| rest.find(&format!(",\"{next}\":")).expect(next));
        values.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(',');
    }
    assert_eq!(rest, "");
    values
}

#[test]
fn json() {
    let small = "bench softmax --dim N=4 --dim C=8 --iterations 3 --json --device";
    for &device in devices() {
        let run = tilec(small.split(' ').chain([device])).ok();
        let lines: Vec<&str> = run.text().lines().collect();
        assert_eq!(lines.len(), 1);
        let values = values(lines[0]);
        assert_eq!(values[..3], ["\"softmax\"", format!("\"{device}\"").as_str(), "\"N=4, C=8\""]);
        let number = |at: usize| {
            values[at].parse::<f64>().unwrap_or_else(|_| panic!("{}: {}", KEYS[at], values[at]))
        };
        let (first, median, fastest) = (number(3), number(4), number(7));
        assert!(0.0 < fastest && fastest <= median && median < first, "{}", run.text());
        assert_eq!(values[6], "3");
        if device == "reference" {
            assert_eq!(values[8..15], ["null"; 7]);
            continue;
        }
        // A maximum, a difference, an exponential, a sum and a quotient for each element, which is
        // read and written.
        assert_eq!(values[9..11], ["160", "256"]);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-4;
        assert!(
            near(number(5), 160e-9 / median) && near(number(8), 256e-9 / median),
            "{}",
            run.text()
        );
        if device != "check" {
            assert!(
                near(number(13), number(5) / number(11))
                    && near(number(14), number(8) / number(12))
            );
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
    assert!(
        lines[2].starts_with("cpu: ")
            && lines[2].contains("; peak, as measured: ")
            && lines[2].ends_with(" GB/s"),
        "{}",
        lines[2]
    );
    assert_eq!(run.err, "");
}

/// Files take sizes as for `tilec run`, and weights from their initializers.
#[test]
fn files() {
    let source = "model Net(units = 3, activation = relu)(X[N, 4]) -> (Y) { Y = X |> Dense(units, activation = activation); }\n";
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
    // 2·4·5 multiply-adds, 10 additions and 10 tangents; inputs, kernel, bias and outputs.
    assert_eq!(values[9..11], ["100", "172"]);

    let run = tilec(["bench", path]);
    assert_eq!((run.code, run.text()), (1, ""));
    assert_snapshot!(run.err.replace(path, "f.tile"), @"
    [E0202] Error: the shape of input `X` is not known
       ╭─[ f.tile:1:41 ]
       │
     1 │ model Net(units = 3, activation = relu)(X[N, 4]) -> (Y) { Y = X |> Dense(units, activation = activation); }
       │                                         ───┬───
       │                                            ╰───── here
       │
       │ Help: give it an array, or a shape with `--shape X=…`, or the size with `--dim N=…`
    ───╯
    ");
}

/// `--data` measures a step of the file's training.
#[test]
fn training_of_a_file() {
    let source = "model Line(X[N, 2]) -> (Y) { Y = Dense(1)(X); }\n\
        train Line { loss = MeanSquaredError(); optimizer = SGD(0.1); batch_size = 4; }\n";
    let path = program("bench_training", source);
    let data = path.with_extension("csv");
    std::fs::write(&data, "a,b,y\n1,2,3\n2,3,5\n0,1,1\n1,1,2\n3,0,3\n").unwrap();
    let (path, data) = (path.to_str().unwrap(), data.to_str().unwrap());
    let bench = ["bench", path, "--data", data, "--iterations", "2", "--json"];
    let run = tilec(bench.into_iter().chain(["--profile"])).ok();
    let mut lines = run.text().lines();
    assert_eq!(values(lines.next().unwrap())[2], "\"training\"");
    assert!(lines.count() > 0);
    tilec(bench.into_iter().chain(["--batch-size", "2"])).ok();

    let said = |arguments: &[&str]| {
        let (code, err) = refused(arguments);
        assert_eq!(code, 2, "{err}");
        err
    };
    assert_snapshot!(said(&["mobilenet", "--data", data]), @"error: `mobilenet` has data of its own: give a file");
    assert_snapshot!(said(&[path, "--data", data, "--shape", "X=4x2"]), @"error: `--shape` is not for `bench --data`: the data say the shapes");
    assert_snapshot!(said(&[path, "--data", data, "--input", "X=1,2"]).replace(path, "line.tile"), @"error: `line.tile` trains on data of its own, and takes no input `X`");
}

/// `--dim` with several sizes measures each, on each device.
#[test]
fn sweeps() {
    let folder = empty_folder("bench_sweeps");
    let source =
        "function product(A[M, K], B[K, N]) -> (C) { C[m, n: M, N] = +(A[m, k] * B[k, n]); }";
    let path = program("bench_sweep", source);
    let plot = folder.join("plot.svg");
    let sweep = |more: &[&str]| {
        let first = [
            "bench",
            path.to_str().unwrap(),
            "--dim",
            "M=48",
            "--dim",
            "N=64",
            "--iterations",
            "1",
        ];
        tilec(first.iter().chain(more))
    };
    let drawn = [
        "--dim",
        "K=1,1_0,1e2",
        "--device",
        "cpu,reference",
        "--log-x",
        "--plot",
        plot.to_str().unwrap(),
    ];
    let run = sweep(&drawn).ok();
    let lines: Vec<&str> = run.text().lines().collect();
    let variants: Vec<&str> =
        lines[1..7].iter().map(|line| line.split("M=48, ").nth(1).unwrap()).collect();
    for (at, (size, device)) in
        [(1, "cpu"), (1, "reference"), (10, "cpu"), (10, "reference"), (100, "cpu")]
            .iter()
            .enumerate()
    {
        assert!(
            variants[at].starts_with(&format!("N=64, K={size} ")) && variants[at].contains(device),
            "{}",
            lines[at + 1]
        );
    }
    assert!(lines[7].starts_with("cpu: ") && lines[8].starts_with("reference: "), "{}", run.text());
    let picture = std::fs::read_to_string(&plot).unwrap();
    for text in ["cpu: ", "GFLOP/s", "peak", ">\n1\n<", ">\n10\n<", ">\n100\n<", ">\nK\n<"] {
        assert!(picture.contains(text), "{text}: {picture}");
    }
    // Two dimensions grow together.
    let both = tilec([
        "bench",
        "softmax",
        "--dim",
        "N=1,2",
        "--dim",
        "C=3,4",
        "--iterations",
        "1",
        "--json",
    ])
    .ok();
    let variants: Vec<&str> = both.text().lines().map(|line| values(line)[2]).collect();
    assert_eq!(variants, ["\"N=1, C=3\"", "\"N=2, C=4\""]);
    let run = tilec(["bench", "softmax", "--dim", "N=1,2", "--dim", "C=3,4,5"]);
    assert_eq!(
        (run.code, run.err.as_str()),
        (2, "error: `C` has 3 sizes, and the dimension before it 2\n")
    );
    let run = tilec(["run", path.to_str().unwrap(), "--dim", "K=1,2"]);
    let message = "error: `--dim K` takes one size; `tilec bench` sweeps over several\n";
    assert_eq!((run.code, run.err.as_str()), (2, message));
}

/// Weights are initialised part by part, and kept once, in the layout in which they are read.
#[cfg(target_os = "linux")]
#[test]
fn memory() {
    let source = "model Deep(X[N, 1024]) -> (Y) { Y = X |> repeat(16, Dense(1024)); }\n";
    let path = program("bench_memory", source);
    let run =
        tilec(["bench", path.to_str().unwrap(), "--dim", "N=1", "--iterations", "1", "--json"])
            .ok();
    let values = values(run.text().trim_end());
    let [bytes, peak] = [10, 15].map(|at| values[at].parse::<u64>().unwrap());
    // Everything but the weights takes some ten MB.
    assert!(peak < 2 * bytes, "{peak} bytes for {bytes} of weights");
}

/// Returns the exit code and the errors.
fn refused(arguments: &[&str]) -> (i32, String) {
    let run = tilec(["bench"].iter().chain(arguments));
    assert!(run.code != 0, "{arguments:?}");
    (run.code, run.err)
}

#[test]
fn wrong_usage() {
    let said = |arguments: &[&str]| {
        let (code, err) = refused(arguments);
        assert_eq!(code, 2, "{err}");
        err
    };
    assert_snapshot!(said(&["mobilnet"]), @"error: there is no workload or file `mobilnet`; did you mean `mobilenet`?");
    assert_snapshot!(said(&["everything"]), @"error: there is no workload or file `everything`; the workloads are matmul, mobilenet, resnet50, vgg19, transformer-encoder, mnist-mlp, mnist-cnn, scale, elementwise, softmax, layernorm, cpu-vs-gpu, all");
    assert_snapshot!(said(&["mobilenet", "--plot", "m.svg"]), @"error: `mobilenet` is measured in one size: there is nothing to plot; `--dim N=10,100,1000` sweeps over sizes, as do matmul and cpu-vs-gpu");
    assert_snapshot!(said(&["examples/matmul.tile", "--plot", "m.svg"]), @"error: `examples/matmul.tile` is measured in one size: there is nothing to plot; `--dim N=10,100,1000` sweeps over sizes, as do matmul and cpu-vs-gpu");
    assert_snapshot!(said(&["matmul", "--dim", "M=3"]), @"error: `matmul` sweeps over sizes of its own: give a file, to measure others");
    assert_snapshot!(said(&["all", "--dim", "N=3"]), @"error: `all` has sizes of its own: name one of its workloads, to measure others");
    assert_snapshot!(said(&["softmax", "--iterations", "0"]), @"
    error: `--iterations` takes a whole number of at least 1, and this is `0`
    ");
    assert_snapshot!(said(&["softmax", "--iterations", "some"]), @"
    error: `--iterations` takes a whole number of at least 0, and this is `some`
    ");
    assert_snapshot!(said(&[]), @"
    error: the following required arguments were not provided:
      <WHAT>

    Usage: tilec bench <WHAT>

    For more information, try '--help'.
    ");
}

#[test]
fn wrong_files_and_sizes() {
    assert_snapshot!(refused(&["no_such.tile"]).1, @"error: cannot read no_such.tile: there is no such file");
    assert_eq!(refused(&["no_such.tile"]).0, 1);
    let wrong = program("bench_wrong", "function f(X[N]) -> (Y) { Y = X + Z; }\n");
    let (code, err) = refused(&[wrong.to_str().unwrap(), "--dim", "N=3"]);
    assert_eq!((code, err.lines().next()), (1, Some("[E0101] Error: unknown name `Z`")));
    let (code, err) = refused(&["softmax", "--dim", "K=3"]);
    assert_snapshot!(format!("{code} {err}"), @"
    1 [E0201] Error: there is no size `K`
       ╭─[ softmax.tile:3:10 ]
       │
     3 │ function softmax(X[N, C]) -> (Y) {
       │          ───┬───
       │             ╰───── here
       │
       │ Help: it has N, C
    ───╯
    ");
    let (code, err) = refused(&["softmax", "--device", "tpu"]);
    assert_snapshot!(format!("{code} {err}"), @"3 error: there is no device `tpu`: the names are cpu, wgpu, wgpu:N, reference and check");
}

/// Every bundled workload is a program that compiles and runs. The programs of sweeps are among
/// those of the other workloads.
#[test]
fn bundled() {
    for (name, dims) in [
        ("mobilenet", &["H=32", "W=32"][..]),
        ("resnet50", &["H=32", "W=32"]),
        ("vgg19", &["H=32", "W=32"]),
        ("transformer-encoder", &["N=2", "T=3"]),
        ("mnist-mlp", &["N=2"]),
        ("mnist-cnn", &["N=2"]),
        ("scale", &["N=2", "C=3"]),
        ("elementwise", &["N=2", "C=3"]),
    ] {
        let dims = dims.iter().flat_map(|dim| ["--dim", dim]);
        let run =
            tilec(["bench", name, "--iterations", "1", "--json"].into_iter().chain(dims)).ok();
        assert_eq!(values(run.text().trim_end())[0], format!("\"{name}\""));
    }
}

/// Returns the workload and the size of each measurement, in order.
fn sizes(run: &Run) -> Vec<String> {
    let size = |line: &str| {
        format!("{} {}", values(line)[0].trim_matches('"'), values(line)[2].trim_matches('"'))
    };
    run.text().lines().map(size).collect()
}

/// Measures products of growing size, and draws them.
fn swept(picture: &Path) -> Run {
    let words = "bench matmul --iterations 1 --json --plot".split(' ');
    tilec(words.chain([picture.to_str().unwrap()]))
}

#[test]
fn sweep() {
    let picture = empty_folder("sweep").join("matmul.svg");
    let run = swept(&picture).ok();
    assert_eq!(
        sizes(&run),
        ["matmul M=K=N=256", "matmul M=K=N=512", "matmul M=K=N=1024", "matmul M=K=N=2048"]
    );
    assert!(picture.exists());
}

#[test]
fn sweep_into_no_folder() {
    let picture = empty_folder("sweep_into_no_folder").join("no_such_folder").join("matmul.svg");
    let run = swept(&picture);
    // The error comes before the measurements, which would be lost.
    assert_eq!((run.code, run.text()), (1, ""));
    let folder = picture.parent().unwrap().to_str().unwrap();
    let said = run.err.replace(picture.to_str().unwrap(), "matmul.svg").replace(folder, "FOLDER");
    assert_snapshot!(said, @"error: cannot write matmul.svg: there is no folder FOLDER");
}

#[test]
fn sweep_on_two_devices() {
    let picture = empty_folder("two_devices").join("speed.svg");
    let path = picture.to_str().unwrap();
    // If two devices are the same, one is measured.
    let run = tilec([
        "bench",
        "cpu-vs-gpu",
        "--device",
        "cpu",
        "--iterations",
        "1",
        "--json",
        "--plot",
        path,
    ])
    .ok();
    let squares = [64, 128, 256, 512, 1024, 2048].map(|n| format!("matmul M=K=N={n}"));
    let rows = [
        "N=16, C=1024",
        "N=64, C=1024",
        "N=256, C=1024",
        "N=C=1024",
        "N=4096, C=1024",
        "N=16384, C=1024",
    ];
    let with_rows = |name: &'static str| rows.map(|size| format!("{name} {size}"));
    assert_eq!(sizes(&run), [squares, with_rows("elementwise"), with_rows("softmax")].concat());
    let picture = std::fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("GFLOP/s") && picture.contains("GB/s"));
}
