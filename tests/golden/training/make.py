"""Makes the values that the library's optimizers, losses, metrics and schedules are compared with, by Keras: nothing of this
project.

pip install numpy jax keras && python3 tests/golden/training/make.py [FAMILY…]

A case is a setting in Tile, which happens to be Python as well, and is evaluated as such with Keras' classes under Tile's
names. All is computed in float64, from numbers that float32 holds, and rounded once. The files are those of
golden/layers/cases.py: NAME.txt lists the cases, NAME.npy holds the arrays of their lines, in order.

    optimizers   inputs W, V: first values; GW, GV: the gradients of 20 steps. Outputs W, V: the values after each step.
    losses       inputs Predicted, Target. Outputs Values: for each sample, where Keras says so; Loss; Gradient: of the
                 loss, for the predictions.
    metrics      inputs Predicted, Target: 12 samples. Output Value: after the first 5, 10 and 12 samples, in batches of 5; of
                 several thresholds or classes a row.
    fits         inputs X, Y: 24 samples, Kernel, Head: first values. What is said of a run is in its name: of classes 0 and 2,
                 of samples (their weights are Weights), that the first two layers are frozen, that the first layer adds
                 terms to the loss, that the normalization is applied twice, that the loss is one number for a batch. Outputs Kernel, Gamma, Mean,
                 Head: after two epochs; Loss: the second's.
    schedules    input Step. Output Rate.
"""

import os
import pathlib
import re
import sys
import zlib

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_ENABLE_X64"] = "1"

import jax
import keras
import numpy as np
from keras.src.trainers import compile_utils

keras.config.set_floatx("float64")

HERE = pathlib.Path(__file__).parent
TYPES = {"float32": "f32", "int32": "i32", "uint8": "u8"}
CONSTANTS = {"true": True, "false": False, "none": None, "macro": "macro", "micro": "micro", "weighted": "weighted"}
CONSTANTS |= {"interpolation": "interpolation", "majoring": "majoring", "minoring": "minoring"}
# Gradient clipping is a setting of its own in Tile.
CLIPPING = {"clip_by_global_norm(0.5)": {"global_clipnorm": 0.5}, "clip_by_norm(0.3)": {"clipnorm": 0.3}}
CLIPPING["clip_by_value(-0.4, 0.4)"] = {"clipvalue": 0.4}
STEPS = 20
BATCH = 5


class Names(dict):
    """What names mean in a case."""

    def __init__(self, *modules):
        self.modules = modules + (keras.optimizers.schedules,)

    def __missing__(self, name):
        if name in CONSTANTS:
            return CONSTANTS[name]
        for module in self.modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise KeyError(name)


def generator(*names):
    """Random numbers that depend on what they are for, so that a new case changes no other."""
    return np.random.default_rng(zlib.crc32("/".join(names).encode()))


def write(family, cases, compute):
    texts = []
    with open(HERE / f"{family}.npy", "wb") as file:
        for name, statements, *given in cases:
            text = [f"case {name}"] + [f"    {statement};" for statement in statements]
            for kind, label, array in compute(name, statements, *given):
                array = np.asarray(array)
                array = np.asarray(array, np.float32 if array.dtype.kind == "f" else array.dtype, order="C")
                assert np.isfinite(array).all(), (family, name, label, array)
                text.append(f"{kind} {label} {TYPES[array.dtype.name]}[{', '.join(map(str, array.shape))}]")
                np.save(file, array)
            texts.append("\n".join(text))
    (HERE / f"{family}.txt").write_text("\n\n".join(texts) + "\n")


def value(statement, *modules):
    """What a setting is set to."""
    return eval(statement.split(" = ", 1)[1], {}, Names(*modules))


