"""Numbers as users write them and as JSON takes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from fairboost._typing import FloatArray


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


def probabilities(scores: FloatArray, single: bool) -> FloatArray:
    """Probabilities of scores, to the last digit those of the engine.

    Parameters
    ----------
    scores : (n,) float64
        In log-odds.
    single : bool
        In single precision, as XGBoost has them; else in double precision, as LightGBM.

    Examples
    --------
    >>> probabilities(np.array([0.0, -1.0]), single=True).round(7)
    array([0.5      , 0.2689414])
    """
    if single:
        scores = np.maximum(scores.astype(np.float32), np.float32(-88.7))
    if hasattr(scores, "__cuda_array_interface__"):  # they stay there; by XGBoost's own formula
        on_device: FloatArray = (1 / (1 + np.exp(-scores))).astype(np.float64)
        return on_device
    return np.asarray(expit(scores), np.float64)


def class_probabilities(scores: FloatArray, single: bool) -> FloatArray:
    """Probabilities of several classes, (n, n_classes), rounded as the engine does."""
    kept = scores.astype(np.float32) if single else scores
    likely = np.exp(kept - kept.max(axis=1, keepdims=True))
    total = likely.sum(axis=1, keepdims=True, dtype=np.float64).astype(likely.dtype)
    return np.asarray(likely / total, np.float64)
