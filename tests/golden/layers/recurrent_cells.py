"""Cells by themselves, and scanned with by RNN."""

from cases import Family, flags, normal
from recurrent import padded_before

family = Family("recurrent_cells")
layer = family.layer
x, sequence = normal(3, 4), normal(2, 6, 4)

for kind, name, states in [("SimpleRNN", "simple_rnn", "H"), ("GRU", "gru", "H"), ("LSTM", "lstm", "HC")]:
    initial = {state: normal(3, 5) for state in states}
    call = f"Y, States = layer(X, [{', '.join(states)}])"
    statements = [call] + ["G, D = States"] * (len(states) - 1)

    def cell(name, expression):
        family.body(name, [f"layer = {expression}"] + statements, X=x, **initial)

    cell(f"{name}_cell", f"{kind}Cell(5)")
    cell(f"{name}_cell_no_bias", f"{kind}Cell(5, use_bias = false)")
    cell(f"{name}_cell_relu", f"{kind}Cell(5, activation = relu)")
    cell(f"{name}_cell_dropouts", f"{kind}Cell(5, dropout = 0.5, recurrent_dropout = 0.5)")
    layer(f"rnn_{name}", f"RNN({kind}Cell(5))", X=sequence)
    layer(f"rnn_{name}_sequences", f"RNN({kind}Cell(5), return_sequences = true)", X=sequence)
    layer(f"rnn_{name}_backwards", f"RNN({kind}Cell(5), return_sequences = true, go_backwards = true)", X=sequence)
    layer(
        f"rnn_{name}_mask",
        f"RNN({kind}Cell(5), return_sequences = true)",
        "Y = layer(X, Mask = Mask)",
        X=sequence,
        Mask=padded_before,
    )
    layer(
        f"rnn_{name}_mask_zeros",
        f"RNN({kind}Cell(5), return_sequences = true, zero_output_for_mask = true)",
        "Y = layer(X, Mask = Mask)",
        X=sequence,
        Mask=flags(2, 6),
    )
    layer(
        f"rnn_{name}_state",
        f"RNN({kind}Cell(5), return_state = true)",
        f"Y, {', '.join('GD'[: len(states)])} = layer(X, InitialState = [{', '.join(states)}])",
        X=sequence,
        **{state: normal(2, 5) for state in states},
    )
layer("gru_cell_reset_before", "GRUCell(5, reset_after = false)", "Y, States = layer(X, [H])", X=x, H=normal(3, 5))
family.body(
    "lstm_cell_hard",
    [
        "layer = LSTMCell(3, tanh, hard_sigmoid, unit_forget_bias = false)",
        "Y, States = layer(X, [H, C])",
        "G, D = States",
    ],
    X=x,
    H=normal(3, 3),
    C=normal(3, 3),
)
family.body(
    "stacked_cells",
    [
        "layer = StackedRNNCells([LSTMCell(5), LSTMCell(3)])",
        "Y, States = layer(X, [[H, C], [G, D]])",
        "First, Second = States",
        "I, J = First",
        "K, L = Second",
    ],
    X=x,
    H=normal(3, 5),
    C=normal(3, 5),
    G=normal(3, 3),
    D=normal(3, 3),
)
layer("rnn_stacked", "RNN(StackedRNNCells([GRUCell(5), SimpleRNNCell(3)]), return_sequences = true)", X=sequence)
layer("rnn_list", "RNN([LSTMCell(5), GRUCell(3)])", X=sequence)
layer("rnn_list_mask", "RNN([GRUCell(5), LSTMCell(3)])", "Y = layer(X, Mask = Mask)", X=sequence, Mask=padded_before)
family.body(
    "rnn_list_state",
    [
        "layer = RNN([LSTMCell(5), LSTMCell(3)], return_state = true)",
        "Y, First, Second = layer(X)",
        "H, C = First",
        "G, D = Second",
    ],
    X=sequence,
)
layer("bidirectional_rnn", "Bidirectional(RNN(GRUCell(3), return_sequences = true))", X=sequence)
layer(
    "bidirectional_rnn_mask",
    "Bidirectional(RNN(LSTMCell(3), return_sequences = true))",
    "Y = layer(X, Mask = Mask)",
    X=sequence,
    Mask=padded_before,
)
