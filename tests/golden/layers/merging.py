"""Layers of several inputs: a list, as Keras has it."""

from cases import Family, normal

family = Family("merging")


def merge(name, expression, *shapes):
    inputs = dict(zip("ABC", (normal(*shape) for shape in shapes)))
    family.layer(name, expression, f"Y = layer([{', '.join(inputs)}])", **inputs)


for kind in ["Add", "Multiply", "Average", "Maximum", "Minimum"]:
    merge(kind.lower(), f"{kind}()", (2, 3), (2, 3))
    merge(f"{kind.lower()}_three", f"{kind}()", (2, 3, 4), (2, 3, 4), (2, 3, 4))
    merge(f"{kind.lower()}_broadcast", f"{kind}()", (2, 3, 4), (2, 1, 4), (2, 3, 1))
    merge(f"{kind.lower()}_ranks", f"{kind}()", (2, 3, 4), (2, 4), (2, 2, 1, 1))
merge("subtract", "Subtract()", (2, 3), (2, 3))
merge("subtract_ranks", "Subtract()", (2, 4), (2, 3, 2, 4))
merge("subtract_broadcast", "Subtract()", (2, 1, 4), (2, 3, 1))
merge("concatenate", "Concatenate()", (2, 3), (2, 4))
merge("concatenate_axis", "Concatenate(axis = 1)", (2, 3, 4), (2, 1, 4), (2, 5, 4))
merge("concatenate_negative_axis", "Concatenate(axis = -2)", (2, 3, 4), (2, 2, 4))
merge("concatenate_batch", "Concatenate(axis = 0)", (2, 3), (1, 3))
merge("dot", "Dot(axes = 1)", (3, 5), (3, 5))
merge("dot_normalized", "Dot(axes = 1, normalize = true)", (3, 5), (3, 5))
merge("dot_of_sequences", "Dot(axes = 2)", (2, 3, 5), (2, 4, 5))
merge("dot_of_axes", "Dot(axes = [1, 2])", (2, 5, 3), (2, 4, 5))
merge("dot_of_axes_normalized", "Dot([2, 1], true)", (2, 3, 5), (2, 5, 4))
merge("dot_with_vector", "Dot(axes = [2, 1])", (2, 3, 5), (2, 5))
merge("dot_negative_axis", "Dot(axes = -1)", (2, 3, 5), (2, 4, 5))
