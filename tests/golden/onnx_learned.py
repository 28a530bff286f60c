#!/usr/bin/env python3
"""Makes the models of tests/golden/onnx whose names begin with `learned_`: what scikit-learn's models are in ONNX, by skl2onnx, and what
they do not have of trees, labels and support vectors; with their outputs, by onnxruntime.

Needs scikit-learn, skl2onnx, onnx and onnxruntime. A model that gives a map of classes gives a column for each here.
"""

import os

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx_models import F32, FOLDER, I64, save, value
from skl2onnx import to_onnx
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

RANDOM = np.random.default_rng(5)
FEATURES = 4
X = RANDOM.standard_normal((120, FEATURES)).astype(np.float32)
SUM = X[:, 0] + X[:, 1] * X[:, 2]
TWO = (SUM > 0).astype(np.int64)
THREE = np.digitize(SUM, [-0.7, 0.7])
GIVEN = RANDOM.standard_normal((9, FEATURES)).astype(np.float32)


def of_sklearn():
    missing = X.copy()
    missing[::7, 1] = np.nan
    given = GIVEN.copy()
    given[::3, 1] = np.nan
    forest = dict(n_estimators=4, max_depth=4, random_state=0)
    yield "forest_two", RandomForestClassifier(**forest).fit(X, TWO), X, GIVEN, True
    yield "forest_three", RandomForestClassifier(**forest).fit(X, THREE + 5), X, GIVEN, False
    yield "forest_sums", RandomForestRegressor(**forest).fit(X, np.stack([SUM, X[:, 3]], 1)), X, GIVEN, False
    yield "boosted_two", GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, TWO), X, GIVEN, False
    yield "boosted_three", GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, THREE), X, GIVEN, False
    pipe = make_pipeline(SimpleImputer(), StandardScaler(), Normalizer(), LogisticRegression())
    yield "pipeline", pipe.fit(missing, THREE), missing, given, True
    yield "vectors_two", SVC(kernel="poly", degree=2, coef0=0.5, probability=True, random_state=0).fit(X, TWO), X, GIVEN, False
    yield "vectors_three", SVC(probability=True, random_state=0).fit(X, THREE), X, GIVEN, False
    yield "vectors_votes", SVC(kernel="sigmoid", gamma=0.2).fit(X, THREE), X, GIVEN, False
    yield "vectors_sums", SVR(kernel="linear").fit(X, SUM), X, GIVEN, False
    yield "vectors_one", OneClassSVM(nu=0.3).fit(X), X, GIVEN, False


