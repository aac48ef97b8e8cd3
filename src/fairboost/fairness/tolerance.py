"""The tolerance that a constraint has where the user gives none: what the rows can show.

A gap within two standard errors cannot be distinguished from none. A tolerance far below that is
met by luck on the rows measured: multipliers follow the noise of small groups, which costs a
little accuracy (``benchmarks/settling.md``). So an automatic tolerance is two standard errors of a
gap on the rows that are measured, and 0.01 where that is less. It is known before training, from
the rows of each group and the labels (:func:`likely_rate`). Of several groups it is the mean over
people, each group compared with all others: one small group does not loosen the limit of the large
ones. False positive and false negative rates of the same groups have one tolerance, that of the
rate known less well: equalized odds is about the larger of the two gaps. With a tolerance of its
own for each, the rate known better costs accuracy, and the larger gap is no smaller
(``benchmarks/settling.md``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from fairboost._typing import FloatArray, IntArray
from fairboost.data.cells import Cells
from fairboost.fairness.base import GroupConstraint, adapted
from fairboost.fairness.binding import Term, compared_by
from fairboost.fairness.constraints import TOLERANCE, Constraint, columns_of, given_of
from fairboost.fairness.moments import Moment
from fairboost.fairness.rates import Rate, as_moment

ERRORS = 2.0
"""Standard errors within which a gap cannot be distinguished from none."""

MOST = 0.1
"""The largest automatic tolerance."""

LEAST_VARIANCE = 1e-4
"""Of a decision, at least: a rate that is likely to be 0 may be another."""


def likely_rate(moment: Moment, *parts: Cells) -> float:
    """A rate before there is a model, for its variance.

    As many people are decided positively as are positive, and as many negatives wrongly as
    positives, of whom it is half. Of classes and of all else it is one half. The labels are those
    of all rows: of one label fewer may be held out.

    Examples
    --------
    >>> from fairboost.data.cells import build_cells
    >>> cells = build_cells(np.array([0] * 8 + [1] * 2, np.int32), [])
    >>> [likely_rate(as_moment(rate), cells) for rate in ("ppr", "fpr", "fnr")]
    [0.2, 0.125, 0.5]
    """
    if not isinstance(moment, Rate):
        return 0.5
    negative, positive = (
        sum(float(cells.weights[cells.labels == label].sum()) for cells in parts)
        for label in (0, 1)
    )
    if moment.label is None:
        return positive / (positive + negative)
    mine, others = (positive, negative) if moment.label == 1 else (negative, positive)
    return 0.5 * min(others / mine, 1.0) if mine > 0 else 0.5


def automatic_tolerance(
    rows: FloatArray, strata: IntArray | None = None, rate: float = 0.5
) -> float:
    """The tolerance for the gaps of a rate, rounded up to a thousandth.

    Parameters
    ----------
    rows : (n_groups,) float64
        Rows of each group that count.
    strata : (n_groups,) int, optional
        Groups of the same number are compared with each other; None compares all.
    rate : float, default=0.5
        What the rate is likely to be.

    Examples
    --------
    >>> automatic_tolerance(np.array([1_400.0, 7_900.0])), automatic_tolerance(np.full(2, 1e6))
    (0.029, 0.01)
    """
    variance = max(rate * (1.0 - rate), LEAST_VARIANCE)
    total = rows.sum() if strata is None else np.bincount(strata, rows)[strata]
    others = np.maximum(total - rows, np.finfo(float).tiny)
    errors = np.sqrt(variance / np.maximum(rows, 1.0) + variance / others)
    found = ERRORS * float(rows @ np.minimum(errors, 1.0)) / float(rows.sum())
    return min(max(TOLERANCE, math.ceil(found * 1_000 - 1e-9) / 1_000), MOST)


def key_of(constraint: Constraint) -> str:
    """What a constraint is called among tolerances, such as ``"fnr[sex]"``."""
    names = ", ".join(as_moment(m).name for m in constraint.moments)
    given = given_of(constraint)
    return f"{names}[{compared_by(columns_of(constraint), given)}]"


def is_automatic(constraint: Constraint) -> bool:
    """Whether the tolerance of a constraint follows from the rows."""
    return adapted(constraint).automatic


def settled(
    terms: Sequence[Term], measured: Sequence[Term], *parts: Cells
) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Constraints with the tolerances that follow from the rows measured.

    Parameters
    ----------
    terms, measured : sequence of Term
        The same constraints, bound to the rows trained on and to those measured.
    *parts : Cells
        All rows.
    """
    shared: dict[tuple[object, ...], float] = {}
    for m in measured:
        if is_automatic(m.constraint):
            rate = likely_rate(m.moments[0], *parts)
            tolerance = automatic_tolerance(m.rows[0], m.strata, rate)
            shared[_shared_by(m)] = max(shared.get(_shared_by(m), 0.0), tolerance)
    found = [
        replace(cast(Any, m.constraint), tolerance=shared[_shared_by(m)])
        if is_automatic(m.constraint)
        else m.constraint
        for m in measured
    ]
    of_trained, of_measured = (
        tuple(replace(t, constraint=c) for t, c in zip(each, found, strict=True))
        for each in (terms, measured)
    )
    return of_trained, of_trained if measured is terms else of_measured


def _shared_by(term: Term) -> tuple[object, ...]:
    """What terms of one tolerance have in common: groups, and rates of true labels."""
    of_labels = isinstance(term.moments[0], Rate) and term.moments[0].label is not None
    return key_of(term.constraint).partition("[")[2], of_labels or term.moments[0].name


def said_of(terms: Sequence[Term], rows: str) -> str:
    """Name automatic tolerances, and what 0.01 would take; nothing where there are none.

    Parameters
    ----------
    terms : sequence of Term
        The constraints, bound to the rows measured.
    rows : str
        What these rows are called.
    """
    found = {
        f"{t.moments[0].title} by {t.by_in_words}": t.constraint.tolerated
        for t in terms
        if is_automatic(t.constraint)
    }
    if not found:
        return ""
    named = ", ".join(f"{tolerance:g} ({name})" for name, tolerance in found.items())
    most, many = max(found.values()), len(found) > 1
    said = f"Automatic tolerance{'s' * many}: {named}, two standard errors of a gap on the {rows}"
    if most >= MOST:
        return f"{said}, but at most {MOST:g}. These are few rows."
    said += ". A smaller gap cannot be distinguished from none there."
    times = (most / TOLERANCE) ** 2
    more = f" A tolerance of {TOLERANCE:g} takes {times:.1f} times as many rows."
    return said + more * (times > 1)


def with_tolerances(
    constraints: Sequence[GroupConstraint], known: Mapping[str, float] | None
) -> tuple[GroupConstraint, ...]:
    """Constraints with the tolerances that were found in training; as they are before it.

    They never follow from rows that a model is judged on.
    """
    if known is None:
        return tuple(constraints)

    def found(key: str) -> float:
        # A single column may have come without its name.
        alike = [v for name, v in known.items() if name.partition("[")[0] == key.partition("[")[0]]
        return known.get(key, alike[0] if len(alike) == 1 else TOLERANCE)

    return tuple(
        replace(cast(Any, c), tolerance=found(key_of(c)), automatic=False)
        if is_automatic(c)
        else c
        for c in constraints
    )
