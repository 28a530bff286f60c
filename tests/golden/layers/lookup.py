"""Keras' IntegerLookup, which needs TensorFlow, by its definition in keras.src.layers.preprocessing.index_lookup, in NumPy."""

from cases import Layer, keras, np


class IntegerLookup:
    def __init__(
        self,
        max_tokens=None,
        num_oov_indices=1,
        mask_token=None,
        oov_token=-1,
        vocabulary=None,
        idf_weights=None,
        invert=False,
        output_mode="int",
        pad_to_max_tokens=False,
    ):
        self.oov, self.mask, self.invert, self.mode = num_oov_indices, mask_token, invert, output_mode
        self.oov_token = oov_token
        self.oov_start = 1 if mask_token is not None and output_mode == "int" else 0
        start = self.oov_start + num_oov_indices
        special = [mask_token] * self.oov_start + [oov_token] * num_oov_indices
        found = vocabulary[:start] == special
        self.tokens = vocabulary[start:] if found else vocabulary
        self.start = start
        self.depth = max_tokens if pad_to_max_tokens else start + len(self.tokens)
        if idf_weights is not None:
            front = 0 if found else start
            self.idf = np.pad(
                idf_weights,
                (front, self.depth - front - len(idf_weights)),
                constant_values=(np.average(idf_weights) if front else 0, 0),
            )

    def place(self, token):
        if self.invert:
            if token == 0 and self.mask is not None:
                return self.mask
            known = self.start <= token < self.start + len(self.tokens)
            return self.tokens[token - self.start] if known else self.oov_token
        if token == self.mask:
            return 0 if self.mode == "int" else 2**31 - 1
        if token in self.tokens:
            return self.start + self.tokens.index(token)
        return {0: -1, 1: self.oov_start}.get(self.oov, token % max(1, self.oov) + self.oov_start)

    def __call__(self, x):
        x = np.asarray(x)
        places = np.array([self.place(int(token)) for token in x.flatten()], np.int32).reshape(x.shape)
        if self.mode == "int":
            return places
        if self.mode == "one_hot" and places.ndim > 1 and places.shape[-1] == 1:
            places = places[..., 0]
        each = (places[..., None] == np.arange(self.depth)).astype(np.float64)
        if self.mode == "one_hot":
            return each
        if self.mode == "multi_hot":
            return each.max(-2)
        return each.sum(-2) * (self.idf if self.mode == "tf_idf" else 1)


class Lookup(Layer):
    """Without weights."""

    def __call__(self, x):
        return self.layer(x)

    def weights(self):
        return {}


def integer_lookup(*options, **named):
    return Lookup(IntegerLookup(*options, **named))
