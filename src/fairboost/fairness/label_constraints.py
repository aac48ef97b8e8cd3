"""Constraints on decisions between two labels, in the form in which they are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.calibration import of_labels
from fairboost.fairness.constraints import Parity
from fairboost.fairness.label_moments import LabelMean, WrongRate
from fairboost.fairness.means import NumberMoment
from fairboost.fairness.minimax import Minimax, check_budget, with_budget
from fairboost.fairness.moments import Moment
from fairboost.fairness.numbers import Calibrated
from fairboost.fairness.precision import trained_form
from fairboost.fairness.rates import PRECISION, as_moment


def for_two_labels(
    constraints: Sequence[GroupConstraint], paper: bool, decision: Any = 0.5
) -> tuple[GroupConstraint, ...]:
    """The constraints, in the form that the multipliers are for.

    Parameters
    ----------
    constraints : sequence of Constraint
        What the user asked for, with explicit columns.
    paper : bool
        Whether multipliers are the paper's.
    decision : float or OperatingPoint
        The operating point.
    """
    found = [of_labels(c) if isinstance(c, Calibrated) else c for c in constraints]
    for c in found:
        for m in map(as_moment, c.moments):
            if isinstance(m, NumberMoment):
                raise ConstraintError(
                    f"{m.name!r} is a mean of numbers, and labels are predicted; compare a rate, "
                    "such as parity('ppr'), use minimax('loss') or 'calibrated', or use "
                    "FairGBMRegressor"
                )
            if paper:
                _check_in_paper(m)
    check_budget(found, decision)
    if paper:  # which knows no rows but those trained on
        return tuple(replace(c, automatic=False) if isinstance(c, Parity) else c for c in found)
    return tuple(
        with_budget(c, decision) if isinstance(c, Minimax) else trained_form(c) for c in found
    )


def _check_in_paper(moment: Moment) -> None:
    """Refuse what the paper's algorithm does not know."""
    if moment == PRECISION:
        what = "predictive parity"
    elif isinstance(moment, WrongRate | LabelMean):
        what = f"a constraint on the {moment.title} of groups or of everyone"
    else:
        return
    raise ConstraintError(
        f"{what} is not part of the paper's algorithm, which compares rates of rows that are "
        "known before anyone is decided about, by stand-ins of decisions; use "
        "multipliers='two_sided', the default"
    )
