"""PyTorch's encoder layer: TransformerEncoderLayer(d_model, nhead, dim_feedforward = 2048, dropout = 0.1, activation = relu,
layer_norm_eps = 1e-5, norm_first = false, bias = true), the batch first always, as inference. `Mask` is true where a place may be attended
to, the opposite of PyTorch's; `KeyMask` likewise (src_key_padding_mask)."""

from cases import Family, flags, normal
from encoder import TransformerEncoderLayer

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
