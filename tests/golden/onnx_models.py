#!/usr/bin/env python3
"""Makes the models of tests/golden/onnx with what they give: NAME.onnx, and NAME.npz with its inputs and outputs by name.

Needs onnx, ml_dtypes and onnxruntime. What onnxruntime has not, the package's reference implementation computes.
"""

import os

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx")
RANDOM = np.random.default_rng(7)
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def normal(*shape, dtype=np.float32):
    return (RANDOM.standard_normal(shape) * 0.5).astype(dtype)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs, **attributes):
    """`?` is an input that is left out."""
    inputs = [name.replace("?", "") for name in inputs.split()]
    return helper.make_node(op, inputs, outputs.split(), name=f"{op}_{outputs.split()[0]}", **attributes)


def model(nodes, inputs, outputs, weights=None, opset=20, **rest):
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "golden", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in rest.pop("domains", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **rest)


def convolutions():
    """A network as exporters write it: convolution, normalization, pooling, a flattened product; the batch has a name."""
    nodes = [
        node("Conv", "X K B", "C", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", "C scale shift mean var", "N", epsilon=1e-5),
        node("Relu", "N", "R"),
        node("Conv", "R D", "E", group=6, pads=[1, 1, 1, 1]),
        node("Clip", "E low high", "L"),
        node("MaxPool", "L", "P", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("GlobalAveragePool", "P", "G"),
        node("Flatten", "G", "F"),
        node("Gemm", "F W V", "Y", transB=1, alpha=0.5),
    ]
    weights = dict(
        K=normal(6, 3, 3, 3),
        B=normal(6),
        scale=normal(6),
        shift=normal(6),
        mean=normal(6),
        var=np.abs(normal(6)) + 0.5,
        D=normal(6, 1, 3, 3),
        low=np.float32(0),
        high=np.float32(6),
        W=normal(5, 6),
        V=normal(5),
    )
    made = model(nodes, [value("X", F32, ["batch", 3, 9, 11])], [value("Y", F32, ["batch", 5])], weights, opset=13)
    return made, [normal(2, 3, 9, 11)]


def shape_arithmetic():
    """A reshape to sizes that the model computes, as exporters write a view."""
    nodes = [
        node("Shape", "X", "S"),
        node("Gather", "S zero", "N", axis=0),
        node("Unsqueeze", "N axes", "U"),
        node("Concat", "U rest", "T", axis=0),
        node("Reshape", "X T", "R"),
        node("Transpose", "R", "Y", perm=[0, 2, 1]),
    ]
    weights = dict(zero=np.int64(0), axes=np.array([0]), rest=np.array([2, -1]))
    made = model(nodes, [value("X", F32, ["n", "c", "t"])], [value("Y", F32, None)], weights)
    return made, [normal(3, 4, 6)]


def shape_input():
    """A shape that is an input."""
    made = model(
        [node("Expand", "X shape", "Y")], [value("X", F32, [3, 1]), value("shape", I64, [3])], [value("Y", F32, None)]
    )
    return made, [normal(3, 1), np.array([2, 1, 6])]


def attention():
    """Scores, a mask and a softmax between two products."""
    nodes = [
        node("MatMul", "X Q", "q"),
        node("MatMul", "X K", "k"),
        node("MatMul", "X V", "v"),
        node("Transpose", "k", "kt", perm=[0, 2, 1]),
        node("MatMul", "q kt", "s"),
        node("Div", "s root", "d"),
        node("Where", "mask d least", "m"),
        node("Softmax", "m", "p", axis=-1),
        node("MatMul", "p v", "a"),
        node("Add", "a X", "r"),
        node("LayerNormalization", "r gamma beta", "Y", axis=-1),
    ]
    weights = dict(
        Q=normal(8, 8),
        K=normal(8, 8),
        V=normal(8, 8),
        root=np.float32(8**0.5),
        mask=np.tril(np.ones((5, 5), bool)),
        least=np.float32(-1e9),
        gamma=normal(8),
        beta=normal(8),
    )
    made = model(nodes, [value("X", F32, [2, 5, 8])], [value("Y", F32, [2, 5, 8])], weights)
    return made, [normal(2, 5, 8)]


def recurrent():
    """An LSTM both ways, with a state to begin with, and a GRU on what it gives."""
    nodes = [
        node("LSTM", "X W R B none h c", "Z H C", hidden_size=4, direction="bidirectional"),
        node("Transpose", "Z", "T", perm=[0, 2, 1, 3]),
        node("Reshape", "T sizes", "S"),
        node("GRU", "S GW GR GB", "G L", hidden_size=3, linear_before_reset=1),
    ]
    nodes[0].input[4] = ""
    weights = dict(
        W=normal(2, 16, 5),
        R=normal(2, 16, 4),
        B=normal(2, 32),
        h=normal(2, 3, 4),
        c=normal(2, 3, 4),
        sizes=np.array([0, 0, 8]),
        GW=normal(1, 9, 8),
        GR=normal(1, 9, 3),
        GB=normal(1, 18),
    )
    outputs = [value("G", F32, None), value("L", F32, None), value("C", F32, None)]
    return model(nodes, [value("X", F32, [7, 3, 5])], outputs, weights), [normal(7, 3, 5)]


def quantized():
    """Quantised and back around a product, and one of integers with scales of its own."""
    nodes = [
        node("QuantizeLinear", "X xs xz", "Q"),
        node("DequantizeLinear", "Q xs xz", "D"),
        node("DequantizeLinear", "W ws wz", "V", axis=1),
        node("MatMul", "D V", "M"),
        node("DynamicQuantizeLinear", "M", "dq ds dz"),
        node("MatMulInteger", "dq I dz iz", "P"),
        node("Cast", "P", "F", to=F32),
        node("Mul", "F ds", "Y"),
        node("QLinearMatMul", "Q xs xz I is iz ys yz", "Z"),
    ]
    weights = dict(
        xs=np.float32(0.02),
        xz=np.uint8(120),
        W=RANDOM.integers(-100, 100, (6, 4)).astype(np.int8),
        ws=(np.abs(normal(4)) * 0.1 + 0.01),
        wz=np.zeros(4, np.int8),
        I=RANDOM.integers(-100, 100, (6, 4)).astype(np.int8),
        iz=np.int8(3),
        ys=np.float32(0.5),
        yz=np.uint8(128),
    )
    weights["is"] = np.float32(0.03)
    weights["W"] = weights["W"][:, :4]
    nodes[5] = node("MatMulInteger", "dq J dz iz", "P")
    weights["J"] = RANDOM.integers(-100, 100, (4, 3)).astype(np.int8)
    outputs = [value("Y", F32, None), value("Z", TensorProto.UINT8, None)]
    return model(nodes, [value("X", F32, [5, 6])], outputs, weights), [normal(5, 6)]


def control():
    """A branch with a constant condition, one that is decided at run time, a loop and a scan."""
    branch = lambda op, of: helper.make_graph(
        [node(op, of, f"{op}_result")], op, [], [value(f"{op}_result", F32, None)]
    )
    body = helper.make_graph(
        [node("Add", "carried X", "next"), node("Mul", "next next", "square"), node("Identity", "goes_on", "still")],
        "body",
        [value("turn", I64, []), value("goes_on", BOOL, []), value("carried", F32, [2, 3])],
        [value("still", BOOL, []), value("next", F32, [2, 3]), value("square", F32, [2, 3])],
    )
    step = helper.make_graph(
        [node("Add", "sum row", "total"), node("Identity", "total", "kept")],
        "step",
        [value("sum", F32, [3]), value("row", F32, [3])],
        [value("total", F32, [3]), value("kept", F32, [3])],
    )
    nodes = [
        node("If", "yes", "A", then_branch=branch("Relu", "X"), else_branch=branch("Neg", "X")),
        node("ReduceSum", "X", "all", keepdims=0),
        node("Greater", "all zero", "positive"),
        node("If", "positive", "B", then_branch=branch("Exp", "X"), else_branch=branch("Abs", "X")),
        node("Loop", "four yes X", "C D", body=body),
        node("Scan", "start X", "E F", body=step, num_scan_inputs=1, scan_input_directions=[1]),
    ]
    weights = dict(yes=np.bool_(True), zero=np.float32(0), four=np.int64(4), start=normal(3))
    outputs = [value(name, F32, None) for name in "ABCDEF"]
    return model(nodes, [value("X", F32, [2, 3])], outputs, weights), [normal(2, 3)]


def functions():
    """Functions of the file, with an attribute that a call gives and one that it leaves out, and one within another."""
    scaled = helper.make_function(
        "own",
        "Scaled",
        ["x"],
        ["y"],
        [helper.make_node("Constant", [], ["c"]), helper.make_node("Mul", ["x", "c"], ["y"])],
        [helper.make_opsetid("", 20)],
        ["by"],
    )
    reference = scaled.node[0].attribute.add()
    reference.name, reference.type, reference.ref_attr_name = "value_float", onnx.AttributeProto.FLOAT, "by"
    twice = helper.make_function(
        "own",
        "Twice",
        ["x"],
        ["z"],
        [helper.make_node("Scaled", ["x"], ["y"], domain="own", by=3.0), helper.make_node("Relu", ["y"], ["z"])],
        [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)],
    )
    nodes = [
        helper.make_node("Twice", ["X"], ["A"], domain="own"),
        helper.make_node("Scaled", ["A"], ["Y"], domain="own", by=0.25),
    ]
    made = model(nodes, [value("X", F32, [4])], [value("Y", F32, [4])], domains=["own"], functions=[scaled, twice])
    return made, [normal(4)]


def sequences():
    """Tensors in lists."""
    nodes = [
        node("SplitToSequence", "X sizes", "S", axis=1),
        node("SequenceAt", "S one", "A"),
        node("SequenceInsert", "S A", "T"),
        node("SequenceLength", "T", "N"),
        node("ConcatFromSequence", "T", "Y", axis=1),
    ]
    weights = dict(sizes=np.array([2, 1, 3]), one=np.int64(-1))
    made = model(nodes, [value("X", F32, [2, 6])], [value("Y", F32, None), value("N", I64, [])], weights)
    return made, [normal(2, 6)]


def resized():
    """Up by numbers that are constants, down to sizes, and padded as mirrors do."""
    nodes = [
        node("Resize", "X none scales", "U", mode="linear", coordinate_transformation_mode="half_pixel"),
        node(
            "Resize",
            "U none none sizes",
            "D",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Pad", "D pads", "Y", mode="reflect"),
    ]
    nodes[0].input[1] = nodes[1].input[1] = nodes[1].input[2] = ""
    weights = dict(
        scales=np.array([1, 1, 2, 1.5], np.float32),
        sizes=np.array([1, 2, 5, 4]),
        pads=np.array([0, 0, 1, 2, 0, 0, 0, 1]),
    )
    return model(nodes, [value("X", F32, [1, 2, 4, 6])], [value("Y", F32, None)], weights), [normal(1, 2, 4, 6)]


def tokens():
    """An embedding by numbers of tokens, positions that the model makes, and an index of the best."""
    nodes = [
        node("Gather", "E T", "W", axis=0),
        node("Shape", "T", "S"),
        node("Gather", "S one", "L", axis=0),
        node("Range", "zero L one", "P"),
        node("Gather", "D P", "V", axis=0),
        node("Add", "W V", "A"),
        node("ReduceMean", "A axes", "M", keepdims=1),
        node("ArgMax", "A", "Y", axis=-1, keepdims=0),
        node("TopK", "A two", "K I", axis=-1),
        node("CumSum", "A one", "C"),
    ]
    weights = dict(
        E=normal(11, 6), one=np.int64(1), zero=np.int64(0), D=normal(20, 6), axes=np.array([-1]), two=np.array([2])
    )
    outputs = [
        value("M", F32, None),
        value("Y", I64, None),
        value("K", F32, None),
        value("I", I64, None),
        value("C", F32, None),
    ]
    return model(nodes, [value("T", I64, ["batch", "time"])], outputs, weights), [RANDOM.integers(0, 11, (2, 5))]


def halves():
    """Weights of 16 bits."""
    nodes = [node("Cast", "X", "H", to=TensorProto.FLOAT16), node("MatMul", "H W", "M"), node("Cast", "M", "Y", to=F32)]
    made = model(nodes, [value("X", F32, [3, 4])], [value("Y", F32, [3, 5])], dict(W=normal(4, 5, dtype=np.float16)))
    return made, [normal(3, 4)]


def opset_6():
    """Broadcasting as it was."""
    nodes = [node("Add", "X B", "A", broadcast=1, axis=1), node("Mul", "A A", "M"), node("PRelu", "M S", "Y")]
    made = model(
        nodes, [value("X", F32, [2, 3, 4])], [value("Y", F32, [2, 3, 4])], dict(B=normal(3), S=normal(3)), opset=6
    )
    x = normal(2, 3, 4)
    weights = {w.name: numpy_helper.to_array(w) for w in made.graph.initializer}
    a = x + weights["B"][:, None]
    return made, [x], [np.where(a * a < 0, weights["S"][:, None], 1) * a * a]


def odd_names():
    """Names that are none in Tile."""
    nodes = [node("Add", "input.1 onnx::Add_2", "/block/0:out")]
    made = model(nodes, [value("input.1", F32, [3])], [value("/block/0:out", F32, [3])], {"onnx::Add_2": normal(3)})
    return made, [normal(3)]


def external():
    """Weights in a file beside it."""
    made = model(
        [node("MatMul", "X W", "Y")], [value("X", F32, [2, 8])], [value("Y", F32, [2, 8])], dict(W=normal(8, 8))
    )
    return made, [normal(2, 8)]


def function_branches():
    """A graph within a function of the file, with an attribute that a call of the function gives."""
    leak = helper.make_node("LeakyRelu", ["x"], ["a"])
    reference = leak.attribute.add()
    reference.name, reference.type, reference.ref_attr_name = "alpha", onnx.AttributeProto.FLOAT, "alpha"
    then = helper.make_graph([leak], "then", [], [value("a", F32, None)])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "otherwise", [], [value("b", F32, None)])
    branching = helper.make_function(
        "own",
        "Branching",
        ["x", "c"],
        ["y"],
        [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
        [helper.make_opsetid("", 20)],
        ["alpha"],
    )
    nodes = [helper.make_node("Branching", ["X", "yes"], ["Y"], domain="own", alpha=0.5)]
    made = model(
        nodes,
        [value("X", F32, [4])],
        [value("Y", F32, [4])],
        dict(yes=np.bool_(True)),
        domains=["own"],
        functions=[branching],
    )
    return made, [normal(4)]


def constants():
    """Numbers that have no literal in Tile: of 64 bits, the least one, and none in several axes."""
    f64 = TensorProto.DOUBLE
    nodes = [
        node("Add", "X tenth", "A"),
        node("Mul", "A large", "B"),
        node("ConstantOfShape", "sizes", "C", value=helper.make_tensor("v", f64, [1], [0.1])),
        node("Add", "I least", "D"),
        node("MatMul", "E none", "F"),
    ]
    weights = dict(
        tenth=np.float64(0.1),
        large=np.array([1e300, 1e-300]),
        sizes=np.array([2, 1]),
        least=np.array([-(2**63), 2**62]),
        none=np.zeros((0, 4), np.float32),
    )
    inputs = [value("X", f64, [2]), value("I", I64, [2]), value("E", F32, [3, 0])]
    outputs = [value("B", f64, None), value("C", f64, None), value("D", I64, None), value("F", F32, None)]
    return model(nodes, inputs, outputs, weights), [
        normal(2, dtype=np.float64),
        np.array([5, 6]),
        np.zeros((3, 0), np.float32),
    ]


def refused():
    """Files that are wrong, by name."""
    vector = lambda name, size=2: value(name, F32, [size])
    relu = node("Relu", "X", "Y")
    plain = lambda nodes, weights=(): helper.make_model(
        helper.make_graph(nodes, "refused", [vector("X")], [value("Y", F32, None)], list(weights)),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=8,
    )

    def weight(dims, raw=b"12345678", location=None):
        tensor = TensorProto(name="W", data_type=F32, dims=dims)
        if location is None:
            tensor.raw_data = raw
        else:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=location)
        return plain([node("Add", "X W", "Y")], [tensor])

    body = helper.make_graph(
        [node("Identity", "go", "on"), node("Add", "x x", "y")],
        "body",
        [value("i", I64, []), value("go", BOOL, []), vector("x")],
        [value("on", BOOL, []), vector("y")],
    )
    endless = node("Loop", "none none X", "Y", body=body)
    endless.input[0] = endless.input[1] = ""
    idle = helper.make_graph(
        [], "body", [value("i", I64, []), value("go", BOOL, []), vector("x")], [value("go", BOOL, []), vector("x")]
    )
    turning = node("Loop", "many none X", "Y", body=idle)
    turning.input[1] = ""
    doubled = [node("SequenceConstruct", "X X", "s0")] + [
        node("SequenceConstruct", f"s{n} s{n}", f"s{n + 1}") for n in range(40)
    ]
    def tree(**changed):
        made = dict(
            nodes_treeids=[0, 0, 0],
            nodes_nodeids=[0, 1, 2],
            nodes_featureids=[0, 0, 0],
            nodes_values=[0.5, 0.0, 0.0],
            nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
            nodes_truenodeids=[1, 0, 0],
            nodes_falsenodeids=[2, 0, 0],
            target_treeids=[0, 0],
            target_nodeids=[1, 2],
            target_ids=[0, 0],
            target_weights=[1.0, 2.0],
        )
        made.update(changed)
        trees = node("TreeEnsembleRegressor", "X", "Y", domain="ai.onnx.ml", n_targets=1, **made)
        return plain([trees])

    number = lambda name, *items: helper.make_node("Constant", [], [name], value_ints=items)
    return {
        "nothing": b"",
        "text": b"this is no model",
        "truncated": plain([relu]).SerializeToString()[:-9],
        "cycle": plain([node("Add", "X B", "Y"), node("Add", "Y X", "B")]),
        "given_twice": plain([relu, node("Neg", "X", "Y")]),
        "no_output": plain([node("Relu", "X", "Z")]),
        "unsupported": plain([node("Frobnicate", "X", "A"), node("Det2", "A", "B"), node("Det2", "B", "Y")]),
        "attribute": plain([node("Relu", "X", "Y", slope=3)]),
        "grouped": model(
            [node("MatMulNBits", "X B S ? G", "Y", domain="com.microsoft", K=16, N=2, bits=4, block_size=16)],
            [value("X", F32, [1, 16])],
            [value("Y", F32, None)],
            dict(B=np.zeros((2, 1, 8), np.uint8), S=np.ones(2, np.float32), G=np.zeros(16, np.int32)),
            domains=["com.microsoft"],
        ),
        "too_few_inputs": plain([node("Add", "X", "Y")]),
        "shapes": weight([3], b"0123456789ab"),
        "overflow": weight([1 << 31, 1 << 31, 1 << 31]),
        "two_gigabytes": weight([2, 1 << 28]),
        "negative": weight([-2]),
        "leaves_the_folder": weight([2], location="../../../../etc/passwd"),
        "absolute": weight([2], location="/etc/passwd"),
        "not_there": weight([2], location="nothing.data"),
        "endless": plain([endless]),
        "range": plain(
            [
                helper.make_node("Constant", [], ["a"], value_int=0),
                helper.make_node("Constant", [], ["b"], value_int=1 << 60),
                helper.make_node("Constant", [], ["c"], value_int=1),
                node("Range", "a b c", "Y"),
            ]
        ),
        "huge": plain([number("r", 1 << 62), node("Tile", "X r", "Y")]),
        "idle": plain([number("many", 10**12), turning]),
        "sequences_within": plain(doubled + [node("SequenceAt", "s40 X", "Y")]),
        "huge_split": helper.make_model(
            helper.make_graph(
                [node("SplitToSequence", "X", "S", axis=1), node("SequenceAt", "S one", "Y")],
                "refused",
                [value("X", F32, [0, 1 << 40])],
                [value("Y", F32, None)],
                [numpy_helper.from_array(np.int64(1), "one")],
            ),
            opset_imports=[helper.make_opsetid("", 20)],
            ir_version=8,
        ),
        "tree_cycle": tree(nodes_falsenodeids=[0, 0, 0]),
        "tree_feature": tree(nodes_featureids=[7, 0, 0]),
        "tree_length": tree(nodes_values=[0.5]),
        "tree_mode": tree(nodes_modes=["BRANCH_NEAR", "LEAF", "LEAF"]),
        "tree_node": tree(nodes_truenodeids=[5, 0, 0]),
        "tree_target": tree(target_ids=[0, 3]),
        "boxes": plain([number("m", 1), node("NonMaxSuppression", "b b m", "Y")], [numpy_helper.from_array(normal(2, 3), "b")]),
        "texts": plain([node("LabelEncoder", "X", "Y", domain="ai.onnx.ml", keys_floats=[1.0], values_strings=["one"])]),
        "packed": plain(
            [node("DequantizeLinear", "W X", "Y")], [TensorProto(name="W", data_type=22, dims=[5], raw_data=b"12")]
        ),
        "depth": plain(
            [
                number("i", 0, 1, 2),
                helper.make_node("Constant", [], ["d"], value_int=2**32 + 3),
                helper.make_node("Constant", [], ["v"], value_floats=[0.0, 1.0]),
                node("OneHot", "i d v", "Y"),
            ]
        ),
        "scale": plain([node("Resize", "X ? s", "Y")], [numpy_helper.from_array(np.array([1e20], np.float32), "s")]),
        "byte": plain(
            [node("Add", "X W", "Y")], [TensorProto(name="W", data_type=TensorProto.UINT8, dims=[1], int32_data=[300])]
        ),
        "half": plain(
            [node("Add", "X W", "Y")],
            [TensorProto(name="W", data_type=TensorProto.FLOAT16, dims=[1], int32_data=[1 << 16])],
        ),
        "sparse_outside": sparse_model([4], [[2], [4]]),
        "sparse_negative": sparse_model([2, 2], [[0, 0], [1, -1]]),
        "sparse_twice": sparse_model([2, 2], [[1, 0], [1, 0]]),
        "sparse_huge": sparse_model([1 << 20, 1 << 20], [[0], [1]]),
        "sparse_short": sparse_model([4], [[2]]),
        "flatten": plain([node("Flatten", "X", "Y", axis=2**32 + 1)]),
    }


def sparse(name, values, indices, dims):
    """Indices are one number each, or a coordinate for each axis."""
    indices = np.array(indices, np.int64)
    indices = indices[:, 0] if indices.shape[1] == 1 else indices
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.asarray(values), name), numpy_helper.from_array(indices, name + "_indices"), dims
    )


