"""How sure we are of a rate or a mean, of a gap between groups and of their ratio.

One rate is a proportion, so it has closed forms (k events in n rows, z the normal quantile)::

    Wilson            (k + z²/2 ± z sqrt(k (n - k) / n + z²/4)) / (n + z²)
    Clopper-Pearson   Beta(k, n - k + 1) and Beta(k + 1, n - k) quantiles

Weighted rows carry less information than their number says. Then n is Kish's effective sample size
(Σw)² / Σw² and k the rate times n; neither need be whole, and both forms allow that. A mean of
other numbers than 0 and 1 has Student's interval.

A gap or a ratio between groups follows from the intervals of the groups: of a pair that of
Newcombe, and of Donner and Zou for a ratio, with a_g and b_g the arms of a group, from its rate
down and up, and c their product with the correlation of two groups that share rows (0 else)::

    r_g - r_h - sqrt(a_g² + b_h² - 2c), r_g - r_h + sqrt(b_g² + a_h² - 2c)

The gap is at least the largest low end of a pair, and at most the largest high end. One pair alone
is the farthest apart in truth, so its high end needs no more than the arms of a single interval.
Low ends must hold for all pairs at once: their arms are as many standard errors long as the widest
of so many equal groups are apart, by chance, at the confidence asked for (Tukey's range; the pairs
of three groups share groups, so Bonferroni's would be longer). So the low end of a gap is above 0
where a test says that rates differ, and groups of equal rates have a gap of 0 in their interval as
often as promised. A tiny group has long arms, and widens its own pairs alone.

Wilson's low end with one to three events is too high, and that of a tiny group beside large ones
would say too often that it is apart: there arms reach to Jeffreys' end
(:func:`ends_of_differences`; Brown, Cai and DasGupta, Statistical Science 16, 2001, do the same).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, TypeAlias

import numpy as np
from scipy import special
from scipy.optimize import brentq

from fairboost._text import interval
from fairboost._typing import ArrayLike, FloatArray
from fairboost.exceptions import InvalidInputError

Ends: TypeAlias = Callable[[float], tuple[FloatArray, FloatArray]]
"""Ends of the intervals of groups at a confidence."""
Parts: TypeAlias = Sequence[Any]
"""Groups that are compared with each other, part by part."""
EVERY_GROUP: Parts = (slice(None),)

FEW = 4
"""Where there are fewer events, Wilson's low end is too high."""

_AT, _WEIGHT = (8.0 * part for part in np.polynomial.legendre.leggauss(200))
_WEIGHT = _WEIGHT * np.exp(-(_AT**2) / 2) / math.sqrt(2 * math.pi)


