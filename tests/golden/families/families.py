"""The families of models of examples/, with Keras: see make.py."""

from keras_step import Family, Trained, keras, np

layers, ops, losses, optimizers = keras.layers, keras.ops, keras.losses, keras.optimizers
Dense, Conv2D, Embedding = layers.Dense, layers.Conv2D, layers.Embedding
HALVES = dict(strides=2, padding="same")
NO_DROPOUT = "layer Dropout(rate)(X) -> (Y) { Y = X + 0 * rate; }"
FAMILIES = {}


def family(make):
    FAMILIES[make.__name__] = make
    return make


def cross_entropy(**options):
    return losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def numbers(*shape):
    """What the definitions below give instead of random numbers."""
    n = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    return ops.convert_to_tensor(((n * 7919 + 13) % 101 / 50 - 1).astype(keras.config.floatx()))


def numbers_as(header):
    """Defines a function that gives these numbers for a shape of two sizes."""
    return f"function {header}(shape) -> (X) {{ N = index(shape, 0) * shape[1] + index(shape, 1); X = (N * 7919 + 13 - (N * 7919 + 13) / 101 * 101) / 50.0 - 1; }}"


@family
def autoencoder(data):
    image = data.input("Image", (4, 28, 28), 0, 255)
    parts = {
        "encoder.conv2d": Conv2D(16, 3, activation="relu", **HALVES),
        "encoder.conv2d_1": Conv2D(32, 3, activation="relu", **HALVES),
        "encoder.dense": Dense(32),
        "decoder.dense": Dense(7 * 7 * 32, activation="relu"),
        "decoder.conv2d_transpose": layers.Conv2DTranspose(16, 3, activation="relu", **HALVES),
        "decoder.conv2d_transpose_1": layers.Conv2DTranspose(1, 3, activation="sigmoid", **HALVES),
    }

    def call(network, image):
        first, second, code, dense, third, fourth = network.named.values()
        x = second(first(ops.expand_dims(image, -1) / 255))
        x = dense(code(ops.reshape(x, (4, -1))))
        return ops.reshape(fourth(third(ops.reshape(x, (4, 7, 7, 32)))), (4, 28, 28)) * 255

    loss = lambda image, copy: losses.mean_squared_error(image / 255, copy / 255)
    trained = Trained(parts, call, [image], image, dict(loss=loss, optimizer="adam"))
    return Family("training/autoencoder", "Autoencoder", [trained])


@family
def vae(data):
    image = data.input("Image", (4, 28, 28), 0, 255)
    parts = {
        "encoder.dense": Dense(256, activation="relu"),
        "encoder.mean": Dense(8),
        "encoder.log_variance": Dense(8),
        "decoder.dense": Dense(256, activation="relu"),
        "decoder.dense_1": Dense(784, activation="sigmoid"),
    }

    def call(network, image):
        seen, to_mean, to_variance, dense, pixels = network.named.values()
        x = seen(ops.reshape(image / 255, (4, -1)))
        mean, log_variance = to_mean(x), to_variance(x)
        divergence = -0.5 * ops.sum(1 + log_variance - mean**2 - ops.exp(log_variance), -1)
        network.add_loss(ops.mean(divergence))
        code = mean + ops.exp(0.5 * log_variance) * numbers(4, 8)
        return ops.reshape(pixels(dense(code)), (4, 28, 28))

    loss = lambda image, copy: 28 * ops.sum(losses.binary_crossentropy(image / 255, copy), -1)
    trained = Trained(parts, call, [image], image, dict(loss=loss, optimizer="adam"))
    return Family("training/vae", "VAE", [trained], [numbers_as("normal_values")])


@family
def siamese(data):
    pair = [data.input(name, (6, 28, 28), 0, 255) for name in ("Left", "Right")]
    same = data.target("Distance", (6,), 0, 2, "i32")
    parts = {"encoder.dense": Dense(128, activation="relu"), "encoder.dense_1": Dense(32)}

    def call(network, left, right):
        first, second = network.named.values()
        encoder = lambda image: layers.UnitNormalization()(second(first(ops.reshape(image, (6, -1)) / 255)))
        return ops.sqrt(ops.sum((encoder(left) - encoder(right)) ** 2, -1) + 1e-7)

    def contrastive(same, distance):
        return ops.where(same > 0, distance**2, ops.maximum(1 - distance, 0) ** 2)

    trained = Trained(parts, call, pair, same, dict(loss=contrastive, optimizer="adam"))
    return Family("training/siamese", "Siamese", [trained], [NO_DROPOUT])


