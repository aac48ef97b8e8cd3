"""Ratios of moments between groups, and floors: the constraints that regulations write down.

The four-fifths rule asks that every group's rate be at least r times the largest. Written down
plainly, ``r max_a R_a - R_g <= 0`` has the fault of the paper's parity: the group of largest rate
changes from round to round, and all multipliers change their target with it. Here all rates lie
between a centre c and r times the centre, and every group has a multiplier for either side::

    R_g - c <= 0        r c - R_g <= 0        c = (max_a R_a + min_a R_a) / (1 + r)

The centre floats. It lies where the largest violation is smallest, and both ends are then broken
by the same amount, ``(r max - min) / (1 + r)``. So the constraint is met exactly if the ratio is,
and nothing more is asked for. A fixed centre would ask for more: with the pooled rate as centre
and two groups of unequal size, the larger group has no room to move at all.

For two groups the coefficients are those of ``r R_a - R_g`` with the sum of both multipliers. The
violations are linear pieces in the rates themselves. A ratio would divide by a rate, and a
multiplier that has grown at one rate would weigh many times as much at a smaller one.

Compared with everyone, or with a named group, there is one linear inequality for each group:
``r R - R_g <= 0``. A floor is ``at_least - R_g <= 0``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from fairboost._numbers import is_finite
from fairboost._text import plain_number
from fairboost._typing import FloatArray
from fairboost.exceptions import ConstraintError
from fairboost.fairness.base import GroupConstraint, OneMoment, Traits
from fairboost.fairness.classes import ClassRate
from fairboost.fairness.compiled import Centred, Lines
from fairboost.fairness.constraints import as_compared, check_by, check_given, columns_of, index_of
from fairboost.fairness.means import NumberMoment
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.rates import Rate

Comparison: TypeAlias = Literal["largest", "everyone", "reference"]

COMPARISONS = "largest", "everyone"
"""What ``of`` may be where it is not a class."""


@dataclass(frozen=True)
class RatioParity(OneMoment):
    """Every group's rate at least ``ratio`` times the largest, everyone's or a reference group's.

    Made by :func:`fairboost.parity` with ``ratio``.
    """

    ratio: float
    by: str | tuple[str, ...] | None = None
    given: tuple[str, ...] = ()
    of: Comparison = "largest"
    reference: tuple[object, ...] = ()

    judged = "ratio"
    limited_by = "ratio"

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.moment.name} ratio"

    @property
    def affine(self) -> bool:
        """Which groups have the largest and the smallest rate depends on the rates."""
        return self.of != "largest"

    @property
    def fixed(self) -> bool:
        """The room is a share of the rate that groups are compared with."""
        return False

    @property
    def sides(self) -> tuple[str, ...]:  # type: ignore[override]
        """Both around a centre that floats, or below what groups are compared with."""
        return ("above", "below") if self.of == "largest" else ("below",)

    def linearized(self, moments: GroupMoments) -> Lines:
        """``R_g <= c`` of each group, then ``ratio c <= R_g``.

        Compared with everyone or a reference group, the latter alone.
        """
        first = 0 if self.of == "largest" else 1
        own, on_centre = (1.0, -1.0)[first:], (-1.0, self.ratio)[first:]
        A = Centred(moments, own, on_centre, *self._centre(moments))
        # How far inside its limit each line would be if all rates were equal.
        within = (1.0 - self.ratio) * self._compared_with(moments, A)
        room = within if first else np.tile(within / (1.0 + self.ratio), 2)
        return Lines(A, 0.0, room)

    def _compared_with(self, moments: GroupMoments, A: Centred | None = None) -> FloatArray:
        """The rate that each group's is to be a share of."""
        (r,) = moments.values
        if self.of == "largest":
            return np.broadcast_to(moments.largest(), r.shape)
        A = Centred(moments, (1.0,), (), *self._centre(moments)) if A is None else A
        return np.broadcast_to(A.centre(r)[0], r.shape)

    def _centre(self, moments: GroupMoments) -> tuple[FloatArray, FloatArray | float]:
        """Weights of groups in what each is compared with, and what to divide their sum by.

        Groups that tie for the largest or smallest rate share its weight.
        """
        (r,), (w,) = moments.values, moments.weights
        if self.of == "everyone":
            return w, moments.total(w)
        if self.of == "reference":
            at = np.arange(len(r)) == self.reference_index(moments)
            return at.astype(np.float64), 1.0
        top, bottom = r >= moments.largest() - TIED, r <= smallest(moments) + TIED
        # None is the largest among rates of NaN scores.
        shares = [ends / np.maximum(moments.total(ends), 1) for ends in (top, bottom)]
        return shares[0] + shares[1], 1.0 + self.ratio

    @property
    def traits(self) -> Traits:
        """Ratios show how far boosters that take turns are from the one that is kept."""
        return Traits(in_turns=False)

    def at_once(self, n_groups: int, n_lines: int) -> int:
        """How many comparisons of groups may be wrong by chance.

        Of two groups one is below the other, so a pair of groups is one comparison.
        """
        pairs = n_groups * (n_groups - 1) // 2
        return {"largest": pairs, "everyone": n_groups, "reference": n_groups - 1}[self.of]

    def spread(self) -> tuple[float, float] | None:
        """Each rate is at least the ratio times the largest."""
        return (self.ratio, 0.0) if self.of == "largest" else None

    def by_each(self, columns: Sequence[str]) -> Sequence[GroupConstraint]:
        """A copy for each column; a reference group belongs to one."""
        if self.reference and len(columns) > 1:
            group = self.reference[0]
            raise ConstraintError(
                f"parity(..., reference={group!r}) is ambiguous: there are {len(columns)} "
                f"sensitive columns ({', '.join(columns)}); write "
                f"reference={{{columns[0]!r}: {group!r}}}"
            )
        return super().by_each(columns)

    def reference_index(self, moments: GroupMoments) -> int:
        """Where the reference group is among the groups; an error, if it is not."""
        why = ", or one with too few rows to be compared"
        by = columns_of(self)
        return index_of(self.reference, moments, by, "parity(..., reference", why)

    def ratios(self, moments: GroupMoments) -> FloatArray:
        """Each group's rate over the one that it is held to; 1 where both are 0."""
        (r,) = moments.values
        over = self._compared_with(moments)
        return np.where(over > 0, r / np.where(over > 0, over, 1.0), 1.0)

    def words(self, by: str) -> str:
        """The constraint in words."""
        whose = {"largest": "the largest", "everyone": "everyone's"}
        group = ", ".join(map(str, self.reference))
        other = whose.get(self.of, f"that of {group}")
        same = f" of the same {', '.join(self.given)}" * bool(self.given)
        return f"{self.moment.title} by {by} at least {plain_number(self.ratio)} of {other}{same}"