def write(name, model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = dict(zip([given.name for given in session.get_inputs()], inputs))
    results = session.run(None, given)
    known = {}
    for output, result in zip(session.get_outputs(), results):
        if isinstance(result, list):
            result = np.array([[row[key] for key in sorted(row)] for row in result], np.float32)
        known[output.name] = result
    path = os.path.join(FOLDER, "learned_" + name)
    onnx.save(model, path + ".onnx")
    save(path, given, known)
    print(name, os.path.getsize(path + ".onnx"), {name: list(array.shape) for name, array in known.items()})


def of_nodes(nodes, inputs, outputs, version=3):
    """A model of operators of ai.onnx.ml."""
    graph = helper.make_graph(
        nodes,
        "golden",
        [value(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in inputs.items()],
        [value(name, dtype, None) for name, dtype in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def ml(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), domain="ai.onnx.ml", **attributes)


def labels():
    """Labels, categories, and features side by side."""
    i64 = lambda *items: numpy_helper.from_array(np.array(items, np.int64), "t")
    nodes = [
        ml("LabelEncoder", "N", "floats", keys_int64s=[1, 4, 1, 7], values_floats=[0.5, -2.0, 9.0, 3.5], default_float=-1.0),
        ml("LabelEncoder", "X", "ints", keys_floats=[0.5, float("nan"), 2.0], values_int64s=[3, 4, 5]),
        ml("LabelEncoder", "N", "tensors", keys_tensor=i64(1, 4), values_tensor=i64(10, 40), default_tensor=i64(-7)),
        ml("OneHotEncoder", "N", "hot", cats_int64s=[7, 1, 3]),
        ml("FeatureVectorizer", "X2 X2", "features", inputdimensions=[1, 2]),
        ml("Binarizer", "X2", "binary", threshold=0.5),
        ml("ArrayFeatureExtractor", "X P", "extracted"),
        ml("Normalizer", "X2", "largest", norm="MAX"),
    ]
    inputs = dict(
        N=np.array([[1, 4], [7, 2], [3, 1]]),
        X=np.array([[0.5, np.nan, 2.0], [1.0, 0.5, 0.25], [-3.0, 2.0, 0.0]], np.float32),
        P=np.array([[2, 0]]),
        X2=np.array([[-3.0, -1.0], [2.0, 4.0], [0.0, 0.0]], np.float32),
    )
    outputs = dict(floats=F32, ints=I64, tensors=I64, hot=F32, features=F32, binary=F32, extracted=F32, largest=F32)
    return of_nodes(nodes, inputs, outputs, version=4), list(inputs.values())


def tree_nodes(prefix, scores, trees=3, modes=("BRANCH_LEQ",), missing=False, random=RANDOM):
    """The attributes of trees of two levels: `scores(tree, leaf)` are pairs of a target and its score."""
    names = "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true".split()
    made = {f"nodes_{name}": [] for name in names}
    made.update({f"{prefix}_{name}": [] for name in "treeids nodeids ids weights".split()})
    for tree in range(trees):
        for number in [0, 3, 4, 1, 2, 6, 5]:
            inner = number < 3
            mode = modes[(tree + number) % len(modes)] if inner else "LEAF"
            split = 0.25 * float(random.integers(-3, 3))
            ways = (2 * number + 1, 2 * number + 2) if inner else (0, 0)
            row = [tree, number, int(random.integers(FEATURES)), split, mode, *ways, int(missing and number == 1)]
            for name, item in zip(names, row):
                made[f"nodes_{name}"].append(item)
            for target, score in [] if inner else scores(tree, number):
                for name, item in zip("treeids nodeids ids weights".split(), [tree, number, target, float(np.float32(score))]):
                    made[f"{prefix}_{name}"].append(item)
    return made


def trees():
    """Regressions by each aggregate and mode, for one target and several, some of which leaves do not have."""
    all_modes = [f"BRANCH_{mode}" for mode in "LEQ LT GTE GT EQ NEQ".split()]
    one = lambda tree, leaf: [(0, RANDOM.standard_normal())]
    some = lambda tree, leaf: [(k, RANDOM.standard_normal()) for k in range(3) if (tree + leaf + k) % 3 or tree == 1]
    nodes, outputs = [], {}
    for number, aggregate in enumerate(["SUM", "AVERAGE", "MIN", "MAX"]):
        for name, targets, scores in [("one", 1, one), ("some", 3, some)]:
            output = f"{aggregate}_{name}"
            attributes = tree_nodes("target", scores, modes=all_modes[: 1 + 5 * (number % 2)], missing=number > 1)
            bases = dict(base_values=[0.5, -1.0, 2.0][:targets]) if number % 2 else {}
            post = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"][number]
            nodes.append(
                ml("TreeEnsembleRegressor", "X", output, n_targets=targets, aggregate_function=aggregate,
                   post_transform=post, **bases, **attributes)
            )
            outputs[output] = F32
    given = np.round(GIVEN * 4) / 4
    given[2, :] = np.nan
    return of_nodes(nodes, dict(X=given), outputs), [given]


def classes():
    """Classes by the signs of scores, of one class or several, with what ONNX Runtime makes of two."""
    nodes, outputs = [], {}
    kinds = dict(
        first=(2, lambda tree, leaf: [(0, RANDOM.standard_normal())], []),
        share=(2, lambda tree, leaf: [(0, RANDOM.random() / 3)], [0.1]),
        last=(2, lambda tree, leaf: [(1, RANDOM.standard_normal())], []),
        both=(2, lambda tree, leaf: [(k, RANDOM.random() / 3) for k in range(2)], [0.1, 0.2]),
        random=(2, lambda tree, leaf: [((tree + leaf) % 2, RANDOM.standard_normal())], []),
        three=(3, lambda tree, leaf: [(k, RANDOM.standard_normal()) for k in range(3)], [0.1, 0.2, 0.3]),
        each=(3, lambda tree, leaf: [(tree, RANDOM.standard_normal())], []),
    )
    for kind, (count, scores, bases) in kinds.items():
        for post in ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]:
            attributes = tree_nodes("class", scores)
            labels = [10 * (k + 1) for k in range(count)]
            names = f"{kind}_{post}_label {kind}_{post}"
            more = dict(base_values=bases) if bases else {}
            nodes.append(
                ml("TreeEnsembleClassifier", "X", names, classlabels_int64s=labels, post_transform=post, **more, **attributes)
            )
            outputs.update(zip(names.split(), [I64, F32]))
    return of_nodes(nodes, dict(X=GIVEN), outputs), [GIVEN]


def ensemble():
    """TreeEnsemble, in f64: members of sets, a node that several lead to, a tree of one leaf."""
    tensor = lambda dtype, *items: numpy_helper.from_array(np.array(items, dtype), "t")
    node = ml(
        "TreeEnsemble",
        "X",
        "Y",
        aggregate_function=1,
        n_targets=2,
        tree_roots=[0, 3],
        nodes_modes=tensor(np.uint8, 0, 6, 4, 6),
        nodes_featureids=[0, 1, 2, 3],
        nodes_splits=tensor(np.float64, 0.1, 0.0, 2.0, 0.0),
        nodes_truenodeids=[1, 0, 2, 3],
        nodes_trueleafs=[0, 1, 1, 1],
        nodes_falsenodeids=[2, 1, 3, 0],
        nodes_falseleafs=[0, 1, 1, 1],
        membership_values=tensor(np.float64, 1, 2.5, 3, np.nan, -1, np.nan),
        leaf_targetids=[0, 1, 0, 1],
        leaf_weights=tensor(np.float64, 5.25, 10.5, -2.0, 0.125),
    )
    given = RANDOM.integers(-1, 4, (12, FEATURES)).astype(np.float64)
    given[3, 1] = 2.5
    return of_nodes([node], dict(X=given), dict(Y=TensorProto.DOUBLE), version=5), [given]


def main():
    for name, fitted, data, given, is_map in of_sklearn():
        options = {} if is_map or not hasattr(fitted, "classes_") else {id(fitted): {"zipmap": False}}
        write(name, to_onnx(fitted, data[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3}), [given])
    for make in [labels, trees, classes, ensemble]:
        write(make.__name__, *make())


if __name__ == "__main__":
    main()
