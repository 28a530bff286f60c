"""Recurrent layers whose steps are convolutions."""

from cases import Family, normal

family = Family("conv_lstm")
layer = family.layer

for rank, sizes in [(1, [7]), (2, [5, 6]), (3, [3, 4, 3])]:
    x = normal(2, 3, *sizes, 2)
    kind, name = f"ConvLSTM{rank}D", f"conv_lstm{rank}d"
    layer(name, f"{kind}(3, 2)", X=x)
    layer(f"{name}_same", f"{kind}(2, 3, padding = same, return_sequences = true)", X=x)
    layer(f"{name}_backwards", f"{kind}(2, 2, return_sequences = true, go_backwards = true)", X=x)
    layer(f"{name}_no_bias", f"{kind}(2, 2, use_bias = false, activation = relu, recurrent_activation = hard_sigmoid)", X=x)
    layer(f"{name}_state", f"{kind}(2, 2, return_state = true, return_sequences = true)", "Y, H, C = layer(X)", X=x)
    states = {s: normal(2, *[size - 1 for size in sizes], 2) for s in "HC"}
    layer(f"{name}_initial_state", f"{kind}(2, 2)", "Y = layer(X, InitialState = [H, C])", X=x, **states)
    layer(f"{name}_dropouts", f"{kind}(2, 2, dropout = 0.5, recurrent_dropout = 0.5)", X=x)
layer("bidirectional_conv_lstm1d", "Bidirectional(ConvLSTM1D(2, 2))", X=normal(2, 3, 5, 2))
layer(
    "bidirectional_conv_lstm2d_sequences",
    "Bidirectional(ConvLSTM2D(2, 2, return_sequences = true), merge_mode = sum)",
    X=normal(2, 3, 4, 5, 2),
)
layer("conv_lstm1d_strided", "ConvLSTM1D(2, 3, strides = 2)", X=normal(2, 3, 9, 2))
layer("conv_lstm1d_dilated", "ConvLSTM1D(2, 3, dilation_rate = 2)", X=normal(2, 3, 9, 2))
layer("conv_lstm2d_strided", "ConvLSTM2D(2, [3, 2], strides = [2, 1], padding = same)", X=normal(2, 3, 5, 6, 2))
layer("conv_lstm2d_dilated", "ConvLSTM2D(2, [3, 2], dilation_rate = [1, 2])", X=normal(2, 3, 5, 6, 2))
layer(
    "conv_lstm2d_channels_first",
    "ConvLSTM2D(3, 2, data_format = channels_first, return_state = true, return_sequences = true)",
    "Y, H, C = layer(X)",
    X=normal(2, 3, 2, 5, 6),
)
layer("conv_lstm1d_channels_first", "ConvLSTM1D(3, 2, data_format = channels_first)", X=normal(2, 3, 2, 7))
