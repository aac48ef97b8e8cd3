"""The newest trees of a booster, read off its binary model.

``booster[k : k + 1]`` makes a booster of one round. On a GPU, XGBoost waits for all work before,
and the GPU then stands still while the tree is read (1.7 ms of a round of 50 million rows, by a
profiler). Writing the whole model does not wait, and the GPU still works on the last round
meanwhile. That takes 0.006 to 0.009 ms for each tree of the booster, so it pays for many rows and
not too many trees.

The format is UBJSON. An array of numbers is its name, ``[$``, the type of a number, ``#L``, the
count in eight bytes, and the numbers, big-endian. Names of features and categories come before the
trees, so the last place where the name of such an array is found is in the last tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from fairboost.engines.xgboost.model_json import nodes_of, read_trees

_TYPES = {b"d": ">f4", b"l": ">i4", b"U": "u1", b"i": "i1", b"I": ">i2", b"L": ">i8"}
_ARRAYS = ("left_children", "right_children", "split_conditions", "split_indices", "default_left")


def newest_trees(booster: xgboost.Booster, count: int = 1) -> list[NDArray[Any]]:
    """The nodes of the trees of the last round, in their order.

    Parameters
    ----------
    booster : xgboost.Booster
        The booster, whose features are all numbers.
    count : int, default=1
        Trees of a round.
    """
    model, found = bytes(booster.save_raw("ubj")), list[NDArray[Any]]()
    end = len(model)
    for _ in range(count):
        first = model.rfind(b"base_weights[$", 0, end)  # the first array of a tree
        arrays = {name: _array(model, name, first, end) for name in _ARRAYS}
        if first < 0 or any(array is None for array in arrays.values()):
            last = booster.num_boosted_rounds() - 1  # another way to write models
            of_round = booster[last : last + 1].save_raw("json")
            return [nodes for _, nodes in read_trees(of_round)]
        found.insert(0, nodes_of(arrays))
        end = first
    return found


def _array(model: bytes, name: str, first: int, end: int) -> NDArray[Any] | None:
    """The array of a name in a part of a model; None if it is not there."""
    told = name.encode() + b"[$"
    at = model.find(told, first, end) + len(told)
    kind = _TYPES.get(model[at : at + 1])
    if at < len(told) or kind is None or model[at + 1 : at + 3] != b"#L":
        return None
    count = int.from_bytes(model[at + 3 : at + 11], "big")
    return np.frombuffer(model, kind, count, at + 11)
