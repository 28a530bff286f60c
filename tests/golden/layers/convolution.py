"""Convolutions: plain, transposed, depthwise, separable."""

from cases import Family, normal

family = Family("convolution")
layer = family.layer

layer("conv1d", "Conv1D(4, 3)", X=normal(2, 9, 3))
layer("conv1d_same", "Conv1D(4, 4, padding = same, activation = relu)", X=normal(2, 9, 3))
layer("conv1d_same_strided", "Conv1D(4, 3, strides = 2, padding = same)", X=normal(2, 10, 3))
layer("conv1d_causal", "Conv1D(4, 3, padding = causal)", X=normal(2, 9, 3))
layer("conv1d_causal_dilated", "Conv1D(4, 3, padding = causal, dilation_rate = 2)", X=normal(2, 9, 3))
layer("conv1d_causal_strided", "Conv1D(4, 3, 2, causal)", X=normal(2, 9, 3))
layer("conv1d_dilated", "Conv1D(4, 3, dilation_rate = 3, use_bias = false)", X=normal(2, 9, 3))
layer("conv1d_same_dilated", "Conv1D(4, 3, padding = same, dilation_rate = 2)", X=normal(2, 9, 3))
layer("conv1d_groups", "Conv1D(6, 3, groups = 2)", X=normal(2, 9, 4))
layer("conv1d_channels_first", "Conv1D(4, [3], padding = same, data_format = channels_first)", X=normal(2, 3, 9))

layer("conv2d", "Conv2D(4, 3)", X=normal(2, 7, 8, 3))
layer("conv2d_kernel_of_two_sizes", "Conv2D(4, [3, 2], activation = relu)", X=normal(2, 7, 8, 3))
layer("conv2d_1x1", "Conv2D(5, 1, use_bias = false)", X=normal(2, 7, 8, 3))
layer("conv2d_same", "Conv2D(4, [3, 4], padding = same)", X=normal(2, 7, 8, 3))
layer("conv2d_strided", "Conv2D(4, 3, strides = 2)", X=normal(2, 8, 9, 3))
layer("conv2d_same_strided", "Conv2D(4, 3, strides = 2, padding = same)", X=normal(2, 8, 9, 3))
layer("conv2d_same_strides_of_two_sizes", "Conv2D(4, [5, 3], [3, 2], same)", X=normal(2, 8, 9, 3))
layer("conv2d_same_strided_past_kernel", "Conv2D(4, 1, strides = 2, padding = same)", X=normal(2, 8, 9, 3))
layer("conv2d_dilated", "Conv2D(4, 3, dilation_rate = [2, 1])", X=normal(2, 8, 9, 3))
layer("conv2d_same_dilated", "Conv2D(4, [3, 2], padding = same, dilation_rate = 2)", X=normal(2, 8, 9, 3))
layer("conv2d_groups", "Conv2D(6, 3, padding = same, groups = 3)", X=normal(2, 7, 8, 6))
layer("conv2d_channels_first", "Conv2D(4, [3, 2], strides = 2, data_format = channels_first)", X=normal(2, 3, 7, 8))
layer(
    "conv2d_channels_first_same_groups",
    "Conv2D(4, 3, padding = same, data_format = channels_first, groups = 2)",
    X=normal(2, 4, 7, 8),
)
layer("conv2d_wider", "Conv2D(33, 3, padding = same)", X=normal(1, 10, 11, 17, scale=0.5))

layer("conv3d", "Conv3D(3, 2)", X=normal(2, 4, 5, 6, 2))
layer(
    "conv3d_same_strided",
    "Conv3D(3, [3, 2, 3], strides = [1, 2, 2], padding = same, activation = relu)",
    X=normal(2, 4, 5, 6, 2),
)
layer("conv3d_dilated", "Conv3D(3, 2, dilation_rate = 2, use_bias = false)", X=normal(2, 4, 5, 6, 2))
layer("conv3d_groups", "Conv3D(4, 2, groups = 2)", X=normal(2, 4, 5, 6, 2))
layer("conv3d_channels_first", "Conv3D(3, 2, data_format = channels_first)", X=normal(2, 2, 4, 5, 6))

