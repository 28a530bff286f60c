"""Makes initializers.txt and threefry.txt: what the first values of weights must be like.

    python3 tests/golden/layers/initializers.py

Random weights cannot be Keras' own to the bit, but their distribution is documented. A case is the body of a model, its
inputs, and for some of its weights a line

    PATH [SIZES] KIND PARAMETER…

    constant V              every element is V
    identity V              the identity matrix, times V
    orthogonal V            as a matrix of [all sizes but the last, the last], rows or columns are orthogonal, and V long
    uniform LOW HIGH        not LOW and HIGH themselves, but as close as the number of elements makes likely
    normal MEAN DEVIATION
    truncated MEAN DEVIATION     normal, drawn again beyond two DEVIATIONs: its own deviation is 0.8796… of that
    parts V V …             as many equal parts along the last axis, each of this value

The parameters are computed here from the documented formulas; Keras' own weights are held to them by the test that the
project's are held to: the mean, the variance, and the least and greatest element.
"""

import math

from cases import HERE, Names, generator, keras, np

# The deviation of the normal distribution between -2 and 2: sqrt(1 - 2 * 2 * pdf(2) / (cdf(2) - cdf(-2))).
TRUNCATED = math.sqrt(1 - 4 * math.exp(-2) / math.sqrt(2 * math.pi) / math.erf(math.sqrt(2)))
cases = []


def case(name, expression, inputs, call="Y = layer(X)", **weights):
    cases.append((name, [f"layer = {expression}", call], inputs, weights))


def fans(shape):
    """What comes in to an output, and goes out from an input: [kernel sizes…, in, out]."""
    if len(shape) == 1:
        return shape[0], shape[0]
    field = math.prod(shape[:-2])
    return field * shape[-2], field * shape[-1]


