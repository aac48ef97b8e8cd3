"""Checks of a booster's text before its engine reads it.

Engines trust the files they wrote: an index that is out of bounds, or nodes that go round in a
circle, end the process or never end. So whatever an engine would use as a place or as a size is
checked first. What does not pass raises ``ModelFileError``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.exceptions import ModelFileError

MOST_THREADS = 1024
MOST_FEATURES = 2**24
"""Beyond it a single row of numbers would take more memory than a model should."""


def require(sound: bool | np.bool_, what: str) -> None:
    """Raise unless what must hold of a booster does."""
    if not sound:
        raise ModelFileError(f"its booster is not sound: {what}")


def integers(values: Any, size: int, name: str, low: int, high: int) -> IntArray:
    """A list of so many integers, each from ``low`` to ``high``."""
    found = _numbers(values, size, name)
    require(found.dtype.kind in "iu" or not size, f"{name} has a value that is no integer")
    inside = not size or (int(found.min()) >= low and int(found.max()) <= high)
    require(inside, f"{name} has a value outside {low} ... {high}")
    out: IntArray = found.astype(np.int64)
    return out


def reals(values: Any, size: int, name: str, most: float) -> FloatArray:
    """A list of so many finite numbers, none larger than ``most`` in size."""
    found: FloatArray = _numbers(values, size, name).astype(np.float64)
    require(bool(np.all(np.abs(found) <= most)), f"{name} has a number out of range")  # or NaN
    return found


def _numbers(values: Any, size: int, name: str) -> Any:
    require(isinstance(values, list) and len(values) == size, f"{name} is no list of {size}")
    found = np.array(values)
    require(
        found.shape == (size,) and (found.dtype.kind in "iuf" or not size),
        f"{name} has a value that is no number",
    )
    return found


def integer(value: Any, name: str, low: int, high: int) -> int:
    """A number within limits, given as text."""
    written = isinstance(value, str) and value.isascii() and len(value) <= 11
    require(written and value.removeprefix("-").isdigit(), f"{name} is {value!r}, not an integer")
    require(low <= int(value) <= high, f"{name} is {value}, expected {low} ... {high}")
    return int(value)


def check_threads(n_jobs: Any) -> None:
    """Refuse so many threads that making them would end the process."""
    require(
        n_jobs is None or (isinstance(n_jobs, int) and abs(n_jobs) <= MOST_THREADS),
        f"it asks for {n_jobs!r:.40} threads, expected at most {MOST_THREADS}",
    )


def check_shape(left: IntArray, right: IntArray, unused: int = 0) -> None:
    """Require that nodes are one tree from node 0 on, each reached by one way.

    Parameters
    ----------
    left, right : (n_nodes,) int64
        The children of each node; -1 in leaves.
    unused : int
        Nodes that may be left over.
    """
    inner = left != -1
    require(bool((inner == (right != -1)).all()), "a node has one child")
    reached, level = 1, np.zeros(1, np.int64)
    while len(level := level[inner[level]]):
        level = np.concatenate([left[level], right[level]])
        reached += len(level)
        # More than there are: a circle, or two ways to one node.
        require(reached <= len(left), "nodes of a tree do not form a tree")
    require(reached == len(left) - unused, "nodes of a tree are out of reach")
    children = np.concatenate([left[inner], right[inner]])
    require(len(np.unique(children)) == len(children), "a node has two parents")
