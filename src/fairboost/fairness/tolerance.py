"""The tolerance that a constraint has where the user gives none: what the rows can show.

A gap within two standard errors cannot be told from none. A tolerance far below that is met by
luck: multipliers follow the noise of small groups, which costs accuracy, and other people's gaps
are no smaller (``benchmarks/settling.md``). So an automatic tolerance is two standard errors of a
gap on the rows that are measured, and 0.01 where that is less. It is known before training: of a
rate at even odds, a row has the variance 1/4. Of several groups it is the mean over people, each
group compared with all others: one small group does not loosen the limit of the large ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.fairness.binding import Term
from fairboost.fairness.constraints import TOLERANCE, Constraint, columns_of
from fairboost.fairness.rates import as_moment

ERRORS = 2.0
"""Standard errors within which a gap cannot be told from none."""

MOST = 0.1
"""The largest automatic tolerance."""


def automatic_tolerance(rows: FloatArray, strata: IntArray | None = None) -> float:
    """The tolerance for the gaps of a rate, rounded up to a thousandth.

    Parameters
    ----------
    rows : (n_groups,) float64
        Rows of each group that count.
    strata : (n_groups,) int, optional
        Groups of the same number are compared with each other; None compares all.

    Examples
    --------
    >>> automatic_tolerance(np.array([1_400.0, 7_900.0])), automatic_tolerance(np.full(2, 1e6))
    (0.029, 0.01)
    """
    total = rows.sum() if strata is None else np.bincount(strata, rows)[strata]
    others = np.maximum(total - rows, np.finfo(float).tiny)
    errors = np.sqrt(0.25 / np.maximum(rows, 1.0) + 0.25 / others)
    found = ERRORS * float(rows @ np.minimum(errors, 1.0)) / float(rows.sum())
    return min(max(TOLERANCE, math.ceil(found * 1_000 - 1e-9) / 1_000), MOST)


def key_of(constraint: Constraint) -> str:
    """What a constraint is called among tolerances, such as ``"fnr[sex]"``."""
    names = ", ".join(as_moment(m).name for m in constraint.moments)
    return f"{names}[{', '.join(columns_of(constraint))}]"


def is_automatic(constraint: Constraint) -> bool:
    """Whether the tolerance of a constraint follows from the rows."""
    return bool(getattr(constraint, "automatic", False))


def settled(
    terms: Sequence[Term], measured: Sequence[Term]
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Constraints with the tolerances that follow from the rows measured.

    Parameters
    ----------
    terms, measured : sequence of Term
        The same constraints, bound to the rows trained on and to those measured.
    """
    found = [
        replace(cast(Any, m.constraint), tolerance=automatic_tolerance(m.rows[0], m.strata))
        if is_automatic(m.constraint)
        else m.constraint
        for m in measured
    ]
    of_trained, of_measured = (
        tuple(replace(t, constraint=c) for t, c in zip(each, found, strict=True))
        for each in (terms, measured)
    )
    return of_trained, of_trained if measured is terms else of_measured


def with_tolerances(
    constraints: Sequence[Constraint], known: Mapping[str, float]
) -> tuple[Constraint, ...]:
    """Constraints with tolerances that were found in training."""
    return tuple(
        replace(cast(Any, c), tolerance=known[key_of(c)], automatic=False)
        if is_automatic(c) and key_of(c) in known
        else c
        for c in constraints
    )
