#!/usr/bin/env python3
"""How long tilec takes on convolutional networks that ONNX Runtime quantized to 8 bits, and ONNX Runtime on the same files, in turn.

    pip install numpy onnx onnxruntime
    cargo build --release && python3 benches/quantized.py [--tilec target/release/tilec] [--rounds 5] [--keep FOLDER] [--only TEXT…]

The networks have random weights. `quantize_static` of ONNX Runtime quantizes them, calibrated on random images, in both of its formats, with activations of u8 or
s8 and a scale for each tensor or each channel of the weights. A round runs `tilec bench FILE.onnx --device cpu` and then ONNX Runtime, with as many threads as
there are cores. A line has the fastest runs in milliseconds and their ratio, and the greatest difference of the results before the last activation, in steps
of their quantization. `--keep` writes the files to a folder.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from compare import Net, resnet50

THREADS = os.cpu_count()


def mobilenet_v2():
    net = Net(1, 3, 224, 224)
    net.conv(32, 3, 2, bias=False, norm=True, activation="relu6")
    for expansion, filters, blocks, first in [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)
    ]:
        for block in range(blocks):
            strides, x, channels = first if block == 0 else 1, net.x, net.shape[1]
            if expansion > 1:
                net.conv(expansion * channels, 1, bias=False, norm=True, activation="relu6")
            net.conv(net.shape[1], 3, strides, groups=net.shape[1], bias=False, norm=True, activation="relu6")
            net.conv(filters, 1, bias=False, norm=True)
            if block:
                net.node("Add", x)
    net.conv(1280, 1, bias=False, norm=True, activation="relu6")
    net.global_mean()
    net.dense(1000)
    return net


class Images(CalibrationDataReader):
    def __init__(self, shape):
        random = numpy.random.default_rng(3)
        self.left = iter([{"x": random.uniform(-1, 1, shape).astype("float32")} for _ in range(4)])

    def get_next(self):
        return next(self.left, None)


def models(folder, only):
    """Quantizes the networks; yields names and files."""
    formats = {"QDQ": QuantFormat.QDQ, "QOperator": QuantFormat.QOperator}
    types = {"u8": QuantType.QUInt8, "s8": QuantType.QInt8}
    for network, make in {"resnet50": resnet50, "mobilenet-v2": mobilenet_v2}.items():
        names = [(f"{network} {form} {kind} {'channel' if per_channel else 'tensor'}", form, kind, per_channel)
                 for form in formats for kind in types for per_channel in (False, True)]
        names = [row for row in names if not only or any(text in row[0] for text in only)]
        if not names:
            continue
        net = make()
        floats = folder / f"{network}.onnx"
        onnx.save(net.model(), floats)
        quant_pre_process(floats, floats, skip_symbolic_shape=True)
        for name, form, kind, per_channel in names:
            file = folder / f"{name.replace(' ', '-')}.onnx"
            if not file.exists():
                quantize_static(floats, file, Images(net.input_shape), formats[form], per_channel=per_channel,
                                activation_type=types[kind], weight_type=QuantType.QInt8)
            yield name, file


def session_of(file):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def time_rival(file):
    """The least time of a run in seconds."""
    session = session_of(file)
    image = numpy.random.default_rng(2).uniform(-1, 1, session.get_inputs()[0].shape).astype("float32")
    times, until = [], time.perf_counter() + 2
    while time.perf_counter() < until:
        begun = time.perf_counter()
        session.run(None, {"x": image})
        times.append(time.perf_counter() - begun)
    return min(times)


def last_quantized(file):
    """Cuts the network after its last tensor of 8 bits, which becomes the only result."""
    model = onnx.load(file)
    graph = model.graph
    kinds = {"QuantizeLinear", "QLinearConv", "QLinearMatMul", "QGemm", "QLinearAdd"}
    # A softmax at the end amplifies no error, but hides many.
    last = [node for node in graph.node if node.op_type in kinds and not any(
        other.op_type == "Softmax" and node.input[0] in other.output for other in graph.node)][-1]
    zero = next(value for value in graph.initializer if value.name == last.input[{"QuantizeLinear": 2, "QGemm": 8}.get(last.op_type, 7)])
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(last.output[0], zero.data_type, None))
    cut = file.with_suffix(".cut.onnx")
    onnx.save(model, cut)
    return cut


def difference(tilec, file, device):
    """The greatest difference of the quantized results, and the share of those that differ at all."""
    cut = last_quantized(file)
    session = session_of(cut)
    image = numpy.random.default_rng(2).uniform(-1, 1, session.get_inputs()[0].shape).astype("float32")
    theirs = session.run(None, {"x": image})[0]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        numpy.save(folder / "x.npy", image)
        output = f"{session.get_outputs()[0].name}={folder / 'y.npy'}"
        subprocess.run([tilec, "run", cut, "--input", f"x={folder / 'x.npy'}", "--device", device, "--output", output],
                       check=True, stdout=subprocess.DEVNULL)
        ours = numpy.load(folder / "y.npy")
    steps = numpy.abs(ours.astype(int) - theirs.astype(int))
    return steps.max(), (steps > 0).mean()


def compare(tilec, name, file, rounds, device):
    ours, theirs = [], []
    for _ in range(rounds):
        lines = subprocess.check_output([tilec, "bench", file, "--device", "cpu", "--json"], text=True).splitlines()
        ours.append(json.loads(lines[-1])["min_s"])
        theirs.append(float(subprocess.check_output([sys.executable, __file__, "--rival", file], text=True)))
    steps, share = difference(tilec, file, device)
    mine, rival = min(ours) * 1e3, min(theirs) * 1e3
    print(f"| {name} | {mine:.2f} | {rival:.2f} | {mine / rival:.2f} | {steps} | {share:.1%} |", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--tilec", default="target/release/tilec")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", nargs="*")
    arguments.add_argument("--keep", metavar="FOLDER")
    arguments.add_argument("--device", default="cpu", help="the device whose results are compared")
    arguments.add_argument("--rival", metavar="FILE", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.rival:
        print(time_rival(given.rival))
        return
    print("| network | tilec | ONNX Runtime | ratio | most steps | differ |\n|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(given.keep or temporary)
        folder.mkdir(exist_ok=True)
        for name, file in models(folder, given.only):
            compare(given.tilec, name, file, given.rounds, given.device)


if __name__ == "__main__":
    main()
