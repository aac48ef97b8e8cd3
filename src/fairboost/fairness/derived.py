"""Figures that follow from several moments of a group, such as a precision from two rates.

Training needs moments: means over rows that are known before anyone is decided about. A precision
is not one of them, as the model itself says who counts. A constraint on such a figure reads the
moments that it follows from, and is judged, printed and traced by the figure, which it offers as
``shown(moments, rows)``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fairboost._typing import FloatArray
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.binding import Term
from fairboost.fairness.moments import Moment


class Shown(NamedTuple):
    """A figure of each group, in place of the moments that it follows from."""

    constraint: GroupConstraint
    """The constraint on the figure."""

    moment: Moment
    """What the figure is called."""

    values: FloatArray
    """(n_groups,): the figures."""

    counted: FloatArray
    """(n_groups,): weight of the rows that the figure is a share of."""

    rows: FloatArray
    """(n_groups,): as many rows of equal weight have the same information."""


def shown_term(term: Term, values: FloatArray) -> tuple[Term, FloatArray]:
    """A constraint and its moments as they are judged: by the figure that follows from them.

    Parameters
    ----------
    term : Term
        The constraint, bound to rows.
    values : (n_moments * n_groups,) float64
        Its moments.
    """
    found = term.constraint.shown(term.read(values), term.rows)
    if found is None:
        return term, values
    judged = replace(
        term,
        constraint=found.constraint,
        moments=(found.moment,),
        counted=found.counted[None],
        rows=found.rows[None],
    )
    return judged, found.values


def shown_labels(term: Term) -> list[str]:
    """A name for each figure of each group, for the trace; none of a constraint on moments."""
    middle = (term.counted * 0.0 + 0.5).ravel()
    shown, _ = shown_term(term, middle)
    return [] if shown is term else shown.moment_labels
