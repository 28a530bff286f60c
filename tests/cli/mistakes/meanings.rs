//! Programs that mean something else than their author thinks.

use super::{Edit, Mistake, Text};

pub const MISTAKES: &[Mistake] = &[
    (
        "a quotient of integers",
        Text("model Net(X[N, 4]) -> (Y) { Y = X * (1 / 255) |> Dense(2); }\n"),
        "check net.tile",
        &["`1 / 255` is 0: the quotient of two integers is truncated", "write `1.0 / 255`"],
    ),
    (
        "logits of a softmax",
        Edit(
            "SparseCategoricalCrossentropy()",
            "SparseCategoricalCrossentropy(from_logits = true)",
        ),
        "check net.tile",
        &["remove `from_logits = true`, or the softmax"],
    ),
    (
        "logits for a loss of probabilities",
        Edit(", activation = softmax", ""),
        "check net.tile",
        &["write `from_logits = true` in the loss, or `activation = softmax` in the last layer"],
    ),
    (
        "a binary loss of logits",
        Text(
            "model Net(X[N, 4]) -> (Y) { Y = X |> Dense(1); }\ntrain Net { loss = BinaryCrossentropy(); optimizer = Adam(); }\n",
        ),
        "check net.tile",
        &["write `from_logits = true` in the loss, or `activation = sigmoid` in the last layer"],
    ),
    (
        "a softmax of one number",
        Edit("Dense(2, activation", "Dense(1, activation"),
        "check net.tile",
        &["the softmax of one number is always 1"],
    ),
    (
        "a softmax of one number in the pipeline",
        Text("model Net(X[N, 4]) -> (Y) { Y = X |> Dense(1) |> softmax; }\n"),
        "check net.tile",
        &["the softmax of one number is always 1"],
    ),
    (
        "a metric of one-hot targets",
        Edit("SparseCategoricalAccuracy()", "CategoricalAccuracy()"),
        "check net.tile",
        &[
            "`CategoricalAccuracy` takes one-hot targets, and the loss class numbers",
            "write `SparseCategoricalAccuracy`",
        ],
    ),
    (
        "a metric of class numbers",
        Edit("SparseCategoricalCrossentropy()", "CategoricalCrossentropy()"),
        "check net.tile",
        &["`SparseCategoricalAccuracy` takes class numbers, and the loss one-hot targets"],
    ),
    (
        "a metric of one-hot targets beside a loss of one's own",
        Text(
            "function of_classes(P, T) -> (L) { L = sparse_categorical_crossentropy(P, T); }\nmodel Net(Point[N, 2]) -> (Y) { Y = Point |> Dense(2, activation = softmax); }\ntrain Net { loss = of_classes; optimizer = Adam(); metrics = [CategoricalAccuracy()]; }\n",
        ),
        "train net.tile --data points.csv",
        &["for class numbers write `SparseCategoricalAccuracy`"],
    ),
    (
        "an index from the end",
        Text("function f(X[N, M]) -> (Y) { Y[i: N] = +(X[i, -1]); }\n"),
        "check net.tile",
        &["`X` has no position -1: positions count from 0", "write `M - 1`"],
    ),
    (
        "a shape that does not fit",
        Text("model Net(X[N, 28, 28]) -> (Y) { Y = X |> Reshape([10]); }\n"),
        "check net.tile",
        &["`target_shape` has 10 elements, and a sample has 784"],
    ),
    (
        "a sum before a layer",
        Text("model Net(X[N, 2]) -> (Y) { Y = X + X |> Dense(2); }\n"),
        "check net.tile",
        &["`|>` is applied to the whole sum `X + X`", "write `X + (X |> …)`"],
    ),
    (
        "a decimal comma",
        Edit("0.01", "0,01"),
        "check net.tile",
        &["`0,01` is two numbers", "write a decimal point, `0.01`"],
    ),
    (
        "a decimal comma without a zero",
        Edit("0.01", "0,5"),
        "check net.tile",
        &["write a decimal point, as in `0.5`"],
    ),
    (
        "a learning rate of 0",
        Edit("0.01", "0"),
        "check net.tile",
        &["the learning rate is 0, so training changes no weight"],
    ),
    (
        "a negative learning rate",
        Edit("0.01", "-0.01"),
        "check net.tile",
        &["write `0.01`: a step goes against the gradient by itself"],
    ),
    (
        "arguments of PyTorch's convolution",
        Text("model Net(X[N, 128, 128, 3]) -> (Y) { Y = X |> Conv2D(3, 64, 3); }\n"),
        "check net.tile",
        &["write `Conv2D(64, 3)` for 64 filters with windows of 3"],
    ),
    (
        "a size of another axis",
        Text("function f(X[M, N]) -> (Y) { Y[i: N] = +(X[i, j]); }\n"),
        "check net.tile",
        &["`i` runs along an axis of size M, and `Y` has the size `N` there"],
    ),
    (
        "a power of a calculator",
        Text("model Net(X[N, 3]) -> (Y) { Y = X ^ 2 |> Dense(2); }\n"),
        "check net.tile",
        &["write `X * X`, or `pow(X, 2)`"],
    ),
    (
        "a division of Python before a line",
        Text("model Net(X[N, 3]) -> (Y) { Y = X // 2\n        |> Dense(2); }\n"),
        "check net.tile",
        &["`// 2` is a comment, not a division"],
    ),
    (
        "a loss of nothing",
        Edit("SparseCategoricalCrossentropy()", "none"),
        "check net.tile",
        &["there is nothing to minimize"],
    ),
    (
        "a model without weights",
        Text(
            "model Net(X[N, 3]) -> (Y) { Y = X * 2; }\ntrain Net { loss = mse; optimizer = Adam(); }\n",
        ),
        "check net.tile",
        &["there is nothing to train"],
    ),
    (
        "a setting given twice",
        Edit("batch_size = 8;", "batch_size = 8;\n    batch_size = 16;"),
        "check net.tile",
        &["`batch_size` is set twice: only the last one counts"],
    ),
    (
        "a loss of numbers for class numbers",
        Edit("SparseCategoricalCrossentropy()", "mse"),
        "train net.tile --data points.csv",
        &["for class numbers there are `SparseCategoricalCrossentropy`"],
    ),
    (
        "a binary loss after a relu",
        Text(
            "model Net(X[N, 4]) -> (Y) { Y = X |> Dense(1, activation = relu); }\ntrain Net { loss = BinaryCrossentropy(); optimizer = Adam(); }\n",
        ),
        "check net.tile",
        &[
            "`BinaryCrossentropy` expects probabilities, and `Y` ends with relu",
            "write `activation = sigmoid` in the last layer",
        ],
    ),
    (
        "a softmax of a softmax",
        Edit("activation = softmax)", "activation = softmax) |> Softmax()"),
        "check net.tile",
        &["a softmax of a softmax has nearly equal numbers", "the first softmax"],
    ),
    (
        "a sigmoid of a sigmoid",
        Text(
            "model Net(X[N, 4]) -> (Y) { Y = X |> Dense(1, activation = sigmoid) |> Activation(sigmoid); }\n",
        ),
        "check net.tile",
        &["a sigmoid of a sigmoid has nearly equal numbers"],
    ),
    (
        "a learning rate by two names",
        Edit("Adam(0.01)", "SGD(lr = 0.1, learning_rate = 0.1)"),
        "check net.tile",
        &["the learning rate is given twice: `lr` is short for `learning_rate`"],
    ),
    (
        "a momentum of nine tenths without its point",
        Edit("Adam(0.01)", "SGD(0.01, momentum = 9)"),
        "check net.tile",
        &["`momentum` must be from 0 to 1, and is 9"],
    ),
    (
        "a factor above 1",
        Edit("Adam(0.01)", "Adam(beta_1 = 9)"),
        "check net.tile",
        &["`beta_1` must be from 0 to 1, and is 9"],
    ),
    (
        "the arguments of a schedule in another order",
        Edit("Adam(0.01)", "Adam(ExponentialDecay(1000, 0.1, 0.96))"),
        "check net.tile",
        &[
            "`decay_steps` must be at least 1, and is 0.1",
            "the arguments of `ExponentialDecay` are initial_learning_rate, decay_steps, decay_rate",
        ],
    ),
    (
        "a name of two layers",
        Edit("Dense(8, activation = relu)", "Dense(8, name = \"d\") |> Dense(8, name = \"d\")"),
        "check net.tile",
        &["two layers are called `d`", "give each a name of its own"],
    ),
    (
        "a state that is assigned",
        Text(
            "layer Count()(X) -> (Y) { state Seen[] = zeros(); Seen = Seen + 1; Y = X * Seen; }\nmodel Net(X[N, 3]) -> (Y) { Y = X |> Count() |> Dense(1); }\n",
        ),
        "check net.tile",
        &["the state `Seen` keeps its value", "write `update Seen = …`"],
    ),
    (
        "a model without an axis of samples",
        Edit("Point[N, 2]", "Point[2]"),
        "check net.tile",
        &["the first axis of `Point` is that of the samples", "write `Point[N, 2]`"],
    ),
];
