"""Where decisions are made: at a given probability, or where a rate of everyone has a value.

"At most 5% of good customers blocked" is ``at_fpr(0.05)``, "we can review the top 2%" is
``at_positive_rate(0.02)``. The threshold is then a function of the scores: a weighted quantile of
those of the rows that count. Rows of equal score are decided alike, so a rate can only take some
values. A false positive rate and a budget are *at most* what was asked for, a true positive rate
is *at least* that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit, logit

from fairboost._numbers import is_number, probabilities
from fairboost._typing import FloatArray, IntArray
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.rates import RATES, Rate

ROUNDING = 1e-9
"""0.07 of 100 rows are 7.000000000000001: a target is missed only by more than this share."""

HAIR = 1e-9
"""What a threshold beyond all scores keeps away from them. A model's scores are not the same to
the last digit everywhere: trees are summed in another order in prediction, and the probabilities
of two neighbouring scores may be one number."""

ULPS = 4
"""Single-precision numbers by which the probability of a score may be off: engines compute scores
and probabilities in single precision, or files are read by programs that do."""

ABOVE_ALL = float(np.nextafter(np.float32(1), np.float32(2)))
"""A threshold that no probability reaches, where no one may be decided positively and the highest
score has a probability of 1 but for rounding."""

WIDEST = 10.0
"""Scores that are further apart are taken to be this far apart."""


@dataclass(frozen=True)
class OperatingPoint:
    """A rate of everyone, and the value it should have.

    Made by :func:`at_fpr`, :func:`at_tpr` and :func:`at_positive_rate`.

    Parameters
    ----------
    rate_name : {"fpr", "tpr", "ppr"}
        The rate.
    target : float
        Its value, in (0, 1).
    """

    rate_name: str
    target: float

    def __post_init__(self) -> None:
        if self.rate_name not in ("fpr", "tpr", "ppr"):
            raise InvalidInputError(
                f"an operating point has a target of fpr, tpr or ppr, found {self.rate_name!r}; "
                "use at_fpr, at_tpr or at_positive_rate"
            )
        if not is_number(self.target) or not 0 < self.target < 1:
            raise InvalidInputError(
                f"{self} must have a target in (0, 1), found {self.target!r}; write 0.05 for 5%"
            )
        object.__setattr__(self, "target", float(self.target))  # one of numpy prints otherwise

    def __str__(self) -> str:
        maker = "at_positive_rate" if self.rate_name == "ppr" else f"at_{self.rate_name}"
        return f"{maker}({self.target!r})"

    __repr__ = __str__

    @property
    def rate(self) -> Rate:
        """The rate that has the target."""
        return RATES[self.rate_name]

    @property
    def at_least(self) -> bool:
        """Whether the target is a floor and not a ceiling."""
        return self.rate_name == "tpr"

    @property
    def who_counts(self) -> str:
        """The rows that count, in words."""
        return {None: "rows", 0: "negative rows", 1: "positive rows"}[self.rate.label]

    def threshold(
        self, scores: FloatArray, labels: IntArray, weight: FloatArray | None = None
    ) -> float:
        """Return the threshold that comes closest to the target from its right side.

        Parameters
        ----------
        scores : (n,) float
            Scores that rise with the positive label.
        labels : (n,) int
            0 and 1.
        weight : (n,) float, optional
            Weights of the rows; 0 leaves one out.

        Returns
        -------
        threshold : float
            Scores at or above it are positive decisions. It lies half way between the last score
            that is and the first that is not, of the rows that count; a hair's breadth beyond all
            of them if there is no such score.

        Examples
        --------
        >>> scores = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
        >>> at_fpr(0.4).threshold(scores, np.zeros(5, int))
        0.35
        """
        counts = self.rate.counts(labels)
        return self.among(
            scores if counts.all() else scores[counts],
            None if weight is None else weight[counts],
        )

    def among(self, scores: FloatArray, weight: FloatArray | None = None) -> float:
        """As :meth:`threshold`, of the scores of the rows that count alone."""
        if weight is not None and not (counts := weight > 0).all():
            scores, weight = scores[counts], weight[counts]
        if not len(scores):
            raise InvalidInputError(
                f"{self} needs {self.who_counts} to read the {self.rate.title} on, found none "
                "that weigh anything; pass some"
            )
        if weight is None:
            return self._by_count(scores)
        values, where = np.unique(scores, return_inverse=True)
        # Of a GPU's array, unlike one of NumPy, the inverse may have another shape.
        by_value = np.bincount(where.ravel(), weight).astype(np.float64)
        k = self.crossing(by_value) + (not self.at_least)
        return half_way(values[k - 1] if k else -math.inf, values[k] if k < len(values) else None)

    def crossing(self, weight: FloatArray) -> int:
        """Among values in rising order, that at which the rate crosses its target.

        Parameters
        ----------
        weight : (n,) float
            Weight of the rows of each value, or bin of values.

        Returns
        -------
        k : int
            With a floor, the largest value that must be positive; with a ceiling, the largest that
            must not, and -1 if all may be.
        """
        above = np.cumsum(weight[::-1])[::-1]  # weight at or above each value
        total = above[0]
        slack = ROUNDING * total
        if self.at_least:
            return int((above >= self.target * total - slack).sum()) - 1
        return int((above > self.target * total + slack).sum()) - 1

    def _by_count(self, scores: FloatArray) -> float:
        """Return the same where all rows weigh the same: no sorting is needed."""
        n = len(scores)
        if self.at_least:
            positive = max(math.ceil(n * (self.target - ROUNDING)), 1)
            kth = np.partition(scores, n - positive)
            last, below = kth[n - positive], kth[: n - positive]
            below = below[below < last]  # ties are decided alike
            return half_way(below.max() if len(below) else -math.inf, last)
        positive = math.floor(n * (self.target + ROUNDING))
        if positive == n:  # the target is 1 but for rounding
            return half_way(-math.inf, scores.min())
        kth = np.partition(scores, n - positive - 1)
        first, above = kth[n - positive - 1], kth[n - positive :]
        above = above[above > first]
        return half_way(first, above.min() if len(above) else None)

    def spread(self, near: float) -> float:
        """Return how far apart the scores around the threshold are, of the rows that count.

        Parameters
        ----------
        near : float
            Share of the rows that count whose log-odds are within 1 of the threshold.

        Returns
        -------
        spread : float
            1 if as many are near as of a logistic law of scale 1, or more; s if there are s times
            fewer. At most ``WIDEST``.

        Examples
        --------
        >>> at_fpr(0.05).spread(0.2)
        1.0
        >>> round(at_fpr(0.05).spread(0.02), 1)
        5.3
        """
        level = math.log(self.target / (1.0 - self.target))
        usual = 0.5 * (math.tanh((level + 1.0) / 2.0) - math.tanh((level - 1.0) / 2.0))
        return max(usual / max(near, usual / WIDEST), 1.0)

    def rows_needed(self) -> int:
        """Return how many rows must count so that one of them is no more than the target."""
        share = 1 - self.target if self.at_least else self.target
        return math.ceil(1 / share - ROUNDING)


def at_fpr(target: float) -> OperatingPoint:
    """Decide where the false positive rate of everyone is at most this.

    Examples
    --------
    >>> at_fpr(0.05)
    at_fpr(0.05)
    """
    return OperatingPoint("fpr", target)


def at_tpr(target: float) -> OperatingPoint:
    """Decide where the true positive rate of everyone is at least this.

    Examples
    --------
    >>> at_tpr(0.8)
    at_tpr(0.8)
    """
    return OperatingPoint("tpr", target)


def at_positive_rate(target: float) -> OperatingPoint:
    """Decide positively about at most this share of everyone: a budget.

    Examples
    --------
    >>> at_positive_rate(0.02)
    at_positive_rate(0.02)
    """
    return OperatingPoint("ppr", target)


def half_way(below: float, last: float | None) -> float:
    """Half way between the first score that is not positive and the last that is."""
    if last is None:  # no row may be positive
        return float(below + HAIR * max(abs(below), 1.0))
    if below == -math.inf:  # every row is
        return float(last - HAIR * max(abs(last), 1.0))
    middle = below / 2 + last / 2  # their difference may be more than the largest number
    return float(middle if below < middle <= last else last)


def doubtful(threshold: float) -> tuple[float, float]:
    """Scores between which rounding may decide, at a threshold in log-odds.

    From about 15 on upwards, and from -87 on downwards, all scores have one probability.

    Examples
    --------
    >>> low, high = doubtful(0.0)
    >>> -1e-6 < low < -2e-7, 2e-7 < high < 1e-6
    (True, True)
    >>> doubtful(20.0)[1], doubtful(-100.0)[0]
    (inf, -inf)
    """
    p, least = float(expit(threshold)), float(np.finfo(np.float32).tiny)
    off = ULPS * float(np.spacing(np.float32(p)))
    off_score = ULPS * float(np.spacing(np.float32(min(abs(threshold), 1e30))))
    low = -math.inf if p < 2 * least else float(logit(p - off))
    high = math.inf if p + off >= 1 else float(logit(max(p + off, 2 * least)))
    return min(low, threshold - off_score), max(high, threshold + off_score)


def beyond(score: float, side: int) -> float:
    """The nearest threshold above (side 1) or below (side -1) a score that is not in doubt.

    Examples
    --------
    >>> doubtful(beyond(0.3, 1))[0] > 0.3 > doubtful(beyond(0.3, -1))[1]
    True
    """
    # As probabilities, all scores beyond these are one.
    edge, start = (17.0, max(score, -88.0)) if side > 0 else (-88.0, min(score, 17.0))
    away = HAIR * max(abs(start), 1.0)
    while side * (threshold := start + side * away) < side * edge:
        low, high = doubtful(threshold)
        if (low > score) if side > 0 else (high < score):
            return threshold
        away *= 2.0
    return max(edge, score + away) if side > 0 else min(edge, score - away)


@lru_cache(maxsize=64)  # every round asks, and the threshold moves in some trainings only
def probability_of(threshold: float) -> float:
    """The probability from which on decisions are positive, given the threshold in log-odds.

    It is a number of single precision: probabilities of XGBoost are, and NumPy rounds a threshold
    to their precision before it compares them.

    Examples
    --------
    >>> probability_of(0.0), probability_of(-100.0), probability_of(20.0) > 1
    (0.5, 0.0, True)
    """
    low, high = doubtful(threshold)
    if high == math.inf:
        return ABOVE_ALL
    return 0.0 if low == -math.inf else float(np.float32(expit(threshold)))


def least_score(probability: float, single: bool) -> float:
    """The least score whose probability is at least this, to the last digit.

    Parameters
    ----------
    probability : float
        In (0, 1).
    single : bool
        As of :func:`fairboost._numbers.probabilities`.

    Examples
    --------
    >>> score = least_score(0.3, single=False)
    >>> bool(expit(score) >= 0.3 > expit(np.nextafter(score, -1)))
    True
    """
    kind = np.float32 if single else np.float64
    low, high = kind(-800), kind(800)
    if probabilities(np.array([low]), single)[0] >= probability:
        return -math.inf
    while low < (middle := low / 2 + high / 2) < high:
        reached = probabilities(np.array([middle]), single)[0] >= probability
        low, high = (low, middle) if reached else (middle, high)
    return float(high)
