"""Makes the pictures that tests/pictures.rs reads, by Pillow, and what Keras and torchvision make of them, in the folder `pictures` beside this file.

    pip install numpy pillow keras torch torchvision && KERAS_BACKEND=torch python3 tests/golden/pictures.py

`shapes.png` and `shapes.jpg` are 37 high and 53 wide, with edges, a gradient and noise. Of FILE-HxW-MODE.npy, MODE is

    raw, grey           keras.utils.load_img(color_mode, target_size, interpolation="bilinear"), as bytes
    tf, caffe, torch    keras.applications.imagenet_utils.preprocess_input of that in the mode
    torchvision         Resize(round(H * 256 / 224)), CenterCrop(H), ToTensor and Normalize of ImageNet; [3, H, W]
"""

import pathlib

import numpy as np
from keras.applications.imagenet_utils import preprocess_input
from keras.utils import img_to_array, load_img
from PIL import Image, ImageDraw
from torchvision import transforms

FOLDER = pathlib.Path(__file__).parent / "pictures"
FOLDER.mkdir(exist_ok=True)
HEIGHT, WIDTH = 37, 53


def draw():
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    sky = np.stack([60 + 3 * y, 120 + 2 * y, 255 - 2 * x], -1).clip(0, 255)
    noise = np.random.default_rng(1).integers(-12, 13, sky.shape)
    picture = Image.fromarray((sky + noise).clip(0, 255).astype(np.uint8))
    pencil = ImageDraw.Draw(picture)
    pencil.ellipse([34, 4, 46, 16], fill=(255, 236, 40))
    pencil.polygon([(0, 36), (14, 14), (30, 36)], fill=(20, 90, 50))
    pencil.polygon([(18, 36), (33, 20), (52, 36)], fill=(10, 140, 60))
    pencil.line([(2, 3), (24, 9)], fill=(255, 255, 255))
    picture.save(FOLDER / "shapes.png")
    # Each pixel has its own colour: decoders differ in how they enlarge half of them.
    picture.save(FOLDER / "shapes.jpg", quality=92, subsampling=0)


def keep(file, height, width, mode, array):
    np.save(FOLDER / f"{file.split('.')[1]}-{height}x{width}-{mode}.npy", array)


draw()
for file in ["shapes.png", "shapes.jpg"]:
    for height, width in [(HEIGHT, WIDTH), (16, 20), (60, 44)]:
        for mode, color in [("raw", "rgb"), ("grey", "grayscale")]:
            size = {"color_mode": color, "target_size": (height, width), "interpolation": "bilinear"}
            array = img_to_array(load_img(FOLDER / file, **size))
            assert (array == np.floor(array)).all()
            keep(file, height, width, mode, array.astype(np.uint8))
            for scaled in ["tf", "caffe", "torch"] if mode == "raw" and height == 16 else []:
                keep(file, height, width, scaled, preprocess_input(array.copy(), "channels_last", scaled).astype(np.float32))
    for size in [24, 48]:
        steps = [
            transforms.Resize(round(size * 256 / 224)),
            transforms.CenterCrop(size),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
        keep(file, size, size, "torchvision", transforms.Compose(steps)(Image.open(FOLDER / file)).numpy())
