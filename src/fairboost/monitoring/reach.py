"""What the rows so far could have shown: the smallest breach of a limit that raises an alarm.

An alarm is raised where the whole interval of a figure is beyond its limit. With few rows only a
large breach does that, so silence does not show that the limit holds. For every two groups of a
check, a breach is supposed in the rows that they have at a look:

* gap: the group with more rows keeps its rate, and the rate of the other one differs by the gap,
  to the side where there is more room;
* ratio: the group that is compared with keeps its rate (of two that are compared with each other,
  the one with more rows), and the rate of the other one is the ratio times as large;
* rates of single groups: each is supposed by itself.

The interval of the supposed figure follows from the same confidence sequences as that of the
figure found. What is closest to the limit and has its interval beyond it is where the alarm is
raised; of several pairs of groups the one is decisive for which that is farthest off. If rates
truly are so far apart, these rows raise the alarm in about half of all cases, since the figure
that is found is as often larger as it is smaller.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from fairboost._typing import BoolArray, FloatArray
from fairboost.monitoring.checks import ROUNDING, Check
from fairboost.monitoring.sequences import confidence_sequence, difference_sequence

HALVINGS = 16
"""Steps of the bisection, down to 0.00002 of a rate."""


def alarm_at(check: Check, events: FloatArray, rows: FloatArray, alpha: float) -> float:
    """The figure closest to the limit that would have raised an alarm with some rows.

    Parameters
    ----------
    check : Check
        What is held to a limit.
    events, rows : (n_series,) float64
        Of its series, in the rows that are judged.
    alpha : float
        What the sequence of one series may fail with.

    Returns
    -------
    float
        NaN if no figure would have: the rows are too few, or some group has none.
    """
    moved, held = np.array(_pairs(check, rows)).T
    if not (rows[[moved, held]] > 0).all():
        return np.nan
    base = events[held] / rows[held]
    side = np.where(base <= 0.5, 1.0, -1.0)  # where there is more room
    few = replace(check, series=check.series[:2], strata=((0, 1),), to=1)
    other = events[held], rows[held]
    ends = confidence_sequence(*other, alpha)

    def beyond(figure: FloatArray) -> BoolArray:
        rate = {"gap": base + side * figure, "ratio": base * figure}.get(check.measure, figure)
        one = np.clip(rate, 0.0, 1.0) * rows[moved], rows[moved]
        lows, highs = zip(confidence_sequence(*one, alpha), ends, strict=True)
        compared = slice(2 if check.strata else 1)
        values = (one[0] / one[1], base)
        value, low, high = (np.array(pair[compared]) for pair in (values, lows, highs))
        apart = {}
        if check.pairs:
            apart[0, 1] = difference_sequence(*one, *other, alpha / len(check.pairs))
        _, low, high = few.figure(value, low, high, apart)
        return check.beyond(low, high) > ROUNDING

    farthest = {"gap": np.maximum(base, 1.0 - base), "rate": np.ones(len(base))}
    near = np.full(len(base), check.limit)
    far = farthest.get(check.measure, np.zeros(len(base)))
    if not beyond(far).all():
        return np.nan
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        found = beyond(middle)
        near, far = np.where(found, near, middle), np.where(found, middle, far)
    return float(far.min() if check.at_least else far.max())


def _pairs(check: Check, rows: FloatArray) -> list[tuple[int, int]]:
    """Places of the group whose rate is supposed, and of the one that it is compared with."""
    if not check.strata:
        return [(g, g) for g in range(len(check.series))]
    if check.to is not None:
        return [(g, check.to) for part in check.strata for g in part if g != check.to]
    pairs = [pair for part in check.strata for pair in combinations(part, 2)]
    return [(g, h) if rows[g] <= rows[h] else (h, g) for g, h in pairs]
