"""A step of training for each case of golden/layers that has a gradient, by its model and sizes."""

import importlib
import re

from steps import Family

FAMILIES = """core convolution pooling normalization regularization attention recurrent recurrent_cells conv_lstm merging
reshaping activation activation_layers more preprocessing""".split()
# These are random in training; `regularization.py` here has what is not.
RANDOM = re.compile(r"ropout(s|[123]D)?( = |\(|\(rate = )0\.[1-9]|GaussianNoise|noise_shape")
# One output for the whole batch, or a batch of another size; and see exceptions.txt.
LEFT_OUT = {"concatenate_batch", "flatten_vector", "multi_head_attention_mask_of_all"}
LEFT_OUT |= {"l1", "l2", "l1_l2", "orthogonal_regularizer", "orthogonal_regularizer_columns"}
# No larger inputs, in elements: the goldens are to be small.
MOST = 300
# Gradients that have gone through exponentials are less exact than weights are to be.
RATES = {"attention": "SGD(lr = 0.25)"}


def families():
    for name in FAMILIES:
        source = importlib.import_module(name).family
        family = Family(f"layers_{name}")
        for case, statements, _, inputs in source.cases:
            if any(RANDOM.search(statement) for statement in statements) or case in LEFT_OUT or re.match("sparsemax|discretization", case) or "long" in case.split("_"):
                continue
            family.case(case, statements, inputs, definitions=source.definitions, most=MOST, optimizer=RATES.get(name, "SGD(lr = 1.0)"))
        yield family
