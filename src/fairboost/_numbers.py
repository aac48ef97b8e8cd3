"""Numbers as users write them and as JSON takes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Whether a value is a plain number, and not a truth value.

    Examples
    --------
    >>> is_number(1), is_number(np.float32(0.5)), is_number(True), is_number("1")
    (True, True, False, False)
    """
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether a value is a plain number, neither infinite nor missing."""
    return is_number(value) and math.isfinite(value)


def plain(value: Any) -> Any:
    """A value in the types of JSON: NumPy's numbers and arrays become Python's, tuples lists.

    Examples
    --------
    >>> plain({"a": np.int64(1), "b": (np.float64(0.5), None)})
    {'a': 1, 'b': [0.5, None]}
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
