"""Constraints at another tolerance: what a trade-off curve varies of what the user asked for."""

from __future__ import annotations

from typing import Any

from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.constraints import FOUR_FIFTHS, listed
from fairboost.fairness.means import NumberMoment
from fairboost.fairness.numbers import DEFAULTS
from fairboost.fairness.rates import as_moment

SHARES_BY_NAME = "equal_distributions"
"""The named constraint on numbers whose tolerance is a share of rows."""


def is_varied(constraint: Any) -> bool:
    """Whether a curve varies the tolerance of a constraint, or the bound of every group.

    Examples
    --------
    >>> is_varied("equalized_odds"), is_varied("four_fifths")  # whose limit is a ratio
    (True, False)
    """
    if isinstance(constraint, str):
        return constraint != FOUR_FIFTHS
    return isinstance(constraint, GroupConstraint) and constraint.varies


def with_tolerance(constraint: Any, tolerance: float) -> Any:
    """A constraint or several, with another tolerance wherever there is one to vary."""
    if isinstance(constraint, list | tuple):
        return type(constraint)(with_tolerance(c, tolerance) for c in constraint)
    if isinstance(constraint, str) or not is_varied(constraint):
        return constraint
    return constraint.with_limit(tolerance)


def is_of_numbers(constraint: Any) -> bool:
    """Whether a constraint is on numbers; a name may be of both kinds."""
    if isinstance(constraint, str):
        return constraint in DEFAULTS
    moments = getattr(constraint, "moments", ())
    return any(isinstance(as_moment(m), NumberMoment) for m in moments)


def of_shares(constraint: Any) -> bool:
    """Whether a tolerance is a share of rows: of rates, and of distributions."""
    items = listed(constraint)
    distances = (c == SHARES_BY_NAME or getattr(c, "judged", "") == "distance" for c in items)
    return not any(map(is_of_numbers, items)) or any(distances)
