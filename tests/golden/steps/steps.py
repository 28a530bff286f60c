"""A case of training: a model in Tile with its `train` settings, and what Keras makes of it in one epoch.

The statements are Tile and Python at once, as in golden/layers/cases.py, whose names they use. Each input X of floats has a
weight Of_X of its own shape added to it, so that its gradient is seen, too. All is computed in float64, from numbers that float32
holds, and rounded once.

FAMILY.txt lists the cases; an empty line is between two:

    case NAME
        STATEMENT;                          the model's body, line by line
    set NAME VALUE                          a setting of the `train` block
    input NAME TYPE[SIZES]                  all samples
    target NAME TYPE[SIZES]                 of each output, by its name
    sample_weight Samples f32[N]            where samples have weights
    weight PATH TYPE[SIZES]                 the first values: every weight of the model, by path
    result NAME f32[SIZES]                  the loss, then each metric, of the epoch
    after PATH TYPE[SIZES]                  the weights that are not what they were at first
    slot PATH f32[SIZES]                    what the optimizer keeps, where it is compared

FAMILY.npz has one array, `values`: those of all these lines in order, flat, as f32.
"""

import os
import pathlib
import re
import sys
import types

# What is compiled runs once.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_multi_thread_eigen=false")

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "layers"))

from cases import TYPES, Layer, Names, flags, generator, integers, keras, normal, np, weight  # noqa: E402, F401
from keras.src import backend  # noqa: E402
from keras.src.trainers import compile_utils  # noqa: E402

# Inputs and first weights are multiples of this, so that they compress.
GRID = 1 / 1024
# What small names mean among the settings.
KINDS = (keras.optimizers, keras.losses, keras.metrics, keras.optimizers.schedules)
METRICS = (keras.optimizers, keras.metrics, keras.losses, keras.optimizers.schedules)


def on_grid(array):
    array = np.asarray(array)
    return (np.round(array / GRID) * GRID).astype(np.float32) if array.dtype == np.float32 else array


class Settings(dict):
    """What names mean in a setting."""

    def __init__(self, modules):
        self.modules = modules

    def __missing__(self, name):
        constants = {"true": True, "false": False, "none": None}
        if name in constants:
            return constants[name]
        for module in self.modules:
            if hasattr(module, name):
                return getattr(module, name)
        return name


def setting(text, modules=KINDS):
    """The value of a setting, by Keras' classes under Tile's names."""
    return eval(re.sub(r"\blr = ", "learning_rate = ", text), {}, Settings(modules))


class Model(keras.Model):
    """The statements of a case, as a model of Keras."""

    def __init__(self, statements, inputs, definitions, shift=True):
        super().__init__()
        kept = Names(definitions)
        for statement in statements:
            if is_layer(statement):
                exec(statement, {}, kept)
        # By the path of the instance.
        named = {name: made for name, made in kept.items() if isinstance(made, Layer)}
        self.tracked = [made.layer for made in named.values() if isinstance(made.layer, keras.layers.Layer)]
        shifts = {
            name: self.add_weight(shape=array.shape, initializer="zeros", name=f"of_{name}")
            for name, array in inputs.items()
            if shift and array.dtype == np.float32
        }
        # Keras copies lists and dictionaries that a model has, but not those of a plain object.
        self.case = types.SimpleNamespace(kept=kept, named=named, shifts=shifts, order=list(inputs), outputs=[])
        self.case.statements = [statement for statement in statements if not is_layer(statement)]

    def call(self, inputs, training=False):
        case = self.case
        names = Names(dict(case.kept))
        for made in case.named.values():
            made.training = training
        for name, value in zip(case.order, inputs):
            value = keras.ops.convert_to_tensor(value)
            names[name] = value + case.shifts[name] if name in case.shifts else value
        defined = []
        for statement in case.statements:
            exec(statement, {}, names)
            found = statement.split(" = ")[0].split(", ")
            # With the first mask alone: Keras gives it to other results, too, whatever they are.
            names |= {name: keras.ops.add(names[name], 0) for name in found[1:] if not isinstance(names[name], (list, tuple))}
            defined += found
        case.outputs = [name for name in dict.fromkeys(defined) if not isinstance(names[name], (list, tuple))]
        return [names[name] for name in case.outputs]

    def weights_by_path(self):
        paths = {f"Of{name}": variable for name, variable in self.case.shifts.items()}
        for name, made in self.case.named.items():
            paths |= {f"{name}.{path}": variable for path, variable in made.weights().items()}
        return paths


