"""The trees of LightGBM's text format as plain arrays, and the features that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import FloatArray
from fairboost.engines.ensemble import Ensemble, Feature
from fairboost.engines.lightgbm.soundness import CATEGORICAL, category_sets, fields_of
from fairboost.engines.lightgbm.text import split_text
from fairboost.exceptions import ExportError

DEFAULT_LEFT, ZERO_IS_MISSING, NAN_IS_MISSING = 2, 4, 8  # bits of decision_type
ARRAYS = {
    "feature": np.int64, "threshold": np.float64, "left": np.int64, "right": np.int64,
    "missing_left": np.bool_, "value": np.float64,
}  # fmt: skip


def read_ensemble(text: str, n_classes: int) -> Ensemble:
    """The trees of a model's text, which is sound.

    Parameters
    ----------
    text : str
        The model.
    n_classes : int
        Classes that it tells apart; each round then has as many trees, two classes have one.
    """
    per_round = n_classes if n_classes > 2 else 1
    trees = [_tree(tree) for tree in split_text(text)[1]]
    sizes = [len(tree["feature"]) for tree in trees]
    roots = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    categories: dict[int, list[int]] = {}
    for tree, root in zip(trees, roots.tolist(), strict=True):
        for side in ("left", "right"):
            tree[side] = np.where(tree[side] < 0, -1, tree[side] + root)
        categories |= {root + node: values for node, values in tree.pop("categories").items()}
    arrays: dict[str, Any] = {
        name: np.concatenate([np.empty(0, kind), *(tree[name] for tree in trees)])
        for name, kind in ARRAYS.items()
    }
    return Ensemble(
        **arrays,
        categories=categories,
        roots=roots,
        outputs=np.arange(len(trees)) % per_round,
        start=np.zeros(per_round),
        strict=False,
        single=False,
    )


def _tree(text: str) -> dict[str, Any]:
    """The nodes of a tree: inner ones first, then leaves."""
    fields = fields_of(text.rstrip("\n").split("\n")[1:])
    if fields.get("is_linear", "0") == "1":
        raise ExportError(
            "the model has linear trees (linear_tree=True), which ONNX, treelite and C code of "
            "tl2cgen do not have; use format='lightgbm', or train without linear_tree"
        )
    leaves = _numbers(fields, "leaf_value")
    feature, kind, left, right = (
        _numbers(fields, name).astype(np.int64)
        for name in ("split_feature", "decision_type", "left_child", "right_child")
    )
    threshold, n_inner = _numbers(fields, "threshold"), len(feature)
    missing_left = _missing_left(kind, threshold)
    nodes = np.flatnonzero(kind & CATEGORICAL)
    sets = category_sets(fields, threshold[nodes])
    threshold[nodes] = 0.0
    missing_left[nodes] = False  # LightGBM sends a missing category to the right
    none, zeros = np.full(len(leaves), -1), np.zeros(len(leaves))
    return {
        "feature": np.concatenate([feature, none]),
        "threshold": np.concatenate([threshold, zeros]),
        "left": np.concatenate([_child(left, n_inner), none]),
        "right": np.concatenate([_child(right, n_inner), none]),
        "missing_left": np.concatenate([missing_left, zeros > 0]),
        "value": np.concatenate([np.zeros(n_inner), leaves]),
        "categories": dict(zip(nodes.tolist(), sets, strict=True)),
    }


def _missing_left(kind: Any, threshold: FloatArray) -> Any:
    """Where missing values go: a node without any in training takes them for 0."""
    zero_left, default_left = threshold >= 0, kind & DEFAULT_LEFT > 0
    apart = (kind & ZERO_IS_MISSING > 0) & (kind & CATEGORICAL == 0) & (zero_left != default_left)
    if apart.any():
        raise ExportError(
            "the model takes zeros for missing values (zero_as_missing=True), which ONNX, "
            "treelite and C code of tl2cgen do not; use format='lightgbm', or train without "
            "zero_as_missing"
        )
    return np.where(kind & (ZERO_IS_MISSING | NAN_IS_MISSING) > 0, default_left, zero_left)


def with_known_ways(text: str) -> str:
    """The same model, every node of which says where missing values go.

    LightGBM takes a missing value for 0 in a node without missing values in training. Readers of
    others do not know about it.
    """
    head, trees, tail = split_text(text)
    for k, tree in enumerate(trees):
        fields = fields_of(tree.rstrip("\n").split("\n")[1:])
        kind = _numbers(fields, "decision_type").astype(np.int64)
        numeric = kind & CATEGORICAL == 0
        left = _missing_left(kind, _numbers(fields, "threshold"))
        known = np.where(numeric, NAN_IS_MISSING + DEFAULT_LEFT * left, kind)
        line = "decision_type=" + " ".join(map(str, known.tolist()))
        trees[k] = re.sub(r"(?m)^decision_type=.*$", line, tree)
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    head = re.sub(r"(?m)^tree_sizes=.*$", f"tree_sizes={sizes}", head)
    return head + "".join(trees) + tail


def _child(child: Any, n_inner: int) -> Any:
    """Children by their place: leaves, which LightGBM counts down from -1, come last."""
    return np.where(child >= 0, child, n_inner - 1 - child)


def _numbers(fields: dict[str, str], name: str) -> FloatArray:
    return np.array(fields.get(name, "").split(), np.float64)


def read_features(text: str, names: Sequence[str]) -> tuple[Feature, ...]:
    """The features, with the categories that LightGBM remembers from pandas.

    Parameters
    ----------
    text : str
        The model.
    names : sequence of str
        What the features are called.
    """
    found = re.search(r"(?m)^\[categorical_feature: ([\d,]*)\]$", text)
    columns = [int(k) for k in found[1].split(",") if k] if found else []
    listed: Any = json.loads(text.rpartition("\npandas_categorical:")[2] or "null") or []
    if listed and len(listed) != len(columns):
        # Ordered categories are listed and are numbers to LightGBM: which ones, it does not say.
        return tuple(Feature(name, "unknown") for name in names)
    values = map(tuple, listed) if listed else [None] * len(columns)
    known = dict(zip(sorted(columns), values, strict=True))
    return tuple(
        Feature(name, "category", known[k]) if k in known else Feature(name)
        for k, name in enumerate(names)
    )