class Brightness(layers.Layer):
    """Makes a view of an image that is known in advance."""

    def build(self, shape):
        self.brightness = self.add_weight(shape=(), trainable=False, name="brightness")

    def call(self, x):
        return x * self.brightness


def contrastive_encoder():
    return {
        "encoder.conv2d": Conv2D(16, 3, activation="relu", **HALVES),
        "encoder.conv2d_1": Conv2D(32, 3, activation="relu", **HALVES),
    }


@family
def contrastive(data):
    image = data.input("Image", (5, 28, 28), 0, 255)
    parts = contrastive_encoder() | {"head": Dense(32), "random_rotation": Brightness(), "random_rotation_1": Brightness()}

    def call(network, image):
        first, second, head, *views = network.named.values()

        def embedding(view):
            x = second(first(ops.expand_dims(view(image), -1) / 255))
            return layers.UnitNormalization()(head(ops.reshape(x, (5, -1))))

        one, other = map(embedding, views)
        return one @ ops.transpose(other) / 0.2

    def own_view(_, similarity):
        return losses.sparse_categorical_crossentropy(ops.arange(5), ops.softmax(similarity))

    trained = Trained(parts, call, [image], np.zeros(5), dict(loss=own_view, optimizer="adam"))
    views = [
        "layer RandomTranslation(height, width)(X) -> (Y) { Y = X; }",
        "layer RandomRotation(factor)(X) -> (Y) { state Brightness[] = ones; Y = X * Brightness; }",
    ]
    return Family("training/contrastive", "Views", [trained], views)


@family
def probe(data):
    image, label = data.input("Image", (5, 28, 28), 0, 255), data.target("Logits", (5,), 0, 10, "i32")
    parts = contrastive_encoder() | {"probe": Dense(10)}

    def call(network, image):
        first, second, dense = network.named.values()
        return dense(ops.reshape(second(first(ops.expand_dims(image, -1) / 255)), (5, -1)))

    compiled = dict(loss=cross_entropy(), optimizer="adam")
    return Family("training/contrastive", "Probe", [Trained(parts, call, [image], label, compiled, frozen=["encoder"])])


@family
def distillation(data):
    image, label = data.input("Image", (4, 28, 28), 0, 255), data.target("Logits", (4,), 0, 10, "i32")
    parts = {
        "teacher.conv2d": Conv2D(32, 3, activation="relu"),
        "teacher.conv2d_1": Conv2D(64, 3, activation="relu"),
        "teacher.dense": Dense(10),
        "student.dense": Dense(32, activation="relu"),
        "student.dense_1": Dense(10),
    }

    def call(network, image):
        first, second, dense, small, logits = network.named.values()
        x = layers.MaxPooling2D(2)(first(ops.expand_dims(image, -1) / 255))
        large = dense(ops.reshape(layers.MaxPooling2D(2)(second(x)), (4, -1)))
        own = logits(small(ops.reshape(image, (4, -1)) / 255))
        rest = losses.kl_divergence(ops.softmax(large / 5.0), ops.softmax(own / 5.0))
        network.add_loss(0.9 * 25 * ops.mean(rest))
        return own

    compiled = dict(loss=cross_entropy(), loss_weights=[0.1], optimizer="adam")
    return Family("training/distillation", "Distill", [Trained(parts, call, [image], label, compiled, frozen=["teacher"])])


@family
def tabular(data):
    numbers = data.input("Numbers", (8, 6), -2, 2)
    city, kind = data.input("City", (8,), 0, 50, "i32"), data.input("Kind", (8,), 0, 4, "i32")
    price, sold = data.target("Price", (8,), -3, 3), data.target("Sold", (8,), 0, 2, "i32")
    parts = {
        "normalization": layers.Normalization(),
        "embedding": Embedding(50, 8),
        "dense": Dense(64, activation="relu"),
        "dense_1": Dense(32, activation="relu"),
        "price": Dense(1),
        "sold": Dense(1, activation="sigmoid"),
    }

    def call(network, numbers, city, kind):
        scaled, place, first, second, price, sold = network.named.values()
        x = ops.concatenate([scaled(numbers), place(city), ops.one_hot(kind, 4)], -1)
        x = second(first(x))
        return [price(x), sold(x)]

    compiled = dict(
        loss=[losses.Huber(), losses.BinaryCrossentropy()],
        loss_weights=[1.0, 0.5],
        optimizer=optimizers.AdamW(0.001, weight_decay=0.01),
    )
    return Family("training/tabular", "Tabular", [Trained(parts, call, [numbers, city, kind], [price, sold], compiled)], [NO_DROPOUT])