def wilson(
    events: ArrayLike, total: ArrayLike, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval: close to its nominal coverage on average, for small groups too.

    Parameters
    ----------
    events, total : float or array
        Events, and rows they are counted among; fractions are allowed.
    confidence : float
        Coverage aimed at, between 0 and 1.

    Returns
    -------
    low, high : array
        Shaped as the arguments; NaN where ``total`` is 0.

    Examples
    --------
    >>> low, high = wilson(10, 50)
    >>> round(float(low), 4), round(float(high), 4)
    (0.1124, 0.3304)
    """
    k, n = _check_counts(events, total)
    z = special.ndtri(0.5 + check_confidence(confidence) / 2)
    centre = (k + z**2 / 2) / (n + z**2)
    half = z * np.sqrt(k * (n - k) / n + z**2 / 4) / (n + z**2)
    return _pin_ends(centre - half, centre + half, k, n)


def clopper_pearson(
    events: ArrayLike, total: ArrayLike, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Clopper and Pearson's interval: covers at least as often as it says, and is wider for it.

    Parameters
    ----------
    events, total : float or array
        Events, and rows they are counted among; fractions are allowed, but the guarantee is for
        whole numbers.
    confidence : float
        Least coverage, between 0 and 1.

    Returns
    -------
    low, high : array
        Shaped as the arguments; NaN where ``total`` is 0.

    Examples
    --------
    >>> low, high = clopper_pearson([0, 10], [50, 50])
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.1003], [0.0711, 0.3372])
    """
    k, n = _check_counts(events, total)
    tail = (1 - check_confidence(confidence)) / 2
    low = special.betaincinv(k, n - k + 1, tail)
    high = special.betaincinv(k + 1, n - k, 1 - tail)
    return _pin_ends(low, high, k, n)


def student(
    mean: ArrayLike, error: ArrayLike, freedom: ArrayLike, confidence: float = 0.95
) -> tuple[FloatArray, FloatArray]:
    """Student's interval of a mean.

    Parameters
    ----------
    mean, error : float or array
        Means, and their standard errors.
    freedom : float or array
        Degrees of freedom: rows that the deviation is known from, less 1. Fractions are allowed.
    confidence : float
        Coverage aimed at, between 0 and 1.

    Returns
    -------
    low, high : array
        Shaped as the arguments.

    Examples
    --------
    >>> low, high = student(100.0, 2.0, 9)
    >>> round(float(low), 2), round(float(high), 2)
    (95.48, 104.52)
    """
    t = special.stdtrit(np.asarray(freedom, np.float64), 0.5 + check_confidence(confidence) / 2)
    mean, reach = np.asarray(mean, np.float64), t * np.asarray(error, np.float64)
    return mean - reach, mean + reach


def skewed(value: ArrayLike, error: ArrayLike, reach: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Ends of a mean of amounts, or of a ratio of such means, whose variance grows with itself.

    The values m that are ``reach`` errors away, where an error at m is that at the value seen
    times ``sqrt(m / value)``, as of a count: ``value + c ± sqrt(c² + (reach error)²)`` with
    ``c = (reach error)² / (2 value)``. A sample of skewed amounts without large ones has too small
    a mean and too small a deviation; these ends make up for part of it. Where the value is 0, or
    below, there is no c.

    Parameters
    ----------
    value, error, reach : float or array
        The figures, their standard errors, and how many of these an end is away.

    Examples
    --------
    >>> low, high = skewed(3.0, 3.0**0.5, 1.96)
    >>> round(float(low), 2), round(float(high), 2)
    (1.02, 8.82)
    """
    value, squared = np.asarray(value, np.float64), np.square(np.multiply(reach, error))
    moved = np.where(value > 0, squared / (2.0 * np.where(value > 0, value, 1.0)), 0.0)
    half = np.sqrt(moved**2 + squared)
    return value + moved - half, value + moved + half


INTERVALS: dict[str, Callable[[ArrayLike, ArrayLike, float], tuple[FloatArray, FloatArray]]] = {
    "wilson": wilson,
    "exact": clopper_pearson,
}


def ends_of_differences(
    events: ArrayLike, total: ArrayLike, confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Ends of a rate from which those of differences are made: Wilson's, or Jeffreys' if farther.

    Jeffreys' low end is looked at where there are fewer than ``FEW`` events, and his high end
    where there are fewer rows than that without one.

    Parameters
    ----------
    events, total, confidence
        As for :func:`wilson`.

    Examples
    --------
    >>> (low, _), (lower, _) = wilson(1, 30), ends_of_differences(1, 30, 0.95)
    >>> round(float(low), 4), round(float(lower), 4)
    (0.0059, 0.0036)
    """
    low, high = wilson(events, total, confidence)
    k, n = _check_counts(events, total)
    tail = (1 - confidence) / 2
    few = (k > 0) & (k < FEW)
    low = np.where(few, np.minimum(low, special.betaincinv(k + 0.5, n - k + 0.5, tail)), low)
    few = (k < n) & (n - k < FEW)
    end = special.betaincinv(k + 0.5, n - k + 0.5, 1 - tail)
    return low, np.where(few, np.maximum(high, end), high)


def gap_interval(
    values: FloatArray,
    ends: Ends,
    confidence: float,
    *,
    correlations: FloatArray | None = None,
    parts: Parts = EVERY_GROUP,
) -> tuple[float, float]:
    """Interval of a gap, which is in it, and 0 with it when groups may well be equal.

    Parameters
    ----------
    values : (n_groups,) float64
        Rates or means.
    ends : callable
        Gives the ends of their intervals at a confidence, (n_groups,) float64 each.
    confidence : float
        Coverage aimed at.
    correlations : (n_groups, n_groups) float64, optional
        Of groups that share rows.
    parts : sequence of index
        The groups that are compared with each other, where not all are.

    Returns
    -------
    low, high : float
        0 or more.

    Examples
    --------
    >>> rates, n = np.array([0.2, 0.4, 0.5]), np.array([2_000, 2_000, 20])
    >>> found = gap_interval(rates, lambda level: wilson(rates * n, n, level), 0.95)
    >>> [round(end, 2) for end in found]
    [0.17, 0.5]
    """
    low = high = 0.0
    for r, rho, (near, far) in _compared(values, ends, confidence, correlations, parts):
        for g in range(len(r)):  # pairs of thousands of groups would not fit in memory
            others = np.arange(len(r)) != g
            apart, c = (r[g] - r)[others], None if rho is None else rho[g][others]
            low = max(low, float((apart - _both(near[0][g], near[1][others], c)).max()))
            high = max(high, float((apart + _both(far[1][g], far[0][others], c)).max()))
    return low, high


def ratio_interval(
    values: FloatArray,
    ends: Ends,
    confidence: float,
    *,
    correlations: FloatArray | None = None,
    parts: Parts = EVERY_GROUP,
) -> tuple[float, float]:
    """Interval of a ratio of the smallest to the largest rate: as of a gap, by pairs.

    It ends at 1 exactly where that of the gap begins at 0.

    Parameters
    ----------
    values, ends, confidence, correlations, parts
        As for :func:`gap_interval`, of rates or of means that are not below 0.

    Returns
    -------
    low, high : float
        Within 0 and 1.

    Examples
    --------
    >>> rates, n = np.array([0.2, 0.4]), np.array([500, 500])
    >>> found = ratio_interval(rates, lambda level: wilson(rates * n, n, level), 0.95)
    >>> [round(end, 2) for end in found]
    [0.41, 0.61]
    """
    low = high = 1.0
    for r, rho, arms in _compared(values, ends, confidence, correlations, parts):
        (near_down, near_up), (far_down, far_up) = (np.minimum(a, [r, a[1]]) for a in arms)
        for g in range(len(r)):
            others = np.arange(len(r)) != g
            c = 0.0 if rho is None else rho[g][others]
            pair = r[g], r[others], c
            low = min(low, float(_ratios(*pair, far_down[g], far_up[others])[0].min()))
            high = min(high, float(_ratios(*pair, near_up[g], near_down[others])[1].min()))
    return max(low, 0.0), high


@lru_cache(maxsize=256)
def widest_apart(n_groups: int, confidence: float) -> float:
    """How many standard errors of a difference so many equal groups are apart, by chance, at most.

    Tukey's studentised range over the root of 2, of errors that are known.

    Parameters
    ----------
    n_groups : int
        Groups, 2 or more.
    confidence : float
        That they are no farther apart.

    Examples
    --------
    >>> [round(widest_apart(n, 0.95), 2) for n in (2, 3, 12)]
    [1.96, 2.34, 3.27]
    """

    def missed(reach: float) -> float:
        between = special.ndtr(_AT + reach) - special.ndtr(_AT)
        return float(n_groups * (_WEIGHT @ between ** (n_groups - 1))) - confidence

    return float(brentq(missed, 1e-6, 40.0)) / math.sqrt(2.0)


def rows_needed(rate: float, gap: float, confidence: float = 0.95) -> float:
    """Rows that must count in each of two groups to detect a gap.

    Parameters
    ----------
    rate : float
        Of both groups.
    gap : float
        The smallest that is to be told, more than 0.
    confidence : float
        That there is one.

    Examples
    --------
    >>> [round(rows_needed(0.39, gap)) for gap in (0.03, 0.05, 0.08)]
    [2031, 731, 286]
    """
    return rows_to_tell(rate * (1 - rate), gap, confidence)


def rows_to_tell(variance: float, gap: float, confidence: float = 0.95) -> float:
    """Rows that must count in each of two groups to detect a gap between means.

    Parameters
    ----------
    variance : float
        Of a single row, in both groups.
    gap, confidence : float
        As for :func:`rows_needed`.

    Examples
    --------
    >>> round(rows_to_tell(12_000.0**2, gap=500.0))
    4425
    """
    z = float(special.ndtri(0.5 + check_confidence(confidence) / 2))
    # A product of floats is infinite where a power of them raises an error.
    return float(2 * (z / gap) * (z / gap) * variance)


@dataclass(frozen=True)
class Estimate(float):
    """A figure and its interval; a number, so that it can be compared, averaged and scored by.

    Parameters
    ----------
    value : float
        The figure on the data given.
    low, high : float
        Ends of the interval; NaN when none was asked for.
    confidence : float
        Its nominal coverage.

    Examples
    --------
    >>> found = Estimate(0.25, 0.2, 0.3, confidence=0.95)
    >>> print(found)
    0.250 [0.200, 0.300]
    >>> float(found), found < 0.3, 1 - found
    (0.25, True, 0.75)
    """

    value: float
    low: float
    high: float
    confidence: float

    def __new__(cls, value: float, *interval: float, **named: float) -> Self:
        """Make the number; the rest is the data class's own."""
        return super().__new__(cls, value)

    def __getnewargs__(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.value, self.low, self.high, self.confidence

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = float.__hash__  # as equal to the number, it has the number's hash

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "undefined"
        if np.isnan(self.low):
            return f"{self.value:.3f}"
        return interval(self.value, self.low, self.high)


def check_confidence(confidence: float) -> float:
    """Return the confidence if it is one."""
    if not 0 < confidence < 1:
        raise InvalidInputError(
            f"confidence must lie strictly between 0 and 1, found {confidence!r}; "
            "use 0.95 for a 95% interval"
        )
    return confidence


def _check_counts(events: ArrayLike, total: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """As arrays of one shape; a total of 0 becomes NaN, and so does what follows from it."""
    k, n = np.broadcast_arrays(np.asarray(events, np.float64), np.asarray(total, np.float64))
    bad = ~((k >= 0) & (k <= n))
    if bad.any():
        raise InvalidInputError(
            f"events must lie between 0 and total, found {k[bad][0]} events in a total of "
            f"{n[bad][0]}; are the two arguments swapped?"
        )
    return k, np.where(n > 0, n, np.nan)


def _pin_ends(
    low: FloatArray, high: FloatArray, k: FloatArray, n: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Exact ends without events or with nothing else: rounding and Beta(0, .) would miss them."""
    return np.where((k == 0) & ~np.isnan(n), 0.0, low), np.where(k == n, 1.0, high)


def _compared(
    values: FloatArray,
    ends: Ends,
    confidence: float,
    correlations: FloatArray | None,
    parts: Parts,
) -> Iterator[tuple[FloatArray, FloatArray | None, list[FloatArray]]]:
    """Groups part by part, with their correlations and arms (down, up): all at once, and single.

    Parts share no rows: all hold at once if each holds at the root of the confidence.
    """
    for part in parts:
        if (n := len(values[part])) < 2:
            continue
        reach = widest_apart(n, confidence ** (1.0 / len(parts)))
        levels = 2.0 * float(special.ndtr(reach)) - 1.0, confidence
        found = (ends(level) for level in levels)
        r = values[part]
        # Rounding may leave an end on the wrong side.
        arms = [np.maximum([r - low[part], high[part] - r], 0.0) for low, high in found]
        yield r, None if correlations is None else correlations[part][:, part], arms


def _both(own: float, others: FloatArray, rho: FloatArray | None) -> FloatArray:
    """Length of two arms together."""
    shared = 0.0 if rho is None else 2.0 * rho * own * others
    out: FloatArray = np.sqrt(np.maximum(own**2 + others**2 - shared, 0.0))
    return out


def _ratios(
    r: float, others: FloatArray, rho: FloatArray | float, own: float, arms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where a rate over others ends, below and above, given the arms towards that end."""
    shared = r * others - rho * own * arms
    square, rest = others**2 - arms**2, r**2 - own**2
    root = np.sqrt(np.maximum(shared**2 - square * rest, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = rest / (shared + root), (shared + root) / square
    return np.nan_to_num(low, nan=0.0), np.where(square > 0, high, np.inf)
