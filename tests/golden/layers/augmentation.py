"""Layers that spread, warp and mix images, as far as what they give is the same always."""

from cases import Family, keras, np
from images import colors, first, one, unit


def perspective(interpolation, fill_value):
    """Of images whose own corners are the start."""

    def apply(images, corners):
        n, height, width, _ = images.shape
        x, y = width - 1.0, height - 1.0
        start = np.tile(np.array([[[0, 0], [x, 0], [0, y], [x, y]]]), [n, 1, 1])
        return keras.ops.image.perspective_transform(images, start, corners, interpolation, fill_value)

    return apply


family = Family("augmentation", {"perspective": perspective})


def layer(name, expression, x=colors(3, 5, 6, 3), training=True):
    family.layer(name, expression, training=training, X=x)


def corners(random):
    """Those of images of 5 times 6, moved by a share of them."""
    at = np.array([[0, 0], [5, 0], [0, 4], [5, 4]])
    return (at + [0.3, -0.2] + random.uniform(-0.8, 0.8, (3, 4, 2))).astype(np.float32)


pair = {"X": colors(3, 5, 6, 2), "Corners": corners}
family.body("perspective", ["Y = perspective(bilinear, 0.0)(X, Corners)"], **pair)
family.body("perspective_fill", ["Y = perspective(bilinear, 50.0)(X, Corners)"], **pair)
family.body("perspective_nearest", ["Y = perspective(nearest, 9.0)(X, Corners)"], **pair)

layer("equalization", "Equalization()", colors(2, 9, 8, 3))
layer("equalization_bins", "Equalization(bins = 7)")
layer("equalization_range", "Equalization([0, 1])", unit)
layer("equalization_of_one", "Equalization()", one)
layer("equalization_of_nothing", "Equalization()", lambda random: np.full((1, 2, 3, 3), 7, np.float32))
layer("equalization_channels_first", "Equalization(data_format = channels_first)", first)
layer("equalization_inference", "Equalization()", training=False)

kind = "ContrastLimitedAdaptiveHistogramEqualization"
layer("clahe", f"{kind}()", colors(1, 24, 32, 2))
layer("clahe_grid", f"{kind}(tile_grid_size = [2, 3])", colors(2, 13, 17, 3), training=False)
layer("clahe_clip", f"{kind}(clip_limit = 1.5, tile_grid_size = [3, 2])", colors(1, 12, 10, 1))
layer("clahe_no_clip", f"{kind}(clip_limit = 0.0, tile_grid_size = [2, 2])", colors(1, 12, 10, 1))
layer("clahe_range", f"{kind}([0, 1], tile_grid_size = [2, 2])", colors(2, 9, 8, 3, high=1.0))
layer("clahe_of_one", f"{kind}(tile_grid_size = [2, 2])", colors(9, 8, 3))
layer("clahe_channels_first", f"{kind}(tile_grid_size = [2, 2], data_format = channels_first)", colors(2, 3, 9, 8))

for name, expression in [
    ("random_perspective_still", "RandomPerspective(scale = 0.0)"),
    ("random_perspective_never", "RandomPerspective(0.0)"),
    ("random_elastic_transform_still", "RandomElasticTransform(scale = 0.0)"),
    ("random_elastic_transform_never", "RandomElasticTransform(0.0)"),
    ("rand_augment_without", "RandAugment(num_ops = 0)"),
    ("aug_mix_without", "AugMix(chain_depth = 0)"),
]:
    layer(name, expression)
for name in ["RandomPerspective()", "RandomElasticTransform()", "MixUp()", "CutMix()", "RandAugment()", "AugMix()"]:
    layer(f"inference_of_{name[:-2]}", name, training=False)
layer("mix_up_of_one", "MixUp()", colors(1, 5, 6, 3))
layer("cut_mix_of_one", "CutMix()", colors(1, 5, 6, 3))
