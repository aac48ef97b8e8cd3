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
from fairboost._text import did_you_mean, plain_number
from fairboost._typing import BoolArray, FloatArray
from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import GroupConstraint, OneMoment, Traits
from fairboost.fairness.compiled import ByGroup, Centred, Lines
from fairboost.fairness.constraints import (
    Bound,
    ConstraintLike,
    Parity,
    check_by,
    check_given,
    check_tolerance,
    listed,
)
from fairboost.fairness.constraints import resolve as resolve_any
from fairboost.fairness.means import NUMBERS, NumberMoment, above, in_parts
from fairboost.fairness.moments import Farthest, GroupMoments
from fairboost.fairness.rates import as_moment

N_LEVELS = 15
"""Thresholds at which distributions are compared, unless the user asks for another number."""

LARGEST_RATIO = 1e6
"""Actual over expected, at most, of a group that next to nothing is expected of."""


@dataclass(frozen=True)
class SameDistribution(GroupConstraint):
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
    judged = "distance"
    limited_by, varies = "tolerance", True
    sides = "above", "below"
    figure_name = "largest distance"
    least = 0.0

    @property
    def moments(self) -> tuple[NumberMoment, ...]:
        """Shares of predictions above each threshold."""
        return above(self.count)

    def linearized(self, moments: GroupMoments) -> Lines:
        """How far each share may be from everyone's; above, then below."""
        shares = moments.weights / moments.total(moments.weights)
        room = np.full(2 * moments.values.size, self.tolerance)
        return Lines(Centred(moments, (1, -1), (-1, 1), shares), room, room)

    @property
    def traits(self) -> Traits:
        """One prediction for everyone has equal distributions."""
        return Traits(met_by_one=True, folds=True)

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """Name the violations, given labels of the groups."""
        return [
            f"{m.name}[{g}] {side}" for side in self.sides for m in self.moments for g in groups
        ]

    def figure(self, moments: GroupMoments) -> float:
        """The largest distance."""
        return float(np.abs(self._apart(moments)).max())

    def words(self, by: str) -> str:
        """The constraint in words."""
        return f"distributions of predictions equal by {by}, distance at most {self.tolerance:g}"

    def farthest(self, moments: GroupMoments) -> Farthest:
        """Where the distribution of each group is farthest from everyone's."""
        apart, groups = self._apart(moments), np.arange(len(moments.groups))
        level = np.abs(apart).argmax(axis=0)
        below = apart.size * (apart[level, groups] < 0)
        at = tuple(self.moments[k].name.removeprefix("above ") for k in level)
        which = level * len(groups) + groups + below
        return Farthest("largest distance from everyone's", at, which)

    def _apart(self, moments: GroupMoments) -> FloatArray:
        above = self.linearized(moments).A @ moments.values.ravel()
        return above[: moments.values.size].reshape(moments.values.shape)


def equal_distributions(
    tolerance: float = 0.05,
    *,
    by: str | tuple[str, ...] | None = None,
    given: str | tuple[str, ...] | None = None,
) -> SameDistribution:
    """Ask for equal distributions of predictions in all groups.

    The constraint ``"equal_distributions"`` of :class:`~fairboost.FairGBMRegressor`, for groups
    that you choose.

    Parameters
    ----------
    tolerance : float, default=0.05
        How far the distribution of a group may be from everyone's, a share of rows: the distance
        of Kolmogorov and Smirnov.
    by, given : str or tuple of str, optional
        The groups to compare, and the columns within whose values they are compared, as in
        :func:`~fairboost.parity`.

    Examples
    --------
    >>> equal_distributions(0.1, by="sex", given="risk_class").words("sex given risk_class")
    'distributions of predictions equal by sex given risk_class, distance at most 0.1'
    """
    return SameDistribution(check_tolerance(tolerance), by, given=check_given(given, by))


