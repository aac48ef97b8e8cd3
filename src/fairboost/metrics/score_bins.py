"""Scores sorted into bins, by label and group: enough for ROC curves, histograms and calibration.

Sums over bins are small whatever the number of rows, and add up over parts of a file. Bins are
closed below and open above, as decisions are: from the threshold on. The rates of a ROC curve are
those of :mod:`fairboost.fairness.rates`, with every edge as threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairboost._typing import FloatArray, IntArray
from fairboost.fairness.rates import RATES
from fairboost.metrics.intervals import wilson
from fairboost.metrics.sums import group_sums_of_sets, quotient, weight_sums

FINE = 1_000
"""Bins that curves are read off; fewer if there are fewer scores."""

COARSE = 40
"""Bins of histograms."""


@dataclass(frozen=True)
class ScoreBins:
    """Sums over rows, by label, group and bin.

    Parameters
    ----------
    attribute : str
        The sensitive column; empty for everyone.
    groups : tuple of str
        The groups.
    edges : (n_bins + 1,) float64
        Ends of the bins, rising.
    sums : (4, 2, n_groups, n_bins) float64
        Rows, weight, squared weight, and weight times score; by label, group and bin.
    """

    attribute: str
    groups: tuple[str, ...]
    edges: FloatArray
    sums: FloatArray

    def roc(self, points: int = 200) -> pd.DataFrame:
        """ROC curves: ``attribute``, ``group``, ``threshold``, ``fpr``, ``tpr``.

        Parameters
        ----------
        points : int
            How many to keep of each curve at most. They are spread evenly along it.
        """
        fpr, tpr = self._rates("fpr"), self._rates("tpr")
        kept = [_spread(along, points) for along in (fpr + tpr).T]
        g, k = np.repeat(np.arange(len(kept)), list(map(len, kept))), np.concatenate(kept)
        return self._table(g, threshold=self.edges[k], fpr=fpr[k, g], tpr=tpr[k, g])

    def auc(self) -> dict[str, float]:
        """Area under the ROC curve of each group; NaN where a label is missing."""
        fpr, tpr = self._rates("fpr"), self._rates("tpr")
        areas = np.atleast_1d(-np.trapezoid(tpr, fpr, axis=0))
        return dict(zip(self.groups, areas.tolist(), strict=True))

    def at(self, threshold: float) -> pd.DataFrame:
        """``group``, ``fpr`` and ``tpr`` at the edge that is next to a threshold."""
        k = int(np.abs(self.edges - threshold).argmin())
        g = np.arange(len(self.groups))
        return self._table(g, fpr=self._rates("fpr")[k], tpr=self._rates("tpr")[k])

    def histogram(self, bins: int = COARSE) -> pd.DataFrame:
        """Shares of rows by group and label.

        Parameters
        ----------
        bins : int
            How many, of equal width.

        Returns
        -------
        pandas.DataFrame
            ``attribute``, ``group``, ``label``, ``low`` and ``high`` of the bin, ``share`` of the
            weight of this group and label, and ``rows`` in the bin.
        """
        edges, sums = self._merged(np.linspace(self.edges[0], self.edges[-1], bins + 1))
        rows, weight = sums[0], sums[1]
        whole = weight.sum(axis=-1, keepdims=True)
        share = np.divide(weight, whole, out=np.zeros_like(weight), where=whole > 0)
        label, g, k = np.indices(weight.shape).reshape(3, -1)
        figures = {"share": share.ravel(), "rows": rows.ravel().astype(np.int64)}
        return self._table(g, label=label, low=edges[k], high=edges[k + 1], **figures)

    def calibration(self, bins: int = 10, confidence: float = 0.95) -> pd.DataFrame:
        """Predicted against found shares of positive labels; scores must be probabilities.

        Parameters
        ----------
        bins : int
            How many at most. Each holds about as many of all rows; groups share them.
        confidence : float
            Nominal coverage of the intervals.

        Returns
        -------
        pandas.DataFrame
            ``attribute``, ``group``, ``predicted``, ``found``, ``low``, ``high`` and ``rows``, one
            line per group and bin that has rows.
        """
        weight = self.sums[1].sum(axis=(0, 1))
        ranks = np.concatenate([[0.0], np.cumsum(weight) / weight.sum()])
        cuts = np.searchsorted(ranks, np.linspace(0, 1, bins + 1)[1:-1] - 1e-9)
        _, sums = self._merged(self.edges[[0, *np.unique(cuts), -1]])
        rows, total, square, score = sums.sum(axis=1)
        g, k = np.nonzero(total > 0)
        n = total[g, k]
        found = sums[1, 1, g, k] / n
        effective = n**2 / square[g, k]
        low, high = wilson(np.minimum(found, 1.0) * effective, effective, confidence)
        figures = {"low": low, "high": high, "rows": rows[g, k].astype(np.int64)}
        return self._table(g, predicted=score[g, k] / n, found=found, **figures)

    def _table(self, g: IntArray, **columns: np.ndarray) -> pd.DataFrame:
        """Columns of figures, each line about group number g."""
        group = np.array(self.groups, object)[g]
        return pd.DataFrame({"attribute": self.attribute, "group": group, **columns})

    def _rates(self, name: str) -> FloatArray:
        """A rate of each group with each edge as threshold: (n_bins + 1, n_groups)."""
        n_groups = len(self.groups)
        weight = self.sums[1].reshape(2 * n_groups, -1)  # label and group are the cells
        above = np.pad(np.cumsum(weight[:, ::-1], axis=1)[:, ::-1], [(0, 0), (0, 1)]).T
        labels = np.repeat(np.arange(2, dtype=np.int32), n_groups)
        groups = np.tile(np.arange(n_groups, dtype=np.int32), 2)
        total = np.broadcast_to(above[0], above.shape)
        return quotient(*group_sums_of_sets(RATES[name], labels, groups, n_groups, total, above))

    def _merged(self, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fewer bins, whose edges are those of ours that are next to the ones wanted."""
        nearest = np.abs(self.edges[:, np.newaxis] - wanted).argmin(axis=0)
        starts = np.unique(nearest)
        return self.edges[starts], np.add.reduceat(self.sums, starts[:-1], axis=-1)


