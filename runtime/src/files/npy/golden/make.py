"""Writes the .npy files beside it, with NumPy, for the tests of ../tests.rs to read.

    python3 make.py

Each holds np.arange(6) as a 2 by 3 array of the type in its name, unless said otherwise.
"""

import os

import numpy as np

os.chdir(os.path.dirname(os.path.abspath(__file__)))
values = np.arange(6).reshape(2, 3)

for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split():
    np.save(f"{name}.npy", values.astype(name))
np.save("fortran.npy", np.asfortranarray(values.astype("<f4")))
np.save("big_endian.npy", values.astype(">i4"))
np.save("scalar.npy", np.float32(2.5))
np.save("empty.npy", np.zeros((0, 3), "<f4"))
np.save("vector.npy", np.arange(3, dtype="<i4"))
for version in 2, 3:
    with open(f"version{version}.npy", "wb") as f:
        np.lib.format.write_array(f, values.astype("<f4"), version=(version, 0))
# What NumPy writes for ml_dtypes.bfloat16: the upper halves of the f32 bits.
np.save("bfloat16.npy", (values.astype("<f4").view("<u4") >> 16).astype("<u2").view("V2"))
np.save("object.npy", np.array([1, "a"], object), allow_pickle=True)
np.save("complex.npy", values.astype("complex64"))
np.save("structured.npy", np.zeros(2, [("a", "<i4"), ("b", "<f4")]))