def is_layer(statement):
    """Whether a statement makes a layer: `layer = Dense(3)`."""
    return bool(re.match(r"[a-z_]+ = [A-Z]\w*\(", statement))


def compute(family, case, statements, inputs, loss="MeanSquaredError()", optimizer="SGD(lr = 1.0)", **options):
    """The lines of the manifest, and the arrays in their order; None where an output is no float."""
    steps = options.get("steps", 1)
    # Metrics have the names that they have in a program of their own.
    keras.utils.clear_session()
    text = [f"case {case}"]
    arrays = []

    def add(kind, name, array):
        array = np.asarray(array)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        assert array.dtype == bool or np.isfinite(array).all(), (family, case, name, array)
        text.append(f"{kind} {name} {TYPES[array.dtype.name]}[{', '.join(map(str, array.shape))}]")
        arrays.append(array)

    given = {name: on_grid(make(generator(family, case, name))) for name, make in inputs.items()}
    samples = len(next(iter(given.values())))
    batch = samples // steps
    of_batch = {name: array[:batch] for name, array in given.items()}
    model = Model(statements, of_batch, options.get("definitions", {}), options.get("shift", True))
    if sum(array.size for array in given.values()) > options.get("most", 10**6):
        return None
    wide = lambda array: array.astype(np.float64) if array.dtype == np.float32 else array
    data = [wide(array) for array in given.values()]
    # Outside of the model's own scope, so that the paths of variables begin with their layer.
    given_types = [keras.KerasTensor((batch, *array.shape[1:]), array.dtype.name) for array in data]
    predicted = backend.compute_output_spec(model.call, given_types)
    names = model.case.outputs
    if not all(keras.backend.standardize_dtype(y.dtype) == "float64" for y in predicted):
        return None
    if not model.trainable_variables:
        return None
    # Targets.
    makes = options.get("targets") or {}
    targets = {}
    for name, y in zip(names, predicted):
        shape = (samples,) + tuple(y.shape[1:])
        make = makes.get(name, lambda random: random.standard_normal(shape).astype(np.float32))
        targets[name] = on_grid(make(generator(family, case, "target", name)))
    # Weights.
    paths = model.weights_by_path()
    first = {}
    for path, variable in paths.items():
        make = (options.get("weights") or {}).get(path, lambda random: weight(path, tuple(variable.shape), random))
        array = np.zeros(variable.shape, np.float32) if path[:2] == "Of" else make(generator(family, case, path))
        first[path] = on_grid(array)
        variable.assign(wide(first[path]))
    if any("SpectralNormalization" in statement for statement in statements):
        normalise(model, [array[:batch] for array in data])
    # Training.
    made = losses_of(loss, names, targets, predicted)
    measures, weighted = (
        [metric_of(name, targets[names[0]], predicted[0]) for name in options.get(kind, [])]
        for kind in ("metrics", "weighted_metrics")
    )
    descent = options["descent"]() if "descent" in options else setting(options.get("keras", optimizer))
    if options.get("exclude"):
        descent.exclude_from_weight_decay(var_names=options["exclude"])
    if options.get("clip"):
        for key, value in options["clip"].items():
            setattr(descent, key, value)
    for path in options.get("frozen", []):
        model.case.named[path].layer.trainable = False
    for path in options.get("frozen_weights", []):
        paths[path].trainable = False
    # A metric whose result JAX cannot trace: of the predictions of the one step.
    apart = options.get("apart")
    if apart:
        for made_metric in measures:
            made_metric.update_state(wide(targets[names[0]]), model.call([keras.ops.convert_to_tensor(array) for array in data])[0])
    factors = options.get("loss_weights")
    single = len(names) == 1
    model.compile(
        optimizer=descent,
        loss=made[0] if single else made,
        loss_weights=factors,
        metrics=measures if single and not apart else None,
        weighted_metrics=weighted or None,
    )
    given_weights = options.get("sample_weight")
    given_weights = None if given_weights is None else on_grid(given_weights(generator(family, case, "samples")))
    history = model.fit(
        data,
        wide(targets[names[0]]) if single else [wide(target) for target in targets.values()],
        sample_weight=None if given_weights is None else wide(given_weights).reshape(shape_of_weights(given_weights, loss, predicted[0])),
        batch_size=batch,
        epochs=1,
        shuffle=False,
        verbose=0,
    ).history
    # Lines.
    shifts = [f"    param Of{n}[{', '.join(map(str, of_batch[n].shape))}] = zeros;" for n in model.case.shifts]
    text += shifts + [f"    {n} = {n} + Of{n};" for n in model.case.shifts]
    text += [f"    {statement};" for statement in statements]
    text.append(f"set loss {loss}")
    text.append(f"set optimizer {optimizer}")
    text.append(f"set batch_size {batch}")
    for kind in ("metrics", "weighted_metrics"):
        if options.get(kind):
            text.append(f"set {kind} [{', '.join(options[kind])}]")
    for name, value in (options.get("settings") or {}).items():
        text.append(f"set {name} {value}")
    for name, array in given.items():
        add("input", name, array)
    for name, array in targets.items():
        add("target", name, array)
    if given_weights is not None:
        add("sample_weight", "Samples", given_weights)
    for path, array in first.items():
        add("weight", path, array)
    add("result", "loss", np.float64(history["loss"][0]))
    for written, made in zip(options.get("metrics", []), measures):
        # A text is the name that Tile gives it; Keras has that of the class.
        name = written.strip('"') if written[0] == '"' else made.name
        add("result", name, np.asarray(made.result() if apart else history[made.name][0], np.float64))
    for written, made in zip(options.get("weighted_metrics", []), weighted):
        both = any(made.name == other.name for other in measures)
        name = f"weighted_{made.name}" if both else made.name
        add("result", written.strip('"') if written[0] == '"' else name, np.asarray(history[name][0], np.float64))
    for path, variable in paths.items():
        after = keras.ops.convert_to_numpy(variable)
        if (after != first[path]).any():
            add("after", path, after)
    if options.get("slots"):
        for path, array in slots(descent, paths):
            add("slot", path, array)
    return text, arrays


