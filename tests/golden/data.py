"""Samples in every form that `tilec train` reads, made by NumPy and Pillow, in the folder `data` beside this file.

    pip install numpy pillow && python3 tests/golden/data.py

The same five pictures of 2 x 3 grey values everywhere: value (n, y, x) is 40 n + 10 y + x, and the class of picture n is n % 2.
"""

import gzip
import pathlib
import struct

import numpy as np
from PIL import Image

here = pathlib.Path(__file__).parent / "data"
n, y, x = np.ogrid[:5, :2, :3]
pictures = (40 * n + 10 * y + x).astype(np.uint8)
classes = (np.arange(5) % 2).astype(np.uint8)


def idx(array):
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def folder(name):
    path = here / name
    path.mkdir(parents=True, exist_ok=True)
    return path


for first, last, part in [(0, 3, "train"), (3, 5, "t10k")]:
    with gzip.GzipFile(folder("idx") / f"{part}-images-idx3-ubyte.gz", "wb", mtime=0) as file:
        file.write(idx(pictures[first:last]))
    (folder("idx") / f"{part}-labels-idx1-ubyte").write_bytes(idx(classes[first:last]))
np.save(folder("npy") / "x.npy", pictures.astype(np.float32))
np.save(folder("npy") / "y.npy", classes.astype(np.int64).reshape(5, 1))
np.savez(here / "split.npz", x_train=pictures[:3], y_train=classes[:3], x_test=pictures[3:], y_test=classes[3:])
np.savez_compressed(here / "whole.npz", x=pictures, y=classes)
rows = [[*picture.ravel(), label] for picture, label in zip(pictures, classes)]
header = "a,b,c,d,e,f,class"
np.savetxt(here / "last.csv", rows, "%d", ",", header=header, comments="")
np.savetxt(here / "label.csv", [row[-1:] + row[:-1] for row in rows], "%d", ", ", header="label,x,y,b,c,d,e", comments="")
np.savetxt(here / "points.csv", [row[:3] for row in rows], "%d", ",", header="x,y,height", comments="")
for number, (picture, label) in enumerate(zip(pictures, classes)):
    Image.fromarray(picture).save(folder(f"pictures/{'ab'[label]}") / f"{number}.png")
for number, colour in enumerate([(200, 40, 90), (0, 255, 0)]):
    Image.new("RGB", (8, 8), colour).save(folder(f"jpeg/train/{'ab'[number]}") / "0.jpg", quality=95)
Image.new("RGB", (8, 8), (5, 5, 250)).save(folder("jpeg/test/b") / "0.jpeg", quality=95)

# Class numbers in every form of grey and of a palette, as [2, 3].
masks = np.arange(6).reshape(2, 3)
Image.fromarray((masks % 2).astype(bool)).save(folder("masks") / "1.png")
Image.fromarray(masks.astype(np.uint8)).save(folder("masks") / "8.png")
Image.fromarray((masks * 1000).astype(np.uint16)).save(folder("masks") / "16.png")
for bits in (2, 4, 8):
    palette = Image.new("P", (3, 2))
    palette.putdata((masks % 4).ravel().tolist())
    palette.putpalette([number for n in range(4) for number in (200 - n, 10 * n, 90)])
    palette.save(folder("masks") / f"palette_{bits}.png", bits=bits)
