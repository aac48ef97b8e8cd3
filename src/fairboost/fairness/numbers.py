"""Moments and constraints of a number that is predicted: means, losses, distributions.

Everything is per unit of exposure, and rows weigh by it; without exposures a row counts as one.
With r the prediction and a the actual figure of a row, the moments of a group are means of::

    prediction     r
    actual         a
    loss           the squared or absolute error, or the deviance
    above q        [r is above the q-quantile of all predictions]

The last ones, at several q, are the distribution of predictions, read at thresholds that follow
it. Parities and bounds of moments are the ones of rates (:mod:`fairboost.fairness.constraints`);
what is here compares several moments at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import OneMoment
from fairboost.fairness.moments import GroupMoments

N_LEVELS = 15
"""Thresholds at which distributions are compared, unless the user asks for another number."""


@dataclass(frozen=True)
class NumberMoment:
    """The mean of a quantity over all rows.

    Parameters
    ----------
    name : str
        Short name, as users write it.
    quantity : int
        Which of the task's quantities is averaged.
    title : str
        The name in words, for tables and plots.
    """

    name: str
    quantity: int
    title: str
    label: None = None

    def counts(self, labels: IntArray) -> BoolArray:
        """All rows count."""
        return np.ones(labels.shape, bool)


NUMBERS: dict[str, NumberMoment] = {
    m.name: m
    for m in (
        NumberMoment("prediction", 0, "mean prediction"),
        NumberMoment("actual", 1, "mean of what was actual"),
        NumberMoment("loss", 2, "mean loss"),
    )
}
FIRST_LEVEL = len(NUMBERS)


def levels(count: int) -> FloatArray:
    """The q of that many quantiles, evenly spaced."""
    out: FloatArray = np.arange(1, count + 1) / (count + 1)
    return out


def as_number(moment: str | NumberMoment) -> NumberMoment:
    """Look a moment up by name; one of its kind passes through.

    Examples
    --------
    >>> as_number("prediction").title
    'mean prediction'
    """
    if isinstance(moment, NumberMoment):
        return moment
    found = NUMBERS.get(moment.lower()) if isinstance(moment, str) else None
    if found is None:
        raise ConstraintError(
            f"unknown moment {moment!r} of a number that is predicted; expected one of "
            f"{', '.join(NUMBERS)}"
        )
    return found


@dataclass(frozen=True)
class SameDistribution:
    """Distributions of predictions alike: no group's is further from everyone's than tolerance.

    The distance is that of Kolmogorov and Smirnov, the largest difference of distribution
    functions, read at thresholds that are quantiles of all predictions.
    """

    tolerance: float
    by: str | tuple[str, ...] | None = None
    count: int = N_LEVELS

    name = "distribution"

    @property
    def moments(self) -> tuple[NumberMoment, ...]:
        """Shares of predictions above each threshold."""
        return tuple(
            NumberMoment(f"above q{q:.2f}", FIRST_LEVEL + k, f"share above the {q:.0%} quantile")
            for k, q in enumerate(levels(self.count))
        )

    @property
    def slack(self) -> float:
        """How far a share may be from where it would ideally be."""
        return self.tolerance

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """Name the violations, given labels of the groups."""
        return [
            f"{m.name}[{g}] {side}"
            for side in ("above", "below")
            for m in self.moments
            for g in groups
        ]

    def violations(self, moments: GroupMoments) -> FloatArray:
        """How far each share is from everyone's, beyond the tolerance; above, then below."""
        apart = self._apart(moments).ravel()
        return np.concatenate([apart, -apart]) - self.tolerance

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Derivative; the same at all values."""
        shape = moments.values.shape
        net = multipliers[: multipliers.size // 2] - multipliers[multipliers.size // 2 :]
        net, shares = net.reshape(shape), self._shares(moments)
        coef: FloatArray = net - shares * net.sum(axis=1, keepdims=True)
        return coef

    def figure(self, moments: GroupMoments) -> float:
        """The largest distance."""
        return float(np.abs(self._apart(moments)).max())

    def _apart(self, moments: GroupMoments) -> FloatArray:
        pooled = (self._shares(moments) * moments.values).sum(axis=1, keepdims=True)
        out: FloatArray = moments.values - pooled
        return out

    def _shares(self, moments: GroupMoments) -> FloatArray:
        out: FloatArray = moments.weights / moments.weights.sum(axis=1, keepdims=True)
        return out


@dataclass(frozen=True)
class Calibrated:
    """Actual over expected within 1 ± tolerance, in every group: the A/E ratio of actuaries."""

    tolerance: float
    by: str | tuple[str, ...] | None = None

    name = "actual over expected"

    @property
    def moments(self) -> tuple[NumberMoment, ...]:
        """Mean prediction, and mean of what was actual."""
        return NUMBERS["prediction"], NUMBERS["actual"]

    @property
    def slack(self) -> float:
        """How far the ratio may be from 1."""
        return self.tolerance

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """Name the violations, given labels of the groups."""
        return [f"A/E[{g}] {side}" for side in ("above", "below") for g in groups]

    def violations(self, moments: GroupMoments) -> FloatArray:
        """``A/E - 1 - tolerance`` of each group, then ``1 - A/E - tolerance``."""
        expected, actual = moments.values
        away = actual / expected - 1.0
        return np.concatenate([away, -away]) - self.tolerance

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Derivative at given moments."""
        expected, actual = moments.values
        net = multipliers[: len(actual)] - multipliers[len(actual) :]
        return np.stack([-net * actual / expected**2, net / expected])


@dataclass(frozen=True)
class EachAtMost(OneMoment):
    """The moment of no group above a bound."""

    at_most: float
    by: str | tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.moment.name}<={self.at_most:g}"

    def violations(self, moments: GroupMoments) -> FloatArray:
        """What each group is above the bound by."""
        (r,) = moments.values
        out: FloatArray = r - self.at_most
        return out

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """The multipliers themselves."""
        return multipliers[np.newaxis].copy()
