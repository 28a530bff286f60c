//! Weights in training against Keras and PyTorch: constraints, parametrizations, losses with
//! weights, nested optimizers, models trained in turn, and layers that adapt to the data.
//! golden/trained/make.py made the values.

mod adapted;
#[path = "../common/mod.rs"]
mod common;
mod in_turn;
mod optimizers;

use std::path::PathBuf;

use common::ADAPTERS;
use common::golden::text;
use tile_runtime::train::{Arrays, Fit, Trainer};
use tile_runtime::{DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// Definitions that the programs share: initial values, which are [`numbers`].
const COMMON: &str = "
function numbers()(shape) -> (W) {
    N = index([product(shape)], 0) * 7919 + 13;
    W = reshape(as_float(N - N / 101 * 101, 32) / 50 - 1, shape);
}
";

fn devices() -> Vec<Device> {
    [vec![Device::reference(), Device::cpu()], ADAPTERS.clone()].concat()
}

/// Returns the same numbers as make.py.
fn numbers(shape: &[usize]) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|n| ((n * 7919 + 13) % 101) as f32 / 50.0 - 1.0)
        .collect();
    Tensor::from_f32(shape.to_vec(), &values).unwrap()
}

fn data(x: &[usize], y: &[usize]) -> Arrays {
    Arrays::new(numbers(x), numbers(y)).unwrap()
}

fn tokens() -> Tensor {
    let tokens = (0..8).map(|n| Scalar::i32(n % 5));
    Tensor::from_scalars(TensorType::new(DType::I32, [2, 4]), tokens).unwrap()
}

/// Returns samples with the targets `0, 1, 2, 0, …`.
fn classes(samples: usize, count: usize) -> Arrays {
    let y: Vec<f32> = (0..samples).map(|n| (n % count) as f32).collect();
    Arrays::new(numbers(&[samples, 4]), Tensor::from_f32([samples], &y).unwrap()).unwrap()
}

fn trainer(source: &str, device: &Device) -> Trainer {
    let model =
        Model::compile(&format!("{COMMON}{source}")).unwrap_or_else(|error| panic!("{error}"));
    model.trainer(device).build().unwrap_or_else(|error| panic!("{error}"))
}

fn fitted(source: &str, device: &Device, data: &Arrays, epochs: usize) -> Trainer {
    let mut trainer = trainer(source, device);
    trainer.fit(data, Fit::epochs(epochs)).unwrap_or_else(|error| panic!("{error}"));
    trainer
}

fn weight(trainer: &mut Trainer, path: &str) -> Vec<f64> {
    let weights = trainer.weights().unwrap();
    let found = weights.iter().find(|(name, _)| name == path);
    found
        .unwrap_or_else(|| {
            panic!("no {path}: {:?}", weights.iter().map(|(name, _)| name).collect::<Vec<_>>())
        })
        .1
        .to_f64s()
}

/// Returns values of golden/trained/values.txt.
fn golden(case: &str, name: &str) -> Vec<f64> {
    let prefix = format!("{case} {name} ");
    let all = text("trained/values.txt");
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix(&prefix))
        .unwrap_or_else(|| panic!("no {prefix}"));
    line.split(' ').map(|value| value.parse().unwrap()).collect()
}

fn check(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * (1.0 + b.abs());
    let is_same = found.len() == expected.len() && found.iter().zip(expected).all(close);
    assert!(is_same, "{what}:\n{found:?}\n{expected:?}");
}

/// Trains, and compares weights with a case's; `weights` pairs their paths with its names.
fn check_case(case: &str, source: &str, data: &Arrays, weights: &[(&str, &str)]) {
    for device in devices() {
        let mut trainer = fitted(source, &device, data, 3);
        for (path, name) in weights {
            check(
                &format!("{case} {path} on {}", device.name()),
                &weight(&mut trainer, path),
                &golden(case, name),
                2e-5,
            );
        }
    }
}

