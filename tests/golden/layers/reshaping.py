"""Padding, cropping and upsampling."""

from cases import Family, normal

family = Family("reshaping")
layer = family.layer

layer("zero_padding1d", "ZeroPadding1D()", X=normal(2, 4, 3))
layer("zero_padding1d_two", "ZeroPadding1D(2)", X=normal(2, 4, 3))
layer("zero_padding1d_sides", "ZeroPadding1D([1, 3])", X=normal(2, 4, 3))
layer("zero_padding1d_channels_first", "ZeroPadding1D([0, 2], data_format = channels_first)", X=normal(2, 3, 4))
layer("zero_padding2d", "ZeroPadding2D()", X=normal(2, 4, 5, 3))
layer("zero_padding2d_two", "ZeroPadding2D(2)", X=normal(2, 4, 5, 3))
layer("zero_padding2d_axes", "ZeroPadding2D([1, 2])", X=normal(2, 4, 5, 3))
layer("zero_padding2d_sides", "ZeroPadding2D([[0, 1], [3, 2]])", X=normal(2, 4, 5, 3))
layer(
    "zero_padding2d_channels_first",
    "ZeroPadding2D([[0, 1], [3, 2]], data_format = channels_first)",
    X=normal(2, 3, 4, 5),
)
layer("zero_padding3d", "ZeroPadding3D()", X=normal(1, 2, 3, 4, 2))
layer("zero_padding3d_axes", "ZeroPadding3D([1, 0, 2])", X=normal(1, 2, 3, 4, 2))
layer("zero_padding3d_sides", "ZeroPadding3D([[1, 0], [0, 2], [1, 1]])", X=normal(1, 2, 3, 4, 2))
layer(
    "zero_padding3d_channels_first", "ZeroPadding3D([1, 0, 2], data_format = channels_first)", X=normal(1, 2, 3, 4, 2)
)

layer("cropping1d", "Cropping1D()", X=normal(2, 6, 3))
layer("cropping1d_two", "Cropping1D(2)", X=normal(2, 6, 3))
layer("cropping1d_sides", "Cropping1D([0, 2])", X=normal(2, 6, 3))
layer("cropping2d", "Cropping2D(1)", X=normal(2, 6, 7, 3))
layer("cropping2d_default", "Cropping2D()", X=normal(2, 3, 4, 2))
layer("cropping2d_axes", "Cropping2D([1, 2])", X=normal(2, 6, 7, 3))
layer("cropping2d_sides", "Cropping2D([[1, 0], [2, 3]])", X=normal(2, 6, 7, 3))
layer("cropping2d_channels_first", "Cropping2D([[1, 0], [2, 3]], data_format = channels_first)", X=normal(2, 3, 6, 7))
layer("cropping3d", "Cropping3D()", X=normal(1, 4, 5, 6, 2))
layer("cropping3d_axes", "Cropping3D([1, 0, 2])", X=normal(1, 4, 5, 6, 2))
layer("cropping3d_sides", "Cropping3D([[1, 0], [0, 2], [1, 1]])", X=normal(1, 4, 5, 6, 2))
layer("cropping3d_channels_first", "Cropping3D([0, 1, 1], data_format = channels_first)", X=normal(1, 2, 4, 5, 6))

layer("up_sampling1d", "UpSampling1D()", X=normal(2, 4, 3))
layer("up_sampling1d_three", "UpSampling1D(size = 3)", X=normal(2, 4, 3))
layer("up_sampling2d", "UpSampling2D()", X=normal(2, 3, 4, 2))
layer("up_sampling2d_of_two_sizes", "UpSampling2D([2, 3])", X=normal(2, 3, 4, 2))
layer("up_sampling2d_channels_first", "UpSampling2D([2, 3], data_format = channels_first)", X=normal(2, 2, 3, 4))
layer("up_sampling2d_bilinear", "UpSampling2D(2, interpolation = bilinear)", X=normal(2, 3, 4, 2))
layer("up_sampling2d_bilinear_of_two_sizes", "UpSampling2D([3, 2], interpolation = bilinear)", X=normal(2, 3, 4, 2))
layer("up_sampling2d_bilinear_channels_first", "UpSampling2D([4, 2], channels_first, bilinear)", X=normal(2, 2, 3, 4))
layer("up_sampling3d", "UpSampling3D()", X=normal(1, 2, 3, 2, 2))
layer("up_sampling3d_of_three_sizes", "UpSampling3D([1, 2, 3])", X=normal(1, 2, 3, 2, 2))
layer("up_sampling3d_channels_first", "UpSampling3D([1, 2, 3], data_format = channels_first)", X=normal(1, 2, 2, 3, 2))
