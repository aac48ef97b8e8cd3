"""Three classes or more: which options are for two labels only, and which class is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.class_constraints import check_chosen
from fairboost.tasks.multiclass import in_units

CostTable = tuple[tuple[float, ...], ...]
"""Costs of giving a row of each class (lines) each class (columns)."""


def check_for_several(params: dict[str, Any], labels: Sequence[Any]) -> None:
    """Refuse options that are for two labels.

    Parameters
    ----------
    params : dict
        Parameters of the estimator.
    labels : sequence
        The classes of y, three or more.
    """
    n = len(labels)
    if params["operating_point"] != 0.5:
        raise InvalidInputError(
            f"operating_point={params['operating_point']} is a threshold between two labels, and "
            f"y has {n} classes, of which the most likely one is given; leave it out, or say what "
            "wrong decisions cost: costs=[[0, 1, ...], ...]"
        )
    if params["multipliers"] == "paper":
        raise InvalidInputError(
            f"the paper's algorithm is for two labels, and y has {n} classes; use "
            "FairGBMClassifier(...) without multipliers='paper'"
        )
    if params["proxy"] != "auto":
        raise InvalidInputError(
            f"proxy={params['proxy']!r} is a step between two labels, and y has {n} classes; "
            "leave proxy out"
        )
    if params["classes"] is not None:
        check_chosen(params["classes"], labels)


def read_costs(costs: Any, n_classes: int) -> CostTable | None:
    """The costs of decisions, checked.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_classes), or None
        As the user gave them.
    n_classes : int
        Classes that y has.

    Examples
    --------
    >>> read_costs([[0, 1], [5, 0]], 2)
    ((0.0, 1.0), (5.0, 0.0))
    """
    if costs is None:
        return None
    expected = (
        f"expected a table of {n_classes} lines and {n_classes} columns, the cost of giving a row "
        "of each class (lines) each class (columns)"
    )
    try:
        table = np.asarray(costs, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"costs are no table of numbers ({error}); {expected}") from error
    if table.shape != (n_classes, n_classes):
        raise InvalidInputError(f"costs have the shape {table.shape}; {expected}")
    if not np.isfinite(table).all():
        raise InvalidInputError(f"costs hold NaN or infinity; {expected}")
    worse = table - np.diag(table)[:, np.newaxis]
    if (worse < 0).any() or not (worse.sum(axis=1) > 0).all():
        line = int(np.argmax((worse < 0).any(axis=1) | (worse.sum(axis=1) <= 0)))
        raise InvalidInputError(
            f"line {line} of costs, {table[line].tolist()}, has no least cost at the class "
            "itself; the right decision must cost least, and some other must cost more"
        )
    return tuple(map(tuple, table.tolist()))


def threshold_of(costs: CostTable) -> float:
    """The probability of the second of two labels from which on it costs less to give it.

    Examples
    --------
    >>> threshold_of(((0.0, 1.0), (4.0, 0.0)))
    0.2
    """
    (right, false_alarm), (missed, found) = costs
    return (false_alarm - right) / (false_alarm - right + missed - found)


def turned(costs: CostTable) -> CostTable:
    """Costs of two labels in the other order."""
    return tuple(line[::-1] for line in costs[::-1])


def given_class(proba: FloatArray, costs: CostTable | None) -> IntArray:
    """The most likely class, or that of least expected cost; of equal ones the first."""
    if costs is None:
        return np.asarray(proba.argmax(axis=1))
    return np.asarray((proba @ in_units(np.asarray(costs))).argmin(axis=1))