def scaled(shape, scale, mode, distribution):
    fan_in, fan_out = fans(shape)
    variance = scale / {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
    if distribution == "uniform":
        limit = math.sqrt(3 * variance)
        return f"uniform {-limit} {limit}"
    if distribution == "untruncated_normal":
        return f"normal 0 {math.sqrt(variance)}"
    return f"truncated 0 {math.sqrt(variance) / TRUNCATED}"


def glorot(*shape):
    return shape, scaled(shape, 1, "fan_avg", "uniform")


DENSE = dict(inputs={"X": (2, 200)}, shape=(200, 300), start="Dense(300, kernel_initializer = {})")
CONVOLUTION = dict(
    inputs={"X": (1, 4, 5, 40)}, shape=(3, 2, 40, 60), start="Conv2D(60, [3, 2], kernel_initializer = {})"
)


def kernel(name, initializer, kind, of=DENSE):
    kind = kind if isinstance(kind, str) else scaled(of["shape"], *kind)
    case(name, of["start"].format(initializer), of["inputs"], Kernel=(of["shape"], kind))


FAMILY = {
    "glorot_uniform": (1, "fan_avg", "uniform"),
    "glorot_normal": (1, "fan_avg", "truncated_normal"),
    "he_uniform": (2, "fan_in", "uniform"),
    "he_normal": (2, "fan_in", "truncated_normal"),
    "lecun_uniform": (1, "fan_in", "uniform"),
    "lecun_normal": (1, "fan_in", "truncated_normal"),
}
for name, scaling in FAMILY.items():
    kernel(name, name, scaling)
    kernel(f"{name}_of_convolution", f"{name}()", scaling, CONVOLUTION)
for mode in ["fan_in", "fan_out", "fan_avg"]:
    for distribution in ["truncated_normal", "untruncated_normal", "uniform"]:
        expression = f"variance_scaling(scale = 0.5, mode = {mode}, distribution = {distribution})"
        kernel(f"variance_scaling_{mode}_{distribution}", expression, (0.5, mode, distribution), CONVOLUTION)
kernel("variance_scaling", "variance_scaling()", (1, "fan_in", "truncated_normal"))
kernel("zeros", "zeros", "constant 0")
kernel("ones", "ones()", "constant 1")
kernel("constant", "constant(2.5)", "constant 2.5")
kernel("random_normal", "random_normal()", "normal 0 0.05")
kernel("random_normal_parameters", "random_normal(mean = 1.0, stddev = 0.5)", "normal 1 0.5")
kernel("random_uniform", "random_uniform()", "uniform -0.05 0.05")
kernel("random_uniform_parameters", "random_uniform(minval = 1.0, maxval = 3.0)", "uniform 1 3")
kernel("truncated_normal", "truncated_normal()", "truncated 0 0.05")
kernel("truncated_normal_parameters", "truncated_normal(mean = 1.0, stddev = 0.5)", "truncated 1 0.5")
small = dict(inputs={"X": (2, 12)}, shape=(12, 20), start="Dense(20, kernel_initializer = {})")
kernel("identity", "identity()", "identity 1", small)
kernel("identity_gain", "identity(gain = 2.0)", "identity 2", small)
kernel("orthogonal_wide", "orthogonal()", "orthogonal 1", small)
tall = dict(inputs={"X": (1, 4, 4, 5)}, shape=(3, 3, 5, 7), start="Conv2D(7, 3, kernel_initializer = {})")
kernel("orthogonal_tall", "orthogonal(gain = 2.0)", "orthogonal 2", tall)
square = dict(inputs={"X": (2, 33)}, shape=(33, 33), start="Dense(33, kernel_initializer = {})")
kernel("orthogonal_square", "orthogonal", "orthogonal 1", square)

# What layers begin with where nothing is said.
ZERO, ONE = "constant 0", "constant 1"
case("dense", "Dense(300)", {"X": (2, 200)}, Kernel=glorot(200, 300), Bias=((300,), ZERO))
case(
    "embedding",
    "Embedding(100, 64)",
    {"Tokens": (2, 3)},
    "Y = layer(Tokens)",
    Embeddings=((100, 64), "uniform -0.05 0.05"),
)
case("conv2d", "Conv2D(60, 3)", {"X": (1, 4, 4, 40)}, Kernel=glorot(3, 3, 40, 60), Bias=((60,), ZERO))
case("conv2d_groups", "Conv2D(60, 3, groups = 4)", {"X": (1, 4, 4, 40)}, Kernel=glorot(3, 3, 10, 60))
case("conv2d_transpose", "Conv2DTranspose(60, 3)", {"X": (1, 4, 4, 40)}, Kernel=glorot(3, 3, 60, 40))
case("depthwise_conv2d", "DepthwiseConv2D(3)", {"X": (1, 4, 4, 512)}, Kernel=glorot(3, 3, 512, 1))
case(
    "separable_conv2d",
    "SeparableConv2D(60, 3)",
    {"X": (1, 4, 4, 512)},
    DepthwiseKernel=glorot(3, 3, 512, 1),
    PointwiseKernel=glorot(1, 1, 512, 60),
    Bias=((60,), ZERO),
)
case(
    "batch_normalization",
    "BatchNormalization()",
    {"X": (2, 5)},
    Gamma=((5,), ONE),
    Beta=((5,), ZERO),
    MovingMean=((5,), ZERO),
    MovingVariance=((5,), ONE),
)
case("layer_normalization", "LayerNormalization()", {"X": (2, 5)}, Gamma=((5,), ONE), Beta=((5,), ZERO))
case("rms_normalization", "RMSNormalization()", {"X": (2, 5)}, Scale=((5,), ONE))
case("p_relu", "PReLU()", {"X": (2, 5)}, Alpha=((5,), ZERO))
for kind, gates in [("SimpleRNN", 1), ("GRU", 3), ("LSTM", 4)]:
    bias = {
        "SimpleRNN": ((33,), ZERO),
        "GRU": ((2, 99), ZERO),
        "LSTM": ((132,), "parts 0 1 0 0"),
    }[kind]
    weights = dict(Kernel=glorot(50, 33 * gates), RecurrentKernel=((33, 33 * gates), "orthogonal 1"), Bias=bias)
    case(kind.lower(), f"{kind}(33)", {"X": (2, 3, 50)}, **weights)
for kind, gates in [("SimpleRNNCell", 1), ("GRUCell", 3), ("LSTMCell", 4)]:
    bias = {1: ((33,), ZERO), 3: ((2, 99), ZERO), 4: ((132,), "parts 0 1 0 0")}[gates]
    weights = dict(Kernel=glorot(50, 33 * gates), RecurrentKernel=((33, 33 * gates), "orthogonal 1"), Bias=bias)
    states = {state: (2, 33) for state in ("HC" if gates == 4 else "H")}
    call = f"Y, States = layer(X, [{', '.join(states)}])"
    case(kind.lower(), f"{kind}(33)", {"X": (2, 50), **states}, call, **weights)
case(
    "conv_lstm2d",
    "ConvLSTM2D(12, 3)",
    {"X": (1, 2, 4, 4, 40)},
    Kernel=glorot(3, 3, 40, 48),
    RecurrentKernel=((3, 3, 12, 48), "orthogonal 1"),
    Bias=((48,), "parts 0 1 0 0"),
)
case(
    "spectral_normalization",
    "SpectralNormalization(Dense(300))",
    {"X": (2, 200)},
    **{"layer.Kernel": glorot(200, 300), "layer.Bias": ((300,), ZERO), "norm.VectorU": ((1, 300), "truncated 0 0.02")},
)
case("lstm_forgetful", "LSTM(33, unit_forget_bias = false)", {"X": (2, 3, 50)}, Bias=((132,), ZERO))
case(
    "multi_head_attention",
    "MultiHeadAttention(8, 16)",
    {"X": (2, 3, 100)},
    "Y = layer(X, X)",
    **{
        "query.Kernel": ((100, 8, 16), glorot(100, 8 * 16)[1]),  # the fans are the equation's, not the shape's
        "value.Kernel": ((100, 8, 16), glorot(100, 8 * 16)[1]),
        "query.Bias": ((8, 16), ZERO),
        "output.Kernel": ((8, 16, 100), glorot(8 * 16, 100)[1]),
        "output.Bias": ((100,), ZERO),
    },
)
case("additive_attention", "AdditiveAttention()", {"X": (2, 3, 100)}, "Y = layer(X, X)", Scale=glorot(100))


def complaint(array, kind, *parameters):
    """What is wrong with the first values of a weight, or None: what tests/layers.rs says too."""
    parameters = [float(p) for p in parameters]
    matrix = array.reshape(-1, array.shape[-1])
    if kind == "constant":
        return None if (array == parameters[0]).all() else "not constant"
    if kind == "parts":
        parts = np.split(array, len(parameters), axis=-1)
        return None if all((p == v).all() for p, v in zip(parts, parameters)) else "other parts"
    if kind == "identity":
        return None if (matrix == parameters[0] * np.eye(*matrix.shape)).all() else "not the identity"
    if kind == "orthogonal":
        matrix = matrix if matrix.shape[0] < matrix.shape[1] else matrix.T
        error = np.abs(matrix @ matrix.T - parameters[0] ** 2 * np.eye(len(matrix))).max()
        return None if error < 1e-5 * parameters[0] ** 2 else f"off by {error}"
    if kind == "uniform":
        low, high = parameters
        mean, deviation, fourth = (low + high) / 2, (high - low) / math.sqrt(12), 1.8
    else:
        mean, deviation, fourth = *parameters, 3.0
        low, high = (mean - 2 * deviation, mean + 2 * deviation) if kind == "truncated" else (-math.inf, math.inf)
        deviation *= TRUNCATED if kind == "truncated" else 1
    n = array.size
    if (array < low - 1e-6).any() or (array > high + 1e-6).any():
        return "outside"
    # Chances of such a difference are one in two million, each.
    if abs(array.mean() - mean) > 5 * deviation / math.sqrt(n):
        return f"mean {array.mean()}, not {mean}"
    if abs(array.var() / deviation**2 - 1) > 5 * math.sqrt((fourth - 1) / n):
        return f"deviation {array.std()}, not {deviation}"
    # At either end of a bounded distribution is an element, but for a chance of e^-20.
    if kind != "normal" and max(array.min() - low, high - array.max()) > (high - low) * 60 / n:
        return f"from {array.min()} to {array.max()}"
    return None


def write_initializers():
    text = []
    for name, statements, inputs, weights in cases:
        keras.utils.set_random_seed(1)
        names = Names({n: keras.ops.convert_to_tensor(np.zeros(shape)) for n, shape in inputs.items()})
        for statement in statements:
            exec(statement, {}, names)
        lines = [f"case {name}"] + [f"    {statement};" for statement in statements]
        lines += [f"input {n} {'i32' if n == 'Tokens' else 'f32'}{list(shape)}" for n, shape in inputs.items()]
        for path, (shape, kind) in weights.items():
            array = names["layer"].get(path)
            assert array.shape == shape, (name, path, array.shape)
            assert not complaint(array, *kind.split()), (name, path, complaint(array, *kind.split()))
            lines.append(f"weight layer.{path} {list(shape)} {kind}")
        lines.append(f"output Y f32{list(names['Y'].shape)}")
        text.append("\n".join(lines))
    (HERE / "initializers.txt").write_text("\n\n".join(text) + "\n")
    print(f"{len(text)} cases of initializers")


def write_threefry():
    """Blocks of Threefry-2x32 with 20 rounds, `KEY KEY COUNTER COUNTER RESULT RESULT`: first the known answers of Random123
    (Salmon, Moraes, Dror and Shaw, 2011), then what jax computes."""
    from jax.extend.random import threefry_2x32

    known = """
        00000000 00000000 00000000 00000000 6b200159 99ba4efe
        ffffffff ffffffff ffffffff ffffffff 1cb996fc bb002be7
        13198a2e 03707344 243f6a88 85a308d3 c4923a9c 483df7a0
    """
    blocks = [[int(word, 16) for word in line.split()] for line in known.strip().splitlines()]
    random = generator("threefry")
    words = random.integers(0, 2**32, (29, 4))
    words[:4] = [[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    blocks = np.concatenate([np.array(blocks)[:, :4], words]).astype(np.uint32)
    results = [np.asarray(threefry_2x32(block[:2], block[2:])) for block in blocks]
    lines = [" ".join(f"{word:08x}" for word in [*block, *result]) for block, result in zip(blocks, results)]
    assert lines[:3] == [" ".join(line.split()) for line in known.strip().splitlines()]
    (HERE / "threefry.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_initializers()
    write_threefry()
