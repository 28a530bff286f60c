"""Pooling over windows, over everything, and to a given size."""

from cases import Family, flags, normal

family = Family("pooling")
layer = family.layer

# All of the largest values are below zero, so that padding must not count.
low = -4.0

for kind, name in [("Max", "max"), ("Average", "average")]:
    layer(f"{name}_pooling1d", f"{kind}Pooling1D(2)", X=normal(2, 9, 3, mean=low))
    layer(f"{name}_pooling1d_same", f"{kind}Pooling1D(3, padding = same)", X=normal(2, 10, 3, mean=low))
    layer(f"{name}_pooling1d_strided", f"{kind}Pooling1D(pool_size = 2, strides = 3)", X=normal(2, 9, 3, mean=low))
    layer(f"{name}_pooling1d_same_overlapping", f"{kind}Pooling1D(4, 1, same)", X=normal(2, 7, 3, mean=low))
    layer(
        f"{name}_pooling1d_channels_first",
        f"{kind}Pooling1D(2, data_format = channels_first)",
        X=normal(2, 3, 9, mean=low),
    )
    layer(f"{name}_pooling2d", f"{kind}Pooling2D(2)", X=normal(2, 7, 8, 3, mean=low))
    layer(f"{name}_pooling2d_same", f"{kind}Pooling2D([3, 2], padding = same)", X=normal(2, 7, 9, 3, mean=low))
    layer(f"{name}_pooling2d_overlapping", f"{kind}Pooling2D(3, strides = 2)", X=normal(2, 7, 8, 3, mean=low))
    layer(
        f"{name}_pooling2d_same_overlapping",
        f"{kind}Pooling2D(3, strides = 2, padding = same)",
        X=normal(2, 7, 8, 3, mean=low),
    )
    layer(f"{name}_pooling2d_same_strides", f"{kind}Pooling2D([2, 4], [1, 3], same)", X=normal(2, 7, 8, 3, mean=low))
    layer(
        f"{name}_pooling2d_channels_first",
        f"{kind}Pooling2D([2, 3], padding = same, data_format = channels_first)",
        X=normal(2, 3, 7, 8, mean=low),
    )
    layer(f"{name}_pooling3d", f"{kind}Pooling3D(2)", X=normal(2, 4, 5, 6, 2, mean=low))
    layer(
        f"{name}_pooling3d_same",
        f"{kind}Pooling3D([2, 3, 2], strides = [1, 2, 2], padding = same)",
        X=normal(2, 4, 5, 6, 2, mean=low),
    )
    layer(
        f"{name}_pooling3d_channels_first",
        f"{kind}Pooling3D(2, data_format = channels_first)",
        X=normal(2, 2, 4, 5, 6, mean=low),
    )
    for rank, sizes in [(1, [6]), (2, [4, 5]), (3, [3, 4, 2])]:
        start = f"Global{kind}Pooling{rank}D"
        snake = f"global_{name}_pooling{rank}d"
        layer(snake, f"{start}()", X=normal(2, *sizes, 3, mean=low))
        layer(f"{snake}_keepdims", f"{start}(keepdims = true)", X=normal(2, *sizes, 3, mean=low))
        layer(f"{snake}_channels_first", f"{start}(data_format = channels_first)", X=normal(2, 3, *sizes, mean=low))
layer("max_pooling2d_default", "MaxPooling2D()", X=normal(2, 7, 8, 3))
layer("max_pooling1d_default", "MaxPooling1D()", X=normal(2, 7, 3))
layer("max_pooling3d_default", "MaxPooling3D()", X=normal(1, 5, 4, 6, 2))

layer("adaptive_average_pooling2d", "AdaptiveAveragePooling2D([3, 2])", X=normal(2, 7, 8, 3))
layer("adaptive_average_pooling2d_one", "AdaptiveAveragePooling2D(1)", X=normal(2, 7, 8, 3))
layer("adaptive_average_pooling2d_same", "AdaptiveAveragePooling2D([7, 5])", X=normal(2, 7, 8, 3))
layer("adaptive_average_pooling2d_larger", "AdaptiveAveragePooling2D([9, 4])", X=normal(2, 7, 8, 3))
layer(
    "adaptive_average_pooling2d_channels_first",
    "AdaptiveAveragePooling2D(3, data_format = channels_first)",
    X=normal(2, 3, 7, 8),
)

for option in ["", "keepdims = true", "data_format = channels_first"]:
    sizes = (3, 2, 5) if "first" in option else (3, 5, 2)
    layer(
        f"global_average_pooling1d_masked{option.split(' ')[0]}",
        f"GlobalAveragePooling1D({option})",
        "Y = layer(X, Mask = M)",
        X=normal(*sizes),
        M=flags(3, 5),
    )
