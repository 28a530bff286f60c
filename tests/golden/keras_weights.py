"""Makes the files of weights that tests/keras_weights.rs loads, by Keras, and what the networks give, in the folder `keras_weights` beside this file.

    pip install keras torch h5py numpy && KERAS_BACKEND=torch python3 tests/golden/keras_weights.py

Of NAME: NAME.weights.h5, by `save_weights`; NAME.npz with the input `x` and Keras' output `y` for it. The weights are random, those of normalizations, too;
where a name is given to a layer here, it is the one that it has there. keras2_weights.py makes files of the form that came before.
"""

import pathlib

import keras
import numpy as np
from keras import layers

FOLDER = pathlib.Path(__file__).parent / "keras_weights"
FOLDER.mkdir(exist_ok=True)
rng = np.random.default_rng(1)


def keep(name, model, x):
    y = model(x)
    for variable in model.variables:
        if "float" in variable.dtype:
            low, high = (0.5, 1.5) if "variance" in variable.path or "gamma" in variable.path else (-0.5, 0.5)
            variable.assign(rng.uniform(low, high, variable.shape))
    y = keras.ops.convert_to_numpy(keras.ops.cast(model(x, training=False), "float32"))
    model.save_weights(FOLDER / f"{name}.weights.h5")
    np.savez(FOLDER / f"{name}.npz", x=x, y=y)


def floats(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def sequential():
    """Trained for a step, so that the file has an optimizer's state; layers of the same shapes in a row, and one without weights."""
    model = keras.Sequential([keras.Input((6,)), *[layers.Dense(6, activation="tanh") for _ in range(12)], layers.Dropout(0.1), layers.Dense(2)])
    model.compile("adam", "mse", metrics=["mae"])
    model.fit(floats(4, 6), floats(4, 2), verbose=0)
    return model


def cnn():
    """Functional, with names, layers that have none, and a shortcut."""
    image = keras.Input((9, 8, 3))
    x = layers.Conv2D(4, 3, padding="same", name="first")(image)
    x = layers.BatchNormalization()(x)
    y = layers.ReLU()(x)
    y = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    y = layers.Conv2D(4, 1, name="pointwise")(y)
    x = layers.Add()([x, y])
    x = layers.SeparableConv2D(5, 3)(x)
    return keras.Model(image, layers.Dense(3)(layers.Flatten()(x)))


def branches():
    """Layers of the same shape, made in another order than that of use: their names alone say which is which."""
    last, first = layers.Dense(4, name="last"), layers.Dense(4, name="first")
    x = keras.Input((4,))
    return keras.Model(x, last(layers.ReLU()(first(x))))


def unnamed():
    """The same without names, as nobody could tell."""
    last, first = layers.Dense(4), layers.Dense(4)
    x = keras.Input((4,))
    return keras.Model(x, last(layers.ReLU()(first(x))))


def recurrent():
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(11, 4)(tokens)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True))(x)
    x = layers.GRU(4, return_sequences=True)(x)
    x = layers.LSTM(4, return_sequences=True)(x)
    x = layers.TimeDistributed(layers.Dense(5))(x)
    return keras.Model(tokens, layers.Dense(3)(layers.SimpleRNN(4)(x)))


class Block(layers.Layer):
    """Layers in attributes, in a list, and in a model."""

    def __init__(self):
        super().__init__()
        self.attention = layers.MultiHeadAttention(2, 3, dropout=0.1)
        self.norms = [layers.LayerNormalization() for _ in range(2)]
        self.network = keras.Sequential([layers.Dense(7, activation="relu"), layers.Dense(6)])

    def call(self, x):
        x = self.norms[0](x + self.attention(x, x))
        return self.norms[1](x + self.network(x))


class Transformer(keras.Model):
    def __init__(self):
        super().__init__()
        self.tokens = layers.Embedding(11, 6)
        self.blocks = [Block() for _ in range(3)]
        self.head = layers.Dense(2)

    def call(self, x):
        x = self.tokens(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def nested():
    """Models in a model, of the same layers."""
    inner = lambda name: keras.Sequential([keras.Input((5,)), layers.Dense(5, activation="tanh"), layers.Dense(5)], name=name)
    x = keras.Input((5,))
    y = inner("second")(inner("first")(x))
    return keras.Model(x, layers.Dense(2)(layers.Dense(5)(y)))


def classes():
    """Two classes of layers with weights of the same shapes."""
    norm = layers.BatchNormalization(scale=False, center=False)
    ends = [layers.Dense(4, use_bias=False) for _ in range(2)]
    return keras.Sequential([keras.Input((4,)), ends[0], layers.LayerNormalization(), norm, ends[1]])


keep("sequential", sequential(), floats(2, 6))
keep("cnn", cnn(), floats(2, 9, 8, 3))
keep("branches", branches(), floats(2, 4))
keep("unnamed", unnamed(), floats(2, 4))
keep("recurrent", recurrent(), rng.integers(0, 11, (2, 6)).astype(np.int32))
keep("transformer", Transformer(), rng.integers(0, 11, (2, 6)).astype(np.int32))
keep("nested", nested(), floats(2, 5))
keep("classes", classes(), floats(2, 4))
for dtype in ["float16", "bfloat16", "float64"]:
    keras.config.set_dtype_policy(keras.DTypePolicy(dtype))
    keep(dtype, keras.Sequential([keras.Input((3,)), layers.Dense(2)]), floats(2, 3))
