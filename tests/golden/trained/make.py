"""Weights after steps of training with constraints, parametrizations, losses with weights and adapted layers: see
tests/trained_weights.rs.

    KERAS_BACKEND=jax python make.py        # keras, jax and torch

Writes values.txt: a line for each tensor, `CASE NAME value …`.
"""

from pathlib import Path

import keras
import numpy as np
import torch
from torch import nn

lines = []


def numbers(*shape):
    """The same numbers as in the test, from -1 to 1."""
    n = np.arange(np.prod(shape, dtype=int))
    return ((n * 7919 + 13) % 101 / np.float32(50) - np.float32(1)).astype(np.float32).reshape(shape)


def keep(case, **tensors):
    for name, tensor in tensors.items():
        flat = np.asarray(tensor, np.float32).ravel()
        lines.append(" ".join([case, name] + [repr(float(value)) for value in flat]))


def constraints():
    made = {
        "max_norm": keras.constraints.MaxNorm(),
        "max_norm_small": keras.constraints.MaxNorm(0.5, axis=1),
        "non_neg": keras.constraints.NonNeg(),
        "unit_norm": keras.constraints.UnitNorm(),
        "min_max_norm": keras.constraints.MinMaxNorm(0.25, 0.75, rate=0.5),
        "min_max_norm_all": keras.constraints.MinMaxNorm(axis=[0, 1]),
    }
    for name, constraint in made.items():
        dense = keras.layers.Dense(3, kernel_constraint=constraint, bias_constraint="non_neg")
        model = keras.Sequential([keras.Input((4,)), dense])
        dense.set_weights([numbers(4, 3), np.zeros(3)])
        model.compile(keras.optimizers.SGD(0.5, momentum=0.5), "mse")
        model.fit(numbers(8, 4), numbers(8, 3), batch_size=8, epochs=3, shuffle=False, verbose=0)
        keep(name, kernel=dense.kernel, bias=dense.bias)
    # Axes of a convolution, and a weight that is frozen: its constraint does not apply.
    conv = keras.layers.Conv2D(2, 2, kernel_constraint=keras.constraints.MaxNorm(0.5, axis=[0, 1, 2]))
    head = keras.layers.Dense(3, kernel_constraint="unit_norm", trainable=False)
    model = keras.Sequential([keras.Input((3, 3, 2)), conv, keras.layers.Flatten(), head])
    conv.set_weights([numbers(2, 2, 2, 2), np.zeros(2)])
    head.set_weights([numbers(8, 3), np.zeros(3)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(numbers(8, 3, 3, 2), numbers(8, 3), batch_size=8, epochs=3, shuffle=False, verbose=0)
    keep("convolution", conv=conv.kernel, head=head.kernel)


def lora():
    dense = keras.layers.Dense(3)
    model = keras.Sequential([keras.Input((4,)), dense])
    dense.enable_lora(2, lora_alpha=3)
    kernel = numbers(4, 3)
    dense._kernel.assign(kernel)
    dense.lora_kernel_a.assign(numbers(4, 2))
    dense.lora_kernel_b.assign(numbers(2, 3))
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(numbers(8, 4), numbers(8, 3), batch_size=8, epochs=3, shuffle=False, verbose=0)
    keep("lora", kernel=dense._kernel, a=dense.lora_kernel_a, b=dense.lora_kernel_b, bias=dense.bias)


class Softplus(nn.Module):
    def forward(self, weight):
        return nn.functional.softplus(weight)


class Halves(nn.Module):
    """The weight rounded to 16 bits."""

    def forward(self, weight):
        return weight.half().float()


def parametrized():
    x, y = torch.tensor(numbers(8, 4)), torch.tensor(numbers(8, 3))
    for name, make in {"softplus": Softplus, "halves": Halves, "weight_norm": None}.items():
        linear = nn.Linear(4, 3)
        linear.weight.data = torch.tensor(numbers(4, 3)).T.contiguous()
        linear.bias.data.zero_()
        if make:
            nn.utils.parametrize.register_parametrization(linear, "weight", make())
        else:
            nn.utils.parametrizations.weight_norm(linear, dim=0)
            linear.parametrizations.weight.original0.data.fill_(1)
        optimizer = torch.optim.SGD(linear.parameters(), 0.5, momentum=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.mse_loss(linear(x), y).backward()
            optimizer.step()
        weight = linear.parametrizations.weight
        if make:
            keep(name, kernel=weight.original.detach().T, bias=linear.bias.detach())
        else:
            length, kernel = weight.original0.detach(), weight.original1.detach().T
            keep(name, length=length, kernel=kernel, bias=linear.bias.detach())


def losses():
    """A temperature with a penalty, and ArcFace's centres: cosines to them are what is classified."""
    x, y = torch.tensor(numbers(8, 4)), torch.arange(8) % 3
    linear = nn.Linear(4, 3)
    linear.weight.data = torch.tensor(numbers(4, 3)).T.contiguous()
    linear.bias.data.zero_()
    temperature = nn.Parameter(torch.tensor(1.0))
    optimizer = torch.optim.SGD([*linear.parameters(), temperature], 0.5, momentum=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(linear(x) * temperature, y) + 0.1 * temperature**2
        loss.backward()
        optimizer.step()
    keep("temperature", kernel=linear.weight.detach().T, temperature=temperature.detach(), loss=loss.detach())
    linear.weight.data = torch.tensor(numbers(4, 3)).T.contiguous()
    linear.bias.data.zero_()
    centres = nn.Parameter(torch.tensor(numbers(5, 3)))
    optimizer = torch.optim.SGD([*linear.parameters(), centres], 0.5)
    for _ in range(3):
        optimizer.zero_grad()
        cosines = nn.functional.normalize(linear(x)) @ nn.functional.normalize(centres).T
        target = nn.functional.one_hot(torch.arange(8) % 5, 5)
        nn.functional.cross_entropy(4 * (cosines - 0.25 * target), torch.arange(8) % 5).backward()
        optimizer.step()
    keep("centres", kernel=linear.weight.detach().T, centres=centres.detach())


def bins_of(layer, batches):
    """What `adapt` does with an array, or several: itself it needs TensorFlow."""
    layer.reset_state()
    for batch in batches:
        layer.update_state(batch)
    layer.finalize_state()


def adapted():
    for name, options in {"last": {}, "none": {"axis": None}, "two": {"axis": [1, 2]}, "first": {"axis": 1}}.items():
        layer = keras.layers.Normalization(**options)
        layer.adapt(3 * numbers(11, 2, 3) + 5)
        keep(f"normalization_{name}", mean=layer.adapt_mean, variance=layer.adapt_variance)
    for samples, bins, epsilon in [(33, 4, 0.01), (330, 3, 0.01), (330, 7, 0.1), (990, 49, 0.01), (5, 9, 0.01)]:
        layer = keras.layers.Discretization(num_bins=bins, epsilon=epsilon)
        bins_of(layer, [numbers(samples, 1) ** 2 + 0.01 * np.arange(samples).reshape(-1, 1)])
        keep(f"discretization_{samples}_{bins}", boundaries=layer.bin_boundaries)
    # In batches, as many samples as are taken at once.
    layer = keras.layers.Discretization(num_bins=5)
    data = (np.arange(40000) * 7919 % 20011).astype(np.float32).reshape(-1, 1)
    bins_of(layer, [data[:16384], data[16384:32768], data[32768:]])
    keep("discretization_batches", boundaries=layer.bin_boundaries)
    # The second sees what the first gives.
    first, second = keras.layers.Normalization(), keras.layers.Normalization(axis=None)
    data = 3 * numbers(11, 3) + 5
    first.adapt(data)
    relu = np.maximum(np.asarray(first(data)), 0)
    second.adapt(relu)
    keep("normalization_chain", mean=second.adapt_mean, variance=second.adapt_variance)


constraints()
lora()
parametrized()
losses()
adapted()
Path(__file__).with_name("values.txt").write_text("\n".join(lines) + "\n")
