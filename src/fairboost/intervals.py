"""From sums over cells to rates and gaps with intervals.

One rate is a proportion, so it has closed forms (k events in n rows, z the normal quantile)::

    Wilson            (k + z²/2 ± z sqrt(k (n - k) / n + z²/4)) / (n + z²)
    Clopper-Pearson   Beta(k, n - k + 1) and Beta(k + 1, n - k) quantiles

Weighted rows carry less information than their number says. Then n is Kish's effective sample size
(Σw)² / Σw² and k the rate times n; neither need be whole, and both forms allow that.

A gap or a ratio between groups has no such form, so it is bootstrapped. Rates depend on rows only
through how many fall in each category (label x group x decision). Resampling n rows with
replacement therefore draws the counts of the categories from one multinomial law, at a cost that
does not grow with n.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from fairboost._typing import ArrayLike, BoolArray, FloatArray, IntArray
from fairboost.cells import Cells
from fairboost.exceptions import FairnessWarning, InvalidInputError
from fairboost.rates import Rate, group_sums

__all__ = [
    "INTERVALS",
    "Comparison",
    "Estimate",
    "bootstrap_weights",
    "check_confidence",
    "clopper_pearson",
    "compare",
    "gap_table",
    "rate_table",
    "tally",
    "wilson",
]


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
        Rows of each category, the sum of their weights and the sum of the squares of these.
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
    counts = rng.multinomial(int(rows.sum()), rows / rows.sum(), size=n_bootstrap)
    mean = weight / rows
    var = square / rows - mean**2
    var[var < 1e-12 * mean**2] = 0.0  # a difference of near-equal numbers: rounding, not spread
    drawn = counts * mean
    if var.any():
        drawn += np.sqrt(counts * var) * rng.standard_normal(counts.shape)
    draws[:, present] = np.maximum(drawn, 0.0)
    return draws


@dataclass(frozen=True)
class Estimate:
    """A figure and its interval.

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
    >>> print(Estimate(0.25, 0.2, 0.3, confidence=0.95))
    0.250 [0.200, 0.300]
    """

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "undefined"
        interval = "" if np.isnan(self.low) else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.value:.3f}{interval}"


@dataclass(frozen=True)
class Comparison:
    """Groups to compare, and sums over their rows.

    Parameters
    ----------
    attribute : str
        The sensitive column, or the columns crossed; empty for everyone.
    names : tuple of str
        The groups.
    labels, groups : (n_cells,) int32
        Label and group of each cell, as :func:`fairboost.rates.group_sums` takes them.
    sums : (3, 2, n_cells) float64
        Rows, weight and squared weight, by decision (negative, positive) and cell.
    """

    attribute: str
    names: tuple[str, ...]
    labels: IntArray
    groups: IntArray
    sums: FloatArray

    def rate_table(self, rate: Rate, confidence: float, interval: str) -> pd.DataFrame:
        """One line per group: the rate, its interval and what it is made of."""
        events, (rows, counted, square) = self._group_sums(rate, self.sums)
        value = _quotient(events[1], counted)
        effective = np.nan_to_num(_quotient(counted**2, square))
        low, high = INTERVALS[interval](np.nan_to_num(value) * effective, effective, confidence)
        return pd.DataFrame(
            {
                "attribute": self.attribute,
                "group": list(self.names),
                "rate": rate.name,
                "value": value,
                "low": low,
                "high": high,
                "events": events[1],
                "counted": counted,
                "rows": rows.astype(np.int64),
            }
        )

    def gap_table(
        self, rates: Sequence[Rate], confidence: float, n_bootstrap: int, rng: np.random.Generator
    ) -> pd.DataFrame:
        """One line per rate: gap and ratio with percentile intervals, lowest and highest group."""
        draws = bootstrap_weights(self.sums.reshape(3, -1), n_bootstrap, rng)
        draws = draws.reshape(n_bootstrap, *self.sums.shape[1:])
        lines = []
        for rate in rates:
            value = _quotient(*self._group_sums(rate, self.sums[1:2]))
            found = _gap_and_ratio(value)
            replicates = _gap_and_ratio(_quotient(*self._group_sums(rate, draws)))
            line: dict[str, str | float] = {"attribute": self.attribute, "rate": rate.name}
            for k, name in enumerate(("gap", "ratio")):
                line[name] = float(found[k][0])
                line[f"{name}_low"], line[f"{name}_high"] = _percentile(replicates[k], confidence)
            several = not np.isnan(found[0][0])
            line["lowest_group"] = self.names[np.nanargmin(value)] if several else ""
            line["highest_group"] = self.names[np.nanargmax(value)] if several else ""
            lines.append(line)
        return pd.DataFrame(lines)

    def empty_groups(self, rate: Rate) -> list[str]:
        """Name the groups none of whose rows count towards a rate."""
        _, counted = self._group_sums(rate, self.sums[1:2])
        return [self.names[g] for g in np.flatnonzero(counted[0] == 0)]

    def _group_sums(self, rate: Rate, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Events and weight that counts, (b, n_groups), for b sets of (2, n_cells) weights."""
        # One call for all sets: the groups of set i are numbered from i * n_groups.
        b, n_groups = len(weight), len(self.names)
        first = np.arange(b)[:, np.newaxis] * n_groups
        events, counted = group_sums(
            rate,
            np.tile(self.labels, b),
            np.where(self.groups >= 0, self.groups + first, -1).ravel().astype(np.int32),
            b * n_groups,
            weight.sum(axis=1).ravel(),
            weight[:, 1].ravel(),
        )
        return events.reshape(b, n_groups), counted.reshape(b, n_groups)


