//! Habits from Python, NumPy, Keras and PyTorch.

use super::{Edit, Mistake, Text};

pub const MISTAKES: &[Mistake] = &[
    (
        "a program of Keras",
        Text(
            "import numpy as np\nfrom tensorflow import keras\n\nmodel = keras.Sequential([\n    keras.layers.Dense(8, activation='relu'),\n    keras.layers.Dense(2),\n])\nmodel.compile(optimizer='adam', loss='mse')\nmodel.fit(x, y, epochs=3)\n",
        ),
        "check net.tile",
        &["this is a program in Python, not in Tile", "`tilec import model.keras -o net.tile`"],
    ),
    (
        "a program of PyTorch",
        Text(
            "import torch\nimport torch.nn as nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc = nn.Linear(2, 3)\n\n    def forward(self, x):\n        return self.fc(x)\n",
        ),
        "check net.tile",
        &["this is a program in Python, not in Tile", "`torch.onnx.export`"],
    ),
    (
        "a text without an end",
        Edit("softmax", "\"softmax"),
        "check net.tile",
        &["unterminated text"],
    ),
    (
        "a text without an end, in one line with its block",
        Text("model Net(X[N, 2]) -> (Y) { Y = X |> Dense(2, activation = \"relu); }\n"),
        "check net.tile",
        &["unterminated text"],
    ),
    (
        "a text in single quotes without an end",
        Edit("softmax", "'softmax"),
        "check net.tile",
        &["unterminated text", "a text stands in `\"…\"`, on one line"],
    ),
    (
        "a part of a tensor, from a colon",
        Text("model Net(X[N, 3]) -> (Y) { Y = X[:, 0]; }\n"),
        "check net.tile",
        &["a part of a tensor is a contraction"],
    ),
    (
        "parentheses for the indices of an output",
        Text("function f(X[N, M]) -> (Y) { Y(i, j: N, M) = +(X[i, j]); }\n"),
        "check net.tile",
        &["indices stand in brackets, as in `Y[i, j: M, N] = +(X[i, j]);`"],
    ),
    (
        "parentheses for indices",
        Text("function f(X[N, M]) -> (Y) { Y[i, j: N, M] = +(X(i, j)); }\n"),
        "check net.tile",
        &["indices stand in brackets, as in `X[i]`"],
    ),
    (
        "a range of numbers",
        Text("model Net(X[N, 3]) -> (Y) { for i in 0..3 { X = X |> Dense(3); } Y = X; }\n"),
        "check net.tile",
        &["write `range(3)` for the numbers 0, 1 and 2"],
    ),
    (
        "an item of a result",
        Text("model Net(X[N, 3]) -> (Y) { n = dims(X)[0]; Y = X * n; }\n"),
        "check net.tile",
        &["give the list a name first"],
    ),
    (
        "inputs and outputs for units",
        Edit("Dense(8, activation = relu)", "Dense(2, 8)"),
        "check net.tile",
        &["write the number of outputs alone, as in `Dense(8)`"],
    ),
    (
        "an initializer misspelt beyond recognition",
        Edit("activation = relu", "kernel_initializer = glorot"),
        "check net.tile",
        &["unknown initializer `glorot`", "`glorot_uniform`"],
    ),
    (
        "an arg max of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = argmax(X); }\n"),
        "check net.tile",
        &["`Best[n: N] = argmax(X[n, c]);`"],
    ),
    (
        "a maximum of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = max(X); }\n"),
        "check net.tile",
        &["the maximum along an axis is `amax(axis = 1)(X)`"],
    ),
    (
        "a sum along an axis",
        Text("model Net(X[N, 3]) -> (Y) { Y = sum(X, 1); }\n"),
        "check net.tile",
        &["`sum(axis = …)(X)`"],
    ),
    (
        "a transpose of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = transpose(X); }\n"),
        "check net.tile",
        &["`transpose(X, [1, 0])`"],
    ),
    (
        "a clip of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = clip(X, 0, 1); }\n"),
        "check net.tile",
        &["write `min(max(X, 0), 1)`"],
    ),
    (
        "zeros of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = X + zeros_like(X); }\n"),
        "check net.tile",
        &["write `fill(dims(X), 0.0)`"],
    ),
    (
        "an axis of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = expand_dims(X, 1); }\n"),
        "check net.tile",
        &["write the shape with the new axis"],
    ),
    (
        "a normalization of Flax",
        Edit("Dense(8, activation = relu)", "BatchNorm()"),
        "check net.tile",
        &["the layer is called `BatchNormalization()`"],
    ),
    (
        "a convolution of PyTorch",
        Edit("Dense(8, activation = relu)", "Conv2d(1, 8, 3)"),
        "check net.tile",
        &["the layer is called `Conv2D(filters, kernel_size)`"],
    ),
    (
        "a loss of PyTorch",
        Edit("SparseCategoricalCrossentropy()", "CrossEntropyLoss()"),
        "check net.tile",
        &["the loss is called `SparseCategoricalCrossentropy(from_logits = true)`"],
    ),
    (
        "a loss of PyTorch by its name",
        Edit("SparseCategoricalCrossentropy()", "MSELoss"),
        "check net.tile",
        &["the loss is called `MeanSquaredError()`"],
    ),
    (
        "a row of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = X[0]; }\n"),
        "check net.tile",
        &["a part of a tensor is a contraction: `Y[j: 3] = =(X[0, j]);`"],
    ),
    (
        "the last row of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = X[-1]; }\n"),
        "check net.tile",
        &["a part of a tensor is a contraction: `Y[j: 3] = =(X[N - 1, j]);`"],
    ),
    (
        "an item of a matrix of NumPy",
        Text("model Net(X[N, 3]) -> (Y) { Y = X[0, -1]; }\n"),
        "check net.tile",
        &["a part of a tensor is a contraction: `Y[] = =(X[0, 2]);`"],
    ),
    (
        "axes from 0 for a layer",
        Text("model Net(X[N, 3, 4]) -> (Y) { Y = X |> Permute([1, 0]); }\n"),
        "check net.tile",
        &["`dims` counts the axes of a sample from 1 to 2, and has 0"],
    ),
    (
        "a sum by an augmented assignment",
        Text("function f(X[N, M]) -> (Y) { Y[i: N] += X[i, j]; }\n"),
        "check net.tile",
        &["unknown operator `+=`", "as in `Y[i: N] = +(X[i, j]);`"],
    ),
    (
        "shifts for layers",
        Text("model Net(X[N, 3]) -> (Y) { Y = X >> Dense(2); }\n"),
        "check net.tile",
        &["expected a tensor or a number, found the layer `Dense`", "as in `X |> Dense(…)`"],
    ),
];
