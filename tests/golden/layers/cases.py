"""What the families of cases share: Tile's expressions on Keras' layers, random inputs and weights, and the files.

A case is the body of a model in Tile, `layer = Dense(5, activation = relu); Y = layer(X);`. It happens to be Python as
well, and is run as such, with Keras' layers under Tile's names: what is tested is what a user would write.
All is computed in float64, from inputs and weights that float32 holds, and rounded once.

FAMILY.txt lists the cases; an empty line is between two:

    case NAME
        STATEMENT;                          the model's body, line by line; its inputs and outputs are those below
    training                                if it is a step of training
    input NAME TYPE[SIZES]
    weight PATH TYPE[SIZES]                 every weight of the model, by path
    output NAME TYPE[SIZES]
    update PATH TYPE[SIZES]                 the next value of what the step changes, in training

FAMILY.npy holds the arrays of all these lines in order, one after another, as np.save writes them; np.load reads them so.
"""

import functools
import os
import pathlib
import zlib

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ["JAX_ENABLE_X64"] = "1"

import keras
import numpy as np
from keras.src.backend.common import dtypes

# Keras computes statistics and mixed types in float32, but for this table.
keras.config.set_floatx("float64")
dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"

HERE = pathlib.Path(__file__).parent
TYPES = {"float32": "f32", "int32": "i32", "uint8": "u8", "uint32": "u32", "bool": "bool"}

# Which of Keras' call arguments an input of attention with heads is.
INPUTS = {
    "Key": "key",
    "Mask": "attention_mask",
    "QueryMask": "query_mask",
    "ValueMask": "value_mask",
    "KeyMask": "key_mask",
}


class Symbol(str):
    """A small name: a symbol like `same`, or a function, `relu`, `relu(X)`, `leaky_relu(negative_slope = 0.1)`, `zeros()`, `l2(0.1)`."""

    def __call__(self, *inputs, **options):
        for module in (keras.initializers, keras.regularizers, keras.constraints):
            if hasattr(module, self):
                return getattr(module, self)(*inputs, **options)
        function = getattr(keras.activations, self)
        if not any(hasattr(x, "shape") for x in inputs):
            return lambda x: function(x, *inputs, **options)
        return function(*[keras.ops.convert_to_tensor(x) for x in inputs], **options)


class Layer:
    """An instance of a layer of Keras."""

    def __init__(self, layer, listed=False):
        """`listed`: it was made from a list of layers."""
        self.layer, self.listed, self.training = layer, listed, False
        if getattr(layer, "lora_alpha", None) is not None:
            # Keras 3.15 loses it when it makes the factors.
            layer.enable_lora = functools.partial(layer.enable_lora, lora_alpha=layer.lora_alpha)

    def __call__(self, *inputs, **options):
        heads = isinstance(self.layer, (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention))
        names = INPUTS if heads else {"Mask": "mask", "InitialState": "initial_state"}
        options = {names.get(name, name): value for name, value in options.items()}
        if isinstance(self.layer, keras.layers.Attention):  # AdditiveAttention too
            masks = [options.pop(name, None) for name in ("QueryMask", "ValueMask")]
            options["mask"] = masks if any(m is not None for m in masks) else None
            inputs = [list(inputs)]
        if self.layer._call_has_training_arg:
            options["training"] = self.training
        return self.layer(*inputs, **options)

    def weights(self):
        """Keras' variables by the path that follows the instance's: `forward.RecurrentKernel`."""
        return {self.path(variable): variable for variable in self.layer.weights}

    def path(self, variable):
        *inner, name = variable.path.split("/")[1:]
        cell = getattr(self.layer, "cell", self.layer)
        if isinstance(cell, keras.layers.StackedRNNCells):
            number = [id(v) for c in cell.cells for v in c.weights].index(id(variable))
            number = [i for i, c in enumerate(cell.cells) for _ in c.weights][number]
            list_name = "cells" if cell is self.layer else "cell" if self.listed else "cell.cells"
            inner = [f"{list_name}[{number}]"]
        elif type(self.layer) is keras.layers.RNN:
            inner = ["cell"]
        if isinstance(self.layer, keras.layers.TimeDistributed):
            inner = ["layer"]
        inner = [part for part in inner if not part.endswith("_cell")]
        if isinstance(self.layer, keras.layers.Bidirectional):
            cells = ["cell"] * (type(self.layer.forward_layer) is keras.layers.RNN)
            inner = ["forward" if inner[0].startswith("forward_") else "backward"] + cells
        if isinstance(self.layer, keras.layers.SpectralNormalization):
            inner = ["norm" if name == "vector_u" else "layer"]
        inner = ["output" if part == "attention_output" else part for part in inner]
        return ".".join(inner + ["".join(word.capitalize() for word in name.split("_"))])

    def get(self, path):
        return keras.ops.convert_to_numpy(self.weights()[path])

    def set(self, path, value):
        self.weights()[path].assign(value)


