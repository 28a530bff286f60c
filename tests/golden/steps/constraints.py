"""Constraints: what weights become after the step of the optimizer."""

from steps import Family, integers, normal

KERNEL = "kernel_constraint = max_norm(0.5)"
BIAS = "bias_constraint = non_neg()"
RECURRENT = f"{KERNEL}, recurrent_constraint = unit_norm(), {BIAS}"
NORMAL = f"beta_constraint = non_neg(), gamma_constraint = max_norm(0.5)"


def families():
    family = Family("constraints")

    def layer(name, expression, call=None, **inputs):
        call = call or f"Y = layer({', '.join(inputs)})"
        family.case(name, [f"layer = {expression}", call], inputs)

    x, sequence = normal(4, 5), normal(2, 3, 4)
    for number, constraint in enumerate(
        [
            "max_norm()",
            "max_norm",
            "max_norm(max_value = 0.5, axis = 1)",
            "max_norm(0.7, axis = [0, 1])",
            "non_neg()",
            "non_neg",
            "unit_norm()",
            "unit_norm(axis = 1)",
            "min_max_norm()",
            "min_max_norm(min_value = 0.5, max_value = 0.9)",
            "min_max_norm(0.5, 0.9, rate = 0.3, axis = 1)",
        ]
    ):
        layer(f"dense_{number}", f"Dense(3, kernel_constraint = {constraint})", X=x)
    layer("dense", f"Dense(3, {KERNEL}, {BIAS})", X=x)
    layer("einsum_dense", f'EinsumDense("ab,bc->ac", 3, bias_axes = "c", {KERNEL}, {BIAS})', X=x)
    layer("embedding", "Embedding(5, 3, embeddings_constraint = unit_norm(axis = 1))", Tokens=integers(5, 2, 4))
    layer("reversible", "ReversibleEmbedding(5, 3, embeddings_constraint = max_norm(0.5))", Tokens=integers(5, 2, 4))
    for rank, sizes in [(1, [5]), (2, [3, 4]), (3, [3, 2, 3])]:
        x = normal(2, *sizes, 2)
        for suffix in ["", "Transpose"]:
            layer(f"conv{rank}d{suffix.lower()}", f"Conv{rank}D{suffix}(2, 2, {KERNEL}, {BIAS})", X=x)
        if rank < 3:
            depthwise = f"depthwise_constraint = max_norm(0.4, axis = 1), {BIAS}"
            layer(f"depthwise_conv{rank}d", f"DepthwiseConv{rank}D(2, {depthwise})", X=x)
            separable = f"SeparableConv{rank}D(3, 2, {depthwise}, pointwise_constraint = unit_norm())"
            layer(f"separable_conv{rank}d", separable, X=x)
        layer(f"conv_lstm{rank}d", f"ConvLSTM{rank}D(2, 2, {RECURRENT})", X=normal(2, 2, *sizes, 1))
    x = normal(4, 5, mean=1.0)
    for expression in ["BatchNormalization(", "LayerNormalization(", "GroupNormalization(1, "]:
        layer(expression.split("(")[0].lower(), f"{expression}{NORMAL})", X=x)
    layer("p_relu", "PReLU(alpha_constraint = non_neg())", X=x)
    layer("multi_head_attention", f"MultiHeadAttention(2, 3, {KERNEL}, {BIAS})", "Y = layer(X, X)", X=sequence)
    layer("group_query_attention", f"GroupQueryAttention(3, 2, 1, {KERNEL}, {BIAS})", "Y = layer(X, X)", X=sequence)
    for kind in ["SimpleRNN", "GRU", "LSTM"]:
        layer(kind.lower(), f"{kind}(3, {RECURRENT})", X=sequence)
        layer(f"rnn_of_{kind.lower()}", f"RNN({kind}Cell(3, {RECURRENT}))", X=sequence)
    yield family