TIED = 1e-12
"""Rates that differ by less are equal."""


def smallest(moments: GroupMoments) -> FloatArray:
    """The smallest first moment of the groups that each group is compared with."""
    flipped = GroupMoments(-moments.values, moments.weights, moments.groups, moments.strata)
    return -flipped.largest()


def ratio_parity(
    rate: str | Rate | NumberMoment | ClassRate,
    ratio: float,
    *,
    by: str | tuple[str, ...] | None,
    given: str | tuple[str, ...] | None,
    of: object,
    reference: object | Mapping[str, object] | None,
) -> RatioParity:
    """What ``parity(..., ratio=...)`` makes; the parameters are described there."""
    found = check_ratio(ratio)
    named = isinstance(rate, ClassRate) or not (isinstance(of, str) and of in COMPARISONS)
    moment = as_compared(rate, of if named and of is not None else None)
    if not named and isinstance(moment, ClassRate):  # 'everyone' may be a class, too
        moment, named = as_compared(rate, of), True
    compared: Comparison = "everyone" if not named and of == "everyone" else "largest"
    by, condition = check_by(by), check_given(given, by)
    if reference is None:
        return RatioParity(moment, found, by, condition, compared)
    if not named:
        raise ConstraintError(
            f"of={of!r} and reference={reference!r} both say what groups are compared with; "
            "leave one of them out"
        )
    if condition:
        raise ConstraintError(
            "reference and given cannot be combined: the reference group may be absent at some "
            "value of the given column; leave reference out, or leave given out"
        )
    if isinstance(reference, Mapping):
        columns, group = tuple(map(str, reference)), tuple(reference.values())
        if by is not None and (by if isinstance(by, tuple) else (by,)) != columns:
            raise ConstraintError(
                f"reference names the columns {', '.join(columns)!r}, and by={by!r} names others; "
                "name the same columns in the same order, or leave by out"
            )
        if by is None:
            by = columns if len(columns) > 1 else columns[0]
    else:
        group = reference if isinstance(reference, tuple) else (reference,)
    return RatioParity(moment, found, by, condition, "reference", group)


