"""How far moments are off by chance: the law of a share, and that of a mean.

A verdict asks a law four things: the variance of a single row's quantity, an interval of each
moment, draws of the errors of groups, and the standard error of a function of moments. With R the
moment of n rows that tell, s² the variance of a single row and k the rows that count::

                     share                                  mean
    variance         p (1 - p), p = (n R + 2) / (n + 4)     s²
    interval         Wilson's                               R -+ t sqrt(s² / n)
    errors           Binomial(n, p) / n - p                 t sqrt(s² / n)

with t Student's of k - 1 degrees of freedom. Errors of groups are independent, unless rows belong
to several groups by weights, as to neighbouring windows of a number. The errors are then mixed
(:func:`mixed`) so that two of them have the correlation that the shared rows give them
(:meth:`fairboost.data.cells.Cells.correlations`), and each its own variance. The two events in
four rows are about what Wilson's interval adds: where no event was seen there may be some all the
same.

Student's t is exact where rows are normal. Where they are skewed, a sample without large values
has too small a mean, and too small a variance with it: the interval is too short until rows are
many. The difference of two groups of about the same size is hardly skewed. Shares of samples in
which an end at 95% holds (the worse of the two; groups alike, or a standard deviation or more
apart)::

                          normal    exponential    Poisson(0.05)
    gap of two groups
      30 rows each        .95       .94            .98
      100 rows each       .95       .95            .95
      1,000 rows each     .95       .95            .95
      30 and 1,000 rows   .95       .91            .99
      100 and 1,000 rows  .95       .93            .90
    mean of one group
      30 rows             .95       .90            .87
      100 rows            .94       .92            .88
      1,000 rows          .95       .94            .94

(2,500 samples each; ``tests/metrics/test_sampling.py`` has the same with fewer.) Below 30 rows,
and of rare counts below some 50 events, intervals of means are too short. Below 100 rows, rows of
everyone's variance are added to those of a group (:func:`law_of`): without them the gap of mean
Poisson deviances of five equal groups of 20 rows was above 0 in a third of samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from fairboost._typing import BoolArray, FloatArray
from fairboost.fairness.base import GroupConstraint
from fairboost.fairness.moments import GroupMoments
from fairboost.metrics.intervals import (
    EVERY_GROUP,
    Parts,
    ends_of_differences,
    gap_interval,
    skewed,
    student,
    wilson,
)

LEAST = 1e-200
"""Variances are at least so large, so that one can divide by them."""

ALIKE_ROWS = 1e-12
"""A variance that is less than this share of everyone's is that of rows which are all alike."""

BESIDE, ENOUGH = 4.0, 100.0
"""Rows of everyone's variance that are added to few rows of a group, and how many are enough to go
without. Few rows of skewed numbers often have too small a deviation, and a small mean with it."""

DRAWS = 2_000
"""Draws of the errors of groups."""

Index: TypeAlias = int | tuple[int, int | slice | NDArray[np.intp]] | NDArray[np.intp]


