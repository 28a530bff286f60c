"""PyTorch's encoder layer under the paths that the library's has."""

import torch
from cases import keras, np

# The fused path of inference takes other masks, and differs in the last places.
torch.backends.mha.set_fastpath_enabled(False)


def tensor(array):
    return torch.from_numpy(np.array(keras.ops.convert_to_numpy(array)))


class TransformerEncoderLayer:
    def __init__(self, *options, activation="relu", norm_first=False, **named):
        if isinstance(activation, str):
            activation = getattr(torch.nn.functional, activation)
        named |= dict(activation=activation, norm_first=norm_first, batch_first=True)
        self.layer = torch.nn.TransformerEncoderLayer(*options, **named).double().eval()
        self.training = False

    def __call__(self, x, Mask=None, KeyMask=None, use_causal_mask=False):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if use_causal_mask else None
        if Mask is not None:
            hidden = ~tensor(Mask)
        with torch.no_grad():
            return self.layer(tensor(x), hidden, None if KeyMask is None else ~tensor(KeyMask)).numpy()

    def weights(self):
        """The parts of PyTorch's parameters by path; kernels are [in, out], the transposed of PyTorch's."""
        layer, found = self.layer, {}

        def dense(path, kernel, bias):
            found[f"{path}.Kernel"] = kernel.T
            if bias is not None:
                found[f"{path}.Bias"] = bias

        attention = layer.self_attn
        biases = [None] * 3 if attention.in_proj_bias is None else attention.in_proj_bias.data.chunk(3)
        for name, kernel, bias in zip(("query", "key", "value"), attention.in_proj_weight.data.chunk(3), biases):
            dense(f"attention.{name}", kernel, bias)
        parts = [("attention.output", attention.out_proj), ("linear1", layer.linear1), ("linear2", layer.linear2)]
        for name, part in parts:
            dense(name, part.weight.data, None if part.bias is None else part.bias.data)
        for name, part in [("norm1", layer.norm1), ("norm2", layer.norm2)]:
            found[f"{name}.Gamma"] = part.weight.data
            if part.bias is not None:
                found[f"{name}.Beta"] = part.bias.data
        return found

    def get(self, path):
        return self.weights()[path].numpy()

    def set(self, path, value):
        self.weights()[path].copy_(torch.from_numpy(value))
