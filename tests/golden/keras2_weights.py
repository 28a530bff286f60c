"""Makes files of weights in the form of Keras 2 that tests/keras_weights.rs loads, and what the networks give, in `keras_weights`.

    pip install keras scipy jax h5py numpy && KERAS_BACKEND=numpy python3 tests/golden/keras2_weights.py

The networks are those of Keras 3, which gives the values; `write` writes the form, as `save_weights_to_hdf5_group` of Keras 2
does. keras2_saved.h5 is what `save` of Keras 3 writes in that form.
"""

import json
import pathlib

import h5py
import keras
import numpy as np
from keras import layers

FOLDER = pathlib.Path(__file__).parent / "keras_weights"
rng = np.random.default_rng(2)


def floats(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def write(group, model):
    group.attrs["layer_names"] = [layer.name.encode() for layer in model.layers]
    group.attrs["keras_version"] = b"2.15.0"
    for layer in model.layers:
        inner = group.create_group(layer.name)
        names = []
        for weight in layer.trainable_weights + layer.non_trainable_weights:
            parts = weight.path.split("/")
            # A layer in a model within has no name of that model around its own.
            start = parts.index(layer.name) if layer.name in parts else len(parts) - 2
            name = "/".join(parts[start:]) + ":0"
            names.append(name.encode())
            inner[name] = np.asarray(weight)
        if len(names) > 3:  # As where they do not fit into one attribute.
            inner.attrs["weight_names0"], inner.attrs["weight_names1"] = names[:3], names[3:]
        else:
            inner.attrs["weight_names"] = names


def keep(name, model, x, whole=None):
    for variable in model.variables:
        if "float" in variable.dtype:
            low, high = (0.5, 1.5) if "variance" in variable.path or "gamma" in variable.path else (-0.5, 0.5)
            variable.assign(rng.uniform(low, high, variable.shape))
    np.savez(FOLDER / f"{name}.npz", x=x, y=np.asarray(model(x, training=False)))
    if whole == "keras 3":
        return model.save(FOLDER / f"{name}.h5")
    with h5py.File(FOLDER / f"{name}.h5", "w") as file:
        if whole is None:
            return write(file, model)
        config = [{"class_name": type(layer).__name__, "config": {"name": layer.name}} for layer in model.layers]
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": {"layers": config}})
        write(file.create_group("model_weights"), model)
        file["optimizer_weights/Adam/m/kernel:0"] = floats(3, 2)


def sequential():
    """Layers of the same shapes, whose numbers start anywhere, as they do in a process that made others before."""
    for _ in range(7):
        layers.Dense(1)
    hidden = [layers.Dense(6, activation="tanh") for _ in range(11)]
    return keras.Sequential([keras.Input((6,)), *hidden, layers.Dropout(0.1), layers.Dense(2)])


def cnn(names):
    """Layers of the same shapes with names that the program does not have; one is not trained."""
    image = keras.Input((9, 8, 3))
    x = layers.Conv2D(4, 3, padding="same", name=names[0])(image)
    x = layers.BatchNormalization(name=names[1])(x)
    x = layers.ReLU()(x)
    x = layers.Conv2D(4, 3, padding="same", name=names[2])(x)
    y = layers.Conv2D(4, 3, padding="same", name=names[3], trainable=False)(x)
    y = layers.BatchNormalization(name=names[4], trainable=False)(y)
    y = layers.Flatten()(layers.Add()([x, y]))
    return keras.Model(image, layers.Dense(3, name=names[5])(y))


def recurrent():
    x = keras.Input((5, 4))
    y = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    y = layers.GRU(4, return_sequences=True)(y)
    y = layers.TimeDistributed(layers.Dense(5))(y)
    return keras.Model(x, layers.Dense(2)(layers.LSTM(4)(y)))


def nested():
    inner = lambda name: keras.Sequential([keras.Input((5,)), layers.Dense(5, activation="tanh"), layers.Dense(5)], name=name)
    x = keras.Input((5,))
    return keras.Model(x, layers.Dense(2)(inner("second")(inner("first")(x))))


keep("keras2_sequential", sequential(), floats(2, 6))
names = ["stem", "stem_bn", "block_a", "block_b", "block_bn", "top"]
keep("keras2_names", cnn(names), floats(2, 9, 8, 3))
keep("keras2_whole", cnn(names), floats(2, 9, 8, 3), "keras 2")
keep("keras2_saved", cnn([None] * 6), floats(2, 9, 8, 3), "keras 3")
keep("keras2_recurrent", recurrent(), floats(2, 5, 4), "keras 2")
keep("keras2_nested", nested(), floats(2, 5))
