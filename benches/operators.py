#!/usr/bin/env python3
"""How long tilec takes on lone ONNX operators of many kinds and shapes, and ONNX Runtime on the same files, in turn on the same machine.

    pip install numpy onnx onnxruntime
    cargo build --release && python3 benches/operators.py [--tilec target/release/tilec] [--rounds 3] [--only TEXT…] [--markdown]

A round runs ONNX Runtime and then `tilec bench FILE.onnx --device cpu` in a process of its own, each for about 0.3 seconds, with as many
threads as there are cores and with inputs and outputs that stay where they are. A line has the medians of the rounds' medians and their
ratio, tilec's time to ONNX Runtime's: 2.00 is twice as long. The lines are sorted by it, the slowest first.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper

THREADS = os.cpu_count()
OPSET = 21
# How long a round measures one of the two programs.
SECONDS = 0.3
RANDOM = numpy.random.default_rng(1)


def f32(*shape, low=-1.0, high=1.0):
    return RANDOM.uniform(low, high, shape).astype("float32")


def f16(*shape):
    return f32(*shape).astype("float16")


def u8(*shape):
    return RANDOM.integers(0, 256, shape).astype("uint8")


def i8(*shape):
    return RANDOM.integers(-127, 128, shape).astype("int8")


def index(high, *shape):
    return RANDOM.integers(0, high, shape).astype("int64")


def i64(*values):
    return numpy.array(values, "int64")


class Case:
    """A node: its inputs, of which those in `given` are passed in each run and the others are constants. None is no input."""

    def __init__(self, name, kind, *inputs, given=1, outputs=1, domain="", **attributes):
        self.name = name
        names = ["" if value is None else f"x{number}" for number, value in enumerate(inputs)]
        # Copies: in ONNX Runtime two inputs with one array would share its memory.
        self.feeds = {names[number]: inputs[number].copy() for number in range(given)}
        constants = [
            numpy_helper.from_array(value, names[number])
            for number, value in enumerate(inputs)
            if number >= given and value is not None
        ]
        self.outputs = [f"y{number}" for number in range(outputs)]
        node = helper.make_node(kind, names, self.outputs, domain=domain, **attributes)
        kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in self.feeds.items()}
        takes = [helper.make_tensor_value_info(name, kinds[name], value.shape) for name, value in self.feeds.items()]
        gives = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        graph = helper.make_graph([node], "operator", takes, gives, constants)
        imports = [helper.make_opsetid("", OPSET)] + ([helper.make_opsetid(domain, 1)] if domain else [])
        self.model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        self.model = onnx.shape_inference.infer_shapes(self.model, strict_mode=True, data_prop=True)


def elementwise():
    x = f32(1 << 20, low=0.1, high=2.0)
    for kind in "Relu Sigmoid Tanh Erf Exp Log Sqrt Gelu HardSwish Softplus Mish Floor Sin Abs".split():
        yield Case(f"{kind} 1M", kind, x)
    yield Case("Gelu tanh 1M", "Gelu", x, approximate="tanh")
    for power in [2.0, 3.0, 0.5, 1.7]:
        yield Case(f"Pow {power} 1M", "Pow", x, numpy.float32(power))
    yield Case("Pow by tensor 1M", "Pow", x, x, given=2)
    for kind in "Add Mul Div Max".split():
        yield Case(f"{kind} 1M", kind, x, x, given=2)
    yield Case("Add 16M", "Add", f32(1 << 24), f32(1 << 24), given=2)
    yield Case("Add row [1024, 1024] + [1024]", "Add", f32(1024, 1024), f32(1024), given=2)
    yield Case("Mul column [1024, 1024] * [1024, 1]", "Mul", f32(1024, 1024), f32(1024, 1), given=2)
    yield Case("Mul channel [8, 64, 56, 56] * [64, 1, 1]", "Mul", f32(8, 64, 56, 56), f32(64, 1, 1), given=2)
    yield Case("Where 1M", "Where", x > 1, x, f32(1 << 20), given=3)
    yield Case("Clip 1M", "Clip", x, numpy.float32(0), numpy.float32(1))
    yield Case("Cast f32 to f16 1M", "Cast", x, to=onnx.TensorProto.FLOAT16)
    yield Case("Cast f16 to f32 1M", "Cast", f16(1 << 20), to=onnx.TensorProto.FLOAT)
    yield Case("Cast u8 to f32 1M", "Cast", u8(1 << 20), to=onnx.TensorProto.FLOAT)
    yield Case("Greater 1M", "Greater", x, f32(1 << 20), given=2)
    yield Case("Add f16 1M", "Add", f16(1 << 20), f16(1 << 20), given=2)
    yield Case("Add 1000", "Add", f32(1000), f32(1000), given=2)


def reductions():
    for kind in "ReduceSum ReduceMax ReduceMean ReduceL2 ReduceLogSumExp".split():
        yield Case(f"{kind} rows of 1024", kind, f32(1024, 1024), i64(-1))
    for size in [3, 8, 32]:
        yield Case(f"ReduceSum rows of {size}", "ReduceSum", f32((1 << 20) // size, size), i64(-1))
        yield Case(f"ReduceMax rows of {size}", "ReduceMax", f32((1 << 20) // size, size), i64(-1))
        yield Case(f"Softmax rows of {size}", "Softmax", f32((1 << 20) // size, size))
    yield Case("ReduceSum columns [4096, 256]", "ReduceSum", f32(4096, 256), i64(0))
    yield Case("ReduceMax columns [4096, 256]", "ReduceMax", f32(4096, 256), i64(0))
    for dtype in "int32 int64 float16".split():
        yield Case(f"ReduceMax columns [4096, 256] {dtype}", "ReduceMax", f32(4096, 256).astype(dtype), i64(0))
        yield Case(f"ReduceMax rows of 1000 {dtype}", "ReduceMax", f32(1024, 1000).astype(dtype), i64(-1))
    yield Case("ReduceSum all 1M", "ReduceSum", f32(1 << 20))
    yield Case("ReduceMean middle [8, 196, 768]", "ReduceMean", f32(8, 196, 768), i64(1))
    yield Case("ReduceMean [8, 64, 56, 56] over [2, 3]", "ReduceMean", f32(8, 64, 56, 56), i64(2, 3))
    yield Case("ArgMax rows of 1000", "ArgMax", f32(1024, 1000), axis=1)
    yield Case("ArgMax rows of 10", "ArgMax", f32(100000, 10), axis=1)
    yield Case("ArgMax channel [1, 21, 256, 256]", "ArgMax", f32(1, 21, 256, 256), axis=1)
    yield Case("Softmax rows of 1000", "Softmax", f32(1000, 1000))
    yield Case("Softmax channel [1, 21, 256, 256]", "Softmax", f32(1, 21, 256, 256), axis=1)
    yield Case("LogSoftmax rows of 1000", "LogSoftmax", f32(1000, 1000))
    yield Case("LayerNormalization [1024, 768]", "LayerNormalization", f32(1024, 768), f32(768), f32(768))
    yield Case("LayerNormalization [100000, 16]", "LayerNormalization", f32(100000, 16), f32(16), f32(16))
    yield Case("InstanceNormalization [4, 32, 64, 64]", "InstanceNormalization", f32(4, 32, 64, 64), f32(32), f32(32))
    yield Case("GroupNormalization [4, 32, 64, 64]", "GroupNormalization", f32(4, 32, 64, 64), f32(32), f32(32), num_groups=8)
    parameters = f32(64), f32(64), f32(64), f32(64, low=0.5, high=1)
    yield Case("BatchNormalization [8, 64, 56, 56]", "BatchNormalization", f32(8, 64, 56, 56), *parameters)
    yield Case("LpNormalization [1024, 768]", "LpNormalization", f32(1024, 768))
    yield Case("LRN [1, 64, 56, 56]", "LRN", f32(1, 64, 56, 56), size=5)
    for axis in [0, 1]:
        yield Case(f"CumSum axis {axis} of [1024, 1024]", "CumSum", f32(1024, 1024), numpy.int64(axis))
    yield Case("Softmax f16 rows of 1000", "Softmax", f16(1000, 1000))


def moves():
    yield Case("Transpose [1024, 1024]", "Transpose", f32(1024, 1024), perm=[1, 0])
    yield Case("Transpose NCHW to NHWC [4, 64, 56, 56]", "Transpose", f32(4, 64, 56, 56), perm=[0, 2, 3, 1])
    yield Case("Transpose NHWC to NCHW [4, 56, 56, 64]", "Transpose", f32(4, 56, 56, 64), perm=[0, 3, 1, 2])
    yield Case("Transpose windows [8, 7, 8, 7, 96]", "Transpose", f32(8, 7, 8, 7, 96), perm=[0, 2, 1, 3, 4])
    yield Case("Transpose heads [8, 197, 12, 64]", "Transpose", f32(8, 197, 12, 64), perm=[0, 2, 1, 3])
    yield Case("Transpose keys [8, 197, 12, 64]", "Transpose", f32(8, 197, 12, 64), perm=[0, 2, 3, 1])
    yield Case("Transpose f16 [1024, 1024]", "Transpose", f16(1024, 1024), perm=[1, 0])
    for count in [2, 8, 32, 128]:
        parts = [f32(256, 4096 // count) for _ in range(count)]
        yield Case(f"Concat {count} along the last axis", "Concat", *parts, given=count, axis=1)
    yield Case("Concat 8 along the first axis", "Concat", *(f32(32, 4096) for _ in range(8)), given=8, axis=0)
    yield Case("Concat channels [1, 64, 56, 56] twice", "Concat", f32(1, 64, 56, 56), f32(1, 64, 56, 56), given=2, axis=1)
    yield Case("Split in 4 along the last axis", "Split", f32(256, 4096), outputs=4, axis=1, num_outputs=4)
    yield Case("Slice middle", "Slice", f32(1024, 1024), i64(100, 100), i64(900, 900))
    yield Case("Slice steps of 2", "Slice", f32(1024, 1024), i64(0, 0), i64(1024, 1024), i64(0, 1), i64(2, 2))
    yield Case("Slice backwards", "Slice", f32(1024, 1024), i64(-1), i64(-2000), i64(1), i64(-1))
    for mode in ["constant", "reflect", "edge"]:
        yield Case(f"Pad {mode} [8, 64, 56, 56]", "Pad", f32(8, 64, 56, 56), i64(0, 0, 1, 1, 0, 0, 1, 1), mode=mode)
    yield Case("Gather rows of 768", "Gather", f32(30000, 768), index(30000, 512))
    yield Case("Gather rows of 8", "Gather", f32(30000, 8), index(30000, 50000))
    yield Case("Gather columns", "Gather", f32(1024, 1024), index(1024, 512), axis=1)
    yield Case("GatherElements", "GatherElements", f32(1024, 1024), index(1024, 1024, 256), axis=1)
    yield Case("GatherND", "GatherND", f32(256, 256, 16), index(256, 10000, 2))
    yield Case("ScatterElements", "ScatterElements", f32(1024, 1024), index(1024, 1024, 64), f32(1024, 64), axis=1)
    yield Case("ScatterElements add", "ScatterElements", f32(1024, 1024), index(1024, 1024, 64), f32(1024, 64), axis=1, reduction="add")
    yield Case("ScatterND", "ScatterND", f32(10000, 64), index(10000, 2000, 1), f32(2000, 64))
    yield Case("Expand [1024, 1] to 1024 columns", "Expand", f32(1024, 1), i64(1024, 1024))
    yield Case("Tile [256, 256] by [4, 4]", "Tile", f32(256, 256), i64(4, 4))
    for mode in ["nearest", "linear", "cubic"]:
        scales = numpy.array([1, 1, 2, 2], "float32")
        yield Case(f"Resize {mode} x2 [1, 64, 56, 56]", "Resize", f32(1, 64, 56, 56), None, scales, mode=mode)
    yield Case("Resize linear to half [1, 3, 448, 448]", "Resize", f32(1, 3, 448, 448), None, None, i64(1, 3, 224, 224), mode="linear")
    corners = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    yield Case("Resize align_corners [1, 21, 32, 32] to 256", "Resize", f32(1, 21, 32, 32), None, None, i64(1, 21, 256, 256), **corners)
    yield Case("GridSample [1, 32, 64, 64]", "GridSample", f32(1, 32, 64, 64), f32(1, 64, 64, 2), given=2)
    yield Case("DepthToSpace [1, 64, 56, 56]", "DepthToSpace", f32(1, 64, 56, 56), blocksize=2)
    yield Case("SpaceToDepth [1, 16, 112, 112]", "SpaceToDepth", f32(1, 16, 112, 112), blocksize=2)
    for many, rows, size in [(5, 1, 8400), (300, 1, 8400), (100, 1, 100000), (5, 1000, 1000), (40, 64, 1000)]:
        yield Case(f"TopK {many} of {rows} x {size}", "TopK", f32(rows, size), i64(many), outputs=2)
    yield Case("OneHot 1000 of 4096", "OneHot", index(1000, 4096), i64(1000), numpy.array([0, 1], "float32"))
    yield Case("Trilu [1024, 1024]", "Trilu", f32(1024, 1024))
    yield Case("NonZero 100000", "NonZero", f32(100000) > 0.5)


def pools():
    for size, stride, pad, shape in [
        (2, 2, 0, (1, 64, 112, 112)), (3, 2, 1, (1, 64, 112, 112)), (3, 1, 1, (1, 192, 28, 28)),
        (5, 1, 2, (1, 256, 20, 20)), (9, 1, 4, (1, 256, 20, 20)), (13, 1, 6, (1, 256, 20, 20)),
    ]:
        options = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        name = f"{size}x{size}/{stride} {list(shape)}"
        yield Case(f"MaxPool {name}", "MaxPool", f32(*shape), **options)
        yield Case(f"AveragePool {name}", "AveragePool", f32(*shape), **options)
    yield Case("MaxPool 3/2 1D [8, 64, 4096]", "MaxPool", f32(8, 64, 4096), kernel_shape=[3], strides=[2])
    yield Case("GlobalAveragePool [1, 1024, 7, 7]", "GlobalAveragePool", f32(1, 1024, 7, 7))
    yield Case("GlobalMaxPool [8, 256, 28, 28]", "GlobalMaxPool", f32(8, 256, 28, 28))


def conv(shape, filters, size, group=1, kind="Conv", make=f32, **options):
    sizes = [size] * (len(shape) - 2)
    per_group = shape[1] // group
    weight = (filters, per_group, *sizes) if kind == "Conv" else (shape[1], filters // group, *sizes)
    pads = options.pop("pads", size // 2 * options.get("dilations", [1])[0])
    stride = options.get("strides", [1])[0]
    for option in ["strides", "dilations"]:
        if option in options:
            options[option] = options[option] * len(sizes)
    groups = f", {group} groups" if group > 1 else ""
    dilated = f" dilated {options['dilations'][0]}" if "dilations" in options else ""
    name = f"{kind} {size}/{stride}{dilated} {list(shape)} to {filters}{groups}{' f16' if make is f16 else ''}"
    return Case(name, kind, make(*shape), make(*weight), make(filters), group=group, kernel_shape=sizes, pads=[pads] * 2 * len(sizes), **options)


def convolutions():
    two = {"strides": [2]}
    yield conv((1, 3, 224, 224), 32, 3, **two)
    yield conv((1, 3, 224, 224), 64, 7, **two)
    yield conv((1, 3, 640, 640), 16, 3, **two)
    yield conv((1, 1, 28, 28), 32, 3)
    for shape, filters, size in [
        ((1, 64, 56, 56), 64, 3), ((1, 64, 56, 56), 256, 1), ((1, 256, 14, 14), 256, 3), ((1, 512, 14, 14), 512, 1),
        ((1, 512, 7, 7), 512, 3), ((1, 32, 56, 56), 32, 5), ((1, 16, 160, 160), 16, 3), ((1, 17, 31, 31), 19, 3), ((16, 64, 28, 28), 64, 3),
    ]:
        yield conv(shape, filters, size)
    yield conv((1, 128, 56, 56), 128, 3, **two)
    yield conv((1, 64, 56, 56), 64, 3, dilations=[2])
    yield conv((1, 256, 28, 28), 256, 3, dilations=[12])
    for shape, size in [((1, 144, 56, 56), 3), ((1, 96, 56, 56), 7), ((1, 512, 14, 14), 3), ((1, 240, 28, 28), 5)]:
        yield conv(shape, shape[1], size, group=shape[1])
    yield conv((1, 144, 56, 56), 144, 3, group=144, **two)
    yield conv((1, 64, 56, 56), 128, 3, group=64)
    yield conv((1, 64, 56, 56), 128, 7, group=64)
    for per_group in [4, 8, 16, 32]:
        yield conv((1, 128, 56, 56), 128, 3, group=128 // per_group)
    yield conv((1, 240, 28, 28), 240, 1, group=3)
    yield conv((1, 64, 4096), 64, 3)
    yield conv((1, 64, 4096), 64, 9, dilations=[4], group=4)
    yield conv((1, 64, 4096), 64, 9, group=64)
    yield conv((1, 16, 16, 32, 32), 32, 3)
    yield conv((1, 64, 28, 28), 64, 2, kind="ConvTranspose", pads=0, **two)
    yield conv((1, 128, 28, 28), 64, 4, kind="ConvTranspose", pads=1, **two)
    yield conv((1, 64, 56, 56), 64, 3, make=f16)


def products():
    for m, k, n in [
        (256, 256, 256), (257, 129, 67), (1024, 1024, 1024), (128, 768, 3072), (1, 4096, 4096), (8, 4096, 4096),
        (100000, 16, 16), (16, 100000, 16), (1, 768, 50257), (4, 16, 4),
    ]:
        yield Case(f"MatMul {m} x {k} x {n}", "MatMul", f32(m, k), f32(k, n))
    yield Case("MatMul both given 512", "MatMul", f32(512, 512), f32(512, 512), given=2)
    yield Case("MatMul scores 12 x 197 x 64 x 197", "MatMul", f32(12, 197, 64), f32(12, 64, 197), given=2)
    yield Case("MatMul values 12 x 197 x 197 x 64", "MatMul", f32(12, 197, 197), f32(12, 197, 64), given=2)
    yield Case("MatMul windows 192 x 49 x 32 x 49", "MatMul", f32(192, 49, 32), f32(192, 32, 49), given=2)
    yield Case("MatMul small 4096 x 4 x 4 x 4", "MatMul", f32(4096, 4, 4), f32(4096, 4, 4), given=2)
    yield Case("Gemm transposed B 128 x 768 x 768", "Gemm", f32(128, 768), f32(768, 768), f32(768), transB=1)
    yield Case("Gemm transposed A 768 x 128 x 768", "Gemm", f32(128, 768), f32(128, 768), given=2, transA=1)
    yield Case("Einsum bhid,bhjd->bhij", "Einsum", f32(1, 12, 197, 64), f32(1, 12, 197, 64), given=2, equation="bhid,bhjd->bhij")
    yield Case("MatMul f16 512", "MatMul", f16(512, 512), f16(512, 512))


def recurrent():
    for kind, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
        for steps, batch, size in [(200, 1, 128), (50, 16, 256)]:
            weights = f32(1, gates * size, size) / 16, f32(1, gates * size, size) / 16, f32(1, 2 * gates * size)
            yield Case(f"{kind} {steps} steps, batch {batch}, {size} units", kind, f32(steps, batch, size), *weights, hidden_size=size)
    weights = f16(1, 512, 128) / 16, f16(1, 512, 128) / 16, f16(1, 1024)
    yield Case("LSTM f16 200 steps, batch 1, 128 units", "LSTM", f16(200, 1, 128), *weights, hidden_size=128)


def quantised():
    scale, point = numpy.float32(0.02), numpy.uint8(128)
    yield Case("MatMulInteger 512", "MatMulInteger", u8(512, 512), i8(512, 512))
    yield Case("MatMulInteger 1 x 4096 x 4096", "MatMulInteger", u8(1, 4096), i8(4096, 4096))
    zero = numpy.int8(0)
    yield Case("QLinearMatMul 512", "QLinearMatMul", u8(512, 512), scale, point, i8(512, 512), scale, zero, scale, point)
    for shape, filters, size, group in [((1, 64, 56, 56), 64, 3, 1), ((1, 64, 56, 56), 256, 1, 1), ((1, 144, 56, 56), 144, 3, 144)]:
        weight, bias = i8(filters, shape[1] // group, size, size), RANDOM.integers(-99, 99, filters).astype("int32")
        groups = f", {group} groups" if group > 1 else ""
        options = {"pads": [size // 2] * 4, "group": group}
        name = f"{size} {list(shape)} to {filters}{groups}"
        yield Case(f"QLinearConv {name}", "QLinearConv", u8(*shape), scale, point, weight, scale, zero, scale, point, bias, **options)
    yield Case("ConvInteger 3 [1, 64, 56, 56] to 64", "ConvInteger", u8(1, 64, 56, 56), u8(64, 64, 3, 3), pads=[1] * 4)
    yield Case("DynamicQuantizeLinear 1M", "DynamicQuantizeLinear", f32(1 << 20), outputs=3)
    yield Case("QuantizeLinear 1M", "QuantizeLinear", f32(1 << 20), scale, point)
    yield Case("DequantizeLinear 1M", "DequantizeLinear", u8(1 << 20), scale, point)
    for size, rows in [(1024, 1), (1024, 128), (4096, 1), (4096, 128)]:
        blocks = u8(size, size // 32, 16)
        options = {"K": size, "N": size, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
        yield Case(f"MatMulNBits {rows} x {size} x {size}", "MatMulNBits", f32(rows, size), blocks, f32(size * size // 32), **options)


KINDS = [elementwise, reductions, moves, pools, convolutions, products, recurrent, quantised]


def median_of(run):
    """The median time of a run, after a warm-up."""
    until = time.perf_counter() + SECONDS / 2
    while time.perf_counter() < until:
        run()
    times, until = [], time.perf_counter() + SECONDS
    while len(times) < 5 or time.perf_counter() < until:
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def onnx_runtime(case):
    """A function that runs the case in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in case.feeds.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    # The outputs of one run have the sizes, and are kept for the next ones.
    for name, value in zip(case.outputs, session.run(None, case.feeds)):
        binding.bind_ortvalue_output(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    return lambda: session.run_with_iobinding(binding)


def tilec(program, case, folder, repetitions):
    """The median time of the case in tilec, in this many repetitions."""
    file = folder / "case.onnx"
    onnx.save(case.model, file)
    inputs = []
    for name, value in case.feeds.items():
        numpy.save(folder / f"{name}.npy", value)
        inputs += ["--input", f"{name}={folder / name}.npy"]
    command = [program, "bench", str(file), "--device", "cpu", "--json", "--iterations", str(repetitions), *inputs]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if made.returncode:
        raise RuntimeError(made.stderr.strip().splitlines()[-1] if made.stderr.strip() else f"exit code {made.returncode}")
    return json.loads(made.stdout.splitlines()[-1])["median_s"]


def measure(program, case, rounds, folder):
    """The times of tilec and of ONNX Runtime, each the median of the rounds; or why there are none."""
    try:
        rival = onnx_runtime(case)
    except Exception as error:
        return None, f"ONNX Runtime: {str(error).splitlines()[0][:120]}"
    ours, others = [], []
    try:
        for _ in range(rounds):
            others.append(median_of(rival))
            # A repetition of `tilec bench` takes at least a millisecond.
            repetitions = max(int(SECONDS / max(others[-1], 1e-3)), 5)
            ours.append(tilec(program, case, folder, repetitions))
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return None, f"tilec: {error}"
    return (statistics.median(ours), statistics.median(others)), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tilec", default="target/release/tilec")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="cases whose name has one of these texts")
    parser.add_argument("--markdown", action="store_true", help="a table for benches/README.md")
    arguments = parser.parse_args()
    cases = [case for kind in KINDS for case in kind() if not arguments.only or any(text in case.name for text in arguments.only)]
    lines, failures = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases):
            print(f"\r{number + 1}/{len(cases)} {case.name:70}", end="", file=sys.stderr)
            times, failure = measure(arguments.tilec, case, arguments.rounds, pathlib.Path(folder))
            if failure:
                failures.append(f"{case.name}: {failure}")
            else:
                lines.append((times[0] / times[1], *times, case.name))
    print(file=sys.stderr)
    lines.sort(reverse=True)
    if arguments.markdown:
        print("| operator | tilec | ONNX Runtime | ratio |\n|---|--:|--:|--:|")
    for ratio, ours, others, name in lines:
        form = "| {} | {:.3f} ms | {:.3f} ms | {:.2f} |" if arguments.markdown else "{:60} {:9.3f} ms {:9.3f} ms {:7.2f}"
        print(form.format(name, ours * 1e3, others * 1e3, ratio))
    ratios = [line[0] for line in lines]
    if ratios:
        within = sum(ratio <= 1.1 for ratio in ratios)
        print(f"\n{len(ratios)} operators: geometric mean {statistics.geometric_mean(ratios):.2f}; {within} within 1.1, {sum(r > 2 for r in ratios)} over 2.0")
    for failure in failures:
        print(f"not measured: {failure}")


if __name__ == "__main__":
    main()
