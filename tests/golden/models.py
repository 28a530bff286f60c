"""Makes the values that whole models are compared with, by Keras and PyTorch: nothing of this project.

    pip install numpy torch jax keras && python3 tests/golden/models.py [NAME…]

The weights are too large to keep, so they are made from a hash wherever they are needed; only outputs are kept.
tests/golden/models/NAME.txt is the contract for examples/models/NAME.tile (up to the first `-` in NAME): names, shapes, values.

    model MODEL                             the entry of the file
    input NAME TYPE[SIZES] LOW HIGH
    weight PATH TYPE[SIZES] LOW HIGH        every weight, trained or not, and no other
    output NAME TYPE[SIZES] every STEP      the elements 0, STEP, 2 * STEP, … of it, row-major, are in NAME.npy, one output after another

hashed.py makes the elements of inputs and weights.

What the models are:

    mnist_mlp           Image[N, 28, 28] / 255 |> Flatten |> Dense(128, relu) |> Dropout |> Dense(10): `dense`, `dense_1`; Logits
    mnist_cnn           Image[N, 28, 28] / 255, one channel; Conv2D(32, 5, padding = same, activation = relu), then 64 likewise, Flatten,
                        Dense(10): `conv2d`, `conv2d_1`, `dense`; Logits
    mobilenet, resnet50, vgg19
                        keras.applications' MobileNet, ResNet50 and VGG19 with 1000 classes; instances have their layers' names there;
                        Image[N, H, W, 3] as it enters the network (after preprocessing); Probs. `-32`: of an image of 32 x 32
    transformer_encoder PyTorch's nn.TransformerEncoder: 6 layers of TransformerEncoderLayer(512, 8, 2048) in a list `encoder`; X[N, T, 512]; Y
    lstm_classifier     Tokens[N, T] |> embedding: Embedding(1000, 48) |> lstm: LSTM(64) |> head: Dense(3); Logits
    unet                Image[N, H, W, 1], three levels: twice Conv2D(16, 3, padding = same, activation = relu), `down1_conv1` and `down1_conv2`,
                        then MaxPooling2D(2); likewise `down2_…` with 32; `bottom_conv1`, `bottom_conv2` with 64; up again by
                        Conv2DTranspose(32, 2, strides = 2) `up2`, Concatenate of [up, level], `up2_conv1`, `up2_conv2`; likewise
                        `up1…` with 16; `head`: Conv2D(2, 1); Logits
    gpt                 Tokens[N, T], T <= 64: token_embedding: Embedding(256, 128) of Tokens + position_embedding: Embedding(64, 128) of
                        0, 1, …; 4 layers of TransformerEncoderLayer(128, 4, 512, activation = gelu(approximate = true), norm_first = true)
                        in a list `blocks`, with use_causal_mask; final_norm: LayerNormalization(epsilon = 1e-5); head: Dense(256, use_bias = false); Logits

Kernels of the encoder layers are [in, out]: `encoder[0].attention.query.Kernel`, `.Bias`; `key`, `value`, `output` likewise;
`encoder[0].linear1.Kernel`, `linear2`, `encoder[0].norm1.Gamma`, `.Beta`, `norm2`.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "layers"))

import torch
from cases import Layer, keras, np
from encoder import TransformerEncoderLayer
from hashed import hashed, limits, line

layers = keras.layers


class KerasModel:
    def __init__(self, model):
        self.model = model
        self.parts = {layer.name: Layer(layer) for layer in model.layers}

    def weights(self):
        """Shapes and limits by path."""
        found = {}
        for name, part in self.parts.items():
            for path, variable in part.weights().items():
                depthwise = isinstance(part.layer, layers.DepthwiseConv2D)
                shape = tuple(variable.shape)
                found[f"{name}.{path}"] = shape, limits(f"{name}.{path}", shape, depthwise)
        return found

    def set(self, path, value):
        name, path = path.split(".", 1)
        self.parts[name].set(path, value)

    def run(self, x):
        return keras.ops.convert_to_numpy(self.model(x, training=False))


class Stack:
    """PyTorch's encoder layers in a list, and what comes before and after."""

    def __init__(self, name, encoders, before=lambda x: x, after=lambda x: x, others=None, **options):
        self.encoders, self.before, self.after, self.options = encoders, before, after, options
        self.parts = {f"{name}[{number}]": encoder for number, encoder in enumerate(encoders)} | (others or {})

    def weights(self):
        found = {}
        for name, part in self.parts.items():
            for path in part.weights():
                shape = part.get(path).shape
                found[f"{name}.{path}"] = shape, limits(path, shape)
        return found

    def set(self, path, value):
        name = path[: path.index("]") + 1] if "]" in path else path.split(".")[0]
        self.parts[name].set(path[len(name) + 1 :], value)

    def run(self, x):
        x = self.before(x)
        for encoder in self.encoders:
            x = encoder(x, **self.options)
        return keras.ops.convert_to_numpy(self.after(x))


def application(make, size):
    keras.backend.clear_session()
    return KerasModel(make(weights=None, input_shape=(size, size, 3)))


def mnist_mlp():
    image = keras.Input((28, 28))
    x = layers.Flatten()(image / 255)
    x = layers.Dense(128, activation="relu", name="dense")(x)
    return KerasModel(keras.Model(image, layers.Dense(10, name="dense_1")(x)))


