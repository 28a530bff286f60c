//! The models of examples/training learn from the command line alone.

use std::fs::File;
use std::path::Path;

use tile_runtime::data::npy;
use tile_runtime::{DType, Scalar, Tensor, TensorType};

use crate::tilec::{empty_folder, tilec};

/// The samples of a test.
const SAMPLES: usize = 24;

/// An array for a model: its name, type, the sizes of a sample, and the end of the range of its
/// numbers, which begins with 0.
type Array = (&'static str, DType, &'static [usize], usize);

const IMAGES: Array = ("x", DType::U8, &[28, 28], 256);
const LABELS: Array = ("y", DType::I32, &[], 10);

/// Writes an array of numbers that vary from sample to sample.
fn write(folder: &Path, (name, dtype, sizes, end): Array) {
    let ty = TensorType::new(dtype, [&[SAMPLES], sizes].concat());
    let values = (0..ty.elements()).map(|at| Scalar::from_i64(dtype, (at * at % 251 % end) as i64));
    let tensor = Tensor::from_scalars(ty.clone(), values.collect::<Vec<_>>()).unwrap();
    npy::write(&tensor, File::create(folder.join(format!("{name}.npy"))).unwrap()).unwrap();
}

/// Trains for some epochs, and checks that the loss falls.
fn learns(file: &str, entry: Option<&str>, arrays: &[Array]) {
    let folder = empty_folder(&format!("family_{file}_{}", entry.unwrap_or_default()));
    arrays.iter().for_each(|array| write(&folder, *array));
    let (path, data) = (format!("examples/training/{file}.tile"), folder.display().to_string());
    let mut arguments = vec!["train", &path, "--data", &data, "--epochs", "8", "--batch-size", "8"];
    arguments.extend(entry.iter().flat_map(|entry| ["--entry", entry]));
    let run = tilec(arguments).ok();
    let losses: Vec<f64> = run
        .err
        .lines()
        .filter_map(|line| line.split_once(" - loss: ")?.1.split(' ').next()?.parse().ok())
        .collect();
    assert!(losses.last() < losses.first(), "{file}: {}", run.err);
}

#[test]
fn families_learn() {
    let (f32, i32) = (DType::F32, DType::I32);
    learns("autoencoder", None, &[IMAGES]);
    learns("vae", Some("VAE"), &[IMAGES]);
    learns("contrastive", Some("Views"), &[IMAGES]);
    learns("contrastive", Some("Probe"), &[IMAGES, LABELS]);
    for entry in ["Teacher", "Student", "Distill"] {
        learns("distillation", Some(entry), &[IMAGES, LABELS]);
    }
    let image = |name| (name, f32, &[28, 28][..], 256);
    learns("siamese", None, &[image("Left"), image("Right"), ("Distance", i32, &[], 2)]);
    let numbers = [("Numbers", f32, &[6][..], 9), ("City", i32, &[], 50), ("Kind", i32, &[], 4)];
    let results = [("Price", f32, &[][..], 5), ("Sold", i32, &[], 2)];
    learns("tabular", None, &[&numbers[..], &results].concat());
    learns("text_classifier", None, &[("Tokens", i32, &[12], 200), ("Logits", i32, &[], 4)]);
    let words = |name| (name, i32, &[10][..], 100);
    learns("translation", None, &[words("Source"), words("Begun"), words("Next")]);
}
