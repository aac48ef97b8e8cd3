"""Constraints on groups that rows belong to by weights: which columns, which windows, what not.

:mod:`fairboost.data.windows` and :mod:`fairboost.data.probabilities` say what such groups are. All
that happens to them before training is here; after it they are columns like others
(:class:`fairboost.data.shared.SharedRows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from fairboost._typing import BoolArray, IntArray
from fairboost.data.cells import SensitiveColumn
from fairboost.data.probabilities import GroupProbabilities
from fairboost.data.windows import Smooth, place_knots, smooth_columns, with_windows
from fairboost.exceptions import ConstraintError, InvalidInputError
from fairboost.fairness.constraints import Constraint, columns_of, listed
from fairboost.fairness.rates import as_moment

NOT_OF_CLASSES = (
    "where y has three classes or more",
    "compare observed groups, or judge one class against the others",
)
NOT_OF_PAPER = (
    "by the paper's multipliers, which read smooth rates by cell",
    "use multipliers='two_sided', the default",
)
NOT_OF_LINEAR = (
    "by LinearStage, which learns the group that a row is in",
    "use the default stage of trees, or pass the most likely group",
)
NOT_OF_MEANS = (
    "with minimax(...), calibrated(...) and bound('error', ...), which read losses and "
    "probabilities by group",
    "compare observed groups, or ask for parity, ratios or floors of rates",
)
NOT_OF_NUMBERS = (
    "where a number is predicted",
    "cut the number into bands, or pass the most likely group",
)
NOT_ON_DASK = (
    "on Dask",
    "train in memory, or cut the number into bands and pass the most likely group",
)
"""Where groups that rows belong to by weights are refused, and what to do instead."""


def smooth_of(constraint: Any) -> dict[str, Smooth]:
    """The columns of numbers that constraints, as the user wrote them, compare over windows.

    Examples
    --------
    >>> from fairboost import parity, smooth
    >>> smooth_of([parity("fnr", by=smooth("age")), "demographic_parity"])
    {'age': smooth('age')}
    """
    found: dict[str, Smooth] = {}
    for c in listed(constraint):
        for name, one in smooth_columns(getattr(c, "by", None)).items():
            if found.setdefault(name, one).knots != one.knots:
                raise ConstraintError(
                    f"two constraints ask for {found[name]!r} and {one!r}; a column has one set "
                    "of windows, so give both the same knots"
                )
    return found


def has_soft(constraint: Any, sensitive_features: Any) -> bool:
    """Whether rows belong to some groups by weights."""
    given = sensitive_features
    tables = given.values() if isinstance(given, Mapping) else [given]
    return bool(smooth_of(constraint)) or any(isinstance(t, GroupProbabilities) for t in tables)


def refuse_soft(constraint: Any, sensitive_features: Any, where: str, remedy: str) -> None:
    """Refuse groups that rows belong to by weights where they are not supported.

    Parameters
    ----------
    constraint, sensitive_features
        As the user gave them.
    where : str
        Where it is so, such as "on Dask".
    remedy : str
        What to do instead.
    """
    if has_soft(constraint, sensitive_features):
        refuse_any_soft(where, remedy)


def refuse_any_soft(where: str, remedy: str) -> NoReturn:
    """Say where groups that rows belong to by weights are not supported."""
    raise InvalidInputError(
        f"smooth(...) and group_probabilities(...) are not supported {where}: sums are kept "
        f"for groups of which a row is in one; {remedy}"
    )


def placed(
    columns: Sequence[SensitiveColumn],
    constraints: Sequence[Constraint],
    labels: IntArray,
    windows: Mapping[str, Sequence[float]] | None = None,
) -> list[SensitiveColumn]:
    """The columns, with windows made of numbers.

    Parameters
    ----------
    columns : sequence of SensitiveColumn
        The sensitive columns.
    constraints : sequence of Constraint
        The constraints, which say how many windows there are.
    labels : (n,) int
        Labels of the rows, to count those that tell about a rate.
    windows : mapping of str to sequence of float, optional
        Where windows were placed before, by column.
    """
    out = []
    asked = smooth_of(list(constraints))
    for column in columns:
        if column.numbers is None:
            out.append(column)
            continue
        centres = (windows or {}).get(column.name)
        if centres is None:
            knots = asked[column.name].knots if column.name in asked else "auto"
            counted = _counted(column, constraints, labels)
            centres = place_knots(column.name, column.numbers, knots, counted)
        out.append(with_windows(column, centres))
    return out


def _counted(
    column: SensitiveColumn, constraints: Sequence[Constraint], labels: IntArray
) -> BoolArray | None:
    """The rows that count towards the rate over a column for which fewest do."""
    read = [m for c in constraints if column.name in columns_of(c) for m in c.moments]
    return min((as_moment(m).counts(labels) for m in read), key=np.sum, default=None)


def joined(ours: SensitiveColumn, theirs: SensitiveColumn) -> SensitiveColumn:
    """A column of two sets of rows, one after the other, in the groups of the first."""
    codes = np.concatenate([ours.codes, theirs.codes])
    if ours.members is None or theirs.members is None:
        return replace(ours, codes=codes)
    return replace(
        ours,
        codes=codes,
        members=np.concatenate([ours.members, theirs.members]),
        likely=None if ours.likely is None else np.concatenate([ours.likely, theirs.likely]),
        numbers=None,
    )
