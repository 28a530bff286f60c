//! Models that `tilec train` trains in turn: generative adversarial networks, from the command line
//! alone.

use std::fs;

use serde_json::Value;
use tile_runtime::weights::WeightsFile;

use crate::points::Points;
use crate::tilec::{empty_folder, tilec};

/// A generator of points, and a network that tells its points from those of the data. The generator
/// has no inputs.
const PROGRAM: &str = "
layer Generator()(Noise[N, 3]) -> (Point) {
    Point = Noise |> Dense(8) |> BatchNormalization() |> Dense(2, activation = tanh);
}

layer Discriminator()(Point[N, 2]) -> (Logit) {
    Logit = Point |> Dense(8, activation = tanh) |> Dropout(0.1) |> Dense(1);
}

function of_data(Logit) -> (L) { L = softplus(-Logit); }
function of_generator(Logit) -> (L) { L = softplus(Logit); }

model Discriminate(Point[N, 2]) -> (Real, Fake) {
    generator = Generator();
    discriminator = Discriminator();
    Real = discriminator(Point);
    Fake = discriminator(generator(random_normal()([N, 3])));
}

train Discriminate {
    loss = [of_data, of_generator];
    trained = \"discriminator\";
    optimizer = Adam(0.01);
    batch_size = 10;
    epochs = 4;
}

model Generate(batch_size = 5)() -> (Point, Fake) {
    generator = Generator();
    discriminator = Discriminator();
    Point = generator(random_normal()([batch_size, 3]));
    Fake = discriminator(Point);
}

train Generate {
    loss = [none, of_data];
    trained = \"generator\";
    optimizer = Adam(0.01);
}
";

fn points(name: &str) -> Points {
    let case = Points::new(name);
    fs::write(case.folder.join("points.tile"), PROGRAM).unwrap();
    case
}

/// Returns the outputs of the generator with the weights in a file: its points, and what the
/// discriminator says of them.
fn drawn(case: &Points, weights: &str, seed: u32) -> Vec<Value> {
    let options = format!("--entry Generate --weights {weights} --random {seed} --json");
    let run = case.run("run", &options).ok();
    let outputs: Value = serde_json::from_str(run.text()).unwrap();
    ["Point", "Fake"].map(|name| find(&outputs, name)).to_vec()
}

/// Returns the output with a name, wherever it is in the JSON of `run`.
fn find(outputs: &Value, name: &str) -> Value {
    let items = outputs["outputs"].as_array().unwrap();
    items.iter().find(|output| output["name"] == name).unwrap().clone()
}

#[test]
fn adversaries_are_trained_and_resumed() {
    let case = points("in_turn");
    let data = "--data @points.csv --validation 0.2";
    let whole = case.run("train", &format!("{data} --save @whole.npz --log @whole.jsonl")).ok();
    let shares = "trained in turn: Discriminate, Generate, which share discriminator, generator";
    assert!(whole.err.contains(shares), "{}", whole.err);
    assert!(whole.err.contains(" - val_Generate.loss: "), "{}", whole.err);
    let line = fs::read_to_string(case.folder.join("whole.jsonl")).unwrap();
    let line: Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    // Two outputs of the discriminator have losses of their own.
    let results =
        ["Discriminate.Fake_loss", "Discriminate.Real_loss", "Discriminate.loss", "Generate.loss"];
    let validated = results.map(|name| format!("val_{name}"));
    let validated: Vec<&str> = validated.iter().map(String::as_str).collect();
    assert_eq!(keys, [&results[..], &["epoch", "seconds"], &validated].concat());
    case.run("train", &format!("{data} --save @part.npz --epochs 2")).ok();
    case.run("train", &format!("{data} --resume @part.npz --save @part.npz")).ok();
    assert_eq!(drawn(&case, "@whole.npz", 1), drawn(&case, "@part.npz", 1));
    assert_ne!(drawn(&case, "@whole.npz", 1)[0], drawn(&case, "@whole.npz", 2)[0]);
    let evaluated = case.run("evaluate", "--data @points.csv --weights @whole.npz").ok();
    assert!(evaluated.text().contains("\nGenerate.loss           0."), "{}", evaluated.text());
    let one = "--data @points.csv --weights @whole.npz --entry Generate";
    assert!(case.run("evaluate", one).ok().text().starts_with("loss  0."));
    // One model is trained alone.
    case.run("train", &format!("{data} --entry Discriminate --weights @whole.npz --save @one.npz"))
        .ok();
    let ([point, fake], [point_of_one, fake_of_one]) =
        (&drawn(&case, "@whole.npz", 1)[..], &drawn(&case, "@one.npz", 1)[..])
    else {
        panic!("two outputs")
    };
    assert_ne!(fake, fake_of_one);
    // Its steps have changed the moving statistics of the generator, and no trained weight of it.
    assert_ne!(point, point_of_one);
    // There is no common loss to watch.
    let run = case.run("train", "--data @points.csv --patience 2");
    assert_eq!(run.code, 1, "{}", run.err);
    let names = "unknown result `loss` to watch: there are Discriminate.loss, ";
    assert!(run.err.contains(names), "{}", run.err);
    case.run("train", "--data @points.csv --patience 2 --monitor Generate.loss").ok();
}