def check_ratio(ratio: Any) -> float:
    """Refuse what is not a ratio of a smaller rate to a larger one."""
    if not is_finite(ratio) or not 0 < ratio <= 1:
        raise ConstraintError(
            f"ratio must be above 0 and at most 1, found {ratio!r}; it is the smallest rate over "
            "the one that groups are compared with, so write 0.8 for four fifths"
        )
    return float(ratio)


@dataclass(frozen=True)
class Floor(OneMoment):
    """The rate of every group at least ``at_least``.

    Made by :func:`at_least`.
    """

    at_least: float
    by: str | tuple[str, ...] | None = None

    judged = "least rate"
    limited_by = "at_least"

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.moment.name}>={self.at_least:g}"

    def linearized(self, moments: GroupMoments) -> Lines:
        """``-R_g <= -at_least`` of each group."""
        return Lines(Centred(moments, (-1,)), -self.at_least)

    @property
    def traits(self) -> Traits:
        """A floor is broken before there is a model, and a rate is 1 at most."""
        lowest = min(self.at_least, 0.5)
        return Traits(growth=1.0, lowest=lowest, slack=1.0 - self.at_least)

    def words(self, by: str) -> str:
        """The constraint in words."""
        least = plain_number(self.at_least)
        return f"{self.moment.title} of every group by {by} at least {least}"


def at_least(
    rate: str | Rate | NumberMoment | ClassRate,
    floor: float,
    *,
    by: str | tuple[str, ...] | None = None,
    of: object = None,
) -> Floor:
    """Set a minimum for a rate in every group.

    Parameters
    ----------
    rate : {"fpr", "fnr", "tpr", "tnr", "ppr", "pnr"} or Rate
        The rate. For three classes or more "given", "recall", "confused" or "accuracy".
    floor : float
        The smallest allowed rate of a group, in (0, 1).
    by : str or tuple of str, optional
        The sensitive column whose groups have the floor, or a tuple of several columns for the
        groups of their crossing. By default the groups of every sensitive column have it.
    of : label or (label, label), optional
        The class of a rate of classes, as in :func:`~fairboost.parity`.

    Examples
    --------
    >>> at_least("tpr", 0.8, by="race").words("race")
    'true positive rate of every group by race at least 0.8'
    """
    moment = as_compared(rate, of)
    if isinstance(moment, NumberMoment):
        raise ConstraintError(
            f"at_least is for rates of decisions, and {moment.name!r} is a mean of numbers; use "
            "parity(...) or bound(...)"
        )
    if not is_finite(floor) or not 0 < floor < 1:
        raise ConstraintError(
            f"the floor of at_least must lie in (0, 1), found {floor!r}; it is a share of rows, "
            "so write 0.8 for 80%"
        )
    return Floor(moment, float(floor), check_by(by))
