"""Options of layers that only training shows, and those that golden/layers lacks."""

from losses import name_of
from steps import Family, flags, integers, normal

ALL = "kernel_regularizer = l1(0.1), bias_regularizer = l2(0.2)"
ACTIVITY = "activity_regularizer = l1_l2(l1 = 0.03, l2 = 0.05)"
RECURRENT = f"kernel_regularizer = l1(0.1), recurrent_regularizer = l2(0.2), bias_regularizer = l1_l2(0.1, 0.3)"
DEPTHWISE = "depthwise_regularizer = l2(0.1), bias_regularizer = l1(0.2)"
SEPARABLE = f"{DEPTHWISE}, pointwise_regularizer = l1(0.1)"
NORMAL = "beta_regularizer = l2(0.1), gamma_regularizer = l1(0.2)"


def families():
    family = Family("layer_options")

    def layer(name, expression, call=None, **inputs):
        options = {key: inputs.pop(key) for key in ("sample_weight", "optimizer") if key in inputs}
        call = call or f"Y = layer({', '.join(inputs)})"
        family.case(name, [f"layer = {expression}", call], inputs, **options)

    # Regularizers.
    for number, regularizer in enumerate(["l1()", "l2()", "l1_l2()", "l1", "l2", "l1_l2(l1 = 0.2, l2 = 0.1)", "l1(l1 = 0.3)", "l2(l2 = 0.3)"]):
        layer(f"dense_regularizer_{number}", f"Dense(3, kernel_regularizer = {regularizer})", X=normal(4, 5))
    for option in ["", "factor = 0.5", "mode = columns"]:
        name = f"dense_orthogonal_{option.split(' ')[0]}"
        layer(name, f"Dense(3, kernel_regularizer = orthogonal_regularizer({option}))", X=normal(4, 5))
    layer("dense_regularizers", f"Dense(3, tanh, {ALL}, {ACTIVITY})", X=normal(4, 5))
    layer("dense_activity", f"Dense(3, {ACTIVITY})", X=normal(4, 5))
    layer("dense_activity_of_sequences", "Dense(3, activity_regularizer = l2(0.1))", X=normal(4, 2, 5))
    weighted = {"sample_weight": lambda random: random.random(4).astype("float32")}
    layer("dense_regularizers_weighted", f"Dense(3, {ALL}, {ACTIVITY})", X=normal(4, 5), **weighted)
    layer("einsum_dense_regularizers", f'EinsumDense("ab,bc->ac", 3, bias_axes = "c", {ALL})', X=normal(4, 5))
    layer("embedding_regularizer", "Embedding(5, 3, embeddings_regularizer = l2(0.1))", Tokens=integers(5, 2, 4))
    layer("embedding_once", "Embedding(9, 3)", Tokens=integers(5, 3))
    for rank, sizes in [(1, [6]), (2, [4, 5]), (3, [3, 3, 4])]:
        x = normal(2, *sizes, 2)
        for suffix in ["", "Transpose"]:
            layer(f"conv{rank}d_{suffix.lower()}regularizers", f"Conv{rank}D{suffix}(2, 2, {ALL}, {ACTIVITY})", X=x)
        if rank < 3:
            layer(f"depthwise_conv{rank}d_regularizers", f"DepthwiseConv{rank}D(2, {DEPTHWISE}, {ACTIVITY})", X=x)
            layer(f"separable_conv{rank}d_regularizers", f"SeparableConv{rank}D(3, 2, {SEPARABLE}, {ACTIVITY})", X=x)
        layer(f"conv_lstm{rank}d_regularizers", f"ConvLSTM{rank}D(2, 2, {RECURRENT}, {ACTIVITY})", X=normal(2, 2, *sizes, 1))
    x = normal(4, 5, mean=1.0)
    layer("batch_normalization_regularizers", f"BatchNormalization({NORMAL})", X=x)
    layer("layer_normalization_regularizers", f"LayerNormalization({NORMAL})", X=x)
    layer("group_normalization_regularizers", f"GroupNormalization(1, {NORMAL})", X=x)
    layer("p_relu_regularizer", "PReLU(alpha_regularizer = l2(0.1))", X=x)
    sequence = normal(2, 3, 4)
    layer("multi_head_attention_regularizers", f"MultiHeadAttention(2, 3, {ALL}, {ACTIVITY})", "Y = layer(X, X)", X=sequence)
    layer("group_query_attention_regularizers", f"GroupQueryAttention(3, 2, 1, {ALL}, {ACTIVITY})", "Y = layer(X, X)", X=sequence)
    for kind in ["SimpleRNN", "GRU", "LSTM"]:
        layer(f"{kind.lower()}_regularizers", f"{kind}(3, {RECURRENT}, {ACTIVITY})", X=sequence)
        layer(f"{kind.lower()}_activity_of_sequences", f"{kind}(3, {ACTIVITY}, return_sequences = true)", X=sequence)
        layer(f"rnn_of_{kind.lower()}_regularizers", f"RNN({kind}Cell(3, {RECURRENT}))", X=sequence)
    layer("bidirectional_regularizers", f"Bidirectional(GRU(3, {RECURRENT}))", X=sequence)
    layer("time_distributed_regularizers", f"TimeDistributed(Dense(3, {ALL}))", X=sequence)
    layer("time_distributed_convolution", "TimeDistributed(Conv1D(2, 2))", X=normal(2, 3, 4, 2))
    layer("time_distributed_normalization", "TimeDistributed(BatchNormalization())", X=sequence)
    layer("activity_regularization_l1", "ActivityRegularization(l1 = 0.1)", X=normal(4, 5))
    layer("activity_regularization_l2", "ActivityRegularization(l2 = 0.2)", X=normal(4, 2, 5))

    # What is random, where nothing is drawn.
    for name, expression, rank in [
        ("dropout", "Dropout(0.0)", 2),
        ("spatial_dropout1d", "SpatialDropout1D(0.0)", 3),
        ("spatial_dropout2d", "SpatialDropout2D(0.0)", 4),
        ("spatial_dropout3d", "SpatialDropout3D(0.0)", 5),
        ("gaussian_noise", "GaussianNoise(0.0)", 2),
        ("gaussian_dropout", "GaussianDropout(0.0)", 2),
        ("alpha_dropout", "AlphaDropout(0.0)", 2),
    ]:
        layer(f"{name}_of_nothing", expression, X=normal(*[2, 3, 2, 4, 2][:rank]))

    # Paddings, formats and multipliers.
    for kind in ["DepthwiseConv1D(2", "SeparableConv1D(3, 2"]:
        name = kind.split("(")[0].lower()
        layer(f"{name}_same", f"{kind}, padding = same, strides = 2, activation = tanh)", X=normal(2, 6, 2))
        layer(f"{name}_first", f"{kind}, depth_multiplier = 2, use_bias = false, data_format = channels_first)", X=normal(2, 2, 6))
    layer("depthwise_conv1d_one", "DepthwiseConv1D(2, activation = relu)", X=normal(2, 6, 2))
    layer("conv3d_transpose", "Conv3DTranspose(2, 2, strides = 2, padding = same, use_bias = false)", X=normal(2, 2, 3, 2, 2))
    layer("conv3d_transpose_output", "Conv3DTranspose(2, 2, strides = 2, output_padding = 1, activation = tanh)", X=normal(2, 2, 2, 2, 1))
    layer("conv3d_transpose_dilated", "Conv3DTranspose(2, 2, dilation_rate = 2)", X=normal(2, 2, 3, 2, 2))
    layer("conv3d_transpose_first", "Conv3DTranspose(2, 2, data_format = channels_first)", X=normal(2, 2, 2, 3, 2))
    for rank in (1, 3):
        for kind in ["Average", "Max"]:
            sizes = [5] if rank == 1 else [4, 3, 5]
            layer(f"adaptive_{kind.lower()}_{rank}d", f"Adaptive{kind}Pooling{rank}D(2)", X=normal(2, *sizes, 2))
            expression = f"Adaptive{kind}Pooling{rank}D(2, data_format = channels_first)"
            layer(f"adaptive_{kind.lower()}_{rank}d_first", expression, X=normal(2, 2, *sizes))
    layer("adaptive_max_2d", "AdaptiveMaxPooling2D([2, 3])", X=normal(2, 5, 4, 2))
    layer("adaptive_max_2d_first", "AdaptiveMaxPooling2D(2, data_format = channels_first)", X=normal(2, 2, 5, 4))
    for expression, sizes in [
        ("UpSampling3D(2, data_format = channels_first)", (2, 2, 2, 2, 2)),
        ("UpSampling2D(2, data_format = channels_first, interpolation = bilinear)", (2, 2, 3, 4)),
        ("UpSampling2D([2, 3], interpolation = bilinear)", (2, 3, 4, 2)),
        ("Resizing(3, 5, data_format = channels_first)", (2, 2, 4, 3)),
        ("Resizing(3, 5, interpolation = nearest)", (2, 4, 3, 2)),
        ("Resizing(3, 5, interpolation = bicubic)", (2, 4, 3, 2)),
        ("Resizing(3, 2, interpolation = lanczos3, antialias = true)", (2, 4, 3, 2)),
        ("Resizing(3, 2, interpolation = lanczos5, crop_to_aspect_ratio = true)", (2, 4, 3, 2)),
        ("Resizing(3, 5, pad_to_aspect_ratio = true, fill_value = 0.5)", (2, 4, 3, 2)),
        ("UpSampling2D(2, interpolation = bicubic)", (2, 2, 3, 2)),
        ("UpSampling2D(2, interpolation = lanczos3)", (2, 2, 3, 2)),
        ("UpSampling2D([1, 2], interpolation = lanczos5)", (2, 3, 2, 2)),
        ("CenterCrop(2, 3, data_format = channels_first)", (2, 2, 4, 5)),
        ("Cropping1D([1, 2])", (2, 6, 2)),
    ]:
        layer(name_of(expression), expression, X=normal(*sizes))
    layer("rms_normalization_axes", "RMSNormalization(axis = [1, 2], epsilon = 0.01)", X=normal(2, 3, 4))
    layer("group_normalization_no_scale", "GroupNormalization(2, scale = false)", X=normal(2, 3, 4))
    layer("group_normalization_no_center", "GroupNormalization(2, center = false)", X=normal(2, 3, 4))

    # Kernels that are not trained, with trained factors.
    lora = "lora_rank = 2, lora_alpha = 3"
    layer("dense_lora", f"Dense(3, {lora}, kernel_regularizer = l2(0.1))", X=normal(4, 5))
    layer("dense_lora_no_alpha", "Dense(3, lora_rank = 2)", X=normal(4, 5))
    layer("einsum_dense_lora", f'EinsumDense("abc,cd->abd", [none, 3], bias_axes = "d", {lora})', X=normal(2, 3, 4))
    layer("embedding_lora", f"Embedding(5, 3, {lora}, embeddings_regularizer = l1(0.1))", Tokens=integers(5, 2, 4))
    for rank in (1, 2, 3):
        sizes = [5, 4, 3][:rank]
        layer(f"conv{rank}d_lora", f"Conv{rank}D(3, 2, {lora}, kernel_regularizer = l2(0.1))", X=normal(2, *sizes, 2))

    # Batches that are corrected to moving statistics. These are random here, so the corrections are
    # bounded: a large one makes a gradient that is a small difference of large numbers.
    clipping = "renorm_clipping = [0.8, 1.5, 0.5], renorm_momentum = 0.8"
    layer("batch_normalization_renorm", "BatchNormalization(renorm = true, renorm_clipping = [none, 2.0, 1.0])", X=normal(6, 5))
    layer("batch_normalization_renorm_clipped", f"BatchNormalization(renorm = true, {clipping})", X=normal(6, 5))
    for option in ("center", "scale"):
        expression = f"BatchNormalization(renorm = true, {clipping}, {option} = false)"
        layer(f"batch_normalization_renorm_no_{option}", expression, X=normal(6, 5))

    # Tied weights, and the way back.
    for option in ["", ", tie_weights = false", ", logit_soft_cap = 0.7"]:
        statements = [f"layer = ReversibleEmbedding(5, 3{option})", "E = layer(Tokens)", "Y = layer(E, reverse = true)"]
        family.case(f"reversible{option.split(' =')[0].replace(', ', '_')}", statements, {"Tokens": integers(5, 2, 4)})
    layer("reversible_regularizer", "ReversibleEmbedding(5, 3, embeddings_regularizer = l2(0.1))", Tokens=integers(5, 2, 4))

    # A layer that is used twice, and one after another.
    statements = ["layer = Dense(5, tanh, kernel_regularizer = l2(0.1))", "Y = layer(layer(X))"]
    family.case("used_twice", statements, {"X": normal(4, 5)})
    stack = ["first = Dense(6, relu)", "norm = BatchNormalization()", "last = Dense(2)", "Y = last(norm(first(X)))"]
    family.case("frozen", stack, {"X": normal(6, 5)}, frozen=["first", "norm"], settings={"frozen": '["first", "norm"]'})
    # The loss does not take a mask of all axes, so the last layer drops it.
    masked = ["layer = Softmax(axis = 1)", "flat = Flatten()", "Y = flat(layer(X, Mask = Mask))"]
    family.case("softmax_masked_axis", masked, {"X": normal(2, 3, 4), "Mask": flags(2, 3, 4)})
    yield family