@dataclass(frozen=True)
class Calibrated(GroupConstraint):
    """Actual over expected within 1 ± tolerance, in every group: the A/E ratio of actuaries.

    Made by :func:`calibrated`, or by its name. With ``within`` the same is asked in each of so
    many parts of all predictions. A part in which a group has no row has no ratio: nothing is
    asked there, and the verdict says so.
    """

    tolerance: float
    by: str | tuple[str, ...] | None = None
    within: int | None = None

    name = "actual over expected"
    judged = "actual over expected"
    limited_by, varies = "tolerance", True
    affine = False
    sides = "above", "below"
    figure_name = "largest distance from 1"
    least = 0.0

    @property
    def moments(self) -> tuple[NumberMoment, ...]:
        """Mean prediction, mean of what was actual; then predictions and the rest in parts."""
        parts = () if self.within is None else in_parts(self.within)
        return NUMBERS["prediction"], NUMBERS["actual"], *parts

    @property
    def traits(self) -> Traits:
        """The error of a ratio takes two rows of each group in each part."""
        return Traits(least_rows=2 * (self.within or 0))

    def of_everyone(self) -> GroupConstraint:
        """Everyone's actual over expected: nothing that those of groups do not ask for."""
        return replace(self, by=(), within=None)

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """Name the violations, given labels of the groups."""
        parts = ["", *(f", part {k} of {self.within}" for k in range(1, (self.within or 0) + 1))]
        return [f"A/E[{g}{part}] {side}" for side in self.sides for part in parts for g in groups]

    def violations(self, moments: GroupMoments) -> FloatArray:
        """``A/E - 1 - tolerance`` of each group and part, then ``1 - A/E - tolerance``, times E/A.

        So they are linear in what is expected. The ratio itself falls the slower the larger that
        is: a multiplier that had grown at one prediction weighed many times as much at a smaller
        one, and pushed it on to nothing. Those of parts are in what was actual in the mean part of
        the group. A ratio of few rows is far off by chance, and would push these rows out of their
        part.
        """
        up, down = self._violations(moments)
        return np.concatenate([up.ravel(), down.ravel()])

    def linearized(self, moments: GroupMoments) -> Lines:
        """The derivative at given moments."""
        A = self.by_parts(*self._slopes(moments))
        b = A @ moments.values.ravel() - self.violations(moments)
        return Lines(A, b, np.full(b.shape, self.tolerance))

    def by_parts(
        self, on_expected: FloatArray, on_actual: FloatArray, on_whole: FloatArray
    ) -> ByGroup:
        """The matrix of derivatives of lines by what is expected, actual, and actual as a whole.

        Each is (2, 1 + parts, n_groups): of the lines above, and of those below.
        """
        # Moments of all rows come first, those of parts after them: expected, then actual.
        part, n = np.arange(on_expected.shape[1]), self.within or 0
        own = np.zeros((2, 1 + n, 2 + 2 * n, on_expected.shape[2]))
        own[:, :, 1] = on_whole
        own[:, part, np.where(part > 0, part + 1, 0)] = on_expected
        own[:, part, np.where(part > 0, part + 1 + n, 1)] += on_actual
        return ByGroup(own.reshape(2 * len(part), *own.shape[2:]))

    @property
    def as_judged(self) -> ByRatio:
        """The same without regard to the size of parts, for verdicts."""
        return ByRatio(self)

    def figure(self, moments: GroupMoments) -> float:
        """How far actual over expected is from 1, where it is farthest."""
        return float(np.abs(self.away(moments)).max())

    def by_group(self, moments: GroupMoments) -> Farthest:
        """Actual over expected of each group, over all parts, for reports."""
        groups = len(moments.groups)
        return Farthest(self.name, ("",) * groups, np.arange(groups), around=1.0)

    def words(self, by: str) -> str:
        """The constraint in words."""
        text = f"actual over expected by {by} within 1 ± {self.tolerance:g}"
        if self.within is None:
            return text
        part = "tenth" if self.within == 10 else f"of {self.within} equal parts"
        return f"{text}, overall and in each {part} of the predictions"

    def not_judged(self, moments: GroupMoments, groups: Sequence[str]) -> str:
        """Say in which parts groups have no rows, given their labels; nothing where all do."""
        judged = self.read(moments)[2][1:]
        found = [
            f"{g} in part {', '.join(str(k + 1) for k in np.flatnonzero(~of_group))}"
            for g, of_group in zip(groups, judged.T, strict=True)
            if not of_group.all()
        ]
        if not found:
            return ""
        return (
            f"Without rows, and so not judged: {'; '.join(found)} (of {self.within}, from the "
            "lowest predictions up). Fewer parts, or more rows, would have them judged."
        )

    def _violations(self, moments: GroupMoments) -> tuple[FloatArray, FloatArray]:
        """By how much A/E is above, and below, what it may be; (1 + parts, n_groups) each."""
        expected, actual, _ = self.read(moments)
        unit = self._unit(actual)
        away, allowed = (actual - expected) * unit, self.tolerance * expected * unit
        return away - allowed, -away - allowed

    def _slopes(self, moments: GroupMoments) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Derivatives of violations, as :meth:`by_parts` takes them."""
        actual = self.read(moments)[1]
        unit, found = self._unit(actual), np.stack(self._violations(moments))
        on_expected = np.stack([-(1.0 + self.tolerance) * unit, (1.0 - self.tolerance) * unit])
        return on_expected, np.stack([unit, -unit]), -found * unit[0]

    def _unit(self, actual: FloatArray) -> FloatArray:
        """One over what was actual in the group, and in its mean part, (1 + parts, n_groups)."""
        of_mean_part = np.ones((len(actual), 1))
        of_mean_part[1:] = self.within or 0
        out: FloatArray = of_mean_part / np.where(actual[0] == 0, 1.0, actual[0])
        return out

    def read(self, moments: GroupMoments) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Expected and actual figures, (1 + parts, n_groups), and where there is a ratio.

        A whole group has one wherever something was actual.
        """
        values, n = moments.values, self.within or 0
        expected = np.concatenate([values[:1], values[2 : 2 + n]])
        actual = np.concatenate([values[1:2], values[2 + n :]])
        judged = expected != 0
        judged[0] |= actual[0] != 0
        return expected, actual, judged

    def divisors(self, moments: GroupMoments) -> FloatArray:
        """What ratios are over, (1 + parts, n_groups): what is expected, or next to nothing.

        A model that predicts 0 is as far from calibrated as one can be.
        """
        expected, actual, judged = self.read(moments)
        out = np.where(judged, expected, 1.0)
        least = actual[0] / LARGEST_RATIO
        out[0] = np.where(np.abs(out[0]) < np.abs(least), least, out[0])
        return out

    def away(self, moments: GroupMoments) -> FloatArray:
        """A/E less 1, (1 + parts, n_groups); 0 where there is no ratio."""
        _, actual, judged = self.read(moments)
        return np.where(judged, actual / self.divisors(moments) - 1.0, 0.0)


