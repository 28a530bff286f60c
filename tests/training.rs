//! Training through the public API: what it learns, that it can be stopped and resumed, and what is told of wrong data.

mod common;

use common::ADAPTERS;
use tile_runtime::train::{
    Arrays, Callback, Checkpoint, ColumnRole, Dataset, EarlyStopping, Epoch, Fit, Log, Monitor, Progress, Trainer,
    Validation,
};
use tile_runtime::{DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// A line through points, and a network with a normalization and dropout, whose training is random.
const PROGRAM: &str = "
optimizer Descent(lr = 0.1)(P, G) {
    state Velocity like P = zeros;
    V = 0.5 * Velocity - lr * rate_factor() * G;
    update Velocity = V;
    update P = P + V;
}

loss Squares()(Predicted, Target) -> (L) { D = Predicted - Target; L = D * D; }

metric Largest()(Predicted, Target) -> (Value) {
    state Before[] = zeros;
    D = abs(Predicted - Target);
    Here[] = >(D[n, c]);
    Value = max(Before, Here);
    update Before = Value;
}

model Line(X[N, 1]) -> (Y) { Y = X |> Dense(1, kernel_initializer = zeros); }

train Line { loss = Squares(); optimizer = Descent(); metrics = [Largest()]; batch_size = 4; seed = 3; }

model Network(X[N, 3]) -> (Y) {
    Y = X |> Dense(8, activation = tanh) |> BatchNormalization() |> Dropout(0.25) |> Dense(2);
}

train Network { loss = Squares(); optimizer = Descent(0.02); metrics = [Largest()]; batch_size = 8; seed = 5; }
";

fn trainer(entry: &str, device: &Device) -> Trainer {
    Model::compile(PROGRAM).unwrap().trainer(device).entry(entry).build().unwrap()
}

/// `y = 2 x + 1` at 10 places.
fn line() -> Arrays {
    let x: Vec<f32> = (0..10).map(|n| n as f32 / 5.0 - 1.0).collect();
    let y: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
    Arrays::new(Tensor::from_f32([10, 1], &x).unwrap(), Tensor::from_f32([10, 1], &y).unwrap()).unwrap()
}

/// 43 samples for the network: not a multiple of its batch.
fn samples() -> Arrays {
    let value = |n: usize| ((n * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    let x: Vec<f32> = (0..43 * 3).map(value).collect();
    let y: Vec<f32> = (0..43).flat_map(|n| [x[3 * n] * x[3 * n + 1], x[3 * n + 2]]).collect();
    Arrays::new(Tensor::from_f32([43, 3], &x).unwrap(), Tensor::from_f32([43, 2], &y).unwrap()).unwrap()
}

fn get(epoch: &Epoch, name: &str) -> f64 {
    epoch.get(name).unwrap()
}

#[test]
fn a_line_is_learnt_on_every_device() {
    for device in [vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat() {
        let mut trainer = trainer("Line", &device);
        let history = trainer.fit(&line(), Fit::epochs(40)).unwrap();
        let last = history.last().unwrap();
        assert!(get(last, "loss") < 1e-6, "{} {last:?}", device.name());
        assert!(get(last, "largest") < 1e-2, "{last:?}");
        let weights: Vec<f64> = trainer.weights().unwrap().iter().map(|(_, value)| value.get(0).to_f64()).collect();
        assert!((weights[0] - 2.0).abs() < 1e-3 && (weights[1] - 1.0).abs() < 1e-3, "{weights:?}");
        // What is evaluated are these weights; the mean is over all samples, though the last batch has two.
        let results = trainer.evaluate(&line(), 4).unwrap();
        assert_eq!(results[0].0, "loss");
        assert!(results[0].1 < 1e-6);
        let predicted = trainer.predict(&line(), 4).unwrap().remove("Y");
        assert_eq!(predicted.shape(), [10, 1]);
        assert!((predicted.get(9).to_f64() - 2.6).abs() < 1e-3);
    }
}

/// By hand: weights are 0, so the loss of a sample is the square of its target.
#[test]
fn the_loss_of_an_epoch_is_the_mean_over_samples() {
    let mut trainer = trainer("Line", &Device::cpu());
    let squares: Vec<f64> = (0..10).map(|n| (2.0 * (f64::from(n) / 5.0 - 1.0) + 1.0).powi(2)).collect();
    let results = trainer.evaluate(&line(), 4).unwrap();
    assert!((results[0].1 - squares.iter().sum::<f64>() / 10.0).abs() < 1e-6, "{results:?}");
    assert_eq!(results[1], ("largest".to_owned(), 2.5999999046325684));
    // With weights, each sample counts as often as its weight says; the mean is over samples.
    let weights: Vec<f32> = (0..10).map(|n| n as f32).collect();
    let weighted = line().with(ColumnRole::Weight, None, Tensor::from_f32([10], &weights).unwrap()).unwrap();
    let results = trainer.evaluate(&weighted, 5).unwrap();
    let expected: f64 = squares.iter().zip(0..).map(|(square, n)| square * f64::from(n)).sum();
    assert!((results[0].1 - expected / 10.0).abs() < 1e-5, "{results:?} {expected}");
}

/// The weights after training, as bytes.
fn bytes(trainer: &mut Trainer) -> Vec<(String, Vec<u8>)> {
    trainer.weights().unwrap().into_iter().map(|(path, value)| (path, value.into_bytes())).collect()
}

/// Stops after so many steps.
struct StopAfter(usize);

impl Callback for StopAfter {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        self.0 -= 1;
        state.stop = self.0 == 0;
        Ok(())
    }
}

#[test]
fn a_run_that_is_stopped_and_resumed_is_the_run_that_never_stopped() {
    let folder = std::env::temp_dir().join(format!("tilec-training-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("weights.safetensors");
    let fit = || Fit::epochs(4).validation(Validation::Fraction(0.2));
    for device in [vec![Device::cpu()], ADAPTERS.clone()].concat() {
        let mut whole = trainer("Network", &device);
        let history = whole.fit(&samples(), fit()).unwrap();
        let mut again = trainer("Network", &device);
        assert_eq!(again.fit(&samples(), fit()).unwrap().last().unwrap().training, history[3].training);
        assert_eq!(bytes(&mut whole), bytes(&mut again), "{}", device.name());
        // 35 samples are five steps an epoch: at the end of an epoch, and within one.
        for stop in [10, 13] {
            let mut first = trainer("Network", &device);
            first.fit(&samples(), fit().callback(StopAfter(stop))).unwrap();
            first.save(&file).unwrap();
            let mut second = trainer("Network", &device);
            second.resume(&file).unwrap();
            let rest = second.fit(&samples(), fit()).unwrap();
            assert_eq!(rest.last().unwrap().training, history[3].training);
            assert_eq!(bytes(&mut second), bytes(&mut whole), "{} after {stop}", device.name());
        }
    }
    // A run takes the model's weights from such a file, and leaves the rest.
    let model = Model::compile(PROGRAM).unwrap();
    let mut session = model.on(&Device::cpu()).entry("Network").input("X", [1, 3]).build().unwrap();
    session.load(&file).unwrap();
    // Another model's weights are refused, by name.
    let mut other = trainer("Line", &Device::cpu());
    other.resume(&file).unwrap();
    let error = other.fit(&line(), Fit::epochs(9)).unwrap_err().to_string();
    assert!(error.contains("`dense.Kernel` must be f32[1, 1], and is f32[3, 8]"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_session_takes_what_it_has_learnt() {
    let model = Model::compile(PROGRAM).unwrap();
    let mut session = model.on(&Device::cpu()).entry("Line").input("X", [1, 1]).build().unwrap();
    session.fit(&line(), Fit::epochs(40)).unwrap();
    let y = session.run([("X", Tensor::from_f32([1, 1], &[3.0]).unwrap())]).unwrap().remove("Y");
    assert!((y.get(0).to_f64() - 7.0).abs() < 1e-2, "{y:?}");
    assert!(session.evaluate(&line(), 3).unwrap()[0].1 < 1e-6);
}

#[test]
fn callbacks() {
    let folder = std::env::temp_dir().join(format!("tilec-callbacks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (log, table, best) = (folder.join("log.jsonl"), folder.join("log.csv"), folder.join("best.npz"));
    let fit = Fit::epochs(100)
        .validation(Validation::Fraction(0.2))
        .callback(EarlyStopping::new(Monitor { least_change: 0.5, ..Monitor::of("val_loss") }, 2))
        .callback(Checkpoint::best(&best, Monitor::of("val_loss")))
        .callback(Log::new(&log, false).unwrap())
        .callback(Log::new(&table, false).unwrap());
    let mut trainer = trainer("Line", &Device::cpu());
    let history = trainer.fit(&line(), fit).unwrap();
    assert!((3..10).contains(&history.len()), "{}", history.len());
    let lines = std::fs::read_to_string(&log).unwrap();
    assert_eq!(lines.lines().count(), history.len());
    let line: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    for name in ["epoch", "loss", "largest", "val_loss", "val_largest", "seconds"] {
        assert!(line[name].is_number(), "{name} in {line}");
    }
    let table = std::fs::read_to_string(&table).unwrap();
    assert_eq!(table.lines().next().unwrap(), "epoch,loss,largest,val_loss,val_largest,seconds");
    assert!(best.exists());
    std::fs::remove_dir_all(&folder).unwrap();
    // What the trainer has made are epochs, too.
    assert_eq!(trainer.fit(&self::line(), Fit::epochs(2)).unwrap(), []);
    let fit = Fit::epochs(100).callback(EarlyStopping::new(Monitor::of("val_acuracy"), 2));
    let error = trainer.fit(&self::line(), fit).unwrap_err().to_string();
    assert_eq!(error, "there is no result `val_acuracy` to watch; there are loss, largest");
}

#[test]
fn what_is_wrong_is_told() {
    let mut network = trainer("Line", &Device::cpu());
    let ones = |shape: &[usize]| Tensor::from_f32(shape, &vec![1.0; shape.iter().product()]).unwrap();
    let error = Arrays::new(ones(&[3, 1]), ones(&[4, 1])).unwrap_err().to_string();
    assert_eq!(error, "target has 4 samples, and the others have 3");
    let error = network.fit(&Arrays::new(ones(&[0, 1]), ones(&[0, 1])).unwrap(), Fit::epochs(1)).unwrap_err();
    assert_eq!(error.to_string(), "there are no samples to train on");
    let two = line().with(ColumnRole::Input, None, ones(&[10, 1])).unwrap();
    assert_eq!(network.fit(&two, Fit::epochs(1)).unwrap_err().to_string(), "the data have more inputs than the model");
    // The place in the program where a number goes bad.
    let nan =
        Tensor::from_scalars(TensorType::new(DType::F32, [4, 1]), [1.0, 2.0, f32::NAN, 3.0].map(Scalar::f32)).unwrap();
    let error = network.fit(&Arrays::new(nan, ones(&[4, 1])).unwrap(), Fit::epochs(1)).unwrap_err();
    let Error::Program { diagnostics, .. } = &error else { panic!("{error}") };
    assert_eq!(diagnostics[0].message, "the loss is NaN in step 1 of training");
    assert_eq!(diagnostics[0].labels[0].text, "`X` is the first tensor with NaN");
}

/// A class that there is not is no silent zero.
#[test]
fn targets_that_are_no_classes() {
    let program = "
model Three(X[N, 1]) -> (Y) { Y = X |> Dense(3); }
train Three { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(0.1); batch_size = 4; }
";
    for (classes, is_bad) in
        [([0.0f32, 2.0, 1.0, 2.0], false), ([0.0, 3.0, 1.0, 2.0], true), ([0.0, 0.5, 1.0, 2.0], true)]
    {
        let x = Tensor::from_f32([4, 1], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        let data = Arrays::new(x, Tensor::from_f32([4], &classes).unwrap()).unwrap();
        let mut trainer = Model::compile(program).unwrap().trainer(&Device::cpu()).build().unwrap();
        assert_eq!(trainer.fit(&data, Fit::epochs(1)).is_err(), is_bad, "{classes:?}");
    }
}

/// Steps of many sizes: only the last few stay compiled.
#[test]
fn batches_of_many_sizes() {
    let mut trainer = trainer("Line", &Device::cpu());
    for size in 1..=10 {
        let fit = Fit::epochs(size).batch_size(size);
        assert_eq!(trainer.fit(&line(), fit).unwrap().len(), 1);
    }
    assert!(trainer.evaluate(&line(), 7).unwrap()[0].1 < 0.5);
    assert_eq!(line().batch(&[9, 0]).unwrap()[0].to_f64s(), [f64::from(9.0f32 / 5.0 - 1.0), -1.0]);
}
