"""Counts by cell of scored rows that come in batches: an audit of more rows than memory holds.

Rates depend on rows only through how many of each cell are decided positively, so a pass over the
rows that adds up counts is all an audit needs, and all that it keeps. Beside decisions, rows are
counted in bins of the score, for curves and calibration.

At a given threshold one pass will do. An operating point takes two. The first counts scores in
fine bins (:class:`ScoreHistogram`): 2^20 of them, made by the first 20 bits of the number, so that
they are narrow where scores are small. Somewhere between three neighbouring bins that hold rows
the rate crosses its target. The second pass keeps the rows of these bins as they are, so that the
threshold is the same to the last digit as if all rows had been sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.data.cells import Cells
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.all_reduce import in_order
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.metrics.score_bins import ScoreBins, bin_numbers
from fairboost.metrics.sums import crossing_name, group_names, weight_sums

_TAIL = np.geomspace(1e-6, 1e-2, 101)
EDGES = np.unique(np.hstack([np.linspace(0, 1, 501), _TAIL, 1 - _TAIL, np.nextafter(1, 2)]))
"""Ends of the bins in which scores of each cell are counted, closer together near 0 and 1."""

MOST_CELLS = 5_000
KEPT_BITS, ALL_BITS = 20, 64


@dataclass(frozen=True)
class Batch:
    """Some scored rows.

    Parameters
    ----------
    labels : (n,) int
        0 and 1.
    scores : (n,) float64
        Scores that rise with label 1.
    groups : sequence of (n,) int
        Per sensitive column, the group of each row; -1 is missing.
    weight : (n,) float64 or None
        Weights of the rows.
    """

    labels: IntArray
    scores: FloatArray
    groups: Sequence[IntArray] = ()
    weight: FloatArray | None = None


def _ordered_bits(scores: FloatArray) -> IntArray:
    """The first bits of numbers, in the order of the numbers."""
    return (in_order(scores + 0.0) >> np.uint64(ALL_BITS - KEPT_BITS)).astype(np.int64)


@dataclass(frozen=True)
class Bracket:
    """Bins between which a rate crosses its target.

    Parameters
    ----------
    point : OperatingPoint
        The rate and its target.
    first, last : int
        The bins; all rows below are decided negatively, all above positively.
    below, above : float
        Weight of the rows that count there.
    """

    point: OperatingPoint
    first: int
    last: int
    below: float
    above: float


class ScoreHistogram:
    """Weight by label and by fine bins of the score: the first pass of an operating point."""

    def __init__(self) -> None:
        self.weight = np.zeros((2, 1 << KEPT_BITS))

    def add(self, batch: Batch) -> None:
        """Count more rows."""
        n = self.weight.shape[1]
        where = _ordered_bits(batch.scores) + n * batch.labels.astype(np.int64)
        self.weight += np.bincount(where, batch.weight, 2 * n).reshape(2, n)

    def bracket(self, point: OperatingPoint, positive: int = 1) -> Bracket:
        """Find the bins between which the rate crosses its target.

        Parameters
        ----------
        point : OperatingPoint
            The rate and its target.
        positive : {0, 1}
            Which of the two labels counted is the positive one.
        """
        labels = np.array([1 - positive, positive])
        counted = self.weight[point.rate.counts(labels)].sum(axis=0)
        occupied = np.flatnonzero(counted)
        if not len(occupied):
            return Bracket(point, 0, 0, 0.0, 0.0)
        crossed = point.crossing(counted[occupied])
        first = int(occupied[max(crossed - 1, 0)])
        # A threshold above all rows that count may be above others that do not.
        of_all = len(counted) - 1
        last = int(occupied[crossed + 1]) if crossed + 1 < len(occupied) else of_all
        below, above = float(counted[:first].sum()), float(counted[last + 1 :].sum())
        return Bracket(point, first, last, below, above)


@dataclass(frozen=True)
class Counted:
    """What a pass over scored rows counted.

    Parameters
    ----------
    cells : Cells
        The cells; their ``codes`` are empty, since rows were not kept.
    sums : (3, 2, n_cells) float64
        Rows, weight and squared weight, by decision (negative, positive) and cell, as from
        :func:`fairboost.metrics.comparisons.tally`.
    bins : (4, n_cells, n_bins) float64
        Rows, weight, squared weight and weight times score, by cell and bin of the score; the bins
        are those between :data:`EDGES`.
    threshold : float
        Scores at or above it are positive decisions.
    lowest, highest : float
        The extreme scores: bins mean something only for probabilities.
    """

    cells: Cells
    sums: FloatArray
    bins: FloatArray
    threshold: float
    lowest: float
    highest: float

    @property
    def are_probabilities(self) -> bool:
        """Whether all scores lie between 0 and 1."""
        return self.lowest >= 0 and self.highest <= 1

    def by_group(self, columns: Sequence[str]) -> ScoreBins:
        """Scores by the groups of some columns crossed; of everyone without columns."""
        groups = self.cells.groups_by(columns)
        sums = np.zeros((4, 2, len(groups), self.bins.shape[2]))
        for cell, (label, g) in enumerate(zip(self.cells.labels, groups.of_cell, strict=True)):
            if g >= 0:
                sums[:, label, g] += self.bins[:, cell]
        return ScoreBins(crossing_name(columns), group_names(groups), EDGES, sums)


class ScoreCounter:
    """Count scored rows by cell, decision and bin of the score.

    Parameters
    ----------
    columns : sequence of str
        The sensitive columns.
    threshold : float or Bracket
        Scores at or above it are positive decisions; or the bins to find it in.

    Examples
    --------
    >>> counter = ScoreCounter(["sex"], 0.5)
    >>> sex = np.array([0, 0, 1, -1])
    >>> counter.add(Batch(np.array([0, 1, 1, 1]), np.array([0.2, 0.7, 0.4, 0.9]), [sex]))
    >>> counted = counter.result([("F", "M")])
    >>> counted.cells.labels.tolist(), counted.sums[0, 1].tolist()
    ([0, 1, 1, 1], [0.0, 1.0, 1.0, 0.0])
    """

    def __init__(self, columns: Sequence[str], threshold: float | Bracket) -> None:
        self.columns, self.threshold = tuple(columns), threshold
        self.lowest, self.highest = np.inf, -np.inf
        self._cells: dict[tuple[int, ...], int] = {}
        self._decided = np.zeros((3, 2, 0))
        self._bins = np.zeros((4, 0, len(EDGES) - 1))
        self._undecided: list[tuple[IntArray, FloatArray, FloatArray]] = []

    def add(self, batch: Batch) -> None:
        """Count more rows."""
        if not len(batch.scores):
            return
        codes = self._codes(batch)
        self.lowest = min(self.lowest, float(batch.scores.min()))
        self.highest = max(self.highest, float(batch.scores.max()))
        where = codes * (len(EDGES) - 1) + bin_numbers(batch.scores, EDGES)
        sums = weight_sums(where, batch.weight, self._bins[0].size, batch.scores)
        self._bins += sums.reshape(self._bins.shape)
        if not isinstance(self.threshold, Bracket):
            self._decide(codes, batch.scores >= self.threshold, batch.weight)
            return
        bits = _ordered_bits(batch.scores)
        open_ = (bits >= self.threshold.first) & (bits <= self.threshold.last)
        weight = np.ones(len(codes)) if batch.weight is None else batch.weight
        self._decide(codes[~open_], bits[~open_] > self.threshold.last, weight[~open_])
        if open_.any():
            kept = codes[open_], batch.scores[open_], weight[open_]
            self._undecided.append(_merge_equal(*kept))

    def result(self, values: Sequence[tuple[object, ...]], *, positive: int = 1) -> Counted:
        """What was counted.

        Parameters
        ----------
        values : sequence of tuple
            Per sensitive column, what its codes stand for.
        positive : {0, 1}
            Which of the two labels counted is the positive one.
        """
        keys = np.array(list(self._cells), np.int32).reshape(-1, 1 + len(self.columns))
        if positive == 0:
            keys[:, 0] = 1 - keys[:, 0]
        known = [sorted(those, key=str) for those in values]  # as they come by no rule
        for k, (those, ranked) in enumerate(zip(values, known, strict=True), start=1):
            rank = np.array([*(ranked.index(value) for value in those), -1], np.int32)
            keys[:, k] = rank[keys[:, k]]
        order = np.lexsort(keys.T[::-1])
        keys = keys[order]
        if isinstance(self.threshold, Bracket):
            self.threshold = self._settle(self.threshold, positive)
        sums = self._decided[..., order]
        groups: dict[str, IntArray] = dict(zip(self.columns, keys.T[1:], strict=True))
        names = dict(zip(self.columns, map(tuple, known), strict=True))
        cells = Cells(np.zeros(0, np.uint8), keys[:, 0], groups, names, *sums.sum(axis=1))
        bins = self._bins[:, order]
        return Counted(cells, sums, bins, self.threshold, self.lowest, self.highest)

    def _codes(self, batch: Batch) -> IntArray:
        """Cell of each row; new cells are numbered as they come, and sums make room for them."""
        groups = [np.add(codes, 1, dtype=np.int64) for codes in batch.groups]  # -1 becomes 0
        widths = (2, *(int(codes.max()) + 1 for codes in groups))
        inverse, present = pd.factorize(np.ravel_multi_index((batch.labels, *groups), widths))
        found = np.stack(np.unravel_index(present, widths), axis=1) - [0, *(1 for _ in groups)]
        numbers = [self._cells.setdefault(tuple(k), len(self._cells)) for k in found.tolist()]
        if len(self._cells) > MOST_CELLS:
            raise InvalidInputError(
                f"the sensitive columns {', '.join(self.columns)} cross to more than "
                f"{MOST_CELLS:,} groups; leave one out, or merge values"
            )
        old, wanted = self._bins.shape[1], len(self._cells)
        if wanted > old:
            more = (0, max(wanted, 2 * old) - old)  # at least to twice their size
            self._decided = np.pad(self._decided, ((0, 0), (0, 0), more))
            self._bins = np.pad(self._bins, ((0, 0), more, (0, 0)))
        return np.array(numbers)[inverse]

    def _decide(self, codes: IntArray, positive: BoolArray, weight: FloatArray | None) -> None:
        n = self._decided.shape[2]
        self._decided += weight_sums(codes + n * positive, weight, 2 * n).reshape(3, 2, n)

    def _settle(self, bracket: Bracket, positive: int) -> float:
        """Find the threshold among the rows kept, and decide about them."""
        none = np.zeros(0, np.int64), np.zeros(0), np.zeros((3, 0))
        parts = zip(none, *self._undecided, strict=True)
        codes, scores, sums = (np.concatenate(part, axis=-1) for part in parts)
        label_of = np.array([key[0] for key in self._cells], np.int32)
        counts = bracket.point.rate.counts(label_of[codes] if positive else 1 - label_of[codes])
        edge = np.finfo(np.float64).max
        threshold = bracket.point.among(
            np.concatenate([[-edge], scores[counts], [edge]]),
            np.concatenate([[bracket.below], sums[1, counts], [bracket.above]]),
        )
        self._undecided = []
        where = codes + self._decided.shape[2] * (scores >= threshold)
        settled = [np.bincount(where, total, self._decided[0].size) for total in sums]
        self._decided += np.reshape(settled, self._decided.shape)
        return threshold


def _merge_equal(
    codes: IntArray, scores: FloatArray, weight: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Rows, weight and squared weight of each cell and score: many rows may tie."""
    order = np.lexsort((codes, scores))
    codes, scores, weight = codes[order], scores[order], weight[order]
    new = np.ones(len(codes), bool)
    new[1:] = (codes[1:] != codes[:-1]) | (scores[1:] != scores[:-1])
    starts = np.flatnonzero(new)
    powers = np.array([weight > 0, weight, weight**2], np.float64)
    return codes[starts], scores[starts], np.add.reduceat(powers, starts, axis=1)
