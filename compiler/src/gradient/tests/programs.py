"""Makes programs.txt: small programs with `grad`, and their results according to JAX and PyTorch, independent of this
project.

pip install numpy torch jax && python3 compiler/src/gradient/tests/programs.py

A case is a line `case NAME`, the indented program, and a line for each input and output, such as
`input NAME TYPE[SIZES] VALUE…`. Everything is computed in float64.
"""

import os
import pathlib

os.environ["JAX_ENABLE_X64"] = "1"

import jax
import jax.numpy as jnp
import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
random = np.random.default_rng(7)
blocks = []


def case(name, program, inputs, outputs):
    lines = [f"case {name}"] + ["    " + line for line in program.strip().replace("function (", "function case(").splitlines()]
    for kind, tensors in ("input", inputs), ("output", outputs):
        for key, value in tensors.items():
            value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
            kinds = {"i": "i32", "f": "f64", "b": "bool"}
            values = " ".join(repr(x.item()) for x in value.ravel())
            lines.append(f"{kind} {key} {kinds[value.dtype.kind]}[{', '.join(map(str, value.shape))}] {values}")
    blocks.append("\n".join(lines))


def normal(*shape):
    return np.round(random.standard_normal(shape), 3)


def by_torch(function, *arrays):
    """The gradients of a sum with respect to arrays."""
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    function(*tensors).backward()
    return [tensor.grad for tensor in tensors]


# Ties. PyTorch's amax and Keras' max share evenly; in pooling, the first one gets all.
X = np.array([[1.0, 3, 3, 0], [2, 2, 2, 2], [-1, -2, -3, -1]])
R = normal(3)
case(
    "ties_of_a_maximum",
    """
function (X[N, D], R[N]) -> (G) {
    M[n: N] = >(X[n, d]);
    G = grad(sum(M * R), X);
}""",
    {"X": X, "R": R},
    {"G": by_torch(lambda x: (x.amax(1) * torch.tensor(R)).sum(), X)[0]},
)
X = random.integers(0, 3, (1, 5, 6, 1)).astype(float)
pool = lambda x: torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2), 3, 2).permute(0, 2, 3, 1)
R = normal(1, 2, 2, 1)
case(
    "ties_in_overlapping_windows",
    """
function (X[N, H, W, C], R) -> (G) {
    P[n, y, x, c: N, 2, 2, C] = >(X[n, 2*y + i, 2*x + j, c]), i < 3, j < 3;
    G = grad(sum(P * R), X);
}""",
    {"X": X, "R": R},
    {"G": by_torch(lambda x: (pool(x) * torch.tensor(R)).sum(), X)[0]},
)
X = np.array([-1.5, -0.0, 0, 0.5, 6, 7])
case(
    "kinks",
    """
function (X[N]) -> (A, B, C) {
    A = grad(sum(abs(X)), X);
    B = grad(sum(relu(X)), X);
    C = grad(sum(relu6(X)), X);
}""",
    {"X": X},
    {
        "A": by_torch(lambda x: x.abs().sum(), X)[0],
        "B": by_torch(lambda x: x.relu().sum(), X)[0],
        "C": by_torch(lambda x: torch.nn.functional.relu6(x).sum(), X)[0],
    },
)
X, Y, R = np.array([1.0, 2, 3, -4]), np.array([2.0, 2, 1, -4]), normal(4)
greatest = by_torch(lambda x, y: (torch.maximum(x, y) * torch.tensor(R)).sum(), X, Y)
least = by_torch(lambda x, y: (torch.minimum(x, y) * torch.tensor(R)).sum(), X, Y)
case(
    "equal_operands",
    """
function (X[N], Y[N], R[N]) -> (A, B, C, D) {
    A, B = grad(sum(R * max(X, Y)), [X, Y]);
    C, D = grad(sum(R * min(X, Y)), [X, Y]);
}""",
    {"X": X, "Y": Y, "R": R},
    {"A": greatest[0], "B": greatest[1], "C": least[0], "D": least[1]},
)

# Products with no, one and two factors of 0; and their second derivatives.
X, R = np.array([[1.5, -2, 3, 0.5], [2, 0, 3, -1], [0, 1.5, 0, 2], [0, 0, 0, 1]]), normal(4)
V = normal(4, 4)
first = lambda x: jax.grad(lambda x: (jnp.prod(x, axis=1) * R).sum())(x)
exact = lambda x: jnp.stack([R * jnp.prod(jnp.delete(x, k, axis=1), axis=1) for k in range(4)], axis=1)
case(
    "products",
    """
function (X[N, D], R[N], V) -> (G, H) {
    P[n: N] = *(X[n, d]);
    G = grad(sum(P * R), X);
    H = grad(sum(G * V), X);
}""",
    {"X": X, "R": R, "V": V},
    {"G": exact(X), "H": jax.grad(lambda x: (exact(x) * V).sum())(X)},
)

