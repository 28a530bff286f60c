"""Masks that pass from layer to layer, and to losses and metrics."""

from steps import Family, integers, normal


def tokens(random):
    """Two sequences of five tokens with padding, and two without."""
    made = random.integers(1, 6, (4, 5)).astype("int32")
    made[0, 3:] = 0
    made[1, 1:] = 0
    return made


def words(random):
    """Sequences of five tokens whose embedding is masked."""
    return random.integers(0, 6, (4, 5)).astype("int32")


def padded(random):
    """Sequences of five steps, some of which are zeros."""
    made = random.standard_normal((4, 5, 3)).astype("float32")
    made[0, 3:] = 0
    made[2, :2] = 0
    return made


EMBED = "embed = Embedding(6, 3, mask_zero = true)"
# MultiHeadAttention of Keras takes the mask away from its inputs, so they are tensors of their own.
SELF = "attention(embed(Tokens), embed(Tokens))"
PER_STEP = {"targets": {"Y": integers(3, 4, 5)}}


def families():
    family = Family("masks")

    def case(name, *statements, inputs=None, **options):
        family.case(name, [EMBED, *statements], inputs or {"Tokens": tokens}, **options)

    for kind in ["LSTM", "GRU", "SimpleRNN"]:
        low = kind.lower()
        case(f"{low}_last", f"layer = {kind}(2)", "X = embed(Tokens)", "Y = layer(X)")
        case(f"{low}_all", f"layer = {kind}(2, return_sequences = true)", "X = embed(Tokens)", "Y = layer(X)")
        case(f"rnn_of_{low}_all", f"layer = RNN({kind}Cell(2), return_sequences = true)", "X = embed(Tokens)", "Y = layer(X)")
    case("bidirectional_all", "layer = Bidirectional(GRU(2, return_sequences = true))", "X = embed(Tokens)", "Y = layer(X)")
    case("bidirectional_last", "layer = Bidirectional(LSTM(2), merge_mode = sum)", "X = embed(Tokens)", "Y = layer(X)")
    case("stacked", "first = GRU(2, return_sequences = true)", "second = LSTM(2)", "last = Dense(2)",
         "X = embed(Tokens)", "Z = first(X)", "H = second(Z)", "Y = last(H)")
    case("mean", "pool = GlobalAveragePooling1D()", "X = embed(Tokens)", "Y = pool(X)")
    case("normalized", "norm = BatchNormalization()", "pool = GlobalAveragePooling1D()", "X = embed(Tokens)", "Z = norm(X)", "Y = pool(Z)")
    for norm in ["LayerNormalization()", "UnitNormalization()", "Dropout(0.0)", "Activation(tanh)", "ELU()", "PReLU()", "GroupNormalization(3)", "Rescaling(2.0)"]:
        case(f"kept_by_{norm.split('(')[0].lower()}", f"layer = {norm}", "X = embed(Tokens)", "Y = layer(X)")
    family.case("kept_by_glu", ["embed = Embedding(6, 4, mask_zero = true)", "layer = Activation(glu)", "X = embed(Tokens)", "Y = layer(X)"], {"Tokens": tokens})
    case("lost_by_rmsnormalization", "layer = RMSNormalization()", "X = embed(Tokens)", "Y = layer(X)")
    case("self_attention", "attention = MultiHeadAttention(2, 2)", "add = Add()", "pool = GlobalAveragePooling1D()",
         f"Y = pool(add([embed(Tokens), {SELF}]))")
    case("self_attention_all", "attention = MultiHeadAttention(2, 2)", f"Y = {SELF}")
    case("grouped_attention_all", "attention = GroupQueryAttention(2, 2, 1)", f"Y = {SELF}")
    case("causal_attention", "attention = MultiHeadAttention(2, 2)", f"Y = {SELF[:-1]}, use_causal_mask = true)")
    case("cross_attention", "other = Embedding(6, 3, mask_zero = true)", "attention = MultiHeadAttention(2, 2)",
         "Y = attention(embed(Tokens), other(Words))", inputs={"Tokens": tokens, "Words": words})
    for kind in ["Attention", "AdditiveAttention"]:
        statements = ["other = Embedding(6, 3, mask_zero = true)", f"attention = {kind}()", "pool = GlobalAveragePooling1D()"]
        case(f"{kind.lower()}_mean", *statements, "Y = pool(attention(embed(Tokens), other(Words)))", inputs={"Tokens": tokens, "Words": words})
    for merge in ["Add()", "Multiply()", "Average()", "Maximum()", "Concatenate()", "Concatenate(1)"]:
        name = "".join(letter for letter in merge.lower() if letter.isalnum())
        case(f"merged_{name}", "other = Embedding(6, 3, mask_zero = true)", f"merge = {merge}",
             "X = embed(Tokens)", "Z = other(Words)", "Y = merge([X, Z])", inputs={"Tokens": tokens, "Words": words})
        if "C" in merge:
            case(f"merged_{name}_half", "other = Embedding(6, 3)", f"merge = {merge}",
                 "X = embed(Tokens)", "Z = other(Words)", "Y = merge([X, Z])", inputs={"Tokens": tokens, "Words": words})
    family.case("masking", ["mask = Masking()", "layer = LSTM(2)", "Z = mask(X)", "Y = layer(Z)"], {"X": padded}, shift=False)
    family.case("masking_value", ["mask = Masking(0.0)", "layer = GRU(2, return_sequences = true)", "Z = mask(X)", "Y = layer(Z)"], {"X": padded}, shift=False)
    case("time_distributed", "layer = TimeDistributed(Dense(2))", "X = embed(Tokens)", "Y = layer(X)")

    # Losses and metrics. In a step with JAX, Keras' metrics do not see the mask, as with TensorFlow they do: hence `apart`.
    dense = ["last = Dense(3, softmax)", "Y = last(embed(Tokens))"]
    loss = "SparseCategoricalCrossentropy"
    for reduction in ["sum", "mean", "mean_with_sample_weight"]:
        case(f"loss_{reduction}", *dense, loss=f'{loss}(reduction = "{reduction}")', **PER_STEP)
    case("loss_ignore", *dense, loss=f"{loss}(ignore_class = 1)", **PER_STEP)
    weights = lambda random: random.random(4).astype("float32")
    case("loss_weighted", *dense, loss=f"{loss}()", sample_weight=weights, **PER_STEP)
    steps = lambda random: random.random((4, 5)).astype("float32")
    case("loss_weighted_steps", *dense, loss=f"{loss}()", sample_weight=steps, **PER_STEP)
    case("accuracy", *dense, loss=f"{loss}()", metrics=["SparseCategoricalAccuracy()"], apart=True, **PER_STEP)
    case("error", "last = Dense(2)", "Y = last(embed(Tokens))", metrics=["MeanAbsoluteError()"], apart=True)
    return [family]
