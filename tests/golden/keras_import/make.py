"""Makes the models that tests/keras_import.rs converts and tests/keras_weights.rs loads, by Keras, beside this file.

    pip install keras jax h5py numpy && KERAS_BACKEND=jax python3 tests/golden/keras_import/make.py

For each NAME: NAME.keras, by `model.save`; NAME.npz with the inputs, `in 0`, `in 1` in order, and Keras' predictions for them, `out 0`, `out 1`. The
weights are random, those of normalizations, too. refused_NAME.keras have layers and options that the library lacks.
"""

import os
import pathlib
import zipfile

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from keras import layers

FOLDER = pathlib.Path(__file__).parent
rng = np.random.default_rng(1)


def floats(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def tokens(*shape):
    return rng.integers(0, 11, shape).astype(np.int32)


def keep(name, model, *inputs):
    for variable in model.variables:
        if "float" in variable.dtype:
            low, high = (0.5, 1.5) if "variance" in variable.path or "gamma" in variable.path else (-0.5, 0.5)
            variable.assign(rng.uniform(low, high, variable.shape))
    outputs = model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    arrays = {f"in {number}": array for number, array in enumerate(inputs)}
    arrays |= {f"out {number}": keras.ops.convert_to_numpy(array) for number, array in enumerate(outputs)}
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    save(name, model)


def save(name, model, old="", new=""):
    """Saves the model, with a part of its configuration replaced. All archives but one are compressed; Keras reads both."""
    path = FOLDER / f"{name}.keras"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            how = zipfile.ZIP_STORED if name == "mlp" else zipfile.ZIP_DEFLATED
            if part == "config.json":
                content = content.replace(old.encode(), new.encode())
            archive.writestr(zipfile.ZipInfo(part, (2026, 1, 1, 0, 0, 0)), content, how)


def mlp():
    """Layers whose activations are names, layers, and functions; options that are not the defaults."""
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-4), kernel_constraint=keras.constraints.MaxNorm(3)),
            layers.Dropout(0.2),
            layers.Dense(8, use_bias=False, kernel_initializer=keras.initializers.HeNormal(seed=3)),
            layers.LeakyReLU(0.1),
            layers.Dense(8, activation=layers.ELU(0.5), bias_initializer=keras.initializers.RandomNormal(stddev=0.02)),
            layers.GaussianNoise(0.1),
            layers.Dense(3, activation="softmax", name="probabilities"),
        ],
        name="mlp",
    )


def cnn():
    image = keras.Input((12, 10, 3), name="image")
    x = layers.Rescaling(1 / 127.5, offset=-1)(image)
    x = layers.Conv2D(4, 3, strides=2, padding="same", use_bias=False, name="conv1")(x)
    x = layers.BatchNormalization(epsilon=1e-5, momentum=0.9, name="conv1_bn")(x)
    x = layers.ReLU(6.0)(x)
    y = layers.DepthwiseConv2D((3, 1), padding="same")(x)
    y = layers.BatchNormalization(scale=False)(y)
    y = layers.Activation("gelu")(y)
    x = layers.Add()([x, y])
    x = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
    x = layers.MaxPooling2D((2, 3), strides=1)(x)
    x = layers.SeparableConv2D(5, 2, activation="relu")(x)
    return keras.Model(image, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)), name="cnn")


def lstm():
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(11, 4),
            layers.Bidirectional(layers.LSTM(3, return_sequences=True, recurrent_dropout=0.1)),
            layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode="sum"),
            layers.TimeDistributed(layers.Dense(4, activation="tanh")),
            layers.GRU(4, return_sequences=True, reset_after=False),
            layers.SimpleRNN(3),
            layers.Dense(2),
        ]
    )


def attention():
    """A block of a transformer: a tensor taken three times, arguments by name, and a causal mask."""
    words = keras.Input((7,), dtype="int32", name="words")
    x = layers.Embedding(11, 6)(words)
    y = layers.MultiHeadAttention(2, 3, dropout=0.1, name="heads")(x, value=x, use_causal_mask=True)
    x = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([x, y]))
    y = layers.Dense(8, activation="gelu")(x)
    y = layers.Dense(6)(y)
    x = layers.LayerNormalization(epsilon=1e-6)(x + y)
    z = layers.Attention(use_scale=True)([x, x])
    z = layers.Concatenate(axis=1)([x, z])
    return keras.Model(words, layers.Dense(2, name="head")(layers.GlobalMaxPooling1D()(z)))


