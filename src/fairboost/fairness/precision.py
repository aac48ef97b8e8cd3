"""Predictive parity: of those who are decided positively, the same share is right in every group.

With T and F the weight of true and false positives of a group, P = T + F, and q the precision
T / P of all groups together, the precision of group g is within half a tolerance of q where::

    T_g - q P_g <= tolerance / 2 P_g         q P_g - T_g <= tolerance / 2 P_g

Both sides are sums of decisions, so for a given q they are linear in what rows are decided. That
is what training is held to, over a unit that does not depend on the group: the weight W_g of the
group times the share D of everyone who is decided positively. A violation is then the difference
of precisions times ``P_g / (W_g D)``. The difference itself has a derivative of 1 / P_g, which
grows without limit as a group loses its positive decisions.

T and F follow from the true and the false positive rate of a group, which are the moments that the
constraint reads. Verdicts go by the precision itself (:mod:`fairboost.fairness.derived`). Given
the number of positive decisions of a group, the number of right ones among them is binomial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairboost._typing import FloatArray
from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import GroupConstraint, tangent
from fairboost.fairness.compiled import Lines
from fairboost.fairness.constraints import Parity
from fairboost.fairness.derived import Shown
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.rates import PRECISION, RATES, Rate
from fairboost.fairness.two_sided import TwoSided, two_sided

LEAST = 1e-12
"""Shares that are divided by are at least so large."""


@dataclass(frozen=True)
class EqualPrecision(GroupConstraint):
    """The precision of every group within half the tolerance of that of all groups together."""

    tolerance: float
    by: str | tuple[str, ...] | None = None
    given: tuple[str, ...] = ()

    name = PRECISION.name
    sides = "above", "below"
    limited_by, varies = "tolerance", True
    affine = False

    @property
    def moments(self) -> tuple[Rate, ...]:
        """The rates that true and false positives follow from."""
        return RATES["tpr"], RATES["fpr"]

    def linearized(self, moments: GroupMoments) -> Lines:
        """The derivative at given moments, with the unit W_g D as it is there."""
        return tangent(self, moments, self._room(_Sums(moments)))

    def violations(self, moments: GroupMoments) -> FloatArray:
        """``(precision - q - tolerance / 2) P_g / (W_g D)`` of each group, then the other side."""
        found = _Sums(moments)
        apart = (found.true - found.pooled * found.positive) / found.unit
        return np.concatenate([apart, -apart]) - self._room(found)

    def _room(self, sums: _Sums) -> FloatArray:
        """How far inside its limit each violation is where all precisions are equal."""
        return np.tile(self.tolerance / 2 * sums.positive / sums.unit, 2)

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Derivative; the unit, W_g D, is taken as given."""
        found = _Sums(moments)
        above, below = multipliers.reshape(2, -1) / found.unit
        # A group's own sums, and its part in the precision of all groups.
        net, all_positive = above - below, np.maximum(moments.total(found.positive), LEAST)
        net = net - moments.total(net * found.positive) / all_positive
        allowed = self.tolerance / 2 * (above + below)
        on_true, on_false = (1.0 - found.pooled) * net - allowed, -found.pooled * net - allowed
        return np.stack([on_true, on_false]) * moments.weights

    def errors(self, moments: GroupMoments, rows: FloatArray) -> FloatArray:
        """Standard errors of the violations; those of a share, given who is decided positively."""
        found, shown = _Sums(moments), self.shown(moments, rows)
        # A precision of 0 or 1 has an error too: as if half a decision had differed.
        low = 0.5 / (shown.rows + 1.0)
        p = np.clip(shown.values, low, 1.0 - low)
        errors = np.sqrt(p * (1.0 - p) / np.maximum(shown.rows, 1.0))
        return np.tile(errors * found.positive / found.unit, 2)

    def shown(self, moments: GroupMoments, rows: FloatArray) -> Shown:
        """The precision of each group; that of all groups where no one is decided positively."""
        found = _Sums(moments)
        some = found.positive > 0
        precision = np.where(
            some,
            found.true / np.where(some, found.positive, 1.0),
            np.broadcast_to(found.pooled, found.positive.shape),
        )
        decided = (moments.values * rows).sum(axis=0)
        return Shown(self._of_figure(), PRECISION, precision, found.positive, decided)

    def _of_figure(self) -> TwoSided:
        return JudgedPrecision(PRECISION, self.tolerance, self.by, False, self.given)


@dataclass(frozen=True)
class JudgedPrecision(TwoSided):
    """The constraint on the precision itself, for verdicts."""

    def not_judged(self, moments: GroupMoments, groups: Sequence[str]) -> str:
        """Name the groups that have no precision, given their labels."""
        none = [g for g, weight in zip(groups, moments.weights[0], strict=True) if weight <= 0]
        if not none:
            return ""
        return (
            f"No one is decided positively in {', '.join(none)}, so there is no precision to "
            "compare. Nothing is shown for these groups; lower the decision threshold, or measure "
            "on more rows."
        )


class _Sums:
    """True positives, positive decisions and units by group, and the precision of all groups."""

    def __init__(self, moments: GroupMoments) -> None:
        weights = moments.weights
        true, false = moments.values * weights
        group = weights.sum(axis=0)
        self.true, self.positive = true, true + false
        everyone = moments.total(self.positive)
        self.pooled = moments.total(true) / np.maximum(everyone, LEAST)
        share = everyone / moments.total(group)
        self.unit = group * np.maximum(share, LEAST)


def trained_form(constraint: GroupConstraint) -> GroupConstraint:
    """The form in which a constraint is trained where multipliers have two sides.

    Examples
    --------
    >>> from fairboost import parity
    >>> trained_form(parity("precision", 0.02, by="sex")).tolerance
    0.02
    """
    if isinstance(constraint, Parity) and constraint.moment == PRECISION:
        c = constraint
        if c.relative:
            raise ConstraintError(
                "parity('precision', relative=True) is not known; a precision is a share of "
                "decisions, so write the tolerance as a difference, such as 0.02"
            )
        return EqualPrecision(c.tolerance, c.by, c.given)
    return two_sided(constraint)