class SamplingLaw(Protocol):
    """How far the moments of a term are off by chance."""

    @property
    def range(self) -> tuple[float, float]:
        """What no moment can be beyond."""

    def at(self, which: Index) -> SamplingLaw:
        """The law of some of the moments: those of a first index, and so on."""

    def variances(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        """Variance of a single row's quantity, given moments and the rows that tell."""

    def pooled_variance(self, values: FloatArray, rows: FloatArray) -> float:
        """The same of rows of all groups, were the groups alike."""

    def interval(
        self, values: FloatArray, rows: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Interval of each moment, both of whose ends hold at the level at once."""

    def ends(
        self, values: FloatArray, rows: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """The same, from which intervals of differences and ratios are made."""

    @property
    def shared(self) -> FloatArray | None:
        """Correlations of groups that share rows."""

    def draw(
        self, values: FloatArray, rows: FloatArray, count: int, rng: np.random.Generator
    ) -> FloatArray:
        """Errors of the moments of groups, (count, n_groups), in samples like the one seen."""

    def errors(self, slopes: FloatArray, values: FloatArray, rows: FloatArray) -> FloatArray:
        """Standard errors of functions of all moments, by the delta method.

        Parameters
        ----------
        slopes : (n, n_moments, n_groups) float64
            Their derivatives.
        values, rows : (n_moments, n_groups) float64
            The moments, and the rows that tell.
        """


def mixed(errors: FloatArray, correlations: FloatArray) -> FloatArray:
    """Errors that were drawn independently, with correlations.

    Parameters
    ----------
    errors : (n_draws, n_groups) float64
        Of mean 0; NaN in groups of which nothing is known.
    correlations : (n_groups, n_groups) float64
        The correlations.

    Examples
    --------
    >>> drawn = np.random.default_rng(0).normal(size=(10_000, 2)) * [1.0, 3.0]
    >>> found = mixed(drawn, np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> np.corrcoef(found.T)[0, 1].round(1), found.std(axis=0).round(1).tolist()
    (np.float64(0.5), [1.0, 3.0])
    """
    known = ~np.isnan(errors).any(axis=0)
    deviations = np.where(known, np.nan_to_num(errors).std(axis=0), 0.0)
    known &= deviations > 0
    values, vectors = np.linalg.eigh(correlations[np.ix_(known, known)])
    # The symmetric root changes each error as little as can be.
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    out = errors.copy()
    out[:, known] = errors[:, known] / deviations[known] @ root * deviations[known]
    return out


@dataclass(frozen=True)
class ShareLaw:
    """Moments that are shares of rows: their variance follows from themselves.

    Parameters
    ----------
    correlations : (n_moments, n_groups, n_groups) or (n_groups, n_groups) float64, optional
        Of groups that share rows; None where they share none.
    """

    correlations: FloatArray | None = None

    range = (0.0, 1.0)

    def at(self, which: Index) -> ShareLaw:
        """The law of some of the moments."""
        if (found := self.correlations) is None:
            return self
        first, groups = which if isinstance(which, tuple) else (which, None)
        if found.ndim == 2:
            return ShareLaw(found[np.ix_(which, which)])  # type: ignore[arg-type]
        found = found[first]
        if groups is None:
            return ShareLaw(found)
        return ShareLaw() if isinstance(groups, int) else ShareLaw(found[groups][:, groups])

    def variances(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        """With two events in four rows more."""
        p = (values * rows + 2.0) / (rows + 4.0)
        return p * (1.0 - p)

    def pooled_variance(self, values: FloatArray, rows: FloatArray) -> float:
        """Of the share of all rows."""
        p = float((values @ rows + 2.0) / (rows.sum() + 4.0))
        return p * (1.0 - p)

    def interval(
        self, values: FloatArray, rows: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Wilson's."""
        return wilson(values * rows, rows, level)

    def ends(
        self, values: FloatArray, rows: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Wilson's, or Jeffreys'."""
        return ends_of_differences(values * rows, rows, level)

    @property
    def shared(self) -> FloatArray | None:
        """Correlations of groups that share rows."""
        return self.correlations

    def draw(
        self, values: FloatArray, rows: FloatArray, count: int, rng: np.random.Generator
    ) -> FloatArray:
        """Binomial; rows that are no whole number have the deviation of their number."""
        p = (rows * values + 2) / (rows + 4)
        whole = np.maximum(np.rint(rows), 1).astype(np.int64)
        # Group by group: NumPy sets up its draws anew whenever the parameters change.
        groups = zip(whole, p, strict=True)
        drawn = np.stack([rng.binomial(*group, count) for group in groups], axis=1)
        errors: FloatArray = (drawn / whole - p) * np.sqrt(whole / rows)
        return errors if self.correlations is None else mixed(errors, self.correlations)

    def errors(self, slopes: FloatArray, values: FloatArray, rows: FloatArray) -> FloatArray:
        """As in training: a share of 0 or 1 has an error as if half a row had differed."""
        least = 0.5 / (rows + 1.0)
        p = np.clip(values, least, 1.0 - least)
        variances = p * (1.0 - p) / rows
        if self.correlations is None:
            flat = slopes.reshape(len(slopes), -1)
            out: FloatArray = np.sqrt(flat**2 @ variances.ravel())
            return out
        scaled = slopes * np.sqrt(variances)
        both = np.einsum("kmg,mgh,kmh->k", scaled, self.correlations, scaled)
        out = np.sqrt(np.maximum(both, 0.0))  # sums round
        return out


@dataclass(frozen=True)
class MeanLaw:
    """Moments that are means of numbers.

    Parameters
    ----------
    single : (n_moments, n_groups) float64
        Variance of a single row's quantity.
    counted : (n_moments, n_groups) float64
        Rows that count, from which the variance is known.
    covariances : (n_moments, n_moments, n_groups) float64, optional
        Of the quantities of a single row. Without them quantities of a row are taken for
        independent. Errors of a ratio of two that go together are then too large.
    amounts : (n_moments, n_groups) bool, optional
        Where no quantity is below 0, so that intervals can allow for skew
        (:func:`fairboost.metrics.intervals.skewed`); nowhere if left out.
    """

    single: FloatArray
    counted: FloatArray
    covariances: FloatArray | None = None
    amounts: BoolArray | None = None

    range = (-np.inf, np.inf)

    def at(self, which: Index) -> MeanLaw:
        """The law of some of the moments."""
        single, counted = (np.asarray(x[which]) for x in (self.single, self.counted))
        amounts = None if self.amounts is None else np.asarray(self.amounts[which])
        return MeanLaw(single, counted, amounts=amounts)

    def variances(self, values: FloatArray, rows: FloatArray) -> FloatArray:
        """What was measured."""
        return np.maximum(self.single, LEAST)

    def pooled_variance(self, values: FloatArray, rows: FloatArray) -> float:
        """The mean by rows."""
        return float(np.average(self.variances(values, rows), weights=rows))

    def interval(
        self, values: FloatArray, rows: FloatArray, level: float
    ) -> tuple[FloatArray, FloatArray]:
        """Student's; that of amounts allows for skew."""
        errors = np.sqrt(self.variances(values, rows) / rows)
        found = student(values, errors, self._freedom, level)
        if self.amounts is None:
            return found
        reach = stdtrit(self._freedom, 0.5 + level / 2)
        low, high = np.where(self.amounts, skewed(values, errors, reach), found)
        return low, high

    ends = interval
    shared = None

    def draw(
        self, values: FloatArray, rows: FloatArray, count: int, rng: np.random.Generator
    ) -> FloatArray:
        """Student's, as the variance is known from the same rows."""
        errors = np.sqrt(self.variances(values, rows) / rows)
        drawn: FloatArray = rng.standard_t(self._freedom, (count, len(values))) * errors
        return drawn

    def errors(self, slopes: FloatArray, values: FloatArray, rows: FloatArray) -> FloatArray:
        """From covariances where they are known."""
        scaled = slopes / np.sqrt(rows)
        variances = np.einsum("kmg,mg->k", scaled**2, self.variances(values, rows))
        if self.covariances is not None:
            both = np.einsum("kmg,mng,kng->k", scaled, self.covariances, scaled)
            variances = np.maximum(both, LEAST)  # sums round
        out: FloatArray = np.sqrt(variances)
        return out

    @property
    def _freedom(self) -> FloatArray:
        """At least 1: of a single row nothing is known, and of two hardly anything."""
        return np.maximum(self.counted - 1.0, 1.0)


def law_of(
    variances: FloatArray | None,
    counted: FloatArray,
    correlations: FloatArray | None = None,
    amounts: BoolArray | bool = False,
) -> SamplingLaw:
    """The law of the moments of a term.

    A few rows do not show how far numbers vary: the variance of a group is joined with that of
    ``BESIDE`` rows of everyone's, and of fewer the more rows there are.

    Parameters
    ----------
    variances : (n_moments, n_groups) or (n_moments, n_moments, n_groups) float64, optional
        Of a single row's quantities, or their covariances; None for shares. Where all rows of a
        group are alike, the variance of everyone's takes its place.
    counted : (n_moments, n_groups) float64
        Rows that count.
    correlations : (n_moments, n_groups, n_groups) float64, optional
        Of shares of groups that share rows.
    amounts : bool or array of bool
        As in :class:`MeanLaw`, or of all moments.

    Examples
    --------
    >>> law_of(None, np.array([[50.0, 50.0]])).range
    (0.0, 1.0)
    """
    if variances is None:
        return ShareLaw(correlations)
    single = variances if variances.ndim == 2 else np.einsum("mmg->mg", variances)
    # Among few rows without an event there may be some all the same: as many as elsewhere.
    weights = counted.mean(axis=0)
    pooled = np.average(single, axis=1, weights=weights)[:, np.newaxis]
    some = np.broadcast_to(amounts, single.shape) if np.any(amounts) else None
    beside = BESIDE * np.maximum(1.0 - weights / ENOUGH, 0.0)
    share = np.minimum(beside / np.maximum(weights - 1.0 + beside, 1.0), 1.0)

    def joined(of: FloatArray) -> FloatArray:
        everyone = np.average(of, axis=-1, weights=weights)[..., np.newaxis]
        out: FloatArray = (1.0 - share) * of + share * everyone
        return out

    single = np.where(single < ALIKE_ROWS * pooled, pooled, joined(single))
    if variances.ndim == 2:
        return MeanLaw(single, counted, amounts=some)
    of_pairs = joined(variances)
    np.einsum("mmg->mg", of_pairs)[:] = single
    return MeanLaw(single, counted, of_pairs, some)


def judge_gap(
    values: FloatArray,
    rows: FloatArray,
    level: float,
    law: SamplingLaw | None = None,
    *,
    units: FloatArray | None = None,
    parts: Parts = EVERY_GROUP,
) -> tuple[float, float, float]:
    """A gap between groups and its interval: in tables and in verdicts.

    Parameters
    ----------
    values, rows : (n_groups,) float64
        The moments of groups, and the rows that tell.
    level : float
        Coverage aimed at.
    law : SamplingLaw, optional
        How far moments are off by chance; as shares, if left out.
    units : (n_groups,) or (1,) float64, optional
        What gaps are measured in; 1, if left out.
    parts : sequence of index
        The groups that are compared with each other, stratum by stratum.

    Examples
    --------
    >>> found = judge_gap(np.array([0.3, 0.4]), np.array([500.0, 500.0]), 0.95)
    >>> [round(end, 3) for end in found]
    [0.1, 0.041, 0.158]
    """
    law, per = ShareLaw() if law is None else law, 1.0 if units is None else units

    def ends(confidence: float) -> tuple[FloatArray, FloatArray]:
        low, high = law.ends(values, rows, confidence)
        return low / per, high / per

    scaled = values / per
    value = max(float(np.ptp(scaled[part])) for part in parts)
    low, high = gap_interval(scaled, ends, level, correlations=law.shared, parts=parts)
    return value, min(low, value), max(high, value)


def drawn_errors(r: FloatArray, n: FloatArray, law: SamplingLaw | None = None) -> FloatArray:
    """Errors of the moments of groups in samples like the one seen.

    Parameters
    ----------
    r, n : (n_groups,) float64
        The moments, and the rows that tell.
    law : SamplingLaw, optional
        Theirs; that of shares, if left out.

    Returns
    -------
    (DRAWS, n_groups) float64
    """
    law = ShareLaw() if law is None else law
    # So that draws do not depend on how groups are ordered.
    order = np.lexsort((law.variances(r, n), r, n))
    back = np.argsort(order)
    rng = np.random.default_rng(0)
    errors: FloatArray = law.at(order).draw(r[order], n[order], DRAWS, rng)[:, back]
    return errors


def errors_of_violations(
    constraint: GroupConstraint, moments: GroupMoments, rows: FloatArray, law: SamplingLaw
) -> tuple[FloatArray, FloatArray]:
    """Violations of a constraint, and their standard errors.

    The delta method, at the moments seen and not where they are alike: there the derivative of a
    constraint on distances is 0.

    Parameters
    ----------
    constraint : GroupConstraint
        The constraint.
    moments : GroupMoments
        What it reads.
    rows : (n_moments, n_groups) float64
        The rows that tell.
    law : SamplingLaw
        How far moments are off by chance.
    """
    violations = np.asarray(constraint.violations(moments), np.float64)
    slopes = constraint.linearized(moments).A.dense().reshape(-1, *moments.values.shape)
    return violations, law.errors(slopes, moments.values, rows)


def judge_distances(
    shares: FloatArray, read: GroupMoments, rows: FloatArray, level: float, at_once: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How far shares of groups are from everyone's, at least and at most, (n_levels, n_groups).

    A group is compared with all others, as its own rows are among everyone's: with s its share of
    the rows, ``R_g - R = (1 - s) (R_g - R_others)``, and the interval of a difference of shares is
    as in :mod:`fairboost.metrics.intervals`.

    Parameters
    ----------
    shares : (n_levels, n_groups) float64
        The shares.
    read : GroupMoments
        Weights of the groups, and which are compared with each other.
    rows : (n_levels, n_groups) float64
        The rows that tell.
    level : float
        Coverage aimed at.
    at_once : float
        Distances whose low ends hold together.
    """
    w = np.broadcast_to(read.weights[:1], shares.shape)
    everyone = read.total(w)
    rest = np.maximum(everyone - w, LEAST)
    of_rest = np.clip((read.total(w * shares) - w * shares) / rest, 0.0, 1.0)
    square = w**2 / rows
    rows_of_rest = rest**2 / np.maximum(read.total(square) - square, LEAST)
    away, part = shares - of_rest, 1.0 - w / everyone
    found = []
    for tail in ((1 - level) / at_once, 1 - level):
        low, high = ends_of_differences(shares * rows, rows, 1 - tail)
        own = np.stack([shares - low, high - shares])
        low, high = ends_of_differences(of_rest * rows_of_rest, rows_of_rest, 1 - tail)
        others = np.stack([high - of_rest, of_rest - low])
        found.append(np.hypot(own, others))
    (down, up), (far_down, far_up) = found
    low = np.maximum(away - down, -away - up)
    high = np.maximum(away + far_up, far_down - away)
    return np.abs(away) * part, np.maximum(low, 0.0) * part, high * part


def distances_at_once(n_levels: int, n_groups: int) -> float:
    """How many distances those at all levels of all groups are, as low ends go.

    Neighbouring levels go together: 15 of them are hardly more than 8 that do not. Two groups have
    the same distance from each other.

    Examples
    --------
    >>> distances_at_once(15, 2), distances_at_once(15, 5)
    (8.0, 40.0)
    """
    return (n_levels + 1) / 2 * (1 if n_groups == 2 else n_groups)


def judge_over_expected(
    ratio: FloatArray, error: FloatArray, rows: FloatArray, level: float, at_once: int = 1
) -> tuple[FloatArray, FloatArray]:
    """Ends of actual over expected, as of amounts (:func:`fairboost.metrics.intervals.skewed`).

    Parameters
    ----------
    ratio, error : array
        The ratios, and their standard errors.
    rows : array
        The rows that tell.
    level : float
        Coverage aimed at.
    at_once : int
        Ratios whose intervals hold together.
    """
    reach = stdtrit(np.maximum(rows - 1.0, 1.0), 1.0 - (1.0 - level) / (2 * at_once))
    low, high = skewed(ratio, error, reach)
    return np.where(ratio == 0, 0.0, low), high  # 0 of what is never below 0


def judge_farthest_ratio(
    ratio: FloatArray, error: FloatArray, rows: FloatArray, level: float
) -> tuple[float, float, float]:
    """How far the farthest actual over expected is from 1, at least and at most.

    One ratio is the farthest in truth: its far end needs no others to hold with it.

    Parameters
    ----------
    ratio, error, rows, level
        As in :func:`judge_over_expected`.
    """
    low, high = judge_over_expected(ratio, error, rows, level, ratio.size)
    least = max(float((low - 1.0).max()), float((1.0 - high).max()), 0.0)
    low, high = judge_over_expected(ratio, error, rows, level)
    most = max(float((high - 1.0).max()), float((1.0 - low).max()))
    value = float(np.abs(ratio - 1.0).max())
    return value, min(least, value), max(most, value)
