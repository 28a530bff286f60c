"""Layers that change images, where what they draw is the same always: most of them in training, with ranges of one number."""

from cases import Family, np

family = Family("images")


def colors(*shape, high=255.0):
    return lambda random: (high * random.random(shape)).astype(np.float32)


def layer(name, expression, x=colors(3, 5, 6, 3), training=True):
    family.layer(name, expression, training=training, X=x)


first = colors(2, 3, 5, 6)
one = colors(5, 6, 3)
unit = colors(3, 5, 6, 3, high=1.0)
for name, expression in [
    ("random_brightness", "RandomBrightness([0.3, 0.3]"),
    ("random_contrast", "RandomContrast([-0.4, 0.4]"),
    ("random_grayscale", "RandomGrayscale(1.0"),
    ("random_invert", "RandomInvert([1.0, 1.0]"),
    ("random_hue", "RandomHue([1.0, 1.0]"),
    ("random_color_degeneration", "RandomColorDegeneration([0.3, 0.3]"),
    ("random_posterization", "RandomPosterization([3, 3]"),
    ("solarization", "Solarization([0.0, 0.0]"),
    ("random_sharpness", "RandomSharpness([0.8, 0.8]"),
    ("random_gaussian_blur", "RandomGaussianBlur([1.0, 1.0], [3, 5], [0.7, 0.7]"),
    ("random_erasing", "RandomErasing([1.0, 1.0], [1.0, 1.0], fill_value = 100"),
]:
    layer(name, expression + ")")
    layer(f"{name}_inference", expression + ")", training=False)
    layer(f"{name}_of_one", expression + ")", one)
    if name != "random_grayscale":
        layer(f"{name}_range", expression + ", value_range = [0, 1])", unit)
    if name not in ("random_grayscale", "random_erasing"):
        layer(f"{name}_channels_first", expression + ", data_format = channels_first)", first)
layer("random_brightness_lower", "RandomBrightness([-0.5, -0.5], [0, 255], seed = 1)")
layer("random_brightness_nothing", "RandomBrightness(0.0)")
layer("random_contrast_more", "RandomContrast([-2.0, 2.0])")
layer("random_grayscale_never", "RandomGrayscale(factor = 0.0)")
layer("random_grayscale_of_gray", "RandomGrayscale(1.0)", colors(2, 5, 6, 1))
layer("random_invert_never", "RandomInvert(0.0)")
layer("random_hue_nothing", "RandomHue(0.0)")
layer("random_saturation", "RandomSaturation([0.7, 0.7], [0, 1])", unit)
layer("random_saturation_less", "RandomSaturation([0.2, 0.2], value_range = [0, 1])", unit)
layer("random_saturation_none", "RandomSaturation([0.0, 0.0])")
layer("random_saturation_inference", "RandomSaturation([0.7, 0.7])", training=False)
layer("random_saturation_channels_first", "RandomSaturation([0.7, 0.7], [0, 1], channels_first)", colors(2, 3, 5, 6, high=1.0))
layer("random_saturation_of_one", "RandomSaturation([0.7, 0.7], [0, 1])", colors(5, 6, 3, high=1.0))
layer(
    "random_color_jitter",
    "RandomColorJitter([0, 1], brightness_factor = [0.1, 0.1], contrast_factor = [-0.2, 0.2], saturation_factor = [0.6, 0.6], hue_factor = [1.0, 1.0])",
    unit,
)
layer("random_color_jitter_contrast", "RandomColorJitter(contrast_factor = [-0.2, 0.2])")
layer("random_color_jitter_inference", "RandomColorJitter(contrast_factor = [-0.2, 0.2])", training=False)
layer("random_posterization_all", "RandomPosterization([8, 8])")
layer("random_posterization_one", "RandomPosterization([1, 1])")
layer("auto_contrast", "AutoContrast()")
layer("auto_contrast_range", "AutoContrast([0, 1])", unit, training=False)
layer("auto_contrast_of_one", "AutoContrast()", one)
layer("auto_contrast_of_nothing", "AutoContrast()", lambda random: np.full((1, 2, 3, 3), 7, np.float32))

layer("random_crop_middle", "RandomCrop(5, 4)")
layer("random_crop_wide", "RandomCrop(4, 7)")
layer("random_crop_high", "RandomCrop(9, 3)")
layer("random_crop_same", "RandomCrop(5, 6)")
layer("random_crop_inference", "RandomCrop(2, 3)", training=False)
layer("random_crop_channels_first", "RandomCrop(5, 4, data_format = channels_first)", first)
layer("random_flip_inference", "RandomFlip()", training=False)
for mode in ["reflect", "wrap", "constant", "nearest"]:
    fill = ", fill_value = 9.5" if mode == "constant" else ""
    for name, expression in [
        ("random_translation", "RandomTranslation([0.33, 0.33], [-0.45, -0.45]"),
        ("random_rotation", "RandomRotation([0.11, 0.11]"),
        ("random_zoom", "RandomZoom([0.37, 0.37], [-0.21, -0.21]"),
    ]:
        layer(f"{name}_{mode}", f"{expression}, fill_mode = {mode}{fill})")
        layer(f"{name}_{mode}_nearest", f"{expression}, fill_mode = {mode}, interpolation = nearest{fill})")
for name, expression in [
    ("random_translation", "RandomTranslation([2.0, 2.0], 0.0"),
    ("random_rotation", "RandomRotation([-0.31, -0.31]"),
    ("random_zoom", "RandomZoom([0.9, 0.9]"),
    ("random_shear", "RandomShear("),
]:
    if name != "random_translation":
        layer(name, expression + ")")
    expression = expression.replace("2.0", "0.4")
    comma = "" if name == "random_shear" else ", "
    layer(f"{name}_channels_first", f"{expression}{comma}data_format = channels_first)", first)
    layer(f"{name}_of_one", f"{expression})", one)
    layer(f"{name}_inference", f"{expression})", training=False)
layer("random_zoom_in", "RandomZoom([-0.6, -0.6])")
