"""Three steps of a family of models in Keras: make.py describes the files."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE.parent), str(HERE.parent / "layers")]

from cases import Layer, keras, np  # noqa: E402
from hashed import hashed, limits, line  # noqa: E402

# The relative difference that tests/families.rs allows.
TOLERANCE = 2e-6
STEPS = 3
# The most elements of a weight that are kept.
MOST = 40


class Data(dict):
    """The arrays of a batch by name, and their lines of the contract."""

    def __init__(self, floatx):
        super().__init__()
        self.floatx, self.lines = floatx, []

    def add(self, kind, name, shape, low, high, dtype="f32"):
        self.lines.append(line(kind, name, shape, low, high, dtype))
        array = hashed(name, shape, low, high, np.int32 if dtype == "i32" else np.float32)
        self[name] = array if dtype == "i32" else array.astype(self.floatx)
        return self[name]

    def input(self, *options):
        return self.add("input", *options)

    def target(self, *options):
        return self.add("target", *options)


class Network(keras.Model):
    """Layers by their paths in the program, and a function from them and the inputs to the outputs."""

    def __init__(self, parts, function):
        super().__init__()
        self.layers_of_parts = list(parts.values())
        # Keras would copy a dictionary of layers.
        self.parts = tuple(parts.items())
        self.function = function

    @property
    def named(self):
        return dict(self.parts)

    def call(self, inputs):
        inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        return self.function(self, *inputs)


@dataclass
class Trained:
    """A network, with its batch and the options of `compile`."""

    parts: dict
    function: object
    inputs: list
    targets: object
    compiled: dict
    sample_weight: object = None
    # Beginnings of the paths of parts that its steps do not change.
    frozen: tuple = ()
    name: str = "loss"

    def __post_init__(self):
        self.network = Network(self.parts, self.function)
        self.network.compile(**self.compiled)

    def step(self):
        for path, layer in self.parts.items():
            layer.trainable = not path.startswith(tuple(self.frozen))
        inputs = self.inputs[0] if len(self.inputs) == 1 else self.inputs
        return self.network.train_on_batch(inputs, self.targets, self.sample_weight, return_dict=True)["loss"]


@dataclass
class Family:
    file: str
    entry: str
    trained: list
    definitions: list = field(default_factory=list)
    settings: dict = field(default_factory=dict)
    classes: dict = field(default_factory=dict)


def train(make, floatx):
    """Makes the steps: the family, the lines of the data and weights, the losses, and the weights after the steps, by name."""
    keras.utils.clear_session()
    keras.config.set_floatx(floatx)
    data = Data(floatx)
    family = make(data)
    variables, lines, losses = {}, data.lines, {one.name: [] for one in family.trained}
    for one in family.trained:
        # Not through __call__, whose name would begin the paths of variables.
        one.network.call([keras.ops.convert_to_tensor(x) for x in one.inputs])
        for part, layer in one.parts.items():
            # Normalization's `count` is Keras' alone.
            named = {path: variable for path, variable in Layer(layer).weights().items() if path != "Count"}
            variables |= {f"{part}.{path}": variable for path, variable in named.items()}
    for path, variable in variables.items():
        shape = tuple(variable.shape)
        low, high = limits(path, shape)
        variable.assign(hashed(path, shape, low, high).astype(floatx))
        lines.append(line("weight", path, shape, low, high))
    for layer in {layer for one in family.trained for layer in one.parts.values()}:
        if isinstance(layer, keras.layers.Normalization):
            layer.finalize_state()
    for _ in range(STEPS):
        for one in family.trained:
            losses[one.name].append(float(one.step()))
    for one in family.trained:
        one.network.optimizer.finalize_variable_values(one.network.trainable_variables)
    after = {path: keras.ops.convert_to_numpy(variable).astype(np.float64) for path, variable in variables.items()}
    return family, lines, losses, after


def write(name, make):
    family, lines, losses, after = train(make, "float64")
    *_, rough = train(make, "float32")
    text = [f"case {name}"] + [f"    {definition}" for definition in family.definitions]
    text.append(f"program examples/{family.file}.tile {family.entry}")
    text += [f"set {key} {value}" for key, value in family.settings.items()]
    text += [f"class {key} {value}" for key, value in family.classes.items()]
    text += lines
    text += [f"loss {key} {' '.join(map(repr, values))}" for key, values in losses.items()]
    kept, unknown = [], 0
    for path, value in after.items():
        value, error = value.ravel(), np.abs(rough[path] - value).ravel()
        every = -(-value.size // MOST)
        # An odd step meets every column of an even number of them.
        every += 1 - every % 2
        sure = error <= TOLERANCE / 2 * np.abs(value).max()
        if sure.mean() < 0.75:
            sure[:] = False
        unknown += (~sure).sum()
        kept.append(np.where(sure, value, np.nan)[::every])
        text.append(f"after {path} {every}")
    size = sum(value.size for value in after.values())
    assert unknown < size / 20, (name, unknown, size)
    (HERE / f"{name}.txt").write_text("\n".join(text) + "\n")
    np.save(HERE / f"{name}.npy", np.concatenate(kept).astype(np.float32))
    print(f"{name}: losses {losses}; {unknown} of {size} elements are undetermined", flush=True)
