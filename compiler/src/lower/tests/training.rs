//! Training steps: the inputs, outputs and weights of their graphs, and errors in `train` blocks.

use std::collections::BTreeMap;

use super::{bindings, message, tensor};
use crate::graph::Op;
use crate::lower::{Binding, Expected, InputRange, Network, Role, Targets, settings, train};

/// A model with one weight, and definitions that its `train` block may use.
const LINE: &str = "
    loss Squares()(Predicted, Target) -> (L) { L = (Predicted - Target) * (Predicted - Target); }
    loss Sum()(Predicted, Target) -> (L) { L[] = +(Predicted[...] - Target[...]); }
    optimizer Sgd(lr = 0.5)(P, G) { update P = P - lr * rate_factor() * G; }
    optimizer Momentum()(P, G) { state V like P = zeros; update V = V + G; update P = P - V; }
    metric Count()(Predicted, Target) -> (Value) {
        state Total[] = zeros;
        T[] = +(Predicted[...] == Target[...] ? 1.0 : 0.0);
        update Total = Total + T;
        Value = Total + T;
    }
    function error_of(Predicted, Target) -> (E) { E = Predicted - Target; }
    function halved(Gradients) -> (Less) { Less = []; for G in Gradients { Less = Less + [G / 2]; } }
    function none_of(Gradients) -> (Less) { Less = slice(Gradients, 1); }
    model Line(X[N, K]) -> (Y) { param W[K] = zeros; Y[n: N] = +(X[n, k] * W[k]); }
";

/// Lowers a step of the model [`LINE`] with the given `train` block. Returns the network or the
/// first error.
fn step(block: &str, targets: &str, training: bool, weighted: bool) -> Result<Network, String> {
    let source = format!("{LINE}{block}");
    let checked = tile_lang::check(&source);
    let program = checked.program.unwrap_or_else(|| panic!("{:?}", checked.diagnostics));
    let mut bound = bindings("X = f32[4, 3]");
    bound.training = training;
    let targets = targets.split("; ").filter(|item| !item.is_empty()).map(|item| {
        let (name, ty) = item.split_once(" = ").unwrap();
        let Binding::Tensor(ty) = tensor(ty) else { unreachable!("a type") };
        (name.to_owned(), ty)
    });
    let targets = Targets {
        types: targets.collect::<BTreeMap<_, _>>(),
        weights: weighted.then(|| vec![4]),
        ..Targets::default()
    };
    settings(&program, None).and_then(|_| train(&program, None, &bound, &targets)).map_err(
        |errors| errors.iter().map(|error| message(&source, error)).collect::<Vec<_>>().join("\n"),
    )
}

fn wrong(block: &str) -> String {
    step(block, "Y = f32[4]", true, false).map_or_else(|error| error, |_| "nothing is wrong".into())
}

/// Returns the outputs of a step's graph, in order.
fn outputs(network: &Network) -> Vec<&str> {
    network.graph.verify().unwrap();
    network.graph.outputs.iter().map(|(name, _)| name.as_str()).collect()
}

/// Returns the inputs of a step's graph, in order.
fn inputs(network: &Network) -> Vec<&str> {
    let name = |node| match &network.graph.node(node).op {
        Op::Input(name) => name.as_str(),
        _ => "no input",
    };
    network.graph.inputs.iter().map(|node| name(*node)).collect()
}

#[test]
fn a_step_gives_the_next_values_of_all_that_it_changes() {
    let block = "train Line { loss = Squares(); optimizer = Momentum(); metrics = [Count(), Squares(), error_of]; }";
    let network = step(block, "Y = f32[4]", true, true).unwrap();
    let kept = [
        "loss",
        "count",
        "squares",
        "error_of",
        "W",
        "train.loss.Count",
        Network::FAILED,
        "train.loss.Sum",
        "train.metrics.error_of.Count",
        "train.metrics.error_of.Sum",
        "train.metrics.squares.Count",
        "train.metrics.squares.Sum",
        "train.metrics[0].Total",
        "train.optimizer.W.V",
    ];
    assert_eq!(outputs(&network), kept);
    assert_eq!(inputs(&network), ["X", "target Y", "sample weight"]);
    let role = |path: &str| network.weights.iter().find(|weight| weight.path == path).unwrap().role;
    assert_eq!(role("W"), Role::Model);
    assert_eq!(role(Network::FAILED), Role::Metric);
    assert_eq!(role("train.metrics[0].Total"), Role::Metric);
    assert_eq!(role("train.metrics.squares.Sum"), Role::Metric);
    assert_eq!(role("train.optimizer.W.V"), Role::Optimizer);
}

