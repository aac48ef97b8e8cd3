"""A threshold chosen on some rows, and rates of everyone at it.

A threshold that was chosen on *other* rows is a number like any other, so a rate at it is a
proportion: Wilson's interval says what this threshold will do with new people.

Chosen on the *same* rows, it is an estimate of where the rate c that was asked for has its target
t, and the rate r read there is off for two reasons: its own rows, and the rows that placed the
threshold. Wilson's interval (l, u) of r knows only the first. The second is read off the scores:
if (a, b) is Wilson's interval of a rate of t, then r may well be anything between r(a) and r(b),
the rates found where c is a and b. The two errors come from different rows (Zou and Donner,
Statistics in Medicine 27, 2008)::

    r - sqrt((r - l)² + (r - r(a))²)    to    r + sqrt((u - r)² + (r(b) - r)²)

where r(a) is 0 if a is less than one row, r(b) is 1 if b is all but less than one: no score found
says how far away the threshold may be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fairboost._typing import ArrayLike
from fairboost._warnings import warn
from fairboost.exceptions import InvalidInputError, SmallCellWarning
from fairboost.fairness.operating_points import OperatingPoint, at_fpr, at_tpr
from fairboost.fairness.rates import RATES, Rate
from fairboost.metrics.decisions import ScoredRows, read_more_rows, read_scored
from fairboost.metrics.intervals import Estimate, wilson


@dataclass(frozen=True)
class ChosenThreshold:
    """A threshold, and how it was chosen.

    Parameters
    ----------
    value : float
        Scores at or above it are positive decisions.
    operating_point : OperatingPoint
        What was asked for.
    realised : float
        The rate on the rows where the threshold was chosen.
    rows : int
        How many of these rows count towards the rate.
    on_other_rows : bool
        Whether these are other rows than those on which it is evaluated.

    Examples
    --------
    >>> print(ChosenThreshold(0.35, at_fpr(0.5), 0.4, 5, on_other_rows=True))
    score >= 0.35, at_fpr(0.5) chosen on other rows (fpr 0.400, 5 rows count)
    """

    value: float
    operating_point: OperatingPoint
    realised: float
    rows: int
    on_other_rows: bool

    def __str__(self) -> str:
        where = "other" if self.on_other_rows else "these"
        return (
            f"score >= {self.value:g}, {self.operating_point} chosen on {where} rows "
            f"({self.operating_point.rate_name} {self.realised:.3f}, {self.rows} rows count)"
        )


def threshold_at(
    y_true: ArrayLike,
    y_score: ArrayLike,
    operating_point: OperatingPoint,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
) -> float:
    """Threshold at which a rate of everyone has a given value.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        As in :func:`fairboost.metrics.audit`.
    operating_point : OperatingPoint
        Made by ``at_fpr``, ``at_tpr`` or ``at_positive_rate``.

    Returns
    -------
    float
        Scores at or above it are positive decisions.

    Examples
    --------
    >>> threshold_at([0, 0, 0, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.5], at_fpr(0.25))
    0.35
    """
    if not isinstance(operating_point, OperatingPoint):
        raise InvalidInputError(
            "operating_point must be one, such as at_fpr(0.05), at_tpr(0.8) or "
            f"at_positive_rate(0.02), found {operating_point!r}"
        )
    rows = read_scored(y_true, y_score, sample_weight, pos_label)
    return choose(operating_point, rows, None).value


def tpr_at_fpr(
    y_true: ArrayLike,
    y_score: ArrayLike,
    fpr: float,
    *,
    chosen_on: tuple[ArrayLike, ...] | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    confidence: float = 0.95,
) -> Estimate:
    """True positive rate at a given false positive rate.

    Parameters
    ----------
    y_true, y_score, sample_weight, pos_label
        As in :func:`fairboost.metrics.audit`: the rows that the rate is read on.
    fpr : float
        The false positive rate, in (0, 1).
    chosen_on : tuple (y_true, y_score[, sample_weight]), optional
        The rows to choose the threshold on, as a rule those of a validation set; those that the
        rate is read on if left out.
    confidence : float
        Nominal coverage of the interval.

    Notes
    -----
    With ``chosen_on`` the interval is Wilson's. It takes the threshold as given and is about the
    decisions of this threshold for new people. Their false positive rate may differ from the
    target; :func:`fairboost.metrics.audit` shows it. Without ``chosen_on`` the interval is that of
    the point of the ROC curve, and includes the error of the threshold, see
    :mod:`fairboost.metrics.thresholds`. How often that held the truth at 95%, in 2000 samples of
    scores that are normal, 1.5 standard deviations apart, and what Wilson's would have held::

        negative, positive rows     100, 100    1000, 1000    5000, 500
        FPR of 0.01               100%   56%     95%   52%    96%   86%
        FPR of 0.05                96%   70%     96%   69%    96%   92%
        FPR of 0.2                 95%   84%     96%   82%    95%   93%

    The threshold lies half way between two scores of negative rows, and positive rows between
    these may be on either side of it. The figure is therefore on the empirical ROC curve, but
    where this rises straight up it is not always at the top.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.arange(2000) % 2
    >>> score = y + np.random.default_rng(1).normal(size=2000)
    >>> print(tpr_at_fpr(y[1000:], score[1000:], 0.05, chosen_on=(y[:1000], score[:1000])))
    0.320 [0.281, 0.362]
    >>> print(tpr_at_fpr(y, score, 0.05))
    0.239 [0.192, 0.316]
    """
    rows = read_scored(y_true, y_score, sample_weight, pos_label)
    chosen = choose(at_fpr(fpr), rows, chosen_on)
    return _rate_at(RATES["tpr"], chosen, rows, confidence)


def fpr_at_tpr(
    y_true: ArrayLike,
    y_score: ArrayLike,
    tpr: float,
    *,
    chosen_on: tuple[ArrayLike, ...] | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    confidence: float = 0.95,
) -> Estimate:
    """False positive rate at a given true positive rate.

    See :func:`tpr_at_fpr`, with the two rates exchanged.

    Notes
    -----
    In the cases of the table in :func:`tpr_at_fpr`, but at true positive rates of 0.5, 0.8 and
    0.95, 95% intervals held the truth in 94% to 97% of samples; Wilson's would have in 28% to 91%.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.arange(2000) % 2
    >>> score = y + np.random.default_rng(1).normal(size=2000)
    >>> print(fpr_at_tpr(y, score, 0.8))
    0.433 [0.384, 0.488]
    """
    rows = read_scored(y_true, y_score, sample_weight, pos_label)
    chosen = choose(at_tpr(tpr), rows, chosen_on)
    return _rate_at(RATES["fpr"], chosen, rows, confidence)


def choose(
    operating_point: OperatingPoint, rows: ScoredRows, chosen_on: tuple[ArrayLike, ...] | None
) -> ChosenThreshold:
    """Choose a threshold on rows given for it, or else on those that it is evaluated on.

    Public functions call this themselves: a warning names the line of their caller.
    """
    other = chosen_on is not None
    on = read_more_rows("chosen_on", chosen_on, rows.known) if other else rows
    try:
        value = operating_point.threshold(on.scores, on.labels, on.weight)
    except InvalidInputError as error:
        raise InvalidInputError(f"{'chosen_on' if other else 'y_true'}: {error}") from error
    found = on.rows(operating_point.rate)
    realised = on.rate(operating_point.rate, value)
    check_fine_enough(operating_point, found, realised)
    return ChosenThreshold(value, operating_point, realised, found, other)


def check_fine_enough(operating_point: OperatingPoint, rows: int, realised: float) -> None:
    """Warn if a target is finer than the rows that count can tell."""
    needed = operating_point.rows_needed()
    if rows < needed and realised == float(operating_point.at_least):
        warn(
            f"{operating_point} is finer than {rows} {operating_point.who_counts} can resolve, so "
            f"the threshold is beyond the scores of all of them ({operating_point.rate_name} "
            f"{realised:g}); choose it on {needed} or more, or ask for a coarser target",
            SmallCellWarning,
        )


def _rate_at(rate: Rate, chosen: ChosenThreshold, rows: ScoredRows, confidence: float) -> Estimate:
    """Rate of everyone at a threshold that another rate chose."""
    effective = rows.effective(rate)
    if not effective:
        who = "positive" if rate.label else "negative"
        raise InvalidInputError(
            f"y_true has no {who} rows of any weight, so the {rate.title} is undefined; pass some"
        )
    value = rows.rate(rate, chosen.value)
    low, high = map(float, wilson(value * effective, effective, confidence))
    if not chosen.on_other_rows:
        # Rates at thresholds where the rate that was asked for may well have its target.
        point = chosen.operating_point
        n = rows.effective(point.rate)
        a, b = map(float, wilson(point.target * n, n, confidence))
        points = [replace(point, target=end) for end in (a, b)]
        thresholds = [p.threshold(rows.scores, rows.labels, rows.weight) for p in points]
        least = 0.0 if a * n < 1 else rows.rate(rate, thresholds[0])
        most = 1.0 if (1 - b) * n < 1 else rows.rate(rate, thresholds[1])
        low = max(value - math.hypot(value - low, value - least), 0.0)
        high = min(value + math.hypot(high - value, most - value), 1.0)
    return Estimate(value, low, high, confidence)
