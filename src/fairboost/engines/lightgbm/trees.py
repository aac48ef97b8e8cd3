"""The trees of LightGBM's text format as plain arrays, and the features that it names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import FloatArray
from fairboost.engines.ensemble import ZERO, Ensemble, Feature
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
    zero_missing, zero_known = (
        set[int]().union(*(tree[name] for tree in trees))
        for name in ("zero_missing", "zero_known")
    )
    if zero_missing & zero_known:
        raise ExportError(
            "0 is a missing value to some trees of the model and a number to others, because "
            "zero_as_missing was changed between them; use format='lightgbm'"
        )
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
        zero_missing=frozenset(zero_missing),
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
    missing_left, parts_zero = _missing_left(kind, threshold), _parts_zero(kind, threshold)
    nodes = np.flatnonzero(kind & CATEGORICAL)
    sets = category_sets(fields, threshold[nodes])
    threshold = _for_all_numbers(threshold)
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
        "zero_missing": set(feature[parts_zero].tolist()),
        "zero_known": set(feature[kind & NAN_IS_MISSING > 0].tolist()),
    }


def _missing_left(kind: Any, threshold: FloatArray) -> Any:
    """Where missing values go: a node without any in training takes them for 0."""
    zero_left, default_left = threshold >= 0, kind & DEFAULT_LEFT > 0
    return np.where(kind & (ZERO_IS_MISSING | NAN_IS_MISSING) > 0, default_left, zero_left)


def _parts_zero(kind: Any, threshold: FloatArray) -> Any:
    """Nodes that send 0, as a missing value, to the other side than numbers next to it."""
    as_missing = (kind & ZERO_IS_MISSING > 0) & (kind & CATEGORICAL == 0)
    return as_missing & (_missing_left(kind, threshold) != (threshold >= 0))


def _for_all_numbers(threshold: FloatArray) -> FloatArray:
    """Thresholds that send every number where LightGBM sends it.

    LightGBM writes -1e-35, in single precision, between negative values and zero, but takes this
    very number for 0 as well. So the next number below parts them.
    """
    beyond = np.where(threshold < 0, np.nextafter(-ZERO, -np.inf), ZERO)
    return np.where(np.abs(threshold) <= ZERO, beyond, threshold)


def with_known_ways(text: str) -> str:
    """The same model, whose nodes say where missing values and the numbers next to 0 go.

    LightGBM takes a missing value for 0 in a node without missing values in training. Readers of
    others do not know about it.
    """
    head, trees, tail = split_text(text)
    for k, tree in enumerate(trees):
        fields = fields_of(tree.rstrip("\n").split("\n")[1:])
        kind, threshold = _numbers(fields, "decision_type").astype(np.int64), fields["threshold"]
        at = _numbers(fields, "threshold")
        if _parts_zero(kind, at).any():
            raise ExportError(
                "the model takes zeros for missing values (zero_as_missing=True), which treelite "
                "and C code of tl2cgen do not; use format='lightgbm' or 'onnx', or train without "
                "zero_as_missing"
            )
        numeric = kind & CATEGORICAL == 0
        ways = np.where(numeric, NAN_IS_MISSING + DEFAULT_LEFT * _missing_left(kind, at), kind)
        known = np.where(numeric, _for_all_numbers(at), at)
        written = [
            old if number == new else repr(new)
            for old, number, new in zip(threshold.split(), at, known.tolist(), strict=True)
        ]
        for name, values in (("decision_type", map(str, ways.tolist())), ("threshold", written)):
            tree = re.sub(rf"(?m)^{name}=.*$", f"{name}={' '.join(values)}", tree)
        trees[k] = tree
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
