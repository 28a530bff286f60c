"""Numbers made from a hash wherever they are needed, for arrays that are too large to keep. tests/common/golden.rs makes the same.

Element i of an array is LOW + (HIGH - LOW) * u, in float64, rounded to f32 (down to an integer, for an i32), where

    u = (mix(fnv(NAME) + (i + 1) * 0x9e3779b97f4a7c15) >> 40) / 2^24

with all integers modulo 2^64, fnv the 64-bit FNV-1a hash of the name's bytes, and mix the finalizer of SplitMix64.
"""

import math

import numpy as np


def hashed(name, shape, low, high, dtype=np.float32):
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = np.uint64(seed) + np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = (z ^ (z >> np.uint64(31))) >> np.uint64(40)
    values = low + (high - low) * (z.astype(np.float64) / 2**24)
    return (np.floor(values) if dtype == np.int32 else values).astype(dtype).reshape(shape)


def limits(path, shape, depthwise=False):
    """From where to where a weight's elements are, so that signals neither grow nor fade much."""
    name = path.split(".")[-1]
    if name == "Embeddings":
        return -1.0, 1.0
    if name == "RecurrentKernel":
        return -0.2, 0.2
    if name.endswith("Kernel"):
        fan_in = math.prod(shape[:2] if depthwise else shape[:-1])
        # Smaller before a softmax, lest one class has everything.
        limit = float(f"{math.sqrt((0.5 if path.startswith('predictions.') else 6) / fan_in):.4g}")
        return -limit, limit
    if path.endswith("_3_bn.Gamma"):  # the last of a residual branch, of which sixteen add up
        return 0.1, 0.4
    if name in ("Gamma", "MovingVariance"):
        return 0.5, 1.5
    return -0.2, 0.2


def line(kind, name, shape, low, high, dtype="f32"):
    return f"{kind} {name} {dtype}[{', '.join(map(str, shape))}] {low} {high}"
