"""Numbers as sensitive attributes: windows around a few knots, to which rows belong by weights.

Each row lies between two knots, and belongs to the windows of both by how close they are. The
weights of a row sum to 1, and the rate of a window is the weighted mean over its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from fairboost._numbers import is_finite, plain
from fairboost._typing import ArrayLike, BoolArray, Float32Array, FloatArray
from fairboost.data.cells import SensitiveColumn
from fairboost.data.device_arrays import on_host
from fairboost.data.shared import SoftFacts
from fairboost.exceptions import ConstraintError, InvalidInputError

Knots: TypeAlias = int | Literal["auto"] | tuple[float, ...]

ROWS_PER_WINDOW, FEWEST, MOST = 1_000, 3, 10
"""Rows that are to count in each window, and how many windows ``knots="auto"`` places."""

MOST_KNOTS = 100
LEAST_DISTINCT = 8
"""Distinct numbers below which a column is one of groups."""


class Smooth(str):
    """The name of a column of numbers whose rates are compared over windows.

    Made by :func:`smooth`. It is a text, so that it can stand wherever the name of a column can.
    """

    knots: Knots

    def __new__(cls, column: str, knots: Knots = "auto") -> Smooth:
        """Make the name, which remembers its knots."""
        made = super().__new__(cls, column)
        made.knots = knots
        return made

    def __repr__(self) -> str:
        rest = "" if self.knots == "auto" else f", knots={self.knots!r}"
        return f"smooth({str(self)!r}{rest})"

    def __getnewargs__(self) -> tuple[str, Knots]:  # type: ignore[override]
        return str(self), self.knots


def smooth(column: str, knots: int | Literal["auto"] | Sequence[float] = "auto") -> Smooth:
    """Compare a rate over a number, such as an age, without cutting it into bands.

    The rate is held equal over overlapping windows. A window is centred at a knot, and the weight
    of a row falls in a straight line from 1 at the knot to 0 at the knots beside it. Beyond the
    first and the last knot the weight is 1.

    Parameters
    ----------
    column : str
        The column of numbers in ``sensitive_features``. Rows without a number count in no window.
    knots : "auto", int or sequence of float, default="auto"
        How many windows there are, or where they are centred. A number of windows is placed at
        quantiles of the rows that count, so that each window has about as many of them.
        ``"auto"`` has a window for every 1,000 rows that count towards the constrained rate, at
        least 3 and at most 10.

    Returns
    -------
    by : Smooth
        For ``parity(..., by=...)``; in a tuple with other columns, windows are crossed with them.

    Examples
    --------
    >>> from fairboost import parity, smooth
    >>> parity("fnr", 0.02, by=smooth("age", knots=5)).by
    smooth('age', knots=5)
    """
    if not isinstance(column, str) or not column:
        raise ConstraintError(
            f"smooth takes the name of a column of numbers, found {column!r}; write "
            "smooth('age'), and pass the column age in sensitive_features"
        )
    if isinstance(knots, str) and knots == "auto":
        return Smooth(column, "auto")
    if isinstance(knots, int) and not isinstance(knots, bool) and 2 <= knots <= MOST_KNOTS:
        return Smooth(column, int(knots))
    if isinstance(knots, list | tuple | np.ndarray):
        centres = tuple(float(k) if is_finite(k) else np.nan for k in knots)
        if 2 <= len(centres) <= MOST_KNOTS and (np.diff(centres) > 0).all():
            return Smooth(column, centres)
    raise ConstraintError(
        f"knots must be 'auto', a whole number from 2 to {MOST_KNOTS}, or two or more numbers in "
        f"rising order, found {knots!r}; the knots are the centres of the windows"
    )


class Window(float):
    """The centre of a window, as the value of a group."""

    def __str__(self) -> str:
        return f"around {float(self):.4g}"

    __repr__ = __str__


def smooth_columns(by: Any) -> dict[str, Smooth]:
    """The columns of numbers that one ``by``, or a list of them, names."""
    if isinstance(by, Smooth):
        return {str(by): by}
    if isinstance(by, str) or not isinstance(by, Sequence):
        return {}
    return {name: found for item in by for name, found in smooth_columns(item).items()}


def read_numbers(name: str, column: ArrayLike) -> FloatArray:
    """A column of numbers; NaN where there is none."""
    array = np.asarray(on_host(column))
    text = array.dtype == object and any(isinstance(v, str | bytes) for v in array.flat)
    if (
        array.dtype.kind in "USMm"
        or text
        or isinstance(getattr(column, "dtype", None), pd.CategoricalDtype)
    ):
        first = next((v for v in array.flat if isinstance(v, str | bytes)), array.flat[0])
        raise InvalidInputError(
            f"smooth({name!r}) compares rates over a number, and the column holds "
            f"{plain(first)!r}; convert it to numbers, or compare its groups with by={name!r}"
        )
    try:
        numbers = np.asarray(pd.to_numeric(pd.Series(array)), np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"smooth({name!r}) compares rates over a number, and the column holds something else: "
            f"{error}; convert it to numbers, or compare its groups with by={name!r}"
        ) from error
    if (infinite := np.isinf(numbers)).any():
        row = int(np.argmax(infinite))
        raise InvalidInputError(
            f"the sensitive column {name!r} is {numbers[row]} in row {row}, expected finite "
            "numbers; leave the number out (NaN) where it is not known"
        )
    return numbers


def place_knots(
    name: str, numbers: FloatArray, knots: Knots, counted: BoolArray | None = None
) -> tuple[float, ...]:
    """Where windows are centred.

    Parameters
    ----------
    name : str
        The column.
    numbers : (n,) float64
        Its numbers; NaN where there is none.
    knots : "auto", int or tuple of float
        As in :func:`smooth`.
    counted : (n,) bool, optional
        The rows that count towards the constrained rate; all of them, if left out.

    Examples
    --------
    >>> place_knots("age", np.arange(100.0), 4)
    (12.0, 37.0, 62.0, 87.0)
    """
    known = numbers[~np.isnan(numbers)]
    distinct = np.unique(known)
    if len(distinct) < LEAST_DISTINCT:
        held = f"{len(distinct)} distinct {'number' if len(distinct) == 1 else 'numbers'}"
        remedy = f"compare its values as groups with by={name!r}"
        if len(distinct) < 2:
            remedy = "there is nothing to compare, so drop the constraint or check the column"
        raise InvalidInputError(
            f"smooth({name!r}) needs a number with {LEAST_DISTINCT} distinct values or more, and "
            f"the column has {held}; {remedy}"
        )
    if isinstance(knots, tuple):
        return knots
    if counted is not None and (counted & ~np.isnan(numbers)).any():
        known = numbers[counted & ~np.isnan(numbers)]
    wanted = knots
    if isinstance(wanted, str):
        wanted = int(np.clip(round(len(known) / ROWS_PER_WINDOW), FEWEST, MOST))
    # Numbers that rows have, so that a window has rows at its centre.
    shares = (np.arange(wanted) + 0.5) / wanted
    found = np.unique(np.quantile(known, shares, method="inverted_cdf"))
    if len(found) < 2:
        raise InvalidInputError(
            f"more than half of the rows have the number {found[0]:g} in {name!r}, so that fewer "
            f"than two windows can be placed; pass their centres: smooth({name!r}, knots=(...))"
        )
    return tuple(found.tolist())


def windows_at(numbers: FloatArray, knots: Sequence[float]) -> Float32Array:
    """What each row weighs in each window; a row without a number weighs nothing.

    Examples
    --------
    >>> windows_at(np.array([10.0, 22.5, 50.0, np.nan]), (20, 30)).tolist()
    [[1.0, 0.0], [0.75, 0.25], [0.0, 1.0], [0.0, 0.0]]
    """
    centres = np.asarray(knots, np.float64)
    known = ~np.isnan(numbers)
    at = np.clip(np.where(known, numbers, centres[0]), centres[0], centres[-1])
    left = np.clip(np.searchsorted(centres, at, side="right") - 1, 0, len(centres) - 2)
    share = (at - centres[left]) / (centres[left + 1] - centres[left])
    out = np.zeros((len(numbers), len(centres)), np.float32)
    rows = np.arange(len(numbers))
    out[rows, left] = 1.0 - share
    out[rows, left + 1] = share
    return out * known[:, np.newaxis].astype(np.float32)


def with_windows(column: SensitiveColumn, knots: Sequence[float]) -> SensitiveColumn:
    """A column of numbers as one of windows."""
    assert column.numbers is not None
    centres = tuple(map(float, knots))
    said = (
        f"{column.name} is compared as a number, over {len(centres)} overlapping windows around "
        f"{', '.join(f'{c:.4g}' for c in centres)}. The rate of a window is the mean over its "
        "rows, with weights that fall in a straight line to 0 at the centres beside it. Each "
        "interval is that of one window. The gap is the largest difference between two windows"
    )
    return replace(
        column,
        values=tuple(map(Window, centres)),
        members=windows_at(column.numbers, centres),
        facts=SoftFacts(column.name, f"{column.name} as a number", said, centres),
    )
