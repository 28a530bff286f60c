"""Losses: what a step makes of predictions, for samples with weights and without, of one axis and of more."""

import re

from steps import Family, np


def numbers(*shape):
    return lambda random: (2 * random.standard_normal(shape)).astype(np.float32)


def positive(*shape):
    return lambda random: (0.1 + np.abs(random.standard_normal(shape))).astype(np.float32)


def share(*shape):
    return lambda random: random.uniform(0.05, 0.95, shape).astype(np.float32)


def chances(*shape):
    def make(random):
        raw = np.exp(random.standard_normal(shape))
        return (raw / raw.sum(-1, keepdims=True)).astype(np.float32)

    return make


def bits(*shape):
    return lambda random: (random.random(shape) < 0.4).astype(np.float32)


def signs(*shape):
    return lambda random: np.where(random.random(shape) < 0.5, -1, 1).astype(np.float32)


def classes(count, *shape):
    return lambda random: random.integers(0, count, shape).astype(np.int32)


def one_hot(count, *shape):
    return lambda random: np.eye(count, dtype=np.float32)[random.integers(0, count, shape)]


def with_ones(count, *shape):
    """Classes of which some are 1, so that ignoring it matters."""

    def make(random):
        found = random.integers(0, count, shape)
        found.reshape(-1)[1] = 1
        return found.astype(np.int32)

    return make


# The loss, and what it is given: predictions and targets of two axes, and of three.
KINDS = [
    (["MeanSquaredError()", "MeanAbsoluteError()", "MeanAbsolutePercentageError()", "Huber()", "LogCosh()"], numbers, numbers),
    (["Huber(delta = 0.3)", "CosineSimilarity()", "CosineSimilarity(axis = 1)"], numbers, numbers),
    (["MeanSquaredLogarithmicError()", "Poisson()"], positive, positive),
    (["KLDivergence()"], chances, chances),
    (["Hinge()", "SquaredHinge()"], numbers, signs),
    (["Dice()", "Tversky()", "Tversky(alpha = 0.2, beta = 0.9)"], share, bits),
    (["BinaryCrossentropy()", "BinaryCrossentropy(label_smoothing = 0.2)"], share, bits),
    (["BinaryCrossentropy(from_logits = true)"], numbers, bits),
    (["BinaryFocalCrossentropy()", "BinaryFocalCrossentropy(apply_class_balancing = true, alpha = 0.4)"], share, bits),
    (["BinaryFocalCrossentropy(from_logits = true, gamma = 1.5, label_smoothing = 0.1)"], numbers, bits),
]
OF_CLASSES = [
    ("CategoricalCrossentropy", ["", "label_smoothing = 0.2"]),
    ("CategoricalFocalCrossentropy", ["", "alpha = 0.4", "gamma = 1.5", "label_smoothing = 0.1"]),
]
OF_AXES = [
    "Dice(axis = [1, 2])",
    "Dice(axis = -1)",
    "Tversky(axis = [1, 2])",
    "Tversky(axis = -1)",
    "CosineSimilarity(axis = [1, 2])",
]
SHORT = [
    (["mse", "mae", "mape", "mean_squared_error", "mean_absolute_error", "huber", "log_cosh", "cosine_similarity"], numbers, numbers),
    (["mean_absolute_percentage_error"], numbers, numbers),
    (["msle", "mean_squared_logarithmic_error", "poisson"], positive, positive),
    (["kld", "kl_divergence"], chances, chances),
    (["hinge", "squared_hinge"], numbers, signs),
    (["bce", "binary_crossentropy", "binary_focal_crossentropy", "dice", "tversky"], share, bits),
]


def name_of(text):
    text = f"by name {text}" if text[0] == '"' else text
    return re.sub("[^A-Za-z0-9.]+", "_", text.replace("-", "minus ")).strip("_").lower()


