"""An XGBoost model's JSON, checked value by value before XGBoost reads it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from fairboost._typing import IntArray
from fairboost.data.validation import MOST_CLASSES
from fairboost.engines.soundness import (
    MOST_FEATURES,
    check_shape,
    integer,
    integers,
    reals,
    require,
)
from fairboost.engines.xgboost.model_json import INTEGERS
from fairboost.engines.xgboost.objectives import (
    LARGEST,
    NUMBER,
    OBJECTIVES,
    SOFTMAX,
    written_options,
)
from fairboost.exceptions import EngineOptionError, ModelFileError

NO_PARENT = 2**31 - 1
MOST_CATEGORY = 2**24
"""Larger ones have no place in a number of single precision."""
MOST_CATEGORY_BITS = 2**30
"""XGBoost keeps a bit for every category up to the largest, at each node."""
FEATURE_TYPES = ("float", "int", "q", "i", "c", "indicator")


def split_points(document: Any, n_features: int) -> dict[int, list[float]]:
    """Check a model; returns the values at which each feature is split."""
    learner = _get(document, "learner", dict)
    integers(_get(document, "version", list), 3, "version", 0, 10_000)
    n_classes = _check_learner(learner, n_features)
    booster = _get(learner, "gradient_booster", dict)
    dart = booster.get("name") == "dart"
    require(dart or booster.get("name") == "gbtree", "it is neither gbtree nor dart")
    model = _get(_get(booster, "gbtree", dict) if dart else booster, "model", dict)
    trees = _get(model, "trees", list)
    for holder in (booster,) * dart + (model,) * ("weight_drop" in model):  # the latter since 3.3
        reals(holder.get("weight_drop"), len(trees), "weight_drop", LARGEST)
    _check_rounds(model, len(trees), _get(learner, "attributes", dict), n_classes)
    if model.get("cats") is not None:
        _check_categories(_get(model, "cats", dict), n_features)
    found: dict[int, set[float]] = {}
    bits = 0
    for k, tree in enumerate(trees):
        require(isinstance(tree, dict) and tree.get("id") == k, "a tree is out of place")
        for feature, value in _tree(tree, n_features):
            found.setdefault(feature, set()).add(value)
        bits += _category_bits(tree)
        require(bits <= MOST_CATEGORY_BITS, "its categories would take too much memory")
    return {feature: sorted(found[feature]) for feature in sorted(found)}


def _check_learner(learner: dict[str, Any], n_features: int) -> int:
    """Check all but the trees; returns the scores of a row."""
    of_model = _get(learner, "learner_model_param", dict)
    integer(of_model.get("num_feature"), "num_feature", n_features, n_features)
    require(n_features <= MOST_FEATURES, f"it has more than {MOST_FEATURES:,} features")
    objective = _get(learner, "objective", dict)
    several = objective.get("name") == SOFTMAX
    least, most = (3, MOST_CLASSES) if several else (0, 1)
    n_classes = integer(of_model.get("num_class"), "num_class", least, most)
    integer(of_model.get("num_target", "1"), "num_target", 1, 1)
    _check_objective(objective, of_model.get("base_score"), n_classes if several else 1)
    for name in ("feature_names", "feature_types"):
        listed = learner.get(name, [])
        sound = isinstance(listed, list) and len(listed) in (0, n_features)
        require(sound and all(isinstance(v, str) for v in listed), f"{name} are not sound")
    known = set(learner.get("feature_types", [])) <= set(FEATURE_TYPES)
    require(known, "feature_types has one that is not known")
    return n_classes if several else 1


def _check_objective(objective: dict[str, Any], start: Any, n_starts: int) -> None:
    name = objective.get("name")
    require(isinstance(name, str) and name in OBJECTIVES, "the objective is not one known here")
    try:
        written_options(objective)
    except EngineOptionError as error:
        raise ModelFileError(f"its booster is not sound: {error}") from error
    listed = start.strip("[]").split(",") if isinstance(start, str) else []
    require(len(listed) == n_starts, f"base_score is {start!r:.80}")
    least, most = OBJECTIVES[str(name)].starts
    for text in listed:
        number = NUMBER.fullmatch(text)
        value = math.nan if number is None else float(number[1])
        require(least < value < most and abs(value) <= LARGEST, f"base_score is {start!r:.80}")


def _check_rounds(
    model: dict[str, Any], n_trees: int, attributes: dict[str, Any], n_classes: int
) -> None:
    counts = _get(model, "gbtree_model_param", dict)
    integer(counts.get("num_trees"), "num_trees", n_trees, n_trees)
    integer(counts.get("num_parallel_tree"), "num_parallel_tree", 0, max(n_trees, 1))
    integers(model.get("tree_info"), n_trees, "tree_info", 0, n_classes - 1)
    ends = _get(model, "iteration_indptr", list)
    rounds = integers(ends, len(ends), "iteration_indptr", 0, n_trees)
    whole = len(rounds) > 0 and rounds[0] == 0 and rounds[-1] == n_trees
    require(whole and bool((np.diff(rounds) > 0).all()), "rounds do not fit the trees")
    if "best_iteration" in attributes:
        integer(attributes["best_iteration"], "best_iteration", 0, len(rounds) - 2)
    require(all(isinstance(v, str) for v in attributes.values()), "an attribute is no text")


def _check_categories(cats: dict[str, Any], n_features: int) -> None:
    """The names of categories, by which those of new rows are known."""
    listed, ends, order = (_get(cats, k, list) for k in ("enc", "feature_segments", "sorted_idx"))
    if not listed:
        require(not ends and not order, "categories do not fit the features")
        return
    require(len(listed) == n_features, "categories do not fit the features")
    segments = integers(ends, n_features + 1, "feature_segments", 0, len(order))
    sizes = np.diff(segments)
    whole = segments[0] == 0 and segments[-1] == len(order) and bool((sizes >= 0).all())
    require(whole, "feature_segments do not fit the categories")
    for names, size, end in zip(listed, sizes.tolist(), segments[1:].tolist(), strict=True):
        places = integers(order[end - size : end], size, "sorted_idx", 0, max(size - 1, 0))
        known = _category_keys(names, size)
        # XGBoost looks for a category by halves.
        ordered = [known[place] for place in places.tolist()] == sorted(known)
        require(ordered, "sorted_idx has categories not in their order")
        # XGBoost itself may do so to texts that are not ASCII, which it cuts short.
        require(len(set(known)) == size, "a category is there twice, cut short if not ASCII")


def _category_keys(names: Any, size: int) -> list[Any]:
    """The categories of a feature, as XGBoost compares them: numbers, or bytes with a sign."""
    values: list[Any] = _get(names, "values", list)
    if "offsets" not in names:
        require(names.get("type") in [*INTEGERS], "categories are of no known type")
        range_ = np.iinfo(INTEGERS[names["type"]])
        most = min(int(range_.max), 2**63 - 1)
        found = integers(values, size, "values of categories", int(range_.min), most)
        return [*found.tolist()]
    found = integers(values, len(values), "values of categories", -128, 255)
    offsets = _get(names, "offsets", list)
    places = integers(offsets, size + 1 if size else len(offsets), "offsets", 0, 2**31 - 1)
    whole = not size or (places[0] == 0 and places[-1] == len(values))
    require(whole and bool((np.diff(places) >= 0).all()), "offsets do not fit the texts")
    signed = found.astype(np.int8).tolist()
    ends = places.tolist() if size else []
    return [tuple(signed[start:end]) for start, end in pairwise(ends)]


def _tree(tree: dict[str, Any], n_features: int) -> Iterator[tuple[int, float]]:
    """Check a tree; gives features and where they are split."""
    counts = _get(tree, "tree_param", dict)
    left = _get(tree, "left_children", list)
    size = integer(counts.get("num_nodes"), "num_nodes", len(left), len(left))
    require(size > 0, "a tree has no nodes")
    integer(counts.get("num_feature"), "num_feature", n_features, n_features)
    integer(counts.get("size_leaf_vector", "1"), "size_leaf_vector", 0, 1)
    unused = integer(counts.get("num_deleted"), "num_deleted", 0, size - 1)
    lefts = integers(left, size, "left_children", -1, size - 1)
    rights = integers(tree.get("right_children"), size, "right_children", -1, size - 1)
    check_shape(lefts, rights, unused)
    _check_parents(tree, lefts, rights)
    inner = lefts != -1
    most = NO_PARENT if unused else n_features - 1  # a node that was deleted is marked so
    feature = integers(tree.get("split_indices"), size, "split_indices", 0, most)
    require(bool((feature[inner] < n_features).all()), "split_indices has a value out of range")
    kind = integers(tree.get("split_type", [0] * size), size, "split_type", 0, 1)
    require(not kind[~inner].any(), "split_type has categories in a leaf")
    integers(tree.get("default_left"), size, "default_left", 0, 1)
    for name in ("base_weights", "loss_changes", "sum_hessian"):
        reals(tree.get(name), size, name, LARGEST)
    at = reals(tree.get("split_conditions"), size, "split_conditions", math.inf)
    # XGBoost 3.4 parts missing values from others at minus infinity; a leaf has its value here.
    known = (np.abs(at) <= LARGEST) | (np.isinf(at) & inner)
    require(bool(known.all()), "split_conditions has a number out of range")
    at = np.clip(at, -LARGEST, LARGEST)
    categories = _categories(tree, np.flatnonzero(inner & (kind == 1)))
    for node in np.flatnonzero(inner).tolist():
        values = categories[node] if kind[node] else [at[node]]
        yield from ((int(feature[node]), float(value)) for value in values)


def _check_parents(tree: dict[str, Any], left: IntArray, right: IntArray) -> None:
    parents = integers(tree.get("parents"), len(left), "parents", 0, NO_PARENT)
    inner = np.flatnonzero(left != -1)
    sound = parents[0] == NO_PARENT and all(
        (parents[children[inner]] == inner).all() for children in (left, right)
    )
    require(sound, "parents do not fit the children")


def _categories(tree: dict[str, Any], nodes: IntArray) -> dict[int, list[int]]:
    """Categories that go to the right, by node."""
    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    listed, of, starts, sizes = (_get(tree, name, list) for name in names)
    known = integers(listed, len(listed), "categories", 0, MOST_CATEGORY)
    found = integers(of, len(nodes), "categories_nodes", 0, NO_PARENT)
    require(bool((found == nodes).all()), "categories_nodes are not the nodes of categories")
    counts = integers(sizes, len(nodes), "categories_sizes", 1, max(len(listed), 1))
    begins = integers(starts, len(nodes), "categories_segments", 0, max(len(listed), 1))
    ends = np.cumsum(counts)
    whole = bool((begins == ends - counts).all()) and (ends[-1:] == len(listed)).all()
    require(whole and (len(nodes) > 0 or not listed), "categories do not fit their nodes")
    return {
        node: known[a : a + n].tolist()
        for node, a, n in zip(found.tolist(), begins, counts, strict=True)
    }


def _category_bits(tree: dict[str, Any]) -> int:
    """A bound on the bits that the categories of a tree take."""
    return (max(tree["categories"], default=0) + 1) * len(tree["categories_nodes"])


def _get(document: Any, name: str, kind: type) -> Any:
    value = document.get(name) if isinstance(document, dict) else None
    require(isinstance(value, kind), f"{name} is missing or of another kind")
    return value
