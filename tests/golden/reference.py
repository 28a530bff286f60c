"""Makes tests/golden/reference.txt: graphs with inputs and what NumPy computes for them, for the reference interpreter.

    pip install numpy && python3 tests/golden/reference.py

A case is a graph in its text form, a line for each input and output, and an empty line.
"""

import math
import pathlib

import numpy as np

TYPES = {
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64", "bool": "bool",
}
random = np.random.default_rng(1)
cases = []


def type_of(array):
    return f"{TYPES[array.dtype.name]}[{', '.join(map(str, array.shape))}]"


def line(kind, name, array):
    values = " ".join(str(v).lower() if array.dtype == bool else repr(v.item()) for v in array.ravel())
    return f"{kind} {name} {values}"


def case(title, inputs, outputs):
    """`inputs`: arrays by name. `outputs`: by name, the right side of the node's line (with %0, %1, … for the inputs) and the array."""
    numbers = ", ".join(f"%{n}" for n in range(len(inputs)))
    results = ", ".join(f"{name} = %{len(inputs) + n}" for n, name in enumerate(outputs))
    lines = [f"graph {title}({numbers}) -> ({results})"]
    lines += [f"%{n} = input {name} : {type_of(array)}" for n, (name, array) in enumerate(inputs.items())]
    lines += [f"%{len(inputs) + n} = {op} : {type_of(array)}" for n, (op, array) in enumerate(outputs.values())]
    lines += [line("input", name, array) for name, array in inputs.items()]
    lines += [line("output", name, array) for name, (_, array) in outputs.items()]
    cases.append("\n".join(lines) + "\n")


