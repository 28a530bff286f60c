//! Mistakes of syntax, most of them habits from Python.

use super::{Edit, Mistake, Text};

pub const MISTAKES: &[Mistake] = &[
    (
        "a missing closing brace",
        Edit("softmax);\n}", "softmax);\n"),
        "check net.tile",
        &["missing `}`"],
    ),
    (
        "a closing brace too many",
        Edit("epochs = 3;\n}", "epochs = 3;\n}\n}"),
        "check net.tile",
        &["unexpected `}`"],
    ),
    (
        "a missing semicolon",
        Edit("Adam(0.01);", "Adam(0.01)"),
        "check net.tile",
        &["expected `;` after this statement"],
    ),
    (
        "a missing parenthesis",
        Edit("activation = relu)", "activation = relu"),
        "check net.tile",
        &["missing `)`"],
    ),
    (
        "a missing comma",
        Edit("Dense(8, activation", "Dense(8 activation"),
        "check net.tile",
        &["expected `,` after `8`"],
    ),
    (
        "a comparison for an assignment",
        Edit("Y = Point", "Y == Point"),
        "check net.tile",
        &["write `=` to assign"],
    ),
    (
        "an assignment for a comparison",
        Text("layer L(mode = 1)(X) -> (Y) {\n    if mode = 1 { Y = X; } else { Y = -X; }\n}\n"),
        "check net.tile",
        &["write `==` to compare"],
    ),
    (
        "a function of Python",
        Text("def net(x):\n    return relu(x)\n"),
        "check net.tile",
        &["a function is written `function f(X) -> (Y) { Y = …; }`"],
    ),
    (
        "a class of Python",
        Text("class Net(Model):\n    def call(self, x):\n        return x\n"),
        "check net.tile",
        &[
            "a layer is written `layer Name(units)(X) -> (Y) { … }`, and a network `model Name(X[N, 4]) -> (Y) { … }`",
        ],
    ),
    (
        "an import of Python",
        Text("import keras\n\nmodel Net(X[N, 2]) -> (Y) { Y = X; }\n"),
        "check net.tile",
        &["`import` reads a Tile file; the names of the library are visible everywhere"],
    ),
    (
        "an import of names",
        Text(
            "from keras.layers import Dense\n\nmodel Net(X[N, 2]) -> (Y) { Y = X |> Dense(2); }\n",
        ),
        "check net.tile",
        &[
            "remove the line: the library needs no import, and `import \"file.tile\";` reads another Tile file",
        ],
    ),
    (
        "a comment of Python",
        Edit("    batch_size", "    # small\n    batch_size"),
        "check net.tile",
        &["a comment starts with `//`"],
    ),
    (
        "single quotes",
        Edit("softmax", "'softmax'"),
        "check net.tile",
        &["write the name alone, `softmax`, or a text, `\"softmax\"`"],
    ),
    (
        "a power of Python",
        Text("function f(X[N]) -> (Y) { Y = X ** 2; }\n"),
        "check net.tile",
        &["write `pow(X, 2)` for a power"],
    ),
    (
        "a product of matrices of Python",
        Text("function f(A[M, K], B[K, N]) -> (C) { C = A @ B; }\n"),
        "check net.tile",
        &["a product of matrices is a contraction, as in `C[i, j: M, N] = +(A[i, k] * B[k, j]);`"],
    ),
    (
        "an augmented assignment",
        Text("function f(X[N]) -> (Y) { Y = X; Y += 1; }\n"),
        "check net.tile",
        &["give the new value another name"],
    ),
    (
        "a sequential model of Keras",
        Text(
            "model Net(X[N, 2]) -> (Y) {\n    net = Sequential();\n    net.add(Dense(2));\n    Y = X |> net;\n}\n",
        ),
        "check net.tile",
        &["layers are joined with `|>`, as in `Y = X |> Dense(8) |> Dense(3);`"],
    ),
    (
        "a module of PyTorch",
        Text("model Net(X[N, 2]) -> (Y) { Y = X |> nn.Linear(2, 8) |> nn.ReLU(); }\n"),
        "check net.tile",
        &[
            "the layer is called `Dense(units)`, as in Keras: it finds the number of its inputs itself",
        ],
    ),
    (
        "True of Python",
        Edit("Dense(8,", "Dense(8, use_bias = True,"),
        "check net.tile",
        &["did you mean `true`?"],
    ),
    (
        "None of Python",
        Edit("activation = relu", "activation = None"),
        "check net.tile",
        &["did you mean `none`?"],
    ),
    (
        "False of Python in training",
        Edit("epochs = 3;", "epochs = 3; shuffle = False;"),
        "check net.tile",
        &["did you mean `false`?"],
    ),
    (
        "return",
        Text("function f(X[N]) -> (Y) {\n    return X + 1;\n}\n"),
        "check net.tile",
        &["assign to the names of the outputs in the header, as in `-> (Y) { Y = …; }`"],
    ),
    (
        "a loop of Python",
        Text(
            "model Net(X[N, 2]) -> (Y) {\n    Y = X;\n    for i in range(3):\n        Y = Y |> Dense(2);\n}\n",
        ),
        "check net.tile",
        &["a block stands in braces, as in `for i in range(3) { … }`"],
    ),
    (
        "a tuple for a list",
        Text("model Net(X[N, 8, 8, 1]) -> (Y) { Y = X |> Conv2D(4, (3, 3)); }\n"),
        "check net.tile",
        &["a list stands in brackets, as in `[3, 3]`"],
    ),
    (
        "no outputs in the header",
        Text("model Net(X[N, 2]) {\n    Y = X |> Dense(2);\n}\n"),
        "check net.tile",
        &["name the outputs, as in `model Net(X[N, 4]) -> (Y) { … }`"],
    ),
    (
        "an output without parentheses",
        Text("function f(X[N]) -> Y { Y = X; }\n"),
        "check net.tile",
        &["outputs stand in parentheses, as in `-> (Y)`"],
    ),
    (
        "a colon for an argument",
        Edit("activation = relu", "activation: relu"),
        "check net.tile",
        &["an argument is given with `=`, as in `units = 3`"],
    ),
    ("a colon in training", Edit("epochs = 3;", "epochs: 3,"), "check net.tile", &["write `=`"]),
    (
        "capital indices",
        Text("function f(X[M, N]) -> (Y) { Y[I: M] = +(X[I, J]); }\n"),
        "check net.tile",
        &["call it `i`"],
    ),
    (
        "a small name for a tensor",
        Text(
            "model Net(X[N, 2]) -> (Y) {\n    hidden = X |> Dense(8);\n    Y = hidden |> Dense(2);\n}\n",
        ),
        "check net.tile",
        &["call it `Hidden`"],
    ),
    (
        "a small name for an input",
        Text("model Net(x[N, 2]) -> (y) {\n    y = x |> Dense(2);\n}\n"),
        "check net.tile",
        &["call it `X`"],
    ),
    (
        "an index outside of a contraction",
        Text("function f(X[N]) -> (Y) { Y[i: N] = X[i] * 2; }\n"),
        "check net.tile",
        &[
            "an output with indices is aggregated, as in `O[i: N] = +(X[i, j])`; elementwise is `O = X + 1`",
        ],
    ),
    (
        "a slice",
        Text("function f(X[N]) -> (Y) { Y = X[1:3]; }\n"),
        "check net.tile",
        &["a part of a tensor is a contraction: `Y[i: 2] = =(X[i + 1]);` is `X[1:3]`"],
    ),
    (
        "an arrow for a pipe",
        Text("model Net(X[N, 2]) -> (Y) { Y = X -> Dense(8); }\n"),
        "check net.tile",
        &["layers are joined with `|>`, as in `Y = X |> Dense(8);`"],
    ),
    (
        "a call without parentheses",
        Text("model Net(X[N, 2]) -> (Y) { Y = X |> Dense 8; }\n"),
        "check net.tile",
        &["arguments stand in parentheses, as in `Dense(8)`"],
    ),
    (
        "a line without a pipe",
        Text("model Net(X[N, 2]) -> (Y) {\n    Y = X\n        Dense(8);\n}\n"),
        "check net.tile",
        &["write `;` after the statement, or `|>` before the layer, as in `X |> Dense(8)`"],
    ),
    (
        "an input with a type",
        Text("model Net(X: [N, 2]) -> (Y) { Y = X; }\n"),
        "check net.tile",
        &["sizes stand right after the name, as in `X[N, 4]`, and a default after `=`"],
    ),
    (
        "outputs with sizes",
        Text("model Net(X[N, 2]) -> (Y[N, 3]) { Y = X |> Dense(3); }\n"),
        "check net.tile",
        &["the sizes of outputs follow from the body: write the names alone, as in `-> (Y)`"],
    ),
    (
        "a weight without a value",
        Text("layer L()(X[..., K]) -> (Y) { param W[K]; Y = X * W; }\n"),
        "check net.tile",
        &["give it an initial value, as in `param Kernel[K, units] = zeros();`"],
    ),
    (
        "a weight from a number",
        Text("layer L()(X[..., K]) -> (Y) { param W[K] = 0.5; Y = X * W; }\n"),
        "check net.tile",
        &["write `zeros()`, or `constant(0.5)` for this number everywhere"],
    ),
    (
        "a weight in a function",
        Text("function f(X[N]) -> (Y) { param W[3] = zeros(); Y = X * W; }\n"),
        "check net.tile",
        &["write `layer` instead of `function`"],
    ),
    (
        "two assignments in one",
        Text("model Net(X[N, 2]) -> (Y) { A = Y = X; }\n"),
        "check net.tile",
        &["a statement assigns once: `B = X; A = B;`"],
    ),
    (
        "a list comprehension",
        Text("model Net(X[N, 2]) -> (Y) { Y = [X for i in range(3)] |> Add(); }\n"),
        "check net.tile",
        &["write the items out, as in `[1, 2, 3]`; `for i in range(3) { … }` repeats statements"],
    ),
    (
        "a text without an end",
        Text("model Net(X[N, 2]) -> (Y) { Y = X |> Dense(2, activation = \"relu); }\n"),
        "check net.tile",
        &["put `\"` after it, on the same line"],
    ),
    (
        "a call of fit",
        Text("model Net(X[N, 2]) -> (Y) { Y = X |> Dense(2); }\nfit(Net, epochs = 3);\n"),
        "check net.tile",
        &["training is a block of the file, `train Net { loss = …; optimizer = …; }`"],
    ),
    (
        "a block comment",
        Text("/* A net. */\nmodel Net(X[N, 2]) -> (Y) { Y = X |> Dense(2); }\n"),
        "check net.tile",
        &["a comment starts with `//`, and ends with its line"],
    ),
    (
        "a layer that calls itself",
        Text("layer L()(X) -> (Y) { Y = X |> L(); }\n"),
        "check net.tile",
        &["Tile has no recursion: every call is inlined at compile time"],
    ),
    (
        "two models of one name",
        Text("model Net(X[N]) -> (Y) { Y = X; }\nmodel Net(X[N]) -> (Y) { Y = -X; }\n"),
        "check net.tile",
        &["the model `Net` is defined twice"],
    ),
    (
        "a block to train without a name",
        Edit("train Net {", "train {"),
        "check net.tile",
        &["expected the name of a model after `train`", "as in `train Net { … }`"],
    ),
    (
        "a rank of a sum",
        Text("function f(X[N, C]) -> (Y) { Y[n, k: N, 3] = +[k](X[n, c]); }\n"),
        "check net.tile",
        &["expected `(`, found `[`"],
    ),
    (
        "a rank that is no index of the output",
        Text("function f(X[N, C]) -> (Y) { Y[n: N] = argmax[k](X[n, c]); }\n"),
        "check net.tile",
        &["a rank is an index of the output"],
    ),
    (
        "a rank inside",
        Text("function f(X[N, C]) -> (Y) { Y[n, k: N, 3] = argmax[k](X[n, k + c]); }\n"),
        "check net.tile",
        &["a rank stands in one place of the output, and nowhere else"],
    ),
    (
        "a rank of values at several places",
        Text(
            "function f(X[N, C], W[M, C]) -> (Y) { Y[n + m, k: N, 3] = argmax[k](X[n, c] * W[m, c]); }\n",
        ),
        "run net.tile --shape X=3x4 --shape W=2x4 --random 1",
        &["the indices of the output must tell the points of each row apart"],
    ),
    (
        "a function that sorts",
        Text("function f(X[N, C]) -> (Y) { Y = topk(X, 3); }\n"),
        "check net.tile",
        &["argmax[k](X[n, c])"],
    ),
    (
        "hyper-parameters among the inputs",
        Text(
            "layer Block(units, X) -> (Y) { Y = X |> Dense(units); }\nmodel Net(X[N, 3]) -> (Y) { Y = X |> Block(4); }\n",
        ),
        "check net.tile",
        &["hyper-parameters have a list of their own: write `layer Block(units)(X)`"],
    ),
];
