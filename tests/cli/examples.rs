//! Every example gives NumPy's results on every device: see tests/golden/make.py.

use std::path::{Path, PathBuf};

use tile_compiler::tensor::Tensor;
use tile_runtime::data::npy;

use crate::tilec::{devices, empty_folder, tilec};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the `.npy` files of a folder with their tensors' names, in order.
fn tensors(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "npy"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_string(), path))
        .collect();
    found.sort();
    found
}

fn read(path: &Path) -> Tensor {
    let file =
        std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    npy::read(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Asserts that tensors are equal up to f32 rounding of sums of a few hundred terms and of fast
/// approximations.
fn assert_close(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.ty(), expected.ty(), "{what}");
    let expected_values = expected.to_f64s();
    let scale = expected_values.iter().fold(1e-3, |most: f64, v| most.max(v.abs()));
    let tolerance = if expected.dtype().is_float() { 1e-5 * scale } else { 0.0 };
    for (place, (found, expected)) in found.to_f64s().into_iter().zip(expected_values).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance,
            "{what}: {found} instead of {expected} at {place}"
        );
    }
}

/// Runs an example and compares all its outputs.
fn check(example: &str, entry: &str, inputs: &[(String, PathBuf)], expected: &Path, device: &str) {
    let output = empty_folder(&format!("{example}-{entry}-{}", device.replace(':', "")));
    let mut arguments: Vec<String> = vec!["run".into(), format!("examples/{example}.tile")];
    arguments.extend([
        "--entry".into(),
        entry.into(),
        "--device".into(),
        device.into(),
        "--output-dir".into(),
    ]);
    arguments.push(output.display().to_string());
    for (name, path) in inputs {
        arguments.extend(["--input".into(), format!("{name}={}", path.display())]);
    }
    tilec(arguments).ok();
    let expected = tensors(expected);
    assert_eq!(expected.len(), tensors(&output).len(), "outputs of {example} {entry}");
    for (name, path) in expected {
        let what = format!("{name} of {example} {entry} on {device}");
        assert_close(&what, &read(&output.join(format!("{name}.npy"))), &read(&path));
    }
}

/// Checks all entries of an example for which there are values.
fn check_all(example: &str, device: &str) {
    let golden = root().join("tests/golden").join(example);
    for folder in
        std::fs::read_dir(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.display()))
    {
        let folder = folder.unwrap().path();
        let entry = folder.file_name().unwrap().to_str().unwrap();
        check(example, entry, &tensors(&folder), &folder.join("expected"), device);
    }
}

macro_rules! examples {
    ($($name:ident)*) => {
        /// The files that the tests below run.
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        $(#[test]
        fn $name() {
            for device in devices() {
                check_all(stringify!($name), device);
            }
        })*
    };
}

examples! {
    average_pool conv2d cumulative_sum k_means layer_norm mandelbrot matmul max_pool n_body sobel softmax tutorial
}

/// Real digits, with the weights that ship beside them.
#[test]
fn mnist_digits() {
    let inputs: Vec<_> = tensors(&root().join("examples/digits"))
        .into_iter()
        .filter(|(name, _)| name != "labels")
        .collect();
    for device in devices() {
        check(
            "mnist_digits",
            "mnist_digits",
            &inputs,
            &root().join("tests/golden/mnist_digits/expected"),
            device,
        );
    }
    let probability = read(&root().join("tests/golden/mnist_digits/expected/Probability.npy"));
    let labels = read(&root().join("examples/digits/labels.npy")).to_f64s();
    let found = probability
        .to_f64s()
        .chunks(10)
        .map(argmax)
        .zip(labels)
        .filter(|(f, label)| *f as f64 == *label)
        .count();
    assert_eq!(found, 35, "of 36 digits");
}

#[test]
fn recognise_digits() {
    let digits = root().join("examples/digits");
    let inputs =
        [("Image", "Image"), ("Label", "labels"), ("Kernel", "Kernel"), ("Weights", "Weights")];
    let inputs = inputs.map(|(name, file)| {
        format!("{name}={}", digits.join(file).with_extension("npy").display())
    });
    let program = root().join("examples/recognise_digits.tile").display().to_string();
    for device in devices() {
        let arguments = ["run", &program, "--device", device].map(str::to_owned);
        let inputs = inputs.iter().flat_map(|input| ["--input".to_owned(), input.clone()]);
        let run = tilec(arguments.into_iter().chain(inputs)).ok();
        assert!(run.text().ends_with("Right i32[]\n35\n"), "{device}: {}", run.text());
    }
}

fn argmax(values: &[f64]) -> usize {
    (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap()
}

/// No example is untested.
#[test]
fn all_are_tested() {
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_tile = path.extension().is_some_and(|e| e == "tile");
        let has_its_own = ["mnist_digits", "recognise_digits"].contains(&name);
        assert!(!is_tile || has_its_own || TESTED.contains(&name), "{name} has no test");
    }
}

/// Launches of a run on any GPU, and its memory traffic beside the minimum.
#[test]
fn kernels_and_traffic_of_models() {
    let of = |name: &str, sizes: &[&str]| {
        let file = root().join("examples/models").join(name).with_extension("tile");
        let file = file.to_str().expect("a path in unicode").to_string();
        let sizes = sizes.iter().flat_map(|size| ["--dim".to_string(), size.to_string()]);
        let run = tilec([file, "--emit".into(), "plan".into()].into_iter().chain(sizes)).ok();
        let text = run.text();
        assert!(text.contains("\nin each run:"), "{text}");
        let steps = text.lines().skip_while(|line| !line.starts_with("in each run:")).skip(1);
        let kernels = steps.filter(|line| {
            line.split_whitespace().next().is_some_and(|n| n.parse::<u32>().is_ok())
        });
        let traffic = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("traffic"))
            .expect("the plan's traffic");
        format!("{name}: {} kernels, {}\n", kernels.count(), traffic.trim())
    };
    let image = ["N=1", "H=224", "W=224"];
    let all = [
        of("mobilenet", &image),
        of("resnet50", &image),
        of("transformer_encoder", &["N=1", "T=1024"]),
    ];
    insta::assert_snapshot!(all.concat(), @"
    mobilenet: 30 kernels, 57.9 MB  1.00 times the least, 57.9 MB
    resnet50: 60 kernels, 214.2 MB  1.12 times the least, 191.7 MB
    transformer_encoder: 36 kernels, 377.6 MB  1.07 times the least, 352.5 MB
    ");
}
