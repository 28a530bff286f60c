#!/usr/bin/env python3
"""How long tilec takes for a step of training, and PyTorch for the same one, in turn on the same machine.

    pip install numpy torch
    cargo build --release && python3 benches/training.py [--tilec target/release/tilec] [--rounds 5] [WORKLOAD…]
    pip install jax && python3 benches/training.py --jax

A step is forward, backward and Adam, with its batch taken from memory. `tilec train` runs some epochs, of which the first, which compiles, is not
counted; PyTorch runs as many steps, warmed up as long. A line has both fastest epochs, the medians of the rounds' medians, and the median of the
rounds' ratios, tilec's time to PyTorch's. Where other programs run, believe the fastest. Seconds to compile are those of the first epoch beyond
the others.

`--jax` measures `mnist-mlp` beside JAX instead, where each epoch is one compiled loop over its batches.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

THREADS = os.cpu_count()
EPOCHS = 6


def lstm(length):
    """One layer of 128 units over steps of 128 numbers, batch 32; its last output to one number."""
    text = """
model Lstm(X[N, T, 128]) -> (Y) { Y = X |> LSTM(128) |> Dense(1); }
train Lstm { loss = MeanSquaredError(); optimizer = Adam(); batch_size = 32; }
"""

    def data(random, samples):
        return random.standard_normal((samples, length, 128), "float32"), random.standard_normal((samples, 1), "float32")

    def model(torch):
        layer, head = torch.nn.LSTM(128, 128, batch_first=True), torch.nn.Linear(128, 1)
        forward = lambda x: head(layer(x)[0][:, -1])
        return [*layer.parameters(), *head.parameters()], forward, torch.nn.MSELoss()

    return text, data, model, 32, max(4, 4000 // length)


def embedding():
    """A table of 50,000 rows of 128, 32 x 128 of which make a step, summed and classified."""
    text = """
model Words(Tokens[N, T]) -> (Logits) {
    X = Tokens |> Embedding(50000, 128);
    Mean[n, d: N, 128] = +(X[n, t, d]);
    Logits = Mean / T |> Dense(4);
}
train Words { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = Adam(); batch_size = 32; }
"""

    def data(random, samples):
        tokens = random.integers(0, 50000, (samples, 128), "int32")
        return tokens, random.integers(0, 4, samples, "int32")

    def model(torch):
        table, head = torch.nn.Embedding(50000, 128), torch.nn.Linear(128, 4)
        forward = lambda x: head(table(x).mean(1))
        loss = torch.nn.CrossEntropyLoss()
        return [*table.parameters(), *head.parameters()], forward, lambda y, t: loss(y, t.long())

    return text, data, model, 32, 20


def model_file(name):
    with open(os.path.join(os.path.dirname(__file__), "..", "examples", "models", name)) as file:
        return file.read()


def gpt():
    """The small GPT of examples/models, without its clipping of gradients: 32 pieces of 64 bytes, four layers of 128."""
    text = model_file("gpt.tile").partition("train Gpt")[0] + """
train Gpt { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = Adam(); batch_size = 32; }
"""

    def data(random, samples):
        tokens = random.integers(0, 256, (samples, 65), "int32")
        return tokens[:, :-1].copy(), tokens[:, 1:].copy()

    def model(torch):
        nn = torch.nn
        gelu = lambda x: nn.functional.gelu(x, approximate="tanh")
        tokens, places = nn.Embedding(256, 128), nn.Embedding(64, 128)
        layers = [nn.TransformerEncoderLayer(128, 4, 512, 0.1, gelu, batch_first=True, norm_first=True) for _ in range(4)]
        head = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 256, bias=False))
        mask = nn.Transformer.generate_square_subsequent_mask(64)

        def forward(x):
            x = tokens(x) + places.weight
            for layer in layers:
                x = layer(x, src_mask=mask, is_causal=True)
            return head(x)

        loss = nn.CrossEntropyLoss()
        parameters = [parameter for part in [tokens, places, *layers, head] for parameter in part.parameters()]
        return parameters, forward, lambda y, t: loss(y.flatten(0, 1), t.long().flatten())

    return text, data, model, 32, 20


def digits(name, batch, steps, layers):
    """A network of examples/models on made-up digits; PyTorch's is that of these layers."""
    text = model_file(name)

    def data(random, samples):
        return random.integers(0, 256, (samples, 28, 28), "uint8"), random.integers(0, 10, samples, "int32")

    def model(torch):
        network = torch.nn.Sequential(*layers(torch.nn))
        loss = torch.nn.CrossEntropyLoss()
        return [*network.parameters()], lambda x: network(x / 255), lambda y, t: loss(y, t.long())

    return text, data, model, batch, steps


def mlp():
    layers = lambda nn: [nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)]
    return digits("mnist_mlp.tile", 32, 282, layers)


def cnn():
    def layers(nn):
        convolution = lambda inputs, outputs: [nn.Conv2d(inputs, outputs, 5, padding=2), nn.ReLU()]
        return [nn.Unflatten(1, (1, 28)), *convolution(1, 32), *convolution(32, 64), nn.Flatten(), nn.Linear(784 * 64, 10)]

    return digits("mnist_cnn.tile", 128, 20, layers)


# What makes a workload: its program, its samples, its rival, the samples of a step and the steps of an epoch.
WORKLOADS = {
    "mnist-mlp": mlp,
    "mnist-cnn": cnn,
    "lstm-20": lambda: lstm(20),
    "lstm-200": lambda: lstm(200),
    "lstm-2000": lambda: lstm(2000),
    "embedding": embedding,
    "gpt": gpt,
}