def mnist_cnn():
    image = keras.Input((28, 28))
    x = layers.Reshape((28, 28, 1))(image / 255)
    x = layers.Conv2D(32, 5, padding="same", activation="relu", name="conv2d")(x)
    x = layers.Conv2D(64, 5, padding="same", activation="relu", name="conv2d_1")(x)
    return KerasModel(keras.Model(image, layers.Dense(10, name="dense")(layers.Flatten()(x))))


def lstm_classifier():
    tokens = keras.Input((None,), dtype="int32")
    x = layers.Embedding(1000, 48, name="embedding")(tokens)
    return KerasModel(keras.Model(tokens, layers.Dense(3, name="head")(layers.LSTM(64, name="lstm")(x))))


def unet():
    def twice(x, name, filters):
        for number in (1, 2):
            convolution = layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"{name}_conv{number}")
            x = convolution(x)
        return x

    def up(x, level, name, filters):
        x = layers.Conv2DTranspose(filters, 2, strides=2, name=name)(x)
        return twice(layers.Concatenate()([x, level]), name, filters)

    image = keras.Input((None, None, 1))
    one = twice(image, "down1", 16)
    two = twice(layers.MaxPooling2D(2)(one), "down2", 32)
    x = twice(layers.MaxPooling2D(2)(two), "bottom", 64)
    x = up(up(x, two, "up2", 32), one, "up1", 16)
    return KerasModel(keras.Model(image, layers.Conv2D(2, 1, name="head")(x)))


def transformer_encoder():
    return Stack("encoder", [TransformerEncoderLayer(512, 8, 2048) for _ in range(6)])


def gpt():
    gelu = lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    blocks = [TransformerEncoderLayer(128, 4, 512, activation=gelu, norm_first=True) for _ in range(4)]
    tokens, positions = layers.Embedding(256, 128), layers.Embedding(64, 128)
    norm, head = layers.LayerNormalization(epsilon=1e-5), layers.Dense(256, use_bias=False)
    for layer, sizes in [(tokens, (1,)), (positions, (1,)), (norm, (1, 1, 128)), (head, (1, 1, 128))]:
        layer.build(sizes)
    others = {"token_embedding": tokens, "position_embedding": positions, "final_norm": norm, "head": head}
    return Stack(
        "blocks",
        blocks,
        before=lambda x: tokens(x) + positions(np.arange(x.shape[1])),
        after=lambda x: head(norm(x)),
        others={name: Layer(layer) for name, layer in others.items()},
        use_causal_mask=True,
    )


IMAGE, PROBS = ("Image", (-1, 1)), "Probs"
applications = keras.applications
# By file: the entry, how it is made, the input's name, limits, shape and type, the output, and which of its elements are kept.
MODELS = {
    "mnist_mlp": ("MnistMlp", mnist_mlp, "Image", (0, 255), (3, 28, 28), "Logits", 1),
    "mnist_cnn": ("MnistCnn", mnist_cnn, "Image", (0, 255), (2, 28, 28), "Logits", 1),
    "lstm_classifier": ("LstmClassifier", lstm_classifier, "Tokens", (0, 1000), (3, 37), "Logits", 1),
    "unet": ("UNet", unet, "Image", (-1, 1), (2, 24, 20, 1), "Logits", 1),
    "gpt": ("Gpt", gpt, "Tokens", (0, 256), (2, 50), "Logits", 17),
    "transformer_encoder": ("TransformerEncoder", transformer_encoder, "X", (-1, 1), (1, 128, 512), "Y", 67),
}
for name, entry, make in [
    ("mobilenet", "MobileNet", applications.MobileNet),
    ("resnet50", "ResNet50", applications.ResNet50),
    ("vgg19", "Vgg19", applications.VGG19),
]:
    for size, suffix in [(32, "-32"), (224, "")]:
        build = lambda make=make, size=size: application(make, size)
        MODELS[name + suffix] = (entry, build, "Image", (-1, 1), (1, size, size, 3), "Probs", 1)


def write(name):
    entry, make, input_name, (low, high), shape, output, step = MODELS[name]
    model = make()
    dtype = "i32" if input_name == "Tokens" else "f32"
    text = [f"model {entry}", line("input", input_name, shape, low, high, dtype)]
    for path, (sizes, (least, most)) in model.weights().items():
        model.set(path, hashed(path, sizes, least, most).astype(np.float64))
        text.append(line("weight", path, sizes, least, most))
    x = hashed(input_name, shape, low, high, np.int32 if dtype == "i32" else np.float32)
    result = model.run(x if dtype == "i32" else x.astype(np.float64))
    assert result.dtype == np.float64 and np.isfinite(result).all()
    text.append(f"output {output} f32[{', '.join(map(str, result.shape))}] every {step}")
    folder = HERE / "models"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.txt").write_text("\n".join(text) + "\n")
    np.save(folder / f"{name}.npy", result.ravel()[::step].astype(np.float32))
    print(
        f"{name}: {len(text) - 3} weights; deviation {result.std():.4}, from {result.min():.4} to {result.max():.4}",
        flush=True,
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        write(name)