#[test]
fn an_evaluation_changes_no_weight_of_the_model() {
    let block = "train Line { loss = Squares(); metrics = Count(name = count_of); }";
    let network = step(block, "Y = f32[4]", false, false).unwrap();
    let kept = ["loss", "count_of", "train.count_of.Total", "train.loss.Count", "train.loss.Sum"];
    let mut found = outputs(&network);
    found[2..].sort_unstable();
    assert_eq!(found, kept);
}

#[test]
fn the_rate_factor_is_an_input() {
    let block = "train Line { loss = Squares(); optimizer = Sgd(); gradients = halved; }";
    let network = step(block, "Y = f32[4]", true, false).unwrap();
    assert_eq!(inputs(&network), ["X", "target Y", Network::RATE]);
}

#[test]
fn metrics_of_one_name_are_numbered() {
    let block = "train Line { loss = Squares(); optimizer = Sgd();
        metrics = [Count(), Count(), Count()]; weighted_metrics = [Count(), Count()]; }";
    let network = step(block, "Y = f32[4]", true, false).unwrap();
    let found = outputs(&network).into_iter();
    let named: Vec<&str> =
        found.filter(|name| name.contains("count") && !name.contains('.')).collect();
    assert_eq!(named, ["count", "count_1", "count_2", "weighted_count", "weighted_count_1"]);
}

