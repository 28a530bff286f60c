"""Makes the files of weights that tests/torch_weights.rs loads, by PyTorch, and what the networks give, in the folder `torch_weights` beside this file.

    pip install torch numpy safetensors && python3 tests/golden/torch_weights.py

For a network NAME: NAME.pt, its state_dict; NAME.npz with the input `x` and PyTorch's output `y` for it. The weights are random, those of
normalizations, too. For the reader of archives: values.pt with tensors of every kind, and values.npz with their elements as f64; files of other
versions, and files that are refused.
"""

import pathlib
import warnings
import zipfile

import numpy as np
import torch
from torch import nn

warnings.simplefilter("ignore")
FOLDER = pathlib.Path(__file__).parent / "torch_weights"
FOLDER.mkdir(exist_ok=True)
torch.manual_seed(1)


def read(name):
    with zipfile.ZipFile(FOLDER / name) as archive:
        return [(entry, archive.read(entry)) for entry in archive.infolist()]


def rewritten(name, change, source="values"):
    """Writes SOURCE.pt again, with changed entries, as NAME.pt."""
    entries = [(entry.filename, content) for entry, content in read(f"{source}.pt")]
    with zipfile.ZipFile(FOLDER / f"{name}.pt", "w") as new:
        for entry in entries:
            for path, content, how in change(*entry):
                new.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content, how)


def values():
    """Tensors of each type, and views of each kind, in nested containers beside values that are no tensors."""
    names = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"
    grid = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4) / 8
    module = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(3)).sum().backward()
    optimizer.step()
    described = torch.ones(2)
    described.note = "an attribute"
    noted = nn.Parameter(torch.full((2,), 3.0))
    noted.note = "an attribute"
    return {
        "types": {name: torch.tensor([0, 1, 2, 100]).to(getattr(torch, name)) for name in names.split()},
        "views": {
            "whole": grid,
            "transposed": grid.permute(2, 0, 1),
            "part": grid[1, 1:, ::2],
            "column": grid[:, :, 3],
            "expanded": grid[0, 0, :2].expand(3, 2),
            "scalar": grid[1, 2, 3],
            "empty": grid[:, :0],
            "channels_last": torch.arange(24, dtype=torch.float16).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        },
        "model": module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "list": [torch.ones(2), (torch.zeros(1), "text", None)],
        "parameter": nn.Parameter(torch.full((2,), 2.0)),
        "described": described,
        "noted": noted,
        "plain": {
            "epoch": 3, "rate": 1e-3, "negative": -5, "long": 1 << 40, "longer": -(1 << 80), "yes": True, "none": None, "name": "ünï",
            "size": torch.Size([2, 3]), "type": torch.float32, "device": torch.device("cpu"), "set": {1, 2}, "bytes": b"abc",
        },
    }


def flat(value, name=()):
    if isinstance(value, torch.Tensor):
        yield ".".join(name), value
    elif isinstance(value, (dict, list, tuple)) and not isinstance(value, torch.Size):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(inner, (*name, str(key)))


def reader():
    all_values = values()
    torch.save(all_values, FOLDER / "values.pt")
    np.savez(FOLDER / "values.npz", **{name: tensor.detach().to(torch.float64).numpy() for name, tensor in flat(all_values)})
    torch.save(all_values, FOLDER / "protocol4.pth", pickle_protocol=4)
    # As if a machine with the other byte order had written it.
    sizes = {}
    for _, tensor in flat(all_values):
        storage = tensor.untyped_storage()
        sizes.setdefault(storage.data_ptr(), (bytes(storage), tensor.element_size()))
    swapped = {content: b"".join(content[at : at + width][::-1] for at in range(0, len(content), width)) for content, width in sizes.values()}

    def big(path, content):
        if path.endswith("byteorder"):
            content = b"big"
        elif "/data/" in path:
            content = swapped[content]
        return [(path, content, zipfile.ZIP_STORED)]

    # Pickles that the fuzz target begins with.
    seeds = FOLDER.parents[2] / "fuzz" / "seeds" / "pt"
    seeds.mkdir(exist_ok=True)
    for name in ["values.pt", "protocol4.pth"]:
        [pickle] = [content for entry, content in read(name) if entry.filename.endswith(".pkl")]
        (seeds / name).with_suffix(".pkl").write_bytes(pickle)

    rewritten("big_endian", big)
    rewritten("compressed", lambda path, content: [(path, content, zipfile.ZIP_DEFLATED)])
    rewritten("no_pickle", lambda path, content: [] if path.endswith(".pkl") else [(path, content, zipfile.ZIP_STORED)])
    rewritten("no_data", lambda path, content: [] if path.endswith("data/0") else [(path, content, zipfile.ZIP_STORED)])
    rewritten("short", lambda path, content: [(path, content[:-1] if path.endswith("data/0") else content, zipfile.ZIP_STORED)])
    small = nn.Linear(2, 1)
    torch.save(small.state_dict(), FOLDER / "before_1_6.pt", _use_new_zipfile_serialization=False)
    torch.jit.script(small).save(FOLDER / "script.pt")
    # Without the paths of this machine.
    rewritten("script", lambda path, content: [] if "debug" in path else [(path, content, zipfile.ZIP_STORED)], "script")
    torch.save(small, FOLDER / "module.pt")
    torch.save(torch.ones(2), FOLDER / "tensor.pt")
    torch.save({"epoch": 1}, FOLDER / "no_tensors.pt")
    torch.save({"a": torch.ones(2, dtype=torch.complex64)}, FOLDER / "complex.pt")
    torch.save({"a": torch.ones(2).to(torch.float8_e5m2)}, FOLDER / "float8.pt")
    torch.save({"a": torch.eye(2).to_sparse()}, FOLDER / "sparse.pt")
    torch.save({"a": (torch.ones(2) + 1j).conj().imag}, FOLDER / "negated.pt")
    torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, FOLDER / "twice.pt")


reader()