class Names(dict):
    """What names mean in the body of a case."""

    def __missing__(self, name):
        constants = {"true": True, "false": False, "none": None}
        if name in constants:
            return constants[name]
        kind = (
            keras.layers.GroupQueryAttention if name == "GroupedQueryAttention" else getattr(keras.layers, name, None)
        )
        if kind:
            return lambda *options, **named: Layer(
                made(kind, *map(unwrap, options), **options_of_keras(named)),
                any(isinstance(value, list) for value in options),
            )
        if name[0].islower():
            return Symbol(name)
        raise KeyError(name)


def made(kind, *options, **named):
    """An instance of a class of Keras."""
    layer = kind(*options, **named)
    if kind is keras.layers.SimpleRNN:
        # Keras 3.15 loses it.
        layer.activity_regularizer = keras.regularizers.get(named.get("activity_regularizer"))
    return layer


def options_of_keras(options):
    """Keras' own layers among the options, and the bounds of `renorm_clipping` by their names."""
    options = {key: unwrap(value) for key, value in options.items()}
    if "renorm_clipping" in options:
        bounds = zip(("rmin", "rmax", "dmax"), options["renorm_clipping"])
        options["renorm_clipping"] = {name: bound for name, bound in bounds if bound is not None}
    return options


def unwrap(value):
    """Keras' own layer, or a list of such."""
    if isinstance(value, list):
        return [unwrap(item) for item in value]
    return value.layer if isinstance(value, Layer) else value


def generator(*names):
    """Random numbers that depend on what they are for, so that a new case changes no other."""
    return np.random.default_rng(zlib.crc32("/".join(names).encode()))


def normal(*shape, mean=0.0, scale=1.0):
    return lambda random: (mean + scale * random.standard_normal(shape)).astype(np.float32)


def integers(high, *shape, dtype=np.int32):
    return lambda random: random.integers(0, high, shape).astype(dtype)


def flags(*shape):
    """Booleans; the first along the last axis is true, so that nothing is masked wholly."""

    def make(random):
        array = random.random(shape) < 0.6
        array[..., 0] = True
        return array

    return make


def values(*numbers):
    return lambda random: np.array(numbers, np.float32)


def weight(path, shape, random):
    name = path.split(".")[-1]
    if "Variance" in name:
        array = random.uniform(0.3, 2.5, shape)
    elif name in ("Gamma", "Scale"):
        array = random.uniform(0.5, 1.5, shape) * random.choice([1, -1], shape)
    elif name in ("Bias", "Beta"):
        array = random.standard_normal(shape)
    else:
        array = 0.5 * random.standard_normal(shape)
    return np.asarray(array, np.float32)


class Family:
    """The cases of one file."""

    def __init__(self, name, definitions=()):
        self.name, self.definitions, self.cases = name, dict(definitions), []

    def layer(self, name, expression, call=None, training=False, **inputs):
        """A case of one layer, applied to its inputs in order unless `call` says how."""
        call = call or f"Y = layer({', '.join(inputs)})"
        self.body(name, [f"layer = {expression}", call], training, **inputs)

    def body(self, name, statements, training=False, **inputs):
        assert name not in [case[0] for case in self.cases], name
        self.cases.append((name, statements, training, inputs))

    def compute(self, case, statements, training, inputs):
        """Runs a case: its lines of the manifest, and the arrays in their order."""
        text = [f"case {case}"] + [f"    {statement};" for statement in statements] + ["training"] * training
        arrays = []

        def add(kind, name, array):
            assert kind == "input" or kind == "weight" or array.dtype != np.float32, (self.name, case, name)
            array = np.asarray(array, np.float32 if array.dtype == np.float64 else None, order="C")
            assert array.dtype == bool or np.isfinite(array).all(), (self.name, case, name)
            text.append(f"{kind} {name} {TYPES[array.dtype.name]}[{', '.join(map(str, array.shape))}]")
            arrays.append(array)

        names = Names(self.definitions)
        for name, make in inputs.items():
            array = make(generator(self.name, case, name))
            names[name] = keras.ops.convert_to_tensor(array.astype(np.float64) if array.dtype == np.float32 else array)
            add("input", name, array)
        run(statements, names)
        layer = names.get("layer")
        weights = {}
        for path in layer.weights() if layer else ():
            array = weight(path, layer.get(path).shape, generator(self.name, case, path))
            layer.set(path, array.astype(np.float64))
            weights[path] = array
            add("weight", f"layer.{path}", array)
        if layer:
            layer.training = training
        for name in run([s for s in statements if not s.startswith("layer =")], names):
            if not isinstance(names[name], (list, tuple)):
                add("output", name, keras.ops.convert_to_numpy(names[name]))
        for path, before in weights.items() if training else ():
            after = layer.get(path)
            if (after != before).any():
                add("update", f"layer.{path}", after)
        return text, arrays


def run(statements, names):
    """Runs statements, and gives the names that they define in order, but for `layer`."""
    defined = []
    for statement in statements:
        exec(statement, {}, names)
        defined += [name for name in statement.split(" = ")[0].split(", ") if name != "layer"]
    return defined
