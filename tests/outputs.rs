//! Training of models with several outputs: each has its loss, factor, target and metrics.

use std::path::Path;

use serde_json::Value;
use tile_runtime::train::{Arrays, ColumnRole, Epoch, Fit, Reading, Trainer, Validation};
use tile_runtime::{DType, Device, Model, Scalar, Tensor, TensorType};

/// The model of golden/training/outputs.py.
const PROGRAM: &str = "
model Person(X[N, 4]) -> (Age, Kind) {
    shared = Dense(6, activation = tanh);
    age = Dense(2);
    kind = Dense(3);
    Hidden = shared(X);
    Age = age(Hidden);
    Kind = kind(Hidden);
}

train Person {
    loss = [MeanSquaredError(), SparseCategoricalCrossentropy(from_logits = true)];
    loss_weights = [1.0, 0.5];
    optimizer = SGD(0.1);
    metrics = [MeanAbsoluteError(), [SparseCategoricalAccuracy(name = accuracy)]];
    batch_size = 3;
    shuffle = false;
}";

fn golden() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/training/outputs.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Makes a tensor of nested lists.
fn tensor(dtype: DType, value: &Value) -> Tensor {
    fn flat(value: &Value, values: &mut Vec<f64>) {
        match value.as_array() {
            Some(items) => items.iter().for_each(|item| flat(item, values)),
            None => values.push(value.as_f64().unwrap()),
        }
    }
    let (mut shape, mut values, mut outer) = (Vec::new(), Vec::new(), value);
    while let Some(items) = outer.as_array() {
        shape.push(items.len());
        outer = &items[0];
    }
    flat(value, &mut values);
    let values = values.into_iter().map(|value| Scalar::from_f64(dtype, value));
    Tensor::from_scalars(TensorType::new(dtype, shape), values).unwrap()
}

fn samples(golden: &Value) -> Arrays {
    let of = |dtype, name: &str| tensor(dtype, &golden["samples"][name]);
    // The targets are found by their names, in any order.
    Arrays::default()
        .with(ColumnRole::Input, Some("X"), of(DType::F32, "X"))
        .unwrap()
        .with(ColumnRole::Target, Some("Kind"), of(DType::I32, "Kind"))
        .unwrap()
        .with(ColumnRole::Target, Some("Age"), of(DType::F32, "Age"))
        .unwrap()
}

fn trainer(source: &str, device: &Device) -> Trainer {
    Model::compile(source).unwrap().trainer(device).build().unwrap()
}

fn assert_near(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{what}: {found} and {expected}");
    }
}

/// An epoch of two steps, 3 and 2 samples, gives the results and weights that PyTorch gives.
#[test]
fn an_epoch_is_that_of_pytorch() {
    let (golden, data) = (golden(), samples(&golden()));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outputs.safetensors");
    let first = golden["first"].as_object().unwrap().iter();
    let first: Vec<(String, Tensor)> =
        first.map(|(name, value)| (name.clone(), tensor(DType::F32, value))).collect();
    tile_runtime::weights::write(&file, &first).unwrap();
    for device in [Device::cpu(), Device::reference()] {
        let mut trainer = trainer(PROGRAM, &device);
        trainer.load(&file).unwrap();
        let history = trainer.fit(&data, Fit::epochs(1)).unwrap();
        let results: Vec<(String, Reading)> = history[0].results().collect();
        let names: Vec<&str> = results.iter().map(|(name, _)| name.as_str()).collect();
        let expected =
            ["loss", "Age_loss", "Kind_loss", "Age_mean_absolute_error", "Kind_accuracy"];
        assert_eq!(names, expected);
        for (name, reading) in &results {
            assert_near(name, reading.values(), &[golden["results"][name].as_f64().unwrap()]);
        }
        for (path, value) in trainer.weights().unwrap() {
            let expected = tensor(DType::F32, &golden["last"][&path]).to_f64s();
            assert_near(&path, &value.to_f64s(), &expected);
        }
    }
}

/// The losses of the outputs, times their factors, add up to the loss: in validation, too, and with
/// the weights of samples.
#[test]
fn losses_of_outputs_add_up() {
    let weights = Tensor::from_f32([5], &[1.0, 0.0, 2.0, 0.5, 1.0]).unwrap();
    let data = samples(&golden()).with(ColumnRole::Weight, None, weights).unwrap();
    let mut trainer = trainer(PROGRAM, &Device::cpu());
    let fit = Fit::epochs(1).validation(Validation::Set(&data));
    let history = trainer.fit(&data, fit).unwrap();
    let sum = |epoch: &Epoch, part: &str| {
        let of = |name: &str| epoch.get(&format!("{part}{name}")).unwrap();
        assert_near(part, &[of("loss")], &[of("Age_loss") + 0.5 * of("Kind_loss")]);
    };
    sum(&history[0], "");
    sum(&history[0], "val_");
    let evaluated = trainer.evaluate(&data, 2).unwrap();
    assert!(evaluated.iter().any(|(name, _)| name == "Kind_loss"), "{evaluated:?}");
}

/// A single loss has no result of its own, whether the model has other outputs or not.
#[test]
fn only_losses_of_several_outputs_have_results() {
    let names = |source: &str, data: &Arrays| -> Vec<String> {
        let results = trainer(source, &Device::cpu()).evaluate(data, 5).unwrap();
        results.into_iter().map(|(name, _)| name).collect()
    };
    let golden = golden();
    let one = PROGRAM
        .replace("SparseCategoricalCrossentropy(from_logits = true)]", "none]")
        .replace("[MeanAbsoluteError(), [SparseCategoricalAccuracy(name = accuracy)]]", "[]");
    let one = one.replace("    metrics = [];\n", "");
    assert_eq!(names(&one, &samples(&golden)), ["loss"]);
    let single = "model One(X[N, 4]) -> (Age) { Age = X |> Dense(2); }
        train One { loss = [mse]; optimizer = SGD(); metrics = [mae]; }";
    let of = |name: &str| tensor(DType::F32, &golden["samples"][name]);
    let data = Arrays::new(of("X"), of("Age")).unwrap();
    assert_eq!(names(single, &data), ["loss", "mean_absolute_error"]);
}