# Gathers and scatters at indices known at run time, some of them repeated.
E, I, R = normal(5, 3), np.array([3, 0, 3, 3, 1, 4, 0], np.int32), normal(7, 3)
S, T = normal(7, 3), normal(6, 3)
case(
    "gather_and_scatter",
    """
function (E[V, D], I[N], R, S, T) -> (G, H, K) {
    Rows = gather(E, I);
    G = grad(sum(Rows * Rows * R), E);
    Table = scatter(S, I, T);
    H = grad(sum(Table * Table * T), S);
    W[n, d: N, D] = +(E[I[n], d] * S[n, d]);
    K = grad(sum(grad(sum(W * W * R), S)), E);
}""",
    {"E": E, "I": I, "R": R, "S": S, "T": T},
    {
        "G": jax.grad(lambda e: (e[I] ** 2 * R).sum())(E),
        "H": jax.grad(lambda s: (jnp.zeros((6, 3)).at[I].add(s) ** 2 * T).sum())(S),
        "K": jax.grad(lambda e: jax.grad(lambda s: ((e[I] * s) ** 2 * R).sum())(S).sum())(E),
    },
)

# Writes to every second place, with a default for the others; a cumulative sum; a select.
A, D, R = normal(3), normal(7), normal(7)
written = lambda a, d: jnp.asarray(d).at[jnp.arange(3) * 2 + 1].set(jnp.exp(a))
case(
    "default_and_fractions",
    """
function (A[N], D[M], R[M]) -> (G, H, C) {
    E = exp(A);
    Y[i: M] = =(E[(i - 1)/2]) default D;
    G, H = grad(sum(Y * Y * R), [A, D]);
    Z[i: M] = +(D[i - k]), k < M;
    C = grad(sum(Z * Z * R), D);
}""",
    {"A": A, "D": D, "R": R},
    {
        "G": jax.grad(lambda a: (written(a, D) ** 2 * R).sum())(A),
        "H": jax.grad(lambda d: (written(A, d) ** 2 * R).sum())(D),
        "C": jax.grad(lambda d: (jnp.cumsum(d) ** 2 * R).sum())(D),
    },
)
A, B, C = np.array([1.0, 2, 3]), np.array([3.0, 1, 5, 1]), normal(3, 4)
case(
    "selection",
    """
function (A[N], B[M], C[N, M]) -> (GA, GC) {
    Y[n: N] = +(A[n] == B[m] ? C[n, m]);
    L = sum(Y * Y * A);
    GA, GC = grad(L, [A, C]);
}""",
    {"A": A, "B": B, "C": C},
    dict(
        zip(
            ["GA", "GC"],
            jax.grad(lambda a, c: (jnp.where(A[:, None] == B, c, 0).sum(1) ** 2 * a).sum(), argnums=(0, 1))(A, C),
        )
    ),
)

X, W = normal(5), normal(3)
case(
    "what_falls_outside",
    """
function (X[N], W[M]) -> (GX, GW) {
    Y[i + j: N] = +(X[i] * W[j]);
    GX, GW = grad(sum(Y), [X, W]);
}""",
    {"X": X, "W": W},
    dict(zip(["GX", "GW"], jax.grad(lambda x, w: jnp.convolve(x, w)[:5].sum(), argnums=(0, 1))(X, W))),
)

