//! The families of models in examples/ learn from the command line alone. tests/families.rs
//! compares their steps with those of Keras.

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
fn write(folder: &Path, samples: usize, (name, dtype, sizes, end): Array) {
    let ty = TensorType::new(dtype, [&[samples], sizes].concat());
    let values = (0..ty.elements()).map(|at| Scalar::from_i64(dtype, (at * at % 251 % end) as i64));
    let tensor = Tensor::from_scalars(ty.clone(), values.collect::<Vec<_>>()).unwrap();
    npy::write(&tensor, File::create(folder.join(format!("{name}.npy"))).unwrap()).unwrap();
}

/// Trains for some epochs, and checks that the loss falls.
fn learns(file: &str, entry: Option<&str>, arrays: &[Array]) {
    let name = file.replace('/', "_");
    let folder = empty_folder(&format!("family_{name}_{}", entry.unwrap_or_default()));
    arrays.iter().for_each(|array| write(&folder, SAMPLES, *array));
    let (path, data) = (format!("examples/{file}.tile"), folder.display().to_string());
    let mut arguments = vec!["train", &path, "--data", &data, "--epochs", "8", "--batch-size", "8"];
    arguments.extend(entry.iter().flat_map(|entry| ["--entry", entry]));
    falls(&tilec(arguments).ok().err);
}

/// Checks that the loss of the last epoch is below that of the first.
fn falls(lines: &str) {
    let losses: Vec<f64> = lines
        .lines()
        .filter_map(|line| line.split_once(" - loss: ")?.1.split(' ').next()?.parse().ok())
        .collect();
    assert!(losses.last() < losses.first(), "{lines}");
}

#[test]
fn families_learn() {
    let (f32, i32) = (DType::F32, DType::I32);
    learns("training/autoencoder", None, &[IMAGES]);
    learns("training/vae", Some("VAE"), &[IMAGES]);
    learns("training/contrastive", Some("Views"), &[IMAGES]);
    learns("training/contrastive", Some("Probe"), &[IMAGES, LABELS]);
    for entry in ["Teacher", "Student", "Distill"] {
        learns("training/distillation", Some(entry), &[IMAGES, LABELS]);
    }
    let image = |name| (name, f32, &[28, 28][..], 256);
    learns("training/siamese", None, &[image("Left"), image("Right"), ("Distance", i32, &[], 2)]);
    let numbers = [("Numbers", f32, &[6][..], 9), ("City", i32, &[], 50), ("Kind", i32, &[], 4)];
    let results = [("Price", f32, &[][..], 5), ("Sold", i32, &[], 2)];
    learns("training/tabular", None, &[&numbers[..], &results].concat());
    learns(
        "training/text_classifier",
        None,
        &[("Tokens", i32, &[12], 200), ("Logits", i32, &[], 4)],
    );
    let words = |name| (name, i32, &[10][..], 100);
    learns("training/translation", None, &[words("Source"), words("Begun"), words("Next")]);
    learns("training/own_cell", None, &[("X", f32, &[6, 2], 2), ("Sum", f32, &[1], 3)]);
    learns("training/schedules", None, &[IMAGES, LABELS]);
    let scenes = ("Image", DType::U8, &[64, 64, 3][..], 256);
    let objects = [scenes, ("Box", f32, &[3, 4], 2), ("Kind", i32, &[3], 4)];
    learns("training/detection", Some("Train"), &objects);
    learns("models/unet", None, &[("Image", f32, &[8, 8, 1], 2), ("Logits", i32, &[8, 8], 2)]);
    learns("models/gpt", None, &[("Tokens", i32, &[8], 256), ("Logits", i32, &[8], 256)]);
}

/// A picture is a weight, and is written as a picture.
#[test]
fn a_picture_is_painted() {
    let folder = empty_folder("family_painted");
    for (name, end) in [("Content", 256), ("Style", 99)] {
        write(&folder, 1, (name, DType::U8, &[256, 256, 3], end));
    }
    let path = "examples/style_transfer/paint.tile";
    let data = folder.display().to_string();
    let (weights, picture) = (format!("{data}/w.safetensors"), format!("{data}/painted.png"));
    let width = ["--set", "width=2"];
    let train = ["train", path, "--data", &data, "--epochs", "4", "--save", &weights];
    falls(&tilec([&train[..], &width].concat()).ok().err);
    let inputs = ["Content", "Style"].map(|name| format!("{name}={data}/{name}.npy"));
    let output = format!("Picture={picture}");
    let run = ["run", path, "--weights", &weights, "--output", &output];
    let inputs = ["--input", &inputs[0], "--input", &inputs[1]];
    tilec([&run[..], &inputs, &width].concat()).ok();
    let painted = image::open(&picture).unwrap();
    assert_eq!((painted.width(), painted.height()), (256, 256));
}