def normalise(model, data):
    """Gives kernels the values that SpectralNormalization assigns, and leaves the layers inside to be trained: on TensorFlow that is
    what a step does, and on JAX what is assigned to a trained variable is lost."""
    model.call([keras.ops.convert_to_tensor(array) for array in data], training=True)
    for made in model.case.named.values():
        if isinstance(made.layer, keras.layers.SpectralNormalization):
            made.weights = lambda paths=made.weights(): paths
            made.layer = made.layer.layer


def losses_of(text, names, targets, predicted):
    """A loss for each output: by a class, or by what a name means for the shapes."""
    made = []
    for name, y in zip(names, predicted):
        loss = setting(text)
        made.append(compile_utils.get_loss(loss, targets[name], y) if isinstance(loss, str) else loss)
    return made


def shape_of_weights(samples, loss, predicted):
    """Keras wants as many axes as the values of the loss have."""
    along_all = "[1, 2]" in loss or loss.startswith(("Dice", "Tversky")) and "-1" not in loss
    return samples.shape[:1] if along_all else samples.shape + (1,) * (len(predicted.shape) - 1 - samples.ndim)


def metric_of(text, target, predicted):
    made = setting(text, METRICS)
    if isinstance(made, str):
        return compile_utils.get_metric(made, target, predicted)
    if not isinstance(made, keras.metrics.Metric):
        return keras.metrics.MeanMetricWrapper(made, name=made.__name__)
    return made


def slots(optimizer, paths):
    """The states that the optimizer keeps for each weight: `WEIGHT.Momentum`."""
    for path, variable in paths.items():
        prefix = variable.path.replace("/", "_")
        for slot in optimizer.variables:
            name = slot.path.split("/")[-1]
            rest = name[len(prefix) + 1 :]
            # The moving average is the weight itself in the end.
            if name.startswith(prefix + "_") and slot.shape == variable.shape and rest != "average":
                yield f"{path}.{''.join(word.capitalize() for word in rest.split('_'))}", np.array(slot.value)


class Family:
    """The cases of one file."""

    def __init__(self, name):
        self.name, self.cases = name, []

    def case(self, name, statements, inputs, **options):
        assert name not in [case[0] for case in self.cases], (self.name, name)
        self.cases.append((name, statements, inputs, options))

    def write(self, only=""):
        texts, values = [], []
        for name, statements, inputs, options in self.cases:
            if only not in name:
                continue
            try:
                made = compute(self.name, name, statements, inputs, **options)
            except Exception as error:
                raise RuntimeError(f"{self.name} {name}: {error}") from error
            if made:
                texts.append("\n".join(made[0]))
                values += [np.asarray(array, np.float32).reshape(-1) for array in made[1]]
        if only:
            print("\n\n".join(texts))
            return
        (HERE / f"{self.name}.txt").write_text("\n\n".join(texts) + "\n")
        np.savez_compressed(HERE / f"{self.name}.npz", values=np.concatenate(values))
        print(f"{self.name}: {len(texts)} cases, {(HERE / f'{self.name}.npz').stat().st_size} bytes")
