"""Optimizers, with what they keep, and schedules, over three and more steps.

The second column of the input is 0, so that a row of the kernel has a gradient of exactly 0: there Adam and its like must not move.
A gradient that is 0 but for rounding would be moved by a whole step; no case has one.
"""

import re

from losses import classes, name_of, numbers
from steps import Family, keras, np, setting

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
MORE = {
    "Lamb": ["beta_1 = 0.8", "beta_2 = 0.9", "epsilon = 0.01"],
    "ScheduleFreeAdamW": ["beta_1 = 0.8", "beta_2 = 0.9", "epsilon = 0.01", "warmup_steps = 2"],
    "Adafactor": ["beta_2_decay = -0.5", "epsilon_1 = 0.01", "epsilon_2 = 0.3", "clip_threshold = 0.3"],
    "Muon": [
        "muon_a = 3.0, muon_b = -4.0, muon_c = 1.5",
        "momentum = 0.7",
        "ns_steps = 2",
        "nesterov = false",
        "rms_rate = none",
        "rms_rate = 0.5",
        "adam_beta_1 = 0.8, adam_beta_2 = 0.9, epsilon = 0.01",
        "adam_weight_decay = 0.3",
        "adam_weight_decay = none",
        "adam_lr_ratio = 0.5",
    ],
}
# Options of every optimizer. In Keras a method excludes weights from decay.
EXCLUDED = 'weight_decay = 0.2, exclude_from_weight_decay = ["*.Bias"]'
AVERAGED = ["use_ema = true", "use_ema = true, ema_momentum = 0.8", "use_ema = true, ema_momentum = 0.7, ema_overwrite_frequency = 2"]
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


def of_all_weights():
    """Optimizers with options that concern all weights, and those that came later."""
    family = Family("optimizer_options")

    def case(name, optimizer, statements=("layer = Dense(2)", "Y = layer(X)"), given=batches(STEPS), **options):
        # Those of these are differences of larger numbers, or kept in another form.
        slots = not optimizer.strip('"').startswith(("Adafactor", "Muon", "ScheduleFree"))
        options = {"slots": slots, "shift": False, "steps": STEPS} | options
        family.case(name, list(statements), {"X": given}, optimizer=optimizer, **options)

    for kind, kinds in MORE.items():
        case(kind.lower(), f"{kind}()")
        for option in kinds + COMMON:
            case(f"{kind.lower()}_{name_of(option)}", f"{kind}(learning_rate = 0.05, {option})")
        if kind != "Lamb":  # Keras does not find it by its name.
            case(f"{kind.lower()}_by_name", f'"{kind.lower()}"', slots=False)
    for kind in [*OPTIMIZERS, *MORE]:
        for option in ["global_clipnorm = 0.1", *AVERAGED]:
            case(f"{kind.lower()}_{name_of(option)}", f"{kind}(learning_rate = 0.05, {option})")
        plain = f"{kind}(learning_rate = 0.05, weight_decay = 0.2)"
        case(f"{kind.lower()}_exclude", f"{kind}(learning_rate = 0.05, {EXCLUDED})", keras=plain, exclude=["bias"])
    # A learning rate of 1 / sqrt(step) is less than the one given.
    case("adafactor_fast", "Adafactor(learning_rate = 0.9)")
    case("adafactor_not_relative", "Adafactor(learning_rate = 0.9, relative_step = false)")
    case("adafactor_schedule", "Adafactor(ExponentialDecay(0.9, 2, 0.5))")
    case("adafactor_volume", "Adafactor(0.05)", ["layer = Conv1D(3, 2)", "Y = layer(X)"], numbers(9, 5, 2))
    case("muon_wide", "Muon(0.05)", ["layer = Dense(5)", "Y = layer(X)"])
    layers = ["first = Dense(3)", "second = Dense(2)", "Y = second(first(X))"]
    case("muon_exclude_layers", 'Muon(0.05, exclude_layers = ["second"])', layers, keras='Muon(0.05, exclude_layers = ["dense_1"])')
    words = ["layer = Embedding(5, 3)", "Y = layer(X)"]
    case("muon_embedding", "Muon(0.05)", words, classes(5, 9, 2))
    case("muon_no_embedding", "Muon(0.05, exclude_embeddings = false)", words, classes(5, 9, 2))
    # By the paths of the weights.
    rates = 'SGD(by_path(0.1, [["layer", 0.5], ["*.Bias", 0.02]]))'
    case("rate_by_path", rates, descent=lambda: multi("SGD(0.5)", {".*bias": "SGD(0.02)"}))
    case("multi_default", "MultiOptimizer(SGD(0.1))", descent=lambda: multi("SGD(0.1)", {}), slots=False)
    case("multi", 'MultiOptimizer(Adam(0.05), [["*.Bias", SGD(0.02)]])', descent=lambda: multi("Adam(0.05)", {".*bias": "SGD(0.02)"}), slots=False)
    case("frozen_pattern", "Adam(0.05)", layers, settings={"frozen": '["*.Bias", "fir*"]'}, frozen=["first"], frozen_weights=["second.Bias"])
    return family


def multi(default, others):
    """An optimizer for the weights whose path a pattern matches, and one for the rest."""
    return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(setting(default), {path: setting(text) for path, text in others.items()}))


def families():
    yield of_all_weights()
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
