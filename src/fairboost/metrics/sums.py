"""Sums over rows that all metrics are made of, and what follows from them by division."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.data.cells import Groups
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import Rate, group_sums


def weight_sums(
    where: IntArray, weight: FloatArray | None, n: int, scores: FloatArray | None = None
) -> FloatArray:
    """Rows, weight, squared weight, and weight times score if there are scores, at n places.

    A row of weight 0 is not counted among the rows: it is left out.

    Parameters
    ----------
    where : (n_rows,) int
        Place of each row.
    weight : (n_rows,) float64 or None
        Weights of the rows.
    n : int
        Number of places.
    scores : (n_rows,) float64, optional
        Scores of the rows.

    Returns
    -------
    (3, n) or (4, n) float64

    Examples
    --------
    >>> weight_sums(np.array([0, 0, 2]), np.array([2.0, 0.0, 3.0]), 3).tolist()
    [[1.0, 0.0, 1.0], [2.0, 0.0, 3.0], [4.0, 0.0, 9.0]]
    """
    if weight is None:
        sums = [np.bincount(where, minlength=n)] * 3  # one count for all: there may be many rows
    else:
        sums = [np.bincount(where, power, n) for power in (weight > 0, weight, weight**2)]
    if scores is not None:
        sums.append(np.bincount(where, scores if weight is None else weight * scores, n))
    return np.array(sums, np.float64)


def group_sums_of_sets(
    rate: Rate,
    labels: IntArray,
    groups: IntArray,
    n_groups: int,
    total: FloatArray,
    positive: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """As :func:`fairboost.fairness.rates.group_sums`, for b sets of sums over the same cells.

    ``total`` and ``positive`` are (b, n_cells), events and weight that counts (b, n_groups).
    """
    # One call for all sets: the groups of set i are numbered from i * n_groups.
    b = len(total)
    first = np.arange(b)[:, np.newaxis] * n_groups
    numbered = np.where(groups >= 0, groups + first, -1).ravel().astype(np.int32)
    events, counted = group_sums(
        rate, np.tile(labels, b), numbered, b * n_groups, total.ravel(), positive.ravel()
    )
    return events.reshape(b, n_groups), counted.reshape(b, n_groups)


def quotient(part: FloatArray, whole: FloatArray) -> FloatArray:
    """``part / whole``; NaN where there is nothing to divide by."""
    result = np.full(whole.shape, np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def effective_rows(weight: FloatArray) -> float:
    """Kish's effective sample size: as many rows of equal weight tell as much."""
    return float(weight.sum() ** 2 / (weight**2).sum()) if weight.any() else 0.0


def crossing_name(columns: Sequence[str]) -> str:
    """What tables call some columns crossed; empty for everyone. Never to be taken apart again."""
    return ", ".join(columns)


def check_crossings(crossings: Iterable[tuple[str, ...]]) -> None:
    """Raise if tables could not tell two crossings apart, since their names are the same.

    Examples
    --------
    >>> check_crossings([("a",), ("b",), ("a", "b")])
    """
    named: dict[str, tuple[str, ...]] = {"": ()}
    for crossing in crossings:
        if named.setdefault(crossing_name(crossing), crossing) != crossing:
            first = named[crossing_name(crossing)]
            raise InvalidInputError(
                f"the sensitive columns {first!r} and {crossing!r} would both be called "
                f"{crossing_name(crossing)!r} in tables, so that figures could be taken for each "
                "other's; rename a column"
                if first
                else "a sensitive column has no name; give it one"
            )


def group_names(groups: Groups) -> tuple[str, ...]:
    """Names of groups to show, all different."""
    if not groups.columns:
        return ("everyone",)
    names = tuple(", ".join(map(str, values)) for values in groups.names)
    if len(set(names)) == len(names):
        return names
    return tuple(", ".join(map(repr, values)) for values in groups.names)  # "a, b" x "c"
