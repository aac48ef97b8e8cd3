"""Paired comparisons at an equal gap, for ``benchmarks.frontier``.

The gap of two groups on test rows is a difference without its sign, so chance alone makes a gap,
and the smaller the true gap, the larger the share of chance in it. The square has no such defect:
less the variance of the rates it is an unbiased estimate of the squared true gap
(:func:`squared_gaps`). A method's gap is the root of the mean of these over seeds.

Accuracies and squared gaps are averaged over seeds first, and the accuracy at a gap is
interpolated between tolerances afterwards. Interpolated by seed, a tolerance would be picked by
the noise of its gap. A mixture of two tolerances, drawn at random for each person, has the
interpolated accuracy and a gap no larger, so what is interpolated can be reached.

All methods of a seed share training and test rows, whose luck cancels in differences. Intervals
are of the jackknife over seeds, with the variance of Nadeau and Bengio (2003) for test rows that
seeds have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.stats import t as student

OURS, CROSS, PLAIN = "fairboost", "cross", "plain"
LEVEL = 0.95
DEFAULT = 0.01
"""The tolerance of a default fit."""

FEWEST = 3
"""Seeds of a comparison, at least."""


class Key(NamedTuple):
    """What a fit is of."""

    data: str
    features: str
    constraint: str
    method: str
    tolerance: float
    seed: int


Results: TypeAlias = dict[Key, dict]
Case: TypeAlias = tuple[str, str, str]


def squared_gaps(record: dict) -> list[float]:
    """Unbiased estimates of the squared true gap, one for each rate; chance may make one negative.

    The gap of two groups is the difference of their rates. That of K groups is twice the root mean
    square distance of their rates from the mean of the rates, which is the same for two.
    """
    out = []
    for groups in record["rates"].values():
        value, n = np.array([group for group in groups if group[1] > 1], dtype=float).T
        noise = value * (1 - value) / (n - 1)
        spread = ((value - value.mean()) ** 2).mean() - (1 - 1 / len(n)) * noise.mean()
        out.append(float(4 * spread))
    return out


class Fits(NamedTuple):
    """A method in a case: arrays of tolerances and seeds, squared gaps also of rates."""

    tolerances: list[float]
    accuracy: np.ndarray
    squared: np.ndarray
    seconds: np.ndarray

    def take(self, seeds: np.ndarray) -> Fits:
        """Those of some seeds."""
        parts = (each[:, seeds] for each in (self.accuracy, self.squared, self.seconds))
        return Fits(self.tolerances, *parts)

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Gap and accuracy at each tolerance, over all seeds; of several rates the larger gap."""
        squared = self.squared.mean(axis=1).max(axis=1)
        return np.sqrt(np.maximum(squared, 0.0)), self.accuracy.mean(axis=1)


def fits(results: Results, case: Case, methods: list[str]) -> dict[str, Fits]:
    """Methods of a case, on the seeds that all of them have at every tolerance."""
    found: dict[str, dict[float, dict[int, dict]]] = {method: {} for method in methods}
    for key, record in results.items():
        if key[:3] == case and key.method in found:
            found[key.method].setdefault(key.tolerance, {})[key.seed] = record
    found = {method: dict(sorted(by.items())) for method, by in found.items() if by}
    each = [set(by_seed) for by in found.values() for by_seed in by.values()]
    seeds = sorted(set.intersection(*each)) if each else []
    return {
        method: Fits(
            list(by),
            *(
                np.array([[get(by_seed[seed]) for seed in seeds] for by_seed in by.values()])
                for get in (lambda r: r["accuracy"], squared_gaps, lambda r: r["seconds"])
            ),
        )
        for method, by in found.items()
    }


def joined(first: Fits, second: Fits) -> Fits:
    """The tolerances of both."""
    return Fits(
        [*first.tolerances, *second.tolerances],
        *(np.concatenate([a, b]) for a, b in zip(first[1:], second[1:], strict=True)),
    )


def accuracy_at(
    gap: np.ndarray, gaps: np.ndarray, accuracies: np.ndarray, *, search: bool = False
) -> np.ndarray:
    """Accuracy at some gaps, between points of a curve; equal gaps count with their mean.

    With ``search`` a point of a smaller gap stands in for one that is less accurate.
    """
    at, which = np.unique(gaps, return_inverse=True)
    mean = np.bincount(which, accuracies) / np.bincount(which)
    return np.interp(gap, at, np.maximum.accumulate(mean) if search else mean)


class Lead(NamedTuple):
    """An estimate, with one pseudo-value of the jackknife for every seed."""

    mean: float
    pseudo: np.ndarray
    overlap: float

    @property
    def half(self) -> float:
        """Half the width of the interval; infinite with one seed."""
        return half_width(variance(self.pseudo, self.overlap), len(self.pseudo))

    @property
    def verdict(self) -> str:
        """Ahead or behind where the interval is on one side of zero, even otherwise."""
        return "ahead" if self.mean > self.half else "behind" if -self.mean > self.half else "even"