@family
def text_classifier(data):
    tokens, topic = data.input("Tokens", (6, 9), 0, 12, "i32"), data.target("Logits", (6,), 0, 4, "i32")
    parts = {
        "embedding": Embedding(2000, 32),
        "bidirectional": layers.Bidirectional(layers.GRU(32, return_sequences=True)),
        "dense": Dense(4),
    }

    def call(network, tokens):
        words, states, dense = network.named.values()
        mask = tokens > 0
        return dense(layers.GlobalAveragePooling1D()(states(words(tokens), mask=mask), mask=mask))

    schedule = optimizers.schedules.CosineDecay(0.002, 200, warmup_target=0.005, warmup_steps=20)
    compiled = dict(loss=cross_entropy(), optimizer=optimizers.Adam(schedule, global_clipnorm=1.0))
    return Family("training/text_classifier", "TextClassifier", [Trained(parts, call, [tokens], topic, compiled)], [NO_DROPOUT])


@family
def translation(data):
    source, begun = data.input("Source", (3, 7), 0, 9, "i32"), data.input("Begun", (3, 6), 0, 100, "i32")
    following = data.target("Next", (3, 6), 0, 9, "i32")
    heads = lambda: layers.MultiHeadAttention(4, 16)
    parts = {f"{side}.{name}": Embedding(size, 64) for side in ("source", "begun") for name, size in (("word", 100), ("place", 64))}
    for number in range(2):
        block = f"encoder_block[{number}]"
        parts |= {f"{block}.multi_head_attention": heads(), f"{block}.layer_normalization": layers.LayerNormalization()}
        parts |= {f"{block}.dense": Dense(128, activation="relu"), f"{block}.dense_1": Dense(64)}
        parts[f"{block}.layer_normalization_1"] = layers.LayerNormalization()
    for number in range(2):
        block = f"decoder_block[{number}]"
        parts |= {f"{block}.own": heads(), f"{block}.layer_normalization": layers.LayerNormalization(), f"{block}.other": heads()}
        parts[f"{block}.layer_normalization_1"] = layers.LayerNormalization()
        parts |= {f"{block}.dense": Dense(128, activation="relu"), f"{block}.dense_1": Dense(64)}
        parts[f"{block}.layer_normalization_2"] = layers.LayerNormalization()
    parts["dense"] = Dense(100)
    parts = {f"transformer.{path}": layer for path, layer in parts.items()}

    def call(network, source, begun):
        named = {path.removeprefix("transformer."): layer for path, layer in network.named.items()}
        words = lambda side, tokens: named[f"{side}.word"](tokens) + named[f"{side}.place"](ops.arange(tokens.shape[1]))
        part = lambda name: named[f"{block}.{name}"]
        feed = lambda x, norm: part(norm)(x + part("dense_1")(part("dense")(x)))
        mask = (source > 0)[:, None, :]
        memory, x = words("source", source), words("begun", begun)
        for number in range(2):
            block = f"encoder_block[{number}]"
            attended = part("multi_head_attention")(memory, memory, attention_mask=mask)
            memory = feed(part("layer_normalization")(memory + attended), "layer_normalization_1")
        for number in range(2):
            block = f"decoder_block[{number}]"
            x = part("layer_normalization")(x + part("own")(x, x, use_causal_mask=True))
            x = part("layer_normalization_1")(x + part("other")(x, memory, attention_mask=mask))
            x = feed(x, "layer_normalization_2")
        return named["dense"](x)

    schedule = optimizers.schedules.CosineDecay(0.0, 400, warmup_target=0.002, warmup_steps=40)
    compiled = dict(loss=cross_entropy(ignore_class=0), optimizer=optimizers.Adam(schedule, global_clipnorm=1.0))
    return Family("training/translation", "Translation", [Trained(parts, call, [source, begun], following, compiled)])


