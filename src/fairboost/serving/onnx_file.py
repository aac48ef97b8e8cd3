"""ONNX: trees, probability and decision in one graph.

The graph computes in double precision by the operator ``TreeEnsemble`` (``ai.onnx.ml`` 5), so a
value and a threshold are compared as LightGBM compares them. XGBoost rounds features and scores to
single precision, and so does its graph. Inputs have the names of the features and one column
each; categories of text are passed as text. Without names there is one input, ``X``.

Outputs are ``probability``, a column for each class, and ``label``, the decision in the user's own
labels; or ``prediction`` where a number is predicted. Two labels are decided by comparing the
score with the least score that is decided positively: the threshold is a constant of the graph.

With ``matrix`` there is one input ``X`` of all features, and numbers come in and go out in single
precision.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.engines.ensemble import ZERO, Ensemble, Feature
from fairboost.exceptions import ExportError
from fairboost.serving.optional import needing
from fairboost.serving.served import Answers, CheckedOn, Decision, Served

ML = "ai.onnx.ml"
OPSETS = {"": 18, ML: 5}
IR_VERSION = 9
BELOW_OR_EQUAL, BELOW, MEMBER = 0, 1, 6
"""Numbers that ONNX has for the ways in which a node splits."""
SUM, AS_IT_IS = 1, 0
LEAST_SINGLE = -88.7
"""The least score that XGBoost takes the exponential of."""
OUTPUTS = ("probability", "label", "prediction")


def write(served: Served, path: Path, *, matrix: bool = False) -> None:
    """Write the graph."""
    _check_features(served, matrix)
    graph = Graph("float" if matrix else "double")
    ensemble = served.trained.ensemble()
    scores = _scores(graph, ensemble, _rows(graph, served, ensemble, matrix))
    if served.decision is None:
        _number(graph, scores, served.trained.log_link)
    elif served.decision.several:
        _classes(graph, served.decision, scores)
    else:
        _two_labels(graph, served.decision, scores, ensemble.single)
    notes = {f"fairboost_{name}": str(value) for name, value in served.notes.items()}
    path.write_bytes(graph.serialized(notes))


def read(served: Served, path: Path, rows: CheckedOn, *, matrix: bool = False) -> Answers:
    """What ONNX Runtime says."""
    with needing("onnx"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        path.read_bytes(), options, providers=["CPUExecutionProvider"]
    )
    given = {"X": rows.codes.astype(np.float32)} if matrix else feed(served, rows.codes)
    found = session.run(None, given)
    return Answers(found[0]) if served.decision is None else Answers(*found)


def feed(served: Served, codes: FloatArray) -> dict[str, np.ndarray]:
    """The inputs of the graph, given rows as numbers and codes of categories."""
    if not served.named:
        return {"X": codes}
    found: dict[str, np.ndarray] = {}
    for k, feature in enumerate(served.features):
        column = codes[:, [k]]
        if feature.categories is not None:
            texts = feature.is_text
            known = np.array([*feature.categories, "" if texts else np.nan], object)
            places = np.where(np.isnan(column), len(known) - 1, column).astype(np.int64)
            column = known[places].astype(object if texts else np.float64)
        found[feature.name] = column
    return found


def _check_features(served: Served, matrix: bool) -> None:
    """Refuse features that the graph cannot read as the model does."""
    for feature in served.features:
        if matrix and feature.categories is not None:
            raise ExportError(
                f"the column {feature.name!r} has categories, and the input of 'onnx_float32' is "
                "one matrix of numbers; use format='onnx', or train on numbers"
            )
        if feature.kind == "unknown":
            raise ExportError(
                "the model has ordered categories, or categorical_feature beside categories of "
                "pandas, and LightGBM's text does not say which columns these are; train on "
                "categories without an order, or on numbers"
            )
        if served.named and not matrix and feature.name in (*OUTPUTS, ""):
            raise ExportError(
                f"the feature {feature.name!r} has the name of an output of the graph, or none; "
                "rename the column and train again"
            )
        known = feature.categories or ()
        if not feature.is_text and not all(type(value) in (int, float) for value in known):
            raise ExportError(
                f"the categories of {feature.name!r} are neither text nor numbers, found "
                f"{known[0]!r}; train on text, such as "
                f"X[{feature.name!r}].astype(str).astype('category')"
            )


class Graph:
    """Nodes and constants of a graph, in the order in which they are computed.

    Parameters
    ----------
    kind : {"double", "float"}
        The type of the numbers that it returns.
    """

    def __init__(self, kind: str) -> None:
        with needing("onnx"):
            import onnx
        self.onnx: Any = onnx
        self.kind = kind
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node; returns the name of what it computes."""
        name = name or f"fairboost.{len(self.nodes)}.{operator}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """A constant; returns its name."""
        name = f"fairboost.constant.{len(self.constants)}"
        self.constants.append(self.tensor(values, name))
        return name

    def tensor(self, values: Any, name: str = "values") -> Any:
        """An array as ONNX has it."""
        array = np.asarray(values)
        if array.dtype.kind in "OU":
            texts = [text.encode() for text in array.tolist()]
            return self.onnx.helper.make_tensor(name, self._type("string"), array.shape, texts)
        return self.onnx.numpy_helper.from_array(array, name)

    def cast(self, value: str, kind: str, name: str = "") -> str:
        """A value in another type."""
        return self.add("Cast", value, name=name, to=self._type(kind))

    def declare(self, where: list[Any], name: str, kind: str, *columns: int) -> str:
        """An input or output of the graph, with a line for each row."""
        shape = ["rows", *columns]
        info = self.onnx.helper.make_tensor_value_info(name, self._type(kind), shape)
        where.append(info)
        return name

    def number(self, value: str, name: str, *columns: int) -> None:
        """An output of numbers."""
        self.cast(value, self.kind, name)
        self.declare(self.outputs, name, self.kind, *columns)

    def _type(self, kind: str) -> int:
        return int(getattr(self.onnx.TensorProto, kind.upper()))

    def serialized(self, notes: dict[str, str]) -> bytes:
        """The whole as a file, checked."""
        helper = self.onnx.helper
        parts = self.nodes, "fairboost", self.inputs, self.outputs, self.constants
        model = helper.make_model(
            helper.make_graph(*parts),
            opset_imports=[helper.make_opsetid(*opset) for opset in OPSETS.items()],
            ir_version=IR_VERSION,
            producer_name="fairboost",
        )
        helper.set_model_props(model, notes)
        self.onnx.checker.check_model(model, full_check=True)
        found: bytes = model.SerializeToString()
        return found


def _rows(graph: Graph, served: Served, trees: Ensemble, matrix: bool) -> str:
    """Inputs, as one table of numbers in which categories are codes."""
    if matrix:
        # Compared as double: a single number then goes the way that it goes in the model.
        given = graph.declare(graph.inputs, "X", "float", len(served.features))
        rows = graph.cast(given, "double")
    elif served.named:
        columns = [_column(graph, feature) for feature in served.features]
        rows = graph.add("Concat", *columns, axis=1)
    else:
        rows = graph.declare(graph.inputs, "X", "double", len(served.features))
    if trees.single:
        rows = graph.cast(graph.cast(rows, "float"), "double")
    if not math.isnan(trees.missing):
        taken = graph.add("Equal", rows, graph.constant(np.array(trees.missing)))
        rows = graph.add("Where", taken, graph.constant(np.array(np.nan)), rows)
    if trees.zero_missing:
        listed = [[k in trees.zero_missing for k in range(len(served.features))]]
        zero = graph.add("LessOrEqual", graph.add("Abs", rows), graph.constant(np.array(ZERO)))
        zero = graph.add("And", zero, graph.constant(np.array(listed)))
        rows = graph.add("Where", zero, graph.constant(np.array(np.nan)), rows)
    coded = [f.kind == "category" and f.categories is None for f in served.features]
    if any(coded):  # engines cut off what comes after the point
        whole = graph.add("Floor", graph.add("Abs", rows))
        whole = graph.add("Mul", graph.add("Sign", rows), whole)
        rows = graph.add("Where", graph.constant(np.array([coded])), whole, rows)
    return rows


def _column(graph: Graph, feature: Feature) -> str:
    """The input of a feature; of a category its code, NaN where it is not known."""
    known = feature.categories
    if known is None:
        return graph.declare(graph.inputs, feature.name, "double", 1)
    texts = feature.is_text
    given = graph.declare(graph.inputs, feature.name, "string" if texts else "double", 1)
    return graph.add(
        "LabelEncoder",
        given,
        domain=ML,
        keys_tensor=graph.tensor(np.array(known, object if texts else np.float64)),
        values_tensor=graph.tensor(np.arange(len(known), dtype=np.float64)),
        default_tensor=graph.tensor(np.array([np.nan])),
    )


def _scores(graph: Graph, trees: Ensemble, rows: str) -> str:
    """The scores of rows, a column for each output of the trees."""
    is_leaf, n_scores = trees.feature < 0, len(trees.start)
    alone = is_leaf[trees.roots]  # a tree of one leaf adds the same to every row
    start = trees.start.copy()
    np.add.at(start, trees.outputs[alone], trees.value[trees.roots[alone]])
    roots = trees.roots[~alone]
    if not len(roots):
        n = graph.add("Shape", rows, start=0, end=1)
        shape = graph.add("Concat", n, graph.constant(np.array([n_scores])), axis=0)
        return graph.add("Expand", graph.constant(start[np.newaxis]), shape)
    sums = graph.add(
        "TreeEnsemble",
        rows,
        domain=ML,
        n_targets=n_scores,
        aggregate_function=SUM,
        post_transform=AS_IT_IS,
        **_nodes(graph, trees, roots),
    )
    return graph.add("Add", sums, graph.constant(start[np.newaxis]))


def _nodes(graph: Graph, trees: Ensemble, roots: IntArray) -> dict[str, Any]:
    """The trees as attributes: inner nodes and leaves are counted apart."""
    tree_of = np.searchsorted(trees.roots, np.arange(len(trees.feature)), side="right") - 1
    kept = np.isin(trees.roots[tree_of], roots)
    inner, leaf = kept & (trees.feature >= 0), kept & (trees.feature < 0)
    place = np.where(inner, np.cumsum(inner), np.cumsum(leaf)) - 1
    left, right = trees.left[inner], trees.right[inner]
    member = np.isin(np.flatnonzero(inner), list(trees.categories))
    modes = np.where(member, MEMBER, BELOW if trees.strict else BELOW_OR_EQUAL)
    found = {
        "tree_roots": _whole(place[roots]),
        "nodes_featureids": _whole(trees.feature[inner]),
        "nodes_modes": graph.tensor(modes.astype(np.uint8)),
        "nodes_splits": graph.tensor(trees.threshold[inner]),
        "nodes_truenodeids": _whole(place[left]),
        "nodes_trueleafs": _whole(leaf[left]),
        "nodes_falsenodeids": _whole(place[right]),
        "nodes_falseleafs": _whole(leaf[right]),
        "nodes_missing_value_tracks_true": _whole(trees.missing_left[inner]),
        "leaf_targetids": _whole(trees.outputs[tree_of[leaf]]),
        "leaf_weights": graph.tensor(trees.value[leaf]),
    }
    if member.any():  # sets are set apart by NaN
        nodes = np.flatnonzero(inner)[member].tolist()
        values = [value for node in nodes for value in (*trees.categories[node], np.nan)]
        found["membership_values"] = graph.tensor(np.array(values, np.float64))
    return found


def _whole(values: IntArray | BoolArray) -> list[int]:
    return [int(value) for value in values.tolist()]


def _two_labels(graph: Graph, decision: Decision, scores: str, single: bool) -> None:
    """Probabilities of two labels, and the label that a score leads to."""
    kind = np.float32 if single else np.float64
    if single:
        scores = graph.cast(scores, "float")
    least = graph.constant(np.array(decision.least_score(single), kind))
    positive = graph.add("GreaterOrEqual", scores, least)
    kept = graph.add("Max", scores, graph.constant(kind(LEAST_SINGLE))) if single else scores
    proba = graph.cast(graph.add("Sigmoid", kept), "double")
    other = graph.add("Sub", graph.constant(np.array(1.0)), proba)
    columns = [other, proba] if decision.positive else [proba, other]
    graph.number(graph.add("Concat", *columns, axis=1), "probability", 2)
    place = graph.add("Squeeze", graph.cast(positive, "int64"), graph.constant(np.array([1])))
    labels = decision.classes if decision.positive else decision.classes[::-1]
    _label(graph, place, labels)


def _classes(graph: Graph, decision: Decision, scores: str) -> None:
    """Probabilities of several classes, and the class that is given."""
    proba = graph.add("Softmax", scores, axis=1)
    graph.number(proba, "probability", len(decision.classes))
    costs = decision.unit_costs
    if costs is None:
        place = graph.add("ArgMax", proba, axis=1, keepdims=0)
    else:
        expected = graph.add("MatMul", proba, graph.constant(costs))
        place = graph.add("ArgMin", expected, axis=1, keepdims=0)
    _label(graph, place, decision.classes)


def _label(graph: Graph, place: str, labels: np.ndarray) -> None:
    """The output of decisions; ``labels`` are in the order of places."""
    kind, values = label_type(labels)
    graph.add("Gather", graph.constant(values), place, name="label")
    graph.declare(graph.outputs, "label", kind)


def label_type(labels: np.ndarray) -> tuple[str, np.ndarray]:
    """The type that labels have in the graph, and the labels in this type."""
    kinds = {"i": "int64", "u": "int64", "b": "bool", "f": "double", "U": "string"}
    kind = kinds.get(labels.dtype.kind)
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels.tolist()):
        kind = "string"
    if kind is None:
        raise ExportError(
            f"labels of type {labels.dtype} have no form in ONNX, found {labels.tolist()[0]!r}; "
            "train on labels that are text, numbers or booleans"
        )
    return kind, labels.astype(object if kind == "string" else np.dtype(kind))


def _number(graph: Graph, scores: str, log_link: bool) -> None:
    """The number that a score stands for."""
    column = graph.add("Squeeze", scores, graph.constant(np.array([1])))
    graph.number(graph.add("Exp", column) if log_link else column, "prediction")
