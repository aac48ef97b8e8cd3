"""Confidence sequences of a rate: intervals that hold at all looks at once.

An interval for a fixed number of rows covers the rate with 95% at one look. Over 24 monthly looks
some of them miss it far more often than in 5% of all cases. A confidence sequence covers the rate
at *all* looks at once with the confidence asked for, so it may be looked at after every row, and
monitoring may go on or stop because of what was seen.

Row t is an event with probability p_t, given the rows before it. For every number l (a
logarithm of odds), with S the events among the first n rows::

    prod_t exp(l x_t) / (1 - p_t + p_t e^l)

is a martingale that starts at 1. The logarithm of the denominator is concave in p_t, so with r the
mean of p_1 ... p_n the martingale is at least ``exp(l S) / (1 - r + r e^l)^n``, and so is its mean
over a fixed set of numbers l with weights w_l::

    M_n(r) = sum_l w_l exp(l S - n log(1 - r + r e^l))

By Ville's inequality M_n(r) reaches 1 / alpha at some n with a probability of at most alpha. The
sequence is therefore the set of r with ``M_n(r) < 1 / alpha``. It covers the mean rate of all rows
so far, at every n. The rate may change over time, and rows need not be independent. M_n is convex
in r on a logarithmic scale and at most 1 at r = S / n, so the set is an interval around S / n; its
ends are found by Newton's method, from outside.

The numbers l are spread evenly on a logarithmic scale (:data:`ODDS`), so the sequence is narrow
for few rows and for many. This is the "sub-Bernoulli" case of Howard, Ramdas, McAuliffe and Sekhon
(Annals of Statistics 49, 2021), with a discrete mixture in the manner of Robbins (Annals of
Mathematical Statistics 41, 1970). The mixture over a Beta law of the rate has a closed form, but
it covers only a rate that never changes. Monitoring is about rates that may.

**Differences of two rates.** Rows of two groups are different rows, so the product of the two
martingales is a martingale too. With a probability of at most alpha the product of both mixtures,
M_n(r) M'_m(r'), ever reaches 1 / alpha. The pairs (r, r') where it stays below are a convex set,
and the sequence of the difference (:func:`difference_sequence`) spans the least and the largest
r - r' in that set. The set is rounder than the rectangle of two sequences that each get half of
alpha, so its corners, where both rates are unlucky at once, are cut off.

**Looking for a change.** The mean of all rows so far hides what happened lately. A sequence is
therefore started anew at every period (:func:`spend`). The rows that a model was tested on in
training have an exact interval (Clopper and Pearson). All of these hold at once, with confidence
``1 - alpha``: a quarter of alpha goes to the rows of training, a quarter to the sequences since
the first period, and half to those that are started later, ``alpha / 2 / (j (j + 1))`` to the
j-th of them, which adds up to alpha / 2. Each part is divided evenly among the rates and gaps
that are watched. A probability of a false alarm of at most alpha *ever* is a stronger promise
than the mean time between false alarms of an e-detector (Shin, Ramdas and Rinaldo, New England
Journal of Statistics in Data Science, 2023), and it costs a logarithm of the number of periods.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.special import xlog1py, xlogy

from fairboost._typing import ArrayLike, FloatArray
from fairboost.exceptions import InvalidInputError

HALVINGS = 12
"""Steps of the bisection that finds where to start."""

STEPS = 200
CLOSE = 1e-11
"""When Newton's method stops: at the latest after so many steps, or where one is so short."""

NEAR_END = 1e-9
"""A rate that is so near to 0 or 1 is at the end."""

BLOCK = 20_000
"""Intervals that are computed at once."""


SIZES = 2.0 ** (np.arange(-18, 7) / 2.0)
ODDS = np.concatenate([-SIZES[::-1], SIZES])
"""Logarithms of odds that the mixture is over: 25 sizes from 0.002 to 8, and both signs. The
smallest is the best one for some ten million rows."""