layer("conv1d_transpose", "Conv1DTranspose(4, 3)", X=normal(2, 6, 3))
layer("conv1d_transpose_strided", "Conv1DTranspose(4, 3, strides = 2, activation = relu)", X=normal(2, 6, 3))
layer("conv1d_transpose_same", "Conv1DTranspose(4, 4, strides = 2, padding = same)", X=normal(2, 6, 3))
layer("conv1d_transpose_short_kernel", "Conv1DTranspose(4, 2, strides = 3)", X=normal(2, 6, 3))
layer(
    "conv1d_transpose_output_padding",
    "Conv1DTranspose(4, 3, strides = 2, padding = same, output_padding = 1)",
    X=normal(2, 6, 3),
)
layer("conv1d_transpose_dilated", "Conv1DTranspose(4, 3, dilation_rate = 2, use_bias = false)", X=normal(2, 6, 3))
layer(
    "conv1d_transpose_channels_first",
    "Conv1DTranspose(4, 3, strides = 2, padding = same, data_format = channels_first)",
    X=normal(2, 3, 6),
)
layer("conv2d_transpose", "Conv2DTranspose(4, 3)", X=normal(2, 5, 4, 3))
layer("conv2d_transpose_same", "Conv2DTranspose(4, 3, strides = 2, padding = same)", X=normal(2, 5, 4, 3))
layer(
    "conv2d_transpose_of_two_sizes",
    "Conv2DTranspose(4, [3, 2], strides = [2, 3], use_bias = false)",
    X=normal(2, 5, 4, 3),
)
layer(
    "conv2d_transpose_same_even",
    "Conv2DTranspose(2, 2, strides = 2, padding = same, activation = relu)",
    X=normal(2, 5, 4, 3),
)
layer("conv2d_transpose_same_unstrided", "Conv2DTranspose(2, [4, 3], padding = same)", X=normal(2, 5, 4, 3))
layer("conv2d_transpose_output_padding", "Conv2DTranspose(2, 3, strides = 2, output_padding = 1)", X=normal(2, 5, 4, 3))
layer("conv2d_transpose_same_output_padding", "Conv2DTranspose(2, 3, 2, same, [0, 1])", X=normal(2, 5, 4, 3))
layer("conv2d_transpose_dilated", "Conv2DTranspose(2, 3, dilation_rate = [1, 2])", X=normal(2, 5, 4, 3))
layer(
    "conv2d_transpose_channels_first",
    "Conv2DTranspose(4, 3, strides = 2, data_format = channels_first)",
    X=normal(2, 3, 5, 4),
)

layer("depthwise_conv1d", "DepthwiseConv1D(3)", X=normal(2, 9, 4))
layer(
    "depthwise_conv1d_same_strided",
    "DepthwiseConv1D(3, strides = 2, padding = same, depth_multiplier = 2)",
    X=normal(2, 10, 4),
)
layer("depthwise_conv1d_dilated", "DepthwiseConv1D(3, dilation_rate = 2, use_bias = false)", X=normal(2, 9, 4))
layer("depthwise_conv1d_channels_first", "DepthwiseConv1D(2, data_format = channels_first)", X=normal(2, 4, 9))
layer("depthwise_conv2d", "DepthwiseConv2D(3)", X=normal(2, 7, 8, 4))
layer("depthwise_conv2d_same", "DepthwiseConv2D([3, 2], padding = same, activation = relu6)", X=normal(2, 7, 8, 4))
layer(
    "depthwise_conv2d_same_strided",
    "DepthwiseConv2D(3, strides = 2, padding = same, use_bias = false)",
    X=normal(2, 8, 8, 4),
)
layer("depthwise_conv2d_multiplied", "DepthwiseConv2D(3, 1, valid, 3)", X=normal(2, 7, 8, 2))
layer("depthwise_conv2d_dilated", "DepthwiseConv2D(3, dilation_rate = 2, depth_multiplier = 2)", X=normal(2, 7, 8, 2))
layer(
    "depthwise_conv2d_channels_first",
    "DepthwiseConv2D(3, depth_multiplier = 2, padding = same, data_format = channels_first)",
    X=normal(2, 3, 7, 8),
)

layer("separable_conv2d", "SeparableConv2D(5, 3)", X=normal(2, 7, 8, 3))
layer(
    "separable_conv2d_same_strided",
    "SeparableConv2D(5, 3, strides = 2, padding = same, activation = relu)",
    X=normal(2, 7, 8, 3),
)
layer(
    "separable_conv2d_multiplied",
    "SeparableConv2D(5, [2, 3], depth_multiplier = 2, use_bias = false)",
    X=normal(2, 7, 8, 3),
)
layer("separable_conv2d_dilated", "SeparableConv2D(5, 3, dilation_rate = 2)", X=normal(2, 7, 8, 3))
layer("separable_conv2d_channels_first", "SeparableConv2D(5, 3, data_format = channels_first)", X=normal(2, 3, 7, 8))