/// Returns a program with a dense layer that is trained as in make.py.
fn dense(layer: &str, optimizer: &str) -> String {
    format!(
        "model M(X[N, 4]) -> (Y) {{ layer = {layer}; Y = layer(X); }}
         train M {{ loss = mse; optimizer = {optimizer}; batch_size = 8; shuffle = false; }}"
    )
}

const SGD: &str = "SGD(lr = 0.5, momentum = 0.5)";

#[test]
fn constraints_follow_the_step_as_in_keras() {
    let cases = [
        ("max_norm", "max_norm"),
        ("max_norm_small", "max_norm(0.5, axis = 1)"),
        ("non_neg", "NonNeg"),
        ("unit_norm", "\"unit_norm\""),
        ("min_max_norm", "min_max_norm(0.25, 0.75, rate = 0.5)"),
        ("min_max_norm_all", "MinMaxNorm(axis = [0, 1])"),
    ];
    for (case, constraint) in cases {
        let layer = format!(
            "Dense(3, kernel_initializer = numbers, kernel_constraint = {constraint}, bias_constraint = non_neg())"
        );
        let weights = [("layer.Kernel", "kernel"), ("layer.Bias", "bias")];
        check_case(case, &dense(&layer, SGD), &data(&[8, 4], &[8, 3]), &weights);
    }
    let source = "model M(X[N, 3, 3, 2]) -> (Y) {
            conv = Conv2D(2, 2, kernel_initializer = numbers, kernel_constraint = max_norm(0.5, axis = [0, 1, 2]));
            head = Dense(3, kernel_initializer = numbers, kernel_constraint = unit_norm);
            Y = X |> conv |> Flatten() |> head;
        }
        train M { loss = mse; optimizer = Adam(0.01); frozen = \"head\"; batch_size = 8; shuffle = false; }";
    let weights = [("conv.Kernel", "conv"), ("head.Kernel", "head")];
    check_case("convolution", source, &data(&[8, 3, 3, 2], &[8, 3]), &weights);
}

/// A layer with constraints, the shape of its input, and the constrained value of each of its
/// weights.
type Case<'a> = (String, &'a [usize], &'a [(&'a str, f64)]);

