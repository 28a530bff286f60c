"""Activation functions, applied as they are and with their parameters."""

from cases import Family, keras, normal, np, values


def sparsemax(x=None, axis=-1):
    """The nearest point of the simplex, by bisection: the threshold above which the elements sum to 1. Keras' own (3.15) adds
    up sums that are already cumulative, and gives no point of the simplex at all."""
    if x is None:
        return lambda x: sparsemax(x, axis)
    x = keras.ops.convert_to_numpy(x)
    high = x.max(axis, keepdims=True)
    low = high - 1
    for _ in range(60):
        middle = (low + high) / 2
        above = np.maximum(x - middle, 0).sum(axis, keepdims=True) > 1
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.maximum(x - low, 0)


family = Family("activation", {"sparsemax": sparsemax})

# Where the functions bend, between, and where naive formulas overflow.
BENDS = values(
    -6, -4.5, -3, -2.5, -2.25, -1, -0.75, -0.5, -0.25, -0.01, 0, 0.01, 0.25, 0.5, 0.75, 1, 1.75, 2.5, 3, 5.5, 6, 7
)
LARGE = values(11, 20, 50, 88, 89, 100, 1000)


def negative_large(random):
    return -LARGE(random)


ELEMENTWISE = """celu elu exponential gelu hard_shrink hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu linear log_sigmoid
mish relu relu6 selu sigmoid silu soft_shrink softplus softsign sparse_plus sparse_sigmoid squareplus swish tanh tanh_shrink""".split()
PARAMETERS = [
    "celu(alpha = 0.5)",
    "elu(alpha = 0.5)",
    "gelu(approximate = true)",
    "hard_shrink(threshold = 1.0)",
    "leaky_relu(negative_slope = 0.1)",
    "relu(negative_slope = 0.1)",
    "relu(max_value = 2.0)",
    "relu(threshold = 1.0)",
    "relu(0.25, 5.0, 0.5)",
    "soft_shrink(threshold = 0.25)",
    "squareplus(b = 2)",
    "threshold(threshold = 0.5, default_value = -2.0)",
]


def apply(name, function, **inputs):
    family.body(name, [f"Y = {function}({', '.join(inputs)})"], **inputs)


for function in ELEMENTWISE:
    apply(function, function, X=BENDS)
    apply(f"{function}_of_tensor", function, X=normal(3, 5, 4, scale=2.0))
    if function != "exponential":
        apply(f"{function}_large", function, X=LARGE)
    apply(f"{function}_negative_large", function, X=negative_large)
for number, function in enumerate(PARAMETERS):
    apply(f"{function.split('(')[0]}_parameters_{number}", function, X=BENDS)

for function in ["softmax", "log_softmax", "sparsemax"]:
    apply(function, function, X=normal(5, 7, scale=2.0))
    apply(f"{function}_of_tensor", function, X=normal(2, 3, 4, 5, scale=2.0))
    apply(f"{function}_axis", f"{function}(axis = 1)", X=normal(2, 5, 3, scale=2.0))
    apply(f"{function}_large", function, X=normal(3, 5, mean=1000.0, scale=20.0))
apply("softmax_long", "softmax", X=normal(2, 1001, scale=4.0))
apply("glu", "glu", X=normal(3, 8, scale=2.0))
apply("glu_axis", "glu(axis = 1)", X=normal(2, 6, 3, scale=2.0))