def variance(values: np.ndarray, overlap: float) -> float:
    """Variance of a mean over seeds whose test rows overlap (Nadeau and Bengio, 2003).

    Parameters
    ----------
    values : (n,) float64
        One for each seed.
    overlap : float
        Share of the test rows of a seed that another has too; 0 for rows that are drawn anew.
        Values of two seeds are taken to be correlated by it.
    """
    if len(values) < 2:
        return float("inf")
    return float(values.var(ddof=1) * (1 / len(values) + overlap / (1 - overlap)))


def half_width(variance: float, n: float) -> float:
    """Half the width of the t interval, with one degree of freedom less than n."""
    return float(student.ppf((1 + LEVEL) / 2, max(n - 1, 1)) * np.sqrt(variance))


def pseudo_values(statistic: Callable[[np.ndarray], np.ndarray], n: int) -> np.ndarray:
    """Pseudo-values of the jackknife, statistics by seeds; a mean's are its values."""
    everyone = np.arange(n)
    if n < 2:
        return statistic(everyone)[:, None]
    left = [statistic(np.delete(everyone, k)) for k in range(n)]
    return (n * statistic(everyone)[:, None]) - (n - 1) * np.array(left).T


class Comparison(NamedTuple):
    """A curve against the points of another, at the gaps of the points."""

    gaps: np.ndarray
    all_leads: list[Lead]  # over the end of the curve where it has no gap so small
    leads: list[Lead | None]  # None there
    mean: Lead | None  # over the others


def compare(curve: Fits, points: Fits, overlap: float, *, search: bool = False) -> Comparison:
    """Accuracy of the curve at the gaps of the points, less that of the points.

    Parameters
    ----------
    curve, points : Fits
        Of the same seeds.
    overlap : float
        As for :func:`variance`.
    search : bool, default=False
        As for :func:`accuracy_at`.
    """

    def statistic(seeds: np.ndarray) -> np.ndarray:
        gap, accuracy = points.take(seeds).points()
        return accuracy_at(gap, *curve.take(seeds).points(), search=search) - accuracy

    n = points.accuracy.shape[1]
    pseudo, full = pseudo_values(statistic, n), statistic(np.arange(n))
    gaps = points.points()[0]
    reached = gaps >= curve.points()[0].min()
    every = [Lead(float(mean), values, overlap) for mean, values in zip(full, pseudo, strict=True)]
    leads = [lead if ok else None for lead, ok in zip(every, reached, strict=True)]
    mean = None
    if reached.any():
        mean = Lead(float(full[reached].mean()), pseudo[reached].mean(axis=0), overlap)
    return Comparison(gaps, every, leads, mean)


def overall(leads: dict[Case, Lead], *, weighted: bool = False) -> tuple[float, float]:
    """The mean over cases, and half the width of its interval.

    Cases of one data set share their splits: their errors are taken to be one and the same. Those
    of different data sets are independent.

    Parameters
    ----------
    leads : dict
        By case.
    weighted : bool, default=False
        Whether cases whose variance is above the median weigh less, by one over the variance.
        All others weigh the same: with few seeds a variance may be small by chance.
    """
    each = np.array([variance(lead.pseudo, lead.overlap) for lead in leads.values()])
    weight = 1 / np.maximum(each, np.median(each)) if weighted else np.ones(len(each))
    weight /= weight.sum()
    errors: dict[str, float] = {}
    freedom: dict[str, int] = {}
    for (case, lead), part in zip(leads.items(), weight * np.sqrt(each), strict=True):
        rows = case[0].removesuffix("_race")  # other groups of the same rows
        errors[rows] = errors.get(rows, 0.0) + float(part)
        freedom[rows] = min(freedom.get(rows, len(lead.pseudo)), len(lead.pseudo) - 1)
    total = sum(error**2 for error in errors.values())
    # Degrees of freedom by Satterthwaite.
    degrees = total**2 / sum(error**4 / freedom[rows] for rows, error in errors.items())
    return float(weight @ [lead.mean for lead in leads.values()]), half_width(total, degrees + 1)


def default_lead(
    results: Results, case: Case, peer: str, overlap: float
) -> tuple[Lead, bool] | None:
    """A default fit less the best that a search of the peer finds at its gap, and if it has one.

    The search sees the figures of the test rows: it picks the right tolerances, or a mixture of
    two. Where the peer has no gap so small, the best is that of its smallest gap.
    """
    found = fits(results, case, [PLAIN, OURS, peer])
    if len(found) < 3 or found[peer].accuracy.shape[1] < FEWEST:
        return None
    at = found[OURS].tolerances.index(DEFAULT)
    point = Fits([DEFAULT], *(each[at : at + 1] for each in found[OURS][1:]))
    compared = compare(joined(found[peer], found[PLAIN]), point, overlap, search=True)
    lead = compared.all_leads[0]
    return Lead(-lead.mean, -lead.pseudo, overlap), compared.leads[0] is not None
