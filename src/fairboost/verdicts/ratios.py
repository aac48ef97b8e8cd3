"""Figures that must be at least so large, with their intervals: a ratio of rates, a least rate.

The ratio of the smallest rate to the largest has the interval that tables print
(:func:`fairboost.metrics.intervals.ratio_interval`).

Compared with everyone or with a reference group, the low end is the quantile of the smallest ratio
in draws of logarithms, with half an event added to the rates, since 0 has none. For the high end
every group has an upper bound, all at once (Bonferroni), and the smallest ratio is at most the
smallest of these.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from fairboost._typing import FloatArray
from fairboost.fairness.moments import GroupMoments
from fairboost.fairness.ratios import RatioParity
from fairboost.metrics.intervals import ratio_interval
from fairboost.metrics.sampling import SamplingLaw, ShareLaw, drawn_errors

CANNOT_TELL = 0.5
"""Where the low end of a ratio is less than this share of the ratio asked for, and the high end is
above it, the rows cannot tell the ratio."""


def judge_ratio(
    constraint: RatioParity, rates: GroupMoments, rows: FloatArray, level: float, law: SamplingLaw
) -> tuple[float, float, float]:
    """The smallest ratio of a group, what it is at least and what it is at most.

    Parameters
    ----------
    constraint : RatioParity
        Says what groups are compared with.
    rates : GroupMoments
        What was measured.
    rows : (n_groups,) float64
        Rows that would tell as much.
    level : float
        Coverage aimed at.
    law : SamplingLaw
        How far moments are off by chance.
    """
    value = float(constraint.ratios(rates).min())
    (r,) = rates.values
    if constraint.of == "largest":
        low, high = ratio_interval(
            r,
            lambda confidence: law.ends(r, rows, confidence),
            level,
            correlations=law.shared,
            parts=rates.parts(),
        )
    else:
        logarithms, errors = _logarithms(r, rows, law)
        to, to_errors = _compared_with(constraint, rates, logarithms, errors)
        values, around = logarithms - to, errors - to_errors
        low = float(np.exp(np.quantile((values + around).min(axis=1), (1.0 - level) / 2)))
        at_once = constraint.at_once(len(r), len(r))
        reach = -float(ndtri((1.0 - level) / (2 * at_once))) * around.std(axis=0)
        high = float(np.exp((values + np.maximum(reach, 0.0)).min()))
    return value, float(min(max(low, 0.0), value)), float(max(min(high, 1.0), value))


def _logarithms(
    r: FloatArray, rows: FloatArray, law: SamplingLaw
) -> tuple[FloatArray, FloatArray]:
    """Logarithms of rates, and draws of their errors."""
    drawn = drawn_errors(r, rows, law)
    if isinstance(law, ShareLaw):
        # As the law draws them, around two events in four rows more.
        around = (rows * r + 2.0) / (rows + 4.0)
        least = 0.5 / (rows + 1.0)
        smooth = (rows * r + 0.5) / (rows + 1.0)
    else:
        around = smooth = np.maximum(r, np.finfo(float).tiny)
        least = 1e-6 * smooth
    errors: FloatArray = np.log(np.maximum(around + drawn, least)) - np.log(around)
    return np.log(smooth), errors


def _compared_with(
    constraint: RatioParity, rates: GroupMoments, logarithms: FloatArray, errors: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Logarithms of what groups are compared with, and draws of their errors."""
    if constraint.of == "reference":
        at = [constraint.reference_index(rates)]
        return logarithms[at], errors[:, at]
    (w,) = rates.weights
    shares, smooth = w / rates.total(w), np.exp(logarithms)
    pooled = rates.total(shares * smooth)
    drawn = rates.total(shares * smooth * np.exp(errors))
    return np.log(pooled), np.log(drawn) - np.log(pooled)


def judge_floor(
    rates: FloatArray, rows: FloatArray, level: float, law: SamplingLaw
) -> tuple[float, float, float]:
    """The least rate of a group, what it is at least and what it is at most.

    Parameters
    ----------
    rates, rows : (n_groups,) float64
        The rates of groups, and the rows that tell.
    level, law
        As for :func:`judge_ratio`.
    """
    # One group has the least rate in truth, others may seem lower by chance: of these, which are
    # drawn independently, all high ends hold at once.
    each = (0.5 + level / 2) ** (1.0 / len(rates))
    (low, _), (_, high) = (law.interval(rates, rows, at) for at in (level, 2 * each - 1))
    value = float(rates.min())
    return value, min(float(low.min()), value), max(float(high.min()), value)


def too_few_to_tell(low: float, high: float, limit: float) -> bool:
    """Whether the interval of a ratio is so wide that the rows say nothing about it.

    Examples
    --------
    >>> too_few_to_tell(0.1, 1.0, 0.8), too_few_to_tell(0.7, 0.95, 0.8)
    (True, False)
    """
    return low < CANNOT_TELL * limit and high >= limit