/// Every constraint parameter of Keras' layers applies to the weight that it names: `to(v)` sets a
/// whole weight to v.
#[test]
fn constraints_of_every_layer() {
    let kernels = "kernel_constraint = to(2), bias_constraint = to(3)";
    let depthwise = "depthwise_constraint = to(2), bias_constraint = to(3)";
    let separable =
        "depthwise_constraint = to(2), pointwise_constraint = to(4), bias_constraint = to(3)";
    let recurrent =
        "kernel_constraint = to(2), recurrent_constraint = to(4), bias_constraint = to(3)";
    let norm = "gamma_constraint = to(2), beta_constraint = to(3)";
    let plain = [("Kernel", 2.0), ("Bias", 3.0)];
    let cells = [("Kernel", 2.0), ("RecurrentKernel", 4.0), ("Bias", 3.0)];
    let parts = [("DepthwiseKernel", 2.0), ("PointwiseKernel", 4.0), ("Bias", 3.0)];
    let norms = [("Gamma", 2.0), ("Beta", 3.0)];
    let mut cases: Vec<Case> = vec![
        (format!("Dense(2, {kernels})"), &[2, 4], &plain),
        (format!("EinsumDense(\"ab,bc->ac\", 2, bias_axes = \"c\", {kernels})"), &[2, 4], &plain),
        (format!("DepthwiseConv1D(2, {depthwise})"), &[2, 4, 3], &plain),
        (format!("DepthwiseConv2D(2, {depthwise})"), &[2, 4, 4, 3], &plain),
        (format!("SeparableConv1D(2, 2, {separable})"), &[2, 4, 3], &parts),
        (format!("SeparableConv2D(2, 2, {separable})"), &[2, 4, 4, 3], &parts),
        (format!("BatchNormalization({norm})"), &[2, 4], &norms),
        (format!("LayerNormalization({norm})"), &[2, 4], &norms),
        (format!("GroupNormalization(2, {norm})"), &[2, 4], &norms),
        ("Embedding(5, 3, embeddings_constraint = to(2))".into(), &[2, 4], &[("Embeddings", 2.0)]),
        (
            "ReversibleEmbedding(5, 3, embeddings_constraint = to(2))".into(),
            &[2, 4],
            &[("Embeddings", 2.0)],
        ),
        ("PReLU(alpha_constraint = to(2))".into(), &[2, 4], &[("Alpha", 2.0)]),
    ];
    for (name, shape) in [("1D", &[2, 4, 3][..]), ("2D", &[2, 4, 4, 3]), ("3D", &[2, 4, 4, 4, 3])] {
        cases.push((format!("Conv{name}(2, 2, {kernels})"), shape, &plain));
        cases.push((format!("Conv{name}Transpose(2, 2, {kernels})"), shape, &plain));
    }
    for name in ["SimpleRNN", "GRU", "LSTM"] {
        cases.push((format!("{name}(2, {recurrent})"), &[2, 4, 3], &cells));
        cases.push((format!("RNN({name}Cell(2, {recurrent}, name = cell))"), &[2, 4, 3], &cells));
    }
    for (name, shape) in
        [("1D", &[2, 2, 4, 3][..]), ("2D", &[2, 2, 4, 4, 3]), ("3D", &[2, 2, 4, 4, 4, 3])]
    {
        cases.push((format!("ConvLSTM{name}(2, 2, {recurrent})"), shape, &cells));
    }
    let attention =
        ["MultiHeadAttention(2, 3", "GroupQueryAttention(3, 2, 1", "GroupedQueryAttention(3, 2, 1"];
    for layer in attention {
        cases.push((format!("Itself({layer}, {kernels}))"), &[2, 4, 3], &plain));
    }
    for (layer, shape, weights) in cases {
        let source = format!(
            "function to(v)(W) -> (C) {{ C = 0 * W + v; }}
             layer Itself(layer)(X) -> (Y) {{ Y = layer(X, X); }}
             loss Large()(Predicted, Target) -> (L) {{
                 L = sum(range(1, rank(Predicted)))(Predicted * Predicted) + 0 * Target;
             }}
             model M(X) -> (Y) {{ layer = {layer}; Y = layer(X); }}
             train M {{ loss = Large(); optimizer = SGD(0.1); batch_size = 2; }}"
        );
        let x = if layer.contains("Embedding") { tokens() } else { numbers(shape) };
        let data = Arrays::new(x, numbers(&[2])).unwrap();
        let mut trainer = fitted(&source, &Device::cpu(), &data, 1);
        let found = trainer.weights().unwrap();
        for (name, value) in weights {
            let mut of_name =
                found.iter().filter(|(path, _)| path.rsplit('.').next() == Some(name)).peekable();
            assert!(of_name.peek().is_some(), "{layer} has no {name}");
            for (path, tensor) in of_name {
                assert!(
                    tensor.to_f64s().iter().all(|found| found == value),
                    "{layer}: {path} is {tensor:?}, not {value}"
                );
            }
        }
    }
}