def optimizer(name, statements):
    random = generator("optimizers")
    W, V = (random.standard_normal(shape).astype(np.float32) for shape in [(3, 2), (4,)])
    GW, GV = (random.standard_normal(shape).astype(np.float32) for shape in [(STEPS, 3, 2), (STEPS, 4)])
    # Gradients of several sizes, and of 0.
    GV[:, 0] *= 100
    GV[:, 1] *= 0.001
    GV[:, 2] = 0
    made = keras.optimizers.get(value(re.sub(r"\blr\b", "learning_rate", statements[0]), keras.optimizers))
    for statement in statements[1:]:
        for key, clip in CLIPPING[statement.split(" = ", 1)[1]].items():
            setattr(made, key, clip)
    weights = [keras.Variable(array.astype(np.float64)) for array in (W, V)]
    after = []
    for step in range(STEPS):
        made.apply([GW[step].astype(np.float64), GV[step].astype(np.float64)], weights)
        after.append([np.array(weight.value) for weight in weights])
    yield from (("input", "W", W), ("input", "V", V), ("input", "GW", GW), ("input", "GV", GV))
    yield from (("output", label, np.stack([pair[n] for pair in after])) for n, label in enumerate("WV"))


def loss(name, statements, predicted, target):
    yield from (("input", "Predicted", predicted), ("input", "Target", target))
    made = value(statements[0], keras.losses)
    if isinstance(made, str):
        made = compile_utils.get_loss(made, target, predicted)
    wide = predicted.astype(np.float64)
    made.reduction = None
    values = np.asarray(made(target, wide))
    # Where classes are ignored Keras weighs the others in the mean.
    if values.ndim and "ignore_class" not in statements[0]:
        yield "output", "Values", values
    made.reduction = "sum_over_batch_size"
    yield "output", "Loss", made(target, wide)
    yield "output", "Gradient", jax.grad(lambda p: made(target, p))(wide)


def metric(name, statements, predicted, target):
    yield from (("input", "Predicted", predicted), ("input", "Target", target))
    made = value(statements[0], keras.metrics, keras.losses)
    if isinstance(made, str):
        made = compile_utils.get_metric(made, target, predicted)
    if not isinstance(made, keras.metrics.Metric):
        made = keras.metrics.MeanMetricWrapper(made)
    # As metrics of the library, a loss is the mean of its values.
    values = []
    for start in range(0, len(predicted), BATCH):
        batch = slice(start, start + BATCH)
        arguments = (target[batch], predicted[batch].astype(np.float64))
        made.update_state(*arguments[1:] if isinstance(made, keras.metrics.Mean) and type(made) is keras.metrics.Mean else arguments)
        values.append(np.asarray(made.result()))
    yield "output", "Value", np.array(values)


def schedule(name, statements, steps):
    steps = np.array(steps, np.float32)
    made = value(statements[0])
    yield "input", "Step", steps
    yield "output", "Rate", np.array([float(made(step)) for step in steps.astype(np.float64)])


# Optimizers.

COMMON = ["weight_decay = 0.02", "clipnorm = 0.7", "clipvalue = 0.6"]
OPTIMIZERS = {
    "SGD": ["", "momentum = 0.9", "momentum = 0.9, nesterov = true"],
    "RMSprop": ["", "momentum = 0.9", "centered = true", "rho = 0.7, momentum = 0.5, epsilon = 0.001, centered = true"],
    "Adam": ["", "beta_1 = 0.8, beta_2 = 0.9, epsilon = 0.01", "amsgrad = true, beta_2 = 0.5"],
    "AdamW": ["", "weight_decay = 0.1, amsgrad = true"],
    "Adagrad": ["", "initial_accumulator_value = 0.5, epsilon = 0.01"],
    "Adadelta": ["", "rho = 0.8, epsilon = 0.0001"],
    "Adamax": ["", "beta_1 = 0.8, beta_2 = 0.9, epsilon = 0.01"],
    "Nadam": ["", "beta_1 = 0.8, beta_2 = 0.9, epsilon = 0.01"],
    "Ftrl": [
        "",
        "learning_rate_power = -0.3, initial_accumulator_value = 0.4",
        "l1_regularization_strength = 0.5, l2_regularization_strength = 0.1, l2_shrinkage_regularization_strength = 0.2, beta = 0.3",
    ],
    "Lion": ["", "beta_1 = 0.5, beta_2 = 0.7"],
}


