"""A small generative adversarial network, whose two models PyTorch trains in turn: see
tests/trained_weights/in_turn.rs.

    python in_turn.py        # torch

Writes in_turn.txt: a line for each tensor, `CASE NAME value …`. `dense` has two dense parts, with noise as data. In
`normalized`, the generator ends in a batch normalization, the discriminator makes two steps on each batch, and its
optimizer has a momentum. An `epsilon` of Adam that is not tiny has another place in Keras.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import softplus

lines = []


def numbers(*shape):
    """The same numbers as in the test, from -1 to 1."""
    n = np.arange(np.prod(shape, dtype=int))
    values = ((n * 7919 + 13) % 101 / np.float32(50) - np.float32(1)).astype(np.float32)
    return torch.tensor(values.reshape(shape))


def linear(inputs, outputs, bias=True):
    layer = nn.Linear(inputs, outputs, bias)
    layer.weight.data = numbers(inputs, outputs).T.contiguous()
    if bias:
        layer.bias.data.zero_()
    return layer


def keep(case, **tensors):
    for name, tensor in tensors.items():
        values = tensor.detach().numpy().ravel()
        lines.append(" ".join([case, name] + [repr(float(value)) for value in values]))


def train(case, normalized):
    hidden, drawn = linear(2, 4), linear(4, 3, bias=False)
    norm = nn.BatchNorm1d(3, eps=1e-3, momentum=0.01)
    judge, verdict = linear(3, 4), linear(4, 1)
    generator = nn.Sequential(hidden, nn.Tanh(), drawn, *([norm] if normalized else []))
    discriminator = nn.Sequential(judge, nn.Tanh(), verdict)
    of_generator = torch.optim.Adam(generator.parameters(), 0.01, betas=(0.5, 0.999), eps=1e-12)
    if normalized:
        of_discriminator = torch.optim.SGD(discriminator.parameters(), 0.1, momentum=0.5)
    else:
        of_discriminator = torch.optim.Adam(discriminator.parameters(), 0.02, betas=(0.5, 0.999), eps=1e-12)
    images, noise = numbers(12, 3), numbers(12, 2)
    sums = [0.0, 0.0]
    for step in range(3):
        real, z = images[4 * step : 4 * step + 4], noise[4 * step : 4 * step + 4]
        for _ in range(2 if normalized else 1):
            of_discriminator.zero_grad()
            loss = softplus(-discriminator(real)).mean() + softplus(discriminator(generator(z).detach())).mean()
            loss.backward()
            of_discriminator.step()
            sums[0] += loss.item()
        of_generator.zero_grad()
        loss = softplus(-discriminator(generator(z))).mean()
        loss.backward()
        of_generator.step()
        sums[1] += loss.item()
    keep(
        case,
        hidden=hidden.weight.T,
        hidden_bias=hidden.bias,
        drawn=drawn.weight.T,
        judge=judge.weight.T,
        judge_bias=judge.bias,
        verdict=verdict.weight.T,
        losses=torch.tensor([sums[0] / (6 if normalized else 3), sums[1] / 3]),
    )
    if normalized:
        # PyTorch's moving variance is that of a sample, and Keras' that of the batch.
        keep(case, gamma=norm.weight, beta=norm.bias, mean=norm.running_mean)


train("dense", False)
train("normalized", True)
Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
