#!/usr/bin/env python3
"""Trains a model with two outputs in PyTorch for an epoch of two steps, 3 and 2 samples, and writes outputs.json beside this file:
the samples, the first and the last weights, and the means of the loss, of each output's loss and of the metrics over the epoch.

Needs PyTorch. The values are in f64; the factors of the losses are 1 and 0.5.
"""

import json
import os

import torch

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
SAMPLES, BATCH, RATE = 5, 3, 0.1


def on_grid(*shape):
    """Numbers that f32 has exactly."""
    return torch.randint(-64, 65, shape).double() / 64


X, AGE, KIND = on_grid(SAMPLES, 4), on_grid(SAMPLES, 2), torch.randint(0, 3, (SAMPLES,))
weights = {"shared.Kernel": on_grid(4, 6), "shared.Bias": on_grid(6), "age.Kernel": on_grid(6, 2), "age.Bias": on_grid(2),
           "kind.Kernel": on_grid(6, 3), "kind.Bias": on_grid(3)}
first = {name: value.tolist() for name, value in weights.items()}
for value in weights.values():
    value.requires_grad_()

totals = dict.fromkeys(["loss", "Age_loss", "Kind_loss", "Age_mean_absolute_error", "Kind_accuracy"], 0.0)
for start in range(0, SAMPLES, BATCH):
    x, age, kind = (values[start:start + BATCH] for values in (X, AGE, KIND))
    hidden = torch.tanh(x @ weights["shared.Kernel"] + weights["shared.Bias"])
    predicted = hidden @ weights["age.Kernel"] + weights["age.Bias"]
    logits = hidden @ weights["kind.Kernel"] + weights["kind.Bias"]
    of_age = torch.nn.functional.mse_loss(predicted, age)
    of_kind = torch.nn.functional.cross_entropy(logits, kind)
    gradients = torch.autograd.grad(of_age + 0.5 * of_kind, list(weights.values()))
    results = {
        "loss": of_age + 0.5 * of_kind,
        "Age_loss": of_age,
        "Kind_loss": of_kind,
        "Age_mean_absolute_error": (predicted - age).abs().mean(),
        "Kind_accuracy": (logits.argmax(1) == kind).double().mean(),
    }
    for name, value in results.items():
        totals[name] += value.item() * len(x)
    with torch.no_grad():
        for value, gradient in zip(weights.values(), gradients):
            value -= RATE * gradient

golden = {
    "samples": {"X": X.tolist(), "Age": AGE.tolist(), "Kind": KIND.tolist()},
    "first": first,
    "last": {name: value.tolist() for name, value in weights.items()},
    "results": {name: total / SAMPLES for name, total in totals.items()},
}
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "outputs.json"), "w") as file:
    json.dump(golden, file, indent=1)
    file.write("\n")