/// The gradient flows through the function into the weight, also through 16-bit floats.
#[test]
fn parametrized_weights_are_trained_as_in_pytorch() {
    let layer = "Dense(3, kernel_initializer = numbers)";
    let weights = [("layer.Kernel", "kernel"), ("layer.Bias", "bias")];
    let samples = data(&[8, 4], &[8, 3]);
    let halves = "function halves(W) -> (H) { H = as_float(as_float(W, 16), 32); }";
    let source = |function: &str| {
        dense(&format!("parametrized({layer}, \"Kernel\", {function})"), SGD) + halves
    };
    check_case("softplus", &source("softplus"), &samples, &weights);
    check_case("halves", &source("halves"), &samples, &weights);
    let norms = [weights[0], weights[1], ("layer.weight_norm.Length", "length")];
    check_case("weight_norm", &source("WeightNorm()"), &samples, &norms);
    // A weight converted to another type is used in that type, and trained all the same.
    let typed = source("narrow") + "function narrow(W) -> (H) { H = as_float(W, 16); }";
    let mut trainer = fitted(&typed, &Device::cpu(), &samples, 3);
    assert_ne!(weight(&mut trainer, "layer.Kernel"), numbers(&[4, 3]).to_f64s());
    // An integer has no gradient.
    let whole = source("whole") + "function whole(W) -> (H) { H = as_int(W, 32); }";
    let error = self::trainer(&whole, &Device::cpu())
        .fit(&samples, Fit::epochs(1))
        .unwrap_err()
        .to_string();
    assert!(error.contains("`Kernel` is made into i32"), "{error}");
}

#[test]
fn lora_is_that_of_keras() {
    let lora = "Lora(2, 3, a_initializer = numbers, b_initializer = numbers)";
    let layer = format!("parametrized(Dense(3, kernel_initializer = numbers), \"Kernel\", {lora})");
    let names = [("Kernel", "kernel"), ("Bias", "bias"), ("lora.A", "a"), ("lora.B", "b")];
    let weights = names.map(|(path, name)| (format!("layer.{path}"), name));
    let weights: Vec<(&str, &str)> =
        weights.iter().map(|(path, name)| (path.as_str(), *name)).collect();
    check_case("lora", &dense(&layer, "Adam(0.01)"), &data(&[8, 4], &[8, 3]), &weights);
}

/// `with_weight`: the step is that of the replaced value, whatever type the function returns, also
/// for a layer applied twice. A frozen layer has none.
#[test]
fn replaced_weights_are_trained() {
    let samples = data(&[8, 4], &[8, 4]);
    let source = |layer: &str, frozen: &str| {
        format!(
            "function same(W) -> (H) {{ H = W * 1; }}
             function narrow(W) -> (H) {{ H = as_float(round(W * 64) / 64, 16); }}
             function wide(W) -> (H) {{ H = round(W * 64) / 64; }}
             model M(X[N, 4]) -> (Y) {{
                 layer = {layer};
                 Y = X |> layer |> Activation(tanh) |> layer;
             }}
             train M {{ loss = mse; optimizer = SGD(0.5); frozen = {frozen}; batch_size = 8; shuffle = false; }}"
        )
    };
    let plain = "Dense(4, kernel_initializer = numbers)";
    let replaced = |function: &str| format!("with_weight({plain}, \"Kernel\", {function})");
    for device in devices() {
        let kernel = |layer: &str, frozen| {
            weight(&mut fitted(&source(layer, frozen), &device, &samples, 3), "layer.Kernel")
        };
        check("the same weight", &kernel(&replaced("same"), "[]"), &kernel(plain, "[]"), 1e-6);
        // The values fit 16 bits, so both trainings are the same.
        let (narrow, wide) = (kernel(&replaced("narrow"), "[]"), kernel(&replaced("wide"), "[]"));
        check("another type", &narrow, &wide, 1e-6);
        assert_ne!(narrow, numbers(&[4, 4]).to_f64s());
        let frozen = kernel(&replaced("wide"), "[\"layer.Kernel\"]");
        assert_eq!(frozen, numbers(&[4, 4]).to_f64s(), "it is frozen");
    }
}

/// Returns a classifier whose loss has a weight.
fn classifier(settings: &str) -> String {
    format!(
        "loss Temperature()(Predicted[N, C], Target[N]) -> (L) {{
             param Temperature[] = ones regularizer = l2(0.1);
             state Steps[] = zeros;
             update Steps = Steps + 1;
             L = sparse_categorical_crossentropy(from_logits = true)(Predicted * Temperature, Target);
         }}
         loss Centres(classes)(Predicted[N, D], Target[N]) -> (L) {{
             param Centres[classes, D] = numbers;
             A = UnitNormalization()(Predicted);
             B = UnitNormalization()(Centres);
             Cosine[n, c: N, classes] = +(A[n, d] * B[c, d]);
             Margin = reshape(Target, N, 1) == index(Cosine, 1) ? 0.25 : 0.0;
             L = sparse_categorical_crossentropy(from_logits = true)(4 * (Cosine - Margin), Target);
         }}
         model M(X[N, 4]) -> (Y) {{ dense = Dense(3, kernel_initializer = numbers); Y = dense(X); }}
         train M {{ {settings} batch_size = 8; shuffle = false; }}"
    )
}

