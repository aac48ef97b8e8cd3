"""Sums and thresholds over rows that lie on several machines.

The method needs few numbers per round: sums by cell, and where the threshold moves, a quantile of
scores. :class:`AllReduce` adds up what every machine has found on its own rows. What travels does
not grow with the rows, and every machine gets the same sums, bit by bit, so each takes the same
step by itself.

A quantile of all scores is found digit by digit. Scores are mapped to whole numbers in the same
order; in each of eight steps the machines add up the weight of their scores by the next byte, and
so agree on the byte of the score they look for. The result is exact. Where many quantiles are
wanted at once, a sample of a fixed size is gathered instead (:func:`gathered`).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fairboost._typing import FloatArray, IntArray
from fairboost.fairness.operating_points import (
    ROUNDING,
    OperatingPoint,
    beyond,
    doubtful,
    half_way,
)

_SIGN = np.uint64(1 << 63)
_BYTE = np.uint64(0xFF)


class AllReduce(Protocol):
    """All machines that hold rows; every one of them calls the same methods in the same order."""

    def total(self, values: FloatArray) -> FloatArray:
        """Add up a vector over the machines."""

    def least(self, value: float) -> float:
        """Return the least of one number of each machine."""


class _Alone:
    """One machine with all the rows."""

    def total(self, values: FloatArray) -> FloatArray:
        """The vector itself."""
        return values

    def least(self, value: float) -> float:
        """The number itself."""
        return value


ONE_MACHINE: AllReduce = _Alone()


def threshold_over(
    machines: AllReduce, point: OperatingPoint, scores: FloatArray, weight: FloatArray | None
) -> float:
    """Threshold of an operating point among the scores of all machines.

    Parameters
    ----------
    machines : AllReduce
        Those that hold rows.
    point : OperatingPoint
        What is asked for.
    scores : (n,) float64
        Scores of the rows of this machine that count; there may be none.
    weight : (n,) float, optional
        Their weights.

    Returns
    -------
    threshold : float
        As :meth:`OperatingPoint.among` finds it where all rows are on one machine.

    Examples
    --------
    >>> from fairboost import at_fpr
    >>> threshold_over(ONE_MACHINE, at_fpr(0.4), np.array([0.1, 0.2, 0.3, 0.4, 0.5]), None)
    0.35
    """
    if machines is ONE_MACHINE:
        return point.among(scores, weight)
    weight = np.ones(len(scores)) if weight is None else weight.astype(np.float64)
    if not (weight > 0).all():
        scores, weight = scores[weight > 0], weight[weight > 0]
    scores = scores.astype(np.float64, copy=False) + 0.0  # one zero, not two
    everything = float(machines.total(np.array([weight.sum()]))[0])
    slack = ROUNDING * everything
    # The highest score with so much weight at or above it is the last that is decided positively,
    # or the first that is not, as the target is a floor or a ceiling.
    if point.at_least:
        last = _highest(machines, scores, weight, point.target * everything - slack, reach=True)
        below = -machines.least(-scores[scores < last].max(initial=-math.inf))
        return half_way(below, last)
    if everything <= point.target * everything + slack:  # the target is 1 but for rounding
        return half_way(-math.inf, machines.least(scores.min(initial=math.inf)))
    first = _highest(machines, scores, weight, point.target * everything + slack, reach=False)
    above = machines.least(scores[scores > first].min(initial=math.inf))
    return half_way(first, above if above < math.inf else None)


def out_of_doubt(
    machines: AllReduce, point: OperatingPoint, threshold: float, scores: FloatArray
) -> float:
    """Move a threshold away from scores that rounding could put on its other side.

    What is kept of a threshold is a probability, and it has to tell the same rows apart whoever
    computes theirs, in single or double precision. Scores that no probability tells apart are
    decided alike, on the side that the target allows.

    Parameters
    ----------
    machines : AllReduce
        Those that hold rows.
    point : OperatingPoint
        What is asked for.
    threshold : float
        In log-odds, as :func:`threshold_over` finds it.
    scores : (n,) float64
        Scores of all rows of this machine that are measured.

    Examples
    --------
    >>> out_of_doubt(ONE_MACHINE, OperatingPoint("fpr", 0.5), 0.35, np.array([0.3, 0.4]))
    0.35
    >>> out_of_doubt(ONE_MACHINE, OperatingPoint("fpr", 0.5), 30.0, np.array([1.0, 29.0, 31.0]))
    31.000000031
    >>> out_of_doubt(ONE_MACHINE, OperatingPoint("ppr", 0.5), -93.0, np.array([-182.0, -4.0]))
    -42.0
    >>> out_of_doubt(ONE_MACHINE, OperatingPoint("tpr", 0.5), 30.0, np.array([1.0, 29.0, 31.0]))
    7.5
    """

    # Not by initial=..., which arrays on a GPU do not know.
    def least(values: FloatArray) -> float:
        return machines.least(float(values.min()) if len(values) else math.inf)

    def most(values: FloatArray) -> float:
        return -machines.least(-float(values.max()) if len(values) else math.inf)

    low, high = doubtful(threshold)
    if least(scores[(low <= scores) & (scores <= high)]) == math.inf:
        return threshold
    below, above = most(scores[scores < threshold]), least(scores[scores >= threshold])
    while True:
        if above == math.inf:
            return beyond(below, 1)
        if below == -math.inf:
            return beyond(above, -1)
        # Half way may be where all probabilities are one; what scores have in between is not.
        for ends in ((max(below, -80.0), min(above, 14.0)), (below, above)):
            low, high = doubtful(threshold := half_way(*ends))
            if ends[0] < ends[1] and below < low and high < above:
                return threshold
        if point.at_least:  # those in doubt are decided positively as well
            above = min(below, least(scores[scores >= low]))
            below = most(scores[scores < above])
        else:
            below = max(above, most(scores[scores <= high]))
            above = least(scores[scores > below])


def share_near(
    machines: AllReduce, threshold: float, scores: FloatArray, weight: FloatArray | None
) -> float:
    """Share of the scores of all machines that are within 1 of a threshold.

    Parameters
    ----------
    machines : AllReduce
        Those that hold rows.
    threshold : float
        In log-odds.
    scores : (n,) float64
        Scores of the rows of this machine that count; there may be none.
    weight : (n,) float, optional
        Their weights.

    Examples
    --------
    >>> share_near(ONE_MACHINE, 0.0, np.array([-4.0, -0.5, 0.9, 1.0]), None)
    0.5
    """
    near = np.abs(scores - threshold) < 1.0
    # Summed, not multiplied: threads of a linear algebra library would stay awake for some
    # milliseconds, and compete with the engine's for the cores.
    found = [float(len(scores)), float(np.count_nonzero(near))]
    if weight is not None:
        found = [float(w.sum(dtype=np.float64)) for w in (weight, weight[near])]
    everything, within = machines.total(np.array(found))
    return float(within / everything)


def gathered(machines: AllReduce, values: FloatArray, places: IntArray, size: int) -> FloatArray:
    """Numbers of all machines, each at its place, on every one of them.

    Parameters
    ----------
    machines : AllReduce
        Those that hold rows.
    values : (m,) float64
        The numbers of this machine; there may be none.
    places : (m,) int
        Where each belongs. No two machines have a place in common.
    size : int
        Number of all places.

    Examples
    --------
    >>> gathered(ONE_MACHINE, np.array([0.5, 0.2]), np.array([1, 0]), 2)
    array([0.2, 0.5])
    """
    own = np.zeros(size)
    own[places] = values
    return machines.total(own)


def quantile_over(
    machines: AllReduce, values: FloatArray, weight: FloatArray | None, level: float
) -> float:
    """The least value with at least a share of the weight of all machines at or below it.

    Parameters
    ----------
    machines : AllReduce
        Those that hold rows.
    values : (n,) float64
        Of the rows of this machine; there may be none.
    weight : (n,) float, optional
        Their weights.
    level : float
        The share, in [0, 1].

    Examples
    --------
    >>> quantile_over(ONE_MACHINE, np.array([3.0, 1.0, 2.0, 4.0]), None, 0.5)
    2.0
    """
    weight = np.ones(len(values)) if weight is None else weight.astype(np.float64)
    values, weight = values[weight > 0], weight[weight > 0]
    (everything,) = machines.total(np.array([weight.sum()]))
    return _lowest(machines, values, weight, level * float(everything))


def median_over(machines: AllReduce, values: FloatArray) -> float:
    """The median of numbers of all machines, half way between two of them if they are even.

    It is 0 if there are none.

    Parameters
    ----------
    machines : AllReduce
        Those that hold rows.
    values : (n,) float64
        The numbers of this machine; there may be none.

    Examples
    --------
    >>> median_over(ONE_MACHINE, np.array([4.0, 1.0, 2.0, 5.0]))
    3.0
    """
    (n,) = machines.total(np.array([float(len(values))]))
    if not n:
        return 0.0
    if machines is ONE_MACHINE:
        return float(np.median(values))
    low = _lowest(machines, values, np.ones(len(values)), math.ceil(n / 2))
    (upto,) = machines.total(np.array([float(np.count_nonzero(values <= low))]))
    next_one = machines.least(float(values[values > low].min(initial=math.inf)))
    return low if n % 2 or upto > n / 2 else (low + next_one) / 2


def spread_over(machines: AllReduce, values: FloatArray) -> float:
    """Standard deviation of numbers of all machines; 0 if there are none.

    Examples
    --------
    >>> spread_over(ONE_MACHINE, np.array([1.0, 3.0]))
    1.0
    """
    n, total = machines.total(np.array([float(len(values)), values.sum()]))
    if not n:
        return 0.0
    (squares,) = machines.total(np.array([np.square(values - total / n).sum()]))
    return math.sqrt(squares / n)


def _lowest(machines: AllReduce, values: FloatArray, weight: FloatArray, wanted: float) -> float:
    """The lowest value with at least a given weight at or below it."""
    return -_highest(machines, 0.0 - values, weight, wanted, reach=True)


def _highest(
    machines: AllReduce, scores: FloatArray, weight: FloatArray, wanted: float, reach: bool
) -> float:
    """The highest score with at least, or more than, a given weight at or above it."""
    keys = in_order(scores)
    found, above = np.uint64(0), 0.0
    for shift in range(56, -8, -8):
        digits = ((keys >> np.uint64(shift)) & _BYTE).astype(np.intp)
        by_digit = machines.total(np.bincount(digits, weight, 256).astype(np.float64))
        # Weight at or above each digit; rounding must not leave the lowest one short.
        from_top = above + np.cumsum(by_digit[::-1])[::-1]
        enough = from_top >= wanted if reach else from_top > wanted
        present = np.flatnonzero(by_digit > 0)
        candidates = present[enough[present]]
        digit = int(candidates[-1] if len(candidates) else present[0])
        above = float(from_top[digit + 1]) if digit < 255 else above
        keep = digits == digit
        keys, weight = keys[keep], weight[keep]
        found |= np.uint64(digit) << np.uint64(shift)
    return _as_score(found)


def in_order(scores: FloatArray) -> NDArray[np.uint64]:
    """Whole numbers in the order of scores, among which -0.0 must not be."""
    bits = scores.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _as_score(key: np.uint64) -> float:
    bits = key & ~_SIGN if key & _SIGN else ~key
    return float(np.array([bits], np.uint64).view(np.float64)[0])
