#!/usr/bin/env python3
"""How tilec's cpu device would scale to more threads than this machine has, by simulation.

    cargo build --release && cargo build --release --features simulate --target-dir target/simulate
    python3 benches/scaling.py [--threads 2 4 8 16 32] [--only TEXT…]

A program built with `simulate` runs the tasks of every step on one thread, in the order in which TILE_THREADS
threads would take them, and counts the time of the busiest thread and a microsecond to meet, instead of the sum. The
figures show how evenly the work is divided, and how much of it is not divided at all. The last cache, memory's
bandwidth and a clock that falls when all threads are busy are not simulated. Columns are speeds in multiples of one
thread's. The last one is the program without simulation on two threads, measured in turn: the simulation of two threads
should say the same.
"""

import argparse
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "examples/models"

# The arguments of `tilec bench`.
CASES = {
    "ResNet50": ["resnet50"],
    "MobileNet": ["mobilenet"],
    "VGG19": ["vgg19"],
    "encoder": ["transformer-encoder"],
    "matrix product": ["matmul"],
    "gelu and layer norm": ["layernorm"],
    "softmax": ["softmax"],
    "softmax of 32 x 64": ["softmax", "--dim", "N=32", "--dim", "C=64"],
    "MNIST's dense network": ["mnist-mlp"],
    "MNIST's convolutions": ["mnist-cnn"],
}


def times(program, arguments, threads):
    """The medians of the workload's parts, in milliseconds."""
    command = [str(program), "bench", *arguments, "--device", "cpu", "--json"]
    environment = {**os.environ, "TILE_THREADS": str(threads)}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    lines = map(json.loads, output.splitlines())
    return {line["variant"]: line["median_s"] * 1e3 for line in lines if "median_s" in line}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", default=ROOT / "target/release/tilec")
    parser.add_argument("--simulated", default=ROOT / "target/simulate/release/tilec")
    parser.add_argument("--threads", type=int, nargs="+", default=[2, 4, 8, 16, 32])
    parser.add_argument("--only", nargs="+", default=[""])
    options = parser.parse_args()
    counts = options.threads
    print("| | 1 | " + " | ".join(f"{count}" for count in counts) + " | 2, not simulated |")
    print("|---|" + "--:|" * (len(counts) + 2))
    for name, arguments in CASES.items():
        if not any(text in name for text in options.only):
            continue
        alone, *together = (times(options.simulated, arguments, count) for count in [1, *counts])
        real = times(options.tilec, arguments, 2)
        for variant, one in alone.items():
            speeds = [f"{one / more[variant]:.1f}" for more in [*together, real]]
            label = f"{name}, {variant.split(', ')[-1]}" if len(alone) > 1 else name
            print(f"| {label} | {one:.3g} ms | " + " | ".join(speeds) + " |", flush=True)


if __name__ == "__main__":
    main()
