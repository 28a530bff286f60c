"""Makes the weights that tests/cli/weights.rs loads, by the libraries that users write them with.

    pip install numpy safetensors && python3 tests/golden/weights.py

The network is y = relu(x @ hidden.Kernel + hidden.Bias) @ head.Kernel, in float64; the .npz has float64 weights, the
safetensors file float32 and, for the bias, float16.
"""

import json
import pathlib

import numpy as np
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).parent / "weights"
FOLDER.mkdir(exist_ok=True)
rng = np.random.default_rng(1)
weights = {
    "hidden.Kernel": rng.standard_normal((3, 5)).astype(np.float32),
    "hidden.Bias": rng.standard_normal(5).astype(np.float16),
    "head.Kernel": rng.standard_normal((5, 2)).astype(np.float32),
}
save_file(weights, FOLDER / "network.safetensors")
save_file({"hidden.Kernel": weights["hidden.Kernel"]}, FOLDER / "part-1.safetensors")
save_file({path: weights[path] for path in ["hidden.Bias", "head.Kernel"]}, FOLDER / "part-2.safetensors")
shards = {path: f"part-{1 if path == 'hidden.Kernel' else 2}.safetensors" for path in weights}
(FOLDER / "network.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}) + "\n")
(FOLDER / "outside.safetensors.index.json").write_text('{"weight_map": {"a": "../network.safetensors"}}\n')
np.savez(FOLDER / "network.npz", **{path: array.astype(np.float64) for path, array in weights.items()})
np.savez_compressed(FOLDER / "compressed.npz", **weights)
x = rng.standard_normal((4, 3)).astype(np.float32)
np.save(FOLDER / "X.npy", x)
wide = {path: array.astype(np.float64) for path, array in weights.items()}
y = np.maximum(x.astype(np.float64) @ wide["hidden.Kernel"] + wide["hidden.Bias"], 0) @ wide["head.Kernel"]
np.save(FOLDER / "Y.npy", y.astype(np.float32))
# Files that do not fit: one entry missing, one too many, one of another shape.
wrong = {"hidden.Kernel": weights["hidden.Kernel"].T.copy(), "hidden.Bias": weights["hidden.Bias"], "haed.Kernel": x}
save_file(wrong, FOLDER / "wrong.safetensors")
