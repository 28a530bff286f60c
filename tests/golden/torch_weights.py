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
import safetensors.torch
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


def keep(name, model, x, state=None, tensors=False):
    """Gives a network random weights, and keeps its state_dict, an input and an output."""
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                tensor.uniform_(*((0.5, 1.5) if "running_var" in key else (-0.5, 0.5)))
    torch.save(state(model) if state else model.state_dict(), FOLDER / f"{name}.pt")
    with torch.no_grad():
        y = model.eval()(x)
    if tensors:
        safetensors.torch.save_file(model.state_dict(), FOLDER / f"{name}.safetensors")
    np.savez(FOLDER / f"{name}.npz", x=x.numpy(), y=y.numpy())


class Module(nn.Module):
    """Layers as attributes, and what they compute."""

    def __init__(self, forward, **layers):
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.forward = lambda x: forward(self, x)


def numbered():
    """Square kernels in a row: the order alone tells them apart."""
    layers = [nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3)]
    return nn.Sequential(*layers)


def cnn():
    features = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
        nn.Conv2d(4, 8, 3, groups=4, bias=False), nn.BatchNorm2d(8), nn.Conv2d(8, 6, (1, 2)),
        nn.Conv2d(6, 6, 3, groups=2), nn.ConvTranspose2d(6, 2, 3, stride=2),
    )
    return nn.Sequential(features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3))


def names():
    """Layers of the same shape, made in another order than that of use."""
    return Module(lambda m, x: m.last(torch.relu(m.first(x))), last=nn.Linear(4, 4), first=nn.Linear(4, 4))


def recurrent():
    def forward(m, x):
        x = m.embedding(x)
        x, _ = m.lstm(x)
        x, _ = m.gru(x)
        x, _ = m.both(x)
        x, _ = m.rnn(x)
        return m.head(x[:, -1])

    return Module(
        forward, embedding=nn.Embedding(11, 4), lstm=nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True),
        gru=nn.GRU(6, 3, batch_first=True), both=nn.GRU(3, 3, bidirectional=True, batch_first=True),
        rnn=nn.RNN(6, 4, batch_first=True, bias=False), head=nn.Linear(4, 3),
    )


def attention():
    """A class token, attention and normalizations, in a block as a user writes it."""

    def block(m, x):
        a = m.norm1(x)
        x = x + m.attn(a, a, a)[0]
        return x + m.fc2(m.act(m.fc1(m.norm2(x))))

    def forward(m, x):
        x = torch.cat([m.cls_token.expand(x.shape[0], 1, 6), x], 1) + m.pos_embed
        return m.norm(m.blocks(x))[:, 0]

    def make():
        return Module(
            block, norm1=nn.LayerNorm(6), attn=nn.MultiheadAttention(6, 2, batch_first=True), norm2=nn.LayerNorm(6),
            fc1=nn.Linear(6, 6), act=nn.PReLU(), fc2=nn.Linear(6, 6),
        )

    parameters = dict(cls_token=nn.Parameter(torch.zeros(1, 1, 6)), pos_embed=nn.Parameter(torch.zeros(1, 5, 6)))
    return Module(forward, **parameters, blocks=nn.Sequential(make(), make()), norm=nn.RMSNorm(6, eps=1e-6))


def normalizations():
    return nn.Sequential(nn.Conv1d(3, 4, 2), nn.GroupNorm(2, 4), nn.ConvTranspose1d(4, 4, 2), nn.PReLU(4), nn.InstanceNorm1d(4, affine=True))


def checkpoint(model):
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    state = {f"module.{name}": tensor for name, tensor in model.state_dict().items()}
    return {"epoch": 3, "model_state_dict": state, "optimizer_state_dict": optimizer.state_dict(), "loss": 0.5}


def networks():
    keep("numbered", numbered(), torch.rand(3, 6), tensors=True)
    keep("cnn", cnn(), torch.rand(2, 3, 9, 8), tensors=True)
    keep("names", names(), torch.rand(2, 4), tensors=True)
    keep("recurrent", recurrent(), torch.randint(0, 11, (2, 5), dtype=torch.int32), tensors=True)
    layer = nn.TransformerEncoderLayer(6, 2, dim_feedforward=6, batch_first=True)
    keep("encoder", nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.rand(2, 3, 6), tensors=True)
    keep("attention", attention(), torch.rand(2, 4, 6), tensors=True)
    keep("normalizations", normalizations(), torch.rand(2, 3, 6))
    keep("separable", nn.Sequential(nn.Conv2d(3, 6, 3, groups=3, bias=False), nn.Conv2d(6, 4, 1)), torch.rand(1, 3, 4, 5))
    keep("checkpoint", names(), torch.rand(2, 4), checkpoint)


reader()
networks()