def floats(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def products():
    product = "contract sum [i, j] (i: 0..{}, j: 0..{}, k: 0..{}) {{ v0 = %0[i, k]; v1 = %1[k, j]; v2 = mul v0 v1; yield v2 }}"
    a, b = floats(3, 7), floats(7, 5)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    case("matmul", {"A": a, "B": b}, {"C": (product.format(3, 5, 7), exact.astype(np.float32))})
    a, b = random.integers(-128, 128, (2, 9)).astype(np.int8), random.integers(-128, 128, (9, 3)).astype(np.int8)
    case("matmul_wraps", {"A": a, "B": b}, {"C": (product.format(2, 3, 9), a @ b)})


def convolution():
    x, w = floats(2, 9, 8, 3), floats(3, 2, 3, 4)
    out = np.zeros((2, 4, 4, 4))
    for y in range(4):
        for z in range(4):
            for ky in range(3):
                for kx in range(2):
                    row, column = 2 * y + 2 * ky - 1, 2 * z + kx - 1
                    if 0 <= row < 9 and 0 <= column < 8:
                        out[:, y, z] += x[:, row, column].astype(np.float64) @ w[ky, kx].astype(np.float64)
    node = (
        "contract sum [n, y, x, co] (n: 0..2, y: 0..4, x: 0..4, co: 0..4, ky: 0..3, kx: 0..2, ci: 0..3) "
        "{ v0 = %0[n, 2*y + 2*ky - 1, 2*x + kx - 1, ci]; v1 = %1[ky, kx, ci, co]; v2 = mul v0 v1; yield v2 }"
    )
    case("convolution", {"X": x, "W": w}, {"Y": (node, out.astype(np.float32))})


def pooling():
    x = floats(7)
    node = "contract max [i] (i: 0..{}, j: 0..2) where j >= 0, -j + 1 >= 0 {{ v0 = %0[2*i + j]; yield v0 }}"
    whole = x[:6].reshape(3, 2).max(axis=1)
    case("pool", {"X": x}, {"Down": (node.format(3), whole), "Up": (node.format(4), np.append(whole, x[6]))})


def sums_and_positions():
    x, d = floats(6), floats(8)
    node = "contract sum [i] (i: 0..6, k: 0..6) where k >= 0, -k + 5 >= 0 { v0 = %0[i - k]; yield v0 }"
    case("cumulative_sum", {"X": x}, {"Y": (node, np.cumsum(x.astype(np.float64)).astype(np.float32))})
    default = d.copy()
    default[1:7] = x
    case("default", {"X": x, "D": d}, {"Y": ("contract max [i + 1] (i: 0..6) default %1 { v0 = %0[i]; yield v0 }", default)})
    m = random.integers(-3, 3, (4, 5)).astype(np.int16)
    node = "contract {} [i] (i: 0..4, j: 0..5) {{ v0 = %0[i, j]; yield v0 }}"
    outputs = {
        "Largest": (node.format("argmax"), m.argmax(axis=1).astype(np.int32)),
        "Least": (node.format("argmin"), m.argmin(axis=1).astype(np.int32)),
        "Product": (node.format("product"), m.prod(axis=1, dtype=np.int16)),
        "Min": (node.format("min"), m.min(axis=1)),
    }
    case("positions", {"X": m}, outputs)


def casts():
    x = np.array([-1.5, 0.0, 0.25, 2.5, 126.75, -127.9, 1000.5, 65519.0], dtype=np.float32)
    outputs = {
        "ToI8": ("cast %0", np.trunc(x).clip(-128, 127).astype(np.int8)),
        "ToU8": ("cast %0", np.trunc(x).clip(0, 255).astype(np.uint8)),
        "ToF16": ("cast %0", x.astype(np.float16)),
        "ToF64": ("cast %0", x.astype(np.float64)),
        "ToBool": ("cast %0", x.astype(bool)),
    }
    case("casts_of_floats", {"X": x}, outputs)
    x = np.array([-1, 0, 127, 128, 300, -129, 2**31 - 1, -(2**31)], dtype=np.int32)
    names = ["int8", "uint8", "int16", "uint16", "int64", "uint64", "float16", "float32", "float64", "bool"]
    with np.errstate(over="ignore"):
        outputs = {f"To{name}": ("cast %0", x.astype(name)) for name in names}
    case("casts_of_integers", {"X": x}, outputs)


def integers():
    a = np.array([7, -7, 7, -7, 100, -128, 5, 0], dtype=np.int8)
    b = np.array([2, 2, -2, -2, 7, -1, 1, 9], dtype=np.int8)
    wide_a, wide_b = a.astype(int), b.astype(int)
    divided = (np.sign(wide_a) * np.sign(wide_b) * (abs(wide_a) // abs(wide_b))).astype(np.int8)
    outputs = {
        "Add": ("add %0 %1", a + b),
        "Sub": ("sub %0 %1", a - b),
        "Mul": ("mul %0 %1", a * b),
        "Div": ("div %0 %1", divided),
        "Max": ("max %0 %1", np.maximum(a, b)),
        "And": ("bit_and %0 %1", a & b),
        "Or": ("bit_or %0 %1", a | b),
        "Xor": ("bit_xor %0 %1", a ^ b),
        "Not": ("bit_not %0", ~a),
        "Abs": ("abs %0", np.abs(a)),
        "Less": ("cmp_lt %0 %1", a < b),
    }
    case("integers", {"A": a, "B": b}, outputs)
    for name in ["int16", "uint32", "int64", "uint8"]:
        bits = np.dtype(name).itemsize * 8
        a = np.array([1, 3, 100, 5, 77, 1], dtype=name) if name[0] == "u" else np.array([1, -3, 100, -5, -77, -1], dtype=name)
        b = np.array([0, 1, 3, bits - 1, bits, bits + 7], dtype=name)
        outputs = {"Left": ("bit_left %0 %1", np.left_shift(a, b)), "Right": ("bit_right %0 %1", np.right_shift(a, b))}
        case(f"shifts_of_{name}", {"A": a, "B": b}, outputs)


def functions():
    within = np.array([-0.9, -0.5, -0.1, 0.0, 0.2, 0.7, 0.99])
    any_x = np.array([-20.0, -3.0, -1.25, -0.5, -1e-3, 0.0, 0.1, 0.5, 1.0, 2.5, 6.0])
    positive = np.array([1e-3, 0.5, 1.0, 2.0, 10.0, 1e4])
    functions = {
        "acos": (np.arccos, within), "asin": (np.arcsin, within), "atanh": (np.arctanh, within),
        "acosh": (np.arccosh, 1.0 + positive), "asinh": (np.arcsinh, any_x), "atan": (np.arctan, any_x),
        "ceil": (np.ceil, any_x), "floor": (np.floor, any_x), "cos": (np.cos, any_x), "sin": (np.sin, any_x),
        "tan": (np.tan, any_x), "cosh": (np.cosh, any_x), "sinh": (np.sinh, any_x), "tanh": (np.tanh, any_x),
        "exp": (np.exp, any_x), "log": (np.log, positive), "log1p": (np.log1p, within), "sqrt": (np.sqrt, positive), "abs": (np.abs, any_x),
        "erf": (np.vectorize(math.erf), any_x), "recip": (lambda x: 1 / x, positive),
        "rsqrt": (lambda x: 1 / np.sqrt(x), positive), "neg": (lambda x: -x, any_x),
        "round": (lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), any_x),
    }
    for name, (function, x) in functions.items():
        for dtype in [np.float64, np.float32, np.float16]:
            given = x.astype(dtype)
            with np.errstate(over="ignore"):
                result = function(given.astype(np.float64)).astype(dtype)
            case(f"{name}_{TYPES[np.dtype(dtype).name]}", {"X": given}, {"Y": (f"{name} %0", result)})
    a, b = np.array([0.5, 2.0, 9.0, 1.5, 0.0]), np.array([2.0, -1.5, 0.5, 0.0, 3.0])
    case("pow", {"A": a, "B": b}, {"Y": ("pow %0 %1", a**b)})


for make in [products, convolution, pooling, sums_and_positions, casts, integers, functions]:
    make()
pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(cases))