def make_edges(scores: FloatArray, threshold: float | None = None) -> FloatArray:
    """Edges of bins for scores that are all at hand.

    They lie where scores are dense, at even distances and at the threshold, so that curves,
    histograms and decisions can be read off the same sums. Up to a thousand scores have an edge
    each, and curves are exact.

    Parameters
    ----------
    scores : (n,) float64
        The scores.
    threshold : float, optional
        Where decisions are made.
    """
    low, high = float(scores.min()), float(scores.max())
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    dense = np.unique(scores)
    if len(dense) > FINE:
        dense = np.quantile(scores, np.linspace(0, 1, FINE + 1), method="lower")
    parts = [dense, np.linspace(low, high, COARSE + 1)]
    if threshold is not None and low <= threshold <= high:
        parts.append(np.array([threshold]))
    edges = np.unique(np.concatenate(parts))
    return np.append(edges, np.nextafter(edges[-1], np.inf))


def bin_numbers(scores: FloatArray, edges: FloatArray) -> IntArray:
    """Which bin each score is in; those outside the edges are in the outermost bins."""
    return np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, len(edges) - 2)


def bin_scores(
    scores: FloatArray,
    labels: IntArray,
    codes: IntArray,
    groups: tuple[str, ...],
    edges: FloatArray,
    *,
    attribute: str = "",
    sample_weight: FloatArray | None = None,
) -> ScoreBins:
    """Sort rows into bins.

    Parameters
    ----------
    scores : (n,) float64
        Scores; those outside the edges count in the outermost bins.
    labels : (n,) int
        0 and 1.
    codes : (n,) int
        Group of each row; -1, a missing group, counts nowhere.
    groups : tuple of str
        Names of the groups.
    edges : (n_bins + 1,) float64
        Ends of the bins, see :func:`make_edges`.
    attribute : str
        What the groups are groups of.
    sample_weight : (n,) float64, optional
        Weights of the rows.

    Examples
    --------
    >>> scores, labels = np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1])
    >>> bins = bin_scores(scores, labels, np.zeros(4, int), ("all",), np.linspace(0, 1, 3))
    >>> bins.sums[0, :, 0].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    n_groups, n_bins = len(groups), len(edges) - 1
    known = codes >= 0
    place = bin_numbers(scores, edges)
    index = ((labels.astype(np.intp) * n_groups + codes) * n_bins + place)[known]
    weight = None if sample_weight is None else sample_weight[known]
    sums = weight_sums(index, weight, 2 * n_groups * n_bins, scores[known])
    return ScoreBins(attribute, groups, edges, sums.reshape(4, 2, n_groups, n_bins))


def _spread(along: FloatArray, points: int) -> IntArray:
    """Positions of points about evenly spread along a falling curve; both ends are among them."""
    if np.isnan(along).any():
        return np.zeros(0, np.int64)
    moved = np.flatnonzero(np.diff(along, prepend=np.inf))  # nothing changes between the others
    if len(moved) <= points:
        return moved
    wanted = np.linspace(along[moved[0]], along[moved[-1]], points)
    nearest = np.searchsorted(-along[moved], -wanted).clip(0, len(moved) - 1)
    return np.take(moved, np.unique(nearest))