@dataclass(frozen=True)
class ByRatio(GroupConstraint):
    """Calibration as it is judged: a ratio is a ratio, however little is expected."""

    own: Calibrated

    @property
    def moments(self) -> tuple[NumberMoment, ...]:
        """Those of the constraint."""
        return self.own.moments

    @property
    def by(self) -> str | tuple[str, ...] | None:
        """The groups of the constraint."""
        return self.own.by

    affine = False

    def violations(self, moments: GroupMoments) -> FloatArray:
        """``A/E - 1 - tolerance`` of each group and part, then ``1 - A/E - tolerance``."""
        away = self.own.away(moments).ravel()
        return np.concatenate([away, -away]) - self.own.tolerance

    def linearized(self, moments: GroupMoments) -> Lines:
        """The derivative at given moments."""
        _, actual, judged = self.own.read(moments)
        over = self.own.divisors(moments)
        on_expected = np.where(judged, -actual / over**2, 0.0)
        on_actual = np.where(judged, 1.0 / over, 0.0)
        A = self.own.by_parts(
            np.stack([on_expected, -on_expected]),
            np.stack([on_actual, -on_actual]),
            np.zeros((2, *judged.shape)),
        )
        return Lines(A, A @ moments.values.ravel() - self.violations(moments))


MOST_PARTS = 100
"""Parts of the predictions, at most, in which A/E may be asked for."""


def calibrated(
    tolerance: float = 0.01,
    *,
    within: int | None = None,
    by: str | tuple[str, ...] | None = None,
) -> Calibrated:
    """Ask that actual over expected (A/E) be 1 in every group.

    Where labels are predicted, actual is the share of positive labels and expected the mean
    probability.

    Parameters
    ----------
    tolerance : float, default=0.01
        How far A/E may be from 1.
    within : int, optional
        Ask for the same in each of so many parts of the predictions, too; 10 for deciles. Parts
        are cut at quantiles of the predictions on the rows where groups are compared, again in
        every round.
    by : str or tuple of str, optional
        The sensitive column whose groups have the constraint, or a tuple of several columns to
        cross. By default every sensitive column by itself.

    Examples
    --------
    >>> calibrated(0.02, within=10).words("gender")
    'actual over expected by gender within 1 ± 0.02, overall and in each tenth of the predictions'
    """
    if not is_finite(tolerance) or tolerance < 0:
        raise ConstraintError(
            f"tolerance must be a number, 0 or more, found {tolerance!r}; 0.01 lets A/E be from "
            "0.99 to 1.01"
        )
    if within is not None and not _is_count(within):
        raise ConstraintError(
            f"within must be a whole number from 2 to {MOST_PARTS}, found {within!r}; it is the "
            "number of parts that predictions are cut into, 10 for deciles"
        )
    return Calibrated(float(tolerance), check_by(by), None if within is None else int(within))