def confidence_sequence(
    events: ArrayLike, total: ArrayLike, alpha: ArrayLike = 0.05
) -> tuple[FloatArray, FloatArray]:
    """Ends of a confidence sequence of a rate, which hold at all looks at once.

    Parameters
    ----------
    events, total : int or array
        Events so far, and rows so far, at each look.
    alpha : float or array
        The largest probability that the sequence fails to cover the rate at some look.

    Returns
    -------
    low, high : array
        Shaped as the arguments; 0 and 1 where there are no rows. At every look they hold the mean
        rate of the rows so far.

    Examples
    --------
    >>> low, high = confidence_sequence([20, 200, 2_000], [100, 1_000, 10_000])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.087, 0.158, 0.186], [0.358, 0.246, 0.214])
    """
    k, n, a = np.broadcast_arrays(
        np.asarray(events, np.float64), np.asarray(total, np.float64), np.asarray(alpha, float)
    )
    _check_counts(k, n, a)
    low, high = np.zeros(k.shape), np.ones(k.shape)
    seen = np.flatnonzero(n)  # where there are rows
    flat = k.ravel()[seen], n.ravel()[seen], -np.log(a.ravel()[seen])
    for start in range(0, len(seen), BLOCK):
        part = slice(start, start + BLOCK)
        low.flat[seen[part]], high.flat[seen[part]] = _invert(*(values[part] for values in flat))
    return low, high


def _check_counts(events: FloatArray, total: FloatArray, alpha: FloatArray) -> None:
    if not ((events >= 0) & (events <= total)).all():
        raise InvalidInputError(
            "events must lie between 0 and total; are the two arguments swapped?"
        )
    if not ((alpha > 0) & (alpha < 1)).all():
        wrong = alpha[~((alpha > 0) & (alpha < 1))].flat[0]
        raise InvalidInputError(f"alpha must lie between 0 and 1, found {wrong:g}")


def difference_sequence(
    events: ArrayLike,
    total: ArrayLike,
    other_events: ArrayLike,
    other_total: ArrayLike,
    alpha: ArrayLike = 0.05,
) -> tuple[FloatArray, FloatArray]:
    """Ends of a confidence sequence of the difference of two rates of different rows.

    Parameters
    ----------
    events, total : int or array
        Events and rows so far of the first rate, at each look.
    other_events, other_total : int or array
        Those of the rate that is subtracted.
    alpha : float or array
        The largest probability that the sequence fails to cover the difference at some look.

    Returns
    -------
    low, high : array
        Shaped as the arguments; -1 and 1 where one of the rates has no rows. At every look they
        hold the difference of the mean rates of the rows so far.

    Examples
    --------
    >>> low, high = difference_sequence(450, 1_000, 300, 1_000)
    >>> low.round(3).tolist(), high.round(3).tolist()
    (0.061, 0.238)
    """
    arrays = (events, total, other_events, other_total, alpha)
    *rows, a = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in arrays))
    _check_counts(rows[0], rows[1], a)
    _check_counts(rows[2], rows[3], a)
    low, high = np.full(a.shape, -1.0), np.ones(a.shape)
    seen = np.flatnonzero((rows[1] > 0) & (rows[3] > 0))
    k, n, j, m = (x.ravel()[seen] for x in rows)
    most = -np.log(a.ravel()[seen])
    for start in range(0, len(seen), BLOCK):
        part = slice(start, start + BLOCK)
        one, other, limit = (k[part], n[part]), (j[part], m[part]), most[part]
        low.flat[seen[part]] = _least_difference(one, other, limit)
        high.flat[seen[part]] = -_least_difference(other, one, limit)
    return low, high


