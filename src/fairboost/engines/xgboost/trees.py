"""The trees of XGBoost's JSON model as plain arrays, and the features that it names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logit

from fairboost._typing import Float32Array, FloatArray
from fairboost.engines.ensemble import Ensemble, Feature
from fairboost.engines.xgboost.model_json import as_text, parts_with_trees, read_categories
from fairboost.engines.xgboost.objectives import LOGISTIC, OBJECTIVES
from fairboost.kernel.losses import Loss


def read_ensemble(text: str) -> Ensemble:
    """The trees of a booster as ``Booster.save_raw("json")`` gives it, which is sound."""
    document = json.loads(text)
    model, weights = parts_with_trees(document)
    # XGBoost 3.4 has the factors of DART with the trees.
    weights = weights or model.get("weight_drop") or [1.0] * len(model["trees"])
    trees, categories, begin = [], dict[int, list[int]](), 0
    roots = []
    for tree, weight in zip(model["trees"], weights, strict=True):
        nodes, sets = _tree(tree, np.float32(weight), begin)
        categories |= sets
        trees.append(nodes)
        roots.append(begin)
        begin += len(nodes["feature"])
    empty = _tree(_NO_NODES, np.float32(1.0), 0)[0]
    arrays: dict[str, Any] = {
        name: np.concatenate([empty[name], *(tree[name] for tree in trees)]) for name in empty
    }
    return Ensemble(
        **arrays,
        categories=categories,
        roots=np.array(roots, np.int64),
        outputs=np.array(model["tree_info"], np.int64),
        start=_start(document["learner"]).astype(np.float64),
        strict=True,
        single=True,
    )


_NO_NODES: dict[str, Any] = {
    name: []
    for name in (
        *("left_children", "right_children", "split_indices", "split_conditions", "split_type"),
        *("default_left", "categories", "categories_nodes", "categories_segments"),
        "categories_sizes",
    )
}


def _tree(tree: dict[str, Any], weight: Any, begin: int) -> tuple[dict[str, Any], dict[int, Any]]:
    """The nodes of a tree, which begin at a place in the list of all, and their categories."""
    left, right = (
        np.array(tree[f"{side}_children"], np.int64).reshape(-1) for side in ("left", "right")
    )
    leaf = left < 0
    at = np.array(tree["split_conditions"], np.float32)
    by_category = (np.array(tree.get("split_type", [0] * len(left)), np.int64) == 1) & ~leaf
    # XGBoost lists the categories that go right: the children change places.
    left, right = np.where(by_category, right, left), np.where(by_category, left, right)
    default_left = np.array(tree["default_left"], np.int64) == 1
    nodes = {
        "feature": np.where(leaf, -1, np.array(tree["split_indices"], np.int64)),
        "threshold": np.where(leaf | by_category, 0.0, at.astype(np.float64)),
        "left": np.where(leaf, -1, left + begin),
        "right": np.where(leaf, -1, right + begin),
        "missing_left": default_left ^ by_category,
        "value": np.where(leaf, (at * weight).astype(np.float64), 0.0),
    }
    names = ("categories_nodes", "categories_segments", "categories_sizes")
    found = {
        begin + node: tree["categories"][first : first + size]
        for node, first, size in zip(*(tree[name] for name in names), strict=True)
    }
    return nodes, found


def _start(learner: dict[str, Any]) -> Float32Array | FloatArray:
    """The scores before the first tree; XGBoost writes what they predict, in single precision."""
    written = np.ravel(json.loads(learner["learner_model_param"]["base_score"]))
    base = written.astype(np.float32)
    objective = OBJECTIVES[learner["objective"]["name"]]
    if objective.name == LOGISTIC:
        found = logit(base)
    elif objective.loss is not None and Loss(objective.loss).log_link:
        found = np.log(base)
    else:
        found = base
    n_scores = max(int(learner["learner_model_param"]["num_class"]), 1)
    return np.broadcast_to(found, n_scores)


def without_names(text: str) -> str:
    """The same booster, whose categories are codes: readers of others do not take their names."""
    document = json.loads(text)
    model, _ = parts_with_trees(document)
    if "cats" in model:
        model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    return as_text(document)


def read_features(text: str, names: Sequence[str]) -> tuple[Feature, ...]:
    """The features, with the categories that XGBoost remembers.

    Parameters
    ----------
    text : str
        The booster.
    names : sequence of str
        What the features are called.
    """
    kinds = json.loads(text)["learner"].get("feature_types") or []
    listed = [np.asarray(values).tolist() for values in read_categories(text)]
    found = []
    for k, name in enumerate(names):
        values = tuple(listed[k]) if k < len(listed) and len(listed[k]) else None
        category = values is not None or (k < len(kinds) and kinds[k] == "c")
        found.append(Feature(name, "category", values) if category else Feature(name))
    return tuple(found)
