"""Trains the networks of examples/models/mnist_mlp.tile and mnist_cnn.tile with Keras, and writes how many digits they then know.

    pip install numpy torch keras && python3 tests/golden/training/mnist_accuracy.py FOLDER [mlp] [cnn]

FOLDER holds t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz: the first 9,000 digits train, the last 1,000 validate. The validation
accuracies after the last epoch, one for each of the seeds 0, 1 and 2, are in mnist_accuracy.json beside this file; tests/mnist.rs holds
tilec to them.
"""

import gzip
import json
import os
import pathlib
import sys

os.environ["KERAS_BACKEND"] = "torch"

import keras
import numpy as np

layers = keras.layers
FILE = pathlib.Path(__file__).parent / "mnist_accuracy.json"


def mlp():
    return [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dropout(0.2), layers.Dense(10)]


def cnn():
    def convolution(filters):
        return layers.Conv2D(
            filters,
            5,
            padding="same",
            activation="relu",
            kernel_initializer="he_normal",
            kernel_regularizer=keras.regularizers.L2(L2),
        )

    return [layers.Reshape((28, 28, 1)), convolution(32), convolution(64), layers.Flatten(), layers.Dense(10)]


L2 = 0.0001
# Layers, learning rate, samples in a batch, epochs.
WARM_UP = keras.optimizers.schedules.PolynomialDecay(0.001, 100, 0.01)
NETWORKS = {"mlp": (mlp, 0.001, 32, 10), "cnn": (cnn, WARM_UP, 128, 3)}


def train(name, images, labels, seed):
    keras.utils.set_random_seed(seed)
    make, rate, batch_size, epochs = NETWORKS[name]
    model = keras.Sequential([keras.Input((28, 28)), layers.Rescaling(1 / 255), *make()])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=keras.optimizers.Adam(rate), metrics=["accuracy"])
    history = model.fit(
        images, labels, batch_size=batch_size, epochs=epochs, validation_split=0.1, verbose=2 if "-v" in sys.argv else 0
    )
    return history.history["val_accuracy"][-1]


def main(folder, *names):
    def read(name, skip):
        return np.frombuffer(gzip.open(pathlib.Path(folder) / name).read(), np.uint8, offset=skip)

    images = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28).astype(np.float32)
    labels = read("t10k-labels-idx1-ubyte.gz", 8).astype(np.int32)
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or NETWORKS:
        found[name] = [round(train(name, images, labels, seed), 4) for seed in range(3)]
        FILE.write_text(json.dumps(found, indent=4) + "\n")
        print(name, found[name])


if __name__ == "__main__":
    main(*(word for word in sys.argv[1:] if word != "-v"))