@family
def gpt(data):
    tokens, following = (data.add(kind, name, (2, 11), 0, 256, "i32") for kind, name in (("input", "Tokens"), ("target", "Logits")))
    norm = lambda: layers.LayerNormalization(epsilon=1e-5)
    parts = {"token_embedding": Embedding(256, 32), "position_embedding": Embedding(16, 32)}
    for number in range(2):
        attention = {f"attention.{name}": Dense(32) for name in ("query", "key", "value", "output")}
        gelu = lambda x: keras.activations.gelu(x, approximate=True)
        block = {"norm1": norm(), **attention, "norm2": norm(), "linear1": Dense(128, activation=gelu), "linear2": Dense(32)}
        parts |= {f"blocks[{number}].{name}": layer for name, layer in block.items()}
    parts |= {"final_norm": norm(), "head": Dense(256, use_bias=False)}

    def call(network, tokens):
        token, position, *blocks, norm, head = network.named.values()
        x = token(tokens) + position(ops.arange(11))
        for number in range(2):
            norm1, query, key, value, output, norm2, linear1, linear2 = blocks[8 * number : 8 * number + 8]
            seen = norm1(x)
            q, k, v = (ops.transpose(ops.reshape(of(seen), (2, 11, 2, 16)), (0, 2, 1, 3)) for of in (query, key, value))
            scores = q @ ops.transpose(k, (0, 1, 3, 2)) / 4
            probabilities = ops.softmax(ops.where(ops.tril(ops.ones((11, 11), "bool")), scores, -np.inf))
            x = x + output(ops.reshape(ops.transpose(probabilities @ v, (0, 2, 1, 3)), (2, 11, 32)))
            x = x + linear2(linear1(norm2(x)))
        return head(norm(x))

    optimizer = optimizers.AdamW(0.001, weight_decay=0.01, global_clipnorm=1.0)
    compiled = dict(loss=cross_entropy(), optimizer=optimizer)
    small = dict(layers=2, width=32, heads=2, context=16, dropout=0.0)
    return Family("models/gpt", "Gpt", [Trained(parts, call, [tokens], following, compiled)], settings=small)


