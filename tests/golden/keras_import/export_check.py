"""Holds `tilec export` to Keras: each model here is imported, exported, and loaded by Keras, whose predictions must be those of the first model.

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


def check(tilec, name, folder):
    program, exported = folder / f"{name}.tile", folder / f"{name}.keras"
    subprocess.run([tilec, "import", FOLDER / f"{name}.keras", "-o", program, "--quiet"], check=True)
    command = [tilec, "export", program, "-o", exported, "--weights", program.with_suffix(".safetensors"), "--quiet"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        assert "only layers of the library can be written" in run.stderr, run.stderr
        return "cannot be exported"
    model = keras.models.load_model(exported)
    inputs = arrays(name, "in")
    outputs = model(inputs[0] if len(inputs) == 1 else inputs, training=False)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    expected = arrays(name, "out")
    assert len(outputs) == len(expected), name
    for found, wanted in zip(outputs, expected):
        np.testing.assert_allclose(keras.ops.convert_to_numpy(found), wanted, rtol=2e-6, atol=2e-6)
    return type(model).__name__


if __name__ == "__main__":
    names = sys.argv[2:] or sorted(path.stem for path in FOLDER.glob("*.npz"))
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(f"{name}: {check(sys.argv[1], name, pathlib.Path(folder))}")
