#!/usr/bin/env python3
"""PyTorch on the workloads of `tilec bench all`, for the machine with the GPU.

    tilec bench all --device wgpu --json > tilec.json
    python3 benches/gpu.py > torch.json                  # eager
    python3 benches/gpu.py --compile > compiled.json     # torch.compile, max-autotune: what CUDA graphs and Triton give
    python3 benches/gpu.py --table tilec.json torch.json compiled.json

A line of JSON for each workload, with the keys that `tilec bench` has: "workload", "device", "variant", "median_s", "min_s", "reps". Networks
are those of examples/models, with random weights. f32 throughout: a matrix product is not rounded to TF32, but with --tf32. As in tilec, a
repetition is as many runs as take ten milliseconds, started without waiting for each other, and counts by their mean.
--device cpu is there to try the script.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

REPETITION = 1e-2
LARGE = (8192, 4096)


class Conv(nn.Sequential):
    """A convolution with Keras' padding `same` where strides are 1, batch normalization, and perhaps an activation."""

    def __init__(self, inputs, outputs, size, stride=1, padding=None, groups=1, bias=False, activation=None):
        padding = size // 2 if padding is None else padding
        layers = [nn.Conv2d(inputs, outputs, size, stride, padding, groups=groups, bias=bias), nn.BatchNorm2d(outputs, eps=1e-3)]
        super().__init__(*layers, *([activation()] if activation else []))


def mobilenet():
    layers, channels = [Conv(3, 32, 3, 2, activation=nn.ReLU6)], 32
    for outputs, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]:
        layers.append(Conv(channels, channels, 3, stride, groups=channels, activation=nn.ReLU6))
        layers.append(Conv(channels, outputs, 1, activation=nn.ReLU6))
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000), nn.Softmax(-1))


class Residual(nn.Module):
    def __init__(self, inputs, filters, stride, projects):
        super().__init__()
        self.shortcut = Conv(inputs, 4 * filters, 1, stride, bias=True) if projects else nn.Identity()
        self.block = nn.Sequential(
            Conv(inputs, filters, 1, stride, bias=True, activation=nn.ReLU),
            Conv(filters, filters, 3, bias=True, activation=nn.ReLU),
            Conv(filters, 4 * filters, 1, bias=True),
        )

    def forward(self, x):
        return F.relu(self.block(x) + self.shortcut(x))


def resnet50():
    layers, channels = [Conv(3, 64, 7, 2, bias=True, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for stage, (blocks, filters) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            layers.append(Residual(channels, filters, 2 if stage and block == 0 else 1, block == 0))
            channels = 4 * filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000), nn.Softmax(-1))


def transformer_encoder():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    return nn.TransformerEncoder(layer, 6)


def gelu_layer_norm(x, a, b, g, h):
    return F.layer_norm(F.gelu(x * a + b), (LARGE[1],), g, h, 1e-5)


# What makes the function or network, the shapes of its inputs, and the variant that tilec names.
ROWS = "N=8192, C=4096"
WORKLOADS = {
    "matmul": (lambda: torch.matmul, [(4096, 4096)] * 2, "M=K=N=4096"),
    "scale": (lambda: lambda x: 2.0 * x, [LARGE], ROWS),
    "elementwise": (lambda: lambda x, a, b: F.gelu(x * a + b), [LARGE, LARGE[1:], LARGE[1:]], ROWS),
    "softmax": (lambda: lambda x: torch.softmax(x, -1), [LARGE], ROWS),
    "layernorm": (lambda: gelu_layer_norm, [LARGE] + [LARGE[1:]] * 4, ROWS),
    "mobilenet": (mobilenet, [(1, 3, 224, 224)], "N=1, H=W=224"),
    "resnet50": (resnet50, [(1, 3, 224, 224)], "N=1, H=W=224"),
    "transformer-encoder": (transformer_encoder, [(1, 1024, 512)], "N=1, T=1024"),
}


def measure(workload, arguments):
    device = torch.device(arguments.device)
    make, shapes, variant = WORKLOADS[workload]
    torch.manual_seed(1)
    function = make()
    if isinstance(function, nn.Module):
        function = function.eval().to(device)
    if arguments.compile:
        function = torch.compile(function, mode="max-autotune")
    inputs = [torch.rand(shape, device=device) for shape in shapes]
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None

    def repeat(runs):
        start = time.perf_counter()
        with torch.inference_mode():
            for _ in range(runs):
                function(*inputs)
        wait()
        return (time.perf_counter() - start) / runs

    start, last = time.perf_counter(), 0
    for _ in range(3):
        last = repeat(1)
    while time.perf_counter() - start < arguments.seconds / 4:
        last = repeat(1)
    runs, times, start = max(1, round(REPETITION / last)), [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < arguments.seconds:
        times.append(repeat(runs))
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    kind = f"torch {torch.__version__}" + (", compiled" if arguments.compile else "") + (", TF32" if arguments.tf32 else "")
    row = {"workload": workload, "device": f"{name}, {kind}", "variant": variant}
    return row | {"median_s": statistics.median(times), "min_s": min(times), "reps": len(times)}


def table(paths):
    """Medians in milliseconds, a column for each file, and how many times as long the first took as each other."""
    files = [{(row["workload"], row["variant"]): row["median_s"] for row in map(json.loads, open(path))} for path in paths]
    print(f"{'workload':<20} {'variant':<16}" + "".join(f" {path:>22}" for path in paths))
    for key, first in files[0].items():
        line = f"{key[0]:<20} {key[1]:<16} {first * 1e3:>22.3f}"
        for other in (file.get(key) for file in files[1:]):
            line += f" {other * 1e3:>13.3f} ({first / other:>5.2f})" if other else f" {'-':>22}"
        print(line)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("workload", nargs="*", help=", ".join(WORKLOADS))
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--compile", action="store_true")
    arguments.add_argument("--tf32", action="store_true")
    arguments.add_argument("--seconds", type=float, default=2, help="for each workload")
    arguments.add_argument("--table", action="store_true", help="the workloads are files of JSON lines, to be compared")
    given = arguments.parse_args()
    if given.table:
        return table(given.workload)
    unknown = [workload for workload in given.workload if workload not in WORKLOADS]
    if unknown:
        arguments.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = given.tf32
    for workload in given.workload or WORKLOADS:
        print(json.dumps(measure(workload, given)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
