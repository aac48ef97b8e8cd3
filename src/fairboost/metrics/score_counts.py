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
from dataclasses import dataclass, field

import numpy as np

from fairboost._typing import BoolArray, FloatArray, IntArray
from fairboost.data.cells import Cells
from fairboost.exceptions import InvalidInputError
from fairboost.fairness.operating_points import OperatingPoint
from fairboost.metrics.score_bins import ScoreBins

EDGES = np.unique(
    np.concatenate(
        [
            np.linspace(0, 1, 501),
            np.geomspace(1e-6, 1e-2, 101),
            1 - np.geomspace(1e-6, 1e-2, 101),
            [np.nextafter(1, 2)],
        ]
    )
)
"""Ends of the bins in which scores of each cell are counted, closer together near 0 and 1."""

MOST_CELLS = 5_000
KEPT_BITS, ALL_BITS = 20, 64
SIGN = np.uint64(1 << 63)


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
    bits = (scores + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    ordered = np.where(bits & SIGN, ~bits, bits | SIGN)
    found: IntArray = (ordered >> np.uint64(ALL_BITS - KEPT_BITS)).astype(np.int64)
    return found


@dataclass(frozen=True)
class Bracket:
    """Bins between which a rate crosses its target.

    Parameters
    ----------
    first, last : int
        The bins; all rows below are decided negatively, all above positively.
    below, above : float
        Weight of the rows that count there.
    """

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
            return Bracket(0, 0, 0.0, 0.0)
        crossed = point.crossing(counted[occupied])
        first, last = max(crossed - 1, 0), min(crossed + 1, len(occupied) - 1)
        return Bracket(
            int(occupied[first]),
            int(occupied[last]),
            float(counted[: occupied[first]].sum()),
            float(counted[occupied[last] + 1 :].sum()),
        )


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
        names = tuple(", ".join(map(str, values)) for values in groups.names)
        return ScoreBins(", ".join(columns), names if columns else ("everyone",), EDGES, sums)


@dataclass
class _Sums:
    """Sums that grow by cells."""

    decided: FloatArray = field(default_factory=lambda: np.zeros((0, 3, 2)))
    bins: FloatArray = field(default_factory=lambda: np.zeros((0, 4, len(EDGES) - 1)))

    def reach(self, n_cells: int) -> None:
        for name in ("decided", "bins"):
            old = getattr(self, name)
            if len(old) < n_cells:
                more = np.zeros((max(n_cells, 2 * len(old)) - len(old), *old.shape[1:]))
                setattr(self, name, np.concatenate([old, more]))


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
        self._sums = _Sums()
        self._undecided: list[tuple[IntArray, FloatArray, FloatArray]] = []

    def add(self, batch: Batch) -> None:
        """Count more rows."""
        if not len(batch.scores):
            return
        codes = self._codes(batch)
        self._sums.reach(len(self._cells))
        self.lowest = min(self.lowest, float(batch.scores.min()))
        self.highest = max(self.highest, float(batch.scores.max()))
        powers = _powers(batch.weight, len(codes))
        self._count_bins(codes, batch, powers)
        if not isinstance(self.threshold, Bracket):
            self._decide(codes, batch.scores >= self.threshold, powers)
            return
        where = _ordered_bits(batch.scores)
        open_ = (where >= self.threshold.first) & (where <= self.threshold.last)
        settled = ~open_
        self._decide(
            codes[settled], where[settled] > self.threshold.last, [p[settled] for p in powers]
        )
        if open_.any():
            self._undecided.append(
                _merge_equal(codes[open_], batch.scores[open_], np.stack(powers)[:, open_])
            )

    def result(
        self,
        values: Sequence[tuple[object, ...]],
        *,
        positive: int = 1,
        point: OperatingPoint | None = None,
    ) -> Counted:
        """What was counted.

        Parameters
        ----------
        values : sequence of tuple
            Per sensitive column, what its codes stand for.
        positive : {0, 1}
            Which of the two labels counted is the positive one.
        point : OperatingPoint, optional
            What the bracket was made for.
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
        threshold = self.threshold
        if isinstance(threshold, Bracket):
            if point is None:
                raise InvalidInputError("a bracket needs the operating point it was made for")
            threshold = self._settle(point, threshold, positive)
        decided = self._sums.decided[order]
        sums = np.moveaxis(decided, 0, 2)
        totals = sums.sum(axis=1)
        cells = Cells(
            codes=np.zeros(0, np.uint8),
            labels=keys[:, 0],
            groups={name: keys[:, 1 + k] for k, name in enumerate(self.columns)},
            values={c: tuple(v) for c, v in zip(self.columns, known, strict=True)},
            counts=totals[0],
            weights=totals[1],
            squares=totals[2],
        )
        bins = np.moveaxis(self._sums.bins[order], 0, 1)
        return Counted(cells, sums, bins, threshold, self.lowest, self.highest)

    def _codes(self, batch: Batch) -> IntArray:
        """Cell of each row; new cells are numbered as they come."""
        joint: IntArray = batch.labels.astype(np.int64)
        widths = []
        for groups in batch.groups:
            widths.append(int(groups.max(initial=-1)) + 2)  # code -1 becomes 0
            joint = joint * widths[-1] + groups + 1
        present, inverse = _unique(joint, 2 * int(np.prod(widths, dtype=np.float64)))
        numbers = np.empty(len(present), np.int64)
        for k, code in enumerate(present.tolist()):
            key: list[int] = []
            for width in reversed(widths):
                code, group = divmod(code, width)
                key.insert(0, group - 1)
            numbers[k] = self._cells.setdefault((code, *key), len(self._cells))
        if len(self._cells) > MOST_CELLS:
            raise InvalidInputError(
                f"the sensitive columns {', '.join(self.columns)} cross to more than "
                f"{MOST_CELLS:,} groups; leave one out, or merge values"
            )
        return numbers[inverse]

    def _decide(self, codes: IntArray, positive: BoolArray, powers: Sequence[FloatArray]) -> None:
        n = len(self._sums.decided)
        for k, total in enumerate(_totals(codes + n * positive, powers, 2 * n)):
            self._sums.decided[:, k] += total.reshape(2, n).T

    def _count_bins(self, codes: IntArray, batch: Batch, powers: Sequence[FloatArray]) -> None:
        n, width = len(self._sums.bins), len(EDGES) - 1
        bins = np.clip(np.searchsorted(EDGES, batch.scores, side="right") - 1, 0, width - 1)
        where = codes * width + bins
        parts = [*powers, powers[1] * batch.scores]
        for k, total in enumerate(_totals(where, parts, n * width)):
            self._sums.bins[:, k] += total.reshape(n, width)

    def _settle(self, point: OperatingPoint, bracket: Bracket, positive: int) -> float:
        """Find the threshold among the rows kept, and decide about them."""
        if self._undecided:
            parts = [np.concatenate(part, axis=-1) for part in zip(*self._undecided, strict=True)]
            codes, scores, sums = parts
        else:
            codes, scores, sums = np.zeros(0, np.int64), np.zeros(0), np.zeros((3, 0))
        label_of = np.array([key[0] for key in self._cells], np.int32)
        labels = label_of[codes] if positive else 1 - label_of[codes]
        counts = point.rate.counts(labels)
        edge = np.finfo(np.float64).max
        threshold = point.among(
            np.concatenate([[-edge], scores[counts], [edge]]),
            np.concatenate([[bracket.below], sums[1, counts], [bracket.above]]),
        )
        self._undecided = []
        self._decide(codes, scores >= threshold, list(sums))
        self.threshold = threshold
        return threshold


def _powers(weight: FloatArray | None, n: int) -> list[FloatArray]:
    """What is summed: rows, weight, squared weight; a row of weight 0 is left out."""
    if weight is None:
        ones = np.ones(n)
        return [ones, ones, ones]
    return [(weight > 0).astype(np.float64), weight, weight**2]


def _totals(where: IntArray, powers: Sequence[FloatArray], n: int) -> list[FloatArray]:
    """Sums of each power at each place."""
    found: dict[int, FloatArray] = {}  # without weights the powers are one array
    for power in powers:
        if id(power) not in found:
            found[id(power)] = np.bincount(where, power, n).astype(np.float64)
    return [found[id(power)] for power in powers]


def _unique(codes: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Codes that occur, and which of these each row has."""
    if n > 2**22:
        present, inverse = np.unique(codes, return_inverse=True)
        return present, inverse
    occurs = np.bincount(codes, minlength=n) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def _merge_equal(
    codes: IntArray, scores: FloatArray, sums: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Add up rows of the same cell and score: many rows may tie."""
    order = np.lexsort((codes, scores))
    codes, scores, sums = codes[order], scores[order], sums[:, order]
    new = np.ones(len(codes), bool)
    new[1:] = (codes[1:] != codes[:-1]) | (scores[1:] != scores[:-1])
    starts = np.flatnonzero(new)
    return codes[starts], scores[starts], np.add.reduceat(sums, starts, axis=1)
