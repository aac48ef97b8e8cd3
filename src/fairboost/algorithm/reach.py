"""How far groups may be pushed whose members the features hardly tell from others.

Under a constraint on actual over expected, a row is pushed by ``sum_g push_g P(g | x)``. Where
features say next to nothing about the group, P is nearly the same for everyone. Pushes of opposite
signs then moved everyone, by whatever was left of their sum, and the total was no longer
calibrated. And multipliers whose violations cannot be closed grew without end: predictions
followed the noise in P, until they were no better than a constant.

So pushes leave the total alone, unless all groups ask for the same direction
(:func:`keeping_the_total`). The total has multipliers of its own (:func:`with_totals`), and those
of groups have a limit (:func:`most_of`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairboost._typing import FloatArray
from fairboost.fairness.binding import Term
from fairboost.tasks.layout import RowLayout, bind_all

MOST_CHANGE = 0.15
"""Standard deviation of the changes that one multiplier may ask for, relative to predictions."""

HARDLY = 0.02
"""Share of the variance of a group that features explain, at which the limit is half as large."""


def is_learned(term: Term, layout: RowLayout) -> bool:
    """Whether a constraint on actual over expected pushes rows by learned probabilities."""
    has_total = term.constraint.of_everyone() is not None
    known = has_total and term.groups.columns in layout.memberships
    return known and layout.cells.members_of(term.groups) is None


def with_totals(layout: RowLayout) -> RowLayout:
    """The rows, with a constraint on everyone's actual over expected beside those of such groups.

    It asks for nothing that theirs do not ask for, and is not judged by itself.
    """
    learned = [t.constraint.of_everyone() for t in layout.terms if is_learned(t, layout)]
    totals = [total for total in dict.fromkeys(learned) if total is not None]
    terms = *layout.terms, *bind_all(totals, layout.cells)
    measured = *layout.measured_terms, *bind_all(totals, layout.measured)
    return replace(layout, terms=terms, measured_terms=measured) if totals else layout


def is_total(term: Term) -> bool:
    """Whether a term is one of those on everyone."""
    return term.constraint.by == () and term.constraint.of_everyone() is not None


def most_of(term: Term, layout: RowLayout, answers: FloatArray) -> FloatArray:
    """By how much each multiplier may move its violation at most, if features told all of a group.

    A change of predictions in proportion to P(g | x) has the standard deviation of P times its
    size, and moves the group by no more than the share of its variance that P explains.

    Parameters
    ----------
    term : Term
        The constraint, bound to the rows that are measured.
    layout : RowLayout
        Has the probabilities.
    answers : (n_moments * n_groups,) float64
        As :func:`fairboost.algorithm.margins.answers_of` has them.
    """
    if not is_learned(term, layout):
        return np.full(len(term.inequalities), np.inf)
    known = layout.memberships[term.groups.columns].astype(np.float64)
    weight = layout.sample_weight
    mean = np.average(known, axis=0, weights=weight)
    spread = np.sqrt(np.average((known - mean) ** 2, axis=0, weights=weight))
    told = np.maximum(answers.reshape(term.counted.shape)[0], 0.0)
    allowed = MOST_CHANGE * told / (told + HARDLY) / np.maximum(spread, np.finfo(float).tiny)
    out: FloatArray = allowed[term.lines.A.groups]
    return out


def keeping_the_total(pushes: FloatArray, shares: FloatArray) -> FloatArray:
    """Pushes on the groups without what moves everyone, unless all ask for it.

    Parameters
    ----------
    pushes : (n_moments, n_groups) float64
        Weight on a row of each group.
    shares : (n_moments, n_groups) float64
        Weights of the groups' rows.

    Examples
    --------
    >>> keeping_the_total(np.array([[3.0, -1.0], [3.0, 1.0]]), np.ones((2, 2)))
    array([[ 2., -2.],
           [ 2.,  0.]])
    """
    mean = (shares * pushes).sum(axis=1, keepdims=True) / shares.sum(axis=1, keepdims=True)
    least, most = pushes.min(axis=1, keepdims=True), pushes.max(axis=1, keepdims=True)
    out: FloatArray = pushes - mean + np.maximum(least, 0.0) + np.minimum(most, 0.0)
    return out
