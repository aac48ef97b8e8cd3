"""Constraints on a number that is predicted: means, losses, distributions, calibration.

The moments are those of :mod:`fairboost.fairness.means`. Parities and bounds of single ones are
the same as of rates (:mod:`fairboost.fairness.constraints`); what is here compares several
moments, or all groups, at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from fairboost._numbers import is_finite
from fairboost._typing import FloatArray
from fairboost.exceptions import ConstraintError
from fairboost.fairness.constraints import (
    Bound,
    Constraint,
    ConstraintLike,
    OfAllGroups,
    OneMoment,
    Parity,
    check_given,
    check_tolerance,
)
from fairboost.fairness.constraints import resolve as resolve_any
from fairboost.fairness.means import NUMBERS, NumberMoment, above
from fairboost.fairness.moments import Farthest, GroupMoments
from fairboost.fairness.rates import as_moment

N_LEVELS = 15
"""Thresholds at which distributions are compared, unless the user asks for another number."""


@dataclass(frozen=True)
class SameDistribution(OfAllGroups):
    """Distributions of predictions alike: no group's is further from everyone's than tolerance.

    The distance is that of Kolmogorov and Smirnov, the largest difference of distribution
    functions, read at thresholds that are quantiles of all predictions. Given a column, everyone
    is everyone with the same value of it. Made by :func:`equal_distributions`.
    """

    tolerance: float
    by: str | tuple[str, ...] | None = None
    count: int = N_LEVELS
    given: tuple[str, ...] = ()

    name = "distribution"

    @property
    def moments(self) -> tuple[NumberMoment, ...]:
        """Shares of predictions above each threshold."""
        return above(self.count)

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
        coef: FloatArray = net - shares * moments.total(net)
        return coef

    least = 0.0

    @property
    def limit(self) -> float:
        """What the distance may be at most."""
        return self.tolerance

    def figure(self, moments: GroupMoments) -> float:
        """The largest distance."""
        return float(np.abs(self._apart(moments)).max())

    def words(self, by: str) -> str:
        """The constraint in words."""
        return f"distributions of predictions alike by {by}, distance at most {self.tolerance:g}"

    def farthest(self, moments: GroupMoments) -> Farthest:
        """Where the distribution of each group is farthest from everyone's."""
        apart, groups = self._apart(moments), np.arange(len(moments.groups))
        level = np.abs(apart).argmax(axis=0)
        below = apart.size * (apart[level, groups] < 0)
        at = tuple(self.moments[k].name.removeprefix("above ") for k in level)
        which = level * len(groups) + groups + below
        return Farthest("largest distance from everyone's", at, which)

    def _apart(self, moments: GroupMoments) -> FloatArray:
        pooled = moments.total(self._shares(moments) * moments.values)
        out: FloatArray = moments.values - pooled
        return out

    def _shares(self, moments: GroupMoments) -> FloatArray:
        out: FloatArray = moments.weights / moments.total(moments.weights)
        return out


def equal_distributions(
    tolerance: float = 0.05,
    *,
    by: str | tuple[str, ...] | None = None,
    given: str | tuple[str, ...] | None = None,
) -> SameDistribution:
    """Ask that predictions be distributed alike in all groups.

    The constraint ``"equal_distributions"`` of :class:`~fairboost.FairGBMRegressor`, of groups of
    one's choice.

    Parameters
    ----------
    tolerance : float, default=0.05
        How far the distribution of a group may be from everyone's, a share of rows: the distance
        of Kolmogorov and Smirnov.
    by, given : str or tuple of str, optional
        The groups to compare, and the columns in which rows that are compared are alike, as in
        :func:`~fairboost.parity`.

    Examples
    --------
    >>> equal_distributions(0.1, by="sex", given="risk_class").words("sex given risk_class")
    'distributions of predictions alike by sex given risk_class, distance at most 0.1'
    """
    return SameDistribution(check_tolerance(tolerance), by, given=check_given(given, by))


@dataclass(frozen=True)
class Calibrated(OfAllGroups):
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

    least = 0.0

    @property
    def limit(self) -> float:
        """How far actual over expected may be from 1."""
        return self.tolerance

    def figure(self, moments: GroupMoments) -> float:
        """How far actual over expected is from 1, in the group where it is farthest."""
        expected, actual = moments.values
        return float(np.abs(actual / expected - 1.0).max())

    def words(self, by: str) -> str:
        """The constraint in words."""
        return f"actual over expected by {by} within 1 ± {self.tolerance:g}"


@dataclass(frozen=True)
class EachAtMost(OneMoment, OfAllGroups):
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


NamedNumbers: TypeAlias = Literal[
    "equal_means", "equal_distributions", "calibrated", "equal_errors", "bounded_group_loss"
]
DEFAULTS: dict[str, float | None] = {
    "equal_means": None,
    "equal_distributions": 0.05,
    "calibrated": 0.01,
    "equal_errors": None,
    "bounded_group_loss": None,
}
"""Constraints by name, and their tolerance where the user gives none; None where its unit is that
of the prediction or the loss, and only the user can know."""