/// An optimizer that knows its weight and all gradients, and trains another value than files have.
#[test]
fn an_optimizer_knows_its_weight() {
    let block = "optimizer Wise(lr = 0.5)(P, G) {
            state Trained like P = zeros;
            W = trained_as(Trained);
            rate = matches(weight_path(), [\"V\", \"*\"]) ? lr : error(\"no match\");
            update Trained = W - rate * G / gradient_norm();
            update P = 0.5 * P + 0.5 * W;
        }
        train Line { loss = Squares(); optimizer = Wise(); }";
    let network = step(block, "Y = f32[4]", true, false).unwrap();
    network.graph.verify().unwrap();
    let node = |path: &str| network.weights.iter().find(|weight| weight.path == path).unwrap().node;
    let (weight, trained) = (node("W"), node("train.optimizer.W.Trained"));
    // The model reads the state; the average alone reads the weight, and the guard both.
    let is_product = |id: &_| matches!(network.graph.node(*id).op, Op::Contraction(_));
    assert!(!network.graph.users(weight).iter().any(is_product));
    assert!(network.graph.users(trained).iter().any(is_product));
    let block = "train Line { loss = Squares(); optimizer = Sgd(lr = gradient_norm()); }";
    insta::assert_snapshot!(wrong(block), @"
    E0237: only an optimizer has a weight and gradients
      `gradient_norm()`
    ");
}

#[test]
fn frozen_paths_may_be_patterns() {
    let covers = |pattern: &str, path: &str| crate::lower::expression::covers(pattern, path);
    for (pattern, path) in [
        ("encoder", "encoder.dense[2].Kernel"),
        ("encoder", "encoder[1].Kernel"),
        ("*.Bias", "encoder.dense.Bias"),
        ("encoder.*.Bias", "encoder.dense.Bias"),
        ("enc*", "encoder.dense.Bias"),
        ("*dense*", "encoder.dense.Bias"),
        ("*", "W"),
    ] {
        assert!(covers(pattern, path), "{pattern} {path}");
    }
    for (pattern, path) in [
        ("encode", "encoder.dense"),
        ("*.Bia", "dense.Bias"),
        ("dense", "encoder.dense"),
        ("encoder.*.Bias", "encoder.Bias"),
        ("a*b*c", "a.c.b"),
    ] {
        assert!(!covers(pattern, path), "{pattern} {path}");
    }
}

#[test]
fn settings_are_of_their_kind() {
    insta::assert_snapshot!(wrong("train Line { loss = Squares(); optimizer = Sgd(); batch_size = 0; }"), @"
    E0240: `batch_size` must be a whole number of at least 1, and is 0
      `0`
    ");
    insta::assert_snapshot!(wrong("train Line { loss = Squares(); optimizer = Sgd(); shuffle = halved; }"), @"
    E0240: `shuffle` is true or false, and this is halved
      `halved`
    ");
    insta::assert_snapshot!(wrong("train Line { loss = Sgd(); optimizer = Sgd(); }"), @"
    E0240: expected a loss, found the optimizer `Sgd`
      `Sgd()`
    ");
    insta::assert_snapshot!(wrong("train Line { loss = Squares(); optimizer = Squares(); }"), @"
    E0240: expected an optimizer, found the loss `Squares`
      `Squares()` 
    ");
    insta::assert_snapshot!(wrong("train Line { loss = [Squares(), Squares()]; optimizer = Sgd(); }"), @"
    E0240: `loss` is a list of 2, and the number of outputs is 1
      `[Squares(), Squares()]`
    ");
    insta::assert_snapshot!(wrong("train Line { loss = Squares(); optimizer = Sgd(); gradients = none_of; }"), @"
    E0240: `gradients` gives 0 tensors, and the number of gradients is 1
      `none_of`
    ");
}

#[test]
fn what_trains_nothing() {
    let block = "train Line { loss = Squares(); optimizer = Still(); }
        optimizer Still()(P, G) { state V like P = zeros; update V = V + P + G; }";
    insta::assert_snapshot!(wrong(block), @"
    E0240: this optimizer changes no weight
      `Still()` 
      help: it says what its first input is after the step: `update P = …;`
    ");
    let rounded = "model Whole(X[N, K]) -> (Y) { param W[K] = zeros; S[n: N] = +(X[n, k] * W[k]); Y = as_float(as_int(S, 32), 32); }
        train Whole { loss = Squares(); optimizer = Sgd(); }";
    insta::assert_snapshot!(wrong(rounded), @"
    E0245: the loss depends on no trained weight
      `Whole` the trained weights are W
      help: what is rounded, compared, an integer, an `argmax` or in `stop_gradient` hands no gradient on
    ");
    let frozen = "train Line { loss = Squares(); optimizer = Sgd(); frozen = [\"W\"]; }";
    insta::assert_snapshot!(wrong(frozen), @"
    E0245: there is nothing to train: the model has no weight that is not frozen
      `Line` 
      help: a layer with weights is `Dense(8)`, say; `frozen` and `trained` choose among them
    ");
    // A model without trained weights may still count in states.
    let counts =
        "layer Counted()(X[N, K]) -> (Y) { state S[] = zeros; H[] = +(X[n, k]); update S = S + H; B[n: N] = +(X[n, k]); Y = B + S; }
        model Mean(X[N, K]) -> (Y) { Y = X |> Counted(); }
        train Mean { loss = Squares(); optimizer = Sgd(); }";
    step(counts, "Y = f32[4]", true, false).unwrap();
    insta::assert_snapshot!(wrong("train Line { loss = Squares(); optimizer = Sgd(); metrics = [Momentum()]; }"), @"
    E0240: expected a metric, found the optimizer `Momentum`
      `[Momentum()]`
    ");
    insta::assert_snapshot!(wrong("train Line { loss = 3; optimizer = Sgd(); }"), @"
    E0221: this is a number, which cannot be called
      `3`
    ");
    let named = "layer Part()(X) -> (Y) { param W[] = zeros; Y = X * W; }
        model Named(X[N, K]) -> (Y) { S = X |> Part(name = train); Y[n: N] = +(S[n, k]); }
        train Named { loss = Squares(); optimizer = Sgd(); }";
    insta::assert_snapshot!(wrong(named), @"
    E0240: the weight `train.W` is where training keeps its own
      `param W[] = zeros;` 
      help: give the layer another name than `train`
    ");
}

#[test]
fn what_is_not_set() {
    insta::assert_snapshot!(wrong(""), @r"
    E0241: nothing says how `Line` is trained
      `Line` 
      help: add `train Line { loss = …; optimizer = …; }`
    ");
    insta::assert_snapshot!(wrong("train Line { optimizer = Sgd(); }"), @r"
    E0241: the `train` block sets no `loss`
      `Line` 
      help: a loss of the library is `MeanSquaredError()`, say; `loss = none` minimizes what `with_loss` adds
    ");
    insta::assert_snapshot!(wrong("train Line { loss = Squares(); }"), @r"
    E0241: the `train` block sets no `optimizer`
      `Line` 
      help: an optimizer of the library is `Adam()`, say
    ");
}

#[test]
fn targets() {
    let block = "train Line { loss = Squares(); optimizer = Sgd(); }";
    insta::assert_snapshot!(step(block, "Z = f32[4]", true, false).unwrap_err(), @r"
    E0242: there is a target for `Z`, which is no output
      `Line` 
      help: the outputs are Y
    ");
    insta::assert_snapshot!(step(block, "", true, false).unwrap_err(), @r"
    E0242: the data have no targets, and `loss` needs them
      `Squares()` 
      help: targets are an array called `y` or `Y`; `targets = inputs` takes the model's inputs, as for an autoencoder
    ");
}

/// Losses without targets: of inputs, of the predictions alone, and of `with_loss`.
#[test]
fn without_targets() {
    let model = "loss Size()(Predicted) -> (L) { L = Predicted * Predicted; }
        metric Largest()(Predicted) -> (Value) { Value[] = >(Predicted[...]); }
        model Auto(X[N, K]) -> (Y, Z) {
            param W[K] = zeros;
            Y = X * W;
            Z = with_loss(X + W, 0.1 * W);
        }
        train Auto { optimizer = Momentum(); ";
    let lowered =
        |block: &str, targets: &str| step(&format!("{model}{block} }}"), targets, true, false);
    let step_inputs =
        |block: &str, targets: &str| inputs(&lowered(block, targets).unwrap()).join(" ");
    assert_eq!(step_inputs("targets = inputs; loss = Squares();", ""), "X");
    assert_eq!(step_inputs("targets = inputs; loss = Squares();", "Y = f32[4, 3]"), "X");
    assert_eq!(step_inputs("targets = [none, X]; loss = Squares();", ""), "X");
    assert_eq!(
        step_inputs("targets = [none, X]; loss = Squares();", "Y = f32[4, 3]"),
        "X target Y"
    );
    assert_eq!(step_inputs("loss = [Size(), none]; metrics = [[Largest()], []];", ""), "X");
    assert_eq!(step_inputs("loss = none;", ""), "X");
    let error = |block: &str| lowered(block, "").unwrap_err();
    insta::assert_snapshot!([
        error("targets = [X]; loss = Squares();"),
        error("targets = [none, seed]; seed = 3; loss = Squares();"),
        error("loss = Squares();"),
        error("loss = [none, Squares()];"),
        error("loss = Size(); metrics = [[Count()], []];"),
    ].join("\n"), @"
    E0240: `targets` is a list of 1, and the number of outputs is 2
      `[X]` 
    E0240: a target is the name of an input or `none`, and this is seed
      `[none, seed]` 
      help: the inputs are X
    E0242: the data have no targets, and `loss` needs them
      `Squares()` 
      help: targets are an array called `y` or `Y`; `targets = inputs` takes the model's inputs, as for an autoencoder
    E0240: the output `Z` has a loss, and the data have no target for it
      `[none, Squares()]` 
      help: its loss may be `none`
    E0242: the data have no targets, and `metrics` needs them
      `[[Count()], []]` 
      help: targets are an array called `y` or `Y`; `targets = inputs` takes the model's inputs, as for an autoencoder
    ");
}

/// `with_range` and `with_bounds` note a range once, for inputs and targets that are at most cast
/// and reshaped.
#[test]
fn ranges() {
    let ranged = |call: &str| {
        let source = format!(
            "function ranged(P, T) -> (L) {{ L = P - reshape({call}, dims(P)); }}
            train Line {{ loss = ranged; metrics = [ranged]; optimizer = Sgd(); }}"
        );
        step(&source, "Y = f32[4]", true, false).map(|network| network.ranges)
    };
    let noted = |call| ranged(call).unwrap();
    let range = |expected| vec![InputRange { input: Network::target("Y"), expected }];
    let whole = |low, high, ignored| Expected::Whole { low, high, ignored };
    assert_eq!(noted("with_range(T, 0, 10, none)"), range(whole(Some(0), Some(10), None)));
    assert_eq!(
        noted("with_range(reshape(T, [2, 2]), none, none, -1)"),
        range(whole(None, None, Some(-1.0)))
    );
    assert_eq!(
        noted("with_range(as_int(T, 32), none, 3, 0)"),
        range(whole(None, Some(3), Some(0.0)))
    );
    assert_eq!(noted("with_range(T + 1, 0, 10, none)"), []);
    assert_eq!(noted("with_range(P, 0, 10, none)"), []);
    let between = Expected::Between { low: -0.5, high: 1.0 };
    assert_eq!(noted("with_bounds(reshape(T, [2, 2]), -0.5, 1)"), range(between.clone()));
    assert_eq!(noted("with_bounds(T + 1, -0.5, 1)"), []);
    let error = ranged("with_range(T, [0], 10, none)").unwrap_err();
    assert!(error.contains("expected a number or `none`, found a list"), "{error}");
    let error = ranged("with_bounds(T, none, 1)").unwrap_err();
    assert!(error.contains("expected a number, found"), "{error}");
    let numbers = [-2.0, -1.0, -0.5, 0.0, 1.0, 1.5, 2.0, 3.0, f64::NAN];
    let contained = |expected: &Expected| -> Vec<f64> {
        numbers.into_iter().filter(|number| expected.contains(*number)).collect()
    };
    assert_eq!(contained(&whole(Some(0), Some(3), Some(-1.0))), [-1.0, 0.0, 1.0, 2.0]);
    assert_eq!(contained(&between), [-0.5, 0.0, 1.0]);
}