def optimizers():
    for kind, options in OPTIMIZERS.items():
        for number, option in enumerate(options):
            rest = f", {option}" if option else ""
            yield f"{kind.lower()}_{number}", [f"optimizer = {kind}(learning_rate = 0.03{rest})"]
        yield f"{kind.lower()}_default", [f"optimizer = {kind}()"]
        yield f"{kind.lower()}_decay", [f"optimizer = {kind}(0.03, weight_decay = 0.2)"]
    for option in ["clipnorm = 0.7", "clipvalue = 0.6", "momentum = 0.9, weight_decay = 0.1, clipnorm = 0.7"]:
        yield "sgd_" + "_".join(re.findall("[a-z]+", option)), [f"optimizer = SGD(lr = 0.1, {option})"]
    yield "sgd_schedule", ["optimizer = SGD(lr = ExponentialDecay(0.1, 5, 0.5))"]
    yield "adam_schedule", ["optimizer = Adam(PiecewiseConstantDecay([3, 9], [0.1, 0.02, 0.3]), weight_decay = 0.1)"]
    for kind in OPTIMIZERS:
        yield f"{kind.lower()}_by_name", [f'optimizer = "{kind.lower()}"']
    for clipping in CLIPPING:
        yield "gradients_" + clipping.split("(")[0], ["optimizer = SGD(lr = 0.1)", f"gradients = {clipping}"]


# Losses.


def numbers(*shape, name):
    random = generator("losses", name)
    return (2 * random.standard_normal(shape)).astype(np.float32), (2 * random.standard_normal(shape)).astype(np.float32)


def chances(*shape, name, sharp=1.5):
    random = generator("losses", name)
    raw = np.exp(sharp * random.standard_normal(shape))
    return (raw / raw.sum(-1, keepdims=True)).astype(np.float32)


def classes(count, *shape, name):
    return generator("losses", name, "classes").integers(0, count, shape).astype(np.int32)


def one_hot(count, *shape, name):
    return np.eye(count, dtype=np.float32)[classes(count, *shape, name=name)]


EXTREME = np.array(
    [[1e4, -1e4, 0], [-1e4, 1e4, 1e4], [0, 0, 0], [1e4, 0, -1e4], [-1e4, -1e4, -1e4], [100, -100, 50]], np.float32
)


