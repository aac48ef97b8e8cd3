"""Calibrated within groups: where labels are predicted, actual over expected is 1 in every group.

Expected is the mean probability of a group, and actual the share of its rows whose label is
positive. The constraint is that of numbers (:class:`fairboost.fairness.numbers.Calibrated`), on
moments of two labels: trained by violations that are linear in what is expected, and judged by the
ratio itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import check_tolerance
from fairboost.fairness.label_moments import (
    MEAN_LABEL,
    MEAN_PROBABILITY,
    LabelMean,
    in_parts_of_scores,
)
from fairboost.fairness.numbers import Calibrated

NAME = "calibrated"


@dataclass(frozen=True)
class CalibratedScores(Calibrated):
    """Labels over probabilities within 1 ± tolerance, in every group."""

    @property
    def moments(self) -> tuple[LabelMean, ...]:  # type: ignore[override]
        """Mean probability and label; then those in parts of the probabilities."""
        parts = () if self.within is None else in_parts_of_scores(self.within)
        return MEAN_PROBABILITY, MEAN_LABEL, *parts

    def words(self, by: str) -> str:
        """The constraint in words."""
        return super().words(by).replace("predictions", "probabilities")


def by_name(constraint: Any, tolerance: float | None) -> Any:
    """What the user wrote, with the name of the constraint replaced by the constraint.

    Parameters
    ----------
    constraint : str, Constraint, sequence of them, or None
        The ``constraint`` parameter of the estimator.
    tolerance : float, optional
        Tolerance of constraints that have none of their own.

    Examples
    --------
    >>> by_name("calibrated", 0.05).tolerance
    0.05
    """
    if isinstance(constraint, list | tuple):
        return [by_name(item, tolerance) for item in constraint]
    if not isinstance(constraint, str) or constraint != NAME:
        return constraint
    return Calibrated(0.01 if tolerance is None else check_tolerance(tolerance))


def of_labels(constraint: Calibrated) -> CalibratedScores:
    """The constraint on labels, in place of that on numbers."""
    if constraint.tolerance >= 1:
        raise ConstraintError(
            f"tolerance={constraint.tolerance:g} asks for next to nothing, expected less than 1: "
            "0.01 lets actual over expected be from 0.99 to 1.01"
        )
    return CalibratedScores(constraint.tolerance, constraint.by, constraint.within)
