//! Misspelt names: layers, options, losses, optimizers, metrics and settings.

use super::{Edit, Mistake, Net, Text};

pub const MISTAKES: &[Mistake] = &[
    (
        "an input misspelt",
        Edit("Y = Point", "Y = Piont"),
        "check net.tile",
        &["did you mean `Point`?"],
    ),
    ("a layer misspelt", Edit("Dense(8", "Dence(8"), "check net.tile", &["did you mean `Dense`?"]),
    (
        "a layer in small letters",
        Edit("Dense(8", "dense(8"),
        "check net.tile",
        &["did you mean `Dense`?"],
    ),
    (
        "a layer of PyTorch",
        Edit("Dense(8", "Linear(8"),
        "check net.tile",
        &[
            "the layer is called `Dense(units)`, as in Keras: it finds the number of its inputs itself",
        ],
    ),
    (
        "an option misspelt",
        Edit("activation = relu", "activaton = relu"),
        "check net.tile",
        &["did you mean `activation`?"],
    ),
    ("an activation misspelt", Edit("relu", "rleu"), "check net.tile", &["did you mean `relu`?"]),
    (
        "an activation misspelt as a text",
        Edit("relu", "\"rleu\""),
        "check net.tile",
        &["did you mean `relu`?"],
    ),
    (
        "an activation misspelt in a layer",
        Text(
            "layer Block(filters)(X) -> (Y) {\n    Y = X |> Conv2D(filters, 3, activation = rleu);\n}\n",
        ),
        "check net.tile",
        &["did you mean `relu`?"],
    ),
    (
        "an activation misspelt, in training",
        Edit("relu", "rleu"),
        "train net.tile --data points.csv",
        &["did you mean `relu`?"],
    ),
    (
        "a choice misspelt",
        Text("model Net(X[N, 8, 8, 1]) -> (Y) { Y = X |> Conv2D(4, 3, padding = \"smae\"); }\n"),
        "check net.tile",
        &["did you mean `same`?"],
    ),
    (
        "an initializer misspelt",
        Edit("activation = relu", "kernel_initializer = he_nromal"),
        "check net.tile",
        &["did you mean `he_normal`?"],
    ),
    (
        "an option missing",
        Edit("Dense(8, activation = relu)", "Dense()"),
        "check net.tile",
        &["missing argument `units` of `Dense`"],
    ),
    (
        "a number of options too many",
        Text("model Net(X[N, 2]) -> (Y) { Y = X |> Flatten(1, 2, 3, 4); }\n"),
        "check net.tile",
        &["expected 0 to 1 arguments for `Flatten`, found 4"],
    ),
    (
        "a loss misspelt",
        Edit("SparseCategoricalCrossentropy", "SparseCategoricalCrossEntropi"),
        "check net.tile",
        &["did you mean `SparseCategoricalCrossentropy`?"],
    ),
    (
        "a loss as a text",
        Edit("SparseCategoricalCrossentropy()", "\"sparse_categorical_crosentropy\""),
        "check net.tile",
        &["did you mean `sparse_categorical_crossentropy`?"],
    ),
    ("an optimizer misspelt", Edit("Adam", "Adamm"), "check net.tile", &["did you mean `Adam`?"]),
    (
        "an optimizer as a text",
        Edit("Adam(0.01)", "\"adm\""),
        "check net.tile",
        &["did you mean `adam`?"],
    ),
    (
        "an optimizer's option misspelt",
        Edit("Adam(0.01)", "Adam(learning_rte = 0.01)"),
        "check net.tile",
        &["did you mean `learning_rate`?"],
    ),
    (
        "a metric misspelt",
        Edit("SparseCategoricalAccuracy()", "acuracy"),
        "check net.tile",
        &["did you mean `accuracy`?"],
    ),
    (
        "a loss for an optimizer",
        Edit("Adam(0.01)", "MeanSquaredError()"),
        "check net.tile",
        &["expected an optimizer, found the loss `MeanSquaredError`"],
    ),
    (
        "a layer for a loss",
        Edit("SparseCategoricalCrossentropy()", "Dense(2)"),
        "check net.tile",
        &["expected a loss, found the layer `Dense`"],
    ),
    (
        "a setting misspelt",
        Edit("batch_size", "batchsize"),
        "check net.tile",
        &["did you mean `batch_size`?"],
    ),
    (
        "a setting of Keras that is an option",
        Edit("batch_size = 8", "validation_split = 0.1"),
        "check net.tile",
        &["it is an option of the command line, `--validation 0.1`"],
    ),
    (
        "the model's name misspelt",
        Edit("train Net", "train Nett"),
        "check net.tile",
        &["did you mean `Net`?"],
    ),
    (
        "a frozen layer misspelt",
        Edit("epochs = 3;", "epochs = 3; frozen = \"dens\";"),
        "train net.tile --data points.csv",
        &["did you mean `dense`?"],
    ),
    (
        "a frozen layer misspelt on the command line",
        Net,
        "train net.tile --data points.csv --freeze dense_3",
        &["did you mean `dense_1`?"],
    ),
    (
        "no loss",
        Edit("    loss = SparseCategoricalCrossentropy();\n", ""),
        "train net.tile --data points.csv",
        &["a loss of the library is `MeanSquaredError()`, say"],
    ),
    (
        "no optimizer",
        Edit("    optimizer = Adam(0.01);\n", ""),
        "train net.tile --data points.csv",
        &["an optimizer of the library is `Adam()`, say"],
    ),
    (
        "no training block",
        Text("model Net(Point[N, 2]) -> (Y) { Y = Point |> Dense(2); }\n"),
        "train net.tile --data points.csv",
        &["add `train Net { loss = …; optimizer = …; }`"],
    ),
    (
        "a layer used before it is made",
        Text("model Net(X[N, 2]) -> (Y) {\n    Y = X |> head;\n    head = Dense(2);\n}\n"),
        "check net.tile",
        &["move the definition up"],
    ),
    (
        "an output that is never assigned",
        Text("model Net(X[N, 2]) -> (Probs) { Y = X |> Dense(2); }\n"),
        "check net.tile",
        &["assign it, as in `Probs = …;`"],
    ),
    (
        "an activation with a capital",
        Edit("relu", "Relu"),
        "check net.tile",
        &["did you mean `relu`?"],
    ),
    (
        "a kernel's size missing",
        Text("model Net(X[N, 8, 8, 1]) -> (Y) { Y = X |> Conv2D(8); }\n"),
        "check net.tile",
        &["missing argument `kernel_size` of `Conv2D`"],
    ),
    (
        "an import that is not there",
        Text("import \"blocks.tile\";\nmodel Net(X[N, 2]) -> (Y) { Y = X |> Block(); }\n"),
        "check net.tile",
        &["a path starts from the folder of this file"],
    ),
    (
        "a printed tensor",
        Text("model Net(X[N, 2]) -> (Y) {\n    Y = X;\n    print(Y);\n}\n"),
        "check net.tile",
        &["a model has no output but its tensors: add one to `-> (…)`, or run `tilec summary`"],
    ),
    (
        "a hyper-parameter misspelt on the command line",
        Text(
            "model Net(activation = relu)(X[N, 2]) -> (Y) { Y = X |> Dense(2, activation = activation); }\n",
        ),
        "run net.tile --set activation=rleu --dim N=1 --random 1",
        &["unknown function `rleu` for the hyper-parameter `activation`", "did you mean `relu`?"],
    ),
];