class MinimalGatedCell(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.state_size = self.output_size = units
        self.gate, self.candidate = Dense(units, activation="sigmoid"), Dense(units, activation="tanh")

    def call(self, x, states):
        before = states[0]
        gate = self.gate(ops.concatenate([x, before], -1))
        new = self.candidate(ops.concatenate([x, gate * before], -1))
        h = (1 - gate) * before + gate * new
        return h, [h]


@family
def own_cell(data):
    x, total = data.input("X", (5, 7, 2), 0, 1), data.target("Sum", (5, 1), 0, 2)
    cell = MinimalGatedCell(8)
    cell.gate.build((5, 10))
    cell.candidate.build((5, 10))
    rnn = layers.RNN(cell)
    parts = {"rnn.cell.gate": cell.gate, "rnn.cell.candidate": cell.candidate, "dense": Dense(1)}

    def call(network, x):
        return network.named["dense"](rnn(x))

    compiled = dict(loss="mse", optimizer=optimizers.Adam(0.005, global_clipnorm=1.0))
    return Family("training/own_cell", "Adder", [Trained(parts, call, [x], total, compiled)], settings=dict(units=8))


class Noam(optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        step = ops.cast(step, keras.config.floatx()) + 1
        return 0.005 * ops.minimum(step / 100, ops.sqrt(100 / step))


@family
def schedules(data):
    image, label = data.input("Image", (4, 28, 28), 0, 255), data.target("Logits", (4,), 0, 10, "i32")
    same = dict(padding="same", activation="relu")
    parts = {"conv2d[0]": Conv2D(16, 3, **same), "conv2d[1]": Conv2D(32, 3, **same), "dense": Dense(10)}

    def call(network, image):
        first, second, dense = network.named.values()
        x = layers.MaxPooling2D(2)(first(ops.expand_dims(image, -1) / 255))
        return dense(ops.reshape(layers.MaxPooling2D(2)(second(x)), (4, -1)))

    optimizer = optimizers.AdamW(Noam(), weight_decay=0.01, use_ema=True, ema_momentum=0.99, global_clipnorm=1.0)
    return Family("training/schedules", "Digits", [Trained(parts, call, [image], label, dict(loss=cross_entropy(), optimizer=optimizer))])


def on_cells(boxes, kinds):
    """Gives each of 8 x 8 cells the last object whose centre it contains."""
    box, kind = np.zeros((len(boxes), 8, 8, 4), boxes.dtype), np.zeros((len(boxes), 8, 8), np.int32)
    for image in range(len(boxes)):
        for b, k in zip(boxes[image], kinds[image]):
            if k > 0:
                row, column = (int(4 * (b[side] + b[side + 2])) for side in (0, 1))
                box[image, row, column], kind[image, row, column] = b, k
    return box, kind


@family
def detection(data):
    image = data.input("Image", (3, 64, 64, 3), 0, 255)
    box, kind = on_cells(data.target("Box", (3, 5, 4), 0, 1), data.target("Kind", (3, 5), 0, 4, "i32"))
    parts = {f"detector.conv2d[{n}]": Conv2D(filters, 3, activation="relu", **HALVES) for n, filters in enumerate((16, 32, 64))}
    parts |= {"detector.conv2d": Conv2D(64, 3, padding="same", activation="relu"), "detector.box": Conv2D(4, 1), "detector.kind": Conv2D(4, 1)}

    def call(network, image):
        *body, box, kind = network.named.values()
        x = image / 255
        for layer in body:
            x = layer(x)
        centre = (ops.arange(8, dtype=x.dtype) + 0.5) / 8
        y, x0 = ops.broadcast_to(centre[:, None], (8, 8)), ops.broadcast_to(centre[None, :], (8, 8))
        return [box(x) + ops.stack([y, x0, y, x0], -1), kind(x)]

    def of_boxes(target, box):
        has_object = ops.max(target, -1) > 0
        return ops.sum(ops.where(has_object, losses.huber(target, box, 0.1), 0), (1, 2))

    def of_kinds(target, logits):
        loss = losses.sparse_categorical_crossentropy(target, logits, from_logits=True)
        return loss * ops.where(target > 0, 10.0, 1.0)

    compiled = dict(loss=[of_boxes, of_kinds], loss_weights=[5.0, 1.0], optimizer="adam")
    return Family("training/detection", "Train", [Trained(parts, call, [image], [box, kind], compiled)])


@family
def unet(data):
    image, mask = data.input("Image", (2, 12, 8, 1), 0, 1), data.target("Logits", (2, 12, 8), 0, 2, "i32")
    conv = lambda filters: Conv2D(filters, 3, padding="same", activation="relu")
    up = lambda filters: layers.Conv2DTranspose(filters, 2, strides=2)
    parts = {}
    for name, filters in (("down1", 16), ("down2", 32), ("bottom", 64), ("up2", 32), ("up1", 16)):
        parts |= {name: up(filters)} if name.startswith("up") else {}
        parts |= {f"{name}_conv{number}": conv(filters) for number in (1, 2)}
    parts["head"] = Conv2D(2, 1)

    def call(network, image):
        named = network.named
        twice = lambda name, x: named[f"{name}_conv2"](named[f"{name}_conv1"](x))
        level1 = twice("down1", image)
        level2 = twice("down2", layers.MaxPooling2D(2)(level1))
        x = twice("bottom", layers.MaxPooling2D(2)(level2))
        x = twice("up2", ops.concatenate([named["up2"](x), level2], -1))
        x = twice("up1", ops.concatenate([named["up1"](x), level1], -1))
        return named["head"](x)

    trained = Trained(parts, call, [image], mask, dict(loss=cross_entropy(), optimizer="adam"), sample_weight=np.where(mask == 1, 5.0, 1.0))
    return Family("models/unet", "UNet", [trained], classes={1: 5.0})


@family
def dcgan(data):
    image = data.input("Image", (4, 28, 28), 0, 255)
    up = lambda filters: layers.Conv2DTranspose(filters, 4, **HALVES)
    parts = {
        "generator.dense": Dense(7 * 7 * 64),
        "generator.conv2d_transpose": up(64),
        "generator.conv2d_transpose_1": up(32),
        "generator.conv2d": Conv2D(1, 5, padding="same", activation="sigmoid"),
        "discriminator.conv2d": Conv2D(32, 4, **HALVES),
        "discriminator.conv2d_1": Conv2D(64, 4, **HALVES),
        "discriminator.dense": Dense(1),
    }
    leaky = lambda x: ops.leaky_relu(x, 0.2)

    def generated(network):
        dense, first, second, last, *_ = network.named.values()
        x = leaky(ops.reshape(dense(numbers(4, 64)), (4, 7, 7, 64)))
        return last(leaky(second(leaky(first(x)))))

    def judged(network, image):
        first, second, dense = list(network.named.values())[4:]
        return dense(ops.reshape(leaky(second(leaky(first(image)))), (4, -1)))

    def discriminate(network, image):
        return [judged(network, ops.expand_dims(image, -1) / 255), judged(network, generated(network))]

    def generate(network, image):
        return judged(network, generated(network))

    of_data = lambda _, logit: ops.softplus(-logit)
    of_generator = lambda _, logit: ops.softplus(logit)
    nothing, adam = np.zeros((4, 1)), lambda: optimizers.Adam(0.0002, beta_1=0.5)
    trained = [
        Trained(
            parts, discriminate, [image], [nothing, nothing], dict(loss=[of_data, of_generator], optimizer=adam()),
            frozen=["generator"], name="Discriminate.loss",
        ),
        Trained(parts, generate, [image], nothing, dict(loss=of_data, optimizer=adam()), frozen=["discriminator"], name="Generate.loss"),
    ]
    definitions = [NO_DROPOUT, numbers_as("random_normal(mean, stddev)")]
    return Family("models/dcgan", "all", trained, definitions)
