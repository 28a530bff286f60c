"""Normalization, in inference and (where the batch counts) in training."""

from cases import Family, flags, normal

family = Family("normalization")
layer = family.layer


def far(*shape):
    """Far from zero mean and unit variance."""
    return normal(*shape, mean=3.0, scale=2.0)


layer("batch_normalization", "BatchNormalization()", X=far(4, 5))
layer("batch_normalization_of_images", "BatchNormalization()", X=far(2, 3, 4, 5))
layer("batch_normalization_axis", "BatchNormalization(axis = 1, epsilon = 0.1)", X=far(2, 3, 4, 5))
layer("batch_normalization_no_center", "BatchNormalization(center = false)", X=far(4, 3, 5))
layer("batch_normalization_no_scale", "BatchNormalization(scale = false, epsilon = 1e-5)", X=far(4, 3, 5))
layer("batch_normalization_neither", "BatchNormalization(center = false, scale = false)", X=far(4, 5))
layer("batch_normalization_training", "BatchNormalization()", training=True, X=far(7, 5))
layer("batch_normalization_training_of_images", "BatchNormalization(momentum = 0.9)", training=True, X=far(3, 4, 5, 2))
layer(
    "batch_normalization_training_axis",
    "BatchNormalization(axis = 1, momentum = 0.5)",
    training=True,
    X=far(3, 4, 5, 2),
)
layer(
    "batch_normalization_training_neither",
    "BatchNormalization(center = false, scale = false)",
    training=True,
    X=far(7, 5),
)

for name, shape in [("", (7, 5)), ("_of_sequence", (3, 6, 5))]:
    layer(
        f"batch_normalization_masked{name}_training",
        "BatchNormalization(momentum = 0.7)",
        "Y = layer(X, Mask = M)",
        training=True,
        X=far(*shape),
        M=flags(*shape[:-1]),
    )

layer("layer_normalization", "LayerNormalization()", X=far(3, 7))
layer("layer_normalization_of_sequence", "LayerNormalization(epsilon = 1e-6)", X=far(2, 5, 7))
layer("layer_normalization_axis", "LayerNormalization(axis = 1)", X=far(2, 5, 7))
layer("layer_normalization_axes", "LayerNormalization(axis = [1, 2])", X=far(2, 3, 4))
layer("layer_normalization_last_axes", "LayerNormalization(axis = [-2, -1], epsilon = 0.1)", X=far(2, 3, 4, 5))
layer("layer_normalization_no_center", "LayerNormalization(center = false)", X=far(3, 7))
layer("layer_normalization_no_scale", "LayerNormalization(scale = false)", X=far(3, 7))
layer("layer_normalization_neither", "LayerNormalization(center = false, scale = false)", X=far(3, 7))

for name, expression, inputs in [
    ("dense", "Dense(5)", {"X": far(3, 7)}),
    ("conv2d", "Conv2D(3, 2)", {"X": far(2, 4, 5, 2)}),
]:
    layer(f"spectral_normalization_{name}", f"SpectralNormalization({expression})", **inputs)
    layer(f"spectral_normalization_{name}_training", f"SpectralNormalization({expression})", training=True, **inputs)
layer(
    "spectral_normalization_iterations_training",
    "SpectralNormalization(Dense(5), power_iterations = 4)",
    training=True,
    X=far(3, 7),
)

layer("group_normalization", "GroupNormalization(2)", X=far(2, 3, 4, 6))
layer("group_normalization_of_vectors", "GroupNormalization(groups = 3)", X=far(4, 9))
layer("group_normalization_one_group", "GroupNormalization(groups = 1, epsilon = 0.1)", X=far(2, 5, 4))
layer("group_normalization_by_channel", "GroupNormalization(groups = -1)", X=far(2, 5, 4))
layer("group_normalization_axis", "GroupNormalization(groups = 2, axis = 1)", X=far(2, 4, 3, 5))
layer("group_normalization_neither", "GroupNormalization(groups = 2, center = false, scale = false)", X=far(2, 5, 4))
layer("group_normalization_default_groups", "GroupNormalization()", X=far(2, 3, 64))

layer("rms_normalization", "RMSNormalization()", X=far(3, 7))
layer("rms_normalization_of_sequence", "RMSNormalization(epsilon = 0.1)", X=far(2, 5, 7))
layer("rms_normalization_axes", "RMSNormalization(axis = [1, 2])", X=far(2, 5, 7))

layer("unit_normalization", "UnitNormalization()", X=far(3, 7))
layer("unit_normalization_axis", "UnitNormalization(axis = 1)", X=far(2, 5, 7))
layer("unit_normalization_axes", "UnitNormalization(axis = [1, 2])", X=far(2, 5, 7))