def losses():
    regression = ["MeanSquaredError()", "MeanAbsoluteError()", "MeanAbsolutePercentageError()", "Huber()", "LogCosh()"]
    regression += ["Huber(delta = 0.3)", "CosineSimilarity()", "CosineSimilarity(axis = 1)"]
    for kind in regression:
        case = re.sub("[^a-z0-9]+", "_", kind.lower()).strip("_")
        yield case, [f"loss = {kind}"], *numbers(6, 5, name=case)
        yield f"{case}_3d", [f"loss = {kind}"], *numbers(3, 4, 2, name=case + "3")
    p, t = numbers(6, 1, name="narrow")
    yield "target_without_axis", ["loss = MeanSquaredError()"], p, t[:, 0]
    yield "both_without_axis", ["loss = MeanAbsoluteError()"], p[:, 0], t[:, 0]
    yield "prediction_without_axis", ["loss = Huber()"], p[:, 0], t
    yield "integer_targets", ["loss = MeanSquaredError()"], numbers(6, 3, name="integers")[0], classes(5, 6, 3, name="integers")
    yield "log_cosh_extreme", ["loss = LogCosh()"], EXTREME, np.zeros_like(EXTREME) - 0.25
    yield "percentage_of_zero", ["loss = MeanAbsolutePercentageError()"], *(1e-6 * a for a in numbers(4, 2, name="zero"))
    p, t = (np.abs(a) for a in numbers(6, 5, name="positive"))
    yield "msle", ["loss = MeanSquaredLogarithmicError()"], p, t
    yield "msle_negative", ["loss = MeanSquaredLogarithmicError()"], *numbers(6, 5, name="negative")
    yield "poisson", ["loss = Poisson()"], p, np.floor(t)
    p = chances(6, 4, name="kl")
    yield "kl_divergence", ["loss = KLDivergence()"], p, chances(6, 4, name="kl target")
    sure = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0.5, 0.5, 0], [1, 0, 0], [0, 1, 0]], np.float32)
    hard = np.eye(3, dtype=np.float32)[[0, 0, 2, 0, 1, 1]]
    yield "kl_divergence_sure", ["loss = KLDivergence()"], sure, hard
    for kind in ["Hinge()", "SquaredHinge()"]:
        case = kind.lower().strip("()")
        p, t = numbers(6, 4, name=case)
        yield case, [f"loss = {kind}"], p, np.sign(t)
        yield f"{case}_of_bits", [f"loss = {kind}"], p, (t > 0).astype(np.int32)
    yield "categorical_hinge", ["loss = CategoricalHinge()"], numbers(6, 4, name="ch")[0], one_hot(4, 6, name="ch")
    p = generator("losses", "dice").random((3, 4, 5)).astype(np.float32)
    t = (generator("losses", "dice target").random((3, 4, 5)) < 0.4).astype(np.float32)
    for kind in ["Dice()", "Dice(axis = [1, 2])", "Tversky()", "Tversky(alpha = 0.2, beta = 0.9, axis = [1, 2])"]:
        yield re.sub("[^a-z0-9]+", "_", kind.lower()).strip("_"), [f"loss = {kind}"], p, t
    # Classifiers.
    logits = numbers(6, 3, name="logits")[0]
    bits = (numbers(6, 3, name="bits")[0] > 0).astype(np.int32)
    share = generator("losses", "share").random((6, 3)).astype(np.float32)
    edge = np.array([[0, 1, 0.5], [1, 0, 0], [1, 1, 0], [0, 0, 1], [1e-5, 0.99999, 1], [0.5, 0.5, 0.5]], np.float32)
    for kind, options in {
        "BinaryCrossentropy": ["", "label_smoothing = 0.2", "axis = 0"],
        "BinaryFocalCrossentropy": ["", "apply_class_balancing = true, alpha = 0.4, gamma = 1.5, label_smoothing = 0.1", "gamma = 1"],
    }.items():
        for number, option in enumerate(options):
            case = f"{re.sub('(?<!^)(?=[A-Z])', '_', kind).lower()}_{number}"
            both = f"from_logits = true, {option}".strip(", ")
            yield f"{case}", [f"loss = {kind}({option})"], share, bits
            yield f"{case}_logits", [f"loss = {kind}({both})"], logits, bits
            if "1.5" not in option:
                yield f"{case}_sure", [f"loss = {kind}({option})"], edge, bits
                yield f"{case}_extreme", [f"loss = {kind}({both})"], EXTREME, bits
    yield "binary_narrow", ["loss = BinaryCrossentropy(from_logits = true)"], logits[:, :1], bits[:, 0]
    for kind, options in {
        "CategoricalCrossentropy": ["", "label_smoothing = 0.2"],
        "CategoricalFocalCrossentropy": ["", "alpha = 0.4, gamma = 1.5, label_smoothing = 0.1"],
    }.items():
        for number, option in enumerate(options):
            case = f"{re.sub('(?<!^)(?=[A-Z])', '_', kind).lower()}_{number}"
            both = f"from_logits = true, {option}".strip(", ")
            targets = one_hot(3, 6, name=case)
            yield f"{case}", [f"loss = {kind}({option})"], chances(6, 3, name=case), targets
            yield f"{case}_shares", [f"loss = {kind}({option})"], 3 * share + 0.1, chances(6, 3, name="targets")
            yield f"{case}_logits", [f"loss = {kind}({both})"], logits, targets
            yield f"{case}_3d", [f"loss = {kind}({both})"], numbers(2, 4, 3, name=case)[0], one_hot(3, 2, 4, name=case + "3")
            yield f"{case}_extreme", [f"loss = {kind}({both})"], EXTREME, targets
            if "1.5" not in option:
                yield f"{case}_sure", [f"loss = {kind}({option})"], sure, targets
    axis = numbers(2, 3, 4, name="axis")[0]
    yield "categorical_axis", ["loss = CategoricalCrossentropy(from_logits = true, axis = 1)"], axis, np.eye(
        3, dtype=np.float32
    )[classes(3, 2, 4, name="axis")].transpose(0, 2, 1).copy()
    for from_logits, predicted in [("", chances(6, 3, name="sparse")), ("from_logits = true", logits)]:
        case = "sparse_logits" if from_logits else "sparse"
        target = classes(3, 6, name="sparse")
        yield case, [f"loss = SparseCategoricalCrossentropy({from_logits})"], predicted, target
        yield f"{case}_column", [f"loss = SparseCategoricalCrossentropy({from_logits})"], predicted, target[:, None]
        yield f"{case}_floats", [f"loss = SparseCategoricalCrossentropy({from_logits})"], predicted, target.astype(np.float32)
        ignoring = f"loss = SparseCategoricalCrossentropy({(from_logits + ', ignore_class = 1').strip(', ')})"
        yield f"{case}_ignore", [ignoring], predicted, target
    yield "sparse_extreme", ["loss = SparseCategoricalCrossentropy(from_logits = true)"], EXTREME, classes(3, 6, name="sparse")
    yield "sparse_sure", ["loss = SparseCategoricalCrossentropy()"], sure, classes(3, 6, name="sparse")
    many = numbers(2, 4, 3, name="many")[0]
    yield "sparse_3d", ["loss = SparseCategoricalCrossentropy(from_logits = true)"], many, classes(3, 2, 4, name="many")
    for name in ["mse", "mae", "mape"]:
        yield name, [f'loss = "{name}"'], *numbers(6, 5, name=name)
    yield "msle_by_name", ['loss = "msle"'], *(np.abs(a) for a in numbers(6, 5, name="msle"))
    yield "kld", ['loss = "kld"'], chances(6, 4, name="kl"), chances(6, 4, name="kl target")
    yield "bce", ['loss = "bce"'], share, bits
    yield "crossentropy_binary", ['loss = "crossentropy"'], share[:, :1], bits[:, :1]
    yield "crossentropy_categorical", ['loss = "crossentropy"'], chances(6, 3, name="ce"), one_hot(3, 6, name="ce")
    yield "crossentropy_sparse", ['loss = "ce"'], chances(6, 3, name="ce"), classes(3, 6, name="ce")
    yield "crossentropy_column", ['loss = "ce"'], chances(6, 3, name="ce"), classes(3, 6, 1, name="ce")
    minus = np.array([[0, -1, 2, 1], [-1, -1, 0, 1]], np.int32)
    yield "sparse_ignore_3d", ["loss = SparseCategoricalCrossentropy(from_logits = true, ignore_class = -1)"], many, minus


