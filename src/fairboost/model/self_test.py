"""A model that tries itself when it is loaded.

A file holds a few rows and how the model decided about them when it was saved. What is loaded must
decide alike: that the file reads well does not yet say that this version of the engine makes the
same model of it. The rows are no one's: their values are drawn from the points at which the trees
split, which are in the file anyway.
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
MISSING_SHARE = 0.1
CLOSE = 1e-6
"""Engines score in single precision, or by sums whose order may change with their version."""

Decide = Callable[[FloatArray], FloatArray]
"""Features to scores less the threshold."""


def describe(
    decide: Decide, labels: Any, points: dict[int, list[float]], n_features: int
) -> dict[str, Any]:
    """Rows and how a model decides about them, in the types of JSON.

    Parameters
    ----------
    decide : callable
        The model.
    labels : array of two
        What it calls a negative and a positive decision.
    points : dict of int to list of float
        The values at which each feature is split.
    n_features : int
        Number of features.
    """
    draw = np.random.default_rng(0)
    n_rows = min(MOST_ROWS, MOST_NUMBERS // max(len(points), 1), MOST_MEMORY // n_features)
    n_rows, features = max(n_rows, 1), list(points)[:MOST_NUMBERS]
    rows = np.empty((n_rows, len(features)))
    for k, feature in enumerate(features):
        beyond = points[feature][-1] + 1.0
        rows[:, k] = draw.choice([*points[feature], beyond], n_rows)
    rows[draw.random(rows.shape) < MISSING_SHARE] = np.nan
    found = decide(_table(features, rows, n_features))
    told = np.isfinite(found)
    return {
        "features": features,
        "rows": [[None if np.isnan(v) else v for v in row] for row in rows[told].tolist()],
        "decisions": found[told].tolist(),
        "labels": list(map(str, labels)),
    }


def check(test: dict[str, Any], decide: Decide, labels: Any, n_features: int) -> None:
    """Raise unless a model decides as :func:`describe` has written down."""
    rows = np.array(test["rows"], np.float64)  # None as NaN
    expected = np.array(test["decisions"], np.float64)
    features = np.array(test["features"], np.int64)
    rows = rows.reshape(len(expected), len(features))
    if rows.shape[0] * n_features > max(MOST_MEMORY, n_features):
        raise ModelFileError("the rows to test it on are too many")
    found = decide(_table(features.tolist(), rows, n_features))
    if not np.allclose(found, expected, rtol=CLOSE, atol=CLOSE):
        raise ModelFileError(
            "it does not decide as the saved model did: on the rows that the file brings to test "
            f"it, scores differ by up to {np.max(np.abs(found - expected)):.3g}"
        )
    if list(map(str, labels)) != test["labels"]:
        raise ModelFileError(
            f"its labels are {', '.join(map(str, labels))}, those of the saved model were "
            f"{', '.join(map(str, test['labels']))}"
        )


def _table(features: list[int], rows: FloatArray, n_features: int) -> FloatArray:
    table = np.zeros((len(rows), n_features))
    table[:, features] = rows
    return table