def by_name(name: str, tolerance: float | None) -> Constraint:
    """A constraint by its name.

    Examples
    --------
    >>> by_name("equal_means", 500.0).tolerance
    500.0
    """
    if name not in DEFAULTS:
        raise ConstraintError(
            f"unknown constraint {name!r}; expected one of {', '.join(map(repr, DEFAULTS))}, a "
            "parity(...) or bound(...) of 'prediction' or 'loss', a list of them, or None; rates "
            "of decisions are for FairGBMClassifier"
        )
    limit = DEFAULTS[name] if tolerance is None else tolerance
    if limit is None:
        unit = "prediction" if name == "equal_means" else "loss"
        raise ConstraintError(
            f"constraint={name!r} needs a tolerance in the unit of the {unit}; pass "
            f"tolerance=..., or write parity({unit!r}, 0.02, relative=True) for two percent"
        )
    if name == "equal_distributions":
        return SameDistribution(limit)
    if name == "calibrated":
        return Calibrated(limit)
    if name == "bounded_group_loss":
        return EachAtMost(NUMBERS["loss"], limit)
    return Parity(NUMBERS["prediction" if name == "equal_means" else "loss"], limit)


def resolve(
    constraint: ConstraintLike, tolerance: float | None, columns: Sequence[str]
) -> tuple[Constraint, ...]:
    """What the user wrote, as a flat list of constraints with explicit columns.

    Parameters
    ----------
    constraint : str, Constraint, sequence of them, or None
        The ``constraint`` parameter of the estimator.
    tolerance : float or None
        Tolerance of the constraints that have none of their own.
    columns : sequence of str
        Names of the sensitive columns.
    """
    if tolerance is not None and (not is_finite(tolerance) or tolerance < 0):
        raise ConstraintError(
            f"tolerance must be a number, 0 or more, found {tolerance!r}; it has the unit of what "
            "is compared"
        )
    if constraint is None:
        return ()
    listed: list[Any] = [*constraint] if isinstance(constraint, list | tuple) else [constraint]
    if tolerance is not None:
        _check_taken(listed, tolerance)
    named = [by_name(c, tolerance) if isinstance(c, str) else c for c in listed]
    found = resolve_any([_with(c, tolerance) for c in named], None, columns)
    for c in found:
        _check_of_numbers(c)
    return found


def _check_taken(listed: Sequence[Any], tolerance: float) -> None:
    """Refuse a tolerance beside constraints that all have their own: both cannot be meant."""
    if any(isinstance(c, str) or _lacks_tolerance(c) for c in listed):
        return
    own = [c.tolerance for c in listed if hasattr(c, "tolerance")]
    if not own and any(isinstance(c, Bound | EachAtMost) for c in listed):
        raise ConstraintError(
            f"tolerance={tolerance:g} is for constraints that compare groups, and a bound has its "
            "limit in itself; leave tolerance out"
        )
    if own and set(own) != {tolerance}:
        raise ConstraintError(
            f"tolerance={tolerance:g} contradicts the constraint's own, {own[0]:g}; give one of "
            "them: leave tolerance out, or write parity(...) without one"
        )


def _check_of_numbers(constraint: Constraint) -> None:
    """Refuse constraints that are about something else, or that ask for nothing."""
    expected = "expected 'prediction' or 'loss'"
    for moment in map(as_moment, constraint.moments):
        if not isinstance(moment, NumberMoment):
            raise ConstraintError(
                f"{moment.name!r} is a rate of decisions, and a number is predicted; {expected}"
            )
    if isinstance(constraint, OneMoment) and constraint.moment.name == "actual":
        raise ConstraintError(
            "the mean of what was actual is the same whatever is predicted, so it cannot be "
            f"constrained; {expected}, or 'calibrated', which compares it with predictions"
        )
    if isinstance(constraint, SameDistribution) and constraint.tolerance >= 1:
        raise ConstraintError(
            f"tolerance={constraint.tolerance:g} asks for nothing: distributions are at most 1 "
            "apart; it is a share of rows, such as 0.05"
        )


def _lacks_tolerance(constraint: Any) -> bool:
    return isinstance(constraint, Parity) and not constraint.has_own_tolerance


def _with(constraint: Constraint, tolerance: float | None) -> Constraint:
    """A parity without a tolerance of its own takes the shared one."""
    if not isinstance(constraint, Parity) or constraint.has_own_tolerance:
        return constraint
    if tolerance is None:
        raise ConstraintError(
            f"parity({constraint.moment.name!r}) needs a tolerance in the unit of what is "
            "compared; pass one, or tolerance=... to the estimator"
        )
    return replace(constraint, tolerance=float(tolerance), has_own_tolerance=True)
