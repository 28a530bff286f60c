"""Options of layers whose cases in golden/layers are larger than those here may be."""

from steps import Family, flags, normal


def families():
    family = Family("small")

    def layer(name, expression, call=None, **inputs):
        family.case(name, [f"layer = {expression}", call or f"Y = layer({', '.join(inputs)})"], inputs)

    for kind, few in [("Conv2D", "2, 2"), ("DepthwiseConv2D", "2"), ("SeparableConv2D", "3, 2")]:
        name, x = kind.lower(), normal(2, 5, 4, 2)
        layer(name, f"{kind}({few})", X=x)
        layer(f"{name}_same", f"{kind}({few}, padding = same, activation = tanh, use_bias = false)", X=x)
        layer(f"{name}_strided", f"{kind}({few}, strides = 2, padding = same)", X=x)
        layer(f"{name}_dilated", f"{kind}({few}, dilation_rate = 2)", X=x)
        layer(f"{name}_first", f"{kind}({few}, data_format = channels_first)", X=normal(2, 2, 4, 5))
    layer("conv2d_groups", "Conv2D(4, [2, 3], groups = 2)", X=normal(2, 4, 4, 4))
    layer("separable_conv2d_multiplied", "SeparableConv2D(3, 2, depth_multiplier = 2)", X=normal(2, 4, 4, 2))
    x = normal(2, 4, 3, 3, 2)
    layer("conv3d", "Conv3D(2, 2, activation = tanh, use_bias = false)", X=x)
    layer("conv3d_same", "Conv3D(2, 2, padding = same, strides = 2)", X=x)
    layer("conv3d_dilated", "Conv3D(2, 2, dilation_rate = 2)", X=x)
    layer("conv3d_groups", "Conv3D(2, 2, groups = 2)", X=x)
    layer("conv3d_first", "Conv3D(2, 2, data_format = channels_first)", X=normal(2, 2, 3, 4, 2))
    for kind in ["Max", "Average"]:
        for rank, sizes in [(2, [5, 4]), (3, [4, 3, 5])]:
            name, start = f"{kind.lower()}_pooling{rank}d", f"{kind}Pooling{rank}D("
            layer(name, f"{start}3)", X=normal(2, *sizes, 2))
            layer(f"{name}_same", f"{start}3, strides = 2, padding = same)", X=normal(2, *sizes, 2))
            layer(f"{name}_first", f"{start}3, data_format = channels_first)", X=normal(2, 2, *sizes))
    layer("adaptive_average_2d", "AdaptiveAveragePooling2D([2, 3])", X=normal(2, 5, 4, 2))
    layer("adaptive_average_2d_first", "AdaptiveAveragePooling2D(2, data_format = channels_first)", X=normal(2, 2, 5, 4))
    for rank, sizes in [(1, [4]), (2, [4, 3]), (3, [3, 2, 3])]:
        kind, x = f"ConvLSTM{rank}D", normal(2, 2, *sizes, 1)
        options = "activation = relu, recurrent_activation = hard_sigmoid, use_bias = false, go_backwards = true"
        layer(f"{kind}_options".lower(), f"{kind}(2, 2, {options})", X=x)
        options = "padding = same, strides = 2, unit_forget_bias = false, return_sequences = true, return_state = true"
        layer(f"{kind}_same".lower(), f"{kind}(2, 2, {options})", "Y, H, C = layer(X)", X=x)
        layer(f"{kind}_dilated".lower(), f"{kind}(1, 2, padding = same, dilation_rate = 2)", X=x)
        layer(f"{kind}_first".lower(), f"{kind}(1, 2, data_format = channels_first)", X=normal(2, 2, 1, *sizes))
        states = {state: normal(2, *[size - 1 for size in sizes], 2) for state in "HC"}
        layer(f"{kind}_states".lower(), f"{kind}(2, 2)", "Y = layer(X, InitialState = [H, C])", X=x, **states)
    query, value, key = normal(2, 3, 4), normal(2, 2, 5), normal(2, 2, 4)
    masks = {"QueryMask": flags(2, 3), "ValueMask": flags(2, 2), "KeyMask": flags(2, 2)}
    given = ", ".join(f"{name} = {name}" for name in masks)
    for kind in ["MultiHeadAttention(2, 3", "GroupQueryAttention(3, 2, 1"]:
        name = kind.split("(")[0].lower()
        layer(f"{name}_key", f"{kind})", "Y = layer(Query, Value, Key = Key)", Query=query, Value=value, Key=key)
        inputs = dict(Query=query, Value=value, **masks)
        layer(f"{name}_masks", f"{kind})", f"Y = layer(Query, Value, {given})", **inputs)
        call = "Y, Scores = layer(X, X, return_attention_scores = true)"
        layer(f"{name}_scores", f"{kind}, sliding_window = 2)", call, X=query)
        layer(f"{name}_gate", f"{kind}, use_gate = true)", "Y = layer(X, X)", X=query)
    # Without the scores Keras on JAX takes another way, which wants values of the keys' size.
    call = "Y, Scores = layer(X, X, return_attention_scores = true)"
    layer("multi_head_attention_values", "MultiHeadAttention(2, 3, value_dim = 2)", call, X=query)
    for kind in ["Attention()", "AdditiveAttention()"]:
        name = kind.lower().strip("()")
        layer(f"{name}_key", kind, Query=query, Value=value, Key=key)
    for expression in [
        "mode = magnitude, window = hamming, periodic = true",
        "mode = magnitude, window = blackman, scaling = spectrum",
        "mode = magnitude, window = none, scaling = none",
    ]:
        layer(f"stft_{expression.split('window = ')[1][:5].strip(',')}", f"STFTSpectrogram({expression}, frame_length = 8)", X=normal(2, 20, 1))
    for number, expression in enumerate(
        [
            "window = hamming, min_freq = 50.0, max_freq = 400.0",
            "window = none, mag_exp = 1.0, ref_power = 2.0",
            "top_db = 3.0, min_power = 0.1",
        ]
    ):
        mel = f"MelSpectrogram(32, 8, num_mel_bins = 4, sampling_rate = 1000, {expression})"
        layer(f"mel_{number}", mel, X=normal(2, 60))
    layer("gru_cell_hard", "GRUCell(3, recurrent_activation = hard_sigmoid)", "Y, S = layer(X, [H])", X=normal(2, 4), H=normal(2, 3))
    layer("separable_conv1d_dilated", "SeparableConv1D(3, 2, dilation_rate = 2)", X=normal(2, 6, 2))
    yield family
