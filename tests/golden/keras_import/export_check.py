"""Holds `tilec export` to Keras: each model here is imported, exported, and loaded by Keras, whose predictions must be those of the first model. The
models of export.tile are exported, and must predict in Keras what they predict here.

    pip install keras jax h5py numpy && python3 tests/golden/keras_import/export_check.py TILEC [NAME…]

TILEC is the command. Models with operators and models between their layers cannot be exported, which is said.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np

FOLDER = pathlib.Path(__file__).parent


def arrays(name, kind):
    values = np.load(FOLDER / f"{name}.npz")
    return [values[f"{kind} {number}"] for number in range(len([key for key in values.files if key.startswith(kind)]))]


def quietly(*command):
    return subprocess.run([*command, "--quiet"], capture_output=True, text=True)


def compare(exported, inputs, expected):
    """Loads a model and holds its predictions to the expected ones."""
    model = keras.models.load_model(exported)
    outputs = model(inputs[0] if len(inputs) == 1 else inputs, training=False)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    assert len(outputs) == len(expected), exported
    for found, wanted in zip(outputs, expected):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, rtol=2e-6, atol=2e-6)
    return type(model).__name__


def check(tilec, name, folder):
    program, exported = folder / f"{name}.tile", folder / f"{name}.keras"
    run = quietly(tilec, "import", FOLDER / f"{name}.keras", "-o", program)
    assert not run.returncode, run.stderr
    run = quietly(tilec, "export", program, "-o", exported, "--weights", program.with_suffix(".safetensors"))
    if run.returncode:
        assert "only layers of the library can be written" in run.stderr, run.stderr
        return "cannot be exported"
    return compare(exported, arrays(name, "in"), arrays(name, "out"))


def check_program(tilec, name, inputs, outputs, folder):
    """Checks a model of export.tile, whose inputs have these sizes."""
    rng = np.random.default_rng(1)
    program, exported = FOLDER / "export.tile", folder / f"{name}.keras"
    values = [rng.integers(0, 3, shape) if text == "Tokens" else rng.uniform(-1, 1, shape) for text, shape in inputs.items()]
    values = [np.round(value) + 1 if text == "Seen" else value for text, value in zip(inputs, values)]
    given = []
    for text, value in zip(inputs, values):
        np.save(folder / f"{text}.npy", value.astype("float32"))
        given += ["--input", f"{text}={folder / text}.npy"]
    sizes = ["--dim", "K=3"] if name == "Sized" else []
    run = quietly(tilec, "export", program, "--entry", name, "--random", "5", "-o", exported, *sizes)
    assert not run.returncode, run.stderr
    run = quietly(tilec, "run", program, "--entry", name, "--random", "5", "--output-dir", folder, "--device", "cpu", *given)
    assert not run.returncode, run.stderr
    return compare(exported, [value.astype("float32") for value in values], [np.load(folder / f"{output}.npy") for output in outputs])


PROGRAMS = {
    "Options": ({"Image": (2, 12, 10, 3)}, ["Kind"]),
    "Branches": ({"Left": (3, 4), "Right": (3, 4)}, ["Sum", "Both"]),
    "Shared": ({"Left": (3, 4), "Right": (3, 4)}, ["Distance", "First"]),
    "Words": ({"Tokens": (3, 5), "Start": (3, 3)}, ["Kind", "Last"]),
    "Joined": ({"Tokens": (3, 5), "Series": (3, 4, 3)}, ["Kind"]),
    "Attend": ({"Query": (2, 3, 4), "Value": (2, 5, 4), "Seen": (2, 5)}, ["Y", "Scores"]),
    "Rescaled": ({"X": (2, 4)}, ["Y"]),
    "Sized": ({"X": (2, 3)}, ["Y"]),
}

if __name__ == "__main__":
    names = sys.argv[2:] or sorted(path.stem for path in FOLDER.glob("*.npz")) + list(PROGRAMS)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            how = check_program if name in PROGRAMS else check
            print(f"{name}: {how(sys.argv[1], name, *PROGRAMS.get(name, ()), pathlib.Path(folder))}")