def sparse_model(dims, indices):
    made = helper.make_graph(
        [node("Add", "X W", "Y")],
        "refused",
        [value("X", F32, [2])],
        [value("Y", F32, None)],
        sparse_initializer=[sparse("W", np.float32([1, 2]), indices, dims)],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)


def layers_of_images():
    """What is a layer of the library, and what is almost one: strides that leave a rest, padding on one side, groups."""
    nodes = [
        node("Conv", "X stem.weight stem.bias", "A", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "A norm.weight norm.bias norm.mean norm.var", "B", momentum=0.8),
        node("Conv", "B down.weight", "C", strides=[2, 2], pads=[1, 0, 2, 1]),
        node("Conv", "C depth.weight depth.bias", "D", group=6, pads=[2, 2, 2, 2], dilations=[2, 2]),
        node("Conv", "D groups.weight groups.bias", "E", group=2, kernel_shape=[1, 3], pads=[0, 1, 0, 1]),
        node("ConvTranspose", "E up.weight up.bias", "F", strides=[2, 2]),
        node("ConvTranspose", "F same.weight", "G", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("ConvTranspose", "G odd.weight odd.bias", "H", strides=[2, 3], pads=[1, 0, 1, 0], output_padding=[1, 0]),
        node("MaxPool", "H", "M", kernel_shape=[3, 2], strides=[2, 2]),
        node("MaxPool", "M", "N", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1]),
        node("MaxPool", "N", "O", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("AveragePool", "O", "P", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Conv", "P half.weight", "Ps", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", "Ps quarter.weight quarter.bias", "Pss", strides=[2, 2], auto_pad="SAME_UPPER"),
        node("AveragePool", "Pss", "Q", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Conv", "Q twice.weight twice.bias", "R"),
        node("Conv", "R twice.weight twice.bias", "S"),
        node("GlobalAveragePool", "S", "T"),
        node("Flatten", "T", "U"),
        node("Gemm", "U head.weight head.bias", "Y", transB=1),
        node("GlobalMaxPool", "S", "Z"),
    ]
    weights = {
        "stem.weight": normal(4, 3, 3, 3),
        "stem.bias": normal(4),
        "norm.weight": normal(4),
        "norm.bias": normal(4),
        "norm.mean": normal(4),
        "norm.var": np.abs(normal(4)) + 0.5,
        "down.weight": normal(6, 4, 3, 3),
        "depth.weight": normal(12, 1, 3, 3),
        "depth.bias": normal(12),
        "groups.weight": normal(4, 6, 1, 3),
        "groups.bias": normal(4),
        "up.weight": normal(4, 3, 2, 2),
        "up.bias": normal(3),
        "same.weight": normal(3, 5, 4, 4),
        "odd.weight": normal(5, 2, 3, 3),
        "odd.bias": normal(2),
        "half.weight": normal(2, 2, 3, 3),
        "quarter.weight": normal(2, 2, 3, 3),
        "quarter.bias": normal(2),
        "twice.weight": normal(2, 2, 1, 1),
        "twice.bias": normal(2),
        "head.weight": normal(5, 2),
        "head.bias": normal(5),
    }
    outputs = [value("Y", F32, None), value("Z", F32, None)]
    return model(nodes, [value("X", F32, [2, 3, 8, 9])], outputs, weights), [normal(2, 3, 8, 9)]


def layers_of_sequences():
    """Products with and without a bias, one of them on the left; normalization of the last axes; axes that come and go."""
    nodes = [
        node("MatMul", "X query.weight", "A"),
        node("Add", "query.bias A", "B"),
        node("Gelu", "B", "C"),
        node("LayerNormalization", "C norm.weight norm.bias", "D", epsilon=1e-3),
        node("LayerNormalization", "D both.weight", "E", axis=1),
        node("MatMul", "E out.weight", "F"),
        node("Add", "F F", "G"),
        node("Transpose", "G", "H", perm=[0, 2, 1]),
        node("Conv", "H conv.weight conv.bias", "I", pads=[1, 1]),
        node("Conv", "I pad.weight", "J", pads=[2, 0], strides=[2]),
        node("Unsqueeze", "J axes", "K"),
        node("Conv", "K deep.weight deep.bias", "L"),
        node("Reshape", "L sizes", "M"),
        node("Gemm", "M first.weight first.bias", "N"),
        node("Gemm", "N half.weight half.bias", "Y", alpha=0.5),
        node("Mul", "half.bias half.bias", "Z"),
    ]
    weights = {
        "query.weight": normal(6, 8),
        "query.bias": normal(8),
        "norm.weight": normal(8),
        "norm.bias": normal(8),
        "both.weight": normal(5, 8),
        "out.weight": normal(8, 4),
        "conv.weight": normal(3, 4, 3),
        "conv.bias": normal(3),
        "pad.weight": normal(2, 3, 3),
        "axes": np.array([2, 3]),
        "deep.weight": normal(2, 2, 1, 1, 2),
        "deep.bias": normal(2),
        "sizes": np.array([2, -1]),
        "first.weight": normal(4, 3),
        "first.bias": normal(3),
        "half.weight": normal(3, 2),
        "half.bias": normal(2),
    }
    outputs = [value("Y", F32, None), value("Z", F32, None)]
    return model(nodes, [value("X", F32, [2, 5, 6])], outputs, weights), [normal(2, 5, 6)]


def quantized_microsoft():
    """The operators on quantized tensors that ONNX Runtime's quantizer makes."""
    of = lambda name: f"{name} {name}_s {name}_z"
    micro = lambda op, inputs, outputs, **attributes: node(op, inputs, outputs, domain="com.microsoft", **attributes)
    nodes = [
        node("QuantizeLinear", "X A_s A_z", "A"),
        micro("QLinearAdd", f"{of('A')} {of('K')} B_s B_z", "B"),
        micro("QLinearMul", f"{of('B')} {of('K')} C_s C_z", "C"),
        micro("QLinearSigmoid", f"{of('C')} D_s D_z", "D"),
        micro("QLinearLeakyRelu", f"{of('C')} E_s E_z", "E", alpha=0.1),
        micro("QLinearConcat", f"F_s F_z {of('D')} {of('E')} {of('A')}", "F", axis=1),
        micro("QLinearAveragePool", f"{of('F')} G_s G_z", "G", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 0]),
        micro("QLinearGlobalAveragePool", f"{of('G')} H_s H_z", "H"),
        micro("QLinearGlobalAveragePool", f"{of('F')} H_s H_z", "J", channels_last=1),
        node("Flatten", "H", "I"),
        micro("QGemm", "I H_s H_z W W_s W_z V P_s P_z", "P", transB=1, alpha=0.5),
        micro("QGemm", "I H_s H_z W W_s W_z V", "Q", transB=1, alpha=0.5),
        micro("QLinearSoftmax", f"{of('P')} S_s S_z", "S", axis=-1, opset=13),
        node("Greater", "Q zero", "T"),
        micro("QLinearWhere", f"T {of('P')} {of('S')} R_s R_z", "R"),
    ]
    integers = lambda *shape: RANDOM.integers(-100, 100, shape).astype(np.int8)
    weights = dict(K=integers(3, 1, 1), W=integers(5, 9), V=RANDOM.integers(-900, 900, 5).astype(np.int32))
    weights.update(W_s=np.abs(normal(5)) * 0.02 + 0.01, W_z=np.zeros(5, np.int8), zero=np.float32(0))
    # No multiples of each other, so that no quotient is halfway between two integers.
    scales = dict(A=0.01317, K=0.01129, B=0.02041, C=0.02113, D=0.00391, E=0.01553)
    scales.update(F=0.01637, G=0.01019, H=0.00409, P=0.03011, S=0.00397, R=0.02039)
    for number, (name, scale) in enumerate(scales.items()):
        weights[f"{name}_s"] = np.float32(scale)
        weights[f"{name}_z"] = np.int8(-128 if name in "DS" else number - 5)
    outputs = [value(name, TensorProto.INT8, None) for name in "BCDEFGHJPSR"]
    outputs.append(value("Q", F32, None))
    return model(nodes, [value("X", F32, [2, 3, 5, 6])], outputs, weights, domains=["com.microsoft"]), [normal(2, 3, 5, 6)]


def quantized_lstm():
    """An LSTM with quantized weights; ONNX Runtime rounds its inputs and states to 8 bits, too."""
    given = "X W R B ? ? ? ? W_s W_z R_s R_z"
    lstm = node(
        "DynamicQuantizeLSTM", given, "Y last cell", domain="com.microsoft", hidden_size=3, direction="bidirectional"
    )
    weights = dict(
        W=RANDOM.integers(-100, 100, (2, 4, 12)).astype(np.int8),
        R=RANDOM.integers(-100, 100, (2, 3, 12)).astype(np.int8),
        B=normal(2, 24),
        W_s=np.array([0.01, 0.008], np.float32),
        W_z=np.zeros(2, np.int8),
        R_s=np.full((2, 12), 0.01, np.float32),
        R_z=np.zeros((2, 12), np.int8),
    )
    outputs = [value(name, F32, None) for name in ("Y", "cell")]
    return model([lstm], [value("X", F32, [4, 2, 4])], outputs, weights, domains=["com.microsoft"]), [normal(4, 2, 4)]


def write(name, graph, inputs, outputs=None, is_external=False):
    """Writes a model, and what it gives for these inputs: by onnxruntime, where `outputs` are not from elsewhere."""
    names = [given.name for given in graph.graph.input]
    given = dict(zip(names, inputs))
    if outputs is None:
        try:
            session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
            outputs = session.run(None, given)
        except Exception:  # It has not all types and versions.
            outputs = ReferenceEvaluator(graph).run(None, given)
    else:
        kept = lambda array: array if array.dtype.kind in "ib" else array.astype(np.float32)
        outputs = [kept(np.asarray(array)) for array in outputs]
    path = os.path.join(FOLDER, name)
    kwargs = {}
    if is_external:
        kwargs = dict(save_as_external_data=True, location="external.data", size_threshold=0)
    onnx.save(graph, path + ".onnx", **kwargs)
    save(path, given, dict(zip([output.name for output in graph.graph.output], outputs)))


def save(path, given, known):
    arrays = {f"input {name}": array for name, array in given.items()}
    arrays.update({f"output {name}": np.asarray(array) for name, array in known.items()})
    np.savez(path + ".npz", **arrays)


def names_of_sizes():
    """Names that are given to different sizes, as converters give them, and outputs that are declared with wrong shapes."""
    nodes = [node("GlobalAveragePool", "A", "P"), node("MatMul", "B C", "M"), node("Add", "P M", "Y")]
    inputs = [value("A", F32, ["?", 3, "?", "?"]), value("B", F32, ["n", "n"]), value("C", F32, ["n", -1])]
    inputs[2].type.tensor_type.shape.dim[1].dim_value = -1
    outputs = [value("Y", F32, ["n", 9, "?", "?"])]
    return model(nodes, inputs, outputs), [normal(2, 3, 4, 5), normal(1, 4), normal(4, 6)]


def einsums():
    """Sizes of 1 that broadcast, diagonals, `...`, scalars, and more operands than two."""
    equations = [
        ("A B", "ab,bc->ac"),
        ("A A A", "ab,ac,ad->bcd"),
        ("C C", "...ii,...ii->...i"),
        ("B B", "ij,ij->"),
        ("D B A D B", "a...,b...,c...,a...,b...->...b"),
        ("A D", "ij,ij"),
    ]
    nodes = [node("Einsum", given, f"Y{n}", equation=text) for n, (given, text) in enumerate(equations)]
    shapes = dict(A=[3, 1], B=[2, 4], C=[2, 3, 3], D=[1, 4])
    made = model(
        nodes,
        [value(name, F32, shape) for name, shape in shapes.items()],
        [value(f"Y{n}", F32, None) for n in range(len(nodes))],
    )
    given = {name: normal(*shape) for name, shape in shapes.items()}
    return made, list(given.values()), [np.einsum(text, *[given[n] for n in names.split()]) for names, text in equations]


def bfloats():
    """bf16 as weights in both forms, as a constant, by casts, and as an input and an output."""
    bf16 = TensorProto.BFLOAT16
    nodes = [
        node("Cast", "X", "H", to=bf16),
        node("MatMul", "H W", "M"),
        node("Add", "M B", "A"),
        node("Mul", "A Z", "P"),
        node("Constant", "", "two", value=helper.make_tensor("v", bf16, [], [2.5])),
        node("Max", "P two", "Q"),
        node("CastLike", "X two", "R"),
        node("Neg", "R", "S"),
        node("Cast", "Q", "Y", to=F32),
        node("Greater", "S two", "G"),
        node("ReduceMean", "Q", "T", keepdims=0),
    ]
    made = model(
        nodes,
        [value("X", F32, [3, 4]), value("Z", bf16, [3, 5])],
        [value("Y", F32, None), value("S", bf16, None), value("Q", bf16, None), value("G", BOOL, None), value("T", bf16, None)],
    )
    bias = helper.make_tensor("B", bf16, [5], normal(5))
    bits = np.frombuffer(bias.raw_data, np.uint16).tolist() if bias.raw_data else list(bias.int32_data)
    bias.ClearField("raw_data")
    bias.ClearField("int32_data")
    bias.int32_data.extend(bits)
    made.graph.initializer.append(bias)
    made.graph.initializer.append(numpy_helper.from_array(normal(4, 5).astype(ml_dtypes.bfloat16), "W"))
    return made, [normal(3, 4), (4 * normal(3, 5)).astype(ml_dtypes.bfloat16)]


def sparse_tensors():
    """Sparse weights, by places and by coordinates, and a sparse constant."""
    nodes = [
        node("MatMul", "X W", "A"),
        node("Add", "A B", "C"),
        helper.make_node("Constant", [], ["K"], sparse_value=sparse("", np.float32([3, -2]), [[0, 1], [2, 0]], [3, 2])),
        node("MatMul", "C K", "Y"),
        node("Gather", "I J", "Z"),
    ]
    made = model(nodes, [value("X", F32, [2, 4])], [value("Y", F32, None), value("Z", I64, None)], dict(J=np.array([3, 0])))
    made.graph.sparse_initializer.extend(
        [
            sparse("W", np.float32([1.5, 2, -0.5]), [[1], [5], [11]], [4, 3]),
            sparse("B", np.float32([7]), [[1]], [3]),
            sparse("I", np.array([2**40]), [[3]], [5]),
        ]
    )
    x = normal(2, 4)
    w, b, k = np.zeros(12, np.float32), np.float32([0, 7, 0]), np.float32([[0, 3], [0, 0], [-2, 0]])
    w[[1, 5, 11]] = [1.5, 2, -0.5]
    return made, [x], [(x @ w.reshape(4, 3) + b) @ k, np.array([2**40, 0])]


def unneeded():
    """What no output needs is not looked at: an operator that there is not, a weight of texts, and outputs beside the first."""
    nodes = [
        node("Frobnicate", "X", "F"),
        node("Add", "F texts", "G"),
        node("Dropout", "X", "D mask"),
        node("TopK", "D two", "V I"),
        node("If", "yes", "Y", then_branch=None, else_branch=None),
    ]
    then = helper.make_graph(
        [node("Frobnicate", "V", "other"), node("Neg", "V", "result")], "then", [], [value("result", F32, None)]
    )
    other = helper.make_graph([node("Abs", "V", "absolute")], "otherwise", [], [value("absolute", F32, None)])
    nodes[4] = node("If", "yes", "Y", then_branch=then, else_branch=other)
    weights = dict(two=np.array([2]), yes=np.bool_(True), texts=np.array(["a", "b"], object))
    made = model(nodes, [value("X", F32, [5])], [value("Y", F32, None)], weights)
    x = normal(5)
    return made, [x], [-np.sort(x)[::-1][:2]]


def opset_1():
    """Operators as they were in version 1."""
    used = [0] * 5
    nodes = [
        node("BatchNormalization", "X scale B mean var", "N", is_test=1, consumed_inputs=used, epsilon=1e-3),
        node("Add", "N B", "A", broadcast=1, axis=1, consumed_inputs=used),
        node("Clip", "A", "C", max=1.0, consumed_inputs=used),
        node("PRelu", "C scale", "P"),
        node("Pad", "P", "Q", paddings=[0, 0, 1, 0, 0, 0, 0, 2], value=0.5),
        node("Reshape", "Q", "R", shape=[2, -1], consumed_inputs=used),
        node("Dropout", "R", "D", is_test=1),
        node("Gemm", "D W V", "G", broadcast=1, transB=1),
        node("Cast", "G", "E", to="DOUBLE"),
        node("Cast", "E", "F", to="FLOAT"),
        node("Split", "F", "S T", axis=1, split=[1, 3]),
        node("Tile", "T two one", "U"),
        node("Selu", "U", "L"),
        node("Concat", "S L", "Y"),
        node("Split", "Y sizes", "Y1 Y2", axis=1),
        node("Upsample", "X", "Z", height_scale=2.0, width_scale=1.5),
        node("BatchNormalization", "X scale B mean var", "O M K SM SV", consumed_inputs=used, momentum=0.75),
        node("Greater", "X B", "I", broadcast=1, axis=1),
    ]
    weights = dict(scale=normal(3), B=normal(3), mean=normal(3), var=np.abs(normal(3)) + 0.5, W=normal(4, 90), V=normal(4))
    weights.update(two=np.float32(2), one=np.float32(1), sizes=np.float32([3, 4]))
    outputs = [value(name, F32, None) for name in ("Y1", "Y2", "Z", "O", "M", "K")] + [value("I", BOOL, None)]
    made = model(nodes, [value("X", F32, [2, 3, 4, 4])], outputs, weights, opset=1)
    x = normal(2, 3, 4, 4)
    scale, b, mean, var = (weights[name][:, None, None] for name in ("scale", "B", "mean", "var"))
    a = np.minimum((x - mean) / np.sqrt(var + 1e-3) * scale + b + b, 1)
    q = np.pad(np.where(a < 0, scale * a, a), [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=0.5)
    g = q.reshape(2, -1) @ weights["W"].T + weights["V"]
    u = np.tile(g[:, 1:], (1, 2))
    y = np.concatenate([g[:, :1], np.where(u > 0, 1.0507 * u, 1.0507 * 1.6732 * (np.exp(u) - 1))], 1)
    z = x[:, :, np.arange(8) // 2][..., (np.arange(6) / 1.5).astype(int)]
    center, spread = x.mean((0, 2, 3)), x.var((0, 2, 3))
    o = (x - center[:, None, None]) / np.sqrt(spread[:, None, None] + 1e-5) * scale + b
    kept = [0.75 * weights["mean"] + 0.25 * center, 0.75 * weights["var"] + 0.25 * spread]
    return made, [x], [y[:, :3], y[:, 3:], z, o, *kept, x > b]


def experiments():
    """Operators of version 1 that ONNX Runtime still has."""
    nodes = [
        node("ImageScaler", "X", "A", scale=2.0, bias=[0.5, -1.0, 2.0]),
        node("Crop", "A", "B", border=[1, 0, 2, 1]),
        node("Affine", "B", "C", alpha=0.5, beta=0.25),
        node("ParametricSoftplus", "C", "D", alpha=1.5, beta=0.7),
        node("ScaledTanh", "D", "Y", alpha=1.7, beta=0.6),
        node("Crop", "A", "Z", border=[1, 2, 0, 0], scale=[2, 3]),
        node("ThresholdedRelu", "X", "T", alpha=0.1),
    ]
    outputs = [value(name, F32, None) for name in "YZT"]
    return model(nodes, [value("X", F32, [2, 3, 5, 6])], outputs, opset=6), [normal(2, 3, 5, 6)]


def corners():
    """Resize by scales that leave a rest, where ONNX Runtime and PyTorch agree and the package's reference does not."""
    modes = ["nearest", "linear", "cubic"]
    resize = lambda n, **rest: node("Resize", f"X ? s{n}", f"Y{n}", **rest)
    nodes = [resize(n, mode=mode, coordinate_transformation_mode="align_corners") for n, mode in enumerate(modes)]
    nodes += [resize(n + 3, mode=mode, coordinate_transformation_mode="pytorch_half_pixel") for n, mode in enumerate(modes)]
    scales = [[1, 1, 2.5, 0.6], [1, 1, 1.7, 0.7], [1, 1, 0.6, 1.3]] + [[1, 1, 0.3, 1.5]] * 3
    weights = {f"s{n}": np.array(scale, np.float32) for n, scale in enumerate(scales)}
    outputs = [value(f"Y{n}", F32, None) for n in range(6)]
    return model(nodes, [value("X", F32, [1, 2, 5, 6])], outputs, weights, opset=19), [normal(1, 2, 5, 6)]


def sample_rate():
    """A branch by the value of an input, with other shapes on each side, and a shape that is one."""
    branch = lambda name, stride: helper.make_graph(
        [node("Conv", "X K", name, strides=[stride], kernel_shape=[3])], name, [], [value(name, F32, None)]
    )
    nodes = [
        node("Equal", "rate wide", "is_wide"),
        node("If", "is_wide", "C", then_branch=branch("slow", 2), else_branch=branch("fast", 1)),
        node("Expand", "C sizes", "Y"),
    ]
    inputs = [value("X", F32, [1, 1, "time"]), value("rate", I64, []), value("sizes", I64, [3])]
    weights = dict(K=normal(2, 1, 3), wide=np.int64(16000))
    made = model(nodes, inputs, [value("Y", F32, None)], weights)
    return made, [normal(1, 1, 9), np.array(16000), np.array([3, 2, 4])]


def outside():
    """Indices that no narrower integer holds, or of which one is out of range: what is there is 0, as this project says it."""
    nodes = [
        node("Gather", "X far", "Y"),
        node("GatherElements", "X far2", "Z", axis=1),
        node("GatherND", "X pairs", "W"),
    ]
    far = np.array([1, 2**32 + 1, -1, -(2**32) - 1, 2**63 - 1])
    weights = dict(far=far, far2=far[None].repeat(2, 0)[:, :3], pairs=np.array([[0, 1], [0, 3], [1, -1], [-3, 2], [2**32, 0]]))
    outputs = [value(name, F32, None) for name in "YZW"]
    x = normal(2, 3)
    none = np.zeros(3, np.float32)
    y = np.stack([x[1], none, x[1], none, none])
    z = np.stack([x[:, 1], np.zeros(2, np.float32), x[:, 2]], 1)
    return model(nodes, [value("X", F32, [2, 3])], outputs, weights), [x], [y, z, np.float32([x[0, 1], 0, x[1, 2], 0, 0])]


def quantized_products():
    """Products of floats with weights of 4 and 8 bits in blocks, and of 8-bit integers with results in floats."""
    micro = lambda op, inputs, outputs, **attributes: node(op, inputs, outputs, domain="com.microsoft", **attributes)
    blocks = lambda bits, size, K, N: dict(K=K, N=N, bits=bits, block_size=size)
    nodes = [
        micro("MatMulNBits", "X B4 S4", "A", **blocks(4, 16, 40, 7)),
        micro("MatMulNBits", "X B4 S4 Z4 ? bias", "B", accuracy_level=0, **blocks(4, 16, 40, 7)),
        micro("MatMulNBits", "X B4 S4 F4", "C", **blocks(4, 16, 40, 7)),
        micro("MatMulNBits", "X B8 S8 Z8", "D", **blocks(8, 32, 40, 7)),
        micro("MatMulNBits", "X B8 S8", "E", **blocks(8, 32, 40, 7)),
        micro("DynamicQuantizeMatMul", "X W scale ? bias", "F"),
        micro("DynamicQuantizeMatMul", "X W scales zeros bias", "G"),
        micro("MatMulIntegerToFloat", "U W scale scale", "H"),
        micro("MatMulIntegerToFloat", "U W scale scales zero zeros bias", "I"),
    ]
    bytes_of = lambda *shape: RANDOM.integers(0, 256, shape).astype(np.uint8)
    some = lambda *shape: np.abs(normal(*shape)) * 0.01 + 0.01
    weights = dict(
        B4=bytes_of(7, 3, 8),
        S4=some(21),
        Z4=bytes_of(14),
        F4=normal(21) + 8,
        B8=bytes_of(7, 2, 32),
        S8=some(14),
        Z8=bytes_of(14),
        bias=normal(7),
        W=RANDOM.integers(-100, 100, (40, 7)).astype(np.int8),
        U=bytes_of(3, 40),
        scale=np.array([0.02], np.float32),
        scales=some(7),
        zero=np.array([117], np.uint8),
        zeros=RANDOM.integers(-9, 9, 7).astype(np.int8),
    )
    outputs = [value(name, F32, None) for name in "ABCDEFGHI"]
    return model(nodes, [value("X", F32, [3, 40])], outputs, weights, domains=["com.microsoft"]), [normal(3, 40)]


def dequantized():
    """A network between pairs of QuantizeLinear and DequantizeLinear: convolutions, one of them depthwise, a residual, a pool and a product."""
    def step(name, kind, inputs, **attributes):
        """A node whose result is quantized and dequantized."""
        of = f"{name}_s {name}_z"
        nodes = [node("QuantizeLinear", f"{name}_f {of}", f"{name}_q"), node("DequantizeLinear", f"{name}_q {of}", name)]
        return ([node(kind, inputs, f"{name}_f", **attributes)] if kind else []) + nodes

    constants = ["W1", "W2", "W3", "W4", "b1", "b2"]
    nodes = [node("DequantizeLinear", f"{name}_q {name}_s {name}_z", name, axis=1 if name == "W4" else 0) for name in constants]
    nodes += step("X", None, "")
    nodes += step("A", "Conv", "X W1 b1", pads=[1] * 4, strides=[2, 2])
    nodes += step("B", "Conv", "A W2 b2", pads=[1] * 4, group=6)
    nodes += step("C", "Conv", "B W3")
    nodes += step("D", "Add", "A C")
    nodes += step("E", "MaxPool", "D", kernel_shape=[2, 2], strides=[1, 1])
    nodes += step("G", "GlobalAveragePool", "E")
    nodes += [node("Flatten", "G", "H")] + step("P", "MatMul", "H W4")
    integers = lambda *shape: RANDOM.integers(-127, 128, shape).astype(np.int8)
    weights = dict(W1_q=integers(6, 3, 3, 3), W2_q=integers(6, 1, 3, 3), W3_q=integers(6, 6, 1, 1), W4_q=integers(6, 5))
    weights.update(W1_s=np.float32(0.0021), W1_z=np.int8(0), W3_s=np.abs(normal(6)) * 0.002 + 0.003, W3_z=np.zeros(6, np.int8))
    weights.update(W2_s=np.abs(normal(6)) * 0.002 + 0.003, W2_z=np.zeros(6, np.int8), W4_s=np.abs(normal(5)) * 0.002 + 0.003)
    weights.update(W4_z=np.zeros(5, np.int8), b1_q=RANDOM.integers(-900, 900, 6).astype(np.int32), b1_s=np.float32(0.0003))
    weights.update(b2_q=RANDOM.integers(-900, 900, 6).astype(np.int32), b2_s=(weights["W2_s"] * np.float32(0.0117)).astype(np.float32))
    weights.update(b1_z=np.int32(0), b2_z=np.zeros(6, np.int32))
    for number, (name, scale) in enumerate(dict(X=0.0213, A=0.0117, B=0.0171, C=0.0131, D=0.0191, E=0.0137, G=0.0089, P=0.0047).items()):
        weights[f"{name}_s"] = np.float32(scale)
        weights[f"{name}_z"] = np.uint8(0 if name in "AB" else 117 + number)
    outputs = [value(f"{name}_q", TensorProto.UINT8, None) for name in "ABCDEGP"]
    return model(nodes, [value("X_f", F32, [2, 3, 9, 11])], outputs, weights), [normal(2, 3, 9, 11)]


def empty_selections():
    """Reads and writes of no elements: masks without a hit, indices and tensors of no rows, a loop without turns."""
    nodes = [node("Greater", "X nine", "mask"), node("NonZero", "mask", "hits"), node("Transpose", "hits", "places")]
    nodes += [node("GatherND", "X places", "found"), node("ScatterND", "X places found", "masked"), node("Compress", "X none", "kept", axis=0)]
    nodes += [node("Gather", "E rows", "A"), node("Gather", "F rows", "B", axis=1), node("Gather", "F two", "C")]
    nodes += [node("GatherElements", "E pairs", "D"), node("GatherND", "E places1", "G")]
    outputs = ["found", "masked", "kept", *"ABCDG"]
    for reduction in ["none", "add", "mul", "min", "max"]:
        nodes.append(node("ScatterElements", "X pairs E2", f"elements_{reduction}", reduction=reduction))
        nodes.append(node("ScatterND", "X places1 E2", f"rows_{reduction}", reduction=reduction))
        outputs += [f"elements_{reduction}", f"rows_{reduction}"]
    body = helper.make_graph(
        [node("MatMul", "carried square", "next"), node("ReduceSum", "next", "sums", keepdims=0), node("Identity", "on", "still")],
        "body",
        [value("turn", I64, []), value("on", BOOL, []), value("carried", F32, [3, 2])],
        [value("still", BOOL, []), value("next", F32, [3, 2]), value("next", F32, [3, 2]), value("sums", F32, [])],
    )
    nodes.append(node("Loop", "no_turns ? X", "last all_next all_sums", body=body))
    outputs += ["last", "all_next", "all_sums"]
    floats = lambda *shape: np.zeros(shape, np.float32)
    integers = lambda *shape: np.zeros(shape, np.int64)
    weights = dict(nine=np.float32(9), none=np.zeros(3, bool), E=floats(0, 4), E2=floats(0, 2), F=floats(3, 0))
    weights.update(no_turns=np.int64(0), square=normal(2, 2), rows=integers(0), two=np.array([2, 0]), pairs=integers(0, 2), places1=integers(0, 1))
    made = model(nodes, [value("X", F32, [3, 2])], [value(name, F32, None) for name in outputs], weights)
    return made, [normal(3, 2)]


def main():
    os.makedirs(FOLDER + "/refused", exist_ok=True)
    for name, made in refused().items():
        with open(f"{FOLDER}/refused/{name}.onnx", "wb") as file:
            file.write(made if isinstance(made, bytes) else made.SerializeToString())
    made = [
        convolutions,
        function_branches,
        constants,
        shape_arithmetic,
        shape_input,
        attention,
        recurrent,
        quantized,
        control,
        functions,
        sequences,
        resized,
        tokens,
        halves,
        opset_6,
        odd_names,
        external,
        layers_of_images,
        layers_of_sequences,
        quantized_microsoft,
        quantized_lstm,
        names_of_sizes,
        einsums,
        bfloats,
        sparse_tensors,
        unneeded,
        opset_1,
        experiments,
        corners,
        sample_rate,
        outside,
        quantized_products,
        dequantized,
        empty_selections,
    ]
    for make in made:
        write(make.__name__, *make(), is_external=make is external)


if __name__ == "__main__":
    main()
