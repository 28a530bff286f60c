//! Warnings about valid programs that are hardly meant, and programs without such a warning.
//! `tests/cli/mistakes` has a program for each of them.

use insta::assert_snapshot;

use crate::{brief, complaints};

/// Returns a model with this output and this `train` block.
fn trained(output: &str, settings: &str) -> String {
    format!("model Net(X[N, 4]) -> (Y) {{ {output} }}\ntrain Net {{ {settings} }}\n")
}

#[test]
fn what_may_be_meant_has_no_warning() {
    for body in [
        "Y = X * (1.0 / 255);",
        "Y = X * (6 / 3);",
        "Y = X * 1 / 255;",
        "H = N / 2; Y = X / H;",
        "A = X; Y = X + A |> Dense(2);",
        "Y = X + (X |> Dense(4));",
        "Y = (X + X) |> Dense(2);",
        "Y = X |> Dense(1, activation = sigmoid);",
        "Y = X |> Dense(2) |> softmax;",
        "Y = as_int(X, 32) ^ 1;",
        "Y = X; // 2",
        "Y = X // twice\n + X;",
        "n = 3; Y = X |> Dense(n, activation = softmax);",
        "Y = reshape(X, N, 2, 2, 1) |> Conv2D(64, 16, 16);",
        "Y = reshape(X, N, 4, 1) |> Conv1D(64, 80, 4);",
        "Y = reshape(X, N, 2, 2) |> Dense(1) |> Softmax(axis = 1);",
        "Y = reshape(X, N, 2, 2) |> Dense(1) |> softmax(1);",
        "Y = X |> Dense(2, activation = softmax) |> Dense(2, activation = softmax);",
        "Y = reshape(X, N, 2, 2) |> Softmax(1) |> Softmax(2);",
        "Y = X |> Dense(2, activation = relu) |> relu;",
        "d = Dense(2, name = d); Y = d(X) + d(X * 2);",
        "if training { Y = X |> Dense(2, name = d); } else { Y = X |> Dense(2, name = d); }",
        "state Seen[4] = zeros(); Seen = reshape(Seen, 1, 4); Y = X + Seen;",
        "state Seen[4] = zeros(); update Seen = Seen + 1; Seen = Seen * 2; Y = X + Seen;",
    ] {
        assert_eq!(brief(&format!("model Net(X[N, 4]) -> (Y) {{ {body}\n }}")), "", "{body}");
    }
}

#[test]
fn sizes_that_may_be_meant_have_no_warning() {
    for contraction in [
        "Y[i: N] = +(X[i, j]);",
        "Y[j: M] = +(X[i, j]);",
        "Y[i: N] = =(X[0, i]), i < 2;",
        "Y[i: N] = +(X[0, i + j]), j < 2;",
        "Y[i: 2] = =(X[0, i]);",
        "Y[i, j: N, N] = =(X[i, j] * X[j, i]);",
    ] {
        let source = format!("function f(X[N, M]) -> (Y) {{ {contraction} }}");
        assert_eq!(brief(&source), "", "{contraction}");
    }
}

#[test]
fn inputs_that_give_a_size_have_no_warning() {
    let unused = |header: &str| {
        brief(&format!("function f({header}) -> (Y) {{ Y[i: N] = +(Z[i + j]), j < 3; }}"))
    };
    assert_eq!(unused("X[N], Z[M]"), "");
    assert_eq!(unused("X[K, N], Z[M]"), "");
    assert_snapshot!(unused("X[N], Z[N]"), @"W0101 unused input `X`: `X`");
    assert_snapshot!(unused("X[N], A[K], Z[M]"), @"W0101 unused input `A`: `A`");
}

#[test]
fn losses_that_fit_have_no_warning() {
    let adam = "optimizer = Adam();";
    for (output, settings) in [
        ("Y = X |> Dense(3, activation = softmax);", "loss = SparseCategoricalCrossentropy();"),
        ("Y = X |> Dense(3);", "loss = SparseCategoricalCrossentropy(from_logits = true);"),
        ("Y = X |> Dense(3);", "loss = CategoricalCrossentropy(true);"),
        ("Y = X |> Dense(3) |> softmax;", "loss = sparse_categorical_crossentropy;"),
        ("Y = X |> Dense(1, sigmoid);", "loss = BinaryCrossentropy();"),
        ("Y = X |> Dense(1);", "loss = \"mse\";"),
        ("Y = X |> Dense(1, hard_sigmoid);", "loss = BinaryCrossentropy();"),
        ("Y = X |> Dense(1, tanh);", "loss = BinaryCrossentropy(from_logits = true);"),
        ("Y = X |> Dense(3, activation = relu);", "loss = CategoricalCrossentropy();"),
        ("Z = X |> Dense(3); Y = exp(Z);", "loss = CategoricalCrossentropy();"),
        ("if training { X = X; } Y = X |> Dense(3, softmax);", "loss = CategoricalCrossentropy();"),
        (
            "Y = X |> Dense(3, softmax);",
            "loss = CategoricalCrossentropy(); metrics = [CategoricalAccuracy(), accuracy];",
        ),
        ("Y = X |> Dense(3);", "loss = mse; batch_size = 8; batch_size = 2 * batch_size;"),
    ] {
        let source = trained(output, &format!("{settings} {adam}"));
        assert_eq!(brief(&source), "", "{source}");
    }
}

