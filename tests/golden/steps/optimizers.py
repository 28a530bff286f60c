"""Optimizers, with what they keep, and schedules, over three and more steps.

The second column of the input is 0, so that a row of the kernel has a gradient of exactly 0: there Adam and its like must not move.
A gradient that is 0 but for rounding would be moved by a whole step; no case has one.
"""

import re

from losses import name_of
from steps import Family, np

STEPS = 3
COMMON = ["weight_decay = 0.2", "clipnorm = 0.1", "clipvalue = 0.02"]
OPTIMIZERS = {
    "SGD": ["momentum = 0.9", "momentum = 0.9, nesterov = true"],
    "RMSprop": ["rho = 0.7", "momentum = 0.5", "epsilon = 0.001", "centered = true", "momentum = 0.9, centered = true"],
    "Adam": ["beta_1 = 0.8", "beta_2 = 0.9", "epsilon = 0.01", "amsgrad = true, beta_2 = 0.5"],
    "AdamW": ["beta_1 = 0.8", "beta_2 = 0.9", "epsilon = 0.01", "amsgrad = true, beta_2 = 0.5"],
    "Adagrad": ["initial_accumulator_value = 0.5", "epsilon = 0.01"],
    "Adadelta": ["rho = 0.8", "epsilon = 0.0001"],
    "Adamax": ["beta_1 = 0.8", "beta_2 = 0.9", "epsilon = 0.01"],
    "Nadam": ["beta_1 = 0.8", "beta_2 = 0.9", "epsilon = 0.01"],
    "Ftrl": [
        "learning_rate_power = -0.3",
        "initial_accumulator_value = 0.4",
        "l1_regularization_strength = 0.05",
        "l2_regularization_strength = 0.1",
        "l2_shrinkage_regularization_strength = 0.2",
        "beta = 0.3",
    ],
    "Lion": ["beta_1 = 0.5", "beta_2 = 0.7"],
}
SCHEDULES = [
    "PiecewiseConstantDecay([1, 3], [0.1, 0.05, 0.4])",
    "ExponentialDecay(0.1, 2, 0.7)",
    "ExponentialDecay(0.1, 2, 0.7, staircase = true)",
    "InverseTimeDecay(0.1, 2, 0.7)",
    "InverseTimeDecay(0.1, 2, 0.7, staircase = true)",
    "PolynomialDecay(0.1, 3)",
    "PolynomialDecay(0.1, 4, end_learning_rate = 0.01, power = 2.5)",
    "PolynomialDecay(0.1, 2, power = 0.5, cycle = true)",
    "CosineDecay(0.1, 4)",
    "CosineDecay(0.1, 3, alpha = 0.2)",
    "CosineDecay(0.01, 3, alpha = 0.1, warmup_target = 0.2, warmup_steps = 2)",
    "CosineDecayRestarts(0.1, 2)",
    "CosineDecayRestarts(0.1, 2, t_mul = 1.0, m_mul = 0.8, alpha = 0.1)",
]
CLIPPING = {"clip_by_global_norm(0.2)": {"global_clipnorm": 0.2}, "clip_by_norm(0.1)": {"clipnorm": 0.1}}
CLIPPING["clip_by_value(-0.02, 0.02)"] = {"clipvalue": 0.02}


def batches(count):
    """Of 3 samples."""

    def make(random):
        x = random.standard_normal((3 * count, 4)).astype(np.float32)
        x[:, 1] = 0
        return x

    return make


def families():
    family = Family("optimizers")

    def case(name, optimizer, steps=STEPS, **options):
        statements = ["layer = Dense(2)", "Y = layer(X)"]
        options = {"slots": True, "shift": False} | options
        family.case(name, statements, {"X": batches(steps)}, optimizer=optimizer, steps=steps, **options)

    for kind, kinds in OPTIMIZERS.items():
        case(kind.lower(), f"{kind}()")
        for option in kinds + [option for option in COMMON]:
            case(f"{kind.lower()}_{name_of(option)}", f"{kind}(learning_rate = 0.05, {option})")
        case(f"{kind.lower()}_by_name", f'"{kind.lower()}"', slots=False)
    case("positional", "Adam(0.05, 0.8, 0.9)")
    case("lr", "RMSprop(lr = 0.02)")
    for kind in ["SGD", "Adam"]:
        case(f"{kind.lower()}_several", f"{kind}(0.1, weight_decay = 0.1, clipnorm = 0.2)")
    for clipping, options in CLIPPING.items():
        case(name_of(clipping), "SGD(0.1)", clip=options, settings={"gradients": clipping})
    # Each step moves all weights, without a momentum: the rate of each is seen.
    for schedule in SCHEDULES:
        case(name_of(schedule), f"SGD({schedule})", steps=5)
    case("adam_schedule", "Adam(ExponentialDecay(0.1, 2, 0.5), weight_decay = 0.1)")
    yield family