@dataclass(frozen=True)
class EachAtMost(OneMoment):
    """The moment of no group above a bound; of a loss, which is 0 or more."""

    at_most: float
    by: str | tuple[str, ...] | None = None

    judged = "figure"
    limited_by, varies = "at_most", True
    least = 0.0

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.moment.name}<={self.at_most:g}"

    def linearized(self, moments: GroupMoments) -> Lines:
        """``R_g <= at_most`` of each group."""
        return Lines(Centred(moments, (1,)), self.at_most)

    @property
    def figure_name(self) -> str:
        """What the figure is called."""
        return f"largest {self.moment.title}"

    def figure(self, moments: GroupMoments) -> float:
        """The largest moment of a group."""
        return float(moments.values.max())

    def words(self, by: str) -> str:
        """The constraint in words."""
        most = plain_number(self.at_most)
        return f"largest {self.moment.title} of a group by {by}, at most {most}"


def _is_count(within: Any) -> bool:
    whole = isinstance(within, int | np.integer) and not isinstance(within, bool)
    return bool(whole and 2 <= within <= MOST_PARTS)


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


def by_name(name: str, tolerance: float | None) -> GroupConstraint:
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
            f"of decisions are for FairGBMClassifier{did_you_mean(name, DEFAULTS)}"
        )
    allowed = DEFAULTS[name] if tolerance is None else tolerance
    if allowed is None and name == "bounded_group_loss":
        raise ConstraintError(
            f"constraint={name!r} needs a tolerance in the unit of the loss, found none; it is "
            "the bound itself: pass tolerance=..., the largest mean loss that a group may have"
        )
    if allowed is None:
        unit = "prediction" if name == "equal_means" else "loss"
        raise ConstraintError(
            f"constraint={name!r} needs a tolerance in the unit of the {unit}; pass "
            f"tolerance=..., or write parity({unit!r}, 0.02, relative=True) for two percent"
        )
    if name == "equal_distributions":
        return SameDistribution(allowed)
    if name == "calibrated":
        return Calibrated(allowed)
    if name == "bounded_group_loss":
        return EachAtMost(NUMBERS["loss"], allowed)
    return Parity(NUMBERS["prediction" if name == "equal_means" else "loss"], allowed)


def resolve(
    constraint: ConstraintLike, tolerance: float | None, columns: Sequence[str]
) -> tuple[GroupConstraint, ...]:
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
    items = listed(constraint)
    if tolerance is not None:
        _check_taken(items, tolerance)
    named = [by_name(c, tolerance) if isinstance(c, str) else c for c in items]
    found = resolve_any([_with(c, tolerance) for c in named], None, columns)
    for c in found:
        _check_of_numbers(c)
    return found


def _check_taken(items: Sequence[Any], tolerance: float) -> None:
    """Refuse a tolerance beside constraints that all have their own: both cannot be meant."""
    if any(isinstance(c, str) or _lacks_tolerance(c) for c in items):
        return
    own = [c.tolerance for c in items if hasattr(c, "tolerance")]
    if not own and any(isinstance(c, Bound | EachAtMost) for c in items):
        raise ConstraintError(
            f"tolerance={tolerance:g} is for constraints that compare groups, and a bound has its "
            "limit in itself; leave tolerance out"
        )
    if own and set(own) != {tolerance}:
        raise ConstraintError(
            f"tolerance={tolerance:g} contradicts the constraint's own, {own[0]:g}; give one of "
            "them: leave tolerance out, or write parity(...) without one"
        )


def _check_of_numbers(constraint: GroupConstraint) -> None:
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
    if isinstance(constraint, Calibrated) and constraint.tolerance >= 1:
        raise ConstraintError(
            f"tolerance={constraint.tolerance:g} asks for next to nothing, expected less than 1: "
            "it lets actual over expected (A/E) be 0; it is a share, and 0.01 lets A/E be from "
            "0.99 to 1.01"
        )


def _lacks_tolerance(constraint: Any) -> bool:
    return isinstance(constraint, Parity) and not constraint.has_own_tolerance


def _with(constraint: GroupConstraint, tolerance: float | None) -> GroupConstraint:
    """A parity without a tolerance of its own takes the shared one."""
    if not isinstance(constraint, Parity) or constraint.has_own_tolerance:
        return constraint
    if tolerance is None:
        _check_of_numbers(constraint)
        raise ConstraintError(
            f"parity({constraint.moment.name!r}) needs a tolerance in the unit of what is "
            "compared; pass one, or tolerance=... to the estimator"
        )
    return constraint.with_limit(float(tolerance))
