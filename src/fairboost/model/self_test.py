"""A model that tries itself when it is loaded.

A file holds a few rows and how the model decided about them when it was saved, or which numbers it
predicted. What is loaded must do alike: that the file reads well does not yet say that this
version of the engine makes the same model of it. The rows are no one's: their values are drawn
from the points at which the trees split, which are in the file anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairboost._typing import FloatArray
from fairboost.exceptions import ModelFileError

MOST_ROWS, MOST_NUMBERS = 64, 1024
MOST_MEMORY = 2**22
"""Numbers of rows as a table, which has all features."""
EXPORT_ROWS = 256
MISSING_SHARE = 0.1
LAST_BITS = 2**32 - 1
CLOSE = 1e-6
"""Engines score in single precision, or by sums whose order may change with their version."""

Answer = Callable[[FloatArray], FloatArray]
"""Features to scores less the threshold, or to the numbers that are predicted."""


def describe(
    answer: Answer, labels: Any, points: dict[int, list[float]], n_features: int
) -> dict[str, Any]:
    """Rows and how a model decides about them, in the types of JSON.

    Parameters
    ----------
    answer : callable
        The model.
    labels : sequence, or None
        What it calls a negative and a positive decision, or all its classes; None where it
        predicts numbers.
    points : dict of int to list of float
        The values at which each feature is split.
    n_features : int
        Number of features.
    """
    n_rows = min(MOST_ROWS, MOST_NUMBERS // max(len(points), 1), MOST_MEMORY // n_features)
    features, rows = _drawn(points, max(n_rows, 1))
    found = answer(_table(features, rows, n_features))
    told = np.isfinite(found) if found.ndim == 1 else np.isfinite(found).all(axis=1)
    written = {
        "features": features,
        "rows": [[None if np.isnan(v) else v for v in row] for row in rows[told].tolist()],
    }
    if labels is None:
        return {**written, "predictions": found[told].tolist()}
    return {**written, "decisions": found[told].tolist(), "labels": list(map(str, labels))}


def drawn_table(points: dict[int, list[float]], n_features: int) -> FloatArray:
    """Rows drawn in the same way, as many as exported files are tried on."""
    n_rows = min(EXPORT_ROWS, MOST_MEMORY // n_features)
    features, rows = _drawn(points, max(n_rows, 1))
    # C code of tl2cgen takes a number whose last 32 bits are ones for a missing value.
    rows = np.where(
        rows.view(np.int64) & LAST_BITS == LAST_BITS, np.nextafter(rows, -np.inf), rows
    )
    return _table(features, rows, n_features)


def _drawn(points: dict[int, list[float]], n_rows: int) -> tuple[list[int], FloatArray]:
    """Features that are split on, and rows of their values."""
    draw, features = np.random.default_rng(0), list(points)[:MOST_NUMBERS]
    rows = np.empty((n_rows, len(features)))
    for k, feature in enumerate(features):
        beyond = points[feature][-1] + 1.0
        rows[:, k] = draw.choice([*points[feature], beyond], n_rows)
    rows[draw.random(rows.shape) < MISSING_SHARE] = np.nan
    return features, rows


def check(test: dict[str, Any], answer: Answer, labels: Any, n_features: int) -> None:
    """Raise unless a model answers as :func:`describe` has written down."""
    rows = np.array(test["rows"], np.float64)  # None as NaN
    expected = np.array(test["predictions" if labels is None else "decisions"], np.float64)
    features = np.array(test["features"], np.int64)
    rows = rows.reshape(len(expected), len(features))
    if rows.shape[0] * n_features > max(MOST_MEMORY, n_features):
        raise ModelFileError("the rows to test it on are too many")
    found = answer(_table(features.tolist(), rows, n_features))
    # Log-odds have a scale of their own, and numbers that of what they stand for.
    size = _typical_size(expected) if labels is None else 1.0
    if not np.allclose(found, expected, rtol=CLOSE, atol=CLOSE * size):
        does, what = ("predict", "numbers") if labels is None else ("decide", "scores")
        raise ModelFileError(
            f"it does not {does} as the saved model did: on the rows that the file brings to test "
            f"it, {what} differ by up to {np.max(np.abs(found - expected)):.3g}"
        )
    if labels is not None and list(map(str, labels)) != test["labels"]:
        raise ModelFileError(
            f"its labels are {', '.join(map(str, labels))}, those of the saved model were "
            f"{', '.join(map(str, test['labels']))}"
        )


def _typical_size(numbers: FloatArray) -> float:
    """The median size of numbers other than 0: their unit, which is the user's, is not known."""
    sizes = np.abs(numbers[numbers != 0])
    return float(np.median(sizes)) if sizes.size else 0.0


def _table(features: list[int], rows: FloatArray, n_features: int) -> FloatArray:
    table = np.zeros((len(rows), n_features))
    table[:, features] = rows
    return table