def log_mixture(
    rate: FloatArray, events: FloatArray, total: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The logarithm of M_n(r), how much the rows speak against a rate, and two derivatives.

    Parameters
    ----------
    rate, events, total : (m,) float64
        Rates, and the events and rows that they are held against.
    """
    odds = np.expm1(ODDS)
    below = 1.0 + np.outer(rate, odds)  # 1 - r + r e^l
    against = np.outer(events, ODDS) - total[:, np.newaxis] * np.log(below)
    largest = against.max(axis=1, keepdims=True)
    terms = np.exp(against - largest)
    weight = terms.sum(axis=1)
    each = odds / below
    first, second = (terms * each).sum(axis=1) / weight, (terms * each**2).sum(axis=1) / weight
    curvature = total**2 * (second - first**2) + total * second
    return largest[:, 0] + np.log(weight / len(ODDS)), -total * first, curvature


def _invert(
    events: FloatArray, total: FloatArray, most: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where the mixture is at its limit, on either side of the rate that was found.

    The logarithm is convex in the rate. Newton's method therefore comes closer from outside with
    every step and never passes the end, so what it stops at is an end that is a hair too wide.
    """
    ends = []
    for outer in (0.0, 1.0):
        rate = _outside(events, total, most + np.log(len(ODDS)), outer)
        above = log_mixture(rate, events, total)[0] > most
        rate = np.where(above, rate, outer)  # where too few rows are for the grid of numbers
        for _ in range(STEPS):
            found, slope, _ = log_mixture(rate, events, total)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.where(found > most, (found - most) / slope, 0.0)
            rate = rate - step
            if np.abs(step).max() < CLOSE:
                break
        ends.append(rate)
    return ends[0], ends[1]


Counts: TypeAlias = tuple[FloatArray, FloatArray]
"""Events and rows."""


def _least_difference(one: Counts, other: Counts, most: FloatArray) -> FloatArray:
    """The least difference of two rates that the product of their mixtures does not refute.

    For a difference d let f(d) be the least of log M(r + d) + log M'(r) over r. It is convex in
    d, so Newton's method again comes from outside.
    """
    wide = most + np.log(len(ODDS))  # a mixture is about 1 / len(ODDS) at its least
    start, rate = _outside(*one, wide, 0.0), _outside(*other, wide, 1.0)
    apart = start - rate
    _, found, _ = _least_over_rates(apart, rate, one, other)
    apart = np.where(found > most, apart, -1.0)
    left = np.arange(len(apart))  # what has not come close yet
    for _ in range(STEPS):
        ours, theirs = (one[0][left], one[1][left]), (other[0][left], other[1][left])
        rate[left], found, slope = _least_over_rates(apart[left], rate[left], ours, theirs)
        above = found > most[left]
        step = np.zeros(len(left))
        np.divide(found - most[left], slope, out=step, where=above & (slope != 0))
        apart[left] -= step
        left = left[np.abs(step) > CLOSE]
        if not len(left):
            break
    return apart


def _least_over_rates(
    apart: FloatArray, rate: FloatArray, one: Counts, other: Counts
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The rate r at which log M(r + d) + log M'(r) is least, the sum, and its slope in d.

    Newton's method from ``rate``, kept within the ends between which the slope changes its sign.
    """
    low, high = np.maximum(0.0, -apart), np.minimum(1.0, 1.0 - apart)
    rate = np.clip(rate, low, high)
    first, second = np.empty((3, len(rate))), np.empty((3, len(rate)))
    left = np.arange(len(rate))
    for _ in range(STEPS):
        r, k = rate[left], left
        first[:, k] = log_mixture(np.clip(r + apart[k], 0.0, 1.0), one[0][k], one[1][k])
        second[:, k] = log_mixture(r, other[0][k], other[1][k])
        slope, bend = first[1, k] + second[1, k], first[2, k] + second[2, k]
        low[k], high[k] = np.where(slope < 0, r, low[k]), np.where(slope > 0, r, high[k])
        moved = r - np.divide(slope, bend, out=np.full(len(k), np.inf), where=bend > 0)
        moved = np.where((moved >= low[k]) & (moved <= high[k]), moved, (low[k] + high[k]) / 2)
        rate[k] = moved
        left = k[np.abs(moved - r) > CLOSE]
        if not len(left):
            break
    # Where r is free or at an end, f moves with the first term; where r + d is at an end, with the
    # second; at both, with the steeper one.
    shifted = rate + apart
    held, ends = (np.minimum(x, 1.0 - x) < NEAR_END for x in (shifted, rate))
    slope = np.where(held, -second[1], first[1])
    slope = np.where(held & ends, np.minimum(first[1], -second[1]), slope)
    return rate, first[0] + second[0], slope


def _outside(events: FloatArray, total: FloatArray, most: FloatArray, outer: float) -> FloatArray:
    """A rate that is a little beyond an end: M_n is at least the best of its terms over all."""
    found = events / total
    inside, beyond = found, np.full_like(found, outer)
    for _ in range(HALVINGS):
        middle = (inside + beyond) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = xlogy(found, found / middle) + xlog1py(1 - found, -middle)
            apart -= xlog1py(1 - found, -found)
        near = total * apart < 1.1 * most
        inside, beyond = np.where(near, middle, inside), np.where(near, beyond, middle)
    return beyond


def spend(alpha: float, series: int, start: ArrayLike) -> FloatArray:
    """What a sequence that starts at a period may fail with.

    Parameters
    ----------
    alpha : float
        What everything together may fail with.
    series : int
        Rates that are watched.
    start : int or array
        The period that the sequence starts at; 0 is the first one.

    Examples
    --------
    >>> [float(spend(0.04, 1, k)) for k in (0, 1, 2)]
    [0.01, 0.01, 0.0033333333333333335]
    """
    j = np.maximum(np.asarray(start, np.float64), 1.0)
    later = alpha / (2 * j * (j + 1))
    out: FloatArray = np.where(np.asarray(start) == 0, alpha / 4, later) / series
    return out