#[test]
fn check_and_summary_show_models_in_turn() {
    let case = points("in_turn_summary");
    assert_eq!(case.run("check", "").ok().err, "");
    let summary = case.run("summary", "--entry Discriminate").ok();
    assert!(summary.text().contains("discriminator (Discriminator)"), "{}", summary.text());
    assert!(summary.text().contains(" Memory of a training step"), "{}", summary.text());
}

/// A path that is frozen is one of a model among several.
#[test]
fn a_layer_of_one_model_in_turn_is_frozen() {
    let case = points("in_turn_frozen");
    let heads = PROGRAM.replacen(
        "Fake = discriminator(Point);\n}",
        "Fake = discriminator(Point) |> Dense(1, name = \"head\");\n}",
        1,
    );
    fs::write(case.folder.join("points.tile"), heads).unwrap();
    let data = "--data @points.csv --epochs 1 --seed 1";
    case.run("train", &format!("{data} --save @one.npz")).ok();
    let frozen = format!("{data} --weights @one.npz --freeze head --freeze generator.dense");
    case.run("train", &format!("{frozen} --save @two.npz")).ok();
    let layer = |file: &str, path: &str| {
        let mut file = WeightsFile::open(case.folder.join(file)).unwrap();
        let number = file.tensors().iter().position(|(name, _)| name == path).unwrap();
        file.read(number).unwrap()
    };
    for (path, is_frozen) in [
        ("head.Kernel", true),
        ("generator.dense.Kernel", true),
        ("generator.dense_1.Kernel", false),
    ] {
        assert_eq!(layer("one.npz", path) == layer("two.npz", path), is_frozen, "{path}");
    }
    let run = case.run("train", &format!("{data} --freeze hed"));
    assert_eq!(run.code, 1, "{}", run.err);
    let error = "cannot freeze `hed`: no model that is trained has such a layer or weight";
    assert!(run.err.contains(error), "{}", run.err);
}

/// The example learns from pictures of 28 x 28 points in MNIST's format.
#[test]
fn the_dcgan_of_the_examples_is_trained() {
    let folder = empty_folder("in_turn_dcgan");
    let image =
        |n: usize| (0..784_usize).map(move |p| if (p + n).is_multiple_of(5) { 255 } else { 0 });
    let sizes = |sizes: &[u32]| sizes.iter().flat_map(|size| size.to_be_bytes()).collect();
    let images: Vec<u8> = [0, 0, 8, 3].into_iter().chain::<Vec<u8>>(sizes(&[16, 28, 28])).collect();
    let images: Vec<u8> = images.into_iter().chain((0..16).flat_map(image)).collect();
    let labels: Vec<u8> = [0, 0, 8, 1].into_iter().chain::<Vec<u8>>(sizes(&[16])).collect();
    let labels: Vec<u8> = labels.into_iter().chain([0; 16]).collect();
    fs::write(folder.join("train-images-idx3-ubyte"), images).unwrap();
    fs::write(folder.join("train-labels-idx1-ubyte"), labels).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let (file, data, weights) = ("examples/models/dcgan.tile", path(""), path("w.safetensors"));
    let options = ["--data", &data, "--epochs", "2", "--batch-size", "8", "--save", &weights];
    let run = tilec(["train", file].into_iter().chain(options)).ok();
    assert!(run.err.contains("Epoch 2/2 2/2 "), "{}", run.err);
    let out = path("out");
    let options = ["--weights", &weights, "--random", "1", "--output-dir", &out];
    let run = tilec(["run", file, "--entry", "Generate"].into_iter().chain(options)).ok();
    assert!(run.text().contains("Image f32[16, 28, 28]"), "{}", run.text());
}