def branches():
    """Branches, arithmetic of tensors and numbers, and names that are words of the language."""
    x = keras.Input((5,))
    a = layers.Dense(4, activation="relu", name="relu")(x)
    b = layers.Dense(4, activation="sigmoid", name="model")(x)
    c = layers.Dense(4, name="Dense")(x)
    y = layers.Concatenate()([a, b, c])
    y = layers.Dense(4, name="a-b.c")(y)
    y = layers.Multiply()([y, a]) - b * 0.5
    return keras.Model(x, layers.Subtract()([layers.Dense(4)(y / 2.0), c]), name="2 branches")


def shared():
    """Layers that are applied several times, with and without a name; a model among them."""
    left, right = keras.Input((4,), name="left"), keras.Input((4,), name="right")
    encoder = keras.Sequential([layers.Dense(5, activation="tanh"), layers.Dense(3, name="code")], name="encoder")
    dense = layers.Dense(3, activation="relu")
    a, b = dense(encoder(left)), dense(encoder(right))
    distance = layers.Dot(1, normalize=True)([a, b])
    return keras.Model([left, right], [distance, layers.Maximum()([a, b])])


def nested():
    """Models in models, functional and sequential; one with several outputs."""
    x = keras.Input((4,))
    h = layers.Dense(3, activation="relu")(x)
    parts = keras.Model(x, [h, layers.Dense(2)(h)], name="parts")
    inner = keras.Sequential([keras.Input((3,)), layers.Dense(3), keras.Sequential([layers.SpectralNormalization(layers.Dense(3)), layers.BatchNormalization()])])
    y = keras.Input((4,))
    first, second = parts(y)
    return keras.Model(y, layers.Concatenate()([inner(first), second]))


def two():
    """Two inputs and two outputs, with names; states of a recurrent layer as results and as an argument."""
    series, start = keras.Input((None, 3), name="series"), keras.Input((2,), name="start")
    all_, last, cell = layers.LSTM(4, return_sequences=True, return_state=True)(series)
    again = layers.GRU(2)(all_, initial_state=start)
    level = layers.Dense(1, name="level")(layers.Average()([last, cell]))
    kind = layers.Dense(3, activation="softmax", name="kind")(layers.Concatenate()([again, start]))
    return keras.Model([series, start], [level, kind], name="two")


def shapes():
    """Layers that change shapes, with sizes that are not known."""
    x = keras.Input((None, 4))
    y = layers.Conv1D(6, 3, dilation_rate=2, padding="causal", activation="swish")(x)
    y = layers.UpSampling1D(2)(layers.AveragePooling1D(2)(y))
    y = layers.Conv1DTranspose(3, 2, strides=2, padding="same")(layers.Cropping1D((1, 0))(y))
    y = layers.GroupNormalization(3)(y)
    z = layers.Reshape((2, 3))(layers.Dense(6)(layers.GlobalAveragePooling1D()(y)))
    z = layers.Flatten()(layers.Permute((2, 1))(z))
    return keras.Model(x, layers.RepeatVector(2)(layers.PReLU()(z)))


def masked():
    """Masks, which Keras writes as arguments of the layers that take them."""
    words = keras.Input((None,), dtype="int32", name="words")
    x = layers.Embedding(11, 4, mask_zero=True)(words)
    y = layers.Bidirectional(layers.GRU(3, return_sequences=True))(layers.Dropout(0.1)(x))
    lost = layers.LSTM(2)(x + layers.Dense(4)(x))
    return keras.Model(words, layers.Concatenate()([layers.LSTM(2)(y), lost, layers.GlobalAveragePooling1D()(x)]))


def masks_pass():
    """Masks that pass from layer to layer, of which the file says nothing."""
    series = keras.Input((4, 3))
    return keras.Sequential([series, layers.Masking(), layers.Dense(4), layers.Bidirectional(layers.GRU(2, return_sequences=True)), layers.GlobalAveragePooling1D()])