#[test]
fn weights_of_losses_are_trained_as_in_pytorch() {
    let source = classifier(&format!("loss = Temperature(); optimizer = {SGD};"));
    let weights = [("dense.Kernel", "kernel"), ("loss.Temperature", "temperature")];
    check_case("temperature", &source, &classes(8, 3), &weights);
    let mut trainer = fitted(&source, &Device::cpu(), &classes(8, 3), 3);
    check(
        "loss",
        &[trainer.history()[2].get("loss").unwrap()],
        &golden("temperature", "loss"),
        1e-5,
    );
    let source = classifier("loss = Centres(5); optimizer = SGD(0.5);");
    check_case(
        "centres",
        &source,
        &classes(8, 5),
        &[("dense.Kernel", "kernel"), ("loss.Centres", "centres")],
    );
    // A state persists over epochs, and evaluations do not count.
    trainer.evaluate(&classes(8, 3), 8).unwrap();
    assert_eq!(weight(&mut trainer, "loss.Steps"), [3.0]);
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tilec-trained-{}-{name}.safetensors", std::process::id()))
}

#[test]
fn weights_of_losses_are_kept_and_frozen() {
    let samples = classes(8, 3);
    let source =
        classifier(&format!("loss = Temperature(); optimizer = {SGD}; metrics = [accuracy];"));
    let path = file("loss");
    for device in devices() {
        let mut whole = fitted(&source, &device, &samples, 4);
        let mut first = fitted(&source, &device, &samples, 2);
        first.save(&path).unwrap();
        let mut second = trainer(&source, &device);
        second.resume(&path).unwrap();
        second.fit(&samples, Fit::epochs(4)).unwrap();
        assert_eq!(whole.weights().unwrap(), second.weights().unwrap(), "{}", device.name());
        // Loading only the model skips the loss's weights. Training may start with them, or
        // without.
        let mut trained = trainer(&source, &device);
        trained.load(&path).unwrap();
        trained.predict(&samples, 8).unwrap();
        trained.evaluate(&samples, 8).unwrap();
        assert_eq!(
            weight(&mut trained, "loss.Temperature"),
            weight(&mut first, "loss.Temperature")
        );
        let model = Model::compile(&format!("{COMMON}{source}")).unwrap();
        model.on(&device).input("X", [8, 4]).build().unwrap().load(&path).unwrap();
    }
    let mut plain = fitted(
        &classifier("loss = \"sparse_categorical_crossentropy\"; optimizer = SGD();"),
        &Device::cpu(),
        &samples,
        1,
    );
    plain.save(&path).unwrap();
    let mut begun = trainer(&source, &Device::cpu());
    begun.load(&path).unwrap();
    begun.fit(&samples, Fit::epochs(1)).unwrap();
    std::fs::remove_file(&path).unwrap();
    for frozen in ["loss", "loss.Temperature"] {
        let source = classifier(&format!(
            "loss = Temperature(); optimizer = {SGD}; frozen = [\"{frozen}\"];"
        ));
        assert_eq!(
            weight(&mut fitted(&source, &Device::cpu(), &samples, 2), "loss.Temperature"),
            [1.0]
        );
    }
    // A session has the model's weights alone.
    let model = Model::compile(&format!("{COMMON}{source}")).unwrap();
    let mut session = model.on(&Device::cpu()).input("X", [8, 4]).build().unwrap();
    session.fit(&samples, Fit::epochs(1)).unwrap();
    assert_ne!(session.get("dense.Kernel").unwrap(), numbers(&[4, 3]));
}