/// Writes scenes with one rectangle each, in the colour of its class. Returns boxes and classes.
fn write_scenes(folder: &Path) -> Vec<([f32; 4], i64)> {
    let (height, width) = (20, 24);
    let corner = |scene: usize| (scene * 7 % 40, scene * 11 % 40);
    let images = (0..SAMPLES).flat_map(|scene| {
        let (top, left) = corner(scene);
        (0..64 * 64 * 3).map(move |at: usize| {
            let (y, x, channel) = (at / 192, at / 3 % 64, at % 3);
            let inside = (top..top + height).contains(&y) && (left..left + width).contains(&x);
            if inside && channel == scene % 3 { 255 } else { 0 }
        })
    });
    let images = images.map(|value| Scalar::from_i64(DType::U8, value)).collect::<Vec<_>>();
    let object = |scene| {
        let (top, left) = corner(scene);
        let sides = [top, left, top + height, left + width];
        (sides.map(|side| side as f32 / 64.0), scene as i64 % 3 + 1)
    };
    let objects: Vec<_> = (0..SAMPLES).map(object).collect();
    // A second box of class 0 fills up.
    let boxes = objects.iter().flat_map(|(sides, _)| [*sides, [0.0; 4]]).flatten();
    let boxes = boxes.map(Scalar::f32).collect::<Vec<_>>();
    let kinds = objects.iter().flat_map(|(_, kind)| [*kind, 0]);
    let kinds = kinds.map(|kind| Scalar::from_i64(DType::I32, kind)).collect::<Vec<_>>();
    for (name, dtype, sizes, values) in [
        ("Image", DType::U8, &[64, 64, 3][..], images),
        ("Box", DType::F32, &[2, 4], boxes),
        ("Kind", DType::I32, &[2], kinds),
    ] {
        let ty = TensorType::new(dtype, [&[SAMPLES], sizes].concat());
        let file = File::create(folder.join(format!("{name}.npy"))).unwrap();
        npy::write(&Tensor::from_scalars(ty, values).unwrap(), file).unwrap();
    }
    objects
}

/// After training, `Detect` gives the class and the box of each scene's object.
#[test]
fn objects_are_detected() {
    let folder = empty_folder("family_objects");
    let objects = write_scenes(&folder);
    let path = "examples/training/detection.tile";
    let (data, weights) = (folder.display().to_string(), folder.join("w.safetensors"));
    let weights = weights.display().to_string();
    let train = ["train", path, "--entry", "Train", "--data", &data, "--epochs", "50"];
    tilec([&train[..], &["--batch-size", "8", "--save", &weights]].concat()).ok();
    let image = format!("Image={data}/Image.npy");
    let detect = ["run", path, "--entry", "Detect", "--weights", &weights];
    tilec([&detect[..], &["--input", &image, "--output-dir", &data]].concat()).ok();
    let images = format!("{data}/Image.npy");
    let predict = ["predict", path, "--entry", "Detect", "--weights", &weights, &images];
    let lines = tilec(predict).ok();
    let kinds = lines.text().lines().next().and_then(|line| line.split("Kinds ").nth(1));
    assert!(kinds.is_some_and(|kinds| kinds.starts_with("1 ")), "{}", lines.text());
    let read = |name: &str| npy::read(File::open(folder.join(name)).unwrap()).unwrap().to_f64s();
    let (boxes, kinds) = (read("Boxes.npy"), read("Kinds.npy"));
    for (scene, (sides, kind)) in objects.into_iter().enumerate() {
        assert_eq!(kinds[10 * scene] as i64, kind, "scene {scene}");
        for (found, side) in boxes[40 * scene..].iter().zip(sides) {
            assert!((found - f64::from(side)).abs() < 0.15, "scene {scene}: {found} and {side}");
        }
    }
}
