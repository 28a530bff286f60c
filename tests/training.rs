//! Training through the public API: results, interruption and resumption, and errors for wrong
//! data.

mod common;

use common::ADAPTERS;
use tile_runtime::train::{
    Arrays, Callback, Checkpoint, ColumnRole, Dataset, EarlyStopping, Epoch, Fit, Log, Monitor,
    Progress, Reading, Trainer, Validation,
};
use tile_runtime::{DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// A line through points, and a network with normalization and dropout, whose training is random.
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

/// Returns `y = 2 x + 1` at 10 positions.
fn line() -> Arrays {
    let x: Vec<f32> = (0..10).map(|n| n as f32 / 5.0 - 1.0).collect();
    let y: Vec<f32> = x.iter().map(|x| 2.0 * x + 1.0).collect();
    Arrays::new(Tensor::from_f32([10, 1], &x).unwrap(), Tensor::from_f32([10, 1], &y).unwrap())
        .unwrap()
}

/// Returns 43 samples for the network, which is not a multiple of its batch size.
fn samples() -> Arrays {
    let value = |n: usize| ((n * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
    let x: Vec<f32> = (0..43 * 3).map(value).collect();
    let y: Vec<f32> = (0..43).flat_map(|n| [x[3 * n] * x[3 * n + 1], x[3 * n + 2]]).collect();
    Arrays::new(Tensor::from_f32([43, 3], &x).unwrap(), Tensor::from_f32([43, 2], &y).unwrap())
        .unwrap()
}

fn get(epoch: &Epoch, name: &str) -> f64 {
    epoch.get(name).unwrap()
}

#[test]
fn a_line_is_learnt_on_every_device() {
    let check = Device::named("check").unwrap();
    for device in [vec![Device::reference(), Device::cpu(), check], ADAPTERS.clone()].concat() {
        let mut trainer = trainer("Line", &device);
        let history = trainer.fit(&line(), Fit::epochs(40)).unwrap();
        let last = history.last().unwrap();
        assert!(get(last, "loss") < 1e-6, "{} {last:?}", device.name());
        assert!(get(last, "largest") < 1e-2, "{last:?}");
        let weights: Vec<f64> =
            trainer.weights().unwrap().iter().map(|(_, value)| value.get(0).to_f64()).collect();
        assert!((weights[0] - 2.0).abs() < 1e-3 && (weights[1] - 1.0).abs() < 1e-3, "{weights:?}");
        // Evaluation uses the current weights. The mean is over all samples, though the last batch
        // has two.
        let results = trainer.evaluate(&line(), 4).unwrap();
        assert_eq!(results[0].0, "loss");
        assert!(results[0].1.number().unwrap() < 1e-6);
        let predicted = trainer.predict(&line(), 4).unwrap().remove("Y").unwrap();
        assert_eq!(predicted.shape(), [10, 1]);
        assert!((predicted.get(9).to_f64() - 2.6).abs() < 1e-3);
    }
}

/// Checked by hand: weights are 0, so the loss of a sample is the square of its target.
#[test]
fn the_loss_of_an_epoch_is_the_mean_over_samples() {
    let mut trainer = trainer("Line", &Device::cpu());
    let squares: Vec<f64> =
        (0..10).map(|n| (2.0 * (f64::from(n) / 5.0 - 1.0) + 1.0).powi(2)).collect();
    let results = trainer.evaluate(&line(), 4).unwrap();
    assert!(
        (results[0].1.number().unwrap() - squares.iter().sum::<f64>() / 10.0).abs() < 1e-6,
        "{results:?}"
    );
    assert_eq!(results[1], ("largest".to_owned(), Reading::Number(2.5999999046325684)));
    // Sample weights scale the losses; the mean is over the number of samples.
    let weights: Vec<f32> = (0..10).map(|n| n as f32).collect();
    let weighted =
        line().with(ColumnRole::Weight, None, Tensor::from_f32([10], &weights).unwrap()).unwrap();
    let results = trainer.evaluate(&weighted, 5).unwrap();
    let expected: f64 = squares.iter().zip(0..).map(|(square, n)| square * f64::from(n)).sum();
    assert!(
        (results[0].1.number().unwrap() - expected / 10.0).abs() < 1e-5,
        "{results:?} {expected}"
    );
}

/// Returns the weights after training, as bytes.
fn bytes(trainer: &mut Trainer) -> Vec<(String, Vec<u8>)> {
    trainer.weights().unwrap().into_iter().map(|(path, value)| (path, value.into_bytes())).collect()
}

/// Stops after this number of steps.
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
        assert_eq!(
            again.fit(&samples(), fit()).unwrap().last().unwrap().training,
            history[3].training
        );
        assert_eq!(bytes(&mut whole), bytes(&mut again), "{}", device.name());
        // An epoch of 35 samples has five steps: once at the end of an epoch, and once within one.
        for stop in [10, 13] {
            let mut first = trainer("Network", &device);
            first.fit(&samples(), fit().callback(StopAfter(stop))).unwrap();
            first.save(&file).unwrap();
            // A file saved right after it was loaded has the same content.
            let mut between = trainer("Network", &device);
            between.resume(&file).unwrap();
            between.save(&file).unwrap();
            let mut second = trainer("Network", &device);
            second.resume(&file).unwrap();
            let rest = second.fit(&samples(), fit()).unwrap();
            assert_eq!(rest.last().unwrap().training, history[3].training);
            assert_eq!(bytes(&mut second), bytes(&mut whole), "{} after {stop}", device.name());
        }
    }
    // A run takes the model's weights from such a file, and ignores the rest.
    let model = Model::compile(PROGRAM).unwrap();
    let mut session = model.on(&Device::cpu()).entry("Network").input("X", [1, 3]).build().unwrap();
    session.load(&file).unwrap();
    // Another model's weights are refused by name.
    let mut other = trainer("Line", &Device::cpu());
    other.resume(&file).unwrap();
    let error = other.fit(&line(), Fit::epochs(9)).unwrap_err().to_string();
    assert!(error.contains("`dense.Kernel` must be f32[1, 1], and is f32[3, 8]"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// An evaluation after a resumption loses nothing of the optimizer, and neither does a file that is
/// written then.
#[test]
fn a_resumed_run_may_be_evaluated_first() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [part, between] = ["evaluated_part.npz", "evaluated_between.npz"].map(|n| folder.join(n));
    let data = samples();
    let mut whole = trainer("Network", &Device::cpu());
    whole.fit(&data, Fit::epochs(4)).unwrap();
    let mut first = trainer("Network", &Device::cpu());
    first.fit(&data, Fit::epochs(2)).unwrap();
    first.save(&part).unwrap();
    let mut resumed = trainer("Network", &Device::cpu());
    resumed.resume(&part).unwrap();
    resumed.evaluate(&data, 8).unwrap();
    resumed.save(&between).unwrap();
    let mut again = trainer("Network", &Device::cpu());
    again.resume(&between).unwrap();
    for mut run in [resumed, again] {
        run.fit(&data, Fit::epochs(4)).unwrap();
        assert_eq!(bytes(&mut run), bytes(&mut whole));
    }
}

#[test]
fn a_session_takes_what_it_has_learnt() {
    let model = Model::compile(PROGRAM).unwrap();
    let mut session = model.on(&Device::cpu()).entry("Line").input("X", [1, 1]).build().unwrap();
    session.fit(&line(), Fit::epochs(40)).unwrap();
    let y = session
        .run([("X", Tensor::from_f32([1, 1], &[3.0]).unwrap())])
        .unwrap()
        .remove("Y")
        .unwrap();
    assert!((y.get(0).to_f64() - 7.0).abs() < 1e-2, "{y:?}");
    assert!(session.evaluate(&line(), 3).unwrap()[0].1.number().unwrap() < 1e-6);
}

#[test]
fn callbacks() {
    let folder = std::env::temp_dir().join(format!("tilec-callbacks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (log, table, best) =
        (folder.join("log.jsonl"), folder.join("log.csv"), folder.join("best.npz"));
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
    // Epochs that the trainer has already made count.
    assert_eq!(trainer.fit(&self::line(), Fit::epochs(2)).unwrap(), []);
    let fit = Fit::epochs(100).callback(EarlyStopping::new(Monitor::of("val_acuracy"), 2));
    let error = trainer.fit(&self::line(), fit).unwrap_err().to_string();
    assert_eq!(error, "unknown result `val_acuracy` to watch: there are loss, largest");
}

#[test]
fn what_is_wrong_is_told() {
    let mut network = trainer("Line", &Device::cpu());
    let ones =
        |shape: &[usize]| Tensor::from_f32(shape, &vec![1.0; shape.iter().product()]).unwrap();
    let error = Arrays::new(ones(&[3, 1]), ones(&[4, 1])).unwrap_err().to_string();
    assert_eq!(error, "target has 4 samples, and the others have 3");
    let error = network
        .fit(&Arrays::new(ones(&[0, 1]), ones(&[0, 1])).unwrap(), Fit::epochs(1))
        .unwrap_err();
    assert_eq!(error.to_string(), "there are no samples to train on");
    let two = line().with(ColumnRole::Input, None, ones(&[10, 1])).unwrap();
    assert_eq!(
        network.fit(&two, Fit::epochs(1)).unwrap_err().to_string(),
        "the data have more inputs than the model"
    );
    // The error points to the first bad value in the program.
    let nan = Tensor::from_scalars(
        TensorType::new(DType::F32, [4, 1]),
        [1.0, 2.0, f32::NAN, 3.0].map(Scalar::f32),
    )
    .unwrap();
    let error = network.fit(&Arrays::new(nan, ones(&[4, 1])).unwrap(), Fit::epochs(1)).unwrap_err();
    let Error::Program { diagnostics, .. } = &error else { panic!("{error}") };
    assert_eq!(diagnostics[0].message, "the loss is NaN in step 1 of training");
    assert_eq!(diagnostics[0].labels[0].text, "`X` is the first tensor with NaN");
}

/// A square root has an infinite slope where the loss is 0.
#[test]
fn a_gradient_that_is_no_number_is_not_kept() {
    let source = "
        loss Distance()(Predicted, Target) -> (L) { D = Predicted - Target; L = sqrt(D * D); }
        model Line(X[N, 1]) -> (Y) { Y = X |> Dense(1, kernel_initializer = zeros); }
        train Line { loss = Distance(); optimizer = SGD(0.1); }";
    let x: Vec<f32> = (1..=10).map(|n| n as f32).collect();
    let zeros = Tensor::from_f32([10, 1], &[0.0; 10]).unwrap();
    let data = Arrays::new(Tensor::from_f32([10, 1], &x).unwrap(), zeros).unwrap();
    let trainer = || Model::compile(source).unwrap().trainer(&Device::cpu()).build().unwrap();
    let error = trainer().fit(&data, Fit::epochs(2).batch_size(10)).unwrap_err().to_string();
    assert!(
        error.starts_with("the weight `dense.Kernel` is no longer finite after step 1 of training"),
        "{error}"
    );
    let error = trainer().fit(&data, Fit::epochs(2).batch_size(4)).unwrap_err();
    let Error::Program { diagnostics, .. } = &error else { panic!("{error}") };
    assert_eq!(diagnostics[0].message, "the loss is NaN in step 2 of training");
    assert!(
        diagnostics[0].labels[0].text.ends_with("` had NaN before this step"),
        "{}",
        diagnostics[0].labels[0].text
    );
}

/// A device may have begun further steps when a step's loss turns out to be NaN or infinite. The
/// weights are still those before that step, and training can continue without it.
#[test]
fn a_step_that_fails_changes_nothing() {
    let good = samples();
    let rows: Vec<usize> = (0..good.len()).collect();
    let [x, y] = [0, 1].map(|column| good.batch(&rows).unwrap()[column].clone());
    let spoilt = x
        .scalars()
        .enumerate()
        .map(|(n, x)| if n == 3 * 20 + 1 { Scalar::f32(f32::NAN) } else { x });
    let spoilt = Tensor::from_scalars(x.ty().clone(), spoilt.collect::<Vec<_>>()).unwrap();
    let spoilt = Arrays::new(spoilt, y).unwrap();
    for device in [vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat() {
        let mut failed = trainer("Network", &device);
        let error = failed.fit(&spoilt, Fit::epochs(1).shuffle(false)).unwrap_err();
        let Error::Program { diagnostics, .. } = &error else { panic!("{error}") };
        assert_eq!(
            diagnostics[0].message,
            "the loss is NaN in step 3 of training",
            "{}",
            device.name()
        );
        assert_eq!(diagnostics[0].labels[0].text, "`X` is the first tensor with NaN");
        let mut stopped = trainer("Network", &device);
        stopped.fit(&good, Fit::epochs(1).shuffle(false).callback(StopAfter(2))).unwrap();
        assert_eq!(bytes(&mut failed), bytes(&mut stopped), "{}", device.name());
        for trainer in [&mut failed, &mut stopped] {
            trainer.fit(&good, Fit::epochs(2).shuffle(false)).unwrap();
        }
        assert_eq!(bytes(&mut failed), bytes(&mut stopped), "{}", device.name());
    }
}

/// A network for small pictures with the layers of the MNIST networks, trained on each device for
/// 20 steps.
#[test]
fn devices_learn_the_same() {
    let source = "
        model Digits(Image[N, 6, 6]) -> (Logits) {
            Logits = Image |> Flatten() |> Dense(32, activation = relu) |> Dense(10);
        }
        train Digits {
            loss = SparseCategoricalCrossentropy(from_logits = true);
            optimizer = Adam(0.01);
            metrics = [accuracy];
            batch_size = 16;
        }";
    let image = |n: usize| ((n * 7919 + 13) % 101) as f32 / 100.0;
    let images =
        Tensor::from_f32([80, 6, 6], &(0..80 * 36).map(image).collect::<Vec<_>>()).unwrap();
    let labels = (0..80).map(|n| Scalar::from_i64(DType::I32, (n * n + 3 * n) % 10));
    let labels =
        Tensor::from_scalars(TensorType::new(DType::I32, [80]), labels.collect::<Vec<_>>())
            .unwrap();
    let data = Arrays::new(images, labels).unwrap();
    let model = Model::compile(source).unwrap();
    let train = |device: &Device| {
        let mut trainer = model.trainer(device).build().unwrap();
        let history = trainer.fit(&data, Fit::epochs(4)).unwrap();
        (trainer.weights().unwrap(), get(&history[3], "loss"), get(&history[3], "accuracy"))
    };
    let (expected, loss, accuracy) = train(&Device::cpu());
    assert!(loss < 2.2, "{loss}");
    for device in ADAPTERS.iter() {
        let (weights, found_loss, found_accuracy) = train(device);
        assert!(
            (found_loss - loss).abs() < 1e-4 * loss && (found_accuracy - accuracy).abs() < 0.02,
            "{found_loss} {loss}"
        );
        for ((path, found), (_, expected)) in weights.iter().zip(&expected) {
            let pairs = found.to_f64s().into_iter().zip(expected.to_f64s());
            let most = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(most < 2e-3, "{path} on {}: {most}", device.name());
        }
    }
}

/// With batches of many sizes, only the last few steps stay compiled.
#[test]
fn batches_of_many_sizes() {
    let mut trainer = trainer("Line", &Device::cpu());
    for size in 1..=10 {
        let fit = Fit::epochs(size).batch_size(size);
        assert_eq!(trainer.fit(&line(), fit).unwrap().len(), 1);
    }
    assert!(trainer.evaluate(&line(), 7).unwrap()[0].1.number().unwrap() < 0.5);
    assert_eq!(line().batch(&[9, 0]).unwrap()[0].to_f64s(), [f64::from(9.0f32 / 5.0 - 1.0), -1.0]);
}

/// A metric with several thresholds, worked out by hand: predictions of 0.2, 0.4, 0.6 and 0.8, of
/// which the second and the last are correct.
#[test]
fn a_metric_with_several_values_is_a_list() {
    let source = "model Same(X[N, 1]) -> (Y) { param W[1] = ones; Y = X * W; }
        train Same {
            loss = MeanSquaredError(); optimizer = SGD(lr = 0.0); batch_size = 2; shuffle = false;
            metrics = [Precision(thresholds = [0.3, 0.5], name = precision)];
        }";
    let folder = std::env::temp_dir().join(format!("tilec-lists-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (log, table) = (folder.join("log.jsonl"), folder.join("log.csv"));
    let column = |values: &[f32]| Tensor::from_f32([4, 1], values).unwrap();
    let data = Arrays::new(column(&[0.2, 0.4, 0.6, 0.8]), column(&[0.0, 1.0, 0.0, 1.0])).unwrap();
    let mut trainer = Model::compile(source).unwrap().trainer(&Device::cpu()).build().unwrap();
    let fit = Fit::epochs(1)
        .callback(Log::new(&log, false).unwrap())
        .callback(Log::new(&table, false).unwrap());
    let history = trainer.fit(&data, fit).unwrap();
    let Reading::List(values) = &history[0].training[1].1 else { panic!("{history:?}") };
    assert!((values[0] - 2.0 / 3.0).abs() < 1e-6 && (values[1] - 0.5).abs() < 1e-6, "{values:?}");
    assert_eq!(format!("{:.2}", history[0].training[1].1), "[0.67, 0.50]");
    let line: serde_json::Value =
        serde_json::from_str(std::fs::read_to_string(&log).unwrap().trim()).unwrap();
    assert_eq!(line["precision"].as_array().map(Vec::len), Some(2), "{line}");
    let table = std::fs::read_to_string(&table).unwrap();
    assert!(
        table.lines().nth(1).unwrap().contains(&format!(",\"[{}, {}]\",", values[0], values[1])),
        "{table}"
    );
    std::fs::remove_dir_all(&folder).unwrap();
    let fit = Fit::epochs(9).callback(EarlyStopping::new(Monitor::of("precision"), 2));
    let error = trainer.fit(&data, fit).unwrap_err().to_string();
    assert_eq!(error, "cannot watch `precision`, which has several values");
}

/// A kernel with the singular values 3 and 1: the trained kernel is the one that the layer has
/// divided by the larger value.
#[test]
fn a_kernel_that_is_normalised_stays_so() {
    let source = "function first()(shape) -> (W) { W = reshape(vector([3.0, 0.0, 0.0, 1.0]), shape); }
        model Net(X[N, 2]) -> (Y) {
            Y = X |> SpectralNormalization(Dense(2, kernel_initializer = first, name = inner), power_iterations = 20);
        }
        train Net { loss = MeanSquaredError(); optimizer = SGD(lr = 0.5); batch_size = 1; shuffle = false; }";
    let mut trainer = Model::compile(source).unwrap().trainer(&Device::cpu()).build().unwrap();
    let row = |values: [f32; 2]| Tensor::from_f32([1, 2], &values).unwrap();
    // The error of the second output is 1/3, and so is its gradient for the second diagonal
    // element: 1/3 - 0.5 / 3.
    trainer.fit(&Arrays::new(row([0.0, 1.0]), row([0.0, 0.0])).unwrap(), Fit::epochs(1)).unwrap();
    let weights = trainer.weights().unwrap();
    let kernel =
        weights.iter().find(|(path, _)| path.ends_with("inner.Kernel")).unwrap().1.to_f64s();
    for (found, expected) in kernel.iter().zip([1.0, 0.0, 0.0, 1.0 / 6.0]) {
        assert!((found - expected).abs() < 1e-5, "{kernel:?}");
    }
}

#[test]
fn what_is_frozen_stays() {
    let device = Device::cpu();
    let builder = |path: &str| {
        Model::compile(PROGRAM).unwrap().trainer(&device).entry("Network").freeze(path)
    };
    let mut trainer = builder("dense").freeze("dense_1.Bias").build().unwrap();
    trainer.fit(&samples(), Fit::epochs(1)).unwrap();
    let first: Vec<(String, Tensor)> = trainer.weights().unwrap();
    trainer.fit(&samples(), Fit::epochs(3)).unwrap();
    for ((path, before), (_, after)) in first.iter().zip(trainer.weights().unwrap()) {
        let is_frozen = path.starts_with("dense.") || path == "dense_1.Bias";
        assert_eq!(before == &after, is_frozen, "{path}");
    }
    let error = builder("dens").build().unwrap().fit(&samples(), Fit::epochs(1)).unwrap_err();
    let Error::Program { diagnostics, .. } = &error else { panic!("{error}") };
    assert_eq!(diagnostics[0].message, "cannot freeze `dens`: there is no such layer or weight");
}

/// A list of losses with a loss for an output without a target is an error.
#[test]
fn a_loss_without_a_target_is_told_of() {
    let text = |losses: &str| {
        format!(
            "model M(X[N, 2]) -> (A, B) {{ A = X |> Dense(2); B = X |> Dense(1); }}
            train M {{ loss = {losses}; optimizer = SGD(); }}"
        )
    };
    let fitted = |losses: &str| {
        let samples = |width| Tensor::from_f32([4, width], &vec![0.5; 4 * width]).unwrap();
        let data = Arrays::new(samples(2), samples(2)).unwrap();
        Model::compile(&text(losses))
            .unwrap()
            .trainer(&Device::cpu())
            .build()
            .unwrap()
            .fit(&data, Fit::epochs(1))
    };
    let error = fitted("[MeanSquaredError(), MeanSquaredError()]").unwrap_err();
    let Error::Program { diagnostics, .. } = &error else { panic!("{error}") };
    assert_eq!(
        diagnostics[0].message,
        "the output `B` has a loss, and the data have no target for it"
    );
    for losses in ["[MeanSquaredError(), none]", "MeanSquaredError()"] {
        fitted(losses).unwrap();
    }
}