# Metrics.


def metrics():
    samples = 12
    case = lambda kind: re.sub("[^a-z0-9]+", "_", kind.lower()).strip("_")
    p, t = numbers(samples, 3, name="metrics")
    for kind in ["Mean()", "RootMeanSquaredError()", "MeanSquaredError()", "MeanAbsoluteError()", "mean_absolute_error"]:
        yield case(kind), [f"metric = {kind}"], p, t
    yield "cosine_similarity", ["metric = cosine_similarity"], p, t
    yield "root_narrow", ["metric = RootMeanSquaredError()"], p[:, :1], t[:, 0]
    yield "msle", ["metric = MeanSquaredLogarithmicError()"], np.abs(p), np.abs(t)
    yield "accuracy", ["metric = Accuracy()"], classes(3, samples, 1, name="a").astype(np.float32), classes(3, samples, name="b")
    share = generator("metrics", "share").random((samples, 3)).astype(np.float32)
    bits = (generator("metrics", "bits").random((samples, 3)) < share).astype(np.int32)
    yield "kl_divergence", ["metric = KLDivergence()"], chances(samples, 4, name="mkl"), chances(samples, 4, name="mkl target")
    yield "poisson", ["metric = Poisson()"], share, bits
    for kind in ["BinaryAccuracy()", "BinaryAccuracy(threshold = 0.8)", "binary_accuracy", "BinaryCrossentropy()"]:
        yield case(kind), [f"metric = {kind}"], share, bits
    yield "binary_accuracy_narrow", ["metric = BinaryAccuracy()"], share[:, :1], bits[:, 0]
    logits, target = numbers(samples, 6, name="top")[0], classes(6, samples, name="top")
    sequence, targets = numbers(samples, 4, 6, name="top")[0], classes(6, samples, 4, name="top")
    for kind in ["SparseCategoricalAccuracy()", "SparseTopKCategoricalAccuracy(k = 3)", "SparseTopKCategoricalAccuracy()"]:
        yield case(kind), [f"metric = {kind}"], logits, target
        yield case(kind) + "_3d", [f"metric = {kind}"], sequence, targets
        dense = kind.replace("Sparse", "")
        yield case(dense), [f"metric = {dense}"], logits, np.eye(6, dtype=np.float32)[target]
        yield case(dense) + "_3d", [f"metric = {dense}"], sequence, np.eye(6, dtype=np.float32)[targets]
    yield "sparse_column", ["metric = SparseCategoricalAccuracy()"], logits, target[:, None]
    yield "sparse_crossentropy", ["metric = SparseCategoricalCrossentropy(from_logits = true)"], logits, target
    for kind in ["Precision", "Recall"]:
        for option in ["", "thresholds = 0.7", "class_id = 1", "top_k = 2", "thresholds = 0.6, top_k = 1, class_id = 2"]:
            yield case(f"{kind}({option})"), [f"metric = {kind}({option})"], share, bits
        yield f"{kind.lower()}_narrow", [f"metric = {kind}()"], share[:, :1], bits[:, 0]
        yield f"{kind.lower()}_none", [f"metric = {kind}()"], 0.1 * share, 0 * bits
    for kind in ["TruePositives", "FalsePositives", "TrueNegatives", "FalseNegatives"]:
        yield case(kind), [f"metric = {kind}()"], share, bits
        yield case(kind) + "_threshold", [f"metric = {kind}(thresholds = 0.3)"], share, bits
    for curve in ["", 'curve = "PR"']:
        for option in ["", "num_thresholds = 11", "summation_method = majoring", "summation_method = minoring, thresholds = [0.2, 0.3, 0.9]"]:
            both = f"{option}, {curve}".strip(", ")
            yield case(f"AUC({both})"), [f"metric = AUC({both})"], share, bits
    yield "auc_logits", ["metric = AUC(from_logits = true)"], numbers(samples, 3, name="auc")[0], bits
    yield "auc_edges", ["metric = AUC()"], np.round(share), bits
    yield "auc_narrow", ["metric = AUC()"], share[:, :1], bits[:, 0]
    for option in ["average = macro", "average = micro", "average = weighted", "average = macro, threshold = 0.6"]:
        yield case(f"F1Score({option})"), [f"metric = F1Score({option})"], share, bits.astype(np.float32)
    yield "fbeta", ["metric = FBetaScore(average = macro, beta = 2.0, threshold = 0.4)"], share, bits.astype(np.float32)
    for kind in ["Precision", "Recall", "TruePositives", "FalseNegatives"]:
        yield f"{kind.lower()}_several", [f"metric = {kind}(thresholds = [0.3, 0.5, 0.8])"], share, bits
    yield "precision_several_class", ["metric = Precision(thresholds = [0.2, 0.6], class_id = 1)"], share, bits
    yield "f1score_of_classes", ["metric = F1Score()"], share, bits.astype(np.float32)
    hot = np.eye(6, dtype=np.float32)[target]
    yield "accuracy_binary", ['metric = "accuracy"'], share[:, :1], bits[:, :1]
    yield "accuracy_binary_flat", ['metric = "accuracy"'], share[:, :1], bits[:, 0]
    yield "accuracy_sparse", ['metric = "accuracy"'], logits, target
    yield "accuracy_column", ['metric = "acc"'], logits, target[:, None]
    yield "accuracy_categorical", ['metric = "accuracy"'], logits, hot
    yield "accuracy_3d", ['metric = "accuracy"'], sequence, targets
    for name in ["mse", "root_mean_squared_error"]:
        yield f"{name}_by_name", [f'metric = "{name}"'], p, t
    for name in ["precision", "recall", "auc", "true_positives", "false_positives", "true_negatives", "false_negatives"]:
        yield f"{name}_by_name", [f'metric = "{name}"'], share, bits
    for name in ["f1_score", "f_beta_score"]:
        yield f"{name}_by_name", [f'metric = "{name}"'], share, bits.astype(np.float32)


