"""What is held to a limit after deployment: constraints of a model, and its operating point.

A check reads the bands of some series, all of which hold at once. The ends of its figure follow
from the ends of the bands, so they hold as well. A ratio, for example, is at most the high end of
one group over the low end of another. The ends of a gap follow from bands of the differences of
two groups each, which are narrower than what the bands of the groups say of the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np

from fairboost._text import plain_number
from fairboost._typing import FloatArray
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.constraints import given_of
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.fairness.rates import PRECISION, Rate
from fairboost.monitoring.counts import Group, Series
from fairboost.verdicts.verdict import AT_LEAST, Measure

CheckKind: TypeAlias = Literal["constraint", "operating point"]
GroupsBy: TypeAlias = dict[tuple[str, ...], tuple[Group, ...]]
Differences: TypeAlias = Mapping[tuple[int, int], tuple[FloatArray, FloatArray]]
"""Low and high ends of the rate of a series less that of another, by their places."""

MOST_PAIRS = 15
"""Pairs of groups that are compared by bands of their differences; of more, by their own bands:
six groups have 15 pairs."""

ROUNDING = 1e-9
"""What of a figure is rounding, and no breach."""


@dataclass(frozen=True)
class Check:
    """A figure that is held to a limit.

    Parameters
    ----------
    kind : {"constraint", "operating point"}
        Where the limit comes from.
    text : str
        What is asked for, in words.
    measure : {"gap", "ratio", "rate", "least rate"}
        The figure.
    limit : float
        What the figure may be at most; of a ratio and a least rate, at least.
    series : tuple of Series
        What the figure is made of.
    strata : tuple of tuple of int
        Places of the series that are compared with each other.
    to : int or None
        The place of what ratios are taken to; None compares with the largest.
    """

    kind: CheckKind
    text: str
    measure: Measure
    limit: float
    series: tuple[Series, ...]
    strata: tuple[tuple[int, ...], ...] = ()
    to: int | None = None

    @property
    def at_least(self) -> bool:
        """Whether the limit is a lower one."""
        return self.measure in AT_LEAST

    def beyond(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """By how much intervals of the figure lie beyond the limit."""
        return self.limit - high if self.at_least else low - self.limit

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Places of the series whose differences have bands of their own."""
        if self.measure != "gap":
            return ()
        found = tuple(pair for part in self.strata for pair in combinations(part, 2))
        return found if len(found) <= MOST_PAIRS else ()

    def figure(
        self,
        value: FloatArray,
        low: FloatArray,
        high: FloatArray,
        apart: Differences | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The figure and its ends, from those of the series.

        Parameters
        ----------
        value, low, high : (n_series, m) float64
            Rates and bands of :attr:`series`; NaN where no row is eligible.
        apart : mapping of (int, int) to (low, high), optional
            Bands of the differences of :attr:`pairs`; NaN where one has no eligible row.

        Returns
        -------
        value, low, high : (m,) float64
            NaN where fewer than two groups have eligible rows, or no group has.
        """
        if self.measure == "gap":
            found = [_gap(value, low, high, s, apart or {}) for s in self.strata]
            gaps, least, most = zip(*found, strict=True)
            return _largest(gaps), _largest(least), _largest(most)
        if self.measure == "ratio":
            found = [self._ratio(value, low, high, s) for s in self.strata]
            ratios, least, most = zip(*found, strict=True)
            return _smallest(ratios), _smallest(least), _smallest(most)
        return _smallest(value), _smallest(low), _smallest(high)

    def _ratio(
        self, value: FloatArray, low: FloatArray, high: FloatArray, part: Sequence[int]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The smallest ratio of a group to what it is compared with."""
        pairs = [(g, h) for g in part for h in (part if self.to is None else [self.to]) if g != h]
        found, least, most = [], [], []
        for g, h in pairs:
            found.append(_over(value[g], value[h]))
            least.append(_over(low[g], high[h]))
            most.append(_over(high[g], low[h]))
        out = _smallest(found), _smallest(least), _smallest(most)
        if self.to is not None:
            return out
        return out[0], np.minimum(out[1], 1.0), np.minimum(out[2], 1.0)


def _over(one: FloatArray, other: FloatArray) -> FloatArray:
    """A ratio; 1 where both are 0, and without limit where the second alone is."""
    safe = np.where(other > 0, other, 1.0)
    zero = np.where(one > 0, np.inf, 1.0)
    return np.where(np.isnan(one) | np.isnan(other), np.nan, np.where(other > 0, one / safe, zero))


def _gap(
    value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    part: Sequence[int],
    apart: Differences,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The largest difference among some series, and what it is at least and at most."""
    found = value[list(part)]
    least, most = np.zeros(found.shape[1]), np.full(found.shape[1], np.nan)
    for g, h in combinations(part, 2):
        # All bands hold at once, so the narrower end of each pair holds as well.
        ends = low[g] - high[h], high[g] - low[h]
        if (g, h) in apart:
            narrow = apart[g, h]
            ends = np.fmax(ends[0], narrow[0]), np.fmin(ends[1], narrow[1])
        least = np.fmax(least, np.fmax(ends[0], -ends[1]))
        most = np.fmax(most, np.fmax(ends[1], -ends[0]))
    none = np.where((~np.isnan(found)).sum(axis=0) < 2, np.nan, 0.0)
    return _largest(found) - _smallest(found) + none, least + none, most + none


def _largest(lines: Any) -> FloatArray:
    out: FloatArray = np.fmax.reduce(np.asarray(lines, np.float64), axis=0)
    return out


def _smallest(lines: Any) -> FloatArray:
    out: FloatArray = np.fmin.reduce(np.asarray(lines, np.float64), axis=0)
    return out


def checks_of(
    constraints: Sequence[GroupConstraint], groups: GroupsBy
) -> tuple[list[Check], list[str]]:
    """Checks of constraints, and which constraints have none, in words.

    Parameters
    ----------
    constraints : sequence of Constraint
        Those of the model, with explicit columns.
    groups : dict of tuple of str to tuple of tuple of str
        The groups that training compared, by columns.
    """
    found: list[Check] = []
    left: list[str] = []
    for c in constraints:
        check = _check_of(c, groups)
        if check is None:
            left.append(
                f"the constraint {c.name!r} is not monitored; differences, ratios, floors and "
                "bounds of rates are"
            )
        else:
            found.append(check)
    return found, left


def _check_of(c: Any, groups: GroupsBy) -> Check | None:
    by = (c.by,) if isinstance(c.by, str) else tuple(c.by or ())
    given = given_of(c)
    columns = (*by, *given)
    rate = _rate_of(c)
    if rate is None or columns not in groups:
        return None
    known = groups[columns]
    series = tuple(Series(columns, group, rate.name, known) for group in known)
    strata = _strata(known, len(given))
    words = ", ".join(by) + f" of the same {', '.join(given)}" * bool(given)
    if c.judged == "gap" or rate == PRECISION:
        text = f"{rate.title} equal by {words}, tolerance {plain_number(c.tolerance)}"
        return Check("constraint", text, "gap", c.tolerance, series, strata) if strata else None
    if c.judged == "ratio":
        text, to = c.words(", ".join(by)), None
        if c.of == "reference":
            if (group := tuple(map(str, c.reference))) not in known:
                return None
            to = known.index(group)
        if c.of == "everyone":
            to, series = len(series), (*series, Series(columns, (), rate.name, known))
        return Check("constraint", text, "ratio", c.ratio, series, strata, to) if strata else None
    if c.judged == "least rate":
        return Check("constraint", c.words(", ".join(by)), "least rate", c.at_least, series)
    bounded = tuple(map(str, c.group))
    if columns and bounded not in known:
        return None
    one = Series(columns, bounded, rate.name, known if columns else ())
    text = f"{one.text} at most {plain_number(c.at_most)}"
    return Check("constraint", text, "rate", c.at_most, (one,))


def _rate_of(c: Any) -> Rate | None:
    """The rate that a constraint is about, if it is one that can be watched."""
    if c.name == PRECISION.name:
        return PRECISION
    watched = c.judged in ("gap", "ratio", "least rate", "rate") and not c.relative
    return c.moment if watched and isinstance(c.moment, Rate) else None


def _strata(known: tuple[Group, ...], n_given: int) -> tuple[tuple[int, ...], ...]:
    """Places of the groups of equal given values, where there are two or more."""
    parts: dict[Group, list[int]] = {}
    for k, group in enumerate(known):
        parts.setdefault(group[len(group) - n_given :], []).append(k)
    return tuple(tuple(part) for part in parts.values() if len(part) > 1)


def check_of_point(point: OperatingPoint) -> Check:
    """The check of an operating point: the overall rate at its target.

    Parameters
    ----------
    point : OperatingPoint
        Where the model decides.
    """
    side = "at least" if point.at_least else "at most"
    text = f"overall {point.rate.title} {side} {plain_number(point.target)}"
    measure: Measure = "least rate" if point.at_least else "rate"
    one = Series((), (), point.rate_name)
    return Check("operating point", text, measure, point.target, (one,))
