"""XGBoost's JSON model, edited: its first rounds, further rounds, and factors on rounds. And read.

XGBoost can cut a booster into rounds itself, but what it cuts forgets the categories of columns
(seen in 3.2), and then reads codes of another coding as if they were its own. So the cut is made
in the model's own format, in which all else stays as it is. Numbers survive: the shortest text of
a single-precision number is read back as the same number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import FloatArray
from fairboost.kernel.library import NODE

# Attributes that early stopping leaves, and that prediction goes by.
STOPPED = ("best_iteration", "best_score")

# XGBoost's numbers for the types of categories that are whole numbers.
INTEGERS: dict[int, np.dtype[np.integer]] = {
    number: np.dtype(f"{sign}int{bits}")
    for number, (bits, sign) in enumerate(product((8, 16, 32, 64), ("", "u")), start=9)
}


def first_rounds(text: str, rounds: int) -> str:
    """Keep the first rounds.

    Parameters
    ----------
    text : str
        The booster as ``Booster.save_raw("json")`` gives it.
    rounds : int
        Rounds to keep, each of one tree or of ``num_parallel_tree``.
    """
    document = json.loads(text)
    model, weights = parts_with_trees(document)
    n_trees = model["iteration_indptr"][rounds]
    for of_trees in (model["trees"], model["tree_info"], weights, model.get("weight_drop", [])):
        del of_trees[n_trees:]
    del model["iteration_indptr"][rounds + 1 :]
    stopped_at = int(document["learner"]["attributes"].get("best_iteration", -1))
    return _edited(document, forget_stop=stopped_at >= rounds)


def append_rounds(text: str, further: str) -> str:
    """Put the rounds of a further booster after those of a model.

    Parameters
    ----------
    text : str
        The model; all but its trees is kept.
    further : str
        A booster trained from the model's scores on the same features.
    """
    document = json.loads(text)
    model, weights = parts_with_trees(document)
    added, added_weights = parts_with_trees(json.loads(further))
    n_trees = len(model["trees"])
    for k, tree in enumerate(added["trees"]):
        tree["id"] = n_trees + k
    further_weights = added_weights or [1.0] * len(added["trees"])
    weights += further_weights
    if model.get("weight_drop"):  # XGBoost 3.4 has the factors of DART there as well
        model["weight_drop"] += further_weights
    model["trees"] += added["trees"]
    model["tree_info"] += added["tree_info"]
    model["iteration_indptr"] += [n_trees + end for end in added["iteration_indptr"][1:]]
    return _edited(document, forget_stop=True)


def weighted_rounds(text: str, weights: FloatArray) -> str:
    """Multiply the trees of each round by a factor; the starting score keeps its weight.

    Parameters
    ----------
    text : str
        The model.
    weights : (n_rounds,) float64
        The factors.
    """
    document = json.loads(text)
    model, _ = parts_with_trees(document)
    ends = model["iteration_indptr"]
    for k, weight in enumerate(weights.tolist()):
        for tree in model["trees"][ends[k] : ends[k + 1]]:
            tree["base_weights"] = [weight * value for value in tree["base_weights"]]
            # A leaf's value stands where an inner node has the value it splits at.
            tree["split_conditions"] = [
                weight * value if child == -1 else value
                for value, child in zip(
                    tree["split_conditions"], tree["left_children"], strict=True
                )
            ]
    return _edited(document)


def read_trees(text: str | bytes | bytearray) -> list[tuple[int, NDArray[Any]]]:
    """The trees of a booster whose features are all numbers: class, and array of nodes."""
    model, _ = parts_with_trees(json.loads(text))
    return [
        (k, nodes_of(tree)) for k, tree in zip(model["tree_info"], model["trees"], strict=True)
    ]


def read_categories(text: str) -> list[list[str] | NDArray[Any]]:
    """The categories of each feature, by their codes; none of a number.

    Whole numbers have the type they had, without which XGBoost does not know them. Texts that
    XGBoost has cut in the middle of a character have a mark in its place.
    """
    model, _ = parts_with_trees(json.loads(text))
    return [_values(names) for names in (model.get("cats") or {}).get("enc", [])]


def _values(names: dict[str, Any]) -> list[str] | NDArray[Any]:
    values: list[int] = names["values"]
    if "offsets" not in names:
        return np.array(values, INTEGERS[names["type"]])
    stored = bytes(value % 256 for value in values)
    return [stored[a:b].decode(errors="replace") for a, b in pairwise(names["offsets"])]


def nodes_of(tree: Mapping[str, Any]) -> NDArray[Any]:
    """The nodes of a tree whose features are all numbers, from XGBoost's arrays."""
    left = np.array(tree["left_children"], np.int32)
    itself, is_leaf = np.arange(len(left), dtype=np.int32), left < 0
    nodes = np.empty(len(left), NODE)
    nodes["at"] = tree["split_conditions"]  # of leaves, their values
    nodes["feature"] = np.where(is_leaf, 0, tree["split_indices"])
    nodes["left"] = np.where(is_leaf, itself, left)
    nodes["right"] = np.where(is_leaf, itself, tree["right_children"])
    nodes["missing_right"] = np.equal(tree["default_left"], 0)
    return nodes


def parts_with_trees(document: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    """The part of a model that holds trees, and their factors if it was trained by DART."""
    booster = document["learner"]["gradient_booster"]
    if booster["name"] == "dart":
        return booster["gbtree"]["model"], booster["weight_drop"]
    return booster["model"], []


def _edited(document: dict[str, Any], forget_stop: bool = False) -> str:
    """The text of an edited model, with its number of trees."""
    model, _ = parts_with_trees(document)
    model["gbtree_model_param"]["num_trees"] = str(len(model["trees"]))
    for name in STOPPED if forget_stop else ():
        document["learner"]["attributes"].pop(name, None)
    return as_text(document)


def as_text(document: dict[str, Any]) -> str:
    """The text of a model. XGBoost's reader does not decode what is escaped, so nothing is."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
