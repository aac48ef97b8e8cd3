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

from dataclasses import dataclass

import numpy as np

from fairboost.fairness.base import EqualMoments, GroupConstraint, Traits
from fairboost.fairness.compiled import Centred, Lines
from fairboost.fairness.constraints import Parity, unit_of
from fairboost.fairness.moments import GroupMoments


@dataclass(frozen=True)
class TwoSided(EqualMoments):
    """All groups close enough to the pooled rate that no two differ by more than ``tolerance``."""

    tolerance: float
    by: str | tuple[str, ...] | None
    relative: bool = False
    given: tuple[str, ...] = ()
    automatic: bool = False

    sides = "above", "below"

    def linearized(self, moments: GroupMoments) -> Lines:
        """``R_g - R <= room_g`` of each group, then ``R - R_g <= room_g``.

        The same at all moments, but for the unit of a tolerance that is relative.
        """
        w = moments.weights[0]
        total = moments.total(w)
        pair = moments.total(np.ones_like(w)) == 2
        room = np.tile(self.tolerance * np.where(pair, 1.0 - w / total, 0.5), 2)
        unit = unit_of(moments, self.relative)
        return Lines(Centred(moments, (1, -1), (-1, 1), w, total, unit), room, room)

    @property
    def traits(self) -> Traits:
        """One prediction for everyone has equal moments."""
        return Traits(met_by_one=True)


def two_sided(constraint: GroupConstraint) -> GroupConstraint:
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
