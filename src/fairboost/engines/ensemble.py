"""The trees of a model as plain arrays, whichever engine grew them, and its features.

Formats of others are written from this. A row goes left where the value of a feature is below a
threshold, or is one of some categories. LightGBM takes the threshold itself to the left, XGBoost
to the right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairboost._typing import BoolArray, FloatArray, IntArray

ZERO = float(np.float32(1e-35))
"""Numbers up to this size are 0 to LightGBM."""


@dataclass(frozen=True)
class Feature:
    """What a model reads in one column.

    Parameters
    ----------
    name : str
        The name of the column; its position where columns have no names.
    kind : {"number", "category", "unknown"}
        Unknown where the engine's file does not say which columns had categories.
    categories : tuple, optional
        The categories in the order of their codes: the model knows a category by its position.
        None where the codes themselves are the values of the column.
    """

    name: str
    kind: str = "number"
    categories: tuple[Any, ...] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the categories are text."""
        known = self.categories
        return known is not None and all(isinstance(value, str) for value in known)


@dataclass(frozen=True)
class Ensemble:
    """Trees, node by node. Nodes of all trees are in one list.

    Parameters
    ----------
    feature : (m,) int
        The feature that a node looks at; -1 in a leaf.
    threshold : (m,) float64
        The value that a node splits at.
    left, right : (m,) int
        The children of a node; -1 in a leaf.
    missing_left : (m,) bool
        Whether a missing value goes left.
    value : (m,) float64
        What a leaf adds to the score.
    categories : dict of int to list of int
        By node, the categories that go left.
    roots, outputs : (n_trees,) int
        The first node of each tree, and the score that the tree adds to.
    start : (n_scores,) float64
        The scores before the first tree.
    strict : bool
        Whether only values below the threshold go left.
    single : bool
        Whether features and scores are rounded to single precision.
    zero_missing : frozenset of int
        The features of which 0 is a missing value, as all numbers up to ``ZERO`` in size are.
    missing : float
        A number that is a missing value in every column; NaN always is one.
    """

    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    missing_left: BoolArray
    value: FloatArray
    categories: dict[int, list[int]]
    roots: IntArray
    outputs: IntArray
    start: FloatArray
    strict: bool
    single: bool
    zero_missing: frozenset[int] = frozenset()
    missing: float = math.nan
