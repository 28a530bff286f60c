//! The networks for MNIST learn its digits as well as Keras' do: see
//! golden/training/mnist_accuracy.py.
//!
//! The digits are in the folder that `MNIST` names, or `../shared/data/mnist`. Without them, only
//! the few in this repository are learnt.
//!
//!     cargo test --release --test mnist -- --include-ignored --nocapture

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use common::ADAPTERS;
use tile_runtime::data::{folder, npy};
use tile_runtime::train::{Arrays, Dataset, Epoch, Fit, Trainer, Validation};
use tile_runtime::{Device, Model};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn trainer(network: &str, device: &Device) -> Trainer {
    let source =
        fs::read_to_string(root().join(format!("examples/models/mnist_{network}.tile"))).unwrap();
    Model::compile(&source).unwrap().trainer(device).build().unwrap()
}

/// Returns all digits, if they are on this machine.
fn digits() -> Option<Box<dyn Dataset>> {
    let path = std::env::var_os("MNIST")
        .map_or_else(|| root().join("../shared/data/mnist"), PathBuf::from);
    match path.exists() {
        true => Some(folder::open(&path).unwrap().train),
        false => {
            eprintln!("{} is not there: its digits are not learnt", path.display());
            None
        }
    }
}

/// Trains as the network's `train` block says, and panics if the validation accuracy, the mean of
/// three seeds, is more than 0.7 points below Keras'.
fn check(network: &str, device: &Device) {
    let Some(digits) = digits() else { return };
    let keras =
        fs::read_to_string(root().join("tests/golden/training/mnist_accuracy.json")).unwrap();
    let keras: serde_json::Value = serde_json::from_str(&keras).unwrap();
    let keras: Vec<f64> =
        keras[network].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    let learn = |seed: u64| {
        let mut trainer = trainer(network, device);
        trainer.seed(seed);
        let fit = Fit::epochs(trainer.settings().epochs).validation(Validation::Fraction(0.1));
        let history = trainer.fit(&*digits, fit).unwrap();
        history.last().and_then(|epoch: &Epoch| epoch.get("val_accuracy")).unwrap()
    };
    let found: Vec<f64> = (0..3).map(learn).collect();
    println!("{network} on {}: {found:.3?}, and Keras {keras:.3?}", device.name());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!(mean(&found) >= mean(&keras) - 0.007, "{network} on {}: {found:?}", device.name());
}

/// A dense network memorises 36 digits, and the convolutional one most of them.
#[test]
fn a_few_digits_are_learnt() {
    let read = |name: &str| {
        npy::read(File::open(root().join("examples/digits").join(name)).unwrap()).unwrap()
    };
    let digits = Arrays::new(read("Image.npy"), read("labels.npy")).unwrap();
    for (network, epochs, accuracy) in [("mlp", 30, 0.99), ("cnn", 4, 0.7)] {
        let mut trainer = trainer(network, &Device::cpu());
        trainer.fit(&digits, Fit::epochs(epochs)).unwrap();
        let results = trainer.evaluate(&digits, 36).unwrap();
        assert!(
            results[1].0 == "accuracy" && results[1].1.number() >= Some(accuracy),
            "{network}: {results:?}"
        );
    }
}

#[test]
fn an_epoch_is_enough_for_most_digits() {
    let Some(digits) = digits() else { return };
    let mut trainer = trainer("mlp", &Device::cpu());
    let fit = Fit::epochs(1).validation(Validation::Fraction(0.1));
    let history = trainer.fit(&*digits, fit).unwrap();
    // Keras reaches 0.900 to 0.906.
    assert!(history[0].get("val_accuracy").unwrap() > 0.88, "{history:?}");
}

#[test]
#[ignore = "takes minutes"]
fn the_dense_network_knows_as_many_digits_as_in_keras() {
    check("mlp", &Device::cpu());
}

#[test]
#[ignore = "takes minutes"]
fn the_dense_network_knows_as_many_digits_as_in_keras_on_adapters() {
    ADAPTERS.iter().for_each(|device| check("mlp", device));
}

#[test]
#[ignore = "takes minutes"]
fn the_convolutional_network_knows_as_many_digits_as_in_keras() {
    check("cnn", &Device::cpu());
}