# Runs.

CLASS_WEIGHT = {0: 0.5, 2: 3.0}


def fits():
    names = ["plain", "classes", "classes_one_hot", "samples", "frozen", "frozen_classes", "terms", "frozen_terms", "twice"]
    names += ["dice_one_hot", "samples_dice_one_hot", "samples_tversky_one_hot", "classes_dice_one_hot"]
    for name in names:
        yield name, ["optimizer = SGD(0.1)"]


class Terms(keras.layers.Layer):
    """Adds a number for each sample to the loss."""

    def call(self, x):
        self.add_loss(0.01 * keras.ops.sum(x * x, axis=-1))
        return x


def run(name, statements):
    random = generator("fits")
    X, Kernel, Head = (random.standard_normal(shape).astype(np.float32) for shape in [(24, 5), (5, 4), (4, 3)])
    Y, weights = classes(3, 24, name="fits"), random.random(24).astype(np.float32)
    kind = keras.losses.SparseCategoricalCrossentropy
    if "one_hot" in name:
        Y, kind = np.eye(3, dtype=np.float32)[Y], keras.losses.CategoricalCrossentropy
    yield from (("input", "X", X), ("input", "Y", Y), ("input", "Kernel", Kernel), ("input", "Head", Head))
    yield "input", "Weights", weights
    terms = {"kernel_regularizer": keras.regularizers.L2(0.1), "activity_regularizer": keras.regularizers.L1(0.05)}
    overlap = "dice" in name or "tversky" in name
    layers = [
        keras.layers.Dense(4, "tanh", **(terms if "terms" in name else {})),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(3, "sigmoid" if overlap else None),
    ]
    added = [keras.layers.ActivityRegularization(0.03, 0.02), Terms()] * ("terms" in name)
    start = keras.Input((5,))
    hidden = layers[1](layers[0](start))
    for layer in layers[1:2] * ("twice" in name) + added + layers[2:]:
        hidden = layer(hidden)
    model = keras.Model(start, hidden)
    layers[0].set_weights([Kernel, np.zeros(4)])
    layers[2].set_weights([Head, np.zeros(3)])
    for layer in layers[:2]:
        layer.trainable = "frozen" not in name
    made = keras.losses.Tversky(0.3, 0.6) if "tversky" in name else keras.losses.Dice()
    model.compile(value(statements[0], keras.optimizers), made if overlap else kind(from_logits=True))
    given = {"class_weight": CLASS_WEIGHT if "classes" in name else None}
    given["sample_weight"] = weights.astype(np.float64) if "samples" in name else None
    history = model.fit(X.astype(np.float64), Y, batch_size=8, epochs=2, shuffle=False, verbose=0, **given)
    gamma, _, mean, _ = layers[1].get_weights()
    yield from (("output", "Kernel", layers[0].get_weights()[0]), ("output", "Gamma", gamma), ("output", "Mean", mean))
    yield from (("output", "Head", layers[2].get_weights()[0]), ("output", "Loss", history.history["loss"][-1]))


