"""Further layers of Keras, of which nobody has said that the library must have them."""

from cases import Family, flags, integers, normal

family = Family("more")
layer = family.layer

layer("separable_conv1d", "SeparableConv1D(5, 3)", X=normal(2, 9, 3))
layer("separable_conv1d_same", "SeparableConv1D(5, 3, padding = same, depth_multiplier = 2)", X=normal(2, 9, 3))
layer("conv3d_transpose", "Conv3DTranspose(3, 2, strides = 2)", X=normal(1, 2, 3, 4, 2))
layer("conv3d_transpose_same", "Conv3DTranspose(3, 3, strides = [1, 2, 2], padding = same)", X=normal(1, 2, 3, 4, 2))
for kind, name in [("Average", "average"), ("Max", "max")]:
    layer(f"adaptive_{name}_pooling1d", f"Adaptive{kind}Pooling1D(4)", X=normal(2, 9, 3))
    layer(f"adaptive_{name}_pooling3d", f"Adaptive{kind}Pooling3D([2, 3, 1])", X=normal(2, 4, 5, 3, 2))
layer("adaptive_max_pooling2d", "AdaptiveMaxPooling2D([3, 2])", X=normal(2, 7, 8, 3))
layer("time_distributed", "TimeDistributed(Dense(5, activation = relu))", X=normal(2, 3, 4))
layer("time_distributed_conv2d", "TimeDistributed(Conv2D(2, 3))", X=normal(2, 3, 4, 5, 2))
normalized = "TimeDistributed(BatchNormalization(momentum = 0.8))"
masked = {"X": normal(4, 3, 5), "M": flags(4, 3)}
layer("time_distributed_normalization", normalized, X=normal(4, 3, 5))
layer("time_distributed_normalization_training", normalized, training=True, X=normal(4, 3, 5))
layer("time_distributed_normalization_masked", normalized, "Y = layer(X, Mask = M)", training=True, **masked)
layer("time_distributed_normalization_of_images", normalized, training=True, X=normal(2, 3, 4, 5, 2))
layer("time_distributed_rnn_masked", "TimeDistributed(GRU(3))", "Y = layer(X, Mask = M)", X=normal(2, 3, 4, 2), M=flags(2, 3, 4))
layer("normalization", "Normalization(mean = 2.0, variance = 4.0)", X=normal(3, 5))
layer("normalization_invert", "Normalization(mean = 2.0, variance = 4.0, invert = true)", X=normal(3, 5))
layer("center_crop", "CenterCrop(3, 4)", X=normal(2, 6, 7, 3))
layer("resizing", "Resizing(5, 9)", X=normal(2, 4, 6, 3))
for number, (height, width, options) in enumerate(
    [
        (5, 9, "interpolation = bicubic"),
        (2, 3, "interpolation = bicubic, antialias = true"),
        (3, 9, "antialias = true"),
        (3, 9, "interpolation = lanczos3, data_format = channels_first"),
        (2, 9, "interpolation = lanczos5, antialias = true"),
        (3, 9, "crop_to_aspect_ratio = true"),
        (9, 4, "crop_to_aspect_ratio = true, interpolation = nearest, data_format = channels_first"),
        (3, 9, "pad_to_aspect_ratio = true, fill_value = 2.5"),
        (9, 3, "pad_to_aspect_ratio = true, interpolation = bicubic, data_format = channels_first"),
        (7, 6, "pad_to_aspect_ratio = true, fill_mode = constant"),
    ]
):
    layer(f"resizing_{number}", f"Resizing({height}, {width}, {options})", X=normal(2, 5, 7, 3))
layer("resizing_nearest", "Resizing(3, 8, interpolation = nearest)", X=normal(2, 4, 6, 3))
layer("one_hot", "CategoryEncoding(num_tokens = 7, output_mode = one_hot)", Tokens=integers(7, 5))
layer("multi_hot", "CategoryEncoding(num_tokens = 7, output_mode = multi_hot)", Tokens=integers(7, 3, 4))
layer("count", "CategoryEncoding(num_tokens = 7, output_mode = count)", Tokens=integers(7, 3, 4))
for name, expression in [
    ("l1", "l1(0.1)"),
    ("l2", "l2(0.1)"),
    ("l1_l2", "l1_l2(l1 = 0.1, l2 = 0.2)"),
    ("orthogonal_regularizer", "orthogonal_regularizer()"),
    ("orthogonal_regularizer_columns", "orthogonal_regularizer(factor = 0.3, mode = columns)"),
]:
    family.body(name, [f"Y = {expression}(X)"], X=normal(4, 3))
layer("alias", "Convolution2D(2, 3)", X=normal(2, 5, 6, 2))
family.body("aliases", ["Y = GlobalAvgPool1D()(AvgPool1D(2)(X))"], X=normal(2, 5, 6))
layer("lambda", "Lambda(softsign)", X=normal(2, 3))
layer("lambda_of_parameters", "Lambda(leaky_relu(negative_slope = 0.3))", X=normal(2, 3))
layer("pipeline", "Pipeline([Rescaling(2.0), Flatten()])", X=normal(2, 3, 4))
