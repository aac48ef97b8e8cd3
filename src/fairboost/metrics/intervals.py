"""How sure we are of a rate or a mean, of a gap between groups and of their ratio.

One rate is a proportion, so it has closed forms (k events in n rows, z the normal quantile)::

    Wilson            (k + z²/2 ± z sqrt(k (n - k) / n + z²/4)) / (n + z²)
    Clopper-Pearson   Beta(k, n - k + 1) and Beta(k + 1, n - k) quantiles

Weighted rows carry less information than their number says. Then n is Kish's effective sample size
(Σw)² / Σw² and k the rate times n; neither need be whole, and both forms allow that. A mean of
other numbers than 0 and 1 has Student's interval.

A gap or a ratio between groups has no such form, so it is bootstrapped. Percentiles of gaps in
resampled rows will not do: noise widens a gap and resampling adds noise, so they lie too high and
never reach 0. The errors e_g of the groups are bootstrapped instead, and give every pair an
interval, all of them together at the confidence asked for (Tukey's way, with s the deviation of an
error)::

    |r_g - r_h| -+ q sqrt(s_g² + s_h²)      q a quantile of max |e_g - e_h| / sqrt(s_g² + s_h²)

The gap is at least the largest low end and at most the largest high end. A pair that is certainly
apart stays so whoever is compared beside it: a tiny group has a large s, and widens its own pairs
alone. For the ratio, rates become logarithms, with half an event added since 0 has none. A group
without events has none in resampled rows either, and so no errors; therefore the half event also
goes into the rows that are resampled (:func:`smooth_decisions`).

Rates depend on rows only through how many fall in each category (label x group x decision).
Resampling n rows with replacement therefore draws the counts of the categories from one
multinomial law, at a cost that does not grow with n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special

from fairboost._text import interval
from fairboost._typing import ArrayLike, FloatArray
from fairboost.exceptions import InvalidInputError


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


MOST_IN_PAIRS = 40
"""Groups of which every pair is looked at in every sample."""

INTERVALS: dict[str, Callable[[ArrayLike, ArrayLike, float], tuple[FloatArray, FloatArray]]] = {
    "wilson": wilson,
    "exact": clopper_pearson,
}


def bootstrap_weights(sums: FloatArray, n_bootstrap: int, rng: np.random.Generator) -> FloatArray:
    """Weight of each category in samples of rows drawn with replacement.

    The number of rows N_c drawn from category c is multinomial. Their weight is then a sum of N_c
    draws from the weights of the category, taken as normal: ``N_c mean_c + sqrt(N_c var_c) z``,
    not below 0. This is exact when the weights are equal within a category, so without weights
    above all, and otherwise close unless N_c is tiny.

    Parameters
    ----------
    sums : (3, n_categories) float64
        Rows of each category, the sum of their weights and the sum of the squares of these. Rows
        of a category may be a fraction, those of all together a whole number.
    n_bootstrap : int
        Samples to draw.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    (n_bootstrap, n_categories) float64

    Examples
    --------
    >>> rows = np.array([30.0, 0.0, 70.0])
    >>> sums = np.array([rows, 2 * rows, 4 * rows])
    >>> draws = bootstrap_weights(sums, 3, np.random.default_rng(0))
    >>> draws.sum(axis=1).tolist(), draws[:, 1].tolist()
    ([200.0, 200.0, 200.0], [0.0, 0.0, 0.0])
    """
    draws = np.zeros((n_bootstrap, sums.shape[1]))
    # Only categories with rows: the last one takes what rounding of the probabilities leaves over.
    present = np.flatnonzero(sums[0])
    rows, weight, square = sums[:, present]
    counts = rng.multinomial(round(rows.sum()), rows / rows.sum(), size=n_bootstrap)
    mean = weight / rows
    var = square / rows - mean**2
    var[var < 1e-12 * mean**2] = 0.0  # a difference of near-equal numbers: rounding, not spread
    drawn = counts * mean
    if var.any():
        drawn += np.sqrt(counts * var) * rng.standard_normal(counts.shape)
    draws[:, present] = np.maximum(drawn, 0.0)
    return draws


def smooth_decisions(sums: FloatArray) -> FloatArray:
    """Half a row more on either side of the decision in every cell, and as many rows as before.

    As if the decision of a row in a cell of n had been tossed with probability 1 / (n + 1): k
    positive decisions become ``n (k + 1/2) / (n + 1)``. The row added is the mean row of its cell,
    so its weight is their mean weight.

    Parameters
    ----------
    sums : (m, 2, n_cells) float64
        Rows, and any other sums over them, by decision and cell.

    Returns
    -------
    (m, 2, n_cells) float64

    Examples
    --------
    >>> rows = np.array([[[9.0, 5.0, 0.0], [0.0, 4.0, 0.0]]])
    >>> smooth_decisions(rows).round(2).tolist()
    [[[8.55, 4.95, 0.0], [0.45, 4.05, 0.0]]]
    """
    total = sums.sum(axis=1, keepdims=True)
    rows = total[0]
    smoothed: FloatArray = (sums * rows + total / 2) / (rows + 1)
    return smoothed


def gap_interval(
    rates: FloatArray, errors: FloatArray, confidence: float, most: float = 1.0
) -> tuple[float, float]:
    """Interval of a gap, which is in it, and 0 with it when groups may well be equal.

    Parameters
    ----------
    rates : (n_groups,) float64
        Rates; NaN for a group that cannot be compared.
    errors : (n_bootstrap, n_groups) float64
        Rates in samples less those they were drawn with; NaN for a group that a sample is without.
    confidence : float
        Coverage aimed at, between 0 and 1.
    most : float
        What no gap is above: 1 of rates, nothing of means.

    Returns
    -------
    low, high : float
        Within 0 and ``most``; NaN if no sample has two groups.

    Examples
    --------
    >>> errors = 0.01 * np.random.default_rng(0).standard_normal((2_000, 3))
    >>> tiny = errors * [1, 1, 20]
    >>> [round(end, 2) for end in gap_interval(np.array([0.2, 0.4, 0.5]), tiny, 0.95)]
    [0.17, 0.75]
    """
    low, high = _widest_difference(rates, errors, confidence)
    return float(np.maximum(low, 0.0)), float(np.minimum(high, most))


def gap_at_most(rates: FloatArray, errors: FloatArray, confidence: float) -> float:
    """What a gap is at most, where nothing is asked about the least that it is.

    The quantile of the gap of ``rates + errors``. Between two groups it lies 1.64 standard errors
    above a large gap and 1.96 above none (at 95%), since a gap of none may have either sign.

    Parameters
    ----------
    rates, errors, confidence
        As for :func:`gap_interval`, without NaN.

    Examples
    --------
    >>> errors = 0.01 * np.random.default_rng(0).standard_normal((2_000, 2))
    >>> round(gap_at_most(np.array([0.2, 0.2]), errors, 0.95), 3)
    0.029
    >>> round(gap_at_most(np.array([0.2, 0.3]), errors, 0.95), 3)
    0.125
    """
    return float(np.quantile(np.ptp(rates + errors, axis=1), confidence))


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


def ratio_interval(
    ratio: float, logarithms: FloatArray, errors: FloatArray, confidence: float
) -> tuple[float, float]:
    """Interval of a ratio: as of a gap, between logarithms of smoothed rates.

    Parameters
    ----------
    ratio : float
        Smallest over largest rate.
    logarithms : (n_groups,) float64
        Of the smoothed rates; the interval is about these, and extended to ``ratio``.
    errors : (n_bootstrap, n_groups) float64
        As for :func:`gap_interval`, of the logarithms.
    confidence : float
        Coverage aimed at, between 0 and 1.

    Returns
    -------
    low, high : float
        Within 0 and 1; NaN if no sample has two groups.

    Examples
    --------
    >>> errors = 0.1 * np.random.default_rng(0).standard_normal((2_000, 2))
    >>> low, high = ratio_interval(0.5, np.log([0.2, 0.4]), errors, 0.95)
    >>> round(low, 2), round(high, 2)
    (0.38, 0.67)
    """
    least, most = _widest_difference(logarithms, errors, confidence)
    low, high = np.exp(-most), np.exp(-np.maximum(least, 0.0))
    return float(np.minimum(ratio, low)), float(np.maximum(ratio, high))


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


def _widest_difference(
    values: FloatArray, errors: FloatArray, confidence: float
) -> tuple[float, float]:
    """What the largest difference between two values is at least and at most."""
    known = ~np.isnan(values) & (~np.isnan(errors)).any(axis=0)
    values, errors = values[known], errors[:, known]
    errors = errors[(~np.isnan(errors)).sum(axis=1) >= 2]
    if len(values) < 2 or not len(errors):
        return np.nan, np.nan
    spread = np.maximum(np.nanstd(errors, axis=0), np.finfo(float).tiny)
    q = float(np.quantile(_largest_of_pairs(errors, spread), confidence))
    least, most = -np.inf, -np.inf
    for g in range(1, len(values)):  # pairs of thousands would not fit in memory
        apart = np.abs(values[:g] - values[g])
        reach = q * np.hypot(spread[:g], spread[g])
        least, most = max(least, (apart - reach).max()), max(most, (apart + reach).max())
    return float(least), float(most)


def _largest_of_pairs(errors: FloatArray, spread: FloatArray) -> FloatArray:
    """Largest difference between two errors in units of its deviation, sample by sample."""
    if len(spread) <= MOST_IN_PAIRS:
        by_group, largest = np.ascontiguousarray(errors.T), np.full(len(errors), np.nan)
        for g in range(1, len(spread)):  # all pairs at once would be read from memory thrice
            apart = by_group[:g] - by_group[g]
            np.abs(apart, out=apart)
            apart /= np.hypot(spread[:g], spread[g])[:, np.newaxis]
            np.fmax(largest, np.fmax.reduce(apart, axis=0), out=largest)
        return largest
    # a s_g + b s_h <= sqrt(a² + b²) sqrt(s_g² + s_h²), and among many groups hardly less.
    scaled = errors / spread
    bounded: FloatArray = np.hypot(np.nanmax(scaled, axis=1), np.nanmin(scaled, axis=1))
    return bounded
