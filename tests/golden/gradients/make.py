"""Makes the gradients that the compiler's are compared with, by JAX through Keras: nothing of this project.

pip install numpy jax keras && python3 tests/golden/gradients/make.py

The models, inputs and weights are the cases of golden/layers. What is differentiated is the sum of all outputs that are floats, each
multiplied by `seed`. layers.txt has a line for each case, `FAMILY CASE NAME…`: the inputs and weights that are floats, in order;
layers.npy has the gradients with respect to them, as np.save writes them, one after another. All is computed in float64 and
rounded once. A case whose gradients take more than LARGEST bytes is left out.
"""

import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "layers"))

from cases import Layer, Names, generator, keras, np, run, weight  # noqa: E402
import jax  # noqa: E402

# By family; the names that start so, where there are any, else all.
CASES = {
    "core": "dense_relu dense_of_sequence dense_softmax einsum_dense_heads embedding reshape permute repeat_vector rescaling",
    "convolution": "conv1d_causal_dilated conv2d_same_strided conv2d_same_dilated conv2d_groups conv2d_channels_first "
    "conv3d_same_strided conv1d_transpose_strided conv2d_transpose_same conv2d_transpose_dilated "
    "conv2d_transpose_output_padding depthwise_conv2d_same_strided depthwise_conv2d_multiplied separable_conv2d",
    "pooling": "max_pooling1d_same max_pooling2d max_pooling3d_same average_pooling2d_same global_max_pooling2d "
    "global_average_pooling2d adaptive_average_pooling2d",
    "normalization": "batch_normalization_of_images batch_normalization_training layer_normalization group_normalization_axis "
    "rms_normalization unit_normalization_axes",
    "attention": "multi_head_attention_cross multi_head_attention_causal multi_head_attention_mask group_query_attention_causal "
    "attention_causal additive_attention_key",
    "recurrent": "simple_rnn_backwards_sequences simple_rnn_mask gru_sequences gru_mask gru_reset_before lstm_sequences "
    "lstm_mask_sequences lstm_state lstm_initial_state lstm_no_bias bidirectional_lstm_sequences bidirectional_gru_mask",
    "merging": "",
    "reshaping": "zero_padding2d_sides cropping2d_sides up_sampling",
    "activation": "",
}
# JAX does not see through what the golden values compute with NumPy.
LEFT_OUT = "sparsemax"
LARGEST = 4000


def seed(number, shape):
    """Numbers that f32 holds, all different over a while."""
    return ((np.arange(np.prod(shape, dtype=int)) * 37 + 11 * number) % 64 - 31.5).reshape(shape) / 32


def gradients(family, case, statements, training, inputs):
    names = Names(family.definitions)
    values = {}
    for name, make in inputs.items():
        array = make(generator(family.name, case, name))
        wide = array.astype(np.float64) if array.dtype == np.float32 else array
        names[name] = keras.ops.convert_to_tensor(wide)
        if array.dtype == np.float32:
            values[name] = wide
    run(statements, names)
    layer = names.get("layer")
    variables = {}
    for path, variable in layer.weights().items() if layer else ():
        array = weight(path, layer.get(path).shape, generator(family.name, case, path)).astype(np.float64)
        layer.set(path, array)
        variables[f"layer.{path}"] = variable
        values[f"layer.{path}"] = array
    if layer:
        layer.training = training
    applied = [s for s in statements if not s.startswith("layer =")]

    def total(values):
        inner = Names({**names, **{name: value for name, value in values.items() if name not in variables}})
        mapping = [(variables[name], value) for name, value in values.items() if name in variables]
        with keras.StatelessScope(state_mapping=mapping):
            outputs = [inner[name] for name in run(applied, inner)]
        outputs = [keras.ops.convert_to_tensor(output) for output in outputs]
        floats = [(k, y) for k, y in enumerate(outputs) if "float" in str(y.dtype)]
        return sum((y * seed(k, y.shape)).sum() for k, y in floats)

    found = jax.grad(total)(values) if values else {}
    return {name: np.asarray(found[name], np.float32, order="C") for name in values}


if __name__ == "__main__":
    lines, total = [], 0
    with open(HERE / "layers.npy", "wb") as file:
        for family_name, starts in CASES.items():
            family = importlib.import_module(family_name).family
            for case in family.cases:
                if not case[0].startswith(tuple(starts.split()) or "") or case[0].startswith(LEFT_OUT):
                    continue
                found = gradients(family, *case)
                if not found or sum(array.nbytes for array in found.values()) > LARGEST:
                    continue
                assert all(np.isfinite(array).all() for array in found.values()), (family_name, case[0])
                lines.append(" ".join([family_name, case[0], *found]))
                for array in found.values():
                    np.save(file, array)
            print(family_name, len(lines), flush=True)
    (HERE / "layers.txt").write_text("\n".join(lines) + "\n")