REDUCTIONS = ["mean", "sum", "mean_with_sample_weight"]
# Every loss, with one reduction that is not the default.
REDUCED = [
    (["MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "Huber", "LogCosh", "CosineSimilarity"], numbers, numbers),
    (["MeanSquaredLogarithmicError", "Poisson"], positive, positive),
    (["KLDivergence"], chances, chances),
    (["Hinge", "SquaredHinge"], numbers, signs),
    (["BinaryCrossentropy", "BinaryFocalCrossentropy", "Dice", "Tversky"], share, bits),
    (["CategoricalHinge", "CategoricalCrossentropy", "CategoricalFocalCrossentropy"], chances, lambda *shape: one_hot(shape[-1], *shape[:-1])),
]


def unit(*shape):
    """Vectors of length 1."""

    def make(random):
        raw = random.standard_normal(shape)
        return (raw / np.linalg.norm(raw, axis=-1, keepdims=True)).astype(np.float32)

    return make


def labels(count, longest, *shape):
    """Sequences of classes from 1 that end in zeros; the first repeats a class, the last is empty."""

    def make(random):
        found = random.integers(1, count, (*shape, longest))
        found[0, 1] = found[0, 0]
        lengths = random.integers(1, longest + 1, shape)
        lengths[0], lengths[-1] = longest, 0
        return np.where(np.arange(longest) < lengths[:, None], found, 0).astype(np.int32)

    return make


def reductions():
    """Of all losses the reductions, and losses that take other targets than the rest."""
    family = Family("loss_options")

    def case(loss, predicted, target, **options):
        name = name_of(loss) + "_weighted" * ("sample_weight" in options)
        family.case(name, ["Y = X"], {"X": predicted}, loss=loss, targets={"Y": target}, **options)

    for losses, predicted, target in REDUCED:
        for number, loss in enumerate(losses):
            case(f"{loss}(reduction = {REDUCTIONS[1 + number % 2]})", predicted(4, 3), target(4, 3), sample_weight=share(4))
    for reduction in REDUCTIONS:
        case(f"Huber(delta = 0.5, reduction = {reduction})", numbers(4, 2, 3), numbers(4, 2, 3))
        case(f"Huber(delta = 0.5, reduction = {reduction})", numbers(4, 2, 3), numbers(4, 2, 3), sample_weight=share(4))
        case(f"SparseCategoricalCrossentropy(reduction = {reduction})", chances(4, 3), with_ones(3, 4), sample_weight=share(4))
        loss = f"SparseCategoricalCrossentropy(ignore_class = 1, reduction = {reduction})"
        case(loss, chances(4, 3), with_ones(3, 4), sample_weight=share(4))
        case(loss, chances(4, 3), with_ones(3, 4))
        case(f'CTC(reduction = "{reduction}")', numbers(4, 6, 5), labels(5, 3, 4), sample_weight=share(4))
        case(f"Circle(gamma = 4.0, reduction = {reduction})", unit(6, 3), classes(3, 6), sample_weight=share(6))
        loss = f"CategoricalGeneralizedCrossEntropy(reduction = {reduction})"
        case(loss, chances(4, 3), classes(3, 4), sample_weight=share(4))
    case("CTC()", numbers(4, 6, 5), labels(5, 3, 4))
    # Just as many steps as the labels need, a blank between two equal ones included.
    family.case("ctc_short", ["Y = X"], {"X": numbers(3, 4, 4)}, loss="CTC()", targets={"Y": labels(4, 3, 3)})
    for options in ["", "gamma = 8.0", "margin = 0.25", "remove_diagonal = false"]:
        case(f"Circle({options})", unit(6, 3), classes(3, 6))
    case("Circle(gamma = 2.0)", unit(6, 3), lambda _: np.arange(6, dtype=np.int32) // 2 * (np.arange(6) != 5))
    for options in ["", "q = 0.7"]:
        case(f"CategoricalGeneralizedCrossEntropy({options})", chances(4, 3), classes(3, 4))
    family.case("by_name_ctc", ["Y = X"], {"X": numbers(4, 6, 5)}, loss='"ctc"', targets={"Y": labels(5, 3, 4)})
    return family


def families():
    yield reductions()
    family = Family("losses")

    def case(name, loss, predicted, target, **options):
        family.case(name, ["Y = X"], {"X": predicted}, loss=loss, targets={"Y": target}, **options)

    def variants(loss, predicted, target):
        """Of matrices and volumes, the latter with weights of samples."""
        name = name_of(loss)
        case(name, loss, predicted(4, 3), target(4, 3))
        case(f"{name}_weighted", loss, predicted(4, 2, 3), target(4, 2, 3), sample_weight=share(4))

    for kinds, predicted, target in KINDS:
        for loss in kinds:
            variants(loss, predicted, target)
    variants("CategoricalHinge()", numbers, lambda *shape: one_hot(shape[-1], *shape[:-1]))
    for kind, options in OF_CLASSES:
        for option in options:
            variants(f"{kind}({option})", chances, lambda *shape: one_hot(shape[-1], *shape[:-1]))
            logits = ", ".join(["from_logits = true"] + [option] * bool(option))
            variants(f"{kind}({logits})", numbers, lambda *shape: chances(*shape))
    for loss in OF_AXES:
        case(name_of(loss), loss, share(4, 2, 3), bits(4, 2, 3))
        case(name_of(loss) + "_weighted", loss, share(4, 2, 3), bits(4, 2, 3), sample_weight=share(4))
    moved = lambda random: one_hot(3, 4, 2)(random).transpose(0, 2, 1).copy()
    for kind in ["CategoricalCrossentropy", "CategoricalFocalCrossentropy"]:
        loss = f"{kind}(from_logits = true, axis = 1)"
        case(name_of(loss), loss, numbers(4, 3, 2), moved)
    for kind in ["BinaryCrossentropy", "BinaryFocalCrossentropy"]:
        loss = f"{kind}(axis = 1)"
        case(name_of(loss), loss, share(4, 3, 2), bits(4, 3, 2), sample_weight=share(4))
    for options, predicted in [("", chances), ("from_logits = true", numbers)]:
        for ignore in ["", "ignore_class = 1"]:
            loss = f"SparseCategoricalCrossentropy({', '.join(filter(None, [options, ignore]))})"
            case(name_of(loss), loss, predicted(4, 3), with_ones(3, 4))
            case(f"{name_of(loss)}_weighted", loss, predicted(4, 2, 3), with_ones(3, 4, 2), sample_weight=share(4))
    case("sparse_column", "SparseCategoricalCrossentropy()", chances(4, 3), classes(3, 4, 1))
    for names, predicted, target in SHORT:
        for name in names:
            case(f"by_name_{name}", f'"{name}"', predicted(4, 3), target(4, 3))
    for name in ["categorical_crossentropy", "categorical_focal_crossentropy", "categorical_hinge", "crossentropy"]:
        case(f"by_name_{name}", f'"{name}"', chances(4, 3), one_hot(3, 4))
    for name in ["sparse_categorical_crossentropy", "ce"]:
        case(f"by_name_{name}", f'"{name}"', chances(4, 3), classes(3, 4))
    case("crossentropy_binary", '"crossentropy"', share(4, 1), bits(4, 1), sample_weight=share(4))
    # Where predictions and targets have not the same axes.
    case("target_without_axis", "MeanSquaredError()", numbers(4, 1), numbers(4))
    case("prediction_without_axis", "MeanAbsoluteError()", numbers(4), numbers(4, 1), sample_weight=share(4))
    case("integer_targets", "MeanSquaredError()", numbers(4, 3), classes(5, 4, 3))
    case("weights_of_zero", "MeanSquaredError()", numbers(4, 3), numbers(4, 3), sample_weight=lambda _: np.zeros(4, np.float32))
    for kind in ["Hinge()", "SquaredHinge()"]:
        case(f"{name_of(kind)}_of_bits", kind, numbers(4, 3), bits(4, 3))
    # Two outputs, of which one counts more.
    two = {"Y": numbers(4, 2), "Z": numbers(4, 3)}
    statements = ["first = Dense(2)", "second = Dense(3)", "Y = first(X)", "Z = second(X)"]
    family.case("two_outputs", statements, {"X": numbers(4, 5)}, loss="Huber()", targets=two)
    weighted = dict(loss_weights=[0.3, 2.0], settings={"loss_weights": "[0.3, 2.0]"})
    family.case("loss_weights", statements, {"X": numbers(4, 5)}, loss="LogCosh()", targets=two, **weighted)
    yield family
