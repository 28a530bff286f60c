"""PyTorch's encoder layer: TransformerEncoderLayer(d_model, nhead, dim_feedforward = 2048, dropout = 0.1, activation = relu,
layer_norm_eps = 1e-5, norm_first = false, bias = true), the batch first always, as inference. `Mask` is true where a place may be attended
to, the opposite of PyTorch's; `KeyMask` likewise (src_key_padding_mask)."""

import torch
from cases import Family, flags, keras, normal, np


class TransformerEncoderLayer:
    def __init__(self, *options, activation="relu", norm_first=False, **named):
        if activation == "gelu_tanh":
            activation = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
        if isinstance(activation, str):
            activation = getattr(torch.nn.functional, activation)
        make = torch.nn.TransformerEncoderLayer
        self.layer = (
            make(*options, activation=activation, norm_first=norm_first, batch_first=True, **named).double().eval()
        )
        self.training = False

    def __call__(self, x, Mask=None, KeyMask=None, use_causal_mask=False):
        x, Mask, KeyMask = [
            None if t is None else torch.from_numpy(np.array(keras.ops.convert_to_numpy(t))) for t in (x, Mask, KeyMask)
        ]
        if Mask is not None:
            Mask = ~Mask
        if use_causal_mask:
            Mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        with torch.no_grad():
            return self.layer(x, Mask, None if KeyMask is None else ~KeyMask).numpy()

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


torch.backends.mha.set_fastpath_enabled(False)
if __name__ != "__main__":
    family = Family("transformer", {"TransformerEncoderLayer": TransformerEncoderLayer})
    layer, x = family.layer, normal(2, 7, 12)
    layer("encoder_layer", "TransformerEncoderLayer(12, 3, 20)", X=x)
    layer("encoder_layer_gelu", "TransformerEncoderLayer(12, 2, dim_feedforward = 17, activation = gelu)", X=x)
    layer("encoder_layer_norm_first", "TransformerEncoderLayer(12, 4, 20, norm_first = true)", X=x)
    layer(
        "encoder_layer_norm_first_gelu",
        "TransformerEncoderLayer(d_model = 12, nhead = 3, dim_feedforward = 20, activation = gelu, layer_norm_eps = 1e-3, norm_first = true)",
        X=x,
    )
    layer("encoder_layer_no_bias", "TransformerEncoderLayer(12, 3, 20, bias = false)", X=x)
    layer("encoder_layer_causal", "TransformerEncoderLayer(12, 3, 20)", "Y = layer(X, use_causal_mask = true)", X=x)
    layer(
        "encoder_layer_mask", "TransformerEncoderLayer(12, 3, 20)", "Y = layer(X, Mask = Mask)", X=x, Mask=flags(7, 7)
    )
    layer(
        "encoder_layer_key_mask",
        "TransformerEncoderLayer(12, 3, 20, norm_first = true)",
        "Y = layer(X, KeyMask = KeyMask)",
        X=x,
        KeyMask=flags(2, 7),
    )
