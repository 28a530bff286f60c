"""Recurrent layers. `Mask` is true where a step counts; `InitialState` is a list, as Keras' initial_state is."""

from cases import Family, flags, normal, np

family = Family("recurrent")
layer = family.layer
x = normal(2, 6, 4)


def padded_before(random):
    """The first steps are not there, and one between."""
    return np.array([[0, 0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0]], bool)


def common(kind, name, states):
    layer(name, f"{kind}(5)", X=x)
    layer(f"{name}_sequences", f"{kind}(5, return_sequences = true)", X=x)
    layer(f"{name}_backwards", f"{kind}(5, go_backwards = true)", X=x)
    layer(f"{name}_backwards_sequences", f"{kind}(3, return_sequences = true, go_backwards = true)", X=x)
    layer(f"{name}_no_bias", f"{kind}(5, use_bias = false, return_sequences = true)", X=x)
    layer(f"{name}_relu", f"{kind}(3, activation = relu, return_sequences = true)", X=x)
    layer(f"{name}_one_step", f"{kind}(5)", X=normal(3, 1, 4))
    layer(f"{name}_long", f"{kind}(7, return_sequences = true)", X=normal(2, 41, 3, scale=0.5))
    layer(f"{name}_dropouts", f"{kind}(5, dropout = 0.5, recurrent_dropout = 0.5)", X=x)
    with_mask = "Y = layer(X, Mask = Mask)"
    layer(f"{name}_mask", f"{kind}(5)", with_mask, X=x, Mask=flags(2, 6))
    layer(f"{name}_mask_sequences", f"{kind}(5, return_sequences = true)", with_mask, X=x, Mask=padded_before)
    layer(
        f"{name}_mask_backwards",
        f"{kind}(5, return_sequences = true, go_backwards = true)",
        with_mask,
        X=x,
        Mask=padded_before,
    )
    layer(f"{name}_state", f"{kind}(5, return_state = true)", f"Y, {', '.join(states)} = layer(X)", X=x)
    layer(
        f"{name}_state_sequences",
        f"{kind}(5, return_sequences = true, return_state = true)",
        f"Y, {', '.join(states)} = layer(X, Mask = Mask)",
        X=x,
        Mask=flags(2, 6),
    )
    initial = {state: normal(2, 5) for state in states}
    layer(f"{name}_initial_state", f"{kind}(5)", f"Y = layer(X, InitialState = [{', '.join(states)}])", X=x, **initial)


common("SimpleRNN", "simple_rnn", "H")
common("GRU", "gru", "H")
common("LSTM", "lstm", "HC")
layer("simple_rnn_positional", "SimpleRNN(3, sigmoid, false)", X=x)
layer("gru_reset_before", "GRU(5, reset_after = false)", X=x)
layer("gru_reset_before_sequences", "GRU(5, reset_after = false, return_sequences = true, use_bias = false)", X=x)
layer("gru_recurrent_activation", "GRU(3, recurrent_activation = hard_sigmoid)", X=x)
layer("lstm_recurrent_activation", "LSTM(3, tanh, hard_sigmoid)", X=x)
layer("lstm_unit_forget_bias", "LSTM(3, unit_forget_bias = false)", X=x)

for kind, name in [("SimpleRNN", "simple_rnn"), ("GRU", "gru"), ("LSTM", "lstm")]:
    layer(f"bidirectional_{name}", f"Bidirectional({kind}(3))", X=x)
    layer(f"bidirectional_{name}_sequences", f"Bidirectional({kind}(3, return_sequences = true))", X=x)
    layer(
        f"bidirectional_{name}_mask",
        f"Bidirectional({kind}(3, return_sequences = true))",
        "Y = layer(X, Mask = Mask)",
        X=x,
        Mask=padded_before,
    )
for mode in ["concat", "sum", "mul", "ave"]:
    layer(f"bidirectional_{mode}", f"Bidirectional(LSTM(3), merge_mode = {mode})", X=x)
    layer(f"bidirectional_{mode}_sequences", f"Bidirectional(GRU(3, return_sequences = true), {mode})", X=x)
layer("bidirectional_none", "Bidirectional(LSTM(3), merge_mode = none)", "Y, Z = layer(X)", X=x)
layer("bidirectional_none_sequences", "Bidirectional(LSTM(3, return_sequences = true), none)", "Y, Z = layer(X)", X=x)
layer("bidirectional_state", "Bidirectional(GRU(3, return_state = true))", "Y, F, B = layer(X)", X=x)
layer(
    "bidirectional_initial_state",
    "Bidirectional(LSTM(3))",
    "Y = layer(X, InitialState = [H, C, G, D])",
    X=x,
    **{name: normal(2, 3) for name in "HCGD"},
)
layer(
    "bidirectional_backward_layer",
    "Bidirectional(LSTM(3, return_sequences = true), backward_layer = GRU(4, return_sequences = true, go_backwards = true))",
    X=x,
)
