//! Mistakes of shapes, types and values.

use super::{Edit, Mistake, Text};

/// Two models whose part has the same name.
const IN_TURN: &str = "\
model First(Point[N, 2]) -> (Y) {
    part = Dense(8);
    Y = Point |> part |> Dense(2, activation = softmax);
}
train First { loss = SparseCategoricalCrossentropy(); optimizer = Adam(); }

model Second(Point[N, 2]) -> (Y) {
    part = Dense(16);
    Y = Point |> part |> Dense(2, activation = softmax, name = last);
}
train Second { loss = SparseCategoricalCrossentropy(); optimizer = Adam(); }
";

pub const MISTAKES: &[Mistake] = &[
    (
        "models trained in turn with parts of one name",
        Text(IN_TURN),
        "train net.tile --data points.csv",
        &["`part.Kernel` is a param f32[2, 8] in `First`, and a param f32[2, 16] in `Second`"],
    ),
    (
        "a product of matrices that do not fit",
        Text("function f(A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }\n"),
        "run net.tile --shape A=2x3 --shape B=4x5 --random 1",
        &["`K` is 4 in `B`, but 3 before"],
    ),
    (
        "shapes that do not broadcast",
        Text("function f(A[N], B[M]) -> (C) { C = A + B; }\n"),
        "run net.tile --dim N=3 --dim M=4 --random 1",
        &["aligned at the last axis, sizes must be equal, or one of them 1"],
    ),
    (
        "a layer for pictures on points",
        Edit("Dense(8, activation = relu)", "Conv2D(8, 3)"),
        "check net.tile",
        &["expected a tensor with 4 axes, found [64, 2]"],
    ),
    (
        "a picture that is not flattened",
        Text("model Net(X[N, 8, 8]) -> (Y) {\n    Y = X |> Dense(8) |> Reshape([10]);\n}\n"),
        "run net.tile --dim N=1 --random 1",
        &["`target_shape` has 10 elements, and a sample has 64"],
    ),
    (
        "a window larger than the picture",
        Text(
            "model Net(X[N, 4, 4, 1]) -> (Y) {\n    Y = X |> Conv2D(8, 3) |> MaxPooling2D() |> Conv2D(8, 3);\n}\n",
        ),
        "check net.tile",
        &["a window of 3 does not fit into an axis of size 1"],
    ),
    (
        "tensors that cannot be concatenated",
        Text("model Net(A[N, 4, 2], B[N, 3, 5]) -> (Y) { Y = [A, B] |> Concatenate(); }\n"),
        "check net.tile",
        &[
            "inputs must have the same sizes but along axis -1, and there are [64, 4, 2] and [64, 3, 5]",
        ],
    ),
    (
        "a size that nothing says",
        Text("function f(X) -> (Y) { Y = X + 1; }\n"),
        "run net.tile --random 1",
        &["give it an array, or a shape with `--shape X=…`"],
    ),
    (
        "a named size that nothing says",
        Text("function f(X[N, M]) -> (Y) { Y = X + 1; }\n"),
        "run net.tile --dim N=3 --random 1",
        &["give it an array, or a shape with `--shape X=…`, or the size with `--dim M=…`"],
    ),
    (
        "bits of a float",
        Text("function f(X[N]) -> (Y) { Y = X & 1; }\n"),
        "run net.tile --dim N=3 --random 1",
        &["convert with `as_int(X, 32)` first"],
    ),
    (
        "a condition on a tensor",
        Text("function f(X[N]) -> (Y) {\n    if (X > 0) { Y = X; } else { Y = -X; }\n}\n"),
        "check net.tile",
        &["to choose between the elements of tensors, write `C ? A : B`"],
    ),
    (
        "an index that is not affine",
        Text("function f(X[N]) -> (Y) { Y[i: N] = +(X[i * j]); }\n"),
        "check net.tile",
        &["write a sum of index variables with constant factors, as in `2*i + j/2 - 1`"],
    ),
    (
        "an index without an end",
        Text("function f(X[N]) -> (Y) { Y[i: N] = +(X[i + j - k]); }\n"),
        "run net.tile --dim N=3 --random 1",
        &["index a tensor with it, or add a constraint, as in `, j < 10`"],
    ),
    (
        "a sum of different numbers of indices",
        Text("function f(X[N]) -> (Y) { Y[i: N] = +(X[i, j]); }\n"),
        "check net.tile",
        &["expected 1 index for `X`, found 2"],
    ),
    (
        "units that are no whole number",
        Edit("Dense(8,", "Dense(8.5,"),
        "check net.tile",
        &["`units` must be a positive integer"],
    ),
    (
        "units that are negative",
        Edit("Dense(8,", "Dense(-8,"),
        "check net.tile",
        &["`units` must be a positive integer, and is -8"],
    ),
    (
        "units that are a text",
        Edit("Dense(8,", "Dense(\"8\","),
        "check net.tile",
        &["write 8 without quotes"],
    ),
    (
        "a tensor as an option",
        Edit("Dense(8,", "Dense(Point,"),
        "check net.tile",
        &["write `X |> Dense(units = …)`"],
    ),
    (
        "a rate above one",
        Edit("|> Dense(2", "|> Dropout(1.5) |> Dense(2"),
        "check net.tile",
        &["`rate` must be from 0 to 1"],
    ),
    (
        "a negative number of epochs",
        Edit("epochs = 3", "epochs = -3"),
        "check net.tile",
        &["`epochs` must be a whole number of at least 0, and is -3"],
    ),
    (
        "an empty batch",
        Edit("batch_size = 8", "batch_size = 0"),
        "check net.tile",
        &["`batch_size` must be a whole number of at least 1, and is 0"],
    ),
    (
        "a learning rate as a text",
        Edit("Adam(0.01)", "Adam(\"fast\")"),
        "check net.tile",
        &["expected a number or tensor, found the name `fast`"],
    ),
    (
        "a list of tensors under a small name",
        Text(
            "model Net(X[N, 2]) -> (Y) {\n    levels = [X, X];\n    Y = levels |> Concatenate();\n}\n",
        ),
        "check net.tile",
        &["call it `Levels`"],
    ),
    (
        "a number in place of a layer",
        Edit("Dense(8, activation = relu)", "8"),
        "check net.tile",
        &["expected a function or layer, found a number"],
    ),
    (
        "too many names for the outputs",
        Text(
            "model Net(X[N, 4, 2]) -> (Y) {\n    A, B, C = X |> LSTM(4, return_state = true);\n    D, E = X |> LSTM(4);\n    Y = A + D;\n}\n",
        ),
        "check net.tile",
        &["expected 2 values for 2 names, found a tensor"],
    ),
    (
        "outputs and classes that differ",
        Edit("Dense(2, activation", "Dense(1, activation"),
        "train net.tile --data points.csv",
        &[],
    ),
    (
        "a prediction of another shape than the target",
        Edit("SparseCategoricalCrossentropy()", "CategoricalCrossentropy()"),
        "train net.tile --data points.csv",
        &[
            "one-hot targets are wanted, [8, 2], and the targets are [8]: for class numbers write `SparseCategoricalCrossentropy`",
        ],
    ),
    (
        "a sum with another shape",
        Text("model Net(X[N, 8, 8, 3]) -> (Y) { Y = X + (X |> Conv2D(4, 3)); }\n"),
        "check net.tile",
        &["aligned at the last axis, sizes must be equal, or one of them 1"],
    ),
    (
        "a sequence without its axis",
        Text("model Net(X[N, 2]) -> (Y) { Y = X |> LSTM(4); }\n"),
        "check net.tile",
        &["expected a tensor with 3 axes for `X` of `LSTM`, found one with 2 axes"],
    ),
    (
        "epochs that are no whole number",
        Edit("epochs = 3", "epochs = 2.5"),
        "check net.tile",
        &["`epochs` must be a whole number of at least 0, and is 2.5"],
    ),
    (
        "a batch size as a text",
        Edit("batch_size = 8", "batch_size = \"8\""),
        "check net.tile",
        &["`batch_size` must be a whole number of at least 1, and is the text `8`"],
    ),
];
