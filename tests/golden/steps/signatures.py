"""Writes golden/keras_signatures.txt: every public layer, function, loss, metric, optimizer and schedule of Keras with its options and
their defaults, as Tile would write them, a line each; those of `name`, `dtype` and `**kwargs` aside."""

import inspect

from steps import HERE, keras

MODULES = {
    "layers": keras.layers,
    "activations": keras.activations,
    "regularizers": keras.regularizers,
    "constraints": keras.constraints,
    "losses": keras.losses,
    "metrics": keras.metrics,
    "optimizers": keras.optimizers,
    "schedules": keras.optimizers.schedules,
}
# No options of the mathematics.
ASIDE = {"self", "x", "name", "dtype", "kwargs", "args", "y_true", "y_pred", "trainable", "activity_regularizer_"}


def value(default):
    """As Tile writes it."""
    if isinstance(default, (list, tuple)):
        return f"[{', '.join(map(value, default))}]"
    if isinstance(default, str):
        return default
    return {None: "none", True: "true", False: "false"}.get(default, repr(default)) if not isinstance(default, (int, float)) or isinstance(default, bool) else repr(default)


def options(kind):
    made = inspect.signature(kind.__init__ if isinstance(kind, type) else kind).parameters.values()
    for parameter in made:
        if parameter.name in ASIDE or parameter.kind == parameter.VAR_KEYWORD:
            continue
        empty = parameter.default is inspect.Parameter.empty
        yield parameter.name if empty else f"{parameter.name} = {value(parameter.default)}"


def write():
    lines = []
    for title, module in MODULES.items():
        lines.append(f"# {title}")
        for name, kind in sorted(vars(module).items()):
            if name[0] != "_" and callable(kind) and name not in ("get", "serialize", "deserialize"):
                lines.append(f"{name}({', '.join(options(kind))})")
    (HERE.parent / "keras_signatures.txt").write_text("\n".join(lines) + "\n")