# Losses, and a gradient of a gradient.
Z, T = normal(4, 5), np.eye(5)[[0, 2, 4, 1]]
entropy = lambda z: -(T * jax.nn.log_softmax(z)).sum(1).mean()
case(
    "softmax_cross_entropy",
    """
function (Z[N, C], T[N, C]) -> (G, D) {
    Rows[n: N] = +(T[n, c] * -log_softmax(Z)[n, c]);
    L = sum(Rows) / N;
    G = grad(L, Z);
    P = sum(softmax(Z) * T);
    D = grad(sum(G * G) + P, Z);
}""".replace("-log_softmax(Z)[n, c]", "Lost[n, c]").replace("    Rows", "    Lost = -log_softmax(Z);\n    Rows"),
    {"Z": Z, "T": T},
    {
        "G": jax.grad(entropy)(Z),
        "D": jax.grad(lambda z: (jax.grad(entropy)(z) ** 2).sum() + (jax.nn.softmax(z) * T).sum())(Z),
    },
)
X, V, W = normal(4, 3), normal(3, 5), normal(5)
score = lambda x, v, w: jnp.tanh(x @ v) @ w
penalty = lambda v, w: ((jnp.linalg.norm(jax.grad(lambda x: score(x, v, w).sum())(X), axis=1) - 1) ** 2).mean()
case(
    "gradient_penalty",
    """
function (X[N, D], V[D, H], W[H]) -> (P, GV, GW) {
    Z[n, h: N, H] = +(X[n, d] * V[d, h]);
    Y = tanh(Z);
    S[n: N] = +(Y[n, h] * W[h]);
    Slope = grad(sum(S), X);
    Squares[n: N] = +(Slope[n, d] * Slope[n, d]);
    Off = sqrt(Squares) - 1;
    P = sum(Off * Off) / N;
    GV, GW = grad(P, [V, W]);
}""",
    {"X": X, "V": V, "W": W},
    {"P": penalty(V, W), **dict(zip(["GV", "GW"], jax.grad(penalty, argnums=(0, 1))(V, W)))},
)
X, W = normal(1, 6, 5, 2), normal(3, 3, 2, 3)
convolution = lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 1), ((1, 1), (0, 2)), dimension_numbers=("NHWC", "HWIO", "NHWC"))
slope = lambda w: (jax.grad(lambda x: (convolution(x, w) ** 3).sum())(X) ** 2).sum()
case(
    "second_derivative_of_a_convolution",
    """
function (X[N, H, L, C], W[K, M, C, O]) -> (G) {
    Y[n, y, x, o: N, 3, 5, O] = +(X[n, 2*y + i - 1, x + j, c] * W[i, j, c, o]);
    D = grad(sum(Y * Y * Y), X);
    G = grad(sum(D * D), W);
}""",
    {"X": X, "W": W},
    {"G": jax.grad(slope)(W)},
)
X = normal(5)
case(
    "stopped_and_reversed",
    """
function (X[N]) -> (A, B, Y) {
    A = grad(sum(X * stop_gradient(X * X)), X);
    Y = reverse_grad(X * X, 0.5);
    B = grad(sum(Y * Y), X);
}""",
    {"X": X},
    {"A": X * X, "B": -0.5 * 4 * X**3, "Y": X * X},
)

# Loops with a captured matrix, number and vector; with a carry, with a yield, and with both.
X, H, U, B, C = normal(2, 4, 3), normal(2, 3), normal(3, 3), normal(3), np.array(0.7)


def states(x, h, u, b, c):
    def step(h, z):
        h = jnp.tanh(z + h @ u + b) * c
        return h, h * z

    last, all = jax.lax.scan(step, h, x.transpose(1, 0, 2))
    return last, all.transpose(1, 0, 2)


def total(*inputs):
    last, all = states(*inputs)
    return (last**2).sum() + (all**3).sum()


names = ["X", "H", "U", "B", "C"]
given = dict(zip(names, [X, H, U, B, C]))
every = jax.grad(total, argnums=range(5))
LOOP = """
    State = H;
    scan Z in X along 1 {
        R[n, k: N, K] = +(State[n, j] * U[j, k]);
        State = tanh(Z + R + B) * C;
        yield All = State * Z;
    }
    L = sum(State * State) + sum(All * All * All);"""
case(
    "loop",
    f"""
function (X[N, T, K], H[N, K], U[K, K], B[K], C[]) -> (GX, GH, GU, GB, GC) {{{LOOP}
    GX, GH, GU, GB, GC = grad(L, [X, H, U, B, C]);
}}""",
    given,
    {f"G{name}": g for name, g in zip(names, every(*given.values()))},
)
squares = lambda *inputs: sum((g**2).sum() for g in every(*inputs))
case(
    "loop_twice",
    f"""
function (X[N, T, K], H[N, K], U[K, K], B[K], C[]) -> (GX, GU, GC) {{{LOOP}
    DX, DH, DU, DB, DC = grad(L, [X, H, U, B, C]);
    Q = sum(DX * DX) + sum(DH * DH) + sum(DU * DU) + sum(DB * DB) + DC * DC;
    GX, GU, GC = grad(Q, [X, U, C]);
}}""",
    given,
    dict(zip(["GX", "GU", "GC"], jax.grad(squares, argnums=(0, 2, 4))(*given.values()))),
)


# A gradient in a loop, and the gradient of that.
X, A, S = normal(3), normal(3), np.array([0.1, 0.2, 0.05, 0.1])


def descended(x):
    for s in S:
        x = x - s * 3 * x**2 * A
    return x


case(
    "descent",
    """
function (X[N], A[N], S[T]) -> (Y, G) {
    W = X;
    scan Rate in S along 0 {
        W = W - Rate * grad(sum(W * W * W * A), W);
    }
    Y = W;
    G = grad(sum(Y * Y), X);
}""",
    {"X": X, "A": A, "S": S},
    {"Y": descended(X), "G": jax.grad(lambda x: (descended(x) ** 2).sum())(X)},
)

(HERE / "programs.txt").write_text("\n\n".join(blocks) + "\n")
print(len(blocks), "cases")
