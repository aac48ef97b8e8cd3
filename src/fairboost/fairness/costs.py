"""What decisions cost: a table by the class of a row (lines) and the class given (columns)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray
from fairboost.exceptions import InvalidInputError

CostTable: TypeAlias = tuple[tuple[float, ...], ...]
"""Costs of giving a row of each class (lines) each class (columns)."""


def read_costs(costs: Any, n_classes: int, labels: Sequence[Any] = ()) -> CostTable | None:
    """The costs of decisions, checked.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_classes), or None
        As the user gave them.
    n_classes : int
        Classes that y has.
    labels : sequence, optional
        The classes, in order; a table of pandas that names them is brought into this order.

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
    if isinstance(costs, pd.DataFrame) and len(labels):
        costs = _in_order(costs, list(labels))
    try:
        table = np.asarray(costs, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"costs are not a table of numbers ({error}); {expected}"
        ) from error
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


def _in_order(costs: pd.DataFrame, labels: list[Any]) -> pd.DataFrame:
    """A table that names classes, in their order; one that only counts lines is as it is."""
    names = [axis.tolist() for axis in (costs.index, costs.columns)]
    if all(len(found) == len(labels) and set(found) == set(labels) for found in names):
        return costs.loc[labels, labels]
    if all(found == list(range(len(found))) for found in names):
        return costs
    raise InvalidInputError(
        f"costs have lines {names[0]} and columns {names[1]}, expected the classes of y in both, "
        f"{labels}; name them so, or pass costs.to_numpy() in this order"
    )


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


def in_units(costs: FloatArray) -> FloatArray:
    """Costs of decisions over what a wrong one costs on average, beyond the right one."""
    regret = costs - np.diag(costs)[:, np.newaxis]
    k = len(costs)
    return regret / max(float(regret.sum()) / (k * (k - 1)), np.finfo(float).tiny)
