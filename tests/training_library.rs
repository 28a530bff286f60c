//! The library's optimizers, losses, metrics and learning-rate schedules match Keras:
//! golden/training/make.py made the values.
//!
//! `CASE=adam cargo test --test training_library` runs the cases with `adam` in their names.

mod common;

use std::collections::HashMap;
use std::fmt::Write;

use common::golden::{Case, arrays, difference, render};
use tile_compiler::tensor::Tensor;
use tile_runtime::train::{Arrays, Callback, ColumnRole, Fit, Part, Progress, Trainer};
use tile_runtime::weights::WeightsFile;
use tile_runtime::{Device, Error, Model};

type Tensors<'a> = HashMap<(&'a str, &'a str), &'a Tensor>;

/// Panics with what is wrong with the cases of a family on the reference interpreter and the cpu.
fn check_everywhere(family: &str, check: impl Fn(&Case, &Tensors, &Device) -> Result<(), String>) {
    let only = std::env::var("CASE").unwrap_or_default();
    let mut next = arrays(&format!("training/{family}.npy"));
    let (mut run, mut wrong, mut faults) = (0, 0, String::new());
    for case in Case::all(&format!("training/{family}.txt")) {
        let tensors: Vec<Tensor> = case.lines.iter().map(|_| next()).collect();
        if !case.name.contains(&only) {
            continue;
        }
        let named = case.lines.iter().zip(&tensors);
        let named = named
            .map(|((kind, name, _), tensor)| ((kind.as_str(), name.as_str()), tensor))
            .collect();
        run += 1;
        for device in [Device::reference(), Device::cpu()] {
            if let Err(fault) = check(&case, &named, &device) {
                wrong += 1;
                let _ = writeln!(faults, "{} on {}: {fault}", case.name, device.name());
                break;
            }
        }
    }
    assert!(wrong == 0, "{wrong} of {run} cases:\n{faults}");
}

/// Returns the value that a case sets a name to.
fn setting<'a>(case: &'a Case, name: &str) -> &'a str {
    let prefix = format!("{name} = ");
    let line = case.body.lines().find_map(|line| line.trim().strip_prefix(&prefix));
    line.and_then(|value| value.strip_suffix(';'))
        .unwrap_or_else(|| panic!("{} sets no {name}", case.name))
}

fn compile(source: &str) -> Result<Model, String> {
    Model::compile(source).map_err(|error| explain(&error))
}

fn explain(error: &Error) -> String {
    format!("\n{}", render(error))
}

/// Returns what is wrong with a result.
fn compare(what: &str, found: &Tensor, expected: &Tensor) -> Result<(), String> {
    difference(found, expected).map_or(Ok(()), |fault| Err(format!("{what} {fault}")))
}

fn tensor(shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_f32(shape.to_vec(), values).unwrap()
}