def tally(cells: Cells, positive: BoolArray, sample_weight: FloatArray | None) -> FloatArray:
    """Rows, weight and squared weight, by decision (negative, positive) and cell: (3, 2, n_cells).

    A row of weight 0 is not counted among the rows: it is left out.
    """
    category = cells.codes.astype(np.intp)  # bincount would convert at each call
    category += len(cells) * positive
    n = 2 * len(cells)
    if sample_weight is None:
        sums = [np.bincount(category, minlength=n)] * 3
    else:
        powers = (sample_weight > 0, sample_weight, sample_weight**2)
        sums = [np.bincount(category, power, n) for power in powers]
    return np.array(sums, np.float64).reshape(3, 2, len(cells))


def compare(cells: Cells, sums: FloatArray, columns: tuple[str, ...]) -> Comparison:
    """Merge cells until only the label and the groups made by some columns tell them apart.

    The bootstrap then draws as few categories as there can be, and what it says of these columns
    does not depend on which others were given.
    """
    groups = cells.groups_by(columns)
    width = len(groups) + 1  # group -1, missing, becomes 0
    merged = np.zeros((3, 2, 2 * width))
    for cell, target in enumerate(cells.labels * width + groups.of_cell + 1):
        merged[..., target] += sums[..., cell]
    names = [", ".join(map(str, values)) for values in groups.names]
    if len(set(names)) < len(names):  # 1 and "1"
        names = [", ".join(map(repr, values)) for values in groups.names]
    return Comparison(
        attribute=", ".join(columns),
        names=tuple(names) if columns else ("everyone",),
        labels=np.repeat(np.arange(2, dtype=np.int32), width),
        groups=np.tile(np.arange(-1, width - 1, dtype=np.int32), 2),
        sums=merged,
    )


def rate_table(
    compared: Sequence[Comparison], rates: Sequence[Rate], confidence: float, interval: str
) -> pd.DataFrame:
    """Every rate of every group of every comparison."""
    if interval not in INTERVALS:
        known = ", ".join(INTERVALS)
        raise InvalidInputError(f"unknown interval {interval!r}; expected one of {known}")
    tables = [c.rate_table(rate, confidence, interval) for c in compared for rate in rates]
    return pd.concat(tables, ignore_index=True)


def gap_table(
    compared: Sequence[Comparison],
    rates: Sequence[Rate],
    confidence: float,
    n_bootstrap: int,
    random_state: int | np.random.Generator | None,
) -> pd.DataFrame:
    """Gap and ratio of every rate in every comparison; warns of groups that cannot take part."""
    check_confidence(confidence)
    if n_bootstrap < 0:
        raise InvalidInputError(f"n_bootstrap must be at least 0 (none), found {n_bootstrap!r}")
    empty = [(c, rate, name) for c in compared for rate in rates for name in c.empty_groups(rate)]
    if empty:
        listed = "; ".join(f"{c.attribute} = {name} ({rate.name})" for c, rate, name in empty)
        text = f"gap and ratio leave out groups none of whose rows count: {listed}"
        warnings.warn(text, FairnessWarning, stacklevel=3)
    # Each attribute starts from the seed, so that its figures do not depend on the others given.
    tables = [
        c.gap_table(rates, confidence, n_bootstrap, np.random.default_rng(random_state))
        for c in compared
    ]
    return pd.concat(tables, ignore_index=True)


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


def _percentile(replicates: FloatArray, confidence: float) -> tuple[float, float]:
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return np.nan, np.nan
    low, high = np.quantile(known, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return float(low), float(high)


def _quotient(part: FloatArray, whole: FloatArray) -> FloatArray:
    """``part / whole``; NaN where there is nothing to divide by."""
    result = np.full(whole.shape, np.nan)
    np.divide(part, whole, out=result, where=whole > 0)
    return result


def _gap_and_ratio(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Of each line of (b, n_groups) rates; NaN without two known rates, ratio 1 if all are 0."""
    known = ~np.isnan(values)
    high = np.max(values, axis=1, where=known, initial=0.0)
    low = np.min(values, axis=1, where=known, initial=1.0)
    enough = known.sum(axis=1) >= 2
    ratio = np.divide(low, high, out=np.ones_like(low), where=high > 0)
    return np.where(enough, high - low, np.nan), np.where(enough, ratio, np.nan)
