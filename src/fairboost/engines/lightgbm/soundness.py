"""A LightGBM model's text, checked line by line before LightGBM reads it."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.engines.lightgbm.kinds import STOCK_OBJECTIVES
from fairboost.engines.lightgbm.multiclass import OBJECTIVES as NAMES
from fairboost.engines.lightgbm.text import split_text
from fairboost.engines.soundness import check_shape, integer, integers, reals, require

MULTICLASS = NAMES[0]

MOST_LINES = 22
"""LightGBM reads no more lines of a tree."""

# What each field of a tree holds: integers or other numbers, one per inner node or per leaf.
INNER_INTEGERS = ("split_feature", "decision_type", "left_child", "right_child")
LEAF_REALS = ("leaf_value", "leaf_const")
INFORMATION = {
    "split_gain": "inner", "internal_value": "inner", "internal_weight": "inner",
    "internal_count": "inner", "leaf_weight": "leaf", "leaf_count": "leaf",
}  # fmt: skip
LINEAR = ("leaf_features", "leaf_coeff")
CATEGORICAL, MISSING_TYPES = 1, 12  # bits of decision_type; the missing types are 0, 4 and 8
LARGEST = 2**31 - 1

MOST, LEAST = sys.float_info.max, sys.float_info.min

_INTEGER = re.compile(r"-?\d{1,10}", re.ASCII)
_NUMBER = re.compile(r"[-+]?(\d{1,400}(\.\d{0,400})?(e[-+]?\d{1,3})?|inf|nan)", re.ASCII)
_NAMED = re.compile(r"\w+=", re.ASCII)
_PARAMETER = re.compile(r"\[\w+: .*\]", re.ASCII)


def split_points(
    text: str, n_features: int, objectives: Sequence[str] = STOCK_OBJECTIVES
) -> dict[int, list[float]]:
    """Check a model's text; returns the values at which each feature is split.

    Parameters
    ----------
    text : str
        The model.
    n_features : int
        Number of its features.
    objectives : sequence of str
        What its objective may be.
    """
    require(not re.search(r"[\x00-\x08\x0b-\x1f]", text), "it has control characters")
    require(text.startswith("tree\n") and text.count("end of trees\n") == 1, "it has no trees")
    head, trees, tail = split_text(text)
    n_classes = _check_head(head, trees, n_features, objectives)
    require(len(trees) % n_classes == 0, "it has rounds without a tree for every class")
    _check_tail(tail, n_features, bool(trees))
    found: dict[int, set[float]] = {}
    for k, tree in enumerate(trees):
        for feature, value in _tree(tree, k, n_features):
            found.setdefault(feature, set()).add(value)
    return {feature: sorted(found[feature]) for feature in sorted(found)}


def _check_head(head: str, trees: list[str], n_features: int, objectives: Sequence[str]) -> int:
    """Check what stands before the trees; returns the trees of a round."""
    fields = fields_of(head.split("\n")[1:])
    objective = fields.get("objective", "")
    several = re.fullmatch(r"multiclass num_class:(\d{1,4})", objective, re.ASCII)
    per_round = several[1] if several else "1"
    for name, value in {
        "num_class": per_round,
        "num_tree_per_iteration": per_round,
        "label_index": "0",
        "max_feature_idx": str(n_features - 1),
        "tree_sizes": " ".join(str(len(tree.encode())) for tree in trees),
    }.items():
        require(fields.get(name) == value, f"{name} is not {value[:80]}")
    known = objective in objectives or (several is not None and MULTICLASS in objectives)
    require(known, f"objective is not {' or '.join(objectives)}")
    for name in ("feature_names", "feature_infos"):
        require(len(fields.get(name, "").split(" ")) == n_features, f"{name} are too few or many")
    if "monotone_constraints" in fields:
        integers(_split(fields, "monotone_constraints", _INTEGER), n_features, "they", -1, 1)
    return max(int(per_round), 1)


def _check_tail(tail: str, n_features: int, has_trees: bool) -> None:
    """The options of training, which LightGBM parses, and the categories of columns."""
    _, found, rest = tail.partition("\nparameters:\n")
    options, end, rest = rest.partition("\nend of parameters\n")
    if not has_trees and not found:  # LightGBM does not write them without trees
        options, end, rest = "", "none", tail
    require(bool(found or not has_trees) and bool(end), "its parameters are missing")
    lines = filter(None, options.split("\n"))
    require(all(map(_PARAMETER.fullmatch, lines)), "its parameters have a line of another form")
    _, found, categories = rest.rpartition("\npandas_categorical:")
    listed: Any = json.loads(categories) if found else None
    if listed is None:
        return
    lists = isinstance(listed, list) and all(isinstance(values, list) for values in listed)
    require(lists, "pandas_categorical is no list of lists")
    require(len(listed) <= n_features, "pandas_categorical has more columns than there are")
    for values in listed:
        plain = all(isinstance(value, str | int | float) for value in values)
        plain = plain and not re.search("[\ud800-\udfff]", "".join(map(str, values)))
        require(plain, "pandas_categorical has a category that is no plain value")
        require(len(set(values)) == len(values), "a category of pandas_categorical is there twice")


def _tree(text: str, number: int, n_features: int) -> list[tuple[int, float]]:
    """Check a tree; returns features and where they are split."""
    start, *lines = text.rstrip("\n").split("\n")
    require(start == f"Tree={number}" and len(lines) <= MOST_LINES, "a tree is out of place")
    require("" not in lines, "a tree is cut in two")
    # LightGBM looks for the next equals sign, on whatever line that is.
    require(all(map(_NAMED.match, lines)), "a line of a tree has no name")
    fields = fields_of(lines)
    n_leaves = integer(fields.get("num_leaves"), "num_leaves", 1, len(text))
    n_inner = n_leaves - 1
    named = {name: _split(fields, name, _INTEGER) for name in INNER_INTEGERS}
    limits = {
        "split_feature": (0, n_features - 1),
        "decision_type": (0, MISSING_TYPES - 1),
        "left_child": (-n_leaves, n_inner),
        "right_child": (-n_leaves, n_inner),
    }
    feature, kind, left, right = (
        integers(named[name], n_inner, name, *limits[name]) for name in INNER_INTEGERS
    )
    check_shape(_children(left, n_leaves), _children(right, n_leaves))
    # Where a tree parts missing values from all others, its threshold is infinite.
    threshold = np.clip(_reals(fields, "threshold", n_inner, math.inf), -MOST, MOST)
    for name in LEAF_REALS:
        if name == "leaf_value" or name in fields:
            _reals(fields, name, n_leaves)
    for name, of in INFORMATION.items():
        count = len(_split(fields, name, _NUMBER))
        expected = n_inner if of == "inner" else n_leaves
        # A tree of one leaf says nothing of its weight.
        require(count == expected or (n_leaves == 1 and not count), f"{name} has {count} values")
    _reals(fields, "shrinkage", 1)
    _check_linear(fields, n_leaves, n_features)
    categories = category_sets(fields, threshold[kind & CATEGORICAL > 0])
    numeric = kind & CATEGORICAL == 0
    points = list(zip(feature[numeric].tolist(), threshold[numeric].tolist(), strict=True))
    for f, values in zip(feature[~numeric].tolist(), categories, strict=True):
        points += [(f, float(value)) for value in values]
    return points


def _children(child: IntArray, n_leaves: int) -> IntArray:
    """Children by the number of the node; leaves, which have numbers of their own, come last."""
    n_inner = n_leaves - 1
    of_inner = np.where(child >= 0, child, n_inner - 1 - child)
    return np.concatenate([of_inner, np.full(n_leaves, -1)]).astype(np.int64)


def category_sets(fields: dict[str, str], places: FloatArray) -> list[list[int]]:
    """Categories that go to the left at each of the nodes whose places in the list are given."""
    n_cat = integer(fields.get("num_cat"), "num_cat", 0, LARGEST)
    if not n_cat:
        require(not len(places), "a tree has categories that are not listed")
        return []
    words = _split(fields, "cat_threshold", _INTEGER)
    bits = integers(words, len(words), "cat_threshold", 0, 2**32 - 1)
    bounds = _split(fields, "cat_boundaries", _INTEGER)
    ends = integers(bounds, n_cat + 1, "cat_boundaries", 0, len(bits))
    require(
        ends[0] == 0 and ends[-1] == len(bits) and bool((np.diff(ends) > 0).all()),
        "cat_boundaries do not fit cat_threshold",
    )
    known = bool(np.isin(places, np.arange(n_cat)).all())
    require(known, "a tree has categories that are not listed")
    found = []
    for k in places.astype(np.int64).tolist():
        words_of = bits[ends[k] : ends[k + 1]].astype("<u4").view(np.uint8)
        found.append(np.flatnonzero(np.unpackbits(words_of, bitorder="little")).tolist())
    return found


def _check_linear(fields: dict[str, str], n_leaves: int, n_features: int) -> None:
    is_linear = integer(fields.get("is_linear", "0"), "is_linear", 0, 1)
    if not is_linear:
        return
    _linear_reals(fields, "leaf_const", n_leaves)
    listed = _split(fields, "num_features", _INTEGER)
    total = int(integers(listed, n_leaves, "num_features", 0, n_features).sum())
    used = _split(fields, "leaf_features", _INTEGER)
    integers(used, total, "leaf_features", 0, n_features - 1)
    _linear_reals(fields, "leaf_coeff", total)


def _linear_reals(fields: dict[str, str], name: str, size: int) -> None:
    """Check numbers that LightGBM reads by ``stod``, which fails below the normal ones.

    It reads trees in several threads, out of which no error comes: the process ends.
    """
    _reals(fields, name, size)
    for text in _split(fields, name, _NUMBER):
        zero = not re.search("[1-9]", text.partition("e")[0])
        require(zero or abs(float(text)) > LEAST, f"{name} has {text:.80}, too small a number")


def fields_of(lines: Sequence[str]) -> dict[str, str]:
    """Lines of names and values; LightGBM reads a line up to the first equals sign."""
    pairs = [line.partition("=") for line in lines if line]
    require(len({name for name, _, _ in pairs}) == len(pairs), "a line is there twice")
    return {name: value for name, _, value in pairs}


def _reals(fields: dict[str, str], name: str, size: int, most: float = MOST) -> FloatArray:
    return reals(list(map(float, _split(fields, name, _NUMBER))), size, name, most)


def _split(fields: dict[str, str], name: str, form: re.Pattern[str]) -> list[Any]:
    """The values of a line, as text; integers as such."""
    text = fields.get(name, "")
    values = text.split(" ") if text else []
    if name in LINEAR:  # leaves are set apart by further blanks
        values = list(filter(None, values))
    wrong = next((value for value in values if not form.fullmatch(value)), None)
    require(wrong is None, f"{name} has {wrong!r:.80}")
    return list(map(int, values)) if form is _INTEGER else values