def operations():
    """Functions of keras.ops between layers."""
    ops = keras.ops
    x = keras.Input((4, 6))
    parts = [-x[:, 0] ** 2, x[:, -1] ** 3, x[:, 1:3, ::2][..., 0, :], ops.mean(x, axis=1), ops.max(x, axis=[1, 2], keepdims=True)[..., 0]]
    parts += [ops.reshape(x, (-1, 24)), ops.sum(ops.transpose(x, (0, 2, 1)), axis=-1), ops.min(ops.concatenate([x, x * 2], axis=1), axis=1)]
    parts += [ops.squeeze(ops.expand_dims(x, 1), 1)[:, 2, 1:-1], ops.expand_dims(x, -1)[:, 1, :, 0], ops.squeeze(ops.mean(x, -1, keepdims=True), -1)]
    parts += [ops.squeeze(ops.expand_dims(x, -2), -2)[:, -2:, 3], ops.softmax(x, axis=1)[:, 0], ops.gelu(x, approximate=False)[:, 1], ops.maximum(abs(x), 0.5)[:, 3]]
    y = layers.Concatenate()(parts)
    return keras.Model(x, [layers.Dense(3)(y), ops.sigmoid(layers.Dense(2)(ops.tanh(y)))])


def masked_attention():
    """Attention that is called with a list and options: masks, a causal mask, and its scores as another result."""
    query, value, seen = keras.Input((3, 4), name="query"), keras.Input((5, 4), name="value"), keras.Input((5,), dtype="bool", name="seen")
    first = layers.Attention()([query, value], mask=[None, seen])
    second, scores = layers.AdditiveAttention()([query, value, value], mask=[None, seen], return_attention_scores=True)
    third = layers.Attention(score_mode="concat")([first, second], use_causal_mask=True)
    fourth = layers.MultiHeadAttention(2, 3, name="heads")(third, value, value_mask=seen)
    return keras.Model([query, value, seen], [layers.Add()([third, fourth]), scores])


def masked_states():
    """Masks that Functional models make and pass on, and recurrent layers with a first state, to which they do not pass."""
    series, start = keras.Input((4, 3), name="series"), keras.Input((2,), name="start")
    x = layers.Masking()(series)
    y = layers.GRU(2, return_sequences=True)(x, initial_state=start)
    z = layers.LSTM(3)(y)
    seen = keras.ops.any(keras.ops.not_equal(series, 0.0), axis=-1)
    w = layers.SimpleRNN(2)(layers.Dense(3)(series), mask=seen)
    return keras.Model([series, start], layers.Concatenate()([z, w, layers.GlobalAveragePooling1D()(x)]))


def several():
    """An inner model with several inputs and outputs, which is applied twice, and one with names for them."""
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    inner = keras.Model([a, b], [layers.Dense(3)(layers.Concatenate()([a, b])), layers.Add()([a, a])], name="inner")
    named = keras.Model({"a": a, "b": b}, {"s": layers.Dense(2)(layers.Concatenate()([b, a])), "t": layers.Dense(1)(b)}, name="named")
    c, d = keras.Input((3,), name="c"), keras.Input((2,), name="d")
    first, second = inner([c, d])
    third, fourth = inner([first, d])
    results = named({"b": d, "a": second})
    return keras.Model([c, d], [layers.Concatenate()([third, fourth, results["s"]]), results["t"]])


def cells():
    """A stack of cells, some of one class."""
    stack = [layers.GRUCell(2), layers.LSTMCell(3), layers.GRUCell(2, reset_after=False), layers.SimpleRNNCell(2)]
    return keras.Sequential([keras.Input((4, 3)), layers.RNN(stack, return_sequences=True), layers.RNN(layers.LSTMCell(2)), layers.Dense(2)])


def booleans():
    """Numbers and layers of what is true or false, or an integer, whose types Keras converts."""
    ops = keras.ops
    x, k = keras.Input((4, 6)), keras.Input((4, 6), dtype="int32", name="whole")
    on = x > 0.25
    parts = [ops.mean(on, axis=1), (on / 2)[:, 0], ops.exp(on)[:, 1], ops.tanh(on)[:, 2], ops.sum(ops.concatenate([x, on], axis=1), axis=1)]
    parts += [ops.mean(k, axis=1), (k / 4)[:, 0], ops.sum(layers.Concatenate(axis=1)([k, x, on]), axis=1), (on * 3)[:, 1], (x * on)[:, 2]]
    parts += [layers.Dense(2)(on)[:, 0], layers.GlobalAveragePooling1D()(on), ops.mean(x >= 0.5, axis=2), ops.sum(x <= x[:, :1], axis=2)]
    number = ops.sum(on, axis=1)
    return keras.Model([x, k], [layers.Concatenate()(parts), number, ops.any(x > 2.0), ops.any(x * 0.25, axis=1, keepdims=True), ops.any(k, axis=[1, 2])])


