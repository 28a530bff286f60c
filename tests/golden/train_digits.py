"""Trains the weights of examples/mnist_digits.tile on MNIST's test images, with NumPy only, and makes their golden values.

    python3 tests/golden/train_digits.py FOLDER    # of t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz

The first 9,000 images train, the last 1,000 measure, and every 27th of those is kept with the weights in
examples/digits/.
"""

import gzip
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
DIGITS = HERE.parent.parent / "examples" / "digits"


def forward(image, kernel, weights):
    """Everything that the gradient needs: windows, filtered images, pooling windows, pooled values, probabilities."""
    windows = np.lib.stride_tricks.sliding_window_view(image / image.dtype.type(255), (5, 5), axis=(1, 2))
    filtered = np.einsum("nyxji,jic->nyxc", windows, kernel, optimize=True)
    active = np.maximum(filtered, 0)
    pools = active.reshape(-1, 8, 3, 8, 3, 8)
    pooled = pools.max(axis=(2, 4))
    logits = np.tensordot(pooled, weights, 3)
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return windows, filtered, pools, pooled, e / e.sum(axis=1, keepdims=True)


def gradients(image, label, kernel, weights):
    windows, filtered, pools, pooled, probability = forward(image, kernel, weights)
    error = (probability - np.eye(10, dtype=np.float32)[label]) / len(image)
    to_pooled = np.tensordot(error, weights, ([1], [3]))
    to_active = (pools == pooled[:, :, None, :, None]) * to_pooled[:, :, None, :, None]
    to_filtered = to_active.reshape(filtered.shape) * (filtered > 0)
    to_kernel = np.einsum("nyxji,nyxc->jic", windows, to_filtered, optimize=True)
    return to_kernel, np.tensordot(pooled, error, ([0], [0]))


def main(folder):
    def read(name, skip):
        return np.frombuffer(gzip.open(folder / name).read(), np.uint8, offset=skip)

    images = read("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    labels = read("t10k-labels-idx1-ubyte.gz", 8)
    random = np.random.default_rng(1)
    parameters = [
        (random.standard_normal((5, 5, 8)) * 0.2).astype(np.float32),
        (random.standard_normal((8, 8, 8, 10)) * 0.05).astype(np.float32),
    ]
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    steps = 0
    for epoch in range(8):
        order = random.permutation(9000)
        for start in range(0, 9000, 100):
            batch = order[start : start + 100]
            steps += 1
            found = gradients(images[batch].astype(np.float32), labels[batch], *parameters)
            for p, g, (m, v) in zip(parameters, found, moments):  # Adam
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                p -= 0.002 * (m / (1 - 0.9**steps)) / (np.sqrt(v / (1 - 0.999**steps)) + 1e-8)
        right = (forward(images[9000:].astype(np.float32), *parameters)[-1].argmax(axis=1) == labels[9000:]).mean()
        print(f"epoch {epoch + 1}: {right:.1%} of the last 1,000")

    DIGITS.mkdir(exist_ok=True)
    kept = slice(9000, 9972, 27)
    np.save(DIGITS / "Image.npy", images[kept])
    np.save(DIGITS / "labels.npy", labels[kept])
    np.save(DIGITS / "Kernel.npy", parameters[0])
    np.save(DIGITS / "Weights.npy", parameters[1])
    expected = HERE / "mnist_digits" / "expected"
    expected.mkdir(parents=True, exist_ok=True)
    wide = [p.astype(np.float64) for p in parameters]
    np.save(expected / "Probability.npy", forward(images[kept].astype(np.float64), *wide)[-1].astype(np.float32))


main(pathlib.Path(sys.argv[1]))