# Schedules.

SCHEDULES = [
    "PiecewiseConstantDecay([3, 10, 50], [0.1, 0.05, 0.4, 0.001])",
    "ExponentialDecay(0.1, 20, 0.7)",
    "ExponentialDecay(0.1, 20, 0.7, staircase = true)",
    "InverseTimeDecay(0.1, 20, 0.7)",
    "InverseTimeDecay(0.1, 20, 0.7, staircase = true)",
    "PolynomialDecay(0.1, 40)",
    "PolynomialDecay(0.1, 40, end_learning_rate = 0.01, power = 2.5)",
    "PolynomialDecay(0.1, 30, power = 0.5, cycle = true)",
    "CosineDecay(0.1, 40)",
    "CosineDecay(0.1, 40, alpha = 0.2)",
    "CosineDecay(0.01, 40, alpha = 0.1, warmup_target = 0.2, warmup_steps = 15)",
    "CosineDecay(0.0, 1000, warmup_target = 0.001, warmup_steps = 100)",
    "CosineDecayRestarts(0.1, 10)",
    "CosineDecayRestarts(0.1, 10, t_mul = 1.0, m_mul = 0.8, alpha = 0.1)",
    "CosineDecayRestarts(0.1, 10, t_mul = 1.5, m_mul = 0.5)",
]


def schedules():
    for number, kind in enumerate(SCHEDULES):
        # Where a wave with a factor of 1.5 starts again, rounding decides.
        steps = [0, 1, 2, 3, 4, 7, 9, 10, 11, 15, 19, 20, 21, 29, 30, 31, 39, 40, 41, 50, 59, 60, 61, 99, 100, 101, 500, 1000, 5000]
        steps = [step for step in steps if "1.5" not in kind or step != 10]
        yield f"{kind.split('(')[0].lower()}_{number}", [f"schedule = {kind}"], steps


if __name__ == "__main__":
    families = {
        "optimizers": (optimizers, optimizer),
        "losses": (losses, loss),
        "metrics": (metrics, metric),
        "fits": (fits, run),
        "schedules": (schedules, schedule),
    }
    for family in sys.argv[1:] or families:
        cases, compute = families[family]
        write(family, cases(), compute)