def refused():
    x = keras.Input((4,))
    save("refused_lambda", keras.Model(x, layers.Lambda(lambda x: x * 2, name="twice")(x)))
    words = keras.Input((4,), dtype="int32")
    inner = keras.Sequential([layers.LSTM(2)], name="inner")
    save("refused_mask", keras.Sequential([words, layers.Embedding(11, 3, mask_zero=True, name="words"), inner]))
    y = layers.Embedding(11, 3, mask_zero=True, name="words")(words)
    save("refused_attention", keras.Model(words, layers.MultiHeadAttention(1, 2, name="heads")(y, y)))
    y = layers.LSTM(2, zero_output_for_mask=True)(layers.Embedding(11, 3, name="words")(words))
    z = layers.Embedding(11, 3, dtype="float64", name="wide")(words)
    custom = keras.saving.register_keras_serializable("own")(type("Dense", (layers.Dense,), {}))
    save("refused_custom", keras.Sequential([x, custom(2, name="twice")]))
    pool = keras.Sequential([keras.Input((4, 4, 1)), layers.MaxPooling2D(2, name="pool")])
    save("refused_text", pool, '"valid"', r'"valid\") |> Rescaling(9, name = \"x"')
    save("refused_options", keras.Model(words, [y, keras.ops.sin(layers.LSTM(2, dtype="float64")(z))]))


def refused_values():
    """Values and types that the library lacks: an axis, a long option, factors of a kernel, and a sum of what is true or false."""
    ops = keras.ops
    x = keras.Input((4, 1))
    save("refused_axis", keras.Model(x, ops.squeeze(x, 2)), '"axis": 2', '"axis": 9223372036854775807')
    long = '"units": 2, "long": [' + ", ".join(["1"] * 1000) + "]"
    save("refused_long", keras.Sequential([x, layers.TimeDistributed(layers.Dense(2), name="each")]), '"units": 2', long)
    save("refused_lora", keras.Sequential([x, layers.Dense(2, lora_rank=1, name="tuned")]))
    save("refused_types", keras.Model(x, [(x > 0) + (x > 1), layers.Add(name="both")([x > 0, x > 1])]))


def casts():
    """Casts, and axes that are given as a list or not at all."""
    ops = keras.ops
    x = keras.Input((4, 1, 6))
    whole, seen = ops.cast(x * 3, "int32"), ops.cast(ops.cast(x, "int32"), "bool")
    parts = [ops.squeeze(x), ops.cast(ops.squeeze(whole, (2,)), "float32"), ops.squeeze(ops.cast(seen, "float32"))]
    parts += [ops.expand_dims(x, (1, -1))[:, 0, :, 0, :, 0], ops.transpose(ops.transpose(x))[:, :, 0]]
    return keras.Model(x, layers.Dense(3)(layers.Concatenate()(parts)))


def deep():
    """More layers in a row than an expression has levels."""
    return keras.Sequential([keras.Input((3,)), layers.Dense(3)] + [layers.Rescaling(-1.0, 0.5) for _ in range(301)])


if __name__ == "__main__":
    keep("mlp", mlp(), floats(3, 6))
    keep("cnn", cnn(), (127 * floats(2, 12, 10, 3) + 128).astype(np.float32))
    keep("lstm", lstm(), tokens(2, 5))
    keep("attention", attention(), tokens(2, 7))
    keep("branches", branches(), floats(3, 5))
    keep("shared", shared(), floats(3, 4), floats(3, 4))
    keep("nested", nested(), floats(3, 4))
    keep("two", two(), floats(2, 5, 3), floats(2, 2))
    keep("shapes", shapes(), floats(2, 8, 4))
    keep("masked", masked(), np.array([[1, 2, 0, 0], [3, 4, 5, 0], [6, 0, 7, 8]], np.int32))
    series = floats(2, 4, 3)
    series[0, 2:], series[1, 0] = 0, 0
    keep("masks_pass", masks_pass(), series)
    refused()
    keep("operations", operations(), floats(3, 4, 6))
    seen = np.array([[1, 1, 1, 0, 0], [1, 0, 1, 1, 1]], bool)
    keep("masked_attention", masked_attention(), floats(2, 3, 4), floats(2, 5, 4), seen)
    keep("masked_states", masked_states(), series, floats(2, 2))
    keep("several", several(), floats(3, 3), floats(3, 2))
    keep("cells", cells(), floats(2, 4, 3))
    keep("booleans", booleans(), floats(3, 4, 6), rng.integers(-2, 3, (3, 4, 6)).astype(np.int32))
    refused_values()
    keep("casts", casts(), 3 * floats(3, 4, 1, 6))
    keep("deep", deep(), floats(2, 3))