#[test]
fn the_layer_that_makes_an_output_is_found_through_names() {
    for output in [
        "head = Dense(3); Y = X |> head;",
        "head = Dense(3); Y = head(X);",
        "Z = X |> Dense(3); Y = Z;",
        "Y = Dense(3)(X);",
        "Y = X |> [Dense(8, activation = relu), Dense(3, activation = linear)];",
        "Y = X |> Dense(8); Y = Y |> Dense(3, activation = none);",
    ] {
        for loss in ["SparseCategoricalCrossentropy()", "\"categorical_crossentropy\""] {
            let source = trained(output, &format!("loss = {loss}; optimizer = Adam();"));
            assert!(complaints(&source).contains("expects probabilities"), "{source}");
        }
    }
}

#[test]
fn each_output_has_its_loss_and_its_metrics() {
    let source = "
        model Net(X[N, 4]) -> (A, B) { A = X |> Dense(1); B = X |> Dense(3, activation = softmax); }
        train Net {
            loss = [mse, SparseCategoricalCrossentropy(from_logits = true)];
            metrics = [none, [CategoricalAccuracy()]];
            optimizer = Adam();
        }";
    let said = complaints(source);
    assert!(said.contains("and `B` ends with one"), "{said}");
    assert!(said.contains("write `SparseCategoricalAccuracy`"), "{said}");
}

#[test]
fn options_that_take_functions() {
    let wrong =
        |layers: &str| brief(&format!("model Net(X[N, 4]) -> (Y) {{ Y = X |> {layers}; }}"));
    assert_snapshot!(wrong("Dense(8, activation = rleu)"), @"E0102 unknown activation `rleu`: `rleu`; help: did you mean `relu`?");
    assert_snapshot!(wrong("Dense(8, activation = \"rleu\")"), @r#"E0102 unknown activation `rleu`: `"rleu"`; help: did you mean `relu`?"#);
    assert_snapshot!(wrong("Dense(8, kernel_regularizer = squares)"), @"E0102 unknown regularizer `squares`: `squares`; help: `kernel_regularizer` takes a function, such as `l1(0.01)` or `l2(0.01)`");
    assert_snapshot!(wrong("Dense(2, 8)"), @"E0130 expected a function for `activation` of `Dense`, found 8: `8`; help: write the number of outputs alone, as in `Dense(8)`: the layer finds the number of its inputs");
    assert_snapshot!(wrong("Dense(2, bias_initializer = 0.5)"), @"E0130 expected a function for `bias_initializer` of `Dense`, found 0.5: `0.5`; help: `bias_initializer` takes a function, such as `glorot_uniform`, `he_normal` or `zeros`");
    assert_eq!(
        wrong("Dense(2, \"tanh\", kernel_initializer = he_normal, kernel_constraint = none)"),
        ""
    );
}

#[test]
fn learning_rates() {
    let wrong = |adam: &str| {
        brief(&trained("Y = X |> Dense(2);", &format!("loss = mse; optimizer = {adam};")))
    };
    assert_snapshot!(wrong("Adam(0)"), @"W0103 the learning rate is 0, so training changes no weight: `0`; help: write a small number, as in `0.001`");
    assert_snapshot!(wrong("SGD(learning_rate = 0.0)"), @"W0103 the learning rate is 0, so training changes no weight: `0.0`; help: write a small number, as in `0.001`");
    assert_snapshot!(wrong("RMSprop(lr = -0.1)"), @"E0137 the learning rate must be above 0, and is -0.1: `-0.1`; help: write `0.1`: a step goes against the gradient by itself");
    assert_snapshot!(wrong("Adam(0,5)"), @"W0103 the learning rate is 0, so training changes no weight: `0`; help: write a decimal point, as in `0.5`");
    assert_snapshot!(wrong("Adam(0,01)"), @"E0002 `0,01` is two numbers: `0,01`; help: write a decimal point, `0.01`");
    assert_eq!(wrong("Adam(CosineDecay(0.1, 10))"), "");
    assert_eq!(wrong("SGD(0.1, 0.9)"), "");
    assert_eq!(wrong("SGD(0.1, 1.0, ema_momentum = 0)"), "");
    assert_snapshot!(wrong("SGD(0.1, 9)"), @"E0137 `momentum` must be from 0 to 1, and is 9: `9`; help: write the share that is kept in a step, as in `momentum = 0.9`");
    assert_snapshot!(wrong("SGD(lr = 0.1, learning_rate = 0.2)"), @"E0127 the learning rate is given twice: `lr` is short for `learning_rate`: `0.2`, `0.1` (first given here); help: remove one of the two");
    assert_snapshot!(wrong("Adam(ExponentialDecay(1000, 0.1, 0.9))"), @"E0137 `decay_steps` must be at least 1, and is 0.1: `0.1`; help: the arguments of `ExponentialDecay` are initial_learning_rate, decay_steps, decay_rate, in this order");
    assert_snapshot!(wrong("Adam(CosineDecay(0.1, 0))"), @"E0137 `decay_steps` must be at least 1, and is 0: `0`; help: the arguments of `CosineDecay` are initial_learning_rate, decay_steps, in this order");
}
