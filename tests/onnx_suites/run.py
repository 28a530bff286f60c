#!/usr/bin/env python3
"""Runs the suites of the `onnx` package through `tilec run MODEL.onnx`, and tells of each test that fails, with the reason.

usage: run.py SUITE... [--only REGEX] [--device NAME]
SUITE is node, simple, pytorch-operator, pytorch-converted or light, of the installed package (pip install onnx), or a folder that
exports.py has filled. Tests on anything but plain tensors of Tile's types are skipped, and so are those of types that the device
has not. TILEC names the program: target/release/tilec. fails.txt lists the tests that are known to fail, with reasons, and after the
name the kind of device if it is one alone; the exit status is 1 if another fails.
"""

import argparse
import collections
import concurrent.futures
import glob
import os
import re
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
TILEC = os.environ.get("TILEC", os.path.join(HERE, "../../target/release/tilec"))
DATA = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data")
# The ends of messages about what a device lacks: a type, or a function of f64, of which GPUs have arithmetic alone.
LACKING = r"has no ((tensors|values) of type [a-z0-9]+|`\w+` of f64 \(cast it to f32 first\))$"
# Types that Tile has not, and those in which their values are given and come back.
STAND_INS = {
    "float8_e4m3fn": np.float32,
    "float8_e4m3fnuz": np.float32,
    "float8_e5m2": np.float32,
    "float8_e5m2fnuz": np.float32,
    "float4_e2m1fn": np.float32,
    "int4": np.int8,
    "uint4": np.uint8,
    "int2": np.int8,
    "uint2": np.uint8,
}
KINDS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split()


def array(v):
    if isinstance(v, onnx.TensorProto):
        v = numpy_helper.to_array(v)
    if not isinstance(v, (np.ndarray, np.generic)):
        return None
    v = np.asarray(v)
    return v.astype(STAND_INS[str(v.dtype)]) if str(v.dtype) in STAND_INS else v


def cases(suite):
    if suite == "node":
        from onnx.backend.test.case.node import collect_testcases

        for c in collect_testcases(None):
            sets = list(c.data_sets)
            yield c.name, c.model, None, [(list(i), list(o)) for i, o in sets], getattr(c, "rtol", 1e-3), getattr(
                c, "atol", 1e-7
            )
    elif suite == "light":
        for f in sorted(glob.glob(f"{DATA}/light/*.onnx")):
            model = onnx.load(f)
            outs = [numpy_helper.to_array(onnx.load_tensor(f.replace(".onnx", "_output_0.pb")))]
            ins = []
            inits = {i.name for i in model.graph.initializer}
            for i in model.graph.input:
                if i.name in inits:
                    continue
                shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
                n = int(np.prod(shape))
                ins.append((np.arange(n).reshape(shape) / n).astype(np.float32))
            yield os.path.basename(f), None, f, [(ins, outs)], 1e-3, 1e-5
    elif os.path.isdir(suite):
        for f in sorted(glob.glob(suite + "/*.onnx")):
            i, o = np.load(f.replace(".onnx", ".input.npz")), np.load(f.replace(".onnx", ".output.npz"))
            model = onnx.load(f, load_external_data=False)
            ins = [i[x.name] for x in model.graph.input]
            outs = [o[x.name] for x in model.graph.output]
            yield os.path.basename(f), None, f, [(ins, outs)], 1e-4, 1e-4
    else:
        for d in sorted(glob.glob(f"{DATA}/{suite}/*")):
            model = onnx.load(d + "/model.onnx")
            sets = []
            for s in sorted(glob.glob(d + "/test_data_set_*")):
                load = lambda kind, infos: [
                    read(f"{s}/{kind}_{n}.pb", infos[n]) for n in range(len(glob.glob(f"{s}/{kind}_*.pb")))
                ]
                sets.append((load("input", model.graph.input), load("output", model.graph.output)))
            yield os.path.basename(d), None, d + "/model.onnx", sets, 1e-3, 1e-7


def read(path, info):
    data = open(path, "rb").read()
    if info.type.HasField("tensor_type"):
        t = onnx.TensorProto()
        t.ParseFromString(data)
        return t
    return None


def run(case, device):
    name, model, path, sets, rtol, atol = case
    for ins, outs in sets:
        a, b = [array(x) for x in ins], [array(x) for x in outs]
        if any(x is None or str(x.dtype) not in KINDS for x in a + b):
            return "skip", "not plain tensors"
        with tempfile.TemporaryDirectory() as d:
            p = path
            if p is None:
                p = d + "/model.onnx"
                onnx.save(model, p)
            m = model or onnx.load(path, load_external_data=False)
            inits = {i.name for i in m.graph.initializer}
            names = [i.name for i in m.graph.input]
            if len(names) != len(a):
                names = [n for n in names if n not in inits]
            cmd = [TILEC, "run", p, "--device", device, "--output-dir", d + "/out", "--quiet"]
            if device == "cpu":
                cmd.append("--exact")
            for n, x in zip(names, a):
                f = f"{d}/{len(cmd)}.npy"
                np.save(f, x)
                cmd += ["--input", f"{n}={f}"]
            try:
                r = subprocess.run(cmd, capture_output=True, text=True, timeout=120)
            except subprocess.TimeoutExpired:
                return "fail", "timeout"
            if r.returncode == 1 and re.search(LACKING, r.stderr, re.M):
                return "lacks a type", ""
            if r.returncode:
                return ("fail" if r.returncode == 1 else "CRASH"), r.stderr[:600]
            for o, want in zip(m.graph.output, b):
                safe = re.sub(r"[^A-Za-z0-9_.-]", "_", o.name)
                try:
                    got = np.load(f"{d}/out/{safe}.npy")
                except Exception as e:
                    return "fail", str(e)
                # NumPy has two bytes for bf16, in which the expected values are rounded after each step.
                if got.dtype == "V2":
                    got, rtol = got.view(ml_dtypes.bfloat16), max(rtol, 2**-6)
                try:
                    assert got.dtype == want.dtype, f"type {got.dtype}, not {want.dtype}"
                    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
                    exact = lambda x: x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x
                    np.testing.assert_allclose(exact(got), exact(want), rtol=rtol, atol=atol)
                except AssertionError as e:
                    return "fail", f"output {o.name}: {str(e)[:500]}"
    return "pass", ""


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("suites", nargs="+")
p.add_argument("--only", default="")
p.add_argument("--device", default="cpu")
o = p.parse_args()
np.random.seed(0)
listed = [l.split() for l in open(f"{HERE}/fails.txt") if l.strip() and not l.startswith("#")]
known = {name for name, *device in listed if not device or o.device.startswith(device[0])}
surprises = 0
for suite in o.suites:
    counts, why = collections.Counter(), collections.defaultdict(list)
    all = [c for c in cases(suite) if re.search(o.only, c[0])]

    def one(c):
        try:
            return c[0], run(c, o.device)
        except Exception as e:
            return c[0], ("fail", f"{type(e).__name__}: {e}")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for n, (r, w) in pool.map(one, all):
            if r == "fail" and n in known:
                r = "known to fail"
            counts[r] += 1
            if r == "pass" and n in known:
                print(f"{n} passes: fails.txt need not list it", flush=True)
            if r not in ("pass", "skip", "lacks a type", "known to fail"):
                surprises += 1
                print(f"{r} {n}: {w.strip()}", flush=True)
    print(suite, dict(counts), flush=True)
sys.exit(surprises > 0)
