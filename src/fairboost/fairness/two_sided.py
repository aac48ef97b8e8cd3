"""Parity with two sides: every group close to the pooled moment.

The paper compares every group with the group of largest rate. Which group that is changes from
round to round, and with tolerance 0 its violations are never negative, so its multipliers only
ever grow: with many groups training swings. Here each group is compared with the pooled rate R of
all rows whose group is known, from both sides::

    R_g - R <= room_g         R - R_g <= room_g

With a room of half the tolerance no two groups are further apart than the tolerance. Two groups
with the shares pi and 1 - pi of the rows are 1 - pi and pi of their distance from R, so their
rooms are these shares of the tolerance: the limit is then on the distance itself. With mu_g the
difference of the two multipliers of group g and pi_g the group's share of the rows that count, the
derivative is linear, ``coef_g = mu_g - pi_g sum_h mu_h``: there is no group to switch to.

Given a third column, all of this is said of each of its values: R, pi_g and the sum are over the
groups of the same stratum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairboost._typing import FloatArray
from fairboost.fairness.constraints import Constraint, OneMoment, Parity, unit_of
from fairboost.fairness.moments import GroupMoments


@dataclass(frozen=True)
class TwoSided(OneMoment):
    """All groups close enough to the pooled rate that no two differ by more than ``tolerance``."""

    tolerance: float
    by: str | tuple[str, ...] | None
    relative: bool = False
    given: tuple[str, ...] = ()
    automatic: bool = False

    def inequality_names(self, groups: Sequence[str]) -> list[str]:
        """Name the violations, given labels of the groups."""
        return [f"{self.name}[{g}] {side}" for side in ("above", "below") for g in groups]

    def room(self, moments: GroupMoments) -> FloatArray:
        """How far inside its limit each violation is where all moments are equal."""
        w = moments.weights[0]
        pair = moments.total(np.ones_like(w)) == 2
        share = np.where(pair, 1.0 - w / moments.total(w), 0.5)
        return np.tile(self.tolerance * share, 2)

    def violations(self, moments: GroupMoments) -> FloatArray:
        """``R_g - R - room_g`` of each group, then ``R - R_g - room_g``."""
        (r,) = moments.values
        apart = (r - moments.pooled()) / unit_of(moments, self.relative)
        return np.concatenate([apart, -apart]) - self.room(moments)

    def pullback(self, moments: GroupMoments, multipliers: FloatArray) -> FloatArray:
        """Derivative; the same at all values, but for the unit, which is taken as given."""
        (w,) = moments.weights
        net = multipliers[: len(w)] - multipliers[len(w) :]
        coef: FloatArray = net - w / moments.total(w) * moments.total(net)
        return coef[np.newaxis] / unit_of(moments, self.relative)


def two_sided(constraint: Constraint) -> Constraint:
    """The two-sided form of a parity; other constraints as they are.

    Examples
    --------
    >>> from fairboost import parity
    >>> two_sided(parity("fnr", 0.02, by="sex")).tolerance
    0.02
    """
    if isinstance(constraint, Parity):
        c = constraint
        return TwoSided(c.moment, c.tolerance, c.by, c.relative, c.given, c.automatic)
    return constraint
