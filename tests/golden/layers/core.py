"""Dense and its like, embeddings, and what only moves elements or lets them through."""

from cases import Family, integers, normal, np

family = Family("core")
layer = family.layer

layer("dense", "Dense(5)", X=normal(3, 7))
layer("dense_relu", "Dense(5, activation = relu)", X=normal(3, 7))
layer("dense_no_bias", "Dense(5, use_bias = false)", X=normal(3, 7))
layer("dense_of_sequence", "Dense(4, tanh)", X=normal(2, 5, 3))
layer("dense_of_images", "Dense(units = 1, activation = sigmoid)", X=normal(2, 3, 4, 5))
layer("dense_softmax", "Dense(9, activation = softmax)", X=normal(4, 6))
layer("dense_activation_with_parameter", "Dense(5, activation = leaky_relu(negative_slope = 0.1))", X=normal(3, 7))
layer("dense_large", "Dense(67, activation = gelu)", X=normal(33, 129, scale=0.3))

layer("einsum_dense", 'EinsumDense("ab,bc->ac", output_shape = 5, bias_axes = "c")', X=normal(3, 7))
layer(
    "einsum_dense_sequence", 'EinsumDense("abc,cd->abd", output_shape = [none, 5], bias_axes = "d")', X=normal(2, 4, 3)
)
layer(
    "einsum_dense_heads",
    'EinsumDense("abc,cde->abde", output_shape = [none, 2, 5], bias_axes = "de", activation = relu)',
    X=normal(2, 4, 3),
)
layer(
    "einsum_dense_joined",
    'EinsumDense("abcd,cde->abe", output_shape = [none, 3], bias_axes = "e")',
    X=normal(2, 4, 3, 5),
)
layer("einsum_dense_no_bias", 'EinsumDense("abc,bd->acd", output_shape = [3, 6])', X=normal(2, 4, 3))
layer("einsum_dense_ellipsis", 'EinsumDense("...x,xy->...y", output_shape = 5, bias_axes = "y")', X=normal(2, 4, 3))

layer("embedding", "Embedding(11, 5)", Tokens=integers(11, 2, 7))
layer("embedding_of_vector", "Embedding(input_dim = 11, output_dim = 3)", Tokens=integers(11, 6))
layer("embedding_of_bytes", "Embedding(256, 3)", Tokens=integers(256, 4, 5, dtype=np.uint8))
layer("embedding_mask_zero", "Embedding(5, 4, mask_zero = true)", Tokens=integers(5, 2, 3, 4))

layer("flatten", "Flatten()", X=normal(2, 3, 4, 5))
layer("flatten_matrix", "Flatten()", X=normal(3, 4))
layer("flatten_vector", "Flatten()", X=normal(5))
layer("flatten_channels_first", "Flatten(data_format = channels_first)", X=normal(2, 3, 4, 5))
layer("reshape", "Reshape([4, 3])", X=normal(2, 12))
layer("reshape_inferred", "Reshape([-1, 2, 3])", X=normal(2, 4, 9))
layer("reshape_to_vector", "Reshape([-1])", X=normal(2, 4, 3))
layer("permute", "Permute([2, 1])", X=normal(2, 3, 4))
layer("permute_three", "Permute([3, 1, 2])", X=normal(2, 3, 4, 5))
layer("repeat_vector", "RepeatVector(3)", X=normal(2, 5))

layer("activation", "Activation(relu)", X=normal(3, 5))
layer("activation_softmax", "Activation(softmax)", X=normal(3, 5))
layer("activation_with_parameter", "Activation(elu(alpha = 0.5))", X=normal(3, 5))
layer("identity", "Identity()", X=normal(3, 5))


def with_zero_steps(random):
    x = random.standard_normal((3, 5, 4)).astype(np.float32)
    x[0, 2], x[1, 4], x[2, :2], x[0, 0, 1] = 0, 0, 0, 0
    return x


layer("masking", "Masking()", X=with_zero_steps)
layer("masking_value", "Masking(mask_value = 2.0)", X=lambda random: with_zero_steps(random) + 2)
layer("rescaling", "Rescaling(0.25, offset = -1.0)", X=normal(2, 3, 5))
layer("rescaling_of_bytes", "Rescaling(1.0 / 127.5, offset = -1.0)", X=integers(256, 2, 5, 7, 3, dtype=np.uint8))
layer("rescaling_by_channel", "Rescaling([0.5, 2.0, 4.0], offset = [1.0, 0.0, -1.0])", X=normal(2, 5, 3))
