#!/usr/bin/env python3
"""Resident memory while training with validation, which must not grow with the epochs.

    tests/soak/memory.py [--tilec PATH] [--device cpu] [--data FOLDER] [--epochs 200 2000]

Trains an MLP and compares the resident memory after two numbers of epochs. Without `--data` (a
folder with MNIST's files) it trains on 320 random pictures. The results of each epoch are kept, so
that the second number may exceed the first by 2%, or by 512 bytes an epoch if that is more. Exits
with 1 if it exceeds it by more. Linux only.
"""

import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = """
model M(X[N, 28, 28]) -> (Y) {
    Y = X / 255 |> Flatten() |> Dense(128, activation = relu) |> Dropout(0.2) |> Dense(10);
}
train M { loss = sparse_categorical_crossentropy(from_logits = true); optimizer = Adam(); batch_size = 32; }
"""
SAMPLES = 320
BYTES_PER_EPOCH = 512


def write_idx(path, shape, values):
    """Writes bytes in the format of MNIST's files."""
    with open(path, "wb") as file:
        file.write(bytes([0, 0, 8, len(shape)]) + b"".join(struct.pack(">I", size) for size in shape) + values)


def random_data(folder):
    numbers = random.Random(1)
    write_idx(os.path.join(folder, "train-images-idx3-ubyte"), (SAMPLES, 28, 28), numbers.randbytes(SAMPLES * 784))
    labels = bytes(numbers.randrange(10) for _ in range(SAMPLES))
    write_idx(os.path.join(folder, "train-labels-idx1-ubyte"), (SAMPLES,), labels)


def resident(process):
    """Returns the resident memory of a process in bytes."""
    with open(f"/proc/{process.pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))


def epochs_done(log):
    if not os.path.exists(log):
        return 0
    with open(log, "rb") as file:
        return file.read().count(b"\n")


def measure(arguments, base):
    program, log = os.path.join(base, "m.tile"), os.path.join(base, "log.jsonl")
    with open(program, "w") as file:
        file.write(PROGRAM)
    data = arguments.data
    if data is None:
        data = os.path.join(base, "data")
        os.mkdir(data)
        random_data(data)
    # Some epochs more than are measured, so that the process is still there.
    line = [arguments.tilec, "train", program, "--data", data, "--validation", "0.1", "-q", "--log", log]
    line += ["--device", arguments.device, "--epochs", str(arguments.epochs[-1] + 50)]
    found = []
    with subprocess.Popen(line) as process:
        for epochs in arguments.epochs:
            while epochs_done(log) < epochs:
                if process.poll() is not None:
                    sys.exit(f"training ended after {epochs_done(log)} epochs with exit code {process.returncode}")
                time.sleep(0.05)
            found.append(resident(process))
        process.kill()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", default="target/release/tilec")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=int, nargs=2, default=[200, 2000])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilec-soak-") as base:
        first, last = measure(arguments, base)
    growth, epochs = last - first, arguments.epochs[1] - arguments.epochs[0]
    print(f"{arguments.device}: {first / 1e6:.1f} MB after {arguments.epochs[0]} epochs, {last / 1e6:.1f} MB after "
          f"{arguments.epochs[1]}: {growth / first:+.1%}, {growth / epochs:.0f} bytes an epoch")
    sys.exit(growth > max(0.02 * first, BYTES_PER_EPOCH * epochs))


main()