/// Losses in a list are distinguished by their positions. One loss for all outputs has one weight;
/// a part of a loss is under its name.
#[test]
fn paths_of_weights_of_losses() {
    let paths_beside = |name: &str, loss: &str| {
        let source = format!(
            "loss Scaled()(Predicted, Target) -> (L) {{ param Scale[] = ones; L = Scale * (Predicted - Target) * (Predicted - Target); }}
             loss Half(inner)(Predicted, Target) -> (L) {{ L = inner(Predicted, Target) / 2; }}
             model M(X[N, 4]) -> (A, B) {{ layer = Dense(2, name = {name}); A = layer(X); B = A * 2; }}
             train M {{ {loss} optimizer = SGD(0.1); }}"
        );
        let data = data(&[8, 4], &[8, 2]);
        let data =
            data.with(tile_runtime::train::ColumnRole::Target, None, numbers(&[8, 2])).unwrap();
        let mut trainer = fitted(&source, &Device::cpu(), &data, 1);
        let mut paths: Vec<String> =
            trainer.weights().unwrap().into_iter().map(|(path, _)| path).collect();
        paths.retain(|path| path.starts_with("loss"));
        paths.join(" ")
    };
    let paths = |loss: &str| paths_beside("layer", loss);
    assert_eq!(paths("loss = Scaled;"), "loss.Scale");
    assert_eq!(paths("loss = [Scaled, mse];"), "loss[0].Scale");
    assert_eq!(paths("loss = [Scaled(), Scaled()];"), "loss[0].Scale loss[1].Scale");
    assert_eq!(paths("both = Scaled(); loss = [both, both];"), "loss[0].Scale");
    assert_eq!(
        paths("part = Scaled(); loss = Half(part); metrics = [[part], []];"),
        "loss.inner.Scale"
    );
    assert_eq!(paths_beside("loss", "loss = Scaled;"), "loss.Kernel loss.Bias loss_1.Scale");
}

/// Trained weights in metrics and optimizers are refused by name.
#[test]
fn params_of_metrics_and_optimizers_are_refused() {
    let error = |definitions: &str, settings: &str| {
        let source = format!(
            "{definitions} layer Scale()(X) -> (Y) {{ param Gamma[] = ones; Y = X * Gamma; }}
             model M(X[N, 4]) -> (Y) {{ Y = X |> Dense(3); }} train M {{ loss = mse; optimizer = SGD(); {settings} }}"
        );
        let run = || -> Result<(), Error> {
            let mut trainer = Model::compile(&source)?.trainer(&Device::cpu()).build()?;
            trainer.fit(&data(&[8, 4], &[8, 3]), Fit::epochs(1)).map(drop)
        };
        run().unwrap_err().to_string()
    };
    let found = error(
        "metric Bad()(P, T) -> (V) { param W[] = ones; V = W * sum(P - T); }",
        "metrics = [Bad()];",
    );
    assert!(found.contains("unexpected `param` in this metric"), "{found}");
    let found = error(
        "optimizer Bad()(P, G) { param W[] = ones; update P = P - W * G; }",
        "optimizer = Bad();",
    );
    assert!(found.contains("unexpected `param` in this optimizer"), "{found}");
    let found =
        error("metric Bad()(P, T) -> (V) { V = sum(Scale()(P) - T); }", "metrics = [Bad()];");
    assert!(found.contains("`param` in a metric") && found.contains("Gamma"), "{found}");
    let found = error(
        "loss Bad()(P, T) -> (L) { param W[] = ones; L = W * (P - T); }",
        "metrics = [Bad()];",
    );
    assert!(found.contains("`param` in a metric"), "{found}");
    let found = error("optimizer Bad()(P, G) { update P = P - Scale()(G); }", "optimizer = Bad();");
    assert!(found.contains("`param` in an optimizer"), "{found}");
}
