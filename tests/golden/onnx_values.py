#!/usr/bin/env python3
"""Makes the models of tests/golden/onnx/values, whose shapes depend on the values that they are given: NAME.onnx, and two sets of
inputs and outputs, NAME.npz and NAME_2.npz, by onnxruntime.

Between the input and such a value there is a tensor of more than 65,536 elements, which nothing but the device computes.
"""

import os

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnx_models import BOOL, F32, FOLDER, I64, model, node, save, value

RANDOM = np.random.default_rng(11)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def large(name, given):
    """The tensor `name`, summed from 4,096 parts of each element."""
    return [
        node("Unsqueeze", f"{name} last", f"{name}u"),
        node("Mul", f"{name}u tenth", f"{name}e"),
        node("ReduceSum", f"{name}e last", given, keepdims=0),
    ]


LARGE = dict(last=np.array([-1]), tenth=np.full(4096, 1 / 4096, np.float32))


def detections():
    """A detector: boxes and scores by class, those that are kept, and of these [box, class, score, mask coefficients]."""
    nodes = [
        node("Conv", "X K", "C", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Reshape", "C flat", "F"),
        *large("F", "G"),
        node("Split", "G parts", "R S M", axis=1),
        node("Abs", "R", "boxes_t"),
        node("Transpose", "boxes_t", "boxes", perm=[0, 2, 1]),
        node("Sigmoid", "S", "scores"),
        node("NonMaxSuppression", "boxes scores most iou least", "kept", center_point_box=1),
        node("Gather", "kept two", "box", axis=1),
        node("Gather", "kept one", "class", axis=1),
        node("Squeeze", "box axis1", "b"),
        node("Gather", "boxes b", "chosen_b", axis=1),
        node("Squeeze", "chosen_b axis0", "chosen"),
        node("GatherND", "scores kept", "score"),
        node("Transpose", "M", "Mt", perm=[0, 2, 1]),
        node("Gather", "Mt b", "masks_b", axis=1),
        node("Squeeze", "masks_b axis0", "masks"),
        node("Unsqueeze", "score axis1", "score_u"),
        node("Cast", "class", "class_f", to=F32),
        node("Concat", "chosen class_f score_u masks", "Y", axis=1),
        node("ReduceMean", "M", "mean", keepdims=0),
    ]
    weights = dict(
        K=normal(9, 3, 3, 3),
        flat=np.array([0, 9, -1]),
        parts=np.array([4, 3, 2]),
        most=np.int64(10),
        iou=np.float32(0.1),
        least=np.float32(0.75),
        one=np.array([1]),
        two=np.array([2]),
        axis0=np.array([0]),
        axis1=np.array([1]),
        **LARGE,
    )
    outputs = [value("Y", F32, None), value("kept", I64, None), value("mean", F32, None)]
    return model(nodes, [value("X", F32, [1, 3, 12, 12])], outputs, weights), lambda: [normal(1, 3, 12, 12)]


def lengths():
    """What is not 0, different and taken, each of the one before; a count that makes a range, and how much is sliced."""
    nodes = [
        *large("X", "L"),
        node("Round", "L", "R"),
        node("NonZero", "R", "N"),
        node("Transpose", "N", "places"),
        node("GatherND", "R places", "rest"),
        node("Unique", "rest", "U first inverse counts"),
        node("Greater", "U zero", "above"),
        node("Compress", "U above", "Y"),
        node("Compress", "R row", "rows", axis=0),
        node("Unique", "rows", "RU Rfirst Rinverse Rcounts", axis=1, sorted=0),
        node("Shape", "rest", "count"),
        node("Squeeze", "count", "size"),
        node("Range", "zero_i size one_i", "range"),
        node("ArgMax", "Y", "best", axis=0, keepdims=1),
        node("Slice", "X axis0 best axis0", "slice"),
    ]
    weights = dict(
        zero=np.float32(0),
        zero_i=np.int64(0),
        one_i=np.int64(1),
        row=np.array([False, True, True, False]),
        axis0=np.array([0]),
        **LARGE,
    )
    types = dict(Y=F32, rows=F32, RU=F32, slice=F32)
    names = "Y first inverse counts places rows RU Rfirst Rinverse Rcounts range slice".split()
    outputs = [value(name, types.get(name, I64), None) for name in names]
    made = model(nodes, [value("X", F32, [6, 7])], outputs, weights)
    return made, lambda: [normal(6, 7)]


def control_by_values():
    """A loop that turns until a sum is large enough, branches of different sizes, and a function of the file around both."""
    body = helper.make_graph(
        [
            node("Add", "s L", "s_next"),
            node("ReduceSum", "s_next", "total", keepdims=0),
            node("Less", "total most", "on"),
            node("NonZero", "s_next", "p"),
            node("ReduceSum", "p", "stacked", keepdims=0),
        ],
        "body",
        [value("i", I64, []), value("go", BOOL, []), value("s", F32, [20])],
        [value("on", BOOL, []), value("s_next", F32, [20]), value("stacked", I64, [])],
    )
    branch = lambda nodes: helper.make_graph(nodes, "branch", [], [value(nodes[-1].output[0], F32, None)])
    function = helper.make_function(
        "own",
        "Turning",
        ["X", "last", "tenth", "most", "go_on", "two"],
        ["Y", "parts", "Z"],
        [
            node("Abs", "X", "A"),
            *large("A", "L"),
            node("Loop", "none go_on L", "Y parts", body=body),
            node("Shape", "parts", "turns"),
            node("Squeeze", "turns", "turn"),
            node("Greater", "turn two", "is_many"),
            node(
                "If",
                "is_many",
                "Z",
                then_branch=branch([node("Concat", "Y L", "long", axis=0)]),
                else_branch=branch([node("Neg", "Y", "short")]),
            ),
        ],
        [helper.make_opsetid("", 20)],
    )
    function.node[4].input[0] = ""
    call = helper.make_node("Turning", "X last tenth most go_on two".split(), ["Y", "parts", "Z"], domain="own")
    nodes = [call, node("Mul", "Z Z", "square")]
    weights = dict(most=np.float32(37), go_on=np.bool_(True), two=np.int64(2), **LARGE)
    outputs = [value("Y", F32, None), value("parts", I64, None), value("square", F32, None)]
    made = model(nodes, [value("X", F32, [20])], outputs, weights, functions=[function], domains=["own"])
    given = iter([np.linspace(0, 1, 20), np.linspace(0, 5, 20)])
    return made, lambda: [next(given).astype(np.float32)]


def given_sizes():
    """Sizes that are given, and then values that are computed: what is not 0 in a matrix of these sizes."""
    nodes = [
        node("Reshape", "X sizes", "M"),
        *large("M", "L"),
        node("Round", "L", "R"),
        node("NonZero", "R", "N"),
        node("Transpose", "N", "places"),
        node("GatherND", "M places", "rest"),
    ]
    outputs = [value("places", I64, None), value("rest", F32, None), value("R", F32, None)]
    made = model(nodes, [value("X", F32, [24]), value("sizes", I64, [2])], outputs, LARGE)
    sizes = iter([np.array([4, 6]), np.array([8, 3])])
    return made, lambda: [normal(24), next(sizes)]


def small_first():
    """What is not 0 in a small input, then in a large tensor that it selects, and in a large input itself."""
    nodes = [
        node("NonZero", "S", "n"),
        node("Squeeze", "n axis0", "rows"),
        node("Mul", "X two", "X2"),
        node("Gather", "X2 rows", "some"),
        node("NonZero", "some", "places"),
        node("Gather", "X2 rows", "again"),
        node("ReduceSum", "again", "sum"),
        node("Add", "rows one", "next"),
        node("NonZero", "X", "direct"),
        node("ReduceSum", "direct", "total"),
    ]
    weights = dict(axis0=np.array([0]), two=np.float32(2), one=np.int64(1))
    outputs = [value("places", I64, None), value("sum", F32, None), value("next", I64, None), value("total", I64, None)]
    made = model(nodes, [value("S", I64, [5]), value("X", F32, [6, 11000])], outputs, weights)
    draw = lambda: np.where(RANDOM.random((6, 11000)) < 0.001, normal(6, 11000), 0).astype(np.float32)
    return made, lambda: [RANDOM.integers(0, 2, 5), draw()]


def branches_with_weights():
    """Branches of equal shapes, each with its own weight and constant of the same names."""
    def branch(factor):
        weight = numpy_helper.from_array(np.full((20, 20), factor, np.float32), "W")
        constant = numpy_helper.from_array(np.arange(20, dtype=np.float32) * abs(factor), "c")
        nodes = [node("MatMul", "R W", "m"), helper.make_node("Constant", [], ["c"], value=constant), node("Add", "m c", "taken")]
        return helper.make_graph(nodes, "branch", [], [value("taken", F32, None)], [weight])

    nodes = [
        *large("X", "L"),
        node("NonZero", "L", "N"),
        node("ReduceSum", "L", "sum", keepdims=0),
        node("Greater", "sum zero", "is_positive"),
        node("Reshape", "L row", "R"),
        node("If", "is_positive", "Y", then_branch=branch(0.5), else_branch=branch(-2.0)),
    ]
    outputs = [value("Y", F32, None), value("N", I64, None)]
    made = model(nodes, [value("X", F32, [20])], outputs, dict(zero=np.float32(0), row=np.array([1, 20]), **LARGE))
    given = iter([np.linspace(-1, 3, 20), np.linspace(-3, 1, 20)])
    return made, lambda: [next(given).astype(np.float32)]


def main():
    folder = os.path.join(FOLDER, "values")
    os.makedirs(folder, exist_ok=True)
    for make in [detections, lengths, control_by_values, given_sizes, small_first, branches_with_weights]:
        graph, draw = make()
        session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
        path = os.path.join(folder, make.__name__)
        onnx.save(graph, path + ".onnx")
        for end in ["", "_2"]:
            given = dict(zip([given.name for given in graph.graph.input], draw()))
            known = dict(zip([output.name for output in graph.graph.output], session.run(None, given)))
            save(path + end, given, known)
            print(make.__name__, {name: list(array.shape) for name, array in known.items()})


main()
