"""Makes the values that the library's layers are compared with, by Keras and PyTorch: nothing of this project.

pip install numpy torch jax keras && python3 tests/golden/layers/make.py [FAMILY…]
KERAS_BACKEND=torch python3 tests/golden/layers/make.py --check      (another backend gives the same, but for
    average pooling that is padded at one end only, and the normalization of an axis that is not the last)
"""

import importlib
import sys

from cases import HERE, keras, np

FAMILIES = "core convolution pooling normalization regularization attention transformer recurrent recurrent_cells conv_lstm images augmentation preprocessing merging reshaping activation activation_layers more boxes".split()


def compare(family):
    """Says where the files are not what this backend computes."""
    stored = open(HERE / f"{family.name}.npy", "rb")
    manifest = (HERE / f"{family.name}.txt").read_text().split("\n\n")
    assert len(manifest) == len(family.cases), "another manifest"
    for case, lines in zip(family.cases, manifest):
        names = [line for line in lines.splitlines() if line.split(" ")[0] in ("input", "weight", "output", "update")]
        expected = [np.load(stored) for _ in names]
        try:
            text, found = family.compute(*case)
        except Exception as error:
            print(f"{family.name}: {case[0]}: {str(error).splitlines()[:3]}")
            continue
        assert text == lines.splitlines(), case[0]
        for name, a, b in zip(names, found, expected):
            difference = np.abs(a.astype(float) - b).max(initial=0)
            if difference > 1e-6 * np.abs(b.astype(float)).max(initial=0):
                print(f"{family.name}: {case[0]}: {name}: differs by {difference}")


def write(family):
    manifest = []
    with open(HERE / f"{family.name}.npy", "wb") as file:
        for case in family.cases:
            text, arrays = family.compute(*case)
            manifest.append("\n".join(text))
            for array in arrays:
                np.save(file, array)
    (HERE / f"{family.name}.txt").write_text("\n\n".join(manifest) + "\n")
    print(f"{family.name}: {len(manifest)} cases, {(HERE / f'{family.name}.npy').stat().st_size} bytes")


def write_names():
    """keras_layers.txt: every public layer of Keras, a line each; `NAME = LAYER` is another name of one, and `NAME: reason`
    one that the library has not. keras_functions.txt: activations, initializers and regularizers. The reasons are kept."""
    public = {name: kind for name, kind in vars(keras.layers).items() if isinstance(kind, type)}
    layers = {name: kind for name, kind in public.items() if issubclass(kind, keras.layers.Layer)}
    own = {kind: name for name, kind in layers.items() if kind.__name__ == name}
    own |= {kind: name for name, kind in layers.items() if kind not in own}  # GroupQueryAttention has another name inside
    lines = [name if own[kind] == name else f"{name} = {own[kind]}" for name, kind in sorted(layers.items())]
    lines = [line for line in lines if line not in ("Layer", "Wrapper")]
    write_list("keras_layers.txt", ["# Without Layer and Wrapper, which are what layers inherit from."] + lines)
    lines = []
    for module in (keras.activations, keras.initializers, keras.regularizers):
        names = sorted(name for name, value in vars(module).items() if name[0].islower() and callable(value))
        lines += [f"# {module.__name__}"] + [n for n in names if n not in ("get", "serialize", "deserialize")]
    write_list("keras_functions.txt", lines)


def write_list(name, lines):
    path = HERE.parent / name
    before = path.read_text().splitlines() if path.exists() else []
    reasons = dict(line.split(": ", 1) for line in before if ": " in line)
    path.write_text("".join(f"{line}: {reasons[line]}\n" if line in reasons else f"{line}\n" for line in lines))



if __name__ == "__main__":
    action = compare if "--check" in sys.argv else write
    for name in [a for a in sys.argv[1:] if a != "--check"] or FAMILIES:
        action(importlib.import_module(name).family)
    if action is write:
        write_names()
