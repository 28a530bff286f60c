#!/usr/bin/env python3
"""How long tilec takes on its bundled workloads, and ONNX Runtime or PyTorch on the same ones, in turn on the same machine.

    pip install numpy onnx onnxruntime torch
    cargo build --release && python3 benches/compare.py [--tilec target/release/tilec] [--rounds 5] [WORKLOAD…]

Each round runs `tilec bench WORKLOAD --device cpu` and then the rival, each in a process of its own, with as many threads as there are
cores, warmed up for a second and timed for some seconds. A line has both fastest runs, the medians of the rounds' medians, and the median
of the rounds' ratios, tilec's time to the rival's: 2.00 is twice as long. Where other programs run, believe the fastest runs.

The rivals' networks are those of examples/models with the same sizes, layer by layer, and random weights.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

THREADS = os.cpu_count()


# ONNX Runtime.

class Net:
    """A network in ONNX, of one input; images are [N, C, H, W]. `x` is its last value, `shape` that value's."""

    def __init__(self, *shape):
        import numpy

        self.random = numpy.random.default_rng(1)
        self.nodes, self.weights, self.input_shape = [], [], shape
        self.x, self.shape = "x", list(shape)

    def weight(self, shape, low, high):
        from onnx import numpy_helper

        values = self.random.uniform(low, high, shape).astype("float32")
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, kind, *others, **attributes):
        from onnx import helper

        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.x, *others], [output], **attributes))
        self.x = output

    def window(self, size, strides, pads):
        """Sets the shape to that after windows of this size; pads are [top, left, bottom, right]."""
        self.shape[2] = (self.shape[2] + pads[0] + pads[2] - size) // strides + 1
        self.shape[3] = (self.shape[3] + pads[1] + pads[3] - size) // strides + 1

    def conv(self, filters, size, strides=1, pads=None, groups=1, bias=True, norm=False, activation=None):
        if pads is None:  # as Keras' `same`
            sizes = self.shape[2:]
            total = [max((-(-s // strides) - 1) * strides + size - s, 0) for s in sizes]
            pads = [t // 2 for t in total] + [t - t // 2 for t in total]
        inputs = self.shape[1] // groups
        bound = (6 / (inputs * size * size)) ** 0.5
        parameters = [self.weight((filters, inputs, size, size), -bound, bound)]
        if bias:
            parameters.append(self.weight((filters,), -0.1, 0.1))
        self.node("Conv", *parameters, strides=[strides] * 2, pads=pads, group=groups)
        self.window(size, strides, pads)
        self.shape[1] = filters
        if norm:
            bounds = [(0.9, 1.1), (-0.1, 0.1), (-0.1, 0.1), (0.9, 1.1)]
            self.node("BatchNormalization", *(self.weight((filters,), low, high) for low, high in bounds), epsilon=1e-3)
        self.activate(activation)

    def activate(self, activation):
        if activation == "relu6":
            self.node("Clip", self.constant(0.0), self.constant(6.0))
        elif activation:
            self.node(activation)

    def constant(self, value):
        return self.weight((), value, value)

    def max_pool(self, size, strides, pads=(0, 0, 0, 0)):
        self.node("MaxPool", kernel_shape=[size] * 2, strides=[strides] * 2, pads=list(pads))
        self.window(size, strides, pads)

    def dense(self, units, activation=None):
        bound = (3 / self.shape[1]) ** 0.5
        self.node("Gemm", self.weight((self.shape[1], units), -bound, bound), self.weight((units,), -0.1, 0.1))
        self.shape = [self.shape[0], units]
        self.activate(activation)

    def flatten(self):
        self.node("Flatten")
        size = 1
        for extent in self.shape[1:]:
            size *= extent
        self.shape = [self.shape[0], size]

    def global_mean(self):
        self.node("GlobalAveragePool")
        self.shape[2:] = [1, 1]
        self.flatten()

    def model(self):
        from onnx import TensorProto, helper

        value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "net", [value("x", self.input_shape)], [value(self.x, self.shape)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def runner(self):
        import numpy
        import onnxruntime

        model = self.model()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        image = numpy.random.default_rng(2).uniform(-1, 1, self.input_shape).astype("float32")
        return lambda: session.run(None, {"x": image})[0]


def mobilenet():
    net = Net(1, 3, 224, 224)
    net.conv(32, 3, 2, bias=False, norm=True, activation="relu6")
    for filters, strides in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]:
        channels = net.shape[1]
        net.conv(channels, 3, strides, groups=channels, bias=False, norm=True, activation="relu6")
        net.conv(filters, 1, bias=False, norm=True, activation="relu6")
    net.global_mean()
    net.dense(1000, "Softmax")
    return net.runner()


def resnet50():
    net = Net(1, 3, 224, 224)
    net.conv(64, 7, 2, [3] * 4, norm=True, activation="Relu")
    net.max_pool(3, 2, [1] * 4)
    for stage, (blocks, filters) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for block in range(blocks):
            strides = 2 if stage and block == 0 else 1
            x, shape = net.x, list(net.shape)
            if block == 0:
                net.conv(4 * filters, 1, strides, norm=True)
            straight, net.x, net.shape = net.x, x, shape
            net.conv(filters, 1, strides, norm=True, activation="Relu")
            net.conv(filters, 3, norm=True, activation="Relu")
            net.conv(4 * filters, 1, norm=True)
            net.node("Add", straight)
            net.activate("Relu")
    net.global_mean()
    net.dense(1000, "Softmax")
    return net


def vgg19():
    net = Net(1, 3, 224, 224)
    for convolutions, filters in [(2, 64), (2, 128), (4, 256), (4, 512), (4, 512)]:
        for _ in range(convolutions):
            net.conv(filters, 3, activation="Relu")
        net.max_pool(2, 2)
    net.flatten()
    net.dense(4096, "Relu")
    net.dense(4096, "Relu")
    net.dense(1000, "Softmax")
    return net.runner()


def mnist_mlp():
    net = Net(32, 1, 28, 28)
    net.node("Div", net.constant(255.0))
    net.flatten()
    net.dense(128, "Relu")
    net.dense(10)
    return net.runner()


def mnist_cnn():
    net = Net(128, 1, 28, 28)
    net.node("Div", net.constant(255.0))
    net.conv(32, 5, activation="Relu")
    net.conv(64, 5, activation="Relu")
    net.flatten()
    net.dense(10)
    return net.runner()


# PyTorch.

def with_torch(function, *shapes):
    import torch

    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    tensors = [torch.randn(shape) for shape in shapes]

    def run():
        with torch.inference_mode():
            return function(*tensors)

    return run


def transformer_encoder():
    from torch import nn

    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    return with_torch(nn.TransformerEncoder(layer, 6).eval(), (1, 1024, 512))


def matmul(n):
    import torch

    return with_torch(torch.matmul, (n, n), (n, n))


def elementwise():
    from torch.nn import functional as F

    return with_torch(lambda x, a, b: F.gelu(x * a + b), (4096, 1024), (1024,), (1024,))


def softmax():
    import torch

    return with_torch(lambda x: torch.softmax(x, -1), (4096, 1024))


def layernorm():
    from torch.nn import functional as F

    function = lambda x, a, b, g, h: F.layer_norm(F.gelu(x * a + b), (1024,), g, h, 1e-5)
    return with_torch(function, (4096, 1024), *[(1024,)] * 4)


# Whose it is, and what makes a function that runs it once. Of a sweep, by its size.
RIVALS = {
    "mobilenet": ("ONNX Runtime", mobilenet),
    "resnet50": ("ONNX Runtime", lambda: resnet50().runner()),
    "vgg19": ("ONNX Runtime", vgg19),
    "mnist-mlp": ("ONNX Runtime", mnist_mlp),
    "mnist-cnn": ("ONNX Runtime", mnist_cnn),
    "transformer-encoder": ("PyTorch", transformer_encoder),
    "matmul": ("PyTorch", {f"M=K=N={n}": lambda n=n: matmul(n) for n in [256, 512, 1024, 2048]}),
    "elementwise": ("PyTorch", elementwise),
    "softmax": ("PyTorch", softmax),
    "layernorm": ("PyTorch", layernorm),
}


def time_rival(run):
    """The median and the least of the seconds that a run takes."""
    timed = lambda runs: (time.perf_counter(), [run() for _ in range(runs)], time.perf_counter())
    start, last = time.perf_counter(), 0
    while time.perf_counter() - start < 1:
        begun, _, ended = timed(1)
        last = ended - begun
    # The clock does not matter in a millisecond.
    runs = max(1, round(1e-3 / last))
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < 3:
        begun, _, ended = timed(runs)
        times.append((ended - begun) / runs)
    return statistics.median(times), min(times)


def rival(workload):
    """Prints the times of all its variants, as JSON."""
    _, make = RIVALS[workload]
    variants = make if isinstance(make, dict) else {"": make}
    print(json.dumps({name: time_rival(make()) for name, make in variants.items()}))


def compare(workload, tilec, rounds):
    ours, theirs = {}, {}
    for _ in range(rounds):
        lines = subprocess.check_output([tilec, "bench", workload, "--device", "cpu", "--json"], text=True).splitlines()
        measured = json.loads(subprocess.check_output([sys.executable, __file__, "--rival", workload], text=True))
        # Steps of training are compared by training.py.
        for row in (row for row in map(json.loads, lines) if not row["variant"].endswith("training")):
            ours.setdefault(row["variant"], []).append((row["median_s"], row["min_s"]))
            theirs.setdefault(row["variant"], []).append(measured[row["variant"] if "" not in measured else ""])
    for variant in ours:
        fastest = [min(least for _, least in rows[variant]) * 1e3 for rows in (ours, theirs)]
        median = [statistics.median(middle for middle, _ in rows[variant]) * 1e3 for rows in (ours, theirs)]
        ratio = statistics.median(o / t for (o, _), (t, _) in zip(ours[variant], theirs[variant]))
        print(
            f"{workload:<20} {variant:<22} {RIVALS[workload][0]:<13} {fastest[0]:>9.3f} {fastest[1]:>9.3f} {fastest[0] / fastest[1]:>6.2f}"
            f" {median[0]:>9.3f} {median[1]:>9.3f} {ratio:>6.2f}",
            flush=True,
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("workload", nargs="*", help=", ".join(RIVALS))
    arguments.add_argument("--tilec", default="target/release/tilec")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--rival", metavar="WORKLOAD", choices=RIVALS, help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.rival:
        return rival(given.rival)
    unknown = [workload for workload in given.workload if workload not in RIVALS]
    if unknown:
        arguments.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(RIVALS)}")
    print(f"{'milliseconds':<57} {'fastest':>9} {'':>9} {'':>6} {'median':>9}")
    print(f"{'workload':<20} {'variant':<22} {'rival':<13}" + f" {'tilec':>9} {'rival':>9} {'ratio':>6}" * 2)
    for workload in given.workload or RIVALS:
        compare(workload, given.tilec, given.rounds)


if __name__ == "__main__":
    main()