def samples(workload):
    import numpy

    _, data, _, batch, steps = WORKLOADS[workload]()
    return data(numpy.random.default_rng(1), batch * steps)


def rival(workload):
    """Seconds of a step in each epoch of PyTorch."""
    import torch

    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    _, _, model, batch, steps = WORKLOADS[workload]()
    x, y = map(torch.from_numpy, samples(workload))
    parameters, forward, loss = model(torch)
    optimizer = torch.optim.Adam(parameters)
    times = []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        for step in range(steps):
            part = slice(step * batch, (step + 1) * batch)
            optimizer.zero_grad()
            loss(forward(x[part]), y[part]).backward()
            optimizer.step()
        times.append((time.perf_counter() - start) / steps)
    return times


def jax_rival():
    """Seconds of a step in each epoch of JAX, for `mnist-mlp`: one compiled loop of forward, backward and Adam."""
    import jax
    import jax.numpy as jnp

    batch, steps = WORKLOADS["mnist-mlp"]()[3:]
    x, y = samples("mnist-mlp")
    batches = (jnp.asarray(x).reshape(steps, batch, 784), jnp.asarray(y).reshape(steps, batch))

    def loss(weights, x, y, key):
        (a, b), (c, d) = weights
        hidden = jax.nn.relu(x.astype(jnp.float32) / 255 @ a + b)
        hidden = jnp.where(jax.random.bernoulli(key, 0.8, hidden.shape), hidden / 0.8, 0)
        return -jnp.take_along_axis(jax.nn.log_softmax(hidden @ c + d), y[:, None], 1).mean()

    def step(state, batch):
        weights, means, squares, count, key = state
        key, own = jax.random.split(key)
        gradients = jax.grad(loss)(weights, *batch, own)
        count = count + 1
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
        squares = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, gradients)
        rate = 0.001 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-7), weights, means, squares)
        return (weights, means, squares, count, key), None

    epoch = jax.jit(lambda state: jax.lax.scan(step, state, batches)[0], donate_argnums=0)
    key = jax.random.key(1)
    layer = lambda rows, columns: (jax.random.normal(key, (rows, columns)) / rows**0.5, jnp.zeros(columns))
    zeros = lambda: jax.tree.map(jnp.zeros_like, [layer(784, 128), layer(128, 10)])
    state = ([layer(784, 128), layer(128, 10)], zeros(), zeros(), jnp.float32(0), key)
    times = []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        state = jax.block_until_ready(epoch(state))
        times.append((time.perf_counter() - start) / steps)
    return times


def ours(workload, tilec, folder):
    """Seconds of a step in each epoch of tilec."""
    import numpy

    text, _, _, _, steps = WORKLOADS[workload]()
    program, data, log = (os.path.join(folder, name) for name in ("model.tile", "data.npz", "log.jsonl"))
    if not os.path.exists(data):
        x, y = samples(workload)
        numpy.savez(data, x_train=x, y_train=y)
        with open(program, "w") as file:
            file.write(text)
    command = [tilec, "train", program, "--data", data, "--device", "cpu", "--epochs", str(EPOCHS), "--log", log, "--quiet"]
    subprocess.check_call(command)
    with open(log) as lines:
        return [json.loads(line)["seconds"] / steps for line in lines]


def compare(workload, tilec, rounds, rival):
    found = {"tilec": [], "rival": []}
    compiling = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            first, *rest = ours(workload, tilec, folder)
            compiling.append((first - statistics.median(rest)) * WORKLOADS[workload]()[4])
            found["tilec"].append(rest)
            _, *rest = json.loads(subprocess.check_output([sys.executable, __file__, "--rival", rival, workload], text=True))
            found["rival"].append(rest)
    fastest = [min(map(min, rows)) * 1e3 for rows in found.values()]
    medians = [[statistics.median(row) * 1e3 for row in rows] for rows in found.values()]
    ratio = statistics.median(o / t for o, t in zip(*medians))
    print(
        f"{workload:<14} {fastest[0]:>9.2f} {fastest[1]:>9.2f} {fastest[0] / fastest[1]:>6.2f}"
        f" {statistics.median(medians[0]):>9.2f} {statistics.median(medians[1]):>9.2f} {ratio:>6.2f} {min(compiling):>10.2f}",
        flush=True,
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("workload", nargs="*", help=", ".join(WORKLOADS))
    arguments.add_argument("--tilec", default="target/release/tilec")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--jax", action="store_true", help="measure mnist-mlp beside JAX")
    arguments.add_argument("--rival", choices=["PyTorch", "JAX"], help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.rival:
        return print(json.dumps(jax_rival() if given.rival == "JAX" else rival(*given.workload)))
    unknown = [workload for workload in given.workload if workload not in WORKLOADS]
    if unknown:
        arguments.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    if given.jax and given.workload not in ([], ["mnist-mlp"]):
        arguments.error("only mnist-mlp is measured beside JAX")
    print(f"{'ms a step':<14} {'fastest':>9} {'':>9} {'':>6} {'median':>9}")
    name = "JAX" if given.jax else "PyTorch"
    print(f"{'workload':<14}" + f" {'tilec':>9} {name:>9} {'ratio':>6}" * 2 + f" {'compile, s':>10}")
    for workload in ["mnist-mlp"] if given.jax else given.workload or WORKLOADS:
        compare(workload, given.tilec, given.rounds, name)


if __name__ == "__main__":
    main()