/// Formats the sizes of a tensor without the first axis.
fn sample_sizes(tensor: &Tensor) -> String {
    tensor.shape()[1..].iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// A weight after each step.
#[derive(Default)]
struct Steps(HashMap<String, Vec<f64>>);

impl Callback for &mut Steps {
    fn step(&mut self, state: &mut Progress) -> Result<(), Error> {
        for (path, value) in state.trainer().weights()? {
            self.0.entry(path).or_default().extend(value.to_f64s());
        }
        Ok(())
    }
}

/// The gradient of a sum of products is the other factor, so each sample is a step with given
/// gradients.
#[test]
fn optimizers() {
    check_everywhere("optimizers", |case, tensors, device| {
        let given = |name: &str| tensors[&("input", name)];
        let model = compile(&format!(
            "function first_of_w()(shape) -> (W) {{ W = reshape(vector({:?}), shape); }}
             function first_of_v()(shape) -> (V) {{ V = reshape(vector({:?}), shape); }}
             model Given(A[N, J, K], B[N, L]) -> (Y) {{
                 param W[J, K] = first_of_w;
                 param V[L] = first_of_v;
                 Left[n: N] = +(A[n, j, k] * W[j, k]);
                 Right[n: N] = +(B[n, l] * V[l]);
                 Y = Left + Right;
             }}
             loss Itself()(Predicted, Target) -> (L) {{ L = Predicted + 0 * Target; }}
             train Given {{ loss = Itself(); batch_size = 1; shuffle = false; {} }}",
            given("W").to_f64s(),
            given("V").to_f64s(),
            case.body
        ))?;
        let steps = given("GW").shape()[0];
        let data = Arrays::default()
            .with(ColumnRole::Input, None, given("GW").clone())
            .and_then(|data| data.with(ColumnRole::Input, None, given("GV").clone()))
            .and_then(|data| {
                data.with(ColumnRole::Target, None, tensor(&[steps], &vec![0.0; steps]))
            })
            .map_err(|error| explain(&error))?;
        let mut trainer = model.trainer(device).build().map_err(|error| explain(&error))?;
        let mut found = Steps::default();
        trainer.fit(&data, Fit::epochs(1).callback(&mut found)).map_err(|error| explain(&error))?;
        ["W", "V"].iter().try_for_each(|name| {
            let expected = tensors[&("output", *name)];
            let values: Vec<f32> = found.0[*name].iter().map(|value| *value as f32).collect();
            compare(name, &tensor(expected.shape(), &values), expected)
        })
    });
}

/// One step of gradient descent at the rate 1 from 0 makes a weight its negated gradient; the
/// predictions follow it.
#[test]
fn losses() {
    check_everywhere("losses", |case, tensors, device| {
        let (loss, predicted) = (setting(case, "loss"), tensors[&("input", "Predicted")]);
        let target = tensors[&("input", "Target")];
        let (count, sizes) = (predicted.shape()[0], sample_sizes(predicted));
        let weight = if sizes.is_empty() { count.to_string() } else { format!("{count}, {sizes}") };
        let model = compile(&format!(
            "model Values(Predicted, Target) -> (L) {{ loss = {loss}; L = loss(Predicted, Target); }}
             model Moved(X) -> (Y) {{ param W[{weight}] = zeros; Y = X + W; }}
             train Moved {{ loss = {loss}; optimizer = SGD(lr = 1.0); batch_size = {count}; shuffle = false; }}"
        ))?;
        if let Some(expected) = tensors.get(&("output", "Values")) {
            let builder =
                model.on(device).entry("Values").input("Predicted", predicted.ty().clone());
            let mut session = builder
                .input("Target", target.ty().clone())
                .build()
                .map_err(|error| explain(&error))?;
            let outputs = session.run([("Predicted", predicted), ("Target", target)]);
            compare(
                "Values",
                outputs.map_err(|error| explain(&error))?.get("L").unwrap(),
                expected,
            )?;
        }
        let data =
            Arrays::new(predicted.clone(), target.clone()).map_err(|error| explain(&error))?;
        let mut trainer =
            model.trainer(device).entry("Moved").build().map_err(|error| explain(&error))?;
        let history = trainer.fit(&data, Fit::epochs(1)).map_err(|error| explain(&error))?;
        let found = history[0].get("loss").unwrap() as f32;
        compare("Loss", &tensor(&[], &[found]), tensors[&("output", "Loss")])?;
        let after = trainer.weights().map_err(|error| explain(&error))?[0].1.to_f64s();
        let gradient: Vec<f32> = after.iter().map(|value| -value as f32).collect();
        compare("Gradient", &tensor(predicted.shape(), &gradient), tensors[&("output", "Gradient")])
    });
}

/// Metrics over the first one, two and all of the batches of 5, 5 and 2 samples.
#[test]
fn metrics() {
    check_everywhere("metrics", |case, tensors, device| {
        let (predicted, target) = (tensors[&("input", "Predicted")], tensors[&("input", "Target")]);
        let model = compile(&format!(
            "model Same(X) -> (Y) {{ Y = X; }}
             loss Nothing()(Predicted, Target) -> (L) {{ L[] = +(0.0 * Predicted[...]); }}
             train Same {{ loss = Nothing(); metrics = [{}]; }}",
            setting(case, "metric")
        ))?;
        let data =
            Arrays::new(predicted.clone(), target.clone()).map_err(|error| explain(&error))?;
        let mut trainer = model.trainer(device).build().map_err(|error| explain(&error))?;
        let mut found = Vec::new();
        for samples in [5, 10, 12] {
            let results = trainer
                .evaluate(&Part::new(&data, (0..samples).collect()), 5)
                .map_err(|error| explain(&error))?;
            found.extend(results[1].1.values().iter().map(|value| *value as f32));
        }
        let expected = tensors[&("output", "Value")];
        if found.len() != expected.ty().elements() {
            return Err(format!("{} values, not {}", found.len(), expected.ty()));
        }
        compare("Value", &tensor(expected.shape(), &found), expected)
    });
}

/// Class weights, sample weights, and frozen layers.
#[test]
fn fits() {
    check_everywhere("fits", |case, tensors, device| {
        let given = |name: &str| tensors[&("input", name)];
        let has = |part: &str| case.name.contains(part);
        let loss = match () {
            () if has("dice") => "Dice()",
            () if has("tversky") => "Tversky(0.3, 0.6)",
            () if has("one_hot") => "CategoricalCrossentropy(from_logits = true)",
            () => "SparseCategoricalCrossentropy(from_logits = true)",
        };
        let end = if has("dice") || has("tversky") { "sigmoid" } else { "none" };
        let terms = if has("terms") {
            ", kernel_regularizer = l2(0.1), activity_regularizer = l1(0.05)"
        } else {
            ""
        };
        let added =
            if has("terms") { "|> ActivityRegularization(0.03, 0.02) |> Terms()" } else { "" };
        let again = if has("twice") { "|> norm" } else { "" };
        let model = compile(&format!(
            "function first()(shape) -> (W) {{ W = reshape(vector({:?}), shape); }}
             function second()(shape) -> (W) {{ W = reshape(vector({:?}), shape); }}
             layer Terms()(X[N, K]) -> (Y) {{
                 Square[n: N] = +(X[n, k] * X[n, k]);
                 Y = with_loss(X, 0.01 * Square);
             }}
             model Classes(X[N, K]) -> (Logits) {{
                 dense = Dense(4, activation = tanh, kernel_initializer = first{terms});
                 norm = BatchNormalization();
                 head = Dense(3, activation = {end}, kernel_initializer = second);
                 Logits = X |> dense |> norm {again} {added} |> head;
             }}
             train Classes {{
                 loss = {loss}; batch_size = 8; epochs = 2; shuffle = false; {}
             }}",
            given("Kernel").to_f64s(),
            given("Head").to_f64s(),
            case.body
        ))?;
        let mut data =
            Arrays::new(given("X").clone(), given("Y").clone()).map_err(|error| explain(&error))?;
        let mut fit = Fit::default();
        if has("samples") {
            data = data
                .with(ColumnRole::Weight, None, given("Weights").clone())
                .map_err(|error| explain(&error))?;
        }
        if has("classes") {
            fit = fit.class_weight(0, 0.5).class_weight(2, 3.0);
        }
        let mut builder = model.trainer(device);
        if has("frozen") {
            builder = builder.freeze("dense").freeze("norm");
        }
        let mut trainer = builder.build().map_err(|error| explain(&error))?;
        let history = trainer.fit(&data, fit).map_err(|error| explain(&error))?;
        let found: HashMap<String, Tensor> =
            trainer.weights().map_err(|error| explain(&error))?.into_iter().collect();
        for (name, path) in [
            ("Kernel", "dense.Kernel"),
            ("Gamma", "norm.Gamma"),
            ("Mean", "norm.MovingMean"),
            ("Head", "head.Kernel"),
        ] {
            let found =
                found.get(path).ok_or_else(|| format!("no {path} among {:?}", found.keys()))?;
            compare(name, found, tensors[&("output", name)])?;
        }
        let loss = history[1].get("loss").unwrap() as f32;
        compare("Loss", &tensor(&[], &[loss]), tensors[&("output", "Loss")])
    });
}

#[test]
fn schedules() {
    check_everywhere("schedules", |case, tensors, device| {
        let schedule = setting(case, "schedule");
        let model = compile(&format!(
            "model Rates(Step) -> (R) {{ schedule = {schedule}; R = schedule(Step); }}"
        ))?;
        let steps = tensors[&("input", "Step")];
        let builder = model.on(device).input("Step", steps.ty().clone());
        let mut session = builder.build().map_err(|error| explain(&error))?;
        let outputs = session.run([("Step", steps)]).map_err(|error| explain(&error))?;
        compare("Rate", outputs.get("R").unwrap(), tensors[&("output", "Rate")])
    });
}

/// A line with weights that an optimizer with `use_ema` trains, on 12 samples.
fn averaged_line(device: &Device) -> (Trainer, Arrays) {
    let model = compile(
        "model Line(X[N, K]) -> (Y) { dense = Dense(1, kernel_initializer = ones); Y = X |> dense; }
         train Line {
             loss = MeanSquaredError(); optimizer = Adam(0.1, use_ema = true, ema_momentum = 0.5);
             metrics = [Sum()]; batch_size = 4; seed = 3;
         }",
    );
    let x: Vec<f32> = (0..24).map(|n| (n % 7) as f32 - 3.0).collect();
    let y: Vec<f32> = (0..12).map(|n| (n % 5) as f32).collect();
    let data = Arrays::new(tensor(&[12, 2], &x), tensor(&[12, 1], &y)).unwrap();
    (model.unwrap().trainer(device).build().unwrap(), data)
}

/// Files and evaluations have the averages, and a resumed run goes on with the weights themselves.
#[test]
fn averaged_weights() {
    let device = Device::cpu();
    let folder = std::env::temp_dir().join(format!("tilec-averages-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("weights.safetensors");
    let (mut whole, data) = averaged_line(&device);
    whole.fit(&data, Fit::epochs(4)).unwrap();
    let (mut first, _) = averaged_line(&device);
    first.fit(&data, Fit::epochs(2)).unwrap();
    first.save(&file).unwrap();
    let evaluated = first.evaluate(&data, 4).unwrap();
    // Nothing but the file's weights.
    let (mut plain, _) = averaged_line(&device);
    plain.load(&file).unwrap();
    assert_eq!(plain.evaluate(&data, 4).unwrap(), evaluated);
    assert_eq!(
        plain.predict(&data, 4).unwrap().get("Y"),
        first.predict(&data, 4).unwrap().get("Y")
    );
    // The sum of all predictions.
    let predicted = first.predict(&data, 4).unwrap().get("Y").unwrap().to_f64s();
    let sum = evaluated.iter().find(|(name, _)| name == "sum").unwrap().1.values()[0];
    assert!((sum - predicted.iter().sum::<f64>()).abs() < 1e-4, "{sum}");
    let (mut second, _) = averaged_line(&device);
    second.resume(&file).unwrap();
    second.fit(&data, Fit::epochs(4)).unwrap();
    assert_eq!(second.weights().unwrap(), whole.weights().unwrap());
    // Momentum 0.5 of one step after another: the average is not the weight.
    let states: HashMap<String, Tensor> = {
        whole.save(&file).unwrap();
        let mut file = WeightsFile::open(&file).unwrap();
        let names: Vec<String> = file.tensors().iter().map(|(name, _)| name.clone()).collect();
        names
            .into_iter()
            .enumerate()
            .map(|(number, name)| (name, file.read(number).unwrap()))
            .collect()
    };
    assert_ne!(states["dense.Kernel"], states["train.optimizer.dense.Kernel.average.Trained"]);
    std::fs::remove_dir_all(&folder).unwrap();
}
